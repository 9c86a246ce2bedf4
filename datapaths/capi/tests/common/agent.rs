//! An agent that knows one program and one window.

use super::with_install;
use anole_datapath::wire::{FieldUpdate, Message, decode, encode};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

/// CREATE, MEASURE and READY, by message type.
pub const EVERYTHING_HEARD: [bool; 6] = [true, true, false, false, false, true];

/// Serves datapaths at `path` until `done` says so; the window is in bytes, the rate in bytes/s, 0: none. Returns which
/// message types came.
pub fn serve(path: &Path, window: u64, rate: u64, mut done: impl FnMut() -> bool) -> [bool; 6] {
    let _ = std::fs::remove_file(path);
    let agent = UnixDatagram::bind(path).expect("a socket");
    agent.set_read_timeout(Some(Duration::from_millis(10))).expect("a time limit");
    let mut heard = [false; 6];
    let mut buffer = [0; 2048];
    while !done() {
        let Ok((length, from)) = agent.recv_from(&mut buffer) else { continue };
        let from = from.as_pathname().expect("a datapath's socket has a name").to_owned();
        let answer = |message: Message<'_>| {
            let mut bytes = Vec::new();
            encode(&message, &mut bytes).expect("a message");
            // The datapath may have ended.
            let _ = agent.send_to(&bytes, &from);
        };
        heard[usize::from(buffer[0])] = true;
        match decode(&buffer[..length]).expect("a message").0 {
            Message::Ready(_) => with_install(|install| answer(Message::Install(install))),
            Message::Create(sid, create) => {
                assert!((500..=1500).contains(&create.mss), "{create:?}");
                let updates = vec![
                    FieldUpdate { kind: 8, index: 0, value: window },
                    FieldUpdate { kind: 2, index: 5, value: rate },
                ];
                answer(Message::ChangeProgram { sid, uid: 1, updates });
            }
            Message::Measure { sid, .. } => answer(Message::Update(sid, Vec::new())),
            other => panic!("not what a datapath says: {other:?}"),
        }
    }
    heard
}
