//! `rakudactl set-attr`: a value that a user gives a node, of an information service or of the runs that go on.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use rakuda_service::ClientError;
use rakuda_service::http::encoded;
use serde_json::{Map, Value, json};

use super::base_folder::BaseFolder;
use super::{Status as Ending, UsageError, live, nodes};

/// Gives a node a value, which an information service or a run that goes on keeps until it ends.
#[derive(Args)]
pub struct SetAttr {
    /// The node, as `rakudactl nodes` names it.
    #[arg(value_name = "NODE")]
    node: String,

    /// NAME=VALUE: a number, or a text; with a unit behind a blank. `NAME=` takes it back.
    #[arg(value_name = "NAME=VALUE", required = true)]
    values: Vec<String>,

    /// The information service at URL (`rakudad info`).
    #[arg(long, value_name = "URL", conflicts_with = "run")]
    service: Option<String>,

    /// The token file of that service.
    #[arg(long, value_name = "FILE", requires = "service")]
    token_file: Option<PathBuf>,

    /// Tell only the run whose name begins with RUN, or the `last` that goes on.
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
}

impl SetAttr {
    /// Sets them, one after the other; one that is refused keeps none of the others back.
    pub fn answer(&self, base: &BaseFolder, _out: &mut dyn Write) -> anyhow::Result<Ending> {
        let split = |value: &String| {
            let pair =
                value.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
            pair.ok_or_else(|| UsageError(format!("{value}: expected NAME=VALUE")))
        };
        let pairs = self.values.iter().map(split).collect::<Result<Vec<_>, _>>()?;
        let Some(service) = &self.service else { return self.tell_runs(base, &pairs) };
        let client = nodes::client(service, self.token_file.as_ref())?;
        let mut refusals = Vec::new();
        for (name, value) in pairs {
            let path = format!("/v1/nodes/{}/attributes/{}", encoded(&self.node), encoded(&name));
            match client.put(&path, value) {
                Err(error @ ClientError::Refused { status: 400, .. }) => {
                    refusals.push(error.to_string());
                }
                set => drop(set?),
            }
        }
        anyhow::ensure!(refusals.is_empty(), "{}", refusals.join("; "));
        Ok(Ending::Good)
    }

    fn tell_runs(&self, base: &BaseFolder, pairs: &[(String, String)]) -> anyhow::Result<Ending> {
        let values: Map<String, Value> =
            pairs.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        let question = json!({"ask": "set", "node": self.node, "values": values});
        let answers = live::ask(base, self.run.as_deref(), &question)?;
        // With several runs, those that have no such node need none.
        match answers.iter().map(|answer| answer["error"].as_str()).collect::<Option<Vec<_>>>() {
            Some(errors) => anyhow::bail!("{}", errors.join("; ")),
            None => Ok(Ending::Good),
        }
    }
}
