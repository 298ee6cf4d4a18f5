//! A stream that changes its route: its writers and readers leave the flow that they have in a place, at the end of a
//! record, for one of another tree.
//!
//! Both flows live as any other: the one left behind ends as if all its writers had ended well, and the other begins.
//! Which tree is the better one is decided elsewhere (`watch.rs`).

use super::{Flow, ReaderState, WriterState};

impl Flow {
    /// A writer goes on in another flow, with what has not gone on here. False: not yet, since a piece of a long record
    /// of it has.
    pub fn hand_writer(&mut self, writer: usize, to: &mut Self, there: usize) -> bool {
        let is_exclusive = self.exclusive == Some(writer);
        let is_abandoned = self.is_abandoned();
        let one = &mut self.writers[writer];
        if one.state == WriterState::Failed || is_exclusive || one.cutter.is_within(0) {
            return false;
        }
        let held = core::mem::take(&mut one.buffer);
        let bytes = held.len() as u64;
        one.account.bytes -= bytes;
        let next = &mut to.writers[there];
        next.account.bytes += bytes;
        (next.ended, next.looked_at) = (one.ended, one.looked_at);
        next.is_unread = one.is_unread || is_abandoned;
        let spare = core::mem::replace(&mut next.buffer, held);
        to.ring.give_back(spare);
        let is_closed = one.state == WriterState::Closed;
        (one.state, one.ended) = (WriterState::Closed, true);
        (one.waits, one.looked_at) = (false, 0);
        self.look_for_ends();
        if to.is_abandoned() {
            to.writers[there].drop_buffer();
        }
        if is_closed {
            to.on_writer_closed(there);
        } else {
            to.pass_on(there);
        }
        true
    }

    /// Whether a reader has done with this flow and goes on with another. If it has left, the other flow learns of
    /// that.
    pub fn hand_reader(&mut self, reader: usize, to: &mut Self, there: usize) -> bool {
        match self.reader_state(reader) {
            ReaderState::Open => false,
            ReaderState::AtEnd => true,
            ReaderState::Left => {
                to.on_reader_left(there);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::{CARRY_BYTES_MAX, FlowSettings, RecordKind};
    use alloc::vec;

    fn write(flow: &mut Flow, writer: usize, bytes: &[u8]) {
        flow.space(writer).extend_from_slice(bytes);
        flow.on_read(writer, bytes.len());
    }

    fn read(flow: &mut Flow) -> alloc::vec::Vec<u8> {
        let mut all = alloc::vec::Vec::new();
        for piece in flow.pending(0) {
            all.extend_from_slice(piece);
        }
        flow.on_written(0, all.len());
        all
    }

    #[test]
    fn a_writer_takes_along_what_it_has_of_a_record() {
        let mut old = Flow::new(FlowSettings::default(), 1, 1);
        let mut new = Flow::new(FlowSettings::default(), 1, 1);
        write(&mut old, 0, b"one\ntw");
        assert!(old.hand_writer(0, &mut new, 0));
        assert!(!old.hand_reader(0, &mut new, 0), "it has not read all");
        assert_eq!(read(&mut old), b"one\n");
        assert!(old.hand_reader(0, &mut new, 0) && old.is_over());
        write(&mut new, 0, b"o\n");
        assert_eq!(read(&mut new), b"two\n");
        assert_eq!((old.written(0).bytes, new.written(0).bytes), (4, 4));
        assert_eq!((old.written(0).records, new.written(0).records), (1, 1));
        assert_eq!(new.reader_state(0), ReaderState::Open);
        new.on_writer_closed(0);
        new.on_writer_ended(0, true);
        assert!(new.is_over() && new.faults().is_empty() && old.faults().is_empty());
    }

    #[test]
    fn a_record_that_passes_in_pieces_ends_where_it_began() {
        let mut old = Flow::new(FlowSettings::default(), 1, 1);
        let mut new = Flow::new(FlowSettings::default(), 1, 1);
        while old.pending(0).next().is_none() {
            write(&mut old, 0, &vec![b'x'; CARRY_BYTES_MAX / 8]);
        }
        assert!(!old.hand_writer(0, &mut new, 0));
        write(&mut old, 0, b"\nrest");
        assert!(old.hand_writer(0, &mut new, 0));
        assert!(read(&mut old).ends_with(b"x\n"));
        assert_eq!(new.written(0).bytes, 4);
    }

    #[test]
    fn a_record_of_which_a_part_was_dropped_as_all_had_left_is_not_torn() {
        let settings = || FlowSettings { record: RecordKind::Fixed(4), ..FlowSettings::default() };
        let mut old = Flow::new(settings(), 1, 1);
        let mut new = Flow::new(settings(), 1, 1);
        write(&mut old, 0, b"ab");
        old.on_reader_left(0);
        assert!(old.hand_writer(0, &mut new, 0) && !new.is_abandoned());
        write(&mut new, 0, b"cd");
        new.on_writer_closed(0);
        new.on_writer_ended(0, true);
        assert_eq!(new.faults(), []);
        new.on_reader_left(0);
        assert!(new.is_over());
    }

    #[test]
    fn whoever_had_ended_or_left_has_in_the_other_flow() {
        let mut old = Flow::new(FlowSettings::default(), 1, 1);
        let mut new = Flow::new(FlowSettings::default(), 1, 1);
        write(&mut old, 0, b"last");
        old.on_writer_ended(0, true);
        old.on_reader_left(0);
        old.on_writer_closed(0);
        assert!(old.hand_reader(0, &mut new, 0) && old.hand_writer(0, &mut new, 0));
        assert!(new.is_abandoned() && new.is_over());
    }
}
