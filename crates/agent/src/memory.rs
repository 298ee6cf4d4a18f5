//! Memory that this process and what it starts may use: the machine's, or less where a control
//! group (version 1 or 2) of it or above it has a limit.
//!
//! The page cache of files that commands read counts towards such a limit. Read once, at the start;
//! it does not know what is free.

use std::fs;
use std::path::Path;

use rakuda_info::control_groups::{Limit, files_of};
use rakuda_info::meminfo;

/// Files in which control groups have the limit.
const LIMIT: Limit = Limit { controller: "memory", v2: "memory.max", v1: "memory.limit_in_bytes" };

/// Usable memory in bytes. `None`: not known.
pub fn usable_bytes() -> Option<u64> {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let limit = |path: &Path| fs::read_to_string(path).ok().and_then(|text| limit_in(&text));
    let limits = files_of(&LIMIT, Path::new("/")).into_iter().filter_map(|path| limit(&path));
    limits.chain(meminfo::bytes(&memory, "MemTotal")).min()
}

/// `max`, or bytes.
fn limit_in(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_or_none() {
        assert_eq!(limit_in("268435456\n"), Some(256 << 20));
        assert_eq!(limit_in("max\n"), None);
    }

    #[test]
    fn this_machine_has_some_memory() {
        assert!(usable_bytes().is_some_and(|bytes| bytes >= 1 << 20));
    }
}
