//! Moments as dates of the Gregorian calendar, UTC. It reads no clock; how a date is written is its callers' business.

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
    /// The moment so many ns after (or before) 1970 began.
    pub fn of(time_ns: i64) -> Self {
        let milliseconds = time_ns.div_euclid(1_000_000);
        let seconds = milliseconds.div_euclid(1000);
        let (year, month, day) = date(seconds.div_euclid(86_400));
        let second = seconds.rem_euclid(86_400);
        Self {
            year,
            month,
            day,
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
            millisecond: milliseconds.rem_euclid(1000),
        }
    }
}

/// Year, month and day of a number of days since 1970 (Hinnant, "chrono-compatible low-level date algorithms", 2013): years are
/// counted from 1 March of year 0, so that the leap day is the last of a year.
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
