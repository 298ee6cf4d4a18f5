use super::super::margin::{FIRST_NS_MIN, FIRST_NS_WORKER};
use super::*;
use proptest::prelude::*;
use std::vec;

const HERE: NodeId = NodeId(0);

fn spec(workers: u32) -> RoundSpec {
    RoundSpec { workers, ready_ns_max: 1_000, stop_after_ns: None, is_plain: false }
}

/// The rounds of a hub that has only its own machine.
fn alone() -> Rounds {
    let mut rounds = Rounds::default();
    rounds.set_exact_clock(HERE, 0);
    rounds
}

fn gathered(workers: u32) -> (Rounds, Time) {
    let mut rounds = alone();
    let mut out = Vec::new();
    rounds.define(0, spec(workers));
    for worker in 0..workers {
        rounds.prepared(Time(10), 0, worker, HERE, &mut out);
        rounds.ready(Time(20), 0, worker, &mut out);
    }
    match out.as_slice() {
        [RoundEffect::Commit { round: 0, t0, patience_ns: PATIENCE_NS, .. }] => (rounds, *t0),
        other => panic!("{other:?}"),
    }
}

fn at(t0: Time, late_ns: i64) -> Passed {
    let start_ns = signed(t0) + late_ns;
    Passed { woke_ns: 100, spun_ns: start_ns - 50, start_ns, spins: true, ..Passed::default() }
}

#[test]
fn the_instant_is_decided_when_the_last_worker_waits() {
    let (rounds, t0) = gathered(3);
    assert_eq!(t0, Time(20 + FIRST_NS_MIN + 3 * FIRST_NS_WORKER));
    assert_eq!(rounds.due(), None);
}

#[test]
fn the_next_round_has_what_this_one_has_needed() {
    // At least half of the 10.2 ms of the first.
    for (seen_after_ns, expected_ns) in [(300_000, 5_100_000), (4_000_000, 9_000_000)] {
        let (mut rounds, t0) = gathered(2);
        let mut out = Vec::new();
        for worker in 0..2 {
            rounds.passed(t0, 0, worker, Passed { woke_ns: 20 + seen_after_ns, ..at(t0, 3) });
            rounds.over(Time(t0.0 + 500), 0, worker, 400, &mut out);
        }
        out.clear();
        rounds.define(1, spec(2));
        for worker in 0..2 {
            rounds.prepared(t0, 1, worker, HERE, &mut out);
            rounds.ready(t0, 1, worker, &mut out);
        }
        let [RoundEffect::Commit { t0: next, .. }] = out.as_slice() else { panic!("{out:?}") };
        assert_eq!(*next, Time(t0.0 + expected_ns));
    }
}

#[test]
fn the_lag_is_from_the_first_start_to_the_last() {
    let (mut rounds, t0) = gathered(2);
    let mut out = Vec::new();
    rounds.passed(t0, 0, 0, at(t0, 3));
    rounds.passed(t0, 0, 1, at(t0, 45));
    rounds.over(Time(t0.0 + 500), 0, 1, 400, &mut out);
    assert_eq!(out, []);
    rounds.over(Time(t0.0 + 900), 0, 0, 800, &mut out);
    let [RoundEffect::Ended { round: 0, result }] = out.as_slice() else { panic!("{out:?}") };
    assert_eq!((result.lag_ns, result.span_ns, result.late), (Some(42), Some(800), 0));
    assert_eq!(result.begun_after_ns, Some(3));
    assert_eq!(result.workers[1].start_ns, Some(42));
}

#[test]
fn an_offset_of_a_worker_is_no_lag() {
    let (mut rounds, t0) = gathered(2);
    let mut out = Vec::new();
    rounds.passed(t0, 0, 0, at(t0, 3));
    rounds.passed(t0, 0, 1, Passed { offset_ns: 5_000, ..at(t0, 5_010) });
    rounds.over(Time(t0.0 + 9_000), 0, 0, 0, &mut out);
    rounds.over(Time(t0.0 + 9_000), 0, 1, 0, &mut out);
    let [RoundEffect::Ended { result, .. }] = out.as_slice() else { panic!("{out:?}") };
    assert_eq!((result.lag_ns, result.begun_after_ns), (Some(7), Some(3)));
}

#[test]
fn who_learns_the_instant_too_late_or_sleeps_beyond_it_is_late() {
    let (mut rounds, t0) = gathered(3);
    let mut out = Vec::new();
    rounds.passed(t0, 0, 0, at(t0, 1));
    rounds.passed(t0, 0, 1, Passed { woke_ns: signed(t0) - 10, ..at(t0, 1) });
    rounds.passed(t0, 0, 2, Passed { spun_ns: signed(t0) + 1, ..at(t0, 2) });
    (0..3).for_each(|worker| rounds.over(Time(t0.0 + 9), 0, worker, 0, &mut out));
    let [RoundEffect::Ended { result, .. }] = out.as_slice() else { panic!("{out:?}") };
    assert_eq!(result.late, 2);
    assert_eq!(
        result.workers.iter().map(|it| it.late).collect::<Vec<_>>(),
        [None, Some(Lateness::Told(-10)), Some(Lateness::Slept(1))]
    );
}

/// One that the others of its machine have waited for has begun with them; when it learnt of the instant counts still.
#[test]
fn who_oversleeps_is_not_late_where_the_others_have_waited() {
    let (mut rounds, t0) = gathered(2);
    let mut out = Vec::new();
    let met = |woke_ns| Passed { woke_ns, has_met: true, ..at(t0, 4_000) };
    rounds.passed(t0, 0, 0, met(100));
    rounds.passed(t0, 0, 1, met(signed(t0) - 10));
    (0..2).for_each(|worker| rounds.over(Time(t0.0 + 9_000), 0, worker, 0, &mut out));
    let [RoundEffect::Ended { result, .. }] = out.as_slice() else { panic!("{out:?}") };
    assert_eq!(
        result.workers.iter().map(|it| it.late).collect::<Vec<_>>(),
        [None, Some(Lateness::Told(-10))]
    );
}

#[test]
fn a_worker_that_ends_or_leaves_before_all_wait_ends_the_round() {
    for leaves in [false, true] {
        let mut rounds = alone();
        let mut out = Vec::new();
        rounds.define(7, spec(3));
        rounds.prepared(Time(1), 7, 0, HERE, &mut out);
        rounds.ready(Time(2), 7, 0, &mut out);
        let fault = if leaves {
            rounds.left(Time(9), 7, 1, &mut out);
            Fault::Left(1)
        } else {
            rounds.prepared(Time(3), 7, 1, HERE, &mut out);
            rounds.over(Time(4), 7, 1, 0, &mut out);
            Fault::EndedEarly(1)
        };
        assert_eq!(out, vec![RoundEffect::GiveUp { round: 7, fault }]);
        assert!(!rounds.takes(7, 2));
        assert_eq!(rounds.fault(7), Some(fault));
        rounds.over(Time(5), 7, 0, 0, &mut out);
        rounds.left(Time(9), 7, 2, &mut out);
        let Some(RoundEffect::Ended { result, .. }) = out.last() else { panic!("{out:?}") };
        assert_eq!((result.fault, result.lag_ns), (Some(fault), None));
    }
}

#[test]
fn a_worker_has_a_limited_time_to_come_to_the_gate() {
    let mut rounds = alone();
    let mut out = Vec::new();
    rounds.define(0, spec(2));
    rounds.prepared(Time(5), 0, 1, HERE, &mut out);
    assert_eq!(rounds.due(), Some(Time(1_005)));
    rounds.tick(Time(1_004), &mut out);
    assert_eq!(out, []);
    rounds.tick(Time(1_005), &mut out);
    assert_eq!(out, [RoundEffect::GiveUp { round: 0, fault: Fault::NotReady(1) }]);
    assert_eq!(rounds.due(), None);
}

#[test]
fn all_are_stopped_at_the_common_time() {
    let mut rounds = alone();
    let mut out = Vec::new();
    rounds.define(0, RoundSpec { stop_after_ns: Some(70), ..spec(1) });
    rounds.prepared(Time(0), 0, 0, HERE, &mut out);
    rounds.ready(Time(0), 0, 0, &mut out);
    let Some(RoundEffect::Commit { t0, .. }) = out.pop() else { panic!() };
    assert_eq!(rounds.due(), Some(Time(t0.0 + 70)));
    rounds.tick(Time(t0.0 + 70), &mut out);
    assert_eq!(out, [RoundEffect::Stop { round: 0 }]);
    assert!(rounds.was_stopped(0));
    assert_eq!(rounds.due(), None);
}

#[test]
fn stopping_gives_up_what_has_not_begun_and_ends_what_nobody_came_to() {
    let mut rounds = alone();
    let mut out = Vec::new();
    rounds.define(0, spec(2));
    rounds.stop(Time(9), &mut out);
    let [RoundEffect::GiveUp { fault: Fault::Stopping, .. }, RoundEffect::Ended { .. }] =
        out.as_slice()
    else {
        panic!("{out:?}")
    };
}

proptest! {
    /// Whatever comes in whatever order: an instant is decided at most once, only with all at the gate, and never
    /// after the round was given up; and a round ends once.
    #[test]
    fn nothing_begins_without_all(steps in prop::collection::vec((0u8..6, 0u32..4), 0..60)) {
        let mut rounds = Rounds::default();
        rounds.define(0, spec(4));
        let (mut prepared, mut ready) = ([false; 4], [false; 4]);
        let mut out = Vec::new();
        for (step, (what, worker)) in (0u64..).zip(steps) {
            let now = Time(step * 300);
            let place = worker as usize;
            match what {
                0 if rounds.takes(0, worker) => {
                    rounds.prepared(now, 0, worker, HERE, &mut out);
                    prepared[place] = true;
                }
                1 if prepared[place] => {
                    ready[place] = true;
                    rounds.ready(now, 0, worker, &mut out);
                }
                2 if prepared[place] => rounds.over(now, 0, worker, 0, &mut out),
                3 => rounds.left(Time(9), 0, worker, &mut out),
                4 => rounds.tick(now, &mut out),
                5 if worker == 0 => rounds.stop(Time(9), &mut out),
                _ => {}
            }
        }
        let count = |is: fn(&RoundEffect) -> bool| out.iter().filter(|effect| is(effect)).count();
        let commits = count(|effect| matches!(effect, RoundEffect::Commit { .. }));
        let given_up = count(|effect| matches!(effect, RoundEffect::GiveUp { .. }));
        prop_assert!(commits + given_up <= 1, "{out:?}");
        prop_assert!(commits == 0 || ready.iter().all(|it| *it));
        let ended = count(|effect| matches!(effect, RoundEffect::Ended { .. }));
        prop_assert!(ended <= 1);
    }
}
