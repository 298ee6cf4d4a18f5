//! File servers that do not answer while the catalogue takes them for up. New files may be sent to
//! them, and who writes one fails.
//!
//! Which they are, and whose failure may be due to that. It does not know how it is found out, nor when it is asked.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::ids::{HostId, TaskId};

/// A catalogue takes a silent host for gone after 180 s, unless its keeper says otherwise; who is
/// silent for longer uncharges nothing any more.
pub(super) const UNCHARGED_NS: u64 = 200_000_000_000;
/// A task is uncharged so often.
const UNCHARGED_MAX: u32 = 3;

/// A host that is silent.
#[derive(Debug)]
struct UnresponsiveHost {
    /// The file that it did not hand out; none: that one was made again, elsewhere.
    file: Option<TaskId>,
    /// Since when, and when it was found to be so last; by the monotonic clock.
    since_ns: u64,
    seen_ns: u64,
}

/// See the file's head.
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
        silent: &BTreeMap<HostId, TaskId>,
        now_ns: u64,
    ) {
        self.hosts.retain(|host, known| {
            let may_be_silent = match known.file {
                Some(file) => !asked(file),
                None => now_ns.saturating_sub(known.since_ns) < UNCHARGED_NS,
            };
            silent.contains_key(host) || may_be_silent && !answer.contains(host)
        });
        for (host, file) in silent {
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

    /// Whether what fails now may have failed since a host is silent.
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

    /// Files by which it shows whether the hosts still are silent, and still are taken for up.
    pub fn files(&self) -> impl Iterator<Item = TaskId> {
        self.hosts.values().filter_map(|known| known.file)
    }

    /// All that are silent, as far as is known.
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

    fn silent(hosts: &[(HostId, TaskId)]) -> BTreeMap<HostId, TaskId> {
        hosts.iter().copied().collect()
    }

    #[test]
    fn a_host_is_silent_until_it_answers_for_its_file_or_is_not_named_for_it_any_more() {
        let mut silence = Unresponsive::default();
        silence.note(|_| true, &NONE, &silent(&[(A, ONE)]), 10);
        silence.note(|file| file != ONE, &NONE, &silent(&[]), 30);
        assert!(silence.is_young(40), "nobody asked it");
        assert_eq!(silence.files().collect::<Vec<_>>(), [ONE]);
        silence.note(|_| true, &NONE, &silent(&[]), 50);
        assert!(!silence.is_young(60));
    }

    #[test]
    fn a_file_that_is_made_again_tells_nothing_of_its_host_any_more() {
        let mut silence = Unresponsive::default();
        silence.note(|_| true, &NONE, &silent(&[(A, ONE)]), 0);
        silence.replace_file(ONE, Some(TWO));
        silence.note(|file| file == ONE, &NONE, &silent(&[]), 10);
        assert!(silence.is_young(10));
        silence.replace_file(TWO, None);
        silence.note(|_| true, &NONE, &silent(&[]), 20);
        assert!(silence.is_young(20));
        silence.note(|_| true, &NONE, &silent(&[]), UNCHARGED_NS);
        assert_eq!(silence.hosts.len(), 0, "it is not kept for ever");
    }

    #[test]
    fn a_host_that_hands_out_any_file_and_keeps_none_back_answers() {
        let mut silence = Unresponsive::default();
        silence.note(|_| true, &NONE, &silent(&[(A, ONE)]), 0);
        silence.replace_file(ONE, None);
        silence.note(|_| true, &[A].into(), &silent(&[(A, TWO)]), 10);
        assert!(silence.is_young(10), "not all that it has");
        silence.replace_file(TWO, None);
        silence.note(|_| true, &[A].into(), &silent(&[]), 20);
        assert!(!silence.is_young(20));
    }

    #[test]
    fn a_host_of_which_no_file_told_is_silent_since_it_is_found_to_be_so_again() {
        let mut silence = Unresponsive::default();
        silence.note(|_| true, &NONE, &silent(&[(A, ONE)]), 0);
        silence.replace_file(ONE, None);
        silence.note(|_| true, &NONE, &silent(&[(A, TWO)]), UNCHARGED_NS - 1);
        assert!(silence.is_young(UNCHARGED_NS), "it may have answered meanwhile");
        silence.note(|_| true, &NONE, &silent(&[(A, TWO)]), UNCHARGED_NS);
        assert!(!silence.is_young(2 * UNCHARGED_NS - 1));
    }

    #[test]
    fn a_task_is_uncharged_three_times_and_an_old_silence_uncharges_nothing() {
        let mut silence = Unresponsive::default();
        assert!(!silence.is_young(0), "nobody is silent");
        silence.note(|_| true, &NONE, &silent(&[(A, ONE)]), 0);
        for _ in 0..UNCHARGED_MAX {
            assert!(silence.may_uncharge(ONE));
            silence.uncharged(ONE);
        }
        assert!(!silence.may_uncharge(ONE));
        assert!(silence.may_uncharge(TWO));
        silence.note(|_| true, &NONE, &silent(&[(A, ONE)]), UNCHARGED_NS / 2);
        assert!(silence.is_young(UNCHARGED_NS - 1));
        silence.note(|_| true, &NONE, &silent(&[(A, ONE)]), UNCHARGED_NS);
        assert!(!silence.is_young(UNCHARGED_NS));
        silence.note(|_| true, &NONE, &silent(&[(A, ONE)]), 2 * UNCHARGED_NS);
        assert!(silence.is_young(2 * UNCHARGED_NS), "it may have answered meanwhile");
    }
}
