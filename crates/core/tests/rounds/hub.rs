//! The hub: what it tells its rounds, and what it does for them, as `crates/hub/src/sync.rs`.

use rakuda_core::sync::clock::Exchange;

use super::*;

impl World {
    pub(super) fn tell(&mut self, tell: impl FnOnce(&mut Rounds, Time, &mut Vec<RoundEffect>)) {
        let mut effects = Vec::new();
        tell(&mut self.rounds, Time(self.now), &mut effects);
        for effect in effects {
            self.log.push(format!("  {effect:?}"));
            self.apply(effect);
        }
    }

    pub(super) fn apply(&mut self, effect: RoundEffect) {
        match effect {
            RoundEffect::Measure { node, exchanges } => {
                let node = node.0 as usize;
                if !self.nodes[node].is_lost {
                    self.nodes[node].wanted = self.nodes[node].wanted.max(exchanges);
                    self.ask_time(node);
                }
            }
            RoundEffect::Commit { round, t0, nodes, patience_ns } => {
                assert!(self.committed.insert(round, t0.0).is_none(), "decided twice");
                assert_eq!(patience_ns > 0, nodes.len() == 1);
                for (node, t0_ns) in nodes {
                    self.send(node.0 as usize, Message::Commit(round, t0_ns));
                }
            }
            RoundEffect::GiveUp { round, fault } => {
                assert!(
                    !self.committed.contains_key(&round),
                    "given up after the instant was told"
                );
                self.check_fault(round, fault);
                let (first, last) =
                    (Command { round, worker: 0 }, Command { round, worker: u32::MAX });
                let here: Vec<_> =
                    self.commands.range(first..=last).map(|(it, node)| (*it, *node)).collect();
                for (command, node) in here {
                    self.send(node, Message::Kill(command));
                }
            }
            RoundEffect::Stop { .. } => unreachable!("no round has a common stop"),
            RoundEffect::Ended { round, result } => self.end(round, result),
        }
    }

    /// What is said to be at fault is.
    pub(super) fn check_fault(&self, round: u32, fault: Fault) {
        let (_, nodes) = &self.placed[&round];
        let program = |worker| self.programs.get(&Command { round, worker });
        let is_disturbed = |worker: u32| self.disturbed.contains(&nodes[worker as usize]);
        let is_so = match fault {
            Fault::Left(worker) => self.leavers.contains(&Command { round, worker }),
            Fault::EndedEarly(worker) => {
                matches!(program(worker), Some(Program::EndsEarly(_))) || is_disturbed(worker)
            }
            Fault::NotReady(worker) => {
                program(worker) == Some(&Program::Hangs) || is_disturbed(worker)
            }
            Fault::NodeLost(worker, node) => {
                nodes[worker as usize] == node.0 as usize && self.nodes[node.0 as usize].is_lost
            }
            Fault::NoClock(node) => self.disturbed.contains(&(node.0 as usize)),
            Fault::Stopping => false,
        };
        assert!(is_so, "{fault:?} of round {round}");
    }

    pub(super) fn begin(&mut self, series: usize) {
        let alive: Vec<usize> =
            (0..self.nodes.len()).filter(|node| !self.nodes[*node].is_lost).collect();
        let Series { workers, left, is_abandoned, .. } = self.series[series];
        if self.hub_dead || alive.is_empty() || left == 0 || is_abandoned {
            return;
        }
        let round = u32::try_from(self.placed.len()).unwrap();
        let nodes: Vec<usize> =
            (0..workers).map(|worker| alive[worker as usize % alive.len()]).collect();
        self.placed.insert(round, (series, nodes));
        let spec =
            RoundSpec { workers, ready_ns_max: READY_NS_MAX, stop_after_ns: None, is_plain: false };
        self.rounds.define(round, spec);
        for worker in 0..workers {
            let command = Command { round, worker };
            let when = self.now + self.dice.below(MS);
            if self.dice.one_in(150) {
                self.leavers.insert(command);
            }
            self.at(when, Event::HandOver(command));
        }
    }

    pub(super) fn hand_over(&mut self, command: Command) {
        let Command { round, worker } = command;
        if self.hub_dead {
            return;
        }
        let node = self.placed[&round].1[worker as usize];
        // One that is not taken ends, and its worker leaves; so does one whose node is not there any more.
        let is_lost = self.nodes[node].is_lost;
        if self.leavers.contains(&command) || is_lost || !self.rounds.takes(round, worker) {
            if is_lost {
                self.leavers.insert(command);
            }
            return self.tell(|rounds, now, out| rounds.left(now, round, worker, out));
        }
        let (come, run) = (self.dice.below(30 * MS), self.dice.below(40 * MS));
        let program = match self.dice.below(300) {
            0 => Program::Hangs,
            1..3 => Program::EndsEarly(come),
            _ => Program::Runs(come, run),
        };
        self.programs.insert(command, program);
        self.commands.insert(command, node);
        let there = NodeId(u32::try_from(node).unwrap());
        self.tell(|rounds, now, out| rounds.prepared(now, round, worker, there, out));
        self.send(node, Message::Start(command, program));
    }

    pub(super) fn end(&mut self, round: u32, result: RoundResult) {
        let (series, nodes) = self.placed[&round].clone();
        for node in nodes.into_iter().collect::<BTreeSet<_>>() {
            self.send(node, Message::Close(round));
        }
        let is_whole = result.lag_ns.is_some();
        let it = &mut self.series[series];
        match result.fault {
            // The gang has lost a node: it runs again, as does one that had begun.
            Some(Fault::NodeLost(..) | Fault::NoClock(_)) => {}
            Some(Fault::Left(worker))
                if self.nodes[self.placed[&round].1[worker as usize]].is_lost => {}
            Some(_) => it.is_abandoned = true,
            None if is_whole => {
                it.left -= 1;
                it.ended += 1;
            }
            None => {}
        }
        assert!(self.results.insert(round, result).is_none(), "it ends twice");
        let pause = self.dice.below(2 * MS);
        self.at(self.now + pause, Event::Begin(u32::try_from(series).unwrap()));
    }

    pub(super) fn lose(&mut self, node: usize) {
        if self.hub_dead || self.nodes[node].is_lost {
            return;
        }
        self.nodes[node].is_lost = true;
        self.nodes[node].wanted = 0;
        self.disturbed.insert(node);
        self.commands.retain(|_, at| *at != node);
        let lost = NodeId(u32::try_from(node).unwrap());
        self.tell(|rounds, now, out| rounds.node_lost(now, lost, out));
    }

    pub(super) fn ask_time(&mut self, node: usize) {
        let asks = |(_, message): &(u64, Message)| message.is_of_time();
        let it = &self.nodes[node];
        let is_under_way = it.out.under_way.iter().chain(&it.back.under_way).any(asks);
        if it.wanted > 0 && it.cut.is_none() && !is_under_way {
            self.send(node, Message::AskTime(self.now));
        }
    }

    pub(super) fn on_message(&mut self, node: usize, message: Message) {
        match message {
            Message::Ready(Command { round, worker }) => {
                self.tell(|rounds, now, out| rounds.ready(now, round, worker, out));
            }
            Message::Passed(Command { round, worker }, passed) => {
                self.rounds.passed(Time(self.now), round, worker, passed);
            }
            Message::Exited(command, ran_ns) => {
                let Command { round, worker } = command;
                if self.commands.remove(&command).is_some() {
                    self.tell(|rounds, now, out| rounds.over(now, round, worker, ran_ns, out));
                }
            }
            Message::TellTime(sent_ns, there_ns) => {
                let here = |ns: u64| i64::try_from(ns).unwrap();
                let exchange = Exchange {
                    sent_ns: here(sent_ns),
                    there_received_ns: there_ns,
                    there_sent_ns: there_ns,
                    received_ns: here(self.now),
                };
                self.nodes[node].wanted -= 1;
                let there = NodeId(u32::try_from(node).unwrap());
                self.tell(|rounds, now, out| rounds.exchanged(now, there, exchange, out));
                self.ask_time(node);
            }
            other => unreachable!("{other:?}"),
        }
    }
}
