//! Commands from start to exit: one future each, on the caller's single-threaded runtime.
//!
//! Lives on the hub's thread, or on the command thread of an agent elsewhere. Reports through a
//! channel; never waits for the hub.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, OsString};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use rakuda_core::Prepared;
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentEvent, AgentRequest, CommandId, OutputDescriptor, RoundStop};
use rakuda_proto::front::{CommandOptions, Program, Usage};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;

use crate::bounds::{Bounds, Said};
use crate::clock;
use crate::gate::{Gates, Worker};
use crate::hosts_file::HostsFile;
use crate::launch::{PreparedLaunch, own_environment};
use crate::lookup::Programs;
use crate::memory_groups::MemoryGroup;
use crate::pipes::{CHUNK_BYTES, PipePair, WriterPair};
use crate::processes::{self, COMMAND_VARIABLE, command_mark};
use crate::readiness::watch;
use crate::round_stops::RoundStops;
use crate::spawn::{
    DescriptorAction, EnvironmentBlock, Group, Launch, Process, SpawnError, Spawner,
};
use crate::streams::{Ends, Openings};

/// What exec failures count as: the shell's "command not found".
const NOT_STARTED_STATUS: i32 = 127 << 8;

/// Where commands read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdinSource {
    /// /dev/null.
    Null,
    /// This process's own stdin.
    Inherit,
}

/// Settings of an agent.
#[derive(Debug)]
pub struct AgentConfig {
    /// Where commands run that name no directory.
    pub directory: PathBuf,
    /// Where they read from.
    pub stdin: StdinSource,
    /// Collect what they write (else they write to this process's own descriptors).
    pub collect_output: bool,
    /// Commands join this process group (the one that may read the terminal) instead of having one each.
    pub join_group: Option<i32>,
}

/// Starts and watches commands.
#[derive(Clone)]
pub struct Agent {
    inner: Rc<Inner>,
}

struct Inner {
    config: AgentConfig,
    spawner: RefCell<Spawner>,
    /// Where programs were found.
    programs: RefCell<Programs>,
    events: UnboundedSender<AgentEvent>,
    /// `config.directory`, when this process is elsewhere.
    elsewhere: RefCell<Option<PathBuf>>,
    /// Opened once for all commands.
    null: OwnedFd,
    /// Of the run, or of the agent elsewhere: what a command is marked with. `None`: commands are not marked.
    mark: Option<String>,
    /// By number; 0 is this process's own.
    environments: RefCell<BTreeMap<u32, Rc<EnvironmentBlock>>>,
    /// What `environments` start from: that of this process, unless it was given another.
    base_environment: RefCell<Vec<(OsString, OsString)>>,
    /// For commands that clear theirs.
    empty_environment: Rc<EnvironmentBlock>,
    /// Commands that have not exited, and exited ones whose group still has members.
    running: RefCell<BTreeMap<CommandId, Rc<Process>>>,
    /// Commands whose exit has not been reported.
    unreported: Cell<usize>,
    /// Commands whose memory is bounded.
    bounds: RefCell<Bounds>,
    /// Of synchronised starts.
    gates: Rc<Gates>,
    /// Their common ends.
    stops: RefCell<RoundStops>,
    /// Nothing is read from commands for now: what shows their output is behind.
    paused: Cell<bool>,
    /// Streams between commands.
    streams: RefCell<Openings>,
    /// Commands that wait for a core.
    prepared: RefCell<Prepared<CommandId, Waiting>>,
    /// Commands that free their cores at their ends.
    freeing: RefCell<BTreeSet<CommandId>>,
    /// Wakes those that wait for the end of the pause.
    resumed: Notify,
}

/// What a prepared command is started with: all as it was when it came.
struct Waiting {
    program: Program,
    options: Option<Box<CommandOptions>>,
    surroundings: Surroundings,
}

/// Where a command runs, and with what environment.
struct Surroundings {
    environment: Rc<EnvironmentBlock>,
    elsewhere: Option<PathBuf>,
}

impl Agent {
    /// An agent that reports to `events`. Must be used inside a `tokio::task::LocalSet`.
    pub fn new(config: AgentConfig, events: UnboundedSender<AgentEvent>) -> std::io::Result<Self> {
        let null = rustix::fs::open(
            "/dev/null",
            rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        )?;
        let base = own_environment();
        let gates = Rc::new(Gates::new(events.clone()));
        let own = Rc::new(EnvironmentBlock::new(base.clone()));
        let here = std::env::current_dir().is_ok_and(|here| here == config.directory);
        let elsewhere = (!here).then(|| config.directory.clone());
        Ok(Self {
            inner: Rc::new(Inner {
                bounds: RefCell::default(),
                config,
                spawner: RefCell::new(Spawner::new()),
                programs: RefCell::default(),
                elsewhere: RefCell::new(elsewhere),
                events,
                null,
                mark: processes::own_mark(),
                environments: RefCell::new(BTreeMap::from([(0, own)])),
                base_environment: RefCell::new(base),
                empty_environment: Rc::new(EnvironmentBlock::new([])),
                running: RefCell::new(BTreeMap::new()),
                unreported: Cell::new(0),
                gates,
                stops: RefCell::default(),
                paused: Cell::new(false),
                streams: RefCell::default(),
                prepared: RefCell::default(),
                freeing: RefCell::default(),
                resumed: Notify::new(),
            }),
        })
    }

    /// Sets variables for all commands, on top of those of this process. To be called before the first request.
    pub fn extend_environment(&self, variables: impl IntoIterator<Item = (OsString, OsString)>) {
        let mut base: BTreeMap<OsString, OsString> = own_environment().into_iter().collect();
        base.extend(variables);
        let block = Rc::new(EnvironmentBlock::new(base.clone()));
        self.inner.environments.borrow_mut().insert(0, block);
        self.inner.base_environment.replace(base.into_iter().collect());
    }

    /// Does what the hub asks. A start that fails is reported as an exit with an error.
    pub fn handle(&self, request: AgentRequest) {
        match request {
            AgentRequest::DefineEnvironment { environment, set, unset } => {
                self.define_environment(environment, set, &unset);
            }
            AgentRequest::ForgetEnvironments { below } => {
                self.inner
                    .environments
                    .borrow_mut()
                    .retain(|number, _| *number == 0 || *number >= below);
            }
            AgentRequest::ChangeDirectory { directory } => {
                let here = std::env::current_dir().is_ok_and(|here| here == directory.as_path());
                let elsewhere = (!here).then(|| directory.as_path().to_path_buf());
                self.inner.elsewhere.replace(elsewhere);
                // Relative parts of PATH mean other folders now.
                self.inner.programs.borrow_mut().forget_all();
            }
            AgentRequest::ForgetProgram { name } => {
                self.inner.programs.borrow_mut().forget(&name.0);
            }
            AgentRequest::Start { command, program, options } => {
                let surroundings = self.inner.surroundings_of(command, options.as_deref());
                self.begin(command, Waiting { program, options, surroundings });
            }
            AgentRequest::FreesCore { command } => {
                self.inner.freeing.borrow_mut().insert(command);
            }
            AgentRequest::Prepare { command, program, options, freed } => {
                let surroundings = self.inner.surroundings_of(command, options.as_deref());
                let waiting = Waiting { program, options, surroundings };
                let next = self.inner.prepared.borrow_mut().prepare(command, waiting, freed);
                self.begin_prepared(next);
            }
            AgentRequest::Release => {
                let next = self.inner.prepared.borrow_mut().release();
                self.begin_prepared(next);
            }
            AgentRequest::Withdraw { command } => {
                if self.inner.prepared.borrow_mut().withdraw(&command).is_some() {
                    let _ = self.inner.events.send(AgentEvent::CommandWithdrawn { command });
                }
            }
            AgentRequest::KeepCore { command } => {
                // One that has ended has said so.
                if self.inner.freeing.borrow_mut().remove(&command) {
                    let _ = self.inner.events.send(AgentEvent::CoreKept { command });
                }
            }
            AgentRequest::CommitRound { round, t0_ns, spin_ns, patience_ns, stop } => {
                Rc::clone(&self.inner.gates).commit(round, t0_ns, spin_ns, patience_ns);
                if let Some(stop) = stop {
                    let commands = self.inner.gates.commands_of(round);
                    let stopping = Rc::clone(&self.inner).stop_round(commands, t0_ns, stop);
                    tokio::task::spawn_local(stopping);
                }
            }
            AgentRequest::CloseRound { round } => self.inner.gates.close(round),
            AgentRequest::Signal { command, signal } => {
                if let Some(process) = self.inner.running.borrow().get(&command) {
                    process.signal_group(signal);
                }
            }
            AgentRequest::Streams(request) => {
                self.inner.streams.borrow_mut().handle(request, &self.inner.events);
            }
        }
    }

    fn begin(&self, command: CommandId, waiting: Waiting) {
        self.inner.unreported.set(self.inner.unreported.get() + 1);
        let Waiting { program, options, surroundings } = waiting;
        if let Err(error) = self.start(command, program, options.as_deref(), surroundings) {
            self.inner.report_exit(AgentEvent::CommandExited {
                command,
                status: NOT_STARTED_STATUS,
                process: 0,
                captured: None,
                error: Some(Text::from(error.to_string())),
                usage: Usage::default(),
                lingers: false,
                is_outlived: false,
            });
        }
    }

    fn begin_prepared(&self, next: Option<(CommandId, Waiting)>) {
        let Some((command, waiting)) = next else { return };
        let _ = self.inner.events.send(AgentEvent::CommandBegun { command });
        self.inner.freeing.borrow_mut().insert(command);
        self.begin(command, waiting);
    }

    /// Sends `signal` to every process group that still has members; returns how many. What was
    /// prepared is given back.
    pub fn signal_all(&self, signal: i32) -> usize {
        for (command, _) in self.inner.prepared.borrow_mut().withdraw_all() {
            let _ = self.inner.events.send(AgentEvent::CommandWithdrawn { command });
        }
        let mut running = self.inner.running.borrow_mut();
        running.retain(|_, process| !process.is_reaped() || process.group_lives());
        running.values().for_each(|process| process.signal_group(signal));
        running.len()
    }

    /// Stops or goes on reading what commands write; they wait when their pipes are full.
    pub fn pause_output(&self, paused: bool) {
        if self.inner.paused.replace(paused) && !paused {
            self.inner.resumed.notify_waiters();
        }
    }

    /// Commands whose exit has not been reported.
    pub fn unreported(&self) -> usize {
        self.inner.unreported.get()
    }

    fn define_environment(&self, number: u32, set: BTreeMap<Text, Text>, unset: &[Text]) {
        let to_os = |text: Text| OsString::from_vec(text.0);
        let mut variables: BTreeMap<OsString, OsString> =
            self.inner.base_environment.borrow().iter().cloned().collect();
        for name in unset {
            variables.remove(name.as_os_str());
        }
        variables.extend(set.into_iter().map(|(name, value)| (to_os(name), to_os(value))));
        let block = Rc::new(EnvironmentBlock::new(variables));
        self.inner.environments.borrow_mut().insert(number, block);
    }

    fn start(
        &self,
        command: CommandId,
        program: Program,
        options: Option<&CommandOptions>,
        surroundings: Surroundings,
    ) -> Result<(), SpawnError> {
        let inner = &self.inner;
        let refused = |source| SpawnError::Refused { program: "a file of hosts".into(), source };
        let Surroundings { mut environment, elsewhere } = surroundings;
        let hosts = options.map_or(&[][..], |options| &options.hosts);
        let mut hosts_file = None;
        if !hosts.is_empty() {
            let file = HostsFile::make(command, hosts).map_err(refused)?;
            environment = file.environment(hosts, &environment);
            hosts_file = Some(file);
        }
        let capture = options.is_some_and(|options| options.capture);
        let refused = |source| SpawnError::Refused { program: "a pipe".into(), source };
        let collect = inner.config.collect_output;
        let pair = if collect || capture { Some(PipePair::new().map_err(refused)?) } else { None };
        let (pipes, writers) = pair.unzip();
        let joined = options.and_then(|options| options.streams);
        let ends = joined.and_then(|(id, task)| inner.streams.borrow().ends_of(id, task));
        if joined.is_some() && ends.is_none() {
            // It must neither wait for another stdin, nor show what is for others.
            return Err(SpawnError::NoStreams);
        }
        let mut base = inner.base_descriptors(writers.as_ref(), collect);
        if let Some(ends) = &ends {
            let stdin = ends.stdin().map(|from| DescriptorAction::Duplicate { from, to: 0 });
            let stdout = ends.stdout().filter(|_| !capture);
            base.extend(stdin);
            base.extend(stdout.map(|from| DescriptorAction::Duplicate { from, to: 1 }));
        }
        let mut programs = inner.programs.borrow_mut();
        let elsewhere = elsewhere.as_deref();
        let mut prepared =
            PreparedLaunch::new(program, options, &environment, elsewhere, base, &mut programs)?;
        let gate = options.and_then(|options| options.gate.as_ref());
        let worker = match gate {
            Some(gate) => inner.gates.admit(command, gate, &mut prepared, &mut environment)?,
            None => None,
        };
        let bytes_max = options.map_or(0, |options| options.memory_bytes_max);
        let group = (bytes_max > 0).then(|| inner.group_for(command, bytes_max)).flatten();
        let door = group.as_ref().map(MemoryGroup::door);
        let (started_ns, machine_ns) = (clock::monotonic_ns(), clock::machine_ns());
        let mut process = inner.execute(&prepared, &environment, door);
        if let Err(error) = &process
            && prepared.look_again(error, &environment, &mut programs)?
        {
            process = inner.execute(&prepared, &environment, door);
        }
        let process = match process {
            Ok(process) => Rc::new(process),
            Err(source) => {
                inner.bounds.borrow_mut().give_back(group);
                let program = prepared.program.to_string_lossy().into_owned();
                return Err(SpawnError::Refused { program, source });
            }
        };
        if bytes_max > 0 {
            inner.bounds.borrow_mut().add(command, &process, group, bytes_max);
        }
        inner.running.borrow_mut().insert(command, Rc::clone(&process));
        if gate.is_some() && worker.is_none() {
            inner.gates.report_plain(command, machine_ns);
        }
        let watched = Watched {
            command,
            process,
            pipes,
            ends,
            capture,
            started_ns,
            worker,
            _hosts_file: hosts_file,
        };
        tokio::task::spawn_local(Rc::clone(inner).watch(watched));
        Ok(())
    }
}

/// A running command.
struct Watched {
    command: CommandId,
    process: Rc<Process>,
    pipes: Option<PipePair>,
    /// What its task has of streams.
    ends: Option<Rc<Ends>>,
    /// Keep stdout for the exit report instead of passing it on.
    capture: bool,
    started_ns: u64,
    /// Where it waits.
    worker: Option<Worker>,
    /// Goes with it.
    _hosts_file: Option<HostsFile>,
}

/// What was read and not passed on yet.
#[derive(Default)]
struct Collected {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Inner {
    fn surroundings_of(
        &self,
        command: CommandId,
        options: Option<&CommandOptions>,
    ) -> Surroundings {
        let environment = self.environment_of(command, options);
        Surroundings { environment, elsewhere: self.elsewhere.borrow().clone() }
    }

    fn environment_of(
        &self,
        command: CommandId,
        options: Option<&CommandOptions>,
    ) -> Rc<EnvironmentBlock> {
        if options.is_some_and(|options| options.clear_environment) {
            return Rc::clone(&self.empty_environment);
        }
        let number = options.map_or(0, |options| options.environment);
        let environments = self.environments.borrow();
        let environment = environments.get(&number).unwrap_or(&environments[&0]);
        let Some(mark) = &self.mark else { return Rc::clone(environment) };
        let entry = format!("{COMMAND_VARIABLE}={}", command_mark(mark, command));
        match CString::new(entry) {
            Ok(entry) => Rc::new(EnvironmentBlock::with(environment, entry)),
            Err(_) => Rc::clone(environment),
        }
    }

    fn execute(
        &self,
        prepared: &PreparedLaunch,
        environment: &EnvironmentBlock,
        control_group: Option<RawFd>,
    ) -> std::io::Result<Process> {
        self.spawner.borrow_mut().start(&Launch {
            program: &prepared.program,
            words: &prepared.words,
            environment,
            directory: prepared.directory.as_deref(),
            descriptors: &prepared.descriptors,
            group: self.config.join_group.map_or(Group::Own, Group::Join),
            control_group,
        })
    }

    /// A control group for a command that may have `bytes_max` of memory, where there can be one. Says how it is, once.
    fn group_for(&self, command: CommandId, bytes_max: u64) -> Option<MemoryGroup> {
        let (group, said) = self.bounds.borrow_mut().group(command, bytes_max);
        if let Some(said) = said {
            let why_watched = match said {
                Said::Groups => None,
                Said::Watch(why) => Some(Text::from(why)),
            };
            let _ = self.events.send(AgentEvent::MemoryEnforced { why_watched });
        }
        group
    }

    /// What descriptors 0, 1 and 2 are before the command's own redirections.
    fn base_descriptors(
        &self,
        writers: Option<&WriterPair>,
        collect: bool,
    ) -> Vec<DescriptorAction> {
        let mut actions = Vec::with_capacity(4);
        if self.config.stdin == StdinSource::Null {
            actions.push(DescriptorAction::Duplicate { from: self.null.as_raw_fd(), to: 0 });
        }
        if let Some(writers) = writers {
            actions.push(DescriptorAction::Duplicate { from: writers.stdout(), to: 1 });
            if collect {
                actions.push(DescriptorAction::Duplicate { from: writers.stderr(), to: 2 });
            }
        }
        actions
    }

    async fn watch(self: Rc<Self>, mut watched: Watched) {
        let pidfd = watch(Rc::clone(&watched.process));
        let mut collected = Collected::default();
        let status = loop {
            let paused = self.paused.get();
            match (&pidfd, &mut watched.pipes) {
                (Ok(pidfd), Some(pipes)) => tokio::select! {
                    biased;
                    _ = pidfd.readable() => {}
                    () = pipes.stdout.read(&mut collected.stdout), if !paused => {}
                    () = pipes.stderr.read(&mut collected.stderr), if !paused => {}
                    () = self.resumed.notified(), if paused => {}
                },
                (Ok(pidfd), None) => drop(pidfd.readable().await),
                // No room in epoll: ask again and again, but let others run.
                (Err(_), _) => tokio::task::yield_now().await,
            }
            let take = || watched.process.take_status();
            let taken = self.bounds.borrow_mut().take_status(watched.command, take);
            if let Some(status) = taken {
                break status;
            }
            let much = collected.stdout.len().max(collected.stderr.len()) >= CHUNK_BYTES;
            self.pass_on(&watched, &mut collected);
            if much {
                // A pipe that is never empty would keep all others from their turn, and the request to pause as well.
                tokio::task::yield_now().await;
            }
        };
        drop(pidfd);
        self.on_exit(watched, collected, status);
    }

    /// Ends the commands of a round at the time that was set for all of it, by this machine's clock.
    async fn stop_round(self: Rc<Self>, commands: Vec<CommandId>, t0_ns: i64, stop: RoundStop) {
        let due_ns = t0_ns.saturating_add_unsigned(stop.after_ns);
        let left_ns = u64::try_from(due_ns - clock::machine_ns()).unwrap_or(0);
        tokio::time::sleep(Duration::from_nanos(left_ns)).await;
        for command in &commands {
            let process = self.running.borrow().get(command).cloned();
            if let Some(process) = process.filter(|process| !process.is_reaped()) {
                self.stops.borrow_mut().terminated(*command);
                process.signal_group(libc::SIGTERM);
            }
        }
        let grace = Duration::from_nanos(stop.grace_ns);
        tokio::time::sleep(grace).await;
        for command in self.stops.borrow_mut().overdue(&commands, grace) {
            if let Some(process) = self.running.borrow().get(&command) {
                process.signal_group(libc::SIGKILL);
            }
        }
    }

    fn pass_on(&self, watched: &Watched, collected: &mut Collected) {
        if !watched.capture {
            self.report_output(watched.command, OutputDescriptor::Stdout, &mut collected.stdout);
        }
        self.report_output(watched.command, OutputDescriptor::Stderr, &mut collected.stderr);
    }

    fn report_output(&self, command: CommandId, descriptor: OutputDescriptor, bytes: &mut Vec<u8>) {
        if !bytes.is_empty() {
            let bytes = std::mem::take(bytes);
            // The hub is gone only when the run is over; then nobody wants the output.
            let _ = self.events.send(AgentEvent::OutputWritten { command, descriptor, bytes });
        }
    }

    fn report_exit(self: &Rc<Self>, event: AgentEvent) {
        self.unreported.set(self.unreported.get() - 1);
        let AgentEvent::CommandExited { command, status, .. } = event else { return };
        let freed = self.freeing.borrow_mut().remove(&command) && status == 0;
        if freed {
            let _ = self.events.send(AgentEvent::CoreFreed { command });
        }
        let _ = self.events.send(event);
        if freed {
            let next = self.prepared.borrow_mut().core_freed();
            Agent { inner: Rc::clone(self) }.begin_prepared(next);
        }
    }

    fn on_exit(
        self: &Rc<Self>,
        mut watched: Watched,
        mut collected: Collected,
        status: ((i32, Usage), Option<String>),
    ) {
        let ((status, mut usage), killed) = status;
        usage.wall_ns = clock::monotonic_ns() - watched.started_ns;
        let mut error = killed.map(Text::from);
        if let Some(worker) = &watched.worker {
            error = error.or_else(|| worker.trouble());
            // What it did before it began is no time of the program.
            usage.wall_ns = self
                .gates
                .report_ended(worker)
                .map_or(0, |start_ns| u64::try_from(clock::machine_ns() - start_ns).unwrap_or(0));
        }
        let (status, unheeded) = self.stops.borrow_mut().ended(watched.command, status);
        error = error.or_else(|| unheeded.map(Text::from));
        let status = watched.ends.take().map_or(status, |ends| ends.status_of(status));
        if let Some(pipes) = &mut watched.pipes {
            pipes.stdout.drain(&mut collected.stdout);
            pipes.stderr.drain(&mut collected.stderr);
        }
        self.pass_on(&watched, &mut collected);
        let captured = watched.capture.then(|| Text(std::mem::take(&mut collected.stdout)));
        let process = watched.process.id;
        let group_lives = watched.process.group_lives();
        if !group_lives {
            self.running.borrow_mut().remove(&watched.command);
        }
        // It may have members that nobody has waited for yet. All processes are looked at for that.
        let is_outlived =
            group_lives && watched.worker.is_some() && processes::group_goes_on(process);
        let command = watched.command;
        let left_over = watched.pipes.take().filter(|pipes| !pipes.ended());
        self.report_exit(AgentEvent::CommandExited {
            command,
            status,
            process,
            captured,
            error,
            usage,
            lingers: left_over.is_some(),
            is_outlived,
        });
        if let Some(pipes) = left_over {
            tokio::task::spawn_local(Rc::clone(self).linger(command, pipes));
        }
    }

    /// Goes on reading what a command's left-over children write, until the last writer is gone.
    async fn linger(self: Rc<Self>, command: CommandId, mut pipes: PipePair) {
        let mut collected = Collected::default();
        while !pipes.ended() {
            if self.paused.get() {
                self.resumed.notified().await;
                continue;
            }
            let (stdout_ended, stderr_ended) = (pipes.stdout.ended(), pipes.stderr.ended());
            tokio::select! {
                () = pipes.stdout.read(&mut collected.stdout), if !stdout_ended => {}
                () = pipes.stderr.read(&mut collected.stderr), if !stderr_ended => {}
            }
            self.report_output(command, OutputDescriptor::Stdout, &mut collected.stdout);
            self.report_output(command, OutputDescriptor::Stderr, &mut collected.stderr);
        }
        let _ = self.events.send(AgentEvent::OutputEnded { command });
    }
}
