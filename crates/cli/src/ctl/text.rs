//! How times and sizes are put for people. It knows no run. (Reasons and durations: `rakuda_record::words`.)

use rakuda_proto::Text;
use rakuda_record::calendar::Moment;
use rakuda_record::printable::shown;
use rakuda_record::words::duration_in_words;

/// The time from `from_ns` to `to_ns`, which clocks that were set back may make negative.
pub fn between(from_ns: i64, to_ns: i64) -> String {
    duration_in_words(to_ns.saturating_sub(from_ns).max(0))
}

/// A point in time: `2026-11-21 23:05:59`, UTC, as in the names of runs.
pub fn date(time_ns: i64) -> String {
    let Moment { year, month, day, hour, minute, second, .. } = Moment::of(time_ns);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// The time of day of a point in time, to the millisecond: `23:05:59.120`, UTC.
pub fn time_of_day(time_ns: i64) -> String {
    let milliseconds = time_ns.div_euclid(1_000_000).rem_euclid(1000);
    format!("{}.{milliseconds:03}", &date(time_ns)[11..])
}

/// Seconds from `from_ns` to `to_ns` with three digits after the point: `+12.345`.
pub fn since(from_ns: i64, to_ns: i64) -> String {
    let milliseconds = to_ns.saturating_sub(from_ns) / 1_000_000;
    let sign = if milliseconds < 0 { '-' } else { '+' };
    let milliseconds = milliseconds.unsigned_abs();
    format!("{sign}{}.{:03}", milliseconds / 1000, milliseconds % 1000)
}

/// A status as wait(2) gives it, in words: `exit 1`, `killed by SIGKILL`.
pub fn wait_status(status: i32) -> String {
    const SIGNALS: [(i32, &str); 10] = [
        (libc::SIGHUP, "SIGHUP"),
        (libc::SIGINT, "SIGINT"),
        (libc::SIGQUIT, "SIGQUIT"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGPIPE, "SIGPIPE"),
        (libc::SIGTERM, "SIGTERM"),
    ];
    if libc::WIFEXITED(status) {
        return format!("exit {}", libc::WEXITSTATUS(status));
    }
    let number = libc::WTERMSIG(status);
    match SIGNALS.iter().find(|(signal, _)| *signal == number) {
        Some((_, name)) => format!("killed by {name}"),
        None => format!("killed by signal {number}"),
    }
}

/// Maximum number of names that are listed one by one.
const NAMES_MAX: usize = 8;

/// The first of some names, and how many more there are.
pub fn some_of(names: &[Text]) -> String {
    let mut list: Vec<String> = names.iter().take(NAMES_MAX).map(shown).collect();
    if names.len() > NAMES_MAX {
        list.push(format!("and {} more", names.len() - NAMES_MAX));
    }
    list.join(", ")
}

/// `1 task`, `2 tasks`.
pub fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00:00");
        assert_eq!(date(951_827_696_000_000_000), "2000-02-29 12:34:56");
        assert_eq!(date(1_795_305_959_999_999_999), "2026-11-22 00:05:59");
        assert_eq!(date(-1), "1969-12-31 23:59:59");
    }

    #[test]
    fn nothing_that_a_terminal_obeys_is_left_in_names() {
        let words = ["rm", "a\x1b]0;x\x07b"].map(Text::from);
        assert_eq!(some_of(&words), "rm, a?]0;x?b");
    }

    #[test]
    fn times_since_the_start_keep_their_sign() {
        assert_eq!(since(1_000_000_000, 3_345_000_000), "+2.345");
        assert_eq!(since(3_000_000_000, 1_500_000_000), "-1.500");
        assert_eq!(time_of_day(1_795_305_959_120_999_999), "00:05:59.120");
    }
}
