//! Nodes whose agents come by themselves, over TCP: where they are let in, and where each is waited for.
//!
//! It does not know who starts these agents: Slurm's steps, a launch template, or somebody on another machine.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use rakuda_link::credentials::Authority;
use rakuda_link::gate::{Gate, Guest};
use rakuda_link::invitation::Invitation;
use rakuda_link::tcp::address_towards;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::nodes::Launcher;
use super::plan::Origin;
use super::ssh::LaunchError;
use super::thread::Brief;
use super::{slurm, template};
use crate::agents::NodeEvent;

/// Somewhere beyond this network (RFC 5737); nothing is sent there.
const FAR_AWAY: &str = "192.0.2.1";
/// The launcher has so long to say why an agent is gone.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// An agent, or why there is none.
pub(super) type Coming = Result<Guest, LaunchError>;

/// What launchers have said about the end of nodes' agents, by the nodes' names.
#[derive(Default)]
pub(super) struct Words {
    said: RefCell<BTreeMap<String, String>>,
    changed: Notify,
    /// They can start no more agents.
    over: Cell<bool>,
}

impl Words {
    pub fn put(&self, name: &str, words: &str) {
        self.said.borrow_mut().insert(name.to_owned(), words.to_owned());
        self.changed.notify_waiters();
    }

    /// No more agents can be started.
    pub fn end(&self) {
        self.over.set(true);
    }

    pub fn take(&self, name: &str) -> Option<String> {
        self.said.borrow_mut().remove(name)
    }

    /// Waits until something is said of `name`.
    async fn of(&self, name: &str) -> String {
        loop {
            if let Some(words) = self.take(name) {
                return words;
            }
            self.changed.notified().await;
        }
    }
}

/// Where the agents of one node are waited for.
pub(super) struct Seat {
    arrivals: UnboundedReceiver<Coming>,
    /// Who starts another agent of the node, by its name; none: nobody can.
    starter: Option<(String, UnboundedSender<String>)>,
    /// The first agent was started without being asked for.
    asked: bool,
    words: Rc<Words>,
}

impl Seat {
    /// One for an agent that is there, and no other.
    pub fn of(guest: Guest) -> Self {
        let (sender, arrivals) = unbounded_channel();
        let _ = sender.send(Ok(guest));
        Self { arrivals, starter: None, asked: true, words: Rc::default() }
    }

    /// One for agents of `name`, of which the first has been started, and others are asked for; and where they are to be sent.
    pub fn of_launcher(
        name: &str,
        starter: UnboundedSender<String>,
        words: &Rc<Words>,
    ) -> (Self, UnboundedSender<Coming>) {
        let (sender, arrivals) = unbounded_channel();
        let (starter, words) = (Some((name.to_owned(), starter)), Rc::clone(words));
        (Self { arrivals, starter, asked: true, words }, sender)
    }

    /// The next agent. Its launcher sees to it that this ends.
    pub async fn next(&mut self) -> Coming {
        if !std::mem::replace(&mut self.asked, false)
            && let Some((name, starter)) = &self.starter
        {
            let _ = starter.send(name.clone());
        }
        self.arrivals.recv().await.unwrap_or_else(|| {
            Err(LaunchError { why: "its launcher is gone".into(), passing: false })
        })
    }

    pub fn can_start_again(&self) -> bool {
        self.starter.is_some() && !self.words.over.get()
    }

    /// Waits until the launcher says that the agent has ended; its words.
    pub async fn launcher_says(&self) -> String {
        match &self.starter {
            Some((name, _)) => self.words.of(name).await,
            None => std::future::pending().await,
        }
    }

    /// `why`, with what the launcher says of it.
    pub async fn with_last_words(&self, why: String) -> String {
        let Some((name, _)) = &self.starter else { return why };
        match tokio::time::timeout(LAST_WORDS, self.words.of(name)).await {
            Ok(words) => format!("{why}: {words}"),
            Err(_) => why,
        }
    }
}

/// Where the run listens, and who may come in.
pub(super) struct Reception {
    authority: Authority,
    gate: Gate,
}

impl Reception {
    /// Listens at `listen` (`HOST` or `HOST:PORT`), else at the address that this machine has on its way to the host `towards`, else at the
    /// first one of its own name, or on its way out, that others can use. Whoever connects needs the run's credentials.
    pub async fn open(listen: Option<&str>, towards: Option<&str>) -> Result<Self, String> {
        let address = address(listen, towards)?;
        let authority = Authority::new().map_err(|error| format!("failed to {error}"))?;
        let gate = Gate::open(address, &authority).await;
        let gate = gate.map_err(|error| format!("failed to {error}"))?;
        Ok(Self { authority, gate })
    }

    /// An invitation for all agents of one launch, and those that come with it.
    pub fn invite(&self) -> Result<(Invitation, UnboundedReceiver<Guest>), String> {
        let credentials = self.authority.issue().map_err(|error| format!("failed to {error}"))?;
        let guests = self.gate.admit(credentials.token.clone());
        Ok((Invitation { address: self.gate.address().to_string(), credentials }, guests))
    }
}

/// Where to listen.
fn address(listen: Option<&str>, towards: Option<&str>) -> Result<SocketAddr, String> {
    if let Some(listen) = listen {
        let found = match listen.rsplit_once(':') {
            Some((_, port)) if port.parse::<u16>().is_ok() && listen.parse::<IpAddr>().is_err() => {
                listen.to_socket_addrs()
            }
            _ => (listen, 0).to_socket_addrs(),
        };
        let found = found
            .map_err(|error| error.to_string())
            .and_then(|mut found| found.next().ok_or_else(|| "it has no address".to_owned()));
        return found.map_err(|why| {
            format!("cannot listen at {listen}: {why}; expected an address of this machine, HOST or HOST:PORT (--listen)")
        });
    }
    if let Some(towards) = towards {
        let found = address_towards(towards);
        return found.map(|address| (address, 0).into()).map_err(|error| {
            format!("cannot find the way to {towards}: {error}; say at which address of this machine agents find it (--listen HOST)")
        });
    }
    let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let of_own_name = (own.as_str(), 0).to_socket_addrs().into_iter().flatten();
    let addresses = of_own_name.map(|address| address.ip()).chain(address_towards(FAR_AWAY));
    let beyond = |address: &IpAddr| !address.is_loopback() && !address.is_unspecified();
    addresses.into_iter().find(beyond).map(|address| (address, 0).into()).ok_or_else(|| {
        format!("cannot tell by which address others find {own}: say which (--listen HOST)")
    })
}

/// What the search for nodes needs, whatever kind it is of.
pub(super) struct Search {
    pub launcher: Rc<Launcher>,
    /// The run's folder.
    pub directory: PathBuf,
    listen: Option<String>,
    reception: OnceCell<Reception>,
    /// Nodes are needed.
    wanted: Cell<bool>,
    /// The run is over.
    closing: Cell<bool>,
    changed: Notify,
    /// Parts that are under way, which the hub waits for.
    parts: Arc<AtomicUsize>,
    /// Names of nodes so far.
    names: RefCell<Vec<String>>,
}

impl Search {
    /// Opens the gate, when it is not open yet.
    pub async fn reception(&self, towards: Option<&str>) -> Result<&Reception, String> {
        if self.reception.get().is_none() {
            let opened = Reception::open(self.listen.as_deref(), towards).await?;
            let _ = self.reception.set(opened);
        }
        Ok(self.reception.get().expect("it was opened"))
    }

    /// Waits until the run is over.
    pub async fn closing(&self) {
        while !self.closing.get() {
            self.changed.notified().await;
        }
    }

    /// Waits until nodes are needed; `false`: the run is over before.
    pub async fn wanted(&self) -> bool {
        while !self.wanted.get() && !self.closing.get() {
            self.changed.notified().await;
        }
        !self.closing.get()
    }

    pub fn is_closing(&self) -> bool {
        self.closing.get()
    }

    /// There is something to run.
    pub fn want(&self) {
        if !self.wanted.replace(true) {
            self.changed.notify_waiters();
        }
    }

    /// The run is over.
    pub fn close(&self) {
        self.closing.set(true);
        self.changed.notify_waiters();
    }

    /// `name`, or with a number behind it when another node is called so.
    pub fn unique(&self, name: &str) -> String {
        let mut names = self.names.borrow_mut();
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let mut all = std::iter::once(name.to_owned()).chain(numbered);
        let name = all.find(|name| !names.contains(name)).expect("numbers do not end");
        names.push(name.clone());
        name
    }

    /// Takes all who come as nodes of their own, until the run is over.
    pub async fn welcome_all(&self, mut guests: UnboundedReceiver<Guest>) {
        loop {
            let guest = tokio::select! {
                () = self.closing() => return,
                guest = guests.recv() => guest,
            };
            let Some(guest) = guest else { return };
            self.welcome(guest);
        }
    }

    /// A guest becomes a node.
    pub fn welcome(&self, guest: Guest) {
        let name = self.unique(&plain_name(&guest.0.hello.facts.host.to_display()));
        self.launcher.appear(&name, Seat::of(guest), None);
    }

    fn begin(self: &Rc<Self>, part: impl Future<Output = ()> + 'static) {
        self.parts.fetch_add(1, SeqCst);
        let search = Rc::clone(self);
        tokio::task::spawn_local(async move {
            part.await;
            search.parts.fetch_sub(1, SeqCst);
        });
    }
}

/// A node's name is shown, and compared with patterns: what is no letter, digit or the like has no place in it.
fn plain_name(said: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-:%".contains(c) { c } else { '_' };
    let name: String = said.chars().take(255).map(plain).collect();
    if name.is_empty() { "node".into() } else { name }
}

/// Begins to look for nodes that are not known yet; none: there will be no others.
pub(super) fn await_nodes(brief: &Brief, launcher: &Rc<Launcher>) -> Option<Rc<Search>> {
    let Brief { plan, directory, searches, .. } = brief;
    if !plan.joinable && !plan.origin.brings_nodes() {
        return None;
    }
    let search = Rc::new(Search {
        launcher: Rc::clone(launcher),
        directory: directory.clone(),
        listen: plan.listen.clone(),
        reception: OnceCell::new(),
        wanted: Cell::new(false),
        closing: Cell::new(false),
        changed: Notify::new(),
        parts: Arc::clone(searches),
        names: RefCell::new(plan.hosts.iter().map(|host| host.name.clone()).collect()),
    });
    let (joinable, origin) = (plan.joinable, plan.origin.clone());
    let towards = plan.hosts.first().and_then(|host| host.name.rsplit('@').next());
    let towards = towards.map(str::to_owned);
    let whole = Rc::clone(&search);
    search.begin(async move {
        if joinable {
            invite_others(&whole, towards.as_deref()).await;
        }
        let found = match origin {
            Origin::Hosts | Origin::Own => return,
            Origin::Slurm(wish) => slurm::serve(&whole, wish).await,
            Origin::Launch(plan) => template::serve(&whole, &plan).await,
        };
        if let Err(why) = found {
            whole.launcher.tell(NodeEvent::AllAppeared(Err(why)));
        }
    });
    // Until now it was counted by whoever began the thread.
    searches.fetch_sub(1, SeqCst);
    Some(search)
}

/// Lets in whoever has the run's invitation.
async fn invite_others(search: &Rc<Search>, towards: Option<&str>) {
    let invited = match search.reception(towards).await {
        Ok(reception) => reception.invite(),
        Err(why) => Err(why),
    };
    match invited {
        Ok((invitation, guests)) => {
            search.launcher.tell(NodeEvent::Invited(invitation.to_text()));
            let whole = Rc::clone(search);
            search.begin(async move { whole.welcome_all(guests).await });
        }
        Err(why) => search.launcher.tell(NodeEvent::Told(format!("no node can join: {why}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_set_is_taken_and_a_wrong_one_told() {
        assert_eq!(address(Some("127.0.0.1"), None), Ok(([127, 0, 0, 1], 0).into()));
        assert_eq!(address(Some("127.0.0.1:4711"), Some("x")), Ok(([127, 0, 0, 1], 4711).into()));
        assert_eq!(address(None, Some("127.0.0.1")), Ok(([127, 0, 0, 1], 0).into()));
        let error = address(Some("no.such.host.invalid"), None).unwrap_err();
        assert!(error.contains("expected an address of this machine"), "{error}");
    }

    #[test]
    fn names_of_nodes_hold_nothing_strange() {
        assert_eq!(plain_name("n01.site"), "n01.site");
        assert_eq!(plain_name("a b\n\u{1b}"), "a_b__");
        assert_eq!(plain_name(""), "node");
    }
}
