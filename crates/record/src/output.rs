//! `output.log` read again: the pieces of what commands printed. It goes through the file without
//! keeping it, and after damage goes on at the next line that is a header.

use std::io::{self, BufRead, Read as _};

use rakuda_proto::Text;

/// Maximum bytes of a header: names of files have at most 4096.
const HEADER_BYTES_MAX: u64 = 1 << 16;

/// What a piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PieceKind {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// The bytes were not kept, and the piece is empty.
    Dropped,
}

/// The header of a piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Number of the task, and of the attempt. `None`: a command that no action asked for.
    pub source: Option<(u32, u32)>,
    /// What it is.
    pub kind: PieceKind,
    /// Its bytes.
    pub bytes: u64,
    /// Name of the task; a line feed in it is a space here.
    pub name: Text,
}

/// Calls `each` with every piece whose header is `wanted`, in order.
///
/// # Errors
/// When reading fails, or `each` does.
pub fn read_pieces(
    mut log: impl BufRead,
    mut wanted: impl FnMut(&Piece) -> bool,
    mut each: impl FnMut(&Piece, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut header = Vec::new();
    let mut content = Vec::new();
    loop {
        header.clear();
        if log.by_ref().take(HEADER_BYTES_MAX).read_until(b'\n', &mut header)? == 0 {
            return Ok(());
        }
        let Some(piece) = parse_header(&header) else {
            // The rest of something that was cut, or a line feed after a piece.
            continue;
        };
        if piece.kind == PieceKind::Dropped {
            if wanted(&piece) {
                each(&piece, &[])?;
            }
            continue;
        }
        if wanted(&piece) {
            content.clear();
            log.by_ref().take(piece.bytes).read_to_end(&mut content)?;
            each(&piece, &content)?;
        } else {
            io::copy(&mut log.by_ref().take(piece.bytes), &mut io::sink())?;
        }
    }
}

/// The next piece of a log of which `bytes` are a part, with its content. `None`: it has not come as a whole. `at` is
/// where to go on.
pub fn take_piece<'a>(bytes: &'a [u8], at: &mut usize) -> Option<(Piece, &'a [u8])> {
    loop {
        let line = &bytes[*at..];
        let line = &line[..=memchr::memchr(b'\n', line)?];
        let Some(piece) = parse_header(line) else {
            // The line feed after a piece, or the rest of something that was cut.
            *at += line.len();
            continue;
        };
        let from = *at + line.len();
        let length =
            if piece.kind == PieceKind::Dropped { 0 } else { usize::try_from(piece.bytes).ok()? };
        let content = bytes.get(from..from.checked_add(length)?)?;
        *at = from + length;
        return Some((piece, content));
    }
}

fn parse_header(line: &[u8]) -> Option<Piece> {
    let line = line.strip_suffix(b"\n")?.strip_prefix(b"=== task ")?;
    let (task, line) = word(line)?;
    let (source, line) = if task == "-" {
        (None, line)
    } else {
        let (attempt, line) = word(line.strip_prefix(b"attempt ")?)?;
        (Some((task.parse().ok()?, attempt.parse().ok()?)), line)
    };
    let (kind, line) = word(line)?;
    let kind = match kind {
        "stdout" => PieceKind::Stdout,
        "stderr" => PieceKind::Stderr,
        "dropped" => PieceKind::Dropped,
        _ => return None,
    };
    let (bytes, name) = word(line)?;
    Some(Piece { source, kind, bytes: bytes.parse().ok()?, name: Text(name.to_vec()) })
}

/// What stands before the next space, and what after it.
fn word(line: &[u8]) -> Option<(&str, &[u8])> {
    let end = memchr::memchr(b' ', line)?;
    Some((str::from_utf8(&line[..end]).ok()?, &line[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(log: &[u8]) -> Vec<(String, PieceKind, Vec<u8>)> {
        let mut pieces = Vec::new();
        let each = |piece: &Piece, content: &[u8]| {
            pieces.push((piece.name.to_display(), piece.kind, content.to_vec()));
            Ok(())
        };
        read_pieces(log, |_| true, each).unwrap();
        pieces
    }

    #[test]
    fn pieces_are_read_back_as_they_were_printed() {
        let log = b"=== task 12 attempt 1 stdout 7 a b\none\ntwo\n=== task - stderr 1 \n\xff\n\
            === task 3 attempt 2 dropped 99 c\n";
        let expected = [
            ("a b".to_owned(), PieceKind::Stdout, b"one\ntwo".to_vec()),
            (String::new(), PieceKind::Stderr, vec![0xff]),
            ("c".to_owned(), PieceKind::Dropped, vec![]),
        ];
        assert_eq!(all(log), expected);
    }

    #[test]
    fn pieces_are_taken_when_they_are_whole() {
        let log = b"garbage\n=== task 12 attempt 1 stdout 7 a\none\ntwo\n=== task 3 attempt 2 dropped 99 c\n";
        for end in 0..=log.len() {
            let mut at = 0;
            let mut found = Vec::new();
            while let Some((piece, content)) = take_piece(&log[..end], &mut at) {
                found.push((piece.name.to_display(), content.to_vec()));
            }
            let all = [("a".to_owned(), b"one\ntwo".to_vec()), ("c".to_owned(), vec![])];
            let whole = usize::from(end >= 48) + usize::from(end == log.len());
            assert_eq!(found, all[..whole], "{end}");
        }
    }

    #[test]
    fn content_that_looks_like_a_header_is_content() {
        let inner = "=== task 1 attempt 1 stdout 5 x\nhello";
        let log = format!("=== task 2 attempt 1 stdout {} y\n{inner}\n", inner.len());
        assert_eq!(all(log.as_bytes()), [("y".to_owned(), PieceKind::Stdout, inner.into())]);
    }

    #[test]
    fn torn_end_gives_what_is_there_and_garbage_is_passed_over() {
        let log = b"garbage\n=== task what\n=== task 1 attempt 1 stdout 100 a\nonly this";
        assert_eq!(all(log), [("a".to_owned(), PieceKind::Stdout, b"only this".to_vec())]);
        assert_eq!(all(b"=== task 1 attempt 1 stdout 18446744073709551615 a\nx").len(), 1);
    }

    #[test]
    fn unwanted_pieces_are_not_given() {
        let log = b"=== task 1 attempt 1 stdout 1 a\nx\n=== task 2 attempt 1 stdout 1 b\ny\n";
        let mut names = Vec::new();
        let wanted = |piece: &Piece| piece.name == Text::from("b");
        read_pieces(log.as_slice(), wanted, |piece, content| {
            names.push((piece.name.to_display(), content.to_vec()));
            Ok(())
        })
        .unwrap();
        assert_eq!(names, [("b".to_owned(), b"y".to_vec())]);
    }
}
