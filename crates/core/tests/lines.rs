//! Streams over several hosts, with virtual lines between them, one life from each seed: lines are slow, break and lose
//! hosts; readers sleep, leave and are killed; writers fail; what slow readers leave is spilled; routes change. What
//! comes out is whole, or it is known that it is not; nobody waits for ever; what waits anywhere is bounded.
//!
//! `PROPTEST_CASES=400000 cargo test --release -p rakuda-core --test lines` lives a quarter as many for each route, and
//! a hundredth of these with spills (a life of those moves some megabytes).

mod dice;
mod spills;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use dice::Dice;
use proptest::test_runner::Config as RunnerConfig;
use rakuda_core::streams::{
    CARRY_BYTES_MAX, Flow, FlowSettings, GroupId, Groups, HOP_WINDOW_BYTES, HOP_WINDOW_BYTES_MAX,
    HopReceiver, HopSender, OnClose, PlaceEnd, READ_BYTES, ReaderState, RecordKind, Route,
    RouteByGroup, SenderState, Tree, WINDOW_BYTES_MIN, tree_by_group,
};
use rakuda_core::{NodeId, TaskId, Time};
use spills::Log;

/// A step of the clock that edges see: lines have a delay of up to 0.2 s.
const TICK_NS: u64 = 100_000;

/// Says which seed it was when a check fails.
struct Seed(u64, Option<Route>);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {} of {:?}", self.0, self.1);
        }
    }
}

/// Nine hosts in three groups, which lie beside one another or within one another.
fn groups(dice: &mut Dice, lost: Option<NodeId>) -> Groups {
    let mut groups = Groups::default();
    for host in (0..9).map(NodeId).filter(|host| Some(*host) != lost) {
        groups.group_of.insert(host, GroupId(host.0 / 3));
        groups.representative.entry(GroupId(host.0 / 3)).or_insert(host);
    }
    let above: &[(u32, u32)] = match dice.below(5) {
        0 => &[],
        1 => &[(2, 1)],
        2 => &[(2, 1), (1, 0)],
        3 => &[(1, 0), (2, 0)],
        _ => &[(0, 2), (1, 2)],
    };
    groups.above.extend(above.iter().map(|(one, other)| (GroupId(*one), GroupId(*other))));
    groups
}

/// What one task writes.
struct Writer {
    bytes: Vec<u8>,
    /// How long each is.
    records: Vec<usize>,
    separator: Option<u8>,
    written: usize,
    /// After so many bytes it fails.
    fails_at: Option<usize>,
    ended: bool,
}

impl Writer {
    /// The last record of one that has failed within it, with the end that it got.
    fn torn_at(&self, at: usize, bytes: usize) -> Option<Vec<u8>> {
        let is_within = at < self.written && self.written < at + bytes;
        let separator = self.separator.filter(|_| is_within && self.ended)?;
        Some([&self.bytes[at..self.written], &[separator]].concat())
    }
}

/// What one task has read.
struct Reader {
    got: Vec<u8>,
    /// It reads nothing before then.
    sleeps_until: u64,
    /// After so many bytes it has enough.
    leaves_at: Option<usize>,
    /// It has seen the end of its stdin.
    saw_end: bool,
    left: bool,
}

/// Between two hosts, in each direction: what is under way, and when it is there.
struct VirtualLine {
    from: NodeId,
    to: NodeId,
    delay: u64,
    piece: usize,
    there: VecDeque<(u64, Vec<u8>)>,
    back: VecDeque<(u64, Vec<u8>)>,
    /// Nothing more is sent; by direction, whether the end was heard.
    is_closed: [bool; 2],
}

/// A stream on one host.
struct VirtualPlace {
    node: NodeId,
    flow: Flow,
    /// What its slow readers have not read; nothing: they hold up the others.
    spilled: Option<Log>,
    writers: Vec<PlaceEnd>,
    readers: Vec<PlaceEnd>,
    /// By edge: the end of it that is here.
    into: BTreeMap<usize, (HopReceiver, Option<u64>)>,
    out: BTreeMap<usize, HopSender>,
    /// Edges whose connection is of no use any more.
    closed: BTreeSet<usize>,
    /// An edge of it broke: it passes on nothing any more.
    is_broken: bool,
    /// It belongs to a route that this host does not use yet.
    is_prepared: bool,
}

/// A task's end that goes on in another place: whether it writes, and the place and end in both.
#[derive(Clone, Copy, Debug)]
struct Handing {
    task: (TaskId, bool),
    from: (usize, usize),
    to: (usize, usize),
}

impl VirtualPlace {
    fn is_over(&self) -> bool {
        !self.is_prepared
            && self.flow.is_over()
            && self.closed.len() == self.into.len() + self.out.len()
    }
}

/// Where tasks are, and what is to go wrong.
struct Plan {
    kind: RecordKind,
    on_close: OnClose,
    writers: Vec<(TaskId, NodeId)>,
    readers: Vec<(TaskId, NodeId)>,
    is_slow: bool,
    /// Maximum bytes that each place spills.
    spill: Option<usize>,
}

/// How an attempt ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Well,
    /// Somebody knows that it cannot end well: a host is lost, a line broke, a writer failed, a reader was killed.
    Known,
}

struct World {
    now: u64,
    places: Vec<VirtualPlace>,
    lines: Vec<VirtualLine>,
    writers: BTreeMap<TaskId, Writer>,
    readers: BTreeMap<TaskId, Reader>,
    lost: Option<NodeId>,
    window: usize,
    /// By task and whether it writes: the place where its end is.
    at: BTreeMap<(TaskId, bool), usize>,
    handings: Vec<Handing>,
    /// Hosts that have not changed to the route that is prepared.
    to_switch: Vec<NodeId>,
    /// Routes that are changed to, and when.
    reroutes: Vec<(usize, Tree)>,
    /// How many were, to the end.
    rerouted: usize,
    settings: (FlowSettings, Option<usize>),
    /// The largest window that an edge had.
    window_max: usize,
    /// Readers that leave early have been killed.
    kills_readers: bool,
    /// One was, which the hub knows when its task ends.
    was_killed: bool,
}

fn records_of(dice: &mut Dice, kind: RecordKind, task: TaskId, budget: usize) -> Writer {
    let (mut bytes, mut records) = (Vec::new(), Vec::new());
    let letter = b'A' + u8::try_from(task.0).unwrap();
    while bytes.len() < budget {
        let size = match kind {
            RecordKind::Fixed(size) => size as usize,
            _ => 1 + dice.up_to(&[40, 3_000, 200_000]),
        };
        // Whose it is can be told from its first byte, and which from the others.
        let fill = b'a' + u8::try_from(records.len() % 26).unwrap();
        bytes.push(letter);
        bytes.resize(bytes.len() + size - 1, fill);
        bytes.extend(kind.separator());
        records.push(size + usize::from(kind.separator().is_some()));
    }
    Writer { bytes, records, separator: kind.separator(), written: 0, fails_at: None, ended: false }
}

impl World {
    fn new(dice: &mut Dice, plan: &Plan, tree: &Tree, budget: usize) -> Self {
        let window = WINDOW_BYTES_MIN + dice.below(1 << 20);
        let settings = FlowSettings {
            record: plan.kind,
            window,
            on_close: plan.on_close,
            spills: plan.spill.is_some(),
            in_turn: false,
        };
        let mut world = Self {
            now: 0,
            lines: Vec::new(),
            places: Vec::new(),
            writers: plan
                .writers
                .iter()
                .map(|(task, _)| (*task, records_of(dice, plan.kind, *task, budget)))
                .collect(),
            readers: plan
                .readers
                .iter()
                .map(|(task, _)| {
                    let sleeps = plan.is_slow && dice.one_in(2);
                    let sleeps_until = if sleeps { 1 << 40 } else { 0 };
                    let none = (Vec::new(), None, false);
                    let (got, leaves_at, left) = none;
                    (*task, Reader { got, sleeps_until, leaves_at, saw_end: false, left })
                })
                .collect(),
            lost: None,
            window,
            at: BTreeMap::new(),
            handings: Vec::new(),
            to_switch: Vec::new(),
            reroutes: Vec::new(),
            rerouted: 0,
            settings: (settings, plan.spill),
            window_max: 0,
            kills_readers: false,
            was_killed: false,
        };
        world.add(dice, tree, false);
        world
    }

    /// The places and lines of a tree, and who goes on there from others.
    fn add(&mut self, dice: &mut Dice, tree: &Tree, is_prepared: bool) {
        let (settings, spill) = self.settings;
        let first = self.lines.len();
        for place in &tree.places {
            let move_on = |end: &PlaceEnd| match end {
                PlaceEnd::Edge(edge) => PlaceEnd::Edge(first + edge),
                PlaceEnd::Task(task) => PlaceEnd::Task(*task),
            };
            let writers: Vec<PlaceEnd> = place.writers.iter().map(move_on).collect();
            let readers: Vec<PlaceEnd> = place.readers.iter().map(move_on).collect();
            let number = self.places.len();
            for (writes, ends) in [(true, &writers), (false, &readers)] {
                for (end, task) in ends.iter().enumerate() {
                    let PlaceEnd::Task(task) = task else { continue };
                    let task = (*task, writes);
                    let Some(old) = self.at.get(&task).copied() else {
                        self.at.insert(task, number);
                        continue;
                    };
                    let before = &self.places[old];
                    let ends = if writes { &before.writers } else { &before.readers };
                    let there = ends.iter().position(|one| *one == PlaceEnd::Task(task.0));
                    let from = (old, there.unwrap());
                    self.handings.push(Handing { task, from, to: (number, end) });
                }
            }
            let edges = |ends: &[PlaceEnd]| -> Vec<usize> {
                let edge = |end: &PlaceEnd| match end {
                    PlaceEnd::Edge(edge) => Some(*edge),
                    PlaceEnd::Task(_) => None,
                };
                ends.iter().filter_map(edge).collect()
            };
            self.places.push(VirtualPlace {
                node: place.node,
                flow: Flow::new(settings, writers.len(), readers.len()),
                spilled: spill.map(|bytes_max| Log {
                    bytes_max,
                    next: vec![None; readers.len()],
                    ..Log::default()
                }),
                into: edges(&writers).into_iter().map(|edge| (edge, Default::default())).collect(),
                out: edges(&readers).into_iter().map(|edge| (edge, HopSender::default())).collect(),
                writers,
                readers,
                closed: BTreeSet::new(),
                is_broken: false,
                is_prepared,
            });
        }
        let lines = tree.edges.iter().map(|hop| VirtualLine {
            from: hop.from,
            to: hop.to,
            delay: dice.up_to(&[2, 2_000]) as u64,
            piece: 1 + dice.up_to(&[9_000, 300_000]),
            there: VecDeque::new(),
            back: VecDeque::new(),
            is_closed: [false; 2],
        });
        self.lines.extend(lines);
    }

    /// The next route is prepared everywhere when it is time; sometimes one host cannot, and all stays as it is.
    fn prepare(&mut self, dice: &mut Dice, steps: usize) {
        let is_time = self.reroutes.first().is_some_and(|(at, _)| *at <= steps);
        if !is_time || !self.handings.is_empty() || !self.to_switch.is_empty() {
            return;
        }
        let (_, tree) = self.reroutes.remove(0);
        let has_ended = |place: &VirtualPlace| place.is_over() || place.is_broken;
        let mut current = self.at.values().map(|number| &self.places[*number]);
        if self.lost.is_some() || current.any(has_ended) {
            return;
        }
        let (places, lines) = (self.places.len(), self.lines.len());
        self.add(dice, &tree, true);
        if dice.one_in(8) {
            self.places.truncate(places);
            self.lines.truncate(lines);
            self.handings.clear();
            return;
        }
        let nodes: BTreeSet<NodeId> = tree.places.iter().map(|place| place.node).collect();
        self.to_switch = nodes.into_iter().collect();
    }

    /// One host hears that all change; whether one was left.
    fn switch(&mut self, dice: &mut Dice) -> bool {
        if self.to_switch.is_empty() {
            return false;
        }
        let node = self.to_switch.swap_remove(dice.below(self.to_switch.len()));
        for place in self.places.iter_mut().filter(|place| place.node == node) {
            place.is_prepared = false;
        }
        true
    }

    /// Who can goes on in the next place; whether anybody did.
    fn hand_on(&mut self) -> bool {
        let before = self.handings.len();
        let (places, at, lost) = (&mut self.places, &mut self.at, self.lost);
        self.handings.retain(|Handing { task, from, to }| {
            let (old, new) = places.split_at_mut(to.0);
            let (old, new) = (&mut old[from.0], &mut new[0]);
            if new.is_prepared || old.is_broken || new.is_broken || lost == Some(old.node) {
                return true;
            }
            let (old, new) = (&mut old.flow, &mut new.flow);
            let is_handed = if task.1 {
                old.hand_writer(from.1, new, to.1)
            } else {
                old.hand_reader(from.1, new, to.1)
            };
            if is_handed {
                at.insert(*task, to.0);
            }
            !is_handed
        });
        self.rerouted += usize::from(before > 0 && self.handings.is_empty());
        self.handings.len() < before
    }

    fn is_here(&self, task: TaskId, writes: bool, number: usize) -> bool {
        self.at.get(&(task, writes)) == Some(&number)
    }

    /// A writer's commands have ended: whatever route has an end of it hears that.
    fn end_writer(&mut self, task: TaskId, well: bool) {
        for place in &mut self.places {
            if let Some(end) = place.writers.iter().position(|one| *one == PlaceEnd::Task(task)) {
                place.flow.on_writer_ended(end, well);
            }
        }
    }

    /// Bytes that went to disk in all places.
    fn spilled(&self) -> usize {
        self.places.iter().filter_map(|place| place.spilled.as_ref()).map(|log| log.total).sum()
    }

    fn is_up(&self, node: NodeId) -> bool {
        self.lost != Some(node)
    }

    /// A task of a place writes; whether anything moved.
    fn write(&mut self, dice: &mut Dice, number: usize, writer: usize) -> bool {
        let PlaceEnd::Task(task) = self.places[number].writers[writer] else { return false };
        if !self.is_here(task, true, number) {
            return false;
        }
        let place = &mut self.places[number];
        let one = self.writers.get_mut(&task).unwrap();
        if one.ended {
            return false;
        }
        let fails = one.fails_at.is_some_and(|at| one.written >= at);
        if fails || one.written == one.bytes.len() || place.flow.breaks_pipes() {
            one.ended = true;
            let (first, well) = (dice.one_in(2), !fails);
            if first {
                self.end_writer(task, well);
            }
            self.places[number].flow.on_writer_closed(writer);
            if !first {
                self.end_writer(task, well);
            }
            return true;
        }
        if !place.flow.wants(writer) {
            return false;
        }
        let space = place.flow.space(writer);
        let room = space.capacity() - space.len();
        let most = if dice.one_in(3) { 1 + dice.below(100) } else { READ_BYTES };
        let end = one.fails_at.unwrap_or(one.bytes.len());
        let bytes = room.min(most).min(end - one.written);
        space.extend_from_slice(&one.bytes[one.written..one.written + bytes]);
        place.flow.on_read(writer, bytes);
        one.written += bytes;
        true
    }

    /// A task of a place reads; whether anything moved.
    fn read(&mut self, dice: &mut Dice, number: usize, reader: usize) -> bool {
        let PlaceEnd::Task(task) = self.places[number].readers[reader] else { return false };
        let goes_on = self.handings.iter().any(|one| one.from == (number, reader) && !one.task.1);
        if !self.is_here(task, false, number) {
            return false;
        }
        let place = &mut self.places[number];
        let one = self.readers.get_mut(&task).unwrap();
        if one.left || one.saw_end || self.now < one.sleeps_until {
            return false;
        }
        if place.flow.reader_state(reader) == ReaderState::AtEnd {
            one.saw_end = !goes_on;
            return one.saw_end;
        }
        if one.leaves_at.is_some_and(|at| one.got.len() >= at) {
            one.left = true;
            self.was_killed |= self.kills_readers;
            place.flow.on_reader_left(reader);
            return true;
        }
        if let Some(log) = &mut place.spilled {
            log.give_to(&mut place.flow, reader);
        }
        let Some(piece) = place.flow.pending(reader).next() else { return false };
        let bytes = if dice.one_in(3) { 1 + dice.below(piece.len()) } else { piece.len() };
        one.got.extend_from_slice(&piece[..bytes]);
        place.flow.on_written(reader, bytes);
        true
    }

    /// What the relay of a host does with its edges; whether anything moved.
    fn pass_on(&mut self, number: usize) -> bool {
        let place = &mut self.places[number];
        let mut moved = false;
        for (writer, end) in place.writers.clone().into_iter().enumerate() {
            let PlaceEnd::Edge(edge) = end else { continue };
            let (machine, said) = place.into.get_mut(&edge).unwrap();
            machine.on_time(Time(self.now * TICK_NS));
            let window = machine.window_bytes();
            assert!(machine.pending().len() <= window && window <= HOP_WINDOW_BYTES_MAX);
            self.window_max = self.window_max.max(window);
            if said.is_none() && place.flow.wants(writer) {
                moved |= place.flow.take_from(writer, machine);
            }
            let now = place.flow.settle_from(writer, machine, said.is_some());
            moved |= now.is_some();
            *said = said.or(now);
        }
        if let Some(log) = &mut place.spilled {
            moved |= log.take_from(&mut place.flow);
            assert!(log.held() <= log.bytes_max, "{} are spilled", log.held());
        }
        for (reader, end) in place.readers.clone().into_iter().enumerate() {
            let PlaceEnd::Edge(edge) = end else { continue };
            if let Some(log) = &mut place.spilled {
                log.give_to(&mut place.flow, reader);
            }
            let machine = place.out.get_mut(&edge).unwrap();
            moved |= place.flow.give_to(reader, machine);
            place.flow.settle_to(reader, machine);
        }
        assert_eq!(place.flow.faults(), []);
        // Whoever is behind has loaded one piece.
        let loaded = place.spilled.as_ref().map_or(0, |_| place.readers.len());
        let bound =
            self.window + (place.writers.len() + loaded) * CARRY_BYTES_MAX + 16 * READ_BYTES;
        assert!(place.flow.memory_bytes() <= bound);
        moved | self.send(number)
    }

    /// Puts what the edges of a place say onto their lines, and closes those that are over.
    fn send(&mut self, number: usize) -> bool {
        let place = &mut self.places[number];
        let mut moved = false;
        for (edge, machine) in &mut place.out {
            let line = &mut self.lines[*edge];
            let bytes = machine.to_write().len().min(line.piece);
            if bytes > 0 && !place.closed.contains(edge) {
                // Into a connection that broke much can be written before it is known.
                if !line.is_closed[0] {
                    let due = self.now + line.delay;
                    line.there.push_back((due, machine.to_write()[..bytes].to_vec()));
                }
                machine.on_written(bytes);
                moved = true;
            }
            if matches!(machine.state(), SenderState::Done | SenderState::Left) {
                line.is_closed[0] = true;
                moved |= place.closed.insert(*edge);
            }
        }
        for (edge, (machine, _)) in &mut place.into {
            let line = &mut self.lines[*edge];
            let bytes = machine.to_write().len();
            if bytes > 0 && !place.closed.contains(edge) {
                if !line.is_closed[1] {
                    line.back.push_back((self.now + line.delay, machine.to_write().to_vec()));
                }
                machine.on_written(bytes);
                moved = true;
            }
            if machine.is_over() {
                line.is_closed[1] = true;
                moved |= place.closed.insert(*edge);
            }
        }
        moved
    }

    fn place_of(&mut self, edge: usize, is_sender: bool) -> Option<&mut VirtualPlace> {
        let lost = self.lost;
        let has = |place: &&mut VirtualPlace| {
            if is_sender { place.out.contains_key(&edge) } else { place.into.contains_key(&edge) }
        };
        self.places.iter_mut().find(has).filter(|place| Some(place.node) != lost)
    }

    /// Brings the next bytes of a line to their end, or the news that nothing more comes; whether there was anything.
    fn carry(&mut self, edge: usize, is_there: bool) -> bool {
        let now = self.now;
        // The other end of a connection is not looked at before the route is in use there.
        if self.place_of(edge, !is_there).is_some_and(|place| place.is_prepared) {
            return false;
        }
        let line = &mut self.lines[edge];
        let (way, closed) = if is_there {
            (&mut line.there, line.is_closed[0])
        } else {
            (&mut line.back, line.is_closed[1])
        };
        let bytes = match way.front() {
            Some((due, _)) if *due > now => return false,
            Some(_) => way.pop_front().map(|(_, bytes)| bytes),
            None if closed => None,
            None => return false,
        };
        let Some(place) = self.place_of(edge, !is_there) else { return bytes.is_some() };
        assert!(!place.is_prepared);
        if place.is_broken || place.closed.contains(&edge) {
            return bytes.is_some();
        }
        let heard = match (is_there, &bytes) {
            (true, Some(bytes)) => place.into.get_mut(&edge).unwrap().0.on_received(bytes),
            (false, Some(bytes)) => place.out.get_mut(&edge).unwrap().on_received(bytes),
            (true, None) => place.into.get_mut(&edge).unwrap().0.on_closed(),
            (false, None) => place.out[&edge].on_closed(),
        };
        match heard {
            Ok(()) => {}
            // Only a connection that broke says no more before its time.
            Err(rakuda_core::streams::HopError::EndsEarly) => place.is_broken = true,
            Err(error) => panic!("{error:?}"),
        }
        if let (None, false) = (&bytes, place.is_broken) {
            place.closed.insert(edge);
        }
        true
    }

    /// A connection breaks: what is under way may be lost, and both ends hear of it at last.
    fn cut(&mut self, dice: &mut Dice, edge: usize) {
        let line = &mut self.lines[edge];
        line.is_closed = [true; 2];
        let keep = dice.below(line.there.len() + 1);
        line.there.truncate(keep);
        let keep = dice.below(line.back.len() + 1);
        line.back.truncate(keep);
    }

    fn lose(&mut self, dice: &mut Dice, node: NodeId) {
        self.lost = Some(node);
        for edge in 0..self.lines.len() {
            if self.lines[edge].from == node || self.lines[edge].to == node {
                self.cut(dice, edge);
            }
        }
    }

    /// One thing that could happen, happens; whether it did.
    fn step(&mut self, dice: &mut Dice) -> bool {
        let edges = self.lines.len();
        let number = dice.below(self.places.len() + edges);
        if number < edges {
            return self.carry(number, dice.one_in(2));
        }
        self.work(dice, number - edges)
    }

    fn work(&mut self, dice: &mut Dice, number: usize) -> bool {
        let place = &self.places[number];
        if !self.is_up(place.node) || place.is_broken || place.is_prepared {
            return false;
        }
        let (writers, readers) = (place.writers.len(), place.readers.len());
        let (writer, reader) = (dice.below(writers), dice.below(readers));
        let written = self.write(dice, number, writer);
        let passed = self.pass_on(number);
        let read = self.read(dice, number, reader);
        written | passed | read
    }

    /// All that could happen, happens once; whether anything did.
    fn sweep(&mut self, dice: &mut Dice) -> bool {
        let mut moved = self.switch(dice);
        for number in 0..self.places.len() {
            let place = &self.places[number];
            if !self.is_up(place.node) || place.is_broken || place.is_prepared {
                continue;
            }
            for writer in 0..self.places[number].writers.len() {
                moved |= self.write(dice, number, writer);
            }
            moved |= self.pass_on(number);
            for reader in 0..self.places[number].readers.len() {
                moved |= self.read(dice, number, reader);
            }
        }
        for edge in 0..self.lines.len() {
            moved |= self.carry(edge, true) | self.carry(edge, false);
        }
        moved
    }

    /// Nothing moves now: the time when something may.
    fn wait(&mut self) -> bool {
        let directions = self.lines.iter().flat_map(|line| [line.there.front(), line.back.front()]);
        let due = directions.flatten().map(|(due, _)| *due).filter(|due| *due > self.now).min();
        let wakes = self.readers.values().map(|reader| reader.sleeps_until);
        let wakes = wakes.filter(|at| *at > self.now).min();
        let Some(next) = due.or(wakes) else { return false };
        self.now = next;
        true
    }

    /// Whether it is known that this cannot end well. With a reader that was killed it always is,
    /// so that nobody is then found who waits for ever.
    fn is_known(&self) -> bool {
        let broken = self.places.iter().any(|place| place.is_broken && self.is_up(place.node));
        broken || self.was_killed || self.places.iter().any(|place| place.flow.is_aborted())
    }

    fn is_over(&self) -> bool {
        self.handings.is_empty() && self.places.iter().all(VirtualPlace::is_over)
    }

    fn run(&mut self, dice: &mut Dice, wrong: &mut Option<(usize, Wrong)>) -> End {
        let mut steps = 0;
        let mut idle = 0;
        while !self.is_over() {
            steps += 1;
            self.now += 1;
            if let Some((_, wrong)) = wrong.take_if(|(at, _)| *at <= steps) {
                match wrong {
                    Wrong::Cut(edge) if edge < self.lines.len() => self.cut(dice, edge),
                    Wrong::Lost(node) => self.lose(dice, node),
                    Wrong::Cut(_) => {}
                }
            }
            self.prepare(dice, steps);
            if dice.one_in(100) {
                self.switch(dice);
            }
            let handed = self.hand_on();
            idle = if self.step(dice) | handed { 0 } else { idle + 1 };
            if idle < 30 || self.sweep(dice) || self.wait() {
                continue;
            }
            // Nothing can happen any more: then somebody must know why. The hub knows of a lost host by itself.
            assert!(self.is_known() || self.lost.is_some(), "nobody waits for ever");
            return End::Known;
        }
        if self.was_killed { End::Known } else { End::Well }
    }

    /// All is over: who reads has all of it, or has left.
    fn check_ends(&self) {
        let all: usize = self.writers.values().map(|writer| writer.bytes.len()).sum();
        for (number, place) in self.places.iter().enumerate() {
            for (reader, end) in place.readers.iter().enumerate() {
                let PlaceEnd::Task(task) = end else { continue };
                if !self.is_here(*task, false, number) {
                    continue;
                }
                let one = &self.readers[task];
                match place.flow.reader_state(reader) {
                    // Who left on a route before has nothing to leave where nothing comes any more.
                    ReaderState::AtEnd => assert!(one.left || one.got.len() == all),
                    ReaderState::Left => assert!(one.left),
                    ReaderState::Open => panic!("a reader has no end"),
                }
            }
        }
    }

    /// What a reader has is a merge of what was written, each writer's in its order.
    fn check_readers(&self) {
        for reader in self.readers.values() {
            let mut next: BTreeMap<u8, (usize, usize)> = BTreeMap::new();
            let mut rest = &reader.got[..];
            while let Some(first) = rest.first() {
                let writer = &self.writers[&TaskId(u32::from(first - b'A'))];
                let (record, at) = next.entry(*first).or_default();
                let bytes = writer.records[*record];
                let torn = writer.torn_at(*at, bytes);
                if let Some(torn) = torn.filter(|torn| rest.starts_with(torn)) {
                    // Its pipe was closed before it was known that it failed.
                    assert!(!reader.saw_end, "a writer that fails is no end");
                    rest = &rest[torn.len()..];
                    *at = usize::MAX;
                    continue;
                }
                let held = bytes.min(rest.len());
                assert!(rest[..held] == writer.bytes[*at..*at + held], "mixed, split or lost");
                assert!(held == bytes || !reader.saw_end, "a record is torn");
                (*record, *at) = (*record + 1, *at + bytes);
                rest = &rest[held..];
            }
            let all: usize = self.writers.values().map(|writer| writer.bytes.len()).sum();
            assert!(!reader.saw_end || reader.got.len() == all, "the end came before all");
            for other in self.readers.values() {
                let both = reader.got.len().min(other.got.len());
                assert!(reader.got[..both] == other.got[..both], "readers see different orders");
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Wrong {
    Cut(usize),
    Lost(NodeId),
}

fn on_hosts(dice: &mut Dice, first: u32, lost: Option<NodeId>) -> Vec<(TaskId, NodeId)> {
    (0..=dice.number(4))
        .map(|task| {
            let host = NodeId(dice.number(9));
            let host = if Some(host) == lost { NodeId((host.0 + 1) % 9) } else { host };
            (TaskId(first + task), host)
        })
        .collect()
}

/// Whose life it is: the route without the end of the conventional one; nothing: each group has one of its own.
/// Answers how much was spilled, and how often the route was changed.
fn live(seed: u64, route: Option<Route>, spills: bool) -> (usize, usize) {
    let _seed = Seed(seed, route);
    let dice = &mut Dice(seed);
    dice.below(2);
    let kind = [RecordKind::Line, RecordKind::Nul, RecordKind::Fixed(37)][dice.below(3)];
    let on_close = if dice.one_in(2) { OnClose::Drain } else { OnClose::Sigpipe };
    let (writers, readers) = (on_hosts(dice, 0, None), on_hosts(dice, 10, None));
    let mut plan = Plan { kind, on_close, writers, readers, is_slow: dice.one_in(3), spill: None };
    // Mostly little, and sometimes more than all windows hold together.
    let mut budget = if dice.one_in(64) { 3 << 20 } else { dice.below(20_000) };
    if spills {
        plan.is_slow = true;
        plan.spill = Some(if dice.one_in(2) { 64 << 20 } else { dice.below(4 << 20) });
        budget = (3 << 20) + dice.below(3 << 20);
    }
    let tree_now = |dice: &mut Dice, plan: &Plan, lost: Option<NodeId>| {
        let groups = groups(dice, lost);
        let by_group = match route {
            Some(Route::Conventional { .. }) => {
                RouteByGroup::of(Route::Conventional { end: plan.readers[0].1 }, &groups)
            }
            Some(route) => RouteByGroup::of(route, &groups),
            None => {
                let relayed = (0..3).filter(|_| dice.one_in(2)).map(GroupId).collect();
                let meeting = dice.one_in(2).then(|| plan.readers[0].1);
                RouteByGroup { meeting, relayed }
            }
        };
        tree_by_group(&groups, &by_group, &plan.writers, &plan.readers)
    };
    let tree = tree_now(dice, &plan, None);
    let mut world = World::new(dice, &plan, &tree, budget);
    for _ in 0..dice.below(3) {
        let at = dice.up_to(&[30, 300, 3_000]);
        let groups = groups(dice, None);
        let relayed = (0..3).filter(|_| dice.one_in(2)).map(GroupId).collect();
        let by_group = RouteByGroup { meeting: dice.one_in(2).then(|| plan.readers[0].1), relayed };
        let tree = tree_by_group(&groups, &by_group, &plan.writers, &plan.readers);
        world.reroutes.push((at, tree));
    }
    let leaves = dice.one_in(3);
    for reader in world.readers.values_mut().filter(|_| leaves) {
        reader.leaves_at = dice.one_in(2).then(|| dice.below(budget + 1));
    }
    let fails = dice.one_in(6);
    if fails && let Some(writer) = world.writers.get_mut(&TaskId(0)) {
        let at = dice.below(budget + 1).min(writer.bytes.len());
        // Of a fixed size a torn one is a fault by itself.
        let is_fixed = writer.separator.is_none();
        writer.fails_at = Some(if is_fixed { at - at % 37 } else { at });
    }
    let mut wrong = match dice.below(3) {
        0 => Some((dice.below(4_000), Wrong::Cut(dice.below(tree.edges.len().max(1))))),
        1 => Some((dice.below(4_000), Wrong::Lost(any_host(dice, &tree)))),
        _ => None,
    };
    world.kills_readers = leaves && dice.one_in(4);
    let is_calm = wrong.is_none() && !fails && !world.kills_readers;
    let end = world.run(dice, &mut wrong);
    world.check_readers();
    assert!(end == End::Well || !is_calm);
    let (spilled, rerouted) = (world.spilled(), world.rerouted);
    if end == End::Well {
        world.check_ends();
        return (spilled, rerouted);
    }
    // All is tried again, without the host that was lost, and ends well.
    let lost = world.lost;
    plan.is_slow = false;
    for (_, node) in plan.writers.iter_mut().chain(&mut plan.readers) {
        if Some(*node) == lost {
            *node = NodeId((node.0 + 1) % 9);
        }
    }
    let tree = tree_now(dice, &plan, lost);
    assert!(tree.places.iter().all(|place| Some(place.node) != lost));
    let mut world = World::new(dice, &plan, &tree, budget);
    assert_eq!(world.run(dice, &mut None), End::Well);
    world.check_readers();
    world.check_ends();
    (spilled + world.spilled(), rerouted)
}

/// A host over which something passes, with tasks or without.
fn any_host(dice: &mut Dice, tree: &Tree) -> NodeId {
    tree.places[dice.below(tree.places.len())].node
}

fn live_all(route: Option<Route>) {
    let rerouted: usize = (0..u64::from(RunnerConfig::default().cases / 4))
        .map(|seed| live(seed, route, false).1)
        .sum();
    assert!(rerouted > 4, "{rerouted} routes were changed");
    // So many that some of them spill, whatever the route.
    let spilled = (0..u64::from(RunnerConfig::default().cases / 400).max(4))
        .map(|seed| live(seed, route, true).0);
    let count = spilled.filter(|bytes| *bytes > 0).count();
    assert!(count > 1, "{count} have spilled");
}

#[test]
fn whatever_happens_on_direct_lines_what_comes_out_is_whole_or_known_not_to_be() {
    live_all(Some(Route::Direct));
}

#[test]
fn whatever_happens_over_representatives_what_comes_out_is_whole_or_known_not_to_be() {
    live_all(Some(Route::Relay));
}

#[test]
fn whatever_happens_over_one_output_end_what_comes_out_is_whole_or_known_not_to_be() {
    live_all(Some(Route::Conventional { end: NodeId(0) }));
}

#[test]
fn whatever_happens_where_each_group_has_its_way_what_comes_out_is_whole_or_known_not_to_be() {
    live_all(None);
}

/// Lives that have once found something.
#[test]
fn what_came_out_in_lives_that_were_known_to_be_wrong_is_whole() {
    // A reader leaves while the route changes, and records have a fixed size.
    live(56_885, Some(Route::Direct), false);
}

#[test]
fn edges_see_the_clock_and_widen_their_window_on_a_long_line() {
    let dice = &mut Dice(1);
    let (writers, readers) = (vec![(TaskId(0), NodeId(0))], vec![(TaskId(10), NodeId(8))]);
    let (kind, on_close) = (RecordKind::Line, OnClose::Drain);
    let plan = Plan { kind, on_close, writers, readers, is_slow: false, spill: None };
    let groups = groups(dice, None);
    let tree = tree_by_group(&groups, &RouteByGroup::default(), &plan.writers, &plan.readers);
    let mut world = World::new(dice, &plan, &tree, 12 << 20);
    world.lines[0].delay = 2_000;
    world.lines[0].piece = 300_000;
    assert_eq!(world.run(dice, &mut None), End::Well);
    assert!(world.window_max > HOP_WINDOW_BYTES, "{}", world.window_max);
}
