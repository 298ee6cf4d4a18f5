//! The terminal of `rakudactl top`: ratatui's backend over the sequences that every terminal of the last forty years
//! knows, raw mode while it lasts, keys.
//!
//! Written here and not taken from a crate, since this is all of crossterm that it would use, at the price of nine
//! crates.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::BorrowedFd;

use ratatui_core::backend::{Backend, ClearType, WindowSize};
use ratatui_core::buffer::Cell;
use ratatui_core::layout::{Position, Size};
use ratatui_core::style::{Color, Modifier};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio::{stdin, stdout};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// What a terminal without a size is taken for.
const SIZE: Size = Size { width: 80, height: 24 };
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[m\x1b[?25h\x1b[?1049l";

/// What a user has pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// One that writes.
    Letter(char),
    /// Enter.
    Enter,
    /// Tab.
    Tab,
    /// Backspace.
    Erase,
    /// Escape alone.
    Escape,
    /// An arrow.
    Up,
    /// Another.
    Down,
    /// Page Up.
    PageUp,
    /// Page Down.
    PageDown,
    /// Home.
    Home,
    /// End.
    End,
    /// Ctrl-L.
    Redraw,
    /// Ctrl-C, Ctrl-D, or the terminal has ended.
    Interrupt,
}

/// The terminal, in raw mode and with a screen of its own until it is dropped.
pub struct Screen {
    before: Termios,
    out: String,
}

impl Screen {
    /// Whether there is a terminal that one can draw on and read keys from.
    pub fn is_there(kind: Option<&std::ffi::OsStr>) -> bool {
        let can = kind.is_some_and(|kind| kind != "dumb" && !kind.is_empty());
        can && io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    /// Takes the terminal.
    ///
    /// # Errors When standard input is no terminal.
    pub fn open() -> io::Result<Self> {
        let before = tcgetattr(stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Now, &raw)?;
        let mut screen = Self { before, out: ENTER.to_owned() };
        screen.flush()?;
        Ok(screen)
    }

    /// The keys that were pressed within this time, or until the first, or until something else is there to be read.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn keys(most: Timespec, other: BorrowedFd<'_>) -> io::Result<Vec<Key>> {
        let standard_input = stdin();
        let mut ready = [
            PollFd::new(&standard_input, PollFlags::IN),
            PollFd::from_borrowed_fd(other, PollFlags::IN),
        ];
        match poll(&mut ready, Some(&most)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            Ok(_) if ready[0].revents().is_empty() => return Ok(Vec::new()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut bytes = [0; 64];
        match rustix::io::read(stdin(), &mut bytes)? {
            0 => Ok(vec![Key::Interrupt]),
            count => Ok(keys_of(&bytes[..count])),
        }
    }
}

/// The keys in what a terminal has sent. What is no key here is dropped.
fn keys_of(mut bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    while let Some(&first) = bytes.first() {
        let (key, length) = match bytes {
            [0x1b, b'[' | b'O', rest @ ..] => {
                let (key, length) = key_of_sequence(rest);
                (key, length + 2)
            }
            _ => match first {
                0x03 | 0x04 => (Some(Key::Interrupt), 1),
                0x1b => (Some(Key::Escape), 1),
                0x0c => (Some(Key::Redraw), 1),
                b'\r' | b'\n' => (Some(Key::Enter), 1),
                b'\t' => (Some(Key::Tab), 1),
                0x08 | 0x7f => (Some(Key::Erase), 1),
                0x02 => (Some(Key::PageUp), 1),
                0x06 => (Some(Key::PageDown), 1),
                _ => letter(bytes),
            },
        };
        keys.extend(key);
        bytes = &bytes[length.min(bytes.len())..];
    }
    keys
}

/// Behind `ESC [` or `ESC O`: digits and semicolons, then the byte that ends it. Which key, and how many bytes.
fn key_of_sequence(rest: &[u8]) -> (Option<Key>, usize) {
    let Some(end) = rest.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b';')) else {
        return (None, rest.len());
    };
    let key = match &rest[..=end] {
        b"A" => Some(Key::Up),
        b"B" => Some(Key::Down),
        b"5~" => Some(Key::PageUp),
        b"6~" => Some(Key::PageDown),
        b"H" | b"1~" | b"7~" => Some(Key::Home),
        b"F" | b"4~" | b"8~" => Some(Key::End),
        _ => None,
    };
    (key, end + 1)
}

/// The letter that these bytes begin with, and how many it has.
fn letter(bytes: &[u8]) -> (Option<Key>, usize) {
    let valid = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    match valid.chars().next() {
        Some(letter) if !letter.is_control() => (Some(Key::Letter(letter)), letter.len_utf8()),
        _ => (None, 1),
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.out.push_str(LEAVE);
        // Where the terminal is gone there is nothing to give back.
        let _ = self.flush();
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}

fn style(cell: &Cell) -> String {
    let mut style = String::from("\x1b[0");
    for (modifier, code) in [
        (Modifier::BOLD, 1),
        (Modifier::DIM, 2),
        (Modifier::UNDERLINED, 4),
        (Modifier::REVERSED, 7),
    ] {
        if cell.modifier.contains(modifier) {
            let _ = write!(style, ";{code}");
        }
    }
    let colour = match cell.fg {
        Color::Red => 31,
        Color::Green => 32,
        Color::Yellow => 33,
        Color::Blue => 34,
        Color::Cyan => 36,
        _ => 39,
    };
    let _ = write!(style, ";{colour}m");
    style
}

impl Backend for Screen {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        // Where the cursor is, as far as that is sure.
        let mut next: Option<(u16, u16)> = None;
        let mut look = String::new();
        for (x, y, cell) in content {
            if next != Some((x, y)) {
                let _ = write!(self.out, "\x1b[{};{}H", y + 1, x + 1);
            }
            let wanted = style(cell);
            if wanted != look {
                self.out.push_str(&wanted);
                look = wanted;
            }
            self.out.push_str(cell.symbol());
            // After what may be wider than a column, the cursor's place is said anew.
            next = cell.symbol().is_ascii().then_some((x + 1, y));
        }
        self.out.push_str("\x1b[m");
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.out.push_str("\x1b[?25l");
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.out.push_str("\x1b[?25h");
        Ok(())
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        let _ = write!(self.out, "\x1b[{};{}H", y + 1, x + 1);
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        self.out.push_str("\x1b[m\x1b[H\x1b[2J");
        Ok(())
    }

    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        match region {
            ClearType::All => return self.clear(),
            ClearType::AfterCursor => self.out.push_str("\x1b[J"),
            ClearType::BeforeCursor => self.out.push_str("\x1b[1J"),
            ClearType::CurrentLine => self.out.push_str("\x1b[2K"),
            ClearType::UntilNewLine => self.out.push_str("\x1b[K"),
        }
        Ok(())
    }

    fn size(&self) -> io::Result<Size> {
        let size = tcgetwinsize(stdout())?;
        if size.ws_col == 0 || size.ws_row == 0 {
            return Ok(SIZE);
        }
        Ok(Size { width: size.ws_col, height: size.ws_row })
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size::ZERO })
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(self.out.as_bytes())?;
        self.out.clear();
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_from_parts_of_sequences() {
        assert_eq!(keys_of(b"j/"), [Key::Letter('j'), Key::Letter('/')]);
        assert_eq!(keys_of(b"\x1b[B\x1b[A\x1bOB"), [Key::Down, Key::Up, Key::Down]);
        assert_eq!(keys_of(b"\x1b[6~\x1b[5~x"), [Key::PageDown, Key::PageUp, Key::Letter('x')]);
        assert_eq!(keys_of(b"\x1b[1;5C\x1b[H\x1b[4~"), [Key::Home, Key::End]);
        assert_eq!(keys_of(b"\x1b[1;5"), []);
        assert_eq!(keys_of("ä\r\x7f".as_bytes()), [Key::Letter('ä'), Key::Enter, Key::Erase]);
        assert_eq!(keys_of(b"\xffx\x03"), [Key::Letter('x'), Key::Interrupt]);
        assert_eq!(keys_of(b"\x1b"), [Key::Escape]);
    }
}
