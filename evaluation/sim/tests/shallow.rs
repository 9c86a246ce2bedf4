//! A few flows over a buffer that holds a hundredth of what the path does: losses are all that tells of the others.

use anole_sim::plan::{Choice, plan, shipped};
use anole_sim::scenario::Scenario;
use anole_sim::{AgentScript, run};

/// While losses of one event are still found the window does not grow: else it ends at a multiple of what the path carries,
/// and most of what is sent is lost.
#[test]
fn anole_does_not_send_a_multiple_of_the_capacity() {
    for (queue, mbps, one_way_ms, bdp, flows) in
        [("pie", 51.7, 21.7, 0.012, 4), ("codel", 70.2, 43.9, 0.016, 9), ("droptail", 53.6, 9.76, 0.027, 8)]
    {
        let text = format!(
            "name = \"shallow\"\nduration_s = 20.0\nwarmup_s = 10.0\n[[link]]\nname = \"b\"\n\
             capacity_mbps = {mbps:?}\none_way_delay_ms = {one_way_ms:?}\nbuffer_bdp = {bdp:?}\n\
             queue = \"{queue}\"\n[[flow]]\nalg = \"anole\"\ncount = {flows}\nstart_spacing_s = 0.5\n\
             ack_jitter_us = 200.0\n"
        );
        let scenario = Scenario::parse(&text, "shallow", &[], &mut |_| Err(String::new())).unwrap();
        for seed in 1..=3 {
            let plans = plan(&scenario, &Choice::default(), &shipped(), seed).unwrap();
            let result = run(&scenario, plans, seed, AgentScript::default(), &mut |_| ());
            let lost = result.links[0].loss_rate.unwrap();
            eprintln!("{queue}, seed {seed}: {lost}");
            assert!(lost < 0.15, "{queue}, seed {seed}: {lost}");
        }
    }
}
