//! The file that tells a command on which nodes its task runs: what RAKUDA_HOSTFILE names.
//!
//! A line for each node, `HOST slots=N`, as `mpirun --hostfile` of Open MPI takes it. It lies below
//! the agent's own folder for temporary files, and goes with the command.

use std::ffi::CString;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rakuda_proto::Text;
use rakuda_proto::agent::CommandId;

use crate::files::make_scratch;
use crate::spawn::EnvironmentBlock;

/// The process whose file this is, by its name; none: it is no such file.
pub fn agent_of(path: &Path) -> Option<i32> {
    let (process, command) = path.file_name()?.to_str()?.strip_prefix("hosts-")?.split_once('-')?;
    command.parse::<u32>().ok()?;
    process.parse().ok().filter(|process| *process > 0)
}

/// A file that is removed when this goes.
#[derive(Debug)]
pub(crate) struct HostsFile {
    path: PathBuf,
}

impl Drop for HostsFile {
    fn drop(&mut self) {
        // Whoever cleans temporary files may have been faster.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl HostsFile {
    /// Writes the file.
    pub fn make(command: CommandId, hosts: &[(Text, u32)]) -> std::io::Result<Self> {
        let folder = make_scratch().map_err(std::io::Error::other)?;
        let process = std::process::id();
        let path = folder.join(format!("hosts-{process}-{}", command.0));
        // Left by a process that had the number before.
        let _ = std::fs::remove_file(&path);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let made = Self { path };
        let mut text = Vec::new();
        for (host, slots) in hosts {
            text.extend_from_slice(&host.0);
            text.extend_from_slice(format!(" slots={slots}\n").as_bytes());
        }
        file.write_all(&text)?;
        Ok(made)
    }

    /// An environment with the two variables on top of `base`.
    pub fn environment(
        &self,
        hosts: &[(Text, u32)],
        base: &Rc<EnvironmentBlock>,
    ) -> Rc<EnvironmentBlock> {
        let names: Vec<&[u8]> = hosts.iter().map(|(host, _)| host.0.as_slice()).collect();
        let path = self.path.as_os_str().as_bytes().to_vec();
        let values = [(&b"RAKUDA_NODES="[..], names.join(&b',')), (b"RAKUDA_HOSTFILE=", path)];
        let mut block = Rc::clone(base);
        for (name, value) in values {
            if let Ok(entry) = CString::new([name, &value].concat()) {
                block = Rc::new(EnvironmentBlock::with(&block, entry));
            }
        }
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_hosts_file_tells_its_agent() {
        let agent_of = |name: &str| agent_of(&Path::new("/tmp/rakuda-0").join(name));
        assert_eq!(agent_of("hosts-812-3"), Some(812));
        for other in
            ["hosts-812", "hosts-0-3", "hosts--5-3", "hosts-812-3.sock", "hosts-x-3", "812-3"]
        {
            assert_eq!(agent_of(other), None, "{other}");
        }
    }
}
