//! The example, governed by an agent that knows one program.

#![allow(clippy::disallowed_methods, reason = "runs a C compiler, and a socket for an agent")]

mod common;

use anole_datapath::wire::{FieldUpdate, Message, decode, encode};
use common::{c_program, package};
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

const WINDOW: u64 = 50_000;
/// The example prints a line a second; the first one says so, unless the host is very slow.
const MOST_SECONDS: &str = "30";

#[test]
fn an_agent_governs_the_example() {
    let Some(package) = package() else { return };
    let Some(sender) = c_program("examples", "sender", &["-O2"], &["-l:libanole_datapath.a"]) else { return };
    let path = package.join("agent.sock");
    let agent = UnixDatagram::bind(&path).expect("a socket");
    agent.set_read_timeout(Some(Duration::from_millis(10))).expect("a time limit");
    let mut child =
        Command::new(sender).arg(&path).arg(MOST_SECONDS).stdout(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let governed = std::thread::spawn(move || {
        lines.map_while(Result::ok).any(|line| line.starts_with("agent") && line.contains("50000"))
    });

    let mut heard = [false; 6];
    let mut buffer = [0; 2048];
    while !governed.is_finished() {
        let Ok((length, from)) = agent.recv_from(&mut buffer) else { continue };
        let from = from.as_pathname().expect("a datapath's socket has a name").to_owned();
        let answer = |message: Message<'_>| {
            let mut bytes = Vec::new();
            encode(&message, &mut bytes).expect("a message");
            agent.send_to(&bytes, &from).expect("the example listens");
        };
        heard[usize::from(buffer[0])] = true;
        match decode(&buffer[..length]).expect("a message").0 {
            Message::Ready(id) => {
                assert_eq!(id, child.id());
                common::with_install(|install| answer(Message::Install(install)));
            }
            Message::Create(sid, create) => {
                assert_eq!(create.mss, 1448);
                let updates = vec![FieldUpdate { kind: 8, index: 0, value: WINDOW }];
                answer(Message::ChangeProgram { sid, uid: 1, updates });
            }
            Message::Measure { sid, .. } => answer(Message::Update(sid, Vec::new())),
            other => panic!("not what a datapath says: {other:?}"),
        }
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    assert!(governed.join().expect("the reader ends"), "no line says that the agent's window is in force");
    assert_eq!(heard, [true, true, false, false, false, true], "CREATE, MEASURE, READY");
}
