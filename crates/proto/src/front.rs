//! What the Ruby front and the hub say to each other (docs/design/protocol.md).
//!
//! A message is a MessagePack map of one entry, its name to its fields in order; serde's own form
//! of an enum (one field needs the struct form, or serde leaves the list out). Numbers of tasks,
//! commands and so on are the front's.

mod words;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::agent::OutputDescriptor;
use crate::journal::CommandEnvironment;
use crate::streams::{OpeningId, RecordForm};
use crate::{Figure, Text};

pub use words::{
    ActionOutcome, CiSystem, ClusterKind, FailedTarget, FailureTermination, FileAnswer, Filesystem,
    GateChoice, GateKind, ListOrder, OutputChoice, PlanFormat, PolicyChoice, ProgressMode, RerunOn,
    RoundKind, SettledHow, StdinChoice, StopHow, StrictField, TaskFlag, TaskFlags, TaskKind,
    UnknownTaskFlags, UnknownTaskKind,
};

/// From the front to the hub.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FrontMessage {
    /// First message of a link.
    Hello(String, Box<Settings>),
    /// A set of task properties.
    DefineRequirement(u32, RequirementDefinition),
    /// The actions of some tasks: number (from 1), place of the first one (`FILE:LINE`), source of
    /// all of them when it is known, in a form that neither comments nor white space nor the place
    /// change.
    DefineRule(u32, Text, Option<Text>),
    /// What the actions of some tasks depend on by declaration: number (from 1), names and values.
    DefineParameters(u32, Vec<(Text, Text)>),
    /// What the Rakefile says of files that some tasks write and read: number (from 1), and what.
    DefineFiles(u32, FilesDefinition),
    /// Tasks; a prerequisite has a smaller number than its dependent.
    DefineTasks {
        /// The tasks.
        tasks: Vec<TaskDefinition>,
    },
    /// Tasks begin together or not at all, and are one retry unit: two or more that were defined,
    /// and not wanted yet; whether more of them than there are slots run all the same.
    DefineGang(Vec<u32>, bool),
    /// What streams join; its tasks are a gang.
    DefineComponent {
        /// Which.
        component: ComponentDefinition,
    },
    /// More prerequisites of a task that has not started: task, prerequisites, flags.
    AddPrerequisites(u32, Vec<u32>, TaskFlags),
    /// Run these tasks: invocation, tasks, the task whose action waits.
    Invoke(u32, Vec<u32>, Option<u32>),
    /// An action ended: task, outcome, first line of what went wrong; of one that began without a
    /// lease and never wanted one, when its code ran (from, to; ns of the kernel's monotonic
    /// clock).
    ActionEnded(u32, ActionOutcome, Text, Option<(i64, i64)>),
    /// The action of this task, which is about to end, has made it one that is asked.
    AskAfter {
        /// Which.
        task: u32,
    },
    /// Answer to `AskNeeded`: task, needed, timestamp.
    NeededAnswered(u32, bool, Timestamp),
    /// Answer to `Resolve`: task, found.
    Resolved(u32, bool),
    /// Differences from the front's environment at start: number, set, unset.
    DefineEnvironment(u32, BTreeMap<Text, Text>, Vec<Text>),
    /// Environments below this number will not be used any more (but for 0).
    ForgetEnvironments {
        /// The first number that is kept.
        below: u32,
    },
    /// Relative names start here from now on (absolute).
    ChangeDirectory {
        /// Where.
        directory: Text,
    },
    /// Start a command when the action has a lease: number, the task whose action asks, program,
    /// options, a line to show on stderr when it starts.
    StartCommand(u32, Option<u32>, Program, Option<Box<CommandOptions>>, Option<Text>),
    /// A round of commands that begin at the same instant: number (from 0), and what it is.
    DefineRound(u32, Box<RoundDefinition>),
    /// No command of this worker will come to the gate of the round: round, worker.
    LeaveRound(u32, u32),
    /// What a worker has printed was looked through (`WorkerOutput`): round, worker, figures by name.
    RoundValues(u32, u32, BTreeMap<String, Figure>),
    /// The action is about to wait, or to start a process, by itself.
    WantLease {
        /// Whose.
        task: u32,
    },
    /// What an action itself wrote: task, descriptor (1 or 2), bytes (only with `--output=task` or a live display).
    WriteOutput(Option<u32>, #[serde(with = "words::descriptor")] OutputDescriptor, Text),
    /// The front needs the terminal for itself, or does not any more; each `true` is followed by a `false`.
    HoldDisplay {
        /// Whether it does.
        held: bool,
    },
    /// Send a signal to a command's process group.
    SignalCommand(u32, i32),
    /// Start nothing more and end what runs.
    Stop {
        /// How.
        how: StopHow,
    },
    /// Where nodes share no file system: Ruby code of an action looks for a file that is not on
    /// this machine, or that a command may have changed: question, task, whole name. Answered by
    /// `FileFetched`.
    FetchFile(u32, u32, Text),
    /// The same when it only asks whether there is such a file.
    LookForFile(u32, u32, Text),
    /// The same for a file that it renames, or removes (no new name).
    ChangeFile(u32, u32, Text, Option<Text>),
    /// Ruby code of an action has written a file: task, whole name. The action's next command is to find it.
    FileWritten(u32, Text),
    /// All actions that run wait for the hub or, without a limit, for one another: a number for the answer. A later
    /// message of any kind takes it back.
    Stuck {
        /// Which time.
        turn: u32,
    },
    /// After a dry run: what would run, and why.
    DescribePlan {
        /// Which form.
        format: PlanFormat,
    },
    /// No more invocations.
    Goodbye {
        /// The front ends because of an error or a signal, and has said so.
        failed: bool,
    },
}

/// From the hub to the front.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum HubMessage {
    /// Answer to `Hello`: version, run, jobs.
    Welcome(String, String, u32),
    /// Instead of `Welcome`.
    Refused {
        /// Why.
        reason: Text,
    },
    /// Answer to `FetchFile`, `LookForFile` and `ChangeFile`: question; where the file is; why it cannot be fetched.
    FileFetched(u32, FileAnswer, Option<Text>),
    /// Run the action: task, attempt (from 1), node, devices by resource, whether it has a lease.
    RunAction(u32, u32, Text, Option<BTreeMap<String, Vec<u32>>>, bool),
    /// Answer to `WantLease`.
    Leased {
        /// Whose action.
        task: u32,
    },
    /// Abort the running action of this task.
    AbortAction {
        /// Which.
        task: u32,
    },
    /// The node that this action's commands ran on is gone: end the action, whatever it waits for.
    /// Its `ActionEnded` is still expected, and how it ended does not count.
    ActionLost {
        /// Which.
        task: u32,
        /// For the exception.
        reason: Text,
    },
    /// A task was lost with too many nodes, and is taken to be the reason; it fails. Comes before `InvocationEnded`.
    TaskBlamed {
        /// Which.
        task: u32,
        /// For the exception.
        reason: Text,
    },
    /// A gang can never begin (the reason); its tasks fail, this one first. Comes before `InvocationEnded`.
    GangRefused {
        /// Which.
        task: u32,
        /// For the exception.
        reason: Text,
        /// Slots that it takes and those that there are, where these are too few or its tasks do not fit into them.
        slots: Option<(u64, u64)>,
    },
    /// What the commands of an action have printed into a stream is no good, though the action has ended well: that
    /// counts as its failure. Comes before `AttemptFailed`.
    OutputSpoilt {
        /// Whose.
        task: u32,
        /// For the exception.
        reason: Text,
    },
    /// An action ended well without its target, which counts as a failure; comes before `AttemptFailed`.
    TargetNotMade {
        /// Whose.
        task: u32,
        /// For the exception.
        reason: Text,
    },
    /// A target that was asked for could not be staged out; its task fails, and this is why.
    TargetNotStagedOut {
        /// Its number.
        task: u32,
        /// Why.
        reason: Text,
    },
    /// A task needs more than there is (the message); the run is being stopped.
    NeedsRefused {
        /// Begins with the place in the Rakefile.
        reason: Text,
    },
    /// No node is left to run on (the reason); the run is being stopped.
    NodesGone {
        /// What became of them.
        reason: Text,
    },
    /// Call `needed?` and `timestamp` of this task.
    AskNeeded {
        /// Which.
        task: u32,
    },
    /// Look up this task's prerequisites again.
    Resolve {
        /// Which.
        task: u32,
    },
    /// A command ended: command, wait status, process, captured output, start error, usage.
    CommandEnded(u32, i32, i32, Option<Text>, Option<Text>, Usage),
    /// All commands of a round are over: round, workers that were late, whether it was given up.
    RoundEnded(u32, u32, bool),
    /// The command of a worker is over whose figures are collected: round, worker, the end of what it has printed.
    WorkerOutput(u32, u32, Text),
    /// A task was settled (only when the settings ask for the trace).
    TaskSettled(u32, SettledHow),
    /// An attempt failed: task, attempt, whether it will be tried again.
    AttemptFailed(u32, u32, bool),
    /// The action ended well but did not make its target.
    TargetMissing {
        /// Which.
        task: u32,
    },
    /// An invocation ended: invocation, failed tasks, abandoned tasks.
    InvocationEnded(u32, Vec<u32>, Vec<u32>),
    /// What commands wrote cannot be shown (the reason); the run is being stopped.
    OutputLost {
        /// As the kernel says it.
        reason: Text,
    },
    /// Answer to `DescribePlan`, in pieces: bytes, whether they are the last.
    Plan(Text, bool),
    /// Answer to `Stuck`, as soon as it is so: nothing that the hub knows of will ever happen by itself.
    NothingLeft {
        /// Which time.
        turn: u32,
    },
    /// Answer to each `HoldDisplay` that is true: all is written, and the display is off the terminal.
    DisplayHeld {},
    /// For the user's eyes.
    Warning {
        /// What.
        text: Text,
    },
}

/// The time of a task that its class answers for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timestamp {
    /// Before all times.
    Early,
    /// Seconds since 1970, ns after them.
    At(i64, u32),
    /// After all times.
    Late,
    /// When it is asked for.
    Now,
}

/// One task: number, kind, flags, name, requirement, prerequisites, rule (0: not known), parameters (0: none), files
/// (0: nothing is declared).
pub type TaskDefinition = (u32, TaskKind, TaskFlags, Text, u32, Vec<u32>, u32, u32, u32);

/// Files that the actions of some tasks write beside their target, and read beside their prerequisites.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FilesDefinition {
    /// Patterns as `rakuda_core::files` reads them. `None`: the Rakefile does not say.
    pub outputs: Option<Vec<Text>>,
    /// Likewise.
    pub inputs: Option<Vec<Text>>,
    /// `FILE:LINE` of the statement.
    pub place: Text,
}

/// Tasks that streams join, directly or over others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ComponentDefinition {
    /// Their numbers.
    pub members: Vec<u32>,
    /// What joins them.
    pub streams: Vec<StreamDefinition>,
    /// They run one after the other, over spools.
    pub spooled: bool,
}

/// One stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamDefinition {
    /// As the Rakefile has it.
    pub name: Text,
    /// What a record is.
    pub record: RecordForm,
    /// Maximum bytes that wait for readers; 0: the usual ones.
    pub window: u64,
    /// Maximum bytes of the spool of each writer; 0: the usual ones.
    pub spool_max: u64,
    /// Maximum bytes that go to disk for slow readers; 0: these hold up the others.
    pub spill: u64,
    /// When all readers have left, what writers still write is read and dropped.
    pub drain: bool,
    /// Whose stdout goes in.
    pub writers: Vec<u32>,
    /// Whose stdin comes from it.
    pub readers: Vec<u32>,
    /// `FILE:LINE` of the statement.
    pub place: Text,
    /// What the Rakefile says of tasks: costs, volumes, frequencies, patterns.
    pub meta: BTreeMap<Text, BTreeMap<String, String>>,
}

/// Resources that a command used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// From start to exit, ns.
    pub wall_ns: u64,
    /// CPU time in user mode of it and its waited-for children, us.
    pub user_us: u64,
    /// CPU time in the kernel, us.
    pub system_us: u64,
    /// Largest resident set of any one process, KiB; 0: not above the agent's own, which hides it.
    pub max_rss_kib: u64,
    /// Bytes that came from storage.
    pub read_bytes: u64,
    /// Bytes of pages made dirty on a file system with storage.
    pub write_bytes: u64,
}

/// What runs: a list of words, or a line for Ruby's rule of when a shell is needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Program {
    /// Executed directly; the first word is looked up in PATH.
    Words(Vec<Text>),
    /// A command line.
    Line(Text),
}

/// Everything unusual about a command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommandOptions {
    /// Where it runs. `None`: the run's directory.
    pub directory: Option<Text>,
    /// Number of a defined environment.
    pub environment: u32,
    /// Start from an empty environment.
    pub clear_environment: bool,
    /// What the program sees as its own name.
    pub argv0: Option<Text>,
    /// File creation mask.
    pub umask: Option<u32>,
    /// Bring stdout back instead of showing it.
    pub capture: bool,
    /// In order: descriptor (0, 1, 2) and where it goes.
    pub redirects: Vec<(i32, RedirectTarget)>,
    /// Its stdin and stdout are those of a task that streams join; said by the hub, not by the front.
    pub streams: Option<(OpeningId, u32)>,
    /// The nodes that its task has at once, with the slots on each; the hub says so. Its agent
    /// tells the command in RAKUDA_NODES and in the file that RAKUDA_HOSTFILE names.
    pub hosts: Vec<(Text, u32)>,
    /// Memory that all of its processes may have together before they are killed; 0: as much as they like; the hub
    /// says so.
    pub memory_bytes_max: u64,
    /// The command begins with others, when all of them are ready.
    pub gate: Option<GateOptions>,
    /// Files of this machine that it reads where it runs (absolute). A word of the command that is one of them is what
    /// its node calls that file. The agent does not get this.
    pub files: Vec<Text>,
    /// What it runs in: its script (absolute) is executed with the command as its arguments. The agent does not get
    /// this.
    pub inside: Option<Box<CommandEnvironment>>,
}

/// At which gate a command waits (docs/design/synchronised-start.md).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GateOptions {
    /// A defined round.
    pub round: u32,
    /// Which worker of it, from 0.
    pub worker: u32,
    /// What it is held by.
    pub hold: GateChoice,
    /// Time from the round's instant to its begin.
    pub offset_ns: i64,
    /// Its number among the workers of the round on its node, from 0.
    pub local_rank: u32,
    /// It is bound to the processor of that number, modulo those that there are; the hub says so.
    pub pin: bool,
    /// What it sees to before it waits; not with the gates `call` and `none`.
    pub cache: Option<CacheOptions>,
}

/// Files that are to be out of the page cache of a worker's node, or in it, before it waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheOptions {
    /// Which of both.
    pub state: CacheState,
    /// Relative to where the command runs, or absolute. Those that do not exist do not count.
    pub files: Vec<Text>,
}

/// How much of files is to be in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheState {
    /// Nothing.
    Cold,
    /// All.
    Warm,
}

impl CacheState {
    /// As in the journal.
    pub fn word(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
        }
    }
}

/// Where a descriptor goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RedirectTarget {
    /// To `/dev/null`, or from it.
    Null,
    /// Nowhere: the command has no such descriptor.
    Close,
    /// Where another descriptor of the command goes.
    Fd(i32),
    /// Path, mode, permissions.
    File(Text, OpenMode, u32),
}

/// How a file is opened: the modes of fopen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpenMode {
    /// For reading.
    #[serde(rename = "r")]
    Read,
    /// For writing; it is made, or emptied.
    #[serde(rename = "w")]
    Write,
    /// For writing at its end; it is made if there is none.
    #[serde(rename = "a")]
    Append,
    /// For both.
    #[serde(rename = "r+")]
    ReadWrite,
    /// For both; it is made, or emptied.
    #[serde(rename = "w+")]
    WriteRead,
    /// For both, writing at its end; it is made if there is none.
    #[serde(rename = "a+")]
    AppendRead,
}

/// A synchronised round, as the front defines it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RoundDefinition {
    /// What it is a round of.
    pub sync: Text,
    /// From 0, of that.
    pub number: u32,
    /// The parameter of its programs, if they have one.
    pub parameter: Option<Text>,
    /// What it is for.
    pub kind: RoundKind,
    /// From 1 when it repeats a round with a worker that was late.
    pub repeat: u32,
    /// How many commands begin together.
    pub workers: u32,
    /// What they are held by.
    pub hold: GateChoice,
    /// Each worker stays on one processor, the same in every round. Where processors are too few, workers share them
    /// evenly.
    pub pin: bool,
    /// Timeout for a worker to reach the gate after its start, ms.
    pub ready_ms: u32,
    /// Time from the instant to the SIGTERM that all workers get, ms. `None`: they end by themselves.
    pub stop_ms: Option<u32>,
    /// How the files that its workers name are to be in memory.
    pub cache: Option<CacheState>,
    /// Names of the figures that are looked for in what its workers print; `*`: all numbers of a JSON object.
    pub collect: Vec<String>,
}

/// Task properties (`desc "ncore=2 ..."`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequirementDefinition {
    /// Cores that it keeps; with `nodes`, on each of them.
    pub cores: u32,
    /// Different nodes that it has at once, if the Rakefile says so.
    pub nodes: Option<u32>,
    /// Runs alone on its node.
    pub exclusive: bool,
    /// Holds a node free until it fits.
    pub reserve: bool,
    /// May be taken by a node other than its candidates.
    pub steal: bool,
    /// Attempts after the first. `None`: the run's setting.
    pub retry: Option<u32>,
    /// Time from an attempt that failed to the next, ms.
    pub retry_delay_ms: u64,
    /// The properties that hold after an attempt that failed: the number of a definition that came before.
    pub after_failure: Option<u32>,
    /// Not of the first attempt: what there is too little of need not be said, since it may never come to that.
    pub later: bool,
    /// Memory that it keeps.
    pub memory_bytes: u64,
    /// Devices by resource name.
    pub resources: BTreeMap<String, u32>,
    /// Nodes that it may use (globs). Empty: all.
    pub allow: Vec<String>,
    /// Nodes that it may not use (globs).
    pub deny: Vec<String>,
    /// Which list has the last word.
    pub order: ListOrder,
    /// A condition that its node fulfils (docs/design/information.md, expressions).
    #[serde(rename = "where")]
    pub condition: Option<String>,
    /// Of nodes that suit it takes the one of which this is the highest.
    pub prefer: Option<String>,
    /// Nodes that hold its input come before others.
    pub locality: bool,
    /// Fields of which all must be there; of others the task gets what there is.
    pub strict: Vec<StrictField>,
    /// The first task that has these properties.
    pub task: Text,
    /// Where the Rakefile says so (`FILE:LINE`), when it is known.
    pub place: Option<Text>,
}

impl Default for RequirementDefinition {
    fn default() -> Self {
        Self {
            cores: 1,
            nodes: None,
            exclusive: false,
            reserve: false,
            steal: true,
            retry: None,
            retry_delay_ms: 0,
            after_failure: None,
            later: false,
            memory_bytes: 0,
            resources: BTreeMap::new(),
            allow: Vec::new(),
            deny: Vec::new(),
            order: ListOrder::DenyAllow,
            condition: None,
            prefer: None,
            locality: true,
            strict: Vec::new(),
            task: Text(Vec::new()),
            place: None,
        }
    }
}

/// The run's settings (`Hello`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Cores to use on this node; 0: all.
    pub jobs: u32,
    /// Gangs with more tasks than there are slots run all the same.
    pub oversubscribe: bool,
    /// How messages of streams go between nodes.
    #[serde(default)]
    pub stream_route: crate::streams::RouteWish,
    /// Timeout for a cycle of streams in which nothing moves, until that is said, ms.
    pub stream_stall_ms: u32,
    /// The order of ready tasks.
    pub policy: PolicyChoice,
    /// What a failure does to others.
    pub failure_termination: FailureTermination,
    /// What happens to targets of failed attempts.
    pub failed_target: FailedTarget,
    /// Attempts after the first.
    pub retry: u32,
    /// When output is shown.
    pub output: OutputChoice,
    /// Lines begin with the task's name.
    pub prefix: bool,
    /// The log is read by this system: groups and annotations in its form.
    pub ci: Option<CiSystem>,
    /// Take every file task as out of date.
    pub build_all: bool,
    /// Actions only say what they would do.
    pub dry_run: bool,
    /// Where progress is shown.
    pub progress: ProgressMode,
    /// Colours may be used.
    pub colour: bool,
    /// A target that an action did not make is a failure.
    pub strict: bool,
    /// Say at the end of a run in which all went well what it has done.
    pub farewell: bool,
    /// Send `TaskSettled`.
    pub trace: bool,
    /// Between SIGINT, SIGTERM and SIGKILL, ms.
    pub grace_ms: u32,
    /// Where relative names start.
    pub directory: Text,
    /// For the policies that draw lots.
    pub seed: u64,
    /// Where the run's folder goes. `None`: `.rakuda/runs`.
    pub log_dir: Option<Text>,
    /// Memory that tasks may ask for; 0: what the machine has.
    pub memory_bytes: u64,
    /// Commands that have more memory than their task asks for are killed.
    pub enforce_memory: bool,
    /// Devices that tasks may ask for.
    pub resources: BTreeMap<String, u32>,
    /// Where commands read from.
    pub stdin: StdinChoice,
    /// Keep a record of attempts.
    pub record: bool,
    /// What the user typed.
    pub command_line: Vec<Text>,
    /// All words that start the run again, where that is no call of rakuda. Empty: it is one.
    pub resume: Vec<Text>,
    /// The Rakefile, relative to `directory`.
    pub rakefile: Text,
    /// Runs that are kept.
    pub runs_kept: u32,
    /// Bytes of journals and logs that are kept.
    pub runs_bytes: u64,
    /// Reasons to run beyond rake's.
    pub rerun_on: Vec<RerunOn>,
    /// For `env`: the chosen variables. `None`: not set.
    pub rerun_environment: BTreeMap<String, Option<Text>>,
    /// For `content`: larger files are compared by size and time.
    pub content_bytes_max: u64,
    /// Queue tasks at the nodes that hold their input.
    pub locality: bool,
    /// An idle node takes tasks from another node's queue.
    pub stealing: bool,
    /// Time after the start at which all nodes end, ms. 0: they do not.
    pub walltime_ms: u64,
    /// Time between two samples of a node, where information about nodes is wanted, ms.
    pub sample_ms: u32,
    /// The file that names programs which provide more of it; absolute.
    pub providers: Option<Text>,
    /// A service from which values of nodes come that agents would else sample.
    pub information_service: Option<InformationServiceSettings>,
    /// The nodes. `None`: this machine alone.
    pub cluster: Option<ClusterSettings>,
}

/// Where the nodes of a run come from, and what they are like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterSettings {
    /// Where they come from.
    pub kind: ClusterKind,
    /// Nodes that are asked for, or that a launch template starts.
    pub nodes: Option<u32>,
    /// The Slurm job whose nodes are used. `None`: one is asked for.
    pub job: Option<String>,
    /// For `sbatch`.
    pub batch_options: Vec<Text>,
    /// A command line that starts one agent per node.
    pub launch: Option<Text>,
    /// Nodes may join.
    pub joinable: bool,
    /// Where agents find the hub: `HOST` or `HOST:PORT`.
    pub listen: Option<Text>,
    /// Time without a task after which a node that came by itself is let go, ms. `None`: never.
    pub idle_ms: Option<u64>,
    /// The hosts: a file in Pwrake's form or in TOML, absolute.
    pub host_file: Option<Text>,
    /// For ssh, before its own options.
    pub ssh_options: Vec<Text>,
    /// Maximum number of hosts that are connected at the same time.
    pub connections: u32,
    /// Maximum number of cores of each node. 0: all that it has or that are named.
    pub cores_max: u32,
    /// Variables that commands on the nodes get.
    pub pass_environment: BTreeMap<Text, Text>,
    /// What they share.
    pub filesystem: Filesystem,
    /// The run's directory on the nodes. `None`: the same as here.
    pub work_directory: Option<Text>,
    /// Silence after which a node is lost, ms.
    pub silence_ms: u32,
    /// Timeout for a node to see what another one has made, ms.
    pub visible_ms: u32,
    /// Failed attempts in a row after which a node is drained; 0: never.
    pub host_failures: u32,
    /// For `Filesystem::Local`.
    pub staging: StagingSettings,
}

/// How files come to nodes that share no file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StagingSettings {
    /// Maximum bytes of the copies on a node. 0: half of what is free there.
    pub cache_bytes: u64,
    /// All targets are staged out, not only those that are asked for.
    pub all_home: bool,
    /// Targets that are staged out, too: globs of names.
    pub home: Vec<Text>,
    /// Secondary files and undeclared inputs of tasks that declare none are guessed.
    pub guess_files: bool,
}

/// An information service (docs/reference/information.md).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InformationServiceSettings {
    /// `http://HOST:PORT`.
    pub url: String,
    /// The file with its token, absolute.
    pub token_file: Text,
}

impl Default for StagingSettings {
    fn default() -> Self {
        Self { cache_bytes: 0, all_home: false, home: Vec::new(), guess_files: true }
    }
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            kind: ClusterKind::Ssh,
            nodes: None,
            job: None,
            batch_options: Vec::new(),
            launch: None,
            joinable: false,
            listen: None,
            idle_ms: None,
            host_file: None,
            ssh_options: Vec::new(),
            connections: 16,
            cores_max: 0,
            pass_environment: BTreeMap::new(),
            filesystem: Filesystem::Shared,
            work_directory: None,
            silence_ms: 10_000,
            visible_ms: 30_000,
            host_failures: 0,
            staging: StagingSettings::default(),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            jobs: 0,
            oversubscribe: false,
            stream_route: crate::streams::RouteWish::Auto,
            stream_stall_ms: 30_000,
            policy: PolicyChoice::LifoHrf,
            failure_termination: FailureTermination::Wait,
            failed_target: FailedTarget::Rename,
            retry: 0,
            output: OutputChoice::Line,
            prefix: false,
            ci: None,
            build_all: false,
            dry_run: false,
            progress: ProgressMode::Off,
            colour: false,
            strict: false,
            farewell: false,
            trace: false,
            grace_ms: 5000,
            directory: Text::from("."),
            seed: 0,
            log_dir: None,
            memory_bytes: 0,
            enforce_memory: false,
            resources: BTreeMap::new(),
            stdin: StdinChoice::Null,
            record: true,
            command_line: Vec::new(),
            resume: Vec::new(),
            rakefile: Text::default(),
            runs_kept: 100,
            runs_bytes: 4 << 30,
            rerun_on: Vec::new(),
            rerun_environment: BTreeMap::new(),
            content_bytes_max: 64 << 20,
            locality: true,
            stealing: true,
            walltime_ms: 0,
            sample_ms: 250,
            providers: None,
            information_service: None,
            cluster: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{FrameReader, FrameWriter};

    /// What Ruby's msgpack writes for `{"StartCommand" => [7, nil, "true", nil, nil]}`.
    #[test]
    fn a_message_packed_by_ruby_is_read() {
        let mut payload = vec![0x81, 0xac];
        payload.extend_from_slice(b"StartCommand");
        payload.extend_from_slice(&[0x95, 7, 0xc0, 0xa4]);
        payload.extend_from_slice(b"true");
        payload.extend_from_slice(&[0xc0, 0xc0]);
        let message: FrontMessage = rmp_serde::from_slice(&payload).unwrap();
        let expected =
            FrontMessage::StartCommand(7, None, Program::Line(Text::from("true")), None, None);
        assert_eq!(message, expected);
    }

    #[test]
    fn a_message_of_one_field_is_a_list_too() {
        let bytes = rmp_serde::to_vec(&HubMessage::AskNeeded { task: 5 }).unwrap();
        assert_eq!(bytes, [b"\x81\xa9AskNeeded\x91".as_slice(), &[5]].concat());
    }

    #[test]
    fn every_form_of_redirection_survives_the_wire() {
        let options = CommandOptions {
            redirects: vec![
                (0, RedirectTarget::Null),
                (1, RedirectTarget::File(Text::from("a b"), OpenMode::Write, 0o644)),
                (2, RedirectTarget::Fd(1)),
            ],
            ..CommandOptions::default()
        };
        let message = FrontMessage::StartCommand(
            1,
            Some(2),
            Program::Words(vec![Text::from("ls"), Text(vec![0xff])]),
            Some(Box::new(options)),
            Some(Text::from("ls")),
        );
        let mut writer = FrameWriter::default();
        writer.push(&message);
        let mut bytes = Vec::new();
        writer.finish(&mut bytes);
        let mut reader = FrameReader::default();
        reader.buffer_mut().extend_from_slice(&bytes);
        let mut messages: Vec<FrontMessage> = Vec::new();
        reader.drain(&mut messages).unwrap();
        assert_eq!(messages, [message]);
    }
}
