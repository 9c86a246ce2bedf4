//! Weights made elsewhere, turned into policy files: those that other projects have released, from NumPy's npz or a
//! TensorFlow 1 checkpoint, without TensorFlow; and those of one's own PyTorch module, from safetensors.

mod bytes;
mod checkpoint;
mod npz;
mod peers;
#[cfg(test)]
mod tests;
mod torch;

use crate::embedded::Embedded;
use crate::error::PolicyError;
use crate::file::{Origin, PolicyFile, Tensor, Tensors};
use crate::network::{Batch, Network as _};
use crate::schema::{self, Schema};
pub use peers::PEERS;
pub use torch::Pairs;

/// A copy of a released model.
#[derive(Clone, Copy, Debug)]
pub enum Released<'a> {
    /// An npz archive.
    Npz(&'a [u8]),
    /// A checkpoint of one shard.
    Checkpoint {
        /// `PREFIX.index`.
        index: &'a [u8],
        /// `PREFIX.data-00000-of-00001`.
        data: &'a [u8],
    },
}

/// A policy file made of one.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The file.
    pub bytes: Vec<u8>,
    /// What a reader finds in it.
    pub file: PolicyFile,
    /// Where the model came with questions and answers (`check_x`, `check_y` of an npz): the largest
    /// difference between these answers and ours.
    pub error: Option<f64>,
}

/// An answer further than this from the known one means that the conversion is wrong: float32 sums of a
/// few hundred terms differ by less than a tenth of it.
pub const TOLERANCE: f64 = 1e-4;

/// Turns `released`, a copy of `peer`'s model, into a policy file. `file` is named in errors, `made_by` goes
/// into the manifest.
pub fn import(peer: &str, released: Released, file: &str, made_by: &str) -> Result<Imported, PolicyError> {
    convert(peer, released, made_by).map_err(|message| PolicyError::Refused(format!("{file}: {message}")))
}

/// Turns the `state_dict` of a PyTorch module, in safetensors, into a policy file of `schema`; `pairs` names the modules of
/// layers where the order of names does not. `file` is named in errors, `made_by` goes into the manifest.
pub fn import_torch(
    schema: &Schema,
    bytes: &[u8],
    pairs: &Pairs,
    file: &str,
    made_by: &str,
) -> Result<Imported, PolicyError> {
    let origin = Origin { trained_by: made_by.to_string(), ..Origin::default() };
    let plain = torch::read(bytes);
    let imported = plain.and_then(|plain| {
        let tensors = torch::tensors(schema, &plain, pairs)?;
        finish(schema, &tensors, &plain, origin)
    });
    imported.map_err(|message| PolicyError::Refused(format!("{file}: {message}")))
}

fn convert(peer: &str, released: Released, made_by: &str) -> Result<Imported, String> {
    let known = PEERS.iter().find(|known| known.name == peer);
    let known = known.ok_or_else(|| {
        let names: Vec<&str> = PEERS.iter().map(|known| known.name).collect();
        format!("no peer is named \"{peer}\"; known are {}", names.join(", "))
    })?;
    let schema = known.schema;
    let schema = schema::builtin(schema).ok_or_else(|| format!("no schema is named \"{schema}\""))?;
    let plain = match released {
        Released::Npz(bytes) => npz::read(bytes)?,
        Released::Checkpoint { index, data } => (known.plain)(&checkpoint::read(index, data)?)?,
    };
    let tensors = (known.tensors)(&plain)?;
    let mut origin = Origin { trained_by: made_by.to_string(), ..Origin::default() };
    origin.training.insert("source".to_string(), known.source.into());
    finish(schema, &tensors, &plain, origin)
}

/// The policy file, where the network in it gives the answers that came with the model.
fn finish(schema: &Schema, tensors: &Tensors, plain: &Tensors, origin: Origin) -> Result<Imported, String> {
    let bytes = PolicyFile::write(schema, origin, tensors);
    let refused = |error: PolicyError| error.to_string();
    let file = PolicyFile::read(&bytes, "the network in it").map_err(refused)?;
    let network = Embedded::new(&file).map_err(refused)?;
    let error = match (plain.get("check_x"), plain.get("check_y")) {
        (Some(x), Some(y)) => Some(known_answer(&network, x, y)?),
        (None, None) => None,
        (found, _) => {
            let missing = if found.is_some() { "check_y" } else { "check_x" };
            return Err(format!(
                "its known answers lack {missing}: give both, check_x and check_y, or neither"
            ));
        }
    };
    match error {
        Some(error) if error > TOLERANCE || error.is_nan() => Err(format!(
            "its known answers (check_x, check_y) are missed by {error:.2e}, more than {TOLERANCE:e}"
        )),
        _ => Ok(Imported { bytes, file, error }),
    }
}

/// The largest difference between `y` and what the network answers to each row of `x` as a new flow.
fn known_answer(network: &Embedded, x: &Tensor, y: &Tensor) -> Result<f64, String> {
    let schema = network.schema();
    let rows = x.values.len() / schema.inputs();
    let mut batch = Batch {
        rows,
        inputs: x.values.clone(),
        states: vec![0.0; rows * schema.state()],
        outputs: Vec::new(),
    };
    network.step(&mut batch).map_err(|error| format!("check_x: {error}"))?;
    if batch.outputs.len() != y.values.len() {
        return Err(format!("check_y has {} values for {rows} rows of check_x", y.values.len()));
    }
    let errors = batch.outputs.iter().zip(&y.values).map(|(a, b)| f64::from(a - b).abs());
    Ok(errors.fold(0.0, |worst, error| if error.is_nan() { error } else { error.max(worst) }))
}
