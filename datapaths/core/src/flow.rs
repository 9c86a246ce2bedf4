//! One flow: its program, the agent's liveness and the fallback.
//!
//! **Who governs.** The agent, if a program is installed on the flow and no message to the agent has
//! been waiting for an answer longer than max(`agent_timeout`, 4·RTT). Otherwise the fallback, native
//! CUBIC without a pacing rate of its own.
//!
//! ```text
//!                    CHANGE_PROG or UPDATE arrives (in force at the next ACK)
//!            ┌────────────────────────────────────────────────────────────┐
//!            │                                                            ▼
//!   start ▶ Fallback: CUBIC per ACK; CREATE sent again            Agent: the program per ACK
//!            ▲                                                            │
//!            └────────────────────────────────────────────────────────────┘
//!                    a message has waited for too long
//! ```
//!
//! A message waits from the first CREATE or MEASURE sent after the last message that came for the flow,
//! whether or not the outbox took it. An ACK on which the program aborts counts like a MEASURE: a
//! program that always aborts sends nothing, and must not hold the flow at a frozen window. Any message
//! for the flow is an answer; an agent with nothing to change answers with an empty UPDATE.
//!
//! **Death and silence.** A third-party agent answers when it changes something, which may be ten seconds from now. One
//! that answers every report says so with a message without commands (an empty UPDATE): there is no other reason to send
//! one, and `anole-ccp` begins every flow with it. Such an agent is lost as above, and so is a new one that does not answer
//! CREATE. Any other is lost when nothing can be handed to it for that long (the socket of a dead process refuses, that
//! of one that hangs is full), when the program aborts for that long, or when nothing comes from it for 32 times as long, of the
//! time in which reports go (`silence.rs`).
//! What an agent has shown holds until it is lost or the host knows of a new one.
//!
//! When the agent is lost, CUBIC resumes from what the flow really used, since the window of a
//! pacing agent may be a loose cap. CREATE is sent again every 250 ms with the current window, so that
//! an agent that was restarted adopts the flow. The program does not run meanwhile. Where the host knows that the agent
//! is a new one, or that it has forgotten its flows, it says so ([`Mail::announce`]): CREATE then goes out with the next
//! ACK, and the program goes on until the answer, without reports: its number means nothing to the new agent.
//!
//! After a retransmission timeout the window is the loss window, whatever the program asks for, until the agent sets a
//! window or a rate (`loss_window.rs`).
//!
//! Time never goes back: a `now` before an earlier one counts as that one, so that a clock that is read in several places
//! makes no interval of a program's or timer run out.
//!
//! Two departures from libccp, which has one timer for the whole datapath that starts only on a failed
//! send: an UPDATE for a flow without a program has no effect, and is dropped when a program comes (there it
//! sets the window), and a flow keeps its program when the agent clears the table (there it runs nothing, or
//! whatever is installed in its place).

use crate::loss_window::LossWindow;
use crate::register::RegisterKind;
use crate::silence::Silence;
use crate::vm::{Abort, Limits, Machine};
use crate::wire::{self, CreateMessage, MAX_MEASURE_BYTES};
use crate::{AckSample, FlowMessage, InForce, Mail, Outbox, SendError};
use anole_laws::{Cubic, Law};
use anole_model::{Bounds, Dur, Time};

/// The agent is lost after this many round trips without an answer, if that is longer than the
/// configured time: an agent that reports once per RTT and loses one answer is still alive.
const LOST_AFTER_RTTS: u64 = 4;
/// Between two CREATE messages of a flow without an agent: short against the time that a restarted
/// agent needs to be useful, long against the cost of one message per flow.
const CREATE_INTERVAL: Dur = Dur::from_millis(250);
/// RFC 6928: the initial window.
const INITIAL_WINDOW_PACKETS: u32 = 10;
/// RFC 6298 §2.3: the gain of the smoothed RTT is 1/8.
const SRTT_GAIN_DIVISOR: u64 = 8;
const MICROS_PER_S: u64 = 1_000_000;

/// What a flow is created with.
#[derive(Clone, Debug)]
pub struct FlowConfig {
    /// The flow's id in messages, unique in the datapath, from 1.
    pub sid: u32,
    /// What CREATE tells the agent: initial window, MSS, addresses, algorithm.
    pub create: CreateMessage,
    /// What no program and no agent may exceed.
    pub bounds: Bounds,
    /// An agent that answers every report is lost when a message has waited for an answer for this long (or 4 RTT, the
    /// larger); any is when nothing could be handed to it for that long, or after 32 times as long.
    pub agent_timeout: Dur,
}

/// Who governs the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Governor {
    /// The installed program and the agent behind it.
    Agent,
    /// The native controller, because no agent has answered (yet, or for too long).
    Fallback,
}

/// Counters of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowStats {
    /// Calls of [`Flow::on_ack`].
    pub acks: u64,
    /// Reports sent.
    pub reports: u64,
    /// UPDATE and CHANGE_PROG messages taken.
    pub updates: u64,
    /// ACKs on which the program was aborted (overflow, underflow, division by zero).
    pub aborts: u64,
    /// Times that the fallback took over.
    pub fallbacks: u64,
    /// Messages that the outbox refused.
    pub send_failures: u64,
}

/// One flow of a datapath.
#[derive(Clone, Debug)]
pub struct Flow {
    config: FlowConfig,
    machine: Machine,
    fallback: Cubic,
    governor: Governor,
    /// What the governor asks for, within the bounds.
    asked: InForce,
    /// What limits the window after a timeout, while the agent governs and has not answered it.
    loss_window: Option<LossWindow>,
    mail: Mail,
    /// The latest time that was told.
    now: Time,
    /// Since when a message to the agent has waited for an answer.
    waiting_since: Option<Time>,
    /// The agent has shown that it answers every report, or has yet to answer that the flow was announced to it.
    owes_answers: bool,
    /// Nothing has come from the agent since the flow was announced to a new one.
    is_new: bool,
    /// What tells of the death of an agent that need not answer.
    silence: Silence,
    /// When CREATE is due while the fallback governs.
    next_create: Time,
    srtt_us: u64,
    last_abort: Option<Abort>,
    stats: FlowStats,
}

impl Flow {
    /// Starts a flow and announces it to the agent (CREATE). The fallback governs it until the agent
    /// answers.
    pub fn start(config: FlowConfig, now: Time, out: &mut impl Outbox) -> Flow {
        let cwnd = config.bounds.cwnd(u64::from(config.create.init_cwnd), config.create.mss);
        let mut flow = Flow {
            machine: Machine::new(),
            fallback: Cubic::new(config.create.mss, cwnd),
            governor: Governor::Fallback,
            asked: InForce { cwnd, rate: 0 },
            loss_window: None,
            mail: Mail::default(),
            now,
            waiting_since: None,
            owes_answers: false,
            is_new: true,
            silence: Silence::default(),
            next_create: now,
            srtt_us: 0,
            last_abort: None,
            stats: FlowStats::default(),
            config,
        };
        if flow.announce(now, out) {
            // An agent that is merely slow must not see the flow twice.
            flow.next_create = now + flow.config.agent_timeout;
        }
        flow
    }

    /// Takes what one ACK, loss detection or timeout tells; returns what to obey from now on.
    pub fn on_ack(&mut self, now: Time, sample: &AckSample, out: &mut impl Outbox) -> InForce {
        self.now = self.now.max(now);
        let now = self.now;
        self.stats.acks += 1;
        self.smooth_rtt(sample.plausible_rtt_us());
        let answered = self.read_mail(now, out);
        let has_program = self.machine.has_program() || self.mail.program.is_some();
        // One that was lost comes back with a message alone.
        if has_program && (answered || self.governor == Governor::Agent && !self.agent_is_lost(now)) {
            self.governor = Governor::Agent;
            self.run_program(now, sample, out);
        } else {
            self.run_fallback(now, sample, out);
        }
        self.control()
    }

    /// Takes a message of the agent that came at `now`; it takes effect at the next ACK.
    pub fn deliver(&mut self, now: Time, message: FlowMessage) {
        self.now = self.now.max(now);
        self.mail.put(message);
    }

    /// Empties a mailbox; what was in it takes effect at the next ACK.
    pub fn collect(&mut self, mail: &mut Mail) {
        self.mail.append(mail);
    }

    /// Has the flow announced to the agent with the next ACK; see [`Mail::announce`].
    pub fn announce_next(&mut self) {
        self.mail.announce();
    }

    /// The segment size has changed (path-MTU discovery): from now on the bounds and the fallback count in the new one.
    pub fn set_mss(&mut self, mss: u32) {
        self.config.create.mss = mss;
        self.fallback.set_mss(mss);
        self.asked.cwnd = self.bounded(self.asked.cwnd);
    }

    /// What the transport has to obey now.
    pub fn control(&self) -> InForce {
        match self.loss_window {
            Some(limit) => InForce { cwnd: self.bounded(self.asked.cwnd.min(limit.window)), ..self.asked },
            None => self.asked,
        }
    }

    /// What the governor asks for. The transport gets less of it after a timeout.
    pub fn asked(&self) -> InForce {
        self.asked
    }

    /// Who governs the flow now.
    pub fn governor(&self) -> Governor {
        self.governor
    }

    /// The flow's counters.
    pub fn stats(&self) -> FlowStats {
        FlowStats { updates: self.stats.updates + self.mail.messages(), ..self.stats }
    }

    /// The raw value of a register; `None` for one that does not exist. For tests and diagnosis.
    pub fn register(&self, kind: RegisterKind, index: u32) -> Option<u64> {
        self.machine.register(kind, index)
    }

    /// Why the program was aborted at the latest ACK that it ran on, if it was.
    pub fn last_abort(&self) -> Option<Abort> {
        self.last_abort
    }

    /// Tells the agent that the flow has ended (MEASURE without fields). One that does not hear of it keeps the flow for
    /// some minutes: what was refused is worth another try.
    pub fn close(&mut self, out: &mut impl Outbox) -> Result<(), SendError> {
        let sent = out.send(&wire::end(self.config.sid));
        self.stats.send_failures += u64::from(sent.is_err());
        sent
    }

    fn bounded(&self, cwnd: u32) -> u32 {
        self.config.bounds.cwnd(u64::from(cwnd), self.config.create.mss)
    }

    /// Takes note of what came since the last ACK, if anything; the program and the registers are the machine's to take.
    fn read_mail(&mut self, now: Time, out: &mut impl Outbox) -> bool {
        let messages = self.mail.take_arrived();
        if messages > 0 {
            self.stats.updates += messages;
            (self.waiting_since, self.silence) = (None, Silence::default());
            // Who comes after a loss may be another.
            self.owes_answers &= !self.is_new && self.governor == Governor::Agent;
            self.is_new = false;
        }
        if self.mail.take_unknown() {
            (self.owes_answers, self.is_new) = (true, true);
            // What was not answered before is nobody's to answer now: the new agent has its own time. A fallback that
            // governs goes on.
            if self.governor == Governor::Agent {
                (self.waiting_since, self.silence) = (None, Silence::default());
            }
            self.announce(now, out);
        }
        self.owes_answers |= self.mail.take_empty();
        messages > 0
    }

    fn smooth_rtt(&mut self, rtt_us: u64) {
        if self.srtt_us == 0 {
            self.srtt_us = rtt_us;
        } else if rtt_us > 0 {
            self.srtt_us = (self.srtt_us * (SRTT_GAIN_DIVISOR - 1) + rtt_us) / SRTT_GAIN_DIVISOR;
        }
    }

    fn patience(&self) -> Dur {
        self.config.agent_timeout.max(Dur::from_micros(self.srtt_us) * LOST_AFTER_RTTS)
    }

    fn agent_is_lost(&self, now: Time) -> bool {
        let patience = self.patience();
        if self.owes_answers {
            return self.waiting_since.is_some_and(|since| now.since(since) > patience);
        }
        self.silence.is_death(patience)
    }

    fn run_program(&mut self, now: Time, sample: &AckSample, out: &mut impl Outbox) {
        let in_flight = sample.bytes_in_flight.unwrap_or_else(|| self.allowed_flight());
        if self.mail.commands() {
            self.loss_window = None;
        }
        let (patience, is_new) = (self.patience(), self.is_new);
        let (config, stats) = (&self.config, &mut self.stats);
        let (waiting, silence) = (&mut self.waiting_since, &mut self.silence);
        let report = |uid, values: &[u64]| {
            // The number is another agent's, or one that this agent has given anew.
            if is_new {
                return false;
            }
            let mut buffer = [0; MAX_MEASURE_BYTES];
            let sent = out.send(wire::measure(&mut buffer, config.sid, uid, values));
            stats.reports += u64::from(sent.is_ok());
            stats.send_failures += u64::from(sent.is_err());
            waiting.get_or_insert(now);
            silence.on_report(now, patience, sent.is_ok());
            sent.is_ok()
        };
        let limits = Limits { bounds: config.bounds, mss: config.create.mss, in_flight };
        let outcome = self.machine.run(now, &mut self.mail, sample, &limits, &mut self.asked, report);
        self.last_abort = outcome.err();
        if self.last_abort.is_some() {
            self.stats.aborts += 1;
            self.waiting_since.get_or_insert(now);
            self.silence.on_report(now, patience, false);
        }
        self.limit_window(sample);
    }

    /// What the window and the pacing rate in force let into flight, bytes. A transport that does not tell what is in
    /// flight is taken to use all of it: read as 0, no window would be in use, and none would grow; read as the window alone,
    /// BBR's queue would never be drained.
    fn allowed_flight(&self) -> u32 {
        let InForce { cwnd, rate } = self.control();
        if rate == 0 || self.srtt_us == 0 {
            return cwnd;
        }
        let paced = u64::from(rate) * self.srtt_us / MICROS_PER_S;
        u32::try_from(paced).unwrap_or(u32::MAX).min(cwnd)
    }

    fn limit_window(&mut self, sample: &AckSample) {
        if sample.was_timeout {
            self.loss_window = Some(LossWindow::begin(self.loss_window, sample, self.config.create.mss));
        } else if let Some(limit) = self.loss_window {
            let grown = limit.grow(sample.bytes_acked);
            self.loss_window = Some(grown).filter(|grown| grown.window < self.asked.cwnd);
        }
    }

    fn run_fallback(&mut self, now: Time, sample: &AckSample, out: &mut impl Outbox) {
        if self.governor == Governor::Agent {
            self.governor = Governor::Fallback;
            self.stats.fallbacks += 1;
            self.fallback = self.resumed_fallback(now, sample);
            self.loss_window = None;
            self.next_create = now;
        }
        self.fallback.on_feedback(now, &sample.feedback());
        let cwnd = self.config.bounds.cwnd(self.fallback.cwnd(), self.config.create.mss);
        if self.fallback.cwnd() > u64::from(cwnd) {
            // It decreases from the window that is in force.
            self.fallback.observe(u64::from(cwnd), 0);
        }
        self.asked = InForce { cwnd, rate: 0 };
        if now >= self.next_create {
            self.announce(now, out);
        }
    }

    /// The fallback from where the agent left off. A flow whose application has too little to send says nothing about the
    /// path: it goes on with what was in use, or ten packets (RFC 6928), and slow start up to the old window. After a timeout
    /// that the agent did not answer, or at one, it goes on as if it had governed then.
    fn resumed_fallback(&self, now: Time, sample: &AckSample) -> Cubic {
        let (mss, rtt) = (self.config.create.mss, Dur::from_micros(self.srtt_us));
        let fired = sample.was_timeout.then(|| LossWindow::begin(self.loss_window, sample, mss));
        if let Some(limit) = fired.or(self.loss_window) {
            let mut cubic = Cubic::resumed(mss, limit.flight.min(self.asked.cwnd), rtt);
            // One that fires now is in the sample, and answered once.
            if !sample.was_timeout {
                cubic.on_timeout(now);
                cubic.observe(u64::from(limit.window), 0);
            }
            return cubic;
        }
        let (old, used) = (self.asked.cwnd, self.operating_point(sample));
        if !sample.app_limited {
            return Cubic::resumed(mss, used, rtt);
        }
        let floor = old.min(INITIAL_WINDOW_PACKETS.saturating_mul(mss));
        Cubic::resumed_below(mss, used.max(floor), old, rtt)
    }

    /// The window that the flow really used: what was delivered in a round trip or is in flight, where
    /// the transport tells; at most the window itself.
    fn operating_point(&self, sample: &AckSample) -> u32 {
        let delivered =
            u128::from(sample.rate_incoming) * u128::from(self.srtt_us) / u128::from(MICROS_PER_S);
        // What was in flight before this ACK: a batch of ACKs may leave little behind.
        let before = |left: u32| u128::from(left) + u128::from(sample.bytes_acked);
        let used = delivered.max(sample.bytes_in_flight.map_or(0, before));
        match u32::try_from(used) {
            Ok(0) | Err(_) => self.asked.cwnd,
            Ok(used) => used.min(self.asked.cwnd),
        }
    }

    /// Sends CREATE; returns whether the outbox took it.
    fn announce(&mut self, now: Time, out: &mut impl Outbox) -> bool {
        let create = CreateMessage { init_cwnd: self.control().cwnd, ..self.config.create.clone() };
        let sent = out.send(&wire::create(self.config.sid, &create)).is_ok();
        self.stats.send_failures += u64::from(!sent);
        self.waiting_since.get_or_insert(now);
        self.next_create = now + CREATE_INTERVAL;
        sent
    }
}

#[cfg(test)]
mod tests;
