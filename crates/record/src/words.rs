//! Reasons and durations in words, for people. The words are nowhere parsed: programs read the JSON forms.

use rakuda_proto::Text;
use rakuda_proto::journal::{CommandEnvironment, Reason, ReasonKind};

use crate::printable::{printable, shown};

/// The parameter that says in what a task's commands run (`needs env:`).
const ENVIRONMENT: &[u8] = b"needs env";

/// What a task's commands run in, by its parameters: `conda env.yml, sha256 ...`.
pub fn environment(parameters: &[(Text, Text)]) -> Option<&Text> {
    parameters.iter().find(|(name, _)| name.0 == ENVIRONMENT).map(|(_, value)| value)
}

/// The same for people: no more of a digest than tells it from others.
pub fn environment_in_words(parameters: &[(Text, Text)]) -> Option<String> {
    let mut words = printable(&environment(parameters)?.0);
    if let Some(at) = words.rfind("sha256 ")
        && words[at + 7..].bytes().all(|byte| byte.is_ascii_hexdigit())
    {
        words.truncate(words.len().min(at + 7 + 12));
    }
    Some(words)
}

/// Why a task runs or would run, after its name and a colon.
pub fn reason_in_words(reason: &Reason) -> String {
    let path = reason.path.as_ref().map(shown).unwrap_or_default();
    match reason.kind {
        ReasonKind::Missing => "missing".to_owned(),
        ReasonKind::Unfinished => "the last attempt did not finish".to_owned(),
        ReasonKind::Newer => match reason.by_ns {
            Some(by_ns) => {
                format!("prerequisite {path} is newer by {}", duration_in_words(by_ns))
            }
            None => format!("prerequisite {path} counts as newer"),
        },
        ReasonKind::Runs => format!("{path} would run"),
        ReasonKind::Always => "always runs".to_owned(),
        ReasonKind::Forced => "forced (-B)".to_owned(),
        ReasonKind::Class => "its class says so".to_owned(),
        ReasonKind::Command if reason.path.is_some() => format!("its parameter {path} has changed"),
        ReasonKind::Command => "its action has changed".to_owned(),
        ReasonKind::Inputs => format!("prerequisite {path} is new or gone"),
        ReasonKind::Content => format!("the content of {path} has changed"),
        ReasonKind::Env => format!("the environment variable {path} has changed"),
        ReasonKind::Lost => format!("{path} went with a lost node"),
        ReasonKind::Gang => "another task of its gang runs".to_owned(),
        ReasonKind::UpToDate => "up to date".to_owned(),
    }
}

/// What an agent says of a fault, with a name, where one is known, in the place of the number of a task.
pub fn with_name(text: &str, name_of: impl Fn(u32) -> Option<String>) -> String {
    let Some((before, after)) = text.split_once("task ") else { return text.to_owned() };
    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
    match after[..digits].parse().ok().and_then(name_of) {
        Some(name) => format!("{before}task {name}{}", &after[digits..]),
        None => text.to_owned(),
    }
}

/// A duration with two or three digits and a unit: `3.2 s`, `17 min`, `5.1 d`.
pub fn duration_in_words(ns: impl Into<i128>) -> String {
    const STEPS: [(f64, &str); 6] =
        [(86_400e9, "d"), (3600e9, "h"), (60e9, "min"), (1e9, "s"), (1e6, "ms"), (1e3, "µs")];
    let ns = ns.into();
    #[expect(clippy::cast_precision_loss, reason = "shown with two or three digits")]
    let value = ns as f64;
    // Two hours are better read as 120 min than as 2.0 h; so a unit is used from 1.5 of it on, but
    // for seconds and below.
    for (step, unit) in STEPS {
        let from = if step > 1e9 { 1.5 * step } else { step };
        if value.abs() >= from {
            let count = value / step;
            return if count.abs() < 9.95 {
                format!("{count:.1} {unit}")
            } else {
                format!("{count:.0} {unit}")
            };
        }
    }
    format!("{ns} ns")
}

/// What stands behind a command that runs in an environment, as a shell's remark.
pub fn env_remark(env: Option<&CommandEnvironment>) -> String {
    env.map_or_else(String::new, |env| format!("  # env: {}", printable(env.words().as_bytes())))
}

/// A command line as one could type it into a shell.
pub fn command_line(words: &[Text]) -> String {
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// A word as one could type it into a shell. What a terminal would obey, and what is no text, comes
/// in the form `$'...'`, which bash, zsh and ksh read.
pub fn quoted(word: &Text) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_+=:,./@%^".contains(c);
    match std::str::from_utf8(&word.0) {
        Ok(text) if !text.is_empty() && text.chars().all(plain) => text.to_owned(),
        Ok(text) if printable(&word.0) == text => {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
        _ => format!("$'{}'", escaped(&word.0)),
    }
}

fn escaped(bytes: &[u8]) -> String {
    let mut escaped = String::new();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\'' | '\\' => escaped.extend(['\\', c]),
                '\n' => escaped.push_str(r"\n"),
                '\t' => escaped.push_str(r"\t"),
                _ if printable(c.to_string().as_bytes()) != c.to_string() => {
                    escaped.extend(c.to_string().bytes().map(|byte| format!(r"\x{byte:02x}")));
                }
                _ => escaped.push(c),
            }
        }
        escaped.extend(chunk.invalid().iter().map(|byte| format!(r"\x{byte:02x}")));
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_is_told_with_the_beginning_of_its_digest() {
        let parameters = |value: &str| vec![(Text::from("needs env"), Text::from(value))];
        let digest = "0123456789ab".repeat(5);
        let long = parameters(&format!("conda env.yml, sha256 {digest}cdef"));
        assert_eq!(environment_in_words(&long).unwrap(), "conda env.yml, sha256 0123456789ab");
        assert_eq!(environment_in_words(&parameters("module gcc/12")).unwrap(), "module gcc/12");
        assert_eq!(environment_in_words(&[(Text::from("level"), Text::from("2"))]), None);
    }

    #[test]
    fn command_lines_can_be_typed_again() {
        let words = ["cc", "-o", "a b", "it's", "", "駱駝"].map(Text::from);
        assert_eq!(command_line(&words), r"cc -o 'a b' 'it'\''s' '' 駱駝");
        assert_eq!(quoted(&Text::from("bad\n\tname's\x1b")), r"$'bad\n\tname\'s\x1b'");
        assert_eq!(quoted(&Text(b"\xff\\.bin".to_vec())), r"$'\xff\\.bin'");
        // What turns the direction of writing.
        assert_eq!(quoted(&Text::from("a\u{202e}b")), r"$'a\xe2\x80\xaeb'");
    }

    #[test]
    fn durations_are_short_and_have_a_unit_that_suits_them() {
        let words = [17_i64, 1_500, 2_000_000, 999_000_000, 3_200_000_000, 42_000_000_000]
            .map(duration_in_words);
        assert_eq!(words, ["17 ns", "1.5 µs", "2.0 ms", "999 ms", "3.2 s", "42 s"]);
        let words = [80_i64, 600, 5000, 10_000, 200_000, 2_000_000]
            .map(|seconds| duration_in_words(seconds * 1_000_000_000));
        assert_eq!(words, ["80 s", "10 min", "83 min", "2.8 h", "2.3 d", "23 d"]);
    }

    #[test]
    fn a_newer_prerequisite_is_told_with_how_much_newer_it_is() {
        let mut reason = Reason {
            kind: ReasonKind::Newer,
            path: Some(Text::from("a.c")),
            by_ns: Some(3_200_000_000),
        };
        assert_eq!(reason_in_words(&reason), "prerequisite a.c is newer by 3.2 s");
        reason.path = Some(Text::from("a\x1b[2J.c"));
        reason.by_ns = None;
        assert_eq!(reason_in_words(&reason), "prerequisite a?[2J.c counts as newer");
    }
}
