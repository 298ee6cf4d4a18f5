//! What is mounted on this machine, as the kernel tells it in /proc/self/mountinfo. It knows no kinds of file systems.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// The kernel's table, a line for each mount.
pub const TABLE: &str = "/proc/self/mountinfo";

/// Where something is mounted, by that table.
pub fn mount_points(table: &[u8]) -> impl Iterator<Item = PathBuf> {
    let lines = table.split(|byte| *byte == b'\n');
    lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4).map(unescaped))
}

/// Where something is mounted on the folder `path` or below it, if anything is.
pub fn mounted_below(path: &Path) -> io::Result<Option<PathBuf>> {
    let path = path.canonicalize()?;
    let table = std::fs::read(TABLE)?;
    Ok(mount_points(&table).find(|point| point.starts_with(&path)))
}

/// A path of the table: blanks and the like stand there as `\040`.
pub fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, more)) = rest.split_first() {
        let digits = more.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if first == b'\\' => {
                bytes.push(byte);
                rest = &more[3..];
            }
            _ => {
                bytes.push(first);
                rest = more;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_may_have_blanks_and_bytes_that_are_no_text() {
        let table = b"21 1 254:0 / / rw - ext4 /dev/vda rw\n\
            82 21 0:52 / /mnt/my\\040data rw - tmpfs tmpfs rw\n\
            83 21 0:53 / /mnt/\xff rw - tmpfs tmpfs rw\n";
        let points: Vec<Vec<u8>> =
            mount_points(table).map(|point| point.into_os_string().into_vec()).collect();
        assert_eq!(points, [b"/".to_vec(), b"/mnt/my data".to_vec(), b"/mnt/\xff".to_vec()]);
    }

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
