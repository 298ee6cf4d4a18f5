//! Messages and bytes a second over a link, hub and agent each in a thread of its own: over a
//! socket pair, and over TCP with TLS on this machine. Five rounds each; median, least and most.
//!
//!     cargo bench -p rakuda-link
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a measurement that prints")]

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Instant;

use rakuda_link::agent::{AgentLink, Identity};
use rakuda_link::credentials::Authority;
use rakuda_link::gate::Gate;
use rakuda_link::hub::{LinkEvent, LinkHandle, Reader, Writer, attach, attach_arrival};
use rakuda_link::tcp::Dialler;
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentEvent, CommandId, OutputDescriptor};
use rakuda_proto::cluster::{AgentSettings, FromAgent, NodeFacts, ToAgent};
use rakuda_proto::front::Usage;
use tokio::net::UnixStream;
use tokio::sync::Notify;

const ROUNDS: usize = 5;

fn exited() -> FromAgent {
    FromAgent::Event(AgentEvent::CommandExited {
        command: CommandId(1_000_000),
        status: 0,
        process: 12345,
        captured: None,
        error: None,
        usage: Usage::default(),
        lingers: false,
        is_outlived: false,
    })
}

fn written() -> FromAgent {
    let (command, descriptor) = (CommandId(1), OutputDescriptor::Stdout);
    FromAgent::Event(AgentEvent::OutputWritten { command, descriptor, bytes: vec![200; 64 << 10] })
}

/// What the agent sends, and whether each waits for a word from the hub (a round trip).
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    message: fn() -> FromAgent,
    count: u32,
    answered: bool,
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, future)
}

async fn be_agent(load: Load, token: Text, reader: Reader, writer: Writer) {
    let link = Rc::new(AgentLink::new(Identity { token, session: 1, facts: NodeFacts::default() }));
    let connection = link.greet(reader, writer).await.unwrap();
    let (message, answers) = ((load.message)(), Rc::new(Notify::new()));
    let (sender, heard) = (Rc::clone(&link), Rc::clone(&answers));
    tokio::task::spawn_local(async move {
        for _ in 0..load.count {
            sender.send(&message);
            if load.answered {
                answers.notified().await;
            } else if sender.is_full() {
                sender.room().await;
            }
        }
    });
    link.serve(connection, |_| heard.notify_one()).await;
}

fn settings() -> AgentSettings {
    AgentSettings { silence_ms: 10_000, ..AgentSettings::default() }
}

type Hub = Rc<(Cell<u32>, Notify, std::cell::RefCell<Option<LinkHandle>>)>;

/// Counts messages, answers them where that is wanted.
fn listener(load: Load, hub: &Hub) -> impl Fn(LinkEvent) + 'static {
    let hub = Rc::clone(hub);
    move |event| {
        if let LinkEvent::Message(_) = event {
            hub.0.set(hub.0.get() + 1);
            if load.answered {
                hub.2.borrow().as_ref().unwrap().send(&ToAgent::SignalAll { signal: 0 });
            }
            hub.1.notify_one();
        }
    }
}

/// Seconds from the first message's way to the last one's arrival.
async fn time(load: Load, hub: Hub, link: LinkHandle) -> f64 {
    hub.2.replace(Some(link.clone()));
    let start = Instant::now();
    while hub.0.get() < load.count {
        hub.1.notified().await;
    }
    let seconds = start.elapsed().as_secs_f64();
    link.close();
    link.ended().await;
    seconds
}

fn over_sockets(load: Load) -> f64 {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let agent = std::thread::spawn(move || {
        run(async move {
            theirs.set_nonblocking(true).unwrap();
            let (reader, writer) = UnixStream::from_std(theirs).unwrap().into_split();
            be_agent(load, Text::default(), Box::new(reader), Box::new(writer)).await;
        });
    });
    let seconds = run(async move {
        ours.set_nonblocking(true).unwrap();
        let (reader, writer) = UnixStream::from_std(ours).unwrap().into_split();
        let hub = Hub::default();
        let link = attach(reader, writer, "run", settings(), listener(load, &hub));
        time(load, hub, link).await
    });
    agent.join().unwrap();
    seconds
}

fn over_tls(load: Load) -> f64 {
    let (send, receive) = mpsc::channel();
    let agent = std::thread::spawn(move || {
        let (address, credentials) = receive.recv().unwrap();
        run(async move {
            let address: SocketAddr = address;
            let dialler = Dialler::new(&address.to_string(), &credentials).unwrap();
            let (reader, writer) = dialler.connect().await.unwrap();
            be_agent(load, credentials.token, reader, writer).await;
        });
    });
    let seconds = run(async move {
        let authority = Authority::new().unwrap();
        let gate = Gate::open(SocketAddr::from(([127, 0, 0, 1], 0)), &authority).await.unwrap();
        let credentials = authority.issue().unwrap();
        let mut dial_ins = gate.admit(credentials.token.clone());
        send.send((gate.address(), credentials)).unwrap();
        let (first, later) = dial_ins.recv().await.unwrap();
        let hub = Hub::default();
        let link = attach_arrival(first, later, "run", settings(), listener(load, &hub));
        time(load, hub, link).await
    });
    agent.join().unwrap();
    seconds
}

fn main() {
    let loads = [
        Load {
            name: "exits, one way (messages/s)",
            message: exited,
            count: 500_000,
            answered: false,
        },
        Load { name: "round trips (messages/s)", message: exited, count: 20_000, answered: true },
        Load { name: "output of 64 KiB (MiB/s)", message: written, count: 16_000, answered: false },
    ];
    println!("{:30} {:>30} {:>30}", "", "socket pair", "TCP, TLS 1.3");
    for load in loads {
        let mut cells = Vec::new();
        for way in [over_sockets, over_tls] {
            let unit = if load.name.contains("MiB") { 1.0 / 16.0 } else { 1.0 };
            let rate = |seconds: f64| f64::from(load.count) * unit / seconds;
            let mut rates: Vec<f64> = (0..ROUNDS).map(|_| rate(way(load))).collect();
            rates.sort_by(f64::total_cmp);
            let (median, least, most) = (rates[ROUNDS / 2], rates[0], rates[ROUNDS - 1]);
            cells.push(format!("{median:.0} [{least:.0}-{most:.0}]"));
        }
        println!("{:30} {:>30} {:>30}", load.name, cells[0], cells[1]);
    }
}
