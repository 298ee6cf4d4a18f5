//! What the control groups of this process allow: the least of its own and those above it, version 1 or 2.

use std::path::{Path, PathBuf};

use super::{Moment, Provider, Reading, Root};
use crate::control_groups::{Limit, files_of};
use crate::value::Value;

const CPU: Limit = Limit { controller: "cpu", v2: "cpu.max", v1: "cpu.cfs_quota_us" };
const MEMORY: Limit = Limit { controller: "memory", v2: "memory.max", v1: "memory.limit_in_bytes" };
/// Maximum bytes of a limit that counts: for "no limit", version 1 writes a number near 2^63.
const BYTES_MAX: f64 = 4_611_686_018_427_387_904.0;

pub(super) struct Limits;

impl Provider for Limits {
    fn name(&self) -> &'static str {
        "limits"
    }

    fn sample(&mut self, root: &Root, _at: Moment) -> Vec<Reading> {
        let cores =
            files_of(&CPU, root.folder()).iter().filter_map(|file| cores(file)).reduce(f64::min);
        let memory = files_of(&MEMORY, root.folder())
            .into_iter()
            .filter_map(|file| Some((number(&file).filter(|bytes| *bytes < BYTES_MAX)?, file)))
            .min_by(|one, other| one.0.total_cmp(&other.0));
        let used = memory.as_ref().and_then(|(_, file)| number(&used_beside(file)));
        let why = "no control group limits it";
        let reading =
            |name, number: Option<f64>| Reading::defined(name, number.map(Value::number), why);
        vec![
            reading("limit_cores", cores),
            reading("limit_memory", memory.map(|(bytes, _)| bytes)),
            reading("limit_memory_used", used),
        ]
    }
}

fn number(file: &Path) -> Option<f64> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn used_beside(limit: &Path) -> PathBuf {
    let is_v2 = limit.file_name().is_some_and(|name| name == MEMORY.v2);
    limit.with_file_name(if is_v2 { "memory.current" } else { "memory.usage_in_bytes" })
}

fn cores(file: &Path) -> Option<f64> {
    let (quota, period) = if file.file_name().is_some_and(|name| name == CPU.v2) {
        let text = std::fs::read_to_string(file).ok()?;
        let mut words = text.split_whitespace();
        (words.next()?.parse().ok()?, words.next()?.parse().ok()?)
    } else {
        (number(file)?, number(&file.with_file_name("cpu.cfs_period_us"))?)
    };
    let cores: f64 = quota / period;
    (quota > 0.0 && cores.is_finite()).then_some(cores)
}
