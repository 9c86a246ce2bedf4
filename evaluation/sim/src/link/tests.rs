//! Links of every kind: conservation, order, rates, trace opportunities and the point of each queue.

use super::*;
use proptest::prelude::*;
use std::sync::Arc;

const KINDS: [QueueKind; 5] =
    [QueueKind::DropTail, QueueKind::CoDel, QueueKind::FqCodel, QueueKind::Pie, QueueKind::Red];

fn config(queue: QueueKind) -> LinkConfig {
    LinkConfig {
        capacity: Capacity::Fixed(Rate::from_mbps(12.0)),
        delay: Dur::from_millis(10),
        buffer_bytes: 150_000,
        random_loss: 0.0,
        queue,
        aggregation: Aggregation::default(),
        impairments: Impairments::default(),
        cross: Vec::new(),
        full_packet: 1500,
        seed: 1,
    }
}

fn packet(flow: u32, data: u64) -> Packet<u64> {
    Packet { size: 1500, flow, ecn: Ecn::NotCapable, data }
}

fn drain(link: &mut Link<u64>) -> Vec<(Time, Packet<u64>)> {
    let mut out = Vec::new();
    while let Some(at) = link.next_event() {
        out.extend(std::iter::from_fn(|| link.pop(at)));
    }
    out
}

#[test]
fn a_packet_takes_its_transmission_and_propagation_time() {
    let mut link = Link::new(config(QueueKind::DropTail));
    assert!(link.offer(Time::ZERO, packet(0, 1)));
    assert!(link.offer(Time::ZERO, packet(0, 2)));
    let at: Vec<u64> = drain(&mut link).iter().map(|(at, _)| at.as_micros()).collect();
    assert_eq!(at, [11_000, 12_000]);
}

#[test]
fn a_late_poll_changes_nothing() {
    let (mut on_time, mut late) = (Link::new(config(QueueKind::CoDel)), Link::new(config(QueueKind::CoDel)));
    for i in 0..100 {
        on_time.offer(Time::ZERO, packet(0, i));
        late.offer(Time::ZERO, packet(0, i));
    }
    let late: Vec<_> = std::iter::from_fn(|| late.pop(Time::from_micros(10_000_000))).collect();
    assert_eq!(drain(&mut on_time), late);
}

#[test]
fn a_change_of_rate_applies_to_what_is_left_of_a_packet() {
    let mut link = Link::new(config(QueueKind::DropTail));
    link.offer(Time::ZERO, packet(0, 1));
    assert!(link.set_rate(Time::from_micros(500), Rate::from_mbps(6.0)));
    assert_eq!(drain(&mut link)[0].0.as_micros(), 500 + 1000 + 10_000);
    assert!(!link.set_rate(Time::from_micros(500), Rate::ZERO));
}

#[test]
fn a_shorter_delay_lets_nothing_overtake() {
    let mut link = Link::new(config(QueueKind::DropTail));
    link.offer(Time::ZERO, packet(0, 1));
    link.set_delay(Time::from_micros(1_500), Dur::from_millis(1));
    link.offer(Time::from_micros(1_500), packet(0, 2));
    let order: Vec<u64> = drain(&mut link).iter().map(|(_, p)| p.data).collect();
    assert_eq!(order, [1, 2]);
}

#[test]
fn a_trace_delivers_1504_bytes_per_opportunity_and_loops() {
    let trace = Arc::new(Trace::parse("2\n5\n").unwrap());
    let mut link = Link::new(LinkConfig {
        capacity: Capacity::Trace(trace),
        delay: Dur::ZERO,
        ..config(QueueKind::DropTail)
    });
    for i in 0..4 {
        link.offer(Time::ZERO, packet(0, i));
    }
    let at: Vec<u64> = drain(&mut link).iter().map(|(at, _)| at.as_micros() / 1000).collect();
    assert_eq!(at, [2, 5, 7, 10]);
    // Small packets share an opportunity, and what is left of it begins the next packet.
    let start = Time::from_micros(10_500);
    for i in 0..3 {
        link.offer(start, Packet { size: 748, ..packet(0, i) });
    }
    let at: Vec<u64> = drain(&mut link).iter().map(|(at, _)| at.as_micros() / 1000).collect();
    assert_eq!(at, [12, 12, 15]);
    let stats = link.stats(Time::from_micros(20_000));
    assert_eq!(stats.utilization, Some((4.0 * 1500.0 + 3.0 * 748.0) / (8.0 * 1500.0)));
}

/// Six packets arrive together at 19 ms; one passes per 100 ms. Each waits for its own opportunity: 81 to 581 ms.
#[test]
fn on_a_trace_a_packet_waits_in_the_queue_for_its_own_opportunity() {
    let mut link = Link::new(LinkConfig {
        capacity: Capacity::Trace(Arc::new(Trace::parse("100\n").unwrap())),
        delay: Dur::ZERO,
        ..config(QueueKind::DropTail)
    });
    for i in 0..6 {
        link.offer(Time::from_micros(19_000), packet(0, i));
    }
    assert_eq!(link.next_event(), Some(Time::from_micros(100_000)));
    assert_eq!(drain(&mut link).len(), 6);
    let delay = link.stats(Time::from_micros(600_000)).queue_delay_mean.unwrap();
    assert_eq!(delay.as_micros(), 331_000);
    assert_eq!(link.stats(Time::from_micros(600_000)).utilization, Some(1.0));
}

/// Packets of 1500 bytes at one per ms, or one per 10 ms of a trace, without a pause.
#[test]
fn a_busy_link_is_used_as_much_as_it_can_be_whenever_counting_begins_and_ends() {
    let trace = Capacity::Trace(Arc::new(Trace::parse("0\n10\n10\n").unwrap()));
    for capacity in [config(QueueKind::DropTail).capacity, trace] {
        for (from_us, to_us) in
            [(0, 30_000), (0, 30_400), (10_000, 40_000), (20_300, 50_000), (5_700, 30_200)]
        {
            let buffer_bytes = 1 << 20;
            let mut link = Link::new(LinkConfig {
                capacity: capacity.clone(),
                buffer_bytes,
                ..config(QueueKind::DropTail)
            });
            for i in 0..100 {
                link.offer(Time::ZERO, packet(0, i));
            }
            if from_us > 0 {
                link.reset_stats(Time::from_micros(from_us));
            }
            let used = link.stats(Time::from_micros(to_us)).utilization.unwrap();
            assert!((used - 1.0).abs() < 1e-9, "{capacity:?}, {from_us} to {to_us} µs: {used}");
        }
    }
}

#[test]
fn aggregation_delivers_in_bursts_and_costs_no_throughput() {
    let burst = (Dur::from_millis(2), Dur::from_millis(8));
    let aggregation = Aggregation { data: Some(burst), acks: Some(burst) };
    let mut link = Link::new(LinkConfig { aggregation, ..config(QueueKind::DropTail) });
    for i in 0..100 {
        link.offer(Time::ZERO, packet(0, i));
    }
    let arrivals = drain(&mut link);
    assert_eq!(arrivals.iter().map(|(_, p)| p.data).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    let mut at: Vec<Time> = arrivals.iter().map(|(at, _)| *at).collect();
    // Each packet takes 1 ms to send and 10 ms to propagate.
    assert!((110..=118).contains(&(at[99].as_micros() / 1000)), "{:?}", at[99]);
    at.dedup();
    assert!((10..=40).contains(&at.len()), "{}", at.len());
    let gaps = at.windows(2).map(|pair| pair[1].since(pair[0]).as_micros());
    assert!(gaps.clone().all(|us| (2_000..=9_000).contains(&us)), "{:?}", gaps.collect::<Vec<_>>());
    // ACKs have bursts of their own.
    let first = link.ack_late(Time::from_micros(1_000), 52).unwrap();
    assert!((2_000..=8_000).contains(&first.as_micros()));
    assert_eq!(link.ack_late(Time::from_micros(2_000), 52).unwrap() + Dur::from_millis(1), first);
    assert_eq!(Link::<u64>::new(config(QueueKind::DropTail)).ack_late(Time::ZERO, 52), Some(Dur::ZERO));
}

#[test]
fn a_tiny_buffer_still_carries_packets() {
    for kind in KINDS {
        let mut link = Link::new(LinkConfig { buffer_bytes: 0, ..config(kind) });
        assert!(link.offer(Time::ZERO, packet(0, 1)));
        assert!(link.offer(Time::ZERO, packet(0, 2)));
        link.offer(Time::ZERO, packet(0, 3));
        assert_eq!(drain(&mut link).len(), 2, "{kind:?}");
    }
}

/// Offers 125 % of the capacity for 20 s and returns the figures of the last 10 s.
fn overload(kind: QueueKind) -> LinkStats {
    let mut link = Link::new(config(kind));
    for i in 0..25_000 {
        let now = Time::from_micros(i * 800);
        if i == 12_500 {
            link.reset_stats(now);
        }
        while link.pop(now).is_some() {}
        link.offer(now, packet(0, i));
    }
    link.stats(Time::from_micros(20_000_000))
}

#[test]
fn each_queue_keeps_its_promise_under_overload() {
    let droptail = overload(QueueKind::DropTail);
    assert!((droptail.queue_delay_mean.unwrap().as_millis_f64() - 100.0).abs() < 2.0);
    assert!((droptail.loss_rate.unwrap() - 0.2).abs() < 0.01);
    // PIE holds its reference delay of 15 ms even against a sender that does not yield.
    let pie = overload(QueueKind::Pie);
    assert!(pie.queue_delay_mean.unwrap().as_millis_f64() < 30.0, "{pie:?}");
    for kind in KINDS {
        let stats = overload(kind);
        assert!(stats.utilization.unwrap() > 0.99, "{kind:?} {stats:?}");
    }
}

#[test]
fn codel_brings_a_standing_queue_down() {
    // Arrivals equal to the capacity on top of a burst of 80 packets: drop-tail keeps the queue for ever.
    let standing = |kind| {
        let mut link = Link::new(config(kind));
        for i in 0..80 {
            link.offer(Time::ZERO, packet(0, i));
        }
        for i in 0..20_000 {
            let now = Time::from_micros(i * 1_000);
            if i == 15_000 {
                link.reset_stats(now);
            }
            while link.pop(now).is_some() {}
            link.offer(now, packet(0, i));
        }
        link.stats(Time::from_micros(20_000_000)).queue_delay_mean.unwrap().as_millis_f64()
    };
    assert!(standing(QueueKind::DropTail) > 70.0);
    assert!(standing(QueueKind::CoDel) < 6.0);
    assert!(standing(QueueKind::FqCodel) < 6.0);
}

/// RFC 8289 §5.3, where a full packet is a jumbo frame: 6 ms each, and one waits when the next is taken.
#[test]
fn codel_drops_nothing_while_no_more_than_a_full_packet_waits() {
    for kind in [QueueKind::CoDel, QueueKind::FqCodel] {
        let mut link = Link::new(LinkConfig { full_packet: 9000, ..config(kind) });
        let packet = |data| Packet { size: 9000, ..packet(0, data) };
        (0..2).for_each(|i| assert!(link.offer(Time::ZERO, packet(i))));
        for i in 2..500 {
            let now = Time::from_micros((i - 2) * 6_000);
            while link.pop(now).is_some() {}
            link.offer(now, packet(i));
        }
        assert_eq!(link.lost_of(0), 0, "{kind:?}");
    }
}

/// Packets dropped and marked while 40 packets stand in the queue for 1.2 s.
fn standing(queue: QueueKind, buffer_bytes: u64, ecn: Ecn) -> (u64, usize) {
    let mut link = Link::new(LinkConfig { buffer_bytes, ..config(queue) });
    let packet = |data| Packet { ecn, ..packet(0, data) };
    for i in 0..40 {
        link.offer(Time::ZERO, packet(i));
    }
    let mut marked = 0;
    for i in 0..1200 {
        let now = Time::from_micros(i * 1000);
        marked += std::iter::from_fn(|| link.pop(now)).filter(|(_, p)| p.ecn == Ecn::Experienced).count();
        link.offer(now, packet(i));
    }
    (link.lost_of(0), marked)
}

#[test]
fn active_queues_mark_what_is_capable_and_drop_the_rest() {
    let kinds = [
        (QueueKind::CoDel, 150_000),
        (QueueKind::FqCodel, 150_000),
        (QueueKind::Pie, 150_000),
        (QueueKind::Red, 480_000),
    ];
    for (kind, buffer) in kinds {
        let (dropped, marked) = standing(kind, buffer, Ecn::NotCapable);
        assert!(dropped > 0 && marked == 0, "{kind:?}: {dropped} dropped, {marked} marked");
        let (dropped, marked) = standing(kind, buffer, Ecn::Capable);
        assert!(dropped == 0 && marked > 3, "{kind:?}: {dropped} dropped, {marked} marked");
    }
    // A queue that is full drops whatever the packet says.
    assert!(standing(QueueKind::DropTail, 15_000, Ecn::Capable).0 > 0);
    assert!(standing(QueueKind::Red, 15_000, Ecn::Capable).0 > 0);
}

/// One packet of a flow waits at a time, for more than 5 ms behind 20 flows that keep a queue each.
#[test]
fn fq_codel_drops_nothing_of_a_queue_that_holds_one_packet() {
    let mut link = Link::new(LinkConfig { buffer_bytes: 1 << 20, ..config(QueueKind::FqCodel) });
    for i in 0..10_000u64 {
        let now = Time::from_micros(i * 1_000);
        while link.pop(now).is_some() {}
        link.offer(now, packet(1 + i as u32 % 20, i));
        if i % 40 == 0 {
            link.offer(now, packet(0, i));
        }
    }
    assert_eq!(link.lost_of(0), 0);
    assert!((1..=20).map(|flow| link.lost_of(flow)).sum::<u64>() > 0);
}

#[test]
fn fq_codel_protects_a_sparse_flow() {
    // A bulk flow at 125 % of the capacity beside a flow of 10 % of it.
    let delay_of_sparse = |kind| {
        let mut link = Link::new(config(kind));
        let mut worst = Dur::ZERO;
        for i in 0..10_000u64 {
            let now = Time::from_micros(i * 800);
            while let Some((at, p)) = link.pop(now) {
                if p.flow == 1 {
                    worst = worst.max(at.since(Time::from_micros(p.data)));
                }
            }
            link.offer(now, packet(0, now.as_micros()));
            if i % 12 == 0 {
                link.offer(now, packet(1, now.as_micros()));
            }
        }
        worst.as_millis_f64()
    };
    assert!(delay_of_sparse(QueueKind::DropTail) > 100.0);
    assert!(delay_of_sparse(QueueKind::FqCodel) < 15.0);
}

#[test]
fn random_loss_is_as_frequent_as_asked_and_repeats_with_the_seed() {
    let run = |seed| {
        let mut link = Link::new(LinkConfig {
            random_loss: 0.1,
            seed,
            buffer_bytes: 1 << 30,
            ..config(QueueKind::DropTail)
        });
        for i in 0..20_000 {
            link.offer(Time::ZERO, packet(0, i));
        }
        drain(&mut link).iter().map(|(_, p)| p.data).collect::<Vec<_>>()
    };
    let arrived = run(1);
    assert!((arrived.len() as f64 / 20_000.0 - 0.9).abs() < 0.01);
    assert_eq!(arrived, run(1));
    assert_ne!(arrived, run(2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn packets_are_conserved_and_each_flow_stays_in_order(
        kind in 0usize..KINDS.len(),
        gaps_us in proptest::collection::vec((0u64..3_000, 0u32..3, 40u32..1500), 1..400),
        loss in 0.0f64..0.3,
        buffer in 0u64..60_000,
        burst_us in proptest::option::of((0u64..4_000, 0u64..4_000)),
        use_trace in any::<bool>(),
        rates in proptest::collection::vec((0.5f64..50.0, 0u64..40), 1..4),
    ) {
        let mut link = Link::new(LinkConfig {
            random_loss: loss,
            buffer_bytes: buffer,
            aggregation: Aggregation {
                data: burst_us.map(|(low, more)| (Dur::from_micros(low), Dur::from_micros(low + more))),
                acks: None,
            },
            capacity: if use_trace {
                Capacity::Trace(Arc::new(Trace::parse("0\n1\n1\n7\n").unwrap()))
            } else {
                Capacity::Fixed(Rate::from_mbps(12.0))
            },
            ..config(KINDS[kind])
        });
        let mut now = Time::ZERO;
        let mut last = [None; 3];
        let mut arrived = 0u64;
        let mut check = |popped: (Time, Packet<u64>)| {
            arrived += 1;
            let flow = popped.1.flow as usize;
            let in_order = last[flow] < Some(popped.1.data);
            last[flow] = Some(popped.1.data);
            in_order
        };
        for (i, (gap, flow, size)) in gaps_us.iter().enumerate() {
            now += Dur::from_micros(*gap);
            while let Some(popped) = link.pop(now) {
                prop_assert!(popped.0 <= now && check(popped));
            }
            let (mbps, delay_ms) = rates[i % rates.len()];
            link.set_rate(now, Rate::from_mbps(mbps));
            link.set_delay(now, Dur::from_millis(delay_ms));
            link.offer(now, Packet { size: *size, ..packet(*flow, i as u64) });
        }
        let lost: u64 = (0..3).map(|f| link.lost_of(f)).sum();
        let inside = link.packets_inside();
        for popped in drain(&mut link) {
            prop_assert!(check(popped));
        }
        let lost_later: u64 = (0..3).map(|f| link.lost_of(f)).sum();
        prop_assert_eq!(arrived + lost_later, gaps_us.len() as u64);
        prop_assert!(inside + lost <= gaps_us.len() as u64);
        prop_assert_eq!(link.packets_inside(), 0);
    }
}
