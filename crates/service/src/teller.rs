//! What an agent elsewhere reports of its node, sampled here, as deltas.
//!
//! A delta is made when it can be written, so it has the newest. It does not know what carries it.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use rakuda_agent::providers::ExternalProvider;
use rakuda_agent::{Inform, Sampled};
use rakuda_info::delta::Sender;
use rakuda_info::external::forget;
use rakuda_info::table::{NodeId, Table};
use rakuda_link::io::StateSource;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout_at};

use crate::sampling::{Control, Finding, Machine, moment};

/// Time after which a value is sent again that has not moved by more than its threshold.
const SILENCE_NS: u64 = 10_000_000_000;
/// Time for which findings are collected; they are sent together.
const BATCH: Duration = Duration::from_millis(5);
/// Timeout for the providers before the first message, which has all that they found by then.
const FIRST: Duration = Duration::from_secs(1);

/// Samples this node and makes deltas of what has changed.
pub struct Teller {
    known: Rc<RefCell<Known>>,
    sampling: RefCell<Option<Sampling>>,
}

/// What is known of this machine, and what was sent of it.
struct Known {
    table: Table,
    row: NodeId,
    sender: Sender,
    /// Names of programs that provide.
    providers: Vec<String>,
}

/// As long as it samples.
struct Sampling {
    control: Rc<Control>,
    /// How often.
    period: Duration,
    task: AbortHandle,
}

impl Drop for Sampling {
    fn drop(&mut self) {
        self.task.abort();
        self.control.end();
    }
}

impl Known {
    /// Values of other providers than these are not known any more.
    fn provide(&mut self, providers: &[ExternalProvider]) {
        let names = providers.iter().map(|it| it.name.clone()).collect();
        for name in std::mem::replace(&mut self.providers, names) {
            if !self.providers.contains(&name) {
                forget(&mut self.table, self.row, &name, moment().now);
            }
        }
    }

    fn note(&mut self, machine: &mut Machine, finding: Finding) {
        machine.note(finding, &mut self.table, self.row);
    }
}

impl Default for Teller {
    fn default() -> Self {
        let mut table = Table::new();
        // The receiver has its own name for the node.
        let row = table.node(None, "here");
        let sender = Sender::new(SILENCE_NS).telling_samples();
        let known = Rc::new(RefCell::new(Known { table, row, sender, providers: Vec::new() }));
        Self { known, sampling: RefCell::default() }
    }
}

impl StateSource for Teller {
    fn restart(&self) {
        self.known.borrow_mut().sender.restart();
    }

    fn take(&self) -> Option<Vec<u8>> {
        let Known { table, sender, .. } = &mut *self.known.borrow_mut();
        sender.take(table, moment().now)
    }
}

impl Inform for Teller {
    fn sample(&self, wanted: Sampled, news: Rc<dyn Fn()>) {
        self.restart();
        self.known.borrow_mut().provide(&wanted.providers);
        if let Some(sampling) = &*self.sampling.borrow()
            && sampling.period == wanted.period
        {
            sampling.control.name(&wanted.folders);
            // One that cannot be started has sent nothing, and the hub says so of its values.
            let _ = sampling.control.provide(&wanted.providers);
            return news();
        }
        self.sampling.replace(None);
        if wanted.period.is_zero() {
            return;
        }
        // Without threads nothing is known, and the hub says so of the values.
        let Ok(machine) = Machine::start(&wanted) else { return };
        let control = machine.control();
        let task = tokio::task::spawn_local(serve(machine, Rc::clone(&self.known), news));
        let (period, task) = (wanted.period, task.abort_handle());
        self.sampling.replace(Some(Sampling { control, period, task }));
    }

    fn sample_now(&self, only: &[String]) {
        self.known.borrow_mut().sender.tell_exactly(only, moment().now);
        if let Some(sampling) = &*self.sampling.borrow() {
            sampling.control.sample_now(only);
        }
    }

    fn tell_exactly(&self, attributes: Vec<String>) {
        self.known.borrow_mut().sender.tell_always(attributes);
    }

    fn end(&self) {
        self.sampling.replace(None);
    }
}

/// Notes what is found; for ever.
async fn serve(mut machine: Machine, known: Rc<RefCell<Known>>, news: Rc<dyn Fn()>) {
    #[allow(clippy::disallowed_methods, reason = "tokio's clock, which limits a wait")]
    let first = Instant::now() + FIRST;
    while !machine.is_known() {
        let Ok(finding) = timeout_at(first, machine.finding()).await else { break };
        known.borrow_mut().note(&mut machine, finding);
    }
    loop {
        news();
        let finding = machine.finding().await;
        known.borrow_mut().note(&mut machine, finding);
        sleep(BATCH).await;
        while let Some(finding) = machine.next_finding() {
            known.borrow_mut().note(&mut machine, finding);
        }
    }
}
