//! SHA-256, by which schemas and weights are told apart.

use sha2::{Digest, Sha256};

/// SHA-256 in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
