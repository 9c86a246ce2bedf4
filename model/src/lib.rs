//! Units and bounds that every crate of anole-ccp shares.
//!
//! The bottom of the dependency order: nothing here reads a clock, a socket, the environment or a
//! random source. A value crosses a crate border as one of these types, never as a bare `f64`.

#![forbid(unsafe_code)]

mod bounds;
pub mod names;
mod units;

pub use bounds::Bounds;
pub use units::{Dur, Rate, Time};
