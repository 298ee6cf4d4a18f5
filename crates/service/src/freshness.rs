//! How old values may be, by the provider that samples them: what a question asks for, and what a service keeps to by
//! itself (`--validity`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// See the file's head.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freshness {
    /// Of these providers, ns; nothing: any age will do.
    of: BTreeMap<String, Option<u64>>,
    /// Of all others.
    others: Option<u64>,
}

impl Freshness {
    /// Of all providers, ns.
    pub fn of_all(age_ns: u64) -> Self {
        Self { of: BTreeMap::new(), others: Some(age_ns) }
    }

    /// Adds `TIME`, or `PROVIDER=TIME`.
    pub fn add(&mut self, word: &str) -> Result<(), String> {
        let (provider, time) =
            word.split_once('=').map_or((None, word), |(provider, time)| (Some(provider), time));
        let age = rakuda_info::duration_ns(time);
        let age = age.ok_or("expected a time such as 100ms or 30s, or PROVIDER=TIME")?;
        match provider {
            None => self.others = Some(age),
            Some(provider) if rakuda_info::registry::is_name(provider) => {
                self.of.insert(provider.to_owned(), Some(age));
            }
            Some(provider) => return Err(format!("{provider:?} is no name of a provider")),
        }
        Ok(())
    }

    /// Oldest age of a provider's values, ns; nothing: any.
    pub fn of(&self, provider: &str) -> Option<u64> {
        self.of.get(provider).copied().unwrap_or(self.others)
    }

    /// Whether any age of any provider will do.
    pub fn is_any(&self) -> bool {
        self.others.is_none() && self.of.values().all(Option::is_none)
    }

    /// The same of these providers; of others any age will do. `None`: of all.
    #[must_use]
    pub fn only(&self, providers: Option<&[String]>) -> Self {
        let Some(providers) = providers else { return self.clone() };
        let of = providers.iter().map(|name| (name.clone(), self.of(name))).collect();
        Self { of, others: None }
    }

    /// What is fresh enough for both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let least = |one: Option<u64>, two: Option<u64>| one.into_iter().chain(two).min();
        let names = self.of.keys().chain(other.of.keys());
        let of = names.map(|name| (name.clone(), least(self.of(name), other.of(name)))).collect();
        Self { of, others: least(self.others, other.others) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(words: &[&str]) -> Freshness {
        let mut freshness = Freshness::default();
        for word in words {
            freshness.add(word).unwrap();
        }
        freshness
    }

    #[test]
    fn a_time_is_for_all_providers_or_for_one() {
        let freshness = made(&["2s", "load=100ms"]);
        let of = |name: &str| freshness.of(name).map(|ns| ns / 1_000_000);
        assert_eq!((of("load"), of("memory")), (Some(100), Some(2000)));
        assert!(Freshness::default().is_any());
        assert_eq!(Freshness::default().of("load"), None);
        assert!(Freshness::default().add("soon").unwrap_err().starts_with("expected a time"));
        assert!(Freshness::default().add("Load=1s").unwrap_err().contains("is no name"));
    }

    #[test]
    fn a_question_narrows_it_to_what_it_names() {
        let freshness = made(&["2s", "load=100ms"]).only(Some(&["memory".to_owned()]));
        assert_eq!((freshness.of("memory"), freshness.of("load")), (Some(2_000_000_000), None));
        assert_eq!(made(&["2s"]).only(None), made(&["2s"]));
    }

    #[test]
    fn two_that_ask_are_both_content() {
        let both = made(&["load=2s"]).and(&made(&["1s", "load=3s"]));
        assert_eq!(both, made(&["1s", "load=2s"]));
        let text = serde_json::to_string(&both).unwrap();
        assert_eq!(serde_json::from_str::<Freshness>(&text).unwrap(), both);
    }
}
