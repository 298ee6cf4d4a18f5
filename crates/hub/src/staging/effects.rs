//! What `rakuda_core::stager` decides, put into effect, in its order: also what it decides while
//! that is done.

use rakuda_cluster::LOCAL_NODE;
use rakuda_core::stager::{StagerEffect, StagerInput};
use rakuda_core::{Event, Input, NodeId, TaskId, files_behind};
use rakuda_proto::Text;
use rakuda_proto::journal::{FileStaged, JournalEvent};

use super::COPY_HINT;
use super::state::State;
use crate::attempts::state::RunningAttempt;
use crate::hub::Hub;

impl Hub {
    /// Tells the stager what happened.
    pub(super) fn stage(&mut self, input: StagerInput<State>) {
        let Some(staging) = &mut self.staging else { return };
        let nodes = self.run.nodes();
        let mut out = Vec::new();
        staging.stager.handle(input, |node| nodes.is_there(node), &mut out);
        staging.effects.extend(out);
        if staging.performs {
            return;
        }
        staging.performs = true;
        while let Some(effect) = self.next_effect() {
            self.perform_staging(effect);
        }
        if let Some(staging) = &mut self.staging {
            staging.performs = false;
        }
    }

    fn next_effect(&mut self) -> Option<StagerEffect<State>> {
        self.staging.as_mut()?.effects.pop_front()
    }

    fn perform_staging(&mut self, effect: StagerEffect<State>) {
        match effect {
            StagerEffect::Admitted { id, attempt, node } => self.on_admitted(id, attempt, node),
            StagerEffect::NoRoom { id, attempt } => self.tell(Input::InputsHeldUp { id, attempt }),
            StagerEffect::InputsThere { id, attempt } => {
                self.ask_about_residency(id);
                self.on_inputs_seen(id, attempt, None);
            }
            StagerEffect::TooLarge { id, attempt, node, needed_bytes, limit_bytes } => {
                let joined = self.joined_there(id, node).into_iter();
                let joined: Vec<String> = joined.map(|id| self.display_name(id)).collect();
                let why = format!(
                    "the inputs of {}{}, with what is known in folders that it names, take {needed_bytes} bytes, and copies on {} may take {limit_bytes}: see STAGE_CACHE",
                    self.display_name(id),
                    match &joined[..] {
                        [] => String::new(),
                        joined =>
                            format!(" and of {}, which read at the same time", joined.join(", ")),
                    },
                    self.staging_name(node),
                );
                self.on_inputs_seen(id, attempt, Some(Text::from(why)));
            }
            StagerEffect::AskAgain { id, attempt, node } => self.want_again(id, attempt, node),
            StagerEffect::Move { transfer, file, state, from, to } => {
                self.start_transfer(transfer, file, &state, from, to);
            }
            StagerEffect::Cancel { transfer } => self.cancel_transfer(transfer),
            StagerEffect::Remove { removal, node, files, counted } => {
                self.remove_copies(removal, node, &files);
                if counted {
                    for (id, _) in &files {
                        self.tell_places(*id);
                    }
                }
            }
            StagerEffect::StopRemoval { removal } => self.stop_removal(removal),
            StagerEffect::Arrived { transfer, file, from, to, moved, counts } => {
                if counts {
                    self.note_place(file, to);
                }
                self.note_staged(transfer, file, (from, to), &moved);
            }
            StagerEffect::StagedOut { file } => self.on_staged_out(file),
            StagerEffect::AskForLife { node } => self.ask_for_life(node),
            StagerEffect::NotStaged { file, to, from, reason, readers } => {
                let why = self.not_staged(file, to, &from, &reason);
                for (id, attempt) in readers {
                    self.refuse_inputs(id, attempt, file, &why);
                }
                if to == LOCAL_NODE {
                    self.on_not_staged_out(file, &why);
                }
            }
        }
    }

    /// An attempt has room on its node.
    fn on_admitted(&mut self, id: TaskId, attempt: u32, node: NodeId) {
        if let Some(staging) = &mut self.staging {
            // They are among what is let in, and are not to be asked for again when nothing is missing.
            staging.undeclared_inputs.remove(&id);
        }
        let count = self.send_written(id, node, attempt);
        self.stage(StagerInput::OwnFilesSent { id, count });
    }

    /// There may be room now for what had none.
    fn want_again(&mut self, id: TaskId, attempt: u32, node: NodeId) {
        let acts = self.run.attempts().acting_as(id, attempt);
        if acts.is_some_and(|acts: &RunningAttempt| acts.node() == node) {
            self.stage_inputs(id);
        } else {
            self.stage(StagerInput::Released { id, node });
        }
    }

    /// A node has a file in the state that counts.
    fn note_place(&mut self, file: TaskId, node: NodeId) {
        let Some(staging) = &self.staging else { return };
        let Some(state) = staging.stager.ledger().state(file).cloned() else { return };
        self.tell_places(file);
        self.remember(file, node, &state, false);
    }

    /// A transfer has ended well.
    fn note_staged(
        &mut self,
        transfer: u32,
        file: TaskId,
        (from, to): (NodeId, NodeId),
        moved: &State,
    ) {
        let moving = self.staging.as_mut().and_then(|staging| staging.moves.remove(&transfer));
        let Some(moving) = moving else { return };
        let carried = moving.carried.unwrap_or_default();
        let staged = FileStaged {
            time_ns: self.now.journal_ns(),
            task: file.0,
            from: from.0,
            to: to.0,
            companions: carried.secondary,
            bytes: moved.version.bytes.saturating_add(carried.bytes),
            took_ns: self.now.time.0.saturating_sub(moving.started_ns),
        };
        let event = JournalEvent::FileStaged(staged);
        self.record.about_task(self.run.scheduler(), &self.names, file, &event);
        self.forget_program_like(file);
    }

    /// Why a file was not staged in or out, for users.
    fn not_staged(&self, file: TaskId, to: NodeId, from: &[NodeId], reason: &str) -> String {
        let names: Vec<String> = from.iter().map(|node| self.staging_name(*node)).collect();
        format!(
            "cannot copy {} from {} to {}: failed to {reason}; {COPY_HINT}",
            self.display_name(file),
            if names.is_empty() { "where it was".to_owned() } else { names.join(" or ") },
            self.staging_name(to),
        )
    }

    /// An attempt lacks a file on its node.
    fn refuse_inputs(&mut self, id: TaskId, attempt: u32, file: TaskId, why: &str) {
        self.tell_lacked_behind(id, file);
        self.forget_written(id);
        self.on_inputs_seen(id, attempt, Some(Text::from(why.to_owned())));
    }

    /// What a task needed, and did not get. Where it is nowhere any more and lies behind plain
    /// tasks, this tells the scheduler that it is an input.
    fn tell_lacked_behind(&mut self, id: TaskId, file: TaskId) {
        let Some(staging) = &self.staging else { return };
        let mut holders = staging.stager.ledger().nodes_with(file).into_iter();
        let is_somewhere = holders.any(|node| self.is_within_reach(node));
        if !is_somewhere && files_behind(self.run.scheduler(), id).contains(&file) {
            self.event(Event::InputLacked { id, input: file });
        }
    }
}
