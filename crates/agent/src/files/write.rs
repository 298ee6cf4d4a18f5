//! Takes the content of a file, beside its place; only what came whole, with the right digest, is moved there.

use std::fs::{File, FileTimes, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rakuda_link::content::{ContentError, Piece, read_piece};
use rakuda_proto::file_time::seconds_and_ns;
use rakuda_proto::files::{ContentEnd, FileVersion};
use tokio::io::AsyncRead;
use tokio::sync::mpsc::{Receiver, channel};

use crate::processes;

/// Maximum number of pieces that wait for the disk.
const PIECES_AHEAD: usize = 4;
/// Permissions that the owner of a file has in any case.
const OWNER: u32 = 0o600;

/// Takes what comes as the file at `path`. The inner error is the disk's, the outer one the
/// stream's: then nothing is left here.
pub(super) async fn take(
    from: &mut (impl AsyncRead + Unpin),
    path: PathBuf,
    version: FileVersion,
    mode: u32,
) -> Result<Result<(), String>, ContentError> {
    let (pieces, taken) = channel(PIECES_AHEAD);
    let writing = tokio::task::spawn_blocking(move || write_all(&path, version, mode, taken));
    // When writing has failed the rest is still heard, so that the answer is, too.
    let end = loop {
        match read_piece(from).await {
            Ok(Piece::Bytes(bytes)) => drop(pieces.send(Step::Bytes(bytes)).await),
            Ok(Piece::End(end)) => break Ok(end),
            Err(error) => break Err(error),
        }
    };
    let failed = match end {
        Ok(end) => {
            let _ = pieces.send(Step::End(end)).await;
            None
        }
        Err(error) => Some(error),
    };
    drop(pieces);
    let written = writing.await.unwrap_or_else(|_| Err("write the file".into()));
    match failed {
        Some(error) => Err(error),
        None => Ok(written),
    }
}

enum Step {
    Bytes(Vec<u8>),
    End(ContentEnd),
}

/// A file beside its place; removed unless it is moved there.
struct Part {
    path: PathBuf,
    file: File,
    kept: bool,
}

impl Part {
    fn beside(path: &Path) -> Result<Self, String> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        let named = |error: std::io::Error| format!("write into {}: {error}", folder.display());
        std::fs::create_dir_all(folder).map_err(named)?;
        let part = folder.join(format!(".rakuda-part-{:016x}", processes::random()));
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(OWNER).open(&part).map_err(named)?;
        Ok(Self { path: part, file, kept: false })
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.kept {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn write_all(
    path: &Path,
    version: FileVersion,
    mode: u32,
    mut pieces: Receiver<Step>,
) -> Result<(), String> {
    let mut part = Part::beside(path)?;
    let named = |error: std::io::Error| format!("write {}: {error}", path.display());
    let mut hasher = blake3::Hasher::new();
    let mut bytes = 0;
    let end = loop {
        match pieces.blocking_recv() {
            Some(Step::Bytes(piece)) => {
                hasher.update(&piece);
                bytes += piece.len() as u64;
                part.file.write_all(&piece).map_err(named)?;
            }
            Some(Step::End(end)) => break end,
            None => return Err("take it to its end: the data link was closed".into()),
        }
    };
    match end {
        ContentEnd::Broken { reason } => return Err(reason),
        ContentEnd::Whole { digest } if digest != *hasher.finalize().as_bytes() => {
            return Err(format!("take {} unharmed: its digest is another", path.display()));
        }
        ContentEnd::Whole { .. } if bytes != version.bytes => {
            return Err(format!(
                "take {}: {bytes} bytes came, not {}",
                path.display(),
                version.bytes
            ));
        }
        ContentEnd::Whole { .. } => {}
    }
    let mode = mode & 0o777 | OWNER;
    part.file.set_permissions(Permissions::from_mode(mode)).map_err(named)?;
    let modified = time_of(version.modified_ns)
        .ok_or_else(|| format!("write {}: no file has such a time", path.display()))?;
    let times = FileTimes::new().set_modified(modified);
    part.file.set_times(times).map_err(named)?;
    std::fs::rename(&part.path, path).map_err(named)?;
    part.kept = true;
    Ok(())
}

/// As the standard library has it. `None`: beyond what a kernel can tell.
fn time_of(file_ns: i128) -> Option<SystemTime> {
    let (seconds, ns) = seconds_and_ns(file_ns);
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let begin = if seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(whole)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(whole)
    };
    begin?.checked_add(Duration::from_nanos(ns.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rakuda_proto::file_time::file_ns;
    use std::time::UNIX_EPOCH;

    #[test]
    fn times_of_any_year_are_given_to_files() {
        for seconds in [0, 1, 13_569_465_600, i64::MAX] {
            let since = Duration::new(seconds.unsigned_abs(), 4);
            assert_eq!(time_of(file_ns(seconds, 4)), UNIX_EPOCH.checked_add(since));
            let before = UNIX_EPOCH.checked_sub(Duration::from_secs(seconds.unsigned_abs()));
            assert_eq!(time_of(file_ns(-seconds, 0)), before);
        }
        assert_eq!(time_of(file_ns(-1, 999_999_999)), UNIX_EPOCH.checked_sub(Duration::new(0, 1)));
    }
}
