//! Which program a command is about, in one word: what the display shows behind a task. A guess for
//! people, and nothing else: a shell's grammar is not read here, only cut into simple commands.

use rakuda_proto::front::Program;
use rakuda_record::printable::printable;

/// Words that stand before a command, or before another such word.
const BEFORE: [&str; 24] = [
    "if", "then", "else", "elif", "while", "until", "do", "!", "{", "}", "time", "exec", "command",
    "builtin", "eval", "env", "nohup", "nice", "ionice", "setsid", "stdbuf", "sudo", "timeout",
    "xargs",
];
/// Those that are followed by words that are no command.
const HEADS: [&str; 4] = ["for", "case", "select", "function"];
/// What only prepares, waits or tells: another command of the line says more.
const MINOR: [&str; 31] = [
    "sleep", "trap", "set", "cd", "pushd", "popd", "export", "unset", "echo", "printf", "mkdir",
    "test", "[", "[[", ":", "true", "false", "ulimit", "umask", "source", ".", "module", "wait",
    "shopt", "local", "declare", "read", "exit", "fi", "done", "esac",
];
const SHELLS: [&str; 5] = ["sh", "bash", "dash", "zsh", "ksh"];

/// The file name of what is executed, as far as one can tell.
pub(super) fn program_name(program: &Program) -> String {
    let found = match program {
        Program::Words(words) => {
            let words: Vec<String> = words.iter().map(|word| printable(&word.0)).collect();
            let names: Vec<&str> = words.iter().map(String::as_str).collect();
            match names.as_slice() {
                [shell, "-c", line, ..] if SHELLS.contains(&last_part(shell)) => of_line(line),
                _ => names.first().map(|name| (*name).to_owned()),
            }
        }
        Program::Line(line) => {
            let text: Vec<u8> =
                line.0.iter().map(|byte| if *byte == b'\n' { b';' } else { *byte }).collect();
            of_line(&printable(&text))
        }
    };
    last_part(&found.unwrap_or_default()).to_owned()
}

/// The first command of a line that does more than prepare; else the first of all.
fn of_line(line: &str) -> Option<String> {
    let mut first = None;
    for words in simple_commands(line) {
        let Some((name, rest)) = command_of(&words) else { continue };
        if SHELLS.contains(&last_part(name))
            && let [option, line, ..] = rest
            && option.ends_with('c')
            && let Some(found) = of_line(line)
        {
            return Some(found);
        }
        if !MINOR.contains(&name) {
            return Some(name.to_owned());
        }
        let ends = ["fi", "done", "esac", "[", "[[", "test", ":"];
        if !ends.contains(&name) {
            first.get_or_insert_with(|| name.to_owned());
        }
    }
    first.or_else(|| line.split_whitespace().next().map(str::to_owned))
}

/// The name of a simple command, without what stands before it, and the words after it.
fn command_of(words: &[String]) -> Option<(&str, &[String])> {
    let mut started = false;
    for (place, word) in words.iter().enumerate() {
        let prefix = BEFORE.contains(&word.as_str());
        // Options and numbers of such a word, as in `timeout -k 5 60`.
        let of_prefix = started && (word.starts_with('-') || starts_with_digit(word));
        if prefix || of_prefix || is_assignment(word) {
            started |= prefix;
            continue;
        }
        if HEADS.contains(&word.as_str()) {
            return None;
        }
        return Some((word, &words[place + 1..]));
    }
    None
}

fn starts_with_digit(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
    })
}

fn last_part(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Words of the simple commands of a line, quotes taken off. What is redirected is left out.
fn simple_commands(line: &str) -> Vec<Vec<String>> {
    let (mut commands, mut words) = (Vec::new(), Vec::new());
    let (mut word, mut inside, mut quote) = (String::new(), false, None);
    let mut target = false; // the word is where something is redirected to
    let end_word =
        |word: &mut String, words: &mut Vec<String>, inside: &mut bool, target: &mut bool| {
            let word = std::mem::take(word);
            if std::mem::take(inside) && !std::mem::take(target) {
                words.push(word);
            }
        };
    for c in line.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                inside = true;
            }
            // The words of a substitution are not the command's name.
            (None, '(') if word.ends_with('$') => quote = Some(')'),
            (None, ';' | '|' | '&' | '(' | ')') => {
                end_word(&mut word, &mut words, &mut inside, &mut target);
                commands.push(std::mem::take(&mut words));
            }
            (None, '<' | '>') => {
                if word.chars().all(|c| c.is_ascii_digit()) {
                    word.clear();
                    inside = false;
                }
                end_word(&mut word, &mut words, &mut inside, &mut target);
                target = true;
            }
            (None, c) if c.is_whitespace() => {
                end_word(&mut word, &mut words, &mut inside, &mut target);
            }
            (_, c) => {
                inside = true;
                word.push(c);
            }
        }
    }
    end_word(&mut word, &mut words, &mut inside, &mut target);
    commands.push(words);
    commands.retain(|words| !words.is_empty());
    commands
}

#[cfg(test)]
mod tests {
    use rakuda_proto::Text;

    use super::*;

    #[test]
    fn the_first_word_that_says_something_is_shown() {
        for (line, expected) in [
            ("gcc -O2 -c a.c", "gcc"),
            ("A=1 B='x y' /usr/bin/gcc a.c", "gcc"),
            ("sleep 1; touch a.out", "touch"),
            ("trap 'rm -f t; exit' INT; set -e; cd work && bwa mem a b > c", "bwa"),
            ("until [ -e gate ]; do sleep 0.01; done; ./align --fast", "align"),
            ("for i in $(seq 9); do echo $i; ./step $i; done", "step"),
            ("if test -e x; then samtools index x; fi", "samtools"),
            ("timeout -k 5 60 sh -c 'sleep 1; blastp -query x'", "blastp"),
            ("nice -n 10 env LANG=C sort < a > b", "sort"),
            ("mkdir -p out\nmProjectPP raw out", "mProjectPP"),
            ("(cat a; wc b) > c", "cat"),
            ("2>&1 wc -l", "wc"),
            ("sleep 100", "sleep"),
            ("until [ -e gate ]; do sleep 0.01; done", "sleep"),
            ("echo 'done; all'", "echo"),
            (": nothing", ":"),
            ("", ""),
        ] {
            assert_eq!(program_name(&Program::Line(Text::from(line))), expected, "{line}");
        }
    }

    #[test]
    fn of_words_it_is_the_first_and_of_a_shell_what_it_runs() {
        let of = |words: &[&str]| {
            program_name(&Program::Words(words.iter().map(|word| Text::from(*word)).collect()))
        };
        assert_eq!(of(&["/opt/bin/blastp", "-query", "x"]), "blastp");
        assert_eq!(of(&["bash", "-c", "sleep 1 && make all"]), "make");
        assert_eq!(of(&["sleep", "1"]), "sleep");
        assert_eq!(of(&[]), "");
    }
}
