//! Datapaths in other processes of this host, over Unix datagrams.
//!
//! Only processes of this user and of root are heard: the kernel puts the sender's credentials beside
//! every datagram (SO_PASSCRED in unix(7)).

use super::guard::Refusal;
use super::socket_path::{self, Place, SocketError};
use super::{Received, Sent, Transport};
use anole_model::Dur;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrLike, UnixAddr, UnixCredentials, bind, recvmsg, sendto,
    setsockopt, sockopt,
};
use nix::unistd::geteuid;
use std::io::IoSliceMut;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixDatagram;
use std::path::Path;

/// Room asked of the kernel for datagrams in both directions: one that waits costs about 1 KiB, so
/// thousands of flows may report while an algorithm computes, and what a datapath that does not read
/// keeps of the agent's own room leaves enough for the others. The kernel caps it for all but root.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// Length of the address of a socket with a name: the family and 1 to 108 bytes (unix(7)). The kernel
/// gives 0 for one without, and 111 for a name of 108 bytes; nix panics on the one and reads too far for
/// the other when it is asked for the name.
const NAMED_BYTES: RangeInclusive<u32> = 3..=110;

/// The agent's socket.
#[derive(Debug)]
pub struct Unix {
    socket: UnixDatagram,
    place: Place,
    uid: u32,
}

impl Unix {
    /// Binds the socket at `path`.
    pub fn bind(path: &Path) -> Result<Unix, SocketError> {
        Unix::bind_with(path, SOCKET_BUFFER_BYTES)
    }

    /// Binds the socket at `path` with so much room in each direction.
    pub fn bind_with(path: &Path, buffer_bytes: usize) -> Result<Unix, SocketError> {
        let (place, socket) = socket_path::claim(path, |path| {
            let socket = UnixDatagram::unbound()?;
            socket.set_nonblocking(true)?;
            // Before anybody can send: a datagram that waits already has no credentials.
            setsockopt(&socket, sockopt::PassCred, &true)?;
            // Only root may pass the system's limit.
            setsockopt(&socket, sockopt::RcvBufForce, &buffer_bytes)
                .or_else(|_| setsockopt(&socket, sockopt::RcvBuf, &buffer_bytes))?;
            setsockopt(&socket, sockopt::SndBufForce, &buffer_bytes)
                .or_else(|_| setsockopt(&socket, sockopt::SndBuf, &buffer_bytes))?;
            bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
            Ok(socket)
        })?;
        Ok(Unix { socket, place, uid: geteuid().as_raw() })
    }

    /// Where it is bound.
    pub fn place(&self) -> &Place {
        &self.place
    }

    fn read(&self, buffer: &mut [u8]) -> Result<Received<UnixAddr>, Errno> {
        let mut parts = [IoSliceMut::new(buffer)];
        let mut control = nix::cmsg_space!(UnixCredentials);
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let fd = self.socket.as_raw_fd();
        let got = recvmsg::<UnixAddr>(fd, &mut parts, Some(&mut control), flags)?;
        // Beside the credentials there is no room, and the kernel installs no descriptor without.
        let Ok(mut control) = got.cmsgs() else { return Ok(Received::Refused(Refusal::Framing)) };
        let sender = control.find_map(|message| match message {
            ControlMessageOwned::ScmCredentials(credentials) => Some(credentials.uid()),
            _ => None,
        });
        Ok(match (sender, got.address) {
            (Some(uid), _) if uid != self.uid && uid != 0 => Received::Refused(Refusal::Credentials),
            (None, _) => Received::Refused(Refusal::Credentials),
            _ if got.flags.contains(MsgFlags::MSG_TRUNC) => Received::Refused(Refusal::Oversized),
            (_, Some(from)) if NAMED_BYTES.contains(&from.len()) => Received::Datagram(got.bytes, from),
            _ => Received::Refused(Refusal::NoAddress),
        })
    }
}

impl Transport for Unix {
    type Addr = UnixAddr;
    const NAME: &'static str = "unix";

    fn receive(&self, buffer: &mut [u8], wait: Dur) -> Received<UnixAddr> {
        match self.read(buffer) {
            Err(Errno::EAGAIN) => {}
            Err(Errno::EINTR) => return Received::Nothing,
            Err(_) => return Received::Refused(Refusal::Socket),
            Ok(received) => return received,
        }
        if wait_readable(&self.socket, wait) == Err(Errno::EBADF) {
            return Received::Refused(Refusal::Socket);
        }
        match self.read(buffer) {
            Err(Errno::EAGAIN | Errno::EINTR) => Received::Nothing,
            Err(_) => Received::Refused(Refusal::Socket),
            Ok(received) => received,
        }
    }

    fn show(addr: &UnixAddr) -> String {
        addr.to_string()
    }

    /// A socket is ready for writing while what was not read takes at most a quarter of its send buffer (unix(7) leaves
    /// it to the kernel: `unix_writable()`).
    fn has_room(&self) -> bool {
        let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLOUT)];
        poll(&mut fds, PollTimeout::ZERO) != Ok(0)
    }

    fn send(&self, message: &[u8], to: &UnixAddr) -> Sent {
        match sendto(self.socket.as_raw_fd(), message, to, MsgFlags::MSG_DONTWAIT) {
            Ok(_) => Sent::Whole,
            Err(error) => sent(error),
        }
    }
}

/// Sleeps until there is something to read, a signal comes or the time is over. A sleep is a whole
/// number of milliseconds, rounded up so that nothing spins before it is due.
pub fn wait_readable(socket: &impl AsFd, wait: Dur) -> Result<(), Errno> {
    let millis = wait.as_micros().div_ceil(1000).min(1000) as u16;
    let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::from(millis)).map(|_| ())
}

/// What an error of a send means.
pub fn sent(error: Errno) -> Sent {
    match error {
        Errno::EAGAIN | Errno::ENOBUFS | Errno::EINTR | Errno::ENOMEM => Sent::Full,
        Errno::ECONNREFUSED | Errno::ENOENT | Errno::ENOTDIR | Errno::EPROTOTYPE | Errno::ECONNRESET => {
            Sent::Gone
        }
        _ => Sent::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{ControlMessage, sendmsg};

    #[test]
    fn datagrams_carry_their_sender_and_the_nameless_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("agent");
        let agent = Unix::bind(&path).unwrap();
        let mut buffer = [0; 64];
        let nothing = agent.receive(&mut buffer, Dur::from_millis(1));
        assert!(matches!(nothing, Received::Nothing));

        let nameless = UnixDatagram::unbound().unwrap();
        nameless.send_to(b"hello", &path).unwrap();
        let refused = agent.receive(&mut buffer, Dur::from_millis(100));
        assert!(matches!(refused, Received::Refused(Refusal::NoAddress)));

        let datapath = UnixDatagram::bind(directory.path().join("dp")).unwrap();
        datapath.send_to(b"hello", &path).unwrap();
        let Received::Datagram(5, from) = agent.receive(&mut buffer, Dur::from_millis(100)) else {
            panic!("a named sender is heard")
        };
        assert!(Unix::show(&from).ends_with("/dp"));
        assert_eq!(agent.send(b"answer", &from), Sent::Whole);
        assert_eq!(datapath.recv(&mut buffer).unwrap(), 6);

        datapath.send_to(&[7; 65], &path).unwrap();
        let refused = agent.receive(&mut buffer, Dur::from_millis(100));
        assert!(matches!(refused, Received::Refused(Refusal::Oversized)));
    }

    #[test]
    fn descriptors_are_refused_and_stay_out() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("agent");
        let agent = Unix::bind(&path).unwrap();
        let sender = UnixDatagram::bind(directory.path().join("dp")).unwrap();
        let (kept, given) = std::os::unix::net::UnixStream::pair().unwrap();
        let descriptors = [given.as_raw_fd()];
        let (parts, control) = ([std::io::IoSlice::new(b"hello")], [ControlMessage::ScmRights(&descriptors)]);
        let to = UnixAddr::new(&path).unwrap();
        sendmsg(sender.as_raw_fd(), &parts, &control, MsgFlags::empty(), Some(&to)).unwrap();
        drop(given);
        let refused = agent.receive(&mut [0; 64], Dur::from_millis(100));
        assert!(matches!(refused, Received::Refused(Refusal::Framing)));
        kept.set_nonblocking(true).unwrap();
        assert_eq!(std::io::Read::read(&mut &kept, &mut [0]).unwrap(), 0, "nobody has the other end");
    }

    #[test]
    fn another_user_is_not_heard() {
        if !geteuid().is_root() {
            anole_testing::skip!("only root may send under another user's id");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("agent");
        let agent = Unix::bind(&path).unwrap();
        let sender = UnixDatagram::bind(directory.path().join("dp")).unwrap();
        let mut buffer = [0; 64];
        for (uid, heard) in [(0, true), (65_534, false)] {
            let pid = std::process::id() as i32;
            let credentials = UnixCredentials::from(nix::libc::ucred { pid, uid, gid: 0 });
            let control = [ControlMessage::ScmCredentials(&credentials)];
            let parts = [std::io::IoSlice::new(b"hello")];
            let to = UnixAddr::new(&path).unwrap();
            sendmsg(sender.as_raw_fd(), &parts, &control, MsgFlags::empty(), Some(&to)).unwrap();
            match agent.receive(&mut buffer, Dur::from_millis(100)) {
                Received::Datagram(5, _) => assert!(heard, "user {uid} is heard"),
                Received::Refused(Refusal::Credentials) => assert!(!heard, "user {uid} is not heard"),
                _ => panic!("user {uid}: nothing came"),
            }
        }
    }

    #[test]
    fn a_full_socket_and_a_gone_one_are_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("agent");
        let agent = Unix::bind(&path).unwrap();
        let name = directory.path().join("dp");
        let datapath = UnixDatagram::bind(&name).unwrap();
        let to = UnixAddr::new(&name).unwrap();
        let first_refusal = (0..100_000).map(|_| agent.send(b"x", &to)).find(|sent| *sent != Sent::Whole);
        assert_eq!(first_refusal, Some(Sent::Full));
        drop(datapath);
        assert_eq!(agent.send(b"x", &to), Sent::Gone);
        std::fs::remove_file(&name).unwrap();
        assert_eq!(agent.send(b"x", &to), Sent::Gone);
    }
}
