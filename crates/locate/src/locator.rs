//! The hub's end: questions in bulk to a few processes that ask the catalogue, answers through a
//! channel. Never waits for any of them.
//!
//! The processes start with the first question and end with the hub. When the first one that fails says why, nothing
//! more is asked in this run: the user hears of it once, and locality goes on with what the run itself knows.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;

use crate::conversation::{HolderQuestion, ask};
use crate::process::converse;

/// Maximum number of processes. Each has one question under way at a time, and the catalogue takes several.
const PROCESSES_MAX: usize = 4;
/// Maximum number of questions that one of them takes at a time.
const CHUNK: usize = 64;

/// What was found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Located {
    /// Where a file is.
    Hosts {
        /// The question's number.
        id: u32,
        /// As the file system calls them. Empty: no host that is up holds it. `None`: not known.
        hosts: Option<Vec<Vec<u8>>>,
    },
    /// Nothing more will be found out.
    Failed {
        /// Why, for the user.
        reason: String,
    },
}

/// Asks where files are.
#[derive(Debug, Clone)]
pub struct Locator {
    inner: Rc<Inner>,
}

#[derive(Debug)]
struct Inner {
    answers: UnboundedSender<Located>,
    waiting: RefCell<VecDeque<HolderQuestion>>,
    /// Wakes a process's future when there is more to ask.
    more: Notify,
    processes: Cell<usize>,
    failed: Cell<bool>,
}

impl Locator {
    /// One that answers to `answers`. Nothing is started yet.
    pub fn new(answers: UnboundedSender<Located>) -> Self {
        let inner = Inner {
            answers,
            waiting: RefCell::default(),
            more: Notify::new(),
            processes: Cell::new(0),
            failed: Cell::new(false),
        };
        Self { inner: Rc::new(inner) }
    }

    /// Takes questions. Each is answered once, but none after a failure. Must be called inside a
    /// `tokio::task::LocalSet`.
    pub fn ask(&self, questions: impl IntoIterator<Item = HolderQuestion>) {
        let inner = &self.inner;
        if inner.failed.get() {
            return;
        }
        let mut waiting = inner.waiting.borrow_mut();
        waiting.extend(questions);
        let wanted = waiting.len().div_ceil(CHUNK).min(PROCESSES_MAX);
        for _ in inner.processes.get()..wanted {
            inner.processes.set(inner.processes.get() + 1);
            tokio::task::spawn_local(Rc::clone(inner).serve());
        }
        for _ in 0..wanted {
            inner.more.notify_one();
        }
    }

    /// Whether it may still answer.
    pub fn works(&self) -> bool {
        !self.inner.failed.get()
    }
}

impl Inner {
    async fn serve(self: Rc<Self>) {
        if let Err(reason) = self.converse().await
            && !self.failed.replace(true)
        {
            self.waiting.borrow_mut().clear();
            let _ = self.answers.send(Located::Failed { reason });
        }
    }

    /// One process from its start to its end.
    async fn converse(&self) -> Result<(), String> {
        converse(None, async |from, to| {
            loop {
                let chunk = self.next_chunk().await;
                let (answers, ended) = ask(from, to, &chunk).await;
                for ((id, _), answer) in chunk.into_iter().zip(answers) {
                    let _ = self.answers.send(Located::Hosts { id, hosts: answer.ok() });
                }
                ended?;
            }
        })
        .await
    }

    async fn next_chunk(&self) -> Vec<HolderQuestion> {
        loop {
            let chunk: Vec<HolderQuestion> = {
                let mut waiting = self.waiting.borrow_mut();
                let length = waiting.len().min(CHUNK);
                waiting.drain(..length).collect()
            };
            if !chunk.is_empty() {
                return chunk;
            }
            self.more.notified().await;
        }
    }
}
