//! Malformed datagrams at the agents' sockets while the flows run.
//!
//! Half are random bytes, half are messages of the protocol with one to three bytes changed, added or cut
//! off. They are sent evenly over the run and wait for room in the socket's queue, which holds a few
//! datagrams and is shared with the datapaths.

use anole_datapath::wire::{self, AlgorithmName, CreateMessage, Message};
use anyhow::{Context, Result, anyhow};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Datagrams go out in batches this far apart.
const BATCH: Duration = Duration::from_millis(2);
/// How long one datagram may wait for room; an agent that is away has none.
const ROOM: Duration = Duration::from_millis(20);
/// Random datagrams are up to this long: beyond what portus takes (1024 bytes).
const MAX_BYTES: usize = 1500;

/// A flood in progress.
pub struct Flood {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
    wanted: u64,
}

impl Flood {
    /// Begins to send `wanted` datagrams over `span`, in turn to each socket.
    pub fn start(sockets: Vec<PathBuf>, wanted: u64, span: Duration, seed: u64) -> Result<Flood> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let socket = UnixDatagram::unbound().context("cannot open a socket for the flood")?;
        socket.set_write_timeout(Some(ROOM)).context("cannot set up the flood's socket")?;
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let send = move || {
            let (begin, samples) = (Instant::now(), samples());
            let mut taken = 0;
            let mut sent = 0;
            while sent < wanted && !stopped.load(Ordering::Relaxed) {
                let share = begin.elapsed().as_secs_f64() / span.as_secs_f64();
                let due = ((share * wanted as f64) as u64).min(wanted);
                for number in sent..due {
                    let bytes = malformed(&mut random, &samples);
                    let to = &sockets[number as usize % sockets.len()];
                    taken += u64::from(socket.send_to(&bytes, to).is_ok());
                    if stopped.load(Ordering::Relaxed) {
                        return taken;
                    }
                }
                sent = due;
                std::thread::sleep(BATCH);
            }
            taken
        };
        let thread = std::thread::Builder::new().name("flood".to_string()).spawn(send)?;
        Ok(Flood { stop, thread, wanted })
    }

    /// Ends it and tells how much of it arrived.
    pub fn finish(self) -> Result<String> {
        self.stop.store(true, Ordering::Relaxed);
        let taken = self.thread.join().map_err(|_| anyhow!("the flood's thread failed"))?;
        Ok(format!("{taken} of {} malformed datagrams were taken by the agents' sockets", self.wanted))
    }
}

/// A message of each kind.
fn samples() -> Vec<Vec<u8>> {
    let create = CreateMessage::without_addresses(14_480, 1448, AlgorithmName::NONE);
    let messages = [
        Message::Create(1, create),
        Message::Measure { sid: 1, uid: 1, values: vec![1, 2, 3] },
        Message::Update(1, Vec::new()),
        Message::ChangeProgram { sid: 1, uid: 1, updates: Vec::new() },
        Message::Ready(1),
    ];
    let encode = |message: &Message<'_>| {
        let mut bytes = Vec::new();
        wire::encode(message, &mut bytes).ok().map(|()| bytes)
    };
    messages.iter().filter_map(encode).collect()
}

fn malformed(random: &mut Pcg64Mcg, samples: &[Vec<u8>]) -> Vec<u8> {
    if random.random_bool(0.5) {
        let mut bytes = vec![0; random.random_range(1..MAX_BYTES)];
        random.fill_bytes(&mut bytes);
        return bytes;
    }
    let mut bytes = samples[random.random_range(0..samples.len())].clone();
    for _ in 0..random.random_range(1..4) {
        let at = random.random_range(0..bytes.len());
        match random.random_range(0..4) {
            0 => bytes.truncate(at.max(1)),
            1 => bytes[at] = random.random(),
            // Type and length are where it hurts most.
            2 => bytes[at.min(3)] = random.random_range(0..8),
            _ => bytes.insert(at, random.random()),
        }
    }
    bytes
}
