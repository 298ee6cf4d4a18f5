//! What a seed stands for: a small workflow, a small cluster, and settings of the scheduler.
//!
//! Draws, and knows nothing of what goes wrong later.

use std::collections::BTreeSet;
use std::iter;

use rakuda_core::{Config, FailurePolicy, Oversubscribe, Policy};

use crate::random::{Purpose, Random};
use crate::units::SECOND_NS;

/// First seed that also draws actions that invoke tasks, and leaders. Runs of lower seeds, which have been named, stay
/// as they are.
const LATER_SEEDS: u64 = 1_000_000_000;

/// Those from here on stage files in to nodes with little room, and streams join most of the tasks.
const JOINED_SEEDS: u64 = 2_000_000_000;

/// A task: its file is made from the files of others.
#[derive(Clone, Debug)]
pub(crate) struct TaskPlan {
    pub(crate) inputs: Vec<u32>,
    /// False: a file that the workflow starts from.
    pub(crate) has_action: bool,
    pub(crate) run_ns: u64,
    /// Commands that its action has started, and whether all but the last run at one time.
    pub(crate) commands: u32,
    pub(crate) together: bool,
    /// As many as it needs, or all of a smaller node.
    pub(crate) cores: u32,
    /// Attempts that fail or hang, no more than there are retries.
    pub(crate) troubles: u32,
    /// Where the file of a task without action lies, if files lie on nodes.
    pub(crate) place: u32,
    /// A file behind its inputs that its commands read, too.
    pub(crate) behind: Option<u32>,
    /// The task that its action may wait for in the middle.
    pub(crate) calls: Option<u32>,
}

#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) tasks: Vec<TaskPlan>,
    /// Tasks that begin together, and whether there may be more of them than slots.
    pub(crate) gangs: Vec<(Vec<u32>, Oversubscribe)>,
    /// Streams join the tasks of each.
    pub(crate) joined: bool,
    /// Cores of each node.
    pub(crate) cores: Vec<u32>,
    pub(crate) config: Config,
    /// The file system is shared, or files lie on nodes.
    pub(crate) shared: bool,
    /// Files lie on nodes, and servers of their own hand them out.
    pub(crate) gfarm: Option<GfarmScenario>,
    /// Actions are so short that more of them are begun than there are cores.
    pub(crate) short: bool,
    /// Some tasks need two cores: nothing is begun early.
    pub(crate) wide: bool,
    /// When the user stops the run, and after how long again, at once.
    pub(crate) stop: Option<(u64, Option<u64>)>,
    /// How long messages take there and back, as far as the hub knows: long ones have commands sent to nodes early.
    pub(crate) trip_ns: u64,
    /// How long a task that failed waits before it is tried again.
    pub(crate) retry_delay_ns: u64,
    /// Copies on a node take no more than that, where files are staged in.
    pub(crate) room_bytes: u64,
    /// Each node looks at targets that were made there. Where files are staged in, all do.
    pub(crate) inspects: bool,
    /// Some actions wait for tasks that they invoke.
    pub(crate) calls: bool,
    /// Number of leaders that nodes are behind, in turn; 0 if the hub reaches each node by itself.
    pub(crate) leaders: u32,
    /// When things stop going wrong.
    pub(crate) heals_ns: u64,
    /// Mean time between two faults.
    pub(crate) between_ns: u64,
}

/// Files in Gfarm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GfarmScenario {
    /// Number of hosts that have a file server: all nodes, and perhaps one that is no node.
    pub(crate) hosts: u32,
    /// Maximum time for which the catalogue takes a host that is gone for up, ns.
    pub(crate) noticed_ns_max: u64,
}

impl Scenario {
    pub(crate) fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed, Purpose::Scenario);
        let nodes = 1 + random.below(6) as usize;
        let retry = 1 + random.below(3) as u32;
        let joined = seed >= JOINED_SEEDS;
        let shared = random.below(3) == 0 && !joined;
        let mut config = Config {
            policy: Policy::ALL[random.below(Policy::ALL.len() as u64) as usize],
            failure: FailurePolicy::Wait,
            retry,
            locality: random.below(2) == 0,
            stealing: random.below(2) == 0,
            files_on_nodes: !shared,
            files_apart: false,
            // A seed is to be finished, whatever is lost how often.
            blame_after: 0,
            drain_after: random.below(4) as u32,
            seed,
            ..Config::default()
        };
        let short = random.below(3) == 0;
        let mut tasks = draw_tasks(&mut random, nodes as u64, retry, if short { 24 } else { 8 });
        let cores: Vec<u32> = (0..nodes).map(|_| 1 + random.below(4) as u32).collect();
        let mut heals_ns = (30 + random.below(270)) * SECOND_NS;
        let mut between_ns = (2 + random.below(30)) * SECOND_NS;
        let wide = !short && random.below(4) == 0;
        let (tight, inspects) = (random.below(2) == 0, random.below(2) == 0);
        if short {
            // All of it happens in less time.
            between_ns /= 100;
            heals_ns /= 20;
        }
        draw_commands(&mut random, &mut tasks, short, wide);
        let may_be_gfarm = !short && !shared && !joined;
        let gfarm = may_be_gfarm.then(|| draw_gfarm(seed, &mut tasks, nodes as u32)).flatten();
        if gfarm.is_some() {
            config.files_apart = true;
            // Some failures count though servers are to blame, within the limits of docs/design/reach.md.
            config.retry += 3;
        }
        if gfarm.is_none() && !shared {
            // What the workflow starts from is at home. Some failures over data links and disks count.
            for plan in &mut tasks {
                plan.place = nodes as u32;
            }
            config.retry += 3;
        }
        let stop = seed.is_multiple_of(7).then(|| draw_stop(&mut random, heals_ns));
        // Whose fault it is that a task in Gfarm failed, `causes` holds against each for itself.
        let gangs = match gfarm {
            _ if joined => draw_sets(seed, &mut tasks),
            None => draw_gangs(seed, &mut tasks, &cores, config.policy),
            Some(_) => Vec::new(),
        };
        let calls = seed >= LATER_SEEDS && gangs.is_empty() && draw_calls(seed, &mut tasks);
        let sets = if joined { &gangs[..] } else { &[] };
        Self {
            calls,
            leaders: if seed >= LATER_SEEDS { draw_leaders(seed, nodes as u64) } else { 0 },
            room_bytes: room_bytes(&tasks, sets, if tight || joined { seed % 4 } else { 100 }),
            gangs,
            joined,
            cores,
            config,
            shared,
            gfarm,
            short,
            wide,
            stop,
            // Whose fault a failure over a server is depends on when its task runs again.
            retry_delay_ns: if gfarm.is_none() && seed.is_multiple_of(5) {
                3 * SECOND_NS
            } else {
                0
            },
            trip_ns: [0, SECOND_NS / 20, 5 * SECOND_NS][(seed % 3) as usize],
            tasks,
            inspects: inspects || gfarm.is_none() && !shared,
            heals_ns,
            between_ns,
        }
    }

    /// Nodes share no file system: what commands read is staged in.
    pub(crate) fn stages(&self) -> bool {
        !self.shared && self.gfarm.is_none()
    }

    /// The machine of the hub, where it holds files.
    pub(crate) fn home(&self) -> u32 {
        self.cores.len() as u32
    }
}

/// Bytes of a file.
pub(crate) fn bytes_of(file: u32) -> u64 {
    1 + u64::from(file % 3)
}

/// Bytes that are enough for the inputs of any one task, or of one of these sets, and a little more.
fn room_bytes(tasks: &[TaskPlan], sets: &[(Vec<u32>, Oversubscribe)], more: u64) -> u64 {
    let of_tasks = tasks.iter().map(|plan| bytes_read(iter::once(plan)));
    let of_sets = sets.iter().map(|(set, _)| set.iter().map(|task| &tasks[*task as usize]));
    of_tasks.chain(of_sets.map(bytes_read)).max().unwrap_or(0) + more
}

/// Bytes of the inputs of tasks, each counted once.
fn bytes_read<'a>(plans: impl Iterator<Item = &'a TaskPlan>) -> u64 {
    let files: BTreeSet<u32> = plans.flat_map(|plan| plan.inputs.iter().copied()).collect();
    files.into_iter().map(bytes_of).sum()
}

/// Draws when the user stops the run, within the time in which things go wrong; one of two users is impatient.
fn draw_stop(random: &mut Random, heals_ns: u64) -> (u64, Option<u64>) {
    let at_ns = random.below(heals_ns);
    let again = random.below(2) == 0;
    (at_ns, again.then(|| random.below(5 * SECOND_NS)))
}

/// Layers, of which each takes from those before it: one wide one and a point where all meet are among what comes out.
fn draw_tasks(random: &mut Random, nodes: u64, retry: u32, width_max: u64) -> Vec<TaskPlan> {
    let mut tasks: Vec<TaskPlan> = Vec::new();
    let mut before = 0..0;
    for layer in 0..2 + random.below(5) {
        let begin = tasks.len() as u64;
        let chains = layer > 0 && random.below(3) == 0;
        let width = if chains { before.end - before.start } else { 1 + random.below(width_max) };
        for position in 0..width {
            let mut inputs: Vec<u32> = Vec::new();
            if chains {
                inputs.push((before.start + position) as u32);
            } else if layer > 0 {
                let all = random.below(4) == 0;
                let count = if all { before.end - before.start } else { 1 + random.below(3) };
                for number in 0..count {
                    let other = if all { number } else { random.below(before.end - before.start) };
                    inputs.push((before.start + other) as u32);
                }
                if before.start > 0 && random.below(4) == 0 {
                    inputs.push(random.below(before.start) as u32);
                }
            }
            inputs.sort_unstable();
            inputs.dedup();
            let troubles =
                if random.below(5) == 0 { random.below(u64::from(retry) + 1) } else { 0 };
            tasks.push(TaskPlan {
                inputs,
                has_action: layer > 0,
                run_ns: (1 + random.below(200)) * SECOND_NS / 10,
                commands: 1,
                together: false,
                cores: 1,
                troubles: troubles as u32,
                place: random.below(nodes) as u32,
                behind: None,
                calls: None,
            });
        }
        before = begin..tasks.len() as u64;
    }
    tasks
}

/// Half of the seeds in which that may be have their files in Gfarm.
fn draw_gfarm(seed: u64, tasks: &mut [TaskPlan], nodes: u32) -> Option<GfarmScenario> {
    let mut random = Random::new(seed, Purpose::Gfarm);
    if random.below(2) == 0 {
        return None;
    }
    for id in 0..tasks.len() {
        let inputs = tasks[id].inputs.clone();
        let through = inputs.iter().flat_map(|input| tasks[*input as usize].inputs.clone());
        let behind: Vec<u32> = through
            .filter(|file| tasks[*file as usize].has_action && !inputs.contains(file))
            .collect();
        if !behind.is_empty() && random.below(2) == 0 {
            tasks[id].behind = Some(behind[random.below(behind.len() as u64) as usize]);
        }
    }
    let hosts = nodes + random.below(2) as u32;
    let noticed_ns_max = (1 + random.below(180)) * SECOND_NS;
    Some(GfarmScenario { hosts, noticed_ns_max })
}

/// Tasks of one layer, which never need one another; in every third seed. With one action at a time
/// a gang begins only if its tasks share a core.
fn draw_gangs(
    seed: u64,
    tasks: &mut [TaskPlan],
    cores: &[u32],
    policy: Policy,
) -> Vec<(Vec<u32>, Oversubscribe)> {
    let mut random = Random::new(seed, Purpose::Gangs);
    let mut gangs: Vec<(Vec<u32>, Oversubscribe)> = Vec::new();
    if random.below(3) > 0 {
        return gangs;
    }
    for layer in layers_of(tasks) {
        let size = 2 + random.below(3) as usize;
        let members: Vec<u32> = layer.into_iter().take(size).collect();
        if members.len() < 2 || random.below(2) == 0 {
            continue;
        }
        // What goes wrong with one of them goes wrong for all.
        for member in &members[1..] {
            tasks[*member as usize].troubles = 0;
        }
        // All nodes together can take a gang that never shares: a seed must finish. No task wants more than two cores.
        let pairs: u32 = cores.iter().map(|cores| cores / 2).sum();
        let fits = policy != Policy::Serial && members.len() <= pairs as usize;
        let oversubscribe = if policy == Policy::Serial || seed < LATER_SEEDS {
            Oversubscribe::Always
        } else if random.below(2) == 0 {
            Oversubscribe::WhenNoneComes
        } else if fits {
            Oversubscribe::Never
        } else {
            Oversubscribe::Always
        };
        if seed < LATER_SEEDS && policy != Policy::Serial {
            // Their runs were drawn with one number more.
            random.below(2);
        }
        gangs.push((members, oversubscribe));
    }
    gangs
}

/// Tasks with actions, by how many are behind them: those of one layer never need one another.
fn layers_of(tasks: &[TaskPlan]) -> Vec<Vec<u32>> {
    let mut layer = vec![0_usize; tasks.len()];
    for id in 0..tasks.len() {
        let below = tasks[id].inputs.iter().map(|input| layer[*input as usize] + 1);
        layer[id] = below.max().unwrap_or(0);
    }
    let mut layers = vec![Vec::new(); layer.iter().copied().max().unwrap_or(0)];
    for id in (0..tasks.len()).filter(|id| layer[*id] > 0 && tasks[*id].has_action) {
        layers[layer[id] - 1].push(id as u32);
    }
    layers
}

/// Most tasks, in sets of one layer that streams join. What goes wrong with one of them goes wrong for all.
fn draw_sets(seed: u64, tasks: &mut [TaskPlan]) -> Vec<(Vec<u32>, Oversubscribe)> {
    let mut random = Random::new(seed, Purpose::Gangs);
    let mut sets = Vec::new();
    for layer in layers_of(tasks) {
        let mut rest = &layer[..];
        while rest.len() > 1 {
            let (set, others) = rest.split_at(rest.len().min(2 + random.below(3) as usize));
            rest = others;
            if random.below(4) > 0 {
                set[1..].iter().for_each(|task| tasks[*task as usize].troubles = 0);
                sets.push((set.to_vec(), Oversubscribe::Always));
            }
        }
    }
    sets
}

/// Half of the actions of half of the seeds may wait for a task: one with a smaller number, so that none waits for
/// another one in a circle. Gangs would: of these, all wait for one another. Whether this is such a seed.
fn draw_calls(seed: u64, tasks: &mut [TaskPlan]) -> bool {
    let mut random = Random::new(seed, Purpose::Calls);
    if random.below(2) == 0 {
        return false;
    }
    for id in 1..tasks.len() {
        let called = random.below(id as u64) as usize;
        if random.below(2) == 0 && tasks[id].has_action && tasks[called].has_action {
            tasks[id].calls = Some(called as u32);
        }
    }
    true
}

/// Half of the seeds in which a leader may have more than one node behind it have some.
fn draw_leaders(seed: u64, nodes: u64) -> u32 {
    let mut random = Random::new(seed, Purpose::Leaders);
    if nodes < 2 || random.below(2) == 0 {
        return 0;
    }
    1 + random.below(nodes / 2) as u32
}

/// What actions do. Of short ones, some are long after all: looking ahead begins and ends.
fn draw_commands(random: &mut Random, tasks: &mut [TaskPlan], short: bool, wide: bool) {
    for plan in tasks {
        plan.commands = 1 + random.below(4) as u32;
        plan.together = random.below(2) == 0;
        if wide && random.below(2) == 0 {
            plan.cores = 2;
        }
        if short && random.below(30) > 0 {
            plan.run_ns /= 10_000;
        }
        plan.run_ns = (plan.run_ns / u64::from(plan.commands)).max(1);
    }
}
