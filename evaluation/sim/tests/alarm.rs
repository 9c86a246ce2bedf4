//! The alarm of Anole's cycle, in the datapath: what lasts is told at once, what has passed is not.

use anole_datapath::wire::{self, AlgorithmName, CreateMessage, Message};
use anole_datapath::{AckSample, Datapath, FlowId};
use anole_model::{Bounds, Dur, Time};
use anole_programs::anole_cycle::{PROGRAM, Report, control};
use anole_programs::{Commands, Installed};

/// A quarter of it is how long an alarm lasts before it is told.
const HOLD_US: u32 = 150_000;
const ALARM_US: u32 = 90_000;

struct Flow {
    datapath: Datapath,
    id: FlowId,
}

fn at(ms: f64) -> Time {
    Time::ZERO + Dur::from_secs_f64(ms / 1e3)
}

fn deliver(datapath: &mut Datapath, message: &Message<'_>) {
    let mut bytes = Vec::new();
    wire::encode(message, &mut bytes).unwrap();
    datapath.receive(Time::ZERO, &bytes).unwrap();
}

impl Flow {
    /// A flow that holds its rate, with the alarm armed.
    fn new() -> Flow {
        let mut datapath = Datapath::new(Bounds::DEFAULT, Dur::from_millis(10_000));
        let installed = Installed::all();
        installed.installs().for_each(|install| deliver(&mut datapath, &install));
        let create = CreateMessage::without_addresses(15_000, 1_500, AlgorithmName::NONE);
        let id = datapath.open(Time::ZERO, create, &mut Vec::new());
        let mut commands = Commands::default();
        commands
            .run(&PROGRAM)
            .set(control::PHASE, 2)
            .set(control::WINDOW_US, 0)
            .set(control::HOLD_US, HOLD_US)
            .set(control::ALARM_US, ALARM_US);
        deliver(&mut datapath, &installed.message(id.0, &commands).unwrap());
        Flow { datapath, id }
    }

    /// What the first report says was lost in window 0, where one call without a round-trip time tells of losses before the
    /// first ACK of the cycle.
    fn missed_at_first() -> u64 {
        let mut flow = Flow::new();
        let mut commands = Commands::default();
        commands.run(&PROGRAM).set(control::WINDOW_US, 25_000).set(control::HOLD_US, HOLD_US);
        deliver(&mut flow.datapath, &Installed::all().message(flow.id.0, &commands).unwrap());
        let lost = AckSample { lost_packets: 3, ..AckSample::default() };
        let acked =
            AckSample { bytes_acked: 1_500, packets_acked: 1, rtt_us: 50_000, ..AckSample::default() };
        let mut sent: Vec<Vec<u8>> = Vec::new();
        flow.datapath.on_ack(at(1.0), flow.id, &lost, &mut sent);
        for ms in 2..200 {
            flow.datapath.on_ack(at(f64::from(ms)), flow.id, &acked, &mut sent);
        }
        let reports = sent.iter().filter_map(|message| match wire::decode(message) {
            Ok((Message::Measure { values, .. }, _)) => Report::read(&values),
            _ => None,
        });
        let first = reports.map(|report| (report.window % 4, report.missed)).find(|(window, _)| *window == 0);
        first.unwrap().1
    }

    /// The moments at which the flow tells of an alarm, ms, where its ACKs arrive at these with those round-trip times.
    fn alarms(acks: impl Iterator<Item = (f64, f64)>) -> Vec<f64> {
        let mut flow = Flow::new();
        let mut alarms = Vec::new();
        for (ms, rtt_ms) in acks {
            let sample = AckSample {
                bytes_acked: 1_500,
                packets_acked: 1,
                rtt_us: (rtt_ms * 1e3) as u64,
                ..AckSample::default()
            };
            let mut sent: Vec<Vec<u8>> = Vec::new();
            flow.datapath.on_ack(at(ms), flow.id, &sample, &mut sent);
            for message in sent {
                if let Ok((Message::Measure { values, .. }, _)) = wire::decode(&message) {
                    let window = Report::read(&values).unwrap().window;
                    alarms.extend((window % 4 == 3).then_some(ms));
                }
            }
        }
        alarms
    }
}

/// ACKs every half millisecond from one moment to another.
fn acks(from: u32, to: u32, rtt_ms: impl Fn(f64) -> f64) -> impl Iterator<Item = (f64, f64)> {
    (2 * from..2 * to).map(move |n| (f64::from(n) / 2.0, rtt_ms(f64::from(n) / 2.0)))
}

#[test]
fn a_queue_that_lasts_is_told_once_within_a_quarter_of_the_hold() {
    let alarms = Flow::alarms(acks(1, 400, |ms| 50.0 + (ms - 100.0).max(0.0)));
    // The round-trip time passes 90 ms at 140, and has for more than 37.5 ms at 178.
    assert_eq!(alarms, [178.0]);
}

/// For 60 ms nothing moves, 25 ms from the receiver: what was on the way back arrives at once, and what was on the
/// way there 25 ms later, all late by what is left of the 60 ms.
#[test]
fn a_host_that_stood_still_is_no_overload() {
    let late = |ms: f64| (0..50).map(move |n| (ms + f64::from(n) / 50.0, 110.0 - f64::from(n) / 2.0));
    let stall =
        || acks(1, 100, |_| 50.0).chain(late(160.0)).chain(late(185.0)).chain(acks(210, 400, |_| 50.0));
    assert_eq!(Flow::alarms(stall()), []);
    // The same round-trip times without an end are one.
    assert_eq!(
        Flow::alarms(stall().take_while(|(ms, _)| *ms < 160.5).chain(acks(161, 250, |_| 95.0))).len(),
        1
    );
}

#[test]
fn losses_from_before_a_cycle_are_none_of_its_windows() {
    assert_eq!(Flow::missed_at_first(), 0);
}
