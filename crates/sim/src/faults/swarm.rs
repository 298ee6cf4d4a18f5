//! Many seeds: how often what was injected, and which seed failed.

use super::chaos::{Counts, run_seed};
use crate::log::Log;

/// One of so many seeds runs twice, to see that its logs are equal.
const TWICE_EVERY: u64 = 10;

/// A seed that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Which.
    pub seed: u64,
    /// What must not happen, and did.
    pub reason: String,
}

/// What came out of many seeds.
#[derive(Clone, Debug, Default)]
pub struct Swarm {
    /// Seeds that finished.
    pub finished: u64,
    /// Seeds that ran twice with equal logs.
    pub twice: u64,
    /// What was injected and seen in them.
    pub counts: Counts,
    /// Those that did not finish.
    pub failures: Vec<Failure>,
}

/// Runs the seeds.
pub fn swarm(seeds: impl Iterator<Item = u64>) -> Swarm {
    let mut swarm = Swarm::default();
    for seed in seeds {
        match run_checked(seed) {
            Ok((counts, twice)) => {
                swarm.finished += 1;
                swarm.twice += u64::from(twice);
                for (what, count) in counts {
                    *swarm.counts.entry(what).or_default() += count;
                }
            }
            Err(reason) => {
                swarm.failures.push(Failure { seed, reason });
            }
        }
    }
    swarm
}

fn run_checked(seed: u64) -> Result<(Counts, bool), String> {
    let run = run_seed(seed, Log::summed());
    if let Some(reason) = run.failure {
        return Err(reason);
    }
    if !seed.is_multiple_of(TWICE_EVERY) {
        return Ok((run.counts, false));
    }
    let again = run_seed(seed, Log::summed());
    if again.log.sum() == run.log.sum() {
        Ok((run.counts, true))
    } else {
        Err("its logs differ".to_owned())
    }
}
