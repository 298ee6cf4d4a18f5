//! One stream against a naive model: whatever the chunks in which bytes come and go, whoever stalls
//! or leaves, nothing is lost, mixed or split, all readers see one order, and memory is bounded.

mod spills;

use proptest::prelude::*;
use proptest::test_runner::Config as RunnerConfig;
use rakuda_core::streams::{
    Account, CARRY_BYTES_MAX, Fault, Flow, FlowSettings, OnClose, READ_BYTES, ReaderState,
    RecordKind, WINDOW_BYTES_MIN,
};
use spills::Log;

/// A small generator, so that one number decides a life.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound.max(1)
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }
}

/// What a writer will print, and how much of it has been read.
struct Source {
    bytes: Vec<u8>,
    records: Vec<Vec<u8>>,
    read: usize,
    closed: bool,
}

/// Sizes of records: mostly short, sometimes longer than what is kept whole.
fn source(dice: &mut Dice, kind: RecordKind, writer: usize, long: bool) -> Source {
    let mut records = Vec::new();
    for number in 0..=dice.below(60) {
        let size = match (kind, dice.below(40)) {
            (RecordKind::Fixed(size), _) => size as usize,
            (_, 0) if long => CARRY_BYTES_MAX - 2 + dice.below(CARRY_BYTES_MAX / 2),
            (_, 1..=4) => dice.below(3 * READ_BYTES / 2),
            (_, 5..=15) => dice.below(5_000),
            _ => dice.below(80),
        };
        let fill = b'a' + u8::try_from((writer * 7 + number) % 26).unwrap();
        let mut record = vec![fill; size.max(1)];
        // Whose it is can be told from its first byte.
        record[0] = b'A' + u8::try_from(writer).unwrap();
        if let Some(separator) = kind.separator() {
            record.push(separator);
        }
        records.push(record);
    }
    if kind.separator().is_some() && dice.one_in(2) {
        let last = records.last_mut().unwrap();
        last.pop();
    }
    let bytes = records.concat();
    if let Some(separator) = kind.separator() {
        let last = records.last_mut().unwrap();
        if last.last() != Some(&separator) {
            last.push(separator);
        }
    }
    Source { bytes, records, read: 0, closed: false }
}

/// Moves some bytes of a writer; whether there were any to be moved.
fn read(flow: &mut Flow, dice: &mut Dice, writer: usize, source: &mut Source) -> bool {
    if source.read == source.bytes.len() || !flow.wants(writer) {
        return false;
    }
    let space = flow.space(writer);
    let spare = space.capacity() - space.len();
    assert!(spare > 0, "a writer that is wanted has space");
    let left = &source.bytes[source.read..];
    let most = if dice.one_in(3) { 1 + dice.below(100) } else { READ_BYTES };
    let bytes = left.len().min(spare).min(most);
    space.extend_from_slice(&left[..bytes]);
    flow.on_read(writer, bytes);
    source.read += bytes;
    true
}

/// Moves some bytes to a reader.
fn write(flow: &mut Flow, dice: &mut Dice, reader: usize, sink: &mut Vec<u8>) -> bool {
    let Some(piece) = flow.pending(reader).next() else { return false };
    let bytes = if dice.one_in(3) { 1 + dice.below(piece.len()) } else { piece.len() };
    sink.extend_from_slice(&piece[..bytes]);
    flow.on_written(reader, bytes);
    true
}

/// What is in `sink` is a merge of the records, each writer's in its order; those that are there in part are the last.
fn check_merge(sources: &[Source], sink: &[u8], complete: bool) {
    let mut next = vec![0; sources.len()];
    let mut rest = sink;
    while !rest.is_empty() {
        let whole = (0..sources.len()).find(|writer| {
            let record = sources[*writer].records.get(next[*writer]);
            record.is_some_and(|record| rest.starts_with(record))
        });
        let Some(writer) = whole else {
            let cut = |writer: usize| {
                let record = sources[writer].records.get(next[writer]);
                record.is_some_and(|record| record.starts_with(rest))
            };
            assert!(!complete && (0..sources.len()).any(cut), "a record was split or mixed");
            return;
        };
        rest = &rest[sources[writer].records[next[writer]].len()..];
        next[writer] += 1;
    }
    let all = next.iter().zip(sources).all(|(next, source)| *next == source.records.len());
    assert!(!complete || all, "records are missing");
}

struct Life {
    kind: RecordKind,
    writers: usize,
    readers: usize,
    /// Some readers leave before the end.
    leaves: bool,
    long: bool,
    on_close: OnClose,
    /// Maximum bytes that may be spilled.
    spill: Option<usize>,
}

/// Lives one stream; bytes that were spilled.
fn live(seed: u64, life: &Life) -> usize {
    let dice = &mut Dice(seed);
    let window = WINDOW_BYTES_MIN + dice.below(1 << 20);
    let spills = life.spill.is_some();
    let (record, on_close) = (life.kind, life.on_close);
    let settings = FlowSettings { record, window, on_close, spills, in_turn: false };
    let mut log = Log {
        next: vec![None; life.readers],
        bytes_max: life.spill.unwrap_or_default(),
        ..Log::default()
    };
    let mut flow = Flow::new(settings, life.writers, life.readers);
    let mut sources: Vec<Source> =
        (0..life.writers).map(|writer| source(dice, life.kind, writer, life.long)).collect();
    let mut sinks = vec![Vec::new(); life.readers];
    let loaded = if spills { life.readers * CARRY_BYTES_MAX } else { 0 };
    let bound = window + life.writers * CARRY_BYTES_MAX + 16 * READ_BYTES + loaded;
    let mut idle = 0;
    // A reader that sleeps: nobody else may lose or hold more because of it.
    let mut sleeper = dice.one_in(2).then(|| dice.below(life.readers));
    while !flow.is_over() {
        idle += 1;
        let (writer, reader) = (dice.below(life.writers), dice.below(life.readers));
        if read(&mut flow, dice, writer, &mut sources[writer]) {
            idle = 0;
        }
        let one = &mut sources[writer];
        let broken = flow.breaks_pipes();
        if !one.closed && (one.read == one.bytes.len() || broken) {
            one.closed = true;
            if dice.one_in(2) {
                flow.on_writer_ended(writer, true);
                flow.on_writer_closed(writer);
            } else {
                flow.on_writer_closed(writer);
                assert!(!flow.is_over() || broken, "it is not known how a writer ended");
                flow.on_writer_ended(writer, true);
            }
            idle = 0;
        }
        if spills && log.take_from(&mut flow) {
            idle = 0;
        }
        assert!(log.held() <= log.bytes_max, "{} are spilled", log.held());
        if sleeper != Some(reader) {
            log.give_to(&mut flow, reader);
            if write(&mut flow, dice, reader, &mut sinks[reader]) {
                idle = 0;
            }
        }
        if life.leaves && dice.one_in(200) {
            flow.on_reader_left(reader);
        }
        assert!(flow.memory_bytes() <= bound, "{} > {bound}", flow.memory_bytes());
        if idle > 2_000 {
            assert!(sleeper.take().is_some(), "nothing moves, and nobody sleeps");
            idle = 0;
        }
    }
    for (reader, sink) in sinks.iter().enumerate() {
        let complete = flow.reader_state(reader) == ReaderState::AtEnd;
        check_merge(&sources, sink, complete);
        let account = flow.read(reader);
        assert_eq!(account.bytes, sink.len() as u64);
        assert_eq!(account.records, life.kind.count(sink, 0));
        assert_eq!(account.is_special, !complete);
        for other in &sinks[..reader] {
            let both = sink.len().min(other.len());
            assert!(sink[..both] == other[..both], "readers see different orders");
        }
    }
    assert_eq!(flow.faults(), []);
    log.total
}

fn kind(number: usize) -> RecordKind {
    match number {
        0 => RecordKind::Nul,
        1 => RecordKind::Fixed(37),
        2 => RecordKind::Fixed(200_000),
        _ => RecordKind::Line,
    }
}

proptest! {
    #![proptest_config(RunnerConfig { cases: 200, failure_persistence: None, ..RunnerConfig::default() })]

    #[test]
    fn nothing_is_lost_mixed_or_split(
        seed in any::<u64>(), writers in 1_usize..6, readers in 1_usize..4, number in 0_usize..6,
        leaves in any::<bool>(), drain in any::<bool>(),
    ) {
        let on_close = if drain { OnClose::Drain } else { OnClose::Sigpipe };
        live(seed, &Life { kind: kind(number), writers, readers, leaves, long: false, on_close, spill: None });
    }
}

proptest! {
    #![proptest_config(RunnerConfig { cases: 24, failure_persistence: None, ..RunnerConfig::default() })]

    #[test]
    fn records_over_a_megabyte_pass_whole(
        seed in any::<u64>(), writers in 1_usize..4, readers in 1_usize..3, number in 3_usize..4,
    ) {
        let life = Life {
            kind: kind(number), writers, readers, leaves: false, long: true, on_close: OnClose::Drain,
            spill: None,
        };
        live(seed, &life);
    }
}

proptest! {
    #![proptest_config(RunnerConfig { cases: 100, failure_persistence: None, ..RunnerConfig::default() })]

    #[test]
    fn what_is_spilled_comes_back_whole_in_order_and_within_its_cap(
        seed in any::<u64>(), writers in 1_usize..5, readers in 2_usize..5, number in 0_usize..6,
        leaves in any::<bool>(), cap in 0_usize..(8 << 20),
    ) {
        let life = Life {
            kind: kind(number), writers, readers, leaves, long: number > 3, on_close: OnClose::Drain,
            spill: Some(cap),
        };
        live(seed, &life);
    }
}

#[test]
fn lives_of_streams_that_spill_do_spill() {
    let life = |seed| {
        let kind = RecordKind::Fixed(200_000);
        let spill = Some(64 << 20);
        let life = Life {
            kind,
            writers: 4,
            readers: 2,
            leaves: false,
            long: false,
            on_close: OnClose::Drain,
            spill,
        };
        live(seed, &life)
    };
    assert!((0..8).map(life).sum::<usize>() > 1 << 20);
}

fn feed(flow: &mut Flow, writer: usize, bytes: &[u8]) {
    flow.space(writer).extend_from_slice(bytes);
    flow.on_read(writer, bytes.len());
}

fn drink(flow: &mut Flow, reader: usize) -> Vec<u8> {
    let all: Vec<u8> = flow.pending(reader).flatten().copied().collect();
    let mut left = all.len();
    while left > 0 {
        let piece = flow.pending(reader).next().map_or(0, <[u8]>::len);
        flow.on_written(reader, piece);
        left -= piece;
    }
    all
}

#[test]
fn a_writer_that_fails_never_yields_an_end() {
    let mut flow = Flow::new(FlowSettings::default(), 2, 1);
    feed(&mut flow, 0, b"whole\nhalf");
    assert_eq!(drink(&mut flow, 0), b"whole\n");
    flow.on_writer_ended(0, false);
    flow.on_writer_closed(0);
    flow.on_writer_closed(1);
    flow.on_writer_ended(1, true);
    assert!(flow.is_aborted() && !flow.is_over());
    assert_eq!(flow.reader_state(0), ReaderState::Open);
}

#[test]
fn the_end_waits_for_grandchildren_and_for_how_the_writer_ended() {
    let mut flow = Flow::new(FlowSettings::default(), 1, 1);
    flow.on_writer_ended(0, true);
    assert_eq!(flow.reader_state(0), ReaderState::Open);
    feed(&mut flow, 0, b"from a grandchild\n");
    flow.on_writer_closed(0);
    assert_eq!(flow.reader_state(0), ReaderState::Open);
    assert_eq!(drink(&mut flow, 0), b"from a grandchild\n");
    assert_eq!(flow.reader_state(0), ReaderState::AtEnd);
    assert!(flow.is_over());
}

#[test]
fn a_reader_elsewhere_that_leaves_after_the_end_has_not_taken_all() {
    let mut flow = Flow::new(FlowSettings::default(), 1, 1);
    feed(&mut flow, 0, b"a\n");
    flow.on_writer_closed(0);
    flow.on_writer_ended(0, true);
    drink(&mut flow, 0);
    // Its command ends.
    flow.on_reader_left(0);
    assert!(flow.is_over() && !flow.read(0).is_special);
    flow.on_reader_elsewhere_left(0);
    assert_eq!(flow.reader_state(0), ReaderState::AtEnd);
    assert!(flow.is_over() && flow.read(0).is_special);
}

#[test]
fn readers_are_at_their_end_when_the_one_leaves_for_whom_the_last_writer_waited() {
    let settings = FlowSettings { window: WINDOW_BYTES_MIN, ..FlowSettings::default() };
    let mut flow = Flow::new(settings, 1, 2);
    while flow.wants(0) {
        feed(&mut flow, 0, b"some line\n");
    }
    flow.on_writer_closed(0);
    flow.on_writer_ended(0, true);
    drink(&mut flow, 0);
    // All that was written is read; that it is all is not known while there is no room.
    assert_eq!(flow.reader_state(0), ReaderState::Open);
    flow.on_reader_left(1);
    assert_eq!(flow.reader_state(0), ReaderState::AtEnd);
    assert!(flow.is_over());
}

#[test]
fn a_last_record_without_newline_gets_one_and_a_torn_one_is_a_fault() {
    let mut flow = Flow::new(FlowSettings::default(), 1, 1);
    feed(&mut flow, 0, b"a\nb");
    flow.on_writer_closed(0);
    flow.on_writer_ended(0, true);
    assert_eq!(drink(&mut flow, 0), b"a\nb\n");
    assert!(flow.is_over() && flow.written(0).is_special);
    assert_eq!((flow.written(0).bytes, flow.written(0).records, flow.read(0).bytes), (3, 2, 4));

    let settings = FlowSettings { record: RecordKind::Fixed(4), ..FlowSettings::default() };
    let mut flow = Flow::new(settings, 1, 1);
    feed(&mut flow, 0, b"abcdef");
    flow.on_writer_closed(0);
    flow.on_writer_ended(0, true);
    assert_eq!(drink(&mut flow, 0), b"abcd");
    assert_eq!(flow.faults(), [Fault::Torn { writer: 0, bytes: 2 }]);
    assert!(!flow.is_over());
}

#[test]
fn a_torn_record_is_a_fault_of_whoever_has_ended_well_and_of_no_other() {
    let settings = FlowSettings { record: RecordKind::Fixed(4), ..FlowSettings::default() };
    let torn = [Fault::Torn { writer: 0, bytes: 2 }];
    // In either order it is known when both are.
    for closed_first in [true, false] {
        let mut flow = Flow::new(settings, 2, 1);
        feed(&mut flow, 0, b"abcdef");
        if closed_first {
            flow.on_writer_closed(0);
        } else {
            flow.on_writer_ended(0, true);
        }
        assert_eq!((flow.faults(), flow.is_aborted()), (&[][..], false));
        feed(&mut flow, 1, b"1234");
        assert_eq!(drink(&mut flow, 0), b"abcd1234", "others go on meanwhile");
        if closed_first {
            flow.on_writer_ended(0, true);
        } else {
            flow.on_writer_closed(0);
        }
        assert_eq!(flow.faults(), torn);
    }
    let mut flow = Flow::new(settings, 1, 1);
    feed(&mut flow, 0, b"abcdef");
    flow.on_writer_closed(0);
    flow.on_writer_ended(0, false);
    assert!(flow.faults().is_empty() && flow.is_aborted());
}

#[test]
fn a_long_record_that_is_torn_lets_others_go_on_when_its_writer_has_ended() {
    let settings = FlowSettings { record: RecordKind::Fixed(4 << 20), ..FlowSettings::default() };
    let mut flow = Flow::new(settings, 1, 1);
    for _ in 0..48 {
        feed(&mut flow, 0, &vec![b'x'; 64 << 10]);
        drink(&mut flow, 0);
    }
    flow.on_writer_closed(0);
    assert!(flow.faults().is_empty());
    flow.on_writer_ended(0, true);
    assert_eq!(flow.faults(), [Fault::Torn { writer: 0, bytes: 3 << 20 }]);
}

#[test]
fn what_a_reader_has_got_so_far_counts_with_whole_records() {
    let mut flow = Flow::new(FlowSettings::default(), 1, 2);
    feed(&mut flow, 0, b"a\nbc\nd\n");
    flow.on_written(0, 4);
    let so_far = |flow: &Flow, reader| {
        let account = flow.read_so_far(reader);
        (account.bytes, account.records)
    };
    assert_eq!((so_far(&flow, 0), so_far(&flow, 1)), ((4, 1), (0, 0)));
    flow.on_reader_left(0);
    assert_eq!(so_far(&flow, 0), (4, 1), "it is counted once");
    drink(&mut flow, 1);
    assert_eq!(so_far(&flow, 1), (7, 3));
}

#[test]
fn a_stalled_reader_stops_its_writers_and_nothing_else() {
    let mut flow = Flow::new(FlowSettings::default(), 2, 2);
    let line = [&[b'x'; 999][..], b"\n"].concat();
    let mut fed = [0_usize; 2];
    while let Some(writer) = (0..2).find(|writer| flow.wants(*writer)) {
        feed(&mut flow, writer, &line);
        fed[writer] += line.len();
        drink(&mut flow, 0);
    }
    assert!(flow.is_full());
    assert_eq!(flow.read(0).bytes, (fed[0] + fed[1]) as u64);
    assert_eq!(drink(&mut flow, 1).len(), fed[0] + fed[1]);
    assert!(!flow.is_full() && flow.wants(0) && flow.wants(1));
}

/// Reads all of a writer, to its end, as the shell does.
fn read_all(flow: &mut Flow, writer: usize, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        assert!(flow.wants(writer));
        let space = flow.space(writer);
        let some = bytes.len().min(space.capacity() - space.len());
        space.extend_from_slice(&bytes[..some]);
        flow.on_read(writer, some);
        bytes = &bytes[some..];
    }
    assert!(flow.wants(writer));
    flow.space(writer);
    flow.on_writer_closed(writer);
    flow.on_writer_ended(writer, true);
}

#[test]
fn a_writer_whose_turn_is_later_waits_until_the_last_record_before_it_has_found_room() {
    let line = [&b"x".repeat(READ_BYTES - 1)[..], b"\n"].concat();
    let first = [line.repeat(13), b"z".repeat(2 * READ_BYTES)].concat();
    for in_turn in [true, false] {
        let settings =
            FlowSettings { window: WINDOW_BYTES_MIN, in_turn, ..FlowSettings::default() };
        let mut flow = Flow::new(settings, 2, 1);
        // The last record fills its buffer: with the larger one that its end is read into it has no room.
        read_all(&mut flow, 0, &first);
        assert_eq!(flow.wants(1), !in_turn);
        let mut got = drink(&mut flow, 0);
        assert!(got == line.repeat(13) && flow.wants(1));
        read_all(&mut flow, 1, b"next\n");
        got.extend(drink(&mut flow, 0));
        assert!(got == [&first[..], b"\nnext\n"].concat() && flow.is_over());
    }
}

/// Two readers, of which the second does not read; what the first has got, and what is spilled.
fn feed_and_spill(flow: &mut Flow, log: &mut Log, bytes: usize) -> usize {
    let line = [&[b'x'; 999][..], b"\n"].concat();
    let mut fed = 0;
    while fed < bytes {
        log.take_from(flow);
        if !flow.wants(0) {
            break;
        }
        feed(flow, 0, &line);
        fed += line.len();
        drink(flow, 0);
    }
    fed
}

#[test]
fn a_slow_reader_whose_rest_is_spilled_holds_up_nobody_until_the_cap() {
    let settings = FlowSettings { spills: true, ..FlowSettings::default() };
    let mut flow = Flow::new(settings, 1, 2);
    let mut log = Log { next: vec![None; 2], bytes_max: 20 << 20, ..Log::default() };
    let fed = feed_and_spill(&mut flow, &mut log, usize::MAX);
    assert!(flow.is_full() && flow.to_spill().is_none());
    // The window and the cap, as far as whole pieces fit.
    assert!((23 << 20..25 << 20).contains(&fed), "{fed}");
    assert_eq!(flow.read(0).bytes, fed as u64);
    assert!(!flow.is_behind(0) && flow.wants_load(1) && flow.has_pending(1));
    let mut got = 0;
    while got < fed {
        log.give_to(&mut flow, 1);
        let piece = drink(&mut flow, 1).len();
        assert!(piece > 0);
        got += piece;
    }
    assert!(!flow.is_behind(1) && flow.wants(0));
    flow.on_writer_closed(0);
    flow.on_writer_ended(0, true);
    assert!(flow.is_over());
    assert_eq!((flow.faults(), flow.read(1).records), (&[][..], fed as u64 / 1_000));
}

#[test]
fn one_reader_alone_has_nobody_to_hold_up_and_spills_nothing() {
    let settings = FlowSettings { spills: true, ..FlowSettings::default() };
    let mut flow = Flow::new(settings, 1, 1);
    let line = [&[b'x'; 999][..], b"\n"].concat();
    while flow.wants(0) {
        feed(&mut flow, 0, &line);
    }
    assert!(flow.is_full() && flow.to_spill().is_none());
}

#[test]
fn a_reader_that_leaves_within_what_was_spilled_has_counted_its_records() {
    for loads in [false, true] {
        let settings = FlowSettings { spills: true, ..FlowSettings::default() };
        let mut flow = Flow::new(settings, 1, 2);
        let mut log = Log { next: vec![None; 2], bytes_max: 20 << 20, ..Log::default() };
        feed(&mut flow, 0, b"1\n2\n3\n");
        flow.on_written(1, 3);
        feed_and_spill(&mut flow, &mut log, 8 << 20);
        assert!(flow.wants_load(1));
        if loads {
            log.give_to(&mut flow, 1);
            assert!(flow.pending(1).next().is_some_and(|piece| piece.starts_with(b"\n3\n")));
            flow.on_written(1, 2);
        }
        flow.on_reader_left(1);
        let expected = if loads { (5, 2) } else { (3, 1) };
        assert_eq!((flow.read(1).bytes, flow.read(1).records), expected);
        assert!(!flow.is_behind(1) && flow.wants(0));
    }
}

#[test]
fn writers_hear_that_all_readers_have_left() {
    let mut flow = Flow::new(FlowSettings::default(), 1, 2);
    feed(&mut flow, 0, b"1\n2\n3\n");
    flow.on_written(0, 3);
    flow.on_reader_left(0);
    assert!(!flow.breaks_pipes() && flow.wants(0));
    flow.on_reader_left(1);
    assert!(flow.breaks_pipes() && !flow.wants(0));
    assert_eq!((flow.read(0).bytes, flow.read(0).records), (3, 1));
    flow.on_writer_closed(0);
    flow.on_writer_ended(0, true);
    assert!(flow.is_over());
    assert_eq!(flow.faults(), []);

    let settings = FlowSettings { on_close: OnClose::Drain, ..FlowSettings::default() };
    let mut flow = Flow::new(settings, 1, 1);
    flow.on_reader_left(0);
    assert!(!flow.breaks_pipes() && flow.wants(0));
    feed(&mut flow, 0, b"1\n2");
    // What went in and what was dropped are two things, in bytes and in records.
    assert_eq!(flow.written(0), Account { dropped: 3, ..Account::default() });

    let mut flow = Flow::new(settings, 1, 1);
    feed(&mut flow, 0, b"1\n2");
    flow.on_reader_left(0);
    feed(&mut flow, 0, b"3\n");
    let in_it = Account { bytes: 2, records: 1, dropped: 3, ..Account::default() };
    assert_eq!(flow.written(0), in_it);
}
