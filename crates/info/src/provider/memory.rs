//! Memory and swap space.

use super::{Moment, Provider, Reading, Root};
use crate::meminfo;
use crate::value::Value;

const FIELDS: [(&str, &str); 5] = [
    ("mem_total", "MemTotal"),
    ("mem_free", "MemFree"),
    ("mem_available", "MemAvailable"),
    ("swap_total", "SwapTotal"),
    ("swap_free", "SwapFree"),
];

pub(super) struct Memory;

impl Provider for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn sample(&mut self, root: &Root, _at: Moment) -> Vec<Reading> {
        let text = match root.text("/proc/meminfo") {
            Ok(text) => text,
            Err(why) => return Reading::none(&FIELDS.map(|(name, _)| name), &why),
        };
        let bytes = |field: &str| meminfo::bytes(&text, field).map(Value::count);
        FIELDS
            .iter()
            .map(|(name, field)| Reading::defined(name, bytes(field), "/proc/meminfo does not say"))
            .collect()
    }
}
