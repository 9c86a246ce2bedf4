//! Anole beside CUBIC in a deep buffer: it holds its share while CUBIC fills the buffer, whoever came first,
//! and goes back to a short queue afterwards; flows of Anole alone keep the queue short as a rule.

use anole_sim::plan::{Choice, plan, shipped};
use anole_sim::result::{FlowResult, RunResult};
use anole_sim::scenario::Scenario;
use anole_sim::{AgentScript, run};

const BASE_RTT_MS: f64 = 30.0;

/// 100 Mbps, 30 ms and 4 BDP for 60 s.
fn simulate(flows: &str, set: &[String], seed: u64) -> RunResult {
    let text = format!(
        "name = \"coexistence\"\nduration_s = 60.0\n[[link]]\nname = \"b\"\ncapacity_mbps = 100.0\n\
         one_way_delay_ms = {}\nbuffer_bdp = 4.0\n{flows}",
        BASE_RTT_MS / 2.0
    );
    let scenario = Scenario::parse(&text, "coexistence", set, &mut |_| Err(String::new())).unwrap();
    let plans = plan(&scenario, &Choice::default(), &shipped(), seed).unwrap();
    run(&scenario, plans, seed, AgentScript::default(), &mut |_| ())
}

/// The mean of tenths of seconds.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    values.iter().sum::<f64>() / values.len() as f64
}

fn mbps(flow: &FlowResult, from_s: usize, to_s: usize) -> f64 {
    mean(flow.series.throughput_mbps[from_s * 10..to_s * 10].iter().copied())
}

fn rtt_ms(flow: &FlowResult, from_s: usize, to_s: usize) -> f64 {
    mean(flow.series.rtt_ms[from_s * 10..to_s * 10].iter().flatten().copied())
}

/// The time that the flow spent in this stage after `from_s`, s.
fn time_in(flow: &FlowResult, stage: &str, from_s: f64) -> f64 {
    let spans = flow.explained.iter().zip(flow.explained.iter().skip(1));
    let in_stage = spans.filter(|(e, _)| e.stage == stage);
    in_stage
        .map(|(e, next)| next.at.as_secs_f64() - e.at.as_secs_f64().max(from_s))
        .map(|span| span.max(0.0))
        .sum()
}

#[test]
fn anole_holds_a_share_beside_cubic_and_a_short_queue_after_it() {
    // A flow that comes second into a full buffer of 4 BDP needs longer than this for its share.
    for (ours_s, theirs_s, least) in [(0, 5, 0.2), (5, 0, 0.05)] {
        let flows = format!(
            "[[flow]]\nalg = \"anole\"\nack_jitter_us = 300\nstart_s = {ours_s}.0\n\
             [[flow]]\nalg = \"cubic\"\nstart_s = {theirs_s}.0\nstop_s = 40.0\n"
        );
        let shares = (1..=10).map(|seed| {
            let result = simulate(&flows, &[], seed);
            let [ours, theirs] = &result.flows[..] else { unreachable!() };
            assert!(time_in(ours, "track", 0.0) > 10.0, "{ours_s} s, {seed}");
            let after = rtt_ms(ours, 55, 60);
            assert!(after < 1.25 * BASE_RTT_MS, "{ours_s} s, {seed}: {after} ms");
            let (a, b) = (mbps(ours, 15, 40), mbps(theirs, 15, 40));
            a / (a + b)
        });
        let share = mean(shares);
        assert!((least..0.7).contains(&share), "started at {ours_s} s: {share}");
    }
}

const FOUR: &str =
    "[[flow]]\nalg = \"anole\"\nunder_test = true\nack_jitter_us = 300\ncount = 4\nstart_spacing_s = 4.0\n";

/// Flows that arrive one after the other may take each other for flows that fill the buffer; that is the exception.
#[test]
fn flows_of_anole_alone_keep_the_queue_short() {
    let rtts =
        (1..=6).map(|seed| mean(simulate(FOUR, &[], seed).flows.iter().map(|flow| rtt_ms(flow, 40, 60))));
    let short = rtts.filter(|rtt| *rtt < 1.6 * BASE_RTT_MS).count();
    assert!(short >= 4, "{short} of 6 runs");
}

/// A window that has grown fast shows late how long a queue it has made: that is not the queue of the one who has left.
#[test]
fn the_queue_is_short_and_the_link_in_use_five_seconds_after_cubic_stops() {
    for (one_way_ms, bdp) in [(15, 4.0), (50, 1.0), (50, 4.0)] {
        let set = [format!("b.one_way_delay_ms={one_way_ms}"), format!("b.buffer_bdp={bdp}")];
        let runs: Vec<(f64, f64)> = (0..8)
            .map(|seed| {
                let flows = format!(
                    "[[flow]]\nalg = \"anole\"\nack_jitter_us = 200\n\
                     [[flow]]\nalg = \"cubic\"\nack_jitter_us = 200\nstart_s = {:.3}\nstop_s = 40.0\n",
                    5.0 + 0.037 * f64::from(seed)
                );
                let ours = &simulate(&flows, &set, 1).flows[0];
                (rtt_ms(ours, 45, 50) / f64::from(2 * one_way_ms), mbps(ours, 45, 60))
            })
            .collect();
        println!("{one_way_ms} ms, {bdp} BDP: RTT over base and Mbps {runs:.2?}");
        // The target of `anole-eval reproduce anole-coexistence`; one start of several has the queue for longer.
        assert!(mean(runs.iter().map(|run| run.0)) < 1.25, "{one_way_ms} ms, {bdp} BDP: {runs:?}");
        assert!(runs.iter().all(|&(_, mbps)| mbps > 90.0), "{one_way_ms} ms, {bdp} BDP: {runs:?}");
    }
}
