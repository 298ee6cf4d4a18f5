//! A small seeded generator (SplitMix64, Steele, Lea, Flood 2014).
//!
//! Each purpose has its own sequence of one seed, so that one more draw for one thing changes nothing else.

#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

/// What the numbers are for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// Where the inputs of the workflow lie.
    Placement,
    /// How long this task computes.
    Compute(u32),
    /// What a made-up workload looks like.
    Workload,
    /// The workflow, cluster and settings of a run with faults.
    Scenario,
    /// What goes wrong in it, and how long messages take.
    Faults,
    /// Whether its files lie in Gfarm, and which of them are read without being named.
    Gfarm,
    /// Which of its tasks begin together.
    Gangs,
    /// Which of them are invoked by actions.
    Calls,
    /// How many leaders its nodes are behind.
    Leaders,
}

impl Random {
    pub(crate) fn new(seed: u64, purpose: Purpose) -> Self {
        let (kind, item) = match purpose {
            Purpose::Placement => (1, 0),
            Purpose::Compute(task) => (2, task),
            Purpose::Workload => (3, 0),
            Purpose::Scenario => (4, 0),
            Purpose::Faults => (5, 0),
            Purpose::Gfarm => (6, 0),
            Purpose::Gangs => (7, 0),
            Purpose::Calls => (8, 0),
            Purpose::Leaders => (9, 0),
        };
        let mut random = Self { state: seed };
        let mixed = random.draw() ^ (kind << 32) ^ u64::from(item);
        Self { state: mixed }
    }

    pub(crate) fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to, and without, `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a number below 0 was asked for");
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_numbers_and_purposes_differ() {
        let draw = |seed, purpose| Random::new(seed, purpose).draw();
        assert_eq!(draw(7, Purpose::Compute(3)), draw(7, Purpose::Compute(3)));
        assert_ne!(draw(7, Purpose::Compute(3)), draw(7, Purpose::Compute(4)));
        assert_ne!(draw(7, Purpose::Placement), draw(8, Purpose::Placement));
    }

    #[test]
    fn shuffling_keeps_everything() {
        let mut items: Vec<u32> = (0..100).collect();
        Random::new(1, Purpose::Placement).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<u32>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<u32>>());
    }
}
