//! Whole runs.

use super::*;
use crate::plan::{Choice, plan};

fn scenario(flow: &str, link: &str) -> Scenario {
    let text = format!(
        "name = \"t\"\nduration_s = 30.0\n[[link]]\nname = \"b\"\ncapacity_mbps = 48.0\none_way_delay_ms = 25.0\n\
         buffer_bdp = 2.0\n{link}\n[[flow]]\nunder_test = true\n{flow}\n"
    );
    Scenario::parse(&text, "t.toml", &[], &mut |_| Err("none".to_string())).unwrap()
}

fn simulate(scenario: &Scenario, seed: u64, script: AgentScript) -> RunResult {
    run(scenario, plan(scenario, &Choice::default(), seed).unwrap(), seed, script, &mut |_| ())
}

#[test]
fn native() {
    let r = simulate(&scenario("alg = \"native\"", ""), 1, AgentScript::default());
    let f = &r.flows[0];
    println!(
        "{:?} {:?} {:?} {:?} {:?}",
        f.throughput_mbps, f.rtt_mean_ms, f.rtt_p95_ms, f.loss_rate, r.links
    );
}
