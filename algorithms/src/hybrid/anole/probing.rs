//! Probing: the rate decided on is applied for N round trips; at their end the learned policy is asked
//! once, and the next evaluation begins.
//!
//! The paper runs the policy during the last round trip. Here it sees the measurements of the packets
//! sent since the decision, whose ACKs arrive in the last N − 1 round trips.
//!
//! A policy that computes on another thread answers some tenths of a millisecond later, so the stage is
//! then prolonged in short holds until the answer is there, at most until its deadline. A policy that
//! let the deadline pass gets a single hold, until it answers again.

use super::super::interval::MonitorInterval;
use super::super::slot::Proposal;
use super::Anole;
use super::Stage;
use crate::learned::Observation;
use anole_model::{Dur, Time};
use anole_programs::Commands;
use std::task::Poll;

/// Holds per round trip while an answer is waited for, none shorter than the shortest window: each prolongs the
/// cycle by less than a thirtieth from 80 ms on, and costs one report and one message.
const HOLDS_PER_RTT: u64 = 8;

/// A probing stage under way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Probing {
    /// How long the policy's answer is waited for, once it was asked.
    pub waits_until: Option<Time>,
}

impl Anole {
    /// The stage ends: what it told about r is kept, the policy asked, the next evaluation begun.
    pub(super) fn on_probed(
        &mut self,
        now: Time,
        probing: Probing,
        window: &MonitorInterval,
        out: &mut Commands,
    ) {
        let hold = self.path.srtt() / HOLDS_PER_RTT;
        let until = match probing.waits_until {
            Some(until) => until,
            None => {
                self.verdict = self.judge(window, self.rate);
                let observation = self.observe(window.lost, window.acked, window.elapsed);
                let mean = window.rtt.map_or(observation.rtt, |(mean, _)| mean);
                let slope = window.gradient.map_or(0.0, |g| g.slope);
                self.learned.ask(now, &Observation { rtt: mean, rtt_gradient: slope, ..observation });
                let stage = self.path.srtt().mul_f64(self.params.probing_rtts);
                self.learned.deadline(now, window.elapsed.min(stage), hold)
            }
        };
        let proposal = match self.learned.poll(now, self.rate) {
            Poll::Pending if now < until && self.learned.confidence.is_active() => {
                self.enter(Stage::Probing(Probing { waits_until: Some(until) }));
                return self.hold(self.rate, hold, out);
            }
            Poll::Pending => Proposal::None,
            Poll::Ready(proposal) => proposal,
        };
        if proposal == Proposal::Unusable {
            self.learned.confidence.judge(0.0, &self.params.thresholds());
        }
        self.learned.answered(proposal.rate().is_some());
        self.evaluate(proposal.rate(), out);
    }

    /// What the policy sees of a span in which `lost` packets were lost and `acked` bytes delivered.
    pub(super) fn observe(&self, lost: u64, acked: u64, interval: Dur) -> Observation {
        let lost_bytes = lost.saturating_mul(u64::from(self.flow.mss));
        let all = lost_bytes.saturating_add(acked);
        let srtt = self.path.srtt();
        let window = self.rate.bytes_per_s() * srtt.as_secs_f64();
        Observation {
            rate: self.rate,
            delivery_rate: self.path.delivery_rate(),
            srtt,
            min_rtt: self.path.min_rtt(),
            min_rtt_10s: self.path.min_rtt(),
            min_rtt_2s: self.path.min_rtt(),
            max_delivery_10s: self.path.top(),
            rtt: srtt,
            rtt_var: Dur::ZERO,
            rtt_gradient: 0.0,
            loss_rate: if all > 0 { lost_bytes as f64 / all as f64 } else { 0.0 },
            interval,
            // Anole paces: the window that its rate fills stands for both.
            cwnd: window as u64,
            inflight: window as u64,
            acks: (acked / u64::from(self.flow.mss.max(1))) as f64,
            lost: lost as f64,
            mss: self.flow.mss,
        }
    }
}
