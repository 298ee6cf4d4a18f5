//! The host file in TOML: hosts in groups, groups in groups.
//!
//! ```toml
//! hosts = ["front1 2"]             # lines as in Pwrake's form
//!
//! [[group]]
//! name = "east"
//! leader = "e01"                   # the hub talks to it alone; without one to each host
//! cores = 8                        # of hosts whose line names none
//! hosts = ["e[[01-12]]", "e13 4"]
//!
//! [[group.group]]
//! name = "east-gpu"
//! hosts = ["g1 64"]
//!
//! [[provider]]                     # programs that provide information about each host (information.md)
//! name = "queue"
//! command = ["queue_length"]
//! ```
//!
//! It only reads: what a leader does is not its business.

use std::collections::BTreeSet;

use rakuda_agent::providers::{ProviderEntry, understood};
use serde::Deserialize;
use toml::Spanned;

use crate::hosts::{COUNT_MAX, Host, HostFile, Merged, check_name, parse_line};

/// Maximum depth of groups in groups.
const DEPTH_MAX: usize = 8;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    hosts: Vec<Spanned<String>>,
    #[serde(default, rename = "group")]
    groups: Vec<Spanned<Group>>,
    #[serde(default, rename = "provider")]
    providers: Vec<Spanned<ProviderEntry>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    name: Spanned<String>,
    leader: Option<Spanned<String>>,
    cores: Option<Spanned<i64>>,
    #[serde(default)]
    hosts: Vec<Spanned<String>>,
    #[serde(default, rename = "group")]
    groups: Vec<Spanned<Group>>,
}

/// `Err`: line and what is wrong there.
pub(crate) fn parse(text: &str) -> Result<HostFile, (usize, String)> {
    let line_of =
        |offset: usize| 1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count();
    let file: File = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(span.start));
        let expected =
            "expected `hosts = [...]`, `[[group]]` with `name`, `leader`, `cores`, `hosts`, and `[[provider]]`";
        (line, format!("{}; {expected}", error.message().lines().collect::<Vec<_>>().join(", ")))
    })?;
    let mut reader = Reader { line_of: &line_of, hosts: Merged::default(), names: BTreeSet::new() };
    reader.add_hosts(&file.hosts, None, &Above::default())?;
    for group in file.groups {
        reader.add_group(group.get_ref(), &Above::default())?;
    }
    let lines: Vec<usize> = file.providers.iter().map(|it| line_of(it.span().start)).collect();
    let providers = understood(file.providers.into_iter().map(Spanned::into_inner).collect());
    let providers =
        providers.map_err(|(place, what)| (lines.get(place).copied().unwrap_or(1), what))?;
    Ok(HostFile { hosts: reader.hosts.list, providers })
}

struct Reader<'a> {
    line_of: &'a dyn Fn(usize) -> usize,
    hosts: Merged,
    /// Of groups.
    names: BTreeSet<String>,
}

/// What a host inherits from the groups that it is in.
#[derive(Default)]
struct Above {
    groups: Vec<String>,
    leaders: Vec<String>,
}

impl Reader<'_> {
    fn at<T>(&self, place: &Spanned<T>, what: impl Into<String>) -> (usize, String) {
        ((self.line_of)(place.span().start), what.into())
    }

    fn add_group(&mut self, group: &Group, above: &Above) -> Result<(), (usize, String)> {
        let name = group.name.get_ref();
        if name.is_empty() || !self.names.insert(name.clone()) {
            let what = format!("the group `{name}`: expected a name that no other group has");
            return Err(self.at(&group.name, what));
        }
        if above.groups.len() == DEPTH_MAX {
            return Err(self.at(&group.name, format!("groups in groups: at most {DEPTH_MAX} deep")));
        }
        let mut path = Above { groups: above.groups.clone(), leaders: above.leaders.clone() };
        path.groups.push(name.clone());
        let leader = group.leader.as_ref().filter(|leader| !leader.get_ref().is_empty());
        path.leaders.extend(
            leader
                .map(|leader| leader.get_ref().clone())
                .filter(|name| !above.leaders.contains(name)),
        );
        let cores = group.cores.as_ref().map(|cores| self.cores(cores)).transpose()?;
        let first = self.hosts.list.len();
        self.add_hosts(&group.hosts, cores, &path)?;
        for inner in &group.groups {
            self.add_group(inner.get_ref(), &path)?;
        }
        if let Some(leader) = leader {
            let name = leader.get_ref();
            check_name(name).map_err(|what| self.at(leader, what))?;
            if !self.hosts.list[first..].iter().any(|host| host.name == *name) {
                return Err(self.at(leader, format!("the leader `{name}` is no host of its group")));
            }
        }
        Ok(())
    }

    fn cores(&self, cores: &Spanned<i64>) -> Result<u32, (usize, String)> {
        let number = *cores.get_ref();
        let allowed = u32::try_from(number).ok().filter(|number| (1..=COUNT_MAX).contains(number));
        allowed.ok_or_else(|| {
            let expected = format!("expected a whole number from 1 to {COUNT_MAX}");
            self.at(cores, format!("`cores = {number}`: {expected}"))
        })
    }

    fn add_hosts(
        &mut self,
        lines: &[Spanned<String>],
        cores: Option<u32>,
        path: &Above,
    ) -> Result<(), (usize, String)> {
        for line in lines {
            let hosts = parse_line(line.get_ref()).map_err(|what| self.at(line, what))?;
            if hosts.is_empty() {
                return Err(self.at(line, "an empty name: expected such as \"host1 8\""));
            }
            for host in hosts {
                let (groups, leaders) = (path.groups.clone(), path.leaders.clone());
                let host = Host { cores: host.cores.or(cores), groups, leaders, ..host };
                let number = (self.line_of)(line.span().start);
                self.hosts.add(host, number).map_err(|what| (number, what))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_give_their_cores_and_hold_groups() {
        let text = r#"
hosts = ["front 2"]

[[group]]
name = "east"
leader = "e01"
cores = 8
hosts = ["e[[01-02]]", "e13 4"]

[[group.group]]
name = "gpu"
leader = "g1"
hosts = ["g[[1-2]]"]

[[group.group]]
name = "same"
leader = ""
hosts = ["s1"]
"#;
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let host = |name: &str, cores, groups: &[&str], leaders: &[&str]| Host {
            name: name.to_owned(),
            cores,
            groups: owned(groups),
            leaders: owned(leaders),
        };
        let expected = [
            host("front", Some(2), &[], &[]),
            host("e01", Some(8), &["east"], &["e01"]),
            host("e02", Some(8), &["east"], &["e01"]),
            host("e13", Some(4), &["east"], &["e01"]),
            host("g1", None, &["east", "gpu"], &["e01", "g1"]),
            host("g2", None, &["east", "gpu"], &["e01", "g1"]),
            host("s1", None, &["east", "same"], &["e01"]),
        ];
        assert_eq!(parse(text).unwrap().hosts, expected);
    }

    #[test]
    fn programs_provide_information_about_its_hosts() {
        let text =
            "hosts = ['a']\n[[provider]]\nname = 'queue'\ncommand = ['qstat', '-q']\nperiod = 2\n";
        let [provider] = parse(text).unwrap().providers.try_into().unwrap();
        assert_eq!((provider.name.as_str(), provider.period.as_secs()), ("queue", 2));
        assert_eq!(provider.command, ["qstat", "-q"]);
    }

    #[test]
    fn what_means_nothing_is_told_with_its_line() {
        let cases = [
            ("hosts = [\n\"a\",\n\"b x\"]", 3, "`x` for the number of cores: expected"),
            ("hosts = [\"\"]", 1, "an empty name: expected"),
            ("host = [\"a\"]", 1, "unknown field `host`"),
            ("hosts = \"a\"", 1, "invalid type"),
            ("[[group]]\nhosts = [\"a\"]", 1, "missing field `name`"),
            ("[[group]]\nname = \"x\"\ncores = 0", 3, "`cores = 0`: expected a whole number"),
            (
                "[[group]]\nname = \"x\"\nleader = \"b\"\nhosts = [\"a\"]",
                3,
                "the leader `b` is no host",
            ),
            (
                "[[group]]\nname = \"x\"\n[[group]]\nname = \"x\"",
                4,
                "the group `x`: expected a name that no",
            ),
            (
                "hosts = [\"a 1\"]\n[[group]]\nname = \"x\"\nhosts = [\"a 1\"]",
                4,
                "`a` is in another group already (line 1)",
            ),
            ("[[group]\n", 1, ""),
            (
                "hosts = [\"a\"]\n[[provider]]\nname = \"load\"\ncommand = [\"x\"]",
                2,
                "provider \"load\": a built-in provider has this name",
            ),
            (
                "[[provider]]\nname = \"a\"\ncommand = [\"x\"]\nevery = 3",
                4,
                "unknown field `every`",
            ),
        ];
        for (text, line, expected) in cases {
            let (told_line, told) = parse(text).unwrap_err();
            assert_eq!(told_line, line, "{text}: {told}");
            assert!(told.starts_with(expected), "{text}: {told}");
        }
    }
}
