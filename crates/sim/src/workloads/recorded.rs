//! A recorded run of Rakuda as a workload: what would it have taken elsewhere?
//!
//! Only what was executed is in it. Measured times have reading and writing in them already, so
//! either files cost nothing, or the tasks compute as long as their commands used the processor and
//! their files are read and written as the model says.

use std::collections::{BTreeMap, BTreeSet};

use rakuda_proto::Text;
use rakuda_record::find::find_task;
use rakuda_record::{Attempt, Run, Task};

use crate::ids::FileId;
use crate::workload::{Compute, TaskSpec, Workload, WorkloadError};

/// What a recorded task's time is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedTimes {
    /// As long as it took; files have no bytes.
    Wall,
    /// As long as its commands used the processor (without commands: as long as it took); files have their bytes.
    Processor,
}

struct Reader<'a> {
    run: &'a Run,
    times: RecordedTimes,
    workload: Workload,
    /// Numbers of executed tasks in the workload, by those of the run.
    executed: BTreeMap<u32, u32>,
    /// Files, by the tasks that make them.
    files: BTreeMap<u32, FileId>,
}

/// The workload of a run.
///
/// # Errors
/// When nothing was executed.
pub fn recorded(run: &Run, times: RecordedTimes) -> Result<Workload, WorkloadError> {
    let mut reader = Reader {
        run,
        times,
        workload: Workload::new(format!("run {}", run.started.run)),
        executed: BTreeMap::new(),
        files: BTreeMap::new(),
    };
    for (number, task) in (0_u32..).zip(&run.tasks) {
        if task.as_deref().and_then(last_attempt).is_some() {
            let next = reader.executed.len() as u32;
            reader.executed.insert(number, next);
        }
    }
    if reader.executed.is_empty() {
        return Err(WorkloadError::Description("nothing was executed in this run".to_owned()));
    }
    for number in reader.executed.keys().copied().collect::<Vec<u32>>() {
        reader.add(number);
    }
    reader.order_nested();
    Ok(reader.workload)
}

/// The attempt that counts: the last one that ended.
fn last_attempt(task: &Task) -> Option<&Attempt> {
    task.attempts.iter().rev().find(|attempt| attempt.ended.is_some() && attempt.counts())
}

impl Reader<'_> {
    fn task(&self, number: u32) -> Option<&Task> {
        self.run.tasks.get(number as usize)?.as_deref()
    }

    fn attempt(&self, number: u32) -> Option<&Attempt> {
        self.task(number).and_then(last_attempt)
    }

    fn add(&mut self, number: u32) {
        let name = self.program(number);
        let rule = self.workload.rule(&name);
        let (inputs, after) = self.before(number);
        let compute = Compute::Fixed(self.time_ns(number));
        let cores = self.attempt(number).map_or(1, |attempt| attempt.started.cores.max(1));
        let outputs = self.own_file(number).into_iter().collect();
        let task = TaskSpec { cores, inputs, outputs, after, ..TaskSpec::new(rule, compute) };
        self.workload.task(task);
    }

    /// The first program that it started, else where its action stands.
    fn program(&self, number: u32) -> String {
        let command = self.attempt(number).and_then(|attempt| attempt.commands.first());
        let command =
            command.and_then(|command| self.run.commands.get(*command as usize)?.as_ref());
        let word =
            command.and_then(|command| match (&command.started.words, &command.started.line) {
                (Some(words), _) => words.first().map(shown),
                (None, Some(line)) => shown(line).split_whitespace().next().map(str::to_owned),
                (None, None) => None,
            });
        let program = word.and_then(|word| word.rsplit('/').next().map(str::to_owned));
        let location = || {
            self.task(number).and_then(|task| self.run.location(task)).map(|place| shown(&place))
        };
        program.or_else(location).unwrap_or_else(|| "other".to_owned())
    }

    /// The file that an executed task made.
    fn own_file(&mut self, number: u32) -> Option<FileId> {
        let after = self.attempt(number)?.ended.as_ref()?.after.as_ref()?;
        let bytes = after.bytes;
        Some(self.file(number, bytes))
    }

    fn file(&mut self, number: u32, bytes: u64) -> FileId {
        let bytes = if self.times == RecordedTimes::Wall { 0 } else { bytes };
        *self.files.entry(number).or_insert_with(|| self.workload.file(bytes))
    }

    /// The files that a task has, and the tasks without files that come before it; what was not
    /// executed and is no file stands for what comes before that.
    fn before(&mut self, number: u32) -> (Vec<FileId>, Vec<u32>) {
        let (mut inputs, mut after) = (Vec::new(), Vec::new());
        let mut seen = BTreeSet::from([number]);
        let mut open = self.edges(number);
        open.reverse();
        while let Some((before, is_input)) = open.pop() {
            if !seen.insert(before) {
                continue;
            }
            if let Some(&task) = self.executed.get(&before) {
                match self.own_file(before) {
                    Some(file) if is_input => inputs.push(file),
                    Some(_) | None => after.push(task),
                }
            } else if let Some(bytes) = self.task(before).and_then(|task| task.defined.bytes) {
                if is_input {
                    inputs.push(self.file(before, bytes));
                }
            } else {
                open.extend(self.edges(before).into_iter().rev());
            }
        }
        (inputs, after)
    }

    /// Prerequisites, and whether they are read.
    fn edges(&self, number: u32) -> Vec<(u32, bool)> {
        let Some(task) = self.task(number) else {
            return Vec::new();
        };
        let inputs = task.defined.prerequisites.iter().map(|before| (*before, true));
        inputs.chain(task.defined.order_only.iter().map(|before| (*before, false))).collect()
    }

    fn time_ns(&self, number: u32) -> u64 {
        let Some(attempt) = self.attempt(number) else {
            return 0;
        };
        let commands = attempt.commands.iter();
        let commands: Vec<_> = commands
            .filter_map(|command| self.run.commands.get(*command as usize)?.as_ref())
            .collect();
        let wall_ns = attempt.run_ns(self.run);
        if self.times == RecordedTimes::Wall || commands.is_empty() {
            return wall_ns;
        }
        let ended = commands.iter().filter_map(|command| command.ended.as_ref());
        let used_us: u64 = ended.map(|ended| ended.user_us + ended.system_us).sum();
        // A program of several threads uses more processor time than time goes by.
        (used_us * 1_000).min(wall_ns)
    }

    /// What an action invoked comes after what its task needed, and before the rest of the task.
    /// The part before is left out: the whole action's own time counts after.
    fn order_nested(&mut self) {
        for invocation in &self.run.invocations {
            let Some(caller) = invocation.caller.filter(|task| self.executed.contains_key(task))
            else {
                continue;
            };
            let wanted: Vec<u32> =
                invocation.tasks.iter().filter_map(|name| find_task(self.run, name)).collect();
            let nested = self.nested(&wanted, invocation.started_ns);
            let (inputs, after) = self.before(caller);
            let made = self.files.iter().filter(|(_, file)| inputs.contains(file));
            let made = made.filter_map(|(task, _)| self.executed.get(task).copied());
            let before: Vec<u32> = made.chain(after).collect();
            for task in &nested {
                self.workload.tasks[self.executed[task] as usize].after.extend(&before);
            }
            let nested = nested.iter().map(|task| self.executed[task]);
            self.workload.tasks[self.executed[&caller] as usize].after.extend(nested);
        }
        for task in &mut self.workload.tasks {
            task.after.sort_unstable();
            task.after.dedup();
        }
    }

    /// Executed tasks below those that are wanted that started since the invocation.
    fn nested(&self, wanted: &[u32], since_ns: i64) -> Vec<u32> {
        let mut seen: BTreeSet<u32> = BTreeSet::new();
        let mut open = wanted.to_vec();
        let mut nested = Vec::new();
        while let Some(number) = open.pop() {
            if !seen.insert(number) {
                continue;
            }
            match self.attempt(number) {
                Some(attempt) if attempt.started.time_ns >= since_ns => nested.push(number),
                Some(_) => continue,
                None => {}
            }
            open.extend(self.edges(number).into_iter().map(|(before, _)| before));
        }
        nested
    }
}

fn shown(text: &Text) -> String {
    text.to_display()
}
