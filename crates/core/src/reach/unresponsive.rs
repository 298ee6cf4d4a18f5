//! File servers that do not answer while the catalogue takes them for up. New files may be sent to
//! them, and who writes one fails.
//!
//! Which they are, and whose failure may be due to that. It does not know how it is found out, nor when it is asked.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::ids::{HostId, TaskId};

/// Maximum time for which a host may be unresponsive and failures over it are uncharged. By default
/// a catalogue takes such a host for gone after 180 s.
pub(super) const UNCHARGED_NS: u64 = 200_000_000_000;
/// Maximum number of failures of a task that are uncharged.
const UNCHARGED_MAX: u32 = 3;

/// An unresponsive host.
#[derive(Debug)]
struct UnresponsiveHost {
    /// The file that it did not hand out; `None` once that one was made again, elsewhere.
    file: Option<TaskId>,
    /// Since when, and when it was found to be so last; by the monotonic clock.
    since_ns: u64,
    seen_ns: u64,
}

/// The unresponsive hosts, and how often tasks were uncharged over them.
#[derive(Debug, Default)]
pub(super) struct Unresponsive {
    hosts: BTreeMap<HostId, UnresponsiveHost>,
    /// How often tasks were uncharged.
    uncharged: BTreeMap<TaskId, u32>,
}

impl Unresponsive {
    /// These files were asked about; these hosts handed some out, and these did not hand out theirs.
    pub fn note(
        &mut self,
        asked: impl Fn(TaskId) -> bool,
        answer: &BTreeSet<HostId>,
        unresponsive: &BTreeMap<HostId, TaskId>,
        now_ns: u64,
    ) {
        self.hosts.retain(|host, known| {
            let may_be_unresponsive = match known.file {
                Some(file) => !asked(file),
                None => now_ns.saturating_sub(known.since_ns) < UNCHARGED_NS,
            };
            unresponsive.contains_key(host) || may_be_unresponsive && !answer.contains(host)
        });
        for (host, file) in unresponsive {
            let (file, since_ns) = (Some(*file), now_ns);
            let new = || UnresponsiveHost { file, since_ns, seen_ns: now_ns };
            let known = self.hosts.entry(*host).or_insert_with(new);
            if known.file.is_none() || now_ns.saturating_sub(known.seen_ns) >= UNCHARGED_NS {
                // Nobody knows how it was between.
                known.since_ns = now_ns;
            }
            known.file = file;
            known.seen_ns = now_ns;
        }
    }

    /// A file is made again, elsewhere: another one is to tell of its host, if there is one.
    pub fn replace_file(&mut self, id: TaskId, other: Option<TaskId>) {
        let known = self.hosts.values_mut().filter(|known| known.file == Some(id));
        known.for_each(|known| known.file = other);
    }

    /// Whether what fails now may have failed over an unresponsive host.
    pub fn is_young(&self, now_ns: u64) -> bool {
        let is_young =
            |known: &UnresponsiveHost| now_ns.saturating_sub(known.since_ns) < UNCHARGED_NS;
        self.hosts.values().any(is_young)
    }

    /// Whether a failure of this task may be uncharged once more.
    pub fn may_uncharge(&self, id: TaskId) -> bool {
        self.uncharged.get(&id).is_none_or(|times| *times < UNCHARGED_MAX)
    }

    /// A failure of it was uncharged.
    pub fn uncharged(&mut self, id: TaskId) {
        *self.uncharged.entry(id).or_insert(0) += 1;
    }

    /// Files that show whether the hosts still are unresponsive, and still taken for up.
    pub fn files(&self) -> impl Iterator<Item = TaskId> {
        self.hosts.values().filter_map(|known| known.file)
    }

    /// All hosts that are known to be unresponsive.
    pub fn hosts(&self) -> impl Iterator<Item = HostId> {
        self.hosts.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    const A: HostId = HostId(0);
    const ONE: TaskId = TaskId(1);
    const TWO: TaskId = TaskId(2);

    const NONE: BTreeSet<HostId> = BTreeSet::new();

    fn unresponsive(hosts: &[(HostId, TaskId)]) -> BTreeMap<HostId, TaskId> {
        hosts.iter().copied().collect()
    }

    #[test]
    fn a_host_is_unresponsive_until_it_answers_for_its_file_or_is_not_named_for_it_any_more() {
        let mut known = Unresponsive::default();
        known.note(|_| true, &NONE, &unresponsive(&[(A, ONE)]), 10);
        known.note(|file| file != ONE, &NONE, &unresponsive(&[]), 30);
        assert!(known.is_young(40), "nobody asked it");
        assert_eq!(known.files().collect::<Vec<_>>(), [ONE]);
        known.note(|_| true, &NONE, &unresponsive(&[]), 50);
        assert!(!known.is_young(60));
    }

    #[test]
    fn a_file_that_is_made_again_tells_nothing_of_its_host_any_more() {
        let mut known = Unresponsive::default();
        known.note(|_| true, &NONE, &unresponsive(&[(A, ONE)]), 0);
        known.replace_file(ONE, Some(TWO));
        known.note(|file| file == ONE, &NONE, &unresponsive(&[]), 10);
        assert!(known.is_young(10));
        known.replace_file(TWO, None);
        known.note(|_| true, &NONE, &unresponsive(&[]), 20);
        assert!(known.is_young(20));
        known.note(|_| true, &NONE, &unresponsive(&[]), UNCHARGED_NS);
        assert_eq!(known.hosts.len(), 0, "it is not kept for ever");
    }

    #[test]
    fn a_host_that_hands_out_any_file_and_keeps_none_back_answers() {
        let mut known = Unresponsive::default();
        known.note(|_| true, &NONE, &unresponsive(&[(A, ONE)]), 0);
        known.replace_file(ONE, None);
        known.note(|_| true, &[A].into(), &unresponsive(&[(A, TWO)]), 10);
        assert!(known.is_young(10), "not all that it has");
        known.replace_file(TWO, None);
        known.note(|_| true, &[A].into(), &unresponsive(&[]), 20);
        assert!(!known.is_young(20));
    }

    #[test]
    fn a_host_of_which_no_file_told_is_unresponsive_since_it_is_found_to_be_so_again() {
        let mut known = Unresponsive::default();
        known.note(|_| true, &NONE, &unresponsive(&[(A, ONE)]), 0);
        known.replace_file(ONE, None);
        known.note(|_| true, &NONE, &unresponsive(&[(A, TWO)]), UNCHARGED_NS - 1);
        assert!(known.is_young(UNCHARGED_NS), "it may have answered meanwhile");
        known.note(|_| true, &NONE, &unresponsive(&[(A, TWO)]), UNCHARGED_NS);
        assert!(!known.is_young(2 * UNCHARGED_NS - 1));
    }

    #[test]
    fn a_task_is_uncharged_three_times_and_an_old_host_uncharges_nothing() {
        let mut known = Unresponsive::default();
        assert!(!known.is_young(0), "no host is unresponsive");
        known.note(|_| true, &NONE, &unresponsive(&[(A, ONE)]), 0);
        for _ in 0..UNCHARGED_MAX {
            assert!(known.may_uncharge(ONE));
            known.uncharged(ONE);
        }
        assert!(!known.may_uncharge(ONE));
        assert!(known.may_uncharge(TWO));
        known.note(|_| true, &NONE, &unresponsive(&[(A, ONE)]), UNCHARGED_NS / 2);
        assert!(known.is_young(UNCHARGED_NS - 1));
        known.note(|_| true, &NONE, &unresponsive(&[(A, ONE)]), UNCHARGED_NS);
        assert!(!known.is_young(UNCHARGED_NS));
        known.note(|_| true, &NONE, &unresponsive(&[(A, ONE)]), 2 * UNCHARGED_NS);
        assert!(known.is_young(2 * UNCHARGED_NS), "it may have answered meanwhile");
    }
}
