//! Flows that are ECN-capable through queues that mark: under the datapath's law, and under algorithms whose fold programs
//! read no ECN and are told marks as losses.

use anole_sim::plan::{Choice, plan};
use anole_sim::result::RunResult;
use anole_sim::scenario::Scenario;
use anole_sim::{AgentScript, run};

/// A flow of `alg` for 30 s over 48 Mbps and 25 ms.
fn flow(alg: &str, queue: &str, ecn: bool) -> RunResult {
    let text = format!(
        "name = \"ecn\"\nduration_s = 30.0\nwarmup_s = 5.0\n[[link]]\nname = \"b\"\ncapacity_mbps = 48.0\n\
         one_way_delay_ms = 25.0\nbuffer_bdp = 2.0\nqueue = \"{queue}\"\n[[flow]]\nalg = \"{alg}\"\necn = {ecn}\n"
    );
    let scenario = Scenario::parse(&text, "ecn", &[], &mut |_| Err(String::new())).unwrap();
    let plans = plan(&scenario, &Choice::default(), &anole_sim::plan::shipped(), 1).unwrap();
    run(&scenario, plans, 1, AgentScript::default(), &mut |_| ())
}

#[test]
fn marks_slow_a_flow_as_losses_do_and_nothing_is_lost() {
    for alg in ["native", "cubic", "anole"] {
        for queue in ["codel", "fq_codel", "pie", "red"] {
            let [lossy, marked] = [false, true].map(|ecn| flow(alg, queue, ecn));
            let delay = |run: &RunResult| run.links[0].queue_delay_mean_ms.unwrap();
            let rate = |run: &RunResult| run.flows[0].throughput_mbps.unwrap();
            // Anole's queue stays below where PIE and RED begin.
            assert!(alg == "anole" || lossy.links[0].loss_rate.unwrap() > 0.0, "{alg}, {queue}");
            assert_eq!(marked.links[0].loss_rate, Some(0.0), "{alg}, {queue}");
            assert!(delay(&marked) < 1.5 * delay(&lossy) + 2.0, "{alg}, {queue}: {} ms", delay(&marked));
            assert!(rate(&marked) > 0.9 * rate(&lossy), "{alg}, {queue}: {} Mbps", rate(&marked));
        }
    }
}

#[test]
fn a_tail_drop_queue_marks_nothing() {
    assert_eq!(flow("native", "droptail", true).flows, flow("native", "droptail", false).flows);
}
