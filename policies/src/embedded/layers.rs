//! The layers, over rows. Tensors are named and shaped as PyTorch's; gates are in its order.

use super::linear::Linear;
use super::math::{logistic, tanh};
use crate::error::PolicyError;
use crate::file::{Tensor, Tensors};
use crate::schema::{Activation, Conv1d, EPSILON};

/// The tensor `name`.
fn tensor<'a>(tensors: &'a Tensors, name: &str) -> Result<&'a Tensor, PolicyError> {
    tensors.get(name).ok_or_else(|| PolicyError::Refused(format!("tensor {name} is missing")))
}

/// `weight` and `bias` as a matrix.
fn linear(tensors: &Tensors, weight: &str, bias: &str) -> Result<Linear, PolicyError> {
    let (weight, bias) = (tensor(tensors, weight)?, tensor(tensors, bias)?);
    Ok(Linear::new(weight.shape[1], &weight.values, &bias.values))
}

/// A dense layer's matrix.
pub fn dense(tensors: &Tensors, name: &str) -> Result<Linear, PolicyError> {
    linear(tensors, &format!("{name}.weight"), &format!("{name}.bias"))
}

/// Each row's values less their mean, over their deviation, times a weight, plus a bias.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl LayerNorm {
    /// With the tensors `name.…`.
    pub fn new(tensors: &Tensors, name: &str) -> Result<LayerNorm, PolicyError> {
        let values = |which| tensor(tensors, &format!("{name}.{which}")).map(|found| found.values.clone());
        Ok(LayerNorm { weight: values("weight")?, bias: values("bias")? })
    }

    /// All rows, in place.
    pub fn apply(&self, x: &mut [f32]) {
        let width = self.weight.len();
        for row in x.chunks_exact_mut(width) {
            let mean = row.iter().sum::<f32>() / width as f32;
            let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / width as f32;
            let scale = 1.0 / (variance + EPSILON).sqrt();
            for ((x, weight), bias) in row.iter_mut().zip(&self.weight).zip(&self.bias) {
                *x = (*x - mean) * scale * weight + bias;
            }
        }
    }
}

/// A convolution over one axis: a dense layer on what lies under each place of the kernel.
#[derive(Clone, Debug)]
pub struct Convolution {
    kernel: Linear,
    shape: Conv1d,
}

impl Convolution {
    /// With the tensors `name.…`.
    pub fn new(tensors: &Tensors, name: &str, shape: Conv1d) -> Result<Convolution, PolicyError> {
        let values = |which| tensor(tensors, &format!("{name}.{which}")).map(|found| &found.values[..]);
        let inputs = shape.channels[0] * shape.kernel;
        Ok(Convolution { kernel: Linear::new(inputs, values("weight")?, values("bias")?), shape })
    }

    /// Rows of channels × length values to rows of channels × length after.
    pub fn apply(&self, x: &[f32]) -> Vec<f32> {
        let Conv1d { channels: [before, after], length, stride, padding, .. } = self.shape;
        let places = self.shape.length_after();
        let mut under = Vec::with_capacity(places * before * self.shape.kernel);
        let mut all = Vec::with_capacity(x.len() / (before * length) * places * after);
        // One row at a time: what lies under the kernel is many times a row.
        for row in x.chunks_exact(before * length) {
            under.clear();
            for place in 0..places {
                for channel in 0..before {
                    under.extend((0..self.shape.kernel).map(|k| {
                        let at = (place * stride + k).wrapping_sub(padding);
                        if at < length { row[self.index(channel, at)] } else { 0.0 }
                    }));
                }
            }
            let by_place = self.kernel.apply(&under);
            all.extend((0..after).flat_map(|c| by_place.iter().skip(c).step_by(after)));
        }
        all
    }

    fn index(&self, channel: usize, at: usize) -> usize {
        match self.shape.time_major {
            true => at * self.shape.channels[0] + channel,
            false => channel * self.shape.length + at,
        }
    }
}

/// Applies an activation to every value.
pub fn activate(activation: Activation, values: &mut [f32]) {
    match activation {
        Activation::None => {}
        Activation::Relu => values.iter_mut().for_each(|x| *x = x.max(0.0)),
        Activation::LeakyRelu02 => values.iter_mut().for_each(|x| *x = if *x > 0.0 { *x } else { 0.2 * *x }),
        Activation::LeakyRelu001 => {
            values.iter_mut().for_each(|x| *x = if *x > 0.0 { *x } else { 0.01 * *x })
        }
        Activation::Tanh => values.iter_mut().for_each(|x| *x = tanh(*x)),
    }
}

/// The two matrices of a recurrent cell.
#[derive(Clone, Debug)]
struct Gates {
    input: Linear,
    hidden: Linear,
}

impl Gates {
    fn new(tensors: &Tensors, name: &str) -> Result<Gates, PolicyError> {
        let matrix =
            |which| linear(tensors, &format!("{name}.weight_{which}"), &format!("{name}.bias_{which}"));
        Ok(Gates { input: matrix("ih")?, hidden: matrix("hh")? })
    }
}

/// An LSTM cell: c' = σ(f)·c + σ(i)·tanh(g), h' = σ(o)·tanh(c').
#[derive(Clone, Debug)]
pub struct Lstm(Gates);

impl Lstm {
    /// With the tensors `name.…`.
    pub fn new(tensors: &Tensors, name: &str) -> Result<Lstm, PolicyError> {
        Ok(Lstm(Gates::new(tensors, name)?))
    }

    /// Width of h.
    pub fn units(&self) -> usize {
        self.0.input.outputs() / 4
    }

    /// One step of all rows; h and c (rows × units) are replaced.
    pub fn step(&self, x: &[f32], h: &mut [f32], c: &mut [f32]) {
        let width = self.0.input.outputs();
        let units = self.units();
        let (mut gates, hidden) = (self.0.input.apply(x), self.0.hidden.apply(h));
        gates.iter_mut().zip(&hidden).for_each(|(gate, add)| *gate += add);
        let rows = h.chunks_exact_mut(units).zip(c.chunks_exact_mut(units));
        for (gates, (h, c)) in gates.chunks_exact_mut(width).zip(rows) {
            gates[..2 * units].iter_mut().for_each(|x| *x = logistic(*x));
            gates[2 * units..3 * units].iter_mut().for_each(|x| *x = tanh(*x));
            gates[3 * units..].iter_mut().for_each(|x| *x = logistic(*x));
            let [input, forget, cell, output] = [0, 1, 2, 3].map(|gate| &gates[gate * units..][..units]);
            for (n, (h, c)) in h.iter_mut().zip(c).enumerate() {
                *c = forget[n] * *c + input[n] * cell[n];
                *h = output[n] * tanh(*c);
            }
        }
    }
}

/// A GRU cell: n = tanh(x's part + σ(r)·h's part), h' = (1 − σ(z))·n + σ(z)·h.
#[derive(Clone, Debug)]
pub struct Gru(Gates);

impl Gru {
    /// With the tensors `name.…`.
    pub fn new(tensors: &Tensors, name: &str) -> Result<Gru, PolicyError> {
        Ok(Gru(Gates::new(tensors, name)?))
    }

    /// Width of h.
    pub fn units(&self) -> usize {
        self.0.input.outputs() / 3
    }

    /// One step of all rows; h (rows × units) is replaced.
    pub fn step(&self, x: &[f32], h: &mut [f32]) {
        let width = self.0.input.outputs();
        let units = self.units();
        let (mut input, hidden) = (self.0.input.apply(x), self.0.hidden.apply(h));
        let rows = input.chunks_exact_mut(width).zip(hidden.chunks_exact(width));
        for ((input, hidden), h) in rows.zip(h.chunks_exact_mut(units)) {
            let (gates, new) = input.split_at_mut(2 * units);
            let (hidden_gates, hidden_new) = hidden.split_at(2 * units);
            gates.iter_mut().zip(hidden_gates).for_each(|(x, add)| *x = logistic(*x + add));
            let (reset, update) = gates.split_at(units);
            for (n, h) in h.iter_mut().enumerate() {
                let new = tanh(new[n] + reset[n] * hidden_new[n]);
                *h = (1.0 - update[n]) * new + update[n] * *h;
            }
        }
    }
}
