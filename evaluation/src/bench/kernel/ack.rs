//! What an ACK costs: full windows of small segments over a cable, in congestion avoidance, under the kernel's
//! CUBIC and under the datapath in each of its ways.
//!
//! Counted twice. By the kernel's run-time statistics of BPF programs: for CUBIC, callbacks that call the kernel's
//! functions and nothing else. What the statistics are said to take of a callback that does nothing is
//! subtracted; they do not see the entry to a callback. And, without the statistics, by the processor time of
//! both ends of the connection.

use super::lab::{Lab, Load, Traffic};
use super::{Length, Spread, leave_out, print, wait_for_name};
use crate::output;
use anole_bpf::bench::{BenchControls, CUBIC, NOTHING, ProgramReading, Statistics};
use anole_bpf::{BpfDatapath, Error, Mode};
use anole_datapath::wire::{self, Install, Message};
use anole_programs::{CWND, RATE};
use anyhow::{Context, Result};
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, Instant};

/// Flows at the same time.
const FLOWS: [usize; 2] = [1, 500];
/// One flow's window is this many packets …
const WINDOW: u32 = 64;
/// … and all flows' together not much more, so that a round trip stays one.
const ALL_WINDOWS: u32 = 2000;
/// Small segments, many ACKs …
const WRITE_BYTES: usize = 1000;
/// … and none that the kernel would join to a larger one.
const ALONE: &str = "gso_max_segs 1";
/// Before anything counts.
const SETTLE: Duration = Duration::from_millis(200);
/// The statistics are read this often, and the median of these spans counts.
const SPAN: Duration = Duration::from_millis(25);
/// ACKs that such a span needs to count.
const FEW: u64 = 200;
/// How long the first such span may take.
const AT_MOST: Duration = Duration::from_secs(10);

/// What handles the ACKs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    /// The kernel's CUBIC itself, of which the statistics know nothing.
    Kernel,
    /// The same, called by BPF.
    Called,
    /// A callback that does nothing.
    Nothing,
    /// The datapath without an agent.
    Fallback,
    /// The datapath and a program that does nothing.
    Empty,
    /// Ten registers, the program as byte code.
    Generated,
    /// Ten registers, the program interpreted.
    Interpreted,
    /// Ten registers, as byte code, and every ACK reports them.
    Reporting,
}
use Subject::{Called, Empty, Fallback, Generated, Interpreted, Kernel, Nothing, Reporting};

const SUBJECTS: [Subject; 8] = [Kernel, Called, Nothing, Fallback, Empty, Generated, Interpreted, Reporting];

/// Ten registers; a report every 50 ms, which is many with many flows and few ACKs.
const TEN_REGISTERS: &str = include_str!("../../../../tests/oracle/programs/ten-registers.ccp");
const INTERVAL: &str = "(> Micros 50000)";

impl Subject {
    fn name(self) -> &'static str {
        match self {
            Kernel => "linux:cubic",
            Called => "linux:cubic, called by BPF",
            Nothing => "empty callback",
            Fallback => "fallback",
            Empty => "empty program",
            Generated => "10 registers, generated",
            Interpreted => "10 registers, interpreted",
            Reporting => "10 registers, a report each",
        }
    }

    fn control(self) -> &'static str {
        match self {
            Kernel => "cubic",
            Called => CUBIC,
            Nothing => NOTHING,
            _ => "anole_ccp",
        }
    }

    fn source(self) -> Option<String> {
        match self {
            Empty => Some(include_str!("empty.ccp").to_string()),
            // Once a second: a report's cost is a figure of its own.
            Generated | Interpreted => Some(TEN_REGISTERS.replace(INTERVAL, "(> Micros 1000000)")),
            Reporting => Some(TEN_REGISTERS.replace(INTERVAL, "true")),
            Kernel | Called | Nothing | Fallback => None,
        }
    }
}

/// The programs that the statistics know of a subject, and the one that runs once per ACK.
fn programs(subject: Subject) -> Option<(&'static str, &'static str)> {
    match subject {
        Kernel => None,
        Called => Some(("bench_", "bench_cong_avoi")),
        Nothing => Some(("bench_", "bench_nothing")),
        _ => Some(("anole_", "anole_cong_cont")),
    }
}

/// One round's figures of a subject, ns per ACK.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// As the statistics say.
    counted: Option<f64>,
    /// How many callbacks an ACK takes.
    callbacks: f64,
    /// Processor time.
    busy: f64,
    acks: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Figure {
    bench: &'static str,
    what: &'static str,
    flows: usize,
    rounds: usize,
    acks: u64,
    bytes_per_ack: f64,
    /// By the statistics, as they are.
    counted_ns: Option<Spread>,
    /// Less the statistics themselves, and less CUBIC.
    added_ns: Option<Spread>,
    /// Processor time of both ends for one ACK and the data that it acknowledges.
    busy_ns: Option<Spread>,
    /// Less that under the kernel's CUBIC.
    added_busy_ns: Option<Spread>,
}

/// Measures every subject, in turn in every round.
pub fn run(length: Length, json: bool) -> Result<()> {
    let peers = match BenchControls::register() {
        Ok(peers) => peers,
        Err(error) => {
            leave_out("an ACK's cost, which is compared with that of CUBIC called by BPF,", error);
            return Ok(());
        }
    };
    for flows in FLOWS {
        let window = (ALL_WINDOWS / flows as u32).clamp(4, WINDOW);
        let half = window / 2;
        let route = format!("initcwnd {window} cwnd lock {window} ssthresh lock {half}");
        let lab = Lab::new(ALONE, &route, "quickack 1")?;
        let mut rounds = Vec::new();
        for _ in 0..length.rounds {
            let measured = SUBJECTS.map(|subject| measure(&lab, subject, flows, window, length));
            rounds.push(measured.into_iter().collect::<Result<Vec<Round>>>()?);
        }
        if !json {
            output::print_line(&format!(
                "{:<28} {:>5} {:>9} {:>7} | {:>18} {:>20} | {:>22} {:>20}",
                "an ACK under",
                "flows",
                "ACKs",
                "bytes",
                "counted, ns",
                "added to CUBIC's, ns",
                "processor time, ns",
                "added, ns"
            ))?;
        }
        for (n, subject) in SUBJECTS.into_iter().enumerate() {
            let figure = figure(subject, n, flows, &rounds);
            print(json, &figure, || figure.row())?;
        }
    }
    drop(peers);
    Ok(())
}

fn figure(subject: Subject, n: usize, flows: usize, rounds: &[Vec<Round>]) -> Figure {
    let at = |round: &[Round], wanted: Subject| {
        SUBJECTS.iter().position(|subject| *subject == wanted).map(|n| round[n]).unwrap_or_default()
    };
    // Without the statistics' own share.
    let net = |round: &[Round], of: Round| Some(of.counted? - at(round, Nothing).counted? * of.callbacks);
    let added = |round: &[Round]| Some(net(round, round[n])? - net(round, at(round, Called))?);
    let sum = |of: fn(Round) -> u64| rounds.iter().map(|round| of(round[n])).sum::<u64>();
    let acks = sum(|round| round.acks);
    Figure {
        bench: "kernel-ack",
        what: subject.name(),
        flows,
        rounds: rounds.len(),
        acks,
        bytes_per_ack: (sum(|round| round.bytes) as f64 / acks.max(1) as f64).round(),
        counted_ns: Spread::of(rounds.iter().filter_map(|round| round[n].counted)),
        added_ns: Spread::of(rounds.iter().filter_map(|round| added(round))),
        busy_ns: Spread::of(rounds.iter().map(|round| round[n].busy)),
        added_busy_ns: Spread::of(rounds.iter().map(|round| round[n].busy - at(round, Kernel).busy)),
    }
}

impl Figure {
    fn row(&self) -> String {
        let show = |spread: Option<Spread>| spread.map_or("–".to_string(), |spread| spread.show(0));
        format!(
            "{:<28} {:>5} {:>9} {:>7} | {:>18} {:>20} | {:>22} {:>20}",
            self.what,
            self.flows,
            self.acks,
            self.bytes_per_ack,
            show(self.counted_ns),
            show(self.added_ns),
            show(self.busy_ns),
            show(self.added_busy_ns),
        )
    }
}

fn measure(lab: &Lab, subject: Subject, flows: usize, window: u32, length: Length) -> Result<Round> {
    let mode = if subject == Interpreted { Mode::Interpreted } else { Mode::Generated };
    let mut agent = match subject.control() {
        "anole_ccp" => Some(Agent::start(subject.source(), mode, window)?),
        _ => None,
    };
    let load = Load { control: subject.control(), flows, write_bytes: WRITE_BYTES, limit: None };
    let traffic = Traffic::start(lab, load)?;
    let mut pass = |time: Duration| -> Result<()> {
        match &mut agent {
            Some(agent) => agent.serve(time),
            None => {
                std::thread::sleep(time);
                Ok(())
            }
        }
    };
    pass(SETTLE)?;
    let before = traffic.snapshot()?;
    pass(length.span)?;
    let after = traffic.snapshot()?;
    let acks = after.acks - before.acks;
    let mut round = Round {
        busy: (after.busy - before.busy).as_nanos() as f64 / acks.max(1) as f64,
        acks,
        bytes: after.bytes - before.bytes,
        ..Round::default()
    };
    if let Some((prefix, once)) = programs(subject) {
        let _statistics = Statistics::enable().context("cannot switch BPF's statistics on")?;
        let (mut counted, mut callbacks) = (Vec::new(), Vec::new());
        let (mut last, begin) = (ProgramReading::take(prefix), Instant::now());
        // A slow machine takes longer for a span that counts.
        let goes_on = |counted: &[f64]| {
            begin.elapsed() < length.span || (counted.is_empty() && begin.elapsed() < AT_MOST)
        };
        while goes_on(&counted) {
            pass(SPAN)?;
            let now = ProgramReading::take(prefix);
            let (all, acks) = now.since(&last, once);
            if acks.count >= FEW {
                counted.push(all.nanos as f64 / acks.count as f64);
                callbacks.push(all.count as f64 / acks.count as f64);
                last = now;
            }
        }
        round.counted = Spread::of(counted.into_iter()).map(|spread| spread.median);
        round.callbacks = Spread::of(callbacks.into_iter()).map_or(0.0, |spread| spread.median);
    }
    traffic.finish()?;
    Ok(round)
}

/// An agent that has every flow run one program with a fixed window, and answers every report.
struct Agent {
    datapath: BpfDatapath,
    governs: bool,
    window: u32,
}

impl Agent {
    const UID: u32 = 1;

    fn start(source: Option<String>, mode: Mode, window: u32) -> Result<Agent> {
        // Another agent may come between two subjects, a test's for example.
        let mut datapath = match BpfDatapath::open(Path::new("/nowhere"), &[], mode) {
            Err(Error::Register(_)) if wait_for_name() => {
                BpfDatapath::open(Path::new("/nowhere"), &[], mode)?
            }
            opened => opened?,
        };
        let governs = source.is_some();
        if let Some(source) = source {
            let compiled = anole_lang::compile(&source)?;
            let install = Install::of_code(Agent::UID, compiled.expressions, &compiled.code);
            datapath.send(&encoded(&Message::Install(install))?)?;
        }
        Ok(Agent { datapath, governs, window })
    }

    /// Does an agent's work for this long; without a program, it is as if it was gone.
    fn serve(&mut self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        if !self.governs {
            std::thread::sleep(time);
            return Ok(());
        }
        let mut buffer = [0; 1024];
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            let Some(length) = self.datapath.receive(&mut buffer, left.min(Duration::from_millis(50))) else {
                continue;
            };
            let (message, _) = wire::decode(&buffer[..length.min(buffer.len())])?;
            let answer = match message {
                Message::Create(sid, create) => {
                    let updates = vec![CWND.update(self.window * create.mss), RATE.update(0)];
                    Message::ChangeProgram { sid, uid: Agent::UID, updates }
                }
                Message::Measure { sid, values, .. } if !values.is_empty() => {
                    Message::Update(sid, Vec::new())
                }
                _ => continue,
            };
            // The flow may have ended meanwhile.
            let _ = self.datapath.send(&encoded(&answer)?);
        }
    }
}

fn encoded(message: &Message<'_>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    wire::encode(message, &mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_compiles_and_differs() {
        let compiled = |subject: Subject| anole_lang::compile(&subject.source().unwrap()).unwrap().code;
        let programs = [Empty, Generated, Reporting].map(compiled);
        assert!(programs[0] != programs[1] && programs[1] != programs[2]);
        assert_ne!(Some(TEN_REGISTERS.to_string()), Generated.source());
    }
}
