//! Targets that were changed at a time of which the record does not tell all: those that a line of
//! some journal vouches for as they are now are good, the others count as missing and are made
//! again.
//!
//! It knows what the record suspects and what it vouches for, not why.

use rakuda_core::{TaskId, TaskKind};
use rakuda_proto::Text;
use rakuda_proto::journal::FileIdentity;
use rakuda_record::folder::{FOLDER, Records};
use rakuda_record::history::LastRecords;

use crate::facts::identity_of;
use crate::hub::Hub;

/// Maximum number of targets that are named one by one.
const NAMES_MAX: usize = 20;

impl Hub {
    /// Marks those of `tasks` as unfinished that no record vouches for, before anything is decided about them.
    pub(crate) fn suspect_targets(&mut self, tasks: &[TaskId]) {
        if self.record.suspects_nothing() {
            return;
        }
        let suspected: Vec<(TaskId, FileIdentity)> =
            tasks.iter().filter_map(|id| Some((*id, self.suspected(*id)?))).collect();
        if suspected.is_empty() {
            return;
        }
        let names = suspected.iter().map(|(id, _)| Text(self.names.name(*id).to_vec()));
        let records = Records { root: self.record.project().path().join(FOLDER) };
        let vouched = LastRecords::read(&records, names).unwrap_or_else(|error| {
            self.warn(&format!("failed to read earlier runs: {error}"));
            LastRecords::default()
        });
        let mut told = 0;
        for (id, file) in suspected {
            let name = Text(self.names.name(id).to_vec());
            let after = vouched.get(&name).and_then(|record| record.after);
            // Inode and change time are others in a copy of the folder.
            let is_as = |after: FileIdentity| {
                (after.modified_ns, after.bytes) == (file.modified_ns, file.bytes)
            };
            if after.is_some_and(is_as) {
                continue;
            }
            self.record.mark_unfinished(&name.0);
            told += 1;
            if told <= NAMES_MAX && !self.settings.config.dry_run {
                let run =
                    self.record.suspected_period(file.modified_ns).map(|period| period.run.clone());
                self.warn(&format!(
                    "'{}' was changed while the run {} went on, and no record tells whether it was finished; it will be made again",
                    self.display_name(id),
                    run.unwrap_or_default(),
                ));
            }
        }
        if told > NAMES_MAX && !self.settings.config.dry_run {
            self.warn(&format!("and {} more like that", told - NAMES_MAX));
        }
    }

    /// What a target is now that was changed in such a period; `None` if it was not.
    fn suspected(&self, id: TaskId) -> Option<FileIdentity> {
        let task = self.run.scheduler().task(id)?;
        let is_target = task.kind == TaskKind::File && task.has_action;
        if !is_target || self.is_unfinished(self.names.name(id)) {
            return None;
        }
        let path = self.directory_now().join(Text(self.names.name(id).to_vec()).as_path());
        let file = identity_of(&path)?;
        let is_folder = path.is_dir();
        (!is_folder && self.record.suspected_period(file.modified_ns).is_some()).then_some(file)
    }
}
