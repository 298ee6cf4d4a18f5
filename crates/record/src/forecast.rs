//! How long a plan will take: its tasks, with durations expected from earlier runs, laid out on so many cores in the order in
//! which a run might take them. Pure.
//!
//! It knows nothing of memory, devices and nodes, nor of what the machine does beside; so it is an estimate and no promise.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

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

/// Looks ahead. `None`: nothing is known of any task that would run.
pub fn forecast(plan: &[PlannedWork], cores: u32) -> Option<Forecast> {
    let known = |task: &&PlannedWork| task.runs && task.duration.is_some();
    let unknown_tasks =
        plan.iter().filter(|task| task.runs).count() - plan.iter().filter(known).count();
    if !plan.iter().any(|task| known(&task)) {
        return None;
    }
    let work_ns = plan.iter().map(duration_ns).sum();
    let critical = critical_path(plan);
    let critical_ns = critical.iter().map(|task| duration_ns(&plan[*task as usize])).sum();
    let wall_ns = lay_out(plan, cores.max(1)).max(critical_ns);
    let range_ns = relative_deviation(plan, &critical, work_ns, critical_ns, wall_ns)
        .map(|relative| range(wall_ns, critical_ns, relative));
    Some(Forecast { work_ns, wall_ns, range_ns, critical_ns, unknown_tasks })
}

fn duration_ns(task: &PlannedWork) -> u64 {
    task.duration.filter(|_| task.runs).map_or(0, |duration| duration.mean_ns)
}

/// The positions of the longest chain, the last first.
fn critical_path(plan: &[PlannedWork]) -> Vec<u32> {
    let mut ends_ns: Vec<u64> = Vec::with_capacity(plan.len());
    let mut before: Vec<Option<u32>> = Vec::with_capacity(plan.len());
    for task in plan {
        let latest =
            task.prerequisites.iter().max_by_key(|p| (ends_ns[**p as usize], Reverse(**p)));
        before.push(latest.copied());
        ends_ns.push(latest.map_or(0, |p| ends_ns[*p as usize]) + duration_ns(task));
    }
    let last = (0..).zip(&ends_ns).max_by_key(|(id, end_ns)| (**end_ns, Reverse(*id)));
    let mut path: Vec<u32> = last.map(|(id, _)| id).into_iter().collect();
    while let Some(task) = path.last().and_then(|last| before[*last as usize]) {
        path.push(task);
    }
    path
}

/// When the last task ends, if each starts as soon as it is ready and there are cores, those with more levels above them first.
fn lay_out(plan: &[PlannedWork], cores: u32) -> u64 {
    let ranks = ranks(plan);
    let mut dependents: Vec<Vec<u32>> = vec![Vec::new(); plan.len()];
    let mut missing: Vec<u32> = vec![0; plan.len()];
    for (id, task) in (0..).zip(plan) {
        for prerequisite in &task.prerequisites {
            dependents[*prerequisite as usize].push(id);
            missing[id as usize] += 1;
        }
    }
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
fn ranks(plan: &[PlannedWork]) -> Vec<u32> {
    let mut ranks = vec![0; plan.len()];
    for (id, task) in plan.iter().enumerate().rev() {
        let below = ranks[id] + 1;
        for prerequisite in &task.prerequisites {
            let place = &mut ranks[*prerequisite as usize];
            *place = below.max(*place);
        }
    }
    ranks
}

/// The standard deviation of the wall time as a share of it: the greater one of that of all the work and that of the longest
/// chain. None: of a tenth of the work or more nothing is known but one measurement.
#[expect(clippy::cast_precision_loss, reason = "an estimate of an error")]
fn relative_deviation(
    plan: &[PlannedWork],
    critical: &[u32],
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
    let chain = critical.iter().map(|task| &plan[*task as usize]).filter(runs);
    let of_chain = deviation_ns(chain) / wall_ns as f64;
    Some(if critical_ns * 2 > wall_ns { of_work.max(of_chain) } else { of_work })
}

/// Of a sum: that of the single durations, which vary independently, and that of the means that they are taken from, which are wrong for
/// all tasks of a kind at once.
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
        let four = forecast(&independent, 4).unwrap();
        assert_eq!((four.work_ns, four.wall_ns, four.critical_ns), (1000, 300, 100));
        let chain: Vec<_> = (0..10_u32)
            .map(|n| work(100, 0, &n.checked_sub(1).map_or(vec![], |p| vec![p])))
            .collect();
        let four = forecast(&chain, 4).unwrap();
        assert_eq!((four.work_ns, four.wall_ns, four.critical_ns), (1000, 1000, 1000));
    }

    #[test]
    fn what_does_not_run_takes_no_time_but_keeps_the_order() {
        let mut plan = vec![work(10, 0, &[]), work(99, 0, &[0]), work(10, 0, &[1])];
        plan[1].runs = false;
        assert_eq!(forecast(&plan, 2).unwrap().wall_ns, 20);
    }

    #[test]
    fn a_task_of_more_cores_than_there_are_takes_them_all() {
        let mut plan = vec![work(10, 0, &[]), work(10, 0, &[]), work(10, 0, &[])];
        plan[1].cores = 99;
        assert_eq!(forecast(&plan, 2).unwrap().wall_ns, 30);
        plan[1].cores = 1;
        assert_eq!(forecast(&plan, 2).unwrap().wall_ns, 20);
    }

    #[test]
    fn tasks_without_a_record_are_counted_and_nothing_is_made_up_for_them() {
        let unknown = PlannedWork { runs: true, cores: 1, ..PlannedWork::default() };
        assert_eq!(forecast(std::slice::from_ref(&unknown), 1), None);
        let some = forecast(&[unknown, work(5, 0, &[0])], 1).unwrap();
        assert_eq!((some.wall_ns, some.unknown_tasks), (5, 1));
    }

    #[test]
    fn the_range_is_left_out_where_hardly_anything_was_measured_twice() {
        let spread: Vec<_> = (0..100).map(|_| work(1000, 100, &[])).collect();
        let known = forecast(&spread, 1).unwrap();
        // 100 durations with a deviation of 100 each, 1000 together; and a mean that is 10 off for each of them, 1000 together.
        assert_eq!(known.range_ns, Some((100_000 - 2828, 100_000 + 2828)));
        let mut once = spread;
        for task in &mut once[..20] {
            task.duration = Some(Estimate { count: 1, deviation_ns: 0, ..task.duration.unwrap() });
        }
        assert_eq!(forecast(&once, 1).unwrap().range_ns, None);
    }

    #[test]
    fn a_chain_of_100_000_and_a_fan_of_100_000_are_laid_out() {
        let chain: Vec<_> = (0..100_000_u32)
            .map(|n| work(1, 0, &n.checked_sub(1).map_or(vec![], |p| vec![p])))
            .collect();
        assert_eq!(forecast(&chain, 8).unwrap().wall_ns, 100_000);
        let mut fan: Vec<_> = (0..100_000).map(|_| work(8, 0, &[])).collect();
        fan.push(work(1, 0, &(0..100_000).collect::<Vec<_>>()));
        assert_eq!(forecast(&fan, 8).unwrap().wall_ns, 100_001);
    }
}
