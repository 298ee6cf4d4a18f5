//! Bounds of memory that commands are held to (`--enforce memory`): a thread looks at what the processes of each
//! bounded command have resident, and kills all of them when that is more than their bound.
//!
//! A watch, and no RLIMIT_AS: programs reserve address space that they never touch. As soon as the resident sets
//! together are above the bound, what counts is looked at: memory of no file, and shared memory, where what processes
//! share is counted once (PSS). Pages of files that are mapped can be dropped and do not count. Between two looks a
//! command may have more. It knows no tasks.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rakuda_proto::agent::{BOUND_EXCEEDED, CommandId};

use crate::trees;

/// Between two looks.
const EVERY: Duration = Duration::from_millis(100);

/// A command that must not have more memory than this.
#[derive(Debug, Clone, Copy)]
struct Bounded {
    /// Its first process.
    root: i32,
    bytes_max: u64,
    /// The most that was seen.
    bytes_peak: u64,
    killed: bool,
}

#[derive(Default)]
struct Shared {
    commands: Mutex<BTreeMap<CommandId, Bounded>>,
    /// A command has come.
    more: Condvar,
}

/// All commands that are bounded. The thread begins with the first of them.
#[derive(Default)]
pub(crate) struct Bounds {
    shared: Option<Arc<Shared>>,
}

impl Bounds {
    /// Holds a command to its bound from now on.
    pub fn add(&mut self, command: CommandId, root: i32, bytes_max: u64) {
        let shared = self.shared.get_or_insert_with(|| {
            let shared = Arc::new(Shared::default());
            let its = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name("rakuda-bounds".to_owned());
            // Without a thread commands run unbounded, as without the option.
            let _ = thread.spawn(move || watch(&its));
            shared
        });
        let bounded = Bounded { root, bytes_max, bytes_peak: 0, killed: false };
        locked(shared).insert(command, bounded);
        shared.more.notify_one();
    }

    /// Takes the exit status of a command by `take`, while nothing is killed: afterwards its number may be another
    /// process's. With the status comes why it was killed, if it was because of its bound.
    pub fn take_status<T>(
        &self,
        command: CommandId,
        take: impl FnOnce() -> Option<T>,
    ) -> Option<(T, Option<String>)> {
        let Some(shared) = &self.shared else { return take().map(|status| (status, None)) };
        let mut commands = locked(shared);
        let status = take()?;
        let bounded = commands.remove(&command);
        Some((status, bounded.filter(|bounded| bounded.killed).map(|bounded| bounded.why())))
    }
}

impl Bounded {
    fn why(&self) -> String {
        format!(
            "{}it had {} of memory, and its task asks for {}",
            BOUND_EXCEEDED,
            mebibytes(self.bytes_peak),
            mebibytes(self.bytes_max)
        )
    }
}

fn locked(shared: &Shared) -> MutexGuard<'_, BTreeMap<CommandId, Bounded>> {
    shared.commands.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes as `memory:` of a Rakefile takes them.
fn mebibytes(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10) >> 20;
    if tenths < 100 {
        format!("{}.{} MiB", tenths / 10, tenths % 10)
    } else {
        format!("{} MiB", tenths / 10)
    }
}

fn watch(shared: &Shared) -> ! {
    loop {
        let mut commands = locked(shared);
        while commands.is_empty() {
            commands = shared.more.wait(commands).unwrap_or_else(PoisonError::into_inner);
        }
        let seen: Vec<(CommandId, Bounded)> = commands.iter().map(|(id, it)| (*id, *it)).collect();
        drop(commands);
        let sets = trees::resident_sets();
        // Who ends a command waits for the lock: nothing is read while it is held.
        let found: Vec<_> = seen.into_iter().map(|(id, it)| (id, Found::of(it, &sets))).collect();
        let mut commands = locked(shared);
        for (id, found) in found {
            if let Some(bounded) = commands.get_mut(&id).filter(|bounded| !bounded.killed) {
                bounded.bytes_peak = bounded.bytes_peak.max(found.bytes);
                bounded.killed = found.bytes > bounded.bytes_max;
                if bounded.killed {
                    // Its status is not taken meanwhile, so the number is its own.
                    trees::kill_tree(bounded.root);
                }
            }
        }
        drop(commands);
        pause();
    }
}

/// What the processes of a command have.
struct Found {
    bytes: u64,
}

impl Found {
    fn of(bounded: Bounded, sets: &trees::ResidentSets) -> Self {
        let page_bytes = rustix::param::page_size() as u64;
        let tree = sets.tree(bounded.root);
        let resident = |(_, pages): &(i32, u64)| pages * page_bytes;
        let mut bytes = tree.iter().map(resident).sum();
        if bytes > bounded.bytes_max {
            bytes = tree.iter().map(|it| share(it.0).unwrap_or_else(|| resident(it))).sum();
        }
        Self { bytes }
    }
}

/// What a process has resident that is of no file, with its part of what it shares.
fn share(id: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{id}/smaps_rollup")).ok()?;
    let bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
    };
    Some(bytes("Pss_Anon:")? + bytes("Pss_Shmem:")?)
}

#[allow(clippy::disallowed_methods, reason = "nothing tells when a process has grown")]
fn pause() {
    std::thread::sleep(EVERY);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_as_a_rakefile_has_them() {
        assert_eq!(
            [1 << 20, 100 << 20, 1536 << 10].map(mebibytes),
            ["1.0 MiB", "100 MiB", "1.5 MiB"]
        );
    }

    #[test]
    fn without_bounded_commands_a_status_is_only_taken() {
        let bounds = Bounds::default();
        assert_eq!(bounds.take_status(CommandId(1), || Some(9)), Some((9, None)));
        assert_eq!(bounds.take_status(CommandId(1), || None::<i32>), None);
        assert!(bounds.shared.is_none());
    }

    #[test]
    fn this_process_has_something_resident() {
        let own = i32::try_from(std::process::id()).unwrap();
        let tree = trees::resident_sets().tree(own);
        assert!(tree[0].0 == own && tree[0].1 > 0, "{tree:?}");
        assert!(share(own).is_some_and(|bytes| bytes > 0));
    }
}
