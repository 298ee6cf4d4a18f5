//! The life of each leader of a host group, as the hub sees it: launched, up, lost, launched again.
//! One future a leader, on the thread of the links.
//!
//! Its one connection carries a link to itself and a channel to each host of its group. On its own link it reports, for
//! all agents behind it, which are there and how their nodes are; their links get that. It does not know what else goes
//! over them, nor tasks; the node's own life knows what a leader's loss means for a node.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::time::Duration;

use rakuda_link::group;
use rakuda_link::hub::{LinkEvent, LinkHandle, attach};
use rakuda_link::mux::{self, Opener};
use rakuda_link::relay::{self, Pieces, RelayError};
use rakuda_proto::Text;
use rakuda_proto::cluster::{AgentSettings, Call, FromAgent, Role};
use rakuda_proto::cluster::{GroupState, MemberSilence, MemberState};
use tokio::sync::{Notify, Semaphore};

use crate::launcher::{BACKOFF_S_MAX, FRUITLESS_MAX, HELLO_LIMIT, Launcher};
use crate::route::{Carrier, Reached, Route};
use crate::ssh::LaunchError;

/// The leader of a group.
pub(crate) struct Leader {
    host: String,
    route: Route,
    launcher: Rc<Launcher>,
    /// Hosts of its group that it may be reaching now.
    permits: Semaphore,
    state: RefCell<State>,
    /// How often it was started.
    starts: Cell<u32>,
    /// Why it is not up, or was not.
    trouble: RefCell<String>,
    /// Since its last start it has reached a host.
    fruitful: Cell<bool>,
    /// Nodes and leaders that are reached through it.
    members: Cell<usize>,
    /// Something of these has changed.
    changed: Notify,
    /// Links of agents for whose states and beats it answers, by the number of each.
    carried: RefCell<BTreeMap<u32, CarriedLink>>,
    /// The number of the next.
    next_member: Cell<u32>,
}

#[derive(Clone)]
struct CarriedLink {
    link: LinkHandle,
    /// Its agent has the run's folder.
    up: Rc<Cell<bool>>,
}

/// An agent's place among the links that a leader answers for, until it is dropped.
pub(crate) struct Carried {
    leader: Rc<Leader>,
    member: u32,
}

impl Carried {
    /// The link of that agent, before it has greeted. What the leader tells of it counts when it is up: before, nobody
    /// would deal with that.
    pub fn set_link(&self, link: &LinkHandle, up: &Rc<Cell<bool>>) {
        link.be_carried();
        let carried = CarriedLink { link: link.clone(), up: Rc::clone(up) };
        self.leader.carried.borrow_mut().insert(self.member, carried);
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        self.leader.carried.borrow_mut().remove(&self.member);
    }
}

enum State {
    /// It is being started, or will be once more.
    Starting,
    Up(Opener),
    /// It is not started again.
    Over,
}

/// A leader is there as long as someone is a member.
pub(crate) struct Membership(Rc<Leader>);

impl Membership {
    fn new(leader: &Rc<Leader>) -> Self {
        leader.members.set(leader.members.get() + 1);
        Self(Rc::clone(leader))
    }

    pub fn leader(&self) -> &Rc<Leader> {
        &self.0
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.0.members.set(self.0.members.get() - 1);
        self.0.changed.notify_waiters();
    }
}

/// The leaders of a run, by the route to them.
#[derive(Default)]
pub(crate) struct Leaders(BTreeMap<Vec<String>, Weak<Leader>>);

impl Leaders {
    /// The route behind these leaders, the last of which is the nearest to the host; those that
    /// have no life yet begin one.
    pub fn route(&mut self, path: &[String], launcher: &Rc<Launcher>) -> Route {
        let Some((host, above)) = path.split_last() else { return Route::Ssh };
        if let Some(leader) = self.0.get(path).and_then(Weak::upgrade) {
            return Route::Through(Membership::new(&leader));
        }
        let leader = Rc::new(Leader {
            host: host.clone(),
            route: self.route(above, launcher),
            launcher: Rc::clone(launcher),
            permits: Semaphore::new(launcher.connections_at_once),
            state: RefCell::new(State::Starting),
            starts: Cell::new(0),
            trouble: RefCell::default(),
            fruitful: Cell::new(false),
            members: Cell::new(0),
            changed: Notify::new(),
            carried: RefCell::default(),
            next_member: Cell::new(0),
        });
        self.0.insert(path.to_vec(), Rc::downgrade(&leader));
        let route = Route::Through(Membership::new(&leader));
        tokio::task::spawn_local(leader.live());
        route
    }
}

/// How one start of a leader ended.
struct Served {
    why: String,
    was_up: bool,
    passing: bool,
}

impl Leader {
    /// Starts the engine's program on a host of the group, the leader's own or another.
    pub async fn launch(self: &Rc<Self>, host: &str, role: Role) -> Result<Reached, LaunchError> {
        let opener = self.opener().await?;
        let start = self.starts.get();
        let carried = (role == Role::Agent).then(|| {
            let member = self.next_member.get();
            self.next_member.set(member + 1);
            Carried { leader: Rc::clone(self), member }
        });
        let call = Call::Start {
            host: (host != self.host).then(|| host.to_owned()),
            ssh_options: self.launcher.ssh_options.iter().cloned().map(Text).collect(),
            role,
            member: carried.as_ref().map(|carried| carried.member),
        };
        let permit = self.permits.acquire().await;
        let called = call_host(&opener, &call).await;
        drop(permit);
        match called {
            Ok(reached) => {
                self.fruitful.set(true);
                let (pieces, writer) = reached;
                let carrier = Carrier::Channel {
                    words: pieces.last_words(),
                    leader: Rc::clone(self),
                    start,
                    carried,
                };
                Ok(Reached { reader: Box::new(pieces), writer: Box::new(writer), carrier })
            }
            Err(RelayError::Failed(failed)) => {
                let why = format!("{} (tried from its leader {})", failed.why, self.host);
                Err(LaunchError { why, passing: failed.passing })
            }
            Err(error) => {
                let lost = tokio::time::timeout(Duration::from_secs(1), self.loss(start)).await;
                Err(LaunchError { why: lost.unwrap_or_else(|_| error.to_string()), passing: true })
            }
        }
    }

    /// Whether it is not started again.
    pub fn is_over(&self) -> bool {
        matches!(&*self.state.borrow(), State::Over)
    }

    async fn opener(&self) -> Result<Opener, LaunchError> {
        loop {
            match &*self.state.borrow() {
                State::Up(opener) => return Ok(opener.clone()),
                State::Over => {
                    let trouble = self.trouble.borrow();
                    let why = format!("its leader {} cannot be used: {trouble}", self.host);
                    return Err(LaunchError { why, passing: false });
                }
                State::Starting => {}
            }
            self.changed.notified().await;
        }
    }

    /// Waits until its `start`th process is lost, and returns why.
    pub async fn loss(&self, start: u32) -> String {
        while self.starts.get() == start && matches!(&*self.state.borrow(), State::Up(_)) {
            self.changed.notified().await;
        }
        format!("its leader {} was lost: {}", self.host, self.trouble.borrow())
    }

    fn enter(&self, state: State) {
        self.state.replace(state);
        self.changed.notify_waiters();
    }

    async fn live(self: Rc<Self>) {
        let mut fruitless = 0;
        let mut was_ever_up = false;
        loop {
            let served = tokio::select! {
                biased;
                () = self.alone() => break,
                served = self.serve() => served,
            };
            was_ever_up |= served.was_up;
            fruitless = if self.fruitful.take() { 1 } else { fruitless + 1 };
            self.trouble.replace(served.why);
            let again = fruitless < FRUITLESS_MAX
                && (served.passing || was_ever_up)
                && !self.route.is_over();
            if !again {
                break;
            }
            self.enter(State::Starting);
            let wait = Duration::from_secs((1 << (fruitless - 1)).min(BACKOFF_S_MAX));
            tokio::select! {
                () = self.alone() => break,
                () = tokio::time::sleep(wait) => {}
            }
        }
        self.enter(State::Over);
    }

    /// Waits until nobody is reached through it.
    async fn alone(&self) {
        while self.members.get() > 0 {
            self.changed.notified().await;
        }
    }

    /// One start, and the connection until it ends.
    async fn serve(&self) -> Served {
        self.starts.set(self.starts.get() + 1);
        match self.route.launch(&self.host, Role::Leader, &self.launcher).await {
            Ok(Reached { reader, writer, carrier }) => {
                // Its members' links end with the connection. They wait for what is found out here about why.
                let (why, was_up) = self.serve_connection(reader, writer).await;
                Served { why: carrier.explain(why).await, was_up, passing: false }
            }
            Err(LaunchError { why, passing }) => Served { why, was_up: false, passing },
        }
    }

    async fn serve_connection(
        &self,
        reader: rakuda_link::hub::Reader,
        writer: rakuda_link::hub::Writer,
    ) -> (String, bool) {
        let (opener, connection) = mux::connect(reader, writer);
        let up = Cell::new(false);
        let own = async {
            let (events, mut heard) = tokio::sync::mpsc::unbounded_channel();
            let link = match self.own_link(&opener, events).await {
                Ok(link) => EndedLink(Rc::new(link)),
                Err(error) => return error.to_string(),
            };
            let in_time = tokio::time::sleep(HELLO_LIMIT);
            tokio::pin!(in_time);
            loop {
                tokio::select! {
                    event = heard.recv() => match event {
                        Some(LinkEvent::Up(_)) => {
                            up.set(true);
                            self.enter(State::Up(opener.clone()));
                        }
                        Some(LinkEvent::Message(FromAgent::Beats { silent })) => self.on_beats(&silent),
                        Some(LinkEvent::State(report)) => match group::read_report(&report) {
                            Ok(report) => self.on_report(report, &link.0),
                            Err(error) => return format!("what it tells is not understood: {error}"),
                        },
                        // It has nothing else to say.
                        Some(
                            LinkEvent::Message(_)
                            | LinkEvent::Exchange(_)
                            | LinkEvent::CarriedState(..),
                        ) => {}
                        Some(LinkEvent::Lost(why)) => return why,
                        None => return String::from("its link has ended"),
                    },
                    () = &mut in_time, if !up.get() => {
                        return format!("it said nothing for {} s", HELLO_LIMIT.as_secs());
                    }
                }
            }
        };
        let why = tokio::select! {
            why = connection => why,
            why = own => why,
        };
        (why, up.get())
    }

    /// Those of its agents that are not named were heard a moment ago.
    fn on_beats(&self, silent: &[MemberSilence]) {
        let silent: BTreeMap<u32, u64> =
            silent.iter().map(|silence| (silence.member, silence.silent_ns)).collect();
        for (member, CarriedLink { link, .. }) in &*self.carried.borrow() {
            link.on_carried(silent.get(member).copied().unwrap_or(0));
        }
    }

    /// Hands on what its agents tell. The next report may come when all of it was dealt with.
    fn on_report(&self, report: GroupState, own_link: &Rc<LinkHandle>) {
        let unsettled = Rc::new(Unsettled(Rc::clone(own_link)));
        for MemberState { member, held_ns, delta } in report.states {
            // For one that has gone meanwhile it does not matter any more.
            let carried = self.carried.borrow().get(&member).cloned();
            if let Some(CarriedLink { link, up }) = carried
                && up.get()
            {
                link.carry_state(delta.0, held_ns, Rc::clone(&unsettled) as Rc<dyn Any>);
            }
        }
    }

    /// The link to the leader itself: beats of both, and what it tells for its agents.
    async fn own_link(
        &self,
        opener: &Opener,
        events: tokio::sync::mpsc::UnboundedSender<LinkEvent>,
    ) -> Result<LinkHandle, RelayError> {
        let (pieces, writer) = call_host(opener, &Call::Leader).await?;
        // What the leader itself says needs no last words.
        let reader = pieces.into_inner();
        let AgentSettings { silence_ms, orphan_ms, .. } = self.launcher.agent;
        let settings = AgentSettings { silence_ms, orphan_ms, ..AgentSettings::default() };
        let on_event = move |event| drop(events.send(event));
        Ok(attach(reader, writer, "", settings, on_event))
    }
}

/// Ends with its owner.
struct EndedLink(Rc<LinkHandle>);

impl Drop for EndedLink {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A report that was not dealt with in full: it was when this is dropped.
struct Unsettled(Rc<LinkHandle>);

impl Drop for Unsettled {
    fn drop(&mut self) {
        self.0.settle_state();
    }
}

type Halves = (Pieces<tokio::io::ReadHalf<mux::Channel>>, tokio::io::WriteHalf<mux::Channel>);

async fn call_host(opener: &Opener, call: &Call) -> Result<Halves, RelayError> {
    let gone = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
    let mut channel = opener.open().await.ok_or_else(gone)?;
    relay::write_call(&mut channel, call).await?;
    let (reader, writer) = tokio::io::split(channel);
    Ok((Pieces::started(reader).await?, writer))
}
