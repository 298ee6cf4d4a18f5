//! Figures of a small run against a computation by hand. The run is drawn in `support`.

mod support;

use rakuda_record::folder::RunState;
use rakuda_record::report::{html, json, text};
use rakuda_record::summary::Summary;
use rakuda_record::summary::outcomes::Fate;
use rakuda_record::summary::spans::{Ending, Span};
use rakuda_record::summary::task_rows::task_rows;
use support::{Journal, small, with_report, with_report_of};

fn close(left: f64, right: f64) {
    assert!((left - right).abs() < 1e-6, "{left} is not {right}");
}

#[test]
fn figures_of_a_small_run_are_those_computed_by_hand() {
    let summary = Summary::of(&small().run());
    close(summary.makespan_s(), 6.0);
    // 2 + 3 + 3 + 0.5 + 2 of 2 cores for 6 s
    close(summary.core_s, 10.5);
    close(summary.utilisation().unwrap(), 10.5 / 12.0);
    close(summary.held().unwrap(), 10.5 / 12.0);
    assert_eq!(summary.curve.peak, 2);
    let area = summary.curve.total().iter().sum::<f64>() * summary.curve.bin_ns / 1e9;
    close(area, 10.5);
    let counts = summary.counts;
    assert_eq!((counts.tasks, counts.run, counts.done, counts.passed), (5, 4, 3, 1));
    assert_eq!((counts.failed, counts.abandoned, counts.not_needed), (1, 1, 1));
    assert_eq!((summary.spans.len(), summary.retries()), (5, 1));
    assert_eq!((summary.failed.as_slice(), summary.retried.as_slice()), (&[5][..], &[4][..]));
}

#[test]
fn the_parts_of_all_tasks_are_all_tasks() {
    let mut journal = Journal::begin(2);
    journal.task(0, "sync:begin", r#""action":false"#);
    journal.task(1, "sync:end", r#""action":false,"prerequisites":[0]"#);
    journal.task(2, "fit", r#""action":true,"prerequisites":[1]"#);
    journal.task(3, "kept", r#""kind":"file","action":true"#);
    journal.task(4, "late", r#""kind":"file","action":true,"prerequisites":[2]"#);
    journal.task(5, "all", r#""action":false,"prerequisites":[2,3,4]"#);
    journal.event("task_settled", 0.0, r#""task":1,"how":"executed""#);
    journal.attempt(2, 0.0, 1.0, "fit", r#""status":256"#, r#""outcome":"failed""#);
    journal.event("task_settled", 1.0, r#""task":2,"how":"failed""#);
    journal.event("task_settled", 1.0, r#""task":5,"how":"abandoned","because":[2]"#);
    with_report(&journal, |report| {
        let line = text::tasks_line(report);
        let parts = "1 failed, 2 not started; beside them 3 without an action";
        assert_eq!(line, format!("3 in its record: {parts}"), "there may be others");
    });
    journal.task(6, "others", r#""action":false,"prerequisites":[4]"#);
    journal.event("task_settled", 1.0, r#""task":6,"how":"not_reached""#);
    // What has no lines was executed, as it stands for nothing; one of those with an action was up to date.
    let ended = r#""how":"failed","executed":2,"not_needed":1,"failed":1,"abandoned":0"#;
    journal.event("run_ended", 1.0, ended);
    with_report(&journal, |report| {
        let line = text::tasks_line(report);
        let beside = "beside them 1 up to date, 4 without an action";
        assert_eq!(line, format!("2: 1 failed, 1 not reached; {beside}"));
        let json = json::summary(report);
        let parts =
            ["done", "failed", "abandoned", "stopped", "running", "not_reached", "not_started"];
        let sum: u64 = parts.iter().map(|name| json[*name].as_u64().unwrap()).sum();
        assert_eq!(json["tasks"].as_u64(), Some(sum), "{json}");
    });
}

#[test]
fn tasks_that_no_line_names_are_counted_from_the_end_of_the_run() {
    let mut journal = Journal::begin(2);
    journal.task(0, "fit", r#""action":true"#);
    journal.attempt(0, 0.0, 1.0, "fit", r#""status":0"#, r#""outcome":"done""#);
    // A second time, after what it had made was lost; and one without an action.
    journal.attempt(0, 2.0, 3.0, "fit", r#""status":0"#, r#""outcome":"done""#);
    let ended = r#""how":"done","executed":3,"not_needed":7,"failed":0,"abandoned":0"#;
    journal.event("run_ended", 3.0, ended);
    with_report(&journal, |report| {
        assert_eq!(
            text::tasks_line(report),
            "1: 1 done; beside them 7 up to date, 1 without an action"
        );
    });
}

#[test]
fn critical_path_goes_through_tasks_without_an_action() {
    let summary = Summary::of(&small().run());
    let path = &summary.critical;
    // c.out 3 s, then d.out 0.5 and 2 s; it waited from 3 to 3.5
    assert_eq!(path.tasks, [2, 4]);
    assert_eq!((path.work_ns, path.waiting_ns, path.after_ns), (5_500_000_000, 500_000_000, 0));
    close(summary.critical_share().unwrap(), 5.5 / 6.0);
    let wait = summary.wait.unwrap();
    assert_eq!(wait.count, 4);
    close(wait.max, 0.5);
    close(wait.total, 0.5);
}

#[test]
fn rules_have_the_figures_of_their_tasks() {
    let summary = Summary::of(&small().run());
    let labels: Vec<String> =
        summary.ranked.iter().map(|&group| summary.groups[group as usize].group.label()).collect();
    assert_eq!(labels, ["*.out (fit, Rakefile:9)", "*.out (proj, Rakefile:3)"]);
    let fit = &summary.groups[summary.ranked[0] as usize];
    let proj = &summary.groups[summary.ranked[1] as usize];
    assert_eq!((fit.tasks, fit.failed, fit.retries), (2, 1, 1));
    let times = fit.durations.unwrap();
    assert_eq!(times.count, 3);
    close(times.total, 5.5);
    close(times.median, 2.0);
    close(proj.usage.user_s, 2.0);
    close(proj.usage.system_s, 1.0);
    assert_eq!((proj.usage.rss_bytes_max, proj.usage.bytes.read), (Some(2_048_000), 400));
    assert_eq!(proj.usage.bytes.written, 50);
    assert_eq!(proj.histogram.iter().sum::<u32>(), 2);
}

#[test]
fn page_cache_share_counts_tasks_whose_inputs_are_known() {
    let summary = Summary::of(&small().run());
    // 600 of 1000, 1000 of 1000, 400 of 500; what d.out reads is not known
    assert_eq!((summary.cache.cached_bytes, summary.cache.input_bytes), (2000, 2500));
    close(summary.cache.share().unwrap(), 0.8);
    assert_eq!((summary.cache.tasks_known, summary.cache.tasks_with_input), (3, 3));
}

#[test]
fn run_that_was_cut_off_counts_open_attempts_to_its_last_event() {
    let journal = small();
    let lines: Vec<&str> = journal.text().lines().collect();
    let started = lines.iter().rposition(|line| line.contains("attempt_started")).unwrap();
    let cut = lines[..=started + 1].join("\n") + "\n";
    let run = rakuda_record::Run::read(cut.as_bytes()).unwrap();
    let summary = Summary::of(&run);
    assert_eq!(summary.state, RunState::CutOff);
    let open: Vec<u32> = summary
        .spans
        .iter()
        .filter(|span| span.ending == Ending::Open)
        .map(|span| span.task)
        .collect();
    assert_eq!((open, summary.counts.running), (vec![4], 1));
    // The last event in the cut journal is that of 5.0 s, although the attempt began at 4.0 s.
    close(summary.makespan_s(), 5.0);
    assert!(summary.state.warning().is_some());
    // When after that it was cut off, nobody knows.
    assert_eq!(
        (summary.utilisation(), summary.held(), summary.critical_share()),
        (None, None, None)
    );
    assert!(summary.nodes.iter().all(|node| node.utilisation.is_none()));
    with_report_of(&run, |report| {
        let text = text::text(report);
        assert!(text.contains("makespan         at least 5.00 s"), "{text}");
        assert!(json::summary(report).get("utilisation").is_none());
    });
}

/// The small run without its end, from the last attempt's start on.
fn without_end() -> String {
    let text = small().text().to_owned();
    let lines: Vec<&str> = text.lines().collect();
    let started = lines.iter().rposition(|line| line.contains("attempt_started")).unwrap();
    lines[..=started].join("\n") + "\n"
}

#[test]
fn run_that_lives_takes_until_now() {
    let mut run = rakuda_record::Run::read(without_end().as_bytes()).unwrap();
    run.seen_alive(support::START_NS + 100_000_000_000);
    let summary = Summary::of(&run);
    close(summary.makespan_s(), 100.0);
    let open = summary.spans.iter().find(|span| span.ending == Ending::Open).unwrap();
    assert_eq!(open.duration_ns(), 96_000_000_000);
    assert!(summary.utilisation().is_some());
    with_report_of(&run, |report| {
        assert!(text::text(report).contains("makespan         1 min 40 s"));
    });
}

#[test]
fn time_until_a_later_run_looked_after_one_that_was_cut_off_is_not_its_own() {
    let ended = r#"{"event":"run_ended","time_ns":1800000900000000000,"how":"recovered","executed":0,"not_needed":0,"failed":0,"abandoned":0}"#;
    let text = format!("{}{ended}\n", without_end());
    let run = rakuda_record::Run::read(text.as_bytes()).unwrap();
    assert!(run.ended.is_some());
    let summary = Summary::of(&run);
    assert!(summary.makespan_s() <= 5.0, "{}", summary.makespan_s());
    assert!(summary.spans.iter().all(|span| span.duration_ns() <= 5_000_000_000));
    assert_eq!(summary.utilisation(), None);
}

#[test]
fn every_journal_cut_after_a_line_has_a_report() {
    let journal = small();
    let lines: Vec<&str> = journal.text().lines().collect();
    for end in 0..=lines.len() {
        let text_so_far = lines[..end].join(
            "
",
        ) + "
";
        let run = rakuda_record::Run::read(text_so_far.as_bytes()).unwrap();
        let summary = Summary::of(&run);
        let tails = std::collections::BTreeMap::new();
        let report = rakuda_record::report::Report { run: &run, summary: &summary, tails: &tails };
        assert!(text::text(&report).starts_with("run "));
        assert!(json::summary(&report)["makespan_s"].as_f64().unwrap() >= 0.0);
    }
}

fn end(journal: &mut Journal, time_s: f64) {
    let fields = r#""how":"done","executed":3,"not_needed":0,"failed":0,"abandoned":0"#;
    journal.event("run_ended", time_s, fields);
}

#[test]
fn actions_begun_before_a_core_was_free_count_from_then_on() {
    let mut journal = Journal::begin(1);
    for task in 0..3 {
        journal.task(task, &format!("t{task}"), r#""action":true"#);
    }
    for task in 0..3 {
        let fields = format!(r#""task":{task},"attempt":1,"node":0,"cores":1"#);
        journal.event("attempt_started", 0.0, &fields);
    }
    for task in 0..3 {
        let (from, to) = (i64::from(task) * 1_000_000_000, i64::from(task + 1) * 1_000_000_000);
        let fields = format!(r#""task":{task},"outcome":"done","held_ns":[{from},{to}]"#);
        journal.event("attempt_ended", 1.0 + f64::from(task), &fields);
    }
    end(&mut journal, 3.0);
    let summary = Summary::of(&journal.run());
    let took_ns: Vec<i64> = summary.spans.iter().map(Span::duration_ns).collect();
    assert_eq!(took_ns, [1_000_000_000; 3]);
    assert!(summary.spans.iter().all(|span| span.lane == 0));
    close(summary.utilisation().unwrap(), 1.0);
}

#[test]
fn lanes_of_an_attempt_with_several_cores_are_side_by_side() {
    let mut journal = Journal::begin(4);
    for task in 0..4 {
        journal.task(task, &format!("t{task}"), r#""action":true"#);
    }
    let attempts = [(0, 0.0, 2.0, 1), (1, 0.0, 5.0, 1), (2, 0.0, 2.0, 1), (3, 2.0, 4.0, 2)];
    for (task, from_s, to_s, cores) in attempts {
        let fields = format!(r#""task":{task},"attempt":1,"node":0,"cores":{cores}"#);
        journal.event("attempt_started", from_s, &fields);
        journal.event("attempt_ended", to_s, &format!(r#""task":{task},"outcome":"done""#));
    }
    let summary = Summary::of(&journal.run());
    let lane = |task| summary.spans.iter().find(|span| span.task == task).unwrap().lane;
    assert_eq!([lane(0), lane(1), lane(2), lane(3)], [0, 1, 2, 2]);
}

#[test]
fn memory_that_is_not_known_is_not_said_to_be_nothing() {
    with_report(&small(), |report| {
        let fit = &report.summary.groups[report.summary.ranked[0] as usize];
        assert_eq!((fit.usage.commands, fit.usage.rss_bytes_max), (3, None));
        let text = text::text(report);
        let row = text.lines().find(|line| line.starts_with("*.out (fit, Rakefile:9)  ")).unwrap();
        let rows: Vec<_> = text.lines().filter(|line| line.starts_with("*.out (fit")).collect();
        assert!(rows.iter().any(|row| row.ends_with(" -")), "{rows:?} {row}");
        assert!(!text.contains("  0 B\n"), "{text}");
        let rules = json::summary(report)["rules"].clone();
        assert_eq!(rules[0].get("rss_bytes_max"), None, "{rules}");
        assert_eq!(rules[1]["rss_bytes_max"], 2_048_000, "{rules}");
    });
}

#[test]
fn each_task_has_a_row_with_the_figures_of_its_last_attempt() {
    let run = small().run();
    let summary = Summary::of(&run);
    let rows = task_rows(&run, &summary);
    let told: Vec<_> = rows
        .iter()
        .map(|row| (row.task.defined.task, row.fate, row.attempts, row.exit()))
        .collect();
    let status = |status: &str| Some(status.to_owned());
    let expected = [
        (1, Fate::Ran, 1, status("status 0")),
        (2, Fate::Ran, 1, status("status 0")),
        (4, Fate::Ran, 2, status("status 0")),
        (5, Fate::Failed, 1, status("status 1")),
        (6, Fate::Abandoned, 0, None),
    ];
    assert_eq!(told, expected);
    // 1 and 0.5 s of CPU time in the 2 s of proj a.src
    close(rows[0].cpu_share().unwrap(), 0.75);
    assert_eq!(rows[0].usage.unwrap().bytes.read, 400);
    assert_eq!(rows[2].last.unwrap().1.duration_ns(), 2_000_000_000);
    assert_eq!(rows[0].memory_bytes_wanted(), None);
}

#[test]
fn a_task_without_an_action_is_not_run_when_what_it_needs_failed() {
    let mut journal = Journal::begin(2);
    journal.task(0, "bad", r#""action":true"#);
    journal.task(1, "all", r#""action":false,"prerequisites":[0]"#);
    journal.attempt(0, 0.0, 1.0, "false", r#""status":256"#, r#""outcome":"failed""#);
    journal.event("task_settled", 1.0, r#""task":1,"how":"abandoned","because":[0]"#);
    let run = journal.run();
    let counts = Summary::of(&run).counts;
    assert_eq!((counts.failed, counts.abandoned, counts.passed), (1, 0, 1), "counts are of work");
    assert_eq!(rakuda_record::live::detail(&run, 1, None).unwrap()["status"], "not run");
    assert_eq!(rakuda_record::story::story(&run, 1).unwrap().fate.word(), "abandoned");
}

#[test]
fn what_directory_makes_has_that_word_for_its_place() {
    let mut journal = Journal::begin(2);
    journal.rule(1, "rake/dsl_definition.rb:97");
    journal.rule(2, "Rakefile:3");
    journal.task(0, "out", r#""kind":"directory","action":true,"rule":1"#);
    journal.task(1, "own", r#""kind":"directory","action":true,"rule":2"#);
    for task in 0..2 {
        journal.attempt(task, 0.0, 1.0, "x", r#""status":0"#, r#""outcome":"done""#);
    }
    let run = journal.run();
    let place = |task: u32| run.location(run.task(task).unwrap()).unwrap().to_display();
    assert_eq!((place(0).as_str(), place(1).as_str()), ("directory", "Rakefile:3"));
    assert_eq!(
        rakuda_record::story::story(&run, 0).unwrap().location.unwrap().to_display(),
        "directory"
    );
    let mut junit = Vec::new();
    rakuda_record::export::junit::write(&run, &std::collections::BTreeMap::default(), &mut junit)
        .unwrap();
    let junit = String::from_utf8(junit).unwrap();
    assert!(junit.contains(r#"name="out" classname="directory""#), "{junit}");
    assert!(!junit.contains("dsl_definition"), "{junit}");
}

#[test]
fn chart_has_no_more_lanes_than_cores() {
    let mut journal = Journal::begin(2);
    for task in 0..5 {
        journal.task(task, &format!("t{task}"), r#""action":true"#);
        // Each begins before the one before it has ended, as clocks of several machines may tell.
        let from_s = f64::from(task) * 0.4;
        journal.attempt(task, from_s, from_s + 1.0, "x", r#""status":0"#, r#""outcome":"done""#);
    }
    let summary = Summary::of(&journal.run());
    let most = summary.pieces.iter().map(|piece| piece.lane + piece.cores).max();
    assert_eq!(most, Some(2));
}

#[test]
fn text_says_what_failed_and_why() {
    with_report(&small(), |report| {
        let text = text::text(report);
        for part in [
            "makespan         6.00 s",
            "87.5 % of 2 cores",
            "5: 3 done, 1 failed, 1 not run because of those; beside them 1 up to date, 1 without an action",
            "5.50 s in 2 tasks, 91.7 % of the makespan; 500 ms waiting",
            "at least 80.0 % of the input was in memory (known for 100.0 % of tasks)",
            "    command  sh -c 'fit e'\n    status   status 1\n    node     argo\n    message  it broke",
            "    | no such star\n    | <b>",
        ] {
            assert!(text.contains(part), "{part}\nis not in\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    });
}

#[test]
fn json_leaves_out_what_is_not_known() {
    with_report(&small(), |report| {
        let json = json::summary(report);
        assert_eq!(
            (&json["version"], &json["tasks"], &json["run"]),
            (&1.into(), &5.into(), &4.into())
        );
        assert_eq!((&json["failed"], &json["id"]), (&1.into(), &"20270115-080000.000-42".into()));
        close(json["utilisation"].as_f64().unwrap(), 0.875);
        close(json["critical_path_s"].as_f64().unwrap(), 5.5);
        for absent in [
            "local_share",
            "cache_hit",
            "staged_files",
            "staged_bytes",
            "placed",
            "placements",
            "metadata_ops_per_task",
            "run_file_system_ops_per_task",
        ] {
            assert!(json.get(absent).is_none(), "{absent}");
        }
    });
}

#[test]
fn several_nodes_have_a_local_share() {
    let mut journal = Journal::begin(2);
    journal.node(1, "second", 2);
    journal.task(0, "a", r#""kind":"file","action":true"#);
    journal.task(1, "b", r#""kind":"file","action":true,"prerequisites":[0]"#);
    journal.task(2, "c", r#""kind":"file","action":true,"prerequisites":[0]"#);
    for (task, node, from_s) in [(0, 0, 0.0), (1, 0, 1.0), (2, 1, 1.0)] {
        let fields = format!(r#""task":{task},"attempt":1,"node":{node},"cores":1"#);
        journal.event("attempt_started", from_s, &fields);
        journal.event(
            "command_started",
            from_s,
            &format!(r#""command":{task},"task":{task},"words":["x"]"#),
        );
        let fields = format!(r#""command":{task},"wall_ns":1000000000"#);
        journal.event("command_ended", from_s + 1.0, &fields);
        let after = r#""after":{"modified_ns":1,"changed_ns":1,"bytes":500,"inode":1}"#;
        let fields = format!(r#""task":{task},"outcome":"done",{after}"#);
        journal.event("attempt_ended", from_s + 1.0, &fields);
    }
    end(&mut journal, 2.0);
    with_report(&journal, |report| {
        let json = json::summary(report);
        close(json["local_share"].as_f64().unwrap(), 0.5);
        close(json["page_cache_share"].as_f64().unwrap(), 1.0);
        assert!(json.get("cache_hit").is_none(), "nothing was measured");
        close(json["nodes"][1]["utilisation"].as_f64().unwrap(), 0.25);
        close(json["utilisation"].as_f64().unwrap(), 3.0 / 8.0);
    });
}

#[test]
fn a_released_node_offers_its_cores_until_then() {
    let mut journal = Journal::begin(2);
    journal.node(1, "second", 4);
    journal.task(0, "a", r#""action":true"#);
    journal.event("attempt_started", 0.0, r#""task":0,"attempt":1,"node":1,"cores":4"#);
    journal.event("attempt_ended", 1.0, r#""task":0,"outcome":"done","held_ns":[0,1000000000]"#);
    journal.task(1, "b", r#""action":true"#);
    journal.event("attempt_started", 0.0, r#""task":1,"attempt":1,"node":0,"cores":1"#);
    journal.event("attempt_ended", 10.0, r#""task":1,"outcome":"done","held_ns":[0,10000000000]"#);
    journal.event("node_gone", 2.0, r#""node":1,"reason":"it ran nothing for 1 s""#);
    end(&mut journal, 10.0);
    with_report(&journal, |report| {
        let json = json::summary(report);
        close(report.summary.available_core_s, 2.0 * 10.0 + 4.0 * 2.0);
        close(json["nodes"][1]["utilisation"].as_f64().unwrap(), 0.5);
        close(json["utilisation"].as_f64().unwrap(), 14.0 / 28.0);
    });
}

#[test]
fn an_attempt_with_several_nodes_uses_its_cores_on_each() {
    let mut journal = Journal::begin(2);
    journal.node(1, "second", 4);
    journal.task(0, "mpi", r#""action":true"#);
    journal.task(1, "beside", r#""action":true"#);
    let fields = r#""task":0,"attempt":1,"node":1,"cores":3,"elsewhere":[[0,2]]"#;
    journal.event("attempt_started", 0.0, fields);
    journal.event("attempt_started", 0.0, r#""task":1,"attempt":1,"node":1,"cores":1"#);
    for (task, to_s) in [(0, 2.0), (1, 1.0)] {
        let held = format!(r#""task":{task},"outcome":"done","held_ns":[0,{}]"#, to_s * 1e9);
        journal.event("attempt_ended", to_s, &held);
    }
    end(&mut journal, 2.0);
    with_report(&journal, |report| {
        let summary = &report.summary;
        close(summary.core_s, 5.0 * 2.0 + 1.0);
        close(summary.held_core_s, 5.0 * 2.0 + 1.0);
        let of_nodes: Vec<f64> = summary.nodes.iter().map(|node| node.core_s).collect();
        assert_eq!(of_nodes, [4.0, 7.0]);
        let mut lanes: Vec<_> =
            summary.pieces.iter().map(|piece| (piece.node, piece.lane, piece.cores)).collect();
        lanes.sort_unstable();
        assert_eq!(lanes, [(0, 0, 2), (1, 0, 3), (1, 3, 1)]);
        let json = json::summary(report);
        close(json["nodes"][0]["utilisation"].as_f64().unwrap(), 1.0);
        close(json["utilisation"].as_f64().unwrap(), 11.0 / 12.0);
    });
}

#[test]
fn what_was_noted_of_input_and_metadata_is_summed_up() {
    let mut journal = Journal::begin(2);
    journal.node(1, "second", 2);
    journal.task(0, "src", r#""kind":"file","action":false,"bytes":1000"#);
    journal.task(1, "a", r#""kind":"file","action":true,"prerequisites":[0]"#);
    journal.task(2, "b", r#""kind":"file","action":true,"prerequisites":[0]"#);
    for (task, local, resident) in [(1, 1000, 500), (2, 0, 0)] {
        let fields = format!(r#""task":{task},"attempt":1,"node":{},"cores":1"#, task - 1);
        journal.event("attempt_started", 0.0, &fields);
        let fields = format!(r#""command":{task},"task":{task},"words":["x"]"#);
        journal.event("command_started", 0.0, &fields);
        journal.event("command_ended", 1.0, &format!(r#""command":{task},"wall_ns":1000000000"#));
        let inputs = format!(
            r#""placed_bytes":1000,"local_bytes":{local},"measured_bytes":800,"resident_bytes":{resident}"#
        );
        let fields = format!(r#""task":{task},"outcome":"done","inputs":{{{inputs}}}"#);
        journal.event("attempt_ended", 1.0, &fields);
    }
    let fields = r#""task":0,"from":0,"to":1,"companions":2,"bytes":1500,"took_ns":9"#;
    journal.event("file_staged", 1.0, fields);
    let fields = r#""task":1,"from":1,"to":0,"bytes":500,"took_ns":9"#;
    journal.event("file_staged", 1.0, fields);
    let calls = r#""metadata_operations":9,"run_file_system_operations":5"#;
    journal.event("run_ended", 1.0, &format!(r#""how":"done","executed":2,{calls}"#));
    with_report(&journal, |report| {
        let json = json::summary(report);
        assert_eq!([&json["staged_files"], &json["staged_bytes"]], [4, 2000]);
        assert!(text::text(report).contains("4 files, 2.00 kB, from host to host"));
        close(json["local_share"].as_f64().unwrap(), 0.5);
        close(json["cache_hit"].as_f64().unwrap(), 500.0 / 1600.0);
        close(json["metadata_ops_per_task"].as_f64().unwrap(), 4.5);
        close(json["run_file_system_ops_per_task"].as_f64().unwrap(), 2.5);
        let text = text::text(report);
        assert!(
            text.contains("50.0 % of 2.00 kB was on the node that read it; 31.2 % of"),
            "{text}"
        );
        let (first, calls) = text.trim_end().rsplit_once('\n').unwrap();
        assert_eq!(
            calls,
            "metadata calls on the run's file system: 2.5 per task, by hub and agents"
        );
        assert!(!first.contains("metadata"), "{text}");
        let page = html::page(report);
        let (figures, rest) = page.split_once("<h2 id=\"nodes\">").unwrap();
        assert!(rest.contains("2.5 per task, by hub and agents") && !figures.contains("etadata"));
    });
}

#[test]
fn tasks_placed_by_what_is_known_of_nodes_are_counted_by_rule_and_way() {
    let mut journal = Journal::begin(4);
    journal.rule(0, "Rakefile:3");
    for task in 0..5 {
        journal.task(task, &format!("{task}.raw"), r#""kind":"file","action":true,"rule":0"#);
    }
    let chosen = |journal: &mut Journal, at_s: f64, task: u32, attempt: u32, fields: &str| {
        let begun = format!(r#""task":{task},"attempt":{attempt},"node":0,"cores":1"#);
        journal.event("attempt_started", at_s, &begun);
        let chosen = format!(r#""task":{task},"attempt":{attempt},"node":0{fields},"values":{{}}"#);
        journal.event("node_chosen", at_s, &chosen);
    };
    let both = r#","condition":"mem_free > 1 && load1 < 2","prefer":"-load1""#;
    for task in 0..2 {
        chosen(&mut journal, 0.0, task, 1, both);
    }
    // What was tried again was placed once, as it was in the end.
    chosen(&mut journal, 0.0, 2, 1, both);
    journal.event("attempt_ended", 0.5, r#""task":2,"outcome":"failed","retried":true"#);
    chosen(&mut journal, 0.5, 2, 2, r#","prefer":"threads""#);
    journal.event("attempt_started", 0.0, r#""task":3,"attempt":1,"node":0,"cores":1"#);
    for task in 0..4 {
        journal.event("attempt_ended", 1.0, &format!(r#""task":{task},"outcome":"done""#));
    }
    end(&mut journal, 1.0);
    with_report(&journal, |report| {
        let json = json::summary(report);
        assert_eq!(json["placed"], 3);
        let ways = serde_json::json!([
            {"rule": "*.raw", "tasks": 2, "where": "mem_free > 1 && load1 < 2", "prefer": "-load1"},
            {"rule": "*.raw", "tasks": 1, "prefer": "threads"},
        ]);
        assert_eq!(json["placements"], ways);
        let text = text::text(report);
        assert!(text.contains("placement        3 tasks by what is known of nodes\n"), "{text}");
        let row = text.lines().find(|line| line.starts_with("*.raw") && line.contains("where"));
        let words = row.unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words, "*.raw 2 where mem_free > 1 && load1 < 2, prefer -load1");
        let page = html::page(report);
        assert!(page.contains("<a href=\"#placements\">"), "{page}");
        assert!(
            page.contains("<td class=\"name\">mem_free &gt; 1 &amp;&amp; load1 &lt; 2</td>"),
            "{page}"
        );
    });
}

#[test]
fn a_journal_that_does_not_tell_file_systems_apart_has_no_calls_on_that_of_the_run() {
    let mut journal = Journal::begin(2);
    journal.task(0, "a", r#""kind":"file","action":true"#);
    journal.event("attempt_started", 0.0, r#""task":0,"attempt":1,"node":0,"cores":1"#);
    journal.event("attempt_ended", 1.0, r#""task":0,"outcome":"done""#);
    journal.event("run_ended", 1.0, r#""how":"done","executed":1,"metadata_operations":9"#);
    with_report(&journal, |report| {
        let json = json::summary(report);
        close(json["metadata_ops_per_task"].as_f64().unwrap(), 9.0);
        assert!(json.get("run_file_system_ops_per_task").is_none());
        assert!(!text::text(report).contains("metadata"));
    });
}
