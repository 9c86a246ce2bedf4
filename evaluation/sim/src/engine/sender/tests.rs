//! Window, pacing, losses, timeouts and rates, packet by packet.

use super::*;

const MSS: u32 = 1000;

fn sender(cwnd_packets: u32, rate: u32, total: Option<u64>) -> Sender {
    let mut sender = Sender::new(MSS, total, None);
    sender.set_control(InForce { cwnd: cwnd_packets * MSS, rate });
    sender
}

fn send_all(sender: &mut Sender, now: Time) -> Vec<Data> {
    std::iter::from_fn(|| sender.next_packet(now)).collect()
}

fn ack(sender: &mut Sender, now: Time, data: &Data) -> AckSample {
    let arrival = Arrival {
        transmission: data.transmission,
        segment: data.segment,
        sent_at: data.sent_at,
        new_bytes: data.payload.get(),
        misordered: false,
        marked: false,
        more: false,
    };
    sender.on_ack(now, std::iter::once(arrival))
}

fn ms(ms: u64) -> Time {
    Time::ZERO + Dur::from_millis(ms)
}

#[test]
fn marks_are_counted_where_they_are_told() {
    let mut s = sender(4, 0, None);
    let sent = send_all(&mut s, ms(0));
    let arrival = |data: &Data, marked| Arrival {
        transmission: data.transmission,
        segment: data.segment,
        sent_at: data.sent_at,
        new_bytes: data.payload.get(),
        misordered: false,
        marked,
        more: false,
    };
    let arrivals = sent.iter().zip([true, false, true]).map(|(data, marked)| arrival(data, marked));
    let sample = s.on_ack(ms(100), arrivals);
    assert_eq!((sample.bytes_acked, sample.ecn_bytes, sample.ecn_packets), (3000, 2000, 2));
    // On what had arrived before, a mark is told as well.
    let again = Arrival { new_bytes: 0, ..arrival(&sent[3], true) };
    let sample = s.on_ack(ms(101), std::iter::once(again));
    assert_eq!((sample.bytes_acked, sample.ecn_bytes, sample.ecn_packets), (0, 0, 1));
}

#[test]
fn the_window_limits_what_is_in_flight() {
    let mut s = sender(4, 0, None);
    let sent = send_all(&mut s, ms(0));
    assert_eq!(sent.len(), 4);
    let sample = ack(&mut s, ms(100), &sent[0]);
    assert_eq!((sample.bytes_acked, sample.packets_in_flight, sample.rtt_us), (1000, 3, 100_000));
    assert_eq!(send_all(&mut s, ms(100)).len(), 1);
    s.set_control(InForce { cwnd: 2 * MSS, rate: 0 });
    ack(&mut s, ms(101), &sent[1]);
    assert_eq!(send_all(&mut s, ms(101)).len(), 0);
}

#[test]
fn pacing_spaces_packets_and_follows_a_change_of_the_rate_at_once() {
    let mut s = sender(100, 1_000_000, None);
    assert_eq!(send_all(&mut s, ms(0)).len(), 1);
    assert_eq!(s.next_timer(), Some(ms(1)));
    assert_eq!(send_all(&mut s, ms(1)).len(), 1);
    s.set_control(InForce { cwnd: 100 * MSS, rate: 100_000 });
    assert_eq!(send_all(&mut s, ms(2)).len(), 0);
    assert_eq!(s.next_timer(), Some(ms(11)));
    // No credit for time in which nothing was sent.
    assert_eq!(send_all(&mut s, ms(500)).len(), 1);
}

#[test]
fn three_later_acks_make_a_loss_and_a_lost_retransmission_is_found_alike() {
    let mut s = sender(10, 0, None);
    let sent = send_all(&mut s, ms(0));
    assert_eq!(ack(&mut s, ms(100), &sent[1]).lost_packets, 0);
    assert_eq!(ack(&mut s, ms(100), &sent[2]).lost_packets, 0);
    let sample = ack(&mut s, ms(100), &sent[3]);
    assert_eq!((sample.lost_packets, sample.packets_in_flight), (1, 6));
    let more = send_all(&mut s, ms(100));
    assert_eq!((more[0].segment, more[0].transmission, more[1].segment), (0, 10, 10));
    assert_eq!(s.retransmitted_packets, 1);
    for data in &sent[4..] {
        ack(&mut s, ms(101), data);
    }
    let more = [more, send_all(&mut s, ms(101))].concat();
    let losses: Vec<u32> = more[1..4].iter().map(|d| ack(&mut s, ms(200), d).lost_packets).collect();
    assert_eq!(losses, [0, 0, 1]);
    assert_eq!(send_all(&mut s, ms(200))[0].segment, 0);
}

#[test]
fn with_fewer_later_acks_time_decides() {
    let mut s = sender(3, 0, Some(3000));
    let sent = send_all(&mut s, ms(0));
    assert_eq!(ack(&mut s, ms(80), &sent[2]).lost_packets, 0);
    assert_eq!(s.next_timer(), Some(ms(90)));
    assert_eq!(s.on_timer(ms(90)).unwrap().lost_packets, 2);
    assert_eq!(s.next_timer(), None);
    assert_eq!(send_all(&mut s, ms(90)).iter().map(|d| d.segment).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_timeout_gives_up_everything_and_backs_off() {
    let mut s = sender(4, 0, None);
    let sent = send_all(&mut s, ms(0));
    assert_eq!(s.next_timer(), Some(ms(1000)));
    ack(&mut s, ms(100), &sent[0]);
    // srtt 100 ms, variance 50 ms: 100 + max(200, 4 · 50) ms after the ACK.
    assert_eq!(s.next_timer(), Some(ms(400)));
    let sample = s.on_timer(ms(400)).unwrap();
    assert!(sample.was_timeout && sample.lost_packets == 3 && sample.packets_in_flight == 0);
    assert_eq!(send_all(&mut s, ms(400))[0].segment, 1);
    assert_eq!(s.next_timer(), Some(ms(1000)));
    assert!(s.on_timer(ms(1000)).unwrap().was_timeout);
    send_all(&mut s, ms(1000));
    assert_eq!(s.next_timer(), Some(ms(2200)));
    // A late ACK for a segment that waits to be sent again takes it from the list.
    s.set_control(InForce { cwnd: MSS, rate: 0 });
    assert!(s.on_timer(ms(2200)).unwrap().was_timeout);
    let late = ack(&mut s, ms(2201), &sent[1]);
    assert_eq!((late.bytes_acked, late.lost_packets), (1000, 0));
    assert_eq!(send_all(&mut s, ms(2201))[0].segment, 2);
}

/// A timeout gave up what was only late; of what went out again, a part is lost.
#[test]
fn what_has_arrived_after_all_is_not_sent_again() {
    let mut s = sender(4, 0, Some(8000));
    let sent = send_all(&mut s, ms(0));
    assert!(s.on_timer(ms(1000)).unwrap().was_timeout);
    let again = send_all(&mut s, ms(1000));
    assert_eq!(again.iter().map(|d| d.segment).collect::<Vec<_>>(), [0, 1, 2, 3]);
    for data in &sent[..2] {
        ack(&mut s, ms(1010), data);
    }
    assert_eq!(ack(&mut s, ms(1100), &again[3]).lost_packets, 1);
    assert_eq!(s.on_timer(ms(2400)).unwrap().lost_packets, 2);
    assert_eq!(send_all(&mut s, ms(2400)).iter().map(|d| d.segment).collect::<Vec<_>>(), [2, 4, 5, 6]);
}

#[test]
fn rates_are_what_was_delivered_over_the_longer_of_both_spans() {
    let mut s = sender(1000, 1_000_000, None);
    let mut sent = Vec::new();
    for t in 0..200 {
        sent.extend(send_all(&mut s, ms(t)));
        if t >= 50 {
            // A bottleneck of half the rate: packet n comes back at 50 + 2n ms.
            let n = (t - 50) / 2;
            if (t - 50) % 2 == 0 {
                let sample = ack(&mut s, ms(t), &sent[n as usize]);
                if n > 60 {
                    assert_eq!((sample.rate_incoming, sample.rate_outgoing), (500_000, 1_000_000));
                }
            }
        }
    }
}

#[test]
fn the_last_segment_is_as_long_as_what_is_left() {
    let mut s = sender(10, 0, Some(2500));
    let sizes: Vec<u32> = send_all(&mut s, ms(0)).iter().map(|d| d.payload.get()).collect();
    assert_eq!((sizes, s.total_segments()), (vec![1000, 1000, 500], Some(3)));
}
