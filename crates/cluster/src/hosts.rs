//! Which hosts a run uses: Pwrake's host file, line by line. Its other form, with host groups, is in `hosts_toml`.
//!
//! Only names and numbers: it does not know how a host is reached, and asks no name server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rakuda_agent::providers::ExternalProvider;

use crate::error::ClusterError;
use crate::ranges::expand;

/// Maximum number of cores in a line, and of hosts in a file.
pub(crate) const COUNT_MAX: u32 = 65_535;

/// A host of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    /// As in the file; ssh is given it as it is.
    pub name: String,
    /// Cores to use. `None`: as many as its agent finds.
    pub cores: Option<u32>,
    /// The groups that it belongs to, outermost first; empty in Pwrake's form.
    pub groups: Vec<String>,
    /// Hosts of those leaders of its groups that are between the hub and it, outermost first; each once.
    pub leaders: Vec<String>,
}

/// What a host file says.
#[derive(Debug, Default)]
pub(crate) struct HostFile {
    /// At least one.
    pub hosts: Vec<Host>,
    /// Programs that provide information about each of them.
    pub providers: Vec<ExternalProvider>,
}

/// What is wrong with a host file.
#[derive(Debug, thiserror::Error)]
pub enum HostFileError {
    /// It cannot be read.
    #[error(
        "read the host file {}: {source}; -F (HOSTFILE) expects a file with lines such as `host1 8`, or TOML",
        file.display()
    )]
    Unreadable {
        /// Which.
        file: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// A line has no meaning.
    #[error("{}:{line}: {what}", file.display())]
    Line {
        /// Which file.
        file: PathBuf,
        /// From 1.
        line: usize,
        /// What was found, and what was expected.
        what: String,
    },
    /// There is no host in it.
    #[error("{}: no host in it; expected lines such as `host1 8` or `host[[01-12]] 4`", file.display())]
    Empty {
        /// Which.
        file: PathBuf,
    },
}

impl HostFileError {
    /// As a line for the user: what names a line of the file needs no more words.
    pub(crate) fn as_sentence(&self) -> String {
        match self {
            Self::Unreadable { .. } => format!("failed to {self}"),
            Self::Line { .. } | Self::Empty { .. } => self.to_string(),
        }
    }
}

/// The hosts of a file, each with the leaders between here and it, outermost first: for callers that only want to reach
/// them.
pub fn hosts_to_reach(file: &Path) -> Result<Vec<(String, Vec<String>)>, ClusterError> {
    Ok(read(file)?.hosts.into_iter().map(|host| (host.name, host.leaders)).collect())
}

/// A named pipe would keep its reader waiting for ever.
fn read_ordinary(file: &Path) -> std::io::Result<Vec<u8>> {
    let found = std::fs::metadata(file)?;
    if !found.is_file() && !found.is_dir() {
        let why = "it is no ordinary file";
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, why));
    }
    std::fs::read(file)
}

/// Reads a host file: TOML when its name ends in `.toml`, else Pwrake's form.
pub(crate) fn read(file: &Path) -> Result<HostFile, HostFileError> {
    let text = read_ordinary(file)
        .map_err(|source| HostFileError::Unreadable { file: file.to_path_buf(), source })?;
    let found = match std::str::from_utf8(&text) {
        Ok(text) if file.extension().is_some_and(|ending| ending == "toml") => {
            crate::hosts_toml::parse(text)
        }
        Ok(text) => parse(text).map(|hosts| HostFile { hosts, providers: Vec::new() }),
        Err(error) => {
            let line = text[..error.valid_up_to()].split(|byte| *byte == b'\n').count();
            Err((line, "a byte that is no UTF-8; host names are plain letters and digits".into()))
        }
    };
    let found = found.map_err(|(line, what)| HostFileError::Line {
        file: file.to_path_buf(),
        line,
        what,
    })?;
    if found.hosts.is_empty() {
        return Err(HostFileError::Empty { file: file.to_path_buf() });
    }
    Ok(found)
}

/// `NAME [CORES [WEIGHT]]` on each line, `#` begins a comment. `Err`: line and what is wrong there.
fn parse(text: &str) -> Result<Vec<Host>, (usize, String)> {
    let mut hosts = Merged::default();
    for (line, number) in text.lines().zip(1..) {
        for host in parse_line(line).map_err(|what| (number, what))? {
            hosts.add(host, number).map_err(|what| (number, what))?;
        }
    }
    Ok(hosts.list)
}

/// The hosts of one line, without groups.
pub(crate) fn parse_line(line: &str) -> Result<Vec<Host>, String> {
    let mut words = line.split('#').next().unwrap_or("").split_whitespace();
    let Some(pattern) = words.next() else { return Ok(Vec::new()) };
    let cores = words.next().map(parse_cores).transpose()?;
    if let Some(weight) = words.next()
        && !weight.parse::<f64>().is_ok_and(f64::is_finite)
    {
        return Err(format!(
            "`{weight}` after the cores: expected nothing, or a number (Pwrake's weight, which has no effect)"
        ));
    }
    if let Some(more) = words.next() {
        return Err(format!(
            "`{more}` is too much: expected `NAME CORES`, one host or pattern a line"
        ));
    }
    let names = expand(pattern)?;
    names.iter().try_for_each(|name| check_name(name))?;
    Ok(names
        .into_iter()
        .map(|name| Host { name, cores, groups: Vec::new(), leaders: Vec::new() })
        .collect())
}

fn parse_cores(word: &str) -> Result<u32, String> {
    match word.parse() {
        Ok(cores @ 1..=COUNT_MAX) => Ok(cores),
        _ => Err(format!(
            "`{word}` for the number of cores: expected a whole number from 1 to {COUNT_MAX}"
        )),
    }
}

/// A name goes to ssh as a word: it must not look like an option, nor mean anything to a shell.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-@:%".contains(c);
    if name.starts_with('-') || name.is_empty() || !name.chars().all(allowed) {
        return Err(format!(
            "`{name}` is no host name: expected letters, digits and `.` `_` `-` `:` `%`, with `USER@` before it where needed"
        ));
    }
    Ok(())
}

/// Hosts in the order of the file, each once.
#[derive(Default)]
pub(crate) struct Merged {
    pub list: Vec<Host>,
    /// Place in `list`, and the line that named it first.
    seen: BTreeMap<String, (usize, usize)>,
}

impl Merged {
    /// A host that is named again gets the cores of both lines.
    pub fn add(&mut self, host: Host, line: usize) -> Result<(), String> {
        let Some(&(place, first)) = self.seen.get(&host.name) else {
            if self.list.len() >= COUNT_MAX as usize {
                return Err(format!("more than {COUNT_MAX} hosts"));
            }
            self.seen.insert(host.name.clone(), (self.list.len(), line));
            self.list.push(host);
            return Ok(());
        };
        let known = &mut self.list[place];
        if known.groups != host.groups {
            return Err(format!("`{}` is in another group already (line {first})", host.name));
        }
        match (known.cores, host.cores) {
            (Some(one), Some(other)) => {
                known.cores = Some(one.saturating_add(other).min(COUNT_MAX));
                Ok(())
            }
            _ => Err(format!(
                "`{}` is named again (line {first}), and not both times with a number of cores: expected `{} CORES` each time, which adds up",
                host.name, host.name
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<(String, Option<u32>)> {
        parse(text).unwrap().into_iter().map(|host| (host.name, host.cores)).collect()
    }

    fn complaint(text: &str) -> String {
        let (line, what) = parse(text).unwrap_err();
        format!("{line}: {what}")
    }

    fn named(name: &str, cores: Option<u32>) -> (String, Option<u32>) {
        (name.to_owned(), cores)
    }

    #[test]
    fn lines_have_a_name_and_cores_and_comments() {
        let text = "# all of them\nhost1 8\n\n  host2\t4 1.5  # weight\nhost3\nme@host4 2\n";
        let expected = [
            named("host1", Some(8)),
            named("host2", Some(4)),
            named("host3", None),
            named("me@host4", Some(2)),
        ];
        assert_eq!(names(text), expected);
    }

    #[test]
    fn patterns_stand_for_several_hosts() {
        let text = "host[[09-11]] 4\nn[[1-2,7]].site 2";
        let expected = ["host09", "host10", "host11"].map(|name| named(name, Some(4)));
        let more = ["n1.site", "n2.site", "n7.site"].map(|name| named(name, Some(2)));
        assert_eq!(names(text), [expected.as_slice(), &more].concat());
    }

    #[test]
    fn a_host_named_twice_has_the_cores_of_both_lines() {
        assert_eq!(names("a 2\nb 1\na 3"), [named("a", Some(5)), named("b", Some(1))]);
        assert_eq!(
            complaint("a 2\na"),
            "2: `a` is named again (line 1), and not both times with a number of cores: expected `a CORES` each time, which adds up"
        );
        assert!(complaint("a\na").starts_with("2: `a` is named again (line 1)"));
    }

    #[test]
    fn what_means_nothing_is_told_with_its_line() {
        let cases = [
            ("a\nb x", "2: `x` for the number of cores: expected a whole number from 1 to 65535"),
            ("a 0", "1: `0` for the number of cores: expected a whole number from 1 to 65535"),
            ("a 99999", "1: `99999` for the number of cores: expected"),
            ("a -1", "1: `-1` for the number of cores: expected"),
            ("a 1 heavy", "1: `heavy` after the cores: expected nothing, or a number"),
            ("a 1 1.0 0 0", "1: `0` is too much: expected `NAME CORES`"),
            ("-oProxyCommand=x 1", "1: `-oProxyCommand=x` is no host name: expected letters"),
            ("a;b 1", "1: `a;b` is no host name"),
            ("a[[1- 1", "1: `a[[1-`: a `[[` without its `]]`"),
        ];
        for (text, expected) in cases {
            let told = complaint(text);
            assert!(told.starts_with(expected), "{text:?}: {told}");
        }
    }

    #[test]
    fn files_that_cannot_be_used_are_told_with_their_name() {
        let error = read(Path::new("/nonexistent/hosts")).unwrap_err().to_string();
        assert_eq!(
            error,
            "read the host file /nonexistent/hosts: No such file or directory (os error 2); \
             -F (HOSTFILE) expects a file with lines such as `host1 8`, or TOML"
        );
        let folder = tempfile_folder();
        let file = folder.join("hosts");
        std::fs::write(&file, "# nobody\n").unwrap();
        let error = read(&file).unwrap_err().to_string();
        assert!(error.ends_with(
            "hosts: no host in it; expected lines such as `host1 8` or `host[[01-12]] 4`"
        ));
        std::fs::write(&file, b"a 1\n\xff 1\n").unwrap();
        let error = read(&file).unwrap_err().to_string();
        assert!(error.contains("hosts:2: a byte that is no UTF-8"), "{error}");
        std::fs::remove_dir_all(folder).unwrap();
    }

    fn tempfile_folder() -> PathBuf {
        let folder = std::env::temp_dir().join(format!("rakuda-hosts-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }
}
