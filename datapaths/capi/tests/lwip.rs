//! A foreign stack under the C interface: Debian's lwIP, whose window and rate an agent sets.

#![allow(clippy::disallowed_methods, reason = "runs a C compiler, and a socket for an agent")]

mod common;

use common::{SANITIZERS, agent, c_program, package};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

const BYTES: u64 = 1_500_000;
/// Bytes; less than lwIP's buffer of 64 KiB.
const WINDOW: u64 = 40_000;
/// Exit code of the program where it may not make a TUN device.
const NO_DEVICE: i32 = 77;

/// The program, if it can be built here. Tests of one process build it once.
fn program() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    BUILT.get_or_init(build).as_deref()
}

fn build() -> Option<PathBuf> {
    package()?;
    if !Path::new("/usr/include/lwip/lwip/tcp.h").exists() {
        anole_testing::skip!("lwIP is not installed (package liblwip-dev)");
        return None;
    }
    // lwIP's headers are not free of warnings.
    let options = [&SANITIZERS[..], &["-isystem", "/usr/include/lwip"]].concat();
    c_program("tests/c", "lwip", &options, &["-l:libanole_datapath.a", "-llwip"])
}

/// What the program prints, under an agent that sets `WINDOW` and `rate`, bytes/s.
fn transfer(name: &str, rate: u64, drop_every: u32) -> Option<HashMap<String, f64>> {
    let program = program()?;
    let path = package()?.join(format!("{name}.sock"));
    let mut child = Command::new(program)
        .arg(&path)
        .args([BYTES.to_string(), drop_every.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let heard = agent::serve(&path, WINDOW, rate, || child.try_wait().expect("it was started").is_some());
    let output = child.wait_with_output().expect("it has ended");
    if output.status.code() == Some(NO_DEVICE) {
        anole_testing::skip!("no TUN device (root, or user namespaces and /dev/net/tun for all)");
        return None;
    }
    assert!(output.status.success(), "{}", output.status);
    assert_eq!(heard, agent::EVERYTHING_HEARD);
    let said = String::from_utf8(output.stdout).expect("text");
    let words: Vec<&str> = said.split_whitespace().collect();
    let figures = words.chunks_exact(2).map(|pair| (pair[0].to_owned(), pair[1].parse().expect("a number")));
    Some(figures.collect())
}

#[test]
fn lwip_keeps_the_agents_window_and_rate() {
    const RATE: u64 = 1_000_000;
    let Some(figures) = transfer("rate", RATE, 0) else { return };
    assert_eq!(figures["received"], BYTES as f64);
    assert_eq!((figures["governor"], figures["cwnd"], figures["rate"]), (1.0, WINDOW as f64, RATE as f64));
    assert_eq!(figures["beyond"], 0.0, "sent beyond the window: {figures:?}");
    let seen = BYTES as f64 / figures["seconds"] / RATE as f64;
    anole_testing::figure("lwIP: bytes/s, of the rate that the agent set", 0.95..=1.05, seen);
}

#[test]
fn lwip_tells_of_every_loss() {
    let Some(figures) = transfer("loss", 0, 100) else { return };
    assert_eq!(figures["received"], BYTES as f64);
    assert!(figures["dropped"] >= 10.0 && figures["lost"] >= figures["dropped"], "{figures:?}");
    // More where lwIP's timer fired: it then sends again what had arrived.
    anole_testing::figure(
        "lwIP: losses told, of those that there were",
        1.0..=1.0,
        figures["lost"] / figures["dropped"],
    );
}
