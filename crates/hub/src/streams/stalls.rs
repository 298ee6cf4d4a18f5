//! Warns that nothing moves in a cycle of streams. Agents report which of their places stand still;
//! `rakuda_core::streams::Stalls` decides what follows.

use rakuda_core::streams::{Stall, Still};
use rakuda_core::{NodeId, TaskId};
use rakuda_proto::Text;
use rakuda_proto::journal::{JournalEvent, StreamsStalled};
use rakuda_proto::streams::{OpeningId, StalledStream, StillForm};

use super::state::Component;
use crate::hub::Hub;

/// Maximum number of tasks of a cycle that stands still that are named.
const NAMES_MAX: usize = 10;

impl Component {
    /// The place of a stream among those of the component.
    pub(super) fn number_of(&self, name: &Text) -> Option<usize> {
        self.streams.iter().position(|stream| stream.name == *name)
    }
}

impl Hub {
    /// A node says in which of its streams nothing moves.
    pub(super) fn on_stalled(&mut self, id: OpeningId, node: NodeId, streams: &[StalledStream]) {
        let Some(opening) = self.streams.open.get_mut(&id) else { return };
        let component = &self.streams.components[opening.component];
        let still = streams.iter().filter_map(|stream| {
            Some((component.number_of(&stream.name)?, still_of(stream.still)))
        });
        opening.stalls.on_told(node, still.collect());
        self.tell_stalls(id);
    }

    /// Something of an opening stands still, or has ended: says what stands still as a whole.
    pub(super) fn tell_stalls(&mut self, id: OpeningId) {
        let Some(opening) = self.streams.open.get_mut(&id) else { return };
        if !opening.ending.is_going_well() {
            return;
        }
        let place = opening.component;
        let graph = &self.streams.components[place].graph;
        for stall in opening.stalls.take(graph, opening.ending.left()) {
            let text = self.words_of_stall(place, &stall);
            self.warn(&text);
            self.note_stall(id, place, &stall);
            if let Some(opening) = self.streams.open.get_mut(&id) {
                opening.stalled.retain(|one| one.tasks != stall.tasks);
                opening.stalled.push(stall);
            }
        }
    }

    fn note_stall(&mut self, id: OpeningId, place: usize, stall: &Stall) {
        let component = &self.streams.components[place];
        let streams = stall.streams.iter().map(|(stream, still)| StalledStream {
            name: component.streams[*stream].name.clone(),
            still: form_of(*still),
        });
        let event = JournalEvent::StreamsStalled(StreamsStalled {
            time_ns: self.now.journal_ns(),
            opening: id.0,
            tasks: stall.tasks.iter().map(|task| task.0).collect(),
            streams: streams.collect(),
            silence_ns: u64::from(self.settings.stream_stall_ms) * 1_000_000,
        });
        self.record.gang_started(self.run.scheduler(), &self.names, &event, &[]);
    }

    /// The cycle with a task in which nothing moves now, in words.
    pub(crate) fn stall_of(&self, id: TaskId) -> Option<String> {
        let place = *self.streams.of.get(&id)?;
        let opening = self.streams.components[place].opening_of.get(&id)?;
        let opening = self.streams.open.get(opening).filter(|opening| !opening.ending.is_over())?;
        let left = opening.ending.left();
        let holds = |stall: &&Stall| {
            stall.tasks.contains(&id)
                && stall.tasks.iter().all(|task| left.contains(task))
                && stall.streams.iter().all(|(stream, _)| opening.stalls.is_told(*stream))
        };
        opening.stalled.iter().find(holds).map(|stall| self.words_of_stall(place, stall))
    }

    fn words_of_stall(&self, place: usize, stall: &Stall) -> String {
        let component = &self.streams.components[place];
        let names = self.listed_names(&stall.tasks, NAMES_MAX);
        let states = stall.streams.iter().map(|(stream, still)| {
            format!("{} {}", component.streams[*stream].name.to_display(), words_of(*still))
        });
        let states: Vec<String> = states.collect();
        let seconds = f64::from(self.settings.stream_stall_ms) / 1_000.0;
        format!(
            "streams: no byte has moved for {seconds} s in the cycle of tasks {names}: {}",
            states.join(", ")
        )
    }
}

fn words_of(still: Still) -> &'static str {
    match still {
        Still::Over => "is over",
        Still::Empty => "is empty",
        Still::Unread => "has bytes that are not read",
        Still::Full => "is full",
    }
}

fn still_of(form: StillForm) -> Still {
    match form {
        StillForm::Over => Still::Over,
        StillForm::Empty => Still::Empty,
        StillForm::Unread => Still::Unread,
        StillForm::Full => Still::Full,
    }
}

fn form_of(still: Still) -> StillForm {
    match still {
        Still::Over => StillForm::Over,
        Still::Empty => StillForm::Empty,
        Still::Unread => StillForm::Unread,
        Still::Full => StillForm::Full,
    }
}
