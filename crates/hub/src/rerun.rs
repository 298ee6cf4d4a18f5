//! `--rerun-on`: compares files that are up to date with the record of how they were made: the set
//! of their prerequisites, their contents, the chosen environment, the actions and their
//! parameters.
//!
//! It adds reasons to run and takes none away; that the task then runs is decided in the core. A
//! target without a record is taken as it is.

mod compare;
mod contents;
pub(crate) mod settings;
pub(crate) mod state;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rakuda_core::{Event, Held, TaskId, TaskKind};
use rakuda_proto::Text;
use rakuda_proto::front::ActionOutcome;
use rakuda_record::folder::Records;
use rakuda_record::history::LastRecords;

use crate::facts::identity_of;
use crate::hub::Hub;
use state::{Change, Inputs};

impl Hub {
    /// Looks for the records of tasks that have been defined. In the loop: a run waits for its plan anyway.
    pub(crate) fn read_last_records(&mut self, tasks: &[TaskId]) {
        let Some(rerun) = &mut self.rerun else { return };
        let wanted = tasks.iter().filter(|id| {
            let task = self.run.scheduler().task(**id);
            task.is_some_and(|task| {
                task.kind == TaskKind::File && task.has_action && task.modified_ns.is_some()
            })
        });
        let wanted: Vec<Text> = wanted.map(|id| Text(self.names.name(*id).to_vec())).collect();
        if wanted.is_empty() || !rerun.root.is_dir() {
            return;
        }
        self.read_records(wanted);
    }

    fn read_records(&mut self, wanted: Vec<Text>) {
        let Some(rerun) = &mut self.rerun else { return };
        let records = Records { root: rerun.root.clone() };
        match LastRecords::read(&records, wanted) {
            Ok(found) => rerun.records.extend(found),
            Err(error) => self.warn(&format!(
                "--rerun-on: failed to read earlier runs: {error}; targets of which nothing is known are taken as they are"
            )),
        }
    }

    /// Tasks without a file whose output goes into a file through streams: what is done in them is done for that file.
    /// Their records are read with the first file of a component.
    fn plain_upstream(&mut self, id: TaskId) -> Vec<TaskId> {
        let scheduler = self.run.scheduler();
        let is_plain = |id: &TaskId| {
            scheduler.task(*id).is_some_and(|task| task.kind == TaskKind::Plain && task.has_action)
        };
        let plain: Vec<TaskId> = scheduler.upstream(id).into_iter().filter(is_plain).collect();
        let Some(rerun) = &mut self.rerun else { return plain };
        if plain.iter().any(|id| !rerun.read_upstream.contains(id)) {
            let gang = scheduler.gang_of(id).map_or(&[][..], |gang| gang.tasks);
            let others = gang.iter().copied().filter(|id| is_plain(id));
            let fresh: Vec<TaskId> = others.filter(|id| rerun.read_upstream.insert(*id)).collect();
            let wanted = fresh.iter().map(|id| Text(self.names.name(*id).to_vec())).collect();
            self.read_records(wanted);
        }
        plain
    }

    /// Compares a file that is up to date by rake's rule: was it made as it would be now?
    pub(crate) fn compare_record(&mut self, id: TaskId) {
        let Some(comparison) = self.begin_comparison(id) else {
            return self.event(Event::RecordCompared { id, rerun: false });
        };
        if let Some(rerun) = self.go_on_comparing(id, comparison) {
            self.event(Event::RecordCompared { id, rerun });
        }
    }

    /// Some contents have become known.
    pub(crate) fn on_contents(&mut self) {
        let Some(rerun) = &mut self.rerun else { return };
        for (id, (message, code)) in std::mem::take(&mut rerun.ended) {
            self.end_action(id, ActionOutcome::Ok, &message, code);
        }
        let Some(rerun) = &mut self.rerun else { return };
        for (id, comparison) in std::mem::take(&mut rerun.waiting) {
            if let Some(rerun) = self.go_on_comparing(id, comparison) {
                self.event(Event::RecordCompared { id, rerun });
            }
        }
    }

    /// Ends an action. The rest waits until all is known that the record is to keep of it. That is seldom, since
    /// reading began with the attempt.
    pub(crate) fn end_action(
        &mut self,
        id: TaskId,
        outcome: ActionOutcome,
        message: &[u8],
        code: Option<Held>,
    ) {
        if outcome == ActionOutcome::Ok
            && self.run.attempts().acting(id).is_some()
            && let Some(rerun) = &mut self.rerun
            && let Some(inputs) = rerun.inputs_of.get_mut(&id)
            && !inputs.settle(&rerun.contents)
        {
            rerun.ended.insert(id, (message.to_vec(), code));
        } else {
            self.on_action_ended(id, outcome, message, code);
        }
    }

    /// Begins to note what the attempt of a task reads.
    pub(crate) fn look_at_inputs(&mut self, id: TaskId) {
        let Some(rerun) = self.rerun.as_mut().filter(|rerun| rerun.settings.content) else {
            return;
        };
        let mut inputs = Inputs::default();
        for input in self.run.scheduler().inputs_through_streams(id) {
            if self.run.scheduler().task(input).is_some_and(|task| task.kind == TaskKind::File)
                && let path = path_of(&self.settings.directory, self.names.name(input))
                && let Some(identity) = identity_of(&path)
            {
                rerun.contents.want(&path, &identity);
                inputs.open.push_back((input, identity));
            }
        }
        rerun.inputs_of.insert(id, inputs);
    }

    /// What the record keeps of what an attempt has read, by name; of one that was ended before its
    /// time, what is known.
    pub(crate) fn contents_of_inputs(&mut self, id: TaskId) -> Vec<(Text, String)> {
        let Some(rerun) = &mut self.rerun else { return Vec::new() };
        let mut inputs = rerun.inputs_of.remove(&id).unwrap_or_default();
        inputs.settle(&rerun.contents);
        let named = inputs.noted.into_iter();
        let noted: BTreeMap<Text, String> =
            named.map(|(input, note)| (Text(self.names.name(input).to_vec()), note)).collect();
        noted.into_iter().collect()
    }

    /// Why a task runs again, if that was found by comparing.
    pub(crate) fn changes_of(&self, id: TaskId) -> &[Change] {
        let changes = self.rerun.as_ref().and_then(|rerun| rerun.changes.get(&id));
        changes.map_or(&[], Vec::as_slice)
    }

    /// Reports how many targets could not be compared, in one line for many.
    pub(crate) fn tell_without_record(&mut self) {
        let Some(rerun) = &mut self.rerun else { return };
        let without = std::mem::take(&mut rerun.without_record);
        let partly = std::mem::take(&mut rerun.partly_recorded);
        let words = rerun.settings.words().join(",");
        let without = match without {
            0 => None,
            1 => {
                Some("1 target has no record of how it was made; it is taken as up to date".into())
            }
            _ => Some(format!(
                "{without} targets have no record of how they were made; they are taken as up to date"
            )),
        };
        let partly = match partly {
            0 => None,
            1 => Some("of 1 target not all that is compared is in its record; the rest is taken as unchanged".into()),
            _ => Some(format!(
                "of {partly} targets not all that is compared is in their records; the rest is taken as unchanged"
            )),
        };
        for text in without.into_iter().chain(partly) {
            self.warn(&format!("--rerun-on {words}: {text}"));
        }
    }
}

fn path_of(directory: &Path, name: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    directory.join(std::ffi::OsStr::from_bytes(name))
}
