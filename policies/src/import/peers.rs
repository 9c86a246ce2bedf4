//! How each peer names and arranges its weights.
//!
//! A *plain* set is what an npz holds: dense layers `W0`, `b0`, `W1`, … from input to output, each W
//! [inputs, units] and batch normalisation folded in; of Indigo `lstm_kernel`, `lstm_bias`, `W`, `b`.
//! A checkpoint is made plain first; a plain set then becomes the tensors of the schema.

use super::npz::transposed;
use crate::file::{Tensor, Tensors};

/// A project whose released weights can be imported.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Name.
    pub name: &'static str,
    /// What the released policy sees and does. Orca's differs from that of the one that is trained here.
    pub schema: &'static str,
    /// Where the weights come from.
    pub source: &'static str,
    /// Makes a checkpoint plain.
    pub(super) plain: fn(&Tensors) -> Result<Tensors, String>,
    /// Makes a plain set the schema's tensors.
    pub(super) tensors: fn(&Tensors) -> Result<Tensors, String>,
}

/// All of them.
pub const PEERS: [Peer; 4] = [
    Peer {
        name: "orca",
        schema: "orca-released",
        source: "released weights of Orca (SIGCOMM 2020)",
        plain: |checkpoint| normalised(checkpoint, &["fc1", "fc2"]),
        tensors: |plain| dense(plain, 3),
    },
    Peer {
        name: "indigo",
        schema: "indigo",
        source: "released weights of Indigo (USENIX ATC 2018)",
        plain: indigo_plain,
        tensors: indigo,
    },
    Peer {
        name: "aurora",
        schema: "aurora",
        source: "released weights of Aurora (ICML 2019)",
        plain: aurora_plain,
        tensors: |plain| dense(plain, 3),
    },
    Peer {
        name: "astraea",
        schema: "astraea",
        source: "released weights of Astraea (EuroSys 2024)",
        plain: |checkpoint| normalised(checkpoint, &["fc1", "fc2", "fc3"]),
        tensors: |plain| dense(plain, 4),
    },
];

/// TensorFlow's default, which both projects keep: variance + ε stands under the root.
const EPSILON: f64 = 1e-3;
/// What TensorFlow's BasicLSTMCell adds to the forget gate, beside its bias.
const FORGET_BIAS: f32 = 1.0;

fn get<'a>(tensors: &'a Tensors, name: &str) -> Result<&'a Tensor, String> {
    tensors.get(name).ok_or_else(|| {
        let names: Vec<&str> = tensors.keys().map(String::as_str).take(40).collect();
        format!("it has no {name}; it has {}", names.join(", "))
    })
}

/// The tensor `name`, which has two axes.
fn matrix<'a>(tensors: &'a Tensors, name: &str) -> Result<(&'a [f32], usize, usize), String> {
    let tensor = get(tensors, name)?;
    match tensor.shape[..] {
        [rows, columns] if rows > 0 && columns > 0 => Ok((&tensor.values, rows, columns)),
        _ => Err(format!("{name} has shape {:?}; a matrix is expected", tensor.shape)),
    }
}

/// The tensor `name`, which has this many values.
fn vector<'a>(tensors: &'a Tensors, name: &str, length: usize) -> Result<&'a [f32], String> {
    let values = &get(tensors, name)?.values;
    match values.len() == length {
        true => Ok(values),
        false => Err(format!("{name} has {} values; {length} are expected", values.len())),
    }
}

fn put(tensors: &mut Tensors, name: String, shape: Vec<usize>, values: Vec<f32>) {
    tensors.insert(name, Tensor { shape, values });
}

/// Plain dense layers as `layers.N`.
fn dense(plain: &Tensors, count: usize) -> Result<Tensors, String> {
    let mut tensors = Tensors::new();
    for n in 0..count {
        let (weights, inputs, units) = matrix(plain, &format!("W{n}"))?;
        let bias = vector(plain, &format!("b{n}"), units)?;
        put(
            &mut tensors,
            format!("layers.{n}.weight"),
            vec![units, inputs],
            transposed(weights, inputs, units),
        );
        put(&mut tensors, format!("layers.{n}.bias"), vec![units], bias.to_vec());
    }
    Ok(tensors)
}

/// Copies layers under the names that a plain set gives them.
fn renamed(checkpoint: &Tensors, names: &[(&str, &str)]) -> Result<Tensors, String> {
    let copy = |(from, to): &(&str, &str)| Ok((to.to_string(), get(checkpoint, from)?.clone()));
    names.iter().map(copy).collect()
}

/// The actor of Orca and Astraea: hidden layers with batch normalisation behind each, then `dense`.
fn normalised(checkpoint: &Tensors, hidden: &[&str]) -> Result<Tensors, String> {
    let last = hidden.len();
    let mut plain = Tensors::new();
    for (n, layer) in hidden.iter().enumerate() {
        let (weights, inputs, units) = matrix(checkpoint, &format!("actor/{layer}/kernel"))?;
        let bias = vector(checkpoint, &format!("actor/{layer}/bias"), units)?;
        let suffix = if n == 0 { String::new() } else { format!("_{n}") };
        let statistic =
            |what: &str| vector(checkpoint, &format!("actor/batch_normalization{suffix}/{what}"), units);
        let (beta, mean) = (statistic("beta")?, statistic("moving_mean")?);
        let variance = statistic("moving_variance")?;
        let factor = |unit: usize| 1.0 / (f64::from(variance[unit]) + EPSILON).sqrt();
        let factors: Vec<f64> = (0..units).map(factor).collect();
        let folded = weights.iter().zip(factors.iter().cycle()).map(|(&w, f)| (f64::from(w) * f) as f32);
        put(&mut plain, format!("W{n}"), vec![inputs, units], folded.collect());
        let bias = (0..units).map(|unit| {
            let centred = f64::from(bias[unit]) - f64::from(mean[unit]);
            (centred * factors[unit] + f64::from(beta[unit])) as f32
        });
        put(&mut plain, format!("b{n}"), vec![units], bias.collect());
    }
    plain.insert(format!("W{last}"), get(checkpoint, "actor/dense/kernel")?.clone());
    plain.insert(format!("b{last}"), get(checkpoint, "actor/dense/bias")?.clone());
    Ok(plain)
}

/// Stable Baselines' names; the critic is not needed, nor the action's deviation: the mean is applied.
fn aurora_plain(checkpoint: &Tensors) -> Result<Tensors, String> {
    renamed(
        checkpoint,
        &[
            ("model/pi_fc0/w", "W0"),
            ("model/pi_fc0/b", "b0"),
            ("model/pi_fc1/w", "W1"),
            ("model/pi_fc1/b", "b1"),
            ("model/pi/w", "W2"),
            ("model/pi/b", "b2"),
        ],
    )
}

fn indigo_plain(checkpoint: &Tensors) -> Result<Tensors, String> {
    renamed(
        checkpoint,
        &[
            ("global/rnn/multi_rnn_cell/cell_0/basic_lstm_cell/kernel", "lstm_kernel"),
            ("global/rnn/multi_rnn_cell/cell_0/basic_lstm_cell/bias", "lstm_bias"),
            ("global/fully_connected/weights", "W"),
            ("global/fully_connected/biases", "b"),
        ],
    )
}

/// One kernel for [input, h], its gates in the order i, g (there called j), f, o.
fn indigo(plain: &Tensors) -> Result<Tensors, String> {
    let (kernel, rows, gates) = matrix(plain, "lstm_kernel")?;
    let units = gates / 4;
    let inputs = rows.checked_sub(units).filter(|_| gates == 4 * units);
    let inputs = inputs.ok_or_else(|| format!("lstm_kernel has shape [{rows}, {gates}]: no LSTM"))?;
    let kernel = transposed(kernel, rows, gates);
    let bias = vector(plain, "lstm_bias", gates)?;
    let (mut weight_ih, mut weight_hh, mut bias_ih) = (Vec::new(), Vec::new(), Vec::new());
    for (gate, extra) in [(0, 0.0), (2, FORGET_BIAS), (1, 0.0), (3, 0.0)] {
        for unit in gate * units..(gate + 1) * units {
            let (input, hidden) = kernel[unit * rows..][..rows].split_at(inputs);
            weight_ih.extend_from_slice(input);
            weight_hh.extend_from_slice(hidden);
            bias_ih.push(bias[unit] + extra);
        }
    }
    let mut tensors = Tensors::new();
    put(&mut tensors, "layers.0.weight_ih".into(), vec![gates, inputs], weight_ih);
    put(&mut tensors, "layers.0.weight_hh".into(), vec![gates, units], weight_hh);
    put(&mut tensors, "layers.0.bias_ih".into(), vec![gates], bias_ih);
    put(&mut tensors, "layers.0.bias_hh".into(), vec![gates], vec![0.0; gates]);
    let (weights, inputs, actions) = matrix(plain, "W")?;
    let weights = transposed(weights, inputs, actions);
    put(&mut tensors, "layers.1.weight".into(), vec![actions, inputs], weights);
    put(&mut tensors, "layers.1.bias".into(), vec![actions], vector(plain, "b", actions)?.to_vec());
    Ok(tensors)
}
