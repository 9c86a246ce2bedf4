//! Track: where the model of the path does not hold, a window law governs that needs none ([`anole_laws::Track`]).
//!
//! It takes over when [`super::trust`] is lost, whatever the reason: competitors, a path that changes faster than a
//! cycle, delays that are no queue, a crowd, too few packets for an interval to tell anything. It hands back after as
//! many round trips as the trust has patience for went as forecast, and a trial showed that the path is this flow's.

use super::super::interval::Loss;
use super::decision::{Choice, Source};
use super::params::AnoleParams;
use super::{Anole, Stage};
use crate::{FlowInfo, alone};
use anole_laws::{Feedback, Law, Track, track};
use anole_model::{Bounds, Dur, Rate, Time};
use anole_programs::Commands;
use anole_programs::rate_hold::{self, control};

/// Paced at this many times the window over the round-trip time without a queue: the window governs.
const PACE: f64 = 1.25;
/// Below this many packets per round trip no interval tells a slope.
const FEW: f64 = 16.0;
/// A loss under a smaller window, packets, is never laid to the path: a crowd's flows have no more, and have never seen
/// the path empty.
const FEWEST: f64 = 8.0;
/// Reports come once per round trip, within these bounds, us.
const INTERVAL_US: (u64, u64) = (1_000, 1_000_000);

/// The law, with the queue that the flow aims at elsewhere.
pub(super) fn new_track(flow: FlowInfo, params: &AnoleParams) -> Track {
    Track::new(flow.mss, flow.init_cwnd, track::Params { fill: params.fill })
}

impl Anole {
    /// True when at this rate too few packets are under way to tell anything.
    pub(super) fn knows_too_little(&self, rate: Rate) -> bool {
        rate.bytes_in(self.path.min_rtt()) < FEW * f64::from(self.flow.mss)
    }

    /// The model is trusted no more: the law governs.
    pub(super) fn enter_track(&mut self, now: Time, out: &mut Commands) {
        let rate = self.trust.lose(now, self.rate, self.path.srtt());
        self.track_from(now, rate.min(self.path.top()), out);
    }

    /// The law governs, from a rate on.
    pub(super) fn track_from(&mut self, now: Time, rate: Rate, out: &mut Commands) {
        self.forget_evaluations();
        self.path.share.forget();
        let held = self.path.min_rtt().mul_f64(1.0 + self.target_queue().tolerated);
        let window = rate.bytes_in(held);
        self.track = new_track(self.flow, &self.params);
        let seen = self.path.min_rtt_seen().unwrap_or(now);
        self.track.take_over(now, window as u64, self.path.min_rtt(), seen);
        self.enter(Stage::Track);
        out.run(&rate_hold::PROGRAM);
        self.follow_track(now, self.path.srtt(), out);
    }

    /// The law governs, among flows that fill the buffer.
    pub(super) fn join(&mut self, now: Time, rate: Rate, out: &mut Commands) {
        self.trust.lose(now, rate, self.path.srtt());
        self.track_from(now, rate, out);
        self.track.compete();
    }

    /// A round trip of the law is over.
    pub(super) fn on_track_report(&mut self, now: Time, report: &rate_hold::Report, out: &mut Commands) {
        let mut seen = alone::feedback(report);
        if let (Some(rtt), Some(min)) = (seen.rtt, seen.min_rtt) {
            self.path.saw_rtt(now, rtt, min);
        }
        if !self.track.is_proving() && self.path.tells_rate(seen.elapsed) {
            self.path.saw_delivery(seen.acked, seen.elapsed);
        }
        if self.is_own_loss(now, &seen) {
            seen.lost = 0;
        }
        if self.path.own_loss.needs_proof() || self.may_be_longer(now, report.lost, &seen) {
            self.track.seek_proof(now, self.path.srtt());
        }
        self.track.on_feedback(now, &seen);
        if self.track.proved() {
            let rate = Rate::from_bytes_in(self.track.control().cwnd, self.path.srtt());
            self.path.own_loss.prove(now, rate);
            let base = self.track.base().unwrap_or(self.path.min_rtt());
            self.path.reset_min_rtt(now, base);
            if self.path.own_loss.is_known() {
                self.path.was_empty_at(now, base);
            }
        }
        if self.track.tried() == Some(true) {
            return self.leave_track(now, out);
        }
        let steady = self.track.steady_rounds() >= self.trust.patience();
        if steady && !self.knows_too_little(self.path.delivery_rate()) {
            self.track.try_out();
        }
        self.follow_track(now, seen.rtt.unwrap_or(self.path.srtt()), out);
    }

    /// A round-trip time up to this tells the law of no more than a short queue: its base may be shorter than any that the
    /// stages of a cycle can have.
    fn short_track_rtt(&self) -> Dur {
        self.short_over(self.track.base().map_or(self.path.min_rtt(), |base| base.min(self.path.min_rtt())))
    }

    /// Takes a round's loss; true where it is the path's own: there was no queue, and no more is lost than usual.
    fn is_own_loss(&mut self, now: Time, seen: &Feedback) -> bool {
        let sent = seen.lost.saturating_add(seen.acked / u64::from(self.flow.mss.max(1)));
        let loss = Loss { lost: seen.lost, sent };
        let empty = seen.rtt.is_some_and(|rtt| self.path.is_empty_at(rtt));
        self.path.own_loss.saw(now, self.rate, loss, empty.then_some(loss));
        let few = (self.track.control().cwnd as f64) < FEWEST * f64::from(self.flow.mss);
        empty && !few && self.path.own_loss.recent_excess().is_none()
    }

    /// True where a path that loses by itself may have become longer: what is lost there looks like congestion, whose cuts end
    /// the search for a longer base.
    fn may_be_longer(&self, now: Time, lost: u64, seen: &Feedback) -> bool {
        lost > 0
            && self.path.own_loss.is_known()
            && self.track.base_is_old(now)
            && seen.min_rtt.is_some_and(|rtt| rtt > self.short_track_rtt())
    }

    fn follow_track(&mut self, now: Time, rtt: Dur, out: &mut Commands) {
        let cwnd = self.track.control().cwnd;
        self.set_rate(now, Rate::from_bytes_in(cwnd, rtt), Source::Rule);
        let base = self.track.base().unwrap_or(rtt).min(rtt);
        let pace = Rate::from_bytes_in(cwnd, base) * PACE;
        let interval = rtt.as_micros().clamp(INTERVAL_US.0, INTERVAL_US.1) as u32;
        out.set(control::INTERVAL_US, interval)
            .set(control::REPORT_LOSS, u32::from(self.track.wants_loss_at_once()))
            .rate(Bounds::DEFAULT.clamp(pace))
            .cwnd(Bounds::DEFAULT.cwnd(cwnd, self.flow.mss));
    }

    /// The model holds again: it goes on from what the law found.
    fn leave_track(&mut self, now: Time, out: &mut Commands) {
        self.trust.regain(now);
        self.path.reset_min_rtt(now, self.track.base().unwrap_or(self.path.min_rtt()));
        self.apply(now, Choice { rate: self.path.delivery_rate(), source: Source::Previous, climb: false });
        self.resume_rule(now, self.rate);
        self.start_cycle(out);
        self.enter_hold(now, self.path.srtt(), out);
    }
}
