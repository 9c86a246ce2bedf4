//! Certificates: what a policy's network does in whole boxes of situations, not only where it was tried.
//!
//! A situation (in full: `property`) is a box of what a flow measures: delivery rate, smallest round-trip time, RTT over
//! it, rate in force over delivery rate, delivery rate over the largest one, loss, slope of the round-trip time. It lasts
//! for the whole history of the input, and for [`DECISIONS`] decisions of a recurrent network from a new flow's state
//! on. The features are computed by [`Features`] itself at the corners of the box; each of them is a product of powers
//! of these figures or rises or falls in each, so that its extremes lie there. The box of features is bisected, the
//! widest side as the network feels it first, until the network's bounds (`network`) prove the property in a piece,
//! until the network itself breaks it in the middle of the piece, or until the budget of pieces is used up.
//!
//! Yang et al., *Canopy: Property-Driven Learning for Congestion Control*, 2024, certify such properties with boxes. Here
//! affine forms (`form`) keep what features and layers owe to the same cause, which boxes lose.
//!
//! [`clamp`] does the same at run time for what no certificate covers.

mod form;
mod network;
mod property;
mod situation;
#[cfg(test)]
mod tests;

pub use property::{EMPTY, FULL_LOSS, QUEUED, SHORT_BUFFER, Situation, clamp};

use crate::features::Features;
use crate::file::PolicyFile;
use crate::schema::Action;
use form::Form;
use network::Bounds;
use situation::{Input, Parts};
use std::collections::BinaryHeap;
use std::fmt;

/// A recurrent network is examined in this many times fewer pieces: each of them takes so much longer.
const RECURRENT: usize = 20;
/// Decisions over which a situation lasts for a recurrent network.
pub const DECISIONS: usize = 5;
/// Noise on measured delays is up to this share of them; the smallest round-trip times are exact.
pub const NOISE: f64 = 0.05;
/// A step that noise may cause at most: this factor on a rate or window …
pub const NOISE_FACTOR: f64 = 2.0;
/// … or this share of a parameter's range.
pub const NOISE_SHARE: f64 = 0.5;

/// Why there is no certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CertificateError(pub String);

/// What is certified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// In a full short buffer with loss the rate does not rise.
    DoesNotRise,
    /// With an empty queue and no loss the rate does not fall below what is delivered.
    DoesNotFall,
    /// ±5 % of noise on measured delays moves the action by a bounded step.
    BearsNoise,
}

impl Property {
    /// All of them.
    pub const ALL: [Property; 3] = [Property::DoesNotRise, Property::DoesNotFall, Property::BearsNoise];

    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Property::DoesNotRise => "full short buffer and loss: the rate does not rise",
            Property::DoesNotFall => "empty queue, no loss: the rate does not fall below what is delivered",
            Property::BearsNoise => "5 % of noise on delays: a bounded step",
        }
    }
}

/// How a property holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Holds {
    /// In these shares of the box, by volume: proven, and broken in the middle of a piece; the rest is open.
    /// `step`: the largest step of the action in any piece, for noise alone.
    Shares {
        /// Proven.
        proven: f64,
        /// In pieces whose middle breaks it.
        broken: f64,
        /// Largest bound of a step, in units of the network's output.
        step: f64,
        /// Pieces examined.
        pieces: usize,
    },
    /// No matter of the network: its decisions set registers, and a fold program moves the window.
    Registers,
    /// No bound is computed for actions of this kind.
    Open,
}

impl fmt::Display for Holds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holds::Shares { proven, broken, step, pieces } => {
                write!(f, "proven in {:.1} % of the box", 100.0 * proven)?;
                write!(f, ", broken in {:.1} %, ", 100.0 * broken)?;
                write!(f, "open in {:.1} %", 100.0 * (1.0 - proven - broken).max(0.0))?;
                if *step > 0.0 {
                    write!(f, "; no step is larger than {step:.3} of an output")?;
                }
                write!(f, " ({pieces} pieces)")
            }
            Holds::Registers => {
                f.write_str("no matter of the network: it sets registers, a program moves the window")
            }
            Holds::Open => f.write_str("open: no bounds are computed for actions of this kind"),
        }
    }
}

/// A policy's certificate.
#[derive(Clone, Debug, PartialEq)]
pub struct Certificate {
    /// The schema's name.
    pub name: String,
    /// Each property with how it holds.
    pub holds: Vec<(Property, Holds)>,
}

/// Certifies a policy; each property examines at most `pieces` pieces, of a recurrent network a twentieth of them.
pub fn certify(file: &PolicyFile, pieces: usize) -> Result<Certificate, CertificateError> {
    let bounds = Bounds::new(file)?;
    let pieces = if file.schema.state() > 0 { pieces.div_ceil(RECURRENT) } else { pieces };
    let holds = Property::ALL.map(|property| (property, examine(file, &bounds, property, pieces)));
    Ok(Certificate { name: file.schema.name.clone(), holds: holds.into() })
}

fn examine(file: &PolicyFile, bounds: &Bounds<'_>, property: Property, pieces: usize) -> Holds {
    // Of an output; a parameter's range is from −1 to 1.
    let (base, range) = match file.schema.action {
        Action::RateExp { base, low, high }
        | Action::CwndExp { base, low, high }
        | Action::CubicCwndExp { base, low, high }
            if base > 1.0 && low <= 0.0 && high >= 0.0 =>
        {
            (Some(base), [low, high])
        }
        Action::Parameters { .. } => (None, [-1.0, 1.0]),
        _ => return Holds::Open,
    };
    if base.is_none() && property != Property::BearsNoise {
        return Holds::Registers;
    }
    let allowed = base.map_or((range[1] - range[0]) * NOISE_SHARE, |base| NOISE_FACTOR.log(base));
    let input = Input::of(&file.schema, property);
    let judge = Judge { bounds, property, input: &input, allowed, range, base: base.unwrap_or(1.0) };
    judge.bisect(pieces)
}

/// What a piece of the box turned out to be.
struct Verdict {
    proven: bool,
    broken: bool,
    step: f64,
    /// The side that matters most.
    side: usize,
}

struct Judge<'a> {
    bounds: &'a Bounds<'a>,
    property: Property,
    input: &'a Input,
    allowed: f64,
    /// What an output may be in force between.
    range: [f64; 2],
    base: f64,
}

/// A piece that is neither proven nor known to be broken; the larger comes first, then the earlier.
struct Piece(f64, usize, Parts, Verdict);

impl PartialEq for Piece {
    fn eq(&self, other: &Piece) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Piece {}

impl PartialOrd for Piece {
    fn partial_cmp(&self, other: &Piece) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Piece {
    fn cmp(&self, other: &Piece) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(other.1.cmp(&self.1))
    }
}

impl Judge<'_> {
    /// Bisects the box until the budget is used up.
    fn bisect(&self, budget: usize) -> Holds {
        let whole = self.input.whole();
        let first = self.judge(&whole);
        let mut open = BinaryHeap::from([Piece(1.0, 0, whole, first)]);
        let (mut proven, mut settled, mut pieces) = (0.0, Vec::new(), 1);
        let mut step: f64 = 0.0;
        while let Some(Piece(volume, _, parts, verdict)) = open.pop() {
            let halves = parts.halves(verdict.side).filter(|_| !verdict.proven && pieces + 2 <= budget);
            let Some(halves) = halves else {
                proven += if verdict.proven { volume } else { 0.0 };
                step = step.max(verdict.step);
                settled.push((volume, verdict.broken && !verdict.proven));
                continue;
            };
            for half in halves {
                let verdict = self.judge(&half);
                pieces += 1;
                open.push(Piece(volume / 2.0, pieces, half, verdict));
            }
        }
        let broken = settled.iter().filter(|(_, broken)| *broken).fold(0.0, |sum, (volume, _)| sum + volume);
        Holds::Shares { proven, broken, step, pieces }
    }

    /// Bounds of the network's outputs in a piece.
    fn judge(&self, parts: &Parts) -> Verdict {
        let noise = self.property == Property::BearsNoise;
        let at = |decision: usize| self.input.form(parts, decision, noise);
        let (own, apart) = (at(0).1, self.input.apart(noise));
        let answer = self.answer(|decision| at(decision).0);
        let need = self.need(parts);
        let outputs = 0..answer.len();
        let centre = self.input.centre(parts);
        let said = self.answer(|_| centre.clone());
        let ([mut proven, mut broken], mut step) = ([true, false], 0.0f64);
        let [least, most] = self.range;
        let in_force = |bounds: [f64; 2]| bounds.map(|bound| bound.clamp(least, most));
        for n in outputs {
            let [low, high] = answer.bounds(n);
            match self.property {
                Property::DoesNotRise => {
                    proven &= in_force([low, high])[1] <= 0.0;
                    broken |= in_force(said.bounds(n))[0] > 0.0;
                }
                Property::DoesNotFall => {
                    proven &= in_force([low, high])[0] >= need[0];
                    broken |= in_force(said.bounds(n))[1] < need[1];
                }
                Property::BearsNoise => {
                    // What the noise adds, and twice what neither the situation nor the noise explains.
                    let moved = answer.gains.iter().skip(own).zip(apart.iter().cycle());
                    let noisy: f64 = moved.map(|(gain, (.., apart))| apart * gain[n].abs()).sum();
                    let bound = (noisy + 2.0 * answer.rest[n]).min(high - low).min(most - least);
                    step = step.max(bound);
                    proven &= bound <= self.allowed;
                }
            }
        }
        let weigh = |g: usize, feature: usize| {
            let felt = answer.gains.get(g).map_or(0.0, |gain| gain.iter().map(|x| x.abs()).sum::<f64>());
            // What is demanded varies too.
            let demand =
                self.property == Property::DoesNotFall && self.input.sent_over_delivered == Some(feature);
            felt + if demand { (need[0] - need[1]).abs() } else { 0.0 }
        };
        Verdict { proven, broken, step, side: self.input.side(parts, weigh) }
    }

    /// The outputs after the situation has lasted, before the action's own bounds.
    fn answer(&self, input: impl Fn(usize) -> Form) -> Form {
        let mut state = self.bounds.new_flow();
        let last = if state.is_empty() { 1 } else { DECISIONS };
        let first = self.bounds.step(&input(0), &mut state);
        (1..last).fold(first, |_, decision| self.bounds.step(&input(decision), &mut state))
    }

    /// What the output has to be at least so that the rate stays above what is delivered: in the whole piece, and in its
    /// middle. A rate that is known to be above it may fall as far.
    fn need(&self, parts: &Parts) -> [f64; 2] {
        let fall = |sent: f64| -sent.max(1.0).log(self.base.max(1.0 + 1e-9));
        match self.input.sent_over_delivered {
            Some(feature) => {
                let [low, high] = parts.side(feature);
                [fall(low), fall((low + high) / 2.0)]
            }
            None => [0.0, fall(situation::LARGEST_SENT)],
        }
    }
}

/// What a feature is in a situation that has lasted: one set of features.
fn steady(features: &Features, sets: usize) -> &[f32] {
    let input = features.input();
    &input[input.len() - input.len() / sets..]
}
