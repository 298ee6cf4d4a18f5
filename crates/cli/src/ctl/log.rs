//! `rakudactl log`: what the commands of a task printed, as they printed it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, Write};

use anyhow::Context as _;
use clap::Args;
use rakuda_proto::Text;
use rakuda_record::Run;
use rakuda_record::folder::RunFolder;
use rakuda_record::output::{Piece, PieceKind, read_pieces};
use rakuda_record::printable::shown;
use rakuda_record::regular::open_regular;

use super::base_folder::{BaseFolder, complain_of_damage, task_name, task_number};
use super::follow;
use super::which_run::RunArgument;
use super::{Status, text};

/// Prints what the commands of a task printed.
#[derive(Args)]
#[command(
    after_help = "Examples: what it prints while it runs; only the last attempt, of an earlier run\n    rakudactl log -f mosaic.fits\n    \
    rakudactl log mosaic.fits --attempt last --run 20261121\n\n\
    Standard output and standard error come in the order in which they were printed. What Ruby code printed itself is not recorded, nor \
    anything with `--output=none`."
)]
pub struct Log {
    /// The name of the task.
    #[arg(value_name = "TASK")]
    task: OsString,

    /// The run.
    #[arg(long, value_name = "RUN", default_value = "last")]
    run: String,

    #[command(flatten)]
    run_argument: RunArgument,

    /// Go on printing what it prints, until it has ended; of a task that has not begun, from its beginning.
    #[arg(short, long)]
    follow: bool,

    /// Only the attempt N, counted from 1, or `last`.
    #[arg(long, value_name = "N", value_parser = attempt)]
    attempt: Option<Attempt>,
}

/// Which attempt is wanted.
#[derive(Debug, Clone, Copy)]
pub enum Attempt {
    /// The one that was made last.
    Last,
    /// That one, from 1.
    Number(u32),
}

fn attempt(word: &str) -> Result<Attempt, String> {
    if word == "last" {
        return Ok(Attempt::Last);
    }
    match word.parse() {
        Ok(number) if number > 0 => Ok(Attempt::Number(number)),
        _ => Err("expected a number from 1 on, or `last`".to_owned()),
    }
}

impl Log {
    /// Prints it.
    pub fn answer(&self, base: &BaseFolder, out: &mut dyn Write) -> anyhow::Result<Status> {
        let folder = base.run_folder(self.run_argument.instead_of(&self.run))?;
        let name = task_name(&self.task);
        if self.follow {
            return follow::follow(folder, base, &name, self.attempt, out);
        }
        // The header of a piece has a space where the name has a line feed.
        let header = name.0.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte });
        let header = Text(header.collect());
        let path = folder.output();
        let open = || match open_regular(&path) {
            Ok(file) => Ok(Some(BufReader::with_capacity(1 << 18, file))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        };
        let only = match self.attempt {
            None => None,
            Some(Attempt::Number(number)) => Some(number),
            Some(Attempt::Last) => match open()? {
                Some(log) => last_attempt(log, &header)?,
                None => None,
            },
        };
        let mut printed = false;
        if let Some(log) = open()? {
            let wanted = |piece: &Piece| {
                let number = piece.source.map(|(_, attempt)| attempt);
                piece.name == header && (only.is_none() || number == only)
            };
            read_pieces(log, wanted, |piece, content| {
                printed = true;
                if piece.kind == PieceKind::Dropped {
                    crate::complain(&format!(
                        "rakudactl: {} more bytes were printed and not kept\n",
                        piece.bytes
                    ));
                }
                out.write_all(content)
            })?;
        }
        if !printed {
            let run = folder.read_without_commands()?;
            complain_of_damage(&folder, &run);
            let number = task_number(&folder, &run, &name)?;
            explain_nothing(&folder, &run, number, self.attempt)?;
        }
        Ok(Status::Good)
    }
}

/// A task has printed nothing, or there is no such attempt of it.
pub(super) fn explain_nothing(
    folder: &RunFolder,
    run: &Run,
    number: u32,
    wanted: Option<Attempt>,
) -> anyhow::Result<()> {
    let shown = shown(&run.task_name(number));
    let attempts = run.task(number).map_or(0, |task| {
        task.attempts.iter().map(|attempt| attempt.started.attempt).max().unwrap_or(0)
    });
    match wanted {
        _ if attempts == 0 => {
            anyhow::bail!("no attempt of {shown} was made in run {}", folder.run)
        }
        Some(Attempt::Number(number)) if number > attempts => {
            let had = text::count(attempts as usize, "attempt");
            anyhow::bail!("{shown} had {had} in run {}", folder.run)
        }
        _ => {}
    }
    let path = folder.output();
    crate::complain(&if path.exists() {
        format!("rakudactl: the commands of {shown} printed nothing in run {}\n", folder.run)
    } else {
        let path = path.display();
        format!(
            "rakudactl: nothing of what {shown} printed was kept: there is no {path} (--output line keeps it, also with \
             -j 1 on a terminal)\n"
        )
    });
    Ok(())
}

fn last_attempt(log: BufReader<File>, name: &Text) -> io::Result<Option<u32>> {
    let mut last = None;
    let note = |piece: &Piece| {
        if piece.name == *name {
            last = last.max(piece.source.map(|(_, attempt)| attempt));
        }
        false
    };
    read_pieces(log, note, |_, _| Ok(()))?;
    Ok(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const JOURNAL: &str = r#"{"event":"run_started","version":2,"time_ns":1,"run":"20260101-000000.000-1"}
{"event":"task_defined","task":0,"name":"o","kind":"file","action":true}
{"event":"attempt_started","time_ns":2,"task":0,"attempt":1,"node":0,"cores":1}
{"event":"attempt_ended","time_ns":3,"task":0,"outcome":"done"}
"#;

    #[test]
    fn an_attempt_that_was_not_made_is_told_from_one_that_printed_nothing() {
        let folder = std::env::temp_dir().join(format!("rakudactl-log-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let journal = folder.join("journal.jsonl");
        fs::write(&journal, JOURNAL).unwrap();
        let ask = |attempt| {
            let run = journal.to_str().unwrap().to_owned();
            let run_argument = RunArgument::default();
            let log = Log { task: "o".into(), run_argument, run, follow: false, attempt };
            log.answer(&BaseFolder::new(None), &mut Vec::new())
        };
        let error = ask(Some(Attempt::Number(7))).unwrap_err();
        assert_eq!(error.to_string(), "o had 1 attempt in run 20260101-000000.000-1");
        assert_eq!(ask(Some(Attempt::Number(1))).unwrap(), Status::Good);
        assert!(attempt("0").is_err() && attempt("1").is_ok());
        fs::remove_dir_all(&folder).unwrap();
    }
}
