//! What a trace is like.

use anole_sim::link::Trace;
use serde::Serialize;

/// Bytes of an opportunity on the wire (Mahimahi).
const OPPORTUNITY_BYTES: f64 = 1504.0;
/// A time without an opportunity from here on is an outage, ms.
const OUTAGE_MS: u32 = 200;
/// Lengths of windows, s.
const SHORT_S: f64 = 0.1;
const LONG_S: f64 = 0.5;
/// Lags of the autocorrelation are multiples of `LONG_S` up to this many.
const LAGS: usize = 40;

/// What a trace is like.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Statistics {
    /// Length, s.
    pub duration_s: f64,
    /// Mean capacity.
    pub mean_mbps: f64,
    /// Deviation over mean of the capacity, in windows of 0.1 s.
    pub variation_100ms: f64,
    /// The same, 0.5 s.
    pub variation_500ms: f64,
    /// Standard deviation of the logarithm of the capacity, in windows of 0.5 s that are not empty.
    pub log_deviation: f64,
    /// Autocorrelation of that logarithm, at lags of 0.5 s, 1 s, …, over pairs of such windows.
    pub autocorrelation: Vec<f64>,
    /// Times of 200 ms and more without an opportunity, per second.
    pub outages_per_s: f64,
    /// Their mean length, s; 0 without any.
    pub outage_s: f64,
    /// Opportunities in a millisecond that has any.
    pub burst: f64,
    /// Times between two such milliseconds, ms, sorted.
    #[serde(skip)]
    pub gaps_ms: Vec<u32>,
    /// Capacity in windows of 0.5 s, Mbps.
    #[serde(skip)]
    pub mbps: Vec<f64>,
}

impl Statistics {
    /// Of one repetition of a trace.
    pub fn of(trace: &Trace) -> Statistics {
        let times = trace.times_ms();
        let end_ms = times.last().copied().unwrap_or(0);
        let duration_s = f64::from(end_ms) / 1e3;
        let mut distinct = times.to_vec();
        distinct.dedup();
        // It begins again where it ends: the first gap is before the first opportunity.
        let first = distinct.first().copied().filter(|&gap| gap > 0);
        let later = distinct.windows(2).map(|pair| pair[1] - pair[0]);
        let mut gaps_ms: Vec<u32> = first.into_iter().chain(later).collect();
        let outages: Vec<u32> = gaps_ms.iter().copied().filter(|&gap| gap >= OUTAGE_MS).collect();
        gaps_ms.sort_unstable();
        let [short, mbps] = [SHORT_S, LONG_S].map(|window| windows(times, end_ms, window));
        let logs: Vec<Option<f64>> =
            mbps.iter().map(|mbps| Some(*mbps).filter(|mbps| *mbps > 0.0).map(f64::ln)).collect();
        let total_outage_ms: f64 = outages.iter().map(|&ms| f64::from(ms)).sum();
        Statistics {
            duration_s,
            mean_mbps: times.len() as f64 * OPPORTUNITY_BYTES * 8e-6 / duration_s,
            variation_100ms: deviation(&short) / mean(&short),
            variation_500ms: deviation(&mbps) / mean(&mbps),
            log_deviation: deviation(&present(&logs)),
            autocorrelation: (1..=LAGS).map_while(|lag| autocorrelation(&logs, lag)).collect(),
            outages_per_s: outages.len() as f64 / duration_s,
            outage_s: if outages.is_empty() { 0.0 } else { total_outage_ms / outages.len() as f64 / 1e3 },
            burst: times.len() as f64 / distinct.len() as f64,
            gaps_ms,
            mbps,
        }
    }

    /// For people.
    pub fn lines(&self) -> Vec<String> {
        let at = |lag: usize| {
            self.autocorrelation.get(lag - 1).map_or("–".to_string(), |value| format!("{value:.2}"))
        };
        vec![
            format!("{:.1} s, {:.2} Mbps on average", self.duration_s, self.mean_mbps),
            format!(
                "deviation over mean: {:.2} in windows of 0.1 s, {:.2} of 0.5 s",
                self.variation_100ms, self.variation_500ms
            ),
            format!(
                "autocorrelation of the logarithm: {} at 0.5 s, {} at 2 s, {} at 5 s",
                at(1),
                at(4),
                at(10)
            ),
            format!("{:.3} outages per second, {:.2} s long", self.outages_per_s, self.outage_s),
            format!(
                "{:.2} opportunities in a millisecond that has any; gaps of {} ms in the median, {} ms at the 99th percentile",
                self.burst,
                self.gap_ms(0.5),
                self.gap_ms(0.99)
            ),
        ]
    }

    /// The gap below which a share of them is, ms.
    pub fn gap_ms(&self, share: f64) -> u32 {
        let place = (self.gaps_ms.len() as f64 * share) as usize;
        self.gaps_ms.get(place.min(self.gaps_ms.len().saturating_sub(1))).copied().unwrap_or(0)
    }
}

/// Capacity in windows of so many seconds, Mbps. They are whole: the last one goes on with the next repetition, as often as
/// it takes.
fn windows(times: &[u32], end_ms: u32, window_s: f64) -> Vec<f64> {
    let (end_ms, window_ms) = (u64::from(end_ms.max(1)), (window_s * 1e3) as u64);
    let mut counts = vec![0.0; end_ms.div_ceil(window_ms) as usize];
    let covered_ms = counts.len() as u64 * window_ms;
    for together in times.chunk_by(PartialEq::eq) {
        // The end of a repetition is the beginning of the next.
        let first = u64::from(together[0]) % end_ms;
        for at in (first..covered_ms).step_by(end_ms as usize) {
            counts[(at / window_ms) as usize] += together.len() as f64;
        }
    }
    counts.iter().map(|count| count * OPPORTUNITY_BYTES * 8e-6 / window_s).collect()
}

pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn deviation(values: &[f64]) -> f64 {
    let whole = mean(values);
    mean(&values.iter().map(|x| (x - whole) * (x - whole)).collect::<Vec<_>>()).sqrt()
}

fn present(values: &[Option<f64>]) -> Vec<f64> {
    values.iter().flatten().copied().collect()
}

/// Over the pairs so far apart of which both are there; `None` where there is too little for it.
fn autocorrelation(values: &[Option<f64>], lag: usize) -> Option<f64> {
    let all = present(values);
    let (whole, variance) = (mean(&all), deviation(&all).powi(2));
    let pairs = values.iter().zip(values.get(lag..)?);
    let products: Vec<f64> =
        pairs.filter_map(|(a, b)| Some((a.as_ref()? - whole) * (b.as_ref()? - whole))).collect();
    (products.len() > lag && variance > 0.0).then(|| mean(&products) / variance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_trace_has_no_variation_and_no_outage() {
        let text: String = (1..=10_000).map(|ms| format!("{ms}\n")).collect();
        let steady = Statistics::of(&Trace::parse(&text).unwrap());
        assert!((steady.mean_mbps - 12.032).abs() < 1e-9 && steady.variation_500ms < 0.01, "{steady:?}");
        assert_eq!((steady.outages_per_s, steady.burst, steady.gap_ms(0.5)), (0.0, 1.0, 1));
        assert!(steady.lines().len() == 5);
    }

    #[test]
    fn outages_and_bursts_are_counted() {
        // Ten packets together every 100 ms for 5 s, then nothing for 1 s, then once more.
        let times = (1..=50).map(|n| n * 100).chain([6000]).flat_map(|ms| [ms; 10]);
        let text: String = times.map(|ms| format!("{ms}\n")).collect();
        let statistics = Statistics::of(&Trace::parse(&text).unwrap());
        assert_eq!(statistics.burst, 10.0);
        assert_eq!((statistics.outages_per_s, statistics.outage_s), (1.0 / 6.0, 1.0));
    }

    #[test]
    fn silence_at_the_beginning_is_an_outage() {
        let text: String = (5001..=5100).map(|ms| format!("{ms}\n")).collect();
        let statistics = Statistics::of(&Trace::parse(&text).unwrap());
        assert_eq!((statistics.outages_per_s, statistics.outage_s), (1.0 / 5.1, 5.001));
    }

    #[test]
    fn a_trace_shorter_than_a_window_is_repeated() {
        let statistics = Statistics::of(&Trace::parse(&"1\n".repeat(101)).unwrap());
        assert!((statistics.mbps[0] / 1215.232 - 1.0).abs() < 1e-9, "{statistics:?}");
        assert_eq!((statistics.mbps.len(), statistics.gap_ms(0.99)), (1, 1));
        assert!(statistics.autocorrelation.is_empty() && statistics.lines()[2].contains("– at 0.5 s"));
        // All opportunities after the last whole window.
        let late: String = (910..=990).map(|ms| format!("{ms}\n")).collect();
        let statistics = Statistics::of(&Trace::parse(&late).unwrap());
        assert!(statistics.variation_500ms.is_finite() && statistics.variation_100ms > 2.0, "{statistics:?}");
    }
}
