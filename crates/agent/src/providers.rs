//! External providers as they are described: in a file of their own, in a host file, and over a link.
//!
//! A file is TOML, a table `[[provider]]` for each. It starts none and knows nothing of what they print.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rakuda_proto::cluster::ProviderProgram;
use serde::Deserialize;

/// Minimum period, and minimum time limit, s.
const SECONDS_MIN: f64 = 0.1;
/// Maximum period, and maximum time limit, s.
const SECONDS_MAX: f64 = 86_400.0;
/// Maximum number of providers.
const PROVIDERS_MAX: usize = 128;
/// What sets values beside the providers that sample.
const OTHERS: [&str; 2] = ["user", rakuda_info::of_run::PROVIDER];

/// What is wrong with the file.
#[derive(Debug, thiserror::Error)]
pub enum ProvidersFileError {
    /// The system refuses.
    #[error("read the file of providers {}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What it says.
        source: std::io::Error,
    },
    /// It is no TOML, or something else than providers.
    #[error("understand the file of providers {}: {what}", path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// Where, and what was expected.
        what: String,
    },
}

/// A program that provides values.
#[derive(Debug, Clone, PartialEq)]
pub struct ExternalProvider {
    /// Its own.
    pub name: String,
    /// Its words.
    pub command: Vec<String>,
    /// From the beginning of a run to that of the next; for a long-lived one, before it is started again.
    pub period: Duration,
    /// Of a run. `None`: it is long-lived.
    pub limit: Option<Duration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Providers {
    #[serde(default)]
    provider: Vec<ProviderEntry>,
}

/// A table `[[provider]]`, not looked at yet.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderEntry {
    name: String,
    command: Vec<String>,
    period: Option<f64>,
    limit: Option<f64>,
    #[serde(default)]
    long_lived: bool,
}

impl ExternalProvider {
    /// Whether it reports by itself, and so cannot be asked.
    pub fn is_long_lived(&self) -> bool {
        self.limit.is_none()
    }

    /// All of a file.
    pub fn read(path: &Path) -> Result<Vec<Self>, ProvidersFileError> {
        let text = std::fs::read_to_string(path);
        let text =
            text.map_err(|source| ProvidersFileError::File { path: path.to_owned(), source })?;
        parse(&text).map_err(|what| ProvidersFileError::Content { path: path.to_owned(), what })
    }
}

fn parse(text: &str) -> Result<Vec<ExternalProvider>, String> {
    let file: Providers =
        toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
    understood(file.provider).map_err(|(_, what)| what)
}

/// All of a file. `Err`: the place of the one that is wrong, and what is wrong with it.
pub fn understood(entries: Vec<ProviderEntry>) -> Result<Vec<ExternalProvider>, (usize, String)> {
    if entries.len() > PROVIDERS_MAX {
        let what = format!("it names {} providers, at most {PROVIDERS_MAX} may be", entries.len());
        return Err((PROVIDERS_MAX, what));
    }
    let mut all: Vec<ExternalProvider> = Vec::new();
    for (place, entry) in entries.into_iter().enumerate() {
        let name = entry.name.clone();
        let is_new = all.iter().all(|known| known.name != name);
        let provider = entry.provider(is_new);
        all.push(provider.map_err(|what| (place, format!("provider {name:?}: {what}")))?);
    }
    Ok(all)
}

/// Whether a provider that is not built in may have this name. `Err`: why not.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    if !rakuda_info::registry::is_name(name) || name.contains('(') {
        return Err("expected a name of a-z, then a-z, 0-9 and _");
    }
    let built_in = rakuda_info::catalogue::BUILT_IN;
    if built_in.iter().any(|it| it.provider == name) || OTHERS.contains(&name) {
        return Err("a built-in provider has this name");
    }
    Ok(())
}

impl ProviderEntry {
    fn provider(self, is_new: bool) -> Result<ExternalProvider, &'static str> {
        let Self { name, command, period, limit, long_lived } = self;
        check_name(&name)?;
        if !is_new {
            return Err("its name stands there twice");
        }
        if command.first().is_none_or(String::is_empty) {
            return Err("expected a command: [\"PROGRAM\", \"WORD\", ...]");
        }
        let seconds = |value: Option<f64>, otherwise: f64| {
            let value = value.unwrap_or(otherwise);
            let is_good = (SECONDS_MIN..=SECONDS_MAX).contains(&value);
            is_good.then(|| Duration::from_secs_f64(value))
        };
        let (Some(period), Some(run_limit)) = (seconds(period, 10.0), seconds(limit, 5.0)) else {
            return Err("expected period and limit from 0.1 to 86400 s");
        };
        if long_lived && limit.is_some() {
            return Err("one that is long_lived has no limit");
        }
        Ok(ExternalProvider { name, command, period, limit: (!long_lived).then_some(run_limit) })
    }
}

impl From<&ExternalProvider> for ProviderProgram {
    fn from(provider: &ExternalProvider) -> Self {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            name: provider.name.clone(),
            command: provider.command.clone(),
            period_ms: ms(provider.period),
            limit_ms: provider.limit.map(ms),
        }
    }
}

impl From<ProviderProgram> for ExternalProvider {
    fn from(told: ProviderProgram) -> Self {
        Self {
            name: told.name,
            command: told.command,
            period: Duration::from_millis(told.period_ms),
            limit: told.limit_ms.map(Duration::from_millis),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_have_a_name_a_command_and_times() {
        let text = "[[provider]]\nname = 'queue'\ncommand = ['qstat', '-q']\nperiod = 2.5\n\
                    [[provider]]\nname = 'tail'\ncommand = ['tail', '-f', 'x']\nlong_lived = true\n";
        let providers = parse(text).unwrap();
        assert_eq!(providers[0].period, Duration::from_millis(2500));
        assert_eq!(providers[0].limit, Some(Duration::from_secs(5)));
        assert_eq!(providers[1].limit, None);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let said = |fields: &str| parse(&format!("[[provider]]\n{fields}")).unwrap_err();
        assert!(said("name = 'a'").contains("missing field `command`"), "{}", said("name = 'a'"));
        assert_eq!(
            said("name = 'A b'\ncommand = ['x']"),
            "provider \"A b\": expected a name of a-z, then a-z, 0-9 and _"
        );
        assert_eq!(
            said("name = 'load'\ncommand = ['x']"),
            "provider \"load\": a built-in provider has this name"
        );
        assert_eq!(
            said("name = 'a'\ncommand = []"),
            "provider \"a\": expected a command: [\"PROGRAM\", \"WORD\", ...]"
        );
        assert_eq!(
            said("name = 'a'\ncommand = ['x']\nperiod = 0"),
            "provider \"a\": expected period and limit from 0.1 to 86400 s"
        );
        assert!(said("name = 'a'\ncommand = ['x']\nperoid = 1").contains("unknown field `peroid`"));
        let twice = "name = 'a'\ncommand = ['x']\n[[provider]]\nname = 'a'\ncommand = ['x']";
        assert_eq!(said(twice), "provider \"a\": its name stands there twice");
    }
}
