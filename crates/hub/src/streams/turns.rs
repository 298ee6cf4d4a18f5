//! Whose turn it is in a component over spools: a member runs when its writers have ended, in rake's order, and as soon
//! as the core has room for it.
//!
//! A task that waits for its writers has begun for the core, and has nothing of its node.

use rakuda_core::{Devices, Event, NextAttempt, TaskId};

use super::state::{Component, Streams};
use crate::hub::Hub;

impl Streams {
    /// Whether a task runs when its turn has come, and not with all that streams join with it.
    pub fn runs_by_turns(&self, id: TaskId) -> bool {
        self.component_of(id).is_some_and(|component| component.spooled)
    }

    /// Those that write for a task that runs when its turn has come.
    pub fn sources_of(&self, id: TaskId) -> impl Iterator<Item = TaskId> {
        let component = self.component_of(id).filter(|component| component.spooled);
        component.into_iter().flat_map(move |component| component.stages.sources(id)).copied()
    }

    /// Whether a task that the core has begun has begun its action, in this attempt or an earlier one: a task that
    /// waits for its turn has not.
    pub fn has_begun(&self, id: TaskId) -> bool {
        let has = |component: &Component| !component.spooled || component.has_begun.contains(&id);
        self.component_of(id).is_none_or(has)
    }

    /// Tasks that write for a task that waits for its turn and have not ended well; empty: it waits for room.
    pub fn waits_for(&self, id: TaskId) -> Option<Vec<TaskId>> {
        let stages = &self.component_of(id)?.stages;
        stages.is_waiting(id).then(|| stages.missing(id).collect())
    }
}

impl Hub {
    /// Begins turns, when all has been done that the core wanted: in components of which it has begun members some have
    /// their turn.
    pub(crate) fn begin_turns(&mut self) {
        while let Some(place) = self.streams.begun.pop_first() {
            self.begin_next_of(place);
        }
    }

    /// Asks for room for members whose turn it is: for one at a time with `-j 1`.
    pub(super) fn begin_next_of(&mut self, place: usize) {
        let component = &mut self.streams.components[place];
        let is_running = !component.opening_of.is_empty();
        let is_serial = self.settings.config.policy == rakuda_core::Policy::Serial;
        for id in component.stages.next_turns(is_serial, is_running) {
            self.event(Event::TurnCame { id });
        }
    }

    /// The core has room for a member whose turn it is.
    pub(crate) fn on_turn_taken(&mut self, id: TaskId, devices: Devices) {
        let Some(&place) = self.streams.of.get(&id) else { return };
        if let Some(start) = self.streams.components[place].stages.take(id) {
            self.note_claim(id, start.node);
            self.start_action(id, &NextAttempt { devices, ..start });
        }
    }
}
