//! An agent elsewhere: the agent of this process, served over a link to the hub.
//!
//! Requests come in, events go out; a thread of its own (`command_thread`) does what they ask for.
//! When the link is lost, or this process is to end, all commands end within the time that the
//! hub has set. It does not know how connections are made, nor what tasks are.

use std::cell::Cell;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::rc::Rc;
use std::time::Duration;

use rakuda_link::agent::{AgentLink, Connection, GreetingError, Identity};
use rakuda_link::hub::{Reader, Writer};
use rakuda_link::io::{Ending, StateSource};
use rakuda_link::session::MESSAGE_BYTES_MAX;
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentEvent, AgentRequest};
use rakuda_proto::cluster::{AgentSettings, FromAgent, NodeFacts, Operations, ToAgent};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, channel, unbounded_channel};

use crate::command_thread::CommandThread;
use crate::files::{self, OwnFolderError};
use crate::informing::{Inform, Sampled};
use crate::providers::ExternalProvider;
use crate::run_folder::RunFolder;
use crate::shutdown::Shutdown;
use crate::{clock, cores, memory, operations, orphans, processes, residency, trees};

/// Maximum size of captured output that goes over a link; the rest of its message is small.
const CAPTURED_BYTES_MAX: usize = MESSAGE_BYTES_MAX - (1 << 20);
/// Maximum number of events of commands that wait for the link; a piece of output has 64 KiB.
const EVENTS_MAX: usize = 32;
/// Maximum time between SIGTERM and SIGKILL for commands; less when the hub's limit says so.
const GRACE_MS: u32 = 2_000;
/// Timeout for the hub to take the last messages.
const BYE_LIMIT: Duration = Duration::from_secs(1);
/// Timeout for killing; it takes longer only when a file system hangs.
const KILL_LIMIT: Duration = Duration::from_millis(100);
/// Timeout for finding and killing all that is left, on a busy machine.
const KILL_ALL_LIMIT: Duration = Duration::from_secs(1);
/// The same where no guard is left to do it once more: longer than `trees` waits for what it has killed.
const UNGUARDED_LIMIT: Duration = Duration::from_secs(12);
/// Time before the connection is tried again; each further time twice as long.
const FIRST_RETRY: Duration = Duration::from_millis(50);
/// Maximum time between two tries.
const LONGEST_RETRY: Duration = Duration::from_secs(1);

/// How connections to the hub are made.
pub trait Dial {
    /// Makes one. `None`: no further one can be had (a pipe).
    fn dial(&mut self) -> impl Future<Output = Option<std::io::Result<(Reader, Writer)>>>;
}

/// Sees to it that the run's folder is there.
pub trait Provide {
    /// Where it is; or why it is not to be had, as what failed.
    fn provide(&mut self, settings: &AgentSettings) -> impl Future<Output = Result<Text, String>>;
}

/// How an agent ended.
#[derive(Debug, PartialEq, Eq)]
pub enum AgentEnding {
    /// The hub wanted it, and nothing was running.
    Wanted,
    /// Otherwise: why. Its commands were killed.
    CutOff(String),
}

/// Why an agent never served.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// No connection.
    #[error("connect to the hub: {0}")]
    Connect(std::io::Error),
    /// A connection, but no link.
    #[error("greet the hub: {0}")]
    Greeting(#[from] GreetingError),
    /// The run's folder is not there.
    #[error(
        "enter the run's folder {path} on {host}: {source} (a folder that all nodes share is needed)"
    )]
    Directory {
        /// The folder.
        path: String,
        /// This machine.
        host: String,
        /// What the kernel says.
        source: std::io::Error,
    },
    /// It could not be mounted.
    #[error("{reason} (on {host})")]
    Mount {
        /// What failed, and why.
        reason: String,
        /// This machine.
        host: String,
    },
    /// The run's folder, which is to be this node's own, cannot be used.
    #[error(transparent)]
    OwnFolder(#[from] OwnFolderError),
    /// This machine refused something.
    #[error("set up the agent: {0}")]
    SetUp(std::io::Error),
}

/// What a launcher says of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SaidOfNode {
    /// What it is called, where that is not its host name.
    pub name: Option<String>,
    /// Cores that it may use, at most.
    pub cores: Option<u32>,
}

/// What this node has.
pub fn node_facts(said: &SaidOfNode) -> NodeFacts {
    let host = || Text(rustix::system::uname().nodename().to_bytes().to_vec());
    let cores = cores::usable();
    let scratch = files::scratch();
    NodeFacts {
        host: said.name.clone().map_or_else(host, Text::from),
        cores: said.cores.map_or(cores, |most| cores.min(most)),
        memory_bytes: memory::usable_bytes().unwrap_or(0),
        cachestat: residency::is_known(),
        scratch: Text(scratch.as_os_str().as_bytes().to_vec()),
        scratch_bytes_free: files::free_bytes(&scratch),
    }
}

/// What an agent has from whoever starts it.
pub struct Surroundings<'a, P> {
    /// Sees to the run's folder.
    pub provide: P,
    /// Samples the node.
    pub inform: Rc<dyn Inform>,
    /// What the launcher says of the node.
    pub said: SaidOfNode,
    /// Marks all commands.
    pub mark: &'a str,
}

/// Serves the hub until one of the two ends it. Must run inside a `tokio::task::LocalSet`.
pub async fn serve(
    mut dial: impl Dial,
    token: Text,
    surroundings: Surroundings<'_, impl Provide>,
) -> Result<AgentEnding, RemoteError> {
    let Surroundings { mut provide, inform, said, mark } = surroundings;
    tokio::task::spawn_local(orphans::reap());
    let identity = Identity { token, session: processes::random(), facts: node_facts(&said) };
    let link = Rc::new(AgentLink::new(identity));
    link.set_clock(clock::machine_ns);
    link.set_state_source(Rc::clone(&inform) as Rc<dyn StateSource>);
    let streams = dial.dial().await.unwrap_or_else(|| Err(std::io::ErrorKind::NotFound.into()));
    let (reader, writer) = streams.map_err(RemoteError::Connect)?;
    let connection = link.greet(reader, writer).await?;
    let mut settings = connection.welcome.settings.clone();
    let setting_up = async {
        let provided = provide.provide(&settings).await;
        settings.directory =
            provided.map_err(|reason| RemoteError::Mount { reason, host: host_name() })?;
        let folder = RunFolder::enter(&settings).await?;
        operations::enter(&folder.path);
        Remote::new(Rc::clone(&link), settings, folder, mark, inform).await
    };
    let remote = match setting_up.await {
        Ok(remote) => remote,
        Err(error) => {
            link.say_bye(&format!("failed to {error}"));
            link.serve(connection, |_| ()).await;
            return Err(error);
        }
    };
    let mut serving = std::pin::pin!(remote.serve_link(connection, &mut dial));
    let signal = tokio::select! {
        ending = &mut serving => {
            remote.inform.end();
            if ending != AgentEnding::Wanted {
                remote.end_commands().await;
            }
            return Ok(ending);
        }
        signal = told_to_end() => signal,
    };
    // Whoever ends the node ends its commands at the same time: that is no failure of theirs, and
    // the hub takes them as lost.
    remote.shutdown.tell();
    // The link is served on meanwhile, so that the hub learns why.
    let why = format!("{signal} was sent to it");
    let end = async {
        remote.inform.end();
        remote.end_commands().await;
        link.say_bye(&why);
        tokio::time::sleep(BYE_LIMIT).await;
    };
    tokio::select! {
        // The link first: what is said is written, also where no time is left then.
        biased;
        _ = &mut serving => {}
        () = end => {}
    }
    Ok(AgentEnding::CutOff(why))
}

/// Waits for a signal that ends processes.
async fn told_to_end() -> &'static str {
    let wait = async |kind| match signal(kind) {
        Ok(mut signals) => drop(signals.recv().await),
        Err(_) => std::future::pending().await,
    };
    tokio::select! {
        () = wait(SignalKind::terminate()) => "SIGTERM",
        () = wait(SignalKind::hangup()) => "SIGHUP",
        () = wait(SignalKind::interrupt()) => "SIGINT",
    }
}

struct Remote {
    link: Rc<AgentLink>,
    commands: CommandThread,
    inform: Rc<dyn Inform>,
    settings: AgentSettings,
    mark: String,
    /// Whether this process is to end.
    shutdown: Rc<Shutdown>,
    /// Processes that belong to the agent itself, such as the run's mount: they outlive the last command.
    own: Vec<i32>,
    /// All that is below the agent is being ended, since the hub wants it.
    ending_all: Rc<Cell<bool>>,
}

impl Remote {
    async fn new(
        link: Rc<AgentLink>,
        settings: AgentSettings,
        folder: RunFolder,
        mark: &str,
        inform: Rc<dyn Inform>,
    ) -> Result<Self, RemoteError> {
        let (event_sender, events) = channel(EVENTS_MAX);
        let (answer_sender, answers) = unbounded_channel();
        let directory = Text(folder.path.as_os_str().as_bytes().to_vec());
        let commands =
            CommandThread::start(folder, &settings, mark, event_sender, answer_sender).await?;
        link.send(&FromAgent::Ready { directory });
        let shutdown = Rc::<Shutdown>::default();
        tokio::task::spawn_local(forward_events(events, Rc::clone(&link), Rc::clone(&shutdown)));
        tokio::task::spawn_local(forward_answers(answers, Rc::clone(&link)));
        let ending_all = Rc::default();
        // No command has been started yet.
        let own = trees::all_below();
        let mark = mark.to_owned();
        Ok(Self { link, commands, inform, settings, mark, shutdown, own, ending_all })
    }

    /// Connection after connection, until no more can be had.
    async fn serve_link(&self, first: Connection, dial: &mut impl Dial) -> AgentEnding {
        let mut connection = first;
        loop {
            let why = match self.link.serve(connection, |message| self.take(message)).await {
                Ending::Bye(why) if why.is_empty() && self.is_done().await => {
                    return AgentEnding::Wanted;
                }
                Ending::Bye(_) | Ending::SaidBye => {
                    return AgentEnding::CutOff("the hub has ended the link".into());
                }
                Ending::Wrong(error) => return AgentEnding::CutOff(error.to_string()),
                Ending::Broken(why) => why,
            };
            let limit = Duration::from_millis(u64::from(self.settings.silence_ms));
            match redial(&self.link, dial, limit).await {
                Some(next) => connection = next,
                None => return AgentEnding::CutOff(why),
            }
        }
    }

    /// Whether no command runs, nor anything that the hub wants ended. What a file system holds up may.
    async fn is_done(&self) -> bool {
        !self.ending_all.get()
            && tokio::time::timeout(BYE_LIMIT, self.commands.unreported()).await == Ok(0)
    }

    /// Does what the hub asks.
    fn take(&self, message: ToAgent) {
        let signals = match &message {
            ToAgent::Request(request) => matches!(request, AgentRequest::Signal { .. }),
            ToAgent::SignalAll { signal } => *signal != 0,
            ToAgent::EndAll => true,
            _ => false,
        };
        if signals {
            self.shutdown.on_signal_of_hub();
        }
        match message {
            ToAgent::PauseOutput { paused } => self.commands.pause_output(paused),
            ToAgent::EndAll => self.end_all(),
            ToAgent::Sample { period_ms, providers, folders } => {
                let link = Rc::clone(&self.link);
                let period = Duration::from_millis(u64::from(period_ms));
                let providers = providers.into_iter().map(ExternalProvider::from).collect();
                let wanted = Sampled { period, providers, folders };
                self.inform.sample(wanted, Rc::new(move || link.offer_state()));
            }
            ToAgent::SampleNow { only } => self.inform.sample_now(&only),
            // It goes with the next sample: the first delta has all, and is not to come before that.
            ToAgent::TellExactly { attributes } => self.inform.tell_exactly(attributes),
            // Only whether this agent lives is asked.
            ToAgent::Look { probe, paths } if paths.is_empty() => {
                let (files, operations) = (Vec::new(), Operations::default());
                self.link.send(&FromAgent::Looked { probe, files, operations });
            }
            message => self.commands.take(message),
        }
    }

    /// Kills all that is below this process, whatever started it, and says so. The thread of commands is not
    /// asked: a file system may hold it up.
    fn end_all(&self) {
        self.commands.end();
        self.inform.end();
        self.ending_all.set(true);
        let (own, link, ending_all) =
            (self.own.clone(), Rc::clone(&self.link), Rc::clone(&self.ending_all));
        tokio::task::spawn_local(async move {
            let killing = tokio::task::spawn_blocking(move || trees::kill_all_below(&own));
            let killed = killing.await.unwrap_or(0);
            ending_all.set(false);
            let killed = u32::try_from(killed).unwrap_or(u32::MAX);
            link.send(&FromAgent::AllEnded { killed });
        });
    }

    /// Ends all commands: gently first, then for good.
    async fn end_commands(&self) {
        self.commands.end();
        let orphan_ms = self.settings.orphan_ms.saturating_sub(self.settings.silence_ms);
        let grace = Duration::from_millis(u64::from(GRACE_MS.min(orphan_ms / 2)));
        let all_gone = async {
            self.commands.signal_all(libc::SIGTERM).await;
            while self.commands.signal_all(0).await > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let _ = tokio::time::timeout(grace, all_gone).await;
        let _ = tokio::time::timeout(KILL_LIMIT, self.commands.signal_all(libc::SIGKILL)).await;
        // What left its group, or cannot be signalled since a file system hangs. The guard does it
        // once more, unless it is gone.
        let own = self.own.clone();
        let killing = tokio::task::spawn_blocking(move || trees::kill_all_below(&own));
        let limit = if processes::is_guarded() { KILL_ALL_LIMIT } else { UNGUARDED_LIMIT };
        let _ = tokio::time::timeout(limit, killing).await;
        processes::kill_marked(&self.mark, &[processes::parent()]);
    }
}

/// Tries to get another connection, as long as the hub would take it.
async fn redial(link: &AgentLink, dial: &mut impl Dial, limit: Duration) -> Option<Connection> {
    let attempts = async {
        let mut pause = FIRST_RETRY;
        loop {
            let greeted = match dial.dial().await? {
                Ok((reader, writer)) => link.greet(reader, writer).await,
                Err(error) => Err(error.into()),
            };
            match greeted {
                Ok(connection) => return Some(connection),
                Err(GreetingError::Refused(_)) => return None,
                Err(_) => tokio::time::sleep(pause).await,
            }
            pause = (2 * pause).min(LONGEST_RETRY);
        }
    };
    tokio::time::timeout(limit, attempts).await.ok().flatten()
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The run's variables; its mark gets that of this agent behind it.
pub(crate) fn environment(settings: &AgentSettings, mark: &str) -> Vec<(OsString, OsString)> {
    let mut run_mark = None;
    let mut variables = Vec::new();
    for (name, value) in &settings.environment {
        if processes::is_mark(name.as_os_str()) {
            run_mark = Some(value.as_os_str().as_bytes());
        } else {
            variables
                .push((OsString::from_vec(name.0.clone()), OsString::from_vec(value.0.clone())));
        }
    }
    // Without it the run's mark, if any, is in this process's own environment already.
    variables.extend(run_mark.map(|run_mark| processes::marked(Some(run_mark), mark)));
    variables
}

/// Passes on what commands do; takes nothing from the thread of commands while the link is full.
async fn forward_events(
    mut events: Receiver<AgentEvent>,
    link: Rc<AgentLink>,
    shutdown: Rc<Shutdown>,
) {
    while let Some(event) = events.recv().await {
        if !shutdown.takes_along(&event).await {
            link.send(&FromAgent::Event(sendable(event)));
        }
        if link.is_full() {
            link.room().await;
        }
    }
}

/// Captured output that is too long for a message is an error of its command.
fn sendable(mut event: AgentEvent) -> AgentEvent {
    if let AgentEvent::CommandExited { status, captured, error, .. } = &mut event
        && let Some(output) = captured.take_if(|output| output.0.len() > CAPTURED_BYTES_MAX)
    {
        let bytes = output.0.len();
        let why =
            format!("pass on its output: {bytes} bytes, and {CAPTURED_BYTES_MAX} are the most");
        *error = Some(Text::from(why));
        *status = 1 << 8;
    }
    event
}

async fn forward_answers(mut answers: UnboundedReceiver<FromAgent>, link: Rc<AgentLink>) {
    while let Some(answer) = answers.recv().await {
        link.send(&answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Refuses each connection at once, and counts them.
    struct Refusing(u32);

    impl Dial for Refusing {
        async fn dial(&mut self) -> Option<std::io::Result<(Reader, Writer)>> {
            self.0 += 1;
            Some(Err(std::io::ErrorKind::ConnectionRefused.into()))
        }
    }

    #[test]
    fn who_refuses_at_once_is_not_asked_for_ever() {
        let facts = node_facts(&SaidOfNode::default());
        let link = AgentLink::new(Identity { token: Text::default(), session: 1, facts });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut dial = Refusing(0);
        runtime.block_on(async {
            let redialled = redial(&link, &mut dial, Duration::from_millis(200));
            let ended = tokio::time::timeout(Duration::from_mins(1), redialled).await;
            assert!(ended.expect("it ends").is_none());
        });
        assert!((1..=3).contains(&dial.0), "at 0, 50 and 150 ms, if not later: {}", dial.0);
    }
}
