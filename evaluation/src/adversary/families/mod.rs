//! The families, each in a file of its own.

mod crowds;
mod jitter;
mod paths;
mod queues;
mod starts;
mod swings;
#[cfg(test)]
mod tests;

use super::family::Family;

/// All of them.
pub static ALL: [&Family; 6] =
    [&swings::FAMILY, &jitter::FAMILY, &crowds::FAMILY, &paths::FAMILY, &queues::FAMILY, &starts::FAMILY];
