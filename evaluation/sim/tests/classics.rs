//! The classic laws alone in the simulator: each fills an empty link, keeps the delay that its paper claims, reacts to a
//! buffer that overflows and to a capacity that drops. Bounds are a little wider than what the laws do; docs/classics.md has
//! the figures.

use anole_sim::plan::{Choice, plan, shipped};
use anole_sim::result::RunResult;
use anole_sim::scenario::Scenario;
use anole_sim::{AgentScript, run};

const CAPACITY_MBPS: f64 = 48.0;

/// What a law is held to on 48 Mbps and 50 ms.
struct Claim {
    law: &'static str,
    /// Share of the link at least, mean queue at most, ms; a buffer of 2 BDP holds 100 ms.
    fills: (f64, f64),
    /// Share of the packets lost at most, and of the link used at least, where the buffer holds 0.2 BDP.
    shallow: (f64, f64),
    /// Mean queue at most after the capacity dropped to a quarter, ms; the buffer holds 400 ms then.
    dropped_ms: f64,
}

const CLAIMS: &[Claim] = &[
    Claim { law: "allegro", fills: (0.9, 100.0), shallow: (0.06, 0.9), dropped_ms: 400.0 },
    Claim { law: "bbr3", fills: (0.9, 15.0), shallow: (0.02, 0.8), dropped_ms: 100.0 },
    Claim { law: "c2tcp", fills: (0.95, 40.0), shallow: (0.005, 0.85), dropped_ms: 60.0 },
    Claim { law: "copa", fills: (0.97, 3.0), shallow: (0.005, 0.95), dropped_ms: 10.0 },
    Claim { law: "illinois", fills: (0.97, 100.0), shallow: (0.005, 0.85), dropped_ms: 400.0 },
    Claim { law: "vivace", fills: (0.85, 5.0), shallow: (0.01, 0.85), dropped_ms: 60.0 },
    Claim { law: "westwood", fills: (0.95, 70.0), shallow: (0.005, 0.85), dropped_ms: 330.0 },
];

/// 40 s of `flows`, of which 20 count.
fn simulate(link: &str, flows: &str) -> RunResult {
    let text = format!(
        "name = \"classics\"\nduration_s = 40.0\nwarmup_s = 20.0\n[[link]]\nname = \"b\"\ncapacity_mbps = {CAPACITY_MBPS:?}\n\
         one_way_delay_ms = 25.0\n{link}\n{flows}"
    );
    let scenario = Scenario::parse(&text, "classics", &[], &mut |_| Err(String::new())).unwrap();
    let plans = plan(&scenario, &Choice::default(), &shipped(), 1).unwrap();
    run(&scenario, plans, 1, AgentScript::default(), &mut |_| ())
}

fn alone(law: &str, link: &str, changes: &str) -> RunResult {
    simulate(link, &format!("[[flow]]\nalg = \"{law}\"\nack_jitter_us = 200\n{changes}"))
}

fn mbps(run: &RunResult) -> Vec<f64> {
    run.flows.iter().map(|flow| flow.throughput_mbps.unwrap()).collect()
}

fn queue_ms(run: &RunResult) -> f64 {
    run.links[0].queue_delay_mean_ms.unwrap()
}

#[test]
fn each_fills_an_empty_link_with_the_queue_that_its_paper_claims() {
    for Claim { law, fills: (share, most_ms), .. } in CLAIMS {
        let run = alone(law, "buffer_bdp = 2.0", "");
        let (used, queue) = (mbps(&run)[0] / CAPACITY_MBPS, queue_ms(&run));
        println!("{law}: {used:.3} of the link, queue {queue:.1} ms");
        assert!(used >= *share && queue <= *most_ms, "{law}: {used:.3} of the link, queue {queue:.1} ms");
    }
}

#[test]
fn each_reacts_to_a_short_buffer() {
    for Claim { law, shallow: (most, least), .. } in CLAIMS {
        let run = alone(law, "buffer_bdp = 0.2", "");
        let (used, lost) = (mbps(&run)[0] / CAPACITY_MBPS, run.links[0].loss_rate.unwrap());
        println!("{law}: {used:.3} of the link, {lost:.4} lost");
        assert!(used >= *least && lost <= *most, "{law}: {used:.3} of the link, {lost:.4} lost");
    }
}

#[test]
fn each_follows_a_capacity_that_drops_to_a_quarter() {
    for Claim { law, dropped_ms, .. } in CLAIMS {
        let change = "[[change]]\nat_s = 15.0\nlink = \"b\"\ncapacity_mbps = 12.0\n";
        let run = alone(law, "buffer_bdp = 2.0", change);
        let (used, queue) = (mbps(&run)[0] / 12.0, queue_ms(&run));
        println!("{law}: {used:.3} of what is left, queue {queue:.1} ms");
        assert!(used >= 0.8 && queue <= *dropped_ms, "{law}: {used:.3} of what is left, queue {queue:.1} ms");
    }
}

#[test]
fn random_loss_does_not_stop_those_that_claim_so() {
    for (law, share) in
        [("bbr3", 0.8), ("copa", 0.95), ("illinois", 0.85), ("vivace", 0.8), ("westwood", 0.6)]
    {
        let used = mbps(&alone(law, "buffer_bdp = 2.0\nrandom_loss = 0.001", ""))[0] / CAPACITY_MBPS;
        println!("{law}: {used:.3}");
        assert!(used >= share, "{law}: {used:.3}");
    }
}

/// Copa §2.2: flows of it keep the queue short and share evenly; beside CUBIC they hold their own.
#[test]
fn flows_of_copa_tell_each_other_from_cubic() {
    let four = "[[flow]]\nalg = \"copa\"\ncount = 4\nstart_spacing_s = 4.0\nack_jitter_us = 200\n";
    let run = simulate("buffer_bdp = 2.0", four);
    let shares = mbps(&run);
    assert!(shares.iter().all(|mbps| *mbps > 0.7 * CAPACITY_MBPS / 4.0), "{shares:?}");
    assert!(queue_ms(&run) < 6.0, "{}", queue_ms(&run));
    let both = "[[flow]]\nalg = \"copa\"\n[[flow]]\nalg = \"cubic\"\nstart_s = 5.0\n";
    let shares = mbps(&simulate("buffer_bdp = 1.0", both));
    assert!(shares[0] > 0.2 * CAPACITY_MBPS, "{shares:?}");
}

/// What an application sent slowly before says nothing of the path: BBR takes what it does not use for what is there, and is at
/// the capacity within a second of the first bulk data.
#[test]
fn a_slow_application_teaches_bbr_no_small_bandwidth() {
    let text = format!(
        "name = \"slow\"\nduration_s = 24\nwarmup_s = 21\n[[link]]\nname = \"b\"\ncapacity_mbps = {CAPACITY_MBPS:?}\n\
         one_way_delay_ms = 25\nbuffer_bdp = 2\n[[flow]]\nalg = \"bbr\"\nack_jitter_us = 200\n\
         app_mbps = 1\napp_until_s = 20\n"
    );
    let scenario = Scenario::parse(&text, "slow", &[], &mut |_| Err(String::new())).unwrap();
    let plans = plan(&scenario, &Choice::default(), &shipped(), 1).unwrap();
    let run = run(&scenario, plans, 1, AgentScript::default(), &mut |_| ());
    let used = run.links[0].utilization.unwrap();
    assert!(used > 0.9, "{used} of the link from the second second on");
}
