//! The search for nodes whose agents dial in: it runs beside the run, opens the listener when it is needed, and turns
//! the agents that come into nodes.
//!
//! It does not know what starts these agents: Slurm's steps, a launch template, or somebody on another machine.

use std::cell::{Cell, OnceCell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use rakuda_link::gate::DialIn;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::agent_slot::AgentSlot;
use crate::context::Context;
use crate::launcher::Launcher;
use crate::listener::Listener;
use crate::nodes::Nodes;
use crate::plan::ClusterPlan;

/// What the search for nodes needs, whatever kind it is of.
pub(crate) struct Search {
    pub nodes: Rc<Nodes>,
    pub launcher: Rc<Launcher>,
    /// The run's folder.
    pub directory: PathBuf,
    listen: Option<String>,
    listener: OnceCell<Listener>,
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
    /// `None`: there will be no nodes but those of the plan's hosts.
    pub fn new(context: &Context, nodes: &Rc<Nodes>) -> Option<Rc<Self>> {
        let Context { plan, directory, searches, .. } = context;
        (plan.joinable || plan.brings_nodes()).then(|| {
            Rc::new(Self {
                nodes: Rc::clone(nodes),
                launcher: Rc::clone(&nodes.launcher),
                directory: directory.clone(),
                listen: plan.listen.clone(),
                listener: OnceCell::new(),
                wanted: Cell::new(false),
                closing: Cell::new(false),
                changed: Notify::new(),
                parts: Arc::clone(searches),
                names: RefCell::new(names_so_far(plan)),
            })
        })
    }

    /// Opens the gate, when it is not open yet.
    pub async fn listener(&self, towards: Option<&str>) -> Result<&Listener, String> {
        if self.listener.get().is_none() {
            let opened = Listener::open(self.listen.as_deref(), towards).await?;
            let _ = self.listener.set(opened);
        }
        Ok(self.listener.get().expect("it was opened"))
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

    /// Takes all agents that come as nodes of their own, until the run is over.
    pub async fn welcome_all(&self, mut dial_ins: UnboundedReceiver<DialIn>) {
        loop {
            let dial_in = tokio::select! {
                () = self.closing() => return,
                dial_in = dial_ins.recv() => dial_in,
            };
            let Some(dial_in) = dial_in else { return };
            self.welcome(dial_in);
        }
    }

    /// The node of an agent that has dialled in begins its life.
    pub fn welcome(&self, dial_in: DialIn) {
        let name = self.unique(&plain_name(&dial_in.0.hello.facts.host.to_display()));
        self.nodes.appear(&name, AgentSlot::of(dial_in), None);
    }

    pub fn begin(self: &Rc<Self>, part: impl Future<Output = ()> + 'static) {
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

/// Of the hosts of the plan, and of this machine where it runs tasks, too.
fn names_so_far(plan: &ClusterPlan) -> Vec<String> {
    let own = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    let hosts = plan.hosts.iter().map(|host| host.name.clone());
    hosts.chain(plan.own_takes_tasks.then(own)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_nodes_hold_nothing_strange() {
        assert_eq!(plain_name("n01.site"), "n01.site");
        assert_eq!(plain_name("a b\n\u{1b}"), "a_b__");
        assert_eq!(plain_name(""), "node");
    }
}
