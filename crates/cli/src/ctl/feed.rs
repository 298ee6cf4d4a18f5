//! What there is to see of a live run: what its hub answers, and what its journal has got since the last look.
//!
//! It only reads. Others show it.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::time::Duration;

use rakuda_record::folder::{RunFolder, RunState};
use rakuda_record::live::{LiveRun, told};
use rakuda_record::reader::read_events;
use rakuda_record::regular::open_regular;
use rakuda_record::report::{Failure, failure};
use rakuda_record::summary::outcomes::{Fate, fate};
use rakuda_record::summary::rule_counts::RuleCounts;
use rakuda_record::summary::streams::StreamState;
use rakuda_record::sync::SyncFigures;
use serde_json::{Value, json};

use super::base_folder::BaseFolder;
use super::journal_tasks::{NotRunning, Words, ended, fits, running, without_attempt};
use super::waiting::{self, Bounds, in_words};
use super::{live, report};

/// Maximum bytes of the journal that are read at a time.
const PIECE: u64 = 8 << 20;

/// Of a search for tasks that have not begun: as it goes on with each look, no longer than a look may take.
const SEARCH: Bounds = Bounds { found: 200, time: Duration::from_millis(300) };

/// A look at a run.
#[derive(Debug, Default)]
pub struct Look {
    /// Name of the run.
    pub run: String,
    /// What the hub says (`status`). `None`: the run has ended.
    pub live: Option<Value>,
    /// How it ended, for people.
    pub state: &'static str,
    /// By rule.
    pub rules: Vec<RuleCounts>,
    /// Streams that were opened.
    pub streams: Vec<StreamState>,
    /// Synchronised rounds.
    pub rounds: SyncFigures,
    /// Numbers of the tasks that failed.
    pub failed: Vec<u32>,
    /// The one that was chosen.
    pub chosen: Option<Failure>,
    /// Tasks that have ended, the last first. With words that are looked for, after these what did not run, and what
    /// has not begun.
    pub others: Vec<NotRunning>,
    /// How many of all that fit the words are done.
    pub done: usize,
    /// How many that fit have not begun; `true`: there may be more.
    pub to_come: (usize, bool),
}

impl Look {
    /// How many running tasks it tells of.
    pub fn running(&self) -> usize {
        let tasks = self.live.as_ref().and_then(|live| live["tasks"].as_array());
        tasks.map_or(0, Vec::len)
    }
}

/// Reads a journal while it is written: each time the whole lines that have come.
pub struct Follower {
    folder: RunFolder,
    journal: Option<File>,
    offset: u64,
    /// What they tell.
    pub live: LiveRun,
}

impl Follower {
    /// From its first line on.
    pub fn new(folder: RunFolder) -> Self {
        Self { folder, journal: None, offset: 0, live: LiveRun::default() }
    }

    /// Where the run is.
    pub fn folder(&self) -> &RunFolder {
        &self.folder
    }

    /// Takes the whole lines that have come.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn read_on(&mut self) -> anyhow::Result<()> {
        if self.journal.is_none() && self.folder.journal.exists() {
            self.journal = Some(open_regular(&self.folder.journal)?);
        }
        let Some(journal) = &mut self.journal else { return Ok(()) };
        loop {
            journal.seek(SeekFrom::Start(self.offset))?;
            let mut bytes = Vec::new();
            journal.take(PIECE).read_to_end(&mut bytes)?;
            let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            if whole == 0 {
                return Ok(());
            }
            read_events(&bytes[..whole], |event| self.live.add(event))?;
            self.offset += whole as u64;
        }
    }
}

/// Follows one run for `rakudactl top`.
pub struct Feed {
    follower: Follower,
    /// What was chosen last, with what it had printed: the log is read only once for it.
    failure: Option<(u32, Failure)>,
}

impl Feed {
    /// Of a run that goes on: the one that RUN names, else the last.
    ///
    /// # Errors When no run goes on, or its record cannot be found.
    pub fn open(base: &BaseFolder, run: Option<&str>) -> anyhow::Result<Self> {
        let answers = live::ask(base, Some(run.unwrap_or("last")), &json!({"ask": "status"}))?;
        let name = answers.last().and_then(|answer| answer["run"].as_str()).unwrap_or_default();
        Ok(Self { follower: Follower::new(base.run_folder(name)?), failure: None })
    }

    /// How things are now, of the tasks that the words fit; `chosen`: which of the failures to give in full.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn look(
        &mut self,
        base: &BaseFolder,
        chosen: usize,
        words: &Words,
    ) -> anyhow::Result<Look> {
        let name = self.follower.folder.run.clone();
        let mut live = status(base, &name, false)?;
        self.follower.read_on()?;
        let run = &self.follower.live.run;
        if let Some(live) = &mut live {
            let now_ns = live["time_ns"].as_i64().unwrap_or(0);
            let told = live["tasks"].as_array().map_or(&[][..], Vec::as_slice);
            live["tasks"] = running(run, told, now_ns, words).into();
        }
        let tasks = run.tasks.iter().flatten();
        let failed: Vec<u32> = tasks
            .filter(|task| {
                let fit = |last| fits(run, task, last, words);
                fate(task) == Fate::Failed && task.attempts.last().is_some_and(fit)
            })
            .map(|task| task.defined.task)
            .collect();
        let found = ended(run, words);
        let (mut others, done, mut to_come) = (found.tasks, found.done, (0, false));
        if !words.is_empty() {
            others.extend(without_attempt(run, words));
            let found = waiting::find(base, &name, &words.text(), SEARCH);
            let tasks = found["tasks"].as_array().map_or(&[][..], Vec::as_slice);
            others.extend(tasks.iter().map(not_begun));
            to_come = (tasks.len(), found["more"] == true);
        }
        let mut rounds = SyncFigures::default();
        rounds.add_run(run);
        let state = if live.is_some() { "" } else { RunState::of_journal(run).word() };
        let rules = told::rules(run, &told::groups(run, live.as_ref()), live.as_ref());
        let rules = rules.into_iter().map(|(_, rule)| rule).collect();
        let streams = told::streams(run, live.as_ref());
        let task = failed.get(chosen.min(failed.len().saturating_sub(1))).copied();
        let chosen = task.and_then(|task| self.failure(task));
        Ok(Look {
            run: name,
            live,
            state,
            rules,
            streams,
            rounds,
            failed,
            chosen,
            others,
            done,
            to_come,
        })
    }

    fn failure(&mut self, task: u32) -> Option<Failure> {
        if self.failure.as_ref().is_none_or(|(known, _)| *known != task) {
            let tail = report::read_tails(&self.follower.folder, &[task]).remove(&task);
            self.failure =
                failure(&self.follower.live.run, task, tail).map(|failure| (task, failure));
        }
        self.failure.as_ref().map(|(_, failure)| failure.clone())
    }
}

/// One that was found at the hub: `[number, name, place, state]`.
fn not_begun(found: &Value) -> NotRunning {
    let name = found[1].as_str().unwrap_or_default().to_owned();
    let how = in_words(&found[3]);
    NotRunning { name, node: String::new(), took_ns: None, how, is_bad: false }
}

/// What the hub of a run says of it. `None`: it has ended, or ends.
///
/// # Errors
/// When the hub is there and does not answer.
pub fn status(base: &BaseFolder, run: &str, values: bool) -> anyhow::Result<Option<Value>> {
    match live::ask(base, Some(run), &json!({"ask": "status", "values": values})) {
        Ok(answers) => Ok(answers.into_iter().next_back()),
        Err(error) if error.is::<live::NoLiveRun>() => Ok(None),
        Err(error) => Err(error),
    }
}
