use super::*;
use crate::frame::{Decoder, FRAME_BYTES_MAX};

const MS: u64 = 1_000_000;
const LIMITS: Limits = Limits { silence_ns: 1000 * MS, window_bytes: 1000, unacked_bytes: 4000 };

fn session() -> Session<Vec<u8>> {
    Session::new(LIMITS, 0)
}

fn filled(session: &mut Session<Vec<u8>>, now: u64) -> Vec<u8> {
    let mut out = Vec::new();
    session.fill(now, false, &mut out).unwrap();
    out
}

/// What `to` takes of `bytes`.
fn deliver(
    to: &mut Session<Vec<u8>>,
    now: u64,
    bytes: &[u8],
) -> Result<Vec<Vec<u8>>, SessionError> {
    let mut decoder = Decoder::new(FRAME_BYTES_MAX);
    decoder.buffer_mut().extend_from_slice(bytes);
    let mut messages = Vec::new();
    to.on_bytes(now);
    while let Some(frame) = decoder.next_frame()? {
        to.on_frame(now, frame, &mut messages)?;
    }
    Ok(messages)
}

#[test]
fn messages_arrive_in_order_and_are_forgotten_when_acknowledged() {
    let (mut a, mut b) = (session(), session());
    for byte in 0..10 {
        a.send(&vec![byte]);
    }
    assert_eq!(
        deliver(&mut b, 0, &filled(&mut a, 0)).unwrap(),
        (0..10).map(|n| vec![n]).collect::<Vec<_>>()
    );
    assert!(a.unacked_bytes() > 0);
    assert!(filled(&mut b, 0).is_empty(), "an acknowledgement waits for something to go with");
    deliver(&mut a, 0, &filled(&mut b, ACK_DELAY_NS)).unwrap();
    assert_eq!(a.unacked_bytes(), 0);
}

#[test]
fn what_a_broken_connection_lost_is_sent_again_and_what_arrived_is_dropped() {
    for arrived in 0..=3 {
        let (mut a, mut b) = (session(), session());
        let mut got = Vec::new();
        for byte in 0..3 {
            a.send(&vec![byte]);
            let bytes = filled(&mut a, 0);
            if byte < arrived {
                got.extend(deliver(&mut b, 0, &bytes).unwrap());
            }
        }
        b.reconnect(1, a.received()).unwrap();
        a.reconnect(1, b.received()).unwrap();
        a.send(&vec![3]);
        got.extend(deliver(&mut b, 2, &filled(&mut a, 2)).unwrap());
        assert_eq!(got, [[0], [1], [2], [3]], "{arrived} had arrived");
    }
}

#[test]
fn a_frame_that_comes_twice_is_taken_once() {
    let (mut a, mut b) = (session(), session());
    a.send(&vec![1]);
    let bytes = filled(&mut a, 0);
    assert_eq!(deliver(&mut b, 0, &bytes).unwrap().len(), 1);
    assert_eq!(deliver(&mut b, 0, &bytes).unwrap().len(), 0);
}

#[test]
fn a_gap_a_wrong_number_and_a_wrong_acknowledgement_are_errors() {
    let (mut a, mut b) = (session(), session());
    a.send(&vec![1]);
    filled(&mut a, 0);
    a.send(&vec![2]);
    let second = filled(&mut a, 0);
    let result = deliver(&mut b, 0, &second);
    assert!(matches!(result, Err(SessionError::Gap { expected: 1, got: 2 })));
    let zero = DataFrame::for_messages().finish(0);
    assert!(matches!(deliver(&mut b, 0, &zero), Err(SessionError::Gap { got: 0, .. })));
    let mut ack = Vec::new();
    frame::encode_ack(&mut ack, 3);
    let result = deliver(&mut a, 0, &ack);
    assert!(matches!(result, Err(SessionError::WrongAck { got: 3, low: 0, high: 2 })));
    assert!(matches!(a.reconnect(0, 3), Err(SessionError::WrongAck { .. })));
}

#[test]
fn greetings_have_no_place_after_the_greeting() {
    for kind in [Kind::Hello, Kind::Welcome, Kind::Refused] {
        let mut bytes = Vec::new();
        frame::encode(&mut bytes, kind, b"x");
        let result = deliver(&mut session(), 0, &bytes);
        assert!(matches!(result, Err(SessionError::Unexpected(got)) if got == kind));
    }
}

#[test]
fn a_long_message_goes_in_pieces_and_resumes_between_them() {
    let message: Vec<u8> = (0..12_u32 << 20).map(|n| (n % 251) as u8).collect();
    // As bytes, so that it is not longer in its encoding.
    let (mut a, mut b) = (Session::<Vec<u8>>::new(LIMITS, 0), Session::<Vec<u8>>::new(LIMITS, 0));
    a.limits.unacked_bytes = MESSAGE_BYTES_MAX;
    a.send(&message);
    let first = filled(&mut a, 0);
    assert!(deliver(&mut b, 0, &first).unwrap().is_empty());
    b.reconnect(1, 0).unwrap();
    a.reconnect(1, b.received()).unwrap();
    let mut got = Vec::new();
    for _ in 0..10 {
        got.extend(deliver(&mut b, 2, &filled(&mut a, 2)).unwrap());
    }
    assert!(got == [message]);
}

#[test]
fn a_message_in_pieces_without_end_is_refused() {
    let mut b = session();
    let piece = vec![0; PART_BYTES];
    let mut sequence = 0;
    let error = loop {
        sequence += 1;
        let frame = DataFrame::for_part(false, &piece).finish(sequence);
        if let Err(error) = deliver(&mut b, 0, &frame) {
            break error;
        }
    };
    assert!(matches!(error, SessionError::MessageTooLong));
    assert_eq!(sequence as usize, MESSAGE_BYTES_MAX / PART_BYTES + 1);
}

#[test]
fn whole_messages_between_pieces_are_refused() {
    let mut b = session();
    deliver(&mut b, 0, &DataFrame::for_part(false, b"x").finish(1)).unwrap();
    let result = deliver(&mut b, 0, &DataFrame::for_messages().finish(2));
    assert!(matches!(result, Err(SessionError::Unexpected(Kind::Data))));
}

#[test]
fn what_is_no_message_is_refused() {
    let mut frame = DataFrame::for_messages();
    frame.push(10, |out| out.push(0xc1)).unwrap();
    let result = deliver(&mut session(), 0, &frame.finish(1));
    assert!(matches!(result, Err(SessionError::Malformed(_))));
}

#[test]
fn a_side_with_nothing_to_say_beats_and_so_is_never_silent() {
    let (mut a, mut b) = (session(), session());
    let mut now = 0;
    for _ in 0..50 {
        now = a.deadline().min(b.deadline());
        let (from_a, from_b) = (filled(&mut a, now), filled(&mut b, now));
        if !from_b.is_empty() {
            deliver(&mut a, now, &from_b).unwrap();
        }
        if !from_a.is_empty() {
            deliver(&mut b, now, &from_a).unwrap();
        }
        a.check_silence(now).unwrap();
        b.check_silence(now).unwrap();
    }
    assert!(now >= 5 * LIMITS.silence_ns);
}

#[test]
fn silence_is_found_at_its_limit_and_not_before() {
    let a = session();
    a.check_silence(LIMITS.silence_ns - 1).unwrap();
    assert!(matches!(a.check_silence(LIMITS.silence_ns), Err(SessionError::Silent { .. })));
    assert!(a.deadline() <= LIMITS.silence_ns);
}

#[test]
fn a_link_that_a_leader_answers_for_beats_not_and_is_silent_since_the_leader_says_so() {
    let mut a = session();
    a.be_carried();
    let silent_at = |a: &Session<Vec<u8>>| {
        let at = a.silence_deadline();
        a.check_silence(at - 1).unwrap();
        assert!(a.check_silence(at).is_err());
        assert_eq!(a.deadline(), at, "there is nothing else to wake for");
        at
    };
    assert_eq!(silent_at(&a), LIMITS.silence_ns);
    assert!(filled(&mut a, LIMITS.silence_ns - 1).is_empty());
    a.on_carried(700 * MS);
    assert_eq!(silent_at(&a), 700 * MS + LIMITS.silence_ns);
    // It was silent for longer than its leader had believed.
    a.on_carried(400 * MS);
    assert_eq!(silent_at(&a), 400 * MS + LIMITS.silence_ns);
    a.on_bytes(500 * MS);
    assert_eq!(silent_at(&a), 500 * MS + LIMITS.silence_ns, "its own bytes count, too");
}

#[test]
fn beyond_the_limit_a_session_is_full_and_far_beyond_it_fails() {
    let mut a = session();
    a.send(&vec![0; 1200]);
    assert!(a.is_full() && !a.has_room());
    filled(&mut a, 0);
    let mut ack = Vec::new();
    frame::encode_ack(&mut ack, 1);
    deliver(&mut a, 0, &ack).unwrap();
    assert!(!a.is_full() && a.has_room());
    a.send(&vec![0; 5000]);
    assert!(matches!(a.fill(0, false, &mut Vec::new()), Err(SessionError::Behind { .. })));
}

#[test]
fn bye_comes_after_all_messages_and_once() {
    let (mut a, mut b) = (session(), session());
    a.limits.unacked_bytes = MESSAGE_BYTES_MAX;
    a.say_bye("done");
    let message = vec![7; 3 * PART_BYTES];
    a.send(&message);
    let mut bytes = Vec::new();
    while !a.said_bye() {
        bytes.extend(filled(&mut a, 0));
    }
    assert!(filled(&mut a, 0).is_empty());
    let mut decoder = Decoder::new(FRAME_BYTES_MAX);
    decoder.buffer_mut().extend_from_slice(&bytes);
    let (mut messages, mut last) = (Vec::new(), Taken::Frame);
    while let Some(frame) = decoder.next_frame().unwrap() {
        assert_eq!(last, Taken::Frame);
        last = b.on_frame(0, frame, &mut messages).unwrap();
    }
    assert_eq!(last, Taken::Bye("done".into()));
    assert!(messages == [message]);
}

#[test]
fn little_at_a_time_is_a_frame_at_a_time() {
    let mut session = Session::<Vec<u8>>::new(Limits::with_silence_ms(1000), 0);
    // Each is longer than what is put into one frame.
    for _ in 0..3 {
        session.send(&vec![0u8; BATCH_BYTES]);
    }
    let mut short = Vec::new();
    session.fill(0, true, &mut short).unwrap();
    let mut rest = Vec::new();
    session.fill(0, false, &mut rest).unwrap();
    assert!(
        short.len() < 2 * BATCH_BYTES && rest.len() > 2 * BATCH_BYTES,
        "{} {}",
        short.len(),
        rest.len()
    );
}
