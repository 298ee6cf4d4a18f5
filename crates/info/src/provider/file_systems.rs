//! File systems: those that keep data, or those of the folders that are to be watched; and those of folders that a user
//! has named. statvfs waits for a server that is silent.
//!
//! The table of mounts says of which kind they are. In a chroot it may have no line of `/`: there, the number that
//! statfs(2) gives for the kind says it. That is not asked elsewhere, since it does not tell kinds of fuse apart, nor
//! ext2, ext3 and ext4.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{INSTANCES_MAX, Moment, Provider, Reading, Root};
use crate::mounts::{device_of, mounts};
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

/// Kinds by their numbers (linux/magic.h, statfs(2)): those on which a chroot may be.
const NUMBERED: &[(u32, &str)] = &[
    (0x0000_6969, "nfs"),
    (0x0000_ef53, "ext4"),
    (0x00c3_6400, "ceph"),
    (0x0102_1994, "tmpfs"),
    (0x0bd0_0bd0, "lustre"),
    (0x2fc1_2fc1, "zfs"),
    (0x4750_4653, "gpfs"),
    (0x5346_544e, "ntfs"),
    (0x5846_5342, "xfs"),
    (0x6573_5546, "fuse"),
    (0x7371_7368, "squashfs"),
    (0x794c_7630, "overlay"),
    (0x8584_58f6, "ramfs"),
    (0x9123_683e, "btrfs"),
    (0xca45_1a4e, "bcachefs"),
    (0xf2f5_2010, "f2fs"),
    (0xff53_4d42, "cifs"),
];

/// The provider of values about file systems.
pub struct FileSystems {
    watched: Vec<String>,
    /// Returns the folders that have been named so far.
    named: Box<dyn Fn() -> Vec<String> + Send>,
}

impl FileSystems {
    /// Watches the file systems of these absolute folders; if there are none, all file systems that keep data, each
    /// once.
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
            kept(root, &mounts)
        } else {
            self.watched.iter().map(|path| (path.clone(), kind_of(root, path, &mounts))).collect()
        };
        let mut chosen: Vec<(String, String)> = chosen.into_iter().take(INSTANCES_MAX).collect();
        for path in (self.named)().into_iter().filter(|path| path.starts_with('/')) {
            if chosen.iter().all(|(known, _)| *known != path) {
                let kind = kind_of(root, &path, &mounts);
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
        _ if kind.is_empty() => Value::undefined("its kind is not known here"),
        _ => Value::text(kind),
    };
    [
        Reading::of("fs_type", path, kind),
        Reading::of("fs_size", path, value(found.and_then(|found| bytes(found.f_blocks)))),
        Reading::of("fs_free", path, value(found.and_then(|found| bytes(found.f_bavail)))),
        Reading::of("fs_inodes_free", path, value(inodes)),
    ]
}

/// The file systems that keep data; of several places of one device the shortest.
fn kept(root: &Root, mounts: &BTreeMap<String, Mount>) -> Vec<(String, String)> {
    let unlisted = (!mounts.contains_key("/")).then(|| Mount {
        device: device_of(&root.path("/")),
        point: "/".to_owned(),
        kind: kind_by_number(root, "/").to_owned(),
    });
    let mut mounts: Vec<&Mount> = unlisted
        .iter()
        .chain(mounts.values())
        .filter(|mount| !PSEUDO.contains(&mount.kind.as_str()))
        .collect();
    mounts.sort_by_key(|mount| (mount.point.len(), mount.point.clone()));
    let mut devices = BTreeSet::new();
    mounts.retain(|mount| devices.insert(mount.device.clone()));
    mounts.into_iter().map(|mount| (mount.point.clone(), mount.kind.clone())).collect()
}

/// The kind of the file system that a folder is on; empty if nothing says it.
fn kind_of(root: &Root, path: &str, mounts: &BTreeMap<String, Mount>) -> String {
    let found = Path::new(path).ancestors().find_map(|above| mounts.get(above.to_str()?));
    found.map_or_else(|| kind_by_number(root, path).to_owned(), |mount| mount.kind.clone())
}

/// The same as statfs(2) has it.
pub(super) fn kind_by_number(root: &Root, path: &str) -> &'static str {
    let Ok(found) = rustix::fs::statfs(root.path(path)) else { return "" };
    let known = |(number, _): &&(u32, _)| i64::from(*number) == found.f_type & 0xffff_ffff;
    NUMBERED.iter().find(known).map_or("", |(_, kind)| kind)
}
