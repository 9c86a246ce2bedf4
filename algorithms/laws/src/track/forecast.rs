//! Whether round trips go as forecast: the round-trip time follows the window, down to the base.
//!
//! A number of steady rounds says that the path may be simple; a trial says whether it is: with the window cut by a
//! quarter for two round trips, a flow that has the path for itself sees its queue gone and no more than that. A queue
//! that stays, or a round-trip time below the base, is another flow's doing.

/// A round-trip time that differs by more than this share from the forecast is a surprise …
const SURPRISE: f64 = 0.1;
/// … and in a trial by more than this.
const TRIAL_SURPRISE: f64 = 0.03;
/// What a trial leaves of the window.
pub(super) const TRIAL: f64 = 0.75;
/// Round trips of a trial: the second one tells about the first.
const TRIAL_ROUNDS: u32 = 2;

/// A trial under way.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// The window before, bytes, and the round-trip time, s.
    before: (f64, f64),
    rounds: u32,
}

/// What has been forecast, and how it went.
#[derive(Clone, Debug, Default)]
pub(super) struct Forecast {
    /// The window of the last round, bytes, and its round-trip time, s.
    last: Option<(f64, f64)>,
    steady_rounds: u32,
    trial: Option<Trial>,
}

impl Forecast {
    /// Rounds in a row that went as forecast.
    pub fn steady_rounds(&self) -> u32 {
        self.steady_rounds
    }

    /// What follows is no consequence of what was.
    pub fn forget(&mut self) {
        *self = Forecast::default();
    }

    /// A surprise that the round-trip time need not show.
    pub fn surprised(&mut self) {
        self.steady_rounds = 0;
    }

    /// A round under `cwnd` bytes: its round-trip time, and the base, s; `sure` where the base is no guess.
    pub fn saw(&mut self, cwnd: f64, rtt: f64, base: f64, sure: bool) {
        if let Some((before, last)) = self.last {
            let expected = (last * cwnd / before).max(base);
            let steady = (expected.min(last) * (1.0 - SURPRISE)..=expected.max(last) * (1.0 + SURPRISE))
                .contains(&rtt);
            self.steady_rounds = if steady && sure { self.steady_rounds.saturating_add(1) } else { 0 };
        }
        self.last = Some((cwnd, rtt));
    }

    /// Begins a trial with this window, bytes.
    pub fn try_out(&mut self, cwnd: f64) {
        let rtt = self.last.map_or(0.0, |(_, rtt)| rtt);
        self.trial = Some(Trial { before: (cwnd, rtt), rounds: 0 });
    }

    pub fn is_in_trial(&self) -> bool {
        self.trial.is_some()
    }

    /// A round of the trial is over: the window to go back to and whether all went as forecast, at its end.
    pub fn judge(&mut self, rtt: f64, base: f64, congested: bool) -> Option<(f64, bool)> {
        let mut trial = self.trial?;
        trial.rounds += 1;
        self.trial = Some(trial);
        if trial.rounds <= TRIAL_ROUNDS && !congested {
            return None;
        }
        let expected = base.max(trial.before.1 * TRIAL);
        let near = rtt < expected * (1.0 + TRIAL_SURPRISE) && rtt > base * (1.0 - TRIAL_SURPRISE);
        self.forget();
        Some((trial.before.0, near && !congested))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(before_ms: f64, after_ms: f64, congested: bool) -> Option<(f64, bool)> {
        let mut forecast = Forecast::default();
        forecast.saw(100.0, before_ms, 50.0, true);
        forecast.try_out(100.0);
        assert!(congested || forecast.judge(before_ms, 50.0, false).is_none());
        assert!(congested || forecast.judge(after_ms, 50.0, false).is_none());
        forecast.judge(after_ms, 50.0, congested)
    }

    #[test]
    fn rounds_are_steady_while_the_round_trip_time_follows_the_window() {
        let mut forecast = Forecast::default();
        for (cwnd, rtt) in [(100.0, 60.0), (90.0, 60.0), (90.0, 54.0)] {
            forecast.saw(cwnd, rtt, 50.0, true);
        }
        assert_eq!(forecast.steady_rounds(), 2);
        forecast.saw(90.0, 61.0, 50.0, true);
        assert_eq!(forecast.steady_rounds(), 0);
    }

    #[test]
    fn a_trial_is_passed_by_the_own_queue_alone() {
        assert_eq!(trial(54.0, 50.0, false), Some((100.0, true)));
        assert_eq!(trial(80.0, 60.5, false), Some((100.0, true)));
        assert_eq!(trial(80.0, 70.0, false), Some((100.0, false)), "a queue that stays");
        assert_eq!(trial(54.0, 47.0, false), Some((100.0, false)), "a base that was none");
        assert_eq!(trial(54.0, 50.0, true), Some((100.0, false)));
    }
}
