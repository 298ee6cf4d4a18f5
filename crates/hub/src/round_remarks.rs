//! Lines for people about a round that began and did not go as it should, while the run goes on: late workers, programs
//! that outlive their commands, clocks that were set. The record has all of it; it decides nothing.

use std::collections::BTreeMap;

use rakuda_core::sync::rounds::Lateness;
use rakuda_record::words::duration_in_words;

/// What a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Remark {
    /// A worker was late.
    Late,
    /// A command has ended before what it had started.
    Outlived,
}

/// How many rounds of each statement each remark was due for.
#[derive(Debug, Default)]
pub(crate) struct Remarks {
    counts: BTreeMap<(String, Remark), u32>,
}

impl Remarks {
    /// Counts one more round of the statement with this remark. Of many alike the first is shown, the second, the
    /// fourth, and so on, with their number; `None`: this one is in the record alone.
    pub fn count(&mut self, sync: &str, remark: Remark) -> Option<u32> {
        let count = self.counts.entry((sync.to_owned(), remark)).or_default();
        *count += 1;
        count.is_power_of_two().then_some(*count)
    }
}

/// Of late workers, with how the latest was, and where it is.
pub(crate) fn late_words(
    workers: u32,
    late: u32,
    (latest, lateness): (u32, Lateness),
    place: &str,
) -> String {
    let what = match lateness {
        Lateness::Told(ns @ 1..) => {
            format!("learnt of the instant {} after it was to begin", duration_in_words(ns))
        }
        Lateness::Told(ns) => format!(
            "learnt of the instant only {} before it was to begin",
            duration_in_words(ns.saturating_neg())
        ),
        Lateness::Slept(ns) => {
            format!("was woken {} after it was to begin", duration_in_words(ns))
        }
    };
    let (verb, lead) = if late == 1 { ("was", "") } else { ("were", "the latest, ") };
    format!(
        "{late} of {workers} workers {verb} late: {lead}worker {latest}{place}, {what}. The round counts, and is marked"
    )
}

/// Of the commands that have ended before what they had started.
pub(crate) fn outlived_words(workers: u32, outlived: u32) -> String {
    let (commands, have) =
        if outlived == 1 { ("command", "it has") } else { ("commands", "these have") };
    format!(
        "the {commands} of {outlived} of {workers} workers ended, and what {have} started goes on beside what follows: \
         a worker's end is that of its command"
    )
}

/// The end of a line that stands for several rounds.
pub(crate) fn count_words(count: u32) -> String {
    if count == 1 { String::new() } else { format!(" ({count} such rounds so far)") }
}

/// Of a wall clock that was set.
pub(crate) fn set_clock_words(whose: &str, by_ns: i64) -> String {
    let way = if by_ns < 0 { "back" } else { "forward" };
    let by = duration_in_words(i128::from(by_ns).abs());
    format!(
        "the clock of {whose} was set {way} by {by}. Times of this run go on as if it had not been: they are measured by \
         another clock, which cannot be set"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_rounds_alike_few_are_told() {
        let mut remarks = Remarks::default();
        let told = |remarks: &mut Remarks, sync| remarks.count(sync, Remark::Late);
        let first: Vec<_> = (0..9).map(|_| told(&mut remarks, "a")).collect();
        let (some, none) = (Some, None);
        assert_eq!(first, [some(1), some(2), none, some(4), none, none, none, some(8), none]);
        assert_eq!(told(&mut remarks, "b"), Some(1));
        assert_eq!(remarks.count("a", Remark::Outlived), Some(1));
    }

    #[test]
    fn the_worker_that_was_latest_is_named_with_how() {
        let words = late_words(8, 2, (4, Lateness::Slept(2_100_000)), " on node host2");
        assert_eq!(
            words,
            "2 of 8 workers were late: the latest, worker 4 on node host2, was woken 2.1 ms after it was to begin. The \
             round counts, and is marked"
        );
        let early = late_words(8, 1, (1, Lateness::Told(-300_000)), "");
        assert!(early.starts_with(
            "1 of 8 workers was late: worker 1, learnt of the instant only 300 µs before"
        ));
        let told = late_words(8, 1, (0, Lateness::Told(3_200_000_000)), "");
        assert!(told.contains("learnt of the instant 3.2 s after it was to begin"), "{told}");
    }

    #[test]
    fn one_command_or_several_are_outlived() {
        let one = "the command of 1 of 2 workers ended, and what it has started goes on";
        assert!(outlived_words(2, 1).starts_with(one));
        let both = "the commands of 2 of 2 workers ended, and what these have started goes on";
        assert!(outlived_words(2, 2).starts_with(both));
    }

    #[test]
    fn a_clock_is_set_forward_or_back() {
        let words = set_clock_words("node host2", -864_000_000_000_000);
        assert!(words.starts_with("the clock of node host2 was set back by 10 d. "), "{words}");
        assert!(set_clock_words("this machine", 1_000_000_000).contains("forward by 1.0 s"));
    }
}
