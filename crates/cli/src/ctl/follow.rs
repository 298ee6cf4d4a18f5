//! `rakudactl log -f`: what the commands of a task print, as it comes into the run's log, until the task has ended.
//!
//! Whether it has ended the journal tells, which is read before the log.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write};
use std::time::Duration;

use rakuda_proto::Text;
use rakuda_proto::journal::Outcome;
use rakuda_record::Run;
use rakuda_record::find::find_task;
use rakuda_record::folder::RunFolder;
use rakuda_record::output::{Piece, PieceKind, take_piece};
use rakuda_record::regular::open_regular;
use rakuda_record::summary::outcomes::{Fate, fate};

use super::Status;
use super::base_folder::{BaseFolder, task_number};
use super::feed::Follower;
use super::log::Attempt;

/// Time between two looks.
const EVERY: Duration = Duration::from_millis(200);
/// Maximum bytes of the log that are read at a time.
const PIECE: u64 = 4 << 20;

/// The log of a run, as it grows.
#[derive(Default)]
struct Log {
    file: Option<File>,
    /// What was read and is no whole piece yet.
    rest: Vec<u8>,
}

impl Log {
    /// Calls `each` with the pieces that have come as a whole.
    fn read_on(
        &mut self,
        folder: &RunFolder,
        mut each: impl FnMut(&Piece, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.file.is_none() {
            self.file = match open_regular(&folder.output()) {
                Ok(file) => Some(file),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(error),
            };
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        loop {
            let read = file.take(PIECE).read_to_end(&mut self.rest)?;
            let mut at = 0;
            while let Some((piece, content)) = take_piece(&self.rest, &mut at) {
                each(&piece, content)?;
            }
            self.rest.drain(..at);
            if read == 0 {
                return Ok(());
            }
        }
    }
}

/// Prints what the task's attempts print, those that are wanted, until nothing more can come.
pub fn follow(
    folder: RunFolder,
    base: &BaseFolder,
    name: &Text,
    wanted: Option<Attempt>,
    out: &mut dyn Write,
) -> anyhow::Result<Status> {
    // The header of a piece has a space where the name has a line feed.
    let header: Vec<u8> =
        name.0.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }).collect();
    let (mut journal, mut log) = (Follower::new(folder), Log::default());
    let (mut first, mut was_over, mut printed) = (None, false, false);
    loop {
        // Before the journal, and that before the log: what came last is in what is read last.
        let goes_on = base.run_folder(&journal.folder().run).is_ok_and(|it| it.is_running());
        journal.read_on()?;
        let run = &journal.live.run;
        let number = find_task(run, name);
        let first = *first.get_or_insert_with(|| match wanted {
            Some(Attempt::Last) => number.map_or(1, |number| attempts(run, number)),
            Some(Attempt::Number(number)) => number,
            None => 1,
        });
        let only = matches!(wanted, Some(Attempt::Number(_)));
        log.read_on(journal.folder(), |piece, content| {
            let attempt = piece.source.map_or(0, |(_, attempt)| attempt);
            if piece.name.0 != header || attempt < first || (only && attempt != first) {
                return Ok(());
            }
            if piece.kind == PieceKind::Dropped {
                let bytes = piece.bytes;
                crate::complain(&format!(
                    "rakudactl: {bytes} more bytes were printed and not kept\n"
                ));
            }
            printed = true;
            out.write_all(content)
        })?;
        out.flush()?;
        let is_over = number.is_some_and(|number| is_over(run, number, only.then_some(first)));
        // Once more: what was printed last may be on its way while the journal tells the end.
        if std::mem::replace(&mut was_over, is_over || !goes_on) && (is_over || !goes_on) {
            // Of one that never came it is said why.
            let number = task_number(journal.folder(), run, name)?;
            if !printed {
                super::log::explain_nothing(journal.folder(), run, number, wanted)?;
            }
            return Ok(Status::Good);
        }
        rakuda_service::pass(EVERY);
    }
}

/// Attempts that were made of a task.
fn attempts(run: &Run, number: u32) -> u32 {
    let made = run.task(number).into_iter().flat_map(|task| &task.attempts);
    made.map(|attempt| attempt.started.attempt).max().unwrap_or(1)
}

/// Whether nothing more will come: of this attempt, or of the task.
fn is_over(run: &Run, number: u32, only: Option<u32>) -> bool {
    let Some(task) = run.task(number) else { return false };
    if let Some(only) = only {
        let mut made = task.attempts.iter();
        return made.any(|it| it.started.attempt >= only && it.ended.is_some());
    }
    let retried = |attempt: &rakuda_record::Attempt| {
        attempt
            .ended
            .as_ref()
            .is_some_and(|ended| ended.retried || ended.outcome == Outcome::GivenBack)
    };
    let may_come = matches!(fate(task), Fate::Running | Fate::NotStarted);
    !may_come && !task.attempts.last().is_some_and(retried)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rakuda_record::reader::read_events;

    const JOURNAL: &str = r#"{"event":"run_started","version":2,"time_ns":1,"run":"r"}
{"event":"task_defined","task":0,"name":"o","kind":"file","action":true}
{"event":"attempt_started","time_ns":2,"task":0,"attempt":1,"node":0,"cores":1}
{"event":"attempt_ended","time_ns":3,"task":0,"outcome":"failed","retried":true}
{"event":"attempt_started","time_ns":4,"task":0,"attempt":2,"node":0,"cores":1}
{"event":"attempt_ended","time_ns":5,"task":0,"outcome":"done"}
"#;

    #[test]
    fn a_task_that_is_tried_again_is_not_over() {
        let lines: Vec<&str> = JOURNAL.lines().collect();
        let over = |count: usize, only| {
            let mut run = Run::default();
            let text = lines[..count].join("\n") + "\n";
            read_events(text.as_bytes(), |event| run.add(event)).unwrap();
            is_over(&run, 0, only)
        };
        assert_eq!(
            [2, 3, 4, 5, 6].map(|count| over(count, None)),
            [false, false, false, false, true]
        );
        assert_eq!([3, 4, 5].map(|count| over(count, Some(1))), [false, true, true]);
        assert_eq!([4, 5, 6].map(|count| over(count, Some(2))), [false, false, true]);
    }
}
