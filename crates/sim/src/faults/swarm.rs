//! Many seeds: what was injected and how often, and which seeds failed.

use super::chaos::{Counts, run_seed};
use crate::log::Log;

/// Number of seeds of which one runs twice, to see that its logs are equal.
const TWICE_EVERY: u64 = 10;

/// A seed that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What must not happen, and did.
    pub reason: String,
}

/// A seed that finished.
#[derive(Clone, Debug)]
pub struct Finish {
    /// What was injected and seen in it.
    pub counts: Counts,
    /// It ran twice with equal logs.
    pub twice: bool,
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
    /// Seeds that did not finish.
    pub failures: Vec<Failure>,
}

impl Swarm {
    /// Takes in what came of a seed.
    pub fn add(&mut self, seed: u64, result: Result<Finish, String>) {
        match result {
            Ok(Finish { counts, twice }) => {
                self.finished += 1;
                self.twice += u64::from(twice);
                for (what, count) in counts {
                    *self.counts.entry(what).or_default() += count;
                }
            }
            Err(reason) => self.failures.push(Failure { seed, reason }),
        }
    }
}

/// Runs the seeds. Where a panic ends the program, the caller has to run each apart (`check_seed`).
pub fn swarm(seeds: impl Iterator<Item = u64>) -> Swarm {
    let mut swarm = Swarm::default();
    for seed in seeds {
        swarm.add(seed, check_seed(seed));
    }
    swarm
}

/// Runs a seed, some of them twice.
///
/// # Errors
/// What must not happen, and did.
pub fn check_seed(seed: u64) -> Result<Finish, String> {
    let run = run_seed(seed, Log::summed());
    if let Some(reason) = run.failure {
        return Err(reason);
    }
    if !seed.is_multiple_of(TWICE_EVERY) {
        return Ok(Finish { counts: run.counts, twice: false });
    }
    let again = run_seed(seed, Log::summed());
    if again.log.sum() == run.log.sum() {
        Ok(Finish { counts: run.counts, twice: true })
    } else {
        Err("its logs differ".to_owned())
    }
}
