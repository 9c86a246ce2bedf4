//! How many packets the simulator carries per second of processor time.

use super::{print, processor_time};
use anole_sim::AgentScript;
use anole_sim::plan::{Choice, plan, shipped};
use anole_sim::scenario::Scenario;
use anyhow::{Context, Result};
use serde::Serialize;

/// A flow at full speed on a fast link for long enough that start-up does not count.
const SCENARIO: &str = r#"
name = "bench"
duration_s = 20.0
[[link]]
name = "bottleneck"
capacity_mbps = 1000.0
one_way_delay_ms = 10.0
buffer_bdp = 1.0
[[flow]]
alg = "native"
under_test = true
"#;

/// Rounds; the median counts.
const ROUNDS: usize = 5;

#[derive(Serialize)]
struct Figure<'a> {
    bench: &'static str,
    alg: &'a str,
    packets_per_cpu_s: f64,
}

/// Measures every algorithm.
pub fn run(algs: &[String], json: bool) -> Result<()> {
    let scenario = Scenario::parse(SCENARIO, "bench", &[], &mut |_| Err(String::new()))?;
    for alg in algs {
        let choice = Choice { alg: Some(alg.clone()), ..Choice::default() };
        let mut speeds = Vec::new();
        for _ in 0..ROUNDS {
            let plans = plan(&scenario, &choice, &shipped(), scenario.seed).map_err(crate::options::usage)?;
            let before = processor_time()?;
            let result = anole_sim::run(&scenario, plans, scenario.seed, AgentScript::default(), &mut |_| ());
            let seconds = (processor_time()? - before).as_secs_f64();
            let mbps = result.flows[0].throughput_mbps.context("the benchmark's flow sent nothing")?;
            let packets =
                mbps * 1e6 / 8.0 * scenario.duration.as_secs_f64() / f64::from(scenario.full_packet());
            speeds.push(packets / seconds);
        }
        speeds.sort_by(f64::total_cmp);
        let packets_per_cpu_s = speeds[ROUNDS / 2].round();
        let figure = Figure { bench: "sim", alg, packets_per_cpu_s };
        print(json, &figure, || {
            format!(
                "simulator, {alg}: {packets_per_cpu_s} packets through the bottleneck per second of one processor"
            )
        })?;
    }
    Ok(())
}
