//! What the hub does for `rakuda_core::stager`, where nodes share no file system: inputs that are
//! wanted, targets that stay or are staged out, nodes that say what they have; and what must hold of that.
//!
//! Home is the machine of the hub, and the last number: it has the files that the workflow starts
//! from, and neither dies nor runs anything. How files move, `transfers` knows.

pub(crate) mod state;

use std::slice;

use rakuda_core::stager::{Answer, Found, MadeTarget, Outgoing, StagerEffect, StagerInput};
use rakuda_core::{
    ActionOutcome, AttemptState, Event, Fact, Input, NodeId, NodeState, Output, Places,
    PlacesAwaited, TaskId,
};

use super::attempts::state::Later;
use super::chaos::Chaos;
use super::hub::Hub;
use super::messages::Order;
use super::scenario::bytes_of;
use state::{HubStaging, PlaceNote, Version};

/// Maximum number of failures of a task over data links and disks that do not end its run.
const CHARGES_MAX: u32 = 3;

impl Chaos {
    /// A hub begins: it knows what is at home, and what nodes may have.
    pub(crate) fn start_staging(&mut self) {
        let mut staging = HubStaging::new(self.scenario.home());
        for PlaceNote { file, node, version, copy } in &self.hub.remembered {
            staging.earlier.note(*file, *node, *version, *copy);
        }
        for file in 0..self.scenario.tasks.len() as u32 {
            staging.earlier.define(&file, TaskId(file));
        }
        self.hub.staging = staging;
    }

    /// Hands an input to the stager, and does what follows, also from what is done meanwhile.
    pub(crate) fn stage(&mut self, input: StagerInput<Version>) {
        let Hub { run, staging, .. } = &mut self.hub;
        let nodes = run.nodes();
        let mut out = Vec::new();
        staging.stager.handle(input, |node| nodes.is_there(node), &mut out);
        staging.effects.extend(out);
        if std::mem::replace(&mut staging.performs, true) {
            return;
        }
        while let Some(effect) = self.hub.staging.effects.pop_front() {
            self.perform_for_stager(effect);
        }
        self.hub.staging.performs = false;
    }

    fn perform_for_stager(&mut self, effect: StagerEffect<Version>) {
        self.note(format_args!("{effect:?}"));
        match effect {
            StagerEffect::Admitted { id, attempt, node } => self.on_admitted(id, attempt, node),
            StagerEffect::NoRoom { id, attempt } => {
                self.count("attempts without room");
                self.tell(Input::InputsHeldUp { id, attempt });
                // It had cores, and has given them to others, or does so when its last command has ended.
                if self.hub.run.attempts().acting_as(id, attempt).is_some() {
                    let shadow = self.shadow(id);
                    (shadow.in_line, shadow.had_lease) = (None, true);
                }
            }
            StagerEffect::InputsThere { id, attempt } => {
                if self.hub.run.attempts().acting_as(id, attempt).is_some() {
                    let shadow = self.shadow(id);
                    shadow.heeded = Some(shadow.sent);
                }
                self.tell(Input::InputsReady { id, attempt });
                // An attempt that has waited for room has given its cores to others.
                let acts = self.hub.run.attempts().acting_as(id, attempt);
                if acts.is_some_and(|acts| !acts.gated().is_empty()) {
                    self.stand_in_line(id);
                }
            }
            StagerEffect::TooLarge { id, .. } => panic!("the inputs of {} are too large", id.0),
            StagerEffect::AskAgain { id, attempt, node } => {
                self.count("attempts asked again whether there is room");
                let acts = self.hub.run.attempts().acting_as(id, attempt);
                if acts.is_some_and(|acts| acts.node() == node) {
                    self.stage_inputs(id);
                } else {
                    self.stage(StagerInput::Released { id, node });
                }
            }
            StagerEffect::Move { transfer, file, state, from, to } => {
                self.begin_move(transfer, (file.0, state), from.0, to.0);
            }
            StagerEffect::Cancel { transfer } => self.cancel_move(transfer),
            StagerEffect::Remove { removal, node, files, counted } => {
                self.count(if counted { "removals" } else { "removals of what is astray" });
                if counted {
                    self.tell_removed(&files);
                }
                self.remove_copies(removal, node.0, files);
            }
            StagerEffect::StopRemoval { removal } => {
                self.count("removals stopped");
                self.hub.staging.removals.remove(&removal);
            }
            StagerEffect::Arrived { file, to, counts, .. } => {
                self.count("files staged in");
                self.hub.staging.tainted.remove(&(file.0, to.0));
                if counts {
                    self.remember(file.0, to.0, true);
                    self.tell_places(file);
                }
            }
            StagerEffect::StagedOut { file } => self.on_staged_out(file),
            StagerEffect::AskForLife { node } => {
                self.count("nodes asked for life");
                let session = self.session_of(node.0);
                assert_ne!(session, 0, "node {} is asked, and not there", node.0);
                self.send_order(node.0, session, Order::Live);
            }
            StagerEffect::NotStaged { file, to, readers, .. } => {
                let is_fault = self.hub.staging.tainted.remove(&(file.0, to.0));
                self.count("files not staged in");
                for (id, attempt) in readers {
                    if self.hub.run.attempts().acting_as(id, attempt).is_some() {
                        let shadow = self.shadow(id);
                        shadow.refused = true;
                        shadow.lacks.get_or_insert(is_fault);
                    }
                    self.tell(Input::InputsRefused { id, attempt });
                }
                if to.0 == self.scenario.home() {
                    self.on_not_staged_out(file, is_fault);
                }
            }
        }
    }

    /// The first command of an attempt, or the next one after a change, is about to start.
    pub(crate) fn stage_inputs(&mut self, id: TaskId) {
        let Some(attempt) = self.hub.run.attempts().acting(id) else { return };
        let (node, attempt) = (attempt.node(), attempt.number());
        let inputs = &self.scenario.tasks[id.0 as usize].inputs;
        let files = inputs.iter().copied().map(TaskId).collect();
        let reads = self.runs_command(id);
        let (beside, joined) = (self.read_beside(id.0, node), self.joined_to(id.0));
        self.stage(StagerInput::InputsWanted { id, attempt, node, files, reads, beside, joined });
    }

    fn runs_command(&self, id: TaskId) -> bool {
        self.hub.attempts.commands.values().any(|command| command.task == id.0)
    }

    /// A command of an attempt has ended: another one that waits for room keeps none.
    pub(crate) fn note_read(&mut self, id: TaskId) {
        if self.scenario.stages() && !self.runs_command(id) {
            let node = self.hub.run.attempts().acting(id).map(rakuda_core::Attempt::node);
            if let Some(node) = node {
                self.stage(StagerInput::ReadsNoMore { id, node });
            }
        }
    }

    /// An attempt reads nothing for now.
    pub(crate) fn leave_room(&mut self, id: TaskId) {
        self.count("inputs left by callers");
        let Some(node) = self.hub.run.attempts().acting(id).map(rakuda_core::Attempt::node) else {
            return;
        };
        self.shadow(id).heeded = None;
        self.stage(StagerInput::Released { id, node });
    }

    /// An attempt has stopped reading.
    pub(crate) fn release_inputs(&mut self, id: TaskId, node: NodeId) {
        if self.scenario.stages() {
            self.stage(StagerInput::Released { id, node });
        }
    }

    /// An attempt has room on its node: what its code has written is sent there.
    fn on_admitted(&mut self, id: TaskId, attempt: u32, node: NodeId) {
        let acts = self.hub.run.attempts().acting_as(id, attempt);
        let mut count = 0;
        if acts.is_some_and(|acts| acts.node() == node) {
            let shadow = self.shadow(id);
            let is_new = shadow.changes > shadow.sent;
            shadow.sent = shadow.changes;
            shadow.is_sending |= is_new;
            count = u32::from(shadow.is_sending);
            if is_new {
                self.count("files of actions sent");
                let trouble = &mut self.troubles[id.0 as usize];
                let well = *trouble == 0 || self.now >= self.scenario.heals_ns;
                *trouble -= u32::from(!well);
                self.later(id.0, Later::Sent { well });
            }
        }
        self.stage(StagerInput::OwnFilesSent { id, count });
    }

    /// What the code of an action has written has come to its node, or cannot.
    pub(crate) fn on_sent(&mut self, id: TaskId, attempt: u32, well: bool) {
        let Some(acts) = self.hub.run.attempts().acting_as(id, attempt) else { return };
        let node = acts.node();
        self.shadow(id).is_sending = false;
        if well {
            self.stage(StagerInput::OwnFileThere { id, attempt });
        } else if self.hub.staging.stager.is_waiting(id, attempt) {
            let reads = self.runs_command(id);
            self.stage(StagerInput::Refused { id, node, reads });
            self.shadow(id).refused = true;
            self.tell(Input::InputsRefused { id, attempt });
        }
    }

    /// The node has looked at the target of an action that ended well.
    pub(crate) fn on_target_looked(&mut self, id: TaskId, attempt: u32, seen: Option<u64>) {
        let looks = |one: &&rakuda_core::Attempt<_, _>| {
            one.number() == attempt && *one.state() == AttemptState::Inspecting
        };
        let Some(current) = self.hub.run.attempts().get(id).filter(looks) else { return };
        let node = current.node();
        let modified_ns =
            seen.unwrap_or_else(|| panic!("target {} is not where it was made", id.0));
        let state = Version { modified_ns, bytes: bytes_of(id.0) };
        let was_at_home = self.truth.version(id.0, self.scenario.home()).is_some();
        self.stage(StagerInput::Settled { file: id, node, state });
        self.remember(id.0, node.0, false);
        let made = MadeTarget { id, node, name: &[], is_staged: true, was_at_home };
        let HubStaging { stage_out, stager, .. } = &mut self.hub.staging;
        if stage_out.made(&made, stager.ledger(), ()) {
            self.count("targets staged out");
            self.tell(Input::StagingOut { id });
            self.stage(StagerInput::StageOutWanted { file: id });
        } else {
            self.finish_attempt(id.0, ActionOutcome::Succeeded);
            self.release_endings();
        }
    }

    fn on_staged_out(&mut self, file: TaskId) {
        let content = self.truth.read(file.0, self.scenario.home());
        assert_eq!(content, Some(self.expected[file.0 as usize]), "{} is not at home", file.0);
        let outgoing = self.hub.staging.stage_out.take(file, |()| true);
        if matches!(outgoing, Some(Outgoing::Made { .. })) {
            self.finish_attempt(file.0, ActionOutcome::Succeeded);
        }
        self.release_endings();
    }

    fn on_not_staged_out(&mut self, file: TaskId, is_fault: bool) {
        match self.hub.staging.stage_out.miss(file, |()| true) {
            Some(Outgoing::Made { .. }) => {
                self.shadow(file).lacks = Some(is_fault);
                self.finish_attempt(file.0, ActionOutcome::Failed);
            }
            Some(Outgoing::Settled) => self.count("settled targets not staged out"),
            None => {}
        }
        self.release_endings();
    }

    /// A task was settled. One that was not run may be elsewhere.
    pub(crate) fn on_settled_well(&mut self, id: TaskId) {
        let HubStaging { stage_out, stager, .. } = &mut self.hub.staging;
        if stage_out.settled(id, stager.ledger()) {
            self.stage(StagerInput::StageOutWanted { file: id });
        }
    }

    /// The end of an invocation waits while what it asked for is on its way; given back when nothing is.
    pub(crate) fn hold_for_stage_out(&mut self, ending: Output) -> Option<Output> {
        let ending = self.hub.staging.stage_out.hold(ending);
        if ending.is_none() {
            self.count("ends held until targets are at home");
        }
        ending
    }

    fn release_endings(&mut self) {
        let endings = self.hub.staging.stage_out.take_endings();
        self.hub.outputs.extend(endings);
    }

    /// A node is gone: first of all, transfers from and to it stop.
    pub(crate) fn lose_staging(&mut self, node: u32) {
        self.hub.staging.asked.remove(&node);
        self.hub.staging.earlier.lose(NodeId(node));
        self.stage(StagerInput::NodeLost { id: NodeId(node) });
        for id in self.hub.staging.stage_out.made_on(NodeId(node)) {
            self.event(Event::PlacesFound { id, places: Places::Nowhere });
        }
    }

    /// Targets that were on their way from it do not arrive; then all others know.
    pub(crate) fn tell_staging_of_loss(&mut self, node: u32) {
        let taken = self.hub.staging.stage_out.lose(NodeId(node));
        for file in &taken {
            self.stage(StagerInput::StageOutUnwanted { file: *file });
        }
        for file in taken {
            self.hub.run.take(file);
        }
        self.stage(StagerInput::LossTold { id: NodeId(node) });
        if self.hub.run.nodes().state(NodeId(node)) == NodeState::Lost {
            self.stage(StagerInput::NodeGivenUp { id: NodeId(node) });
        }
        self.note_places_awaited();
    }

    /// Notes for later hubs that a node has a file as it is now.
    fn remember(&mut self, file: u32, node: u32, copy: bool) {
        let state = self.hub.staging.stager.ledger().state(TaskId(file));
        let Some(version) = state.copied().filter(|_| node != self.scenario.home()) else { return };
        self.hub.remembered.push(PlaceNote { file, node, version, copy });
    }

    /// A node is there. Whether it is asked first what it has of its files.
    pub(crate) fn hold_node(&mut self, node: u32) -> bool {
        let id = NodeId(node);
        let staging = &mut self.hub.staging;
        staging.stager.set_limit(id, self.scenario.room_bytes);
        let files = staging.earlier.ask(id, &node, staging.stager.ledger(), |file| file.0);
        if files.is_empty() {
            return false;
        }
        let asked = files.iter().map(|held| (held.file, held.state.modified_ns)).collect();
        staging.asked.insert(node, files);
        self.count("nodes asked what they have");
        let session = self.session_of(node);
        self.send_order(node, session, Order::Holdings { files: asked });
        true
    }

    /// A node has said what of its files is there.
    pub(crate) fn on_holdings(&mut self, node: u32, found: &[bool]) {
        let Some(files) = self.hub.staging.asked.get(&node).cloned() else { return };
        let id = NodeId(node);
        let files = files.into_iter().zip(found.iter().copied()).collect();
        let Answer { gone, found } = self.hub.staging.earlier.answered(id, files);
        for file in &gone {
            self.count("files that nodes have no more");
            self.hub.staging.stager.forget(*file, id);
        }
        for file in gone {
            self.tell_places(file);
        }
        for found in found {
            self.use_earlier(&found);
        }
        self.hub.staging.asked.remove(&node);
        self.join_node(node, true);
        self.note_places_awaited();
    }

    /// A file of an earlier hub is still where it was.
    fn use_earlier(&mut self, found: &Found<Version>) {
        let Found { task: id, node, state: version, .. } = *found;
        let state = self.hub.run.scheduler().task(id).expect("it was defined").state;
        if self.hub.open.contains(&id.0) {
            return;
        }
        let Some(counting) = self.hub.staging.stager.take_earlier(found, state) else { return };
        self.count("files of an earlier hub found");
        if counting.settles {
            self.stage(StagerInput::Settled { file: id, node, state: version });
        }
        if counting.is_same_file {
            self.tell_places(id);
        } else {
            let places = self.hub.staging.stager.ledger().places(id);
            let Version { modified_ns, bytes } = version;
            let fact = Fact { modified_ns: Some(modified_ns.into()), bytes, places };
            self.event(Event::FactGathered { id, fact });
        }
    }

    fn tell_places(&mut self, id: TaskId) {
        let places = self.hub.staging.stager.ledger().places_left(id);
        self.event(Event::PlacesFound { id, places });
    }

    /// Counts files no more that a node is to remove.
    pub(crate) fn tell_removed(&mut self, files: &[(TaskId, Version)]) {
        for (id, _) in files {
            self.tell_places(*id);
        }
    }

    /// What the hub knows of a file: as nodes have it, or as it lies at home.
    pub(crate) fn staged_fact(&self, file: u32) -> Fact {
        let ledger = self.hub.staging.stager.ledger();
        let places = ledger.places(TaskId(file));
        let is_known = !places.as_slice().is_empty() && !self.hub.open.contains(&file);
        match ledger.state(TaskId(file)).filter(|_| is_known) {
            Some(&Version { modified_ns, bytes }) => {
                Fact { modified_ns: Some(modified_ns.into()), bytes, places }
            }
            None => Fact { modified_ns: None, bytes: 0, places: Places::Unknown },
        }
    }

    /// What lies at home when a hub begins.
    pub(crate) fn note_at_home(&mut self, file: u32) {
        let home = self.scenario.home();
        let Some(modified_ns) = self.truth.version(file, home) else { return };
        if !self.hub.open.contains(&file) {
            let state = Version { modified_ns, bytes: bytes_of(file) };
            let (file, node) = (TaskId(file), NodeId(home));
            self.stage(StagerInput::Settled { file, node, state });
        }
    }

    /// Whether files that are missing may be on nodes that have not said so yet.
    fn waits_for_nodes(&self) -> bool {
        let HubStaging { earlier, stager, .. } = &self.hub.staging;
        let numbers: Vec<u32> = (0..self.scenario.home()).collect();
        let states = self.hub.run.nodes().states();
        let nodes = numbers.iter().zip(states).map(|(number, (id, state))| (id, state, number));
        let home = NodeId(self.scenario.home());
        earlier.is_waited_for(stager.ledger(), home, nodes, |file| self.hub.open.contains(&file.0))
    }

    pub(crate) fn places_awaited(&self) -> PlacesAwaited {
        let holdings = self.scenario.stages() && self.waits_for_nodes();
        PlacesAwaited { catalogue: false, holdings }
    }

    pub(crate) fn note_places_awaited(&mut self) {
        if self.hub.run.holds_invocation() {
            let awaited = self.places_awaited();
            self.tell(Input::PlacesAwaited(awaited));
        }
    }

    /// These are asked for.
    pub(crate) fn request_stage_out(&mut self, tasks: &[TaskId], by_action: bool) {
        let Hub { run, staging: HubStaging { stage_out, stager, .. }, .. } = &mut self.hub;
        for file in stage_out.request(tasks, by_action, run.scheduler(), stager.ledger()) {
            self.stage(StagerInput::StageOutWanted { file });
        }
    }

    /// An attempt failed that lacked an input, or whose target was not staged out: over a lost node
    /// that uses up no retry. `attempts`: those that come to nothing with it.
    pub(crate) fn check_lack(
        &mut self,
        attempts: Vec<(TaskId, u32)>,
        task: u32,
        is_fault: bool,
        counts: bool,
    ) {
        if !counts {
            return self.count("failures over staging that do not count");
        }
        assert!(
            is_fault,
            "the failure of {task} counts, and nothing but lost nodes was in its way"
        );
        self.count("failures over data links and disks");
        for (task, attempt) in attempts {
            let (count, last) = self.hub.staging.charges.entry(task.0).or_default();
            *count += u32::from(*last != attempt);
            *last = attempt;
            if *count > CHARGES_MAX {
                self.hub.staging.limited.insert(task);
            }
        }
    }

    /// The tasks that begin together with one, which the failure of one charges all: each with its attempt.
    pub(crate) fn attempts_beside(&self, task: u32) -> Vec<(TaskId, u32)> {
        let gang = self.scenario.gangs.iter().find(|(members, _)| members.contains(&task));
        let members = gang.map_or(slice::from_ref(&task), |(members, _)| members.as_slice());
        let scheduler = self.hub.run.scheduler();
        let attempt = |id| scheduler.task(id).expect("it was defined").attempt;
        members.iter().map(|id| (TaskId(*id), attempt(TaskId(*id)))).collect()
    }

    /// At the end every target is at home.
    pub(crate) fn check_targets_at_home(&mut self) {
        let missed = self.hub.staging.stage_out.take_missed();
        for task in self.hub.staging.wanted.clone() {
            if missed.contains(&TaskId(task)) {
                continue;
            }
            let content = self.truth.read(task, self.scenario.home());
            assert_eq!(content, Some(self.expected[task as usize]), "target {task} is not at home");
        }
    }
}
