//! What killed runs may have left on this machine, and its end. A mark names the process that has drawn it: when that is gone, nothing that bears
//! the mark is anyone's any more.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rakuda_agent::processes;
use rakuda_locate::private_mount;

/// A program that no run has used for so long is removed.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 3600);
/// A program that was being brought so long ago never came.
const BROUGHT_WITHIN: Duration = Duration::from_secs(24 * 3600);

/// What is to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Nothing: it is only told.
    Pretend,
    /// It is removed.
    Remove,
}

/// Cleans this machine of what this user's runs have left; a line for each thing.
pub fn clean(how: How) -> Vec<String> {
    let mut lines = Vec::new();
    // Processes first: they may use what is mounted.
    for left in processes::left_behind() {
        if how == How::Remove {
            left.kill();
        }
        lines.push(told(how, "killed", "kill", &format!("{} ({})", left.id, left.name)));
    }
    for mark in private_mount::marks().into_iter().filter(|mark| !processes::guard_lives(mark)) {
        let mounts = private_mount::mounts_of(&mark);
        let mounts = mounts.map(|point| point.display().to_string());
        let shown = mounts.clone().unwrap_or_else(|| folder_of(&mark).display().to_string());
        let (did, would) =
            if mounts.is_some() { ("unmounted", "unmount") } else { ("removed", "remove") };
        if how == How::Remove && !private_mount::remove(&mark) {
            lines.push(format!("failed to remove {shown}"));
        } else {
            lines.push(told(how, did, would, &shown));
        }
    }
    for path in unused_programs() {
        if how == How::Remove && fs::remove_file(&path).is_err() {
            lines.push(format!("failed to remove {}", path.display()));
            continue;
        }
        // Empty now, unless someone has just brought another one.
        let _ = path.parent().filter(|_| how == How::Remove).map(fs::remove_dir);
        lines.push(told(how, "removed", "remove", &path.display().to_string()));
    }
    lines
}

fn told(how: How, did: &str, would: &str, what: &str) -> String {
    match how {
        How::Pretend => format!("would {would} {what}"),
        How::Remove => format!("{did} {what}"),
    }
}

fn folder_of(mark: &str) -> PathBuf {
    private_mount::private_folder().join(mark)
}

/// Programs in the cache folder that runs have brought there.
fn unused_programs() -> Vec<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty());
    let home = || Some(Path::new(&std::env::var_os("HOME")?).join(".cache"));
    let Some(cache) = cache.map(PathBuf::from).or_else(home) else { return Vec::new() };
    let mut unused: Vec<PathBuf> = entries(&cache.join("rakuda/bin"))
        .flat_map(|folder| entries(&folder))
        .filter(|path| {
            let is_whole = path.file_name().is_some_and(|name| name == "rakudad");
            is_older(path, if is_whole { UNUSED } else { BROUGHT_WITHIN })
        })
        .collect();
    unused.sort_unstable();
    unused
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Whether a file was neither read nor written for so long.
fn is_older(path: &Path, age: Duration) -> bool {
    let Ok(found) = fs::symlink_metadata(path) else { return false };
    let times = [found.accessed(), found.modified()];
    found.is_file()
        && times
            .into_iter()
            .all(|time| time.is_ok_and(|time| time.elapsed().is_ok_and(|past| past > age)))
}
