//! How figures are put for people: three digits and a unit.

use crate::calendar::Moment;

/// Seconds: `4.32 ms`, `1.23 s`, `5 min 02 s`, `3 h 20 min`.
pub fn seconds(seconds: f64) -> String {
    let whole = seconds.round();
    if seconds >= 3600.0 {
        let minutes = (seconds / 60.0).round();
        format!("{:.0} h {:02.0} min", (minutes / 60.0).floor(), minutes % 60.0)
    } else if whole >= 100.0 {
        format!("{:.0} min {:02.0} s", (whole / 60.0).floor(), whole % 60.0)
    } else if seconds >= 0.9995 {
        format!("{} s", digits(seconds))
    } else if seconds >= 0.000_999_5 {
        format!("{} ms", digits(seconds * 1e3))
    } else if seconds > 0.0 {
        format!("{} µs", digits(seconds * 1e6))
    } else {
        "0 s".to_owned()
    }
}

/// Three digits of a number below 1000.
fn digits(value: f64) -> String {
    if value >= 99.95 {
        format!("{value:.0}")
    } else if value >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// Bytes in powers of 1000: `12 B`, `3.40 kB`, `120 MB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if count < 1000 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{} {}", digits(value), UNITS[unit])
}

/// A share: `87.1 %`.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A number with its thousands apart: `1,234,567`.
pub fn count(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// As [`count`], of what is as many as there are bytes.
pub fn count_u64(number: u64) -> String {
    count(usize::try_from(number).unwrap_or(usize::MAX))
}

/// As [`counted`], likewise.
pub fn counted_u64(number: u64, noun: &str) -> String {
    counted(usize::try_from(number).unwrap_or(usize::MAX), noun)
}

/// `1 task`, `1,234 tasks`.
pub fn counted(number: usize, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// A point in time, UTC: `2026-11-21 23:05:59.123`, as in Pwrake's tables.
pub fn time(time_ns: impl Into<i128>) -> String {
    let Moment { year, month, day, hour, minute, second, millisecond } = Moment::of(time_ns);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{millisecond:03}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        for (value, text) in [
            (0.0, "0 s"),
            (0.000_001_5, "1.50 µs"),
            (0.004_32, "4.32 ms"),
            (0.43, "430 ms"),
            (0.9996, "1.00 s"),
            (59.99, "60.0 s"),
            (99.6, "1 min 40 s"),
            (302.0, "5 min 02 s"),
            (3599.9, "60 min 00 s"),
            (12_000.0, "3 h 20 min"),
        ] {
            assert_eq!(seconds(value), text);
        }
        for (value, text) in [(999, "999 B"), (1234, "1.23 kB"), (999_600, "1.00 MB")] {
            assert_eq!(bytes(value), text);
        }
        assert_eq!((count(7), count(1_234_567)), ("7".to_owned(), "1,234,567".to_owned()));
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(time(0), "1970-01-01 00:00:00.000");
        assert_eq!(time(951_827_696_000_000_000_i64), "2000-02-29 12:34:56.000");
        assert_eq!(time(-1_000_000), "1969-12-31 23:59:59.999");
    }
}
