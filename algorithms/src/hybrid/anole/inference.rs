//! Where neither candidate will do: infer the optimal rate from how the three rates fared.
//!
//! The rates in ascending order are a ≤ b ≤ c, h is the one with the largest utility:
//!
//! ```text
//!   I    h = a, ΔD > 0                        all above the optimum
//!   II   h = a, ΔD ≤ 0   or  h = b, ΔD > 0    optimum between a and b
//!   III  h = b, ΔD ≤ 0   or  h = c, ΔD > 0    optimum between b and c
//!   IV   h = c, ΔD ≤ 0                        all below
//! ```
//! Above capacity ΔD = (x + R − C)/C (Anole eq. 4). Two such rates give
//!   1/C = (ΔD_c − ΔD_b)/(x_c − x_b),  R = C·(1 + ΔD) − x,
//! and with them the rate at which everybody has given way in proportion, eq. 7:
//!   x' = C − R·C/(R + x) = C·x/(R + x) = x/(1 + ΔD(x)).
//! The last form needs neither C nor R, only a gradient at x. It is what eq. 7 comes to in situation III
//! too, where the paper solves for R with a remembered C.
//!
//! Refused, and answered with the next weaker inference: gradients that are not significant, two
//! gradients whose difference is not, a C below what the path has delivered or above what was ever sent
//! into it, a negative R.

use super::super::interval::Z;
use super::path::Path;
use super::verdict::Verdict;
use anole_model::Rate;

/// Where the optimum lies relative to the three rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Situation {
    /// I: below all.
    BelowAll,
    /// II: between the lowest and the middle one.
    LowerGap,
    /// III: between the middle and the highest one.
    UpperGap,
    /// IV: above all.
    AboveAll,
}

/// A measured C may lie this much below the largest delivery rate, and R this much of C below zero: both
/// are differences of noisy figures.
const TOLERANCE: f64 = 0.1;
/// C may be this many times what the flow itself ever had delivered: ten flows share a path in the
/// paper's largest case.
const MAX_FLOWS: f64 = 20.0;
/// Rates closer than this share are not worth an inference: gradients cannot tell them apart.
const CLOSE: f64 = 0.02;

/// Which situation three (or fewer) rates in ascending order are in. `None` without any.
pub(super) fn situation(ascending: &[Verdict]) -> Option<(Situation, usize)> {
    let best = |(i, v): (usize, &Verdict)| (i, v.utility);
    let (h, _) = ascending.iter().enumerate().map(best).max_by(|a, b| a.1.total_cmp(&b.1))?;
    let rising = ascending[h].gradient > 0.0;
    let last = ascending.len() - 1;
    let situation = match (h, rising) {
        (0, true) => Situation::BelowAll,
        (h, false) if h == last => Situation::AboveAll,
        (0, false) => Situation::LowerGap,
        (h, true) if h == last => Situation::UpperGap,
        (_, true) => Situation::LowerGap,
        (_, false) => Situation::UpperGap,
    };
    Some((situation, h))
}

/// The optimal rate when the rates in `ascending` order fared as they did, and `current` is in force.
/// In situation IV there is nothing to infer: the answer is the highest rate, to climb from.
pub(super) fn infer(ascending: &[Verdict], current: Rate, path: &mut Path) -> Option<Rate> {
    let (situation, h) = situation(ascending)?;
    let last = ascending.len() - 1;
    let above = match situation {
        Situation::AboveAll => return Some(ascending[last].rate),
        Situation::BelowAll => 0,
        Situation::LowerGap => 1.min(last),
        Situation::UpperGap => last,
    };
    let below = above.saturating_sub(1);
    let (low, high) = (ascending[below].rate, ascending[above].rate);
    let near = high.bytes_per_s() - low.bytes_per_s() < CLOSE * high.bytes_per_s();
    if situation != Situation::BelowAll && near && !ascending[h].congested() {
        return Some(ascending[h].rate);
    }
    if let Some((capacity, others)) = solve(&ascending[above..], path) {
        path.infer_capacity(capacity);
        return Some(capacity * share(current, others));
    }
    // One equation: x/(1 + ΔD) at the lowest rate that met a growing queue.
    let rising = ascending[above..].iter().find(|v| v.significant && v.gradient > 0.0);
    Some(match rising {
        Some(v) => yielded(v),
        None if situation == Situation::BelowAll || above == below => low,
        // No rate above a remembered capacity makes sense, whatever the others send.
        None => ((low + high) * 0.5).min(remembered_capacity(path).unwrap_or(high)),
    })
}

/// The capacity inferred last, unless more has been delivered of late.
fn remembered_capacity(path: &Path) -> Option<Rate> {
    path.capacity().filter(|&capacity| capacity >= path.top() * (1.0 - TOLERANCE))
}

/// Eq. 7 at one rate whose gradient is known.
fn yielded(v: &Verdict) -> Rate {
    v.rate * (1.0 / (1.0 + v.gradient))
}

/// x/(R + x).
fn share(x: Rate, others: Rate) -> f64 {
    let all = (x + others).bytes_per_s();
    if all > 0.0 { x.bytes_per_s() / all } else { 1.0 }
}

/// C and R from the two rates furthest apart that met a growing queue.
fn solve(above: &[Verdict], path: &Path) -> Option<(Rate, Rate)> {
    let rising = || above.iter().filter(|v| v.significant && v.gradient > 0.0);
    let (low, high) = (rising().next()?, rising().next_back()?);
    let (dx, dd) = (high.rate.bytes_per_s() - low.rate.bytes_per_s(), high.gradient - low.gradient);
    let error = |v: &Verdict| v.measured.map_or(0.0, |(_, error)| error);
    if dx < CLOSE * high.rate.bytes_per_s() || dd <= Z * error(low).hypot(error(high)) {
        return None;
    }
    let capacity = dx / dd;
    let others = capacity * (1.0 + low.gradient) - low.rate.bytes_per_s();
    let top = path.top().bytes_per_s();
    let plausible = (top * (1.0 - TOLERANCE)..=top * MAX_FLOWS).contains(&capacity)
        && others >= -TOLERANCE * capacity
        && others <= capacity;
    plausible.then(|| (Rate::from_bytes_per_s(capacity), Rate::from_bytes_per_s(others)))
}

#[cfg(test)]
mod tests {
    use super::super::params::AnoleParams;
    use super::*;
    use anole_model::Dur;

    fn judged(mbps: f64, gradient: f64) -> Verdict {
        let significant = (gradient != 0.0).then_some(gradient);
        Verdict::new(Rate::from_mbps(mbps), significant, 1.0, 0.2, &AnoleParams::default())
    }

    fn path(top_mbps: f64) -> Path {
        let mut path = Path::new();
        path.saw_delivery((top_mbps * 1e6 / 8.0) as u64, Dur::from_secs_f64(1.0));
        path
    }

    fn infer_mbps(rates: &[(f64, f64)], current: f64, path: &mut Path) -> f64 {
        let verdicts: Vec<_> = rates.iter().map(|&(x, d)| judged(x, d)).collect();
        infer(&verdicts, Rate::from_mbps(current), path).unwrap().mbps()
    }

    #[test]
    fn the_six_cases_of_figure_4() {
        let at = |d: [f64; 3], u: [f64; 3]| {
            let make = |i: usize| Verdict { utility: u[i], ..judged(10.0 * (i + 1) as f64, d[i]) };
            situation(&[make(0), make(1), make(2)]).unwrap().0
        };
        assert_eq!(at([0.1, 0.2, 0.3], [3.0, 2.0, 1.0]), Situation::BelowAll);
        assert_eq!(at([0.0, 0.2, 0.3], [3.0, 2.0, 1.0]), Situation::LowerGap);
        assert_eq!(at([0.0, 0.2, 0.3], [2.0, 3.0, 1.0]), Situation::LowerGap);
        assert_eq!(at([0.0, 0.0, 0.3], [2.0, 3.0, 1.0]), Situation::UpperGap);
        assert_eq!(at([0.0, 0.0, 0.3], [1.0, 2.0, 3.0]), Situation::UpperGap);
        assert_eq!(at([0.0, 0.0, 0.0], [1.0, 2.0, 3.0]), Situation::AboveAll);
    }

    #[test]
    fn two_rates_above_a_free_link_give_its_capacity() {
        let mut path = path(48.0);
        let d = |x: f64| (x - 48.0) / 48.0;
        let x = infer_mbps(&[(50.0, d(50.0)), (55.0, d(55.0)), (60.0, d(60.0))], 55.0, &mut path);
        assert!((x - 48.0).abs() < 1e-9, "{x}");
        assert!((path.capacity().unwrap().mbps() - 48.0).abs() < 1e-9);
    }

    #[test]
    fn with_other_flows_everybody_gives_way_in_proportion() {
        let mut path = path(20.0);
        let d = |x: f64| (x + 30.0 - 48.0) / 48.0;
        let x = infer_mbps(&[(20.0, d(20.0)), (24.0, d(24.0))], 20.0, &mut path);
        assert!((x - 48.0 * 20.0 / 50.0).abs() < 1e-9, "{x}");
    }

    #[test]
    fn equation_7_needs_no_capacity() {
        let (c, r, x) = (48.0, 30.0, 24.0);
        let with_capacity = c - r * c / (r + x);
        assert!((yielded(&judged(x, (x + r - c) / c)).mbps() - with_capacity).abs() < 1e-9);
    }

    #[test]
    fn a_capacity_that_was_never_seen_is_refused() {
        // The two gradients claim 10 Mbps, but 48 were delivered: the lowest one alone is believed.
        let mut path = path(48.0);
        let x = infer_mbps(&[(50.0, 0.04), (55.0, 0.54)], 50.0, &mut path);
        assert!((x - 50.0 / 1.04).abs() < 1e-9 && path.capacity().is_none(), "{x}");
    }

    #[test]
    fn gradients_that_hardly_differ_give_no_capacity() {
        for (error, known) in [(0.001, true), (0.012, false)] {
            let mut path = path(48.0);
            let d = |x: f64| (x - 48.0) / 48.0;
            let at = |x| Verdict { measured: Some((d(x), error)), ..judged(x, d(x)) };
            infer(&[at(50.0), at(52.0)], Rate::from_mbps(50.0), &mut path);
            assert_eq!(path.capacity().is_some(), known, "{error}");
        }
    }

    #[test]
    fn without_a_usable_gradient_the_middle_is_taken_and_close_rates_are_not_split() {
        let queued = |mbps| Verdict { utility: -1.0, ..judged(mbps, 0.0) };
        let verdicts = [judged(30.0, 0.0), judged(40.0, 0.0), queued(50.0)];
        let x = infer(&verdicts, Rate::from_mbps(40.0), &mut path(40.0)).unwrap();
        assert_eq!(x.mbps(), 45.0);
        // A capacity that was inferred bounds it, until more has been delivered.
        for (top_mbps, inferred) in [(42.0, 42.0), (47.0, 45.0)] {
            let mut path = path(top_mbps);
            path.infer_capacity(Rate::from_mbps(42.0));
            let x = infer(&verdicts, Rate::from_mbps(40.0), &mut path).unwrap();
            assert_eq!(x.mbps(), inferred);
        }
        let close = [judged(30.0, 0.0), judged(49.9, 0.0), queued(50.0)];
        let x = infer(&close, Rate::from_mbps(40.0), &mut path(40.0)).unwrap();
        assert_eq!(x.mbps(), 49.9);
    }
}
