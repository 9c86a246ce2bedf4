//! Hybrids: algorithms that blend a control law with a learned policy.
//!
//! What they share stands here: the [`utility`] of a rate, the [`interval`] in which a rate is measured, the two
//! candidates' [`slot`]s and the [`confidence`] in each.

pub(crate) mod anole;
mod confidence;
mod interval;
pub(crate) mod libra;
mod slot;
mod utility;

pub use libra::utility as libra_utility;
