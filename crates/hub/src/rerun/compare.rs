//! One target beside its record: what differs.
//!
//! Knows neither how records are found nor what follows from a difference.

use std::collections::{BTreeSet, HashMap, VecDeque};

use rakuda_core::{TaskId, TaskKind};
use rakuda_proto::Text;
use rakuda_proto::journal::{Reason, ReasonKind};
use rakuda_record::history::LastRecord;

use crate::facts::identity_of;
use crate::hub::Hub;
use crate::plan::REASONS_MAX;
use crate::rerun::contents::{Digest, Verdict, compare};
use crate::rerun::path_of;
use crate::rerun::state::{Change, Comparison, Rerun};

impl Hub {
    /// Compares all but what has to be read; `None` if there is no record.
    pub(super) fn begin_comparison(&mut self, id: TaskId) -> Option<Comparison> {
        let name = Text(self.names.name(id).to_vec());
        let rerun = self.rerun.as_mut()?;
        let Some(record) = rerun.records.get(&name).cloned() else {
            rerun.without_record += 1;
            return None;
        };
        let (mut changes, mut partly) = self.changes_of_action(id, &record);
        let upstream = self.records_upstream(id);
        partly |= upstream.iter().any(|(_, record)| record.is_none());
        for (writer, record) in
            upstream.iter().filter_map(|(id, record)| Some((id, record.as_ref()?)))
        {
            let (of_writer, is_partly) = self.changes_of_action(*writer, record);
            changes.extend(self.told_of(*writer, of_writer));
            partly |= is_partly;
        }
        // What is done says more than what it is done with.
        changes.extend(self.changes_of_inputs(id, &record));
        for (writer, record) in
            upstream.iter().filter_map(|(id, record)| Some((id, record.as_ref()?)))
        {
            let of_writer = self.changes_of_inputs(*writer, record);
            changes.extend(self.told_of(*writer, of_writer));
        }
        let mut comparison = Comparison { changes, unsure: VecDeque::new(), partly };
        self.compare_contents(id, &record, &mut comparison);
        let rerun = self.rerun.as_ref()?;
        comparison.changes.extend(rerun.changes_of_environment(&record));
        Some(comparison)
    }

    /// Goes on with contents that have become known; `None` if others have to be read first.
    pub(super) fn go_on_comparing(
        &mut self,
        id: TaskId,
        mut comparison: Comparison,
    ) -> Option<bool> {
        let Some(rerun) = &mut self.rerun else { return Some(false) };
        while let Some((input, identity, then)) = comparison.unsure.front() {
            match rerun.contents.digest(identity) {
                Digest::NotYet => {
                    rerun.waiting.insert(id, comparison);
                    return None;
                }
                Digest::Is(now) if now == *then => {}
                // What cannot be read, or changes meanwhile, is not what it was.
                Digest::Is(_) | Digest::Unreadable => {
                    let name = self.names.name(*input);
                    comparison.changes.push(change_of_content(name));
                }
            }
            comparison.unsure.pop_front();
        }
        rerun.partly_recorded += usize::from(comparison.partly);
        let mut changes = comparison.changes;
        changes.truncate(REASONS_MAX);
        let differs = !changes.is_empty();
        rerun.changes.insert(id, changes);
        Some(differs)
    }

    /// How tasks without a file that print for a file ran last; `None` where that is not known. Empty where neither
    /// actions nor prerequisites are compared.
    fn records_upstream(&mut self, id: TaskId) -> Vec<(TaskId, Option<LastRecord>)> {
        let compares = |rerun: &Rerun| rerun.settings.command || rerun.settings.inputs;
        if !self.rerun.as_ref().is_some_and(compares) {
            return Vec::new();
        }
        let upstream = self.plain_upstream(id);
        let record = |writer: TaskId| {
            let name = Text(self.names.name(writer).to_vec());
            (writer, self.rerun.as_ref().and_then(|rerun| rerun.records.get(&name).cloned()))
        };
        upstream.into_iter().map(record).collect()
    }

    /// What has changed of a task that prints for the one that is compared.
    fn told_of(&self, writer: TaskId, changes: Vec<Change>) -> Vec<Change> {
        let name = self.display_name(writer);
        let told = |change: Change| Change {
            detail: Some(match change.detail {
                Some(detail) => format!("of {name}, which prints for it: {detail}"),
                None => format!("of {name}, which prints for it"),
            }),
            ..change
        };
        changes.into_iter().map(told).collect()
    }

    /// And whether something of it could not be compared.
    fn changes_of_action(&self, id: TaskId, record: &LastRecord) -> (Vec<Change>, bool) {
        if !self.rerun.as_ref().is_some_and(|rerun| rerun.settings.command) {
            return (Vec::new(), false);
        }
        let now =
            Doing { source: self.record.source_of(id), params: self.record.parameters_of(id) };
        changes_of_doing(Doing::of(record), now)
    }

    fn changes_of_inputs(&self, id: TaskId, record: &LastRecord) -> Vec<Change> {
        if !self.rerun.as_ref().is_some_and(|rerun| rerun.settings.inputs) {
            return Vec::new();
        }
        let now: BTreeSet<&[u8]> =
            self.run.scheduler().inputs(id).map(|input| self.names.name(input)).collect();
        let then: BTreeSet<&[u8]> =
            record.prerequisites.iter().map(|name| name.0.as_slice()).collect();
        let change = |name: &&[u8]| Change {
            reason: about(ReasonKind::Inputs, name),
            detail: Some(if now.contains(*name) { "new" } else { "gone" }.to_owned()),
        };
        now.symmetric_difference(&then).filter(|name| !name.is_empty()).map(change).collect()
    }

    /// Compares what needs no reading, and begins to read the rest.
    fn compare_contents(&mut self, id: TaskId, record: &LastRecord, found: &mut Comparison) {
        let Some(rerun) = self.rerun.as_mut().filter(|rerun| rerun.settings.content) else {
            return;
        };
        let notes: HashMap<&[u8], &str> =
            record.contents.iter().map(|(name, note)| (name.0.as_slice(), note.as_str())).collect();
        for input in self.run.scheduler().inputs_through_streams(id) {
            let name = self.names.name(input);
            let path = path_of(&self.settings.directory, name);
            let is_file =
                self.run.scheduler().task(input).is_some_and(|task| task.kind == TaskKind::File);
            let Some(identity) = identity_of(&path).filter(|_| is_file) else { continue };
            let Some(noted) = notes.get(name) else {
                // Nothing is ever noted of directories and the like.
                found.partly |= path.is_file();
                continue;
            };
            match compare(noted, &identity) {
                Verdict::Same => {}
                Verdict::Changed => found.changes.push(change_of_content(name)),
                Verdict::Unsure(digest) => {
                    rerun.contents.want(&path, &identity);
                    found.unsure.push_back((input, identity, digest));
                }
            }
        }
    }
}

fn change_of_content(name: &[u8]) -> Change {
    Change { reason: about(ReasonKind::Content, name), detail: None }
}

impl Rerun {
    /// Names that the run of the record had not chosen are no reason.
    fn changes_of_environment(&self, record: &LastRecord) -> Vec<Change> {
        let differs = |(name, digest): &(&String, &String)| {
            record.environment.get(*name).is_some_and(|then| then != *digest)
        };
        let names = self.settings.environment.iter().filter(differs).map(|(name, _)| name);
        names
            .map(|name| Change { reason: about(ReasonKind::Env, name.as_bytes()), detail: None })
            .collect()
    }
}

fn about(kind: ReasonKind, name: &[u8]) -> Reason {
    Reason { kind, path: Some(Text(name.to_vec())), by_ns: None }
}

/// What is done to make a target.
#[derive(Debug, Clone, Copy)]
struct Doing<'a> {
    /// Digest of the source of its actions, if it is known.
    source: Option<&'a str>,
    /// Names and values of what they depend on by declaration.
    params: &'a [(Text, Text)],
}

impl Doing<'_> {
    fn of(record: &LastRecord) -> Doing<'_> {
        Doing { source: record.source.as_deref(), params: &record.params }
    }

    /// Whether the record covers parameters: those of earlier versions do not.
    fn tells_parameters(self) -> bool {
        self.source.is_some() || !self.params.is_empty()
    }
}

/// What differs, and whether something could not be compared.
fn changes_of_doing(then: Doing<'_>, now: Doing<'_>) -> (Vec<Change>, bool) {
    let mut changes = Vec::new();
    let mut partly = false;
    match (then.source, now.source) {
        (Some(then), Some(now)) if then == now => {}
        (Some(_), Some(_)) => changes.push(Change {
            reason: Reason { kind: ReasonKind::Command, path: None, by_ns: None },
            detail: None,
        }),
        (None, _) | (_, None) => partly = true,
    }
    if then.tells_parameters() {
        changes.extend(changes_of_parameters(then.params, now.params));
    } else {
        partly |= !now.params.is_empty();
    }
    (changes, partly)
}

/// In the order in which they are declared now; those that are gone come last.
fn changes_of_parameters(then: &[(Text, Text)], now: &[(Text, Text)]) -> Vec<Change> {
    let value_in = |list: &[(Text, Text)], name: &Text| {
        list.iter().find(|(other, _)| other == name).map(|(_, value)| value.to_display())
    };
    let gone = then.iter().filter(|(name, _)| now.iter().all(|(other, _)| other != name));
    let change = |(name, _): &(Text, Text)| {
        let detail = match (value_in(then, name), value_in(now, name)) {
            (then, now) if then == now => return None,
            (Some(then), Some(now)) => format!("was {then}, is {now}"),
            (None, Some(now)) => format!("new: {now}"),
            (then, None) => format!("gone, was {}", then.unwrap_or_default()),
        };
        Some(Change { reason: about(ReasonKind::Command, &name.0), detail: Some(detail) })
    };
    now.iter().chain(gone).filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    use rakuda_record::words::reason_in_words;

    use super::*;

    fn params(list: &[(&str, &str)]) -> Vec<(Text, Text)> {
        list.iter().map(|(name, value)| (Text::from(*name), Text::from(*value))).collect()
    }

    /// The changes in words, and whether something was not known.
    fn compared(
        then: (Option<&str>, &[(&str, &str)]),
        now: (Option<&str>, &[(&str, &str)]),
    ) -> (Vec<String>, bool) {
        let (then_params, now_params) = (params(then.1), params(now.1));
        let (changes, partly) = changes_of_doing(
            Doing { source: then.0, params: &then_params },
            Doing { source: now.0, params: &now_params },
        );
        let words = |change: &Change| {
            let text = reason_in_words(&change.reason);
            change.detail.as_ref().map_or(text.clone(), |detail| format!("{text} ({detail})"))
        };
        (changes.iter().map(words).collect(), partly)
    }

    #[test]
    fn an_action_and_its_parameters_are_told_apart() {
        let all = compared(
            (Some("a"), &[("x", "1"), ("y", "2"), ("z", "3")]),
            (Some("b"), &[("w", "0"), ("z", "4"), ("x", "1")]),
        );
        let expected = [
            "its action has changed",
            "its parameter w has changed (new: 0)",
            "its parameter z has changed (was 3, is 4)",
            "its parameter y has changed (gone, was 2)",
        ];
        assert_eq!(all, (expected.map(str::to_owned).to_vec(), false));
        assert_eq!(
            compared((Some("a"), &[("x", "1")]), (Some("a"), &[("x", "1")])),
            (vec![], false)
        );
    }

    #[test]
    fn what_is_not_known_is_neither_the_same_nor_another() {
        assert_eq!(compared((None, &[]), (Some("a"), &[])), (vec![], true));
        assert_eq!(compared((Some("a"), &[]), (None, &[])), (vec![], true));
        assert_eq!(compared((None, &[]), (None, &[])), (vec![], true));
        // A record of an earlier version tells nothing of parameters.
        assert_eq!(compared((None, &[]), (Some("a"), &[("x", "1")])), (vec![], true));
        let gone = "its parameter x has changed (gone, was 1)".to_owned();
        assert_eq!(compared((None, &[("x", "1")]), (None, &[])), (vec![gone], true));
    }
}
