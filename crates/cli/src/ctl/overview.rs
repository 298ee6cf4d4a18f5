//! `rakudactl --help`: the subcommands by what they are for. clap lists them in one row; here the row is cut into
//! groups, and each line is clap's own. It does not know what a subcommand does.

use std::fmt::Write as _;

use clap::Command;

/// Maximum columns of a line.
const COLUMNS: usize = 100;

/// What subcommands are for, and which.
const GROUPS: [(&str, &[&str]); 5] = [
    ("What happened, and why", &["runs", "story", "log", "why", "report", "export"]),
    ("A run that goes on", &["status", "top", "ui", "explain", "join"]),
    ("Nodes, and what is known of them", &["nodes", "set-attr", "provide"]),
    ("Benchmarks, synchronised rounds, simulation", &["bench", "sync", "sim"]),
    ("Other", &["clean", "help"]),
];

/// The command, whose help has the groups.
pub fn grouped(command: Command) -> Command {
    let mut built = command.clone();
    built.build();
    let width = built.get_subcommands().map(|one| one.get_name().len()).max().unwrap_or(0);
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n\nCommands:\n");
    for (heading, names) in GROUPS {
        let _ = writeln!(text, "\n {heading}");
        for name in names {
            let about = built.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let lines = folded(&about, COLUMNS - width - 4);
            let _ = writeln!(text, "  {name:<width$}  {}", lines[0]);
            for line in &lines[1..] {
                let _ = writeln!(text, "  {:width$}  {line}", "");
            }
        }
    }
    text += "\nOptions:\n{options}{after-help}";
    command.help_template(text)
}

/// A text in lines that are no longer than that, one at least.
fn folded(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is one");
        if line.is_empty() {
            word.clone_into(line);
        } else if line.chars().count() + 1 + word.chars().count() <= columns {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;

    use super::super::Ctl;
    use super::*;

    #[test]
    fn each_subcommand_is_in_one_group() {
        let mut command = Ctl::command();
        command.build();
        let all: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        let grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        assert_eq!(grouped.len(), all.len());
        assert_eq!(BTreeSet::from_iter(grouped), BTreeSet::from_iter(all));
    }

    #[test]
    fn help_has_the_groups_and_no_line_that_is_too_long() {
        let help = grouped(Ctl::command()).render_help().to_string();
        assert!(help.contains("\n A run that goes on\n  status    Says how far"), "{help}");
        assert!(help.contains("\nOptions:\n  -C, --directory"), "{help}");
        let commands = help.split_once("Commands:").unwrap().1.split_once("Options:").unwrap().0;
        assert!(commands.lines().all(|line| line.chars().count() <= COLUMNS), "{help}");
    }
}
