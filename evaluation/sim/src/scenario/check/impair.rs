//! What befalls packets on a link, and what else is sent across it.

use super::link::MAX_BURST_MS;
use super::{Check, MAX_SECONDS, Result, millis, span_or};
use crate::link::{AckPath, BurstLoss, CrossTraffic, Hold, Impairments, Reorder};
use crate::scenario::Scenario;
use crate::scenario::file::{RawCross, RawLink};
use anole_model::{Dur, Time};
use std::ops::Range;
use toml::Spanned;

/// Slots of a hold.
const MAX_SLOTS: usize = 10_000;
/// A slot if none is given.
const DEFAULT_SLOT_MS: f64 = 20.0;
/// ACKs that may wait if nothing is said.
const DEFAULT_ACKS: u64 = 1000;
/// Packets that one source sends in a run, and times that it is on: a minute of computing.
const MAX_CROSS_PACKETS: f64 = 1e8;
/// Bytes of a packet on the wire: an IPv4 header and something in it, and IPv4's largest.
const PACKET_BYTES: (u32, u32) = (28, 65_535);

impl Check<'_> {
    pub(super) fn impairments(&self, raw: &RawLink, table: &Range<usize>) -> Result<Impairments> {
        Ok(Impairments {
            burst_loss: self.burst_loss(raw)?,
            hold: self.hold(raw, table)?,
            jitter: millis(self.or(&raw.jitter_ms, "jitter_ms", 0.0, 0.0, MAX_BURST_MS)?),
            reorder: self.reorder(raw)?,
            ack_path: self.ack_path(raw, table)?,
            ack_jitter: millis(self.or(&raw.ack_jitter_ms, "ack_jitter_ms", 0.0, 0.0, MAX_BURST_MS)?),
        })
    }

    fn burst_loss(&self, raw: &RawLink) -> Result<Option<BurstLoss>> {
        let Some(table) = &raw.burst_loss else { return Ok(None) };
        let raw = table.get_ref();
        let (Some(enter), Some(leave)) = (&raw.enter, &raw.leave) else {
            let message = "burst_loss needs enter and leave, probabilities per packet; \
                           write for example burst_loss = { enter = 0.001, leave = 0.1 }";
            return Err(self.origin.error(table.span(), message));
        };
        Ok(Some(BurstLoss {
            enter: self.within(enter, "enter", 0.0, 1.0)?,
            leave: self.within(leave, "leave", 0.0, 1.0)?,
            loss: self.or(&raw.loss, "loss", 1.0, 0.0, 1.0)?,
        }))
    }

    fn hold(&self, raw: &RawLink, table: &Range<usize>) -> Result<Option<Hold>> {
        let Some(list) = &raw.hold_ms else {
            return match &raw.hold_slot_ms {
                None => Ok(None),
                Some(_) => {
                    let message = "hold_slot_ms without hold_ms holds nothing; add hold_ms = [0.0, 20.0]";
                    Err(self.origin.error(span_or(&raw.hold_slot_ms, table), message))
                }
            };
        };
        let (waits, span) = (list.get_ref(), list.span());
        if waits.is_empty() || waits.len() > MAX_SLOTS {
            let message = format!("hold_ms has {} slots; give 1 to {MAX_SLOTS}", waits.len());
            return Err(self.origin.error(span, message));
        }
        if let Some(wait) = waits.iter().find(|wait| !(0.0..=MAX_BURST_MS).contains(*wait)) {
            let message = format!("hold_ms has {wait}, which is outside 0 to {MAX_BURST_MS}");
            return Err(self.origin.error(span, message));
        }
        let slot = self.or(&raw.hold_slot_ms, "hold_slot_ms", DEFAULT_SLOT_MS, 0.01, MAX_SECONDS * 1e3)?;
        Ok(Some(Hold { slot: millis(slot), waits: waits.iter().map(|&wait| millis(wait)).collect() }))
    }

    fn reorder(&self, raw: &RawLink) -> Result<Option<Reorder>> {
        let Some(table) = &raw.reorder else { return Ok(None) };
        let raw = table.get_ref();
        let (Some(share), Some(by)) = (&raw.share, &raw.by_ms) else {
            let message =
                "reorder needs share and by_ms; write for example reorder = { share = 0.01, by_ms = 5.0 }";
            return Err(self.origin.error(table.span(), message));
        };
        let share = self.within(share, "share", 0.0, 1.0)?;
        Ok(Some(Reorder { share, by: millis(self.within(by, "by_ms", 0.0, MAX_BURST_MS)?) }))
    }

    fn ack_path(&self, raw: &RawLink, table: &Range<usize>) -> Result<Option<AckPath>> {
        let packets = raw.ack_buffer_packets.as_ref().map(|packets| *packets.get_ref());
        match &raw.ack_capacity_mbps {
            Some(mbps) => {
                let rate = self.rate(mbps, "ack_capacity_mbps")?;
                Ok(Some(AckPath { rate, packets: packets.unwrap_or(DEFAULT_ACKS).min(u64::from(u32::MAX)) }))
            }
            None if packets.is_none() => Ok(None),
            None => {
                let message =
                    "ack_buffer_packets without ack_capacity_mbps limits nothing; add ack_capacity_mbps";
                Err(self.origin.error(span_or(&raw.ack_buffer_packets, table), message))
            }
        }
    }

    pub(super) fn cross(
        &self,
        scenario: &Scenario,
        raw: &Option<Spanned<Vec<RawCross>>>,
    ) -> Result<Vec<CrossTraffic>> {
        let Some(list) = raw else { return Ok(Vec::new()) };
        list.get_ref().iter().map(|raw| self.source(scenario, raw, list.span())).collect()
    }

    fn source(&self, scenario: &Scenario, raw: &RawCross, table: Range<usize>) -> Result<CrossTraffic> {
        let Some(mbps) = &raw.mbps else {
            return Err(self
                .origin
                .error(table, "mbps is missing in [[link.cross]]; add for example mbps = 5.0"));
        };
        let rate = self.rate(mbps, "mbps")?;
        let packet_bytes = raw.packet_bytes.as_ref().map_or(scenario.full_packet(), |bytes| *bytes.get_ref());
        let (least, most) = PACKET_BYTES;
        if !(least..=most).contains(&packet_bytes) {
            let message = format!("packet_bytes = {packet_bytes} is outside {least} to {most}");
            return Err(self.origin.error(span_or(&raw.packet_bytes, &table), message));
        }
        let duration_s = scenario.duration.as_secs_f64();
        let start_s = self.or(&raw.start_s, "start_s", 0.0, 0.0, MAX_SECONDS)?;
        let stop_s = self.or(&raw.stop_s, "stop_s", duration_s, 0.0, MAX_SECONDS)?;
        let start_span = span_or(&raw.start_s, &mbps.span());
        if raw.stop_s.is_some() && start_s >= stop_s {
            let message = format!("this [[link.cross]] starts at {start_s} s but stops at {stop_s} s");
            return Err(self.origin.error(start_span, message));
        }
        let start = Time::from_secs_f64(start_s);
        self.in_the_run(scenario, "the start of this [[link.cross]]", start, start_span)?;
        let packets = rate.bytes_per_s() * duration_s / f64::from(packet_bytes);
        if packets > MAX_CROSS_PACKETS {
            let message = format!("this is {packets:.0} packets; at most {MAX_CROSS_PACKETS} are allowed");
            return Err(self.origin.error(mbps.span(), message));
        }
        let on_off = match (&raw.on_s, &raw.off_s) {
            (None, None) => None,
            (Some(on), Some(off)) => {
                let time = |value, key| self.within(value, key, 1e-6, MAX_SECONDS);
                let (on_s, off_s) = (time(on, "on_s")?, time(off, "off_s")?);
                let times = duration_s / (on_s + off_s);
                if times > MAX_CROSS_PACKETS {
                    let message = format!(
                        "this is on {times:.0} times; at most {MAX_CROSS_PACKETS} are allowed: raise on_s or off_s"
                    );
                    return Err(self.origin.error(on.span(), message));
                }
                Some((Dur::from_secs_f64(on_s), Dur::from_secs_f64(off_s)))
            }
            _ => {
                let message = "on_s and off_s go together in [[link.cross]]; give both or neither";
                return Err(self.origin.error(mbps.span(), message));
            }
        };
        Ok(CrossTraffic {
            rate,
            packet_bytes,
            start,
            stop: Time::from_secs_f64(stop_s),
            on_off,
            random: raw.random.as_ref().is_some_and(|random| *random.get_ref()),
            flow: 0,
        })
    }
}
