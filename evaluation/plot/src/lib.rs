//! Plots as SVG text: lines over time, points in a plane, bars; and the picture of a run.
//!
//! An algorithm has one colour and marker everywhere (`style.rs`); the subject of a plot is drawn last and strongest.
//! A picture is self-contained: generic fonts, and colours for light and dark backgrounds, of which the reader's
//! system chooses. Text is large enough to be read when a picture is shown 390 pixels wide.

#![forbid(unsafe_code)]

mod axis;
mod chart;
mod runs;
mod style;
mod svg;

pub use chart::{Curve, Frame, bars, dots, front, lines, points, trails};
pub use runs::of_runs;
pub use style::has_look;
pub use svg::{Picture, stacked};

/// Width of a picture, pixels: shown 390 wide, its text has two thirds of its size.
pub const WIDTH: u32 = 600;
