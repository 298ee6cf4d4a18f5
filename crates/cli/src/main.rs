//! The engine's binary. As `rakudad` it is the guard and the hub of a run, started by `rakuda`; as
//! `rakudactl` it will talk to people.

mod guard;
mod hub_process;

use std::process::ExitCode;

const USAGE: &str = "usage: rakudad --front-fd FD

The engine of rakuda. `rakuda` starts it and talks to it over the socket FD; it is not meant to
be started by hand. It runs as two processes: the guard (this one), which kills whatever the hub
leaves behind when the hub dies, and the hub, which schedules tasks and starts their commands.

  --version   print the version
  --help      print this text

Exit status: 0 good, 1 the run was cut off, 2 usage.
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--front-fd", descriptor] => with_descriptor(descriptor, guard::run),
        [hub_process::FLAG, descriptor, guard, pipe] => match (guard.parse(), pipe.parse()) {
            (Ok(guard), Ok(pipe)) => {
                with_descriptor(descriptor, |front| hub_process::run(front, guard, pipe))
            }
            _ => usage_error(),
        },
        ["--version"] => print(&format!("rakudad, version {}\n", env!("CARGO_PKG_VERSION"))),
        ["--help" | "-h"] => print(USAGE),
        _ => usage_error(),
    }
}

fn with_descriptor(text: &str, run: impl FnOnce(i32) -> anyhow::Result<u8>) -> ExitCode {
    let Ok(descriptor) = text.parse() else {
        return usage_error();
    };
    match run(descriptor) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            complain(&format!("rakudad: failed to {error:#}\n"));
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
