//! The thread of one opening: reads what writers print and writes it to readers, as `Flow` says.
//!
//! It copies. It ends when all readers are at their ends or have left, when something is wrong, or when it gets the
//! word to stop; on its way out it closes all that it holds.

use std::collections::BTreeSet;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use rakuda_core::Time;
use rakuda_core::streams::{
    Account, Fault, Flow, FlowSettings, OnClose, ReaderState, RecordKind, WINDOW_BYTES,
};
use rakuda_proto::Text;
use rakuda_proto::agent::AgentEvent;
use rakuda_proto::streams::{
    EndAccount, OpeningId, RecordForm, StreamAccount, StreamEnd, StreamEvent, StreamFault,
    StreamPassed, StreamPlan,
};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use tokio::sync::mpsc::UnboundedSender;

use super::holders::Holders;
use super::hops::{HopIntake, HopOutlet};
use super::spill::Spill;
use super::spool::{SpoolReader, SpoolWriter, is_damage};
use super::stalls::Stalls;
use crate::clock;

/// Time between two reports to the hub of what has gone through.
const PASSED_NS: u64 = 1_000_000_000;
/// Maximum pieces of one write.
const PIECES_MAX: usize = 16;

/// Where a writer's bytes come from.
#[derive(Debug)]
pub(super) enum Intake {
    /// Its pipe.
    Pipe(OwnedFd),
    /// A spool that was written before.
    Spool(SpoolReader),
    /// Another host.
    Hop(Box<HopIntake>),
    /// Nothing more comes.
    Closed,
}

/// Where the bytes for a reader go.
#[derive(Debug)]
pub(super) enum Outlet {
    /// Its pipe.
    Pipe(OwnedFd),
    /// A spool.
    Spool(SpoolWriter),
    /// Another host.
    Hop(Box<HopOutlet>),
    /// It has its end, or has left.
    Closed,
}

/// One stream and its descriptors.
#[derive(Debug)]
pub(super) struct Through {
    plan: StreamPlan,
    flow: Flow,
    intakes: Vec<Intake>,
    outlets: Vec<Outlet>,
    /// What slow readers have not read, where it may go to disk.
    spill: Option<Spill>,
    /// For the agent: all readers have left.
    unread: Arc<AtomicBool>,
    memory_bytes_max: usize,
    /// It was made to be changed to, and is not in use yet.
    is_prepared: bool,
    /// Readers whose pipes go to another stream when they have read all of this one.
    kept: BTreeSet<usize>,
    /// The writers know that nobody reads.
    has_broken: bool,
    /// Of edges that have ended well: writer, edge, and the records that the sender has counted.
    said: Vec<(usize, u32, u64)>,
}

/// A task's end that goes from one stream to the one that follows it: the places of both, and of the end in both.
#[derive(Clone, Copy, Debug)]
struct Handing {
    is_writer: bool,
    from: (usize, usize),
    to: (usize, usize),
}

/// What the agent tells the thread.
#[derive(Debug)]
enum Word {
    EndMember(u32, bool),
    /// These follow those of the same tasks.
    Reroute(Vec<Through>),
    Switch,
    Keep,
    Stop,
}

/// The agent's end.
#[derive(Debug)]
pub(super) struct RelayHandle {
    words: Sender<Word>,
    bell: Arc<OwnedFd>,
    thread: std::thread::JoinHandle<()>,
}

impl RelayHandle {
    /// A task has ended; the agent has closed its ends of that task's pipes.
    pub fn end_member(&self, task: u32, well: bool) {
        self.say(Word::EndMember(task, well));
    }

    /// Makes streams to change to.
    pub fn reroute(&self, streams: Vec<Through>) {
        self.say(Word::Reroute(streams));
    }

    /// Changes to those that were made last.
    pub fn switch(&self) {
        self.say(Word::Switch);
    }

    /// Drops those that were made last.
    pub fn keep(&self) {
        self.say(Word::Keep);
    }

    /// Closes all.
    pub fn stop(&self) {
        self.say(Word::Stop);
    }

    /// Whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    fn say(&self, word: Word) {
        // A thread that has ended has nothing to hear.
        if self.words.send(word).is_ok() {
            let _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
        }
    }
}

/// The thread.
pub(super) struct Relay {
    id: OpeningId,
    streams: Vec<Through>,
    words: Receiver<Word>,
    bell: Arc<OwnedFd>,
    events: UnboundedSender<AgentEvent>,
    stalls: Stalls,
    /// Processes that keep the stdout of tasks that have ended.
    holders: Holders,
    /// The hub knows what went through.
    has_accounted: bool,
    /// Ends that go to the streams that follow.
    handings: Vec<Handing>,
    /// A change has begun whose end was not reported.
    is_switching: bool,
    /// When the next report to the hub of what has gone through is due.
    passed_due: Time,
    /// Something may have gone through since the last report.
    has_passed: bool,
    /// Timeout for the hub to find out, after an edge broke, that a host is lost, ms.
    patience_ms: u32,
}

/// Why nothing goes on.
pub(super) enum Trouble {
    /// It is at fault.
    Fault(StreamFault),
    /// An edge to another host broke; the host may be lost.
    Broken(String),
    /// A spool is not what was written: its file, and why.
    Spool(Text, String),
}

fn broken(stream: &Text, why: &str) -> Trouble {
    Trouble::Broken(format!("stream {}: {why}", stream.to_display()))
}

impl From<String> for Trouble {
    fn from(why: String) -> Self {
        Self::Fault(why.into())
    }
}

/// Why the thread ends.
enum End {
    /// All is over.
    Well,
    /// It got the word to stop.
    Stopped,
}

impl Relay {
    /// Starts the thread of an opening.
    pub fn start(
        id: OpeningId,
        streams: Vec<Through>,
        patience_ms: u32,
        events: UnboundedSender<AgentEvent>,
    ) -> io::Result<RelayHandle> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (words, heard) = channel();
        let bell = Arc::new(bell);
        let relay = Self {
            id,
            streams,
            words: heard,
            bell: Arc::clone(&bell),
            events,
            stalls: Stalls::default(),
            holders: Holders::default(),
            has_accounted: false,
            handings: Vec::new(),
            is_switching: false,
            passed_due: Time(now().0 + PASSED_NS),
            has_passed: false,
            patience_ms,
        };
        let builder = std::thread::Builder::new().name(format!("streams-{}", id.0));
        let thread = builder.spawn(move || relay.run())?;
        Ok(RelayHandle { words, bell, thread })
    }

    fn run(mut self) {
        let (fault, stopped) = match self.pass_on() {
            Ok(End::Well) => (None, false),
            Ok(End::Stopped) => (None, true),
            Err(Trouble::Fault(fault)) => (Some(fault), false),
            Err(Trouble::Spool(spool, why)) => {
                self.tell(StreamEvent::SpoolBad(self.id, spool));
                (Some(why.into()), false)
            }
            // Nobody is to see an end meanwhile.
            Err(Trouble::Broken(why)) => (Some(why.into()), self.is_stopped_in_time()),
        };
        if stopped {
            return self.account_for_interruption();
        }
        let has_fault = fault.is_some();
        self.tell(StreamEvent::Ended(self.id, self.accounts(), fault));
        if has_fault {
            // Nobody is to see an end: the pipes stay open until the members have been ended.
            while !matches!(self.words.recv(), Ok(Word::Stop) | Err(_)) {}
        }
    }

    fn accounts(&self) -> Vec<StreamAccount> {
        self.in_use().map(Through::account).collect()
    }

    /// All ends before its time: reports what has gone through by now, unless that was reported before.
    fn account_for_interruption(&mut self) {
        if !std::mem::replace(&mut self.has_accounted, true) {
            self.tell(StreamEvent::Interrupted(self.id, self.accounts()));
        }
    }

    /// Whether the hub ends all this by itself, as a host is lost.
    fn is_stopped_in_time(&self) -> bool {
        let until = now().0 + u64::from(self.patience_ms) * 1_000_000;
        loop {
            let left = Duration::from_nanos(until.saturating_sub(now().0));
            match self.words.recv_timeout(left) {
                Ok(Word::Stop) | Err(RecvTimeoutError::Disconnected) => return true,
                Ok(Word::EndMember(..) | Word::Reroute(_) | Word::Switch | Word::Keep) => {}
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
    }

    fn pass_on(&mut self) -> Result<End, Trouble> {
        loop {
            while let Ok(word) = self.words.try_recv() {
                match word {
                    Word::Stop => return Ok(End::Stopped),
                    Word::EndMember(task, well) => self.end_member(task, well),
                    Word::Reroute(streams) => self.prepare(streams),
                    Word::Switch => self.switch(),
                    Word::Keep => self.keep(),
                }
            }
            for stream in self.streams.iter_mut().filter(|stream| !stream.is_prepared) {
                stream.settle_hops()?;
                // Before a writer can notice it.
                if stream.is_breaking() {
                    let unread = StreamEvent::Unread(self.id, stream.plan.name.clone());
                    let _ = self.events.send(AgentEvent::Streams(unread));
                }
                stream.settle()?;
            }
            if self.hand_on() {
                continue;
            }
            if self.handings.is_empty() && self.streams.iter().all(Through::is_over) {
                return Ok(End::Well);
            }
            // Before it waits, as it is then known for how long.
            self.tell_stalls();
            self.tell_holders();
            if self.wait()? {
                self.move_bytes()?;
                self.has_passed = true;
            }
            self.tell_passed();
        }
    }

    /// Streams of which accounts are given.
    fn in_use(&self) -> impl Iterator<Item = &Through> {
        self.streams.iter().filter(|stream| !stream.is_prepared)
    }

    /// Others are to follow streams that are open: from now on no reader of those sees an end.
    fn prepare(&mut self, streams: Vec<Through>) {
        for mut stream in streams {
            let place = self.streams.len();
            let ends = [(true, &stream.plan.writers), (false, &stream.plan.readers)];
            for (is_writer, ends) in ends {
                for (number, end) in ends.iter().enumerate() {
                    let Some(from) = self.place_of(is_writer, end) else { continue };
                    self.handings.push(Handing { is_writer, from, to: (place, number) });
                    let before = &mut self.streams[from.0];
                    if is_writer {
                        stream.unread = Arc::clone(&before.unread);
                    } else {
                        before.kept.insert(from.1);
                    }
                }
            }
            stream.is_prepared = true;
            self.streams.push(stream);
        }
        self.tell(StreamEvent::Prepared(self.id, None));
    }

    /// Where a task's end is now.
    fn place_of(&self, is_writer: bool, end: &StreamEnd) -> Option<(usize, usize)> {
        let is_task = matches!(end, StreamEnd::Task(_));
        let streams = self.streams.iter().enumerate().rev().filter(|_| is_task);
        let mut found = streams.filter_map(|(place, stream)| {
            let ends = if is_writer { &stream.plan.writers } else { &stream.plan.readers };
            ends.iter().position(|one| one == end).map(|number| (place, number))
        });
        found.next()
    }

    fn switch(&mut self) {
        for stream in &mut self.streams {
            stream.is_prepared = false;
        }
        self.is_switching = true;
    }

    fn keep(&mut self) {
        for handing in self.handings.drain(..) {
            self.streams[handing.from.0].kept.remove(&handing.from.1);
        }
        self.streams.retain(|stream| !stream.is_prepared);
    }

    /// Hands on the ends that can be handed on, and returns whether there was one.
    fn hand_on(&mut self) -> bool {
        let before = self.handings.len();
        let streams = &mut self.streams;
        self.handings.retain(|handing| {
            let (old, new) = streams.split_at_mut(handing.to.0);
            let (old, new) = (&mut old[handing.from.0], &mut new[0]);
            new.is_prepared || !old.hand(*handing, new)
        });
        if self.is_switching && self.handings.is_empty() {
            self.is_switching = false;
            self.tell(StreamEvent::Switched(self.id));
        }
        self.handings.len() < before
    }

    fn tell(&self, event: StreamEvent) {
        // The hub is gone only when the run is over.
        let _ = self.events.send(AgentEvent::Streams(event));
    }

    fn end_member(&mut self, task: u32, well: bool) {
        if !well {
            self.account_for_interruption();
        }
        let it = StreamEnd::Task(task);
        for stream in &mut self.streams {
            if let Some(writer) = stream.plan.writers.iter().position(|end| *end == it) {
                stream.flow.on_writer_ended(writer, well);
            }
            if let Some(reader) = stream.plan.readers.iter().position(|end| *end == it)
                && well
            {
                stream.flow.on_reader_left(reader);
            }
        }
    }

    /// Waits until something can move or a word comes, and returns whether bytes may move.
    fn wait(&mut self) -> Result<bool, Trouble> {
        let mut fds = vec![PollFd::new(&*self.bell, PollFlags::IN)];
        let mut is_ready = false;
        // By place in `fds`, without the bell: the stream, and which of its readers it is.
        let mut whose = Vec::new();
        for (number, stream) in self.streams.iter().enumerate() {
            if stream.is_prepared {
                continue;
            }
            is_ready |= stream.interests(number, &mut fds, &mut whose);
        }
        let limit = self.limit(is_ready);
        match poll(&mut fds, limit.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(false),
            Err(error) => {
                return Err(format!("could not wait for its pipes: {error}").into());
            }
        }
        let rung = !fds[0].revents().is_empty();
        let moved = is_ready || fds[1..].iter().any(|fd| !fd.revents().is_empty());
        let broken = fds[1..].iter().zip(whose).filter_map(|(fd, (stream, reader))| {
            let is_broken = fd.revents().contains(PollFlags::ERR);
            reader.filter(|_| is_broken).map(|reader| (stream, reader))
        });
        let broken: Vec<(usize, usize)> = broken.collect();
        for (stream, reader) in broken {
            self.streams[stream].flow.on_reader_left(reader);
        }
        if rung {
            let mut count = [0_u8; 8];
            let _ = rustix::io::read(&*self.bell, &mut count);
        }
        Ok(moved)
    }

    /// How long to wait.
    fn limit(&self, is_ready: bool) -> Option<Timespec> {
        if is_ready {
            return Some(Timespec { tv_sec: 0, tv_nsec: 0 });
        }
        let passed_due = self.has_passed.then_some(self.passed_due);
        let due = [self.stalls.due(), passed_due, self.holders.due()];
        let due = due.into_iter().flatten().min()?;
        let left = due.0.saturating_sub(now().0);
        let tv_sec = i64::try_from(left / 1_000_000_000).unwrap_or(i64::MAX);
        let tv_nsec = i64::try_from(left % 1_000_000_000).unwrap_or(0);
        Some(Timespec { tv_sec, tv_nsec })
    }

    /// Reports now and then, for people who look at the run, what has gone through.
    fn tell_passed(&mut self) {
        if !self.has_passed || now() < self.passed_due {
            return;
        }
        self.has_passed = false;
        self.passed_due = Time(now().0 + PASSED_NS);
        let passed: Vec<StreamPassed> = self.in_use().filter_map(Through::passed).collect();
        let rates: Vec<(u32, u64)> =
            self.streams.iter_mut().flat_map(Through::line_rates).collect();
        // Before what has passed, after which routes are weighed.
        if !rates.is_empty() {
            self.tell(StreamEvent::LineRates(self.id, rates));
        }
        if !passed.is_empty() {
            self.tell(StreamEvent::Passed(self.id, passed));
        }
    }

    /// Reports to the hub in which streams nothing moves, when that has changed.
    fn tell_stalls(&mut self) {
        let now = now();
        for stream in self.streams.iter_mut().filter(|stream| !stream.is_prepared) {
            if let Some(silence_ms) = stream.plan.stall_ms {
                let has_moved = stream.flow.take_moved();
                self.stalls.look(now, &stream.plan.name, silence_ms, has_moved);
            }
        }
        let in_use = self.streams.iter().filter(|stream| !stream.is_prepared);
        let watched = in_use.filter(|stream| stream.plan.stall_ms.is_some());
        let flows = watched.map(|stream| (&stream.plan.name, &stream.flow));
        if let Some(stalled) = self.stalls.take(flows) {
            self.tell(StreamEvent::Stalled(self.id, stalled));
        }
    }

    /// Reports now and then, for people who ask why a reader waits, which processes keep the stdout of tasks that have
    /// ended.
    fn tell_holders(&mut self) {
        let in_use = self.streams.iter().filter(|stream| !stream.is_prepared);
        let held = in_use.flat_map(Through::held);
        for (task, holders) in self.holders.look(now(), held) {
            self.tell(StreamEvent::StdoutHeld(self.id, task, holders));
        }
    }

    fn move_bytes(&mut self) -> Result<(), Trouble> {
        for stream in self.streams.iter_mut().filter(|stream| !stream.is_prepared) {
            stream.pump()?;
            for writer in 0..stream.intakes.len() {
                stream.read(writer)?;
            }
            for reader in 0..stream.outlets.len() {
                stream.write(reader)?;
            }
            stream.spill()?;
            stream.pump()?;
            let memory = stream.memory_bytes();
            stream.memory_bytes_max = stream.memory_bytes_max.max(memory);
        }
        Ok(())
    }
}

fn now() -> Time {
    Time(clock::monotonic_ns())
}

impl Through {
    /// A stream whose ends are open.
    pub fn new(
        plan: StreamPlan,
        intakes: Vec<Intake>,
        outlets: Vec<Outlet>,
        unread: Arc<AtomicBool>,
    ) -> Self {
        let record = match plan.record {
            RecordForm::Line => RecordKind::Line,
            RecordForm::Nul => RecordKind::Nul,
            RecordForm::Bytes(bytes) => RecordKind::Fixed(bytes.max(1)),
            RecordForm::Raw => RecordKind::Raw,
        };
        let window = match usize::try_from(plan.window) {
            Ok(0) => WINDOW_BYTES,
            Ok(window) => window,
            Err(_) => usize::MAX,
        };
        let on_close = if plan.drain { OnClose::Drain } else { OnClose::Sigpipe };
        let spill = plan.spill.as_ref();
        let spill = spill.map(|spill| Spill::new(spill.folder.as_path().into(), spill.bytes_max));
        let (spills, in_turn) = (spill.is_some(), plan.in_turn);
        let settings = FlowSettings { record, window, on_close, spills, in_turn };
        let flow = Flow::new(settings, intakes.len(), outlets.len());
        let said = Vec::new();
        Self {
            plan,
            flow,
            intakes,
            outlets,
            spill,
            unread,
            memory_bytes_max: 0,
            is_prepared: false,
            kept: BTreeSet::new(),
            has_broken: false,
            said,
        }
    }

    /// Lets an end of a task go on in the stream that follows, and returns whether it does.
    fn hand(&mut self, Handing { is_writer, from, to }: Handing, next: &mut Self) -> bool {
        let (from, to) = (from.1, to.1);
        if is_writer {
            if !self.flow.hand_writer(from, &mut next.flow, to) {
                return false;
            }
            let intake = std::mem::replace(&mut self.intakes[from], Intake::Closed);
            // A writer that nobody reads any more is to notice it.
            next.intakes[to] = if next.has_broken { Intake::Closed } else { intake };
            return true;
        }
        if !self.flow.hand_reader(from, &mut next.flow, to) {
            return false;
        }
        self.kept.remove(&from);
        let outlet = std::mem::replace(&mut self.outlets[from], Outlet::Closed);
        if next.flow.reader_state(to) == ReaderState::Open {
            next.outlets[to] = outlet;
        }
        true
    }

    /// Whether a writer is to be read from now.
    fn wants(&self, writer: usize) -> bool {
        !matches!(self.intakes[writer], Intake::Closed) && self.flow.wants(writer)
    }

    /// Adds what to wait for. `true`: something is ready already.
    fn interests<'fd>(
        &'fd self,
        number: usize,
        fds: &mut Vec<PollFd<'fd>>,
        whose: &mut Vec<(usize, Option<usize>)>,
    ) -> bool {
        let mut is_ready = false;
        for (writer, intake) in self.intakes.iter().enumerate() {
            match intake {
                Intake::Pipe(fd) if self.wants(writer) => {
                    fds.push(PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN));
                    whose.push((number, None));
                }
                Intake::Spool(_) => is_ready |= self.wants(writer),
                Intake::Hop(hop) => {
                    let fd = hop.socket.as_fd();
                    fds.push(PollFd::from_borrowed_fd(fd, hop.interest()));
                    whose.push((number, None));
                    is_ready |= !hop.machine.pending().is_empty() && self.wants(writer);
                }
                Intake::Pipe(_) | Intake::Closed => {}
            }
        }
        for (reader, outlet) in self.outlets.iter().enumerate() {
            let has_pending = self.flow.has_pending(reader);
            match outlet {
                // It has read all, and goes on elsewhere: there it is heard when it leaves.
                Outlet::Pipe(_) if self.flow.reader_state(reader) != ReaderState::Open => {}
                Outlet::Pipe(fd) => {
                    // Without anything to write, it is heard all the same when the reader leaves.
                    let events = if has_pending { PollFlags::OUT } else { PollFlags::empty() };
                    fds.push(PollFd::from_borrowed_fd(fd.as_fd(), events));
                    whose.push((number, Some(reader)));
                }
                Outlet::Spool(_) => is_ready |= has_pending,
                Outlet::Hop(hop) => {
                    let fd = hop.socket.as_fd();
                    fds.push(PollFd::from_borrowed_fd(fd, hop.interest()));
                    whose.push((number, None));
                    is_ready |= has_pending && hop.machine.room() > 0;
                }
                Outlet::Closed => {}
            }
        }
        is_ready
    }

    fn read(&mut self, writer: usize) -> Result<(), Trouble> {
        if !self.wants(writer) {
            return Ok(());
        }
        if let Intake::Hop(hop) = &mut self.intakes[writer] {
            self.flow.take_from(writer, &mut hop.machine);
            return Ok(());
        }
        let space = self.flow.space(writer);
        let read = match &mut self.intakes[writer] {
            Intake::Pipe(fd) => match rustix::io::read(&*fd, rustix::buffer::spare_capacity(space))
            {
                Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
                read => read.map_err(|error| error.to_string()),
            },
            Intake::Spool(spool) => match spool.read(space) {
                Err(error) if is_damage(&error) => {
                    let why = format!("stream {}: {error}", self.plan.name.to_display());
                    return Err(Trouble::Spool(spool.name(), why));
                }
                read => read.map_err(|error| error.to_string()),
            },
            Intake::Hop(_) | Intake::Closed => return Ok(()),
        };
        let name = self.plan.name.to_display();
        match read.map_err(|error| format!("stream {name}: {error}"))? {
            0 => self.close_writer(writer),
            bytes => self.flow.on_read(writer, bytes),
        }
        Ok(())
    }

    fn close_writer(&mut self, writer: usize) {
        let was_task = matches!(self.intakes[writer], Intake::Pipe(_));
        match &mut self.intakes[writer] {
            // The other host hears of it, and closes.
            Intake::Hop(hop) => hop.machine.leave(),
            intake => *intake = Intake::Closed,
        }
        self.end_writer(writer, was_task);
    }

    /// Nothing more comes of a writer.
    fn end_writer(&mut self, writer: usize, is_task: bool) {
        self.flow.on_writer_closed(writer);
        if !is_task {
            // There is a spool of those only that have ended well, and another host's end means the same.
            self.flow.on_writer_ended(writer, true);
        }
    }

    /// Lets the ends of edges hear and say what they can.
    fn pump(&mut self) -> Result<(), Trouble> {
        let name = &self.plan.name;
        for intake in &mut self.intakes {
            if let Intake::Hop(hop) = intake {
                hop.pump().map_err(|why| broken(name, &why))?;
            }
        }
        for outlet in &mut self.outlets {
            if let Outlet::Hop(hop) = outlet {
                hop.pump().map_err(|why| broken(name, &why))?;
            }
        }
        Ok(())
    }

    /// Closes edges over which all went, or that nobody reads from.
    fn settle_hops(&mut self) -> Result<(), Trouble> {
        for writer in 0..self.intakes.len() {
            let Intake::Hop(hop) = &mut self.intakes[writer] else { continue };
            let has_ended = hop.said_records.is_some();
            let said = self.flow.settle_from(writer, &mut hop.machine, has_ended);
            hop.said_records = hop.said_records.or(said);
        }
        for (reader, outlet) in self.outlets.iter_mut().enumerate() {
            if let Outlet::Hop(hop) = outlet {
                self.flow.settle_to(reader, &mut hop.machine);
            }
        }
        self.pump()?;
        for writer in 0..self.intakes.len() {
            let Intake::Hop(hop) = &self.intakes[writer] else { continue };
            if !hop.machine.is_over() {
                continue;
            }
            if let Some(said) = hop.said_records {
                self.said.push((writer, hop.edge, said));
            }
            self.intakes[writer] = Intake::Closed;
        }
        for outlet in &mut self.outlets {
            if matches!(outlet, Outlet::Hop(hop) if hop.is_over()) {
                *outlet = Outlet::Closed;
            }
        }
        Ok(())
    }

    /// Whether all has gone through, and other hosts know it.
    fn is_over(&self) -> bool {
        let hop = |intake: &Intake| matches!(intake, Intake::Hop(_));
        let edges = self.outlets.iter().any(|outlet| matches!(outlet, Outlet::Hop(_)))
            || self.intakes.iter().any(hop);
        self.flow.is_over() && !edges
    }

    fn memory_bytes(&self) -> usize {
        let intakes = self.intakes.iter().map(|intake| match intake {
            Intake::Hop(hop) => hop.machine.memory_bytes(),
            Intake::Pipe(_) | Intake::Spool(_) | Intake::Closed => 0,
        });
        let outlets = self.outlets.iter().map(|outlet| match outlet {
            Outlet::Hop(hop) => hop.machine.memory_bytes(),
            Outlet::Pipe(_) | Outlet::Spool(_) | Outlet::Closed => 0,
        });
        self.flow.memory_bytes() + intakes.sum::<usize>() + outlets.sum::<usize>()
    }

    /// Moves to disk what slow readers have not read, as far as it would hold up others, and lets go of
    /// what they have read of it.
    fn spill(&mut self) -> Result<(), String> {
        let Some(spill) = &mut self.spill else { return Ok(()) };
        let name = &self.plan.name;
        let flow = &mut self.flow;
        if spill.release(|reader| flow.is_behind(reader)) {
            flow.on_spill_room();
        }
        while let Some((bytes, records)) = flow.to_spill() {
            let place = spill.append(bytes, records);
            let words = |error| format!("stream {}: could not spill: {error}", name.to_display());
            match place.map_err(words)? {
                Some(place) => {
                    for reader in flow.on_spilled() {
                        spill.begin(reader, place);
                    }
                }
                None => flow.on_spill_full(),
            }
        }
        Ok(())
    }

    /// Brings back what a reader is to have next of that which was spilled.
    fn load(&mut self, reader: usize) -> Result<(), String> {
        let Some(spill) = &mut self.spill else { return Ok(()) };
        if self.flow.wants_load(reader) {
            let read = spill.read(reader, self.flow.load_space(reader));
            let name = &self.plan.name;
            let words = |error| format!("stream {}: what was spilled {error}", name.to_display());
            self.flow.on_loaded(reader, read.map_err(words)?);
        }
        Ok(())
    }

    /// Writes what there is until the pipe is full.
    fn write(&mut self, reader: usize) -> Result<(), Trouble> {
        loop {
            self.load(reader)?;
            let Outlet::Hop(hop) = &mut self.outlets[reader] else { break };
            if !self.flow.give_to(reader, &mut hop.machine) {
                return Ok(());
            }
            // What the line takes at once leaves the edge short of bytes: it would carry more.
            hop.pump().map_err(|why| broken(&self.plan.name, &why))?;
        }
        loop {
            self.load(reader)?;
            let pieces: Vec<IoSlice<'_>> =
                self.flow.pending(reader).take(PIECES_MAX).map(IoSlice::new).collect();
            let Some(first) = pieces.first() else { return Ok(()) };
            let written = match &mut self.outlets[reader] {
                Outlet::Pipe(fd) => match rustix::io::writev(&*fd, &pieces) {
                    Err(Errno::AGAIN) => return Ok(()),
                    Err(Errno::INTR) => continue,
                    Err(Errno::PIPE) => {
                        drop(pieces);
                        self.flow.on_reader_left(reader);
                        return Ok(());
                    }
                    written => written.map_err(|error| error.to_string()),
                },
                Outlet::Spool(spool) => spool.write(first).map_err(|error| error.to_string()),
                Outlet::Hop(_) | Outlet::Closed => return Ok(()),
            };
            drop(pieces);
            let name = &self.plan.name;
            let written =
                written.map_err(|error| format!("stream {}: {error}", name.to_display()))?;
            self.flow.on_written(reader, written);
        }
    }

    /// Whether the writers are to notice now that nobody reads.
    fn is_breaking(&self) -> bool {
        self.flow.breaks_pipes() && !self.has_broken
    }

    /// Closes what has come to its end, and says what is wrong. Edges have been settled.
    fn settle(&mut self) -> Result<(), Trouble> {
        for reader in 0..self.outlets.len() {
            match self.flow.reader_state(reader) {
                ReaderState::Open => {}
                // It is closed when the other host has taken all.
                ReaderState::AtEnd if matches!(self.outlets[reader], Outlet::Hop(_)) => {}
                ReaderState::AtEnd if self.kept.contains(&reader) => {}
                ReaderState::Left => self.outlets[reader] = Outlet::Closed,
                ReaderState::AtEnd => {
                    let outlet = std::mem::replace(&mut self.outlets[reader], Outlet::Closed);
                    if let Outlet::Spool(mut spool) = outlet {
                        let name = self.plan.name.to_display();
                        spool.finish().map_err(|error| format!("stream {name}: {error}"))?;
                    }
                }
            }
        }
        if self.is_breaking() {
            self.has_broken = true;
            self.unread.store(true, Ordering::Release);
            for writer in 0..self.intakes.len() {
                self.close_writer(writer);
            }
        }
        if let Some(fault) = self.flow.faults().first() {
            return Err(Trouble::Fault(self.told_fault(fault)));
        }
        if self.flow.is_over() && !self.flow.is_abandoned() {
            for (writer, edge, said) in &self.said {
                let found = self.flow.written(*writer).records;
                if found != *said {
                    let name = self.plan.name.to_display();
                    let why = format!(
                        "stream {name}: {found} records came over edge {edge} of {said}; \
                         this is an error of rakuda"
                    );
                    return Err(why.into());
                }
            }
        }
        Ok(())
    }

    fn told_fault(&self, fault: &Fault) -> StreamFault {
        let name = self.plan.name.to_display();
        match fault {
            Fault::Torn { writer, bytes } => {
                let RecordForm::Bytes(size) = self.plan.record else {
                    unreachable!("other records are never torn")
                };
                let writer = &self.plan.writers[*writer];
                let who = words_of_end(writer);
                let words = format!(
                    "stream {name}: the last record of {who} has {bytes} bytes in place of {size}; \
                     let it print whole records, or say another `record:` of the stream"
                );
                let task = match writer {
                    StreamEnd::Task(task) => Some(*task),
                    StreamEnd::Spool(_) | StreamEnd::Hop(_) => None,
                };
                StreamFault { words: Text::from(words), task }
            }
            Fault::Differs { reader, expected, found } => {
                let who = words_of_end(&self.plan.readers[*reader]);
                let words = format!(
                    "stream {name}: {who} got {} bytes and {} records of {} and {}; \
                     this is an error of rakuda",
                    found.bytes, found.records, expected.bytes, expected.records
                );
                words.into()
            }
        }
    }

    /// Tasks that have ended, and whose pipes somebody still holds.
    fn held(&self) -> impl Iterator<Item = (u32, BorrowedFd<'_>)> {
        let writers = self.plan.writers.iter().zip(&self.intakes).enumerate();
        writers.filter_map(|(number, (end, intake))| match (end, intake) {
            (StreamEnd::Task(task), Intake::Pipe(fd)) if self.flow.has_ended(number) => {
                Some((*task, fd.as_fd()))
            }
            _ => None,
        })
    }

    /// What the tasks that write into it have written so far. `None`: there are none here.
    fn passed(&self) -> Option<StreamPassed> {
        let writers = self.plan.writers.iter().enumerate();
        let tasks = writers.filter(|(_, end)| matches!(end, StreamEnd::Task(_)));
        let accounts: Vec<Account> = tasks.map(|(number, _)| self.flow.written(number)).collect();
        let bytes = |account: &Account| account.bytes + u64::from(account.is_special);
        (!accounts.is_empty()).then(|| StreamPassed {
            name: self.plan.name.clone(),
            bytes: accounts.iter().map(bytes).sum(),
            records: accounts.iter().map(|account| account.records).sum(),
        })
    }

    /// Of edges that come from other hosts: how fast their lines were seen to be since this was asked last.
    fn line_rates(&mut self) -> impl Iterator<Item = (u32, u64)> {
        self.intakes.iter_mut().filter_map(|intake| match intake {
            Intake::Hop(hop) => hop.machine.take_line_rate().map(|rate| (hop.edge, rate)),
            Intake::Pipe(_) | Intake::Spool(_) | Intake::Closed => None,
        })
    }

    fn account(&self) -> StreamAccount {
        let of = |end: &StreamEnd, account: Account| EndAccount {
            end: end.clone(),
            bytes: account.bytes,
            records: account.records,
            is_special: account.is_special,
            dropped: account.dropped,
        };
        let writers = self.plan.writers.iter().enumerate();
        let readers = self.plan.readers.iter().enumerate();
        StreamAccount {
            name: self.plan.name.clone(),
            writers: writers.map(|(number, end)| of(end, self.flow.written(number))).collect(),
            readers: readers.map(|(number, end)| of(end, self.flow.read_so_far(number))).collect(),
            memory_bytes_max: self.memory_bytes_max as u64,
            spilled_bytes: self.spill.as_ref().map_or(0, |spill| spill.bytes),
            spilled_bytes_max: self.spill.as_ref().map_or(0, |spill| spill.held_bytes_max),
            hops: Vec::new(),
        }
    }
}

/// The hub puts the task's name in the place of `task N`.
fn words_of_end(end: &StreamEnd) -> String {
    match end {
        StreamEnd::Task(task) => format!("task {task}"),
        StreamEnd::Spool(path) => path.to_display(),
        StreamEnd::Hop(edge) => format!("edge {edge}"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// A stream with one writer and one reader.
    fn through(writer: Intake, reader: Outlet) -> Through {
        let plan = StreamPlan {
            name: Text::from("s"),
            record: RecordForm::Line,
            window: 0,
            spool_bytes_max: 0,
            drain: false,
            in_turn: false,
            writers: vec![StreamEnd::Task(0)],
            readers: vec![StreamEnd::Task(1)],
            stall_ms: None,
            spill: None,
        };
        Through::new(plan, vec![writer], vec![reader], Arc::default())
    }

    #[test]
    fn only_a_spool_that_is_not_what_was_written_is_bad() {
        let folder = std::env::temp_dir();
        let gone = folder.join(format!("rakuda-spool-gone-{}", std::process::id()));
        let read = |path: &Path| {
            let mut stream = through(Intake::Spool(SpoolReader::new(path)), Outlet::Closed);
            stream.read(0).unwrap_err()
        };
        let Trouble::Spool(name, why) = read(&gone) else { panic!("it is not there") };
        assert_eq!(name.as_path(), gone);
        assert!(why.starts_with("stream s: the spool ") && why.ends_with(" is not there"), "{why}");
        assert!(matches!(read(&folder), Trouble::Fault(_)));
    }

    #[test]
    fn nothing_is_waited_for_of_a_reader_that_has_read_all_and_is_to_go_on_elsewhere() {
        let (reading, writing) = rustix::pipe::pipe().unwrap();
        let mut stream = through(Intake::Closed, Outlet::Pipe(writing));
        stream.kept.insert(0);
        let waited_for = |stream: &Through| {
            let mut fds = Vec::new();
            (stream.interests(0, &mut fds, &mut Vec::new()), fds.len())
        };
        assert_eq!(waited_for(&stream), (false, 1));
        stream.end_writer(0, false);
        assert!(stream.settle().is_ok());
        // It would be heard again and again.
        drop(reading);
        assert_eq!(waited_for(&stream), (false, 0));
        assert!(matches!(stream.outlets[0], Outlet::Pipe(_)), "its pipe is open");
    }
}
