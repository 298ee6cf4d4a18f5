//! Counters of a trace: how many tasks ran at each moment, all together and of each rule.
//!
//! Only the commonest rules have a counter of their own: a screen has no room for more.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::packets::Trace;
use super::{attempts, rule_name};
use crate::Run;

/// Maximum number of rules that are counted one by one.
const RULES_MAX: usize = 20;

/// Changes of a counter: time and by how much, several at one time added up.
type Changes = BTreeMap<i64, i64>;

pub(super) fn draw<W: Write>(run: &Run, trace: &mut Trace<W>) -> io::Result<()> {
    let mut all = Changes::new();
    let mut rules: BTreeMap<String, (usize, Changes)> = BTreeMap::new();
    for task in run.tasks.iter().flatten() {
        let rule = rule_name(run, task);
        for attempt in attempts(task) {
            let held = attempt.held(run);
            for held in &held {
                add(&mut all, *held);
            }
            if let Some(rule) = &rule {
                let (count, changes) = rules.entry(rule.clone()).or_default();
                *count += 1;
                for held in &held {
                    add(changes, *held);
                }
            }
        }
    }
    if all.is_empty() {
        return Ok(());
    }
    let parent = trace.track(None, "running tasks", u64::from(u32::MAX))?;
    write(trace, parent, "all", 0, &all)?;
    let mut rules: Vec<_> = rules.into_iter().collect();
    rules.sort_by(|(one, (one_count, _)), (two, (two_count, _))| {
        two_count.cmp(one_count).then_with(|| one.cmp(two))
    });
    for (rank, (name, (_, changes))) in (1..).zip(rules.into_iter().take(RULES_MAX)) {
        write(trace, parent, &name, rank, &changes)?;
    }
    Ok(())
}

fn add(changes: &mut Changes, (start_ns, end_ns): (i64, i64)) {
    *changes.entry(start_ns).or_default() += 1;
    *changes.entry(end_ns).or_default() -= 1;
}

fn write<W: Write>(
    trace: &mut Trace<W>,
    parent: u64,
    name: &str,
    rank: u64,
    changes: &Changes,
) -> io::Result<()> {
    let track = trace.counter(Some(parent), name, rank)?;
    let mut running = 0;
    for (time_ns, change) in changes.iter().filter(|(_, change)| **change != 0) {
        running += change;
        trace.count(*time_ns, track, running)?;
    }
    Ok(())
}
