//! All that happened to one task in one run, in order. It includes what came before and after it in the graph, with
//! times, as far as that has to do with this task.
//!
//! A [`Story`] is data; its words for people are not known here.

use std::collections::BTreeSet;

use rakuda_proto::Text;
use rakuda_proto::journal::{
    CommandEnded, CommandEnvironment, FileStaged, NodeChosen, Outcome, Reason, RunOutcome,
    TargetFate, TaskKind, TaskOutcome,
};

use crate::run::{Attempt, Loss, Run, Task};
use crate::why::because;

/// Maximum number of dependents that are listed one by one.
const DEPENDENTS_MAX: usize = 10;

/// What happened to a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Story {
    /// The task's name.
    pub task: Text,
    /// How it is decided whether it runs.
    pub kind: TaskKind,
    /// Where its action stands.
    pub location: Option<Text>,
    /// Names.
    pub prerequisites: Vec<Text>,
    /// Names.
    pub order_only: Vec<Text>,
    /// What became of it.
    pub fate: Fate,
    /// In order of time.
    pub happenings: Vec<Happening>,
}

/// What became of a task in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Its action succeeded, or it stood for something that did.
    Executed,
    /// Nothing had to be done.
    UpToDate,
    /// Its last attempt failed.
    Failed,
    /// It was not tried, because a prerequisite failed.
    Abandoned,
    /// An attempt has begun and not ended, and the run lives or was cut off.
    Unfinished,
    /// The run ended before it was its turn, or has not come to it.
    NotReached,
}

impl Fate {
    /// For people and for JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Executed => "executed",
            Self::UpToDate => "up_to_date",
            Self::Failed => "failed",
            Self::Abandoned => "abandoned",
            Self::Unfinished => "unfinished",
            Self::NotReached => "not_reached",
        }
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Happening {
    /// ns since 1970.
    pub time_ns: i64,
    /// What.
    pub what: What,
}

/// What can happen to a task.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// The last of its prerequisites that ran was done.
    Ready {
        /// That prerequisite.
        after: Text,
    },
    /// An attempt began.
    AttemptStarted {
        /// From 1.
        attempt: u32,
        /// Name of the node.
        node: Text,
        /// That it occupied.
        cores: u32,
        /// Why it ran.
        reasons: Vec<Reason>,
        /// The attempt that it is to make good: its number, and how that ended.
        after: Option<(u32, Outcome)>,
    },
    /// The node of the attempt was chosen by what was known of it.
    NodeChosen(Box<NodeChosen>),
    /// A command started.
    CommandStarted {
        /// Its number in the run.
        command: u32,
        /// As words, or as one line for the shell.
        words: Result<Vec<Text>, Text>,
        /// Where, when not in the run's directory.
        directory: Option<Text>,
        /// What it runs in.
        env: Option<Box<CommandEnvironment>>,
    },
    /// A command ended.
    CommandEnded(Box<CommandEnded>),
    /// A file was staged: one that an attempt was to read, or the task's own.
    FileStaged {
        /// Which. `None`: the task's own.
        file: Option<Text>,
        /// Files beside it that came with it.
        secondary: u32,
        /// The node that had it. `None`: the machine of the hub.
        from: Option<Text>,
        /// The node that has it, too.
        to: Option<Text>,
        /// Of all of it.
        bytes: u64,
        /// How long that took.
        took_ns: u64,
    },
    /// An attempt ended.
    AttemptEnded {
        /// From 1.
        attempt: u32,
        /// How.
        outcome: Outcome,
        /// What went wrong.
        message: Option<Text>,
        /// Another attempt follows.
        retried: bool,
        /// Since it began.
        took_ns: u64,
        /// Size of its target then.
        bytes: Option<u64>,
        /// What was done with a target that is not good.
        target: Option<TargetFate>,
        /// Its secondary files.
        secondary: u32,
    },
    /// The task was settled without an attempt that says so.
    Settled {
        /// How.
        how: TaskOutcome,
        /// Because of which prerequisites.
        because: Vec<Text>,
    },
    /// A dependent began.
    DependentStarted {
        /// Its name.
        task: Text,
    },
    /// More of them began that are not listed one by one.
    MoreDependents {
        /// How many.
        count: u32,
    },
    /// The node of an attempt was lost.
    NodeLost {
        /// Its name.
        node: Text,
    },
    /// It is taken to be the reason why nodes were lost, and fails.
    Blamed {
        /// Names of the nodes that it was lost with.
        nodes: Vec<Text>,
    },
    /// What it had made, or what was found, is on lost nodes only and is needed: it is to be made again.
    Reopened,
    /// Its file is on lost nodes only, and nothing makes it: what needs it waits.
    InputLost,
    /// The run was asked to stop while the task was not settled.
    StopRequested {
        /// `interrupt`, `kill`, `terminate`.
        how: String,
    },
    /// The run ended, and the task was not settled.
    RunEnded {
        /// How. `None`: the journal just ends.
        how: Option<RunOutcome>,
    },
}

/// Tells the story of a task, by its number. `None`: the journal does not name it.
///
/// `run` may have been read without commands; then the story has none.
pub fn story(run: &Run, number: u32) -> Option<Story> {
    let task = run.task(number)?;
    let names = |numbers: &[u32]| numbers.iter().map(|task| run.task_name(*task)).collect();
    let fate = fate(run, task);
    let mut happenings = Vec::new();
    if matches!(fate, Fate::Executed | Fate::Failed | Fate::Unfinished) {
        happenings.extend(ready(run, task));
    }
    let mut after = None;
    for attempt in &task.attempts {
        tell_attempt(run, attempt, after, &mut happenings);
        let ended = attempt.ended.as_ref().filter(|ended| ended.retried);
        after = ended.map(|ended| (attempt.started.attempt, ended.outcome));
    }
    tell_staged(run, task, &mut happenings);
    // That it failed has been said with its last attempt.
    let told = |how| how == TaskOutcome::Failed && !task.attempts.is_empty();
    if let Some(settled) = task.settled.as_ref().filter(|settled| !told(settled.how)) {
        let what = What::Settled { how: settled.how, because: names(&because(run, task)) };
        happenings.push(Happening { time_ns: settled.time_ns, what });
    }
    let settled_ns = match fate {
        Fate::Unfinished | Fate::NotReached => i64::MAX,
        _ => happenings.iter().map(|happening| happening.time_ns).max().unwrap_or(i64::MIN),
    };
    for loss in run.losses.iter().filter(|loss| loss.task() == number) {
        let what = match loss {
            Loss::Blamed(blamed) => What::Blamed {
                nodes: blamed.nodes.iter().map(|node| run.node_name(*node)).collect(),
            },
            Loss::Reopened(_) => What::Reopened,
            Loss::InputLost(_) => What::InputLost,
        };
        happenings.push(Happening { time_ns: loss.time_ns(), what });
    }
    let stops = run.stops.iter().filter(|stop| stop.time_ns <= settled_ns);
    happenings.extend(stops.map(|stop| Happening {
        time_ns: stop.time_ns,
        what: What::StopRequested { how: stop.how.clone() },
    }));
    tell_dependents(run, task, &mut happenings);
    if settled_ns == i64::MAX {
        let how = run.ended.as_ref().map(|ended| ended.how);
        let ended_ns = run.ended.as_ref().map_or(run.last_ns, |ended| ended.time_ns);
        let time_ns = ended_ns.max(run.last_ns);
        happenings.push(Happening { time_ns, what: What::RunEnded { how } });
    }
    // Stable, so that what one instant holds stays in the order of telling.
    happenings.sort_by_key(|happening| happening.time_ns);
    Some(Story {
        task: task.defined.name.clone(),
        kind: task.defined.kind,
        location: run.location(task),
        prerequisites: names(&task.defined.prerequisites),
        order_only: names(&task.defined.order_only),
        fate,
        happenings,
    })
}

/// What became of a task.
pub fn fate(run: &Run, task: &Task) -> Fate {
    if task.reopened {
        return Fate::Unfinished;
    }
    if let Some(settled) = &task.settled {
        return match settled.how {
            TaskOutcome::Executed => Fate::Executed,
            // It was made in this run, was lost, and came back.
            TaskOutcome::NotNeeded if !task.attempts.is_empty() => Fate::Executed,
            TaskOutcome::NotNeeded => Fate::UpToDate,
            TaskOutcome::Failed => Fate::Failed,
            TaskOutcome::Abandoned => Fate::Abandoned,
            TaskOutcome::NotReached => Fate::NotReached,
        };
    }
    match task.attempts.last() {
        Some(Attempt { ended: None, .. }) => Fate::Unfinished,
        Some(Attempt { ended: Some(ended), .. }) => match ended.outcome {
            Outcome::Done => Fate::Executed,
            Outcome::Failed | Outcome::Exited if !ended.retried => Fate::Failed,
            Outcome::Failed | Outcome::Exited | Outcome::Aborted | Outcome::Lost => {
                Fate::Unfinished
            }
            Outcome::GivenBack => Fate::NotReached,
        },
        None if task.defined.up_to_date || is_quiet(run, task) => Fate::UpToDate,
        None => Fate::NotReached,
    }
}

/// Nothing is said of a task that had no attempt: in a run that came to its end all by itself, it was up to date.
fn is_quiet(run: &Run, task: &Task) -> bool {
    let whole = run.ended.as_ref().is_some_and(|ended| ended.how == RunOutcome::Done);
    whole || !task.defined.action && task.defined.prerequisites.is_empty()
}

fn ready(run: &Run, task: &Task) -> Option<Happening> {
    let prerequisites = task.defined.prerequisites.iter().chain(&task.defined.order_only);
    let done = prerequisites.filter_map(|number| Some((settled_ns(run.task(*number)?)?, number)));
    let (time_ns, last) = done.max()?;
    // An attempt may be begun early, before the prerequisite was known to be done, never the other way round; the
    // journal's order says so, and equal times stand in this order.
    Some(Happening { time_ns, what: What::Ready { after: run.task_name(*last) } })
}

/// When a task was done with, if it ran.
fn settled_ns(task: &Task) -> Option<i64> {
    let settled = task.settled.as_ref().map(|settled| settled.time_ns);
    let ended = task.attempts.last().and_then(|attempt| attempt.ended.as_ref());
    settled.or(ended.map(|ended| ended.time_ns))
}

fn tell_attempt(
    run: &Run,
    attempt: &Attempt,
    after: Option<(u32, Outcome)>,
    happenings: &mut Vec<Happening>,
) {
    let started = &attempt.started;
    let node = run.nodes.get(started.node as usize);
    let node_name = run.node_name(started.node);
    let mut tell = |time_ns, what| happenings.push(Happening { time_ns, what });
    tell(
        started.time_ns,
        What::AttemptStarted {
            attempt: started.attempt,
            node: node_name.clone(),
            cores: started.cores_in_all(),
            reasons: started.reasons.clone(),
            after,
        },
    );
    if let Some(chosen) = &attempt.chosen {
        tell(chosen.time_ns, What::NodeChosen(chosen.clone()));
    }
    for command in &attempt.commands {
        let Some(command) = run.commands.get(*command as usize).and_then(Option::as_ref) else {
            continue;
        };
        let words = match &command.started.words {
            Some(words) => Ok(words.clone()),
            None => Err(command.started.line.clone().unwrap_or_default()),
        };
        let directory = command.started.directory.clone();
        let number = command.started.command;
        let env = command.started.env.clone();
        let what = What::CommandStarted { command: number, words, directory, env };
        tell(command.started.time_ns, what);
        if let Some(ended) = &command.ended {
            tell(ended.time_ns, What::CommandEnded(Box::new(ended.clone())));
        }
    }
    let Some(ended) = &attempt.ended else {
        return;
    };
    if ended.outcome == Outcome::Lost
        && let Some(lost_ns) = node.and_then(|node| node.lost_ns)
    {
        tell(lost_ns, What::NodeLost { node: node_name });
    }
    tell(
        ended.time_ns,
        What::AttemptEnded {
            attempt: started.attempt,
            outcome: ended.outcome,
            message: ended.message.clone(),
            retried: ended.retried,
            took_ns: attempt.run_ns(run),
            bytes: ended.after.map(|file| file.bytes),
            target: ended.target,
            secondary: u32::try_from(ended.secondary.len()).unwrap_or(u32::MAX),
        },
    );
}

/// What was staged in for the task's attempts, and where its own file was staged out to.
fn tell_staged(run: &Run, task: &Task, happenings: &mut Vec<Happening>) {
    if run.staged.is_empty() {
        return;
    }
    let inputs = inputs(run, task);
    let number = task.defined.task;
    let is_for = |attempt: &Attempt, staged: &FileStaged| {
        let ended_ns = attempt.ended.as_ref().map_or(i64::MAX, |ended| ended.time_ns);
        let (started, time_ns) = (&attempt.started, staged.time_ns);
        staged.to == started.node && (started.time_ns..=ended_ns).contains(&time_ns)
    };
    for staged in &run.staged {
        let is_input = inputs.contains(&staged.task)
            && task.attempts.iter().any(|attempt| is_for(attempt, staged));
        if staged.task != number && !is_input {
            continue;
        }
        let what = What::FileStaged {
            file: (staged.task != number).then(|| run.task_name(staged.task)),
            secondary: staged.companions,
            from: run.place_name(staged.from),
            to: run.place_name(staged.to),
            bytes: staged.bytes,
            took_ns: staged.took_ns,
        };
        happenings.push(Happening { time_ns: staged.time_ns, what });
    }
}

/// What a task reads: its prerequisites, also those behind plain tasks.
fn inputs(run: &Run, task: &Task) -> BTreeSet<u32> {
    let of = |task: &Task| {
        let defined = &task.defined;
        defined.prerequisites.iter().chain(&defined.order_only).copied().collect::<Vec<u32>>()
    };
    let mut walk = of(task);
    let mut inputs = BTreeSet::new();
    while let Some(number) = walk.pop() {
        let is_new = inputs.insert(number);
        let plain = run.task(number).filter(|task| task.defined.kind == TaskKind::Plain);
        if let Some(plain) = plain.filter(|_| is_new) {
            walk.extend(of(plain));
        }
    }
    inputs
}

/// Dependents that began after the task was done. Those that were abandoned have it in their own stories.
fn tell_dependents(run: &Run, task: &Task, happenings: &mut Vec<Happening>) {
    let number = task.defined.task;
    let dependents = run.tasks.iter().flatten().filter(|other| {
        other.defined.prerequisites.contains(&number) || other.defined.order_only.contains(&number)
    });
    let mut started: Vec<(i64, u32)> = dependents
        .filter_map(|other| Some((other.attempts.first()?.started.time_ns, other.defined.task)))
        .collect();
    started.sort_unstable();
    for (time_ns, dependent) in started.iter().take(DEPENDENTS_MAX) {
        let what = What::DependentStarted { task: run.task_name(*dependent) };
        happenings.push(Happening { time_ns: *time_ns, what });
    }
    if let Some((time_ns, _)) = started.get(DEPENDENTS_MAX) {
        let count = u32::try_from(started.len() - DEPENDENTS_MAX).unwrap_or(u32::MAX);
        happenings.push(Happening { time_ns: *time_ns, what: What::MoreDependents { count } });
    }
}
