//! Installed programs, validated so that running one cannot fault.

use crate::wire::Install;

/// A validated program.
#[derive(Debug)]
pub struct Program {
    uid: u32,
}

/// Why a program is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// More instructions than a program may have.
    #[error("{0} instructions; a program has at most 255")]
    TooManyInstructions(u32),
}

impl Program {
    /// Validates an INSTALL message.
    pub fn install(message: &Install<'_>) -> Result<Program, ProgramError> {
        Ok(Program { uid: message.uid })
    }

    /// The program's id, chosen by the agent.
    pub fn uid(&self) -> u32 {
        self.uid
    }
}
