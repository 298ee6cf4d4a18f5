//! Tasks whose nodes were chosen by what is known of them (`needs where:`, `prefer:`): how many, of which rules, and by
//! what.
//!
//! The values that a choice rested on stay in the journal; `rakudactl story` shows them.

use std::collections::BTreeMap;

use crate::run::Run;
use crate::summary::spans::Span;

/// Tasks of one group whose nodes were chosen in the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Their group.
    pub group: u32,
    /// The condition, as it was written.
    pub condition: Option<String>,
    /// The preference, as it was written.
    pub prefer: Option<String>,
    /// How many they are.
    pub tasks: usize,
}

impl Placement {
    /// `where mem_available > 8GiB, prefer -load1`.
    pub fn in_words(&self) -> String {
        let condition = self.condition.iter().map(|it| format!("where {it}"));
        let prefer = self.prefer.iter().map(|it| format!("prefer {it}"));
        condition.chain(prefer).collect::<Vec<_>>().join(", ")
    }
}

/// By the last attempt of each task that counts; those of most tasks first.
pub fn placements(run: &Run, spans: &[Span]) -> Vec<Placement> {
    let chosen = |span: &Span| {
        let task = run.tasks[span.task as usize].as_ref()?;
        let chosen = task.attempts[span.attempt as usize].chosen.as_ref()?;
        Some((span.group, &chosen.condition, &chosen.prefer))
    };
    let last: BTreeMap<u32, _> = spans.iter().map(|span| (span.task, chosen(span))).collect();
    let mut counts = BTreeMap::new();
    for way in last.into_values().flatten() {
        *counts.entry(way).or_default() += 1;
    }
    let mut placements: Vec<Placement> = counts
        .into_iter()
        .map(|((group, condition, prefer), tasks)| Placement {
            group,
            condition: condition.clone(),
            prefer: prefer.clone(),
            tasks,
        })
        .collect();
    placements.sort_by_key(|placement| std::cmp::Reverse(placement.tasks));
    placements
}
