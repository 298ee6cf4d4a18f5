//! `.rakuda/settled`: targets that were half-written when their run was cut off, and that the next run put away while
//! it could not tell whether all that the first had started was dead. A process of it that was not found may write to
//! such a target once that was made anew. So the run that makes it notes what it was like then, and the one after that
//! looks once more, by size, time of modification and inode.
//!
//! A line is `{"name":NAME}`, with `made` (a file's identity) once the target was made; the last
//! one about a name holds. Where the list cannot be written, targets are only not looked at again.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use rakuda_proto::Text;
use rakuda_proto::journal::FileIdentity;
use rakuda_record::printable::shown;
use rakuda_record::regular::{open_regular, open_to_append};
use serde::{Deserialize, Serialize};

use super::unfinished::UnfinishedTargets;
use crate::facts::identity_of;
use crate::failed_files::is_same;

#[derive(Serialize, Deserialize)]
struct SettledTargetLine {
    name: Text,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    made: Option<FileIdentity>,
}

/// Targets to look at once more, by name; `None` if no run made it since.
#[derive(Debug, Default)]
pub(super) struct SettledTargets {
    names: BTreeMap<Vec<u8>, Option<FileIdentity>>,
}

impl SettledTargets {
    /// What runs have noted.
    pub fn read(root: &Path) -> Self {
        let mut found = Self::default();
        let Ok(file) = open_regular(&path_in(root)) else { return found };
        for line in BufReader::new(file).split(b'\n').map_while(Result::ok) {
            // A line that cannot be read was torn when the machine failed.
            let Ok(SettledTargetLine { name, made }) = serde_json::from_slice(&line) else {
                continue;
            };
            found.names.insert(name.0, made);
        }
        found
    }

    /// A target was made: notes what it is like, when it is one of these.
    pub fn note_made(&mut self, root: &Path, name: &[u8], made: FileIdentity) {
        if let Some(known) = self.names.get_mut(name) {
            *known = Some(made);
            let _ = add(root, &[SettledTargetLine { name: Text(name.to_vec()), made: Some(made) }]);
        }
    }

    /// Those that are not as they were made, in `directory`. One that is gone is missing anyway.
    pub fn changed(&self, directory: &Path) -> Vec<Text> {
        let is_changed = |name: &Text, made: FileIdentity| {
            identity_of(&directory.join(name.as_path())).is_some_and(|now| !is_same(now, made))
        };
        let made =
            self.names.iter().filter_map(|(name, made)| Some((Text(name.clone()), (*made)?)));
        made.filter(|(name, made)| is_changed(name, *made)).map(|(name, _)| name).collect()
    }
}

/// Notes targets that were settled.
pub(super) fn watch<'a>(root: &Path, names: impl Iterator<Item = &'a Text>) {
    let lines: Vec<SettledTargetLine> =
        names.map(|name| SettledTargetLine { name: name.clone(), made: None }).collect();
    if !lines.is_empty() {
        let _ = add(root, &lines);
    }
}

/// Looks at what was made since, once; returns lines for the user. What has changed counts as unfinished.
pub(super) fn look_again(root: &Path, directory: &Path) -> Vec<String> {
    let settled = SettledTargets::read(root);
    if settled.names.values().all(Option::is_none) {
        return Vec::new();
    }
    let changed = settled.changed(directory);
    let mut unfinished = UnfinishedTargets::read(root);
    for name in &changed {
        unfinished.insert(&name.0);
    }
    if unfinished.write(root).is_ok() {
        let _ = keep_those_not_made(root, &settled);
    }
    changed.iter().map(|name| format!("'{}' was changed after it was made, perhaps by what a run that was cut off had left behind; it will be made again", shown(name))).collect()
}

fn keep_those_not_made(root: &Path, settled: &SettledTargets) -> io::Result<()> {
    let left = settled.names.iter().filter(|(_, made)| made.is_none());
    let lines: Vec<SettledTargetLine> =
        left.map(|(name, _)| SettledTargetLine { name: Text(name.clone()), made: None }).collect();
    fs::remove_file(path_in(root))?;
    if lines.is_empty() { Ok(()) } else { add(root, &lines) }
}

fn add(root: &Path, lines: &[SettledTargetLine]) -> io::Result<()> {
    let mut text = Vec::new();
    for line in lines {
        serde_json::to_writer(&mut text, line)?;
        text.push(b'\n');
    }
    open_to_append(&path_in(root), 0o666)?.write_all(&text)
}

fn path_in(root: &Path) -> PathBuf {
    root.join("settled")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_after_it_was_made_anew_counts_as_unfinished_once() {
        let folder = std::env::temp_dir().join(format!("rakuda-settled-{}", std::process::id()));
        let root = folder.join(".rakuda");
        fs::create_dir_all(&root).unwrap();
        let names = ["kept", "written", "later"].map(|name| Text::from(name.to_owned()));
        watch(&root, names.iter());
        assert!(look_again(&root, &folder).is_empty(), "nothing was made");
        let mut settled = SettledTargets::read(&root);
        for name in ["kept", "written", "other"] {
            fs::write(folder.join(name), name).unwrap();
            settled.note_made(&root, name.as_bytes(), identity_of(&folder.join(name)).unwrap());
        }
        fs::write(folder.join("written"), "written twice").unwrap();
        fs::write(folder.join("other"), "other twice").unwrap();
        let told = look_again(&root, &folder);
        let unfinished = UnfinishedTargets::read(&root);
        let is_unfinished = |name: &str| unfinished.contains(name.as_bytes());
        let found = (told.len(), ["kept", "written", "other", "later"].map(is_unfinished));
        let again = look_again(&root, &folder);
        let left = SettledTargets::read(&root).names;
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, (1, [false, true, false, false]), "{told:?}");
        assert_eq!(again, Vec::<String>::new());
        assert_eq!(left.into_keys().collect::<Vec<_>>(), [b"later"]);
    }
}
