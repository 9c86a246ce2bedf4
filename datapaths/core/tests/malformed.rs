//! The fuzz targets' checks over seeded inputs: random bytes, and valid ones with a few bytes changed.

#[path = "../fuzz/entry.rs"]
mod entry;

use anole_datapath::wire::{AlgorithmName, CreateMessage, FieldUpdate, Install, Message, encode};
use anole_model::seed::SplitMix64;

const INPUTS: u64 = 100_000;

fn index(random: &mut SplitMix64, length: usize) -> usize {
    random.below(length as u64) as usize
}

fn bytes(random: &mut SplitMix64, n: u64) -> Vec<u8> {
    (0..n).map(|_| random.bits() as u8).collect()
}

/// Runs a check on one input of a seed, naming both when it fails.
fn run(check: fn(&[u8]), what: &str, seed: u64, input: &[u8]) {
    if let Err(panic) = std::panic::catch_unwind(|| check(input)) {
        eprintln!("{what}, input {seed}: {input:02x?}");
        std::panic::resume_unwind(panic);
    }
}

fn valid_messages() -> Vec<Vec<u8>> {
    let algorithm = AlgorithmName::new("reno").expect("short");
    let create = CreateMessage {
        init_cwnd: 14_480,
        mss: 1448,
        src_ip: 1,
        src_port: 2,
        dst_ip: 3,
        dst_port: 4,
        algorithm,
    };
    let updates = vec![
        FieldUpdate { kind: 2, index: 4, value: 20_000 },
        FieldUpdate { kind: 2, index: 5, value: 1_000_000 },
        FieldUpdate { kind: 0, index: 3, value: 7 },
    ];
    let (expressions, instructions) = valid_program();
    let install = Install { uid: 1, expressions: &expressions, instructions: &instructions };
    let messages = [
        Message::Create(1, create),
        Message::Measure { sid: 1, uid: 1, values: vec![1, 2, 3] },
        Message::Install(install),
        Message::Update(1, updates.clone()),
        Message::ChangeProgram { sid: 1, uid: 1, updates },
        Message::Ready(9),
    ];
    let mut all = Vec::new();
    let mut each: Vec<Vec<u8>> = messages
        .iter()
        .map(|message| {
            let mut bytes = Vec::new();
            encode(message, &mut bytes).expect("within the limits");
            all.extend_from_slice(&bytes);
            bytes
        })
        .collect();
    each.push(all);
    each
}

/// `(def (Report (volatile r 0))) (when true (:= Report.r (+ Report.r Ack.bytes_acked)) (:= Cwnd Report.r) (report))`
fn valid_program() -> (Vec<u8>, Vec<u8>) {
    let expression = [1u32, 1, 2, 4].iter().flat_map(|word| word.to_le_bytes()).collect();
    let instructions = [
        [2u8, 5, 0, 5, 0, 1, 0],
        [1, 2, 0, 2, 0, 1, 1],
        [0, 7, 0, 5, 0, 4, 0],
        [1, 5, 0, 5, 0, 7, 0],
        [1, 2, 4, 2, 4, 5, 0],
        [1, 2, 2, 2, 2, 1, 1],
    ];
    let bytes = instructions.iter().flat_map(|[op, rk, ri, lk, li, yk, yi]| {
        [*op, *rk, *ri, 0, 0, 0, *lk, *li, 0, 0, 0, *yk, *yi, 0, 0, 0]
    });
    (expression, bytes.collect())
}

/// Changes, cuts off, doubles or inserts a few bytes.
fn mutate(r: &mut SplitMix64, bytes: &mut Vec<u8>) {
    for _ in 0..1 + r.below(4) {
        let at = index(r, bytes.len());
        match r.below(8) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, r.bits() as u8),
            2 => bytes.extend_from_within(at..),
            3 if at < bytes.len() => bytes[at] ^= 1 << r.below(8),
            4 if at < bytes.len() => bytes[at] = 0xff,
            _ if at < bytes.len() => bytes[at] = r.below(16) as u8,
            _ => {}
        }
        bytes.truncate(4096);
    }
}

#[test]
fn codec_takes_anything() {
    let valid = valid_messages();
    for message in &valid {
        run(entry::codec, "valid", 0, message);
    }
    for seed in 0..INPUTS {
        let mut random = SplitMix64::new(seed);
        let input = if seed % 4 == 0 {
            let length = random.below(200);
            bytes(&mut random, length)
        } else {
            let mut message = valid[index(&mut random, valid.len())].clone();
            mutate(&mut random, &mut message);
            message
        };
        run(entry::codec, "codec", seed, &input);
    }
}

#[test]
fn installer_takes_anything() {
    let (expressions, instructions) = valid_program();
    for seed in 0..INPUTS {
        let mut random = SplitMix64::new(seed);
        let mut input = Vec::new();
        if seed % 2 == 0 {
            // Random instructions of which many are valid: small numbers in every place.
            let (many_expressions, many_instructions) = (random.below(4), random.below(12));
            input.extend([many_expressions as u8, many_instructions as u8]);
            for _ in 0..many_expressions {
                for _ in 0..4 {
                    input.extend((random.below(5) as u32).to_le_bytes());
                }
            }
            for _ in 0..many_instructions {
                input.push(random.below(15) as u8);
                for _ in 0..3 {
                    input.push(random.below(9) as u8);
                    let index = random.below(8) as u32;
                    input.extend(index.to_le_bytes());
                }
            }
        } else {
            input.extend([1, 6]);
            input.extend(&expressions);
            input.extend(&instructions);
            let length = random.below(3);
            if length > 0 {
                mutate(&mut random, &mut input);
            }
        }
        let length = 16 * random.below(12);
        input.extend(bytes(&mut random, length));
        run(entry::installer, "installer", seed, &input);
    }
}
