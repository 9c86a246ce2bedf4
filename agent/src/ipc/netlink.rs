//! The kernel datapath, over netlink (NETLINK_USERSOCK, multicast group 22, as ccp-kernel speaks it).
//!
//! Any local process may send to that group. Only what comes from port id 0, the kernel itself, is
//! heard; netlink(7) lets no process take that id. A datagram carries one netlink message, 16 bytes of
//! header and then CCP's bytes.

use super::guard::Refusal;
use super::unix::{sent, wait_readable};
use super::{Received, Sent, Transport};
use anole_model::Dur;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recvmsg, sendto,
    setsockopt, socket, sockopt,
};
use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// The group that ccp-kernel sends to, as a bit of the bind mask.
const GROUP_MASK: u32 = 1 << (22 - 1);
/// The agent's port id ("ACCP"), by which /proc/net/netlink shows it. The kernel gives an id to one socket only, and
/// chooses ids for others from process ids, which end far below; but any user may take it.
const PORT: u32 = 0x4143_4350;
/// The kernel chooses.
const ANY_PORT: u32 = 0;
/// nlmsghdr: u32 length, u16 type, u16 flags, u32 sequence, u32 port id (RFC 3549 §2.3.2).
const HEADER_BYTES: usize = 16;
/// Room for reports that have not been read, bytes: some 5000. The host's default holds 200, which is less than the flows
/// of a busy host report in a millisecond.
const RECEIVE_BYTES: usize = 4 << 20;
/// Names of the congestion controls that are registered.
const REGISTERED: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
/// The host's netlink sockets: one a line, with protocol, port id and groups in the second to the fourth column.
const SOCKETS: &str = "/proc/net/netlink";
/// There while our module is loaded.
const OUR_MODULE: &str = "/sys/module/tcp_anole_ccp";
/// Port id of the kernel.
const KERNEL: u32 = 0;

/// A netlink socket.
#[derive(Debug)]
pub struct Netlink(OwnedFd);

/// Why there is no netlink socket.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    /// Another agent may be there.
    #[error(
        "--ipc netlink: another agent, or a program in its place, holds port id {PORT} of this host's netlink \
         (/proc/net/netlink tells of it); stop it. One that is in no group (Groups 00000000) is no agent, and does no harm \
         where there is room for the agent's control socket"
    )]
    Taken,
    /// The system refuses.
    #[error("--ipc netlink: cannot {what} ({errno}); it needs root")]
    Refused {
        /// What was tried.
        what: &'static str,
        /// The system's word.
        errno: Errno,
    },
}

impl Netlink {
    /// Joins the group. `alone`: no other agent runs on this host. Who does not know that takes nothing but the agent's
    /// own port id, which another agent has.
    pub fn open(alone: bool) -> Result<Netlink, NetlinkError> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkUserSock)
            .map_err(|errno| NetlinkError::Refused { what: "open a socket", errno })?;
        // Beyond the host's limit. In a user namespace it stays at that.
        if setsockopt(&fd, sockopt::RcvBufForce, &RECEIVE_BYTES).is_err() {
            let _ = setsockopt(&fd, sockopt::RcvBuf, &RECEIVE_BYTES);
        }
        let join = |port| bind(fd.as_raw_fd(), &NetlinkAddr::new(port, GROUP_MASK));
        let joined = match join(PORT) {
            // An agent that has its control socket elsewhere, for another user, is not known by that.
            Err(Errno::EADDRINUSE)
                if alone && !is_agent(&std::fs::read_to_string(SOCKETS).unwrap_or_default()) =>
            {
                tracing::warn!(
                    port = PORT,
                    "a program that is no agent holds the agent's netlink port id (/proc/net/netlink has it); \
                     the agent takes another"
                );
                join(ANY_PORT)
            }
            joined => joined,
        };
        match joined {
            Ok(()) => Ok(Netlink(fd)),
            Err(Errno::EADDRINUSE) => Err(NetlinkError::Taken),
            Err(errno) => Err(NetlinkError::Refused { what: "join multicast group 22", errno }),
        }
    }

    fn read(&self, buffer: &mut [u8]) -> Result<Received<()>, Errno> {
        let mut header = [0; HEADER_BYTES];
        let (bytes, from, truncated) = {
            let mut parts = [IoSliceMut::new(&mut header), IoSliceMut::new(buffer)];
            let got = recvmsg::<NetlinkAddr>(self.0.as_raw_fd(), &mut parts, None, MsgFlags::empty())?;
            (got.bytes, got.address.map(|from| from.pid()), got.flags.contains(MsgFlags::MSG_TRUNC))
        };
        Ok(frame(&header, bytes, from, truncated))
    }
}

/// Whether who holds the agent's port id listens to the kernel, as only root may: then it is an agent.
fn is_agent(sockets: &str) -> bool {
    sockets.lines().any(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [_, protocol, port, groups, ..] = columns[..] else { return false };
        let is_ours = protocol.parse() == Ok(nix::libc::NETLINK_USERSOCK) && port.parse() == Ok(PORT);
        is_ours && u32::from_str_radix(groups, 16).is_ok_and(|groups| groups & GROUP_MASK != 0)
    })
}

/// Judges the netlink part of a datagram of `bytes` bytes.
fn frame(header: &[u8; HEADER_BYTES], bytes: usize, from: Option<u32>, truncated: bool) -> Received<()> {
    if from != Some(KERNEL) {
        return Received::Refused(Refusal::Credentials);
    }
    if truncated {
        return Received::Refused(Refusal::Oversized);
    }
    let [a, b, c, d, ..] = *header;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    // The kernel pads a datagram to four bytes; the header's length counts without.
    if length < HEADER_BYTES || length > bytes {
        return Received::Refused(Refusal::Framing);
    }
    Received::Datagram(length - HEADER_BYTES, ())
}

/// Whether a module that speaks CCP is there: ours, or the one of the CCP project, which registers `ccp`.
fn has_module(ours: bool, registered: &str) -> bool {
    ours || registered.split_whitespace().any(|name| name == "ccp")
}

/// Says so where no module listens in the kernel.
pub fn warn_without_module() {
    let registered = std::fs::read_to_string(REGISTERED).unwrap_or_default();
    if !has_module(Path::new(OUR_MODULE).exists(), &registered) {
        tracing::warn!(
            "no module of the kernel speaks to this agent, which waits for one: modprobe tcp_anole_ccp \
             (ccp-kernel/README.md says how it is built), or take --ipc bpf, which needs no module"
        );
    }
}

impl Transport for Netlink {
    type Addr = ();
    const NAME: &'static str = "netlink";
    const NETWORK_ORDER: bool = true;

    fn receive(&self, buffer: &mut [u8], wait: Dur) -> Received<()> {
        if wait_readable(&self.0, wait) == Err(Errno::EBADF) {
            return Received::Refused(Refusal::Socket);
        }
        match self.read(buffer) {
            Err(Errno::EAGAIN | Errno::EINTR) => Received::Nothing,
            // What was lost is not to be read; what is there is, at once.
            Err(Errno::ENOBUFS) => Received::Refused(Refusal::Overrun),
            Err(_) => Received::Refused(Refusal::Socket),
            Ok(received) => received,
        }
    }

    fn show((): &()) -> String {
        "kernel".to_string()
    }

    fn send(&self, message: &[u8], (): &()) -> Sent {
        let length = (HEADER_BYTES + message.len()) as u32;
        let mut datagram = Vec::with_capacity(HEADER_BYTES + message.len());
        datagram.extend(length.to_le_bytes());
        datagram.extend([0; HEADER_BYTES - 4]);
        datagram.extend(message);
        match sendto(self.0.as_raw_fd(), &datagram, &NetlinkAddr::new(KERNEL, 0), MsgFlags::MSG_DONTWAIT) {
            Ok(_) => Sent::Whole,
            // Nobody in the kernel listens yet; the module may be loaded later.
            Err(Errno::ECONNREFUSED) => Sent::Failed,
            Err(error) => sent(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// The agent's port is the host's.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    fn header(length: u32) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&length.to_le_bytes());
        header
    }

    #[test]
    fn a_module_is_known_by_what_it_registers() {
        // The BPF datapath registers anole_ccp as our module does, and speaks no netlink.
        assert!(!has_module(false, "reno cubic anole_ccp\n") && !has_module(false, ""));
        assert!(has_module(false, "reno ccp cubic\n") && has_module(true, "reno cubic anole_ccp\n"));
    }

    #[test]
    fn an_agent_is_known_by_its_port_id_and_group() {
        let is = |protocol: u32, port: u32, groups: &str| {
            is_agent(&format!(
                "sk               Eth Pid        Groups   Rmem\n\
                 0000000042cfc4d3 {protocol}   {port:<10} {groups} 0        0        0     2\n"
            ))
        };
        assert!(is(2, PORT, "00200000") && is(2, PORT, "80200001"));
        assert!(!is(2, PORT, "00000000") && !is(2, 1, "00200000") && !is(0, PORT, "00200000"));
    }

    #[test]
    fn only_the_kernel_is_heard_and_lengths_are_checked() {
        assert!(matches!(frame(&header(28), 28, Some(0), false), Received::Datagram(12, ())));
        assert!(matches!(frame(&header(26), 28, Some(0), false), Received::Datagram(10, ())));
        for from in [None, Some(1), Some(u32::MAX)] {
            assert!(matches!(frame(&header(28), 28, from, false), Received::Refused(Refusal::Credentials)));
        }
        for (length, bytes) in [(0, 28), (15, 28), (29, 28), (u32::MAX, 28), (28, 3)] {
            assert!(matches!(
                frame(&header(length), bytes, Some(0), false),
                Received::Refused(Refusal::Framing)
            ));
        }
        assert!(matches!(frame(&header(9999), 1041, Some(0), true), Received::Refused(Refusal::Oversized)));
    }

    #[test]
    fn it_opens_where_it_may_and_a_process_is_not_heard() {
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let agent = match Netlink::open(false) {
            Ok(agent) => agent,
            Err(reason) => {
                anole_testing::skip!("{reason}");
                return;
            }
        };
        for alone in [false, true] {
            assert!(matches!(Netlink::open(alone), Err(NetlinkError::Taken)));
        }
        let stranger = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkUserSock,
        )
        .unwrap();
        let spoof = [header(28).as_slice(), &[5, 0, 12, 0, 0, 0, 0, 0, 1, 0, 0, 0]].concat();
        let mut buffer = [0; 64];
        for to in [NetlinkAddr::new(PORT, 0), NetlinkAddr::new(KERNEL, GROUP_MASK)] {
            // A message to the group goes to the kernel as well, which refuses it when no module listens.
            match sendto(stranger.as_raw_fd(), &spoof, &to, MsgFlags::empty()) {
                Ok(_) | Err(Errno::ECONNREFUSED) => {}
                Err(errno) => panic!("a process may send to port ids and groups: {errno}"),
            }
            // Other processes of the host may send to the group as well; none of it is heard.
            let heard = agent.receive(&mut buffer, Dur::from_millis(200));
            assert!(matches!(heard, Received::Refused(Refusal::Credentials)));
        }
    }

    #[test]
    fn who_takes_the_agent_s_port_does_not_keep_it_away() {
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let kind = (SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkUserSock);
        let stranger = socket(AddressFamily::Netlink, kind.0, kind.1, kind.2).unwrap();
        if let Err(reason) = bind(stranger.as_raw_fd(), &NetlinkAddr::new(PORT, 0)) {
            anole_testing::skip!("the agent's port id is taken: {reason}");
            return;
        }
        match Netlink::open(true) {
            Err(NetlinkError::Refused { errno: Errno::EPERM, .. }) => anole_testing::skip!("needs root"),
            opened => drop(opened.unwrap()),
        }
    }

    #[test]
    fn a_thousand_reports_wait_and_an_overrun_costs_no_time() {
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // A report of 110 registers.
        const REPORT: [u8; 16 + 896] = [0; 16 + 896];
        let agent = match Netlink::open(false) {
            Ok(agent) => agent,
            Err(reason) => {
                anole_testing::skip!("{reason}");
                return;
            }
        };
        let kind = (SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkUserSock);
        let stranger = socket(AddressFamily::Netlink, kind.0, kind.1, kind.2).unwrap();
        let send = |to| sendto(stranger.as_raw_fd(), &REPORT, &to, MsgFlags::MSG_DONTWAIT);
        for n in 0..1000 {
            assert!(send(NetlinkAddr::new(PORT, 0)).is_ok(), "report {n} finds room");
        }
        // To the group, where a sender is not told; the kernel refuses its own copy when no module listens.
        for _ in 0..20_000 {
            let _ = send(NetlinkAddr::new(KERNEL, GROUP_MASK));
        }
        let mut buffer = [0; 1024];
        let mut receive = || match agent.receive(&mut buffer, Dur::ZERO) {
            Received::Refused(refusal) => Some(refusal),
            _ => None,
        };
        assert_eq!(receive(), Some(Refusal::Overrun));
        assert_eq!(receive(), Some(Refusal::Credentials), "what found room is there");
    }
}
