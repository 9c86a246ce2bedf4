//! The networks in plain Rust: no library, the same bits on every machine.

mod layers;
mod linear;
mod math;
#[cfg(test)]
pub mod tests;

use crate::error::PolicyError;
use crate::file::{PolicyFile, Tensors};
use crate::network::{Batch, Network, StepError};
use crate::schema::{self, Activation, Head, Schema};
use layers::{Convolution, Gru, LayerNorm, Lstm, activate, dense};
use linear::Linear;

/// A policy's network with its weights.
#[derive(Clone, Debug)]
pub struct Embedded {
    schema: Schema,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    Sequential(Vec<Layer>, Head),
    Hierarchical(Box<Hierarchical>),
}

#[derive(Clone, Debug)]
enum Layer {
    Dense(Linear, Activation),
    Lstm(Lstm),
    Gru(Gru),
    Norm(LayerNorm, Activation),
    /// The sum with what the layer with this number gave.
    Add(usize, Activation),
    Convolution(Convolution, Activation),
}

/// See [`schema::Architecture::Hierarchical`].
#[derive(Clone, Debug)]
struct Hierarchical {
    watcher: Lstm,
    trigger: Linear,
    generator: Lstm,
    head: Linear,
    inputs: usize,
    /// Units of watcher and generator, outputs without the trigger.
    units: [usize; 3],
}

impl Embedded {
    /// The network in a policy file.
    pub fn new(file: &PolicyFile) -> Result<Embedded, PolicyError> {
        let tensors = &file.tensors;
        let shape = match &file.schema.network {
            schema::Architecture::Sequential { layer, head } => {
                let layers = layer.iter().enumerate().map(|(n, layer)| Layer::new(tensors, n, *layer));
                Shape::Sequential(layers.collect::<Result<_, _>>()?, *head)
            }
            &schema::Architecture::Hierarchical { watcher, generator, outputs } => {
                Shape::Hierarchical(Box::new(Hierarchical {
                    watcher: Lstm::new(tensors, "watcher")?,
                    trigger: dense(tensors, "trigger")?,
                    generator: Lstm::new(tensors, "generator")?,
                    head: dense(tensors, "head")?,
                    inputs: file.schema.inputs(),
                    units: [watcher, generator, outputs],
                }))
            }
        };
        Ok(Embedded { schema: file.schema.clone(), shape })
    }
}

impl Network for Embedded {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn step(&self, batch: &mut Batch) -> Result<(), StepError> {
        let (inputs, state) = (self.schema.inputs(), self.schema.state());
        let rows = batch.rows;
        let fits = |length: usize, width: usize| rows.checked_mul(width) == Some(length);
        if !fits(batch.inputs.len(), inputs) || !fits(batch.states.len(), state) {
            return Err(StepError(format!(
                "{} inputs and {} state values for {rows} rows of {inputs} and {state}",
                batch.inputs.len(),
                batch.states.len()
            )));
        }
        batch.outputs.resize(rows * self.schema.outputs(), 0.0);
        let states = Rows { values: &mut batch.states, width: state };
        match &self.shape {
            Shape::Sequential(layers, head) => {
                sequential(layers, *head, &batch.inputs, states, &mut batch.outputs);
            }
            Shape::Hierarchical(network) => network.step(&batch.inputs, states, &mut batch.outputs),
        }
        Ok(())
    }
}

impl Layer {
    fn new(tensors: &Tensors, n: usize, layer: schema::Layer) -> Result<Layer, PolicyError> {
        let name = format!("layers.{n}");
        Ok(match layer {
            schema::Layer::Dense { activation, .. } => Layer::Dense(dense(tensors, &name)?, activation),
            schema::Layer::Lstm { .. } => Layer::Lstm(Lstm::new(tensors, &name)?),
            schema::Layer::Gru { .. } => Layer::Gru(Gru::new(tensors, &name)?),
            schema::Layer::LayerNorm { activation, .. } => {
                Layer::Norm(LayerNorm::new(tensors, &name)?, activation)
            }
            schema::Layer::Add { of, activation, .. } => Layer::Add(of, activation),
            schema::Layer::Conv1d(conv) => {
                Layer::Convolution(Convolution::new(tensors, &name, conv)?, conv.activation)
            }
        })
    }
}

/// The flows' states, row after row.
struct Rows<'a> {
    values: &'a mut [f32],
    width: usize,
}

impl Rows<'_> {
    /// Columns `from..from + width` of all rows.
    fn take(&self, from: usize, width: usize) -> Vec<f32> {
        let mut columns = Vec::with_capacity(self.values.len() / self.width * width);
        for row in self.values.chunks_exact(self.width) {
            columns.extend_from_slice(&row[from..from + width]);
        }
        columns
    }

    /// Writes those columns.
    fn put(&mut self, from: usize, width: usize, columns: &[f32]) {
        let rows = self.values.chunks_exact_mut(self.width);
        for (row, columns) in rows.zip(columns.chunks_exact(width)) {
            row[from..from + width].copy_from_slice(columns);
        }
    }
}

fn sequential(layers: &[Layer], head: Head, inputs: &[f32], mut states: Rows, outputs: &mut [f32]) {
    let mut x = inputs.to_vec();
    let mut at = 0;
    // What layers gave that a later one adds.
    let mut kept: Vec<Vec<f32>> = vec![Vec::new(); layers.len()];
    for (n, layer) in layers.iter().enumerate() {
        match layer {
            Layer::Dense(linear, activation) => {
                x = linear.apply(&x);
                activate(*activation, &mut x);
            }
            Layer::Lstm(lstm) => {
                let units = lstm.units();
                let (mut h, mut c) = (states.take(at, units), states.take(at + units, units));
                lstm.step(&x, &mut h, &mut c);
                states.put(at, units, &h);
                states.put(at + units, units, &c);
                (x, at) = (h, at + 2 * units);
            }
            Layer::Gru(gru) => {
                let units = gru.units();
                let mut h = states.take(at, units);
                gru.step(&x, &mut h);
                states.put(at, units, &h);
                (x, at) = (h, at + units);
            }
            Layer::Norm(norm, activation) => {
                norm.apply(&mut x);
                activate(*activation, &mut x);
            }
            Layer::Add(of, activation) => {
                x.iter_mut().zip(&kept[*of]).for_each(|(x, earlier)| *x += earlier);
                activate(*activation, &mut x);
            }
            Layer::Convolution(convolution, activation) => {
                x = convolution.apply(&x);
                activate(*activation, &mut x);
            }
        }
        if layers[n + 1..].iter().any(|later| matches!(later, Layer::Add(of, _) if *of == n)) {
            kept[n].clone_from(&x);
        }
    }
    match head {
        Head::Direct => outputs.copy_from_slice(&x),
        Head::Argmax | Head::Mixture => {
            let width = x.len() / outputs.len().max(1);
            for (output, x) in outputs.iter_mut().zip(x.chunks_exact(width.max(1))) {
                *output = match head {
                    Head::Mixture => x[width / 3 + largest(&x[..width / 3])],
                    _ => largest(x) as f32,
                };
            }
        }
    }
}

/// Index of the largest value, the first of equals.
fn largest(values: &[f32]) -> usize {
    (1..values.len()).fold(0, |best, n| if values[n] > values[best] { n } else { best })
}

impl Hierarchical {
    fn step(&self, inputs: &[f32], mut states: Rows, outputs: &mut [f32]) {
        let [watcher, generator, width] = self.units;
        let (at_generator, at_outputs) = (2 * watcher, 2 * (watcher + generator));
        let generator_h = states.take(at_generator, generator);
        let mut seen = Vec::with_capacity(inputs.len() + generator_h.len());
        let of_rows = inputs.chunks_exact(self.inputs).zip(generator_h.chunks_exact(generator));
        of_rows.for_each(|(input, h)| seen.extend([input, h].concat()));
        let (mut h, mut c) = (states.take(0, watcher), states.take(watcher, watcher));
        self.watcher.step(&seen, &mut h, &mut c);
        states.put(0, watcher, &h);
        states.put(watcher, watcher, &c);
        let triggers = self.trigger.apply(&h);
        let of_rows = states.values.chunks_exact_mut(states.width).zip(h.chunks_exact(watcher));
        for ((&trigger, outputs), (state, watcher_h)) in
            triggers.iter().zip(outputs.chunks_exact_mut(width + 1)).zip(of_rows)
        {
            let (recurrent, last) = state.split_at_mut(at_outputs);
            if trigger > 0.0 {
                let (h, c) = recurrent[at_generator..].split_at_mut(generator);
                self.generator.step(watcher_h, h, c);
                let mut new = self.head.apply(h);
                activate(Activation::Tanh, &mut new);
                last.copy_from_slice(&new);
            }
            outputs[..width].copy_from_slice(last);
            outputs[width] = f32::from(u8::from(trigger > 0.0));
        }
    }
}
