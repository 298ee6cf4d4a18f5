//! How long a plan will take: its tasks, with durations expected from earlier runs, laid out on so
//! many cores in the order in which a run might take them. Pure.
//!
//! It knows nothing of memory, devices and nodes, nor of what the machine does beside; so it is an
//! estimate and no promise.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use crate::history::Estimate;

/// One task of the plan.
#[derive(Debug, Clone, Default)]
pub struct PlannedWork {
    /// Its action would run.
    pub runs: bool,
    /// How long, as far as anything is known.
    pub duration: Option<Estimate>,
    /// Cores that it keeps busy, or as many as there are.
    pub cores: u32,
    /// What has to be done before it: positions in the plan, smaller than its own.
    pub prerequisites: Vec<u32>,
}

/// How long all of it will take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Forecast {
    /// All durations together.
    pub work_ns: u64,
    /// From start to end on the cores; not below `critical_ns`.
    pub wall_ns: u64,
    /// Two standard deviations below and above `wall_ns`; none where hardly anything was measured more than once.
    pub range_ns: Option<(u64, u64)>,
    /// The longest chain of tasks that wait for one another.
    pub critical_ns: u64,
    /// Tasks of which nothing is known; they count nothing above.
    pub unknown_tasks: usize,
}

/// Looks ahead. `turns`: where in the plan something begins that waits for all before it, from
/// small to large. `None`: nothing is known of any task that would run.
pub fn forecast(plan: &[PlannedWork], turns: &[u32], cores: u32) -> Option<Forecast> {
    let known = |task: &&PlannedWork| task.runs && task.duration.is_some();
    let unknown_tasks =
        plan.iter().filter(|task| task.runs).count() - plan.iter().filter(known).count();
    if !plan.iter().any(|task| known(&task)) {
        return None;
    }
    let work_ns = plan.iter().map(duration_ns).sum();
    let (mut critical, mut critical_ns, mut wall_ns) = (Vec::new(), 0, 0);
    for turn in turns_of(plan.len(), turns) {
        let chain = critical_path(plan, turn.clone());
        let chain_ns = chain.iter().map(|task| duration_ns(&plan[*task])).sum();
        wall_ns += lay_out(plan, turn, cores.max(1)).max(chain_ns);
        critical_ns += chain_ns;
        critical.extend(chain);
    }
    let range_ns = relative_deviation(plan, &critical, work_ns, critical_ns, wall_ns)
        .map(|relative| range(wall_ns, critical_ns, relative));
    Some(Forecast { work_ns, wall_ns, range_ns, critical_ns, unknown_tasks })
}

/// The parts of a plan that come one after the other.
fn turns_of(len: usize, turns: &[u32]) -> Vec<Range<usize>> {
    let begins = turns.iter().map(|turn| (*turn as usize).min(len));
    let bounds: Vec<usize> = std::iter::once(0).chain(begins).chain([len]).collect();
    bounds.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

/// What a task waits for within its turn, from the turn's first task on: what came before is done.
fn within<'a>(task: &'a PlannedWork, turn: &Range<usize>) -> impl Iterator<Item = usize> + use<'a> {
    let first = turn.start;
    task.prerequisites.iter().filter_map(move |p| (*p as usize).checked_sub(first))
}

fn duration_ns(task: &PlannedWork) -> u64 {
    task.duration.filter(|_| task.runs).map_or(0, |duration| duration.mean_ns)
}

/// The positions of the longest chain of a turn, the last first.
fn critical_path(plan: &[PlannedWork], turn: Range<usize>) -> Vec<usize> {
    let mut ends_ns: Vec<u64> = Vec::with_capacity(turn.len());
    let mut before: Vec<Option<usize>> = Vec::with_capacity(turn.len());
    for task in &plan[turn.clone()] {
        let latest = within(task, &turn).max_by_key(|p| (ends_ns[*p], Reverse(*p)));
        before.push(latest);
        ends_ns.push(latest.map_or(0, |p| ends_ns[p]) + duration_ns(task));
    }
    let last = (0..).zip(&ends_ns).max_by_key(|(id, end_ns)| (**end_ns, Reverse(*id)));
    let mut path: Vec<usize> = last.map(|(id, _)| id).into_iter().collect();
    while let Some(task) = path.last().and_then(|last| before[*last]) {
        path.push(task);
    }
    path.into_iter().map(|task| task + turn.start).collect()
}

/// When the last task of a turn ends, if each starts as soon as it is ready and there are cores,
/// those with more levels above them first.
fn lay_out(plan: &[PlannedWork], turn: Range<usize>, cores: u32) -> u64 {
    let ranks = ranks(plan, &turn);
    let mut dependents: Vec<Vec<u32>> = vec![Vec::new(); turn.len()];
    let mut missing: Vec<u32> = vec![0; turn.len()];
    for (id, task) in (0..).zip(&plan[turn.clone()]) {
        for prerequisite in within(task, &turn) {
            dependents[prerequisite].push(id);
            missing[id as usize] += 1;
        }
    }
    let plan = &plan[turn];
    let mut ready: BinaryHeap<(u32, Reverse<u32>)> = BinaryHeap::new();
    let roots = (0..).zip(&missing).filter(|(_, missing)| **missing == 0);
    ready.extend(roots.map(|(id, _)| (ranks[id as usize], Reverse(id))));
    let mut running: BinaryHeap<Reverse<(u64, u32, u32)>> = BinaryHeap::new();
    let (mut now_ns, mut free) = (0, cores);
    loop {
        while let Some(&(_, Reverse(id))) = ready.peek() {
            let task = &plan[id as usize];
            let takes_ns = duration_ns(task);
            let wanted = if takes_ns == 0 { 0 } else { task.cores.clamp(1, cores) };
            if wanted > free {
                break;
            }
            ready.pop();
            free -= wanted;
            running.push(Reverse((now_ns + takes_ns, id, wanted)));
        }
        let Some(Reverse((end_ns, id, held))) = running.pop() else { return now_ns };
        now_ns = end_ns;
        free += held;
        for dependent in &dependents[id as usize] {
            missing[*dependent as usize] -= 1;
            if missing[*dependent as usize] == 0 {
                ready.push((ranks[*dependent as usize], Reverse(*dependent)));
            }
        }
    }
}

/// 0 for a task without dependents, else 1 + the highest of theirs.
fn ranks(plan: &[PlannedWork], turn: &Range<usize>) -> Vec<u32> {
    let mut ranks = vec![0; turn.len()];
    for (id, task) in plan[turn.clone()].iter().enumerate().rev() {
        let below = ranks[id] + 1;
        for prerequisite in within(task, turn) {
            let place = &mut ranks[prerequisite];
            *place = below.max(*place);
        }
    }
    ranks
}

/// The standard deviation of the wall time as a share of it: the greater one of that of all the
/// work and that of the longest chain. None: of a tenth of the work or more nothing is known but
/// one measurement.
#[expect(clippy::cast_precision_loss, reason = "an estimate of an error")]
fn relative_deviation(
    plan: &[PlannedWork],
    critical: &[usize],
    work_ns: u64,
    critical_ns: u64,
    wall_ns: u64,
) -> Option<f64> {
    let runs = |task: &&PlannedWork| task.runs;
    let measured = |task: &PlannedWork| task.duration.is_some_and(|duration| duration.count > 1);
    let spread_ns: u64 = plan.iter().filter(|task| measured(task)).map(duration_ns).sum();
    if work_ns == 0 || spread_ns < work_ns - work_ns / 10 {
        return None;
    }
    let of_work = deviation_ns(plan.iter().filter(runs)) / work_ns as f64;
    let chain = critical.iter().map(|task| &plan[*task]).filter(runs);
    let of_chain = deviation_ns(chain) / wall_ns as f64;
    Some(if critical_ns * 2 > wall_ns { of_work.max(of_chain) } else { of_work })
}

/// Of a sum: that of the single durations, which vary independently, and that of the means that
/// they are taken from, which are wrong for all tasks of a kind at once.
#[expect(clippy::cast_precision_loss, reason = "an estimate of an error")]
fn deviation_ns<'a>(tasks: impl Iterator<Item = &'a PlannedWork>) -> f64 {
    let (mut squares, mut shared) = (0.0, 0.0);
    for duration in tasks.filter_map(|task| task.duration) {
        let deviation = duration.deviation_ns as f64;
        squares += deviation * deviation;
        shared += deviation / (duration.count as f64).sqrt();
    }
    (squares + shared * shared).sqrt()
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "an estimate; what is below zero becomes 0"
)]
fn range(wall_ns: u64, critical_ns: u64, relative: f64) -> (u64, u64) {
    let error_ns = (2.0 * relative * wall_ns as f64) as u64;
    // However quick the others are, the longest chain has to be gone through, and may itself be quicker.
    let quick_ns = (critical_ns as f64 * (1.0 - 2.0 * relative).max(0.0)) as u64;
    (wall_ns.saturating_sub(error_ns).max(quick_ns), wall_ns.saturating_add(error_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Basis;

    fn work(mean_ns: u64, deviation_ns: u64, prerequisites: &[u32]) -> PlannedWork {
        let duration = Estimate { mean_ns, deviation_ns, count: 100, from: Basis::Rule };
        let prerequisites = prerequisites.to_vec();
        PlannedWork { runs: true, duration: Some(duration), cores: 1, prerequisites }
    }

    #[test]
    fn independent_tasks_share_the_cores_and_a_chain_does_not() {
        let independent: Vec<_> = (0..10).map(|_| work(100, 0, &[])).collect();
        let four = forecast(&independent, &[], 4).unwrap();
        assert_eq!((four.work_ns, four.wall_ns, four.critical_ns), (1000, 300, 100));
        let chain: Vec<_> = (0..10_u32)
            .map(|n| work(100, 0, &n.checked_sub(1).map_or(vec![], |p| vec![p])))
            .collect();
        let four = forecast(&chain, &[], 4).unwrap();
        assert_eq!((four.work_ns, four.wall_ns, four.critical_ns), (1000, 1000, 1000));
    }

    #[test]
    fn what_does_not_run_takes_no_time_but_keeps_the_order() {
        let mut plan = vec![work(10, 0, &[]), work(99, 0, &[0]), work(10, 0, &[1])];
        plan[1].runs = false;
        assert_eq!(forecast(&plan, &[], 2).unwrap().wall_ns, 20);
    }

    #[test]
    fn what_waits_for_all_before_it_begins_when_they_have_ended() {
        let mut plan: Vec<_> = (0..4).map(|_| work(100, 0, &[])).collect();
        plan.push(work(100, 0, &[3]));
        assert_eq!(forecast(&plan, &[], 4).unwrap().wall_ns, 200);
        let turns = forecast(&plan, &[1, 3], 4).unwrap();
        assert_eq!((turns.work_ns, turns.wall_ns, turns.critical_ns), (500, 400, 400));
        // What was done in an earlier turn is not waited for.
        assert_eq!(forecast(&plan, &[4], 4).unwrap().wall_ns, 200);
        assert_eq!(forecast(&plan, &[5, 9], 4).unwrap().wall_ns, 200);
    }

    #[test]
    fn a_task_of_more_cores_than_there_are_takes_them_all() {
        let mut plan = vec![work(10, 0, &[]), work(10, 0, &[]), work(10, 0, &[])];
        plan[1].cores = 99;
        assert_eq!(forecast(&plan, &[], 2).unwrap().wall_ns, 30);
        plan[1].cores = 1;
        assert_eq!(forecast(&plan, &[], 2).unwrap().wall_ns, 20);
    }

    #[test]
    fn tasks_without_a_record_are_counted_and_nothing_is_made_up_for_them() {
        let unknown = PlannedWork { runs: true, cores: 1, ..PlannedWork::default() };
        assert_eq!(forecast(std::slice::from_ref(&unknown), &[], 1), None);
        let some = forecast(&[unknown, work(5, 0, &[0])], &[], 1).unwrap();
        assert_eq!((some.wall_ns, some.unknown_tasks), (5, 1));
    }

    #[test]
    fn the_range_is_left_out_where_hardly_anything_was_measured_twice() {
        let spread: Vec<_> = (0..100).map(|_| work(1000, 100, &[])).collect();
        let known = forecast(&spread, &[], 1).unwrap();
        // 100 durations with a deviation of 100 each, 1000 together; and a mean that is 10 off for
        // each of them, 1000 together.
        assert_eq!(known.range_ns, Some((100_000 - 2828, 100_000 + 2828)));
        let mut once = spread;
        for task in &mut once[..20] {
            task.duration = Some(Estimate { count: 1, deviation_ns: 0, ..task.duration.unwrap() });
        }
        assert_eq!(forecast(&once, &[], 1).unwrap().range_ns, None);
    }

    #[test]
    fn a_chain_of_100_000_and_a_fan_of_100_000_are_laid_out() {
        let chain: Vec<_> = (0..100_000_u32)
            .map(|n| work(1, 0, &n.checked_sub(1).map_or(vec![], |p| vec![p])))
            .collect();
        assert_eq!(forecast(&chain, &[], 8).unwrap().wall_ns, 100_000);
        let mut fan: Vec<_> = (0..100_000).map(|_| work(8, 0, &[])).collect();
        fan.push(work(1, 0, &(0..100_000).collect::<Vec<_>>()));
        assert_eq!(forecast(&fan, &[], 8).unwrap().wall_ns, 100_001);
    }
}
