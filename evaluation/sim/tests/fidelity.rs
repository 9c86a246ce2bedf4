//! Laws here against those of Linux, measured: one flow, 48 Mbps, a buffer of 2 BDP, 30 s.
//!
//! | law, link | Linux | Mbps | RTT mean / p95, ms |
//! |---|---|---|---|
//! | CUBIC, 25 ms one-way | 6.18 over Mahimahi | 46.9 | 127 / 148 |
//! | CUBIC, 25 ms, 0.1 % loss | 6.18 over Mahimahi | 11.8 (9 to 13 over seeds) | not compared |
//! | CUBIC, 50 ms | 6.18 over Mahimahi | 45.7 | 252 / 297 |
//! | Reno, 25 ms | 6.18, emulated | 47.58 | 111.7 / 139.5 |
//! | Reno, 50 ms | 6.18, emulated | 46.97 | 179.3 / not compared |
//! | BBR, 25 ms | 6.1, virtual time | 45.58 | 55.1 / 62.9 |
//! | BBR, 50 ms | 6.1, virtual time | 44.76 | 112.7 / 127.5 |
//! | Vegas, 25 ms | 6.1, virtual time | 46.74 | 60.3 / 85.5 |
//!
//! *Emulated*: `anole-eval emulate FILE --datapath kernel --alg linux:reno`, two runs; `linux:cubic` has 47.59 Mbps and 127, 148 ms
//! there. *Virtual time*: Debian's kernel 6.1.192 in a virtual machine whose clock counts instructions (`qemu-system-x86_64 -accel
//! tcg -icount shift=1,sleep=off -smp 1`), so that no load of the host shows: BBR takes ACKs that come late and together for
//! bandwidth, and has 71 to 90 ms in emulation on a busy host. Three namespaces joined by veth with `gso_max_segs 1`; on the way
//! there `tc qdisc add … netem rate 48mbit limit 400` (800 with 50 ms), on the way back `netem delay 50ms` (100);
//! `iperf3 -C NAME -t 30 -i 0.1`, whose bytes received count 1500 for 1448, and whose RTTs are TCP's smoothed ones every 0.1 s.
//! CUBIC has 47.2 Mbps and 128, 150 ms there (50 ms: 46.7; 251, 299), Reno 47.2 and 112 (46.7; 177).
//!
//! CUBIC under loss has 10.9 ± 0.6 Mbps there (ten runs; `netem loss 0.1%`), here 12.4: Linux keeps the α of its estimate of
//! Reno, which RFC 9438 §4.3 raises to 1 at the window before the loss; without that it is 11.5.
//!
//! Reno's percentile at 50 ms is that of the overflow of slow start, whose repair takes a twentieth of the run here, and a little
//! more in Linux. Vegas at 50 ms leaves slow start with a queue that hangs on a packet more or less: 157 ms in Linux, 139 here
//! without the jitter of ACKs and 232 with it.
//!
//! Wanted: within 10 % of the throughput and, without loss, of the delays.

use anole_model::Dur;
use anole_sim::plan::{Choice, plan};
use anole_sim::result::FlowResult;
use anole_sim::scenario::Scenario;
use anole_sim::{AgentScript, run};

/// What may be off.
const TOLERANCE: f64 = 0.1;
/// Noise of real hosts, without which a queue-keeping law may lock in with the link's packets.
const JITTER: Dur = Dur::from_micros(200);

fn flow(alg: &str, delay_ms: f64, loss: f64, seed: u64) -> FlowResult {
    let link = format!("one_way_delay_ms = {delay_ms}\nbuffer_bdp = 2.0\nrandom_loss = {loss}");
    alone(alg, "duration_s = 30.0", &link, seed)
}

/// A flow over a link of 48 Mbps, with keys of the scenario and of the link.
fn alone(alg: &str, keys: &str, link: &str, seed: u64) -> FlowResult {
    let text = format!(
        "name = \"fidelity\"\n{keys}\n[[link]]\nname = \"b\"\ncapacity_mbps = 48.0\n{link}\n[[flow]]\nalg = \"{alg}\"\n\
         ack_jitter_us = {}\n",
        JITTER.as_micros() as f64
    );
    let scenario = Scenario::parse(&text, "fidelity", &[], &mut |_| Err(String::new())).unwrap();
    let plans = plan(&scenario, &Choice::default(), &anole_sim::plan::shipped(), seed).unwrap();
    run(&scenario, plans, seed, AgentScript::default(), &mut |_| ()).flows.remove(0)
}

fn assert_near(what: &str, got: Option<f64>, wanted: f64) {
    let got = got.unwrap();
    assert!((got - wanted).abs() <= TOLERANCE * wanted, "{what}: {got} where Linux has {wanted}");
}

/// A clean link, and what Linux has there: Mbps, mean RTT and its 95th percentile in ms.
fn assert_clean(alg: &str, delay_ms: f64, mbps: f64, mean_ms: f64, p95_ms: Option<f64>) {
    let flow = flow(alg, delay_ms, 0.0, 1);
    assert_near(&format!("{alg}, {delay_ms} ms: throughput"), flow.throughput_mbps, mbps);
    assert_near(&format!("{alg}, {delay_ms} ms: mean RTT"), flow.rtt_mean_ms, mean_ms);
    if let Some(p95_ms) = p95_ms {
        let what = format!("{alg}, {delay_ms} ms: 95th percentile of the RTT");
        assert_near(&what, flow.rtt_p95_ms, p95_ms);
    }
}

/// The datapath's own, and the fold program with its agent.
#[test]
fn cubic_on_a_clean_link_is_like_linux() {
    for alg in ["native", "cubic"] {
        assert_clean(alg, 25.0, 46.9, 127.0, Some(148.0));
        assert_clean(alg, 50.0, 45.7, 252.0, Some(297.0));
    }
}

#[test]
fn cubic_under_random_loss_is_like_linux() {
    for alg in ["native", "cubic"] {
        let sum: f64 = (1..=40).map(|seed| flow(alg, 25.0, 0.001, seed).throughput_mbps.unwrap()).sum();
        assert_near(&format!("{alg}: mean throughput"), Some(sum / 40.0), 11.8);
    }
}

#[test]
fn reno_is_like_linux() {
    assert_clean("reno", 25.0, 47.58, 111.7, Some(139.5));
    assert_clean("reno", 50.0, 46.97, 179.3, None);
}

/// The end of slow start is told in time although it is the agent's: with reports once a round trip it comes a round late, and twice
/// as much is lost.
#[test]
fn the_program_cubic_overshoots_no_more_than_the_law() {
    let lost = |alg| {
        let link = "one_way_delay_ms = 25.0\nbuffer_bdp = 1.0";
        let rate = |seed| alone(alg, "duration_s = 3.0", link, seed).loss_rate.unwrap();
        (1..=10).map(rate).sum::<f64>() / 10.0
    };
    let (program, law) = (lost("cubic"), lost("native"));
    assert!(program < 1.5 * law, "lost in the first 3 s: {program} and {law}");
}

/// A window that swings between W/2 and W BDP, W = 1 + the buffer, growing evenly per round trip: what it sends in a swing, over
/// what the link could.
fn share_of_one_halving(buffer_bdp: f64) -> f64 {
    let top = 1.0 + buffer_bdp;
    3.0 / 8.0 * top * top / (1.0 - top / 2.0 + (top * top - 1.0) / 2.0)
}

/// Halved twice for one overflow, the window would leave a quarter, and 0.67, 0.75, 0.83 and 0.94 of the link.
#[test]
fn reno_halves_once_for_an_overflow() {
    for buffer_bdp in [0.1, 0.25, 0.5, 1.0] {
        let link = format!("one_way_delay_ms = 25.0\nbuffer_bdp = {buffer_bdp}");
        let flow = alone("reno", "duration_s = 60.0\nwarmup_s = 20.0", &link, 1);
        let used = flow.throughput_mbps.unwrap() / 48.0;
        let share = share_of_one_halving(buffer_bdp);
        assert!((used - share).abs() < 0.02, "{buffer_bdp} BDP: {used}, expected {share}");
    }
}

#[test]
fn bbr_is_like_linux() {
    assert_clean("bbr", 25.0, 45.58, 55.1, Some(62.9));
    assert_clean("bbr", 50.0, 44.76, 112.7, Some(127.5));
}

#[test]
fn vegas_is_like_linux() {
    assert_clean("vegas", 25.0, 46.74, 60.3, Some(85.5));
}
