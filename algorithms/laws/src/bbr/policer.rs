//! Long-term bandwidth: a token-bucket policer delivers more than its rate for a while and then drops the excess, which
//! the largest delivery rate of late overlooks (tcp_bbr.c, bbr_lt_bw_sampling).
//!
//! An interval begins with a loss and lasts 4 rounds or more. One in which a fifth of what was delivered was lost ends with the
//! next loss and has a bandwidth; two in a row that agree within an eighth (or 4 kbit/s) show a policer, and for 48 rounds the flow
//! paces at their mean. One in which the application had nothing to send tells nothing.

use anole_model::{Dur, Rate, Time};

/// Shortest interval, rounds (bbr_lt_intvl_min_rtts); four times as many without a policer's sign end it.
const LEAST_ROUNDS: u64 = 4;
const MOST_ROUNDS: u64 = 4 * LEAST_ROUNDS;
/// Packets lost over those delivered that mark a policer (bbr_lt_loss_thresh, 50/256).
const LOSS_SHARE: f64 = 50.0 / 256.0;
/// Two bandwidths agree within this share (bbr_lt_bw_ratio) or this difference (bbr_lt_bw_diff, 4 kbit/s).
const RATIO: f64 = 1.0 / 8.0;
const DIFFERENCE_BYTES_PER_S: f64 = 500.0;
/// Rounds for which the long-term bandwidth is used (bbr_lt_bw_max_rtts).
const USED_ROUNDS: u64 = 48;

/// Looks for a policer.
#[derive(Clone, Debug, Default)]
pub(super) struct Policer {
    interval: Option<Interval>,
    /// The bandwidth of the interval before.
    last: Option<Rate>,
    /// The long-term bandwidth in use, and since which round.
    used: Option<(Rate, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Interval {
    since: Time,
    round: u64,
    /// Bytes.
    delivered: u64,
    lost: u64,
}

impl Policer {
    /// The bandwidth to pace at, where a policer was found.
    pub fn bandwidth(&self) -> Option<Rate> {
        self.used.map(|(rate, _)| rate)
    }

    /// Takes what was delivered and lost, bytes, in this round; `limited` by the application or not.
    pub fn take(&mut self, now: Time, round: u64, delivered: u64, lost: u64, limited: bool) {
        if let Some((_, since)) = self.used {
            if round.saturating_sub(since) >= USED_ROUNDS {
                *self = Policer::default();
            }
            return;
        }
        if limited {
            return self.reset();
        }
        let Some(interval) = &mut self.interval else {
            if lost > 0 {
                self.interval = Some(Interval { since: now, round, delivered: 0, lost: 0 });
            }
            return;
        };
        interval.delivered = interval.delivered.saturating_add(delivered);
        interval.lost = interval.lost.saturating_add(lost);
        let rounds = round.saturating_sub(interval.round);
        if rounds > MOST_ROUNDS {
            *self = Policer::default();
        } else if lost > 0 && rounds >= LEAST_ROUNDS {
            let interval = *interval;
            if interval.lost as f64 >= LOSS_SHARE * interval.delivered as f64 {
                self.end(now, round, &interval);
            }
        }
    }

    /// The flow begins to probe for bandwidth anew, and forgets what it found.
    pub fn reset(&mut self) {
        *self = Policer::default();
    }

    fn end(&mut self, now: Time, round: u64, interval: &Interval) {
        let span = now.since(interval.since);
        if span < Dur::from_millis(1) {
            return;
        }
        let rate = Rate::from_bytes_in(interval.delivered, span);
        let agree = |last: Rate| {
            let difference = (rate.bytes_per_s() - last.bytes_per_s()).abs();
            difference <= RATIO * last.bytes_per_s() || difference <= DIFFERENCE_BYTES_PER_S
        };
        match self.last.filter(|last| agree(*last)) {
            Some(last) => self.used = Some(((rate + last) * 0.5, round)),
            None => self.last = Some(rate),
        }
        self.interval = Some(Interval { since: now, round, delivered: 0, lost: 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of 50 ms that deliver 1 MB/s and lose this share.
    fn rounds(policer: &mut Policer, from: u64, n: u64, share: f64) -> u64 {
        for round in from..from + n {
            let now = Time::from_micros(round * 50_000);
            policer.take(now, round, 50_000, (50_000.0 * share / (1.0 - share)) as u64, false);
        }
        from + n
    }

    #[test]
    fn two_intervals_that_agree_show_a_policer_for_a_while() {
        let mut policer = Policer::default();
        let round = rounds(&mut policer, 1, 8, 0.3);
        assert_eq!(policer.bandwidth(), None);
        let round = rounds(&mut policer, round, 1, 0.3);
        assert!((policer.bandwidth().unwrap().bytes_per_s() - 1e6).abs() < 1.0);
        rounds(&mut policer, round, USED_ROUNDS, 0.0);
        assert_eq!(policer.bandwidth(), None);
    }

    #[test]
    fn a_loss_of_a_tenth_is_no_policer() {
        let mut policer = Policer::default();
        rounds(&mut policer, 1, 200, 0.1);
        assert_eq!(policer.bandwidth(), None);
    }
}
