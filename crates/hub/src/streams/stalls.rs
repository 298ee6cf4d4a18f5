//! Says that nothing moves in a cycle of streams. Agents tell which of their places stand still;
//! `rakuda_core::streams::Stalls` decides what follows.

use rakuda_core::NodeId;
use rakuda_core::streams::{Stall, Still};
use rakuda_proto::Text;
use rakuda_proto::streams::{OpeningId, StalledStream, StillForm};

use super::state::Component;
use crate::hub::Hub;

/// So many tasks of a cycle that stands still are named.
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
        if opening.is_over || opening.failed {
            return;
        }
        let place = opening.component;
        let graph = &self.streams.components[place].graph;
        for stall in opening.stalls.take(graph, &opening.left) {
            let text = self.words_of_stall(place, &stall);
            self.warn(&text);
        }
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
