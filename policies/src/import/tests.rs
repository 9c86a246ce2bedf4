//! Small archives and checkpoints made here, byte by byte; and the real ones, where they are at hand.

use super::bytes::{CRC32, CRC32C, crc};
use super::*;
use crate::file::Tensors;
use proptest::prelude::*;

/// A matrix or vector of a fixed pattern.
fn tensor(shape: &[usize], seed: usize) -> Tensor {
    let length = shape.iter().product();
    let value = |n: usize| ((n * 7919 + seed * 104_729) % 2003) as f32 / 2003.0 - 0.5;
    Tensor { shape: shape.to_vec(), values: (0..length).map(value).collect() }
}

fn named(tensors: &[(&str, &[usize])]) -> Tensors {
    let tensors = tensors.iter().enumerate();
    tensors.map(|(seed, (name, shape))| (name.to_string(), tensor(shape, seed))).collect()
}

/// An npz as `numpy.savez` writes it.
fn npz(tensors: &Tensors) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, tensor) in tensors {
        let axes: String = tensor.shape.iter().map(|axis| format!("{axis}, ")).collect();
        let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({axes}), }}\n");
        let data = tensor.values.iter().flat_map(|value| value.to_le_bytes());
        let mut npy = b"\x93NUMPY\x01\x00".to_vec();
        npy.extend((header.len() as u16).to_le_bytes());
        npy.extend(header.into_bytes().into_iter().chain(data));
        let name = format!("{name}.npy");
        let size = (npy.len() as u32).to_le_bytes();
        // Version, flags, method, time and date are zeros; then checksum, sizes, lengths of name and extra.
        let mut common = vec![0; 10];
        common.extend(crc(CRC32, &npy).to_le_bytes().into_iter().chain(size).chain(size));
        common.extend((name.len() as u16).to_le_bytes().into_iter().chain([0; 2]));
        let offset = (archive.len() as u32).to_le_bytes();
        archive.extend([b"PK\x03\x04", common.as_slice(), name.as_bytes(), &npy].concat());
        let entry: [&[u8]; 6] = [b"PK\x01\x02\0\0", &common, &[0; 10], &offset, name.as_bytes(), &[]];
        directory.extend(entry.concat());
    }
    let count = (tensors.len() as u16).to_le_bytes();
    let (size, start) = ((directory.len() as u32).to_le_bytes(), (archive.len() as u32).to_le_bytes());
    let end: [&[u8]; 7] = [b"PK\x05\x06", &[0; 4], &count, &count, &size, &start, &[0; 2]];
    [archive, directory, end.concat()].concat()
}

fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn masked(bytes: &[u8]) -> [u8; 4] {
    crc(CRC32C, bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

/// A block of the index; keys share what they can with the one before.
fn block(entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut block = Vec::new();
    let mut before: &[u8] = &[];
    for (key, value) in entries {
        let shared = before.iter().zip(key).take_while(|(a, b)| a == b).count();
        let lengths = [varint(shared), varint(key.len() - shared), varint(value.len())].concat();
        block.extend([&lengths, &key[shared..], value].concat());
        before = key;
    }
    block.extend([0, 0, 0, 0, 1, 0, 0, 0]);
    block
}

/// Index and data of a checkpoint.
fn checkpoint(tensors: &Tensors) -> (Vec<u8>, Vec<u8>) {
    let mut data = Vec::new();
    let mut entries = vec![(Vec::new(), vec![0x08, 0x01])];
    for (name, tensor) in tensors {
        let bytes: Vec<u8> = tensor.values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let axis = |&length: &usize| {
            let axis = [vec![0x08], varint(length)].concat();
            [vec![0x12], varint(axis.len()), axis].concat()
        };
        let shape: Vec<u8> = tensor.shape.iter().flat_map(axis).collect();
        let entry = [
            vec![0x08, 0x01, 0x12],
            varint(shape.len()),
            shape,
            [vec![0x20], varint(data.len()), vec![0x28], varint(bytes.len())].concat(),
            [vec![0x35], masked(&bytes).to_vec()].concat(),
        ];
        entries.push((name.clone().into_bytes(), entry.concat()));
        data.extend(bytes);
    }
    // An int64 among them, as every checkpoint has.
    entries.push((b"zz/step".to_vec(), [vec![0x08, 0x09, 0x20], varint(data.len()), vec![0x28, 8]].concat()));
    data.extend([0; 8]);
    (index(&entries), data)
}

/// An index with these entries, in two blocks.
fn index(entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    index_with(entries, 0)
}

/// The same, whose first block is named some times again.
fn index_with(entries: &[(Vec<u8>, Vec<u8>)], again: usize) -> Vec<u8> {
    let mut index = Vec::new();
    let append = |index: &mut Vec<u8>, content: Vec<u8>| {
        let handle = [varint(index.len()), varint(content.len())].concat();
        let content = [content, vec![0]].concat();
        let checksum = masked(&content);
        index.extend(content.into_iter().chain(checksum));
        handle
    };
    let (first, second) = entries.split_at(entries.len() / 2);
    let parts = [first, second].into_iter().filter(|part| !part.is_empty());
    let mut handles: Vec<_> =
        parts.map(|part| (part[part.len() - 1].0.clone(), append(&mut index, block(part)))).collect();
    handles.extend(vec![handles[0].clone(); again]);
    let meta = append(&mut index, block(&[]));
    let mut footer = [meta, append(&mut index, block(&handles))].concat();
    footer.resize(40, 0);
    index.extend(footer.into_iter().chain(0xdb47_7524_8b80_fb57_u64.to_le_bytes()));
    index
}

fn imported(peer: &str, plain: &Tensors) -> Result<Imported, String> {
    import(peer, Released::Npz(&npz(plain)), "a.npz", "a test").map_err(|error| error.to_string())
}

fn orca_plain() -> Tensors {
    named(&[
        ("W0", &[70, 256]),
        ("W1", &[256, 256]),
        ("W2", &[256, 1]),
        ("b0", &[256]),
        ("b1", &[256]),
        ("b2", &[1]),
    ])
}

/// x·W + b with W [inputs, units], in double precision.
fn linear(x: &[f64], weights: &Tensor, bias: &Tensor) -> Vec<f64> {
    let units = weights.shape[1];
    let product = |unit: usize, k: usize| x[k] * f64::from(weights.values[k * units + unit]);
    let sum = |unit: usize| -> f64 { (0..x.len()).map(|k| product(unit, k)).sum() };
    (0..units).map(|unit| f64::from(bias.values[unit]) + sum(unit)).collect()
}

fn step(policy: &Imported, input: &[f32], state: &mut Vec<f32>) -> Vec<f32> {
    let network = Embedded::new(&policy.file).unwrap();
    state.resize(network.schema().state(), 0.0);
    let mut batch = Batch { rows: 1, inputs: input.to_vec(), states: state.clone(), outputs: Vec::new() };
    network.step(&mut batch).unwrap();
    *state = batch.states;
    batch.outputs
}

#[test]
fn checksums_are_the_standard_ones() {
    assert_eq!(crc(CRC32, b"123456789"), 0xcbf4_3926);
    assert_eq!(crc(CRC32C, b"123456789"), 0xe306_9283);
}

#[test]
fn dense_networks_of_an_npz_compute_what_their_matrices_mean() {
    let mut plain = orca_plain();
    plain.values_mut().for_each(|tensor| tensor.values.iter_mut().for_each(|value| *value *= 0.1));
    let input: Vec<f32> = tensor(&[70], 9).values;
    let mut x: Vec<f64> = input.iter().map(|&x| f64::from(x)).collect();
    for n in 0..3 {
        x = linear(&x, &plain[&format!("W{n}")], &plain[&format!("b{n}")]);
        x.iter_mut().for_each(|x| *x = if n == 2 { x.tanh() } else { x.max(0.2 * *x) });
    }
    let policy = imported("orca", &plain).unwrap();
    assert_eq!(policy.error, None);
    let output = step(&policy, &input, &mut Vec::new());
    assert!((f64::from(output[0]) - x[0]).abs() < 1e-6, "{output:?} for {x:?}");
    assert!(x[0].abs() > 1e-3, "a network that says something");
    assert_eq!(PolicyFile::read(&policy.bytes, "a").unwrap(), policy.file);
    assert_eq!(policy.file.manifest.trained_by, "a test");

    plain.insert("check_x".into(), Tensor { shape: vec![1, 70], values: input });
    plain.insert("check_y".into(), Tensor { shape: vec![1, 1], values: vec![x[0] as f32] });
    assert!(imported("orca", &plain).unwrap().error.unwrap() < 1e-6);
    plain.get_mut("check_y").unwrap().values[0] += 0.01;
    let refusal = imported("orca", &plain).unwrap_err();
    assert!(refusal.starts_with("a.npz: its known answers (check_x, check_y) are missed by"), "{refusal}");
}

#[test]
fn batch_normalisation_is_folded_in() {
    let mut variables = named(&[
        ("actor/fc1/kernel", &[50, 256]),
        ("actor/fc1/bias", &[256]),
        ("actor/fc2/kernel", &[256, 128]),
        ("actor/fc2/bias", &[128]),
        ("actor/fc3/kernel", &[128, 64]),
        ("actor/fc3/bias", &[64]),
        ("actor/dense/kernel", &[64, 1]),
        ("actor/dense/bias", &[1]),
        ("critic/fc1/kernel", &[50, 256]),
    ]);
    for (n, units) in [256, 128, 64].into_iter().enumerate() {
        let suffix = if n == 0 { String::new() } else { format!("_{n}") };
        for (seed, statistic) in ["beta", "moving_mean", "moving_variance"].into_iter().enumerate() {
            let mut values = tensor(&[units], 10 * n + seed + 50);
            if statistic == "moving_variance" {
                values.values.iter_mut().for_each(|value| *value += 10.0);
            }
            variables.insert(format!("actor/batch_normalization{suffix}/{statistic}"), values);
        }
    }
    let input = tensor(&[50], 99).values;
    let mut x: Vec<f64> = input.iter().map(|&x| f64::from(x)).collect();
    for (n, layer) in ["fc1", "fc2", "fc3", "dense"].into_iter().enumerate() {
        let of = |what: &str| &variables[&format!("actor/{layer}/{what}")];
        x = linear(&x, of("kernel"), of("bias"));
        if layer == "dense" {
            x.iter_mut().for_each(|x| *x = x.tanh());
            continue;
        }
        let suffix = if n == 0 { String::new() } else { format!("_{n}") };
        let of = |what: &str| &variables[&format!("actor/batch_normalization{suffix}/{what}")].values;
        for (unit, x) in x.iter_mut().enumerate() {
            let [beta, mean, variance] =
                ["beta", "moving_mean", "moving_variance"].map(|what| f64::from(of(what)[unit]));
            *x = (*x - mean) / (variance + 1e-3).sqrt() + beta;
            *x = x.max(0.2 * *x);
        }
    }
    let (index, data) = checkpoint(&variables);
    let released = Released::Checkpoint { index: &index, data: &data };
    let policy = import("astraea", released, "model", "a test").unwrap();
    let output = step(&policy, &input, &mut Vec::new());
    assert!((f64::from(output[0]) - x[0]).abs() < 1e-5, "{output:?} for {x:?}");
    assert!((0.001..0.999).contains(&x[0].abs()), "{x:?}");
}

#[test]
fn the_gates_of_an_lstm_are_put_into_pytorchs_order() {
    let plain = named(&[("lstm_kernel", &[41, 128]), ("lstm_bias", &[128]), ("W", &[32, 5]), ("b", &[5])]);
    let policy = imported("indigo", &plain).unwrap();
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let (mut h, mut c) = (vec![0.0; 32], vec![0.0; 32]);
    let mut state = Vec::new();
    let mut chosen = Vec::new();
    for n in 0..200 {
        let input = tensor(&[9], n).values;
        let seen: Vec<f64> = input.iter().map(|&x| f64::from(x)).chain(h.iter().copied()).collect();
        let gates = linear(&seen, &plain["lstm_kernel"], &plain["lstm_bias"]);
        for unit in 0..32 {
            let [i, j, f, o] = [0, 1, 2, 3].map(|gate| gates[32 * gate + unit]);
            c[unit] = sigmoid(f + 1.0) * c[unit] + sigmoid(i) * j.tanh();
            h[unit] = sigmoid(o) * f64::tanh(c[unit]);
        }
        let scores = linear(&h, &plain["W"], &plain["b"]);
        let best = (0..5).fold(0, |best, n| if scores[n] > scores[best] { n } else { best });
        assert_eq!(step(&policy, &input, &mut state), [best as f32]);
        chosen.push(best);
    }
    assert!(chosen.iter().any(|best| *best != chosen[0]), "more than one choice was seen");
    assert!((0..32).all(|unit| (f64::from(state[unit]) - h[unit]).abs() < 1e-5));
}

#[test]
fn auroras_checkpoint_is_read_by_its_names() {
    let variables = named(&[
        ("model/pi_fc0/w", &[30, 32]),
        ("model/pi_fc0/b", &[32]),
        ("model/pi_fc1/w", &[32, 16]),
        ("model/pi_fc1/b", &[16]),
        ("model/pi/w", &[16, 1]),
        ("model/pi/b", &[1]),
        ("oldpi/pi/w", &[16, 1]),
    ]);
    let (index, data) = checkpoint(&variables);
    let policy = import("aurora", Released::Checkpoint { index: &index, data: &data }, "m", "t").unwrap();
    assert_eq!(policy.file.tensors["layers.2.weight"].values, variables["model/pi/w"].values);
    assert_eq!(policy.file.tensors["layers.0.weight"].values[1], variables["model/pi_fc0/w"].values[32]);
}

#[test]
fn refusals_say_what_is_wrong() {
    let refused =
        |peer, bytes: &[u8]| import(peer, Released::Npz(bytes), "a.npz", "t").unwrap_err().to_string();
    let valid = npz(&orca_plain());
    let expect = |refusal: String, message: &str| assert!(refusal.contains(message), "{refusal}");
    expect(refused("orka", &valid), "no peer is named \"orka\"; known are orca, indigo, aurora, astraea");
    expect(refused("orca", b"hello"), "a.npz: no whole npz archive");
    expect(refused("orca", &valid[..valid.len() - 30]), "no whole npz archive");
    expect(refused("indigo", &valid), "it has no lstm_kernel; it has W0, W1, W2, b0");
    expect(
        refused("aurora", &valid),
        "tensor layers.0.weight has shape [256, 70], its schema means [32, 30]",
    );
    let mut damaged = valid.clone();
    damaged[200] ^= 1;
    expect(refused("orca", &damaged), "array W0 is damaged: its checksum differs");
    // The directory, behind which come 22 bytes, names each array twice.
    let (whole, end) = valid.split_at(valid.len() - 22);
    let directory = u32::from_le_bytes(end[16..20].try_into().unwrap()) as usize;
    let mut twice = [whole, &whole[directory..], end].concat();
    let count = twice.len() - 22 + 10;
    twice[count] *= 2;
    expect(refused("orca", &twice), "array W0: the data is truncated, or belongs to others as well");
    let mut nan = orca_plain();
    nan.get_mut("b1").unwrap().values[3] = f32::NAN;
    expect(imported("orca", &nan).unwrap_err(), "weight 3 of tensor layers.1.bias is NaN");
    let mut odd = orca_plain();
    odd.get_mut("b1").unwrap().shape = vec![255];
    expect(imported("orca", &odd).unwrap_err(), "array b1: 1024 bytes for shape [255]");

    let (index, data) = checkpoint(&orca_plain());
    let refused = |index: &[u8], data: &[u8]| {
        import("orca", Released::Checkpoint { index, data }, "m", "t").unwrap_err().to_string()
    };
    expect(refused(&index, &data), "m: it has no actor/fc1/kernel; it has W0, W1");
    expect(refused(&index[..100], &data), "no index of a TensorFlow checkpoint");
    expect(refused(&index, &data[..1000]), "variable W0: the data is truncated");
    let mut damaged = data.clone();
    damaged[5] ^= 1;
    expect(refused(&index, &damaged), "variable W0: the data is damaged: its checksum differs");
    let mut damaged = index.clone();
    damaged[5] ^= 1;
    expect(refused(&damaged, &data), "the checkpoint's index is damaged: a checksum differs");
}

#[test]
fn an_index_that_would_be_read_over_and_over_is_refused() {
    let refused = |index: &[u8]| {
        let weights = Released::Checkpoint { index, data: &[] };
        import("orca", weights, "m", "t").unwrap_err().to_string()
    };
    // Each key is the one before and a letter more: the square of the index's length in keys.
    let key = |length: usize| (vec![b'a'; length], Vec::new());
    let growing: Vec<_> = (1..8000).map(key).collect();
    let index = index(&growing);
    assert!(index.len() < 60_000, "{}", index.len());
    assert_eq!(refused(&index), "m: the checkpoint's index is damaged");
    let twice = index_with(&(1..100).map(key).collect::<Vec<_>>(), 2);
    assert_eq!(refused(&twice), "m: the checkpoint's index is damaged: its blocks overlap");
}

/// The archives of `ANOLE_PEERS`, a folder with `orca.npz` and `indigo.npz`.
#[test]
#[allow(clippy::disallowed_methods, reason = "a test reads its files and its switch")]
fn released_weights_give_their_known_answers() {
    let Ok(folder) = std::env::var("ANOLE_PEERS") else { return };
    for peer in ["orca", "indigo"] {
        let bytes = std::fs::read(format!("{folder}/{peer}.npz")).unwrap();
        let policy = import(peer, Released::Npz(&bytes), peer, "t").unwrap();
        assert_eq!(policy.error.is_some(), peer == "orca");
        assert!(policy.error.unwrap_or(0.0) < 1e-6, "{:?}", policy.error);
    }
}

proptest! {
    #[test]
    fn no_change_of_a_checkpoint_panics(
        at in any::<prop::sample::Index>(), byte in any::<u8>(), end in any::<prop::sample::Index>(),
    ) {
        let (index, data) = checkpoint(&named(&[("a/b", &[3, 4]), ("a/c", &[4]), ("d", &[])]));
        let mut changed = index.clone();
        let at = at.index(changed.len());
        changed[at] = byte;
        let _ = checkpoint::read(&changed, &data);
        prop_assert!(checkpoint::read(&index[..end.index(index.len())], &data).is_err());
        prop_assert!(checkpoint::read(&index, &data).is_ok());
    }

    /// Behind the checksums: buffers of any bytes, as a variable and as the place of a block.
    #[test]
    fn no_entry_panics(value in proptest::collection::vec(any::<u8>(), 0..60), byte in any::<u8>()) {
        let entry = (b"x".to_vec(), value.clone());
        let _ = checkpoint::read(&index(&[entry]), &[0; 64]);
        let entry = (b"x".to_vec(), [vec![0x08, 1, 0x20, byte], value].concat());
        let _ = checkpoint::read(&index(&[entry]), &[0; 64]);
    }

    #[test]
    fn no_change_of_an_npz_panics(at in any::<prop::sample::Index>(), bytes in any::<[u8; 4]>()) {
        let mut archive = npz(&named(&[("a", &[3, 4]), ("b", &[4])]));
        let at = at.index(archive.len() - 4);
        archive[at..at + 4].copy_from_slice(&bytes);
        let _ = npz::read(&archive);
    }
}

mod of_torch {
    use super::*;
    use crate::schema::Schema;

    /// A safetensors file as the library of that name writes it: without a manifest, in this type.
    fn safetensors(tensors: &Tensors, dtype: &str) -> Vec<u8> {
        let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
        for (name, tensor) in tensors {
            let start = data.len();
            for value in &tensor.values {
                match dtype {
                    "F64" => data.extend(f64::from(*value).to_le_bytes()),
                    "BF16" => data.extend(((value.to_bits() >> 16) as u16).to_le_bytes()),
                    _ => data.extend(value.to_le_bytes()),
                }
            }
            let entry = serde_json::json!({"dtype": dtype, "shape": tensor.shape, "data_offsets": [start, data.len()]});
            header.insert(name.clone(), entry);
        }
        let header = serde_json::Value::Object(header).to_string();
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
    }

    fn schema() -> Schema {
        let layers = [("dense", 12), ("layer-norm", 12), ("gru", 12), ("add", 12), ("dense", 1)];
        let layer = |(kind, units): (&str, usize)| {
            let of = if kind == "add" { "of = 1\n" } else { "" };
            format!("[[network.layer]]\nkind = \"{kind}\"\nunits = {units}\n{of}")
        };
        let layers: String = layers.map(layer).concat();
        crate::embedded::tests::schema(
            &format!("kind = \"sequential\"\nhead = \"direct\"\n{layers}"),
            crate::embedded::tests::RATE,
        )
    }

    /// A module whose names say nothing of the schema's.
    fn module() -> Tensors {
        named(&[
            ("net.0.weight", &[12, 12]),
            ("net.0.bias", &[12]),
            ("net.2.weight", &[12]),
            ("net.2.bias", &[12]),
            ("net.10.weight_ih_l0", &[36, 12]),
            ("net.10.weight_hh_l0", &[36, 12]),
            ("net.10.bias_ih_l0", &[36]),
            ("net.10.bias_hh_l0", &[36]),
            ("out.weight", &[1, 12]),
        ])
    }

    fn taken(tensors: &Tensors, dtype: &str, pairs: &[(&str, &str)]) -> Result<Imported, String> {
        let pairs = pairs.iter().map(|(layer, module)| (layer.to_string(), module.to_string())).collect();
        import_torch(&schema(), &safetensors(tensors, dtype), &pairs, "m", "a test")
            .map_err(|e| e.to_string())
    }

    #[test]
    fn modules_are_paired_with_layers_in_the_order_of_their_names() {
        let model = module();
        let imported = taken(&model, "F32", &[]).unwrap();
        let tensor = |name: &str| &imported.file.tensors[name];
        assert_eq!(tensor("layers.0.weight"), &model["net.0.weight"]);
        assert_eq!(tensor("layers.1.bias"), &model["net.2.bias"]);
        assert_eq!(tensor("layers.2.weight_hh"), &model["net.10.weight_hh_l0"]);
        // A layer without bias.
        assert_eq!(tensor("layers.4.bias").values, [0.0]);
        assert_eq!(taken(&model, "F64", &[]).unwrap().file.tensors, imported.file.tensors);
        let cut = taken(&model, "BF16", &[]).unwrap().file.tensors;
        assert!((cut["layers.0.weight"].values[5] / tensor("layers.0.weight").values[5] - 1.0).abs() < 1e-2);
    }

    #[test]
    fn other_orders_are_told() {
        let mut model = module();
        let renamed: Vec<String> = model.keys().filter(|name| name.starts_with("net.0.")).cloned().collect();
        for name in renamed {
            let tensor = model.remove(&name).unwrap();
            model.insert(name.replace("net.0", "zero"), tensor);
        }
        let error = taken(&model, "F32", &[]).unwrap_err();
        assert!(error.contains("layers.0 takes [12, 12]") && error.contains("--map LAYER=MODULE"), "{error}");
        let imported = taken(&model, "F32", &[("layers.0", "zero")]).unwrap();
        assert_eq!(imported.file.tensors["layers.0.weight"], model["zero.weight"]);
        let error = taken(&model, "F32", &[("layers.0", "none")]).unwrap_err();
        assert!(error.contains("the model has no such module"), "{error}");
        let error = taken(&model, "F32", &[("layers.3", "zero")]).unwrap_err();
        assert!(error.contains("--map layers.3"), "{error}");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut model = module();
        model.insert("extra.weight".to_string(), tensor(&[3], 1));
        assert!(taken(&model, "F32", &[]).is_err());
        let mut model = module();
        model.insert("net.2.running_mean".to_string(), tensor(&[12], 1));
        let error = taken(&model, "F32", &[]).unwrap_err();
        assert!(error.contains("net.2.running_mean is no tensor of layers.1"), "{error}");
        let error = import_torch(&schema(), b"PK\x03\x04", &Pairs::new(), "m.pt", "a test").unwrap_err();
        assert!(error.to_string().contains("safetensors.torch.save_file"), "{error}");
        let error = taken(&module(), "F16", &[]).unwrap_err();
        assert!(error.contains("of type F16; write float32"), "{error}");
        let entry = |from: usize| serde_json::json!({"dtype": "F32", "shape": [2 - from / 4], "data_offsets": [from, 8]});
        let header = serde_json::json!({"a": entry(0), "b": entry(4)}).to_string();
        let shared = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 8]].concat();
        let error = import_torch(&schema(), &shared, &Pairs::new(), "m", "a test").unwrap_err();
        assert!(
            error.to_string().contains("tensor b: the data is truncated, or belongs to others"),
            "{error}"
        );
    }

    #[test]
    fn known_answers_are_checked() {
        let mut model = module();
        let network = Embedded::new(&taken(&model, "F32", &[]).unwrap().file).unwrap();
        let x = tensor(&[2, 12], 9);
        let mut batch =
            Batch { rows: 2, inputs: x.values.clone(), states: vec![0.0; 24], outputs: Vec::new() };
        network.step(&mut batch).unwrap();
        model.insert("check_x".to_string(), x);
        model.insert("check_y".to_string(), Tensor { shape: vec![2, 1], values: batch.outputs.clone() });
        assert_eq!(taken(&model, "F32", &[]).unwrap().error, Some(0.0));
        model.get_mut("check_y").unwrap().values[1] += 1.0;
        assert!(taken(&model, "F32", &[]).unwrap_err().contains("check_x, check_y"));
        model.remove("check_y");
        assert!(taken(&model, "F32", &[]).unwrap_err().contains("known answers lack check_y"));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = import_torch(&schema(), &bytes, &Pairs::new(), "m", "a test");
            let framed = [&(bytes.len() as u64).to_le_bytes()[..], &bytes].concat();
            let _ = import_torch(&schema(), &framed, &Pairs::new(), "m", "a test");
        }
    }
}
