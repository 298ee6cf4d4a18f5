//! What has gone so far through streams that are open, as agents report it about once a second, for people who look at
//! a run. When streams end their accounts say it, and those alone are noted.

use std::collections::BTreeMap;

use rakuda_core::{NodeId, Time};
use rakuda_proto::streams::{HopRoute, OpeningId, StreamPassed};

use super::state::Streams;

/// A stream that is open.
pub(crate) struct Passing {
    /// Its name in the Rakefile.
    pub name: String,
    /// Bytes that its writers have written in this opening.
    pub bytes: u64,
    pub records: u64,
    /// All its writers are of this opening. Otherwise they run one after the other, each in its own.
    pub is_live: bool,
}

impl Streams {
    /// An agent says what has gone in at its node.
    pub fn on_passed(&mut self, id: OpeningId, node: NodeId, streams: Vec<StreamPassed>) {
        if let Some(opening) = self.open.get_mut(&id) {
            opening.passed.insert(node, streams);
        }
    }

    /// An agent says what edges to its node have seen of their lines. Over the hub's host go two lines.
    pub fn on_line_rates(&mut self, now: Time, id: OpeningId, node: NodeId, told: &[(u32, u64)]) {
        let Some(opening) = self.open.get(&id) else { return };
        for (number, rate) in told {
            let edge = opening.edges.all.get(*number as usize);
            let edge = edge.filter(|edge| edge.to == node && edge.way == HopRoute::Direct);
            if let Some(edge) = edge {
                let (ends, groups) = ((edge.from, edge.to), &opening.routes.groups);
                self.line_rates.observe(now, (id.0, *number), ends, *rate, groups);
            }
        }
    }

    /// Those of which something is known, in the order of their names.
    pub fn passing(&self) -> Vec<Passing> {
        let mut found: BTreeMap<String, Passing> = BTreeMap::new();
        for opening in self.open.values().filter(|opening| !opening.ending.is_over()) {
            let is_live = !self.components[opening.component].spooled;
            for stream in opening.passed.values().flatten() {
                let name = stream.name.to_display();
                let passing = found.entry(name.clone()).or_insert_with(|| Passing {
                    name,
                    bytes: 0,
                    records: 0,
                    is_live,
                });
                passing.bytes = passing.bytes.saturating_add(stream.bytes);
                passing.records = passing.records.saturating_add(stream.records);
            }
        }
        found.into_values().collect()
    }
}
