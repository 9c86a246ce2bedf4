//! Registers: their kinds on the wire, their limits, and where each lives in a flow's register file.
//!
//! One file of 512 words holds all of a flow's registers, this ACK's primitives and the running
//! program's constants, so that an operand is one index and reading it needs no case distinction:
//!
//! | slots | content | limit from |
//! |---|---|---|
//! | 0–109 | report registers (volatile and not) | libccp `MAX_REPORT_REG` |
//! | 110–219 | control registers (volatile and not) | libccp `MAX_CONTROL_REG` |
//! | 220–227 | temporaries | libccp `MAX_TMP_REG` |
//! | 228–235 | locals | libccp `MAX_LOCAL_REG` |
//! | 236–241 | implicit registers | libccp `MAX_IMPLICIT_REG` |
//! | 242–256 | primitives of the ACK being processed | the 15 that libccp defines |
//! | 257–511 | distinct immediates of the running program | what is left |

/// Report registers that a program may have, and values that a MEASURE message carries at most.
pub const MAX_REPORT_REGISTERS: u32 = 110;
/// Control registers that a program may have.
pub const MAX_CONTROL_REGISTERS: u32 = 110;
/// Temporaries that a program may have.
pub const MAX_TMP_REGISTERS: u32 = 8;
/// Locals that a program may have.
pub const MAX_LOCAL_REGISTERS: u32 = 8;
/// Implicit registers.
pub const IMPLICIT_REGISTERS: u32 = 6;
/// Primitives.
pub const PRIMITIVES: u32 = 15;

/// The index of `Cwnd` among the implicit registers.
pub const CWND_INDEX: u32 = 4;
/// The index of `Rate` among the implicit registers.
pub const RATE_INDEX: u32 = 5;

/// Words in a register file: a power of two, so that masking an index replaces its bounds check.
const WORDS: usize = 512;

const REPORT: u32 = 0;
const CONTROL: u32 = REPORT + MAX_REPORT_REGISTERS;
const TMP: u32 = CONTROL + MAX_CONTROL_REGISTERS;
const LOCAL: u32 = TMP + MAX_TMP_REGISTERS;
const IMPLICIT: u32 = LOCAL + MAX_LOCAL_REGISTERS;
const PRIMITIVE: u32 = IMPLICIT + IMPLICIT_REGISTERS;
const CONSTANT: u32 = PRIMITIVE + PRIMITIVES;

/// Distinct immediates that a program may use outside its definitions: one per instruction, since an
/// instruction with two could have been computed by the compiler.
pub const MAX_CONSTANTS: usize = WORDS - CONSTANT as usize;

/// The kind of a register, as numbered on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RegisterKind {
    /// Set by the agent, kept over reports.
    Control = 0,
    /// A constant in the place of a register.
    Immediate = 1,
    /// `Micros`, `Cwnd`, `Rate` and the flags of the program's control flow.
    Implicit = 2,
    /// A variable of a `when` clause.
    Local = 3,
    /// What the transport told with this ACK.
    Primitive = 4,
    /// Reported, then reset.
    VolatileReport = 5,
    /// Reported and kept.
    Report = 6,
    /// An intermediate result.
    Tmp = 7,
    /// Set by the agent, reset with every report.
    VolatileControl = 8,
}

impl RegisterKind {
    /// The kind with this number on the wire.
    pub fn from_wire(number: u8) -> Option<RegisterKind> {
        use RegisterKind::*;
        const KINDS: [RegisterKind; 9] =
            [Control, Immediate, Implicit, Local, Primitive, VolatileReport, Report, Tmp, VolatileControl];
        KINDS.get(usize::from(number)).copied()
    }
}

/// A word of the register file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u16);

impl Slot {
    pub const EVENT_FLAG: Slot = Slot(IMPLICIT as u16);
    pub const SHOULD_FALLTHROUGH: Slot = Slot(IMPLICIT as u16 + 1);
    pub const SHOULD_REPORT: Slot = Slot(IMPLICIT as u16 + 2);
    pub const MICROS: Slot = Slot(IMPLICIT as u16 + 3);
    pub const CWND: Slot = Slot((IMPLICIT + CWND_INDEX) as u16);
    pub const RATE: Slot = Slot((IMPLICIT + RATE_INDEX) as u16);

    /// Stands for an immediate while a program is installed; no register has this index.
    pub const IMMEDIATE: Slot = Slot(u16::MAX);

    /// Where a register lives; `None` for immediates and for an index beyond the kind's limit.
    pub fn of(kind: RegisterKind, index: u32) -> Option<Slot> {
        let (base, limit) = match kind {
            RegisterKind::Report | RegisterKind::VolatileReport => (REPORT, MAX_REPORT_REGISTERS),
            RegisterKind::Control | RegisterKind::VolatileControl => (CONTROL, MAX_CONTROL_REGISTERS),
            RegisterKind::Tmp => (TMP, MAX_TMP_REGISTERS),
            RegisterKind::Local => (LOCAL, MAX_LOCAL_REGISTERS),
            RegisterKind::Implicit => (IMPLICIT, IMPLICIT_REGISTERS),
            RegisterKind::Primitive => (PRIMITIVE, PRIMITIVES),
            RegisterKind::Immediate => return None,
        };
        (index < limit).then(|| Slot((base + index) as u16))
    }

    /// Whether it is `Ack.ecn_bytes` or `Ack.ecn_packets`.
    pub fn is_ecn(self) -> bool {
        [PRIMITIVE + 2, PRIMITIVE + 3].contains(&u32::from(self.0))
    }

    /// Where the program's `n`-th constant lives.
    pub fn constant(n: usize) -> Option<Slot> {
        (n < MAX_CONSTANTS).then(|| Slot((CONSTANT as usize + n) as u16))
    }
}

/// The registers of one flow.
#[derive(Clone, Debug)]
pub(crate) struct RegisterFile(Box<[u64; WORDS]>);

impl RegisterFile {
    pub fn new() -> RegisterFile {
        RegisterFile(Box::new([0; WORDS]))
    }

    #[inline(always)]
    pub fn get(&self, slot: Slot) -> u64 {
        self.0[usize::from(slot.0) % WORDS]
    }

    #[inline(always)]
    pub fn set(&mut self, slot: Slot, value: u64) {
        self.0[usize::from(slot.0) % WORDS] = value;
    }

    /// The first `n` report registers, at most all of them.
    pub fn reports(&self, n: usize) -> &[u64] {
        &self.0[REPORT as usize..REPORT as usize + n.min(MAX_REPORT_REGISTERS as usize)]
    }

    #[inline(always)]
    pub fn load_primitives(&mut self, values: [u64; PRIMITIVES as usize]) {
        self.0[PRIMITIVE as usize..CONSTANT as usize].copy_from_slice(&values);
    }

    pub fn load_constants(&mut self, values: &[u64]) {
        for (word, value) in self.0[CONSTANT as usize..].iter_mut().zip(values) {
            *word = *value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_do_not_overlap_and_limits_hold() {
        let mut seen = std::collections::HashSet::new();
        let distinct = [
            (RegisterKind::Report, 110),
            (RegisterKind::Control, 110),
            (RegisterKind::Tmp, 8),
            (RegisterKind::Local, 8),
            (RegisterKind::Implicit, 6),
            (RegisterKind::Primitive, 15),
        ];
        for (kind, limit) in distinct {
            for index in 0..limit {
                let slot = Slot::of(kind, index).expect("within the limit");
                assert!(seen.insert(slot.0) && usize::from(slot.0) < WORDS);
            }
            assert_eq!(Slot::of(kind, limit), None);
            assert_eq!(Slot::of(kind, u32::MAX), None);
        }
        for n in 0..MAX_CONSTANTS {
            let slot = Slot::constant(n).expect("within the limit");
            assert!(seen.insert(slot.0) && usize::from(slot.0) < WORDS);
        }
        assert_eq!(Slot::constant(MAX_CONSTANTS), None);
        assert_eq!(Slot::of(RegisterKind::Immediate, 0), None);
    }
}
