//! Runs a flow's program, once per ACK.
//!
//! The meaning of every operation, and the order of what happens around a run, are libccp's
//! (`machine.c`, `ccp_invoke`):
//! 1. `Cwnd` and `Rate` take the values last asked of the transport.
//! 2. A program that waits in the mail becomes the running one: volatile definitions are set, then the others, then
//!    `Micros` restarts. Registers that it does not define keep what an earlier program left.
//! 3. Registers in the mail are set. A window or rate other than 0 among them goes to the transport even when
//!    the program then aborts.
//! 4. The expressions are evaluated in order until one is true and does not fall through. Arithmetic is
//!    on u64; overflow, underflow and division by zero abort the run half-way: what was written stays,
//!    nothing is reported, and the transport keeps its window and rate.
//! 5. `Cwnd` and `Rate` other than 0 go to the transport.
//! 6. If asked for, the report registers are sent, then volatile definitions are set again. A report that the outbox
//!    refuses keeps them, so that the next one tells all of it.
//!
//! `Micros` is the time since the program started or since `Micros` was last set. libccp moves its
//! zero at every write; here the zero is worked out once after the run, which is the same, because time
//! does not pass within a run.
//!
//! Multiplication is checked as libccp checks it, by `result < left`, which misses some overflows; the
//! wrapped result is then the result in both.
//!
//! Three departures: libccp cuts a window or rate to its low 32 bits on the way to the transport; here the
//! whole value is brought within the flow's bounds (the registers hold the raw value in both). A program that reads no
//! ECN is told marks as losses (`marks.rs`). A report that was not sent is not erased.

use crate::mail::Mail;
use crate::marks::Marks;
use crate::program::{Instruction, Op, ValidProgram};
use crate::register::{RegisterFile, RegisterKind, Slot};
use crate::{AckSample, InForce};
use anole_model::{Bounds, Time};
use std::sync::Arc;

/// Why a run was given up half-way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Abort {
    /// A sum beyond 2^64 − 1.
    #[error("addition overflows")]
    AddOverflow,
    /// A quotient by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// A product beyond 2^64 − 1, as far as libccp's check sees it.
    #[error("multiplication overflows")]
    MulOverflow,
    /// A difference below zero.
    #[error("subtraction underflows")]
    SubUnderflow,
}

/// What bounds a program's window and rate, and what they have let into flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub bounds: Bounds,
    /// Segment size, bytes.
    pub mss: u32,
    /// In flight at the ACK, bytes: as the transport tells, else as much as may be.
    pub in_flight: u32,
}

/// The registers and the program of one flow.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    registers: RegisterFile,
    program: Option<Arc<ValidProgram>>,
    /// When `Micros` was 0, µs; wraps.
    micros_zero: u64,
    marks: Marks,
}

impl Machine {
    pub fn new() -> Machine {
        Machine { registers: RegisterFile::new(), program: None, micros_zero: 0, marks: Marks::default() }
    }

    pub fn has_program(&self) -> bool {
        self.program.is_some()
    }

    /// A register's raw value.
    pub fn register(&self, kind: RegisterKind, index: u32) -> Option<u64> {
        Slot::of(kind, index).map(|slot| self.registers.get(slot))
    }

    /// One ACK: takes what waits in `mail`, updates `control`, calls `report` with the program's id and the values if
    /// the program asks for it; that tells whether it was sent.
    pub fn run(
        &mut self,
        now: Time,
        mail: &mut Mail,
        sample: &AckSample,
        limits: &Limits,
        control: &mut InForce,
        report: impl FnOnce(u32, &[u64]) -> bool,
    ) -> Result<(), Abort> {
        let now_us = now.as_micros();
        self.registers.set(Slot::CWND, u64::from(control.cwnd));
        self.registers.set(Slot::RATE, u64::from(control.rate));
        if let Some(program) = mail.program.take() {
            self.start(program, now_us);
        }
        if !mail.fields.is_empty() {
            for (slot, value) in mail.fields.drain(..) {
                self.registers.set(slot, value);
            }
            obey(&self.registers, limits, control);
        }
        let Some(program) = &self.program else { return Ok(()) };
        let lost = self.marks.told_losses(now_us, sample, program.reads_ecn());
        self.registers.load_primitives(primitives(now_us, sample, lost, limits.in_flight));
        self.registers.set(Slot::MICROS, now_us.wrapping_sub(self.micros_zero));
        let outcome = evaluate(program, &mut self.registers);
        self.micros_zero = now_us.wrapping_sub(self.registers.get(Slot::MICROS));
        outcome?;
        obey(&self.registers, limits, control);
        if self.registers.get(Slot::SHOULD_REPORT) != 0 {
            let sent = report(program.uid(), self.registers.reports(program.reports()));
            for definition in program.definitions().iter().filter(|d| d.volatile && sent) {
                self.registers.set(definition.slot, definition.value);
            }
        }
        Ok(())
    }

    fn start(&mut self, program: Arc<ValidProgram>, now_us: u64) {
        self.registers.load_constants(program.constants());
        for volatile in [true, false] {
            for definition in program.definitions().iter().filter(|d| d.volatile == volatile) {
                self.registers.set(definition.slot, definition.value);
            }
        }
        self.micros_zero = now_us;
        self.program = Some(program);
    }
}

/// Hands the window and the rate to the transport, within the bounds; 0 leaves them as they are.
#[inline(always)]
fn obey(registers: &RegisterFile, limits: &Limits, control: &mut InForce) {
    let (cwnd, rate) = (registers.get(Slot::CWND), registers.get(Slot::RATE));
    if cwnd != 0 {
        control.cwnd = limits.bounds.cwnd(cwnd, limits.mss);
    }
    if rate != 0 {
        control.rate = limits.bounds.rate(rate);
    }
}

/// The primitives in the order of their numbers on the wire.
#[inline(always)]
fn primitives(now_us: u64, sample: &AckSample, lost: u64, in_flight: u32) -> [u64; 15] {
    [
        u64::from(sample.bytes_acked),
        u64::from(sample.bytes_misordered),
        u64::from(sample.ecn_bytes),
        u64::from(sample.ecn_packets),
        lost,
        now_us,
        u64::from(sample.packets_acked),
        u64::from(sample.packets_misordered),
        u64::from(in_flight),
        u64::from(sample.bytes_pending),
        u64::from(sample.packets_in_flight),
        sample.rate_incoming,
        sample.rate_outgoing,
        if sample.rtt_us == 0 { u64::from(u32::MAX) } else { sample.rtt_us },
        u64::from(sample.was_timeout),
    ]
}

fn evaluate(program: &ValidProgram, registers: &mut RegisterFile) -> Result<(), Abort> {
    for flag in [Slot::EVENT_FLAG, Slot::SHOULD_FALLTHROUGH, Slot::SHOULD_REPORT] {
        registers.set(flag, 0);
    }
    for expression in program.expressions() {
        execute(program.code(&expression.condition), registers)?;
        if registers.get(Slot::EVENT_FLAG) != 0 {
            execute(program.code(&expression.event), registers)?;
            // The event may have cleared the flag itself; then the next expression is evaluated.
            if registers.get(Slot::EVENT_FLAG) != 0 && registers.get(Slot::SHOULD_FALLTHROUGH) == 0 {
                break;
            }
        }
    }
    Ok(())
}

#[inline(always)]
fn execute(code: &[Instruction], registers: &mut RegisterFile) -> Result<(), Abort> {
    for instruction in code {
        let left = registers.get(instruction.left);
        let right = registers.get(instruction.right);
        let value = match instruction.op {
            Op::Add => left.checked_add(right).ok_or(Abort::AddOverflow)?,
            Op::Bind => right,
            Op::Def => registers.get(instruction.result),
            Op::Div => left.checked_div(right).ok_or(Abort::DivisionByZero)?,
            Op::Equal => u64::from(left == right),
            Op::Ewma => ewma(left, registers.get(instruction.result), right),
            Op::Greater => u64::from(left > right),
            Op::If if left != 0 => right,
            Op::If => registers.get(instruction.result),
            Op::Less => u64::from(left < right),
            Op::Max => left.max(right),
            Op::MaxWrap => max_wrapped(left, right),
            Op::Min => left.min(right),
            Op::Mul => {
                let product = left.wrapping_mul(right);
                if product < left && right > 0 {
                    return Err(Abort::MulOverflow);
                }
                product
            }
            Op::NotIf if left == 0 => right,
            Op::NotIf => registers.get(instruction.result),
            Op::Sub => left.checked_sub(right).ok_or(Abort::SubUnderflow)?,
        };
        registers.set(instruction.result, value);
    }
    Ok(())
}

/// (weight·old + (10 − weight)·new) / 10, modulo 2^64; the new value alone while the old one is 0.
fn ewma(weight: u64, old: u64, new: u64) -> u64 {
    const DENOMINATOR: u64 = 10;
    if old == 0 {
        return new;
    }
    let kept = weight.wrapping_mul(old);
    let added = DENOMINATOR.wrapping_sub(weight).wrapping_mul(new);
    kept.wrapping_add(added) / DENOMINATOR
}

/// The later of two 32-bit sequence numbers that may have wrapped; 0 is no number.
fn max_wrapped(a: u64, b: u64) -> u64 {
    let distance = |from: u32, to: u32| if to > from { to - from } else { u32::MAX - from + to };
    if a == 0 {
        return b;
    }
    if b == 0 {
        return a;
    }
    let (a, b) = (a as u32, b as u32);
    if distance(b, a) < distance(a, b) { u64::from(a) } else { u64::from(b) }
}

#[cfg(test)]
mod tests;
