//! What follows from an edge for the stream at each end of it, and the other way round: bytes and ends pass on, and so
//! does the news that nothing reads any more.
//!
//! Knows neither sockets nor the other end of the edge.

use super::{Flow, ReaderState};
use crate::streams::hop::{HopReceiver, HopSender, SenderState};

impl Flow {
    /// Takes what came over an edge that is one of the writers, as far as there is room; whether there was anything.
    pub fn take_from(&mut self, writer: usize, from: &mut HopReceiver) -> bool {
        let space = self.space(writer);
        let room = space.capacity() - space.len();
        let pending = from.pending();
        let bytes = pending.len().min(room);
        if bytes == 0 {
            return false;
        }
        space.extend_from_slice(&pending[..bytes]);
        from.on_taken(bytes);
        self.on_read(writer, bytes);
        true
    }

    /// Gives an edge that is one of the readers as much as it has room for; whether there was anything.
    pub fn give_to(&mut self, reader: usize, to: &mut HopSender) -> bool {
        let taken = to.take(self.pending(reader));
        if taken > 0 {
            self.on_written(reader, taken);
        }
        taken > 0
    }

    /// Ends an edge that is one of the writers, when all came and was taken, or leaves it, when nothing reads here any
    /// more. Returns the records that the sender has counted, once: when all came. `has_ended`: it was returned before.
    pub fn settle_from(
        &mut self,
        writer: usize,
        from: &mut HopReceiver,
        has_ended: bool,
    ) -> Option<u64> {
        let records = from.ended();
        if records.is_some() {
            from.finish();
        } else if self.is_abandoned() && !has_ended {
            from.leave();
        } else {
            return None;
        }
        // What another host says to be all has been written by those that ended well.
        self.on_writer_closed(writer);
        self.on_writer_ended(writer, true);
        records
    }

    /// Ends an edge that is one of the readers when all is sent, and takes the reader off the stream when nothing reads
    /// there any more.
    pub fn settle_to(&mut self, reader: usize, to: &mut HopSender) {
        if self.reader_state(reader) == ReaderState::AtEnd {
            to.finish(self.read(reader).records);
        }
        if to.state() == SenderState::Left {
            self.on_reader_elsewhere_left(reader);
        }
    }
}
