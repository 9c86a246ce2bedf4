//! BBR, version 1: paces at the bandwidth of the bottleneck and bounds what is in flight by its product
//! with the smallest round-trip time.
//!
//! Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM Queue 14(5), 2016;
//! draft-cardwell-iccrg-bbr-congestion-control-00. The model is in `model`:
//!
//! ```text
//! bw  = largest delivery rate of the last ten rounds,  rt = smallest round-trip time of ten seconds
//! pacing rate = 0.99·gain·bw,  window = gain·bw·rt + 3 quanta,  quantum = what a millisecond sends, two packets at least
//! ```
//! The hundredth keeps the queue from growing on what jitter adds to delivery rates (tcp_bbr.c,
//! bbr_pacing_margin_percent). `recovery` has the window after losses, `policer` the long-term bandwidth.
//!
//! ```text
//!  ┌─────────┐ bw flat for   ┌───────┐ in flight ≤ BDP  ┌─────────┐
//!  │ Startup │ ────────────▶ │ Drain │ ───────────────▶ │ ProbeBw │ ◀──┐
//!  └─────────┘ three rounds  └───────┘                  └─────────┘    │
//!    2.89   ▲                  1/2.89                     │ 1.25, 0.75,│ 200 ms and a round after
//!           │ if it was not over            rt ten seconds│ 1 × 6      │ four packets were in flight
//!           │                               old, from any ▼            │
//!           │                                           ┌──────────┐   │
//!           └────────────────────────────────────────── │ ProbeRtt │ ──┘ window of four packets
//!                                                       └──────────┘
//! ```
//!
//! A retransmission timeout takes the window to its minimum until the next ACK, and lets start-up look for
//! the full bandwidth anew (draft §4.2.3.2, and tcp_bbr.c on entering loss).
//!
//! A fold program may sample the delivery rates and walk through the gain cycle in the datapath: [`Bbr::bandwidth`],
//! [`Bbr::gain_64`] and [`Bbr::cycle_phase`] are what it needs, and its reports end at the phases' ends.
//!
//! Deviations: stages change with feedback; a round is a round-trip time rather than a flight of data; not single samples but
//! whole phases are limited by the application, where it had nothing to send at any ACK; a recovery is measured in time; the
//! gain cycle starts at a phase drawn from the seed; quanta count in the window alone, not where a phase ends by what is in
//! flight; nothing is added for ACKs that come aggregated.

mod cycle;
mod model;
mod policer;
mod recovery;
pub mod v3;

use crate::{Control, Feedback, FlowStart, Law, LawSpec, params};
use anole_model::{Bounds, Dur, Rate, Time};
use cycle::Cycle;
use model::Model;
use policer::Policer;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use recovery::Window;

/// BBR in the registry.
pub const SPEC: LawSpec = LawSpec {
    name: "bbr",
    summary: "Paces at the measured bandwidth of the bottleneck, version 1",
    source: "Cardwell et al., ACM Queue 2016",
    parameters: &[],
    build: |flow, given| {
        params::check(SPEC.parameters, given)?;
        Ok(Box::new(Bbr::new(flow)))
    },
};

/// 2/ln 2 in 1/64: the smallest gain that doubles the delivery rate every round.
pub const HIGH_GAIN_64: u32 = 185;
/// Its inverse in 1/64: drains in one round what start-up queued in one.
pub const DRAIN_GAIN_64: u32 = 22;
/// Window over bandwidth-delay product: room for delayed and aggregated ACKs.
const CWND_GAIN: f64 = 2.0;
/// Start-up ends when the bandwidth has not grown by this factor …
const FULL_GROWTH: f64 = 1.25;
/// … for this many rounds.
const FULL_ROUNDS: u32 = 3;
/// Window while the smallest round-trip time is measured, and the least window but after a timeout, packets.
const MIN_CWND_PACKETS: u64 = 4;
/// Room in the window for what waits in the sender, in its queue and in the receiver's, each of one quantum (draft §4.2.3.2):
/// flows whose windows limit them come to equal shares by it.
const QUANTA: u64 = 3;
/// A quantum's length, from which rate on it has two packets at least, and the most of it, bytes (draft §4.2.2).
const QUANTUM: Dur = Dur::from_millis(1);
const QUANTUM_OF_TWO_MBPS: f64 = 1.2;
const MOST_QUANTUM: u64 = 64 << 10;
/// Start-up may send twice the initial window in its second round, as slow start does.
const SECOND_ROUND: u64 = 2;
/// How long the round-trip time is probed.
const PROBE_RTT: Dur = Dur::from_millis(200);
/// Rounds after that in which delivery rates still show the small window: its last packets are
/// acknowledged in the first, and packets sent meanwhile count from there.
const SHADOW_ROUNDS: u64 = 2;
/// The least time between two start-ups that go on from other laws: what is known of the path is that old at most.
const SEARCHES_AGAIN: Dur = Dur::from_millis(10_000);
/// The round-trip time before the first sample (draft §4.2.1).
pub const NOMINAL_RTT: Dur = Dur::from_millis(1);
/// Phases that a flow may start the cycle in: any but the draining one (the draft's choice).
const START_PHASES: u32 = 7;

/// Pacing rate over gain times bandwidth (tcp_bbr.c, bbr_pacing_margin_percent).
pub const PACING_MARGIN: f64 = 0.99;
/// A gain of 1 in 1/64.
const UNITY_64: u32 = 64;
/// Feedback tells of no longer round-trip time.
const LONGEST_RTT: Dur = Dur::from_millis(60_000);

/// What the flow does now.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// Exponential growth.
    Startup(Plateau),
    /// Empties the queue that start-up left.
    Drain,
    /// Cruises with the gain cycle.
    ProbeBw(Cycle),
    /// Measures the round-trip time.
    ProbeRtt {
        /// Until when; unknown before the flight has shrunk to four packets.
        until: Option<Time>,
        /// Start-up is over.
        filled: bool,
    },
}

/// How long the bandwidth has been flat in start-up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Plateau {
    bandwidth: Rate,
    rounds: u32,
}

/// BBR's model and stage.
#[derive(Clone, Debug)]
pub struct Bbr {
    flow: FlowStart,
    model: Model,
    policer: Policer,
    window: Window,
    stage: Stage,
    /// False before the first feedback.
    started: bool,
    /// A timeout happened, and nothing was acknowledged since.
    timed_out: bool,
    /// Until then delivery rates show the window of ProbeRtt.
    shadow_until: Time,
    /// When it took over in start-up.
    searched: Option<Time>,
    random: Pcg64Mcg,
}

impl Bbr {
    /// Start-up from the initial window.
    pub fn new(flow: FlowStart) -> Bbr {
        Bbr {
            flow,
            model: Model::new(),
            policer: Policer::default(),
            window: Window::new(u64::from(flow.init_cwnd)),
            stage: Stage::Startup(Plateau::default()),
            started: false,
            timed_out: false,
            shadow_until: Time::ZERO,
            searched: None,
            random: Pcg64Mcg::seed_from_u64(flow.seed),
        }
    }

    /// The flow begins now: its smallest round-trip time cannot be older.
    pub fn start(&mut self, now: Time) {
        self.started = true;
        self.model.start(now);
    }

    /// The bandwidth to pace at. Start-up is no slower than the initial window per round-trip time.
    pub fn bandwidth(&self) -> Rate {
        match self.stage {
            Stage::Startup(_) => {
                let rtt = self.model.min_rtt().unwrap_or(NOMINAL_RTT);
                let initial = u64::from(self.flow.init_cwnd);
                self.model.bandwidth().max(Rate::from_bytes_in(initial, rtt))
            }
            _ => self.policer.bandwidth().unwrap_or(self.model.bandwidth()),
        }
    }

    /// The bandwidth-delay product, bytes.
    pub fn bdp(&self) -> u64 {
        let policed = self.policer.bandwidth().zip(self.model.min_rtt());
        policed.map_or(self.model.bdp(), |(rate, rtt)| rate.bytes_in(rtt) as u64)
    }

    /// The smallest round-trip time, once one was measured.
    pub fn min_rtt(&self) -> Option<Dur> {
        self.model.min_rtt()
    }

    /// Pacing rate over bandwidth outside the gain cycle, 1/64.
    pub fn gain_64(&self) -> u32 {
        match self.stage {
            Stage::Startup(_) => HIGH_GAIN_64,
            Stage::Drain => DRAIN_GAIN_64,
            Stage::ProbeBw(_) | Stage::ProbeRtt { .. } => UNITY_64,
        }
    }

    /// The phase of the gain cycle, 0 to 7, while it runs: a policer is not probed.
    pub fn cycle_phase(&self) -> Option<u32> {
        match self.stage {
            Stage::ProbeBw(cycle) if self.policer.bandwidth().is_none() => Some(cycle.phase()),
            _ => None,
        }
    }

    /// A timeout happened, and nothing was acknowledged since.
    pub fn timed_out(&self) -> bool {
        self.timed_out
    }

    /// True while the window is held at its target, after a timeout and while the round-trip time is measured, and restored
    /// afterwards.
    pub fn is_held(&self) -> bool {
        self.timed_out || matches!(self.stage, Stage::ProbeRtt { .. })
    }

    fn mss(&self) -> u64 {
        u64::from(self.flow.mss.max(1))
    }

    /// The least window but after a timeout, four packets, bytes.
    pub fn least_cwnd(&self) -> u64 {
        MIN_CWND_PACKETS * self.mss()
    }

    /// Takes what feedback with acknowledgements says of the path. True when a round is over.
    fn learn(&mut self, now: Time, seen: &Feedback, rtt: Dur) -> bool {
        self.timed_out = false;
        if let Some(least) = seen.min_rtt {
            self.model.saw_rtt_after(now, least, seen.after_idle());
        }
        let rate = seen.delivery_rate.unwrap_or_else(|| Rate::from_bytes_in(seen.acked, seen.elapsed));
        if seen.app_limited || matches!(self.stage, Stage::ProbeRtt { .. }) || now < self.shadow_until {
            self.model.saw_limited_delivery(rate);
            return false;
        }
        let over = if self.window.begins(now, seen.lost) {
            self.model.begin_round();
            false
        } else {
            self.model.time_passed(seen.elapsed, rtt)
        };
        self.model.saw_delivery(rate);
        over
    }

    fn next_stage(&mut self, now: Time, in_flight: u64, rtt: Dur, round_over: bool) {
        self.stage = match self.stage {
            Stage::ProbeRtt { until: None, filled } if in_flight <= self.least_cwnd() => {
                Stage::ProbeRtt { until: Some(now + PROBE_RTT.max(rtt)), filled }
            }
            Stage::ProbeRtt { until: Some(until), filled } if now >= until => {
                self.model.end_measuring(now);
                self.shadow_until = now + rtt.mul_f64(SHADOW_ROUNDS as f64);
                if filled { self.probe_bw(now) } else { Stage::Startup(Plateau::default()) }
            }
            Stage::ProbeRtt { .. } => self.stage,
            _ if self.model.min_rtt_is_stale(now) => {
                self.model.begin_measuring();
                Stage::ProbeRtt { until: None, filled: !matches!(self.stage, Stage::Startup(_)) }
            }
            Stage::Startup(plateau) if round_over => self.look_for_the_end(plateau),
            Stage::Drain if in_flight <= self.bdp() => self.probe_bw(now),
            stage => stage,
        };
    }

    fn look_for_the_end(&self, Plateau { bandwidth, rounds }: Plateau) -> Stage {
        let now = self.model.bandwidth();
        if now.bytes_per_s() >= bandwidth.bytes_per_s() * FULL_GROWTH {
            Stage::Startup(Plateau { bandwidth: now, rounds: 0 })
        } else if rounds + 1 < FULL_ROUNDS {
            Stage::Startup(Plateau { bandwidth, rounds: rounds + 1 })
        } else {
            Stage::Drain
        }
    }

    fn probe_bw(&mut self, now: Time) -> Stage {
        // Phases count from the probing one; the draining one, which follows it, is no start.
        let drawn = self.random.random_range(0..START_PHASES);
        Stage::ProbeBw(Cycle::begin(now, if drawn == 0 { 0 } else { drawn + 1 }))
    }

    /// The window that the flow grows to, bytes; [`Law::control`] has the one in force.
    pub fn target_cwnd(&self) -> u64 {
        let least = self.least_cwnd();
        let initial = u64::from(self.flow.init_cwnd).max(least);
        match self.stage {
            _ if self.timed_out => self.mss(),
            Stage::Startup(_) if self.model.min_rtt().is_none() => initial,
            Stage::Startup(_) => self.window_of(high_gain()).max(SECOND_ROUND * initial),
            Stage::Drain => self.window_of(high_gain()).max(least),
            Stage::ProbeBw(_) => self.window_of(CWND_GAIN).max(least),
            Stage::ProbeRtt { .. } => least,
        }
    }

    /// What a sender may hand over at once: a millisecond of the pacing rate, and a packet or two at least, bytes.
    fn quantum(&self) -> u64 {
        let rate = self.bandwidth() * PACING_MARGIN;
        let least = if rate < Rate::from_mbps(QUANTUM_OF_TWO_MBPS) { self.mss() } else { 2 * self.mss() };
        (rate.bytes_in(QUANTUM) as u64).min(MOST_QUANTUM).max(least)
    }

    /// The window that carries `gain` times the bandwidth-delay product, bytes.
    fn window_of(&self, gain: f64) -> u64 {
        ((self.bdp() as f64 * gain) as u64).saturating_add(QUANTA * self.quantum())
    }

    fn take_window(&mut self, now: Time, seen: &Feedback, rtt: Dur) {
        let target = self.target_cwnd();
        if self.is_held() {
            return self.window.hold(target);
        }
        let keep =
            seen.in_flight.map_or(target, |left| left.saturating_add(seen.acked)).max(self.least_cwnd());
        self.window.take(now, rtt, seen.acked, seen.lost.saturating_mul(self.mss()), keep, target);
    }

    fn gain(&self) -> f64 {
        match self.stage {
            Stage::ProbeBw(cycle) if self.policer.bandwidth().is_none() => cycle.gain(),
            _ => f64::from(self.gain_64()) / f64::from(UNITY_64),
        }
    }
}

fn high_gain() -> f64 {
    f64::from(HIGH_GAIN_64) / f64::from(UNITY_64)
}

impl Law for Bbr {
    fn on_feedback(&mut self, now: Time, seen: &Feedback) {
        if !self.started {
            self.start(now);
        }
        let rtt = seen.rtt.unwrap_or(Dur::ZERO).clamp(Dur::from_micros(1), LONGEST_RTT);
        let in_flight = seen.in_flight.unwrap_or(0);
        if seen.acked > 0 {
            let round_over = self.learn(now, seen, rtt);
            self.next_stage(now, in_flight, rtt, round_over);
        }
        if seen.timeout {
            self.timed_out = true;
            if let Stage::Startup(plateau) = &mut self.stage {
                *plateau = Plateau::default();
            }
        }
        let lost = seen.lost.saturating_mul(self.mss());
        self.policer.take(now, self.model.round(), seen.acked, lost, seen.app_limited);
        self.take_window(now, seen, rtt);
        let (bdp, min_rtt) = (self.model.bdp(), self.model.min_rtt());
        if let (Stage::ProbeBw(cycle), Some(min_rtt)) = (&mut self.stage, min_rtt) {
            cycle.advance(now, min_rtt, seen.lost, in_flight.saturating_add(seen.acked), in_flight, bdp);
        }
    }

    fn control(&self) -> Control {
        let rate = self.bandwidth() * (self.gain() * PACING_MARGIN);
        Control { cwnd: self.window.cwnd(), rate: Some(Bounds::DEFAULT.clamp(rate)) }
    }

    /// The bandwidth is taken to be the other controller's rate; the cycle begins.
    fn resume(&mut self, now: Time, from: Control) {
        (self.started, self.timed_out) = (true, false);
        self.model.resume(now, from);
        self.stage = self.probe_bw(now);
        self.policer.reset();
        self.window.set(from.cwnd.max(self.least_cwnd()));
    }

    /// In start-up, as of a connection whose congestion control is set to BBR (tcp_bbr.c, bbr_init), from that rate; not
    /// again soon: what a start-up loses may be why another law governed meanwhile.
    fn resume_searching(&mut self, now: Time, from: Control) {
        self.model.forget_measuring();
        self.resume(now, from);
        if self.searched.is_none_or(|at| now.since(at) >= SEARCHES_AGAIN) {
            self.searched = Some(now);
            self.stage = Stage::Startup(Plateau::default());
        }
    }

    fn in_slow_start(&self) -> bool {
        matches!(self.stage, Stage::Startup(_))
    }

    fn is_starting(&self) -> bool {
        matches!(self.stage, Stage::Startup(_) | Stage::Drain)
    }

    fn cruising_rate(&self) -> Option<Rate> {
        Some(Bounds::DEFAULT.clamp(self.bandwidth() * PACING_MARGIN))
    }
}

#[cfg(test)]
mod tests;
