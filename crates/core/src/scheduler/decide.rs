//! Which tasks run: rake's rule, over the graph as it is now.
//!
//! Pure reads and the two remembered sums (`newest`, `disturbed`); asks nothing and changes no state. Sums are pulled
//! from the direct prerequisites when a task is decided, each edge once, not pushed when they settle: a fact gathered
//! again counts at once.

use crate::event::TaskKind;
use crate::ids::TaskId;
use crate::scheduler::graph::Graph;
use crate::scheduler::task::{KnownFact, Reason};
use crate::time::{Newest, Now};
use alloc::vec::Vec;

/// Sums up the prerequisites of `id`, all of them settled.
pub(crate) fn sum_up_prerequisites(graph: &mut Graph, id: TaskId) {
    let (mut newest, mut disturbed) = (Newest::NONE, false);
    for prerequisite in graph.prerequisites(id).filter(|p| !p.order_only) {
        let task = &graph.tasks[prerequisite.id];
        newest.include(task.timestamp());
        newest.include_all_of(task.newest);
        disturbed |= task.ran || task.disturbed;
    }
    let task = &mut graph.tasks[id];
    task.newest = newest;
    task.disturbed = disturbed;
}

/// The tasks whose facts have to be gathered before `id` is decided: unknown ones, and if it is
/// disturbed those that an action may have changed since, which is: that no action of their own
/// wrote, gathered before the `epoch`-th action ended.
pub(crate) fn unknown_facts(
    graph: &Graph,
    id: TaskId,
    epoch: u32,
    disturbed: bool,
    unknown: &mut Vec<TaskId>,
) {
    let is_unknown = |id: TaskId| {
        let task = &graph.tasks[id];
        matches!(task.fact, KnownFact::Unknown)
            || (disturbed && !task.ran && task.fact_epoch != epoch)
    };
    let kind = graph.tasks[id].kind;
    if kind != TaskKind::Plain && is_unknown(id) {
        unknown.push(id);
    }
    if kind != TaskKind::Directory {
        let others = graph.prerequisites(id).filter(|p| !p.order_only).map(|p| p.id);
        let files = others.filter(|other| graph.tasks[*other].kind == TaskKind::File);
        unknown.extend(files.filter(|other| is_unknown(*other)));
    }
    unknown.sort_unstable();
    unknown.dedup();
}

/// Whether a plain, file or directory task runs, by the facts as they are known.
pub(crate) fn reason_by_facts(graph: &Graph, id: TaskId, now: Now, build_all: bool) -> Reason {
    let task = &graph.tasks[id];
    match (task.kind, &task.fact) {
        (TaskKind::Plain, _) => Reason::AlwaysRuns,
        (TaskKind::Asked, _) => unreachable!("its class is asked"),
        (TaskKind::File | TaskKind::Directory, KnownFact::Unknown | KnownFact::Missing) => {
            Reason::Missing
        }
        (TaskKind::File | TaskKind::Directory, KnownFact::Gone { .. }) => Reason::Lost,
        (TaskKind::Directory, KnownFact::Present { .. }) => Reason::UpToDate,
        (TaskKind::File | TaskKind::Directory, KnownFact::WouldBeMade { .. }) => {
            unreachable!("it is decided once, before its action")
        }
        (TaskKind::File, KnownFact::Present { modified, .. }) => {
            if task.newest.is_after(*modified, now) {
                Reason::OutOfDate
            } else if build_all {
                Reason::BuildAll
            } else {
                Reason::UpToDate
            }
        }
    }
}

impl Reason {
    /// Whether the task runs.
    pub fn is_needed(self) -> bool {
        match self {
            Self::AlwaysRuns
            | Self::Missing
            | Self::Lost
            | Self::OutOfDate
            | Self::BuildAll
            | Self::Demanded
            | Self::AnsweredNeeded
            | Self::GangRuns => true,
            Self::Undecided | Self::UpToDate | Self::AnsweredNotNeeded | Self::Unresolved => false,
        }
    }
}
