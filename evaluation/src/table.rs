//! Results for people: one row per algorithm and flow, means and standard deviations over the runs.

use anole_sim::result::{FlowResult, Governed, RunResult};

const COLUMNS: [&str; 9] = [
    "algorithm",
    "flow",
    "throughput Mbps",
    "owd mean ms",
    "owd p95 ms",
    "rtt mean ms",
    "rtt p95 ms",
    "loss %",
    "retransmitted %",
];

/// A result without what no table shows, which is most of it.
pub fn shown(mut result: RunResult) -> RunResult {
    for flow in &mut result.flows {
        (flow.series, flow.explained, flow.units) = Default::default();
    }
    result.links.iter_mut().for_each(|link| link.series = None);
    result
}

/// The table of all runs, one or more algorithms.
pub fn render(results: &[RunResult]) -> String {
    let mut rows = vec![COLUMNS.map(str::to_string).to_vec()];
    let mut notes = String::new();
    for group in results.chunk_by(|a, b| a.alg == b.alg) {
        let flows = group.first().map_or(0, |run| run.flows.len());
        for index in 0..flows {
            let of = |figure: fn(&FlowResult) -> Option<f64>| {
                group.iter().map(|run| figure(&run.flows[index])).collect::<Vec<_>>()
            };
            let figures = [
                of(|f| f.throughput_mbps),
                of(|f| f.owd_mean_ms),
                of(|f| f.owd_p95_ms),
                of(|f| f.rtt_mean_ms),
                of(|f| f.rtt_p95_ms),
                of(|f| f.loss_rate.map(|r| r * 100.0)),
                of(|f| f.retransmit_rate.map(|r| r * 100.0)),
            ];
            let mut row = vec![group[0].flows[index].alg.clone(), format!("{}", index + 1)];
            row.extend(figures.iter().map(|figure| spread(figure)));
            rows.push(row);
        }
        if flows > 1 {
            let jain = mean(group.iter().map(|run| run.jain_index));
            notes +=
                &format!("{}: Jain's index {} while all flows were active\n", group[0].alg, number(jain, 3));
        }
        for (index, link) in group[0].links.iter().enumerate() {
            let of = |figure: fn(&anole_sim::result::LinkResult) -> Option<f64>| {
                number(mean(group.iter().map(|run| figure(&run.links[index]))), 2)
            };
            notes += &format!(
                "{}: link {} used {} %, lost {} %, queue {} ms mean, {} ms p95\n",
                group[0].alg,
                link.name,
                of(|l| l.utilization.map(|u| u * 100.0)),
                of(|l| l.loss_rate.map(|r| r * 100.0)),
                of(|l| l.queue_delay_mean_ms),
                of(|l| l.queue_delay_p95_ms)
            );
        }
    }
    for run in results {
        let never = run.flows.iter().filter(|flow| !flow.ran()).count();
        if never > 0 {
            notes += &format!(
                "{}: seed {}, {never} of {} flows never ran: they would start after their stop\n",
                run.alg,
                run.seed,
                run.flows.len()
            );
        }
        for (index, flow) in run.flows.iter().enumerate() {
            notes += &governors(run, index, flow);
        }
    }
    let runs = results.chunk_by(|a, b| a.alg == b.alg).map(<[RunResult]>::len).max().unwrap_or(0);
    if runs > 1 {
        notes += &format!("means ± standard deviations of {runs} runs\n");
    }
    aligned(&rows) + "\n" + notes.trim_end()
}

/// Who governed a flow when, of one whose agent was away for a while: more than the fallback until it answers, and the
/// agent then.
fn governors(run: &RunResult, index: usize, flow: &FlowResult) -> String {
    if flow.governed.len() < 3 {
        return String::new();
    }
    let span = |span: &Governed| format!("{} {:.1} to {:.1} s", span.by, span.from_s, span.to_s);
    let spans: Vec<String> = flow.governed.iter().map(span).collect();
    format!("{}: seed {}, flow {} governed by {}\n", run.alg, run.seed, index + 1, spans.join(", "))
}

fn mean(figures: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let known: Vec<f64> = figures.flatten().collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

/// The mean of what is known, and beside it the standard deviation where there is one.
fn spread(figures: &[Option<f64>]) -> String {
    let known: Vec<f64> = figures.iter().flatten().copied().collect();
    let middle = mean(figures.iter().copied());
    match middle {
        Some(mean) if known.len() > 1 => {
            let squares: f64 = known.iter().map(|value| (value - mean).powi(2)).sum();
            format!("{mean:.2} ± {:.2}", (squares / (known.len() - 1) as f64).sqrt())
        }
        middle => number(middle, 2),
    }
}

/// A figure with so many digits, where there is one.
pub fn number(figure: Option<f64>, digits: usize) -> String {
    figure.map_or("–".to_string(), |figure| format!("{figure:.digits$}"))
}

/// Rows in columns: the first to the left, the others to the right.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows.first().map_or(0, Vec::len)).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
            match index {
                0 => text += &format!("{cell:<width$}"),
                _ => text += &format!("  {cell:>width$}"),
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{render, shown, spread};
    use anole_sim::plan::{Choice, plan, shipped};
    use anole_sim::scenario::Scenario;

    #[test]
    fn a_figure_of_several_runs_has_its_deviation() {
        assert_eq!(spread(&[Some(1.0), None, Some(3.0)]), "2.00 ± 1.41");
        assert_eq!((spread(&[Some(1.0)]).as_str(), spread(&[None]).as_str()), ("1.00", "–"));
    }

    #[test]
    fn what_no_table_shows_is_not_kept_for_it() {
        let text = anole_sim::scenario::shipped("anole-normal").unwrap();
        let set = ["duration_s=1".to_string()];
        let scenario = Scenario::parse(text, "x", &set, &mut |_| Err(String::new())).unwrap();
        let plans = plan(&scenario, &Choice::default(), &shipped(), 1).unwrap();
        let run = anole_sim::run(&scenario, plans, 1, anole_sim::AgentScript::default(), &mut |_| ());
        assert!(!run.flows[0].explained.is_empty());
        let kept = shown(run.clone());
        assert_eq!(render(&[run]), render(std::slice::from_ref(&kept)));
        assert!(kept.flows[0].explained.is_empty() && kept.flows[0].series.throughput_mbps.is_empty());
    }
}
