//! RUN in the other of its two places. A command that takes a run takes it as its last argument and behind `--run`;
//! its own field is the one that its help tells, and what stands here is the other.

use clap::Args;

/// Of a command whose field `run` is the option.
#[derive(Args, Default)]
pub struct RunArgument {
    /// The same as --run
    #[arg(value_name = "RUN", conflicts_with = "run")]
    argument: Option<String>,
}

impl RunArgument {
    /// What was given, there or here.
    pub fn or<'a>(&'a self, run: Option<&'a str>) -> Option<&'a str> {
        self.argument.as_deref().or(run)
    }

    /// Likewise, where the option is never without a value.
    pub fn instead_of<'a>(&'a self, run: &'a str) -> &'a str {
        self.argument.as_deref().unwrap_or(run)
    }
}

/// Of a command whose field `run` is the argument.
#[derive(Args)]
pub struct RunOption {
    /// The same as RUN
    #[arg(long = "run", value_name = "RUN", conflicts_with = "run")]
    option: Option<String>,
}

impl RunOption {
    /// What was given here, else what stands there.
    pub fn instead_of<'a>(&'a self, run: &'a str) -> &'a str {
        self.option.as_deref().unwrap_or(run)
    }
}
