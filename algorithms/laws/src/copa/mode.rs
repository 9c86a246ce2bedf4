//! Copa's competitive mode (§2.2): beside flows that fill the buffer, which never let the queue become nearly empty, 1/δ
//! grows and is halved as Reno's window.

use anole_model::{Dur, Time};

/// Round trips without a nearly empty queue after which other flows are taken to fill the buffer.
const FULL_RTTS: u64 = 5;
/// What a loss leaves of 1/δ, and the packets by which it grows per round trip.
const DECREASE: f64 = 0.5;
const INCREASE: f64 = 1.0;
/// 1/δ is no larger: more packets than any path holds.
const MOST: f64 = (1u64 << 20) as f64;

#[derive(Clone, Debug)]
pub(super) struct Mode {
    /// 1/δ in competitive mode, packets; the default where it is less.
    packets: Option<f64>,
    /// When the queue was nearly empty last.
    emptied_at: Option<Time>,
    /// Losses before then are of the same event.
    event_until: Time,
    /// A loss was found in this round trip.
    lost: bool,
}

impl Mode {
    /// The default mode.
    pub fn new() -> Mode {
        Mode { packets: None, emptied_at: None, event_until: Time::ZERO, lost: false }
    }

    /// 1/δ in force, where `default` is that of the default mode.
    pub fn inverse_delta(&self, default: f64) -> f64 {
        self.packets.map_or(default, |own| own.max(default))
    }

    /// The queue is nearly empty now, or not.
    pub fn saw(&mut self, now: Time, srtt: Dur, nearly_empty: bool) {
        if nearly_empty {
            (self.emptied_at, self.packets) = (Some(now), None);
        } else if self.packets.is_none() && now.since(*self.emptied_at.get_or_insert(now)) > srtt * FULL_RTTS
        {
            self.packets = Some(0.0);
        }
    }

    /// A round trip is over.
    pub fn round(&mut self, default: f64) {
        let before = self.inverse_delta(default);
        if let (Some(packets), false) = (&mut self.packets, std::mem::take(&mut self.lost)) {
            *packets = (before + INCREASE).min(MOST);
        }
    }

    /// A loss was found: one decrease per round trip.
    pub fn lost(&mut self, now: Time, srtt: Dur) {
        self.lost = true;
        if now >= self.event_until {
            self.event_until = now + srtt;
            self.packets = self.packets.map(|packets| packets * DECREASE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SRTT: Dur = Dur::from_millis(50);

    fn at(ms: u64) -> Time {
        Time::from_micros(ms * 1000)
    }

    #[test]
    fn a_queue_that_never_empties_makes_it_compete_until_it_does() {
        let mut mode = Mode::new();
        mode.saw(at(0), SRTT, true);
        mode.saw(at(250), SRTT, false);
        mode.round(2.0);
        assert_eq!(mode.inverse_delta(2.0), 2.0);
        mode.saw(at(251), SRTT, false);
        for _ in 0..8 {
            mode.round(2.0);
        }
        assert_eq!(mode.inverse_delta(2.0), 10.0);
        mode.lost(at(700), SRTT);
        mode.lost(at(740), SRTT);
        mode.round(2.0);
        assert_eq!(mode.inverse_delta(2.0), 5.0);
        for ms in [800, 900, 1000] {
            mode.lost(at(ms), SRTT);
        }
        assert_eq!(mode.inverse_delta(2.0), 2.0);
        mode.saw(at(1100), SRTT, true);
        assert_eq!(mode.inverse_delta(2.0), 2.0);
    }
}
