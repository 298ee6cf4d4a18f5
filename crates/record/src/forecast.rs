//! How long a plan will take: its tasks, with durations expected from earlier runs, laid out on a number of cores in
//! the order in which a run might take them. Pure.
//!
//! It knows nothing of memory, devices and nodes, nor of what else the machine does; so it is an estimate and no
//! promise.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
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
    /// The gang in which it begins and ends with others, by number; they share cores where there are too few.
    pub gang: Option<u32>,
    /// Cores that were asked for, for each that there was, where `duration` was measured, thousandths; 0: not known.
    pub shared_milli: u64,
}

/// How long all of it will take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Forecast {
    /// All durations together; of tasks that share cores each as much as is its part of them.
    pub work_ns: u64,
    /// From start to end on the cores; not below `critical_ns`.
    pub wall_ns: u64,
    /// Two standard deviations below and above `wall_ns`. `None` where hardly anything was measured more than once.
    pub range_ns: Option<(u64, u64)>,
    /// The longest chain of tasks that wait for one another.
    pub critical_ns: u64,
    /// Tasks of which nothing is known; they count nothing above.
    pub unknown_tasks: usize,
}

/// Tasks of a gang that would share cores.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sharing {
    /// Positions in the plan.
    pub tasks: Vec<u32>,
    /// That they ask for.
    pub cores: u64,
}

/// Gangs that ask for more cores than there are.
pub fn sharing(plan: &[PlannedWork], cores: u32) -> Vec<Sharing> {
    let mut gangs: BTreeMap<u32, Sharing> = BTreeMap::new();
    for (place, task) in (0..).zip(plan).filter(|(_, task)| task.runs) {
        let Some(gang) = task.gang else { continue };
        let sharing = gangs.entry(gang).or_default();
        sharing.tasks.push(place);
        sharing.cores += u64::from(task.cores.clamp(1, cores.max(1)));
    }
    gangs.into_values().filter(|gang| gang.cores > u64::from(cores.max(1))).collect()
}

/// What becomes of durations where cores are shared otherwise than when they were measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stretch {
    /// They stay: tasks wait for one another rather than compute.
    Less,
    /// They become longer or shorter in proportion: tasks compute all the time.
    Whole,
    /// The longer of both.
    More,
}

/// Cores that are asked for, for each that there is, where each task of a plan would run; thousandths.
fn shared_now(plan: &[PlannedWork], cores: u32) -> Vec<u64> {
    let mut now_milli = vec![1_000; plan.len()];
    for gang in sharing(plan, cores) {
        for task in gang.tasks {
            now_milli[task as usize] = gang.cores * 1_000 / u64::from(cores.max(1));
        }
    }
    now_milli
}

/// The same where its duration was measured; where that is not known, as it would be now.
fn shared_then(task: &PlannedWork, now_milli: u64) -> u64 {
    if task.gang.is_none() {
        1_000
    } else if task.shared_milli == 0 {
        now_milli
    } else {
        task.shared_milli.max(1_000)
    }
}

/// All durations together, of tasks that share cores their parts.
fn work_ns(plan: &[PlannedWork], cores: u32) -> u64 {
    let now = shared_now(plan, cores);
    let of_task = |(task, now): (&PlannedWork, u64)| {
        let work = u128::from(duration_ns(task)) * 1_000 / u128::from(shared_then(task, now));
        u64::try_from(work).unwrap_or(u64::MAX)
    };
    plan.iter().zip(now).map(of_task).sum()
}

/// The plan with durations for the cores that there are. `None`: all stay as they were measured.
fn stretched(plan: &[PlannedWork], cores: u32, how: Stretch) -> Option<Vec<PlannedWork>> {
    let now_milli = shared_now(plan, cores);
    let mut changed = false;
    let mut plan = plan.to_vec();
    for (task, now) in plan.iter_mut().zip(now_milli) {
        let then = shared_then(task, now);
        let Some(duration) = task.duration.as_mut().filter(|_| task.gang.is_some()) else {
            continue;
        };
        let scaled = u128::from(duration.mean_ns) * u128::from(now) / u128::from(then);
        let scaled = u64::try_from(scaled).unwrap_or(u64::MAX);
        changed |= scaled != duration.mean_ns;
        duration.mean_ns = match how {
            Stretch::Less => scaled.min(duration.mean_ns),
            Stretch::Whole => scaled,
            Stretch::More => scaled.max(duration.mean_ns),
        };
    }
    changed.then_some(plan)
}

/// Looks ahead. `turns`: where in the plan something begins that waits for all before it, from
/// small to large. `None`: nothing is known of any task that would run.
pub fn forecast(plan: &[PlannedWork], turns: &[u32], cores: u32) -> Option<Forecast> {
    let measured = Forecast { work_ns: work_ns(plan, cores), ..laid_out(plan, turns, cores)? };
    let Some(scaled) = stretched(plan, cores, Stretch::Whole) else { return Some(measured) };
    let whole = laid_out(&scaled, turns, cores)?;
    let bound = |how| {
        let plan = stretched(plan, cores, how)?;
        Some(laid_out(&plan, turns, cores)?.wall_ns)
    };
    let (low_ns, high_ns) = (bound(Stretch::Less)?, bound(Stretch::More)?);
    let (from_ns, to_ns) = whole.range_ns.unwrap_or((whole.wall_ns, whole.wall_ns));
    let range_ns = Some((from_ns.min(low_ns), to_ns.max(high_ns)));
    Some(Forecast { work_ns: measured.work_ns, range_ns, ..whole })
}

/// With durations as they stand in the plan.
fn laid_out(plan: &[PlannedWork], turns: &[u32], cores: u32) -> Option<Forecast> {
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
    let mut gangs = GangsLaidOut::new(plan);
    let mut ready: BinaryHeap<(u32, Reverse<u32>)> = BinaryHeap::new();
    let roots = (0..).zip(&missing).filter(|(_, missing)| **missing == 0);
    let roots = roots.filter_map(|(id, _)| gangs.on_ready(plan, id));
    ready.extend(roots.map(|id| (ranks[id as usize], Reverse(id))));
    let mut running: BinaryHeap<Reverse<(u64, u32, u32)>> = BinaryHeap::new();
    let (mut now_ns, mut free) = (0, cores);
    loop {
        while let Some(&(_, Reverse(id))) = ready.peek() {
            let members = gangs.members(plan, id);
            let of = |id: &u32| wanted_by(&plan[*id as usize], cores);
            // Where they share cores they take all that there are.
            let wanted = members.iter().map(|id| u64::from(of(id))).sum::<u64>();
            if wanted.min(u64::from(cores)) > u64::from(free) {
                break;
            }
            ready.pop();
            for member in members {
                let takes_ns = duration_ns(&plan[member as usize]);
                let held = of(&member).min(free);
                free -= held;
                running.push(Reverse((now_ns + takes_ns, member, held)));
            }
        }
        let Some(Reverse((end_ns, id, held))) = running.pop() else { return now_ns };
        now_ns = end_ns;
        free += held;
        for done in gangs.on_ended(plan, id) {
            for dependent in &dependents[done as usize] {
                missing[*dependent as usize] -= 1;
                if missing[*dependent as usize] == 0
                    && let Some(next) = gangs.on_ready(plan, *dependent)
                {
                    ready.push((ranks[next as usize], Reverse(next)));
                }
            }
        }
    }
}

/// Cores that a task keeps busy.
fn wanted_by(task: &PlannedWork, cores: u32) -> u32 {
    if duration_ns(task) == 0 { 0 } else { task.cores.clamp(1, cores) }
}

/// Gangs of a turn: by number their tasks that would run, and how many of these are not ready, and have not ended.
struct GangsLaidOut(BTreeMap<u32, (Vec<u32>, usize, usize)>);

impl GangsLaidOut {
    fn new(plan: &[PlannedWork]) -> Self {
        let mut gangs: BTreeMap<u32, (Vec<u32>, usize, usize)> = BTreeMap::new();
        for (id, task) in (0..).zip(plan) {
            if let Some(gang) = gang_of(task) {
                let (members, unready, left) = gangs.entry(gang).or_default();
                members.push(id);
                *unready += 1;
                *left += 1;
            }
        }
        Self(gangs)
    }

    /// Notes that a task has nothing to wait for, and returns the one with which it begins, if it may.
    fn on_ready(&mut self, plan: &[PlannedWork], id: u32) -> Option<u32> {
        let Some(gang) = gang_of(&plan[id as usize]) else { return Some(id) };
        let (members, unready, _) = self.0.get_mut(&gang)?;
        *unready -= 1;
        (*unready == 0).then(|| members[0])
    }

    /// Those that begin together.
    fn members(&self, plan: &[PlannedWork], id: u32) -> Vec<u32> {
        let gang = gang_of(&plan[id as usize]).and_then(|gang| self.0.get(&gang));
        gang.map_or_else(|| vec![id], |(members, ..)| members.clone())
    }

    /// Notes that a task has ended, and returns those that are done with it.
    fn on_ended(&mut self, plan: &[PlannedWork], id: u32) -> Vec<u32> {
        let gang = gang_of(&plan[id as usize]).and_then(|gang| self.0.get_mut(&gang));
        let Some((members, _, left)) = gang else { return vec![id] };
        *left -= 1;
        if *left == 0 { members.clone() } else { Vec::new() }
    }
}

fn gang_of(task: &PlannedWork) -> Option<u32> {
    task.gang.filter(|_| task.runs)
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

/// The standard deviation of the wall time as a share of it: the greater one of that of all the work and that of the
/// longest chain. `None`: of a tenth of the work or more nothing is known but one measurement.
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
        PlannedWork {
            runs: true,
            duration: Some(duration),
            cores: 1,
            prerequisites,
            ..PlannedWork::default()
        }
    }

    /// Tasks that begin together, each as long as `mean_ns` says.
    fn gang(means_ns: &[u64], shared_milli: u64) -> Vec<PlannedWork> {
        let member = |mean_ns| PlannedWork { gang: Some(7), shared_milli, ..work(mean_ns, 0, &[]) };
        means_ns.iter().map(|mean_ns| member(*mean_ns)).collect()
    }

    #[test]
    fn tasks_of_a_gang_run_at_one_time_however_few_cores_there_are() {
        // They shared two cores when they were measured, too.
        let mut plan = gang(&[400, 400, 400, 300], 2_000);
        plan.push(work(100, 0, &[3]));
        let two = forecast(&plan, &[], 2).unwrap();
        assert_eq!((two.work_ns, two.wall_ns, two.range_ns), (850, 500, Some((500, 500))));
        assert!(two.work_ns <= 2 * two.wall_ns, "more than two cores can do in that time");
        assert_eq!(sharing(&plan, 2), [Sharing { tasks: vec![0, 1, 2, 3], cores: 4 }]);
        assert_eq!(sharing(&plan, 4), []);
        // It begins when all that one of them waits for is done, and on all cores.
        plan.insert(0, work(50, 0, &[]));
        let plan: Vec<_> = plan
            .into_iter()
            .map(|mut task| {
                task.prerequisites.iter_mut().for_each(|id| *id += 1);
                task
            })
            .collect();
        assert_eq!(forecast(&plan, &[], 2).unwrap().wall_ns, 550);
    }

    #[test]
    fn what_was_measured_on_other_cores_takes_longer_or_shorter_as_far_as_it_computes() {
        let own = gang(&[100, 100, 100, 50], 1_000);
        let four = forecast(&own, &[], 4).unwrap();
        assert_eq!((four.wall_ns, four.range_ns), (100, Some((100, 100))));
        let two = forecast(&own, &[], 2).unwrap();
        assert_eq!((two.work_ns, two.wall_ns, two.range_ns), (350, 200, Some((100, 200))));
        let one = forecast(&gang(&[100, 100, 100, 50], 2_000), &[], 4).unwrap();
        assert_eq!((one.wall_ns, one.range_ns), (50, Some((50, 100))));
        // Where nobody knows, it takes as long as it did.
        assert_eq!(forecast(&gang(&[100, 100], 0), &[], 1).unwrap().wall_ns, 100);
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
