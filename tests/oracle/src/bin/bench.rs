//! `cargo run --release --bin bench`: nanoseconds per ACK, libccp and the runtime side by side.
//!
//! Both are driven the way a transport drives them: new measurements at every ACK, window and rate
//! taken back, reports built and handed over. libccp is timed inside its process. Rounds alternate
//! between the two; the medians are printed.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use anole_datapath::wire::{AlgorithmName, CreateMessage, Install, Message, encode};
use anole_datapath::{AckSample, Flow, FlowConfig, FlowMessage, Outbox, SendError, ValidProgram};
use anole_model::{Bounds, Dur, Time};
use anole_oracle::oracle::{Machine, Oracle, Step};
use anyhow::{Context, Result};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const ROUNDS: usize = 41;
const ACKS_PER_ROUND: u32 = 50_000;
/// 48 Mbps in packets of 1500 bytes.
const ACK_INTERVAL_US: u64 = 250;
const MSS: u32 = 1448;
const INIT_CWND: u32 = 100 * MSS;

const PROGRAMS: [(&str, &str); 4] = [
    ("1 register", include_str!("../../programs/one-register.ccp")),
    ("6 registers", include_str!("../../programs/six-registers.ccp")),
    ("10 registers", include_str!("../../programs/ten-registers.ccp")),
    ("fixed-point AIMD", include_str!("../../programs/aimd.ccp")),
];

const SAMPLE: AckSample = AckSample {
    bytes_acked: MSS,
    packets_acked: 1,
    bytes_misordered: 0,
    packets_misordered: 0,
    ecn_bytes: 0,
    ecn_packets: 0,
    lost_packets: 0,
    was_timeout: false,
    rtt_us: 50_000,
    rate_outgoing: 6_000_000,
    rate_incoming: 5_900_000,
    bytes_in_flight: Some(90 * MSS),
    packets_in_flight: 90,
    bytes_pending: 1_000_000,
    app_limited: false,
};

fn main() -> Result<()> {
    println!("ns per ACK, median of {ROUNDS} alternating rounds of {ACKS_PER_ROUND} ACKs");
    println!(
        "{:<18} {:>12} {:>8} {:>8} {:>8} {:>7}",
        "program", "instructions", "reports", "libccp", "ours", "ratio"
    );
    for (name, source) in PROGRAMS {
        let compiled = anole_lang::compile(source).with_context(|| format!("compiling {name}"))?;
        let (expressions, instructions) = compiled.code.split_at(16 * compiled.expressions as usize);
        let install = Install { uid: 1, expressions, instructions };
        let mut theirs = Theirs::start(install)?;
        let mut ours = Ours::start(install)?;
        let (mut their_times, mut our_times) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            their_times.push(theirs.round()?);
            our_times.push(ours.round());
        }
        let (them, us) = (median(their_times), median(our_times));
        println!(
            "{name:<18} {:>12} {:>8} {them:>8.1} {us:>8.1} {:>7.3}",
            compiled.instructions,
            ours.sent.reports,
            us / them
        );
    }
    Ok(())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

struct Theirs {
    oracle: Oracle,
    now_us: u64,
}

impl Theirs {
    fn start(install: Install<'_>) -> Result<Theirs> {
        let mut oracle = Oracle::start(Machine::Libccp)?;
        let mut batch = Vec::new();
        Step::Start { now_us: 0, init_cwnd: INIT_CWND, mss: MSS }.write(&mut batch);
        for message in
            [Message::Install(install), Message::ChangeProgram { sid: 1, uid: 1, updates: Vec::new() }]
        {
            let mut bytes = Vec::new();
            encode(&message, &mut bytes)?;
            Step::Message(bytes).write(&mut batch);
        }
        oracle.run(&batch)?;
        Ok(Theirs { oracle, now_us: 0 })
    }

    fn round(&mut self) -> Result<f64> {
        let nanos = self.oracle.bench(self.now_us, ACK_INTERVAL_US, ACKS_PER_ROUND, &SAMPLE)?;
        self.now_us += ACK_INTERVAL_US * u64::from(ACKS_PER_ROUND);
        Ok(nanos as f64 / f64::from(ACKS_PER_ROUND))
    }
}

/// An agent that takes every report.
#[derive(Default)]
struct Sent {
    reports: u64,
    bytes: u64,
}

impl Outbox for Sent {
    fn send(&mut self, message: &[u8]) -> Result<(), SendError> {
        self.reports += 1;
        self.bytes += black_box(message).len() as u64;
        Ok(())
    }
}

struct Ours {
    flow: Flow,
    sent: Sent,
    now_us: u64,
}

impl Ours {
    fn start(install: Install<'_>) -> Result<Ours> {
        let create = CreateMessage::without_addresses(INIT_CWND, MSS, AlgorithmName::NONE);
        // An agent that never answers is never given up here, so that the program runs on every ACK; the
        // check itself is part of what is timed.
        let config = FlowConfig { sid: 1, create, bounds: Bounds::DEFAULT, agent_timeout: Dur::MAX };
        let mut flow = Flow::start(config, Time::ZERO, &mut Sent::default());
        let program = Arc::new(ValidProgram::install(&install)?);
        flow.deliver(Time::ZERO, FlowMessage::ChangeProgram(program, Vec::new()));
        Ok(Ours { flow, sent: Sent::default(), now_us: 0 })
    }

    fn round(&mut self) -> f64 {
        let started = Instant::now();
        for _ in 0..ACKS_PER_ROUND {
            let now = Time::from_micros(self.now_us);
            black_box(self.flow.on_ack(now, black_box(&SAMPLE), &mut self.sent));
            self.now_us += ACK_INTERVAL_US;
        }
        started.elapsed().as_nanos() as f64 / f64::from(ACKS_PER_ROUND)
    }
}
