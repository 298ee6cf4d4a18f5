//! What went through the streams of a run, by stream and task.

use std::collections::{BTreeMap, BTreeSet};

use rakuda_proto::Text;
use rakuda_proto::streams::{EndAccount, HopAccount, LineKind, StillForm, StreamEnd, StreamRoute};

use crate::run::{Run, Streams};
use crate::words::with_name;

/// One end of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSide {
    /// Whose stdout or stdin it is.
    pub task: u32,
    /// Of the last opening in which the task had a part. `None`: what went through was not reported.
    pub account: Option<EndAccount>,
}

/// How the last opening of a stream ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum StreamFate {
    /// All that was written was read, or its reader left.
    #[default]
    Well,
    /// With something wrong, in words for people.
    Fault(String),
    /// It was closed before its end: a member failed, was lost, or the run was stopped. What had gone through by then
    /// is included, if it was reported.
    Closed,
    /// It has not ended, and the run goes on.
    Open,
}

/// No byte had moved in a cycle of streams for some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamStall {
    /// When that was reported, ns since 1970.
    pub time_ns: i64,
    /// For how long, ns.
    pub silence_ns: u64,
    /// The tasks of the cycle.
    pub tasks: Vec<u32>,
    /// How the stream was.
    pub still: StillForm,
}

impl StreamStall {
    /// How the stream was, in words that follow its name.
    pub fn words(&self) -> &'static str {
        match self.still {
            StillForm::Over => "is over",
            StillForm::Empty => "is empty",
            StillForm::Unread => "has bytes that are not read",
            StillForm::Full => "is full",
        }
    }
}

/// One stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamSummary {
    /// As the Rakefile has it.
    pub name: String,
    /// `FILE:LINE` of the statement.
    pub place: String,
    /// What wrote into it, by number.
    pub writers: Vec<StreamSide>,
    /// What read from it, by number.
    pub readers: Vec<StreamSide>,
    /// How it ended.
    pub fate: StreamFate,
    /// Maximum memory that one of its openings took, bytes.
    pub memory_bytes_max: u64,
    /// Bytes that went to disk for slow readers, in all openings that reported them.
    pub spilled_bytes: u64,
    /// The most that one of its openings had on disk at one time.
    pub spilled_bytes_max: u64,
    /// What went between hosts, in the last opening that reported it.
    pub hops: Vec<HopAccount>,
    /// How its messages went between hosts in the last opening, and to its end. `None`: they were on one.
    pub route: Option<StreamRoute>,
    /// How they went before, in that opening.
    pub routes_before: Vec<StreamRoute>,
    /// Times in which a cycle with it stood still, in all openings.
    pub stalls: Vec<StreamStall>,
}

/// Copies over lines of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copies {
    /// Edges.
    pub edges: u64,
    /// Bytes over all of them.
    pub bytes: u64,
    /// Records over all of them: copies of messages.
    pub records: u64,
}

impl StreamSummary {
    /// Bytes that readers were to get: those that writers wrote, and separators that were added.
    pub fn bytes(&self) -> u64 {
        accounts(&self.writers).map(|account| account.bytes + u64::from(account.is_special)).sum()
    }

    /// Records that readers were to get.
    pub fn records(&self) -> u64 {
        accounts(&self.writers).map(|account| account.records).sum()
    }

    /// Copies over the lines of a kind.
    pub fn copies(&self, line: LineKind) -> Copies {
        let mut copies = Copies::default();
        for hop in self.hops.iter().filter(|hop| hop.line == line) {
            copies.edges += 1;
            copies.bytes += hop.bytes;
            copies.records += hop.records;
        }
        copies
    }

    /// Bytes that writers wrote when all readers had left, beside those that went in.
    pub fn dropped(&self) -> u64 {
        accounts(&self.writers).map(|account| account.dropped).sum()
    }

    /// Whether no reader has stayed to the end.
    pub fn is_abandoned(&self) -> bool {
        let left = |side: &StreamSide| side.account.as_ref().is_some_and(|one| one.is_special);
        !self.readers.is_empty() && self.readers.iter().all(left)
    }

    /// Whether it has ended well, and each of its tasks has an account of what went through.
    pub fn is_whole(&self) -> bool {
        let sides = self.writers.iter().chain(&self.readers);
        self.fate == StreamFate::Well && sides.into_iter().all(|side| side.account.is_some())
    }

    /// Whether it is whole, and each reader that did not leave early got all.
    pub fn is_balanced(&self) -> bool {
        self.is_whole()
            && accounts(&self.readers).all(|account| self.got_all(account) || account.is_special)
    }

    /// Whether a reader has got what all writers wrote.
    pub fn got_all(&self, reader: &EndAccount) -> bool {
        (reader.bytes, reader.records) == (self.bytes(), self.records())
    }
}

fn accounts(sides: &[StreamSide]) -> impl Iterator<Item = &EndAccount> {
    sides.iter().filter_map(|side| side.account.as_ref())
}

/// All streams that were opened, in the order of their names.
pub fn streams(run: &Run) -> Vec<StreamSummary> {
    type Sides = BTreeMap<u32, Option<EndAccount>>;
    let mut found: BTreeMap<&Text, (Sides, Sides, StreamSummary)> = BTreeMap::new();
    for one in &run.streams {
        let members: BTreeSet<u32> = one.opened.members.iter().copied().collect();
        for note in &one.opened.streams {
            let (writers, readers, stream) = found.entry(&note.name).or_default();
            stream.name = note.name.to_display();
            stream.place = note.place.to_display();
            let changes = one.rerouted.iter().flat_map(|event| &event.streams);
            let changes = changes.filter(|change| change.name == note.name);
            stream.routes_before = note.route.clone().into_iter().collect();
            stream.routes_before.extend(changes.map(|change| change.route.clone()));
            stream.route = stream.routes_before.pop();
            stream.stalls.extend(stalls_of(one, &note.name));
            let mut has_part = false;
            for (sides, tasks) in [(&mut *writers, &note.writers), (&mut *readers, &note.readers)] {
                for task in tasks {
                    let is_member = members.contains(task);
                    has_part |= is_member;
                    let side = sides.entry(*task).or_default();
                    if is_member {
                        *side = None;
                    }
                }
            }
            // Over spools only some of the members have a part in an opening.
            if has_part {
                stream.fate = fate(run, one);
            }
        }
        for account in one.ended.iter().flat_map(|ended| &ended.streams) {
            let Some((writers, readers, stream)) = found.get_mut(&account.name) else { continue };
            stream.memory_bytes_max = account.memory_bytes_max.max(stream.memory_bytes_max);
            stream.spilled_bytes = stream.spilled_bytes.saturating_add(account.spilled_bytes);
            stream.spilled_bytes_max = account.spilled_bytes_max.max(stream.spilled_bytes_max);
            stream.hops.clone_from(&account.hops);
            for (sides, ends) in [(writers, &account.writers), (readers, &account.readers)] {
                for end in ends {
                    if let StreamEnd::Task(task) = end.end {
                        sides.insert(task, Some(end.clone()));
                    }
                }
            }
        }
    }
    let sides = |sides: Sides| {
        sides.into_iter().map(|(task, account)| StreamSide { task, account }).collect()
    };
    let whole = |(writers, readers, stream)| {
        let (writers, readers) = (sides(writers), sides(readers));
        StreamSummary { writers, readers, ..stream }
    };
    found.into_values().map(whole).collect()
}

fn stalls_of(one: &Streams, name: &Text) -> impl Iterator<Item = StreamStall> {
    one.stalled.iter().filter_map(|event| {
        let stream = event.streams.iter().find(|stream| stream.name == *name)?;
        Some(StreamStall {
            time_ns: event.time_ns,
            silence_ns: event.silence_ns,
            tasks: event.tasks.clone(),
            still: stream.still,
        })
    })
}

fn fate(run: &Run, one: &Streams) -> StreamFate {
    match &one.ended {
        Some(ended) => match &ended.fault {
            None if ended.interrupted => StreamFate::Closed,
            Some(fault) => StreamFate::Fault(with_names(run, &fault.to_display())),
            None => StreamFate::Well,
        },
        None if run.alive && run.ended.is_none() => StreamFate::Open,
        None => StreamFate::Closed,
    }
}

/// What an agent says of a fault, with the name of the task in the place of `task N`.
fn with_names(run: &Run, text: &str) -> String {
    with_name(text, |number| {
        let task = run.tasks.get(usize::try_from(number).ok()?)?.as_ref()?;
        Some(task.defined.name.to_display())
    })
}

/// A stream of a run that may go on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamState {
    /// As the Rakefile has it.
    pub name: String,
    /// An opening of it has not ended.
    pub is_open: bool,
    /// What was wrong with the opening that ended last.
    pub fault: Option<String>,
    /// Tasks whose stdout goes in.
    pub writers: usize,
    /// Tasks whose stdin comes from it.
    pub readers: usize,
    /// Of the openings that have ended well, as [`StreamSummary::bytes`] counts them.
    pub bytes: u64,
    /// Likewise.
    pub records: u64,
}

impl StreamState {
    /// In a word, or what was wrong.
    pub fn word(&self) -> &str {
        match (&self.fault, self.is_open) {
            (_, true) => "open",
            (Some(fault), false) => fault,
            (None, false) => "ended",
        }
    }
}

/// All streams that have been opened, in the order of their names.
pub fn stream_states(run: &Run) -> Vec<StreamState> {
    let mut states: BTreeMap<String, StreamState> = BTreeMap::new();
    for one in &run.streams {
        for note in &one.opened.streams {
            let name = note.name.to_display();
            let state = states.entry(name.clone()).or_default();
            state.name = name;
            state.is_open = one.ended.is_none();
            let fault = one.ended.as_ref().and_then(|ended| ended.fault.as_ref());
            state.fault = fault.map(|fault| with_names(run, &fault.to_display()));
            (state.writers, state.readers) = (note.writers.len(), note.readers.len());
        }
    }
    let told =
        |stream: &StreamSummary| !matches!(stream.fate, StreamFate::Fault(_) | StreamFate::Closed);
    for summary in streams(run).into_iter().filter(told) {
        if let Some(state) = states.get_mut(&summary.name) {
            (state.bytes, state.records) = (summary.bytes(), summary.records());
        }
    }
    states.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rakuda_proto::journal::{
        JournalEvent, RunEnded, RunOutcome, StreamNote, StreamReroute, StreamsEnded, StreamsOpened,
        StreamsRerouted, TaskDefined,
    };
    use rakuda_proto::streams::{RecordForm, RouteKind, RouteWish, StreamAccount};

    fn side(task: u32, bytes: u64, records: u64, is_special: bool) -> StreamSide {
        let end = StreamEnd::Task(task);
        let account = EndAccount { end, bytes, records, is_special, dropped: 0 };
        StreamSide { task, account: Some(account) }
    }

    #[test]
    fn an_added_newline_counts_and_a_reader_that_left_does_not() {
        let mut stream = StreamSummary {
            writers: vec![side(0, 10, 2, false), side(1, 5, 1, true)],
            readers: vec![side(2, 16, 3, false), side(3, 4, 1, true)],
            ..StreamSummary::default()
        };
        assert!(stream.is_balanced());
        assert!(!stream.is_abandoned());
        stream.readers[0].account.as_mut().unwrap().records = 2;
        assert!(!stream.is_balanced());
        stream.readers[0].account.as_mut().unwrap().is_special = true;
        stream.writers[1].account.as_mut().unwrap().dropped = 7;
        assert!(stream.is_abandoned());
        assert_eq!((stream.bytes(), stream.dropped()), (16, 7));
    }

    fn opened(opening: u32, members: &[u32]) -> JournalEvent {
        JournalEvent::StreamsOpened(StreamsOpened {
            time_ns: i64::from(opening),
            opening,
            node: 0,
            nodes: Vec::new(),
            members: members.to_vec(),
            spooled: false,
            streams: vec![StreamNote {
                name: "s".into(),
                record: RecordForm::Line,
                writers: vec![0],
                readers: vec![1],
                place: "Rakefile:1".into(),
                meta: BTreeMap::new(),
                route: None,
            }],
        })
    }

    fn ended(opening: u32, sides: [&[StreamSide]; 2], fault: Option<&str>) -> JournalEvent {
        let [writers, readers] =
            sides.map(|sides| sides.iter().filter_map(|side| side.account.clone()).collect());
        JournalEvent::StreamsEnded(StreamsEnded {
            time_ns: i64::from(opening),
            opening,
            streams: vec![StreamAccount {
                name: "s".into(),
                writers,
                readers,
                memory_bytes_max: 0,
                spilled_bytes: 0,
                spilled_bytes_max: 0,
                hops: Vec::new(),
            }],
            fault: fault.map(Text::from),
            at_fault: None,
            retried: false,
            interrupted: false,
        })
    }

    fn run(events: impl IntoIterator<Item = JournalEvent>) -> Run {
        let mut run = Run::default();
        for (task, name) in [(0, "a"), (1, "b")] {
            let defined = TaskDefined { task, name: name.into(), ..TaskDefined::default() };
            run.add(JournalEvent::TaskDefined(defined));
        }
        events.into_iter().for_each(|event| run.add(event));
        run
    }

    #[test]
    fn a_stream_has_the_route_that_it_changed_to_last() {
        let route = |route| StreamRoute {
            route,
            wish: RouteWish::Auto,
            lan: 1,
            wan: 1,
            relayed: Vec::new(),
            costs: Vec::new(),
            round_trip_ns: None,
            message_ns: None,
            lan_bytes_per_s: None,
            wan_bytes_per_s: None,
            declared_bytes_per_s: None,
            declared_per_1000_s: None,
            observed_bytes_per_s: None,
            observed_per_1000_s: None,
            in_bursts: false,
        };
        let JournalEvent::StreamsOpened(mut begin) = opened(1, &[0, 1]) else { panic!() };
        begin.streams[0].route = Some(route(RouteKind::Direct));
        let change =
            |name: &str| StreamReroute { name: name.into(), route: route(RouteKind::Relay) };
        let rerouted = StreamsRerouted { time_ns: 2, opening: 1, streams: vec![change("s")] };
        let other = StreamsRerouted { streams: vec![change("t")], ..rerouted.clone() };
        let events = [JournalEvent::StreamsOpened(begin)];
        let changes = [rerouted, other].map(JournalEvent::StreamsRerouted);
        let found = streams(&run(events.into_iter().chain(changes)));
        assert_eq!(found[0].route, Some(route(RouteKind::Relay)));
        assert_eq!(found[0].routes_before, [route(RouteKind::Direct)]);
    }

    #[test]
    fn a_stream_that_failed_or_was_closed_stands_there_and_is_not_balanced() {
        let fault = "stream s: the last record of task 0 has 2 bytes in place of 4";
        let part = [side(0, 2, 0, false)];
        let found = streams(&run([opened(1, &[0, 1]), ended(1, [&part, &[]], Some(fault))]));
        let [stream] = &found[..] else { panic!("{found:?}") };
        let words = "stream s: the last record of task a has 2 bytes in place of 4";
        assert_eq!(stream.fate, StreamFate::Fault(words.to_owned()));
        assert_eq!(
            (&*stream.place, stream.bytes(), stream.is_balanced()),
            ("Rakefile:1", 2, false)
        );
        assert_eq!(stream.readers, [StreamSide { task: 1, account: None }]);

        let mut closed = run([opened(1, &[0, 1])]);
        assert_eq!(streams(&closed)[0].fate, StreamFate::Closed, "the run was killed");
        closed.seen_alive(2);
        assert_eq!(streams(&closed)[0].fate, StreamFate::Open);
        closed.add(JournalEvent::RunEnded(RunEnded {
            time_ns: 2,
            how: RunOutcome::Failed,
            executed: 0,
            done: None,
            not_needed: 0,
            failed: 1,
            abandoned: 0,
            metadata_operations: None,
            run_file_system_operations: None,
        }));
        let stream = streams(&closed).remove(0);
        assert_eq!((stream.fate.clone(), stream.is_balanced()), (StreamFate::Closed, false));
    }

    #[test]
    fn an_opening_that_ended_well_makes_good_one_that_did_not_and_no_other_does() {
        let (written, read) = ([side(0, 8, 2, false)], [side(1, 8, 2, false)]);
        let again = [
            opened(1, &[0, 1]),
            ended(1, [&written, &[]], Some("a connection broke")),
            opened(2, &[0, 1]),
            ended(2, [&written, &read], None),
        ];
        assert!(streams(&run(again.clone()))[0].is_balanced());
        // Over spools: the writer alone has a part in the first opening.
        let spooled = [opened(1, &[0]), ended(1, [&written, &[]], None)];
        let half = streams(&run(spooled.clone())).remove(0);
        assert_eq!(
            (half.fate.clone(), half.is_balanced(), half.bytes()),
            (StreamFate::Well, false, 8)
        );
        let rest = [opened(2, &[1]), ended(2, [&[], &read], None)];
        assert!(streams(&run(spooled.into_iter().chain(rest)))[0].is_balanced());
        // And what had ended well before the last attempt does not count.
        let last = again.into_iter().chain([opened(3, &[0, 1])]);
        let mut going_on = run(last);
        going_on.seen_alive(9);
        let stream = streams(&going_on).remove(0);
        assert_eq!((stream.fate.clone(), stream.bytes()), (StreamFate::Open, 0));
    }
}
