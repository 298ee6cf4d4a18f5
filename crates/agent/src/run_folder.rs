//! The run's folder as an agent elsewhere has it: shared with all, or its own.
//!
//! In its own it makes the folders that commands start in and that targets lie in, and removes what failed attempts
//! left. It knows no tasks.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rakuda_proto::Text;
use rakuda_proto::agent::AgentRequest;
use rakuda_proto::cluster::AgentSettings;
use rakuda_proto::files::FileVersion;

use crate::files::{self, OwnFolderError};
use crate::remote::RemoteError;
use crate::{clock, operations};

/// Time between two looks whether the agent before this one, which its hub has lost, has ended.
const STEP: Duration = Duration::from_millis(200);

/// The run's folder on this agent's machine, shared with all or its own.
pub(crate) struct RunFolder {
    /// Absolute.
    pub path: PathBuf,
    /// Its own: locked as long as this lives.
    own: Option<OwnedFd>,
}

impl RunFolder {
    /// Goes by what the hub says.
    pub async fn enter(settings: &AgentSettings) -> Result<Self, RemoteError> {
        let directory = settings.directory.as_path();
        if !settings.own_folder {
            check(directory)?;
            return Ok(Self { path: directory.to_path_buf(), own: None });
        }
        let path = files::scratch().join(directory);
        // A node that was lost is launched again while what it ran before may still be ending.
        let limit_ns = u64::from(settings.orphan_ms) * 1_000_000;
        let start_ns = clock::monotonic_ns();
        loop {
            if let Some(lock) = files::own_folder(&path)? {
                return Ok(Self { path, own: Some(lock) });
            }
            if clock::monotonic_ns() - start_ns > limit_ns {
                return Err(OwnFolderError::InUse { path }.into());
            }
            tokio::time::sleep(STEP).await;
        }
    }

    /// Makes the folder that a command starts in, if it lies in the node's own.
    pub fn make_place_of(&self, request: &AgentRequest) {
        let folder = match request {
            AgentRequest::Start { options, .. } | AgentRequest::Prepare { options, .. } => {
                options.as_ref().and_then(|options| options.directory.as_ref())
            }
            AgentRequest::ChangeDirectory { directory } => Some(directory),
            AgentRequest::DefineEnvironment { .. }
            | AgentRequest::ForgetEnvironments { .. }
            | AgentRequest::ForgetProgram { .. }
            | AgentRequest::FreesCore { .. }
            | AgentRequest::Release
            | AgentRequest::Withdraw { .. }
            | AgentRequest::KeepCore { .. }
            | AgentRequest::CommitRound { .. }
            | AgentRequest::CloseRound { .. }
            | AgentRequest::Signal { .. }
            | AgentRequest::Streams(_) => None,
        };
        if let Some(folder) = folder {
            self.make(std::slice::from_ref(folder));
        }
    }

    /// Makes folders that lie in the node's own.
    pub fn make(&self, folders: &[Text]) {
        if self.own.is_none() {
            return;
        }
        for folder in folders {
            let folder = self.path.join(folder.as_path());
            if folder.starts_with(&self.path) {
                operations::count(&folder, 1);
                // The command that needs it says what is missing.
                let _ = std::fs::create_dir_all(folder);
            }
        }
    }

    /// Removes what a failed attempt has left, or renames it.
    pub fn put_away(&self, path: &Text, rename: bool, unless: Option<FileVersion>) {
        let path = self.path.join(path.as_path());
        if self.own.is_none() || !path.starts_with(&self.path) {
            return;
        }
        if unless.is_some() && files::version_of(&path) == unless {
            return;
        }
        operations::count(&path, 1);
        let mut failed = path.clone().into_os_string();
        failed.push("._fail_");
        // Nothing there: the attempt has left nothing. It is never taken as good, wherever it stays.
        let _ = match rename {
            true => std::fs::rename(&path, failed),
            false if path.is_dir() => std::fs::remove_dir_all(&path),
            false => std::fs::remove_file(&path),
        };
    }
}

fn check(path: &Path) -> Result<(), RemoteError> {
    let found = std::fs::metadata(path).and_then(|found| {
        let wrong = std::io::ErrorKind::NotADirectory;
        if found.is_dir() { Ok(()) } else { Err(wrong.into()) }
    });
    found.map_err(|source| RemoteError::Directory {
        path: path.display().to_string(),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        source,
    })
}
