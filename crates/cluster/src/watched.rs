//! Programs that are started to be talked to: their pipes, the last lines of their stderr, their end.
//!
//! It does not know what they are for.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use rakuda_agent::{Helper, HelperProcess};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, BufReader};
use tokio::net::unix::pipe;

/// Maximum lines of stderr that are kept.
const LINES_KEPT: usize = 20;
/// Maximum bytes of such a line.
const LINE_BYTES_MAX: usize = 1000;

/// A program with the other ends of its pipes.
pub(crate) struct Started {
    pub stdin: pipe::Sender,
    pub stdout: pipe::Receiver,
    /// Ends it when dropped, and keeps the last lines of its stderr.
    pub watched: Watched,
    /// For signals.
    pub process: HelperProcess,
}

/// Starts `words`.
pub(crate) fn start(words: &[&[u8]]) -> Result<Started, String> {
    let Helper { stdin, stdout, stderr, process } =
        Helper::start(words).map_err(|error| error.to_string())?;
    let piped = |error: std::io::Error| {
        let name = String::from_utf8_lossy(words[0]);
        format!("set up the pipes of {name}: {error}")
    };
    let stdin = pipe::Sender::from_owned_fd(stdin).map_err(piped)?;
    let stdout = pipe::Receiver::from_owned_fd(stdout).map_err(piped)?;
    let stderr = pipe::Receiver::from_owned_fd(stderr).map_err(piped)?;
    let watched = Watched::new(process.clone(), stderr);
    Ok(Started { stdin, stdout, watched, process })
}

/// A program's process; killed when dropped.
pub(crate) struct Watched {
    process: HelperProcess,
    /// The last lines of its stderr.
    lines: Rc<RefCell<VecDeque<String>>>,
    ended: Rc<Cell<Option<i32>>>,
    over: Rc<tokio::sync::Notify>,
}

impl Watched {
    fn new(process: HelperProcess, stderr: pipe::Receiver) -> Self {
        let watched =
            Self { process, lines: Rc::default(), ended: Rc::default(), over: Rc::default() };
        let heard = tokio::task::spawn_local(keep_lines(stderr, Rc::clone(&watched.lines)));
        let process = watched.process.clone();
        let (ended, over) = (Rc::clone(&watched.ended), Rc::clone(&watched.over));
        tokio::task::spawn_local(async move {
            let status = process.ended().await;
            // What it wrote comes at once, unless something that it started still has its stderr.
            let _ = tokio::time::timeout(Duration::from_millis(200), heard).await;
            ended.set(Some(status));
            over.notify_waiters();
        });
        watched
    }

    /// Waits until it has ended.
    pub async fn ended(&self) -> i32 {
        loop {
            if let Some(status) = self.ended.get() {
                return status;
            }
            self.over.notified().await;
        }
    }

    /// What its stderr has said.
    pub fn words(&self) -> String {
        self.lines.borrow().iter().map(String::as_str).collect::<Vec<_>>().join("; ")
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if self.ended.get().is_none() {
            self.process.signal(libc::SIGKILL);
        }
    }
}

/// What [`read_piece`] has found.
pub(crate) struct Piece {
    /// Bytes that were read; 0 at the end.
    pub bytes: usize,
    /// The line is complete.
    pub ends_line: bool,
}

/// Adds what `reader` has next to `line`, up to the end of the line. What is beyond `bytes_max` is left out.
pub(crate) async fn read_piece(
    reader: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
    bytes_max: usize,
) -> std::io::Result<Piece> {
    let there = reader.fill_buf().await?;
    let end = there.iter().position(|byte| *byte == b'\n');
    let bytes = end.map_or(there.len(), |end| end + 1);
    let room = bytes_max.saturating_sub(line.len());
    line.extend_from_slice(&there[..bytes.min(room)]);
    reader.consume(bytes);
    Ok(Piece { bytes, ends_line: end.is_some() })
}

async fn keep_lines(stderr: pipe::Receiver, lines: Rc<RefCell<VecDeque<String>>>) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        match read_piece(&mut reader, &mut line, LINE_BYTES_MAX).await {
            Ok(Piece { bytes, ends_line }) if bytes > 0 => {
                if ends_line {
                    keep_line(&mut line, &lines);
                }
            }
            _ => return keep_line(&mut line, &lines),
        }
    }
}

fn keep_line(line: &mut Vec<u8>, lines: &RefCell<VecDeque<String>>) {
    let text = String::from_utf8_lossy(line).trim().to_owned();
    line.clear();
    if !text.is_empty() {
        let mut lines = lines.borrow_mut();
        if lines.len() == LINES_KEPT {
            lines.pop_front();
        }
        lines.push_back(text);
    }
}
