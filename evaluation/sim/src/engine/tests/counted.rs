//! What counts: from the end of the warm-up on, to the ends of flows and of the run.

use super::*;

/// Ten packets leave at time 0; the queue has room for four beside the one that is being sent.
#[test]
fn what_a_flow_sends_as_the_warm_up_ends_counts() {
    for start_s in [0.0, 2.0] {
        let mut scenario = scenario(10.0, "", &format!("bytes = 14480\nstart_s = {start_s}"), "");
        scenario.links[0].buffer_bytes = 6000;
        scenario.warmup = Dur::from_secs_f64(start_s);
        let run = native(&scenario);
        let flow = &run.flows[0];
        assert!(flow.fct_s.is_some());
        for rate in [flow.loss_rate, run.links[0].loss_rate, flow.retransmit_rate] {
            assert_eq!(rate, Some(5.0 / 15.0), "{flow:?}");
        }
    }
}

#[test]
fn a_change_at_the_start_of_a_flow_is_there_for_its_first_packet() {
    let change = "[[change]]\nat_s = 1.0\nbuffer_bytes = 6000";
    let run = native(&scenario(10.0, "", "bytes = 14480\nstart_s = 1.0", change));
    assert_eq!(run.flows[0].loss_rate, Some(5.0 / 15.0));
}

/// The flow ends with its packets on their way, and the link loses every one of them.
#[test]
fn a_flow_that_ended_in_the_warm_up_has_no_figures() {
    let mut scenario = scenario(5.0, "", "stop_s = 1.0", "[[change]]\nat_s = 1.0\nrandom_loss = 1.0");
    scenario.warmup = Dur::from_secs_f64(3.0);
    let run = native(&scenario);
    let flow = &run.flows[0];
    assert_eq!((flow.loss_rate, flow.retransmit_rate, flow.throughput_mbps), (None, None, None));
}

#[test]
fn flows_that_are_active_together_in_the_warm_up_alone_have_no_fairness() {
    let other = "[[flow]]\nalg = \"native\"\nstart_s = 0.5";
    let mut scenario = scenario(10.0, "", "stop_s = 2.0", other);
    scenario.warmup = Dur::from_secs_f64(5.0);
    assert_eq!(native(&scenario).jain_index, None);
    scenario.warmup = Dur::from_secs_f64(1.0);
    assert!(native(&scenario).jain_index.is_some());
}
