//! A hub's end and an agent's end over an in-process pipe.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rakuda_link::agent::{AgentLink, GreetingError, Identity};
use rakuda_link::frame::{self, Kind};
use rakuda_link::hub::{LinkEvent, LinkHandle, VERSION, attach};
use rakuda_link::io::{Ending, StateSource};
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentEvent, AgentRequest, CommandId, OutputDescriptor};
use rakuda_proto::cluster::{AgentSettings, FromAgent, Hello, NodeFacts, ToAgent};
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, duplex,
};
use tokio::sync::Notify;
use tokio::task::LocalSet;

/// All that a link reported to the hub.
#[derive(Default)]
struct Log {
    events: RefCell<Vec<LinkEvent>>,
    added: Notify,
}

impl Log {
    async fn wait_for(&self, count: usize) -> Vec<LinkEvent> {
        while self.events.borrow().len() < count {
            self.added.notified().await;
        }
        self.events.borrow().clone()
    }
}

fn settings() -> AgentSettings {
    AgentSettings { silence_ms: 10_000, orphan_ms: 15_000, ..AgentSettings::default() }
}

fn hub_at(stream: DuplexStream) -> (LinkHandle, Rc<Log>) {
    let (reader, writer) = tokio::io::split(stream);
    hub_between(reader, writer)
}

fn hub_between(
    reader: impl AsyncRead + Unpin + 'static,
    writer: impl AsyncWrite + Unpin + 'static,
) -> (LinkHandle, Rc<Log>) {
    let log = Rc::new(Log::default());
    let for_link = Rc::clone(&log);
    let handle = attach(reader, writer, "run", settings(), move |event| {
        for_link.events.borrow_mut().push(event);
        for_link.added.notify_one();
    });
    (handle, log)
}

fn agent() -> AgentLink {
    let facts = NodeFacts { host: Text::from("n1"), cores: 4, ..NodeFacts::default() };
    AgentLink::new(Identity { token: Text::default(), session: 1, facts })
}

fn hello(version: &str) -> Hello {
    Hello {
        version: version.into(),
        token: Text::default(),
        session: 1,
        received: 0,
        facts: NodeFacts::default(),
    }
}

async fn greeted(
    agent: &AgentLink,
    stream: DuplexStream,
) -> Result<rakuda_link::agent::Connection, GreetingError> {
    let (reader, writer) = tokio::io::split(stream);
    agent.greet(Box::new(reader), Box::new(writer)).await
}

fn output(number: u32, bytes: usize) -> FromAgent {
    FromAgent::Event(AgentEvent::OutputWritten {
        command: CommandId(number),
        descriptor: OutputDescriptor::Stdout,
        bytes: vec![200; bytes],
    })
}

/// Runs `test` with time that passes only when nothing else is to be done.
fn run(test: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    LocalSet::new().block_on(&runtime, test);
}

#[test]
fn hub_and_agent_greet_and_talk_both_ways() {
    run(async {
        let (ours, theirs) = tokio::io::duplex(1000);
        let (hub, log) = hub_at(ours);
        let change =
            ToAgent::Request(AgentRequest::ChangeDirectory { directory: Text::from("/d") });
        hub.send(&change);
        let agent = agent();
        let connection = greeted(&agent, theirs).await.unwrap();
        assert_eq!(connection.welcome.run, "run");
        assert_eq!(connection.welcome.settings, settings());
        for number in 0..100 {
            agent.send(&output(number, 1000));
        }
        agent.say_bye("was told to");
        let mut heard = Vec::new();
        let ending = agent.serve(connection, |message| heard.push(message)).await;
        assert!(matches!(ending, Ending::SaidBye), "{ending:?}");
        let events = log.wait_for(102).await;
        assert!(matches!(&events[0], LinkEvent::Up(facts) if facts.cores == 4));
        for (number, event) in (0..100).zip(&events[1..]) {
            assert_eq!(*event, LinkEvent::Message(output(number, 1000)));
        }
        assert_eq!(events[101], LinkEvent::Lost("the agent has ended: was told to".into()));
        assert_eq!(heard, [change]);
        hub.ended().await;
    });
}

#[test]
fn a_hub_that_closes_says_bye_after_its_messages_and_hears_of_no_loss() {
    run(async {
        let (ours, theirs) = tokio::io::duplex(1000);
        let (hub, log) = hub_at(ours);
        let agent = agent();
        let connection = greeted(&agent, theirs).await.unwrap();
        hub.send(&ToAgent::SignalAll { signal: 15 });
        hub.close();
        let mut heard = Vec::new();
        let ending = agent.serve(connection, |message| heard.push(message)).await;
        assert!(matches!(ending, Ending::Bye(why) if why.is_empty()));
        assert_eq!(heard, [ToAgent::SignalAll { signal: 15 }]);
        hub.ended().await;
        assert_eq!(log.events.borrow().len(), 1);
    });
}

#[test]
fn a_pipe_that_ends_is_a_lost_agent() {
    run(async {
        let (ours, theirs) = tokio::io::duplex(1000);
        let (_hub, log) = hub_at(ours);
        drop(greeted(&agent(), theirs).await.unwrap());
        let events = log.wait_for(2).await;
        assert_eq!(events[1], LinkEvent::Lost("the connection was closed".into()));
    });
}

#[test]
fn an_agent_is_heard_to_its_end_when_nothing_can_be_written_to_it_any_more() {
    for (bye, expected) in [
        (Some("was told to"), "the agent has ended: was told to"),
        (None, "the connection was closed"),
    ] {
        run(async {
            let ((reader, mut says), (writer, hears)) = (duplex(1000), duplex(1000));
            let (hub, log) = hub_between(reader, writer);
            let mut bytes = Vec::new();
            frame::encode(&mut bytes, Kind::Hello, &rmp_serde::to_vec(&hello(VERSION)).unwrap());
            says.write_all(&bytes).await.unwrap();
            log.wait_for(1).await;
            drop(hears);
            hub.send(&ToAgent::SignalAll { signal: 15 });
            // Until the hub has found that.
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            bytes.clear();
            if let Some(why) = bye {
                frame::encode(&mut bytes, Kind::Bye, why.as_bytes());
            }
            says.write_all(&bytes).await.unwrap();
            drop(says);
            assert_eq!(log.wait_for(2).await[1], LinkEvent::Lost(expected.into()));
        });
    }
}

#[test]
fn a_silent_agent_is_lost_and_a_beating_one_is_not() {
    run(async {
        let (ours, theirs) = tokio::io::duplex(1000);
        let (_hub, log) = hub_at(ours);
        let beating = agent();
        let connection = greeted(&beating, theirs).await.unwrap();
        let served =
            tokio::task::spawn_local(async move { beating.serve(connection, |_| ()).await });
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        for _ in 0..60 {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
        assert_eq!(log.events.borrow().len(), 1, "{:?}", log.events.borrow());
        served.abort();

        let (ours, theirs) = tokio::io::duplex(1000);
        let (_hub, log) = hub_at(ours);
        let _hung = greeted(&agent(), theirs).await.unwrap();
        let events = log.wait_for(2).await;
        // The hub bears twice what an agent bears.
        assert_eq!(events[1], LinkEvent::Lost("heard nothing for 20000 ms".into()));
    });
}

#[test]
fn an_agent_that_stood_still_reads_what_has_come_before_it_counts_the_hub_as_silent() {
    run(async {
        let (ours, theirs) = tokio::io::duplex(1000);
        let (hub, log) = hub_at(ours);
        let agent = agent();
        let connection = greeted(&agent, theirs).await.unwrap();
        log.wait_for(1).await;
        hub.send(&ToAgent::SignalAll { signal: 15 });
        hub.close();
        for _ in 0..10 {
            // Until it is written.
            tokio::task::yield_now().await;
        }
        tokio::time::advance(std::time::Duration::from_secs(15)).await;
        let mut heard = Vec::new();
        let ending = agent.serve(connection, |message| heard.push(message)).await;
        assert!(matches!(ending, Ending::Bye(_)), "{ending:?}");
        assert_eq!(heard, [ToAgent::SignalAll { signal: 15 }]);
    });
}

#[test]
fn messages_over_the_length_of_a_frame_arrive() {
    run(async {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (_hub, log) = hub_at(ours);
        let agent = agent();
        let connection = greeted(&agent, theirs).await.unwrap();
        agent.send(&output(1, 20 << 20));
        tokio::task::spawn_local(async move { agent.serve(connection, |_| ()).await });
        let events = log.wait_for(2).await;
        assert!(events[1] == LinkEvent::Message(output(1, 20 << 20)));
    });
}

#[test]
fn an_agent_of_another_version_is_refused_with_both_versions() {
    run(async {
        let (ours, mut theirs) = tokio::io::duplex(1000);
        let (_hub, log) = hub_at(ours);
        let mut bytes = Vec::new();
        frame::encode(&mut bytes, Kind::Hello, &rmp_serde::to_vec(&hello("9.9.9")).unwrap());
        theirs.write_all(&bytes).await.unwrap();
        let mut answer = Vec::new();
        theirs.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer[4], Kind::Refused as u8);
        let events = log.wait_for(1).await;
        assert!(matches!(&events[0], LinkEvent::Lost(why) if why.contains("9.9.9")));
    });
}

#[test]
fn text_of_start_up_files_is_shown_as_the_reason() {
    run(async {
        let (ours, mut theirs) = tokio::io::duplex(1000);
        let (_hub, log) = hub_at(ours);
        theirs.write_all(b"Welcome to n1!\n").await.unwrap();
        let events = log.wait_for(1).await;
        let LinkEvent::Lost(why) = &events[0] else { panic!("{events:?}") };
        assert!(why.contains("Welcome to n1!") && why.contains("start-up files"), "{why}");
    });
}

/// Of output that waits to be written, at most a frame comes before the answer, however much there is.
#[test]
fn an_answer_about_the_time_overtakes_output_that_waits() {
    run(async {
        let (ours, theirs) = tokio::io::duplex(1000);
        let (hub, log) = hub_at(ours);
        hub.set_clock(|| 7);
        let agent = agent();
        agent.set_clock(|| 3_600_000_000_000);
        let connection = greeted(&agent, theirs).await.unwrap();
        hub.ask_time(3);
        let talk = async {
            // The questions are there before the output is.
            while log.events.borrow().len() < 2 {
                log.added.notified().await;
            }
            for number in 0..64 {
                agent.send(&output(number, 256 << 10));
            }
            log.wait_for(4 + 64).await;
            agent.say_bye("");
            std::future::pending::<()>().await;
        };
        tokio::select! {
            _ = agent.serve(connection, |_| ()) => {}
            () = talk => {}
        }
        let events = log.events.borrow();
        let is_time = |event: &LinkEvent| matches!(event, LinkEvent::Exchange(_));
        let places: Vec<usize> =
            (0..).zip(events.iter()).filter(|(_, it)| is_time(it)).map(|(at, _)| at).collect();
        assert_eq!(places.len(), 3);
        assert!(places[2] <= 10, "{places:?}");
        let LinkEvent::Exchange(exchange) = &events[places[0]] else { unreachable!() };
        assert_eq!((exchange.sent_ns, exchange.there_sent_ns), (7, 3_600_000_000_000));
    });
}

/// What was offered last.
#[derive(Default)]
struct Counter(Cell<u8>);

impl StateSource for Counter {
    fn restart(&self) {}

    fn take(&self) -> Option<Vec<u8>> {
        Some(vec![self.0.get()])
    }
}

#[test]
fn a_state_overtakes_what_waits_behind_it_and_a_hub_that_takes_none_gets_one() {
    run(async {
        let (ours, theirs) = tokio::io::duplex(1000);
        let (hub, log) = hub_at(ours);
        let agent = Rc::new(agent());
        let newest = Rc::new(Counter::default());
        agent.set_state_source(Rc::clone(&newest) as Rc<dyn StateSource>);
        let connection = greeted(&agent, theirs).await.unwrap();
        // More than is handed to a connection at a time.
        for number in 0..8 {
            agent.send(&output(number, 1 << 20));
        }
        agent.offer_state();
        newest.0.set(1);
        let for_task = Rc::clone(&agent);
        tokio::task::spawn_local(async move { for_task.serve(connection, |_| ()).await });
        let events = log.wait_for(10).await;
        let place = events.iter().position(|event| *event == LinkEvent::State(vec![1])).unwrap();
        assert!(place < 9, "it waited for {} messages", place - 1);
        for number in 2..10 {
            newest.0.set(number);
            agent.offer_state();
            agent.send(&output(number.into(), 1));
        }
        let events = log.wait_for(18).await;
        let states = |events: &[LinkEvent]| {
            events.iter().filter(|event| matches!(event, LinkEvent::State(_))).count()
        };
        assert_eq!((events.len(), states(&events)), (18, 1), "it was not dealt with");
        hub.settle_state();
        let events = log.wait_for(19).await;
        assert_eq!(events[18], LinkEvent::State(vec![9]), "the newest, and no other");
    });
}
