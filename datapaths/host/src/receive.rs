//! The receive thread: what the agent sends, and whether there is a new agent to announce to.

use crate::shared::Shared;
use crate::socket::{AgentSocket, Identity};
use anole_datapath::ProgramTable;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// How often the agent's socket is looked at: a restarted agent is announced to within this time,
/// which is short against the time-out after which its flows are missed.
const LOOK_MS: u16 = 100;

/// Largest datagram taken: an INSTALL of 256 expressions and 256 instructions is 8 212 bytes, and
/// several messages may share a datagram.
const MAX_DATAGRAM_BYTES: usize = 64 * 1024;

/// Whom the host knows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    connected: Option<Identity>,
    /// Whoever was announced to.
    greeted: Option<Identity>,
}

/// Announces to an agent whose socket is not the one that was greeted, after connecting to it once; returns whether it
/// has connected. What is refused (file there, nobody listening; a full queue) is to be tried again at the next look.
pub(crate) fn greet(shared: &Shared, known: &mut Known) -> bool {
    let Some(socket) = &shared.socket else { return false };
    let present = socket.agent_identity();
    let connects = present.is_some() && present != known.connected;
    if connects {
        known.greeted = None;
        if socket.connect().is_err() {
            return false;
        }
        known.connected = present;
    }
    let fresh = present.is_some() && present != known.greeted;
    known.greeted = if fresh && shared.announce().is_err() { None } else { present };
    connects
}

/// Tells a busy agent of the ends that wait, until it would be lost.
pub(crate) fn last_ends(shared: &Shared) {
    let Some(socket) = &shared.socket else { return };
    let until = Instant::now() + Duration::from_nanos(shared.options.agent_timeout.as_nanos());
    while shared.tell_ends() {
        let mut fds = [PollFd::new(socket.inner().as_fd(), PollFlags::POLLOUT)];
        if Instant::now() >= until || poll(&mut fds, PollTimeout::from(LOOK_MS)).is_err() {
            return;
        }
    }
}

/// Runs until the host is dropped; `known` is the agent that it was opened with.
pub(crate) fn run(shared: &Shared, mut known: Known) {
    let Some(socket) = &shared.socket else { return };
    let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
    let mut programs = ProgramTable::default();
    while !shared.stop.load(Relaxed) {
        if greet(shared, &mut known) {
            // Another agent's programs may have the same ids.
            programs = ProgramTable::default();
        }
        let mut events = PollFlags::POLLIN;
        // Whatever else keeps an end from being told (no agent) is tried again at the next look.
        events.set(PollFlags::POLLOUT, shared.tell_ends());
        let mut fds = [PollFd::new(socket.inner().as_fd(), events)];
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
        None => shared.has_ended(sid),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostOptions;
    use std::os::unix::net::UnixDatagram;

    /// A flow may have announced itself to an agent that READY could not reach, and been answered.
    #[test]
    fn another_greeting_throws_nothing_away() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.sock");
        let agent = UnixDatagram::bind(&path).unwrap();
        let other = UnixDatagram::unbound().unwrap();
        for socket in [&agent, &other] {
            socket.set_nonblocking(true).unwrap();
        }
        while other.send_to(&[0], &path).is_ok() {}
        let shared = Shared::new(Some(AgentSocket::bind(&path).unwrap()), HostOptions::default());
        let socket = shared.socket.as_ref().unwrap();
        let mut known = Known::default();
        assert!(greet(&shared, &mut known), "connected");
        assert_eq!(shared.counters.announcements.load(Relaxed), 0, "its queue is full");
        while agent.recv(&mut [0; 16]).is_ok() {}
        agent.send_to(&[7; 12], socket.path()).unwrap();
        assert!(!greet(&shared, &mut known), "connected before");
        assert_eq!(shared.counters.announcements.load(Relaxed), 1);
        assert_eq!(socket.receive(&mut [0; 16]).unwrap(), (12, true));
    }
}
