//! The state lane beside messages, over a line that is cut, slow, or not read.

use super::*;
use crate::frame::{Decoder, FRAME_BYTES_MAX, Frame};
use crate::session::{Limits, Session};

const MS: u64 = 1_000_000;
const LIMITS: Limits =
    Limits { silence_ns: 1000 * MS, window_bytes: 1 << 20, unacked_bytes: 4 << 20 };

fn session() -> Session<u32> {
    Session::new(LIMITS, 0)
}

/// What is to be written now, with a source whose newest state is `state`.
fn filled(session: &mut Session<u32>, state: Option<u8>) -> Vec<u8> {
    let mut out = Vec::new();
    session.fill(0, false, &mut out).unwrap();
    session.fill_state(0, &mut out, || Some(vec![state?]));
    out
}

/// The kinds of frames, and what `to` takes of them.
fn deliver(to: &mut Session<u32>, bytes: &[u8]) -> (Vec<Kind>, Vec<u32>, Option<Vec<u8>>) {
    let mut decoder = Decoder::new(FRAME_BYTES_MAX);
    decoder.buffer_mut().extend_from_slice(bytes);
    let (mut kinds, mut messages) = (Vec::new(), Vec::new());
    while let Some(frame) = decoder.next_frame().unwrap() {
        kinds.push(frame.kind());
        to.on_frame(0, frame, &mut messages).unwrap();
    }
    (kinds, messages, to.arrived_state())
}

#[test]
fn the_newest_state_goes_out_behind_messages_and_one_at_a_time() {
    let (mut a, mut b) = (session(), session());
    assert!(filled(&mut a, Some(0)).is_empty(), "nothing was offered");
    a.offer_state();
    a.offer_state();
    a.send(&7_u32);
    let bytes = filled(&mut a, Some(2));
    let taken = deliver(&mut b, &bytes);
    assert_eq!(taken, (vec![Kind::Data, Kind::State], vec![7], Some(vec![2])));
    // The other side has not dealt with it; messages go on.
    a.offer_state();
    a.send(&8_u32);
    let (kinds, messages, state) = deliver(&mut b, &filled(&mut a, Some(3)));
    assert_eq!((kinds, messages, state), (vec![Kind::Data], vec![8], None));
    b.settle_state();
    let (kinds, ..) = deliver(&mut a, &filled(&mut b, None));
    assert!(kinds.contains(&Kind::StateTaken), "{kinds:?}");
    let (_, _, state) = deliver(&mut b, &filled(&mut a, Some(9)));
    assert_eq!(state, Some(vec![9]), "what was newest when it could be written");
    b.settle_state();
    deliver(&mut a, &filled(&mut b, None));
    a.offer_state();
    assert!(filled(&mut a, None).is_empty(), "there was nothing new after all");
    a.offer_state();
    assert_eq!(deliver(&mut b, &filled(&mut a, Some(5))).2, Some(vec![5]));
}

#[test]
fn what_a_broken_connection_has_lost_is_told_anew() {
    let (mut a, mut b) = (session(), session());
    a.offer_state();
    let _lost = filled(&mut a, Some(1));
    a.reconnect(0, 0).unwrap();
    b.reconnect(0, 0).unwrap();
    assert_eq!(deliver(&mut b, &filled(&mut a, Some(2))).2, Some(vec![2]));
    // The answer is lost, too, and another settling is not for the new connection.
    a.reconnect(0, 0).unwrap();
    b.reconnect(0, 0).unwrap();
    b.settle_state();
    assert!(filled(&mut b, None).is_empty());
    assert_eq!(deliver(&mut b, &filled(&mut a, Some(3))).2, Some(vec![3]));
    let mut never = session();
    never.reconnect(0, 0).unwrap();
    assert!(filled(&mut never, Some(1)).is_empty(), "nobody has ever offered anything");
}

#[test]
fn a_second_state_and_a_word_of_none_are_errors() {
    let mut session = session();
    let mut messages = Vec::new();
    session.on_frame(0, Frame::State(b"1"), &mut messages).unwrap();
    let second = session.on_frame(0, Frame::State(b"2"), &mut messages);
    assert!(matches!(second, Err(SessionError::Unexpected(Kind::State))));
    let word = session.on_frame(0, Frame::StateTaken, &mut messages);
    assert!(matches!(word, Err(SessionError::Unexpected(Kind::StateTaken))));
}

#[test]
fn after_bye_nothing_is_told() {
    let mut session = session();
    session.offer_state();
    session.say_bye("done");
    let mut decoder = Decoder::new(FRAME_BYTES_MAX);
    decoder.buffer_mut().extend_from_slice(&filled(&mut session, Some(1)));
    assert!(matches!(decoder.next_frame(), Ok(Some(Frame::Bye(_)))));
    assert_eq!(decoder.next_frame(), Ok(None));
}

/// Whatever happens in whatever order: messages arrive once and in order, states never go back, one is under way at
/// most, and at last the newest is known. Each round has its seed.
#[test]
fn states_and_messages_do_not_disturb_each_other() {
    for seed in 0..300_u64 {
        let mut random = seed;
        let mut below = |limit: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed | 1);
            (random >> 33) % limit
        };
        let (mut a, mut b) = (session(), session());
        let (mut newest, mut known, mut open) = (0_u8, 0_u8, false);
        let (mut sent, mut got) = (0_u32, Vec::new());
        let (mut to_b, mut to_a) = (Vec::new(), Vec::new());
        for step in 0..200 {
            let finishing = step >= 150;
            match if finishing { 3 + step % 3 } else { below(8) } {
                0 | 1 => {
                    newest = newest.saturating_add(1);
                    a.offer_state();
                }
                2 => {
                    sent += 1;
                    a.send(&sent);
                }
                3 => to_b.extend(filled(&mut a, Some(newest))),
                4 => {
                    let (kinds, messages, state) = deliver(&mut b, &std::mem::take(&mut to_b));
                    assert!(kinds.iter().filter(|kind| **kind == Kind::State).count() <= 1);
                    got.extend(messages);
                    if let Some(state) = state {
                        assert!(state[0] >= known && !open, "seed {seed}");
                        (known, open) = (state[0], true);
                    }
                    to_a.extend(filled(&mut b, None));
                }
                5 => {
                    if open {
                        b.settle_state();
                        open = false;
                    }
                    to_a.extend(filled(&mut b, None));
                    deliver(&mut a, &std::mem::take(&mut to_a));
                }
                6 => {}
                _ => {
                    // The line breaks: what was on it is lost.
                    (to_a, to_b, open) = (Vec::new(), Vec::new(), false);
                    a.reconnect(0, b.received()).unwrap();
                    b.reconnect(0, a.received()).unwrap();
                }
            }
        }
        assert_eq!(got, (1..=sent).collect::<Vec<_>>(), "seed {seed}");
        assert_eq!(known, newest, "seed {seed}");
    }
}
