//! Where the limits of this process's control groups stand, of version 1 and 2, and of those above them.
//!
//! It finds files, as far as they are mounted here; the caller reads them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::mounts::mounts;

/// What is looked for.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// Name of the controller.
    pub controller: &'static str,
    /// The file in version 2.
    pub v2: &'static str,
    /// The file in version 1.
    pub v1: &'static str,
}

/// The files that may limit this process, its own group's first; below the folder `root`, which is `/` but in tests.
pub fn files_of(limit: &Limit, root: &Path) -> Vec<PathBuf> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mounts = fs::read(root.join("proc/self/mountinfo")).unwrap_or_default();
    let files = found(limit, &groups, &mounts);
    files.iter().map(|file| root.join(file.strip_prefix("/").unwrap_or(file))).collect()
}

/// The folder of this process's own group of version 2; below the folder `root`, which is `/` but in tests.
pub fn own(root: &Path) -> Option<PathBuf> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mounts = fs::read(root.join("proc/self/mountinfo")).ok()?;
    let group = Path::new(groups.lines().find_map(|line| line.strip_prefix("0::"))?);
    let (top, point) = mounted(&mounts, "cgroup2", "")?;
    let inside = group.strip_prefix(top).ok()?;
    let point = point.strip_prefix("/").unwrap_or(&point);
    Some(root.join(point).join(inside))
}

fn found(limit: &Limit, groups: &str, mounts: &[u8]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let (version, name) = if controllers.is_empty() {
            ("cgroup2", limit.v2)
        } else if controllers.split(',').any(|controller| controller == limit.controller) {
            ("cgroup", limit.v1)
        } else {
            continue;
        };
        let Some((root, point)) = mounted(mounts, version, limit.controller) else { continue };
        // What is mounted may begin below the whole tree (containers).
        let inside = Path::new(group).strip_prefix(root).unwrap_or(Path::new(""));
        let folders = inside.ancestors().map(|folder| point.join(folder).join(name));
        files.extend(folders);
    }
    files
}

/// Which part of the tree is mounted where: of version 2, or of version 1 with this controller.
fn mounted(table: &[u8], version: &str, controller: &str) -> Option<(PathBuf, PathBuf)> {
    let found = mounts(table).find(|mount| {
        let mut options = mount.options.split(|byte| *byte == b',');
        let has_it = version == "cgroup2" || options.any(|it| it == controller.as_bytes());
        mount.kind == version.as_bytes() && has_it
    })?;
    Some((found.root, found.point))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit =
        Limit { controller: "memory", v2: "memory.max", v1: "memory.limit_in_bytes" };
    const MOUNTS: &[u8] = b"\
25 30 0:23 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
36 31 0:33 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct
39 31 0:36 / /sys/fs/cgroup/memory rw,nosuid shared:20 - cgroup cgroup rw,memory
";

    #[test]
    fn limits_are_looked_for_in_the_own_groups_and_all_above_them() {
        let files =
            found(&LIMIT, "5:memory:/tb/host1\n1:cpu,cpuacct:/tb/host1\n0::/user/a\n", MOUNTS);
        let expected = [
            "/sys/fs/cgroup/memory/tb/host1/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/tb/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/unified/user/a/memory.max",
            "/sys/fs/cgroup/unified/user/memory.max",
            "/sys/fs/cgroup/unified/memory.max",
        ];
        assert_eq!(files, expected.map(PathBuf::from));
    }

    #[test]
    fn a_tree_that_is_mounted_from_the_own_group_on_is_not_looked_for_twice() {
        let mounts = b"30 29 0:26 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        let files = found(&LIMIT, "0::/docker/x/job\n", mounts);
        assert_eq!(
            files,
            ["/sys/fs/cgroup/job/memory.max", "/sys/fs/cgroup/memory.max"].map(PathBuf::from)
        );
    }
}
