//! The law of `docs/first-algorithm.md` in the simulator: alone, two flows of it, and as Anole's rule-based candidate.

use anole_sim::plan::{Choice, plan, shipped};
use anole_sim::result::RunResult;
use anole_sim::scenario::Scenario;
use anole_sim::{AgentScript, run};

const LINK: &str = "
name = \"first\"
duration_s = 60.0
warmup_s = 10.0
[[link]]
name = \"b\"
capacity_mbps = 20.0
one_way_delay_ms = 15.0
buffer_bdp = 1.0
[[flow]]
alg = \"aimd\"
under_test = true
";

fn simulate(set: &[&str], choice: &Choice) -> RunResult {
    let set: Vec<String> = set.iter().map(|change| change.to_string()).collect();
    let scenario = Scenario::parse(LINK, "first", &set, &mut |_| Err(String::new())).unwrap();
    let plans = plan(&scenario, choice, &shipped(), 1).unwrap();
    run(&scenario, plans, 1, AgentScript::default(), &mut |_| ())
}

#[test]
fn it_fills_a_link_and_two_flows_share_it() {
    let alone = simulate(&[], &Choice::default());
    // A buffer of one BDP feeds the link while the window is halved.
    assert!(alone.flows[0].throughput_mbps.unwrap() > 0.95 * 20.0, "{:?}", alone.flows[0]);
    let shares: Vec<f64> = simulate(&["flow.count=2", "flow.start_spacing_s=3"], &Choice::default())
        .flows
        .iter()
        .map(|flow| flow.throughput_mbps.unwrap())
        .collect();
    assert!(shares.iter().all(|mbps| *mbps > 0.3 * 20.0), "{shares:?}");
}

#[test]
fn a_larger_decrease_costs_throughput_where_the_buffer_is_short() {
    let mbps = |kept: &str| {
        let set = ["b.buffer_bdp=0.2", &format!("param.decrease={kept}")];
        simulate(&set, &Choice::default()).flows[0].throughput_mbps.unwrap()
    };
    let (half, most) = (mbps("0.5"), mbps("0.8"));
    assert!(half + 1.0 < most, "{half} {most}");
}

#[test]
fn it_is_a_candidate_of_anole() {
    let choice = Choice { alg: Some("anole".into()), classic: Some("aimd".into()), policy: None };
    let flow = &simulate(&[], &choice).flows[0];
    assert!(flow.throughput_mbps.unwrap() > 0.9 * 20.0, "{flow:?}");
}
