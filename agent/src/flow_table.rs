//! What each flow does, as its reports tell: for whoever asks the agent's control socket.

use crate::flow_key::FlowKey;
use anole_datapath::wire::CreateMessage;
use anole_model::{Dur, Rate, Time};
use anole_programs::Program;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Rate and loss are taken over this much time.
const WINDOW: Dur = Dur::from_millis(1_000);
/// A flow that has not reported for so long sends nothing.
const SILENT: Dur = Dur::from_millis(2_000);
/// A round-trip time from which on a datapath means none, us: the fold programs' own border.
const NO_RTT_US: u64 = 2_000_000_000;

/// A flow, as a status tells of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowStatus {
    /// Its datapath.
    pub datapath: String,
    /// Its id there.
    pub flow: u32,
    /// Its own port; none where the datapath has not told.
    pub local_port: Option<u32>,
    /// Address and port of its peer; none where the datapath has not told.
    pub peer: Option<String>,
    /// The algorithm that the agent runs for it.
    pub algorithm: String,
    /// Who decides over it: `agent`, or its datapath's `fallback`.
    pub governor: String,
    /// Time since it was announced, seconds.
    pub age_s: f64,
    /// Reports since then.
    pub reports: u64,
    /// Bytes acknowledged per time, Mbps, over the last second with reports.
    pub rate_mbps: Option<f64>,
    /// Last round-trip time, ms.
    pub rtt_ms: Option<f64>,
    /// Packets lost of those sent, %, over the same second.
    pub loss_percent: Option<f64>,
}

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

/// Where the registers that count are in a program's report.
#[derive(Clone, Copy, Debug)]
struct Columns {
    program: &'static Program,
    acked: Option<usize>,
    lost: Option<usize>,
    rtt_us: Option<usize>,
}

impl Columns {
    fn of(program: &'static Program) -> Columns {
        let column = |name| program.report(name);
        Columns { program, acked: column("acked"), lost: column("lost"), rtt_us: column("rtt_us") }
    }
}

/// What was acknowledged and lost since a moment.
#[derive(Clone, Copy, Debug)]
struct Window {
    begun: Time,
    acked_bytes: u64,
    lost_packets: u64,
}

impl Window {
    fn new(begun: Time) -> Window {
        Window { begun, acked_bytes: 0, lost_packets: 0 }
    }

    /// Rate in Mbps and loss in %; none before any time has passed.
    fn figures(&self, now: Time, mss: u32) -> Option<(f64, Option<f64>)> {
        let seconds = now.since(self.begun).as_secs_f64();
        let arrived = self.acked_bytes as f64 / f64::from(mss.max(1));
        let sent = arrived + self.lost_packets as f64;
        let loss = (sent > 0.0).then(|| 100.0 * self.lost_packets as f64 / sent);
        (seconds > 0.0).then(|| (Rate::from_bytes_per_s(self.acked_bytes as f64 / seconds).mbps(), loss))
    }
}

#[derive(Debug)]
struct Row {
    algorithm: &'static str,
    create: CreateMessage,
    since: Time,
    failed: bool,
    /// A preference means nothing to its algorithm.
    prefers_nothing: bool,
    reports: u64,
    heard: Time,
    columns: Option<Columns>,
    window: Window,
    /// Of the last whole window.
    last: Option<(f64, Option<f64>)>,
    rtt_us: Option<u64>,
}

/// The flows that the agent knows.
#[derive(Debug, Default)]
pub struct FlowTable(HashMap<FlowKey, Row>);

impl FlowTable {
    /// A flow is announced, and `algorithm` runs it. True when it was here already.
    pub fn begin(&mut self, now: Time, key: FlowKey, algorithm: &'static str, create: CreateMessage) -> bool {
        let row = Row {
            algorithm,
            create,
            since: now,
            failed: false,
            prefers_nothing: false,
            reports: 0,
            heard: now,
            columns: None,
            window: Window::new(now),
            last: None,
            rtt_us: None,
        };
        self.0.insert(key, row).is_some()
    }

    /// A flow has reported.
    pub fn note(&mut self, now: Time, key: FlowKey, program: &'static Program, values: &[u64]) {
        let Some(row) = self.0.get_mut(&key) else { return };
        if row.columns.is_none_or(|columns| !std::ptr::eq(columns.program, program)) {
            row.columns = Some(Columns::of(program));
        }
        let value = |column: Option<usize>| column.and_then(|column| values.get(column)).copied();
        let columns = row.columns;
        let of = |column: fn(&Columns) -> Option<usize>| value(columns.as_ref().and_then(column));
        let (acked, lost) = (of(|c| c.acked).unwrap_or(0), of(|c| c.lost).unwrap_or(0));
        row.add(now, acked, lost, of(|c| c.rtt_us));
    }

    /// A flow whose laws are the kernel's has told what happened to it under this one.
    pub fn told(
        &mut self,
        now: Time,
        key: FlowKey,
        algorithm: &'static str,
        acked: u64,
        lost: u64,
        rtt_us: u64,
    ) {
        let Some(row) = self.0.get_mut(&key) else { return };
        row.algorithm = algorithm;
        row.add(now, acked, lost, Some(rtt_us));
    }

    /// A flow's algorithm has failed: its datapath's own law takes it.
    pub fn fail(&mut self, key: FlowKey) {
        if let Some(row) = self.0.get_mut(&key) {
            row.failed = true;
        }
    }

    /// A preference means nothing to a flow's algorithm.
    pub fn prefers_nothing(&mut self, key: FlowKey) {
        if let Some(row) = self.0.get_mut(&key) {
            row.prefers_nothing = true;
        }
    }

    /// The algorithm of a flow to which a preference means nothing.
    pub fn preferring_nothing(&self, key: FlowKey) -> Option<&'static str> {
        self.0.get(&key).filter(|row| row.prefers_nothing).map(|row| row.algorithm)
    }

    /// A flow is over.
    pub fn end(&mut self, key: FlowKey) {
        self.0.remove(&key);
    }

    /// Whether a flow is there.
    pub fn has(&self, key: FlowKey) -> bool {
        self.0.contains_key(&key)
    }

    /// The flows.
    pub fn keys(&self) -> impl Iterator<Item = FlowKey> {
        self.0.keys().copied()
    }

    /// Every flow, in the order of datapaths and ids, with its datapath's name still to be filled in.
    pub fn rows(&self, now: Time) -> Vec<(FlowKey, FlowStatus)> {
        let mut rows: Vec<_> = self.0.iter().map(|(&key, row)| (key, row.status(now, key))).collect();
        rows.sort_by_key(|((peer, flow), _)| (peer.0, *flow));
        rows
    }
}

impl Row {
    fn add(&mut self, now: Time, acked: u64, lost: u64, rtt_us: Option<u64>) {
        self.reports += 1;
        let silent = now.since(self.heard) > SILENT;
        self.heard = now;
        self.rtt_us = rtt_us.filter(|rtt| (1..NO_RTT_US).contains(rtt)).or(self.rtt_us);
        if silent {
            // What this report counts is from before the silence, or from after it: no rate tells.
            (self.window, self.last) = (Window::new(now), None);
            return;
        }
        self.window.acked_bytes = self.window.acked_bytes.saturating_add(acked);
        self.window.lost_packets = self.window.lost_packets.saturating_add(lost);
        if now.since(self.window.begun) >= WINDOW {
            self.last = self.window.figures(now, self.create.mss);
            self.window = Window::new(now);
        }
    }

    fn status(&self, now: Time, (_, flow): FlowKey) -> FlowStatus {
        let silent = now.since(self.heard) > SILENT;
        let figures = self.last.or_else(|| self.window.figures(now, self.create.mss));
        let figures = if silent { Some((0.0, None)) } else { figures }.filter(|_| self.reports > 0);
        let governed = self.reports > 0 && !self.failed;
        FlowStatus {
            datapath: String::new(),
            flow,
            local_port: Some(self.create.src_port).filter(|&port| port > 0),
            peer: peer(&self.create),
            algorithm: self.algorithm.to_string(),
            governor: if governed { "agent" } else { "fallback" }.to_string(),
            age_s: now.since(self.since).as_secs_f64(),
            reports: self.reports,
            rate_mbps: figures.map(|(rate, _)| rate),
            rtt_ms: self.rtt_us.map(|rtt| rtt as f64 / 1e3),
            loss_percent: figures.and_then(|(_, loss)| loss),
        }
    }
}

/// A flow's peer as text; an address of 0 stands for one that is unknown, or not IPv4.
pub fn peer(create: &CreateMessage) -> Option<String> {
    match (create.dst_ip, u16::try_from(create.dst_port)) {
        (0, Ok(0)) | (_, Err(_)) => None,
        (0, Ok(port)) => Some(format!("port {port}")),
        (ip, Ok(port)) => Some(SocketAddrV4::new(Ipv4Addr::from_bits(ip), port).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow_key::DatapathId;
    use anole_datapath::wire::AlgorithmName;
    use anole_programs::reno;

    const FLOW: FlowKey = (DatapathId(1), 7);

    fn at(ms: u64) -> Time {
        Time::ZERO + Dur::from_millis(ms)
    }

    /// A report of Reno's program: bytes acknowledged, packets lost, round-trip time.
    fn report(acked: u64, lost: u64, rtt_us: u64) -> Vec<u64> {
        let mut values = vec![0; reno::PROGRAM.reports.len()];
        for (name, value) in [("acked", acked), ("lost", lost), ("rtt_us", rtt_us)] {
            values[reno::PROGRAM.report(name).unwrap()] = value;
        }
        values
    }

    fn table() -> FlowTable {
        let mut table = FlowTable::default();
        let mut create = CreateMessage::without_addresses(10_000, 1000, AlgorithmName::NONE);
        (create.dst_ip, create.dst_port, create.src_port) = (0x0a00_0001, 443, 9999);
        table.begin(at(0), FLOW, "reno", create);
        table
    }

    fn status(table: &FlowTable, ms: u64) -> FlowStatus {
        table.rows(at(ms)).remove(0).1
    }

    #[test]
    fn a_flow_that_reports_is_the_agents_and_has_figures() {
        let mut table = table();
        let fresh = status(&table, 100);
        assert_eq!((fresh.governor.as_str(), fresh.rate_mbps, fresh.rtt_ms), ("fallback", None, None));
        assert_eq!((fresh.peer.as_deref(), fresh.local_port), (Some("10.0.0.1:443"), Some(9999)));
        for n in 1..=10 {
            // 9 packets of 1000 bytes arrive and one is lost in each 100 ms.
            table.note(at(100 * n), FLOW, &reno::PROGRAM, &report(9000, 1, 20_000));
        }
        let flow = status(&table, 1500);
        assert_eq!((flow.governor.as_str(), flow.reports), ("agent", 10));
        assert_eq!((flow.rate_mbps, flow.loss_percent, flow.rtt_ms), (Some(0.72), Some(10.0), Some(20.0)));
        assert_eq!(flow.age_s, 1.5);
        let silent = status(&table, 5000);
        assert_eq!((silent.rate_mbps, silent.loss_percent), (Some(0.0), None));
    }

    #[test]
    fn after_a_pause_the_rate_is_of_what_was_sent_since() {
        let mut table = table();
        for n in (1..=10).chain(101..=105) {
            table.note(at(100 * n), FLOW, &reno::PROGRAM, &report(10_000, 0, 20_000));
        }
        assert_eq!(status(&table, 10_500).rate_mbps, Some(0.8));
    }

    #[test]
    fn a_failed_flow_is_the_datapaths_and_one_that_is_over_is_gone() {
        let mut table = table();
        table.note(at(1), FLOW, &reno::PROGRAM, &report(1, 0, u64::MAX));
        assert_eq!(status(&table, 2).rtt_ms, None);
        table.fail(FLOW);
        assert_eq!(status(&table, 3).governor, "fallback");
        table.end(FLOW);
        assert!(table.rows(at(4)).is_empty());
    }
}
