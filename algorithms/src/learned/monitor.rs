//! Monitor intervals: what several reports told between two decisions becomes one observation, with what a flow
//! remembers of its path.
//!
//! Reports come more often than decisions (a loss, a timeout, a late answer), so that their sums are
//! brought to one origin and added. With t the arrival times and y the round-trip times of n ACKs the
//! slope of the round-trip time is (n·Σty − Σt·Σy)/(n·Σtt − (Σt)²).

use super::report::{LONGEST_RTT_US, Sample, UNIT_S};
use anole_model::{Dur, Rate, Time};
use anole_policies::Observation;

/// Fewer samples than this have no slope worth naming.
const MIN_SAMPLES: f64 = 5.0;
/// No round-trip time is longer; a larger figure is no measurement.
const LONGEST_RTT: Dur = Dur::from_micros(LONGEST_RTT_US);
/// What a sample leaves of the smoothed round-trip time (RFC 6298: 1 − 1/8) …
const SRTT_KEEPS: f64 = 7.0 / 8.0;
/// … and of its deviation (1 − 1/4).
const RTTVAR_KEEPS: f64 = 3.0 / 4.0;
/// A smoothed round-trip time of more than this many of those that come is none of the path.
const FORGETS: u64 = 2;
/// Extremes of the last ten seconds are at most twice this old: BBR's ten seconds.
const LONG: Dur = Dur::from_millis(5_000);
/// The same of the last two seconds.
const SHORT: Dur = Dur::from_millis(1_000);

/// Extremes of a span.
#[derive(Clone, Copy, Debug, Default)]
struct Extremes {
    min_rtt: Option<Dur>,
    max_delivery: Rate,
}

/// Extremes of late: of this span and of the one before.
#[derive(Clone, Debug, Default)]
struct Late {
    spans: [Extremes; 2],
    /// When this span ends.
    ends: Time,
}

impl Late {
    /// Begins the next span once this one, which is so long, is over. After a pause of another, nothing is of late.
    fn advance(&mut self, now: Time, length: Dur) {
        if now >= self.ends {
            let before = if now < self.ends + length { self.spans[0] } else { Extremes::default() };
            self.spans = [Extremes::default(), before];
            self.ends = now + length;
        }
    }

    fn saw_rtt(&mut self, rtt: Dur) {
        let least = &mut self.spans[0].min_rtt;
        *least = Some(least.map_or(rtt, |least| least.min(rtt)));
    }

    /// The path has this round-trip time now, whatever was seen before.
    fn believe_rtt(&mut self, rtt: Dur) {
        let [now, before] = &mut self.spans;
        (now.min_rtt, before.min_rtt) = (Some(rtt), None);
    }

    fn saw_delivery(&mut self, rate: Rate) {
        self.spans[0].max_delivery = self.spans[0].max_delivery.max(rate);
    }

    fn min_rtt(&self) -> Option<Dur> {
        self.spans.iter().filter_map(|span| span.min_rtt).min()
    }

    fn max_delivery(&self) -> Rate {
        self.spans[0].max_delivery.max(self.spans[1].max_delivery)
    }
}

/// The monitor interval that is open, and what is known of the path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Monitor {
    mss: u32,
    /// Round trips whose ACKs make a delivery rate by themselves.
    enough_rtts: f64,
    srtt: Option<Dur>,
    rtt_var: Dur,
    min_rtt: Option<Dur>,
    /// Of the last five to ten seconds, and of the last one to two.
    long: Late,
    short: Late,
    max_delivery: Rate,
    acked: u64,
    lost: u64,
    elapsed: Dur,
    inflight: u64,
    rate_in: u64,
    sums: [f64; 6],
}

impl Monitor {
    /// Nothing is known yet.
    pub fn new(mss: u32) -> Monitor {
        Monitor { mss: mss.max(1), enough_rtts: 1.0, ..Monitor::default() }
    }

    /// The same, but so many round trips are enough for a delivery rate.
    pub fn with_enough_rtts(self, enough_rtts: f64) -> Monitor {
        Monitor { enough_rtts, ..self }
    }

    /// The smoothed round-trip time, once there is one.
    pub fn srtt(&self) -> Option<Dur> {
        self.srtt
    }

    /// The smallest round-trip time of the flow, once there is one.
    pub fn min_rtt(&self) -> Option<Dur> {
        self.min_rtt
    }

    /// The smallest round-trip time of the last one to two seconds: a path may become longer.
    pub fn recent_rtt(&self) -> Option<Dur> {
        self.short.min_rtt()
    }

    /// The largest delivery rate of the flow.
    pub fn max_delivery(&self) -> Rate {
        self.max_delivery
    }

    /// The delivery rate since the last decision. Within less than a round trip ACKs come in bursts; then
    /// it is the datapath's, which spans one, unless less is enough.
    pub fn delivery_rate(&self) -> Rate {
        let long = self.srtt.is_some_and(|srtt| self.elapsed >= srtt.mul_f64(self.enough_rtts));
        if long || self.rate_in == 0 {
            Rate::from_bytes_in(self.acked, self.elapsed)
        } else {
            Rate::from_bytes_per_s(self.rate_in as f64)
        }
    }

    /// A probe found that the path has this round-trip time now: what the last ten seconds showed is forgotten.
    pub fn believe_rtt(&mut self, rtt: Dur) {
        self.long.believe_rtt(rtt);
    }

    /// Takes a report.
    pub fn add(&mut self, now: Time, sample: &Sample) {
        self.long.advance(now, LONG);
        self.short.advance(now, SHORT);
        let [n, t, y, tt, ty, yy] = sample.sums;
        if sample.has_rtt() {
            let (mean, last) = (y / n * UNIT_S, sample.rtt_us as f64 * 1e-6);
            // An outage and its end in one report: the mean is the outage's.
            let outlasted = last > 0.0 && last * (FORGETS as f64) < mean;
            let (mean, square) =
                if outlasted { (last, last * last) } else { (mean, yy / n * UNIT_S * UNIT_S) };
            self.saw_rtt(n, mean, square, sample.min_rtt_us);
        }
        // The sums of a report count time from the report before it.
        let origin = self.elapsed.as_secs_f64() / UNIT_S;
        let shifted =
            [n, t + n * origin, y, tt + 2.0 * origin * t + n * origin * origin, ty + origin * y, yy];
        for (sum, more) in self.sums.iter_mut().zip(shifted) {
            *sum += more;
        }
        self.acked = self.acked.saturating_add(sample.acked);
        self.lost = self.lost.saturating_add(sample.lost);
        self.elapsed += sample.elapsed;
        self.inflight = sample.inflight;
        self.rate_in = sample.rate_in;
    }

    fn saw_rtt(&mut self, n: f64, mean_s: f64, mean_square: f64, min_rtt_us: u64) {
        let bounded = |rtt: Dur| rtt.max(Dur::from_micros(1)).min(LONGEST_RTT);
        let mean = bounded(Dur::from_secs_f64(mean_s));
        let least = bounded(Dur::from_micros(min_rtt_us));
        self.min_rtt = Some(self.min_rtt.map_or(least, |min| min.min(least)));
        self.long.saw_rtt(least);
        self.short.saw_rtt(least);
        // As n samples of the mean would have moved them. What an outage left is forgotten with the first that passes: a
        // policy decides once per round trip, and would wait for seconds to see that there is capacity again.
        let before = self.srtt.unwrap_or(mean);
        let kept = if mean * FORGETS < before { 0.0 } else { SRTT_KEEPS.powf(n) };
        let deviation = (mean_square - mean_s * mean_s).max(0.0).sqrt();
        let off = (before.as_secs_f64() - mean.as_secs_f64()).abs().max(deviation);
        let kept_var = RTTVAR_KEEPS.powf(n);
        self.rtt_var = self.rtt_var.mul_f64(kept_var) + Dur::from_secs_f64(off * (1.0 - kept_var));
        self.srtt = Some(bounded(before.mul_f64(kept) + mean.mul_f64(1.0 - kept)));
    }

    /// What was measured since the last decision, with the rate and the window that were in force; the
    /// next one begins. `None` while no round-trip time was ever monitor.
    pub fn observe(&mut self, rate: Rate, cwnd: u64) -> Option<Observation> {
        let (srtt, min_rtt) = (self.srtt?, self.min_rtt?);
        let [n, _, y, ..] = self.sums;
        let delivery_rate = self.delivery_rate();
        self.max_delivery = self.max_delivery.max(delivery_rate);
        self.long.saw_delivery(delivery_rate);
        let lost_bytes = self.lost as f64 * f64::from(self.mss);
        let all = lost_bytes + self.acked as f64;
        let seen = Observation {
            rate,
            delivery_rate,
            srtt,
            min_rtt,
            min_rtt_10s: self.long.min_rtt().unwrap_or(min_rtt),
            min_rtt_2s: self.short.min_rtt().unwrap_or(srtt),
            max_delivery_10s: self.long.max_delivery(),
            rtt: if n >= 1.0 { Dur::from_secs_f64(y / n * UNIT_S).min(LONGEST_RTT) } else { srtt },
            rtt_var: self.rtt_var,
            rtt_gradient: self.slope(),
            loss_rate: if all > 0.0 { lost_bytes / all } else { 0.0 },
            interval: self.elapsed,
            cwnd,
            inflight: self.inflight,
            acks: n,
            lost: self.lost as f64,
            mss: self.mss,
        };
        self.forget();
        Some(seen)
    }

    /// The next decision's span begins.
    pub fn forget(&mut self) {
        (self.acked, self.lost, self.elapsed, self.sums) = (0, 0, Dur::ZERO, [0.0; 6]);
    }

    fn slope(&self) -> f64 {
        let [n, t, y, tt, ty, _] = self.sums;
        let spread = n * tt - t * t;
        // Far from the origin the difference of two large numbers is all rounding.
        if n < MIN_SAMPLES || spread <= 1e-9 * n * tt {
            return 0.0;
        }
        let slope = (n * ty - t * y) / spread;
        if slope.is_finite() { slope } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(times_us: impl Iterator<Item = (u64, u64)>, elapsed_us: u64) -> Sample {
        let mut sample =
            Sample { elapsed: Dur::from_micros(elapsed_us), min_rtt_us: u64::MAX, ..Sample::default() };
        for (at, rtt) in times_us {
            let (t, y) = ((at / 16) as f64, (rtt / 16) as f64);
            sample.acked += 1000;
            sample.rtt_us = rtt;
            sample.min_rtt_us = sample.min_rtt_us.min(rtt);
            for (sum, more) in sample.sums.iter_mut().zip([1.0, t, y, t * t, t * y, y * y]) {
                *sum += more;
            }
        }
        sample
    }

    /// Round-trip times that rise by a fifth of the time that passes, in one report and in three.
    #[test]
    fn reports_add_up_to_the_observation_of_one() {
        let line = |from: u64, to: u64| (from..to).map(move |i| ((i - from) * 1600, 48_000 + i * 320));
        let mut whole = Monitor::new(1000);
        whole.add(Time::ZERO, &sample(line(0, 60), 96_000));
        let mut parts = Monitor::new(1000);
        for part in 0..3 {
            parts.add(Time::ZERO, &sample(line(20 * part, 20 * part + 20), 32_000));
        }
        let rate = Rate::from_bytes_per_s(1e6);
        let (whole, parts) = (whole.observe(rate, 10_000).unwrap(), parts.observe(rate, 10_000).unwrap());
        assert!((whole.rtt_gradient - 0.2).abs() < 1e-9, "{whole:?}");
        assert!((parts.rtt_gradient - 0.2).abs() < 1e-9, "{parts:?}");
        assert_eq!((whole.interval, whole.acks, whole.rtt), (parts.interval, parts.acks, parts.rtt));
        assert_eq!(whole.delivery_rate, Rate::from_bytes_per_s(60_000.0 / 0.096));
    }

    #[test]
    fn the_acks_of_half_a_round_trip_make_a_delivery_rate_where_that_is_enough() {
        let delivery_rate = |monitor: Monitor| {
            let mut monitor = monitor;
            let ten = (0..10).map(|i| (i * 2000, 40_000));
            monitor.add(Time::ZERO, &Sample { rate_in: 2_000_000, ..sample(ten, 20_000) });
            monitor.delivery_rate().bytes_per_s()
        };
        assert_eq!(delivery_rate(Monitor::new(1000)), 2e6);
        assert_eq!(delivery_rate(Monitor::new(1000).with_enough_rtts(0.5)), 5e5);
    }

    #[test]
    fn an_observation_begins_anew_and_remembers_the_path() {
        let mut monitor = Monitor::new(1000);
        assert!(monitor.observe(Rate::ZERO, 0).is_none());
        monitor.add(Time::ZERO, &sample([(0, 32_000), (1600, 48_000)].into_iter(), 60_000));
        let first = monitor.observe(Rate::ZERO, 0).unwrap();
        assert_eq!((first.acks, first.rtt), (2.0, Dur::from_millis(40)));
        monitor.add(Time::ZERO, &Sample { lost: 3, acked: 7000, elapsed: first.rtt, ..Sample::default() });
        let second = monitor.observe(Rate::ZERO, 0).unwrap();
        assert_eq!((second.acks, second.rtt, second.lost), (0.0, second.srtt, 3.0));
        assert!((second.loss_rate - 0.3).abs() < 1e-12);
        assert_eq!(second.min_rtt, Dur::from_millis(32));
        assert_eq!(monitor.max_delivery(), Rate::from_bytes_per_s(7000.0 / 0.04));
    }

    #[test]
    fn an_outage_is_forgotten_with_the_first_sample_after_it() {
        let mut monitor = Monitor::new(1000);
        for rtt in [50_000, 4_000_000, 52_000] {
            monitor.add(Time::ZERO, &sample([(0, rtt)].into_iter(), 100_000));
        }
        assert_eq!(monitor.srtt(), Some(Dur::from_millis(52)));
        // Both in one report.
        let mut monitor = Monitor::new(1000);
        monitor.add(Time::ZERO, &sample([(0, 50_000)].into_iter(), 100_000));
        monitor.add(Time::ZERO, &sample([(0, 4_000_000), (1000, 52_000)].into_iter(), 100_000));
        assert!(monitor.srtt().unwrap() <= Dur::from_millis(52), "{monitor:?}");
    }

    #[test]
    fn a_path_that_became_longer_is_believed_within_two_seconds() {
        let mut monitor = Monitor::new(1000);
        for tenth in 0..40u64 {
            let rtt = if tenth < 20 { 20_000 } else { 80_000 };
            let at = Time::from_micros(tenth * 100_000);
            monitor.add(at, &sample([(0, rtt)].into_iter(), 100_000));
        }
        assert_eq!(monitor.recent_rtt(), Some(Dur::from_millis(80)));
        assert_eq!(monitor.min_rtt(), Some(Dur::from_millis(20)));
        let base = |monitor: &mut Monitor| monitor.observe(Rate::ZERO, 0).unwrap().min_rtt_10s;
        assert_eq!(base(&mut monitor), Dur::from_millis(20));
        monitor.believe_rtt(Dur::from_millis(75));
        assert_eq!(base(&mut monitor), Dur::from_millis(75));
    }

    #[test]
    fn what_was_seen_before_a_pause_is_not_of_late() {
        let mut monitor = Monitor::new(1000);
        for (at_s, rtt) in [(0, 20_000), (60, 80_000)] {
            monitor.add(Time::from_micros(at_s * 1_000_000), &sample([(0, rtt)].into_iter(), 100_000));
        }
        let seen = monitor.observe(Rate::ZERO, 0).unwrap();
        assert_eq!((seen.min_rtt_2s, seen.min_rtt_10s), (Dur::from_millis(80), Dur::from_millis(80)));
        assert_eq!(seen.min_rtt, Dur::from_millis(20));
    }
}
