//! Cores that this process and what it starts may use: those that it may run on, or fewer where a
//! control group of it or above it has a quota.
//!
//! A quota of part of a core is rounded down, so that what runs at the same time has its cores
//! whole; one core is the least. Read once, at the start.

use std::fs;
use std::path::Path;

use rakuda_info::control_groups::{Limit, files_of};

/// Files in which control groups have the quota. Version 1 has the period in a file of its own.
const LIMIT: Limit = Limit { controller: "cpu", v2: "cpu.max", v1: "cpu.cfs_quota_us" };
const PERIOD_FILE: &str = "cpu.cfs_period_us";

/// How many; 1 at least.
pub fn usable() -> u32 {
    let quotas = files_of(&LIMIT, Path::new("/")).into_iter().filter_map(|path| quota_at(&path));
    quotas.chain(allowed()).min().unwrap_or(1).max(1)
}

/// The processors that this process may run on.
pub fn numbers() -> Vec<u32> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return Vec::new() };
    let all = 0..u32::try_from(rustix::thread::CpuSet::MAX_CPU).unwrap_or(0);
    all.filter(|cpu| set.is_set(*cpu as usize)).collect()
}

/// By the affinity of this process.
fn allowed() -> Option<u32> {
    rustix::thread::sched_getaffinity(None).ok().map(|set| set.count())
}

fn quota_at(path: &Path) -> Option<u32> {
    let text = fs::read_to_string(path).ok()?;
    let period = fs::read_to_string(path.with_file_name(PERIOD_FILE)).unwrap_or_default();
    quota_in(&text, &period)
}

/// `max PERIOD`, `QUOTA PERIOD`, or, in version 1, `QUOTA` (-1: none) with the period from elsewhere; microseconds.
fn quota_in(text: &str, period: &str) -> Option<u32> {
    let mut words = text.split_whitespace().chain(period.split_whitespace());
    let quota: u64 = words.next()?.parse().ok()?;
    let period: u64 = words.next()?.parse().ok()?;
    u32::try_from(quota.checked_div(period)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_whole_cores_rounded_down() {
        assert_eq!(quota_in("200000 100000\n", ""), Some(2));
        assert_eq!(quota_in("150000 100000\n", ""), Some(1));
        assert_eq!(quota_in("max 100000\n", ""), None);
        assert_eq!(quota_in("400000\n", "100000\n"), Some(4));
        assert_eq!(quota_in("-1\n", "100000\n"), None);
        assert_eq!(quota_in("1000 0\n", ""), None);
    }

    #[test]
    fn this_machine_has_a_core() {
        assert!(usable() >= 1);
    }
}
