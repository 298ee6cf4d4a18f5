//! A control group (version 2) for each command whose memory is bounded: the kernel counts all that its processes have,
//! and kills all of them when they want more.
//!
//! Groups can be made where the run's own group was handed to its user (delegation: a writable folder, with the
//! controller of memory). A group whose children are bounded has no processes of its own. So those of the run's group
//! go into `rakuda/run` below it and stay there, beside a group for each command; another run there finds it so. Where
//! processes of others would have to move, it does nothing. The root of the tree needs no move.
//!
//! It knows no tasks, and starts no process: a new process writes itself into the group.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::path::{Path, PathBuf};

use rakuda_info::control_groups;
use rakuda_proto::agent::CommandId;

use crate::trees;

/// What Rakuda makes below the group that it was started in.
const FOLDER: &str = "rakuda";
/// Where the processes go that were in that group.
const RUN: &str = "run";
/// Maximum looks at a group whose processes start others while they are moved.
const LOOKS_MAX: usize = 100;

/// Why commands have no control groups; fits after "by looking at it: ".
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoGroups {
    /// Version 1, or no file system of control groups.
    #[error("there are no control groups of version 2 here")]
    NotThere,
    /// It is with version 1, or no group above passes it on.
    #[error("no controller of memory in {0:?}")]
    NoController(PathBuf),
    /// Not delegated, mostly.
    #[error("{path:?}: {source}")]
    Refused {
        /// What was to be made or written.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A login's, for example.
    #[error("other processes than this run's are in {0:?}")]
    Shared(PathBuf),
}

/// The folder in which groups are made.
#[derive(Debug)]
pub(crate) struct MemoryGroups {
    folder: PathBuf,
    /// Of commands that are over, while something in them was not.
    left: Vec<PathBuf>,
}

/// The group of one command.
#[derive(Debug)]
pub(crate) struct MemoryGroup {
    path: PathBuf,
    /// Its list of processes. A process joins by writing 0.
    processes: File,
}

impl MemoryGroups {
    /// Prepares the folder, below the root folder `root` (`/` but in tests).
    pub fn prepare(root: &Path) -> Result<Self, NoGroups> {
        let own = control_groups::own(root).ok_or(NoGroups::NotThere)?;
        let folder = if own.ends_with(Path::new(FOLDER).join(RUN)) {
            // Another run has been here.
            own.parent().unwrap_or(&own).to_path_buf()
        } else {
            own.join(FOLDER)
        };
        if !has_memory(&own.join("cgroup.controllers")) {
            return Err(NoGroups::NoController(own));
        }
        make(&folder)?;
        if !has_memory(&folder.join("cgroup.controllers")) {
            // Only the root of the whole tree has no type; it may have processes and children with controllers.
            if own.join("cgroup.type").exists() {
                move_processes(&own, &folder)?;
            }
            write(&own.join("cgroup.subtree_control"), "+memory")?;
        }
        write(&folder.join("cgroup.subtree_control"), "+memory")?;
        let groups = Self { folder, left: Vec::new() };
        groups.remove_stale();
        Ok(groups)
    }

    /// A group for a command, which may have `bytes_max` of memory.
    pub fn make(&mut self, command: CommandId, bytes_max: u64) -> Result<MemoryGroup, NoGroups> {
        self.remove_left();
        let path = self.folder.join(format!("{}-{}", std::process::id(), command.0));
        make(&path)?;
        let processes = bound(&path, bytes_max).inspect_err(|_| drop(fs::remove_dir(&path)))?;
        Ok(MemoryGroup { path, processes })
    }

    /// A command is over. What it has left behind keeps its group, and its bound.
    pub fn give_back(&mut self, group: MemoryGroup) {
        self.left.push(group.path);
        self.remove_left();
    }

    fn remove_left(&mut self) {
        self.left.retain(|path| {
            fs::remove_dir(path).is_err_and(|error| error.kind() != io::ErrorKind::NotFound)
        });
    }

    /// Those of agents that were killed.
    fn remove_stale(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let agent = name.to_str().and_then(|name| name.split_once('-')).map(|(agent, _)| agent);
            if agent.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
                // One that still has processes stays.
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

impl Drop for MemoryGroups {
    fn drop(&mut self) {
        self.remove_left();
        // The root's; elsewhere this run's processes are in it.
        let _ = fs::remove_dir(&self.folder);
    }
}

impl MemoryGroup {
    /// A process that writes 0 there joins the group.
    pub fn door(&self) -> RawFd {
        self.processes.as_raw_fd()
    }

    /// The most that its processes had together, when the kernel killed them because they wanted more than the bound.
    pub fn exceeded(&self) -> Option<u64> {
        let events = fs::read_to_string(self.path.join("memory.events")).ok()?;
        // The kernel kills also where a group above has its bound, or the machine; then `oom` is of that one.
        (count(&events, "oom") > 0 && count(&events, "oom_kill") > 0).then(|| {
            // Linux 5.19 and later tell the peak.
            let number = |name| fs::read_to_string(self.path.join(name)).ok()?.trim().parse().ok();
            number("memory.peak").or_else(|| number("memory.max")).unwrap_or(0)
        })
    }
}

/// Writes the bounds of a new group, and opens it for its first process.
fn bound(group: &Path, bytes_max: u64) -> Result<File, NoGroups> {
    write(&group.join("memory.max"), &bytes_max.to_string())?;
    write(&group.join("memory.oom.group"), "1")?;
    // Where there is swap, a command would go on there instead. Kernels without it have no such file.
    let _ = write(&group.join("memory.swap.max"), "0");
    let path = group.join("cgroup.procs");
    let opened = OpenOptions::new().write(true).open(&path);
    opened.map_err(|source| NoGroups::Refused { path, source })
}

fn make(folder: &Path) -> Result<(), NoGroups> {
    match fs::create_dir(folder) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
            Err(NoGroups::Refused { path: folder.to_path_buf(), source })
        }
        _ => Ok(()),
    }
}

fn write(path: &Path, text: &str) -> Result<(), NoGroups> {
    let written = OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|source| NoGroups::Refused { path: path.to_path_buf(), source })
}

fn has_memory(controllers: &Path) -> bool {
    fs::read_to_string(controllers)
        .is_ok_and(|text| text.split_ascii_whitespace().any(|name| name == "memory"))
}

/// Moves all processes of the group `own` into the one for them below `folder`, if all are this run's or stand below
/// what has started it.
fn move_processes(own: &Path, folder: &Path) -> Result<(), NoGroups> {
    let run = folder.join(RUN);
    make(&run)?;
    let list = own.join("cgroup.procs");
    for _ in 0..LOOKS_MAX {
        let text = fs::read_to_string(&list)
            .map_err(|source| NoGroups::Refused { path: list.clone(), source })?;
        // A process of another namespace is 0, and stands below none.
        let ids: Vec<i32> = text.lines().map(|line| line.parse().unwrap_or(0)).collect();
        if ids.is_empty() {
            return Ok(());
        }
        if !trees::are_one_family(&ids) {
            return Err(NoGroups::Shared(own.to_path_buf()));
        }
        let door = run.join("cgroup.procs");
        for id in ids {
            match write(&door, &id.to_string()) {
                // It has ended meanwhile.
                Err(NoGroups::Refused { source, .. })
                    if source.raw_os_error() == Some(libc::ESRCH) => {}
                moved => moved?,
            }
        }
    }
    Err(NoGroups::Shared(own.to_path_buf()))
}

/// A number of `memory.events`.
fn count(events: &str, name: &str) -> u64 {
    let line = events.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that looks like the root of a file system whose own control group is `/a`. What the kernel makes in a
    /// new group is made here.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str, controllers: &str) -> Self {
            let root = std::env::temp_dir().join(format!("rakuda-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&root);
            let files = [
                ("proc/self/cgroup", "3:cpu:/b\n0::/a\n"),
                ("proc/self/mountinfo", "25 30 0:23 / /groups rw - cgroup2 none rw\n"),
                ("groups/a/cgroup.controllers", controllers),
                ("groups/a/cgroup.subtree_control", ""),
                ("groups/a/rakuda/cgroup.controllers", controllers),
                ("groups/a/rakuda/cgroup.subtree_control", ""),
            ];
            for (name, text) in files {
                fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
                fs::write(root.join(name), text).unwrap();
            }
            Self(root)
        }

        fn group_of(&self, command: u32, files: &[(&str, &str)]) -> PathBuf {
            let name = format!("groups/a/rakuda/{}-{command}", std::process::id());
            let group = self.0.join(name);
            fs::create_dir_all(&group).unwrap();
            for (name, text) in files {
                fs::write(group.join(name), text).unwrap();
            }
            group
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_group_is_bounded_before_its_first_process() {
        let tree = Tree::new("bounded", "cpu memory pids\n");
        let files = [("memory.max", ""), ("memory.oom.group", ""), ("cgroup.procs", "")];
        let group = tree.group_of(7, &files);
        let mut groups = MemoryGroups::prepare(&tree.0).unwrap();
        let made = groups.make(CommandId(7), 80 << 20).unwrap();
        assert!(made.door() > 2);
        let read = |name: &str| fs::read_to_string(group.join(name)).unwrap();
        assert_eq!((read("memory.max"), read("memory.oom.group")), ("83886080".into(), "1".into()));
        let control = tree.0.join("groups/a/rakuda/cgroup.subtree_control");
        assert_eq!(fs::read_to_string(control).unwrap(), "+memory");
    }

    #[test]
    fn who_was_killed_for_another_bound_has_not_exceeded_its_own() {
        let tree = Tree::new("killed", "memory\n");
        let exceeded = |events: &str| {
            let files = [("memory.events", events), ("memory.max", "100"), ("cgroup.procs", "")];
            let path = tree.group_of(1, &files);
            let processes = File::open(path.join("cgroup.procs")).unwrap();
            MemoryGroup { path, processes }.exceeded()
        };
        assert_eq!(exceeded("max 9\noom 1\noom_kill 2\noom_group_kill 1\n"), Some(100));
        assert_eq!(exceeded("max 0\noom 0\noom_kill 2\n"), None);
        assert_eq!(exceeded("max 9\noom 1\noom_kill 0\n"), None);
    }

    #[test]
    fn it_is_said_why_there_are_no_groups() {
        let tree = Tree::new("none", "cpu pids\n");
        let why = || MemoryGroups::prepare(&tree.0).unwrap_err().to_string();
        assert!(why().starts_with("no controller of memory in "), "{}", why());
        fs::write(tree.0.join("proc/self/cgroup"), "4:memory:/b\n").unwrap();
        assert_eq!(why(), "there are no control groups of version 2 here");
    }

    #[test]
    fn processes_of_others_are_not_moved() {
        let tree = Tree::new("others", "memory\n");
        fs::write(tree.0.join("groups/a/rakuda/cgroup.controllers"), "").unwrap();
        fs::write(tree.0.join("groups/a/cgroup.type"), "domain\n").unwrap();
        fs::write(tree.0.join("groups/a/cgroup.procs"), format!("{}\n0\n", std::process::id()))
            .unwrap();
        let why = MemoryGroups::prepare(&tree.0).unwrap_err();
        assert!(matches!(why, NoGroups::Shared(_)), "{why}");
    }
}
