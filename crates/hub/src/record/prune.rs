//! Which runs are removed when one ends: the oldest, beyond a number of runs, and while all together take too much.
//! Never the run that ends, and none that lives or has not been recovered.
//!
//! Of a run in a folder of the user's choice only the link is removed. What is kept of a removed
//! run is `condense`'s to say.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::condense::condense;
use super::lock;

/// How much is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub runs: usize,
    pub bytes: u64,
}

/// Removes what is too much, unless another run does, after its last records have gone into `history.jsonl`.
pub(super) fn prune(root: &Path, own: &str, limits: Limits) -> io::Result<()> {
    if victims(root, own, limits)?.is_empty() {
        return Ok(());
    }
    // What runs do that end at the same time need not be done twice.
    let Some(_alone) = lock::try_for(&root.join("history.lock"))? else { return Ok(()) };
    let removed = victims(root, own, limits)?;
    if removed.is_empty() {
        return Ok(());
    }
    let journals: Vec<PathBuf> =
        removed.iter().map(|folder| folder.join("journal.jsonl")).collect();
    condense(&root.join("history.jsonl"), &journals)?;
    for folder in removed {
        if folder.is_symlink() {
            fs::remove_file(folder)?;
        } else {
            fs::remove_dir_all(folder)?;
        }
    }
    Ok(())
}

/// The folders that have to go, oldest first; names of runs sort by time.
fn victims(root: &Path, own: &str, limits: Limits) -> io::Result<Vec<PathBuf>> {
    let runs = root.join("runs");
    let entries = fs::read_dir(&runs)?.collect::<Result<Vec<_>, _>>()?;
    let mut names: Vec<_> =
        entries.iter().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    let sizes: Vec<u64> = names.iter().map(|name| size_of_run(&runs.join(name))).collect();
    let (mut left, mut bytes) = (names.len(), sizes.iter().sum::<u64>());
    let mut removed = Vec::new();
    for (name, size) in names.iter().zip(sizes) {
        if left <= limits.runs && bytes <= limits.bytes {
            break;
        }
        let live = name == own || root.join("running").join(name).exists();
        // Removing what is only a link frees nothing.
        if live || (left <= limits.runs && size == 0) {
            continue;
        }
        left -= 1;
        bytes -= size;
        removed.push(runs.join(name));
    }
    Ok(removed)
}

/// Bytes of a run's files; of a link, none.
fn size_of_run(folder: &Path) -> u64 {
    if folder.is_symlink() {
        return 0;
    }
    let size = |name: &str| fs::metadata(folder.join(name)).map_or(0, |file| file.len());
    size("journal.jsonl") + size("output.log")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TestRecords(PathBuf);

    impl TestRecords {
        fn new(name: &str) -> Self {
            let root = std::env::temp_dir().join(format!("rakuda-{name}-{}", std::process::id()));
            fs::create_dir_all(root.join("runs")).unwrap();
            fs::create_dir_all(root.join("running")).unwrap();
            Self(root)
        }

        fn run(&self, name: &str, bytes: usize) {
            let folder = self.0.join("runs").join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("journal.jsonl"), vec![b'\n'; bytes]).unwrap();
        }

        fn left(&self) -> String {
            let entries = fs::read_dir(self.0.join("runs")).unwrap();
            let mut names: Vec<_> = entries
                .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
                .collect();
            names.sort();
            names.join(" ")
        }
    }

    impl Drop for TestRecords {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn the_newest_are_kept_and_those_that_live() {
        let place = TestRecords::new("prune-count");
        for name in ["a", "b", "c", "d", "e"] {
            place.run(name, 10);
        }
        fs::write(place.0.join("running/b"), "").unwrap();
        prune(&place.0, "e", Limits { runs: 2, bytes: 1000 }).unwrap();
        assert_eq!(place.left(), "b e", "b lives and counts, so d had to go");
        prune(&place.0, "e", Limits { runs: 0, bytes: 1000 }).unwrap();
        assert_eq!(place.left(), "b e", "neither a live run nor the one that ends");
    }

    #[test]
    fn the_oldest_go_while_all_take_too_much() {
        let place = TestRecords::new("prune-bytes");
        for (name, bytes) in [("a", 50), ("b", 10), ("c", 60), ("d", 30)] {
            place.run(name, bytes);
        }
        prune(&place.0, "d", Limits { runs: 100, bytes: 100 }).unwrap();
        assert_eq!(place.left(), "b c d");
        prune(&place.0, "d", Limits { runs: 100, bytes: 1 }).unwrap();
        assert_eq!(place.left(), "d");
    }

    #[test]
    fn only_one_of_those_that_end_prunes() {
        let place = TestRecords::new("prune-once");
        for name in ["a", "b"] {
            place.run(name, 10);
        }
        let other = lock::try_for(&place.0.join("history.lock")).unwrap().unwrap();
        prune(&place.0, "b", Limits { runs: 1, bytes: 100 }).unwrap();
        assert_eq!(place.left(), "a b");
        drop(other);
        prune(&place.0, "b", Limits { runs: 1, bytes: 100 }).unwrap();
        assert_eq!(place.left(), "b");
    }

    #[test]
    fn a_folder_of_the_users_choice_stays() {
        let place = TestRecords::new("prune-link");
        fs::create_dir(place.0.join("mine")).unwrap();
        fs::write(place.0.join("mine/journal.jsonl"), "").unwrap();
        std::os::unix::fs::symlink(place.0.join("mine"), place.0.join("runs/a")).unwrap();
        place.run("b", 1);
        prune(&place.0, "b", Limits { runs: 1, bytes: 100 }).unwrap();
        assert_eq!(place.left(), "b");
        assert!(place.0.join("mine/journal.jsonl").exists());
    }
}
