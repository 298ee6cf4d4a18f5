//! The command that goes on with a run that ended early: the user's own words, quoted for a shell.

use rakuda_proto::Text;

use rakuda_record::printable::printable;

/// `words` are what came after the program's name. Building all anew would not go on but begin
/// again, so that is left out.
pub(crate) fn resume_command(words: &[Text]) -> String {
    let mut line = String::from("rakuda");
    let mut rest_are_tasks = false;
    for Text(word) in words {
        let word = printable(word);
        rest_are_tasks |= word == "--";
        let Some(word) = (if rest_are_tasks { Some(word) } else { without_build_all(word) }) else {
            continue;
        };
        line.push(' ');
        line.push_str(&quoted(&word));
    }
    line
}

/// These words as a shell takes them back.
pub(crate) fn call(words: &[Text]) -> String {
    let words: Vec<String> = words.iter().map(|Text(word)| quoted(&printable(word))).collect();
    words.join(" ")
}

fn without_build_all(word: String) -> Option<String> {
    if word == "-B" || (word.starts_with("--bu") && "--build-all".starts_with(&word)) {
        return None;
    }
    match word.strip_prefix("-B") {
        Some(others) => Some(format!("-{others}")),
        None => Some(word),
    }
}

/// A word as a shell takes it back.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resume(words: &[&str]) -> String {
        resume_command(&words.iter().map(|word| Text::from(*word)).collect::<Vec<_>>())
    }

    #[test]
    fn the_words_are_quoted_as_a_shell_needs_it() {
        assert_eq!(resume(&["-j4", "name[a b]", "X=it's"]), r"rakuda -j4 'name[a b]' 'X=it'\''s'");
        assert_eq!(resume(&["", "駱駝"]), "rakuda '' 駱駝");
    }

    #[test]
    fn another_call_is_taken_as_it_is() {
        let words = ["rakudactl", "sync", "-j", "4", "a conf.rb"].map(Text::from);
        assert_eq!(call(&words), "rakudactl sync -j 4 'a conf.rb'");
    }

    #[test]
    fn building_all_anew_is_left_out() {
        assert_eq!(resume(&["-B", "--build-all", "--build", "-Bj4", "all"]), "rakuda -j4 all");
        assert_eq!(resume(&["--", "-B"]), "rakuda -- -B");
        assert_eq!(resume(&["-b", "--backtrace"]), "rakuda -b --backtrace");
    }
}
