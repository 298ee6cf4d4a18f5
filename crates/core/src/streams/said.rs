//! What is said of tasks before they run (the "meta program" of MegaScript), and the traffic of a stream that follows.
//!
//! Says only what the Rakefile says, and what follows from that by the rules of docs/design/streams.md. What is usual
//! otherwise, and what it is used for, is not known here.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::graph::StreamEnds;
use crate::ids::TaskId;

/// Bytes of a message, where its size does not follow from what the Rakefile says.
pub const MESSAGE_BYTES: u64 = 64 << 10;
/// Time in which a volume that is given in all is taken to pass, s.
const IN_ALL_S: u64 = 100;
/// Messages in 1,000 s of writers that send in bursts: as many as can be carried.
pub const BURST_PER_1000_S: u64 = u64::MAX;

/// Bytes that a task prints or reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Volume {
    /// In all.
    InAll(u64),
    /// In a second.
    PerSecond(u64),
}

impl Volume {
    /// Reads `20MB` or `1.5MB/s`, with B, KB, MB or GB, of which each is 1,000 of the one before.
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        let (text, is_rate) =
            text.strip_suffix("/s").map_or((text, false), |text| (text.trim_end(), true));
        let unit_at = text.find(|letter: char| letter.is_ascii_alphabetic())?;
        let (number, unit) = text.split_at(unit_at);
        let factor = match unit {
            "B" => 1,
            "KB" | "kB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            _ => return None,
        };
        let bytes = u128::from(thousandths(number.trim_end())?) * factor / 1_000;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        Some(if is_rate { Self::PerSecond(bytes) } else { Self::InAll(bytes) })
    }

    fn per_s(self) -> u64 {
        match self {
            Self::InAll(bytes) => bytes / IN_ALL_S,
            Self::PerSecond(bytes) => bytes,
        }
    }
}

/// A decimal number times 1,000; three places behind the point are enough.
pub fn thousandths(number: &str) -> Option<u64> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let part: alloc::string::String = part.chars().chain("000".chars()).take(3).collect();
    whole.parse::<u64>().ok()?.checked_mul(1_000)?.checked_add(part.parse().ok()?)
}

/// What the Rakefile says of a task; `None` where it says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// How much it computes, thousandths of any unit that is one for all.
    pub cost_milli: Option<u64>,
    /// What it prints.
    pub output: Option<Volume>,
    /// What it reads.
    pub input: Option<Volume>,
    /// Messages in 1,000 s: that it prints, or reads where it prints none.
    pub per_1000_s: Option<u64>,
    /// Its messages come many at once.
    pub is_burst: bool,
}

/// The traffic of a stream, as far as it follows from what is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Of each writer, in their order: bytes in a second.
    pub of_writers: Vec<Option<u64>>,
    /// Of all writers together, bytes in a second.
    pub bytes_per_s: Option<u64>,
    /// Messages of all writers in 1,000 s.
    pub per_1000_s: Option<u64>,
    /// Of one message.
    pub message_bytes: Option<u64>,
    /// Of one writer at least messages come many at once.
    pub is_burst: bool,
}

impl Traffic {
    /// Of all streams of a component, in their order.
    pub fn of_all(streams: &[StreamEnds], said: &BTreeMap<TaskId, Said>) -> Vec<Self> {
        let writing: BTreeSet<TaskId> =
            streams.iter().flat_map(|ends| &ends.writers).copied().collect();
        streams.iter().map(|ends| Self::of(ends, said, |task| writing.contains(&task))).collect()
    }

    /// Of a stream with these ends; `writes`: whether a task writes into any stream.
    fn of(
        ends: &StreamEnds,
        said: &BTreeMap<TaskId, Said>,
        writes: impl Fn(TaskId) -> bool,
    ) -> Self {
        let of = |task: &TaskId| said.get(task).copied().unwrap_or_default();
        let readers = || ends.readers.iter().map(of);
        let mut of_writers: Vec<Option<u64>> =
            ends.writers.iter().map(|writer| own_rate(&of(writer))).collect();
        // Each reader gets all. What one says of that counts where writers say nothing.
        if let Some(input) = readers().filter_map(|reader| reader.input).map(Volume::per_s).max() {
            let known =
                of_writers.iter().flatten().fold(0_u64, |sum, rate| sum.saturating_add(*rate));
            let silent = of_writers.iter().filter(|rate| rate.is_none()).count() as u64;
            let share = input.saturating_sub(known).checked_div(silent);
            for rate in &mut of_writers {
                *rate = rate.or(share);
            }
        }
        let bytes_per_s = of_writers.iter().flatten().copied().reduce(u64::saturating_add);
        let rates = ends.writers.iter().zip(&of_writers);
        let of_messages = rates.filter_map(|(writer, rate)| {
            let usual = || rate.map(|rate| per_1000_s(rate, MESSAGE_BYTES));
            of(writer).per_1000_s.or_else(usual)
        });
        let of_writers_say = ends.writers.iter().any(|writer| of(writer).per_1000_s.is_some());
        let last = ends.readers.iter().filter(|reader| !writes(**reader));
        let of_readers = last.filter_map(|reader| of(reader).per_1000_s).max();
        let messages = of_messages.reduce(u64::saturating_add);
        let per_1000_s = if of_writers_say { messages } else { of_readers.or(messages) };
        let message_bytes = bytes_per_s.zip(per_1000_s).map(|(bytes, messages)| {
            let size = u128::from(bytes) * 1_000 / u128::from(messages.max(1));
            u64::try_from(size).unwrap_or(u64::MAX).max(1)
        });
        let is_burst = ends.writers.iter().any(|writer| of(writer).is_burst);
        Self { of_writers, bytes_per_s, per_1000_s, message_bytes, is_burst }
    }
}

/// What a writer says that it prints in a second: `output`, or its messages at the usual size.
fn own_rate(said: &Said) -> Option<u64> {
    let by_messages = |messages: u64| {
        u64::try_from(u128::from(messages) * u128::from(MESSAGE_BYTES) / 1_000).unwrap_or(u64::MAX)
    };
    said.output.map(Volume::per_s).or_else(|| said.per_1000_s.map(by_messages))
}

fn per_1000_s(bytes_per_s: u64, message_bytes: u64) -> u64 {
    bytes_per_s.saturating_mul(1_000) / message_bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn volumes_are_read() {
        let read = ["1MB/s", "1.5 KB/s", "20 B/s", "2GB/s", "0.0625 MB/s"].map(Volume::read);
        let rates = [1_000_000, 1_500, 20, 2_000_000_000, 62_000];
        assert_eq!(read, rates.map(|bytes| Some(Volume::PerSecond(bytes))));
        assert_eq!(Volume::read("20 MB"), Some(Volume::InAll(20_000_000)));
        assert_eq!(["MB/s", "x/s", "1TB/s", "-1B/s", "12", ""].map(Volume::read), [None; 6]);
        assert_eq!(
            ["10", "0.5", "2.0005", "x", ""].map(thousandths),
            [Some(10_000), Some(500), Some(2_000), None, None]
        );
    }

    /// Writers from 0 and readers from 10, with what is said of each; readers write nothing.
    fn traffic(writers: &[Said], readers: &[Said]) -> Traffic {
        let numbered = |all: &[Said], first: u32| -> Vec<(TaskId, Said)> {
            (first..).map(TaskId).zip(all.iter().copied()).collect()
        };
        let (writers, readers) = (numbered(writers, 0), numbered(readers, 10));
        let ids = |all: &[(TaskId, Said)]| all.iter().map(|(task, _)| *task).collect();
        let ends = StreamEnds { writers: ids(&writers), readers: ids(&readers) };
        let said = writers.into_iter().chain(readers).collect();
        Traffic::of(&ends, &said, |task| task.0 < 10)
    }

    fn output(volume: Volume) -> Said {
        Said { output: Some(volume), ..Said::default() }
    }

    #[test]
    fn nothing_follows_from_nothing() {
        let found = traffic(&[Said::default()], &[Said::default()]);
        assert_eq!(found, Traffic { of_writers: vec![None], ..Traffic::default() });
    }

    #[test]
    fn outputs_add_up_and_a_volume_in_all_passes_in_a_stated_time() {
        let found = traffic(
            &[output(Volume::PerSecond(1 << 20)), output(Volume::InAll(IN_ALL_S << 20))],
            &[Said::default()],
        );
        assert_eq!((found.bytes_per_s, found.per_1000_s), (Some(2 << 20), Some(32_000)));
        assert_eq!(found.message_bytes, Some(MESSAGE_BYTES));
    }

    #[test]
    fn a_frequency_gives_messages_their_size_and_a_writer_its_volume() {
        let frequent = Said { per_1000_s: Some(2_000_000), ..output(Volume::PerSecond(200_000)) };
        let found = traffic(&[frequent], &[Said::default()]);
        assert_eq!((found.per_1000_s, found.message_bytes), (Some(2_000_000), Some(100)));
        let alone = Said { per_1000_s: Some(16_000), ..Said::default() };
        let found = traffic(&[alone], &[Said::default()]);
        assert_eq!((found.bytes_per_s, found.message_bytes), (Some(1 << 20), Some(MESSAGE_BYTES)));
    }

    #[test]
    fn what_readers_say_counts_where_writers_say_nothing() {
        let reads = Said { input: Some(Volume::PerSecond(900)), ..Said::default() };
        let found = traffic(&[output(Volume::PerSecond(300)), Said::default()], &[reads]);
        assert_eq!(found.of_writers, [Some(300), Some(600)]);
        let found = traffic(&[output(Volume::PerSecond(300))], &[reads]);
        assert_eq!(found.bytes_per_s, Some(300), "a writer knows better");
        let often = Said { per_1000_s: Some(9_000), ..reads };
        let found = traffic(&[Said::default()], &[often]);
        assert_eq!((found.per_1000_s, found.message_bytes), (Some(9_000), Some(100)));
    }

    #[test]
    fn a_writer_that_sends_in_bursts_makes_the_traffic_one_of_bursts_and_a_reader_does_not() {
        let burst = Said { is_burst: true, ..Said::default() };
        assert!(traffic(&[Said::default(), burst], &[Said::default()]).is_burst);
        assert!(!traffic(&[Said::default()], &[burst]).is_burst);
    }
}
