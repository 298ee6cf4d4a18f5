//! What agents are asked about files, and what follows from their answers: what a target is after its action, whether inputs that another node made
//! are to be seen yet, and how much of a task's input is in memory when it starts.
//!
//! A question goes to the node where the task runs, since that machine's view counts. A node that is lost answers nothing: what waits for it goes on
//! with what the hub sees itself, or ends with the node.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use rakuda_agent::inspector::Inspector;
use rakuda_agent::{operations, residency};
use rakuda_core::{Event, NodeId, Policy, TaskId, TaskKind};
use rakuda_proto::Text;
use rakuda_proto::cluster::{FromAgent, ToAgent};
use rakuda_proto::front::ActionOutcome;
use rakuda_proto::journal::FileIdentity;

use crate::facts::identity_of;
use crate::hub::{Hub, LOCAL_NODE, RunningAttempt};
use crate::staging::HeldFile;

/// Whether an attempt's commands may start, as far as its inputs go.
#[derive(Debug, Default)]
pub(crate) enum Sight {
    /// Its node sees them.
    #[default]
    Clear,
    /// They are brought to its node when its first command is about to start; it has started none.
    Unstaged,
    /// Its node has been asked whether it sees them; its commands are held back.
    Asked,
    /// It does not; why its commands are refused.
    Wrong(Text),
}

/// What a question was about.
#[derive(Debug)]
enum Question {
    /// What the target is after an action that ended well.
    Target { id: TaskId, attempt: Box<RunningAttempt>, message: Vec<u8> },
    /// What time it is where the first command of an attempt is about to start.
    Time { id: TaskId, number: u32 },
    /// Whether the inputs are as they were vouched for.
    Sight { id: TaskId, number: u32, vouched: Vec<(Text, FileIdentity)> },
    /// Whether the node is there: it answers, or is lost.
    Life,
    /// Which of these files a node that has just come still has.
    Holdings { files: Vec<HeldFile> },
    /// What of the inputs is in memory.
    Residency { id: TaskId, number: u32, inputs: Vec<TaskId> },
}

/// Questions that have no answer yet.
#[derive(Debug)]
pub(crate) struct Questions {
    /// Of the machine of the hub.
    inspector: Inspector,
    /// Whether it can tell what is in memory.
    own_residency: bool,
    open: BTreeMap<u32, (NodeId, Question)>,
    next: u32,
    /// System calls that agents elsewhere have made.
    operations: u64,
}

impl Questions {
    pub fn new(inspector: Inspector) -> Self {
        let own_residency = residency::is_known();
        Self { inspector, own_residency, open: BTreeMap::new(), next: 0, operations: 0 }
    }

    /// Whether all have been answered.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// System calls on metadata that this process and agents elsewhere have made.
    pub fn operations(&self) -> u64 {
        operations::total() + self.operations
    }
}

impl Hub {
    fn ask(&mut self, node: NodeId, question: Question, message: impl FnOnce(u32) -> ToAgent) {
        let number = self.questions.next;
        self.questions.next = number.wrapping_add(1);
        self.questions.open.insert(number, (node, question));
        let message = message(number);
        if node == LOCAL_NODE {
            self.questions.inspector.ask(&self.settings.directory, message);
        } else {
            self.agents.node(node).port.ask(message);
        }
    }

    /// Asks about the inputs of an attempt that begins; to be called when it is among those that run.
    pub(crate) fn ask_about_inputs(&mut self, id: TaskId) {
        let Some((node, number)) =
            self.running.get(&id).map(|attempt| (attempt.node, attempt.attempt))
        else {
            return;
        };
        let placed = self.placed_bytes(id, node);
        let is_staged = self.staging.is_some();
        let mut vouched = Vec::new();
        for input in self.scheduler.inputs(id) {
            let Some(task) = self.scheduler.task(input) else { continue };
            if task.kind != TaskKind::File || task.modified_ns.is_none() {
                continue;
            }
            if let Some(identity) = self.inputs.vouched_elsewhere(input, node) {
                vouched.push((Text(self.path_of(input)), identity));
            }
        }
        let Some(attempt) = self.running.get_mut(&id) else { return };
        attempt.inputs = placed;
        if is_staged {
            // What is in memory is measured when they are there.
            attempt.sight = Sight::Unstaged;
            return;
        }
        if !vouched.is_empty() {
            attempt.sight = Sight::Asked;
            let files = vouched.clone();
            let limit_ms = self.visible_ms();
            let question = Question::Sight { id, number, vouched };
            self.ask(node, question, |question| ToAgent::Expect { question, files, limit_ms });
        }
        self.ask_about_residency(id);
    }

    /// Asks what of the inputs of an attempt is in its node's memory.
    pub(crate) fn ask_about_residency(&mut self, id: TaskId) {
        let Some((node, number)) =
            self.running.get(&id).map(|attempt| (attempt.node, attempt.attempt))
        else {
            return;
        };
        let (mut paths, mut measured) = (Vec::new(), Vec::new());
        for input in self.scheduler.inputs(id) {
            let Some(task) = self.scheduler.task(input) else { continue };
            let is_file = task.kind == TaskKind::File && task.modified_ns.is_some();
            if is_file && task.bytes > 0 && paths.len() < residency::FILES_MAX {
                paths.push(Text(self.path_of(input)));
                measured.push(input);
            }
        }
        // What an agent elsewhere cannot tell it says itself.
        if !paths.is_empty() && (node != LOCAL_NODE || self.questions.own_residency) {
            let question = Question::Residency { id, number, inputs: measured };
            self.ask(node, question, |question| ToAgent::AskResident { question, paths });
        }
    }

    /// Asks a node which of these files, called `paths` there, it has.
    pub(crate) fn ask_about_holdings(
        &mut self,
        node: NodeId,
        files: Vec<HeldFile>,
        paths: Vec<Text>,
    ) {
        let question = Question::Holdings { files };
        self.ask(node, question, |question| ToAgent::Look { question, paths });
    }

    /// Asks a node for an answer, whatever it says; `on_heard_of` follows, also when it is lost.
    pub(crate) fn ask_for_life(&mut self, node: NodeId) {
        let paths = Vec::new();
        self.ask(node, Question::Life, |question| ToAgent::Look { question, paths });
    }

    /// The first command of an attempt is about to start: from now on counts what is written beside its target, where nodes share no file
    /// system. The question goes before the command on the same link, and is answered before the command is begun.
    fn ask_for_time(&mut self, id: TaskId) {
        let Some(attempt) = self.running.get(&id) else { return };
        let (node, number) = (attempt.node, attempt.attempt);
        let may_start = matches!(attempt.sight, Sight::Clear) && attempt.began_there_ns.is_none();
        if may_start && self.is_staged_target(id) {
            let question = Question::Time { id, number };
            self.ask(node, question, |question| ToAgent::TellTime { question });
        }
    }

    /// A task's file as the agents are to call it: relative to the run's folder, or absolute when the Rakefile has moved.
    fn path_of(&self, id: TaskId) -> Vec<u8> {
        let name = self.names.name(id);
        if !self.moved {
            return name.to_vec();
        }
        self.settings.directory.join(OsStr::from_bytes(name)).into_os_string().into_vec()
    }

    /// An action on another machine ended well: its agent says what its target is. Whether it was asked.
    pub(crate) fn ask_about_target(
        &mut self,
        id: TaskId,
        attempt: RunningAttempt,
        message: &[u8],
    ) -> Option<RunningAttempt> {
        let node = attempt.node;
        let since_ns = attempt.began_there_ns;
        let needs_no_answer = node == LOCAL_NODE && since_ns.is_none();
        if needs_no_answer || self.settings.config.dry_run || !self.names.is_path(id) {
            return Some(attempt);
        }
        if !self.is_made_there(id, &attempt) {
            return Some(attempt);
        }
        if let Some(since_ns) = since_ns {
            let path = Text(attempt.target.as_os_str().as_encoded_bytes().to_vec());
            let attempt = Box::new(attempt);
            let question = Question::Target { id, attempt, message: message.to_vec() };
            let look = |question| ToAgent::LookAround { question, path, since_ns };
            self.ask(node, question, look);
            return None;
        }
        let paths = vec![Text(attempt.target.as_os_str().as_encoded_bytes().to_vec())];
        let question =
            Question::Target { id, attempt: Box::new(attempt), message: message.to_vec() };
        self.ask(node, question, |question| ToAgent::Look { question, paths });
        None
    }

    /// Takes the answer of an agent.
    pub(crate) fn on_answer(&mut self, answer: FromAgent) {
        match answer {
            FromAgent::Looked { question, files, operations } => {
                self.questions.operations += self.foreign(question, operations);
                match self.questions.open.remove(&question) {
                    Some((_, Question::Target { id, attempt, message })) => {
                        let seen = files.into_iter().next().flatten();
                        self.take_target(id, *attempt, message, seen, Vec::new());
                    }
                    Some((node, Question::Holdings { files: held })) => {
                        self.on_holdings(node, held, &files);
                    }
                    Some((node, Question::Life)) => self.on_heard_of(node),
                    _ => {}
                }
            }
            FromAgent::Seen { question, wrong, operations } => {
                self.questions.operations += self.foreign(question, operations);
                if let Some((node, Question::Sight { id, number, vouched })) =
                    self.questions.open.remove(&question)
                {
                    let wrong =
                        wrong.map(|(path, seen)| self.describe_unseen(node, &path, seen, &vouched));
                    self.on_sight(id, number, wrong);
                }
            }
            FromAgent::LookedAround { question, target, beside, more, operations } => {
                self.questions.operations += self.foreign(question, operations);
                if let Some((_, Question::Target { id, attempt, message })) =
                    self.questions.open.remove(&question)
                {
                    if more {
                        self.warn_of_many_beside(id);
                    }
                    self.take_target(id, *attempt, message, target, beside);
                }
            }
            FromAgent::Time { question, now_ns } => {
                if let Some((_, Question::Time { id, number })) =
                    self.questions.open.remove(&question)
                    && let Some(attempt) = self.running.get_mut(&id)
                    && attempt.attempt == number
                {
                    attempt.began_there_ns.get_or_insert(now_ns);
                }
            }
            FromAgent::Resident { question, files } => {
                if let Some((node, Question::Residency { id, number, inputs })) =
                    self.questions.open.remove(&question)
                {
                    self.on_residency(id, number, node, &inputs, &files);
                }
            }
            FromAgent::Ready { .. } | FromAgent::Event(_) | FromAgent::Signalled { .. } => {}
        }
    }

    /// What of the inputs of an attempt was in its node's memory: for the record, and for the policy that goes by it.
    fn on_residency(
        &mut self,
        id: TaskId,
        number: u32,
        node: NodeId,
        inputs: &[TaskId],
        files: &[Option<(u64, u64)>],
    ) {
        let measured = || inputs.iter().zip(files).filter_map(|(id, file)| Some((*id, (*file)?)));
        if let Some(attempt) = self.running.get_mut(&id)
            && attempt.attempt == number
        {
            for (_, (in_memory, bytes)) in measured() {
                attempt.inputs.measured_bytes += bytes;
                attempt.inputs.resident_bytes += in_memory;
            }
        }
        if self.settings.config.policy == Policy::Cached {
            for (id, (bytes, _)) in measured() {
                self.event(Event::CacheMeasured { id, node, bytes });
            }
        }
    }

    /// Calls of this process are counted where they are made.
    fn foreign(&self, question: u32, operations: u32) -> u64 {
        let asked = self.questions.open.get(&question);
        asked.map_or(0, |(node, _)| if *node == LOCAL_NODE { 0 } else { operations.into() })
    }

    /// The commands of an attempt may start now, or never.
    pub(crate) fn on_sight(&mut self, id: TaskId, number: u32, wrong: Option<Text>) {
        let Some(attempt) = self.running.get_mut(&id).filter(|attempt| attempt.attempt == number)
        else {
            return;
        };
        attempt.sight = wrong.map_or(Sight::Clear, Sight::Wrong);
        self.ask_for_time(id);
        let Some(attempt) = self.running.get_mut(&id) else { return };
        let held = std::mem::take(&mut attempt.held_back);
        let waits_for_lease = attempt.in_line;
        for pending in held {
            if waits_for_lease && matches!(self.running[&id].sight, Sight::Clear) {
                if let Some(attempt) = self.running.get_mut(&id) {
                    attempt.held_back.push(pending);
                }
            } else {
                self.start_pending(Some(id), pending);
            }
        }
    }

    /// So long a node may take to see what another one has made.
    fn visible_ms(&self) -> u32 {
        self.settings.cluster.as_ref().map_or(0, |cluster| cluster.visible_ms)
    }

    fn describe_unseen(
        &self,
        node: NodeId,
        path: &Text,
        seen: Option<FileIdentity>,
        vouched: &[(Text, FileIdentity)],
    ) -> Text {
        let state = |file: &FileIdentity| {
            format!("{} bytes, modified at {} ns", file.bytes, file.modified_ns)
        };
        let expected = vouched.iter().find(|(name, _)| name == path).map(|(_, file)| state(file));
        let seen = seen.map_or_else(|| "no such file".to_owned(), |file| state(&file));
        Text::from(format!(
            "node {} does not see {} as it was made, after {} s: expected {}, found {seen}; see whether the nodes share this folder, and raise VISIBLE_WITHIN if it takes longer",
            self.agents.node(node).name.to_display(),
            path.to_display(),
            f64::from(self.visible_ms()) / 1000.0,
            expected.unwrap_or_default(),
        ))
    }

    /// No answers come from a node any more, or from any: what ended well there is looked at from here.
    pub(crate) fn answer_for(&mut self, lost: Option<NodeId>) {
        let of_lost = |node: &NodeId| lost.is_none_or(|lost| lost == *node);
        let open = std::mem::take(&mut self.questions.open);
        let (gone, kept) = open.into_iter().partition(|(_, (node, _))| of_lost(node));
        self.questions.open = kept;
        let gone: BTreeMap<u32, (NodeId, Question)> = gone;
        for (_, question) in gone.into_values() {
            if let Question::Target { id, attempt, message } = question {
                if self.staging.is_some() {
                    // Its target went with the node.
                    self.keep_lost_target(id, *attempt, lost);
                    continue;
                }
                let seen = identity_of(&attempt.target);
                self.finish_action(id, &attempt, ActionOutcome::Ok, &message, seen);
            }
        }
    }
}
