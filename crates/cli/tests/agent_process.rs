//! The agent as a process of its own, over a pipe: what it does for a hub, and that nothing outlives it, whichever
//! process dies.
#![allow(clippy::disallowed_methods, reason = "a test that starts the program as its users do")]

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

use rakuda_info::Time;
use rakuda_info::delta::Receiver;
use rakuda_info::table::Table;
use rakuda_info::value::Value;
use rakuda_link::credentials::Authority;
use rakuda_link::gate::Gate;
use rakuda_link::hub::{LinkEvent, LinkHandle, attach, attach_arrival};
use rakuda_link::stdio;
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentEvent, AgentRequest, CommandId};
use rakuda_proto::cluster::{AgentSettings, FromAgent, ProviderProgram, ToAgent};
use rakuda_proto::front::Program;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Notify;

/// A started agent and what it said.
struct Node {
    guard: Child,
    link: LinkHandle,
    log: Rc<Log>,
    directory: PathBuf,
}

#[derive(Default)]
struct Log {
    events: RefCell<Vec<LinkEvent>>,
    added: Notify,
}

impl Node {
    fn start(name: &str, change: impl FnOnce(&mut AgentSettings)) -> Self {
        Self::start_behind(name, None, change)
    }

    /// The same with a gate between the agent's output and the hub.
    fn start_behind(
        name: &str,
        gate: Option<Rc<Sluice>>,
        change: impl FnOnce(&mut AgentSettings),
    ) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).unwrap();
        let mut guard = Command::new(env!("CARGO_BIN_EXE_rakudad"))
            .args(["agent", "--stdio"])
            .env("FROM_AGENT", "its own")
            .env_remove("RAKUDA_RUN")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let reader = stdio::reader(OwnedFd::from(guard.stdout.take().unwrap())).unwrap();
        let reader: rakuda_link::hub::Reader = match gate {
            None => reader,
            Some(gate) => {
                let (ours, theirs) = tokio::io::duplex(64 << 10);
                tokio::task::spawn_local(copy_through(gate, reader, theirs));
                Box::new(ours)
            }
        };
        let writer = stdio::writer(OwnedFd::from(guard.stdin.take().unwrap())).unwrap();
        let mut settings = AgentSettings {
            directory: Text::from(directory.to_str().unwrap()),
            own_folder: false,
            collect_output: true,
            environment: vec![
                (Text::from("PASSED"), Text::from("on")),
                (Text::from("RAKUDA_RUN"), Text::from(format!("test-{name}"))),
            ],
            silence_ms: 10_000,
            orphan_ms: 15_000,
            ..AgentSettings::default()
        };
        change(&mut settings);
        let log = Rc::new(Log::default());
        let for_link = Rc::clone(&log);
        let link = attach(reader, writer, "run", settings, move |event| {
            for_link.events.borrow_mut().push(event);
            for_link.added.notify_one();
        });
        Self { guard, link, log, directory }
    }

    fn sh(&self, number: u32, line: &str) {
        let words = ["sh", "-c", line].map(Text::from).to_vec();
        let (command, program) = (CommandId(number), Program::Words(words));
        self.link.send(&ToAgent::Request(AgentRequest::Start { command, program, options: None }));
    }

    /// Waits until some event is what `wanted` looks for.
    async fn until<T>(&self, wanted: impl Fn(&LinkEvent) -> Option<T>) -> T {
        loop {
            if let Some(found) = self.log.events.borrow().iter().find_map(&wanted) {
                return found;
            }
            self.log.added.notified().await;
        }
    }

    /// Its report of its node with this number, from 0.
    async fn state(&self, number: usize) -> Vec<u8> {
        self.until(|_| {
            let events = self.log.events.borrow();
            let mut states = events.iter().filter_map(|event| match event {
                LinkEvent::State(state) => Some(state.clone()),
                _ => None,
            });
            states.nth(number)
        })
        .await
    }

    async fn up(&self) -> u32 {
        self.until(|event| match event {
            LinkEvent::Up(facts) => Some(facts.cores),
            LinkEvent::Lost(why) => panic!("lost: {why}"),
            LinkEvent::Message(_)
            | LinkEvent::Exchange(_)
            | LinkEvent::State(_)
            | LinkEvent::CarriedState(..) => None,
        })
        .await
    }

    async fn lost(&self) -> String {
        self.until(|event| match event {
            LinkEvent::Lost(why) => Some(why.clone()),
            _ => None,
        })
        .await
    }

    async fn exit_of(&self, number: u32) -> i32 {
        self.until(|event| match event {
            LinkEvent::Message(FromAgent::Event(AgentEvent::CommandExited {
                command,
                status,
                ..
            })) if command.0 == number => Some(*status),
            _ => None,
        })
        .await
    }

    fn output(&self) -> String {
        let mut all = Vec::new();
        for event in self.log.events.borrow().iter() {
            if let LinkEvent::Message(FromAgent::Event(AgentEvent::OutputWritten {
                bytes, ..
            })) = event
            {
                all.extend_from_slice(bytes);
            }
        }
        String::from_utf8(all).unwrap()
    }

    /// Starts processes of all sorts, and returns when all are there: below the agent, in a session
    /// of their own, as orphans, and as one without an environment.
    async fn start_family(&self) -> Vec<i32> {
        let daemon = "setsid sh -c 'trap \"\" TERM HUP; echo $$; while :; do sleep 1; done' &";
        let script = format!(
            "trap '' TERM HUP; echo $$; ({daemon}); (env -i {daemon}); while :; do sleep 1; done"
        );
        self.sh(1, &script);
        self.until(|_| (self.output().lines().count() == 3).then_some(())).await;
        self.output().lines().map(|line| line.parse().unwrap()).collect()
    }

    /// The agent below the guard, which also has orphans.
    fn agent_process(&self) -> i32 {
        let guard = self.guard.id();
        let children = std::fs::read_to_string(format!("/proc/{guard}/task/{guard}/children"));
        let name = |child: &str| std::fs::read_to_string(format!("/proc/{child}/comm"));
        let children = children.unwrap();
        let mut children = children.split_whitespace();
        let agent = children.find(|child| name(child).is_ok_and(|name| name == "rakuda-agent\n"));
        agent.unwrap().parse().unwrap()
    }

    /// Waits for the guard's end off the runtime's thread.
    async fn wait(mut self) -> i32 {
        let status = tokio::task::spawn_blocking(move || self.guard.wait().unwrap()).await.unwrap();
        std::os::unix::process::ExitStatusExt::into_raw(status)
    }
}

fn kill(process: i32, signal: Signal) {
    kill_process(Pid::from_raw(process).unwrap(), signal).unwrap();
}

/// An agent over TCP, with its credentials in a file, or on stdin (`-`); returns how its guard ended.
async fn over_tcp(way: &str) -> i32 {
    use std::io::Write as _;
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tcp{way}"));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    let authority = Authority::new().unwrap();
    let gate = Gate::open(([127, 0, 0, 1], 0).into(), &authority).await.unwrap();
    let credentials = authority.issue().unwrap();
    let mut dial_ins = gate.admit(credentials.token.clone());
    let file = directory.join("credentials");
    credentials.write(&file).unwrap();
    let place = if way == "-" { Path::new("-") } else { &file };
    let mut guard = Command::new(env!("CARGO_BIN_EXE_rakudad"))
        .args(["agent", "--connect", &gate.address().to_string(), "--credentials"])
        .arg(place)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = guard.stdin.take().unwrap();
    if way == "-" {
        stdin.write_all(&credentials.to_bytes()).unwrap();
    }
    drop(stdin);
    let (first, later) = loop {
        tokio::select! {
            dial_in = dial_ins.recv() => break dial_in.unwrap(),
            () = tokio::time::sleep(std::time::Duration::from_millis(20)) => {
                assert_eq!(guard.try_wait().unwrap(), None, "it ended before it said hello");
            }
        }
    };
    let settings = AgentSettings {
        directory: Text::from(directory.to_str().unwrap()),
        silence_ms: 10_000,
        orphan_ms: 15_000,
        ..AgentSettings::default()
    };
    let log = Rc::new(Log::default());
    let for_link = Rc::clone(&log);
    let link = attach_arrival(first, later, "run", settings, move |event| {
        for_link.events.borrow_mut().push(event);
        for_link.added.notify_one();
    });
    let node = Node { guard, link, log, directory };
    node.sh(1, "exit 4");
    assert_eq!(node.exit_of(1).await, 4 << 8);
    node.link.close();
    node.wait().await
}

#[test]
fn an_agent_over_tcp_takes_its_credentials_from_a_file_or_stdin() {
    run(async {
        assert_eq!(over_tcp("file").await, 0);
        assert_eq!(over_tcp("-").await, 0);
    });
}

/// Waits until a process is gone or a zombie.
async fn gone(process: i32) {
    let lives = || {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        !matches!(state, None | Some('Z' | 'X'))
    };
    while lives() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// Waits until what a shell has left is `sleep`, with the environment that it is to have: until then it has that of the
/// shell, and stands in its group.
async fn sleeps(process: i32, has_environment: bool) {
    let read = |name: &str| std::fs::read(format!("/proc/{process}/{name}")).unwrap();
    while read("comm") != b"sleep\n" || read("environ").is_empty() == has_environment {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test);
}

#[test]
fn an_agent_runs_commands_in_the_run_s_folder_and_environment_and_answers_questions() {
    run(async {
        let node = Node::start("runs", |_| ());
        assert!(node.up().await >= 1);
        node.sh(7, "pwd; echo $PASSED $FROM_AGENT $RAKUDA_RUN; echo text > made; exit 3");
        assert_eq!(node.exit_of(7).await, 3 << 8);
        let output = node.output();
        let lines: Vec<_> = output.lines().collect();
        assert_eq!(lines[0], node.directory.to_str().unwrap());
        let start = "on its own test-runs:";
        assert!(lines[1].starts_with(start) && lines[1].len() > start.len(), "{}", lines[1]);
        let paths = vec![Text::from("made"), Text::from("none")];
        node.link.send(&ToAgent::Look { probe: 5, paths });
        let bytes = node.until(|event| match event {
            LinkEvent::Message(FromAgent::Looked { probe: 5, files, operations }) => {
                assert!(operations.all >= 2);
                Some(
                    files
                        .iter()
                        .map(|file| file.as_ref().map(|file| file.bytes))
                        .collect::<Vec<_>>(),
                )
            }
            _ => None,
        });
        assert_eq!(bytes.await, [Some(5), None]);
        node.link.close();
        node.link.ended().await;
        assert_eq!(node.wait().await, 0);
    });
}

#[test]
fn an_agent_tells_how_its_node_is_when_it_is_asked_to_and_not_before() {
    run(async {
        let node = Node::start("state", |_| ());
        node.up().await;
        let states = || {
            let events = node.log.events.borrow();
            let states = events.iter().filter_map(|event| match event {
                LinkEvent::State(state) => Some(state.clone()),
                _ => None,
            });
            states.collect::<Vec<_>>()
        };
        node.sh(1, "sleep 0.5");
        node.exit_of(1).await;
        assert!(states().is_empty(), "nobody has asked");
        let mut table = Table::new();
        let row = table.node(None, "as the hub calls it");
        let mut receiver = Receiver::of_node(row);
        node.link.send(&ToAgent::Sample {
            period_ms: 20,
            providers: Vec::new(),
            folders: Vec::new(),
        });
        for (taken, now) in (1..=3).zip(1_000_000_000_u64..) {
            node.until(|_| (states().len() >= taken).then_some(())).await;
            assert_eq!(states().len(), taken, "the last was not dealt with");
            receiver.apply(&states()[taken - 1], &mut table, Time(now)).unwrap();
            let threads = table.registry().find("threads").unwrap();
            assert!(table.number(row, threads) >= 1.0, "the first delta has all");
            node.link.settle_state();
        }
        assert_eq!(table.len(), 1);
        node.link.close();
        node.link.ended().await;
    });
}

/// Memory moves by little all the time, as a command takes some and gives it back. With the threshold it would be
/// reported after the longest silence, and never twice in a row.
#[test]
fn an_agent_tells_what_tasks_choose_by_however_little_it_has_moved() {
    run(async {
        let node = Node::start("exact", |_| ());
        node.up().await;
        node.sh(1, "while :; do head -c 400000 /dev/zero | tail -c 400000 > /dev/null; done");
        node.link.send(&ToAgent::Sample {
            period_ms: 20,
            providers: Vec::new(),
            folders: Vec::new(),
        });
        node.link.send(&ToAgent::TellExactly { attributes: vec!["mem_free".to_owned()] });
        let mut table = Table::new();
        let row = table.node(None, "as the hub calls it");
        let mut receiver = Receiver::of_node(row);
        let memory = table.registry().find("mem_free").unwrap();
        let threshold = table.registry().get(memory).threshold;
        let (mut taken, mut in_a_row, mut before, mut sampled) = (0, 0, f64::NAN, None);
        while in_a_row < 2 {
            let state = node.state(taken).await;
            taken += 1;
            receiver.apply(&state, &mut table, Time(taken as u64 * 1_000_000_000)).unwrap();
            node.link.settle_state();
            let number = table.number(row, memory);
            if table.sampled(row, memory) == sampled || before.is_nan() {
                (before, sampled) = (number, table.sampled(row, memory));
                continue;
            }
            let is_small = (number - before).abs() > 0.0 && !threshold.is_passed(before, number);
            in_a_row = if is_small { in_a_row + 1 } else { 0 };
            (before, sampled) = (number, table.sampled(row, memory));
        }
        node.link.close();
        node.link.ended().await;
    });
}

#[test]
fn an_agent_runs_providers_says_what_is_wrong_with_them_and_leaves_none_behind() {
    run(async {
        let node = Node::start("providers", |_| ());
        node.up().await;
        let file = node.directory.join("sensor");
        let sensor = format!(
            "echo $$ > {0}.part; mv {0}.part {0}; echo depth 3; setsid sleep 1000 & wait",
            file.display()
        );
        let provider = |name: &str, script: &str, limit_ms| ProviderProgram {
            name: name.to_owned(),
            command: ["sh", "-c", script].map(str::to_owned).to_vec(),
            period_ms: 100,
            limit_ms,
        };
        let providers = vec![
            provider("queue", "echo queue 7 1/s; echo mode '\"two words\"'", Some(60_000)),
            provider("broken", "exit 3", Some(60_000)),
            provider("hanging", "sleep 1000", Some(200)),
            provider("sensor", &sensor, None),
        ];
        node.link.send(&ToAgent::Sample { period_ms: 20, providers, folders: Vec::new() });
        let mut table = Table::new();
        let row = table.node(None, "as the hub calls it");
        let mut receiver = Receiver::of_node(row);
        let expected = [
            ("queue", "7"),
            ("mode", "two words"),
            ("depth", "3"),
            ("provider_error('broken')", "provider broken exited with 3"),
            ("provider_error('hanging')", "provider hanging took more than 0.2 s"),
        ];
        let told = |table: &Table, name: &str| {
            let cell = table.cell(row, table.registry().find(name)?)?;
            match cell.value {
                Value::Number(number) => Some(number.to_string()),
                Value::Text(text) => Some(text.to_string()),
                Value::Undefined(_) => None,
            }
        };
        let (mut taken, mut named) = (0, 0);
        while !expected.iter().all(|(name, value)| told(&table, name).as_deref() == Some(*value)) {
            let state = node.state(taken).await;
            taken += 1;
            named += state.windows(5).filter(|bytes| *bytes == b"depth").count();
            receiver.apply(&state, &mut table, Time(taken as u64 * 1_000_000_000)).unwrap();
            node.link.settle_state();
        }
        assert_eq!(named, 1, "the agent tells the name of an attribute once");
        let sensor: i32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
        node.link.close();
        node.link.ended().await;
        assert_eq!(node.wait().await, 0);
        gone(sensor).await;
    });
}

#[test]
fn what_a_command_left_on_purpose_lives_on_after_a_wanted_end() {
    run(async {
        let node = Node::start("daemon", |_| ());
        node.sh(1, "setsid sleep 1000 > /dev/null 2>&1 & echo $!");
        node.exit_of(1).await;
        let daemon: i32 = node.output().trim().parse().unwrap();
        sleeps(daemon, true).await;
        node.link.close();
        node.link.ended().await;
        assert_eq!(node.wait().await, 0);
        kill(daemon, Signal::KILL);
        gone(daemon).await;
    });
}

#[test]
fn all_that_is_below_an_agent_ends_when_the_hub_wants_it_and_targets_are_put_away_then() {
    run(async {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ends-all-own");
        let _ = std::fs::remove_dir_all(&folder);
        let node = Node::start("ends-all", |settings| {
            settings.own_folder = true;
            settings.directory = Text::from(folder.to_str().unwrap());
        });
        let family = node.start_family().await;
        node.sh(
            2,
            "setsid sh -c 'while :; do echo part >> out; done' & until test -s out; do :; done",
        );
        assert_eq!(node.exit_of(2).await, 0);
        node.link.send(&ToAgent::EndAll);
        let put_away = ToAgent::PutAway { path: Text::from("out"), rename: true, unless: None };
        let killed = node.until(|event| match event {
            LinkEvent::Message(FromAgent::AllEnded { killed }) => Some(*killed),
            _ => None,
        });
        assert!(killed.await >= 4);
        node.link.send(&put_away);
        for process in family {
            gone(process).await;
        }
        assert_eq!(node.exit_of(1).await, libc::SIGKILL);
        node.link.close();
        node.link.ended().await;
        assert_eq!(node.wait().await, 0);
        assert!(folder.join("out._fail_").exists() && !folder.join("out").exists());
    });
}

#[test]
fn what_failed_commands_have_left_ends_and_what_others_have_left_goes_on() {
    run(async {
        let node = Node::start("left", |_| ());
        let mut left = Vec::new();
        for (number, clear) in [(1, ""), (2, ""), (3, "env -i ")] {
            node.sh(number, &format!("{clear}setsid sleep 1000 > /dev/null 2>&1 & echo $!"));
            node.exit_of(number).await;
            let process = node.output().lines().last().unwrap().parse().unwrap();
            sleeps(process, clear.is_empty()).await;
            left.push(process);
        }
        let commands = vec![CommandId(1), CommandId(3)];
        node.link.send(&ToAgent::EndLeft { probe: 7, commands });
        let killed = node.until(|event| match event {
            LinkEvent::Message(FromAgent::LeftEnded { probe: 7, killed }) => Some(*killed),
            _ => None,
        });
        assert_eq!(killed.await, 1, "what has no environment is not known to be the command's");
        gone(left[0]).await;
        for process in &left[1..] {
            kill(*process, Signal::KILL);
        }
        node.link.close();
        assert_eq!(node.wait().await, 0);
    });
}

#[test]
fn orphans_leave_no_status_behind() {
    run(async {
        let node = Node::start("orphans", |_| ());
        node.sh(1, "for i in 1 2 3; do (setsid sh -c 'echo $$' &); done");
        node.exit_of(1).await;
        node.until(|_| (node.output().lines().count() == 3).then_some(())).await;
        for line in node.output().lines() {
            while Path::new("/proc").join(line).exists() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        }
        node.link.close();
        assert_eq!(node.wait().await, 0);
    });
}

#[test]
fn when_the_link_ends_all_processes_end() {
    run(async {
        let node = Node::start("link-ends", |_| ());
        let family = node.start_family().await;
        node.link.abort();
        for process in family {
            gone(process).await;
        }
        assert_eq!(node.wait().await, 1 << 8);
    });
}

#[test]
fn when_the_agent_is_killed_all_processes_end() {
    run(async {
        let node = Node::start("agent-killed", |_| ());
        let family = node.start_family().await;
        kill(node.agent_process(), Signal::KILL);
        assert_eq!(node.lost().await, "the connection was closed");
        for process in family {
            gone(process).await;
        }
        assert_eq!(node.wait().await, 1 << 8);
    });
}

#[test]
fn when_the_guard_is_killed_all_processes_end() {
    run(async {
        let node = Node::start("guard-killed", |_| ());
        let family = node.start_family().await;
        let agent = node.agent_process();
        kill(i32::try_from(node.guard.id()).unwrap(), Signal::KILL);
        assert_eq!(node.lost().await, "the agent has ended: SIGTERM was sent to it");
        for process in family.into_iter().chain([agent]) {
            gone(process).await;
        }
        node.wait().await;
    });
}

#[test]
fn what_commands_die_of_when_an_agent_is_told_to_end_is_not_reported() {
    run(async {
        let node = Node::start("hangup", |_| ());
        node.sh(1, "echo there; exec sleep 1000");
        node.until(|_| (node.output() == "there\n").then_some(())).await;
        kill(node.agent_process(), Signal::HUP);
        assert_eq!(node.lost().await, "the agent has ended: SIGHUP was sent to it");
        let exited = |event: &LinkEvent| {
            matches!(event, LinkEvent::Message(FromAgent::Event(AgentEvent::CommandExited { .. })))
        };
        assert!(!node.log.events.borrow().iter().any(exited));
        assert_eq!(node.wait().await, 1 << 8);
    });
}

#[test]
fn an_agent_that_says_nothing_is_lost_within_the_limit() {
    run(async {
        let node = Node::start("silence", |settings| settings.silence_ms = 60_000);
        let family = node.start_family().await;
        // Nothing is written, and nothing is closed.
        kill(node.agent_process(), Signal::STOP);
        // From now on the hub's time passes when nothing else happens there.
        tokio::time::pause();
        // The hub bears twice as much.
        assert_eq!(node.lost().await, "heard nothing for 120000 ms");
        tokio::time::resume();
        kill(node.agent_process(), Signal::CONT);
        for process in family {
            gone(process).await;
        }
        node.wait().await;
    });
}

#[test]
fn a_folder_that_is_not_there_is_told_to_the_hub() {
    run(async {
        let missing = |settings: &mut AgentSettings| settings.directory = Text::from("/none/such");
        let node = Node::start("folder", missing);
        let why = node.lost().await;
        assert!(why.contains("enter the run's folder /none/such on "), "{why}");
        assert_eq!(node.wait().await, 1 << 8);
    });
}

#[test]
fn output_that_the_hub_does_not_take_is_held_back_and_arrives_whole() {
    run(async {
        let gate = Rc::new(Sluice::default());
        // Nothing of it is heard for as long as the gate is closed.
        let patient = |settings: &mut AgentSettings| settings.silence_ms = 600_000;
        let node = Node::start_behind("flood", Some(Rc::clone(&gate)), patient);
        node.up().await;
        gate.open.set(false);
        let bytes = 100 << 20;
        node.sh(1, &format!("echo $$ > pid.new; mv pid.new pid; exec head -c {bytes} /dev/zero"));
        let pid = node.directory.join("pid");
        while !pid.exists() {
            tokio::task::yield_now().await;
        }
        let head = std::fs::read_to_string(pid).unwrap();
        let written = || {
            let io = std::fs::read_to_string(format!("/proc/{}/io", head.trim())).unwrap();
            let line = io.lines().find(|line| line.starts_with("wchar")).unwrap().to_owned();
            line.split(' ').nth(1).unwrap().parse::<usize>().unwrap()
        };
        // Much is taken, then nothing any more.
        let mut before = 0;
        while written() < 4 << 20 || written() != before {
            before = written();
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        assert!(before < 20 << 20, "{before} bytes were taken from a command");
        gate.open.set(true);
        gate.changed.notify_one();
        assert_eq!(node.exit_of(1).await, 0);
        assert_eq!(node.output().len(), bytes);
        node.link.close();
        assert_eq!(node.wait().await, 0);
    });
}

/// Holds up what the hub reads.
struct Sluice {
    open: std::cell::Cell<bool>,
    changed: Notify,
}

impl Default for Sluice {
    fn default() -> Self {
        Self { open: std::cell::Cell::new(true), changed: Notify::new() }
    }
}

/// Copies while the gate is open.
async fn copy_through(
    gate: Rc<Sluice>,
    mut reader: rakuda_link::hub::Reader,
    mut writer: tokio::io::DuplexStream,
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(bytes @ 1..) = reader.read(&mut buffer).await {
        while !gate.open.get() {
            gate.changed.notified().await;
        }
        if writer.write_all(&buffer[..bytes]).await.is_err() {
            return;
        }
    }
}
