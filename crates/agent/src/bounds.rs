//! Bounds of memory that commands are held to (`--enforce memory`): by a control group for each command where those can
//! be made, else by a watch. It says which of both with the first bounded command.
//!
//! The watch: a thread looks at what the processes of each bounded command have resident, and kills all of them when
//! that is more than their bound. As soon as the resident sets together are above the bound, what counts is looked at:
//! memory of no file, and shared memory, where what processes share is counted once (PSS). Pages of files that are
//! mapped can be dropped and do not count. Between two looks a command may have more, so the nearer it is to its bound,
//! the sooner the next look comes. It knows no tasks.
//!
//! Neither RLIMIT_AS nor RLIMIT_DATA is set. They count what is reserved and never touched, and each process by itself:
//! sixteen threads of Python that have 14 MiB start neither at 256 MiB of address space nor at 64 MiB of data, and a
//! Java process that has 35 MiB does not start at 1 GiB of address space. And each program has its own words for a
//! refusal of memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rakuda_proto::agent::{BOUND_EXCEEDED, CommandId};
use rakuda_proto::memory;

use crate::clock;
use crate::memory_groups::{MemoryGroup, MemoryGroups, NoGroups};
use crate::spawn::Process;
use crate::trees;

/// Maximum time between two looks.
const EVERY: Duration = Duration::from_millis(100);
/// Minimum time between two looks.
const EVERY_MIN: Duration = Duration::from_millis(5);
/// Time between two looks, in times as long as a look takes.
const LOOK_SHARE: u32 = 20;
/// Bytes that a command is taken to grow by in a millisecond: what one core fills with zeros.
const GROWTH_BYTES_PER_MS: u64 = 2 << 20;

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

/// How commands are held to their bounds here.
#[derive(Default)]
enum Enforcement {
    /// There was no bounded command yet.
    #[default]
    Unknown,
    Groups(MemoryGroups),
    Watch,
}

/// All commands that are bounded. The thread begins with the first of them that is watched.
#[derive(Default)]
pub(crate) struct Bounds {
    enforcement: Enforcement,
    /// With their bounds.
    grouped: BTreeMap<CommandId, (MemoryGroup, u64)>,
    shared: Option<Arc<Shared>>,
}

/// What is said once.
pub(crate) enum Said {
    Groups,
    /// Why there are no groups.
    Watch(String),
}

impl Bounds {
    /// A group for a command that is about to be started. The first call also returns what there is to say.
    pub fn group(
        &mut self,
        command: CommandId,
        bytes_max: u64,
    ) -> (Option<MemoryGroup>, Option<Said>) {
        let first = matches!(self.enforcement, Enforcement::Unknown);
        if first {
            match MemoryGroups::prepare(Path::new("/")) {
                Ok(groups) => self.enforcement = Enforcement::Groups(groups),
                Err(why) => return (None, Some(self.only_watch(&why))),
            }
        }
        let Enforcement::Groups(groups) = &mut self.enforcement else { return (None, None) };
        match groups.make(command, bytes_max) {
            Ok(group) => (Some(group), first.then_some(Said::Groups)),
            Err(why) => (None, Some(self.only_watch(&why))),
        }
    }

    fn only_watch(&mut self, why: &NoGroups) -> Said {
        self.enforcement = Enforcement::Watch;
        Said::Watch(why.to_string())
    }

    /// It was not started.
    pub fn give_back(&mut self, group: Option<MemoryGroup>) {
        if let (Some(group), Enforcement::Groups(groups)) = (group, &mut self.enforcement) {
            groups.give_back(group);
        }
    }

    /// Holds a command to its bound from now on: in its group, if it has joined that, else by watching it.
    pub fn add(
        &mut self,
        command: CommandId,
        process: &Process,
        group: Option<MemoryGroup>,
        bytes_max: u64,
    ) {
        match group {
            Some(group) if process.is_grouped => {
                self.grouped.insert(command, (group, bytes_max));
            }
            group => {
                self.give_back(group);
                self.watch(command, process.id, bytes_max);
            }
        }
    }

    fn watch(&mut self, command: CommandId, root: i32, bytes_max: u64) {
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
        &mut self,
        command: CommandId,
        take: impl FnOnce() -> Option<T>,
    ) -> Option<(T, Option<String>)> {
        if self.grouped.contains_key(&command) {
            let status = take()?;
            let (group, bytes_max) = self.grouped.remove(&command)?;
            let why = group.exceeded().map(|bytes_peak| {
                // What the kernel has refused is not known.
                let had = format!("{} of memory and wanted more", memory::measured(bytes_peak));
                why(&had, bytes_max)
            });
            self.give_back(Some(group));
            return Some((status, why));
        }
        let Some(shared) = &self.shared else { return take().map(|status| (status, None)) };
        let mut commands = locked(shared);
        let status = take()?;
        let bounded = commands.remove(&command);
        Some((status, bounded.filter(|bounded| bounded.killed).map(|bounded| bounded.why())))
    }
}

impl Bounded {
    fn why(&self) -> String {
        why(&format!("{} of memory", memory::measured(self.bytes_peak)), self.bytes_max)
    }
}

/// Why a command was killed.
fn why(had: &str, bytes_max: u64) -> String {
    format!("{BOUND_EXCEEDED}it had {had}, and its task asks for {}", memory::asked(bytes_max))
}

fn locked(shared: &Shared) -> MutexGuard<'_, BTreeMap<CommandId, Bounded>> {
    shared.commands.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watch(shared: &Shared) -> ! {
    loop {
        let mut lacking_bytes = u64::MAX;
        let mut commands = locked(shared);
        while commands.is_empty() {
            commands = shared.more.wait(commands).unwrap_or_else(PoisonError::into_inner);
        }
        let seen: Vec<(CommandId, Bounded)> = commands.iter().map(|(id, it)| (*id, *it)).collect();
        drop(commands);
        let begun_ns = clock::monotonic_ns();
        let mut all = None;
        let mut tree = |root| {
            let sets = || all.get_or_insert_with(trees::resident_sets).tree(root);
            trees::resident_tree(root).unwrap_or_else(sets)
        };
        // The end of a command waits for the lock, so nothing is read while it is held.
        let found: Vec<_> =
            seen.into_iter().map(|(id, it)| (id, Found::of(it, &tree(it.root)))).collect();
        let mut commands = locked(shared);
        for (id, found) in found {
            if let Some(bounded) = commands.get_mut(&id).filter(|bounded| !bounded.killed) {
                bounded.bytes_peak = bounded.bytes_peak.max(found.bytes);
                bounded.killed = found.bytes > bounded.bytes_max;
                if bounded.killed {
                    // Its status is not taken meanwhile, so the number is its own.
                    trees::kill_tree(bounded.root);
                } else {
                    lacking_bytes = lacking_bytes.min(bounded.bytes_max - found.bytes);
                }
            }
        }
        drop(commands);
        let look = Duration::from_nanos(clock::monotonic_ns().saturating_sub(begun_ns));
        pause(until_next(lacking_bytes, look));
    }
}

/// Time until the next look. `lacking_bytes`: what the command nearest to its bound lacks of it; `look`: time that the
/// last look took.
fn until_next(lacking_bytes: u64, look: Duration) -> Duration {
    let filled = Duration::from_millis(lacking_bytes / GROWTH_BYTES_PER_MS);
    filled.max(look.saturating_mul(LOOK_SHARE)).clamp(EVERY_MIN, EVERY)
}

/// What the processes of a command have.
struct Found {
    bytes: u64,
}

impl Found {
    fn of(bounded: Bounded, tree: &[(i32, u64)]) -> Self {
        let page_bytes = rustix::param::page_size() as u64;
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
fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_command_is_told_its_bound_as_it_was_asked_for() {
        let bounded = Bounded { root: 1, bytes_max: 1500 << 20, bytes_peak: 3 << 29, killed: true };
        assert_eq!(
            bounded.why(),
            format!("{BOUND_EXCEEDED}it had 1.50 GiB of memory, and its task asks for 1500 MiB")
        );
    }

    #[test]
    fn the_next_look_is_sooner_near_a_bound_and_later_where_looks_take_long() {
        let [short, long] = [20, 2000].map(Duration::from_micros);
        let ms = Duration::from_millis;
        assert_eq!(until_next(60 << 20, short), ms(30));
        assert_eq!(until_next(60 << 20, long), ms(40));
        assert_eq!(until_next(0, short), EVERY_MIN);
        assert_eq!(until_next(1 << 40, short), EVERY);
        assert_eq!(until_next(0, ms(1000)), EVERY);
    }

    #[test]
    fn without_bounded_commands_a_status_is_only_taken() {
        let mut bounds = Bounds::default();
        assert_eq!(bounds.take_status(CommandId(1), || Some(9)), Some((9, None)));
        assert_eq!(bounds.take_status(CommandId(1), || None::<i32>), None);
        assert!(bounds.shared.is_none());
    }

    #[test]
    fn this_process_has_something_resident() {
        let own = i32::try_from(std::process::id()).unwrap();
        let tree = trees::resident_sets().tree(own);
        assert!(tree[0].0 == own && tree[0].1 > 0, "{tree:?}");
        // Not every kernel tells of children.
        let told = trees::resident_tree(own).unwrap_or(tree);
        assert!(told[0].0 == own && told[0].1 > 0, "{told:?}");
        assert!(share(own).is_some_and(|bytes| bytes > 0));
    }
}
