//! The thread that moves packets between the wire's ends and the network.
//!
//! Waiting: `ppoll` on the ends until shortly before the next packet is due, with the thread's timer
//! slack at its minimum instead of the default 50 µs, then a short spin on the clock. No real-time
//! scheduling, and next to no CPU while nothing is due.

use crate::EmulatorError;
use crate::measure::{Counts, FlowRecord, Record};
use crate::network::{Due, EmulatedNetwork};
use crate::wire::{Arrival, Direction, Wire};
use anole_model::{Dur, Time};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl::set_timerslack;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The last stretch before a departure is spun, ns: about what a wake-up takes on an idle machine.
const SPIN_NANOS: u64 = 20_000;

/// Longest wait, so that a request to stop is seen.
const MAX_WAIT: Duration = Duration::from_millis(20);

/// What an emulator is started with.
#[derive(Clone, Copy, Debug)]
pub struct EmulatorOptions {
    /// Time zero of the network and its changes.
    pub epoch: Instant,
    /// Measuring begins this long after the epoch.
    pub warmup: Dur,
}

/// A running emulator; dropping it stops it.
#[derive(Debug)]
pub struct Emulator<W: Wire> {
    counts: Vec<Arc<Counts>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<(Record, W)>>,
}

impl<W: Wire> Emulator<W> {
    /// Starts the thread that carries what comes in at the ends of `wire` through the network.
    pub fn start(
        network: EmulatedNetwork<Vec<u8>>,
        wire: W,
        options: EmulatorOptions,
    ) -> Result<Emulator<W>, EmulatorError> {
        let flows = network.flows();
        let counts: Vec<Arc<Counts>> = (0..flows).map(|_| Arc::default()).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let worker = Worker {
            record: Record { flows: vec![FlowRecord::default(); flows], ..Record::default() },
            lost_before: vec![0; flows],
            counts: counts.clone(),
            network,
            wire,
            options,
            arrivals: Vec::new(),
            stop: stop.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("anole-emulator".to_string())
            .spawn(move || worker.run())
            .map_err(|e| EmulatorError::Thread(e.to_string()))?;
        Ok(Emulator { counts, stop, thread: Some(thread) })
    }

    /// A flow's live counters.
    pub fn counts(&self, flow: usize) -> Arc<Counts> {
        self.counts[flow].clone()
    }

    /// Stops; what was measured, and the wire with what it noticed.
    pub fn finish(mut self) -> Result<(Record, W), EmulatorError> {
        self.stop.store(true, Relaxed);
        let thread = self.thread.take().ok_or_else(|| EmulatorError::Thread("already stopped".into()))?;
        thread.join().map_err(|_| EmulatorError::Thread("it panicked".into()))
    }
}

impl<W: Wire> Drop for Emulator<W> {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Worker<W> {
    network: EmulatedNetwork<Vec<u8>>,
    wire: W,
    counts: Vec<Arc<Counts>>,
    options: EmulatorOptions,
    record: Record,
    lost_before: Vec<u64>,
    /// Empty between calls of [`Worker::receive`].
    arrivals: Vec<Arrival>,
    stop: Arc<AtomicBool>,
}

impl<W: Wire> Worker<W> {
    fn run(mut self) -> (Record, W) {
        // A refusal costs accuracy, which the record shows.
        let _ = set_timerslack(1);
        let started = Instant::now();
        let cpu_before = thread_cpu();
        let mut measuring_since = None;
        while !self.stop.load(Relaxed) {
            if measuring_since.is_none() && self.now() >= Time::ZERO + self.options.warmup {
                measuring_since = Some(self.begin_measuring());
            }
            self.send_due();
            self.wait();
            self.receive();
        }
        let now = self.now();
        self.record.measured = measuring_since.map_or(Dur::ZERO, |since| now.since(since));
        self.record.links = self.network.link_stats(now);
        self.record.possible_bytes = self.network.possible_bytes(now);
        self.record.inside = self.network.data_inside();
        for (flow, record) in self.record.flows.iter_mut().enumerate() {
            record.lost_packets = self.network.lost_of(flow) - self.lost_before[flow];
        }
        self.record.timer.wall = duration(started.elapsed());
        self.record.timer.cpu = duration(thread_cpu().saturating_sub(cpu_before));
        (self.record, self.wire)
    }

    fn now(&self) -> Time {
        since(self.options.epoch)
    }

    fn begin_measuring(&mut self) -> Time {
        let now = self.now();
        self.network.reset_stats(now);
        self.record.inside_before = self.network.data_inside();
        for (flow, record) in self.record.flows.iter_mut().enumerate() {
            *record = FlowRecord::default();
            self.lost_before[flow] = self.network.lost_of(flow);
        }
        now
    }

    /// Hands over everything whose time has come.
    fn send_due(&mut self) {
        while let Some(Due { at, flow, entered, data }) = self.network.pop(self.now()) {
            let direction = if entered.is_some() { Direction::Forward } else { Direction::Reverse };
            match self.wire.deliver(self.now(), flow, direction, &data) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(_) => {
                    self.record.timer.send_failures += 1;
                    continue;
                }
            }
            let now = self.now();
            self.record.timer.lateness.add(now.since(at));
            if let Some(entered) = entered {
                let counts = &self.counts[flow];
                let bytes = u64::from(self.wire.size(&data));
                counts.delivered_packets.fetch_add(1, Relaxed);
                counts.delivered_bytes.fetch_add(bytes, Relaxed);
                let record = &mut self.record.flows[flow];
                record.delivered_packets += 1;
                record.delivered_bytes += bytes;
                record.one_way_delay.add(now.since(entered));
            }
        }
    }

    /// Waits until a datagram comes or the next one is due.
    fn wait(&self) {
        let until_due = |now: Time| self.network.next_event().map_or(u64::MAX, |at| at.since(now).as_nanos());
        let now = self.now();
        let due = until_due(now);
        if due > SPIN_NANOS {
            let wait = Duration::from_nanos(due - SPIN_NANOS).min(MAX_WAIT);
            let fds = self.wire.fds();
            let mut fds: Vec<PollFd<'_>> =
                fds.into_iter().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
            // An interrupted wait is a short one.
            if ppoll(&mut fds, Some(TimeSpec::from_duration(wait)), None).is_ok_and(|ready| ready > 0) {
                return;
            }
        }
        let due = until_due(self.now());
        if due <= SPIN_NANOS {
            let deadline = Instant::now() + Duration::from_nanos(due);
            while Instant::now() < deadline {
                std::hint::spin_loop();
            }
        }
    }

    /// Takes what waits at the ends.
    fn receive(&mut self) {
        let Worker { wire, network, counts, record, options, arrivals, .. } = self;
        wire.receive(&|| since(options.epoch), arrivals);
        for Arrival { at, flow, direction, again, data } in arrivals.drain(..) {
            match direction {
                Direction::Forward => {
                    counts[flow].entered_packets.fetch_add(1, Relaxed);
                    counts[flow].repeated_packets.fetch_add(u64::from(again), Relaxed);
                    record.flows[flow].entered_packets += 1;
                    let size = wire.size(&data);
                    network.offer(at, flow, size, data);
                }
                Direction::Reverse => {
                    let size = wire.size(&data);
                    network.offer_reverse(at, flow, size, data);
                }
            }
        }
    }
}

fn since(epoch: Instant) -> Time {
    Time::ZERO + duration(epoch.elapsed())
}

fn duration(duration: Duration) -> Dur {
    Dur::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// CPU time of the calling thread.
fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
