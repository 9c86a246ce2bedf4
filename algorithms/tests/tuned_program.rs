//! A schema that is not part of the program lets a policy tune a fold program that was not made for policies.

mod support;

use anole_algorithms::learned::{Policies, spec};
use anole_algorithms::{Algorithm, Build, FlowInfo, Spec};
use anole_model::Time;
use anole_policies::Schema;
use std::collections::BTreeMap;
use std::sync::Arc;
use support::by_hand::only;
use support::{MSS, Path, World};

/// Sets the threshold at which Reno's window stops to grow fast: 20 kB at -1, 600 kB at 1.
fn tuned_reno() -> &'static Schema {
    let text = include_str!("schemas/tuned-reno.toml");
    Box::leak(Box::new(Schema::parse(text, "tuned-reno.toml").unwrap()))
}

fn build(spec: &Spec, policies: Arc<dyn Policies>) -> Result<Box<dyn Algorithm>, String> {
    let flow = FlowInfo { mss: MSS, init_cwnd: 10 * MSS };
    let what = Build { flow, classic: None, policy: None, policies, params: BTreeMap::new(), seed: 1 };
    spec.build(&what).map_err(|error| error.to_string())
}

/// A flow of ten seconds: its rate in the first half and in all, Mbps, and the share of its packets that was lost.
fn outcome(outputs: fn(&Schema, &[f32]) -> Vec<f32>, path: Path) -> (f64, f64, f64, World) {
    let algorithm = build(&spec(tuned_reno()), only(tuned_reno(), outputs)).unwrap();
    let mut world = World::of(algorithm, path);
    let half = world.run(Time::from_secs_f64(5.0));
    let all = half + world.run(Time::from_secs_f64(10.0));
    let mbps = |bytes: u64, seconds| bytes as f64 * 8e-6 / seconds;
    let lost = world.lost() as f64;
    (mbps(half, 5.0), mbps(all, 10.0), lost / (lost + all as f64), world)
}

#[test]
fn the_row_says_what_the_schema_says() {
    let row = spec(tuned_reno());
    assert_eq!((row.name, row.kind, row.source), ("tuned-reno", "learned", "A test"));
    let programs: Vec<_> = row.programs.iter().map(|program| program.name).collect();
    assert_eq!(programs, ["reno", "rate-hold"], "the one tuned, and the one that holds the rule's window");
    let parameters: Vec<_> = row.parameters.iter().map(|parameter| parameter.name).collect();
    assert_eq!(parameters, ["guard", "interval_ms"]);
    assert!(row.takes_policy && !row.takes_classic);
}

#[test]
fn the_policys_registers_govern_the_program() {
    // 300 kB fill the path. Slow start ends with the first decisions, at some 30 kB, and 5 s of a packet per 50 ms
    // add 145 kB: 16 Mbps on the mean.
    let (low, _, lost, world) = outcome(|_, _| vec![-1.0], Path::normal());
    assert!((14.0..19.0).contains(&low) && lost == 0.0, "{low}, {lost}");
    let told = world.telemetry();
    assert!(told.decisions > 100 && told.decisions == told.inferences, "{told:?}");
    // Slow start to 310 kB.
    let (high, ..) = outcome(|_, _| vec![0.0], Path::normal());
    assert!((44.0..=48.0).contains(&high), "{high}");
}

#[test]
fn a_rule_in_another_program_takes_over_and_gives_back() {
    // Always fast growth: the buffer overflows until the guard takes the flow away, again and again.
    let (_, mbps, lost, world) = outcome(|_, _| vec![1.0], Path { buffer_bytes: 60_000.0, ..Path::normal() });
    let applied = world.telemetry().applied;
    assert!(applied.rule > applied.learned && !applied.learned.is_zero(), "{applied:?}");
    assert!(mbps > 24.0 && lost < 0.15, "{mbps} Mbps, {lost} lost");
    // Without a usable answer the rule has the flow for good, and fills the path.
    let (_, mbps, lost, _) = outcome(|_, _| vec![f32::NAN], Path::normal());
    assert!(mbps > 0.8 * 48.0 && lost < 0.01, "{mbps} Mbps, {lost} lost");
}

#[test]
fn a_program_that_does_not_report_what_a_feature_needs_is_refused() {
    let text = include_str!("schemas/tuned-reno.toml").replace("\"rtt-ms\"", "\"inflight-packets\"");
    let schema: &'static Schema = Box::leak(Box::new(Schema::parse(&text, "x.toml").unwrap()));
    assert_eq!(
        build(&spec(schema), only(schema, |_, _| vec![0.0])).err().unwrap(),
        "--alg tuned-reno can't run tuned-reno: reno reports no inflight, which RTT over smallest needs"
    );
}
