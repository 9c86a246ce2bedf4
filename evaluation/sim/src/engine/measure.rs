//! What is counted of one flow, and the figures that come out.

use crate::histogram::Histogram;
use crate::result::Series;
use anole_model::{Dur, Time};

/// Length of one point of a series.
pub const SERIES_STEP: Dur = Dur::from_millis(100);

/// Length of the point with this number, from 0, s: the last one may be shorter.
pub fn point_s(duration: Dur, number: usize) -> f64 {
    SERIES_STEP.min(duration - SERIES_STEP * number as u64).as_secs_f64()
}

#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    wire_bytes: u64,
    rtt_sum_us: u64,
    rtts: u64,
}

/// Counters of one flow since the end of the warm-up, and its series since the beginning.
#[derive(Clone, Debug)]
pub(super) struct Measure {
    /// Bytes on the wire that arrived.
    pub wire_bytes: u64,
    /// Payload that arrived, each byte once.
    pub payload_bytes: u64,
    pub one_way_delay: Histogram,
    pub rtt: Histogram,
    /// From when an application had a segment until the other side has it in order, and the longest.
    pub app_delay: Histogram,
    pub app_delay_max: Dur,
    duration: Dur,
    bins: Vec<Bin>,
}

impl Measure {
    pub fn new(duration: Dur) -> Measure {
        let bins = duration.as_nanos().div_ceil(SERIES_STEP.as_nanos()) as usize;
        Measure {
            wire_bytes: 0,
            payload_bytes: 0,
            one_way_delay: Histogram::new(),
            rtt: Histogram::new(),
            app_delay: Histogram::new(),
            app_delay_max: Dur::ZERO,
            duration,
            bins: vec![Bin::default(); bins],
        }
    }

    /// Forgets everything but the series.
    pub fn reset(&mut self) {
        self.wire_bytes = 0;
        self.payload_bytes = 0;
        self.one_way_delay.clear();
        self.rtt.clear();
        self.app_delay.clear();
        self.app_delay_max = Dur::ZERO;
    }

    pub fn app_delay(&mut self, delay: Dur) {
        self.app_delay.add(delay);
        self.app_delay_max = self.app_delay_max.max(delay);
    }

    pub fn arrival(&mut self, now: Time, wire_bytes: u32, new_payload: u32, delay: Dur) {
        self.wire_bytes += u64::from(wire_bytes);
        self.payload_bytes += u64::from(new_payload);
        self.one_way_delay.add(delay);
        if let Some(bin) = self.bin(now) {
            bin.wire_bytes += u64::from(wire_bytes);
        }
    }

    pub fn rtt(&mut self, now: Time, rtt: Dur) {
        self.rtt.add(rtt);
        if let Some(bin) = self.bin(now) {
            bin.rtt_sum_us += rtt.as_micros();
            bin.rtts += 1;
        }
    }

    fn bin(&mut self, now: Time) -> Option<&mut Bin> {
        self.bins.get_mut((now.as_nanos() / SERIES_STEP.as_nanos()) as usize)
    }

    /// What arrived, over time.
    pub fn series(&self) -> Series {
        let mbps =
            |(number, bin): (usize, &Bin)| bin.wire_bytes as f64 * 8.0 / 1e6 / point_s(self.duration, number);
        Series {
            dt_s: SERIES_STEP.as_secs_f64(),
            throughput_mbps: self.bins.iter().enumerate().map(mbps).collect(),
            rtt_ms: self
                .bins
                .iter()
                .map(|b| (b.rtts > 0).then(|| b.rtt_sum_us as f64 / 1e3 / b.rtts as f64))
                .collect(),
            ..Series::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_point_of_a_series_ends_with_the_run() {
        let mut measure = Measure::new(Dur::from_millis(250));
        for ms in [50, 150, 220] {
            measure.arrival(Time::ZERO + Dur::from_millis(ms), 1250, 1200, Dur::from_millis(5));
        }
        let mbps = measure.series().throughput_mbps;
        assert!(mbps.iter().zip([0.1, 0.1, 0.2]).all(|(mbps, of)| (mbps - of).abs() < 1e-12), "{mbps:?}");
        assert_eq!(mbps.len(), 3);
    }
}
