//! Which files are staged in and out, from which node, and who waits for that.
//!
//! Where nodes share no file system, an attempt's inputs are staged in to its node before its first
//! command starts, each once, within the node's bound ([`ledger`]); targets that are wanted at home
//! are staged out. A file comes from the node with the least to do that has it; from the next
//! one, if that fails ([`transfers`]). Where no source is left, the nodes concerned are asked for
//! life before those who wait hear of it: if one of them is lost, that is the reason
//! ([`suspicions`]). Attempts that find no room stand in line for it ([`readers`]); those that
//! streams join come before others once the first of them has some ([`sets`]). Of a target at home
//! and one on a node, [`target`] says which counts.
//! `docs/design/staging.md` tells the states.
//!
//! Pure: the shell moves and removes files, asks nodes, and says what came of it. Names, paths and
//! what a state of a file consists of are the shell's.

mod earlier;
mod input;
#[cfg(test)]
mod joined;
mod ledger;
mod readers;
mod requested;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod seeds;
mod sets;
mod stage_out;
mod suspicions;
mod target;
#[cfg(test)]
mod tests;
mod transfers;

use alloc::vec::Vec;

pub use earlier::{Answer, Counting, Earlier, Expected, Found, HOLDINGS_LIMIT_NS, Known};
pub use input::{JoinedSet, MoveFailure, StagerEffect, StagerInput};
pub use ledger::{FileState, Ledger};
pub use requested::{MadeTarget, StageOutRules};
pub use stage_out::{Outgoing, StageOut};
pub use target::{AroundHome, HomeTargetTo, TwoTargets, WhichTarget};

use crate::ids::{NodeId, TaskId};
use crate::scheduler::task::TaskState;
use ledger::Admission;
use readers::{Reader, Readers};
use sets::Sets;
use suspicions::{Suspicion, Suspicions};
use transfers::{Ended, Stopped, Transfers};

/// What files, readers, transfers and suspicions there are.
#[derive(Debug)]
pub struct Stager<S> {
    /// The machine of the hub: nothing is bounded there, and what comes, stays.
    home: NodeId,
    ledger: Ledger<S>,
    transfers: Transfers<S>,
    readers: Readers,
    sets: Sets,
    suspicions: Suspicions,
    /// Nodes that were lost, while not all others know: nothing is begun.
    losing: u32,
}

impl<S: FileState> Stager<S> {
    /// `home`: the machine of the hub.
    pub fn new(home: NodeId) -> Self {
        Self {
            home,
            ledger: Ledger::default(),
            transfers: Transfers::new(home),
            readers: Readers::default(),
            sets: Sets::default(),
            suspicions: Suspicions::default(),
            losing: 0,
        }
    }

    /// Where files are.
    pub fn ledger(&self) -> &Ledger<S> {
        &self.ledger
    }

    /// Whether an attempt waits for its inputs, having room.
    pub fn is_waiting(&self, id: TaskId, attempt: u32) -> bool {
        self.readers.is_waiting(id, attempt)
    }

    /// Bounds the copies on a node.
    pub fn set_limit(&mut self, node: NodeId, bytes: u64) {
        self.ledger.set_limit(node, bytes);
    }

    /// A copy of an earlier run was found on a node, in the state that counts.
    pub fn found_copy(&mut self, file: TaskId, node: NodeId) {
        self.ledger.found_copy(file, node);
    }

    /// A file of an earlier run was found on a node: how it counts, if it does. The younger one does, as long as its
    /// task, in `state`, has not come to a decision.
    pub fn take_earlier(&mut self, found: &Found<S>, state: TaskState) -> Option<Counting> {
        let here = self.ledger.state(found.task);
        if here.is_some_and(|here| here.supersedes(&found.state)) {
            if found.copy {
                self.ledger.may_have(found.task, found.node, found.state.clone());
            }
            return None;
        }
        if !matches!(state, TaskState::Defined | TaskState::Waiting { .. }) {
            return None;
        }
        let is_same_file = here.is_some_and(|here| here.is_same_file(&found.state));
        let settles = !found.copy || here != Some(&found.state);
        if !settles {
            self.ledger.found_copy(found.task, found.node);
        }
        Some(Counting { settles, is_same_file })
    }

    /// Part of a file is another task's from now on: it, and its copies, are in `state`.
    pub fn restate(&mut self, file: TaskId, state: &S) {
        self.ledger.restate(file, state);
    }

    /// A node has not got a file that it was thought to have.
    pub fn forget(&mut self, file: TaskId, node: NodeId) {
        self.ledger.forget(file, node);
    }

    /// Takes in what happened, and adds what the shell does then to `out`, in the order in which it
    /// does so. `is_there`: which nodes can be got at; home always can.
    pub fn handle(
        &mut self,
        input: StagerInput<S>,
        is_there: impl Fn(NodeId) -> bool,
        out: &mut Vec<StagerEffect<S>>,
    ) {
        match input {
            StagerInput::InputsWanted { id, attempt, node, files, reads, beside, joined } => {
                let (gang, tasks) = joined.map(|set| (set.gang, set.tasks)).unzip();
                let reader = Reader { id, attempt, node, reads, gang };
                self.want(reader, files, beside, &tasks.unwrap_or_default(), out);
            }
            StagerInput::OwnFilesSent { id, count } => {
                self.readers.own_files(id, count);
                self.readers.take_ready(out);
            }
            StagerInput::OwnFileThere { id, attempt } => {
                self.readers.own_file_there(id, attempt);
                self.readers.take_ready(out);
            }
            StagerInput::ReadsNoMore { id, node } => {
                if self.readers.is_in_line(id, node) {
                    self.release(id, node);
                    self.sets.has_none(id);
                }
                self.readers.reads_no_more(id, node);
            }
            StagerInput::Refused { id, node, reads: true } => {
                self.readers.forget(id, node);
                self.readers.ask_next(node, &self.sets, out);
            }
            StagerInput::Refused { id, node, reads: false }
            | StagerInput::Released { id, node } => {
                self.readers.forget(id, node);
                self.release(id, node);
                self.sets.leaves(id);
                self.readers.ask_next(node, &self.sets, out);
            }
            StagerInput::StageOutWanted { file } => {
                self.transfers.want(file, self.home, &self.ledger);
            }
            StagerInput::StageOutUnwanted { file } => {
                if !self.readers.is_awaited(file, self.home) {
                    self.transfers.drop_one(file, self.home, out);
                    self.suspicions.forget(file, self.home);
                }
            }
            StagerInput::Moved { transfer, result } => self.moved(transfer, result, &is_there, out),
            StagerInput::Removed { removal } => {
                if let Some((node, files)) = self.transfers.removed(removal) {
                    for (file, _) in files {
                        self.out_of_the_way(file, node);
                    }
                }
            }
            StagerInput::Settled { file, node, state } => {
                self.settle(file, node, state, &is_there, out);
            }
            StagerInput::NodeLost { id } => self.lose(id, out),
            StagerInput::LossTold { id } => {
                self.losing = self.losing.saturating_sub(1);
                self.suspicions.heard_of(id);
            }
            StagerInput::NodeGivenUp { id } => self.ledger.forget_all(id),
            StagerInput::Alive { id } => self.suspicions.heard_of(id),
        }
        if self.losing == 0 {
            self.settle_suspicions(&is_there, out);
            self.remove_strays(&is_there, out);
            self.start(&is_there, out);
        }
        let has_changed = self.sets.take_changed();
        for node in self.readers.nodes_in_line() {
            if self.ledger.take_more_room(node) || has_changed {
                self.readers.ask_next(node, &self.sets, out);
            }
        }
    }

    fn want(
        &mut self,
        reader: Reader,
        mut files: Vec<TaskId>,
        beside: Vec<TaskId>,
        tasks: &[TaskId],
        out: &mut Vec<StagerEffect<S>>,
    ) {
        let Reader { id, attempt, node, reads, gang } = reader;
        files.retain(|file| self.ledger.state(*file).is_some());
        self.sets.asks(&reader);
        let is_new = !self.ledger.is_reader(id, node);
        if self.sets.holds_back(&reader) || is_new && self.readers.is_preceded(id, node, &self.sets)
        {
            self.readers.stand_in_line(reader);
            out.push(StagerEffect::NoRoom { id, attempt });
            return;
        }
        let wanted = files.clone();
        if node == self.home {
            let missing = files.iter().filter(|file| !self.ledger.stays_on(**file, node));
            let missing = missing.copied().collect();
            return self.admitted(reader, &wanted, files, missing, tasks, out);
        }
        if reads {
            // Its other command reads these, and tasks that streams join to it: it does not wait for what those lack.
            files.extend(self.ledger.pinned_by(id, node));
        } else {
            // Who waits holds nothing: else two that wait could wait for one another.
            self.release(id, node);
            if self.has_in_the_way(id, node) {
                return self.hold_up(reader, out);
            }
        }
        files.sort_unstable();
        files.dedup();
        let mut all = files.clone();
        all.extend(beside.into_iter().filter(|file| self.ledger.state(*file).is_some()));
        // They hold that until this one has begun.
        all.extend(self.sets.inside(gang, node).flat_map(|peer| self.ledger.pinned_by(peer, node)));
        all.sort_unstable();
        all.dedup();
        match self.ledger.admit(node, id, &all) {
            Admission::Granted { missing, evicted, needless } => {
                self.give_up(&needless, node);
                self.remove(node, evicted, out);
                self.admitted(reader, &wanted, files, missing, tasks, out);
            }
            Admission::Wait => self.hold_up(reader, out),
            Admission::TooLarge { needed_bytes, limit_bytes } => {
                self.readers.forget(id, node);
                self.sets.leaves(id);
                out.push(StagerEffect::TooLarge { id, attempt, node, needed_bytes, limit_bytes });
                self.readers.ask_next(node, &self.sets, out);
            }
        }
    }

    /// There is no room for an attempt yet, or something is in its way.
    fn hold_up(&mut self, reader: Reader, out: &mut Vec<StagerEffect<S>>) {
        if !self.readers.has_line(reader.node) {
            // What came free before has been looked at.
            self.ledger.take_more_room(reader.node);
        }
        self.stand_in_line(reader);
        out.push(StagerEffect::NoRoom { id: reader.id, attempt: reader.attempt });
    }

    /// Whether the target of an attempt is on its way to the attempt's node, or is to be removed there, as it was
    /// before. What comes late would replace what the attempt makes.
    fn has_in_the_way(&mut self, id: TaskId, node: NodeId) -> bool {
        if self.transfers.is_under_way(id, node) {
            return true;
        }
        self.ledger.displace(id, node);
        self.ledger.is_astray(id, node) || self.transfers.is_removing(id, node)
    }

    /// A file is on its way to a node, or being removed there, no more: who is to make it there may go on.
    fn out_of_the_way(&mut self, file: TaskId, node: NodeId) {
        if self.readers.is_in_line(file, node) {
            self.ledger.note_more_room(node);
        }
    }

    /// An attempt stands in line, and has no room.
    fn stand_in_line(&mut self, reader: Reader) {
        self.readers.stand_in_line(reader);
        self.sets.waits(&reader);
        if !reader.reads {
            self.sets.has_none(reader.id);
        }
    }

    /// An attempt has room: it waits for those of the `wanted` files that are missing.
    fn admitted(
        &mut self,
        reader: Reader,
        wanted: &[TaskId],
        files: Vec<TaskId>,
        missing: Vec<TaskId>,
        tasks: &[TaskId],
        out: &mut Vec<StagerEffect<S>>,
    ) {
        for file in &missing {
            self.transfers.want(*file, reader.node, &self.ledger);
        }
        let Reader { id, attempt, node, .. } = reader;
        let own = missing.into_iter().filter(|file| wanted.contains(file)).collect();
        self.sets.let_in(&reader, tasks);
        self.readers.admit(reader, files, own);
        out.push(StagerEffect::Admitted { id, attempt, node });
        self.readers.ask_next(node, &self.sets, out);
    }

    /// A reader gives up what it holds.
    fn release(&mut self, id: TaskId, node: NodeId) {
        let needless = self.ledger.release(node, id);
        self.give_up(&needless, node);
    }

    /// No task waits for these now. What is under way goes on, and is a copy as any other then.
    fn give_up(&mut self, files: &[TaskId], node: NodeId) {
        for file in files {
            if self.transfers.drop_idle(*file, node) {
                self.ledger.not_arriving(*file, node);
            }
        }
    }

    fn remove(&mut self, node: NodeId, files: Vec<(TaskId, S)>, out: &mut Vec<StagerEffect<S>>) {
        self.begin_removal(node, files, true, out);
    }

    fn begin_removal(
        &mut self,
        node: NodeId,
        files: Vec<(TaskId, S)>,
        counted: bool,
        out: &mut Vec<StagerEffect<S>>,
    ) {
        if !files.is_empty() {
            let removal = self.transfers.removing(node, files.clone());
            out.push(StagerEffect::Remove { removal, node, files, counted });
        }
    }

    /// Has nodes remove what their disks may have and the books have not.
    fn remove_strays(
        &mut self,
        is_there: &impl Fn(NodeId) -> bool,
        out: &mut Vec<StagerEffect<S>>,
    ) {
        for node in self.ledger.nodes_with_strays() {
            if is_there(node) {
                let files = self.ledger.take_strays(node);
                if files.is_empty() {
                    self.ledger.note_more_room(node);
                }
                self.begin_removal(node, files, false, out);
            }
        }
    }

    fn settle(
        &mut self,
        file: TaskId,
        node: NodeId,
        state: S,
        is_there: impl Fn(NodeId) -> bool,
        out: &mut Vec<StagerEffect<S>>,
    ) {
        let changes = self.ledger.state(file) != Some(&state);
        for (other, stale) in self.ledger.settle(file, node, state) {
            if is_there(other) {
                self.remove(other, [(file, stale)].into(), out);
            } else {
                self.ledger.may_have(file, other, stale);
            }
        }
        if changes {
            let lacks = |reader: &Reader| !self.ledger.has(file, reader.node);
            let readers = self.readers.take(|reader, files| files.contains(&file) && lacks(reader));
            self.begin_anew(readers, out);
        }
        if self.transfers.is_wanted(file, node) {
            // What is on its way would replace it.
            self.transfers.drop_one(file, node, out);
            self.there(file, node, out);
        }
    }

    fn moved(
        &mut self,
        transfer: u32,
        result: Result<(), MoveFailure>,
        is_there: impl Fn(NodeId) -> bool,
        out: &mut Vec<StagerEffect<S>>,
    ) {
        // The report of one that was cancelled meanwhile is none.
        let Some(Ended { file, from, to, state }) = self.transfers.ended(transfer) else { return };
        self.out_of_the_way(file, to);
        match result {
            Ok(()) => {
                let counts = self.take_in(file, to, &state);
                if !counts && to != self.home {
                    self.ledger.has_other(file, to, state.clone());
                }
                out.push(StagerEffect::Arrived { transfer, file, from, to, moved: state, counts });
                self.arrived(file, to, counts, out);
            }
            Err(failure) => {
                let again = failure.at_source;
                self.transfers.failed(file, from, to, failure);
                if !again {
                    self.suspect(file, to, false, is_there, out);
                }
            }
        }
    }

    /// Notes what has arrived on a node; whether that is what counts.
    fn take_in(&mut self, file: TaskId, to: NodeId, moved: &S) -> bool {
        let now = self.ledger.state(file).filter(|now| moved.covers(now)).cloned();
        let Some(now) = now else { return false };
        if to == self.home {
            self.ledger.settle(file, to, now);
        } else {
            self.ledger.arrived(file, to, &now);
        }
        // Nobody may have wanted this state there, and it has no room.
        self.ledger.has(file, to)
    }

    fn arrived(&mut self, file: TaskId, to: NodeId, counts: bool, out: &mut Vec<StagerEffect<S>>) {
        self.transfers.done(file, to);
        if counts || self.ledger.has(file, to) {
            self.there(file, to, out);
        } else if to == self.home {
            // It has changed meanwhile: once more.
            self.transfers.want(file, to, &self.ledger);
        } else {
            let readers = self.readers.take_waiting_for(file, to);
            self.begin_anew(readers, out);
        }
        self.ledger.not_arriving(file, to);
    }

    /// A file is where it is wanted.
    fn there(&mut self, file: TaskId, to: NodeId, out: &mut Vec<StagerEffect<S>>) {
        self.readers.file_there(file, to);
        self.readers.take_ready(out);
        if to == self.home {
            out.push(StagerEffect::StagedOut { file });
        }
    }

    /// What these have waited for no longer counts: they ask for room once more, before
    /// others, since they may need more now.
    fn begin_anew(&mut self, readers: Vec<Reader>, out: &mut Vec<StagerEffect<S>>) {
        for reader in readers {
            // Who stands first of all that are awaited answers before anybody else, and has its room until then.
            if !reader.reads && reader.gang.is_none() {
                self.release(reader.id, reader.node);
            }
            self.readers.stand_first(reader);
            self.sets.waits(&reader);
            out.push(StagerEffect::NoRoom { id: reader.id, attempt: reader.attempt });
            self.readers.ask_next(reader.node, &self.sets, out);
        }
    }

    /// A file cannot be moved: the nodes concerned are asked for life first. `at_source`: another source might do
    /// better.
    fn suspect(
        &mut self,
        file: TaskId,
        to: NodeId,
        at_source: bool,
        is_there: impl Fn(NodeId) -> bool,
        out: &mut Vec<StagerEffect<S>>,
    ) {
        let Some(gave_up) = self.transfers.give_up(file, to) else { return };
        self.ledger.not_arriving(file, to);
        let holders = self.ledger.nodes_with(file);
        let mut from: Vec<NodeId> = gave_up.tried.iter().copied().chain(holders).collect();
        from.retain(|node| *node != to);
        from.sort_unstable();
        from.dedup();
        let asked = from.iter().chain([&to]).copied();
        let asked = asked.filter(|node| *node != self.home && is_there(*node)).collect();
        let suspicion = Suspicion { file, to, from, gave_up, at_source, waits_for: asked };
        for node in &suspicion.waits_for {
            out.push(StagerEffect::AskForLife { node: *node });
        }
        self.suspicions.add(suspicion);
    }

    /// Tells those who wait for files that cannot be moved.
    fn settle_suspicions(
        &mut self,
        is_there: &impl Fn(NodeId) -> bool,
        out: &mut Vec<StagerEffect<S>>,
    ) {
        let transfers = &self.transfers;
        let settled = self.suspicions.take_settled(|file, to| transfers.is_wanted(file, to));
        for Suspicion { file, to, from, gave_up, at_source, .. } in settled {
            let is_new = |node: &NodeId| {
                let is_within_reach = *node == self.home || is_there(*node);
                *node != to && is_within_reach && !gave_up.tried.contains(node)
            };
            let is_wanted = to == self.home || self.readers.is_awaited(file, to);
            if at_source && is_wanted && self.ledger.nodes_with(file).iter().any(is_new) {
                // It has come to another node meanwhile, or one that has it has.
                self.transfers.want_again(file, to, gave_up, &self.ledger);
                continue;
            }
            let reason = gave_up.reason;
            let readers = self.readers.take_waiting_for(file, to);
            for reader in readers.iter().filter(|reader| !reader.reads) {
                self.release(reader.id, to);
                self.sets.has_none(reader.id);
            }
            let readers = readers.iter().map(|reader| (reader.id, reader.attempt)).collect();
            out.push(StagerEffect::NotStaged { file, to, from, reason, readers });
        }
    }

    /// Starts what may be started.
    fn start(&mut self, is_there: &impl Fn(NodeId) -> bool, out: &mut Vec<StagerEffect<S>>) {
        for (file, to) in self.transfers.idle() {
            if self.ledger.has(file, to) {
                // It was found there meanwhile.
                self.transfers.done(file, to);
                self.there(file, to, out);
                continue;
            }
            if !self.transfers.may_begin(to) {
                continue;
            }
            let mut sources = self.ledger.nodes_with(file);
            sources.retain(|node| *node == self.home || is_there(*node));
            let Some(state) = self.ledger.state(file).cloned() else { continue };
            match self.transfers.begin(file, to, &sources, state) {
                Ok(effect) => out.extend(effect),
                Err(()) => self.suspect(file, to, true, is_there, out),
            }
        }
        self.settle_suspicions(is_there, out);
    }

    fn lose(&mut self, node: NodeId, out: &mut Vec<StagerEffect<S>>) {
        self.losing += 1;
        let Stopped { moved, kept } = self.transfers.lose(node, out);
        let home = self.home;
        for (file, to, state) in moved.into_iter().filter(|(_, to, _)| *to != home) {
            self.ledger.may_have(file, to, state);
            self.out_of_the_way(file, to);
        }
        self.readers.lose(node);
        self.sets.lose(node);
        self.ledger.empty_hands(node);
        for (file, state) in kept {
            self.ledger.may_have(file, node, state);
        }
    }
}
