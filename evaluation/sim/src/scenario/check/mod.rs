//! From the file's spelling to a scenario that can be run, or the reason why not.

mod flow;
mod impair;
mod link;
mod repeat;

use super::error::{FROM_SET, Origin, ScenarioError};
use super::file::{RawChange, RawRandomChange, RawScenario};
use super::{AGENT_DELAY, Change, HEADER_BYTES, INFERENCE, LinkChange, LinkSpec, RandomChange, Scenario};
use crate::link::Capacity;
use anole_model::{Dur, Rate, Time};
use link::MAX_BURST_MS;
pub(crate) use link::MAX_LTE_MBIT;
use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use toml::Spanned;

/// RFC 9293 §3.7.1's default for IPv4, without options: 536 bytes; smaller payloads are allowed, but
/// not none.
const MIN_MSS_BYTES: u32 = 64;
/// The largest IPv4 packet, less headers.
const MAX_MSS_BYTES: u32 = 65_535 - HEADER_BYTES;
/// Ethernet payload of 1500 bytes, less headers.
const DEFAULT_MSS_BYTES: u32 = 1448;
/// A day: longer than any experiment, and far from the range of [`Time`].
const MAX_SECONDS: f64 = 86_400.0;
/// Rates of links and of what is sent: up to 10 Gbit/s, at most 10^6 packets a second, which the simulator still
/// carries in a second.
pub const RATE_MBPS: RangeInclusive<f64> = 1e-3..=10_000.0;

type Result<T> = std::result::Result<T, ScenarioError>;

pub(super) struct Check<'a> {
    pub origin: Origin<'a>,
    pub load_trace: &'a mut dyn FnMut(&str) -> std::result::Result<String, String>,
    /// `--set` gives the duration: what the file has after the end is left out, which is a mistake otherwise.
    pub shortened: bool,
}

impl Check<'_> {
    pub fn scenario(mut self, raw: RawScenario, params: BTreeMap<String, f64>) -> Result<Scenario> {
        let name = self.required(raw.name, "name = \"…\"", 0..0)?;
        let duration_s = match &raw.duration_s {
            Some(d) => self.within(d, "duration_s", 1e-3, MAX_SECONDS)?,
            None => {
                return Err(self
                    .origin
                    .error(0..0, "duration_s is missing; add for example duration_s = 30.0"));
            }
        };
        let warmup_s = self.or(&raw.warmup_s, "warmup_s", 0.0, 0.0, MAX_SECONDS)?;
        if warmup_s >= duration_s {
            let span = span_of(&raw.warmup_s);
            let message = format!("warmup_s = {warmup_s} leaves nothing of duration_s = {duration_s}");
            return Err(self.origin.error(span, message));
        }
        let mss = match &raw.mss_bytes {
            None => DEFAULT_MSS_BYTES,
            Some(mss) => {
                let bytes = *mss.get_ref();
                if !(MIN_MSS_BYTES..=MAX_MSS_BYTES).contains(&bytes) {
                    let message =
                        format!("mss_bytes = {bytes} is outside {MIN_MSS_BYTES} to {MAX_MSS_BYTES} bytes");
                    return Err(self.origin.error(mss.span(), message));
                }
                bytes
            }
        };
        let mut scenario = Scenario {
            name,
            source: raw.source.map(Spanned::into_inner).unwrap_or_default(),
            duration: Dur::from_secs_f64(duration_s),
            warmup: Dur::from_secs_f64(warmup_s),
            seed: raw.seed.map_or(1, Spanned::into_inner),
            mss,
            agent_delay: self.micros(&raw.agent_delay_us, "agent_delay_us", AGENT_DELAY)?,
            inference: self.micros(&raw.inference_us, "inference_us", INFERENCE)?,
            links: Vec::new(),
            changes: Vec::new(),
            random_changes: Vec::new(),
            flows: Vec::new(),
            params,
        };
        if raw.link.is_empty() {
            return Err(self.origin.error(0..0, "no [[link]]; a scenario needs at least one"));
        }
        self.shortened = raw.duration_s.as_ref().is_some_and(|d| d.span() == FROM_SET);
        for link in raw.link {
            let link = self.link(&scenario, link)?;
            scenario.links.push(link);
        }
        let mut last = Time::ZERO;
        for change in raw.change {
            let span = change.span();
            let (change, every) = self.change(&scenario, change, last)?;
            self.in_the_run(&scenario, "the change", change.at, span)?;
            last = change.at;
            repeat::push(&mut scenario, change, every);
        }
        scenario.changes.sort_by_key(|change| change.at);
        for change in raw.random_change {
            let change = self.random_change(&scenario, change)?;
            scenario.random_changes.push(change);
        }
        if raw.flow.is_empty() {
            return Err(self.origin.error(0..0, "no [[flow]]; a scenario needs at least one"));
        }
        for flow in raw.flow {
            self.flow(&mut scenario, flow)?;
        }
        Ok(scenario)
    }

    /// A change, not before `last`, and how often it comes again.
    fn change(
        &mut self,
        scenario: &Scenario,
        raw: Spanned<RawChange>,
        last: Time,
    ) -> Result<(Change, Option<Dur>)> {
        let table = raw.span();
        let raw = raw.into_inner();
        let at_s = match &raw.at_s {
            Some(at) => self.within(at, "at_s", 0.0, MAX_SECONDS)?,
            None => return Err(self.origin.error(table, "at_s is missing in [[change]]")),
        };
        let at = Time::from_secs_f64(at_s);
        if at < last {
            let message =
                format!("the change at {at_s} s stands after a later one; order [[change]] by at_s");
            return Err(self.origin.error(span_or(&raw.at_s, &table), message));
        }
        let every = self.repetition(scenario, &raw.every_s)?;
        let link = self.link_named(scenario, raw.link, &table)?;
        let change = LinkChange {
            capacity: match &raw.capacity_mbps {
                None => None,
                Some(mbps) => {
                    self.must_not_follow_trace(scenario, link, mbps.span())?;
                    Some(self.rate(mbps, "capacity_mbps")?)
                }
            },
            one_way_delay: match &raw.one_way_delay_ms {
                None => None,
                Some(ms) => Some(millis(self.within(ms, "one_way_delay_ms", 0.0, MAX_SECONDS * 1e3)?)),
            },
            random_loss: match &raw.random_loss {
                None => None,
                Some(loss) => Some(self.within(loss, "random_loss", 0.0, 1.0)?),
            },
            buffer_bytes: match &raw.buffer_bytes {
                None => None,
                Some(bytes) => Some(self.buffer(bytes)?),
            },
            jitter: match &raw.jitter_ms {
                None => None,
                Some(ms) => Some(millis(self.within(ms, "jitter_ms", 0.0, MAX_BURST_MS)?)),
            },
        };
        if change == LinkChange::default() {
            let message = "this [[change]] changes nothing; add capacity_mbps, one_way_delay_ms, random_loss, buffer_bytes or jitter_ms";
            return Err(self.origin.error(table, message));
        }
        Ok((Change { at, link, change }, every))
    }

    fn random_change(&mut self, scenario: &Scenario, raw: Spanned<RawRandomChange>) -> Result<RandomChange> {
        let table = raw.span();
        let raw = raw.into_inner();
        let every_s = match &raw.every_s {
            Some(every) => self.within(every, "every_s", 1e-3, MAX_SECONDS)?,
            None => return Err(self.origin.error(table, "every_s is missing in [[random_change]]")),
        };
        let (every, span) = (Dur::from_secs_f64(every_s), span_or(&raw.every_s, &table));
        self.not_too_often(scenario, every_s, &span)?;
        self.in_the_run(scenario, "the first [[random_change]]", Time::ZERO + every, span)?;
        let link = self.link_named(scenario, raw.link, &table)?;
        if let Some(mbps) = &raw.capacity_mbps {
            self.must_not_follow_trace(scenario, link, mbps.span())?;
        }
        let change = RandomChange {
            every,
            link,
            capacity_mbps: self.range(
                &raw.capacity_mbps,
                "capacity_mbps",
                *RATE_MBPS.start(),
                *RATE_MBPS.end(),
            )?,
            one_way_delay_ms: self.range(
                &raw.one_way_delay_ms,
                "one_way_delay_ms",
                0.0,
                MAX_SECONDS * 1e3,
            )?,
            random_loss: self.range(&raw.random_loss, "random_loss", 0.0, 1.0)?,
        };
        if (change.capacity_mbps, change.one_way_delay_ms, change.random_loss) == (None, None, None) {
            let message =
                "this [[random_change]] changes nothing; add capacity_mbps, one_way_delay_ms or random_loss";
            return Err(self.origin.error(table, message));
        }
        Ok(change)
    }

    /// Refuses what happens first when the run is over.
    fn in_the_run(&self, scenario: &Scenario, what: &str, at: Time, span: Range<usize>) -> Result<()> {
        if at < scenario.end() || self.shortened {
            return Ok(());
        }
        let (at_s, duration_s) = (at.as_secs_f64(), scenario.duration.as_secs_f64());
        let message = format!("{what} at {at_s} s comes after the run of duration_s = {duration_s}");
        Err(self.origin.error(span, message))
    }

    /// A buffer is not nothing. In a small one a full packet still may wait.
    fn buffer<T: Copy + Default + PartialEq>(&self, size: &Spanned<T>) -> Result<T> {
        if *size.get_ref() != T::default() {
            return Ok(*size.get_ref());
        }
        let message = "a buffer of 0: nothing could wait; write for example buffer_packets = 1";
        Err(self.origin.error(size.span(), message))
    }

    fn link_named(
        &self,
        scenario: &Scenario,
        name: Option<Spanned<String>>,
        table: &Range<usize>,
    ) -> Result<usize> {
        match name {
            Some(name) => self.link_index(scenario, name.get_ref(), name.span()),
            None if scenario.links.len() == 1 => Ok(0),
            None => Err(self.origin.error(table.clone(), "link = \"…\" is missing, and there are several")),
        }
    }

    fn link_index(&self, scenario: &Scenario, name: &str, span: Range<usize>) -> Result<usize> {
        scenario.links.iter().position(|link| link.name == name).ok_or_else(|| {
            let known: Vec<&str> = scenario.links.iter().map(|link| link.name.as_str()).collect();
            self.origin.error(span, format!("no link is named \"{name}\"; links: {}", known.join(", ")))
        })
    }

    fn must_not_follow_trace(&self, scenario: &Scenario, link: usize, span: Range<usize>) -> Result<()> {
        let LinkSpec { name, capacity, lte, .. } = &scenario.links[link];
        if lte.is_none() && matches!(capacity, Capacity::Fixed(_)) {
            return Ok(());
        }
        let message = format!("link \"{name}\" follows a trace, so its capacity cannot be changed");
        Err(self.origin.error(span, message))
    }

    fn rate(&self, mbps: &Spanned<f64>, key: &str) -> Result<Rate> {
        let mbps = self.within(mbps, key, *RATE_MBPS.start(), *RATE_MBPS.end())?;
        Ok(Rate::from_mbps(mbps))
    }

    fn required(&self, value: Option<Spanned<String>>, what: &str, table: Range<usize>) -> Result<String> {
        value.map(Spanned::into_inner).ok_or_else(|| self.origin.error(table, format!("{what} is missing")))
    }

    fn or(&self, value: &Option<Spanned<f64>>, key: &str, default: f64, low: f64, high: f64) -> Result<f64> {
        value.as_ref().map_or(Ok(default), |value| self.within(value, key, low, high))
    }

    /// A time of the agent's, at most a second.
    fn micros(&self, value: &Option<Spanned<f64>>, key: &str, default: Dur) -> Result<Dur> {
        let Some(value) = value else { return Ok(default) };
        Ok(Dur::from_secs_f64(self.within(value, key, 0.0, 1e6)? / 1e6))
    }

    /// A number within bounds; NaN is within none.
    fn within(&self, value: &Spanned<f64>, key: &str, low: f64, high: f64) -> Result<f64> {
        let number = *value.get_ref();
        if (low..=high).contains(&number) {
            return Ok(number);
        }
        let message = format!("{key} = {number} is outside {low} to {high}");
        Err(self.origin.error(value.span(), message))
    }

    fn range(
        &self,
        value: &Option<Spanned<(f64, f64)>>,
        key: &str,
        low: f64,
        high: f64,
    ) -> Result<Option<(f64, f64)>> {
        let Some(value) = value else { return Ok(None) };
        let (from, to) = *value.get_ref();
        if (low..=high).contains(&from) && (low..=high).contains(&to) && from <= to {
            return Ok(Some((from, to)));
        }
        let message = format!("{key} = [{from}, {to}]: write [low, high], within {low} to {high}");
        Err(self.origin.error(value.span(), message))
    }
}

fn millis(ms: f64) -> Dur {
    Dur::from_secs_f64(ms / 1e3)
}

fn span_of<T>(value: &Option<Spanned<T>>) -> Range<usize> {
    span_or(value, &(0..0))
}

fn span_or<T>(value: &Option<Spanned<T>>, table: &Range<usize>) -> Range<usize> {
    value.as_ref().map_or(table.clone(), Spanned::span)
}
