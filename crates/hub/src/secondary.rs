//! Secondary files of targets: what is looked for when an action has ended, and whether all is
//! there that the Rakefile declares.
//!
//! `rakuda_core::files` decides which files these are; `staging` where they go.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rakuda_agent::secondary::{Found, find};
use rakuda_cluster::LOCAL_NODE;
use rakuda_core::files::{
    Declaration, GUESSED_MAX, MATCHES_MAX, Matching, Search, folder_and_name,
};
use rakuda_core::{Event, NodeId, TaskId};
use rakuda_proto::Text;
use rakuda_proto::cluster::SecondarySearch;
use rakuda_proto::files::FileVersion;
use rakuda_proto::front::{ActionOutcome, FilesDefinition, HubMessage};
use rakuda_proto::journal::FileIdentity;

use crate::error::HubError;
use crate::hub::Hub;

/// Files by their absolute names.
pub(crate) type Files = BTreeMap<Vec<u8>, FileVersion>;

/// What was found of a target and beside it.
#[derive(Debug, Default)]
pub(crate) struct Around {
    pub target: Option<FileIdentity>,
    /// For each search.
    pub found: Vec<Found>,
    /// There is more.
    pub more: bool,
}

impl Hub {
    /// What the Rakefile says of files of some tasks.
    pub(crate) fn define_files(
        &mut self,
        number: u32,
        definition: FilesDefinition,
    ) -> Result<(), HubError> {
        if number as usize != self.files.declarations() + 1 {
            return Err(HubError::Protocol("files are to be defined in order"));
        }
        let FilesDefinition { outputs, inputs, place } = definition;
        let bytes = |list: Vec<Text>| list.into_iter().map(|Text(pattern)| pattern).collect();
        let (outputs, inputs) = (outputs.map(bytes), inputs.map(bytes));
        self.files.declare(Declaration { outputs, inputs, place: place.0 });
        Ok(())
    }

    /// As the agent of a node reads it.
    pub(crate) fn search_on(
        &self,
        node: NodeId,
        search: &Search,
        since_ns: Option<i64>,
    ) -> SecondarySearch {
        let Search::Matching { files, .. } = search else {
            return SecondarySearch::LikeTarget { since_ns: since_ns.unwrap_or(i64::MAX) };
        };
        let mut folder = Text(files.folder.clone());
        if node == LOCAL_NODE {
            let found = self.record.project().find(folder.as_path());
            folder = Text(found.as_os_str().as_bytes().to_vec());
        }
        let [prefix, glob] = [&files.prefix, &files.glob].map(|part| Text(part.clone()));
        SecondarySearch::Matching { folder, prefix, glob }
    }

    /// What one of these searches finds on this machine.
    pub(crate) fn search_here(&self, target: &Path, search: &Search) -> (Found, bool) {
        find(Path::new("/"), target, &self.search_on(LOCAL_NODE, search, None))
    }

    /// An action has ended well, and `node` has looked at its target and for secondary files: the
    /// attempt ends as failed when what was declared is not there.
    pub(crate) fn on_looked_around(
        &mut self,
        id: TaskId,
        node: NodeId,
        searches: &[Search],
        around: Around,
    ) {
        let Some(attempt) = self.run.attempts().get(id) else { return };
        let target = attempt.details.target.clone();
        let own_folder = folder_and_name(target.as_os_str().as_bytes()).0;
        let (mut files, mut strays) = (Files::new(), Files::new());
        let mut wrong = None;
        for (search, found) in searches.iter().zip(around.found) {
            let join = |folder: &[u8], found: Found| -> Vec<(Vec<u8>, FileVersion)> {
                let join = |name: &Text| [folder, b"/", &name.0].concat();
                found.iter().map(|(name, version)| (join(name), *version)).collect()
            };
            let Search::Matching { pattern, files: meant } = search else {
                files.extend(join(own_folder, found));
                continue;
            };
            // Ruby code may have written it here.
            let is_elsewhere = self.staging.is_some() && node != LOCAL_NODE;
            if found.is_empty() && is_elsewhere {
                strays.extend(join(&meant.folder, self.search_here(&target, search).0));
            }
            let has = |files: &Files| {
                let mut names = files.keys().map(|path| folder_and_name(path));
                names.any(|(folder, name)| folder == meant.folder && meant.has(name))
            };
            if found.is_empty() && !has(&strays) {
                wrong = wrong.or_else(|| Some(self.not_made(id, pattern, meant)));
            }
            files.extend(join(&meant.folder, found));
        }
        files.extend(strays.iter().map(|(path, version)| (path.clone(), *version)));
        let declared = self.files.declares_outputs(id);
        if around.more && declared {
            let most = MATCHES_MAX;
            let what = "of the patterns of `needs outputs:` matches more than";
            wrong = wrong
                .or_else(|| Some(format!("one {what} {most} files ({})", self.needs_place(id))));
        } else if around.more {
            self.warn(&format!(
                "more than {GUESSED_MAX} files that its commands have written lie beside {} under names like its own: only the first {GUESSED_MAX} by name go with it to other nodes; declare them (`needs outputs:`), give the others tasks, or put them into fewer files",
                self.display_name(id)
            ));
        }
        if let Some(why) = wrong {
            return self.fail_outputs(id, &why);
        }
        if declared {
            let bytes = files.values().map(|version| version.bytes).sum();
            self.event(Event::SecondaryFound { id, bytes });
        }
        self.take_target(id, node, around.target, files, strays);
    }

    /// The message about a pattern of `needs outputs:` that names no file.
    fn not_made(&self, id: TaskId, pattern: &[u8], meant: &Matching) -> String {
        let none = if meant.only().is_some() { "there is no" } else { "no file matches" };
        let path = [&meant.folder[..], b"/", &meant.prefix, &meant.glob].concat();
        let root = [self.start_directory.as_os_str().as_bytes(), b"/"].concat();
        let name =
            String::from_utf8_lossy(path.strip_prefix(&root[..]).unwrap_or(&path)).into_owned();
        let pattern = String::from_utf8_lossy(pattern);
        let place = self.needs_place(id);
        format!("its action ended well, but {none} {name} (outputs: {pattern:?}, {place})")
    }

    /// Where the Rakefile says what the files of a task are.
    pub(crate) fn needs_place(&self, id: TaskId) -> String {
        let place = self.files.declaration(id).map(|declared| declared.place.as_slice());
        format!("needs at {}", String::from_utf8_lossy(place.unwrap_or_default()))
    }

    fn fail_outputs(&mut self, id: TaskId, why: &str) {
        let reason = format!("task {}: {why}", self.display_name(id));
        self.link.push(&HubMessage::TargetNotMade { task: id.0, reason: Text::from(reason) });
        let Some(attempt) = self.run.take(id) else { return };
        self.finish_action(id, &attempt, ActionOutcome::Failed, why.as_bytes(), None);
    }

    /// For the record: what goes with the target of an attempt.
    pub(crate) fn note_secondary(&mut self, id: TaskId, files: &Files) {
        let root = [self.start_directory.as_os_str().as_bytes(), b"/"].concat();
        let named = |(path, version): (&Vec<u8>, &FileVersion)| {
            let name = path.strip_prefix(root.as_slice()).unwrap_or(path);
            (Text(name.to_vec()), version.bytes)
        };
        let named = files.iter().map(named).collect();
        if let Some(details) = self.run.details_mut(id) {
            details.secondary = named;
        }
    }
}
