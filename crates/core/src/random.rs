//! A small seeded generator (SplitMix64, Steele, Lea, Flood 2014): equal seeds give equal runs.
//!
//! Not for secrets, and never seeded from the outside world.

#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to, and without, `bound`. The bias is below `bound` in 2^128.
    pub(crate) fn below(&mut self, bound: u128) -> u128 {
        assert!(bound > 0, "a number below 0 was asked for");
        let wide = (u128::from(self.next()) << 64) | u128::from(self.next());
        wide % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_numbers_below_the_bound() {
        let (mut one, mut other) = (Random::new(7), Random::new(7));
        for bound in 1..100 {
            let number = one.below(bound);
            assert_eq!(number, other.below(bound));
            assert!(number < bound);
        }
        assert_ne!(Random::new(1).below(1 << 60), Random::new(2).below(1 << 60));
    }
}
