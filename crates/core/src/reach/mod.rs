//! Which files can be read where servers of their own hand them out (Gfarm), and which failures are
//! due to one that cannot.
//!
//! A server may be gone while its node's agent is there, and the other way round. So servers are
//! asked: when an agent was lost (about files that lie there), when an action failed (about its
//! inputs and what lies behind them; the failure waits for the answers), and about what is out of
//! reach when a node comes or a task waits for it. One round of questions is under way at a time;
//! what comes up meanwhile is asked in the next. `docs/design/reach.md` tells the states, and
//! what follows from answers.
//!
//! Pure: the shell asks, and says what was answered. How that is found out, names, texts and clocks
//! are the shell's; what is made again is the scheduler's.

mod behind;
mod failures;
mod places;
#[cfg(test)]
mod tests;
mod unresponsive;
mod view;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::mem;

pub use behind::files_behind;
pub use places::KnownPlaces;
pub use view::{FilePlaces, ReachView};

use crate::event::Event;
use crate::fact::Places;
use crate::ids::{HostId, NodeId, TaskId};
use crate::time::Time;
use failures::Failures;
use unresponsive::Unresponsive;

/// Maximum number of files of a lost node that are asked about at first; all of them once one of these is out of reach.
const SAMPLE: usize = 16;
/// Time between two questions about what is waited for.
const AGAIN_NS: u64 = 5_000_000_000;
/// Timeout for an input that nothing makes.
const WAIT_NS: u64 = 60_000_000_000;
/// Time after a loss in which all files behind the inputs of a failed action are asked about; at
/// other times one of each node is.
const TROUBLE_NS: u64 = 600_000_000_000;

/// Whether a file can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// These hosts hand it out.
    Hosts(Vec<HostId>),
    /// No host does.
    Nowhere,
    /// The catalogue does not say.
    Unknown,
}

/// What happened outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReachInput {
    /// An action failed. Without an `Attribute` in return there is nothing to find out about it.
    ActionFailed {
        /// Whose.
        id: TaskId,
        /// Where.
        node: NodeId,
        /// When its attempt began.
        began: Time,
        /// The scheduler had it end.
        told_to_end: bool,
    },
    /// The scheduler wants an action to end that has failed already.
    FailedTold {
        /// Whose.
        id: TaskId,
    },
    /// A round of questions was answered.
    Answered {
        /// The number of the round, from `Ask`.
        round: u32,
        /// What was found out of each file.
        files: Vec<(TaskId, Reach)>,
        /// Hosts that the catalogue names and that do not hand out what they have, each with a file
        /// that it was asked for.
        unresponsive: BTreeMap<HostId, TaskId>,
    },
    /// In a round of questions nothing could be found out.
    Unanswered {
        /// The number of the round, from `Ask`.
        round: u32,
    },
    /// The effects up to `Continue` have been performed.
    Continued,
    /// An agent is gone, and the scheduler knows it. Some of its files show whether its host's server
    /// is gone, too.
    NodeLost {
        /// Which.
        id: NodeId,
    },
    /// A node has come: what was out of reach may be there with it. If it was lost, its files may
    /// have gone with its disk meanwhile.
    NodeJoined {
        /// Which.
        id: NodeId,
    },
    /// The catalogue says that no host that is up holds a file.
    HeldByNone {
        /// Whose.
        id: TaskId,
    },
    /// A task waits for a file that nothing makes.
    InputAwaited {
        /// Whose file.
        id: TaskId,
    },
    /// A task begins that makes a file. When this has been handled, the shell takes the file to be at no place.
    MakingBegan {
        /// Which.
        id: TaskId,
    },
    /// It is `due_ns`, or later.
    TimeCame,
    /// The user wants the run to end: whose fault a failure is no longer matters.
    StopRequested,
    /// The run is over: no answer is waited for.
    RunEnded,
}

/// What the shell is to do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReachEffect {
    /// Find out of these files whether they can be read, and answer `Answered` or `Unanswered`.
    Ask {
        /// The number of the round.
        round: u32,
        /// Which.
        files: Vec<TaskId>,
    },
    /// The failure of an attempt waits: it is in the state `Attributing` from now on.
    Attribute {
        /// Whose.
        id: TaskId,
    },
    /// End a failed attempt: what it failed over is known, as far as it can be.
    PassOn {
        /// Whose.
        id: TaskId,
    },
    /// Hosts hand a file out: note where it is.
    HandedOut {
        /// Whose.
        id: TaskId,
        /// Which hosts.
        hosts: Vec<HostId>,
    },
    /// Files that were out of reach are handed out, as has been noted: tell the scheduler the places of all at once
    /// (`FilesFound`).
    Back {
        /// Whose.
        files: Vec<TaskId>,
    },
    /// Tell the scheduler.
    Event(Event<'static>),
    /// Remove the name of a file that is out of reach, since writing to it would ask the
    /// unresponsive host; it is known to be nowhere.
    FreeName {
        /// Whose.
        id: TaskId,
    },
    /// Tell the user.
    Warn(ReachWarning),
    /// Answer `Continued` when all before this has been performed: what is decided next goes by what has come of it.
    Continue,
}

/// What the shell tells users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReachWarning {
    /// Nothing can be found out (said once).
    CannotAsk,
    /// Files are out of reach.
    OutOfReach {
        /// Which.
        files: Vec<TaskId>,
        /// Hosts that do not answer.
        unresponsive: Vec<HostId>,
    },
    /// A file that nothing makes is out of reach, and waited for.
    InputAwaited {
        /// Which.
        id: TaskId,
        /// Maximum time that it is waited for.
        wait_ns: u64,
    },
    /// It was waited for in vain.
    InputGivenUp {
        /// Which.
        id: TaskId,
        /// Time that it was waited for.
        wait_ns: u64,
    },
    /// An action failed while hosts do not answer; it, and others that do so, wait for the end of that.
    FailureDeferred {
        /// Which.
        id: TaskId,
        /// Hosts that do not answer.
        unresponsive: Vec<HostId>,
    },
}

/// What is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing.
    Idle,
    /// A round of questions.
    Asking,
    /// Its answers are in: these files are out of reach since then.
    Searching { lost: Vec<TaskId>, unresponsive: Vec<HostId> },
    /// What follows for failures is decided, one by one.
    Attributing,
    /// The run is over: failures are passed on, one by one, and nothing more is asked.
    Over,
}

/// Which files are out of reach, which failures wait for an answer, and the round of questions under way.
#[derive(Debug)]
pub struct Reachability {
    /// Files are handed out by servers of their own. If not, nothing happens here.
    is_on: bool,
    /// The user wants the run to end.
    stopping: bool,
    stage: Stage,
    /// Rounds so far: the number of the last one.
    rounds: u32,
    /// Files that are being made again since the round under way began: what it finds is of the old ones.
    begun: BTreeSet<TaskId>,
    /// To be asked about in the next round.
    wanted: BTreeSet<TaskId>,
    failures: Failures,
    /// Hosts that do not answer.
    unresponsive: Unresponsive,
    /// Files that no host hands out.
    lost: BTreeSet<TaskId>,
    /// Until when files were so that are no more: back, or made again.
    lost_until_ns: BTreeMap<TaskId, u64>,
    /// When an agent was lost last, or a host was unresponsive.
    trouble_ns: Option<u64>,
    /// Files that nothing makes and that tasks wait for, with the time when they are given up.
    awaited: BTreeMap<TaskId, u64>,
    /// When what is waited for is asked about again.
    again_ns: u64,
    /// Nodes that were lost and have not come again.
    absent: BTreeSet<NodeId>,
    /// Nodes whose files have all been asked about since they came.
    searched: BTreeSet<NodeId>,
    /// Users have had the warning that nothing can be found out.
    complained: bool,
}

impl Reachability {
    /// `is_on`: files are handed out by servers of their own.
    pub fn new(is_on: bool) -> Self {
        Self {
            is_on,
            stopping: false,
            stage: Stage::Idle,
            rounds: 0,
            begun: BTreeSet::new(),
            wanted: BTreeSet::new(),
            failures: Failures::default(),
            unresponsive: Unresponsive::default(),
            lost: BTreeSet::new(),
            lost_until_ns: BTreeMap::new(),
            trouble_ns: None,
            awaited: BTreeMap::new(),
            again_ns: 0,
            absent: BTreeSet::new(),
            searched: BTreeSet::new(),
            complained: false,
        }
    }

    /// Whether a file is known to be out of reach.
    pub fn is_lost(&self, id: TaskId) -> bool {
        self.lost.contains(&id)
    }

    /// When `TimeCame` is due, by the clock of `now`.
    pub fn due_ns(&self) -> Option<u64> {
        let waits = !self.awaited.is_empty() || self.failures.is_any_deferred();
        (waits && self.stage == Stage::Idle).then_some(self.again_ns)
    }

    /// Hosts for which a failed task waits.
    pub fn waits_for(&self, id: TaskId) -> Option<Vec<HostId>> {
        self.failures.is_deferred(id).then(|| self.unresponsive.hosts().collect())
    }

    /// Attempts that failed on a node that is lost went with it: nothing more is to be found out about them.
    pub(crate) fn take_failures_on(&mut self, node: NodeId) -> Vec<TaskId> {
        self.failures.take_on(node)
    }

    /// Takes in what happened, and adds what the shell does then to `out`, in the order in which it does so.
    pub fn handle<P: FilePlaces>(
        &mut self,
        now: Time,
        input: ReachInput,
        view: &ReachView<'_, P>,
        out: &mut Vec<ReachEffect>,
    ) {
        if !self.is_on {
            if let ReachInput::FailedTold { id } = input {
                out.push(ReachEffect::PassOn { id });
            }
            return;
        }
        match input {
            ReachInput::ActionFailed { id, node, began, told_to_end } => {
                if !told_to_end && !self.stopping {
                    self.hold(now, (id, node, began), view, out);
                }
            }
            ReachInput::FailedTold { id } => {
                self.failures.forget(id);
                out.push(ReachEffect::PassOn { id });
            }
            ReachInput::Answered { round, files, unresponsive } => {
                if self.end_round(round) {
                    self.take_answers(now, files, &unresponsive, view, out);
                }
            }
            ReachInput::Unanswered { round } => {
                if self.end_round(round) {
                    if !mem::replace(&mut self.complained, true) {
                        out.push(ReachEffect::Warn(ReachWarning::CannotAsk));
                    }
                    self.attribute_next(now, view, out);
                }
            }
            ReachInput::Continued => self.go_on(now, view, out),
            ReachInput::NodeLost { id } => self.on_node_lost(now, id, view, out),
            ReachInput::NodeJoined { id } => {
                self.wanted.extend(self.lost.iter().copied());
                if self.absent.remove(&id) {
                    self.want_sample(id, view);
                }
                self.ask_next(view, out);
            }
            ReachInput::HeldByNone { id } => {
                if self.lost.insert(id) {
                    out.push(out_of_reach(id));
                }
            }
            ReachInput::InputAwaited { id } => self.await_input(now, id, view, out),
            ReachInput::MakingBegan { id } => self.make_room_for(now, id, view, out),
            ReachInput::TimeCame => self.ask_again(now, view, out),
            ReachInput::StopRequested => self.stopping = true,
            ReachInput::RunEnded => {
                self.stage = Stage::Over;
                self.failures.ask_all();
                self.pass_next_on(view, out);
            }
        }
    }

    /// Whether this is the round that is under way.
    fn end_round(&mut self, round: u32) -> bool {
        let is_current = self.stage == Stage::Asking && round == self.rounds;
        if is_current {
            self.stage = Stage::Attributing;
        }
        is_current
    }

    fn go_on<P: FilePlaces>(
        &mut self,
        now: Time,
        view: &ReachView<'_, P>,
        out: &mut Vec<ReachEffect>,
    ) {
        match mem::replace(&mut self.stage, Stage::Attributing) {
            Stage::Searching { lost, unresponsive } => {
                self.tell_lost(lost, unresponsive, view, out);
            }
            Stage::Attributing => self.attribute_next(now, view, out),
            Stage::Over => {
                self.stage = Stage::Over;
                self.pass_next_on(view, out);
            }
            before @ (Stage::Idle | Stage::Asking) => self.stage = before,
        }
    }

    /// A file is out of reach no more. Whether it was.
    fn end_loss(&mut self, id: TaskId, now: Time) -> bool {
        let was_lost = self.lost.remove(&id);
        if was_lost {
            self.lost_until_ns.insert(id, now.0);
        }
        was_lost
    }

    fn is_in_trouble(&self, now: Time) -> bool {
        let is_recent = |ns: u64| now.0.saturating_sub(ns) < TROUBLE_NS;
        !self.lost.is_empty() || self.trouble_ns.is_some_and(is_recent)
    }

    /// Begins a round if there is something to ask and none is under way.
    fn ask_next<P: FilePlaces>(&mut self, view: &ReachView<'_, P>, out: &mut Vec<ReachEffect>) {
        let is_any_held = self.failures.is_any_held();
        if self.stage != Stage::Idle || (self.wanted.is_empty() && !is_any_held) {
            return;
        }
        if is_any_held {
            // An action may have failed because it had to write to an unresponsive host.
            let is_readable = |id| view.is_kept(id) && !self.is_lost(id) && !view.is_being_made(id);
            self.wanted.extend(view.one_on_each_node(SAMPLE, is_readable));
        }
        // What is being made is at no place yet.
        let files = mem::take(&mut self.wanted).into_iter().filter(|id| !view.is_being_made(*id));
        let files = files.collect();
        self.begun.clear();
        self.failures.ask_held();
        self.stage = Stage::Asking;
        self.rounds += 1;
        out.push(ReachEffect::Ask { round: self.rounds, files });
    }

    fn take_answers<P: FilePlaces>(
        &mut self,
        now: Time,
        mut files: Vec<(TaskId, Reach)>,
        unresponsive: &BTreeMap<HostId, TaskId>,
        view: &ReachView<'_, P>,
        out: &mut Vec<ReachEffect>,
    ) {
        // What the catalogue does not know tells nothing of a host.
        let (unknown, known): (Vec<_>, Vec<_>) =
            files.iter().partition(|(_, reach)| *reach == Reach::Unknown);
        let asked: BTreeSet<TaskId> = known.into_iter().map(|(id, _)| *id).collect();
        let hands_out = |(_, reach): &(TaskId, Reach)| match reach {
            Reach::Hosts(hosts) => hosts.clone(),
            Reach::Nowhere | Reach::Unknown => Vec::new(),
        };
        let answer: BTreeSet<HostId> = files.iter().flat_map(hands_out).collect();
        self.unresponsive.note(|id| asked.contains(&id), &answer, unresponsive, now.0);
        for (id, _) in unknown {
            self.tell_by_another(*id, view);
        }
        if !unresponsive.is_empty() && self.unresponsive.is_young(now.0) {
            self.trouble_ns = Some(now.0);
        }
        files.retain(|(id, _)| !self.begun.contains(id));
        let (mut lost, mut back) = (Vec::new(), Vec::new());
        for (id, reach) in files {
            match reach {
                Reach::Nowhere if self.lost.insert(id) => lost.push(id),
                Reach::Hosts(hosts) => {
                    out.push(ReachEffect::HandedOut { id, hosts });
                    if self.is_back(id, now) {
                        back.push(id);
                    }
                }
                Reach::Nowhere | Reach::Unknown => {}
            }
        }
        if !back.is_empty() {
            out.push(ReachEffect::Back { files: back });
        }
        if !lost.is_empty() {
            self.stage =
                Stage::Searching { lost, unresponsive: unresponsive.keys().copied().collect() };
        }
        out.push(ReachEffect::Continue);
    }

    /// Files are out of reach that were not: others of their nodes may be so, too.
    fn tell_lost<P: FilePlaces>(
        &mut self,
        lost: Vec<TaskId>,
        unresponsive: Vec<HostId>,
        view: &ReachView<'_, P>,
        out: &mut Vec<ReachEffect>,
    ) {
        let nodes: BTreeSet<NodeId> =
            lost.iter().flat_map(|id| view.places.places_of(*id).as_slice().to_vec()).collect();
        for node in nodes {
            if self.searched.insert(node) {
                let files: Vec<TaskId> = self.files_on(node, view).collect();
                self.wanted.extend(files);
            }
        }
        out.push(ReachEffect::Warn(ReachWarning::OutOfReach { files: lost.clone(), unresponsive }));
        out.extend(lost.into_iter().map(out_of_reach));
        out.push(ReachEffect::Continue);
    }

    /// Files that lie on a node only, as far as is known, and are not known to be out of reach.
    fn files_on<P: FilePlaces>(
        &self,
        node: NodeId,
        view: &ReachView<'_, P>,
    ) -> impl Iterator<Item = TaskId> {
        view.kept_only_on(node).filter(|id| !self.is_lost(*id))
    }

    fn on_node_lost<P: FilePlaces>(
        &mut self,
        now: Time,
        node: NodeId,
        view: &ReachView<'_, P>,
        out: &mut Vec<ReachEffect>,
    ) {
        if self.stopping {
            return;
        }
        self.trouble_ns = Some(now.0);
        self.absent.insert(node);
        self.searched.remove(&node);
        self.want_sample(node, view);
        self.ask_next(view, out);
    }

    /// Some files of a node that was lost are to tell of all of them.
    fn want_sample<P: FilePlaces>(&mut self, node: NodeId, view: &ReachView<'_, P>) {
        let files = self.files_on(node, view).filter(|id| !view.is_being_made(*id));
        let files: Vec<TaskId> = files.take(SAMPLE).collect();
        self.wanted.extend(files);
    }

    /// A file can be read. Whether it was out of reach, or is waited for.
    fn is_back(&mut self, id: TaskId, now: Time) -> bool {
        let was_awaited = self.awaited.remove(&id).is_some();
        self.end_loss(id, now) || was_awaited
    }

    /// A file may be back by the time at which the shell says that the scheduler wants it. Nobody waits for that one.
    fn await_input<P: FilePlaces>(
        &mut self,
        now: Time,
        id: TaskId,
        view: &ReachView<'_, P>,
        out: &mut Vec<ReachEffect>,
    ) {
        if !self.is_lost(id) && !view.is_waited_for(id) {
            return;
        }
        self.awaited.insert(id, now.0 + WAIT_NS);
        self.again_ns = now.0 + AGAIN_NS;
        if self.is_lost(id) {
            out.push(ReachEffect::Warn(ReachWarning::InputAwaited { id, wait_ns: WAIT_NS }));
        }
    }

    /// Asks again about what is waited for, when it is time.
    fn ask_again<P: FilePlaces>(
        &mut self,
        now: Time,
        view: &ReachView<'_, P>,
        out: &mut Vec<ReachEffect>,
    ) {
        if self.due_ns().is_some_and(|due_ns| due_ns <= now.0) {
            self.again_ns = now.0 + AGAIN_NS;
            self.wanted.extend(self.awaited.keys().copied());
            if self.failures.is_any_deferred() {
                self.wanted.extend(self.unresponsive.files());
            }
            if self.wanted.is_empty() {
                // No file tells of the unresponsive host now: what waits for it does so for a time.
                self.stage = Stage::Attributing;
                self.attribute_next(now, view, out);
            } else {
                self.ask_next(view, out);
            }
        }
    }

    fn give_up_inputs(&mut self, now: Time, out: &mut Vec<ReachEffect>) {
        let over = |(_, due_ns): &(&TaskId, &u64)| **due_ns <= now.0;
        let given_up: Vec<TaskId> = self.awaited.iter().filter(over).map(|(id, _)| *id).collect();
        for id in given_up {
            self.awaited.remove(&id);
            out.push(ReachEffect::Warn(ReachWarning::InputGivenUp { id, wait_ns: WAIT_NS }));
            out.push(ReachEffect::Event(Event::FileGivenUp { id }));
        }
    }

    fn make_room_for<P: FilePlaces>(
        &mut self,
        now: Time,
        id: TaskId,
        view: &ReachView<'_, P>,
        out: &mut Vec<ReachEffect>,
    ) {
        if self.stage == Stage::Asking {
            self.begun.insert(id);
        }
        self.tell_by_another(id, view);
        if self.end_loss(id, now) {
            out.push(ReachEffect::FreeName { id });
        }
    }

    /// A file no longer tells of its host: another one of that node does, if there is one.
    fn tell_by_another<P: FilePlaces>(&mut self, id: TaskId, view: &ReachView<'_, P>) {
        if !self.unresponsive.files().any(|file| file == id) {
            return;
        }
        let places = view.places.places_of(id);
        let first = places.as_slice().first();
        let tells = |other: &TaskId| *other != id && !view.is_being_made(*other);
        let other = first.and_then(|node| view.kept_only_on(*node).find(tells));
        self.unresponsive.replace_file(id, other);
    }
}

fn out_of_reach(id: TaskId) -> ReachEffect {
    ReachEffect::Event(Event::PlacesFound { id, places: Places::Nowhere })
}
