//! The files of this machine, for programs that may ask: reads, writes and removes them, one
//! question a channel (docs/design/staging.md).
//!
//! `rakudad files` serves a data link with it, and the hub asks itself with it for the files of its
//! own machine. It knows no tasks.

mod folder;
mod read;
mod write;
mod writes;

use std::path::Path;
use std::rc::Rc;

use rakuda_link::content::{ContentError, read_message, write_message};
use rakuda_link::hub::{Reader, Writer};
use rakuda_link::mux;
use rakuda_proto::Text;
use rakuda_proto::files::{FileAnswer, FileRequest, FileVersion};
use tokio::io::{AsyncRead, AsyncWrite};

pub use folder::{
    FOLDERS, OwnFolderError, check, check_nothing_mounted, free_bytes, make_scratch, own_folder,
    remove_unused, scratch, unused,
};

use crate::visibility::identity_of;
use writes::Writes;

/// Serves a data link until it ends. Must be called inside a `tokio::task::LocalSet`.
pub async fn serve(reader: Reader, writer: Writer) {
    let writes = Rc::new(Writes::default());
    let on_channel =
        |channel| drop(tokio::task::spawn_local(answer_beside(channel, Rc::clone(&writes))));
    mux::accept(reader, writer, on_channel).await;
}

/// Answers the one question of a channel. What goes wrong with the channel ends the channel.
pub async fn answer(channel: impl AsyncRead + AsyncWrite + Unpin) {
    answer_beside(channel, Rc::default()).await;
}

async fn answer_beside(mut channel: impl AsyncRead + AsyncWrite + Unpin, writes: Rc<Writes>) {
    // The other side sees the end of the channel, and says what that means.
    let _ = converse(&mut channel, &writes).await;
    let _ = tokio::io::AsyncWriteExt::shutdown(&mut channel).await;
}

async fn converse(
    channel: &mut (impl AsyncRead + AsyncWrite + Unpin),
    writes: &Writes,
) -> Result<(), ContentError> {
    let done = match read_message(channel).await? {
        FileRequest::Look { path } => {
            let look = move || found(path.as_path());
            let found = tokio::task::spawn_blocking(look).await;
            return write_message(channel, &found.unwrap_or(NOTHING)).await;
        }
        FileRequest::Change { path, to } => {
            let change = move || change(path.as_path(), to.as_ref().map(Text::as_path));
            match tokio::task::spawn_blocking(change).await {
                Ok(Ok(false)) => return write_message(channel, &NOTHING).await,
                Ok(Ok(true)) => Ok(()),
                Ok(Err(reason)) => Err(reason),
                Err(_) => Err("change the file".into()),
            }
        }
        FileRequest::Read { path, version } => {
            return read::send(channel, path.as_path().to_path_buf(), version).await;
        }
        FileRequest::Write { path, version, mode } => {
            let path = path.as_path().to_path_buf();
            let _write = writes.begin(&path).await;
            write::take(channel, path, version, mode).await?
        }
        FileRequest::Join { socket } => {
            let joined = crate::streams::pass_on(&socket.to_display(), channel).await;
            return joined.map_err(ContentError::Closed);
        }
        FileRequest::Remove { files } => {
            writes.over(files.iter().map(|(path, _)| path.as_path())).await;
            let remove = move || {
                let mut due =
                    files.iter().filter(|(path, is)| version_of(path.as_path()) == Some(*is));
                due.try_for_each(|(path, _)| remove(path.as_path()))
            };
            tokio::task::spawn_blocking(remove).await.unwrap_or_else(|_| Err("remove files".into()))
        }
    };
    let answer = match done {
        Ok(()) => FileAnswer::Done,
        Err(reason) => FileAnswer::Failed { reason },
    };
    write_message(channel, &answer).await
}

/// The answer about what is not there.
const NOTHING: FileAnswer = FileAnswer::Found { version: None, is_folder: false };

fn found(path: &Path) -> FileAnswer {
    let is_folder = std::fs::metadata(path).is_ok_and(|found| found.is_dir());
    FileAnswer::Found { version: version_of(path), is_folder }
}

/// Renames or removes a file, and returns whether it was there.
fn change(path: &Path, to: Option<&Path>) -> Result<bool, String> {
    let done = match to {
        Some(to) => std::fs::rename(path, to),
        None => std::fs::remove_file(path),
    };
    match done {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(format!("change {}: {error}", path.display())),
    }
}

fn remove(path: &Path) -> Result<(), String> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("remove {}: {error}", path.display()))
        }
        _ => Ok(()),
    }
}

/// The present state of a file.
pub fn version_of(path: &Path) -> Option<FileVersion> {
    let identity = identity_of(path)?;
    Some(FileVersion { bytes: identity.bytes, modified_ns: identity.modified_ns })
}

#[cfg(test)]
mod tests;
