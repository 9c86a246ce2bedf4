//! A PyTorch module's `state_dict` in safetensors, under the names that its author gave, for a schema of one's own.
//!
//! What a module holds (`weight`, `bias`; `weight_ih`, … of a cell, with `_l0` of `nn.LSTM` and `nn.GRU`) belongs to one
//! layer of the schema. Modules are paired with layers in the order of their names, numbers by value, unless told
//! otherwise; shapes have to be those of the layer. A layer without bias has zeros.

use super::bytes::claim;
use crate::file::{Tensor, Tensors, header};
use crate::schema::{Schema, TensorShape};
use serde::Deserialize;
use std::collections::BTreeMap;

/// What a model may bring for checking: inputs and the outputs that the module gave.
const CHECKS: [&str; 2] = ["check_x", "check_y"];

/// A layer of the schema, and the module of the model that it is.
pub type Pairs = BTreeMap<String, String>;

/// One tensor of the header.
#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [usize; 2],
}

/// The tensors of a safetensors file, as float32.
pub fn read(bytes: &[u8]) -> Result<Tensors, String> {
    let (header, data) = header(bytes)?;
    let mut tensors = Tensors::new();
    let mut left = data.len();
    for (name, entry) in header {
        if name == "__metadata__" {
            continue;
        }
        let entry = Entry::deserialize(entry).map_err(|error| format!("header of tensor {name}: {error}"))?;
        let values = values(&entry, data, &mut left).map_err(|error| format!("tensor {name}: {error}"))?;
        tensors.insert(name, Tensor { shape: entry.shape, values });
    }
    Ok(tensors)
}

fn values(entry: &Entry, data: &[u8], left: &mut usize) -> Result<Vec<f32>, String> {
    let [from, to] = entry.data_offsets;
    let bytes = data.get(from..to).ok_or_else(|| format!("lies at {from}..{to} of {} bytes", data.len()))?;
    claim(left, bytes.len())?;
    let values: Vec<f32> = match entry.dtype.as_str() {
        "F32" => bytes.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect(),
        "F64" => bytes.as_chunks().0.iter().map(|&b| f64::from_le_bytes(b) as f32).collect(),
        "BF16" => bytes
            .as_chunks()
            .0
            .iter()
            .map(|&b| f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16))
            .collect(),
        // A count, such as batch normalisation's: no weight.
        "I64" => bytes.as_chunks().0.iter().map(|&b| i64::from_le_bytes(b) as f32).collect(),
        other => return Err(format!("of type {other}; write float32 (module.float())")),
    };
    let size = entry.shape.iter().try_fold(1_usize, |size, &axis| size.checked_mul(axis));
    match size == Some(values.len()) {
        true => Ok(values),
        false => Err(format!("{} values for the shape {:?}", values.len(), entry.shape)),
    }
}

/// The tensors that `schema` takes, out of a module's; `pairs` names modules of layers where the order of names does not.
pub fn tensors(schema: &Schema, plain: &Tensors, pairs: &Pairs) -> Result<Tensors, String> {
    let modules = modules(plain);
    let layers = layers(schema);
    if let Some(layer) = pairs.keys().find(|layer| !layers.iter().any(|(name, _)| name == *layer)) {
        let names: Vec<&str> = layers.iter().map(|(name, _)| name.as_str()).collect();
        return Err(format!("--map {layer}: the schema's layers with weights are {}", names.join(", ")));
    }
    let mut free: Vec<&String> =
        modules.keys().filter(|name| !pairs.values().any(|used| used == *name)).collect();
    free.sort_by(|a, b| natural(a).cmp(&natural(b)));
    let mut free = free.into_iter();
    let mut found = Tensors::new();
    for (layer, shapes) in &layers {
        let module = pairs.get(layer).or_else(|| free.next());
        let module = module
            .ok_or_else(|| format!("the model has no module for {layer}{}", overview(&layers, &modules)))?;
        let parts = modules.get(module).ok_or_else(|| {
            format!("--map {layer}={module}: the model has no such module{}", overview(&layers, &modules))
        })?;
        for (part, shape) in shapes {
            let size = shape.iter().product();
            let tensor = match parts.get(part.as_str()) {
                Some(tensor) if tensor.shape == *shape => (*tensor).clone(),
                None if part.starts_with("bias") => Tensor { shape: shape.clone(), values: vec![0.0; size] },
                Some(tensor) => {
                    return Err(format!(
                        "{module}.{part} has the shape {:?}, {layer} takes {shape:?}{}",
                        tensor.shape,
                        overview(&layers, &modules)
                    ));
                }
                None => {
                    let overview = overview(&layers, &modules);
                    return Err(format!("{module} has no {part}, which {layer} takes{overview}"));
                }
            };
            found.insert(format!("{layer}.{part}"), tensor);
        }
        if let Some(part) = parts.keys().find(|part| !shapes.iter().any(|(known, _)| known == *part)) {
            return Err(format!("{module}.{part} is no tensor of {layer}{}", overview(&layers, &modules)));
        }
    }
    match free.next() {
        Some(module) => Err(format!("no layer of the schema is {module}{}", overview(&layers, &modules))),
        None => Ok(found),
    }
}

/// A module's tensors by their last names, without the `_l0` of a recurrent module's first layer.
type Modules<'a> = BTreeMap<String, BTreeMap<&'a str, &'a Tensor>>;

fn modules(plain: &Tensors) -> Modules<'_> {
    let mut modules = Modules::new();
    for (name, tensor) in plain.iter().filter(|(name, _)| !CHECKS.contains(&name.as_str())) {
        let (module, part) = name.rsplit_once('.').unwrap_or(("", name));
        modules
            .entry(module.to_string())
            .or_default()
            .insert(part.strip_suffix("_l0").unwrap_or(part), tensor);
    }
    modules
}

/// The schema's layers that have tensors, in order, with these.
fn layers(schema: &Schema) -> Vec<(String, Vec<TensorShape>)> {
    let mut layers: Vec<(String, Vec<TensorShape>)> = Vec::new();
    for (name, shape) in schema.tensors() {
        let (layer, part) = name.rsplit_once('.').unwrap_or(("", &name));
        let part = (part.to_string(), shape);
        match layers.last_mut() {
            Some((last, parts)) if last == layer => parts.push(part),
            _ => layers.push((layer.to_string(), vec![part])),
        }
    }
    layers
}

/// A name in pieces that compare as a reader would: numbers by value.
fn natural(name: &str) -> Vec<(&str, u64)> {
    let piece = |piece: &'_ str| -> usize { piece.trim_end_matches(|c: char| c.is_ascii_digit()).len() };
    name.split('.').map(|each| (&each[..piece(each)], each[piece(each)..].parse().unwrap_or(0))).collect()
}

/// Both sides, so that the reader can say which module is which layer.
fn overview(layers: &[(String, Vec<TensorShape>)], modules: &Modules) -> String {
    let shape = |shape: &[usize]| format!("{shape:?}").replace(' ', "");
    let ours = layers.iter().map(|(name, parts)| format!("{name} {}", shape(&parts[0].1)));
    let theirs = modules.iter().map(|(name, parts)| {
        let first = parts.get("weight").or_else(|| parts.get("weight_ih")).or_else(|| parts.values().next());
        format!(
            "{} {}",
            if name.is_empty() { "(the module itself)" } else { name },
            first.map_or(String::new(), |t| shape(&t.shape))
        )
    });
    let (ours, theirs): (Vec<String>, Vec<String>) = (ours.collect(), theirs.collect());
    format!(
        "; layers: {}; modules: {}; pair them with --map LAYER=MODULE",
        ours.join(", "),
        theirs.join(", ")
    )
}
