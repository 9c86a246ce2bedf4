//! Traces side by side.

use super::statistics::Statistics;
use anole_plot::{self as plot, Curve, Frame};

const PANEL: (u32, u32) = (plot::WIDTH, 300);
/// Longest time of the panel over time, s: more would be a band.
const SHOWN_S: f64 = 120.0;
const WINDOW_S: f64 = 0.5;

/// Rate over time, autocorrelation of its logarithm, distribution of gaps.
pub fn draw(traces: &[(String, Statistics)]) -> String {
    let curves = |points: fn(&Statistics) -> Vec<(f64, f64)>| -> Vec<Curve> {
        let curve = |(label, of): &(String, Statistics)| Curve { label: label.clone(), points: points(of) };
        traces.iter().map(curve).collect()
    };
    let frame = |title, x, y| Frame { title, x, y, size: PANEL };
    let rate = curves(|of| {
        let shown = (SHOWN_S / WINDOW_S) as usize;
        of.mbps.iter().take(shown).enumerate().map(|(n, mbps)| (n as f64 * WINDOW_S, *mbps)).collect()
    });
    let memory = curves(|of| {
        let lags = of.autocorrelation.iter().zip(1u32..);
        let points = lags.map(|(value, lag)| (f64::from(lag) * WINDOW_S, *value));
        [(0.0, 1.0)].into_iter().chain(points).collect()
    });
    let gaps = curves(|of| {
        let share = |percent: u32| f64::from(percent) / 1000.0;
        (0..1000)
            .map(|percent| (f64::from(of.gap_ms(share(percent))).max(1.0).log10(), share(percent)))
            .collect()
    });
    plot::stacked(&[
        plot::lines(&frame("Capacity in windows of 0.5 s", "time (s)", "Mbps"), &rate, None),
        plot::lines(&frame("Memory of its logarithm", "lag (s)", "autocorrelation"), &memory, None),
        plot::lines(
            &frame("Gaps between opportunities", "log10 of the gap in ms", "share of gaps that are shorter"),
            &gaps,
            None,
        ),
    ])
    .svg()
}
