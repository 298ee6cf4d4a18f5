//! How many bytes a second a line carries, as the receiver of an edge sees it (docs/design/streams.md, Rates of lines).
//!
//! Counts while nothing but the line holds up what comes. Knows neither hosts nor other edges, which may share a line.

use crate::Time;

/// Minimum time of a sample, ns: bytes that waited for a busy processor and then came at once are a small part of it.
const SAMPLE_NS: u64 = 200_000_000;
/// Minimum bytes of a sample: they come in pieces of 16 KiB.
const SAMPLE_BYTES: u64 = 256 << 10;

/// Bytes that came one after the other while their sender was never short of any.
#[derive(Clone, Copy, Debug)]
struct Train {
    /// When it began, or the last sample of it ended. What came at that moment may have waited before, and is not
    /// counted.
    since: Time,
    /// When the last bytes came.
    last: Time,
    /// Bytes after `since`.
    bytes: u64,
}

/// What came within some time.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Bytes a second.
    rate: u64,
    from: Time,
    to: Time,
}

/// The meter of one edge.
#[derive(Debug, Default)]
pub(super) struct LineMeter {
    /// The train under way; `None`: none has begun, or something other than the line held it up.
    train: Option<Train>,
    /// No train begins earlier: the window held up what comes until then.
    not_before: Time,
    /// The last samples, the newest first.
    samples: [Option<Sample>; 3],
    /// The largest median of three samples since the last call of `take_rate`.
    rate: Option<u64>,
}

impl LineMeter {
    /// Whether a train goes on.
    pub fn is_running(&self) -> bool {
        self.train.is_some()
    }

    /// A train begins. `bound`: the rate from which on the window would hold it up.
    pub fn on_begun(&mut self, now: Time, bound: Option<u64>) {
        self.close(bound);
        let is_time = now >= self.not_before;
        self.train = is_time.then_some(Train { since: now, last: now, bytes: 0 });
    }

    /// The window got wider, which shows in what comes a round trip later.
    pub fn on_widened(&mut self, now: Time, round_trip_ns: u64) {
        self.on_held_up();
        self.not_before = Time(now.0.saturating_add(round_trip_ns));
    }

    /// Something else than the line holds up what comes.
    pub fn on_held_up(&mut self) {
        self.train = None;
    }

    /// Bytes of a train came.
    pub fn on_bytes(&mut self, now: Time, bytes: u64, bound: Option<u64>) {
        if self.train.is_some_and(|train| now > train.last) {
            self.close(bound);
        }
        let Some(train) = &mut self.train else { return };
        train.last = now;
        if now > train.since {
            train.bytes += bytes;
        }
    }

    /// Makes a sample of what came so far, where that is enough.
    fn close(&mut self, bound: Option<u64>) {
        let Some(train) = &mut self.train else { return };
        let elapsed = train.last.0.saturating_sub(train.since.0);
        if elapsed < SAMPLE_NS || train.bytes < SAMPLE_BYTES {
            return;
        }
        let rate = u128::from(train.bytes) * 1_000_000_000 / u128::from(elapsed);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        let (from, to) = (train.since, train.last);
        *train = Train { since: to, bytes: 0, ..*train };
        if bound.is_none_or(|bound| rate > bound) {
            return;
        }
        self.samples.rotate_right(1);
        self.samples[0] = Some(Sample { rate, from, to });
        if let [Some(one), Some(two), Some(three)] = self.samples
            && is_mostly_busy(&[one, two, three])
        {
            // Of bytes that came late the sample before them has too few, and their own too many.
            let [one, two, three] = [one.rate, two.rate, three.rate];
            let median = one.max(two).min(one.min(two).max(three));
            self.rate = self.rate.max(Some(median));
        }
    }

    /// The rate seen since the last call.
    pub fn take_rate(&mut self) -> Option<u64> {
        self.rate.take()
    }
}

/// Whether an edge was busy for most of the time of these, the newest first. Each of several edges that take turns on a
/// line has its whole rate while it is its turn.
fn is_mostly_busy(samples: &[Sample; 3]) -> bool {
    let busy: u64 = samples.iter().map(|sample| sample.to.0 - sample.from.0).sum();
    let all = samples[0].to.0 - samples[2].from.0;
    u128::from(busy) * 4 >= u128::from(all) * 3
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const FREE: Option<u64> = Some(u64::MAX);

    /// A megabyte each 10 ms, in some milliseconds.
    fn feed(meter: &mut LineMeter, milliseconds: core::ops::Range<u64>, bound: Option<u64>) {
        for now in milliseconds.filter(|now| now % 10 == 0) {
            meter.on_bytes(Time(now * MS), 1_000_000, bound);
        }
    }

    #[test]
    fn three_samples_make_a_rate_which_is_told_once() {
        let mut meter = LineMeter::default();
        meter.on_begun(Time(0), FREE);
        feed(&mut meter, 0..590, FREE);
        assert_eq!(meter.take_rate(), None);
        feed(&mut meter, 590..620, FREE);
        assert_eq!(meter.take_rate(), Some(100_000_000));
        assert_eq!(meter.take_rate(), None);
    }

    #[test]
    fn an_edge_that_is_busy_for_part_of_the_time_says_nothing_of_the_line() {
        let mut meter = LineMeter::default();
        for begin in 0..20 {
            let begin = begin * 1_000;
            meter.on_begun(Time(begin * MS), FREE);
            feed(&mut meter, begin..begin + 450, FREE);
        }
        assert_eq!(meter.take_rate(), None);
    }

    #[test]
    fn bytes_that_waited_for_a_processor_and_came_at_once_do_not_make_a_line_faster() {
        let mut meter = LineMeter::default();
        meter.on_begun(Time(0), FREE);
        feed(&mut meter, 0..350, FREE);
        // 150 ms later.
        meter.on_bytes(Time(500 * MS), 16_000_000, FREE);
        feed(&mut meter, 510..1_300, FREE);
        let rate = meter.take_rate().unwrap();
        assert!((80_000_000..=110_000_000).contains(&rate), "{rate}");
    }

    #[test]
    fn what_the_window_or_a_reader_holds_up_says_nothing_of_the_line() {
        let mut meter = LineMeter::default();
        meter.on_begun(Time(0), None);
        feed(&mut meter, 0..1_000, None);
        feed(&mut meter, 1_000..2_000, Some(99_000_000));
        assert_eq!(meter.take_rate(), None);
        meter.on_held_up();
        feed(&mut meter, 2_000..3_000, FREE);
        assert_eq!(meter.take_rate(), None);
        assert!(!meter.is_running());
    }

    #[test]
    fn a_sender_that_is_short_between_short_trains_says_nothing_of_the_line() {
        let mut meter = LineMeter::default();
        for begin in 0..20 {
            let begin = begin * 200;
            meter.on_begun(Time(begin * MS), FREE);
            feed(&mut meter, begin..begin + 190, FREE);
        }
        assert_eq!(meter.take_rate(), None);
    }
}
