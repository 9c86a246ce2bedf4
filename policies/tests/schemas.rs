//! The schemas in the tree: what they become is pinned, and their features stay in their clips whatever
//! was measured.

#![allow(clippy::disallowed_methods, reason = "a test reads its files and its switch")]

use anole_model::{Dur, Rate};
use anole_policies::schema::{Schema, builtin, builtins, canonical};
use anole_policies::{Features, Observation};
use proptest::num;
use proptest::prelude::*;
use serde_json::json;
use std::path::PathBuf;
use std::{env, fs};

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(folder("schemas").join(format!("{name}.toml"))).unwrap()
}

#[test]
fn every_schema_is_named_as_its_file() {
    let files = fs::read_dir(folder("schemas")).unwrap().map(|entry| entry.unwrap().path());
    let mut stems: Vec<String> =
        files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_string()).collect();
    stems.sort();
    let names: Vec<&str> = builtins().iter().map(|schema| schema.name.as_str()).collect();
    assert_eq!(names, stems);
    for name in names {
        assert_eq!(builtin(name).unwrap().text, canonical(&text(name)));
    }
    assert!(builtin("no-such").is_none());
}

/// What Python and C++ are held against too. When a change is meant:
/// `UPDATE_GOLDEN=1 cargo test -p anole-policies --test schemas`, and read the difference.
#[test]
fn networks_are_as_recorded() {
    for schema in builtins() {
        let golden = json!({
            "name": schema.name,
            "schema_sha256": schema.sha256(),
            "action": schema.action.kind(),
            "network": schema.network_json(),
            "tensors": schema.tensors(),
        });
        let now = serde_json::to_string_pretty(&golden).unwrap() + "\n";
        let path = folder("golden").join(format!("{}.json", schema.name));
        if env::var("UPDATE_GOLDEN").is_ok() {
            fs::write(&path, &now).unwrap();
        }
        let recorded = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(recorded, now, "golden/{}.json; see the comment above this test", schema.name);
    }
    let recorded = fs::read_dir(folder("golden")).unwrap().count();
    assert_eq!(recorded, builtins().len(), "golden/ and schemas/ hold the same names");
}

#[test]
fn sage_has_its_69_inputs_and_remembers_the_interval_before() {
    let schema = builtin("sage").unwrap();
    assert_eq!((schema.inputs(), schema.outputs(), schema.state()), (69, 1, 128));
    let mut features = Features::new(schema);
    let at = |name: &str| schema.features.iter().position(|feature| feature.name == name).unwrap();
    let ratio = at("throughput over the one before");
    let largest = at("largest throughput over the one before");
    let mut push = |mbps: f64, most: f64| {
        let most = Rate::from_mbps(most);
        let input = features
            .push(&Observation { max_delivery_10s: most, ..Observation::quiet(Rate::from_mbps(mbps)) });
        (input[ratio], input[largest], input[at("min throughput of 10")])
    };
    // Scaled by a half.
    assert_eq!(push(8.0, 8.0), (0.5, 0.5, 1.0));
    assert_eq!(push(16.0, 16.0), (1.0, 1.0, 1.0));
    assert_eq!(push(4.0, 16.0), (0.125, 0.5, 0.25));
}

/// The message for `libra` with one line changed.
fn refusal(name: &str, from: &str, to: &str) -> String {
    let text = text(name);
    assert!(text.contains(from), "{from}");
    Schema::parse(&text.replacen(from, to, 1), "x.toml").unwrap_err().to_string()
}

#[test]
fn a_broken_rule_is_told_with_its_line() {
    let line = |name: &str, line: &str| 1 + text(name).lines().position(|l| l == line).unwrap();
    for (name, from, to, message) in [
        ("libra", "name = \"libra\"", "name = \"Libra!\"", "name \"Libra!\" is to be of lower-case letters"),
        ("libra", "history = 8", "history = 65", "history 65 is outside 1..=64"),
        ("libra", "ms = 10.0", "ms = 0.0", "ms = 0 is outside ]0, 10000]"),
        ("libra", "rtts = 1.0", "rtts = -1.0", "rtts = -1 is outside [0, 100]"),
        ("libra", "base = 2.0", "base = 0.0", "base = 0 is to be above 0"),
        ("libra", "low = -1.0", "low = 1.0", "low = 1 is to be below high = 1"),
        ("libra", "scale = 4.0", "scale = nan", "RTT gradient: scale is no number"),
        ("libra", "clip = [-2.0, 2.0]", "clip = [2.0, 2.0]", "RTT gradient: clip = [2, 2] is no interval"),
        ("libra", "units = 512", "units = 8193", "units = 8193 is outside 1..=8192"),
        ("libra", "units = 1", "units = 2", "units = 2, the action takes 1"),
        ("libra", "head = \"direct\"", "head = \"argmax\"", "go together"),
        ("libra", "head = \"direct\"", "head = \"mixture\"", "K logits"),
        ("indigo", "units = 5", "units = 6", "units = 6, the table has 5 entries"),
        ("indigo", "index = 4", "index = 5", "previous was 4: index 5 where the signal has 5 elements"),
        ("spine", "index = 3", "index = 4", "deployed alpha_loss: index 4 where the signal has 4 elements"),
        ("spine", "outputs = 4", "outputs = 5", "outputs = 5, the action takes 4"),
        ("spine", "watcher = 64", "watcher = 0", "watcher = 0 is outside 1..=8192"),
        ("spine", "high = 2.0", "high = 0.0", "alpha_tol: low = 0 is to be below high = 0"),
        ("sage", "probe_rtt_s = 5.0", "probe_rtt_s = 0.5", "probe_rtt_s = 0.5 is outside [1.0, 10.0]"),
        ("sage", "kind = \"cwnd-exp\"", "kind = \"rate-exp\"", "this action sets none"),
        (
            "spine",
            "program = \"spine\"",
            "program = \"spin\"",
            "no fold program is named \"spin\"; did you mean spine?",
        ),
        ("spine", "program = \"spine\"", "program = \"bbr\"", "bbr has no register interval_us"),
        (
            "spine",
            "name = \"alpha_tol\"",
            "name = \"alpha_toll\"",
            "spine has no register \"alpha_toll\" for a policy; did you mean alpha_tol?",
        ),
        (
            "spine",
            "name = \"alpha_tol\"",
            "name = \"interval_us\"",
            "no register \"interval_us\" for a policy",
        ),
        ("spine", "name = \"alpha_tol\"", "name = \"alpha_lat\"", "alpha_lat is set twice"),
        (
            "spine",
            "name = \"alpha_loss\"",
            "name = \"alpha_loss\"\nscale = 1e10",
            "is no range of a register of 32 bits",
        ),
        (
            "spine",
            "register = \"alpha_thr\"",
            "register = \"alpha\"",
            "\"alpha\" is no register that the action sets",
        ),
        ("spine", "alpha_loss = 0.5", "alpha_loss = 1.5", "alpha_loss: [1.5] is outside the action's range"),
        (
            "spine",
            "default = 0.1",
            "default = 0.6",
            "alpha_thr: [0.0, 0.6, 0.5] is outside the action's range",
        ),
    ] {
        let refusal = refusal(name, from, to);
        assert!(refusal.contains(message), "{refusal}, expected: {message}");
        // Rules about low and high, and about the last layer, point at a key of the same table.
        let exact = match (from, to) {
            (_, "kind = \"rate-exp\"") => line(name, "probe_rtt_s = 5.0"),
            ("high = 2.0", _) => line(name, "name = \"alpha_tol\"") + 1,
            (_, "head = \"mixture\"") => line(name, "units = 1"),
            (_, "name = \"alpha_loss\"\nscale = 1e10") => line(name, from) + 1,
            (_, "default = 0.6") => line(name, "register = \"alpha_thr\""),
            _ => line(name, from),
        };
        assert!(refusal.starts_with(&format!("x.toml:{exact}: ")), "{refusal}, expected line {exact}");
    }
    let commented = text("libra").replacen("[[feature]]\n", "[[feature]] # rates\n", 1);
    let refused =
        |text: &str| Schema::parse(&text.replacen("scale = 4.0", "scale = nan", 1), "x.toml").unwrap_err();
    assert_eq!(refused(&commented).to_string(), refused(&text("libra")).to_string());
    let unknown = refusal("libra", "history = 8", "histories = 8");
    assert!(unknown.starts_with("x.toml:") && unknown.contains("unknown field `histories`"), "{unknown}");
    let empty = "table = []";
    let table = text("indigo");
    let table = &table[table.find("table = [").unwrap()..table.find("[[feature]]").unwrap()];
    assert!(refusal("indigo", table, &format!("{empty}\n")).contains("the table is empty"));
}

#[test]
fn a_convolution_takes_no_more_products_than_a_file_has_weights() {
    let head = builtin("libra").unwrap().text.split_once("[[network.layer]]").unwrap().0;
    let parse = |kernel: usize| {
        let layer = format!("channels = [5, 2]\nlength = 8\nkernel = {kernel}\npadding = {}", kernel - 1);
        let dense = "[[network.layer]]\nkind = \"dense\"\nunits = 1";
        let text = format!("{head}[[network.layer]]\nkind = \"conv1d\"\n{layer}\n{dense}\n");
        Schema::parse(&text.replace("\"libra\"", "\"one\""), "x.toml")
    };
    assert!(parse(8).is_ok());
    let refusal = parse(4000).unwrap_err().to_string();
    assert!(refusal.contains("160280000 products for one answer"), "{refusal}");
}

#[test]
fn how_a_policy_runs_alone_is_no_part_of_the_hash() {
    let spine = builtin("spine").unwrap();
    assert!(!spine.text.contains("growth") && spine.text.contains("[network]"));
    let carried = Schema::parse(&spine.text, "x").unwrap();
    assert_eq!((carried.sha256(), carried.algorithm), (spine.sha256(), Default::default()));
}

#[test]
fn a_comment_or_an_indentation_is_no_difference() {
    let changed = text("libra").replace("[network]", "# a comment\n\n   [network]  ");
    assert_eq!(Schema::parse(&changed, "x").unwrap(), *builtin("libra").unwrap());
}

/// 40 Mbps were once delivered; now 20 are while 30 are sent, in 20 ms of a path of 50 ms with 25 ms of queue. The values
/// are those of the papers' and the released codes' formulas, as the head of each schema tells them, by hand.
#[test]
fn inputs_are_those_that_the_papers_compute() {
    let first = Observation::quiet(Rate::from_mbps(40.0));
    let seen = Observation {
        rate: Rate::from_mbps(30.0),
        delivery_rate: Rate::from_mbps(20.0),
        srtt: Dur::from_millis(60),
        min_rtt: Dur::from_millis(50),
        rtt: Dur::from_millis(75),
        rtt_gradient: 0.1,
        loss_rate: 0.1,
        interval: Dur::from_millis(20),
        cwnd: 100_000,
        inflight: 80_000,
        acks: 45.0,
        lost: 5.0,
        mss: 1000,
        ..first
    };
    for (name, wanted) in [
        // Throughput, pacing rate, 5 · loss rate over the largest throughput, samples over window, s, min RTT / srtt,
        // the same with a quarter more.
        ("orca-released", &[0.5, 0.75, 5.0 * 2.0 / 40.0, 0.45, 0.02, 50.0 / 60.0, 1.0][..]),
        ("orca", &[0.5, 0.75, 5.0 * 2.0 / 40.0, 0.45, 0.02, 50.0 / 60.0, 50.0 / 60.0]),
        // Half the slope, RTT over the smallest, sent over delivered.
        ("aurora", &[0.05, 1.5, 1.5]),
        // ms and Mbps over 200, packets over 5000; then the choice before, which is none of the first four.
        ("indigo", &[0.125, 0.1, 0.15, 0.02, 0.0, 0.0, 0.0, 0.0, 1.0]),
        // … the window's 16 Mbps over the largest 40, in Astraea's 0.8; 40 Mbps over 80, 50 ms over 500.
        ("astraea", &[0.5, 1.5, 1.2, 0.32, 0.5, 0.1, 2.0 / 40.0, 0.8, 0.75, 0.05]),
        // 20 Mbps in 25 ms are 62.5 packets; RTT over the smallest, halved; then the paper's.
        ("libra", &[0.75, 1.5, 0.1, 0.4, 0.75]),
        ("libra-rl", &[62.5 / 20.0, 62.5 / 500.0, 0.75, 0.75, 1.5, 0.1, 0.4, 0.75]),
        // … with the packets that wait and the RTT over the smallest of two seconds beside the paper's.
        (
            "spine",
            &[0.5, 0.75, 0.4, 0.5, 0.1, 0.1, 0.8, 0.75, 62.5 / 20.0, 62.5 / 500.0, 0.75, 0.0, 0.0, 0.0, 0.0],
        ),
        ("spine-cubic", &[0.5, 0.75, 0.4, 0.5, 0.1, 0.1, 0.8, 0.75, 0.0, 0.0]),
    ] {
        let schema = builtin(name).unwrap();
        let mut features = Features::new(schema);
        features.push(&first);
        let input = features.push(&seen);
        let newest = &input[input.len() - schema.features.len()..];
        let close = newest.iter().zip(wanted).all(|(is, wanted)| (f64::from(*is) - wanted).abs() < 1e-6);
        assert!(close && newest.len() == wanted.len(), "{name}: {newest:?}, by the paper {wanted:?}");
    }
}

/// As above, with 25 Mbps at most in the last ten seconds. Two intervals are the last 10, 200 and 1000.
#[test]
fn sage_sees_six_signals_over_three_windows_and_the_last_interval() {
    let first = Observation::quiet(Rate::from_mbps(40.0));
    let seen = Observation {
        rate: Rate::from_mbps(30.0),
        delivery_rate: Rate::from_mbps(20.0),
        max_delivery_10s: Rate::from_mbps(25.0),
        srtt: Dur::from_millis(60),
        rtt: Dur::from_millis(75),
        rtt_var: Dur::from_millis(5),
        loss_rate: 0.1,
        interval: Dur::from_millis(20),
        cwnd: 100_000,
        inflight: 80_000,
        lost: 5.0,
        mss: 1000,
        ..first
    };
    let mut features = Features::new(builtin("sage").unwrap());
    features.push(&first);
    let input = features.push(&seen);
    // 100 ms, 100 Mbps, whether anything was lost.
    let mut wanted = vec![0.6, 0.1, 0.2, 1.0];
    // RTT over twice the smallest, throughput over the largest of ten seconds, smallest over smoothed RTT, variation over the
    // smallest; in flight over twice the product of the flow's 40 Mbps and 50 ms, which are 250 packets.
    for [before, now] in [[0.5, 0.6], [1.0, 0.8], [1.0, 50.0 / 60.0], [0.0, 0.1], [0.5, 0.16]] {
        wanted.extend([f64::midpoint(before, now), now.min(before), now.max(before)].repeat(3));
    }
    // Loss rates, and 62.5 packets queued in the place of two.
    wanted.extend([0.05, 0.0, 0.1, 0.05, 62.5 / 20.0, 0.1, 0.05, 62.5 / 500.0, 0.1]);
    wanted.extend([20.0 / 50.0, 50.0 / 60.0, 2.0 / 25.0, 30.0 / 25.0, 20.0 / 80.0, 250.0 / 100.0]);
    wanted.extend([0.8, 0.8, 0.25, 40.0 / 80.0, 0.0]);
    let names = builtin("sage").unwrap().features.iter().map(|feature| &feature.name);
    assert_eq!(input.len(), wanted.len());
    for ((is, wanted), name) in input.iter().zip(wanted).zip(names) {
        assert!((f64::from(*is) - wanted).abs() < 1e-6, "{name}: {is}, by the head of the schema {wanted}");
    }
}

#[test]
fn indigo_begins_with_the_last_entry_and_then_sees_its_choices() {
    let mut features = Features::new(builtin("indigo").unwrap());
    let quiet = Observation::quiet(Rate::from_mbps(20.0));
    assert_eq!(features.push(&quiet)[4..], [0.0, 0.0, 0.0, 0.0, 1.0]);
    features.decided(&[1.0]);
    let input = features.push(&quiet).to_vec();
    assert_eq!(input[4..], [0.0, 1.0, 0.0, 0.0, 0.0]);
    assert_eq!(input[..3], [0.0, 0.1, 0.1]);
}

prop_compose! {
    fn observations()(
        rates in [num::f64::ANY, num::f64::ANY],
        spans in any::<[u64; 4]>(),
        ratios in [num::f64::ANY, num::f64::ANY],
        counts in any::<[u64; 4]>(),
        mss in any::<u32>(),
    ) -> Observation {
        let mut seen = Observation::quiet(Rate::from_bytes_per_s(rates[0]));
        seen.delivery_rate = Rate::from_bytes_per_s(rates[1]);
        [seen.srtt, seen.min_rtt, seen.rtt, seen.interval] = spans.map(Dur::from_nanos);
        (seen.min_rtt_10s, seen.min_rtt_2s) = (seen.min_rtt, seen.min_rtt);
        seen.max_delivery_10s = seen.delivery_rate;
        [seen.rtt_gradient, seen.loss_rate] = ratios;
        [seen.cwnd, seen.inflight, ..] = counts;
        [seen.acks, seen.lost] = [counts[2] as f64, counts[3] as f64];
        seen.mss = mss;
        seen
    }
}

proptest! {
    #[test]
    fn features_stay_in_their_clips(
        seen in proptest::collection::vec(observations(), 1..20),
        decided in proptest::collection::vec(num::f64::ANY, 0..6),
    ) {
        for schema in builtins() {
            let mut features = Features::new(schema);
            for observation in &seen {
                let input = features.push(observation);
                for (n, value) in input.iter().enumerate() {
                    let feature = &schema.features[n % schema.features.len()];
                    let [low, high] = feature.clip.map(|bound| bound as f32);
                    // Sets of features from before the flow's first are zeros.
                    let inside = (low..=high).contains(value) || *value == 0.0;
                    prop_assert!(inside, "{}: {} = {value}", schema.name, feature.name);
                }
                features.decided(&decided);
            }
        }
    }
}
