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
    assert!(odd(|r| r.duration_s = f64::INFINITY).contains("duration_s"));
    assert!(odd(|r| (r.cross_flows, r.cross_algs) = ([1, 1], Vec::new())).contains("cross_algs"));
    for name in Ranges::NAMES {
        Ranges::named(name).unwrap().check().unwrap();
    }
    assert!(Ranges::named("outside").unwrap_err().to_string().contains("capacity-2x"));
}
