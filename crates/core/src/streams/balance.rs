//! Whether what nodes report of one stream balances: each edge gives out what went into it, and each reader that stayed
//! to the end has got all that was written. If not, that is an error of the engine.
//!
//! It does not know how nodes come to their accounts ([`super::Flow`] checks each place by itself), and no names.

use super::flow::Account;
use crate::ids::TaskId;

/// What an edge's two ends report.
#[derive(Clone, Copy, Debug)]
pub struct EdgeAccounts<'a> {
    /// Of the place before it: what it read.
    pub sent: Option<Account>,
    /// Of the place behind it: what came in there.
    pub got: Option<Account>,
    /// Of the readers of the place behind it.
    pub readers_there: &'a [Account],
}

/// What does not balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imbalance {
    /// An edge, of which an end reports nothing.
    Unknown,
    /// An edge.
    Edge {
        /// What went into it.
        sent: Account,
        /// What came out of it.
        got: Account,
    },
    /// A reader.
    Reader {
        /// Which.
        reader: TaskId,
        /// What it has got.
        got: Account,
        /// What was written, in bytes and records, with separators that were added.
        written: Account,
    },
}

impl EdgeAccounts<'_> {
    /// Whether less may have come out than went in. A reader that left has taken less, and so has a place where all
    /// have left: it drops what still comes.
    ///
    /// # Errors
    /// When it does not balance.
    pub fn is_left(&self) -> Result<bool, Imbalance> {
        let (Some(sent), Some(got)) = (self.sent, self.got) else {
            return Err(Imbalance::Unknown);
        };
        let is_left = sent.is_special || self.readers_there.iter().all(|one| one.is_special);
        if !is_left && (sent.bytes, sent.records) != (got.bytes, got.records) {
            return Err(Imbalance::Edge { sent, got });
        }
        Ok(is_left)
    }
}

/// Checks what tasks have read of a stream against what tasks have written, each summed over all nodes and routes.
///
/// # Errors
/// When a reader that has not left has not got what was written: the first one.
pub fn check_readers(
    writers: impl IntoIterator<Item = Account>,
    readers: impl IntoIterator<Item = (TaskId, Account)>,
) -> Result<(), Imbalance> {
    let mut written = Account::default();
    for writer in writers {
        written.bytes += writer.bytes + u64::from(writer.is_special);
        written.records += writer.records;
    }
    let whole = readers.into_iter().filter(|(_, got)| !got.is_special);
    for (reader, got) in whole {
        if (got.bytes, got.records) != (written.bytes, written.records) {
            return Err(Imbalance::Reader { reader, got, written });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(bytes: u64, records: u64, is_special: bool) -> Account {
        Account { bytes, records, is_special, dropped: 0 }
    }

    fn is_left(sent: Account, got: Account, readers_there: &[Account]) -> Result<bool, Imbalance> {
        EdgeAccounts { sent: Some(sent), got: Some(got), readers_there }.is_left()
    }

    #[test]
    fn an_edge_gives_out_what_went_into_it() {
        let (all, reader) = (account(9, 3, false), [account(9, 3, false)]);
        assert_eq!(is_left(all, all, &reader), Ok(false));
        for got in [account(8, 3, false), account(9, 2, false)] {
            assert_eq!(is_left(all, got, &reader), Err(Imbalance::Edge { sent: all, got }));
        }
    }

    #[test]
    fn less_comes_out_where_nobody_reads_any_more() {
        let (all, less) = (account(9, 3, false), account(4, 1, false));
        let (stays, leaves) = (account(9, 3, false), account(4, 1, true));
        assert_eq!(is_left(account(9, 3, true), less, &[stays]), Ok(true), "the edge was left");
        assert_eq!(is_left(all, less, &[leaves, leaves]), Ok(true));
        let differs = Err(Imbalance::Edge { sent: all, got: less });
        assert_eq!(is_left(all, less, &[leaves, stays]), differs, "one reads on");
    }

    #[test]
    fn an_edge_of_which_an_end_tells_nothing_does_not_balance() {
        let all = Some(account(9, 3, true));
        for (sent, got) in [(None, all), (all, None), (None, None)] {
            let edge = EdgeAccounts { sent, got, readers_there: &[] };
            assert_eq!(edge.is_left(), Err(Imbalance::Unknown));
        }
    }

    #[test]
    fn each_reader_that_stays_gets_all_that_was_written_and_separators_that_were_added() {
        let writers = [account(4, 2, false), account(5, 1, true)];
        let check =
            |got| check_readers(writers, [(TaskId(7), account(3, 1, true)), (TaskId(8), got)]);
        assert_eq!(check(account(10, 3, false)), Ok(()));
        for got in [account(9, 3, false), account(10, 2, false), account(11, 3, false)] {
            let written = account(10, 3, false);
            assert_eq!(check(got), Err(Imbalance::Reader { reader: TaskId(8), got, written }));
        }
    }
}
