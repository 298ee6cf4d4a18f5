//! Which files are staged out: what was asked for, what was at home before, and what the settings name. All others
//! stay on the node that made them.
//!
//! It does not know what is on its way ([`super::StageOut`]), nor where files are ([`super::Ledger`]).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::ledger::{FileState, Ledger};
use crate::event::TaskKind;
use crate::files::matches_glob;
use crate::ids::{NodeId, TaskId};
use crate::scheduler::Scheduler;
use crate::scheduler::task::TaskState;

/// What is staged out though nobody asks for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StageOutRules {
    /// Every target is.
    pub all: bool,
    /// Targets are whose names one of these globs matches.
    pub globs: Vec<Vec<u8>>,
}

/// A target that an action has made.
#[derive(Clone, Copy, Debug)]
pub struct MadeTarget<'a> {
    /// Whose.
    pub id: TaskId,
    /// The node that has it, in the state that counts.
    pub node: NodeId,
    /// What it is called.
    pub name: &'a [u8],
    /// It lies in the run's folder. What lies elsewhere is never moved.
    pub is_staged: bool,
    /// There was one at home when the attempt began.
    pub was_at_home: bool,
}

/// What users and actions have asked for.
#[derive(Debug, Default)]
pub(super) struct Requested {
    rules: StageOutRules,
    /// Tasks that users have asked for, and what plain ones among them stand for.
    by_users: BTreeSet<TaskId>,
    /// The same of invocations by actions. A target with secondary files stays where it is until Ruby code looks for
    /// it.
    by_actions: BTreeSet<TaskId>,
}

impl Requested {
    pub fn new(rules: StageOutRules) -> Self {
        Self { rules, by_users: BTreeSet::new(), by_actions: BTreeSet::new() }
    }

    /// Adds tasks and, through any number of plain tasks, what these stand for. Returns those of them that were
    /// settled well before.
    pub fn add(&mut self, tasks: &[TaskId], by_action: bool, scheduler: &Scheduler) -> Vec<TaskId> {
        let requested = if by_action { &mut self.by_actions } else { &mut self.by_users };
        let (mut walk, mut settled) = (tasks.to_vec(), Vec::new());
        while let Some(id) = walk.pop() {
            if !requested.insert(id) {
                continue;
            }
            match scheduler.task(id) {
                Some(task) if task.kind == TaskKind::Plain => {
                    walk.extend(scheduler.prerequisites(id));
                }
                Some(task) if matches!(task.state, TaskState::Settled(how) if how.is_well()) => {
                    settled.push(id);
                }
                Some(_) | None => {}
            }
        }
        settled
    }

    /// The same of prerequisites that a task has got since, where it is a plain one that was asked for.
    pub fn add_prerequisites(
        &mut self,
        id: TaskId,
        added: &[TaskId],
        scheduler: &Scheduler,
    ) -> Vec<TaskId> {
        let by_user = self.by_users.contains(&id);
        let is_plain = scheduler.task(id).is_some_and(|task| task.kind == TaskKind::Plain);
        if is_plain && (by_user || self.by_actions.contains(&id)) {
            self.add(added, !by_user, scheduler)
        } else {
            Vec::new()
        }
    }

    /// Whether a task's file is staged out because it was asked for.
    pub fn includes<S: FileState>(&self, id: TaskId, ledger: &Ledger<S>) -> bool {
        let is_alone = || ledger.state(id).is_none_or(FileState::is_alone);
        self.by_users.contains(&id) || self.by_actions.contains(&id) && is_alone()
    }

    /// Whether a target that was made is staged out.
    pub fn is_staged_out<S: FileState>(&self, made: &MadeTarget<'_>, ledger: &Ledger<S>) -> bool {
        let is_named = || self.rules.globs.iter().any(|glob| matches_glob(glob, made.name));
        made.is_staged
            && (self.rules.all || made.was_at_home || self.includes(made.id, ledger) || is_named())
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::super::sample::scheduler;
    use super::*;

    /// A file, and whether it is without secondary files.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct State {
        is_alone: bool,
    }

    impl FileState for State {
        fn bytes(&self) -> u64 {
            1
        }

        fn is_alone(&self) -> bool {
            self.is_alone
        }

        fn covers(&self, other: &Self) -> bool {
            self == other
        }

        fn is_same_file(&self, _: &Self) -> bool {
            true
        }

        fn supersedes(&self, _: &Self) -> bool {
            false
        }
    }

    const NODE: NodeId = NodeId(1);
    const MADE: MadeTarget<'_> = MadeTarget {
        id: TaskId(1),
        node: NODE,
        name: b"out/1.fits",
        is_staged: true,
        was_at_home: false,
    };

    fn with_secondary(id: TaskId) -> Ledger<State> {
        let mut ledger = Ledger::default();
        ledger.settle(id, NODE, State { is_alone: false });
        ledger
    }

    #[test]
    fn what_was_asked_for_is_staged_out_also_behind_plain_tasks() {
        let (mut requested, ledger) = (Requested::default(), Ledger::<State>::default());
        assert!(!requested.is_staged_out(&MADE, &ledger), "nobody wants it there");
        let settled = requested.add(&[TaskId(3)], false, &scheduler());
        assert_eq!(settled, [TaskId(0)], "what is settled already is named");
        for id in [0, 1, 2, 3].map(TaskId) {
            assert!(requested.includes(id, &ledger), "{id:?}");
        }
        assert!(!requested.includes(TaskId(4), &ledger));
        assert!(requested.is_staged_out(&MADE, &ledger));
        assert_eq!(requested.add(&[TaskId(3)], false, &scheduler()), [], "once");
    }

    #[test]
    fn prerequisites_count_that_a_plain_task_gets_after_it_was_asked_for() {
        let (mut requested, ledger) = (Requested::default(), Ledger::<State>::default());
        let scheduler = scheduler();
        assert_eq!(requested.add_prerequisites(TaskId(2), &[TaskId(0)], &scheduler), []);
        requested.add(&[TaskId(1), TaskId(2)], true, &scheduler);
        assert_eq!(requested.add_prerequisites(TaskId(1), &[TaskId(4)], &scheduler), []);
        assert!(!requested.includes(TaskId(4), &ledger), "a file stands for itself alone");
        requested.add_prerequisites(TaskId(2), &[TaskId(4)], &scheduler);
        assert!(requested.includes(TaskId(4), &ledger));
        assert!(!requested.includes(TaskId(4), &with_secondary(TaskId(4))), "as for the task");
    }

    #[test]
    fn what_actions_ask_for_stays_with_its_secondary_files_unless_users_do_too() {
        let (mut requested, ledger) = (Requested::default(), with_secondary(TaskId(1)));
        requested.add(&[TaskId(1)], true, &scheduler());
        assert!(!requested.is_staged_out(&MADE, &ledger));
        assert!(requested.is_staged_out(&MADE, &Ledger::<State>::default()), "it is alone");
        requested.add(&[TaskId(1)], false, &scheduler());
        assert!(requested.is_staged_out(&MADE, &ledger));
    }

    #[test]
    fn what_was_at_home_and_what_the_settings_name_is_staged_out_unless_it_lies_elsewhere() {
        let ledger = with_secondary(TaskId(1));
        let sets_out =
            |rules: StageOutRules, made| Requested::new(rules).is_staged_out(&made, &ledger);
        let none = StageOutRules::default;
        let globs =
            |glob: &[u8]| StageOutRules { all: false, globs: vec![b"x".into(), glob.into()] };
        assert!(!sets_out(none(), MADE));
        assert!(sets_out(none(), MadeTarget { was_at_home: true, ..MADE }));
        assert!(sets_out(StageOutRules { all: true, ..none() }, MADE));
        assert!(sets_out(globs(b"out/*.fits"), MADE));
        assert!(!sets_out(globs(b"*.gz"), MADE));
        let elsewhere = MadeTarget { is_staged: false, was_at_home: true, ..MADE };
        assert!(!sets_out(StageOutRules { all: true, ..none() }, elsewhere));
    }
}
