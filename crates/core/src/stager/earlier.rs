//! What nodes have of earlier runs, and of this one when they come again: which files a node is asked about, what of
//! its answer counts, and whether an invocation waits for nodes that have not answered.
//!
//! Files and nodes have names here that outlive a run, `F` and `N`. The shell keeps notes of them from run to run, asks
//! nodes, and tells the scheduler. A note says what was so when it was written.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::ledger::{FileState, Ledger};
use crate::ids::{NodeId, TaskId};
use crate::nodes::NodeState;

/// Timeout for nodes that may have files: an invocation waits no longer for what they say.
pub const HOLDINGS_LIMIT_NS: u64 = 30_000_000_000;

/// A file of an earlier run: its last state, and who had it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known<N, S> {
    /// The state that was noted last.
    pub state: S,
    /// Nodes that it stayed on.
    pub stays_on: BTreeSet<N>,
    /// Nodes that had a copy.
    pub copies: BTreeSet<N>,
}

/// A file that a node should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected<F, S> {
    /// What it is called.
    pub file: F,
    /// Its task, when that is known already.
    pub task: Option<TaskId>,
    /// The state that the node should have it in.
    pub state: S,
    /// It was staged in, and is elsewhere, too.
    pub copy: bool,
}

/// A file of an earlier run that is still where it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<S> {
    /// Whose.
    pub task: TaskId,
    /// Where.
    pub node: NodeId,
    /// As it is there.
    pub state: S,
    /// It was staged in.
    pub copy: bool,
}

/// What a node's answer means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<S> {
    /// Files of tasks that the node has no more.
    pub gone: Vec<TaskId>,
    /// Files of earlier runs that it still has.
    pub found: Vec<Found<S>>,
}

/// How a file that was found counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counting {
    /// It is to be settled there; else it is one more copy, which the stager knows already.
    pub settles: bool,
    /// The file itself is as it was known already: only where it is has changed.
    pub is_same_file: bool,
}

/// What is known of earlier runs, and the nodes that have been asked about it.
#[derive(Clone, Debug)]
pub struct Earlier<F, N, S> {
    known: BTreeMap<F, Known<N, S>>,
    /// Tasks of this run that stand for such files.
    tasks: BTreeMap<F, TaskId>,
    /// What nodes have said that they still have before its task was defined; whether it is a copy.
    confirmed: BTreeMap<F, Vec<(NodeId, bool)>>,
    /// Nodes that were asked and have not answered.
    asked: BTreeSet<NodeId>,
    /// Nodes that have joined at least once.
    joined: BTreeSet<NodeId>,
}

impl<F, N, S> Default for Earlier<F, N, S> {
    fn default() -> Self {
        Self {
            known: BTreeMap::new(),
            tasks: BTreeMap::new(),
            confirmed: BTreeMap::new(),
            asked: BTreeSet::new(),
            joined: BTreeSet::new(),
        }
    }
}

impl<F: Ord + Clone, N: Ord, S: FileState> Earlier<F, N, S> {
    /// An earlier run has noted that a node has a file. What was noted before of other states no longer counts.
    pub fn note(&mut self, file: F, node: N, state: S, copy: bool) {
        let new = |state| Known { state, stays_on: BTreeSet::new(), copies: BTreeSet::new() };
        let known = self.known.entry(file).or_insert_with(|| new(state.clone()));
        if known.state != state {
            *known = new(state);
        }
        if copy {
            known.copies.insert(node);
        } else {
            known.stays_on.insert(node);
        }
    }

    /// What is known of earlier runs.
    pub fn known(&self) -> &BTreeMap<F, Known<N, S>> {
        &self.known
    }

    /// A node is there, and takes no tasks yet: what it is asked about. It is what it should have by this run, and,
    /// when it comes for the first time, by earlier ones. Nothing is to be waited for when that is empty.
    pub fn ask(
        &mut self,
        id: NodeId,
        node: &N,
        ledger: &Ledger<S>,
        name: impl Fn(TaskId) -> F,
    ) -> Vec<Expected<F, S>> {
        let of_this_run = ledger.files_on(id).map(|(task, state)| Expected {
            file: name(task),
            task: Some(task),
            state: state.clone(),
            copy: !ledger.stays_on(task, id),
        });
        let mut files: Vec<Expected<F, S>> = of_this_run.collect();
        if !self.joined.contains(&id) {
            let had = self.known.iter().filter_map(|(file, known)| {
                let copy = !known.stays_on.contains(node);
                let is_there = !copy || known.copies.contains(node);
                let state = known.state.clone();
                is_there.then(|| Expected { file: file.clone(), task: None, state, copy })
            });
            files.extend(had);
        }
        if !files.is_empty() {
            self.asked.insert(id);
        }
        files
    }

    /// A node has answered: each file that it was asked about, and whether it has all of it.
    pub fn answered(&mut self, id: NodeId, files: Vec<(Expected<F, S>, bool)>) -> Answer<S> {
        self.asked.remove(&id);
        let is_new = !self.joined.contains(&id);
        let mut answer = Answer { gone: Vec::new(), found: Vec::new() };
        for (Expected { file, task, state, copy }, is_whole) in files {
            let task = task.or_else(|| self.tasks.get(&file).copied());
            match task {
                Some(task) if !is_whole => answer.gone.push(task),
                Some(task) if is_new => answer.found.push(Found { task, node: id, state, copy }),
                None if is_whole && is_new => {
                    self.confirmed.entry(file).or_default().push((id, copy));
                }
                Some(_) | None => {}
            }
        }
        answer
    }

    /// A task of this run stands for a file: what nodes have said of it before.
    pub fn define(&mut self, file: &F, task: TaskId) -> Vec<Found<S>> {
        let Some(known) = self.known.get(file) else { return Vec::new() };
        self.tasks.insert(file.clone(), task);
        let confirmed = self.confirmed.remove(file).unwrap_or_default().into_iter();
        let found = |(node, copy)| Found { task, node, state: known.state.clone(), copy };
        confirmed.map(found).collect()
    }

    /// A node takes tasks from now on.
    pub fn join(&mut self, id: NodeId) {
        self.joined.insert(id);
    }

    /// A node is gone, and does not answer.
    pub fn lose(&mut self, id: NodeId) {
        self.asked.remove(&id);
    }

    /// Whether a node has not said yet what it has of earlier runs. `is_coming`: it may come, or is there.
    fn is_owed_by(&self, id: NodeId, is_coming: bool) -> bool {
        is_coming && !self.joined.contains(&id) || self.asked.contains(&id)
    }

    /// Whether an invocation waits: files that it may need are not as they were noted, and nodes that may have them
    /// have not said so. `nodes`: all that there are, with their names. Files of `unfinished` targets do not count.
    pub fn is_waited_for<'a>(
        &self,
        ledger: &Ledger<S>,
        home: NodeId,
        nodes: impl Iterator<Item = (NodeId, NodeState, &'a N)>,
        unfinished: impl Fn(TaskId) -> bool,
    ) -> bool
    where
        N: 'a,
    {
        let owes = |(id, state, _): &(NodeId, NodeState, &N)| {
            *id != home && self.is_owed_by(*id, state.is_coming())
        };
        let owing: BTreeSet<&N> = nodes.filter(owes).map(|(_, _, name)| name).collect();
        let is_waited_for = |(file, task): (&F, &TaskId)| {
            self.known.get(file).is_some_and(|known| {
                let here = ledger.state(*task);
                here.is_none_or(|here| !here.is_same_file(&known.state))
                    && known.stays_on.iter().any(|node| owing.contains(node))
                    && !unfinished(*task)
            })
        };
        !owing.is_empty() && self.tasks.iter().any(is_waited_for)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::super::sample::State;
    use super::*;

    const HOME: NodeId = NodeId(0);
    const NODE: NodeId = NodeId(1);
    const OTHER: NodeId = NodeId(2);
    const FILE: TaskId = TaskId(7);

    type Files = Earlier<&'static str, &'static str, State>;

    fn expected(
        file: &'static str,
        task: Option<TaskId>,
        copy: bool,
    ) -> Expected<&'static str, State> {
        Expected { file, task, state: State(3, 10), copy }
    }

    /// `a` stayed on node `n`, and `b` is a copy there.
    fn earlier() -> Files {
        let mut files = Files::default();
        files.note("a", "n", State(2, 10), false);
        files.note("a", "n", State(3, 10), false);
        files.note("b", "m", State(3, 10), false);
        files.note("b", "n", State(3, 10), true);
        files
    }

    fn settled(file: TaskId, node: NodeId, state: State) -> Ledger<State> {
        let mut ledger = Ledger::default();
        ledger.settle(file, node, state);
        ledger
    }

    fn found(state: State, copy: bool) -> Found<State> {
        Found { task: FILE, node: NODE, state, copy }
    }

    #[test]
    fn a_new_node_is_asked_for_what_earlier_runs_noted_and_an_old_one_for_what_this_run_knows() {
        let mut files = earlier();
        let ledger = settled(FILE, NODE, State(3, 10));
        let name = |_| "c";
        let all = files.ask(NODE, &"n", &ledger, name);
        let own = expected("c", Some(FILE), false);
        assert_eq!(all, [own.clone(), expected("a", None, false), expected("b", None, true)]);
        assert!(files.is_owed_by(NODE, false));
        files.answered(NODE, Vec::new());
        files.join(NODE);
        assert!(!files.is_owed_by(NODE, true));
        assert_eq!(files.ask(NODE, &"n", &ledger, name), [own]);
        files.lose(NODE);
        assert!(!files.is_owed_by(NODE, true));
        assert_eq!(files.ask(OTHER, &"o", &ledger, name), []);
        assert!(!files.is_owed_by(OTHER, false), "there is no answer to wait for");
        assert!(files.is_owed_by(OTHER, true), "it may come");
    }

    #[test]
    fn what_a_node_has_no_more_is_not_found_when_its_task_is_defined() {
        let mut files = earlier();
        files.answered(NODE, vec![(expected("a", None, false), false)]);
        assert_eq!(files.define(&"a", FILE), []);
    }

    #[test]
    fn what_a_node_still_has_is_found_when_its_task_is_defined_or_at_once() {
        let mut files = earlier();
        assert_eq!(files.define(&"b", FILE), []);
        assert_eq!(files.define(&"unknown", TaskId(9)), []);
        let said = vec![
            (expected("a", None, false), true),
            (expected("b", None, true), true),
            (expected("c", Some(TaskId(1)), false), false),
            (expected("d", None, false), false),
        ];
        let answer = files.answered(NODE, said);
        assert_eq!(answer.gone, [TaskId(1)]);
        assert_eq!(answer.found, [found(State(3, 10), true)]);
        let late = Found { task: TaskId(8), ..found(State(3, 10), false) };
        assert_eq!(files.define(&"a", TaskId(8)), [late]);
        assert_eq!(files.define(&"a", TaskId(8)), [], "once");
    }

    #[test]
    fn of_a_node_that_comes_again_only_what_is_gone_is_news() {
        let mut files = earlier();
        files.join(NODE);
        let own = |task| expected("c", Some(TaskId(task)), false);
        let answer = files.answered(NODE, vec![(own(1), true), (own(2), false)]);
        assert_eq!(answer, Answer { gone: vec![TaskId(2)], found: Vec::new() });
    }

    #[test]
    fn an_invocation_waits_for_nodes_that_may_have_what_is_missing() {
        let mut files = earlier();
        let none = Ledger::default();
        let starting = [(NODE, NodeState::Starting, &"n"), (OTHER, NodeState::Up, &"o")];
        let waits = |files: &Files, ledger: &Ledger<State>, nodes: [(NodeId, NodeState, _); 2]| {
            files.is_waited_for(ledger, HOME, nodes.into_iter(), |_| false)
        };
        assert!(!waits(&files, &none, starting), "no task stands for it");
        files.define(&"a", FILE);
        assert!(waits(&files, &none, starting));
        assert!(!files.is_waited_for(&none, HOME, starting.into_iter(), |task| task == FILE));
        assert!(!files.is_waited_for(&none, NODE, starting.into_iter(), |_| false), "that is home");
        let lost = [(NODE, NodeState::Lost, &"n"), (OTHER, NodeState::Starting, &"o")];
        assert!(!waits(&files, &none, lost), "only who has it is waited for");
        let here = settled(FILE, HOME, State(3, 10));
        assert!(!waits(&files, &here, starting), "it is here");
        files.define(&"b", TaskId(8));
        assert!(!waits(&files, &here, starting), "there is a copy only");
        files.join(NODE);
        assert!(!waits(&files, &none, starting), "it has answered");
    }
}
