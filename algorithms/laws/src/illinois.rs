//! Illinois (Liu, Başar and Srikant, *TCP-Illinois: A Loss- and Delay-Based Congestion Control Algorithm for High-Speed
//! Networks*, VALUETOOLS 2006): AIMD whose steps depend on the queueing delay.
//!
//! With the mean round-trip time of the last round, d = mean − least and dm = largest − least; d1 = 0.01·dm,
//! d2 = 0.1·dm, d3 = 0.8·dm (§III):
//!
//! ```text
//! cwnd += α per round trip    α = 10 where d ≤ d1, else κ1/(κ2 + d), which is 0.3 at dm
//! a loss keeps 1 − β          β = 1/8 where d ≤ d2, 1/2 from d3 on, linear between
//! ```
//! Windows below 15 packets have α = 1 and β = 1/2. Once the delay was above d1, α is 10 again only after five
//! rounds below it (θ). After a timeout α = 1 and β = 1/2 until the next round ends.
//!
//! Deviations: a round is a round-trip time and not a flight of data; a congestion event is measured in time; the largest
//! round-trip time is that of the samples that feedback names, the last of each report.

use crate::regression::Sums;
use crate::{Control, Feedback, Law, LawSpec, Reno, params};
use anole_model::{Bounds, Dur, Time};

/// Illinois in the registry.
pub const SPEC: LawSpec = LawSpec {
    name: "illinois",
    summary: "AIMD whose steps depend on the queueing delay: ten packets per round trip on an empty queue",
    source: "Liu, Başar and Srikant, VALUETOOLS 2006",
    parameters: &[],
    build: |flow, given| {
        params::check(SPEC.parameters, given)?;
        Ok(Box::new(Illinois::new(flow.mss, flow.init_cwnd)))
    },
};

/// α: largest, smallest, and that of short windows, packets per round trip (§III; Linux).
const ALPHA: (f64, f64) = (10.0, 0.3);
const BASE_ALPHA: f64 = 1.0;
/// β: smallest, largest, and that of short windows, share of the window (§III; Linux).
const BETA: (f64, f64) = (0.125, 0.5);
const BASE_BETA: f64 = 0.5;
/// d1, d2 and d3 over dm (§III: η1, η2, η3).
const ETA: (f64, f64, f64) = (0.01, 0.1, 0.8);
/// Rounds below d1 before α is largest again (§III: θ).
const THETA: u32 = 5;
/// Windows below this many packets have the base values (§III: W_thresh).
const SHORT_WINDOW: u64 = 15;
/// No round-trip time is longer.
const LONGEST_RTT: Dur = Dur::from_millis(60_000);

/// α and β, and what they come from.
#[derive(Clone, Debug)]
struct Steps {
    alpha: f64,
    beta: f64,
    /// The delay was above d1; rounds below it since.
    above: Option<u32>,
}

impl Steps {
    const START: Steps = Steps { alpha: ALPHA.0, beta: BASE_BETA, above: None };
    const BASE: Steps = Steps { alpha: BASE_ALPHA, beta: BASE_BETA, above: None };

    /// A round is over in which the queueing delay was `d` of `dm` seconds.
    fn round(&mut self, d: f64, dm: f64) {
        self.alpha = self.alpha(d, dm);
        let (d2, d3) = (ETA.1 * dm, ETA.2 * dm);
        let share = ((d - d2) / (d3 - d2)).clamp(0.0, 1.0);
        self.beta = BETA.0 + share * (BETA.1 - BETA.0);
    }

    fn alpha(&mut self, d: f64, dm: f64) -> f64 {
        let d1 = ETA.0 * dm;
        if d > d1 {
            self.above = Some(0);
            let slope = (ALPHA.0 - ALPHA.1) / ALPHA.1;
            return (dm - d1) * ALPHA.0 / (dm - d1 + (d - d1) * slope);
        }
        match &mut self.above {
            Some(rounds) if *rounds + 1 < THETA => {
                *rounds += 1;
                self.alpha
            }
            above => {
                *above = None;
                ALPHA.0
            }
        }
    }
}

/// Illinois' window.
#[derive(Clone, Debug)]
pub struct Illinois {
    mss: u32,
    window: Reno,
    steps: Steps,
    /// The smallest and the largest round-trip time.
    range: Option<(Dur, Dur)>,
    round_ends: Time,
    sums: Sums,
    rtt: Dur,
}

impl Illinois {
    /// Slow start from `init_cwnd` bytes.
    pub fn new(mss: u32, init_cwnd: u32) -> Illinois {
        Illinois {
            mss,
            window: Reno::new(mss, Bounds::DEFAULT.cwnd(u64::from(init_cwnd), mss)),
            steps: Steps::START,
            range: None,
            round_ends: Time::ZERO,
            sums: Sums::default(),
            rtt: Dur::ZERO,
        }
    }

    fn learn(&mut self, seen: &Feedback) {
        let sane = |rtt: &Dur| !rtt.is_zero() && *rtt <= LONGEST_RTT;
        let Some(rtt) = seen.rtt.filter(sane) else { return };
        self.rtt = rtt;
        let (least, largest) = self.range.unwrap_or((rtt, rtt));
        self.range = Some((least.min(seen.min_rtt.filter(sane).unwrap_or(rtt)), largest.max(rtt)));
        self.sums.append(&seen.rtts(), Dur::ZERO);
    }

    fn end_round(&mut self, now: Time) {
        if now < self.round_ends {
            return;
        }
        self.round_ends = now + self.rtt;
        let mean = std::mem::take(&mut self.sums).mean_rtt();
        if self.window.cwnd() < SHORT_WINDOW * u64::from(self.mss) {
            (self.steps.alpha, self.steps.beta) = (BASE_ALPHA, BASE_BETA);
        } else if let (Some(mean), Some((least, largest))) = (mean, self.range)
            && largest > least
        {
            let dm = (largest - least).as_secs_f64();
            self.steps.round((mean - least).as_secs_f64().min(dm), dm);
        }
    }
}

impl Law for Illinois {
    fn on_feedback(&mut self, now: Time, seen: &Feedback) {
        self.learn(seen);
        self.end_round(now);
        self.window.observe(self.window.cwnd(), seen.acked, self.rtt);
        if seen.timeout {
            self.window.time_out(now, 1.0 - self.steps.beta);
            self.steps = Steps::BASE;
        } else if seen.congested() {
            self.window.decrease(now, 1.0 - self.steps.beta);
        }
        if seen.acked > 0 && !seen.timeout && seen.uses(self.window.cwnd()) {
            self.window.grow(seen.acked, self.steps.alpha);
        }
    }

    fn control(&self) -> Control {
        Control::window(u64::from(Bounds::DEFAULT.cwnd(self.window.cwnd(), self.mss)))
    }

    fn resume(&mut self, _now: Time, from: Control) {
        self.window.resume_at(u64::from(Bounds::DEFAULT.cwnd(from.cwnd, self.mss)));
    }

    fn in_slow_start(&self) -> bool {
        self.window.in_slow_start()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_those_of_the_papers_figure() {
        let mut steps = Steps::START;
        let mut at = |d: f64| {
            steps.round(d, 0.1);
            (steps.alpha, steps.beta)
        };
        assert_eq!(at(0.0), (10.0, 0.125));
        // d1 = 1 ms, κ1 = 0.099·3/9.7, κ2 = 0.099·0.3/9.7 − 0.001.
        let (alpha, beta) = at(0.045);
        assert!((alpha - 0.099 * 3.0 / 9.7 / (0.099 * 0.3 / 9.7 - 0.001 + 0.045)).abs() < 1e-12, "{alpha}");
        assert!((beta - 0.3125).abs() < 1e-12, "{beta}");
        let (alpha, beta) = at(0.1);
        assert!((alpha - 0.3).abs() < 1e-12 && beta == 0.5, "{alpha} {beta}");
    }

    #[test]
    fn after_a_queue_the_largest_step_waits_for_five_rounds() {
        let mut steps = Steps::START;
        steps.round(0.1, 0.1);
        let alphas: Vec<bool> = (0..5).map(|_| steps.alpha(0.0, 0.1) == 10.0).collect();
        assert_eq!(alphas, [false, false, false, false, true]);
    }

    fn feedback(rtt_ms: u64) -> Feedback {
        let rtt = Some(Dur::from_millis(rtt_ms));
        Feedback { acked: 100_000, rtt, min_rtt: rtt, samples: 100, ..Feedback::default() }
    }

    #[test]
    fn an_empty_queue_gains_ten_packets_and_a_loss_on_it_costs_an_eighth() {
        let mut law = Illinois::new(1000, 10_000);
        law.on_feedback(Time::from_micros(50_000), &feedback(50));
        law.on_feedback(Time::from_micros(160_000), &feedback(100));
        law.resume(Time::from_micros(160_001), Control::window(100_000));
        law.steps.above = None;
        law.on_feedback(Time::from_micros(300_000), &feedback(50));
        assert_eq!(law.window.cwnd(), 110_000);
        law.on_feedback(Time::from_micros(300_001), &Feedback { lost: 1, ..Feedback::default() });
        assert_eq!(law.window.cwnd(), 96_250);
    }

    #[test]
    fn short_windows_and_timeouts_have_renos_steps() {
        let mut law = Illinois::new(1000, 10_000);
        law.resume(Time::ZERO, Control::window(14_000));
        law.on_feedback(Time::from_micros(50_000), &feedback(50));
        assert_eq!((law.steps.alpha, law.steps.beta), (1.0, 0.5));
        let mut law = Illinois::new(1000, 10_000);
        law.on_feedback(Time::from_micros(50_000), &Feedback { timeout: true, ..Feedback::default() });
        assert_eq!((law.steps.alpha, law.window.cwnd()), (1.0, 1000));
    }
}
