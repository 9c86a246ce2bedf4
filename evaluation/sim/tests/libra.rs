//! Libra's targets, in simulation: means over seeds, as in `docs/libra.md`.

use anole_sim::ideal::{Ideal, ideal, of_flow};
use anole_sim::plan::{Choice, plan, shipped};
use anole_sim::result::RunResult;
use anole_sim::scenario::Scenario;
use anole_sim::{AgentScript, run};

/// The capacities of the paper's wired links, Mbps.
const WIRED_MBPS: [f64; 3] = [24.0, 48.0, 96.0];
/// Where results begin to count on them, s.
const WARM_S: f64 = 5.0;

/// One link, and flows with the noise of real hosts.
fn simulate(link: &str, flows: &str, seed: u64) -> RunResult {
    let text = format!("name = \"libra\"\n{link}\n{flows}");
    let scenario = Scenario::parse(&text, "libra", &[], &mut |_| Err(String::new())).unwrap();
    let plans = plan(&scenario, &Choice::default(), &shipped(), seed).unwrap();
    run(&scenario, plans, seed, AgentScript::default(), &mut |_| ())
}

fn flow(alg: &str, more: &str) -> String {
    format!("[[flow]]\nalg = \"{alg}\"\nack_jitter_us = 200\n{more}\n")
}

/// 30 ms and 150 kB (Libra, Fig. 7).
fn wired(mbps: f64, alg: &str, more: &str, seed: u64) -> RunResult {
    let link = format!(
        "duration_s = 40.0\nwarmup_s = {WARM_S:?}\n[[link]]\nname = \"b\"\ncapacity_mbps = {mbps:?}\n\
         one_way_delay_ms = 15.0\nbuffer_bytes = 150000"
    );
    simulate(&link, &flow(alg, more), seed)
}

/// 48 Mbps, 100 ms, 1 BDP (Libra, Figs. 13 to 15), as CUBIC knows it.
fn shared(flows: &str, seed: u64) -> RunResult {
    let link = "duration_s = 80.0\nwarmup_s = 20.0\n[[link]]\nname = \"b\"\ncapacity_mbps = 48.0\n\
                one_way_delay_ms = 50.0\nbuffer_bdp = 1.0";
    simulate(link, flows, seed)
}

fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.into_iter().collect();
    values.iter().sum::<f64>() / values.len() as f64
}

/// Utilisation, and mean queueing delay in ms.
fn outcome(run: &RunResult) -> (f64, f64) {
    (run.links[0].utilization.unwrap(), run.links[0].queue_delay_mean_ms.unwrap())
}

#[test]
fn a_quarter_of_cubics_delay_at_nearly_its_throughput() {
    for alg in ["c-libra", "b-libra"] {
        let of = |alg| WIRED_MBPS.map(|mbps| outcome(&wired(mbps, alg, "", 1)));
        let (ours, cubic) = (of(alg), of("cubic"));
        let throughput = mean((0..3).map(|i| ours[i].0 / cubic[i].0));
        let delay = mean((0..3).map(|i| ours[i].1)) / mean((0..3).map(|i| cubic[i].1));
        println!("{alg}: {throughput:.3} of CUBIC's throughput, {delay:.3} of its queueing delay");
        assert!(throughput >= 0.95 && delay <= 0.25, "{alg}: {throughput} {delay}");
    }
}

#[test]
fn flows_share_with_each_other_and_with_cubic() {
    for (alg, alike, beside) in [("c-libra", 0.98, 0.98), ("b-libra", 0.98, 0.98)] {
        let jain = |flows: &str| mean((1..=8).map(|seed| shared(flows, seed).jain_index.unwrap()));
        let two = jain(&flow(alg, "count = 2"));
        let cubic = jain(&(flow(alg, "") + &flow("cubic", "start_s = 0.5")));
        println!("{alg}: Jain's index {two:.3} with itself, {cubic:.3} beside CUBIC");
        assert!(two >= alike && cubic >= beside, "{alg}: {two} {cubic}");
    }
}

/// The time from the third flow's start to the first five seconds within 25 % of their mean, s.
fn convergence_s(run: &RunResult) -> Option<f64> {
    let third = &run.flows[2].series.throughput_mbps[100..];
    let seconds: Vec<f64> = third.chunks_exact(10).map(|bins| mean(bins.iter().copied())).collect();
    let stable = |window: &[f64]| {
        let middle = mean(window.iter().copied());
        window.iter().all(|mbps| (mbps / middle - 1.0).abs() <= 0.25)
    };
    seconds.windows(5).position(stable).map(|second| second as f64)
}

#[test]
fn a_third_flow_settles_within_seconds() {
    for alg in ["c-libra", "b-libra"] {
        let flows = flow(alg, "count = 3\nstart_spacing_s = 5.0");
        let settled = mean((1..=8).map(|seed| convergence_s(&shared(&flows, seed)).unwrap()));
        println!("{alg}: the third flow settles within {settled:.1} s");
        assert!(settled <= 3.6, "{alg}: {settled}");
    }
}

#[test]
fn trials_are_alike() {
    for alg in ["c-libra", "b-libra"] {
        let shares: Vec<f64> = (1..=20).map(|seed| outcome(&wired(48.0, alg, "", seed)).0).collect();
        let range =
            shares.iter().fold(0.0, |a: f64, b| a.max(*b)) - shares.iter().fold(1.0, |a: f64, b| a.min(*b));
        println!("{alg}: utilisation of twenty trials within {range:.3}");
        assert!(range <= 0.08, "{alg}: {range}");
    }
}

#[test]
fn preferences_order_throughput_and_delay() {
    let names = ["la-2", "la-1", "default", "th-1", "th-2"];
    for alg in ["c-libra", "b-libra"] {
        let of = |name: &str| {
            let prefers = format!("preference = \"{name}\"");
            let runs: Vec<_> = (1..=16).map(|seed| outcome(&wired(24.0, alg, &prefers, seed))).collect();
            (mean(runs.iter().map(|run| run.0)), mean(runs.iter().map(|run| run.1)))
        };
        let outcomes = names.map(of);
        println!("{alg}: {outcomes:.4?}");
        // Runs of one setting scatter by up to 3 ms: means of this many settings that are alike differ by a thousandth of the link,
        // and by a tenth of a millisecond.
        let ordered = |a: (f64, f64), b: (f64, f64)| a.0 <= b.0 + 0.001 && a.1 <= b.1 + 0.1;
        assert!(outcomes.windows(2).all(|pair| ordered(pair[0], pair[1])), "{alg}: {outcomes:?}");
        // A link that is full under every preference has no more to give.
        let more = outcomes[4].0 > outcomes[0].0 || outcomes[0].0 > 0.99;
        assert!(more && outcomes[4].1 > outcomes[0].1, "{alg}: {outcomes:?}");
    }
}

#[test]
fn a_preference_changes_a_flow_that_runs() {
    let run = wired(48.0, "c-libra", "preference_at = [[20.0, \"th-2\"]]", 1);
    let rtt = |from: usize, to: usize| mean(run.flows[0].series.rtt_ms[from..to].iter().flatten().copied());
    let (before, after) = (rtt(100, 200), rtt(300, 400));
    assert!(after > before + 2.0, "{before} ms, then {after} ms");
}

#[test]
fn libra_comes_near_the_offline_ideal() {
    let of = |alg: &str| WIRED_MBPS.map(|mbps| wired(mbps, alg, "", 1).flows.remove(0));
    let clean = of("cl-libra");
    for (alg, classic) in [("c-libra", "cubic"), ("b-libra", "bbr")] {
        let (ours, classic) = (of(alg), of(classic));
        let figure =
            |each: &dyn Fn(usize) -> Ideal, of: fn(&Ideal) -> f64| mean((0..3).map(|i| of(&each(i))));
        let libra = |i: usize| of_flow(&ours[i], WARM_S).unwrap();
        let best = |i: usize| ideal(&classic[i], &clean[i], WARM_S).unwrap();
        let throughput = figure(&libra, |f| f.throughput_mbps) / figure(&best, |f| f.throughput_mbps);
        let rtt = figure(&libra, |f| f.rtt_mean_ms) / figure(&best, |f| f.rtt_mean_ms);
        println!("{alg}: {throughput:.3} of the ideal's throughput, {rtt:.3} of its round-trip time");
        assert!(throughput > 0.95 && rtt < 1.1, "{alg}: {throughput} {rtt}");
    }
}

/// The policy multiplies the base rate in force, not the one of the cycle before.
#[test]
fn without_a_classic_law_a_long_link_fills() {
    for (policy, least) in [("libra-rl", 0.95), ("libra", 0.5)] {
        let flow = flow("cl-libra", &format!("policy = \"{policy}\""));
        let used = mean((1..=2).map(|seed| shared(&flow, seed).links[0].utilization.unwrap()));
        println!("cl-libra over {policy}: {used:.3} of a link of 100 ms");
        assert!(used >= least, "{policy}: {used}");
    }
}
