//! Exponential growth with the `ramp` program: slow start at the beginning, and a gentler ramp when
//! capacity has become free.
//!
//! It ends when the round-trip time rises by the queue aimed at (slow start: by half of what the utility tolerates
//! at least), when a tenth of the packets is lost (random loss below that must not end it: a flow would stay at a
//! fraction of a lossy link), when the delivery rate has not grown by a quarter of what was asked for over three
//! reports in a row (the full-pipe test of BBR, for buffers too small to show a delay), or on a timeout. Not counted are
//! reports in which the window did not grow, and those that span a pause: the application has less to send than the window,
//! and the pipe is not full; nor those of less than half a round trip, which tell no rate.

use super::decision::{Choice, Source};
use super::drain::{self, Reason};
use super::evaluation::gap_us;
use super::params::AnoleParams;
use super::path::Path;
use super::target_queue::TargetQueue;
use super::{Anole, Stage};
use crate::hybrid::interval::MAX_RTT_US;
use anole_laws::Feedback;
use anole_model::{Bounds, Dur, Rate, Time};
use anole_programs::ramp::{self, control};
use anole_programs::{Commands, Program};

/// Share of packets lost that ends a ramp.
const LOSS_LIMIT: f64 = 0.1;
/// Losses below this many packets in one report never end a ramp.
const LOSS_PACKETS: u64 = 8;
/// Growth per round trip of slow start.
pub(super) const SLOW_START: f64 = 1.0;
/// What is left of what arrives when slow start ends among others: CUBIC's β (RFC 9438).
const CUT: f64 = 0.7;
/// A round-trip time that falls below this share of the first one tells that others' queue stood at the beginning.
const FALLS: f64 = 0.95;
/// The least window that a timeout leaves, packets.
const LEAST_PACKETS: u64 = 4;
/// Reports without growth that end a ramp (BBR's full-pipe count).
const PLATEAU_REPORTS: u32 = 3;
/// Growth per report, relative to the growth asked for, below which the delivery rate has levelled off
/// (BBR: a quarter where doubling was asked for).
const PLATEAU_SHARE: f64 = 0.25;
/// A report that comes this many times as late as it was asked for, by a packet that met no queue, spans a pause, and tells
/// no rate.
const PAUSE: u64 = 2;
/// The round-trip time has to rise by at least this much: below, host jitter looks like a queue.
const MIN_RISE: Dur = Dur::from_millis(1);
/// Pacing rate over window per round trip, 1/16, in slow start and in a gentle ramp: 200 and 125 %, about what Linux
/// has (tcp_pacing_ss_ratio, tcp_pacing_ca_ratio).
const PACE_16: (u32, u32) = (32, 20);
/// A window larger than any path's, before the round-trip time is known, µs.
const NO_EXIT_US: u32 = 1_000_000_000;

/// A ramp that raised the delivery rate by less than this share found no free capacity.
const FOUND: f64 = 0.1;
/// A ramp that found none makes the next one wait for twice as many cycles as the one before, at most for these.
const MAX_WAIT: u32 = 8;
/// One that overflowed nothing makes it wait for these at most.
const MAX_WAIT_HARMLESS: u32 = 1;
/// Delivery rates that differ by more than this share are not the same.
const MORE: f64 = 0.02;

/// How long ramps wait after one that found nothing: what looks like an empty queue may be one that cannot be
/// seen, as in a buffer of less than a millisecond, and each ramp overflows it. None waits once more arrives than
/// the last one ever saw. Ramps whose queue found room let the next one wait for a cycle only: more overlooks a doubled
/// capacity for half a second in one run of four, none at all lets four flows find their shares later.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Patience {
    /// Cycles.
    wait: u32,
    left: u32,
    seen: Rate,
}

impl Patience {
    /// A cycle in which `delivered` arrived would start a ramp: true when it may.
    pub fn may_ramp(&mut self, delivered: Rate) -> bool {
        let may = self.left == 0 || delivered > self.seen * (1.0 + MORE);
        self.left = self.left.saturating_sub(1);
        may
    }

    /// A ramp ended that began at a delivery rate and reached another.
    fn ended(&mut self, before: Rate, best: Rate) {
        self.wait = if best > before * (1.0 + FOUND) { 0 } else { (2 * self.wait).clamp(1, MAX_WAIT) };
        self.left = self.wait;
        self.seen = before.max(best);
    }

    /// What the ramp queued found room.
    pub fn did_no_harm(&mut self) {
        self.wait = self.wait.min(MAX_WAIT_HARMLESS);
        self.left = self.wait;
    }
}

/// A ramp under way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ramp {
    gain: f64,
    /// The delivery rate when it began.
    before: Rate,
    /// The largest delivery rate of a report so far.
    best: Rate,
    /// The window at the last report, bytes.
    cwnd: u64,
    flat_reports: u32,
    /// The first round-trip time, and whether it has fallen since.
    first_rtt: Option<Dur>,
    fell: bool,
    /// Packets have been lost.
    lost: bool,
    /// The last report's loss ends it.
    lossy: bool,
    /// The window, which grows while it is in use, did not in the last half round trip and more.
    limited: bool,
}

impl Ramp {
    /// Starts to grow from `cwnd` bytes by `gain` per round trip.
    pub fn start(
        gain: f64,
        cwnd: u32,
        aim: Dur,
        path: &Path,
        params: &AnoleParams,
        out: &mut Commands,
    ) -> Ramp {
        out.run(Self::program())
            .cwnd(cwnd)
            .set(control::GAIN_16, (gain * 16.0).round() as u32)
            .set(control::PACE_16, if gain < SLOW_START { PACE_16.1 } else { PACE_16.0 });
        let ramp = Ramp {
            gain,
            before: path.delivery_rate(),
            best: Rate::ZERO,
            cwnd: u64::from(cwnd),
            flat_reports: 0,
            first_rtt: None,
            fell: false,
            lost: false,
            lossy: false,
            limited: false,
        };
        ramp.aim(aim, path, params, out);
        ramp
    }

    /// The program that it runs.
    pub fn program() -> &'static Program {
        &ramp::PROGRAM
    }

    fn is_slow_start(&self) -> bool {
        self.gain >= SLOW_START
    }

    /// Growth per round trip.
    pub fn gain(&self) -> f64 {
        self.gain
    }

    /// Sets what ends the ramp in the datapath, and the time between reports.
    fn aim(&self, aim: Dur, path: &Path, params: &AnoleParams, out: &mut Commands) {
        let exit = match path.is_measured() {
            true => {
                let min = path.min_rtt();
                // Slow start has no rate yet that would tell what to aim at.
                let tolerable = if self.is_slow_start() { min.mul_f64(0.5 * params.mu) } else { Dur::ZERO };
                let rise = aim.max(tolerable).max(MIN_RISE);
                (min + rise).as_micros().min(u64::from(NO_EXIT_US)) as u32
            }
            false => NO_EXIT_US,
        };
        out.set(control::EXIT_RTT_US, exit);
        out.set(control::GAP_US, gap_us(path.srtt() / 2));
        // The first ACK tells the round-trip time: until the report of it nothing bounds the growth.
        let interval = if path.is_measured() { path.srtt() } else { Dur::ZERO };
        out.set(control::INTERVAL_US, interval.as_micros().clamp(1_000, 1_000_000) as u32);
    }

    /// Takes a report; true when the ramp is over.
    pub fn on_report(
        &mut self,
        now: Time,
        seen: &ramp::Report,
        mss: u32,
        path: &mut Path,
        params: &AnoleParams,
        out: &mut Commands,
    ) -> bool {
        let asked = path.srtt();
        let [rtt, min] = [seen.rtt_us, seen.min_rtt_us.min(seen.rtt_us)].map(Dur::from_micros);
        path.saw_rtt(now, rtt, min);
        if !min.is_zero() {
            self.fell |= min < self.first_rtt.get_or_insert(rtt).mul_f64(FALLS);
        }
        let widened = seen.cwnd > self.cwnd;
        self.cwnd = seen.cwnd;
        let elapsed = Dur::from_micros(seen.elapsed_us);
        let paused = elapsed > asked * PAUSE && path.is_empty_at(rtt);
        if path.tells_rate(elapsed) && !paused {
            path.saw_delivery(seen.acked, elapsed);
            self.limited = !widened;
            match path.delivery_rate() > self.best * (1.0 + self.gain * PLATEAU_SHARE) {
                true => self.flat_reports = 0,
                false => self.flat_reports += u32::from(widened),
            }
            self.best = self.best.max(path.delivery_rate());
        }
        let lost = seen.lost.saturating_mul(u64::from(mss));
        self.lost |= seen.lost > 0;
        self.lossy =
            seen.lost >= LOSS_PACKETS && lost as f64 > LOSS_LIMIT * (lost.saturating_add(seen.acked)) as f64;
        let aim = TargetQueue::of(Rate::from_bytes_in(seen.cwnd, path.srtt()), path, mss, params).target;
        self.aim(aim, path, params, out);
        seen.ended > 0 || seen.timeout > 0 || self.lossy || self.flat_reports >= PLATEAU_REPORTS
    }
}

impl Anole {
    /// Starts exponential growth from a window.
    pub(super) fn ramp(&mut self, gain: f64, cwnd: u32, out: &mut Commands) {
        (self.climbs, self.unmoved) = (0, 0);
        self.path.forget_capacity();
        if gain >= SLOW_START {
            self.path.forget_delivery();
            self.trust.forget_yielding();
        }
        self.stage =
            Stage::Ramp(Ramp::start(gain, cwnd, self.target_queue().target, &self.path, &self.params, out));
        out.set(control::MSS, self.flow.mss);
    }

    /// Takes a report of the ramp.
    pub(super) fn on_ramp_report(&mut self, now: Time, seen: &ramp::Report, out: &mut Commands) {
        let Stage::Ramp(mut ramp) = self.stage else { return };
        let over = ramp.on_report(now, seen, self.flow.mss, &mut self.path, &self.params, out);
        let news = Feedback {
            acked: seen.acked,
            lost: seen.lost,
            timeout: seen.timeout > 0,
            min_rtt: (1..=MAX_RTT_US).contains(&seen.min_rtt_us).then(|| Dur::from_micros(seen.min_rtt_us)),
            samples: seen.acked / u64::from(self.flow.mss.max(1)),
            elapsed: Dur::from_micros(seen.elapsed_us),
            ..Feedback::default()
        };
        self.feed_rule(now, news);
        self.set_rate(now, Rate::from_bytes_in(seen.cwnd, self.path.srtt()), self.source.0);
        self.enter(Stage::Ramp(ramp));
        let observation = self.observe(seen.lost, seen.acked, Dur::from_micros(seen.elapsed_us));
        self.learned.ask(now, &observation);
        if over {
            out.clear();
            if seen.timeout > 0 && (seen.acked == 0 || ramp.is_slow_start()) {
                // The path was away; that it is full nothing tells.
                let cwnd = (seen.cwnd / 2).max(LEAST_PACKETS * u64::from(self.flow.mss));
                return self.ramp(SLOW_START, Bounds::DEFAULT.cwnd(cwnd, self.flow.mss), out);
            }
            self.leave_ramp(now, &ramp, Dur::from_micros(seen.rtt_us), out);
        }
    }

    /// The queue that ended the ramp is drained, and its ACKs tell the rate to go on with. What an application has tells
    /// nothing of the path: then the window goes on to the law that needs no model of it. Nor does slow start where packets
    /// are lost and the queue is as long as at its beginning: it joined flows that fill the buffer. Nor where some are and the
    /// queue has become shorter than at its beginning: that was others'.
    fn leave_ramp(&mut self, now: Time, ramp: &Ramp, rtt: Dur, out: &mut Commands) {
        self.patience.ended(ramp.before, ramp.best);
        if ramp.limited {
            return self.track_from(now, self.rate, out);
        }
        if ramp.is_slow_start() && ramp.lossy && rtt <= self.short_rtt() {
            return self.join(now, self.path.delivery_rate() * CUT, out);
        }
        if ramp.is_slow_start() && ramp.lost && ramp.fell {
            return self.track_from(now, self.path.delivery_rate() * CUT, out);
        }
        let told = Some(self.path.top()).filter(|top| *top > Rate::ZERO);
        self.apply(now, Choice { rate: told.unwrap_or(self.rate), source: Source::Previous, climb: false });
        self.start_cycle(out);
        let share = drain::after_ramp(ramp.gain(), rtt, self.target_queue().target, &self.path);
        self.enter_drain(Reason::Ramp, share, rtt, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ramps_that_find_nothing_wait_longer_each_time_unless_more_arrives() {
        let mbps = |n: f64| Rate::from_bytes_per_s(n * 125_000.0);
        let mut patience = Patience::default();
        let mut waits = |before, best, harmed: bool, delivered| {
            patience.ended(mbps(before), mbps(best));
            if !harmed {
                patience.did_no_harm();
            }
            (0..100).position(|_| patience.may_ramp(mbps(delivered)))
        };
        let fruitless = [(); 5].map(|()| waits(48.0, 49.0, true, 48.0));
        assert_eq!(fruitless, [1, 2, 4, 8, 8].map(Some));
        assert_eq!([(); 2].map(|()| waits(48.0, 49.0, false, 48.0)), [1, 1].map(Some));
        assert_eq!(waits(48.0, 49.0, true, 51.0), Some(0));
        assert_eq!((waits(48.0, 90.0, true, 90.0), waits(90.0, 90.0, true, 90.0)), (Some(0), Some(1)));
    }
}
