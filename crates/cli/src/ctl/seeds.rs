//! Runs of seeds in which a broken rule is a value, though a panic ends this program: it is built so.
//!
//! Seeds run on a thread. Its panic hook tells what was broken, and holds the thread for ever where a
//! panic would end the program; the seeds that are left run on the next thread. What seeds stand for
//! is in crates/sim.

use std::cell::RefCell;
use std::ops::Range;
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::Once;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use anyhow::Context;
use rakuda_sim::faults::{Finish, Swarm};

/// What came of a seed.
type Told = (u64, Result<Finish, String>);

thread_local! {
    /// On threads that run seeds: where to report the one that runs.
    static RUNS: RefCell<Option<(Sender<Told>, u64)>> = const { RefCell::new(None) };
}

/// Runs all seeds, each with `check`.
pub fn run(seeds: Range<u64>, check: fn(u64) -> Result<Finish, String>) -> anyhow::Result<Swarm> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = take_hook();
        set_hook(Box::new(move |panic| {
            if !tell(panic) {
                others(panic);
            }
        }));
    });
    let mut swarm = Swarm::default();
    let mut next = seeds.start;
    while next < seeds.end {
        let (sender, results) = channel();
        let rest = next..seeds.end;
        let run_rest = move || run_on_this_thread(rest, check, &sender);
        thread::Builder::new().spawn(run_rest).context("cannot start a thread")?;
        // To the end, or to the first that fails: that one holds its thread, and its sender.
        for (seed, result) in results {
            next = seed + 1;
            let failed = result.is_err();
            swarm.add(seed, result);
            if failed {
                break;
            }
        }
    }
    Ok(swarm)
}

fn run_on_this_thread(
    seeds: Range<u64>,
    check: fn(u64) -> Result<Finish, String>,
    sender: &Sender<Told>,
) {
    for seed in seeds {
        RUNS.set(Some((sender.clone(), seed)));
        let result = check(seed);
        let failed = result.is_err();
        // Nobody listens any more after a failure.
        if sender.send((seed, result)).is_err() || failed {
            return;
        }
    }
}

/// Reports a panic, if this thread runs seeds, and returns whether it does. Where panics unwind, the thread ends by
/// itself. It may not stay then: the hook could not be taken off again, as test programs do.
fn tell(panic: &PanicHookInfo<'_>) -> bool {
    let Some((sender, seed)) = RUNS.take() else { return false };
    let text = panic.payload().downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.payload().downcast_ref::<&str>().copied());
    let text = text.unwrap_or("it panicked");
    let place = panic.location().map(|place| format!(" ({}:{})", place.file(), place.line()));
    let reason = format!("{text}{}", place.unwrap_or_default());
    // Nobody listens after the last report.
    let _ = sender.send((seed, Err(reason)));
    while cfg!(panic = "abort") {
        thread::park();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(seed: u64) -> Result<Finish, String> {
        assert!(!seed.is_multiple_of(3), "{seed} is a multiple of three");
        if seed == 5 {
            return Err("five".to_owned());
        }
        Ok(Finish { counts: [("seeds", 1)].into(), twice: seed == 4 })
    }

    #[test]
    fn seeds_after_one_that_fails_run_and_all_that_fail_are_told() {
        let swarm = run(1..8, check).unwrap();
        assert_eq!((swarm.finished, swarm.twice, swarm.counts["seeds"]), (4, 1, 4));
        let failed: Vec<u64> = swarm.failures.iter().map(|failure| failure.seed).collect();
        assert_eq!(failed, [3, 5, 6]);
        let reason = &swarm.failures[0].reason;
        let place = "3 is a multiple of three (crates/cli/src/ctl/seeds.rs:";
        assert!(reason.starts_with(place), "{reason}");
        assert_eq!(swarm.failures[1].reason, "five");
    }

    #[test]
    fn no_seeds_give_nothing() {
        assert_eq!(run(3..3, check).unwrap().finished, 0);
    }
}
