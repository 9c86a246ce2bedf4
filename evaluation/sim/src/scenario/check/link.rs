//! Links: what limits them, what waits before them, what they lose.

use super::{Check, MAX_SECONDS, Result, millis, span_or};
use crate::link::{Aggregation, Capacity, Lte, QueueKind, Trace};
use crate::scenario::file::{RawLink, RawLte};
use crate::scenario::{LinkSpec, Scenario};
use anole_model::Dur;
use std::sync::Arc;
use toml::Spanned;

/// Words that `--set` gives a meaning of their own.
const RESERVED_NAMES: [&str; 2] = ["flow", "param"];
/// What a generated trace carries in all, Mbit: 17 million opportunities, in 70 MB of memory.
pub(crate) const MAX_LTE_MBIT: f64 = 200_000.0;
/// A burst of a second is longer than that of any link.
pub(super) const MAX_BURST_MS: f64 = 1000.0;

impl Check<'_> {
    pub(super) fn link(&mut self, scenario: &Scenario, raw: Spanned<RawLink>) -> Result<LinkSpec> {
        let table = raw.span();
        let raw = raw.into_inner();
        let name_span = span_or(&raw.name, &table);
        let name = self.required(raw.name.clone(), "name = \"…\" in [[link]]", table.clone())?;
        if RESERVED_NAMES.contains(&name.as_str()) || name.is_empty() || name.contains(['.', '=']) {
            let message = format!(
                "a link cannot be named \"{name}\", because --set would not find it; choose another name"
            );
            return Err(self.origin.error(name_span, message));
        }
        if scenario.links.iter().any(|known| known.name == name) {
            return Err(self.origin.error(name_span, format!("two links are named \"{name}\"; rename one")));
        }
        let delay_ms = match &raw.one_way_delay_ms {
            Some(delay) => self.within(delay, "one_way_delay_ms", 0.0, MAX_SECONDS * 1e3)?,
            None => {
                let message = format!(
                    "link \"{name}\" has no one_way_delay_ms; add for example one_way_delay_ms = 25.0"
                );
                return Err(self.origin.error(table, message));
            }
        };
        let one_way_delay = millis(delay_ms);
        let reverse_delay = match &raw.reverse_delay_ms {
            None => None,
            Some(delay) => Some(millis(self.within(delay, "reverse_delay_ms", 0.0, MAX_SECONDS * 1e3)?)),
        };
        let lte = match &raw.lte {
            None => None,
            Some(lte) => Some(self.lte(lte, scenario)?),
        };
        let capacity = match (&raw.capacity_mbps, &raw.trace, lte) {
            (Some(mbps), None, None) => Capacity::Fixed(self.rate(mbps, "capacity_mbps")?),
            (None, Some(path), None) => self.trace(path)?,
            (None, None, Some(lte)) => Capacity::Fixed(lte.mean),
            _ => {
                let message = format!("link \"{name}\" needs exactly one of capacity_mbps, trace and lte");
                return Err(self.origin.error(table, message));
            }
        };
        let bdp_bytes = capacity.mean_rate().bytes_in(one_way_delay * 2);
        let full_packet = u64::from(scenario.full_packet());
        let buffer_bytes = match (&raw.buffer_bdp, &raw.buffer_bytes, &raw.buffer_packets) {
            (Some(bdp), None, None) => {
                self.within(bdp, "buffer_bdp", 0.0, 1e6)?;
                (bdp_bytes * self.buffer(bdp)?) as u64
            }
            (None, Some(bytes), None) => self.buffer(bytes)?,
            (None, None, Some(packets)) => self.buffer(packets)?.saturating_mul(full_packet),
            _ => {
                let message = format!(
                    "link \"{name}\" needs exactly one of buffer_bdp, buffer_bytes and buffer_packets"
                );
                return Err(self.origin.error(table, message));
            }
        };
        let queue = match &raw.queue {
            None => QueueKind::DropTail,
            Some(queue) => self.queue(queue)?,
        };
        let random_loss = self.or(&raw.random_loss, "random_loss", 0.0, 0.0, 1.0)?;
        let aggregation = Aggregation {
            data: self.burst(&raw.aggregation_ms, "aggregation_ms")?,
            acks: self.burst(&raw.ack_aggregation_ms, "ack_aggregation_ms")?,
        };
        Ok(LinkSpec {
            name,
            capacity,
            lte,
            one_way_delay,
            reverse_delay,
            buffer_bytes,
            random_loss,
            queue,
            aggregation,
            impairments: self.impairments(&raw, &table)?,
            cross: self.cross(scenario, &raw.cross)?,
        })
    }

    fn trace(&mut self, path: &Spanned<String>) -> Result<Capacity> {
        let fail = |message: String| self.origin.error(path.span(), message);
        let text = (self.load_trace)(path.get_ref()).map_err(|e| {
            fail(format!("trace \"{}\": {e}; the path is relative to this file", path.get_ref()))
        })?;
        let trace = Trace::parse(&text).map_err(|e| fail(format!("trace \"{}\": {e}", path.get_ref())))?;
        Ok(Capacity::Trace(Arc::new(trace)))
    }

    fn lte(&self, raw: &Spanned<RawLte>, scenario: &Scenario) -> Result<Lte> {
        let (span, raw) = (raw.span(), raw.get_ref());
        let Some(mean) = &raw.mean_mbps else {
            let message = "lte has no mean_mbps; write for example lte = { mean_mbps = 12.0 }";
            return Err(self.origin.error(span, message));
        };
        let rate = self.rate(mean, "mean_mbps")?;
        let default = Lte::with_mean(rate);
        let lte = Lte {
            deviation: self.or(&raw.deviation, "deviation", default.deviation, 0.0, 2.0)?,
            memory_s: self.or(&raw.memory_s, "memory_s", default.memory_s, 0.01, MAX_SECONDS)?,
            outage_every_s: self.or(
                &raw.outage_every_s,
                "outage_every_s",
                default.outage_every_s,
                0.1,
                MAX_SECONDS,
            )?,
            outage_s: self.or(&raw.outage_s, "outage_s", default.outage_s, 0.0, MAX_SECONDS)?,
            flicker: self.or(&raw.flicker, "flicker", default.flicker, 0.0, 2.0)?,
            burst: self.or(&raw.burst, "burst", default.burst, 1.0, 1000.0)?,
            ..default
        };
        let most = lte.most_mbit(scenario.duration);
        if most > MAX_LTE_MBIT {
            let message = format!(
                "lte may carry {most:.0} Mbit; at most {MAX_LTE_MBIT}: lower mean_mbps, duration_s or deviation"
            );
            return Err(self.origin.error(mean.span(), message));
        }
        Ok(lte)
    }

    fn burst(&self, ms: &Option<Spanned<(f64, f64)>>, key: &str) -> Result<Option<(Dur, Dur)>> {
        let range = self.range(ms, key, 0.0, MAX_BURST_MS)?;
        Ok(range.map(|(low, high)| (millis(low), millis(high))))
    }

    fn queue(&self, queue: &Spanned<String>) -> Result<QueueKind> {
        match queue.get_ref().as_str() {
            "droptail" => Ok(QueueKind::DropTail),
            "codel" => Ok(QueueKind::CoDel),
            "fq_codel" => Ok(QueueKind::FqCodel),
            "pie" => Ok(QueueKind::Pie),
            "red" => Ok(QueueKind::Red),
            other => {
                let message =
                    format!("unknown queue \"{other}\"; one of droptail, codel, fq_codel, pie, red");
                Err(self.origin.error(queue.span(), message))
            }
        }
    }
}
