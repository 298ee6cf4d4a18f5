//! Spans of time as people say them.

const SECOND: u64 = 1_000_000_000;

/// Measured, and rounded to what is shown: `12 ms`, `1.2 s`, `45 s`, `1 min 10 s`, `2 h 5 min`, `3 d 4 h`.
pub(crate) fn duration(ns: u64) -> String {
    let to = |unit: u64| ns.saturating_add(unit / 2) / unit;
    let (milliseconds, tenths) = (to(SECOND / 1000), to(SECOND / 10));
    if milliseconds < 1000 {
        format!("{milliseconds} ms")
    } else if tenths < 100 {
        format!("{}.{} s", tenths / 10, tenths % 10)
    } else {
        whole_seconds(to(SECOND))
    }
}

/// Guessed, so rounded: to seconds below a minute, to 10 s below 10 min, to minutes below a day.
pub(crate) fn rough_duration(ns: u64) -> String {
    let seconds = ns.div_ceil(SECOND);
    whole_seconds(match seconds {
        0..60 => seconds,
        60..600 => (seconds + 5) / 10 * 10,
        600..86_400 => (seconds + 30) / 60 * 60,
        _ => (seconds + 1800) / 3600 * 3600,
    })
}

/// Whole seconds, in two units at most.
pub(crate) fn whole_seconds(seconds: u64) -> String {
    let of = |big: u64, big_unit: &str, small: u64, small_unit: &str| {
        if small == 0 {
            format!("{big} {big_unit}")
        } else {
            format!("{big} {big_unit} {small} {small_unit}")
        }
    };
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => of(seconds / 60, "min", seconds % 60, "s"),
        3600..86_400 => of(seconds / 3600, "h", seconds % 3600 / 60, "min"),
        _ => of(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_told_in_two_units_at_most() {
        let told = [400_000, 12_000_000, 1_240_000_000, 45_400_000_000, 70 * SECOND, 7500 * SECOND];
        let texts: Vec<_> = told.into_iter().map(duration).collect();
        assert_eq!(texts, ["0 ms", "12 ms", "1.2 s", "45 s", "1 min 10 s", "2 h 5 min"]);
        // As the report and the story round them.
        let told = [3_995_079, 999_600_000, 1_970_000_000, 9_960_000_000, 45_900_000_000];
        let texts: Vec<_> = told.into_iter().map(duration).collect();
        assert_eq!(texts, ["4 ms", "1.0 s", "2.0 s", "10 s", "46 s"]);
        assert_eq!(duration(3600 * SECOND), "1 h");
        assert_eq!(duration(100 * 3600 * SECOND), "4 d 4 h");
    }

    #[test]
    fn guesses_are_rounded() {
        assert_eq!(rough_duration(SECOND / 2), "1 s");
        assert_eq!(rough_duration(73 * SECOND), "1 min 10 s");
        assert_eq!(rough_duration(613 * SECOND), "10 min");
        assert_eq!(rough_duration(5000 * SECOND), "1 h 23 min");
    }
}
