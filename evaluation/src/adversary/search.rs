//! Looking for links on which an algorithm does badly: at random, then from the worst of these by an evolution
//! strategy (CMA-ES; Hansen, *The CMA Evolution Strategy: A Tutorial*, 2016).

use super::bench::{Bench, Contestant, scenario};
use super::family::Family;
use anole_model::seed::derive_path;
use anyhow::{Result, anyhow};
use cmaes::{CMAESOptions, DVector};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The first steps go about this far, in genes: a fifth of each axis.
const STEP: f64 = 0.2;
/// Searches of a family for an algorithm, each from another start.
pub const STARTS: usize = 2;
/// Two links whose genes differ by less than this, on the mean (root of squares), are the same weakness.
const APART: f64 = 0.15;

/// A link that was tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    pub genes: Vec<f64>,
    pub seed: u64,
    pub score: f64,
}

impl Tried {
    fn distance(&self, other: &Tried) -> f64 {
        let squares: f64 = self.genes.iter().zip(&other.genes).map(|(a, b)| (a - b) * (a - b)).sum();
        (squares / self.genes.len() as f64).sqrt()
    }
}

/// Random genes of a family, and the seed of their run: a function of family, seed and number alone.
pub fn draw(family: &Family, seed: u64, number: u64) -> (Vec<f64>, u64) {
    let name =
        family.name.bytes().fold(0, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let mut rng = Pcg64Mcg::seed_from_u64(derive_path(&[seed, name, number]));
    let genes = family.axes.iter().map(|_| rng.random::<f64>()).collect();
    // Small enough to be read in a file and exact in JSON.
    (genes, rng.random::<u64>() >> 44)
}

/// Tries one random link with every algorithm; the references run once.
pub fn random(
    bench: &Bench,
    family: &Family,
    tested: &[Contestant],
    seed: u64,
    number: u64,
) -> Result<Vec<Tried>> {
    let (genes, seed) = draw(family, seed, number);
    let case = bench.run(scenario(family, &family.point(&genes), seed, &tested[0])?, seed, tested)?;
    let scores = tested.iter().map(|one| bench.score(family, &case, one));
    Ok(scores.map(|score| Tried { genes: genes.clone(), seed, score }).collect())
}

/// The worst links, no two of which are near each other.
pub fn worst(tried: &[Tried], count: usize) -> Vec<Tried> {
    let mut sorted: Vec<&Tried> = tried.iter().collect();
    sorted.sort_by(|a, b| a.score.total_cmp(&b.score));
    let mut kept: Vec<Tried> = Vec::new();
    for one in sorted {
        if kept.len() == count {
            break;
        }
        if kept.iter().all(|other| other.distance(one) >= APART) {
            kept.push(one.clone());
        }
    }
    kept
}

/// Searches on from a link, with the seed of its run; every link that was tried comes back.
pub fn evolve(
    bench: &Bench,
    family: &Family,
    tested: &Contestant,
    start: &Tried,
    budget: usize,
) -> Result<Vec<Tried>> {
    let mut tried = Vec::new();
    let mut failure = None;
    let objective = |x: &DVector<f64>| {
        let genes: Vec<f64> = x.iter().map(|gene| gene.clamp(0.0, 1.0)).collect();
        match bench.score_at(family, &family.point(&genes), start.seed, tested) {
            Ok(score) => {
                tried.push(Tried { genes, seed: start.seed, score });
                // Outside the bounds the nearest link inside counts; the further away the worse.
                score + x.iter().map(|gene| (gene - gene.clamp(0.0, 1.0)).powi(2)).sum::<f64>()
            }
            Err(error) => {
                failure.get_or_insert(error);
                f64::NAN
            }
        }
    };
    let mut search = CMAESOptions::new(start.genes.clone(), STEP)
        .max_function_evals(budget)
        .seed(start.seed)
        .build(objective)
        .map_err(|error| anyhow!("the search of family {}: {error:?}", family.name))?;
    if budget > 0 {
        search.run();
    }
    drop(search);
    failure.map_or(Ok(tried), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_are_apart() {
        let at = |gene: f64, score| Tried { genes: vec![gene, 0.0], seed: 1, score };
        let tried = [at(0.0, 0.3), at(0.01, 0.2), at(0.9, 0.5), at(0.5, 0.9)];
        assert_eq!(worst(&tried, 2), [at(0.01, 0.2), at(0.9, 0.5)]);
        assert_eq!(worst(&tried, 9).len(), 3);
    }

    #[test]
    fn a_draw_is_a_function_of_family_seed_and_number() {
        let [swings, jitter, ..] = super::super::families::ALL;
        assert_eq!(draw(swings, 1, 2), draw(swings, 1, 2));
        assert_ne!(draw(swings, 1, 2), draw(swings, 1, 3));
        assert_ne!(draw(swings, 1, 2), draw(swings, 2, 2));
        assert_ne!(draw(swings, 1, 2).1, draw(jitter, 1, 2).1);
    }
}
