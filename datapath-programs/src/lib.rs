//! The fold programs of anole-ccp: source, byte code, typed bindings, the commands that an algorithm
//! gives to the datapath that runs them, and the messages that carry both.
//!
//! One file per program under `programs/`; the build compiles each with portus's compiler and
//! generates a module of the same name here, so that no register is named in two places.

#![forbid(unsafe_code)]

mod commands;
mod installed;

pub use commands::Commands;
pub use installed::Installed;

use anole_datapath::wire::FieldUpdate;
use anole_datapath::{CWND_INDEX, RATE_INDEX, RegisterKind};

include!(concat!(env!("OUT_DIR"), "/programs.rs"));

/// A compiled fold program.
#[derive(Debug)]
pub struct Program {
    /// The name under which an agent installs it.
    pub name: &'static str,
    /// The source without comments, as portus compiles it.
    pub source: &'static str,
    /// Names of the report registers, in wire order, each with `Report.` in front.
    pub reports: &'static [&'static str],
    /// The registers that the agent may set.
    pub controls: &'static [Register],
    /// Number of expressions.
    pub expressions: u32,
    /// Number of instructions.
    pub instructions: u32,
    /// Expressions and instructions as an INSTALL message carries them.
    pub code: &'static [u8],
}

impl Program {
    /// The control register with this name.
    pub fn control(&self, name: &str) -> Option<Register> {
        self.controls.iter().copied().find(|register| register.name == name)
    }

    /// True when it sets a pacing rate by itself.
    pub fn paces(&self) -> bool {
        self.source.contains("(:= Rate ")
    }

    /// Place of the report register with this name (without `Report.`) among the values of a report.
    pub fn report(&self, name: &str) -> Option<usize> {
        self.reports.iter().position(|known| known.strip_prefix("Report.") == Some(name))
    }

    /// Whether an agent may set this register while the program runs.
    pub fn takes(&self, register: Register) -> bool {
        register == CWND || register == RATE || self.controls.get(register.index as usize) == Some(&register)
    }
}

/// A register that an agent may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register {
    /// The name in the program.
    pub name: &'static str,
    /// The register type on the wire.
    pub kind: u8,
    /// The index on the wire.
    pub index: u32,
}

impl Register {
    /// Sets this register, as a message carries it.
    pub fn update(self, value: u32) -> FieldUpdate {
        FieldUpdate { kind: self.kind, index: self.index, value: u64::from(value) }
    }
}

/// The congestion window, bytes.
pub const CWND: Register = Register { name: "Cwnd", kind: RegisterKind::Implicit as u8, index: CWND_INDEX };
/// The pacing rate, bytes/s; 0 leaves pacing to the transport.
pub const RATE: Register = Register { name: "Rate", kind: RegisterKind::Implicit as u8, index: RATE_INDEX };

/// The program with this name.
pub fn find(name: &str) -> Option<&'static Program> {
    ALL.iter().copied().find(|program| program.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_knows_its_registers_and_whether_it_paces() {
        let reno = find("reno").unwrap();
        assert_eq!(reno.control("ssthresh"), Some(reno::control::SSTHRESH));
        assert_eq!((reno.report("lost"), reno.report("Report.lost")), (Some(1), None));
        let pacing: Vec<_> =
            ALL.iter().filter(|program| program.paces()).map(|program| program.name).collect();
        assert_eq!(pacing, ["anole-cycle", "bbr", "libra-cycle", "orca", "ramp", "spine"]);
    }
}
