//! How robust each algorithm is in each family, and what was found.

use super::find::Find;
use super::search::Tried;
use crate::table;
use serde::Serialize;

/// One algorithm in one family.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Robustness {
    pub kind: &'static str,
    pub family: &'static str,
    pub alg: String,
    /// A score below this misses the target.
    pub floor: f64,
    /// Random links.
    pub links: usize,
    /// Share of them on which the target is missed.
    pub below: f64,
    /// Least score of them.
    pub worst: f64,
    /// Tenth percentile of their scores.
    pub p10: f64,
    /// Their median.
    pub median: f64,
    /// Least score of the search from the worst of them; null without a search.
    pub searched_worst: Option<f64>,
    /// Links that the search tried.
    pub searched: usize,
}

impl Robustness {
    pub fn new(
        family: &'static str,
        alg: &str,
        floor: f64,
        random: &[Tried],
        searched: &[Tried],
    ) -> Robustness {
        let mut scores: Vec<f64> = random.iter().map(|tried| tried.score).collect();
        scores.sort_by(f64::total_cmp);
        let at = |share: f64| scores.get((share * (scores.len() as f64 - 1.0)).round() as usize);
        let below = scores.iter().filter(|score| **score < floor).count();
        Robustness {
            kind: "robustness",
            family,
            alg: alg.to_string(),
            floor,
            links: scores.len(),
            below: below as f64 / scores.len().max(1) as f64,
            worst: at(0.0).copied().unwrap_or(0.0),
            p10: at(0.1).copied().unwrap_or(0.0),
            median: at(0.5).copied().unwrap_or(0.0),
            searched_worst: searched.iter().map(|tried| tried.score).min_by(f64::total_cmp),
            searched: searched.len(),
        }
    }
}

/// The table of all.
pub fn render(rows: &[Robustness], finds: &[Find], folder: Option<&str>) -> String {
    let head =
        ["family", "algorithm", "links", "floor", "below %", "worst", "p10", "median", "searched", "worst"];
    let mut cells = vec![head.map(str::to_string).to_vec()];
    for row in rows {
        let number = |value: f64| format!("{value:.3}");
        cells.push(vec![
            row.family.to_string(),
            row.alg.clone(),
            row.links.to_string(),
            row.floor.to_string(),
            format!("{:.1}", 100.0 * row.below),
            number(row.worst),
            number(row.p10),
            number(row.median),
            row.searched.to_string(),
            row.searched_worst.map_or("–".to_string(), number),
        ]);
    }
    let mut text = table::aligned(&cells);
    for find in finds {
        let values: Vec<String> = find.values.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let file = folder.map_or_else(|| find.name.clone(), |folder| format!("{folder}/{}.toml", find.name));
        text +=
            &format!("\n{file}: score {:.3}, floor {}\n  {}\n", find.score, find.floor, values.join(", "));
        for figures in &find.figures {
            text += &format!("  {}\n", figures.line());
        }
    }
    text.trim_end().to_string()
}
