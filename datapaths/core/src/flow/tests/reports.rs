//! What reports tell: marks of ECN, and what a refused report held.

use super::*;

/// Sums up a primitive and reports it at every ACK.
fn summer(primitive: u8) -> Arc<ValidProgram> {
    program(
        1,
        &[
            instruction(2, (5, 0), (5, 0), (1, 0)), // (def (Report (volatile sum 0)))
            instruction(1, (2, 0), (2, 0), (1, 1)), // when true
            instruction(0, (5, 0), (5, 0), (4, primitive)),
            instruction(1, (2, 2), (2, 2), (1, 1)), // report
        ],
        1,
        2,
    )
}

/// Places of primitives on the wire.
const BYTES_ACKED: u8 = 0;
const ECN_PACKETS: u8 = 3;
const LOST_PACKETS: u8 = 4;

impl Run {
    /// The sum of the first register of every report.
    fn reported(&self) -> u64 {
        let value = |bytes: &Vec<u8>| match decode(bytes).expect("own messages decode").0 {
            Message::Measure { values, .. } => values.first().copied(),
            _ => None,
        };
        self.wire.sent.iter().filter_map(value).sum()
    }
}

#[test]
fn marks_are_a_loss_per_round_trip_unless_the_program_reads_them() {
    // 200 ACKs, one per millisecond, each with two marks; a round trip is 50 ms.
    for (primitive, expected) in [(LOST_PACKETS, 4), (ECN_PACKETS, 400)] {
        let mut run = Run::start(false);
        run.sample.ecn_packets = 2;
        run.change(&summer(primitive), 20_000, 0);
        run.acks(200);
        assert_eq!(run.reported(), expected);
    }
}

#[test]
fn a_report_that_is_refused_is_in_the_next() {
    let mut run = Run::start(false);
    run.change(&summer(BYTES_ACKED), 20_000, 0);
    run.acks(3);
    run.wire.down = true;
    run.acks(5);
    run.wire.down = false;
    run.acks(1);
    assert_eq!(run.reported(), 9 * u64::from(MSS));
}
