//! The example, governed by an agent.

#![allow(clippy::disallowed_methods, reason = "runs a C compiler, and a socket for an agent")]

mod common;

use common::{agent, c_program, package};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const WINDOW: u64 = 50_000;
/// The example prints a line a second; the first one says so, unless the host is very slow.
const MOST_SECONDS: &str = "30";

#[test]
fn an_agent_governs_the_example() {
    let Some(package) = package() else { return };
    let Some(sender) = c_program("examples", "sender", &["-O2"], &["-l:libanole_datapath.a"]) else { return };
    let path = package.join("agent.sock");
    let mut child =
        Command::new(sender).arg(&path).arg(MOST_SECONDS).stdout(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let governed = std::thread::spawn(move || {
        lines
            .map_while(Result::ok)
            .any(|line| line.starts_with("agent") && line.contains(&WINDOW.to_string()))
    });
    // The example begins without the agent.
    let heard = agent::serve(&path, WINDOW, 0, || governed.is_finished());
    child.kill().expect("it was started");
    child.wait().expect("it ends");
    assert!(governed.join().expect("the reader ends"), "no line says that the agent's window is in force");
    assert_eq!(heard, agent::EVERYTHING_HEARD);
}
