//! A small agent: answers datapaths in other processes of this host, over Unix datagrams, with an algorithm in Python.
//!
//! READY is answered with the fold programs, CREATE with the start of a session, and every MEASURE at once, if with an
//! empty UPDATE. It is for experiments of one user: the socket is this user's alone, and there is no backlog; a
//! datapath that gets no answer governs its flows by itself. `anole-ccp` is the agent for anything else.

use crate::algorithm::{Failure, Made};
use crate::simulate::Stop;
use anole_algorithms::session::{Reply, Session};
use anole_algorithms::{Commands, FlowInfo};
use anole_datapath::wire::{self, CreateMessage, MAX_MSS_BYTES, Message};
use anole_model::{Bounds, Dur, Time};
use anole_programs::Installed;
use anole_sim::plan::{Custom, algorithm_seed};
use nix::sys::socket::{MsgFlags, UnixAddr, sendto};
use pyo3::exceptions::{PyOSError, PyRuntimeWarning};
use pyo3::prelude::*;
use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often signals and the end are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// Longest datagram that is read, bytes; a datapath's messages have a tenth of it.
const DATAGRAM: usize = 32 << 10;
/// Flows at a time; more are left to their datapaths.
const MAX_FLOWS: usize = 1024;
/// How often it is looked which of them are of datapaths that have gone, while there are as many.
const LOOK_FOR_GONE: Dur = Dur::from_millis(1_000);

/// Answers at `socket` until `stop` is set, `seconds` are over, or a signal or an exception comes; tells how many
/// flows there were and how many reports.
#[pyfunction]
pub fn serve(
    py: Python<'_>,
    own: &Bound<'_, PyAny>,
    socket: PathBuf,
    seconds: Option<f64>,
    seed: u64,
    stop: &Stop,
) -> PyResult<(u64, u64)> {
    let failure = Failure::default();
    let custom = Made::read(own)?.custom(&failure);
    let bound = Socket::bind(&socket).map_err(|error| {
        PyOSError::new_err(format!(
            "cannot bind {}: {error}; name a socket that nobody serves, in a folder that is there",
            socket.display()
        ))
    })?;
    let served = py.detach(|| {
        let started = Instant::now();
        let over = || seconds.is_some_and(|seconds| started.elapsed().as_secs_f64() >= seconds);
        answer_until(&bound, custom, seed, &failure, &|| over() || stop.is_set())
    });
    match failure.take() {
        Some(error) => Err(error),
        None => served.map_err(|error| PyOSError::new_err(error.to_string())),
    }
}

/// Answers with `custom` until it is `over`, or there is a failure, a signal among them; flows have their seeds of `seed`,
/// as in a simulation.
pub fn answer_until(
    bound: &Socket,
    custom: Custom,
    seed: u64,
    failure: &Failure,
    over: &dyn Fn() -> bool,
) -> io::Result<(u64, u64)> {
    let (mut agent, mut told) = (Agent::new(custom, seed), false);
    let started = Instant::now();
    let mut buffer = vec![0; DATAGRAM];
    while !over() && !failure.is_there() {
        if let Some(signal) = Python::attach(|py| py.check_signals().err()) {
            failure.note(signal);
            break;
        }
        // For a while without another look, so that a busy socket costs no signals.
        let until = Instant::now() + LOOK;
        while Instant::now() < until && !failure.is_there() {
            let Some((length, peer)) = bound.receive(&mut buffer)? else { break };
            let now = Time::from_secs_f64(started.elapsed().as_secs_f64());
            agent.receive(now, &peer, &buffer[..length], &mut |message| bound.send(&peer, message));
            if agent.refuses && !std::mem::replace(&mut told, true) {
                warn_of_refusals().unwrap_or_else(|error| failure.note(error));
            }
        }
    }
    Ok(agent.counts())
}

/// Warns that flows are left alone; an error where the program makes errors of warnings.
fn warn_of_refusals() -> PyResult<()> {
    let text =
        format!("{MAX_FLOWS} flows are governed; more are left to their datapaths until some of them end");
    Python::attach(|py| PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &CString::new(text)?, 2))
}

/// The agent's socket, which goes with it.
pub struct Socket {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Socket {
    /// Binds it, for this user alone, in the place of one that a killed process left.
    pub fn bind(path: &Path) -> io::Result<Socket> {
        let socket = UnixDatagram::bind(path).or_else(|error| {
            let left =
                fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket()) && is_gone(path);
            if error.kind() != ErrorKind::AddrInUse || !left {
                return Err(error);
            }
            fs::remove_file(path)?;
            UnixDatagram::bind(path)
        })?;
        let bound = Socket { socket, path: path.to_path_buf() };
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        bound.socket.set_read_timeout(Some(LOOK))?;
        Ok(bound)
    }

    /// A datagram of a peer that can be answered; `None` when none came for a while.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<(usize, PathBuf)>> {
        match self.socket.recv_from(buffer) {
            Ok((length, peer)) => Ok(peer.as_pathname().map(|path| (length, path.to_path_buf()))),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// A peer that has gone or does not read misses it, and its flows fall back.
    fn send(&self, peer: &Path, message: &[u8]) {
        let Ok(address) = UnixAddr::new(peer) else { return };
        let _ = sendto(self.socket.as_raw_fd(), message, &address, MsgFlags::MSG_DONTWAIT);
    }
}

/// Whether nobody has the peer's socket any more.
fn is_gone(peer: &Path) -> bool {
    let probe = UnixDatagram::unbound().and_then(|probe| probe.connect(peer));
    probe.is_err_and(|error| matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound))
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Sessions by peer and flow.
struct Agent {
    custom: Custom,
    seed: u64,
    installed: Installed,
    sessions: HashMap<(PathBuf, u32), Session>,
    flows: u64,
    reports: u64,
    /// When it may be looked again for datapaths that have gone.
    look_for_gone: Time,
    /// A flow was refused since there were as many as may be.
    refuses: bool,
}

impl Agent {
    fn new(custom: Custom, seed: u64) -> Agent {
        let installed = custom.programs.iter().fold(Installed::default(), Installed::with);
        Agent {
            custom,
            seed,
            installed,
            sessions: HashMap::new(),
            flows: 0,
            reports: 0,
            look_for_gone: Time::ZERO,
            refuses: false,
        }
    }

    fn counts(&self) -> (u64, u64) {
        (self.flows, self.reports)
    }

    /// Takes a datagram of any bytes; `send` is given each answer.
    fn receive(&mut self, now: Time, peer: &Path, mut datagram: &[u8], send: &mut dyn FnMut(&[u8])) {
        while let Ok((message, taken)) = wire::decode(datagram) {
            match message {
                Message::Ready(_) => {
                    self.sessions.retain(|(of, _), _| of != peer);
                    self.installed.installs().for_each(|message| emit(&message, send));
                }
                Message::Create(sid, create) => self.create(now, (peer.to_path_buf(), sid), &create, send),
                Message::Measure { sid, values, .. } if values.is_empty() => {
                    self.sessions.remove(&(peer.to_path_buf(), sid));
                }
                Message::Measure { sid, uid, values } => {
                    self.reports += 1;
                    if let Some(program) = self.installed.program(uid) {
                        let key = (peer.to_path_buf(), sid);
                        self.answer(&key, |session| session.on_report(now, program, &values), send);
                    }
                }
                // Messages of agents, which no datapath sends.
                Message::Install(_) | Message::Update(..) | Message::ChangeProgram { .. } => {}
            }
            datagram = &datagram[taken..];
        }
    }

    fn create(
        &mut self,
        now: Time,
        key: (PathBuf, u32),
        create: &CreateMessage,
        send: &mut dyn FnMut(&[u8]),
    ) {
        if !(1..=MAX_MSS_BYTES).contains(&create.mss) {
            return;
        }
        if self.is_full_for(&key) {
            self.forget_the_gone(now);
            if self.is_full_for(&key) {
                self.refuses = true;
                return;
            }
        }
        let init_cwnd = Bounds::DEFAULT.cwnd(create.init_cwnd.into(), create.mss);
        let seed = algorithm_seed(self.seed, self.flows as usize);
        let algorithm = (self.custom.make)(FlowInfo { mss: create.mss, init_cwnd }, seed);
        self.flows += 1;
        self.sessions.insert(key.clone(), Session::new(algorithm));
        self.answer(&key, |session| session.start(now), send);
    }

    fn is_full_for(&self, key: &(PathBuf, u32)) -> bool {
        self.sessions.len() >= MAX_FLOWS && !self.sessions.contains_key(key)
    }

    /// Ends the sessions of datapaths that have gone without a word, as killed ones do.
    fn forget_the_gone(&mut self, now: Time) {
        if now < self.look_for_gone {
            return;
        }
        self.look_for_gone = now + LOOK_FOR_GONE;
        let peers: HashSet<&Path> = self.sessions.keys().map(|(peer, _)| peer.as_path()).collect();
        let gone: HashSet<PathBuf> =
            peers.into_iter().filter(|peer| is_gone(peer)).map(Path::to_path_buf).collect();
        self.sessions.retain(|(peer, _), _| !gone.contains(peer));
    }

    /// Lets a session act and sends its answer; one that errs is over.
    fn answer(
        &mut self,
        key: &(PathBuf, u32),
        act: impl for<'a> FnOnce(&'a mut Session) -> Reply<'a>,
        send: &mut dyn FnMut(&[u8]),
    ) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let nothing = Commands::default();
        let message =
            act(session).map(|commands| self.installed.message(key.1, commands.unwrap_or(&nothing)));
        match message {
            Ok(Some(message)) => emit(&message, send),
            Ok(None) => {}
            Err(_) => drop(self.sessions.remove(key)),
        }
    }
}

fn emit(message: &Message<'_>, send: &mut dyn FnMut(&[u8])) {
    let mut bytes = Vec::new();
    if wire::encode(message, &mut bytes).is_ok() {
        send(&bytes);
    }
}
