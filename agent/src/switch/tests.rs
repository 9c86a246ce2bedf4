use super::*;
use crate::plan::Wish;
use crate::prior::Priors;
use anole_algorithms::learned::Shipped;
use std::collections::BTreeMap;
use std::sync::Arc;

fn plan(alg: &str, params: &[(&str, f64)]) -> Plan {
    let params: BTreeMap<String, f64> =
        params.iter().map(|&(name, value)| (name.to_string(), value)).collect();
    let wish = Wish { alg: alg.to_string(), params, seed: 1, ..Wish::default() };
    Plan::new(anole_algorithms::all(), wish, Arc::new(Shipped)).unwrap()
}

fn usable_of(alg: &str, params: &[(&str, f64)], available: &str) -> Result<Vec<&'static str>, String> {
    let available: Vec<String> = available.split(' ').map(str::to_string).collect();
    let arms = usable(&plan(alg, params).selector(0, &[]).unwrap(), &available);
    arms.map(|arms| arms.into_iter().map(|arm| ARMS[arm]).collect()).map_err(|error| error.to_string())
}

#[test]
fn what_is_chosen_among_is_what_both_know() {
    assert_eq!(usable_of("antelope", &[], "reno bbr cubic"), Ok(vec!["bbr", "cubic"]));
    assert_eq!(usable_of("antelope", &[], "reno cubic vegas c2tcp"), Ok(vec!["cubic", "vegas"]));
    assert_eq!(usable_of("rein", &[], "cubic vegas westwood"), Ok(vec!["cubic", "westwood"]));
    let refused = usable_of("antelope", &[], "reno cubic").unwrap_err();
    assert!(
        refused.contains("here are: cubic; for the others: modprobe -a tcp_bbr tcp_illinois"),
        "{refused}"
    );
    assert!(!refused.contains("c2tcp"), "{refused}");
    let refused = usable_of("antelope", &[("first", 4.0)], "bbr cubic").unwrap_err();
    assert!(refused.starts_with("--param first=4: vegas is not available here"), "{refused}");
}

/// An event of the connection with this cookie.
fn event(what: What, cookie: u64, arm: usize) -> FlowEvent {
    FlowEvent {
        what,
        cookie,
        arm,
        starting: false,
        elapsed_us: 50_000,
        acked: 200_000,
        packets: 200,
        lost: 10,
        pacing: 8_000_000,
        mean_rtt_us: 50_000,
        srtt_us: 50_000,
        min_rtt_us: 50_000,
        mss: 1000,
        remote: Some([192, 0, 2, 7].into()),
        local_port: 40_000,
        remote_port: 443,
    }
}

const BBR: usize = 0;
const CUBIC: usize = 2;

fn followed(alg: &str) -> Followed {
    let wanted = Wanted { cgroup: PathBuf::new(), arms: vec![BBR, CUBIC], first: None, by: "models" };
    Followed::new(plan(alg, &[]), wanted, Shared::default(), Records::default())
}

fn at(round_trip: u64) -> Time {
    Time::ZERO + Dur::from_millis(50 * round_trip)
}

#[test]
fn a_flow_is_switched_and_not_judged_until_that_has_shown() {
    // Losses without a queue, and no Westwood.
    let mut followed = followed("rein");
    assert_eq!(followed.take(at(0), &event(What::Begins, 7, CUBIC)), None);
    let chosen: Vec<u64> =
        (1..10).filter(|&n| followed.take(at(n), &event(What::Stretch, 7, CUBIC)) == Some(BBR)).collect();
    // Until the kernel has heard, it is told again.
    assert_eq!(chosen, (5..10).collect::<Vec<_>>());
    assert_eq!(followed.take(at(10), &event(What::Stretch, 7, BBR)), None);
    let flow = &followed.flows[&7];
    let line = flow.line.clone();
    assert_eq!((line.algorithm, line.flow, line.src_port, line.dst_port), ("rein", 0, 40_000, 443));
    let (asker, answer) = std::sync::mpsc::channel();
    followed.shared.ask_status(asker);
    followed.shared.answer_askers(at(10), NAME, |_| String::new());
    let status = answer.recv().unwrap();
    let shown = &status.flows[0];
    assert_eq!((shown.algorithm.as_str(), shown.peer.as_deref()), ("bbr", Some("192.0.2.7:443")));
    assert_eq!((shown.reports, shown.rtt_ms), (10, Some(50.0)));
    followed.take(at(11), &event(What::Ends, 7, BBR));
    assert!(followed.flows.is_empty());
}

#[test]
fn a_law_counts_for_later_flows_once_the_kernel_tells_of_the_end() {
    let counted = |end: fn(&mut Followed)| {
        let (tell, told) = std::sync::mpsc::channel();
        let mut followed = followed("rein");
        followed.records.priors =
            Priors::open(None, Box::new(move |_, arm| tell.send(arm).unwrap())).unwrap();
        for n in 1..20 {
            followed.take(at(n), &event(What::Stretch, 7, CUBIC));
        }
        end(&mut followed);
        drop(followed);
        told.iter().collect::<Vec<_>>()
    };
    assert_eq!(counted(|followed| followed.sweep(at(20) + SILENCE)), []);
    assert_eq!(
        counted(|followed| assert_eq!(followed.take(at(20), &event(What::Ends, 7, CUBIC)), None)),
        [Some(CUBIC)]
    );
}

#[test]
fn whatever_events_come_each_flow_is_known_once() {
    let mut followed = followed("antelope");
    // One that began unheard, one that ends unknown, one of a place that there is not.
    followed.take(at(1), &event(What::Stretch, 1, CUBIC));
    followed.take(at(1), &event(What::Ends, 2, CUBIC));
    followed.take(at(1), &event(What::Stretch, 3, usize::MAX));
    followed.take(at(1), &event(What::Begins, 4, BBR));
    followed.take(at(2), &event(What::Begins, 4, BBR));
    assert_eq!((followed.flows.len(), followed.number), (2, 2));
    followed.take(at(3), &event(What::Left, 1, CUBIC));
    followed.take(at(4), &FlowEvent { packets: u64::MAX, acked: u64::MAX, ..event(What::Stretch, 4, BBR) });
    followed.sweep(at(3) + SILENCE);
    assert_eq!(followed.flows.len(), 1, "heard of since");
    followed.sweep(at(5) + SILENCE + SWEEP);
    assert!(followed.flows.is_empty());
}
