//! Policy files: what is written is read, and everything else is refused with a message that says why.

use anole_policies::PolicyFile;
use anole_policies::file::{Origin, Tensor, Tensors};
use anole_policies::schema::{Schema, builtin};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

fn tensors(schema: &Schema) -> Tensors {
    let tensor = |(name, shape): (String, Vec<usize>)| {
        let length: usize = shape.iter().product();
        let values = (0..length).map(|n| n as f32 / length as f32 - 0.5).collect();
        (name, Tensor { shape, values })
    };
    schema.tensors().into_iter().map(tensor).collect()
}

fn origin() -> Origin {
    let training = json!({"capacity_mbps": [10, 200], "buffer": "10 KB to 5 MB"});
    Origin {
        training: training.as_object().unwrap().clone(),
        seed: Some(7),
        trained_by: "a test".to_string(),
    }
}

fn valid() -> Vec<u8> {
    let schema = builtin("aurora").unwrap();
    PolicyFile::write(schema, origin(), &tensors(schema))
}

/// A valid file's header, manifest and data, changed and put together again.
fn altered(change: impl Fn(&mut Map<String, Value>, &mut Map<String, Value>, &mut Vec<u8>)) -> Vec<u8> {
    let bytes = valid();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: Map<String, Value> = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let mut data = bytes[8 + length..].to_vec();
    let manifest = header["__metadata__"]["anole"].as_str().unwrap();
    let mut manifest: Map<String, Value> = serde_json::from_str(manifest).unwrap();
    change(&mut header, &mut manifest, &mut data);
    if header.contains_key("__metadata__") {
        header.insert("__metadata__".to_string(), json!({"anole": Value::Object(manifest).to_string()}));
    }
    let header = Value::Object(header).to_string();
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}

fn sha256(bytes: &[u8]) -> Value {
    json!(Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

fn refusal(bytes: &[u8]) -> String {
    PolicyFile::read(bytes, "DIR/a.safetensors").unwrap_err().to_string()
}

#[test]
fn what_is_written_is_read() {
    let schema = builtin("aurora").unwrap();
    let file = PolicyFile::read(&valid(), "a").unwrap();
    assert_eq!(file.schema, *schema);
    assert_eq!(file.tensors, tensors(schema));
    let Origin { training, seed, trained_by } = origin();
    assert_eq!(file.manifest.training, training);
    assert_eq!((file.manifest.seed, file.manifest.trained_by), (seed, trained_by));
    assert!(PolicyFile::read(&altered(|_, _, _| {}), "a").is_ok(), "what alters files alters no more");
}

#[test]
fn every_refusal_names_the_file_and_the_difference() {
    let tensor = |name: &'static str, key: &'static str, value: Value| {
        altered(move |header, _, _| header[name][key] = value.clone())
    };
    let manifest = |key: &'static str, value: Value| {
        altered(move |_, manifest, _| {
            manifest.insert(key.to_string(), value.clone());
        })
    };
    let schema = |from: &'static str, to: &'static str| {
        altered(move |_, manifest, _| {
            let text = manifest["schema"].as_str().unwrap().replacen(from, to, 1);
            manifest["schema_sha256"] = sha256(text.as_bytes());
            manifest["schema"] = json!(text);
        })
    };
    let weight = |value: f32| {
        altered(move |_, manifest, data| {
            data[8..12].copy_from_slice(&value.to_le_bytes());
            manifest["tensors_sha256"] = sha256(data);
        })
    };
    let valid = valid();
    for (bytes, message) in [
        (Vec::new(), "truncated, or no safetensors file: 0 bytes"),
        (valid[..100].to_vec(), "truncated, or no safetensors file: 100 bytes where"),
        (valid[..valid.len() - 1].to_vec(), "truncated or overlong"),
        ([valid.as_slice(), b"x"].concat(), "truncated or overlong"),
        (b"PK\x03\x04 a zip file, say".to_vec(), "a file of torch.save, which can run code"),
        (b"a text, say".to_vec(), "a header of more than 1048576 bytes is announced"),
        (b"{\"boosters\": {}}".to_vec(), "no safetensors file but JSON, as models are for --alg antelope: "),
        ([&5_u64.to_le_bytes(), b"hello".as_slice()].concat(), "the header is no JSON object"),
        (altered(|header, _, _| drop(header.remove("__metadata__"))), "safetensors without a manifest"),
        (manifest("format", json!(2)), "manifest of format 2; this version reads format 1"),
        (manifest("colour", json!("red")), "in the manifest: unknown field `colour`"),
        (altered(|_, m, _| drop(m.remove("trained_by"))), "in the manifest: missing field `trained_by`"),
        (manifest("schema_sha256", json!("00")), "the schema's SHA-256 is "),
        (manifest("tensors_sha256", json!("00")), "the tensors' SHA-256 is "),
        (schema("step = 0.025", "step = 0.5"), "it has `step = 0.5` where this version has `step = 0.025`"),
        (schema("history = 10\n", ""), "it has `[interval]` where this version has `history = 10`"),
        (manifest("name", json!("libra")), "made for another version of schema \"libra\""),
        (
            manifest("name", json!("unknown")),
            "the manifest's name is \"unknown\", its schema means \"aurora\"",
        ),
        (manifest("action", json!("rate-exp")), "the manifest's action is \"rate-exp\", its schema means"),
        (manifest("network", json!({})), "the manifest's network is {}, its schema means {"),
        (tensor("layers.0.bias", "dtype", json!("F16")), "tensor layers.0.bias is of type F16"),
        (
            tensor("layers.1.weight", "shape", json!([32, 16])),
            "tensor layers.1.weight has shape [32, 16], its schema means [16, 32]",
        ),
        (tensor("layers.1.weight", "shape", json!([-1])), "header of tensor layers.1.weight: invalid value"),
        (tensor("layers.0.bias", "data_offsets", json!([4, 132])), "tensor layers.0.bias lies at 4..132"),
        (tensor("layers.0.bias", "data_offsets", json!([0, u64::MAX])), "tensor layers.0.bias lies at 0"),
        (altered(|header, _, _| drop(header.remove("layers.2.bias"))), "tensor layers.2.bias [1] is missing"),
        (
            altered(|header, _, _| {
                let bias = header["layers.2.bias"].clone();
                header.insert("extra".to_string(), bias);
            }),
            "tensor extra is not one of its schema's",
        ),
        (weight(f32::NAN), "weight 2 of tensor layers.0.bias is NaN"),
        (weight(f32::NEG_INFINITY), "weight 2 of tensor layers.0.bias is -inf"),
    ] {
        let refusal = refusal(&bytes);
        assert!(refusal.starts_with("DIR/a.safetensors: "), "{refusal}");
        assert!(refusal.contains(message), "{refusal}\nexpected: {message}");
    }
}

#[test]
fn a_file_with_a_schema_of_its_own_is_read_and_an_oversize_one_is_not() {
    let large = |units: usize| {
        let text = builtin("aurora").unwrap().text.replace("\"aurora\"", "\"mine\"");
        let text = text.replace("units = 32", &format!("units = {units}"));
        let schema = Schema::parse(&text.replace("units = 16", &format!("units = {units}")), "x").unwrap();
        PolicyFile::write(&schema, origin(), &tensors(&schema))
    };
    assert_eq!(PolicyFile::read(&large(64), "a").unwrap().schema.name, "mine");
    assert!(refusal(&large(4096)).contains("the tensors take more than 67108864 bytes"));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(PolicyFile::read(&bytes, "a").is_err());
    }

    #[test]
    fn no_header_panics(header in "\\{\"[a-z_]{1,9}\":[\\[\\]{},:\"a-z0-9]{0,40}\\}", data in any::<[u8; 8]>()) {
        let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat();
        prop_assert!(PolicyFile::read(&bytes, "a").is_err());
    }

    /// Only a change within the header's free text may pass: names of who trained it and how.
    #[test]
    fn a_mutated_file_is_refused_or_holds_the_same_network(
        at in any::<prop::sample::Index>(), byte in any::<u8>(), keep in any::<prop::sample::Index>(),
    ) {
        let mut bytes = valid();
        let truncated = &bytes[..keep.index(bytes.len())];
        prop_assert!(PolicyFile::read(truncated, "a").is_err());
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(file) = PolicyFile::read(&bytes, "a") {
            let schema = builtin("aurora").unwrap();
            prop_assert_eq!(&file.schema, schema);
            prop_assert_eq!(file.tensors, tensors(schema));
        }
    }
}
