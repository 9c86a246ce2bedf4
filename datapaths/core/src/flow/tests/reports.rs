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
fn a_new_agent_gets_no_report_of_the_old_one_s_program() {
    let mut run = Run::start(false);
    run.change(&summer(BYTES_ACKED), 20_000, 0);
    run.acks(3);
    run.flow.announce_next();
    run.acks(5);
    assert_eq!((run.reported(), run.flow.stats().reports), (3 * u64::from(MSS), 3));
    assert_eq!((run.wire.creates().len(), run.flow.governor()), (2, Governor::Agent));
    // One that goes on with the program hears all of it.
    run.update(&[]);
    run.acks(1);
    assert_eq!((run.reported(), run.flow.stats().reports), (9 * u64::from(MSS), 4));
    // One that does not answer is lost as any other.
    run.flow.announce_next();
    run.acks(1);
    let waited = patience(&mut run);
    assert!(waited.abs_diff(500) <= 12, "{waited} ms");
    assert_eq!(run.flow.stats().reports, 4);
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
