//! A capacity like that of an LTE downlink, drawn from a seed.
//!
//! Delivery opportunities are a Poisson process whose rate varies, with outages, as in the model of
//! Winstein et al., *Stochastic Forecasts Achieve High Throughput and Low Delay over Cellular Networks*
//! (NSDI 2013, §3.1). There the rate is a Brownian motion; here its logarithm returns to its mean
//! (Ornstein–Uhlenbeck), so that the capacity has a mean.

use super::Trace;
use super::trace::OPPORTUNITY_PACKET_BYTES;
use anole_model::{Dur, Rate};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

/// The rate is drawn anew this often.
const TICK_S: f64 = 0.02;
/// Ticks in a tenth of a second.
const FLICKER_TICKS: u32 = 5;
/// A trace is at least this long, so that its mean is one.
const SHORTEST_S: f64 = 1.0;

/// What a capacity is drawn from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lte {
    /// Mean between outages, which take their share of the time from it.
    pub mean: Rate,
    /// Standard deviation of the logarithm of the rate. Over windows of 0.1 to 2 s the rate of the
    /// NSDI 2013 authors' recordings of LTE links deviates from its mean by 0.5 to 1 of it, which
    /// deviations of 0.5 to 0.8 give.
    pub deviation: f64,
    /// Time constant of the logarithm of the rate, s.
    pub memory_s: f64,
    /// Mean time between two outages, s.
    pub outage_every_s: f64,
    /// Mean length of an outage, s.
    pub outage_s: f64,
    /// Standard deviation of what is added to the logarithm of the rate every 0.1 s, without memory; 0 for nothing.
    pub flicker: f64,
    /// Mean number of opportunities that come together, geometrically distributed; 1 for a Poisson process.
    pub burst: f64,
}

impl Lte {
    /// A quiet cell with this mean.
    pub fn with_mean(mean: Rate) -> Lte {
        Lte {
            mean,
            deviation: 0.5,
            memory_s: 2.0,
            outage_every_s: 20.0,
            outage_s: 0.2,
            flicker: 0.0,
            burst: 1.0,
        }
    }

    /// What a trace of so long hardly ever carries more than, Mbit: its rate is two standard deviations above the mean all the
    /// time. Of the deviation, the mean over that time keeps what lasts: √(2 · memory / time) of it, at most all.
    pub(crate) fn most_mbit(&self, duration: Dur) -> f64 {
        let seconds = duration.as_secs_f64().max(SHORTEST_S);
        let lasting = self.deviation * (2.0 * self.memory_s / seconds).min(1.0).sqrt();
        self.mean.mbps() * seconds * (2.0 * lasting).exp()
    }

    /// Draws a trace; it begins again after `duration`.
    pub fn trace(&self, rng: &mut Pcg64Mcg, duration: Dur) -> Trace {
        let per_s = self.mean.bytes_per_s() / f64::from(OPPORTUNITY_PACKET_BYTES);
        let end_s = duration.as_secs_f64().max(SHORTEST_S);
        let keep = (-TICK_S / self.memory_s).exp();
        let spread = self.deviation * (1.0 - keep * keep).sqrt();
        let (mut level, mut flicker) = (self.deviation * normal(rng), 0.0);
        let mut outage_until_s = 0.0;
        let mut at_ms = Vec::with_capacity((per_s * end_s * 1.2) as usize);
        let end_ms = (end_s * 1e3).ceil() as u32;
        for tick in 0..(end_s / TICK_S).ceil() as u32 {
            let tick_s = f64::from(tick) * TICK_S;
            level = keep * level + spread * normal(rng);
            if rng.random::<f64>() < TICK_S / self.outage_every_s {
                outage_until_s = tick_s + self.outage_s * exponential(rng);
            }
            if self.flicker > 0.0 && tick % FLICKER_TICKS == 0 {
                flicker = self.flicker * normal(rng);
            }
            if tick_s >= outage_until_s {
                let squares = self.deviation * self.deviation + self.flicker * self.flicker;
                let rate = per_s / self.burst.max(1.0) * (level + flicker - squares / 2.0).exp();
                let mut at_s = exponential(rng) / rate;
                while at_s < TICK_S {
                    let ms = (((tick_s + at_s) * 1e3) as u32).min(end_ms);
                    at_ms.extend((0..self.together(rng)).map(|_| ms));
                    at_s += exponential(rng) / rate;
                }
            }
        }
        // The last opportunity is the length of the trace.
        at_ms.push(end_ms);
        Trace::from_times(at_ms)
    }

    /// How many opportunities come at one time.
    fn together(&self, rng: &mut Pcg64Mcg) -> u32 {
        if self.burst <= 1.0 {
            return 1;
        }
        let stay = 1.0 - 1.0 / self.burst;
        1 + (-exponential(rng) / stay.ln()) as u32
    }
}

fn exponential(rng: &mut Pcg64Mcg) -> f64 {
    -(1.0 - rng.random::<f64>()).ln()
}

/// Box and Muller.
fn normal(rng: &mut Pcg64Mcg) -> f64 {
    (2.0 * exponential(rng)).sqrt() * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_model::Time;
    use rand::SeedableRng;

    fn trace(lte: Lte, seconds: u64) -> Trace {
        lte.trace(&mut Pcg64Mcg::seed_from_u64(1), Dur::from_millis(1000 * seconds))
    }

    #[test]
    fn a_trace_has_about_its_mean() {
        let mean = trace(Lte::with_mean(Rate::from_mbps(20.0)), 600).mean_rate().mbps();
        assert!((mean / 20.0 - 1.0).abs() < 0.1, "{mean}");
    }

    #[test]
    fn bursts_and_flicker_leave_the_mean() {
        let lte = Lte { flicker: 0.5, burst: 5.0, ..Lte::with_mean(Rate::from_mbps(20.0)) };
        let trace = trace(lte, 600);
        assert!((trace.mean_rate().mbps() / 20.0 - 1.0).abs() < 0.1, "{}", trace.mean_rate().mbps());
        let mut times: Vec<_> = trace.times_ms().to_vec();
        let all = times.len();
        times.dedup();
        let together = all as f64 / times.len() as f64;
        assert!((4.0..7.5).contains(&together), "{together}");
    }

    /// Opportunities in consecutive windows.
    fn counts(trace: &Trace, window_ms: u64, windows: u64) -> Vec<f64> {
        let before = |window: u64| trace.count_before(Time::from_micros(1000 * window_ms * window));
        (0..windows).map(|window| (before(window + 1) - before(window)) as f64).collect()
    }

    #[test]
    fn it_varies_as_much_as_asked_and_stops_now_and_then() {
        let quiet = Lte::with_mean(Rate::from_mbps(20.0));
        let variation = |deviation: f64| {
            let counts = counts(&trace(Lte { deviation, ..quiet }, 600), 500, 1200);
            let mean = counts.iter().sum::<f64>() / counts.len() as f64;
            (counts.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / counts.len() as f64).sqrt() / mean
        };
        assert!((0.4..0.7).contains(&variation(0.5)), "{}", variation(0.5));
        assert!((0.65..1.1).contains(&variation(0.8)), "{}", variation(0.8));
        // Outages: 600 s at one every 20 s, a good half of them longer than 100 ms.
        let silent = counts(&trace(quiet, 600), 100, 6000).iter().filter(|&&n| n == 0.0).count();
        assert!((10..200).contains(&silent), "{silent}");
    }
}
