//! Runs in the folder layout of the experimental study's public testbed (Mazilu et al.; its repository is `mininettestbed`), so
//! that the study's own plotting scripts read them.
//!
//! ```text
//! DIR/cctestbed/mininet/results_fairness_intra_rtt/fifo/Dumbell_100mbit_10ms_174pkts_0loss_2flows_22tcpbuf_cubic/run1/
//!     emulation_info.json     flows, and changes of the link
//!     csvs/x1.csv             receiver of the first flow: time,transferred,bandwidth
//!     csvs/c1.csv             its sender: time,transferred,bandwidth,retr,cwnd,srtt
//!     csvs/c1_ss.csv          the same window and round-trip time, where some scripts look for them
//!     sysstat/etcp_c1.log     retransmissions per second
//!     sysstat/dev_root.log    what the bottleneck sent
//! ```
//!
//! A row is a second, at whose end its time is; `transferred` and `bandwidth` are of payload, in MiB and 2^20 bit/s; `delay` in a
//! folder's name is one-way. A folder's number of packets is that of the testbed's formula, whose Mbit has 2^20 bits.

use super::outcome::Cell;
use crate::output;
use anole_sim::result::{FlowResult, RunResult};
use anole_sim::scenario::Scenario;
use anyhow::Result;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Bits of the testbed's Mbit.
const MBIT: f64 = 1_048_576.0;
/// Packets in its folders' names, bytes.
const PACKET: f64 = 1500.0;

/// Where the testbed keeps what an experiment of ours shows; none for what is no part of the study.
fn folder(experiment: &str, setting: &str) -> Option<&'static str> {
    Some(match experiment {
        "study-fig1" | "study-fig2" => "results_fairness_intra_rtt",
        "study-fig3" => "results_fairness_inter_rtt",
        "study-fig4" => "results_fairness_bw_async",
        "study-fig5" => "results_parking_lot",
        "study-fig6" => "results_friendly_intra_rtt_async",
        "study-fig7" if setting.starts_with("CUBIC first") => "results_friendly_intra_rtt_async",
        "study-fig7" => "results_friendly_intra_rtt_async_inverse",
        "study-fig8" => "results_friendly_intra_rtt_flows",
        "study-fig9" | "study-fig12" | "study-fig13" => "results_fairness_aqm",
        "study-fig10" | "study-fig11" if setting == "capacity and loss" => "results_responsiveness_loss",
        "study-fig10" | "study-fig11" => "results_responsiveness_bw_rtt",
        _ => return None,
    })
}

/// Names of algorithms there, where they differ.
fn protocol(alg: &str) -> &str {
    match alg {
        "vivace" => "vivace-uspace",
        other => other,
    }
}

/// Writes a run below `out`; false if its experiment is no part of the study.
pub fn write(
    out: &Path,
    experiment: &str,
    cell: &Cell,
    scenario: &Scenario,
    run: &RunResult,
) -> Result<bool> {
    let Some(folder) = folder(experiment, &cell.setting.name) else { return Ok(false) };
    let alg = cell.contender.choice.alg.as_deref().unwrap_or(&run.alg);
    let name = name(experiment, scenario, run, protocol(alg));
    let place: PathBuf =
        ["cctestbed", "mininet", folder, "fifo", &name, &format!("run{}", run.seed)].iter().collect();
    let place = out.join(place);
    let (csvs, sysstat) = (place.join("csvs"), place.join("sysstat"));
    let flows = in_order(experiment, run);
    for (number, flow) in (1..).zip(&flows) {
        let seconds = Seconds::of(flow, scenario.mss);
        output::write_whole(&csvs, &format!("x{number}.csv"), seconds.receiver())?;
        output::write_whole(&csvs, &format!("c{number}.csv"), seconds.sender())?;
        output::write_whole(&csvs, &format!("c{number}_ss.csv"), seconds.socket())?;
        output::write_whole(&sysstat, &format!("etcp_c{number}.log"), seconds.retransmissions())?;
    }
    output::write_whole(&sysstat, "dev_root.log", sent(run))?;
    output::write_whole(&place, "emulation_info.json", info(&flows, run).to_string())?;
    Ok(true)
}

/// The run's folder.
fn name(experiment: &str, scenario: &Scenario, run: &RunResult, protocol: &str) -> String {
    let lot = experiment == "study-fig5";
    let link = &scenario.links[0];
    let (mbps, delay_ms, buffer) = match experiment {
        // Both change; the testbed names the folder by these.
        "study-fig10" | "study-fig11" => (50.0, 50.0, 1.0),
        _ => {
            let first = usize::from(lot);
            let path: f64 = match lot {
                // Each has the same: that of all links in a row.
                true => scenario.links.iter().map(|link| link.one_way_delay.as_millis_f64()).sum(),
                false => link.one_way_delay.as_millis_f64(),
            };
            // Of unequal paths, the longer one; the buffer is in units of it, as the testbed's.
            let extra = scenario.flows.iter().skip(first).map(|flow| flow.extra_delay.as_millis_f64());
            let delay_ms = if lot { path } else { path + extra.fold(0.0, f64::max) };
            let mbps = link.capacity.mean_rate().mbps();
            let bdp = mbps * 1e6 * 2.0 * path / 1e3 / 8.0;
            (mbps, delay_ms, (100.0 * link.buffer_bytes as f64 / bdp).round() / 100.0)
        }
    };
    let bdp = (mbps * MBIT * 2.0 * delay_ms / 1e3 / 8.0).floor();
    let packets = (buffer * bdp / PACKET).floor();
    let topology = if lot { "ParkingLot" } else { "Dumbell" };
    let flows = run.flows.len();
    format!(
        "{topology}_{mbps:.0}mbit_{delay_ms:.0}ms_{packets:.0}pkts_0loss_{flows}flows_22tcpbuf_{protocol}"
    )
}

/// The flows as the testbed numbers them: by start, but for the parking lot, whose first flow crosses all links.
fn in_order<'a>(experiment: &str, run: &'a RunResult) -> Vec<&'a FlowResult> {
    let mut flows: Vec<&FlowResult> = run.flows.iter().collect();
    if experiment != "study-fig5" {
        flows.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
    }
    flows
}

/// What became of a flow in each second of its life.
struct Seconds(Vec<Second>);

struct Second {
    /// Its end.
    at: f64,
    /// Payload, 2^20 bit/s.
    bandwidth: f64,
    /// Payload so far, MiB.
    transferred: f64,
    retransmitted: u64,
    /// Packets.
    cwnd: Option<f64>,
    srtt_ms: Option<f64>,
}

impl Seconds {
    fn of(flow: &FlowResult, mss: u32) -> Seconds {
        let series = &flow.series;
        let points = ((1.0 / series.dt_s).round() as usize).max(1);
        // What arrived on the wire, less headers and what was sent twice.
        let payload = match (flow.goodput_mbps, flow.throughput_mbps) {
            (Some(goodput), Some(throughput)) if throughput > 0.0 => goodput / throughput,
            _ => 1.0,
        };
        let (mut seconds, mut transferred) = (Vec::new(), 0.0);
        for (number, mbps) in series.throughput_mbps.chunks(points).enumerate() {
            let at = (number + 1) as f64;
            if at <= flow.start_s || at - 1.0 >= flow.stop_s {
                continue;
            }
            let here = number * points..number * points + mbps.len();
            let mean = mbps.iter().sum::<f64>() / mbps.len() as f64;
            let bits = mean * 1e6 * payload;
            transferred += bits / 8.0 / MBIT;
            let rtts: Vec<f64> =
                series.rtt_ms.get(here.clone()).unwrap_or(&[]).iter().copied().flatten().collect();
            let window = series
                .cwnd_bytes
                .as_ref()
                .and_then(|all| all.get(here.clone())?.iter().flatten().last().copied());
            seconds.push(Second {
                at,
                bandwidth: bits / MBIT,
                transferred,
                retransmitted: series
                    .lost_packets
                    .as_ref()
                    .and_then(|all| Some(all.get(here)?.iter().sum()))
                    .unwrap_or(0),
                cwnd: window.map(|bytes| f64::from(bytes) / f64::from(mss)),
                srtt_ms: (!rtts.is_empty()).then(|| rtts.iter().sum::<f64>() / rtts.len() as f64),
            });
        }
        Seconds(seconds)
    }

    fn csv(&self, head: &str, row: impl Fn(&Second) -> String) -> String {
        self.0.iter().fold(format!("{head}\n"), |out, second| out + &row(second) + "\n")
    }

    fn receiver(&self) -> String {
        self.csv("time,transferred,bandwidth", |s| {
            format!("{:.1},{:.6},{:.6}", s.at, s.transferred, s.bandwidth)
        })
    }

    fn sender(&self) -> String {
        self.csv("time,transferred,bandwidth,retr,cwnd,srtt", |s| {
            let (cwnd, srtt) = (optional(s.cwnd), optional(s.srtt_ms));
            format!("{:.1},{:.6},{:.6},{},{cwnd},{srtt}", s.at, s.transferred, s.bandwidth, s.retransmitted)
        })
    }

    fn socket(&self) -> String {
        self.csv("time,cwnd,rtt,srtt", |s| {
            let (cwnd, srtt) = (optional(s.cwnd), optional(s.srtt_ms));
            format!("{:.1},{cwnd},{srtt},{srtt}", s.at)
        })
    }

    /// As `sadf -d … -n ETCP` tells it.
    fn retransmissions(&self) -> String {
        self.csv("# hostname;interval;timestamp;atmptf/s;estres/s;retrans/s;isegerr/s;orsts/s", |s| {
            format!("anole;1;{:.0};0.00;0.00;{:.2};0.00;0.00", s.at, s.retransmitted as f64)
        })
    }
}

fn optional(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| format!("{value:.3}"))
}

/// What the flows got together, as `sadf -d … -n DEV` tells it of the bottleneck's interface.
fn sent(run: &RunResult) -> String {
    let mut out = String::from(
        "# hostname;interval;timestamp;IFACE;rxpck/s;txpck/s;rxkB/s;txkB/s;rxcmp/s;txcmp/s;rxmcst/s;%ifutil\n",
    );
    let points = |flow: &FlowResult| ((1.0 / flow.series.dt_s).round() as usize).max(1);
    let of_second = |flow: &FlowResult, second: usize| {
        let points = points(flow);
        let all = flow.series.throughput_mbps.chunks(points).nth(second).unwrap_or(&[]);
        all.iter().sum::<f64>() / points as f64
    };
    let seconds = run
        .flows
        .iter()
        .map(|flow| flow.series.throughput_mbps.len().div_ceil(points(flow)))
        .max()
        .unwrap_or(0);
    for second in 0..seconds {
        let mbps: f64 = run.flows.iter().map(|flow| of_second(flow, second)).sum();
        let kilobytes = mbps * 1e6 / 8.0 / 1024.0;
        out += &format!("anole;1;{};s2-eth2;0.00;0.00;0.00;{kilobytes:.2};0.00;0.00;0.00;0.00\n", second + 1);
    }
    out
}

/// Flows: source, destination, their addresses, start, duration, protocol, parameters; a change of the link is one as well.
fn info(flows: &[&FlowResult], run: &RunResult) -> serde_json::Value {
    let flow = |(number, flow): (usize, &&FlowResult)| {
        let address = |host: usize| format!("10.0.0.{host}");
        let (start, length) = (flow.start_s.round(), (flow.stop_s - flow.start_s).round());
        let (from, to) = (address(2 * number - 1), address(2 * number));
        json!([
            format!("c{number}"),
            format!("x{number}"),
            from,
            to,
            start,
            length,
            protocol(&flow.alg),
            null
        ])
    };
    let mut all: Vec<serde_json::Value> = (1..).zip(flows).map(flow).collect();
    let series = run.links.first().and_then(|link| link.series.as_ref());
    let points = series.map_or(1, |series| ((1.0 / series.dt_s).round() as usize).max(1));
    let mut before = None;
    for (second, mbps) in
        series.map_or(&[][..], |series| &series.capacity_mbps).iter().step_by(points).enumerate()
    {
        if before.is_some_and(|before: f64| (before - mbps).abs() > 1e-6)
            || (second == 0 && run.scenario.starts_with("responsiveness"))
        {
            let link = ["s2", "s3"];
            let parameters = json!([link, mbps, null, null, false, "fifo", null, "change"]);
            all.push(json!([link[0], link[1], "10.0.1.1", "10.0.1.2", second, 10, "tbf", parameters]));
        }
        before = Some(*mbps);
    }
    json!({ "topology": run.scenario, "flows": all })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options;
    use anole_sim::result::Series;

    fn scenario(name: &str, set: &[&str]) -> Scenario {
        let set: Vec<String> = set.iter().map(|option| option.to_string()).collect();
        options::load(Path::new(name), &set).unwrap()
    }

    fn run(scenario: &Scenario) -> RunResult {
        let choice = anole_sim::plan::Choice { alg: Some("cubic".to_string()), ..Default::default() };
        let policies: std::sync::Arc<dyn anole_algorithms::learned::Policies> =
            std::sync::Arc::new(anole_policies::Shipped);
        let plans = anole_sim::plan::plan(scenario, &choice, &policies, 1).unwrap();
        anole_sim::run(scenario, plans, 1, anole_sim::AgentScript::default(), &mut |_| ())
    }

    #[test]
    fn folders_are_named_as_the_testbeds_scripts_look_for_them() {
        let equal = [
            "bottleneck.one_way_delay_ms=40",
            "bottleneck.buffer_bdp=0.2",
            "duration_s=2",
            "flow.2.start_s=1",
        ];
        let of = |experiment: &str, scenario: &Scenario| name(experiment, scenario, &run(scenario), "cubic");
        // int(0.2 · int(100 · 2^20 · 2 · 40 ms / 8) / 1500)
        assert_eq!(
            of("study-fig1", &scenario("two-rtts", &equal)),
            "Dumbell_100mbit_40ms_139pkts_0loss_2flows_22tcpbuf_cubic"
        );
        let lot = [
            "first.one_way_delay_ms=20",
            "second.one_way_delay_ms=20",
            "third.one_way_delay_ms=20",
            "duration_s=2",
        ];
        let lot = [&lot[..], &["first.buffer_bdp=3", "flow.1.start_s=1"]].concat();
        assert_eq!(
            of("study-fig5", &scenario("parking-lot", &lot)),
            "ParkingLot_100mbit_60ms_1048pkts_0loss_4flows_22tcpbuf_cubic"
        );
        let changing = scenario("responsiveness", &["duration_s=2"]);
        assert_eq!(of("study-fig10", &changing), "Dumbell_50mbit_50ms_436pkts_0loss_1flows_22tcpbuf_cubic");
    }

    /// The first rows of a receiver's and a sender's file, as the testbed's parsers write them.
    const RECEIVER: &str = "time,transferred,bandwidth\n1.0,";
    const SENDER: &str = "time,transferred,bandwidth,retr,cwnd,srtt\n1.0,";

    #[test]
    fn a_second_is_a_row() {
        let scenario = scenario("two-rtts", &["duration_s=4", "flow.2.start_s=2"]);
        let run = run(&scenario);
        let seconds = |flow: usize| Seconds::of(&run.flows[flow], scenario.mss);
        let first = seconds(0);
        assert!(
            first.receiver().starts_with(RECEIVER) && first.sender().starts_with(SENDER),
            "{}",
            first.sender()
        );
        let times: Vec<f64> = seconds(1).0.iter().map(|second| second.at).collect();
        assert_eq!(times, [3.0, 4.0]);
        // What was transferred is what the rates say, and what the run says.
        let goodput = run.flows[0].goodput_mbps.unwrap() * 4.0;
        let transferred = first.0.last().unwrap().transferred * MBIT * 8.0 / 1e6;
        assert!((transferred / goodput - 1.0).abs() < 0.01, "{transferred} {goodput}");
        assert_eq!(sent(&run).lines().count(), 5);
        let info = info(&in_order("study-fig1", &run), &run);
        assert_eq!(info["flows"][1], json!(["c2", "x2", "10.0.0.3", "10.0.0.4", 2.0, 2.0, "cubic", null]));
    }

    #[test]
    fn the_first_to_start_is_the_first_flow() {
        let mut one = run(&scenario("two-rtts", &["duration_s=2", "flow.2.start_s=1"]));
        one.flows[0].start_s = 1.5;
        one.flows[0].series = Series { dt_s: 0.1, ..Series::default() };
        assert_eq!(in_order("study-fig6", &one)[0].start_s, 1.0);
        assert_eq!(in_order("study-fig5", &one)[0].start_s, 1.5);
        assert_eq!(
            folder("study-fig7", "CUBIC second, 1 BDP"),
            Some("results_friendly_intra_rtt_async_inverse")
        );
        assert_eq!(folder("anole-fig5", "normal"), None);
    }
}
