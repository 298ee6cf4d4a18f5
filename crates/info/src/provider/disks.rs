//! Whole disks, and what they do. No partitions, no loop devices, no disks in memory.

use std::collections::BTreeMap;

use super::rate::Rates;
use super::{INSTANCES_MAX, Moment, Provider, Reading, Root};
use crate::value::Value;

/// Bytes of the sectors in which the kernel counts, whatever a disk has.
const SECTOR_BYTES: u64 = 512;
const NO_DISKS: [&str; 4] = ["loop", "ram", "zram", "fd"];

#[derive(Default)]
pub(super) struct Disks {
    /// Bytes read, bytes written, ms busy.
    rates: Rates<String, 3>,
}

impl Provider for Disks {
    fn name(&self) -> &'static str {
        "disks"
    }

    fn sample(&mut self, root: &Root, at: Moment) -> Vec<Reading> {
        let text = root.text("/proc/diskstats").unwrap_or_default();
        let whole = root.names("/sys/block");
        let counters: BTreeMap<String, [u64; 3]> = text
            .lines()
            .filter_map(counters)
            .filter(|(name, _)| whole.binary_search(name).is_ok() && !is_no_disk(name))
            .take(INSTANCES_MAX)
            .collect();
        let mut readings = Vec::new();
        for (disk, [read, write, busy]) in self.rates.rates(at.now, counters) {
            // Of ms in a second.
            let busy = match busy {
                Value::Number(ms) => Value::number((ms / 10.0).min(100.0)),
                other => other,
            };
            readings.push(Reading::of("disk_read", &disk, read));
            readings.push(Reading::of("disk_write", &disk, write));
            readings.push(Reading::of("disk_busy", &disk, busy));
        }
        readings
    }
}

fn is_no_disk(name: &str) -> bool {
    NO_DISKS.iter().any(|kind| {
        name.strip_prefix(kind).is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

fn counters(line: &str) -> Option<(String, [u64; 3])> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let count = |index: usize| -> Option<u64> { words.get(index)?.parse().ok() };
    let bytes = |index| Some(count(index)?.saturating_mul(SECTOR_BYTES));
    Some(((*words.get(2)?).to_owned(), [bytes(5)?, bytes(9)?, count(12)?]))
}
