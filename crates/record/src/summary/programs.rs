//! The name of the program that a command is about: what a user would call it.
//!
//! A look at words, not a shell: when in doubt it takes the first word.

use rakuda_proto::journal::CommandStarted;

/// Programs that only start another one; their options are skipped.
const WRAPPERS: [&str; 9] =
    ["env", "nice", "nohup", "time", "timeout", "exec", "ionice", "stdbuf", "command"];
/// Shells whose `-c` is looked into.
const SHELLS: [&str; 5] = ["sh", "bash", "dash", "zsh", "ksh"];
/// Interpreters: the script says more.
const INTERPRETERS: [&str; 7] = ["python", "ruby", "perl", "node", "Rscript", "julia", "java"];
/// Steps of a line that only prepare what comes next.
const PREPARATIONS: [&str; 8] = ["cd", "set", "export", "mkdir", "umask", "ulimit", ".", "source"];
/// Maximum depth of shells in shells that are looked into.
const DEPTH_MAX: u32 = 4;

/// The program of a command. `None`: it has no words.
pub fn program_of(command: &CommandStarted) -> Option<String> {
    let words: Vec<String> = match (&command.words, &command.line) {
        (Some(words), _) => words.iter().map(rakuda_proto::Text::to_display).collect(),
        (None, Some(line)) => return of_line(&line.to_display(), 0),
        (None, None) => return None,
    };
    of_words(&words, 0)
}

fn of_words(words: &[String], depth: u32) -> Option<String> {
    let mut rest = words;
    loop {
        let first = rest.first()?;
        let name = basename(first);
        if is_assignment(first) || WRAPPERS.contains(&name) {
            rest = after_options(&rest[1..], name);
        } else if SHELLS.contains(&name) {
            return Some(of_shell(rest, depth).unwrap_or_else(|| name.to_owned()));
        } else if is_interpreter(name) {
            let script = rest[1..].iter().find(|word| !word.starts_with('-'));
            let script =
                script.filter(|_| !rest[1..].iter().any(|word| word == "-e" || word == "-c"));
            return Some(basename(script.map_or(name, String::as_str)).to_owned());
        } else {
            return Some(name.to_owned());
        }
    }
}

/// `sh -c LINE`, or `sh SCRIPT`.
fn of_shell(words: &[String], depth: u32) -> Option<String> {
    let mut options = words[1..].iter();
    while let Some(word) = options.next() {
        if word.starts_with('-') && !word.starts_with("--") && word.contains('c') {
            return (depth < DEPTH_MAX).then(|| of_line(options.next()?, depth + 1))?;
        }
        if !word.starts_with('-') && !word.starts_with('+') {
            return Some(basename(word).to_owned());
        }
    }
    None
}

/// The first step of a line that does not only prepare.
fn of_line(line: &str, depth: u32) -> Option<String> {
    let mut found = None;
    for step in steps(line) {
        let words = split(&step);
        let Some(name) = of_words(&words, depth) else { continue };
        let prepares = PREPARATIONS.contains(&name.as_str());
        found.get_or_insert(name.clone());
        if !prepares {
            return Some(name);
        }
    }
    found
}

/// A line at `;`, `&&`, `||`, `|`, `&` and line ends outside of quotes.
fn steps(line: &str) -> Vec<String> {
    let mut steps = vec![String::new()];
    let mut quote = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        let step = steps.last_mut().expect("there is always one");
        match (quote, character) {
            (None, ';' | '&' | '|' | '\n') => steps.push(String::new()),
            (None, '(' | ')' | '{' | '}') => step.push(' '),
            (None, '\'' | '"') => {
                quote = Some(character);
                step.push(character);
            }
            (Some(open), _) if open == character => {
                quote = None;
                step.push(character);
            }
            (None | Some('"'), '\\') => {
                step.push(character);
                step.extend(characters.next());
            }
            _ => step.push(character),
        }
    }
    steps
}

/// The words of a step, without their quotes and without redirections.
fn split(step: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in step.chars() {
        match (quote, character) {
            (None, ' ' | '\t') => words.extend(word.take()),
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (Some(open), _) if open == character => quote = None,
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words.retain(|word| !word.starts_with('>') && !word.starts_with('<'));
    words
}

fn basename(word: &str) -> &str {
    let name = word.trim_end_matches('/').rsplit('/').next().unwrap_or(word);
    if name.is_empty() { word } else { name }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    })
}

fn is_interpreter(name: &str) -> bool {
    let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    INTERPRETERS.contains(&stem)
}

/// What follows the options of a wrapper, and the number that `timeout` and `nice -n` take.
fn after_options<'a>(mut words: &'a [String], wrapper: &str) -> &'a [String] {
    while let Some(word) = words.first() {
        let number = word.trim_end_matches(char::is_alphabetic).parse::<f64>().is_ok();
        let value = number && wrapper != "env" && wrapper != "exec";
        if !word.starts_with('-') && !value {
            break;
        }
        words = &words[1..];
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(line: &str) -> String {
        of_line(line, 0).unwrap_or_default()
    }

    #[test]
    fn program_is_found_behind_what_only_prepares_it() {
        for (text, program) in [
            ("mProjectPP a b", "mProjectPP"),
            ("/usr/bin/gcc -c a.c", "gcc"),
            ("cd work && ./fit.sh 3", "fit.sh"),
            ("FOO=1 BAR='x y' env -i A=b nice -n 5 sort -u < in > out", "sort"),
            ("(cd x; make all)", "make"),
            ("timeout 30s curl x", "curl"),
            ("python3.11 tools/fit.py --fast", "fit.py"),
            ("python -c 'import x'", "python"),
            ("mkdir -p a", "mkdir"),
            ("mkdir -p a && cp b a", "cp"),
            ("sh -c \"cd a && 'my prog' b\"", "my prog"),
            ("bash -ec 'set -e; sleep 1'", "sleep"),
            ("sh run.sh", "run.sh"),
        ] {
            assert_eq!(line(text), program, "{text}");
        }
        assert_eq!(line(""), "");
    }

    #[test]
    fn words_are_taken_as_they_are() {
        let words = |words: &[&str]| {
            of_words(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), 0)
        };
        assert_eq!(words(&["echo", "a; b"]).unwrap(), "echo");
        assert_eq!(words(&["sh", "-c", "exec cat x"]).unwrap(), "cat");
        assert_eq!(words(&["sh"]).unwrap(), "sh");
        assert_eq!(words(&[]), None);
        assert_eq!(words(&["A=b"]), None);
    }
}
