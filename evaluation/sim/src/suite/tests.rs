//! Draws: within their ranges, the same again, and apart for training and evaluation.

use super::*;

fn ranges() -> Ranges {
    Ranges { traces: 0.3, steps: 0.3, cross_flows: [0, 2], start_s: [0.0, 2.0], ..Ranges::default() }
}

#[test]
fn draws_are_in_range_and_a_function_of_their_arguments() {
    let ranges = ranges();
    let mut kinds = [0; 3];
    for number in 0..200 {
        let drawn = ranges.draw("anole", Purpose::Evaluation, 1, number);
        assert_eq!(drawn, ranges.draw("anole", Purpose::Evaluation, 1, number));
        let link = &drawn.links[0];
        match &link.capacity {
            Capacity::Fixed(rate) => {
                assert!((1.0..=200.0).contains(&rate.mbps()));
                kinds[usize::from(!drawn.changes.is_empty())] += 1;
            }
            Capacity::Trace(_) => kinds[2] += 1,
        }
        assert!((2.5..=100.0).contains(&link.one_way_delay.as_millis_f64()), "{:?}", link.one_way_delay);
        assert!((0.0..=0.03).contains(&link.random_loss));
        assert!(link.buffer_bytes >= 3000);
        assert!(drawn.flows.len() <= 3 && drawn.flows[0].under_test);
        assert!(drawn.flows.iter().all(|flow| flow.start < flow.stop && flow.stop <= drawn.end()));
    }
    assert!(kinds.iter().all(|&count| count > 40), "{kinds:?}");
}

#[test]
fn training_and_evaluation_share_no_link() {
    let ranges = ranges();
    let draw = |purpose, number| ranges.draw("anole", purpose, 1, number).seed;
    let mut seeds: Vec<u64> = (0..100).map(|number| draw(Purpose::Evaluation, number)).collect();
    for environment in 0..4 {
        seeds.extend((0..100).map(|number| draw(Purpose::Training(environment), number)));
    }
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), 500);
}

#[test]
fn media_changes_and_own_flows_are_drawn_and_leave_other_ranges_as_they_were() {
    let plain = Ranges::default();
    let more = Ranges {
        traces: 0.3,
        busy_cells: 0.5,
        wifi: 0.4,
        rtt_steps: 0.5,
        ack_jitter_us: [100.0, 300.0],
        own_flows: [0, 3],
        ..Ranges::default()
    };
    let (mut bursts, mut moved, mut own) = (0, 0, [0; 4]);
    for number in 0..200 {
        let drawn = more.draw("anole", Purpose::Evaluation, 1, number);
        let wifi = drawn.links[0].aggregation != crate::link::Aggregation::default();
        bursts += u32::from(wifi);
        assert_eq!(wifi, drawn.links[0].impairments.jitter > Dur::ZERO);
        let delays = drawn.changes.iter().filter_map(|change| change.change.one_way_delay);
        moved += u32::from(delays.clone().count() > 0);
        let first = drawn.links[0].one_way_delay.as_secs_f64();
        assert!(delays.map(|delay| delay.as_secs_f64() / first).all(|factor| (0.49..2.01).contains(&factor)));
        let others = drawn.flows.iter().skip(1);
        assert!(others.clone().all(|flow| flow.under_test && flow.stop == drawn.end()));
        own[others.count()] += 1;
        let jitter = drawn.flows[0].ack_jitter.as_micros();
        assert!(
            (100..=300).contains(&jitter) && drawn.flows.iter().all(|f| f.ack_jitter.as_micros() == jitter)
        );
        // The link under it is that of the ranges without.
        let (ours, theirs) = (&drawn.links[0], plain.draw("anole", Purpose::Evaluation, 1, number));
        assert_eq!(ours.one_way_delay, theirs.links[0].one_way_delay);
    }
    assert!((60..100).contains(&bursts) && (80..120).contains(&moved), "{bursts} {moved}");
    assert!(own.iter().all(|&count| count > 30), "{own:?}");
}

#[test]
fn what_cannot_be_drawn_is_refused_with_the_field() {
    let odd = |change: fn(&mut Ranges)| {
        let mut ranges = Ranges::default();
        change(&mut ranges);
        ranges.check().unwrap_err().to_string()
    };
    assert_eq!(
        odd(|r| r.capacity_mbps = [5.0, 1.0]),
        "ranges: capacity_mbps = [5, 1]: give [low, high], within 0.1 to 10000"
    );
    assert!(odd(|r| r.rtt_ms = [f64::NAN, 1.0]).contains("rtt_ms"));
    assert!(odd(|r| (r.traces, r.steps) = (0.7, 0.7)).contains("steps"));
    assert!(odd(|r| (r.traces, r.wifi) = (0.7, 0.7)).contains("wifi"));
    assert!(odd(|r| r.ack_jitter_us = [-1.0, 1.0]).contains("ack_jitter_us"));
    assert!(odd(|r| r.own_flows = [2, 1]).contains("own_flows"));
    assert!(odd(|r| r.duration_s = 3600.0).contains("would carry up to 720000 Mbit; at most 200000"));
    assert!(odd(|r| (r.traces, r.wifi, r.duration_s) = (0.0, 0.1, 1500.0)).contains("capacity_mbps"));
    Ranges { traces: 0.0, duration_s: 3600.0, ..Ranges::default() }.check().unwrap();
    for length in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
        let refused = Ranges { duration_s: length, ..Ranges::default() }.check().unwrap_err().to_string();
        assert_eq!(refused, format!("ranges: duration_s = {length}: give 0.1 to 3600 s"));
    }
    assert!(odd(|r| (r.cross_flows, r.cross_algs) = ([1, 1], Vec::new())).contains("cross_algs"));
    for name in Ranges::NAMES {
        Ranges::named(name).unwrap().check().unwrap();
    }
    // All links are of one of the kinds, whatever the rounding of the sum.
    for (traces, steps, wifi) in [(0.9, 0.1, 0.0), (0.7, 0.2, 0.1), (0.2, 0.5, 0.3), (0.1, 0.3, 0.6)] {
        Ranges { traces, steps, wifi, ..Ranges::default() }.check().unwrap();
    }
    assert!(Ranges::named("outside").unwrap_err().to_string().contains("capacity-2x"));
}
