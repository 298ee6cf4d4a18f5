//! The last lines that some tasks printed, out of a run's output.log, in one pass and bounded memory.

use std::collections::BTreeMap;
use std::io::{self, BufRead};

use crate::output::read_pieces;

/// Maximum bytes that are kept of each task.
const BYTES_KEPT: usize = 4096;
/// Maximum lines that are kept of each task.
const LINES_KEPT: usize = 20;

/// The tails of the last attempts of these tasks (sorted).
///
/// # Errors
/// When reading fails.
pub fn tails(log: impl BufRead, tasks: &[u32]) -> io::Result<BTreeMap<u32, String>> {
    let mut kept: BTreeMap<u32, (u32, Vec<u8>)> = BTreeMap::new();
    let is_wanted =
        |source: Option<(u32, u32)>| source.filter(|(task, _)| tasks.binary_search(task).is_ok());
    read_pieces(
        log,
        |piece| is_wanted(piece.source).is_some(),
        |piece, bytes| {
            let Some((task, attempt)) = piece.source else { return Ok(()) };
            let (of_attempt, tail) = kept.entry(task).or_default();
            if *of_attempt != attempt {
                *of_attempt = attempt;
                tail.clear();
            }
            tail.extend_from_slice(&bytes[bytes.len().saturating_sub(BYTES_KEPT)..]);
            let excess = tail.len().saturating_sub(BYTES_KEPT);
            tail.drain(..excess);
            Ok(())
        },
    )?;
    Ok(kept.into_iter().map(|(task, (_, tail))| (task, last_lines(&tail))).collect())
}

fn last_lines(tail: &[u8]) -> String {
    let text = String::from_utf8_lossy(tail);
    let lines: Vec<&str> = text.lines().collect();
    let cut = tail.len() >= BYTES_KEPT && lines.len() > 1;
    let first = lines.len().saturating_sub(LINES_KEPT).max(usize::from(cut));
    lines[first..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_is_of_the_last_attempt_and_of_its_last_lines() {
        let mut log = Vec::new();
        let mut piece = |source: &str, text: &str| {
            let header = format!("=== task {source} stdout {} x y\n", text.len());
            log.extend_from_slice(format!("{header}{text}\n").as_bytes());
        };
        piece("3 attempt 1", "first try\n");
        let many: Vec<String> = (0..100).map(|line| format!("line {line}")).collect();
        let many = many.join("\n") + "\n";
        piece("3 attempt 2", &many[..200]);
        piece("4 attempt 1", "not asked for\n");
        piece("3 attempt 2", &many[200..]);
        let tails = tails(log.as_slice(), &[2, 3]).unwrap();
        assert_eq!(tails.len(), 1);
        let lines: Vec<&str> = tails[&3].lines().collect();
        assert_eq!((lines.len(), lines[0], lines[19]), (20, "line 80", "line 99"));
    }

    #[test]
    fn tail_of_a_long_output_begins_with_a_whole_line() {
        let lines: Vec<String> = (0..2000).map(|line| format!("{line:0400}")).collect();
        let text = lines.join("\n") + "\n";
        let log = format!("=== task 1 attempt 1 stderr {} a\n{text}\n", text.len());
        let tail = &tails(log.as_bytes(), &[1]).unwrap()[&1];
        assert!(tail.lines().all(|line| line.len() == 400), "{tail}");
        assert!(tail.ends_with("1999"));
    }
}
