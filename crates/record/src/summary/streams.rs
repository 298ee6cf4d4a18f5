//! What went through the streams of a run, by stream and task.

use std::collections::BTreeMap;

use rakuda_proto::streams::{EndAccount, HopAccount, LineKind, StreamEnd, StreamRoute};

use crate::run::Run;

/// One end of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSide {
    /// Whose stdout or stdin it is.
    pub task: u32,
    /// Of its last attempt.
    pub account: EndAccount,
}

/// One stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamSummary {
    /// As the Rakefile has it.
    pub name: String,
    /// What wrote into it, by number.
    pub writers: Vec<StreamSide>,
    /// What read from it, by number.
    pub readers: Vec<StreamSide>,
    /// Maximum memory that one of its openings took, bytes.
    pub memory_bytes_max: u64,
    /// Bytes that went to disk for slow readers, in all openings that ended well.
    pub spilled_bytes: u64,
    /// The most that one of its openings had on disk at one time.
    pub spilled_bytes_max: u64,
    /// What went between hosts, in the last opening that ended well.
    pub hops: Vec<HopAccount>,
    /// How its messages went between hosts; nothing: they were on one.
    pub route: Option<StreamRoute>,
}

/// Copies over lines of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copies {
    /// Edges.
    pub edges: u64,
    /// Bytes over all of them.
    pub bytes: u64,
    /// Records over all of them: copies of messages.
    pub records: u64,
}

impl StreamSummary {
    /// Bytes that readers were to get: those that writers wrote, and separators that were added.
    pub fn bytes(&self) -> u64 {
        let of = |side: &StreamSide| side.account.bytes + u64::from(side.account.is_special);
        self.writers.iter().map(of).sum()
    }

    /// Records that readers were to get.
    pub fn records(&self) -> u64 {
        self.writers.iter().map(|side| side.account.records).sum()
    }

    /// Copies over the lines of a kind.
    pub fn copies(&self, line: LineKind) -> Copies {
        let mut copies = Copies::default();
        for hop in self.hops.iter().filter(|hop| hop.line == line) {
            copies.edges += 1;
            copies.bytes += hop.bytes;
            copies.records += hop.records;
        }
        copies
    }

    /// Bytes that writers wrote when all readers had left, beside those that went in.
    pub fn dropped(&self) -> u64 {
        self.writers.iter().map(|side| side.account.dropped).sum()
    }

    /// Whether no reader has stayed to the end.
    pub fn is_abandoned(&self) -> bool {
        !self.readers.is_empty() && self.readers.iter().all(|side| side.account.is_special)
    }

    /// Whether each reader that did not leave early got all.
    pub fn is_balanced(&self) -> bool {
        let whole = self.readers.iter().filter(|side| !side.account.is_special);
        let (bytes, records) = (self.bytes(), self.records());
        whole.into_iter().all(|side| (side.account.bytes, side.account.records) == (bytes, records))
    }
}

/// Streams of which an opening has ended well, in the order of their names.
pub fn streams(run: &Run) -> Vec<StreamSummary> {
    type Sides = BTreeMap<u32, EndAccount>;
    let mut found: BTreeMap<String, (Sides, Sides, StreamSummary)> = BTreeMap::new();
    let mut ways: BTreeMap<String, (Vec<HopAccount>, Option<StreamRoute>)> = BTreeMap::new();
    for one in &run.streams {
        let ended = one.ended.as_ref().filter(|ended| ended.fault.is_none());
        for account in ended.into_iter().flat_map(|ended| &ended.streams) {
            let note = one.opened.streams.iter().find(|note| note.name == account.name);
            let route = note.and_then(|note| note.route.clone());
            ways.insert(account.name.to_display(), (account.hops.clone(), route));
        }
    }
    let ended = run.streams.iter().filter_map(|one| one.ended.as_ref());
    for account in ended.filter(|ended| ended.fault.is_none()).flat_map(|ended| &ended.streams) {
        let (writers, readers, sums) = found.entry(account.name.to_display()).or_default();
        sums.memory_bytes_max = account.memory_bytes_max.max(sums.memory_bytes_max);
        sums.spilled_bytes = sums.spilled_bytes.saturating_add(account.spilled_bytes);
        sums.spilled_bytes_max = account.spilled_bytes_max.max(sums.spilled_bytes_max);
        for (sides, ends) in [(writers, &account.writers), (readers, &account.readers)] {
            for end in ends {
                if let StreamEnd::Task(task) = end.end {
                    sides.insert(task, end.clone());
                }
            }
        }
    }
    let sides = |sides: Sides| {
        sides.into_iter().map(|(task, account)| StreamSide { task, account }).collect()
    };
    found
        .into_iter()
        .map(|(name, (writers, readers, sums))| {
            let (hops, route) = ways.remove(&name).unwrap_or_default();
            let (writers, readers) = (sides(writers), sides(readers));
            StreamSummary { name, writers, readers, hops, route, ..sums }
        })
        .collect()
}

/// A stream of a run that may go on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamState {
    /// As the Rakefile has it.
    pub name: String,
    /// An opening of it has not ended.
    pub is_open: bool,
    /// What was wrong with the opening that ended last.
    pub fault: Option<String>,
    /// Tasks whose stdout goes in.
    pub writers: usize,
    /// Tasks whose stdin comes from it.
    pub readers: usize,
    /// Of the openings that have ended well, as [`StreamSummary::bytes`] counts them.
    pub bytes: u64,
    /// Likewise.
    pub records: u64,
}

impl StreamState {
    /// In a word, or what was wrong.
    pub fn word(&self) -> &str {
        match (&self.fault, self.is_open) {
            (_, true) => "open",
            (Some(fault), false) => fault,
            (None, false) => "ended",
        }
    }
}

/// All streams that were opened so far, in the order of their names.
pub fn stream_states(run: &Run) -> Vec<StreamState> {
    let mut states: BTreeMap<String, StreamState> = BTreeMap::new();
    for one in &run.streams {
        for note in &one.opened.streams {
            let name = note.name.to_display();
            let state = states.entry(name.clone()).or_default();
            state.name = name;
            state.is_open = one.ended.is_none();
            let fault = one.ended.as_ref().and_then(|ended| ended.fault.as_ref());
            state.fault = fault.map(rakuda_proto::Text::to_display);
            (state.writers, state.readers) = (note.writers.len(), note.readers.len());
        }
    }
    for summary in streams(run) {
        if let Some(state) = states.get_mut(&summary.name) {
            (state.bytes, state.records) = (summary.bytes(), summary.records());
        }
    }
    states.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(task: u32, bytes: u64, records: u64, is_special: bool) -> StreamSide {
        let end = StreamEnd::Task(task);
        StreamSide { task, account: EndAccount { end, bytes, records, is_special, dropped: 0 } }
    }

    #[test]
    fn an_added_newline_counts_and_a_reader_that_left_does_not() {
        let mut stream = StreamSummary {
            writers: vec![side(0, 10, 2, false), side(1, 5, 1, true)],
            readers: vec![side(2, 16, 3, false), side(3, 4, 1, true)],
            ..StreamSummary::default()
        };
        assert!(stream.is_balanced());
        assert!(!stream.is_abandoned());
        stream.readers[0].account.records = 2;
        assert!(!stream.is_balanced());
        stream.readers[0].account.is_special = true;
        stream.writers[1].account.dropped = 7;
        assert!(stream.is_abandoned());
        assert_eq!((stream.bytes(), stream.dropped()), (16, 7));
    }
}
