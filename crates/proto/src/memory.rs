//! Sizes of memory as people read them, in powers of 1024: so does `memory:` of a Rakefile count. It knows no task.

/// With the power of 2 that each is, the largest first.
const UNITS: [(u32, &str); 4] = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];

/// Maximum number in front of a unit.
const NUMBER_MAX: u64 = 999_999;

/// What was asked for: a whole number of the largest unit that gives one, so that it equals what someone has written:
/// `200 MiB`, `1536 MiB` for 1.5G. What would have too many digits is put as what was measured.
pub fn asked(bytes: u64) -> String {
    let whole = UNITS.into_iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    let (shift, unit) = whole.unwrap_or((0, "B"));
    match bytes >> shift {
        number @ 0..=NUMBER_MAX => format!("{number} {unit}"),
        _ => measured(bytes),
    }
}

/// What was measured, with three digits, rounded down: `55.6 MiB`, `1.46 GiB`.
pub fn measured(bytes: u64) -> String {
    let Some((shift, unit)) = UNITS.into_iter().find(|(shift, _)| bytes >> shift > 0) else {
        return format!("{bytes} B");
    };
    let hundredths = (u128::from(bytes) * 100) >> shift;
    let (whole, rest) = (hundredths / 100, hundredths % 100);
    match whole {
        0..10 => format!("{whole}.{rest:02} {unit}"),
        10..100 => format!("{whole}.{} {unit}", rest / 10),
        _ => format!("{whole} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_equals_what_was_written() {
        let written = [200 << 20, 1500 << 20, 3 << 29, 900 << 30, 20_000 << 20, 100 << 10, 100, 0];
        assert_eq!(
            written.map(asked),
            ["200 MiB", "1500 MiB", "1536 MiB", "900 GiB", "20000 MiB", "100 KiB", "100 B", "0 B"]
        );
        assert_eq!(asked(8_321_000_000), "7.74 GiB");
    }

    #[test]
    fn what_was_measured_has_three_digits() {
        let measured_bytes =
            [999, 1023, 1 << 10, 58_300_000, (200 << 20) - 1, 1500 << 20, u64::MAX];
        assert_eq!(
            measured_bytes.map(measured),
            ["999 B", "1023 B", "1.00 KiB", "55.5 MiB", "199 MiB", "1.46 GiB", "16777215 TiB"]
        );
    }
}
