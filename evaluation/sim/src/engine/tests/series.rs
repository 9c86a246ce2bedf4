//! Flows and links over time; algorithms that are in no registry; runs that are ended early.

use super::*;
use crate::plan::{Custom, plan_custom, shipped};
use anole_algorithms::{Algorithm, Commands, FlowInfo, Report};
use anole_programs::Program;
use anole_programs::rate_hold::{self, control};
use std::sync::Mutex;

const LINK: &str = "
name = \"series\"
duration_s = 10.05
warmup_s = 1.0
[[link]]
name = \"b\"
capacity_mbps = 12.0
one_way_delay_ms = 20.0
buffer_bdp = 1.0
[[flow]]
alg = \"cubic\"
under_test = true
stop_s = 8.0
";

fn scenario() -> Scenario {
    Scenario::parse(LINK, "series.toml", &[], &mut |_| Err(String::new())).unwrap()
}

#[test]
fn a_sawtooth_is_seen_with_its_queue_and_losses() {
    let scenario = scenario();
    let plans = plan(&scenario, &Choice::default(), &shipped(), 1).unwrap();
    let run = run(&scenario, plans, 1, AgentScript::default(), &mut |_| ());
    let series = &run.flows[0].series;
    let link = run.links[0].series.as_ref().unwrap();
    let (cwnd, in_flight) = (series.cwnd_bytes.as_ref().unwrap(), series.in_flight_bytes.as_ref().unwrap());
    let lost = series.lost_packets.as_ref().unwrap();
    for length in [series.rtt_ms.len(), cwnd.len(), in_flight.len(), lost.len(), link.queue_bytes.len()] {
        assert_eq!(length, 101);
    }
    assert!(cwnd[..79].iter().all(Option::is_some) && cwnd[80..].iter().all(Option::is_none));
    assert!(in_flight.iter().zip(cwnd).all(|(bytes, cwnd)| cwnd.is_some() || *bytes == 0));
    // Where the window falls by a third there was a loss, and the queue was full.
    let falls = |at: &usize| cwnd[at - 1].zip(cwnd[*at]).is_some_and(|(before, now)| 10 * now < 8 * before);
    let falls: Vec<usize> = (1..79).filter(falls).collect();
    assert!(falls.len() >= 2, "{cwnd:?}");
    assert!(falls.iter().all(|&at| lost[at - 1..=at].iter().sum::<u64>() > 0), "{falls:?} {lost:?}");
    assert!(*link.queue_bytes.iter().max().unwrap() > 55_000, "{link:?}");
    assert_eq!(lost.iter().sum::<u64>(), link.lost_packets.iter().sum::<u64>());
    assert!(link.capacity_mbps[..100].iter().all(|mbps| (mbps - 12.0).abs() < 1e-6), "{link:?}");
}

/// No flow runs yet that would move time on at the link.
#[test]
fn cross_traffic_is_seen_from_the_start() {
    let text = LINK.replace("[[flow]]", "[[link.cross]]\nmbps = 24.0\n[[flow]]\nstart_s = 5.0");
    let link = &native(&parse(&text)).links[0];
    let series = link.series.as_ref().unwrap();
    // 1000 packets of 1500 bytes a second that find no room, once 60 000 bytes wait.
    for second in 1..4 {
        let lost: u64 = series.lost_packets[10 * second..10 * second + 10].iter().sum();
        assert!((990..=1010).contains(&lost), "{second} s: {lost}");
    }
    assert!(series.queue_bytes[10..40].iter().all(|bytes| *bytes > 55_000), "{:?}", series.queue_bytes);
}

/// A window that stays, over a program that is not shipped under this address.
struct Fixed(&'static Program, u32);

impl Algorithm for Fixed {
    fn start(&mut self, _: Time, out: &mut Commands) {
        out.run(self.0).cwnd(self.1);
    }
    fn on_report(&mut self, _: Time, _: &Report<'_>, out: &mut Commands) {
        out.cwnd(self.1);
    }
}

#[test]
fn an_algorithm_of_ones_own_runs_with_a_program_of_its_own() {
    let shipped_one = &anole_programs::rate_hold::PROGRAM;
    let program: &'static Program = Box::leak(Box::new(Program { name: "mine", ..*shipped_one }));
    let make = move |_: FlowInfo, _: u64| Box::new(Fixed(program, 14_480)) as Box<dyn Algorithm>;
    let custom = Custom { name: "fixed".to_string(), programs: vec![program], make: Arc::new(make) };
    let scenario = scenario();
    let plans = plan_custom(&scenario, &custom, &shipped(), 1).unwrap();
    let run = run(&scenario, plans, 1, AgentScript::default(), &mut |_| ());
    let flow = &run.flows[0];
    assert_eq!((run.alg.as_str(), flow.alg.as_str()), ("fixed", "fixed"));
    assert!(flow.series.cwnd_bytes.as_ref().unwrap()[1..79].iter().all(|cwnd| *cwnd == Some(14_480)));
    // Ten packets of 1500 bytes in each 41 ms.
    assert!((flow.throughput_mbps.unwrap() - 2.9).abs() < 0.1, "{:?}", flow.throughput_mbps);
    let given = Scenario { params: [("beta".to_string(), 0.5)].into(), ..scenario };
    let refused = plan_custom(&given, &custom, &shipped(), 1).unwrap_err().to_string();
    assert!(refused.starts_with("param.beta: fixed takes no"), "{refused}");
}

#[test]
fn a_run_can_be_ended() {
    let scenario = scenario();
    let plans = plan(&scenario, &Choice::default(), &shipped(), 1).unwrap();
    let mut told = 0;
    let ended = run_while(&scenario, plans.clone(), 1, &mut |at| {
        told += 1;
        if at > Time::from_secs_f64(1.0) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(ended.is_none() && told < 15, "{told}");
    let whole = run_while(&scenario, plans.clone(), 1, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(whole, run(&scenario, plans, 1, AgentScript::default(), &mut |_| ()));
}

/// Tells how long each report took, us, and what was lost in it.
struct Told(u32, Arc<Mutex<Vec<(u64, u64)>>>);

impl Algorithm for Told {
    fn start(&mut self, _: Time, out: &mut Commands) {
        let once_a_second = out.run(&rate_hold::PROGRAM).cwnd(14_480).set(control::INTERVAL_US, 1_000_000);
        once_a_second.set(control::REPORT_LOSS, self.0);
    }
    fn on_report(&mut self, _: Time, report: &Report<'_>, out: &mut Commands) {
        out.cwnd(14_480);
        let seen = rate_hold::Report::read(report.values).unwrap();
        // A timeout is reported at once too.
        let elapsed_us = if seen.timeout > 0 { u64::MAX } else { seen.elapsed_us };
        self.1.lock().unwrap().push((elapsed_us, seen.lost));
    }
}

#[test]
fn rate_hold_reports_a_loss_at_once_but_not_twice_in_a_row() {
    let lossy = LINK.replace("buffer_bdp = 1.0", "buffer_bdp = 1.0\nrandom_loss = 0.01");
    let scenario = Scenario::parse(&lossy, "lossy.toml", &[], &mut |_| Err(String::new())).unwrap();
    let reports = |report_loss| {
        let told = Arc::new(Mutex::new(Vec::new()));
        let (told_to, programs) = (told.clone(), vec![&rate_hold::PROGRAM]);
        let make =
            move |_: FlowInfo, _: u64| Box::new(Told(report_loss, told_to.clone())) as Box<dyn Algorithm>;
        let custom = Custom { name: "told".to_string(), programs, make: Arc::new(make) };
        let plans = plan_custom(&scenario, &custom, &shipped(), 1).unwrap();
        run(&scenario, plans, 1, AgentScript::default(), &mut |_| ());
        told.lock().unwrap().clone()
    };
    let early = |reports: &[(u64, u64)]| reports.iter().map(|(us, _)| *us < 1_000_000).collect::<Vec<_>>();
    let told = reports(0);
    assert!(told.iter().any(|(_, lost)| *lost > 1) && !early(&told).contains(&true), "{told:?}");
    let told = reports(1);
    assert!(told.iter().all(|(us, lost)| *us >= 1_000_000 || *lost > 0), "{told:?}");
    assert!(
        early(&told).windows(2).all(|two| two != [true, true]) && early(&told).contains(&true),
        "{told:?}"
    );
}
