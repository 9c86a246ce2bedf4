//! Media: an application of 3.1 Mbps in frames, over a quiet link and over picoquic's scripted ones. From 0.2 s on
//! its data are at most 35 ms late on average and 50 ms at worst, as picoquic's media test asks for, propagation included.

use anole_model::Time;
use anole_sim::AgentScript;
use anole_sim::plan::{Choice, plan, shipped};
use anole_sim::result::RunResult;
use anole_sim::scenario::{self, Scenario};

const MEAN_MS: f64 = 35.0;
const LARGEST_MS: f64 = 50.0;
/// What the application has, on the wire.
const MBPS: f64 = 3.12768 * 1500.0 / 1448.0;
const SEEDS: [u64; 3] = [1, 2, 3];

fn run(name: &str, alg: &str, seed: u64) -> RunResult {
    let text = scenario::shipped(name).unwrap();
    let scenario = Scenario::parse(text, name, &[], &mut |_| Err(String::new())).unwrap();
    let choice = Choice { alg: Some(alg.to_string()), ..Choice::default() };
    let plans = plan(&scenario, &choice, &shipped(), seed).unwrap();
    anole_sim::run(&scenario, plans, seed, AgentScript::default(), &mut |_: Time| ())
}

#[test]
fn frames_are_in_time_whatever_the_link_does() {
    for name in ["media", "media-drop", "media-fade", "media-suspension"] {
        for (alg, seed) in ["anole", "bbr", "cubic"].into_iter().flat_map(|alg| SEEDS.map(|seed| (alg, seed)))
        {
            let run = run(name, alg, seed);
            let (flow, delay) = (&run.flows[0], run.flows[0].app_delay.unwrap());
            let mbps = flow.throughput_mbps.unwrap();
            println!("{name}, {alg}: {:.1} ms, {:.1} at worst, {mbps:.2} Mbps", delay.mean_ms, delay.max_ms);
            assert!(delay.mean_ms <= MEAN_MS && delay.max_ms <= LARGEST_MS, "{name}, {alg}: {delay:?}");
            assert!((mbps / MBPS - 1.0).abs() < 0.03, "{name}, {alg}: {mbps} Mbps");
        }
    }
}
