//! Algorithms that a policy drives, with broken policies over a path that fails for three seconds: every
//! flow comes back, and where no answer is usable the rule fills the link.

use anole_algorithms::learned::FaultKind;
use anole_policies::schema::builtin;
use anole_sim::control::{Controlled, Pilot, PilotAnswer, Question};
use anole_sim::plan::{Choice, plan, shipped};
use anole_sim::scenario::Scenario;
use anole_sim::{AgentScript, run};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
        for kind in FaultKind::ALL {
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
            if matches!(kind, FaultKind::Nan | FaultKind::Absent) {
                assert!(mbps > 0.7 * 20.0, "{what}");
            }
        }
    }
}

/// Always answers with the largest action, and counts.
struct Greedy(Arc<AtomicU64>);

impl Pilot for Greedy {
    fn answer(&mut self, _question: &Question<'_>, outputs: &mut [f32]) -> PilotAnswer {
        self.0.fetch_add(1, Ordering::Relaxed);
        outputs.fill(1.0);
        PilotAnswer::Given
    }
}

#[test]
fn a_policy_in_training_governs_whatever_it_does() {
    let quiet = OUTAGE.replace("random_loss = 1.0", "random_loss = 0.0");
    let scenario = Scenario::parse(&quiet, "greedy", &[], &mut |_| Err(String::new())).unwrap();
    let questions = Arc::new(AtomicU64::new(0));
    let schema = Arc::new(builtin("libra").unwrap().clone());
    let pilot = Box::new(Greedy(Arc::clone(&questions)));
    let run = Controlled::new(&scenario, "libra-rl", &schema, &shipped(), 1, pilot).unwrap();
    let last = run.run()[0];
    // One question per round trip of at most 150 ms, buffer full, in 24 s.
    assert!(questions.load(Ordering::Relaxed) > 24_000 / 150, "{questions:?}");
    assert!(last.loss_rate > 0.2, "{last:?}");
}

/// Jain's index of four flows over the second half of a minute, on 48 Mbps with one bandwidth-delay product of buffer.
fn jain_of_four(alg: &str, rtt_ms: f64) -> f64 {
    let text = format!(
        "name = \"four\"\nduration_s = 60.0\nwarmup_s = 30.0\n[[link]]\nname = \"b\"\ncapacity_mbps = 48.0\n\
         one_way_delay_ms = {}\nbuffer_bdp = 1.0\n[[flow]]\nalg = \"{alg}\"\ncount = 4\nstart_spacing_s = 5.0\n",
        rtt_ms / 2.0
    );
    let scenario = Scenario::parse(&text, "four", &[], &mut |_| Err(String::new())).unwrap();
    let plans = plan(&scenario, &Choice::default(), &shipped(), 1).unwrap();
    let result = run(&scenario, plans, 1, AgentScript::default(), &mut |_| ());
    let shares: Vec<f64> = result.flows.iter().map(|flow| flow.throughput_mbps.unwrap()).collect();
    let sum: f64 = shares.iter().sum();
    sum * sum / (4.0 * shares.iter().map(|share| share * share).sum::<f64>())
}

#[test]
fn four_flows_of_a_shipped_policy_share() {
    for alg in ["libra-rl", "orca", "sage", "spine", "spine-cubic"] {
        for rtt_ms in [20.0, 50.0, 100.0, 200.0] {
            let jain = jain_of_four(alg, rtt_ms);
            println!("{alg}, {rtt_ms} ms: {jain:.3}");
            assert!(jain >= 0.9, "{alg}, {rtt_ms} ms: {jain}");
        }
    }
}

/// The flow over 50 Mbps and what else there is, from `from_s` on: throughput, Mbps, and the share lost.
fn alone(alg: &str, from_s: f64, to_s: f64, link: &str, flow: &str) -> (f64, f64) {
    let text = format!(
        "name = \"alone\"\nduration_s = {to_s:?}\nwarmup_s = {from_s:?}\n[[link]]\nname = \"b\"\ncapacity_mbps = 50.0\n{link}\n\
         [[flow]]\nalg = \"{alg}\"\nack_jitter_us = 200\n{flow}\n"
    );
    let scenario = Scenario::parse(&text, "alone", &[], &mut |_| Err(String::new())).unwrap();
    let plans = plan(&scenario, &Choice::default(), &shipped(), 1).unwrap();
    let result = run(&scenario, plans, 1, AgentScript::default(), &mut |_| ());
    let flow = &result.flows[0];
    println!("{alg}: {:.1} Mbps, {:.4} lost", flow.throughput_mbps.unwrap(), flow.loss_rate.unwrap());
    (flow.throughput_mbps.unwrap(), flow.loss_rate.unwrap())
}

/// An application that is limited for 20 s and then is not: what it left unused of the window is no bandwidth.
#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let link = "one_way_delay_ms = 25\nbuffer_bdp = 1.0";
    for alg in ["orca", "antelope"] {
        let (mbps, loss) = alone(alg, 20.0, 26.0, link, "app_mbps = 10\napp_until_s = 20");
        assert!(mbps > 40.0 && loss < 0.05, "{alg}: {mbps} {loss}");
    }
    // The same after a loss, on 8 Mbps that become 50: the clock of CUBIC stands still.
    let link = "one_way_delay_ms = 25\nbuffer_packets = 200\n[[change]]\nat_s = 0.01\ncapacity_mbps = 8\n\
                [[change]]\nat_s = 8\ncapacity_mbps = 50";
    let (mbps, loss) = alone("spine-cubic", 25.0, 27.0, link, "app_mbps = 10\napp_until_s = 25");
    assert!(mbps > 10.0 && loss == 0.0, "{mbps} {loss}");
}

/// Round-trip time from 20 to 120 ms: the smallest one of the flow is none of the path's any more.
#[test]
fn a_path_that_becomes_longer_is_used() {
    let link = "one_way_delay_ms = 10\nbuffer_bdp = 4\n[[change]]\nat_s = 15\none_way_delay_ms = 60";
    let (mbps, _) = alone("sage", 30.0, 40.0, link, "");
    assert!(mbps > 25.0, "{mbps} Mbps");
}

/// Two seconds without capacity; the ten seconds after them count.
#[test]
fn the_round_trip_time_of_an_outage_holds_nobody() {
    let link = "one_way_delay_ms = 25\nbuffer_bdp = 1\n[[change]]\nat_s = 15\ncapacity_mbps = 0.001\n\
                [[change]]\nat_s = 17\ncapacity_mbps = 50";
    let outages =
        [("libra-rl", 26.0), ("spine", 27.5), ("sage", 41.0), ("spine-cubic", 23.0), ("antelope", 35.0)];
    for (alg, least) in outages {
        let (mbps, _) = alone(alg, 17.0, 27.0, link, "");
        assert!(mbps > least, "{alg}: {mbps} Mbps");
    }
}
