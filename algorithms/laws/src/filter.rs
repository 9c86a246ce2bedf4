//! Filters over what a flow measures: extremes of late.

use std::collections::VecDeque;

/// The largest of the values of the last `span` steps, where a step is whatever the caller counts (rounds, most
/// often). Values may come several to a step.
#[derive(Clone, Debug)]
pub struct WindowedMax<T> {
    /// Steps with their values: later ones are smaller, so the first is the largest.
    values: VecDeque<(u64, T)>,
    span: u64,
}

impl<T: Copy + PartialOrd> WindowedMax<T> {
    /// No values yet.
    pub fn new(span: u64) -> WindowedMax<T> {
        WindowedMax { values: VecDeque::new(), span }
    }

    /// The largest value, if there is one.
    pub fn max(&self) -> Option<T> {
        self.values.front().map(|&(_, value)| value)
    }

    /// Takes a value; those of steps more than the span ago are forgotten.
    pub fn push(&mut self, step: u64, value: T) {
        self.push_keeping(step, value);
        let span = self.span;
        self.values.retain(|&(then, _)| step - then.min(step) < span);
    }

    /// Takes a value, and forgets none for its age.
    pub fn push_keeping(&mut self, step: u64, value: T) {
        while self.values.back().is_some_and(|&(_, known)| known <= value) {
            self.values.pop_back();
        }
        // One that is smaller than another of the same step never is the largest.
        if self.values.back().is_none_or(|&(then, _)| then != step) {
            self.values.push_back((step, value));
        }
    }

    /// Changes for how many steps values count, from the next on.
    pub fn set_span(&mut self, span: u64) {
        self.span = span;
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.values.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_of_late_steps_counts() {
        let mut max = WindowedMax::new(3);
        assert_eq!(max.max(), None);
        for (step, value, largest) in [(0, 9, 9), (1, 5, 9), (2, 7, 9), (3, 1, 7), (4, 2, 7), (5, 1, 2)] {
            max.push(step, value);
            assert_eq!(max.max(), Some(largest), "step {step}");
        }
        max.push_keeping(100, 1);
        assert_eq!(max.max(), Some(2));
        max.push(101, 1);
        max.push(102, 0);
        max.set_span(1);
        max.push(103, 0);
        assert_eq!(max.max(), Some(0));
    }
}
