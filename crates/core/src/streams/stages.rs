//! Tasks that streams join over spools (`journal`, `atomic`): a reader's turn comes when all its writers have ended
//! well, and what has ended well is not run again while its spool is good, and so are those that it comes from. So all
//! readers of a stream have read the same.
//!
//! It does not know where spools lie, nor what begins and ends tasks: the shell reports, and asks whose turn it is.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use super::graph::StreamEnds;
use crate::ids::{NodeId, TaskId};

/// How a member is to run that the core has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Its streams go over spools.
    pub is_spooled: bool,
    /// Nothing is done, and nothing is in a spool.
    pub is_dry_run: bool,
    /// Its node, if no other node can read the spools there.
    pub alone_on: Option<NodeId>,
}

/// What becomes of a member that the core has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It begins at once.
    AtOnce,
    /// It waits for its turn.
    Waits,
    /// It has run already, and what it printed is in its spool: only those run again that read it, or did not end well.
    /// So it has ended well.
    HasRun,
}

/// The members of one component. `S` is what the shell needs to start one.
#[derive(Debug)]
pub struct Stages<S> {
    /// By member: the tasks whose spools it reads, in the order in which it reads them.
    sources: BTreeMap<TaskId, Vec<TaskId>>,
    /// By member: its place in rake's order, if the tasks that print for a task were its first prerequisites.
    rank: BTreeMap<TaskId, u32>,
    /// Members that have ended well, in this attempt or an earlier one, and whose spool has not been found bad. With a
    /// member all are here whose spools it has read.
    done: BTreeSet<TaskId>,
    /// By place and number: members that are to run, and whose turn has not come.
    waiting: BTreeMap<(u32, TaskId), S>,
    /// Of these: those for which [`Stages::next_turns`] has asked for room.
    asked: BTreeSet<TaskId>,
    /// Where the spools are, if no other node can read them and no member was lost since.
    spools_on: Option<NodeId>,
}

/// Places of members, of which the smallest number comes first, but for those that it reads from.
fn ranks(sources: &BTreeMap<TaskId, Vec<TaskId>>) -> BTreeMap<TaskId, u32> {
    let mut rank = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for root in sources.keys() {
        let mut stack = vec![(*root, false)];
        while let Some((member, is_left)) = stack.pop() {
            if is_left {
                let next = u32::try_from(rank.len()).expect("tasks have numbers");
                rank.insert(member, next);
            } else if seen.insert(member) {
                stack.push((member, true));
                let before = sources.get(&member).into_iter().flatten().rev();
                stack.extend(before.map(|writer| (*writer, false)));
            }
        }
    }
    rank
}

impl<S> Stages<S> {
    /// Members, none of which has run.
    pub fn new(members: &[TaskId], streams: &[StreamEnds]) -> Self {
        let sources_of = |member: &TaskId| {
            let read = streams.iter().filter(|stream| stream.readers.contains(member));
            let mut sources: Vec<TaskId> =
                read.flat_map(|stream| &stream.writers).copied().collect();
            sources.sort_unstable();
            sources
        };
        let sources = members.iter().map(|member| (*member, sources_of(member))).collect();
        let rank = ranks(&sources);
        let (done, waiting, asked) = (BTreeSet::new(), BTreeMap::new(), BTreeSet::new());
        Self { sources, rank, done, waiting, asked, spools_on: None }
    }

    fn key(&self, member: TaskId) -> (u32, TaskId) {
        (self.rank.get(&member).copied().unwrap_or(u32::MAX), member)
    }

    /// The tasks whose spools a member reads, one after the other.
    pub fn sources(&self, member: TaskId) -> &[TaskId] {
        self.sources.get(&member).map_or(&[], Vec::as_slice)
    }

    /// The core has begun a member. On another node than before all spools are out of reach, if only their own node can
    /// read them: all run again.
    pub fn begin(&mut self, member: TaskId, terms: Terms, start: S) -> Begun {
        if !terms.is_spooled || terms.is_dry_run {
            return Begun::AtOnce;
        }
        if terms.alone_on.is_some() && self.spools_on != terms.alone_on {
            self.spools_on = terms.alone_on;
            self.done.clear();
        }
        if self.want(member, start) { Begun::Waits } else { Begun::HasRun }
    }

    /// A member is to run. False if it has run already, and what it printed is in its spool.
    fn want(&mut self, member: TaskId, start: S) -> bool {
        if self.done.contains(&member) {
            return false;
        }
        self.waiting.insert(self.key(member), start);
        true
    }

    /// Whether a member is to run, and has not begun.
    pub fn is_waiting(&self, member: TaskId) -> bool {
        self.waiting.contains_key(&self.key(member))
    }

    /// Tasks that write for a member and have not ended well.
    pub fn missing(&self, member: TaskId) -> impl Iterator<Item = TaskId> {
        self.sources(member).iter().copied().filter(|writer| !self.done.contains(writer))
    }

    /// Whether all that write for a member have ended well.
    pub fn is_ready(&self, member: TaskId) -> bool {
        self.missing(member).next().is_none()
    }

    /// Members whose turn it is, in rake's order.
    pub fn ready(&self) -> impl Iterator<Item = (TaskId, &S)> {
        let waiting = self.waiting.iter().map(|((_, member), start)| (*member, start));
        waiting.filter(|(member, _)| self.is_ready(*member))
    }

    /// Members for which the shell is to ask for room now, in rake's order: each whose turn has come, once. `serial`:
    /// one at a time, and none while another member runs (`is_running`).
    pub fn next_turns(&mut self, serial: bool, is_running: bool) -> Vec<TaskId> {
        if serial && (is_running || !self.asked.is_empty()) {
            return Vec::new();
        }
        let ready = self.ready().map(|(member, _)| member);
        let new = ready.filter(|member| !self.asked.contains(member));
        let next: Vec<TaskId> = new.take(if serial { 1 } else { usize::MAX }).collect();
        self.asked.extend(next.iter().copied());
        next
    }

    /// Takes the next member whose turn it is.
    pub fn take_next(&mut self) -> Option<(TaskId, S)> {
        let (next, _) = self.ready().next()?;
        self.take(next).map(|start| (next, start))
    }

    /// A member does not wait any more, be it its turn or not.
    pub fn take(&mut self, member: TaskId) -> Option<S> {
        self.asked.remove(&member);
        self.waiting.remove(&self.key(member))
    }

    /// Members have ended well, and their spools are whole. One does not count that has read a
    /// spool which was found bad meanwhile. With the last one all begins anew; whether that was the last.
    pub fn on_ended_well(&mut self, members: impl IntoIterator<Item = TaskId>) -> bool {
        for member in members {
            if self.is_ready(member) {
                self.done.insert(member);
            }
        }
        let is_last = self.done.len() == self.sources.len();
        if is_last {
            self.done.clear();
        }
        is_last
    }

    /// The attempt of a member was lost with its node: it does not wait any more. Spools that were there alone are out
    /// of reach, whatever the node is called that comes next.
    pub fn on_lost(&mut self, member: TaskId) {
        self.take(member);
        self.spools_on = None;
    }

    /// The spool of a member is not what it was: the member runs again with the next attempt, and so do all that have
    /// read it, and what comes of it. What it prints then may be something else.
    pub fn on_spool_bad(&mut self, member: TaskId) {
        let mut stale = vec![member];
        while !stale.is_empty() {
            for member in stale {
                self.done.remove(&member);
            }
            stale = self.done.iter().copied().filter(|one| !self.is_ready(*one)).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASKS: [TaskId; 4] = [TaskId(0), TaskId(1), TaskId(2), TaskId(3)];

    /// 0 and 1 print what 2 reads; what that prints 3 reads.
    fn stages() -> Stages<()> {
        let [a, b, c, d] = TASKS;
        let first = StreamEnds { writers: vec![b, a], readers: vec![c] };
        let second = StreamEnds { writers: vec![c], readers: vec![d] };
        Stages::new(&TASKS, &[first, second])
    }

    fn next(stages: &mut Stages<()>) -> Vec<TaskId> {
        core::iter::from_fn(|| stages.take_next()).map(|(task, ())| task).collect()
    }

    #[test]
    fn a_reader_begins_when_all_its_writers_have_ended_well() {
        let [a, b, c, d] = TASKS;
        let mut stages = stages();
        assert!([d, c, b, a].into_iter().all(|task| stages.want(task, ())));
        assert_eq!(next(&mut stages), [a, b]);
        stages.on_ended_well([b]);
        assert_eq!(next(&mut stages), []);
        stages.on_ended_well([a]);
        assert_eq!((next(&mut stages), stages.sources(c)), (vec![c], &[a, b][..]));
    }

    #[test]
    fn room_is_asked_for_once_for_each_member_and_for_one_at_a_time_when_serial() {
        let [a, b, c, _] = TASKS;
        let mut stages = stages();
        assert!([c, b, a].into_iter().all(|task| stages.want(task, ())));
        assert_eq!(stages.next_turns(true, true), [], "another member runs");
        assert_eq!(stages.next_turns(true, false), [a]);
        assert_eq!(stages.next_turns(true, false), [], "there is no room for the first yet");
        assert_eq!(stages.next_turns(false, true), [b]);
        assert_eq!(stages.next_turns(false, true), []);
        assert!(stages.take(a).is_some() && stages.want(a, ()));
        assert_eq!(stages.next_turns(false, true), [a], "it is to run again");
    }

    #[test]
    fn what_has_ended_well_runs_again_only_when_its_spool_is_bad_or_all_was_done() {
        let [a, b, c, d] = TASKS;
        let mut stages = stages();
        stages.on_ended_well([a, b, c]);
        assert!(!stages.want(a, ()) && !stages.want(c, ()) && stages.is_ready(d));
        stages.on_spool_bad(c);
        assert!(stages.want(c, ()) && !stages.want(a, ()) && !stages.is_ready(d));
        assert!(stages.want(d, ()));
        assert_eq!((next(&mut stages), stages.take(d)), (vec![c], Some(())));
        assert!(stages.on_ended_well([c, d]));
        assert!(stages.want(a, ()));
    }

    /// Over spools that all nodes can read, or only this one.
    fn over_spools(alone_on: Option<NodeId>) -> Terms {
        Terms { is_spooled: true, is_dry_run: false, alone_on }
    }

    #[test]
    fn a_member_waits_for_its_turn_only_where_spools_are_written() {
        let [a, ..] = TASKS;
        for (is_spooled, is_dry_run) in [(false, false), (true, true), (false, true)] {
            let mut stages = stages();
            stages.on_ended_well([a]);
            let terms = Terms { is_spooled, is_dry_run, alone_on: Some(NodeId(1)) };
            assert_eq!(stages.begin(a, terms, ()), Begun::AtOnce);
            assert!(!stages.is_waiting(a));
        }
        let mut stages = stages();
        assert_eq!(stages.begin(a, over_spools(None), ()), Begun::Waits);
        assert!(stages.is_waiting(a));
        assert!(stages.take(a).is_some());
        stages.on_ended_well([a]);
        assert_eq!(stages.begin(a, over_spools(None), ()), Begun::HasRun);
        assert!(!stages.is_waiting(a));
    }

    #[test]
    fn on_another_node_all_run_again_if_spools_can_be_read_where_they_are_alone() {
        let [a, b, c, _] = TASKS;
        let [here, there] = [1, 2].map(|node| over_spools(Some(NodeId(node))));
        let mut stages = stages();
        assert_eq!(stages.begin(a, here, ()), Begun::Waits);
        assert!(!stages.on_ended_well([a, b]));
        assert_eq!(stages.begin(a, here, ()), Begun::HasRun);
        assert!([c, b, a].into_iter().all(|task| stages.begin(task, there, ()) == Begun::Waits));
        assert_eq!(next(&mut stages), [a, b]);
        stages.on_ended_well([a, b]);
        assert_eq!(stages.begin(b, there, ()), Begun::HasRun);
        assert_eq!(stages.begin(b, over_spools(None), ()), Begun::HasRun);
    }

    #[test]
    fn after_a_loss_spools_on_a_node_of_the_same_number_are_not_those_that_were_there() {
        let [a, b, c, _] = TASKS;
        for (terms, again) in
            [(over_spools(Some(NodeId(1))), Begun::Waits), (over_spools(None), Begun::HasRun)]
        {
            let mut stages = stages();
            stages.begin(c, terms, ());
            stages.on_ended_well([a, b]);
            stages.on_lost(c);
            assert!(!stages.is_waiting(c));
            assert_eq!([a, c].map(|task| stages.begin(task, terms, ())), [again, Begun::Waits]);
        }
    }

    #[test]
    fn turns_come_in_rakes_order_in_which_writers_stand_before_their_readers() {
        let [a, b, c, d] = TASKS;
        // The first reads what the last prints; the others have nothing to do with that.
        let first = StreamEnds { writers: vec![d], readers: vec![a] };
        let second = StreamEnds { writers: vec![b], readers: vec![c] };
        let mut stages = Stages::new(&TASKS, &[first, second]);
        assert!(TASKS.into_iter().all(|task| stages.want(task, ())));
        let mut order = Vec::new();
        while let Some((task, ())) = stages.take_next() {
            order.push(task);
            stages.on_ended_well([task]);
        }
        assert_eq!(order, [d, a, b, c]);
    }

    /// 0 prints what 1 and 2 read; what 1 prints 3 reads.
    fn forked() -> Stages<()> {
        let [a, b, c, d] = TASKS;
        let first = StreamEnds { writers: vec![a], readers: vec![b, c] };
        let second = StreamEnds { writers: vec![b], readers: vec![d] };
        Stages::new(&TASKS, &[first, second])
    }

    #[test]
    fn with_a_bad_spool_all_run_again_that_have_read_it_and_what_came_of_it() {
        let [a, b, c, d] = TASKS;
        let mut stages = forked();
        stages.on_ended_well([a]);
        stages.on_ended_well([b]);
        stages.on_ended_well([d]);
        stages.on_spool_bad(a);
        assert!([d, c, b, a].into_iter().all(|task| stages.want(task, ())));
        assert_eq!(next(&mut stages), [a]);
        stages.on_ended_well([a]);
        assert_eq!(next(&mut stages), [b, c]);
    }

    #[test]
    fn who_ends_well_after_what_it_has_read_was_found_bad_runs_again() {
        let [a, b, c, d] = TASKS;
        let mut stages = forked();
        stages.on_ended_well([a]);
        stages.on_spool_bad(a);
        stages.on_ended_well([c]);
        stages.on_ended_well([a]);
        assert!(stages.want(c, ()) && !stages.want(a, ()));
        // With the first end of c all would count as done now.
        stages.on_ended_well([b, d]);
        assert!(stages.want(c, ()) && !stages.want(d, ()));
    }
}
