//! Links over TCP and TLS: which agents are let in, what a broken connection costs, and what strangers and bad agents
//! can do.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use rakuda_link::agent::{AgentLink, Identity};
use rakuda_link::credentials::{Authority, Credentials};
use rakuda_link::frame::{self, DataFrame, Kind};
use rakuda_link::gate::Gate;
use rakuda_link::hub::{LinkEvent, LinkHandle, Reader, VERSION, Writer, attach_arrival};
use rakuda_link::io::Ending;
use rakuda_link::tcp::Dialler;
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentEvent, CommandId};
use rakuda_proto::cluster::{AgentSettings, FromAgent, Hello, NodeFacts, ToAgent};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::LocalSet;

/// A run's gate, and the authority of its links.
struct Hub {
    authority: Authority,
    gate: Gate,
}

/// One node's link.
struct Node {
    link: LinkHandle,
    log: Rc<Log>,
}

#[derive(Default)]
struct Log {
    events: RefCell<Vec<LinkEvent>>,
    added: Notify,
}

impl Hub {
    async fn open() -> Self {
        let authority = Authority::new().unwrap();
        let gate = Gate::open(SocketAddr::from(([127, 0, 0, 1], 0)), &authority).await.unwrap();
        Self { authority, gate }
    }

    fn address(&self) -> String {
        self.gate.address().to_string()
    }

    /// Credentials, and the node that their holder becomes.
    fn expect(&self) -> (Credentials, impl Future<Output = Node> + use<>) {
        let credentials = self.authority.issue().unwrap();
        let mut dial_ins = self.gate.admit(credentials.token.clone());
        let node = async move {
            let (first, later) = dial_ins.recv().await.unwrap();
            let log = Rc::new(Log::default());
            let for_link = Rc::clone(&log);
            let settings =
                AgentSettings { silence_ms: 10_000, orphan_ms: 15_000, ..AgentSettings::default() };
            let link = attach_arrival(first, later, "run", settings, move |event| {
                for_link.events.borrow_mut().push(event);
                for_link.added.notify_one();
            });
            Node { link, log }
        };
        (credentials, node)
    }
}

impl Node {
    async fn wait_for(&self, count: usize) -> Vec<LinkEvent> {
        while self.log.events.borrow().len() < count {
            self.log.added.notified().await;
        }
        self.log.events.borrow().clone()
    }

    async fn lost(&self) -> String {
        loop {
            if let Some(LinkEvent::Lost(why)) = self.log.events.borrow().last() {
                return why.clone();
            }
            self.log.added.notified().await;
        }
    }
}

fn agent(token: &Text, session: u64) -> AgentLink {
    let facts = NodeFacts { cores: 2, ..NodeFacts::default() };
    AgentLink::new(Identity { token: token.clone(), session, facts })
}

fn ended(number: u32) -> FromAgent {
    FromAgent::Event(AgentEvent::OutputEnded { command: CommandId(number) })
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, test);
}

/// A well-behaved agent that is up.
async fn good_agent(hub: &Hub) -> (Node, Rc<AgentLink>) {
    let (credentials, node) = hub.expect();
    let dialler = Dialler::new(&hub.address(), &credentials).unwrap();
    let link = Rc::new(agent(&credentials.token, 77));
    let for_task = Rc::clone(&link);
    tokio::task::spawn_local(async move {
        let (reader, writer) = dialler.connect().await.unwrap();
        let connection = for_task.greet(reader, writer).await.unwrap();
        for_task.serve(connection, |_| ()).await;
    });
    let node = node.await;
    node.wait_for(1).await;
    (node, link)
}

/// Passes bytes on and cuts each connection after some of them; the limit grows, so that all gets through at last.
async fn cutting_proxy(target: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::task::spawn_local(async move {
        let mut limit = 3_000;
        loop {
            let (ours, _) = listener.accept().await.unwrap();
            let theirs = TcpStream::connect(&target).await.unwrap();
            let (up, down) = (limit, limit * 2);
            limit = limit * 5 / 4;
            tokio::task::spawn_local(async move {
                let (our_reader, mut our_writer) = ours.into_split();
                let (their_reader, mut their_writer) = theirs.into_split();
                let (mut our_reader, mut their_reader) =
                    (our_reader.take(up), their_reader.take(down));
                tokio::select! {
                    _ = tokio::io::copy(&mut our_reader, &mut their_writer) => {}
                    _ = tokio::io::copy(&mut their_reader, &mut our_writer) => {}
                }
            });
        }
    });
    address
}

#[test]
fn connections_that_break_cost_no_message_and_double_none() {
    run(async {
        let hub = Hub::open().await;
        let (credentials, node) = hub.expect();
        let proxy = cutting_proxy(hub.address()).await;
        let dialler = Dialler::new(&proxy.to_string(), &credentials).unwrap();
        let link = Rc::new(agent(&credentials.token, 1));
        let count = 5_000;
        for number in 0..count {
            link.send(&ended(number));
        }
        let heard = Rc::new(RefCell::new(Vec::new()));
        let (for_task, for_heard) = (Rc::clone(&link), Rc::clone(&heard));
        let connections = Rc::new(std::cell::Cell::new(0));
        let for_count = Rc::clone(&connections);
        tokio::task::spawn_local(async move {
            loop {
                let Ok((reader, writer)) = dialler.connect().await else { continue };
                let Ok(connection) = for_task.greet(reader, writer).await else { continue };
                for_count.set(for_count.get() + 1);
                let take = |message| for_heard.borrow_mut().push(message);
                match for_task.serve(connection, take).await {
                    Ending::Broken(_) => {}
                    ending => panic!("{ending:?}"),
                }
            }
        });
        let node = node.await;
        for signal in 0..1000 {
            node.link.send(&ToAgent::SignalAll { signal });
        }
        let events = node.wait_for(1 + count as usize).await;
        for (number, event) in (0..count).zip(&events[1..]) {
            assert_eq!(*event, LinkEvent::Message(ended(number)));
        }
        while heard.borrow().len() < 1000 {
            tokio::task::yield_now().await;
        }
        let expected: Vec<_> = (0..1000).map(|signal| ToAgent::SignalAll { signal }).collect();
        assert_eq!(*heard.borrow(), expected);
        assert!(connections.get() > 3, "the proxy cut {} connections only", connections.get());
    });
}

/// What a connection gives when it is written to, until it ends.
async fn answer_to(address: &str, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    answer
}

#[test]
fn strangers_learn_nothing_and_others_go_on() {
    run(async {
        let hub = Hub::open().await;
        let (good, link) = good_agent(&hub).await;
        // No TLS at all: at most an alert of TLS comes back.
        for bytes in [&b"GET / HTTP/1.0\r\n\r\n"[..], &[0; 100], &[255; 5000], b""] {
            let answer = answer_to(&hub.address(), bytes).await;
            assert!(answer.len() <= 7, "{answer:?}");
        }
        // Another run's credentials.
        let other = Authority::new().unwrap().issue().unwrap();
        let dialler = Dialler::new(&hub.address(), &other).unwrap();
        assert!(dialler.connect().await.is_err(), "an agent trusts no other run's hub");
        // This run's authority, and a token that nobody waits for.
        let unknown = hub.authority.issue().unwrap();
        let dialler = Dialler::new(&hub.address(), &unknown).unwrap();
        let (reader, writer) = dialler.connect().await.unwrap();
        let Err(error) = agent(&unknown.token, 5).greet(reader, writer).await else { panic!() };
        assert_eq!(error.to_string(), "the hub refuses: nobody waits for it");
        link.send(&ended(1));
        assert_eq!(good.wait_for(2).await[1], LinkEvent::Message(ended(1)));
    });
}

/// A connection with this run's credentials whose hello is sent, without an agent behind it.
async fn raw(hub: &Hub, session: u64) -> (Node, Reader, Writer) {
    raw_at(hub, &hub.address(), session).await
}

/// The same at another address, where it is passed on.
async fn raw_at(hub: &Hub, address: &str, session: u64) -> (Node, Reader, Writer) {
    let (credentials, node) = hub.expect();
    let dialler = Dialler::new(address, &credentials).unwrap();
    let (reader, mut writer) = dialler.connect().await.unwrap();
    let said = Hello {
        version: VERSION.into(),
        token: credentials.token.clone(),
        session,
        received: 0,
        facts: NodeFacts::default(),
    };
    let mut bytes = Vec::new();
    frame::encode(&mut bytes, Kind::Hello, &rmp_serde::to_vec(&said).unwrap());
    writer.write_all(&bytes).await.unwrap();
    writer.flush().await.unwrap();
    (node.await, reader, writer)
}

#[test]
fn a_wrong_frame_ends_its_link_and_no_other() {
    run(async {
        let hub = Hub::open().await;
        let (good, link) = good_agent(&hub).await;
        let framed = |content: &[u8]| {
            [&u32::try_from(content.len()).unwrap().to_be_bytes(), content].concat()
        };
        let mut garbage = DataFrame::for_messages();
        garbage.push(100, |out| out.extend_from_slice(&[0xdd; 40])).unwrap();
        let cases = [
            ("over the limit", vec![255; 64], "are allowed"),
            ("unknown kind", framed(&[99]), "which does not exist"),
            ("empty", framed(&[]), "with a body of 0 bytes"),
            ("short number", framed(&[4, 1]), "with a body of 1 bytes"),
            ("gap", DataFrame::for_messages().finish(2), "where 1 was due"),
            ("second hello", framed(&[1, 1, 2]), "no place here"),
            ("welcome", framed(&[2]), "no place here"),
            (
                "acknowledges what was never sent",
                framed(&[5, 0, 0, 0, 0, 0, 0, 0, 9]),
                "was received",
            ),
            ("no message", garbage.finish(1), "decode a message"),
        ];
        for (session, (name, bytes, expected)) in (100..).zip(cases) {
            let (node, mut reader, mut writer) = raw(&hub, session).await;
            writer.write_all(&bytes).await.unwrap();
            writer.flush().await.unwrap();
            let why = node.lost().await;
            assert!(why.contains(expected), "{name}: {why}");
            let mut rest = Vec::new();
            let _ = reader.read_to_end(&mut rest).await;
            link.send(&ended(1));
        }
        good.wait_for(1 + 9).await;
    });
}

/// Passes one connection on until the side that has made it is gone; the task ends when `target` has let go of it, too.
async fn passing_proxy(target: String) -> (SocketAddr, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let passing = tokio::task::spawn_local(async move {
        let (ours, _) = listener.accept().await.unwrap();
        let theirs = TcpStream::connect(&target).await.unwrap();
        let (mut our_reader, mut our_writer) = ours.into_split();
        let (mut their_reader, mut their_writer) = theirs.into_split();
        let up = async {
            let _ = tokio::io::copy(&mut our_reader, &mut their_writer).await;
            their_writer.shutdown().await.unwrap();
        };
        let down = async {
            let _ = tokio::io::copy(&mut their_reader, &mut our_writer).await;
            // Also what nobody takes any more.
            let _ = tokio::io::copy(&mut their_reader, &mut tokio::io::sink()).await;
        };
        tokio::join!(up, down);
    });
    (address, passing)
}

#[test]
fn a_frame_that_is_cut_off_is_a_connection_that_broke() {
    run(async {
        let hub = Hub::open().await;
        let (address, passing) = passing_proxy(hub.address()).await;
        let (node, reader, mut writer) = raw_at(&hub, &address.to_string(), 9).await;
        node.wait_for(1).await;
        writer.write_all(&[0, 0, 0, 50, 4, 0]).await.unwrap();
        writer.flush().await.unwrap();
        drop((reader, writer));
        passing.await.unwrap();
        // From now on time passes when nothing else happens.
        tokio::time::pause();
        let why = node.lost().await;
        assert_eq!(why, "the connection broke and was not resumed within 20000 ms");
    });
}

#[test]
fn a_session_that_is_over_does_not_come_back() {
    run(async {
        let hub = Hub::open().await;
        let (credentials, node) = hub.expect();
        let dialler = Dialler::new(&hub.address(), &credentials).unwrap();
        let agent = agent(&credentials.token, 3);
        let (reader, writer) = dialler.connect().await.unwrap();
        let (connection, node) = tokio::join!(agent.greet(reader, writer), node);
        let connection = connection.unwrap();
        node.link.abort();
        let ending = agent.serve(connection, |_| ()).await;
        assert!(matches!(ending, Ending::Broken(_)), "{ending:?}");
        let (reader, writer) = dialler.connect().await.unwrap();
        let Err(error) = agent.greet(reader, writer).await else { panic!("it came back") };
        let why = error.to_string();
        assert!(why.contains("its session is over") || why.contains("nobody waits"), "{why}");
    });
}

#[test]
fn who_says_hello_too_slowly_is_let_go() {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let hub = Hub::open().await;
        let mut silent = TcpStream::connect(hub.address()).await.unwrap();
        let credentials = hub.authority.issue().unwrap();
        let dialler = Dialler::new(&hub.address(), &credentials).unwrap();
        let (mut reader, mut slow) = dialler.connect().await.unwrap();
        slow.write_all(&[0, 0, 0]).await.unwrap();
        slow.flush().await.unwrap();
        // From now on time passes when nothing else happens.
        tokio::time::pause();
        let mut answer = Vec::new();
        let _ = silent.read_to_end(&mut answer).await;
        let _ = reader.read_to_end(&mut answer).await;
        assert!(answer.is_empty());
    });
}
