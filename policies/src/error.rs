//! Why a policy cannot be had.

/// Why there is no such policy, or why its file is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// No policy has this name.
    #[error("no trained policy is named \"{0}\"")]
    Unknown(String),
    /// The policy's file, server or library is refused; the message names it.
    #[error("{0}")]
    Refused(String),
}
