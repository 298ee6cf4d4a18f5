//! Packets of a trace: tracks, slices, instants and counters, with strings that repeat sent once.
//!
//! It knows Perfetto's messages and their field numbers, and nothing of runs.

use std::collections::HashMap;
use std::io::{self, Write};

use crate::export::protobuf::Message;

/// All packets are of one sequence, whose strings they share.
const SEQUENCE: u64 = 1;
/// `BUILTIN_CLOCK_REALTIME` and `BUILTIN_CLOCK_BOOTTIME`; the latter is what time stamps are read as.
const CLOCKS: [u64; 2] = [1, 6];

/// What a slice or an instant is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Category {
    Task = 1,
    Command,
    MoreCores,
    Failure,
}

impl Category {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Task, "task"),
        (Self::Command, "command"),
        (Self::MoreCores, "more_cores"),
        (Self::Failure, "failure"),
    ];
}

/// `TrackEvent.Type`.
#[derive(Clone, Copy)]
enum Kind {
    SliceBegin = 1,
    SliceEnd = 2,
    Instant = 3,
    Counter = 4,
}

/// Where a slice begins, or an instant is.
pub(super) struct Event<'a> {
    pub track: u64,
    pub category: Category,
    pub name: &'a str,
    /// Flows that go out from it.
    pub flows: &'a [u64],
    /// Flows that end at it.
    pub ending_flows: &'a [u64],
}

impl<'a> Event<'a> {
    /// Without flows; its track is to be set.
    pub(super) fn plain(category: Category, name: &'a str) -> Self {
        Self { track: 0, category, name, flows: &[], ending_flows: &[] }
    }
}

enum Value {
    Number(u64),
    /// Sent as it is.
    Text(String),
    /// Sent once, and referred to after that.
    Interned(String),
}

/// What is known of a slice.
#[derive(Default)]
pub(super) struct Annotations {
    list: Vec<(&'static str, Value)>,
}

impl Annotations {
    pub(super) fn number(&mut self, name: &'static str, value: u64) {
        self.list.push((name, Value::Number(value)));
    }

    pub(super) fn text(&mut self, name: &'static str, value: String) {
        self.list.push((name, Value::Text(value)));
    }

    pub(super) fn interned(&mut self, name: &'static str, value: String) {
        self.list.push((name, Value::Interned(value)));
    }
}

/// Strings by number, from 1.
#[derive(Default)]
struct Interned {
    numbers: HashMap<String, u64>,
}

impl Interned {
    /// The number, and whether it is new.
    fn number(&mut self, text: &str) -> (u64, bool) {
        if let Some(number) = self.numbers.get(text) {
            return (*number, false);
        }
        let number = self.numbers.len() as u64 + 1;
        self.numbers.insert(text.to_owned(), number);
        (number, true)
    }
}

/// A trace that is being written.
pub(super) struct Trace<W: Write> {
    out: W,
    tracks: u64,
    names: Interned,
    values: Interned,
    command_names: Interned,
}

impl<W: Write> Trace<W> {
    pub(super) fn new(out: W) -> Self {
        Self {
            out,
            tracks: 0,
            names: Interned::default(),
            values: Interned::default(),
            command_names: Interned::default(),
        }
    }

    /// The first packet: the sequence's state is empty, and time stamps are ns since 1970.
    pub(super) fn begin(&mut self, time_ns: i64) -> io::Result<()> {
        let mut snapshot = Message::default();
        for clock in CLOCKS {
            let mut reading = Message::default();
            reading.number(1, clock).signed(2, time_ns);
            snapshot.message(1, &reading);
        }
        let mut interned = Message::default();
        for (category, name) in Category::ALL {
            let mut entry = Message::default();
            entry.number(1, category as u64).text(2, name);
            interned.message(1, &entry);
        }
        let mut packet = Message::default();
        packet.signed(8, time_ns).number(10, SEQUENCE).number(13, 1).number(87, 1);
        packet.message(6, &snapshot).message(12, &interned);
        self.write(&packet)
    }

    /// A track to draw on, below another one; tracks of one parent are shown in order of rank.
    pub(super) fn track(&mut self, parent: Option<u64>, name: &str, rank: u64) -> io::Result<u64> {
        let (uuid, mut descriptor) = self.descriptor(parent, name, rank);
        // CHILD_TRACKS_ORDERING_EXPLICIT
        descriptor.number(11, 3);
        self.write_descriptor(&descriptor)?;
        Ok(uuid)
    }

    /// A track of numbers.
    pub(super) fn counter(
        &mut self,
        parent: Option<u64>,
        name: &str,
        rank: u64,
    ) -> io::Result<u64> {
        let (uuid, mut descriptor) = self.descriptor(parent, name, rank);
        let mut counter = Message::default();
        counter.text(6, "tasks");
        descriptor.message(8, &counter);
        self.write_descriptor(&descriptor)?;
        Ok(uuid)
    }

    fn descriptor(&mut self, parent: Option<u64>, name: &str, rank: u64) -> (u64, Message) {
        self.tracks += 1;
        let mut descriptor = Message::default();
        descriptor.number(1, self.tracks).text(2, name).number(12, rank);
        if let Some(parent) = parent {
            descriptor.number(5, parent);
        }
        (self.tracks, descriptor)
    }

    fn write_descriptor(&mut self, descriptor: &Message) -> io::Result<()> {
        let mut packet = Message::default();
        packet.number(10, SEQUENCE).message(60, descriptor);
        self.write(&packet)
    }

    pub(super) fn begin_slice(
        &mut self,
        time_ns: i64,
        event: &Event<'_>,
        annotations: &Annotations,
    ) -> io::Result<()> {
        self.event(time_ns, Kind::SliceBegin, event, annotations)
    }

    pub(super) fn instant(
        &mut self,
        time_ns: i64,
        event: &Event<'_>,
        annotations: &Annotations,
    ) -> io::Result<()> {
        self.event(time_ns, Kind::Instant, event, annotations)
    }

    pub(super) fn end_slice(&mut self, time_ns: i64, track: u64) -> io::Result<()> {
        let mut body = Message::default();
        body.number(9, Kind::SliceEnd as u64).number(11, track);
        self.packet(time_ns, &body, &Message::default())
    }

    pub(super) fn count(&mut self, time_ns: i64, track: u64, value: i64) -> io::Result<()> {
        let mut body = Message::default();
        body.number(9, Kind::Counter as u64).number(11, track).signed(30, value);
        self.packet(time_ns, &body, &Message::default())
    }

    fn event(
        &mut self,
        time_ns: i64,
        kind: Kind,
        event: &Event<'_>,
        annotations: &Annotations,
    ) -> io::Result<()> {
        let mut new = Message::default();
        let mut body = Message::default();
        body.number(9, kind as u64).number(11, event.track);
        body.number(3, event.category as u64);
        if event.category == Category::Command {
            let number = intern(&mut self.command_names, event.name, 2, &mut new);
            body.number(10, number);
        } else {
            body.text(23, event.name);
        }
        for flow in event.flows {
            body.fixed(47, *flow);
        }
        for flow in event.ending_flows {
            body.fixed(48, *flow);
        }
        for (name, value) in &annotations.list {
            let mut annotation = Message::default();
            annotation.number(1, intern(&mut self.names, name, 3, &mut new));
            match value {
                Value::Number(number) => annotation.number(3, *number),
                Value::Text(text) => annotation.text(6, text),
                Value::Interned(text) => {
                    annotation.number(17, intern(&mut self.values, text, 29, &mut new))
                }
            };
            body.message(4, &annotation);
        }
        self.packet(time_ns, &body, &new)
    }

    fn packet(&mut self, time_ns: i64, event: &Message, interned: &Message) -> io::Result<()> {
        let mut packet = Message::default();
        // SEQ_NEEDS_INCREMENTAL_STATE: it may refer to strings sent before.
        packet.signed(8, time_ns).number(10, SEQUENCE).number(13, 2);
        if !interned.bytes().is_empty() {
            packet.message(12, interned);
        }
        packet.message(11, event);
        self.write(&packet)
    }

    fn write(&mut self, packet: &Message) -> io::Result<()> {
        let mut framed = Message::default();
        framed.message(1, packet);
        self.out.write_all(framed.bytes())
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The number of a string; a new one is added to `InternedData`, whose field for such strings is given.
fn intern(strings: &mut Interned, text: &str, field: u32, new: &mut Message) -> u64 {
    let (number, is_new) = strings.number(text);
    if is_new {
        let mut entry = Message::default();
        entry.number(1, number).text(2, text);
        new.message(field, &entry);
    }
    number
}
