//! Exponential growth with the `ramp` program: slow start at the beginning, and a gentler ramp when
//! capacity has become free.
//!
//! It ends when the round-trip time rises by half of what the utility tolerates, when a tenth of the
//! packets is lost (random loss below that must not end it: a flow would stay at a fraction of a lossy
//! link), when the delivery rate has not grown by a quarter of what was asked for over three reports in
//! a row (the full-pipe test of BBR, for buffers too small to show a delay), or on a timeout.

use super::decision::{Choice, Source};
use super::drain::{self, Reason};
use super::evaluation::gap_us;
use super::params::Params;
use super::path::Path;
use super::{Anole, CYCLE_MASK, Stage};
use anole_model::{Dur, Rate, Time};
use anole_programs::ramp::{self, control};
use anole_programs::{Commands, Program, anole_cycle};

/// Share of packets lost that ends a ramp.
const LOSS_LIMIT: f64 = 0.1;
/// Losses below this many packets in one report never end a ramp.
const LOSS_PACKETS: u64 = 8;
/// Reports without growth that end a ramp (BBR's full-pipe count).
const PLATEAU_REPORTS: u32 = 3;
/// Growth per report, relative to the growth asked for, below which the delivery rate has levelled off
/// (BBR: a quarter where doubling was asked for).
const PLATEAU_SHARE: f64 = 0.25;
/// The round-trip time has to rise by at least this much: below, host jitter looks like a queue.
const MIN_RISE: Dur = Dur::from_millis(1);
/// Pacing rate over window per round trip, 1/16: a quarter above it, so that pacing spreads the packets
/// without holding back the growth.
const PACE_16: u32 = 20;
/// A window larger than any path's, before the round-trip time is known, µs.
const NO_EXIT_US: u32 = 1_000_000_000;

/// A ramp under way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ramp {
    gain: f64,
    /// The largest delivery rate of a report so far.
    best: Rate,
    flat_reports: u32,
}

impl Ramp {
    /// Starts to grow from `cwnd` bytes by `gain` per round trip.
    pub fn start(gain: f64, cwnd: u32, aim: Dur, path: &Path, params: &Params, out: &mut Commands) -> Ramp {
        out.run(Self::program())
            .cwnd(cwnd)
            .set(control::GAIN_16, (gain * 16.0).round() as u32)
            .set(control::PACE_16, PACE_16);
        let ramp = Ramp { gain, best: Rate::ZERO, flat_reports: 0 };
        ramp.aim(aim, path, params, out);
        ramp
    }

    /// The program that it runs.
    pub fn program() -> &'static Program {
        &ramp::PROGRAM
    }

    /// Growth per round trip.
    pub fn gain(&self) -> f64 {
        self.gain
    }

    /// Sets what ends the ramp in the datapath, and the time between reports.
    fn aim(&self, aim: Dur, path: &Path, params: &Params, out: &mut Commands) {
        let exit = match path.is_measured() {
            true => {
                let min = path.min_rtt();
                (min + min.mul_f64(0.5 * params.mu).max(aim).max(MIN_RISE))
                    .as_micros()
                    .min(u64::from(NO_EXIT_US)) as u32
            }
            false => NO_EXIT_US,
        };
        out.set(control::EXIT_RTT_US, exit);
        out.set(control::GAP_US, gap_us(path.srtt() / 2));
        out.set(control::INTERVAL_US, path.srtt().as_micros().clamp(1_000, 1_000_000) as u32);
    }

    /// Takes a report; true when the ramp is over.
    pub fn on_report(
        &mut self,
        now: Time,
        seen: &ramp::Report,
        mss: u32,
        path: &mut Path,
        params: &Params,
        out: &mut Commands,
    ) -> bool {
        path.saw_rtt(now, Dur::from_micros(seen.rtt_us), Dur::from_micros(seen.min_rtt_us.min(seen.rtt_us)));
        // A report that ends early covers too short a time for a rate.
        let elapsed = Dur::from_micros(seen.elapsed_us);
        if elapsed >= path.min_rtt() / 2 {
            path.saw_delivery(seen.acked, elapsed);
        }
        let lost = seen.lost.saturating_mul(u64::from(mss));
        let lossy =
            seen.lost >= LOSS_PACKETS && lost as f64 > LOSS_LIMIT * (lost.saturating_add(seen.acked)) as f64;
        let grown = path.delivery_rate() > self.best * (1.0 + self.gain * PLATEAU_SHARE);
        self.flat_reports = if grown { 0 } else { self.flat_reports + 1 };
        self.best = self.best.max(path.delivery_rate());
        let aim = path.standing(Rate::from_bytes_in(seen.cwnd, path.srtt()), mss, params).aim;
        self.aim(aim, path, params, out);
        seen.ended > 0 || seen.timeout > 0 || lossy || self.flat_reports >= PLATEAU_REPORTS
    }
}

impl Anole {
    /// Starts exponential growth from a window.
    pub(super) fn ramp(&mut self, gain: f64, cwnd: u32, out: &mut Commands) {
        self.climbs = 0;
        self.path.forget_capacity();
        self.stage = Stage::Ramp(Ramp::start(gain, cwnd, self.standing().aim, &self.path, &self.params, out));
    }

    /// Takes a report of the ramp.
    pub(super) fn on_ramp_report(&mut self, now: Time, seen: &ramp::Report, out: &mut Commands) {
        let Stage::Ramp(mut ramp) = self.stage else { return };
        let over = ramp.on_report(now, seen, self.flow.mss, &mut self.path, &self.params, out);
        self.feed_classic(now, seen.acked, seen.lost, seen.timeout > 0);
        self.rate = Rate::from_bytes_in(seen.cwnd, self.path.srtt());
        self.stage = Stage::Ramp(ramp);
        let observation = self.observe(seen.lost, seen.acked, Dur::from_micros(seen.elapsed_us));
        self.ask_policy(now, &observation);
        if over {
            out.clear();
            self.leave_ramp(now, &ramp, Dur::from_micros(seen.rtt_us), out);
        }
    }

    /// The queue that ended the ramp is drained, and its ACKs tell the rate to go on with.
    fn leave_ramp(&mut self, now: Time, ramp: &Ramp, rtt: Dur, out: &mut Commands) {
        self.apply(now, Choice { rate: self.path.top(), source: Source::Previous, climb: false });
        self.cycle = (self.cycle + 1) & CYCLE_MASK;
        out.run(&anole_cycle::PROGRAM)
            .set(anole_cycle::control::CYCLE, self.cycle)
            .set(anole_cycle::control::PHASE, 2)
            .set(anole_cycle::control::WINDOW_US, 0);
        let share = drain::after_ramp(ramp.gain(), rtt, self.standing().aim, &self.path);
        self.enter_drain(Reason::Ramp, share, rtt, out);
    }
}
