//! An agent slot: the hub waits there for the agents of one node that dial in, one after another,
//! and hears from their launcher when they end.
//!
//! It does not know what the launcher is, nor how an agent was let in.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use rakuda_link::gate::DialIn;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::ssh::LaunchError;

/// Timeout for the launcher to say why an agent is gone.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// An agent, or why none comes.
pub(crate) type Coming = Result<DialIn, LaunchError>;

/// What launchers have said about the end of nodes' agents, by the nodes' names.
#[derive(Default)]
pub(crate) struct Words {
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
pub(crate) struct AgentSlot {
    arrivals: UnboundedReceiver<Coming>,
    /// What starts another agent of the node, by its name. `None`: nothing can.
    starter: Option<(String, UnboundedSender<String>)>,
    /// The first agent was started without being asked for.
    asked: bool,
    words: Rc<Words>,
}

impl AgentSlot {
    /// One for an agent that is there, and no other.
    pub fn of(dial_in: DialIn) -> Self {
        let (sender, arrivals) = unbounded_channel();
        let _ = sender.send(Ok(dial_in));
        Self { arrivals, starter: None, asked: true, words: Rc::default() }
    }

    /// One for agents of `name`, and where to send them. The first has been started; the slot asks
    /// for the others.
    pub fn of_launcher(
        name: &str,
        starter: UnboundedSender<String>,
        words: &Rc<Words>,
    ) -> (Self, UnboundedSender<Coming>) {
        let (sender, arrivals) = unbounded_channel();
        let (starter, words) = (Some((name.to_owned(), starter)), Rc::clone(words));
        (Self { arrivals, starter, asked: true, words }, sender)
    }

    /// The next agent. Its launcher makes sure that the wait ends.
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

    /// Waits until the launcher says that the agent has ended, and returns its words.
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
