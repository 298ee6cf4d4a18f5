//! Shows what commands write: whole lines, stdout and stderr apart, never mixed inside a line.
//!
//! It does not know tasks; a *source* is a command, or all commands of a task (`--output=task`).

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::BorrowedFd;

use rakuda_proto::agent::OutputDescriptor;
use rakuda_proto::front::CiSystem;
use rustix::io::Errno;

use crate::ci::Group;
use crate::screen::Screen;

/// When output is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputMode {
    /// As it comes, byte for byte: one command at a time runs.
    Through,
    /// Line by line.
    Line,
    /// All at once when the task is over.
    Task,
    /// Commands write to the terminal themselves.
    None,
}

/// Maximum bytes of a line; longer ones are shown in pieces.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Maximum bytes of a task's output that are held back; more is shown at once.
const HELD_BYTES_MAX: usize = 64 << 20;
/// Bytes, about, of a piece in which output is kept. One piece without end would be copied, and be there twice, each
/// time that it grows.
const PIECE_BYTES: usize = 64 << 10;
/// Maximum bytes of a write to a pipe that is not mixed with those of other processes (`PIPE_BUF`).
const ATOMIC_BYTES: usize = 4096;
/// Maximum number of tries to write the last output.
const LAST_TRIES: u32 = 250;
/// Time between two of these tries.
const LAST_RETRY: std::time::Duration = std::time::Duration::from_millis(20);

#[derive(Debug, Default)]
struct Source {
    prefix: Vec<u8>,
    /// The group as which held output is shown, if any.
    group: Option<Group>,
    /// The unfinished last line of stdout and of stderr.
    partial: [Vec<u8>; 2],
    /// Whole lines held back, in order (`Task`).
    held: VecDeque<(OutputDescriptor, Vec<u8>)>,
    held_bytes: usize,
}

/// Collects and writes output.
#[derive(Debug)]
pub struct Printer {
    mode: OutputMode,
    /// Groups have the form of this system.
    ci: Option<CiSystem>,
    /// Groups so far.
    groups: u64,
    sources: BTreeMap<u64, Source>,
    /// Output that is ready to be written, in order.
    ready: VecDeque<(OutputDescriptor, Vec<u8>)>,
    /// Output that is being written: nothing may come between the pieces.
    outgoing: VecDeque<(OutputDescriptor, Vec<u8>)>,
    /// The live display, when there is one.
    screen: Option<Screen>,
}

impl Printer {
    /// A printer for this process's stdout and stderr.
    pub fn new(mode: OutputMode) -> Self {
        let (ready, outgoing) = (VecDeque::new(), VecDeque::new());
        Self { mode, ci: None, groups: 0, sources: BTreeMap::new(), ready, outgoing, screen: None }
    }

    /// Groups are shown in the form of this system.
    pub fn set_ci(&mut self, system: Option<CiSystem>) {
        self.ci = system;
    }

    /// From now on there may be lines at the bottom of the terminal.
    pub(crate) fn set_screen(&mut self, screen: Screen) {
        self.screen = Some(screen);
    }

    /// Sets these lines, to be shown with the next flush.
    pub(crate) fn set_lines(&mut self, lines: &[String]) {
        if let Some(screen) = &mut self.screen {
            screen.set_lines(lines);
        }
    }

    /// Names a source, so that its lines begin with `[name] `.
    pub fn set_prefix(&mut self, source: u64, name: &[u8]) {
        let name = name.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte });
        let prefix = [b"[".as_slice(), &name.collect::<Vec<_>>(), b"] "].concat();
        self.sources.entry(source).or_default().prefix = prefix;
    }

    /// What is held back of a source is a group of lines from now on.
    pub(crate) fn set_group(&mut self, source: u64, group: Group) {
        self.sources.entry(source).or_default().group = Some(group);
    }

    /// Takes bytes that `source` wrote.
    pub fn push(&mut self, source: u64, descriptor: OutputDescriptor, bytes: &[u8]) {
        if self.mode == OutputMode::Through {
            show(&mut self.ready, descriptor, bytes);
            return;
        }
        let entry = self.sources.entry(source).or_default();
        let partial = &mut entry.partial[descriptor as usize];
        let Some(last) = bytes.iter().rposition(|byte| *byte == b'\n') else {
            partial.extend_from_slice(bytes);
            if partial.len() > LINE_BYTES_MAX {
                let piece = std::mem::take(partial);
                self.emit(source, descriptor, piece);
            }
            return;
        };
        let mut lines = std::mem::take(partial);
        lines.extend_from_slice(&bytes[..=last]);
        partial.extend_from_slice(&bytes[last + 1..]);
        self.emit(source, descriptor, lines);
    }

    /// Nothing more will come from `source` (or nothing for now: it may begin again).
    pub fn end(&mut self, source: u64) {
        let Some(entry) = self.sources.get_mut(&source) else {
            return;
        };
        for descriptor in [OutputDescriptor::Stdout, OutputDescriptor::Stderr] {
            let mut rest = std::mem::take(&mut entry.partial[descriptor as usize]);
            if !rest.is_empty() {
                rest.push(b'\n');
                let lines = with_prefix(&entry.prefix, rest);
                keep(&mut entry.held, descriptor, lines);
            }
        }
        let entry = self.sources.remove(&source).expect("it was there");
        self.release(entry.group.as_ref(), entry.held);
    }

    /// Shows what was held back. A group goes to stdout as a whole: a system that reads two streams
    /// would not know the order.
    fn release(&mut self, group: Option<&Group>, held: VecDeque<(OutputDescriptor, Vec<u8>)>) {
        let Some((system, group)) = self.ci.zip(group).filter(|_| !held.is_empty()) else {
            for (descriptor, lines) in held {
                keep(&mut self.ready, descriptor, lines);
            }
            return;
        };
        self.groups += 1;
        let number = self.groups;
        show(&mut self.ready, OutputDescriptor::Stdout, group.begin(system, number).as_bytes());
        for (_, lines) in held {
            keep(&mut self.ready, OutputDescriptor::Stdout, lines);
        }
        show(&mut self.ready, OutputDescriptor::Stdout, group.end(system, number).as_bytes());
    }

    fn emit(&mut self, source: u64, descriptor: OutputDescriptor, lines: Vec<u8>) {
        let entry = self.sources.get_mut(&source).expect("it was made by push");
        let lines = with_prefix(&entry.prefix, lines);
        if self.mode == OutputMode::Task {
            entry.held_bytes += lines.len();
            keep(&mut entry.held, descriptor, lines);
            if entry.held_bytes < HELD_BYTES_MAX {
                return;
            }
            entry.held_bytes = 0;
            let (held, group) = (std::mem::take(&mut entry.held), entry.group.clone());
            self.release(group.as_ref(), held);
        } else {
            keep(&mut self.ready, descriptor, lines);
        }
    }

    /// Writes what is ready, as much as stdout and stderr take without making the hub wait.
    /// `Ok(false)`: something is left.
    pub fn flush(&mut self) -> Result<bool, Errno> {
        if !self.drain()? {
            return Ok(false);
        }
        self.compose();
        self.drain()
    }

    /// Puts what is ready on its way; with a display, around it.
    fn compose(&mut self) {
        let Some(screen) = &mut self.screen else {
            std::mem::swap(&mut self.ready, &mut self.outgoing);
            return;
        };
        let mut text = Vec::new();
        for (descriptor, bytes) in self.ready.drain(..) {
            if descriptor == OutputDescriptor::Stdout && !screen.stdout_is_it {
                show(&mut self.outgoing, descriptor, &bytes);
            } else {
                text.extend_from_slice(&bytes);
            }
        }
        if let Some(bytes) = screen.compose(&text) {
            self.outgoing.push_back((OutputDescriptor::Stderr, bytes));
        }
    }

    fn drain(&mut self) -> Result<bool, Errno> {
        while let Some((descriptor, bytes)) = self.outgoing.front_mut() {
            let to = match descriptor {
                OutputDescriptor::Stdout => rustix::stdio::stdout(),
                OutputDescriptor::Stderr => rustix::stdio::stderr(),
            };
            let written = write_some(to, bytes)?;
            if written < bytes.len() {
                bytes.drain(..written);
                return Ok(false);
            }
            self.outgoing.pop_front();
        }
        Ok(true)
    }

    /// Adds whole lines that come from no command.
    pub fn push_block(&mut self, descriptor: OutputDescriptor, lines: &[u8]) {
        show(&mut self.ready, descriptor, lines);
    }

    /// Writes what is ready at the end of a run, also when its reader is slow. Does not wait long for a reader that
    /// does not read at all.
    pub async fn flush_patiently(&mut self) {
        for _ in 0..LAST_TRIES {
            if !matches!(self.flush(), Ok(false)) {
                return;
            }
            tokio::time::sleep(LAST_RETRY).await;
        }
    }

    /// Gives up what has not been written.
    pub fn discard(&mut self) {
        self.ready.clear();
        self.outgoing.clear();
        self.sources.clear();
    }
}

fn show(
    ready: &mut VecDeque<(OutputDescriptor, Vec<u8>)>,
    descriptor: OutputDescriptor,
    bytes: &[u8],
) {
    if !extend_last(ready, descriptor, bytes) {
        ready.push_back((descriptor, bytes.to_vec()));
    }
}

/// As [`show`]: what is large is not copied.
fn keep(
    pieces: &mut VecDeque<(OutputDescriptor, Vec<u8>)>,
    descriptor: OutputDescriptor,
    mut lines: Vec<u8>,
) {
    if !extend_last(pieces, descriptor, &lines) {
        // Lines that have grown have room for twice as much.
        lines.shrink_to_fit();
        pieces.push_back((descriptor, lines));
    }
}

/// Adds to the last piece, if it is for that descriptor and does not become too large.
fn extend_last(
    pieces: &mut VecDeque<(OutputDescriptor, Vec<u8>)>,
    descriptor: OutputDescriptor,
    bytes: &[u8],
) -> bool {
    let Some((last, piece)) = pieces.back_mut() else { return false };
    let wanted = piece.len() + bytes.len();
    if *last != descriptor || wanted > PIECE_BYTES {
        return false;
    }
    if wanted > piece.capacity() {
        let room = (2 * wanted).min(PIECE_BYTES);
        piece.reserve_exact(room - piece.len());
    }
    piece.extend_from_slice(bytes);
    true
}

fn with_prefix(prefix: &[u8], lines: Vec<u8>) -> Vec<u8> {
    if prefix.is_empty() {
        return lines;
    }
    lines.split_inclusive(|byte| *byte == b'\n').flat_map(|line| [prefix, line].concat()).collect()
}

/// Writes whole lines in pieces that a pipe takes in one go, as long as that does not wait. Returns how many bytes were
/// written.
fn write_some(to: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
    let mut written = 0;
    while written < bytes.len() {
        if !is_writable(to) {
            break;
        }
        let rest = &bytes[written..];
        let end = if rest.len() <= ATOMIC_BYTES {
            rest.len()
        } else {
            let window = &rest[..ATOMIC_BYTES];
            window.iter().rposition(|byte| *byte == b'\n').map_or(ATOMIC_BYTES, |last| last + 1)
        };
        match rustix::io::write(to, &rest[..end]) {
            Ok(count) => written += count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

/// Whether a write of [`ATOMIC_BYTES`] would not wait. True for a descriptor that cannot be asked.
fn is_writable(to: BorrowedFd<'_>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::from_borrowed_fd(to, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).map_or(true, |count| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use OutputDescriptor::{Stderr, Stdout};

    fn shown(printer: &mut Printer) -> String {
        let ready = std::mem::take(&mut printer.ready);
        let lines = ready.iter().map(|(s, b)| format!("{s:?}: {}", String::from_utf8_lossy(b)));
        lines.collect::<Vec<_>>().concat()
    }

    #[test]
    fn lines_of_two_sources_are_not_mixed() {
        let mut printer = Printer::new(OutputMode::Line);
        printer.push(1, Stdout, b"one ");
        printer.push(2, Stdout, b"two\nrest");
        printer.push(1, Stdout, b"line\n");
        printer.end(2);
        assert_eq!(shown(&mut printer), "Stdout: two\none line\nrest\n");
    }

    #[test]
    fn the_output_of_a_task_comes_in_one_piece_and_in_order() {
        let mut printer = Printer::new(OutputMode::Task);
        printer.set_prefix(1, b"a");
        printer.push(1, Stdout, b"1\n");
        printer.push(2, Stdout, b"x\n");
        printer.push(1, Stderr, b"2\n");
        printer.push(1, Stdout, b"3");
        assert_eq!(shown(&mut printer), "");
        printer.end(1);
        printer.end(2);
        assert_eq!(shown(&mut printer), "Stdout: [a] 1\nStderr: [a] 2\nStdout: [a] 3\nx\n");
    }

    #[test]
    fn groups_hold_what_a_task_printed_and_are_on_one_stream() {
        let mut printer = Printer::new(OutputMode::Task);
        printer.set_ci(Some(CiSystem::Github));
        let group = |title: &str| Group { title: title.into(), began_s: 1, ended_s: 2, open: true };
        printer.set_group(1, group("a"));
        printer.set_group(2, group("silent"));
        printer.push(1, Stderr, b"echo\n");
        printer.push(1, Stdout, b"tail");
        printer.push(3, Stderr, b"of no task\n");
        for source in [2, 1, 3] {
            printer.end(source);
        }
        let expected = "Stdout: ::group::a\necho\ntail\n::endgroup::\nStderr: of no task\n";
        assert_eq!(shown(&mut printer), expected);
    }

    /// What the pieces of `ready` take, and what of it is text.
    fn taken(printer: &Printer) -> (usize, usize) {
        let entry = size_of::<(OutputDescriptor, Vec<u8>)>();
        let taken: usize = printer.ready.iter().map(|(_, piece)| piece.capacity() + entry).sum();
        (taken, printer.ready.iter().map(|(_, piece)| piece.len()).sum())
    }

    #[test]
    fn what_is_held_back_takes_little_more_than_its_text() {
        for line in [2, 100, 5000, 70_000] {
            let mut printer = Printer::new(OutputMode::Task);
            let mut text = vec![b'x'; line - 1];
            text.push(b'\n');
            for _ in 0..(8 << 20) / line {
                printer.push(1, Stdout, &text);
            }
            printer.end(1);
            let (taken, bytes) = taken(&printer);
            assert_eq!(bytes, (8 << 20) / line * line);
            assert!(taken < bytes + bytes / 4, "{taken} for {bytes} in lines of {line}");
        }
    }

    #[test]
    fn one_command_at_a_time_is_shown_byte_for_byte() {
        let mut printer = Printer::new(OutputMode::Through);
        printer.push(1, Stdout, b"no newline");
        assert_eq!(shown(&mut printer), "Stdout: no newline");
    }
}
