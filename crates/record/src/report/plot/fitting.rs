//! Texts in boxes of pictures: how wide they are, and as much of them as has room.
//!
//! The font of a picture is its reader's. What is said here holds for `DejaVu Sans`, which is wider than the other
//! fonts that pages name, so that a text which fits here fits there.

/// Size of the letters of pictures, px.
const SIZE: f64 = 12.0;

/// Maximum width of a text, px.
pub(super) fn width(text: &str, is_bold: bool) -> f64 {
    text.chars().map(|letter| letter_width(letter, is_bold)).sum::<f64>() * SIZE
}

/// Of one letter, in sizes. Each is the widest of its kind, of all that is not ASCII as of letters of China and Japan.
fn letter_width(letter: char, is_bold: bool) -> f64 {
    let (regular, bold) = match letter {
        'i' | 'j' | 'l' | '\'' | '|' => (0.34, 0.37),
        ' ' | ',' | '.' | ':' | ';' | '/' | 'I' | '!' => (0.41, 0.46),
        'f' | 't' | 'r' | '(' | ')' | '-' | '[' | ']' => (0.42, 0.5),
        'm' | 'M' | 'W' | '%' | '@' | '…' => (1.0, 1.11),
        'w' | '<' | '>' | '=' | '+' | '~' | '#' | '&' | 'O' | 'Q' | 'N' | 'D' | 'G' | 'H' => {
            (0.84, 0.93)
        }
        '*' | '_' => (0.5, 0.53),
        'a'..='z' | '0'..='9' => (0.64, 0.72),
        'A'..='Z' => (0.75, 0.8),
        '!'..='~' => (0.84, 0.88),
        _ => (1.05, 1.15),
    };
    if is_bold { bold } else { regular }
}

/// The text, or its beginning with an ellipsis, in `room` px.
pub(super) fn fitted(text: &str, is_bold: bool, room: f64) -> String {
    if width(text, is_bold) <= room {
        return text.to_owned();
    }
    let mut left = room - width("…", is_bold);
    let fits = |letter: &char| {
        left -= letter_width(*letter, is_bold) * SIZE;
        left >= 0.0
    };
    let kept: String = text.chars().take_while(fits).collect();
    format!("{}…", kept.trim_end_matches([' ', ',']))
}

/// The name, or its beginning and its end with an ellipsis between them, in `room` px: names differ at their ends.
pub(super) fn fitted_name(name: &str, is_bold: bool, room: f64) -> String {
    if width(name, is_bold) <= room {
        return name.to_owned();
    }
    let letters: Vec<char> = name.chars().collect();
    let mut left = room - width("…", is_bold);
    let (mut first, mut last) = (0, 0);
    while first + last < letters.len() {
        let from_end = first > last;
        let next = if from_end { letters.len() - 1 - last } else { first };
        left -= letter_width(letters[next], is_bold) * SIZE;
        if left < 0.0 {
            break;
        }
        if from_end { last += 1 } else { first += 1 }
    }
    let end = &letters[letters.len() - last..];
    letters[..first].iter().chain(&['…']).chain(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_where_it_has_no_room_and_only_there() {
        let text = "map/*.bam (bwa, Rakefile:12)";
        assert_eq!(fitted(text, true, width(text, true)), text);
        let cut = fitted(text, true, 100.0);
        assert!(text.starts_with(cut.strip_suffix('…').unwrap()), "{cut}");
        assert!(width(&cut, true) <= 100.0 && width(&cut, true) > 80.0, "{cut}");
        assert_eq!(fitted("two, three", false, width("two, t…", false)), "two, t…");
        assert_eq!(fitted("two, three", false, width("two, …", false)), "two…");
        assert_eq!(fitted("abc", false, 1.0), "…");
    }

    #[test]
    fn a_name_that_has_no_room_keeps_its_beginning_and_its_end() {
        let name = "out/sample_with_a_rather_long_name_276.txt";
        assert_eq!(fitted_name(name, true, width(name, true)), name);
        let cut = fitted_name(name, true, 200.0);
        let (first, last) = cut.split_once('…').unwrap();
        assert!(name.starts_with(first) && name.ends_with(last), "{cut}");
        assert!(last.ends_with("_276.txt") && first.starts_with("out/sample"), "{cut}");
        assert!(width(&cut, true) <= 200.0 && width(&cut, true) > 180.0, "{cut}");
        assert_eq!(fitted_name("abcdef", false, width("a…", false) + 0.01), "a…");
        assert_eq!(fitted_name("abcdef", false, width("a…f", false) + 0.01), "a…f");
        assert_eq!(fitted_name("abc", false, 1.0), "…");
    }
}
