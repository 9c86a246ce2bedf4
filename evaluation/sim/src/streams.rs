//! The random streams of a run: one for each purpose, all from the run's seed.

use anole_model::seed::derive;

/// What a random stream is for, with the number of the link or flow; each gets its own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stream {
    Link(usize),
    Algorithm(usize),
    Changes(usize),
    Jitter(usize),
    Capacity(usize),
    Flows(usize),
}

impl Stream {
    /// The stream's seed in the run with this seed.
    pub(crate) fn seed(self, run: u64) -> u64 {
        let (kind, index) = match self {
            Stream::Link(index) => (1, index),
            Stream::Algorithm(index) => (2, index),
            Stream::Changes(index) => (3, index),
            Stream::Jitter(index) => (4, index),
            Stream::Capacity(index) => (5, index),
            Stream::Flows(index) => (6, index),
        };
        derive(run, kind + 8 * (index as u64 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::Stream;

    /// Results for a seed stay as they are only while these numbers do.
    #[test]
    fn seeds_of_streams_are_fixed() {
        let seeds = [
            Stream::Link(0),
            Stream::Algorithm(1),
            Stream::Changes(0),
            Stream::Jitter(2),
            Stream::Capacity(3),
        ];
        assert_eq!(
            seeds.map(|stream| stream.seed(42)),
            [
                0x5705_b877_0b3d_7dd5,
                0x7ed9_0003_f67f_9e1d,
                0x3474_724a_775b_19bf,
                0xc916_7e19_8fb9_991f,
                0x1022_67f0_f38c_5511
            ]
        );
    }
}
