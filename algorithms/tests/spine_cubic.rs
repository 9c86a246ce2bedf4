//! Spine-X over CUBIC: the program is CUBIC, its two registers do what they say, and the policy governs them.

mod support;

use anole_algorithms::learned::spec;
use anole_algorithms::{Build, FlowInfo};
use anole_model::{Dur, Time};
use anole_policies::{Schema, schema};
use std::collections::BTreeMap;
use support::by_hand::only;
use support::{MSS, Path, World};

fn shipped() -> &'static Schema {
    schema::builtin("spine-cubic").unwrap()
}

/// The schema with bounds within which lie a beta of 0.7 and a C of 0.4, those of RFC 9438.
fn wide() -> &'static Schema {
    let text = include_str!("../../policies/schemas/spine-cubic.toml");
    let text = text.replace("high = 0.6", "high = 0.95").replace("low = 1.0", "low = 0.05");
    Box::leak(Box::new(Schema::parse(&text, "wide.toml").unwrap()))
}

/// Outputs for these two under [`wide`], and the trigger always on.
fn as_the_rfc(_: &Schema, _: &[f32]) -> Vec<f32> {
    let output = |value: f32, low: f32, high: f32| 2.0 * (value - low) / (high - low) - 1.0;
    vec![output(0.7, 0.3, 0.95), output(0.4, 0.05, 4.0), 1.0]
}

/// A flow with these outputs on the path for so long: Mbps in the last 20 s, share lost.
fn outcome(
    schema: &'static Schema,
    outputs: fn(&Schema, &[f32]) -> Vec<f32>,
    path: Path,
) -> (f64, f64, World) {
    let what = Build {
        flow: FlowInfo { mss: MSS, init_cwnd: 10 * MSS },
        classic: None,
        policy: None,
        policies: only(schema, outputs),
        params: BTreeMap::new(),
        seed: 1,
    };
    let mut world = World::of(spec(schema).build(&what).unwrap(), path);
    let early = world.run(Time::from_secs_f64(20.0)) as f64;
    let late = world.run(Time::from_secs_f64(40.0)) as f64;
    let lost = world.lost() as f64;
    (late * 8e-6 / 20.0, lost / (lost + early + late), world)
}

/// The same of CUBIC itself.
fn cubic(path: Path) -> f64 {
    let mut world = World::new("cubic", None, path);
    world.run(Time::from_secs_f64(20.0));
    world.run(Time::from_secs_f64(40.0)) as f64 * 8e-6 / 20.0
}

#[test]
fn with_the_rfcs_parameters_it_is_cubic() {
    for path in [
        Path::normal(),
        Path { buffer_bytes: 100_000.0, ..Path::normal() },
        // Slow start ends without loss: after one the guard would hand the program another epoch.
        Path { rtt: Dur::from_millis(150), loss: 0.0002, buffer_bytes: 2_000_000.0, ..Path::normal() },
    ] {
        let ((ours, lost, world), law) = (outcome(wide(), as_the_rfc, path), cubic(path));
        println!("{path:?}: {ours:.2} Mbps, {lost:.5} lost, CUBIC {law:.2}");
        // What slow start overshoots is in it.
        assert!((ours / law - 1.0).abs() < 0.1 && lost < 0.05, "{path:?}: {ours} {law} {lost}");
        assert!(world.telemetry().decisions > 100, "{:?}", world.telemetry());
    }
}

#[test]
fn the_registers_do_what_they_say() {
    let path = Path { buffer_bytes: 100_000.0, ..Path::normal() };
    let rate = |outputs| outcome(shipped(), outputs, path).0;
    let timid = rate(|_, _| vec![-1.0, -1.0, 1.0]);
    let bold = rate(|_, _| vec![1.0, 1.0, 1.0]);
    println!("{timid:.2} and {bold:.2} Mbps");
    assert!(bold > 1.1 * timid, "{bold} {timid}");
}

#[test]
fn a_generator_that_is_not_triggered_changes_nothing() {
    let (mbps, _, world) = outcome(shipped(), |_, _| vec![0.0, 0.0, 0.0], Path::normal());
    let told = world.telemetry();
    assert!(told.decisions == 0 && told.inferences > 100, "{told:?}");
    assert!(mbps > 40.0, "{mbps}");
}
