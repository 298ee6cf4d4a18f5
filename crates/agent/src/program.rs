//! From a program as the user wrote it to the words to execute.
//!
//! A list is executed as it is. For a line the rule is Ruby's own (`process.c`, `rb_exec_fillarg`):
//! a shell runs it only when it has shell syntax or its first word is a shell's own; so a
//! Rakefile's `sh "true"` costs one process here where it costs one there.

use rakuda_proto::Text;
use rakuda_proto::front::Program;

/// The shell that runs lines with shell syntax.
pub const SHELL: &str = "/bin/sh";

/// Characters that need a shell wherever they stand.
const META: &[u8] = b"*?{}[]<>()~&|\\$;'`\"\n#";

/// Reserved words and special built-ins of the POSIX shell, as Ruby lists them; sorted.
const SHELL_WORDS: &[&[u8]] = &[
    b"!",
    b".",
    b":",
    b"break",
    b"case",
    b"continue",
    b"do",
    b"done",
    b"elif",
    b"else",
    b"esac",
    b"eval",
    b"exec",
    b"exit",
    b"export",
    b"fi",
    b"for",
    b"if",
    b"in",
    b"readonly",
    b"return",
    b"set",
    b"shift",
    b"then",
    b"times",
    b"trap",
    b"unset",
    b"until",
    b"while",
];

/// The words to execute for `program`; the first is not looked up yet.
pub fn words_of(program: Program) -> Vec<Vec<u8>> {
    match program {
        Program::Words(words) => words.into_iter().map(|word| word.0).collect(),
        Program::Line(Text(line)) if needs_shell(&line) => {
            vec![b"sh".to_vec(), b"-c".to_vec(), line]
        }
        Program::Line(Text(line)) => split_at_blanks(&line).map(<[u8]>::to_vec).collect(),
    }
}

/// The word by which `program` is looked up in PATH. `None`: it is not looked up.
pub fn name_in_path(program: &Program) -> Option<&[u8]> {
    let word = match program {
        Program::Words(words) => words.first()?.0.as_slice(),
        Program::Line(Text(line)) if needs_shell(line) => return None,
        Program::Line(Text(line)) => split_at_blanks(line).next()?,
    };
    (!word.contains(&b'/')).then_some(word)
}

fn split_at_blanks(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty())
}

/// Whether Ruby would give `line` to a shell. A blank line is no command at all: no words.
pub fn needs_shell(line: &[u8]) -> bool {
    let Some(first) = split_at_blanks(line).next() else {
        return false;
    };
    line.iter().any(|byte| META.contains(byte))
        || first.contains(&b'=')
        || SHELL_WORDS.binary_search(&first).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_shell_words_is_sorted() {
        assert!(SHELL_WORDS.is_sorted());
    }

    #[test]
    fn plain_commands_run_without_a_shell() {
        for line in ["true", "cp a b", "  ls\t-l ", "/bin/echo a=b", "echo 50%", "doit"] {
            assert!(!needs_shell(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn shell_syntax_needs_a_shell() {
        for line in
            ["a | b", "echo $X", "X=1 true", "exit 3", ". ./env", "a\nb", "ls *.c", "echo 'a'"]
        {
            assert!(needs_shell(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn what_has_a_slash_or_goes_to_a_shell_is_not_looked_up() {
        let line = |line: &str| Program::Line(Text::from(line.to_owned()));
        assert_eq!(name_in_path(&line("cp a b")), Some(&b"cp"[..]));
        assert_eq!(
            name_in_path(&Program::Words(vec![Text::from("my tool")])),
            Some(&b"my tool"[..])
        );
        for other in [line("bin/cp a b"), line("cp a b | cat"), line(" "), Program::Words(vec![])] {
            assert_eq!(name_in_path(&other), None);
        }
    }

    #[test]
    fn a_line_is_cut_at_blanks() {
        let words = words_of(Program::Line(Text::from("  cp  a\tb ")));
        assert_eq!(words, [b"cp".to_vec(), b"a".to_vec(), b"b".to_vec()]);
    }
}
