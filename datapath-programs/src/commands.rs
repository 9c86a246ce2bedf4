//! What an algorithm tells the datapath in answer to one report.

use crate::{CWND, Program, RATE, Register};
use anole_model::Rate;

/// The commands of one decision: at most one program change and the registers to set with it. They
/// travel as one message and take effect together, at the flow's next ACK.
#[derive(Debug, Default)]
pub struct Commands {
    program: Option<&'static Program>,
    fields: Vec<(Register, u32)>,
}

impl Commands {
    /// Runs `program` from its start; its registers and its clock are reset. Fields set so far in this
    /// decision belonged to the program before and are forgotten.
    pub fn run(&mut self, program: &'static Program) -> &mut Self {
        self.program = Some(program);
        self.fields.clear();
        self
    }

    /// Sets a register.
    pub fn set(&mut self, register: Register, value: u32) -> &mut Self {
        match self.fields.iter_mut().find(|(known, _)| *known == register) {
            Some((_, slot)) => *slot = value,
            None => self.fields.push((register, value)),
        }
        self
    }

    /// Sets a register to a rate in bytes/s, rounded to the wire's u32.
    pub fn set_rate(&mut self, register: Register, rate: Rate) -> &mut Self {
        self.set(register, rate.bytes_per_s().round() as u32)
    }

    /// Sets the congestion window, bytes.
    pub fn cwnd(&mut self, bytes: u32) -> &mut Self {
        self.set(CWND, bytes)
    }

    /// Sets the pacing rate.
    pub fn rate(&mut self, rate: Rate) -> &mut Self {
        self.set_rate(RATE, rate)
    }

    /// The program to change to, if any.
    pub fn program(&self) -> Option<&'static Program> {
        self.program
    }

    /// The registers to set.
    pub fn fields(&self) -> &[(Register, u32)] {
        &self.fields
    }

    /// True when there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.program.is_none() && self.fields.is_empty()
    }

    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.program = None;
        self.fields.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{rate_hold, reno};

    #[test]
    fn the_last_value_of_a_register_counts() {
        let mut commands = Commands::default();
        commands.cwnd(1000).rate(Rate::from_bytes_per_s(2e6)).cwnd(3000);
        assert_eq!(commands.fields(), [(CWND, 3000), (RATE, 2_000_000)]);
    }

    #[test]
    fn rates_beyond_the_wire_saturate() {
        let mut commands = Commands::default();
        commands.rate(Rate::from_bytes_per_s(1e12));
        assert_eq!(commands.fields(), [(RATE, u32::MAX)]);
    }

    #[test]
    fn a_program_starts_without_the_fields_of_the_one_before() {
        let mut commands = Commands::default();
        commands.set(reno::control::INTERVAL_US, 5).run(&rate_hold::PROGRAM).cwnd(1000);
        assert_eq!(commands.program().map(|program| program.name), Some("rate-hold"));
        assert_eq!(commands.fields(), [(CWND, 1000)]);
        commands.clear();
        assert!(commands.is_empty());
    }
}
