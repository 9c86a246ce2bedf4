//! Who waits for what takes long.

/// When answers come, and who reads files that were replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serving {
    /// Before `ask` returns: for simulations.
    Immediate,
    /// From another thread: for agents.
    Threaded,
}
