//! Secondary files: what was written beside a target, looked for in folders.
//!
//! Names come first, and only what fits is looked at, since a folder may hold the targets of
//! thousands of tasks. Which names fit, and whose such files are, `rakuda_core::files` decides
//! (docs/design/staging.md).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rakuda_core::files::{GUESSED_MAX, MATCHES_MAX, Matching, begins_as, is_left_over};
use rakuda_proto::Text;
use rakuda_proto::cluster::SecondarySearch;
use rakuda_proto::file_time::{changed_ns, modified_ns};
use rakuda_proto::files::FileVersion;

use crate::{operations, stamps};

/// Files of one folder, by name.
pub type Found = Vec<(Text, FileVersion)>;

/// What a search beside `target` finds; relative folders start at `base`. The flag: there is more than may be reported.
pub fn find(base: &Path, target: &Path, search: &SecondarySearch) -> (Found, bool) {
    match search {
        SecondarySearch::LikeTarget { since_ns } => {
            let (Some(folder), Some(name)) = (target.parent(), target.file_name()) else {
                return (Vec::new(), false);
            };
            let since_ns = stamps::least_since_ns(*since_ns).into();
            let own = name.as_bytes();
            let fits = |other: &[u8]| other != own && begins_as(own, other);
            let is_new = |found: &std::fs::Metadata| {
                !found.file_type().is_symlink() && changed_ns(found) >= since_ns
            };
            look_at(folder, names_that(folder, fits), GUESSED_MAX, is_new)
        }
        SecondarySearch::Matching { folder, prefix, glob } => {
            let folder = base.join(folder.as_path());
            let (prefix, glob) = (prefix.0.clone(), glob.0.clone());
            let matching = Matching { folder: Vec::new(), prefix, glob };
            let only = matching.only().map(|name| [Text(name)].into());
            let names = only.unwrap_or_else(|| names_that(&folder, |name| matching.has(name)));
            look_at(&folder, names, MATCHES_MAX, |_| true)
        }
    }
}

/// Names of a folder that fit, but for what failed attempts have left. A folder that cannot be read has none.
fn names_that(folder: &Path, fits: impl Fn(&[u8]) -> bool) -> Vec<Text> {
    operations::count(folder, 1);
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let names = entries.filter_map(Result::ok).map(|entry| entry.file_name());
    let names = names.filter(|name| fits(name.as_bytes()) && !is_left_over(name.as_bytes()));
    let mut names: Vec<_> = names.map(|name| Text(name.as_bytes().to_vec())).collect();
    names.sort_unstable();
    names
}

/// The ordinary files among these names, with their states.
fn look_at(
    folder: &Path,
    names: Vec<Text>,
    most: usize,
    counts: impl Fn(&std::fs::Metadata) -> bool,
) -> (Found, bool) {
    let mut found = names.into_iter().filter_map(|name| {
        operations::count(folder, 1);
        let path = folder.join(OsStr::from_bytes(&name.0));
        let link = std::fs::symlink_metadata(&path).ok().filter(&counts)?;
        let file =
            if link.file_type().is_symlink() { std::fs::metadata(&path).ok()? } else { link };
        let version = FileVersion { bytes: file.len(), modified_ns: modified_ns(&file) };
        file.is_file().then_some((name, version))
    });
    let told = found.by_ref().take(most).collect();
    (told, found.next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    fn names(found: &Found) -> String {
        found.iter().map(|(name, _)| name.to_display()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn only_ordinary_files_changed_since_count_and_no_more_than_the_bound() {
        let folder = std::env::temp_dir().join(format!("rakuda-beside-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("x.folder")).unwrap();
        let write = |name: &str| std::fs::write(folder.join(name), name).unwrap();
        write("x.old");
        write("x.renamed.before");
        // Stamps are some ms coarse, and a moment takes in what was stamped just before it.
        let before = clock::file_ns();
        while clock::file_ns() < before + 100_000_000 {
            std::hint::spin_loop();
        }
        let since_ns = stamps::moment_ns();
        let guess = SecondarySearch::LikeTarget { since_ns };
        ["x.new", "x.fits", "x.fits._fail_", "y.new"].into_iter().for_each(write);
        std::fs::rename(folder.join("x.renamed.before"), folder.join("x.renamed")).unwrap();
        std::os::unix::fs::symlink("x.new", folder.join("x.link")).unwrap();
        let target = folder.join("x.fits");
        let look = |search: &SecondarySearch| find(&folder, &target, search);
        let (found, more) = look(&guess);
        assert_eq!((names(&found).as_str(), more), ("x.new x.renamed", false));
        assert_eq!(found[0].1.bytes, 5);
        let declared = |folder: &str, prefix: &str, glob: &str| {
            let [folder, prefix, glob] = [folder, prefix, glob].map(Text::from);
            let (found, _) = look(&SecondarySearch::Matching { folder, prefix, glob });
            names(&found)
        };
        let all = "x.fits x.link x.new x.old x.renamed";
        assert_eq!(declared("", "x", ".*"), all, "whenever they were written");
        assert_eq!(declared(".", "", "x.ne?"), "x.new");
        assert_eq!(declared("", "x.", "old"), "x.old");
        assert_eq!(declared("", "x.", "folder"), "");
        assert_eq!(declared("none", "", "x.*"), "");
        (0..GUESSED_MAX).for_each(|number| write(&format!("x.{number}")));
        let (found, more) = look(&guess);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!((found.len(), more), (GUESSED_MAX, true));
        assert_eq!(look(&guess), (Vec::new(), false), "its folder is gone");
    }
}
