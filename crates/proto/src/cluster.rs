//! What the hub and an agent elsewhere say to each other over a link, on top of [`crate::agent`].
//!
//! Encoded as MessagePack; both ends are one version. The frames around it are in `docs/design/clusters.md`.

use serde::{Deserialize, Serialize};

use crate::Text;
use crate::agent::{AgentEvent, AgentRequest, CommandId};
use crate::files::FileVersion;
use crate::journal::FileIdentity;

/// The first thing that an agent says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Of its program; another than the hub's is refused.
    pub version: String,
    /// Which node it is, by what it was given when it was launched. Empty over ssh: the hub knows.
    pub token: Text,
    /// Its link's session, drawn by the agent; the same when it resumes.
    pub session: u64,
    /// The last data frame that it has taken; 0 if there is none.
    pub received: u64,
    /// What the node has.
    pub facts: NodeFacts,
}

/// What an agent knows of its node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// As uname(2) says.
    pub host: Text,
    /// That this process may use.
    pub cores: u32,
    /// That this process may use: of the machine, or of its control group where that is less.
    pub memory_bytes: u64,
    /// Whether cachestat(2) is there.
    pub cachestat: bool,
    /// Below which folders of runs lie that have this node's own files, absolute (`${TMPDIR:-/tmp}/rakuda-UID`).
    pub scratch: Text,
    /// What is free there, for ordinary users.
    pub scratch_bytes_free: u64,
}

/// The hub's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// Name of the run.
    pub run: String,
    /// The last data frame that the hub has taken; 0 if there is none.
    pub received: u64,
    /// What the agent is to be like.
    pub settings: AgentSettings,
}

/// What a run asks of its agents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSettings {
    /// Where commands run that name no directory: absolute, or with `own_folder` below the node's scratch.
    pub directory: Text,
    /// That folder is the node's own and shared with nobody: it is made where it is missing, and
    /// folders of commands in it.
    pub own_folder: bool,
    /// Collect what commands write.
    pub collect_output: bool,
    /// Variables of the user that commands get (`PASS_ENV`), and those of the run itself.
    pub environment: Vec<(Text, Text)>,
    /// Maximum time without a word from the hub, ms; then it counts as gone. The hub bears twice as much.
    pub silence_ms: u32,
    /// Maximum time that commands live on after the link was lost, ms.
    pub orphan_ms: u32,
    /// What `directory` is called in Gfarm, when it is to be mounted where it is not; `None` if it is there.
    pub gfarm_path: Option<Text>,
}

/// From the hub to an agent elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToAgent {
    /// As for an agent in the hub's process.
    Request(AgentRequest),
    /// A signal to all process groups that still have members; answered by `Signalled`.
    SignalAll {
        /// As in kill(2); 0: only count.
        signal: i32,
    },
    /// The run is at its end, and nothing of it may be left: kill all that has ever been started
    /// below the agent. Answered by `AllEnded`.
    EndAll,
    /// End what these commands have left behind, as far as it is known to be theirs; answered by `LeftEnded`.
    EndLeft {
        /// The number of the probe, for the answer.
        probe: u32,
        /// Commands that have exited.
        commands: Vec<CommandId>,
    },
    /// Stop or go on reading what commands write.
    PauseOutput {
        /// Stop.
        paused: bool,
    },
    /// Make these folders, before what is asked for next is begun. The command that needs what
    /// cannot be made reports it.
    MakeFolders {
        /// Relative to the run's directory, or absolute.
        paths: Vec<Text>,
    },
    /// Do away with what a failed attempt has left, before what is asked for next is begun.
    PutAway {
        /// Relative to the run's directory, or absolute.
        path: Text,
        /// To this name's `._fail_`; otherwise it is removed.
        rename: bool,
        /// What was there before: then the attempt has not touched it, and it stays.
        unless: Option<FileVersion>,
    },
    /// Look at these files now; answered by `Looked`, in the order of the probes.
    Look {
        /// The number of the probe, for the answer.
        probe: u32,
        /// Relative to the run's directory, or absolute.
        paths: Vec<Text>,
    },
    /// Sample this node at this period from now on, and tell how it is on the state lane: all at
    /// first, then what is new.
    Sample {
        /// Time between two samples, ms; 0 ends sampling.
        period_ms: u32,
        /// Programs that provide more.
        providers: Vec<ProviderProgram>,
        /// Folders whose file systems are sampled beside those that keep data, absolute.
        folders: Vec<String>,
    },
    /// Have these providers sample now, too.
    SampleNow {
        /// By name; empty: all.
        only: Vec<String>,
    },
    /// Tell these attributes as they are from now on, however little they have moved.
    TellExactly {
        /// All such attributes, by name: this list takes the place of the one before.
        attributes: Vec<String>,
    },
    /// What time is it? Answered by `Time`, before what is asked for next is begun.
    TellTime {
        /// The number of the probe, for the answer.
        probe: u32,
    },
    /// Look at a target, and for what was written beside it; answered by `LookedAround`.
    LookAround {
        /// The number of the probe, for the answer.
        probe: u32,
        /// The target: relative to the run's directory, or absolute.
        path: Text,
        /// What to look for.
        searches: Vec<SecondarySearch>,
    },
    /// What of these files is in memory; answered by `Resident`.
    AskResident {
        /// The number of the probe, for the answer.
        probe: u32,
        /// Relative to the run's directory, or absolute, and as the hub knows them: what the node
        /// has seen in that state it need not look at.
        files: Vec<(Text, FileVersion)>,
    },
    /// Wait until these files are seen as they are known to be; answered by `Seen`.
    Expect {
        /// The number of the probe, for the answer.
        probe: u32,
        /// With what their makers vouched for.
        files: Vec<(Text, FileIdentity)>,
        /// A target that another host has put away: its name is to be free here, too.
        gone: Option<Text>,
        /// Timeout, ms.
        limit_ms: u32,
    },
}

/// An external provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderProgram {
    /// Its own.
    pub name: String,
    /// Its words.
    pub command: Vec<String>,
    /// From the beginning of a run to that of the next, ms.
    pub period_ms: u64,
    /// Timeout for a run of it, ms; `None` if it is long-lived.
    pub limit_ms: Option<u64>,
}

/// Metadata calls (docs/glossary.md).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operations {
    /// On all file systems.
    pub all: u64,
    /// Those of them on the file system of the run's folder, as the machine has it that made them.
    pub run: u64,
}

impl std::ops::AddAssign for Operations {
    fn add_assign(&mut self, other: Self) {
        self.all += other.all;
        self.run += other.run;
    }
}

/// What to look for beside a target; see docs/design/staging.md.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecondarySearch {
    /// Ordinary files in its folder whose names begin as its own.
    LikeTarget {
        /// Only files that were changed then or later count, by the clock of `Time`.
        since_ns: i64,
    },
    /// Files that a pattern of the Rakefile names.
    Matching {
        /// Relative to the run's directory, or absolute.
        folder: Text,
        /// What their names begin with.
        prefix: Text,
        /// What follows, with `*` and `?`.
        glob: Text,
    },
}

/// From an agent elsewhere to the hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromAgent {
    /// The run's folder is there; the first message.
    Ready {
        /// Where, absolute.
        directory: Text,
    },
    /// As from an agent in the hub's process.
    Event(AgentEvent),
    /// The answer to `SignalAll`.
    Signalled {
        /// How many groups there were.
        groups: u32,
    },
    /// The answer to `EndAll`: nothing is left below the agent.
    AllEnded {
        /// How many processes there were.
        killed: u32,
    },
    /// The answer to `EndLeft`.
    LeftEnded {
        /// Which.
        probe: u32,
        /// How many processes there were.
        killed: u32,
    },
    /// The answer to `Look`.
    Looked {
        /// Which.
        probe: u32,
        /// `None`: there is no such file.
        files: Vec<Option<FileIdentity>>,
        /// System calls on metadata since the answer before.
        operations: Operations,
    },
    /// The answer to `TellTime`.
    Time {
        /// Which.
        probe: u32,
        /// By a clock of the node that nobody sets; to be told again with `LookAround`, and compared with nothing else.
        now_ns: i64,
    },
    /// The answer to `LookAround`.
    LookedAround {
        /// Which.
        probe: u32,
        /// The target; `None`: there is no such file.
        target: Option<FileIdentity>,
        /// For each search what was found, by name in its folder.
        found: Vec<Vec<(Text, FileVersion)>>,
        /// There are more than `found` has.
        more: bool,
        /// System calls on metadata since the answer before.
        operations: Operations,
    },
    /// The answer to `AskResident`.
    Resident {
        /// Which.
        probe: u32,
        /// Bytes in memory and bytes in all; `None`: not known.
        files: Vec<Option<(u64, u64)>>,
    },
    /// From the leader of a host group: the beat of all its agents. Those that are not named were heard a moment ago.
    Beats {
        /// Agents that were not heard for longer.
        silent: Vec<MemberSilence>,
    },
    /// The answer to `Expect`.
    Seen {
        /// Which.
        probe: u32,
        /// The first file that was not as it should be, and what was seen instead.
        wrong: Option<(Text, Option<FileIdentity>)>,
        /// System calls on metadata since the answer before.
        operations: Operations,
    },
}

/// An agent behind a leader that is not heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberSilence {
    /// The number that the hub has given it.
    pub member: u32,
    /// Since the last byte.
    pub silent_ns: u64,
}

/// What a leader tells on its state lane: how the nodes of its group are, as far as that is new.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupState {
    /// In the order in which they came; no agent has two.
    pub states: Vec<MemberState>,
}

/// What an agent behind a leader tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberState {
    /// The number that the hub has given it.
    pub member: u32,
    /// For how long the leader has had it.
    pub held_ns: u64,
    /// As the agent has made it.
    pub delta: Text,
}

/// The head of each stream from a hub to the leader of a host group: where the stream is to lead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Call {
    /// To the leader itself: a link that says that both are there, and how the leader's agents are.
    Leader,
    /// To a program that the leader starts.
    Start {
        /// Where; `None`: on the leader's own host.
        host: Option<String>,
        /// Words for ssh.
        ssh_options: Vec<Text>,
        /// What.
        role: Role,
        /// The number of an agent for whose states and beats the leader answers, not given before to another. `None`:
        /// all bytes are passed on as they are.
        member: Option<u32>,
    },
}

/// What the engine's program is on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// The host's agent.
    Agent,
    /// Serves the host's files.
    Files,
    /// The leader of a group.
    Leader,
}

/// Why a stream leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFailed {
    /// In the words of who failed.
    pub why: String,
    /// It may be otherwise in a moment.
    pub passing: bool,
}
