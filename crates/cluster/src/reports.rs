//! What the thread of the links reports to the hub of nodes elsewhere: the events, and the channel
//! that counts what waits in it.
//!
//! What an event means for tasks it does not know.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use rakuda_core::NodeId;
use rakuda_link::time::ClockExchange;
use rakuda_proto::agent::AgentEvent;
use rakuda_proto::cluster::{FromAgent, NodeFacts};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::port::Newcomer;

/// Time for which what nodes say of themselves is collected; it goes to the hub together.
const MOMENT: Duration = Duration::from_millis(5);

/// What happened to a node elsewhere.
#[derive(Debug)]
pub enum NodeEvent {
    /// Its agent is there.
    Up(NodeFacts),
    /// As from an agent in this process.
    Agent(AgentEvent),
    /// Its answer to a question.
    Answer(FromAgent),
    /// It has said what time it is there.
    Exchange(ClockExchange),
    /// How it is, as a delta; another comes when the hub has dealt with it.
    State {
        /// As its agent has made it.
        delta: Vec<u8>,
        /// For how long it has lain on the way, at a leader.
        held_ns: u64,
    },
    /// It was up and is gone: why, and whether it will be started once more.
    Lost(String, bool),
    /// It could not be started: why, and whether that will be tried once more.
    Failed(String, bool),
    /// There is such a node from now on; its number is the next one.
    Appeared(Box<Newcomer>),
    /// It was asked to go, and nothing of it is left.
    Gone,
    /// Not of a node: what nodes are waited for.
    Told(String),
    /// Not of a node: with this text a node may join.
    Invited(String),
    /// Not of a node: all nodes that were waited for have appeared, or why they do not.
    AllAppeared(Result<(), String>),
}

/// A report about a node.
#[derive(Debug)]
pub struct NodeReport {
    /// Which.
    pub node: NodeId,
    /// Of the link that it came over: what an earlier one reports is dropped.
    pub incarnation: u32,
    /// What.
    pub event: NodeEvent,
}

impl NodeReport {
    /// Bytes of what commands have written.
    fn bytes(&self) -> usize {
        match &self.event {
            NodeEvent::Agent(AgentEvent::OutputWritten { bytes, .. }) => bytes.len(),
            NodeEvent::Agent(AgentEvent::CommandExited { captured: Some(text), .. }) => {
                text.0.len()
            }
            _ => 0,
        }
    }
}

/// Where reports about nodes elsewhere are sent from another thread, and how many bytes of them wait.
#[derive(Clone)]
pub struct ReportSender {
    sender: UnboundedSender<NodeReport>,
    waiting_bytes: Arc<AtomicUsize>,
}

impl ReportSender {
    /// Sends one.
    pub fn send(&self, report: NodeReport) {
        self.waiting_bytes.fetch_add(report.bytes(), Relaxed);
        // The hub is gone only when the run is over.
        let _ = self.sender.send(report);
    }

    /// What the hub has not come to take yet.
    pub fn backlog_bytes(&self) -> usize {
        self.waiting_bytes.load(Relaxed)
    }
}

/// Where reports of how nodes are go. The first goes at once; those of the next moment go together, since thousands of
/// nodes that are sampled would wake the hub thousands of times a second. Of the thread of the links.
pub(crate) struct StateReports {
    sender: ReportSender,
    /// One has gone a moment ago.
    resting: Cell<bool>,
    waiting: RefCell<Vec<NodeReport>>,
}

impl StateReports {
    pub fn new(sender: ReportSender) -> Self {
        Self { sender, resting: Cell::default(), waiting: RefCell::default() }
    }

    /// Sends one, now or with the others of this moment. Must be called inside a `tokio::task::LocalSet`.
    pub fn send(self: &Rc<Self>, report: NodeReport) {
        if self.resting.replace(true) {
            return self.waiting.borrow_mut().push(report);
        }
        self.sender.send(report);
        let reports = Rc::clone(self);
        tokio::task::spawn_local(async move {
            loop {
                tokio::time::sleep(MOMENT).await;
                let waiting = reports.waiting.take();
                if waiting.is_empty() {
                    break reports.resting.set(false);
                }
                for report in waiting {
                    reports.sender.send(report);
                }
            }
        });
    }
}

/// Where the hub takes them.
pub struct ReportReceiver {
    receiver: UnboundedReceiver<NodeReport>,
    waiting_bytes: Arc<AtomicUsize>,
}

impl ReportReceiver {
    /// The next one. `None`: there will be no other.
    pub async fn recv(&mut self) -> Option<NodeReport> {
        let report = self.receiver.recv().await?;
        Some(self.taken(report))
    }

    /// The next one, if it is there now.
    pub fn try_recv(&mut self) -> Option<NodeReport> {
        let report = self.receiver.try_recv().ok()?;
        Some(self.taken(report))
    }

    fn taken(&self, report: NodeReport) -> NodeReport {
        self.waiting_bytes.fetch_sub(report.bytes(), Relaxed);
        report
    }
}

/// A channel for reports about nodes elsewhere.
pub fn report_channel() -> (ReportSender, ReportReceiver) {
    let (sender, receiver) = unbounded_channel();
    let waiting_bytes = Arc::new(AtomicUsize::new(0));
    let receiver = ReportReceiver { receiver, waiting_bytes: Arc::clone(&waiting_bytes) };
    (ReportSender { sender, waiting_bytes }, receiver)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rakuda_proto::agent::{CommandId, OutputDescriptor};

    #[test]
    fn the_first_state_goes_at_once_and_those_of_the_next_moment_together() {
        let (sender, mut receiver) = report_channel();
        let state = |number: u32| NodeReport {
            node: NodeId(number),
            incarnation: 1,
            event: NodeEvent::State { delta: Vec::new(), held_ns: 0 },
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mut came = || -> Vec<u32> {
            std::iter::from_fn(|| receiver.try_recv()).map(|report| report.node.0).collect()
        };
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let states = Rc::new(StateReports::new(sender));
            (1..=3).for_each(|number| states.send(state(number)));
            assert_eq!(came(), [1]);
            while !states.waiting.borrow().is_empty() {
                tokio::task::yield_now().await;
            }
            assert_eq!(came(), [2, 3]);
            while states.resting.get() {
                tokio::task::yield_now().await;
            }
            states.send(state(4));
            assert_eq!(came(), [4]);
        });
    }

    #[test]
    fn the_backlog_is_what_was_sent_and_not_taken() {
        let (sender, mut receiver) = report_channel();
        let written = |bytes| NodeReport {
            node: NodeId(1),
            incarnation: 1,
            event: NodeEvent::Agent(AgentEvent::OutputWritten {
                command: CommandId(1),
                descriptor: OutputDescriptor::Stdout,
                bytes: vec![0; bytes],
            }),
        };
        sender.send(written(5));
        sender.send(NodeReport { node: NodeId(1), incarnation: 1, event: NodeEvent::Gone });
        sender.send(written(7));
        assert_eq!(sender.backlog_bytes(), 12);
        receiver.try_recv();
        assert_eq!(sender.backlog_bytes(), 7);
        while receiver.try_recv().is_some() {}
        assert_eq!(sender.backlog_bytes(), 0);
    }
}
