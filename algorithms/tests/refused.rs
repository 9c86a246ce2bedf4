//! What a refused report held is in the next one, with the time that it is of: no rate is made of many intervals' bytes and one
//! interval's time.

use anole_algorithms::learned::Shipped;
use anole_algorithms::{Build, FlowInfo, Session};
use anole_datapath::wire::{AlgorithmName, CreateMessage, Message, decode, encode};
use anole_datapath::{AckSample, Datapath, Outbox, SendError};
use anole_model::{Bounds, Dur, Time};
use anole_programs::Installed;
use std::collections::BTreeMap;
use std::sync::Arc;

const MSS: u32 = 1000;
const FLOW: FlowInfo = FlowInfo { mss: MSS, init_cwnd: 10 * MSS };
const PATIENCE: Dur = Dur::from_millis(60_000);
/// A packet per millisecond.
const BYTES_PER_US: f64 = 1.0;

/// A carrier that may have no room.
#[derive(Default)]
struct Wire {
    sent: Vec<Vec<u8>>,
    full: bool,
}

impl Outbox for Wire {
    fn send(&mut self, message: &[u8]) -> Result<(), SendError> {
        if self.full {
            return Err(SendError);
        }
        self.sent.push(message.to_vec());
        Ok(())
    }
}

fn deliver(datapath: &mut Datapath, now: Time, message: &Message<'_>) {
    let mut bytes = Vec::new();
    encode(message, &mut bytes).unwrap();
    datapath.receive(now, &bytes).unwrap();
}

/// The largest rate that reports of four seconds tell, bytes/us, where 40 ms of every 400 refuse them; and reports in all.
fn largest_rate(algorithm: &str, policy: Option<&str>) -> (f64, usize) {
    let build = Build {
        flow: FLOW,
        classic: None,
        policy: policy.map(String::from),
        policies: Arc::new(Shipped),
        params: BTreeMap::new(),
        seed: 1,
    };
    let (mut datapath, mut wire) = (Datapath::new(Bounds::DEFAULT, PATIENCE), Wire::default());
    let create = CreateMessage::without_addresses(FLOW.init_cwnd, FLOW.mss, AlgorithmName::NONE);
    let flow = datapath.open(Time::ZERO, create, &mut wire);
    let mut session = Session::new(anole_algorithms::build(algorithm, &build).unwrap());
    let installed = Installed::all();
    installed.installs().for_each(|install| deliver(&mut datapath, Time::ZERO, &install));
    let answer = session.start(Time::ZERO).unwrap().and_then(|commands| installed.message(flow.0, commands));
    deliver(&mut datapath, Time::ZERO, &answer.unwrap());
    let sample = AckSample {
        bytes_acked: MSS,
        packets_acked: 1,
        rtt_us: 50_000,
        rate_incoming: 1_000_000,
        rate_outgoing: 1_000_000,
        bytes_in_flight: Some(50 * MSS),
        bytes_pending: 1 << 20,
        ..AckSample::default()
    };
    let (mut largest, mut reports) = (0.0f64, 0);
    for ms in 1..4000 {
        let now = Time::from_micros(ms * 1000);
        wire.full = ms % 400 > 360;
        datapath.on_ack(now, flow, &sample, &mut wire).unwrap();
        for bytes in std::mem::take(&mut wire.sent) {
            let Ok((Message::Measure { uid, values, .. }, _)) = decode(&bytes) else { continue };
            let program = installed.program(uid).unwrap();
            if let Some((acked, elapsed)) = program.report("acked").zip(program.report("elapsed_us")) {
                // ACKs of the first millisecond may count twice.
                let time = values[elapsed] as f64 + 1000.0;
                largest = largest.max(values[acked] as f64 / time);
                reports += 1;
            }
            let answer = session.on_report(now, program, &values).unwrap();
            if let Some(message) = answer.and_then(|commands| installed.message(flow.0, commands)) {
                deliver(&mut datapath, now, &message);
            }
        }
    }
    (largest, reports)
}

#[test]
fn bytes_of_refused_reports_come_with_their_time() {
    for (algorithm, policy) in [
        ("copa", None),
        ("bbr", None),
        ("anole", None),
        ("libra", Some("libra")),
        ("orca", None),
        ("spine", None),
        ("spine-cubic", None),
    ] {
        let (largest, reports) = largest_rate(algorithm, policy);
        assert!(reports > 10, "{algorithm}: {reports} reports");
        assert!(largest < 1.1 * BYTES_PER_US, "{algorithm}: {largest} of {BYTES_PER_US} bytes/us");
    }
}
