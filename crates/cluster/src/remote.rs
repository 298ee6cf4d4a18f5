//! The hub's end of an agent elsewhere: what it is asked goes to the thread of the links, and from
//! there over its link while there is one.
//!
//! It counts the commands whose end the agent owes, so that the hub can wait for them and stop
//! waiting. It does not know how the link came to be, nor what a command is for.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};

use rakuda_core::NodeId;
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentEvent, AgentRequest, CommandId};
use rakuda_proto::cluster::{FromAgent, SecondarySearch, ToAgent};
use rakuda_proto::front::{CommandOptions, Program};

use crate::calls::{Calls, PortCall};
use crate::data_dial::DataDial;
use crate::far_data::FarData;
use crate::port::AgentPort;

/// What the hub and the life of a node, which are on two threads, both know of its agent.
#[derive(Default)]
pub(crate) struct Shared {
    agent: Mutex<AgentState>,
    /// Process groups there, as the agent said last; before that, those that may be.
    groups: AtomicUsize,
    /// The agent that is there has ended all that was below it.
    all_ended: AtomicBool,
    /// The run is over: nothing is started again.
    closing: AtomicBool,
    /// The life of the node is over, too.
    over: AtomicBool,
    /// The node's own files can be reached.
    has_data: AtomicBool,
    /// The run's directory here.
    here: PathBuf,
}

#[derive(Default)]
struct AgentState {
    /// The incarnation whose link is there.
    live: Option<u32>,
    /// Commands whose end it owes.
    owed: BTreeSet<CommandId>,
    /// The run's directory there, when it differs.
    there: Option<PathBuf>,
}

impl Shared {
    pub fn new(here: &Path, has_data: bool) -> Self {
        let has_data = AtomicBool::new(has_data);
        Self { here: here.to_path_buf(), has_data, ..Self::default() }
    }

    fn agent(&self) -> MutexGuard<'_, AgentState> {
        self.agent.lock().expect("nothing fails while it is held")
    }

    /// A link is there.
    pub fn connect(&self, incarnation: u32) {
        self.all_ended.store(false, SeqCst);
        self.agent().live = Some(incarnation);
    }

    /// It is gone, and all that was owed with it.
    pub fn disconnect(&self) {
        let mut agent = self.agent();
        agent.live = None;
        agent.owed.clear();
        self.groups.store(0, SeqCst);
    }

    /// The agent has found the run's directory, or made it.
    pub fn set_directory(&self, there: &Text) {
        let there = there.as_path();
        self.agent().there = (there != self.here).then(|| there.to_path_buf());
    }

    pub fn close(&self) {
        self.closing.store(true, SeqCst);
    }

    pub fn is_closing(&self) -> bool {
        self.closing.load(SeqCst)
    }

    /// The life of the node is over. What leads to its files need not stay for them.
    pub fn end(&self) {
        self.has_data.store(false, SeqCst);
        self.over.store(true, SeqCst);
    }

    /// Takes what the agent says about itself, and returns what is for the hub.
    #[expect(clippy::result_large_err, reason = "it is no error, and goes on at once")]
    pub fn receive(&self, message: FromAgent) -> Result<AgentEvent, Option<FromAgent>> {
        match message {
            FromAgent::Event(event) => Ok(event),
            FromAgent::Signalled { groups } => {
                self.groups.store(groups as usize, SeqCst);
                Err(None)
            }
            FromAgent::AllEnded { .. } => {
                self.all_ended.store(true, SeqCst);
                Err(None)
            }
            answer => Err(Some(answer)),
        }
    }

    /// A directory below the run's, as it is called on the node.
    fn translate(&self, directory: &mut Text) {
        if let Some(there) = &self.agent().there
            && let Ok(below) = directory.as_path().strip_prefix(&self.here)
        {
            *directory = Text(there.join(below).into_os_string().into_encoded_bytes());
        }
    }

    /// Where a command runs, and those of its words that are files which it reads.
    fn translate_command(&self, program: &mut Program, options: &mut CommandOptions) {
        if let Some(directory) = &mut options.directory {
            self.translate(directory);
        }
        let files = std::mem::take(&mut options.files);
        if let Program::Words(words) = program {
            for word in words.iter_mut().filter(|word| files.contains(word)) {
                self.translate(word);
            }
        }
    }
}

/// The hub's end of an agent elsewhere.
pub(crate) struct RemotePort {
    node: NodeId,
    shared: Arc<Shared>,
    calls: Calls,
    /// Of the agent that the hub knows. What it asks is for that one: the next may be there
    /// already, and knows nothing of it.
    incarnation: Cell<u32>,
}

impl RemotePort {
    pub fn new(node: NodeId, shared: Arc<Shared>, calls: Calls) -> Self {
        Self { node, shared, calls, incarnation: Cell::new(0) }
    }

    fn send(&self, message: ToAgent) {
        self.calls.node(self.node, PortCall::Send(self.incarnation.get(), message));
    }
}

impl AgentPort for RemotePort {
    fn on_up(&self, incarnation: u32) {
        self.incarnation.set(incarnation);
    }

    fn handle(&self, mut request: AgentRequest) {
        let shared = &self.shared;
        match &mut request {
            AgentRequest::Start { command, program, options }
            | AgentRequest::Prepare { command, program, options, .. } => {
                let mut agent = shared.agent();
                if agent.live == Some(self.incarnation.get()) {
                    agent.owed.insert(*command);
                    shared.groups.fetch_max(1, SeqCst);
                }
                drop(agent);
                if let Some(options) = options {
                    shared.translate_command(program, options);
                }
            }
            AgentRequest::ChangeDirectory { directory } => shared.translate(directory),
            AgentRequest::DefineEnvironment { .. }
            | AgentRequest::ForgetEnvironments { .. }
            | AgentRequest::ForgetProgram { .. }
            | AgentRequest::FreesCore { .. }
            | AgentRequest::Release
            | AgentRequest::Withdraw { .. }
            | AgentRequest::KeepCore { .. }
            | AgentRequest::CommitRound { .. }
            | AgentRequest::CloseRound { .. }
            | AgentRequest::Signal { .. }
            | AgentRequest::Streams(_) => {}
        }
        self.send(ToAgent::Request(request));
    }

    fn signal_all(&self, signal: i32) -> usize {
        self.send(ToAgent::SignalAll { signal });
        self.shared.groups.load(SeqCst)
    }

    fn ask_time(&self, count: u32) {
        let call = PortCall::AskTime(self.incarnation.get(), count);
        self.calls.node(self.node, call);
    }

    fn pause_output(&self, paused: bool) {
        self.send(ToAgent::PauseOutput { paused });
    }

    fn ask(&self, mut question: ToAgent) {
        match &mut question {
            ToAgent::Look { paths, .. } => {
                for path in paths {
                    self.shared.translate(path);
                }
            }
            ToAgent::AskResident { files, .. } => {
                for (path, _) in files {
                    self.shared.translate(path);
                }
            }
            ToAgent::Expect { files, gone, .. } => {
                for path in files.iter_mut().map(|(path, _)| path).chain(gone) {
                    self.shared.translate(path);
                }
            }
            ToAgent::LookAround { path, searches, .. } => {
                self.shared.translate(path);
                for search in searches {
                    if let SecondarySearch::Matching { folder, .. } = search {
                        self.shared.translate(folder);
                    }
                }
            }
            ToAgent::Request(_)
            | ToAgent::TellTime { .. }
            | ToAgent::Sample { .. }
            | ToAgent::SampleNow { .. }
            | ToAgent::TellExactly { .. }
            | ToAgent::SignalAll { .. }
            | ToAgent::EndAll
            | ToAgent::EndLeft { .. }
            | ToAgent::PauseOutput { .. }
            | ToAgent::MakeFolders { .. }
            | ToAgent::PutAway { .. } => {}
        }
        self.send(question);
    }

    fn settle_state(&self) {
        self.calls.node(self.node, PortCall::SettleState(self.incarnation.get()));
    }

    fn path_there(&self, here: &Path) -> PathBuf {
        let mut path = Text(here.as_os_str().as_encoded_bytes().to_vec());
        self.shared.translate(&mut path);
        path.as_path().to_path_buf()
    }

    fn data(&self) -> Option<Rc<dyn DataDial>> {
        let has_data = self.shared.has_data.load(SeqCst);
        has_data.then(|| Rc::new(FarData::new(self.node, &self.calls)) as Rc<dyn DataDial>)
    }

    fn on_exited(&self, command: CommandId) {
        self.shared.agent().owed.remove(&command);
    }

    fn unreported(&self) -> usize {
        self.shared.agent().owed.len()
    }

    fn end_all(&self) {
        self.send(ToAgent::EndAll);
    }

    fn has_ended_all(&self) -> bool {
        // One that the hub does not know ends all it runs by itself, or has run nothing.
        let live = self.shared.agent().live;
        live != Some(self.incarnation.get()) || self.shared.all_ended.load(SeqCst)
    }

    fn close(&self) {
        self.shared.close();
        self.calls.node(self.node, PortCall::Close);
    }

    fn is_closed(&self) -> bool {
        self.shared.over.load(SeqCst)
    }

    fn give_up(&self) {
        self.shared.close();
        self.shared.disconnect();
        self.calls.node(self.node, PortCall::GiveUp);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_has_ended_all_when_it_says_so_or_is_gone() {
        let shared = Arc::new(Shared::new(Path::new("/run"), false));
        let port = RemotePort::new(NodeId(1), Arc::clone(&shared), Calls::to_nobody());
        assert!(port.has_ended_all(), "there is none");
        shared.connect(1);
        port.on_up(1);
        assert!(!port.has_ended_all());
        assert_eq!(shared.receive(FromAgent::AllEnded { killed: 3 }), Err(None));
        assert!(port.has_ended_all());
        shared.connect(2);
        port.on_up(2);
        assert!(!port.has_ended_all(), "that was another agent");
        shared.disconnect();
        assert!(port.has_ended_all());
    }

    #[test]
    fn what_is_asked_of_an_agent_that_is_gone_is_not_owed() {
        let shared = Arc::new(Shared::new(Path::new("/run"), false));
        let port = RemotePort::new(NodeId(1), Arc::clone(&shared), Calls::to_nobody());
        let start = |command| AgentRequest::Start {
            command: CommandId(command),
            program: Program::Words(vec![Text::from("true")]),
            options: None,
        };
        shared.connect(1);
        port.on_up(1);
        port.handle(start(1));
        assert_eq!(port.unreported(), 1);
        shared.disconnect();
        assert_eq!(port.unreported(), 0, "nobody will report it");
        shared.connect(2);
        port.handle(start(2));
        assert_eq!(port.unreported(), 0, "the hub does not know the second agent yet");
        port.on_up(2);
        port.handle(start(3));
        assert_eq!(port.unreported(), 1);
    }
}
