//! The round-trip time of the path without a queue, as far as this flow can tell.
//!
//! The smallest round-trip time, until a cut refutes it: with a queue of its own a flow that sends a share c less has
//! a round-trip time shorter by c, down to the base. Where less than half of that came, the queue is not this flow's,
//! or there is none: the round-trip time seen is the base now, and the window from before the cuts comes back. A raised
//! base is held for [`HELD`], then it is the smallest round-trip time since.

use anole_model::{Dur, Time};

/// How long a raised base stands though shorter round-trip times are seen.
const HELD: Dur = Dur::from_millis(1000);
/// Share of the fall predicted below which the base is refuted.
const REFUTES: f64 = 0.5;
/// A round-trip time that rose by more than this share tells of a capacity that fell: nothing is refuted.
const ROSE: f64 = 0.1;
/// Cuts are judged once they sum up to this share of the window …
const DEEP_CUT: f64 = 0.3;
/// … or to this many times the queue and a little more, when that is less …
const QUEUES_CUT: f64 = 1.5;
const LEAST_CUT: f64 = 0.03;
/// … and once a round trip has passed under them.
const ROUNDS: u32 = 2;

/// The base and the cuts that it is judged by.
#[derive(Clone, Debug, Default)]
pub(super) struct Base {
    rtt: Option<Dur>,
    /// When it was raised, and the smallest round-trip time since.
    raised: Option<(Time, Dur)>,
    /// The window and the round-trip time before the cuts, and the rounds since.
    cuts: Option<(f64, f64, u32)>,
}

impl Base {
    /// Seconds; zero without a sample.
    pub fn secs(&self) -> f64 {
        self.rtt.map_or(0.0, |rtt| rtt.as_secs_f64())
    }

    /// Takes the smallest round-trip time of a round.
    pub fn saw(&mut self, now: Time, rtt: Dur) {
        match &mut self.raised {
            Some((since, least)) => {
                *least = rtt.min(*least);
                if now.since(*since) > HELD {
                    (self.rtt, self.raised) = (Some(*least), None);
                }
            }
            None => self.rtt = Some(self.rtt.map_or(rtt, |base| base.min(rtt))),
        }
    }

    /// The window is cut, from `cwnd` at this round-trip time.
    pub fn cut(&mut self, cwnd: f64, rtt: f64) {
        self.cuts.get_or_insert((cwnd, rtt, 0));
    }

    /// What happened since is no consequence of the cuts.
    pub fn forget_cuts(&mut self) {
        self.cuts = None;
    }

    /// A round is over: the window to go back to, where the cuts have refuted the base.
    pub fn judge(&mut self, now: Time, rtt: Dur, cwnd: f64) -> Option<f64> {
        let (from, before, rounds) = self.cuts?;
        let (rtt_s, queue) = (rtt.as_secs_f64(), 1.0 - self.secs() / before);
        let cut = 1.0 - cwnd / from;
        let enough = DEEP_CUT.min(QUEUES_CUT * queue + LEAST_CUT);
        self.cuts = (cut > 0.0).then_some((from, before, rounds + 1));
        if cut < enough || rounds < ROUNDS {
            return None;
        }
        let fell = 1.0 - rtt_s / before;
        if fell >= -ROSE && fell < REFUTES * cut.min(queue) {
            *self = Base { rtt: Some(rtt), raised: Some((now, rtt)), cuts: None };
            return Some(from);
        }
        self.cuts = Some((cwnd, rtt_s, 0));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Dur {
        Dur::from_millis(n)
    }

    /// A base of 50 ms at 60 ms, then rounds of cuts by a tenth under which the round-trip time is what `rtt_ms` says:
    /// the window gone back to, and the base.
    fn cut(rtt_ms: impl Fn(u64) -> u64) -> (Option<f64>, f64) {
        let mut base = Base::default();
        base.saw(Time::ZERO, ms(50));
        let mut cwnd = 100.0;
        for round in 0..5 {
            let now = Time::from_micros(round * 60_000);
            let rtt = ms(rtt_ms(round));
            base.saw(now, rtt);
            if let Some(back) = base.judge(now, rtt, cwnd) {
                return (Some(back), base.secs());
            }
            base.cut(cwnd, rtt.as_secs_f64());
            cwnd *= 0.9;
        }
        (None, base.secs())
    }

    #[test]
    fn a_cut_without_effect_refutes_the_base_and_one_with_effect_or_a_capacity_that_falls_does_not() {
        assert_eq!(cut(|_| 60), (Some(100.0), 0.06));
        assert_eq!(cut(|round| 60 - 5 * round.min(2)), (None, 0.05));
        assert_eq!(cut(|round| 60 + 20 * round), (None, 0.05));
    }

    #[test]
    fn a_raised_base_is_held_and_then_the_smallest_seen_since() {
        let mut base = Base::default();
        base.saw(Time::ZERO, ms(50));
        base.raised = Some((Time::ZERO, ms(60)));
        base.rtt = Some(ms(60));
        base.saw(Time::from_micros(500_000), ms(55));
        assert_eq!(base.secs(), 0.06);
        base.saw(Time::from_micros(1_100_000), ms(58));
        assert_eq!(base.secs(), 0.055);
    }
}
