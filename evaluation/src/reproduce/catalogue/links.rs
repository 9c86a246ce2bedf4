//! One flow on one link: Figures 5 to 8 of Anole.

use super::{DELAY, NORMAL, THROUGHPUT, figure_5_links};
use crate::reproduce::experiment::{
    Cell, Contender, Experiment, Figure, Packets, Results, Setting, TESTED, Target, cells, mean, with_peers,
};
use crate::reproduce::measure::{owd_p95, throughput, utilization};
use crate::reproduce::picture::{Panel, PanelKind};
use anole_sim::result::RunResult;

/// Throughput and delay of one setting with their targets; infinite ones are none.
fn pair(
    results: &Results,
    setting: &str,
    paper: [&'static str; 2],
    least_mbps: Option<f64>,
    most_ms: Option<f64>,
) -> [Figure; 2] {
    let figure = |what: &str, paper, values, unit, target: Option<Target>| {
        Figure::new(format!("{what}, {setting}"), paper, values, unit, target.unwrap_or(Target::None))
    };
    let mbps = results.each(setting, TESTED, throughput);
    let ms = results.each(setting, TESTED, owd_p95);
    [
        figure("throughput", paper[0], mbps, "Mbps", least_mbps.map(Target::AtLeast)),
        figure("p95 one-way delay", paper[1], ms, "ms", most_ms.map(Target::AtMost)),
    ]
}

/// A panel per setting, a dot per run.
fn scatter(results: &Results) -> Vec<Panel> {
    let panel = |setting: &str| {
        let start = Panel::new(setting, DELAY, THROUGHPUT, PanelKind::Points);
        results.contenders().into_iter().fold(start, |panel, who| {
            let delay = results.each(setting, who, owd_p95);
            panel.with(who, delay.into_iter().zip(results.each(setting, who, throughput)).collect())
        })
    };
    results.settings().into_iter().map(panel).collect()
}

/// Means over the settings: each a point.
fn means(results: &Results, who: &str, measure: fn(&RunResult) -> Option<f64>) -> Vec<f64> {
    let mean = |setting: &str| mean(&results.each(setting, who, measure));
    results.settings().into_iter().map(mean).collect()
}

pub const FIG5: Experiment = Experiment {
    id: "anole-fig5",
    title: "throughput and delay on normal, lossy and long links",
    about: "Anole, Fig. 5: 48 Mbps, 2 BDP; 25 ms one way, the same with 0.1 % loss, 50 ms one way. The paper's \
            figures in words are those of Sage (47 Mbps, 40 ms), Anole slightly below in both.",
    seeds: [10, 2],
    packets: Packets::Tested,
    cells: |tested| cells(&figure_5_links(), &with_peers(tested)),
    figures: |results| {
        let targets = [
            ("normal", ["about 47 Mbps", "about 40 ms"], 46.5, 38.0),
            ("loss", ["slightly lower", ""], 46.0, 38.0),
            ("long", ["", "low where Sage and CUBIC inflate"], 46.0, 72.0),
        ];
        let figures =
            targets.map(|(setting, paper, mbps, ms)| pair(results, setting, paper, Some(mbps), Some(ms)));
        figures.into_iter().flatten().collect()
    },
    plot: scatter,
};

const FIG6_FAR: &str = "far, 0.1 % loss";
const FIG6_THIN: &str = "far, 4 Mbps";
const FIG6_WIFI: &str = "Wi-Fi";

pub const FIG6: Experiment = Experiment {
    id: "anole-fig6",
    title: "emulations of the paper's real links",
    about: "Anole, Fig. 6, was measured between Shenzhen and Mumbai and over Wi-Fi. Here: 90 ms RTT with 48 Mbps and \
            0.1 % loss; 90 ms RTT with 4 Mbps; and for Wi-Fi 30 ms RTT with a capacity that varies around 48 Mbps and \
            data and ACKs in bursts of 2 to 8 ms. The paper's words: high throughput in spite of the loss; every \
            algorithm above 80 % on the thin link, Anole with low delay.",
    seeds: [10, 2],
    packets: Packets::Tested,
    cells: |tested| {
        let far =
            |name| Setting::new(name, NORMAL).set("bottleneck.one_way_delay_ms=45").quick("duration_s=8");
        let settings = [
            far(FIG6_FAR).set("bottleneck.random_loss=0.001"),
            far(FIG6_THIN).set("bottleneck.capacity_mbps=4"),
            Setting::new(FIG6_WIFI, NORMAL)
                .set("bottleneck.one_way_delay_ms=15")
                .set("bottleneck.lte={ mean_mbps = 48.0, deviation = 0.2, memory_s = 1.0, outage_every_s = 1e3 }")
                .set("bottleneck.aggregation_ms=[2, 8]")
                .set("bottleneck.ack_aggregation_ms=[2, 8]")
                .quick("duration_s=8"),
        ];
        cells(&settings, &with_peers(tested))
    },
    figures: |results| {
        let used = |setting| results.each(setting, TESTED, |run| Some(100.0 * utilization(run)?));
        let mut figures = Vec::new();
        figures.extend(pair(results, FIG6_FAR, ["relatively high", ""], None, None));
        let paper = "above 80 %";
        figures.push(Figure::new("utilisation, 4 Mbps", paper, used(FIG6_THIN), "%", Target::AtLeast(80.0)));
        figures.extend(pair(results, FIG6_THIN, ["high and stable", "low"], None, None));
        figures.push(Figure::new("utilisation, Wi-Fi", "", used(FIG6_WIFI), "%", Target::None));
        figures.extend(pair(results, FIG6_WIFI, ["stable", ""], None, None));
        figures
    },
    plot: scatter,
};

/// Loss in %, and the least throughput at it; at 0.1 % Figure 5 has the target.
const FIG7_LOSS: [(f64, Option<f64>); 5] =
    [(0.1, None), (0.5, Some(45.5)), (1.0, Some(45.3)), (2.0, Some(44.8)), (5.0, Some(43.5))];

pub const FIG7: Experiment = Experiment {
    id: "anole-fig7",
    title: "random loss from 0.1 to 5 %",
    about: "Anole, Fig. 7: 48 Mbps, here with 25 ms one way and 2 BDP. The paper has BBR above 90 % at 5 % and Anole \
            slightly below it, above all others from 0.5 % on.",
    seeds: [10, 2],
    packets: Packets::Tested,
    cells: |tested| {
        let setting = |(percent, _): (f64, Option<f64>)| {
            Setting::new(format!("{percent} % loss"), NORMAL)
                .set(format!("bottleneck.random_loss={}", percent / 100.0))
                .quick("duration_s=8")
        };
        cells(&FIG7_LOSS.map(setting), &with_peers(tested))
    },
    figures: |results| {
        let figures = FIG7_LOSS.map(|(percent, least)| {
            pair(results, &format!("{percent} % loss"), ["below BBR", ""], least, least.map(|_| 40.0))
        });
        figures.into_iter().flatten().collect()
    },
    plot: |results| {
        let panel = |title, y, measure| {
            let start = Panel::new(title, "random loss (%)", y, PanelKind::Lines(None));
            results.contenders().into_iter().fold(start, |panel, who| {
                let means = means(results, who, measure);
                panel.with(who, FIG7_LOSS.iter().map(|(percent, _)| *percent).zip(means).collect())
            })
        };
        vec![panel("Throughput", THROUGHPUT, throughput), panel("Delay", DELAY, owd_p95)]
    },
};

/// Buffers of Figure 8, BDP.
const FIG8_BDP: [f64; 9] = [0.04, 0.08, 0.16, 0.32, 0.5, 1.0, 1.5, 2.0, 2.5];

fn fig8_cells(tested: &Contender) -> Vec<Cell> {
    let setting = |bdp| {
        Setting::new(format!("{bdp} BDP"), NORMAL)
            .set(format!("bottleneck.buffer_bdp={bdp}"))
            .quick("duration_s=8")
    };
    cells(&FIG8_BDP.map(setting), &with_peers(tested))
}

pub const FIG8: Experiment = Experiment {
    id: "anole-fig8",
    title: "buffers from 0.04 to 2.5 BDP",
    about: "Anole, Fig. 8: 48 Mbps, here with 25 ms one way. At 2.5 BDP the paper has Anole at 38 ms, Sage at 60 ms. The \
            larger marker is the smallest buffer.",
    seeds: [10, 2],
    packets: Packets::Tested,
    cells: fig8_cells,
    figures: |results| {
        let figures = FIG8_BDP.map(|bdp| {
            let [mbps, ms] = match bdp {
                0.04 => [None, None],
                2.5 => [Some(43.0), Some(38.0)],
                _ => [Some(43.0), None],
            };
            let paper = if bdp == 2.5 { "38 ms" } else { "" };
            pair(results, &format!("{bdp} BDP"), ["", paper], mbps, ms)
        });
        figures.into_iter().flatten().collect()
    },
    plot: |results| {
        let start = Panel::new("0.04 to 2.5 BDP", DELAY, THROUGHPUT, PanelKind::Trail);
        let trail = |panel: Panel, who: &str| {
            let delay = means(results, who, owd_p95);
            panel.with(who, delay.into_iter().zip(means(results, who, throughput)).collect())
        };
        vec![results.contenders().into_iter().fold(start, trail)]
    },
};
