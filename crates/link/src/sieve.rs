//! What the leader of a host group does with the frames that pass it: it takes out those that it answers for, and puts
//! in its own between two others. Pure byte work: nothing waits here but a state that is not whole yet.
//!
//! What is no frame is passed on as it is, and so is all behind it: the end of the link says what is wrong with it.

use crate::frame::{FRAME_BYTES_MAX, Kind};

/// Bytes of the length field.
const LENGTH_BYTES: usize = 4;
/// Bytes of the length field and the kind.
const HEAD_BYTES: usize = LENGTH_BYTES + 1;

/// Takes beats and states out of what an agent says, or nothing out of what the hub says.
#[derive(Debug)]
pub struct Sieve {
    takes: bool,
    state: State,
    /// A whole frame has passed: both sides are about to have greeted each other.
    begun: bool,
    /// What is to be put in before the next frame.
    waiting: Vec<u8>,
}

#[derive(Debug)]
enum State {
    /// What has come of a frame's head.
    Head([u8; HEAD_BYTES], usize),
    /// Bytes of a frame that are still to be passed on.
    Passing(usize),
    /// Bytes of a state that are still to come, and those that have come.
    Taking(usize, Vec<u8>),
    /// Bytes of a beat that are still to come: 0 when it is a right one.
    Dropping(usize),
    /// There was something that is no frame.
    Open,
}

const NEW: State = State::Head([0; HEAD_BYTES], 0);

impl Sieve {
    /// For what an agent says.
    pub fn upwards() -> Self {
        Self { takes: true, state: NEW, begun: false, waiting: Vec::new() }
    }

    /// For what the hub says.
    pub fn downwards() -> Self {
        Self { takes: false, state: NEW, begun: false, waiting: Vec::new() }
    }

    /// Puts whole frames in at the next place, which is behind the first frame at the earliest.
    pub fn put_in(&mut self, frames: &[u8]) {
        self.waiting.extend_from_slice(frames);
    }

    /// Appends what is to be passed on of `bytes`, and what was put in, to `passed`, and states to `states`.
    pub fn sift(&mut self, mut bytes: &[u8], passed: &mut Vec<u8>, states: &mut Vec<Vec<u8>>) {
        loop {
            self.fill_in(passed);
            if bytes.is_empty() {
                return;
            }
            match &mut self.state {
                State::Head(head, have) => {
                    let take = bytes.len().min(HEAD_BYTES - *have);
                    head[*have..*have + take].copy_from_slice(&bytes[..take]);
                    *have += take;
                    bytes = &bytes[take..];
                    if *have == HEAD_BYTES {
                        let head = *head;
                        self.on_head(head, passed);
                    }
                }
                State::Passing(left) => {
                    let take = bytes.len().min(*left);
                    passed.extend_from_slice(&bytes[..take]);
                    bytes = &bytes[take..];
                    *left -= take;
                }
                State::Taking(left, state) => {
                    let take = bytes.len().min(*left);
                    state.extend_from_slice(&bytes[..take]);
                    bytes = &bytes[take..];
                    *left -= take;
                }
                State::Dropping(left) => {
                    let take = bytes.len().min(*left);
                    bytes = &bytes[take..];
                    *left -= take;
                }
                State::Open => {
                    passed.extend_from_slice(bytes);
                    bytes = &[];
                }
            }
            self.end_frame(states);
        }
    }

    fn on_head(&mut self, head: [u8; HEAD_BYTES], passed: &mut Vec<u8>) {
        let [a, b, c, d, kind] = head;
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        self.state = match length.checked_sub(1) {
            Some(left) if self.takes && kind == Kind::State as u8 && length <= FRAME_BYTES_MAX => {
                State::Taking(left, Vec::new())
            }
            Some(0) if self.takes && kind == Kind::Beat as u8 => State::Dropping(0),
            left => {
                passed.extend_from_slice(&head);
                match left {
                    Some(left) if length <= FRAME_BYTES_MAX => State::Passing(left),
                    _ => State::Open,
                }
            }
        };
    }

    fn end_frame(&mut self, states: &mut Vec<Vec<u8>>) {
        match &mut self.state {
            State::Passing(0) => self.begun = true,
            State::Taking(0, state) => states.push(std::mem::take(state)),
            State::Dropping(0) => {}
            State::Head(..)
            | State::Passing(_)
            | State::Taking(..)
            | State::Dropping(_)
            | State::Open => return,
        }
        self.state = NEW;
    }

    /// Between two frames, and not before the first.
    fn fill_in(&mut self, passed: &mut Vec<u8>) {
        if self.begun && matches!(self.state, State::Head(_, 0)) {
            passed.append(&mut self.waiting);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{DataFrame, encode, encode_ack, encode_times};
    use proptest::prelude::*;

    fn frame(kind: Kind, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(&mut out, kind, body);
        out
    }

    /// Frames of an agent, and what of them is to be passed on.
    fn said() -> (Vec<u8>, Vec<u8>, Vec<Vec<u8>>) {
        let mut data = DataFrame::for_messages();
        data.push(100, |out| out.extend_from_slice(b"message")).unwrap();
        let mut times = Vec::new();
        encode_times(&mut times, Kind::TellTime, &[1, 2, 3]);
        let mut ack = Vec::new();
        encode_ack(&mut ack, 3);
        let passing = [frame(Kind::Hello, b"hello"), data.finish(1), times, ack];
        let beat = frame(Kind::Beat, b"");
        let [hello, data, times, ack] = &passing;
        let state = |body: &[u8]| frame(Kind::State, body);
        let all = [
            hello,
            &beat,
            data,
            &state(b"first"),
            &beat,
            times,
            &state(b""),
            &state(b"third"),
            ack,
        ]
        .map(Vec::clone)
        .concat();
        (all, passing.concat(), vec![b"first".to_vec(), Vec::new(), b"third".to_vec()])
    }

    #[test]
    fn beats_and_states_are_taken_out_wherever_the_bytes_are_cut() {
        let (all, passing, told) = said();
        for cut in 0..=all.len() {
            let mut sieve = Sieve::upwards();
            let (mut passed, mut states) = (Vec::new(), Vec::new());
            for bytes in [&all[..cut], &all[cut..]] {
                sieve.sift(bytes, &mut passed, &mut states);
            }
            assert_eq!((&passed, &states), (&passing, &told), "cut at {cut}");
        }
    }

    #[test]
    fn what_is_put_in_stands_between_two_frames_and_behind_the_first() {
        let frames = [frame(Kind::Welcome, b"welcome"), frame(Kind::Ack, &[0; 8])];
        let (all, beat) = (frames.concat(), frame(Kind::Beat, b""));
        for cut in 0..=all.len() {
            let mut sieve = Sieve::downwards();
            let mut passed = Vec::new();
            sieve.sift(&all[..cut], &mut passed, &mut Vec::new());
            sieve.put_in(&beat);
            sieve.sift(&all[cut..], &mut passed, &mut Vec::new());
            let [first, second] = &frames;
            let expected = if cut <= first.len() {
                [first, &beat, second].map(Vec::clone).concat()
            } else {
                [first, second, &beat].map(Vec::clone).concat()
            };
            assert_eq!(passed, expected, "cut at {cut}");
        }
    }

    #[test]
    fn what_is_no_frame_is_left_to_the_hub_with_all_that_follows() {
        for wrong in [&[0, 0, 0, 0, 6][..], &[255, 255, 255, 255, 11, 1, 2]] {
            let all = [wrong, &frame(Kind::Beat, b"")].concat();
            let (mut passed, mut states) = (Vec::new(), Vec::new());
            Sieve::upwards().sift(&all, &mut passed, &mut states);
            assert_eq!((passed, states.len()), (all, 0));
        }
        // A beat with a body is not allowed, and not ours to forgive.
        let beat = frame(Kind::Beat, b"x");
        let mut passed = Vec::new();
        Sieve::upwards().sift(&beat, &mut passed, &mut Vec::new());
        assert_eq!(passed, beat);
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_pass_downwards_as_they_are(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..20),
        ) {
            let (mut sieve, mut passed, mut states) = (Sieve::downwards(), Vec::new(), Vec::new());
            for piece in &pieces {
                sieve.sift(piece, &mut passed, &mut states);
            }
            let all = pieces.concat();
            // A head that is not whole waits.
            prop_assert!(all.starts_with(&passed) && all.len() - passed.len() < HEAD_BYTES);
            prop_assert!(states.is_empty());
        }

        #[test]
        fn pieces_of_any_length_are_sifted_like_the_whole(length in 1_usize..12) {
            let (all, passing, told) = said();
            let (mut sieve, mut passed, mut states) = (Sieve::upwards(), Vec::new(), Vec::new());
            for piece in all.chunks(length) {
                sieve.sift(piece, &mut passed, &mut states);
            }
            prop_assert_eq!((passed, states), (passing, told));
        }
    }
}
