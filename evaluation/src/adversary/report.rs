//! How robust each algorithm is in each family, and what was found.

use super::family::Family;
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

/// A random link as it was tried, without the finds' other seeds and plainer values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Worst {
    pub kind: &'static str,
    pub alg: String,
    pub family: &'static str,
    pub floor: f64,
    pub score: f64,
    pub seed: u64,
    /// The family's numbers, by name.
    pub values: Vec<(&'static str, f64)>,
}

impl Worst {
    pub fn new(family: &Family, alg: &str, tried: &Tried) -> Worst {
        let names = family.axes.iter().map(|axis| axis.name);
        Worst {
            kind: "worst",
            alg: alg.to_string(),
            family: family.name,
            floor: family.floor,
            score: tried.score,
            seed: tried.seed,
            values: names.zip(family.point(&tried.genes)).collect(),
        }
    }

    /// Families have floors of their own: what is compared is the share of them.
    fn share(&self) -> f64 {
        self.score / self.floor
    }
}

/// Those with the least shares of their floors, the least first.
pub fn least(mut links: Vec<Worst>, count: usize) -> Vec<Worst> {
    links.sort_by(|a, b| a.share().total_cmp(&b.share()));
    links.truncate(count);
    links
}

/// The table of all.
pub fn render(rows: &[Robustness], worst: &[Worst], finds: &[Find], folder: Option<&str>) -> String {
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
    for link in worst {
        let values: Vec<String> =
            link.values.iter().map(|(name, value)| format!("{name} {value:.3}")).collect();
        let share = 100.0 * link.share();
        text += &format!("\n{}, {}: {share:.1} % of the floor; {}", link.alg, link.family, values.join(", "));
    }
    if !worst.is_empty() {
        text += "\n";
    }
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

#[cfg(test)]
mod tests {
    use super::super::families::ALL;
    use super::*;

    #[test]
    fn the_worst_are_those_with_the_least_share_of_their_floor() {
        let link = |family: &Family, score| {
            let genes = vec![0.5; family.axes.len()];
            Worst::new(family, "reno", &Tried { genes, seed: 1, score })
        };
        let floors = [0.9, 1.0];
        let families = floors.map(|floor| ALL.into_iter().find(|family| family.floor == floor).unwrap());
        // 0.75 of 0.9 is more than 0.8 of 1.
        let links = vec![link(families[0], 0.75), link(families[1], 0.8), link(families[1], 0.3)];
        let shares: Vec<f64> = least(links, 2).iter().map(|link| link.score).collect();
        assert_eq!(shares, [0.3, 0.8]);
    }
}
