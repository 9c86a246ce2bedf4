// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! No message is left unread by an agent that waits.

use super::support::{choose, next, registered};
use anole_bpf::Mode;
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Each message comes when the one before it has been read, as the agent goes to sleep: with no pause, while it
/// naps, and when it has slept for a while. None follows it that would wake the agent in its stead.
#[test]
fn an_agent_never_sleeps_over_a_message() {
    const MESSAGES: u64 = 4000;
    // Of a heartbeat, a little less.
    const STALE: Duration = Duration::from_millis(490);
    let Some((mut datapath, _guard)) = registered(Mode::Generated) else { return };
    next(&mut datapath, 5);
    datapath.beat();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let ((read, was_read), (chosen, was_chosen)) = (mpsc::channel(), mpsc::channel());
    let flow = std::thread::spawn(move || {
        for n in 0..MESSAGES {
            // CREATE, then the MEASURE of the end.
            choose(&stream, if n % 2 == 0 { "anole_ccp" } else { "reno" });
            if chosen.send(Instant::now()).is_err() || was_read.recv().is_err() {
                return;
            }
            let (begin, pause) = (Instant::now(), Duration::from_micros(n * 37 % 1500));
            while n % 3 == 0 && begin.elapsed() < pause {
                std::thread::yield_now();
            }
        }
    });
    let mut buffer = [0; 1024];
    for n in 0..MESSAGES {
        // Nobody wakes it from a wait over an unread message; it ends by itself, and the message is found then. A
        // wait that ends early is none: it saw the room taken for a message that was still being written.
        let begin = Instant::now();
        let waited = Duration::from_secs(5);
        let length = std::iter::repeat_with(|| datapath.receive(&mut buffer, waited))
            .find(|length| length.is_some() || begin.elapsed() > 2 * waited)
            .flatten();
        let at = was_chosen.recv().unwrap();
        if length.is_some() {
            let took = at.elapsed();
            assert!(took < Duration::from_secs(3), "message {n} waited unread for {took:?}");
            assert_eq!(buffer[0], if n % 2 == 0 { 0 } else { 1 });
        } else {
            // The host held the flow back for so long that the agent, which beats when it begins to wait, was taken
            // for dead: there was no message.
            assert!(at - begin > STALE, "message {n} never came");
            eprintln!("no message {n}: the flow was held back for {:?}", at - begin);
        }
        read.send(()).unwrap();
    }
    flow.join().unwrap();
    assert_eq!(datapath.stats().unsent, 0);
}
