//! The links: in order, nothing is lost but questions for the time; what a cut has held back comes when it is over.

use super::*;

impl World {
    pub(super) fn send(&mut self, node: usize, message: Message) {
        let delay_ns = self.nodes[node].out_ns + self.dice.below(20 * US);
        let when = self.now + delay_ns;
        Self::push(&mut self.nodes[node].out, when, message);
        self.at(when, Event::Deliver(node));
    }

    pub(super) fn report(&mut self, node: usize, message: Message) {
        if self.nodes[node].is_dead {
            return;
        }
        let delay_ns = self.nodes[node].back_ns + self.dice.below(20 * US);
        let when = self.now.max(self.nodes[node].stalls_until) + delay_ns;
        Self::push(&mut self.nodes[node].back, when, message);
        self.at(when, Event::Deliver(node));
    }

    pub(super) fn push(direction: &mut Direction, when: u64, message: Message) {
        let last = direction.under_way.back().map_or(0, |(when, _)| *when);
        direction.under_way.push_back((when.max(last), message));
    }

    pub(super) fn deliver(&mut self, node: usize) {
        loop {
            let it = &mut self.nodes[node];
            let (now, is_cut) = (self.now, it.cut.is_some());
            let is_there = |queue: &VecDeque<(u64, Message)>| {
                !is_cut && queue.front().is_some_and(|(when, _)| *when <= now)
            };
            if is_there(&it.out.under_way) && !it.is_dead && it.stalls_until > now {
                let until = it.stalls_until;
                self.at(until, Event::Deliver(node));
            } else if is_there(&it.out.under_way) {
                let message = it.out.under_way.pop_front().map(|(_, message)| message).unwrap();
                if !it.is_dead {
                    self.agent_takes(node, message);
                }
                continue;
            }
            let it = &mut self.nodes[node];
            if !is_there(&it.back.under_way) {
                return;
            }
            let message = it.back.under_way.pop_front().map(|(_, message)| message).unwrap();
            if !self.hub_dead && !it.is_lost {
                self.on_message(node, message);
            }
        }
    }

    /// The hub sends again all that was not taken, and tells an agent that it has given it up.
    pub(super) fn resume(&mut self, node: usize, since: u64) {
        let it = &mut self.nodes[node];
        if it.cut != Some(since) {
            return;
        }
        it.cut = None;
        let (there, here) = (self.now + it.out_ns, self.now + it.back_ns);
        for (direction, when) in [(&mut it.out, there), (&mut it.back, here)] {
            direction.under_way.iter_mut().for_each(|(at, _)| *at = (*at).max(when));
        }
        let last = it.out.under_way.back().into_iter().chain(it.back.under_way.back());
        let times: Vec<u64> = last.map(|(when, _)| *when).chain([there, here]).collect();
        let is_over = it.is_lost || self.hub_dead;
        for when in times {
            self.at(when, Event::Deliver(node));
        }
        if is_over {
            self.end_agent(node);
        } else if self.nodes[node].is_dead {
            self.lose(node);
        } else {
            self.ask_time(node);
        }
    }
}
