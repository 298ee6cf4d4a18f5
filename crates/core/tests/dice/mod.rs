//! What decides the lives of streams in tests: one number each.

/// A small generator.
pub struct Dice(pub u64);

impl Dice {
    /// Below a bound.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound.max(1)
    }

    /// True once in so many times.
    pub fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    /// Below one of the bounds.
    pub fn up_to(&mut self, bounds: &[usize]) -> usize {
        let bound = bounds[self.below(bounds.len())];
        self.below(bound)
    }

    /// Below a bound.
    pub fn number(&mut self, bound: u32) -> u32 {
        u32::try_from(self.below(bound as usize)).unwrap()
    }
}
