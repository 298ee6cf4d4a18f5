//! Many agents in one process, for measurements: over the protocol, the connections and the credentials of real ones,
//! with commands that are no processes.
//!
//!     agents --agents N [--cores N] [--busy MS] [--dials N] [--states] < INVITATION
//!     agents --agents N [--cores N] [--busy MS] [--states] --listen SOCKET
//!
//! The invitation is what `rakudactl join --print` says of a run with `--joinable`. With `--listen` the agents are
//! behind leaders: `swarm_ssh.c` hands over what a leader talks to as it starts an agent. A command ends well, `--busy`
//! after its beginning (0 ms); one that waits for a synchronised start notes when its agent heard of the instant, and
//! the time at the instant, and ends. With `--states` each node has 40 attributes, made up, of which 6 move each time
//! that the hub has asked to sample; otherwise nothing is reported of it. It runs until the last link has ended, and
//! says for how many agents the hub has ended it. `bench/agents` starts it.

mod handed;
mod made_up;

use std::cell::RefCell;
use std::io::Write as _;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use handed::Handed;
use made_up::{Random, attributes, number, value};
use rakuda_agent::clock::machine_ns;
use rakuda_core::Prepared;
use rakuda_info::catalogue::BuiltIn;
use rakuda_info::delta::Sender;
use rakuda_info::registry::AttributeId;
use rakuda_info::table::{NodeId, Table};
use rakuda_link::agent::{AgentLink, Connection, Identity};
use rakuda_link::invitation::Invitation;
use rakuda_link::io::{Ending, StateSource};
use rakuda_link::stdio;
use rakuda_link::tcp::Dialler;
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentEvent, AgentRequest, CommandId, GateStamps};
use rakuda_proto::cluster::{FromAgent, NodeFacts, Operations, ToAgent};
use rakuda_proto::front::{CommandOptions, GateKind, GateOptions, Usage};
use rakuda_service::now;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinHandle, spawn_local};

type Failure = Box<dyn std::error::Error>;

/// Number of the 40 attributes that move.
const MOVING: usize = 6;
/// Memory of a node, as it reports it to the hub.
const MEMORY_BYTES: u64 = 64 << 30;
/// Time after which a value is sent again that has not moved.
const SILENCE_NS: u64 = 10_000_000_000;

/// What the command line asks for.
struct Wanted {
    agents: u32,
    cores: u32,
    busy: Duration,
    dials: u32,
    states: bool,
    listen: Option<PathBuf>,
}

impl Wanted {
    fn of(words: &[String]) -> Result<Self, Failure> {
        let number = |name: &str, otherwise: u32| number(words, name, otherwise);
        Ok(Self {
            agents: number("--agents", 1)?,
            cores: number("--cores", 1)?.max(1),
            busy: Duration::from_millis(number("--busy", 0)?.into()),
            dials: number("--dials", 64)?.max(1),
            states: words.iter().any(|word| word == "--states"),
            listen: words
                .iter()
                .position(|word| word == "--listen")
                .and_then(|place| words.get(place + 1))
                .map(PathBuf::from),
        })
    }
}

/// What is made up about a node.
struct Made {
    table: Table,
    row: NodeId,
    attributes: Vec<(AttributeId, &'static BuiltIn)>,
    sender: Sender,
    random: Random,
}

/// What an agent has [`Made`] up of its node, shared with the link, which takes what is new.
struct States(RefCell<Made>);

impl States {
    fn new(number: u32) -> Self {
        let mut table = Table::new();
        let row = table.node(None, "here");
        let attributes = attributes(&mut table);
        let sender = Sender::new(SILENCE_NS).telling_samples();
        let random = Random(u64::from(number) + 7);
        Self(RefCell::new(Made { table, row, attributes, sender, random }))
    }

    /// Draws the values that move, or all of them.
    fn sample(&self, all: bool) {
        let Made { table, row, attributes, random, .. } = &mut *self.0.borrow_mut();
        let at = now();
        for (place, (id, built_in)) in attributes.iter().enumerate() {
            if all || place < MOVING {
                table.set(*row, *id, value(built_in, random), at);
            } else {
                table.set_sampled(*row, *id, at);
            }
        }
    }
}

impl StateSource for States {
    fn restart(&self) {
        self.0.borrow_mut().sender.restart();
    }

    fn take(&self) -> Option<Vec<u8>> {
        let Made { table, sender, .. } = &mut *self.0.borrow_mut();
        sender.take(table, now())
    }
}

/// A command that is at a gate.
struct Waiting {
    command: CommandId,
    gate: GateOptions,
    ready_ns: i64,
}

/// One agent.
struct Agent {
    link: AgentLink,
    busy: Duration,
    states: Option<Rc<States>>,
    sampling: RefCell<Option<AbortHandle>>,
    /// Each with its gate, if it has one.
    prepared: RefCell<Prepared<CommandId, Option<GateOptions>>>,
    /// Commands that free their core for a prepared one.
    freeing: RefCell<Vec<CommandId>>,
    gated: RefCell<Vec<Waiting>>,
}

impl Agent {
    fn tell(&self, event: AgentEvent) {
        self.link.send(&FromAgent::Event(event));
    }

    fn take(self: &Rc<Self>, message: ToAgent) {
        let no_operations = Operations::default();
        let answer = match message {
            ToAgent::Request(request) => return self.request(request),
            ToAgent::Sample { period_ms, .. } => return self.sample(period_ms),
            ToAgent::SignalAll { .. } => FromAgent::Signalled { groups: 0 },
            ToAgent::EndAll => FromAgent::AllEnded { killed: 0 },
            ToAgent::EndLeft { probe, .. } => FromAgent::LeftEnded { probe, killed: 0 },
            ToAgent::TellTime { probe } => FromAgent::Time { probe, now_ns: machine_ns() },
            ToAgent::Look { probe, paths } => {
                let files = vec![None; paths.len()];
                FromAgent::Looked { probe, files, operations: no_operations }
            }
            ToAgent::LookAround { probe, searches, .. } => FromAgent::LookedAround {
                probe,
                target: None,
                found: vec![Vec::new(); searches.len()],
                more: false,
                operations: no_operations,
            },
            ToAgent::AskResident { probe, files } => {
                FromAgent::Resident { probe, files: vec![None; files.len()] }
            }
            ToAgent::Expect { probe, .. } => {
                FromAgent::Seen { probe, wrong: None, operations: no_operations }
            }
            ToAgent::PauseOutput { .. }
            | ToAgent::MakeFolders { .. }
            | ToAgent::PutAway { .. }
            | ToAgent::SampleNow { .. }
            | ToAgent::TellExactly { .. } => return,
        };
        self.link.send(&answer);
    }

    fn request(self: &Rc<Self>, request: AgentRequest) {
        let gate = |options: Option<Box<CommandOptions>>| options.and_then(|options| options.gate);
        match request {
            AgentRequest::Start { command, options, .. } => self.begin(command, gate(options)),
            AgentRequest::FreesCore { command } => self.freeing.borrow_mut().push(command),
            AgentRequest::Prepare { command, options, freed, .. } => {
                let next = self.prepared.borrow_mut().prepare(command, gate(options), freed);
                self.begin_prepared(next);
            }
            AgentRequest::Release => {
                let next = self.prepared.borrow_mut().release();
                self.begin_prepared(next);
            }
            AgentRequest::Withdraw { command } => {
                if self.prepared.borrow_mut().withdraw(&command).is_some() {
                    self.tell(AgentEvent::CommandWithdrawn { command });
                }
            }
            AgentRequest::KeepCore { command } => {
                let mut freeing = self.freeing.borrow_mut();
                if let Some(place) = freeing.iter().position(|it| *it == command) {
                    freeing.swap_remove(place);
                    self.tell(AgentEvent::CoreKept { command });
                }
            }
            AgentRequest::CommitRound { round, t0_ns, .. } => self.commit(round, t0_ns),
            AgentRequest::CloseRound { round } => self.close(round),
            AgentRequest::DefineEnvironment { .. }
            | AgentRequest::ForgetEnvironments { .. }
            | AgentRequest::ChangeDirectory { .. }
            | AgentRequest::ForgetProgram { .. }
            | AgentRequest::Signal { .. }
            | AgentRequest::Streams(_) => {}
        }
    }

    fn begin_prepared(self: &Rc<Self>, next: Option<(CommandId, Option<GateOptions>)>) {
        let Some((command, gate)) = next else { return };
        self.freeing.borrow_mut().push(command);
        self.tell(AgentEvent::CommandBegun { command });
        self.begin(command, gate);
    }

    fn begin(self: &Rc<Self>, command: CommandId, gate: Option<GateOptions>) {
        if let Some(gate) = gate {
            self.gated.borrow_mut().push(Waiting { command, gate, ready_ns: machine_ns() });
            return self.tell(AgentEvent::CommandReady { command });
        }
        if self.busy.is_zero() {
            return self.end(command, 0);
        }
        let agent = Rc::clone(self);
        spawn_local(async move {
            tokio::time::sleep(agent.busy).await;
            agent.end(command, 0);
        });
    }

    fn end(self: &Rc<Self>, command: CommandId, status: i32) {
        let place = self.freeing.borrow().iter().position(|it| *it == command);
        let next = place.and_then(|place| {
            self.freeing.borrow_mut().swap_remove(place);
            self.tell(AgentEvent::CoreFreed { command });
            self.prepared.borrow_mut().core_freed()
        });
        self.tell(AgentEvent::CommandExited {
            command,
            status,
            process: 0,
            captured: None,
            error: None,
            usage: Usage::default(),
            lingers: false,
            is_outlived: false,
        });
        self.begin_prepared(next);
    }

    fn of_round(&self, round: u32) -> Vec<Waiting> {
        self.gated.borrow_mut().extract_if(.., |it| it.gate.round == round).collect()
    }

    fn commit(self: &Rc<Self>, round: u32, t0_ns: i64) {
        let woke_ns = machine_ns();
        for Waiting { command, gate, ready_ns } in self.of_round(round) {
            let agent = Rc::clone(self);
            spawn_local(async move {
                let left_ns = t0_ns.saturating_add(gate.offset_ns).saturating_sub(machine_ns());
                let left = Duration::from_nanos(u64::try_from(left_ns).unwrap_or(0));
                tokio::time::sleep(left).await;
                let start_ns = machine_ns();
                let stamps = GateStamps {
                    ready_ns,
                    woke_ns,
                    spun_ns: start_ns,
                    start_ns,
                    spins: false,
                    has_met: false,
                    cpu: -1,
                    cache: None,
                };
                agent.tell(AgentEvent::CommandPassed { command, gate: GateKind::Exec, stamps });
                agent.end(command, 0);
            });
        }
    }

    /// What waits at the gate of a round that does not begin ends as a process would after SIGTERM.
    fn close(self: &Rc<Self>, round: u32) {
        for waiting in self.of_round(round) {
            self.end(waiting.command, 15);
        }
    }

    fn sample(self: &Rc<Self>, period_ms: u32) {
        if let Some(sampling) = self.sampling.take() {
            sampling.abort();
        }
        let Some(states) = self.states.clone().filter(|_| period_ms > 0) else { return };
        let agent = Rc::clone(self);
        let task = spawn_local(async move {
            states.restart();
            states.sample(true);
            // One rests for its part of the period, so that not all tell at the same time.
            let period = Duration::from_millis(period_ms.into());
            tokio::time::sleep(period.mul_f64(agent.share())).await;
            let mut beats = tokio::time::interval(period);
            loop {
                agent.link.offer_state();
                beats.tick().await;
                states.sample(false);
            }
        });
        self.sampling.replace(Some(task.abort_handle()));
    }

    /// From 0 to 1, evenly over the agents.
    fn share(&self) -> f64 {
        let states = self.states.as_ref().map_or(0, |states| states.0.borrow().random.0);
        f64::from(u32::try_from(states % 1000).unwrap_or(0)) / 1000.0
    }
}

/// An agent that has not greeted the hub.
fn agent(number: u32, wanted: &Wanted, token: Text) -> Rc<Agent> {
    let facts = NodeFacts {
        host: Text::from(format!("s{number:05}")),
        cores: wanted.cores,
        memory_bytes: MEMORY_BYTES,
        cachestat: false,
        scratch: Text::from("/tmp".to_owned()),
        scratch_bytes_free: MEMORY_BYTES,
    };
    let session = u64::from(std::process::id()) << 32 | u64::from(number);
    let agent = Agent {
        link: AgentLink::new(Identity { token, session, facts }),
        busy: wanted.busy,
        states: wanted.states.then(|| Rc::new(States::new(number))),
        sampling: RefCell::default(),
        prepared: RefCell::default(),
        freeing: RefCell::default(),
        gated: RefCell::default(),
    };
    agent.link.set_clock(machine_ns);
    if let Some(states) = &agent.states {
        agent.link.set_state_source(Rc::clone(states) as Rc<dyn StateSource>);
    }
    Rc::new(agent)
}

/// Serves one agent from the greeting to the end of its connection, and returns whether the hub has ended it.
async fn serve(agent: &Rc<Agent>, connection: Connection) -> Result<bool, Failure> {
    agent.link.send(&FromAgent::Ready { directory: connection.welcome.settings.directory.clone() });
    let ending = agent.link.serve(connection, |message| agent.take(message)).await;
    // Nothing keeps the agent any more.
    if let Some(sampling) = agent.sampling.take() {
        sampling.abort();
    }
    match ending {
        Ending::Bye(why) if why.is_empty() => Ok(true),
        Ending::Bye(why) | Ending::Broken(why) => Err(why.into()),
        Ending::SaidBye => Ok(false),
        Ending::Wrong(error) => Err(error.into()),
    }
}

/// An agent that dials the hub.
async fn dial(
    agent: Rc<Agent>,
    dialler: Rc<Dialler>,
    dials: Rc<Semaphore>,
) -> Result<bool, Failure> {
    let permit = dials.acquire().await?;
    let (reader, writer) = dialler.connect().await?;
    let connection = agent.link.greet(reader, writer).await?;
    drop(permit);
    serve(&agent, connection).await
}

/// An agent that a leader has started.
async fn answer(wanted: Rc<Wanted>, handed: Handed) -> Result<bool, Failure> {
    let agent = agent(handed.number, &wanted, Text::default());
    let (reader, writer) = (stdio::reader(handed.input)?, stdio::writer(handed.output)?);
    let connection = agent.link.greet(reader, writer).await?;
    serve(&agent, connection).await
}

/// Starts the agents, each when it is there.
async fn start_all(wanted: &Rc<Wanted>) -> Result<Vec<JoinHandle<Result<bool, Failure>>>, Failure> {
    let mut agents = Vec::new();
    if let Some(socket) = &wanted.listen {
        let mut handed = handed::listen(socket)?;
        for _ in 0..wanted.agents {
            let one = handed.recv().await.ok_or("nothing is handed over any more")??;
            agents.push(spawn_local(answer(Rc::clone(wanted), one)));
        }
        return Ok(agents);
    }
    let Invitation { address, credentials } = Invitation::read_from(std::io::stdin(), "on stdin")?;
    let dialler = Rc::new(Dialler::new(&address, &credentials)?);
    let dials = Rc::new(Semaphore::new(wanted.dials as usize));
    for number in 0..wanted.agents {
        let agent = agent(number, wanted, credentials.token.clone());
        agents.push(spawn_local(dial(agent, Rc::clone(&dialler), Rc::clone(&dials))));
    }
    Ok(agents)
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let wanted = Rc::new(Wanted::of(&words)?);
    rakuda_agent::limits::widen();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    let ended = local.block_on(&runtime, async {
        let mut ended = 0;
        for agent in start_all(&wanted).await? {
            match agent.await? {
                Ok(is_wanted) => ended += u32::from(is_wanted),
                Err(why) => writeln!(std::io::stderr(), "agents: {why}")?,
            }
        }
        Ok::<u32, Failure>(ended)
    })?;
    writeln!(std::io::stdout(), "{ended} of {} agents ended by the hub", wanted.agents)?;
    Ok(())
}
