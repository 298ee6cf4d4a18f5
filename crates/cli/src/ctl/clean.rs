//! `rakudactl clean`: removes what runs that were killed have left on this machine and on others. What that may be is found in `leftovers`; here are
//! the words, and the way to other hosts: their own engine, which a run has brought there, does the same.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use clap::Args;

use super::leftovers::{self, How};
use super::place::Place;
use super::{Status as Ending, UsageError};

/// Hosts that are cleaned at the same time; sshd refuses more than 10 that have not logged in.
const AT_A_TIME: usize = 8;

/// Removes what killed runs have left: mounts of Gfarm, processes, programs that no run has used for a month.
///
/// Without hosts: on this machine. What belongs to runs that go on is left alone. A process that a command has left behind on purpose is
/// killed, too, when its run is over: --dry-run shows what would be.
#[derive(Args)]
pub struct Clean {
    /// The hosts that the file FILE names.
    #[arg(short = 'F', long = "hostfile", value_name = "FILE")]
    host_file: Option<PathBuf>,

    /// Words for ssh. Repeatable.
    #[arg(long = "ssh-option", value_name = "OPTION", allow_hyphen_values = true)]
    ssh_options: Vec<String>,

    /// Say what would be done, and do nothing.
    #[arg(long)]
    dry_run: bool,

    /// Hosts, beside those of the file.
    #[arg(value_name = "HOST")]
    hosts: Vec<String>,
}

impl Clean {
    /// Cleans and says what was done.
    pub fn answer(&self, place: &Place, out: &mut dyn Write) -> anyhow::Result<Ending> {
        let how = if self.dry_run { How::Pretend } else { How::Remove };
        let hosts = self.all_hosts(place)?;
        if hosts.is_empty() {
            for line in leftovers::clean(how) {
                writeln!(out, "{line}")?;
            }
            return Ok(Ending::Good);
        }
        let program = rakuda_hub::program_name().map_err(anyhow::Error::msg)?;
        let mut ending = Ending::Good;
        for some in hosts.chunks(AT_A_TIME) {
            let cleaned: Vec<_> = std::thread::scope(|scope| {
                let program = program.as_str();
                let start = |host: &String| {
                    let host = host.clone();
                    scope.spawn(move || self.clean_host(&host, program, how))
                };
                let threads: Vec<_> = some.iter().map(start).collect();
                threads.into_iter().map(|thread| thread.join().expect("it only waits")).collect()
            });
            for (host, lines) in some.iter().zip(cleaned) {
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

    fn all_hosts(&self, place: &Place) -> anyhow::Result<Vec<String>> {
        let mut hosts = self.hosts.clone();
        if let Some(file) = &self.host_file {
            let named = rakuda_hub::host_names(&place.directory().join(file));
            hosts.extend(named.map_err(UsageError)?);
        }
        if let Some(host) = hosts.iter().find(|host| host.starts_with('-') || host.is_empty()) {
            return Err(UsageError(format!("'{host}' is no name of a host")).into());
        }
        hosts.sort_unstable();
        hosts.dedup();
        Ok(hosts)
    }

    fn clean_host(&self, host: &str, program: &str, how: How) -> Result<Vec<String>, String> {
        let own_name = rustix::system::uname();
        if host == "localhost" || own_name.nodename().to_bytes() == host.as_bytes() {
            return Ok(leftovers::clean(how));
        }
        self.ask_over_ssh(host, program, how).map_err(|error| format!("{error:#}"))?
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a tool of people, which waits for it; no run is there"
    )]
    fn ask_over_ssh(
        &self,
        host: &str,
        program: &str,
        how: How,
    ) -> anyhow::Result<Result<Vec<String>, String>> {
        let mut ssh = Command::new("ssh");
        ssh.args(&self.ssh_options).args(["-oBatchMode=yes", "-T", "--", host]);
        ssh.arg(remote_line(program, how)).stdin(Stdio::null());
        let answer = ssh.output().context("start ssh")?;
        let words = String::from_utf8_lossy(&answer.stderr).trim().replace('\n', "; ");
        if answer.status.success() {
            let said = String::from_utf8_lossy(&answer.stdout).into_owned();
            return Ok(Ok(said.lines().map(str::to_owned).collect()));
        }
        Ok(Err(if words.is_empty() { format!("ssh: {}", answer.status) } else { words }))
    }
}

/// For any login shell: this very program where a run has brought it, else the last one that came. Where none is, nothing of a run was.
fn remote_line(program: &str, how: How) -> String {
    let dry_run = if how == How::Pretend { " --dry-run" } else { "" };
    let script = [
        "d=\"${XDG_CACHE_HOME:-$HOME/.cache}/rakuda/bin\"",
        &format!("p=\"$d/{program}/rakudad\""),
        "test -x \"$p\" || p=$(ls -t \"$d\"/*/rakudad 2>/dev/null | head -n 1)",
        "test -n \"$p\" || exit 0",
        &format!("exec \"$p\" ctl clean{dry_run}"),
    ];
    format!("exec /bin/sh -c '{}'", script.join("; "))
}
