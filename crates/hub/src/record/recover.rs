//! What is done about runs that were cut off: whatever still runs of them is killed, the targets of
//! attempts that began and did not end are settled, and their journals are closed.
//!
//! It finds runs by their marks, not by their journals: a run that has ended has none.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rakuda_agent::{files, processes};
use rakuda_proto::Text;
use rakuda_proto::front::FailedTarget;
use rakuda_proto::journal::{JournalEvent, RunEnded, RunOutcome};
use rakuda_record::folder::FOLDER;
use rakuda_record::marks::{RunMark, marks};
use rakuda_record::printable::shown;

use super::left::{self, Left, LeftTarget};
use super::settled::SettledTargets;
use super::unfinished::{self, UnfinishedTargets};
use super::{calendar, lines, lock, marker, settled, suspected};
use crate::failed_files::FailedFiles;
use crate::project::Project;
use crate::targets::put_away;

/// Interval between looks of a guard whether another process still looks after runs.
const PATIENCE_STEP: Duration = Duration::from_millis(20);
/// Maximum number of these looks.
const PATIENCE_STEPS: u32 = 100;
/// Maximum number of targets that are named one by one.
const NAMES_MAX: usize = 20;

/// What becomes of the mark of a run that was recovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// Nothing is left to be done.
    Remove,
    /// The next run tries again.
    Keep,
}

/// The right to look after runs that were cut off, as long as it is held.
#[derive(Debug)]
pub(crate) struct Turn {
    lock: Option<lock::Lock>,
    /// Processes of these runs may still write: nothing has ended all that they had started.
    may_be_written: bool,
}

impl Turn {
    /// The turn of the next run.
    fn late(lock: Option<lock::Lock>) -> Self {
        Self { lock, may_be_written: true }
    }

    /// The turn of a guard.
    fn soon(lock: Option<lock::Lock>) -> Self {
        Self { lock, may_be_written: false }
    }
}

/// Takes the turn to look after runs that were cut off. `None` when another process looks after them and this one must
/// wait: another run, or what is left of one that was cut off, which ends what that had started and then settles its
/// targets. Where there is nothing to look after, no process does.
pub(crate) fn take_turn(directory: &Path) -> Option<Turn> {
    let root = directory.join(FOLDER);
    if being_ended(&root).is_some() {
        return None;
    }
    if has_nothing_left(&root) {
        return Some(Turn::late(None));
    }
    let others = dead_runs(&root).into_iter().filter(|dead| !processes::carries(&dead.mark));
    if others.into_iter().any(|dead| processes::shows_life(&dead.mark)) {
        return None;
    }
    match lock::try_for(&lock_path(&root)) {
        Ok(None) => None,
        Ok(lock) => Some(Turn::late(lock)),
        // `recover_in_turn` meets the same error, and reports it.
        Err(_) => Some(Turn::late(None)),
    }
}

/// The run, if any, whose hub must be waited for.
fn being_ended(root: &Path) -> Option<RunMark> {
    let mut living = marks(root).into_iter().filter(|mark| mark.alive);
    living.find(|run| !processes::carries(&run.mark) && is_being_ended(run))
}

/// Whether `rakuda` of a run is gone whose hub lives a moment longer: what that makes is no target
/// of a run that goes on. Of a run on another machine nothing shows here.
fn is_being_ended(run: &RunMark) -> bool {
    let shows_here = run.life_space.is_some() && run.life_space == processes::life_space();
    if shows_here {
        !processes::first_lives(&run.mark)
    } else {
        processes::is_being_ended(&run.mark)
    }
}

fn has_nothing_left(root: &Path) -> bool {
    dead_runs(root).is_empty()
        && marker::unset(root).is_empty()
        && marker::sockets_without_mark(root).is_empty()
}

fn lock_path(root: &Path) -> PathBuf {
    root.join("recovery.lock")
}

/// Settles what runs left behind whose hub is gone, for a guard that has ended what one of them had
/// started; returns lines for the user. Another process that does so is waited for, but not for
/// long: then the next run settles what is left.
pub fn recover_soon(directory: &Path, now_ns: i64) -> Vec<String> {
    let root = directory.join(FOLDER);
    if has_nothing_left(&root) {
        return Vec::new();
    }
    for _ in 0..PATIENCE_STEPS {
        match lock::try_for(&lock_path(&root)) {
            Ok(None) => pause(),
            Ok(lock) => return recover_in_turn(directory, Turn::soon(lock), now_ns),
            // `recover_in_turn` meets the same error, and reports it.
            Err(_) => return recover_in_turn(directory, Turn::soon(None), now_ns),
        }
    }
    vec![format!(
        "{} is locked; the next run settles what this one leaves",
        lock_path(&root).display()
    )]
}

#[allow(clippy::disallowed_methods, reason = "nothing tells in time when a lock becomes free")]
fn pause() {
    std::thread::sleep(PATIENCE_STEP);
}

/// Settles what runs left behind whose hub is gone; returns lines for the user. Waits for another process that does so.
/// Cheap when there is nothing: one directory that is not there.
#[cfg(test)]
pub fn recover(directory: &Path) -> Vec<String> {
    recover_in_turn(directory, Turn::late(None), super::tests::stamp_ns())
}

/// The same for a caller that has its turn.
pub(crate) fn recover_in_turn(directory: &Path, turn: Turn, now_ns: i64) -> Vec<String> {
    let root = directory.join(FOLDER);
    let mut told = Vec::new();
    if turn.may_be_written {
        told.extend(settled::look_again(&root, directory));
    }
    if has_nothing_left(&root) {
        return told;
    }
    // One that starts at the same time must not go on before all is settled.
    let path = lock_path(&root);
    let lock = turn.lock.map_or_else(|| lock::wait_for(&path), Ok);
    let _alone = match lock {
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
    for socket in marker::sockets_without_mark(&root) {
        remove_socket(&socket, &files::scratch());
    }
    for dead in dead_runs(&root) {
        // The original's run may live, if this is a copy of the folder.
        let is_own = dead.folder.is_none_or(|folder| folder == identity_of_folder(directory));
        if is_own && !dead.mark.is_empty() && !processes::carries(&dead.mark) {
            // Front, hub and guard were all killed: what they had started may still run.
            processes::kill_marked(&dead.mark, &[]);
        }
        let mut settled = Vec::new();
        let mark = recover_run(&root, directory, &dead, now_ns, (&mut told, &mut settled));
        if turn.may_be_written {
            settled::watch(&root, settled.iter());
        }
        if mark == Mark::Remove {
            let mut socket = dead.path.clone().into_os_string();
            socket.push(".sock");
            remove_socket(Path::new(&socket), &files::scratch());
            remove_invitations(&root, &dead.path);
            if let Some(run) = dead.path.file_name() {
                let _ = fs::remove_dir_all(root.join(super::SPOOLS).join(run));
            }
            // Left in place it would only be looked at again.
            let _ = fs::remove_file(&dead.path);
        }
    }
    told
}

/// Targets that were changed after they were made anew, for a caller that changes nothing.
pub(crate) fn changed_since_settled(directory: &Path) -> Vec<Text> {
    SettledTargets::read(&directory.join(FOLDER)).changed(directory)
}

/// What runs left behind whose hub is gone, for a caller that changes nothing.
pub(crate) fn look_at_dead_runs(directory: &Path, now_ns: i64) -> Vec<Left> {
    let dead = dead_runs(&directory.join(FOLDER));
    if dead.is_empty() {
        return Vec::new();
    }
    let identity = identity_of_folder(directory);
    dead.iter().map(|dead| left::look(dead, directory, identity, now_ns)).collect()
}

/// It may be a link to one in `scratch`, where the file system of the run has none. Others must not
/// lead this elsewhere.
fn remove_socket(socket: &Path, scratch: &Path) {
    if let Ok(elsewhere) = fs::read_link(socket)
        && elsewhere.parent() == Some(scratch)
        && files::check(scratch).is_ok()
    {
        let _ = fs::remove_file(elsewhere);
    }
    let _ = fs::remove_file(socket);
}

/// Removes the invitations of a dead run, which no node can join.
fn remove_invitations(root: &Path, marker: &Path) {
    let folder = root.join("join");
    if let Some(run) = marker.file_name() {
        let _ = fs::remove_file(folder.join(run));
    }
}

/// Removes lines without effect from the list of targets that are unfinished.
pub(super) fn tidy_unfinished(root: &Path) {
    // Where that fails, the list is only longer than it need be.
    let _ = unfinished::tidy(root);
}

fn dead_runs(root: &Path) -> Vec<RunMark> {
    marks(root).into_iter().filter(|mark| !mark.alive).collect()
}

fn recover_run(
    root: &Path,
    directory: &Path,
    dead: &RunMark,
    now_ns: i64,
    (told, names): (&mut Vec<String>, &mut Vec<Text>),
) -> Mark {
    let forget = format!("remove {} to go on without", dead.path.display());
    let left = left::look(dead, directory, identity_of_folder(directory), now_ns);
    tell_suspected(root, &left, dead, &forget, told);
    let noted = match &left.suspected {
        Some(period) => {
            suspected::add(root, period).map_err(|error| (suspected::path_in(root), error))
        }
        None => Ok(()),
    };
    names.extend(left.targets.iter().map(|left| left.target.name.clone()));
    let settled = settle_targets(root, &left, told);
    let settled = settled.map_err(|error| (root.join("unfinished"), error));
    if let Err((path, error)) = noted.and(settled) {
        told.push(format!("failed to write {}: {error}; targets that a run left that was cut off may be taken as good; {forget}", path.display()));
        return Mark::Keep;
    }
    // That of a copy may be the original's.
    let is_ours = left.is_own || dead.journal.strip_prefix(directory).is_ok_and(left::is_below);
    if left.journal.as_ref().is_ok_and(|journal| journal.ended.is_none())
        && is_ours
        && let Err(error) = close(&dead.journal, now_ns)
    {
        let journal = dead.journal.display();
        told.push(format!(
            "failed to end the journal of a run that was cut off, {journal}: {error}"
        ));
    }
    mark_after(root, dead, &left)
}

/// Warns of the periods that the record does not cover, and of what follows from that.
fn tell_suspected(root: &Path, left: &Left, dead: &RunMark, forget: &str, told: &mut Vec<String>) {
    let Some(period) = &left.suspected else { return };
    let journal = dead.journal.display();
    let since = calendar::words(period.since_ns);
    let then = format!("what was changed since {since} and no record vouches for is made again");
    let what = match &left.journal {
        Err(error) if left::is_gone(error) => "is gone",
        Err(_) => "cannot be read",
        Ok(journal) if journal.damage.is_some() => "is damaged",
        Ok(_) => "could not be written to its end",
    };
    let why = match &left.journal {
        Err(error) if !left::is_gone(error) => format!(" ({error})"),
        _ => String::new(),
    };
    let forget = match mark_after(root, dead, left) {
        Mark::Remove => String::new(),
        Mark::Keep => format!("; {forget}"),
    };
    told.push(format!("the journal of a run that was cut off {what}, {journal}{why}: targets that it was making may be half-written; {then}{forget}"));
}

/// Whether the next run may read what this one cannot.
fn mark_after(root: &Path, dead: &RunMark, left: &Left) -> Mark {
    match &left.journal {
        // A link that leads nowhere: its disk may come back.
        Err(error) if left::is_gone(error) && !root.join("runs").join(&dead.run).is_symlink() => {
            Mark::Remove
        }
        Err(_) => Mark::Keep,
        Ok(_) => Mark::Remove,
    }
}

fn identity_of_folder(directory: &Path) -> (u64, u64) {
    Project::new(directory).identity()
}

fn settle_targets(root: &Path, left: &Left, told: &mut Vec<String>) -> io::Result<()> {
    let started = left.journal.as_ref().ok().and_then(|journal| journal.started.as_ref());
    let policy = started.and_then(|run| FailedTarget::named(&run.failed_target));
    let policy = policy.unwrap_or_default();
    let mut unfinished = UnfinishedTargets::read(root);
    // First what is to stay in place: whatever happens then, it is not taken as good.
    let mut kept = Vec::new();
    for LeftTarget { target, .. } in left.targets.iter().filter(|target| target.untouchable) {
        unfinished.insert(&target.name.0);
        kept.push(shown(&target.path));
    }
    unfinished.write(root)?;
    let more = kept.len().saturating_sub(NAMES_MAX);
    told.extend(kept.iter().take(NAMES_MAX).map(|name| {
        format!("left '{name}' in place: no record tells whether a run that was cut off had finished it; it will be made again")
    }));
    if more > 0 {
        told.push(format!("and {more} more like that"));
    }
    let left_by = if left.journal.as_ref().is_ok_and(|journal| journal.ended.is_some()) {
        "made again by what a failed attempt had left behind"
    } else {
        "left by a run that was cut off"
    };
    for LeftTarget { target, path, .. } in left.targets.iter().filter(|target| !target.untouchable)
    {
        let rename = |path: &Path| FailedFiles::default().rename(Some(root), path);
        let settled = put_away(path, target.before, policy, rename);
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
fn close(journal: &Path, now_ns: i64) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).append(true).open(journal)?;
    let mut end = Vec::new();
    if file.seek(SeekFrom::End(0))? > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_to_end(&mut end)?;
    }
    let mut last = if end == b"\n" { Vec::new() } else { vec![b'\n'] };
    let ended = RunEnded {
        time_ns: now_ns,
        how: RunOutcome::Recovered,
        executed: 0,
        done: None,
        not_needed: 0,
        failed: 0,
        abandoned: 0,
        metadata_operations: None,
        run_file_system_operations: None,
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
