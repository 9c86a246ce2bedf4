//! A find: a link on which an algorithm misses its target with several seeds, made as plain as it can be, as a
//! scenario file.

use super::bench::{Bench, CaseFigures, Contestant, parse};
use super::family::Family;
use super::search::Tried;
use anyhow::Result;
use serde::Serialize;

/// Seeds with which a link is tried again.
pub const SEEDS: u64 = 3;
/// Cases that making one find plain may take.
const PATIENCE: usize = 40;

/// A link on which an algorithm misses its target.
#[derive(Clone, Debug, Serialize)]
pub struct Find {
    pub kind: &'static str,
    pub family: &'static str,
    pub alg: String,
    /// Name of its file and of its scenario.
    pub name: String,
    pub floor: f64,
    /// Median over the seeds.
    pub score: f64,
    /// Score with each seed, from `seed` on.
    pub scores: Vec<f64>,
    pub seed: u64,
    /// The family's numbers, by name.
    pub values: Vec<(&'static str, f64)>,
    /// What everyone did with the first seed.
    pub figures: Vec<CaseFigures>,
    /// The scenario.
    #[serde(skip)]
    pub text: String,
}

/// The upper median.
pub fn median(mut scores: Vec<f64>) -> f64 {
    scores.sort_by(f64::total_cmp);
    scores[scores.len() / 2]
}

/// Tries a link again and makes a find of it, unless another seed meets the target.
pub fn confirm(
    bench: &Bench,
    family: &'static Family,
    tested: &Contestant,
    tried: &Tried,
    name: String,
    source: &str,
) -> Result<Option<Find>> {
    let scores = |point: &[f64]| -> Result<Vec<f64>> {
        (0..SEEDS).map(|next| bench.score_at(family, point, tried.seed + next, tested)).collect()
    };
    let found = family.point(&tried.genes);
    let found_scores = scores(&found)?;
    let found_score = median(found_scores.clone());
    if found_score >= family.floor {
        return Ok(None);
    }
    let enough = (family.floor + found_score) / 2.0;
    let persists = |point: &[f64]| Ok(bench.score_at(family, point, tried.seed, tested)? <= enough);
    let plain = shrink(family, &found, persists)?;
    let plain_scores = scores(&plain)?;
    // With another seed it may not persist; then the link stays as it was found.
    let (point, scores) = match median(plain_scores.clone()) <= enough {
        true => (plain, plain_scores),
        false => (found, found_scores),
    };
    write(bench, family, tested, &point, (tried.seed, scores), name, source).map(Some)
}

/// Makes values plainer while the find persists, one axis after the other, until no step is left.
fn shrink(
    family: &Family,
    point: &[f64],
    mut persists: impl FnMut(&[f64]) -> Result<bool>,
) -> Result<Vec<f64>> {
    let mut point = point.to_vec();
    let mut left = PATIENCE;
    loop {
        let before = point.clone();
        for (index, axis) in family.axes.iter().enumerate() {
            let value = point[index];
            let steps =
                [axis.plain, axis.towards_plain(value), axis.rounded(value, 1), axis.rounded(value, 2)];
            for step in steps {
                // Plainer than what is there: nearer to the plain value, or with fewer digits.
                if step == value || left == 0 {
                    continue;
                }
                let mut next = point.clone();
                next[index] = step;
                left -= 1;
                if persists(&next)? {
                    point = next;
                    break;
                }
            }
        }
        if point == before || left == 0 {
            return Ok(point);
        }
    }
}

fn write(
    bench: &Bench,
    family: &'static Family,
    tested: &Contestant,
    point: &[f64],
    (seed, scores): (u64, Vec<f64>),
    name: String,
    source: &str,
) -> Result<Find> {
    let text =
        |comment: String| (family.text)(point, &tested.head(name.clone(), comment, source.to_string(), seed));
    let case = bench.run(parse(&text(String::new()), &name)?, seed, std::slice::from_ref(tested))?;
    let figures = bench.figures(&case, tested);
    let score = median(scores.clone());
    let told: Vec<String> = figures.iter().map(CaseFigures::line).collect();
    let comment = format!(
        "{}: score {score:.3}, floor {}; seeds from {seed} on: {}\nscore: {}\n{}",
        tested.label,
        family.floor,
        scores.iter().map(|score| format!("{score:.3}")).collect::<Vec<_>>().join(", "),
        family.score,
        told.join("\n"),
    );
    let values = family.axes.iter().map(|axis| axis.name).zip(point.iter().copied()).collect();
    Ok(Find {
        kind: "find",
        family: family.name,
        alg: tested.label.clone(),
        floor: family.floor,
        score,
        scores,
        seed,
        values,
        figures,
        text: text(comment),
        name,
    })
}

#[cfg(test)]
mod tests {
    use super::super::families::ALL;
    use super::*;

    #[test]
    fn what_does_not_matter_becomes_plain_and_what_does_stays() {
        let swings = ALL[0];
        let point = [97.3, 4.21, 19.3, 7.64, 0.713, 0.487, 343.0];
        // The find persists while the capacities differ by a factor of ten.
        let plain = shrink(swings, &point, |point| Ok(point[0] / point[1] >= 10.0)).unwrap();
        assert!(plain[0] / plain[1] >= 10.0, "{plain:?}");
        assert_eq!(plain[2..], [20.0, 20.0, 1.0, 1.0, 100.0]);
        assert!(plain[0] <= 100.0 && plain[1] <= 10.0, "{plain:?}");
        // Nothing persists: the link stays as it is.
        assert_eq!(shrink(swings, &point, |_| Ok(false)).unwrap(), point);
    }
}
