//! Transitions of the whole algorithm.
