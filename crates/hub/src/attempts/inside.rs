//! Commands that run in what their task asks for (`needs env:`): the script in front of them, and the message when it
//! could not set that up. What scripts do is not known here.

use rakuda_proto::Text;
use rakuda_proto::front::Program;
use rakuda_proto::journal::CommandEnvironment;

/// Wait status of a script that could not set up its environment. A command may end so, too.
const NOT_SET_UP: i32 = 125 << 8;

/// How the line begins in which such a script says why.
const WHY: &[u8] = b"rakuda: needs env: ";

/// Maximum number of last lines of output among which that line is looked for.
pub(crate) const LINES_MAX: usize = 20;

/// What is executed for a command.
pub(super) fn wrapped(program: Program, inside: &CommandEnvironment) -> Program {
    let mut words = vec![Text::from("sh"), inside.script.clone()];
    match program {
        Program::Line(line) => words.push(line),
        Program::Words(own) => {
            words.push(Text::from("--"));
            words.extend(own);
        }
    }
    Program::Words(words)
}

/// Why the environment could not be had, if the command ended so for that. `lines` are the last ones that its task
/// printed; `None`: no output was read, and the status alone decides.
pub(crate) fn trouble(
    inside: &CommandEnvironment,
    status: i32,
    lines: Option<&[&[u8]]>,
) -> Option<Text> {
    if status != NOT_SET_UP {
        return None;
    }
    let Some(lines) = lines else {
        return Some(Text::from(format!("needs env: {}: cannot be set up", inside.words())));
    };
    let why = lines.iter().rev().find_map(|line| line.strip_prefix(WHY))?;
    Some(Text([b"needs env: ", why].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside() -> CommandEnvironment {
        CommandEnvironment {
            kind: "venv".into(),
            names: vec![Text::from("requirements.txt")],
            script: Text::from("/w/.rakuda/env/venv-0.sh"),
        }
    }

    #[test]
    fn the_script_comes_before_a_line_and_before_words() {
        let words =
            |words: &[&str]| Program::Words(words.iter().map(|word| Text::from(*word)).collect());
        let line = wrapped(Program::Line(Text::from("fit a > b")), &inside());
        assert_eq!(line, words(&["sh", "/w/.rakuda/env/venv-0.sh", "fit a > b"]));
        let one = wrapped(words(&["my fit"]), &inside());
        assert_eq!(one, words(&["sh", "/w/.rakuda/env/venv-0.sh", "--", "my fit"]));
    }

    #[test]
    fn a_script_that_could_not_set_up_is_told_from_a_command_that_failed() {
        let said = b"rakuda: needs env: venv requirements.txt: cannot be made (/c/x.log), on n1";
        let lines: [&[u8]; 3] = [b"no such package", said, b"Terminated"];
        let why = trouble(&inside(), 125 << 8, Some(&lines)).unwrap();
        assert_eq!(
            why.to_display(),
            "needs env: venv requirements.txt: cannot be made (/c/x.log), on n1"
        );
        assert_eq!(trouble(&inside(), 127 << 8, Some(&lines)), None);
        assert_eq!(trouble(&inside(), 125 << 8, Some(&lines[..1])), None, "the command itself");
        let unheard = trouble(&inside(), 125 << 8, None).unwrap();
        assert_eq!(unheard.to_display(), "needs env: venv requirements.txt: cannot be set up");
    }
}
