//! The agent with real processes: what is asked for is started, what it does is reported.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rakuda_agent::{Agent, AgentConfig, StdinSource};
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentEvent, AgentRequest, CommandId, OutputDescriptor, RoundStop};
use rakuda_proto::front::{
    CommandOptions, GateChoice, GateKind, GateOptions, OpenMode, Program, RedirectTarget,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// What became of a command.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    stdout: String,
    stderr: String,
    status: i32,
    captured: Option<String>,
    error: Option<String>,
}

fn line(text: &str) -> Program {
    Program::Line(Text::from(text))
}

fn words(words: &[&str]) -> Program {
    Program::Words(words.iter().map(|word| Text::from(*word)).collect())
}

fn options(change: impl FnOnce(&mut CommandOptions)) -> CommandOptions {
    let mut options = CommandOptions::default();
    change(&mut options);
    options
}

/// Runs `test` with an agent in a fresh directory.
fn with_agent<F: Future<Output = ()>>(
    name: &str,
    test: impl FnOnce(Agent, UnboundedReceiver<AgentEvent>, PathBuf) -> F,
) {
    let directory = std::env::temp_dir().join(format!("rakuda-{name}-{}", std::process::id()));
    // Of a process that had this number before and did not come to its end.
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let (sender, events) = unbounded_channel();
        let config = AgentConfig {
            directory: directory.clone(),
            stdin: StdinSource::Null,
            collect_output: true,
            join_group: None,
        };
        test(Agent::new(config, sender).unwrap(), events, directory.clone()).await;
    });
    std::fs::remove_dir_all(&directory).unwrap();
}

async fn outcome_of(
    agent: &Agent,
    events: &mut UnboundedReceiver<AgentEvent>,
    program: Program,
    options: Option<Box<CommandOptions>>,
) -> Outcome {
    agent.handle(AgentRequest::Start { command: CommandId(1), program, options });
    let mut outcome = Outcome::default();
    loop {
        match events.recv().await.unwrap() {
            AgentEvent::OutputWritten { descriptor, bytes, .. } => {
                let text = String::from_utf8(bytes).unwrap();
                match descriptor {
                    OutputDescriptor::Stdout => outcome.stdout += &text,
                    OutputDescriptor::Stderr => outcome.stderr += &text,
                }
            }
            AgentEvent::CommandExited { status, captured, error, .. } => {
                outcome.status = status;
                outcome.captured = captured.map(|text| text.to_display());
                outcome.error = error.map(|text| text.to_display());
                return outcome;
            }
            AgentEvent::OutputEnded { .. }
            | AgentEvent::MemoryEnforced { .. }
            | AgentEvent::ClockSet { .. }
            | AgentEvent::CommandReady { .. }
            | AgentEvent::CommandBegun { .. }
            | AgentEvent::CommandWithdrawn { .. }
            | AgentEvent::CoreKept { .. }
            | AgentEvent::CoreFreed { .. }
            | AgentEvent::CommandPassed { .. }
            | AgentEvent::Streams(_) => {}
        }
    }
}

#[test]
fn what_a_command_writes_and_how_it_ends_is_reported() {
    with_agent("ends", |agent, mut events, _| async move {
        let outcome = outcome_of(&agent, &mut events, line("echo out; echo err >&2; exit 3"), None);
        let outcome = outcome.await;
        assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("out\n", "err\n"));
        assert_eq!(outcome.status, 3 << 8);
        let outcome = outcome_of(&agent, &mut events, line("kill -KILL $$"), None).await;
        assert_eq!(outcome.status, libc::SIGKILL);
    });
}

#[test]
fn more_output_than_a_pipe_holds_arrives_whole() {
    with_agent("much", |agent, mut events, _| async move {
        let program = line("head -c 3000000 /dev/zero | tr '\\0' x; head -c 500000 /dev/zero >&2");
        let outcome = outcome_of(&agent, &mut events, program, None).await;
        assert_eq!((outcome.stdout.len(), outcome.stderr.len()), (3_000_000, 500_000));
    });
}

#[test]
fn a_command_that_cannot_be_started_says_why() {
    with_agent("missing", |agent, mut events, directory| async move {
        let outcome = outcome_of(&agent, &mut events, line("no-such-command x"), None).await;
        assert_eq!(outcome.status, 127 << 8);
        assert!(outcome.error.unwrap().contains("no-such-command"));
        let file = directory.join("plain").to_string_lossy().into_owned();
        std::fs::write(&file, "").unwrap();
        let outcome = outcome_of(&agent, &mut events, words(&[file.as_str()]), None).await;
        assert!(outcome.error.unwrap().contains("Permission denied"));
    });
}

#[test]
fn redirections_directory_and_environment_are_as_asked() {
    with_agent("options", |agent, mut events, directory| async move {
        std::fs::create_dir(directory.join("sub")).unwrap();
        std::fs::write(directory.join("sub/in"), "input").unwrap();
        agent.handle(AgentRequest::DefineEnvironment {
            environment: 7,
            set: BTreeMap::from([(Text::from("X_TEST"), Text::from("value"))]),
            unset: vec![Text::from("HOME")],
        });
        let file = |path: &str, mode| RedirectTarget::File(Text::from(path), mode, 0o644);
        let options = options(|options| {
            options.directory = Some(Text::from("sub"));
            options.environment = 7;
            options.umask = Some(0o077);
            options.redirects = vec![
                (0, file("in", OpenMode::Read)),
                (1, file("out", OpenMode::Write)),
                (2, RedirectTarget::Fd(1)),
            ];
        });
        let program = line("cat; echo \" $X_TEST ${HOME-none} $PWD\" >&2; umask");
        let outcome = outcome_of(&agent, &mut events, program, Some(Box::new(options))).await;
        assert_eq!((outcome.status, outcome.error), (0, None));
        assert_eq!(outcome.stdout + &outcome.stderr, "");
        let written = std::fs::read_to_string(directory.join("sub/out")).unwrap();
        let folder = directory.join("sub");
        assert_eq!(written, format!("input value none {}\n0077\n", folder.display()));
    });
}

#[test]
fn captured_output_comes_with_the_exit() {
    with_agent("capture", |agent, mut events, _| async move {
        let options = options(|options| options.capture = true);
        let outcome =
            outcome_of(&agent, &mut events, line("echo a; echo b >&2"), Some(Box::new(options)))
                .await;
        assert_eq!(outcome.captured.as_deref(), Some("a\n"));
        assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("", "b\n"));
    });
}

#[test]
fn a_script_without_an_interpreter_line_is_run_by_the_shell() {
    with_agent("script", |agent, mut events, _| async move {
        // Written by a process that has ended: what this one has open for writing, a process that another thread
        // starts meanwhile has open, too, until it executes its program; and such a file is not executed.
        let writing = line(r#"echo 'echo "script $1"' > script; chmod 755 script"#);
        assert_eq!(outcome_of(&agent, &mut events, writing, None).await, Outcome::default());
        let outcome = outcome_of(&agent, &mut events, words(&["./script", "a b"]), None).await;
        assert_eq!(outcome.stdout, "script a b\n");
    });
}

#[test]
fn what_a_left_over_child_writes_is_not_given_to_the_next_command() {
    with_agent("linger", |agent, mut events, directory| async move {
        let fifo = directory.join("gate");
        let program = line("mkfifo gate; (read x < gate; echo late) & echo early");
        agent.handle(AgentRequest::Start { command: CommandId(5), program, options: None });
        let mut seen = BTreeMap::<u32, String>::new();
        let mut next_started = false;
        while seen.get(&5).is_none_or(|text| !text.contains("late")) {
            match events.recv().await.unwrap() {
                AgentEvent::OutputWritten { command, bytes, .. } => {
                    seen.entry(command.0).or_default().push_str(&String::from_utf8_lossy(&bytes));
                }
                AgentEvent::CommandExited { command: CommandId(5), .. } if !next_started => {
                    next_started = true;
                    let program = line("echo next; echo go > gate");
                    let command = CommandId(6);
                    agent.handle(AgentRequest::Start { command, program, options: None });
                }
                AgentEvent::CommandExited { .. }
                | AgentEvent::OutputEnded { .. }
                | AgentEvent::MemoryEnforced { .. }
                | AgentEvent::ClockSet { .. }
                | AgentEvent::CommandReady { .. }
                | AgentEvent::CommandBegun { .. }
                | AgentEvent::CommandWithdrawn { .. }
                | AgentEvent::CoreKept { .. }
                | AgentEvent::CoreFreed { .. }
                | AgentEvent::CommandPassed { .. }
                | AgentEvent::Streams(_) => {}
            }
        }
        assert!(fifo.exists());
        assert_eq!(seen[&5], "early\nlate\n");
        assert!(seen.get(&6).is_none_or(|text| text == "next\n"));
    });
}

#[test]
fn a_signal_reaches_the_whole_process_group() {
    with_agent("group", |agent, mut events, _| async move {
        let program = line("sleep 1000 & echo started; wait; echo not reached");
        agent.handle(AgentRequest::Start { command: CommandId(1), program, options: None });
        let started = events.recv().await.unwrap();
        assert!(matches!(started, AgentEvent::OutputWritten { .. }));
        agent.handle(AgentRequest::Signal { command: CommandId(1), signal: libc::SIGTERM });
        let ended = events.recv().await.unwrap();
        let AgentEvent::CommandExited { status, .. } = ended else { panic!("{ended:?}") };
        assert_eq!(status, libc::SIGTERM);
        // The sleep holds the pipe until it is gone too; then nothing is left to signal.
        while agent.signal_all(0) > 0 {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn memory_is_told_only_where_it_is_the_commands_own() {
    with_agent("memory", |agent, mut events, _| async move {
        let mut peak_kib = async |program| {
            agent.handle(AgentRequest::Start { command: CommandId(1), program, options: None });
            loop {
                let event = events.recv().await.unwrap();
                if let AgentEvent::CommandExited { usage, .. } = event {
                    return usage.max_rss_kib;
                }
            }
        };
        // This process is larger than `true`, and until exec the two are one.
        let _ours = std::hint::black_box(vec![1_u8; 32 << 20]);
        assert_eq!(peak_kib(words(&["true"])).await, 0);
        let large = words(&["dd", "if=/dev/zero", "of=/dev/null", "bs=200M", "count=1"]);
        let kib = peak_kib(large).await;
        assert!((200 << 10..300 << 10).contains(&kib), "{kib}");
    });
}

/// Two workers of a round: neither runs before it is committed, or is ended when the round is closed. Where each has a
/// processor they wait for one another, unless one is to begin after the other.
#[test]
fn workers_of_a_round_wait_until_it_begins_or_is_closed() {
    for (begins, patience_ns, offset_ns) in
        [(true, 0, 0), (true, 60_000_000_000, 0), (true, 60_000_000_000, 1_000), (false, 0, 0)]
    {
        with_agent("round", |agent, mut events, directory| async move {
            for worker in 0..2 {
                let program = line(&format!("echo {worker} > began{worker}"));
                let offset_ns = offset_ns * i64::from(worker);
                let gate =
                    Some(GateOptions { round: 3, worker, offset_ns, ..GateOptions::default() });
                let options = Some(Box::new(options(|options| options.gate = gate)));
                agent.handle(AgentRequest::Start { command: CommandId(worker), program, options });
            }
            for _ in 0..2 {
                let event = events.recv().await.unwrap();
                assert!(matches!(event, AgentEvent::CommandReady { .. }), "{event:?}");
            }
            assert!(!directory.join("began0").exists() && !directory.join("began1").exists());
            let t0_ns = rakuda_agent::clock::machine_ns() + 5_000_000;
            let (spin_ns, stop) = (100_000, None);
            agent.handle(if begins {
                AgentRequest::CommitRound { round: 3, t0_ns, spin_ns, patience_ns, stop }
            } else {
                AgentRequest::CloseRound { round: 3 }
            });
            let (mut passed, mut ended) = (Vec::new(), Vec::new());
            while ended.len() < 2 {
                match events.recv().await.unwrap() {
                    AgentEvent::CommandPassed { command, gate, stamps } => {
                        assert!(stamps.start_ns >= t0_ns && gate == GateKind::Shell);
                        let waits = stamps.spins && patience_ns > 0 && offset_ns == 0;
                        assert_eq!(stamps.has_met, waits);
                        assert!(!ended.iter().any(|(one, _)| *one == command));
                        passed.push(command);
                    }
                    AgentEvent::CommandExited { command, status, .. } => {
                        ended.push((command, status));
                    }
                    // It comes when the end of the output was seen after that of the command.
                    AgentEvent::OutputEnded { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
            let expected = if begins { (2, 0) } else { (0, 75 << 8) };
            assert!(ended.iter().all(|(_, status)| *status == expected.1), "{ended:?}");
            assert_eq!((passed.len(), directory.join("began0").exists()), (expected.0, begins));
        });
    }
}

/// A worker that is stopped beyond the instant is waited for, where each has a processor; else the other has begun.
#[test]
fn workers_of_a_round_wait_for_one_that_sleeps_too_long() {
    with_agent("meet", |agent, mut events, directory| async move {
        for worker in 0..2 {
            let program = line(&format!("echo > began{worker}"));
            let gate = Some(GateOptions { round: 3, worker, ..GateOptions::default() });
            let options = Some(Box::new(options(|options| options.gate = gate)));
            agent.handle(AgentRequest::Start { command: CommandId(worker), program, options });
        }
        for _ in 0..2 {
            let event = events.recv().await.unwrap();
            assert!(matches!(event, AgentEvent::CommandReady { .. }), "{event:?}");
        }
        let command = CommandId(1);
        agent.handle(AgentRequest::Signal { command, signal: libc::SIGSTOP });
        let t0_ns = rakuda_agent::clock::machine_ns() + 5_000_000;
        let (spin_ns, patience_ns) = (100_000, 60_000_000_000);
        agent.handle(AgentRequest::CommitRound {
            round: 3,
            t0_ns,
            spin_ns,
            patience_ns,
            stop: None,
        });
        while rakuda_agent::clock::machine_ns() < t0_ns + 10_000_000 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        let continued_ns = rakuda_agent::clock::machine_ns();
        assert!(!directory.join("began1").exists());
        agent.handle(AgentRequest::Signal { command, signal: libc::SIGCONT });
        // Until both have ended: they make files in the folder.
        let (mut passed, mut ended) = (Vec::new(), 0);
        while ended < 2 {
            match events.recv().await.unwrap() {
                AgentEvent::CommandPassed { stamps, .. } => passed.push(stamps),
                AgentEvent::CommandExited { status, .. } => {
                    assert_eq!(status, 0);
                    ended += 1;
                }
                _ => {}
            }
        }
        assert_eq!(passed.len(), 2);
        for stamps in passed {
            assert_eq!(stamps.has_met, stamps.spins);
            assert!(!stamps.has_met || stamps.start_ns > continued_ns, "{stamps:?}");
        }
    });
}

/// At the time that is set for all, by the agent's own clock: what ends by SIGTERM ends well, what does not is killed.
#[test]
fn workers_of_a_round_are_ended_together() {
    with_agent("stop", |agent, mut events, _| async move {
        // The second comes to the gate by itself when it does not heed SIGTERM any more.
        let deaf = r"trap '' TERM; printf '\001\000\000\000' > /proc/self/fd/197; while :; do sleep 0.01; done";
        let workers = [("exec sleep 600", GateChoice::Auto), (deaf, GateChoice::Call)];
        for (worker, (text, hold)) in (0..).zip(workers) {
            let gate = Some(GateOptions { round: 1, worker, hold, ..GateOptions::default() });
            let options = Some(Box::new(options(|options| options.gate = gate)));
            let (command, program) = (CommandId(worker), line(text));
            agent.handle(AgentRequest::Start { command, program, options });
        }
        for _ in 0..2 {
            let event = events.recv().await.unwrap();
            assert!(matches!(event, AgentEvent::CommandReady { .. }), "{event:?}");
        }
        let t0_ns = rakuda_agent::clock::machine_ns();
        // Enough for a process that ends by SIGTERM to have ended by then, even on a busy machine.
        let stop = Some(RoundStop { after_ns: 100_000_000, grace_ns: 1_500_000_000 });
        agent.handle(AgentRequest::CommitRound {
            round: 1,
            t0_ns,
            spin_ns: 0,
            patience_ns: 0,
            stop,
        });
        let mut ended = std::collections::BTreeMap::new();
        while ended.len() < 2 {
            if let AgentEvent::CommandExited { command, status, error, .. } =
                events.recv().await.unwrap()
            {
                ended.insert(command.0, (status, error.map(|error| error.to_display())));
            }
        }
        assert!(rakuda_agent::clock::machine_ns() >= t0_ns + 1_600_000_000);
        assert_eq!(ended[&0], (0, None));
        let (status, error) = &ended[&1];
        assert_eq!(*status, libc::SIGKILL);
        assert!(error.as_ref().unwrap().contains("did not end within 1.5 s of the stop"));
    });
}

/// What an agent says of prepared commands and of ends, without numbers.
async fn told(
    events: &mut UnboundedReceiver<AgentEvent>,
    count: usize,
) -> Vec<(&'static str, u32)> {
    let mut told = Vec::new();
    while told.len() < count {
        told.push(match events.recv().await.unwrap() {
            // It comes when the end of the output was seen after that of the command.
            AgentEvent::OutputEnded { .. } => continue,
            AgentEvent::CommandBegun { command } => ("begun", command.0),
            AgentEvent::CommandWithdrawn { command } => ("withdrawn", command.0),
            AgentEvent::CoreKept { command } => ("kept", command.0),
            AgentEvent::CoreFreed { command } => ("freed", command.0),
            AgentEvent::CommandExited { command, .. } => ("exited", command.0),
            event => panic!("{event:?}"),
        });
    }
    told
}

#[test]
fn a_prepared_command_begins_when_one_before_it_has_ended_well() {
    with_agent("prepared", |agent, mut events, directory| async move {
        let start = |number, text| {
            let command = CommandId(number);
            agent.handle(AgentRequest::FreesCore { command });
            agent.handle(AgentRequest::Start { command, program: line(text), options: None });
        };
        let prepare = |number, text| {
            let (command, program) = (CommandId(number), line(text));
            agent.handle(AgentRequest::Prepare { command, program, options: None, freed: 0 });
        };
        start(1, "until test -e go; do sleep 0.01; done");
        prepare(2, "touch second");
        prepare(3, "touch third");
        agent.handle(AgentRequest::Withdraw { command: CommandId(3) });
        assert_eq!(told(&mut events, 1).await, [("withdrawn", 3)]);
        assert!(!directory.join("second").exists());
        std::fs::write(directory.join("go"), "").unwrap();
        let all = [("freed", 1), ("exited", 1), ("begun", 2), ("freed", 2), ("exited", 2)];
        assert_eq!(told(&mut events, all.len()).await, all);
        assert!(directory.join("second").exists());
        prepare(4, "exit 3");
        let all = [("begun", 4), ("exited", 4)];
        assert_eq!(told(&mut events, 2).await, all, "the hub had not heard of the core of 2");
        start(5, "until test -e on; do sleep 0.01; done");
        agent.handle(AgentRequest::KeepCore { command: CommandId(5) });
        assert_eq!(told(&mut events, 1).await, [("kept", 5)]);
        let (command, program) = (CommandId(6), line("true"));
        agent.handle(AgentRequest::Prepare { command, program, options: None, freed: 2 });
        std::fs::write(directory.join("on"), "").unwrap();
        assert_eq!(told(&mut events, 1).await, [("exited", 5)]);
        agent.handle(AgentRequest::Release);
        let all = [("begun", 6), ("freed", 6), ("exited", 6)];
        assert_eq!(told(&mut events, 3).await, all);
        prepare(7, "true");
        prepare(8, "true");
        assert_eq!(told(&mut events, 3).await, [("begun", 7), ("freed", 7), ("exited", 7)]);
        agent.signal_all(libc::SIGTERM);
        assert!(!directory.join("third").exists());
    });
}
