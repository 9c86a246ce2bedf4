//! Mahimahi (Netravali et al., USENIX ATC 2015) in the place of the emulator: its shells `mm-delay`, `mm-loss` and
//! `mm-link`, one inside the other, between the two hosts.
//!
//! ```text
//!  namespace of the senders  (innermost)
//!     │ ingress
//!  mm-link ── its queue, delivery opportunities of 1504 bytes at whole milliseconds
//!  mm-loss ── random loss of data, if there is any
//!  mm-delay ── propagation, both ways
//!     │ delay-N
//!  namespace of the receivers  (outermost, made by this process)
//! ```
//!
//! Addresses are those of [`Hosts`](crate::Hosts): each namespace in between gets a route to the senders, so that Mahimahi's
//! translation of addresses has nothing to translate and flows are known by their ports.
//!
//! What is measured comes from the log of `mm-link` (throughput, queueing delay, loss in the queue) and from what the
//! outermost device received (random loss).

mod log;
mod plan;
mod shells;

pub use shells::Shells;

use anole_sim::scenario::Scenario;

/// Says why Mahimahi cannot be a scenario's network: the key that asks for more than its shells do, and the way out.
pub fn check(scenario: &Scenario) -> Result<(), String> {
    plan::Plan::new(scenario).map(drop)
}
