//! One transfer: a file from a node to another, through the hub, piece by piece.
//!
//! The digest goes from the source to the destination untouched, so that what was harmed anywhere
//! on the way is not taken. No more than a few pieces are in memory here. It does not know why a
//! file is wanted.

use std::rc::Rc;
use std::time::Duration;

use rakuda_core::NodeId;
use rakuda_link::content::{
    ContentError, Piece, read_message, read_piece, write_end, write_message, write_piece,
};
use rakuda_proto::Text;
use rakuda_proto::files::{ContentEnd, FileAnswer, FileRequest, FileVersion};

use super::hosts::FileHosts;

/// Timeout for a transfer that stands still.
const STALL: Duration = Duration::from_secs(60);
/// Maximum number of tries of a transfer.
const TRIES: u32 = 3;

/// A file as a node calls it.
#[derive(Debug, Clone)]
pub(super) struct FileOnNode {
    pub node: NodeId,
    pub path: Text,
}

/// Why a transfer came to nothing.
#[derive(Debug)]
pub(super) struct Failure {
    /// The source is to blame; another one may do.
    pub at_source: bool,
    /// As a fragment that fits after "failed to".
    pub reason: String,
    /// It may go well another time.
    passing: bool,
    /// The source has not got the file, or not in this state.
    refused: bool,
}

impl Failure {
    fn new(at_source: bool, reason: String) -> Self {
        Self { at_source, reason, passing: false, refused: false }
    }

    fn broken(at_source: bool) -> impl Fn(ContentError) -> Self {
        move |error| Self { passing: true, ..Self::new(at_source, error.to_string()) }
    }
}

/// A file on its way.
#[derive(Debug)]
pub(super) struct Part {
    pub from: FileOnNode,
    pub to: FileOnNode,
    pub version: FileVersion,
}

/// What was moved besides the file that was asked for.
#[derive(Debug, Default)]
pub(super) struct Carried {
    pub secondary: u32,
    pub bytes: u64,
}

/// Moves a file with its secondary files: these first, so that who finds the file finds them. One that
/// has changed is passed over.
pub(super) async fn relay_all(
    hosts: Rc<FileHosts>,
    file: Part,
    secondary: Vec<Part>,
) -> Result<Carried, Failure> {
    let mut carried = Carried::default();
    for Part { from, to, version } in secondary {
        match relay(Rc::clone(&hosts), from, to, version).await {
            Ok(()) => {
                carried.secondary += 1;
                carried.bytes += version.bytes;
            }
            Err(failure) if failure.refused => {}
            Err(failure) => return Err(failure),
        }
    }
    relay(hosts, file.from, file.to, file.version).await?;
    Ok(carried)
}

/// Moves a file from one node to another.
pub(super) async fn relay(
    hosts: Rc<FileHosts>,
    from: FileOnNode,
    to: FileOnNode,
    version: FileVersion,
) -> Result<(), Failure> {
    let mut tries = 1;
    loop {
        match relay_once(&hosts, &from, &to, version).await {
            Err(failure) if failure.passing && tries < TRIES => tries += 1,
            result => return result,
        }
    }
}

async fn relay_once(
    hosts: &FileHosts,
    from: &FileOnNode,
    to: &FileOnNode,
    version: FileVersion,
) -> Result<(), Failure> {
    let mut source = hosts.open(from.node).await.map_err(|why| Failure::new(true, why))?;
    let read = FileRequest::Read { path: from.path.clone(), version };
    let asked = write_message(&mut source, &read);
    in_time(true, asked).await?.map_err(Failure::broken(true))?;
    let answer = in_time(true, read_message(&mut source)).await?;
    let mode = match answer.map_err(Failure::broken(true))? {
        FileAnswer::Content { mode } => mode,
        FileAnswer::Failed { reason } => {
            return Err(Failure { refused: true, ..Failure::new(true, reason) });
        }
        FileAnswer::Done | FileAnswer::Found { .. } => {
            return Err(Failure::new(true, "be answered as expected".into()));
        }
    };
    let mut target = hosts.open(to.node).await.map_err(|why| Failure::new(false, why))?;
    let write = FileRequest::Write { path: to.path.clone(), version, mode };
    let asked = write_message(&mut target, &write);
    in_time(false, asked).await?.map_err(Failure::broken(false))?;
    let mut broken = None;
    loop {
        let piece = in_time(true, read_piece(&mut source)).await?;
        match piece.map_err(Failure::broken(true))? {
            Piece::Bytes(bytes) => {
                let passed = write_piece(&mut target, &bytes);
                in_time(false, passed).await?.map_err(Failure::broken(false))?;
            }
            Piece::End(end) => {
                if let ContentEnd::Broken { reason } = &end {
                    broken = Some(reason.clone());
                }
                let passed = write_end(&mut target, &end);
                in_time(false, passed).await?.map_err(Failure::broken(false))?;
                break;
            }
        }
    }
    let answer = in_time(false, read_message(&mut target)).await?;
    match (answer.map_err(Failure::broken(false))?, broken) {
        (FileAnswer::Done, None) => Ok(()),
        (_, Some(reason)) => Err(Failure::new(true, reason)),
        (FileAnswer::Failed { reason }, None) => {
            Err(Failure { passing: true, ..Failure::new(false, reason) })
        }
        (FileAnswer::Content { .. } | FileAnswer::Found { .. }, None) => {
            Err(Failure::new(false, "be answered as expected".into()))
        }
    }
}

async fn in_time<T>(at_source: bool, step: impl Future<Output = T>) -> Result<T, Failure> {
    let stalled = |_| {
        let reason = format!("go on: nothing has moved for {} s", STALL.as_secs());
        Failure::new(at_source, reason)
    };
    tokio::time::timeout(STALL, step).await.map_err(stalled)
}

/// Removes files of a node, as long as they are as they are known to be. What cannot be removed
/// stays, and does no harm.
pub(super) async fn remove(hosts: Rc<FileHosts>, node: NodeId, files: Vec<(Text, FileVersion)>) {
    let Ok(mut host) = hosts.open(node).await else { return };
    if write_message(&mut host, &FileRequest::Remove { files }).await.is_ok() {
        let _: Result<FileAnswer, _> = read_message(&mut host).await;
    }
}

/// What is at a place; `None`: nothing. Whether it is a folder.
pub(super) async fn look(
    hosts: &FileHosts,
    place: &FileOnNode,
) -> Result<Option<(FileVersion, bool)>, String> {
    match ask(hosts, place.node, &FileRequest::Look { path: place.path.clone() }).await? {
        FileAnswer::Found { version, is_folder } => Ok(version.map(|version| (version, is_folder))),
        _ => Err("be answered as expected".into()),
    }
}

/// Renames or removes a file; whether it was there.
pub(super) async fn change(
    hosts: &FileHosts,
    place: &FileOnNode,
    to: Option<Text>,
) -> Result<bool, String> {
    match ask(hosts, place.node, &FileRequest::Change { path: place.path.clone(), to }).await? {
        FileAnswer::Done => Ok(true),
        FileAnswer::Found { .. } => Ok(false),
        FileAnswer::Failed { reason } => Err(reason),
        FileAnswer::Content { .. } => Err("be answered as expected".into()),
    }
}

async fn ask(hosts: &FileHosts, node: NodeId, request: &FileRequest) -> Result<FileAnswer, String> {
    let mut host = hosts.open(node).await?;
    let asking = async {
        write_message(&mut host, request).await?;
        read_message(&mut host).await
    };
    match tokio::time::timeout(STALL, asking).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("be answered within {} s", STALL.as_secs())),
    }
}
