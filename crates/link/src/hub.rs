//! The hub's end of links: greets agents that come, passes messages on, and says when an agent is lost.
//!
//! A pipe is one connection ([`attach`]); over TCP an agent may come back with a new one, which
//! then takes the old one's place ([`attach_arrival`]). It does not know how agents are launched,
//! nor what becomes of their commands.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rakuda_proto::cluster::{AgentSettings, FromAgent, Hello, NodeFacts, ToAgent, Welcome};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Duration, timeout};

use crate::frame::Decoder;
use crate::greeting::{read_hello, say_refused, say_welcome};
use crate::io::{Came, Ending, Link, MachineClock};
use crate::session::{Limits, Nanoseconds};
use crate::time::ClockExchange;

/// Timeout for the other side to close after bye was said; then it is left alone.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// The version that both sides of a link must have.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a link tells the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkEvent {
    /// The agent is there; once.
    Up(NodeFacts),
    /// It says something.
    Message(FromAgent),
    /// It has said what time it is there.
    Exchange(ClockExchange),
    /// How its node is, as a delta ([`LinkHandle::settle_state`] lets the next come).
    State(Vec<u8>),
    /// The same by the leader of its group, and the time for which that has had it.
    CarriedState(Vec<u8>, Nanoseconds),
    /// It is gone, and why; the last event.
    Lost(String),
}

/// One direction of a connection, whatever it is.
pub type Reader = Box<dyn AsyncRead + Unpin>;
/// The other direction.
pub type Writer = Box<dyn AsyncWrite + Unpin>;

/// A connection whose hello was read.
pub struct Arrival {
    /// What was said.
    pub hello: Hello,
    /// With what came after it.
    pub decoder: Decoder,
    /// Where the agent is heard.
    pub reader: Reader,
    /// Where it hears.
    pub writer: Writer,
}

/// The hub's handle on one link. When all are dropped the link goes on; [`LinkHandle::close`] ends it.
#[derive(Clone)]
pub struct LinkHandle {
    shared: Rc<Shared>,
}

type OnEvent = Rc<dyn Fn(LinkEvent)>;

struct Shared {
    link: Link<FromAgent>,
    /// Wanted: no event any more.
    closing: Cell<bool>,
    /// The task that serves the link is over.
    ended: Cell<bool>,
    changed: Notify,
    /// The receiver of events, until the end.
    on_event: RefCell<Option<OnEvent>>,
    /// Of a state that came by a leader; dropped when that was dealt with.
    unsettled: RefCell<Option<Rc<dyn Any>>>,
    /// Ends the task where it stands.
    task: RefCell<Option<tokio::task::AbortHandle>>,
}

impl LinkHandle {
    /// Sends a message; before the welcome it waits, after the end it is dropped.
    pub fn send(&self, message: &ToAgent) {
        if !self.shared.ended.get() {
            self.shared.link.send(message);
        }
    }

    /// Says bye after all that was sent. No event comes any more, but messages that were under way.
    /// An agent that is not there yet is not waited for.
    pub fn close(&self) {
        self.shared.closing.set(true);
        self.shared.link.say_bye("");
        self.shared.changed.notify_waiters();
    }

    /// Ends the link at once, without bye and without an event.
    pub fn abort(&self) {
        self.shared.closing.set(true);
        if let Some(task) = self.shared.task.borrow().as_ref() {
            task.abort();
        }
        self.shared.end();
    }

    /// Waits until the link is over: bye was said and the agent has closed its side, or it was lost.
    pub async fn ended(&self) {
        while !self.shared.ended.get() {
            self.shared.changed.notified().await;
        }
    }

    /// What the agent's times are compared with, before it is asked for them.
    pub fn set_clock(&self, clock: MachineClock) {
        self.shared.link.set_clock(clock);
    }

    /// Asks the agent `count` times what time it is there, each time when the answer before has come.
    pub fn ask_time(&self, count: u32) {
        self.shared.link.ask_time(count);
    }

    /// The state that came last was dealt with: another may come.
    pub fn settle_state(&self) {
        if self.shared.unsettled.take().is_none() {
            self.shared.link.settle_state();
        }
    }

    /// The agent is reached through a leader that answers for its states and beats.
    pub fn be_carried(&self) {
        self.shared.link.be_carried();
    }

    /// The leader has not heard the agent for `silent_ns`.
    pub fn on_carried(&self, silent_ns: Nanoseconds) {
        self.shared.link.on_carried(silent_ns);
    }

    /// The leader passes on how the agent's node is, and has had that for `held_ns`. `unsettled` is dropped when it was
    /// dealt with, or never will be.
    pub fn carry_state(&self, delta: Vec<u8>, held_ns: Nanoseconds, unsettled: Rc<dyn Any>) {
        let on_event = self.shared.on_event.borrow().clone();
        if let Some(on_event) = on_event
            && !self.shared.closing.get()
        {
            self.shared.unsettled.replace(Some(unsettled));
            on_event(LinkEvent::CarriedState(delta, held_ns));
        }
    }

    /// Bytes that the agent has not acknowledged.
    pub fn is_full(&self) -> bool {
        self.shared.link.is_full()
    }
}

impl Shared {
    fn end(&self) {
        self.ended.set(true);
        self.on_event.take();
        self.unsettled.take();
        self.changed.notify_waiters();
    }

    /// Waits until the hub wants the end.
    async fn closing(&self) {
        while !self.closing.get() {
            self.changed.notified().await;
        }
    }
}

/// Serves an agent at the other end of a pipe: waits for its hello (the launcher says for how long), answers, and then
/// passes messages on. Must be called inside a `tokio::task::LocalSet`.
pub fn attach(
    mut reader: impl AsyncRead + Unpin + 'static,
    mut writer: impl AsyncWrite + Unpin + 'static,
    run: &str,
    settings: AgentSettings,
    on_event: impl Fn(LinkEvent) + 'static,
) -> LinkHandle {
    spawn(run, settings, on_event, async move |serve: Server<'_>| {
        let read = tokio::select! {
            read = read_hello(&mut reader) => read,
            () = serve.shared.closing() => return,
        };
        match read {
            Ok((hello, decoder)) => {
                let (reader, writer) = (Box::new(reader), Box::new(writer));
                serve.only(Arrival { hello, decoder, reader, writer }).await;
            }
            Err(error) => {
                let _ = say_refused(&mut writer, &error.to_string()).await;
                serve.lost(error.to_string());
            }
        }
    })
}

/// Serves an agent that [`crate::gate::Gate`] let in: `first` is its first connection, `later`
/// gives those that take the place of the one before. Must be called inside a
/// `tokio::task::LocalSet`.
pub fn attach_arrival(
    first: Arrival,
    later: mpsc::Receiver<Arrival>,
    run: &str,
    settings: AgentSettings,
    on_event: impl Fn(LinkEvent) + 'static,
) -> LinkHandle {
    spawn(run, settings, on_event, async move |serve: Server<'_>| serve.all(first, later).await)
}

/// The hub bears an agent's silence twice as long as the agent bears the hub's: when its tasks are
/// run elsewhere, the agent has killed them already, and nobody else writes their files.
fn hub_silence_ms(settings: &AgentSettings) -> u32 {
    settings.silence_ms.saturating_mul(2)
}

/// Starts the task of a link.
fn spawn<E: Fn(LinkEvent) + 'static>(
    run: &str,
    settings: AgentSettings,
    on_event: E,
    serve: impl AsyncFnOnce(Server<'_>) + 'static,
) -> LinkHandle {
    let on_event: OnEvent = Rc::new(on_event);
    let link = Link::new(Limits::with_silence_ms(hub_silence_ms(&settings)));
    let shared = Rc::new(Shared {
        link,
        closing: Cell::new(false),
        ended: Cell::new(false),
        changed: Notify::new(),
        on_event: RefCell::new(Some(Rc::clone(&on_event))),
        unsettled: RefCell::new(None),
        task: RefCell::new(None),
    });
    let welcome = Welcome { run: run.to_owned(), received: 0, settings };
    let for_task = Rc::clone(&shared);
    let task = tokio::task::spawn_local(async move {
        serve(Server { shared: &for_task, welcome, on_event: &*on_event }).await;
        for_task.end();
    });
    shared.task.replace(Some(task.abort_handle()));
    LinkHandle { shared }
}

/// What the task of a link works with.
struct Server<'a> {
    shared: &'a Shared,
    welcome: Welcome,
    on_event: &'a dyn Fn(LinkEvent),
}

impl Server<'_> {
    fn lost(&self, why: String) {
        if !self.shared.closing.get() {
            (self.on_event)(LinkEvent::Lost(why));
        }
    }

    /// One connection, no other.
    async fn only(mut self, mut arrival: Arrival) {
        if !self.greet(&mut arrival, None).await {
            return;
        }
        match self.serve(arrival).await {
            Ending::Broken(why) => self.lost(why),
            ending => self.final_end(ending),
        }
    }

    /// Connection after connection, while they come within the silence limit.
    async fn all(mut self, first: Arrival, mut arrivals: mpsc::Receiver<Arrival>) {
        let silence_ms = hub_silence_ms(&self.welcome.settings).max(1);
        let silence = Duration::from_millis(u64::from(silence_ms));
        let mut session = None;
        let mut next = Some(first);
        while let Some(mut arrival) = next.take() {
            if self.greet(&mut arrival, session).await {
                session = Some(arrival.hello.session);
                tokio::select! {
                    ending = self.serve(arrival) => match ending {
                        Ending::Broken(_) if !self.shared.closing.get() => {}
                        ending => return self.final_end(ending),
                    },
                    newer = arrivals.recv() => {
                        next = newer;
                        continue;
                    }
                }
            } else if session.is_none() {
                return;
            }
            let closing = self.shared.closing();
            next = tokio::select! {
                arrival = timeout(silence, arrivals.recv()) => arrival.unwrap_or(None),
                () = closing => return,
            };
        }
        self.lost(format!(
            "the connection broke and was not resumed within {} ms",
            silence.as_millis()
        ));
    }

    fn final_end(&self, ending: Ending) {
        match ending {
            Ending::Bye(why) if why.is_empty() => self.lost("the agent has ended".into()),
            Ending::Bye(why) => self.lost(format!("the agent has ended: {why}")),
            Ending::SaidBye => {}
            Ending::Broken(why) => self.lost(why),
            Ending::Wrong(error) => self.lost(error.to_string()),
        }
    }

    /// Answers a hello. `false`: refused, or the connection broke; the event is sent if that ends the link.
    async fn greet(&mut self, arrival: &mut Arrival, session: Option<u64>) -> bool {
        if let Err(why) = self.check(&arrival.hello, session) {
            let _ = say_refused(&mut arrival.writer, &why).await;
            if session.is_none() {
                self.lost(why);
            }
            return false;
        }
        self.welcome.received = self.shared.link.received();
        if let Err(error) = say_welcome(&mut arrival.writer, &self.welcome).await {
            if session.is_none() {
                self.lost(format!("answer the agent: {error}"));
            }
            return false;
        }
        if session.is_none() {
            let facts = std::mem::take(&mut arrival.hello.facts);
            (self.on_event)(LinkEvent::Up(facts));
        }
        true
    }

    fn check(&self, hello: &Hello, session: Option<u64>) -> Result<(), String> {
        if hello.version != VERSION {
            return Err(format!("the agent has version {}, the hub {VERSION}", hello.version));
        }
        if session.is_some_and(|session| session != hello.session) {
            return Err("another agent has this node's place".into());
        }
        self.shared.link.reconnect(hello.received).map_err(|error| error.to_string())
    }

    async fn serve(&self, arrival: Arrival) -> Ending {
        let Arrival { decoder, mut reader, writer, .. } = arrival;
        let on_came = |came| match came {
            Came::Message(message) => (self.on_event)(LinkEvent::Message(message)),
            Came::Exchange(exchange) => (self.on_event)(LinkEvent::Exchange(exchange)),
            Came::State(state) => (self.on_event)(LinkEvent::State(state)),
        };
        let ending = self.shared.link.serve(&mut reader, writer, decoder, on_came).await;
        if matches!(ending, Ending::SaidBye) {
            // Its end of file says that it has heard us.
            let _ =
                timeout(CLOSE_LIMIT, tokio::io::copy(&mut reader, &mut tokio::io::sink())).await;
        }
        ending
    }
}
