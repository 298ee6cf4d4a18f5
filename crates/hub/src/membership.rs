//! Nodes that come and go while the run goes on: events of the core, lines of the record, messages to the front.
//!
//! When a node is lost, the core is told at once and may give its tasks to others. But the front still has the actions of
//! these attempts: each must be unwound before its task is begun again, and what it left of its target be put away. Until
//! then a new attempt waits here. It does not know how a node is reached.

use std::collections::BTreeMap;

use rakuda_agent::clock;
use rakuda_core::{
    ActionOutcome as CoreOutcome, Capacity, Devices, Event, NodeId, Output, RequirementId, TaskId,
    TaskState,
};
use rakuda_proto::Text;
use rakuda_proto::cluster::NodeFacts;
use rakuda_proto::front::{HubMessage, StopHow, Usage};
use rakuda_proto::journal::{NodeJoined, NodeLost, Outcome};

use crate::agents::{NodeEvent, NodeReport, NodeState, Place};
use crate::core_time::Now;
use crate::failures;
use crate::group_losses::Loss;
use crate::hub::{Hub, RunningAttempt};
use crate::leases::Leases;
use crate::notes::AttemptNote;
use crate::targets::Settled;

/// Wait status of what was running on a node that is gone: as if it had been killed.
const LOST_STATUS: i32 = libc::SIGKILL;

/// An attempt whose node is gone, and whose action has not ended in the front yet.
#[derive(Debug)]
pub(crate) struct Unwinding {
    pub attempt: RunningAttempt,
    /// The attempt that the core wants meanwhile.
    next: Option<(u32, NodeId, Devices)>,
    /// There will be another attempt.
    rerun: bool,
    /// What was noticed of the node.
    reason: Text,
}

/// All such attempts, and what must not be told before they have ended.
#[derive(Debug, Default)]
pub(crate) struct Unwindings {
    tasks: BTreeMap<TaskId, Unwinding>,
    endings: Vec<Output>,
}

impl Unwindings {
    pub fn contains(&self, id: TaskId) -> bool {
        self.tasks.contains_key(&id)
    }

    /// Takes all, at the end of the run.
    pub fn take_all(&mut self) -> BTreeMap<TaskId, Unwinding> {
        self.endings.clear();
        let mut tasks = std::mem::take(&mut self.tasks);
        for unwinding in tasks.values_mut() {
            unwinding.rerun = false;
        }
        tasks
    }

    /// An invocation must not end in the front while one of its actions does not know yet that it has; gives it back when none is left.
    pub fn hold_ending(&mut self, ending: Output) -> Option<Output> {
        if self.tasks.is_empty() {
            return Some(ending);
        }
        self.endings.push(ending);
        None
    }

    /// The core wants the next attempt of a task; whether it has to wait.
    pub fn hold_start(&mut self, id: TaskId, start: (u32, NodeId, Devices)) -> bool {
        let unwinding = self.tasks.get_mut(&id);
        unwinding.map(|unwinding| unwinding.next = Some(start)).is_some()
    }

    /// The core says what follows a lost attempt. One that had to wait here has not begun in the front.
    pub fn on_attempt_lost(&mut self, id: TaskId, attempt: u32, rerun: bool) {
        if let Some(unwinding) = self.tasks.get_mut(&id) {
            unwinding.next.take_if(|(next, ..)| *next == attempt);
            unwinding.rerun = rerun;
        }
    }

    /// The attempt of a task whose end is waited for.
    pub fn attempt(&self, id: TaskId) -> Option<&RunningAttempt> {
        self.tasks.get(&id).map(|unwinding| &unwinding.attempt)
    }

    /// The core does not want the next attempt any more; its number, if there was one that had not begun.
    pub fn cancel_start(&mut self, id: TaskId) -> Option<u32> {
        self.tasks.get_mut(&id)?.next.take().map(|(attempt, ..)| attempt)
    }
}

impl Hub {
    /// Handles one report about a node. What an earlier link of it still reports is not heard.
    pub(crate) fn on_report(&mut self, report: NodeReport) {
        self.agents.note(&report);
        let NodeReport { node, incarnation, event } = report;
        let current = self.agents.place(node).incarnation == incarnation;
        match event {
            NodeEvent::Agent(event) if current => self.on_agent_event(event),
            NodeEvent::Up(facts) => self.on_node_up(node, incarnation, &facts),
            NodeEvent::Lost(why, again) if current && self.agents.is_there(node) => {
                self.on_node_lost(node, &why, again);
            }
            NodeEvent::Failed(why, again) => self.on_node_failed(node, why, again),
            NodeEvent::Answer(answer) if current => self.on_answer(answer),
            NodeEvent::Appeared(newcomer) => self.on_node_appeared(*newcomer),
            NodeEvent::Gone => self.on_node_gone(node),
            NodeEvent::Told(text) => self.warn(&text),
            NodeEvent::Invited(text) => self.newcomers.set_invitation(text),
            NodeEvent::AllAppeared(how) => {
                self.agents.expect_no_more();
                self.agents.not_appeared = how.err();
                self.check_held_invocation();
                self.check_nodes_left();
            }
            NodeEvent::Agent(_) | NodeEvent::Answer(_) | NodeEvent::Lost(..) => {}
        }
    }

    fn on_node_up(&mut self, id: NodeId, incarnation: u32, facts: &NodeFacts) {
        let capacity = self.capacity_of(id, facts);
        let place = self.agents.place_mut(id);
        if place.state != NodeState::Starting {
            return;
        }
        let is_back = place.incarnation > 0;
        place.state = NodeState::Up;
        place.incarnation = incarnation;
        place.trouble = None;
        let cores = capacity.cores;
        place.node.capacity = capacity;
        let name = place.node.name.to_display();
        place.node.port.on_up(incarnation);
        self.agents.welcome(id);
        self.inputs.add_name(id, &facts.host.0);
        self.match_hosts();
        self.set_leases(id, cores);
        if is_back {
            self.tell_losses();
            self.warn(&format!("node {name} is back"));
        }
        if !self.hold_node(id, facts) {
            // Files on a shared file system are no node's; of those in Gfarm each is looked for by itself.
            self.join_node(id, true);
        }
    }

    /// A node takes tasks from now on.
    pub(crate) fn join_node(&mut self, id: NodeId, files_kept: bool) {
        let capacity = self.agents.node(id).capacity.clone();
        // Before it joins: that starts something there at once.
        self.tell_node_end(id);
        self.event(Event::NodeJoined { id, capacity, files_kept });
        self.look_for_lost_files();
        self.note_joined(id);
        self.note_node(id);
        self.check_held_invocation();
    }

    /// What tasks may use of a node: what the host file or `-j` says, else what there is.
    fn capacity_of(&self, id: NodeId, facts: &NodeFacts) -> Capacity {
        let named = self.agents.node(id).capacity.cores;
        let cores = if named == 0 { facts.cores } else { named };
        let most = self.settings.cluster.as_ref().map_or(0, |cluster| cluster.cores_max);
        let memory_bytes = match self.settings.memory_bytes_asked {
            0 => facts.memory_bytes,
            asked => asked,
        };
        Capacity {
            cores: if most == 0 { cores.max(1) } else { cores.clamp(1, most) },
            memory_bytes,
            cache_bytes: facts.memory_bytes,
            resources: self.settings.capacity.resources.clone(),
        }
    }

    /// The leases of a node that has just come.
    pub(crate) fn set_leases(&mut self, id: NodeId, cores: u32) {
        let mut leases = Leases::new(cores);
        if self.lookahead_off {
            leases.disable();
        }
        self.leases[id.0 as usize] = leases;
    }

    /// Writes a node into the record.
    pub(crate) fn note_node(&mut self, id: NodeId) {
        let node = self.agents.node(id);
        let Capacity { cores, memory_bytes, .. } = node.capacity;
        let (time_ns, name) = (clock::wall_ns(), node.name.clone());
        // What only runs commands outside of tasks has nothing that tasks may use.
        let cores = if self.agents.is_up(id) { cores } else { 0 };
        let group = self.settings.cluster.as_ref().and_then(|plan| plan.group_of(id));
        self.record.add_node(NodeJoined { time_ns, node: id.0, name, cores, memory_bytes, group });
    }

    pub(crate) fn on_node_lost(&mut self, id: NodeId, why: &str, again: bool) {
        self.answer_for(Some(id));
        let failed = self.take_failures_on(id);
        self.lose_staging(id);
        let name = self.agents.node(id).name.to_display();
        let place = self.agents.place_mut(id);
        place.state = if again { NodeState::Starting } else { NodeState::Lost };
        place.trouble = Some(why.to_owned());
        let reason = format!("node {name} was lost ({why})");
        self.requests.retain(|(node, _)| *node != Some(id));
        // The core first: what it then wants of these tasks waits for their actions' end.
        let on_it = |attempt: &RunningAttempt| attempt.node == id;
        let lost: Vec<TaskId> =
            self.running.iter().filter(|(_, attempt)| on_it(attempt)).map(|(id, _)| *id).collect();
        for task in &lost {
            self.unwind(*task, &reason);
        }
        self.end_commands_of(id, &reason);
        self.set_leases(id, 0);
        self.event(Event::NodeLost { id });
        // The front has seen their end; for the core they went with the node.
        for (task, attempt) in failed {
            let reason = Text::from(reason.clone());
            let unwinding = Unwinding { attempt, next: None, rerun: true, reason };
            self.unwindings.tasks.insert(task, unwinding);
            self.on_unwound(task);
        }
        self.on_heard_of(id);
        self.look_for_files_of(id);
        if !again {
            self.event(Event::NodeGivenUp { id });
        }
        for (task, attempt) in self.take_comings(Some(id)) {
            self.note_lost_target(task, &attempt, &reason);
        }
        self.pump_transfers();
        self.check_held_invocation();
        self.record.node_lost(NodeLost {
            time_ns: clock::wall_ns(),
            node: id.0,
            reason: Some(why.to_owned()),
        });
        let again = |output: &&Output| match output {
            Output::AttemptLost { node, rerun, .. } => *node == id && *rerun,
            _ => false,
        };
        let reruns = self.outputs.iter().filter(again).count();
        if !self.stopping.is_stopping() {
            self.tell_loss(Loss { node: id, why: why.to_owned(), reruns });
        }
        self.flush_urgent = true;
        self.check_nodes_left();
    }

    /// The front is told that the action's node is gone; its end is waited for.
    fn unwind(&mut self, id: TaskId, reason: &str) {
        let Some(mut attempt) = self.running.remove(&id) else { return };
        attempt.held.extend(self.leases[attempt.node.0 as usize].end(id, false, Now::read()));
        self.release_inputs(id, attempt.node);
        let reason = Text::from(reason.to_owned());
        self.link.push(&HubMessage::ActionLost { task: id.0, reason: reason.clone() });
        for pending in std::mem::take(&mut attempt.held_back) {
            self.end_lost_command(pending.command.0, &reason);
        }
        self.callers.retain(|_, caller| *caller != id);
        let unwinding = Unwinding { attempt, next: None, rerun: true, reason };
        self.unwindings.tasks.insert(id, unwinding);
    }

    fn end_lost_command(&mut self, command: u32, reason: &Text) {
        let usage = Usage::default();
        let ended =
            HubMessage::CommandEnded(command, LOST_STATUS, 0, None, Some(reason.clone()), usage);
        self.link.push(&ended);
    }

    /// What ran on a lost node has ended for all of us.
    fn end_commands_of(&mut self, id: NodeId, reason: &str) {
        let there = self.commands.iter().filter(|(_, running)| running.node == id);
        let commands: Vec<_> = there.map(|(command, running)| (*command, running.task)).collect();
        let reason = Text::from(reason.to_owned());
        for (command, task) in commands {
            self.commands.remove(&command);
            let time_ns = clock::wall_ns();
            let usage = Usage::default();
            self.record.command_ended(time_ns, command.0, LOST_STATUS, Some(&reason), &usage);
            self.printer.end(self.source_of(command, task));
            self.end_lost_command(command.0, &reason);
        }
    }

    fn on_node_failed(&mut self, id: NodeId, why: String, again: bool) {
        let joined_before = self.agents.place(id).incarnation > 0;
        let place = self.agents.place_mut(id);
        if again || place.state != NodeState::Starting {
            place.trouble = Some(why);
            return;
        }
        place.state = if joined_before { NodeState::Lost } else { NodeState::Failed };
        let name = place.node.name.to_display();
        let line = format!("node {name} cannot be used: {why}");
        place.trouble = Some(why);
        if self.agents.any_left() && !self.stopping.is_stopping() {
            self.tell_losses();
            self.warn(&line);
        }
        if joined_before {
            self.event(Event::NodeGivenUp { id });
        }
        self.check_held_invocation();
        self.check_nodes_left();
    }

    /// The core takes a task for the reason why nodes were lost; it fails.
    pub(crate) fn tell_blamed(&mut self, id: TaskId, nodes: &[NodeId]) {
        let names = nodes.iter().map(|node| self.agents.node(*node).name.to_display());
        let names: Vec<String> = names.collect();
        let reason = format!("task {} {}", self.display_name(id), failures::blame(&names));
        self.warn(&reason);
        self.note_blame(id, names);
        self.note_blamed(id, nodes);
        self.link.push(&HubMessage::TaskBlamed { task: id.0, reason: Text::from(reason) });
    }

    /// The core starts nothing more on a node.
    pub(crate) fn set_aside(&mut self, id: NodeId, failures: u32) {
        let name = self.agents.node(id).name.to_display();
        let why = format!("{failures} actions failed there one after the other");
        self.warn(&format!("node {name} is set aside: {why}, while others did well"));
        let place = self.agents.place_mut(id);
        place.state = NodeState::SetAside;
        place.trouble = Some(why);
    }

    /// The core uses it again, since no other is left.
    pub(crate) fn take_back_node(&mut self, id: NodeId) {
        let name = self.agents.node(id).name.to_display();
        self.warn(&format!("node {name} is used again: no other is left"));
        let place = self.agents.place_mut(id);
        place.state = NodeState::Up;
        place.trouble = None;
    }

    /// What some tasks ask for is on no node. While nodes are being started, one may come.
    pub(crate) fn tell_nowhere(&mut self, requirement: RequirementId) {
        let starting = |place: &Place| place.state == NodeState::Starting;
        let is_fixed = self.settings.cluster.is_none() && self.settings.walltime_ns.is_none();
        if is_fixed
            || self.agents.is_expecting()
            || self.agents.places().any(|(_, place)| starting(place))
        {
            // When no node comes, the time may have been too short for it.
            self.note_nowhere(requirement);
            return;
        }
        let is_queued = |id: &TaskId| {
            self.scheduler.task(*id).is_some_and(|task| {
                task.requirement == requirement && task.state == TaskState::Ready
            })
        };
        let Some(id) = self.scheduler.task_ids().find(is_queued) else { return };
        let name = self.display_name(id);
        if let Some(line) = self.too_late(requirement, &name) {
            return self.warn(&line);
        }
        self.warn(&format!(
            "no node can run task {name} and its like: it waits (`rakudactl explain {name}` says what is missing)"
        ));
    }

    /// Without a node the run cannot go on, and says why.
    pub(crate) fn check_nodes_left(&mut self) {
        if self.agents.any_left() || self.stopping.is_stopping() || self.goodbye {
            return;
        }
        let told = self.agents.places().filter_map(|(_, place)| {
            let trouble = place.trouble.as_ref()?;
            Some(format!("\n  {}: {trouble}", place.node.name.to_display()))
        });
        let not_appeared = self.agents.not_appeared.iter().map(|why| format!("\n  {why}"));
        let told = not_appeared.chain(told).collect::<String>();
        let reason = format!("no node is left to run on:{told}");
        self.tell_losses();
        self.link.push(&HubMessage::NodesGone { reason: Text::from(reason) });
        self.any_failed = true;
        self.stop(StopHow::Interrupt);
    }

    /// The action of an attempt whose node is gone has ended in the front; whether it was one.
    pub(crate) fn on_unwound(&mut self, id: TaskId) -> bool {
        let Some(unwinding) = self.unwindings.tasks.remove(&id) else {
            return false;
        };
        self.note_lost_attempt(id, &unwinding);
        let next = unwinding.next;
        if let Some((number, node, devices)) = next {
            self.start_action(id, number, node, &devices);
        }
        if self.unwindings.tasks.is_empty() {
            self.outputs.extend(self.unwindings.endings.drain(..));
        }
        true
    }

    /// What an attempt that its node has taken with it left of its target is put away, and its end noted.
    pub(crate) fn note_lost_attempt(&mut self, id: TaskId, unwinding: &Unwinding) {
        let Unwinding { attempt, rerun, reason, .. } = unwinding;
        let mut settled = Settled::Untouched;
        if self.names.is_path(id) && !self.settings.config.dry_run {
            settled = self.settle_attempt(id, attempt);
            let name = String::from_utf8_lossy(self.names.name(id));
            if let Some(line) = settled.describe(&name) {
                self.warn(&line);
            }
        }
        if !rerun {
            self.note_target(id, &settled);
        }
        let (outcome, message) = (Outcome::Lost, reason.0.as_slice());
        let note = AttemptNote { outcome, message, retried: *rerun, after: None, settled };
        self.note_attempt_ended(id, attempt, &note);
    }

    /// The core wants an attempt ended that has not begun in the front yet; whether it was one.
    pub(crate) fn abort_unbegun(&mut self, id: TaskId) -> bool {
        let Some(attempt) = self.unwindings.cancel_start(id) else { return false };
        self.event(Event::ActionEnded { id, attempt, outcome: CoreOutcome::Failed, run_ns: None });
        true
    }
}
