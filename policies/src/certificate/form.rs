//! Affine forms: a vector whose values are centre + Σ gains·ε ± rest, every ε anywhere in [−1, 1].
//!
//! Without gains a form is a box. What two values owe to the same ε cancels where they meet again, which a box forgets.
//! Every operation encloses what the network computes in float32: the rest takes up its rounding.

use crate::schema::Activation;

/// Rounding of one operation of float32, relative (2^−24), with a hundredth more for what is computed here in float64.
const ROUNDING: f64 = 1.01 / 16_777_216.0;
/// Absolute error of exp, tanh and the logistic function in `embedded` (3e-7, tested there), with a margin.
const FUNCTION_ERROR: f64 = 4e-7;

/// A vector.
#[derive(Clone, Debug)]
pub struct Form {
    /// Middle of each value.
    pub centre: Vec<f64>,
    /// For each ε, what it adds to each value.
    pub gains: Vec<Vec<f64>>,
    /// What else each value may deviate by.
    pub rest: Vec<f64>,
}

impl Form {
    /// Values that are known.
    pub fn exact(centre: Vec<f64>) -> Form {
        let rest = vec![0.0; centre.len()];
        Form { centre, gains: Vec::new(), rest }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.centre.len()
    }

    /// Farthest from its middle that each value may be.
    pub fn radius(&self, n: usize) -> f64 {
        self.rest[n] + self.gains.iter().map(|gain| gain[n].abs()).sum::<f64>()
    }

    /// Smallest and largest value.
    pub fn bounds(&self, n: usize) -> [f64; 2] {
        let radius = self.radius(n);
        [self.centre[n] - radius, self.centre[n] + radius]
    }

    /// The values from `from` to `to`.
    pub fn slice(&self, from: usize, to: usize) -> Form {
        Form {
            centre: self.centre[from..to].to_vec(),
            gains: self.gains.iter().map(|gain| gain[from..to].to_vec()).collect(),
            rest: self.rest[from..to].to_vec(),
        }
    }

    /// These values, then the others; both count their ε alike.
    pub fn chain(&self, other: &Form) -> Form {
        let gains = 0..self.gains.len().max(other.gains.len());
        let of = |form: &Form, n: usize| form.gains.get(n).cloned().unwrap_or_else(|| vec![0.0; form.len()]);
        Form {
            centre: [&self.centre[..], &other.centre].concat(),
            gains: gains.map(|n| [of(self, n), of(other, n)].concat()).collect(),
            rest: [&self.rest[..], &other.rest].concat(),
        }
    }

    /// W·x + b; `weights` has a row for each output.
    pub fn linear(&self, weights: &[f32], bias: &[f32]) -> Form {
        let rounding = self.rounding(weights, bias);
        let rows = || weights.chunks_exact(self.len());
        let times = |x: &[f64]| -> Vec<f64> { rows().map(|row| dot(row, x, |w| w)).collect() };
        let mut centre = times(&self.centre);
        centre.iter_mut().zip(bias).for_each(|(c, &b)| *c += f64::from(b));
        let spread = rows().map(|row| dot(row, &self.rest, f32::abs));
        let rest = spread.zip(rounding).map(|(spread, rounding)| spread + rounding).collect();
        Form { centre, gains: self.gains.iter().map(|gain| times(gain)).collect(), rest }
    }

    /// By how much float32 may round each value of W·x + b.
    pub fn rounding(&self, weights: &[f32], bias: &[f32]) -> Vec<f64> {
        let largest: Vec<f64> = (0..self.len()).map(|n| self.centre[n].abs() + self.radius(n)).collect();
        let operations = ROUNDING * (self.len() + 1) as f64;
        let rows = weights.chunks_exact(self.len()).zip(bias);
        rows.map(|(row, &b)| operations * (dot(row, &largest, f32::abs) + f64::from(b.abs()))).collect()
    }

    /// x + y.
    pub fn plus(&self, other: &Form) -> Form {
        self.combine(other, |_| [1.0, 1.0], |n| self.centre[n] + other.centre[n], |_| 0.0)
    }

    /// x·y: the product of the deviations goes into the rest.
    pub fn times(&self, other: &Form) -> Form {
        let scales = |n: usize| [other.centre[n], self.centre[n]];
        self.combine(
            other,
            scales,
            |n| self.centre[n] * other.centre[n],
            |n| self.radius(n) * other.radius(n),
        )
    }

    /// 1 − x.
    pub fn complement(&self) -> Form {
        let negative = |values: &Vec<f64>| values.iter().map(|x| -x).collect();
        Form {
            centre: self.centre.iter().map(|x| 1.0 - x).collect(),
            gains: self.gains.iter().map(negative).collect(),
            rest: self.rest.iter().map(|rest| rest + ROUNDING).collect(),
        }
    }

    /// Either these values or the others: a box.
    pub fn or(&self, other: &Form) -> Form {
        let hull = (0..self.len()).map(|n| {
            let ([a, b], [c, d]) = (self.bounds(n), other.bounds(n));
            let (low, high) = (a.min(c), b.max(d));
            ((low + high) / 2.0, (high - low) / 2.0)
        });
        let (centre, rest) = hull.unzip();
        Form { centre, gains: Vec::new(), rest }
    }

    fn combine(
        &self,
        other: &Form,
        scales: impl Fn(usize) -> [f64; 2],
        centre: impl Fn(usize) -> f64,
        more: impl Fn(usize) -> f64,
    ) -> Form {
        let width = self.len();
        let none = Vec::new();
        let gains = (0..self.gains.len().max(other.gains.len())).map(|g| {
            let [mine, theirs] = [&self.gains, &other.gains].map(|gains| gains.get(g).unwrap_or(&none));
            let at = |gain: &[f64], n: usize| gain.get(n).copied().unwrap_or(0.0);
            (0..width).map(|n| scales(n)[0] * at(mine, n) + scales(n)[1] * at(theirs, n)).collect()
        });
        let gains = gains.collect();
        let rest = (0..width).map(|n| {
            let [mine, theirs] = scales(n);
            let size =
                centre(n).abs() + mine.abs() * self.radius(n) + theirs.abs() * other.radius(n) + more(n);
            mine.abs() * self.rest[n] + theirs.abs() * other.rest[n] + more(n) + 2.0 * ROUNDING * size
        });
        Form { centre: (0..width).map(&centre).collect(), gains, rest: rest.collect() }
    }

    /// A layer's activation.
    pub fn activate(self, activation: Activation) -> Form {
        let lines = self.lines(activation);
        self.replace(&lines)
    }

    /// Hyperbolic tangent.
    pub fn tanh(self) -> Form {
        self.activate(Activation::Tanh)
    }

    /// 1 / (1 + e^−x).
    pub fn logistic(self) -> Form {
        let f = |x: f64| 1.0 / (1.0 + (-x).exp());
        // f′ = f·(1 − f) is s at f = (1 + √(1 − 4s)) / 2.
        let turn = |s: f64| {
            let root = (1.0 - 4.0 * s).max(0.0).sqrt();
            ((1.0 + root) / (1.0 - root)).ln()
        };
        let slope = |x: f64| f(x) * (1.0 - f(x));
        let lines: Vec<Line> = self.all_bounds().map(|bounds| rising(bounds, f, slope, turn)).collect();
        self.replace(&lines)
    }

    /// What an activation does to each value, within its bounds.
    pub fn lines(&self, activation: Activation) -> Vec<Line> {
        let line = |bounds: [f64; 2]| match activation {
            Activation::None => Line { scale: 1.0, offset: 0.0, rest: 0.0 },
            Activation::Relu => leaky(bounds, 0.0),
            Activation::LeakyRelu02 => leaky(bounds, 0.2),
            Activation::LeakyRelu001 => leaky(bounds, 0.01),
            Activation::Tanh => {
                let slope = |x: f64| 1.0 - x.tanh() * x.tanh();
                rising(bounds, f64::tanh, slope, |s| (1.0 - s).max(0.0).sqrt().atanh())
            }
        };
        self.all_bounds().map(line).collect()
    }

    /// Each value replaced by its line.
    pub fn replace(mut self, lines: &[Line]) -> Form {
        for (n, line) in lines.iter().enumerate() {
            self.centre[n] = line.scale * self.centre[n] + line.offset;
            self.gains.iter_mut().for_each(|gain| gain[n] *= line.scale);
            self.rest[n] = line.scale.abs() * self.rest[n] + line.rest;
        }
        self
    }

    fn all_bounds(&self) -> impl Iterator<Item = [f64; 2]> {
        (0..self.len()).map(|n| self.bounds(n))
    }
}

/// A function within bounds of its argument: scale·x + offset ± rest.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Slope.
    pub scale: f64,
    /// Value at 0.
    pub offset: f64,
    /// Deviation.
    pub rest: f64,
}

/// A rising function, steepest at 0 and alike on both sides, whose slope is s at ±turn(s). Of two lines the closer one: with
/// the smaller slope λ of the two ends, where f(x) − λx rises (Singh et al., *Fast and Effective Robustness Certification*,
/// NeurIPS 2018); or along the chord, from which f is farthest where it has the chord's slope.
fn rising(
    [low, high]: [f64; 2],
    f: impl Fn(f64) -> f64,
    slope: impl Fn(f64) -> f64,
    turn: impl Fn(f64) -> f64,
) -> Line {
    let line = |scale: f64, at: &[f64]| {
        let off = at.iter().map(|&x| f(x) - scale * x);
        let [least, most] = off.fold([f64::INFINITY, f64::NEG_INFINITY], |[a, b], x| [a.min(x), b.max(x)]);
        Line { scale, offset: (least + most) / 2.0, rest: (most - least) / 2.0 + FUNCTION_ERROR }
    };
    let parallel = line(slope(low).min(slope(high)), &[low, high]);
    let chord = (f(high) - f(low)) / (high - low);
    // Of a point there is no chord; far out it is flat, and turns nowhere.
    if !(high - low > 1e-6 && chord > 1e-9) {
        return parallel;
    }
    let turn = turn(chord);
    let along = line(chord, &[low, high, turn.clamp(low, high), (-turn).clamp(low, high)]);
    if along.rest < parallel.rest { along } else { parallel }
}

/// x for x > 0, else slope·x. Where both may be, the chord is above it by at most its value at 0.
fn leaky([low, high]: [f64; 2], slope: f64) -> Line {
    let rounding = ROUNDING * low.abs();
    match () {
        () if low >= 0.0 => Line { scale: 1.0, offset: 0.0, rest: 0.0 },
        () if high <= 0.0 => Line { scale: slope, offset: 0.0, rest: rounding },
        () => {
            let scale = (high - slope * low) / (high - low);
            let above = (slope - scale) * low;
            Line { scale, offset: above / 2.0, rest: above / 2.0 + rounding }
        }
    }
}

/// Σ part(w)·x, in eight sums at once.
fn dot(row: &[f32], x: &[f64], part: impl Fn(f32) -> f32) -> f64 {
    let (rows, values) = (row.as_chunks::<8>(), x.as_chunks::<8>());
    let mut sums = [0.0; 8];
    for (row, x) in rows.0.iter().zip(values.0) {
        for n in 0..8 {
            sums[n] += f64::from(part(row[n])) * x[n];
        }
    }
    let rest: f64 = rows.1.iter().zip(values.1).map(|(&w, x)| f64::from(part(w)) * x).sum();
    sums.iter().sum::<f64>() + rest
}
