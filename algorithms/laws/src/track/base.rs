//! The round-trip time of the path without a queue, as far as this flow can tell.
//!
//! The smallest round-trip time, until a cut refutes it: with a queue of its own a flow that sends a share c less has
//! a round-trip time shorter by c, down to the base. Where less than half of that came, and less is delivered than before,
//! the queue is not this flow's, or there is none: the round-trip time seen is the base now, and the window from before
//! the cuts comes back. Where as much is delivered as before, a queue stands, and its fall is on the way: a window that
//! grew fast shows late how long a queue it has made. A raised base is held for [`HELD`], then it is the smallest
//! round-trip time since. It stays in doubt until a round-trip time as short as before, or a nearly empty window
//! ([`super::Track`] asks for one), tells the truth.

use anole_model::{Dur, Time};

/// How long a raised base stands though shorter round-trip times are seen.
const HELD: Dur = Dur::from_millis(1000);
/// A path that swings has this many round trips at least in one of its states.
const UNSEEN_ROUNDS: u64 = 4;
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
/// The smallest round-trip time of all is confirmed by one this near above it, share.
const CONFIRMS: f64 = 0.02;

/// What cuts have told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cuts {
    /// Nothing yet.
    Pending,
    /// The round-trip time fell as it should have.
    HadEffect,
    /// It did not: the base is raised, and this was the window before the cuts, bytes.
    Refuted(f64),
}

/// Cuts under way.
#[derive(Clone, Copy, Debug)]
struct Cutting {
    /// The window before them, bytes.
    from: f64,
    /// The round-trip time that window led to, s: it shows a round trip later.
    rtt: f64,
    rounds: u32,
    /// What was delivered under that window, bytes/s, where it is known.
    rate: Option<f64>,
    /// The window a round before, bytes.
    last: f64,
}

impl Cutting {
    fn begin(from: f64, rtt: f64) -> Cutting {
        Cutting { from, rtt, rounds: 0, rate: None, last: from }
    }

    /// True where as much is delivered as before the cuts, though less is in flight.
    fn keeps_busy(&self, delivered: Option<f64>) -> bool {
        let cut = 1.0 - self.last / self.from;
        delivered.zip(self.rate).is_some_and(|(now, before)| now >= before * (1.0 - REFUTES * cut))
    }
}

/// The base and the cuts that it is judged by.
#[derive(Clone, Debug, Default)]
pub(super) struct Base {
    rtt: Option<Dur>,
    /// When it was raised, and the smallest round-trip time since.
    raised: Option<(Time, Dur)>,
    /// It was raised, and nothing has told the truth since.
    doubtful: bool,
    cutting: Option<Cutting>,
    /// The smallest round-trip time of all, and when it was last seen.
    floor: Option<(Dur, Time)>,
}

impl Base {
    /// What another controller took for it, and when that saw it last.
    pub fn believed(rtt: Dur, seen: Time) -> Base {
        Base { rtt: Some(rtt), floor: Some((rtt, seen)), ..Base::default() }
    }

    pub fn rtt(&self) -> Option<Dur> {
        self.rtt
    }

    /// Seconds; zero without a sample.
    pub fn secs(&self) -> f64 {
        self.rtt.map_or(0.0, |rtt| rtt.as_secs_f64())
    }

    /// True while it stands above round-trip times that were seen.
    pub fn is_raised(&self) -> bool {
        self.raised.is_some()
    }

    /// True when it was raised, and nothing has told the truth since.
    pub fn is_doubtful(&self) -> bool {
        self.doubtful
    }

    /// True when it was raised and no round-trip time as short as the smallest of all has been seen for `age`.
    pub fn needs_proof(&self, now: Time, age: Dur) -> bool {
        self.doubtful && self.is_old(now, age)
    }

    /// True when no round-trip time as short as the smallest of all has been seen for `age`.
    pub fn is_old(&self, now: Time, age: Dur) -> bool {
        self.floor.is_some_and(|(_, seen)| now.since(seen) > age)
    }

    /// True when nothing as short as the smallest round-trip time of all has been seen for so long that there may be none
    /// any more.
    pub fn is_unseen(&self, now: Time, rtt: Dur) -> bool {
        self.is_old(now, HELD.max(rtt * UNSEEN_ROUNDS))
    }

    /// What was known is forgotten; what is seen until [`Base::prove`] is the truth.
    pub fn seek_proof(&mut self) {
        (self.floor, self.cutting) = (None, None);
    }

    /// The smallest round-trip time since [`Base::seek_proof`] is the base.
    pub fn prove(&mut self, now: Time) {
        let rtt = self.floor.map(|(rtt, _)| rtt).or(self.rtt);
        *self = Base { rtt, floor: rtt.map(|rtt| (rtt, now)), ..Base::default() };
    }

    /// Takes the smallest round-trip time of a round.
    pub fn saw(&mut self, now: Time, rtt: Dur) {
        self.watch_floor(now, rtt);
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

    /// Takes a round-trip time that tells the floor alone.
    pub fn watch_floor(&mut self, now: Time, rtt: Dur) {
        let confirms = |floor: Dur| rtt <= floor.mul_f64(1.0 + CONFIRMS);
        if self.floor.is_none_or(|(floor, _)| confirms(floor)) {
            self.floor = Some((self.floor.map_or(rtt, |(floor, _)| floor.min(rtt)), now));
        }
    }

    /// It is this round-trip time, whatever was believed.
    pub fn raise(&mut self, now: Time, rtt: Dur) {
        *self = Base {
            rtt: Some(rtt),
            raised: Some((now, rtt)),
            doubtful: true,
            cutting: None,
            floor: self.floor,
        };
    }

    /// The window is cut, from `cwnd` bytes at this round-trip time, s.
    pub fn cut(&mut self, cwnd: f64, rtt: f64) {
        self.cutting.get_or_insert(Cutting::begin(cwnd, rtt));
    }

    /// What happened since is no consequence of the cuts.
    pub fn forget_cuts(&mut self) {
        self.cutting = None;
    }

    /// A round is over, in which so much was delivered, bytes/s, if that tells anything: what the cuts have told.
    pub fn judge(&mut self, now: Time, rtt: Dur, cwnd: f64, delivered: Option<f64>) -> Cuts {
        let Some(mut cutting) = self.cutting else { return Cuts::Pending };
        let rtt_s = rtt.as_secs_f64();
        if cutting.rounds == 0 {
            (cutting.rtt, cutting.rate) = (cutting.rtt.max(rtt_s), delivered);
        }
        let (cut, queue) = (1.0 - cwnd / cutting.from, 1.0 - self.secs() / cutting.rtt);
        let rounds = cutting.rounds;
        self.cutting = (cut > 0.0).then_some(Cutting { rounds: rounds + 1, last: cwnd, ..cutting });
        if cut < DEEP_CUT.min(QUEUES_CUT * queue + LEAST_CUT) || rounds < ROUNDS {
            return Cuts::Pending;
        }
        let fell = 1.0 - rtt_s / cutting.rtt;
        if fell >= -ROSE && fell < REFUTES * cut.min(queue) {
            if cutting.keeps_busy(delivered) {
                return Cuts::Pending;
            }
            self.raise(now, rtt);
            return Cuts::Refuted(cutting.from);
        }
        self.cutting = Some(Cutting::begin(cwnd, rtt_s));
        Cuts::HadEffect
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Dur {
        Dur::from_millis(n)
    }

    /// A base of 50 ms at 60 ms, then rounds of cuts by a tenth under which the round-trip time is what `rtt_ms` says:
    /// the first that they tell, and the base. `delivered` is bytes/s under a window.
    fn cut(rtt_ms: impl Fn(u64) -> u64, delivered: impl Fn(f64) -> Option<f64>) -> (Cuts, f64) {
        let mut base = Base::default();
        base.saw(Time::ZERO, ms(50));
        let (mut cwnd, mut before) = (100.0, 100.0);
        for round in 0..6 {
            let now = Time::from_micros(round * 60_000);
            let rtt = ms(rtt_ms(round));
            base.saw(now, rtt);
            match base.judge(now, rtt, cwnd, delivered(before)) {
                Cuts::Pending => {}
                told => return (told, base.secs()),
            }
            base.cut(cwnd, rtt.as_secs_f64());
            (before, cwnd) = (cwnd, cwnd * 0.9);
        }
        (Cuts::Pending, base.secs())
    }

    #[test]
    fn a_cut_without_effect_refutes_the_base_unless_it_had_one_the_capacity_fell_or_the_path_stays_busy() {
        let [unknown, in_proportion, all]: [fn(f64) -> Option<f64>; 3] =
            [|_| None, |cwnd| Some(cwnd / 0.06), |_| Some(1000.0)];
        for tells in [unknown, in_proportion] {
            assert_eq!(cut(|_| 60, tells), (Cuts::Refuted(100.0), 0.06));
            assert_eq!(cut(|round| 60 - 5 * round.min(2), tells), (Cuts::HadEffect, 0.05));
            assert_eq!(cut(|round| 60 + 20 * round, tells), (Cuts::HadEffect, 0.05));
        }
        assert_eq!(cut(|_| 60, all), (Cuts::Pending, 0.05), "a queue stands where the path stays busy");
    }

    #[test]
    fn a_raised_base_is_held_and_then_the_smallest_seen_since() {
        let mut base = Base::default();
        base.saw(Time::ZERO, ms(50));
        base.raise(Time::ZERO, ms(60));
        base.saw(Time::from_micros(500_000), ms(55));
        assert_eq!(base.secs(), 0.06);
        base.saw(Time::from_micros(1_100_000), ms(58));
        assert_eq!(base.secs(), 0.055);
    }

    #[test]
    fn what_another_controller_saw_is_as_old_as_that() {
        let at = |s: u64| Time::from_micros(s * 1_000_000);
        let base = Base::believed(ms(50), at(999));
        assert!(!base.is_old(at(1008), ms(10_000)) && base.is_old(at(1010), ms(10_000)));
    }

    #[test]
    fn a_raised_base_is_in_doubt_until_proved() {
        let mut base = Base::default();
        base.saw(Time::ZERO, ms(50));
        let later = Time::from_micros(11_000_000);
        assert!(!base.needs_proof(later, ms(10_000)));
        base.raise(Time::ZERO, ms(60));
        assert!(base.needs_proof(later, ms(10_000)) && !base.needs_proof(later, ms(12_000)));
        base.seek_proof();
        base.watch_floor(later, ms(58));
        base.prove(later);
        assert_eq!((base.secs(), base.needs_proof(later + ms(20_000), ms(10_000))), (0.058, false));
    }
}
