//! `anole-usertcp` from the outside: exit codes, messages, pages.
#![allow(clippy::disallowed_methods, reason = "the tests run the program")]

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_anole-usertcp")).args(arguments).output().unwrap()
}

fn refused(arguments: &[&str], says: &[&str]) {
    let output = run(arguments);
    let text = String::from_utf8_lossy(&output.stderr).to_string();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
    assert!(text.starts_with("anole-usertcp: "), "{text}");
    for part in says {
        assert!(text.contains(part), "{arguments:?}: {text}");
    }
}

#[test]
fn what_cannot_be_used_is_refused_by_name() {
    let address = ["--address", "10.0.0.2/24"];
    let with = |more: &[&'static str]| [&["send", "10.0.0.1:1"], &address[..], more].concat();
    refused(&with(&[]), &["--tun"]);
    refused(&with(&["--interface", "no-such-thing0"]), &["cannot open the interface no-such-thing0"]);
    refused(&with(&["--tun", "no-such-tun0"]), &["cannot open the TUN device no-such-tun0", "ip tuntap add"]);
    refused(
        &with(&["--tun", "a-name-that-is-far-too-long"]),
        &["cannot open the TUN device", "1 to 15 bytes"],
    );
    refused(&["send", "10.0.0.1:1", "--tun", "t0", "--address", "10.0.0.2"], &["ADDRESS/BITS"]);
    refused(
        &["send", "10.0.0.1:1", "--tun", "t0", "--address", "224.0.0.1/24"],
        &["--address", "single host"],
    );
    refused(
        &with(&["--tun", "t0", "--gateway", "2001:db8::1"]),
        &["--gateway 2001:db8::1", "another family"],
    );
    refused(
        &["send", "[2001:db8::1]:1", "--tun", "t0", "--address", "10.0.0.2/24"],
        &["HOST:PORT 2001:db8::1"],
    );
    refused(&["serve", "--tun", "t0", "--address", "10.0.0.2/24", "--port", "0"], &["--port"]);
}

#[test]
fn the_program_behaves_as_the_others_do() {
    anole_testing::command_line("anole-usertcp", env!("CARGO_BIN_EXE_anole-usertcp"));
}
