//! The shape of a policy's network: its layers, and what follows from them (widths, tensors, the
//! manifest's description).

use super::Schema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The network between input and output.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Architecture {
    /// Layers one after the other, then a head.
    Sequential {
        /// Layers.
        layer: Vec<Layer>,
        /// Head.
        head: Head,
    },
    /// Spine (§3): a watcher LSTM sees [input, generator's hidden state] and emits a trigger; when it is
    /// positive, a generator LSTM runs on the watcher's hidden state and its tanh head gives new
    /// outputs; otherwise generator and outputs stay. The trigger (0 or 1) is the last output.
    Hierarchical {
        /// Units of the watcher.
        watcher: usize,
        /// Units of the generator.
        generator: usize,
        /// Outputs, without the trigger.
        outputs: usize,
    },
}

/// A layer of [`Architecture::Sequential`]. Tensors are named `layers.N.weight`, `.bias` (dense, layer-norm, conv1d) and
/// `layers.N.weight_ih`, `.weight_hh`, `.bias_ih`, `.bias_hh` (recurrent), shaped as PyTorch shapes them.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Layer {
    /// activation(W·x + b).
    Dense {
        /// Outputs.
        units: usize,
        /// Activation.
        #[serde(default)]
        activation: Activation,
    },
    /// PyTorch's LSTM cell (gates i, f, g, o); its state is h, then c.
    Lstm {
        /// Units.
        units: usize,
    },
    /// PyTorch's GRU cell (gates r, z, n); its state is h.
    Gru {
        /// Units.
        units: usize,
    },
    /// activation(weight·(x − mean) / √(variance + [`EPSILON`]) + bias), mean and variance over the layer's values.
    LayerNorm {
        /// Values, those of the layer before.
        units: usize,
        /// Activation.
        #[serde(default)]
        activation: Activation,
    },
    /// activation(x + what an earlier layer gave): the end of a residual block.
    Add {
        /// Values, those of both layers.
        units: usize,
        /// Number of the earlier layer, from 0.
        of: usize,
        /// Activation.
        #[serde(default)]
        activation: Activation,
    },
    /// PyTorch's Conv1d of one row of channels × length values, flattened with the channel as the slow axis.
    Conv1d(Conv1d),
}

/// See [`Layer::Conv1d`].
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conv1d {
    /// Channels before and after.
    pub channels: [usize; 2],
    /// Values per channel before.
    pub length: usize,
    /// Values under the kernel.
    pub kernel: usize,
    /// Values from one place of the kernel to the next.
    #[serde(default = "one")]
    pub stride: usize,
    /// Zeros before and after each channel.
    #[serde(default)]
    pub padding: usize,
    /// The values before have the channel as the fast axis, as sets of features over time have.
    #[serde(default)]
    pub time_major: bool,
    /// Activation.
    #[serde(default)]
    pub activation: Activation,
}

fn one() -> usize {
    1
}

impl Conv1d {
    /// Values per channel after.
    pub fn length_after(&self) -> usize {
        let padded = self.length.saturating_add(self.padding.saturating_mul(2));
        padded.checked_sub(self.kernel).map_or(0, |room| room / self.stride.max(1) + 1)
    }
}

/// What [`Layer::LayerNorm`] adds to the variance: PyTorch's default.
pub const EPSILON: f32 = 1e-5;

/// What follows a dense layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// Nothing.
    #[default]
    None,
    /// max(x, 0).
    Relu,
    /// x for x > 0, else 0.2·x.
    #[serde(rename = "leaky-relu-0.2")]
    LeakyRelu02,
    /// x for x > 0, else 0.01·x.
    #[serde(rename = "leaky-relu-0.01")]
    LeakyRelu001,
    /// Hyperbolic tangent.
    Tanh,
}

/// How the last layer's values become the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Head {
    /// They are the output.
    Direct,
    /// The index of the largest one (the first of equals).
    Argmax,
    /// A mixture of Gaussians over one action: K logits, K means, K log standard deviations; the output
    /// is the mean of the most likely component (the first of equals).
    Mixture,
}

/// Name and shape of a tensor; the last axis is contiguous.
pub type TensorShape = (String, Vec<usize>);

impl Schema {
    /// Width of the network's input.
    pub fn inputs(&self) -> usize {
        self.features.len() * self.history
    }

    /// Width of the network's output.
    pub fn outputs(&self) -> usize {
        match &self.network {
            Architecture::Sequential { head: Head::Argmax | Head::Mixture, .. } => 1,
            Architecture::Sequential { layer, head: Head::Direct } => layer.last().map_or(0, Layer::units),
            Architecture::Hierarchical { outputs, .. } => outputs + 1,
        }
    }

    /// Width of the state that a flow carries from one decision to the next: for each recurrent layer
    /// in order h, then c (LSTM); of a hierarchical network watcher, generator, last outputs. A new
    /// flow's state is all zeros.
    pub fn state(&self) -> usize {
        match &self.network {
            Architecture::Sequential { layer, .. } => layer.iter().map(Layer::state).sum(),
            Architecture::Hierarchical { watcher, generator, outputs } => {
                2 * watcher + 2 * generator + outputs
            }
        }
    }

    /// The tensors that a policy file of this schema holds, and no others.
    pub fn tensors(&self) -> Vec<TensorShape> {
        match &self.network {
            Architecture::Sequential { layer, .. } => {
                let mut inputs = self.inputs();
                let mut tensors = Vec::new();
                for (n, layer) in layer.iter().enumerate() {
                    layer.tensors(&format!("layers.{n}"), inputs, &mut tensors);
                    inputs = layer.units();
                }
                tensors
            }
            &Architecture::Hierarchical { watcher, generator, outputs } => {
                let mut tensors = Vec::new();
                Layer::Lstm { units: watcher }.tensors("watcher", self.inputs() + generator, &mut tensors);
                let dense = |units| Layer::Dense { units, activation: Activation::None };
                dense(1).tensors("trigger", watcher, &mut tensors);
                Layer::Lstm { units: generator }.tensors("generator", watcher, &mut tensors);
                dense(outputs).tensors("head", generator, &mut tensors);
                tensors
            }
        }
    }

    /// The network as a policy file's manifest describes it, so that a reader needs no TOML.
    pub fn network_json(&self) -> Value {
        let (inputs, outputs, state) = (self.inputs(), self.outputs(), self.state());
        match &self.network {
            Architecture::Sequential { layer, head } => {
                let mut width = inputs;
                let layers = layer.iter().map(|layer| {
                    let before = std::mem::replace(&mut width, layer.units());
                    layer.json(before)
                });
                let layers: Vec<Value> = layers.collect();
                json!({"kind": "sequential", "inputs": inputs, "outputs": outputs, "state": state,
                       "layers": layers, "head": head})
            }
            Architecture::Hierarchical { watcher, generator, .. } => {
                json!({"kind": "hierarchical", "inputs": inputs, "outputs": outputs, "state": state,
                       "watcher": watcher, "generator": generator})
            }
        }
    }
}

impl Layer {
    /// Width of its output.
    pub fn units(&self) -> usize {
        match *self {
            Layer::Dense { units, .. }
            | Layer::Lstm { units }
            | Layer::Gru { units }
            | Layer::LayerNorm { units, .. }
            | Layer::Add { units, .. } => units,
            Layer::Conv1d(conv) => conv.channels[1].saturating_mul(conv.length_after()),
        }
    }

    /// Width of its state.
    pub fn state(&self) -> usize {
        match *self {
            Layer::Lstm { units } => 2 * units,
            Layer::Gru { units } => units,
            Layer::Dense { .. } | Layer::LayerNorm { .. } | Layer::Add { .. } | Layer::Conv1d(_) => 0,
        }
    }

    fn tensors(&self, name: &str, inputs: usize, tensors: &mut Vec<TensorShape>) {
        let units = self.units();
        let mut pair = |weight: Vec<usize>, bias| {
            tensors.push((format!("{name}.weight"), weight));
            tensors.push((format!("{name}.bias"), vec![bias]));
        };
        let gates = match self {
            Layer::Dense { .. } => return pair(vec![units, inputs], units),
            Layer::LayerNorm { .. } => return pair(vec![units], units),
            &Layer::Conv1d(Conv1d { channels: [before, after], kernel, .. }) => {
                return pair(vec![after, before, kernel], after);
            }
            Layer::Add { .. } => return,
            Layer::Lstm { .. } => 4 * units,
            Layer::Gru { .. } => 3 * units,
        };
        tensors.push((format!("{name}.weight_ih"), vec![gates, inputs]));
        tensors.push((format!("{name}.weight_hh"), vec![gates, units]));
        tensors.push((format!("{name}.bias_ih"), vec![gates]));
        tensors.push((format!("{name}.bias_hh"), vec![gates]));
    }

    fn json(&self, inputs: usize) -> Value {
        match *self {
            Layer::Dense { units, activation } => {
                json!({"kind": "dense", "inputs": inputs, "units": units, "activation": activation})
            }
            Layer::Lstm { units } => json!({"kind": "lstm", "inputs": inputs, "units": units}),
            Layer::Gru { units } => json!({"kind": "gru", "inputs": inputs, "units": units}),
            Layer::LayerNorm { units, activation } => {
                json!({"kind": "layer-norm", "inputs": inputs, "units": units, "activation": activation})
            }
            Layer::Add { units, of, activation } => {
                json!({"kind": "add", "inputs": inputs, "units": units, "of": of, "activation": activation})
            }
            Layer::Conv1d(conv) => {
                json!({"kind": "conv1d", "inputs": inputs, "units": self.units(), "channels": conv.channels,
                       "length": conv.length, "kernel": conv.kernel, "stride": conv.stride,
                       "padding": conv.padding, "time_major": conv.time_major, "activation": conv.activation})
            }
        }
    }
}
