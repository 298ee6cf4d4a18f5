//! `rakudactl bench`: hands its words to the runner of I/O benchmarks, which is written in Ruby
//! (lib/rakuda/bench): this finds it, and becomes it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};
use clap::Args;

use super::base_folder::BaseFolder;
use super::{Status, completion};

/// Where the runner lies, from the folder of a `bin` or `target/release` upwards.
const RUNNER: &str = "libexec/rakuda-bench";

/// Runs I/O benchmarks, compares engines and machines; `rakudactl bench help` lists what there is
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct Bench {
    /// A command of the runner, its options and arguments.
    #[arg(value_name = "WORD", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

impl Bench {
    /// Becomes the runner; comes back only when that cannot be.
    pub fn answer(&self, base: &BaseFolder) -> anyhow::Result<Status> {
        let error = command(base)?.args(&self.words).exec();
        Err(error).context("ruby is needed to run benchmarks; it cannot be started")
    }

    /// Becomes the runner, which prints what may stand at the position among the words after `bench`. Says nothing of
    /// what went wrong.
    pub fn complete(base: &BaseFolder, position: usize, words: &[OsString]) -> ExitCode {
        if let Ok(mut command) = command(base) {
            command.arg(completion::WORD).arg(position.to_string()).args(words);
            let _ = command.exec();
        }
        ExitCode::FAILURE
    }
}

/// The runner, which has no words yet.
fn command(base: &BaseFolder) -> anyhow::Result<Command> {
    #[expect(
        clippy::disallowed_methods,
        reason = "this program ends here; what follows is no command of a run"
    )]
    let mut command = Command::new("ruby");
    command.arg(runner()?).current_dir(base.directory());
    if let Ok(own) = std::env::current_exe() {
        command.env("RAKUDA_ENGINE", own);
    }
    Ok(command)
}

/// `RAKUDA_BENCH`, or the one beside this program.
fn runner() -> anyhow::Result<PathBuf> {
    if let Some(named) = std::env::var_os("RAKUDA_BENCH").filter(|named| !named.is_empty()) {
        return Ok(PathBuf::from(named));
    }
    let own = std::env::current_exe().unwrap_or_default();
    let near = own.ancestors().skip(1).take(4).map(|folder| folder.join(RUNNER));
    match near.into_iter().find(|path| path.is_file()) {
        Some(found) => Ok(found),
        None => bail!("{RUNNER} is not there beside {}: install Rakuda again", own.display()),
    }
}
