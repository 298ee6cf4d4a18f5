//! What was written beside a target: files in its folder whose names begin as its own and that were changed since a point in time.
//!
//! Names come first, and only what fits is looked at, since a folder may hold the targets of thousands of tasks. It knows no tasks: whose
//! such a file is, the hub decides (docs/design/staging.md).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rakuda_proto::Text;
use rakuda_proto::files::FileVersion;

use crate::operations;

/// So many files are told of at most.
pub const BESIDE_MAX: usize = 100;

/// The files beside `target` that were changed at `since_ns` or later, by name, and whether there are more.
pub fn beside(target: &Path, since_ns: i64) -> (Vec<(Text, FileVersion)>, bool) {
    let (Some(folder), Some(name)) = (target.parent(), target.file_name()) else {
        return (Vec::new(), false);
    };
    operations::count(1);
    // A folder that cannot be read has nothing to tell; the target itself is looked at apart.
    let Ok(entries) = std::fs::read_dir(folder) else { return (Vec::new(), false) };
    let names = entries.filter_map(Result::ok).map(|entry| entry.file_name());
    // What FAILED_TARGET has left of an attempt before is no good.
    let failed = [name.as_bytes(), b"._fail_"].concat();
    let is_beside =
        |other: &OsString| other != name && other.as_bytes() != failed && begins_as(name, other);
    let mut names: Vec<_> = names.filter(is_beside).collect();
    names.sort_unstable();
    let mut found = names.iter().filter_map(|other| {
        operations::count(1);
        let version = changed_since(&folder.join(other), since_ns)?;
        Some((Text(other.as_bytes().to_vec()), version))
    });
    let told = found.by_ref().take(BESIDE_MAX).collect();
    (told, found.next().is_some())
}

/// Whether a name begins with that of a target up to the first dot, and then comes no letter or digit.
pub fn begins_as(target: &OsStr, other: &OsStr) -> bool {
    let (target, other) = (target.as_bytes(), other.as_bytes());
    // A dot at the beginning hides a file, and ends nothing.
    let dot = target.iter().skip(1).position(|byte| *byte == b'.');
    let stem = &target[..dot.map_or(target.len(), |dot| dot + 1)];
    let rest = other.strip_prefix(stem);
    rest.is_some_and(|rest| !rest.first().is_some_and(|byte| is_of_word(*byte)))
}

/// Whether a byte is of a letter or digit; letters beyond ASCII are letters, too.
pub fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || !byte.is_ascii()
}

fn changed_since(path: &Path, since_ns: i64) -> Option<FileVersion> {
    let found = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let ns = |seconds: i64, ns: i64| seconds.saturating_mul(1_000_000_000).saturating_add(ns);
    let modified_ns = ns(found.mtime(), found.mtime_nsec());
    let is_new = ns(found.ctime(), found.ctime_nsec()) >= since_ns;
    is_new.then_some(FileVersion { bytes: found.len(), modified_ns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn names_that_begin_as_the_target_up_to_its_first_dot_belong_to_it() {
        let is = |target: &str, other: &str| begins_as(OsStr::new(target), OsStr::new(other));
        for (target, other) in [
            ("tile_1.fits", "tile_1_area.fits"),
            ("ref.fa.amb", "ref.fa.bwt"),
            ("proteins.pin", "proteins"),
            ("proteins", "proteins.phr"),
            ("index.1.bt2", "index.rev.1.bt2"),
            (".hidden.a", ".hidden.b"),
        ] {
            assert!(is(target, other), "{target}: {other}");
        }
        for (target, other) in [
            ("tile_1.fits", "tile_10.fits"),
            ("tile_1.fits", "tile_1a.fits"),
            ("tile_1.fits", "tile_1\u{e9}.fits"),
            ("tile_1.fits", "my_tile_1.fits"),
            (".hidden.a", ".other"),
        ] {
            assert!(!is(target, other), "{target}: {other}");
        }
    }

    #[test]
    fn only_ordinary_files_changed_since_count_and_no_more_than_the_bound() {
        let folder = std::env::temp_dir().join(format!("rakuda-beside-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("x.folder")).unwrap();
        let write = |name: &str| std::fs::write(folder.join(name), name).unwrap();
        write("x.old");
        write("x.renamed.before");
        let before = clock::file_ns();
        while clock::file_ns() == before {
            std::hint::spin_loop();
        }
        let since_ns = clock::file_ns();
        ["x.new", "x.fits", "x.fits._fail_", "y.new"].into_iter().for_each(write);
        std::fs::rename(folder.join("x.renamed.before"), folder.join("x.renamed")).unwrap();
        std::os::unix::fs::symlink("x.new", folder.join("x.link")).unwrap();
        let target = folder.join("x.fits");
        let (found, more) = beside(&target, since_ns);
        let names: Vec<String> = found.iter().map(|(name, _)| name.to_display()).collect();
        assert_eq!((names.join(" ").as_str(), more), ("x.new x.renamed", false));
        assert_eq!(found[0].1.bytes, 5);
        (0..BESIDE_MAX).for_each(|number| write(&format!("x.{number}")));
        let (found, more) = beside(&target, since_ns);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!((found.len(), more), (BESIDE_MAX, true));
        assert_eq!(beside(&target, since_ns), (Vec::new(), false), "its folder is gone");
    }
}
