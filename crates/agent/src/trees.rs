//! Trees of processes, and their end: whatever stands below a process is found by its parents, not
//! by what it says of itself, and is stopped before it is killed, so that nothing can start another
//! one in between.
//!
//! Linux hands a process whose parent died to its nearest *child subreaper*. So below one stands
//! all that was ever started there, whatever its group, session, environment or title.
#![allow(unsafe_code, reason = "kill has no safe wrapper for this")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::{clock, processes};

/// Timeout for processes that do not end after SIGKILL because they wait for a device or a file server.
const PATIENCE_NS: u64 = if cfg!(test) { 60_000_000_000 } else { 10_000_000_000 };
/// Timeout for a process that is just executing another program. That takes less than a ms of a processor, which one of
/// the lowest priority may wait for.
const EXECUTION_NS: u64 = if cfg!(test) { 60_000_000_000 } else { 1_000_000_000 };
/// Fields of `/proc/PID/stat` between the parent and the number of threads.
const THREADS_AFTER_PARENT: usize = 15;
/// Fields between that and the virtual memory, behind which the resident set is.
const VIRTUAL_AFTER_THREADS: usize = 2;
/// Fields between that and the end of the environment.
const ENVIRONMENT_AFTER_RESIDENT: usize = 26;
/// Time between two looks at processes that are about to end.
const STEP: Duration = Duration::from_millis(1);

/// Kills all processes below this one but `spared`, and returns how many there were. What is below
/// a spared one goes, too. When it returns they are gone or have left nothing but their status, but
/// for those that hang in the kernel or belong to another user.
pub fn kill_all_below(spared: &[i32]) -> usize {
    let own = own_id();
    kill_all(&|table| {
        let mut found = table.below(own);
        found.retain(|id| !spared.contains(id));
        found
    })
}

/// Kills a process and all below it. They are stopped first, so none starts another meanwhile; their ends are
/// not waited for. The number has to be that of a process whose status nobody takes meanwhile.
pub fn kill_tree(root: i32) {
    let select = |table: &Table| {
        let mut found = table.below(root);
        found.push(root);
        found.retain(|id| table.stats.get(id).is_some_and(|stat| !stat.is_over));
        found
    };
    let mut hunt = Hunt { select: &select, beyond: BTreeSet::new(), killed: BTreeSet::new() };
    for id in hunt.freeze() {
        signal(id, libc::SIGKILL);
    }
}

/// Whether this process is among these, and all of them stand below one of them, or are it. That one has started this
/// process, or what has.
pub(crate) fn are_one_family(ids: &[i32]) -> bool {
    Table::read().is_family_of(own_id(), ids)
}

/// Kills all processes in whose environment the variable `name` has one of `values`, and all below them, and returns
/// how many there were. Only what was started with such a variable has it, so nothing else is met; what has another
/// environment is not found.
pub fn kill_all_with(name: &str, values: &BTreeSet<Vec<u8>>) -> usize {
    let own = own_id();
    kill_all(&|table| {
        let has = |id: &i32| variable_of(*id, name).is_some_and(|value| values.contains(&value));
        let roots: Vec<i32> = table.stats.keys().filter(|id| has(id)).copied().collect();
        let below = roots.iter().flat_map(|id| table.below(*id));
        let mut found: BTreeSet<i32> = roots.iter().copied().chain(below).collect();
        found.retain(|id| *id != own && !table.stats[id].is_over);
        found.into_iter().collect()
    })
}

/// What a process was started with. `None`: that is not known, or another user's.
fn variable_of(id: i32, name: &str) -> Option<Vec<u8>> {
    let environment = environment_of(id)?;
    let mut values = environment.split(|byte| *byte == 0).filter_map(|variable| {
        variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(<[u8]>::to_vec)
    });
    values.next()
}

/// What a process was started with. `None`: that is not known, or another user's. The kernel shows nothing of one that
/// is executing a program until it is done with that, so such a process is waited for.
pub(crate) fn environment_of(id: i32) -> Option<Vec<u8>> {
    let until_ns = clock::monotonic_ns() + EXECUTION_NS;
    loop {
        let environment = std::fs::read(format!("/proc/{id}/environ")).ok()?;
        let is_shown = !environment.is_empty() || !Stat::read(id)?.is_executing;
        if is_shown || clock::monotonic_ns() >= until_ns {
            return Some(environment);
        }
        pause();
    }
}

/// All processes below this one.
pub fn all_below() -> Vec<i32> {
    // On a machine with thousands of processes the table takes a tenth of a second.
    if has_no_children() == Some(true) {
        return Vec::new();
    }
    Table::read().below(own_id())
}

/// `None`: this kernel does not tell.
fn has_no_children() -> Option<bool> {
    for thread in std::fs::read_dir("/proc/self/task").ok()? {
        let children = std::fs::read(thread.ok()?.path().join("children")).ok()?;
        if !children.is_empty() {
            return Some(false);
        }
    }
    Some(true)
}

fn own_id() -> i32 {
    i32::try_from(std::process::id()).unwrap_or(0)
}

/// Kills all that `select` finds, until it finds nothing any more, and returns how many there were.
fn kill_all(select: &dyn Fn(&Table) -> Vec<i32>) -> usize {
    let mut hunt = Hunt { select, beyond: BTreeSet::new(), killed: BTreeSet::new() };
    let until_ns = clock::monotonic_ns() + PATIENCE_NS;
    // Twice nothing: a process may be missed while its parent ends.
    while !(hunt.wanted().is_empty() && hunt.wanted().is_empty())
        && clock::monotonic_ns() < until_ns
    {
        let frozen = hunt.freeze();
        for part in in_turn(&frozen) {
            for id in &part {
                signal(*id, libc::SIGKILL);
            }
            while part.iter().any(|id| !is_over(*id)) && clock::monotonic_ns() < until_ns {
                pause();
            }
        }
        hunt.killed.extend(frozen);
    }
    hunt.killed.len()
}

/// This process's own children last: one of them is the hub, which ends what is left below it when this process is
/// killed in between.
fn in_turn(frozen: &BTreeSet<i32>) -> [BTreeSet<i32>; 2] {
    let own = own_id();
    let (children, others) =
        frozen.iter().partition(|id| Stat::read(**id).is_some_and(|stat| stat.parent == own));
    [others, children]
}

/// What is to be killed.
struct Hunt<'a> {
    select: &'a dyn Fn(&Table) -> Vec<i32>,
    /// Those that no signal of ours reaches: another user's.
    beyond: BTreeSet<i32>,
    killed: BTreeSet<i32>,
}

impl Hunt<'_> {
    fn wanted(&self) -> Vec<i32> {
        let mut found = (self.select)(&Table::read());
        found.retain(|id| !self.beyond.contains(id));
        found
    }

    /// Stops all, until nothing is found that runs. A process that has been sent SIGSTOP finishes no fork.
    fn freeze(&mut self) -> BTreeSet<i32> {
        let mut frozen = BTreeSet::new();
        loop {
            let mut fresh = self.wanted();
            fresh.retain(|id| !frozen.contains(id));
            if fresh.is_empty() {
                return frozen;
            }
            for id in fresh {
                if signal(id, libc::SIGSTOP) {
                    frozen.insert(id);
                } else {
                    self.beyond.insert(id);
                }
            }
        }
    }
}

/// Whether the process is gone, or only its status is left. That is for its parent to take, even where this process is
/// the parent: the code that watches a command here waits for it.
fn is_over(id: i32) -> bool {
    Stat::read(id).is_none_or(|stat| stat.is_over)
}

/// Whether it was there and could be sent.
fn signal(id: i32, signal: i32) -> bool {
    // SAFETY: plain system call.
    let sent = unsafe { libc::kill(id, signal) == 0 };
    sent || std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

#[allow(
    clippy::disallowed_methods,
    reason = "nothing tells when a process that is no child has ended"
)]
fn pause() {
    std::thread::sleep(STEP);
}

/// All processes of the machine, with their parents. Those that have ended and were not waited for are among them.
struct Table {
    stats: BTreeMap<i32, Stat>,
    children: BTreeMap<i32, Vec<i32>>,
}

impl Table {
    fn read() -> Self {
        let read = |id| Stat::read(id).map(|stat| (id, stat));
        let mut stats: BTreeMap<_, _> = processes::all_processes().filter_map(read).collect();
        // Whose parent ended after they were read and before it was: they have another one now.
        let orphans: Vec<_> = stats
            .iter()
            .filter(|(_, stat)| stats.get(&stat.parent).is_none_or(|parent| parent.is_over))
            .map(|(id, _)| *id)
            .collect();
        for id in orphans {
            match Stat::read(id) {
                Some(stat) => drop(stats.insert(id, stat)),
                None => drop(stats.remove(&id)),
            }
        }
        let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for (id, stat) in &stats {
            children.entry(stat.parent).or_default().push(*id);
        }
        Self { stats, children }
    }

    fn is_family_of(&self, own: i32, ids: &[i32]) -> bool {
        if !ids.contains(&own) {
            return false;
        }
        let parents = std::iter::successors(Some(own), |id| Some(self.stats.get(id)?.parent));
        // The farthest of them that is in the group; between it and this process others may be elsewhere.
        let first = parents.take_while(|id| *id > 0).filter(|id| ids.contains(id)).last();
        let Some(first) = first else { return false };
        let below = self.below(first);
        // One that has ended meanwhile is nobody's.
        let gone = |id: i32| id > 0 && self.stats.get(&id).is_none_or(|stat| stat.is_over);
        ids.iter().all(|id| *id == first || below.contains(id) || gone(*id))
    }

    /// All that stand below `root` and run, without it. A child of one that ends meanwhile may be
    /// missed: it is found the next time, below the subreaper.
    fn below(&self, root: i32) -> Vec<i32> {
        let mut found = Vec::new();
        let mut open = vec![root];
        while let Some(id) = open.pop() {
            let children = self.children.get(&id).map_or(&[][..], Vec::as_slice);
            found.extend_from_slice(children);
            open.extend_from_slice(children);
        }
        found.retain(|id| self.stats.get(id).is_some_and(|stat| !stat.is_over));
        found
    }
}

/// What all processes of the machine have resident.
pub(crate) struct ResidentSets(Table);

/// A process and all below it that run, with the pages that each has resident, by what the kernel tells of the children
/// of each: no other process is looked at. `None`: this kernel does not tell.
pub(crate) fn resident_tree(root: i32) -> Option<Vec<(i32, u64)>> {
    has_no_children()?;
    let (mut found, mut left) = (Vec::new(), vec![root]);
    while let Some(id) = left.pop() {
        if let Some(stat) = Stat::read(id) {
            found.push((id, stat.resident_pages));
            left.extend(children_of(id));
        }
    }
    Some(found)
}

/// Of all of its threads. Empty: it has gone.
fn children_of(id: i32) -> Vec<i32> {
    let threads = std::fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let texts = threads.filter_map(|it| std::fs::read_to_string(it.path().join("children")).ok());
    texts.flat_map(|text| ids_in(&text)).collect()
}

fn ids_in(text: &str) -> Vec<i32> {
    text.split_ascii_whitespace().filter_map(|id| id.parse().ok()).collect()
}

/// Looks at all processes.
pub(crate) fn resident_sets() -> ResidentSets {
    ResidentSets(Table::read())
}

impl ResidentSets {
    /// A process and all below it that run, with the pages that each has resident.
    pub fn tree(&self, root: i32) -> Vec<(i32, u64)> {
        let all = std::iter::once(root).chain(self.0.below(root));
        all.filter_map(|id| Some((id, self.0.stats.get(&id)?.resident_pages))).collect()
    }
}

/// What `/proc/PID/stat` says.
struct Stat {
    parent: i32,
    /// Pages.
    resident_pages: u64,
    /// It has ended, with all of its threads; its status was not taken yet.
    is_over: bool,
    /// It has the memory of a program, and its environment is not there yet.
    is_executing: bool,
}

impl Stat {
    fn read(id: i32) -> Option<Self> {
        Self::parse(&std::fs::read(format!("/proc/{id}/stat")).ok()?)
    }

    fn parse(text: &[u8]) -> Option<Self> {
        // pid (comm) state ppid ...: comm may hold anything, so count from its last parenthesis.
        let rest = text.get(text.iter().rposition(|byte| *byte == b')')? + 1..)?;
        let mut fields = std::str::from_utf8(rest).ok()?.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        // A process whose first thread has ended looks like a dead one while others go on.
        let threads: u32 = fields.nth(THREADS_AFTER_PARENT)?.parse().ok()?;
        let virtual_bytes: u64 = fields.nth(VIRTUAL_AFTER_THREADS)?.parse().ok()?;
        let resident_pages = fields.next()?.parse().ok()?;
        // 0 also for other users' processes, whose environment is not shown at all. Not before Linux 3.5.
        let is_executing = virtual_bytes > 0 && fields.nth(ENVIRONMENT_AFTER_RESIDENT) == Some("0");
        let is_over = matches!(state, "X" | "x") || state == "Z" && threads <= 1;
        Some(Self { parent, resident_pages, is_over, is_executing })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(processes: &[(i32, i32, bool)]) -> Table {
        let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for (id, parent, _) in processes {
            children.entry(*parent).or_default().push(*id);
        }
        let stat = |&(id, parent, is_over)| {
            (id, Stat { parent, resident_pages: 1, is_over, is_executing: false })
        };
        Table { stats: processes.iter().map(stat).collect(), children }
    }

    #[test]
    fn what_is_below_one_that_has_ended_is_found() {
        let table =
            table(&[(2, 1, false), (3, 2, true), (4, 3, false), (5, 1, false), (6, 4, false)]);
        assert_eq!(table.below(2), [4, 6]);
        assert!(table.below(5).is_empty());
    }

    #[test]
    fn a_family_has_one_head_and_no_strangers() {
        let table =
            table(&[(2, 1, false), (3, 2, false), (4, 3, false), (5, 1, false), (6, 1, true)]);
        assert!(table.is_family_of(4, &[3, 4]) && table.is_family_of(3, &[2, 3, 4]));
        assert!(table.is_family_of(4, &[4, 6, 77]), "what has ended does not count");
        assert!(!table.is_family_of(4, &[3, 4, 5]) && !table.is_family_of(4, &[3]));
        assert!(!table.is_family_of(4, &[4, 0]) && !table.is_family_of(4, &[4, 2, 5]));
    }

    #[test]
    fn a_process_is_over_when_all_of_its_threads_are() {
        let is_over = |state: &str, threads: u32| {
            let line = format!(
                "7 (a) b) {state} 5 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 99 4096 25"
            );
            let stat = Stat::parse(line.as_bytes()).unwrap();
            assert_eq!((stat.parent, stat.resident_pages), (5, 25));
            stat.is_over
        };
        assert!(is_over("Z", 1) && is_over("X", 0));
        assert!(!is_over("Z", 2) && !is_over("S", 1) && !is_over("T", 1));
    }

    #[test]
    fn a_process_that_is_just_executing_a_program_shows_no_environment_yet() {
        let is_executing = |virtual_bytes: u64, environment_end: u64| {
            let zeros = "0 ".repeat(ENVIRONMENT_AFTER_RESIDENT);
            let line = format!(
                "7 (a) R 5 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 {virtual_bytes} 25 {zeros}{environment_end} 0"
            );
            Stat::parse(line.as_bytes()).unwrap().is_executing
        };
        assert!(is_executing(4096, 0));
        assert!(
            !is_executing(4096, 77) && !is_executing(0, 0),
            "a thread of the kernel has no memory"
        );
        let own = Stat::read(own_id()).unwrap();
        assert!(!own.is_executing && !environment_of(own_id()).unwrap().is_empty());
    }

    #[test]
    fn what_was_started_with_a_variable_is_killed_and_nothing_else() {
        let start = |value: &str| {
            let environment = crate::EnvironmentBlock::new([("KILLED".into(), value.into())]);
            let words = [c"sleep".to_owned(), c"1000".to_owned()];
            let group = crate::spawn::Group::Own;
            crate::processes::start(c"/bin/sleep", &words, &environment, &[], group).unwrap()
        };
        // No other run of this test has the value.
        let value = own_id().to_string();
        let (one, other) = (start(&value), start(&format!("{value}2")));
        assert_eq!(kill_all_with("KILLED", &BTreeSet::from([value.into_bytes()])), 1);
        assert_eq!(one.take_status().map(|(status, _)| status), Some(libc::SIGKILL));
        assert!(!is_over(other.id));
        other.signal_group(libc::SIGKILL);
    }

    #[test]
    fn children_are_killed_after_what_stands_below_them() {
        let environment = crate::EnvironmentBlock::new([("PATH".into(), "/usr/bin:/bin".into())]);
        let words = [c"sh".to_owned(), c"-c".to_owned(), c"sleep 1000; true".to_owned()];
        let group = crate::spawn::Group::Own;
        let shell = processes::start(c"/bin/sh", &words, &environment, &[], group).unwrap();
        let mut below = Table::read().below(shell.id);
        while below.is_empty() {
            pause();
            below = Table::read().below(shell.id);
        }
        let frozen = BTreeSet::from([shell.id, below[0]]);
        assert_eq!(in_turn(&frozen), [BTreeSet::from([below[0]]), BTreeSet::from([shell.id])]);
        shell.signal_group(libc::SIGKILL);
    }

    #[test]
    fn this_process_is_below_its_parent() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(Table::read().below(crate::processes::parent()).contains(&own));
    }
}
