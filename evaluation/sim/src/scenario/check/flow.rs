//! Flows: one entry of the file can be many, and each has its times and its path.

use super::{Check, MAX_SECONDS, Result, millis, span_of, span_or};
use crate::SERIES_STEP;
use crate::scenario::error::FROM_SET;
use crate::scenario::file::RawFlow;
use crate::scenario::{App, Drawn, FlowSpec, Places, Scenario};
use anole_algorithms::{Preference, UnknownPreference};
use anole_model::{Dur, Time};
use std::ops::Range;
use toml::Spanned;

/// Flows of one scenario; each needs some 100 KB.
const MAX_FLOWS: usize = 10_000;
/// Points of their series in all, of some 100 bytes each: one flow for eleven days, or all of them for 100 s.
const MAX_POINTS: u64 = 10_000_000;
/// All flows of a scenario in a hundredth of a second.
const MAX_ARRIVALS_PER_S: f64 = 1e6;
/// A frame of an application; it has whole bytes, so that the rate is less than 1 % off.
const MIN_FRAME_BYTES: f64 = 100.0;

impl Check<'_> {
    pub(super) fn flow(&mut self, scenario: &mut Scenario, raw: Spanned<RawFlow>) -> Result<()> {
        let table = raw.span();
        let raw = raw.into_inner();
        let places = Places {
            alg: self.origin.place(&span_or(&raw.alg, &table)),
            classic: self.origin.place(&span_or(&raw.classic, &table)),
            policy: self.origin.place(&span_or(&raw.policy, &table)),
            slots_set: [&raw.classic, &raw.policy].map(|slot| span_of(slot) == FROM_SET),
        };
        let alg = self.required(raw.alg.clone(), "alg = \"…\" in [[flow]]", table.clone())?;
        let count = raw.count.as_ref().map_or(1, |c| *c.get_ref());
        if count == 0 || scenario.flows.len() + count as usize > MAX_FLOWS {
            let message = format!("count = {count}: a scenario has 1 to {MAX_FLOWS} flows");
            return Err(self.origin.error(span_or(&raw.count, &table), message));
        }
        let flows = scenario.flows.len() as u64 + u64::from(count);
        let points = scenario.duration.as_nanos().div_ceil(SERIES_STEP.as_nanos());
        if flows * points > MAX_POINTS {
            let most = MAX_POINTS / points;
            let message =
                format!("{flows} flows: in so long a run there may be {most}; lower count or duration_s");
            return Err(self.origin.error(span_or(&raw.count, &table), message));
        }
        let duration_s = scenario.duration.as_secs_f64();
        let start_s = self.or(&raw.start_s, "start_s", 0.0, 0.0, MAX_SECONDS)?;
        let spacing_s = self.or(&raw.start_spacing_s, "start_spacing_s", 0.0, 0.0, MAX_SECONDS)?;
        let told_stop_s = self.or(&raw.stop_s, "stop_s", duration_s, 0.0, MAX_SECONDS)?;
        let stop_s = told_stop_s.min(duration_s);
        let last_start_s = start_s + f64::from(count - 1) * spacing_s;
        // What starts after the end of a run that was shortened never does.
        let left_out = self.shortened && (raw.stop_s.is_none() || last_start_s < told_stop_s);
        if last_start_s >= stop_s && !left_out {
            let span =
                if raw.stop_s.is_some() { span_of(&raw.stop_s) } else { span_or(&raw.start_s, &table) };
            let message = format!(
                "flow \"{alg}\" starts at {last_start_s} s but stops at {stop_s} s; \
                 raise stop_s or duration_s, or lower start_s or start_spacing_s"
            );
            return Err(self.origin.error(span, message));
        }
        let preferences = self.preferences(scenario, &raw)?;
        let path = self.path(scenario, raw.path.clone())?;
        let extra_delay =
            millis(self.or(&raw.extra_delay_ms, "extra_delay_ms", 0.0, 0.0, MAX_SECONDS * 1e3)?);
        let ack_jitter_us = self.or(&raw.ack_jitter_us, "ack_jitter_us", 0.0, 0.0, 1e6)?;
        let bytes = raw.bytes.as_ref().map(|b| *b.get_ref()).filter(|b| *b > 0);
        let drawn = self.drawn(&raw, scenario.flows.len(), bytes, &table)?;
        let app = self.app(&raw, start_s..stop_s, &table)?;
        for i in 0..count {
            scenario.flows.push(FlowSpec {
                alg: alg.clone(),
                under_test: raw.under_test.as_ref().is_some_and(|t| *t.get_ref()),
                start: Time::from_secs_f64(start_s + f64::from(i) * spacing_s),
                stop: Time::from_secs_f64(stop_s),
                path: path.clone(),
                extra_delay,
                bytes,
                drawn,
                app,
                delayed_ack: raw.delayed_ack.as_ref().is_some_and(|d| *d.get_ref()),
                ack_jitter: Dur::from_secs_f64(ack_jitter_us / 1e6),
                ecn: raw.ecn.as_ref().is_some_and(|e| *e.get_ref()),
                classic: raw.classic.as_ref().map(|s| s.get_ref().clone()),
                policy: raw.policy.as_ref().map(|s| s.get_ref().clone()),
                preferences: preferences.clone(),
                places: places.clone(),
            });
        }
        Ok(())
    }

    /// What is drawn of an entry whose first flow has the number `first`.
    fn drawn(
        &self,
        raw: &RawFlow,
        first: usize,
        bytes: Option<u64>,
        table: &Range<usize>,
    ) -> Result<Option<Drawn>> {
        let arrivals_per_s = match &raw.arrivals_per_s {
            None => None,
            Some(per_s) if raw.start_spacing_s.is_none() => {
                Some(self.within(per_s, "arrivals_per_s", 1e-3, MAX_ARRIVALS_PER_S)?)
            }
            Some(per_s) => {
                let message = "arrivals_per_s and start_spacing_s both say when flows start; leave one out";
                return Err(self.origin.error(per_s.span(), message));
            }
        };
        let bytes_up_to = raw.bytes_up_to.as_ref().map(|most| *most.get_ref());
        if let Some(most) = bytes_up_to
            && bytes.is_none_or(|least| most < least)
        {
            let message = format!("bytes_up_to = {most} needs bytes, above 0 and no larger");
            return Err(self.origin.error(span_or(&raw.bytes_up_to, table), message));
        }
        let any = arrivals_per_s.is_some() || bytes_up_to.is_some();
        Ok(any.then_some(Drawn { first, arrivals_per_s, bytes_up_to }))
    }

    /// What the application prefers, from when on.
    fn preferences(&self, scenario: &Scenario, raw: &RawFlow) -> Result<Vec<(Time, Preference)>> {
        let parse = |text: &str, span: Range<usize>| {
            text.parse().map_err(|error: UnknownPreference| self.origin.error(span, error.to_string()))
        };
        let mut preferences = Vec::new();
        if let Some(first) = &raw.preference {
            preferences.push((Time::ZERO, parse(first.get_ref(), first.span())?));
        }
        for later in raw.preference_at.iter() {
            for (at_s, text) in later.get_ref() {
                let at = Spanned::new(later.span(), *at_s);
                let at = Time::from_secs_f64(self.within(&at, "preference_at", 0.0, MAX_SECONDS)?);
                if preferences.last().is_some_and(|&(before, _)| at < before) {
                    let message = "preference_at is not in order of time";
                    return Err(self.origin.error(later.span(), message));
                }
                self.in_the_run(scenario, "preference_at", at, later.span())?;
                preferences.push((at, parse(text, later.span())?));
            }
        }
        Ok(preferences)
    }

    fn app(&self, raw: &RawFlow, runs_s: Range<f64>, table: &Range<usize>) -> Result<Option<App>> {
        let until_s = self.or(&raw.app_until_s, "app_until_s", runs_s.end, 0.0, MAX_SECONDS)?;
        match &raw.app_mbps {
            Some(mbps) => {
                let rate = self.rate(mbps, "app_mbps")?;
                if until_s <= runs_s.start && !runs_s.is_empty() {
                    let message = format!(
                        "app_until_s = {until_s} is not after the flow's start at {} s, so that app_mbps limits nothing; \
                         raise app_until_s, or leave both out",
                        runs_s.start
                    );
                    return Err(self.origin.error(span_or(&raw.app_until_s, table), message));
                }
                let frame_ms = self.or(&raw.app_frame_ms, "app_frame_ms", 0.0, 0.0, MAX_SECONDS * 1e3)?;
                let frame = Dur::from_secs_f64(frame_ms / 1e3);
                let frame_bytes = rate.bytes_in(frame);
                if !frame.is_zero() && frame_bytes < MIN_FRAME_BYTES {
                    let message = format!(
                        "app_frame_ms = {frame_ms} makes frames of {frame_bytes:.1} bytes, which have to have {MIN_FRAME_BYTES}; \
                         raise it or app_mbps, or leave it out: the application has its data byte by byte then"
                    );
                    return Err(self.origin.error(span_or(&raw.app_frame_ms, table), message));
                }
                Ok(Some(App { rate, until: Time::from_secs_f64(until_s), frame }))
            }
            None => match [("app_until_s", &raw.app_until_s), ("app_frame_ms", &raw.app_frame_ms)]
                .into_iter()
                .find(|(_, value)| value.is_some())
            {
                None => Ok(None),
                Some((key, value)) => {
                    let message = format!("{key} without app_mbps limits nothing; add app_mbps");
                    Err(self.origin.error(span_or(value, table), message))
                }
            },
        }
    }

    fn path(&self, scenario: &Scenario, raw: Option<Spanned<Vec<String>>>) -> Result<Vec<usize>> {
        let Some(raw) = raw else { return Ok((0..scenario.links.len()).collect()) };
        let mut path = Vec::new();
        for name in raw.get_ref() {
            let index = self.link_index(scenario, name, raw.span())?;
            if path.contains(&index) {
                let message = format!("the path goes through \"{name}\" twice; name each link once");
                return Err(self.origin.error(raw.span(), message));
            }
            path.push(index);
        }
        if path.is_empty() {
            return Err(self.origin.error(raw.span(), "the path is empty; name at least one link"));
        }
        Ok(path)
    }
}
