//! The critical path: the chain of tasks, each a prerequisite of the next, whose attempts took longest together.
//!
//! With any number of cores the run could not have been faster than this chain, as long as its
//! tasks take what they took. Tasks without an action are links of the chain and take no time.

use crate::run::Run;
use crate::summary::graph::prerequisites;
use crate::summary::spans::Span;

/// The longest chain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CriticalPath {
    /// Tasks with an attempt, first to last.
    pub tasks: Vec<u32>,
    /// Their attempts together.
    pub work_ns: i64,
    /// From the run's start to the end of the chain's last task, less the work: nothing of the chain ran then.
    pub waiting_ns: i64,
    /// From the end of its last task to the end of the run.
    pub after_ns: i64,
}

impl CriticalPath {
    /// Of a run; `order` is [`crate::summary::graph::in_order`], `span_ns` the time of each task's attempts, by number.
    pub fn of(run: &Run, order: &[u32], spans: &[Span], start_ns: i64, end_ns: i64) -> Self {
        let mut work_ns = vec![0; run.tasks.len()];
        let mut last_ns = vec![i64::MIN; run.tasks.len()];
        for span in spans {
            work_ns[span.task as usize] += span.duration_ns();
            last_ns[span.task as usize] = last_ns[span.task as usize].max(span.end_ns);
        }
        let Some((last, before)) = longest(run, order, &work_ns, &last_ns) else {
            return Self::default();
        };
        let mut path = Self::default();
        let mut next = Some(last);
        while let Some(number) = next {
            if last_ns[number as usize] > i64::MIN {
                path.tasks.push(number);
                path.work_ns += work_ns[number as usize];
            }
            next = before[number as usize];
        }
        path.tasks.reverse();
        let ended_ns = path.tasks.last().map_or(start_ns, |task| last_ns[*task as usize]);
        path.waiting_ns = (ended_ns - start_ns - path.work_ns).max(0);
        path.after_ns = (end_ns - ended_ns).max(0);
        path
    }
}

/// The last task of the longest chain, and which prerequisite comes before each task on the longest
/// chain to it. Equally long ones: that which ended last, since that is the one that was waited
/// for.
fn longest(
    run: &Run,
    order: &[u32],
    work_ns: &[i64],
    last_ns: &[i64],
) -> Option<(u32, Vec<Option<u32>>)> {
    let mut chain_ns = vec![0; run.tasks.len()];
    let mut chain_end_ns = vec![i64::MIN; run.tasks.len()];
    let mut before = vec![None; run.tasks.len()];
    for &number in order {
        let Some(task) = &run.tasks[number as usize] else { continue };
        let index = number as usize;
        let longest = prerequisites(task)
            .filter(|before| matches!(run.tasks.get(*before as usize), Some(Some(_))))
            .max_by_key(|&before| (chain_ns[before as usize], chain_end_ns[before as usize]));
        before[index] = longest;
        chain_ns[index] = work_ns[index] + longest.map_or(0, |before| chain_ns[before as usize]);
        let earlier_ns = longest.map_or(i64::MIN, |before| chain_end_ns[before as usize]);
        chain_end_ns[index] = last_ns[index].max(earlier_ns);
    }
    let last = order
        .iter()
        .copied()
        .filter(|&number| chain_end_ns[number as usize] > i64::MIN)
        .max_by_key(|&number| (chain_ns[number as usize], chain_end_ns[number as usize]))?;
    Some((last, without_cycles(before, order)))
}

/// A prerequisite that stands later in the order is the back edge of a cycle, which only a damaged journal has.
fn without_cycles(mut before: Vec<Option<u32>>, order: &[u32]) -> Vec<Option<u32>> {
    let mut place = vec![0; before.len()];
    for (index, &number) in order.iter().enumerate() {
        place[number as usize] = index;
    }
    for &number in order {
        let index = number as usize;
        before[index] = before[index].filter(|before| place[*before as usize] < place[index]);
    }
    before
}
