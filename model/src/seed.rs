//! SplitMix64: a stream of 64-bit numbers from a seed, and seeds from seeds.
//!
//! The generator adds a constant to its state and hands out the finalised state, so that output `n` of a seed
//! is known without those before it: that is [`derive()`]. Source: Steele, Lea, Flood, *Fast Splittable
//! Pseudorandom Number Generators*, OOPSLA 2014.

/// What the state grows by: 2^64 over the golden ratio, made odd.
pub const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser: a bijection whose output bits each depend on every input bit.
pub const fn finalise(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The seed of stream `number` of `seed`. Different numbers give different seeds; 0 is the seed finalised.
pub const fn derive(seed: u64, number: u64) -> u64 {
    finalise(seed.wrapping_add(INCREMENT.wrapping_mul(number)))
}

/// A seed from a path of numbers, such as (purpose, seed, index): each step is a bijection of the number that
/// is added, so that paths which differ in one number give different seeds.
pub fn derive_path(path: &[u64]) -> u64 {
    // One more than the number, because the finaliser leaves 0 as it is.
    path.iter().fold(0, |state: u64, number| {
        finalise(state.wrapping_mul(INCREMENT).wrapping_add(finalise(number.wrapping_add(1))))
    })
}

/// The generator. For tests and for drawing cases; simulations use a generator of the `rand` crate.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// One seed, one stream.
    pub const fn new(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(INCREMENT);
        finalise(self.0)
    }

    /// A number below `n`; 0 when `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.bits() % n.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The generator's published first outputs for the seed 1234567.
    #[test]
    fn the_stream_is_that_of_splitmix64() {
        let mut stream = SplitMix64::new(1_234_567);
        let first = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(first, [(); 3].map(|()| stream.bits()));
    }

    #[test]
    fn output_n_is_derived_without_those_before_it() {
        let mut stream = SplitMix64::new(7);
        for number in 1..100 {
            assert_eq!(stream.bits(), derive(7, number));
        }
    }

    #[test]
    fn every_number_of_a_path_matters() {
        let paths: [&[u64]; 5] = [&[1, 2, 3], &[3, 2, 1], &[1, 2, 4], &[0, 0, 0], &[0, 0]];
        let seeds: std::collections::BTreeSet<u64> = paths.into_iter().map(derive_path).collect();
        assert_eq!(seeds.len(), paths.len());
        // Links that were drawn by such a path stay as they are only while this number does.
        assert_eq!(derive_path(&[2, 5, 3, 9]), 0x8982_6562_fc06_9716);
    }
}
