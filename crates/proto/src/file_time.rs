//! Times of files: ns since 1970, of any file that a kernel can tell of. It stamps them with
//! seconds of 64 bits, so that 64 bits do not hold the ns: they end in 2262, and files from beyond
//! would all be of one age.
//!
//! The one place where seconds and ns are put together and taken apart. Times of *events* are other
//! numbers, and fit into 64 bits.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

const SECOND_NS: i128 = 1_000_000_000;

/// The ns of a time that a kernel, or Ruby, gives as seconds and the ns after them (which are never negative).
pub fn file_ns(seconds: i64, nanoseconds: u32) -> i128 {
    i128::from(seconds) * SECOND_NS + i128::from(nanoseconds)
}

/// The seconds, and the ns after them.
pub fn seconds_and_ns(file_ns: i128) -> (i64, u32) {
    let seconds = file_ns.div_euclid(SECOND_NS).clamp(i64::MIN.into(), i64::MAX.into());
    (seconds as i64, file_ns.rem_euclid(SECOND_NS) as u32)
}

/// When the content of a file was changed last.
pub fn modified_ns(found: &Metadata) -> i128 {
    ns_of((found.mtime(), found.mtime_nsec()))
}

/// When anything about a file was changed last.
pub fn changed_ns(found: &Metadata) -> i128 {
    ns_of((found.ctime(), found.ctime_nsec()))
}

fn ns_of((seconds, ns): (i64, i64)) -> i128 {
    file_ns(seconds, u32::try_from(ns).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_beyond_the_ns_of_64_bits_differ_and_come_back() {
        let times = [(i64::MIN, 0), (-9_300_000_000, 1), (-1, 999_999_999), (0, 0)];
        let later = [(0, 1), (9_300_000_000, 5), (9_300_000_001, 4), (i64::MAX, 999_999_999)];
        let times = [times, later].concat();
        let ns: Vec<i128> = times.iter().map(|(seconds, ns)| file_ns(*seconds, *ns)).collect();
        assert!(ns.is_sorted_by(|a, b| a < b), "{ns:?}");
        assert_eq!(ns.iter().map(|ns| seconds_and_ns(*ns)).collect::<Vec<_>>(), times);
    }
}
