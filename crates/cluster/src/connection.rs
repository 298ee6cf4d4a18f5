//! A node's link as its life has it, from one agent to the next: what the hub asks goes over it while it is there.
//!
//! It holds back what commands write when the hub does not come to take it. It does not know what a message means.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use rakuda_link::hub::LinkHandle;
use rakuda_proto::cluster::ToAgent;
use tokio::sync::Notify;

use crate::data::Data;
use crate::remote::Shared;

/// See the file's head.
pub(crate) struct NodeConnection {
    /// What the hub knows, too.
    pub shared: Arc<Shared>,
    link: RefCell<Option<LinkHandle>>,
    /// Of its agent.
    incarnation: Cell<u32>,
    /// Who wants the agent to stop reading what commands write: the hub, or we since the hub takes nothing.
    paused: Cell<(bool, bool)>,
    /// How the node's own files are got at.
    data: RefCell<Option<Data>>,
    /// The run is over, or the agent is not waited for.
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

    /// How its files are got at, or not any more: who leads to them need not stay for that.
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
