//! The gates of synchronised starts on this machine: what a command is held by, and what it notes there
//! (docs/design/synchronised-start.md; gate/ has the other side).
//!
//! A round has a page in memory, which its workers read and write as a file, and two pipes: one that they write their
//! number to when they wait, and one that they wait for the end of. This process alone has the latter's writing end, so
//! that its end means that the round begins, or is given up, or that this process is gone; the page says which. It
//! knows only the times that it is given.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::sync::OnceLock;
use std::time::Duration;

use rakuda_proto::Text;
use rakuda_proto::agent::{AgentEvent, CacheEvidence, CommandId, GateStamps};
use rakuda_proto::front::{CacheOptions, CacheState, GateChoice, GateKind, GateOptions};
use rustix::fs::{MemfdFlags, OFlags, memfd_create};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::sync::mpsc::UnboundedSender;

use crate::clock::{self, StepWatch};
use crate::cores;
use crate::launch::PreparedLaunch;
use crate::pipes::OutputPipe;
use crate::processors::{Binding, Processors};
use crate::spawn::{DescriptorAction, EnvironmentBlock, SpawnError};

/// The library that holds dynamic programs.
static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/gate.so"));
/// The helper that holds others.
static HELPER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/gate"));

/// First bytes of a page: "RKG1", little endian.
const MAGIC: u32 = 0x3147_4b52;
const COMMITTED: u32 = 1;
const COLD: u32 = 1;
const WARM: u32 = 2;
/// Bytes of the head of a page.
const HEAD_BYTES: usize = 64;
/// Where in the page its workers note when they begin together.
const GO_AT: u64 = 32;
/// Bytes of the place of a worker in the page.
const PLACE_BYTES: usize = 64;
/// Where in a place its worker's gate says what kind it is of.
const KIND_AT: u64 = 48;
/// By call, at a gate that does not wait for the other workers, as Ruby's; 4: at one that does.
const CALL_ALONE: u32 = 3;
/// Bytes of an order.
const ORDER_BYTES: usize = 48;
/// Orders begin behind all places that there can be: the page has no bytes where nothing was written.
const ORDERS_AT: u64 = HEAD_BYTES as u64 + PLACE_BYTES as u64 * (1 << 32);
/// Bytes of the number of a worker that waits.
const NUMBER_BYTES: usize = 4;

/// Descriptors of a worker, high so that they are in nobody's way; the gate closes them.
const PAGE: RawFd = 199;
const WAIT: RawFd = 198;
const READY: RawFd = 197;
const FILE: RawFd = 196;
/// Maximum length of a chain of shebang lines: the kernel's own limit.
const INTERPRETERS_MAX: usize = 5;

/// Time between the instant of a round and the first look at what its workers have noted, and between two looks. A
/// worker that has ended is reported at once.
const LOOK_AFTER: Duration = Duration::from_millis(20);

/// The rounds that this machine has workers of.
pub struct Gates {
    rounds: RefCell<BTreeMap<u32, Rc<Round>>>,
    /// Of the wall clock since the first of them came.
    clock_steps: Cell<StepWatch>,
    processors: Processors,
    events: UnboundedSender<AgentEvent>,
}

/// A command's place in a round.
pub struct Worker {
    round: Rc<Round>,
    number: u32,
    /// That it sees to.
    files: Vec<Text>,
    /// Until it ends.
    _binding: Option<Binding>,
}

/// A round, as far as it is on this machine.
struct Round {
    page: File,
    /// Its end is what workers wait for.
    release: RefCell<Option<OwnedFd>>,
    wait: OwnedFd,
    ready: OwnedFd,
    /// Where the next worker's order goes.
    next_order: Cell<u64>,
    /// Its workers spin.
    spins: Cell<bool>,
    /// They begin at one instant.
    can_meet: Cell<bool>,
    /// By number.
    places: RefCell<BTreeMap<u32, WorkerAtGate>>,
}

/// Of a worker.
#[derive(Clone, Copy)]
struct WorkerAtGate {
    command: CommandId,
    /// What waits where the program itself does not: the shell for a line, the interpreter of a script.
    waits: Option<GateKind>,
    /// The hub knows that it has gone through.
    is_reported: bool,
}

impl Gates {
    /// Reports go to `events`.
    pub fn new(events: UnboundedSender<AgentEvent>) -> Self {
        Self {
            rounds: RefCell::default(),
            clock_steps: Cell::default(),
            processors: Processors::default(),
            events,
        }
    }

    /// Has a command wait at the gate of its round. `None`: it is not to be held.
    pub fn admit(
        self: &Rc<Self>,
        command: CommandId,
        options: &GateOptions,
        launch: &mut PreparedLaunch,
        environment: &mut Rc<EnvironmentBlock>,
    ) -> Result<Option<Worker>, SpawnError> {
        if options.hold == GateChoice::None {
            return Ok(None);
        }
        let refused =
            |source| SpawnError::Refused { program: "the gate of its round".into(), source };
        has_descriptors().map_err(refused)?;
        let round = self.round(options.round).map_err(refused)?;
        // The kernel resolves a relative path from where the command runs.
        let folder = launch.directory.as_ref().map_or(Path::new(""), |it| path_of(it));
        let executed = Executed::look_at(path_of(&launch.program), folder);
        if options.hold == GateChoice::Preload && !executed.takes_library {
            return Err(SpawnError::Refused {
                program: launch.program.to_string_lossy().into_owned(),
                source: io::Error::other(
                    "gate: preload cannot hold it: it is static, without a C library, or has rights of its own; \
                     expected auto or exec",
                ),
            });
        }
        let waits = if launch.is_shell_line() {
            Some(GateKind::Shell)
        } else {
            executed.is_script.then_some(GateKind::Script)
        };
        let place = WorkerAtGate { command, waits, is_reported: false };
        let bind = || self.processors.bind(options.round, options.worker, options.local_rank);
        let binding = options.pin.then(bind).flatten();
        round.write_place(options, binding.as_ref().map(Binding::number)).map_err(refused)?;
        if options.offset_ns != 0 {
            round.can_meet.set(false);
        }
        let files = options.cache.as_ref().map_or_else(Vec::new, |cache| cache.files.clone());
        for file in &files {
            is_readable(&folder.join(file.as_path())).map_err(refused)?;
        }
        let held = hold(&round, options, executed.takes_library, environment.value(b"LD_PRELOAD"));
        let hold = held.map_err(refused)?;
        round.places.borrow_mut().insert(options.worker, place);
        *environment = Rc::new(EnvironmentBlock::replacing(environment, hold.environment));
        launch.hold(hold.descriptors, hold.helper);
        Ok(Some(Worker { round, number: options.worker, files, _binding: binding }))
    }

    /// When the round begins.
    pub fn commit(self: Rc<Self>, round: u32, t0_ns: i64, spin_ns: i64, patience_ns: i64) {
        let Some(round) = self.rounds.borrow().get(&round).cloned() else { return };
        round.commit(t0_ns, spin_ns, patience_ns);
        let left = u64::try_from(t0_ns - clock::machine_ns()).unwrap_or(0);
        tokio::task::spawn_local(async move {
            tokio::time::sleep(Duration::from_nanos(left)).await;
            while !round.places.borrow().values().all(|place| place.is_reported) {
                tokio::time::sleep(LOOK_AFTER).await;
                let numbers: Vec<u32> = round.places.borrow().keys().copied().collect();
                for number in numbers {
                    self.report(&round, number);
                }
            }
        });
    }

    /// The commands that are its workers here.
    pub fn commands_of(&self, round: u32) -> Vec<CommandId> {
        let rounds = self.rounds.borrow();
        let places = rounds.get(&round).map(|round| round.places.borrow());
        places.iter().flat_map(|places| places.values()).map(|place| place.command).collect()
    }

    /// Ends the workers that still wait at the gate of the round.
    pub fn close(&self, round: u32) {
        if let Some(round) = self.rounds.borrow_mut().remove(&round) {
            round.release.replace(None);
            // Nobody looks for what they note any more.
            round.places.borrow_mut().clear();
        }
    }

    /// Reports that a worker has gone through its gate, unless it was reported before, and returns when that was, by
    /// the machine's clock.
    fn report(&self, round: &Round, worker: u32) -> Option<i64> {
        let (gate, stamps) = round.stamps(worker)?;
        let mut places = round.places.borrow_mut();
        if let Some(place) = places.get_mut(&worker).filter(|place| !place.is_reported) {
            place.is_reported = true;
            // A program that calls the gate itself waits there, whatever has started it.
            let gate = place.waits.filter(|_| gate != GateKind::Call).unwrap_or(gate);
            let command = place.command;
            // The hub is gone only when the run is over.
            let _ = self.events.send(AgentEvent::CommandPassed { command, gate, stamps });
        }
        Some(stamps.start_ns)
    }

    /// Reports of a worker that has ended that it has gone through its gate, unless it was reported before, and returns
    /// when that was, by the machine's clock.
    pub fn report_ended(&self, worker: &Worker) -> Option<i64> {
        self.report_clock();
        self.report(&worker.round, worker.number)
    }

    /// Reports that the wall clock was set since a round began here.
    fn report_clock(&self) {
        let mut steps = self.clock_steps.get();
        if let Some(by_ns) = steps.see(wall_ahead_ns()) {
            self.clock_steps.set(steps);
            let _ = self.events.send(AgentEvent::ClockSet { by_ns });
        }
    }

    /// Reports that a command which is not held was started.
    pub fn report_plain(&self, command: CommandId, start_ns: i64) {
        let stamps = GateStamps {
            ready_ns: start_ns,
            woke_ns: start_ns,
            spun_ns: start_ns,
            start_ns,
            spins: false,
            has_met: false,
            cpu: -1,
            cache: None,
        };
        let gate = GateKind::None;
        let _ = self.events.send(AgentEvent::CommandPassed { command, gate, stamps });
    }

    fn round(self: &Rc<Self>, number: u32) -> io::Result<Rc<Round>> {
        if let Some(round) = self.rounds.borrow().get(&number) {
            return Ok(Rc::clone(round));
        }
        let (round, ready) = Round::new()?;
        let round = Rc::new(round);
        if self.rounds.borrow().is_empty() {
            self.clock_steps.set(StepWatch::new(wall_ahead_ns()));
        }
        self.rounds.borrow_mut().insert(number, Rc::clone(&round));
        tokio::task::spawn_local(Rc::clone(self).hear(Rc::downgrade(&round), ready));
        Ok(round)
    }

    /// Reports each worker that waits, until the round is closed and all of its workers have come or gone.
    async fn hear(self: Rc<Self>, round: Weak<Round>, mut ready: OutputPipe) {
        let mut bytes = Vec::new();
        while !ready.ended() {
            ready.read(&mut bytes).await;
            let Some(round) = round.upgrade() else { return };
            let whole = bytes.len() - bytes.len() % NUMBER_BYTES;
            for number in bytes.drain(..whole).as_slice().chunks_exact(NUMBER_BYTES) {
                let number = number.try_into().map_or(u32::MAX, u32::from_ne_bytes);
                if let Some(place) = round.places.borrow().get(&number) {
                    let _ = self.events.send(AgentEvent::CommandReady { command: place.command });
                }
            }
        }
    }
}

impl Worker {
    /// Why it could not see to its files, if it could not.
    pub fn trouble(&self) -> Option<Text> {
        let Order { state, error, file, .. } = self.round.order(self.number)?;
        let error = error?;
        let file = self.files.get(file).map_or_else(String::new, Text::to_display);
        let what = match state {
            CacheState::Cold => "out of memory",
            CacheState::Warm => "into memory",
        };
        Some(Text::from(format!("its gate cannot get {file} {what}: {error}")))
    }
}

impl Round {
    /// A round without workers yet, and the pipe from which the numbers of those that wait are read.
    fn new() -> io::Result<(Self, OutputPipe)> {
        let page = File::from(memfd_create("rakuda-round", MemfdFlags::CLOEXEC)?);
        let (wait, release) = pipe_with(PipeFlags::CLOEXEC)?;
        let (pipe, ready) = OutputPipe::new()?;
        page.write_all_at(&head(0, 0, 0), 0)?;
        let release = RefCell::new(Some(release));
        let (spins, can_meet) = (Cell::default(), Cell::new(true));
        let (next_order, places) = (Cell::new(ORDERS_AT), RefCell::default());
        Ok((Self { page, release, wait, ready, next_order, spins, can_meet, places }, pipe))
    }

    /// What the worker is to know.
    fn write_place(&self, options: &GateOptions, processor: Option<u32>) -> io::Result<()> {
        let mut slot = [0; PLACE_BYTES];
        slot[32..40].copy_from_slice(&options.offset_ns.to_ne_bytes());
        let cpu = processor.and_then(|number| i32::try_from(number).ok()).unwrap_or(-1);
        slot[40..44].copy_from_slice(&cpu.to_ne_bytes());
        if let Some(cache) = &options.cache {
            slot[56..64].copy_from_slice(&self.write_order(cache)?.to_ne_bytes());
        }
        self.page.write_all_at(&slot, place_of(options.worker))
    }

    /// Writes what a worker sees to before it waits, and returns where that is.
    fn write_order(&self, cache: &CacheOptions) -> io::Result<u64> {
        let mut order = vec![0; ORDER_BYTES];
        for file in &cache.files {
            if file.0.contains(&0) {
                return Err(io::Error::from(io::ErrorKind::InvalidInput));
            }
            order.extend_from_slice(&file.0);
            order.push(0);
        }
        let names_bytes = order.len() - ORDER_BYTES;
        order[0..8].copy_from_slice(&names_bytes.to_ne_bytes());
        order[8..16].copy_from_slice(&rustix::param::page_size().to_ne_bytes());
        order[16..20].copy_from_slice(&number_of(cache.state).to_ne_bytes());
        let at = self.next_order.get();
        self.page.write_all_at(&order, at)?;
        self.next_order.set(at + order.len() as u64);
        Ok(at)
    }

    /// What has become of a worker's order. `None`: it has none.
    fn order(&self, worker: u32) -> Option<Order> {
        let mut at = [0; 8];
        self.page.read_exact_at(&mut at, place_of(worker) + 56).ok()?;
        let at = Some(u64::from_ne_bytes(at)).filter(|at| *at != 0)?;
        let mut order = [0; ORDER_BYTES];
        self.page.read_exact_at(&mut order, at).ok()?;
        let long = |at: usize| order[at..at + 8].try_into().map_or(0, i64::from_ne_bytes);
        let int = |at: usize| order[at..at + 4].try_into().map_or(0, i32::from_ne_bytes);
        let evidence = CacheEvidence {
            bytes: u64::try_from(long(32)).unwrap_or(0),
            resident: u64::try_from(long(40)).ok(),
        };
        let is_cold = int(16).unsigned_abs() == COLD;
        Some(Order {
            state: if is_cold { CacheState::Cold } else { CacheState::Warm },
            evidence: (int(20) != 0).then_some(evidence),
            error: (int(24) != 0).then(|| io::Error::from_raw_os_error(int(24))),
            file: int(28).unsigned_abs() as usize,
        })
    }

    /// Says when it begins, and wakes all. Where workers share processors none spins: one that did would keep the
    /// processor from the next.
    fn commit(&self, t0_ns: i64, spin_ns: i64, patience_ns: i64) {
        let workers = self.places.borrow().len();
        self.spins.set(spin_ns > 0 && workers <= cores::usable() as usize);
        let spin_ns = if self.spins.get() { spin_ns } else { 0 };
        let meet =
            self.spins.get() && workers > 1 && self.can_meet.get() && !self.waits_any_alone();
        let patience_ns = if meet { patience_ns } else { 0 };
        let mut head = head(COMMITTED, t0_ns, spin_ns);
        head[24..32].copy_from_slice(&patience_ns.to_ne_bytes());
        head[40..44].copy_from_slice(&u32::try_from(workers).unwrap_or(0).to_ne_bytes());
        // Workers that read a page which could not be written end, and that is seen.
        let _ = self.page.write_all_at(&head, 0);
        self.release.replace(None);
    }

    /// Whether some worker that is ready waits at a gate that does not wait for the others.
    fn waits_any_alone(&self) -> bool {
        let mut kind = [0; 4];
        let mut is_alone = |worker: &u32| {
            let read = self.page.read_exact_at(&mut kind, place_of(*worker) + KIND_AT);
            read.is_err() || u32::from_ne_bytes(kind) == CALL_ALONE
        };
        self.places.borrow().keys().any(&mut is_alone)
    }

    /// What the worker has noted. `None`: it has not gone through.
    fn stamps(&self, worker: u32) -> Option<(GateKind, GateStamps)> {
        let mut slot = [0; PLACE_BYTES];
        self.page.read_exact_at(&mut slot, place_of(worker)).ok()?;
        let long = |at: usize| slot[at..at + 8].try_into().map_or(0, i64::from_ne_bytes);
        let int = |at: usize| slot[at..at + 4].try_into().map_or(0, i32::from_ne_bytes);
        let gate = match int(48) {
            1 => GateKind::Preload,
            2 => GateKind::Exec,
            3 | 4 => GateKind::Call,
            _ => return None,
        };
        let stamps = GateStamps {
            ready_ns: long(0),
            woke_ns: long(8),
            spun_ns: long(16),
            start_ns: long(24),
            spins: self.spins.get(),
            has_met: self.has_met(),
            cpu: int(44),
            cache: self.order(worker).and_then(|order| order.evidence),
        };
        (stamps.start_ns > 0).then_some((gate, stamps))
    }

    /// Whether its workers have seen one another on their processors, and begun then.
    fn has_met(&self) -> bool {
        let mut go_ns = [0; 8];
        self.page.read_exact_at(&mut go_ns, GO_AT).is_ok() && i64::from_ne_bytes(go_ns) != 0
    }
}

/// What a worker was to see to before it waited.
struct Order {
    state: CacheState,
    /// `None`: it has not done so.
    evidence: Option<CacheEvidence>,
    /// Why it could not.
    error: Option<io::Error>,
    /// The number of the file with which that was.
    file: usize,
}

/// What an order calls it.
fn number_of(state: CacheState) -> u32 {
    match state {
        CacheState::Cold => COLD,
        CacheState::Warm => WARM,
    }
}

/// What a start has to change so that the command waits.
struct Hold {
    /// Descriptors that it gets beside its own.
    descriptors: Vec<DescriptorAction>,
    /// Entries of its environment.
    environment: Vec<CString>,
    /// It is started in place of the program, which is its first word then.
    helper: Option<CString>,
}

/// How a command is to be held.
fn hold(
    round: &Round,
    options: &GateOptions,
    takes_library: bool,
    preloaded: Option<&[u8]>,
) -> io::Result<Hold> {
    let with_library = match options.hold {
        GateChoice::Preload => true,
        GateChoice::Exec | GateChoice::Call | GateChoice::None => false,
        GateChoice::Auto => takes_library,
    };
    let mut descriptors = vec![
        DescriptorAction::Duplicate { from: round.page.as_raw_fd(), to: PAGE },
        DescriptorAction::Duplicate { from: round.wait.as_raw_fd(), to: WAIT },
        DescriptorAction::Duplicate { from: round.ready.as_raw_fd(), to: READY },
    ];
    let words = format!("RAKUDA_GATE={PAGE},{WAIT},{READY},{FILE},{}", options.worker);
    let mut environment = vec![CString::new(words)?];
    let mut helper = None;
    if with_library {
        let library = in_memory(&LIBRARY_FILE, c"rakuda-gate.so", LIBRARY)?;
        descriptors.push(DescriptorAction::Duplicate { from: library, to: FILE });
        let mut entry = format!("LD_PRELOAD=/proc/self/fd/{FILE}").into_bytes();
        if let Some(others) = preloaded.filter(|others| !others.is_empty()) {
            entry.push(b':');
            entry.extend_from_slice(others);
        }
        environment.push(CString::new(entry)?);
    } else if options.hold != GateChoice::Call {
        let file = in_memory(&HELPER_FILE, c"rakuda-gate", HELPER)?;
        helper = Some(CString::new(format!("/proc/self/fd/{file}"))?);
    }
    Ok(Hold { descriptors, environment, helper })
}

static LIBRARY_FILE: OnceLock<File> = OnceLock::new();
static HELPER_FILE: OnceLock<File> = OnceLock::new();

/// A file that is nowhere but in memory: made once in this process.
fn in_memory(place: &OnceLock<File>, name: &CStr, content: &[u8]) -> io::Result<RawFd> {
    if let Some(file) = place.get() {
        return Ok(file.as_raw_fd());
    }
    let file = File::from(memfd_create(name, MemfdFlags::CLOEXEC)?);
    file.write_all_at(content, 0)?;
    // Open for reading only, as what is open for writing cannot be executed.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let readable =
        rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, rustix::fs::Mode::empty())?;
    drop(file);
    Ok(place.get_or_init(|| File::from(readable)).as_raw_fd())
}

/// A worker's limit of descriptors may be below those of its gate.
fn has_descriptors() -> io::Result<()> {
    match rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        Some(files) if files <= PAGE.unsigned_abs().into() => Err(io::Error::other(format!(
            "it takes descriptors up to {PAGE}, and `ulimit -n` allows {files}: expected {} or more",
            PAGE + 1
        ))),
        _ => Ok(()),
    }
}

/// What a gate reads to its end, or looks for in the page cache, has one. What is not there yet has nothing there.
fn is_readable(file: &Path) -> io::Result<()> {
    match std::fs::metadata(file).map(|metadata| metadata.file_type()) {
        Ok(kind) if !kind.is_file() && !kind.is_dir() => Err(io::Error::other(format!(
            "{}: expected a file with contents of its own, and no device or pipe",
            file.display()
        ))),
        _ => Ok(()),
    }
}

/// What is known of the file that is executed.
struct Executed {
    /// It is for an interpreter, or for the shell.
    is_script: bool,
    /// The library can be loaded: it is a dynamic program of this machine's type that runs with no more rights than its
    /// user. Of a script that is its interpreter.
    takes_library: bool,
}

impl Executed {
    fn look_at(program: &Path, folder: &Path) -> Self {
        let mut executed = Self { is_script: false, takes_library: false };
        let mut path = folder.join(program);
        for _ in 0..INTERPRETERS_MAX {
            match Content::of(&path) {
                Content::Script(interpreter) => path = folder.join(interpreter),
                Content::Text => return Self { is_script: true, takes_library: true },
                Content::Program { takes_library } => {
                    executed.takes_library = takes_library;
                    break;
                }
            }
            executed.is_script = true;
        }
        executed
    }
}

/// What kind of program a file is.
enum Content {
    /// For that interpreter.
    Script(PathBuf),
    /// For the shell, as without a gate.
    Text,
    Program {
        takes_library: bool,
    },
}

impl Content {
    fn of(path: &Path) -> Self {
        let program = |takes_library| Self::Program { takes_library };
        let mut file = match File::open(path) {
            Ok(file) => file,
            // A missing file is to be noticed before any worker waits.
            Err(error) => return program(error.kind() == io::ErrorKind::NotFound),
        };
        let Ok(metadata) = file.metadata() else { return program(false) };
        // Set-user-ID and set-group-ID, and rights that go with the file.
        let has_rights = metadata.mode() & 0o6000 != 0
            || rustix::fs::getxattr(path, c"security.capability", &mut [0u8; 64]).is_ok();
        if has_rights {
            return program(false);
        }
        let mut start = [0; 256];
        let Ok(count) = file.read(&mut start) else { return program(false) };
        let start = &start[..count];
        if let Some(line) = start.strip_prefix(b"#!") {
            let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
            let word = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
            return Self::Script(PathBuf::from(OsStr::from_bytes(word)));
        }
        if !start.starts_with(b"\x7fELF") {
            return Self::Text;
        }
        program(is_dynamic(&file, start))
    }
}

/// Whether it is an ELF program like this one that has libraries loaded. Without any it has no C library, and ours
/// finds no environment there.
fn is_dynamic(file: &File, start: &[u8]) -> bool {
    const PT_DYNAMIC: u32 = 2;
    const PT_INTERP: u32 = 3;
    const DT_NEEDED: u64 = 1;
    /// Maximum bytes of the dynamic section that are read.
    const DYNAMIC_BYTES_MAX: u64 = 1 << 16;
    let machine: u16 = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
    let short = |at: usize| u16::from_le_bytes([start[at], start[at + 1]]);
    if start.len() < 64 || !start.starts_with(b"\x7fELF\x02\x01") || short(18) != machine {
        return false;
    }
    let table = start[32..40].try_into().map_or(0, u64::from_le_bytes);
    let (entry, count) = (u64::from(short(54)), u64::from(short(56)));
    let (mut has_interpreter, mut needs_libraries) = (false, false);
    for number in 0..count {
        let mut header = [0; 56];
        if file.read_exact_at(&mut header, table.saturating_add(number * entry)).is_err() {
            return false;
        }
        let long = |at: usize| header[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
        let kind = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        has_interpreter |= kind == PT_INTERP;
        if kind == PT_DYNAMIC {
            let bytes = long(32).min(DYNAMIC_BYTES_MAX);
            let mut entries = vec![0; usize::try_from(bytes).unwrap_or(0)];
            let is_read = file.read_exact_at(&mut entries, long(8)).is_ok();
            let is_needed = |entry: &[u8]| entry[..8] == DT_NEEDED.to_le_bytes();
            needs_libraries |= is_read && entries.chunks_exact(16).any(is_needed);
        }
    }
    has_interpreter && needs_libraries
}

fn path_of(name: &CString) -> &Path {
    Path::new(OsStr::from_bytes(name.to_bytes()))
}

fn wall_ahead_ns() -> i64 {
    clock::journal_clock().step_ns(clock::Reading::now())
}

fn head(state: u32, t0_ns: i64, spin_ns: i64) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[0..4].copy_from_slice(&MAGIC.to_ne_bytes());
    head[4..8].copy_from_slice(&state.to_ne_bytes());
    head[8..16].copy_from_slice(&t0_ns.to_ne_bytes());
    head[16..24].copy_from_slice(&spin_ns.to_ne_bytes());
    head
}

fn place_of(worker: u32) -> u64 {
    HEAD_BYTES as u64 + PLACE_BYTES as u64 * u64::from(worker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn workers_wait_for_one_another_unless_one_of_them_cannot() {
        let (round, _ready) = Round::new().unwrap();
        let says = |worker, kind: u32| {
            round.page.write_all_at(&kind.to_ne_bytes(), place_of(worker) + KIND_AT).unwrap();
        };
        for (worker, kind) in [(0, 1), (1, 4), (2, 2)] {
            let place =
                WorkerAtGate { command: CommandId(worker), waits: None, is_reported: false };
            round.places.borrow_mut().insert(worker, place);
            says(worker, kind);
        }
        assert!(!round.waits_any_alone());
        says(1, CALL_ALONE);
        assert!(round.waits_any_alone());
    }
}
