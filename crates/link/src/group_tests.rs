//! What a leader reports of its agents, beside a naive model of what each of them has said.

use proptest::prelude::*;

use super::*;

fn told(report: Option<Vec<u8>>) -> Vec<(u32, u64, Vec<u8>)> {
    let report = report.map(|report| read_report(&report).unwrap());
    let states = report.into_iter().flat_map(|report| report.states);
    states.map(|state| (state.member, state.held_ns, state.delta.0)).collect()
}

#[test]
fn states_of_all_agents_go_in_one_report_with_the_time_that_they_waited() {
    let mut group = Group::default();
    (1..=3).for_each(|member| group.add(member, 0));
    assert_eq!(group.take(0), None);
    group.tell(3, b"third".to_vec(), 10).unwrap();
    group.tell(1, b"first".to_vec(), 30).unwrap();
    assert!(group.has_news());
    let report = told(group.take(50));
    assert_eq!(report, [(3, 40, b"third".to_vec()), (1, 20, b"first".to_vec())]);
    assert!(!group.has_news());
    // The hub has not dealt with it: agents in it may not say anything, but others may.
    assert_eq!(group.tell(3, Vec::new(), 60), Err(ToldTwice));
    group.tell(2, b"second".to_vec(), 60).unwrap();
    assert_eq!(group.settle(), [3, 1]);
    assert_eq!(told(group.take(70)), [(2, 10, b"second".to_vec())]);
    group.tell(3, b"newer".to_vec(), 80).unwrap();
    assert_eq!(group.settle(), [2]);
    assert_eq!(told(group.take(80)), [(3, 0, b"newer".to_vec())]);
}

#[test]
fn who_is_gone_is_told_of_no_more() {
    let mut group = Group::default();
    (1..=2).for_each(|member| group.add(member, 0));
    (1..=2).for_each(|member| group.tell(member, vec![1], 0).unwrap());
    group.remove(1);
    assert_eq!(told(group.take(0)), [(2, 0, vec![1])]);
    group.remove(2);
    assert!(group.settle().is_empty());
    assert_eq!(group.tell(2, vec![1], 0), Ok(()), "what was under way when it went");
    assert_eq!(group.take(0), None);
    assert!(group.silent(u64::MAX, 0).is_empty());
}

#[test]
fn only_those_are_named_of_which_nothing_was_heard_for_long() {
    let mut group = Group::default();
    (1..=3).for_each(|member| group.add(member, 100));
    group.hear(2, 1000);
    group.hear(3, 1001);
    let silent = |member, silent_ns| MemberSilence { member, silent_ns };
    assert_eq!(group.silent(3000, 2000), [silent(1, 2900)]);
    assert_eq!(group.silent(3001, 2000), [silent(1, 2901), silent(2, 2001)]);
}

#[test]
fn a_report_that_would_be_too_long_leaves_the_rest_to_the_next() {
    let mut group = Group::default();
    for member in 0..5 {
        group.add(member, 0);
        group.tell(member, vec![0; REPORT_BYTES / 2], 0).unwrap();
    }
    let mut reports = Vec::new();
    while let Some(report) = group.take(0) {
        assert!(report.len() < 2 * REPORT_BYTES);
        reports.push(told(Some(report)).iter().map(|(member, ..)| *member).collect::<Vec<_>>());
    }
    assert_eq!(reports, [vec![0, 1], vec![2, 3], vec![4]]);
}

#[derive(Debug, Clone)]
enum Step {
    Tell(u32),
    Take,
    Settle,
    Remove(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..4_u32).prop_map(Step::Tell),
        Just(Step::Take),
        Just(Step::Settle),
        (0..4_u32).prop_map(Step::Remove),
    ]
}

proptest! {
    /// The hub gets what each agent has said, in order, each once, one at a time; and once all was dealt with, every
    /// agent may say something again.
    #[test]
    fn nothing_that_is_told_is_lost_doubled_or_out_of_order(
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let mut group = Group::default();
        (0..4).for_each(|member| group.add(member, 0));
        let mut said = [0_u8; 4];
        let mut heard = [0_u8; 4];
        let mut open = [false; 4];
        let mut is_there = [true; 4];
        let mut under_way = Vec::new();
        let end = [Step::Settle, Step::Take, Step::Settle];
        for (now, step) in (0..).zip(steps.into_iter().chain(end)) {
            match step {
                Step::Tell(member) => {
                    let at = member as usize;
                    let result = group.tell(member, vec![said[at] + 1], now);
                    prop_assert_eq!(result.is_err(), is_there[at] && open[at]);
                    if is_there[at] && !open[at] {
                        said[at] += 1;
                        open[at] = true;
                    }
                }
                // The lane has one under way at a time.
                Step::Take if under_way.is_empty() => {
                    for (member, _, delta) in told(group.take(now)) {
                        let at = member as usize;
                        heard[at] += 1;
                        prop_assert_eq!(delta, vec![heard[at]]);
                        under_way.push(member);
                    }
                }
                Step::Take => {}
                Step::Settle => {
                    under_way.retain(|member| is_there[*member as usize]);
                    let settled = group.settle();
                    prop_assert_eq!(&settled, &under_way);
                    for member in under_way.drain(..) {
                        open[member as usize] = false;
                    }
                }
                Step::Remove(member) => {
                    group.remove(member);
                    is_there[member as usize] = false;
                }
            }
        }
        for at in 0..4 {
            prop_assert!(!is_there[at] || (heard[at] == said[at] && !open[at]));
        }
    }

    #[test]
    fn any_bytes_are_a_report_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read_report(&bytes);
    }
}
