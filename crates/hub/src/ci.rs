//! What GitHub and GitLab read in the log of a job: groups of lines that one may fold, and failures
//! with their place. Pure: from words to lines; it does not know when they are written.

use rakuda_proto::front::CiSystem;

/// All that a task printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    /// One line.
    pub title: String,
    /// Seconds since 1970.
    pub began_s: i64,
    pub ended_s: i64,
    /// It is to be seen at once, where the system can do that.
    pub open: bool,
}

impl Group {
    /// The line before it; `number` is one that no other group of the run has.
    pub fn begin(&self, system: CiSystem, number: u64) -> String {
        match system {
            CiSystem::Github => format!("::group::{}\n", escaped(&self.title)),
            CiSystem::Gitlab => {
                let option = if self.open { "" } else { "[collapsed=true]" };
                let (began_s, title) = (self.began_s, &self.title);
                let name = format!("rakuda_{number}{option}");
                format!("\x1b[0Ksection_start:{began_s}:{name}\r\x1b[0K{title}\n")
            }
        }
    }

    /// The line after it.
    pub fn end(&self, system: CiSystem, number: u64) -> String {
        match system {
            CiSystem::Github => "::endgroup::\n".to_owned(),
            CiSystem::Gitlab => {
                format!("\x1b[0Ksection_end:{}:rakuda_{number}\r\x1b[0K\n", self.ended_s)
            }
        }
    }
}

/// A failure, as GitHub shows it beside the line of the file; as a line for eyes on GitLab, which
/// reads none in logs. `place`: file and line.
pub(crate) fn annotation(
    system: CiSystem,
    colour: bool,
    place: Option<(&str, &str)>,
    title: &str,
    message: &str,
) -> String {
    match system {
        CiSystem::Github => {
            let place = place.map_or_else(String::new, |(file, line)| {
                format!("file={},line={line},", escaped_value(file))
            });
            format!("::error {place}title={}::{}\n", escaped_value(title), escaped(message))
        }
        CiSystem::Gitlab => {
            let place = place.map_or_else(String::new, |(file, line)| format!("{file}:{line}: "));
            let (red, normal) = if colour { ("\x1b[31;1m", "\x1b[0m") } else { ("", "") };
            format!("{red}{place}error: {title}: {message}{normal}\n")
        }
    }
}

/// A block for people, without lines that GitHub would obey once more: it takes blanks off a line,
/// and then does what one says that begins with `::`.
pub(crate) fn obeyed_no_more(system: CiSystem, block: &str) -> String {
    if system != CiSystem::Github {
        return block.to_owned();
    }
    let line = |line: &str| {
        let command = line.trim_start();
        let blanks = &line[..line.len() - command.len()];
        let mark = if command.starts_with("::") { "| " } else { "" };
        format!("{blanks}{mark}{command}")
    };
    block.split_inclusive('\n').map(line).collect()
}

/// Splits the place off that the front adds to a message: `boom (lib/a.rb:3)`.
pub(crate) fn place_of(message: &str) -> Option<(&str, &str)> {
    let (_, place) = message.strip_suffix(')')?.rsplit_once(" (")?;
    let (file, line) = place.rsplit_once(':')?;
    let is_number = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && !file.is_empty()).then_some((file, line))
}

fn escaped(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn escaped_value(text: &str) -> String {
    escaped(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(open: bool) -> Group {
        Group { title: "a: 50%".into(), began_s: 100, ended_s: 107, open }
    }

    #[test]
    fn groups_have_the_form_of_their_system() {
        assert_eq!(group(false).begin(CiSystem::Github, 3), "::group::a: 50%25\n");
        assert_eq!(group(false).end(CiSystem::Github, 3), "::endgroup::\n");
        let begin = "\x1b[0Ksection_start:100:rakuda_3[collapsed=true]\r\x1b[0Ka: 50%\n";
        assert_eq!(group(false).begin(CiSystem::Gitlab, 3), begin);
        let begin = "\x1b[0Ksection_start:100:rakuda_3\r\x1b[0Ka: 50%\n";
        assert_eq!(group(true).begin(CiSystem::Gitlab, 3), begin);
        let end = "\x1b[0Ksection_end:107:rakuda_3\r\x1b[0K\n";
        assert_eq!(group(true).end(CiSystem::Gitlab, 3), end);
    }

    #[test]
    fn failures_have_their_place_and_no_sign_that_ends_a_part_of_the_line() {
        let told = |place| annotation(CiSystem::Github, true, place, "a:b,c", "50%\nx: y, z");
        assert_eq!(told(None), "::error title=a%3Ab%2Cc::50%25%0Ax: y, z\n");
        let begin = "::error file=/w/a%2Cb%3A1.rb,line=3,title=";
        assert!(told(Some(("/w/a,b:1.rb", "3"))).starts_with(begin));
    }

    #[test]
    fn failures_are_red_on_gitlab_where_colours_are_allowed() {
        let told = |colour| annotation(CiSystem::Gitlab, colour, Some(("a.rb", "3")), "t", "boom");
        assert_eq!(told(false), "a.rb:3: error: t: boom\n");
        assert_eq!(told(true), "\x1b[31;1ma.rb:3: error: t: boom\x1b[0m\n");
    }

    #[test]
    fn a_block_for_people_tells_github_nothing_to_do() {
        let block = "== 1 failed ==\n  output:\n    ::error::a\n\t::x\n    a ::b\n::set-env::";
        let told = |system| obeyed_no_more(system, block);
        let expected =
            "== 1 failed ==\n  output:\n    | ::error::a\n\t| ::x\n    a ::b\n| ::set-env::";
        assert_eq!(told(CiSystem::Github), expected);
        assert_eq!(told(CiSystem::Gitlab), block);
    }

    #[test]
    fn a_place_is_what_stands_in_the_last_brackets() {
        assert_eq!(place_of("boom (x) (lib/a b.rb:31)"), Some(("lib/a b.rb", "31")));
        for none in ["boom", "boom (Rakefile)", "boom (Rakefile:x)", "boom (:3)", "boom (a:)"] {
            assert_eq!(place_of(none), None, "{none}");
        }
    }
}
