//! `rakudactl clean`: removes what runs that were killed have left on this machine and on others.
//! What that may be is found in `leftovers`; here are the words, and the way to other hosts: their
//! own engine, which a run has copied there, does the same. Hosts of a group are reached as a run
//! reaches them: by the ssh of their leader.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use clap::Args;
use rakuda_hub::Fate;
use rakuda_record::printable::printable;

use super::base_folder::BaseFolder;
use super::leftovers::{self, How, What};
use super::{Status as Ending, UsageError};

/// Maximum hosts that are cleaned at the same time: sshd refuses more than 10 that have not logged in.
const AT_A_TIME: usize = 8;

/// Removes what killed runs have left: mounts of Gfarm, processes, sockets, invitations, programs
/// that no run has used for a month.
///
/// Without hosts: on this machine. Hosts of -F behind a leader are reached through it. What belongs
/// to runs that go on is left alone. A process that a command has left behind on purpose is killed,
/// too, when its run is over: --dry-run shows what would be.
#[derive(Args)]
pub struct Clean {
    /// The hosts that the file FILE names.
    #[arg(short = 'F', long = "hostfile", value_name = "FILE")]
    host_file: Option<PathBuf>,

    /// Words for ssh. Repeatable.
    #[arg(long = "ssh-option", value_name = "OPTION", allow_hyphen_values = true)]
    ssh_options: Vec<String>,

    /// Remove the work folders of `--filesystem local`, too: what is only there has to be made again.
    #[arg(long)]
    files: bool,

    /// Remove the NAME._fail_ that runs of this folder have left, too.
    #[arg(long)]
    failed: bool,

    /// Say what would be done, and do nothing.
    #[arg(long)]
    dry_run: bool,

    /// Hosts, beside those of the file.
    #[arg(value_name = "HOST")]
    hosts: Vec<String>,
}

/// A host, and the hosts that ssh is called for until it is there: leaders, and at last itself.
type HostRoute = (String, Vec<String>);

impl Clean {
    /// Cleans and says what was done.
    pub fn answer(&self, base: &BaseFolder, out: &mut dyn Write) -> anyhow::Result<Ending> {
        let what = What {
            how: if self.dry_run { How::Pretend } else { How::Remove },
            files: self.files,
            records: base.records().ok().map(|records| records.root),
        };
        let routes = self.routes(base)?;
        let ending = if self.failed { self.remove_failed(base, out)? } else { Ending::Good };
        if routes.is_empty() {
            for line in leftovers::clean(&what) {
                writeln!(out, "{line}")?;
            }
            return Ok(ending);
        }
        let program = rakuda_cluster::program_name().map_err(anyhow::Error::msg)?;
        let mut ending = ending;
        for some in routes.chunks(AT_A_TIME) {
            let cleaned: Vec<_> = std::thread::scope(|scope| {
                let (program, what) = (program.as_str(), &what);
                let start = |route: &HostRoute| {
                    let route = route.clone();
                    scope.spawn(move || self.clean_host(&route, program, what))
                };
                let threads: Vec<_> = some.iter().map(start).collect();
                threads.into_iter().map(|thread| thread.join().expect("it only waits")).collect()
            });
            for ((host, _), lines) in some.iter().zip(cleaned) {
                match lines {
                    Ok(lines) => {
                        for line in lines {
                            writeln!(out, "{host}: {line}")?;
                        }
                    }
                    Err(why) => {
                        ending = Ending::Failed;
                        crate::complain(&format!("rakudactl: {host} was not cleaned: {why}\n"));
                    }
                }
            }
        }
        Ok(ending)
    }

    /// What failed attempts have left of targets in the folder of the runs.
    fn remove_failed(&self, base: &BaseFolder, out: &mut dyn Write) -> anyhow::Result<Ending> {
        let mut ending = Ending::Good;
        let root = base.records()?.root;
        for (path, fate) in rakuda_hub::remove_failed_files(&root, !self.dry_run) {
            let shown = printable(path.as_os_str().as_encoded_bytes());
            match fate {
                Fate::Removed if self.dry_run => writeln!(out, "would remove {shown}")?,
                Fate::Removed => writeln!(out, "removed {shown}")?,
                Fate::NotOurs => writeln!(out, "left {shown}: it is not what a run left there")?,
                Fate::Stuck(why) => {
                    ending = Ending::Failed;
                    crate::complain(&format!("rakudactl: failed to remove {shown}: {why}\n"));
                }
            }
        }
        Ok(ending)
    }

    /// All hosts that are named; how the file says that one is reached holds.
    fn routes(&self, base: &BaseFolder) -> anyhow::Result<Vec<HostRoute>> {
        let named = self.hosts.iter().map(|host| (host.clone(), Vec::new()));
        let mut leaders: BTreeMap<String, Vec<String>> = named.collect();
        if let Some(file) = &self.host_file {
            let file = base.directory().join(file);
            let hosts = rakuda_cluster::hosts_to_reach(&file);
            leaders.extend(hosts.map_err(|error| UsageError(error.to_string()))?);
        }
        if let Some(host) = leaders.keys().find(|host| host.starts_with('-') || host.is_empty()) {
            return Err(UsageError(format!("'{host}' is no name of a host")).into());
        }
        let routes = leaders.into_iter().map(|(host, mut route)| {
            route.retain(|leader| !is_this_machine(leader) && *leader != host);
            route.push(host.clone());
            (host, route)
        });
        Ok(routes.collect())
    }

    fn clean_host(
        &self,
        (host, route): &HostRoute,
        program: &str,
        what: &What,
    ) -> Result<Vec<String>, String> {
        if is_this_machine(host) {
            return Ok(leftovers::clean(what));
        }
        let asked = self.ask_over_ssh(route, script(program, what));
        asked.map_err(|error| format!("{error:#}"))?.map_err(|why| match route.as_slice() {
            [.., leader, _] => format!("{why} (through its leader {leader})"),
            _ => why,
        })
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a tool of people, which waits for it; no run is there"
    )]
    fn ask_over_ssh(
        &self,
        route: &[String],
        script: String,
    ) -> anyhow::Result<Result<Vec<String>, String>> {
        let (first, beyond) = route.split_first().context("no host")?;
        let script = beyond.iter().rev().fold(script, |script, host| self.pass_on(host, &script));
        let mut ssh = Command::new("ssh");
        ssh.args(self.ssh_words(first)).stdin(Stdio::piped());
        let mut ssh =
            ssh.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("start ssh")?;
        if let Some(mut stdin) = ssh.stdin.take() {
            // One that does not read it says itself what is wrong.
            let _ = stdin.write_all(script.as_bytes());
        }
        let answer = ssh.wait_with_output().context("wait for ssh")?;
        let words = String::from_utf8_lossy(&answer.stderr).trim().replace('\n', "; ");
        if answer.status.success() {
            let said = String::from_utf8_lossy(&answer.stdout).into_owned();
            return Ok(Ok(said.lines().map(str::to_owned).collect()));
        }
        Ok(Err(if words.is_empty() { format!("ssh: {}", answer.status) } else { words }))
    }

    /// Words for ssh that have `host` run a script from its stdin. Login shells of any kind see one word.
    fn ssh_words(&self, host: &str) -> Vec<String> {
        let fixed = ["-oBatchMode=yes", "-T", "--", host, "/bin/sh"];
        self.ssh_options.iter().cloned().chain(fixed.map(str::to_owned)).collect()
    }

    /// A script that has `host` run another one.
    fn pass_on(&self, host: &str, script: &str) -> String {
        let words: Vec<String> = self.ssh_words(host).iter().map(|word| quoted(word)).collect();
        // The host's name ends no inner document, since no host is reached through itself.
        format!("ssh {} <<'end of {host}'\n{script}\nend of {host}\n", words.join(" "))
    }
}

fn is_this_machine(host: &str) -> bool {
    let own_name = rustix::system::uname();
    host == "localhost" || own_name.nodename().to_bytes() == host.as_bytes()
}

/// A word for /bin/sh.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// For /bin/sh on the host: this very program where a run has copied it, else the last one that came. A host without
/// one has never had anything of a run.
fn script(program: &str, what: &What) -> String {
    let dry_run = if what.how == How::Pretend { " --dry-run" } else { "" };
    let files = if what.files { " --files" } else { "" };
    [
        "d=\"${XDG_CACHE_HOME:-$HOME/.cache}/rakuda/bin\"",
        &format!("p=\"$d/{program}/rakudad\""),
        "test -x \"$p\" || p=$(ls -t \"$d\"/*/rakudad 2>/dev/null | head -n 1)",
        "test -n \"$p\" || exit 0",
        &format!("exec \"$p\" ctl clean{files}{dry_run}"),
    ]
    .join("\n")
}
