use super::super::clocks::BURST;
use super::super::margin::{FIRST_NS_MIN, FIRST_NS_WORKER, FIRST_ROUND_TRIPS};
use super::*;
use proptest::prelude::*;
use std::vec;

/// A node whose clock differs by as much, drifts, and is so far away in both directions.
#[derive(Clone, Copy, Debug)]
struct Host {
    ahead_ns: i64,
    drift_ppb: i64,
    out_ns: i64,
    back_ns: i64,
}

impl Host {
    /// What its clock shows when the hub's shows that.
    fn shows(&self, here_ns: i64) -> i64 {
        let drifted = i128::from(here_ns) * i128::from(self.drift_ppb) / 1_000_000_000;
        here_ns + self.ahead_ns + i64::try_from(drifted).unwrap()
    }

    /// What the hub's shows when its own does.
    fn here(&self, there_ns: i64) -> i64 {
        let mut here_ns = there_ns - self.ahead_ns;
        for _ in 0..4 {
            here_ns += there_ns - self.shows(here_ns);
        }
        here_ns
    }

    fn exchange(&self, sent_ns: i64) -> Exchange {
        let there_ns = self.shows(sent_ns + self.out_ns);
        let received_ns = sent_ns + self.out_ns + self.back_ns;
        Exchange { sent_ns, there_received_ns: there_ns, there_sent_ns: there_ns, received_ns }
    }
}

/// Answers all that the rounds ask of the nodes; the moment after that.
fn answer(rounds: &mut Rounds, mut now: i64, hosts: &[Host], out: &mut Vec<RoundEffect>) -> i64 {
    let asked = |effect: &RoundEffect| matches!(effect, RoundEffect::Measure { .. });
    while let Some(place) = out.iter().position(asked) {
        let RoundEffect::Measure { node, exchanges } = out.remove(place) else { unreachable!() };
        for _ in 0..exchanges {
            let exchange = hosts[node.0 as usize - 1].exchange(now);
            now = exchange.received_ns;
            rounds.exchanged(Time(now.unsigned_abs()), node, exchange, out);
        }
    }
    now
}

/// A round with one worker on each host, up to its instant: when that is decided, the instant, and what each host is
/// sent.
fn committed(hosts: &[Host]) -> (Rounds, i64, i64, Vec<(NodeId, i64)>) {
    let (mut rounds, mut out, mut now) = (Rounds::default(), Vec::new(), 1_000_000_000i64);
    let workers = u32::try_from(hosts.len()).unwrap();
    rounds.define(
        0,
        RoundSpec { workers, ready_ns_max: 60_000_000_000, stop_after_ns: None, is_plain: false },
    );
    for worker in 0..workers {
        rounds.prepared(Time(now.unsigned_abs()), 0, worker, NodeId(worker + 1), &mut out);
    }
    now = answer(&mut rounds, now, hosts, &mut out);
    for worker in 0..workers {
        rounds.ready(Time(now.unsigned_abs()), 0, worker, &mut out);
    }
    answer(&mut rounds, now, hosts, &mut out);
    match out.as_slice() {
        [RoundEffect::Commit { round: 0, t0, nodes, patience_ns }] => {
            assert_eq!(*patience_ns > 0, hosts.len() == 1, "who is elsewhere would not wait");
            (rounds, now, signed(*t0), nodes.clone())
        }
        other => panic!("{other:?}"),
    }
}

const NEAR: Host =
    Host { ahead_ns: 7_200_000_000_000, drift_ppb: 0, out_ns: 50_000, back_ns: 50_000 };
const FAR: Host =
    Host { ahead_ns: -86_400_000_000_000, drift_ppb: 0, out_ns: 4_000_000, back_ns: 1_000_000 };

#[test]
fn the_margin_is_of_the_longest_round_trip_and_each_node_is_told_by_its_own_clock() {
    let (_, now, t0, nodes) = committed(&[NEAR, FAR]);
    let margin_ns = FIRST_NS_MIN + 2 * FIRST_NS_WORKER + FIRST_ROUND_TRIPS * 5_000_000;
    assert!(t0 - now >= i64::try_from(margin_ns).unwrap());
    assert_eq!(nodes.len(), 2);
    assert!((NEAR.here(nodes[0].1) - t0).abs() <= 50_000 + 60_000);
    assert!((FAR.here(nodes[1].1) - t0).abs() <= 2_500_000 + 60_000);
}

#[test]
fn starts_on_two_nodes_are_compared_to_within_the_sum_of_their_bounds() {
    let hosts = [NEAR, FAR, NEAR];
    let (mut rounds, _, t0, nodes) = committed(&hosts);
    let mut out = Vec::new();
    assert!(rounds.has_running_workers_on(0, NodeId(2)));
    for (worker, (_, there_ns)) in (0..).zip(&nodes) {
        let woke_ns = there_ns - 2_000_000;
        let passed = Passed { woke_ns, start_ns: there_ns + 2_000, ..Passed::default() };
        rounds.passed(Time(t0.unsigned_abs()), 0, worker, passed);
        rounds.over(Time(t0.unsigned_abs() + 9_000_000), 0, worker, 5_000_000, &mut out);
    }
    assert!(rounds.is_closing(), "clocks are asked once more");
    assert!(!rounds.has_running_workers_on(0, NodeId(2)), "it waits for clocks alone");
    answer(&mut rounds, t0 + 9_000_000, &hosts, &mut out);
    let [RoundEffect::Ended { result, .. }] = out.as_slice() else { panic!("{out:?}") };
    assert!((2_550_000..2_650_000).contains(&result.clock_bound_ns), "{result:?}");
    assert!(result.lag_ns.unwrap() <= 2 * result.clock_bound_ns);
    assert_eq!(result.late, 0);
    let best: Vec<_> = result.clocks.iter().map(|it| it.best.unwrap().0).collect();
    assert_eq!(best, [100_000, 5_000_000, 100_000]);
    assert_eq!(result.workers[1].node, Some(NodeId(2)));
}

#[test]
fn who_is_told_too_late_by_its_own_clock_is_late() {
    let (mut rounds, _, t0, nodes) = committed(&[NEAR, FAR]);
    let mut out = Vec::new();
    for (worker, (_, there_ns)) in (0..).zip(&nodes) {
        let woke_ns = if worker == 1 { there_ns + 1 } else { there_ns - 2_000_000 };
        let passed = Passed { woke_ns, start_ns: woke_ns.max(*there_ns), ..Passed::default() };
        rounds.passed(Time(t0.unsigned_abs()), 0, worker, passed);
        rounds.over(Time(t0.unsigned_abs()), 0, worker, 0, &mut out);
    }
    rounds.tick(rounds.due().unwrap(), &mut out);
    let Some(RoundEffect::Ended { result, .. }) = out.last() else { panic!("{out:?}") };
    let late: Vec<bool> = result.workers.iter().map(|it| it.late.is_some()).collect();
    assert_eq!((late, result.late), (vec![false, true], 1));
}

#[test]
fn a_clock_that_is_set_during_a_round_is_counted() {
    let set = Host { ahead_ns: NEAR.ahead_ns + 3_600_000_000_000, ..NEAR };
    for (after, expected) in [(NEAR, 0), (set, 1)] {
        let (mut rounds, _, t0, nodes) = committed(&[NEAR, FAR]);
        let mut out = Vec::new();
        for (worker, (_, there_ns)) in (0..).zip(&nodes) {
            let passed = Passed { start_ns: *there_ns, ..Passed::default() };
            rounds.passed(Time(t0.unsigned_abs()), 0, worker, passed);
            rounds.over(Time(t0.unsigned_abs()), 0, worker, 0, &mut out);
        }
        answer(&mut rounds, t0 + 5, &[after, FAR], &mut out);
        let [RoundEffect::Ended { result, .. }] = out.as_slice() else { panic!("{out:?}") };
        let found: Vec<u32> = result.clocks.iter().map(|it| it.contradictions).collect();
        assert_eq!(found, [expected, 0]);
    }
}

#[test]
fn a_node_that_is_lost_while_its_worker_waits_ends_the_round() {
    for waits in [false, true] {
        let (mut rounds, mut out) = (Rounds::default(), Vec::new());
        rounds.define(
            3,
            RoundSpec { workers: 2, ready_ns_max: 1_000, stop_after_ns: None, is_plain: false },
        );
        for worker in 0..2 {
            rounds.prepared(Time(10), 3, worker, NodeId(worker + 1), &mut out);
            if waits {
                rounds.ready(Time(20), 3, worker, &mut out);
            }
        }
        out.clear();
        rounds.node_lost(Time(30), NodeId(2), &mut out);
        let fault = Fault::NodeLost(1, NodeId(2));
        assert_eq!(out, [RoundEffect::GiveUp { round: 3, fault }], "{waits}");
        rounds.over(Time(40), 3, 0, 0, &mut out);
        let Some(RoundEffect::Ended { result, .. }) = out.last() else { panic!("{out:?}") };
        assert_eq!(result.fault, Some(fault));
        assert_eq!(rounds.due(), None);
    }
}

#[test]
fn a_node_that_is_lost_after_the_instant_leaves_the_round_to_the_others() {
    let (mut rounds, _, t0, nodes) = committed(&[NEAR, FAR]);
    let mut out = Vec::new();
    let passed = Passed { start_ns: nodes[0].1, ..Passed::default() };
    rounds.passed(Time(t0.unsigned_abs()), 0, 0, passed);
    rounds.node_lost(Time(t0.unsigned_abs()), NodeId(2), &mut out);
    assert_eq!(out, []);
    rounds.over(Time(t0.unsigned_abs() + 5), 0, 0, 5, &mut out);
    answer(&mut rounds, t0 + 5, &[NEAR, FAR], &mut out);
    let [RoundEffect::Ended { result, .. }] = out.as_slice() else { panic!("{out:?}") };
    assert_eq!((result.fault, result.lag_ns), (None, None));
}

#[test]
fn a_node_that_does_not_tell_the_time_keeps_nobody_waiting() {
    let (mut rounds, mut out) = (Rounds::default(), Vec::new());
    rounds.define(
        0,
        RoundSpec { workers: 1, ready_ns_max: 1_000, stop_after_ns: None, is_plain: false },
    );
    rounds.prepared(Time(10), 0, 0, NodeId(1), &mut out);
    rounds.ready(Time(20), 0, 0, &mut out);
    assert_eq!(out, [RoundEffect::Measure { node: NodeId(1), exchanges: BURST }]);
    let due = rounds.due().unwrap();
    assert_eq!(due, Time(20 + TIMING_NS_MAX));
    rounds.tick(due, &mut out);
    assert_eq!(
        out.last(),
        Some(&RoundEffect::GiveUp { round: 0, fault: Fault::NoClock(NodeId(1)) })
    );
}

proptest! {
    /// Whatever the clocks show and however long messages take, one way or the other: each node begins at the instant
    /// to within the bound that is known before, and the lag is true to within the bound that is said with it.
    #[test]
    fn the_lag_is_true_to_within_its_bound(
        hosts in prop::collection::vec((
            -50_000_000_000_000i64..50_000_000_000_000,
            -300_000i64..300_000,
            1i64..20_000_000,
            1i64..20_000_000,
            0i64..3_000_000,
        ), 1..6),
        ran_ns in 0u64..3_000_000_000,
    ) {
        let late: Vec<i64> = hosts.iter().map(|it| it.4).collect();
        let hosts: Vec<Host> = hosts.iter().map(|&(ahead_ns, drift_ppb, out_ns, back_ns, _)| {
            Host { ahead_ns, drift_ppb, out_ns, back_ns }
        }).collect();
        let (mut rounds, _, t0, nodes) = committed(&hosts);
        let mut out = Vec::new();
        let mut truth = Vec::new();
        for (worker, ((_, there_ns), (host, late_ns))) in nodes.iter().zip(hosts.iter().zip(&late)).enumerate() {
            let start_ns = there_ns + late_ns;
            truth.push(host.here(start_ns));
            let worker = u32::try_from(worker).unwrap();
            let passed = Passed { start_ns, ..Passed::default() };
            rounds.passed(Time(t0.unsigned_abs()), 0, worker, passed);
            rounds.over(Time(t0.unsigned_abs() + ran_ns), 0, worker, ran_ns, &mut out);
        }
        let after_ns = t0 + i64::try_from(ran_ns).unwrap() + 50_000_000;
        answer(&mut rounds, after_ns, &hosts, &mut out);
        let [RoundEffect::Ended { result, .. }] = out.as_slice() else { panic!("{out:?}") };
        for (clock, host) in result.clocks.iter().zip(&hosts) {
            let ahead_ns = host.shows(t0) - t0;
            for said in [clock.before.unwrap(), clock.after.unwrap()] {
                prop_assert!((said.ahead_ns - ahead_ns).abs() <= said.bound_ns + 1, "{said:?} {ahead_ns}");
            }
            prop_assert!(clock.after.unwrap().bound_ns <= clock.before.unwrap().bound_ns);
        }
        let lag_ns = truth.iter().max().unwrap() - truth.iter().min().unwrap();
        let said_ns = i64::try_from(result.lag_ns.unwrap()).unwrap();
        // A start is moved by what the clock drifts between the instant and it, 3 ms at most.
        let bound_ns = i64::try_from(result.clock_bound_ns).unwrap() + 2_000;
        prop_assert!((said_ns - lag_ns).abs() <= bound_ns, "{said_ns} {lag_ns} {bound_ns}");
    }
}
