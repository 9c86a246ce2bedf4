//! What a flow remembers of its path: round-trip times, delivery, capacity.
//!
//! Everything remembered can become false. The smallest round-trip time is confirmed by every window
//! that comes near it and has to be measured anew when none did for `base_rtt_s`; it is also given up
//! when draining the queue three times in a row left the round-trip time where it was: then the path has
//! become longer, and what looked like a queue is none.
//!
//! The standing queue that a flow aims at grows as its rate shrinks, as a delay with 1/√x. Flows that share a
//! queue see the same delay: to the larger flow it is longer than it tolerates, and it drains and yields, while
//! the smaller one goes on. That is what makes flows converge; a queue of one length for all would leave their
//! shares as they are, since eq. 7 gives way in proportion.

use super::params::Params;
use anole_model::{Dur, Rate, Time};

/// A round-trip time this near to the smallest one confirms it, share.
const CONFIRMS: f64 = 1.02;
/// Drains in a row without effect after which the smallest round-trip time is given up: one may be undone
/// by another flow, three hardly.
const FRUITLESS_DRAINS: u32 = 3;
/// A drain after which the round-trip time is the same within this share had no effect. On a path that
/// has become longer it is the same to a packet; a queue of several flows is never as steady.
const DRAIN_EFFECT: f64 = 0.01;
/// Weight of a new capacity in the remembered one: two evaluations agree before it has moved.
const CAPACITY_GAIN: f64 = 0.5;

/// Until the first sample, the round-trip time is taken to be this (RFC 9002 §6.2.2 has 333 ms for a
/// whole path unknown; a shorter guess only shortens the first window).
const UNKNOWN_RTT: Dur = Dur::from_millis(100);

/// On shorter paths what hosts add themselves (timers, batches, waiting for a processor) exceeds the
/// tolerated queue of µ·RTTmin and would be taken for one. Chosen: over loopback 0.9 to 1.6 Gbps, 0.2
/// without it; with 5 ms a path of two packets loses twice as much.
const SHORTEST_RTT: Dur = Dur::from_millis(2);

/// No round-trip time is longer; a larger figure is no measurement.
const LONGEST_RTT: Dur = Dur::from_millis(60_000);
/// What is left of the largest delivery rate after a report: a capacity that shrank is believed within
/// two cycles.
const TOP_DECAY: f64 = 0.95;

/// The time whose packets the standing queue is measured by, the same for every flow: flows with unequal
/// round-trip times aim at equal queues where their rates are equal. It is the paper's usual round-trip time.
const REFERENCE: Dur = Dur::from_millis(50);
/// Queues tolerated per queue aimed at: tests of other rates come on top of it.
const TOLERATED_AIMS: f64 = 2.0;
/// No standing queue is aimed at beyond this, s: a slow flow's few packets take long.
const MAX_AIMED_S: f64 = 1.0;

/// Gain of the loss that the path has anyway: eight evaluations.
const LOSS_GAIN: f64 = 1.0 / 8.0;
/// The path is never taken to lose more than this by itself: above it links are called broken, and a
/// flow that has overloaded its path from the start must not mistake that for the path's own loss.
const MAX_OWN_LOSS: f64 = 0.1;
/// A path may lose this much though it has lost nothing so far.
const LEAST_OWN_LOSS: f64 = 0.01;
/// Loss has to exceed the path's own by this much to be laid at the rate's door.
const MIN_EXCESS: f64 = 0.02;
/// More is not believed at once: it halves the rate already.
const MAX_EXCESS: f64 = 0.5;

/// Packets lost of packets sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Loss {
    pub lost: u64,
    pub sent: u64,
}

impl Loss {
    /// The share lost, 0…1.
    pub fn share(self) -> f64 {
        if self.sent > 0 { (self.lost as f64 / self.sent as f64).min(1.0) } else { 0.0 }
    }
}

/// The queue that a flow wants to stand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Standing {
    /// What it aims at, as a delay.
    pub aim: Dur,
    /// What its utility tolerates (µ of eq. 2), share of the smallest round-trip time: never less than twice
    /// what it aims at.
    pub tolerated: f64,
}

/// The path as known now.
#[derive(Clone, Debug)]
pub(super) struct Path {
    srtt: Option<Dur>,
    min_rtt: Option<(Dur, Time)>,
    delivery_rate: Rate,
    /// Largest delivery rate of late.
    top: Rate,
    capacity: Option<Rate>,
    /// Share of packets that the path loses whatever the rate.
    own_loss: f64,
    fruitless_drains: u32,
    /// The round-trip time before the first of them.
    undrained: Dur,
}

impl Path {
    pub fn new() -> Path {
        Path {
            srtt: None,
            min_rtt: None,
            delivery_rate: Rate::ZERO,
            top: Rate::ZERO,
            capacity: None,
            own_loss: 0.0,
            fruitless_drains: 0,
            undrained: Dur::ZERO,
        }
    }

    /// The mean round-trip time of the last window.
    pub fn srtt(&self) -> Dur {
        self.srtt.unwrap_or(UNKNOWN_RTT)
    }

    /// True when a round-trip time was measured.
    pub fn is_measured(&self) -> bool {
        self.min_rtt.is_some()
    }

    /// The smallest round-trip time, and never less than what hosts can keep.
    pub fn min_rtt(&self) -> Dur {
        self.min_rtt.map_or(self.srtt(), |(rtt, _)| rtt).max(SHORTEST_RTT)
    }

    /// The delivery rate of the last report.
    pub fn delivery_rate(&self) -> Rate {
        self.delivery_rate
    }

    /// The largest delivery rate of late.
    pub fn top(&self) -> Rate {
        self.top
    }

    /// The capacity, where one was inferred.
    pub fn capacity(&self) -> Option<Rate> {
        self.capacity
    }

    /// How long the queue is, as a delay.
    pub fn queue(&self) -> Dur {
        self.srtt() - self.min_rtt()
    }

    /// The standing queue that a flow of this rate aims at, as a delay: `fill`·√n packets, n those sent in
    /// [`REFERENCE`]; never more than µ of the smallest round-trip time, or a packet.
    fn aimed_queue(&self, rate: Rate, mss: u32, params: &Params) -> Dur {
        let packet_s = f64::from(mss) / rate.bytes_per_s().max(1.0);
        let tolerable = (params.mu * self.min_rtt().as_secs_f64() / packet_s).max(1.0);
        let packets = (params.fill * (REFERENCE.as_secs_f64() / packet_s).sqrt()).min(tolerable);
        Dur::from_secs_f64((packets * packet_s).min(MAX_AIMED_S))
    }

    /// What a flow of this rate makes of the queue.
    pub fn standing(&self, rate: Rate, mss: u32, params: &Params) -> Standing {
        let aim = self.aimed_queue(rate, mss, params);
        let share = aim.as_secs_f64() / self.min_rtt().as_secs_f64().max(1e-9);
        Standing { aim, tolerated: params.mu.max(TOLERATED_AIMS * share) }
    }

    /// Takes a window's mean and smallest round-trip time.
    pub fn saw_rtt(&mut self, now: Time, mean: Dur, min: Dur) {
        if mean.is_zero() || min.is_zero() || mean > LONGEST_RTT {
            return;
        }
        self.srtt = Some(mean);
        match &mut self.min_rtt {
            Some((known, at)) => {
                if min <= known.mul_f64(CONFIRMS) {
                    *at = now;
                }
                *known = min.min(*known);
            }
            none => *none = Some((min, now)),
        }
    }

    /// Takes what was delivered in a span.
    pub fn saw_delivery(&mut self, bytes: u64, span: Dur) {
        if bytes > 0 && !span.is_zero() {
            self.delivery_rate = Rate::from_bytes_in(bytes, span);
            self.top = (self.top * TOP_DECAY).max(self.delivery_rate);
        }
    }

    /// Takes the loss met by the lower of the rates tested: the least that the path loses.
    pub fn saw_low_loss(&mut self, loss: Loss) {
        if loss.sent > 0 {
            self.own_loss += (loss.share().min(MAX_OWN_LOSS) - self.own_loss) * LOSS_GAIN;
        }
    }

    /// The share lost because of the rate, where it is significantly more than the path loses anyway: by z
    /// times the error that a window of this size has on a path that loses nothing for the rate's sake.
    pub fn excess_loss(&self, loss: Loss, params: &Params) -> Option<f64> {
        let own = self.own_loss.max(LEAST_OWN_LOSS);
        let error = (own * (1.0 - own) / loss.sent.max(1) as f64).sqrt();
        let excess = loss.share() - self.own_loss;
        (excess > (params.z * error).max(MIN_EXCESS)).then_some(excess.min(MAX_EXCESS))
    }

    /// True when no more is lost than the path loses anyway.
    pub fn is_usual(&self, loss: Loss) -> bool {
        loss.share() <= self.own_loss + MIN_EXCESS
    }

    /// True when no window has confirmed the smallest round-trip time for too long.
    pub fn min_rtt_is_stale(&self, now: Time, params: &Params) -> bool {
        self.min_rtt.is_some_and(|(_, at)| now.since(at) > Dur::from_secs_f64(params.base_rtt_s))
    }

    /// Takes `rtt` for the smallest one, whatever was known.
    fn reset_min_rtt(&mut self, now: Time, rtt: Dur) {
        self.min_rtt = Some((rtt, now));
        self.fruitless_drains = 0;
    }

    /// A drain was made to confirm the smallest round-trip time, and whatever it met, the next one is not
    /// due before long. A longer time is not taken over: it may be the queue of other flows, and would be
    /// raised by it time and again.
    pub fn confirm_min_rtt(&mut self, now: Time, after: Dur) {
        self.reset_min_rtt(now, self.min_rtt().min(after));
    }

    /// A drain ended: the round-trip time before it and after it, and what was lost meanwhile. A full
    /// buffer keeps the round-trip time steady too, but not without loss. True when the path turned out longer.
    pub fn saw_drain(&mut self, now: Time, before: Dur, after: Dur, loss: Loss) -> bool {
        if self.fruitless_drains == 0 {
            self.undrained = before;
        }
        let near =
            |rtt: Dur| after > rtt.mul_f64(1.0 - DRAIN_EFFECT) && after < rtt.mul_f64(1.0 + DRAIN_EFFECT);
        let same = near(before) && near(self.undrained);
        let fruitless = same && after > self.min_rtt() && self.is_usual(loss);
        self.fruitless_drains = if fruitless { self.fruitless_drains + 1 } else { 0 };
        let longer = self.fruitless_drains >= FRUITLESS_DRAINS;
        if longer {
            self.reset_min_rtt(now, after);
        }
        longer
    }

    /// Remembers an inferred capacity.
    pub fn infer_capacity(&mut self, capacity: Rate) {
        let old = self.capacity.unwrap_or(capacity);
        self.capacity = Some(old * (1.0 - CAPACITY_GAIN) + capacity * CAPACITY_GAIN);
    }

    /// Forgets the capacity: it has been shown to be another.
    pub fn forget_capacity(&mut self) {
        self.capacity = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Dur {
        Dur::from_millis(n)
    }
    fn at(s: u64) -> Time {
        Time::ZERO + Dur::from_secs_f64(s as f64)
    }

    #[test]
    fn the_smallest_round_trip_time_goes_stale_unless_confirmed() {
        let (params, mut path) = (Params::default(), Path::new());
        path.saw_rtt(at(0), ms(60), ms(50));
        path.saw_rtt(at(9), ms(60), ms(51));
        assert!(!path.min_rtt_is_stale(at(18), &params));
        path.saw_rtt(at(18), ms(60), ms(55));
        assert!(path.min_rtt_is_stale(at(20), &params));
        path.reset_min_rtt(at(20), ms(55));
        assert_eq!((path.min_rtt(), path.min_rtt_is_stale(at(20), &params)), (ms(55), false));
    }

    #[test]
    fn three_fruitless_drains_show_a_longer_path() {
        let mut path = Path::new();
        path.saw_rtt(at(0), ms(20), ms(20));
        let none = Loss::default();
        path.saw_drain(at(1), ms(200), ms(199), none);
        path.saw_drain(at(1), ms(200), ms(199), none);
        path.saw_drain(at(2), ms(200), ms(150), none);
        for _ in 0..9 {
            path.saw_drain(at(2), ms(200), ms(200), Loss { lost: 1, sent: 10 });
        }
        for s in 3..5 {
            path.saw_drain(at(s), ms(200), ms(199), none);
            assert_eq!(path.min_rtt(), ms(20));
        }
        path.saw_drain(at(6), ms(200), ms(199), none);
        assert_eq!(path.min_rtt(), ms(199));
    }

    #[test]
    fn nothing_known_is_answered_with_a_guess() {
        let mut path = Path::new();
        assert_eq!((path.srtt(), path.min_rtt(), path.queue()), (UNKNOWN_RTT, UNKNOWN_RTT, Dur::ZERO));
        path.saw_rtt(at(0), Dur::ZERO, Dur::ZERO);
        path.saw_delivery(0, Dur::ZERO);
        assert_eq!((path.srtt(), path.delivery_rate()), (UNKNOWN_RTT, Rate::ZERO));
    }
}
