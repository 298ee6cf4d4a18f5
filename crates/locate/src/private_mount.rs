//! A mount of gfarm2fs for one run, on a node that lacks one where it is needed, and its end.
//!
//! It lies in a folder that is the user's alone, `/tmp/rakuda-UID/MARK/gfarm`, where MARK is the agent's: so what
//! outlives the agent knows where to look, and a mark whose process is gone means that nobody uses the mount any more.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rakuda_agent::mounts::{TABLE, mount_points};
use rakuda_agent::{Helper, files, processes};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::Signal;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;

use crate::mount::gfarm_mount;

/// Timeout for a mount, which takes a tenth of a second unless the catalogue does not answer.
const MOUNTED_WITHIN: Duration = Duration::from_secs(30);
/// Maximum bytes of its complaints that are reported.
const COMPLAINT_BYTES: u64 = 2048;
/// The kernel is to remember no name: one that another host has removed within the second could not be made anew here
/// (open with `O_CREAT` goes to the file that is remembered, and ends with ENOENT). It has shown no cost.
const FORGETFUL: &[u8] = b"entry_timeout=0";
/// What the mount point is called in its folder.
const POINT: &str = "gfarm";

/// Why the run's folder cannot be used on this machine.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The folder for mount points is not ours alone.
    #[error("use {path} for a mount point: {reason}")]
    Folder {
        /// Which.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// gfarm2fs says no.
    #[error("mount Gfarm on {path} (gfarm2fs): {reason}")]
    Refused {
        /// Where.
        path: String,
        /// Its own words.
        reason: String,
    },
}

/// The folder in which this user's agents have theirs.
pub fn private_folder() -> PathBuf {
    PathBuf::from(format!("/tmp/rakuda-{}", rustix::process::getuid().as_raw()))
}

/// Sees to it that the run's folder, which is `path` in Gfarm, can be used here: as `directory`, when a mount has it
/// there already, else in a mount made now. Returns the folder's name here.
pub async fn provide(directory: &Path, path: &Path, mark: &str) -> Result<PathBuf, MountError> {
    let real = directory.canonicalize().ok();
    let there = real.and_then(|real| gfarm_mount(&real)?.path_of(&real));
    if there.is_some_and(|there| there == path) {
        return Ok(directory.to_path_buf());
    }
    let folder = private_folder();
    let point = folder.join(mark).join(POINT);
    let refused = |reason: String| MountError::Folder { path: point.display().to_string(), reason };
    make_private(&folder).map_err(refused)?;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&point)
        .map_err(|error| refused(error.to_string()))?;
    let mounted = run_gfarm2fs(&point).await;
    if let Err(reason) = mounted {
        remove(mark);
        return Err(MountError::Refused { path: point.display().to_string(), reason });
    }
    Ok(point.join(path.strip_prefix("/").unwrap_or(path)))
}

/// Makes a folder that nobody else can look into, or sees that it is one.
fn make_private(folder: &Path) -> Result<(), String> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(error.to_string());
        }
        Ok(()) | Err(_) => {}
    }
    let found = fs::symlink_metadata(folder).map_err(|error| error.to_string())?;
    if !found.is_dir() || found.uid() != rustix::process::getuid().as_raw() {
        return Err(format!("{} is not a folder of this user; remove it", folder.display()));
    }
    if found.mode() & 0o077 != 0 {
        return Err(format!("others may look into {}; chmod 700 it", folder.display()));
    }
    Ok(())
}

/// gfarm2fs goes on in the background once the mount is there. It does not carry the run's mark: it
/// is to outlive the last command.
async fn run_gfarm2fs(point: &Path) -> Result<(), String> {
    let point = point.as_os_str().as_encoded_bytes();
    let start: [&[u8]; 4] = [b"env", b"-u", b"RAKUDA_RUN", b"gfarm2fs"];
    let words = [start.as_slice(), &[b"-o", FORGETFUL, point]].concat();
    let helper = Helper::start(&words).map_err(|error| error.to_string())?;
    let stderr = Receiver::from_owned_fd(helper.stderr).map_err(|error| error.to_string())?;
    let Ok(status) = tokio::time::timeout(MOUNTED_WITHIN, helper.process.ended()).await else {
        helper.process.signal(Signal::KILL.as_raw());
        return Err(format!("nothing came of it within {} s", MOUNTED_WITHIN.as_secs()));
    };
    if status == 0 {
        return Ok(());
    }
    let mut words = Vec::new();
    let reading = stderr.take(COMPLAINT_BYTES).read_to_end(&mut words).await;
    let words = String::from_utf8_lossy(&words).trim().replace('\n', "; ");
    Err(match (words.is_empty(), reading) {
        (false, _) => words,
        (true, _) => format!("it ended with status {} and no word", status >> 8 & 255),
    })
}

/// Ends what the agent of that mark has mounted, if it has, and returns whether nothing of it is left. Programs that
/// still use it lose it when they are done.
pub fn remove(mark: &str) -> bool {
    let private = private_folder();
    let folder = private.join(mark);
    if files::check(&private).is_err() {
        return fs::symlink_metadata(&folder).is_err();
    }
    let point = folder.join(POINT);
    if !is_mounted(&point) {
        let _ = fs::remove_dir(&point);
        let _ = fs::remove_dir(&folder);
        return fs::symlink_metadata(&folder).is_err();
    }
    if unmount(&point, UnmountFlags::DETACH).is_err() {
        // Only root may, but fuse's program may for a user's own mounts.
        for program in ["fusermount3", "fusermount"] {
            if is_mounted(&point) {
                call(program, &point);
            }
        }
    }
    let _ = fs::remove_dir(&point);
    let _ = fs::remove_dir(&folder);
    fs::symlink_metadata(&folder).is_err()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a program of the system, after the agent's end, waited for"
)]
fn call(program: &str, point: &Path) {
    let null = std::process::Stdio::null;
    let mut command = std::process::Command::new(program);
    let command = command.args(["-u", "-z"]).arg(point).stdin(null()).stdout(null()).stderr(null());
    // Where it is not there the other one may be.
    let _ = command.status();
}

fn is_mounted(point: &Path) -> bool {
    let mounts = fs::read(TABLE).unwrap_or_default();
    mount_points(&mounts).any(|mounted| mounted == point)
}

/// What the agent of that mark has mounted, while it is.
pub fn mounts_of(mark: &str) -> Option<PathBuf> {
    Some(private_folder().join(mark).join(POINT)).filter(|point| is_mounted(point))
}

/// The marks of agents that have or had a mount on this machine. Empty if others may write to the folder.
pub fn marks() -> Vec<String> {
    let private = private_folder();
    if files::check(&private).is_err() {
        return Vec::new();
    }
    let entries = fs::read_dir(private).into_iter().flatten().flatten();
    let marks = entries.map(|entry| entry.file_name().into_vec());
    let marks = marks.filter_map(|name| OsString::from_vec(name).into_string().ok());
    let mut marks: Vec<String> =
        marks.filter(|name| processes::mark_process(name).is_some()).collect();
    marks.sort_unstable();
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_others_may_look_into_is_not_used() {
        let folder = std::env::temp_dir().join(format!("rakuda-private-{}", std::process::id()));
        make_private(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        make_private(&folder).unwrap();
        fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let refused = make_private(&folder).unwrap_err();
        fs::remove_dir(&folder).unwrap();
        assert!(refused.contains("chmod 700"), "{refused}");
        fs::write(&folder, "").unwrap();
        let refused = make_private(&folder).unwrap_err();
        fs::remove_file(&folder).unwrap();
        assert!(refused.contains("is not a folder"), "{refused}");
    }
}
