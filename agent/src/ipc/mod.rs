//! Between the sockets and portus.
//!
//! A [`Transport`] moves datagrams. The [`Endpoint`] around it is what portus runs on: it checks every
//! datagram ([`guard`]), keeps the table of datapaths and flows ([`peers`]), hands portus one good
//! message at a time, sends what the flows answer, speaks for those that stop reporting before their
//! session does, and keeps every failure to itself, since an error would end portus's loop.
//!
//! Sends never block. What a full socket does not take waits here for a while, in order; that is the
//! rule rather than the exception when programs are installed, since Linux lets only ten datagrams
//! wait at a socket (`net.unix.max_dgram_qlen`).

mod backlog;
pub mod bpf;
mod guard;
pub mod netlink;
mod peers;
pub mod socket_path;
pub mod unix;

use crate::flow_key::DatapathId;
use crate::logging::Tally;
use crate::shared::{AgentClock, Shared};
use anole_datapath::wire::{self, Message};
use anole_model::{Dur, Time};
use anole_programs::Program;
use backlog::{Attempt, Backlog};
use guard::Refusal;
use peers::Peers;
use std::cell::RefCell;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest sleep: how soon a stop is noticed if no signal interrupts the sleep itself.
const LONGEST_WAIT: Dur = Dur::from_millis(100);
/// The sleep while messages wait for room in a full socket.
const FULL_WAIT: Dur = Dur::from_millis(1);
/// The sleep after an error of the socket, so that a lasting one does not burn a core.
const ERROR_WAIT: Duration = Duration::from_millis(10);

/// Kinds of messages to datapaths that were lost.
const UNREAD: &str = "datapath does not read its messages";
const UNSENDABLE: &str = "message cannot be sent";

/// What came in.
pub enum Received<A> {
    /// Nothing within the time.
    Nothing,
    /// So many bytes from there.
    Datagram(usize, A),
    /// Something that is none of the agent's business.
    Refused(Refusal),
}

/// What became of a datagram on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is on its way.
    Whole,
    /// The receiver has no room now.
    Full,
    /// Nobody is there any more.
    Gone,
    /// It cannot be sent.
    Failed,
}

/// Moves datagrams. Never blocks longer than it is told.
pub trait Transport: Send + 'static {
    /// Where a datagram comes from and goes to.
    type Addr: Clone + Eq + Hash + Send;
    /// The name for `--ipc`.
    const NAME: &'static str;
    /// Whether CREATE carries addresses as they lie in the kernel's memory, in network byte order, rather than as
    /// numbers: the CCP project's kernel module set the one, its user-space datapaths the other.
    const NETWORK_ORDER: bool = false;
    /// Waits for a datagram, at most for `wait`.
    fn receive(&self, buffer: &mut [u8], wait: Dur) -> Received<Self::Addr>;
    /// An address for people.
    fn show(addr: &Self::Addr) -> String;
    /// Whether what receivers have not read yet leaves most of the sender's own room free.
    fn has_room(&self) -> bool {
        true
    }
    /// Sends a datagram now or not at all.
    fn send(&self, message: &[u8], to: &Self::Addr) -> Sent;
}

/// The `Ipc` of portus over a checked transport.
pub struct Endpoint<T: Transport> {
    transport: T,
    clock: AgentClock,
    shared: Shared,
    /// Set by a signal.
    stop: Arc<AtomicBool>,
    /// portus runs while it is true.
    running: Arc<AtomicBool>,
    state: RefCell<State<T::Addr>>,
}

struct State<A> {
    peers: Peers<A>,
    buffer: Vec<u8>,
    backlog: Backlog,
    tally: Tally,
    /// Programs that portus would install, until all are there and equal to ours.
    expected: Vec<&'static Program>,
}

impl<A> State<A> {
    fn refused(&mut self, now: Time, refusal: Refusal, from: impl FnOnce() -> String) {
        if let Some(due) = self.tally.count(now, refusal.text()) {
            let (kind, from) = (refusal.text(), from());
            tracing::warn!(kind, from, new = due.new, total = due.total, "datagram dropped");
        }
    }

    fn unsent(&mut self, now: Time, kind: &'static str, messages: u64) {
        for due in (0..messages).filter_map(|_| self.tally.count(now, kind)) {
            tracing::warn!(kind, new = due.new, total = due.total, "message to a datapath dropped");
        }
    }
}

impl<T: Transport> Endpoint<T> {
    /// An endpoint that first lets portus install `programs` at the agent itself and compares them.
    pub fn new(
        transport: T,
        programs: &[&'static Program],
        clock: AgentClock,
        shared: Shared,
        stop: Arc<AtomicBool>,
        running: Arc<AtomicBool>,
    ) -> Endpoint<T> {
        let mut peers = Peers::new();
        peers.deliveries.push_back((DatapathId::SELF, Message::Ready(0)));
        let state = State {
            peers,
            // One byte more than the largest datagram, so that a larger one is seen to be larger.
            buffer: vec![0; guard::MAX_DATAGRAM_BYTES + 1],
            backlog: Backlog::default(),
            tally: Tally::default(),
            expected: programs.to_vec(),
        };
        Endpoint { transport, clock, shared, stop, running, state: RefCell::new(state) }
    }

    /// The next message for portus, or an empty read when it has to look at its own flag.
    fn next(&self, out: &mut [u8]) -> (usize, DatapathId) {
        let state = &mut *self.state.borrow_mut();
        loop {
            self.send_answers(state);
            if let Some((peer, message)) = state.peers.deliveries.pop_front() {
                // The guard admits nothing larger than portus's buffer, and the table adds nothing larger.
                let bytes = encoded(&message);
                self.tell_the_flow(state, peer, message);
                if let Some(room) = out.get_mut(..bytes.len()) {
                    room.copy_from_slice(&bytes);
                    return (bytes.len(), peer);
                }
                continue;
            }
            self.compare_programs(state);
            if self.stop.load(Ordering::SeqCst) {
                self.running.store(false, Ordering::SeqCst);
                state.tally.summary();
                return (0, DatapathId::SELF);
            }
            let now = self.clock.now();
            self.tell_status(state, now);
            self.answer_the_waiting(state, now);
            self.flush(state, now);
            state.peers.sweep(now);
            if state.peers.deliveries.is_empty() && !self.receive(state, now) {
                return (0, DatapathId::SELF);
            }
        }
    }

    /// Leaves for the adapter what portus will not tell it.
    fn tell_the_flow(&self, state: &State<T::Addr>, peer: DatapathId, message: Message<'static>) {
        match message {
            Message::Create(sid, mut create) => {
                if T::NETWORK_ORDER {
                    create.src_ip = u32::from_be(create.src_ip);
                    create.dst_ip = u32::from_be(create.dst_ip);
                }
                let at = state.peers.addr(peer).map(T::show).unwrap_or_default();
                self.shared.asked((peer, sid), create, &at);
            }
            Message::Measure { sid, uid, values } => self.shared.reported((peer, sid), uid, values),
            Message::Ready(_) => self.shared.begin_datapath(peer),
            _ => {}
        }
    }

    /// Answers whoever asked the control socket.
    fn tell_status(&self, state: &State<T::Addr>, now: Time) {
        self.shared
            .answer_askers(now, T::NAME, |peer| state.peers.addr(peer).map(T::show).unwrap_or_default());
    }

    fn send_answers(&self, state: &mut State<T::Addr>) {
        while let Some((key, message)) = self.shared.take_answer() {
            let first = state.peers.answered(key);
            self.post(state, key.0, encoded(&message));
            if first {
                // A message without commands says that this agent answers every report.
                self.post(state, key.0, encoded(&Message::Update(key.1, Vec::new())));
            }
        }
    }

    /// Waits for one datagram and files its messages; false when nothing came.
    fn receive(&self, state: &mut State<T::Addr>, now: Time) -> bool {
        let mut wait = state.peers.next_due().map_or(LONGEST_WAIT, |due| due.since(now)).min(LONGEST_WAIT);
        if !state.backlog.is_empty() {
            wait = wait.min(FULL_WAIT);
        }
        match self.transport.receive(&mut state.buffer, wait) {
            Received::Nothing => return false,
            Received::Refused(refusal) => {
                state.refused(self.clock.now(), refusal, || "unknown".to_string());
                if refusal == Refusal::Socket {
                    std::thread::sleep(ERROR_WAIT);
                }
            }
            Received::Datagram(length, from) => {
                let now = self.clock.now();
                let datagram = state.buffer.get(..length).unwrap_or(&state.buffer);
                // A message that is refused takes none of those behind it along.
                let refusals = match guard::check(datagram) {
                    Ok(messages) => messages
                        .into_iter()
                        .filter_map(|message| state.peers.admit(now, &from, message).err())
                        .collect(),
                    Err(refusal) => vec![refusal],
                };
                for refusal in refusals {
                    state.refused(now, refusal, || T::show(&from));
                }
                for peer in state.peers.forgotten.drain(..) {
                    state.backlog.forget(peer);
                }
            }
        }
        true
    }

    fn answer_the_waiting(&self, state: &mut State<T::Addr>, now: Time) {
        while let Some(key) = state.peers.next_unanswered(now) {
            // A flow whose algorithm failed stays unanswered, so that its datapath takes over.
            if !self.shared.has_failed(key) {
                self.post(state, key.0, encoded(&Message::Update(key.1, Vec::new())));
            }
        }
    }

    fn post(&self, state: &mut State<T::Addr>, peer: DatapathId, message: Vec<u8>) {
        // Whoever waits for room keeps its order.
        let attempt =
            if state.backlog.holds(peer) { Attempt::NoRoom } else { self.attempt(state, peer, &message) };
        let now = self.clock.now();
        match attempt {
            Attempt::Done => {}
            Attempt::NoRoom => {
                if !state.backlog.push(now, peer, message) {
                    state.unsent(now, UNREAD, 1);
                }
            }
            Attempt::Gone => state.peers.forget(peer),
        }
    }

    fn flush(&self, state: &mut State<T::Addr>, now: Time) {
        if state.backlog.is_empty() {
            return;
        }
        let mut backlog = std::mem::take(&mut state.backlog);
        let (lost, gone) = backlog.flush(now, |peer, message| self.attempt(state, peer, message));
        state.backlog = backlog;
        state.unsent(now, UNREAD, lost);
        gone.into_iter().for_each(|peer| state.peers.forget(peer));
    }

    /// Sends to whoever may be thought to read: who has spoken since, or anybody while there is plenty of room. What
    /// datapaths that have stopped do not read takes room from all.
    fn attempt(&self, state: &mut State<T::Addr>, peer: DatapathId, message: &[u8]) -> Attempt {
        let Some(addr) = state.peers.addr(peer) else { return Attempt::Gone };
        if !state.peers.is_owed(peer) && !self.transport.has_room() {
            return Attempt::NoRoom;
        }
        match self.transport.send(message, addr) {
            Sent::Whole => {
                state.peers.sent(peer);
                Attempt::Done
            }
            Sent::Full => Attempt::NoRoom,
            Sent::Gone => Attempt::Gone,
            Sent::Failed => {
                state.unsent(self.clock.now(), UNSENDABLE, 1);
                Attempt::Done
            }
        }
    }

    /// portus has compiled our sources: compares its byte code and so its registers with the bindings.
    fn install(&self, state: &mut State<T::Addr>, message: &[u8]) {
        let Ok((Message::Install(install), _)) = wire::decode(message) else {
            return;
        };
        let same = |program: &&Program| {
            program.code.len() == install.expressions.len() + install.instructions.len()
                && program.code.starts_with(install.expressions)
                && program.code.ends_with(install.instructions)
        };
        if let Some(at) = state.expected.iter().position(same) {
            let program = state.expected.swap_remove(at);
            state.peers.know_program(install.uid, program.reports.len());
            self.shared.install(install.uid, program);
        }
    }

    /// Stops an agent whose portus compiles another program than the bindings were made from.
    fn compare_programs(&self, state: &mut State<T::Addr>) {
        if state.expected.is_empty() {
            return;
        }
        let names: Vec<&str> = state.expected.drain(..).map(|program| program.name).collect();
        self.shared.refuse(format!(
            "portus compiles {} to other byte code than this build's bindings were made from; \
             rebuild with the portus version in Cargo.lock",
            names.join(", ")
        ));
        self.stop.store(true, Ordering::SeqCst);
    }
}

impl<T: Transport> portus::ipc::Ipc for Endpoint<T> {
    type Addr = DatapathId;

    fn name() -> String {
        T::NAME.to_string()
    }

    fn send(&self, message: &[u8], to: &DatapathId) -> portus::Result<()> {
        let state = &mut *self.state.borrow_mut();
        if *to == DatapathId::SELF {
            self.install(state, message);
        } else {
            self.post(state, *to, message.to_vec());
        }
        Ok(())
    }

    fn recv(&self, out: &mut [u8]) -> portus::Result<(usize, DatapathId)> {
        Ok(self.next(out))
    }

    fn close(&mut self) -> portus::Result<()> {
        Ok(())
    }
}

/// The message's bytes; none for one that no decoder could have made.
fn encoded(message: &Message<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(guard::MAX_DATAGRAM_BYTES);
    wire::encode(message, &mut bytes).map_or_else(|_| Vec::new(), |()| bytes)
}
