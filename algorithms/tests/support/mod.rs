//! A single bottleneck for whole-algorithm tests: the real datapath runtime and fold programs over one
//! drop-tail queue, one packet at a time, in virtual time. No retransmissions: every flow is endless, and
//! a lost packet is reported lost when the third packet behind it would have been acknowledged.

pub mod by_hand;
mod governed;

use anole_algorithms::learned::{Policies, Shipped};
use anole_algorithms::{Algorithm, Build, FlowInfo, Telemetry};
use anole_datapath::{AckSample, InForce};
use anole_model::{Dur, Rate, Time};
use governed::Governed;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

pub const MSS: u32 = 1448;
const FLOW: FlowInfo = FlowInfo { mss: MSS, init_cwnd: 10 * MSS };
/// For which the datapath bears an agent's silence.
const PATIENCE: Dur = Dur::from_millis(500);

/// The link.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    pub rate: Rate,
    pub rtt: Dur,
    pub buffer_bytes: f64,
    pub loss: f64,
}

impl Path {
    /// 48 Mbps, 50 ms, 2 BDP.
    pub fn normal() -> Path {
        Path { rate: Rate::from_mbps(48.0), rtt: Dur::from_millis(50), buffer_bytes: 600_000.0, loss: 0.0 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Send,
    Ack { sent: Time },
    Lost,
}

/// One flow over the link.
pub struct World {
    path: Path,
    random: Pcg64Mcg,
    governed: Governed,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    counter: u64,
    /// When the link has sent everything that is queued.
    free_at: Time,
    control: InForce,
    in_flight: u32,
    next_send: Time,
    send_scheduled: bool,
    delivered: u64,
    lost: u64,
    last_rtt: Dur,
}

impl World {
    #[allow(dead_code, reason = "not every test needs it")]
    pub fn new(algorithm: &str, policy: Option<&str>, path: Path) -> World {
        World::with(algorithm, policy, Arc::new(Shipped), path)
    }

    #[allow(dead_code, reason = "not every test needs it")]
    pub fn with(algorithm: &str, policy: Option<&str>, policies: Arc<dyn Policies>, path: Path) -> World {
        let build = Build {
            flow: FLOW,
            classic: None,
            policy: policy.map(String::from),
            policies,
            params: BTreeMap::new(),
            seed: 1,
        };
        World::of(anole_algorithms::build(algorithm, &build).unwrap(), path)
    }

    /// A flow that this algorithm runs.
    pub fn of(algorithm: Box<dyn Algorithm>, path: Path) -> World {
        let mut world = World {
            path,
            random: Pcg64Mcg::seed_from_u64(1),
            governed: Governed::new(algorithm, FLOW, PATIENCE),
            events: BinaryHeap::new(),
            counter: 0,
            free_at: Time::ZERO,
            control: InForce { cwnd: FLOW.init_cwnd, rate: 0 },
            in_flight: 0,
            next_send: Time::ZERO,
            send_scheduled: false,
            delivered: 0,
            lost: 0,
            last_rtt: Dur::ZERO,
        };
        world.schedule_send(Time::ZERO);
        world
    }

    fn push(&mut self, at: Time, event: Event) {
        self.counter += 1;
        self.events.push(Reverse((at, self.counter, event)));
    }

    fn schedule_send(&mut self, now: Time) {
        if !self.send_scheduled && self.in_flight + MSS <= self.control.cwnd {
            self.send_scheduled = true;
            let at = now.max(self.next_send);
            self.push(at, Event::Send);
        }
    }

    fn tell(&mut self, now: Time, sample: AckSample) {
        self.control = self.governed.on_ack(now, &sample);
        assert!(self.control.cwnd >= 2 * MSS, "{:?}", self.control);
    }

    /// Runs until `end`; returns the bytes delivered meanwhile.
    pub fn run(&mut self, end: Time) -> u64 {
        let before = self.delivered;
        while let Some(&Reverse((now, _, event))) = self.events.peek() {
            if now > end {
                break;
            }
            self.events.pop();
            match event {
                Event::Send => self.send(now),
                Event::Ack { sent } => {
                    self.in_flight -= MSS;
                    self.delivered += u64::from(MSS);
                    self.last_rtt = now.since(sent);
                    let sample = AckSample {
                        bytes_acked: MSS,
                        packets_acked: 1,
                        rtt_us: self.last_rtt.as_micros(),
                        bytes_in_flight: Some(self.in_flight),
                        packets_in_flight: self.in_flight / MSS,
                        bytes_pending: MSS,
                        ..AckSample::default()
                    };
                    self.tell(now, sample);
                }
                Event::Lost => {
                    self.in_flight -= MSS;
                    self.lost += u64::from(MSS);
                    let sample = AckSample {
                        lost_packets: 1,
                        bytes_in_flight: Some(self.in_flight),
                        packets_in_flight: self.in_flight / MSS,
                        bytes_pending: MSS,
                        ..AckSample::default()
                    };
                    self.tell(now, sample);
                }
            }
            self.schedule_send(now);
        }
        self.delivered - before
    }

    fn send(&mut self, now: Time) {
        self.send_scheduled = false;
        self.in_flight += MSS;
        let rate = Rate::from_bytes_per_s(f64::from(self.control.rate));
        if self.control.rate > 0 {
            let gap = Dur::from_secs_f64(f64::from(MSS) / rate.bytes_per_s());
            self.next_send = now + gap;
        }
        let service = Dur::from_secs_f64(f64::from(MSS) / self.path.rate.bytes_per_s());
        let queued = self.path.rate.bytes_in(self.free_at.since(now));
        let dropped = queued + f64::from(MSS) > self.path.buffer_bytes;
        if !dropped {
            self.free_at = self.free_at.max(now) + service;
        }
        let arrival = self.free_at.max(now) + self.path.rtt;
        if dropped || self.random.random_range(0.0..1.0) < self.path.loss {
            self.push(arrival + service * 3, Event::Lost);
        } else {
            self.push(arrival, Event::Ack { sent: now });
        }
    }

    /// Bytes lost so far.
    #[allow(dead_code, reason = "not every test needs it")]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// What the algorithm did so far.
    #[allow(dead_code, reason = "not every test needs it")]
    pub fn telemetry(&self) -> Telemetry {
        self.governed.session.metrics().telemetry
    }

    #[allow(dead_code, reason = "not every test needs it")]
    /// The run so far, one line per `step`: time, delivery rate, round-trip time, window, pacing rate.
    pub fn trajectory(&mut self, end: Dur, step: Dur) -> String {
        let mut text = String::from("    time  delivered  last rtt       cwnd      rate\n");
        let mut now = Time::ZERO;
        while now < Time::ZERO + end {
            now += step;
            let delivered = Rate::from_bytes_in(self.run(now), step);
            writeln!(
                text,
                "{:7.1}s {:6.2}Mbps {:7.2}ms {:9}B {:6.2}Mbps",
                now.as_secs_f64(),
                delivered.mbps(),
                self.last_rtt.as_millis_f64(),
                self.control.cwnd,
                f64::from(self.control.rate) * 8e-6,
            )
            .unwrap();
        }
        writeln!(text, "{:?}", self.governed.session.metrics().telemetry).unwrap();
        text
    }
}

/// Compares a trajectory with `golden/NAME.txt`.
#[allow(dead_code, reason = "not every test needs it")]
#[allow(clippy::disallowed_methods, reason = "a test reads its golden files and one variable")]
pub fn golden(name: &str, seen: &str) {
    let file: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "tests", "golden", &format!("{name}.txt")].iter().collect();
    if std::env::var("UPDATE_GOLDEN").is_ok() {
        std::fs::write(&file, seen).unwrap();
    }
    let golden = std::fs::read_to_string(&file).unwrap_or_default();
    let changed = seen.lines().zip(golden.lines()).find(|(new, old)| new != old);
    assert!(
        seen == golden,
        "{} differs, first at {changed:?}; if that is meant, run with UPDATE_GOLDEN=1",
        file.display()
    );
}
