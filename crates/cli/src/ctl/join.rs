//! `rakudactl join`: makes this machine a node of a run that is going on. It finds the run's
//! invitation and becomes an agent.

use std::io::{self, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use rakuda_link::invitation::Invitation;
use rakuda_record::marks::{self, RUNNING};

use super::base_folder::BaseFolder;
use super::{Status as Ending, UsageError, live};

/// Of a launch template, whose agents are counted elsewhere.
const NOT_FOR_ALL: &str = "launch-";
/// Timeout for a connection: a machine that is not there does not refuse.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);

/// Makes this machine a node of a run that was started with --joinable, until the run is over.
#[derive(Args)]
pub struct Join {
    /// The file with the run's invitation, `-` for stdin; without it that of the newest run that goes on here.
    #[arg(value_name = "INVITATION", conflicts_with = "run")]
    invitation: Option<String>,

    /// The run whose name begins with RUN.
    #[arg(long, value_name = "RUN")]
    run: Option<String>,

    /// What the node is called, instead of its host name.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Cores that the run may use, at most.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    cores: Option<u32>,

    /// Print the invitation, for another machine. Whoever has it can run commands of the run and read its files.
    #[arg(long)]
    print: bool,
}

impl Join {
    /// Joins, and stays.
    pub fn answer(&self, base: &BaseFolder, out: &mut dyn Write) -> anyhow::Result<Ending> {
        let file = match &self.invitation {
            Some(file) => PathBuf::from(file),
            None => self.find(base)?,
        };
        if self.print {
            if file == Path::new("-") {
                return Err(UsageError("--print and `-`: the invitation is there".into()).into());
            }
            write!(out, "{}", Invitation::read(&file)?.to_text())?;
            return Ok(Ending::Good);
        }
        let cores = self.cores.map(|cores| cores.to_string());
        let file = file.to_string_lossy();
        let mut words = vec!["--join", &*file];
        words.extend(self.name.iter().flat_map(|name| ["--name", name]));
        words.extend(cores.iter().flat_map(|cores| ["--cores", cores]));
        match crate::agent_process::guard(&words)? {
            Some(0) => Ok(Ending::Good),
            Some(_) => Ok(Ending::Failed),
            None => Err(UsageError("no such agent".into()).into()),
        }
    }

    /// The invitation of the newest run that lives.
    fn find(&self, base: &BaseFolder) -> anyhow::Result<PathBuf> {
        let root = base.records()?.root;
        let folder = root.join("join");
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        let prefix = self.run.as_deref().filter(|run| *run != "last");
        names.retain(|name| {
            !name.starts_with(NOT_FOR_ALL) && prefix.is_none_or(|prefix| name.starts_with(prefix))
        });
        names.sort_unstable_by(|a, b| b.cmp(a));
        let is_marked = |name: &&String| marks::lives(&root.join(RUNNING).join(name)) == Some(true);
        // Not every file system tells other machines of locks (Gfarm, some mounts of NFS): there
        // the run itself is asked.
        let listens = |name: &&String| knock(&folder.join(name)).is_ok();
        let found = names.iter().find(is_marked).or_else(|| names.iter().find(listens));
        found.map(|name| folder.join(name)).ok_or_else(|| {
            let directory = base.directory().display();
            let start = "start one with --joinable";
            let why = match (names.first(), prefix) {
                (Some(newest), _) => format!(
                    "no run that can be joined goes on in {directory} (the newest, {newest}, was killed): {start}"
                ),
                (None, prefix) => format!(
                    "no run{} can be joined in {directory}: {start}, or give its invitation (`rakudactl join --print` there, `rakudactl join -` here)",
                    prefix.map_or_else(String::new, |prefix| format!(" named {prefix}..."))
                ),
            };
            live::NoLiveRun(why).into()
        })
    }
}

/// Connects to where an invitation leads, and says nothing there.
pub fn knock(invitation: &Path) -> io::Result<()> {
    let invitation = Invitation::read(invitation).map_err(io::Error::other)?;
    let mut answer = Err(io::ErrorKind::NotFound.into());
    for address in invitation.address.to_socket_addrs()? {
        answer = TcpStream::connect_timeout(&address, ANSWERS_WITHIN).map(drop);
        if answer.is_ok() {
            break;
        }
    }
    answer
}
