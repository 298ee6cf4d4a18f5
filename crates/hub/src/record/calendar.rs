//! Names of moments. It reads no clock.

use rakuda_record::calendar::Moment;

/// `20261121-204312.123`, UTC.
pub(super) fn timestamp_name(time_ns: i64) -> String {
    let Moment { year, month, day, hour, minute, second, millisecond } = Moment::of(time_ns);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}.{millisecond:03}")
}

/// `2026-11-21 20:43:12 UTC`.
pub(super) fn words(time_ns: i64) -> String {
    let Moment { year, month, day, hour, minute, second, .. } = Moment::of(time_ns);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_named_by_its_utc_date() {
        assert_eq!(timestamp_name(0), "19700101-000000.000");
        assert_eq!(timestamp_name(1_709_210_096_789_000_000), "20240229-123456.789");
        assert_eq!(timestamp_name(-1), "19691231-235959.999");
    }
}
