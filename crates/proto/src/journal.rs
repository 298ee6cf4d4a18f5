//! The events of a run's journal, version 2, as docs/reference/journal.md has them.
//!
//! Plain data. What writes which event when, and what is made of them, is not known here.

use serde::{Deserialize, Serialize};

use crate::streams::{RecordForm, StalledStream, StreamAccount, StreamRoute};
use crate::{Figure, Text};

/// Version of the events below.
pub const JOURNAL_VERSION: u32 = 2;

/// One line of the journal. It is read by `crates/record/src/reader.rs`: serde's tagged enums hold
/// no numbers of 128 bits on the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum JournalEvent {
    /// First line.
    RunStarted(RunStarted),
    /// A node can take tasks.
    NodeJoined(NodeJoined),
    /// A node is gone.
    NodeLost(NodeLost),
    /// A node that had nothing to do has gone, as it was asked to.
    NodeGone(NodeGone),
    /// Tasks are wanted.
    InvocationStarted(InvocationStarted),
    /// Nothing of it runs any more.
    InvocationEnded(InvocationEnded),
    /// Where tasks of one kind are made.
    RuleDefined(RuleDefined),
    /// A task that later lines name.
    TaskDefined(TaskDefined),
    /// An action is about to run.
    AttemptStarted(AttemptStarted),
    /// Actions are about to run together.
    GangStarted(GangStarted),
    /// Streams between tasks were opened.
    StreamsOpened(StreamsOpened),
    /// Some of them are changed to another route while they are open.
    StreamsRerouted(StreamsRerouted),
    /// In a cycle of them no byte moves.
    StreamsStalled(StreamsStalled),
    /// All has gone through them, one is at fault, or they were closed before their end.
    StreamsEnded(StreamsEnded),
    /// A command is about to start.
    CommandStarted(CommandStarted),
    /// A command is handed over that begins with others.
    CommandPrepared(CommandPrepared),
    /// A command has exited, or could not be started.
    CommandEnded(CommandEnded),
    /// An action is over and its target was settled.
    AttemptEnded(AttemptEnded),
    /// A task is done with, without an attempt that says so.
    TaskSettled(TaskSettled),
    /// A task was lost with too many different nodes, and is taken to be the reason.
    TaskBlamed(TaskBlamed),
    /// A node was chosen for an attempt by what was known of it.
    NodeChosen(NodeChosen),
    /// What a task made went with a node, and is needed: it is made again.
    TaskReopened(TaskReopened),
    /// A file that nothing makes went with a node, and is needed.
    InputLost(InputLost),
    /// A file was copied to a node that shares no file system with the others.
    FileStaged(FileStaged),
    /// The clock of the hub's machine was set.
    ClockStepped(ClockStepped),
    /// All commands of a synchronised round are over.
    RoundEnded(RoundEnded),
    /// What a worker of a round has printed was looked through for figures.
    RoundValues(RoundValues),
    /// Nothing more is to start.
    StopRequested(StopRequested),
    /// Last line. Without it the run was cut off.
    RunEnded(RunEnded),
}

/// Fields of [`JournalEvent::RunStarted`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunStarted {
    /// [`JOURNAL_VERSION`].
    pub version: u32,
    /// ns since 1970.
    pub time_ns: i64,
    /// The run's name.
    pub run: String,
    /// Version of Rakuda.
    pub rakuda: String,
    /// The Rakefile's folder, absolute.
    pub directory: Text,
    /// Its name, relative to that.
    pub rakefile: Text,
    /// What the user typed after `rakuda`.
    pub command_line: Vec<Text>,
    /// Name of the machine of the hub.
    pub host: Text,
    /// Cores of all nodes at the start.
    pub cores: u32,
    /// `fifo`, `lifo`, ...
    pub policy: String,
    /// `wait`, `kill`, `continue`.
    pub failure: String,
    /// `rename`, `delete`, `leave`.
    pub failed_target: String,
    /// Attempts after the first.
    pub retry: u32,
    /// Seed of random choices.
    pub seed: u64,
    /// `-B`.
    pub build_all: bool,
    /// Properties to which commands were held (`--enforce`): `memory`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub enforce: Vec<String>,
    /// Reasons beyond rake's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rerun_on: Vec<String>,
    /// The chosen environment: name and blake3 of the value.
    #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub environment: std::collections::BTreeMap<String, String>,
}

/// Fields of [`JournalEvent::NodeJoined`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeJoined {
    /// ns since 1970.
    pub time_ns: i64,
    /// Its number.
    pub node: u32,
    /// Its name.
    pub name: Text,
    /// What tasks may use.
    pub cores: u32,
    /// What tasks may use.
    pub memory_bytes: u64,
    /// The host groups that it belongs to, outermost first, with `/` between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// Fields of [`JournalEvent::NodeLost`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeLost {
    /// ns since 1970.
    pub time_ns: i64,
    /// Its number.
    pub node: u32,
    /// What was noticed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Fields of [`JournalEvent::NodeGone`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeGone {
    /// ns since 1970.
    pub time_ns: i64,
    /// Its number.
    pub node: u32,
    /// Why it was asked to go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Fields of [`JournalEvent::InvocationStarted`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvocationStarted {
    /// ns since 1970.
    pub time_ns: i64,
    /// From 0.
    pub invocation: u32,
    /// Names of what is wanted.
    pub tasks: Vec<Text>,
    /// The task whose action waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<u32>,
}

/// Fields of [`JournalEvent::InvocationEnded`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvocationEnded {
    /// ns since 1970.
    pub time_ns: i64,
    /// Which.
    pub invocation: u32,
    /// Tasks that failed.
    pub failed: u32,
    /// Tasks that were not run because of those.
    pub abandoned: u32,
}

/// Fields of [`JournalEvent::RuleDefined`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleDefined {
    /// Its number.
    pub rule: u32,
    /// Where the action stands: `Rakefile:12`.
    pub location: Text,
    /// blake3 of the source of the actions, without comments and white space, 32 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What was noted before `source` was: a digest of the text of the first action, as it stood in
    /// the file. It is not compared any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// How it is decided whether a task runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// Always.
    #[default]
    Plain,
    /// By the times of files.
    File,
    /// When it is missing.
    Directory,
    /// Its class says.
    Asked,
}

/// Fields of [`JournalEvent::TaskDefined`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskDefined {
    /// Its number.
    pub task: u32,
    /// Its name.
    pub name: Text,
    /// How it is decided whether it runs.
    pub kind: TaskKind,
    /// Where its action stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<u32>,
    /// What it needs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prerequisites: Vec<u32>,
    /// What only has to be done before it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub order_only: Vec<u32>,
    /// Whether there is anything to run.
    pub action: bool,
    /// It was up to date, and nothing below it ran; its prerequisites are not listed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub up_to_date: bool,
    /// Size of its file when this run did not make it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Names and values of what its action depends on by declaration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub params: Vec<(Text, Text)>,
}

/// Which state of a file, as far as the file system tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// Modification time, as [`crate::file_time`] has it.
    pub modified_ns: i128,
    /// Change time, likewise.
    pub changed_ns: i128,
    /// Size.
    pub bytes: u64,
    /// Inode.
    pub inode: u64,
}

/// Why a task runs, or does not; the table is in docs/reference/json.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasonKind {
    /// The target does not exist.
    Missing,
    /// The last attempt did not finish.
    Unfinished,
    /// A prerequisite is newer.
    Newer,
    /// A prerequisite would run.
    Runs,
    /// A plain task.
    Always,
    /// `-B`.
    Forced,
    /// Its class said so.
    Class,
    /// Its command lines have changed.
    Command,
    /// Its set of prerequisites has changed.
    Inputs,
    /// The content of a prerequisite has changed.
    Content,
    /// The environment has changed.
    Env,
    /// Its file, made or found before, is on lost nodes only.
    Lost,
    /// Another task of its gang runs.
    Gang,
    /// It does not run: nothing is newer.
    UpToDate,
}

/// One reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// What.
    pub kind: ReasonKind,
    /// Which file, or name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Text>,
    /// How much newer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_ns: Option<i128>,
}

/// Fields of [`JournalEvent::AttemptStarted`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptStarted {
    /// ns since 1970.
    pub time_ns: i64,
    /// Its number in this run.
    pub task: u32,
    /// From 1.
    pub attempt: u32,
    /// Where.
    pub node: u32,
    /// Cores that it occupies there.
    pub cores: u32,
    /// Nodes that it has besides, each once, and the cores that it occupies on each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<(u32, u32)>,
    /// Memory that its task asks for. `None`: it asks for none, or an older version has not noted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// It was begun before there were cores for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub early: bool,
    /// Why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
    /// Its target before the attempt. `None`: it was missing, or it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<FileIdentity>,
    /// Its target's absolute name, when the Rakefile has changed its directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Text>,
}

impl AttemptStarted {
    /// The nodes that it has, the one where its commands start first, and the cores that it occupies on each.
    pub fn shares(&self) -> impl Iterator<Item = (u32, u32)> {
        std::iter::once((self.node, self.cores)).chain(self.elsewhere.iter().copied())
    }

    /// The cores that it occupies on all of its nodes together.
    pub fn cores_in_all(&self) -> u32 {
        self.shares().fold(0, |sum, (_, cores)| sum.saturating_add(cores))
    }
}

/// Fields of [`JournalEvent::GangStarted`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GangStarted {
    /// ns since 1970.
    pub time_ns: i64,
    /// Its number in this run.
    pub gang: u32,
    /// Its tasks; the next attempt of each that has an action belongs to the gang.
    pub tasks: Vec<u32>,
    /// The nodes that they have, each once; that of the first task first.
    #[serde(default)]
    pub nodes: Vec<u32>,
    /// There are fewer slots than tasks: some have no core of their own (`cores` of the attempt is 0).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub oversubscribed: bool,
    /// Of one that is oversubscribed: cores that its tasks ask for, and that they have. `None`: an older version has
    /// not noted them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<SharedCores>,
}

/// Cores that the tasks of a gang share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedCores {
    /// That they ask for.
    pub asked: u64,
    /// That they have together.
    pub there: u64,
}

/// Fields of [`JournalEvent::StreamsOpened`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamsOpened {
    /// ns since 1970.
    pub time_ns: i64,
    /// Its number in this run.
    pub opening: u32,
    /// Where; of several nodes the first.
    pub node: u32,
    /// All of them, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<u32>,
    /// Tasks whose commands get ends of them.
    pub members: Vec<u32>,
    /// They run one after the other, over spools.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spooled: bool,
    /// All streams of the component.
    pub streams: Vec<StreamNote>,
}

/// A stream of a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamNote {
    /// As the Rakefile has it.
    pub name: Text,
    /// What a record is.
    pub record: RecordForm,
    /// Tasks whose stdout goes in.
    pub writers: Vec<u32>,
    /// Tasks whose stdin comes from it.
    pub readers: Vec<u32>,
    /// `FILE:LINE` of the statement.
    pub place: Text,
    /// What the Rakefile says of tasks.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub meta: std::collections::BTreeMap<Text, std::collections::BTreeMap<String, String>>,
    /// How its messages go between nodes. `None`: it is on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<StreamRoute>,
}

/// Fields of [`JournalEvent::StreamsRerouted`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamsRerouted {
    /// ns since 1970.
    pub time_ns: i64,
    /// Its number in this run.
    pub opening: u32,
    /// Those that are changed.
    pub streams: Vec<StreamReroute>,
}

/// A stream that goes another way from now on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamReroute {
    /// As the Rakefile has it.
    pub name: Text,
    /// How its messages go, and why.
    pub route: StreamRoute,
}

/// Fields of [`JournalEvent::StreamsEnded`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamsEnded {
    /// ns since 1970.
    pub time_ns: i64,
    /// Its number in this run.
    pub opening: u32,
    /// What went through each.
    pub streams: Vec<StreamAccount>,
    /// What is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Text>,
    /// The task that has failed because of that, though its attempt had ended well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_fault: Option<u32>,
    /// That task is tried again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retried: bool,
    /// A task did not end well, or the run was stopped: this is what had gone through by then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
}

/// Fields of [`JournalEvent::StreamsStalled`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamsStalled {
    /// ns since 1970.
    pub time_ns: i64,
    /// The opening.
    pub opening: u32,
    /// The tasks of the cycle.
    pub tasks: Vec<u32>,
    /// Its streams, and how they are.
    pub streams: Vec<StalledStream>,
    /// Time for which no byte had moved, ns.
    pub silence_ns: u64,
}

/// Fields of [`JournalEvent::CommandStarted`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandStarted {
    /// ns since 1970.
    pub time_ns: i64,
    /// Its number in this run.
    pub command: u32,
    /// Whose action asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<u32>,
    /// Program and arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<Vec<Text>>,
    /// Or a line for the shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<Text>,
    /// Where it runs, when that is not the run's directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<Text>,
    /// What it runs in, when its task has an environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Box<CommandEnvironment>>,
}

/// What the commands of a task run in (`needs env:`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommandEnvironment {
    /// `venv`, `conda`, `module` or `container`.
    pub kind: String,
    /// The file, the image or the modules, as the Rakefile has them. Empty: an older version has not noted them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<Text>,
    /// The script that sets it up and then executes the command.
    pub script: Text,
}

impl CommandEnvironment {
    /// Kind and names: `venv requirements.txt`.
    pub fn words(&self) -> String {
        let names = self.names.iter().map(Text::to_display);
        std::iter::once(self.kind.clone()).chain(names).collect::<Vec<_>>().join(" ")
    }

    /// The file that says or has what is in it, where there is one: an image may be a name in a registry.
    pub fn file(&self) -> Option<&Text> {
        let is_file = |name: &&Text| match self.kind.as_str() {
            "venv" | "conda" => true,
            "container" => name.0.ends_with(b".sif") || name.0.ends_with(b".img"),
            _ => false,
        };
        self.names.first().filter(is_file)
    }
}

/// Fields of [`JournalEvent::CommandPrepared`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommandPrepared {
    /// ns since 1970.
    pub time_ns: i64,
    /// Its number in this run. Its `command_started` follows when it begins.
    pub command: u32,
    /// Whose action asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<u32>,
    /// The round that it begins with.
    pub round: u32,
    /// Which worker of that, from 0.
    pub worker: u32,
}

/// Fields of [`JournalEvent::CommandEnded`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommandEnded {
    /// ns since 1970.
    pub time_ns: i64,
    /// Its number in this run.
    pub command: u32,
    /// As wait(2) gives it.
    pub status: i32,
    /// Why it could not be started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Text>,
    /// From start to exit.
    pub wall_ns: u64,
    /// CPU time in user mode of it and its waited-for children.
    pub user_us: u64,
    /// CPU time in the kernel.
    pub system_us: u64,
    /// Largest resident set of any one process, KiB; 0: not known (docs/reference/journal.md).
    pub rss_kib_max: u64,
    /// Bytes that came from storage.
    pub read_bytes: u64,
    /// Bytes of pages made dirty.
    pub write_bytes: u64,
}

impl CommandEnded {
    /// Largest resident set of any one process. `None`: not known.
    pub fn rss_bytes(&self) -> Option<u64> {
        (self.rss_kib_max > 0).then(|| self.rss_kib_max.saturating_mul(1024))
    }
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Well.
    Done,
    /// With an exception, or without its target.
    Failed,
    /// The action called `exit`.
    Exited,
    /// It was ended because of others.
    Aborted,
    /// It had been begun early, and counts as not begun.
    GivenBack,
    /// Its node was lost.
    Lost,
}

/// What became of a target after an attempt that did not end well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetFate {
    /// Moved to `NAME._fail_`.
    Renamed,
    /// Removed.
    Deleted,
    /// Still there, by choice.
    Left,
    /// Still there, because it could not be moved.
    Stuck,
}

/// Fields of [`JournalEvent::AttemptEnded`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptEnded {
    /// ns since 1970.
    pub time_ns: i64,
    /// Its number in this run.
    pub task: u32,
    /// How.
    pub outcome: Outcome,
    /// First line of what went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Text>,
    /// There will be another attempt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retried: bool,
    /// Its target after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<FileIdentity>,
    /// What was done with a target that is not good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetFate>,
    /// Its secondary files, declared or guessed: name, size.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secondary: Vec<(Text, u64)>,
    /// blake3 of its prerequisites' contents (`--rerun-on content`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contents: Vec<(Text, String)>,
    /// Where its input was when it began, as far as that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<InputBytes>,
    /// When it held its cores: from, to, from, to, and so on, ns after its start. `None`: from start to end (so
    /// journals of earlier versions of Rakuda are read).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_ns: Option<Box<[i64]>>,
}

/// Bytes of the files among an attempt's prerequisites, when it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InputBytes {
    /// Of those of which some node is known to hold them; 0 with one node.
    pub placed_bytes: u64,
    /// Of these, those that the attempt's node held.
    pub local_bytes: u64,
    /// Of those whose share in memory its node could tell.
    pub measured_bytes: u64,
    /// Of these, what was in its memory.
    pub resident_bytes: u64,
}

impl InputBytes {
    /// Adds another attempt's, or another file's.
    pub fn add(&mut self, other: &Self) {
        self.placed_bytes += other.placed_bytes;
        self.local_bytes += other.local_bytes;
        self.measured_bytes += other.measured_bytes;
        self.resident_bytes += other.resident_bytes;
    }
}

/// How a task was done with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskOutcome {
    /// It was needed, and its action succeeded or it has none.
    Executed,
    /// It was up to date.
    NotNeeded,
    /// Its last attempt failed, or its prerequisites could not be looked up.
    Failed,
    /// A prerequisite failed.
    Abandoned,
    /// The run was stopped, or gave up after a failure, before its turn.
    NotReached,
}

/// Fields of [`JournalEvent::TaskSettled`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSettled {
    /// ns since 1970.
    pub time_ns: i64,
    /// Its number in this run.
    pub task: u32,
    /// How.
    pub how: TaskOutcome,
    /// Failed or abandoned prerequisites.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<u32>,
}

/// Fields of [`JournalEvent::TaskBlamed`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskBlamed {
    /// ns since 1970.
    pub time_ns: i64,
    /// Its number in this run.
    pub task: u32,
    /// Where attempts of it were lost, each once, the first loss first.
    pub nodes: Vec<u32>,
}

/// Fields of [`JournalEvent::NodeChosen`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeChosen {
    /// ns since 1970.
    pub time_ns: i64,
    /// Its number in this run.
    pub task: u32,
    /// From 1; its `attempt_started` comes before.
    pub attempt: u32,
    /// Where it runs.
    pub node: u32,
    /// The condition, as it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The preference, as it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefer: Option<String>,
    /// What both rest on, by attribute, with own claims subtracted: `2.5`, `8589934592 B`, a text. Empty: undefined.
    pub values: std::collections::BTreeMap<String, String>,
}

/// Fields of [`JournalEvent::TaskReopened`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReopened {
    /// ns since 1970.
    pub time_ns: i64,
    /// Its number in this run.
    pub task: u32,
}

/// Fields of [`JournalEvent::InputLost`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputLost {
    /// ns since 1970.
    pub time_ns: i64,
    /// Number of the file's task in this run.
    pub task: u32,
}

/// Fields of [`JournalEvent::FileStaged`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStaged {
    /// When it was there, ns since 1970.
    pub time_ns: i64,
    /// Number of the file's task in this run.
    pub task: u32,
    /// The node that had it; 0: the machine of the hub.
    pub from: u32,
    /// The node that has it, too.
    pub to: u32,
    /// Secondary files that came with it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub companions: u32,
    /// The size of all of them.
    pub bytes: u64,
    /// How long that took.
    pub took_ns: u64,
}

/// Fields of [`JournalEvent::ClockStepped`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockStepped {
    /// When it was noticed, ns since 1970: by the journal's own clock, which nobody sets.
    pub time_ns: i64,
    /// What the machine's clock showed then, ns since 1970.
    pub wall_ns: i64,
}

impl ClockStepped {
    /// How far the machine's clock is ahead of the journal's from then on.
    pub fn ahead_ns(&self) -> i64 {
        self.wall_ns.saturating_sub(self.time_ns)
    }
}

fn is_zero<Number: Default + PartialEq>(number: &Number) -> bool {
    *number == Number::default()
}

/// Fields of [`JournalEvent::RoundEnded`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RoundEnded {
    /// ns since 1970.
    pub time_ns: i64,
    /// Its number in this run.
    pub round: u32,
    /// What it is a round of.
    pub sync: Text,
    /// Its number in that, from 0.
    pub number: u32,
    /// The parameter of its programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<Text>,
    /// `counted`, `warm_up`, `null`.
    pub kind: String,
    /// From 1 when it repeats a round with a worker that was late.
    pub repeat: u32,
    /// How many commands were to begin together.
    pub workers: u32,
    /// What held them: `preload`, `exec`, `call`, `shell`, `none`, or several with `+` between them. Empty: no worker
    /// has begun.
    pub gate: String,
    /// The instant, ns since 1970. `None`: it did not begin, or nothing was held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub t0_ns: Option<i64>,
    /// From the decision to the instant.
    pub margin_ns: u64,
    /// Last start minus first start, each less the worker's offset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_ns: Option<u64>,
    /// First start minus the instant, each less the worker's offset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begun_after_ns: Option<i64>,
    /// Last end minus first start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span_ns: Option<u64>,
    /// Maximum error of the times of two workers, one against the other.
    pub clock_bound_ns: u64,
    /// Workers that were late.
    pub late: u32,
    /// Commands that did not end well.
    pub failed: u32,
    /// Commands that ended while something that they had started went on, in their process group.
    #[serde(skip_serializing_if = "is_zero")]
    pub outlived: u32,
    /// Why it did not begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<Text>,
    /// By worker: ns after the first start; null: it has not begun.
    pub starts_ns: Vec<Option<i64>>,
    /// By worker: its end, likewise.
    pub ends_ns: Vec<Option<i64>>,
    /// By worker: the processor on which it began; negative: not known.
    pub processors: Vec<i32>,
    /// By worker: the number of its node; null: it was never handed over.
    pub nodes: Vec<Option<u32>>,
    /// Of each node elsewhere that had workers: what is known of its clock.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clocks: Vec<RoundClock>,
    /// What its workers have seen to of the page cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<RoundCache>,
    /// Its workers were more than there were slots, and shared them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub oversubscribed: bool,
    /// Names of the figures that are looked for in what its workers print; `*`: all numbers of a JSON object. Each
    /// worker has a `round_values` of its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub collect: Vec<String>,
}

/// Fields of [`JournalEvent::RoundValues`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RoundValues {
    /// ns since 1970.
    pub time_ns: i64,
    /// The number of the round in this run.
    pub round: u32,
    /// Which worker of it.
    pub worker: u32,
    /// By name: what its program has printed. What it has not printed is not there.
    pub values: std::collections::BTreeMap<String, Figure>,
}

/// What was in the page cache before the workers of a round waited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RoundCache {
    /// What was wanted: `cold`, `warm`.
    pub state: String,
    /// Workers that have seen to it and gone through their gate.
    pub workers: u32,
    /// Of their files, each as often as a worker has named it.
    pub bytes: u64,
    /// Of these in memory. `None`: some kernel does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
}

/// A node's clock at the instant of a round, against that of the hub's machine: both show what has passed since some
/// moment of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RoundClock {
    /// Which.
    pub node: u32,
    /// What it is called.
    pub name: Text,
    /// How far it was ahead, as was known when the instant was decided: the instant went to the node with this
    /// difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_ns: Option<i64>,
    /// Maximum error of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_bound_ns: Option<u64>,
    /// How far it was ahead, as is known after the round, by the bounds of all exchanges: by this starts are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead_ns: Option<i64>,
    /// Maximum error of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_ns: Option<u64>,
    /// The shortest round trip of a question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trip_ns: Option<u64>,
    /// How far it was behind by the formula of the paper of 2016, (T3 + T1) / 2 - T2, of that question alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paper_ns: Option<i64>,
    /// Number of answers, between the decision on the instant and the end of the round, that contradicted those before
    /// them: the clock was not what it had been.
    #[serde(skip_serializing_if = "is_zero")]
    pub contradictions: u32,
    /// By how much its wall clock, which nothing depends on, was set during the round. Below 0: back.
    #[serde(skip_serializing_if = "is_zero")]
    pub wall_set_ns: i64,
}

/// Fields of [`JournalEvent::StopRequested`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopRequested {
    /// ns since 1970.
    pub time_ns: i64,
    /// `interrupt`, `kill`, `terminate`.
    pub how: String,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// All well.
    Done,
    /// Some task failed, or the front ended with an error outside of tasks.
    Failed,
    /// Stopped by a signal.
    Stopped,
    /// Cut off, and settled by a later run.
    Recovered,
}

/// Fields of [`JournalEvent::RunEnded`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnded {
    /// ns since 1970.
    pub time_ns: i64,
    /// How.
    pub how: RunOutcome,
    /// Tasks whose actions succeeded, or that were needed and have none.
    #[serde(default)]
    pub executed: u32,
    /// Tasks with an action that ended well; missing in journals that an older version has written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<u32>,
    /// Tasks that were up to date.
    #[serde(default)]
    pub not_needed: u32,
    /// Tasks that failed.
    #[serde(default)]
    pub failed: u32,
    /// Tasks that were not run because of those.
    #[serde(default)]
    pub abandoned: u32,
    /// Metadata calls that the hub and the agents made, on all file systems.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata_operations: Option<u64>,
    /// Those of them on the file system of the run's folder; missing in journals that an older version has written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_file_system_operations: Option<u64>,
}
