//! What is done about runs that were cut off: whatever still runs of them is killed, the targets of attempts that began and did not end
//! are settled, and their journals are closed.
//!
//! It finds runs by their marks, not by their journals: a run that has ended has none.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use rakuda_agent::{clock, files, processes};
use rakuda_proto::journal::{JournalEvent, RunEnded, RunOutcome};
use rakuda_record::Unfinished;
use rakuda_record::marks::{RunMark, marks};
use rakuda_record::printable::shown;

use super::unfinished::{self, UnfinishedTargets};
use super::{lines, lock, marker};
use crate::failed_files::FailedFiles;
use crate::targets::{FailedTarget, Settled, settle_target};

/// How long the guards of a run that was cut off may take to end what it had started, ms.
const GUARDS_MS: u32 = 15_000;

/// What becomes of the mark of a run that was looked after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// Nothing is left to be done.
    Remove,
    /// The next run tries again.
    Keep,
}

/// Settles what runs left behind whose hub is gone; returns lines for the user.
/// Cheap when there is nothing: one directory that is not there.
pub fn recover(directory: &Path) -> Vec<String> {
    recover_as(directory, None)
}

/// As [`recover`], by a guard of the run that has `mark`, which has ended what that had started.
pub fn recover_own(directory: &Path, mark: &str) -> Vec<String> {
    recover_as(directory, Some(mark))
}

fn recover_as(directory: &Path, own: Option<&str>) -> Vec<String> {
    let root = directory.join(".rakuda");
    let mut told = Vec::new();
    if dead_runs(&root).is_empty() && marker::unset(&root).is_empty() {
        return told;
    }
    let is_own = |mark: &str| own == Some(mark) || processes::carries(mark);
    for dead in dead_runs(&root).iter().filter(|dead| !is_own(&dead.mark)) {
        // Its guards may be about to end what it had started, and then settle its targets.
        if let Err(error) = processes::wait_for_life(&dead.mark, GUARDS_MS) {
            let run = &dead.run;
            told.push(format!("failed to wait for the end of run {run}: {error}"));
        }
    }
    // One that starts at the same time must not go on before all is settled.
    let path = root.join("recovery.lock");
    let _alone = match lock::wait_for(&path) {
        Ok(lock) => lock,
        Err(error) => {
            let path = path.display();
            told.push(format!(
                "failed to lock {path}: {error}; runs that were cut off are not looked after"
            ));
            return told;
        }
    };
    marker::remove_unset(&root);
    for dead in dead_runs(&root) {
        if !dead.mark.is_empty() && !is_own(&dead.mark) {
            // Front, hub and guards were all killed: what they had started may still run.
            processes::kill_marked(&dead.mark, &[]);
        }
        if recover_run(&root, directory, &dead, &mut told) == Mark::Remove {
            let mut socket = dead.path.clone().into_os_string();
            socket.push(".sock");
            remove_socket(Path::new(&socket), &files::scratch());
            remove_invitations(&root, &dead.path);
            // Left in place it would only be looked at again.
            let _ = fs::remove_file(&dead.path);
        }
    }
    told
}

/// It may be a link to one in `scratch`, where the file system of the run has none. Others must not lead this elsewhere.
fn remove_socket(socket: &Path, scratch: &Path) {
    if let Ok(elsewhere) = fs::read_link(socket)
        && elsewhere.parent() == Some(scratch)
        && files::check(scratch).is_ok()
    {
        let _ = fs::remove_file(elsewhere);
    }
    let _ = fs::remove_file(socket);
}

/// Nobody can join a dead run.
fn remove_invitations(root: &Path, marker: &Path) {
    let folder = root.join("join");
    if let Some(run) = marker.file_name() {
        let _ = fs::remove_file(folder.join(run));
    }
}

/// Removes what tells nothing any more from the list of targets that are unfinished.
pub(super) fn tidy_unfinished(root: &Path) {
    // Where that fails, the list is only longer than it need be.
    let _ = unfinished::tidy(root);
}

fn dead_runs(root: &Path) -> Vec<RunMark> {
    marks(root).into_iter().filter(|mark| !mark.alive).collect()
}

fn recover_run(root: &Path, directory: &Path, dead: &RunMark, told: &mut Vec<String>) -> Mark {
    let forget = format!("remove {} to go on without", dead.path.display());
    let journal = dead.journal.display();
    let read = File::open(&dead.journal).map_err(Into::into).and_then(Unfinished::read);
    let left = match read {
        Ok(left) => left,
        Err(rakuda_record::ReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
            // A link that leads nowhere: its disk may come back.
            let linked = root.join("runs").join(&dead.run).is_symlink();
            let (then, mark) = if linked {
                (forget, Mark::Keep)
            } else {
                ("look at what it was making".into(), Mark::Remove)
            };
            told.push(format!("the journal of a run that was cut off is gone, {journal}: targets that it was making may be half-written; {then}"));
            return mark;
        }
        Err(error) => {
            told.push(format!("failed to read the journal of a run that was cut off, {journal}: {error}; targets that it was making may be half-written; {forget}"));
            return Mark::Keep;
        }
    };
    let ended = left.ended.is_some();
    if let Err(error) = settle_targets(root, directory, &left, told) {
        let path = root.join("unfinished");
        told.push(format!("failed to write {}: {error}; targets that a run left that was cut off may be taken as good; {forget}", path.display()));
        return Mark::Keep;
    }
    if !ended && let Err(error) = close(&dead.journal) {
        told.push(format!(
            "failed to end the journal of a run that was cut off, {journal}: {error}"
        ));
    }
    Mark::Remove
}

fn settle_targets(
    root: &Path,
    directory: &Path,
    left: &Unfinished,
    told: &mut Vec<String>,
) -> io::Result<()> {
    let policy = left.started.as_ref().and_then(|run| FailedTarget::parse(&run.failed_target));
    let policy = policy.unwrap_or_default();
    let mut unfinished = UnfinishedTargets::read(root);
    let left_by = match left.ended {
        Some(_) => "made again by what a failed attempt had left behind",
        None => "left by a run that was cut off",
    };
    for target in left.targets() {
        let path = directory.join(target.path.as_path());
        let settled = settle_target(&path, target.before, policy);
        if matches!(settled, Settled::Renamed) {
            FailedFiles::default().note(root, &path);
        }
        if settled.still_there() {
            unfinished.insert(&target.name.0);
        }
        if target.is_known && settled.still_there() {
            continue;
        }
        let line = settled.describe(&shown(&target.path));
        told.extend(line.map(|text| format!("{text} ({left_by})")));
    }
    unfinished.write(root)
}

/// Ends a journal that was cut off, perhaps within a line.
fn close(journal: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).append(true).open(journal)?;
    let mut end = Vec::new();
    if file.seek(SeekFrom::End(0))? > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_to_end(&mut end)?;
    }
    let mut last = if end == b"\n" { Vec::new() } else { vec![b'\n'] };
    let ended = RunEnded {
        time_ns: clock::wall_ns(),
        how: RunOutcome::Recovered,
        executed: 0,
        not_needed: 0,
        failed: 0,
        abandoned: 0,
        metadata_operations: None,
    };
    lines::event(&mut last, &JournalEvent::RunEnded(ended));
    file.write_all(&last)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn socket_elsewhere_is_removed_where_nobody_else_may_write() {
        let folder = std::env::temp_dir().join(format!("rakuda-recover-{}", std::process::id()));
        let scratch = folder.join("scratch");
        fs::create_dir_all(&scratch).unwrap();
        let (link, socket) = (folder.join("run.sock"), scratch.join("run.sock"));
        let left = [0o777, 0o700].map(|mode| {
            fs::set_permissions(&scratch, PermissionsExt::from_mode(mode)).unwrap();
            fs::write(&socket, "").unwrap();
            symlink(&socket, &link).unwrap();
            remove_socket(&link, &scratch);
            (socket.exists(), link.is_symlink())
        });
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(left, [(true, false), (false, false)]);
    }
}
