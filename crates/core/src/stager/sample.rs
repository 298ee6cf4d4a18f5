//! What tests take for the state of a file, and for a plan.

use alloc::vec::Vec;

use super::FileState;
use crate::config::Config;
use crate::event::{Event, TaskKind};
use crate::fact::{Fact, Places};
use crate::ids::{InvocationId, RequirementId, TaskId};
use crate::requirement::Requirement;
use crate::scheduler::Scheduler;
use crate::time::Time;

/// A version, and the bytes of a file without secondary files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State(pub u32, pub u64);

impl FileState for State {
    fn bytes(&self) -> u64 {
        self.1
    }

    fn is_alone(&self) -> bool {
        true
    }

    fn covers(&self, other: &Self) -> bool {
        self == other
    }

    fn is_same_file(&self, other: &Self) -> bool {
        self == other
    }

    fn supersedes(&self, earlier: &Self) -> bool {
        self != earlier && self.0 >= earlier.0
    }
}

/// Files 0, 1 and 4, of which 0 is settled; plain task 2 stands for 0 and 1, and plain task 3 for 2.
pub(super) fn scheduler() -> Scheduler {
    let (mut scheduler, mut out) = (Scheduler::new(Config::default()), Vec::new());
    let mut tell = |event| scheduler.handle(Time(1), event, &mut out);
    let requirement = Requirement::default();
    tell(Event::RequirementDefined { id: RequirementId(0), requirement });
    let of_two = [TaskId(0), TaskId(1)];
    let of_one = [TaskId(2)];
    let all: [(TaskKind, &[TaskId]); 5] = [
        (TaskKind::File, &[]),
        (TaskKind::File, &[]),
        (TaskKind::Plain, &of_two),
        (TaskKind::Plain, &of_one),
        (TaskKind::File, &[]),
    ];
    for (id, (kind, prerequisites)) in (0..).map(TaskId).zip(all) {
        tell(Event::TaskDefined {
            id,
            kind,
            has_action: id != TaskId(0) && kind == TaskKind::File,
            deferred: false,
            requirement: RequirementId(0),
            prerequisites,
        });
    }
    for id in [0, 1, 4].map(TaskId) {
        let modified_ns = (id == TaskId(0)).then(|| 1_u64.into());
        let fact = Fact { modified_ns, bytes: 1, places: Places::Unknown };
        tell(Event::FactGathered { id, fact });
    }
    tell(Event::InvocationStarted { id: InvocationId(0), tasks: &[TaskId(0)], caller: None });
    scheduler
}
