//! Streams of one opening in which nothing has moved for some time.
//!
//! It knows its own node alone. The hub, which hears of all places, decides what that means for a cycle.

use std::collections::BTreeMap;

use rakuda_core::Time;
use rakuda_core::streams::{Flow, StallWatch, Still};
use rakuda_proto::Text;
use rakuda_proto::streams::{StalledStream, StillForm};

/// The watches of an opening.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    /// By name of a stream, which has two flows while its route changes.
    watches: BTreeMap<Text, StallWatch>,
    /// What was reported last.
    told: Vec<StalledStream>,
}

impl Stalls {
    /// Looks at a stream that is reported after `silence_ms` of silence. `has_moved`: something has moved since the
    /// last look.
    pub fn look(&mut self, now: Time, name: &Text, silence_ms: u32, has_moved: bool) {
        let Some(watch) = self.watches.get_mut(name) else {
            let silence_ns = u64::from(silence_ms) * 1_000_000;
            self.watches.insert(name.clone(), StallWatch::new(now, silence_ns));
            return;
        };
        if has_moved {
            watch.on_moved(now);
        }
        watch.look(now);
    }

    /// All streams that stand still, when these, or their states, differ from the last report. Takes the flows of all
    /// at which it has looked.
    pub fn take<'flows>(
        &mut self,
        flows: impl Iterator<Item = (&'flows Text, &'flows Flow)>,
    ) -> Option<Vec<StalledStream>> {
        if self.told.is_empty() && !self.watches.values().any(StallWatch::is_still) {
            return None;
        }
        let mut stills: BTreeMap<&Text, Still> = BTreeMap::new();
        for (name, flow) in flows.filter(|(name, _)| self.watches[name].is_still()) {
            let still = flow.still();
            stills.entry(name).and_modify(|one| *one = still.max(*one)).or_insert(still);
        }
        let of = |(name, still): (&Text, Still)| StalledStream {
            name: name.clone(),
            still: form_of(still),
        };
        let stalled: Vec<StalledStream> = stills.into_iter().map(of).collect();
        (stalled != self.told).then(|| {
            self.told.clone_from(&stalled);
            stalled
        })
    }

    /// When to look again at the latest.
    pub fn due(&self) -> Option<Time> {
        self.watches.values().filter_map(StallWatch::due).min()
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
