//! Streams over spools (`journal`, `atomic`) with virtual files, one life from each seed: members
//! are killed, whoever passes bytes on is; readers leave early; spools are damaged, cut off or
//! gone; hosts are lost, on which what was begun goes on, and with which spools are out of reach that no
//! other host can read. Each run of a program has its number in all that it prints. What comes out at last is what
//! comes out of a life in which nothing happens, but for these numbers; all readers of a program
//! have read the same run of it. Nobody reads anything else, nobody runs twice without need, nobody
//! waits for ever.
//!
//! `PROPTEST_CASES=400000 cargo test --release -p rakuda-core --test spools` lives a quarter as many for each mode.

mod dice;

use std::collections::{BTreeMap, BTreeSet};

use dice::Dice;
use proptest::test_runner::Config as RunnerConfig;
use rakuda_core::streams::{
    Begun, Flow, FlowSettings, OnClose, ReaderState, RecordKind, SPOOL_HEAD_BYTES,
    SPOOL_PIECE_BYTES, SpoolCheck, SpoolHead, SpoolSum, Stages, StreamEnds, Terms,
    WINDOW_BYTES_MIN,
};
use rakuda_core::{NodeId, TaskId};

/// What is likely to go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Readers, which read again.
    Journal,
    /// Writers, of which nothing is to be seen.
    Atomic,
}

/// Steps in which nothing moves: whoever runs waits for nobody.
const IDLE_MAX: usize = 100;

/// Says which seed it was when a check fails.
struct Seed(u64, Mode);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {} of {:?}", self.0, self.1);
        }
    }
}

/// What a run of a writer has printed.
type Spool = (TaskId, u8);

/// All spools that can be read.
type Disk = BTreeMap<Spool, Vec<u8>>;

/// So many hosts take members.
const HOSTS: usize = 3;

fn sum(bytes: &[u8]) -> SpoolSum {
    let half = |seed: u64| {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        bytes.iter().fold(seed, step).to_le_bytes()
    };
    let mut sum = SpoolSum::default();
    sum[..8].copy_from_slice(&half(0xcbf2_9ce4_8422_2325));
    sum[8..].copy_from_slice(&half(0x1234_5678_9abc_def1));
    sum
}

/// Appends a piece to a spool; how many bytes it took.
fn append(spool: &mut Vec<u8>, bytes: &[u8]) -> usize {
    let piece = &bytes[..bytes.len().min(SPOOL_PIECE_BYTES)];
    spool.extend(SpoolHead::of_piece(piece.len(), sum(piece)).to_bytes());
    spool.extend(piece);
    piece.len()
}

fn finish(spool: &mut Vec<u8>, total: u64) {
    let total = total.to_le_bytes();
    spool.extend(SpoolHead::of_end(sum(&total)).to_bytes());
    spool.extend(total);
}

/// Reads a spool.
#[derive(Default)]
struct SpoolReader {
    at: usize,
    piece: Vec<u8>,
    check: SpoolCheck,
}

impl SpoolReader {
    /// Appends what has room; how much, 0 at the end. Nothing: the spool is bad.
    fn read(&mut self, spool: Option<&Vec<u8>>, into: &mut Vec<u8>) -> Option<usize> {
        let spool = spool?;
        if self.piece.is_empty() && !self.check.is_ended() {
            let head = spool.get(self.at..self.at + SPOOL_HEAD_BYTES)?.try_into().unwrap();
            let head = SpoolHead::from_bytes(head);
            self.at += SPOOL_HEAD_BYTES;
            let body = spool.get(self.at..self.at + head.body_bytes().ok()?)?;
            self.at += body.len();
            if !self.check.on_body(head, body, sum(body)).ok()? {
                self.piece = body.to_vec();
            }
        }
        let room = into.capacity() - into.len();
        let given = self.piece.len().min(room);
        into.extend(self.piece.drain(..given));
        Some(given)
    }
}

/// What a task does: prints something of its own, then perhaps all that it reads.
struct Program {
    own: Vec<u8>,
    /// Where the number of the run stands in that, once in each record.
    stamps: Vec<usize>,
    copies: bool,
    /// After so many bytes it has enough.
    leaves_at: Option<usize>,
}

impl Program {
    fn own_in(&self, run: u8) -> Vec<u8> {
        let mut own = self.own.clone();
        for stamp in &self.stamps {
            own[*stamp] = b'0' + run;
        }
        own
    }
}

/// Tasks that streams join.
struct Component {
    kind: RecordKind,
    on_close: OnClose,
    window: usize,
    members: Vec<TaskId>,
    streams: Vec<StreamEnds>,
    programs: BTreeMap<TaskId, Program>,
}

/// Records, and where the number of a run stands in them.
fn records(dice: &mut Dice, kind: RecordKind, task: u32) -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut stamps) = (Vec::new(), Vec::new());
    let letter = b'A' + u8::try_from(task).unwrap();
    for number in 0..dice.number(12) {
        let size = match kind {
            RecordKind::Fixed(size) => size as usize,
            _ if dice.one_in(200) => (1 << 20) + dice.below(1 << 20),
            _ => 2 + dice.up_to(&[40, 3_000, 90_000]),
        };
        stamps.push(bytes.len() + 1);
        bytes.push(letter);
        bytes.resize(bytes.len() + size - 1, b'a' + u8::try_from(number).unwrap());
        bytes.extend(kind.separator());
    }
    if kind.separator().is_some() && dice.one_in(4) {
        bytes.pop();
    }
    (bytes, stamps)
}

impl Component {
    /// One to three stages; what is written into the last stream comes from the stage before it and perhaps from
    /// others.
    fn new(dice: &mut Dice) -> Self {
        let kind = [RecordKind::Line, RecordKind::Nul, RecordKind::Fixed(37)][dice.below(3)];
        let on_close = if dice.one_in(2) { OnClose::Drain } else { OnClose::Sigpipe };
        let window = WINDOW_BYTES_MIN + dice.below(1 << 20);
        let mut streams = Vec::new();
        let mut next = 0;
        let mut some = |dice: &mut Dice| -> Vec<TaskId> {
            let first = next;
            next += 1 + dice.number(3);
            (first..next).map(TaskId).collect()
        };
        let mut writers = some(dice);
        for _ in 0..=dice.below(3) {
            let readers = some(dice);
            // The numbers say nothing of the order in which members were found.
            if dice.one_in(2) {
                writers.reverse();
            }
            streams.push(StreamEnds { writers, readers: readers.clone() });
            writers = readers;
            if writers.len() > 1 && dice.one_in(3) {
                writers.pop();
            }
            if dice.one_in(3) {
                writers.extend(some(dice));
            }
        }
        let mut members: BTreeSet<TaskId> = BTreeSet::new();
        members.extend(streams.iter().flat_map(|ends| ends.writers.iter().chain(&ends.readers)));
        let members: Vec<TaskId> = members.into_iter().collect();
        let programs = BTreeMap::new();
        let mut it = Self { kind, on_close, window, members, streams, programs };
        for member in it.members.clone() {
            let leaves_at = dice.one_in(4).then(|| dice.up_to(&[50, 100_000]));
            // A last record of a fixed size is not to be torn.
            let leaves_at =
                leaves_at.map(|at| if kind.separator().is_none() { at - at % 37 } else { at });
            let (own, stamps) = records(dice, kind, member.0);
            let program = Program { own, stamps, copies: dice.one_in(2), leaves_at };
            it.programs.insert(member, program);
        }
        it
    }

    /// Whose spools a member reads, one after the other.
    fn writers_for(&self, member: TaskId) -> Vec<TaskId> {
        let read = self.streams.iter().filter(|stream| stream.readers.contains(&member));
        let mut writers: Vec<TaskId> = read.flat_map(|stream| &stream.writers).copied().collect();
        writers.sort_unstable();
        writers
    }

    /// Members that read what one prints, and those that read what comes of it.
    fn comes_of(&self, member: TaskId) -> BTreeSet<TaskId> {
        let mut found = BTreeSet::new();
        let mut next = vec![member];
        while let Some(writer) = next.pop() {
            let read = self.streams.iter().filter(|stream| stream.writers.contains(&writer));
            let readers = read.flat_map(|stream| &stream.readers);
            next.extend(readers.copied().filter(|reader| found.insert(*reader)));
        }
        found
    }

    /// What is in the spool of a writer at the end of a run in which it has read this.
    fn spooled(&self, writer: TaskId, run: u8, got: &[u8]) -> Vec<u8> {
        let program = &self.programs[&writer];
        let mut all = program.own_in(run);
        if program.copies {
            all.extend(got);
        }
        let separator =
            self.kind.separator().filter(|end| all.last().is_some_and(|last| last != end));
        all.extend(separator);
        all
    }

    fn settings(&self, in_turn: bool) -> FlowSettings {
        let (record, window, on_close) = (self.kind, self.window, self.on_close);
        FlowSettings { record, window, on_close, spills: false, in_turn }
    }

    fn writes(&self, member: TaskId) -> bool {
        self.streams.iter().any(|stream| stream.writers.contains(&member))
    }
}

/// A member that runs, with the streams that are open for it.
struct Running {
    /// Where it runs.
    host: usize,
    /// What it writes.
    spool: Spool,
    /// What it reads, one after the other.
    sources: Vec<Spool>,
    from: Option<(Flow, Vec<Option<SpoolReader>>)>,
    into: Option<Flow>,
    /// What it prints of its own.
    own: Vec<u8>,
    got: Vec<u8>,
    /// Bytes that it has printed.
    printed: usize,
    has_ended: bool,
    is_finished: bool,
}

/// How far a member has come.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    GoesOn,
    /// Nothing has moved.
    Idle,
    Well,
    /// The spool of that one is bad.
    Bad(TaskId),
}

impl Running {
    fn new(
        component: &Component,
        sources: Vec<Spool>,
        spool: Spool,
        host: usize,
        disk: &mut Disk,
    ) -> Self {
        let (member, run) = spool;
        let flow = |in_turn, writers| Flow::new(component.settings(in_turn), writers, 1);
        let readers = || sources.iter().map(|_| Some(SpoolReader::default())).collect();
        let writes = component.writes(member);
        if writes {
            // What it has written before is of no use to anybody.
            disk.retain(|(writer, _), _| *writer != member);
            disk.insert(spool, Vec::new());
        }
        let from = (!sources.is_empty()).then(|| (flow(true, sources.len()), readers()));
        Self {
            host,
            spool,
            sources,
            from,
            into: writes.then(|| flow(false, 1)),
            own: component.programs[&member].own_in(run),
            got: Vec::new(),
            printed: 0,
            has_ended: false,
            is_finished: !writes,
        }
    }

    /// What the relay does for its stdin.
    fn fill(&mut self, disk: &Disk) -> Result<(), TaskId> {
        let Some((flow, readers)) = &mut self.from else { return Ok(()) };
        let breaks = flow.breaks_pipes();
        for (writer, reader) in readers.iter_mut().enumerate() {
            let Some(open) = reader else { continue };
            let mut is_closed = breaks;
            if !breaks && flow.wants(writer) {
                let source = self.sources[writer];
                let read = open.read(disk.get(&source), flow.space(writer)).ok_or(source.0)?;
                flow.on_read(writer, read);
                is_closed = read == 0;
            }
            if is_closed {
                *reader = None;
                flow.on_writer_closed(writer);
                flow.on_writer_ended(writer, true);
            }
        }
        Ok(())
    }

    /// It reads; whether it has read all that it wants.
    fn read(&mut self, dice: &mut Dice, leaves_at: Option<usize>) -> bool {
        let Some((flow, _)) = &mut self.from else { return true };
        if flow.reader_state(0) != ReaderState::Open {
            return true;
        }
        let left = leaves_at.map_or(usize::MAX, |at| at - self.got.len());
        if left == 0 {
            flow.on_reader_left(0);
            return true;
        }
        let Some(piece) = flow.pending(0).next() else { return false };
        let some = if dice.one_in(3) { 1 + dice.below(piece.len()) } else { piece.len() };
        let bytes = some.min(left);
        self.got.extend_from_slice(&piece[..bytes]);
        flow.on_written(0, bytes);
        false
    }

    /// It prints; whether it has printed all that it can now.
    fn print(&mut self, program: &Program) -> bool {
        let Some(flow) = &mut self.into else { return true };
        let own = self.own.len();
        let rest = if self.printed < own {
            &self.own[self.printed..]
        } else if program.copies {
            &self.got[self.printed - own..]
        } else {
            &[]
        };
        if rest.is_empty() || !flow.wants(0) {
            return rest.is_empty();
        }
        let space = flow.space(0);
        let bytes = rest.len().min(space.capacity() - space.len());
        space.extend_from_slice(&rest[..bytes]);
        flow.on_read(0, bytes);
        self.printed += bytes;
        false
    }

    /// What the relay does for its spool.
    fn drain(&mut self, spool: Option<&mut Vec<u8>>) {
        let (Some(flow), Some(spool)) = (&mut self.into, spool) else { return };
        loop {
            let Some(bytes) = flow.pending(0).next().map(|piece| append(spool, piece)) else {
                break;
            };
            flow.on_written(0, bytes);
        }
        if flow.reader_state(0) == ReaderState::AtEnd && !self.is_finished {
            finish(spool, flow.read(0).bytes);
            self.is_finished = true;
        }
    }

    /// How far it has come. Where nothing of that changes, nothing has moved.
    fn progress(&self) -> (u64, usize, usize, usize, u64, bool, bool) {
        let (mut taken, mut open) = (0, 0);
        if let Some((flow, readers)) = &self.from {
            let accounts = (0..readers.len()).map(|writer| flow.written(writer));
            taken = accounts.map(|account| account.bytes + account.dropped).sum();
            open = readers.iter().flatten().count();
        }
        let spooled = self.into.as_ref().map_or(0, |flow| flow.read(0).bytes);
        let (got, printed) = (self.got.len(), self.printed);
        (taken, open, got, printed, spooled, self.has_ended, self.is_finished)
    }

    fn step(&mut self, dice: &mut Dice, program: &Program, disk: &mut Disk) -> Step {
        let before = self.progress();
        if let Err(source) = self.fill(disk) {
            return Step::Bad(source);
        }
        let has_read = self.read(dice, program.leaves_at);
        let has_printed = self.print(program);
        if has_read && has_printed && !self.has_ended {
            self.has_ended = true;
            if let Some(flow) = &mut self.into {
                flow.on_writer_closed(0);
                flow.on_writer_ended(0, true);
            }
        }
        self.drain(disk.get_mut(&self.spool));
        let flows = self.from.iter().map(|(flow, _)| flow).chain(&self.into);
        let mut is_over = self.has_ended && self.is_finished;
        for flow in flows {
            assert_eq!(flow.faults(), []);
            is_over &= flow.is_over();
        }
        if is_over {
            Step::Well
        } else if self.progress() == before {
            Step::Idle
        } else {
            Step::GoesOn
        }
    }
}

/// What a run has seen.
#[derive(Default)]
struct Counts {
    attempts: usize,
    failed: usize,
    /// Members that were not run again, since what they had printed was still there.
    spared: usize,
    bad_spools: usize,
    /// Members that ran again since what they had read was bad when others read it.
    stale: usize,
    /// Hosts that were lost, and of these those with which all spools were.
    lost_hosts: usize,
    lost_disks: usize,
}

struct World<'life> {
    mode: Mode,
    component: &'life Component,
    stages: Stages<usize>,
    disk: Disk,
    open: BTreeMap<TaskId, Running>,
    /// What goes on on hosts that count as lost. Nobody hears of it.
    ghosts: Vec<Running>,
    /// Every host can read all spools. If not, all members run on one.
    is_shared: bool,
    /// Where members run, if on one.
    host: usize,
    /// Members that have not ended well, or of which the spool was found to be bad, or one that it comes from.
    to_run: BTreeSet<TaskId>,
    /// Those that have not ended well in this attempt, and have to.
    left: BTreeSet<TaskId>,
    /// By member: the number of its last run.
    runs: BTreeMap<TaskId, u8>,
    /// By member that has ended well: what it has read then.
    got: BTreeMap<TaskId, Vec<u8>>,
    is_serial: bool,
    /// Things that are still to go wrong.
    faults: usize,
    counts: Counts,
}

impl World<'_> {
    fn begin_next(&mut self) {
        while !self.is_serial || self.open.is_empty() {
            let Some((member, attempt)) = self.stages.take_next() else { return };
            assert_eq!(attempt, self.counts.attempts, "an attempt that is over begins");
            assert!(self.to_run.contains(&member), "{member:?} runs without need");
            let sources = self.stages.sources(member);
            assert!(sources.iter().all(|source| !self.to_run.contains(source)));
            let sources = sources.iter().map(|source| (*source, self.runs[source])).collect();
            let run = self.runs.entry(member).and_modify(|run| *run += 1).or_default();
            let host = if self.is_shared { member.0 as usize % HOSTS } else { self.host };
            let (spool, disk) = ((member, *run), &mut self.disk);
            self.open.insert(member, Running::new(self.component, sources, spool, host, disk));
        }
    }

    /// All members are begun, in any order; those do not run that need not.
    fn begin(&mut self, dice: &mut Dice) {
        self.counts.attempts += 1;
        self.left.clear();
        let mut members = self.component.members.clone();
        while !members.is_empty() {
            let member = members.swap_remove(dice.below(members.len()));
            let alone_on = (!self.is_shared).then(|| NodeId(u32::try_from(self.host).unwrap()));
            let terms = Terms { is_spooled: true, is_dry_run: false, alone_on };
            match self.stages.begin(member, terms, self.counts.attempts) {
                Begun::AtOnce => unreachable!("it is spooled"),
                Begun::Waits => {
                    self.left.insert(member);
                    self.begin_next();
                }
                Begun::HasRun => self.counts.spared += 1,
            }
        }
    }

    /// Something goes wrong with what lies on the disk.
    fn damage(&mut self, dice: &mut Dice) {
        let spools: Vec<Spool> = self.disk.keys().copied().collect();
        if spools.is_empty() {
            return;
        }
        let spool = spools[dice.below(spools.len())];
        if self.open.contains_key(&spool.0) {
            return;
        }
        let bytes = self.disk.get_mut(&spool).unwrap();
        if bytes.is_empty() {
            return;
        }
        match dice.below(3) {
            0 => {
                self.disk.remove(&spool);
            }
            1 => bytes.truncate(dice.below(bytes.len())),
            _ => {
                let at = dice.below(bytes.len());
                bytes[at] ^= 1 << dice.below(8);
            }
        }
    }

    /// A member that is killed, or the one that passes bytes on for all: their spools end anywhere.
    fn kill(&mut self, dice: &mut Dice) -> bool {
        let reads = |running: &Running| running.from.is_some() == (self.mode == Mode::Journal);
        let likely = self.open.iter().filter(|(_, running)| reads(running)).map(|(one, _)| *one);
        let likely: Vec<TaskId> = likely.collect();
        if likely.is_empty() && !dice.one_in(4) {
            return false;
        }
        for running in self.open.values() {
            if let Some(spool) = self.disk.get_mut(&running.spool) {
                spool.truncate(dice.below(spool.len() + 1));
            }
        }
        true
    }

    /// A host on which something runs is lost, and what runs there goes on.
    fn lose_host(&mut self, dice: &mut Dice) -> bool {
        let hosts: Vec<usize> = self.open.values().map(|running| running.host).collect();
        if hosts.is_empty() {
            return false;
        }
        let host = hosts[dice.below(hosts.len())];
        self.counts.lost_hosts += 1;
        for (member, running) in std::mem::take(&mut self.open) {
            if running.host == host {
                self.stages.on_lost(member);
                self.ghosts.push(running);
            } else {
                self.open.insert(member, running);
            }
        }
        if !self.is_shared {
            self.counts.lost_disks += 1;
            // Perhaps the same one, with another disk.
            self.host = dice.below(HOSTS);
            self.disk.clear();
            self.to_run = self.component.members.iter().copied().collect();
        }
        true
    }

    /// The attempt has failed: what runs is ended, what waits never begins.
    fn fail(&mut self) {
        self.counts.failed += 1;
        for (member, running) in std::mem::take(&mut self.open) {
            self.check_got(member, &running.got);
        }
        for member in &self.component.members {
            self.stages.take(*member);
        }
    }

    /// What a member reads: what those have printed that it reads, in their last runs.
    fn input_of(&self, member: TaskId) -> Vec<u8> {
        let spooled =
            |writer: TaskId| self.component.spooled(writer, self.runs[&writer], &self.got[&writer]);
        let writers = self.component.writers_for(member).into_iter();
        let mut all = writers.map(spooled).collect::<Vec<_>>().concat();
        all.truncate(self.component.programs[&member].leaves_at.unwrap_or(usize::MAX));
        all
    }

    /// Nobody has read anything that was not written.
    fn check_got(&self, member: TaskId, got: &[u8]) {
        assert!(self.input_of(member).starts_with(got), "{member:?} has read something else");
    }

    fn on_well(&mut self, member: TaskId) {
        let running = self.open.remove(&member).unwrap();
        assert!(self.input_of(member) == running.got, "{member:?} has not read all");
        let sources = self.component.writers_for(member);
        if sources.iter().all(|source| !self.to_run.contains(source)) {
            self.to_run.remove(&member);
        }
        self.left.remove(&member);
        self.got.insert(member, running.got);
        self.stages.on_ended_well([member]);
        self.begin_next();
    }

    /// A member has found that the spool of another is bad, and gets no end.
    fn on_bad(&mut self, member: TaskId, source: TaskId) {
        let running = self.open.remove(&member).unwrap();
        self.check_got(member, &running.got);
        self.counts.bad_spools += 1;
        self.stages.on_spool_bad(source);
        self.to_run.insert(source);
        for stale in self.component.comes_of(source) {
            self.counts.stale += usize::from(self.to_run.insert(stale));
        }
    }

    /// One member that runs does something; what came of it.
    fn step(&mut self, dice: &mut Dice) -> (TaskId, Step) {
        let members: Vec<TaskId> = self.open.keys().copied().collect();
        let member = members[dice.below(members.len())];
        let program = &self.component.programs[&member];
        let running = self.open.get_mut(&member).unwrap();
        (member, running.step(dice, program, &mut self.disk))
    }

    /// What was given up with its host does something, which does not count.
    fn haunt(&mut self, dice: &mut Dice) {
        if self.ghosts.is_empty() || dice.one_in(2) {
            return;
        }
        let ghost = dice.below(self.ghosts.len());
        let program = &self.component.programs[&self.ghosts[ghost].spool.0];
        let step = self.ghosts[ghost].step(dice, program, &mut self.disk);
        if matches!(step, Step::Well | Step::Bad(_)) {
            self.ghosts.swap_remove(ghost);
        }
    }

    /// One attempt; whether all have ended well.
    fn attempt(&mut self, dice: &mut Dice) -> bool {
        self.begin(dice);
        let (mut idle, mut is_failing) = (0, false);
        while !self.left.is_empty() {
            // Others go on until they are ended.
            if is_failing && (self.open.is_empty() || dice.one_in(40)) {
                self.fail();
                return false;
            }
            assert!(!self.open.is_empty() && idle < IDLE_MAX, "nobody waits for ever");
            if self.faults > 0 && dice.one_in(12) {
                self.faults -= 1;
                if dice.one_in(3) {
                    self.damage(dice);
                } else if if dice.one_in(4) { self.lose_host(dice) } else { self.kill(dice) } {
                    self.fail();
                    return false;
                }
            }
            self.haunt(dice);
            let (member, step) = self.step(dice);
            idle = if step == Step::Idle { idle + 1 } else { 0 };
            match step {
                Step::GoesOn | Step::Idle => {}
                Step::Well => self.on_well(member),
                Step::Bad(source) => {
                    is_failing = true;
                    self.on_bad(member, source);
                }
            }
        }
        true
    }

    /// All has ended well.
    fn check_end(&self) {
        for member in &self.component.members {
            let same = self.got[member] == self.input_of(*member);
            assert!(same, "{member:?} has read other runs than there were last");
        }
        assert!(self.to_run.is_empty(), "{:?} have not run again", self.to_run);
    }
}

fn live(seed: u64, mode: Mode) -> Counts {
    let _seed = Seed(seed, mode);
    let dice = &mut Dice(seed);
    dice.below(2);
    let component = Component::new(dice);
    let faults = dice.below(5);
    let mut world = World {
        mode,
        stages: Stages::new(&component.members, &component.streams),
        disk: Disk::new(),
        open: BTreeMap::new(),
        ghosts: Vec::new(),
        is_shared: dice.one_in(2),
        host: 0,
        to_run: component.members.iter().copied().collect(),
        left: BTreeSet::new(),
        runs: BTreeMap::new(),
        got: BTreeMap::new(),
        is_serial: dice.one_in(2),
        faults,
        counts: Counts::default(),
        component: &component,
    };
    // Each thing that goes wrong costs one attempt at most.
    while !world.attempt(dice) {
        assert!(world.counts.attempts <= faults, "all is tried again and again");
    }
    world.check_end();
    world.counts
}

fn live_all(mode: Mode) {
    let mut sum = Counts::default();
    for seed in 0..u64::from(RunnerConfig::default().cases / 4) {
        let counts = live(seed, mode);
        sum.failed += counts.failed;
        sum.spared += counts.spared;
        sum.bad_spools += counts.bad_spools;
        sum.stale += counts.stale;
        sum.lost_hosts += counts.lost_hosts;
        sum.lost_disks += counts.lost_disks;
    }
    let Counts { failed, spared, bad_spools, stale, lost_hosts, lost_disks, .. } = sum;
    assert!(failed > 8 && spared > 4, "{failed}, {spared}");
    assert!(bad_spools > 0 && stale > 0, "{bad_spools}, {stale}");
    assert!(lost_disks > 0 && lost_hosts > lost_disks, "{lost_hosts}, {lost_disks}");
}

#[test]
fn whoever_reads_again_reads_the_same_and_whoever_ended_well_does_not_run_again() {
    live_all(Mode::Journal);
}

#[test]
fn what_a_writer_printed_that_did_not_end_well_is_never_read() {
    live_all(Mode::Atomic);
}
