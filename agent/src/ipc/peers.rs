//! Who is out there: datapaths, their flows, and what they are owed.
//!
//! portus keeps a map of datapaths and a map of flows in each, without bounds and without ever
//! forgetting a datapath. This table stands in front of it, bounds both, and says by messages of
//! portus's own what it should know: READY when a datapath appears (portus then installs the
//! programs), MEASURE without values when a flow is over although nobody said so, CREATE when a
//! flow that this agent does not know goes on reporting.
//!
//! Answers: a datapath takes its agent for lost when a report has waited for 500 ms. A flow's session sees
//! to it at each report; when the reports stop, one that has waited for [`HEARTBEAT`] gets an empty
//! UPDATE from here, where the timers are.
//!
//! Adoption: our own runtime announces its flows again when the agent is lost, with the present
//! window. A datapath that never does is recognised by reports that go on for [`ADOPT_AFTER`]; its
//! flow is then created as if new, with the window of RFC 6928.

use super::guard::Refusal;
use crate::flow_key::{DatapathId, FlowKey};
use crate::shared::{FELL_SILENT, MAX_FLOWS};
use anole_algorithms::session::HEARTBEAT;
use anole_datapath::wire::{AlgorithmName, CreateMessage, Message};
use anole_model::{Dur, Time};
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Datapaths served at once. Each has a socket of its own, so that a user's limit of open files comes
/// first; beyond it the one that has been silent the longest makes room.
const MAX_PEERS: usize = 4096;
/// Messages that a datapath may be owed: the answers to reports of many flows that came at once.
const MAX_OWED: u32 = 64;
/// Unknown flows watched at once, until they are adopted or fall silent.
const MAX_STRANGERS: usize = 4096;
/// How long an unknown flow has to go on reporting. Longer than our own runtime needs to announce it
/// by itself with the true window: 4 RTT of up to 400 ms, and a repetition every 250 ms.
const ADOPT_AFTER: Dur = Dur::from_millis(2_000);
/// An unknown flow that was silent for this long starts from the beginning.
const STRANGER_SILENCE: Dur = Dur::from_millis(5_000);
/// A flow without any report for this long is closed here. It is adopted again when it speaks.
const FLOW_SILENCE: Dur = Dur::from_millis(300_000);
/// A datapath with several threads may send a flow's CREATE just before its own READY, which then must
/// not end that flow. Our host looks for a new agent every 100 ms; this is generous.
const LATE_READY: Dur = Dur::from_millis(1_000);
/// How often silence is looked for.
const SWEEP_EVERY: Dur = Dur::from_millis(10_000);
/// Segment size assumed for a flow that never told: Ethernet's 1500 less IPv4, TCP and timestamps.
const ADOPTED_MSS_BYTES: u32 = 1448;
/// Window of such a flow, segments (RFC 6928).
const ADOPTED_WINDOW_SEGMENTS: u32 = 10;

struct PeerState<A> {
    addr: A,
    last_heard: Time,
    /// Datagrams that came from it less those that went to it, from 0 to [`MAX_OWED`].
    owed: u32,
    /// When it was announced to portus although it had not announced itself.
    assumed: Option<Time>,
}

struct FlowState {
    last_heard: Time,
    /// Since when a report waits for an answer.
    waiting: Option<Time>,
    /// It was told something since it was announced.
    greeted: bool,
}

struct Stranger {
    first_heard: Time,
    last_heard: Time,
}

/// A message for portus.
pub type Delivery = (DatapathId, Message<'static>);

/// The table.
pub struct Peers<A> {
    peers: HashMap<DatapathId, PeerState<A>>,
    by_addr: HashMap<A, DatapathId>,
    free: Vec<DatapathId>,
    flows: HashMap<FlowKey, FlowState>,
    strangers: HashMap<FlowKey, Stranger>,
    /// Number of values that each installed program reports, by its id.
    programs: HashMap<u32, usize>,
    /// When which flow's answer is due, soonest first.
    due: VecDeque<(Time, FlowKey)>,
    next_sweep: Time,
    /// Messages that portus has not seen yet.
    pub deliveries: VecDeque<Delivery>,
    /// Datapaths that were forgotten; nothing that waits for them may reach who has the id next.
    pub forgotten: Vec<DatapathId>,
}

impl<A: Clone + Eq + Hash> Peers<A> {
    /// Nobody yet.
    pub fn new() -> Peers<A> {
        Peers {
            peers: HashMap::new(),
            by_addr: HashMap::new(),
            free: Vec::new(),
            flows: HashMap::new(),
            strangers: HashMap::new(),
            programs: HashMap::new(),
            due: VecDeque::new(),
            next_sweep: Time::ZERO,
            deliveries: VecDeque::new(),
            forgotten: Vec::new(),
        }
    }

    /// Where a datapath is; `None` once it is gone.
    pub fn addr(&self, peer: DatapathId) -> Option<&A> {
        self.peers.get(&peer).map(|state| &state.addr)
    }

    /// Whether a datapath has sent more than it was sent: one that has stopped has not.
    pub fn is_owed(&self, peer: DatapathId) -> bool {
        self.peers.get(&peer).is_some_and(|state| state.owed > 0)
    }

    /// A message went out to a datapath.
    pub fn sent(&mut self, peer: DatapathId) {
        if let Some(state) = self.peers.get_mut(&peer) {
            state.owed = state.owed.saturating_sub(1);
        }
    }

    /// How many flows are known.
    #[cfg(test)]
    pub fn flow_count(&self) -> usize {
        self.flows.len()
    }

    /// A program that portus installs reports this many values.
    pub fn know_program(&mut self, uid: u32, values: usize) {
        self.programs.insert(uid, values);
    }

    /// A checked message arrived; what portus should see of it joins the deliveries.
    pub fn admit(&mut self, now: Time, addr: &A, message: Message<'_>) -> Result<(), Refusal> {
        let announces = matches!(message, Message::Ready(_));
        let peer = self.peer(now, addr, announces)?;
        match message {
            Message::Ready(id) => {
                let assumed = self.peers.get_mut(&peer).and_then(|state| state.assumed.take());
                if assumed.is_some_and(|at| now.since(at) < LATE_READY) {
                    return Ok(());
                }
                self.close_flows_of(peer);
                self.deliveries.push_back((peer, Message::Ready(id)));
                Ok(())
            }
            Message::Create(sid, create) => self.create(now, (peer, sid), create),
            Message::Measure { sid, uid, values } => self.measure(now, (peer, sid), uid, values),
            Message::Install(_) | Message::Update(..) | Message::ChangeProgram { .. } => {
                Err(Refusal::Direction)
            }
        }
    }

    fn peer(&mut self, now: Time, addr: &A, announces: bool) -> Result<DatapathId, Refusal> {
        if let Some(&peer) = self.by_addr.get(addr) {
            if let Some(state) = self.peers.get_mut(&peer) {
                state.last_heard = now;
                state.owed = (state.owed + 1).min(MAX_OWED);
            }
            return Ok(peer);
        }
        if self.peers.len() >= MAX_PEERS {
            let silent = self.peers.iter().min_by_key(|(_, state)| state.last_heard).map(|(&peer, _)| peer);
            self.forget(silent.ok_or(Refusal::TooManyPeers)?);
        }
        // Ids start at 1 and are used again, since portus never forgets one.
        let peer = self.free.pop().unwrap_or(DatapathId(self.peers.len() as u32 + 1));
        let assumed = (!announces).then_some(now);
        self.peers.insert(peer, PeerState { addr: addr.clone(), last_heard: now, owed: 1, assumed });
        self.by_addr.insert(addr.clone(), peer);
        if !announces {
            self.deliveries.push_back((peer, Message::Ready(peer.0)));
        }
        Ok(peer)
    }

    fn create(&mut self, now: Time, key: FlowKey, create: CreateMessage) -> Result<(), Refusal> {
        if self.flows.len() >= MAX_FLOWS && !self.flows.contains_key(&key) {
            return Err(Refusal::TooManyFlows);
        }
        self.strangers.remove(&key);
        self.flows.insert(key, FlowState { last_heard: now, waiting: None, greeted: false });
        self.deliveries.push_back((key.0, Message::Create(key.1, create)));
        Ok(())
    }

    fn measure(&mut self, now: Time, key: FlowKey, uid: u32, values: Vec<u64>) -> Result<(), Refusal> {
        if values.is_empty() {
            self.strangers.remove(&key);
            // Also of a flow that fell silent before: what is kept for it may go.
            self.deliveries.push_back((key.0, close_of(key, uid)));
            return self.flows.remove(&key).map(drop).ok_or(Refusal::UnknownFlow);
        }
        let expected = self.programs.get(&uid).copied();
        match (self.flows.get_mut(&key), expected) {
            (Some(_), Some(expected)) if expected != values.len() => Err(Refusal::Values),
            (Some(flow), Some(_)) => {
                flow.last_heard = now;
                if flow.waiting.is_none() {
                    flow.waiting = Some(now);
                    self.due.push_back((now + HEARTBEAT, key));
                }
                self.deliveries.push_back((key.0, Message::Measure { sid: key.1, uid, values }));
                Ok(())
            }
            // Either the flow or its program is from before this agent's time. No answer: our own
            // runtime then announces the flow, with its true window.
            _ => self.stranger(now, key),
        }
    }

    fn stranger(&mut self, now: Time, key: FlowKey) -> Result<(), Refusal> {
        if let Some(stranger) = self.strangers.get_mut(&key) {
            if now.since(stranger.last_heard) > STRANGER_SILENCE {
                stranger.first_heard = now;
            }
            stranger.last_heard = now;
            if now.since(stranger.first_heard) < ADOPT_AFTER {
                return Ok(());
            }
            let create = CreateMessage::without_addresses(
                ADOPTED_WINDOW_SEGMENTS * ADOPTED_MSS_BYTES,
                ADOPTED_MSS_BYTES,
                AlgorithmName::NONE,
            );
            return self.create(now, key, create);
        }
        if self.strangers.len() >= MAX_STRANGERS {
            self.strangers.retain(|_, stranger| now.since(stranger.last_heard) <= STRANGER_SILENCE);
        }
        if self.strangers.len() < MAX_STRANGERS {
            self.strangers.insert(key, Stranger { first_heard: now, last_heard: now });
        }
        Ok(())
    }

    /// A message went out to a flow: nothing waits any more. True for the first one since it was announced.
    pub fn answered(&mut self, key: FlowKey) -> bool {
        self.flows.get_mut(&key).is_some_and(|flow| {
            flow.waiting = None;
            !std::mem::replace(&mut flow.greeted, true)
        })
    }

    /// The next flow whose report has waited long enough; call until `None`.
    pub fn next_unanswered(&mut self, now: Time) -> Option<FlowKey> {
        self.next_due().filter(|due| *due <= now)?;
        let (_, key) = self.due.pop_front()?;
        self.answered(key);
        Some(key)
    }

    /// When an answer falls due. What was answered in time is forgotten here: nobody wakes up for it.
    pub fn next_due(&mut self) -> Option<Time> {
        while let Some(&(due, key)) = self.due.front() {
            // A flow that was answered and has reported again has a later entry of its own.
            let waiting = self.flows.get(&key).and_then(|flow| flow.waiting);
            if waiting.is_some_and(|since| since + HEARTBEAT == due) {
                return Some(due);
            }
            self.due.pop_front();
        }
        None
    }

    /// Closes what has been silent for too long. Cheap unless a sweep is due.
    pub fn sweep(&mut self, now: Time) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + SWEEP_EVERY;
        let silent = |state: &FlowState| now.since(state.last_heard) > FLOW_SILENCE;
        let over: Vec<FlowKey> =
            self.flows.iter().filter(|(_, state)| silent(state)).map(|(&key, _)| key).collect();
        for key in over {
            self.close_flow(key, FELL_SILENT);
        }
        self.strangers.retain(|_, stranger| now.since(stranger.last_heard) <= STRANGER_SILENCE);
    }

    /// The datapath's socket is gone: its flows are closed.
    pub fn forget(&mut self, peer: DatapathId) {
        self.close_flows_of(peer);
        if let Some(state) = self.peers.remove(&peer) {
            self.by_addr.remove(&state.addr);
            self.free.push(peer);
            self.forgotten.push(peer);
        }
    }

    fn close_flows_of(&mut self, peer: DatapathId) {
        let keys: Vec<FlowKey> = self.flows.keys().filter(|key| key.0 == peer).copied().collect();
        for key in keys {
            self.close_flow(key, 0);
        }
        self.strangers.retain(|key, _| key.0 != peer);
    }

    fn close_flow(&mut self, key: FlowKey, uid: u32) {
        if self.flows.remove(&key).is_some() {
            self.deliveries.push_back((key.0, close_of(key, uid)));
        }
    }
}

/// MEASURE without values: the flow is over.
fn close_of(key: FlowKey, uid: u32) -> Message<'static> {
    Message::Measure { sid: key.1, uid, values: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: u32 = 10;
    const B: u32 = 11;
    const PROGRAM: u32 = 3;

    fn table() -> Peers<u32> {
        let mut peers = Peers::new();
        peers.know_program(PROGRAM, 2);
        peers
    }
    fn ms(millis: u64) -> Time {
        Time::ZERO + Dur::from_millis(millis)
    }
    fn create(sid: u32) -> Message<'static> {
        let create = CreateMessage::without_addresses(14480, 1448, AlgorithmName::NONE);
        Message::Create(sid, create)
    }
    fn report(sid: u32) -> Message<'static> {
        Message::Measure { sid, uid: PROGRAM, values: vec![1, 2] }
    }
    fn taken(peers: &mut Peers<u32>) -> Vec<Delivery> {
        peers.deliveries.drain(..).collect()
    }

    #[test]
    fn a_datapath_that_did_not_announce_itself_is_announced() {
        let mut peers = table();
        peers.admit(ms(0), &A, create(1)).unwrap();
        assert_eq!(taken(&mut peers), [(DatapathId(1), Message::Ready(1)), (DatapathId(1), create(1))]);
        peers.admit(ms(0), &B, Message::Ready(77)).unwrap();
        assert_eq!(taken(&mut peers), [(DatapathId(2), Message::Ready(77))]);
    }

    #[test]
    fn ready_ends_the_flows_from_before() {
        let mut peers = table();
        peers.admit(ms(0), &A, create(1)).unwrap();
        taken(&mut peers);
        // The one that only comes late belongs to the flow's own datapath.
        peers.admit(ms(100), &A, Message::Ready(5)).unwrap();
        assert_eq!((taken(&mut peers), peers.flow_count()), (vec![], 1));
        peers.admit(ms(200), &A, Message::Ready(5)).unwrap();
        let end = Message::Measure { sid: 1, uid: 0, values: vec![] };
        assert_eq!(taken(&mut peers), [(DatapathId(1), end), (DatapathId(1), Message::Ready(5))]);
        assert_eq!(peers.flow_count(), 0);
    }

    #[test]
    fn an_unanswered_report_falls_due_once_and_an_answered_one_never() {
        let mut peers = table();
        peers.admit(ms(0), &A, create(1)).unwrap();
        peers.admit(ms(0), &A, create(2)).unwrap();
        peers.admit(ms(10), &A, report(1)).unwrap();
        peers.admit(ms(20), &A, report(1)).unwrap();
        peers.admit(ms(30), &A, report(2)).unwrap();
        peers.answered((DatapathId(1), 2));
        assert_eq!(peers.next_due(), Some(ms(110)));
        assert_eq!(peers.next_unanswered(ms(109)), None);
        assert_eq!(peers.next_unanswered(ms(110)), Some((DatapathId(1), 1)));
        assert_eq!(peers.next_unanswered(ms(500)), None);
    }

    #[test]
    fn an_answer_is_never_late_even_when_reports_and_answers_alternate() {
        let mut peers = table();
        peers.admit(ms(0), &A, create(1)).unwrap();
        peers.admit(ms(10), &A, report(1)).unwrap();
        peers.answered((DatapathId(1), 1));
        peers.admit(ms(50), &A, report(1)).unwrap();
        assert_eq!(peers.next_unanswered(ms(110)), None, "the first report was answered");
        assert_eq!(peers.next_unanswered(ms(150)), Some((DatapathId(1), 1)));
    }

    #[test]
    fn a_flow_from_before_is_adopted_when_it_goes_on_reporting() {
        let mut peers = table();
        let old = |sid| Message::Measure { sid, uid: 99, values: vec![1, 2, 3] };
        for at in [0, 1000, 1999] {
            peers.admit(ms(at), &A, old(4)).unwrap();
        }
        assert_eq!(taken(&mut peers), [(DatapathId(1), Message::Ready(1))]);
        peers.admit(ms(2000), &A, old(4)).unwrap();
        let adopted = taken(&mut peers);
        assert!(
            matches!(&adopted[..], [(DatapathId(1), Message::Create(4, c))] if c.mss == 1448 && c.init_cwnd == 14480)
        );
        // A single stray report, and one after a long silence, adopt nothing.
        peers.admit(ms(2000), &A, old(5)).unwrap();
        peers.admit(ms(9000), &A, old(5)).unwrap();
        assert_eq!(taken(&mut peers), []);
        // The same for a known flow that runs a program which this agent never installed.
        peers.admit(ms(10_000), &A, old(4)).unwrap();
        peers.admit(ms(12_000), &A, old(4)).unwrap();
        assert!(matches!(&taken(&mut peers)[..], [(DatapathId(1), Message::Create(4, _))]));
    }

    #[test]
    fn reports_of_a_wrong_size_and_ends_of_unknown_flows_are_refused() {
        let mut peers = table();
        peers.admit(ms(0), &A, create(1)).unwrap();
        let wrong = Message::Measure { sid: 1, uid: PROGRAM, values: vec![1] };
        assert_eq!(peers.admit(ms(0), &A, wrong), Err(Refusal::Values));
        let end = Message::Measure { sid: 8, uid: PROGRAM, values: vec![] };
        assert_eq!(peers.admit(ms(0), &A, end.clone()), Err(Refusal::UnknownFlow));
        assert_eq!(taken(&mut peers).pop(), Some((DatapathId(1), end)), "one that fell silent is over now");
    }

    #[test]
    fn silence_closes_a_flow_and_a_gone_datapath_closes_all_of_its() {
        let mut peers = table();
        peers.admit(ms(0), &A, create(1)).unwrap();
        peers.admit(ms(200_000), &A, create(2)).unwrap();
        taken(&mut peers);
        peers.sweep(ms(300_001));
        assert!(matches!(
            &taken(&mut peers)[..],
            [(DatapathId(1), Message::Measure { sid: 1, uid: FELL_SILENT, .. })]
        ));
        peers.forget(DatapathId(1));
        assert!(matches!(&taken(&mut peers)[..], [(DatapathId(1), Message::Measure { sid: 2, uid: 0, .. })]));
        assert_eq!(peers.addr(DatapathId(1)), None);
        // Its id is used again, and portus is told that somebody new has it.
        peers.admit(ms(300_002), &B, create(1)).unwrap();
        assert_eq!(taken(&mut peers), [(DatapathId(1), Message::Ready(1)), (DatapathId(1), create(1))]);
    }

    #[test]
    fn flows_datapaths_and_strangers_are_bounded() {
        let mut peers = table();
        for sid in 0..MAX_FLOWS as u32 {
            peers.admit(ms(0), &A, create(sid)).unwrap();
        }
        assert_eq!(peers.admit(ms(0), &A, create(u32::MAX)), Err(Refusal::TooManyFlows));
        peers.admit(ms(0), &A, create(5)).unwrap();
        for addr in 0..2 * MAX_PEERS as u32 {
            peers.admit(ms(1 + u64::from(addr)), &(1000 + addr), report(1)).unwrap();
        }
        assert_eq!(peers.peers.len(), MAX_PEERS);
        assert!(peers.strangers.len() <= MAX_STRANGERS);
        assert_eq!(peers.flow_count(), 0, "the silent datapath made room");
    }
}
