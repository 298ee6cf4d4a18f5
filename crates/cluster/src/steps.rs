//! Starts agents on nodes of a Slurm allocation: one `srun` for many nodes, or for one whose agent
//! is to be started again.
//!
//! The invitation comes over srun's stdin, which it gives to every task. The program is used where it lies, when that
//! is the same file on the node; else the user's cache folder is looked into, and a node that has it in neither place
//! says so and gets it from a `srun` of its own, before the invitation. It knows nothing of links.

use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio::sync::mpsc::UnboundedSender;

use crate::program::{Programs, RECEIVE};
use crate::ssh::{mark, token};
use crate::tool::{self, quoted};
use crate::watched::{Piece, Started, read_piece};

/// Time between two looks at what srun has said.
const LOOK: Duration = Duration::from_millis(200);
/// Maximum looks (60 s) until an agent comes. One that has not come by then does not come.
const LOOKS_MAX: u32 = 300;
/// Maximum bytes of a line that a task may print before its agent runs.
const LINE_BYTES_MAX: usize = 4096;
/// Of the user's own job steps; what they ask for must not count for ours.
const NOT_OURS: [&str; 8] = [
    "SLURM_CPUS_PER_TASK",
    "SLURM_NTASKS",
    "SLURM_NPROCS",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_NTASKS_PER_CORE",
    "SLURM_TRES_PER_TASK",
    "SLURM_DISTRIBUTION",
    "SLURM_THREADS_PER_CORE",
];
/// What srun says and is no reason for anything.
const NO_REASON: &str = "srun: cluster configuration lacks support for cpu binding";

/// What comes of a step.
#[derive(Debug)]
pub(crate) enum StepEvent {
    /// A node has not got the program for its machine type.
    Wanted { node: String, machine: String },
    /// A line of srun.
    Said(String),
    /// The agents of a step that are not there do not come any more; in srun's words. It may still run.
    Late(u32, String),
    /// srun has ended; its words.
    Ended(u32, String),
}

/// Which agents are started, and how.
pub(crate) struct Step {
    /// Ours.
    pub number: u32,
    /// Of the job.
    pub job: String,
    /// The nodes, as Slurm writes lists; and how many.
    pub nodes: (String, usize),
    /// The program for this machine type comes along.
    pub ships: Option<String>,
    /// What agents are given, with its line end.
    pub invitation: Rc<str>,
    pub programs: Rc<Programs>,
}

/// Starts the agents, and reports until srun has ended.
pub(crate) async fn run(step: Step, events: UnboundedSender<StepEvent>) {
    let number = step.number;
    let token = token();
    let Started { stdin, stdout, watched, .. } = match tool::start(&words(&step, &token)) {
        Ok(started) => started,
        Err(why) => return drop(events.send(StepEvent::Ended(number, why))),
    };
    tokio::task::spawn_local(hand_over(stdin, step));
    tokio::task::spawn_local(listen(stdout, token, events.clone()));
    let told = || {
        let words = watched.words();
        let lines = words.split("; ").filter(|line| *line != NO_REASON);
        lines.collect::<Vec<_>>().join("; ")
    };
    let (mut looks, mut before) = (0, String::new());
    let status = loop {
        let ended = tokio::time::timeout(LOOK, watched.ended()).await;
        let words = watched.words();
        if words != before {
            let known: Vec<&str> = before.split("; ").collect();
            for line in words.split("; ").filter(|line| !known.contains(line)) {
                let _ = events.send(StepEvent::Said(line.to_owned()));
            }
            before = words;
        }
        if let Ok(status) = ended {
            break status;
        }
        looks += 1;
        if looks == LOOKS_MAX {
            let _ = events.send(StepEvent::Late(number, told()));
        }
    };
    let why = match told() {
        words if words.is_empty() => format!("srun {}", tool::ending(status)),
        words => words,
    };
    let _ = events.send(StepEvent::Ended(number, why));
}

/// srun with all its words.
fn words(step: &Step, token: &str) -> Vec<String> {
    let mut words = vec!["env".to_owned()];
    words.extend(NOT_OURS.iter().flat_map(|name| ["-u".to_owned(), (*name).to_owned()]));
    let (list, count) = &step.nodes;
    words.extend([
        "srun".to_owned(),
        format!("--jobid={}", step.job),
        format!("--nodelist={list}"),
        format!("--nodes={count}"),
        format!("--ntasks={count}"),
        "--ntasks-per-node=1".to_owned(),
        // Beside whatever else runs in the allocation, with all of its cores.
        "--overlap".to_owned(),
        "--cpu-bind=none".to_owned(),
        "--mpi=none".to_owned(),
        "--input=all".to_owned(),
        "--chdir=/".to_owned(),
        // Of one agent's end, or one node's, the others know nothing.
        "--no-kill".to_owned(),
        "--kill-on-bad-exit=0".to_owned(),
        "--wait=0".to_owned(),
        "/bin/sh".to_owned(),
        "-c".to_owned(),
        script(step, token),
    ]);
    words
}

/// What runs on each node, until it becomes the agent.
fn script(step: &Step, token: &str) -> String {
    let agent = "agent --join - --name \"$SLURMD_NODENAME\" --cores \"$SLURM_CPUS_ON_NODE\"";
    // Where each lies on this machine is where it may lie there.
    let choice =
        step.programs.choice(|program| format!(" p={}", quoted(&program.path.to_string_lossy())));
    let folder = "d=\"${XDG_CACHE_HOME:-$HOME/.cache}/rakuda/bin/$n\"";
    if step.ships.is_some() {
        let lines = [
            &choice,
            "u=$(umask)",
            "umask 077",
            folder,
            &format!("p=\"$d/rakudad\" t=\"$d/.{token}.$SLURMD_NODENAME\""),
            // The invitation follows.
            &format!("mkdir -p \"$d\" && {RECEIVE} || {{ rm -f \"$t\"; exit 1; }}"),
            // Commands make files as the user's login says.
            "umask $u",
            &format!("exec \"$p\" {agent}"),
        ];
        return lines.join("; ");
    }
    let lines = [
        choice,
        folder.to_owned(),
        // Another version there would be refused by the hub.
        "test -x \"$p\" && test $(wc -c < \"$p\") -eq $b || p=\"$d/rakudad\"".to_owned(),
        format!(
            "test -x \"$p\" || {{ echo \"{} want $SLURMD_NODENAME $m\"; exit 0; }}",
            mark(token)
        ),
        format!("exec \"$p\" {agent}"),
    ];
    lines.join("; ")
}

/// A program that does not take it says why on stderr, or ends.
async fn hand_over(mut stdin: pipe::Sender, step: Step) {
    let sent = async {
        if let Some(program) = step.ships.as_deref().and_then(|machine| step.programs.of(machine)) {
            stdin.write_all(&program.bytes).await?;
        }
        stdin.write_all(step.invitation.as_bytes()).await
    };
    let _ = sent.await;
}

async fn listen(stdout: pipe::Receiver, token: String, events: UnboundedSender<StepEvent>) {
    let mark = mark(&token);
    let mut reader = BufReader::with_capacity(LINE_BYTES_MAX, stdout);
    let mut line = Vec::new();
    while let Ok(Piece { bytes, ends_line }) =
        read_piece(&mut reader, &mut line, LINE_BYTES_MAX).await
        && bytes > 0
    {
        if ends_line {
            let text = String::from_utf8_lossy(&line);
            let wanted =
                text.split_once(&mark).and_then(|(_, rest)| rest.trim().strip_prefix("want "));
            if let Some((node, machine)) = wanted.and_then(|words| words.split_once(' ')) {
                let (node, machine) = (node.to_owned(), machine.to_owned());
                let _ = events.send(StepEvent::Wanted { node, machine });
            }
            line.clear();
        }
    }
}
