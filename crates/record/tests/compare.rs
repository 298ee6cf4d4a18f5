//! What may be said of two runs beside each other, and what not.

mod support;

use std::fmt::Write as _;

use rakuda_record::Run;
use rakuda_record::report::compare::{Comparison, json, text};
use support::with_report_of;

/// A run of one rule with attempts of about `seconds` each, one after the other.
fn run(attempts: u32, seconds: i64) -> Run {
    let mut journal = support::Journal::begin(1);
    journal.rule(0, "Rakefile:3");
    let mut text = journal.text().to_owned();
    let mut at_ns = support::START_NS;
    for task in 0..attempts {
        let end_ns = at_ns + seconds * (1_000_000_000 + i64::from(task) * 1_000_000);
        let _ = write!(
            text,
            "{{\"event\":\"task_defined\",\"task\":{task},\"name\":\"out{task}\",\"kind\":\"file\",\"rule\":0,\"action\":true}}\n\
             {{\"event\":\"attempt_started\",\"time_ns\":{at_ns},\"task\":{task},\"attempt\":1,\"node\":0,\"cores\":1}}\n\
             {{\"event\":\"attempt_ended\",\"time_ns\":{end_ns},\"task\":{task},\"outcome\":\"done\"}}\n"
        );
        at_ns = end_ns;
    }
    let _ = writeln!(
        text,
        "{{\"event\":\"run_ended\",\"time_ns\":{at_ns},\"how\":\"done\",\"executed\":{attempts},\"not_needed\":0,\"failed\":0,\"abandoned\":0}}"
    );
    Run::read(text.as_bytes()).unwrap()
}

/// The verdict on the only rule, whether it has an interval, and the text.
fn verdict(first: &Run, second: &Run) -> (String, bool, String) {
    let mut answer = None;
    with_report_of(first, |first| {
        with_report_of(second, |second| {
            let comparison = Comparison::of(*first, *second);
            let rule = json(&comparison)["rules"][0].clone();
            let verdict = rule["verdict"].as_str().unwrap().to_owned();
            answer =
                Some((verdict, rule.get("median_ratio_interval").is_some(), text(&comparison)));
        });
    });
    answer.unwrap()
}

#[test]
fn few_attempts_give_no_verdict() {
    for (first, second) in [(1, 1), (5, 100), (100, 5)] {
        let (word, interval, text) = verdict(&run(first, 1), &run(second, 2));
        assert_eq!((word.as_str(), interval), ("too few to tell", false));
        assert!(text.contains("too few to tell"), "{text}");
    }
    assert_eq!(verdict(&run(6, 1), &run(6, 2)).0, "slower");
    assert_eq!(verdict(&run(6, 2), &run(6, 1)).0, "faster");
    assert_eq!(verdict(&run(6, 1), &run(6, 1)).0, "within scatter");
}
