//! File systems: those that keep data, or those of the folders that are to be watched; and those of folders that
//! somebody has named. statvfs waits for a server that is silent.

use std::collections::{BTreeMap, BTreeSet};

use super::{INSTANCES_MAX, Moment, Provider, Reading, Root};
use crate::mounts::mounts;
use crate::value::Value;

/// Kinds that keep nothing, or nothing of the user's.
const PSEUDO: &[&str] = &[
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "fuse.gvfsd-fuse",
    "fuse.portal",
    "hugetlbfs",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "ramfs",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "squashfs",
    "sysfs",
    "tmpfs",
    "tracefs",
];

/// Watches file systems.
pub struct FileSystems {
    watched: Vec<String>,
    /// Folders that have been named so far.
    named: Box<dyn Fn() -> Vec<String> + Send>,
}

impl FileSystems {
    /// Of these folders, absolute; none: of all file systems that keep data, each once.
    pub fn new(watched: Vec<String>) -> Self {
        Self { watched, named: Box::new(Vec::new) }
    }

    /// The same, and of the folders that `named` says at the time, absolute: whatever they are called, and whether they
    /// are there or not.
    #[must_use]
    pub fn with(self, named: impl Fn() -> Vec<String> + Send + 'static) -> Self {
        Self { named: Box::new(named), ..self }
    }
}

/// What is mounted, in words.
struct Mount {
    device: String,
    point: String,
    kind: String,
}

impl Provider for FileSystems {
    fn name(&self) -> &'static str {
        crate::catalogue::FILE_SYSTEMS
    }

    fn sample(&mut self, root: &Root, _at: Moment) -> Vec<Reading> {
        let table = std::fs::read(root.path("/proc/self/mountinfo")).unwrap_or_default();
        // What is mounted later lies over what was mounted there before.
        let mounts = mounts(&table).filter(|mount| !mount.kind.is_empty()).map(|mount| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let point = mount.point.to_string_lossy().into_owned();
            (point.clone(), Mount { device: text(mount.device), point, kind: text(mount.kind) })
        });
        let mounts: BTreeMap<String, Mount> = mounts.collect();
        let chosen: Vec<(String, String)> = if self.watched.is_empty() {
            kept(&mounts)
        } else {
            self.watched.iter().map(|path| (path.clone(), kind_of(path, &mounts))).collect()
        };
        let mut chosen: Vec<(String, String)> = chosen.into_iter().take(INSTANCES_MAX).collect();
        for path in (self.named)().into_iter().filter(|path| path.starts_with('/')) {
            if chosen.iter().all(|(known, _)| *known != path) {
                let kind = kind_of(&path, &mounts);
                chosen.push((path, kind));
            }
        }
        chosen.iter().flat_map(|(path, kind)| readings(root, path, kind)).collect()
    }
}

fn readings(root: &Root, path: &str, kind: &str) -> [Reading; 4] {
    let found_or_why = rustix::fs::statvfs(root.path(path));
    let value = |number: Option<u64>| match (&found_or_why, number) {
        (Ok(_), Some(number)) => Value::count(number),
        (Ok(_), None) => Value::undefined("it does not count them"),
        (Err(error), _) => Value::undefined(format!("{path}: {}", super::plain(&(*error).into()))),
    };
    let found = found_or_why.as_ref().ok();
    let bytes = |blocks: u64| found.map(|found| blocks.saturating_mul(found.f_frsize));
    let inodes = found.filter(|found| found.f_files > 0).map(|found| found.f_favail);
    // By its kind one sees whether there is such a folder at all.
    let kind = match &found_or_why {
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => value(None),
        _ if kind.is_empty() => Value::undefined("it is not mounted"),
        _ => Value::text(kind),
    };
    [
        Reading::of("fs_type", path, kind),
        Reading::of("fs_size", path, value(found.and_then(|found| bytes(found.f_blocks)))),
        Reading::of("fs_free", path, value(found.and_then(|found| bytes(found.f_bavail)))),
        Reading::of("fs_inodes_free", path, value(inodes)),
    ]
}

/// Those that keep data; of several places of one device the shortest.
fn kept(mounts: &BTreeMap<String, Mount>) -> Vec<(String, String)> {
    let mut mounts: Vec<&Mount> =
        mounts.values().filter(|mount| !PSEUDO.contains(&mount.kind.as_str())).collect();
    mounts.sort_by_key(|mount| (mount.point.len(), mount.point.clone()));
    let mut devices = BTreeSet::new();
    mounts.retain(|mount| devices.insert(mount.device.clone()));
    mounts.into_iter().map(|mount| (mount.point.clone(), mount.kind.clone())).collect()
}

/// The kind of the file system that a folder is on.
fn kind_of(path: &str, mounts: &BTreeMap<String, Mount>) -> String {
    let folder = std::path::Path::new(path);
    let found = folder.ancestors().find_map(|above| mounts.get(above.to_str()?));
    found.map_or_else(String::new, |mount| mount.kind.clone())
}
