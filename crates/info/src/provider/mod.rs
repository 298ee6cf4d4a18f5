//! The built-in providers: what this machine says of itself in /proc, /sys and by statvfs.
//!
//! Each reads files below a [`Root`], which is `/` but in tests, and gets the present time from the caller. What cannot
//! be read is undefined, with the reason. They run on whatever thread the caller has for them; `file_systems` can hang,
//! when a server does.

mod cpu;
mod disks;
mod file_systems;
mod host;
mod limits;
mod load;
mod memory;
mod network;
mod pressure;
mod rate;
#[cfg(test)]
mod tests;
mod users;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rakuda_core::Time;

use crate::catalogue;
use crate::registry::{AttributeId, instance_name};
use crate::table::{NodeId, Table};
use crate::value::Value;

pub use file_systems::FileSystems;
pub use rate::FIRST;

/// Why a machine without GPUs of NVIDIA has no values of them: as long as it runs it will not.
pub const NO_GPUS: &str = "no driver of NVIDIA is there";

/// Maximum number of file systems, disks or interfaces of a node.
const INSTANCES_MAX: usize = 64;

/// The folder that stands for `/`.
#[derive(Debug, Clone)]
pub struct Root(PathBuf);

impl Root {
    /// Makes this folder the root.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    pub(crate) fn path(&self, absolute: &str) -> PathBuf {
        self.0.join(absolute.trim_start_matches('/'))
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// The text of a file, or why there is none, for people.
    fn text(&self, absolute: &str) -> Result<String, String> {
        let bytes = std::fs::read(self.path(absolute))
            .map_err(|error| format!("{absolute} cannot be read: {}", plain(&error)))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The first word of a file as a number.
    fn number(&self, absolute: &str) -> Option<f64> {
        self.text(absolute).ok()?.split_whitespace().next()?.parse().ok()
    }

    /// Names in a folder, sorted.
    fn names(&self, absolute: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(absolute)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }
}

fn plain(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

/// When a sample is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The time by the clock of the table, which never steps.
    pub now: Time,
    /// The time by the clock that files are stamped with, ns since 1970.
    pub file_ns: i64,
}

/// One value of a sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The name in the catalogue.
    pub name: &'static str,
    /// The instance, of a family.
    pub instance: Option<String>,
    /// The value that was found.
    pub value: Value,
}

impl Reading {
    fn new(name: &'static str, value: Value) -> Self {
        Self { name, instance: None, value }
    }

    fn of(name: &'static str, instance: &str, value: Value) -> Self {
        Self { name, instance: Some(instance.to_owned()), value }
    }

    fn defined(name: &'static str, value: Option<Value>, why: &str) -> Self {
        Self::new(name, value.unwrap_or_else(|| Value::undefined(why)))
    }

    /// All attributes of a provider, undefined for one reason.
    fn none(names: &[&'static str], why: &str) -> Vec<Self> {
        names.iter().map(|name| Self::new(name, Value::undefined(why))).collect()
    }
}

/// What samples some attributes.
pub trait Provider: Send {
    /// Its name in the catalogue.
    fn name(&self) -> &'static str;

    /// Takes a sample.
    fn sample(&mut self, root: &Root, at: Moment) -> Vec<Reading>;
}

/// All providers that answer at once: all but [`FileSystems`].
pub fn quick() -> Vec<Box<dyn Provider>> {
    vec![
        Box::new(host::Host),
        Box::new(cpu::Cpu),
        Box::new(load::Load::default()),
        Box::new(memory::Memory),
        Box::new(pressure::Pressure),
        Box::new(disks::Disks::default()),
        Box::new(network::Network::default()),
        Box::new(users::Users),
        Box::new(limits::Limits),
    ]
}

/// Notes a sample of a provider; of its families, what is missing in the sample is gone.
pub fn note(table: &mut Table, node: NodeId, provider: &str, sample: &[Reading], now: Time) {
    let mut seen = BTreeSet::new();
    for reading in sample {
        let built_in = catalogue::find(reading.name).expect("readings are of the catalogue");
        let name = match &reading.instance {
            Some(instance) => instance_name(reading.name, instance),
            None => reading.name.to_owned(),
        };
        if let Ok(id) = table.define(built_in.attribute(name)) {
            seen.insert(id);
            table.set(node, id, reading.value.clone(), now);
        }
    }
    let of_provider =
        |(_, it): &(AttributeId, &crate::registry::Attribute)| it.provider == provider;
    let gone: Vec<AttributeId> = table
        .registry()
        .iter()
        .filter(of_provider)
        .map(|(id, _)| id)
        .filter(|id| !seen.contains(id) && table.sampled(node, *id).is_some())
        .collect();
    // Each time: the news that it is gone is as fresh as the values that remain.
    for id in gone {
        table.set(node, id, Value::undefined("it is gone"), now);
    }
}
