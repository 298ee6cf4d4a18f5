//! Trees of processes, and their end: whatever stands below a process is found by its parents, not by what it says of itself, and is
//! stopped before it is killed, so that nothing can start another one in between.
//!
//! Linux hands a process whose parent died to its nearest *child subreaper*. So below one stands all that was ever started there,
//! whatever its group, session, environment or title.
#![allow(unsafe_code, reason = "kill and wait have no safe wrapper for this")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::clock;

/// How long processes are waited for that do not end after SIGKILL, as they wait for a device or a file server.
const PATIENCE_NS: u64 = 10_000_000_000;
/// Between two looks at processes that are about to end.
const STEP: Duration = Duration::from_millis(1);

/// Kills all processes below this one but `spared`, and returns how many there were. What is below a spared one goes, too. When it
/// returns they are gone, but for those that hang in the kernel or belong to another user.
pub fn kill_all_below(spared: &[i32]) -> usize {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let mut hunt = Hunt { own, spared, beyond: BTreeSet::new(), killed: BTreeSet::new() };
    let until_ns = clock::monotonic_ns() + PATIENCE_NS;
    // Twice nothing: a process may be missed while its parent ends.
    while !(hunt.wanted().is_empty() && hunt.wanted().is_empty())
        && clock::monotonic_ns() < until_ns
    {
        let frozen = hunt.freeze();
        for id in &frozen {
            signal(*id, libc::SIGKILL);
        }
        while frozen.iter().any(|id| !is_over(*id)) && clock::monotonic_ns() < until_ns {
            pause();
        }
        hunt.killed.extend(frozen);
    }
    hunt.killed.len()
}

/// What is to be killed below a process.
struct Hunt<'a> {
    own: i32,
    spared: &'a [i32],
    /// Those that no signal of ours reaches: another user's.
    beyond: BTreeSet<i32>,
    killed: BTreeSet<i32>,
}

impl Hunt<'_> {
    fn wanted(&self) -> Vec<i32> {
        let mut found = Table::read().below(self.own);
        found.retain(|id| !self.spared.contains(id) && !self.beyond.contains(id));
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

/// Whether the process is gone, or only its status is left. A child of this one is reaped.
fn is_over(id: i32) -> bool {
    let mut status = 0;
    // SAFETY: the pointer is to this frame. For one that is no child it only fails.
    unsafe { libc::waitpid(id, &raw mut status, libc::WNOHANG) };
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
        let mut stats: BTreeMap<_, _> =
            crate::processes::all_processes().filter_map(read).collect();
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

    /// All that stand below `root` and run, without it. A child of one that ends meanwhile may be missed: it is found the next time,
    /// below the subreaper.
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

/// What `/proc/PID/stat` says.
struct Stat {
    parent: i32,
    /// It has ended; its status was not taken yet.
    is_over: bool,
}

impl Stat {
    fn read(id: i32) -> Option<Self> {
        let text = std::fs::read(format!("/proc/{id}/stat")).ok()?;
        // pid (comm) state ppid ...: comm may hold anything, so count from its last parenthesis.
        let rest = text.get(text.iter().rposition(|byte| *byte == b')')? + 1..)?;
        let mut fields = std::str::from_utf8(rest).ok()?.split_ascii_whitespace();
        let is_over = matches!(fields.next()?, "Z" | "X" | "x");
        Some(Self { parent: fields.next()?.parse().ok()?, is_over })
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
        let stat = |&(id, parent, is_over)| (id, Stat { parent, is_over });
        Table { stats: processes.iter().map(stat).collect(), children }
    }

    #[test]
    fn what_is_below_one_that_has_ended_is_found() {
        let table =
            table(&[(2, 1, false), (3, 2, true), (4, 3, false), (5, 1, false), (6, 4, false)]);
        assert_eq!(table.below(2), [4, 6]);
        assert_eq!(table.below(5), []);
    }

    #[test]
    fn this_process_is_below_its_parent() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(Table::read().below(crate::processes::parent()).contains(&own));
    }
}
