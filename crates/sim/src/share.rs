//! Max-min fair rates of transfers that share channels, by progressive filling.
//!
//! Knows no time and no transfer's past: only which transfers there are now, with which cap, at what cost on which
//! channels.

use crate::units::SECOND_PS;

/// Maximum number of channels on the way of a transfer: disk, link up, switch, link down, disk.
pub(crate) const HOPS_MAX: usize = 5;

/// A transfer that wants a rate.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    /// Maximum rate, bytes/s.
    pub(crate) cap: u64,
    /// Position of the channel, and ps of it that a byte takes.
    pub(crate) uses: [(usize, u64); HOPS_MAX],
    pub(crate) uses_len: usize,
    /// The rate that is computed, bytes/s.
    pub(crate) rate: u64,
    fixed: bool,
}

impl Demand {
    pub(crate) fn new(cap: u64) -> Self {
        Self { cap, uses: [(0, 0); HOPS_MAX], uses_len: 0, rate: 0, fixed: false }
    }

    pub(crate) fn add(&mut self, channel: usize, cost: u64) {
        self.uses[self.uses_len] = (channel, cost);
        self.uses_len += 1;
    }

    fn uses(&self) -> &[(usize, u64)] {
        &self.uses[..self.uses_len]
    }
}

/// A channel that transfers share.
#[derive(Clone, Debug)]
pub(crate) struct Supply {
    /// ps in a second that no transfer with a fixed rate takes.
    free: u64,
    /// ps of it that one byte of each transfer without a fixed rate takes in all.
    weight: u64,
    full: bool,
}

impl Supply {
    pub(crate) fn new(capacity: u64) -> Self {
        Self { free: capacity.min(SECOND_PS), weight: 0, full: false }
    }

    /// The rate that all transfers without a fixed one could have.
    fn level(&self) -> Option<u64> {
        self.free.checked_div(self.weight)
    }
}

/// Sets the rate of every demand.
pub(crate) fn share(demands: &mut [Demand], supplies: &mut [Supply], by_cap: &mut Vec<usize>) {
    for demand in demands.iter() {
        for &(channel, cost) in demand.uses() {
            supplies[channel].weight += cost;
        }
    }
    by_cap.clear();
    by_cap.extend(0..demands.len());
    by_cap.sort_by_key(|&index| demands[index].cap);
    let mut next = 0;
    while let Some(&index) = by_cap.get(next) {
        if demands[index].fixed {
            next += 1;
            continue;
        }
        let level = supplies.iter().filter_map(Supply::level).min();
        match level {
            Some(level) if level < demands[index].cap => fix_at(level, demands, supplies),
            Some(_) | None => {
                let cap = demands[index].cap;
                fix(&mut demands[index], cap, supplies);
            }
        }
    }
}

/// Fixes the rates of all transfers that go through a channel that is full at `level`.
fn fix_at(level: u64, demands: &mut [Demand], supplies: &mut [Supply]) {
    for supply in supplies.iter_mut() {
        supply.full = supply.level() == Some(level);
    }
    for demand in demands {
        if !demand.fixed && demand.uses().iter().any(|&(channel, _)| supplies[channel].full) {
            fix(demand, level, supplies);
        }
    }
}

fn fix(demand: &mut Demand, rate: u64, supplies: &mut [Supply]) {
    demand.rate = rate;
    demand.fixed = true;
    for &(channel, cost) in &demand.uses[..demand.uses_len] {
        let supply = &mut supplies[channel];
        supply.free = supply.free.saturating_sub(rate.saturating_mul(cost));
        supply.weight -= cost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    fn solve(wanted: &[(u64, &[(usize, u64)])], channels: usize) -> Vec<u64> {
        let mut demands: Vec<Demand> = wanted
            .iter()
            .map(|(cap, uses)| {
                let mut demand = Demand::new(*cap);
                for &(channel, cost) in *uses {
                    demand.add(channel, cost);
                }
                demand
            })
            .collect();
        let mut supplies = vec![Supply::new(SECOND_PS); channels];
        share(&mut demands, &mut supplies, &mut Vec::new());
        demands.into_iter().map(|demand| demand.rate).collect()
    }

    #[test]
    fn one_transfer_has_its_cap_and_two_share_a_disk_in_halves() {
        let cost = SECOND_PS / (70 * MIB);
        assert_eq!(solve(&[(39 * MIB, &[(0, cost)])], 1), [39 * MIB]);
        let both = solve(&[(70 * MIB, &[(0, cost)]), (70 * MIB, &[(0, cost)])], 1);
        assert_eq!(both[0], both[1]);
        assert!(both[0].abs_diff(35 * MIB) < MIB / 100);
    }

    #[test]
    fn what_a_capped_transfer_leaves_goes_to_the_others() {
        let cost = SECOND_PS / (100 * MIB);
        let rates = solve(&[(10 * MIB, &[(0, cost)]), (200 * MIB, &[(0, cost)])], 1);
        assert_eq!(rates[0], 10 * MIB);
        assert!(rates[1].abs_diff(90 * MIB) < MIB / 100);
    }

    #[test]
    fn a_transfer_that_is_held_up_elsewhere_leaves_room() {
        let (narrow, wide) = (SECOND_PS / (10 * MIB), SECOND_PS / (100 * MIB));
        let rates = solve(
            &[
                (200 * MIB, &[(0, narrow), (1, wide)]),
                (200 * MIB, &[(0, narrow)]),
                (200 * MIB, &[(1, wide)]),
            ],
            2,
        );
        assert!(rates[0].abs_diff(5 * MIB) < MIB / 100);
        assert!(rates[1].abs_diff(5 * MIB) < MIB / 100);
        assert!(rates[2].abs_diff(95 * MIB) < MIB / 100);
    }

    proptest! {
        #[test]
        fn no_channel_is_overfull_and_no_rate_can_grow_alone(
            wanted in prop::collection::vec(
                (1..1_000 * MIB, prop::collection::btree_map(0..6_usize, 800..200_000_u64, 0..=HOPS_MAX)),
                1..40,
            ),
        ) {
            let uses: Vec<Vec<(usize, u64)>> =
                wanted.iter().map(|(_, uses)| uses.iter().map(|(c, p)| (*c, *p)).collect()).collect();
            let asked: Vec<(u64, &[(usize, u64)])> =
                wanted.iter().zip(&uses).map(|((cap, _), uses)| (*cap, uses.as_slice())).collect();
            let rates = solve(&asked, 6);
            let mut taken = [0_u64; 6];
            for (rate, uses) in rates.iter().zip(&uses) {
                for &(channel, cost) in uses {
                    taken[channel] += rate * cost;
                }
            }
            for (channel, taken) in taken.iter().enumerate() {
                prop_assert!(*taken <= SECOND_PS, "channel {channel} is overfull");
            }
            for ((rate, uses), (cap, _)) in rates.iter().zip(&uses).zip(&wanted) {
                // At its cap, or on a full channel where nobody is faster (by more than rounding).
                let held_up = uses.iter().any(|&(channel, _)| {
                    let slack: u64 =
                        uses_of(&uses_all(&asked), channel).map(|(_, cost)| cost).sum::<u64>() * 4;
                    let fastest = rates.iter().zip(&asked).filter(|(_, (_, uses))| {
                        uses.iter().any(|(other, _)| *other == channel)
                    }).map(|(rate, _)| *rate).max().unwrap_or(0);
                    SECOND_PS - taken[channel] <= slack && fastest <= rate + 8
                });
                prop_assert!(rate == cap || held_up, "{rate} of {cap} could grow");
            }
        }
    }

    fn uses_all<'a>(asked: &'a [(u64, &'a [(usize, u64)])]) -> Vec<(usize, u64)> {
        asked.iter().flat_map(|(_, uses)| uses.iter().copied()).collect()
    }

    fn uses_of(all: &[(usize, u64)], channel: usize) -> impl Iterator<Item = (usize, u64)> {
        all.iter().copied().filter(move |(other, _)| *other == channel)
    }
}
