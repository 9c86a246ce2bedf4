//! What the shells are told for a scenario, and what they cannot be told.

use anole_model::Dur;
use anole_sim::link::{Aggregation, Capacity, Impairments, QueueKind};
use anole_sim::scenario::{LinkSpec, Scenario};

/// Bytes of a delivery opportunity, and what a TUN device adds to each packet.
pub const OPPORTUNITY_BYTES: u32 = 1504;
pub const TUN_HEADER_BYTES: u32 = 4;
/// A full packet of its devices: their MTU.
const MTU: u32 = 1500;
/// What `mm-link` counts of a queue: in an `int`.
const MOST_BYTES: u64 = i32::MAX as u64;
/// A fixed capacity becomes a trace that repeats after so many ms, if whole opportunities fill no shorter one.
const LONGEST_PERIOD_MS: u32 = 10_000;
/// How near to whole the opportunities of a period have to be.
const WHOLE: f64 = 1e-6;

/// What the shells are told.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Of `mm-delay`.
    pub delay_ms: u64,
    /// Of `mm-loss`, which is left out at 0.
    pub loss: f64,
    /// The uplink of `mm-link`: a time in ms per delivery opportunity.
    pub trace: String,
    /// Its queue and the queue's limits.
    pub queue: &'static str,
    pub queue_args: String,
}

impl Plan {
    /// Refuses what Mahimahi has no shell for, by the key that asks for it.
    pub fn new(scenario: &Scenario) -> Result<Plan, String> {
        let [link] = &scenario.links[..] else {
            return Err(refusal("[[link]]", "only one of them goes through its shells; leave one"));
        };
        for (asked, key, why) in [
            (
                !scenario.changes.is_empty(),
                "[[change]]",
                "its shells stay as they were started; leave it out",
            ),
            (
                !scenario.random_changes.is_empty(),
                "[[random_change]]",
                "its shells stay as they were started; leave it out",
            ),
            (scenario.full_packet() > MTU, "mss_bytes", "its devices carry 1500 bytes; set 1448 or less"),
            (
                scenario.flows.iter().any(|flow| !flow.extra_delay.is_zero()),
                "extra_delay_ms",
                "every flow goes through the same mm-delay; leave it out",
            ),
        ] {
            if asked {
                return Err(refusal(key, why));
            }
        }
        link_keys(link)?;
        let (queue, queue_args) = queue(link)?;
        Ok(Plan {
            delay_ms: whole_ms(link.one_way_delay)?,
            loss: link.random_loss,
            trace: trace(&link.capacity, scenario.full_packet()),
            queue,
            queue_args,
        })
    }
}

fn refusal(key: &str, why: &str) -> String {
    format!("Mahimahi cannot do what {key} asks for: {why}, or use --emulator own")
}

/// Keys of a link that no shell knows.
fn link_keys(link: &LinkSpec) -> Result<(), String> {
    let Aggregation { data, acks } = link.aggregation;
    let Impairments { burst_loss, hold, jitter, reorder, ack_path, ack_jitter } = &link.impairments;
    let other_way = link.reverse_delay.is_some_and(|reverse| reverse != link.one_way_delay);
    for (asked, key, why) in [
        (link.lte.is_some(), "lte", "it plays traces only; write one with `anole-eval trace make`"),
        (other_way, "reverse_delay_ms", "mm-delay delays both ways alike; leave it out"),
        (data.is_some(), "aggregation_ms", "mm-link holds nothing back; leave it out"),
        (acks.is_some(), "ack_aggregation_ms", "mm-link holds nothing back; leave it out"),
        (burst_loss.is_some(), "burst_loss", "mm-loss loses each packet alike; leave it out"),
        (hold.is_some(), "hold_ms", "mm-delay's delay is constant; leave it out"),
        (!jitter.is_zero(), "jitter_ms", "mm-delay's delay is constant; leave it out"),
        (!ack_jitter.is_zero(), "ack_jitter_ms", "mm-delay's delay is constant; leave it out"),
        (reorder.is_some(), "reorder", "its shells keep the order; leave it out"),
        (ack_path.is_some(), "ack_capacity_mbps", "ACKs have a fast link of their own; leave it out"),
        (!link.cross.is_empty(), "[[link.cross]]", "it makes no traffic; add a flow"),
    ] {
        if asked {
            return Err(refusal(key, why));
        }
    }
    Ok(())
}

/// The queue's name and arguments in its words; constants of CoDel and PIE as RFC 8289 and 8033 have them.
fn queue(link: &LinkSpec) -> Result<(&'static str, String), String> {
    // It counts each packet with the header of its TUN device, and stops at nothing else with 0.
    let bytes = link.buffer_bytes.min(MOST_BYTES);
    let bytes = bytes + bytes * u64::from(TUN_HEADER_BYTES) / u64::from(MTU);
    let limit = format!("bytes={}", bytes.clamp(u64::from(OPPORTUNITY_BYTES), MOST_BYTES));
    match link.queue {
        QueueKind::DropTail => Ok(("droptail", limit)),
        QueueKind::CoDel => Ok(("codel", limit + ", target=5, interval=100")),
        QueueKind::Pie => Ok(("pie", limit + ", qdelay_ref=15, max_burst=150")),
        QueueKind::FqCodel | QueueKind::Red => {
            Err(refusal("queue", "mm-link has droptail, codel and pie; choose one of these"))
        }
    }
}

fn whole_ms(delay: Dur) -> Result<u64, String> {
    let ms = delay.as_nanos() / 1_000_000;
    match Dur::from_millis(ms) == delay {
        true => Ok(ms),
        false => Err(refusal("one_way_delay_ms", "mm-delay counts whole milliseconds; round it")),
    }
}

/// Delivery opportunities, one a line. A fixed capacity counts the bytes of packets, an opportunity also the header of
/// the TUN device.
fn trace(capacity: &Capacity, full_packet: u32) -> String {
    let lines = |times: &mut dyn Iterator<Item = u32>| times.map(|ms| format!("{ms}\n")).collect();
    let rate = match capacity {
        Capacity::Trace(trace) => return lines(&mut trace.times_ms().iter().copied()),
        Capacity::Fixed(rate) => rate.bytes_per_s(),
    };
    let with_header = f64::from(full_packet + TUN_HEADER_BYTES) / f64::from(full_packet);
    let per_ms = rate * with_header / f64::from(OPPORTUNITY_BYTES) / 1000.0;
    let whole = |period: &u32| {
        let opportunities = per_ms * f64::from(*period);
        opportunities >= 0.5 && (opportunities - opportunities.round()).abs() < WHOLE * opportunities
    };
    let period = (1..=LONGEST_PERIOD_MS).find(whole).unwrap_or(LONGEST_PERIOD_MS);
    let opportunities = ((per_ms * f64::from(period)).round() as u64).max(1);
    // Each when as much has been offered as it carries.
    lines(&mut (1..=opportunities).map(|n| (n * u64::from(period)).div_ceil(opportunities) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(link: &str, rest: &str) -> Scenario {
        let text = format!(
            "name = \"t\"\nsource = \"test\"\nduration_s = 5.0\n{rest}\n[[link]]\nname = \"l\"\n\
             one_way_delay_ms = 25.0\n{link}\n[[flow]]\nalg = \"cubic\"\n"
        );
        Scenario::parse(&text, "t.toml", &[], &mut |_| Ok("3\n3\n9\n".into())).unwrap()
    }

    #[test]
    fn a_link_in_its_words() {
        let plan =
            Plan::new(&scenario("capacity_mbps = 48.0\nbuffer_bytes = 300000\nrandom_loss = 0.01", ""))
                .unwrap();
        assert_eq!(
            plan,
            Plan {
                delay_ms: 25,
                loss: 0.01,
                trace: "1\n1\n1\n1\n".into(),
                queue: "droptail",
                queue_args: "bytes=300800".into(),
            }
        );
        let played =
            Plan::new(&scenario("trace = \"t\"\nbuffer_packets = 9\nqueue = \"codel\"", "")).unwrap();
        assert_eq!((played.trace.as_str(), played.queue), ("3\n3\n9\n", "codel"));
        for buffer in ["bytes = 9000000000000000000", "packets = 9000000000000000000", "bytes = 4294967296"] {
            let endless =
                Plan::new(&scenario(&format!("capacity_mbps = 48.0\nbuffer_{buffer}"), "")).unwrap();
            assert_eq!(endless.queue_args, "bytes=2147483647");
        }
    }

    #[test]
    fn capacities_become_opportunities() {
        let rate_of = |mbps: f64| {
            let text = trace(&Capacity::Fixed(anole_model::Rate::from_mbps(mbps)), 1500);
            let times: Vec<u32> = text.lines().map(|line| line.parse().unwrap()).collect();
            assert!(times.is_sorted());
            (times.len(), *times.last().unwrap())
        };
        assert_eq!([rate_of(12.0), rate_of(16.0), rate_of(96.0)], [(1, 1), (4, 3), (8, 1)]);
        // One packet of 1500 bytes in 120 s: more than it is, since a trace is not longer.
        assert_eq!(rate_of(0.0001), (1, LONGEST_PERIOD_MS));
        let (lines, ms) = rate_of(9.7);
        assert!((lines as f64 * 12.0 / f64::from(ms) - 9.7).abs() < 0.001);
    }

    #[test]
    fn what_it_cannot_do_is_named() {
        let link = "capacity_mbps = 12.0\nbuffer_bdp = 1.0\n";
        let other = "[[link]]\nname = \"m\"\none_way_delay_ms = 1.0\ncapacity_mbps = 1.0\nbuffer_bdp = 1.0";
        for (more, key) in [
            ("queue = \"fq_codel\"", "queue"),
            ("reverse_delay_ms = 1.0", "reverse_delay_ms"),
            ("jitter_ms = 3.0", "jitter_ms"),
            ("burst_loss = { enter = 0.1, leave = 0.1, loss = 0.1 }", "burst_loss"),
            ("aggregation_ms = [1.0, 2.0]", "aggregation_ms"),
            ("[[change]]\nat_s = 1.0\nlink = \"l\"\ncapacity_mbps = 1.0", "[[change]]"),
            (other, "[[link]]"),
        ] {
            let error = Plan::new(&scenario(&(link.to_string() + more), "")).unwrap_err();
            assert!(
                error.contains(&format!("what {key} asks")) && error.contains("--emulator own"),
                "{error}"
            );
        }
        let error = Plan::new(&scenario(link, "mss_bytes = 1449")).unwrap_err();
        assert!(error.contains("mss_bytes"), "{error}");
    }
}
