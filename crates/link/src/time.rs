//! The time lane of a link: questions for the other side's clock and answers to its own, which go out before all else
//! and are stamped where they are written and read (docs/design/clusters.md).
//!
//! Neither is numbered, kept or sent again: one that is lost with its connection is asked anew. Pure: times come in,
//! bytes go out. It does not know what a time is good for.

use crate::frame::{self, Kind};

/// Time after a question for which a side writes little at a time, because the next question comes at once.
const BUSY_NS: i64 = 50_000_000;
/// Maximum questions that wait for their answers. With more, the oldest is not answered.
const OWED_MAX: usize = 16;

/// One question and its answer: ns, each by the clock of the side that took the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockExchange {
    /// The question was sent, here.
    pub sent_ns: i64,
    /// It was received, there.
    pub there_received_ns: i64,
    /// The answer was sent, there.
    pub there_sent_ns: i64,
    /// It was received, here.
    pub received_ns: i64,
}

/// One side's part of the lane.
#[derive(Debug, Default)]
pub struct TimeLane {
    /// Questions that are to be asked, one after the other, with the one that waits for its answer.
    wanted: u32,
    /// When the question that waits was sent.
    asked_ns: Option<i64>,
    /// Questions that came: when they were sent there, and received here.
    owed: Vec<[i64; 2]>,
    /// When the last one came.
    heard_ns: Option<i64>,
}

impl TimeLane {
    /// Asks `count` times, or as often as is wanted already if that is more.
    pub fn ask(&mut self, count: u32) {
        self.wanted = self.wanted.max(count);
    }

    /// A connection is new: what was under way on the one before is lost.
    pub fn reconnect(&mut self) {
        self.asked_ns = None;
        self.owed.clear();
    }

    /// Whether what is written at a time is to be short.
    pub fn is_busy(&self, now_ns: i64) -> bool {
        self.wanted > 0 || self.heard_ns.is_some_and(|heard_ns| now_ns - heard_ns < BUSY_NS)
    }

    /// Appends what is to be written now. `now_ns` is read just before.
    pub fn fill(&mut self, now_ns: i64, out: &mut Vec<u8>) {
        for [asked_ns, received_ns] in self.owed.drain(..) {
            frame::encode_times(out, Kind::TellTime, &[asked_ns, received_ns, now_ns]);
        }
        if self.wanted > 0 && self.asked_ns.is_none() {
            frame::encode_times(out, Kind::AskTime, &[now_ns]);
            self.asked_ns = Some(now_ns);
        }
    }

    /// A question has come, read at `now_ns`.
    pub fn on_asked(&mut self, asked_ns: i64, now_ns: i64) {
        self.heard_ns = Some(now_ns);
        if self.owed.len() == OWED_MAX {
            self.owed.remove(0);
        }
        self.owed.push([asked_ns, now_ns]);
    }

    /// An answer has come, read at `now_ns`. `None`: no question waits for it.
    pub fn on_told(&mut self, times: [i64; 3], now_ns: i64) -> Option<ClockExchange> {
        let [sent_ns, there_received_ns, there_sent_ns] = times;
        self.asked_ns.take_if(|asked_ns| *asked_ns == sent_ns)?;
        self.wanted -= 1;
        Some(ClockExchange { sent_ns, there_received_ns, there_sent_ns, received_ns: now_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Decoder, FRAME_BYTES_MAX, Frame};

    /// What `to` makes of what `from` writes at `sent_ns`, read at `read_ns`.
    fn pass(
        from: &mut TimeLane,
        sent_ns: i64,
        to: &mut TimeLane,
        read_ns: i64,
    ) -> Vec<ClockExchange> {
        let mut decoder = Decoder::new(FRAME_BYTES_MAX);
        from.fill(sent_ns, decoder.buffer_mut());
        let mut exchanges = Vec::new();
        while let Some(frame) = decoder.next_frame().unwrap() {
            match frame {
                Frame::AskTime(asked_ns) => to.on_asked(asked_ns, read_ns),
                Frame::TellTime(times) => exchanges.extend(to.on_told(times, read_ns)),
                other => panic!("{other:?}"),
            }
        }
        exchanges
    }

    fn is_silent(lane: &mut TimeLane) -> bool {
        let mut out = Vec::new();
        lane.fill(0, &mut out);
        out.is_empty()
    }

    #[test]
    fn questions_go_one_after_the_other_and_have_the_times_of_both_sides() {
        let (mut hub, mut agent) = (TimeLane::default(), TimeLane::default());
        hub.ask(2);
        for round in [0, 100] {
            assert_eq!(pass(&mut hub, round, &mut agent, 1_000 + round), []);
            assert!(is_silent(&mut hub), "one at a time");
            assert!(agent.is_busy(1_000 + round));
            let expected = ClockExchange {
                sent_ns: round,
                there_received_ns: 1_000 + round,
                there_sent_ns: 1_003 + round,
                received_ns: 9 + round,
            };
            assert_eq!(pass(&mut agent, 1_003 + round, &mut hub, 9 + round), [expected]);
        }
        assert!(is_silent(&mut hub) && !hub.is_busy(0));
        assert!(!agent.is_busy(1_100 + BUSY_NS));
    }

    #[test]
    fn a_question_that_was_lost_with_its_connection_is_asked_again() {
        let (mut hub, mut agent) = (TimeLane::default(), TimeLane::default());
        hub.ask(1);
        pass(&mut hub, 1, &mut TimeLane::default(), 0);
        hub.reconnect();
        pass(&mut hub, 50, &mut agent, 0);
        assert_eq!(hub.on_told([1, 2, 3], 60), None, "that was to the first");
        assert_eq!(pass(&mut agent, 2, &mut hub, 61).len(), 1);
    }
}
