//! Processors: their model, and how many there are of what.

use std::collections::BTreeSet;

use super::{Moment, Provider, Reading, Root};
use crate::value::Value;

const CPUS: &str = "/sys/devices/system/cpu";

pub(super) struct Cpu;

impl Provider for Cpu {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn sample(&mut self, root: &Root, _at: Moment) -> Vec<Reading> {
        let info = root.text("/proc/cpuinfo").unwrap_or_default();
        let online = root.text(&format!("{CPUS}/online")).ok().and_then(|text| members(&text));
        // Without /sys, as in some containers, /proc has an entry for each.
        let listed = info.lines().filter(|line| field(line) == Some("processor")).count();
        let online = online.unwrap_or_else(|| (0..listed as u32).collect());
        let (mut sockets, mut cores) = (BTreeSet::new(), BTreeSet::new());
        for cpu in &online {
            let topology = |name: &str| root.text(&format!("{CPUS}/cpu{cpu}/topology/{name}"));
            sockets.extend(topology("physical_package_id").ok());
            cores.extend(topology("thread_siblings_list").ok());
        }
        let nodes = root.text("/sys/devices/system/node/online").ok().and_then(|it| members(&it));
        let count = |name, count: usize| {
            let value = (count > 0).then(|| Value::count(count as u64));
            Reading::defined(name, value, "the kernel does not say")
        };
        vec![
            Reading::defined("cpu_model", model(&info), "/proc/cpuinfo has no model"),
            count("sockets", sockets.len()),
            count("cores", cores.len()),
            count("threads", online.len()),
            count("numa_nodes", nodes.map_or(0, |nodes| nodes.len())),
        ]
    }
}

fn field(line: &str) -> Option<&str> {
    line.split_once(':').map(|(name, _)| name.trim())
}

fn model(info: &str) -> Option<Value> {
    let value = |name: &str| {
        let line = info.lines().find(|line| field(line) == Some(name))?;
        let value = line.split_once(':')?.1.trim();
        (!value.is_empty()).then(|| Value::text(value))
    };
    // x86 and others; Power; some boards of ARM.
    value("model name").or_else(|| value("cpu")).or_else(|| value("Model"))
}

/// `0-3,8` as numbers. `None` if it is not such a list.
fn members(list: &str) -> Option<BTreeSet<u32>> {
    let mut members = BTreeSet::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last.checked_sub(first)? > 65_536 {
            return None;
        }
        members.extend(first..=last);
    }
    Some(members)
}
