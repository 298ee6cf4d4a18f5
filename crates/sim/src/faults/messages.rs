//! The messages between agents, hub, front and file servers, and what befalls them.

use rakuda_core::{ActionOutcome, Signal, StopHow, TaskId};

use super::attempts::state::Later;
use super::front::state::{FromFront, ToFront};
use super::gfarm::state::GfarmHappening;
use super::staging::state::DataHappening;

/// What became of a command.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    /// The start of the hub that it belongs to.
    pub(crate) life: u64,
    pub(crate) task: u32,
    pub(crate) attempt: u32,
    pub(crate) command: u32,
    pub(crate) outcome: ActionOutcome,
    pub(crate) content: Option<u64>,
    /// Its core is a prepared command's.
    pub(crate) freed: bool,
}

/// A command that an agent is to start.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) life: u64,
    pub(crate) task: u32,
    pub(crate) attempt: u32,
    pub(crate) command: u32,
    /// Those of its action on its node. The hub that sent it may be gone by the time at which it begins.
    pub(crate) cores: u32,
    /// It makes the target, of these inputs.
    pub(crate) is_last: bool,
    pub(crate) inputs: Vec<u32>,
}

/// From the hub to an agent.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    /// The answer to `Hello`: the number of the session, and whether the files on the node count.
    Welcome {
        session: u64,
        incarnation: u64,
        files_kept: bool,
        heard_ns: u64,
    },
    Start {
        start: Start,
        frees_core: bool,
    },
    Prepare {
        start: Start,
        freed: u64,
    },
    Release,
    Withdraw {
        command: u32,
    },
    KeepCore {
        command: u32,
    },
    Signal {
        command: u32,
        signal: Signal,
    },
    /// Look at the target of an attempt.
    Look {
        task: u32,
        attempt: u32,
    },
    /// Answer, whatever it says.
    Live,
    /// Say which of these files are there as they were written then.
    Holdings {
        files: Vec<(u32, u64)>,
    },
    /// A heartbeat: when the agent sent what the hub has heard last.
    Ping {
        heard_ns: u64,
    },
}

/// From an agent to the hub.
#[derive(Clone, Debug)]
pub(crate) enum Report {
    /// A request for a new session; repeated until there is one, with the same number. Nothing runs; these commands
    /// ended in the last session and could not be reported.
    Hello {
        incarnation: u64,
        files_kept: bool,
        untold: Vec<Ended>,
    },
    Ended(Ended),
    Begun {
        command: u32,
    },
    Withdrawn {
        command: u32,
    },
    CoreKept {
        command: u32,
    },
    /// When the target was written; `None` if it is not there.
    Looked {
        task: u32,
        attempt: u32,
        seen: Option<u64>,
    },
    Lives,
    Holdings {
        found: Vec<bool>,
    },
    Pong,
}

#[derive(Clone, Debug)]
pub(crate) enum Happening {
    ToAgent {
        node: u32,
        session: u64,
        order: Order,
    },
    ToHub {
        node: u32,
        session: u64,
        sent_ns: u64,
        report: Report,
    },
    /// A process has come to its end.
    Done {
        node: u32,
        command: u32,
    },
    /// The front gets a message from a hub of this life.
    ToFront {
        life: u64,
        task: u32,
        what: ToFront,
    },
    /// An action goes on, or has been unwound.
    FrontStep {
        life: u64,
        task: u32,
        attempt: u32,
        unwound: bool,
    },
    FromFront {
        life: u64,
        task: u32,
        what: FromFront,
    },
    /// Something that the hub waits for on behalf of an attempt.
    Later {
        life: u64,
        task: u32,
        attempt: u32,
        what: Later,
    },
    /// The hub has looked at a file.
    Looked {
        id: TaskId,
        life: u64,
    },
    Tick,
    Fault,
    /// A leader dies.
    LeaderDies,
    UserStops(StopHow),
    HubUp,
    /// The user has said what that hub is to make.
    Invoked {
        life: u64,
    },
    MachineUp {
        node: u32,
    },
    LinkUp {
        node: u32,
    },
    LinkFast {
        node: u32,
    },
    AgentGoesOn {
        node: u32,
    },
    /// A file server goes or comes, or a round of questions goes on.
    Gfarm(GfarmHappening),
    /// A file is moved or removed.
    Data(DataHappening),
}
