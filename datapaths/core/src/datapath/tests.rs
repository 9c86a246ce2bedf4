use super::*;
use crate::wire::{AlgorithmName, FieldUpdate, Install, encode};
use crate::{Governor, RegisterKind};

fn create() -> CreateMessage {
    CreateMessage::without_addresses(10_000, 1000, AlgorithmName::NONE)
}

fn datapath() -> Datapath {
    Datapath::new(Bounds::DEFAULT, Dur::from_millis(500))
}

fn bytes(messages: &[Message<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for message in messages {
        encode(message, &mut out).expect("within the limits");
    }
    out
}

fn install(uid: u32) -> Message<'static> {
    Message::Install(Install { uid, expressions: &[], instructions: &[] })
}

#[test]
fn several_messages_in_one_datagram() {
    let (mut datapath, mut out) = (datapath(), Vec::new());
    let id = datapath.open(Time::ZERO, create(), &mut out);
    let fields = vec![FieldUpdate { kind: 2, index: 4, value: 33_000 }];
    let updates = vec![FieldUpdate { kind: 0, index: 3, value: 8 }];
    let datagram = bytes(&[
        install(1),
        install(2),
        Message::ChangeProgram { sid: id.0, uid: 2, updates: fields },
        Message::Update(id.0, updates),
    ]);
    assert_eq!(datapath.receive(Time::ZERO, &datagram), Ok(()));
    let control = datapath.on_ack(Time::from_micros(1), id, &AckSample::default(), &mut out);
    assert_eq!(control.map(|c| c.cwnd), Some(33_000));
    let flow = datapath.flow(id).expect("open");
    assert_eq!(flow.register(RegisterKind::Control, 3), Some(8));
    assert_eq!((flow.governor(), flow.stats().updates), (Governor::Agent, 2));
}

#[test]
fn a_bad_message_does_not_hide_the_ones_behind_it() {
    let mut datapath = datapath();
    let id = datapath.open(Time::ZERO, create(), &mut Vec::new());
    let datagram = bytes(&[
        install(1),
        Message::ChangeProgram { sid: id.0, uid: 77, updates: vec![] },
        Message::ChangeProgram { sid: 99, uid: 1, updates: vec![] },
        Message::ChangeProgram { sid: id.0, uid: 1, updates: vec![] },
    ]);
    assert_eq!(datapath.receive(Time::ZERO, &datagram), Err(ReceiveError::UnknownProgram(77)));
    assert_eq!(datapath.flow(id).map(|flow| flow.stats().updates), Some(1));
    for wrong in [Message::Ready(1), Message::Create(1, create())] {
        assert_eq!(datapath.receive(Time::ZERO, &bytes(&[wrong])), Err(ReceiveError::WrongDirection));
    }
    assert!(matches!(datapath.receive(Time::ZERO, &[]), Err(ReceiveError::Wire(_))));
    for sid in [0, u32::MAX] {
        let update = bytes(&[Message::Update(sid, vec![])]);
        assert_eq!(datapath.receive(Time::ZERO, &update), Err(ReceiveError::UnknownFlow(sid)));
    }
}

#[test]
fn the_table_is_cleared_by_the_first_program_and_replaces_by_id() {
    let mut datapath = datapath();
    for uid in 1..=256 {
        assert_eq!(datapath.receive(Time::ZERO, &bytes(&[install(uid)])), Ok(()));
    }
    assert_eq!(datapath.receive(Time::ZERO, &bytes(&[install(257)])), Err(ReceiveError::TableFull));
    assert_eq!(datapath.receive(Time::ZERO, &bytes(&[install(256)])), Ok(()));
    assert_eq!(datapath.receive(Time::ZERO, &bytes(&[install(1)])), Ok(()));
    assert!(datapath.programs.get(1).is_some() && datapath.programs.get(2).is_none());
}

#[test]
fn flow_ids_are_not_used_again_and_closing_is_told() {
    let (mut datapath, mut out) = (datapath(), Vec::new());
    let ids: Vec<_> = (0..3).map(|_| datapath.open(Time::ZERO, create(), &mut out)).collect();
    assert_eq!(ids, [FlowId(1), FlowId(2), FlowId(3)]);
    datapath.close(FlowId(2), &mut out);
    assert_eq!(out.last().map(|message| message[..8].to_vec()), Some(vec![1, 0, 16, 0, 2, 0, 0, 0]));
    assert!(datapath.flow(FlowId(2)).is_none());
    assert_eq!(datapath.on_ack(Time::ZERO, FlowId(2), &AckSample::default(), &mut out), None);
    let next = datapath.open(Time::ZERO, create(), &mut out);
    assert_eq!(next, FlowId(4));
    // Answers to the closed flow that were under way.
    let fields = vec![FieldUpdate { kind: 2, index: 4, value: 33_000 }];
    let late = bytes(&[install(1), Message::ChangeProgram { sid: 2, uid: 1, updates: fields }]);
    assert_eq!(datapath.receive(Time::ZERO, &late), Err(ReceiveError::UnknownFlow(2)));
    let control = datapath.on_ack(Time::from_micros(1), next, &AckSample::default(), &mut out);
    assert_eq!(control.map(|c| c.cwnd), Some(10_000));
    datapath.ready(5, &mut out);
    assert_eq!(out.last().map(Vec::as_slice), Some(&[5, 0, 12, 0, 0, 0, 0, 0, 5, 0, 0, 0][..]));
}

#[test]
fn ids_come_round_without_meeting_a_flow_that_is_open() {
    let (mut datapath, mut out) = (datapath(), Vec::new());
    datapath.open(Time::ZERO, create(), &mut out);
    datapath.next_id = u32::MAX;
    let ids: Vec<u32> = (0..2).map(|_| datapath.open(Time::ZERO, create(), &mut out).0).collect();
    assert_eq!(ids, [u32::MAX, 2]);
}

/// The agent installs, and its messages are lost: it is asked to install again, less and less often, and the flow is
/// announced again so that it gets the program.
#[test]
fn a_lost_program_is_asked_for_again() {
    let (mut datapath, mut out) = (datapath(), Vec::new());
    let id = datapath.open(Time::ZERO, create(), &mut out);
    assert_eq!(asked_for(&mut datapath, id, 3, 0), [0, 250, 750, 1750, 3750]);
    out.clear();
    datapath.ready(5, &mut out);
    datapath.on_ack(Time::from_micros(5_100_000), id, &AckSample::default(), &mut out);
    let said: Vec<u8> = out.iter().map(|message| message[0]).collect();
    assert_eq!(said, [5, 0], "READY, then CREATE with the next ACK");
    let again = bytes(&[install(3), Message::ChangeProgram { sid: id.0, uid: 3, updates: vec![] }]);
    assert_eq!(datapath.receive(Time::from_micros(5_200_000), &again), Ok(()));
    assert!(!datapath.wants_programs(Time::from_micros(60_000_000)));
    datapath.on_ack(Time::from_micros(5_200_000), id, &AckSample::default(), &mut out);
    assert_eq!(datapath.flow(id).map(Flow::governor), Some(Governor::Agent));
    // It has come: for the next one that is lost the agent is asked as for the first.
    assert_eq!(asked_for(&mut datapath, id, 4, 10_000), [10_000, 10_250, 10_750, 11_750, 13_750]);
}

/// When the agent is asked for programs in five seconds in which it names one that is not here again and again, ms.
fn asked_for(datapath: &mut Datapath, id: FlowId, uid: u32, from_ms: u64) -> Vec<u64> {
    let change = bytes(&[Message::ChangeProgram { sid: id.0, uid, updates: vec![] }]);
    let mut asked = Vec::new();
    for ms in (from_ms..from_ms + 5_000).step_by(50) {
        let now = Time::ZERO + Dur::from_millis(ms);
        assert_eq!(datapath.receive(now, &change), Err(ReceiveError::UnknownProgram(uid)));
        if datapath.wants_programs(now) {
            asked.push(ms);
        }
        assert!(!datapath.wants_programs(now), "once for each time that it is named");
    }
    asked
}

/// It would be asked for at every turn otherwise.
#[test]
fn a_program_without_a_place_is_asked_for_less_and_less_often() {
    let (mut datapath, mut out) = (datapath(), Vec::new());
    let id = datapath.open(Time::ZERO, create(), &mut out);
    for uid in 1..=256 {
        assert_eq!(datapath.receive(Time::ZERO, &bytes(&[install(uid)])), Ok(()));
    }
    assert_eq!(asked_for(&mut datapath, id, 300, 0).len(), 5);
    assert_eq!(datapath.receive(Time::ZERO, &bytes(&[install(300)])), Err(ReceiveError::TableFull));
    assert_eq!(asked_for(&mut datapath, id, 300, 7_750).len(), 1);
}
