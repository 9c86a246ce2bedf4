//! Control laws of congestion control, each written once.
//!
//! A [`Law`] takes [`Feedback`] (one ACK, or all that happened since the feedback before) and answers with a
//! [`Control`]: a window, and a pacing rate where the law has one of its own. The same value serves alone, as the
//! rule-based candidate of a hybrid, as an arm that a selector chooses, and as the fallback inside a datapath.
//!
//! A law is one file or folder here and one line in [`ALL`]: its [`LawSpec`] names it, its parameters and its source.
//! What laws share stands beside them: [`Episode`] (which losses belong to one congestion event), [`HyStart`],
//! [`filter`] and [`regression`].
//!
//! Laws are pure: time is an argument, randomness comes from the seed in [`FlowStart`].

#![forbid(unsafe_code)]

pub mod aimd;
pub mod bbr;
pub mod c2tcp;
pub mod copa;
pub mod cubic;
mod episode;
mod feedback;
pub mod filter;
mod hystart;
pub mod illinois;
pub mod params;
pub mod pcc;
pub mod regression;
pub mod reno;
pub mod track;
pub mod vegas;
pub mod westwood;

pub use bbr::Bbr;
pub use cubic::Cubic;
pub use episode::Episode;
pub use feedback::{Control, Feedback};
pub use hystart::HyStart;
pub use params::{Parameter, ParameterError};
pub use reno::Reno;
pub use track::Track;
pub use vegas::Vegas;

use anole_model::{Rate, Time};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Every law, by name.
pub const ALL: &[LawSpec] = &[
    aimd::SPEC,
    pcc::allegro::SPEC,
    bbr::SPEC,
    bbr::v3::SPEC,
    c2tcp::SPEC,
    copa::SPEC,
    cubic::SPEC,
    illinois::SPEC,
    reno::SPEC,
    track::SPEC,
    vegas::SPEC,
    pcc::vivace::SPEC,
    westwood::SPEC,
];

/// The law with this name.
pub fn find(name: &str) -> Option<&'static LawSpec> {
    ALL.iter().find(|spec| spec.name == name)
}

/// What a law knows of its flow at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowStart {
    /// Maximum segment size, bytes.
    pub mss: u32,
    /// Window at the start, bytes.
    pub init_cwnd: u32,
    /// Seed of all randomness inside.
    pub seed: u64,
}

/// A control law of one flow.
pub trait Law: Debug + Send {
    /// Takes what happened since the feedback before.
    fn on_feedback(&mut self, now: Time, seen: &Feedback);

    /// The window and the pacing rate that the law asks for now.
    fn control(&self) -> Control;

    /// Goes on, in congestion avoidance, from where another controller left off.
    fn resume(&mut self, now: Time, from: Control);

    /// The same where the other controller may have left capacity unused: a law that would be long to find it looks for it
    /// as at a flow's start.
    fn resume_searching(&mut self, now: Time, from: Control) {
        self.resume(now, from);
    }

    /// True while the law grows exponentially to find the path's capacity.
    fn in_slow_start(&self) -> bool;

    /// True while the law looks for the path's capacity, and while it drains what that has queued.
    fn is_starting(&self) -> bool {
        self.in_slow_start()
    }

    /// The rate that the law takes the path to have, apart from what it probes and drains at. `None` if it has no other than
    /// that of [`Law::control`].
    fn cruising_rate(&self) -> Option<Rate> {
        None
    }

    /// Reports per round trip that the law needs where reports tell it what happened: one, unless it looks for what
    /// changes within a round trip.
    fn reports_per_rtt(&self) -> u32 {
        1
    }

    /// True where a loss or a mark is to be reported at once, before the round trip is over.
    fn wants_loss_at_once(&self) -> bool {
        false
    }
}

/// A law as a registry knows it.
#[derive(Clone, Copy, Debug)]
pub struct LawSpec {
    /// Name.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Paper or RFC.
    pub source: &'static str,
    /// Parameters.
    pub parameters: &'static [Parameter],
    /// Builds the law of a flow, in slow start. Parameters that are not named keep their defaults.
    pub build: LawBuilder,
}

/// Makes a law for a flow, with these parameters.
pub type LawBuilder = fn(FlowStart, &BTreeMap<String, f64>) -> Result<Box<dyn Law>, ParameterError>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regression::Sums;
    use anole_model::Dur;
    use proptest::prelude::*;

    const FLOW: FlowStart = FlowStart { mss: 1000, init_cwnd: 10_000, seed: 1 };

    fn build(spec: &LawSpec) -> Box<dyn Law> {
        (spec.build)(FLOW, &BTreeMap::new()).unwrap()
    }

    #[test]
    fn laws_are_sorted_by_name_and_each_starts_with_the_initial_window() {
        assert!(ALL.is_sorted_by_key(|spec| spec.name));
        for spec in ALL {
            let law = build(spec);
            assert!(law.in_slow_start(), "{}", spec.name);
            assert!(law.control().cwnd >= 10_000, "{}", spec.name);
        }
        assert!(find("cubic").is_some() && find("qubic").is_none());
    }

    #[test]
    fn every_law_goes_on_from_where_another_left_off() {
        let from = Control { cwnd: 300_000, rate: Some(Rate::from_mbps(48.0)) };
        let ack = Feedback {
            acked: 1000,
            rtt: Some(Dur::from_millis(50)),
            min_rtt: Some(Dur::from_millis(50)),
            samples: 1,
            delivery_rate: Some(Rate::from_mbps(48.0)),
            in_flight: Some(300_000),
            elapsed: Dur::from_micros(200),
            ..Feedback::default()
        };
        for spec in ALL {
            let mut law = build(spec);
            law.on_feedback(Time::from_micros(50_000), &ack);
            law.resume(Time::from_micros(50_001), from);
            let rate = law.control().rate_over(Dur::from_millis(50)).mbps();
            assert!((rate / 48.0 - 1.0).abs() < 0.3 && !law.in_slow_start(), "{}: {rate}", spec.name);
        }
    }

    /// Feedback that ends with a timeout tells of what was acknowledged before it too.
    #[test]
    fn a_timeout_leaves_the_least_window_whatever_was_acknowledged_before() {
        let rtt = Some(Dur::from_millis(50));
        for spec in ["c2tcp", "cubic", "illinois", "reno", "vegas", "westwood"] {
            let mut law = build(find(spec).unwrap());
            let seen = Feedback {
                acked: 8000,
                rtt,
                min_rtt: rtt,
                samples: 8,
                in_flight: Some(2000),
                ..Feedback::default()
            };
            law.on_feedback(Time::from_micros(50_000), &seen);
            law.on_feedback(Time::from_micros(400_000), &Feedback { timeout: true, ..seen });
            // Some bounds are two segments.
            assert!(law.control().cwnd <= 2000, "{spec}: {}", law.control().cwnd);
        }
    }

    fn feedback() -> impl Strategy<Value = (u64, Feedback)> {
        let rtt = prop_oneof![6 => 1..2_000_000u64, 1 => Just(u64::MAX / 1000), 1 => Just(0)];
        let bytes = prop_oneof![6 => 0..100_000u64, 1 => any::<u64>()];
        let rate = prop_oneof![6 => 0.0..1e9f64, 1 => any::<f64>()];
        let wait = prop_oneof![6 => 0..200_000u64, 1 => any::<u64>()];
        let lost = prop_oneof![6 => 0..5u64, 1 => any::<u64>()];
        let marked = prop_oneof![6 => 0..3u64, 1 => any::<u64>()];
        ((bytes, lost, marked, any::<bool>()), (rtt, rate, any::<Option<u64>>(), any::<bool>()), wait)
            .prop_map(|((acked, lost, marked, timeout), (rtt_us, rate, in_flight, app_limited), wait)| {
                let rtt = Some(Dur::from_micros(rtt_us));
                let delivery_rate = Some(Rate::from_bytes_per_s(rate));
                let elapsed = Dur::from_micros(wait);
                let (min_rtt, samples) = (rtt, 1);
                let seen = Feedback {
                    acked,
                    lost,
                    marked,
                    timeout,
                    rtt,
                    min_rtt,
                    samples,
                    sums: Sums { n: acked, t: wait, y: rtt_us, tt: wait, ty: rtt_us, yy: rtt_us },
                    delivery_rate,
                    in_flight,
                    app_limited,
                    elapsed,
                };
                (wait, seen)
            })
    }

    proptest! {
        #[test]
        fn no_feedback_breaks_a_law(
            law in proptest::sample::select(ALL),
            mss in 1..65_536u32,
            init_cwnd in any::<u32>(),
            seed in any::<u64>(),
            steps in proptest::collection::vec((feedback(), any::<bool>()), 0..80),
        ) {
            let mut law = (law.build)(FlowStart { mss, init_cwnd, seed }, &BTreeMap::new()).unwrap();
            let mut now = Time::ZERO;
            for ((wait, seen), resume) in steps {
                now += Dur::from_micros(wait);
                law.on_feedback(now, &seen);
                if resume && wait % 7 == 0 {
                    let cwnd = seen.acked;
                    law.resume(now, Control { cwnd, rate: seen.delivery_rate });
                }
                let control = law.control();
                prop_assert!(control.cwnd > 0);
                prop_assert!(control.rate.is_none_or(|rate| rate.bytes_per_s().is_finite()));
            }
        }
    }
}
