use super::*;
use proptest::prelude::*;

const MS: Duration = Duration::from_millis(1);
const MSS: u32 = 1000;
/// Close to the end of the sequence space, so that it is passed.
const BASE: u32 = u32::MAX - 5000;

/// The receiving end of RFC 2018 and 2883: what it has, and the ACK of each arrival.
#[derive(Default)]
struct Peer {
    next: u64,
    above: Vec<(u64, u64)>,
}

impl Peer {
    fn take(&mut self, from: u64, to: u64) -> (u32, [Option<(u32, u32)>; 3]) {
        let twice = to <= self.next || self.above.iter().any(|&(start, end)| start <= from && to <= end);
        if !twice {
            self.above.push((from, to));
            self.above.sort_unstable();
            let mut joined: Vec<(u64, u64)> = Vec::new();
            for &(start, end) in &self.above {
                match joined.last_mut() {
                    Some(last) if last.1 >= start => last.1 = last.1.max(end),
                    _ => joined.push((start, end)),
                }
            }
            self.above = joined;
            if self.above[0].0 <= self.next {
                self.next = self.above.remove(0).1;
            }
        }
        // The block of this arrival first, then others.
        let mut blocks = Vec::new();
        blocks.extend(twice.then_some((from, to)));
        blocks.extend(self.above.iter().copied().filter(|&(start, end)| start <= from && to <= end));
        blocks.extend(self.above.iter().copied().filter(|&(start, end)| !(start <= from && to <= end)));
        let mut wire = blocks.into_iter().map(|(start, end)| (sequence(start), sequence(end)));
        (sequence(self.next), [wire.next(), wire.next(), wire.next()])
    }
}

fn sequence(offset: u64) -> u32 {
    BASE.wrapping_add(offset as u32)
}

#[derive(Clone, Debug)]
enum Turn {
    /// The next segment is sent, and arrives unless it is lost.
    New { lost: bool },
    /// The first that has not arrived is sent again after three duplicate ACKs.
    Fast { lost: bool },
    /// The timer fires, and so many are sent again.
    Timeout { again: usize, losses: u8 },
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        8 => any::<bool>().prop_map(|lost| Turn::New { lost }),
        8 => Just(Turn::New { lost: false }),
        2 => any::<bool>().prop_map(|lost| Turn::Fast { lost }),
        1 => (1usize..8, any::<u8>()).prop_map(|(again, losses)| Turn::Timeout { again, losses }),
    ]
}

/// A sender, the wire and a peer.
struct World {
    now: Instant,
    board: Scoreboard,
    peer: Peer,
    sent: u64,
    lost: u64,
    acked_bytes: u64,
    /// What arrives late.
    late: Vec<(u64, u64)>,
}

impl World {
    fn send(&mut self, from: u64, lost: bool, late: bool) -> Sent {
        self.now += MS;
        let kind = self.board.on_sent(self.now, sequence(from), MSS);
        self.sent += 1;
        let to = from + u64::from(MSS);
        match (lost, late) {
            (true, _) => self.lost += 1,
            (false, true) => self.late.push((from, to)),
            (false, false) => self.arrive(from, to),
        }
        kind
    }

    fn arrive(&mut self, from: u64, to: u64) {
        let (ack, blocks) = self.peer.take(from, to);
        let acked = self.board.on_ack(self.now, ack, &blocks);
        assert!(
            acked.misordered_bytes <= acked.bytes && acked.misordered_packets <= acked.packets,
            "{acked:?}"
        );
        self.acked_bytes += u64::from(acked.bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever is lost, late or sent in vain: what the sender counts as lost in the end is what was lost.
    #[test]
    fn every_loss_is_counted(turns in proptest::collection::vec((turn(), 0u8..10), 1..80)) {
        let start = Instant::now();
        let mut world = World {
            now: start, board: Scoreboard::new(start, BASE), peer: Peer::default(), sent: 0, lost: 0, acked_bytes: 0,
            late: Vec::new(),
        };
        let mut top = 0;
        // A peer that never saw a duplicate cannot show that it tells of them.
        world.send(0, false, false);
        world.now += MS;
        top += u64::from(MSS);
        for (turn, chance) in turns {
            match turn {
                Turn::New { lost } => {
                    world.send(top, lost, chance == 0);
                    top += u64::from(MSS);
                }
                Turn::Fast { lost } if world.peer.next < top => {
                    let ack = sequence(world.peer.next);
                    for duplicate in 0..4 {
                        world.board.on_window(world.now, ack, 1, duplicate == 0);
                    }
                    let kind = world.send(world.peer.next, lost, chance == 0);
                    prop_assert_eq!(kind, Sent::Again);
                }
                Turn::Timeout { again, losses } if world.peer.next < top => {
                    world.now += 1000 * MS;
                    let from = world.peer.next;
                    // Where it has gone back to already, it goes on without the timer.
                    let fires = from < world.board.next;
                    for i in 0..again {
                        let at = from + i as u64 * u64::from(MSS);
                        if at < top {
                            let kind = world.send(at, losses >> i & 1 == 1, false);
                            prop_assert_eq!(matches!(kind, Sent::Timeout(_)), fires && i == 0);
                        }
                    }
                }
                _ => {}
            }
            if chance == 1 {
                for (from, to) in std::mem::take(&mut world.late) {
                    world.arrive(from, to);
                }
            }
        }
        for (from, to) in std::mem::take(&mut world.late) {
            world.arrive(from, to);
        }
        // Everything arrives in the end, and a duplicate with it.
        world.now += 1000 * MS;
        while world.peer.next < top {
            world.send(world.peer.next, false, false);
        }
        world.arrive(0, u64::from(MSS));
        world.arrive(0, u64::from(MSS));
        world.board.settle();
        prop_assert_eq!(world.board.sent_packets, world.sent);
        prop_assert_eq!(world.board.lost_packets(), world.lost);
        prop_assert_eq!((world.board.delivered_bytes(), world.acked_bytes), (top, top));
        prop_assert_eq!((world.board.packets.packets_in_flight(), world.board.packets.bytes_in_flight()), (0, 0));
    }

    /// Whatever a peer says, nothing panics and nothing is in flight that was not sent.
    #[test]
    fn no_ack_is_believed_too_much(
        acks in proptest::collection::vec((any::<u32>(), any::<bool>(), [any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>()]), 1..60)
    ) {
        let start = Instant::now();
        let mut board = Scoreboard::new(start, BASE);
        for (turn, (ack, near, edges)) in acks.into_iter().enumerate() {
            let now = start + MS * turn as u32;
            board.on_sent(now, sequence(board.max), MSS);
            let number = |edge: u32| if near { BASE.wrapping_add(edge % 70_000) } else { edge };
            let blocks = [Some((number(edges[0]), number(edges[1]))), Some((number(edges[2]), number(edges[3]))), None];
            board.on_ack(now, number(ack), &blocks);
            prop_assert!(board.packets.bytes_in_flight() <= board.sent_bytes);
            prop_assert!(board.delivered_bytes() <= board.max);
            prop_assert!(board.sacked.is_sorted() && board.sacked.iter().all(|&(from, to)| from < to && to <= board.max));
        }
    }
}

/// Six segments of which the second is lost; `answers` says what came of each.
#[test]
fn three_later_arrivals_tell_a_loss_and_the_last_arrival_a_round_trip() {
    let start = Instant::now();
    let (mut board, mut peer) = (Scoreboard::new(start, BASE), Peer::default());
    for i in 0..6 {
        assert_eq!(board.on_sent(start + MS * i, sequence(u64::from(i) * 1000), MSS), Sent::New);
    }
    let mut lost = Vec::new();
    for i in [0u32, 2, 3, 4, 5] {
        let from = u64::from(i) * 1000;
        let (ack, blocks) = peer.take(from, from + 1000);
        let acked = board.on_ack(start + MS * (50 + i), ack, &blocks);
        assert_eq!((acked.bytes, acked.packets, acked.rtt), (1000, 1, Some(MS * 50)));
        assert_eq!(acked.misordered_packets, u32::from(i > 0));
        lost.push(acked.lost);
    }
    assert_eq!(lost, [0, 0, 0, 1, 0]);
    assert_eq!(board.packets.bytes_in_flight(), 0);
    // Sent again, it arrives; no round trip is taken of it.
    assert_eq!(board.on_sent(start + MS * 60, sequence(1000), MSS), Sent::Again);
    let (ack, blocks) = peer.take(1000, 2000);
    let acked = board.on_ack(start + MS * 110, ack, &blocks);
    assert_eq!((acked.bytes, acked.packets, acked.rtt, acked.lost), (1000, 1, None, 0));
    assert_eq!((board.lost_packets(), board.delivered_bytes()), (1, 6000));
}

/// Five seconds of probes, as smoltcp sends them; what the peer makes of the last one.
fn probed(taken: u64) -> (Scoreboard, Instant) {
    let start = Instant::now();
    let mut board = Scoreboard::new(start, BASE);
    for i in 0..4 {
        board.on_sent(start + MS * i, sequence(u64::from(i) * 1000), MSS);
    }
    let mut now = start + MS * 50;
    board.on_window(now, sequence(4000), 0, false);
    assert_eq!(board.on_ack(now, sequence(4000), &[None; 3]).bytes, 4000);
    for _ in 0..5 {
        now += MS * 1000;
        assert_eq!(board.on_sent(now, sequence(4000), 1), Sent::Probe);
        board.on_window(now, sequence(4000), 0, false);
        assert_eq!(board.on_ack(now, sequence(4000), &[None; 3]), Acked::default());
    }
    // An old ACK tells no window.
    board.on_window(now, sequence(3000), 9, false);
    assert!(board.closed);
    now += MS * 1000;
    board.on_window(now, sequence(4000 + taken), 100, false);
    let acked = board.on_ack(now, sequence(4000 + taken), &[None; 3]);
    assert_eq!((u64::from(acked.bytes), acked.lost), (taken, 0));
    (board, now)
}

#[test]
fn a_probe_of_a_closed_window_is_no_transmission() {
    for taken in [0, 1] {
        let (mut board, now) = probed(taken);
        assert_eq!((board.sent_packets, board.sent_bytes, board.lost_packets()), (4, 4000, 0));
        assert_eq!((board.packets.bytes_in_flight(), board.delivered_bytes()), (0, 4000 + taken));
        assert_eq!(board.on_sent(now, sequence(4000 + taken), MSS), Sent::New);
        let acked = board.on_ack(now + MS * 50, sequence(5000 + taken), &[None; 3]);
        assert_eq!((acked.bytes, acked.packets, acked.rtt), (1000, 1, Some(MS * 50)));
    }
}

#[test]
fn what_goes_again_once_the_window_is_open_is_no_timeout() {
    let start = Instant::now();
    let mut board = Scoreboard::new(start, BASE);
    board.on_sent(start, sequence(0), MSS);
    // The peer takes back what it had allowed, and allows it again later.
    board.on_window(start + MS, sequence(0), 0, false);
    assert_eq!(board.on_sent(start + MS * 1500, sequence(0), 1), Sent::Probe);
    board.on_window(start + MS * 2000, sequence(0), 5000, false);
    assert_eq!(board.on_sent(start + MS * 2001, sequence(0), MSS), Sent::Again);
    assert!(matches!(board.on_sent(start + MS * 3100, sequence(0), MSS), Sent::Timeout(2)));
}

/// Four segments on a path of three seconds, the first of them lost; `duplicates` ACKs come of the others.
fn on_a_long_path(duplicates: u32) -> (Scoreboard, Instant) {
    let start = Instant::now();
    let mut board = Scoreboard::new(start, BASE);
    board.on_window(start, sequence(0), 9000, false);
    for i in 0..4 {
        board.on_sent(start + MS * i, sequence(u64::from(i) * 1000), MSS);
    }
    let now = start + MS * 3000;
    for i in 1..=duplicates {
        board.on_window(now, sequence(0), 9000, false);
        board.on_ack(
            now,
            sequence(0),
            &[Some((sequence(1000), sequence(1000 + 1000 * u64::from(i)))), None, None],
        );
    }
    (board, now)
}

#[test]
fn three_duplicates_tell_a_fast_retransmission_from_the_timer_s_however_late_it_goes() {
    let (mut board, now) = on_a_long_path(3);
    assert_eq!(board.on_sent(now, sequence(0), MSS), Sent::Again);
    // Once for the three of them.
    assert!(matches!(board.on_sent(now + MS * 3000, sequence(0), MSS), Sent::Timeout(_)));
    let (mut board, now) = on_a_long_path(2);
    assert!(matches!(board.on_sent(now, sequence(0), MSS), Sent::Timeout(_)));
}

#[test]
fn what_the_timer_sends_again_is_one_timeout_however_slowly_it_goes() {
    let (mut board, now) = on_a_long_path(0);
    assert_eq!(board.on_sent(now, sequence(0), MSS), Sent::Timeout(4));
    board.on_ack(now + MS * 3000, sequence(1000), &[None; 3]);
    assert_eq!(board.on_sent(now + MS * 5000, sequence(1000), MSS), Sent::Again);
}

#[test]
fn a_peer_that_tells_of_every_second_segment_alone_is_heard_up_to_a_bound() {
    let start = Instant::now();
    let mut board = Scoreboard::new(start, BASE);
    let segments = 60_000;
    for i in 0..segments {
        board.on_sent(start, sequence(i * 1000), MSS);
    }
    let mut bytes = 0;
    // Each is told of twice; what was not heard changes nothing.
    for i in (1..segments).step_by(2).flat_map(|i| [i, i]) {
        let block = Some((sequence(i * 1000), sequence(i * 1000 + 1000)));
        bytes += board.on_ack(start + MS, sequence(0), &[block, None, None]).bytes;
    }
    assert_eq!((board.sacked.len(), u64::from(bytes)), (MAX_RANGES, 1000 * MAX_RANGES as u64));
    // Next to one that is known, it is heard.
    let next = Some((sequence(0), sequence(1000)));
    assert_eq!(board.on_ack(start + MS, sequence(0), &[next, None, None]).bytes, MSS);
    let rest = board.on_ack(start + MS, sequence(segments * 1000), &[None; 3]);
    assert_eq!(u64::from(bytes + MSS + rest.bytes), segments * 1000);
    assert_eq!((board.lost_packets(), board.packets.bytes_in_flight(), board.sacked.len()), (0, 0, 0));
    assert_eq!(board.arrived_packets, segments);
}
