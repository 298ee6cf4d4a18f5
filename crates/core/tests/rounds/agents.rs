//! Agents, as `crates/agent/src/gate.rs`, the processes there, and what goes wrong with them.

use super::*;

impl World {
    pub(super) fn agent_takes(&mut self, node: usize, message: Message) {
        match message {
            Message::Start(command, program) => {
                let former = self.nodes[node].processes.insert(command, (program, Process::Comes));
                assert!(former.is_none(), "{command:?} is started twice");
                match program {
                    Program::Runs(come_ns, _) | Program::EndsEarly(come_ns) => {
                        self.at(self.now + come_ns, Event::Step(node, command));
                    }
                    Program::Hangs => {}
                }
            }
            Message::Commit(round, t0_ns) => {
                self.nodes[node].instants.insert(round, t0_ns);
                self.wake(node, round);
            }
            Message::Kill(command) => self.end_process(node, command),
            Message::Close(round) => {
                let here = self.nodes[node].processes.iter();
                let waits = |it: &Process| matches!(it, Process::Comes | Process::Waits(_));
                let held: Vec<Command> = here
                    .filter(|(command, (_, it))| command.round == round && waits(it))
                    .map(|(command, _)| *command)
                    .collect();
                for command in held {
                    self.end_process(node, command);
                }
            }
            Message::AskTime(sent_ns) => {
                let there_ns = self.nodes[node].shows(self.now);
                self.report(node, Message::TellTime(sent_ns, there_ns));
            }
            other => unreachable!("{other:?}"),
        }
    }

    /// Those who wait see the instant, one after the other.
    pub(super) fn wake(&mut self, node: usize, round: u32) {
        let mut when = self.now;
        let commands: Vec<Command> = self.nodes[node].processes.keys().copied().collect();
        for command in commands.into_iter().filter(|command| command.round == round) {
            if let Some((_, it @ Process::Waits(None))) =
                self.nodes[node].processes.get_mut(&command)
            {
                when += 20 * US;
                *it = Process::Waits(Some(when));
                let t0_ns = self.nodes[node].instants[&round];
                let left_ns = self.nodes[node].left_ns(when, t0_ns);
                self.at(when + left_ns, Event::Step(node, command));
            }
        }
    }

    pub(super) fn step(&mut self, node: usize, command: Command) {
        let now = self.now;
        let Some((program, process)) = self.nodes[node].processes.get(&command).copied() else {
            return;
        };
        match (process, program) {
            (Process::Comes, Program::EndsEarly(_)) => self.end_process(node, command),
            (Process::Comes, _) => {
                self.set(node, command, Process::Waits(None));
                self.report(node, Message::Ready(command));
            }
            (Process::Waits(Some(woke)), Program::Runs(_, run_ns)) if woke <= now => {
                let t0_ns = self.nodes[node].instants[&command.round];
                let left_ns = self.nodes[node].left_ns(now, t0_ns);
                if left_ns > 0 {
                    self.at(now + left_ns, Event::Step(node, command));
                    return;
                }
                self.set(node, command, Process::Runs(now));
                self.pass(node, command, woke, t0_ns);
                self.at(now + run_ns, Event::Step(node, command));
            }
            (Process::Runs(since), Program::Runs(_, run_ns)) if since + run_ns <= now => {
                self.end_process(node, command);
            }
            _ => {}
        }
    }

    pub(super) fn pass(&mut self, node: usize, command: Command, woke: u64, t0_ns: i64) {
        let now = self.now;
        assert!(self.committed.contains_key(&command.round), "{command:?} began by itself");
        assert!(self.starts.insert(command, now).is_none(), "{command:?} ran twice");
        let it = &self.nodes[node];
        let woke_ns = it.shows(woke);
        let start_ns = it.shows(now);
        let spun_ns = woke_ns.max(t0_ns - i64::try_from(SPIN_NS).unwrap());
        if woke_ns > t0_ns - 1_000_000 || spun_ns > t0_ns {
            self.late.insert(command);
        }
        let passed = Passed {
            woke_ns,
            spun_ns,
            start_ns,
            offset_ns: 0,
            spins: true,
            has_met: false,
            cpu: 0,
        };
        self.report(node, Message::Passed(command, passed));
    }

    pub(super) fn set(&mut self, node: usize, command: Command, to: Process) {
        if let Some((_, process)) = self.nodes[node].processes.get_mut(&command) {
            *process = to;
        }
    }

    pub(super) fn end_process(&mut self, node: usize, command: Command) {
        let Some((_, process)) = self.nodes[node].processes.get(&command).copied() else { return };
        if process != Process::Over {
            self.set(node, command, Process::Over);
            let ran_ns = if let Process::Runs(since) = process { self.now - since } else { 0 };
            self.report(node, Message::Exited(command, ran_ns));
        }
    }

    /// Its end closes all gates there, and what runs ends with it.
    pub(super) fn end_agent(&mut self, node: usize) {
        self.nodes[node].is_dead = true;
        self.nodes[node].processes.values_mut().for_each(|(_, process)| *process = Process::Over);
    }

    pub(super) fn happen(&mut self, disaster: Disaster) {
        self.happened.push(disaster);
        match disaster {
            Disaster::Cut(node, for_ns) if node > 0 => self.cut(node, for_ns),
            Disaster::AgentDies(node) if node > 0 => self.kill_agent(node),
            Disaster::AgentStalls(node, for_ns) if node > 0 => {
                self.disturbed.insert(node);
                let it = &mut self.nodes[node];
                it.stalls_until = self.now + for_ns;
                // What it has said already is on its way.
                self.at(self.now + for_ns, Event::Deliver(node));
            }
            Disaster::LeaderDies => {
                let behind = (0..self.nodes.len()).filter(|node| self.nodes[*node].has_leader);
                behind.collect::<Vec<_>>().into_iter().for_each(|node| self.kill_agent(node));
            }
            Disaster::HubDies => {
                self.hub_dead = true;
                for node in 0..self.nodes.len() {
                    // Its own agent is a part of it; others see the end of the link, or that nothing comes.
                    self.end_agent_soon(node);
                }
            }
            Disaster::ClockSteps(node, by_ns) if node > 0 => {
                self.nodes[node].ahead_ns += by_ns;
                self.stepped.insert(node);
                self.disturbed.insert(node);
                // Who sleeps until the instant looks anew.
                let here = self.nodes[node].processes.iter();
                let sleep = here.filter(|(_, (_, it))| matches!(it, Process::Waits(Some(_))));
                let commands: Vec<Command> = sleep.map(|(command, _)| *command).collect();
                for command in commands {
                    self.at(self.now + 100 * US, Event::Step(node, command));
                }
            }
            // The hub's own machine has no link.
            Disaster::Cut(..)
            | Disaster::AgentDies(_)
            | Disaster::AgentStalls(..)
            | Disaster::ClockSteps(..) => {}
        }
    }

    pub(super) fn cut(&mut self, node: usize, for_ns: u64) {
        self.disturbed.insert(node);
        let now = self.now;
        let it = &mut self.nodes[node];
        if it.cut.is_some() || it.is_lost {
            return;
        }
        it.cut = Some(now);
        it.out.under_way.retain(|(_, message)| !message.is_of_time());
        it.back.under_way.retain(|(_, message)| !message.is_of_time());
        let agent_ns = CUT_NS_MAX - SECOND + self.dice.below(2 * SECOND);
        self.at(now + agent_ns, Event::AgentGivesUp(node, now));
        self.at(now + CUT_NS_MAX, Event::HubGivesUp(node, now));
        self.at(now + for_ns, Event::Resume(node, now));
    }

    /// The hub sees the end of the link; where that is cut, it has to wait.
    pub(super) fn kill_agent(&mut self, node: usize) {
        self.disturbed.insert(node);
        self.end_agent(node);
        self.cut(node, self.nodes[node].back_ns);
    }

    pub(super) fn end_agent_soon(&mut self, node: usize) {
        if node == 0 {
            return self.end_agent(node);
        }
        let now = self.now;
        let for_ns = if self.dice.one_in(2) { self.nodes[node].out_ns } else { CUT_NS_MAX };
        if self.nodes[node].cut.is_none() {
            self.nodes[node].cut = Some(now);
            self.at(now + for_ns, Event::AgentGivesUp(node, now));
        }
    }
}
