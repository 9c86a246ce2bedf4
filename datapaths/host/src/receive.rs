//! The receive thread: what the agent sends, and whether there is a new agent to announce to.

use crate::shared::Shared;
use crate::socket::{AgentSocket, Identity};
use anole_datapath::ProgramTable;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;

/// How often the agent's socket is looked at: a restarted agent is announced to within this time,
/// which is short against the time-out after which its flows are missed.
const LOOK_MS: u16 = 100;

/// Largest datagram taken: an INSTALL of 256 expressions and 256 instructions is 8 212 bytes, and
/// several messages may share a datagram.
const MAX_DATAGRAM_BYTES: usize = 64 * 1024;

/// Connects and announces to an agent whose socket is not the one of `greeted`; returns whom the host
/// knows now. What is refused (file there, nobody listening) is to be tried again at the next look.
pub(crate) fn greet(shared: &Shared, greeted: Option<Identity>) -> Option<Identity> {
    let socket = shared.socket.as_ref()?;
    let present = socket.agent_identity();
    let fresh = present.is_some() && present != greeted;
    if fresh && (socket.connect().is_err() || shared.announce().is_err()) { None } else { present }
}

/// Runs until the host is dropped; `greeted` is the agent that it was opened with.
pub(crate) fn run(shared: &Shared, mut greeted: Option<Identity>) {
    let Some(socket) = &shared.socket else { return };
    let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
    let mut programs = ProgramTable::default();
    while !shared.stop.load(Relaxed) {
        greeted = greet(shared, greeted);
        let mut fds = [PollFd::new(socket.inner().as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::from(LOOK_MS)) {
            Ok(0) | Err(nix::errno::Errno::EINTR) => {}
            Ok(_) => drain(shared, socket, &mut programs, &mut buffer),
            Err(error) => {
                tracing::error!(%error, "datapath host cannot wait for the agent; flows stay on their fallback");
                return;
            }
        }
    }
}

/// Takes every datagram that waits.
fn drain(shared: &Shared, socket: &AgentSocket, programs: &mut ProgramTable, buffer: &mut [u8]) {
    loop {
        match socket.receive(buffer) {
            // A read without bytes or sender is what a socket that was shut down gives for ever.
            Ok((0, false)) => return,
            Ok((length, true)) => take(shared, programs, &buffer[..length]),
            Ok((_, false)) => refuse(shared, "not from the agent"),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Takes the messages of one datagram.
fn take(shared: &Shared, programs: &mut ProgramTable, datagram: &[u8]) {
    let now = shared.clock.now();
    let outcome = programs.receive(datagram, |sid, message| match shared.port(sid) {
        Some(port) => {
            port.put(&message);
            true
        }
        None => false,
    });
    match outcome {
        Ok(()) => {
            shared.counters.datagrams.fetch_add(1, Relaxed);
        }
        Err(error) => refuse(shared, &error.to_string()),
    }
    if programs.wants_programs(now) {
        // Where this fails, the agent is gone, or its queue is full and it will name the program again.
        let _ = shared.announce();
    }
}

/// Counts a refused datagram; the first of a host is worth a line.
fn refuse(shared: &Shared, reason: &str) {
    if shared.counters.refused.fetch_add(1, Relaxed) == 0 {
        tracing::warn!(reason, "datapath host refused a datagram; further ones are only counted");
    } else {
        tracing::debug!(reason, "datapath host refused a datagram");
    }
}
