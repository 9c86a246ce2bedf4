//! The demo's pictures and its page.

use anole_model::Rate;
use anole_plot::{self as plot, Curve, Frame};
use anole_sim::result::{FlowResult, RunResult};
use anole_sim::scenario::Scenario;

const TEMPLATE: &str = include_str!("page.html");

/// What a newcomer may type next.
const NEXT: &str = "\
# The same link in virtual time, with one more algorithm
./anole-eval sim evaluation/scenarios/anole-normal.toml --alg anole,cubic,bbr,reno

# A link that loses one packet in a thousand
./anole-eval sim evaluation/scenarios/anole-loss.toml --alg anole,cubic

# A bad policy in Anole's learned slot
./anole-eval sim evaluation/scenarios/anole-normal.toml --policy fault:random

# Real packets again, 50 ms each way, with the agent killed at 8 s and back at 12 s
./anole-eval emulate evaluation/scenarios/anole-long.toml --datapath quic --agent-outage 8:12

# Every algorithm with its parameters and sources
./anole-ccp algs";

/// The plots, as SVG.
pub struct Pictures {
    plane: String,
    throughput: String,
    rtt: String,
    sharing: String,
}

impl Pictures {
    /// Draws them.
    pub fn draw(singles: &[RunResult], sharing: &RunResult) -> Pictures {
        let capacity = singles.iter().find_map(|run| run.optimal_mbps);
        let reference = capacity.map(|mbps| (mbps, "capacity"));
        let time = "time (s)";
        let each = |of: fn(&FlowResult) -> Vec<(f64, f64)>| -> Vec<Curve> {
            let series = |run: &RunResult| Curve { label: run.alg.clone(), points: of(&run.flows[0]) };
            singles.iter().filter(|run| !run.flows.is_empty()).map(series).collect()
        };
        let flows: Vec<Curve> = (1..)
            .zip(&sharing.flows)
            .map(|(number, flow)| Curve { label: format!("flow {number}"), points: throughput(flow) })
            .collect();
        Pictures {
            plane: plot::points(
                &Frame {
                    title: "Throughput and delay",
                    x: "95th percentile of the one-way delay (ms)",
                    y: "throughput (Mbps)",
                    size: (plot::WIDTH, 360),
                },
                &each(|flow| flow.owd_p95_ms.zip(flow.throughput_mbps).into_iter().collect()),
            )
            .svg(),
            throughput: plot::lines(
                &Frame { title: "Throughput", x: time, y: "throughput (Mbps)", size: (plot::WIDTH, 320) },
                &each(throughput),
                reference,
            )
            .svg(),
            rtt: plot::lines(
                &Frame {
                    title: "Round-trip time",
                    x: time,
                    y: "round-trip time (ms)",
                    size: (plot::WIDTH, 320),
                },
                &each(|flow| {
                    let points = (1..).zip(&flow.series.rtt_ms);
                    points.map(|(i, ms)| (f64::from(i) * flow.series.dt_s, ms.unwrap_or(f64::NAN))).collect()
                }),
                None,
            )
            .svg(),
            sharing: plot::lines(
                &Frame {
                    title: "Flows that share the link",
                    x: time,
                    y: "throughput (Mbps)",
                    size: (plot::WIDTH, 320),
                },
                &flows,
                reference,
            )
            .svg(),
        }
    }

    /// File names and contents.
    pub fn files(&self) -> [(&'static str, &str); 4] {
        [
            ("throughput-delay.svg", &self.plane),
            ("throughput.svg", &self.throughput),
            ("rtt.svg", &self.rtt),
            ("sharing.svg", &self.sharing),
        ]
    }
}

/// Points of half a second: what a tenth of a second delivers is too jagged to read.
fn throughput(flow: &FlowResult) -> Vec<(f64, f64)> {
    const TOGETHER: usize = 5;
    let series = &flow.series;
    let width = series.dt_s * TOGETHER as f64;
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let parts = (1..).zip(series.throughput_mbps.chunks_exact(TOGETHER));
    parts
        .map(|(i, part)| (f64::from(i) * width, mean(part)))
        .filter(|(at, _)| *at > flow.start_s && *at <= flow.stop_s + width)
        .collect()
}

/// The page.
pub fn render(
    scenario: &Scenario,
    singles: &[RunResult],
    sharing: &RunResult,
    pictures: &Pictures,
) -> String {
    let link = &scenario.links[0];
    let one_way_ms = link.one_way_delay.as_millis_f64();
    let capacity = Rate::from_mbps(singles.iter().find_map(|run| run.optimal_mbps).unwrap_or(0.0));
    let full_queue_ms = link.buffer_bytes as f64 / capacity.bytes_per_s() * 1e3;
    let parts = [
        ("link", format!("{:.0} Mbps, {one_way_ms:.0} ms one way", capacity.mbps())),
        ("table", table(singles, sharing)),
        ("base_delay", format!("{one_way_ms:.0}")),
        ("base_rtt", format!("{:.0}", 2.0 * one_way_ms)),
        ("full_rtt", format!("{:.0}", 2.0 * one_way_ms + full_queue_ms)),
        ("plane", pictures.plane.clone()),
        ("throughput", pictures.throughput.clone()),
        ("rtt", pictures.rtt.clone()),
        ("sharing", pictures.sharing.clone()),
        ("jain", number(sharing.jain_index, 3)),
        ("next", escape(NEXT)),
        ("seed", singles.first().map_or(0, |run| run.seed).to_string()),
        ("version", singles.first().map_or("", |run| run.version).to_string()),
    ];
    parts
        .iter()
        .fold(TEMPLATE.to_string(), |page, (name, text)| page.replace(&format!("{{{{{name}}}}}"), text))
}

fn table(singles: &[RunResult], sharing: &RunResult) -> String {
    let head = "<table><tr><th>algorithm</th><th>throughput<br>Mbps</th><th>one-way delay<br>mean ms</th>\
                <th>one-way delay<br>95th percentile ms</th><th>loss<br>%</th></tr>";
    let row = |name: String, flow: &FlowResult| {
        format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&name),
            number(flow.throughput_mbps, 2),
            number(flow.owd_mean_ms, 1),
            number(flow.owd_p95_ms, 1),
            number(flow.loss_rate.map(|share| share * 100.0), 2)
        )
    };
    let alone = singles.iter().flat_map(|run| run.flows.iter().map(|flow| row(run.alg.clone(), flow)));
    let shared = (1..)
        .zip(&sharing.flows)
        .map(|(i, flow)| row(format!("{}, flow {i} of {}", sharing.alg, sharing.flows.len()), flow));
    format!("{head}{}</table>", alone.chain(shared).collect::<String>())
}

fn number(figure: Option<f64>, digits: usize) -> String {
    figure.map_or("–".to_string(), |figure| format!("{figure:.digits$}"))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
