//! What is mounted on this machine, as the kernel tells it in /proc/self/mountinfo. It knows no kinds of file systems.

use std::io;
use std::path::{Path, PathBuf};

pub use rakuda_info::mounts::{device_of, mounts as mounts_of};

/// The kernel's table, a line for each mount.
pub const TABLE: &str = "/proc/self/mountinfo";

/// Where something is mounted, by that table.
pub fn mount_points(table: &[u8]) -> impl Iterator<Item = PathBuf> {
    mounts_of(table).map(|mount| mount.point)
}

/// The same with the device of each, as major:minor.
pub fn mounted_devices(table: &[u8]) -> impl Iterator<Item = (PathBuf, &[u8])> {
    mounts_of(table).map(|mount| (mount.point, mount.device))
}

/// Where something is mounted on the folder `path` or below it, if anything is.
pub fn mounted_below(path: &Path) -> io::Result<Option<PathBuf>> {
    let path = path.canonicalize()?;
    let table = std::fs::read(TABLE)?;
    Ok(mount_points(&table).find(|point| point.starts_with(&path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_mounted_below_the_root_and_nothing_below_a_new_folder() {
        assert!(mounted_below(Path::new("/proc")).unwrap().is_some());
        let folder = std::env::temp_dir().join(format!("rakuda-mounts-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let found = mounted_below(&folder);
        std::fs::remove_dir(&folder).unwrap();
        assert_eq!(found.unwrap(), None);
    }
}
