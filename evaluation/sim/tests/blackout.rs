//! Timeouts in a row: a link that carries nothing for four seconds.

use anole_sim::plan::{Choice, plan};
use anole_sim::scenario::Scenario;
use anole_sim::{AgentScript, run};

/// Throughput of 40 s over 48 Mbps and 25 ms, Mbps.
fn throughput(alg: &str) -> f64 {
    let text = format!(
        "name = \"blackout\"\nduration_s = 40.0\n[[link]]\nname = \"b\"\ncapacity_mbps = 48.0\n\
         one_way_delay_ms = 25.0\nbuffer_bdp = 2.0\n[[change]]\nat_s = 10.0\nrandom_loss = 1.0\n\
         [[change]]\nat_s = 14.0\nrandom_loss = 0.0\n[[flow]]\nalg = \"{alg}\"\n"
    );
    let scenario = Scenario::parse(&text, "blackout", &[], &mut |_| Err(String::new())).unwrap();
    let plans = plan(&scenario, &Choice::default(), &anole_sim::plan::shipped(), 1).unwrap();
    run(&scenario, plans, 1, AgentScript::default(), &mut |_| ()).flows[0].throughput_mbps.unwrap()
}

/// The backed-off timers fire at 0.3, 0.9, 2.1 and 4.5 s: half a second of the link is lost to them, and then slow start goes
/// up to the threshold of the first one (RFC 5681 §3.1), not to two segments.
#[test]
fn the_window_of_before_is_found_again_by_slow_start() {
    let native = throughput("native");
    for alg in ["reno", "vegas", "cubic"] {
        let mbps = throughput(alg);
        assert!(mbps > 0.98 * native, "{alg}: {mbps} Mbps where the datapath's CUBIC has {native}");
    }
}
