//! Golden trajectories: whole flows over one bottleneck, compared with the text files in `golden/`.
//! `UPDATE_GOLDEN=1 cargo test -p anole-algorithms --test golden` writes them anew; review the difference.

mod support;

use anole_model::{Dur, Rate};
use support::{Path, World, golden};

const STEP: Dur = Dur::from_millis(200);

fn check(name: &str, algorithm: &str, policy: Option<&str>, path: Path, seconds: f64) {
    let seen = World::new(algorithm, policy, path).trajectory(Dur::from_secs_f64(seconds), STEP);
    golden(name, &seen);
}

#[test]
fn reno() {
    check("reno", "reno", None, Path::normal(), 10.0);
}

#[test]
fn cubic() {
    check("cubic", "cubic", None, Path::normal(), 20.0);
}

#[test]
fn bbr() {
    check("bbr", "bbr", None, Path::normal(), 15.0);
}

#[test]
fn vegas() {
    check("vegas", "vegas", None, Path::normal(), 15.0);
}

#[test]
fn c_libra() {
    check("c-libra", "c-libra", None, Path::normal(), 15.0);
}

#[test]
fn b_libra() {
    check("b-libra", "b-libra", None, Path::normal(), 15.0);
}

#[test]
fn cl_libra_with_the_rule_for_a_policy() {
    check("cl-libra", "cl-libra", Some("delay-target"), Path::normal(), 15.0);
}

#[test]
fn anole() {
    check("anole", "anole", None, Path::normal(), 15.0);
}

#[test]
fn anole_without_a_policy() {
    check("anole-none", "anole", Some("none"), Path::normal(), 10.0);
}

#[test]
fn anole_with_a_random_policy() {
    check("anole-fault-random", "anole", Some("fault:random"), Path::normal(), 10.0);
}

#[test]
fn anole_under_loss() {
    check("anole-loss", "anole", None, Path { loss: 0.01, ..Path::normal() }, 10.0);
}

#[test]
fn anole_on_a_slow_path() {
    let path =
        Path { rate: Rate::from_mbps(2.0), rtt: Dur::from_millis(80), buffer_bytes: 40_000.0, loss: 0.0 };
    check("anole-slow", "anole", None, path, 15.0);
}

#[test]
fn anole_on_a_shallow_buffer() {
    check("anole-shallow", "anole", None, Path { buffer_bytes: 24_000.0, ..Path::normal() }, 10.0);
}
