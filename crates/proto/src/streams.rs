//! What hub and agent say about streams between tasks (docs/design/streams.md).

use serde::{Deserialize, Serialize};

use crate::Text;

/// One attempt of a component: its streams are open from then to its end. Numbered by the hub,
/// unique in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OpeningId(pub u32);

/// What a record of a stream is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordForm {
    /// Ends with a newline.
    #[default]
    Line,
    /// Ends with a zero byte.
    Nul,
    /// Has this number of bytes.
    Bytes(u32),
    /// Any bytes.
    Raw,
}

/// Where the bytes of a writer come from, or those for a reader go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamEnd {
    /// A task's commands: its number.
    Task(u32),
    /// A spool: its file; where that is in no folder, the agent keeps it in one without a name.
    Spool(Text),
    /// An edge to or from another host: its number in the opening.
    Hop(u32),
}

/// One stream of an opening.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamPlan {
    /// As the Rakefile has it.
    pub name: Text,
    /// What a record is.
    pub record: RecordForm,
    /// Maximum bytes that wait for readers; 0: the usual ones.
    pub window: u64,
    /// Maximum bytes of each spool; 0: the usual ones.
    pub spool_bytes_max: u64,
    /// When all readers have left, what writers still write is read and dropped.
    pub drain: bool,
    /// Writers are read one after the other.
    pub in_turn: bool,
    /// Whose stdout goes in.
    pub writers: Vec<StreamEnd>,
    /// Whose stdin comes from it.
    pub readers: Vec<StreamEnd>,
    /// Of a stream in a cycle: time without a byte after which it is reported, ms. `None`: it is in no cycle.
    pub stall_ms: Option<u32>,
    /// What a slow reader has not read goes to disk, where it would hold up another one.
    pub spill: Option<SpillPlan>,
}

/// Where what slow readers have not read goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpillPlan {
    /// A folder of the node.
    pub folder: Text,
    /// Maximum bytes on disk.
    pub bytes_max: u64,
}

/// One end of an edge between two hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopPlan {
    /// Its number in the opening.
    pub edge: u32,
    /// What a connection for it begins with: 16 bytes, known to its two hosts and the hub.
    pub key: Text,
    /// The other host, for people.
    pub peer: Text,
}

/// The edges that end on one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopSet {
    /// What this host shows others, and they it (`rakuda_link::credentials`).
    pub credentials: Text,
    /// Edges.
    pub hops: Vec<HopPlan>,
    /// Timeout for the hub to find out, after an edge broke, that the other host is lost, ms.
    pub patience_ms: u32,
}

/// Bytes and records of one end of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndAccount {
    /// Which.
    pub end: StreamEnd,
    /// Bytes that it wrote into the stream, or read.
    pub bytes: u64,
    /// Records of these.
    pub records: u64,
    /// Of a writer: a separator was added to its last record. Of a reader: it left before the end.
    pub is_special: bool,
    /// Of a writer: bytes that it wrote besides, and that were dropped, as all readers had left.
    pub dropped: u64,
}

/// What went through a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamAccount {
    /// As the Rakefile has it.
    pub name: Text,
    /// Of each writer.
    pub writers: Vec<EndAccount>,
    /// Of each reader.
    pub readers: Vec<EndAccount>,
    /// Maximum bytes of memory that it took, on all hosts together.
    pub memory_bytes_max: u64,
    /// Bytes that went to disk for slow readers, on all hosts together.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub spilled_bytes: u64,
    /// The most of these that was on disk at one time, with checksums; on all hosts together.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub spilled_bytes_max: u64,
    /// Its edges between hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<HopAccount>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What lies between two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineKind {
    /// They are in one group.
    Lan,
    /// They are in two.
    Wan,
}

/// How two hosts were joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HopRoute {
    /// The one has connected to the other.
    Direct,
    /// Over the hub's host.
    Hub,
}

/// How the messages of a stream are to go between hosts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteWish {
    /// As it costs least.
    #[default]
    Auto,
    /// Over the representatives of groups.
    Relay,
    /// From the writer's host to each reader's.
    Direct,
    /// Over the host of one reader.
    Conventional,
}

/// How they go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteKind {
    /// Over the representatives of groups.
    Relay,
    /// From the writer's host to each reader's.
    Direct,
    /// Over the host of one reader.
    Conventional,
    /// Over the representatives of some groups, and directly to the hosts of the others.
    Mixed,
}

/// What a route would cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteCost {
    /// Which.
    pub route: RouteKind,
    /// For each message: the most that one host or line is busy, ns.
    pub period_ns: u64,
    /// From the writer to the last reader, ns.
    pub delay_ns: u64,
}

/// The route of a stream over several hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamRoute {
    /// That was taken.
    pub route: RouteKind,
    /// What was asked for.
    pub wish: RouteWish,
    /// Edges within groups.
    pub lan: u32,
    /// Edges between groups.
    pub wan: u32,
    /// Of a mixed one: the groups whose representatives pass on, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relayed: Vec<Text>,
    /// What was weighed.
    pub costs: Vec<RouteCost>,
    /// There and back between the two groups that are farthest from each other, as measured, ns. `None`: it was not
    /// known, and taken as it usually is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_ns: Option<u64>,
    /// Processor time that a message takes at each end of an edge, as measured on the slowest of its hosts, ns. `None`:
    /// it was not known, and taken as usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_ns: Option<u64>,
    /// What the slowest line within a group of its hosts carries in a second, as measured, bytes. `None`: none was, and
    /// all were taken as they usually are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lan_bytes_per_s: Option<u64>,
    /// Likewise between two groups of its hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wan_bytes_per_s: Option<u64>,
    /// What its tasks are said to write and read in a second, bytes. `None`: it was taken as usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared_bytes_per_s: Option<u64>,
    /// Messages in 1,000 s that follow from what the Rakefile says. `None`: it says nothing of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared_per_1000_s: Option<u64>,
    /// What went in a second, bytes, when it was changed to. `None`: it was taken at the begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_bytes_per_s: Option<u64>,
    /// Messages in 1,000 s that were taken to be that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_per_1000_s: Option<u64>,
    /// A writer is said to send many messages at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_bursts: bool,
}

/// What went over an edge between two hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopAccount {
    /// The number of the node that sent.
    pub from: u32,
    /// And of that which received.
    pub to: u32,
    /// What lies between.
    pub line: LineKind,
    /// How they were joined.
    pub way: HopRoute,
    /// Bytes sent.
    pub bytes: u64,
    /// Records of these.
    pub records: u64,
    /// The receiver left before the end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
}

/// From the hub to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamRequest {
    /// Make pipes, and pass on what comes. Answered by `StreamEvent::Ended`, when all is over or something is wrong.
    /// With edges to other hosts `StreamEvent::Listening` comes first.
    Open(OpeningId, Vec<StreamPlan>, Option<Box<HopSet>>),
    /// Connect an edge that is written into here: opening, edge, addresses of the other host. Answered by
    /// `StreamEvent::Dialled`.
    Dial(OpeningId, u32, Vec<Text>),
    /// A task's commands have ended: opening, task, whether well.
    EndMember(OpeningId, u32, bool),
    /// Close all ends at once. Answered by `StreamEvent::Interrupted`, unless that or `Ended` was sent before.
    Close(OpeningId),
    /// Make these streams, which follow those of the same tasks that are open, and wait. Answered by
    /// `StreamEvent::Listening` and `StreamEvent::Prepared`. Until `Switch` or `Keep` comes no reader sees an end.
    Reroute(OpeningId, Vec<StreamPlan>, Option<Box<HopSet>>),
    /// Writers go on in the streams that were made last, and readers when they have read all of those before. Answered
    /// by `StreamEvent::Switched`.
    Switch(OpeningId),
    /// All stays with the streams that were open before.
    Keep(OpeningId),
    /// Nobody reads these spools any more.
    Forget(Vec<Text>),
}

/// Why streams cannot end well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamFault {
    /// For people, with `task N` where a task is meant.
    pub words: Text,
    /// The task whose commands are to blame, though they have ended well. `None`: none are.
    pub task: Option<u32>,
}

impl From<String> for StreamFault {
    fn from(words: String) -> Self {
        Self { words: Text::from(words), task: None }
    }
}

/// A process that holds what a task's commands printed to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StdoutHolder {
    /// Its number on its node.
    pub process: u32,
    /// Its words, with blanks between them.
    pub command: Text,
}

/// From an agent to the hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamEvent {
    /// All readers are at their ends or have left; or why that will never be.
    Ended(OpeningId, Vec<StreamAccount>, Option<StreamFault>),
    /// What had gone through when the first of the node's tasks did not end well, or all was closed; in place of
    /// `Ended`, which may follow only with a fault.
    Interrupted(OpeningId, Vec<StreamAccount>),
    /// All readers of a stream have left: the pipes of its writers are about to be closed. The stream's name.
    Unread(OpeningId, Text),
    /// A task has ended, and its stdout is still held: by these processes, as far as they can be seen. Sent each time
    /// that these are others. `None` comes last, when no process holds it any more.
    StdoutHeld(OpeningId, u32, Option<Vec<StdoutHolder>>),
    /// Edges can be connected: over TCP at these addresses, and on the host itself at this abstract socket.
    Listening(OpeningId, Vec<Text>, Text),
    /// The other host of an edge was reached (`None`), or why it was not.
    Dialled(OpeningId, u32, Option<Text>),
    /// All streams of the node in which nothing has moved for `StreamPlan::stall_ms`, each time that these are
    /// others, or are otherwise.
    Stalled(OpeningId, Vec<StalledStream>),
    /// Streams to change to are made; or why they cannot be.
    Prepared(OpeningId, Option<Text>),
    /// All readers here have read all that went the old way.
    Switched(OpeningId),
    /// What has gone in so far, of the streams that have writers on the node; no more often than once a second.
    Passed(OpeningId, Vec<StreamPassed>),
    /// A spool is not there, or not what was written: its file. `Ended` follows.
    SpoolBad(OpeningId, Text),
    /// Processor time that a message takes on its way over an edge at this end, ns. Each node with edges sends it once.
    MessageCost(u64),
    /// How fast lines were seen to be by edges that end on the node: the number of each edge, and bytes a second; no
    /// more often than once a second.
    LineRates(OpeningId, Vec<(u32, u64)>),
}

/// A stream on one node in which nothing moves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StalledStream {
    /// As the Rakefile has it.
    pub name: Text,
    /// How it is.
    pub still: StillForm,
}

/// How a stream is on one node while nothing moves in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StillForm {
    /// Nothing will move any more.
    Over,
    /// All that was written is read.
    Empty,
    /// It has bytes that are not read.
    Unread,
    /// Its writers wait.
    Full,
}

/// What the writers of one node have written so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamPassed {
    /// As the Rakefile has it.
    pub name: Text,
    /// Bytes, with separators that were added.
    pub bytes: u64,
    /// Whole records.
    pub records: u64,
}
