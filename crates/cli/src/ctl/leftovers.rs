//! What killed runs may have left on this machine, and its end. A mark names the process that has
//! drawn it: when that is gone, nothing that bears the mark is anyone's any more.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rakuda_agent::files::{self, OwnFolderError};
use rakuda_agent::{hosts_file, processes};
use rakuda_locate::private_mount;
use rakuda_record::marks::{self, RUNNING};

use super::join::knock;

/// Minimum time without a run that used a program after which it is removed.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 3600);
/// Timeout for a program that a run copies to this host: after this time the copy was given up.
const COPY_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// What is to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Nothing is removed, only listed.
    Pretend,
    /// It is removed.
    Remove,
}

/// What is to be cleaned.
#[derive(Debug, Clone)]
pub struct What {
    /// Whether.
    pub how: How,
    /// The work folders of `--filesystem local`, too.
    pub files: bool,
    /// The `.rakuda` of the folder that it is asked for in, if there is one.
    pub records: Option<PathBuf>,
}

/// Cleans this machine of what this user's runs have left; a line for each thing.
pub fn clean(what: &What) -> Vec<String> {
    let how = what.how;
    let mut lines = unsafe_folders();
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
    let remove = |path: &Path| fs::remove_file(path).map_err(|error| error.to_string());
    let invitations = what.records.iter().flat_map(|root| dead_invitations(root));
    for path in dead_sockets().into_iter().chain(hosts_files_without_agent()).chain(invitations) {
        lines.push(removed(how, &path, remove));
    }
    for path in unused_programs() {
        lines.push(removed(how, &path, remove));
        // Empty now, unless another run has just put one there.
        let _ = path.parent().filter(|_| how == How::Remove).map(fs::remove_dir);
    }
    let folders = if what.files { files::unused(&files::scratch()) } else { Vec::new() };
    for path in folders {
        let outcome = match how {
            How::Pretend => files::check_nothing_mounted(&path),
            How::Remove => files::remove_unused(&path),
        };
        lines.push(line(how, &path, outcome.map_err(|error| error.to_string())));
    }
    lines
}

/// Folders in which others may have put what they want to see removed: nothing in them is looked at. A line for each.
fn unsafe_folders() -> Vec<String> {
    let folders = BTreeSet::from([
        private_mount::private_folder(),
        files::scratch(),
        files::scratch().join(files::FOLDERS),
    ]);
    let refused = folders.iter().filter_map(|folder| files::check(folder).err());
    let is_unsafe = |error: &OwnFolderError| matches!(error, OwnFolderError::Unsafe { .. });
    refused.filter(is_unsafe).map(|error| format!("failed to {error}")).collect()
}

/// Removes a file or a folder, if it is to be; the line for it.
fn removed(how: How, path: &Path, remove: impl Fn(&Path) -> Result<(), String>) -> String {
    line(how, path, if how == How::Remove { remove(path) } else { Ok(()) })
}

fn line(how: How, path: &Path, outcome: Result<(), String>) -> String {
    let shown = path.display().to_string();
    match outcome {
        Ok(()) => told(how, "removed", "remove", &shown),
        Err(error) => told(how, "failed to remove", "fail to remove", &format!("{shown}: {error}")),
    }
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

/// Sockets of hubs whose run was on a file system that has none, where nobody listens any more.
fn dead_sockets() -> Vec<PathBuf> {
    let scratch = files::scratch();
    if files::check(&scratch).is_err() {
        return Vec::new();
    }
    let is_socket = |path: &PathBuf| {
        fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
    };
    let is_dead = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == "sock")
            && is_socket(path)
            && refuses(&UnixStream::connect(path))
    };
    let mut sockets: Vec<PathBuf> = entries(&scratch).filter(is_dead).collect();
    sockets.sort_unstable();
    sockets
}

/// Hosts files of tasks on several nodes whose agent is gone: it would have removed them.
fn hosts_files_without_agent() -> Vec<PathBuf> {
    let scratch = files::scratch();
    if files::check(&scratch).is_err() {
        return Vec::new();
    }
    let is_left = |path: &PathBuf| {
        let is_file = fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
        is_file && hosts_file::agent_of(path).is_some_and(|process| !processes::goes_on(process))
    };
    let mut left: Vec<PathBuf> = entries(&scratch).filter(is_left).collect();
    left.sort_unstable();
    left
}

/// Invitations to runs that nobody can join any more. One whose machine does not answer may be good
/// for others, and so may one whose address leads elsewhere from here while its run lives.
fn dead_invitations(root: &Path) -> Vec<PathBuf> {
    let lives = |path: &PathBuf| {
        path.file_name().and_then(|run| marks::lives(&root.join(RUNNING).join(run))) == Some(true)
    };
    let is_dead = |path: &PathBuf| !lives(path) && refuses(&knock(path));
    let mut invitations: Vec<PathBuf> = entries(&root.join("join")).filter(is_dead).collect();
    invitations.sort_unstable();
    invitations
}

fn refuses<T>(answer: &io::Result<T>) -> bool {
    answer.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Programs that runs have copied to the cache folder.
fn unused_programs() -> Vec<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty());
    let home = || Some(Path::new(&std::env::var_os("HOME")?).join(".cache"));
    let Some(cache) = cache.map(PathBuf::from).or_else(home) else { return Vec::new() };
    let mut unused: Vec<PathBuf> = entries(&cache.join("rakuda/bin"))
        .flat_map(|folder| entries(&folder))
        .filter(|path| {
            let is_whole = path.file_name().is_some_and(|name| name == "rakudad");
            is_older(path, if is_whole { UNUSED } else { COPY_TIMEOUT })
        })
        .collect();
    unused.sort_unstable();
    unused
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Whether a file was neither read nor written for `age`.
fn is_older(path: &Path, age: Duration) -> bool {
    let Ok(found) = fs::symlink_metadata(path) else { return false };
    let times = [found.accessed(), found.modified()];
    found.is_file()
        && times
            .into_iter()
            .all(|time| time.is_ok_and(|time| time.elapsed().is_ok_and(|past| past > age)))
}
