//! Whether round trips go as forecast: the round-trip time follows the window, down to the base.
//!
//! A number of steady rounds says that the path may be simple; a trial says whether it is: with the window cut by a
//! quarter for two round trips, a flow that has the path for itself sees its queue gone and no more than that, and with
//! the window back it sees the queue again. A queue that stays, one that does not come back, or a round-trip time below
//! the base is another flow's doing.

/// A round-trip time that differs by more than this share from the forecast, and by more than a packet, is a surprise …
const SURPRISE: f64 = 0.1;
/// … and in a trial by more than this.
const TRIAL_SURPRISE: f64 = 0.03;
/// What a trial leaves of the window.
pub(super) const TRIAL: f64 = 0.75;
/// Round trips of each half of a trial: the second one tells about the first.
const TRIAL_ROUNDS: u32 = 2;

/// A trial under way.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// The window before, bytes, and the round-trip time, s.
    before: (f64, f64),
    rounds: u32,
    /// The window is back.
    back: bool,
}

/// What a round of a trial told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Told {
    /// Nothing yet.
    Nothing,
    /// The cut went as forecast: the window before it, bytes, is due again.
    Back(f64),
    /// The trial is over: the window before, bytes, and whether all went as forecast.
    Over(f64, bool),
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

    /// A round under `cwnd` bytes: its round-trip time, the base, and what a packet takes, s; `sure` where the base is no
    /// guess.
    pub fn saw(&mut self, cwnd: f64, rtt: f64, base: f64, packet: f64, sure: bool) {
        if let Some((before, last)) = self.last {
            let expected = (last * cwnd / before).max(base);
            let (least, most) = (expected.min(last), expected.max(last));
            let [below, above] = [least, most].map(|rtt| (SURPRISE * rtt).max(packet));
            let steady = (least - below..=most + above).contains(&rtt);
            self.steady_rounds = if steady && sure { self.steady_rounds.saturating_add(1) } else { 0 };
        }
        self.last = Some((cwnd, rtt));
    }

    /// Begins a trial with this window, bytes.
    pub fn try_out(&mut self, cwnd: f64) {
        let rtt = self.last.map_or(0.0, |(_, rtt)| rtt);
        self.trial = Some(Trial { before: (cwnd, rtt), rounds: 0, back: false });
    }

    pub fn is_in_trial(&self) -> bool {
        self.trial.is_some()
    }

    /// The window before the trial that is under way, bytes.
    pub fn before_trial(&self) -> Option<f64> {
        self.trial.map(|trial| trial.before.0)
    }

    /// Takes a round of a trial.
    pub fn judge(&mut self, rtt: f64, base: f64, congested: bool) -> Told {
        let Some(trial) = &mut self.trial else { return Told::Nothing };
        trial.rounds += 1;
        if trial.rounds <= TRIAL_ROUNDS && !congested {
            return Told::Nothing;
        }
        let (cwnd, before) = trial.before;
        let near = if trial.back {
            (before * (1.0 - SURPRISE)..=before * (1.0 + SURPRISE)).contains(&rtt)
        } else {
            rtt < base.max(before * TRIAL) * (1.0 + TRIAL_SURPRISE)
        };
        let well = near && !congested && rtt > base * (1.0 - TRIAL_SURPRISE);
        if well && !trial.back {
            (trial.back, trial.rounds) = (true, 0);
            return Told::Back(cwnd);
        }
        self.forget();
        Told::Over(cwnd, well)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trial at 50 ms of base: a round-trip time before it, under the cut, with the window back; whether it was lossy.
    fn trial(rtts_ms: [f64; 3], congested: bool) -> Told {
        let mut forecast = Forecast::default();
        forecast.saw(100.0, rtts_ms[0], 50.0, 1.0, true);
        forecast.try_out(100.0);
        let mut told = Told::Nothing;
        for (round, rtt_ms) in [0, 0, 1, 1, 1, 2].into_iter().map(|at| rtts_ms[at]).enumerate() {
            told = forecast.judge(rtt_ms, 50.0, congested && round == 1);
            match told {
                Told::Over(..) => break,
                Told::Back(cwnd) => assert_eq!((round, cwnd), (2, 100.0)),
                Told::Nothing => {}
            }
        }
        told
    }

    #[test]
    fn rounds_are_steady_while_the_round_trip_time_follows_the_window() {
        let mut forecast = Forecast::default();
        for (cwnd, rtt) in [(100.0, 60.0), (90.0, 60.0), (90.0, 54.0)] {
            forecast.saw(cwnd, rtt, 50.0, 1.0, true);
        }
        assert_eq!(forecast.steady_rounds(), 2);
        forecast.saw(90.0, 61.0, 50.0, 1.0, true);
        assert_eq!(forecast.steady_rounds(), 0);
    }

    #[test]
    fn a_packet_more_is_no_surprise_where_few_are_under_way() {
        let steady = |packet| {
            let mut forecast = Forecast::default();
            for rtt in [60.0, 73.0, 60.0] {
                forecast.saw(5.0, rtt, 50.0, packet, true);
            }
            forecast.steady_rounds()
        };
        assert_eq!([steady(13.0), steady(1.0)], [2, 0]);
    }

    #[test]
    fn a_trial_is_passed_by_the_own_queue_alone() {
        assert_eq!(trial([54.0, 50.0, 54.0], false), Told::Over(100.0, true));
        assert_eq!(trial([80.0, 60.5, 80.0], false), Told::Over(100.0, true));
        for (rtts_ms, why) in [
            ([80.0, 70.0, 80.0], "a queue that stays"),
            ([80.0, 60.5, 62.0], "a queue that does not come back"),
            ([54.0, 47.0, 54.0], "a base that was none"),
        ] {
            assert_eq!(trial(rtts_ms, false), Told::Over(100.0, false), "{why}");
        }
        assert_eq!(trial([54.0, 50.0, 54.0], true), Told::Over(100.0, false));
    }
}
