//! Facts about files: does it exist, since when, how large.
//!
//! In bulk before tasks are activated: names are grouped by directory, directories are shared out
//! to threads, a directory of which much is wanted is listed first, so that files that are not
//! there cost nothing, and each existing file is looked at once. One by one afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rakuda_agent::operations;
use rakuda_agent::visibility::identity_in;
pub use rakuda_agent::visibility::identity_of;
use rakuda_core::{Fact, Places, TaskId};
use rakuda_proto::journal::FileIdentity;
use rustix::fs::{Mode, OFlags, RawDir, open};

use crate::names::Names;

/// Minimum number of wanted names at which a directory is listed before its files are looked at.
pub const LISTED_FROM: usize = 32;
/// Maximum number of threads: more than cores, since on a network file system they wait, not work.
const THREADS_MAX: usize = 16;
/// Maximum number of names that one thread takes at a time.
const CHUNK: usize = 512;

/// The core's view of a file.
pub fn fact_of(identity: Option<FileIdentity>, places: Places) -> Fact {
    Fact {
        modified_ns: identity.map(|identity| identity.modified_ns),
        bytes: identity.map_or(0, |identity| identity.bytes),
        places,
    }
}

/// A part of one thread's work: some names of one directory.
struct Share<'a> {
    folder: &'a Path,
    /// Name within the folder, and the task.
    names: &'a [(&'a OsStr, TaskId)],
    /// What is in the folder, when it was listed; names that are not in it need no look.
    listed: Option<&'a BTreeSet<CString>>,
}

/// Looks at the files of all `tasks`, relative names starting at `base`.
pub fn identities(
    names: &Names,
    tasks: &[TaskId],
    base: &Path,
) -> Vec<(TaskId, Option<FileIdentity>)> {
    let mut folders: BTreeMap<&Path, Vec<(&OsStr, TaskId)>> = BTreeMap::new();
    let mut result = Vec::with_capacity(tasks.len());
    for &id in tasks {
        let path = Path::new(OsStr::from_bytes(names.name(id)));
        match (path.parent(), path.file_name()) {
            _ if names.name(id).is_empty() => result.push((id, None)),
            // `a/..` and `/` have no file name, `a/` has its slash cut off: look at them whole.
            (Some(folder), Some(name)) if !names.name(id).ends_with(b"/") => {
                folders.entry(folder).or_default().push((name, id));
            }
            _ => result.push((id, identity_of(&base.join(path)))),
        }
    }
    let folders: Vec<(PathBuf, Vec<_>)> =
        folders.into_iter().map(|(folder, names)| (base.join(folder), names)).collect();
    let listings = share_out(&folders, |(folder, names)| {
        (names.len() >= LISTED_FROM).then(|| list(folder)).flatten()
    });
    let shares: Vec<Share<'_>> = folders
        .iter()
        .zip(&listings)
        .flat_map(|((folder, names), listed)| {
            names.chunks(CHUNK).map(|names| Share { folder, names, listed: listed.as_ref() })
        })
        .collect();
    result.extend(share_out(&shares, look_at).into_iter().flatten());
    result
}

/// The names in a folder; `None` when it cannot be listed.
fn list(folder: &Path) -> Option<BTreeSet<CString>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    operations::count(folder, 1);
    let descriptor = open(folder, flags, Mode::empty()).ok()?;
    let mut buffer = Vec::with_capacity(64 << 10);
    let mut entries = RawDir::new(descriptor, buffer.spare_capacity_mut());
    let mut names = BTreeSet::new();
    loop {
        // The kernel is asked for more when the buffer is empty.
        if entries.is_buffer_empty() {
            operations::count(folder, 1);
        }
        let Some(entry) = entries.next() else { break };
        names.insert(entry.ok()?.file_name().to_owned());
    }
    Some(names)
}

fn look_at(share: &Share<'_>) -> Vec<(TaskId, Option<FileIdentity>)> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    operations::count(share.folder, 1);
    let Ok(folder) = open(share.folder, flags, Mode::empty()) else {
        return share.names.iter().map(|&(_, id)| (id, None)).collect();
    };
    let mut looks = 0;
    let mut look = |name: &OsStr| {
        let c_name = CString::new(name.as_bytes()).ok()?;
        if share.listed.is_some_and(|listed| !listed.contains(&c_name)) {
            return None;
        }
        looks += 1;
        identity_in(&folder, c_name.as_c_str())
    };
    let found = share.names.iter().map(|&(name, id)| (id, look(name))).collect();
    operations::count(share.folder, looks);
    found
}

/// Does `work` for each item, on several threads when there are enough items; results in the items' order.
fn share_out<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = (2 * cores).min(THREADS_MAX).min(items.len());
    if threads < 2 || items.len() < 4 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let take = || {
            let mut done = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(index) else {
                    break done;
                };
                done.push((index, work(item)));
            }
        };
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
        handles.into_iter().flat_map(|handle| handle.join().expect("looking at files")).collect()
    });
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_and_missing_files_are_told_apart_in_every_kind_of_folder() {
        let base = std::env::temp_dir().join(format!("rakuda-facts-{}", std::process::id()));
        std::fs::create_dir_all(base.join("many")).unwrap();
        let mut names = Names::default();
        let mut expected = Vec::new();
        for index in 0..2000 {
            let name = format!("many/{index}");
            if index % 3 == 0 {
                std::fs::write(base.join(&name), name.as_bytes()).unwrap();
            }
            names.push(name.as_bytes(), true);
            expected.push(index % 3 == 0);
        }
        let absolute = base.join("many/0").to_string_lossy().into_owned();
        for name in ["many", "none/x", "many/", "many/.", "many/..", absolute.as_str()] {
            names.push(name.as_bytes(), true);
            expected.push(name != "none/x");
        }
        let tasks: Vec<TaskId> = (0..u32::try_from(names.len()).unwrap()).map(TaskId).collect();
        let mut facts = identities(&names, &tasks, &base);
        facts.sort_by_key(|(id, _)| *id);
        let found: Vec<bool> = facts.iter().map(|(_, seen)| seen.is_some()).collect();
        std::fs::remove_dir_all(&base).unwrap();
        assert_eq!(found, expected);
        assert_eq!(facts[3].1.unwrap().bytes, "many/3".len() as u64);
    }
}
