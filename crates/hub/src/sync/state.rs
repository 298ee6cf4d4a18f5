//! What the hub keeps of rounds.

use std::collections::BTreeMap;

use rakuda_agent::clock;
use rakuda_cluster::LOCAL_NODE;
use rakuda_core::sync::clock::Offset;
use rakuda_core::sync::rounds::Rounds;
use rakuda_core::{NodeId, TaskId};
use rakuda_proto::Text;
use rakuda_proto::agent::{CacheEvidence, CommandId};
use rakuda_proto::front::{GateKind, RoundDefinition};
use rakuda_proto::journal::RoundCache;

use crate::round_remarks::Remarks;

/// Maximum bytes, at the end of what a worker prints, in which figures are looked for.
pub(super) const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// The rounds of a run.
pub(crate) struct SyncRounds {
    pub(super) core: Rounds,
    /// The rounds that have not ended.
    pub(super) rounds: BTreeMap<u32, Round>,
    /// Commands that are not over: round and worker.
    pub(super) commands: BTreeMap<CommandId, (u32, u32)>,
    /// What those have printed that figures are to be found in: the end of it.
    pub(super) outputs: BTreeMap<CommandId, Vec<u8>>,
    /// Tasks whose actions go on, and whose round did not begin: why.
    pub(super) faults: BTreeMap<TaskId, Text>,
    pub(super) remarks: Remarks,
}

/// What is known of a node's clock, against the kernel's here.
#[derive(Clone, Copy)]
pub(crate) struct ClockOfNode {
    pub offset: Offset,
    /// The shortest that was seen of late.
    pub round_trip_ns: i64,
}

/// What the hub keeps of a round, and the core has no word for.
pub(super) struct Round {
    pub(super) definition: RoundDefinition,
    /// It is not held at a gate.
    pub(super) is_plain: bool,
    /// Workers that have gone through it: what held them.
    pub(super) gates: BTreeMap<u32, GateKind>,
    /// By worker: what was in memory of the files that it has seen to.
    pub(super) caches: BTreeMap<u32, CacheEvidence>,
    /// By worker.
    pub(super) offsets_ns: BTreeMap<u32, i64>,
    /// Its workers share slots, of which there are fewer.
    pub(super) oversubscribed: bool,
    /// Commands that did not end well.
    pub(super) failed: u32,
    /// Commands that have ended before what they had started.
    pub(super) outlived: u32,
    /// By node elsewhere: by how much its wall clock was set meanwhile.
    pub(super) set_clocks_ns: BTreeMap<NodeId, i64>,
    /// What a worker says that has ended before all were ready.
    pub(super) trouble: Option<Text>,
    /// Why it was given up, for people.
    pub(super) why: Option<String>,
}

impl Round {
    /// What its workers have done with the page cache; `None` if they were not to.
    pub(super) fn cache(&self) -> Option<RoundCache> {
        let state = self.definition.cache?.word().to_owned();
        let workers = u32::try_from(self.caches.len()).unwrap_or(u32::MAX);
        let bytes = self.caches.values().map(|cache| cache.bytes).sum();
        let resident_bytes = self.caches.values().map(|cache| cache.resident).sum();
        Some(RoundCache { state, workers, bytes, resident_bytes })
    }
}

/// A round that goes on, for those who look at the run.
pub(crate) struct OpenRound {
    /// The statement that it is a round of.
    pub sync: String,
    /// Its number in that statement, from 0.
    pub number: u32,
    pub kind: &'static str,
    pub workers: u32,
    /// Workers that have begun.
    pub begun: usize,
    /// Commands that did not end well.
    pub failed: u32,
}

impl Default for SyncRounds {
    fn default() -> Self {
        let mut core = Rounds::default();
        core.set_exact_clock(LOCAL_NODE, clock_ahead_ns());
        Self {
            core,
            rounds: BTreeMap::new(),
            commands: BTreeMap::new(),
            outputs: BTreeMap::new(),
            faults: BTreeMap::new(),
            remarks: Remarks::default(),
        }
    }
}

impl SyncRounds {
    /// Whether clocks are waited for, so that a round which is over can be noted.
    pub fn is_closing(&self) -> bool {
        self.core.is_closing()
    }

    /// Takes the reason why the round of a task did not begin.
    pub fn take_fault(&mut self, id: TaskId) -> Option<Text> {
        self.faults.remove(&id)
    }

    /// Keeps what a command has printed.
    pub fn note_output(&mut self, command: CommandId, bytes: &[u8]) {
        if let Some(kept) = self.outputs.get_mut(&command) {
            kept.extend_from_slice(bytes);
            // Not at each piece: what is cut is moved.
            if kept.len() > 2 * OUTPUT_BYTES_MAX {
                kept.drain(..kept.len() - OUTPUT_BYTES_MAX);
            }
        }
    }

    /// Rounds that have not ended.
    pub fn open_rounds(&self) -> impl Iterator<Item = OpenRound> {
        self.rounds.values().map(|round| OpenRound {
            sync: round.definition.sync.to_display(),
            number: round.definition.number,
            kind: round.definition.kind.word(),
            workers: round.definition.workers,
            begun: round.gates.len(),
            failed: round.failed,
        })
    }

    pub fn due_ns(&self) -> Option<u64> {
        self.core.due().map(|time| time.0)
    }
}

/// How far the kernel's clock here is ahead of the journal's, which the core knows as the hub's.
pub(super) fn clock_ahead_ns() -> i64 {
    clock::journal_clock().monotonic_at(0)
}
