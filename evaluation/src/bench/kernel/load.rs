//! What traffic costs: processor time per Gbit of both ends and of the agent, with one rate for all and without
//! limit; and how long a report waits until its answer is in force.

use super::lab::{Lab, Load, Snapshot, Traffic};
use super::{Length, Spread, leave_out, print, wait_for_name};
use crate::emulate::DatapathKind;
use crate::emulate::agent::{AgentProcess, CONGESTION_CONTROL, available};
use crate::emulate::bpf_fs::BpfFs;
use crate::emulate::govern::AgentSpec;
use crate::output;
use anole_bpf::{DatapathStats, Waits};
use anyhow::{Context, Result};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// Flows at the same time.
const FLOWS: [usize; 2] = [1, 500];
/// One rate for all, bytes/s: 1 Gbit/s.
const LIMIT: u64 = 125_000_000;
/// Handed to a socket at a time.
const WRITE_BYTES: usize = 1 << 16;
/// Before anything counts.
const SETTLE: Duration = Duration::from_millis(1500);
/// Longer than what an ACK is measured for: agents' work comes in waves.
const LONGER: u32 = 2;
/// The agent's own choice, the one of its algorithms that the kernel has as well, and the kernel's. The last is
/// the kernel's CUBIC as fast as the first was in the same round: what it costs to carry so much and no more.
const SUBJECTS: [(&str, &str); 5] = [
    ("anole", CONGESTION_CONTROL),
    ("cubic", "anole_cubic"),
    ("linux:cubic", "cubic"),
    ("linux:bbr", "bbr"),
    ("linux:cubic, as fast", "cubic"),
];
/// Where the kernel's CUBIC and BBR are among them.
const PEERS: [usize; 2] = [2, 3];
/// Where the one is that goes by the first.
const AS_FAST: usize = 4;

/// One round's figures of a subject.
#[derive(Clone, Debug, Default)]
struct Round {
    mbps: f64,
    /// Of both ends' threads and, where it governs, the agent: s per Gbit.
    cpu: f64,
    /// Busy processors of this machine, whoever kept them so: s per Gbit.
    machine: f64,
    /// Of a processor.
    agent: f64,
    /// Between ACKs of one flow, µs.
    ack_gap_us: f64,
    waits: Waits,
    again: u64,
    unsent: u64,
    fallbacks: u64,
}

impl Round {
    fn bytes_per_s(&self) -> u64 {
        (self.mbps * 125e3) as u64
    }
}

#[derive(Serialize)]
struct Figure {
    bench: &'static str,
    alg: &'static str,
    flows: usize,
    /// Of all flows together; none: as fast as it goes.
    limit_mbps: Option<f64>,
    rounds: usize,
    throughput_mbps: Option<Spread>,
    cpu_s_per_gbit: Option<Spread>,
    cpu_ratio_to_linux_cubic: Option<Spread>,
    cpu_ratio_to_linux_bbr: Option<Spread>,
    cpu_ratio_to_linux_cubic_as_fast: Option<Spread>,
    machine_s_per_gbit: Option<Spread>,
    agent_share: Option<Spread>,
    /// Reports that were answered …
    answers: u64,
    /// … and how long it took from the ACK with the report to the one at which the answer was in force; an answer
    /// waits for the flow's next ACK.
    report_to_applied_p50_us: Option<f64>,
    report_to_applied_p99_us: Option<f64>,
    ack_gap_us: Option<Spread>,
    /// Segments sent again.
    again: u64,
    /// Messages to the agent that found no room.
    unsent: u64,
    /// Times that a flow lost its agent.
    fallbacks: u64,
}

/// Measures every subject, in turn in every round.
pub fn run(binary: &Path, length: Length, json: bool) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("anole-bench-").tempdir().context("cannot make a folder")?;
    let bpf_fs = BpfFs::mount_in(folder.path())?;
    let spec = AgentSpec {
        datapath: DatapathKind::Kernel,
        alg: "anole".to_string(),
        classic: None,
        policy: None,
        params: Default::default(),
        policies: Default::default(),
    };
    wait_for_name();
    let agent = AgentProcess::start(binary, folder.path(), Some(&bpf_fs), 0, &spec, 1)?;
    let lab = Lab::new("up", "", "")?;
    let known: Vec<String> = available().collect();
    let usable: Vec<bool> =
        SUBJECTS.iter().map(|(_, control)| known.iter().any(|name| name == control)).collect();
    for ((alg, _), usable) in SUBJECTS.iter().zip(&usable) {
        if !usable {
            leave_out(alg, "this kernel does not have it");
        }
    }
    let look = || bpf_fs.look(|folder| Ok((anole_bpf::stats(folder)?, anole_bpf::waits(folder)?)));
    for limit in [Some(LIMIT), None] {
        for flows in FLOWS {
            let mut rounds = Vec::new();
            for _ in 0..length.rounds {
                let mut round: Vec<Option<Round>> = Vec::new();
                for (n, ((_, control), usable)) in SUBJECTS.iter().zip(&usable).enumerate() {
                    let first = round.first().and_then(Option::as_ref).map(Round::bytes_per_s);
                    let (limit, wanted) = match (n, limit) {
                        // With one rate for all it would be `linux:cubic` once more.
                        (AS_FAST, limit) => (first, *usable && limit.is_none() && first.is_some()),
                        (_, limit) => (limit, *usable),
                    };
                    let load = Load { control, flows, write_bytes: WRITE_BYTES, limit };
                    let measured = || measure(&lab, load, &agent, &look, length.span * LONGER);
                    round.push(wanted.then(measured).transpose()?);
                }
                rounds.push(round);
            }
            if !json {
                let limit =
                    limit.map_or("no limit".to_string(), |limit| format!("{} Mbps", limit as f64 * 8e-6));
                output::print_line(&format!("{flows} flows, {limit}"))?;
                output::print_line(&row(HEAD.map(str::to_string)))?;
            }
            let measured = |n: &usize| rounds.iter().any(|round| round[*n].is_some());
            for (n, (alg, _)) in SUBJECTS.into_iter().enumerate().filter(|(n, _)| measured(n)) {
                let figure = figure(alg, n, flows, limit, &rounds);
                print(json, &figure, || figure.row())?;
            }
        }
    }
    agent.finish()?;
    Ok(())
}

fn figure(
    alg: &'static str,
    n: usize,
    flows: usize,
    limit: Option<u64>,
    rounds: &[Vec<Option<Round>>],
) -> Figure {
    let own = || rounds.iter().filter_map(|round| round[n].as_ref());
    let each = |of: fn(&Round) -> f64| Spread::of(own().map(of));
    let ratio = |peer: usize| {
        let of = |round: &Vec<Option<Round>>| Some(round[n].as_ref()?.cpu / round[peer].as_ref()?.cpu);
        Spread::of(rounds.iter().filter_map(of))
    };
    let sum = |of: fn(&Round) -> u64| own().map(of).sum();
    let waits = own().fold(Waits::default(), |all, round| all.and(&round.waits));
    Figure {
        bench: "kernel-load",
        alg,
        flows,
        limit_mbps: limit.map(|limit| limit as f64 * 8e-6),
        rounds: rounds.len(),
        throughput_mbps: each(|round| round.mbps),
        cpu_s_per_gbit: each(|round| round.cpu),
        cpu_ratio_to_linux_cubic: ratio(PEERS[0]),
        cpu_ratio_to_linux_bbr: ratio(PEERS[1]),
        cpu_ratio_to_linux_cubic_as_fast: ratio(AS_FAST),
        machine_s_per_gbit: each(|round| round.machine),
        agent_share: each(|round| round.agent),
        answers: waits.count(),
        report_to_applied_p50_us: waits.quantile_us(0.5),
        report_to_applied_p99_us: waits.quantile_us(0.99),
        ack_gap_us: each(|round| round.ack_gap_us),
        again: sum(|round| round.again),
        unsent: sum(|round| round.unsent),
        fallbacks: sum(|round| round.fallbacks),
    }
}

const HEAD: [&str; 10] = [
    "traffic under",
    "flows",
    "Mbps",
    "processor time, s/Gbit",
    "linux:cubic = 1",
    "linux:bbr = 1",
    "as fast = 1",
    "agent, processors",
    "report to applied p50, p99; ACK gap, µs",
    "again, unsent, fallbacks",
];

/// Columns of the table.
fn row(cells: [String; 10]) -> String {
    let [alg, flows, mbps, cpu, cubic, bbr, fast, agent, waits, lost] = cells;
    format!(
        "{alg:<20} {flows:>5} {mbps:>20} | {cpu:>22} {cubic:>18} {bbr:>18} {fast:>18} | {agent:>20} | {waits:>40} | {lost}"
    )
}

impl Figure {
    fn row(&self) -> String {
        let show =
            |spread: Option<Spread>, digits| spread.map_or("–".to_string(), |spread| spread.show(digits));
        let micros = |time: Option<f64>| time.map_or("–".to_string(), |time| format!("{time:.0}"));
        row([
            self.alg.to_string(),
            self.flows.to_string(),
            show(self.throughput_mbps, 0),
            show(self.cpu_s_per_gbit, 3),
            show(self.cpu_ratio_to_linux_cubic, 2),
            show(self.cpu_ratio_to_linux_bbr, 2),
            show(self.cpu_ratio_to_linux_cubic_as_fast, 2),
            show(self.agent_share, 3),
            format!(
                "{}, {}; {}",
                micros(self.report_to_applied_p50_us),
                micros(self.report_to_applied_p99_us),
                micros(self.ack_gap_us.map(|gap| gap.median))
            ),
            format!("{} {} {}", self.again, self.unsent, self.fallbacks),
        ])
    }
}

/// What was counted beside the traffic.
struct Beside {
    traffic: Snapshot,
    machine: Duration,
    agent: Duration,
    datapath: DatapathStats,
    waits: Waits,
}

fn measure(
    lab: &Lab,
    load: Load<'_>,
    agent: &AgentProcess,
    look: &dyn Fn() -> Result<(DatapathStats, Waits)>,
    span: Duration,
) -> Result<Round> {
    let ours = load.control.starts_with("anole_");
    let traffic = Traffic::start(lab, load)?;
    let count = || -> Result<Beside> {
        let (datapath, waits) = look()?;
        Ok(Beside {
            traffic: traffic.snapshot()?,
            machine: machine_busy()?,
            agent: process_busy(agent.id())?,
            datapath,
            waits,
        })
    };
    std::thread::sleep(SETTLE);
    let before = count()?;
    std::thread::sleep(span);
    let after = count()?;
    traffic.finish()?;
    let wall = (after.traffic.at - before.traffic.at).as_secs_f64();
    let gbit = (after.traffic.bytes - before.traffic.bytes) as f64 * 8e-9;
    let agent = (after.agent.saturating_sub(before.agent)).as_secs_f64();
    let acks = after.traffic.acks - before.traffic.acks;
    let ends = (after.traffic.busy - before.traffic.busy).as_secs_f64();
    Ok(Round {
        mbps: gbit / wall * 1e3,
        cpu: (ends + if ours { agent } else { 0.0 }) / gbit,
        machine: after.machine.saturating_sub(before.machine).as_secs_f64() / gbit,
        agent: agent / wall,
        ack_gap_us: wall * 1e6 * load.flows as f64 / acks.max(1) as f64,
        waits: after.waits.since(&before.waits),
        again: after.traffic.again - before.traffic.again,
        unsent: after.datapath.unsent - before.datapath.unsent,
        fallbacks: after.datapath.fallbacks - before.datapath.fallbacks,
    })
}

/// Processor time of a process and its threads so far.
fn process_busy(pid: u32) -> Result<Duration> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).context("the agent is gone")?;
    let nanos = tasks.flatten().filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Ok(Duration::from_nanos(nanos.sum()))
}

/// Time that this machine's processors were not idle, in the kernel's ticks of 10 ms.
fn machine_busy() -> Result<Duration> {
    let text = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    let first = text.lines().next().unwrap_or("");
    let ticks: Vec<u64> = first.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    // user, nice, system, (idle, iowait,) irq, softirq
    let busy: u64 = [0, 1, 2, 5, 6].iter().filter_map(|n| ticks.get(*n)).sum();
    Ok(Duration::from_millis(busy * 10))
}
