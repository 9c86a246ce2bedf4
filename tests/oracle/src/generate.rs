//! Cases from a grammar: a case is a flow's life with programs, ACKs, updates and program changes.
//!
//! Most programs are written instruction by instruction, so that everything the wire can say is said:
//! all operations on all kinds of registers, expressions that overlap or run definitions, flags set in
//! odd places. Others are source text compiled as an agent compiles it, and the project's own programs.
//! Left out is only what libccp does not define (the runtime refuses it, see its headers).

use crate::oracle::Step;
use anole_datapath::AckSample;
use anole_datapath::wire::{FieldUpdate, Install, Message, encode};
use anole_model::seed::SplitMix64;
use std::fmt::Write;

/// One seed, one sequence.
pub struct Random(SplitMix64);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Random {
        Random(SplitMix64::new(seed))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// A number below `n`, 0 when `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// A word, often one at a border.
    pub fn word(&mut self) -> u32 {
        match self.below(8) {
            0 => 0,
            1 => 1,
            2 => self.pick(&[u32::MAX, 0x3fff_ffff, 0x3fff_fffe, 1 << 31, 10, 11, u32::MAX - 1]),
            3..=5 => self.below(100) as u32,
            6 => self.below(3_000_000) as u32,
            _ => self.bits() as u32,
        }
    }

    /// The same with 64 bits.
    pub fn long(&mut self) -> u64 {
        match self.below(6) {
            0 => self.bits(),
            1 => self.pick(&[u64::MAX, u64::MAX - 1, 1 << 32, (1 << 32) - 1, 1 << 63]),
            _ => u64::from(self.word()),
        }
    }
}

/// Expressions and instructions as INSTALL carries them.
#[derive(Clone, Debug)]
pub struct Code {
    /// Expressions, 16 bytes each.
    pub expressions: Vec<u8>,
    /// Instructions, 16 bytes each.
    pub instructions: Vec<u8>,
}

impl Code {
    /// What a compiler made, its first `expressions` × 16 bytes the expressions.
    pub fn compiled(code: &[u8], expressions: u32) -> Code {
        let (expressions, instructions) = code.split_at(16 * expressions as usize);
        Code { expressions: expressions.to_vec(), instructions: instructions.to_vec() }
    }
}

/// Programs that were compiled from source.
pub fn compiled_programs(seed: u64, sources: usize) -> Vec<Code> {
    let own = anole_programs::ALL.iter().map(|program| Code::compiled(program.code, program.expressions));
    let mut random = Random::new(seed);
    let generated = (0..sources).map(|_| {
        let source = source(&mut random);
        let compiled = anole_lang::compile(&source).unwrap_or_else(|e| panic!("{e} in\n{source}"));
        Code::compiled(&compiled.code, compiled.expressions)
    });
    own.chain(generated).collect()
}

/// The steps of one case.
pub fn case(seed: u64, compiled: &[Code]) -> Vec<Step> {
    let mut random = Random::new(seed);
    let r = &mut random;
    let mss = 1 + r.below(9000) as u32;
    let mut now_us = r.below(1 << 40);
    let mut steps = vec![Step::Start { now_us, init_cwnd: mss * (2 + r.below(50) as u32), mss }];
    // The first program's id is 1, which clears what an earlier case left.
    let programs = 1 + r.below(3) as u32;
    for uid in 1..=programs {
        let code =
            if r.one_in(5) { compiled[r.below(compiled.len() as u64) as usize].clone() } else { code(r) };
        let install = Install { uid, expressions: &code.expressions, instructions: &code.instructions };
        steps.push(message(&Message::Install(install)));
    }
    steps.push(change(r, programs));
    for _ in 0..2 + r.below(10) {
        match r.below(12) {
            0 => steps.push(change(r, programs)),
            1 | 2 => steps.push(message(&Message::Update(1, updates(r)))),
            _ => {}
        }
        now_us += match r.below(10) {
            0 => 0,
            1 => r.below(10_000_000),
            _ => r.below(20_000),
        };
        steps.push(Step::Ack { now_us, sample: sample(r) });
    }
    steps
}

/// A message with bytes changed, cut off or added; its header's length follows, mostly.
pub fn damaged(r: &mut Random, mut bytes: Vec<u8>) -> Vec<u8> {
    for _ in 0..r.below(4) {
        let at = r.below(bytes.len() as u64) as usize;
        match (r.below(8), bytes.get_mut(at)) {
            (0..3, Some(byte)) => *byte = r.pick(&[0, 1, 2, 7, 110, 222, 255]),
            (3..5, Some(byte)) => *byte ^= 1 << r.below(8),
            (5, _) => bytes.truncate(at),
            (6, _) => bytes.extend((0..1 + r.below(32)).map(|_| r.bits() as u8)),
            _ => bytes.extend_from_within(at..),
        }
    }
    if !r.one_in(4) && bytes.len() >= 4 {
        let length = (bytes.len() as u16).to_le_bytes();
        bytes[2..4].copy_from_slice(&length);
    }
    bytes
}

fn message(message: &Message<'_>) -> Step {
    let mut bytes = Vec::new();
    encode(message, &mut bytes).expect("the grammar keeps within the limits");
    Step::Message(bytes)
}

fn change(r: &mut Random, programs: u32) -> Step {
    let uid = 1 + r.below(u64::from(programs)) as u32;
    message(&Message::ChangeProgram { sid: 1, uid, updates: updates(r) })
}

fn updates(r: &mut Random) -> Vec<FieldUpdate> {
    (0..r.below(5))
        .map(|_| {
            let kind = r.pick(&[0, 8, 2]);
            let index = match kind {
                2 => r.pick(&[4, 5, 4, 5, 4, 5, 0, 3, 99]),
                _ => index(r, 110),
            };
            FieldUpdate { kind, index, value: r.long() }
        })
        .collect()
}

fn sample(r: &mut Random) -> AckSample {
    AckSample {
        bytes_acked: r.word(),
        packets_acked: r.word(),
        bytes_misordered: r.word(),
        packets_misordered: r.word(),
        ecn_bytes: r.word(),
        ecn_packets: r.word(),
        lost_packets: r.word(),
        was_timeout: r.one_in(4),
        rtt_us: r.long(),
        rate_outgoing: r.long(),
        rate_incoming: r.long(),
        bytes_in_flight: Some(r.word()),
        packets_in_flight: r.word(),
        bytes_pending: r.word(),
        app_limited: false,
    }
}

fn index(r: &mut Random, limit: u32) -> u32 {
    if r.one_in(12) { r.below(u64::from(limit)) as u32 } else { r.below(u64::from(limit.min(4))) as u32 }
}

const DEF: u8 = 2;
const OPS: [u8; 14] = [0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];

fn code(r: &mut Random) -> Code {
    let mut instructions = Vec::new();
    let mut expressions = Vec::new();
    let scale = if r.one_in(60) { 25 } else { 1 };
    for _ in 0..r.below(8) {
        definition(r, &mut instructions);
    }
    let count = |instructions: &Vec<u8>| instructions.len() as u32 / 16;
    for _ in 0..1 + r.below(4) {
        let condition = count(&instructions);
        for _ in 0..r.below(3) {
            instruction(r, &mut instructions, None);
        }
        if !r.one_in(10) {
            instruction(r, &mut instructions, Some((2, 0)));
        }
        let event = count(&instructions);
        for _ in 0..r.below(8 * scale) {
            // Flags and Micros now and then, so that programs fall through, report and restart.
            let result = match r.below(12) {
                0 => Some((2, 1)),
                1 => Some((2, 2)),
                2 => Some((2, 3)),
                _ => None,
            };
            instruction(r, &mut instructions, result);
        }
        let end = count(&instructions);
        expressions.push([condition, event - condition, event, end - event]);
    }
    instructions.truncate(16 * 255);
    let total = count(&instructions);
    for words in &mut expressions {
        if r.one_in(12) || words[2] + words[3] > total {
            let range = |r: &mut Random| {
                let start = r.below(u64::from(total) + 1) as u32;
                (start, r.below(u64::from(total - start) + 1) as u32)
            };
            let ((condition, conditions), (event, events)) = (range(r), range(r));
            *words = [condition, conditions, event, events];
        }
    }
    let expressions = expressions.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
    Code { expressions, instructions }
}

fn put(out: &mut Vec<u8>, op: u8, result: (u8, u32), left: (u8, u32), right: (u8, u32)) {
    out.push(op);
    for (kind, index) in [result, left, right] {
        out.push(kind);
        out.extend_from_slice(&index.to_le_bytes());
    }
}

fn definition(r: &mut Random, out: &mut Vec<u8>) {
    let kind = r.pick(&[0, 8, 5, 6, 5, 6, 3, 7]);
    let limit = if matches!(kind, 3 | 7) { 8 } else { 110 };
    let register = (kind, index(r, limit));
    let initial = (1, r.word());
    put(out, DEF, register, register, initial);
}

fn instruction(r: &mut Random, out: &mut Vec<u8>, result: Option<(u8, u32)>) {
    let op = if r.one_in(60) { DEF } else { r.pick(&OPS) };
    let result = result.unwrap_or_else(|| register(r, &[0, 8, 2, 3, 3, 5, 6, 7, 7, 7]));
    let left = register(r, &[0, 1, 1, 1, 2, 3, 4, 4, 5, 6, 7, 7, 8]);
    let right = if op == DEF { (1, r.word()) } else { register(r, &[0, 1, 1, 1, 2, 3, 4, 4, 5, 6, 7, 7, 8]) };
    put(out, op, result, left, right);
}

fn register(r: &mut Random, kinds: &[u8]) -> (u8, u32) {
    let kind = r.pick(kinds);
    let index = match kind {
        1 => r.word(),
        2 => r.below(6) as u32,
        3 | 7 => r.below(8) as u32,
        4 => r.below(15) as u32,
        _ => index(r, 110),
    };
    (kind, index)
}

const NUMBERS: [&str; 18] = [
    "Ack.bytes_acked",
    "Ack.now",
    "Ack.packets_acked",
    "Ack.lost_pkts_sample",
    "Flow.rtt_sample_us",
    "Flow.rate_incoming",
    "Flow.rate_outgoing",
    "Flow.bytes_in_flight",
    "Micros",
    "Cwnd",
    "Rate",
    "0",
    "1",
    "7",
    "1000",
    "50000",
    "knob",
    "dial",
];

/// A program as an agent would write it; at most four temporaries deep.
fn source(r: &mut Random) -> String {
    let mut out = String::from("(def (knob 3) (volatile dial 9) (Report");
    let reports = 1 + r.below(5);
    for n in 0..reports {
        let initial = r.pick(&["0", "1", "+infinity", "5000"]);
        if r.one_in(3) {
            write!(out, " (r{n} {initial})").expect("writing to a String");
        } else {
            write!(out, " (volatile r{n} {initial})").expect("writing to a String");
        }
    }
    out.push_str("))\n");
    for _ in 0..1 + r.below(3) {
        let condition = if r.one_in(3) { "true".to_string() } else { condition(r, reports) };
        writeln!(out, "(when {condition}").expect("writing to a String");
        for _ in 0..1 + r.below(5) {
            let target = match r.below(8) {
                0 => "Cwnd".to_string(),
                1 => "Rate".to_string(),
                2 => "Micros".to_string(),
                3 => "knob".to_string(),
                _ => format!("Report.r{}", r.below(reports)),
            };
            let value = if target.starts_with("Report") && r.one_in(3) {
                match r.below(3) {
                    0 => format!("(ewma {} {})", r.below(11), number(r, reports, 2)),
                    1 => format!("(if {} {})", self::condition(r, reports), number(r, reports, 1)),
                    _ => format!("(!if {} {})", self::condition(r, reports), number(r, reports, 1)),
                }
            } else {
                number(r, reports, 3)
            };
            writeln!(out, "  (:= {target} {value})").expect("writing to a String");
        }
        out.push_str(r.pick(&["  (report))\n", "  (fallthrough))\n", "  (report) (fallthrough))\n", ")\n"]));
    }
    out
}

fn condition(r: &mut Random, reports: u64) -> String {
    let compare = |r: &mut Random| {
        let op = r.pick(&[">", "<", "=="]);
        format!("({op} {} {})", number(r, reports, 1), number(r, reports, 1))
    };
    if r.one_in(3) {
        let op = r.pick(&["&&", "||"]);
        format!("({op} {} {})", compare(r), compare(r))
    } else {
        compare(r)
    }
}

fn number(r: &mut Random, reports: u64, depth: u32) -> String {
    if depth == 0 || r.one_in(3) {
        return if r.one_in(3) { format!("Report.r{}", r.below(reports)) } else { r.pick(&NUMBERS).into() };
    }
    let op = r.pick(&["+", "-", "*", "/", "max", "min", "wrapped_max"]);
    format!("({op} {} {})", number(r, reports, depth - 1), number(r, reports, depth - 1))
}
