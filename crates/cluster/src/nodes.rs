//! The life of each node elsewhere: launched, up, lost, launched again. One future a node, on the thread of the links.
//!
//! It reports to the hub what happened, and decides only when to try again. What that means for tasks it does not know.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rakuda_agent::clock;
use rakuda_core::NodeId;
use rakuda_link::gate::DialIn;
use rakuda_link::hub::{LinkEvent, attach, attach_arrival};
use rakuda_proto::Text;
use rakuda_proto::cluster::{FromAgent, Role};

use crate::agent_slot::AgentSlot;
use crate::calls::OwnCalls;
use crate::connection::{Connections, NodeConnection, is_full};
use crate::context::Context;
use crate::data::Data;
use crate::launcher::{BACKOFF_S_MAX, FRUITLESS_MAX, HELLO_LIMIT, Launcher};
use crate::leaders::Leaders;
use crate::port::Newcomer;
use crate::remote::{RemotePort, Shared};
use crate::reports::{NodeEvent, NodeReport, StateReports};
use crate::route::{Reached, Route};
use crate::ssh::LaunchError;

/// The nodes of a run that are not this machine.
pub(crate) struct Nodes {
    pub launcher: Rc<Launcher>,
    pub connections: Rc<Connections>,
    states: Rc<StateReports>,
    calls: OwnCalls,
    directory: PathBuf,
    /// The number of the next.
    next: Cell<u32>,
}

/// Where a node's agents come from.
enum Source {
    /// They are started when they are wanted.
    Launched(Rc<Route>),
    /// They dial in.
    DialIn(AgentSlot),
}

/// An agent that is to be served.
enum Arrived {
    Launched(Reached),
    DialIn(Box<DialIn>),
}

impl Nodes {
    pub fn new(context: &Context, launcher: &Rc<Launcher>) -> Self {
        Self {
            launcher: Rc::clone(launcher),
            connections: Rc::default(),
            states: Rc::new(StateReports::new(context.reports.clone())),
            calls: context.calls.clone(),
            directory: context.directory.clone(),
            next: Cell::new(1),
        }
    }

    /// Begins the lives of the plan's hosts, of which the hub knows already.
    pub fn begin_known(&self, context: &Context, known: Vec<Arc<Shared>>) {
        let mut leaders = Leaders::default();
        for (host, shared) in context.plan.hosts.iter().zip(known) {
            let route = leaders.route(&host.leaders, &self.launcher);
            self.begin(&host.name, Source::Launched(Rc::new(route)), shared);
        }
    }

    /// Begins the life of a node that was not known before, and says so. Its cores are as many as its agent finds.
    pub fn appear(&self, name: &str, slot: AgentSlot, ends_ns: Option<i64>) {
        let Some(calls) = self.calls.calls() else { return };
        let shared = Arc::new(Shared::new(&self.directory, false));
        let id = self.begin(name, Source::DialIn(slot), Arc::clone(&shared));
        let port = RemotePort::new(id, shared, calls);
        let name = Text::from(name.to_owned());
        self.launcher.tell(NodeEvent::Appeared(Box::new(Newcomer {
            name,
            port: Box::new(port),
            ends_ns,
        })));
    }

    fn begin(&self, name: &str, source: Source, shared: Arc<Shared>) -> NodeId {
        let id = NodeId(self.next.get());
        self.next.set(id.0 + 1);
        let connection = Rc::new(NodeConnection::new(shared));
        self.connections.add(id, &connection);
        let data = match &source {
            Source::Launched(route) => Some(Data::new(name, route, &self.launcher)),
            Source::DialIn(_) => None,
        };
        connection.set_data(data);
        let host = name.to_owned();
        let life = Life {
            id,
            host,
            source,
            launcher: Rc::clone(&self.launcher),
            states: Rc::clone(&self.states),
            connections: Rc::clone(&self.connections),
            connection,
            incarnation: 0,
        };
        tokio::task::spawn_local(life.live());
        id
    }
}

/// One node's life.
struct Life {
    id: NodeId,
    host: String,
    source: Source,
    launcher: Rc<Launcher>,
    states: Rc<StateReports>,
    connections: Rc<Connections>,
    connection: Rc<NodeConnection>,
    incarnation: u32,
}

/// How one link's time was.
struct Served {
    why: String,
    /// It was up.
    was_up: bool,
    /// A command ended there.
    fruitful: bool,
    passing: bool,
}

impl Life {
    async fn live(mut self) {
        let mut fruitless = 0;
        let connection = Rc::clone(&self.connection);
        loop {
            let served = tokio::select! {
                biased;
                () = connection.closing() => break,
                served = self.serve() => served,
            };
            fruitless = if served.fruitful { 1 } else { fruitless + 1 };
            let came_before = served.was_up || self.incarnation > 1;
            let again = fruitless < FRUITLESS_MAX
                && (served.passing || came_before)
                && self.source.can_start_again();
            connection.disconnect();
            self.report(if served.was_up {
                NodeEvent::Lost(served.why, again)
            } else {
                NodeEvent::Failed(served.why, again)
            });
            if !again {
                break;
            }
            let wait = Duration::from_secs((1 << (fruitless - 1)).min(BACKOFF_S_MAX));
            tokio::select! {
                () = connection.closing() => break,
                () = tokio::time::sleep(wait) => {}
            }
        }
        connection.disconnect();
        connection.set_data(None);
        connection.shared.end();
        self.report(NodeEvent::Gone);
    }

    fn report(&self, event: NodeEvent) {
        self.launcher.reports.send(NodeReport {
            node: self.id,
            incarnation: self.incarnation,
            event,
        });
    }

    /// One launch, and the link until it ends.
    async fn serve(&mut self) -> Served {
        self.incarnation += 1;
        let arrived = match &mut self.source {
            Source::Launched(route) => {
                route.launch(&self.host, Role::Agent, &self.launcher).await.map(Arrived::Launched)
            }
            Source::DialIn(slot) => {
                slot.next().await.map(|dial_in| Arrived::DialIn(Box::new(dial_in)))
            }
        };
        match arrived {
            Ok(arrived) => self.serve_link(arrived).await,
            Err(LaunchError { why, passing }) => {
                Served { why, was_up: false, fruitful: false, passing }
            }
        }
    }

    async fn serve_link(&self, arrived: Arrived) -> Served {
        let (up, fruitful) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
        let (lost, mut was_lost) = tokio::sync::mpsc::unbounded_channel();
        let on_event = {
            let (connection, reports) =
                (Rc::clone(&self.connection), self.launcher.reports.clone());
            let states = Rc::clone(&self.states);
            let connections = Rc::clone(&self.connections);
            let (up, fruitful) = (Rc::clone(&up), Rc::clone(&fruitful));
            let (node, incarnation) = (self.id, self.incarnation);
            let greeted = Cell::new(None);
            move |event| {
                let event = match event {
                    LinkEvent::Up(facts) => return greeted.set(Some(facts)),
                    // Only now: before, it may not have the run's folder.
                    LinkEvent::Message(FromAgent::Ready { directory }) => {
                        let Some(facts) = greeted.take() else { return };
                        connection.shared.set_directory(&directory);
                        up.set(true);
                        NodeEvent::Up(facts)
                    }
                    LinkEvent::Message(message) => match connection.shared.receive(message) {
                        Ok(event) => {
                            fruitful.set(true);
                            NodeEvent::Agent(event)
                        }
                        Err(Some(answer)) => NodeEvent::Answer(answer),
                        Err(None) => return,
                    },
                    LinkEvent::Exchange(exchange) => NodeEvent::Exchange(exchange),
                    LinkEvent::State(delta) => {
                        let event = NodeEvent::State { delta, held_ns: 0 };
                        return states.send(NodeReport { node, incarnation, event });
                    }
                    LinkEvent::CarriedState(delta, held_ns) => {
                        let event = NodeEvent::State { delta, held_ns };
                        return states.send(NodeReport { node, incarnation, event });
                    }
                    LinkEvent::Lost(why) => return drop(lost.send(why)),
                };
                reports.send(NodeReport { node, incarnation, event });
                if is_full(&reports) {
                    connection.hold_output(true);
                    connections.full.notify_one();
                }
            }
        };
        let run = String::new();
        let agent = self.launcher.agent.clone();
        let (link, carrier) = match arrived {
            Arrived::Launched(Reached { reader, writer, carrier }) => {
                let link = attach(reader, writer, &run, agent, on_event);
                carrier.set_link(&link, &up);
                (link, Some(carrier))
            }
            Arrived::DialIn(dial_in) => {
                (attach_arrival(dial_in.0, dial_in.1, &run, agent, on_event), None)
            }
        };
        link.set_clock(clock::machine_ns);
        self.connection.connect(self.incarnation, link.clone());
        let in_time = async {
            tokio::time::sleep(HELLO_LIMIT).await;
            if up.get() {
                std::future::pending::<()>().await;
            }
        };
        let why = tokio::select! {
            Some(why) = was_lost.recv() => why,
            () = link.ended() => was_lost.try_recv().unwrap_or_default(),
            words = self.source.launcher_says() => words,
            () = in_time => format!("its agent said nothing for {} s", HELLO_LIMIT.as_secs()),
        };
        link.abort();
        let why = match (&carrier, &self.source) {
            (Some(carrier), _) => carrier.explain(why).await,
            (None, Source::DialIn(slot)) => slot.with_last_words(why).await,
            (None, Source::Launched(_)) => why,
        };
        Served { why, was_up: up.get(), fruitful: fruitful.get(), passing: false }
    }
}

impl Source {
    /// Waits until the launcher of the agent says that it has ended, where that report comes apart from the link.
    async fn launcher_says(&self) -> String {
        match self {
            Self::Launched(_) => std::future::pending().await,
            Self::DialIn(slot) => slot.launcher_says().await,
        }
    }

    /// Whether another agent can be had when the first is gone.
    fn can_start_again(&self) -> bool {
        match self {
            Self::Launched(route) => !route.is_over(),
            Self::DialIn(slot) => slot.can_start_again(),
        }
    }
}
