//! The families, each in a file of its own.

mod cross;
mod crowds;
mod jitter;
mod paths;
mod queues;
mod service;
mod starts;
mod swings;
#[cfg(test)]
mod tests;

use super::family::Family;

/// All of them.
pub static ALL: [&Family; 8] = [
    &swings::FAMILY,
    &jitter::FAMILY,
    &service::FAMILY,
    &cross::FAMILY,
    &crowds::FAMILY,
    &paths::FAMILY,
    &queues::FAMILY,
    &starts::FAMILY,
];
