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

/// As a drawn start may be: after the flow's stop, or after the end of the run.
#[test]
fn a_flow_that_would_start_after_its_stop_never_runs_and_has_no_part_in_fairness() {
    let others = native(&scenario(5.0, "", "count = 2\nstart_spacing_s = 1.0\nstop_s = 4.0", ""));
    assert!(others.jain_index.is_some() && others.flows[1].ran());
    for start_s in [4.5, 7.0] {
        let mut scenario = scenario(5.0, "", "count = 3\nstart_spacing_s = 1.0\nstop_s = 4.0", "");
        scenario.flows[2].start = seconds(start_s);
        let run = simulate(&scenario, None, 1, AgentScript::never());
        assert_eq!(run.jain_index, others.jain_index);
        let (never, others) = (&run.flows[2], &others.flows[..]);
        assert!(!never.ran() && run.flows[..2] == *others);
        assert_eq!((never.start_s, never.stop_s), (start_s, start_s));
        assert_eq!((never.throughput_mbps, never.loss_rate, never.reports), (None, None, None));
    }
}

/// 400 ms of the path are the flow's own, or the link's: the same to the flow.
#[test]
fn what_is_on_a_flows_own_way_at_the_end_has_not_arrived() {
    let own = native(&scenario(10.0, "", "extra_delay_ms = 400.0", ""));
    let mut of_link = scenario(10.0, "", "", "");
    of_link.links[0].one_way_delay = Dur::from_millis(425);
    let of_link = native(&of_link);
    let (own, of_link) = (&own.flows[0], &of_link.flows[0]);
    assert_eq!((own.throughput_mbps, own.rtt_mean_ms), (of_link.throughput_mbps, of_link.rtt_mean_ms));
    assert_eq!(own.series, of_link.series);
    // Its last packet is through the link before the end of the run, and at the receiver after it.
    let late = native(&scenario(0.4, "", "extra_delay_ms = 400.0\nbytes = 14480", ""));
    assert_eq!((late.flows[0].fct_s, late.flows[0].stop_s), (None, 0.4));
}

#[test]
fn the_series_of_a_capacity_goes_on_through_the_end_of_the_warm_up() {
    let mut scenario = scenario(2.0, "", "", "");
    scenario.warmup = Dur::from_secs_f64(1.05);
    let run = native(&scenario);
    let capacity = &run.links[0].series.as_ref().unwrap().capacity_mbps;
    assert!(capacity.iter().all(|mbps| (mbps - 48.0).abs() < 1e-6), "{capacity:?}");
    assert_eq!(run.optimal_mbps, Some(48.0));
}
