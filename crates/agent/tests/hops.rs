//! A stream over two agents: what the one writes the other reads, over TCP and over a socket of the
//! host; ends, early exits, and a connection that is lost.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rakuda_agent::{Agent, AgentConfig, StdinSource};
use rakuda_link::credentials::Authority;
use rakuda_link::peers;
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentEvent, AgentRequest, CommandId};
use rakuda_proto::files::FileRequest;
use rakuda_proto::front::{CommandOptions, Program};
use rakuda_proto::streams::{
    HopPlan, HopSet, OpeningId, RecordForm, StreamAccount, StreamEnd, StreamEvent, StreamPlan,
    StreamRequest,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const OPENING: OpeningId = OpeningId(3);
const KEY: peers::Key = [5; peers::KEY_BYTES];
const NEXT_KEY: peers::Key = [6; peers::KEY_BYTES];
const WRITER: u32 = 0;
const READER: u32 = 1;

struct Side {
    agent: Agent,
    events: UnboundedReceiver<AgentEvent>,
    task: u32,
    /// Edges that it was to connect: where the other end is.
    dialled: BTreeMap<u32, Text>,
}

/// What became of one side.
#[derive(Debug, Default)]
struct Outcome {
    status: Option<i32>,
    account: Option<StreamAccount>,
    /// Of routes before the last one.
    earlier: Vec<StreamAccount>,
    fault: Option<String>,
}

fn plan(writers: StreamEnd, readers: StreamEnd) -> StreamPlan {
    StreamPlan {
        name: Text::from("s"),
        record: RecordForm::Line,
        window: 0,
        spool_bytes_max: 0,
        drain: false,
        in_turn: false,
        writers: vec![writers],
        readers: vec![readers],
        stall_ms: None,
        spill: None,
    }
}

impl Side {
    fn ask(&self, request: StreamRequest) {
        self.agent.handle(AgentRequest::Streams(request));
    }

    fn open(&self, authority: &Authority, plan: StreamPlan) {
        let hop = HopPlan { edge: 0, key: Text(KEY.to_vec()), peer: Text::from("the other") };
        let credentials = Text(authority.issue_peer().unwrap().to_bytes());
        let hops = HopSet { credentials, hops: vec![hop], patience_ms: 1 };
        self.ask(StreamRequest::Open(OPENING, vec![plan], Some(Box::new(hops))));
    }

    /// Makes another edge, and is heard to.
    async fn prepare(&mut self, authority: &Authority, plan: StreamPlan) -> Vec<Text> {
        let hop = HopPlan { edge: 1, key: Text(NEXT_KEY.to_vec()), peer: Text::from("the other") };
        let credentials = Text(authority.issue_peer().unwrap().to_bytes());
        let hops = HopSet { credentials, hops: vec![hop], patience_ms: 1 };
        self.ask(StreamRequest::Reroute(OPENING, vec![plan], Some(Box::new(hops))));
        let (mut is_prepared, mut addresses) = (false, None);
        while !is_prepared || addresses.is_none() {
            match self.stream_event().await {
                StreamEvent::Prepared(_, why_not) => is_prepared = why_not.is_none(),
                StreamEvent::Listening(_, door, _) => addresses = Some(door),
                _ => {}
            }
        }
        addresses.unwrap()
    }

    /// What is said next of streams; none of them ends.
    async fn stream_event(&mut self) -> StreamEvent {
        loop {
            match self.events.recv().await.unwrap() {
                AgentEvent::Streams(StreamEvent::Ended(.., fault)) => panic!("{fault:?}"),
                AgentEvent::Streams(event) => {
                    if let StreamEvent::Dialled(_, edge, why_not) = &event {
                        self.dial_again(*edge, why_not.as_ref());
                    }
                    return event;
                }
                _ => {}
            }
        }
    }

    /// Connects an edge to the other end.
    fn dial(&mut self, edge: u32, address: Text) {
        self.dialled.insert(edge, address.clone());
        self.ask(StreamRequest::Dial(OPENING, edge, vec![address]));
    }

    /// The other end has some seconds to answer: on a machine that gives it none, that is tried once more.
    fn dial_again(&self, edge: u32, why_not: Option<&Text>) {
        let Some(why_not) = why_not.map(Text::to_display) else { return };
        assert!(why_not.contains("no answer within"), "{why_not}");
        self.ask(StreamRequest::Dial(OPENING, edge, vec![self.dialled[&edge].clone()]));
    }

    /// Waits until an edge is connected.
    async fn connected(&mut self, wanted: u32) {
        loop {
            if let StreamEvent::Dialled(_, edge, None) = self.stream_event().await
                && edge == wanted
            {
                return;
            }
        }
    }

    fn start(&self, line: &str) {
        self.agent.handle(AgentRequest::Start {
            command: CommandId(self.task),
            program: Program::Line(Text::from(line)),
            options: Some(Box::new(CommandOptions {
                streams: Some((OPENING, self.task)),
                ..CommandOptions::default()
            })),
        });
    }

    /// Where it takes connections.
    async fn door(&mut self) -> (Vec<Text>, Text) {
        loop {
            if let AgentEvent::Streams(StreamEvent::Listening(_, addresses, socket)) =
                self.events.recv().await.unwrap()
            {
                return (addresses, socket);
            }
        }
    }

    /// Until the command has ended and its stream is over, or is at fault.
    async fn finish(&mut self) -> Outcome {
        let mut outcome = Outcome::default();
        while outcome.fault.is_none() && (outcome.status.is_none() || outcome.account.is_none()) {
            match self.events.recv().await.unwrap() {
                AgentEvent::CommandExited { status, .. } => {
                    outcome.status = Some(status);
                    self.ask(StreamRequest::EndMember(OPENING, self.task, status == 0));
                }
                AgentEvent::Streams(StreamEvent::Ended(_, mut accounts, fault)) => {
                    outcome.account = accounts.pop();
                    outcome.earlier = accounts;
                    outcome.fault = fault.map(|fault| fault.words.to_display());
                }
                AgentEvent::Streams(StreamEvent::Dialled(_, edge, why_not)) => {
                    self.dial_again(edge, why_not.as_ref());
                }
                _ => {}
            }
        }
        outcome
    }
}

/// How the two are joined.
#[derive(Clone, Copy, PartialEq)]
enum Transport {
    Tcp,
    Socket,
}

fn with_two<F: Future<Output = ()>>(name: &str, test: impl FnOnce(Side, Side, PathBuf) -> F) {
    let folder = std::env::temp_dir().join(format!("rakuda-hops-{name}-{}", std::process::id()));
    // Of a process that had this number before and did not come to its end.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let side = |task| {
            let (sender, events) = unbounded_channel();
            let config = AgentConfig {
                directory: folder.clone(),
                stdin: StdinSource::Null,
                collect_output: true,
                join_group: None,
            };
            let agent = Agent::new(config, sender).unwrap();
            Side { agent, events, task, dialled: BTreeMap::new() }
        };
        test(side(WRITER), side(READER), folder.clone()).await;
    });
    std::fs::remove_dir_all(&folder).unwrap();
}

async fn join(transport: Transport, writer: &mut Side, reader: &mut Side) {
    join_with(transport, [0, 0], writer, reader).await;
}

/// With these windows of the stream at the writer's and at the reader's host.
async fn join_with(transport: Transport, windows: [u64; 2], writer: &mut Side, reader: &mut Side) {
    let authority = Authority::new().unwrap();
    let of = |window, plan| StreamPlan { window, ..plan };
    let writing = plan(StreamEnd::Task(WRITER), StreamEnd::Hop(0));
    writer.open(&authority, of(windows[0], writing));
    let reading = plan(StreamEnd::Hop(0), StreamEnd::Task(READER));
    reader.open(&authority, of(windows[1], reading));
    let (one, other) = (writer.door().await, reader.door().await);
    if transport == Transport::Tcp {
        let port = other.0[0].to_display().rsplit_once(':').unwrap().1.to_owned();
        return writer.dial(0, Text::from(format!("127.0.0.1:{port}")));
    }
    // As `rakudad files` on each host does for the hub.
    let mut ends = Vec::new();
    for (_, socket) in [one, other] {
        let (mut here, there) = tokio::io::duplex(1000);
        tokio::task::spawn_local(rakuda_agent::files::answer(there));
        let request = FileRequest::Join { socket };
        rakuda_link::content::write_message(&mut here, &request).await.unwrap();
        peers::show_key(&mut here, &KEY).await.unwrap();
        peers::take(&mut here).await.unwrap();
        ends.push(here);
    }
    tokio::task::spawn_local(async move {
        let (mut other, mut one) = (ends.pop().unwrap(), ends.pop().unwrap());
        let _ = tokio::io::copy_bidirectional(&mut one, &mut other).await;
    });
}

#[test]
fn what_is_written_on_one_host_is_read_on_another() {
    for transport in [Transport::Tcp, Transport::Socket] {
        with_two("all", |mut writer, mut reader, folder| async move {
            join(transport, &mut writer, &mut reader).await;
            reader.start("cat > all");
            writer.start("seq 700000");
            let (sent, got) = tokio::join!(writer.finish(), reader.finish());
            assert_eq!((sent.status, got.status), (Some(0), Some(0)), "{sent:?} {got:?}");
            let (sent, got) = (sent.account.unwrap(), got.account.unwrap());
            assert_eq!(sent.readers[0].records, 700_000);
            let counts = |account: &StreamAccount| {
                [&account.writers[0], &account.readers[0]].map(|end| (end.bytes, end.records))
            };
            assert_eq!(counts(&sent), counts(&got));
            let lines = (1..=700_000).map(|number| format!("{number}\n").into_bytes());
            let all: Vec<u8> = lines.flatten().collect();
            assert!(std::fs::read(folder.join("all")).unwrap() == all);
        });
    }
}

#[test]
fn a_reader_elsewhere_that_leaves_ends_the_writer_well() {
    with_two("early", |mut writer, mut reader, folder| async move {
        join(Transport::Tcp, &mut writer, &mut reader).await;
        reader.start("head -n 3 > three");
        writer.start("yes");
        let (sent, got) = tokio::join!(writer.finish(), reader.finish());
        assert_eq!((sent.status, sent.fault), (Some(0), None));
        assert_eq!((got.status, got.fault), (Some(0), None));
        assert!(sent.account.unwrap().readers[0].is_special);
        assert_eq!(std::fs::read(folder.join("three")).unwrap(), b"y\ny\ny\n");
    });
}

/// What is unread then is more than the reader's host takes, so that it cannot have reported that all was taken. It
/// fits the edge besides, as a rule, and the window of the writer's host in any case: a chunk of a window may be full
/// by an eighth.
#[test]
fn a_reader_elsewhere_may_leave_when_the_writer_has_ended() {
    with_two("late", |mut writer, mut reader, folder| async move {
        join_with(Transport::Tcp, [64 << 20, 2 << 20], &mut writer, &mut reader).await;
        reader.start("while [ ! -e go ]; do sleep 0.02; done; head -n 1 > one");
        writer.connected(0).await;
        writer.start("seq 370000; touch written");
        while !folder.join("written").exists() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let go = async {
            std::fs::write(folder.join("go"), "").unwrap();
            reader.finish().await
        };
        let (sent, got) = tokio::join!(writer.finish(), go);
        assert_eq!((sent.status, sent.fault), (Some(0), None));
        assert_eq!((got.status, got.fault), (Some(0), None));
        let (sent, got) = (sent.account.unwrap(), got.account.unwrap());
        assert!(sent.readers[0].is_special && got.readers[0].is_special, "{sent:?} {got:?}");
        assert_eq!(std::fs::read(folder.join("one")).unwrap(), b"1\n");
    });
}

#[test]
fn a_connection_that_is_lost_is_a_fault_and_no_end() {
    with_two("lost", |mut writer, mut reader, folder| async move {
        join(Transport::Tcp, &mut writer, &mut reader).await;
        reader.start("cat > all; echo end > end");
        writer.start("seq 10; exec sleep 1000");
        writer.connected(0).await;
        // It has got something, so that the connection is there.
        while std::fs::read(folder.join("all")).unwrap_or_default().len() < 21 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        writer.ask(StreamRequest::Close(OPENING));
        let got = reader.finish().await;
        assert_eq!(got.fault.as_deref(), Some("stream s: the connection to the other was lost"));
        assert_eq!(got.status, None);
        assert!(!folder.join("end").exists());
        for side in [&writer, &reader] {
            side.agent.signal_all(libc::SIGKILL);
        }
        reader.ask(StreamRequest::Close(OPENING));
    });
}

/// Both sides make another edge, which is connected.
async fn prepare(writer: &mut Side, reader: &mut Side) {
    let authority = Authority::new().unwrap();
    writer.prepare(&authority, plan(StreamEnd::Task(WRITER), StreamEnd::Hop(1))).await;
    let reading = plan(StreamEnd::Hop(1), StreamEnd::Task(READER));
    let addresses = reader.prepare(&authority, reading).await;
    let port = addresses[0].to_display().rsplit_once(':').unwrap().1.to_owned();
    writer.dial(1, Text::from(format!("127.0.0.1:{port}")));
    writer.connected(1).await;
}

const IN_TWO_HALVES: &str = "seq 300000; while [ ! -e go ]; do sleep 0.02; done; seq 300001 600000";

fn check_all(folder: &std::path::Path) {
    let lines = (1..=600_000).map(|number| format!("{number}\n").into_bytes());
    let all: Vec<u8> = lines.flatten().collect();
    assert!(std::fs::read(folder.join("all")).unwrap() == all);
}

#[test]
fn a_stream_that_changes_to_another_edge_loses_nothing() {
    with_two("reroute", |mut writer, mut reader, folder| async move {
        join(Transport::Tcp, &mut writer, &mut reader).await;
        reader.start("cat > all");
        writer.start(IN_TWO_HALVES);
        writer.connected(0).await;
        prepare(&mut writer, &mut reader).await;
        // The old edge ends before the reader's host knows that all change: that is no end.
        writer.ask(StreamRequest::Switch(OPENING));
        while !matches!(writer.stream_event().await, StreamEvent::Switched(_)) {}
        std::fs::write(folder.join("go"), "").unwrap();
        reader.ask(StreamRequest::Switch(OPENING));
        while !matches!(reader.stream_event().await, StreamEvent::Switched(_)) {}
        let (sent, got) = tokio::join!(writer.finish(), reader.finish());
        assert_eq!((sent.status, got.status), (Some(0), Some(0)), "{sent:?} {got:?}");
        check_all(&folder);
        let records = |outcome: &Outcome| {
            let last = outcome.account.as_ref().unwrap();
            [outcome.earlier[0].readers[0].records, last.readers[0].records]
        };
        assert_eq!(records(&sent), records(&got));
        assert_eq!(records(&sent).iter().sum::<u64>(), 600_000);
        assert!(records(&sent)[1] >= 300_000, "{sent:?}");
    });
}

#[test]
fn a_change_that_comes_to_nothing_leaves_all_as_it_was() {
    with_two("keep", |mut writer, mut reader, folder| async move {
        join(Transport::Tcp, &mut writer, &mut reader).await;
        reader.start("cat > all");
        writer.start(IN_TWO_HALVES);
        writer.connected(0).await;
        prepare(&mut writer, &mut reader).await;
        writer.ask(StreamRequest::Keep(OPENING));
        std::fs::write(folder.join("go"), "").unwrap();
        // All has come over the old edge before its reader's host knows: the end waits for that.
        let (sent, got) = tokio::join!(writer.finish(), async {
            tokio::task::yield_now().await;
            reader.ask(StreamRequest::Keep(OPENING));
            reader.finish().await
        });
        assert_eq!((sent.status, got.status), (Some(0), Some(0)), "{sent:?} {got:?}");
        check_all(&folder);
        assert!(sent.earlier.is_empty() && got.earlier.is_empty());
    });
}
