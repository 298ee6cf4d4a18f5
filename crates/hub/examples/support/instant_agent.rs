//! An agent that ends every command at once, for benchmarks of all that is not a process.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use rakuda_cluster::AgentPort;
use rakuda_proto::agent::{AgentEvent, AgentRequest};
use rakuda_proto::front::Usage;
use tokio::sync::mpsc::UnboundedSender;

/// How many commands were started, and when the first and the last of them.
#[derive(Default)]
pub struct Count {
    pub commands: Cell<u64>,
    pub first: Cell<Option<Instant>>,
    pub last: Cell<Option<Instant>>,
}

/// Ends every command when it starts.
pub struct InstantAgent {
    pub events: UnboundedSender<AgentEvent>,
    pub count: Rc<Count>,
}

impl AgentPort for InstantAgent {
    fn handle(&self, request: AgentRequest) {
        if let AgentRequest::Start { command, .. } = request {
            let now = Instant::now();
            self.count.commands.set(self.count.commands.get() + 1);
            self.count.first.set(self.count.first.get().or(Some(now)));
            self.count.last.set(Some(now));
            let ended = AgentEvent::CommandExited {
                command,
                status: 0,
                process: 1,
                captured: None,
                error: None,
                usage: Usage::default(),
                lingers: false,
                is_outlived: false,
            };
            self.events.send(ended).expect("the hub listens");
        }
    }

    fn signal_all(&self, _: i32) -> usize {
        0
    }

    fn pause_output(&self, _: bool) {}

    fn unreported(&self) -> usize {
        0
    }
}
