//! The tables of a suite: every contestant over all links, then the first against each other.

use crate::table;
use anole_sim::suite::{Difference, LinkOutcome, figures};

/// Both tables, under a head.
pub fn render(head: &str, all: &[(String, Vec<LinkOutcome>)]) -> String {
    let text = |cells: &[&str]| -> Vec<String> { cells.iter().map(|cell| cell.to_string()).collect() };
    let mut rows =
        vec![text(&["algorithm", "power", "p10", "utilisation", "p10", "delay mean ms", "p95 ms", "loss %"])];
    let mut versus = vec![text(&["against", "power", "95 %", "wins %", "utilisation", "95 %"])];
    for (label, outcomes) in all {
        let f = figures(label, outcomes, &all[0].1);
        let cells = [
            (Some(f.power), 3),
            (Some(f.power_p10), 3),
            (Some(f.utilization), 3),
            (Some(f.utilization_p10), 3),
            (f.delay_mean_ms, 1),
            (f.delay_p95_ms, 1),
            (Some(100.0 * f.loss_rate), 2),
        ];
        rows.push(
            [label.clone()].into_iter().chain(cells.map(|(x, digits)| table::number(x, digits))).collect(),
        );
        if *label != all[0].0 {
            let (power, used) = (f.first_less_this_power, f.first_less_this_utilization);
            versus.push(vec![
                label.clone(),
                format!("{:+.3}", power.mean),
                interval(power),
                format!("{:.0}", 100.0 * power.wins),
                format!("{:+.3}", used.mean),
                interval(used),
            ]);
        }
    }
    let mut out = format!("{head}\n{}", table::aligned(&rows));
    if versus.len() > 1 {
        out += &format!("\n{} less each other, on the same links\n{}", all[0].0, table::aligned(&versus));
    }
    out + "\npower: utilisation / (mean RTT / RTT of a lone packet); delay: one way, beyond that of a lone \
           packet; p10: tenth percentile over links"
}

fn interval(difference: Difference) -> String {
    let bounds = difference.low.zip(difference.high);
    bounds.map_or("–".to_string(), |(low, high)| format!("{low:+.3} to {high:+.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(power: f64) -> LinkOutcome {
        LinkOutcome { utilization: power, delay_mean_ms: Some(1.0), delay_p95_ms: None, loss: 0.0, power }
    }

    #[test]
    fn the_table_compares_with_the_first() {
        let of = |links: usize| {
            let all = [
                ("a".to_string(), vec![outcome(0.8); links]),
                ("b+c".to_string(), vec![outcome(0.5); links]),
            ];
            render("two", &all)
        };
        let text = of(2);
        assert!(text.contains("a less each other"), "{text}");
        assert!(text.contains("+0.300  +0.300 to +0.300     100"), "{text}");
        // Of one link there is no interval, and where nothing arrived no delay.
        let text = of(1);
        assert!(text.contains("+0.300     –     100") && text.contains("1.0       –    0.00"), "{text}");
    }
}
