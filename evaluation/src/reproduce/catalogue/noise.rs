//! ACKs that come in bursts, and links of extreme sizes.

use super::{NORMAL, THROUGHPUT, TIME, over_time};
use crate::reproduce::experiment::{Experiment, Figure, Packets, Setting, TESTED, Target, cells, mean};
use crate::reproduce::measure::{longest_silence, owd_p95, throughput, utilization};
use crate::reproduce::picture::{Panel, PanelKind};
use anole_sim::result::RunResult;

const CLEAN: &str = "clean";
/// What is aggregated in bursts of 2 to 8 ms.
const BURSTS: [(&str, &[&str]); 3] = [
    ("ACKs", &["bottleneck.ack_aggregation_ms=[2, 8]"]),
    ("data", &["bottleneck.aggregation_ms=[2, 8]"]),
    ("both", &["bottleneck.ack_aggregation_ms=[2, 8]", "bottleneck.aggregation_ms=[2, 8]"]),
];

pub const JITTER: Experiment = Experiment {
    id: "anole-jitter",
    title: "ACKs and data in bursts of 2 to 8 ms",
    about: "The link of Fig. 5a with aggregation as on Wi-Fi. An inference from gradients that are noise would lower the \
            rate; the throughput has to stay within 7 % of that on the clean link.",
    seeds: [10, 2],
    packets: Packets::Tested,
    cells: |tested| {
        let clean = Setting::new(CLEAN, NORMAL).quick("duration_s=8");
        let bursts = BURSTS.map(|(name, options)| {
            let start = Setting::new(name, NORMAL).quick("duration_s=8");
            options.iter().fold(start, |setting, option| setting.set(*option))
        });
        let settings = [&[clean][..], &bursts].concat();
        cells(&settings, &[tested.clone(), peer("cubic"), peer("bbr"), peer("libra-rl")])
    },
    figures: |results| {
        let clean = mean(&results.each(CLEAN, TESTED, throughput));
        let mut figures = Vec::new();
        for (setting, _) in BURSTS {
            let share = results.each(setting, TESTED, |run| Some(100.0 * throughput(run)? / clean));
            let delay = results.each(setting, TESTED, owd_p95);
            let what = format!("throughput of the clean link's, {setting} in bursts");
            figures.push(Figure::new(what, "", share, "%", Target::AtLeast(93.0)));
            figures.push(Figure::new(
                format!("p95 one-way delay, {setting} in bursts"),
                "",
                delay,
                "ms",
                Target::None,
            ));
        }
        figures
    },
    plot: |results| {
        let categories: Vec<String> = results.settings().iter().map(|setting| setting.to_string()).collect();
        let start = Panel::new("Throughput", "", THROUGHPUT, PanelKind::Bars(categories.clone()));
        let bars = |panel: Panel, who: &str| {
            let bar =
                |(x, setting): (u32, &String)| (f64::from(x), mean(&results.each(setting, who, throughput)));
            panel.with(who, (0u32..).zip(&categories).map(bar).collect())
        };
        vec![results.contenders().into_iter().fold(start, bars)]
    },
};

fn peer(name: &str) -> crate::reproduce::experiment::Contender {
    crate::reproduce::experiment::Contender::peer(name)
}

/// An extreme link: capacity in Mbps, one-way delay in ms, buffer, length and warm-up of a run in s, and
/// length and warm-up with `--quick`.
struct Extreme {
    name: &'static str,
    mbps: f64,
    one_way_ms: f64,
    buffer: &'static str,
    span_s: [f64; 2],
    quick_s: [f64; 2],
}

/// Buffers of two BDP, where that is at least twenty packets. Starting up is left out: 20 round trips.
const EXTREME_LINKS: [Extreme; 5] = [
    Extreme {
        name: "256 kbps, 50 ms RTT",
        mbps: 0.256,
        one_way_ms: 25.0,
        buffer: "buffer_packets=20",
        span_s: [60.0, 2.0],
        quick_s: [15.0, 2.0],
    },
    Extreme {
        name: "256 kbps, 600 ms RTT",
        mbps: 0.256,
        one_way_ms: 300.0,
        buffer: "buffer_packets=26",
        span_s: [120.0, 12.0],
        quick_s: [20.0, 12.0],
    },
    Extreme {
        name: "48 Mbps, 1 ms RTT",
        mbps: 48.0,
        one_way_ms: 0.5,
        buffer: "buffer_packets=20",
        span_s: [30.0, 1.0],
        quick_s: [5.0, 1.0],
    },
    Extreme {
        name: "48 Mbps, 600 ms RTT",
        mbps: 48.0,
        one_way_ms: 300.0,
        buffer: "buffer_bdp=2",
        span_s: [120.0, 12.0],
        quick_s: [20.0, 12.0],
    },
    Extreme {
        name: "10 Gbps, 20 ms RTT",
        mbps: 10_000.0,
        one_way_ms: 10.0,
        buffer: "buffer_bdp=2",
        span_s: [5.0, 0.5],
        quick_s: [1.0, 0.5],
    },
];
/// A round trip of the longest of these links.
const SILENCE_S: f64 = 0.6;

pub const EXTREMES: Experiment = Experiment {
    id: "anole-extremes",
    title: "256 kbps to 10 Gbps, 1 to 600 ms",
    about: "After 20 round trips of starting up: at least 85 % of the link used, and nothing arriving for 0.6 s at most. \
            The plot shows the first seed.",
    seeds: [10, 1],
    packets: Packets::Never("10 Gbps are more than links in user space carry"),
    cells: |tested| {
        let setting = |link: &Extreme| {
            Setting::new(link.name, NORMAL)
                .set(format!("bottleneck.capacity_mbps={}", link.mbps))
                .set(format!("bottleneck.one_way_delay_ms={}", link.one_way_ms))
                .set(format!("bottleneck.{}", link.buffer))
                .set(format!("duration_s={}", link.span_s[0]))
                .set(format!("warmup_s={}", link.span_s[1]))
                .quick(format!("duration_s={}", link.quick_s[0]))
                .quick(format!("warmup_s={}", link.quick_s[1]))
        };
        let settings: Vec<Setting> = EXTREME_LINKS.iter().map(setting).collect();
        cells(&settings, std::slice::from_ref(tested))
    },
    figures: |results| {
        let figures = EXTREME_LINKS.iter().map(|link| {
            let used = |run: &RunResult| Some(100.0 * utilization(run)?);
            let silence = |run: &RunResult| longest_silence(run, link.span_s[1]);
            let (used, silence) =
                (results.each(link.name, TESTED, used), results.each(link.name, TESTED, silence));
            [
                Figure::new(format!("utilisation, {}", link.name), "", used, "%", Target::AtLeast(85.0)),
                Figure::new(
                    format!("longest silence, {}", link.name),
                    "",
                    silence,
                    "s",
                    Target::AtMost(SILENCE_S),
                ),
            ]
        });
        figures.flatten().collect()
    },
    plot: |results| {
        let panel = |link: &Extreme| {
            let start = Panel::new(
                link.name,
                TIME,
                THROUGHPUT,
                PanelKind::Lines(Some((link.mbps, "capacity".into()))),
            );
            let run = results.runs(link.name, TESTED).first();
            start.with(TESTED, run.map_or(Vec::new(), |run| over_time(run, 0)))
        };
        EXTREME_LINKS.iter().map(panel).collect()
    },
};
