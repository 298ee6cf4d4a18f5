//! How long the rest of a run takes, and how sure that is. Pure: from counts and durations to a span of time.
//!
//! The work that is left, shared out to as many cores as have been kept busy so far; never less
//! than the longest single task. Chains of tasks are not followed: that would cost a walk over the
//! graph each time, and the longest of them is seldom known before it runs.

/// Minimum number of measured tasks of a kind for an estimate.
const SAMPLES_MIN: u64 = 1;
/// Uncertainty of a duration that was measured only once, as a share of it.
const SINGLE_DEVIATION: f64 = 0.5;
/// Minimum distance of the bounds that is worth showing, as a share of the time left.
const INTERVAL_MIN: f64 = 0.15;

/// What is known of how long tasks of a kind take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Known {
    pub mean_ns: f64,
    pub deviation_ns: f64,
    pub count: u64,
}

/// Tasks of one kind that are not done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct KindLeft {
    /// Those that run among them.
    pub remaining: u64,
    pub known: Option<Known>,
}

/// A task that runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RunningTask {
    pub elapsed_ns: f64,
    pub known: Option<Known>,
}

/// All that the estimate rests on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Load {
    pub kinds: Vec<KindLeft>,
    pub running: Vec<RunningTask>,
    pub cores: f64,
    /// Cores that were kept busy on average, when enough has run to tell.
    pub busy_cores: Option<f64>,
}

/// The answer, in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TimeLeft {
    pub left_ns: u64,
    pub low_ns: u64,
    pub high_ns: u64,
    /// Tasks of kinds of which nothing is known; the time is only of the others then.
    pub unknown: u64,
}

impl TimeLeft {
    /// Whether the bounds are so far apart that they are worth telling.
    pub fn is_uncertain(&self) -> bool {
        (self.high_ns - self.low_ns) as f64 > INTERVAL_MIN * self.left_ns as f64
    }
}

/// The time left; `None`: no number could be based on what is known, or nothing is left.
pub(crate) fn time_left(load: &Load) -> Option<TimeLeft> {
    let (mut work, mut variance, mut longest) = (0.0, 0.0, 0.0_f64);
    let (mut unknown, mut known_tasks) = (0, 0);
    for kind in &load.kinds {
        let Some(known) = kind.known.filter(|known| known.count >= SAMPLES_MIN) else {
            unknown += kind.remaining;
            continue;
        };
        let remaining = kind.remaining as f64;
        let deviation = deviation_of(known);
        known_tasks += kind.remaining;
        work += remaining * known.mean_ns;
        // Each differs by itself, and the mean that all share is itself uncertain.
        variance += remaining * deviation.powi(2)
            + (remaining * deviation).powi(2) / known.count.max(1) as f64;
        if kind.remaining > 0 {
            let running = load.running.iter().filter(|task| task.known == kind.known).count();
            if kind.remaining > running as u64 {
                longest = longest.max(known.mean_ns);
            }
        }
    }
    for task in &load.running {
        let Some(known) = task.known else { continue };
        let rest = if task.elapsed_ns < known.mean_ns {
            known.mean_ns - task.elapsed_ns
        } else {
            // It runs longer than the others did already: how much longer is unknown.
            deviation_of(known).max(task.elapsed_ns / 10.0)
        };
        work += rest - known.mean_ns;
        longest = longest.max(rest);
    }
    if known_tasks == 0 {
        return None;
    }
    let cores = load.cores.max(1.0);
    let busy = load.busy_cores.map_or(cores, |busy| busy.max(0.5));
    let (fast, slow) = (cores.max(busy), cores.min(busy).max(busy.min(1.0)));
    let usual = load.busy_cores.map_or(cores, |busy| f64::midpoint(busy, fast));
    let spread = 2.0 * variance.sqrt();
    let span = |work: f64, cores: f64| ns((work.max(0.0) / cores).max(longest));
    let left_ns = span(work, usual);
    let low_ns = ns(((work - spread).max(0.0) / fast).max(longest * 0.8)).min(left_ns);
    let high_ns = span(work + spread, slow.min(usual)).max(left_ns);
    Some(TimeLeft { left_ns, low_ns, high_ns, unknown })
}

fn deviation_of(known: Known) -> f64 {
    if known.count < 2 { known.mean_ns * SINGLE_DEVIATION } else { known.deviation_ns }
}

#[expect(clippy::cast_sign_loss, reason = "never below 0")]
fn ns(value: f64) -> u64 {
    value.max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: f64 = 1e9;

    #[expect(clippy::unnecessary_wraps, reason = "as the fields want it")]
    fn known(mean_s: f64, deviation_s: f64, count: u64) -> Option<Known> {
        let deviation_ns = deviation_s * SECOND;
        Some(Known { mean_ns: mean_s * SECOND, deviation_ns, count })
    }

    fn seconds(ns: u64) -> u64 {
        (ns + 500_000_000) / 1_000_000_000
    }

    #[test]
    fn equal_tasks_are_shared_out_to_the_cores() {
        let kinds = vec![KindLeft { remaining: 100, known: known(2.0, 0.0, 50) }];
        let left = time_left(&Load { kinds, cores: 4.0, ..Load::default() }).unwrap();
        assert_eq!((seconds(left.left_ns), left.unknown), (50, 0));
        assert!(!left.is_uncertain());
    }

    #[test]
    fn it_never_ends_before_its_longest_task() {
        let kinds = vec![
            KindLeft { remaining: 10, known: known(1.0, 0.0, 9) },
            KindLeft { remaining: 1, known: known(60.0, 1.0, 9) },
        ];
        let left = time_left(&Load { kinds, cores: 8.0, ..Load::default() }).unwrap();
        assert_eq!(seconds(left.left_ns), 60);
    }

    #[test]
    fn what_runs_has_part_of_its_time_behind_it() {
        let kind = known(60.0, 0.0, 9);
        let kinds = vec![KindLeft { remaining: 1, known: kind }];
        let running = vec![RunningTask { elapsed_ns: 45.0 * SECOND, known: kind }];
        let left = time_left(&Load { kinds, running, cores: 2.0, ..Load::default() }).unwrap();
        assert_eq!(seconds(left.left_ns), 15);
    }

    #[test]
    fn a_task_that_overruns_is_not_thought_to_end_at_once() {
        let kind = known(10.0, 1.0, 9);
        let kinds = vec![KindLeft { remaining: 1, known: kind }];
        let running = vec![RunningTask { elapsed_ns: 100.0 * SECOND, known: kind }];
        let left = time_left(&Load { kinds, running, cores: 2.0, ..Load::default() }).unwrap();
        assert_eq!(seconds(left.left_ns), 10);
    }

    #[test]
    fn scattered_durations_give_a_wide_interval() {
        let kinds = vec![KindLeft { remaining: 20, known: known(3.0, 3.0, 4) }];
        let left = time_left(&Load { kinds, cores: 2.0, ..Load::default() }).unwrap();
        assert!(left.is_uncertain());
        assert!(seconds(left.low_ns) < 20 && seconds(left.high_ns) > 50, "{left:?}");
    }

    #[test]
    fn cores_that_were_idle_so_far_make_the_upper_bound_higher() {
        let kinds = vec![KindLeft { remaining: 80, known: known(1.0, 0.0, 100) }];
        let load = Load { kinds, cores: 8.0, busy_cores: Some(2.0), ..Load::default() };
        let left = time_left(&load).unwrap();
        assert_eq!([left.low_ns, left.left_ns, left.high_ns].map(seconds), [10, 16, 40]);
    }

    #[test]
    fn unknown_kinds_are_counted_and_alone_give_no_number() {
        let unknown = KindLeft { remaining: 40, known: None };
        let kinds = vec![unknown, KindLeft { remaining: 10, known: known(1.0, 0.0, 5) }];
        let load = Load { kinds, cores: 1.0, ..Load::default() };
        assert_eq!(time_left(&load).unwrap().unknown, 40);
        assert_eq!(time_left(&Load { kinds: vec![unknown], ..load }), None);
    }
}
