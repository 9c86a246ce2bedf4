//! What must hold for any bytes from outside. Shared by the fuzz targets and by `tests/malformed.rs`.

use anole_datapath::wire::{self, AlgorithmName, CreateMessage, Install, Message};
use anole_datapath::{AckSample, Datapath, FlowId, InForce, Outbox, SendError};
use anole_model::{Bounds, Dur, Time};

const MSS: u32 = 1448;
const INIT_CWND: u32 = 10 * MSS;

/// An agent that checks every message it gets.
struct Agent;

impl Outbox for Agent {
    fn send(&mut self, message: &[u8]) -> Result<(), SendError> {
        let (_, length) = wire::decode(message).expect("the runtime sends whole messages");
        assert_eq!(length, message.len());
        Ok(())
    }
}

fn datapath() -> (Datapath, FlowId) {
    let mut datapath = Datapath::new(Bounds::DEFAULT, Dur::from_millis(500));
    let create = CreateMessage::without_addresses(INIT_CWND, MSS, AlgorithmName::NONE);
    let flow = datapath.open(Time::ZERO, create, &mut Agent);
    (datapath, flow)
}

fn check(control: Option<InForce>) {
    let control = control.expect("the flow is open");
    assert!(control.cwnd >= 2 * MSS && control.cwnd <= Bounds::DEFAULT.max_cwnd_bytes);
    assert!(control.rate == 0 || control.rate >= Bounds::DEFAULT.min_rate_bytes_per_s);
    assert!(control.rate <= Bounds::DEFAULT.max_rate_bytes_per_s);
}

/// Bytes that an agent or a datapath sent: decoding is total, what decodes can be written and read
/// again, and a datapath that takes them goes on.
pub fn codec(data: &[u8]) {
    if let Ok((message, length)) = wire::decode(data) {
        assert!(length >= wire::HEADER_BYTES && length <= data.len());
        let mut written = Vec::new();
        wire::encode(&message, &mut written).expect("what was read is within the limits");
        // INSTALL is for no flow, and the id in its header is ignored; READY's likewise.
        assert_eq!(wire::decode(&written), Ok((message, written.len())));
    }
    let (mut datapath, flow) = datapath();
    // An error is as good as success here: what matters is the state after it.
    let _ = datapath.receive(Time::ZERO, data);
    for millis in 1..4 {
        let now = Time::from_micros(millis * 1000);
        let sample = AckSample { bytes_acked: MSS, rtt_us: 50_000, ..AckSample::default() };
        check(datapath.on_ack(now, flow, &sample, &mut Agent));
    }
    datapath.close(flow, &mut Agent);
}

/// A program's bytes, then ACKs' bytes: installing is total, and running what was installed neither
/// faults nor passes the bounds.
///
/// The first byte says how many expressions follow and the second how many instructions; what is left
/// over are ACKs.
pub fn installer(data: &[u8]) {
    let [expressions, instructions, rest @ ..] = data else { return };
    let Some((expressions, rest)) = rest.split_at_checked(16 * usize::from(*expressions)) else { return };
    let Some((instructions, rest)) = rest.split_at_checked(16 * usize::from(*instructions)) else { return };
    let (mut datapath, flow) = datapath();
    let mut datagram = Vec::new();
    let install = Install { uid: 1, expressions, instructions };
    let change = Message::ChangeProgram { sid: flow.0, uid: 1, updates: Vec::new() };
    for message in [Message::Install(install), change] {
        wire::encode(&message, &mut datagram).expect("at most 255 of each");
    }
    if datapath.receive(Time::ZERO, &datagram).is_err() {
        return;
    }
    let mut now = Time::ZERO;
    for bytes in rest.as_chunks::<16>().0 {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        now += Dur::from_micros(u64::from(word(0) % 1_000_000));
        let sample = AckSample {
            bytes_acked: word(4),
            packets_acked: word(8),
            lost_packets: u32::from(bytes[12]),
            was_timeout: bytes[13] > 250,
            rtt_us: u64::from(word(12)) << (bytes[14] % 32),
            rate_outgoing: u64::from(word(2)) << (bytes[15] % 32),
            rate_incoming: u64::from(word(6)),
            bytes_in_flight: (bytes[15] % 2 > 0).then_some(word(10)),
            app_limited: bytes[15] % 4 > 1,
            ..AckSample::default()
        };
        check(datapath.on_ack(now, flow, &sample, &mut Agent));
    }
}
