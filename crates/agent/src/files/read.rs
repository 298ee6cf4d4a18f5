//! Sends the content of a file, and says at its end whether it was all of one state.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rakuda_link::content::{ContentError, PIECE_BYTES_MAX, write_end, write_message, write_piece};
use rakuda_proto::file_time::modified_ns;
use rakuda_proto::files::{ContentEnd, FileAnswer, FileVersion};
use tokio::io::AsyncWrite;
use tokio::sync::mpsc::{Sender, channel};

/// Maximum number of pieces that are read ahead.
const PIECES_AHEAD: usize = 4;

/// Sends the file at `path`, if it is `version`.
pub(super) async fn send(
    to: &mut (impl AsyncWrite + Unpin),
    path: PathBuf,
    version: FileVersion,
) -> Result<(), ContentError> {
    let opened = tokio::task::spawn_blocking(move || open(&path, version));
    let opened = opened.await.unwrap_or_else(|_| Err("look at the file".into()));
    let (file, mode) = match opened {
        Ok(opened) => opened,
        Err(reason) => return write_message(to, &FileAnswer::Failed { reason }).await,
    };
    write_message(to, &FileAnswer::Content { mode }).await?;
    let (pieces, mut read) = channel(PIECES_AHEAD);
    let reading = tokio::task::spawn_blocking(move || read_all(&file, version, &pieces));
    while let Some(piece) = read.recv().await {
        write_piece(to, &piece).await?;
    }
    let end = reading.await.unwrap_or_else(|_| Err("read the file".into()));
    let end = match end {
        Ok(digest) => ContentEnd::Whole { digest },
        Err(reason) => ContentEnd::Broken { reason },
    };
    write_end(to, &end).await
}

fn open(path: &Path, version: FileVersion) -> Result<(File, u32), String> {
    let named = |error: std::io::Error| format!("open {}: {error}", path.display());
    let kind = std::fs::metadata(path).map_err(named)?;
    if kind.is_dir() {
        return Err(format!(
            "read {}: it is a folder, and only files are copied from node to node: let tasks name the files in it",
            path.display()
        ));
    }
    if !kind.is_file() {
        return Err(format!("read {}: it is no ordinary file", path.display()));
    }
    let file = File::open(path).map_err(named)?;
    let found = file.metadata().map_err(named)?;
    if state(&found) != version {
        return Err(format!(
            "read {}: it is not what it was (expected {} bytes, modified at {} ns; found {} bytes, {} ns)",
            path.display(),
            version.bytes,
            version.modified_ns,
            found.len(),
            state(&found).modified_ns
        ));
    }
    Ok((file, found.permissions().mode() & 0o7777))
}

/// Its digest, when it stayed as it was.
fn read_all(
    mut file: &File,
    version: FileVersion,
    pieces: &Sender<Vec<u8>>,
) -> Result<[u8; 32], String> {
    let mut hasher = blake3::Hasher::new();
    let mut sent = 0;
    loop {
        let mut piece = vec![0; PIECE_BYTES_MAX];
        let count = file.read(&mut piece).map_err(|error| format!("read on: {error}"))?;
        if count == 0 {
            break;
        }
        piece.truncate(count);
        hasher.update(&piece);
        sent += count as u64;
        if pieces.blocking_send(piece).is_err() {
            return Err("send on: nobody takes it any more".into());
        }
    }
    let after = file.metadata().map_err(|error| format!("look at it again: {error}"))?;
    if sent != version.bytes || state(&after) != version {
        return Err("read it as one state: it was written to meanwhile".into());
    }
    Ok(*hasher.finalize().as_bytes())
}

fn state(found: &std::fs::Metadata) -> FileVersion {
    FileVersion { bytes: found.len(), modified_ns: modified_ns(found) }
}
