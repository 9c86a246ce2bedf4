use super::*;
use crate::Settings;

const MSS: u32 = 1448;
const RTT: Dur = Dur::from_millis(40);

fn algorithm(name: &str) -> InProcess {
    InProcess::new(Settings { algorithm: name.to_string(), ..Settings::default() }).unwrap()
}

fn ack(in_flight: u32) -> AckSample {
    AckSample {
        bytes_acked: MSS,
        packets_acked: 1,
        rtt_us: RTT.as_micros(),
        rate_incoming: 2_500_000,
        rate_outgoing: 2_500_000,
        bytes_in_flight: Some(in_flight),
        packets_in_flight: in_flight / MSS,
        bytes_pending: MSS,
        ..AckSample::default()
    }
}

/// An ACK a millisecond until `until`.
fn run(flow: &mut InProcessFlow, from: u64, until: u64) {
    for ms in from..until {
        let in_flight = flow.control().cwnd.saturating_sub(MSS);
        flow.on_ack(Time::ZERO + Dur::from_millis(ms), &ack(in_flight));
    }
}

/// But for those whose policy is not shipped.
fn flow_of_each_algorithm() -> impl Iterator<Item = (&'static str, InProcessFlow)> {
    anole_algorithms::all().iter().filter_map(|spec| {
        let settings = Settings { algorithm: spec.name.to_string(), ..Settings::default() };
        Some((spec.name, InProcess::new(settings).ok()?.start(Time::ZERO, MSS, 10 * MSS)))
    })
}

#[test]
fn every_algorithm_governs_from_the_first_ack() {
    for (name, mut flow) in flow_of_each_algorithm() {
        assert_eq!(flow.control().cwnd, 10 * MSS, "{}", name);
        run(&mut flow, 1, 3000);
        assert_eq!((flow.governor(), flow.stats().fallbacks), (Governor::Agent, 0), "{}", name);
        assert!(flow.metrics().reports > 10, "{}: {:?}", name, flow.metrics());
    }
}

/// At a steady 2.5 MB/s, 100 kB in a round trip.
#[test]
fn a_window_grows_where_the_transport_does_not_tell_what_is_in_flight() {
    let untold = AckSample { bytes_in_flight: None, ..ack(0) };
    for (name, mut flow) in flow_of_each_algorithm() {
        for ms in 1..5000 {
            flow.on_ack(Time::ZERO + Dur::from_millis(ms), &untold);
        }
        let cwnd = flow.control().cwnd;
        // That one holds the window that it began with.
        assert!(cwnd > 20 * MSS || name == "hold", "{}: {cwnd}", name);
        if name.starts_with("bbr") {
            let twice = 200_000..=200_000 + 6 * MSS;
            assert!(
                twice.contains(&cwnd),
                "{}: {cwnd}, twice what fits the path and quanta, without a queue",
                name
            );
        }
    }
}

#[test]
fn a_flow_that_pauses_is_governed_on() {
    let mut flow = algorithm("anole").start(Time::ZERO, MSS, 10 * MSS);
    run(&mut flow, 1, 500);
    run(&mut flow, 10_000, 10_500);
    run(&mut flow, 100_000, 100_500);
    assert_eq!((flow.governor(), flow.stats().fallbacks), (Governor::Agent, 0));
}

#[test]
fn equal_flows_of_equal_settings_do_the_same() {
    let trajectory = || {
        let mut flow = algorithm("anole").start(Time::ZERO, MSS, 10 * MSS);
        let mut controls = Vec::new();
        for ms in 1..2000 {
            controls.push(flow.on_ack(Time::ZERO + Dur::from_millis(ms), &ack(50_000)));
        }
        controls
    };
    assert_eq!(trajectory(), trajectory());
}

#[test]
fn a_session_that_fails_leaves_the_flow_to_cubic_and_begins_anew() {
    struct Fails;
    impl anole_algorithms::Algorithm for Fails {
        fn start(&mut self, _: Time, _: &mut anole_programs::Commands) {}
        fn on_report(&mut self, _: Time, _: &anole_algorithms::Report<'_>, _: &mut anole_programs::Commands) {
            panic!("a fault of the algorithm, on purpose");
        }
    }
    let mut flow = algorithm("cubic").start(Time::ZERO, MSS, 10 * MSS);
    run(&mut flow, 1, 200);
    *flow.session.get_mut().unwrap() = Some(Session::new(Box::new(Fails)));
    run(&mut flow, 200, 600);
    assert!(flow.session.get_mut().unwrap().is_none());
    run(&mut flow, 600, 1500);
    assert_eq!((flow.governor(), flow.stats().fallbacks), (Governor::Agent, 1));
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a figure of time")]
fn what_an_ack_and_a_decision_cost() {
    if !anole_testing::measuring() {
        return;
    }
    for name in ["cubic", "bbr", "anole", "libra-rl"] {
        let mut flow = algorithm(name).start(Time::ZERO, MSS, 10 * MSS);
        let (mut acks, mut decisions) = (Vec::new(), Vec::new());
        for ms in 1..60_000 {
            let (reports, in_flight) = (flow.stats().reports, flow.control().cwnd.saturating_sub(MSS));
            let began = std::time::Instant::now();
            flow.on_ack(Time::ZERO + Dur::from_millis(ms), &ack(in_flight));
            let took = began.elapsed().as_nanos() as f64;
            if flow.stats().reports == reports { &mut acks } else { &mut decisions }.push(took);
        }
        for (what, mut times) in [("ACK without a decision", acks), ("ACK with one", decisions)] {
            times.sort_by(f64::total_cmp);
            anole_testing::figure(
                &format!("{name} in the process: ns, median, {what}"),
                ..,
                times[times.len() / 2],
            );
        }
    }
}

#[test]
fn a_successor_begins_with_the_window() {
    let mut flow = algorithm("anole").start(Time::ZERO, MSS, 10 * MSS);
    run(&mut flow, 1, 500);
    let other = flow.successor();
    assert_eq!(other.control().cwnd, flow.control().cwnd);
    assert_eq!(other.metrics().reports, 0);
}
