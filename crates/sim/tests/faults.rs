//! Runs with faults: a few seeds finish, and equal seeds give equal logs.

use rakuda_sim::Log;
use rakuda_sim::faults::{run_seed, swarm};

#[test]
fn seeds_finish_whatever_dies() {
    let swarm = swarm((1..=100).chain([74_363, 110_952, 112_314, 120_158, 138_620, 154_480]));
    assert!(swarm.failures.is_empty(), "{:?}", swarm.failures);
    assert_eq!((swarm.finished, swarm.twice), (106, 12));
    for what in ["machines die with their disk", "links cut", "hub restarts", "tasks made again"] {
        assert!(swarm.counts.get(what).is_some_and(|count| *count > 0), "no {what}");
    }
}

#[test]
fn equal_seeds_give_equal_logs() {
    let log = |seed| run_seed(seed, Log::kept()).log.text().map(str::to_owned);
    assert!(log(3).is_some_and(|text| text.lines().count() > 5));
    assert_eq!(log(3), log(3));
    assert_ne!(log(3), log(4));
}
