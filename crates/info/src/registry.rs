//! Which attributes there are, by number and by name. A number stays that of its name; kind and unit may change when
//! no node has a value (`Table` knows).
//!
//! It knows the built-in ones (`catalogue`), and takes others from any provider.

use std::collections::BTreeMap;

use crate::catalogue;
use crate::value::Kind;
use crate::words;

/// Maximum number of attributes.
pub const ATTRIBUTES_MAX: usize = 4096;
/// Maximum length of an attribute's or a node's name, bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Maximum length of a unit, bytes.
pub const UNIT_BYTES_MAX: usize = 15;

/// The number of an attribute within its registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttributeId(pub u16);

impl AttributeId {
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// By how much a number must move to be worth telling: `max(absolute, relative × |last|)`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Threshold {
    /// In the attribute's unit; not negative.
    pub absolute: f64,
    /// Share of the last value; not negative.
    pub relative: f64,
}

impl Threshold {
    /// Whether `now` is worth telling to a receiver that knows `last`.
    pub fn is_passed(self, last: f64, now: f64) -> bool {
        let step = self.absolute.max(self.relative * last.abs());
        (now - last).abs() > step
    }
}

/// An attribute.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    /// `mem_total`, or `fs_free('/scratch')` of a family.
    pub name: String,
    /// `B`, `%`, ...; may be empty.
    pub unit: String,
    /// The kind of its values.
    pub kind: Kind,
    /// By how much a value must move to be worth telling.
    pub threshold: Threshold,
    /// The provider that sets it.
    pub provider: String,
}

/// Why an attribute cannot be defined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Its name is not one of an attribute.
    #[error(
        "{0:?} is no name of an attribute; expected a-z, then a-z, 0-9 and _, at most 255 bytes"
    )]
    Name(String),
    /// Its unit is too long, or has control characters.
    #[error("the unit {0:?} has more than 15 bytes, or characters that are not printed")]
    Unit(String),
    /// It exists and is different.
    #[error("{name} was {was}, is {is}")]
    Changed {
        /// Its name.
        name: String,
        /// The kind and unit that it has.
        was: String,
        /// The kind and unit that were to be.
        is: String,
    },
    /// It is set by another provider.
    #[error("{name} is set by the provider {owner}")]
    Owned {
        /// Its name.
        name: String,
        /// The provider.
        owner: String,
    },
    /// Its name means something in expressions already.
    #[error("{0} is a word of expressions: give it another name")]
    Reserved(String),
    /// There are too many attributes.
    #[error("there are {ATTRIBUTES_MAX} attributes already")]
    TooMany,
}

/// All attributes of a table.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    attributes: Vec<Attribute>,
    by_name: BTreeMap<String, AttributeId>,
    /// Number of attributes that have become something else.
    changed: u64,
}

impl Registry {
    /// Makes a registry with the built-in attributes that are no families.
    pub fn new() -> Self {
        let mut registry = Self::default();
        for built_in in catalogue::BUILT_IN.iter().filter(|built_in| !built_in.is_family) {
            registry
                .define(built_in.attribute(built_in.name.to_owned()))
                .expect("the catalogue has each name once");
        }
        registry
    }

    /// Defines an attribute, which may exist already. Returns its number.
    pub fn define(&mut self, attribute: Attribute) -> Result<AttributeId, Refusal> {
        if let Some(&id) = self.by_name.get(&attribute.name) {
            let known = self.get(id);
            if known.provider != attribute.provider {
                let owner = known.provider.clone();
                return Err(Refusal::Owned { name: attribute.name, owner });
            }
            if known.kind != attribute.kind || known.unit != attribute.unit {
                let (was, is) = (described(known), described(&attribute));
                return Err(Refusal::Changed { name: attribute.name, was, is });
            }
            return Ok(id);
        }
        if !is_name(&attribute.name) {
            return Err(Refusal::Name(attribute.name));
        }
        if !is_unit(&attribute.unit) {
            return Err(Refusal::Unit(attribute.unit));
        }
        if let Some(owner) = owner(&attribute.name)
            && owner != attribute.provider
        {
            return Err(Refusal::Owned { name: attribute.name, owner });
        }
        if words::is_reserved(&attribute.name) {
            return Err(Refusal::Reserved(attribute.name));
        }
        if self.attributes.len() == ATTRIBUTES_MAX {
            return Err(Refusal::TooMany);
        }
        let id = AttributeId(self.attributes.len() as u16);
        self.by_name.insert(attribute.name.clone(), id);
        self.attributes.push(attribute);
        Ok(id)
    }

    /// Gives an attribute this kind and unit from now on.
    pub(crate) fn exchange(&mut self, id: AttributeId, attribute: Attribute) {
        let known = &mut self.attributes[id.index()];
        known.kind = attribute.kind;
        known.unit = attribute.unit;
        known.threshold = attribute.threshold;
        self.changed += 1;
    }

    /// Number of attributes that have become something else. An expression that was understood with another number of
    /// them may mean nothing now.
    pub fn changed(&self) -> u64 {
        self.changed
    }

    /// An attribute.
    pub fn get(&self, id: AttributeId) -> &Attribute {
        &self.attributes[id.index()]
    }

    /// The number of the attribute of this name.
    pub fn find(&self, name: &str) -> Option<AttributeId> {
        self.by_name.get(name).copied()
    }

    /// Numbers in the order of names.
    pub(crate) fn by_name(&self) -> impl Iterator<Item = AttributeId> {
        self.by_name.values().copied()
    }

    /// All attributes, by number.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (AttributeId, &Attribute)> {
        self.attributes.iter().enumerate().map(|(index, it)| (AttributeId(index as u16), it))
    }

    /// Number of attributes.
    pub fn len(&self) -> usize {
        self.attributes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.attributes.is_empty()
    }
}

/// The only provider that may set a name, also before it has: instances of built-in families, what runs say of their
/// nodes, and what is wrong with a provider. `None`: any may.
fn owner(name: &str) -> Option<String> {
    if catalogue::is_fault(name) {
        return split_instance(name).map(|(_, provider)| provider);
    }
    if let Some(built_in) = catalogue::of(name) {
        return Some(built_in.provider.to_owned());
    }
    words::OF_RUN.contains(&name).then(|| words::RUN.to_owned())
}

pub(crate) fn described(attribute: &Attribute) -> String {
    if attribute.unit.is_empty() {
        return attribute.kind.to_string();
    }
    format!("{} in {}", attribute.kind, attribute.unit)
}

/// Whether a name is that of an attribute: a word, or a word with an instance in `('...')`.
pub fn is_name(name: &str) -> bool {
    if name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        return false;
    }
    match name.split_once('(') {
        None => is_word(name),
        Some((family, _)) => is_word(family) && split_instance(name).is_some(),
    }
}

pub(crate) fn is_word(word: &str) -> bool {
    let mut bytes = word.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_lowercase())
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

pub(crate) fn is_unit(unit: &str) -> bool {
    unit.len() <= UNIT_BYTES_MAX && !unit.chars().any(|c| c.is_control() || c.is_whitespace())
}

/// `fs_free` and `/scratch` to `fs_free('/scratch')`.
pub fn instance_name(family: &str, instance: &str) -> String {
    let mut name = format!("{family}('");
    for c in instance.chars() {
        if c == '\'' || c == '\\' {
            name.push('\\');
        }
        name.push(c);
    }
    name.push_str("')");
    name
}

/// The reverse. `None` if it has no instance.
pub fn split_instance(name: &str) -> Option<(&str, String)> {
    let (family, rest) = name.split_once("('")?;
    let quoted = rest.strip_suffix("')")?;
    let mut instance = String::with_capacity(quoted.len());
    let mut chars = quoted.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => instance.push(chars.next()?),
            '\'' => return None,
            c => instance.push(c),
        }
    }
    Some((family, instance))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(name: &str, unit: &str, kind: Kind, provider: &str) -> Attribute {
        let threshold = Threshold::default();
        let (name, unit, provider) = (name.to_owned(), unit.to_owned(), provider.to_owned());
        Attribute { name, unit, kind, threshold, provider }
    }

    #[test]
    fn an_attribute_keeps_its_kind_unit_and_provider() {
        let mut registry = Registry::new();
        let id = registry.define(attribute("queue", "1/s", Kind::Number, "probe")).unwrap();
        assert_eq!(registry.define(attribute("queue", "1/s", Kind::Number, "probe")), Ok(id));
        let refused =
            |registry: &mut Registry, other| registry.define(other).unwrap_err().to_string();
        let text = attribute("queue", "", Kind::Text, "probe");
        assert_eq!(refused(&mut registry, text), "queue was a number in 1/s, is a text");
        let other = attribute("queue", "1/s", Kind::Number, "other");
        assert_eq!(refused(&mut registry, other), "queue is set by the provider probe");
        let built_in = attribute("load1", "", Kind::Number, "probe");
        assert_eq!(refused(&mut registry, built_in), "load1 is set by the provider load");
    }

    #[test]
    fn what_has_a_meaning_already_is_no_strangers() {
        let mut registry = Registry::new();
        let mut refused = |name: &str, provider: &str| {
            let number = attribute(name, "", Kind::Number, provider);
            registry.define(number).map_err(|refusal| refusal.to_string()).err()
        };
        for (name, owner) in [
            ("fs_free('/data')", "file_systems"),
            ("gpu_name", "gpus"),
            ("load1('x')", "load"),
            ("run_done", "run"),
            ("run_cores", "run"),
            ("provider_error('probe')", "probe"),
        ] {
            let why = format!("{name} is set by the provider {owner}");
            assert_eq!(refused(name, "user"), Some(why));
            assert_eq!(refused(name, owner), None, "{name}");
        }
        for word in ["state", "node", "run", "true", "min", "provider_error"] {
            let why = format!("{word} is a word of expressions: give it another name");
            assert_eq!(refused(word, "user"), Some(why));
        }
        assert_eq!(refused("run_by", "user"), None);
    }

    #[test]
    fn names_that_could_not_be_written_in_an_expression_are_refused() {
        for good in ["a", "gpu_util", "fs_free('/scratch')", "x('it\\'s')"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "A", "1a", "a-b", "a b", "a(", "a()", "a('b'c')", "('x')", "a('\n')"] {
            assert!(!is_name(bad), "{bad}");
        }
        assert!(!is_name(&"a".repeat(256)));
    }

    #[test]
    fn an_instance_with_quotes_comes_back() {
        for instance in ["/", "/my data", "it's", "a\\b", "\\'", "('x')"] {
            let name = instance_name("fs_free", instance);
            assert_eq!(split_instance(&name), Some(("fs_free", instance.to_owned())), "{name}");
        }
    }
}
