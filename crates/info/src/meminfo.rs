//! /proc/meminfo. It reads nothing itself.

/// A field such as `MemTotal`, in bytes. `None` if the text does not have it.
pub fn bytes(meminfo: &str, field: &str) -> Option<u64> {
    let value = |line: &str| line.strip_prefix(field)?.strip_prefix(':').map(str::to_owned);
    let value = meminfo.lines().find_map(value)?;
    let kib: u64 = value.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_in_units_of_1024_bytes() {
        let text = "MemTotal:        1024 kB\nMemTotalX: 9 kB\nMemFree: 3 kB\nOdd: many\n";
        assert_eq!(bytes(text, "MemTotal"), Some(1 << 20));
        assert_eq!(bytes(text, "MemFree"), Some(3 << 10));
        assert_eq!((bytes(text, "Mem"), bytes(text, "Odd")), (None, None));
    }
}
