//! What a seed stands for: a small workflow, a small cluster, and settings of the scheduler.
//!
//! Draws, and knows nothing of what goes wrong later.

use rakuda_core::{Config, FailurePolicy, Policy};

use crate::random::{Purpose, Random};
use crate::units::SECOND_NS;

/// A task: its file is made from the files of others.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) inputs: Vec<u32>,
    /// False: a file that the workflow starts from.
    pub(crate) has_action: bool,
    pub(crate) run_ns: u64,
    /// Attempts that fail or hang, no more than there are retries.
    pub(crate) troubles: u32,
    /// Where the file of a task without action lies, if files lie on nodes.
    pub(crate) place: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) jobs: Vec<Job>,
    /// Cores of each node.
    pub(crate) cores: Vec<u32>,
    pub(crate) config: Config,
    /// The file system is shared, or files lie on nodes.
    pub(crate) shared: bool,
    /// When things stop going wrong.
    pub(crate) heals_ns: u64,
    /// Mean time between two faults.
    pub(crate) between_ns: u64,
}

impl Scenario {
    pub(crate) fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed, Purpose::Scenario);
        let nodes = 1 + random.below(6) as usize;
        let retry = 1 + random.below(3) as u32;
        let shared = random.below(3) == 0;
        let config = Config {
            policy: Policy::ALL[random.below(Policy::ALL.len() as u64) as usize],
            failure: FailurePolicy::Wait,
            retry,
            locality: random.below(2) == 0,
            stealing: random.below(2) == 0,
            files_on_nodes: !shared,
            files_apart: false,
            // A seed is to be finished, whatever is lost how often.
            blame_after: 0,
            set_aside_after: random.below(4) as u32,
            seed,
            ..Config::default()
        };
        let jobs = draw_jobs(&mut random, nodes as u64, retry);
        Self {
            jobs,
            cores: (0..nodes).map(|_| 1 + random.below(4) as u32).collect(),
            config,
            shared,
            heals_ns: (30 + random.below(270)) * SECOND_NS,
            between_ns: (2 + random.below(30)) * SECOND_NS,
        }
    }
}

/// Layers, of which each takes from those before it: one wide one and a point where all meet are among what comes out.
fn draw_jobs(random: &mut Random, nodes: u64, retry: u32) -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    let mut before = 0..0;
    for layer in 0..2 + random.below(5) {
        let begin = jobs.len() as u64;
        let chains = layer > 0 && random.below(3) == 0;
        let width = if chains { before.end - before.start } else { 1 + random.below(8) };
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
            jobs.push(Job {
                inputs,
                has_action: layer > 0,
                run_ns: (1 + random.below(200)) * SECOND_NS / 10,
                troubles: troubles as u32,
                place: random.below(nodes) as u32,
            });
        }
        before = begin..jobs.len() as u64;
    }
    jobs
}
