//! `output.log`: what commands print, in pieces, each with a header line that names its source and length.
//!
//! Collects in memory; the record writes it together with the journal. It does not know what is shown on the terminal.

use std::collections::BTreeMap;
use std::io::Write as _;

use rakuda_proto::agent::OutputDescriptor;

/// Maximum bytes that are kept of one attempt.
const ATTEMPT_BYTES_MAX: u64 = 16 << 20;
/// Maximum bytes that are kept of one run.
const RUN_BYTES_MAX: u64 = 1 << 30;

/// A task and its attempt; `None`: commands that no action asked for.
pub(crate) type Source = Option<(u32, u32)>;

/// What commands have printed, until it is written.
#[derive(Debug)]
pub(super) struct OutputLog {
    /// Pieces that are not in the file.
    pub pending: Vec<u8>,
    /// Bytes of output that were kept.
    bytes: u64,
    /// Of attempts that go on: bytes kept, and bytes dropped.
    sources: BTreeMap<Source, (u64, u64)>,
    attempt_bytes_max: u64,
    run_bytes_max: u64,
}

impl Default for OutputLog {
    fn default() -> Self {
        Self {
            pending: Vec::new(),
            bytes: 0,
            sources: BTreeMap::new(),
            attempt_bytes_max: ATTEMPT_BYTES_MAX,
            run_bytes_max: RUN_BYTES_MAX,
        }
    }
}

impl OutputLog {
    /// Takes bytes that a command wrote.
    pub fn push(
        &mut self,
        source: Source,
        name: &[u8],
        descriptor: OutputDescriptor,
        bytes: &[u8],
    ) {
        let (kept, dropped) = self.sources.entry(source).or_default();
        let room = self.attempt_bytes_max.saturating_sub(*kept);
        let room = room.min(self.run_bytes_max.saturating_sub(self.bytes));
        let room = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
        // What comes after a gap is not kept: it would look like the next line.
        let keep = if *dropped > 0 { 0 } else { room };
        *kept += keep as u64;
        *dropped += (bytes.len() - keep) as u64;
        self.bytes += keep as u64;
        if keep > 0 {
            let word = match descriptor {
                OutputDescriptor::Stdout => "stdout",
                OutputDescriptor::Stderr => "stderr",
            };
            push_header(&mut self.pending, source, word, keep as u64, name);
            self.pending.extend_from_slice(&bytes[..keep]);
            self.pending.push(b'\n');
        }
    }

    /// Nothing more will come from there: says what was dropped.
    pub fn end(&mut self, source: Source, name: &[u8]) {
        if self.sources.is_empty() {
            return;
        }
        if let Some((_, dropped @ 1..)) = self.sources.remove(&source) {
            push_header(&mut self.pending, source, "dropped", dropped, name);
        }
    }
}

fn push_header(out: &mut Vec<u8>, source: Source, what: &str, bytes: u64, name: &[u8]) {
    let written = match source {
        Some((task, attempt)) => {
            write!(out, "=== task {task} attempt {attempt} {what} {bytes} ")
        }
        None => write!(out, "=== task - {what} {bytes} "),
    };
    written.expect("memory always takes more");
    // A name must not end the header.
    out.extend(name.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }));
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use OutputDescriptor::{Stderr, Stdout};

    #[test]
    fn pieces_say_whose_they_are_and_how_long() {
        let mut log = OutputLog::default();
        log.push(Some((12, 1)), b"a\nb", Stdout, b"one\ntwo");
        log.push(None, b"", Stderr, b"\xff");
        let expected =
            b"=== task 12 attempt 1 stdout 7 a b\none\ntwo\n=== task - stderr 1 \n\xff\n";
        assert_eq!(log.pending, expected);
    }

    #[test]
    fn what_is_beyond_the_limit_of_an_attempt_is_counted() {
        let mut log = OutputLog { attempt_bytes_max: 4, ..OutputLog::default() };
        log.push(Some((1, 1)), b"a", Stdout, b"12345");
        log.push(Some((1, 1)), b"a", Stdout, b"6");
        log.push(Some((2, 1)), b"b", Stdout, b"x");
        log.end(Some((1, 1)), b"a");
        log.end(Some((2, 1)), b"b");
        let text = String::from_utf8(log.pending).unwrap();
        assert_eq!(
            text,
            "=== task 1 attempt 1 stdout 4 a\n1234\n=== task 2 attempt 1 stdout 1 b\nx\n\
             === task 1 attempt 1 dropped 2 a\n"
        );
    }

    #[test]
    fn what_is_beyond_the_limit_of_the_run_is_counted_too() {
        let mut log = OutputLog { run_bytes_max: 3, ..OutputLog::default() };
        log.push(Some((1, 1)), b"a", Stdout, b"12");
        log.push(Some((2, 1)), b"b", Stdout, b"34");
        log.end(Some((2, 1)), b"b");
        let text = String::from_utf8(log.pending).unwrap();
        assert!(
            text.ends_with(
                "=== task 2 attempt 1 stdout 1 b\n3\n=== task 2 attempt 1 dropped 1 b\n"
            )
        );
    }
}
