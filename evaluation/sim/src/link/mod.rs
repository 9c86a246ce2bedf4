//! One link: queue → transmitter → loss → aggregation, hold, jitter → propagation delay → reordering.
//!
//! Pure: time is an argument and randomness comes from a seed, so that the simulator runs it in virtual
//! time and the emulator in real time, with any payload `T`. A late [`Link::pop`] changes nothing: what
//! was due earlier is done as of its own time. Conventions:
//!
//! - The queue does not count the packet that is being sent. A queue always has room for one full
//!   packet, however small its configured limit.
//! - The queueing delay of a packet runs from its arrival to the start of its transmission; on a trace that is its own
//!   opportunity, until which it stays in the queue.
//! - Random loss strikes after transmission: a lost packet has used the link.
//! - ACKs pass a link's other direction by [`Link::ack_late`], and those of a path by [`way_back`].
//! - Figures of a link count cross traffic with the rest. A packet that is on the wire where counting begins or ends
//!   is sent in part.
//! - A smaller propagation delay never lets a packet overtake an earlier one: those sent before it fell are still on
//!   their way, and what was sent meanwhile arrives with the last of them, as one clump.
//! - Active queue management marks packets that are ECN-capable where it would drop others (RFC 3168 §5).

mod aggregation;
mod back;
mod codel;
mod config;
mod cross;
mod droptail;
mod fq_codel;
mod impair;
mod lte;
mod pie;
mod queue;
mod red;
mod server;
#[cfg(test)]
mod tests;
mod trace;

pub use aggregation::Aggregation;
pub use back::{propagation_back, way_back};
pub use config::{Capacity, Ecn, LinkConfig, LinkStats, Packet, QueueKind};
pub use cross::CrossTraffic;
pub use impair::{AckPath, BurstLoss, Hold, Impairments, Reorder};
pub use lte::Lte;
pub use trace::{Trace, TraceError};

use crate::histogram::Histogram;
use aggregation::Bursts;
use anole_model::{Dur, Rate, Time, earliest};
use cross::Source;
use impair::Impairer;
use queue::{Drops, Queued};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use server::Server;
use std::collections::VecDeque;

/// An Ethernet header, which queues count beside a full packet.
const FRAME_HEADER_BYTES: u64 = 14;

#[derive(Clone, Debug)]
enum Queue<T> {
    DropTail(droptail::DropTail<T>),
    CoDel(codel::CoDel<T>),
    FqCodel(fq_codel::FqCodel<T>),
    Pie(pie::Pie<T>),
    Red(red::Red<T>),
}

/// A link that carries packets with payload `T`.
#[derive(Clone, Debug)]
pub struct Link<T> {
    queue: Queue<Option<T>>,
    buffer_bytes: u64,
    full_packet: u32,
    server: Server<Option<T>>,
    /// Since when the transmitter is idle, or a packet waits for it.
    idle_since: Time,
    random_loss: f64,
    rng: Pcg64Mcg,
    delay: Dur,
    bursts: Bursts,
    ack_bursts: Bursts,
    impairer: Impairer,
    cross: Vec<Source>,
    /// Packets of cross traffic that came in, and that left the transmitter.
    cross_sent: u64,
    cross_through: u64,
    line: VecDeque<(Time, Packet<T>)>,
    last_arrival: Time,
    drops: Drops,
    drops_before: u64,
    /// Bytes that could have been sent before the last [`Link::reset_stats`].
    offered_before: f64,
    carried_packets: u64,
    sent_bytes: u64,
    /// What was sent before the last [`Link::reset_stats`] of the packet that was on the wire then.
    sent_before: f64,
    queue_delay: Histogram,
}

impl<T> Link<T> {
    /// An empty link.
    pub fn new(config: LinkConfig) -> Link<T> {
        let frame = u64::from(config.full_packet) + FRAME_HEADER_BYTES;
        let queue = match config.queue {
            QueueKind::DropTail => Queue::DropTail(droptail::DropTail::new()),
            QueueKind::CoDel => Queue::CoDel(codel::CoDel::new(frame)),
            QueueKind::FqCodel => Queue::FqCodel(fq_codel::FqCodel::new(frame)),
            // Each kind of randomness has a stream of its own, so that none repeats another.
            QueueKind::Pie => Queue::Pie(pie::Pie::new(config.seed ^ 0x5049_4500)),
            QueueKind::Red => Queue::Red(red::Red::new(config.seed ^ 0x5245_4400)),
        };
        Link {
            queue,
            buffer_bytes: config.buffer_bytes,
            full_packet: config.full_packet,
            server: Server::new(config.capacity),
            idle_since: Time::ZERO,
            random_loss: config.random_loss,
            rng: Pcg64Mcg::seed_from_u64(config.seed),
            delay: config.delay,
            bursts: Bursts::new(config.aggregation.data, config.seed ^ 0x4144_0000),
            ack_bursts: Bursts::new(config.aggregation.acks, config.seed ^ 0x4141_0000),
            impairer: Impairer::new(config.impairments, config.seed),
            cross: config.cross.into_iter().map(|cross| Source::new(cross, config.seed)).collect(),
            cross_sent: 0,
            cross_through: 0,
            line: VecDeque::new(),
            last_arrival: Time::ZERO,
            drops: Drops::default(),
            drops_before: 0,
            offered_before: 0.0,
            carried_packets: 0,
            sent_bytes: 0,
            sent_before: 0.0,
            queue_delay: Histogram::new(),
        }
    }

    /// A packet arrives at the link. False when it was dropped at once.
    pub fn offer(&mut self, now: Time, packet: Packet<T>) -> bool {
        self.advance(now);
        let Packet { size, flow, ecn, data } = packet;
        self.enqueue(now, Packet { size, flow, ecn, data: Some(data) })
    }

    /// A packet joins the queue; one without data is cross traffic.
    fn enqueue(&mut self, now: Time, packet: Packet<Option<T>>) -> bool {
        let limit = self.buffer_bytes.max(u64::from(self.full_packet.max(packet.size)));
        let queued = Queued { packet, arrived: now };
        let accepted = match &mut self.queue {
            Queue::DropTail(q) => q.enqueue(queued, limit, &mut self.drops),
            Queue::CoDel(q) => q.enqueue(queued, limit, &mut self.drops),
            Queue::FqCodel(q) => q.enqueue(queued, limit, &mut self.drops),
            Queue::Pie(q) => q.enqueue(queued, limit, &mut self.drops),
            Queue::Red(q) => q.enqueue(queued, limit, &mut self.drops),
        };
        if self.server.is_idle() {
            self.idle_since = now;
            self.serve(now);
        }
        accepted
    }

    /// When to call [`Link::pop`] next; `None` while the link is empty and no cross traffic comes.
    pub fn next_event(&self) -> Option<Time> {
        let arrival = self.line.front().map(|(at, _)| *at);
        earliest([arrival, self.next_service(), self.next_cross()])
    }

    fn next_cross(&self) -> Option<Time> {
        self.cross.iter().filter_map(Source::next).min()
    }

    /// A packet that has arrived at the far end, with the time when it did. Call until `None`.
    pub fn pop(&mut self, now: Time) -> Option<(Time, Packet<T>)> {
        self.advance(now);
        if self.line.front()?.0 > now {
            return None;
        }
        self.line.pop_front()
    }

    /// Changes a fixed capacity, which must be above zero. False (and no change) on a link that follows
    /// a trace.
    pub fn set_rate(&mut self, now: Time, rate: Rate) -> bool {
        self.advance(now);
        rate > Rate::ZERO && self.server.set_rate(now, rate)
    }

    /// Changes the propagation delay of packets that have not been sent yet.
    pub fn set_delay(&mut self, now: Time, delay: Dur) {
        self.advance(now);
        self.delay = delay;
    }

    /// Changes the probability of random loss.
    pub fn set_random_loss(&mut self, now: Time, probability: f64) {
        self.advance(now);
        self.random_loss = probability;
    }

    /// Changes the buffer; packets that wait already stay.
    pub fn set_buffer_bytes(&mut self, now: Time, bytes: u64) {
        self.advance(now);
        self.buffer_bytes = bytes;
    }

    /// Changes the most by which data are late.
    pub fn set_jitter(&mut self, now: Time, jitter: Dur) {
        self.advance(now);
        self.impairer.set_jitter(jitter);
    }

    /// How much longer than the propagation delay an ACK of `size` bytes takes that sets out at `now`, which must not
    /// decrease: aggregation, jitter, the queue of the reverse path. `None` when it is lost there.
    pub fn ack_late(&mut self, now: Time, size: u32) -> Option<Dur> {
        let late = self.impairer.ack_late(now, size)?;
        Some(self.ack_bursts.release(now).since(now) + late)
    }

    /// The propagation delay.
    pub fn delay(&self) -> Dur {
        self.delay
    }

    /// The probability of random loss.
    pub fn random_loss(&self) -> f64 {
        self.random_loss
    }

    /// Packets inside: waiting, being sent, on the way; without cross traffic.
    pub fn packets_inside(&self) -> u64 {
        let inside = (self.waiting() + usize::from(!self.server.is_idle()) + self.line.len()) as u64;
        inside - self.cross_inside()
    }

    /// Cross traffic inside: what was sent and is neither through nor lost.
    fn cross_inside(&self) -> u64 {
        let lost: u64 = self.cross.iter().map(|cross| self.drops.of(cross.flow())).sum();
        self.cross_sent - self.cross_through - lost
    }

    /// Packets of a flow that were lost here since the beginning.
    pub fn lost_of(&self, flow: u32) -> u64 {
        self.drops.of(flow)
    }

    /// Bytes that could have been sent since the last [`Link::reset_stats`].
    pub fn offered_bytes(&self, now: Time) -> f64 {
        self.server.offered_bytes(now)
    }

    /// The same since the beginning.
    pub(crate) fn offered_by(&self, now: Time) -> f64 {
        self.offered_before + self.server.offered_bytes(now)
    }

    /// Packets that were lost here since the beginning.
    pub(crate) fn lost(&self) -> u64 {
        self.drops.packets
    }

    /// Bytes in the queue.
    pub(crate) fn queue_bytes(&self) -> u64 {
        match &self.queue {
            Queue::DropTail(q) => q.bytes(),
            Queue::CoDel(q) => q.bytes(),
            Queue::FqCodel(q) => q.bytes(),
            Queue::Pie(q) => q.bytes(),
            Queue::Red(q) => q.bytes(),
        }
    }

    /// What happened since the last [`Link::reset_stats`].
    pub fn stats(&mut self, now: Time) -> LinkStats {
        self.advance(now);
        let possible = self.server.offered_bytes(now);
        let sent = self.sent_bytes as f64 - self.sent_before + self.server.sent_in_part(now);
        let lost = self.drops.packets - self.drops_before;
        let settled = lost + self.carried_packets;
        LinkStats {
            utilization: (possible > 0.0).then_some(sent / possible),
            loss_rate: (settled > 0).then(|| lost as f64 / settled as f64),
            queue_delay_mean: self.queue_delay.mean(),
            queue_delay_p95: self.queue_delay.quantile(0.95),
        }
    }

    /// Forgets what happened before now, as at the end of a warm-up.
    pub fn reset_stats(&mut self, now: Time) {
        self.advance(now - Dur::from_nanos(1));
        self.offered_before += self.server.reset(now);
        self.drops_before = self.drops.packets;
        self.carried_packets = 0;
        self.sent_bytes = 0;
        self.sent_before = self.server.sent_in_part(now);
        self.queue_delay.clear();
    }

    /// Packets in the queue.
    fn waiting(&self) -> usize {
        match &self.queue {
            Queue::DropTail(q) => q.len(),
            Queue::CoDel(q) => q.len(),
            Queue::FqCodel(q) => q.len(),
            Queue::Pie(q) => q.len(),
            Queue::Red(q) => q.len(),
        }
    }

    /// When the transmitter has sent its packet, or takes the next one.
    fn next_service(&self) -> Option<Time> {
        match self.server.done() {
            None => (self.waiting() > 0).then(|| self.server.begins(self.idle_since)),
            done => done,
        }
    }

    /// Does everything that was due up to `now`, each as of its own time.
    fn advance(&mut self, now: Time) {
        loop {
            let cross = self.next_cross().filter(|&at| at <= now);
            self.serve(cross.unwrap_or(now));
            let Some(at) = cross else { return };
            let due = self.cross.iter_mut().find(|source| source.next() == Some(at));
            if let Some((size, flow)) = due.map(Source::send) {
                self.cross_sent += 1;
                self.enqueue(at, Packet { size, flow, ecn: Ecn::NotCapable, data: None });
            }
        }
    }

    /// Sends what is to be sent up to `now`.
    fn serve(&mut self, now: Time) {
        while let Some(at) = self.next_service().filter(|&at| at <= now) {
            match self.server.finish(at) {
                Some((at, sent)) => self.carry(at, sent.packet),
                None => self.send_next(at),
            }
        }
    }

    /// A packet has left the transmitter.
    fn carry(&mut self, at: Time, packet: Packet<Option<T>>) {
        self.idle_since = at;
        let Packet { size, flow, ecn, data } = packet;
        self.sent_bytes += u64::from(size);
        let Some(data) = data else {
            self.carried_packets += 1;
            self.cross_through += 1;
            return;
        };
        let lost = self.random_loss > 0.0 && self.rng.random::<f64>() < self.random_loss;
        if self.impairer.loses() || lost {
            self.drops.count(flow);
        } else {
            self.carried_packets += 1;
            self.propagate(at, Packet { size, flow, ecn, data });
        }
    }

    /// A packet that left the transmitter `at` goes on its way.
    fn propagate(&mut self, at: Time, packet: Packet<T>) {
        let released = self.bursts.release(at) + self.impairer.late(at);
        self.last_arrival = self.last_arrival.max(released + self.delay);
        // An overtaken packet waits with a later time than those behind it.
        let arrival = self.last_arrival + self.impairer.overtaken().unwrap_or(Dur::ZERO);
        match self.line.back() {
            Some((last, _)) if *last > arrival => {
                let place = self.line.partition_point(|(at, _)| *at <= arrival);
                self.line.insert(place, (arrival, packet));
            }
            _ => self.line.push_back((arrival, packet)),
        }
    }

    fn send_next(&mut self, now: Time) {
        let next = match &mut self.queue {
            Queue::DropTail(q) => q.dequeue(),
            Queue::CoDel(q) => q.dequeue(now, &mut self.drops),
            Queue::FqCodel(q) => q.dequeue(now, &mut self.drops),
            Queue::Pie(q) => q.dequeue(now),
            Queue::Red(q) => q.dequeue(now),
        };
        if let Some(next) = next {
            self.queue_delay.add(next.sojourn(now));
            self.server.start(now, next);
        }
    }
}
