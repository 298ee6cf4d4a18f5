//! Journals that were made up: whatever numbers they have, what is made of them comes to an end, in
//! memory that they are worth.
#![allow(clippy::disallowed_methods, reason = "the test looks at its own memory")]

mod support;

use std::io;

use rakuda_record::Run;
use rakuda_record::export::{dot, perfetto, wfformat};
use rakuda_record::report::{csv, html, json, text};
use rakuda_record::story::story;
use support::{small, with_report_of};

/// What a report and the exports of a few lines may take.
const MEMORY_BYTES: u64 = 3 << 30;

fn show_all(run: &Run) {
    with_report_of(run, |report| {
        drop(text::text(report));
        drop(json::summary(report));
        drop(html::page(report));
        csv::tasks(report, &mut io::sink()).unwrap();
        csv::commands(report, &mut io::sink()).unwrap();
    });
    perfetto::write(run, io::sink()).unwrap();
    drop(wfformat::write(run, io::sink()));
    dot::write(run, dot::Of::Tasks, io::sink()).unwrap();
    drop(story(run, 0));
}

/// Where numbers are in a text: those that stand behind a colon, or in a list.
fn numbers(text: &str) -> Vec<(usize, usize)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    for (place, byte) in bytes.iter().enumerate() {
        if place > 0 && byte.is_ascii_digit() && matches!(bytes[place - 1], b':' | b'[' | b',') {
            let length = bytes[place..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            found.push((place, place + length));
        }
    }
    found
}

#[test]
fn no_number_of_a_journal_takes_more_than_it_is_worth() {
    // A request for more is refused, and the test is aborted.
    let all = rustix::process::getrlimit(rustix::process::Resource::As);
    let limit = rustix::process::Rlimit { current: Some(MEMORY_BYTES), maximum: all.maximum };
    rustix::process::setrlimit(rustix::process::Resource::As, limit).unwrap();
    let journal = small();
    let text = journal.text();
    let places = numbers(text);
    assert!(places.len() > 100, "{} numbers", places.len());
    let extremes = ["4294967295", "4294967294", "65535", "18446744073709551615"];
    for (from, to) in places {
        for extreme in extremes.into_iter().chain(["9223372036854775807", "-9223372036854775808"]) {
            let changed = format!("{}{extreme}{}", &text[..from], &text[to..]);
            // Of another version nothing is read.
            if let Ok(run) = Run::read(changed.as_bytes()) {
                show_all(&run);
            }
        }
    }
}

#[test]
fn many_attempts_with_many_cores_are_drawn_within_bounds() {
    let mut journal = support::Journal::begin(1 << 20);
    for node in 1..200 {
        journal.node(node, "wide", 1 << 16);
    }
    for task in 0..300 {
        journal.task(task, "wide", r#""kind":"plain","action":true"#);
        let fields = format!(r#""task":{task},"attempt":1,"node":{},"cores":65536"#, task % 300);
        journal.event("attempt_started", 0.0, &fields);
    }
    let run = Run::read(journal.text().as_bytes()).unwrap();
    let cores: u64 = run.nodes.iter().map(|node| u64::from(node.joined.cores)).sum();
    assert!(cores <= 1 << 22, "{cores} cores");
    show_all(&run);
}
