//! A small agent for tests: installs `rate-hold`, gives every flow a window and a rate, and answers
//! every report.
#![allow(dead_code, reason = "every test file is a crate of its own and uses a part of this")]

use anole_datapath::wire::{self, Message};
use anole_programs::{Commands, Installed, RATE, rate_hold};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The id under which the agent installs its program.
const UID: u32 = 1;

/// What an agent has seen.
#[derive(Default)]
pub struct Seen {
    pub ready: AtomicU64,
    pub created: AtomicU64,
    pub reports: AtomicU64,
    pub closed: AtomicU64,
    pub algorithm: Mutex<String>,
}

/// A running agent. Dropping it ends it as SIGKILL would: the socket's file stays.
pub struct ScriptedAgent {
    pub seen: Arc<Seen>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ScriptedAgent {
    /// Binds `path`, in place of what a dead agent left there.
    pub fn start(path: &Path, cwnd: u32, rate_bytes_per_s: u32) -> ScriptedAgent {
        ScriptedAgent::commanding(path, move |is_new| is_new.then_some((cwnd, rate_bytes_per_s)))
    }

    /// The same, with the window and the rate that `next` gives a flow that is new, and each that reports.
    pub fn commanding(
        path: &Path,
        mut next: impl FnMut(bool) -> Option<(u32, u32)> + Send + 'static,
    ) -> ScriptedAgent {
        let _ = std::fs::remove_file(path);
        let socket = UnixDatagram::bind(path).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::new(Seen::default());
        let thread = std::thread::spawn({
            let (stop, seen) = (stop.clone(), seen.clone());
            move || {
                let mut buffer = [0; 4096];
                while !stop.load(Relaxed) {
                    let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
                    let Some(datapath) = from.as_pathname().map(Path::to_path_buf) else { continue };
                    let (message, _) = wire::decode(&buffer[..length]).expect("datapaths send messages");
                    answer(&socket, &datapath, &message, &seen, &mut next);
                }
            }
        });
        ScriptedAgent { seen, stop, thread: Some(thread) }
    }
}

impl Drop for ScriptedAgent {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn answer(
    socket: &UnixDatagram,
    datapath: &PathBuf,
    message: &Message<'_>,
    seen: &Seen,
    next: &mut impl FnMut(bool) -> Option<(u32, u32)>,
) {
    let send = |message: &Message<'_>| {
        let mut bytes = Vec::new();
        wire::encode(message, &mut bytes).unwrap();
        // The datapath may be gone.
        let _ = socket.send_to(&bytes, datapath);
    };
    let mut installed = Installed::default();
    installed.insert(UID, &rate_hold::PROGRAM);
    match message {
        Message::Ready(_) => {
            seen.ready.fetch_add(1, Relaxed);
            installed.installs().for_each(|install| send(&install));
        }
        Message::Create(sid, create) => {
            seen.created.fetch_add(1, Relaxed);
            *seen.algorithm.lock().unwrap() = create.algorithm.as_str().to_string();
            installed.installs().for_each(|install| send(&install));
            let mut commands = Commands::default();
            commands.run(&rate_hold::PROGRAM);
            command(&mut commands, next(true));
            send(&installed.message(*sid, &commands).unwrap());
        }
        Message::Measure { values, .. } if values.is_empty() => {
            seen.closed.fetch_add(1, Relaxed);
        }
        Message::Measure { sid, .. } => {
            seen.reports.fetch_add(1, Relaxed);
            let mut commands = Commands::default();
            command(&mut commands, next(false));
            send(&installed.message(*sid, &commands).unwrap());
        }
        _ => panic!("no datapath sends {message:?}"),
    }
}

fn command(commands: &mut Commands, what: Option<(u32, u32)>) {
    if let Some((cwnd, rate)) = what {
        commands.cwnd(cwnd).set(RATE, rate);
    }
}

/// Waits until `condition` holds; false after a minute.
pub fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}
