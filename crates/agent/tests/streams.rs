//! Streams between real commands: what comes out, when each process ends, and what is accounted.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rakuda_agent::{Agent, AgentConfig, StdinSource};
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentEvent, AgentRequest, CommandId};
use rakuda_proto::front::{CommandOptions, Program};
use rakuda_proto::streams::{
    OpeningId, RecordForm, SpillPlan, StillForm, StreamAccount, StreamEnd, StreamEvent,
    StreamPassed, StreamPlan, StreamRequest,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const OPENING: OpeningId = OpeningId(7);

fn plan(name: &str, writers: &[u32], readers: &[u32]) -> StreamPlan {
    let ends = |tasks: &[u32]| tasks.iter().map(|task| StreamEnd::Task(*task)).collect();
    StreamPlan {
        name: Text::from(name),
        record: RecordForm::Line,
        window: 0,
        spool_bytes_max: 0,
        drain: false,
        in_turn: false,
        writers: ends(writers),
        readers: ends(readers),
        stall_ms: None,
        spill: None,
    }
}

/// What became of a component: statuses by task, accounts, a fault; what was shown of stdout.
#[derive(Debug, Default)]
struct Outcome {
    statuses: BTreeMap<u32, i32>,
    accounts: Vec<StreamAccount>,
    fault: Option<String>,
    shown: Vec<u8>,
}

struct Node {
    agent: Agent,
    events: UnboundedReceiver<AgentEvent>,
    folder: PathBuf,
}

impl Node {
    fn ask(&self, request: StreamRequest) {
        self.agent.handle(AgentRequest::Streams(request));
    }

    fn start(&self, task: u32, line: &str) {
        let streams = Some((OPENING, task));
        self.agent.handle(AgentRequest::Start {
            command: CommandId(task),
            program: Program::Line(Text::from(line)),
            options: Some(Box::new(CommandOptions { streams, ..CommandOptions::default() })),
        });
    }

    /// Runs one command for each task, and ends each task with its command.
    async fn run(&mut self, plans: Vec<StreamPlan>, lines: &[&str]) -> Outcome {
        self.ask(StreamRequest::Open(OPENING, plans, None));
        for (task, line) in (0..).zip(lines) {
            self.start(task, line);
        }
        self.finish(lines.len()).await
    }

    /// Until all commands have ended and the streams are over, or one of them is at fault and the rest was killed.
    async fn finish(&mut self, commands: usize) -> Outcome {
        let mut outcome = Outcome::default();
        let mut over = false;
        while !over || outcome.statuses.len() < commands {
            match self.events.recv().await.unwrap() {
                AgentEvent::CommandExited { command, status, .. } => {
                    outcome.statuses.insert(command.0, status);
                    self.ask(StreamRequest::EndMember(OPENING, command.0, status == 0));
                    if status != 0 && !over {
                        self.agent.signal_all(libc::SIGKILL);
                        self.ask(StreamRequest::Close(OPENING));
                        over = true;
                    }
                }
                AgentEvent::OutputWritten { bytes, .. } => outcome.shown.extend(bytes),
                AgentEvent::OutputEnded { .. }
                | AgentEvent::MemoryEnforced { .. }
                | AgentEvent::ClockSet { .. }
                | AgentEvent::CommandReady { .. }
                | AgentEvent::CommandBegun { .. }
                | AgentEvent::CommandWithdrawn { .. }
                | AgentEvent::CoreKept { .. }
                | AgentEvent::CoreFreed { .. }
                | AgentEvent::CommandPassed { .. }
                | AgentEvent::Streams(
                    StreamEvent::Stalled(..)
                    | StreamEvent::MessageCost(_)
                    | StreamEvent::LineRates(..)
                    | StreamEvent::SpoolBad(..)
                    | StreamEvent::Interrupted(..)
                    | StreamEvent::StdoutHeld(..)
                    | StreamEvent::Unread(..)
                    | StreamEvent::Listening(..)
                    | StreamEvent::Dialled(..)
                    | StreamEvent::Prepared(..)
                    | StreamEvent::Switched(..)
                    | StreamEvent::Passed(..),
                ) => {}
                AgentEvent::Streams(StreamEvent::Ended(id, accounts, fault)) => {
                    assert_eq!(id, OPENING);
                    over = true;
                    outcome.accounts = accounts;
                    if fault.is_some() {
                        self.agent.signal_all(libc::SIGKILL);
                        self.ask(StreamRequest::Close(OPENING));
                    }
                    outcome.fault = fault.map(|fault| fault.words.to_display());
                }
            }
        }
        outcome
    }

    /// The names of those streams that stand still, empty, in the next report.
    async fn next_stalled(&mut self) -> Vec<String> {
        loop {
            match self.events.recv().await.unwrap() {
                AgentEvent::Streams(StreamEvent::Stalled(_, streams)) => {
                    assert!(streams.iter().all(|one| one.still == StillForm::Empty), "{streams:?}");
                    return streams.iter().map(|stream| stream.name.to_display()).collect();
                }
                AgentEvent::Streams(StreamEvent::Ended(..)) => panic!("it was told no more"),
                _ => {}
            }
        }
    }

    fn read(&self, name: &str) -> String {
        String::from_utf8(std::fs::read(self.folder.join(name)).unwrap()).unwrap()
    }
}

fn with_node<F: Future<Output = ()>>(name: &str, test: impl FnOnce(Node) -> F) {
    let folder = std::env::temp_dir().join(format!("rakuda-streams-{name}-{}", std::process::id()));
    // Of a process that had this number before and did not come to its end.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let (sender, events) = unbounded_channel();
        let config = AgentConfig {
            directory: folder.clone(),
            stdin: StdinSource::Null,
            collect_output: true,
            join_group: None,
        };
        let agent = Agent::new(config, sender).unwrap();
        test(Node { agent, events, folder: folder.clone() }).await;
    });
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A program that prints lines in pieces that end anywhere.
fn lines_of(name: &str, count: u32) -> String {
    format!("seq -f '{name} %g' {count} | dd obs=777 2>/dev/null")
}

/// The slow reader waits for a file that the fast one makes when it has got all: without a spill neither would end.
#[test]
fn a_reader_that_sleeps_until_the_fast_one_has_all_gets_all_too() {
    with_node("spill", |mut node| async move {
        let folder = Text(node.folder.as_os_str().as_encoded_bytes().to_vec());
        let spill = Some(SpillPlan { folder, bytes_max: 64 << 20 });
        let plans = vec![StreamPlan { spill, ..plan("s", &[0], &[1, 2]) }];
        let slow = "until test -e fast; do sleep 0.02; done; cksum > slow";
        let lines = ["seq 3000000", "cksum > fast.new && mv fast.new fast", slow];
        let outcome = node.run(plans, &lines).await;
        assert!(outcome.statuses.values().all(|status| *status == 0), "{outcome:?}");
        assert_eq!(outcome.fault, None);
        assert_eq!(node.read("fast"), node.read("slow"));
        let account = &outcome.accounts[0];
        assert!(account.spilled_bytes > 8 << 20, "{account:?}");
        // When the fast one had all, the slow one had what its pipe takes; the rest was in memory or spilled.
        // What was in memory may be spilled after that, when files are let go of already.
        let elsewhere = account.memory_bytes_max + (1 << 20);
        let written = account.writers[0].bytes;
        assert!(account.spilled_bytes <= written, "{account:?}");
        assert!(account.spilled_bytes_max >= written - elsewhere, "{account:?}");
        assert!(account.spilled_bytes_max <= 64 << 20, "{account:?}");
        assert!(account.memory_bytes_max <= (4 + 1 + 2 + 2) << 20, "{account:?}");
        // They have no names while they are written, and none is left.
        let left = std::fs::read_dir(&node.folder).unwrap();
        assert_eq!(left.count(), 2);
    });
}

#[test]
fn writers_are_merged_and_all_readers_get_all() {
    with_node("merge", |mut node| async move {
        let (a, b) = (lines_of("a", 20_000), lines_of("b", 30_000));
        let plans = vec![plan("s", &[0, 1], &[2, 3, 4])];
        let outcome = node.run(plans, &[&a, &b, "cat > one", "cat > two", "wc -l > three"]).await;
        assert!(outcome.statuses.values().all(|status| *status == 0), "{outcome:?}");
        assert_eq!(outcome.shown, b"");
        let one = node.read("one");
        assert!(one == node.read("two"), "readers see different orders");
        assert_eq!(node.read("three").trim(), "50000");
        for (name, count) in [("a", 20_000), ("b", 30_000)] {
            let own = one.lines().filter(|line| line.starts_with(name));
            assert!(own.eq((1..=count).map(|number| format!("{name} {number}"))), "{name}");
        }
        let account = &outcome.accounts[0];
        let records: Vec<u64> = account.writers.iter().map(|writer| writer.records).collect();
        assert_eq!(records, [20_000, 30_000]);
        let written: u64 = account.writers.iter().map(|writer| writer.bytes).sum();
        for reader in &account.readers {
            assert_eq!((reader.bytes, reader.records), (written, 50_000));
            assert!(!reader.is_special);
        }
    });
}

#[test]
fn what_has_gone_through_is_told_while_it_goes_on() {
    with_node("passed", |mut node| async move {
        node.ask(StreamRequest::Open(OPENING, vec![plan("s", &[0], &[1])], None));
        node.start(0, "mkfifo go; echo one; printf tw; read x < go; echo o");
        node.start(1, "cat > all");
        let told = |bytes| StreamPassed { name: Text::from("s"), bytes, records: 1 };
        // Half a record counts with its bytes.
        loop {
            match node.events.recv().await.unwrap() {
                AgentEvent::Streams(StreamEvent::Passed(_, passed)) if passed == [told(6)] => break,
                // The writer may take longer to its second word than it takes until something is reported.
                AgentEvent::Streams(StreamEvent::Passed(_, passed)) => {
                    assert_eq!(passed, [told(4)]);
                }
                AgentEvent::Streams(StreamEvent::Ended(..)) => panic!("nothing was told"),
                _ => {}
            }
        }
        std::fs::write(node.folder.join("go"), "\n").unwrap();
        let outcome = node.finish(2).await;
        assert!(outcome.statuses.values().all(|status| *status == 0), "{outcome:?}");
        assert_eq!(node.read("all"), "one\ntwo\n");
    });
}

#[test]
fn a_reader_that_leaves_early_ends_its_writer_as_in_a_shell() {
    with_node("head", |mut node| async move {
        let outcome = node.run(vec![plan("s", &[0], &[1])], &["yes", "head -n 3 > some"]).await;
        assert_eq!(outcome.statuses, BTreeMap::from([(0, 0), (1, 0)]));
        assert_eq!(node.read("some"), "y\ny\ny\n");
        assert!(outcome.accounts[0].readers[0].is_special);
        // In a shell of its own, too; and the other reader gets all.
        let lines = ["seq 100000; true", "head -n 1 > some", "wc -l > all"];
        let outcome = node.run(vec![plan("s", &[0], &[1, 2])], &lines).await;
        assert_eq!((node.read("some"), node.read("all").trim()), ("1\n".to_owned(), "100000"));
        assert!(!outcome.accounts[0].readers[1].is_special);
    });
}

#[test]
fn a_writer_that_fails_shows_nobody_an_end() {
    with_node("failed", |mut node| async move {
        let lines = ["echo half; exit 3", "cat > copy; echo ended > mark"];
        let outcome = node.run(vec![plan("s", &[0], &[1])], &lines).await;
        assert_eq!(outcome.statuses[&0], 3 << 8);
        assert_eq!(outcome.statuses[&1], libc::SIGKILL);
        assert!(!node.folder.join("mark").exists(), "the reader saw an end");
    });
}

#[test]
fn a_grandchild_that_holds_the_pipe_is_waited_for() {
    with_node("grandchild", |mut node| async move {
        let late = "mkfifo go; (read x < go; echo late) & echo early";
        let lines = [late, "while ! [ -p go ]; do :; done; echo > go; cat > got"];
        let outcome = node.run(vec![plan("s", &[0], &[1])], &lines).await;
        assert_eq!(node.read("got"), "early\nlate\n");
        assert_eq!(outcome.accounts[0].writers[0].records, 2);
    });
}

#[test]
fn commands_of_a_task_are_one_group() {
    with_node("group", |mut node| async move {
        node.ask(StreamRequest::Open(OPENING, vec![plan("s", &[0], &[1])], None));
        node.start(0, "echo first");
        node.start(1, "cat > got");
        loop {
            match node.events.recv().await.unwrap() {
                AgentEvent::CommandExited { command, .. } => {
                    assert_eq!(command, CommandId(0));
                    break;
                }
                // It is reported once a second, however long the command takes to end.
                AgentEvent::Streams(StreamEvent::Passed(..)) => {}
                event => panic!("{event:?}"),
            }
        }
        node.start(0, "printf second");
        let outcome = node.finish(2).await;
        assert_eq!(node.read("got"), "first\nsecond\n");
        assert!(outcome.accounts[0].writers[0].is_special, "a newline was added");
    });
}

#[test]
fn bytes_of_any_kind_and_records_of_megabytes_pass_whole() {
    with_node("large", |mut node| async move {
        let binary = "head -c 5000000 /dev/urandom | tee sent";
        let raw = StreamPlan { record: RecordForm::Raw, ..plan("s", &[0], &[1]) };
        node.run(vec![raw], &[binary, "cat > got"]).await;
        let (sent, got) = (node.folder.join("sent"), node.folder.join("got"));
        assert!(std::fs::read(sent).unwrap() == std::fs::read(got).unwrap());

        let long = |byte: char| format!("head -c 3000000 /dev/zero | tr '\\0' {byte}; echo");
        let outcome =
            node.run(vec![plan("s", &[0, 1], &[2])], &[&long('a'), &long('b'), "cat > got"]).await;
        let got = node.read("got");
        let mut whole: Vec<(usize, char)> =
            got.lines().map(|line| (line.len(), line.chars().next().unwrap())).collect();
        whole.sort_unstable();
        assert_eq!(whole, [(3_000_000, 'a'), (3_000_000, 'b')]);
        assert!(got.lines().all(|line| line.bytes().all(|byte| byte == line.as_bytes()[0])));
        let memory = outcome.accounts[0].memory_bytes_max;
        assert!(memory <= (4 << 20) + 2 * (1 << 20) + (2 << 20), "{memory}");
    });
}

#[test]
fn records_of_a_fixed_size_are_checked() {
    with_node("torn", |mut node| async move {
        let fixed = StreamPlan { record: RecordForm::Bytes(4), ..plan("s", &[0], &[1]) };
        let outcome = node.run(vec![fixed], &["printf abcdef", "cat > got"]).await;
        let fault = outcome.fault.unwrap();
        let wrong = "stream s: the last record of task 0 has 2 bytes in place of 4";
        let advice = "let it print whole records, or say another `record:` of the stream";
        assert_eq!(fault, format!("{wrong}; {advice}"));
    });
}

#[test]
fn a_task_may_answer_the_one_that_it_reads_from() {
    with_node("cycle", |mut node| async move {
        let ask = "for i in 1 2 3 4 5; do echo q$i; read answer; echo $answer >> answers; done";
        let cyclic = |plan| StreamPlan { stall_ms: Some(30_000), ..plan };
        let plans = vec![cyclic(plan("s1", &[0], &[1])), cyclic(plan("s2", &[1], &[0]))];
        let outcome = node.run(plans, &[ask, "while read q; do echo a$q; done"]).await;
        assert!(outcome.statuses.values().all(|status| *status == 0), "{outcome:?}");
        assert_eq!(node.read("answers"), "aq1\naq2\naq3\naq4\naq5\n");
    });
}

#[test]
fn streams_of_a_cycle_that_stand_still_are_told_and_told_otherwise_when_something_moves() {
    with_node("still", |mut node| async move {
        let told_after = |plan| StreamPlan { stall_ms: Some(100), ..plan };
        let plans = vec![
            told_after(plan("ask", &[0], &[1])),
            told_after(plan("tell", &[1], &[0, 2])),
            plan("out", &[2], &[3]),
        ];
        node.ask(StreamRequest::Open(OPENING, plans, None));
        let lines = [
            "until [ -e go ]; do sleep 0.02; done; echo q; read answer; echo $answer > got",
            "read q; until [ -e answer ]; do sleep 0.02; done; echo a$q",
            "cat",
            "cat > out",
        ];
        for (task, line) in (0..).zip(lines) {
            node.start(task, line);
        }
        // The stream that leads out of the cycle is not watched.
        while node.next_stalled().await != ["ask", "tell"] {}
        std::fs::write(node.folder.join("go"), "").unwrap();
        assert_eq!(node.next_stalled().await, ["tell"]);
        assert_eq!(node.next_stalled().await, ["ask", "tell"]);
        std::fs::write(node.folder.join("answer"), "").unwrap();
        let outcome = node.finish(lines.len()).await;
        assert!(outcome.statuses.values().all(|status| *status == 0), "{outcome:?}");
        assert_eq!((node.read("got"), node.read("out")), ("aq\n".into(), "aq\n".into()));
    });
}

#[test]
fn a_stopped_reader_holds_its_writer_and_no_other_stream() {
    with_node("stalled", |mut node| async move {
        let plans = vec![plan("slow", &[0], &[1]), plan("fast", &[2], &[3])];
        // The slow reader begins when the other stream is over.
        let lines = [
            "seq 3000000",
            "mkfifo go; read x < go; wc -l > slow",
            "seq 3000000",
            "wc -l > fast; while ! [ -p go ]; do :; done; echo > go",
        ];
        let outcome = node.run(plans, &lines).await;
        assert_eq!((node.read("slow").trim(), node.read("fast").trim()), ("3000000", "3000000"));
        let memory = outcome.accounts[0].memory_bytes_max;
        assert!(memory <= (4 << 20) + (1 << 20) + (2 << 20), "{memory}");
    });
}

#[test]
fn a_spool_is_read_again_as_it_was_written() {
    with_node("spool", |mut node| async move {
        let spool =
            |name: &str| StreamEnd::Spool(Text::from(node.folder.join(name).to_str().unwrap()));
        let (one, two) = (spool("one"), spool("two"));
        for (end, line) in [(&one, "seq 50000"), (&two, "seq 50001 60000")] {
            let into = StreamPlan { readers: vec![end.clone()], ..plan("s", &[0], &[]) };
            let outcome = node.run(vec![into], &[line]).await;
            assert_eq!(outcome.fault, None);
        }
        let from = StreamPlan { writers: vec![one, two], in_turn: true, ..plan("s", &[], &[0]) };
        for _ in 0..2 {
            let outcome = node.run(vec![from.clone()], &["cat > got"]).await;
            assert_eq!(outcome.fault, None);
            assert!(node.read("got").lines().eq((1..=60_000).map(|n| n.to_string())));
        }
        let path = node.folder.join("one");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[1_000] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let outcome = node.run(vec![from], &["cat > got"]).await;
        assert!(outcome.fault.unwrap().contains("does not match its checksum"));
    });
}
