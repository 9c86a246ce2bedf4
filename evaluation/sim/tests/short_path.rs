//! A path whose round-trip time is shorter than any that a cycle of Anole's can have, and a buffer of a few packets.

use anole_sim::plan::{Choice, plan, shipped};
use anole_sim::scenario::Scenario;
use anole_sim::{AgentScript, run};

/// What overflows such a buffer is congestion: taken for the path's own loss, it would have to be proved by an all but
/// empty window, again and again, each of which lasts for hundreds of these round trips.
#[test]
fn anole_uses_a_path_of_less_than_a_millisecond() {
    for buffer_bytes in [1514, 3028, 6056] {
        let text = format!(
            "name = \"short\"\nduration_s = 6.0\n[[link]]\nname = \"b\"\ncapacity_mbps = 64.8\n\
             one_way_delay_ms = 0.38\nbuffer_bytes = {buffer_bytes}\n[[flow]]\nalg = \"anole\"\n"
        );
        let scenario = Scenario::parse(&text, "short", &[], &mut |_| Err(String::new())).unwrap();
        let plans = plan(&scenario, &Choice::default(), &shipped(), 1).unwrap();
        let result = run(&scenario, plans, 1, AgentScript::default(), &mut |_| ());
        let mbps = result.flows[0].throughput_mbps.unwrap();
        assert!(mbps > 0.9 * 64.8, "{buffer_bytes} bytes: {mbps} Mbps");
    }
}
