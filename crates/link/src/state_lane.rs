//! The lane of states, which are sent again and again: newest wins, one pending, and control never waits for it.
//!
//! Pure. The owner of a state offers a newer one, and the lane asks for it when it can be written. So nothing grows old
//! while it waits. One is under way at a time: the next goes out when the other side has *dealt with* the one before,
//! so no more than one waits there either, however slow it is. Frames have no numbers: a state that a broken connection
//! has lost is not repeated: a new one is sent.

use crate::frame::{self, Kind};
use crate::session::SessionError;

/// One end of the lane: what is offered, and what is under way.
#[derive(Debug, Default)]
pub(crate) struct StateLane {
    /// There is something newer than what was sent last.
    is_offered: bool,
    /// What was sent last was not dealt with yet.
    is_under_way: bool,
    /// Anything was ever offered: after a reconnection it is again.
    is_used: bool,
    /// What has come, and waits to be fetched.
    arrived: Option<Vec<u8>>,
    /// What has come was not dealt with yet.
    is_open: bool,
    /// It was dealt with, which is to be said.
    is_owed: bool,
}

impl StateLane {
    pub fn offer(&mut self) {
        self.is_offered = true;
        self.is_used = true;
    }

    /// What was under way may be lost.
    pub fn reconnect(&mut self) {
        let is_offered = self.is_used;
        *self = Self { is_offered, is_used: self.is_used, ..Self::default() };
    }

    /// Appends what is to be written; `take` gives the newest, or nothing when there is nothing new after all.
    pub fn fill(&mut self, out: &mut Vec<u8>, take: impl FnOnce() -> Option<Vec<u8>>) {
        if std::mem::take(&mut self.is_owed) {
            frame::encode(out, Kind::StateTaken, b"");
        }
        if !self.is_offered || self.is_under_way {
            return;
        }
        self.is_offered = false;
        if let Some(state) = take().filter(|state| state.len() < frame::FRAME_BYTES_MAX) {
            frame::encode(out, Kind::State, &state);
            self.is_under_way = true;
        }
    }

    /// Whether [`Self::fill`] has something to do.
    pub fn is_due(&self) -> bool {
        self.is_owed || self.is_offered && !self.is_under_way
    }

    /// A state has come. One that comes before the last was dealt with is against the rules.
    pub fn on_state(&mut self, body: &[u8]) -> Result<(), SessionError> {
        if self.is_open {
            return Err(SessionError::Unexpected(Kind::State));
        }
        self.is_open = true;
        self.arrived = Some(body.to_vec());
        Ok(())
    }

    /// What has come; once.
    pub fn arrived(&mut self) -> Option<Vec<u8>> {
        self.arrived.take()
    }

    /// What has come was dealt with. After a reconnection there may be nothing.
    pub fn settle(&mut self) {
        self.is_owed |= std::mem::take(&mut self.is_open);
    }

    /// The other side has dealt with what was under way.
    pub fn on_taken(&mut self) -> Result<(), SessionError> {
        if !std::mem::take(&mut self.is_under_way) {
            return Err(SessionError::Unexpected(Kind::StateTaken));
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "state_lane_tests.rs"]
mod tests;
