//! `anole-ccp relay`: this host's TCP for an agent that is not `anole-ccp`, such as an algorithm in Python.
//!
//! ```text
//!  kernel ⇄ eBPF datapath ⇄ relay (root) ⇄ Unix datagrams ⇄ agent (any user, any implementation)
//! ```
//!
//! The agent sees one more datapath at its socket. Messages pass as they are; what the kernel's datapath does with
//! bytes of any kind is its own affair ([`anole_bpf`]), and windows and rates keep its bounds. The relay reaches the
//! agent's socket with the rights of that socket's owner. When the agent goes, its flows fall back at once, and the
//! next one at the same place takes them over.

use crate::cli::RelayOptions;
use crate::ipc::bpf::{Bpf, Selection};
use crate::ipc::socket_path::{self, Place, default_socket};
use crate::ipc::{Received, Transport};
use crate::logging::{self, Tally};
use crate::run::{host_control, stop_at_signals};
use crate::shared::{AgentClock, Shared};
use anole_cli::Failure;
use anole_datapath::wire::{self, Message};
use anole_model::Dur;
use anyhow::Context;
use nix::sys::socket::{MsgFlags, recv};
use nix::unistd::{Gid, Uid, getegid, geteuid, setfsgid, setfsuid};
use std::borrow::Cow;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest sleep, and how often a lost agent is looked for.
const WAIT: Dur = Dur::from_millis(100);
/// How long an agent may leave its socket full before a message for it is dropped; the flow notices.
const PATIENCE: Duration = Duration::from_millis(100);
/// Longest datagram that an agent sends: programs may come several in one.
const DATAGRAM: usize = 64 << 10;
/// Datagrams of the agent between two looks at the kernel's messages.
const AT_A_TIME: usize = 64;

/// Relays until a signal.
pub fn relay(options: &RelayOptions) -> Result<(), Failure> {
    logging::start(crate::cli::LogFormat::Text, tracing::Level::INFO);
    let path = socket_path::resolved(&options.socket.clone().unwrap_or_else(default_socket))
        .map_err(|error| Failure::Usage(error.into()))?;
    let owner = std::fs::metadata(&path).with_context(|| no_agent(&path)).map_err(Failure::Usage)?;
    let selection = Selection::parse(&options.cgroup, &options.prefix).map_err(Failure::Usage)?;
    selection.check(None).map_err(Failure::Usage)?;
    let stop = stop_at_signals()?;
    let control = host_control(Bpf::NAME)?;
    let directory = options.bpf_fs.clone().unwrap_or_else(anole_bpf::default_directory);
    let datapath = Bpf::open(&directory).context("relay").map_err(Failure::Usage)?;
    datapath.select(&selection).map_err(Failure::Usage)?;
    let (clock, shared) = (AgentClock::start(), Shared::default());
    if let Some(control) = &control {
        control.answer(&shared).context("the control socket's thread").map_err(Failure::Run)?;
    }
    let _rights = Rights::of(owner.uid(), owner.gid());
    anole_bpf::drop_privileges().context("privileges cannot be dropped").map_err(Failure::Run)?;
    let agent = Agent::at(&path)?;
    agent.connect().with_context(|| no_agent(&path)).map_err(Failure::Usage)?;
    let place = path.display().to_string();
    tracing::info!(version = anole_cli::VERSION, agent = place, "relay starts");

    let ipc = format!("bpf, relayed to {place}");
    let tell = || shared.answer_askers(clock.now(), &ipc, |_| String::new());
    let mut tally = Tally::default();
    let over = || stop.load(Ordering::SeqCst);
    while !over() {
        agent.carry(&datapath, &stop, &mut |trouble| {
            if let Some(due) = trouble.and_then(|kind| tally.count(clock.now(), kind)) {
                tracing::warn!(kind = trouble, new = due.new, total = due.total, "message dropped");
            }
            tell();
        });
        datapath.change_agent();
        if !over() {
            tracing::warn!(
                agent = place,
                "the agent has gone; its flows go on under CUBIC until one is there again"
            );
        }
        while !over() && agent.connect().is_err() {
            tell();
            std::thread::sleep(Duration::from_micros(WAIT.as_micros()));
        }
        if !over() {
            tracing::info!(agent = place, "an agent is there");
        }
    }
    tally.summary();
    tracing::info!("relay stops");
    Ok(())
}

fn no_agent(path: &Path) -> String {
    format!(
        "--socket {}: no agent is there; start it first, such as anole_ccp.serve(Mine, \"{}\") in Python",
        path.display(),
        path.display()
    )
}

/// Files are reached as this user from now on; as the process itself again when it is dropped.
struct Rights;

impl Rights {
    fn of(uid: u32, gid: u32) -> Rights {
        setfsgid(Gid::from_raw(gid));
        setfsuid(Uid::from_raw(uid));
        Rights
    }
}

impl Drop for Rights {
    fn drop(&mut self) {
        setfsuid(geteuid());
        setfsgid(getegid());
    }
}

/// A message of the kernel as datapaths in user space write it: addresses in CREATE are numbers, not in network byte order.
fn with_numbers(message: &[u8]) -> Cow<'_, [u8]> {
    let Ok((Message::Create(sid, mut create), _)) = wire::decode(message) else { return message.into() };
    (create.src_ip, create.dst_ip) = (u32::from_be(create.src_ip), u32::from_be(create.dst_ip));
    let mut bytes = Vec::new();
    match wire::encode(&Message::Create(sid, create), &mut bytes) {
        Ok(()) => bytes.into(),
        Err(_) => message.into(),
    }
}

/// Which socket file lies at a path: device, inode, and when it was made.
type Identity = (u64, u64, i64, i64);

/// The agent, seen from a socket of the relay's own beside its own.
struct Agent {
    path: PathBuf,
    socket: UnixDatagram,
    /// Goes with the socket.
    _place: Place,
}

impl Agent {
    fn at(path: &Path) -> Result<Agent, Failure> {
        let mut own = OsString::from(path);
        own.push(format!(".dp.{}.0", std::process::id()));
        let (place, socket) = socket_path::bind_private(Path::new(&own), None, |own| UnixDatagram::bind(own))
            .map_err(|error| Failure::Usage(error.into()))?;
        socket.set_write_timeout(Some(PATIENCE)).context("the relay's socket").map_err(Failure::Run)?;
        Ok(Agent { path: path.to_path_buf(), socket, _place: place })
    }

    /// Hears whoever holds the agent's path now and nobody else: the kernel refuses what others send to a connected
    /// socket.
    fn connect(&self) -> std::io::Result<()> {
        self.socket.connect(&self.path)?;
        let mut nothing = [0; 1];
        while recv(self.socket.as_raw_fd(), &mut nothing, MsgFlags::MSG_DONTWAIT).is_ok() {}
        Ok(())
    }

    fn identity(&self) -> Option<Identity> {
        let meta = std::fs::metadata(&self.path).ok()?;
        Some((meta.dev(), meta.ino(), meta.mtime(), meta.mtime_nsec()))
    }

    /// Carries datagrams both ways until the agent has gone or `stop` is set. `told` hears of each round, and of what
    /// went wrong in it.
    fn carry(&self, datapath: &Bpf, stop: &AtomicBool, told: &mut dyn FnMut(Option<&'static str>)) {
        let mut buffer = vec![0; DATAGRAM];
        let identity = self.identity();
        while !stop.load(Ordering::SeqCst) {
            let mut trouble = None;
            match datapath.receive_beside(&mut buffer, WAIT, Some(self.socket.as_fd())) {
                Received::Datagram(length, ()) => match self.socket.send(&with_numbers(&buffer[..length])) {
                    Ok(_) => {}
                    Err(full) if matches!(full.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                        trouble = Some("the agent does not read its messages");
                    }
                    Err(_) => return,
                },
                Received::Nothing if self.identity() != identity => return,
                Received::Nothing | Received::Refused(_) => {}
            }
            // Not for ever: an agent that never stops talking must not keep the kernel's messages waiting.
            for _ in 0..AT_A_TIME {
                let Ok(length) = recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) else {
                    break;
                };
                if datapath.take(&buffer[..length]).is_err() {
                    trouble = Some("the kernel's datapath refuses a message");
                }
            }
            told(trouble);
        }
    }
}
