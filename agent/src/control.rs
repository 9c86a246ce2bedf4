//! The agent's control socket: whoever connects is told, as one JSON object, what the agent does, and is disconnected.
//!
//! A thread of its own takes connections and writes answers; the agent's thread fills a [`Status`] between two
//! datagrams when one is asked for, so that nothing waits for a client that does not read.

use crate::flow_table::FlowStatus;
use crate::ipc::socket_path::{self, Place, SocketError};
use crate::shared::Shared;
use anole_cli::Failure;
use anyhow::{Context, anyhow};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

/// How long a client may take to read, and the agent to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// What an agent tells of itself and its flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Version and commit.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// How datapaths reach it, as `--ipc` has it.
    pub ipc: String,
    /// Time since its start, seconds.
    pub uptime_s: f64,
    /// The flows.
    pub flows: Vec<FlowStatus>,
}

/// A control socket that somebody listens at; dropped, it is gone.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    _place: Place,
}

impl Control {
    /// Binds the socket of the agent whose datapaths connect to `socket`; nobody answers there yet.
    pub fn beside(socket: &Place) -> Result<Control, SocketError> {
        let (place, listener) = socket_path::bind_beside(socket, |path| UnixListener::bind(path))?;
        Ok(Control { listener, _place: place })
    }

    /// Binds the socket of the one agent of this host's kernel for this kind of IPC; another is refused.
    pub fn of_host(ipc: &str) -> Result<Control, SocketError> {
        let path = socket_path::host_control(ipc);
        let (place, listener) = socket_path::claim(&path, |path| UnixListener::bind(path))?;
        Ok(Control { listener, _place: place })
    }

    /// Answers from now on, out of what the agent's thread leaves in `shared`.
    pub fn answer(&self, shared: &Shared) -> std::io::Result<()> {
        let (listener, shared) = (self.listener.try_clone()?, shared.clone());
        std::thread::Builder::new().name("control".to_string()).spawn(move || {
            // It ends with the socket.
            while let Ok((client, _)) = listener.accept() {
                // A client that has gone, or does not read, loses its answer.
                let _ = answer_one(client, &shared);
            }
        })?;
        Ok(())
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        use std::os::fd::AsRawFd;
        let _ = nix::sys::socket::shutdown(self.listener.as_raw_fd(), nix::sys::socket::Shutdown::Both);
    }
}

fn answer_one(mut client: UnixStream, shared: &Shared) -> anyhow::Result<()> {
    client.set_write_timeout(Some(PATIENCE))?;
    let (asker, answer) = mpsc::channel();
    shared.ask_status(asker);
    client.write_all(&serde_json::to_vec(&answer.recv_timeout(PATIENCE)?)?)?;
    Ok(())
}

/// Asks the agent whose control socket is at `path`.
pub fn ask(path: &Path) -> Result<Status, Failure> {
    let at = || format!("no agent answers at {}", path.display());
    let client = UnixStream::connect(path);
    let mut client = client
        .map_err(|error| {
            anyhow!("{} ({error}); is anole-ccp running, with the same --ipc and --socket?", at())
        })
        .map_err(Failure::Run)?;
    let mut text = Vec::new();
    client
        .set_read_timeout(Some(2 * PATIENCE))
        .and_then(|()| client.read_to_end(&mut text))
        .with_context(at)
        .map_err(Failure::Run)?;
    serde_json::from_slice(&text)
        .with_context(|| format!("{}: not a status of this version", path.display()))
        .map_err(Failure::Run)
}
