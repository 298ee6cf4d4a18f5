//! What a task does on its node: reads its inputs one after the other, computes, writes its outputs
//! one after the other; or, when it is *overlapped*, the three at the same time.
//!
//! Knows no scheduler: the end is a message to the hub.

use rakuda_core::{ActionOutcome, TaskId};

use crate::ids::{FlowId, MachineId};
use crate::outcome::TaskRecord;
use crate::simulation::{Happening, Simulation};
use crate::workload::TaskSpec;
use crate::world::{Origin, Target};

/// One try at a task.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) task: u32,
    pub(crate) machine: MachineId,
    /// The number that tells this attempt from all others.
    pub(crate) serial: u64,
    /// Whether it is on its node: the message to start has arrived, and it has not ended.
    on_node: bool,
    /// Positions of the next input and output.
    next_input: usize,
    next_output: usize,
    reading: Option<(FlowId, Origin)>,
    writing: Option<(FlowId, Target)>,
    /// Of reading, computing, writing: how many have begun and not ended.
    busy: u32,
    record: TaskRecord,
}

/// What an attempt does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Compute,
    Write,
    End,
}

impl Attempt {
    pub(crate) fn new(task: u32, machine: MachineId, serial: u64) -> Self {
        Self {
            task,
            machine,
            serial,
            on_node: false,
            next_input: 0,
            next_output: 0,
            reading: None,
            writing: None,
            busy: 0,
            record: TaskRecord { node: machine.0, ..TaskRecord::default() },
        }
    }
}

impl Simulation<'_> {
    /// The attempt of a task, if it still has this number.
    fn current(&mut self, id: TaskId, serial: u64) -> Option<&mut Attempt> {
        self.attempts[id.0 as usize].as_deref_mut().filter(|attempt| attempt.serial == serial)
    }

    fn attempt(&mut self, id: TaskId) -> &mut Attempt {
        self.attempts[id.0 as usize].as_deref_mut().expect("it is under way")
    }

    fn spec(&mut self, id: TaskId) -> &TaskSpec {
        let task = self.attempt(id).task;
        &self.workload.tasks[task as usize]
    }

    pub(crate) fn on_started(&mut self, id: TaskId, serial: u64) {
        let now = self.since_start_ns();
        let Some(attempt) = self.current(id, serial) else {
            return;
        };
        attempt.on_node = true;
        attempt.record.started_ns = now;
        let machine = attempt.machine;
        let spec = self.spec(id);
        let (memory_bytes, overlapped) = (spec.memory_bytes, spec.overlapped);
        self.world.take_memory(machine, memory_bytes);
        if overlapped {
            self.attempt(id).busy = 3;
            self.read_next(id);
            // The first may have ended the attempt already.
            if self.current(id, serial).is_some_and(|attempt| attempt.on_node) {
                self.compute(id);
                self.write_next(id);
            }
        } else {
            self.attempt(id).busy = 1;
            self.read_next(id);
        }
    }

    /// Begins with the next input, or with what comes after the last.
    fn read_next(&mut self, id: TaskId) {
        let now = self.now;
        let attempt = self.attempt(id);
        let (position, machine) = (attempt.next_input, attempt.machine);
        attempt.next_input += 1;
        let Some(&file) = self.spec(id).inputs.get(position) else {
            self.go_on(id, Step::Compute);
            return;
        };
        match self.world.begin_read(now, machine, file, id) {
            Some(reading) => self.attempt(id).reading = Some(reading),
            None => self.end(id, ActionOutcome::Failed),
        }
    }

    pub(crate) fn on_read(&mut self, id: TaskId) {
        let attempt = self.attempt(id);
        let machine = attempt.machine;
        let position = attempt.next_input - 1;
        let (flow, origin) = attempt.reading.take().expect("what was read was being read");
        let file = self.spec(id).inputs[position];
        let bytes = self.world.bytes(file);
        self.attempt(id).record.reads.add(bytes, origin.local, origin.cached);
        self.world.end_read(flow, machine, file, origin);
        if !origin.local {
            self.outcome.network_bytes += bytes;
        }
        self.read_next(id);
    }

    fn compute(&mut self, id: TaskId) {
        let (seed, percent) = (self.settings.seed, self.settings.cluster.compute_percent);
        let task = self.attempt(id).task;
        let ns = self.spec(id).compute.draw_ns(seed, task);
        let ns = u128::from(ns) * u128::from(percent) / 100;
        let serial = self.attempt(id).serial;
        let end = self.now.saturating_add(u64::try_from(ns).unwrap_or(u64::MAX));
        self.queue.push(end, Happening::Computed { id, serial });
    }

    pub(crate) fn on_computed(&mut self, id: TaskId, serial: u64) {
        if self.current(id, serial).is_some_and(|attempt| attempt.on_node) {
            self.go_on(id, Step::Write);
        }
    }

    /// Begins with the next output, or ends.
    fn write_next(&mut self, id: TaskId) {
        let now = self.now;
        let attempt = self.attempt(id);
        let (position, machine) = (attempt.next_output, attempt.machine);
        attempt.next_output += 1;
        let Some(&file) = self.spec(id).outputs.get(position) else {
            self.go_on(id, Step::End);
            return;
        };
        let writing = self.world.begin_write(now, machine, file, id);
        self.attempt(id).writing = Some(writing);
    }

    pub(crate) fn on_written(&mut self, id: TaskId) {
        let now = self.now;
        let attempt = self.attempt(id);
        let machine = attempt.machine;
        let position = attempt.next_output - 1;
        let (flow, target) = attempt.writing.take().expect("what was written was being written");
        let file = self.spec(id).outputs[position];
        let bytes = self.world.bytes(file);
        self.attempt(id).record.written_bytes += bytes;
        self.world.end_write(now, flow, machine, file, target);
        if target.machine != machine {
            self.outcome.network_bytes += bytes;
        }
        self.write_next(id);
    }

    /// One of reading, computing, writing has come to its end; `next` is what comes then in a task
    /// that does one after the other.
    fn go_on(&mut self, id: TaskId, next: Step) {
        if self.spec(id).overlapped {
            let attempt = self.attempt(id);
            attempt.busy -= 1;
            if attempt.busy == 0 {
                self.end(id, ActionOutcome::Succeeded);
            }
            return;
        }
        match next {
            Step::Compute => self.compute(id),
            Step::Write => self.write_next(id),
            Step::End => self.end(id, ActionOutcome::Succeeded),
        }
    }

    /// Ends an attempt on its node; the hub learns of it later.
    pub(crate) fn end(&mut self, id: TaskId, outcome: ActionOutcome) {
        self.leave_node(id, outcome == ActionOutcome::Succeeded);
        let serial = self.attempt(id).serial;
        let arrival = self.now + self.settings.cluster.dispatch_ns;
        self.queue.push(arrival, Happening::Reported { id, serial, outcome });
    }

    /// Stops whatever an attempt does on its node, and accounts for it.
    pub(crate) fn leave_node(&mut self, id: TaskId, succeeded: bool) {
        let now = self.since_start_ns();
        let attempt = self.attempt(id);
        if !std::mem::replace(&mut attempt.on_node, false) {
            return;
        }
        attempt.record.ended_ns = now;
        let (reading, writing) = (attempt.reading.take(), attempt.writing.take());
        let (task, machine, record) = (attempt.task, attempt.machine, attempt.record.clone());
        let flows = reading.map(|(flow, _)| flow).into_iter();
        for flow in flows.chain(writing.map(|(flow, _)| flow)) {
            self.world.flows.stop(flow);
        }
        let spec = &self.workload.tasks[task as usize];
        self.world.free_memory(machine, spec.memory_bytes);
        // A task that wants more cores than a node has gets all of them.
        let cores = spec.cores.clamp(1, self.settings.cluster.cores.max(1));
        self.outcome.account(cores, &record);
        if succeeded {
            self.record(task, record);
        }
    }

    /// Ends an attempt early, as the hub wants.
    pub(crate) fn abort(&mut self, id: TaskId) {
        let now = self.now;
        if self.attempts[id.0 as usize].is_none() {
            return;
        }
        self.leave_node(id, false);
        self.serials += 1;
        let serial = self.serials;
        self.attempt(id).serial = serial;
        let outcome = ActionOutcome::Failed;
        let arrival = now + self.settings.cluster.dispatch_ns;
        self.queue.push(arrival, Happening::Reported { id, serial, outcome });
    }
}
