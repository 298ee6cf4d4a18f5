//! Where a folder lies in Gfarm, when it lies below a mount of gfarm2fs.
//!
//! What is mounted may be a part of the file system: gfarm2fs tells the real path of a file in an
//! extended attribute. It knows this machine only.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rakuda_agent::mounts::{TABLE, mounts_of};

/// What the kernel calls the kind of such a mount.
const KIND: &str = "fuse.gfarm2fs";
/// The attribute that says what a file's path in Gfarm is: `gfarm://HOST:PORT/PATH`.
const PATH_ATTRIBUTE: &str = "gfarm2fs.path";

/// A mount of gfarm2fs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GfarmMount {
    /// Where it is on this machine.
    pub point: PathBuf,
    /// What the mount point is in Gfarm.
    pub path: PathBuf,
}

impl GfarmMount {
    /// The path in Gfarm of a file. `None`: it is not below the mount, as far as its name says.
    pub fn path_of(&self, file: &Path) -> Option<PathBuf> {
        let below = file.strip_prefix(&self.point).ok()?;
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        below.components().all(plain).then(|| self.path.join(below))
    }
}

/// The mount that the folder `directory` lies in. `None`: it is not in Gfarm.
pub fn gfarm_mount(directory: &Path) -> Option<GfarmMount> {
    let directory = directory.canonicalize().ok()?;
    let mounts = std::fs::read(TABLE).ok()?;
    let point = mount_point(&mounts, &directory)?;
    let mut value = vec![0; 8192];
    let length = rustix::fs::getxattr(&point, PATH_ATTRIBUTE, &mut value).ok();
    let path = length.and_then(|length| path_in(&value[..length]));
    Some(GfarmMount { path: path.unwrap_or_else(|| PathBuf::from("/")), point })
}

/// The path of `gfarm://HOST:PORT/PATH`, or of what begins with a slash.
fn path_in(value: &[u8]) -> Option<PathBuf> {
    let value = value.strip_suffix(b"\0").unwrap_or(value);
    let path = match value.strip_prefix(b"gfarm://") {
        Some(rest) => rest.iter().position(|byte| *byte == b'/').map(|start| &rest[start..])?,
        None => value,
    };
    path.starts_with(b"/").then(|| PathBuf::from(OsStr::from_bytes(path)))
}

/// The innermost mount that `directory` lies in, when that is gfarm2fs.
fn mount_point(mounts: &[u8], directory: &Path) -> Option<PathBuf> {
    let above = mounts_of(mounts).filter(|mount| directory.starts_with(&mount.point));
    let lines = above.map(|mount| (mount.point, mount.kind == KIND.as_bytes()));
    // Of mounts over one another the last one counts.
    let innermost = lines.max_by_key(|(point, _)| point.components().count())?;
    innermost.1.then_some(innermost.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &[u8] = b"\
21 1 254:0 / / rw - ext4 /dev/vda rw
80 21 0:50 / /srv/gfarm rw,nosuid - fuse.gfarm2fs gfarm2fs rw,user_id=0
81 80 0:51 / /srv/gfarm/other rw - tmpfs tmpfs rw
82 21 0:52 / /mnt/my\\040data rw - fuse.gfarm2fs gfarm2fs rw
83 21 0:53 / /mnt/hidden rw - fuse.gfarm2fs gfarm2fs rw
84 83 0:54 / /mnt/hidden rw - ext4 /dev/vdb rw
";

    #[test]
    fn the_innermost_and_last_mount_decides() {
        let point = |folder: &str| mount_point(MOUNTS, Path::new(folder));
        assert_eq!(point("/srv/gfarm/users/me"), Some(PathBuf::from("/srv/gfarm")));
        assert_eq!(point("/srv/gfarm"), Some(PathBuf::from("/srv/gfarm")));
        assert_eq!(point("/srv/gfarm/other/x"), None);
        assert_eq!(point("/srv/gfarmer"), None);
        assert_eq!(point("/mnt/my data/x"), Some(PathBuf::from("/mnt/my data")));
        assert_eq!(point("/mnt/hidden/x"), None);
    }

    #[test]
    fn a_file_of_the_mount_has_a_path_in_gfarm_and_others_have_none() {
        let mount = GfarmMount { point: "/srv/gfarm".into(), path: "/users/me".into() };
        let path = |file: &str| mount.path_of(Path::new(file));
        assert_eq!(path("/srv/gfarm/a/b"), Some(PathBuf::from("/users/me/a/b")));
        assert_eq!(path("/tmp/a"), None);
        assert_eq!(path("/srv/gfarm/../a"), None);
    }

    #[test]
    fn the_attribute_is_a_url_or_a_path() {
        assert_eq!(path_in(b"gfarm://head:601/users/me"), Some(PathBuf::from("/users/me")));
        assert_eq!(path_in(b"/users/me\0"), Some(PathBuf::from("/users/me")));
        assert_eq!(path_in(b"gfarm://head:601"), None);
    }
}
