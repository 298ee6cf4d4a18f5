//! What happens to the target of an attempt that failed or was cut off (FAILED_TARGET, as in
//! Pwrake): it must never look like a good one.

use std::path::Path;
use std::{fs, io};

use rakuda_agent::visibility::identity_now;
use rakuda_proto::front::FailedTarget;
use rakuda_proto::journal::FileIdentity;

/// What was done.
#[derive(Debug)]
pub enum TargetEnding {
    /// The attempt did not touch it, or there is none.
    Untouched,
    /// Moved to this name's `._fail_`.
    Renamed,
    /// Removed.
    Deleted,
    /// Still there, by choice.
    Left,
    /// Still there, because it could be neither renamed nor removed.
    Stuck(io::Error),
}

impl TargetEnding {
    /// Whether something is there that must not be taken as good.
    pub fn still_there(&self) -> bool {
        matches!(self, Self::Left | Self::Stuck(_))
    }

    /// A line for the user, when something was done.
    pub fn describe(&self, name: &str) -> Option<String> {
        match self {
            Self::Untouched => None,
            Self::Renamed => Some(format!("renamed unfinished target '{name}' to '{name}._fail_'")),
            Self::Deleted => Some(format!("deleted unfinished target '{name}'")),
            Self::Left => Some(format!("left unfinished target '{name}'; it will be made again")),
            Self::Stuck(error) => Some(format!(
                "could not move unfinished target '{name}' away ({error}); it will be made again"
            )),
        }
    }
}

/// Whether something is at `path` that is not what was there before.
pub fn is_touched(path: &Path, before: Option<FileIdentity>) -> bool {
    let now = identity_now(path);
    now.is_some() && now != before
}

/// The same in a copy of its folder, where inodes and change times are others.
pub fn is_touched_copy(path: &Path, before: Option<FileIdentity>) -> bool {
    let told = |file: FileIdentity| (file.modified_ns, file.bytes);
    let now = identity_now(path);
    now.is_some() && now.map(told) != before.map(told)
}

/// Settles the target at `path`, which was `before` when the attempt began. `rename` gives it its other name.
pub fn settle_target(
    path: &Path,
    before: Option<FileIdentity>,
    policy: FailedTarget,
    rename: impl FnOnce(&Path) -> io::Result<()>,
) -> TargetEnding {
    if !is_touched(path, before) {
        return TargetEnding::Untouched;
    }
    put_away(path, before, policy, rename)
}

/// Does with what is at `path` what is done with a target that is not good.
pub fn put_away(
    path: &Path,
    before: Option<FileIdentity>,
    policy: FailedTarget,
    rename: impl FnOnce(&Path) -> io::Result<()>,
) -> TargetEnding {
    let result = match policy {
        FailedTarget::Leave => return TargetEnding::Left,
        // A folder that was there before the attempt holds other work too.
        _ if before.is_some() && path.is_dir() => return TargetEnding::Left,
        FailedTarget::Rename => rename(path).map(|()| TargetEnding::Renamed),
        FailedTarget::Delete if path.is_dir() => {
            fs::remove_dir_all(path).map(|()| TargetEnding::Deleted)
        }
        FailedTarget::Delete => fs::remove_file(path).map(|()| TargetEnding::Deleted),
    };
    result.unwrap_or_else(TargetEnding::Stuck)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::identity_of;
    use crate::failed_files::FailedFiles;

    #[test]
    fn a_folder_that_was_there_before_stays_whatever_the_policy_and_one_that_was_made_goes() {
        let base = std::env::temp_dir().join(format!("rakuda-targets-{}", std::process::id()));
        let [old, new] = ["old", "new"].map(|name| base.join(name));
        for policy in [FailedTarget::Rename, FailedTarget::Delete, FailedTarget::Leave] {
            fs::create_dir_all(&old).unwrap();
            fs::write(old.join("of others"), "").unwrap();
            let before = identity_of(&old);
            fs::write(old.join("half"), "").unwrap();
            fs::create_dir_all(&new).unwrap();
            let rename = |path: &Path| FailedFiles::default().rename(None, path);
            let settled = settle_target(&old, before, policy, rename);
            assert!(settled.still_there() && old.join("of others").exists(), "{policy:?}");
            settle_target(&new, None, policy, rename);
            assert_eq!(new.exists(), policy == FailedTarget::Leave, "{policy:?}");
            fs::remove_dir_all(&base).unwrap();
        }
    }
}
