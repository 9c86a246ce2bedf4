//! BBR, version 3: draft-ietf-ccwg-bbr (Cardwell et al.). Version 1's model with a bound on what is in flight that losses teach.
//!
//! ```text
//! bw = largest delivery rate of two cycles, or the short-term bound    rt = smallest round-trip time, five seconds old at most
//! pacing rate = 0.99·gain·bw,  window = gain·bw·rt within the bounds of `bounds`
//!
//!  Startup ─▶ Drain ─▶ ProbeBw: Down ─▶ Cruise ─▶ Refill ─▶ Up ─▶ Down …      ProbeRtt from any, every five seconds
//! ```
//!
//! | state | pacing | window | until |
//! |---|---|---|---|
//! | Startup | 2.77 | 2 | bw grew by less than a quarter in three rounds; or a round lost 2 %, and six packets |
//! | Drain | 0.5 | 2 | a bandwidth-delay product is in flight; or three rounds |
//! | Down | 0.9 | 2 | that, and 0.85 of the long-term bound; or the next probe is due |
//! | Cruise | 1 | 2 | 2 to 3 s, or as many rounds as Reno would take to grow by a bandwidth-delay product (63 at most), since the probe |
//! | Refill | 1 | 2 | a round; short-term bounds are forgotten |
//! | Up | 1.25 | 2.25 | a round lost 2 %; or 1.25 products are in flight, after two rounds at least and four round-trip times at most, each time from when the bandwidth last grew by a fifth or the long-term bound held the window; after a probe that lost 2 %, once that bound is reached |
//! | ProbeRtt | 1 | 0.5 | 200 ms and a round after the flight was that small |
//!
//! (§5.3.1 to §5.3.4; gains §2.4, §5.6.) While Up is held by the long-term bound, the bound grows by 1, 2, 4, … packets per
//! round. A probe that ended at the bound and lost nothing is followed by the next at once (§5.3.3.4, precautionary probing).
//!
//! Deviations: as [`super`]'s for rounds, recovery and application-limited samples; the smallest round-trip time is measured
//! anew when it is five seconds old, and counts for five more (the two filters of §5.5.7); no allowance for aggregation or
//! offload in the window; no ECN; loss rates are those of rounds, not of single packets' flights, so that packets stand for the six
//! places in which start-up has to lose; what is lost in Refill is a probe's.

mod bounds;
mod cycle;

use super::model::Model;
use super::recovery::Window;
use super::{NOMINAL_RTT, PACING_MARGIN, Plateau};
use crate::{Control, Feedback, FlowStart, Law, LawSpec, params};
use anole_model::{Bounds as Limits, Dur, Rate, Time};
use bounds::{Bounds, Round};
use cycle::{Cycle, Phase};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// BBRv3 in the registry.
pub const SPEC: LawSpec = LawSpec {
    name: "bbr3",
    summary: "BBR, version 3: paces at the measured bandwidth within a bound on the flight that losses teach",
    source: "draft-ietf-ccwg-bbr",
    parameters: &[],
    build: |flow, given| {
        params::check(SPEC.parameters, given)?;
        Ok(Box::new(Bbr3::new(flow)))
    },
};

/// Cycles over which the bandwidth is the largest delivery rate (MaxBwFilterLen).
const BANDWIDTH_CYCLES: u64 = 2;
/// Pacing gains (4·ln 2, §5.3.1; §5.3.2).
const STARTUP_GAIN: f64 = 2.77;
const DRAIN_GAIN: f64 = 0.5;
/// Window gains; that of Up is [`cycle::UP_CWND_GAIN`].
const CWND_GAIN: f64 = 2.0;
const PROBE_RTT_CWND_GAIN: f64 = 0.5;
/// Start-up ends when the bandwidth has grown by less than this in so many rounds (§5.3.1.2), or when losses were found so often
/// in a lossy round (§5.3.1.3).
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
const FULL_LOSSES: u64 = 6;
/// The draining ends after more than so many rounds (§5.3.2).
const DRAIN_ROUNDS: u64 = 3;
/// The least window (MinPipeCwnd).
const MIN_CWND_PACKETS: u64 = 4;
/// How long the round-trip time is probed (ProbeRTTDuration), and rounds after that in which rates show it.
const PROBE_RTT: Dur = Dur::from_millis(200);
const SHADOW_ROUNDS: u64 = 2;
/// Reports per round trip: phases end within one.
const REPORTS_PER_RTT: u32 = 4;
/// Feedback tells of no longer round-trip time.
const LONGEST_RTT: Dur = Dur::from_millis(60_000);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Startup(Plateau),
    /// Rounds so far.
    Drain {
        rounds: u64,
    },
    ProbeBw(Cycle),
    /// Until when, once the flight is small; start-up was over.
    ProbeRtt {
        until: Option<Time>,
        filled: bool,
    },
}

/// BBRv3's model, bounds and stage.
#[derive(Clone, Debug)]
pub struct Bbr3 {
    flow: FlowStart,
    model: Model,
    bounds: Bounds,
    window: Window,
    stage: Stage,
    round: Round,
    started: bool,
    timed_out: bool,
    /// The last feedback.
    last: Time,
    shadow_until: Time,
    random: Pcg64Mcg,
}

impl Bbr3 {
    /// Start-up from the initial window.
    pub fn new(flow: FlowStart) -> Bbr3 {
        Bbr3 {
            flow,
            model: Model::over_cycles(BANDWIDTH_CYCLES),
            bounds: Bounds::default(),
            window: Window::new(u64::from(flow.init_cwnd)),
            stage: Stage::Startup(Plateau::default()),
            round: Round::default(),
            started: false,
            timed_out: false,
            last: Time::ZERO,
            shadow_until: Time::ZERO,
            random: Pcg64Mcg::seed_from_u64(flow.seed),
        }
    }

    fn mss(&self) -> u64 {
        u64::from(self.flow.mss.max(1))
    }

    /// The bandwidth to pace at; start-up is no slower than the initial window per round trip.
    fn bandwidth(&self) -> Rate {
        let most = self.model.bandwidth();
        if let Stage::Startup(_) = self.stage {
            let rtt = self.model.min_rtt().unwrap_or(NOMINAL_RTT);
            return most.max(Rate::from_bytes_in(u64::from(self.flow.init_cwnd), rtt));
        }
        self.bounds.shortterm.map_or(most, |(rate, _)| rate.min(most))
    }

    fn bdp(&self, gain: f64) -> u64 {
        let rtt = self.model.min_rtt().unwrap_or(Dur::ZERO);
        (gain * self.bandwidth().bytes_in(rtt)) as u64
    }

    /// Takes what came back. The round that is over, if one is.
    fn learn(&mut self, now: Time, seen: &Feedback, rtt: Dur) -> Option<Round> {
        let span = now.since(std::mem::replace(&mut self.last, now));
        self.round.lost = self.round.lost.saturating_add(seen.lost);
        if seen.acked == 0 {
            return None;
        }
        self.timed_out = false;
        if let Some(least) = seen.min_rtt {
            self.model.saw_rtt_after(now, least, seen.after_idle());
        }
        let rate = seen.delivery_rate.unwrap_or_else(|| Rate::from_bytes_in(seen.acked, span));
        if seen.app_limited || matches!(self.stage, Stage::ProbeRtt { .. }) || now < self.shadow_until {
            self.model.saw_limited_delivery(rate);
            self.round = Round::default();
            return None;
        }
        self.model.saw_delivery(rate);
        self.round.acked = self.round.acked.saturating_add(seen.acked);
        self.round.rate = self.round.rate.max(rate);
        let over = self.model.time_passed(span, rtt);
        over.then(|| std::mem::take(&mut self.round))
    }

    /// What the losses of a round teach.
    fn adapt(&mut self, now: Time, round: &Round, in_flight: u64, used: u64) {
        let lossy = round.is_lossy(self.mss());
        let bdp = self.model.bdp();
        if let Stage::ProbeBw(cycle) = &mut self.stage
            && cycle.takes_age()
        {
            self.model.next_cycle();
        }
        match &mut self.stage {
            Stage::Startup(_) if lossy && round.lost >= FULL_LOSSES => {
                self.bounds.longterm = Some(bdp.max(round.acked));
                self.stage = Stage::Drain { rounds: 0 };
            }
            Stage::Startup(plateau) => {
                if let Some(next) = look_for_the_end(*plateau, self.model.bandwidth()) {
                    *plateau = next;
                } else {
                    self.stage = Stage::Drain { rounds: 0 };
                }
            }
            Stage::ProbeBw(cycle) if cycle.samples_probe() => {
                if lossy {
                    let lost = round.lost.saturating_mul(u64::from(self.flow.mss));
                    self.bounds.probe_failed(in_flight.saturating_add(lost), bdp);
                    cycle.probe_failed(now, &mut self.random);
                } else if self.bounds.is_reached(used)
                    && let Some(packets) = cycle.next_raise()
                {
                    self.bounds.raise(packets * u64::from(self.flow.mss));
                }
                cycle.round_over();
            }
            Stage::ProbeBw(cycle) => {
                if round.lost > 0 {
                    self.bounds.lost(round, self.model.bandwidth(), self.window.cwnd().max(bdp));
                }
                cycle.round_over();
            }
            Stage::Drain { rounds } => {
                *rounds += 1;
                if round.lost > 0 {
                    self.bounds.lost(round, self.model.bandwidth(), self.window.cwnd().max(bdp));
                }
            }
            Stage::ProbeRtt { .. } => {}
        }
    }

    fn next_stage(&mut self, now: Time, in_flight: u64, acked: u64, held: bool, rtt: Dur) {
        self.stage = match self.stage {
            Stage::ProbeRtt { until: None, filled } if in_flight <= self.probe_rtt_cwnd() => {
                Stage::ProbeRtt { until: Some(now + PROBE_RTT.max(rtt)), filled }
            }
            Stage::ProbeRtt { until: Some(until), filled } if now >= until => {
                self.model.end_measuring(now);
                self.shadow_until = now + rtt * SHADOW_ROUNDS;
                self.bounds.shortterm = None;
                if filled {
                    Stage::ProbeBw(Cycle::cruising(now, &mut self.random))
                } else {
                    Stage::Startup(Plateau::default())
                }
            }
            Stage::ProbeRtt { .. } => self.stage,
            _ if self.model.min_rtt_is_stale(now) => {
                self.model.begin_measuring();
                Stage::ProbeRtt { until: None, filled: !matches!(self.stage, Stage::Startup(_)) }
            }
            Stage::Drain { rounds } if in_flight <= self.bdp(1.0) || rounds > DRAIN_ROUNDS => {
                Stage::ProbeBw(Cycle::begin(now, &mut self.random))
            }
            Stage::ProbeBw(cycle) => self.cycle(now, cycle, in_flight, acked, held),
            stage => stage,
        };
    }

    fn cycle(&mut self, now: Time, mut cycle: Cycle, in_flight: u64, acked: u64, held: bool) -> Stage {
        let bdp = self.bdp(1.0);
        let path = cycle::Path {
            min_rtt: self.model.min_rtt().unwrap_or(NOMINAL_RTT),
            drained: in_flight <= self.bounds.drained(bdp),
            full: in_flight.saturating_add(acked) as f64 >= cycle::UP_GAIN * bdp as f64,
            held,
            bdp_packets: bdp / self.mss(),
            bandwidth: self.model.bandwidth(),
        };
        cycle.advance(now, &path, &mut self.random);
        if cycle.phase() == Phase::Refill {
            self.bounds.shortterm = None;
        }
        Stage::ProbeBw(cycle)
    }

    fn probe_rtt_cwnd(&self) -> u64 {
        self.bdp(PROBE_RTT_CWND_GAIN).max(MIN_CWND_PACKETS * self.mss())
    }

    /// The window that the flow grows to, bytes.
    fn target_cwnd(&self) -> u64 {
        let least = MIN_CWND_PACKETS * self.mss();
        let initial = u64::from(self.flow.init_cwnd).max(least);
        match self.stage {
            _ if self.timed_out => self.mss(),
            Stage::Startup(_) if self.model.min_rtt().is_none() => initial,
            Stage::Startup(_) => self.bdp(CWND_GAIN).max(2 * initial),
            Stage::Drain { .. } => self.bdp(CWND_GAIN).min(self.bounds.shortterm_cwnd()).max(least),
            Stage::ProbeBw(cycle) => {
                let bound = self.bounds.cwnd(cycle.phase() == Phase::Cruise);
                self.bdp(cycle.cwnd_gain(CWND_GAIN)).min(bound).max(least)
            }
            Stage::ProbeRtt { .. } => self.probe_rtt_cwnd().min(self.bounds.cwnd(true)).max(least),
        }
    }

    fn take_window(&mut self, now: Time, seen: &Feedback, rtt: Dur) {
        let target = self.target_cwnd();
        if self.timed_out || matches!(self.stage, Stage::ProbeRtt { .. }) {
            return self.window.hold(target);
        }
        let left = seen.in_flight.map_or(target, |left| left.saturating_add(seen.acked));
        let keep = left.max(MIN_CWND_PACKETS * self.mss());
        let lost = seen.lost.saturating_mul(self.mss());
        self.window.take(now, rtt, seen.acked, lost, keep, target);
    }

    fn gain(&self) -> f64 {
        match self.stage {
            Stage::Startup(_) => STARTUP_GAIN,
            Stage::Drain { .. } => DRAIN_GAIN,
            Stage::ProbeBw(cycle) => cycle.gain(),
            Stage::ProbeRtt { .. } => 1.0,
        }
    }
}

/// The plateau after a round; `None` when start-up is over.
fn look_for_the_end(plateau: Plateau, now: Rate) -> Option<Plateau> {
    if now.bytes_per_s() >= plateau.bandwidth.bytes_per_s() * FULL_GROWTH {
        return Some(Plateau { bandwidth: now, rounds: 0 });
    }
    (plateau.rounds + 1 < FULL_ROUNDS).then_some(Plateau { rounds: plateau.rounds + 1, ..plateau })
}

impl Law for Bbr3 {
    fn on_feedback(&mut self, now: Time, seen: &Feedback) {
        if !self.started {
            self.started = true;
            self.last = now - seen.elapsed;
            self.model.start(now);
        }
        let rtt = seen.rtt.unwrap_or(Dur::ZERO).clamp(Dur::from_micros(1), LONGEST_RTT);
        let in_flight = seen.in_flight.unwrap_or(0);
        // An ACK has just made room.
        let used = self.window.cwnd().min(in_flight.saturating_add(seen.acked));
        let held = self.bounds.longterm.is_some_and(|bound| used >= bound);
        if let Some(round) = self.learn(now, seen, rtt) {
            self.adapt(now, &round, in_flight, used);
        }
        if seen.acked > 0 {
            self.next_stage(now, in_flight, seen.acked, held, rtt);
        }
        if seen.timeout {
            self.timed_out = true;
            if let Stage::Startup(plateau) = &mut self.stage {
                *plateau = Plateau::default();
            }
        }
        self.take_window(now, seen, rtt);
    }

    fn control(&self) -> Control {
        let rate = self.bandwidth() * (self.gain() * PACING_MARGIN);
        Control { cwnd: self.window.cwnd(), rate: Some(Limits::DEFAULT.clamp(rate)) }
    }

    /// The bandwidth is taken to be the other controller's rate; the flow cruises.
    fn resume(&mut self, now: Time, from: Control) {
        (self.started, self.timed_out, self.last) = (true, false, now);
        self.model.resume(now, from);
        self.bounds = Bounds::default();
        self.stage = Stage::ProbeBw(Cycle::cruising(now, &mut self.random));
        self.window.set(from.cwnd.max(MIN_CWND_PACKETS * self.mss()));
    }

    fn in_slow_start(&self) -> bool {
        matches!(self.stage, Stage::Startup(_))
    }

    fn reports_per_rtt(&self) -> u32 {
        REPORTS_PER_RTT
    }
}

#[cfg(test)]
mod tests;
