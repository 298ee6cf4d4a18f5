//! How old values may be, by the provider that samples them: what a question asks for, and what a service keeps to by
//! itself (`--validity`).

use std::collections::BTreeMap;

use rakuda_info::catalogue;
use rakuda_info::registry::{AttributeId, Registry, is_name, split_instance};
use serde::{Deserialize, Serialize};

/// The maximum age of values, by provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freshness {
    /// Of these providers, or attributes until [`Freshness::resolved`], ns. `None`: any age will do.
    of: BTreeMap<String, Option<u64>>,
    /// Of all others.
    others: Option<u64>,
}

impl Freshness {
    /// Of all providers, ns.
    pub fn of_all(age_ns: u64) -> Self {
        Self { of: BTreeMap::new(), others: Some(age_ns) }
    }

    /// Adds `TIME`, `PROVIDER=TIME`, or `ATTRIBUTE=TIME`; a name that both have is the provider's.
    pub fn add(&mut self, word: &str) -> Result<(), String> {
        // An instance may have any letters: `fs_free('/a=b')`.
        let (name, time) =
            word.rsplit_once('=').map_or((None, word), |(name, time)| (Some(name), time));
        let age = rakuda_info::duration_ns(time);
        let age =
            age.ok_or("expected a time such as 100ms or 30s, PROVIDER=TIME or ATTRIBUTE=TIME")?;
        match name {
            None => self.others = Some(age),
            Some(name) if is_name(name) => {
                self.of.insert(name.to_owned(), Some(age));
            }
            Some(name) => {
                return Err(format!("{name:?} is no name of a provider or an attribute"));
            }
        }
        Ok(())
    }

    /// With providers in the place of attributes: each is to be as fresh as the attribute of it that is needed and has
    /// the shortest age. That is the attribute's own, else its family's, else the provider's, else that of all others;
    /// so an attribute's may be longer than its provider's, too. `needed` of `None`: all are needed.
    #[must_use]
    pub fn resolved(&self, registry: &Registry, needed: Option<&[AttributeId]>) -> Self {
        let is_provider = |name: &str| registry.iter().any(|(_, it)| it.provider == name);
        let of_attribute = |name: &str| {
            let family = split_instance(name).map(|(family, _)| family);
            let mut names = std::iter::once(name).chain(family);
            names.find_map(|name| self.of.get(name).filter(|_| !is_provider(name)))
        };
        let mut by_provider: BTreeMap<&str, Option<u64>> = BTreeMap::new();
        let wanted =
            registry.iter().filter(|(id, _)| needed.is_none_or(|needed| needed.contains(id)));
        for (_, it) in wanted {
            let age = of_attribute(&it.name).copied().unwrap_or_else(|| self.of(&it.provider));
            let shortest = by_provider.entry(&it.provider).or_insert(age);
            *shortest = least(*shortest, age);
        }
        let mut resolved = self.clone();
        resolved.of.retain(|name, _| is_provider(name));
        for (provider, age) in by_provider {
            if age != resolved.of(provider) {
                resolved.of.insert(provider.to_owned(), age);
            }
        }
        resolved
    }

    /// Providers and attributes that it names and nothing is called so, neither what is built in nor what these tables
    /// have come to know.
    pub fn unknown(&self, registry: &Registry, providers: &[String]) -> Vec<String> {
        let is_attribute = |name: &str| {
            let family = split_instance(name).map_or(name, |(family, _)| family);
            registry.find(name).is_some() || catalogue::find(family).is_some()
        };
        let is_provider = |name: &String| {
            providers.contains(name)
                || catalogue::BUILT_IN.iter().any(|it| it.provider == *name)
                || registry.iter().any(|(_, it)| it.provider == *name)
        };
        let is_unknown = |name: &&String| !is_attribute(name) && !is_provider(name);
        self.of.keys().filter(is_unknown).cloned().collect()
    }

    /// Maximum age of a provider's values, ns. `None`: any age will do.
    pub fn of(&self, provider: &str) -> Option<u64> {
        self.of.get(provider).copied().unwrap_or(self.others)
    }

    /// Whether any age of any provider will do.
    pub fn is_any(&self) -> bool {
        self.others.is_none() && self.of.values().all(Option::is_none)
    }

    /// The same for these providers, and any age for others. `None`: the same for all.
    #[must_use]
    pub fn only(&self, providers: Option<&[String]>) -> Self {
        let Some(providers) = providers else { return self.clone() };
        let of = providers.iter().map(|name| (name.clone(), self.of(name))).collect();
        Self { of, others: None }
    }

    /// What is fresh enough for both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let names = self.of.keys().chain(other.of.keys());
        let of = names.map(|name| (name.clone(), least(self.of(name), other.of(name)))).collect();
        Self { of, others: least(self.others, other.others) }
    }
}

/// `None`: any age will do.
fn least(one: Option<u64>, two: Option<u64>) -> Option<u64> {
    one.into_iter().chain(two).min()
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
    fn an_attribute_that_is_needed_makes_its_provider_as_fresh() {
        let mut registry = Registry::new();
        let disk =
            rakuda_info::catalogue::find("fs_free").unwrap().attribute("fs_free('/')".into());
        let disk = registry.define(disk).unwrap();
        let freshness = made(&["load1=100ms", "load5=50ms", "fs_free=1s", "users=3s", "2s"]);
        let id = |name: &str| registry.find(name).unwrap();
        let of = |needed: Option<&[AttributeId]>, name: &str| {
            freshness.resolved(&registry, needed).of(name).map(|ns| ns / 1_000_000)
        };
        assert_eq!(of(None, "load"), Some(50));
        assert_eq!(of(Some(&[id("load1")]), "load"), Some(100));
        assert_eq!(of(Some(&[id("runnable")]), "load"), Some(2000), "as all others");
        assert_eq!(of(Some(&[disk]), "file_systems"), Some(1000), "all of a family");
        assert_eq!(of(Some(&[]), "users"), Some(3000), "it is the provider of that name");
        let words = made(&["load1=100ms"]);
        assert_eq!(words.resolved(&registry, Some(&[id("load5")])).of("load"), None);
    }

    #[test]
    fn an_attribute_may_do_with_older_values_than_the_rest_of_its_provider() {
        let registry = Registry::new();
        let id = |name: &str| registry.find(name).unwrap();
        let of = |words: &[&str], needed: Option<&[AttributeId]>| {
            made(words).resolved(&registry, needed).of("load").map(|ns| ns / 1_000_000)
        };
        let words = ["load1=10s", "load=1s", "2s"];
        assert_eq!(of(&words, Some(&[id("load1")])), Some(10_000));
        assert_eq!(of(&words, Some(&[id("load1"), id("load5")])), Some(1000));
        assert_eq!(of(&words, None), Some(1000));
        assert_eq!(of(&["load1=10s", "2s"], Some(&[id("load1")])), Some(10_000));
        assert_eq!(of(&["load1=10s", "2s"], Some(&[])), Some(2000));
    }

    #[test]
    fn an_instance_may_have_any_letters_and_comes_before_its_family() {
        let mut registry = Registry::new();
        let mut define = |name: &str| {
            let disk = rakuda_info::catalogue::find("fs_free").unwrap().attribute(name.into());
            registry.define(disk).unwrap()
        };
        let (odd, even) = (define("fs_free('/a=b')"), define("fs_free('/')"));
        let freshness = made(&["fs_free('/a=b')=10s", "fs_free=1s"]);
        let of = |id| freshness.resolved(&registry, Some(&[id])).of("file_systems");
        assert_eq!((of(odd), of(even)), (Some(10_000_000_000), Some(1_000_000_000)));
        assert!(Freshness::default().add("F_S('/')=1s").unwrap_err().contains("is no name"));
    }

    #[test]
    fn names_that_nothing_has_are_found() {
        let mut registry = Registry::new();
        let words =
            ["nonsense=1s", "load=1s", "load1=1s", "fs_free=1s", "fs_free('/a')=1s", "q=1s"];
        let freshness =
            made(&[&words[..], &["lod1=1s", "users=1s", "file_systems=2s", "3s"]].concat());
        let providers = ["q".to_owned()];
        assert_eq!(freshness.unknown(&registry, &providers), ["lod1", "nonsense"]);
        let threshold = rakuda_info::registry::Threshold::default();
        let [name, unit, provider] = ["nonsense", "", "user"].map(str::to_owned);
        let kind = rakuda_info::value::Kind::Number;
        let own = rakuda_info::registry::Attribute { name, unit, kind, threshold, provider };
        registry.define(own).unwrap();
        assert_eq!(freshness.unknown(&registry, &providers), ["lod1"]);
    }

    #[test]
    fn two_that_ask_are_both_content() {
        let both = made(&["load=2s"]).and(&made(&["1s", "load=3s"]));
        assert_eq!(both, made(&["1s", "load=2s"]));
        let text = serde_json::to_string(&both).unwrap();
        assert_eq!(serde_json::from_str::<Freshness>(&text).unwrap(), both);
    }
}
