//! Short flows on an empty link: a paced start is hardly slower than CUBIC's, which is not paced.

use anole_model::Time;
use anole_sim::AgentScript;
use anole_sim::plan::{Choice, plan, shipped};
use anole_sim::scenario::{self, Scenario};

/// The time until this many bytes have arrived over 48 Mbps and 50 ms, s.
fn completion_s(alg: &str, bytes: u32) -> f64 {
    let (name, set) = ("anole-normal", [format!("flow.bytes={bytes}")]);
    let text = scenario::shipped(name).unwrap();
    let scenario = Scenario::parse(text, name, &set, &mut |_| Err(String::new())).unwrap();
    let choice = Choice { alg: Some(alg.to_string()), ..Choice::default() };
    let plans = plan(&scenario, &choice, &shipped(), 1).unwrap();
    let run = anole_sim::run(&scenario, plans, 1, AgentScript::default(), &mut |_: Time| ());
    run.flows[0].fct_s.unwrap()
}

#[test]
fn a_short_flow_takes_a_tenth_longer_than_cubics_at_most() {
    for bytes in [50_000, 200_000, 1_000_000] {
        let (anole, cubic) = (completion_s("anole", bytes), completion_s("cubic", bytes));
        println!("{bytes} bytes: {anole:.3} s, CUBIC {cubic:.3} s");
        assert!(anole < 1.1 * cubic, "{bytes} bytes: {anole} s, CUBIC {cubic} s");
    }
}
