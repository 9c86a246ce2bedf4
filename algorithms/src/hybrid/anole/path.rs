//! What a flow remembers of its path: round-trip times, delivery, capacity.
//!
//! Everything remembered can become false. The smallest round-trip time is confirmed by every window
//! that comes near it and has to be measured anew when none did for `base_rtt_s`.

use super::own_loss::OwnLoss;
use super::params::AnoleParams;
use super::share::Share;
use anole_laws::filter::WindowedMax;
use anole_model::{Dur, Rate, Time};
use std::cmp::Reverse;

/// A round-trip time this near to the smallest one confirms it, share.
const CONFIRMS: f64 = 1.02;
/// Round-trip times of this many seconds tell whether the path is empty, whatever is taken for its smallest one …
const REMEMBERED_S: u64 = 10;
/// … by being no further above the shortest of them than this share …
const EMPTY: f64 = 0.03;
/// … or this, which hosts add themselves, and no more than a share of it.
const HOSTS_ADD: (Dur, f64) = (Dur::from_millis(1), 0.1);
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

/// The path as known now.
#[derive(Clone, Debug)]
pub(super) struct Path {
    srtt: Option<Dur>,
    min_rtt: Option<(Dur, Time)>,
    /// The shortest of late, by seconds.
    shortest: WindowedMax<Reverse<Dur>>,
    delivery_rate: Rate,
    /// Largest delivery rate of late.
    top: Rate,
    capacity: Option<Rate>,
    /// What it loses whatever the rate.
    pub own_loss: OwnLoss,
    /// What of the bottleneck's load is this flow's.
    pub share: Share,
}

impl Path {
    pub fn new() -> Path {
        Path {
            srtt: None,
            min_rtt: None,
            shortest: WindowedMax::new(REMEMBERED_S),
            delivery_rate: Rate::ZERO,
            top: Rate::ZERO,
            capacity: None,
            own_loss: OwnLoss::default(),
            share: Share::default(),
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

    /// When that was last confirmed.
    pub fn min_rtt_seen(&self) -> Option<Time> {
        self.min_rtt.map(|(_, at)| at)
    }

    /// True where a report covers enough time to tell a rate.
    pub fn tells_rate(&self, span: Dur) -> bool {
        span >= self.min_rtt() / 2
    }

    /// True for the round-trip time of an empty path: as short as any of late. A queue that many flows keep full has, now
    /// and then, been shorter.
    pub fn is_empty_at(&self, rtt: Dur) -> bool {
        self.shortest.max().is_some_and(|Reverse(shortest)| {
            let (hosts, most) = HOSTS_ADD;
            rtt <= shortest + shortest.mul_f64(EMPTY).max(hosts.min(shortest.mul_f64(most)))
        })
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

    /// Takes a window's mean and smallest round-trip time.
    pub fn saw_rtt(&mut self, now: Time, mean: Dur, min: Dur) {
        if mean.is_zero() || min.is_zero() || mean > LONGEST_RTT {
            return;
        }
        self.srtt = Some(mean);
        self.shortest.push(now.as_micros() / 1_000_000, Reverse(min));
        match &mut self.min_rtt {
            Some((known, at)) => {
                if min <= known.mul_f64(CONFIRMS) {
                    *at = now;
                }
                if min.mul_f64(CONFIRMS) < *known {
                    self.own_loss.refute();
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

    /// True when no window has confirmed the smallest round-trip time for too long.
    pub fn min_rtt_is_stale(&self, now: Time, params: &AnoleParams) -> bool {
        self.min_rtt.is_some_and(|(_, at)| now.since(at) > Dur::from_secs_f64(params.base_rtt_s))
    }

    /// A path that was all but empty had this round-trip time: what is longer than that by no more is empty, too, whatever
    /// was shorter before.
    pub fn was_empty_at(&mut self, now: Time, rtt: Dur) {
        self.shortest = WindowedMax::new(REMEMBERED_S);
        self.shortest.push(now.as_micros() / 1_000_000, Reverse(rtt));
    }

    /// Takes `rtt` for the smallest one, whatever was known.
    pub fn reset_min_rtt(&mut self, now: Time, rtt: Dur) {
        self.min_rtt = Some((rtt, now));
    }

    /// A drain was made to confirm the smallest round-trip time, and whatever it met, the next one is not
    /// due before long. A longer time is not taken over: it may be the queue of other flows, and would be
    /// raised by it time and again.
    pub fn confirm_min_rtt(&mut self, now: Time, after: Dur) {
        self.reset_min_rtt(now, self.min_rtt().min(after));
    }

    /// Remembers an inferred capacity.
    pub fn infer_capacity(&mut self, capacity: Rate) {
        let old = self.capacity.unwrap_or(capacity);
        self.capacity = Some(old * (1.0 - CAPACITY_GAIN) + capacity * CAPACITY_GAIN);
    }

    /// Forgets what was delivered: the path starts over.
    pub fn forget_delivery(&mut self) {
        (self.delivery_rate, self.top) = (Rate::ZERO, Rate::ZERO);
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
        let (params, mut path) = (AnoleParams::default(), Path::new());
        path.saw_rtt(at(0), ms(60), ms(50));
        path.saw_rtt(at(9), ms(60), ms(51));
        assert!(!path.min_rtt_is_stale(at(18), &params));
        path.saw_rtt(at(18), ms(60), ms(55));
        assert!(path.min_rtt_is_stale(at(20), &params));
        path.reset_min_rtt(at(20), ms(55));
        assert_eq!((path.min_rtt(), path.min_rtt_is_stale(at(20), &params)), (ms(55), false));
    }

    #[test]
    fn a_path_is_empty_at_the_shortest_round_trip_times_of_late_whatever_is_taken_for_the_smallest() {
        let mut path = Path::new();
        assert!(!path.is_empty_at(ms(50)));
        path.saw_rtt(at(0), ms(110), ms(100));
        path.saw_rtt(at(9), ms(120), ms(120));
        path.reset_min_rtt(at(9), ms(120));
        assert!(path.is_empty_at(ms(103)) && !path.is_empty_at(ms(104)));
        path.saw_rtt(at(10), ms(120), ms(120));
        assert!(path.is_empty_at(ms(123)), "what was seen ten seconds ago counts no more");
        path.saw_rtt(at(11), ms(20), ms(20));
        assert!(path.is_empty_at(ms(21)) && !path.is_empty_at(Dur::from_micros(21_001)));
        path.saw_rtt(at(12), ms(4), ms(4));
        assert!(path.is_empty_at(Dur::from_micros(4_400)) && !path.is_empty_at(Dur::from_micros(4_401)));
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
