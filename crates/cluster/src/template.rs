//! A launch template: a command line of the user that starts one agent on each node, through
//! whatever batch system there is.
//!
//! The agents dial in, and each is a node from then on. It knows no batch system.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use rakuda_agent::HelperProcess;
use rakuda_link::invitation::Invitation;
use tokio::io::AsyncWriteExt as _;

use crate::plan::LaunchPlan;
use crate::reports::NodeEvent;
use crate::search::Search;
use crate::ssh;
use crate::tool::{self, ending, quoted};
use crate::watched::{Started, Watched};

/// The invitation lies in a folder of the run's records.
const FOLDER: &str = ".rakuda/join";

/// A file that is removed when it is not needed any more.
struct InvitationFile(PathBuf);

impl InvitationFile {
    fn write(directory: &Path, invitation: &Invitation) -> Result<Self, String> {
        let folder = directory.join(FOLDER);
        let made = std::fs::create_dir_all(&folder);
        made.map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        let path = folder.join(format!("launch-{}", ssh::token()));
        invitation.write(&path).map_err(|error| format!("failed to {error}"))?;
        Ok(Self(path))
    }
}

impl Drop for InvitationFile {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Runs the command line, and takes the agents that come, until the run is over. `Err`: why none comes.
pub(crate) async fn serve(search: &Rc<Search>, plan: &LaunchPlan) -> Result<(), String> {
    let (invitation, mut dial_ins) = search.listener(None).await?.invite()?;
    let file = InvitationFile::write(&search.directory, &invitation)?;
    let program = std::env::current_exe();
    let program =
        program.map_err(|error| format!("cannot find the engine's own program: {error}"))?;
    let program = program.to_string_lossy().into_owned();
    let placeholders = Placeholders {
        agent: format!("{} agent --join {}", quoted(&program), quoted(&file.0.to_string_lossy())),
        program: quoted(&program),
        invitation: quoted(&file.0.to_string_lossy()),
        address: invitation.address.clone(),
        nodes: plan.nodes,
        directory: quoted(&search.directory.to_string_lossy()),
    };
    let line = placeholders.fill(&plan.line)?;
    let words = ["/bin/sh".to_owned(), "-c".to_owned(), line];
    let Started { mut stdin, stdout, watched, process } = tool::start(&words)?;
    tokio::task::spawn_local(async move {
        let _ = stdin.write_all(invitation.to_text().as_bytes()).await;
    });
    // What it prints is not for the user; a pipe that nobody reads would hold it up.
    tokio::task::spawn_local(async move {
        let mut stdout = stdout;
        tokio::io::copy(&mut stdout, &mut tokio::io::sink()).await
    });
    let (mut came, mut over) = (0_u32, false);
    loop {
        tokio::select! {
            () = search.closing() => break,
            Some(dial_in) = dial_ins.recv() => {
                search.welcome(dial_in);
                came += 1;
                if came == 1 {
                    search.launcher.tell(NodeEvent::AllAppeared(Ok(())));
                }
            }
            status = watched.ended(), if !over => {
                over = true;
                // A template may submit a job and end: its agents are still to come.
                if status != 0 && came == 0 {
                    let why = match watched.words() {
                        words if words.is_empty() => ending(status),
                        words => format!("{}: {words}", ending(status)),
                    };
                    return Err(format!("the launch template {why}"));
                }
                if came == 0 {
                    let text = "the launch template has ended; waiting for its agents";
                    search.launcher.tell(NodeEvent::Told(text.into()));
                }
            }
        }
    }
    if !over {
        end(&process, &watched).await;
    }
    Ok(())
}

/// The agents have got the word to end; then the command line has a moment to do so.
async fn end(process: &HelperProcess, watched: &Watched) {
    let second = std::time::Duration::from_secs(1);
    if tokio::time::timeout(second, watched.ended()).await.is_err() {
        process.signal(libc::SIGTERM);
        let _ = tokio::time::timeout(second, watched.ended()).await;
    }
}

/// What stands for the words in braces; but for `agent`, `address` and `nodes` each is a word for a shell.
struct Placeholders {
    agent: String,
    program: String,
    invitation: String,
    address: String,
    nodes: Option<u32>,
    directory: String,
}

impl Placeholders {
    /// The command line. Other words in braces stay as they are.
    fn fill(&self, line: &str) -> Result<String, String> {
        if !line.contains("{agent}") && !line.contains("{program}") {
            return Err(format!(
                "the launch template `{line}` starts no agent: expected {{agent}}, or {{program}} agent --join {{invitation}}, in it"
            ));
        }
        let nodes = match self.nodes {
            Some(nodes) => nodes.to_string(),
            None if line.contains("{nodes}") => {
                return Err(
                    "the launch template has {nodes} in it: say how many (--nodes N)".into()
                );
            }
            None => String::new(),
        };
        let placeholders = [
            ("{agent}", &self.agent),
            ("{program}", &self.program),
            ("{invitation}", &self.invitation),
            ("{address}", &self.address),
            ("{nodes}", &nodes),
            ("{directory}", &self.directory),
        ];
        // In one pass: what is put in is not looked at again.
        let mut filled = String::new();
        let mut rest = line;
        while let Some(at) = rest.find('{') {
            filled.push_str(&rest[..at]);
            rest = &rest[at..];
            let (text, length) = placeholders
                .iter()
                .find(|(place, _)| rest.starts_with(place))
                .map_or(("{", 1), |(place, text)| (text.as_str(), place.len()));
            filled.push_str(text);
            rest = &rest[length..];
        }
        filled.push_str(rest);
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placeholders(nodes: Option<u32>) -> Placeholders {
        Placeholders {
            agent: "'/a b/rakudad' agent --join '/run/{nodes}'".into(),
            program: "'/a b/rakudad'".into(),
            invitation: "'/run/x'".into(),
            address: "10.0.0.1:1".into(),
            nodes,
            directory: "'/run'".into(),
        }
    }

    #[test]
    fn words_in_braces_are_replaced_once_and_others_left() {
        let line = "x -n {nodes} awk '{print $1}' {directory} {agent} {";
        let expected =
            "x -n 4 awk '{print $1}' '/run' '/a b/rakudad' agent --join '/run/{nodes}' {";
        assert_eq!(placeholders(Some(4)).fill(line).as_deref(), Ok(expected));
    }

    #[test]
    fn a_template_that_cannot_work_is_told() {
        let error = placeholders(None).fill("pbsdsh rakudad").unwrap_err();
        assert!(error.contains("expected {agent}"), "{error}");
        let error = placeholders(None).fill("mpirun -n {nodes} {agent}").unwrap_err();
        assert!(error.contains("--nodes N"), "{error}");
    }
}
