//! A flow that has a link for itself keeps next to no queue, on thin links and on others, and leaves no capacity unused.

use anole_model::Time;
use anole_sim::AgentScript;
use anole_sim::plan::{Choice, plan, shipped};
use anole_sim::scenario::Scenario;

/// The utilisation and the mean queue, as a share of the round-trip time without one, of Anole on a link of this
/// capacity, Mbps, delay, ms one way, and buffer, packets.
fn run(mbps: f64, ms: f64, buffer: u32) -> (f64, f64) {
    let text = format!(
        "name = \"alone\"\nduration_s = 30.0\nwarmup_s = 5.0\n[[link]]\nname = \"bottleneck\"\ncapacity_mbps = {mbps}\n\
         one_way_delay_ms = {ms}\nbuffer_packets = {buffer}\n[[flow]]\nalg = \"anole\"\nack_jitter_us = 100.0\n\
         under_test = true\n"
    );
    let scenario = Scenario::parse(&text, "alone", &[], &mut |_| Err(String::new())).unwrap();
    let plans = plan(&scenario, &Choice::default(), &shipped(), 1).unwrap();
    let run = anole_sim::run(&scenario, plans, 1, AgentScript::default(), &mut |_: Time| ());
    let link = &run.links[0];
    let packet_ms = 1500.0 * 8.0 / (mbps * 1e3);
    (link.utilization.unwrap(), link.queue_delay_mean_ms.unwrap() / (2.0 * ms + packet_ms))
}

#[test]
fn a_link_of_ones_own_is_full_and_its_queue_short() {
    for (mbps, ms, buffer, most) in
        [(25.0, 5.5, 34, 0.12), (10.0, 10.0, 60, 0.12), (2.0, 5.0, 10, 0.3), (1.1, 3.5, 3, 0.35)]
    {
        let (used, queue) = run(mbps, ms, buffer);
        println!("{mbps} Mbps, {ms} ms: used {used:.3}, queue {queue:.3} of the round-trip time");
        assert!(used > 0.95 && queue < most, "{mbps} Mbps, {ms} ms: used {used}, queue {queue}");
    }
}
