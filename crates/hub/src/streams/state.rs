//! The streams of a run: which tasks they join, and what is open.

use std::collections::{BTreeMap, BTreeSet};

use rakuda_core::streams::{
    ActionEnd, Ending, LineRates, Stages, Stall, Stalls, StreamGraph, Traffic,
};
use rakuda_core::{Held, NextAttempt, NodeId, TaskId, Time};
use rakuda_proto::Text;
use rakuda_proto::front::{ActionOutcome, StreamDefinition};
use rakuda_proto::streams::{
    OpeningId, StdoutHolder, StreamAccount, StreamEnd, StreamPassed, StreamPlan,
};

use super::costs::MessageCosts;
use super::network::{Edges, NotJoined};
use super::routes::Routes;

/// All streams of a run.
#[derive(Default)]
pub(crate) struct Streams {
    pub(super) components: Vec<Component>,
    /// By task: its component.
    pub(super) of: BTreeMap<TaskId, usize>,
    /// Components of which the core has just begun members: all of these are known when nothing more of it is to be
    /// done.
    pub(super) begun: BTreeSet<usize>,
    /// The openings that are open.
    pub(super) open: BTreeMap<OpeningId, Opening>,
    /// Openings that were closed before their end, until all nodes have reported what had gone through.
    pub(super) closing: BTreeMap<OpeningId, Closing>,
    pub(super) openings: u32,
    /// What hosts need to connect to one another.
    pub(super) network: super::network::Network,
    pub(super) message_costs: MessageCosts,
    pub(super) line_rates: LineRates,
}

/// Tasks that streams join.
#[derive(Debug)]
pub(super) struct Component {
    pub(super) members: Vec<TaskId>,
    pub(super) streams: Vec<StreamDefinition>,
    /// Its streams, by their places there.
    pub(super) graph: StreamGraph,
    /// By stream: after what time without movement the user is warned, ms; `None`: what comes out of it never comes
    /// back into it.
    pub(super) stall_ms: Vec<Option<u32>>,
    /// By stream: what follows from what the Rakefile says of its members.
    pub(super) traffic: Vec<Traffic>,
    /// Its members run one after the other, over spools.
    pub(super) spooled: bool,
    /// By member: its ends are open.
    pub(super) opening_of: BTreeMap<TaskId, OpeningId>,
    /// Of a spooled one: whose turn it is. Those wait that the core has begun.
    pub(super) stages: Stages<NextAttempt>,
    /// Of a spooled one: members whose action has begun, in any attempt.
    pub(super) has_begun: BTreeSet<TaskId>,
    /// By member: the opening that has written its spool last. Each writer has a spool of its own: one that was given
    /// up with its node may be written on.
    pub(super) spools: BTreeMap<TaskId, OpeningId>,
    /// Writers whose pipes were closed, as all readers had left before the end; of the last attempt.
    pub(super) unread: BTreeSet<TaskId>,
    /// What had gone through its streams when an attempt of it came to nothing, the last one.
    pub(super) interrupted: Vec<StreamAccount>,
}

/// The writers, or the readers, of a stream and where they are.
pub(super) type Located = Vec<(TaskId, NodeId)>;

/// Streams that are open.
pub(super) struct Opening {
    pub(super) component: usize,
    /// By node with a place of a stream: its report of what went through; `None` if it has not come yet.
    pub(super) nodes: BTreeMap<NodeId, Option<Vec<StreamAccount>>>,
    /// By node that has reported nothing else: what had gone through when it learnt that a member has failed.
    pub(super) interrupted: BTreeMap<NodeId, Vec<StreamAccount>>,
    /// By member that has ended and whose stdout is held: by whom, as far as that can be seen.
    pub(super) held_by: BTreeMap<TaskId, Vec<StdoutHolder>>,
    /// Cycles in which nothing moves, and of which the user knows.
    pub(super) stalled: Vec<Stall>,
    /// By node: what has gone in there so far.
    pub(super) passed: BTreeMap<NodeId, Vec<StreamPassed>>,
    /// By member: its node.
    pub(super) node_of: BTreeMap<TaskId, NodeId>,
    /// The edges between nodes.
    pub(super) edges: Edges,
    /// What follows if they are to change.
    pub(super) routes: Routes,
    /// Which of its places stand still.
    pub(super) stalls: Stalls,
    /// By member whose action has ended well: how long it took.
    pub(super) took_ns: BTreeMap<TaskId, u64>,
    /// Which members are left, and what is at fault.
    pub(super) ending: Ending<Text, HeldEnd>,
}

/// Streams whose members have all ended, one of them not well.
pub(super) struct Closing {
    pub(super) opening: Opening,
    /// Until when the hub waits for what nodes have not reported.
    pub(super) until: Time,
}

/// The end of an action that waits.
#[derive(Debug)]
pub(super) struct HeldEnd {
    pub(super) message: Vec<u8>,
    pub(super) code: Option<Held>,
}

impl Streams {
    pub(super) fn component_of(&self, id: TaskId) -> Option<&Component> {
        self.of.get(&id).map(|place| &self.components[*place])
    }

    fn opening_of(&self, id: TaskId) -> Option<&Opening> {
        let opening = self.component_of(id)?.opening_of.get(&id)?;
        self.open.get(opening)
    }

    /// Why the streams of a task do not work.
    pub fn fault_of(&self, id: TaskId) -> Option<&Text> {
        self.opening_of(id)?.ending.fault()
    }

    /// The fault that counts in place of how the action of a task has ended.
    pub fn fault_of_action(&self, id: TaskId, outcome: ActionOutcome) -> Option<&Text> {
        let end = match outcome {
            ActionOutcome::Ok => ActionEnd::Well,
            ActionOutcome::Failed => ActionEnd::Failed,
            ActionOutcome::Exit => ActionEnd::Exited,
        };
        self.opening_of(id)?.ending.fault_of_action(id, end)
    }

    /// The fault that counts in place of how a command of a task has ended.
    pub fn fault_of_command(&self, id: TaskId, is_well: bool) -> Option<&Text> {
        self.opening_of(id)?.ending.fault_of_command(id, is_well)
    }

    /// Where the action of a task of an open stream was, and how long it took.
    pub fn end_of(&self, id: TaskId) -> Option<(NodeId, u64)> {
        let opening = self.opening_of(id)?;
        Some((*opening.node_of.get(&id)?, *opening.took_ns.get(&id)?))
    }

    /// `FILE:LINE` of the first stream that joins a task to others.
    pub fn place_of(&self, id: TaskId) -> Option<&Text> {
        self.first_of(id).map(|stream| &stream.place).filter(|place| !place.0.is_empty())
    }

    /// The name of that stream.
    pub fn name_joining(&self, id: TaskId) -> Option<String> {
        self.first_of(id).map(|stream| stream.name.to_display())
    }

    fn first_of(&self, id: TaskId) -> Option<&StreamDefinition> {
        let has = |stream: &&StreamDefinition| {
            stream.writers.contains(&id.0) || stream.readers.contains(&id.0)
        };
        self.component_of(id)?.streams.iter().find(has)
    }

    /// Whether the tasks that streams join to a task could run one after the other: not if something comes back to a
    /// task.
    pub fn could_take_turns(&self, id: TaskId) -> bool {
        self.component_of(id).is_some_and(|component| component.graph.cycles().is_empty())
    }

    /// The ends of a task, for its commands: the opening, and the number of the task.
    pub fn ends_of(&self, id: TaskId) -> Option<(OpeningId, u32)> {
        let opening = self.component_of(id)?.opening_of.get(&id)?;
        Some((*opening, id.0))
    }
}

impl Component {
    /// What is opened for all members at once.
    pub(super) fn live_plans(&self) -> Vec<StreamPlan> {
        let ends = |tasks: &[u32]| tasks.iter().copied().map(StreamEnd::Task).collect();
        let streams = self.streams.iter().zip(&self.stall_ms);
        streams
            .map(|(stream, stall_ms)| {
                let plan = plan_of(stream, ends(&stream.writers), ends(&stream.readers));
                StreamPlan { stall_ms: *stall_ms, ..plan }
            })
            .collect()
    }

    /// What is opened for one member of those that run one after the other.
    pub(super) fn spool_plans(&self, id: TaskId, spool: impl Fn(u32) -> Text) -> Vec<StreamPlan> {
        let mut plans = Vec::new();
        let me = || vec![StreamEnd::Task(id.0)];
        for stream in &self.streams {
            if stream.writers.contains(&id.0) {
                // No reader leaves a spool early.
                plans.push(plan_of(stream, me(), vec![StreamEnd::Spool(spool(id.0))]));
            }
            if stream.readers.contains(&id.0) {
                let writers = self.stages.sources(id).iter();
                let spools = writers.map(|writer| StreamEnd::Spool(spool(writer.0)));
                let plan = plan_of(stream, spools.collect(), me());
                plans.push(StreamPlan { in_turn: true, ..plan });
            }
        }
        plans
    }
}

pub(super) fn plan_of(
    stream: &StreamDefinition,
    writers: Vec<StreamEnd>,
    readers: Vec<StreamEnd>,
) -> StreamPlan {
    StreamPlan {
        name: stream.name.clone(),
        record: stream.record,
        window: stream.window,
        spool_bytes_max: stream.spool_max,
        drain: stream.drain,
        in_turn: false,
        writers,
        readers,
        stall_ms: None,
        spill: None,
    }
}

/// The next pair of nodes that could not be joined.
pub(crate) async fn next_not_joined(streams: &mut Streams) -> NotJoined {
    streams.network.reported.recv().await.expect("it keeps a sender")
}
