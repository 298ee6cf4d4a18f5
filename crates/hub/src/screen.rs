//! A few lines at the bottom of a terminal that are never mixed with what else is written there.
//!
//! The cursor rests in the first column of the first of them. So whoever wants the terminal, also
//! another process, or after a change of its width, erases them with "erase below" alone, without
//! knowing how many they are. What is written goes out in one write(2): erase, text, lines. It does
//! not know what the lines say.

use std::fmt::Write as _;
use std::os::fd::AsFd;

use rustix::fs::fstat;

/// To the first column, and erase all from there to the end of the screen.
pub(crate) const ERASE: &[u8] = b"\r\x1b[J";

/// The display on the terminal that stderr is.
#[derive(Debug)]
pub(crate) struct Screen {
    /// What stdout is written to is this terminal too.
    pub stdout_is_it: bool,
    /// As they are to be drawn, with all that moves the cursor.
    block: Vec<u8>,
    /// Lines have changed since they were drawn.
    changed: bool,
    /// They are on the terminal.
    visible: bool,
    /// What was written last ended its line.
    at_line_start: bool,
}

impl Screen {
    /// A screen with no lines yet.
    pub fn new() -> Self {
        let device = |stream: rustix::fd::BorrowedFd<'_>| {
            let is_terminal = rustix::termios::isatty(stream);
            fstat(stream.as_fd()).ok().filter(|_| is_terminal).map(|stat| stat.st_rdev)
        };
        let stderr = device(rustix::stdio::stderr());
        Self {
            stdout_is_it: stderr.is_some() && device(rustix::stdio::stdout()) == stderr,
            block: Vec::new(),
            changed: false,
            visible: false,
            at_line_start: true,
        }
    }

    /// Columns and rows.
    pub fn size() -> (usize, usize) {
        let size = rustix::termios::tcgetwinsize(rustix::stdio::stderr()).ok();
        let size = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
        size.map_or((80, 24), |size| (size.ws_col.into(), size.ws_row.into()))
    }

    /// Sets the lines to show from now on; none, if the list is empty. Lines have no line ends.
    pub fn set_lines(&mut self, lines: &[String]) {
        let block = block_of(lines);
        self.changed |= block != self.block;
        self.block = block;
    }

    /// The bytes to write to show `text` above the lines; `None` if there is nothing to write.
    pub fn compose(&mut self, text: &[u8]) -> Option<Vec<u8>> {
        if text.is_empty() && !self.changed {
            return None;
        }
        self.changed = false;
        let mut bytes = Vec::with_capacity(text.len() + self.block.len() + ERASE.len());
        if self.visible && (!text.is_empty() || self.block.is_empty()) {
            bytes.extend_from_slice(ERASE);
        } else if self.visible {
            bytes.push(b'\r');
        }
        bytes.extend_from_slice(text);
        self.at_line_start = text.last().map_or(self.at_line_start, |last| *last == b'\n');
        self.visible = self.at_line_start && !self.block.is_empty();
        if self.visible {
            bytes.extend_from_slice(&self.block);
        }
        Some(bytes)
    }
}

/// Each line erases the rest of its own row, so that nothing flickers; the cursor goes back to the first.
fn block_of(lines: &[String]) -> Vec<u8> {
    if lines.is_empty() {
        return Vec::new();
    }
    let mut block = lines.join("\x1b[K\r\n");
    block.push_str("\x1b[J\r");
    if lines.len() > 1 {
        let _ = write!(block, "\x1b[{}A", lines.len() - 1);
    }
    block.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen() -> Screen {
        let (stdout_is_it, block) = (true, Vec::new());
        Screen { stdout_is_it, block, changed: false, visible: false, at_line_start: true }
    }

    fn composed(screen: &mut Screen, text: &str) -> Option<String> {
        screen.compose(text.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn text_comes_above_the_lines_in_one_write() {
        let mut screen = screen();
        screen.set_lines(&["one".into(), "two".into()]);
        let block = "one\x1b[K\r\ntwo\x1b[J\r\x1b[1A";
        assert_eq!(composed(&mut screen, "").as_deref(), Some(block));
        assert_eq!(composed(&mut screen, ""), None);
        let expected = format!("\r\x1b[Jhello\n{block}");
        assert_eq!(composed(&mut screen, "hello\n"), Some(expected));
    }

    #[test]
    fn no_lines_leave_nothing_behind() {
        let mut screen = screen();
        screen.set_lines(&["one".into()]);
        screen.compose(b"");
        screen.set_lines(&[]);
        assert_eq!(composed(&mut screen, "").as_deref(), Some("\r\x1b[J"));
        assert_eq!(composed(&mut screen, "x\n").as_deref(), Some("x\n"));
    }

    #[test]
    fn a_line_that_was_begun_is_left_alone_until_it_ends() {
        let mut screen = screen();
        screen.set_lines(&["one".into()]);
        assert_eq!(composed(&mut screen, "name? ").as_deref(), Some("name? "));
        screen.set_lines(&["two".into()]);
        assert_eq!(composed(&mut screen, "").as_deref(), Some(""));
        assert_eq!(composed(&mut screen, "x\n").as_deref(), Some("x\ntwo\x1b[J\r"));
    }
}
