//! A policy server for tests, without a network: it answers as it is told.
#![allow(clippy::disallowed_methods, reason = "a server waits in real time")]

use nix::sys::socket::{
    AddressFamily, Backlog, MsgFlags, SockFlag, SockType, UnixAddr, accept4, bind, listen, recv, send, socket,
};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// How the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "not every test uses each")]
pub enum Manner {
    /// Outputs are 0.25, each state value one more than before.
    Good,
    /// As [`Manner::Good`], but only after 300 ms.
    Slow,
    /// Outputs are not numbers.
    Nan,
    /// Bytes that are no answer.
    Garbage,
    /// An answer with too few numbers.
    Short,
    /// The queue is full.
    Overloaded,
    /// The model has changed.
    Gone,
    /// It reads nothing.
    Deaf,
    /// It has no room for connections: it takes them and closes them.
    Full,
}

struct Shared {
    manner: Mutex<Manner>,
    stopped: AtomicBool,
    steps: AtomicU64,
    opens: AtomicU64,
    connections: AtomicU64,
    /// Widths of inputs, outputs and state.
    widths: [u32; 3],
}

/// A running server. Dropped, it closes its connections, as a killed one would.
pub struct FakeServer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    path: PathBuf,
}

impl FakeServer {
    /// Listens at `path`.
    pub fn start(path: &Path, widths: [u32; 3], manner: Manner) -> FakeServer {
        let _ = std::fs::remove_file(path);
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let listener = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).unwrap();
        bind(listener.as_raw_fd(), &UnixAddr::new(path).unwrap()).unwrap();
        listen(&listener, Backlog::new(8).unwrap()).unwrap();
        let shared = Arc::new(Shared {
            manner: Mutex::new(manner),
            stopped: AtomicBool::new(false),
            steps: AtomicU64::new(0),
            opens: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            widths,
        });
        let its = Arc::clone(&shared);
        let thread = std::thread::spawn(move || its.serve(&listener));
        FakeServer { shared, thread: Some(thread), path: path.to_path_buf() }
    }

    /// From now on it answers so.
    #[allow(dead_code, reason = "not every test uses each")]
    pub fn set(&self, manner: Manner) {
        *self.shared.manner.lock().unwrap() = manner;
    }

    /// STEPs answered so far.
    #[allow(dead_code, reason = "not every test uses each")]
    pub fn steps(&self) -> u64 {
        self.shared.steps.load(Ordering::Relaxed)
    }

    /// Connections so far.
    #[allow(dead_code, reason = "not every test uses each")]
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// OPENs answered so far.
    #[allow(dead_code, reason = "not every test uses each")]
    pub fn opens(&self) -> u64 {
        self.shared.opens.load(Ordering::Relaxed)
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Shared {
    fn manner(&self) -> Manner {
        *self.manner.lock().unwrap()
    }

    fn serve(&self, listener: &OwnedFd) {
        let mut clients: Vec<OwnedFd> = Vec::new();
        let mut packet = vec![0; 1 << 18];
        while !self.stopped.load(Ordering::Relaxed) {
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            while let Ok(client) = accept4(listener.as_raw_fd(), flags) {
                // Safety: the system call has just made it, for this program alone.
                clients.push(unsafe { OwnedFd::from_raw_fd(client as RawFd) });
                self.connections.fetch_add(1, Ordering::Relaxed);
            }
            if self.manner() == Manner::Full {
                clients.clear();
            }
            if self.manner() != Manner::Deaf {
                clients.retain(|client| {
                    loop {
                        match recv(client.as_raw_fd(), &mut packet, MsgFlags::MSG_DONTWAIT) {
                            Ok(0) => return false,
                            Ok(length) => {
                                let answer = self.answer(&packet[..length]);
                                let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
                                let _ = send(client.as_raw_fd(), &answer, flags);
                            }
                            Err(nix::errno::Errno::EAGAIN) => return true,
                            Err(_) => return false,
                        }
                    }
                });
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn answer(&self, packet: &[u8]) -> Vec<u8> {
        let (kind, id) = (packet[0], &packet[8..16]);
        if kind == 1 {
            self.opens.fetch_add(1, Ordering::Relaxed);
            let widths = self.widths.map(u32::to_le_bytes).concat();
            return [&[2, 0, 1, 0, 7, 0, 0, 0][..], id, &[0; 4], &widths].concat();
        }
        assert_eq!((kind, &packet[4..8]), (3, &7_u32.to_le_bytes()[..]), "a STEP for the model opened");
        self.steps.fetch_add(1, Ordering::Relaxed);
        let [inputs, outputs, state] = self.widths.map(|width| width as usize);
        let values = packet[24..].chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()));
        let mut values: Vec<f32> = values.collect();
        assert_eq!(values.len(), inputs + state);
        values.drain(..inputs);
        values.iter_mut().for_each(|value| *value += 1.0);
        let manner = self.manner();
        let (status, output) = match manner {
            Manner::Nan => (0_u32, f32::NAN),
            Manner::Overloaded => (2, 0.0),
            Manner::Gone => (4, 0.0),
            _ => (0, 0.25),
        };
        if manner == Manner::Slow {
            std::thread::sleep(Duration::from_millis(300));
        }
        if manner == Manner::Garbage {
            return vec![0xa5; 37];
        }
        values.splice(0..0, vec![output; outputs]);
        if status != 0 || manner == Manner::Short {
            values.truncate(if status == 0 { 1 } else { 0 });
        }
        let floats: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        [&[4, 0, 1, 0, 7, 0, 0, 0][..], id, &status.to_le_bytes(), &floats].concat()
    }
}
