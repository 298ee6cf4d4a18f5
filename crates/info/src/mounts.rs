//! What is mounted here, as the kernel tells it in /proc/self/mountinfo (proc_pid_mountinfo(5)). It does not read that
//! table itself. The table names mounts below the root of this process alone: in a chroot, `/` itself may be in none of
//! its lines.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// A line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount<'a> {
    /// Major:minor.
    pub device: &'a [u8],
    /// The part of the file system that is seen.
    pub root: PathBuf,
    /// The mount point.
    pub point: PathBuf,
    /// The kind of the file system; empty if the line does not say.
    pub kind: &'a [u8],
    /// The options of the file system, with commas.
    pub options: &'a [u8],
}

/// The lines of the table that can be read, in its order: a later mount lies over earlier ones.
pub fn mounts(table: &[u8]) -> impl Iterator<Item = Mount<'_>> {
    table.split(|byte| *byte == b'\n').filter_map(mount)
}

/// The device that a file is on, as the table writes it; empty where it cannot be known.
pub fn device_of(path: &Path) -> String {
    rustix::fs::stat(path).map_or_else(
        |_| String::new(),
        |found| format!("{}:{}", rustix::fs::major(found.st_dev), rustix::fs::minor(found.st_dev)),
    )
}

fn mount(line: &[u8]) -> Option<Mount<'_>> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = fields.nth(2)?;
    let (root, point) = (unescaped(fields.next()?), unescaped(fields.next()?));
    // Options of the mount, then any number of fields up to a hyphen.
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let kind = fields.next().unwrap_or_default();
    let options = fields.nth(1).unwrap_or_default();
    Some(Mount { device, root, point, kind, options })
}

/// A path of the table: blanks and the like stand there as `\040`.
fn unescaped(field: &[u8]) -> PathBuf {
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
    fn paths_may_have_blanks_and_bytes_that_are_no_text() {
        let table = b"21 1 254:0 / / rw shared:1 - ext4 /dev/vda rw,a\n\nno line\n\
            82 21 0:52 /x /mnt/my\\040data rw - tmpfs tmpfs rw\n\
            83 21 0:53 / /mnt/\xff rw\n";
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let all: Vec<String> =
            mounts(table).map(|it| [it.device, it.kind, it.options].map(text).join(" ")).collect();
        assert_eq!(all, ["254:0 ext4 rw,a", "0:52 tmpfs rw", "0:53  "]);
        let points: Vec<Vec<u8>> =
            mounts(table).map(|it| it.point.into_os_string().into_vec()).collect();
        assert_eq!(points, [b"/".to_vec(), b"/mnt/my data".to_vec(), b"/mnt/\xff".to_vec()]);
    }
}
