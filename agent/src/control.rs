//! The agent's control socket: a request of one line, an answer of one JSON object, and the client is disconnected.
//!
//! | request | answer |
//! |---|---|
//! | `status`, or nothing within 200 ms | a [`Status`]: what the agent does |
//! | `prefer FLOW PREFERENCE`, and the datapath where several have such a flow | `null`, or a text that says why not: what that flow's application prefers from now on |
//!
//! A thread of its own takes connections and writes answers; the agent's thread fills a [`Status`] between two
//! datagrams when one is asked for, so that nothing waits for a client that does not read.

use crate::flow_table::Status;
use crate::ipc::socket_path::{self, Place, SocketError};
use crate::shared::{Shared, short_name};
use anole_algorithms::{Preference, UnknownPreference};
use anole_cli::Failure;
use anyhow::{Context, anyhow};
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// The request for a status.
const STATUS: &str = "status";
/// How long a client may take to read, and the agent to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long nobody is answered where no connection can be accepted, as without a file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long a request is waited for: whoever only reads wants the status.
const REQUEST_PATIENCE: Duration = Duration::from_millis(200);
/// No request is longer, bytes.
const MAX_REQUEST: u64 = 256;

/// The flag with which the agent of this name in a status runs, and is asked.
pub fn flag(name: &str) -> String {
    if name == "switch" { "--switch linux".to_string() } else { format!("--ipc {name}") }
}

/// A control socket that somebody listens at; dropped, it is gone.
#[derive(Debug)]
pub struct ControlSocket {
    listener: UnixListener,
    over: Arc<AtomicBool>,
    _place: Place,
}

impl ControlSocket {
    /// Binds the socket of the agent whose datapaths connect to `socket`; nobody answers there yet.
    pub fn beside(socket: &Place) -> Result<ControlSocket, SocketError> {
        Ok(ControlSocket::of(socket_path::bind_beside(socket, |path| UnixListener::bind(path))?))
    }

    /// Binds the socket of the one agent of this host's kernel for this kind of IPC; another is refused.
    pub fn of_host(ipc: &str) -> Result<ControlSocket, SocketError> {
        let path = socket_path::host_control(ipc);
        Ok(ControlSocket::of(socket_path::claim(&path, |path| UnixListener::bind(path))?))
    }

    fn of((place, listener): (Place, UnixListener)) -> ControlSocket {
        ControlSocket { listener, over: Arc::default(), _place: place }
    }

    /// Answers from now on, out of what the agent's thread leaves in `shared`.
    pub fn answer(&self, shared: &Shared) -> std::io::Result<()> {
        let (listener, shared, over) = (self.listener.try_clone()?, shared.clone(), Arc::clone(&self.over));
        std::thread::Builder::new().name("control".to_string()).spawn(move || {
            let mut told = false;
            loop {
                match listener.accept() {
                    // A client that has gone, or does not read, loses its answer.
                    Ok((client, _)) => drop(answer_one(client, &shared)),
                    Err(_) if over.load(Ordering::SeqCst) => return,
                    Err(error) => {
                        if !std::mem::replace(&mut told, true) {
                            tracing::warn!(%error, "the control socket cannot accept a connection; it tries on");
                        }
                        std::thread::sleep(ACCEPT_PAUSE);
                    }
                }
            }
        })?;
        Ok(())
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        use std::os::fd::AsRawFd;
        self.over.store(true, Ordering::SeqCst);
        let _ = nix::sys::socket::shutdown(self.listener.as_raw_fd(), nix::sys::socket::Shutdown::Both);
    }
}

/// What a client writes until a moment.
struct Until<'a>(&'a UnixStream, Instant);

impl Read for Until<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        // No time left is refused, which is an end as well.
        self.0.set_read_timeout(Some(self.1.saturating_duration_since(Instant::now())))?;
        self.0.read(buffer)
    }
}

fn answer_one(mut client: UnixStream, shared: &Shared) -> anyhow::Result<()> {
    client.set_write_timeout(Some(PATIENCE))?;
    let mut request = String::new();
    let written = Until(&client, Instant::now() + REQUEST_PATIENCE);
    // A client that says nothing runs into the time.
    let _ = BufReader::new(written.take(MAX_REQUEST)).read_line(&mut request);
    let answer = match request.trim() {
        "" | STATUS => {
            let (asker, answer) = mpsc::channel();
            shared.ask_status(asker);
            serde_json::to_vec(&answer.recv_timeout(PATIENCE)?)?
        }
        other => serde_json::to_vec(&obey(other, shared).err())?,
    };
    client.write_all(&answer)?;
    Ok(())
}

/// Carries out a request; an error says why not.
fn obey(request: &str, shared: &Shared) -> Result<(), String> {
    // A datapath's name may have spaces.
    let words: Vec<&str> = request.splitn(4, char::is_whitespace).collect();
    let ["prefer", flow, preference, ref datapath @ ..] = words[..] else {
        return Err(format!(
            "unknown request {request:?}; known are status, prefer FLOW PREFERENCE [DATAPATH]"
        ));
    };
    let flow = flow.parse().map_err(|_| format!("{flow} is no flow's id; `anole-ccp status` lists them"))?;
    let preference = preference.parse().map_err(|error: UnknownPreference| error.to_string())?;
    shared.prefer(flow, datapath.first().copied(), preference)
}

/// Asks the agent whose control socket is at `path` what it does.
pub fn ask(path: &Path) -> Result<Status, Failure> {
    request(path, STATUS)
}

/// Tells that agent what the application of a flow prefers from now on.
pub fn prefer(path: &Path, flow: u32, preference: Preference, datapath: Option<&str>) -> Result<(), Failure> {
    let datapath = datapath.map(|name| format!(" {}", short_name(name))).unwrap_or_default();
    match request::<Option<String>>(path, &format!("prefer {flow} {preference}{datapath}"))? {
        None => Ok(()),
        Some(refusal) => Err(Failure::Run(anyhow!(refusal))),
    }
}

fn request<T: DeserializeOwned>(path: &Path, request: &str) -> Result<T, Failure> {
    let at = || format!("no agent answers at {}", path.display());
    let client = UnixStream::connect(path);
    let mut client = client
        .map_err(|error| {
            anyhow!("{} ({error}); is anole-ccp running, with the same --ipc, --socket or --switch?", at())
        })
        .map_err(Failure::Run)?;
    let mut text = Vec::new();
    client
        .set_read_timeout(Some(2 * PATIENCE))
        .and_then(|()| client.write_all(format!("{request}\n").as_bytes()))
        .and_then(|()| client.read_to_end(&mut text))
        .with_context(at)
        .map_err(Failure::Run)?;
    if text.is_empty() {
        let (path, patience) = (path.display(), PATIENCE.as_secs());
        return Err(Failure::Run(anyhow!(
            "the agent at {path} does not answer within {patience} s; it is busy or hangs"
        )));
    }
    serde_json::from_slice(&text)
        .with_context(|| format!("{}: not an answer of this version", path.display()))
        .map_err(Failure::Run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow_key::{DatapathId, FlowKey};
    use anole_datapath::wire::{AlgorithmName, CreateMessage};
    use anole_model::Time;

    #[test]
    fn a_preference_is_the_flow_s_that_is_meant_until_it_ends() {
        let shared = Shared::default();
        let begin = |key: FlowKey| {
            let create = CreateMessage::without_addresses(10_000, 1000, AlgorithmName::NONE);
            shared.asked(key, create.clone(), &format!("/run/my agent.dp.{}", key.0.0));
            shared.begin(Time::ZERO, key, "c-libra", create);
        };
        begin((DatapathId(1), 7));
        assert_eq!(obey("prefer 7 la-1", &shared), Ok(()));
        assert_eq!(shared.preference((DatapathId(1), 7)), Some(Preference::La1));
        let refusal = |request| obey(request, &shared).unwrap_err();
        assert!(refusal("prefer 8 la-1").contains("no flow has the id 8"));
        assert!(refusal("prefer 7 fast").contains("known are default, th-1"));
        assert!(refusal("prefer x la-1").contains("no flow's id"));
        assert!(refusal("stop").contains("known are status, prefer"));
        begin((DatapathId(2), 7));
        assert!(refusal("prefer 7 la-1").ends_with("meant: my agent.dp.1, my agent.dp.2"));
        assert_eq!(obey("prefer 7 la-2 my agent.dp.2", &shared), Ok(()));
        let preferred = |number| shared.preference((DatapathId(number), 7));
        assert_eq!((preferred(1), preferred(2)), (Some(Preference::La1), Some(Preference::La2)));
        shared.reported((DatapathId(1), 7), 0, Vec::new());
        shared.forget((DatapathId(1), 7));
        assert_eq!(preferred(1), None);
        assert!(refusal("prefer 7 la-1 other").contains("no flow of datapath other has the id 7"));
    }

    #[test]
    fn a_request_is_answered_with_why_it_is_refused() {
        let (client, agents) = UnixStream::pair().unwrap();
        let shared = Shared::default();
        let thread = {
            let shared = shared.clone();
            std::thread::spawn(move || answer_one(agents, &shared))
        };
        let mut client = client;
        client.write_all(b"prefer 1 la-1\n").unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        assert!(thread.join().unwrap().is_ok());
        assert!(serde_json::from_str::<Option<String>>(&text).unwrap().is_some(), "{text}");
    }

    #[test]
    fn an_agent_that_is_too_busy_to_answer_is_told_of_as_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control");
        let listener = UnixListener::bind(&path).unwrap();
        // The agent's thread never looks.
        let thread = std::thread::spawn(move || answer_one(listener.accept().unwrap().0, &Shared::default()));
        let Err(Failure::Run(error)) = ask(&path) else { panic!("answered") };
        assert!(error.to_string().ends_with("does not answer within 2 s; it is busy or hangs"), "{error}");
        assert!(thread.join().unwrap().is_err());
    }

    #[test]
    fn a_client_that_writes_byte_by_byte_is_answered_when_its_time_is_over() {
        let (mut client, agents) = UnixStream::pair().unwrap();
        let begun = Instant::now();
        let thread = std::thread::spawn(move || answer_one(agents, &Shared::default()));
        while !thread.is_finished() && begun.elapsed() < Duration::from_secs(2) {
            let _ = client.write_all(b"x");
            std::thread::sleep(REQUEST_PATIENCE / 4);
        }
        assert!(thread.is_finished(), "{:?}", begun.elapsed());
        assert!(thread.join().unwrap().is_ok());
    }

    #[test]
    fn a_connection_that_cannot_be_accepted_does_not_end_the_socket() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control");
        let control = ControlSocket::of(socket_path::claim(&path, |path| UnixListener::bind(path)).unwrap());
        // Nobody is there, and that is an error now.
        control.listener.set_nonblocking(true).unwrap();
        control.answer(&Shared::default()).unwrap();
        std::thread::sleep(ACCEPT_PAUSE / 2);
        let refusal = request::<Option<String>>(&path, "stop").unwrap();
        assert!(refusal.is_some_and(|refusal| refusal.contains("unknown request")));
    }
}
