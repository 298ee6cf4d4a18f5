//! The agents: processes from start to end, heartbeats, and what is done when the hub is not heard.
//!
//! An agent holds a lease: it counts from the moment at which it sent what the hub says it has heard last, so the agent
//! gives up before the hub does, whichever direction of the link has failed. The thread that watches the lease goes on
//! when the agent stalls.

pub(crate) mod state;

use std::collections::BTreeMap;

use rakuda_core::{ActionOutcome, Prepared, Signal, TaskId, TaskState};

use super::chaos::Chaos;
use super::messages::{Ended, Happening, Order, Report, Start};
use super::truth::SERVER;
use crate::units::SECOND_NS;
use state::{Agent, Process};

/// Maximum time after which an agent that the hub does not hear ends all that runs, from when it
/// sent what the hub has heard last. Less than the hub's `SILENCE_NS` by more than a tick.
pub(crate) const LEASE_NS: u64 = 4 * SECOND_NS;

impl Chaos {
    fn agent(&mut self, node: u32) -> &mut Agent {
        &mut self.agents[node as usize]
    }

    /// The place to which a node writes.
    pub(crate) fn place_of(&self, node: u32) -> u32 {
        if self.scenario.shared { SERVER } else { node }
    }

    pub(crate) fn tick_agent(&mut self, node: u32) {
        let now = self.now;
        let agent = self.agent(node);
        if !agent.up {
            return;
        }
        if agent.session != 0 && now > agent.lease_ns {
            self.end_session(node);
            self.count("leases run out");
        }
        let agent = self.agent(node);
        if agent.stalled {
            return;
        }
        if agent.session == 0 {
            let (files_kept, untold) = (agent.disk_kept, agent.untold.clone());
            let incarnation = agent.incarnation;
            self.send_report(node, Report::Hello { incarnation, files_kept, untold });
        } else {
            self.send_report(node, Report::Pong);
        }
    }

    /// Ends all that runs, because the hub may have given it to others.
    pub(crate) fn end_session(&mut self, node: u32) {
        self.note(format_args!("node {node} ends its session"));
        self.agent(node).session = 0;
        self.agent(node).incarnation += 1;
        self.agent(node).prepared = Prepared::default();
        for (command, process) in std::mem::take(&mut self.agent(node).running) {
            let Process { life, task, attempt, outcome, content, is_over, .. } = process;
            if is_over {
                let freed = false;
                let ended = Ended { life, task, attempt, command, outcome, content, freed };
                self.agent(node).untold.push(ended);
            } else {
                self.truth.end(task);
            }
        }
    }

    pub(crate) fn on_order(&mut self, node: u32, session: u64, order: Order) {
        let agent = self.agent(node);
        if !agent.up {
            return;
        }
        if agent.stalled {
            agent.inbox.push_back(Happening::ToAgent { node, session, order });
            return;
        }
        if let Order::Welcome { session, incarnation, files_kept, heard_ns } = order {
            let is_late = heard_ns + LEASE_NS < self.now;
            let agent = self.agent(node);
            if agent.session != 0 || agent.incarnation != incarnation || is_late {
                return;
            }
            agent.session = session;
            agent.lease_ns = heard_ns + LEASE_NS;
            agent.untold.clear();
            agent.disk_kept = true;
            if !files_kept {
                self.truth.wipe(node);
            }
            return;
        }
        if agent.session != session || session == 0 {
            return;
        }
        match order {
            Order::Welcome { .. } => unreachable!("handled above"),
            Order::Look { task, attempt } => {
                let seen = self.truth.version(task, node);
                self.send_report(node, Report::Looked { task, attempt, seen });
            }
            Order::Live => self.send_report(node, Report::Lives),
            Order::Holdings { files } => {
                let has = |(file, modified_ns): &(u32, u64)| {
                    self.truth.version(*file, node) == Some(*modified_ns)
                };
                let found = files.iter().map(has).collect();
                self.send_report(node, Report::Holdings { found });
            }
            Order::Ping { heard_ns } => {
                agent.lease_ns = agent.lease_ns.max(heard_ns + LEASE_NS);
            }
            Order::Start { start, frees_core } => self.begin(node, &start, frees_core),
            Order::Prepare { start, freed } => {
                let next = agent.prepared.prepare(start.command, start, freed);
                self.begin_prepared(node, next);
            }
            Order::Release => {
                let next = agent.prepared.release();
                self.begin_prepared(node, next);
            }
            Order::Withdraw { command } => {
                if agent.prepared.withdraw(&command).is_some() {
                    self.send_report(node, Report::Withdrawn { command });
                }
            }
            Order::KeepCore { command } => {
                let running = agent.running.get_mut(&command);
                if let Some(process) = running.filter(|process| process.frees_core) {
                    process.frees_core = false;
                    self.send_report(node, Report::CoreKept { command });
                }
            }
            Order::Signal { command, signal } => {
                let ends = |process: &Process| {
                    !process.is_over && (!process.is_deaf || signal == Signal::Kill)
                };
                if agent.running.get(&command).is_some_and(ends) {
                    self.finish(node, command, ActionOutcome::Failed, None);
                }
            }
        }
    }

    fn begin_prepared(&mut self, node: u32, next: Option<(u32, Start)>) {
        let Some((command, start)) = next else { return };
        self.send_report(node, Report::Begun { command });
        self.begin(node, &start, true);
    }

    fn begin(&mut self, node: u32, start: &Start, frees_core: bool) {
        let Start { life, task, attempt, command, cores, is_last, ref inputs } = *start;
        self.truth.begin(task, node, (life, attempt));
        let mut run_ns = self.scenario.tasks[task as usize].run_ns;
        let mut target = self.place_of(node);
        let read: Option<Vec<u64>> = if self.scenario.gfarm.is_some() {
            match self.open_in_gfarm(node, (task, attempt), inputs) {
                Ok((host, read)) => {
                    target = host;
                    Some(read)
                }
                Err(after_ns) => {
                    run_ns = 10 * after_ns;
                    None
                }
            }
        } else {
            self.truth.write(task, target, None, self.now);
            for file in inputs.iter().filter(|file| self.truth.read(**file, target).is_none()) {
                self.check_lacked(life, task, *file);
            }
            inputs.iter().map(|file| self.truth.read(*file, target)).collect()
        };
        let mut hangs = false;
        let (outcome, content) = match read {
            None => {
                self.count("inputs not found");
                run_ns /= 10;
                (ActionOutcome::Failed, None)
            }
            Some(_) if self.troubles[task as usize] > 0 && !self.heals() => {
                self.troubles[task as usize] -= 1;
                hangs = self.random.below(3) == 0;
                self.count(if hangs { "tasks that hang" } else { "tasks that fail" });
                (ActionOutcome::Failed, None)
            }
            Some(read) => {
                let content = is_last.then(|| super::truth::content(task, &read));
                (ActionOutcome::Succeeded, content)
            }
        };
        let is_deaf = hangs && self.random.below(2) == 0;
        let process = Process {
            life,
            task,
            attempt,
            outcome,
            content,
            target,
            frees_core,
            cores,
            is_deaf,
            is_over: false,
        };
        let other = self.agent(node).running.insert(command, process);
        assert!(other.is_none(), "command {command} is started twice");
        self.check_cores(node);
        if !hangs {
            self.queue.push(self.now + run_ns, Happening::Done { node, command });
        }
    }

    /// A command begins, and an input is not whole where it reads it. Only a file that is made again at that moment may
    /// be missing.
    fn check_lacked(&self, life: u64, task: u32, file: u32) {
        let task_of = self.hub.run.scheduler().task(TaskId(file));
        let is_settled = task_of.is_some_and(|task| matches!(task.state, TaskState::Settled(_)));
        let is_now = self.hub.is_up() && self.hub.life == life;
        assert!(!is_now || !is_settled, "{file} is not where {task} reads it");
    }

    /// Whatever the hub thinks of its leases: no more runs than there are cores.
    fn check_cores(&self, node: u32) {
        let running = self.agents[node as usize].running.values();
        let running = running.filter(|one| !self.scenario.calls || self.needs_cores(one));
        let of_tasks: BTreeMap<u32, u32> = running.map(|one| (one.task, one.cores)).collect();
        let cores = self.scenario.cores[node as usize];
        let used: u32 = of_tasks.values().sum();
        assert!(used <= cores, "{used} of {cores} cores of node {node} are used");
    }

    /// Whether a process needs cores. What callers start while they wait needs none, unless their node would give the
    /// core to another one; they have theirs again whatever runs. A process of a lost attempt may be a caller's, too.
    fn needs_cores(&self, process: &Process) -> bool {
        let Process { life, task, attempt, frees_core, .. } = *process;
        let acts = self.hub.run.attempts().acting_as(TaskId(task), attempt);
        self.hub.is_up()
            && self.hub.life == life
            && acts
                .is_some_and(|acts| !acts.details.resumed && (!acts.is_suspended() || frees_core))
    }

    /// Whether a command may wait for others of its set, and does not hang.
    pub(crate) fn may_wait_for_set(&self, node: u32, command: u32) -> bool {
        let process = self.agents[node as usize].running.get(&command);
        let goes_well = |process: &Process| process.outcome == ActionOutcome::Succeeded;
        self.scenario.joined && process.is_some_and(goes_well)
    }

    pub(crate) fn on_done(&mut self, node: u32, command: u32) {
        let process = self.agents[node as usize].running.get(&command);
        let Some(process) = process else { return };
        let (outcome, content, target) = (process.outcome, process.content, process.target);
        if process.is_over {
            return self.finish(node, command, outcome, content);
        }
        let of = (process.task, process.attempt);
        if outcome == ActionOutcome::Succeeded && self.waits_for_set(of.0, process.life) {
            self.count("commands that wait for others of their set");
            return self.queue.push(self.now + SECOND_NS, Happening::Done { node, command });
        }
        if content.is_some() && self.scenario.gfarm.is_some() && !self.gfarm.answers(target) {
            let after_ns = self.fail_over_server(of, None, Some(target));
            let process = self.agent(node).running.get_mut(&command).expect("it runs");
            (process.outcome, process.content) = (ActionOutcome::Failed, None);
            self.queue.push(self.now + after_ns, Happening::Done { node, command });
            return;
        }
        if self.agent(node).stalled {
            self.leave(of.0, target, content);
            let process = self.agent(node).running.get_mut(&command).expect("it runs");
            process.is_over = true;
            self.agent(node).inbox.push_back(Happening::Done { node, command });
            return;
        }
        self.finish(node, command, outcome, content);
    }

    /// A process is gone, with or without a file.
    fn leave(&mut self, task: u32, target: u32, content: Option<u64>) {
        self.truth.end(task);
        if content.is_some() {
            self.truth.write(task, target, content, self.now);
            self.gfarm.set(task, target, self.now);
        }
    }

    /// A process has ended, and its agent knows; the hub hears of it, at once or when it can.
    fn finish(&mut self, node: u32, command: u32, outcome: ActionOutcome, content: Option<u64>) {
        let process = self.agent(node).running.remove(&command).expect("it runs");
        let Process { life, task, attempt, target, frees_core, is_over, .. } = process;
        if !is_over {
            self.leave(task, target, content);
        }
        let freed = frees_core && outcome == ActionOutcome::Succeeded;
        let ended = Ended { life, task, attempt, command, outcome, content, freed };
        // Kept until the next session too: a report on a link that breaks may be lost.
        self.agent(node).untold.push(ended.clone());
        self.send_report(node, Report::Ended(ended));
        if freed {
            let next = self.agent(node).prepared.core_freed();
            self.begin_prepared(node, next);
        }
    }

    pub(crate) fn on_agent_goes_on(&mut self, node: u32) {
        self.agent(node).stalled = false;
        for happening in std::mem::take(&mut self.agent(node).inbox) {
            match happening {
                Happening::ToAgent { node, session, order } => self.on_order(node, session, order),
                Happening::Done { node, command } => self.on_done(node, command),
                _ => unreachable!("only messages and ends are kept"),
            }
        }
    }

    pub(crate) fn on_machine_down(&mut self, node: u32, disk_kept: bool) {
        self.end_session(node);
        let agent = self.agent(node);
        agent.up = false;
        agent.starts += 1;
        agent.stalled = false;
        agent.disk_kept &= disk_kept;
        agent.untold.clear();
        agent.inbox.clear();
        self.server_goes(node);
        if !disk_kept {
            self.truth.wipe(node);
            self.gfarm.wipe(node, self.now);
        }
    }

    pub(crate) fn on_machine_up(&mut self, node: u32) {
        self.agent(node).up = true;
        self.server_comes(node);
        self.note(format_args!("node {node} is up"));
    }
}
