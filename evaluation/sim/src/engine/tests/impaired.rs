//! Slow applications, cross traffic, reordering, slow reverse paths.

use super::*;

#[test]
fn an_application_limits_its_flow_until_it_does_not() {
    let limited = simulate(
        &scenario(10.0, "", "app_mbps = 8.0\napp_until_s = 5.0", ""),
        Some("cubic"),
        1,
        AgentScript::default(),
    );
    let series = &limited.flows[0].series.throughput_mbps;
    let mean = |from: usize, to: usize| series[from..to].iter().sum::<f64>() / (to - from) as f64;
    // 8 Mbps of payload are 8.3 on the wire.
    assert!((8.0..8.6).contains(&mean(10, 45)), "{}", mean(10, 45));
    assert!(mean(80, 100) > 40.0, "{}", mean(80, 100));
}

/// 8 kbps: a full packet every 1.448 s, and 552 bytes more 0.552 s later.
#[test]
fn the_last_packet_of_an_application_waits_for_what_it_holds() {
    let run = native(&scenario(10.0, "", "app_mbps = 0.008\nbytes = 2000", ""));
    let delay = run.flows[0].app_delay.unwrap();
    // 25 ms, and 0.25 ms or less for the transmission.
    assert!((25.1..25.3).contains(&delay.mean_ms), "{delay:?}");
}

#[test]
fn cross_traffic_takes_its_share_and_no_more() {
    let link = "[[link.cross]]\nmbps = 28.0\nstart_s = 4.0\nstop_s = 8.0";
    let run = simulate(&scenario(10.0, link, "", ""), Some("cubic"), 1, AgentScript::default());
    let series = &run.flows[0].series.throughput_mbps;
    let mean = |from: usize, to: usize| series[from..to].iter().sum::<f64>() / (to - from) as f64;
    assert!(mean(20, 40) > 44.0 && (15.0..22.0).contains(&mean(60, 80)), "{} {}", mean(20, 40), mean(60, 80));
}

#[test]
fn reordering_and_a_slow_reverse_path_lose_nothing() {
    for keys in
        ["reorder = { share = 0.05, by_ms = 10.0 }", "ack_capacity_mbps = 0.1\nack_buffer_packets = 10"]
    {
        let run =
            simulate(&scenario(10.0, keys, "bytes = 1000000", ""), Some("cubic"), 1, AgentScript::default());
        assert!(run.flows[0].fct_s.is_some(), "{keys}: {:?}", run.flows[0].throughput_mbps);
    }
}
