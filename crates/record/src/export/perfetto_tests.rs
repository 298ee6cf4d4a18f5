//! What the trace of a sample run says, read back with a small decoder. That Perfetto itself takes
//! it is tested in test/exports_test.rb.

use std::collections::BTreeMap;

use super::super::samples::{START_NS, everything};
use super::*;

/// A field: a number, or bytes.
#[derive(Debug, Clone, PartialEq)]
enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return value;
        }
    }
    panic!("a varint of more than ten bytes");
}

fn fields(mut bytes: &[u8]) -> BTreeMap<u64, Vec<Field>> {
    let mut fields: BTreeMap<u64, Vec<Field>> = BTreeMap::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => {
                let (number, rest) = bytes.split_at(8);
                bytes = rest;
                Field::Number(u64::from_le_bytes(number.try_into().unwrap()))
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                let (text, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(text.to_vec())
            }
            wire => panic!("wire type {wire}"),
        };
        fields.entry(key >> 3).or_default().push(value);
    }
    fields
}

type Fields = BTreeMap<u64, Vec<Field>>;

fn numbers(fields: &Fields, field: u64) -> Vec<u64> {
    let values = fields.get(&field).into_iter().flatten();
    values
        .map(|value| match value {
            Field::Number(number) => *number,
            Field::Bytes(_) => panic!("field {field} is no number"),
        })
        .collect()
}

fn messages(fields: &Fields, field: u64) -> Vec<Vec<u8>> {
    let values = fields.get(&field).into_iter().flatten();
    values
        .map(|value| match value {
            Field::Bytes(bytes) => bytes.clone(),
            Field::Number(_) => panic!("field {field} is no message"),
        })
        .collect()
}

fn text(fields: &Fields, field: u64) -> String {
    String::from_utf8(messages(fields, field).concat()).unwrap()
}

/// Packets of the sample.
fn packets() -> Vec<Fields> {
    let mut bytes = Vec::new();
    write(&everything(), &mut bytes).unwrap();
    messages(&fields(&bytes), 1).iter().map(|packet| fields(packet)).collect()
}

/// ns after the start, kind, track, event.
type Read = (i64, u64, u64, Fields);

/// Track names by uuid, and events.
fn read() -> (BTreeMap<u64, String>, Vec<Read>) {
    let mut tracks = BTreeMap::new();
    let mut events = Vec::new();
    for packet in packets() {
        for descriptor in messages(&packet, 60) {
            let descriptor = fields(&descriptor);
            let parents = numbers(&descriptor, 5);
            assert!(parents.iter().all(|parent| tracks.contains_key(parent)), "parents come first");
            tracks.insert(numbers(&descriptor, 1)[0], text(&descriptor, 2));
        }
        for event in messages(&packet, 11) {
            let event = fields(&event);
            let time_ns = numbers(&packet, 8)[0].cast_signed() - START_NS;
            events.push((time_ns, numbers(&event, 9)[0], numbers(&event, 11)[0], event));
        }
    }
    (tracks, events)
}

#[test]
fn slices_nest_on_every_track() {
    let (tracks, events) = read();
    let mut open: BTreeMap<u64, Vec<i64>> = BTreeMap::new();
    let mut last: BTreeMap<u64, i64> = BTreeMap::new();
    let mut slices = 0;
    for (time_ns, kind, track, _) in &events {
        assert!(tracks.contains_key(track));
        if *kind > 2 {
            continue;
        }
        assert!(last.insert(*track, *time_ns).is_none_or(|before| before <= *time_ns));
        let stack = open.entry(*track).or_default();
        if *kind == 1 {
            stack.push(*time_ns);
            slices += 1;
        } else {
            assert!(stack.pop().unwrap() <= *time_ns);
        }
    }
    assert!(open.values().all(Vec::is_empty), "every slice has its end");
    // Five attempts, one of them on a second core, and four commands.
    assert_eq!(slices, 5 + 1 + 4);
}

#[test]
fn commands_that_overlap_are_beside_each_other() {
    let (tracks, events) = read();
    let names: Vec<_> = tracks.values().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "node n1",
            "core 0",
            "core 1",
            "core 2",
            "core 0, command 2 at once",
            "running tasks",
            "all",
            "Rakefile:3",
            "Rakefile:7"
        ]
    );
    let beside = tracks.iter().find(|(_, name)| name.ends_with("at once")).unwrap().0;
    let times: Vec<_> =
        events.iter().filter(|event| event.2 == *beside).map(|event| event.0 / 1_000_000).collect();
    assert_eq!(times, [60, 80]);
}

#[test]
fn flows_lead_from_who_made_a_file_to_who_took_it() {
    let (_, events) = read();
    let ends = |field: u64| {
        let mut ends = BTreeMap::new();
        for (_, kind, _, event) in &events {
            for flow in numbers(event, field) {
                assert_eq!(*kind, 1);
                assert!(ends.insert(flow, text(event, 23)).is_none());
            }
        }
        ends
    };
    let (from, to) = (ends(47), ends(48));
    assert_eq!(from.keys().collect::<Vec<_>>(), to.keys().collect::<Vec<_>>());
    let pairs: Vec<_> = from.values().zip(to.values()).collect();
    assert_eq!(pairs.len(), 3);
    assert!(pairs.contains(&(&"out/a x".to_owned(), &"c".to_owned())));
    assert!(pairs.contains(&(&"out/b".to_owned(), &"c".to_owned())));
}

#[test]
fn failures_are_instants_and_counters_end_at_zero() {
    let (tracks, events) = read();
    let failures = events.iter().filter(|event| event.1 == 3).map(|event| text(&event.3, 23));
    let failures: Vec<_> = failures.collect();
    assert_eq!(failures.len(), 3);
    assert!(failures.contains(&"failed: c".to_owned()));
    for (track, name) in &tracks {
        let counts: Vec<u64> = events
            .iter()
            .filter(|event| event.1 == 4 && event.2 == *track)
            .map(|event| numbers(&event.3, 30)[0])
            .collect();
        let is_counter = name == "all" || name.starts_with("Rakefile:");
        assert_eq!(!counts.is_empty(), is_counter, "{name}");
        assert!(counts.last().is_none_or(|last| *last == 0), "{name}: {counts:?}");
        if name == "all" {
            assert_eq!(counts.iter().max(), Some(&2));
        }
    }
}

#[test]
fn strings_that_repeat_are_sent_once() {
    let mut sent = Vec::new();
    for packet in packets() {
        for interned in messages(&packet, 12) {
            for (field, entries) in fields(&interned) {
                for entry in entries {
                    let Field::Bytes(entry) = entry else { panic!("an entry is a message") };
                    let entry = fields(&entry);
                    sent.push((field, numbers(&entry, 1)[0], text(&entry, 2)));
                }
            }
        }
    }
    let count = sent.len();
    assert!(sent.iter().any(|(field, _, text)| *field == 3 && text == "outcome"));
    assert!(sent.iter().any(|(field, _, text)| *field == 29 && text == "missing"));
    sent.sort();
    sent.dedup();
    assert_eq!(sent.len(), count);
}

#[test]
fn a_run_without_attempts_is_a_trace_without_tracks() {
    let mut bytes = Vec::new();
    write(&Run::default(), &mut bytes).unwrap();
    assert_eq!(messages(&fields(&bytes), 1).len(), 1);
}
