//! Where the gfsd of this machine keeps a file of Gfarm: a task here reads fast what is in memory of that.
//!
//! gfarm2fs does not let the kernel keep pages from one open to the next, so that nothing of its files counts as in
//! memory, while gfsd's own file does stay. Its name follows from the inode number, which gfarm2fs shows as it is in
//! Gfarm (gfsd.c of Gfarm 2.7, `local_path`). Only a user who may read the spool (root, and gfsd's user) gets an
//! answer; for all others nothing is known. It asks neither gfsd nor the catalogue, and looks at nothing in Gfarm.

use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::OnceLock;

use rakuda_proto::journal::FileIdentity;

use crate::{operations, residency};

/// Bytes in memory and in all. A file that this machine does not hold has none in memory. `None`: not known.
pub fn of(seen: &FileIdentity) -> Option<(u64, u64)> {
    let spool = folder()?;
    let (folder, prefix) = place(seen.inode);
    operations::count(spool, 1);
    let newest = match std::fs::read_dir(spool.join(&folder)) {
        Ok(entries) => {
            // The library looks at the folder, and lists it to its end.
            operations::count(spool, 3);
            newest(entries.flatten().map(|entry| entry.file_name()), &prefix)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(_) => return None,
    };
    let Some(name) = newest else { return Some((0, seen.bytes)) };
    residency::of_plain(&spool.join(folder).join(name), seen.bytes)
}

/// The folder below the spool, and how the names of a file's generations begin.
fn place(inode: u64) -> (PathBuf, String) {
    let [high, low] = [inode >> 32, inode & 0xffff_ffff];
    let byte = |shift: u32| (low >> shift) & 0xff;
    let folder = format!("data/{high:08X}/{:02X}/{:02X}/{:02X}", byte(24), byte(16), byte(8));
    (PathBuf::from(folder), format!("{:02X}", byte(0)))
}

/// The name with the highest generation: the numbers have one length, so that they sort as text.
fn newest(
    names: impl Iterator<Item = std::ffi::OsString>,
    prefix: &str,
) -> Option<std::ffi::OsString> {
    names.filter(|name| name.as_bytes().starts_with(prefix.as_bytes())).max()
}

/// The spool of the gfsd that runs here, found once.
fn folder() -> Option<&'static PathBuf> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let processes = std::fs::read_dir("/proc").ok()?.flatten();
        let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        lines.into_iter().find_map(|line| spool_in(&line))
    };
    FOLDER.get_or_init(find).as_ref()
}

/// The option -r of a gfsd.
fn spool_in(command_line: &[u8]) -> Option<PathBuf> {
    let mut words = command_line.split(|byte| *byte == 0);
    let program = words.next()?;
    if program.rsplit(|byte| *byte == b'/').next() != Some(b"gfsd") {
        return None;
    }
    let mut words = words.skip_while(|word| !word.starts_with(b"-r"));
    let option = words.next()?;
    let value = if option.len() > 2 { &option[2..] } else { words.next()? };
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_follows_from_the_inode() {
        assert_eq!(place(4), (PathBuf::from("data/00000000/00/00/00"), "04".to_owned()));
        let (folder, prefix) = place(0x0000_0001_1234_56ab);
        assert_eq!(folder, PathBuf::from("data/00000001/12/34/56"));
        assert_eq!(prefix, "AB");
    }

    #[test]
    fn the_highest_generation_counts() {
        let names = ["040000000000000002", "04000000000000000A", "0500000000000000FF"];
        let found = newest(names.iter().map(Into::into), "04");
        assert_eq!(found, Some("04000000000000000A".into()));
        assert_eq!(newest(names.iter().map(Into::into), "06"), None);
    }

    #[test]
    fn the_spool_is_what_gfsd_was_told() {
        let spool = |line: &[u8]| spool_in(line).map(|path| path.to_string_lossy().into_owned());
        let line = b"/usr/sbin/gfsd\0-h\0host1\0-r\0/srv/spool\0-P\0/run/gfsd.pid\0";
        assert_eq!(spool(line), Some("/srv/spool".to_owned()));
        assert_eq!(spool(b"gfsd\0-r/data\0"), Some("/data".to_owned()));
        assert_eq!(spool(b"rm\0-r\0/srv\0"), None);
    }
}
