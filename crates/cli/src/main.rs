//! The engine's binary. It is `rakuda` itself, the guard and the hub of a run, and the agent of another node; as
//! `rakudactl`, or `rakudad ctl`, it talks to people.

mod agent_process;
mod ctl;
mod failure;
mod far_hosts;
mod files_process;
mod guard;
mod hub_process;
mod hub_requests;
mod info_process;
mod leader_process;
mod starter;
mod tidings;
mod version;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: rakudad start COMMAND [ARG...]

The engine of rakuda, which starts it and talks to it; it is not meant to be started by hand.
`start` runs COMMAND, Ruby with the program rakuda, below two small processes that end whatever a
run leaves behind when something of it is killed. When the run begins, one of them starts the hub,
which schedules tasks and starts their commands (rakudad --front-fd FD --guard-fd FD).

       rakudad agent --stdio
       rakudad agent --connect HOST:PORT --credentials FILE
       rakudad agent --join FILE [--name NAME] [--cores N]

The agent of another node: it starts the commands that the hub asks for. The hub starts it there,
and talks to it over its stdin and stdout, or over TCP. FILE has what the hub gave out for that;
`-` is stdin. NAME is what the node is called, else its host name; it has at most N cores.

       rakudad leader --stdio

The leader of a host group: it starts agents on the hosts of its group, and passes on what they and
the hub say to each other. The hub starts it, and talks to it over its stdin and stdout.

       rakudad files --stdio

Reads and writes files of another node for the hub, where nodes share no file system.

       rakudad info [-F FILE|localhost|none] [--listen ADDRESS:PORT] [--token-file FILE]
                    [--period TIME] [--providers FILE] [--file-system FOLDER]... [--name NAME]
                    [--validity [NAME=]TIME]... [--keep-down TIME]
                    [--register URL [--register-token-file FILE]]

The information service: tells the state of this machine, of hosts, and of what services tell that
register with it, over HTTP, until it gets SIGTERM. Its first line says where it listens and which
file has the token that clients must show. `rakudad info --help` says what its options mean.

`rakudad ctl ...`, which is also called `rakudactl`, answers questions about runs.

`rakudad manual` prints the manual page rakudactl(1).

  --version   print version, commit and machine type
  --help      print this text

Exit status: 0 good, 1 the run, the agent or the leader was cut off, 2 usage.
";

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    if Path::new(&name).file_name().is_some_and(|name| name == "rakudactl") {
        return ctl::run(std::iter::once(name).chain(words));
    }
    let mut words = words.peekable();
    if words.peek().is_some_and(|word| word == "ctl") {
        return ctl::run(words);
    }
    if words.next_if(|word| word == "start").is_some() {
        return start(&words.collect::<Vec<_>>());
    }
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [hub_process::FRONT, front, hub_process::GUARD, guard] => {
            match (front.parse(), guard.parse()) {
                (Ok(front), Ok(guard)) => with_hub(hub_process::run(front, guard)),
                _ => usage_error(),
            }
        }
        ["leader", "--stdio"] => match leader_process::run() {
            Ok(status) => ExitCode::from(status),
            Err(error) => {
                complain(&format!("rakudad leader: {}\n", failure::sentence(&error)));
                ExitCode::FAILURE
            }
        },
        ["agent", words @ ..] => with_agent(agent_process::guard(words)),
        [agent_process::FLAG, guard, words @ ..] => match guard.parse() {
            Ok(guard) => with_agent(agent_process::run(guard, words)),
            Err(_) => usage_error(),
        },
        ["files", words @ ..] => with_agent(files_process::run(words)),
        ["info", words @ ..] if words.iter().any(|word| matches!(*word, "--help" | "-h")) => {
            print(info_process::USAGE)
        }
        ["info", words @ ..] => with_info(info_process::run(words)),
        [rakuda_locate::WORD] => ExitCode::from(rakuda_locate::serve()),
        ["--version"] => print(&format!("rakudad {}\n", version::long())),
        ["manual"] => ctl::manual(),
        ["--help" | "-h"] => print(USAGE),
        _ => usage_error(),
    }
}

fn with_hub(result: anyhow::Result<i32>) -> ExitCode {
    match result {
        Ok(status) => ExitCode::from(u8::try_from(status).unwrap_or(1)),
        Err(error) => {
            complain(&format!("rakudad: {}\n", failure::sentence(&error)));
            ExitCode::FAILURE
        }
    }
}

fn start(words: &[OsString]) -> ExitCode {
    match starter::run(words) {
        Ok(status) => status,
        Err(error) => {
            complain(&format!("rakuda: {}\n", failure::sentence(&error)));
            ExitCode::FAILURE
        }
    }
}

/// `None`: the words are wrong.
fn with_agent(result: anyhow::Result<Option<u8>>) -> ExitCode {
    match result {
        Ok(Some(status)) => ExitCode::from(status),
        Ok(None) => usage_error(),
        Err(error) => {
            complain(&format!("rakudad agent: {}\n", failure::sentence(&error)));
            ExitCode::FAILURE
        }
    }
}

fn with_info(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if let Some(wrong) = error.downcast_ref::<info_process::WordError>() {
                complain(&format!(
                    "rakudad info: {wrong}; `rakudad info --help` lists the options\n"
                ));
                return ExitCode::from(2);
            }
            complain(&format!("rakudad info: {}\n", failure::sentence(&error)));
            ExitCode::FAILURE
        }
    }
}

fn usage_error() -> ExitCode {
    complain(USAGE);
    ExitCode::from(2)
}

fn print(text: &str) -> ExitCode {
    let _ = std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes());
    ExitCode::SUCCESS
}

fn complain(text: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
}
