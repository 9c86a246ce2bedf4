//! Whole runs: conservation, determinism, timeouts, paths, sizes, and the agent's absence.

mod counted;
mod impaired;
mod series;

use super::*;
use crate::control;
use crate::plan::{Choice, plan};
use proptest::prelude::*;

/// 48 Mbps, 25 ms, 2 BDP, with more lines for the link and the flow; `rest` follows.
fn scenario(duration_s: f64, link: &str, flow: &str, rest: &str) -> Scenario {
    parse(&format!(
        "name = \"t\"\nduration_s = {duration_s}\n[[link]]\nname = \"b\"\ncapacity_mbps = 48.0\n\
         one_way_delay_ms = 25.0\nbuffer_bdp = 2.0\n{link}\n[[flow]]\nalg = \"native\"\nunder_test = true\n{flow}\n{rest}\n"
    ))
}

fn parse(text: &str) -> Scenario {
    let mut traces = |_: &str| Ok((1..=100).map(|ms| format!("{ms}\n{ms}\n")).collect());
    Scenario::parse(text, "t.toml", &[], &mut traces).unwrap()
}

fn simulate(scenario: &Scenario, alg: Option<&str>, seed: u64, script: AgentScript) -> RunResult {
    let choice = Choice { alg: alg.map(str::to_string), ..Choice::default() };
    run(scenario, plan(scenario, &choice, &crate::plan::shipped(), seed).unwrap(), seed, script, &mut |_| ())
}

fn native(scenario: &Scenario) -> RunResult {
    simulate(scenario, None, 1, AgentScript::never())
}

fn seconds(s: f64) -> Time {
    Time::from_secs_f64(s)
}

#[test]
fn one_seed_gives_one_result_and_another_seed_another() {
    let lossy = scenario(5.0, "random_loss = 0.01", "count = 2", "");
    let json = |alg, seed| {
        serde_json::to_string(&simulate(&lossy, Some(alg), seed, AgentScript::default())).unwrap()
    };
    for alg in ["native", "reno"] {
        assert_eq!(json(alg, 7), json(alg, 7));
        assert_ne!(json(alg, 7), json(alg, 8));
    }
}

#[test]
fn a_result_has_the_keys_of_the_contract_and_null_for_what_was_not_measured() {
    let run = native(&scenario(1.0, "", "start_s = 0.5", "[[flow]]\nalg = \"native\"\nstart_s = 0.99"));
    let json: serde_json::Value = serde_json::to_value(&run).unwrap();
    let keys =
        |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    let sorted = |text: &str| {
        let mut words: Vec<&str> = text.split(' ').collect();
        words.sort_unstable();
        words.join(" ")
    };
    assert_eq!(
        keys(&json),
        sorted(
            "scenario mode alg seed version classic policy backend set wall_s links flows jain_index optimal_mbps \
             measured_s"
        )
    );
    assert_eq!(
        keys(&json["links"][0]),
        sorted("name utilization loss_rate queue_delay_mean_ms queue_delay_p95_ms series")
    );
    assert_eq!(
        keys(&json["flows"][0]),
        sorted(
            "alg under_test start_s stop_s active_s optimal_mbps throughput_mbps goodput_mbps owd_mean_ms owd_p50_ms owd_p95_ms owd_p99_ms \
             rtt_mean_ms rtt_p95_ms loss_rate retransmit_rate fct_s applied decisions inferences reports updates series"
        )
    );
    assert_eq!(
        keys(&json["flows"][0]["series"]),
        sorted("dt_s throughput_mbps rtt_ms cwnd_bytes pacing_mbps in_flight_bytes lost_packets")
    );
    assert_eq!(keys(&json["links"][0]["series"]), sorted("dt_s capacity_mbps queue_bytes lost_packets"));
    // The first flow has no agent and no size; the second has sent, but nothing has arrived.
    for key in ["fct_s", "applied", "decisions", "reports"] {
        assert!(json["flows"][0][key].is_null(), "{key}");
    }
    for key in ["owd_mean_ms", "rtt_p95_ms"] {
        assert!(json["flows"][1][key].is_null(), "{key}");
    }
    assert!(json["flows"][0]["series"]["rtt_ms"][0].is_null());
    assert_eq!(json["flows"][0]["series"]["throughput_mbps"].as_array().unwrap().len(), 10);
}

#[test]
fn a_small_transfer_takes_its_time_and_no_more() {
    let run = native(&scenario(5.0, "", "bytes = 14480", ""));
    // Ten packets of 1500 bytes at 48 Mbps, and 25 ms.
    assert!((run.flows[0].fct_s.unwrap() - 0.0275).abs() < 1e-9, "{:?}", run.flows[0].fct_s);
    let run = native(&scenario(5.0, "", "bytes = 14481", ""));
    // One byte more waits for the first ACK: 25.25 ms to arrive, 25 ms back, and its own way.
    let second_way = 53.0 * 8.0 / 48e6 + 0.025;
    assert!((run.flows[0].fct_s.unwrap() - 0.05025 - second_way).abs() < 1e-6, "{:?}", run.flows[0].fct_s);
}

#[test]
fn lost_packets_of_a_transfer_arrive_in_the_end() {
    let run = native(&scenario(60.0, "random_loss = 0.2", "bytes = 300000", ""));
    assert!(run.flows[0].fct_s.is_some());
    assert!(run.flows[0].retransmit_rate.unwrap() > 0.1);
}

#[test]
fn a_dead_link_causes_timeouts_and_the_flow_comes_back() {
    let dead = "[[change]]\nat_s = 3.0\nlink = \"b\"\nrandom_loss = 1.0\n\
                [[change]]\nat_s = 5.0\nlink = \"b\"\nrandom_loss = 0.0";
    let run = native(&scenario(10.0, "", "", dead));
    let throughput = &run.flows[0].series.throughput_mbps;
    assert!(throughput[35..50].iter().all(|mbps| *mbps == 0.0));
    // With backoff, the first try after 5 s comes at the latest 2 s later.
    assert!(throughput[80..].iter().all(|mbps| *mbps > 20.0), "{:?}", &throughput[50..]);
}

/// Packets that a flow sends up to `end_s` where the link is dead from 3 s on.
fn sent_over_a_dead_link(alg: &str, end_s: f64) -> Option<u64> {
    let dead = "[[change]]\nat_s = 3.0\nlink = \"b\"\nrandom_loss = 1.0";
    let scenario = scenario(end_s, "", "", dead);
    let choice = Choice { alg: Some(alg.to_string()), ..Choice::default() };
    let plans = plan(&scenario, &choice, &crate::plan::shipped(), 1).ok()?;
    let mut simulation = Simulation::new(&scenario, plans, 1, AgentScript::default());
    simulation.run(&mut |_| ControlFlow::Continue(()));
    Some(simulation.flows[0].sent().0)
}

/// The agent's answer to a timeout is in force with the next ACK, which does not come: what goes out meanwhile is the
/// datapath's loss window.
#[test]
fn no_agent_makes_a_timeout_send_the_old_window_again() {
    let algorithms = anole_algorithms::all().iter().map(|spec| spec.name);
    for alg in algorithms.chain(["native"]) {
        // The last ACK comes 50 ms after the link's death, the first timeout 200 ms later at the earliest.
        // A policy that does not ship has no plan.
        let Some(before) = sent_over_a_dead_link(alg, 3.25) else { continue };
        let sent = sent_over_a_dead_link(alg, 7.0).unwrap() - before;
        // Timeouts 0.3, 0.9, 2.1 and 4.5 s after the last ACK at the latest, the window of the datapath's bounds each.
        assert!((2..=8).contains(&sent), "{alg}: {sent} packets");
    }
}

#[test]
fn a_sudden_longer_delay_is_survived_in_spite_of_spurious_timeouts() {
    let longer = "[[change]]\nat_s = 2.0\nlink = \"b\"\none_way_delay_ms = 600.0";
    let run = native(&scenario(30.0, "", "", longer));
    assert!(run.flows[0].series.throughput_mbps[200..].iter().sum::<f64>() / 100.0 > 10.0);
    assert!(run.flows[0].rtt_p95_ms.unwrap() > 1200.0);
}

#[test]
fn a_parking_lot_adds_up_its_delays_and_shares_every_link() {
    let text = |cross: &str| {
        let link = |name: &str, ms: f64| {
            format!(
                "[[link]]\nname = \"{name}\"\ncapacity_mbps = 20.0\none_way_delay_ms = {ms}\nbuffer_bdp = 1.0\n"
            )
        };
        format!(
            "name = \"lot\"\nduration_s = 20.0\n{}{}{}[[flow]]\nalg = \"native\"\n{cross}",
            link("a", 5.0),
            link("b", 10.0),
            link("c", 15.0)
        )
    };
    let alone = native(&parse(&text("bytes = 1448")));
    // Three transmissions of 0.6 ms and 30 ms of propagation.
    assert!((alone.flows[0].fct_s.unwrap() - 0.0318).abs() < 1e-9, "{:?}", alone.flows[0].fct_s);
    let cross: String =
        ["a", "b", "c"].iter().map(|l| format!("[[flow]]\nalg = \"native\"\npath = [\"{l}\"]\n")).collect();
    let shared = native(&parse(&text(&cross)));
    for link in &shared.links {
        assert!(link.utilization.unwrap() > 0.8, "{link:?}");
    }
    let long = shared.flows[0].throughput_mbps.unwrap();
    assert!(long > 0.5 && shared.flows[1..].iter().all(|f| f.throughput_mbps.unwrap() > long));
}

#[test]
fn extra_delay_lengthens_the_round_trip_on_both_ways() {
    let run = native(&scenario(5.0, "reverse_delay_ms = 5.0", "bytes = 2896\nextra_delay_ms = 20.0", ""));
    // 0.25 ms (0.5 for the second) on the link, 25 + 20 ms there, 5 + 20 ms back.
    assert!((run.flows[0].owd_mean_ms.unwrap() - 45.375).abs() < 1e-6);
    assert!((run.flows[0].fct_s.unwrap() - 0.0455).abs() < 1e-9);
    let run = native(&scenario(1.0, "reverse_delay_ms = 5.0", "extra_delay_ms = 20.0", ""));
    assert!(run.flows[0].series.rtt_ms[0].unwrap() >= 70.0);
}

#[test]
fn delayed_acks_change_little_for_a_bulk_flow() {
    let each = native(&scenario(10.0, "", "", "")).flows[0].throughput_mbps.unwrap();
    let delayed = native(&scenario(10.0, "", "delayed_ack = true", "")).flows[0].throughput_mbps.unwrap();
    assert!((each - delayed).abs() < 0.05 * each, "{each} {delayed}");
    let last = native(&scenario(5.0, "", "bytes = 1448\ndelayed_ack = true", ""));
    assert!(last.flows[0].fct_s.is_some());
}

#[test]
fn ack_jitter_lengthens_round_trips_by_up_to_its_size_and_comes_from_the_seed() {
    let jittered = scenario(2.0, "", "bytes = 28960\nack_jitter_us = 4000", "");
    let rtt = |seed| simulate(&jittered, None, seed, AgentScript::never()).flows[0].rtt_mean_ms.unwrap();
    assert_eq!(rtt(1), rtt(1));
    assert_ne!(rtt(1), rtt(2));
    let still = native(&scenario(2.0, "", "bytes = 28960", "")).flows[0].rtt_mean_ms.unwrap();
    assert!(rtt(1) > still && rtt(1) < still + 4.0, "{} {still}", rtt(1));
}

#[test]
fn aggregation_lengthens_round_trips_by_its_bursts_and_costs_no_throughput() {
    let mean = |link: &str, flow: &str| {
        let run = native(&scenario(10.0, link, flow, ""));
        (run.flows[0].rtt_mean_ms.unwrap(), run.flows[0].throughput_mbps.unwrap())
    };
    let (still, full) = mean("", "");
    for flow in ["", "delayed_ack = true"] {
        let (rtt, mbps) = mean("aggregation_ms = [2.0, 8.0]\nack_aggregation_ms = [2.0, 8.0]", flow);
        // CUBIC's queue hides some of it.
        assert!(rtt > still && rtt < still + 16.0, "{rtt} {still}");
        assert!(mbps > 0.9 * full, "{mbps} {full}");
    }
    // In either direction.
    let few = |link| mean(link, "bytes = 28960").0;
    for link in ["aggregation_ms = [4, 4]", "ack_aggregation_ms = [4, 4]"] {
        assert!(few(link) > few("") + 1.0 && few(link) <= few("") + 4.0, "{} {}", few(link), few(""));
    }
}

#[test]
fn a_varying_capacity_is_followed_and_comes_from_the_seed() {
    let scenario = parse(
        "name = \"t\"\nduration_s = 20.0\n[[link]]\nname = \"b\"\nlte = { mean_mbps = 12.0 }\n\
         one_way_delay_ms = 20.0\nbuffer_bdp = 4.0\n[[flow]]\nalg = \"native\"\n",
    );
    let run = |seed| simulate(&scenario, None, seed, AgentScript::never());
    let optimal = |seed| run(seed).optimal_mbps.unwrap();
    assert_eq!(optimal(1), optimal(1));
    assert_ne!(optimal(1), optimal(2));
    assert!((6.0..18.0).contains(&optimal(1)), "{}", optimal(1));
    assert!(run(1).links[0].utilization.unwrap() > 0.8);
}

#[test]
fn a_trace_is_followed() {
    // Two opportunities of a full packet a millisecond.
    let run = native(&parse(
        "name = \"t\"\nduration_s = 10.0\n[[link]]\nname = \"b\"\ntrace = \"x\"\none_way_delay_ms = 20.0\n\
         buffer_bdp = 1.0\n[[flow]]\nalg = \"native\"\n",
    ));
    assert!((run.optimal_mbps.unwrap() - 24.0).abs() < 0.01);
    assert!(run.flows[0].throughput_mbps.unwrap() > 22.0);
}

#[test]
fn warm_up_is_left_out_of_every_mean() {
    let mut text = scenario(4.0, "", "", "");
    let whole = native(&text);
    text.warmup = Dur::from_secs_f64(2.0);
    let half = native(&text);
    assert!(half.flows[0].throughput_mbps.unwrap() > whole.flows[0].throughput_mbps.unwrap());
    assert_eq!(half.flows[0].series, whole.flows[0].series);
    assert!((half.optimal_mbps.unwrap() - 48.0).abs() < 1e-6);
}

#[test]
fn a_flow_is_held_against_what_its_path_could_carry_while_it_was_active() {
    let faster = |warmup_s: f64, flow: &str, rest: &str| {
        native(&parse(&format!(
            "name = \"t\"\nduration_s = 20.0\nwarmup_s = {warmup_s:?}\n[[link]]\nname = \"b\"\ncapacity_mbps = 10.0\n\
             one_way_delay_ms = 20.0\nbuffer_bdp = 2.0\n[[change]]\nat_s = 10.0\ncapacity_mbps = 50.0\n\
             [[flow]]\nalg = \"native\"\n{flow}\n{rest}"
        )))
    };
    let late = faster(0.0, "start_s = 10.0", "");
    let flow = &late.flows[0];
    assert_eq!((late.optimal_mbps, flow.optimal_mbps, flow.active_s), (Some(30.0), Some(50.0), 10.0));
    let (share, used) = (late.share_of_capacity(0).unwrap(), late.links[0].utilization.unwrap());
    // The link could carry 600 Mbit, 500 of them while the flow was active.
    assert!(share <= 1.01 && (share / used - 1.2).abs() < 0.01, "{share} {used}");
    assert!((flow.ideal_rtt_ms - 40.24).abs() < 1e-6, "{}", flow.ideal_rtt_ms);
    let early = faster(5.0, "stop_s = 10.0", "[[flow]]\nalg = \"native\"");
    assert_eq!((early.flows[0].optimal_mbps, early.flows[0].active_s), (Some(10.0), 5.0));
    assert_eq!((early.flows[1].optimal_mbps, early.measured_s), (early.optimal_mbps, 15.0));
    assert_eq!(faster(11.0, "stop_s = 10.0", "").flows[0].optimal_mbps, None);
}

#[test]
fn flows_one_after_the_other_get_no_more_than_the_link_carries() {
    let run = native(&parse(
        "name = \"t\"\nduration_s = 20.0\n[[link]]\nname = \"b\"\ncapacity_mbps = 10.0\n\
         one_way_delay_ms = 20.0\nbuffer_bdp = 2.0\n[[flow]]\nalg = \"native\"\nstop_s = 10.0\n\
         [[flow]]\nalg = \"native\"\nstart_s = 10.0\n",
    ));
    let (total, power) = (run.total(|flow| flow.throughput_mbps).unwrap(), run.total_power().unwrap());
    assert!((9.0..=10.0).contains(&total) && (0.3..=1.0).contains(&power), "{total} {power}");
}

#[test]
fn random_changes_come_from_the_seed_and_stay_in_range() {
    let text = "[[random_change]]\nevery_s = 1.0\nlink = \"b\"\ncapacity_mbps = [5.0, 10.0]\n\
                one_way_delay_ms = [10.0, 20.0]\nrandom_loss = [0.0, 0.001]";
    let scenario = scenario(20.0, "", "", text);
    let changes = |seed| {
        let entries = timetable::timetable(&scenario, seed);
        let changes = entries.into_iter().filter_map(|(at, entry)| match entry {
            Entry::Change(0, change) => Some((at, change)),
            _ => None,
        });
        changes.collect::<Vec<_>>()
    };
    assert_eq!(changes(1).len(), 19);
    assert_eq!(changes(1), changes(1));
    assert_ne!(changes(1), changes(2));
    for (_, change) in changes(3) {
        assert!((5.0..=10.0).contains(&change.capacity.unwrap().mbps()));
        assert!((0.01..=0.02).contains(&change.one_way_delay.unwrap().as_secs_f64()));
        assert!((0.0..=0.001).contains(&change.random_loss.unwrap()));
    }
    let run = native(&scenario);
    let optimal = run.optimal_mbps.unwrap();
    assert!((48.0 / 20.0 + 5.0 * 0.95..48.0 / 20.0 + 10.0 * 0.95).contains(&optimal), "{optimal}");
    assert!(run.links[0].utilization.unwrap() > 0.8);
    let ideal = run.flows[0].ideal_rtt_ms / 2.0;
    assert!((25.0 / 20.0 + 10.0 * 0.95..25.0 / 20.0 + 20.0 * 0.95 + 2.0).contains(&ideal), "{ideal}");
}

#[test]
fn fairness_counts_only_while_all_are_active() {
    let run = native(&scenario(20.0, "", "count = 2", "[[flow]]\nalg = \"native\"\nstart_s = 19.0"));
    assert!(run.jain_index.unwrap() < 0.9);
    let alone = native(&scenario(5.0, "", "", ""));
    assert_eq!(alone.jain_index, Some(1.0));
    let apart = native(&scenario(5.0, "", "stop_s = 2.0", "[[flow]]\nalg = \"native\"\nstart_s = 3.0"));
    assert_eq!(apart.jain_index, None);
}

#[test]
fn the_agent_governs_when_it_is_there_and_the_fallback_when_not() {
    let there = simulate(&scenario(5.0, "", "", ""), Some("reno"), 1, AgentScript::default());
    assert!(there.flows[0].updates.unwrap() > 20);
    let never = simulate(&scenario(5.0, "", "", ""), Some("reno"), 1, AgentScript::never());
    assert_eq!(never.flows[0].updates, None);
    let mut same_but_name = native(&scenario(5.0, "", "", ""));
    same_but_name.alg = "reno".to_string();
    same_but_name.flows[0].alg = "reno".to_string();
    assert_eq!(never, same_but_name);
}

#[test]
fn a_transfer_survives_an_agent_that_is_late_killed_and_restarted() {
    let all = scenario(20.0, "", "", "");
    let fallback = native(&all);
    let scripts = [
        vec![(Time::ZERO, seconds(2.0))],
        vec![(seconds(8.0), Time::MAX)],
        vec![(seconds(8.0), seconds(12.0))],
        vec![(Time::ZERO, seconds(2.0)), (seconds(8.0), seconds(9.0)), (seconds(9.01), seconds(12.0))],
    ];
    for absent in scripts {
        let script = AgentScript { absent: absent.clone() };
        let run = simulate(&all, Some("reno"), 1, script);
        let goodput = |run: &RunResult, from: usize| {
            run.flows[0].series.throughput_mbps[from..from + 40].iter().sum::<f64>()
        };
        for from in [0, 80] {
            assert!(goodput(&run, from) >= 0.8 * goodput(&fallback, from), "{absent:?} from {from}");
        }
        assert!(run.flows[0].updates.unwrap() > 0);
        let returned = absent.iter().all(|(_, to)| *to < Time::MAX);
        let governed = run.flows[0].series.throughput_mbps[130..].iter().sum::<f64>() / 70.0;
        assert!(governed > 0.8 * 48.0, "{absent:?}: {governed} Mbps, agent back: {returned}");
    }
}

#[test]
fn a_slow_agent_is_as_good_as_none_until_it_answers() {
    let slow = Scenario { agent_delay: Dur::from_millis(800), ..scenario(10.0, "", "", "") };
    let run = simulate(&slow, Some("reno"), 1, AgentScript::default());
    assert!(run.flows[0].throughput_mbps.unwrap() > 0.8 * 48.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn packets_are_conserved_on_any_path(
        mbps in 0.5f64..60.0, delay_ms in 0.0f64..80.0, buffer in 0.05f64..3.0, loss in 0.0f64..0.1,
        queue in 0usize..5, flows in 1u32..4, extra_ms in 0.0f64..30.0, two_links in any::<bool>(),
        later_mbps in 0.5f64..60.0, later_ms in 0.0f64..80.0, delayed in any::<bool>(), seed in any::<u64>(),
        reno in any::<bool>(),
    ) {
        let queue = ["droptail", "codel", "fq_codel", "pie", "red"][queue];
        let link = |name: &str, mbps: f64| format!(
            "[[link]]\nname = \"{name}\"\ncapacity_mbps = {mbps}\none_way_delay_ms = {delay_ms}\n\
             buffer_bdp = {buffer}\nrandom_loss = {loss}\nqueue = \"{queue}\"\n\
             reorder = {{ share = {loss}, by_ms = {extra_ms} }}\nburst_loss = {{ enter = {loss}, leave = 0.3 }}\n\
             ack_capacity_mbps = 0.2\nack_buffer_packets = 5\n[[link.cross]]\nmbps = {mbps}\noff_s = 0.1\non_s = 0.1\n");
        let second = if two_links { link("c", mbps * 1.2) } else { String::new() };
        let scenario = parse(&format!(
            "name = \"t\"\nduration_s = 3.0\n{}{second}[[change]]\nat_s = 1.0\nlink = \"b\"\n\
             capacity_mbps = {later_mbps}\none_way_delay_ms = {later_ms}\n\
             [[flow]]\nalg = \"native\"\nunder_test = true\ncount = {flows}\nstart_spacing_s = 0.3\n\
             extra_delay_ms = {extra_ms}\ndelayed_ack = {delayed}\n", link("b", mbps)));
        let choice = Choice { alg: reno.then(|| "reno".to_string()), ..Choice::default() };
        let plans = plan(&scenario, &choice, &crate::plan::shipped(), seed).unwrap();
        let mut simulation = Simulation::new(&scenario, plans, seed, AgentScript::default());
        simulation.run(&mut |_| ControlFlow::Continue(()));
        let sent: u64 = simulation.flows.iter().map(|f| f.sent().0).sum();
        let arrived: u64 = simulation.flows.iter().map(|f| f.measure.one_way_delay.len()).sum();
        let lost: u64 = (0..simulation.flows.len()).map(|f| simulation.lost(f)).sum();
        let inside: u64 = simulation.links.iter().map(Link::packets_inside).sum();
        let behind: usize = simulation.flows.iter().map(|f| f.own_way.len()).sum();
        prop_assert_eq!(sent, arrived + lost + inside + behind as u64);
        for flow in &simulation.flows {
            prop_assert!(flow.sent().1 <= flow.sent().0);
        }
        let result = simulation.result(seed);
        for link in &result.links {
            prop_assert!(link.utilization.is_none_or(|u| u <= 1.0 + 1e-6), "{:?}", link);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn the_strangest_scenarios_end_without_a_panic(
        mss in prop_oneof![Just(64u32), Just(1448), Just(65_483)],
        mbps in prop_oneof![Just(0.001), Just(1.0), Just(200.0)],
        later_mbps in prop_oneof![Just(0.001), Just(100.0)],
        delay_ms in prop_oneof![Just(0.0), Just(0.001), Just(3_000.0)],
        reverse_ms in prop_oneof![Just(0.0), Just(10_000.0)],
        buffer_bytes in prop_oneof![Just(1u64), Just(u64::MAX >> 1)],
        loss in prop_oneof![Just(0.0), Just(0.5), Just(1.0)],
        burst_ms in prop_oneof![Just("[0, 0]"), Just("[0.5, 1000]")],
        queue in prop_oneof![Just("droptail"), Just("codel"), Just("fq_codel"), Just("pie"), Just("red")],
        bytes in prop_oneof![Just(0u64), Just(1), Just(u64::MAX >> 1)],
        alg in prop_oneof![Just("native"), Just("cubic"), Just("reno"), Just("anole")],
        delayed in any::<bool>(),
        delay_us in prop_oneof![Just(0.0f64), Just(700_000.0)],
        share in 0.0f64..0.2, held_ms in 0.0f64..40.0, app_mbps in 0.01f64..20.0, drawn in any::<bool>(),
    ) {
        let starts = match drawn && bytes > 0 {
            true => "arrivals_per_s = 50.0\nbytes_up_to = 9223372036854775807",
            false => "start_spacing_s = 0.01",
        };
        let scenario = parse(&format!(
            "name = \"t\"\nduration_s = 1.5\nwarmup_s = 0.1\nmss_bytes = {mss}\n\
             agent_delay_us = {delay_us}\ninference_us = {delay_us}\n[[link]]\nname = \"b\"\n\
             capacity_mbps = {mbps}\none_way_delay_ms = {delay_ms}\nreverse_delay_ms = {reverse_ms}\n\
             buffer_bytes = {buffer_bytes}\nrandom_loss = {loss}\nqueue = \"{queue}\"\n\
             aggregation_ms = {burst_ms}\nack_aggregation_ms = {burst_ms}\n\
             jitter_ms = {held_ms}\nack_jitter_ms = {held_ms}\nhold_ms = [0.0, {held_ms}]\n\
             reorder = {{ share = {share}, by_ms = {held_ms} }}\nburst_loss = {{ enter = {share}, leave = 0.3 }}\n\
             ack_capacity_mbps = 0.5\nack_buffer_packets = 3\n\
             [[link.cross]]\nmbps = {app_mbps}\nrandom = {drawn}\non_s = 0.1\noff_s = 0.1\n\
             [[change]]\nat_s = 0.7\nlink = \"b\"\ncapacity_mbps = {later_mbps}\n\
             [[flow]]\nalg = \"{alg}\"\ncount = 2\n{starts}\nbytes = {bytes}\n\
             delayed_ack = {delayed}\napp_mbps = {app_mbps}\napp_until_s = 1.0\n"
        ));
        let result = simulate(&scenario, None, 1, AgentScript::default());
        for flow in &result.flows {
            prop_assert!(flow.loss_rate.is_none_or(|rate| (0.0..=1.0).contains(&rate)), "{:?}", flow.loss_rate);
            prop_assert!(flow.throughput_mbps.is_none_or(|mbps| mbps.is_finite() && mbps >= 0.0));
        }
        prop_assert!(result.jain_index.is_none_or(|jain| (0.0..=1.0 + 1e-9).contains(&jain)));
    }
}

/// Answers every question with the same output and counts; stops after some.
struct Constant {
    output: f32,
    stop_after: usize,
    steps: std::sync::Arc<std::sync::Mutex<Vec<control::Step>>>,
}

impl control::Pilot for Constant {
    fn answer(&mut self, question: &control::Question<'_>, outputs: &mut [f32]) -> control::PilotAnswer {
        let mut steps = self.steps.lock().unwrap();
        steps.push(question.step);
        outputs.fill(self.output);
        match steps.len() < self.stop_after {
            true => control::PilotAnswer::Given,
            false => control::PilotAnswer::Stop,
        }
    }
}

fn controlled(scenario: &Scenario, output: f32, stop_after: usize) -> Vec<control::Step> {
    use std::sync::{Arc, Mutex};
    let schema = anole_policies::Schema::parse(
        "name = \"t\"\nsummary = \"\"\nsource = \"\"\ninterval = { ms = 10.0 }\n\
         action = { kind = \"rate-exp\", base = 2.0, low = -1.0, high = 1.0 }\n\
         network = { kind = \"sequential\", head = \"direct\", layer = [{ kind = \"dense\", units = 1 }] }\n\
         [[feature]]\nname = \"loss\"\nsignal = \"loss-rate\"\nclip = [0.0, 1.0]\nunit = \"1\"\n",
        "t.toml",
    );
    let steps = Arc::new(Mutex::new(Vec::new()));
    let pilot = Box::new(Constant { output, stop_after, steps: Arc::clone(&steps) });
    let schema = Arc::new(schema.unwrap());
    let run = control::Controlled::new(scenario, "anole", &schema, &crate::plan::shipped(), 1, pilot);
    let rest = run.unwrap().run();
    let mut steps = std::mem::take(&mut *steps.lock().unwrap());
    steps.extend(rest);
    steps
}

#[test]
fn a_controlled_flow_asks_and_its_steps_add_up_to_the_run() {
    let link = scenario(10.0, "", "start_s = 1.0", "");
    let steps = controlled(&link, 0.0, usize::MAX);
    assert!(steps.len() > 20, "{}", steps.len());
    assert_eq!(steps, controlled(&link, 0.0, usize::MAX));
    let whole = simulate(&link, Some("anole"), 1, AgentScript::default());
    let sum = |value: fn(&control::Step) -> f64| steps.iter().map(|s| value(s) * s.interval_s).sum::<f64>();
    let time = sum(|_| 1.0);
    assert!((8.99..=9.0).contains(&time), "{time}");
    assert!((sum(|s| s.capacity_mbps) / time - 48.0).abs() < 0.01);
    let delivered = sum(|s| s.throughput_mbps) / time;
    assert!((0.5..=1.0).contains(&(delivered / 48.0)), "{delivered} {:?}", whole.flows[0].throughput_mbps);
    for step in &steps {
        assert!(step.rtt_ms >= 50.0 || step.time_s < 1.1, "{step:?}");
        assert_eq!((step.base_rtt_ms, step.flows), (50.0, 1.0));
        assert!((step.queue_delay_ms - (step.owd_ms - 25.0).max(0.0)).abs() < 1e-9);
    }
}

/// The first link is the slower one for 2 s and then the faster one; of the whole run it is the slower one.
#[test]
fn the_capacity_of_a_step_is_that_of_the_link_that_is_the_slowest_in_it() {
    let second = "[[link]]\nname = \"c\"\ncapacity_mbps = 40.0\none_way_delay_ms = 1.0\nbuffer_bdp = 10.0";
    let faster = "[[change]]\nat_s = 2.0\nlink = \"b\"\ncapacity_mbps = 60.0";
    let mut link = scenario(4.0, &format!("{faster}\n{second}"), "", "");
    link.links[0].capacity = crate::link::Capacity::Fixed(anole_model::Rate::from_mbps(20.0));
    for step in controlled(&link, 0.0, usize::MAX).iter().filter(|step| step.interval_s > 0.0) {
        let least = if step.time_s <= 2.0 { 20.0 } else { 40.0 };
        let whole = step.time_s <= 2.0 || step.time_s - step.interval_s >= 2.0;
        assert!(!whole || (step.capacity_mbps - least).abs() < 1e-6, "{step:?}");
    }
}

#[test]
fn the_pilots_answers_matter_and_it_can_end_the_run() {
    let link = scenario(10.0, "", "", "");
    assert_ne!(controlled(&link, -1.0, usize::MAX), controlled(&link, 0.0, usize::MAX));
    let steps = controlled(&link, 0.0, 5);
    assert_eq!(steps.len(), 6);
    assert!(steps[5].time_s < 5.0 && steps[5].interval_s == 0.0, "{:?}", steps[5]);
}

#[test]
fn the_policies_of_other_flows_take_their_time() {
    let beside = |us: f64| {
        let inference = Dur::from_secs_f64(us / 1e6);
        Scenario { inference, ..scenario(5.0, "", "", "[[flow]]\nalg = \"libra-rl\"") }
    };
    let steps = |us| controlled(&beside(us), 0.0, usize::MAX);
    assert_eq!(steps(0.0), steps(0.0));
    assert_ne!(steps(0.0), steps(50_000.0));
    let alone = |us: f64| {
        let inference = Dur::from_secs_f64(us / 1e6);
        controlled(&Scenario { inference, ..scenario(5.0, "", "", "") }, 0.0, usize::MAX)
    };
    assert_eq!(alone(0.0), alone(50_000.0));
}

#[test]
fn a_watched_flow_runs_as_if_nobody_looked() {
    use std::sync::{Arc, Mutex};
    let link = scenario(5.0, "random_loss = 0.001", "", "");
    let schema = Arc::new(anole_policies::schema::builtin("orca").unwrap().clone());
    let steps = Arc::new(Mutex::new(Vec::new()));
    let pilot = Box::new(Constant { output: 0.0, stop_after: usize::MAX, steps: Arc::clone(&steps) });
    let policies = crate::plan::shipped();
    let run = control::Controlled::watched(&link, "cubic", &schema, &policies, 1, pilot).unwrap();
    let rest = run.run();
    let mut steps = std::mem::take(&mut *steps.lock().unwrap());
    // One question every 20 ms, but for the first round-trip time.
    assert!((200..=250).contains(&steps.len()), "{}", steps.len());
    steps.extend(rest);
    let alone = simulate(&link, Some("cubic"), 1, AgentScript::default());
    let sum = |value: fn(&control::Step) -> f64| steps.iter().map(|s| value(s) * s.interval_s).sum::<f64>();
    let delivered = sum(|s| s.throughput_mbps) / 5.0;
    assert!((delivered - alone.flows[0].throughput_mbps.unwrap()).abs() < 0.01, "{delivered}");
}
