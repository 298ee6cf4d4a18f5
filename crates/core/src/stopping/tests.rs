//! Ladders of signals, and the last steps of a run.

use alloc::vec;
use alloc::vec::Vec;

use super::StopEffect::{GiveUpNode, Send};
use super::{Shutdown, ShutdownStep, Signal, StopEffect, StopHow, StopSettings, Stopping, Wait};
use crate::time::Time;

const SETTINGS: StopSettings = StopSettings { grace_ns: 100, first: Signal::Interrupt };
const SECOND_NS: u64 = 1_000_000_000;

fn end(stopping: &mut Stopping, now: u64, commands: &[u32]) -> Vec<StopEffect> {
    let mut out = Vec::new();
    stopping.end(Time(now), commands, &mut out);
    out
}

fn wait_until(stopping: &mut Stopping, now: u64) -> Vec<StopEffect> {
    let mut out = Vec::new();
    stopping.take_due(Time(now), &mut out);
    out
}

fn send(command: u32, signal: Signal) -> StopEffect {
    Send { command, signal }
}

#[test]
fn command_that_does_not_end_is_told_more_and_more_sternly() {
    let mut stopping = Stopping::new(SETTINGS);
    assert!(stopping.begin(StopHow::Gently, true) && stopping.is_stopping());
    assert_eq!(end(&mut stopping, 0, &[1]), [send(1, Signal::Interrupt)]);
    assert_eq!(end(&mut stopping, 10, &[2]), [send(2, Signal::Interrupt)]);
    assert_eq!(stopping.next_signal(), Some((Time(100), Signal::Terminate)));
    assert_eq!(wait_until(&mut stopping, 99), []);
    assert_eq!(wait_until(&mut stopping, 100), [send(1, Signal::Terminate)]);
    assert_eq!(wait_until(&mut stopping, 110), [send(2, Signal::Terminate)]);
    let killed = [send(1, Signal::Kill), send(2, Signal::Kill)];
    assert_eq!(wait_until(&mut stopping, 210), killed);
    assert_eq!(stopping.next_signal(), None);
    // Only a run that is to end gives up a node that cannot kill.
    let given_up = [GiveUpNode { command: 1 }, GiveUpNode { command: 2 }];
    assert_eq!(wait_until(&mut stopping, 210 + 3 * SECOND_NS), given_up);
    assert_eq!((stopping.due(), stopping.next_signal()), (None, None));
}

#[test]
fn command_that_ends_with_a_failure_is_terminated_and_its_node_stays() {
    let mut stopping = Stopping::new(SETTINGS);
    assert_eq!(end(&mut stopping, 0, &[1]), [send(1, Signal::Terminate)]);
    assert_eq!(wait_until(&mut stopping, 100), [send(1, Signal::Kill)]);
    assert_eq!((stopping.due(), stopping.is_stopping()), (None, false));
}

#[test]
fn second_signal_of_the_user_kills_at_once_and_a_third_changes_nothing() {
    let mut stopping = Stopping::new(SETTINGS);
    assert!(stopping.begin(StopHow::Gently, true) && stopping.can_kill());
    end(&mut stopping, 0, &[1]);
    assert!(stopping.begin(StopHow::AtOnce, true) && !stopping.can_kill());
    // The first ladder is not climbed any more.
    assert_eq!(stopping.due(), None);
    assert_eq!(end(&mut stopping, 50, &[1]), [send(1, Signal::Kill)]);
    assert_eq!(stopping.due(), Some(Time(50 + 3 * SECOND_NS)));
    assert!(!stopping.begin(StopHow::Gently, true) && !stopping.begin(StopHow::AtOnce, true));
    assert_eq!(stopping.due(), Some(Time(50 + 3 * SECOND_NS)));
}

#[test]
fn run_in_a_scripts_background_terminates_its_commands() {
    let mut stopping = Stopping::new(StopSettings { first: Signal::Terminate, ..SETTINGS });
    stopping.begin(StopHow::Gently, false);
    assert!(!stopping.by_user() && !stopping.can_kill());
    assert_eq!(end(&mut stopping, 0, &[7]), [send(7, Signal::Terminate)]);
}

/// Asks for steps at the times that are due, until this is over; what was done when, and what was waited for then.
/// `comes_ns`: when what is waited for comes.
fn run(
    mut shutdown: Shutdown,
    comes_ns: impl Fn(Wait) -> Option<u64>,
) -> Vec<(u64, Wait, ShutdownStep)> {
    let (mut done, mut now) = (Vec::new(), 0);
    loop {
        let waits = shutdown.waits();
        let has_come = comes_ns(waits).is_some_and(|at_ns| at_ns <= now);
        let mut out = Vec::new();
        let is_over = shutdown.step(Time(now), has_come, &mut out);
        done.extend(out.into_iter().map(|step| (now, waits, step)));
        if is_over {
            return done;
        }
        let due = shutdown.due().into_iter().map(|due| due.0);
        now = due.chain(comes_ns(shutdown.waits())).filter(|at_ns| *at_ns >= now).min().unwrap();
    }
}

#[test]
fn commands_that_end_in_time_are_not_killed() {
    let steps = run(Shutdown::of_commands(Time(0)), |_| Some(SECOND_NS / 2));
    assert_eq!(steps, [(0, Wait::Reports, ShutdownStep::SignalCommands(Signal::Terminate))]);
}

#[test]
fn commands_that_do_not_end_are_killed_and_silent_nodes_given_up() {
    let mut shutdown = Shutdown::of_commands(Time(0));
    let mut out = Vec::new();
    for now in [0, 0, SECOND_NS, 4 * SECOND_NS, 5 * SECOND_NS] {
        assert!(!shutdown.step(Time(now), false, &mut out));
    }
    let [terminated, killed] = [Signal::Terminate, Signal::Kill].map(ShutdownStep::SignalCommands);
    assert_eq!(out, [terminated, killed, ShutdownStep::GiveUpUnresponsive]);
    // What is given up is reported, however late; nothing more is due.
    assert_eq!(shutdown.due(), None);
    assert!(shutdown.step(Time(9 * SECOND_NS), true, &mut out));
}

#[test]
fn groups_are_looked_at_for_a_second_and_then_killed() {
    let [terminated, killed] = [Signal::Terminate, Signal::Kill].map(ShutdownStep::SignalGroups);
    let wait = Wait::Groups;
    let steps = run(Shutdown::of_groups(Time(0)), |_| None);
    assert_eq!(steps, [(0, wait, terminated), (SECOND_NS, wait, killed)]);
    let steps = run(Shutdown::of_groups(Time(0)), |_| Some(0));
    assert_eq!(steps, [(0, wait, terminated), (0, wait, killed)]);
}

#[test]
fn agents_that_hang_hold_up_the_end_for_as_long_as_they_may() {
    use ShutdownStep::{Close, EndBelow, GiveUp, GiveUpUnended};
    let below_ns = 2 * SECOND_NS;
    let steps = run(Shutdown::of_agents(Time(0), true), |_| None);
    // Both share one timeout: what the first has used up, the second does not have.
    let expected = [
        (0, Wait::Below, EndBelow),
        (below_ns, Wait::Below, GiveUpUnended),
        (below_ns, Wait::Below, Close),
        (below_ns, Wait::Agents, GiveUp),
    ];
    assert_eq!(steps, expected);
    let steps = run(Shutdown::of_agents(Time(0), true), |_| Some(0));
    let quick: Vec<ShutdownStep> = steps.iter().map(|(.., step)| *step).collect();
    assert_eq!(quick, vec![EndBelow, GiveUpUnended, Close]);
    assert!(steps.iter().all(|(at_ns, ..)| *at_ns == 0));
    let steps = run(Shutdown::of_agents(Time(0), false), |_| Some(0));
    assert_eq!(steps, [(0, Wait::Agents, Close)]);
}

#[test]
fn the_groups_of_a_run_are_looked_at_twenty_times_a_second() {
    let mut shutdown = Shutdown::of_groups(Time(0));
    let mut out = Vec::new();
    assert!(!shutdown.step(Time(0), false, &mut out));
    assert_eq!(shutdown.due(), Some(Time(0)), "the signal alone may have been enough");
    assert!(!shutdown.step(Time(0), false, &mut out));
    assert_eq!(shutdown.due(), Some(Time(SECOND_NS / 20)));
}
