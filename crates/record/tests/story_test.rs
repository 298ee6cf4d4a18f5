//! Stories and reasons of tasks, from journals as lines.

use rakuda_proto::journal::{Outcome, ReasonKind};
use rakuda_record::Run;
use rakuda_record::find::find_task;
use rakuda_record::story::{Fate, What, story};
use rakuda_record::why::why;

/// Three tasks in a row: `c` is made from `b`, `b` from `a`; then `more` lines.
fn run(more: &[&str]) -> Run {
    let before = [
        r#""run_started","version":2,"time_ns":0,"run":"r""#,
        r#""node_joined","time_ns":0,"node":0,"name":"here","cores":2,"memory_bytes":9"#,
        r#""rule_defined","rule":3,"location":"Rakefile:7""#,
        r#""task_defined","task":0,"name":"a","kind":"file","rule":3,"action":true"#,
        r#""task_defined","task":1,"name":"b","kind":"file","rule":3,"prerequisites":[0],"action":true"#,
        r#""task_defined","task":2,"name":"c","kind":"file","order_only":[1],"action":true"#,
    ];
    let lines = before.iter().chain(more).map(|line| format!("{{\"event\":{line}}}\n"));
    let run = Run::read(lines.collect::<String>().as_bytes()).unwrap();
    assert_eq!(run.skipped.damaged, 0);
    run
}

fn fate(run: &Run, name: &str) -> Fate {
    story(run, find_task(run, &name.into()).unwrap()).unwrap().fate
}

const A_BEGINS: &str = r#""attempt_started","time_ns":10,"task":0,"attempt":1,"node":0,"cores":1"#;
const A_DONE: &str = r#""attempt_ended","time_ns":20,"task":0,"outcome":"done""#;
const B_BEGINS: &str = r#""attempt_started","time_ns":30,"task":1,"attempt":1,"node":0,"cores":2,"reasons":[{"kind":"newer","path":"a","by_ns":5}]"#;
const STOP: &str = r#""stop_requested","time_ns":35,"how":"interrupt""#;

#[test]
fn attempt_without_an_end_is_unfinished_and_the_story_says_that_the_run_was_cut_off() {
    let run = run(&[A_BEGINS, A_DONE, B_BEGINS]);
    assert_eq!([fate(&run, "a"), fate(&run, "b")], [Fate::Executed, Fate::Unfinished]);
    assert_eq!(fate(&run, "c"), Fate::NotReached);
    let told = story(&run, 1).unwrap();
    assert_eq!(told.location, Some("Rakefile:7".into()));
    let times: Vec<i64> = told.happenings.iter().map(|happening| happening.time_ns).collect();
    assert_eq!(times, [20, 30, 30]);
    assert_eq!(told.happenings[0].what, What::Ready { after: "a".into() });
    let What::AttemptStarted { attempt: 1, cores: 2, node, .. } = &told.happenings[1].what else {
        panic!("{told:?}")
    };
    assert_eq!(node, &"here".into());
    assert_eq!(told.happenings[2].what, What::RunEnded { how: None });
}

#[test]
fn stop_is_part_of_the_stories_of_those_that_were_not_done() {
    let aborted = r#""attempt_ended","time_ns":40,"task":1,"outcome":"aborted","target":"left""#;
    let ended = r#""run_ended","time_ns":50,"how":"stopped""#;
    let run = run(&[A_BEGINS, A_DONE, B_BEGINS, STOP, aborted, ended]);
    let stop = What::StopRequested { how: "interrupt".into() };
    let has_stop = |task| story(&run, task).unwrap().happenings.iter().any(|h| h.what == stop);
    assert_eq!([has_stop(0), has_stop(1), has_stop(2)], [false, true, true]);
    assert_eq!([fate(&run, "b"), fate(&run, "c")], [Fate::Unfinished, Fate::NotReached]);
}

#[test]
fn lost_node_is_told_with_the_attempt_that_it_took() {
    let lost = r#""node_lost","time_ns":38,"node":0"#;
    let ended = r#""attempt_ended","time_ns":40,"task":1,"outcome":"lost","retried":true"#;
    let run = run(&[A_BEGINS, A_DONE, B_BEGINS, lost, ended]);
    let told = story(&run, 1).unwrap();
    let lost = told.happenings.iter().find(|h| matches!(h.what, What::NodeLost { .. }));
    assert_eq!(lost.unwrap().time_ns, 38);
    assert_eq!(told.fate, Fate::Unfinished, "another attempt was to follow");
}

#[test]
fn files_that_were_brought_are_told_with_the_attempt_that_they_were_brought_for() {
    let joined = r#""node_joined","time_ns":1,"node":1,"name":"host1","cores":2,"memory_bytes":9"#;
    let begins = r#""attempt_started","time_ns":30,"task":1,"attempt":1,"node":1,"cores":2"#;
    let staged = |time_ns: i64, task: u32, to: u32, more: &str| {
        format!(
            r#""file_staged","time_ns":{time_ns},"task":{task},"from":0,"to":{to}{more},"bytes":7,"took_ns":3"#
        )
    };
    let (input, early) = (staged(32, 0, 1, r#","companions":2"#), staged(29, 0, 1, ""));
    let (elsewhere, own) = (staged(33, 0, 0, ""), staged(41, 1, 0, ""));
    let ended = r#""attempt_ended","time_ns":40,"task":1,"outcome":"done""#;
    let run = run(&[A_BEGINS, A_DONE, joined, &early, begins, &input, &elsewhere, ended, &own]);
    let told = story(&run, 1).unwrap().happenings;
    let told: Vec<&What> = told
        .iter()
        .map(|h| &h.what)
        .filter(|what| matches!(what, What::FileStaged { .. }))
        .collect();
    let of = |file: Option<&str>, secondary, to: &str| What::FileStaged {
        file: file.map(Into::into),
        secondary,
        from: Some("here".into()),
        to: Some(to.into()),
        bytes: 7,
        took_ns: 3,
    };
    assert_eq!(told, [&of(Some("a"), 2, "host1"), &of(None, 0, "here")]);
}

#[test]
fn task_that_took_nodes_down_is_told_with_their_names() {
    let lost = r#""attempt_ended","time_ns":40,"task":1,"outcome":"lost""#;
    let blamed = r#""task_blamed","time_ns":39,"task":1,"nodes":[0,7]"#;
    let settled = r#""task_settled","time_ns":39,"task":1,"how":"failed""#;
    let run = run(&[A_BEGINS, A_DONE, B_BEGINS, blamed, settled, lost]);
    let told = story(&run, 1).unwrap();
    let nodes = vec!["here".into(), "node 7".into()];
    assert!(told.happenings.iter().any(|h| h.what == What::Blamed { nodes: nodes.clone() }));
    assert_eq!(told.fate, Fate::Failed);
    let of_others = story(&run, 0).unwrap();
    assert!(!of_others.happenings.iter().any(|h| matches!(h.what, What::Blamed { .. })));
}

#[test]
fn file_that_went_with_a_node_is_the_reason_why_its_task_ran_again() {
    let reopened = r#""task_reopened","time_ns":31,"task":0"#;
    let again = r#""attempt_started","time_ns":32,"task":0,"attempt":2,"node":0,"cores":1,"reasons":[{"kind":"lost","path":"a"}]"#;
    let open = self::run(&[A_BEGINS, A_DONE, reopened]);
    assert_eq!(fate(&open, "a"), Fate::Unfinished, "what it made is gone");
    let came_back = r#""task_settled","time_ns":33,"task":0,"how":"not_needed""#;
    let kept = self::run(&[A_BEGINS, A_DONE, reopened, came_back]);
    assert_eq!(fate(&kept, "a"), Fate::Executed);
    let run = self::run(&[A_BEGINS, A_DONE, reopened, again]);
    let told = story(&run, 0).unwrap();
    assert!(told.happenings.iter().any(|h| (h.time_ns, &h.what) == (31, &What::Reopened)));
    let kinds: Vec<_> = why(&run, 0).unwrap().reasons.iter().map(|reason| reason.kind).collect();
    assert_eq!(kinds.last(), Some(&ReasonKind::Lost));
}

#[test]
fn what_a_whole_run_says_nothing_of_was_up_to_date() {
    let run = run(&[A_BEGINS, A_DONE, r#""run_ended","time_ns":50,"how":"done""#]);
    assert_eq!([fate(&run, "b"), fate(&run, "c")], [Fate::UpToDate, Fate::UpToDate]);
    let why = why(&run, 1).unwrap();
    assert_eq!((why.ran, why.reasons.len(), why.chain.len()), (false, 0, 0));
}

#[test]
fn only_prerequisites_that_ran_in_the_run_are_followed() {
    let run = run(&[B_BEGINS]);
    assert!(why(&run, 1).unwrap().chain.is_empty(), "a was changed before the run");
    let run = self::run(&[A_BEGINS, A_DONE, B_BEGINS]);
    let why = why(&run, 1).unwrap();
    assert_eq!(why.chain.iter().map(|step| step.task.to_display()).collect::<Vec<_>>(), ["a"]);
}

#[test]
fn abandoned_task_leads_to_what_failed_in_the_end() {
    let failed = r#""attempt_ended","time_ns":20,"task":0,"outcome":"failed","message":"no luck""#;
    let run = run(&[
        A_BEGINS,
        failed,
        r#""task_settled","time_ns":21,"task":1,"how":"abandoned","because":[0]"#,
        r#""task_settled","time_ns":21,"task":2,"how":"abandoned","because":[1]"#,
    ]);
    let why = why(&run, 2).unwrap();
    assert_eq!((why.fate, why.because.clone()), (Fate::Abandoned, vec!["b".into()]));
    let step = &why.chain[0];
    assert_eq!((step.task.to_display(), step.depth), ("a".to_owned(), 2));
    assert_eq!(step.message, Some("no luck".into()));
    assert_eq!(why.chain.len(), 1);
}

#[test]
fn an_attempt_that_makes_another_good_says_which_and_how_that_ended() {
    let failed = r#""attempt_ended","time_ns":40,"task":1,"outcome":"failed","retried":true"#;
    let again = r#""attempt_started","time_ns":41,"task":1,"attempt":2,"node":0,"cores":2,"reasons":[{"kind":"missing"}]"#;
    let run = run(&[A_BEGINS, A_DONE, B_BEGINS, failed, again]);
    let told = story(&run, 1).unwrap().happenings;
    let after = told.iter().filter_map(|happening| match happening.what {
        What::AttemptStarted { after, .. } => Some(after),
        _ => None,
    });
    assert_eq!(after.collect::<Vec<_>>(), [None, Some((1, Outcome::Failed))]);
}

#[test]
fn a_command_in_an_environment_is_the_users_own_also_in_older_journals() {
    let told = |command: &str| {
        let command = format!(r#""command_started","time_ns":31,"command":0,"task":1,{command}"#);
        let happenings =
            story(&run(&[A_BEGINS, A_DONE, B_BEGINS, &command]), 1).unwrap().happenings;
        let started = happenings.into_iter().find_map(|happening| match happening.what {
            What::CommandStarted { words, env, .. } => Some((words, env.map(|env| env.words()))),
            _ => None,
        });
        started.unwrap()
    };
    let words = |words: &[&str]| Ok(words.iter().map(|word| (*word).into()).collect());
    let now = r#""words":["fit","a b"],"env":{"kind":"venv","names":["r.txt"],"script":".rakuda/env/venv-0.sh"}"#;
    assert_eq!(told(now), (words(&["fit", "a b"]), Some("venv r.txt".into())));
    let before = r#""words":["sh","/w/.rakuda/env/venv-0.sh","--","fit","a b"]"#;
    assert_eq!(told(before), (words(&["fit", "a b"]), Some("venv".into())));
    let line = r#""words":["sh","/w/.rakuda/env/module-0.sh","fit a > b"]"#;
    assert_eq!(told(line), (Err("fit a > b".into()), Some("module".into())));
    let own = r#""words":["sh","/w/env/venv-0.sh","x"]"#;
    assert_eq!(told(own), (words(&["sh", "/w/env/venv-0.sh", "x"]), None));
}
