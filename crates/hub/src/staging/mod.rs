//! Staging: files are moved to the nodes that need them, where nodes share no file system (docs/design/staging.md).
//!
//! `rakuda_core::stager` decides what is staged in and out, from where, and who waits for it, and
//! `rakuda_core::files` which files go along; here that is put into effect (`effects`). Before the
//! first command of an attempt its input files are staged in (`inputs`). Targets are looked at
//! where they were made and go where they belong (`targets`); their secondary files go with them
//! (`secondary`). What nodes still have of earlier runs is asked for when they come (`earlier`,
//! `memory`). Undeclared inputs, which commands and Ruby code name, are staged in when they do
//! (`undeclared`). `transfers` moves files, `relay` one, and `hosts` knows whom to ask.

mod earlier;
mod effects;
pub(crate) mod hosts;
mod inputs;
mod memory;
mod paths;
mod relay;
mod secondary;
mod state;
mod targets;
mod transfers;
mod undeclared;
mod under_way;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rakuda_cluster::LOCAL_NODE;
use rakuda_core::stager::{StageOut, StageOutRules, Stager, StagerEffect};
use rakuda_core::{NodeId, TaskId};
use rakuda_proto::files::FileVersion;
use rakuda_proto::front::StagingSettings;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;

use hosts::FileHosts;
use memory::Memory;
use state::State;
use under_way::{Destination, Moving};

/// What a user can see to when a file was not copied; what it failed over stands before it.
const COPY_HINT: &str = "see that it stays there, and that there is room for it";
pub(crate) use under_way::{HeldFile, Moved};

/// The stager, what it has decided, and the transfers that are under way.
pub(crate) struct Staging {
    settings: StagingSettings,
    stager: Stager<State>,
    /// What it has decided and is not done yet.
    effects: VecDeque<StagerEffect<State>>,
    /// They are being performed.
    performs: bool,
    hosts: Rc<FileHosts>,
    /// Transfers that are under way, by number.
    moves: BTreeMap<u32, Moving>,
    /// Removals that are under way, by number.
    removals: BTreeMap<u32, AbortHandle>,
    stage_out: StageOut<Destination>,
    /// Folders that were made.
    folders: BTreeMap<NodeId, BTreeSet<Vec<u8>>>,
    /// Requests of the front that wait for a task's file to be staged out.
    fetches: BTreeMap<TaskId, Vec<u32>>,
    /// What Ruby code of actions has written since their last command.
    written: BTreeMap<TaskId, BTreeSet<PathBuf>>,
    /// Other tasks' files that the commands of an attempt name.
    undeclared_inputs: BTreeMap<TaskId, BTreeSet<TaskId>>,
    /// What was staged in to each node for a command, beside files of tasks.
    sent: BTreeMap<NodeId, BTreeMap<PathBuf, FileVersion>>,
    /// What is on its way there, and which attempts wait for it.
    on_the_way: BTreeMap<(NodeId, PathBuf, FileVersion), Vec<(TaskId, u32)>>,
    /// Targets of attempts that did not end well, and where: what these have left behind may have made them again.
    failed: BTreeSet<(TaskId, NodeId)>,
    memory: Memory,
    reports: UnboundedSender<Moved>,
    reported: UnboundedReceiver<Moved>,
}

impl Staging {
    /// `root`: where it is remembered what nodes have; `None` if it is not.
    pub fn new(settings: StagingSettings, root: Option<&Path>) -> Self {
        let (reports, reported) = unbounded_channel();
        let globs = settings.home.iter().map(|glob| glob.0.clone()).collect();
        let rules = StageOutRules { all: settings.all_home, globs };
        Self {
            settings,
            stager: Stager::new(LOCAL_NODE),
            effects: VecDeque::new(),
            performs: false,
            hosts: Rc::default(),
            moves: BTreeMap::new(),
            removals: BTreeMap::new(),
            failed: BTreeSet::new(),
            stage_out: StageOut::new(LOCAL_NODE, rules),
            folders: BTreeMap::new(),
            fetches: BTreeMap::new(),
            written: BTreeMap::new(),
            undeclared_inputs: BTreeMap::new(),
            sent: BTreeMap::new(),
            on_the_way: BTreeMap::new(),
            memory: Memory::load(root),
            reports,
            reported,
        }
    }
}

/// The next report of a transfer; for ever when nothing is staged.
pub(crate) async fn next_moved(staging: &mut Option<Staging>) -> Moved {
    match staging {
        Some(staging) => staging.reported.recv().await.expect("it keeps a sender"),
        None => std::future::pending().await,
    }
}
