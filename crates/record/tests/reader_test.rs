//! The reader against damage of all kinds: whatever the bytes, it does not panic, and what stands
//! before the damage is read.

use std::io::{BufReader, Cursor};

use proptest::prelude::*;
use rakuda_proto::journal::{JournalEvent, Outcome, StopRequested};
use rakuda_record::Run;
use rakuda_record::reader::{LINE_BYTES_MAX, ReadError, Skipped, Wanted, read_events, read_wanted};
use rakuda_record::story::story;
use rakuda_record::unfinished::{Unfinished, last_event};
use rakuda_record::why::why;

const JOURNAL: &str = concat!(
    r#"{"event":"run_started","version":2,"time_ns":1,"run":"r"}"#,
    "\n",
    r#"{"event":"node_joined","time_ns":2,"node":0,"name":"n","cores":2,"memory_bytes":9}"#,
    "\n",
    r#"{"event":"invocation_started","time_ns":2,"invocation":0,"tasks":["b"]}"#,
    "\n",
    r#"{"event":"rule_defined","rule":0,"location":"Rakefile:1"}"#,
    "\n",
    r#"{"event":"task_defined","task":0,"name":[98,255],"kind":"file","rule":0,"action":true}"#,
    "\n",
    r#"{"event":"task_defined","task":1,"name":"b","kind":"file","prerequisites":[0],"action":true}"#,
    "\n",
    r#"{"event":"attempt_started","time_ns":3,"task":0,"attempt":1,"node":0,"cores":1}"#,
    "\n",
    r#"{"event":"command_started","time_ns":4,"command":0,"task":0,"words":["cc","a.c"]}"#,
    "\n",
    r#"{"event":"command_ended","time_ns":5,"command":0,"status":0,"wall_ns":1}"#,
    "\n",
    r#"{"event":"attempt_ended","time_ns":6,"task":0,"outcome":"done"}"#,
    "\n",
    r#"{"event":"attempt_started","time_ns":7,"task":1,"attempt":1,"node":0,"cores":1}"#,
    "\n",
);

fn read(bytes: &[u8]) -> (Vec<JournalEvent>, Skipped) {
    let mut events = Vec::new();
    // A small buffer, so that lines are put together from pieces.
    let journal = BufReader::with_capacity(64, Cursor::new(bytes));
    let skipped = read_events(journal, |event| events.push(event)).unwrap();
    (events, skipped)
}

#[test]
fn whole_journal_is_read_without_complaints() {
    let (events, skipped) = read(JOURNAL.as_bytes());
    assert_eq!(events.len(), 11);
    assert_eq!(skipped, Skipped::default());
}

#[test]
fn name_of_an_event_may_stand_anywhere_in_its_line() {
    let (events, skipped) =
        read(b"{\"time_ns\":3, \"how\":\"kill\", \"event\":\"stop_requested\"}\n");
    let stop = StopRequested { time_ns: 3, how: "kill".into() };
    assert_eq!(events, [JournalEvent::StopRequested(stop)]);
    assert_eq!(skipped, Skipped::default());
}

#[test]
fn unknown_events_and_damaged_lines_are_counted_apart() {
    let bytes = b"{\"event\":\"task_dreamt\",\"task\":1}\n{\"event\":\"task_dreamt\n\
        {\"event\":\"node_lost\",\"node\":1}\nnothing\n\n{\"event\":\"run_ended\",\"time_ns\":1,\"how\":\"done\"}\n{\"ev";
    let (events, skipped) = read(bytes);
    assert_eq!(events.len(), 1);
    assert_eq!(skipped, Skipped { torn: true, damaged: 3, unknown: 1 });
}

#[test]
fn line_without_end_is_skipped_and_does_not_fill_memory() {
    let mut bytes = vec![b'x'; LINE_BYTES_MAX + 2];
    bytes.push(b'\n');
    bytes.extend_from_slice(JOURNAL.as_bytes());
    let (events, skipped) = read(&bytes);
    assert_eq!(events.len(), 11);
    assert_eq!(skipped.damaged, 1);
}

#[test]
fn journals_of_other_versions_are_refused() {
    for version in [1, 3, 77] {
        let first = format!("{{\"event\":\"run_started\",\"version\":{version}}}\n");
        let error = Run::read(first.as_bytes()).unwrap_err();
        assert!(matches!(error, ReadError::Version { found } if found == version));
    }
}

#[test]
fn offsets_are_those_of_lines() {
    let wanted = Wanted::ATTEMPT_STARTED.and(Wanted::RULE_DEFINED);
    let mut lines = Vec::new();
    let skipped = read_wanted(JOURNAL.as_bytes(), wanted, |_, offset| {
        lines.push(JOURNAL[usize::try_from(offset).unwrap()..].lines().next().unwrap());
    });
    assert_eq!(skipped.unwrap(), Skipped::default());
    assert!(lines[0].contains("rule_defined"));
    assert!(lines[1].contains("attempt_started") && lines[2].contains("attempt_started"));
    assert_eq!(lines.len(), 3);
}

#[test]
fn attempts_without_a_good_end_are_found_after_a_cut_at_any_line() {
    let ends: Vec<usize> = JOURNAL.match_indices('\n').map(|(place, _)| place + 1).collect();
    for end in ends {
        let cut = &JOURNAL[..end];
        let run = Run::read(cut.as_bytes()).unwrap();
        let tasks = run.tasks.iter().flatten();
        let expected: Vec<_> = tasks
            .filter_map(|task| {
                let ended = task.attempts.last()?.ended.as_ref();
                let is_good = ended.is_some_and(|ended| ended.outcome == Outcome::Done);
                (!is_good).then(|| (task.defined.clone(), ended.is_some()))
            })
            .collect();
        let unfinished = Unfinished::read(Cursor::new(cut), Some(end as u64)).unwrap();
        assert_eq!(unfinished.damage, None, "cut at {end}");
        assert!(unfinished.attempts.iter().all(|attempt| !attempt.is_suspected));
        let attempts = unfinished.attempts.into_iter();
        let found: Vec<_> =
            attempts.map(|attempt| (attempt.task.unwrap(), attempt.is_settled)).collect();
        assert_eq!(found, expected, "cut at {end}");
        assert!(unfinished.ended.is_none());
    }
}

/// Numbers of tasks whose attempts are open in `journal`.
fn open_attempts(journal: &[u8]) -> Vec<u32> {
    let left = Unfinished::read(Cursor::new(journal), None).unwrap();
    left.attempts.iter().map(|attempt| attempt.started.task).collect()
}

/// What a damaged journal says must be true, or marked as suspected.
fn check_damaged(whole: &[u8], damaged: &[u8], what: &str) {
    let open = open_attempts(whole);
    let left = Unfinished::read(Cursor::new(damaged), Some(whole.len() as u64)).unwrap();
    let damage = left.damage.unwrap_or_else(|| panic!("not noticed: {what}"));
    for attempt in &left.attempts {
        let is_open = open.contains(&attempt.started.task);
        assert!(is_open || attempt.is_suspected, "{what}: {:?} had ended", attempt.started);
    }
    let found = |task: &u32| left.attempts.iter().any(|attempt| attempt.started.task == *task);
    for task in open.iter().filter(|task| !found(task)) {
        let start = open_at(whole, *task);
        assert!(damage.after_ns.is_none_or(|after_ns| after_ns <= start), "{what}: {task}");
    }
}

/// When an attempt of a task began.
fn open_at(journal: &[u8], number: u32) -> i64 {
    let run = Run::read(journal).unwrap();
    run.tasks[number as usize].as_ref().unwrap().attempts.last().unwrap().started.time_ns
}

/// A run that was cut off while its last attempt went on.
fn cut_off() -> Vec<u8> {
    JOURNAL.as_bytes().to_vec()
}

#[test]
fn bytes_that_were_lost_make_suspected_what_they_may_have_told() {
    let whole = cut_off();
    assert!(!open_attempts(&whole).is_empty());
    for size in [1, 40, 200, 1000] {
        for start in 0..whole.len() {
            let end = whole.len().min(start + size);
            let mut damaged = whole.clone();
            damaged[start..end].fill(0);
            check_damaged(&whole, &damaged, &format!("zeros at {start}..{end}"));
        }
    }
}

#[test]
fn a_journal_that_is_shorter_than_it_was_is_suspected_where_it_ends() {
    let whole = cut_off();
    for end in 0..whole.len() {
        check_damaged(&whole, &whole[..end], &format!("cut at {end}"));
    }
    // What was being written, and nobody relied on, is no loss.
    let torn = [&whole, b"{\"event\":\"att".as_slice()].concat();
    let left = Unfinished::read(Cursor::new(torn), Some(whole.len() as u64)).unwrap();
    assert_eq!((left.damage, left.skipped.torn), (None, true));
}

#[test]
fn last_event_is_found_in_the_tail_of_a_long_journal() {
    let ended = "{\"event\":\"run_ended\",\"time_ns\":1,\"how\":\"stopped\"}\n{\"event\":\"torn";
    let journal = JOURNAL.repeat(1000) + ended;
    let last = last_event(Cursor::new(&journal), Wanted::RUN_ENDED).unwrap();
    assert!(matches!(last, Some(JournalEvent::RunEnded(_))));
    let last = last_event(Cursor::new(JOURNAL.repeat(1000)), Wanted::RUN_ENDED).unwrap();
    assert_eq!(last, None);
    let last = last_event(Cursor::new(JOURNAL), Wanted::ATTEMPT_ENDED).unwrap();
    assert!(matches!(last, Some(JournalEvent::AttemptEnded(end)) if end.outcome == Outcome::Done));
}

fn all() -> Vec<JournalEvent> {
    read(JOURNAL.as_bytes()).0
}

fn lines_before(offset: usize) -> usize {
    JOURNAL.as_bytes()[..offset].split(|byte| *byte == b'\n').count() - 1
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        if let Ok(run) = Run::read(bytes.as_slice()) {
            prop_assert!(run.tasks.iter().flatten().count() <= bytes.len());
        }
        let _ = Unfinished::read(Cursor::new(&bytes), Some(bytes.len() as u64));
        let _ = last_event(Cursor::new(&bytes), Wanted::ALL);
    }

    #[test]
    fn any_lines_of_json_are_read_without_panic(
        picks in proptest::collection::vec((0..17_usize, 0..12_u32, any::<u32>(), any::<i64>()), 0..60)
    ) {
        let mut bytes = String::new();
        for (kind, small, any, time) in picks {
            bytes += &odd_line(kind, small, any, time);
        }
        let (_, skipped) = read(bytes.as_bytes());
        prop_assert!(!skipped.torn);
        let run = Run::read(bytes.as_bytes()).unwrap();
        for task in run.tasks.iter().flatten().map(|task| task.defined.task) {
            let told = story(&run, task).expect("the task is defined");
            prop_assert!(told.happenings.is_sorted_by_key(|happening| happening.time_ns));
            let why = why(&run, task).expect("the task is defined");
            prop_assert!(why.chain.iter().all(|step| step.task != why.target || step.depth > 0));
        }
    }

    #[test]
    fn truncation_leaves_all_events_before_it(end in 0..=JOURNAL.len()) {
        let (events, skipped) = read(&JOURNAL.as_bytes()[..end]);
        let whole = lines_before(end);
        prop_assert_eq!(&events[..], &all()[..whole]);
        prop_assert_eq!(skipped.torn, end > 0 && JOURNAL.as_bytes()[end - 1] != b'\n');
        prop_assert_eq!(skipped.damaged, 0);
    }

    #[test]
    fn flipped_bit_leaves_all_events_of_other_lines(place in 0..JOURNAL.len(), bit in 0..8_u32) {
        let mut bytes = JOURNAL.as_bytes().to_vec();
        bytes[place] ^= 1_u8 << bit;
        let mut events = Vec::new();
        match read_events(bytes.as_slice(), |event| events.push(event)) {
            Ok(_) => {}
            // The version itself may be hit.
            Err(ReadError::Version { .. }) => return Ok(()),
            Err(ReadError::Io(error)) => panic!("{error}"),
        }
        let expected = all();
        let line = lines_before(place);
        prop_assert_eq!(&events[..line], &expected[..line]);
        // A flipped line feed joins two lines into one that is damaged, else at most one line is hit.
        let after = &expected[(line + 2).min(expected.len())..];
        prop_assert_eq!(&events[events.len() - after.len()..], after);
    }
}

/// Lines that are well-formed and make no sense together.
fn odd_line(kind: usize, small: u32, any: u32, time: i64) -> String {
    let line = match kind {
        0 => format!(r#""run_started","version":2,"time_ns":{time}"#),
        1 => format!(
            r#""node_joined","time_ns":{time},"node":{any},"name":"n","cores":{any},"memory_bytes":0"#
        ),
        2 => format!(r#""node_lost","time_ns":{time},"node":{any}"#),
        3 => format!(r#""invocation_started","time_ns":{time},"invocation":{any},"tasks":[]"#),
        4 => format!(
            r#""invocation_ended","time_ns":{time},"invocation":{small},"failed":0,"abandoned":0"#
        ),
        5 => format!(r#""rule_defined","rule":{small},"location":"""#),
        6 => {
            format!(r#""task_defined","task":{small},"prerequisites":[{small},{any}],"rule":{any}"#)
        }
        7 => format!(
            r#""attempt_started","time_ns":{time},"task":{small},"attempt":{any},"node":{any},"cores":{any}"#
        ),
        8 => format!(r#""command_started","time_ns":{time},"command":{small},"task":{small}"#),
        9 => format!(r#""command_ended","time_ns":{time},"command":{small},"wall_ns":{any}"#),
        10 => format!(r#""attempt_ended","time_ns":{time},"task":{small},"outcome":"lost""#),
        11 => format!(
            r#""task_settled","time_ns":{time},"task":{small},"how":"abandoned","because":[{any}]"#
        ),
        12 => format!(r#""stop_requested","time_ns":{time},"how":"""#),
        13 => format!(r#""task_blamed","time_ns":{time},"task":{small},"nodes":[{any}]"#),
        16 => format!(
            r#""node_chosen","time_ns":{time},"task":{small},"attempt":{any},"node":{any},"values":{{"load1":"0.5"}}"#
        ),
        14 => format!(r#""task_reopened","time_ns":{time},"task":{small}"#),
        15 => format!(r#""input_lost","time_ns":{time},"task":{any}"#),
        _ => format!(r#""run_ended","time_ns":{time},"how":"stopped""#),
    };
    format!("{{\"event\":{line}}}\n")
}
