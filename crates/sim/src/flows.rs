//! Transfers under way: how much is left of each, how fast it goes, when it ends.
//!
//! Knows channels and bytes, not files, nodes or tasks. When a transfer comes or goes, only those
//! that share a channel with it, or with one that does, and so on, get new rates.

use std::collections::BTreeSet;

use crate::cluster::Sharing;
use crate::ids::{ChannelId, FlowId};
use crate::share::{Demand, HOPS_MAX, Supply, share};
use crate::units::{SECOND_NS, SECOND_PS};

/// The channels of a transfer, each with what a byte takes of it (ps).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowPath {
    hops: [Option<(ChannelId, u64)>; HOPS_MAX],
}

impl FlowPath {
    pub(crate) fn through(mut self, channel: ChannelId, cost_ps: u64) -> Self {
        let free = self.hops.iter_mut().find(|hop| hop.is_none());
        *free.expect("a path has at most five channels") = Some((channel, cost_ps));
        self
    }

    fn hops(&self) -> impl Iterator<Item = (ChannelId, u64)> {
        self.hops.iter().map_while(|hop| *hop)
    }
}

#[derive(Clone, Debug)]
struct Flow {
    cap: u64,
    path: FlowPath,
    /// Bytes x 10^9 that were left at `seen_ns`.
    left: u128,
    seen_ns: u64,
    /// Bytes/s since `seen_ns`.
    rate: u64,
    /// When it ends; `None` if it stands still, or is not under way.
    finish_ns: Option<u64>,
    /// The round of `settle` in which it was found.
    round: u64,
}

#[derive(Clone, Debug, Default)]
struct Channel {
    /// Its capacity, ps a second; less than 10^12 when a fault slowed it.
    capacity: u64,
    /// Percent of the capacity that is left while more than one transfer is on it.
    shared_percent: u64,
    flows: Vec<FlowId>,
    /// ps of the capacity that one byte of each transfer takes in all.
    weight: u64,
    /// The round of `settle` in which it was found, and its position then.
    round: u64,
    position: usize,
}

/// All transfers.
#[derive(Clone, Debug)]
pub(crate) struct Flows {
    sharing: Sharing,
    channels: Vec<Channel>,
    items: Vec<Flow>,
    unused: Vec<FlowId>,
    finishes: BTreeSet<(u64, FlowId)>,
    /// Channels whose transfers are not what they were at the last `settle`.
    changed: Vec<ChannelId>,
    /// Transfers without a channel that are new.
    fresh: Vec<FlowId>,
    rounds: u64,
    scratch: Scratch,
}

#[derive(Clone, Debug, Default)]
struct Scratch {
    channels: Vec<ChannelId>,
    flows: Vec<FlowId>,
    demands: Vec<Demand>,
    supplies: Vec<Supply>,
    by_cap: Vec<usize>,
}

impl Channel {
    /// ps a second that transfers have now.
    fn capacity(&self) -> u64 {
        let percent = if self.flows.len() > 1 { self.shared_percent } else { 100 };
        self.capacity / 100 * percent
    }
}

impl Flows {
    pub(crate) fn new(sharing: Sharing) -> Self {
        Self {
            sharing,
            channels: Vec::new(),
            items: Vec::new(),
            unused: Vec::new(),
            finishes: BTreeSet::new(),
            changed: Vec::new(),
            fresh: Vec::new(),
            rounds: 0,
            scratch: Scratch::default(),
        }
    }

    pub(crate) fn add_channel(&mut self, shared_percent: u64) -> ChannelId {
        let id = ChannelId::at(self.channels.len());
        self.channels.push(Channel { capacity: SECOND_PS, shared_percent, ..Channel::default() });
        id
    }

    /// Begins a transfer. Its rate, and those of others, are right after the next `settle`.
    pub(crate) fn start(&mut self, now: u64, bytes: u64, cap: u64, path: FlowPath) -> FlowId {
        let left = u128::from(bytes) * u128::from(SECOND_NS);
        let flow =
            Flow { cap: cap.max(1), path, left, seen_ns: now, rate: 0, finish_ns: None, round: 0 };
        let id = if let Some(id) = self.unused.pop() {
            self.items[id.index()] = flow;
            id
        } else {
            self.items.push(flow);
            FlowId::at(self.items.len() - 1)
        };
        let mut alone = true;
        for (channel, cost) in path.hops() {
            self.changed.push(channel);
            let channel = &mut self.channels[channel.index()];
            channel.flows.push(id);
            channel.weight += cost;
            alone = false;
        }
        if alone {
            self.fresh.push(id);
        }
        id
    }

    /// Ends a transfer, done or not.
    pub(crate) fn stop(&mut self, id: FlowId) {
        let flow = &mut self.items[id.index()];
        if let Some(finish_ns) = flow.finish_ns.take() {
            self.finishes.remove(&(finish_ns, id));
        }
        let path = flow.path;
        let mut alone = true;
        for (channel, cost) in path.hops() {
            self.changed.push(channel);
            let channel = &mut self.channels[channel.index()];
            channel.flows.retain(|other| *other != id);
            channel.weight -= cost;
            alone = false;
        }
        if alone {
            self.fresh.retain(|other| *other != id);
        }
        self.unused.push(id);
    }

    /// The time at which the next transfer ends.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        debug_assert!(self.changed.is_empty() && self.fresh.is_empty(), "rates are old");
        self.finishes.first().map(|(finish_ns, _)| *finish_ns)
    }

    /// The transfer that ends next.
    pub(crate) fn next(&self) -> Option<FlowId> {
        self.finishes.first().map(|(_, id)| *id)
    }

    /// Gives transfers their rates from `now` on, where something has changed.
    pub(crate) fn settle(&mut self, now: u64) {
        while let Some(id) = self.fresh.pop() {
            let cap = self.items[id.index()].cap;
            self.set_rate(now, id, cap);
        }
        if self.changed.is_empty() {
            return;
        }
        self.rounds += 1;
        let changed = std::mem::take(&mut self.changed);
        match self.sharing {
            Sharing::MaxMin => self.settle_max_min(now, &changed),
            Sharing::Equal => self.settle_equal(now, &changed),
        }
        self.changed = changed;
        self.changed.clear();
    }

    fn settle_equal(&mut self, now: u64, changed: &[ChannelId]) {
        for &channel in changed {
            if std::mem::replace(&mut self.channels[channel.index()].round, self.rounds)
                == self.rounds
            {
                continue;
            }
            for position in 0..self.channels[channel.index()].flows.len() {
                let id = self.channels[channel.index()].flows[position];
                let flow = &self.items[id.index()];
                let share = |(channel, _): (ChannelId, u64)| {
                    let channel = &self.channels[channel.index()];
                    channel.capacity() / channel.weight
                };
                let rate = flow.path.hops().map(share).min().unwrap_or(flow.cap).min(flow.cap);
                self.set_rate(now, id, rate);
            }
        }
    }

    fn settle_max_min(&mut self, now: u64, changed: &[ChannelId]) {
        let mut scratch = std::mem::take(&mut self.scratch);
        for &first in changed {
            if self.channels[first.index()].round != self.rounds {
                self.gather(first, &mut scratch);
                share(&mut scratch.demands, &mut scratch.supplies, &mut scratch.by_cap);
                for (id, demand) in scratch.flows.iter().zip(&scratch.demands) {
                    self.set_rate(now, *id, demand.rate);
                }
            }
        }
        self.scratch = scratch;
    }

    /// All channels and transfers that can be reached from a channel.
    fn gather(&mut self, first: ChannelId, scratch: &mut Scratch) {
        scratch.channels.clear();
        scratch.flows.clear();
        scratch.demands.clear();
        scratch.supplies.clear();
        self.find(first, scratch);
        let mut next = 0;
        while let Some(&channel) = scratch.channels.get(next) {
            next += 1;
            for position in 0..self.channels[channel.index()].flows.len() {
                let id = self.channels[channel.index()].flows[position];
                if self.items[id.index()].round == self.rounds {
                    continue;
                }
                self.items[id.index()].round = self.rounds;
                let mut demand = Demand::new(self.items[id.index()].cap);
                let path = self.items[id.index()].path;
                for (channel, cost) in path.hops() {
                    demand.add(self.find(channel, scratch), cost);
                }
                scratch.flows.push(id);
                scratch.demands.push(demand);
            }
        }
    }

    /// The position of a channel among those that are looked at.
    fn find(&mut self, id: ChannelId, scratch: &mut Scratch) -> usize {
        let channel = &mut self.channels[id.index()];
        if channel.round != self.rounds {
            channel.round = self.rounds;
            channel.position = scratch.channels.len();
            scratch.channels.push(id);
            scratch.supplies.push(Supply::new(channel.capacity()));
        }
        channel.position
    }

    fn set_rate(&mut self, now: u64, id: FlowId, rate: u64) {
        let flow = &mut self.items[id.index()];
        if flow.rate == rate && flow.finish_ns.is_some() {
            return;
        }
        let done = u128::from(flow.rate) * u128::from(now - flow.seen_ns);
        flow.left = flow.left.saturating_sub(done);
        flow.seen_ns = now;
        flow.rate = rate;
        if let Some(finish_ns) = flow.finish_ns.take() {
            self.finishes.remove(&(finish_ns, id));
        }
        let wait = match (flow.left, rate) {
            (0, _) => Some(0),
            (_, 0) => None,
            (left, rate) => u64::try_from(left.div_ceil(u128::from(rate))).ok(),
        };
        if let Some(wait) = wait {
            let finish_ns = now.saturating_add(wait);
            flow.finish_ns = Some(finish_ns);
            self.finishes.insert((finish_ns, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{MIB, cost_ps};

    /// Ends of all transfers, in order, in ms.
    fn run(flows: &mut Flows) -> Vec<u64> {
        let mut now = 0;
        let mut ends = Vec::new();
        loop {
            flows.settle(now);
            let (Some(next_ns), Some(id)) = (flows.next_ns(), flows.next()) else {
                return ends;
            };
            now = next_ns;
            flows.stop(id);
            ends.push(now.div_ceil(1_000_000));
        }
    }

    #[test]
    fn two_transfers_share_a_disk_until_the_shorter_has_ended() {
        let mut flows = Flows::new(Sharing::MaxMin);
        let disk = flows.add_channel(100);
        let path = FlowPath::default().through(disk, cost_ps(100 * MIB));
        flows.start(0, 100 * MIB, 1_000 * MIB, path);
        flows.start(0, 200 * MIB, 1_000 * MIB, path);
        let ends = run(&mut flows);
        assert!(ends[0].abs_diff(2_000) < 5 && ends[1].abs_diff(3_000) < 5, "{ends:?}");
    }

    #[test]
    fn a_disk_that_loses_time_between_transfers_is_slower_for_two_than_for_one() {
        let mut flows = Flows::new(Sharing::MaxMin);
        let disk = flows.add_channel(50);
        let path = FlowPath::default().through(disk, cost_ps(100 * MIB));
        flows.start(0, 100 * MIB, 1_000 * MIB, path);
        flows.start(0, 200 * MIB, 1_000 * MIB, path);
        let ends = run(&mut flows);
        assert!(ends[0].abs_diff(4_000) < 5 && ends[1].abs_diff(5_000) < 5, "{ends:?}");
    }

    #[test]
    fn equal_shares_leave_what_one_cannot_use() {
        let mut flows = Flows::new(Sharing::Equal);
        let disk = flows.add_channel(100);
        let path = FlowPath::default().through(disk, cost_ps(100 * MIB));
        flows.start(0, 10 * MIB, 10 * MIB, path);
        flows.start(0, 100 * MIB, 1_000 * MIB, path);
        let ends = run(&mut flows);
        assert!(ends[0].abs_diff(1_000) < 5 && ends[1].abs_diff(1_500) < 5, "{ends:?}");
    }

    #[test]
    fn transfers_that_share_nothing_do_not_hinder_each_other() {
        let mut flows = Flows::new(Sharing::MaxMin);
        for _ in 0..2 {
            let disk = flows.add_channel(100);
            flows.start(
                0,
                59 * MIB,
                59 * MIB,
                FlowPath::default().through(disk, cost_ps(59 * MIB)),
            );
        }
        flows.start(0, 592 * MIB, 592 * MIB, FlowPath::default());
        flows.start(0, 0, 1, FlowPath::default());
        let ends = run(&mut flows);
        assert_eq!(ends[0], 0);
        assert!(ends[1..].iter().all(|end| end.abs_diff(1_000) < 2), "{ends:?}");
    }
}
