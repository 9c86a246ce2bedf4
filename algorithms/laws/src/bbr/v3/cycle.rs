//! The four phases of ProbeBw (draft-ietf-ccwg-bbr §5.3.3).

use anole_model::{Dur, Rate, Time};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

/// Pacing gain and window gain of Up (§5.3.3.4).
pub(super) const UP_GAIN: f64 = 1.25;
pub(super) const UP_CWND_GAIN: f64 = 2.25;
/// Pacing gain of Down (§5.3.3.1).
const DOWN_GAIN: f64 = 0.9;
/// Time from one probe to the next: this and up to a second more (§5.3.3.5.3) …
const LEAST_WAIT: Dur = Dur::from_millis(2_000);
const RANDOM_WAIT_MS: u64 = 1_000;
/// … or so many rounds, where the bandwidth-delay product has no fewer packets.
const MOST_ROUNDS: u64 = 63;
/// Up lasts two rounds, so that its first rate is heard, and no longer than this many smallest round-trip times (as version 1 here) …
const LONGEST_UP: u64 = 4;
/// … unless the bandwidth has grown by so much since it began, or since it last went on (§5.3.3.6, full_bw_now).
const UP_GROWTH: f64 = 1.2;
/// The bound grows by no more than 2^this packets per round (§5.3.3.4: MAX_BW_PROBE_UP_ROUNDS).
const MOST_DOUBLINGS: u32 = 30;

/// A phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Down,
    Cruise,
    Refill,
    Up,
}

/// Where the flow is in the cycle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cycle {
    phase: Phase,
    since: Time,
    /// Rounds in this phase, and since the last probe.
    rounds: u64,
    since_probe: u64,
    /// When the next probe is due.
    probe_at: Time,
    /// In Up: rounds whose window reached the bound. In Down: rates and losses of the probe still come in.
    raises: u32,
    after_probe: bool,
    /// Rates are a cycle older when the first round since Down began is over, whatever the phase is by then.
    ages: bool,
    /// The last probe lost too much, so that this one ends at the bound; the last one did, and tells whether the bound is safe.
    too_high: bool,
    precautionary: bool,
    /// In Up: the bandwidth when it began, or when it last went on.
    bandwidth: Rate,
}

/// What the phases go by.
pub(super) struct Path {
    pub min_rtt: Dur,
    /// No more is in flight than the path holds.
    pub drained: bool,
    /// A probe has filled the path.
    pub full: bool,
    /// The long-term bound holds the window.
    pub held: bool,
    /// Packets of the bandwidth-delay product.
    pub bdp_packets: u64,
    /// The largest delivery rate.
    pub bandwidth: Rate,
}

impl Cycle {
    /// Down, as after start-up or a failed probe.
    pub fn begin(now: Time, random: &mut Pcg64Mcg) -> Cycle {
        let wait = LEAST_WAIT + Dur::from_millis(random.random_range(0..RANDOM_WAIT_MS));
        Cycle {
            phase: Phase::Down,
            since: now,
            rounds: 0,
            since_probe: random.random_range(0..2),
            probe_at: now + wait,
            raises: 0,
            after_probe: false,
            ages: true,
            too_high: false,
            precautionary: false,
            bandwidth: Rate::ZERO,
        }
    }

    /// Cruise, with a probe to come.
    pub fn cruising(now: Time, random: &mut Pcg64Mcg) -> Cycle {
        Cycle { phase: Phase::Cruise, ages: false, ..Cycle::begin(now, random) }
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Pacing rate over bandwidth.
    pub fn gain(&self) -> f64 {
        match self.phase {
            Phase::Down => DOWN_GAIN,
            Phase::Cruise | Phase::Refill => 1.0,
            Phase::Up => UP_GAIN,
        }
    }

    /// Window over bandwidth-delay product, where it is `others` outside Up.
    pub fn cwnd_gain(&self, others: f64) -> f64 {
        if self.phase == Phase::Up { UP_CWND_GAIN } else { others }
    }

    /// Losses of this round are those of a probe: it goes on, or ended less than a round ago.
    pub fn samples_probe(&self) -> bool {
        match self.phase {
            Phase::Refill | Phase::Up => true,
            Phase::Down => self.after_probe && self.rounds == 0,
            Phase::Cruise => false,
        }
    }

    /// A round is over: true where it is the first of a cycle, so that rates are a cycle older (§5.3.3.6).
    pub fn takes_age(&mut self) -> bool {
        std::mem::take(&mut self.ages)
    }

    /// Packets by which the long-term bound may grow in Up: 1, 2, 4, …
    pub fn next_raise(&mut self) -> Option<u64> {
        (self.phase == Phase::Up && !self.too_high).then(|| {
            let packets = 1 << self.raises;
            self.raises = (self.raises + 1).min(MOST_DOUBLINGS);
            packets
        })
    }

    /// A round is over.
    pub fn round_over(&mut self) {
        self.rounds += 1;
        self.since_probe += 1;
    }

    /// Too much was lost.
    pub fn probe_failed(&mut self, now: Time, random: &mut Pcg64Mcg) {
        match self.phase {
            Phase::Up | Phase::Refill => *self = Cycle::begin(now, random),
            Phase::Down | Phase::Cruise => self.after_probe = false,
        }
        self.too_high = true;
    }

    fn enter(&mut self, now: Time, phase: Phase) {
        (self.phase, self.since, self.rounds, self.raises) = (phase, now, 0, 0);
    }

    /// Goes on to the next phase when this one is over.
    pub fn advance(&mut self, now: Time, path: &Path, random: &mut Pcg64Mcg) {
        let due = now >= self.probe_at || self.since_probe >= path.bdp_packets.clamp(1, MOST_ROUNDS);
        let lasted = now.since(self.since);
        match self.phase {
            Phase::Down if self.precautionary && self.after_probe && self.rounds > 0 => {
                self.precautionary = false;
                self.enter(now, Phase::Refill);
            }
            Phase::Down | Phase::Cruise if due && self.rounds > 0 => self.enter(now, Phase::Refill),
            Phase::Down if path.drained => self.enter(now, Phase::Cruise),
            Phase::Refill if self.rounds > 0 => {
                self.enter(now, Phase::Up);
                self.bandwidth = path.bandwidth;
            }
            Phase::Up if path.held && self.too_high => {
                *self = Cycle { after_probe: true, precautionary: true, ..Cycle::begin(now, random) };
            }
            Phase::Up if path.held || path.bandwidth > self.bandwidth * UP_GROWTH => {
                (self.since, self.bandwidth) = (now, path.bandwidth);
            }
            Phase::Up
                if self.rounds >= 2
                    && lasted > path.min_rtt
                    && (path.full || lasted > path.min_rtt * LONGEST_UP) =>
            {
                *self = Cycle { after_probe: true, ..Cycle::begin(now, random) };
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    const RTT: Dur = Dur::from_millis(50);

    /// The phases that follow each other when a round takes 50 ms, with their starts, ms.
    fn phases(bdp_packets: u64) -> Vec<(u64, Phase)> {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut cycle = Cycle::begin(Time::ZERO, &mut random);
        let mut seen = vec![(0, Phase::Down)];
        for ms in (50..6000).step_by(50) {
            cycle.round_over();
            let path = Path {
                min_rtt: RTT,
                drained: true,
                full: true,
                held: false,
                bdp_packets,
                bandwidth: Rate::ZERO,
            };
            cycle.advance(Time::from_micros(ms * 1000), &path, &mut random);
            if cycle.phase() != seen.last().unwrap().1 {
                seen.push((ms, cycle.phase()));
            }
        }
        seen
    }

    #[test]
    fn a_probe_comes_after_two_to_three_seconds_and_takes_a_round_to_refill() {
        let seen = phases(1000);
        let order: Vec<Phase> = seen.iter().take(5).map(|(_, phase)| *phase).collect();
        assert_eq!(order, [Phase::Down, Phase::Cruise, Phase::Refill, Phase::Up, Phase::Down]);
        let at = |n: usize| seen[n].0;
        assert!((2000..=3050).contains(&at(2)), "{seen:?}");
        assert_eq!((at(3) - at(2), at(4) - at(3)), (50, 100));
    }

    #[test]
    fn a_short_path_is_probed_as_often_as_reno_would_grow_by_its_product() {
        let seen = phases(10);
        assert!(seen[2].0 <= 550 && seen[2].1 == Phase::Refill, "{seen:?}");
    }

    #[test]
    fn a_lossy_probe_ends_at_once() {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut cycle = Cycle { phase: Phase::Up, ..Cycle::begin(Time::ZERO, &mut random) };
        assert_eq!([cycle.next_raise(), cycle.next_raise(), cycle.next_raise()], [Some(1), Some(2), Some(4)]);
        assert!(cycle.samples_probe());
        cycle.probe_failed(Time::from_micros(1), &mut random);
        assert!(cycle.phase() == Phase::Down && !cycle.samples_probe());
    }
}
