//! How names, commands and times of a run are spelled in other formats: identifiers with few
//! characters, URIs, shell words, ISO 8601.
//!
//! Pure functions of bytes and numbers; none knows a run or a format.

use std::fmt::Write as _;

use rakuda_proto::Text;

use crate::calendar::Moment;

/// A name with only the bytes that `keep` accepts; any other is `mark` and two hexadecimal digits.
/// `mark` itself is never kept, so different names stay different. The empty name is `mark` alone.
fn escaped(name: &[u8], mark: char, keep: impl Fn(u8) -> bool) -> String {
    if name.is_empty() {
        return mark.to_string();
    }
    let mut text = String::with_capacity(name.len());
    for &byte in name {
        if keep(byte) && byte != mark as u8 {
            text.push(char::from(byte));
        } else {
            write!(text, "{mark}{byte:02X}").expect("writing to a string succeeds");
        }
    }
    text
}

/// A file's identifier in WfFormat, which allows letters, digits and `_ . / : -`: any other byte,
/// and `:` itself, is `:` and two digits.
pub(super) fn file_identifier(name: &Text) -> String {
    escaped(&name.0, ':', |byte| byte.is_ascii_alphanumeric() || b"_./-".contains(&byte))
}

/// The path part of a URI (RFC 3986), `/` kept.
pub(super) fn uri_path(name: &[u8]) -> String {
    escaped(name, '%', |byte| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte))
}

/// `2026-11-21T23:32:00.123+00:00`: ISO 8601 in UTC, to the millisecond (rounded down).
pub(super) fn iso_time(time_ns: impl Into<i128>) -> String {
    let Moment { year, month, day, hour, minute, second, millisecond } = Moment::of(time_ns);
    format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}+00:00"
    )
}

/// A duration as ISO 8601 has it, to the ns.
pub(super) fn iso_duration(ns: u64) -> String {
    format!("PT{}.{:09}S", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// ns as seconds. A double keeps differences of times exact to a µs for a century.
#[allow(clippy::cast_precision_loss)] // durations: far below 2^53 ns in practice, and the formats want doubles
pub(super) fn seconds(ns: i64) -> f64 {
    ns.max(0) as f64 / 1e9
}

/// True when a shell takes the word as it is.
fn plain(word: &[u8]) -> bool {
    !word.is_empty()
        && word.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_./:=,+@%-".contains(byte))
}

/// One word for a POSIX shell.
pub(super) fn shell_word(word: &Text) -> String {
    let text = word.to_display();
    if plain(&word.0) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// The words of a command line that needs no shell. `None` when it may need one.
pub(super) fn plain_words(line: &Text) -> Option<Vec<Text>> {
    let words: Vec<&[u8]> =
        line.0.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).collect();
    let program = words.first()?;
    let simple = !program.contains(&b'=') && words.iter().all(|word| plain(word));
    simple.then(|| words.iter().map(|word| Text(word.to_vec())).collect())
}

/// The last part of a path.
pub(super) fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').find(|part| !part.is_empty()).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_keep_different_names_different() {
        let names = [&b"a b"[..], b"a:20b", b"a:b", b"a/b-1_.x", b"", b":", b"\xff", b"%FF"];
        let mut seen: Vec<String> =
            names.iter().map(|name| file_identifier(&Text(name.to_vec()))).collect();
        assert_eq!(seen[..4], ["a:20b", "a:3A20b", "a:3Ab", "a/b-1_.x"]);
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), names.len());
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(iso_time(0_i64), "1970-01-01T00:00:00.000+00:00");
        assert_eq!(iso_time(951_827_696_789_000_000_i64), "2000-02-29T12:34:56.789+00:00");
        assert_eq!(iso_time(-1_i64), "1969-12-31T23:59:59.999+00:00");
        assert_eq!(iso_time(4_107_542_399_999_999_999_i64), "2100-02-28T23:59:59.999+00:00");
        assert_eq!(iso_time(4_107_542_400_000_000_000_i64), "2100-03-01T00:00:00.000+00:00");
    }

    #[test]
    fn only_lines_that_no_shell_would_change_are_split() {
        let words = |line: &str| {
            plain_words(&Text::from(line))
                .map(|words| words.iter().map(Text::to_display).collect::<Vec<_>>())
        };
        assert_eq!(
            words("cc -O2  -o a.o"),
            Some(vec!["cc".into(), "-O2".into(), "-o".into(), "a.o".into()])
        );
        assert_eq!(words("LANG=C sort a"), None);
        assert_eq!(words("sort a > b"), None);
        assert_eq!(words("echo $HOME"), None);
        assert_eq!(words(""), None);
        assert_eq!(shell_word(&Text::from("it's")), r"'it'\''s'");
    }
}
