//! The agent's liveness in virtual time: never came, late, lost, back, restarted, unreachable.

use super::*;
use crate::wire::{AlgorithmName, FieldUpdate, Install, Message, decode};
use crate::{SendError, ValidProgram};
use std::sync::Arc;

mod reports;
mod timeout;

const MSS: u32 = 1000;
const RTT_US: u64 = 50_000;
const TIMEOUT: Dur = Dur::from_millis(500);

/// An outbox that can be cut off.
#[derive(Default)]
struct Wire {
    sent: Vec<Vec<u8>>,
    down: bool,
}

impl Outbox for Wire {
    fn send(&mut self, message: &[u8]) -> Result<(), SendError> {
        if self.down {
            return Err(SendError);
        }
        self.sent.push(message.to_vec());
        Ok(())
    }
}

impl Wire {
    fn creates(&self) -> Vec<CreateMessage> {
        let message = |bytes: &Vec<u8>| match decode(bytes).expect("own messages decode").0 {
            Message::Create(1, create) => Some(create),
            _ => None,
        };
        self.sent.iter().filter_map(message).collect()
    }
}

/// A flow on a virtual clock that gets one ACK per millisecond.
struct Run {
    flow: Flow,
    wire: Wire,
    now: Time,
    sample: AckSample,
}

impl Run {
    fn start(down: bool) -> Run {
        Run::within(Bounds::DEFAULT, down)
    }

    fn within(bounds: Bounds, down: bool) -> Run {
        let create = CreateMessage::without_addresses(10 * MSS, MSS, AlgorithmName::NONE);
        let config = FlowConfig { sid: 1, create, bounds, agent_timeout: TIMEOUT };
        let mut wire = Wire { down, ..Wire::default() };
        let now = Time::from_secs_f64(1.0);
        let sample = AckSample { bytes_acked: MSS, packets_acked: 1, rtt_us: RTT_US, ..AckSample::default() };
        Run { flow: Flow::start(config, now, &mut wire), wire, now, sample }
    }

    fn acks(&mut self, millis: u64) {
        for _ in 0..millis {
            self.now += Dur::from_millis(1);
            self.flow.on_ack(self.now, &self.sample, &mut self.wire);
        }
    }

    /// A program from an agent that shows that it answers every report.
    fn change(&mut self, program: &Arc<ValidProgram>, cwnd: u64, rate: u64) {
        self.change_silently(program, cwnd, rate);
        self.update(&[]);
    }

    /// A program from an agent that says no more than it must.
    fn change_silently(&mut self, program: &Arc<ValidProgram>, cwnd: u64, rate: u64) {
        let fields = [(CWND, cwnd), (RATE, rate)].map(|(index, value)| FieldUpdate { kind: 2, index, value });
        self.flow.deliver(self.now, FlowMessage::ChangeProgram(Arc::clone(program), fields.to_vec()));
    }

    fn update(&mut self, fields: &[FieldUpdate]) {
        self.flow.deliver(self.now, FlowMessage::Update(fields.to_vec()));
    }
}

const CWND: u32 = crate::CWND_INDEX;
const RATE: u32 = crate::RATE_INDEX;

fn program(uid: u32, code: &[[u8; 16]], condition: u32, event: u32) -> Arc<ValidProgram> {
    let definitions = code.len() as u32 - condition - event;
    let expression: Vec<u8> = [definitions, condition, definitions + condition, event]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    let install = Install { uid, expressions: &expression, instructions: code.as_flattened() };
    Arc::new(ValidProgram::install(&install).expect("valid"))
}

fn instruction(op: u8, result: (u8, u8), left: (u8, u8), right: (u8, u8)) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[0] = op;
    for (at, (kind, index)) in [(1, result), (6, left), (11, right)] {
        bytes[at] = kind;
        bytes[at + 1] = index;
    }
    bytes
}

/// Reports `Micros` every time that it passes 120·85 = 10 200 µs (operands here have one byte).
fn reporter(uid: u32) -> Arc<ValidProgram> {
    program(
        uid,
        &[
            instruction(2, (5, 0), (5, 0), (1, 0)), // (def (Report (volatile us 0)))
            instruction(12, (7, 0), (1, 120), (1, 85)), // tmp0 = 120·85
            instruction(6, (2, 0), (2, 3), (7, 0)), // when Micros > tmp0
            instruction(1, (5, 0), (5, 0), (2, 3)), // Report.us = Micros
            instruction(1, (2, 3), (2, 3), (1, 0)), // Micros = 0
            instruction(1, (2, 2), (2, 2), (1, 1)), // report
        ],
        2,
        3,
    )
}

/// Divides by zero on every ACK.
fn aborter(uid: u32) -> Arc<ValidProgram> {
    program(
        uid,
        &[
            instruction(1, (2, 0), (2, 0), (1, 1)), // when true
            instruction(3, (7, 0), (1, 1), (1, 0)), // 1/0
        ],
        1,
        1,
    )
}

/// Keeps what it read of `Flow.bytes_in_flight` at the last ACK in report register 0.
fn keeps_the_flight(uid: u32) -> Arc<ValidProgram> {
    program(
        uid,
        &[
            instruction(2, (6, 0), (6, 0), (1, 0)), // (def (Report (flight 0)))
            instruction(1, (2, 0), (2, 0), (1, 1)), // when true
            instruction(1, (6, 0), (6, 0), (4, 8)), // Report.flight = Flow.bytes_in_flight
        ],
        1,
        1,
    )
}

#[test]
fn a_flight_that_is_not_told_is_what_the_window_and_the_rate_let_in() {
    let mut run = Run::start(false);
    let flight = |run: &mut Run| {
        run.acks(1);
        run.flow.register(RegisterKind::Report, 0)
    };
    run.change(&keeps_the_flight(1), 60_000, 0);
    // What is in flight yet is of the window before.
    assert_eq!(flight(&mut run), Some(10_000));
    assert_eq!(flight(&mut run), Some(60_000));
    let rate = |rate| [FieldUpdate { kind: 2, index: RATE, value: rate }];
    for (bytes_per_s, lets_in) in [(400_000, 20_000), (1_200_000, 60_000), (4_000_000_000, 60_000)] {
        run.update(&rate(bytes_per_s));
        flight(&mut run);
        assert_eq!(flight(&mut run), Some(lets_in), "{bytes_per_s}");
    }
    run.sample = AckSample { was_timeout: true, lost_packets: 60, bytes_acked: 0, ..run.sample };
    flight(&mut run);
    run.sample.was_timeout = false;
    assert_eq!(flight(&mut run), Some(u64::from(2 * MSS)), "the loss window is in force");
    run.sample.bytes_in_flight = Some(0);
    assert_eq!(flight(&mut run), Some(0));
}

#[test]
fn the_agent_never_comes() {
    let mut run = Run::start(false);
    run.acks(40);
    // Slow start: every byte acknowledged is a byte more.
    assert_eq!(run.flow.control(), InForce { cwnd: 50 * MSS, rate: 0 });
    run.acks(460);
    assert_eq!(run.wire.creates().len(), 2, "the first, and one after 500 ms");
    run.acks(1000);
    assert_eq!(run.wire.creates().len(), 6, "then one each 250 ms");
    let last = run.wire.creates().pop().expect("there are six");
    assert_eq!(last.init_cwnd, run.flow.control().cwnd, "the agent is told the window in force");
    assert_eq!(run.flow.governor(), Governor::Fallback);
    assert_eq!(run.flow.stats().fallbacks, 0, "it governed from the start");
    run.sample.lost_packets = 1;
    let before = run.flow.control().cwnd;
    run.acks(1);
    assert!(run.flow.control().cwnd < before * 3 / 4, "the fallback answers losses");
}

#[test]
fn the_agent_is_late() {
    let mut run = Run::start(true);
    assert_eq!(run.flow.stats().send_failures, 1);
    run.acks(2000);
    run.wire.down = false;
    run.acks(250);
    assert_eq!(run.wire.creates().len(), 1);
    run.change(&reporter(1), 70_000, 2_000_000);
    assert_eq!(run.flow.governor(), Governor::Fallback, "commands take effect at the next ACK");
    run.acks(1);
    assert_eq!(run.flow.governor(), Governor::Agent);
    assert_eq!(run.flow.control(), InForce { cwnd: 70_000, rate: 2_000_000 });
}

#[test]
fn an_agent_that_answers_keeps_the_flow() {
    let mut run = Run::start(false);
    run.change(&reporter(1), 70_000, 0);
    for _ in 0..30 {
        run.acks(100);
        run.update(&[]);
    }
    assert_eq!(run.flow.governor(), Governor::Agent);
    assert_eq!(run.flow.stats().fallbacks, 0);
    assert_eq!(run.flow.stats().reports, 3000 / 11);
    assert_eq!(run.wire.creates().len(), 1);
}

#[test]
fn a_program_that_does_not_report_asks_for_no_answer() {
    let quiet = program(1, &[instruction(1, (2, 0), (2, 0), (1, 1))], 1, 0);
    let mut run = Run::start(false);
    run.change(&quiet, 70_000, 0);
    run.acks(5000);
    assert_eq!(run.flow.governor(), Governor::Agent);
}

#[test]
fn the_agent_is_lost_and_comes_back_with_an_update() {
    let mut run = Run::start(false);
    // A pacing agent with a loose cap: 1 MB of window, of which 40 kB are in use.
    run.change(&reporter(1), 1_000_000, 800_000);
    run.sample.rate_incoming = 800_000;
    run.sample.bytes_in_flight = Some(38_000);
    run.acks(12 + 500);
    assert_eq!(run.flow.governor(), Governor::Agent, "the first report waits since 500 ms, not longer");
    run.acks(1);
    assert_eq!(run.flow.governor(), Governor::Fallback);
    assert_eq!(run.flow.stats().fallbacks, 1);
    let control = run.flow.control();
    assert_eq!(control.rate, 0);
    assert!((40_000..42_000).contains(&control.cwnd), "resumed from what was in use: {}", control.cwnd);
    assert_eq!(run.wire.creates().len(), 2, "announced again at once");
    let reports = run.flow.stats().reports;
    run.acks(500);
    assert_eq!(run.flow.stats().reports, reports, "the program does not run meanwhile");
    assert_eq!(run.wire.creates().len(), 4);
    run.update(&[FieldUpdate { kind: 2, index: CWND, value: 50_000 }]);
    run.update(&[]);
    run.acks(1);
    assert_eq!(run.flow.governor(), Governor::Agent);
    assert_eq!(run.flow.control().cwnd, 50_000);
    run.acks(100);
    assert!(run.flow.stats().reports > reports, "the program goes on");
    run.acks(500);
    assert_eq!(run.flow.stats().fallbacks, 2, "and is watched again");
}

#[test]
fn a_restarted_agent_adopts_the_flow_with_its_own_programs() {
    let mut run = Run::start(false);
    run.change(&reporter(1), 70_000, 0);
    run.acks(600);
    assert_eq!(run.flow.governor(), Governor::Fallback);
    run.wire.sent.clear();
    run.change(&reporter(9), 60_000, 0);
    run.acks(12);
    assert_eq!(run.flow.governor(), Governor::Agent);
    assert_eq!(run.flow.control().cwnd, 60_000);
    let report = run.wire.sent.last().expect("a report after 11 ms");
    assert!(matches!(decode(report), Ok((Message::Measure { sid: 1, uid: 9, .. }, _))));
}

/// How long the flow goes on, ms, until the fallback takes it.
fn patience(run: &mut Run) -> u64 {
    let start = run.now;
    while run.flow.governor() == Governor::Agent {
        run.acks(1);
        assert!(run.now.since(start) < Dur::from_millis(60_000), "it is never taken");
    }
    run.now.since(start).as_micros() / 1000
}

#[test]
fn an_agent_that_answers_only_when_it_changes_something_keeps_the_flow() {
    let mut run = Run::start(false);
    run.change_silently(&reporter(1), 70_000, 0);
    // BBR's probes for a smaller round trip lie 10 s apart.
    for _ in 0..3 {
        run.acks(10_000);
        run.update(&[FieldUpdate { kind: 2, index: CWND, value: 60_000 }]);
    }
    assert_eq!((run.flow.governor(), run.flow.stats().fallbacks), (Governor::Agent, 0));
    run.acks(12);
    let waited = patience(&mut run);
    assert!(waited.abs_diff(16_000) <= 12, "one that says nothing for ever is lost: {waited} ms");
}

#[test]
fn a_silent_agent_that_dies_is_lost_as_soon_as_any_other() {
    let mut run = Run::start(false);
    run.change_silently(&reporter(1), 70_000, 0);
    run.acks(3000);
    run.wire.down = true;
    let waited = patience(&mut run);
    assert!(waited.abs_diff(500) <= 24, "{waited} ms");
    // A socket that is full now and then is not that of a dead process.
    let mut run = Run::start(false);
    run.change_silently(&reporter(1), 70_000, 0);
    for second in 0..10 {
        run.wire.down = second % 2 == 0;
        run.acks(400);
    }
    assert_eq!(run.flow.stats().fallbacks, 0);
}

#[test]
fn a_pause_of_the_application_is_no_silence_of_the_agent() {
    // One that has had nothing to change since the report before the pause …
    let mut run = Run::start(false);
    run.change_silently(&reporter(1), 70_000, 0);
    for _ in 0..10 {
        run.acks(100);
        run.now += Dur::from_millis(60_000);
    }
    run.acks(1000);
    assert_eq!((run.flow.governor(), run.flow.stats().fallbacks), (Governor::Agent, 0));
    // … and whose socket was full before some of them.
    for _ in 0..10 {
        run.wire.down = true;
        run.acks(100);
        run.now += Dur::from_millis(60_000);
        run.acks(100);
        run.wire.down = false;
        run.acks(100);
    }
    assert_eq!((run.flow.governor(), run.flow.stats().fallbacks), (Governor::Agent, 0));
    // One that is dead is found out at the same time as without a pause, less what the pause counts for.
    run.wire.down = true;
    run.acks(200);
    run.now += Dur::from_millis(60_000);
    assert!(patience(&mut run).abs_diff(50) <= 24);
}

#[test]
fn an_agent_that_is_lost_comes_back_with_a_message_alone() {
    let mut run = Run::start(false);
    run.change_silently(&reporter(1), 70_000, 0);
    run.acks(100);
    run.wire.down = true;
    patience(&mut run);
    run.sample.rtt_us = 10 * RTT_US;
    run.acks(1000);
    assert_eq!((run.flow.governor(), run.flow.stats().fallbacks), (Governor::Fallback, 1));
}

#[test]
fn what_an_agent_has_shown_is_not_the_next_one_s() {
    let mut run = Run::start(false);
    run.change(&reporter(1), 70_000, 0);
    run.acks(100);
    run.flow.announce_next();
    run.acks(1);
    run.change_silently(&reporter(1), 70_000, 0);
    run.acks(5000);
    assert_eq!(run.flow.stats().fallbacks, 0);
    run.update(&[]);
    run.acks(12);
    let waited = patience(&mut run);
    assert!(waited.abs_diff(500) <= 12, "one that has shown it: {waited} ms");
}

#[test]
fn a_silent_agent_s_program_that_always_aborts_loses_the_flow() {
    let mut run = Run::start(false);
    run.change_silently(&aborter(1), 70_000, 0);
    run.acks(1);
    let waited = patience(&mut run);
    assert!(waited.abs_diff(500) <= 2, "{waited} ms");
}

#[test]
fn a_long_round_trip_gives_the_agent_more_time() {
    let mut run = Run::start(false);
    run.sample.rtt_us = 400_000;
    run.change(&reporter(1), 70_000, 0);
    run.acks(12 + 1600);
    assert_eq!(run.flow.governor(), Governor::Agent);
    run.acks(1);
    assert_eq!(run.flow.governor(), Governor::Fallback);
}

#[test]
fn an_unreachable_agent_is_lost_as_well() {
    let mut run = Run::start(false);
    run.change(&reporter(1), 70_000, 0);
    run.acks(5);
    run.wire.down = true;
    run.acks(600);
    assert_eq!(run.flow.governor(), Governor::Fallback);
    assert!(run.flow.stats().send_failures > 40);
    assert_eq!(run.flow.stats().reports, 0);
    run.wire.down = false;
    run.acks(250);
    assert_eq!(run.wire.creates().len(), 2);
}

#[test]
fn a_program_that_always_aborts_loses_the_flow() {
    let mut run = Run::start(false);
    run.change(&aborter(1), 70_000, 0);
    run.acks(1);
    assert_eq!(run.flow.last_abort(), Some(Abort::DivisionByZero));
    assert_eq!(run.flow.control().cwnd, 70_000, "what came with the program is in force");
    run.acks(502);
    assert_eq!(run.flow.governor(), Governor::Fallback);
    assert_eq!(run.flow.stats().aborts, 501);
}

#[test]
fn what_leaves_is_bounded_and_registers_are_raw() {
    let mut run = Run::start(false);
    run.change(&reporter(1), 1, u64::MAX);
    run.acks(1);
    assert_eq!(run.flow.control(), InForce { cwnd: 2 * MSS, rate: 4_000_000_000 });
    assert_eq!(run.flow.register(RegisterKind::Implicit, CWND), Some(1));
    assert_eq!(run.flow.register(RegisterKind::Implicit, RATE), Some(u64::MAX));
    run.acks(1);
    assert_eq!(run.flow.register(RegisterKind::Implicit, CWND), Some(2000), "read back from the transport");
}

#[test]
fn the_fallback_decreases_from_the_bound_that_is_in_force() {
    let mut run = Run::within(Bounds { max_cwnd_bytes: 40 * MSS, ..Bounds::DEFAULT }, true);
    run.acks(10_000);
    assert_eq!(run.flow.control().cwnd, 40 * MSS);
    run.sample.lost_packets = 1;
    run.acks(1);
    assert_eq!(run.flow.control().cwnd, 28 * MSS);
}

#[test]
fn staged_updates_stay_few_however_many_arrive() {
    let mut run = Run::start(false);
    run.change(&reporter(1), 70_000, 0);
    for value in 0..10_000 {
        run.update(&[FieldUpdate { kind: 0, index: (value % 110) as u32, value }]);
        run.update(&[FieldUpdate { kind: 5, index: 0, value }]);
    }
    run.acks(1);
    assert_eq!(run.flow.register(RegisterKind::Control, 89), Some(9_989));
    assert_eq!(run.flow.register(RegisterKind::Report, 0), Some(0), "no agent sets a report register");
}

#[test]
fn closing_says_so() {
    let mut run = Run::start(false);
    run.flow.close(&mut run.wire).unwrap();
    let last = run.wire.sent.last().expect("the end");
    assert_eq!(decode(last), Ok((Message::Measure { sid: 1, uid: 0, values: vec![] }, 16)));
}

/// A flow with one packet per 100 ms, for ten minutes under the fallback.
#[test]
fn an_application_that_sends_little_does_not_grow_the_window() {
    let mut run = Run::start(true);
    run.sample.bytes_in_flight = Some(0);
    for _ in 0..6000 {
        run.now += Dur::from_millis(100);
        run.flow.on_ack(run.now, &run.sample, &mut run.wire);
    }
    assert_eq!(run.flow.control().cwnd, 10 * MSS);
}

#[test]
fn an_agent_lost_in_a_pause_leaves_the_initial_window_and_slow_start_up_to_the_old_one() {
    let mut run = Run::start(false);
    run.change(&reporter(1), 60_000, 800_000);
    run.sample.bytes_in_flight = Some(0);
    run.sample.app_limited = true;
    run.acks(12 + 501);
    assert_eq!(run.flow.governor(), Governor::Fallback);
    assert_eq!(run.flow.control().cwnd, 10 * MSS);
    // The application is back.
    run.sample = AckSample { bytes_in_flight: Some(60_000), app_limited: false, ..run.sample };
    run.acks(50);
    assert_eq!(run.flow.control().cwnd, 60_000);
}

#[test]
fn a_flow_that_a_new_agent_does_not_know_is_announced_with_its_next_ack() {
    let mut run = Run::start(false);
    run.change(&reporter(1), 70_000, 0);
    run.acks(13);
    // The last report is not answered, and the application is silent while the agent is restarted.
    run.now += Dur::from_millis(60_000);
    run.flow.announce_next();
    run.acks(1);
    let create = run.wire.creates().pop().expect("announced");
    assert_eq!((run.wire.creates().len(), create.init_cwnd), (2, 70_000));
    assert_eq!(run.flow.governor(), Governor::Agent, "the old program goes on until the answer");
    run.acks(1);
    assert_eq!(run.wire.creates().len(), 2, "once");
    run.change(&reporter(9), 60_000, 0);
    run.acks(1);
    assert_eq!((run.flow.control().cwnd, run.flow.stats().fallbacks), (60_000, 0));
    // One that does not answer is lost as any other.
    run.flow.announce_next();
    run.acks(510);
    assert_eq!(run.flow.governor(), Governor::Fallback);
    // The next one finds the fallback, which governs until it answers.
    run.flow.announce_next();
    run.acks(1);
    assert_eq!(run.flow.governor(), Governor::Fallback);
    run.update(&[]);
    run.acks(1);
    assert_eq!(run.flow.governor(), Governor::Agent);
}
