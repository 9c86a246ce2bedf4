//! The cases: what runs, and what a run has to show, whatever carries it.

use super::Carrier;
use anole_sim::result::{FlowResult, RunResult};
use anole_sim::scenario::Scenario;
use anyhow::{Context, Result};
use std::ops::RangeInclusive;

/// Capacity of the link of most cases, Mbps; 40 ms of propagation both ways together.
const MBPS: f64 = 12.0;
/// What is held, packets and Mbps: each about half of the link.
const WINDOW_PACKETS: f64 = 20.0;
const RATE_MBPS: f64 = 6.0;
/// Payload of a flow with a size.
const SIZE_BYTES: f64 = 500_000.0;
/// When the agent is away, s. The fallback takes over half a second after it was last heard.
const AWAY: (f64, f64) = (1.5, 3.0);
const LATE: (f64, f64) = (0.3, 1.5);

/// One case. Its run is the same on every carrier.
pub struct Case {
    /// Its column.
    pub name: &'static str,
    /// What it asks for; the figure of its column.
    pub what: &'static str,
    pub alg: &'static str,
    /// Length in full and with --quick, s.
    seconds: (f64, f64),
    /// Changes of the scenario.
    set: &'static [&'static str],
    /// When there is no agent.
    pub away: Option<(f64, f64)>,
    /// The figure, and where it is expected: a matter of the host as well, and no fault where it is not.
    figure: fn(&Run<'_>) -> Option<f64>,
    expected: RangeInclusive<f64>,
    /// What is wrong; it holds on any host.
    faults: fn(&Run<'_>) -> Vec<String>,
}

/// A run with what it has to be held against.
pub struct Run<'a> {
    result: &'a RunResult,
    carrier: Carrier,
    /// A full packet of the scenario, and what of it the carrier counts in windows and rates, bytes.
    packet: f64,
    mss: f64,
}

/// What a run showed.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Verdict {
    /// The carrier's name.
    pub carrier: &'static str,
    /// The case's name.
    pub case: &'static str,
    /// The figure; null where there was nothing to measure.
    pub figure: Option<f64>,
    /// Where it is expected.
    pub from: f64,
    /// And up to where.
    pub to: f64,
    /// What is wrong, and would be on any host.
    pub faults: Vec<String>,
}

impl Verdict {
    /// Whether the figure is where it was expected.
    pub fn is_expected(&self) -> bool {
        self.figure.is_some_and(|figure| (self.from..=self.to).contains(&figure))
    }
}

pub const CASES: &[Case] = &[
    Case {
        name: "window",
        what: "holds a window of 20 packets: packets on their way, of those asked for",
        alg: "hold",
        seconds: (6.0, 2.0),
        set: &["param.window_packets=20"],
        away: None,
        figure: |run| {
            let flow = &run.result.flows[0];
            let on_their_way = flow.throughput_mbps? * 1e3 / 8.0 * flow.rtt_mean_ms? / run.packet;
            Some(on_their_way / WINDOW_PACKETS)
        },
        expected: 0.95..=1.05,
        faults: |run| [governed(run, 0), in_force(run, "window", WINDOW_PACKETS * run.mss)].concat(),
    },
    Case {
        name: "rate",
        what: "holds a rate of 6 Mbps: sent, of what was asked for",
        alg: "hold",
        seconds: (6.0, 2.0),
        set: &["param.window_packets=400", "param.rate_mbps=6"],
        away: None,
        figure: |run| Some(run.result.flows[0].throughput_mbps? * run.mss / run.packet / RATE_MBPS),
        expected: 0.95..=1.05,
        faults: |run| [governed(run, 0), in_force(run, "rate", RATE_MBPS * 1e6 / 8.0)].concat(),
    },
    Case {
        name: "AIMD",
        what: "AIMD fills the link: share of its capacity",
        alg: "aimd",
        seconds: (20.0, 2.5),
        set: &[],
        away: None,
        figure: |run| run.result.share_of_capacity(0),
        expected: 0.85..=1.02,
        faults: |run| governed(run, 0),
    },
    Case {
        name: "Anole",
        what: "Anole on its paper's normal link (48 Mbps, 50 ms, 2 BDP): share of its capacity",
        alg: "anole",
        seconds: (30.0, 2.5),
        set: &["b.capacity_mbps=48", "b.one_way_delay_ms=25"],
        away: None,
        figure: |run| run.result.share_of_capacity(0),
        expected: 0.9..=1.02,
        faults: |run| governed(run, 0),
    },
    Case {
        name: "agent late",
        what: "the flow begins at 0.8 s, its agent at 1.5 s: share of the capacity from 1 s on",
        alg: "aimd",
        seconds: (8.0, 4.0),
        set: &["flow.start_s=0.8"],
        away: Some(LATE),
        figure: |run| run.result.share_of_capacity(0),
        expected: 0.8..=1.02,
        faults: |run| in_turn(run, &["fallback", "agent"]),
    },
    Case {
        name: "agent restarted",
        what: "no agent from 1.5 to 3 s: share of the capacity meanwhile",
        alg: "aimd",
        seconds: (8.0, 6.0),
        set: &[],
        away: Some(AWAY),
        figure: |run| Some(mbps_between(&run.result.flows[0], AWAY) / MBPS),
        expected: 0.8..=1.05,
        faults: |run| {
            let mut faults = in_turn(run, &["agent", "fallback", "agent"]);
            if mbps_between(&run.result.flows[0], AWAY) == 0.0 {
                faults.push("nothing arrived while the agent was away".to_string());
            }
            faults
        },
    },
    Case {
        name: "two flows",
        what: "two flows of AIMD share the link: Jain's index",
        alg: "aimd",
        seconds: (30.0, 2.5),
        set: &["flow.count=2", "flow.start_spacing_s=0.2"],
        away: None,
        figure: |run| run.result.jain_index,
        expected: 0.8..=1.0,
        faults: |run| [governed(run, 0), governed(run, 1)].concat(),
    },
    Case {
        name: "size",
        what: "two flows of 500 000 bytes arrive whole: seconds of the slower one",
        alg: "aimd",
        seconds: (6.0, 5.0),
        set: &["flow.count=2", "flow.bytes=500000", "warmup_s=0"],
        away: None,
        figure: |run| {
            let seconds = run.result.flows.iter().map(|flow| flow.fct_s);
            seconds.reduce(|most, s| Some(most?.max(s?))).flatten()
        },
        expected: 0.67..=2.0,
        faults: |run| run.result.flows.iter().enumerate().flat_map(|(n, flow)| whole(n, flow)).collect(),
    },
];

impl Case {
    /// The scenario.
    pub fn scenario(&self, quick: bool) -> Result<Scenario> {
        let seconds = if quick { self.seconds.1 } else { self.seconds.0 };
        let text = format!(
            "name = \"carriers: {}\"\nsource = \"anole-eval carriers\"\nduration_s = {seconds:?}\nwarmup_s = 1.0\n\
             [[link]]\nname = \"b\"\ncapacity_mbps = {MBPS:?}\none_way_delay_ms = 20.0\nbuffer_bdp = 2.0\n\
             [[flow]]\nalg = \"{}\"\nunder_test = true\n",
            self.name, self.alg
        );
        let set: Vec<String> = self.set.iter().map(|change| change.to_string()).collect();
        let scenario = Scenario::parse(&text, self.name, &set, &mut |_| Err(String::new()));
        scenario.with_context(|| format!("carriers, {}", self.name))
    }

    /// Whether a carrier can run it.
    pub fn runs_on(&self, carrier: Carrier) -> bool {
        self.away.is_none() || carrier != Carrier::InProcess
    }

    /// Holds a run against the case.
    pub fn judge(&self, scenario: &Scenario, carrier: Carrier, result: &RunResult) -> Verdict {
        let packet = f64::from(scenario.full_packet());
        let mss = packet - carrier.header_bytes();
        let run = Run { result, carrier, packet, mss };
        let (figure, faults) = ((self.figure)(&run), (self.faults)(&run));
        let (from, to) = (*self.expected.start(), *self.expected.end());
        Verdict { carrier: carrier.name(), case: self.name, figure, from, to, faults }
    }
}

/// Mbps that arrived between two times, a step of the series after the first and before the last.
fn mbps_between(flow: &FlowResult, (from_s, to_s): (f64, f64)) -> f64 {
    let series = &flow.series;
    let point = |s: f64| (s / series.dt_s).round() as usize;
    let points = series.throughput_mbps.get(point(from_s) + 1..point(to_s)).unwrap_or_default();
    points.iter().sum::<f64>() / points.len().max(1) as f64
}

/// The algorithm decided over the flow, and the flow delivered something.
fn governed(run: &Run<'_>, index: usize) -> Vec<String> {
    let flow = &run.result.flows[index];
    let mut faults = Vec::new();
    let told = flow.governed.iter().any(|span| span.by == run.carrier.governor());
    if run.carrier.tells_who_governs() && !told {
        faults.push(format!("flow {index} was never governed by its algorithm: {:?}", flow.governed));
    }
    if flow.reports.unwrap_or(0) == 0 || flow.updates.unwrap_or(0) == 0 {
        faults.push(format!("flow {index}: {:?} reports, {:?} answers", flow.reports, flow.updates));
    }
    if flow.series.throughput_mbps.iter().sum::<f64>() == 0.0 {
        faults.push(format!("flow {index}: nothing arrived"));
    }
    faults
}

/// These governors follow one another; what lies between, as on a host that is too busy, does not count.
fn in_turn(run: &Run<'_>, governors: &[&str]) -> Vec<String> {
    let spans = &run.result.flows[0].governed;
    let mut seen = spans.iter();
    let all = governors.iter().all(|by| seen.any(|span| span.by == *by));
    match run.carrier.tells_who_governs() && !all {
        true => vec![format!("governed by {spans:?} instead of {governors:?}")],
        false => governed(run, 0),
    }
}

/// What was asked for was in force at the end of some step of the series, and nothing above it while the algorithm governed.
fn in_force(run: &Run<'_>, what: &str, asked: f64) -> Vec<String> {
    let flow = &run.result.flows[0];
    let series: Vec<Option<f64>> = match what {
        "window" => flow.series.cwnd_bytes.iter().flatten().map(|cwnd| cwnd.map(f64::from)).collect(),
        _ => flow.series.pacing_mbps.iter().flatten().map(|mbps| mbps.map(|mbps| mbps * 1e6 / 8.0)).collect(),
    };
    // Governed at this step's end and the one before: a change of governors may fall between two readings.
    let steady = |step: usize| {
        let at = |step: usize| (step as f64 + 0.5) * flow.series.dt_s;
        let by =
            |s: f64| flow.governed.iter().find(|span| span.from_s <= s && s < span.to_s).map(|span| span.by);
        !run.carrier.tells_who_governs()
            || step > 0 && [at(step - 1), at(step)].iter().all(|&s| by(s) == Some(run.carrier.governor()))
    };
    let held: Vec<f64> =
        series.iter().enumerate().filter(|(step, _)| steady(*step)).filter_map(|(_, value)| *value).collect();
    let near = |value: &f64| (value - asked).abs() <= 1.0;
    let mut faults = Vec::new();
    if !held.iter().any(near) {
        faults.push(format!("a {what} of {asked} was never in force: {held:?}"));
    }
    if run.carrier.tells_who_governs() && held.iter().any(|&value| value > asked + 1.0) {
        faults.push(format!("more than a {what} of {asked} was in force: {held:?}"));
    }
    faults
}

/// Everything arrived, and nothing twice.
fn whole(index: usize, flow: &FlowResult) -> Option<String> {
    let bytes = flow.fct_s.zip(flow.goodput_mbps).map(|(seconds, mbps)| mbps * 1e6 / 8.0 * seconds);
    match bytes {
        Some(bytes) if (bytes - SIZE_BYTES).abs() < 1.0 => None,
        _ => Some(format!("flow {index}: {bytes:?} bytes arrived of {SIZE_BYTES}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_a_scenario_and_lasts_longer_than_its_agent_is_away() {
        for case in CASES {
            for quick in [false, true] {
                let scenario = case.scenario(quick).unwrap();
                let end = scenario.duration.as_secs_f64();
                assert!(case.away.is_none_or(|(from, to)| from < to && to + 1.0 < end), "{}", case.name);
            }
        }
    }
}
