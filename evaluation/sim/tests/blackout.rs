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

/// Throughput of the last 20 s over 20 Mbps, after a path of 43 ms has become one of `after_ms` and failed for half a second.
fn after_a_longer_path(alg: &str, after_ms: u32) -> f64 {
    let text = format!(
        "name = \"longer\"\nduration_s = 50.0\nwarmup_s = 30.0\nseed = 636291\n[[link]]\nname = \"b\"\ncapacity_mbps = 20.0\n\
         one_way_delay_ms = 43.0\nbuffer_packets = 360\n[[change]]\nat_s = 10.0\none_way_delay_ms = {after_ms}.0\n\
         [[change]]\nat_s = 12.0\nrandom_loss = 1.0\n[[change]]\nat_s = 12.5\nrandom_loss = 0.0\n\
         [[flow]]\nalg = \"{alg}\"\nack_jitter_us = 200.0\n"
    );
    let scenario = Scenario::parse(&text, "longer", &[], &mut |_| Err(String::new())).unwrap();
    let plans = plan(&scenario, &Choice::default(), &anole_sim::plan::shipped(), 1).unwrap();
    run(&scenario, plans, 636_291, AgentScript::default(), &mut |_| ()).flows[0].throughput_mbps.unwrap()
}

/// Three packets aim at a queue of 22 ms: a path that became longer by as much looks like it, and a window that is content
/// with it stays for ever.
#[test]
fn a_small_window_does_not_stay_on_a_path_that_became_longer() {
    for alg in ["anole", "track"] {
        for after_ms in [46, 50, 54, 58] {
            let mbps = after_a_longer_path(alg, after_ms);
            println!("{alg}, {after_ms} ms: {mbps:.1} Mbps");
            assert!(mbps > 0.9 * 20.0, "{alg}, {after_ms} ms: {mbps} Mbps");
        }
    }
}
