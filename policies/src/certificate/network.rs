//! What a network may answer to any input of a form: each layer of `embedded`, over forms.

use super::CertificateError;
use super::form::Form;
use crate::file::{PolicyFile, Tensor};
use crate::schema::{Activation, Architecture, Head, Layer};

/// A policy's network over forms.
pub struct Bounds<'a> {
    file: &'a PolicyFile,
}

/// What a flow carries from one decision to the next, in the order of `Schema::state`.
pub type State = Vec<Form>;

impl<'a> Bounds<'a> {
    /// Refuses layers of which no bounds are computed.
    pub fn new(file: &'a PolicyFile) -> Result<Bounds<'a>, CertificateError> {
        if let Architecture::Sequential { layer, .. } = &file.schema.network {
            for (n, layer) in layer.iter().enumerate() {
                if !matches!(
                    layer,
                    Layer::Dense { .. } | Layer::Lstm { .. } | Layer::Gru { .. } | Layer::Add { .. }
                ) {
                    return Err(CertificateError(format!(
                        "layers.{n}: bounds are computed through dense, lstm, gru and add layers alone"
                    )));
                }
            }
        }
        Ok(Bounds { file })
    }

    /// The state of a new flow.
    pub fn new_flow(&self) -> State {
        let widths: Vec<usize> = match &self.file.schema.network {
            Architecture::Sequential { layer, .. } => layer
                .iter()
                .flat_map(|layer| match *layer {
                    Layer::Lstm { units } => vec![units; 2],
                    Layer::Gru { units } => vec![units],
                    _ => Vec::new(),
                })
                .collect(),
            &Architecture::Hierarchical { watcher, generator, outputs } => {
                vec![watcher, watcher, generator, generator, outputs]
            }
        };
        widths.into_iter().map(|width| Form::exact(vec![0.0; width])).collect()
    }

    /// Outputs after one decision, without a trigger; the state is replaced.
    pub fn step(&self, input: &Form, state: &mut State) -> Form {
        match &self.file.schema.network {
            Architecture::Sequential { layer, head } => self.sequential(layer, *head, input, state),
            Architecture::Hierarchical { .. } => self.hierarchical(input, state),
        }
    }

    fn tensor(&self, name: &str) -> &Tensor {
        // A policy file has every tensor of its schema.
        &self.file.tensors[name]
    }

    fn linear(&self, x: &Form, weight: &str, bias: &str) -> Form {
        x.linear(&self.tensor(weight).values, &self.tensor(bias).values)
    }

    fn dense(&self, x: &Form, name: &str) -> Form {
        self.linear(x, &format!("{name}.weight"), &format!("{name}.bias"))
    }

    fn sequential(&self, layers: &[Layer], head: Head, input: &Form, state: &mut State) -> Form {
        let dense = layers.iter().map(|layer| match layer {
            Layer::Dense { activation, .. } => Some(*activation),
            _ => None,
        });
        if let (Head::Direct, Some(activations)) = (head, dense.collect::<Option<Vec<Activation>>>()) {
            let names: Vec<String> = (0..layers.len()).map(|n| format!("layers.{n}")).collect();
            let chain: Vec<_> = names.iter().map(String::as_str).zip(activations).collect();
            return self.dense_chain(&chain, input);
        }
        let mut x = input.clone();
        let mut at = 0;
        let mut given: Vec<Form> = Vec::with_capacity(layers.len());
        for (n, layer) in layers.iter().enumerate() {
            let name = format!("layers.{n}");
            x = match *layer {
                Layer::Dense { activation, .. } => self.dense(&x, &name).activate(activation),
                Layer::Lstm { .. } => {
                    let (h, c) = self.lstm(&x, &state[at], &state[at + 1], &name);
                    (state[at], state[at + 1]) = (h.clone(), c);
                    at += 2;
                    h
                }
                Layer::Gru { .. } => {
                    state[at] = self.gru(&x, &state[at], &name);
                    at += 1;
                    state[at - 1].clone()
                }
                Layer::Add { of, activation, .. } => x.plus(&given[of]).activate(activation),
                // Refused by `new`.
                Layer::LayerNorm { .. } | Layer::Conv1d(_) => x,
            };
            given.push(x.clone());
        }
        match head {
            Head::Direct => x,
            Head::Argmax => likely(&x, x.len(), |n| Form::exact(vec![n as f64])),
            Head::Mixture => likely(&x, x.len() / 3, |n| x.slice(x.len() / 3 + n, x.len() / 3 + n + 1)),
        }
    }

    /// A network of dense layers: forward to the bounds of every layer, then back from each output, whose dependence on
    /// every layer's rests keeps its signs that way.
    fn dense_chain(&self, layers: &[(&str, Activation)], input: &Form) -> Form {
        let mut x = input.clone();
        let mut passed = Vec::new();
        for (name, activation) in layers {
            let weights = self.tensor(&format!("{name}.weight"));
            let bias = self.tensor(&format!("{name}.bias"));
            let rounding = x.rounding(&weights.values, &bias.values);
            let before = x.linear(&weights.values, &bias.values);
            let lines = before.lines(*activation);
            x = before.replace(&lines);
            passed.push((weights, bias, rounding, lines));
        }
        for n in 0..x.len() {
            let mut share = vec![0.0; x.len()];
            share[n] = 1.0;
            let (mut constant, mut rest) = (0.0, 0.0);
            for (weights, bias, rounding, lines) in passed.iter().rev() {
                let mut before = vec![0.0; weights.shape[1]];
                for (o, line) in lines.iter().enumerate() {
                    constant += share[o] * line.offset;
                    rest += share[o].abs() * line.rest;
                    let scaled = share[o] * line.scale;
                    constant += scaled * f64::from(bias.values[o]);
                    rest += scaled.abs() * rounding[o];
                    let row = &weights.values[o * before.len()..][..before.len()];
                    before.iter_mut().zip(row).for_each(|(sum, &w)| *sum += scaled * f64::from(w));
                }
                share = before;
            }
            let of = |values: &[f64]| share.iter().zip(values).map(|(share, x)| share * x).sum::<f64>();
            rest += share.iter().zip(&input.rest).map(|(share, rest)| share.abs() * rest).sum::<f64>();
            let gains: Vec<f64> = input.gains.iter().map(|gain| of(gain)).collect();
            if rest + gains.iter().map(|gain| gain.abs()).sum::<f64>() < x.radius(n) {
                (x.centre[n], x.rest[n]) = (of(&input.centre) + constant, rest);
                x.gains.iter_mut().zip(gains).for_each(|(all, gain)| all[n] = gain);
            }
        }
        x
    }

    fn lstm(&self, x: &Form, h: &Form, c: &Form, name: &str) -> (Form, Form) {
        let gates = self
            .linear(x, &format!("{name}.weight_ih"), &format!("{name}.bias_ih"))
            .plus(&self.linear(h, &format!("{name}.weight_hh"), &format!("{name}.bias_hh")));
        let units = h.len();
        let gate = |n: usize| gates.slice(n * units, (n + 1) * units);
        let (input, forget, cell, output) =
            (gate(0).logistic(), gate(1).logistic(), gate(2).tanh(), gate(3).logistic());
        let c = forget.times(c).plus(&input.times(&cell));
        (output.times(&c.clone().tanh()), c)
    }

    fn gru(&self, x: &Form, h: &Form, name: &str) -> Form {
        let input = self.linear(x, &format!("{name}.weight_ih"), &format!("{name}.bias_ih"));
        let hidden = self.linear(h, &format!("{name}.weight_hh"), &format!("{name}.bias_hh"));
        let units = h.len();
        let part = |form: &Form, n: usize| form.slice(n * units, (n + 1) * units);
        let gate = |n: usize| part(&input, n).plus(&part(&hidden, n)).logistic();
        let (reset, update) = (gate(0), gate(1));
        let new = part(&input, 2).plus(&reset.times(&part(&hidden, 2))).tanh();
        update.complement().times(&new).plus(&update.times(h))
    }

    fn hierarchical(&self, input: &Form, state: &mut State) -> Form {
        let (h, c) = self.lstm(&input.chain(&state[2]), &state[0], &state[1], "watcher");
        let trigger = self.dense(&h, "trigger").bounds(0);
        (state[0], state[1]) = (h.clone(), c);
        if trigger[1] > 0.0 {
            let (generated, cell) = self.lstm(&h, &state[2], &state[3], "generator");
            let outputs = self.dense(&generated, "head").tanh();
            let always = trigger[0] > 0.0;
            for (old, new) in state[2..].iter_mut().zip([generated, cell, outputs]) {
                *old = if always { new } else { old.or(&new) };
            }
        }
        state[4].clone()
    }
}

/// What any component that may have the largest of the first `count` values gives.
fn likely(x: &Form, count: usize, gives: impl Fn(usize) -> Form) -> Form {
    let bounds: Vec<[f64; 2]> = (0..count).map(|n| x.bounds(n)).collect();
    let floor = bounds.iter().map(|[low, _]| *low).fold(f64::NEG_INFINITY, f64::max);
    let possible = (0..count).filter(|&n| bounds[n][1] >= floor).map(gives);
    // At least the component whose lower bound is the floor.
    possible.reduce(|all, one| all.or(&one)).unwrap_or_else(|| x.slice(0, 1))
}
