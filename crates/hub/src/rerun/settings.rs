//! What is compared with earlier runs, as the user has chosen.

use std::collections::BTreeMap;

use rakuda_proto::Text;
use rakuda_proto::front::{RerunOn, Settings};

use crate::rerun::contents::short_hex;

/// What is compared.
#[derive(Debug, Clone, Default)]
pub struct RerunSettings {
    /// As they were given.
    pub chosen: Vec<RerunOn>,
    pub command: bool,
    pub inputs: bool,
    pub content: bool,
    pub env: bool,
    /// Maximum bytes of a file whose content is compared; for larger ones size and time decide.
    pub content_bytes_max: u64,
    /// The chosen environment: name and digest of the value; an empty digest: it is not set.
    pub environment: BTreeMap<String, String>,
}

impl RerunSettings {
    pub fn new(settings: &Settings) -> Self {
        let on = |word| settings.rerun_on.contains(&word);
        let digest = |value: &Option<Text>| {
            value.as_ref().map_or(String::new(), |value| short_hex(&blake3::hash(&value.0)))
        };
        let environment = settings.rerun_environment.iter();
        let environment = environment.map(|(name, value)| (name.clone(), digest(value)));
        Self {
            chosen: settings.rerun_on.clone(),
            command: on(RerunOn::Command),
            inputs: on(RerunOn::Inputs),
            content: on(RerunOn::Content),
            env: on(RerunOn::Env),
            content_bytes_max: settings.content_bytes_max,
            environment: if on(RerunOn::Env) { environment.collect() } else { BTreeMap::new() },
        }
    }

    /// The chosen reasons in the user's words.
    pub fn words(&self) -> Vec<&'static str> {
        self.chosen.iter().map(|reason| reason.word()).collect()
    }

    pub fn is_on(&self) -> bool {
        !self.chosen.is_empty()
    }
}
