//! Looks at a run and keeps what a page gets of it: each row once, under the number of the change that it came with.
//!
//! Pages ask for what is newer than the number that they know, so a look costs the same for one page and for many. The
//! hub is asked once a second. The journal is read with it unless that would take more than a twentieth of the time of
//! a processor. While no page is open neither is done.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rakuda_agent::clock;
use rakuda_record::folder::RunState;
use rakuda_record::live::{self, pictures, row, tables, told};
use rakuda_record::report::Report;
use rakuda_record::summary::Summary;
use rakuda_record::words::command_line;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::super::base_folder::BaseFolder;
use super::super::feed::{Follower, status};
use super::super::report::read_tails;
use super::super::waiting::{Bounds, find, waiting};

/// Minimum time between two looks.
const EVERY_NS: u64 = 1_000_000_000;
/// Minimum time between two readings of the journal, or two pictures, in times of the processor's time that one takes.
const SHARE: u64 = 20;
/// Minimum time between two pictures.
const PICTURE_NS: u64 = 2_000_000_000;
/// What the journal says of a task that it has defined and not begun.
const NOT_STARTED: &str = "not started";
/// Of a search for tasks that have not begun.
const SEARCH: Bounds = Bounds { found: 1000, time: Duration::from_secs(5) };
/// Maximum rows of one message.
const ROWS_MAX: usize = 2000;

/// A run that is watched; all clones are of one.
#[derive(Clone)]
pub struct Watch {
    base: BaseFolder,
    run: String,
    seen: Arc<Mutex<Seen>>,
    changes: watch::Sender<u64>,
}

/// What is known.
struct Seen {
    follower: Follower,
    /// Rows as JSON with the task's number, by the number of their change.
    rows: BTreeMap<u64, (u32, String)>,
    /// By task: the number of its row's change.
    change_of: BTreeMap<u32, u64>,
    change: u64,
    status: Option<Value>,
    tables: Value,
    /// Looks so far.
    looks: u64,
    looked_ns: Option<u64>,
    /// When the journal is read again.
    reading_due_ns: u64,
    ended: Option<&'static str>,
    pictures: Value,
    pictures_due_ns: u64,
}

/// How much of a run a page knows.
#[derive(Debug, Default)]
pub struct Known {
    /// The number of the last change.
    since: u64,
    looks: u64,
    is_introduced: bool,
    knows_end: bool,
}

impl Known {
    /// All up to this change. 0: nothing.
    pub fn up_to(since: u64) -> Self {
        Self { since, ..Self::default() }
    }
}

impl Watch {
    /// Of the run that RUN names.
    pub fn open(base: BaseFolder, run: &str) -> anyhow::Result<Self> {
        let folder = base.run_folder(run)?;
        let run = folder.run.clone();
        let mut seen = Seen {
            follower: Follower::new(folder),
            rows: BTreeMap::new(),
            change_of: BTreeMap::new(),
            change: 0,
            status: None,
            tables: Value::Null,
            looks: 0,
            looked_ns: None,
            reading_due_ns: 0,
            ended: None,
            pictures: Value::Null,
            pictures_due_ns: 0,
        };
        seen.look(&base, status(&base, &run, false))?;
        let changes = watch::channel(0).0;
        Ok(Self { base, run, seen: Arc::new(Mutex::new(seen)), changes })
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        // Nothing in it is ever half done but after a panic, which ends the process.
        self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Is woken by each look.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Looks again and again while someone wants to know; returns when the run has ended.
    pub async fn follow(&self) {
        loop {
            if self.seen().ended.is_some() {
                return;
            }
            let is_wanted = self.changes.receiver_count() > 0;
            let watch = self.clone();
            // What fails is done the next time.
            let _ = tokio::task::spawn_blocking(move || watch.look(is_wanted)).await;
            tokio::time::sleep(Duration::from_nanos(EVERY_NS)).await;
        }
    }

    /// Looks once, if it is wanted, or else when the run has ended.
    fn look(&self, is_wanted: bool) {
        if !is_wanted && self.seen().follower.folder().is_running() {
            return;
        }
        // Before the lock: a hub that hangs keeps nobody else waiting.
        let told = status(&self.base, &self.run, false);
        let mut seen = self.seen();
        // A journal that cannot be read now may be readable the next time.
        let _ = seen.look(&self.base, told);
        let looks = seen.looks;
        drop(seen);
        self.changes.send_replace(looks);
    }

    /// What the hub said last, no older than a look may be, and the tables.
    pub fn latest(&self) -> (Option<Value>, Value) {
        self.look_if_old();
        let seen = self.seen();
        (seen.status.clone(), seen.tables.clone())
    }

    /// For a question that comes once, while perhaps no page follows.
    fn look_if_old(&self) {
        let is_old = {
            let seen = self.seen();
            let next_ns = seen.looked_ns.map_or(0, |looked_ns| looked_ns + EVERY_NS);
            seen.ended.is_none() && clock::monotonic_ns() > next_ns
        };
        if is_old {
            self.look(true);
        }
    }

    /// What a page does not know yet, as JSON. `None`: nothing.
    pub fn news(&self, known: &mut Known) -> Option<String> {
        self.seen().news(known)
    }

    /// How the run ended. `None`: it goes on.
    pub fn ended(&self) -> Option<&'static str> {
        self.seen().ended
    }

    /// All of one task. `None`: nobody knows it. Of one that has not begun, the hub says what it waits for.
    pub fn task(&self, number: u32) -> Option<Value> {
        let folder = self.seen().follower.folder().clone();
        let tail = read_tails(&folder, &[number]).remove(&number);
        let known = live::detail(&self.seen().follower.live.run, number, tail.as_deref());
        if known.as_ref().is_some_and(|known| known["status"] != NOT_STARTED) {
            return known;
        }
        match (known, waiting(&self.base, &self.run, number)) {
            (Some(mut known), Some(waiting)) => {
                for name in ["status", "waits_for", "roots"] {
                    known[name] = waiting[name].clone();
                }
                Some(known)
            }
            (known, waiting) => known.or(waiting),
        }
    }

    /// Tasks that have not begun, by words of their names.
    pub fn find(&self, words: &str) -> Value {
        find(&self.base, &self.run, words, SEARCH)
    }

    /// What the hub says with the values of nodes.
    pub fn nodes(&self) -> anyhow::Result<Option<Value>> {
        status(&self.base, &self.run, true)
    }

    /// The pictures, not made anew for each page. One that has just been opened asks for them before it follows.
    pub fn pictures(&self) -> Value {
        self.look_if_old();
        self.seen().pictures()
    }

    /// The report as it is now.
    pub fn report(&self) -> anyhow::Result<String> {
        let read = super::super::report::Read::of(&self.base, &self.run)?;
        Ok(rakuda_record::report::html::page(&read.shown()))
    }
}

impl Seen {
    /// `told` is what the hub has said. `None`: there is no hub.
    fn look(
        &mut self,
        base: &BaseFolder,
        told: anyhow::Result<Option<Value>>,
    ) -> anyhow::Result<()> {
        let name = self.follower.folder().run.clone();
        let told = match told {
            // Somebody has removed its record.
            Err(_) if !self.follower.folder().path.exists() => None,
            told => told?,
        };
        // Its folder is looked for anew: of one that has just begun, the marker was perhaps not there before.
        let has_ended = told.is_none() && !base.run_folder(&name).is_ok_and(|it| it.is_running());
        if has_ended || clock::monotonic_ns() >= self.reading_due_ns {
            let began_ns = clock::thread_cpu_ns();
            self.read(told.as_ref(), has_ended)?;
            // By the processor's time: on a busy machine pages would else stand still for minutes.
            let took_ns = clock::thread_cpu_ns().saturating_sub(began_ns);
            self.reading_due_ns = clock::monotonic_ns() + EVERY_NS.max(SHARE * took_ns);
        }
        if let Some(told) = told {
            self.status = Some(self.status_for_pages(told));
        }
        if has_ended {
            self.ended = Some(RunState::of_journal(&self.follower.live.run).word());
        }
        self.looks += 1;
        self.looked_ns = Some(clock::monotonic_ns());
        Ok(())
    }

    /// Takes what is new in the journal.
    fn read(&mut self, told: Option<&Value>, has_ended: bool) -> anyhow::Result<()> {
        self.follower.read_on()?;
        let live = &mut self.follower.live;
        match told {
            Some(told) => live.run.seen_alive(told["time_ns"].as_i64().unwrap_or(0)),
            None if has_ended => live.run.alive = false,
            None => {}
        }
        let changed = live.take_changed();
        let groups = told::groups(&live.run, told);
        for number in changed {
            let Some(row) = row(&live.run, &groups, number) else { continue };
            self.change += 1;
            if let Some(before) = self.change_of.insert(number, self.change) {
                self.rows.remove(&before);
            }
            self.rows.insert(self.change, (number, row.to_string()));
        }
        self.tables = tables(&live.run, &groups, told);
        Ok(())
    }

    /// With the time since the start, which pages go on counting from.
    fn status_for_pages(&self, mut status: Value) -> Value {
        let now_ns = status["time_ns"].as_i64().unwrap_or(0);
        let start_ns = live::start_ns(&self.follower.live.run);
        #[expect(clippy::cast_precision_loss, reason = "seconds for people to read")]
        let seconds = now_ns.saturating_sub(start_ns) as f64 / 1e9;
        status["now_s"] = seconds.into();
        status
    }

    fn news(&self, known: &mut Known) -> Option<String> {
        let mut rows = self.rows.range(known.since + 1..).take(ROWS_MAX).peekable();
        let mut parts = Vec::new();
        if rows.peek().is_some() {
            let mut list = Vec::new();
            for (change, (_, row)) in rows {
                list.push(row.as_str());
                known.since = *change;
            }
            parts.push(format!("\"rows\":[{}],\"since\":{}", list.join(","), known.since));
        }
        let more = known.since < self.change;
        if !known.is_introduced {
            known.is_introduced = true;
            parts.insert(0, format!("\"run\":{}", self.introduction()));
        }
        if more {
            parts.push("\"more\":true".to_owned());
        } else if known.looks != self.looks {
            known.looks = self.looks;
            parts.push(format!("\"tables\":{}", self.tables));
            if let Some(status) = &self.status {
                parts.push(format!("\"status\":{status}"));
            }
        }
        if let Some(ended) = self.ended.filter(|_| !more && !known.knows_end) {
            known.knows_end = true;
            parts.push(format!("\"ended\":{}", json!(ended)));
        }
        (!parts.is_empty()).then(|| format!("{{{}}}", parts.join(",")))
    }

    fn introduction(&self) -> Value {
        let started = &self.follower.live.run.started;
        let words = command_line(&started.command_line);
        json!({
            "run": started.run,
            "command_line": format!("rakuda {words}").trim_end(),
            "directory": started.directory.to_display(),
            "host": started.host.to_display(),
        })
    }

    fn pictures(&mut self) -> Value {
        let now_ns = clock::monotonic_ns();
        if now_ns >= self.pictures_due_ns {
            let began_ns = clock::thread_cpu_ns();
            let run = &self.follower.live.run;
            let (summary, tails) = (Summary::of(run), BTreeMap::new());
            self.pictures = pictures(&Report { run, summary: &summary, tails: &tails });
            let took_ns = clock::thread_cpu_ns().saturating_sub(began_ns);
            self.pictures_due_ns = clock::monotonic_ns() + PICTURE_NS.max(SHARE * took_ns);
        }
        let again_ns = self.pictures_due_ns.saturating_sub(now_ns);
        self.pictures["again_ms"] = (again_ns / 1_000_000 + 1).into();
        self.pictures.clone()
    }
}
