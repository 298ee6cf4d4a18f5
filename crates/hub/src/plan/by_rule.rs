//! A long plan in few lines: what would run of each rule, and why. Pure; `document` describes the whole plan.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rakuda_proto::journal::{Reason, ReasonKind};
use rakuda_record::printable::{cut_middle, shown};
use rakuda_record::summary::groups::{DIRECTORY, is_place_of_directories};
use rakuda_record::words::duration_in_words;

use super::task::PlannedTask;

/// Maximum number of tasks that are shown one by one on a terminal.
pub(super) const TASKS_MAX: usize = 40;
/// Maximum columns of a task's name.
const NAME_COLUMNS: usize = 40;

/// The tasks of one rule that would run.
#[derive(Default)]
struct Group<'a> {
    first: Option<&'a PlannedTask>,
    last: Option<&'a PlannedTask>,
    count: usize,
    /// Number of tasks for each first reason.
    reasons: BTreeMap<&'static str, usize>,
    work_ns: u64,
}

/// A line for each rule, in the order of their first tasks.
pub(super) fn lines<'a>(tasks: impl Iterator<Item = &'a PlannedTask>) -> String {
    let mut places: BTreeMap<Option<&[u8]>, usize> = BTreeMap::new();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for task in tasks {
        let place =
            *places.entry(task.rule.as_ref().map(|rule| &rule.0[..])).or_insert_with(|| {
                groups.push(Group::default());
                groups.len() - 1
            });
        let group = &mut groups[place];
        group.first.get_or_insert(task);
        group.last = Some(task);
        group.count += 1;
        let reason = task.reasons.first().map_or("always runs", |change| kind(&change.reason));
        *group.reasons.entry(reason).or_default() += 1;
        group.work_ns += task.work.duration.map_or(0, |duration| duration.mean_ns);
    }
    groups.iter().map(line).collect()
}

fn line(group: &Group<'_>) -> String {
    let Some((first, last)) = group.first.zip(group.last) else { return String::new() };
    let name = |task: &PlannedTask| cut_middle(&shown(&task.target), NAME_COLUMNS);
    let mut line = match &first.rule {
        Some(rule) if is_place_of_directories(&rule.0) => format!("{DIRECTORY}: "),
        Some(rule) => format!("{}: ", shown(rule)),
        None => String::new(),
    };
    let _ = match group.count {
        1 => write!(line, "{}", name(first)),
        count => write!(line, "{count} tasks, {} to {}", name(first), name(last)),
    };
    let reasons: Vec<String> = match group.reasons.len() {
        1 => group.reasons.keys().map(|&reason| reason.to_owned()).collect(),
        _ => group.reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect(),
    };
    let _ = write!(line, ": {}", reasons.join(", "));
    if group.work_ns > 0 {
        let work = duration_in_words(i64::try_from(group.work_ns).unwrap_or(i64::MAX));
        let _ = write!(line, "; {work} of work");
    }
    line.push('\n');
    line
}

/// A reason without the file, or the parameter, that it is about.
fn kind(reason: &Reason) -> &'static str {
    match reason.kind {
        ReasonKind::Missing => "missing",
        ReasonKind::Unfinished => "not finished by the last attempt",
        ReasonKind::Newer => "a prerequisite is newer",
        ReasonKind::Runs => "a prerequisite would run",
        ReasonKind::Always => "always runs",
        ReasonKind::Forced => "forced (-B)",
        ReasonKind::Class => "by its class",
        ReasonKind::Command if reason.path.is_some() => "changed parameters",
        ReasonKind::Command => "changed action",
        ReasonKind::Inputs => "other prerequisites",
        ReasonKind::Content => "changed contents",
        ReasonKind::Env => "changed environment",
        ReasonKind::Lost => "lost with a node",
        ReasonKind::Gang => "their gang runs",
        ReasonKind::UpToDate => "up to date",
    }
}
