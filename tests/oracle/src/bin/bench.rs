//! `cargo run --release --bin bench`: nanoseconds per ACK, libccp, the runtime and the runtime's C interface side by side.
//!
//! All are driven the way a transport drives them: new measurements at every ACK, window and rate
//! taken back, reports built and handed over. libccp is timed inside its process, the C interface by a transport in C
//! (`src/transport.c`). Rounds alternate between the three; the least of each is printed.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use anole_capi::AnolePrimitives;
use anole_datapath::wire::{AlgorithmName, CreateMessage, Install, Message, encode};
use anole_datapath::{AckSample, Flow, FlowConfig, FlowMessage, Outbox, SendError, ValidProgram};
use anole_model::{Bounds, Dur, Time};
use anole_oracle::oracle::{Machine, Oracle, Step};
use anyhow::{Context, Result, ensure};
use std::hint::black_box;
use std::sync::Arc;

const ROUNDS: usize = 41;
const ACKS_PER_ROUND: u32 = 50_000;
/// 48 Mbps in packets of 1500 bytes.
const ACK_INTERVAL_US: u64 = 250;
const MSS: u32 = 1448;
const INIT_CWND: u32 = 100 * MSS;

/// Messages of the C interface before the first report.
const CREATES: u64 = 1;

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
    println!("ns per ACK, least of {ROUNDS} alternating rounds of {ACKS_PER_ROUND} ACKs");
    println!(
        "{:<18} {:>12} {:>8} {:>8} {:>8} {:>7} {:>8} {:>7}",
        "program", "instructions", "reports", "libccp", "ours", "ratio", "ours, C", "ratio"
    );
    for (name, source) in PROGRAMS {
        let compiled = anole_lang::compile(source).with_context(|| format!("compiling {name}"))?;
        let (expressions, instructions) = compiled.code.split_at(16 * compiled.expressions as usize);
        let install = Install { uid: 1, expressions, instructions };
        let mut theirs = Theirs::start(install)?;
        let mut ours = Ours::start(install)?;
        let mut in_c = InC::start(install)?;
        let [mut their_times, mut our_times, mut c_times] = [const { Vec::new() }; 3];
        for _ in 0..ROUNDS {
            their_times.push(theirs.round()?);
            our_times.push(ours.round());
            c_times.push(in_c.round()?);
        }
        ensure!(in_c.0.reports == ours.sent.reports + CREATES, "the C interface sends as many reports");
        let (them, us, c) = (least(their_times), least(our_times), least(c_times));
        println!(
            "{name:<18} {:>12} {:>8} {them:>8.1} {us:>8.1} {:>7.3} {c:>8.1} {:>7.3}",
            compiled.instructions,
            ours.sent.reports,
            us / them,
            c / them
        );
    }
    Ok(())
}

/// Of rounds that are the same but for what else the host does.
fn least(times: Vec<f64>) -> f64 {
    times.into_iter().fold(f64::INFINITY, f64::min)
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
        // SAFETY: it takes nothing and touches nothing.
        let started = unsafe { thread_nanos() };
        for _ in 0..ACKS_PER_ROUND {
            let now = Time::from_micros(self.now_us);
            black_box(self.flow.on_ack(now, black_box(&SAMPLE), &mut self.sent));
            self.now_us += ACK_INTERVAL_US;
        }
        // SAFETY: as above.
        (unsafe { thread_nanos() } - started) as f64 / f64::from(ACKS_PER_ROUND)
    }
}

/// The transport of `src/transport.c`.
#[repr(C)]
struct Transport {
    datapath: *mut core::ffi::c_void,
    connection: u32,
    cwnd: u32,
    rate: u32,
    clock_us: u64,
    reports: u64,
}

#[link(name = "transport", kind = "static")]
unsafe extern "C" {
    fn transport_start(
        transport: *mut Transport,
        init_cwnd: u32,
        mss: u32,
        install: *const u8,
        install_bytes: usize,
        change: *const u8,
        change_bytes: usize,
    ) -> i32;
    fn transport_round(transport: *mut Transport, step_us: u64, n: u32, fresh: *const AnolePrimitives)
    -> u64;
    fn transport_end(transport: *mut Transport);
    fn thread_nanos() -> u64;
}

/// The runtime under a transport in C. The library holds the transport's address.
struct InC(Box<Transport>);

impl InC {
    fn start(install: Install<'_>) -> Result<InC> {
        let (mut program, mut change) = (Vec::new(), Vec::new());
        encode(&Message::Install(install), &mut program)?;
        encode(&Message::ChangeProgram { sid: 1, uid: 1, updates: Vec::new() }, &mut change)?;
        // SAFETY: zero is a value of every field; the slices live through the call.
        let mut transport: Box<Transport> = Box::new(unsafe { std::mem::zeroed() });
        let status = unsafe {
            let (program, change) = ((program.as_ptr(), program.len()), (change.as_ptr(), change.len()));
            transport_start(&raw mut *transport, INIT_CWND, MSS, program.0, program.1, change.0, change.1)
        };
        ensure!(status == 0, "the C interface refused to start");
        Ok(InC(transport))
    }

    fn round(&mut self) -> Result<f64> {
        let sample = primitives();
        // SAFETY: started, not ended.
        let nanos =
            unsafe { transport_round(&raw mut *self.0, ACK_INTERVAL_US, ACKS_PER_ROUND, &raw const sample) };
        ensure!(nanos > 0, "the C interface refused an ACK");
        Ok(nanos as f64 / f64::from(ACKS_PER_ROUND))
    }
}

impl Drop for InC {
    fn drop(&mut self) {
        // SAFETY: started, not ended.
        unsafe { transport_end(&raw mut *self.0) };
    }
}

/// `SAMPLE` in C.
fn primitives() -> AnolePrimitives {
    AnolePrimitives {
        bytes_acked: SAMPLE.bytes_acked,
        packets_acked: SAMPLE.packets_acked,
        bytes_misordered: SAMPLE.bytes_misordered,
        packets_misordered: SAMPLE.packets_misordered,
        ecn_bytes: SAMPLE.ecn_bytes,
        ecn_packets: SAMPLE.ecn_packets,
        lost_pkts_sample: SAMPLE.lost_packets,
        bytes_in_flight: SAMPLE.bytes_in_flight.unwrap_or(anole_capi::ANOLE_UNKNOWN),
        packets_in_flight: SAMPLE.packets_in_flight,
        bytes_pending: SAMPLE.bytes_pending,
        rtt_sample_us: SAMPLE.rtt_us,
        rate_outgoing: SAMPLE.rate_outgoing,
        rate_incoming: SAMPLE.rate_incoming,
        was_timeout: u8::from(SAMPLE.was_timeout),
        app_limited: u8::from(SAMPLE.app_limited),
    }
}
