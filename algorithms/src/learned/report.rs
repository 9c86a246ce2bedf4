//! What a fold program's report says, whichever program it is.
//!
//! Programs that measure for policies share names of report registers; where they stand is looked up once per flow.
//! A program need not have all of them: without a time the flow's own clock counts, and without the sums of
//! round-trip times the last one stands for all.

use crate::{Program, Report};
use anole_model::{Dur, Time};
use anole_policies::Schema;
use anole_policies::schema::Signal;

/// The unit in which programs take the times of their sums, seconds.
pub(super) const UNIT_S: f64 = 16e-6;
/// The same, us.
const UNIT_US: f64 = 16.0;
/// No round-trip time is longer, us; a larger figure is no measurement.
pub(super) const LONGEST_RTT_US: u64 = 60_000_000;
/// Registers without which nothing can be told about a flow.
const REQUIRED: [&str; 5] = ["acked", "lost", "timeout", "rtt_us", "min_rtt_us"];
/// n, Σt, Σy, Σtt, Σty, Σyy of arrival times t and round-trip times y.
const SUMS: [&str; 6] = ["n", "sum_t", "sum_rtt", "sum_tt", "sum_trtt", "sum_rttrtt"];

/// One report, of whichever program.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// Bytes acknowledged.
    pub acked: u64,
    /// Packets found lost, and one for the marks of a report, as the datapath tells programs that read no ECN.
    pub lost: u64,
    /// A retransmission timeout happened.
    pub timeout: bool,
    /// Time since the report before.
    pub elapsed: Dur,
    /// Last round-trip time of the flow, us; 0 before the first.
    pub rtt_us: u64,
    /// Smallest round-trip time since the report before, us.
    pub min_rtt_us: u64,
    /// Bytes in flight.
    pub inflight: u64,
    /// Last delivery rate, bytes/s, which spans about a round trip; 0 where it is not measured.
    pub rate_in: u64,
    /// Window at the report, bytes; `None` where only the agent moves it.
    pub cwnd: Option<u64>,
    /// n, Σt, Σy, Σtt, Σty, Σyy.
    pub sums: [f64; 6],
}

impl Sample {
    /// A round-trip time was measured since the report before.
    pub fn has_rtt(&self) -> bool {
        self.sums[0] >= 1.0
    }
}

/// Reads the reports of one program.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    program: &'static Program,
    required: [Option<usize>; REQUIRED.len()],
    elapsed: Option<usize>,
    inflight: Option<usize>,
    rate_in: Option<usize>,
    cwnd: Option<usize>,
    marked: Option<usize>,
    sums: Option<[usize; SUMS.len()]>,
    /// When the last report came, for programs that tell no time.
    last: Option<Time>,
}

impl Reader {
    /// The reader of a program's reports.
    pub fn new(program: &'static Program) -> Reader {
        let sums = SUMS.map(|name| program.report(name));
        Reader {
            program,
            required: REQUIRED.map(|name| program.report(name)),
            elapsed: program.report("elapsed_us"),
            inflight: program.report("inflight"),
            rate_in: program.report("rate_in"),
            cwnd: program.report("cwnd"),
            marked: program.report("marked"),
            sums: sums.iter().all(Option::is_some).then(|| sums.map(Option::unwrap_or_default)),
            last: None,
        }
    }

    /// The first report register that the program lacks for a policy with this schema, and what needs it.
    pub fn lacks<'a>(&self, schema: &'a Schema) -> Option<(&'static str, &'a str)> {
        if let Some(index) = self.required.iter().position(Option::is_none) {
            return Some((REQUIRED[index], "any policy"));
        }
        let lacking = |signal: Signal| match signal {
            Signal::InflightPackets if self.inflight.is_none() => Some("inflight"),
            Signal::Acks if self.sums.is_none() => Some(SUMS[0]),
            Signal::RttGradient if self.sums.is_none() => Some(SUMS[4]),
            _ => None,
        };
        schema.features.iter().find_map(|feature| {
            let register = lacking(feature.signal).or_else(|| lacking(feature.per?))?;
            Some((register, feature.name.as_str()))
        })
    }

    /// What a report says; `None` when it is another program's, or not as long as this one's.
    pub fn read(&mut self, now: Time, report: &Report<'_>) -> Option<Sample> {
        let values = report.values;
        if report.program.name != self.program.name || values.len() != self.program.reports.len() {
            return None;
        }
        let optional = |place: Option<usize>| place.map(|place| values[place]);
        let [acked, lost, timeout, rtt_us, min_rtt_us] =
            self.required.map(|place| optional(place).unwrap_or(0));
        let since = now.since(self.last.replace(now).unwrap_or(now));
        Some(Sample {
            acked,
            lost: lost.saturating_add(u64::from(optional(self.marked).is_some_and(|marked| marked > 0))),
            timeout: timeout > 0,
            elapsed: optional(self.elapsed).map_or(since, Dur::from_micros),
            rtt_us,
            min_rtt_us,
            inflight: optional(self.inflight).unwrap_or(0),
            rate_in: optional(self.rate_in).unwrap_or(0),
            cwnd: optional(self.cwnd),
            sums: match self.sums {
                Some(places) => places.map(|place| values[place] as f64),
                None => one_sample(rtt_us, min_rtt_us),
            },
        })
    }
}

/// The sums of a report's last round-trip time alone; none where it is that of a report before.
fn one_sample(rtt_us: u64, min_rtt_us: u64) -> [f64; 6] {
    if rtt_us == 0 || min_rtt_us > LONGEST_RTT_US {
        return [0.0; 6];
    }
    let y = rtt_us as f64 / UNIT_US;
    [1.0, 0.0, y, 0.0, 0.0, y * y]
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_programs::{orca, rate_hold, reno, spine};

    #[test]
    fn programs_made_for_policies_report_all() {
        for program in [&rate_hold::PROGRAM, &orca::PROGRAM, &spine::PROGRAM] {
            let reader = Reader::new(program);
            assert!(reader.elapsed.is_some() && reader.rate_in.is_some() && reader.sums.is_some());
            assert_eq!(reader.cwnd.is_some(), program.name != "rate-hold");
            assert!(anole_policies::schema::builtins().iter().all(|schema| reader.lacks(schema).is_none()));
        }
    }

    #[test]
    fn marks_of_a_report_are_a_loss() {
        let mut reader = Reader::new(&rate_hold::PROGRAM);
        let mut values = [0; rate_hold::PROGRAM.reports.len()];
        for (marked, lost) in [(0, 2), (1, 3), (7, 3)] {
            values[rate_hold::PROGRAM.report("lost").unwrap()] = 2;
            values[rate_hold::PROGRAM.report("marked").unwrap()] = marked;
            let report = Report { program: &rate_hold::PROGRAM, values: &values };
            assert_eq!(reader.read(Time::from_micros(1), &report).unwrap().lost, lost);
        }
    }

    #[test]
    fn a_program_that_tells_less_is_read_too() {
        let mut reader = Reader::new(&reno::PROGRAM);
        let mut read = |ms: u64, values: &[u64]| {
            reader.read(Time::from_micros(1000 * ms), &Report { program: &reno::PROGRAM, values })
        };
        assert!(read(0, &[1]).is_none());
        read(10, &[1000, 0, 0, 32_000, 30_000, 20_000]).unwrap();
        let seen = read(35, &[2000, 1, 0, 32_000, 30_000, 30_000]).unwrap();
        assert_eq!((seen.acked, seen.lost, seen.elapsed), (2000, 1, Dur::from_millis(25)));
        assert_eq!((seen.cwnd, seen.sums), (Some(30_000), [1.0, 0.0, 2000.0, 0.0, 0.0, 4e6]));
        // Nothing was acknowledged: the round-trip time is an old one.
        assert_eq!(read(40, &[0, 0, 0, 32_000, u64::MAX, 30_000]).unwrap().sums, [0.0; 6]);
        let [orca, libra] = ["orca", "libra"].map(|name| anole_policies::schema::builtin(name).unwrap());
        assert_eq!(reader.lacks(orca), Some(("n", "samples over window")));
        assert_eq!(reader.lacks(libra), Some(("sum_trtt", "RTT gradient")));
    }
}
