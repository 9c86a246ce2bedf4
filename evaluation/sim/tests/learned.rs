//! Algorithms that a policy drives, with broken policies over a path that fails for three seconds: every
//! flow comes back, and where no answer is usable the rule fills the link.

use anole_algorithms::policy::Kind;
use anole_sim::plan::{Choice, plan, shipped};
use anole_sim::scenario::Scenario;
use anole_sim::{AgentScript, run};

/// Results count from 14 s on, three seconds after the path is back.
const OUTAGE: &str = "
name = \"outage\"
duration_s = 24.0
warmup_s = 14.0
[[link]]
name = \"b\"
capacity_mbps = 20.0
one_way_delay_ms = 25.0
buffer_bdp = 2.0
[[change]]
at_s = 8.0
link = \"b\"
random_loss = 1.0
[[change]]
at_s = 11.0
link = \"b\"
random_loss = 0.0
[[flow]]
alg = \"cubic\"
under_test = true
";

#[test]
fn every_flow_comes_back_after_an_outage() {
    let scenario = Scenario::parse(OUTAGE, "outage", &[], &mut |_| Err(String::new())).unwrap();
    for alg in ["libra-rl", "orca", "sage", "spine"] {
        for kind in Kind::ALL {
            let choice = Choice {
                alg: Some(alg.to_string()),
                policy: Some(kind.name().to_string()),
                ..Choice::default()
            };
            let plans = plan(&scenario, &choice, &shipped(), 1).unwrap();
            let result = run(&scenario, plans, 1, AgentScript::default(), &mut |_| ());
            let flow = &result.flows[0];
            let (mbps, loss) = (flow.throughput_mbps.unwrap(), flow.loss_rate.unwrap());
            let what =
                format!("{alg} with {}: {mbps:.2} Mbps, {loss:.4} lost, {:?}", kind.name(), flow.applied);
            println!("{what}");
            // Two packets in 50 ms.
            assert!(mbps > 0.4, "{what}");
            assert!(loss < 0.2, "{what}");
            if matches!(kind, Kind::Nan | Kind::Absent) {
                assert!(mbps > 0.7 * 20.0, "{what}");
            }
        }
    }
}
