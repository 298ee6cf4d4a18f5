//! Names, commands and output as text that does nothing to a terminal: one line, no control characters, cut to a width.
//!
//! It knows how wide characters are shown only roughly: East Asian wide ones and pictures take two columns, combining
//! marks none.

/// Bytes as text in which control characters (also those that begin an escape sequence) are `?`.
pub fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|c| if is_harmful(c) { '?' } else { c }).collect()
}

/// A name as [`printable`] text.
pub fn shown(text: &rakuda_proto::Text) -> String {
    printable(&text.0)
}

/// Controls, and what changes the direction or the look of all that follows.
fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Columns that a character takes.
pub fn width_of(c: char) -> usize {
    match c {
        '\u{300}'..='\u{36f}'
        | '\u{483}'..='\u{489}'
        | '\u{591}'..='\u{5bd}'
        | '\u{610}'..='\u{61a}'
        | '\u{64b}'..='\u{65f}'
        | '\u{1ab0}'..='\u{1aff}'
        | '\u{1dc0}'..='\u{1dff}'
        | '\u{200b}'..='\u{200f}'
        | '\u{20d0}'..='\u{20ff}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{fe20}'..='\u{fe2f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{303e}'
        | '\u{3041}'..='\u{a4cf}'
        | '\u{a960}'..='\u{a97f}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1f64f}'
        | '\u{1f680}'..='\u{1f6ff}'
        | '\u{1f900}'..='\u{1f9ff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

/// Columns that a text takes.
pub fn width(text: &str) -> usize {
    text.chars().map(width_of).sum()
}

/// The text, or its beginning and end around `...` when it takes more than `columns`.
pub fn cut_middle(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    if columns < 8 {
        return cut(text, columns).to_owned();
    }
    let first = cut(text, (columns - 3) / 2);
    let mut rest = columns - 3 - width(first);
    let mut start = text.len();
    for (index, c) in text.char_indices().rev() {
        if width_of(c) > rest {
            break;
        }
        rest -= width_of(c);
        start = index;
    }
    format!("{first}...{}", &text[start..])
}

/// As much of the text as fits `columns`.
pub fn cut(text: &str, columns: usize) -> &str {
    let mut left = columns;
    for (index, c) in text.char_indices() {
        if width_of(c) > left {
            return &text[..index];
        }
        left -= width_of(c);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_escape_sequence_is_left_in_a_name() {
        assert_eq!(printable(b"a\x1b[2Jb\r\n\x9b"), "a?[2Jb??\u{fffd}");
        assert_eq!(printable("\u{9b}31m\u{202e}x".as_bytes()), "?31m?x");
    }

    #[test]
    fn wide_characters_count_twice_and_marks_not_at_all() {
        assert_eq!(width("abc"), 3);
        assert_eq!(width("駱駝"), 4);
        assert_eq!(width("e\u{301}"), 1);
        assert_eq!(cut("駱駝", 3), "駱");
    }

    #[test]
    fn a_long_name_keeps_its_beginning_and_its_end() {
        assert_eq!(cut_middle("abcdefghijklmnop", 11), "abcd...mnop");
        assert_eq!(cut_middle("short", 11), "short");
        assert!(width(&cut_middle("駱駝駱駝駱駝駱駝駱駝", 11)) <= 11);
        assert_eq!(cut_middle("abcdefgh", 3), "abc");
    }
}
