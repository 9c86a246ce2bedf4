//! Runs cases on both sides and says where they part.

use crate::bpf::Bpf;
use crate::generate::{self, Code, Random};
use crate::oracle::{Machine, Oracle, Step};
use crate::subject::{REGISTERS, Subject};
use anyhow::{Result, bail};

/// Cases that travel to the machine together.
const BATCH: u64 = 512;
/// Programs compiled from generated source in one run.
const SOURCES: usize = 400;

/// What a run covered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Cases.
    pub cases: u64,
    /// ACKs in them.
    pub acks: u64,
    /// ACKs that were aborted half-way.
    pub aborts: u64,
    /// Reports sent.
    pub reports: u64,
}

/// Compares `cases` cases from `seed` on with a machine. The error names the case's seed and what differs.
pub fn compare(machine: Machine, seed: u64, cases: u64) -> Result<Coverage> {
    let compiled = generate::compiled_programs(seed, SOURCES);
    let mut oracle = Oracle::start(machine)?;
    let mut subject = Subject::default();
    let mut coverage = Coverage { cases, ..Coverage::default() };
    let (mut batch, mut expected) = (Vec::new(), Vec::new());
    for first in (0..cases).step_by(BATCH as usize) {
        let seeds = (first..cases.min(first + BATCH)).map(|n| case_seed(seed, n));
        batch.clear();
        expected.clear();
        for case in seeds.clone() {
            for step in steps(machine, case, &compiled) {
                step.write(&mut batch);
                let before = expected.len();
                subject.run(&step, &mut expected);
                coverage.count(&step, &expected[before..]);
            }
        }
        if oracle.run(&batch)? != expected {
            for case in seeds {
                check(case, &compiled, &mut oracle)?;
            }
            bail!("a batch of cases from {} differs, but none of them alone", case_seed(seed, first));
        }
    }
    Ok(coverage)
}

/// Compares `cases` cases from `seed` on with the machine in the kernel.
pub fn compare_bpf(machine: &mut Bpf, seed: u64, cases: u64) -> Result<Coverage> {
    let compiled = generate::compiled_programs(seed, SOURCES);
    let mut subject = Subject::default();
    let mut coverage = Coverage { cases, ..Coverage::default() };
    for case in (0..cases).map(|n| case_seed(seed, n)) {
        for (n, step) in generate::case(case, &compiled).iter().enumerate() {
            let (mut theirs, mut ours) = (Vec::new(), Vec::new());
            machine.run(step, &mut theirs)?;
            subject.run(step, &mut ours);
            coverage.count(step, &ours);
            if ours != theirs {
                machine.run(&Step::Dump, &mut theirs)?;
                subject.run(&Step::Dump, &mut ours);
                bail!(
                    "case {case} differs at step {n}, {step:?}\n{}theirs {theirs:02x?}\nours   {ours:02x?}",
                    registers_that_differ(&theirs, &ours)
                );
            }
        }
    }
    Ok(coverage)
}

/// Compares the one case with this seed; `run_seed` is the seed of the run that named it.
pub fn compare_one(machine: Machine, run_seed: u64, case: u64) -> Result<()> {
    check(case, &generate::compiled_programs(run_seed, SOURCES), &mut Oracle::start(machine)?)
}

/// Compares what becomes of damaged messages: each of `cases` cases starts with a program that runs, then
/// the agent's messages come with bytes changed, cut off or added. Returns how many were refused.
pub fn compare_damaged(machine: Machine, seed: u64, cases: u64) -> Result<u64> {
    /// The kernel's machine alone refuses programs that would keep an ACK busy (`FOLD_TOO_LONG`).
    const TOO_LONG: [u8; 4] = (-11i32).to_le_bytes();
    let compiled = generate::compiled_programs(seed, SOURCES);
    let mut oracle = Oracle::start(machine)?;
    let mut refused = 0;
    for n in 0..cases {
        let case = case_seed(seed, n);
        let mut random = Random::new(case);
        let mut subject = Subject::default();
        let mut undamaged = steps(machine, case, &compiled);
        let life = undamaged.clone();
        undamaged.retain(|step| !matches!(step, Step::Ack { .. }));
        let damaged = life.into_iter().map(|step| match step {
            Step::Message(bytes) => Step::Message(generate::damaged(&mut random, bytes)),
            other => other,
        });
        for step in undamaged.into_iter().chain(damaged.skip(1)) {
            let (mut batch, mut ours) = (Vec::new(), Vec::new());
            step.write(&mut batch);
            subject.run(&step, &mut ours);
            let theirs = oracle.run(&batch)?;
            if let Step::Message(_) = step {
                if theirs == TOO_LONG && ours == [0; 4] {
                    break;
                }
                refused += u64::from(ours != [0; 4]);
                if (ours == [0; 4]) == (theirs == [0; 4]) {
                    continue;
                }
            }
            if ours != theirs {
                bail!("damaged case {case} differs at {step:?}\ntheirs {theirs:02x?}\nours   {ours:02x?}");
            }
        }
    }
    Ok(refused)
}

/// The case as it is run against a machine: libccp tells no marks as losses, so none come there.
fn steps(machine: Machine, case: u64, compiled: &[Code]) -> Vec<Step> {
    let mut steps = generate::case(case, compiled);
    for step in &mut steps {
        if let (Machine::Libccp, Step::Ack { sample, .. }) = (machine, step) {
            sample.ecn_packets = 0;
        }
    }
    steps
}

fn case_seed(seed: u64, n: u64) -> u64 {
    Random::new(seed ^ n.rotate_left(32)).bits()
}

fn check(case: u64, compiled: &[Code], oracle: &mut Oracle) -> Result<()> {
    let mut subject = Subject::default();
    for (n, step) in steps(oracle.machine(), case, compiled).iter().enumerate() {
        let (mut batch, mut ours) = (Vec::new(), Vec::new());
        let mut steps = vec![step.clone()];
        if matches!(step, Step::Ack { .. }) {
            steps.push(Step::Dump);
        }
        for step in &steps {
            step.write(&mut batch);
            subject.run(step, &mut ours);
        }
        let theirs = oracle.run(&batch)?;
        if ours != theirs {
            bail!(
                "case {case} differs at step {n}, {step:?}\n{}theirs {theirs:02x?}\nours   {ours:02x?}",
                registers_that_differ(&theirs, &ours)
            );
        }
    }
    Ok(())
}

/// Names the registers in which the dumps at the ends of two answers differ.
fn registers_that_differ(theirs: &[u8], ours: &[u8]) -> String {
    let names = REGISTERS.iter().flat_map(|(kind, count)| (0..*count).map(move |index| (*kind, index)));
    let dump = |answer: &[u8]| -> Vec<u64> {
        let count: u32 = REGISTERS.iter().map(|(_, count)| count).sum();
        let start = answer.len().saturating_sub(8 * count as usize);
        answer[start..].as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect()
    };
    let differing = names.zip(dump(theirs).into_iter().zip(dump(ours))).filter(|(_, (a, b))| a != b);
    differing.map(|((kind, index), (a, b))| format!("{kind:?} {index}: theirs {a}, ours {b}\n")).collect()
}

impl Coverage {
    fn count(&mut self, step: &Step, answer: &[u8]) {
        /// Bytes of an ACK's answer before the messages: result, window, rate, digest, their length.
        const FIXED: usize = 4 + 4 + 8 + 8 + 4;
        if matches!(step, Step::Ack { .. }) {
            self.acks += 1;
            self.aborts += u64::from(answer[..4] != [0; 4]);
            self.reports += u64::from(answer.len() > FIXED);
        }
    }
}
