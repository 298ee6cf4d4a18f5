//! The thread of an agent elsewhere that starts commands and sees to the run's folder.
//!
//! A command is started in a folder, its output goes to files: when their file system hangs, the
//! thread that starts it waits. The link to the hub is served by another thread, so that such a
//! node is slow, and not lost. It does not know the link.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use rakuda_proto::agent::AgentEvent;
use rakuda_proto::cluster::{AgentSettings, FromAgent, ToAgent};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Sender, UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::inspector::Inspector;
use crate::remote::{RemoteError, environment};
use crate::run_folder::RunFolder;
use crate::{Agent, AgentConfig, StdinSource};

/// Maximum threads that wait for files. Some may hang, and their number must stay small.
const THREADS_MAX: usize = 32;

enum Work {
    Message(ToAgent),
    Pause(bool),
    SignalAll(i32, oneshot::Sender<usize>),
    CountUnreported(oneshot::Sender<usize>),
}

/// The link's end of the thread. It ends when all are dropped.
#[derive(Clone)]
pub(crate) struct CommandThread {
    work: UnboundedSender<Work>,
    /// No command is started any more.
    ending: Arc<AtomicBool>,
}

impl CommandThread {
    /// Starts it. It reports on commands to `events`, and reads no more of their output while
    /// nobody takes that. Its answers go to `answers`.
    pub async fn start(
        folder: RunFolder,
        settings: &AgentSettings,
        mark: &str,
        events: Sender<AgentEvent>,
        answers: UnboundedSender<FromAgent>,
    ) -> Result<Self, RemoteError> {
        let (sender, work) = unbounded_channel();
        let (ready, is_ready) = oneshot::channel();
        let ending = Arc::new(AtomicBool::new(false));
        let is_ending = Arc::clone(&ending);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(THREADS_MAX)
            .build()
            .map_err(RemoteError::SetUp)?;
        let config = AgentConfig {
            directory: folder.path.clone(),
            stdin: StdinSource::Null,
            collect_output: settings.collect_output,
            join_group: None,
        };
        let variables = environment(settings, mark);
        let serve = async move || {
            let (event_sender, all_events) = unbounded_channel();
            let agent = Agent::new(config, event_sender);
            let inspector = Inspector::new(answers.clone());
            match (agent, inspector) {
                (Ok(agent), Ok(inspector)) => {
                    agent.extend_environment(variables);
                    let paused = Rc::<Paused>::default();
                    let forwarded = forward(all_events, events, agent.clone(), Rc::clone(&paused));
                    tokio::task::spawn_local(forwarded);
                    if ready.send(Ok(())).is_ok() {
                        let bench = Bench { folder, agent, inspector, answers, paused, is_ending };
                        bench.serve(work).await;
                    }
                }
                (Err(error), _) | (_, Err(error)) => drop(ready.send(Err(error))),
            }
        };
        std::thread::Builder::new()
            .name("commands".to_owned())
            .spawn(move || tokio::task::LocalSet::new().block_on(&runtime, serve()))
            .map_err(RemoteError::SetUp)?;
        let gone = |_| Err(std::io::ErrorKind::BrokenPipe.into());
        is_ready.await.unwrap_or_else(gone).map_err(RemoteError::SetUp)?;
        Ok(Self { work: sender, ending })
    }

    fn give(&self, work: Work) {
        // The thread ends after us.
        let _ = self.work.send(work);
    }

    /// What the hub asks, but for what concerns the link.
    pub fn take(&self, message: ToAgent) {
        self.give(Work::Message(message));
    }

    /// What the hub has asked, and has not been begun, is never begun.
    pub fn end(&self) {
        self.ending.store(true, SeqCst);
    }

    /// Stops or goes on reading what commands write.
    pub fn pause_output(&self, paused: bool) {
        self.give(Work::Pause(paused));
    }

    /// Sends `signal` to all process groups that still have members, and returns how many there
    /// were. Waits while a file system hangs.
    pub async fn signal_all(&self, signal: i32) -> usize {
        let (answer, answered) = oneshot::channel();
        self.give(Work::SignalAll(signal, answer));
        answered.await.unwrap_or(0)
    }

    /// Commands whose exit has not been reported. Waits while a file system hangs.
    pub async fn unreported(&self) -> usize {
        let (answer, answered) = oneshot::channel();
        self.give(Work::CountUnreported(answer));
        answered.await.unwrap_or(0)
    }
}

/// What the thread works with.
struct Bench {
    folder: RunFolder,
    agent: Agent,
    inspector: Inspector,
    answers: UnboundedSender<FromAgent>,
    paused: Rc<Paused>,
    is_ending: Arc<AtomicBool>,
}

/// Whether the hub, or the link, wants no more output to be read.
#[derive(Default)]
struct Paused {
    by_hub: Cell<bool>,
    /// Nobody takes what there is.
    by_link: Cell<bool>,
}

impl Paused {
    fn apply(&self, agent: &Agent) {
        agent.pause_output(self.by_hub.get() || self.by_link.get());
    }
}

/// Passes on what commands do, as fast as it is taken.
async fn forward(
    mut events: UnboundedReceiver<AgentEvent>,
    to: Sender<AgentEvent>,
    agent: Agent,
    paused: Rc<Paused>,
) {
    while let Some(event) = events.recv().await {
        let Err(TrySendError::Full(event)) = to.try_send(event) else { continue };
        paused.by_link.set(true);
        paused.apply(&agent);
        // The receiver is gone only when this process ends.
        let _ = to.send(event).await;
        paused.by_link.set(false);
        paused.apply(&agent);
    }
}

impl Bench {
    async fn serve(self, mut work: UnboundedReceiver<Work>) {
        while let Some(work) = work.recv().await {
            match work {
                // A half-written target is put away all the same.
                Work::Message(message)
                    if self.is_ending.load(SeqCst)
                        && !matches!(message, ToAgent::PutAway { .. }) => {}
                Work::Message(message) => self.take(message),
                Work::Pause(paused) => {
                    self.paused.by_hub.set(paused);
                    self.paused.apply(&self.agent);
                }
                Work::SignalAll(signal, answer) => {
                    let _ = answer.send(self.agent.signal_all(signal));
                }
                Work::CountUnreported(answer) => {
                    let _ = answer.send(self.agent.unreported());
                }
            }
        }
    }

    fn take(&self, message: ToAgent) {
        let Some(message) = self.inspector.ask(&self.folder.path, message) else { return };
        match message {
            ToAgent::Request(request) => {
                self.folder.make_place_of(&request);
                self.agent.handle(request);
            }
            ToAgent::MakeFolders { paths } => self.folder.make(&paths),
            ToAgent::PutAway { path, rename, unless } => {
                self.folder.put_away(&path, rename, unless);
            }
            ToAgent::SignalAll { signal } => {
                let groups = u32::try_from(self.agent.signal_all(signal)).unwrap_or(u32::MAX);
                let _ = self.answers.send(FromAgent::Signalled { groups });
            }
            ToAgent::PauseOutput { .. }
            | ToAgent::EndAll
            | ToAgent::EndLeft { .. }
            | ToAgent::Look { .. }
            | ToAgent::LookAround { .. }
            | ToAgent::TellTime { .. }
            | ToAgent::Sample { .. }
            | ToAgent::SampleNow { .. }
            | ToAgent::TellExactly { .. }
            | ToAgent::AskResident { .. }
            | ToAgent::Expect { .. } => {
                unreachable!("the link's side and the inspector take these")
            }
        }
    }
}
