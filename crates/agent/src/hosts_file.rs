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

/// The process whose file this is, by its name. `None`: it is no such file.
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
        // A program that cleans temporary files may have been faster.
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

    /// An environment in which the command finds the file and the names of the nodes; in a step of Slurm also what MPI
    /// programs are started by there, which is else of the whole allocation.
    pub fn environment(
        &self,
        hosts: &[(Text, u32)],
        base: &Rc<EnvironmentBlock>,
    ) -> Rc<EnvironmentBlock> {
        let names: Vec<&[u8]> = hosts.iter().map(|(host, _)| host.0.as_slice()).collect();
        let names = names.join(&b',');
        let mut values = vec![("RAKUDA_HOSTFILE", self.path.as_os_str().as_bytes().to_vec())];
        // Only of the step that the node is in: Slurm may have another name for it, or none.
        let own = base.value(b"SLURMD_NODENAME");
        if hosts.first().is_some_and(|(home, _)| own == Some(&home.0)) {
            let count = hosts.len().to_string().into_bytes();
            let slots = slots_of(hosts).into_bytes();
            values.extend(["SLURM_NODELIST", "SLURM_JOB_NODELIST"].map(|it| (it, names.clone())));
            values.extend(["SLURM_NNODES", "SLURM_JOB_NUM_NODES"].map(|it| (it, count.clone())));
            values.push(("SLURM_TASKS_PER_NODE", slots));
        }
        values.push(("RAKUDA_NODES", names));
        let entries = values
            .into_iter()
            .filter_map(|(name, value)| CString::new([name.as_bytes(), b"=", &value].concat()).ok())
            .collect();
        Rc::new(EnvironmentBlock::replacing(base, entries))
    }
}

/// Slots on each node, as Slurm writes them: `2(x3),1`.
fn slots_of(hosts: &[(Text, u32)]) -> String {
    let runs = hosts.chunk_by(|(_, one), (_, other)| one == other);
    let words = runs.filter_map(|run| {
        let (_, slots) = run.first()?;
        Some(if run.len() > 1 { format!("{slots}(x{})", run.len()) } else { slots.to_string() })
    });
    words.collect::<Vec<_>>().join(",")
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

    #[test]
    fn in_a_step_of_slurm_a_command_has_the_nodes_and_slots_of_its_task() {
        let hosts: Vec<(Text, u32)> =
            [("n3", 2), ("n1", 2), ("n7", 1)].map(|(host, slots)| (host.into(), slots)).into();
        let environment = |own: &str| {
            let base = [("SLURMD_NODENAME", own), ("SLURM_NODELIST", "n[1-9]"), ("A", "b")];
            let base = EnvironmentBlock::new(base.map(|(name, value)| (name.into(), value.into())));
            let file = HostsFile { path: "/nowhere/hosts-0-0".into() };
            file.environment(&hosts, &Rc::new(base))
        };
        let value = |block: &EnvironmentBlock, name: &str| {
            block.value(name.as_bytes()).map(|value| String::from_utf8_lossy(value).into_owned())
        };
        let (inside, outside) = (environment("n3"), environment("n1"));
        for (name, expected) in [
            ("RAKUDA_NODES", "n3,n1,n7"),
            ("RAKUDA_HOSTFILE", "/nowhere/hosts-0-0"),
            ("SLURM_NODELIST", "n3,n1,n7"),
            ("SLURM_JOB_NODELIST", "n3,n1,n7"),
            ("SLURM_NNODES", "3"),
            ("SLURM_TASKS_PER_NODE", "2(x2),1"),
            ("A", "b"),
        ] {
            assert_eq!(value(&inside, name).as_deref(), Some(expected), "{name}");
        }
        assert_eq!(value(&outside, "SLURM_NODELIST").as_deref(), Some("n[1-9]"));
        assert_eq!(value(&outside, "SLURM_TASKS_PER_NODE"), None);
        assert_eq!(value(&outside, "RAKUDA_NODES").as_deref(), Some("n3,n1,n7"));
    }
}
