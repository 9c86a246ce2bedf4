//! What every crate of anole-ccp shares: units, bounds, derived seeds, the nearest name.
//!
//! The bottom of the dependency order: nothing here reads a clock, a socket, the environment or a
//! random source. A value crosses a crate border as one of these types, never as a bare `f64`.

#![forbid(unsafe_code)]

mod bounds;
pub mod names;
pub mod seed;
mod units;

pub use bounds::Bounds;
pub use units::{Dur, Rate, Time, earliest};
