//! Which files in Gfarm can be read. There a file is handed out by its host's gfsd, not by our agents: one may be gone and the other there.
//!
//! Asked when an agent was lost (about files that lie there), when an action failed (about its inputs and what lies behind them; its end is passed
//! on afterwards), and about what is out of reach when a node comes or a task waits for it. One round of questions is under way at a time; what comes up meanwhile is
//! asked in the next. How it is found out is `rakuda_locate::reach`'s business; what is made again is the core's.

mod silence;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use rakuda_agent::clock;
use rakuda_core::{Event, NodeId, Places, TaskId, TaskKind};
use rakuda_locate::{GfarmMount, Reach, Reached, gfarm_mount};
use rakuda_proto::front::ActionOutcome;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use self::silence::{EXCUSES_NS, Silence};
use crate::hub::{Hub, RunningAttempt};

/// Of a lost node so many files are asked about at first; all of them once one of these is out of reach.
const SAMPLE: usize = 16;
/// Time between two questions about inputs that tasks wait for.
const AGAIN_NS: u64 = 5_000_000_000;
/// A file that nothing makes is waited for so long.
const WAIT_NS: u64 = 60_000_000_000;
/// A warning names so many files.
const NAMED: usize = 3;
/// Files behind the inputs of a failed action, at most; the nearest ones.
const BEHIND_MAX: usize = 1000;
/// So many tasks are walked over to find them.
const STEPS_MAX: usize = 10_000;
/// So long after a loss all of them are asked about; at other times one of each node is.
const TROUBLE_NS: u64 = 600_000_000_000;

/// An action that failed: perhaps it could not read its input, or not write.
#[derive(Debug)]
struct Failure {
    id: TaskId,
    attempt: RunningAttempt,
    outcome: ActionOutcome,
    message: Vec<u8>,
    /// Files that its inputs are made of, through any number of tasks: it may read them without naming them.
    behind: Vec<TaskId>,
    /// All of `behind` are asked about.
    in_full: bool,
    /// Since when it waits for a host that is silent, by the monotonic clock.
    deferred_ns: Option<u64>,
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Reachability {
    /// `None`: the run's folder is not in Gfarm, or there is one node only.
    mount: Option<GfarmMount>,
    sender: UnboundedSender<Result<Reached, String>>,
    answers: UnboundedReceiver<Result<Reached, String>>,
    /// A round is under way.
    asking: bool,
    /// To be asked about in the next round.
    wanted: BTreeSet<TaskId>,
    /// Failures that the round under way is about.
    asked: Vec<Failure>,
    /// Those that the next one is about.
    held: Vec<Failure>,
    /// Hosts that do not answer.
    silence: Silence,
    /// Failures that may be due to that: they are passed on when it is over.
    deferred: Vec<Failure>,
    /// Files that no host hands out.
    lost: BTreeSet<TaskId>,
    /// When a file was found to be so last, also of those that are no more; by the monotonic clock.
    lost_ns: BTreeMap<TaskId, u64>,
    /// When an agent was lost last, or a host was silent.
    trouble_ns: Option<u64>,
    /// Those of `lost` that tasks wait for since nothing makes them, with the time when they are given up.
    awaited: BTreeMap<TaskId, u64>,
    /// When these are asked about again.
    again_ns: u64,
    /// Nodes whose files have all been asked about since they came.
    searched: BTreeSet<NodeId>,
    /// It was said that nothing can be found out.
    complained: bool,
}

impl Reachability {
    pub fn new(mount: Option<GfarmMount>) -> Self {
        let (sender, answers) = unbounded_channel();
        Self {
            mount,
            sender,
            answers,
            asking: false,
            wanted: BTreeSet::new(),
            asked: Vec::new(),
            held: Vec::new(),
            silence: Silence::default(),
            deferred: Vec::new(),
            lost: BTreeSet::new(),
            lost_ns: BTreeMap::new(),
            trouble_ns: None,
            awaited: BTreeMap::new(),
            again_ns: 0,
            searched: BTreeSet::new(),
            complained: false,
        }
    }

    /// Whether a file is known to be out of reach.
    pub fn is_lost(&self, id: TaskId) -> bool {
        self.lost.contains(&id)
    }

    /// The answers of the round under way; for ever when there is none.
    pub async fn answered(&mut self) -> Result<Reached, String> {
        match self.answers.recv().await {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }

    /// When something is to be asked again.
    pub fn due_ns(&self) -> Option<u64> {
        let waits = !self.awaited.is_empty() || !self.deferred.is_empty();
        (waits && !self.asking).then_some(self.again_ns)
    }

    fn set_lost(&mut self, id: TaskId) -> bool {
        self.lost_ns.insert(id, clock::monotonic_ns());
        self.lost.insert(id)
    }

    fn is_in_trouble(&self) -> bool {
        let is_recent = |ns: u64| clock::monotonic_ns().saturating_sub(ns) < TROUBLE_NS;
        !self.lost.is_empty() || self.trouble_ns.is_some_and(is_recent)
    }

    /// Whether an agent was lost, or a host silent, while an attempt ran that began then.
    fn was_in_trouble_since(&self, started_ns: u64) -> bool {
        self.trouble_ns.is_some_and(|ns| ns >= started_ns)
    }

    /// Whether an attempt that began then may have lacked a file.
    fn was_lost_since(&self, id: TaskId, started_ns: u64) -> bool {
        self.is_lost(id) || self.lost_ns.get(&id).is_some_and(|ns| *ns >= started_ns)
    }

    /// Failures on a node that is lost are none: nothing is asked about them any more.
    fn take_failures_on(&mut self, node: NodeId) -> Vec<(TaskId, RunningAttempt)> {
        let on_it = |failure: &mut Failure| failure.attempt.node == node;
        let asked = self.asked.extract_if(.., on_it);
        let held = self.held.extract_if(.., on_it);
        let deferred = self.deferred.extract_if(.., on_it);
        asked.chain(held).chain(deferred).map(|failure| (failure.id, failure.attempt)).collect()
    }
}

/// The mount, where files are handed out by other hosts than this one.
pub(crate) fn mount_of(directory: &std::path::Path, several: bool) -> Option<GfarmMount> {
    several.then(|| gfarm_mount(directory)).flatten()
}

impl Hub {
    /// An action failed: what it was to read is looked at first. Gives it back when there is nothing to look at.
    pub(crate) fn hold_failure(
        &mut self,
        id: TaskId,
        attempt: RunningAttempt,
        outcome: ActionOutcome,
        message: &[u8],
    ) -> Option<RunningAttempt> {
        let is_other = attempt.given_back || attempt.aborted || self.stopping.is_stopping();
        if self.reach.mount.is_none() || is_other {
            return Some(attempt);
        }
        let inputs: Vec<TaskId> =
            self.scheduler.inputs(id).filter(|id| self.is_kept(*id)).collect();
        let mut behind = self.files_behind(id);
        behind.retain(|id| self.is_kept(*id));
        // It may have read nothing, and have been to write to a host that is silent.
        if inputs.is_empty() && behind.is_empty() && !self.inputs.knows_any() {
            return Some(attempt);
        }
        let in_full = self.reach.is_in_trouble();
        let asked = if in_full { behind.clone() } else { self.one_on_each(&behind) };
        self.reach.wanted.extend(inputs.into_iter().chain(asked));
        let message = message.to_vec();
        let deferred_ns = None;
        self.reach.held.push(Failure {
            id,
            attempt,
            outcome,
            message,
            behind,
            in_full,
            deferred_ns,
        });
        self.ask_next();
        None
    }

    /// Files of this run that the inputs of a task are made of, the nearest first. What nothing makes is not among them: it would only be waited for.
    pub(crate) fn files_behind(&self, id: TaskId) -> Vec<TaskId> {
        let mut walk: VecDeque<TaskId> = self.scheduler.inputs(id).collect();
        let mut seen: BTreeSet<TaskId> = walk.iter().copied().collect();
        let mut behind = Vec::new();
        while let Some(next) = walk.pop_front() {
            for other in self.scheduler.inputs(next) {
                if seen.len() >= STEPS_MAX || behind.len() >= BEHIND_MAX {
                    return behind;
                }
                if seen.insert(other) {
                    walk.push_back(other);
                    let task = self.scheduler.task(other);
                    if task.is_some_and(|task| task.kind == TaskKind::File && task.has_action) {
                        behind.push(other);
                    }
                }
            }
        }
        behind
    }

    /// A file of each node that is known to have some, and one of those of which that is not known.
    fn one_on_each(&self, files: &[TaskId]) -> Vec<TaskId> {
        let mut nodes = BTreeSet::new();
        let is_first = |id: &&TaskId| nodes.insert(self.inputs.places_of(**id).as_slice().to_vec());
        files.iter().filter(is_first).copied().collect()
    }

    /// A file whose bytes some gfsd keeps. One without bytes is read without it.
    fn is_kept(&self, id: TaskId) -> bool {
        let task = self.scheduler.task(id);
        task.is_some_and(|task| task.kind == TaskKind::File && task.bytes > 0)
    }

    /// Begins a round if there is something to ask and none is under way.
    fn ask_next(&mut self) {
        if self.reach.asking || (self.reach.wanted.is_empty() && self.reach.held.is_empty()) {
            return;
        }
        if !self.reach.held.is_empty() {
            let is_readable = |id| self.is_kept(id) && !self.reach.is_lost(id);
            let elsewhere = self.inputs.one_on_each(SAMPLE, is_readable);
            self.reach.wanted.extend(elsewhere);
        }
        let reach = &mut self.reach;
        let Some(mount) = &reach.mount else { return };
        let (names, directory) = (&self.names, &self.settings.directory);
        let question = |id: TaskId| {
            let path = mount.path_of(&directory.join(OsStr::from_bytes(names.name(id))))?;
            Some((id.0, path.into_os_string().into_vec()))
        };
        let wanted = std::mem::take(&mut reach.wanted);
        let questions: Vec<_> = wanted.into_iter().filter_map(question).collect();
        reach.asked.append(&mut reach.held);
        reach.asking = true;
        let sender = reach.sender.clone();
        tokio::task::spawn_local(async move {
            // The hub is gone only when the run is over.
            let _ = sender.send(rakuda_locate::reach(&questions).await);
        });
    }

    /// Takes the answers of a round.
    pub(crate) fn on_reached(&mut self, reached: Result<Reached, String>) {
        self.reach.asking = false;
        match reached {
            Ok(reached) => self.take_reached(reached),
            Err(reason) => {
                if !std::mem::replace(&mut self.reach.complained, true) {
                    self.warn(&format!(
                        "cannot find out which files in Gfarm can be read (failed to {reason}): none is made again"
                    ));
                }
            }
        }
        // After what was found out: a failure over a file that is out of reach does not count.
        self.pass_failures_on();
        self.give_up_inputs();
        self.ask_next();
    }

    fn take_reached(&mut self, reached: Reached) {
        let now_ns = clock::monotonic_ns();
        let asked: BTreeSet<u32> = reached.files.iter().map(|(id, _)| *id).collect();
        self.reach.silence.note(|id| asked.contains(&id.0), &reached.silent, now_ns);
        if !reached.silent.is_empty() && self.reach.silence.is_young(now_ns) {
            self.reach.trouble_ns = Some(now_ns);
        }
        let mut lost = Vec::new();
        for (id, reach) in reached.files {
            let id = TaskId(id);
            match reach {
                Reach::Nowhere if self.reach.set_lost(id) => lost.push(id),
                Reach::Hosts(hosts) => self.on_handed_out(id, &hosts),
                Reach::Nowhere | Reach::Unknown => {}
            }
        }
        if lost.is_empty() {
            return;
        }
        let nodes: BTreeSet<NodeId> =
            lost.iter().flat_map(|id| self.inputs.places_of(*id).as_slice().to_vec()).collect();
        for node in nodes {
            if self.reach.searched.insert(node) {
                let files = self.files_on(node);
                self.reach.wanted.extend(files);
            }
        }
        self.tell_lost(&lost, &reached.silent);
        for id in lost {
            self.event(Event::PlacesFound { id, places: Places::Nowhere });
        }
    }

    /// These hosts hand a file out.
    fn on_handed_out(&mut self, id: TaskId, hosts: &[Vec<u8>]) {
        let places = self.inputs.set_found(id, hosts);
        if self.reach.lost.remove(&id) {
            self.reach.awaited.remove(&id);
            self.event(Event::PlacesFound { id, places });
        }
    }

    fn tell_lost(&mut self, lost: &[TaskId], silent: &BTreeMap<Vec<u8>, u32>) {
        let names = |ids: &[TaskId]| {
            ids.iter().map(|id| self.display_name(*id)).collect::<Vec<_>>().join(", ")
        };
        let files = match lost {
            [one] => format!("{} is", names(&[*one])),
            few if few.len() <= NAMED => format!("{} are", names(few)),
            many => format!("{} and {} more are", names(&many[..NAMED]), many.len() - NAMED),
        };
        let silent: Vec<_> = silent.keys().map(|host| String::from_utf8_lossy(host)).collect();
        let why = match silent.as_slice() {
            [] => "no host that is up has it".to_owned(),
            hosts => format!("no answer from gfsd on {}", hosts.join(", ")),
        };
        self.warn(&format!("{files} out of reach in Gfarm ({why}); what is needed is made again"));
    }

    /// Files that lie on a node only, as far as is known.
    fn files_on(&self, node: NodeId) -> Vec<TaskId> {
        let files = self.inputs.only_on(node);
        files.into_iter().filter(|id| !self.reach.is_lost(*id) && self.is_kept(*id)).collect()
    }

    /// An agent is gone. Whether gfsd there is, too, some of its files tell.
    pub(crate) fn look_for_files_of(&mut self, node: NodeId) {
        if self.reach.mount.is_some() && !self.stopping.is_stopping() {
            self.reach.trouble_ns = Some(clock::monotonic_ns());
            self.reach.searched.remove(&node);
            let files = self.files_on(node);
            self.reach.wanted.extend(files.into_iter().take(SAMPLE));
            self.ask_next();
        }
    }

    /// Attempts that failed on a node that has been lost since; what it says of them does not count.
    pub(crate) fn take_failures_on(&mut self, node: NodeId) -> Vec<(TaskId, RunningAttempt)> {
        self.reach.take_failures_on(node)
    }

    /// A node has come: what was out of reach may be there with it.
    pub(crate) fn look_for_lost_files(&mut self) {
        self.reach.wanted.extend(self.reach.lost.iter().copied());
        self.ask_next();
    }

    /// The catalogue says that no host that is up holds a file; whether that matters.
    pub(crate) fn on_held_by_none(&mut self, id: TaskId) -> bool {
        self.reach.mount.is_some() && self.reach.set_lost(id)
    }

    /// A task waits for a file that nothing makes.
    pub(crate) fn await_input(&mut self, id: TaskId) {
        let now_ns = clock::monotonic_ns();
        self.reach.awaited.insert(id, now_ns + WAIT_NS);
        self.reach.again_ns = now_ns + AGAIN_NS;
        if self.reach.is_lost(id) {
            let name = self.display_name(id);
            let seconds = WAIT_NS / 1_000_000_000;
            self.warn(&format!(
                "{name} is needed, and out of reach in Gfarm; nothing makes it: waiting for it for {seconds} s"
            ));
        }
    }

    /// Asks again about what is waited for, when it is time.
    pub(crate) fn look_for_awaited(&mut self) {
        let now_ns = clock::monotonic_ns();
        if self.reach.due_ns().is_some_and(|due_ns| due_ns <= now_ns) {
            self.reach.again_ns = now_ns + AGAIN_NS;
            self.reach.wanted.extend(self.reach.awaited.keys().copied());
            if !self.reach.deferred.is_empty() {
                self.reach.wanted.extend(self.reach.silence.files());
            }
            self.ask_next();
        }
    }

    fn give_up_inputs(&mut self) {
        let now_ns = clock::monotonic_ns();
        let over = |(_, due_ns): &(&TaskId, &u64)| **due_ns <= now_ns;
        let given_up: Vec<TaskId> =
            self.reach.awaited.iter().filter(over).map(|(id, _)| *id).collect();
        for id in given_up {
            self.reach.awaited.remove(&id);
            let name = self.display_name(id);
            let seconds = WAIT_NS / 1_000_000_000;
            self.warn(&format!("{name} was out of reach in Gfarm for {seconds} s: given up"));
            self.event(Event::FileGivenUp { id });
        }
    }

    fn pass_failures_on(&mut self) {
        for mut failure in std::mem::take(&mut self.reach.asked) {
            if !failure.in_full && self.reach.is_in_trouble() {
                failure.in_full = true;
                self.reach.wanted.extend(failure.behind.iter().copied());
                self.reach.held.push(failure);
                continue;
            }
            let lacked = self.tell_lacked(&failure);
            if lacked || !self.reach.silence.may_excuse(failure.id) || self.is_halted(failure.id) {
                self.pass_on(failure);
            } else if self.reach.silence.is_young(clock::monotonic_ns()) {
                self.defer(failure);
            } else if self.reach.was_in_trouble_since(failure.attempt.started_ns) {
                self.excuse(failure);
            } else {
                self.pass_on(failure);
            }
        }
        self.pass_deferred_on();
    }

    /// Whether it will not be tried again whatever it failed over: its invocation comes to its end.
    fn is_halted(&self, id: TaskId) -> bool {
        !self.scheduler.goes_on(id)
    }

    fn pass_on(&mut self, failure: Failure) {
        let Failure { id, attempt, outcome, message, .. } = failure;
        self.finish_action(id, &attempt, outcome, &message, None);
    }

    /// The next attempt would fail in the same way, until the host answers or is not sent new files any more.
    fn defer(&mut self, mut failure: Failure) {
        let now_ns = clock::monotonic_ns();
        if self.reach.deferred.is_empty() {
            self.reach.again_ns = now_ns + AGAIN_NS;
            let (name, hosts) = (self.display_name(failure.id), self.reach.silence.names());
            self.warn(&format!(
                "{name} failed while gfsd on {hosts} does not answer: such tasks are tried again when Gfarm takes the host for gone, or it answers"
            ));
        }
        failure.deferred_ns = Some(now_ns);
        self.reach.deferred.push(failure);
    }

    /// Those that need not wait any more: the silence is over, or they have waited for long enough, or will not be tried again.
    fn pass_deferred_on(&mut self) {
        let now_ns = clock::monotonic_ns();
        let is_over = !self.reach.silence.is_young(now_ns);
        for failure in std::mem::take(&mut self.reach.deferred) {
            let waited_ns = now_ns.saturating_sub(failure.deferred_ns.unwrap_or(0));
            if self.is_halted(failure.id) {
                self.pass_on(failure);
            } else if is_over || waited_ns >= EXCUSES_NS {
                self.excuse(failure);
            } else {
                self.reach.deferred.push(failure);
            }
        }
    }

    /// The core wants an action to end that has failed already, which it does not know yet; whether there is such a one.
    pub(crate) fn abort_failed(&mut self, id: TaskId) -> bool {
        let reach = &mut self.reach;
        let mut lists = [&mut reach.held, &mut reach.asked, &mut reach.deferred];
        let mut found =
            lists.iter_mut().flat_map(|list| list.extract_if(.., |failure| failure.id == id));
        let Some(mut failure) = found.next() else { return false };
        drop(found);
        failure.attempt.aborted = true;
        self.pass_on(failure);
        true
    }

    /// Hosts that a failed task waits for.
    pub(crate) fn waits_for_silent(&self, id: TaskId) -> Option<String> {
        let waits = self.reach.deferred.iter().any(|failure| failure.id == id);
        waits.then(|| self.reach.silence.names())
    }

    fn excuse(&mut self, failure: Failure) {
        self.reach.silence.excused(failure.id);
        self.event(Event::FailureExcused { id: failure.id });
        self.pass_on(failure);
    }

    /// What a failed action may have lacked without naming it; whether there is something. Where one of its inputs was out of reach, that is
    /// reason enough.
    fn tell_lacked(&mut self, failure: &Failure) -> bool {
        let Failure { id, attempt, behind, .. } = failure;
        let is_lacked = |file: &TaskId| self.reach.was_lost_since(*file, attempt.started_ns);
        if self.scheduler.inputs(*id).any(|input| is_lacked(&input)) {
            return true;
        }
        let lacked: Vec<TaskId> = behind.iter().copied().filter(|file| is_lacked(file)).collect();
        for input in &lacked {
            self.event(Event::InputLacked { id: *id, input: *input });
        }
        !lacked.is_empty()
    }

    /// The run is over: no answer is waited for.
    pub(crate) fn pass_all_failures_on(&mut self) {
        let held = std::mem::take(&mut self.reach.held);
        self.reach.asked.extend(held);
        let deferred = std::mem::take(&mut self.reach.deferred);
        self.reach.asked.extend(deferred);
        for failure in std::mem::take(&mut self.reach.asked) {
            self.tell_lacked(&failure);
            self.pass_on(failure);
        }
    }

    /// A task begins that makes a file which is out of reach: its name is made free, since writing to it would ask the silent host.
    pub(crate) fn make_room_for(&mut self, id: TaskId, target: &std::path::Path) -> bool {
        if !self.reach.lost.remove(&id) {
            return false;
        }
        let places = self.inputs.places_of(id);
        self.inputs.forget(id);
        let others = places.as_slice().first().map(|node| self.inputs.only_on(*node));
        let other = others.into_iter().flatten().find(|other| self.is_kept(*other));
        self.reach.silence.replace_file(id, other);
        rakuda_agent::operations::count(1);
        // Where it cannot be removed, the command says so that writes to it.
        std::fs::remove_file(target).is_ok()
    }
}
