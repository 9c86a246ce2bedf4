//! One flow of the simulation: sender, receiver and the reverse path between them.

use super::agent::{Agent, ToAgent};
use super::measure::Measure;
use super::receiver::{Data, Receiver};
use super::reverse::ReversePath;
use super::samples::FlowState;
use super::sender::{Sender, Supply};
use super::tap::Tap;
use crate::link::{Ecn, Packet};
use crate::scenario::{App, HEADER_BYTES, INITIAL_WINDOW_PACKETS};
use anole_datapath::wire::{AlgorithmName, CreateMessage};
use anole_datapath::{AckSample, Datapath, FlowId, FlowStats};
use anole_model::{Dur, Rate, Time, earliest};
use anole_policies::Schema;
use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    Running(FlowId),
    Over,
}

/// What a flow needs for each of its steps.
pub(super) struct Around<'a> {
    pub now: Time,
    pub datapath: &'a mut Datapath,
    pub agent: &'a mut Agent,
}

impl Around<'_> {
    fn outbox(&mut self) -> (&mut Datapath, ToAgent<'_>) {
        (self.datapath, ToAgent { agent: self.agent, now: self.now })
    }
}

pub(super) struct SimFlow {
    number: u32,
    mss: u32,
    /// What its packets say when they leave.
    ecn: Ecn,
    pub start: Time,
    stop: Time,
    phase: Phase,
    sender: Sender,
    /// Packets between the last link and the receiver, and when they arrive.
    pub own_way: VecDeque<(Time, Packet<Data>)>,
    receiver: Receiver,
    reverse: ReversePath,
    alg: String,
    pub measure: Measure,
    /// When it was over, and whether because everything was delivered; of one that never runs, its start.
    pub ended: Option<(Time, bool)>,
    /// The datapath's counters, taken when the flow was over.
    stats: FlowStats,
    /// What sees the flow as a policy with this schema would, from its start on.
    pub watched_by: Option<Arc<Schema>>,
    tap: Option<Box<Tap>>,
}

/// What a flow is made of.
pub(super) struct FlowConfig {
    pub number: u32,
    pub mss: u32,
    pub alg: String,
    pub start: Time,
    pub stop: Time,
    /// Whether it ever starts.
    pub runs: bool,
    pub bytes: Option<u64>,
    pub app: Option<App>,
    pub delayed_ack: bool,
    pub ack_jitter: Dur,
    pub ecn: bool,
    pub seed: u64,
    pub duration: Dur,
}

impl SimFlow {
    pub fn new(config: FlowConfig) -> SimFlow {
        let (phase, ended) = match config.runs {
            true => (Phase::Waiting, None),
            false => (Phase::Over, Some((config.start, false))),
        };
        SimFlow {
            number: config.number,
            mss: config.mss,
            ecn: if config.ecn { Ecn::Capable } else { Ecn::NotCapable },
            start: config.start,
            stop: config.stop,
            phase,
            sender: Sender::new(
                config.mss,
                config.bytes,
                config.app.map(|app| Supply::new(app, config.start)),
            ),
            own_way: VecDeque::new(),
            receiver: Receiver::new(config.delayed_ack),
            reverse: ReversePath::new(config.ack_jitter, config.seed),
            alg: config.alg,
            measure: Measure::new(config.duration),
            ended,
            stats: FlowStats::default(),
            watched_by: None,
            tap: None,
        }
    }

    /// When something happens here next.
    pub fn next_event(&self) -> Option<Time> {
        match self.phase {
            Phase::Waiting => Some(self.start),
            Phase::Over => None,
            Phase::Running(_) => {
                let (ack, timer) = (self.reverse.next(), self.sender.next_timer());
                let arrival = self.own_way.front().map(|&(at, _)| at);
                earliest([arrival, ack, timer, self.receiver.deadline(), Some(self.stop)])
            }
        }
    }

    /// Does what is due; `send` takes the packets that go out, `reverse` tells the delay of an ACK, if it arrives.
    pub fn poll(
        &mut self,
        mut around: Around<'_>,
        mut reverse: impl FnMut() -> Option<Dur>,
        mut send: impl FnMut(Packet<Data>),
    ) {
        let now = around.now;
        if self.phase == Phase::Waiting {
            self.open(&mut around);
        }
        while self.own_way.front().is_some_and(|(at, _)| *at <= now)
            && let Some((_, packet)) = self.own_way.pop_front()
        {
            self.arrive(&mut around, &mut reverse, &packet);
        }
        let Phase::Running(id) = self.phase else { return };
        if now >= self.stop {
            return self.end(&mut around, id, false);
        }
        if let Some(arrival) = self.receiver.take_overdue(now) {
            self.reverse.send(now, reverse(), [None, Some(arrival)]);
        }
        while self.reverse.next().is_some_and(|at| at <= now) {
            let sample = self.take_ack(now);
            self.tell(&mut around, id, &sample);
        }
        if let Some(sample) = self.sender.on_timer(now) {
            self.tell(&mut around, id, &sample);
        }
        while let Some(data) = self.sender.next_packet(now) {
            let size = data.payload.get() + HEADER_BYTES;
            send(Packet { size, flow: self.number, ecn: self.ecn, data });
        }
    }

    /// A data packet reaches the receiver.
    pub fn arrive(
        &mut self,
        around: &mut Around<'_>,
        reverse: impl FnOnce() -> Option<Dur>,
        packet: &Packet<Data>,
    ) {
        let Phase::Running(id) = self.phase else { return };
        let now = around.now;
        let (marked, delivered) = (packet.ecn == Ecn::Experienced, self.receiver.next());
        // One ACK at most, which names two arrivals at most.
        let mut ack = [None, None];
        let arrival = self.receiver.receive(now, &packet.data, marked, |arrival| {
            ack[usize::from(!arrival.more)] = Some(arrival);
        });
        if ack[1].is_some() {
            self.reverse.send(now, reverse(), ack);
        }
        self.measure.arrival(now, packet.size, arrival.new_bytes, now.since(packet.data.sent_at));
        for had in (delivered..self.receiver.next()).filter_map(|segment| self.sender.had_at(segment)) {
            self.measure.app_delay(now.since(had));
        }
        if self.sender.total_segments().is_some_and(|total| self.receiver.next() >= total) {
            self.end(around, id, true);
        }
    }

    /// What a policy that watches would ask now, once.
    pub fn take_watched(&mut self) -> Option<Vec<f32>> {
        self.tap.as_mut()?.take()
    }

    /// Window in force, bytes.
    pub fn cwnd(&self) -> u32 {
        self.sender.cwnd()
    }

    /// The flow as its sender sees it; `lost` packets so far.
    pub fn state(&self, datapath: &Datapath, lost: u64) -> FlowState {
        let Phase::Running(id) = self.phase else { return FlowState { lost, ..FlowState::default() } };
        let control = self.sender.control();
        FlowState {
            cwnd: Some(control.cwnd),
            pacing: Rate::from_bytes_per_s(f64::from(control.rate)),
            in_flight: self.sender.in_flight_bytes(),
            lost,
            governor: datapath.flow(id).map(|flow| flow.governor()),
        }
    }

    /// Packets sent and retransmitted so far.
    pub fn sent(&self) -> (u64, u64) {
        (self.sender.sent_packets, self.sender.retransmitted_packets)
    }

    /// The datapath's counters.
    pub fn stats(&self, datapath: &Datapath) -> FlowStats {
        match self.phase {
            Phase::Running(id) => datapath.flow(id).map_or(self.stats, |flow| flow.stats()),
            _ => self.stats,
        }
    }

    fn open(&mut self, around: &mut Around<'_>) {
        let create = CreateMessage {
            init_cwnd: INITIAL_WINDOW_PACKETS * self.mss,
            mss: self.mss,
            src_ip: 0,
            src_port: self.number,
            dst_ip: 0,
            dst_port: 0,
            algorithm: AlgorithmName::new(&self.alg).unwrap_or(AlgorithmName::NONE),
        };
        let now = around.now;
        let (datapath, mut out) = around.outbox();
        let id = datapath.open(now, create, &mut out);
        self.phase = Phase::Running(id);
        if let Some(flow) = datapath.flow(id) {
            self.sender.set_control(flow.control());
        }
        let watched_by = self.watched_by.as_ref();
        let tap = |schema| Tap::new(now, self.mss, INITIAL_WINDOW_PACKETS * self.mss, schema);
        self.tap = watched_by.map(|schema| Box::new(tap(schema)));
    }

    fn end(&mut self, around: &mut Around<'_>, id: FlowId, complete: bool) {
        self.stats = self.stats(around.datapath);
        let (datapath, mut out) = around.outbox();
        datapath.close(id, &mut out);
        self.phase = Phase::Over;
        self.ended = Some((around.now, complete));
        self.reverse.clear();
    }

    fn tell(&mut self, around: &mut Around<'_>, id: FlowId, sample: &AckSample) {
        let now = around.now;
        let (datapath, mut out) = around.outbox();
        let control = datapath.on_ack(now, id, sample, &mut out);
        if let Some(control) = control {
            self.sender.set_control(control);
        }
        if let Some(tap) = &mut self.tap {
            tap.on_ack(now, sample, control);
        }
    }

    /// Takes the first ACK, all of its arrivals.
    fn take_ack(&mut self, now: Time) -> AckSample {
        let mut newest = None;
        let arrivals = self.reverse.take().inspect(|arrival| newest = Some(arrival.sent_at));
        let sample = self.sender.on_ack(now, arrivals);
        if let Some(sent_at) = newest {
            self.measure.rtt(now, now.since(sent_at));
        }
        sample
    }
}
