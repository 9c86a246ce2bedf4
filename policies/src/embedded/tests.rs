//! Each kind of network against its definition in double precision, over 1000 steps.

use super::Embedded;
use crate::file::{Origin, PolicyFile, Tensor, Tensors};
use crate::network::{Batch, Network};
use crate::schema::{self, Schema};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use std::collections::BTreeMap;

/// A schema with twelve inputs and this network and action.
pub fn schema(network: &str, action: &str) -> Schema {
    let text = format!(
        "name = \"test\"\nsummary = \"s\"\nsource = \"none\"\nhistory = 12\n[interval]\nms = 10.0\n\
         [action]\n{action}\n[[feature]]\nname = \"x\"\nsignal = \"one\"\nclip = [0.0, 1.0]\nunit = \"1\"\n\
         [network]\n{network}"
    );
    Schema::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

pub const RATE: &str = "kind = \"rate-exp\"\nbase = 2.0\nlow = -1.0\nhigh = 1.0";

/// Weights of about the size that PyTorch starts with; a trigger without bias, so that it goes both ways.
pub fn random_tensors(schema: &Schema, seed: u64) -> Tensors {
    let mut random = Pcg64::seed_from_u64(seed);
    let tensor = |(name, shape): (String, Vec<usize>)| {
        let bound = (*shape.last().unwrap() as f32).sqrt().recip();
        let bound = if name == "trigger.bias" { 1e-9 } else { bound };
        let length = shape.iter().product();
        let values = (0..length).map(|_| random.random_range(-bound..bound)).collect();
        (name, Tensor { shape, values })
    };
    schema.tensors().into_iter().map(tensor).collect()
}

/// The network of a file with such weights, and those.
pub fn random_network(schema: &Schema, seed: u64) -> (Embedded, Tensors) {
    let tensors = random_tensors(schema, seed);
    let bytes = PolicyFile::write(schema, Origin::default(), &tensors);
    let file = PolicyFile::read(&bytes, "test.safetensors").unwrap();
    (Embedded::new(&file).unwrap(), tensors)
}

type Doubles = BTreeMap<String, (Vec<usize>, Vec<f64>)>;

/// The definition in double precision, for one row.
struct Reference {
    tensors: Doubles,
    schema: Schema,
}

impl Reference {
    fn linear(&self, name: &str, suffix: &str, x: &[f64]) -> Vec<f64> {
        let (shape, w) = &self.tensors[&format!("{name}.weight{suffix}")];
        let (_, b) = &self.tensors[&format!("{name}.bias{suffix}")];
        assert_eq!(shape[1], x.len(), "{name}");
        (0..shape[0]).map(|o| b[o] + (0..x.len()).map(|k| w[o * x.len() + k] * x[k]).sum::<f64>()).collect()
    }

    fn layer_norm(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let (weight, bias) =
            (&self.tensors[&format!("{name}.weight")].1, &self.tensors[&format!("{name}.bias")].1);
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
        (0..x.len()).map(|n| (x[n] - mean) / (variance + 1e-5).sqrt() * weight[n] + bias[n]).collect()
    }

    fn conv1d(&self, name: &str, conv: schema::Conv1d, x: &[f64]) -> Vec<f64> {
        let (weight, bias) =
            (&self.tensors[&format!("{name}.weight")].1, &self.tensors[&format!("{name}.bias")].1);
        let [channels, after] = conv.channels;
        let value = |channel: usize, at: isize| match usize::try_from(at) {
            Ok(at) if at < conv.length && conv.time_major => x[at * channels + channel],
            Ok(at) if at < conv.length => x[channel * conv.length + at],
            _ => 0.0,
        };
        let mut y = Vec::new();
        for out in 0..after {
            for place in (0..=conv.length + 2 * conv.padding - conv.kernel).step_by(conv.stride) {
                let under = (0..channels).flat_map(|channel| (0..conv.kernel).map(move |k| (channel, k)));
                let products = under.map(|(channel, k)| {
                    let at = (place + k) as isize - conv.padding as isize;
                    weight[(out * channels + channel) * conv.kernel + k] * value(channel, at)
                });
                y.push(bias[out] + products.sum::<f64>());
            }
        }
        y
    }

    fn lstm(&self, name: &str, x: &[f64], h: &mut [f64], c: &mut [f64]) {
        let (a, b) = (self.linear(name, "_ih", x), self.linear(name, "_hh", h));
        let u = h.len();
        let gate = |k: usize, n: usize| a[k * u + n] + b[k * u + n];
        for n in 0..u {
            c[n] = sigmoid(gate(1, n)) * c[n] + sigmoid(gate(0, n)) * gate(2, n).tanh();
            h[n] = sigmoid(gate(3, n)) * c[n].tanh();
        }
    }

    fn gru(&self, name: &str, x: &[f64], h: &mut [f64]) {
        let (a, b) = (self.linear(name, "_ih", x), self.linear(name, "_hh", h));
        let u = h.len();
        for n in 0..u {
            let (r, z) = (sigmoid(a[n] + b[n]), sigmoid(a[u + n] + b[u + n]));
            h[n] = (1.0 - z) * (a[2 * u + n] + r * b[2 * u + n]).tanh() + z * h[n];
        }
    }

    fn step(&self, input: &[f64], mut state: &mut [f64]) -> Vec<f64> {
        match &self.schema.network {
            schema::Architecture::Sequential { layer, head } => {
                let mut x = input.to_vec();
                let mut given: Vec<Vec<f64>> = Vec::new();
                for (n, layer) in layer.iter().enumerate() {
                    let name = format!("layers.{n}");
                    let (mine, rest) = state.split_at_mut(layer.state());
                    state = rest;
                    match *layer {
                        schema::Layer::Dense { activation, .. } => {
                            x = self.linear(&name, "", &x);
                            x.iter_mut().for_each(|x| *x = activate(activation, *x));
                        }
                        schema::Layer::Lstm { units } => {
                            let (h, c) = mine.split_at_mut(units);
                            self.lstm(&name, &x, h, c);
                            x = h.to_vec();
                        }
                        schema::Layer::Gru { .. } => {
                            self.gru(&name, &x, mine);
                            x = mine.to_vec();
                        }
                        schema::Layer::LayerNorm { activation, .. } => {
                            x = self.layer_norm(&name, &x);
                            x.iter_mut().for_each(|x| *x = activate(activation, *x));
                        }
                        schema::Layer::Add { of, activation, .. } => {
                            x.iter_mut().zip(&given[of]).for_each(|(x, y)| *x = activate(activation, *x + y));
                        }
                        schema::Layer::Conv1d(conv) => {
                            x = self.conv1d(&name, conv, &x);
                            x.iter_mut().for_each(|x| *x = activate(conv.activation, *x));
                        }
                    }
                    given.push(x.clone());
                }
                let largest =
                    |x: &[f64]| (0..x.len()).fold(0, |best, n| if x[n] > x[best] { n } else { best });
                match head {
                    schema::Head::Direct => x,
                    schema::Head::Argmax => vec![largest(&x) as f64],
                    schema::Head::Mixture => vec![x[x.len() / 3 + largest(&x[..x.len() / 3])]],
                }
            }
            &schema::Architecture::Hierarchical { watcher, generator, .. } => {
                let (watch, rest) = state.split_at_mut(2 * watcher);
                let (generate, last) = rest.split_at_mut(2 * generator);
                let (h, c) = watch.split_at_mut(watcher);
                let (generator_h, generator_c) = generate.split_at_mut(generator);
                let seen: Vec<f64> = input.iter().chain(&*generator_h).copied().collect();
                self.lstm("watcher", &seen, h, c);
                let trigger = self.linear("trigger", "", h)[0] > 0.0;
                if trigger {
                    self.lstm("generator", h, generator_h, generator_c);
                    let head = self.linear("head", "", generator_h);
                    last.iter_mut().zip(head).for_each(|(last, x)| *last = x.tanh());
                }
                last.iter().copied().chain([f64::from(u8::from(trigger))]).collect()
            }
        }
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn activate(activation: schema::Activation, x: f64) -> f64 {
    match activation {
        schema::Activation::None => x,
        schema::Activation::Relu => x.max(0.0),
        schema::Activation::LeakyRelu02 => x.max(0.2 * x),
        schema::Activation::LeakyRelu001 => x.max(0.01 * x),
        schema::Activation::Tanh => x.tanh(),
    }
}

/// Three flows for 1000 steps, each with its own inputs: outputs and states stay within 1e-5.
fn agrees(schema: &Schema, seed: u64) -> Vec<Vec<f32>> {
    let (network, tensors) = random_network(schema, seed);
    let widen = |t: Tensor| (t.shape, t.values.iter().map(|&v| f64::from(v)).collect());
    let tensors = tensors.into_iter().map(|(name, t)| (name, widen(t))).collect();
    let reference = Reference { tensors, schema: schema.clone() };
    let mut random = Pcg64::seed_from_u64(seed + 1);
    let mut batch = Batch { rows: 3, states: vec![0.0; 3 * schema.state()], ..Batch::default() };
    let mut states = vec![vec![0.0; schema.state()]; 3];
    let mut seen = Vec::new();
    for step in 0..1000 {
        batch.inputs = (0..3 * schema.inputs()).map(|_| random.random_range(-2.0..2.0)).collect();
        network.step(&mut batch).unwrap();
        for (row, state) in states.iter_mut().enumerate() {
            let input = batch.inputs[row * schema.inputs()..][..schema.inputs()].iter();
            let input: Vec<f64> = input.map(|&x| f64::from(x)).collect();
            let expected = reference.step(&input, state);
            let outputs = &batch.outputs[row * schema.outputs()..][..schema.outputs()];
            let values = batch.states[row * schema.state()..][..schema.state()].iter().zip(&*state);
            for (value, expected) in outputs.iter().zip(&expected).chain(values) {
                let error = (f64::from(*value) - expected).abs();
                assert!(error < 1e-5, "step {step}, row {row}: {value} for {expected}");
            }
            seen.push(outputs.to_vec());
        }
    }
    seen
}

#[test]
fn dense_networks_agree_with_double_precision() {
    for activation in ["none", "relu", "leaky-relu-0.2", "leaky-relu-0.01", "tanh"] {
        let dense = |units, activation| {
            format!("[[network.layer]]\nkind = \"dense\"\nunits = {units}\nactivation = \"{activation}\"\n")
        };
        let layers = dense(70, activation) + &dense(1, "tanh");
        agrees(&schema(&format!("kind = \"sequential\"\nhead = \"direct\"\n{layers}"), RATE), 1);
    }
}

#[test]
fn recurrent_networks_agree_with_double_precision() {
    let network = "kind = \"sequential\"\nhead = \"direct\"\n[[network.layer]]\nkind = \"gru\"\nunits = 40\n\
                   [[network.layer]]\nkind = \"lstm\"\nunits = 33\n\
                   [[network.layer]]\nkind = \"dense\"\nunits = 1\n";
    agrees(&schema(network, RATE), 2);
}

#[test]
fn residual_blocks_norms_and_convolutions_agree_with_double_precision() {
    let layer = |text: &str| format!("[[network.layer]]\n{}\n", text.replace("; ", "\n"));
    let layers = [
        "kind = \"conv1d\"; channels = [1, 3]; length = 12; kernel = 4; padding = 1; stride = 2; activation = \"relu\"",
        "kind = \"conv1d\"; channels = [3, 2]; length = 6; kernel = 3; padding = 2; time_major = true",
        "kind = \"layer-norm\"; units = 16; activation = \"leaky-relu-0.01\"",
        "kind = \"dense\"; units = 16; activation = \"relu\"",
        "kind = \"gru\"; units = 16",
        "kind = \"add\"; units = 16; of = 2; activation = \"tanh\"",
        "kind = \"add\"; units = 16; of = 5",
        "kind = \"dense\"; units = 1",
    ];
    let layers: String = layers.iter().map(|text| layer(text)).collect();
    agrees(&schema(&format!("kind = \"sequential\"\nhead = \"direct\"\n{layers}"), RATE), 9);
}

#[test]
fn argmax_and_mixture_choose_as_the_definition_does() {
    let table = "kind = \"cwnd-table\"\ntable = [{ factor = 0.5, packets = 0.0 }, \
                 { factor = 1.0, packets = 0.0 }, { factor = 2.0, packets = 0.0 }]";
    let network = |head, units| {
        format!(
            "kind = \"sequential\"\nhead = \"{head}\"\n[[network.layer]]\nkind = \"lstm\"\nunits = 20\n\
             [[network.layer]]\nkind = \"dense\"\nunits = {units}\n"
        )
    };
    let chosen: Vec<f32> = agrees(&schema(&network("argmax", 3), table), 3).concat();
    assert!([0.0, 1.0, 2.0].iter().all(|index| chosen.contains(index)));
    let chosen: Vec<f32> = agrees(&schema(&network("mixture", 15), RATE), 4).concat();
    assert!(chosen.iter().any(|mean| *mean != chosen[0]));
}

#[test]
fn a_hierarchical_network_agrees_and_triggers_now_and_then() {
    let action = "kind = \"parameters\"\nprogram = \"spine\"\n\
                  [[action.parameter]]\nname = \"alpha_thr\"\nlow = 0.0\nhigh = 1.0\n\
                  [[action.parameter]]\nname = \"alpha_lat\"\nlow = 0.0\nhigh = 1.0";
    let network = "kind = \"hierarchical\"\nwatcher = 24\ngenerator = 32\noutputs = 2\n";
    let outputs = agrees(&schema(network, action), 5);
    let triggered = outputs.iter().filter(|outputs| outputs[2] == 1.0).count();
    assert!((100..2900).contains(&triggered), "{triggered} of 3000");
}

#[test]
fn a_row_gives_the_same_bits_alone_and_in_any_batch() {
    for schema in schema::builtins() {
        let (network, _) = random_network(schema, 6);
        let mut random = Pcg64::seed_from_u64(7);
        let mut values = |n: usize| -> Vec<f32> { (0..n).map(|_| random.random_range(-1.0..1.0)).collect() };
        let rows = 7;
        let mut all = Batch {
            rows,
            inputs: values(rows * schema.inputs()),
            states: values(rows * schema.state()),
            outputs: Vec::new(),
        };
        let before = all.clone();
        network.step(&mut all).unwrap();
        for row in 0..rows {
            let part = |values: &[f32], width: usize| values[row * width..][..width].to_vec();
            let mut one = Batch {
                rows: 1,
                inputs: part(&before.inputs, schema.inputs()),
                states: part(&before.states, schema.state()),
                outputs: Vec::new(),
            };
            network.step(&mut one).unwrap();
            assert_eq!(one.outputs, part(&all.outputs, schema.outputs()), "{}", schema.name);
            assert_eq!(one.states, part(&all.states, schema.state()), "{}", schema.name);
        }
    }
}

#[test]
fn a_batch_of_another_size_is_an_error() {
    let (network, _) = random_network(&schema::builtins()[0], 8);
    let mut batch = Batch { rows: usize::MAX, inputs: vec![0.0; 3], ..Batch::default() };
    assert!(network.step(&mut batch).unwrap_err().0.contains("3 inputs"));
    let mut none = Batch::default();
    assert_eq!(network.step(&mut none), Ok(()));
}
