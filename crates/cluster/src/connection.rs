//! A node's link as its life has it, from one agent to the next: what the hub asks goes over it while it is there.
//!
//! It holds back what commands write when the hub does not come to take it. It does not know what a message means.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rakuda_core::NodeId;
use rakuda_link::hub::LinkHandle;
use rakuda_proto::cluster::ToAgent;
use tokio::sync::Notify;

use crate::data::Data;
use crate::remote::Shared;
use crate::reports::ReportSender;

/// Maximum bytes of output of commands that wait for the hub. With more, agents stop reading it.
const BACKLOG_BYTES_MAX: usize = 64 << 20;
/// Maximum bytes that wait when agents go on reading.
const BACKLOG_BYTES_LOW: usize = 16 << 20;
/// Time between two looks at what waits.
const LOOK: Duration = Duration::from_millis(20);

/// A node's link, from one agent to the next.
pub(crate) struct NodeConnection {
    /// What the hub knows, too.
    pub shared: Arc<Shared>,
    link: RefCell<Option<LinkHandle>>,
    /// Of its agent.
    incarnation: Cell<u32>,
    /// Whether the agent is to stop reading what commands write: for the hub, or for this side because the hub takes
    /// nothing.
    paused: Cell<(bool, bool)>,
    /// How the node's own files are reached.
    data: RefCell<Option<Data>>,
    /// The run is over, or nothing waits for the agent any more.
    pub changed: Notify,
}

impl NodeConnection {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            link: RefCell::default(),
            incarnation: Cell::new(0),
            paused: Cell::default(),
            data: RefCell::default(),
            changed: Notify::new(),
        }
    }

    /// Sets how its files are reached. `None`: they are not any more, and what leads to them need not stay for that.
    pub fn set_data(&self, data: Option<Data>) {
        self.data.replace(data);
    }

    pub fn data(&self) -> Option<Data> {
        self.data.borrow().clone()
    }

    /// A link is there.
    pub fn connect(&self, incarnation: u32, link: LinkHandle) {
        if self.shared.is_closing() {
            link.close();
        }
        self.shared.connect(incarnation);
        self.incarnation.set(incarnation);
        self.paused.set((false, false));
        self.link.replace(Some(link));
    }

    /// It is gone.
    pub fn disconnect(&self) {
        self.link.replace(None);
        self.shared.disconnect();
    }

    /// Passes on what is for this agent, and not for one before it.
    pub fn send(&self, incarnation: u32, message: &ToAgent) {
        if incarnation != self.incarnation.get() {
            return;
        }
        match (message, self.paused.get()) {
            (ToAgent::PauseOutput { paused }, (_, ours)) => self.pause((*paused, ours)),
            _ => self.pass(message),
        }
    }

    /// Asks this agent for the time, and not one before it.
    pub fn ask_time(&self, incarnation: u32, count: u32) {
        if let Some(link) = &*self.link.borrow()
            && incarnation == self.incarnation.get()
        {
            link.ask_time(count);
        }
    }

    /// What this agent said of its node was dealt with.
    pub fn settle_state(&self, incarnation: u32) {
        if incarnation == self.incarnation.get()
            && let Some(link) = &*self.link.borrow()
        {
            link.settle_state();
        }
    }

    /// The hub does not come to take what there is, or does again.
    pub fn hold_output(&self, ours: bool) {
        self.pause((self.paused.get().0, ours));
    }

    fn pause(&self, now: (bool, bool)) {
        let before = self.paused.replace(now);
        let paused = now.0 || now.1;
        if paused != (before.0 || before.1) {
            self.pass(&ToAgent::PauseOutput { paused });
        }
    }

    fn pass(&self, message: &ToAgent) {
        if let Some(link) = &*self.link.borrow() {
            link.send(message);
        }
    }

    /// The run is over: says bye, and no other agent is started.
    pub fn close(&self) {
        if let Some(link) = &*self.link.borrow() {
            link.close();
        }
        self.changed.notify_waiters();
    }

    /// The agent is not waited for any more.
    pub fn give_up(&self) {
        if let Some(link) = self.link.take() {
            link.abort();
        }
        self.disconnect();
        self.changed.notify_waiters();
    }

    /// Waits until the run is over and the link, if there is one, has been closed.
    pub async fn closing(&self) {
        while !self.shared.is_closing() {
            self.changed.notified().await;
        }
        let link = self.link.borrow().clone();
        if let Some(link) = link {
            link.ended().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn what_is_meant_for_another_agent_is_dropped() {
        let connection = NodeConnection::new(Arc::new(Shared::new(Path::new("/run"), false)));
        connection.incarnation.set(2);
        connection.send(1, &ToAgent::PauseOutput { paused: true });
        assert_eq!(connection.paused.get(), (false, false));
        connection.send(2, &ToAgent::PauseOutput { paused: true });
        assert_eq!(connection.paused.get(), (true, false));
    }

    #[test]
    fn the_hub_and_the_backlog_pause_each_for_itself() {
        let connection = NodeConnection::new(Arc::new(Shared::new(Path::new("/run"), false)));
        connection.hold_output(true);
        connection.send(0, &ToAgent::PauseOutput { paused: true });
        connection.send(0, &ToAgent::PauseOutput { paused: false });
        assert_eq!(connection.paused.get(), (false, true));
        connection.hold_output(false);
        assert_eq!(connection.paused.get(), (false, false));
    }
}

/// What the thread knows of each node.
#[derive(Default)]
pub(crate) struct Connections {
    by_node: RefCell<BTreeMap<NodeId, Rc<NodeConnection>>>,
    /// Too much waits for the hub.
    pub full: Notify,
}

impl Connections {
    pub fn add(&self, node: NodeId, connection: &Rc<NodeConnection>) {
        self.by_node.borrow_mut().insert(node, Rc::clone(connection));
    }

    pub fn get(&self, node: NodeId) -> Option<Rc<NodeConnection>> {
        self.by_node.borrow().get(&node).cloned()
    }

    pub fn all(&self) -> Vec<Rc<NodeConnection>> {
        self.by_node.borrow().values().cloned().collect()
    }

    /// Lets agents read output again each time that too much has waited for the hub and then no longer does; for ever.
    pub async fn watch_backlog(&self, reports: &ReportSender) {
        loop {
            self.full.notified().await;
            while reports.backlog_bytes() > BACKLOG_BYTES_LOW {
                tokio::time::sleep(LOOK).await;
            }
            self.all().iter().for_each(|connection| connection.hold_output(false));
        }
    }
}

/// Whether too much waits for the hub, so that agents are to stop reading.
pub(crate) fn is_full(reports: &ReportSender) -> bool {
    reports.backlog_bytes() > BACKLOG_BYTES_MAX
}
