//! What the series of a run's flows tell: figures between two times.

use anole_sim::ideal::of_flow;
use anole_sim::result::RunResult;

/// How long a flow's throughput has to stay, s, and within which share of its mean over that time.
const STABLE_S: f64 = 5.0;
const STABLE_WITHIN: f64 = 0.25;
/// Over what throughput is a mean there, s: what one round trip does is no instability.
const STABLE_POINT_S: f64 = 0.5;

/// The seconds from a flow's start until it is stable, and its throughput from there on, Mbps. Of a flow that never is:
/// all of its time, and the throughput of its last half.
pub fn converged(run: &RunResult, number: usize) -> Option<(f64, &[f64])> {
    let flow = run.flows.get(number)?;
    let series = &flow.series;
    let active = between(&series.throughput_mbps, series.dt_s, [flow.start_s, flow.stop_s]);
    let point = ((STABLE_POINT_S / series.dt_s).round() as usize).max(1);
    let points: Vec<f64> = active.chunks(point).filter_map(mean).collect();
    let window = (STABLE_S / STABLE_POINT_S) as usize;
    let stable = |window: &[f64]| {
        let whole = mean(window).unwrap_or(0.0);
        whole > 0.0 && window.iter().all(|x| (x / whole - 1.0).abs() <= STABLE_WITHIN)
    };
    match points.windows(window).position(stable) {
        Some(first) => Some((first as f64 * STABLE_POINT_S, &active[(first * point).min(active.len())..])),
        None => Some((flow.stop_s - flow.start_s, &active[active.len() / 2..])),
    }
}

/// The points of a series between two times, s.
fn between<T>(series: &[T], dt_s: f64, [from, to]: [f64; 2]) -> &[T] {
    let index = |at: f64| ((at / dt_s).round() as usize).min(series.len());
    series.get(index(from)..index(to)).unwrap_or(&[])
}

/// Mean of a slice; `None` of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Mean throughput of a flow between two times, Mbps.
pub fn throughput_between(run: &RunResult, flow: usize, span: [f64; 2]) -> Option<f64> {
    let series = &run.flows.get(flow)?.series;
    mean(between(&series.throughput_mbps, series.dt_s, span))
}

/// Mean round-trip time of a flow between two times, ms.
pub fn rtt_between(run: &RunResult, flow: usize, span: [f64; 2]) -> Option<f64> {
    mean(&rtts(run, flow, span)?)
}

/// Smallest round-trip time of a flow between two times, in means over a point of the series, ms.
pub fn min_rtt_between(run: &RunResult, flow: usize, span: [f64; 2]) -> Option<f64> {
    rtts(run, flow, span)?.into_iter().reduce(f64::min)
}

fn rtts(run: &RunResult, flow: usize, span: [f64; 2]) -> Option<Vec<f64>> {
    let series = &run.flows.get(flow)?.series;
    Some(between(&series.rtt_ms, series.dt_s, span).iter().flatten().copied().collect())
}

/// Jain's index over the throughputs of all flows between two times.
pub fn jain_between(run: &RunResult, span: [f64; 2]) -> Option<f64> {
    let rates: Option<Vec<f64>> =
        (0..run.flows.len()).map(|flow| throughput_between(run, flow, span)).collect();
    anole_sim::jain_index(&rates?)
}

/// How far a flow is from its fair share, as a share of it: in the two seconds that begin `settle_s` after the start
/// of the flow `newest`, where all flows up to that one are active.
pub fn unfairness(
    run: &RunResult,
    flow: usize,
    newest: usize,
    capacity_mbps: f64,
    settle_s: f64,
) -> Option<f64> {
    let from = run.flows.get(newest)?.start_s + settle_s;
    let fair = capacity_mbps / (newest + 1) as f64;
    Some((throughput_between(run, flow, [from, from + 2.0])? / fair - 1.0).abs())
}

/// The largest [`unfairness`] of any flow after any start but the first, when a flow is alone.
pub fn worst_unfairness(run: &RunResult, capacity_mbps: f64, settle_s: f64) -> Option<f64> {
    let pairs = (1..run.flows.len()).flat_map(|newest| (0..=newest).map(move |flow| (flow, newest)));
    let all: Option<Vec<f64>> =
        pairs.map(|(flow, newest)| unfairness(run, flow, newest, capacity_mbps, settle_s)).collect();
    all?.into_iter().reduce(f64::max)
}

/// The first flow's throughput from a time on, Mbps; `None` of a run that ends before.
fn throughput_from(run: &RunResult, from_s: f64) -> Option<&[f64]> {
    let series = &run.flows.first()?.series;
    let points = between(&series.throughput_mbps, series.dt_s, [from_s, f64::MAX]);
    (!points.is_empty()).then_some(points)
}

/// Time from `from_s` until a point of the first flow's series reaches `mbps`, s; the rest of the run if none does.
pub fn time_to_reach(run: &RunResult, from_s: f64, mbps: f64) -> Option<f64> {
    let points = throughput_from(run, from_s)?;
    let before = points.iter().position(|&x| x >= mbps).unwrap_or(points.len());
    Some(before as f64 * run.flows.first()?.series.dt_s)
}

/// Lowest point of the first flow's series from a time on, Mbps.
pub fn lowest_from(run: &RunResult, from_s: f64) -> Option<f64> {
    throughput_from(run, from_s)?.iter().copied().reduce(f64::min)
}

/// Longest time in which nothing arrived, from a time on, s.
pub fn longest_silence(run: &RunResult, from_s: f64) -> Option<f64> {
    let longest = throughput_from(run, from_s)?.split(|&x| x > 0.0).map(<[f64]>::len).max()?;
    Some(longest as f64 * run.flows.first()?.series.dt_s)
}

/// Windows over which a run's utility is measured, s: longer than any cycle, so that what an algorithm does
/// on purpose within one is not taken for the state of the link.
const UTILITY_WINDOW_S: f64 = 1.0;
/// Gradients of the round-trip time below this are noise (half a millisecond in such a window is 0.0005).
const GRADIENT_NOISE: f64 = 0.005;

/// Utility counts from here on, s: the queue of starting up, once, weighs more than ten seconds of anything else.
const UTILITY_FROM_S: f64 = 5.0;

/// Mean utility of the first flow (Anole, Eq. 1 with its parameters, µ = 0.2), over windows of a second, once
/// it has started up.
pub fn utility(run: &RunResult) -> Option<f64> {
    let series = &run.flows.first()?.series;
    let all: Vec<f64> = series.rtt_ms.iter().flatten().copied().collect();
    let base = all.into_iter().reduce(f64::min)?;
    let windows = (series.throughput_mbps.len() as f64 * series.dt_s / UTILITY_WINDOW_S).floor() as usize;
    let mut before = base;
    let utilities: Vec<(f64, f64)> = (0..windows)
        .map(|window| {
            let from = window as f64 * UTILITY_WINDOW_S;
            let span = [from, from + UTILITY_WINDOW_S];
            let rate = throughput_between(run, 0, span).unwrap_or(0.0);
            let rtt = rtt_between(run, 0, span).unwrap_or(before);
            let gradient = (rtt - before) / 1e3 / UTILITY_WINDOW_S;
            before = rtt;
            let gradient = if gradient > GRADIENT_NOISE { gradient } else { 0.0 };
            let queue = if rtt > 1.2 * base { rtt / base } else { 0.0 };
            (from, rate.powf(0.9) - 900.0 * rate * gradient - 11.0 * rate * queue)
        })
        .collect();
    let settled: Vec<f64> =
        utilities.iter().filter(|(from, _)| *from >= UTILITY_FROM_S).map(|&(_, u)| u).collect();
    mean(&settled)
}

/// Mean utility of the first flow (Libra, Eq. 1), once it has started up, over the points of its series as for the ideal
/// that it is compared with.
pub fn libra_utility(run: &RunResult) -> Option<f64> {
    Some(of_flow(run.flows.first()?, UTILITY_FROM_S)?.utility)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_sim::result::{FlowResult, LinkResult, Series};

    fn flow(start_s: f64, throughput_mbps: Vec<f64>, rtt_ms: Vec<Option<f64>>) -> FlowResult {
        FlowResult {
            alg: "x".into(),
            under_test: false,
            start_s,
            stop_s: 4.0,
            active_s: 4.0 - start_s,
            optimal_mbps: None,
            throughput_mbps: Some(10.0),
            goodput_mbps: Some(4.0),
            owd_mean_ms: None,
            owd_p50_ms: None,
            owd_p95_ms: Some(30.0),
            owd_p99_ms: None,
            rtt_mean_ms: Some(62.5),
            rtt_p95_ms: None,
            ideal_rtt_ms: 50.0,
            loss_rate: None,
            retransmit_rate: Some(0.25),
            app_delay: None,
            fct_s: None,
            applied: None,
            decisions: None,
            inferences: Some(8),
            reports: None,
            updates: None,
            units: Vec::new(),
            explained: Vec::new(),
            governed: Vec::new(),
            series: Series { dt_s: 0.5, throughput_mbps, rtt_ms, ..Series::default() },
        }
    }

    fn run(flows: Vec<FlowResult>) -> RunResult {
        RunResult {
            scenario: "t".into(),
            mode: "sim",
            alg: "x".into(),
            seed: 1,
            version: "",
            classic: None,
            policy: None,
            backend: None,
            set: vec![],
            wall_s: 0.0,
            links: vec![LinkResult {
                name: "b".into(),
                utilization: Some(0.5),
                loss_rate: None,
                queue_delay_mean_ms: None,
                queue_delay_p95_ms: None,
                series: None,
            }],
            flows,
            jain_index: None,
            disturbed: None,
            optimal_mbps: Some(20.0),
            measured_s: 4.0,
        }
    }

    #[test]
    fn figures_of_a_series() {
        let rtt = vec![Some(50.0), None, Some(60.0), Some(50.0), Some(50.0), Some(50.0), None, None];
        let run = run(vec![flow(0.0, vec![0.0, 5.0, 10.0, 20.0, 0.0, 0.0, 0.0, 20.0], rtt)]);
        assert_eq!(throughput_between(&run, 0, [0.5, 1.5]), Some(7.5));
        assert_eq!(throughput_between(&run, 0, [9.0, 10.0]), None);
        assert_eq!((rtt_between(&run, 0, [0.5, 2.0]), rtt_between(&run, 0, [3.0, 4.0])), (Some(55.0), None));
        assert_eq!(min_rtt_between(&run, 0, [1.0, 1.5]), Some(60.0));
        assert_eq!((time_to_reach(&run, 0.5, 10.0), time_to_reach(&run, 0.5, 99.0)), (Some(0.5), Some(3.5)));
        assert_eq!((lowest_from(&run, 0.5), lowest_from(&run, 3.5)), (Some(0.0), Some(20.0)));
        assert_eq!((longest_silence(&run, 0.5), longest_silence(&run, 3.5)), (Some(1.5), Some(0.0)));
        // The run ends at 4 s: a target is not met by what was not measured.
        assert_eq!((time_to_reach(&run, 4.0, 10.0), longest_silence(&run, 4.0)), (None, None));
        assert_eq!(lowest_from(&run, 4.0), None);
        use crate::reproduce::measure::Measure;
        use toml::Value;
        let named =
            |text: &str| Measure::try_from(text.parse::<toml::Table>().unwrap()["m"].clone()).unwrap();
        assert_eq!(named("m = 'inferences'").of(&run), Some(2.0));
        assert_eq!(named("m = 'power'").of(&run), Some(0.4));
        assert_eq!(
            named("m = { name = 'throughput', between = { from_s = 0.5, to_s = 1.5 } }").of(&run),
            Some(7.5)
        );
        assert_eq!(named("m = { name = 'lowest', from_s = 3.5 }").of(&run), Some(20.0));
        let four = [9.0, 3.0, 2.0, 1.0].map(|mbps| flow(0.0, vec![mbps; 8], vec![None; 8]));
        let four = super::tests::run(four.to_vec());
        assert_eq!(named("m = { name = 'ratio', to_flow = 2, to_all = true }").of(&four), Some(4.0));
        assert_eq!(named("m = { name = 'ratio', to_all = true }").of(&four), Some(4.5));
        assert_eq!(named("m = { name = 'ratio', to_flow = 2 }").of(&four), Some(4.5));
        assert_eq!(
            named("m = { name = 'ratio', flow = 3, to_flow = 1, to_highest = true }").of(&four),
            Some(1.0 / 3.0)
        );
        assert_eq!(named("m = { name = 'goodput-of-capacity', all = true }").of(&four), Some(0.8));
        // One is active in half the time that counts.
        let two = [0.0, 2.0].map(|start_s| flow(start_s, vec![10.0; 8], vec![None; 8]));
        let two = super::tests::run(two.to_vec());
        assert_eq!(named("m = 'total-throughput'").of(&two), Some(15.0));
        assert_eq!(named("m = { name = 'goodput-of-capacity', all = true }").of(&two), Some(0.3));
        assert_eq!(named("m = { name = 'retransmit-rate', all = true }").of(&four), Some(0.25));
        let error = Measure::try_from(Value::String("throughputt".into())).unwrap_err();
        assert!(error.contains("throughputt") && error.contains("`throughput`"), "{error}");
    }

    #[test]
    fn unfairness_is_the_worst_flow_after_any_start() {
        let flows = vec![
            flow(0.0, vec![12.0; 8], vec![None; 8]),
            flow(1.0, vec![0.0, 0.0, 4.0, 4.0, 6.0, 6.0, 6.0, 6.0], vec![None; 8]),
        ];
        // 12 and 5.5 of 6 each.
        let second = run(flows.clone());
        let far = |flow| unfairness(&second, flow, 1, 12.0, 0.5).unwrap();
        assert!((far(0) - 1.0).abs() < 1e-9 && (far(1) - 0.5 / 6.0).abs() < 1e-9);
        assert_eq!(worst_unfairness(&run(flows.clone()), 12.0, 0.5), Some(1.0));
        // A lone flow has nobody to share with, whatever it leaves.
        assert_eq!(worst_unfairness(&run(flows[..1].to_vec()), 48.0, 0.5), None);
        assert_eq!(jain_between(&run(flows), [2.0, 4.0]), Some(0.9));
    }

    #[test]
    fn a_flow_has_converged_when_its_throughput_stays() {
        // In points of half a second: two up and down, then twelve that stay.
        let moving = [0.0, 30.0, 1.0, 30.0].into_iter().chain([10.0; 12]);
        let mut flow = flow(0.0, moving.collect(), vec![None; 16]);
        flow.stop_s = 8.0;
        assert_eq!(converged(&run(vec![flow.clone()]), 0), Some((2.0, &[10.0; 12][..])));
        flow.series.throughput_mbps = (0..16).map(|n| f64::from(n % 2) * 20.0).collect();
        let never = run(vec![flow]);
        let (time, after) = converged(&never, 0).unwrap();
        assert_eq!((time, after.len()), (8.0, 8));
    }

    #[test]
    fn utility_punishes_a_queue_and_its_growth() {
        let at = |rtt: [f64; 4]| {
            // Five seconds of starting up, with any queue at all, and the windows that count.
            let all = [50.0, 500.0, 500.0, 500.0, 50.0].into_iter().chain(rtt);
            let rtt = all.flat_map(|ms| [Some(ms), Some(ms)]).collect();
            utility(&run(vec![flow(0.0, vec![10.0; 18], rtt)])).unwrap()
        };
        let calm = 10f64.powf(0.9);
        assert!((at([50.0; 4]) - calm).abs() < 1e-9);
        assert!((at([50.0, 52.0, 50.0, 52.0]) - calm).abs() < 1e-9);
        // One window of 10 ms/s growth; two in which the queue is too long.
        assert!((at([50.0, 60.0, 60.0, 50.0]) - (calm - 900.0 * 10.0 * 0.01 / 4.0)).abs() < 1e-9);
        let long = at([50.0, 100.0, 100.0, 50.0]);
        assert!(
            (long - (calm - (900.0 * 10.0 * 0.05 + 2.0 * 11.0 * 10.0 * 2.0) / 4.0)).abs() < 1e-9,
            "{long}"
        );
    }

    #[test]
    fn libras_utility_punishes_growth_and_loss() {
        let at = |rtt: [f64; 4], loss| {
            let all = [500.0; 5].into_iter().chain(rtt);
            let rtt = all.flat_map(|ms| [Some(ms), Some(ms)]).collect();
            let mut flow = flow(0.0, vec![10.0; 18], rtt);
            flow.loss_rate = loss;
            libra_utility(&run(vec![flow])).unwrap()
        };
        let calm = 10f64.powf(0.9);
        assert!((at([500.0; 4], None) - calm).abs() < 1e-9);
        assert!((at([500.0; 4], Some(0.1)) - (calm - 11.35 * 10.0 * 0.1)).abs() < 1e-9);
        // A long queue costs nothing; in one point of eight it grows by 10 ms in half a second.
        let grows = at([50.0, 50.0, 60.0, 60.0], None);
        assert!((grows - (calm - 900.0 * 10.0 * 0.02 / 8.0)).abs() < 1e-9, "{grows}");
    }
}
