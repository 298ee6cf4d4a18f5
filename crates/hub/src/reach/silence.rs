//! File servers that do not answer while the catalogue takes them for up. New files may be sent to them, and who writes one fails.
//!
//! Which they are, and whose failure may be due to that. It does not know how it is found out, nor when it is asked.

use std::collections::BTreeMap;

use rakuda_core::TaskId;

/// A catalogue takes a silent host for gone after 180 s, unless its keeper says otherwise; who is silent for longer is no excuse any more.
const EXCUSES_NS: u64 = 200_000_000_000;
/// A task is excused so often.
const EXCUSED_MAX: u32 = 3;

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// With the file that the host did not hand out, and since when, by the monotonic clock.
    hosts: BTreeMap<Vec<u8>, (TaskId, u64)>,
    /// How often tasks were excused.
    excused: BTreeMap<TaskId, u32>,
}

impl Silence {
    /// These files were asked about, and these hosts did not hand out theirs. Whether a host has fallen silent.
    pub fn note(
        &mut self,
        asked: impl Fn(TaskId) -> bool,
        silent: &BTreeMap<Vec<u8>, u32>,
        now_ns: u64,
    ) -> bool {
        self.hosts.retain(|host, (file, _)| silent.contains_key(host) || !asked(*file));
        let before = self.hosts.len();
        for (host, file) in silent {
            self.hosts.entry(host.clone()).or_insert((TaskId(*file), now_ns));
        }
        self.hosts.len() > before
    }

    /// Whether what fails now may have failed since a host is silent.
    pub fn is_young(&self, now_ns: u64) -> bool {
        self.hosts.values().any(|(_, since_ns)| now_ns.saturating_sub(*since_ns) < EXCUSES_NS)
    }

    /// Whether a failure of this task may be excused once more.
    pub fn may_excuse(&self, id: TaskId) -> bool {
        self.excused.get(&id).is_none_or(|times| *times < EXCUSED_MAX)
    }

    /// A failure of it was excused.
    pub fn excused(&mut self, id: TaskId) {
        *self.excused.entry(id).or_insert(0) += 1;
    }

    /// Files by which it shows whether the hosts still are silent, and still are taken for up.
    pub fn files(&self) -> impl Iterator<Item = TaskId> {
        self.hosts.values().map(|(file, _)| *file)
    }

    /// For people.
    pub fn names(&self) -> String {
        let names = self.hosts.keys().map(|host| String::from_utf8_lossy(host));
        names.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: TaskId = TaskId(1);

    fn silent(hosts: &[(&str, u32)]) -> BTreeMap<Vec<u8>, u32> {
        hosts.iter().map(|(host, file)| (host.as_bytes().to_vec(), *file)).collect()
    }

    #[test]
    fn a_host_is_silent_until_it_answers_for_its_file_or_is_not_named_for_it_any_more() {
        let mut silence = Silence::default();
        assert!(silence.note(|_| true, &silent(&[("a", 1)]), 10));
        assert!(!silence.note(|_| true, &silent(&[("a", 1)]), 20), "it was known");
        assert!(!silence.note(|file| file != ONE, &silent(&[]), 30));
        assert!(silence.is_young(40), "nobody asked it");
        assert_eq!(silence.files().collect::<Vec<_>>(), [ONE]);
        silence.note(|_| true, &silent(&[]), 50);
        assert!(!silence.is_young(60));
    }

    #[test]
    fn a_task_is_excused_three_times_and_an_old_silence_is_no_excuse() {
        let mut silence = Silence::default();
        assert!(!silence.is_young(0), "nobody is silent");
        silence.note(|_| true, &silent(&[("a", 1)]), 0);
        for _ in 0..EXCUSED_MAX {
            assert!(silence.may_excuse(ONE));
            silence.excused(ONE);
        }
        assert!(!silence.may_excuse(ONE));
        assert!(silence.may_excuse(TaskId(2)));
        assert!(silence.is_young(EXCUSES_NS - 1));
        assert!(!silence.is_young(EXCUSES_NS));
    }
}
