//! Every way in which a scenario can be wrong, with the line and the way out that the user reads.

use super::*;

const GOOD: &str = r#"name = "t"
duration_s = 30.0
[[link]]
name = "bottleneck"
capacity_mbps = 48.0
one_way_delay_ms = 25.0
buffer_bdp = 2.0
[[change]]
at_s = 15.0
link = "bottleneck"
capacity_mbps = 96.0
[[flow]]
alg = "anole"
under_test = true
"#;

fn parse(text: &str, set: &[&str]) -> Result<Scenario, String> {
    let set: Vec<String> = set.iter().map(|s| s.to_string()).collect();
    let mut traces = |path: &str| match path {
        "good" => Ok("1\n2\n".to_string()),
        "empty" => Ok(String::new()),
        "unsorted" => Ok("2\n1\n".to_string()),
        _ => Err("no such file".to_string()),
    };
    Scenario::parse(text, "t.toml", &set, &mut traces).map_err(|e| e.to_string())
}

/// The error after replacing `from` by `to` in the good scenario.
fn error(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from));
    parse(&GOOD.replacen(from, to, 1), &[]).unwrap_err()
}

#[test]
fn a_good_scenario_has_its_defaults() {
    let s = parse(GOOD, &[]).unwrap();
    assert_eq!((s.mss, s.seed, s.warmup), (1448, 1, Dur::ZERO));
    assert_eq!(s.links[0].buffer_bytes, 600_000);
    assert_eq!(s.links[0].reverse_delay, None);
    let flow = &s.flows[0];
    assert_eq!((flow.start, flow.stop, &flow.path[..]), (Time::ZERO, s.end(), &[0][..]));
    assert_eq!(s.changes[0].change.capacity, Some(Rate::from_mbps(96.0)));
}

#[test]
fn a_policy_file_is_beside_the_scenario_and_a_name_is_a_name() {
    let policy = |named: &str, set: &[&str]| {
        let text = GOOD.replacen("under_test", &format!("policy = \"{named}\"\nunder_test"), 1);
        let set: Vec<String> = set.iter().map(|s| s.to_string()).collect();
        let scenario = Scenario::parse(&text, "lab/t.toml", &set, &mut |_| Err(String::new())).unwrap();
        scenario.flows[0].policy.clone().unwrap()
    };
    assert_eq!(policy("mine.safetensors", &[]), "lab/mine.safetensors");
    assert_eq!(policy("../mine.safetensors", &[]), "lab/../mine.safetensors");
    assert_eq!(policy("/tmp/mine.safetensors", &[]), "/tmp/mine.safetensors");
    assert_eq!(policy("libra", &[]), "libra");
    assert_eq!(policy("libra", &["flow.policy=mine.safetensors"]), "mine.safetensors");
}

#[test]
fn a_lone_packet_takes_propagation_and_transmission() {
    // 1500 bytes at 48 Mbps: 0.25 ms; at the mean of that and 96 Mbps: a sixth.
    let ideal = |s: &Scenario| {
        let [owd, rtt] = [s.ideal_owd(0, &s.changes, s.end()), s.ideal_rtt(0, &s.changes, s.end())];
        (owd.as_millis_f64(), rtt.as_millis_f64())
    };
    let unchanged = GOOD.replacen("capacity_mbps = 96.0", "random_loss = 0.1", 1);
    let s = parse(&unchanged, &[]).unwrap();
    assert_eq!(ideal(&s), (25.25, 50.25));
    let second = "[[link]]\nname = \"second\"\ncapacity_mbps = 12.0\none_way_delay_ms = 5.0\nreverse_delay_ms = 1.0\nbuffer_bdp = 2.0\n[[change]]";
    let flow = "alg = \"anole\"\npath = [\"bottleneck\", \"second\"]\nextra_delay_ms = 2.0";
    let text = unchanged.replacen("[[change]]", second, 1).replacen("alg = \"anole\"", flow, 1);
    let s = parse(&text, &[]).unwrap();
    let (owd, back) = (25.25 + 6.0 + 2.0, 25.0 + 1.0 + 2.0);
    assert_eq!(ideal(&s), (owd, owd + back));
    let mean = ideal(&parse(GOOD, &[]).unwrap());
    assert!((mean.0 - 25.0 - 1.0 / 6.0).abs() < 1e-5 && (mean.1 - mean.0 - 25.0).abs() < 1e-9, "{mean:?}");
    // 25 ms until 15 s, 75 until 20, 50 from there on: of 30 s, and of those from 10 s on.
    let delays = unchanged.replacen("random_loss = 0.1", "one_way_delay_ms = 75.0", 1)
        + "[[change]]\nat_s = 20.0\none_way_delay_ms = 50.0\n";
    let mean = |set: &[&str]| ideal(&parse(&delays, set).unwrap());
    assert_eq!(mean(&[]), (41.916_667, 83.583_334));
    assert_eq!(mean(&["warmup_s=10"]), (50.25, 100.25));
    // Of a flow, while it is active.
    assert_eq!(mean(&["flow.start_s=10"]), (50.25, 100.25));
    let s = parse(&delays, &["flow.start_s=5"]).unwrap();
    let until = |stop_s| s.ideal_owd(0, &s.changes, Time::from_secs_f64(stop_s)).as_millis_f64();
    assert_eq!((until(20.0), until(15.0), until(5.0)), (41.916_667, 25.25, 25.25));
    assert_eq!(mean(&["bottleneck.reverse_delay_ms=1"]), (41.916_667, 42.916_667));
}

#[test]
fn every_mistake_names_its_line_and_the_way_out() {
    let cases = [
        ("capacity_mbps = 48.0", "capacity = 48.0", "t.toml:5: unknown field `capacity`, expected one of"),
        (
            "capacity_mbps = 48.0",
            "capacity_mbps = -48.0",
            "t.toml:5: capacity_mbps = -48 is outside 0.001 to",
        ),
        ("capacity_mbps = 48.0", "capacity_mbps = 0", "t.toml:5: capacity_mbps = 0 is outside"),
        ("capacity_mbps = 48.0", "capacity_mbps = nan", "t.toml:5: capacity_mbps = NaN is outside"),
        (
            "capacity_mbps = 48.0",
            "",
            "t.toml:3: link \"bottleneck\" needs exactly one of capacity_mbps, trace and lte",
        ),
        ("capacity_mbps = 48.0", "trace = \"empty\"", "t.toml:5: trace \"empty\": the trace is empty"),
        (
            "capacity_mbps = 48.0",
            "trace = \"unsorted\"",
            "t.toml:5: trace \"unsorted\": line 2: 1 ms comes after 2 ms; sort",
        ),
        (
            "capacity_mbps = 48.0",
            "trace = \"gone\"",
            "t.toml:5: trace \"gone\": no such file; the path is relative",
        ),
        ("capacity_mbps = 48.0", "trace = \"good\"", "t.toml:11: link \"bottleneck\" follows a trace"),
        (
            "buffer_bdp = 2.0",
            "buffer_bdp = 2.0\nbuffer_bytes = 1",
            "t.toml:3: link \"bottleneck\" needs exactly one of buffer_bdp",
        ),
        (
            "capacity_mbps = 48.0",
            "lte = { mean_mbps = 12.0 }",
            "t.toml:11: link \"bottleneck\" follows a trace",
        ),
        ("capacity_mbps = 48.0", "lte = { mean = 12.0 }", "t.toml:5: unknown field `mean`, expected one of"),
        ("capacity_mbps = 48.0", "lte = { deviation = 0.7 }", "t.toml:5: lte has no mean_mbps"),
        (
            "capacity_mbps = 48.0",
            "lte = { mean_mbps = 12.0, deviation = 9.0 }",
            "t.toml:5: deviation = 9 is outside 0 to 2",
        ),
        (
            "capacity_mbps = 48.0",
            "lte = { mean_mbps = 9000.0 }",
            "t.toml:5: lte may carry 388996 Mbit; at most 200000: lower",
        ),
        (
            "capacity_mbps = 48.0",
            "lte = { mean_mbps = 6000.0, deviation = 2.0, memory_s = 86400.0 }",
            "t.toml:5: lte may carry 9827667 Mbit; at most 200000: lower",
        ),
        (
            "buffer_bdp = 2.0",
            "buffer_bdp = 2.0\naggregation_ms = [8, 2]",
            "t.toml:8: aggregation_ms = [8, 2]: write [low, high]",
        ),
        (
            "buffer_bdp = 2.0",
            "buffer_bdp = 2.0\nack_aggregation_ms = [2, 8000]",
            "t.toml:8: ack_aggregation_ms = [2, 8000]",
        ),
        ("buffer_bdp = 2.0", "buffer_bytes = -1", "t.toml:7: invalid value"),
        (
            "buffer_bdp = 2.0",
            "buffer_bdp = 2.0\nqueue = \"blue\"",
            "t.toml:8: unknown queue \"blue\"; one of droptail",
        ),
        (
            "buffer_bdp = 2.0",
            "buffer_bdp = 2.0\nrandom_loss = 1.5",
            "t.toml:8: random_loss = 1.5 is outside 0 to 1",
        ),
        ("name = \"bottleneck\"", "name = \"flow\"", "t.toml:4: a link cannot be named \"flow\""),
        (
            "link = \"bottleneck\"",
            "link = \"bottlneck\"",
            "t.toml:10: no link is named \"bottlneck\"; links: bottleneck",
        ),
        ("at_s = 15.0", "at_s = 30.0", "t.toml:8: the change at 30 s comes after the run of duration_s = 30"),
        (
            "[[change]]",
            "[[random_change]]\nevery_s = 60.0\nrandom_loss = [0.0, 0.1]\n[[change]]",
            "t.toml:9: the first [[random_change]] at 60 s comes after the run of duration_s = 30",
        ),
        (
            "under_test = true",
            "preference_at = [[2.0, \"th-1\"], [100.0, \"la-1\"]]",
            "t.toml:14: preference_at at 100 s comes after the run of duration_s = 30",
        ),
        ("buffer_bdp = 2.0", "buffer_bdp = 0", "t.toml:7: a buffer of 0: nothing could wait"),
        ("buffer_bdp = 2.0", "buffer_packets = 0", "t.toml:7: a buffer of 0"),
        ("buffer_bdp = 2.0", "buffer_bytes = 0", "t.toml:7: a buffer of 0"),
        ("capacity_mbps = 96.0", "buffer_bytes = 0", "t.toml:11: a buffer of 0"),
        ("at_s = 15.0", "at_s = -1.0", "t.toml:9: at_s = -1 is outside"),
        ("capacity_mbps = 96.0", "", "t.toml:8: this [[change]] changes nothing"),
        ("under_test = true", "path = [\"other\"]", "t.toml:14: no link is named \"other\""),
        ("under_test = true", "path = []", "t.toml:14: the path is empty"),
        ("under_test = true", "path = [\"bottleneck\", \"bottleneck\"]", "t.toml:14: the path goes through"),
        (
            "under_test = true",
            "start_s = 20.0\nstop_s = 10.0",
            "t.toml:15: flow \"anole\" starts at 20 s but stops at 10 s; raise stop_s",
        ),
        ("under_test = true", "start_s = 40.0", "t.toml:14: flow \"anole\" starts at 40 s but stops at 30 s"),
        (
            "under_test = true",
            "count = 9\nstart_spacing_s = 4.0",
            "flow \"anole\" starts at 32 s but stops at 30 s",
        ),
        ("under_test = true", "count = 0", "t.toml:14: count = 0"),
        ("alg = \"anole\"", "", "t.toml:12: alg = \"…\" in [[flow]] is missing"),
        ("under_test = true", "preference = \"fast\"", "t.toml:14: unknown preference \"fast\"; known are"),
        (
            "under_test = true",
            "preference_at = [[2.0, \"th-1\"], [1.0, \"la-1\"]]",
            "t.toml:14: preference_at is not in order of time",
        ),
        ("duration_s = 30.0", "duration_s = 0", "t.toml:2: duration_s = 0 is outside"),
        ("duration_s = 30.0", "", "t.toml:1: duration_s is missing"),
        ("duration_s = 30.0", "duration_s = 30.0\nwarmup_s = 30", "t.toml:3: warmup_s = 30 leaves nothing"),
        ("duration_s = 30.0", "duration_s = 30.0\nmss_bytes = 0", "t.toml:3: mss_bytes = 0 is outside"),
        ("duration_s = 30.0", "duration_s = ", "t.toml:2:"),
        ("duration_s = 30.0", "duration_s = \"x\"", "t.toml:2: invalid type: string"),
    ];
    for (from, to, expected) in cases {
        let got = error(from, to);
        assert!(got.contains(expected), "for {to:?}\n expected {expected}\n got      {got}");
        assert!(!got.contains('\n'), "one line: {got}");
    }
}

#[test]
fn changes_must_be_in_order() {
    let text = GOOD
        .replace("[[flow]]", "[[change]]\nat_s = 3.0\nlink = \"bottleneck\"\nrandom_loss = 0.1\n[[flow]]");
    assert!(
        parse(&text, &[]).unwrap_err().starts_with("t.toml:13: the change at 3 s stands after a later one")
    );
}

#[test]
fn a_run_that_is_shortened_leaves_later_changes_out() {
    assert_eq!(parse(GOOD, &["duration_s=10"]).unwrap().changes.len(), 1);
    let shorter = GOOD.replace("duration_s = 30.0", "duration_s = 10.0");
    assert!(parse(&shorter, &[]).unwrap_err().contains("the change at 15 s comes after the run"));
    let cross = "buffer_bdp = 2.0\n[[link.cross]]\nmbps = 1.0\nstart_s = 20.0";
    let random = "[[random_change]]\nevery_s = 12.0\nrandom_loss = [0.0, 0.1]\n[[change]]";
    let later = GOOD.replacen("buffer_bdp = 2.0", cross, 1).replacen("[[change]]", random, 1).replacen(
        "under_test = true",
        "under_test = true\npreference_at = [[11.0, \"th-1\"]]",
        1,
    );
    assert!(parse(&later, &["duration_s=10"]).is_ok());
    let flows = "app_mbps = 1.0\ncount = 3\nstart_spacing_s = 5.0\nunder_test = true";
    let flows = GOOD.replacen("under_test = true", flows, 1);
    let runs = |scenario: Scenario| scenario.flows.iter().map(FlowSpec::runs).collect::<Vec<_>>();
    assert_eq!(parse(&flows, &["duration_s=10"]).map(runs), Ok(vec![true, true, false]));
    // This one is wrong in a run of any length.
    assert!(
        parse(&flows, &["duration_s=10", "flow.stop_s=8"])
            .unwrap_err()
            .contains("starts at 10 s but stops at 8 s")
    );
}

#[test]
fn random_changes_are_checked() {
    let with = |line: &str| {
        let link = "[[random_change]]\nlink = \"bottleneck\"\n";
        parse(&GOOD.replace("[[change]]", &format!("{link}{line}\n[[change]]")), &[])
    };
    let good = with("every_s = 10.0\ncapacity_mbps = [1.0, 100.0]\nrandom_loss = [0.0, 0.05]").unwrap();
    assert_eq!(good.random_changes[0].capacity_mbps, Some((1.0, 100.0)));
    let cases = [
        ("every_s = 10.0", "t.toml:8: this [[random_change]] changes nothing"),
        ("capacity_mbps = [1.0, 2.0]", "t.toml:8: every_s is missing"),
        ("every_s = 0.0\ncapacity_mbps = [1.0, 2.0]", "t.toml:10: every_s = 0 is outside"),
        ("every_s = 1\ncapacity_mbps = [2.0, 1.0]", "t.toml:11: capacity_mbps = [2, 1]: write [low, high]"),
        ("every_s = 1\ncapacity_mbps = [0.0, 1.0]", "t.toml:11: capacity_mbps = [0, 1]"),
        ("every_s = 1\ncapacity_mbps = 5.0", "t.toml:11: invalid type"),
    ];
    for (line, expected) in cases {
        let got = with(line).unwrap_err();
        assert!(got.contains(expected), "for {line:?}: {got}");
    }
    let long = "[[random_change]]\nevery_s = 0.001\nrandom_loss = [0, 1]\n[[change]]";
    let text = GOOD.replace("[[change]]", long).replace("duration_s = 30.0", "duration_s = 3000");
    assert!(parse(&text, &[]).unwrap_err().contains("t.toml:9: every_s = 0.001 makes 3000001 changes"));
}

#[test]
fn what_many_entries_make_together_is_bounded() {
    let day = GOOD.replace("duration_s = 30.0", "duration_s = 86400.0");
    let change = "[[change]]\nat_s = 15.0\nevery_s = 2.0\nrandom_loss = 0.1\n";
    let changes = |count| parse(&day.replace("[[flow]]", &(change.repeat(count) + "[[flow]]")), &[]);
    assert!(changes(2).is_ok());
    let e = changes(3).unwrap_err();
    assert!(e.starts_with("t.toml:22: every_s = 2 makes 129587 changes in all"), "{e}");
    let random = "[[random_change]]\nevery_s = 1.5\nrandom_loss = [0, 1]\n".repeat(2);
    assert!(parse(&day.replace("[[flow]]", &(random + "[[flow]]")), &[]).is_err());
    let flow = |count| format!("count = {count}\n[[flow]]\nalg = \"cubic\"\ncount = 5");
    assert!(parse(&day.replace("under_test = true", &flow(6)), &[]).is_ok());
    let e = parse(&day.replace("under_test = true", &flow(7)), &[]).unwrap_err();
    assert!(e.starts_with("t.toml:17: 12 flows: in so long a run there may be 11"), "{e}");
}

#[test]
fn cross_traffic_is_not_on_more_often_than_can_be_computed() {
    let cross = |on_s: &str| {
        let source = format!("mbps = 0.001\npacket_bytes = 65535\non_s = {on_s}\noff_s = {on_s}");
        let text = GOOD.replace("duration_s = 30.0", "duration_s = 86400.0");
        parse(&text.replace("buffer_bdp = 2.0", &format!("buffer_bdp = 2.0\n[[link.cross]]\n{source}")), &[])
    };
    assert!(cross("0.001").is_ok());
    let e = cross("1e-6").unwrap_err();
    assert!(e.starts_with("t.toml:11: this is on 43200000000 times; at most 100000000 are allowed"), "{e}");
}

#[test]
fn counted_flows_are_spread_out() {
    let s = parse(GOOD, &["flow.count=4", "flow.start_spacing_s=4"]).unwrap();
    let starts: Vec<f64> = s.flows.iter().map(|f| f.start.as_secs_f64()).collect();
    assert_eq!(starts, [0.0, 4.0, 8.0, 12.0]);
    let spaced = GOOD.replacen("under_test = true", "under_test = true\ncount = 4\nstart_spacing_s = 4.0", 1);
    let s = parse(&spaced, &["flow.arrivals_per_s=1"]).unwrap();
    assert_eq!(s.flows[0].drawn.and_then(|drawn| drawn.arrivals_per_s), Some(1.0));
}

#[test]
fn set_reaches_every_kind_of_key() {
    let s = parse(
        GOOD,
        &[
            "bottleneck.random_loss=0.01",
            "bottleneck.buffer_packets=10",
            "duration_s=60",
            "flow.alg=cubic",
            "flow.path=[\"bottleneck\"]",
            "param.beta=0.5",
            "bottleneck.queue=codel",
        ],
    )
    .unwrap();
    let link = &s.links[0];
    assert_eq!((link.random_loss, link.buffer_bytes, link.queue), (0.01, 15_000, QueueKind::CoDel));
    assert_eq!((s.duration, s.flows[0].alg.as_str()), (Dur::from_secs_f64(60.0), "cubic"));
    assert_eq!(s.params["beta"], 0.5);
    assert_eq!(
        parse(&GOOD.replace("capacity_mbps = 96.0", "random_loss = 0.0"), &["bottleneck.trace=good"])
            .unwrap()
            .links[0]
            .capacity
            .mean_rate()
            .mbps(),
        12.0
    );
}

#[test]
fn aggregation_and_varying_capacity_are_read_and_set() {
    let set = ["bottleneck.aggregation_ms=[2, 8]", "bottleneck.lte={ mean_mbps = 12.0, outage_s = 1.0 }"];
    let s = parse(&GOOD.replace("capacity_mbps = 96.0", "random_loss = 0.0"), &set).unwrap();
    let link = &s.links[0];
    assert_eq!(link.aggregation.data, Some((Dur::from_millis(2), Dur::from_millis(8))));
    assert_eq!(link.aggregation.acks, None);
    let lte = link.lte.unwrap();
    assert_eq!((lte.mean.mbps(), lte.outage_s, lte.deviation), (12.0, 1.0, 0.5));
    // 2 BDP of the mean.
    assert_eq!((link.capacity.mean_rate().mbps(), link.buffer_bytes), (12.0, 150_000));
}

#[test]
fn set_says_what_is_wrong() {
    let cases = [
        ("bottleneck.random_loss", "expected KEY=VALUE"),
        ("bottlneck.random_loss=1", "no link \"bottlneck\"; write LINK.KEY (links: bottleneck)"),
        ("bottleneck.random_los=1", "unknown field `random_los`"),
        ("bottleneck.random_loss=x", "invalid type: string"),
        ("bottleneck.random_loss=2", "t.toml, with --set: random_loss = 2 is outside 0 to 1"),
        ("bottleneck.lte={ mean_mbps = 99999 }", "t.toml, with --set: mean_mbps = 99999 is outside"),
        ("bottleneck.burst_loss={ enter = 2, leave = 0.1 }", "t.toml, with --set: enter = 2 is outside"),
        ("bottleneck.cross=[{ mbps = 99999 }]", "t.toml, with --set: mbps = 99999 is outside"),
        ("flow.counts=1", "unknown field `counts`"),
        ("durations=1", "unknown field `durations`"),
        ("param.x=y", "\"y\" is not a number"),
        ("duration_s=1\nseed = 2", "invalid type: string"),
        ("seed=18446744073709551616", "integer `18446744073709551616` as i128, expected u64"),
    ];
    for (option, expected) in cases {
        let got = parse(GOOD, &[option]).unwrap_err();
        assert!(got.contains(expected), "for {option:?}: {got}");
    }
    assert_eq!(parse(GOOD, &["seed=18446744073709551615"]).map(|s| s.seed), Ok(u64::MAX));
    let two = format!("{}[[flow]]\nalg = \"cubic\"\n", GOOD.replace("under_test = true", ""));
    assert!(parse(&two, &["flow.count=2"]).unwrap_err().contains("no [[flow]] has under_test = true"));
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "[a-z_\\[\\]=\" .0-9\n-]{0,200}", set in "[a-z_.=0-9\"\\[\\]-]{0,30}") {
        let _ = parse(&text, &[&set]);
        let _ = parse(GOOD, &[&set]);
        let _ = parse(&format!("{GOOD}{text}"), &[]);
    }
}

#[test]
fn changes_come_again_until_the_end() {
    let s = parse(&GOOD.replacen("at_s = 15.0", "at_s = 15.0\nevery_s = 6.0", 1), &[]).unwrap();
    let at: Vec<f64> = s.changes.iter().map(|change| change.at.as_secs_f64()).collect();
    assert_eq!(at, [15.0, 21.0, 27.0]);
    let e = error("at_s = 15.0", "at_s = 15.0\nevery_s = 0.0");
    assert!(e.starts_with("t.toml:10: every_s = 0 is outside"), "{e}");
    // Two that alternate, in order of time.
    let two = "[[change]]\nat_s = 1.0\nevery_s = 10.0\ncapacity_mbps = 5.0\n[[change]]\nat_s = 6.0\nevery_s = 10.0\ncapacity_mbps = 9.0\n[[flow]]";
    let s = parse(
        &GOOD.replacen(
            "[[change]]\nat_s = 15.0\nlink = \"bottleneck\"\ncapacity_mbps = 96.0\n[[flow]]",
            two,
            1,
        ),
        &[],
    );
    let mbps: Vec<f64> = s.unwrap().changes.iter().filter_map(|c| Some(c.change.capacity?.mbps())).collect();
    assert_eq!(mbps, [5.0, 9.0, 5.0, 9.0, 5.0, 9.0]);
}

#[test]
fn what_befalls_packets_is_checked() {
    let link = |keys: &str| error("buffer_bdp = 2.0", &format!("buffer_bdp = 2.0\n{keys}"));
    for (keys, message) in [
        ("jitter_ms = -1.0", "t.toml:8: jitter_ms = -1 is outside 0 to 1000"),
        ("ack_jitter_ms = 2000.0", "t.toml:8: ack_jitter_ms = 2000 is outside"),
        ("hold_ms = []", "t.toml:8: hold_ms has 0 slots"),
        ("hold_ms = [0.0, -1.0]", "t.toml:8: hold_ms has -1"),
        ("hold_slot_ms = 5.0", "hold_slot_ms without hold_ms"),
        ("burst_loss = { enter = 0.1 }", "burst_loss needs enter and leave"),
        ("burst_loss = { enter = 2.0, leave = 0.1 }", "t.toml:8: enter = 2 is outside 0 to 1"),
        ("reorder = { share = 0.1 }", "reorder needs share and by_ms"),
        ("reorder = { shares = 0.1 }", "unknown field `shares`"),
        ("ack_buffer_packets = 5", "ack_buffer_packets without ack_capacity_mbps"),
        ("ack_capacity_mbps = 0.0", "t.toml:8: ack_capacity_mbps = 0 is outside"),
        ("[[link.cross]]\nstart_s = 1.0", "mbps is missing in [[link.cross]]"),
        ("[[link.cross]]\nmbps = 1.0\non_s = 1.0", "t.toml:9: on_s and off_s go together"),
        ("[[link.cross]]\nmbps = 1.0\nstart_s = 5.0\nstop_s = 4.0", "starts at 5 s but stops at 4 s"),
        (
            "[[link.cross]]\nmbps = 1.0\nstart_s = 40.0",
            "the start of this [[link.cross]] at 40 s comes after",
        ),
        ("[[link.cross]]\nmbps = 1.0\nstart_s = 40.0\nstop_s = 50.0", "at 40 s comes after the run of"),
        ("[[link.cross]]\nmbps = 1.0\npacket_bytes = 5", "t.toml:10: packet_bytes = 5 is outside"),
        ("[[link.cross]]\nmbps = 10000.0\npacket_bytes = 50", "packets; at most"),
    ] {
        let e = link(keys);
        assert!(e.contains(message), "{keys}: {e}");
    }
}

#[test]
fn what_is_drawn_of_flows_and_what_agents_take_is_checked() {
    for (keys, message) in [
        ("arrivals_per_s = 0.0", "t.toml:15: arrivals_per_s = 0 is outside"),
        ("arrivals_per_s = 2.0\nstart_spacing_s = 1.0", "both say when flows start"),
        ("bytes_up_to = 5", "bytes_up_to = 5 needs bytes"),
        ("bytes = 9\nbytes_up_to = 5", "bytes_up_to = 5 needs bytes"),
        ("app_until_s = 5.0", "app_until_s without app_mbps"),
        (
            "start_s = 5.0\napp_mbps = 1.0\napp_until_s = 5.0",
            "t.toml:17: app_until_s = 5 is not after the flow's start at 5 s",
        ),
        ("app_frame_ms = 5.0", "app_frame_ms without app_mbps"),
        ("app_mbps = 0.1\napp_frame_ms = 0.2", "t.toml:16: app_frame_ms = 0.2 makes frames of 2.5 bytes"),
        ("app_mbps = -5.0", "t.toml:15: app_mbps = -5 is outside"),
    ] {
        let e = error("under_test = true", &format!("under_test = true\n{keys}"));
        assert!(e.contains(message), "{keys}: {e}");
    }
    let e = error("duration_s = 30.0", "duration_s = 30.0\ninference_us = 2e6");
    assert!(e.starts_with("t.toml:3: inference_us = 2000000 is outside"), "{e}");
    let s = parse(GOOD, &["agent_delay_us=250"]).unwrap();
    assert_eq!(s.agent_delay, Dur::from_micros(250));
}

#[test]
fn arrivals_and_sizes_are_drawn_with_the_seed() {
    let keys = "under_test = true\ncount = 2000\narrivals_per_s = 100.0\nbytes = 1000\nbytes_up_to = 100000";
    let s = parse(&GOOD.replacen("under_test = true", keys, 1), &[]).unwrap();
    let (one, two) = (s.drawn(1), s.drawn(2));
    assert_eq!(one, s.drawn(1));
    assert_ne!(one.flows[0].start, two.flows[0].start);
    assert!(one.flows.is_sorted_by_key(|flow| flow.start));
    let last = one.flows[1999].start.as_secs_f64();
    assert!((18.0..22.0).contains(&last), "{last}");
    let sizes: Vec<u64> = one.flows.iter().filter_map(|flow| flow.bytes).collect();
    assert!(sizes.iter().all(|size| (1000..=100_000).contains(size)));
    let below = sizes.iter().filter(|size| **size < 10_000).count();
    assert!((900..1100).contains(&below), "{below}");
    assert!(matches!(parse(GOOD, &[]).unwrap().drawn(1), std::borrow::Cow::Borrowed(_)));
}
