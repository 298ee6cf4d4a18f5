//! One target beside its record: what differs.
//!
//! Knows neither how records are found nor what follows from a difference.

use std::collections::{BTreeSet, HashMap, VecDeque};

use rakuda_core::{TaskId, TaskKind};
use rakuda_proto::Text;
use rakuda_proto::front::Program;
use rakuda_proto::journal::{FileIdentity, Reason, ReasonKind};
use rakuda_record::history::{LastRecord, RecordedCommand};

use crate::facts::identity_of;
use crate::hub::Hub;
use crate::plan::REASONS_MAX;
use crate::rerun::contents::{Digest, Verdict, compare};
use crate::rerun::{Change, Rerun, path_of};

/// A comparison that goes on: contents have to be read for it.
#[derive(Debug)]
pub(super) struct Comparison {
    changes: Vec<Change>,
    /// Prerequisites of which it is not known yet whether they have the content with this digest.
    unsure: VecDeque<(TaskId, FileIdentity, String)>,
    /// Something that is compared is not in the record.
    partly: bool,
}

impl Hub {
    /// Compares all but what has to be read; none: there is no record.
    pub(super) fn begin_comparison(&mut self, id: TaskId) -> Option<Comparison> {
        let name = Text(self.names.name(id).to_vec());
        let rerun = self.rerun.as_mut()?;
        let Some(record) = rerun.records.get(&name).cloned() else {
            rerun.without_record += 1;
            return None;
        };
        let text = self.record.text_of(id).map(str::to_owned);
        let changes = self.changes_of_inputs(id, &record);
        let mut comparison = Comparison { changes, unsure: VecDeque::new(), partly: false };
        self.compare_contents(id, &record, &mut comparison);
        let rerun = self.rerun.as_ref()?;
        comparison.changes.extend(rerun.changes_of_environment(&record));
        let command = rerun.change_of_commands(id, &record, text.as_deref());
        comparison.partly |=
            command.is_none() && rerun.is_command_unknown(id, &record, text.as_deref());
        // What is to be done has changed: that tells more than what it is done with.
        comparison.changes.splice(0..0, command);
        Some(comparison)
    }

    /// Goes on with contents that have become known; none: others have to be read first.
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

    fn changes_of_inputs(&self, id: TaskId, record: &LastRecord) -> Vec<Change> {
        if !self.rerun.as_ref().is_some_and(|rerun| rerun.settings.inputs) {
            return Vec::new();
        }
        let now: BTreeSet<&[u8]> =
            self.scheduler.inputs(id).map(|input| self.names.name(input)).collect();
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
        for input in self.scheduler.inputs(id) {
            let name = self.names.name(input);
            let path = path_of(&self.settings.directory, name);
            let is_file =
                self.scheduler.task(input).is_some_and(|task| task.kind == TaskKind::File);
            let Some(identity) = identity_of(&path).filter(|_| is_file) else { continue };
            let Some(noted) = notes.get(name) else {
                // Of directories and the like nothing is ever noted.
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

    /// Nothing is known of what its action does, then or now: neither commands nor its text.
    fn is_command_unknown(&self, id: TaskId, record: &LastRecord, text: Option<&str>) -> bool {
        let described = self.described.get(&id).and_then(Option::as_ref);
        let told = described.is_some_and(|now| !(now.is_empty() && record.commands.is_empty()));
        self.settings.command && !told && (text.is_none() || record.rule_text.is_none())
    }

    /// `text`: the digest of the source text of its action now.
    fn change_of_commands(
        &self,
        id: TaskId,
        record: &LastRecord,
        text: Option<&str>,
    ) -> Option<Change> {
        if !self.settings.command {
            return None;
        }
        let command = Reason { kind: ReasonKind::Command, path: None, by_ns: None };
        if let Some(Some(now)) = self.described.get(&id)
            && !(now.is_empty() && record.commands.is_empty())
        {
            let detail = difference(&record.commands, now)?;
            return Some(Change { reason: command, detail: Some(detail) });
        }
        // What it does is not known without running it: at least its text must be the same.
        let then = record.rule_text.as_deref()?;
        let detail = "the text of its action has changed".to_owned();
        (then != text?).then_some(Change { reason: command, detail: Some(detail) })
    }
}

fn about(kind: ReasonKind, name: &[u8]) -> Reason {
    Reason { kind, path: Some(Text(name.to_vec())), by_ns: None }
}

/// The first command that is not as it was, in words; none: all are.
fn difference(then: &[RecordedCommand], now: &[Program]) -> Option<String> {
    let then: Vec<String> = then.iter().map(recorded_in_words).collect();
    let now: Vec<String> = now.iter().map(program_in_words).collect();
    let place = (0..then.len().max(now.len())).find(|place| then.get(*place) != now.get(*place))?;
    Some(match (then.get(place), now.get(place)) {
        (Some(then), Some(now)) => format!("was `{then}`, is `{now}`"),
        (None, Some(now)) => format!("`{now}` is new"),
        (Some(then), None) => format!("`{then}` is gone"),
        (None, None) => return None,
    })
}

fn recorded_in_words(command: &RecordedCommand) -> String {
    match (&command.line, &command.words) {
        (Some(line), _) => line.to_display(),
        (None, Some(words)) => words_in_words(words),
        (None, None) => String::new(),
    }
}

fn program_in_words(program: &Program) -> String {
    match program {
        Program::Line(line) => line.to_display(),
        Program::Words(words) => words_in_words(words),
    }
}

/// Words are told apart by quotes, so that `["a b"]` is not `["a", "b"]`.
fn words_in_words(words: &[Text]) -> String {
    let quote = |word: &Text| {
        let text = word.to_display();
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./=+:,@%".contains(byte);
        if !word.0.is_empty() && word.0.iter().all(plain) { text } else { format!("'{text}'") }
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> RecordedCommand {
        RecordedCommand { words: None, line: Some(Text::from(text)), directory: None }
    }

    #[test]
    fn the_first_command_that_differs_is_told() {
        let now = [Program::Line(Text::from("cc -O2")), Program::Line(Text::from("strip"))];
        assert_eq!(difference(&[line("cc -O2"), line("strip")], &now), None);
        let told = |then: &[RecordedCommand]| difference(then, &now).unwrap();
        assert_eq!(told(&[line("cc -O1"), line("strip")]), "was `cc -O1`, is `cc -O2`");
        assert_eq!(told(&[line("cc -O2")]), "`strip` is new");
        assert_eq!(told(&[line("cc -O2"), line("strip"), line("ls")]), "`ls` is gone");
    }

    #[test]
    fn words_with_blanks_are_not_taken_for_several() {
        let one = Program::Words(vec![Text::from("ls"), Text::from("a b")]);
        let two = Program::Words(vec![Text::from("ls"), Text::from("a"), Text::from("b")]);
        assert_ne!(program_in_words(&one), program_in_words(&two));
    }
}
