//! What the graphs of a sample run say. That Graphviz takes them is tested in test/exports_test.rb.

use super::super::samples::{Builder, everything, task, with_streams};
use super::*;
use crate::history::pattern_of;
use rakuda_proto::journal::{
    JournalEvent, Outcome, RuleDefined, RunOutcome, TaskOutcome, TaskSettled,
};

fn drawn(of: Of) -> (String, usize) {
    let mut bytes = Vec::new();
    let nodes = write(&everything(), of, &mut bytes).unwrap();
    (String::from_utf8(bytes).unwrap(), nodes)
}

#[test]
fn tasks_are_nodes_and_groups_are_not() {
    let (text, nodes) = drawn(Of::Tasks);
    assert_eq!(nodes, 6, "five tasks and a source\n{text}");
    assert!(text.contains("t1 -> t4;"), "{text}");
    assert!(text.contains("t0 -> t1;"), "{text}");
    assert!(!text.contains("t3 "), "the group is contracted\n{text}");
    assert!(
        text.contains(&format!(
            "t4 [label=\"c\\n0.01 s\", shape=box, {}, {FAILED}];",
            fill(Some(1))
        )),
        "{text}"
    );
    assert!(text.contains("t5 [label=\"d\", "), "{text}");
    assert!(text.lines().any(|line| line.contains("t5 [") && line.contains(NOT_RUN)), "{text}");
}

#[test]
fn names_of_any_bytes_are_escaped() {
    let (text, _) = drawn(Of::Tasks);
    assert!(text.contains("t6 [label=\"e\u{fffd}\\\"\\\\\\n\\n0.01 s\""), "{text}");
}

#[test]
fn rules_are_counted_with_their_mean_times() {
    let (text, nodes) = drawn(Of::Rules);
    assert_eq!(nodes, 2);
    // 40, 40 and 83 ms: the attempt that failed took time, too.
    assert!(text.contains("r0 [label=\"cp (Rakefile:3)\\n2 tasks, mean 0.05 s\""), "{text}");
    let failed =
        "r1 [label=\"c (Rakefile:7)\\n3 tasks, mean 0.01 s\\n1 failed\\n1 not run\\n1 not ended\"";
    assert!(text.contains(failed), "{text}");
    assert!(text.contains("r0 -> r1 [label=\"×3\"];"), "{text}");
    assert!(text.contains("r1 -> r1 [label=\"×1\"];"), "{text}");
}

#[test]
fn what_a_failed_run_did_not_reach_is_there_and_nothing_is_drawn_past_it() {
    let mut builder = Builder::new();
    builder.define([task(0, "trim1", 0, &[]), task(1, "map1", 1, &[0]), task(2, "call1", 2, &[1])]);
    let rule = RuleDefined { rule: 2, location: "Rakefile:36".into(), source: None, text: None };
    builder.add(JournalEvent::RuleDefined(rule));
    builder.begin(0, 1, 1, 1);
    builder.end(0, Outcome::Done, 2, Some(1));
    for number in 1..3 {
        builder.add(JournalEvent::TaskSettled(TaskSettled {
            time_ns: 3,
            task: number,
            how: TaskOutcome::NotReached,
            because: Vec::new(),
        }));
    }
    builder.finish(RunOutcome::Failed, 3);
    let mut bytes = Vec::new();
    assert_eq!(write(&builder.run, Of::Rules, &mut bytes).unwrap(), 3);
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.contains("r0 -> r1 [label=\"×1\"];"), "{text}");
    assert!(text.contains("r1 -> r2 [label=\"×1\"];"), "{text}");
    assert!(!text.contains("r0 -> r2"), "{text}");
    assert!(text.contains("r2 [label=\"call1 (Rakefile:36)\\n1 task\\n1 not reached\""), "{text}");
}

#[test]
fn what_runs_or_was_stopped_has_not_failed() {
    let mut builder = Builder::new();
    builder.define([task(0, "a1", 0, &[]), task(1, "a2", 0, &[]), task(2, "a3", 0, &[])]);
    builder.begin(0, 1, 1, 0);
    builder.end(0, Outcome::Done, 2_000, None);
    builder.begin(1, 1, 1, 0);
    builder.end(1, Outcome::Aborted, 4_000, None);
    builder.begin(2, 1, 1, 0);
    let drawn = |of| {
        let mut bytes = Vec::new();
        write(&builder.run, of, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    let rules = drawn(Of::Rules);
    let label = "r0 [label=\"a1 (Rakefile:3)\\n3 tasks, mean 3.00 s\\n1 stopped\\n1 not ended\"";
    assert!(
        rules.contains(&label.replace("a1", &pattern_of(&"a1".into()).to_display())),
        "{rules}"
    );
    assert!(!rules.contains(FAILED), "{rules}");
    let tasks = drawn(Of::Tasks);
    assert!(!tasks.contains(FAILED), "{tasks}");
    assert_eq!(tasks.matches(NOT_RUN).count(), 2, "{tasks}");
}

#[test]
fn streams_stand_between_tasks_and_between_rules() {
    let mut run = with_streams();
    run.streams[0].ended.as_mut().unwrap().streams[1].readers[0].records = 1;
    let draw = |of| {
        let mut bytes = Vec::new();
        let nodes = write(&run, of, &mut bytes).unwrap();
        (String::from_utf8(bytes).unwrap(), nodes)
    };
    let (tasks, _) = draw(Of::Tasks);
    let back = format!("s0 [label=\"back\\n16 B\", {}];", stream_shape(true));
    let lines = format!("s1 [label=\"lines\\n4.10 kB\", {}];", stream_shape(false));
    let edges = ["t0 -> s0;", "s0 -> t1;", "t1 -> s1;", "s1 -> t0;", "s1 -> t2;"];
    for part in edges.into_iter().chain([&*back, &*lines]) {
        assert!(tasks.contains(part), "{part}\n{tasks}");
    }
    let (rules, nodes) = draw(Of::Rules);
    assert_eq!(nodes, 4, "two rules and two streams\n{rules}");
    let back = "[label=\"back (Rakefile:4)\\n16 B\\n1 not whole\"";
    for part in [back, "s1 -> r1 [label=\"×2\"];", "r0 -> s1 [label=\"×1\"];"] {
        assert!(rules.contains(part), "{part}\n{rules}");
    }
    run.streams[0].ended = None;
    run.ended = None;
    for (alive, word) in [(true, "1 running"), (false, "1 not whole")] {
        run.alive = alive;
        let mut bytes = Vec::new();
        write(&run, Of::Rules, &mut bytes).unwrap();
        let rules = String::from_utf8(bytes).unwrap();
        assert_eq!(rules.matches(word).count(), 2, "{word}: {rules}");
    }
}
