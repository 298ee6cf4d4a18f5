//! Nodes that come and go while the run goes on: events of the core, lines of the record, messages to the front.
//!
//! When a node is lost, the core knows at once and may give its tasks to others. But the front still has the actions of
//! these attempts: each must be unwound before its task is begun again, and what it left of its target be put away.
//! Until then a new attempt waits here. It does not know how a node is reached.

use rakuda_cluster::LOCAL_NODE;
use rakuda_cluster::{ClusterPlan, NodeEvent, NodeReport};
use rakuda_core::{
    AttemptState, Capacity, Event, Input, NodeEffect, NodeId, NodeInput, NodeLimits, NodeOrigin,
    NodeState, Output, RequirementId, TaskId, TaskState,
};
use rakuda_proto::Text;
use rakuda_proto::agent::AgentEvent;
use rakuda_proto::cluster::NodeFacts;
use rakuda_proto::front::{HubMessage, StopHow, Usage};
use rakuda_proto::journal::{NodeJoined, NodeLost, Outcome};

use crate::attempts::LOST_STATUS;
use crate::attempts::state::RunningAttempt;
use crate::failures;
use crate::group_losses::state::Loss;
use crate::hub::Hub;
use crate::notes::AttemptNote;
use crate::targets::TargetEnding;

impl Hub {
    /// Handles one report about a node. What comes over an earlier link of it is ignored.
    pub(crate) fn on_report(&mut self, report: NodeReport) {
        self.agents.note(&report);
        let NodeReport { node, incarnation, event } = report;
        let current = self.run.nodes().is_current(node, incarnation);
        match event {
            NodeEvent::Agent(AgentEvent::Streams(event)) if current => {
                self.on_stream_event(node, event);
            }
            NodeEvent::Agent(AgentEvent::MemoryEnforced { why_watched }) if current => {
                self.on_memory_enforced(node, why_watched);
            }
            NodeEvent::Agent(AgentEvent::ClockSet { by_ns }) if current => {
                self.on_clock_set(node, by_ns);
            }
            NodeEvent::Agent(event) if current => self.on_agent_event(event),
            NodeEvent::Exchange(exchange) if current => self.on_exchange(node, exchange),
            NodeEvent::Up(facts) => {
                self.agents.place_mut(node).facts = Some(facts);
                self.tell_node(node, NodeInput::LinkUp { incarnation });
            }
            NodeEvent::Lost(why, again) => self.on_link_down(node, incarnation, why, again),
            NodeEvent::Failed(why, again) => {
                self.agents.place_mut(node).trouble = Some(why);
                self.tell_node(node, NodeInput::StartFailed { again });
            }
            NodeEvent::Answer(answer) if current => self.on_answer(answer),
            NodeEvent::State { delta, held_ns } if current => self.on_state(node, &delta, held_ns),
            NodeEvent::Appeared(newcomer) => self.on_node_appeared(*newcomer),
            NodeEvent::Gone => self.tell_node(node, NodeInput::Farewell),
            NodeEvent::Told(text) => self.warn(&text),
            NodeEvent::Invited(text) => self.newcomers.set_invitation(text),
            NodeEvent::AllAppeared(how) => {
                self.agents.not_appeared = how.err();
                self.tell(Input::NodesExpected(false));
                self.note_places_awaited();
            }
            NodeEvent::Agent(_)
            | NodeEvent::Answer(_)
            | NodeEvent::Exchange(_)
            | NodeEvent::State { .. } => {}
        }
    }

    /// Makes all nodes known that there are when the run begins. Their links decide how long the run waits for them,
    /// and are served while this thread waits for files (docs/design/nodes.md).
    pub(crate) fn tell_known_nodes(&mut self) {
        let plan = self.settings.cluster.as_ref();
        let takes_tasks = plan.is_none_or(|plan| plan.own_takes_tasks);
        let expecting = self.agents.has_source() && plan.is_some_and(ClusterPlan::brings_nodes);
        let cores = self.agents.places().map(|(id, place)| (id, place.node.capacity.cores));
        for (node, cores) in cores.collect::<Vec<_>>() {
            let origin = match node {
                LOCAL_NODE => NodeOrigin::Own { takes_tasks },
                _ => NodeOrigin::Awaited,
            };
            self.tell_node(node, NodeInput::Known { origin, limits: NodeLimits::default() });
            self.tell(Input::CoresSet { node, cores });
        }
        self.tell(Input::NodesExpected(expecting));
    }

    fn tell_node(&mut self, id: NodeId, input: NodeInput) {
        self.tell(Input::Node { id, input });
    }

    /// A link has ended, or the run no longer waits for it.
    pub(crate) fn on_link_down(&mut self, id: NodeId, incarnation: u32, why: String, again: bool) {
        self.agents.place_mut(id).link_trouble = Some(why);
        self.tell_node(id, NodeInput::LinkDown { incarnation, again });
    }

    pub(crate) fn perform_for_node(&mut self, effect: NodeEffect) {
        match effect {
            NodeEffect::Welcome { id, is_back, files_kept } => {
                self.on_node_up(id, is_back, files_kept);
            }
            NodeEffect::Lose { id } => self.on_node_lost(id),
            NodeEffect::GiveUp { id } => {
                self.forget_given_up(id);
                self.on_node_missed(id);
            }
            NodeEffect::Miss { id } => self.on_node_missed(id),
            NodeEffect::Gone { id } => self.on_node_gone(id),
        }
    }

    /// What the nodes that take tasks have.
    pub(crate) fn capacities(&self) -> Vec<(NodeId, Capacity)> {
        let up = self.agents.places().filter(|(id, _)| self.run.nodes().is_up(*id));
        up.map(|(id, place)| (id, place.node.capacity.clone())).collect()
    }

    /// Reports how a node holds commands to their memory; once for the run, and again where it differs.
    fn on_memory_enforced(&mut self, node: NodeId, why_watched: Option<Text>) {
        let is_watched = why_watched.is_some();
        if self.memory_told.contains(&is_watched) {
            return;
        }
        let several = self.agents.len() > 1 || self.settings.cluster.is_some();
        let name = self.agents.place(node).node.name.to_display();
        let place = if several { format!(" on {name}") } else { String::new() };
        let how = why_watched.map_or_else(
            || "by a control group for each command".to_owned(),
            |why| format!("by looking at it at least ten times a second: {}", why.to_display()),
        );
        self.warn(&format!("memory is enforced{place} {how}"));
        self.memory_told.push(is_watched);
    }

    fn on_node_up(&mut self, id: NodeId, is_back: bool, files_kept: bool) {
        let incarnation = self.run.nodes().link(id).expect("it is there");
        let facts = self.agents.place_mut(id).facts.take().expect("its agent has told them");
        let capacity = self.capacity_of(id, &facts);
        let place = self.agents.place_mut(id);
        place.trouble = None;
        let cores = capacity.cores;
        place.node.capacity = capacity;
        let name = place.node.name.to_display();
        place.node.port.on_up(incarnation);
        self.agents.welcome(id);
        self.information.row(id, &name);
        self.sample_node(id);
        self.ask_distance(id);
        self.inputs.add_name(id, &facts.host.0);
        self.match_hosts();
        self.tell(Input::CoresSet { node: id, cores });
        self.ask_trip(id);
        if is_back {
            self.tell_losses();
            self.warn(&format!("node {name} is back"));
        }
        if !self.hold_node(id, &facts) {
            // Files on a shared file system belong to no node; each of those in Gfarm is looked for by itself.
            self.join_node(id, files_kept);
        }
    }

    /// A node takes tasks from now on.
    pub(crate) fn join_node(&mut self, id: NodeId, files_kept: bool) {
        let capacity = self.agents.node(id).capacity.clone();
        // Before it joins: that starts something there at once.
        self.tell_node_end(id);
        self.event(Event::NodeJoined { id, capacity, files_kept });
        self.note_joined(id);
        self.note_node(id);
        self.note_places_awaited();
        self.tell(Input::JoinNoted);
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

    /// Writes a node into the record.
    pub(crate) fn note_node(&mut self, id: NodeId) {
        let node = self.agents.node(id);
        let Capacity { cores, memory_bytes, .. } = node.capacity;
        let (time_ns, name) = (self.now.journal_ns(), node.name.clone());
        // A node that only runs commands outside of tasks has nothing that tasks may use.
        let cores = if self.run.nodes().is_up(id) { cores } else { 0 };
        let group = self.settings.cluster.as_ref().and_then(|plan| plan.group_of(id));
        self.record.add_node(NodeJoined { time_ns, node: id.0, name, cores, memory_bytes, group });
    }

    fn on_node_lost(&mut self, id: NodeId) {
        self.answer_for(Some(id));
        self.forget_source(id);
        self.lose_staging(id);
        let name = self.agents.node(id).name.to_display();
        let place = self.agents.place_mut(id);
        let why = place.link_trouble.take().unwrap_or_default();
        place.trouble = Some(why.clone());
        let reason = format!("node {name} was lost ({why})");
        self.requests.retain(|(node, _)| *node != Some(id));
        self.set_lost_on(id, &reason);
        let there = |(_, attempt): &(TaskId, &RunningAttempt)| attempt.node() == id;
        let acting = self.run.attempts().all_acting().filter(there).map(|(task, _)| task);
        let acting: Vec<TaskId> = acting.collect();
        self.tell(Input::NodeLost { id });
        for task in acting {
            self.release_inputs(task, id);
        }
        self.lose_workers(id);
        self.end_commands_of(id, &reason);
        self.lose_streams_on(id);
        for task in self.take_staging_out(id) {
            self.note_lost_target(task, &reason);
        }
        self.on_loss_told(id);
        self.note_places_awaited();
        self.record.node_lost(NodeLost {
            time_ns: self.now.journal_ns(),
            node: id.0,
            reason: Some(why.clone()),
        });
        let again = |output: &&Output| match output {
            Output::AttemptLost { node, rerun, .. } => *node == id && *rerun,
            _ => false,
        };
        let reruns = self.outputs.iter().filter(again).count();
        if !self.run.stopping().is_stopping() {
            self.tell_loss(Loss { node: id, why, reruns });
        }
        self.flush_urgent = true;
        self.tell(Input::LossTold);
    }

    /// How the node of attempts was lost: of those that run there, and of those that have failed.
    fn set_lost_on(&mut self, node: NodeId, reason: &str) {
        let there = self.run.attempts().all().filter(|(_, attempt)| attempt.node() == node);
        let there: Vec<TaskId> = there.map(|(id, _)| id).collect();
        for id in there {
            if let Some(details) = self.run.details_mut(id) {
                details.lost = Some(Text::from(reason));
            }
        }
    }

    /// For the hub and the front, what ran on a lost node has ended.
    fn end_commands_of(&mut self, id: NodeId, reason: &str) {
        let there = self.commands.iter().filter(|(_, running)| running.node == id);
        let commands: Vec<_> = there.map(|(command, running)| (*command, running.task)).collect();
        let reason = Text::from(reason.to_owned());
        for (command, task) in commands {
            let ended = self.commands.remove(&command);
            if ended.is_some_and(|running| running.prepared.is_none()) {
                let (time_ns, usage) = (self.now.journal_ns(), Usage::default());
                self.record.command_ended(time_ns, command.0, LOST_STATUS, Some(&reason), &usage);
            }
            self.printer.end(self.source_of(command, task));
            self.end_unstarted(command, LOST_STATUS, reason.clone());
        }
    }

    /// A node that the run waited for will not come.
    fn on_node_missed(&mut self, id: NodeId) {
        let place = self.agents.place(id);
        let why = place.trouble.as_deref().unwrap_or_default();
        let line = format!(
            "node {} cannot be used: {why}; the run goes on without it: mend that for the next one, or leave the node out",
            place.node.name.to_display()
        );
        if self.run.nodes().is_any_left() && !self.run.stopping().is_stopping() {
            self.tell_losses();
            self.warn(&line);
        }
        self.note_places_awaited();
        self.find_impossible();
    }

    /// Reports that the core takes a task for the cause of lost nodes; it fails.
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
    pub(crate) fn drain_node(&mut self, id: NodeId, failures: u32) {
        let name = self.agents.node(id).name.to_display();
        let why = format!("{failures} actions failed there one after the other");
        self.warn(&format!("node {name} is drained: {why}, while others did well"));
        if self.run.nodes().state(id) == NodeState::Drained {
            self.agents.place_mut(id).trouble = Some(why);
        }
    }

    /// The core uses a drained node again, since no other is left.
    pub(crate) fn take_back_node(&mut self, id: NodeId) {
        let name = self.agents.node(id).name.to_display();
        self.warn(&format!("node {name} is used again: no other is left"));
        if self.run.nodes().is_up(id) {
            self.agents.place_mut(id).trouble = None;
        }
    }

    /// No node has what some tasks ask for. While nodes are being started, one may come.
    pub(crate) fn tell_nowhere(&mut self, requirement: RequirementId) {
        let is_fixed = self.settings.cluster.is_none() && self.settings.walltime_ns.is_none();
        if is_fixed || self.run.nodes().is_expecting() || self.run.nodes().is_any_coming() {
            // When no node comes, the time may have been too short for it.
            self.note_nowhere(requirement);
            return;
        }
        let is_queued = |id: &TaskId| {
            self.run.scheduler().task(*id).is_some_and(|task| {
                task.requirement == requirement && task.state == TaskState::Ready
            })
        };
        let Some(id) = self.run.scheduler().task_ids().find(is_queued) else { return };
        let name = self.display_name(id);
        if let Some(line) = self.too_late(requirement, &name) {
            return self.warn(&line);
        }
        // Whoever reads this message asks the record, by which a node joins.
        self.record.note_waiting(&self.names);
        self.warn(&format!(
            "no node can run task {name} and its like: it waits (`rakudactl explain {name}` says what is missing)"
        ));
    }

    /// Ends a run that cannot go on without a node, and says why. Once the front has said goodbye, nothing is left to
    /// run.
    pub(crate) fn on_nodes_gone(&mut self) {
        if self.goodbye || self.run.stopping().is_stopping() {
            return;
        }
        let told = self.agents.places().filter_map(|(_, place)| {
            let trouble = place.trouble.as_ref()?;
            Some(format!("\n  {}: {trouble}", place.node.name.to_display()))
        });
        let not_appeared = self.agents.not_appeared.iter().map(|why| format!("\n  {why}"));
        let told = not_appeared.chain(told).collect::<String>();
        let reason = format!(
            "no node is left to run on:{told}\n  mend that or choose other nodes, and run the same command again to go on"
        );
        self.tell_losses();
        self.link.push(&HubMessage::NodesGone { reason: Text::from(reason) });
        self.any_failed = true;
        self.stop(StopHow::Interrupt);
    }

    /// The action of an attempt whose node is gone has ended in the front; whether it was one.
    pub(crate) fn on_unwound(&mut self, id: TaskId) -> bool {
        let mut effects = Vec::new();
        let Some(attempt) = self.run.take_unwound(id, &mut effects) else { return false };
        self.note_lost_attempt(id, &attempt);
        self.perform_effects(effects);
        true
    }

    /// What an attempt that its node has taken with it left of its target is put away, and its end noted.
    pub(crate) fn note_lost_attempt(&mut self, id: TaskId, attempt: &RunningAttempt) {
        let rerun = matches!(attempt.state(), AttemptState::Unwinding { rerun: true, .. });
        let reason = attempt.details.lost.clone().unwrap_or_default();
        let mut settled = TargetEnding::Untouched;
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
        let note = AttemptNote { outcome, message, retried: rerun, after: None, settled };
        self.note_attempt_ended(id, attempt, &note);
    }
}
