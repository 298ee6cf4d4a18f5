//! Moments as dates of the Gregorian calendar, UTC. It reads no clock; how a date is written is its callers' business.

use rakuda_proto::file_time::seconds_and_ns;

/// A moment, to the millisecond (rounded down).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Of the Gregorian calendar.
    pub year: i64,
    /// From 1.
    pub month: i64,
    /// From 1.
    pub day: i64,
    /// From 0.
    pub hour: i64,
    /// From 0.
    pub minute: i64,
    /// From 0.
    pub second: i64,
    /// From 0.
    pub millisecond: i64,
}

impl Moment {
    /// The moment `time_ns` ns after (or before) 1970 began; a file's may be far away.
    pub fn of(time_ns: impl Into<i128>) -> Self {
        let (seconds, ns) = seconds_and_ns(time_ns.into());
        let (year, month, day) = date(seconds.div_euclid(86_400));
        let second = seconds.rem_euclid(86_400);
        Self {
            year,
            month,
            day,
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
            millisecond: i64::from(ns / 1_000_000),
        }
    }
}

/// Year, month and day of a number of days since 1970 (Hinnant, "chrono-compatible low-level date
/// algorithms", 2013): years are counted from 1 March of year 0, so that the leap day is the last
/// of a year.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The moment, ns since 1970, that the name of a run begins with: `YYYYMMDD-HHMMSS.mmm`, UTC. `None`: it is no such
/// name.
pub fn time_in_name(name: &str) -> Option<i64> {
    let bytes = name.as_bytes();
    if bytes.get(8) != Some(&b'-') || bytes.get(15) != Some(&b'.') {
        return None;
    }
    let number = |from: usize, to: usize| {
        let digits = name.get(from..to)?;
        let all_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
        if all_digits { digits.parse::<i64>().ok() } else { None }
    };
    // Later years do not fit into ns.
    let year = number(0, 4).filter(|year| *year < 2200)?;
    let days = days(year, number(4, 6)?, number(6, 8)?);
    let seconds = days * 86_400 + number(9, 11)? * 3600 + number(11, 13)? * 60 + number(13, 15)?;
    (seconds * 1000 + number(16, 19)?).checked_mul(1_000_000)
}

/// Days since 1970 of a date; the other way round than [`date`].
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    let year_of_era = year.rem_euclid(400);
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_in_a_name_is_read_back() {
        assert_eq!(time_in_name("19700101-000000.000-1"), Some(0));
        assert_eq!(time_in_name("20240229-123456.789-42"), Some(1_709_210_096_789_000_000));
        for other in
            ["", "last", "20240229-1234", "2024022x-123456.789-42", "99990101-000000.000-1"]
        {
            assert_eq!(time_in_name(other), None, "{other}");
        }
    }
}
