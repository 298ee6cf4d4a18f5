//! Frames: a length, a kind and a body. Pure byte work.
//!
//! [`Decoder`] takes any bytes from any sender, and gives whole frames or says what is wrong with them. It never
//! reserves memory for what a length field promises; only for what has arrived. It does not know which frame may follow
//! which: [`crate::session`] and [`crate::greeting`] do.

/// Maximum bytes of a frame after the length field.
pub const FRAME_BYTES_MAX: usize = 16 << 20;
/// Maximum bytes of a hello. It comes before anything is known of its sender.
pub const HELLO_BYTES_MAX: usize = 4 << 10;

/// Maximum memory that an empty decoder keeps, bytes.
const KEPT_BYTES: usize = 256 << 10;
/// Bytes of the length field.
const LENGTH_BYTES: usize = 4;
/// Bytes of the length field, the kind and a sequence number.
const DATA_HEADER_BYTES: usize = LENGTH_BYTES + 1 + 8;

/// A frame, its body where it arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// First frame of the side that dialled: `Hello`.
    Hello(&'a [u8]),
    /// The answer: `Welcome`.
    Welcome(&'a [u8]),
    /// The answer, and the end: why.
    Refused(&'a [u8]),
    /// Whole messages, each after its length.
    Data {
        /// Counted from 1.
        sequence: u64,
        /// Messages, which [`split_messages`] takes apart.
        body: &'a [u8],
    },
    /// A piece of a message that is too long for one frame.
    Part {
        /// Counted from 1, together with that of `Data`.
        sequence: u64,
        /// The message is complete.
        last: bool,
        /// The piece.
        body: &'a [u8],
    },
    /// All frames up to this number have been taken.
    Ack(u64),
    /// Nothing to say.
    Beat,
    /// The end, wanted: why, or nothing.
    Bye(&'a [u8]),
    /// A question for the time, with the time of the side that asks.
    AskTime(i64),
    /// The answer: the time in the question, and those at which the question came and the answer went.
    TellTime([i64; 3]),
    /// The newest state, which is sent again and again and may be lost: not numbered.
    State(&'a [u8]),
    /// The last state has been taken; another may come.
    StateTaken,
}

/// First byte after the length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Kind of [`Frame::Hello`].
    Hello = 1,
    /// Kind of [`Frame::Welcome`].
    Welcome = 2,
    /// Kind of [`Frame::Refused`].
    Refused = 3,
    /// Kind of [`Frame::Data`].
    Data = 4,
    /// Kind of [`Frame::Ack`].
    Ack = 5,
    /// Kind of [`Frame::Beat`].
    Beat = 6,
    /// Kind of [`Frame::Bye`].
    Bye = 7,
    /// Kind of [`Frame::Part`].
    Part = 8,
    /// Kind of [`Frame::AskTime`].
    AskTime = 9,
    /// Kind of [`Frame::TellTime`].
    TellTime = 10,
    /// Kind of [`Frame::State`].
    State = 11,
    /// Kind of [`Frame::StateTaken`].
    StateTaken = 12,
}

impl Frame<'_> {
    /// Its first byte.
    pub fn kind(&self) -> Kind {
        match self {
            Frame::Hello(_) => Kind::Hello,
            Frame::Welcome(_) => Kind::Welcome,
            Frame::Refused(_) => Kind::Refused,
            Frame::Data { .. } => Kind::Data,
            Frame::Part { .. } => Kind::Part,
            Frame::AskTime(_) => Kind::AskTime,
            Frame::TellTime(_) => Kind::TellTime,
            Frame::Ack(_) => Kind::Ack,
            Frame::Beat => Kind::Beat,
            Frame::Bye(_) => Kind::Bye,
            Frame::State(_) => Kind::State,
            Frame::StateTaken => Kind::StateTaken,
        }
    }
}

/// Why bytes are no frames.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The length field is over the limit.
    #[error("got a frame of {bytes} bytes where at most {limit} are allowed")]
    TooLong {
        /// What the length field says.
        bytes: usize,
        /// At this point of the link.
        limit: usize,
    },
    /// No such kind.
    #[error("got a frame of kind {0}, which does not exist")]
    UnknownKind(u8),
    /// Too short for its kind, or too long.
    #[error("got a frame of kind {kind} with a body of {bytes} bytes")]
    WrongBody {
        /// Its first byte.
        kind: u8,
        /// After the kind.
        bytes: usize,
    },
}

/// Cuts a stream of bytes into frames.
#[derive(Debug)]
pub struct Decoder {
    /// What arrived; everything before `start` has been given out.
    buffer: Vec<u8>,
    /// Where the next frame's length field begins.
    start: usize,
    /// For the next frame, bytes after the length field.
    limit: usize,
}

impl Decoder {
    /// One that takes frames of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, limit }
    }

    /// Another limit from the next frame on.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Where to append what arrives.
    pub fn buffer_mut(&mut self) -> &mut Vec<u8> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        if self.buffer.is_empty() {
            // A long frame's memory is not kept for the many short ones.
            self.buffer.shrink_to(KEPT_BYTES);
        }
        &mut self.buffer
    }

    /// What arrived and is no whole frame (yet).
    pub fn pending(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// Whether the next frame is whole.
    pub fn has_frame(&self) -> Result<bool, FrameError> {
        self.content().map(|content| content.is_some())
    }

    /// The next frame's kind and body, if it is whole.
    fn content(&self) -> Result<Option<&[u8]>, FrameError> {
        let pending = &self.buffer[self.start..];
        let Some((length, rest)) = pending.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let bytes = u32::from_be_bytes(*length) as usize;
        if bytes > self.limit {
            return Err(FrameError::TooLong { bytes, limit: self.limit });
        }
        Ok(rest.get(..bytes))
    }

    /// The next frame, if it is whole. After an error nothing more can be read.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, FrameError> {
        let Some(bytes) = self.content()?.map(<[u8]>::len) else { return Ok(None) };
        let first = self.start + LENGTH_BYTES;
        self.start = first + bytes;
        let content = &self.buffer[first..first + bytes];
        parse(content).map(Some)
    }
}

fn parse(content: &[u8]) -> Result<Frame<'_>, FrameError> {
    let (&kind, body) = content.split_first().ok_or(FrameError::WrongBody { kind: 0, bytes: 0 })?;
    let wrong = || FrameError::WrongBody { kind, bytes: body.len() };
    let numbered = || {
        let (sequence, rest) = body.split_first_chunk::<8>().ok_or_else(wrong)?;
        Ok((u64::from_be_bytes(*sequence), rest))
    };
    match kind {
        1 => Ok(Frame::Hello(body)),
        2 => Ok(Frame::Welcome(body)),
        3 => Ok(Frame::Refused(body)),
        4 => numbered().map(|(sequence, body)| Frame::Data { sequence, body }),
        5 => match numbered()? {
            (sequence, []) => Ok(Frame::Ack(sequence)),
            _ => Err(wrong()),
        },
        6 if body.is_empty() => Ok(Frame::Beat),
        7 => Ok(Frame::Bye(body)),
        8 => match numbered()? {
            (sequence, [last @ (0 | 1), body @ ..]) => {
                Ok(Frame::Part { sequence, last: *last == 1, body })
            }
            _ => Err(wrong()),
        },
        9 => times::<1>(body).map(|[asked]| Frame::AskTime(asked)).ok_or_else(wrong),
        10 => times(body).map(Frame::TellTime).ok_or_else(wrong),
        11 => Ok(Frame::State(body)),
        12 if body.is_empty() => Ok(Frame::StateTaken),
        6 | 12 => Err(wrong()),
        _ => Err(FrameError::UnknownKind(kind)),
    }
}

/// `COUNT` times. `None`: the body has more or fewer bytes.
fn times<const COUNT: usize>(body: &[u8]) -> Option<[i64; COUNT]> {
    let (times, rest) = body.as_chunks::<8>();
    let times: &[[u8; 8]; COUNT] = times.try_into().ok()?;
    rest.is_empty().then(|| times.map(i64::from_be_bytes))
}

/// Appends a question for the time, or the answer to one.
pub fn encode_times(out: &mut Vec<u8>, kind: Kind, times: &[i64]) {
    let body: Vec<u8> = times.iter().flat_map(|time| time.to_be_bytes()).collect();
    encode(out, kind, &body);
}

/// Appends a frame that is not numbered.
pub fn encode(out: &mut Vec<u8>, kind: Kind, body: &[u8]) {
    out.extend_from_slice(&length_field(1 + body.len()));
    out.push(kind as u8);
    out.extend_from_slice(body);
}

/// Appends an acknowledgement.
pub fn encode_ack(out: &mut Vec<u8>, sequence: u64) {
    encode(out, Kind::Ack, &sequence.to_be_bytes());
}

/// A frame of data, or of a piece, that is being filled.
#[derive(Debug)]
pub struct DataFrame {
    /// The length field and the number, both filled in at last, and the body so far.
    bytes: Vec<u8>,
}

impl DataFrame {
    /// For whole messages.
    pub fn for_messages() -> Self {
        let mut bytes = vec![0; DATA_HEADER_BYTES];
        bytes[LENGTH_BYTES] = Kind::Data as u8;
        Self { bytes }
    }

    /// With a piece of one message.
    pub fn for_part(last: bool, piece: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(DATA_HEADER_BYTES + 1 + piece.len());
        bytes.resize(DATA_HEADER_BYTES, 0);
        bytes[LENGTH_BYTES] = Kind::Part as u8;
        bytes.push(u8::from(last));
        bytes.extend_from_slice(piece);
        Self { bytes }
    }

    /// Whether it has no message.
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == DATA_HEADER_BYTES
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds what `write` appends, as one message; at most `limit` bytes. A longer one is taken out again and returned.
    pub fn push(&mut self, limit: usize, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), Vec<u8>> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; LENGTH_BYTES]);
        write(&mut self.bytes);
        let message = start + LENGTH_BYTES;
        let bytes = self.bytes.len() - message;
        if bytes > limit {
            let too_long = self.bytes.split_off(message);
            self.bytes.truncate(start);
            return Err(too_long);
        }
        self.bytes[start..message].copy_from_slice(&length_field(bytes));
        Ok(())
    }

    /// The whole frame.
    pub fn finish(mut self, sequence: u64) -> Vec<u8> {
        let bytes = self.bytes.len() - LENGTH_BYTES;
        self.bytes[..LENGTH_BYTES].copy_from_slice(&length_field(bytes));
        self.bytes[LENGTH_BYTES + 1..DATA_HEADER_BYTES].copy_from_slice(&sequence.to_be_bytes());
        self.bytes
    }
}

/// The messages of a data frame's body. An item is an error where a length goes beyond the body.
pub fn split_messages(body: &[u8]) -> impl Iterator<Item = Result<&[u8], FrameError>> {
    let mut rest = body;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let message = rest.split_first_chunk::<LENGTH_BYTES>().and_then(|(length, after)| {
            after.split_at_checked(u32::from_be_bytes(*length) as usize)
        });
        let Some((message, after)) = message else {
            rest = &[];
            return Some(Err(FrameError::WrongBody { kind: Kind::Data as u8, bytes: body.len() }));
        };
        rest = after;
        Some(Ok(message))
    })
}

fn length_field(bytes: usize) -> [u8; LENGTH_BYTES] {
    u32::try_from(bytes).expect("frames are cut long before 4 GiB").to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoder_with(bytes: &[u8]) -> Decoder {
        let mut decoder = Decoder::new(FRAME_BYTES_MAX);
        decoder.buffer_mut().extend_from_slice(bytes);
        decoder
    }

    fn sample() -> Vec<u8> {
        let mut out = Vec::new();
        encode(&mut out, Kind::Hello, b"hello");
        let mut data = DataFrame::for_messages();
        data.push(100, |out| out.extend_from_slice(b"one")).unwrap();
        data.push(100, |_| {}).unwrap();
        out.extend(data.finish(7));
        out.extend(DataFrame::for_part(true, b"piece").finish(8));
        encode_ack(&mut out, 6);
        encode(&mut out, Kind::Beat, b"");
        encode_times(&mut out, Kind::AskTime, &[-5]);
        encode_times(&mut out, Kind::TellTime, &[-5, 1 << 40, i64::MAX]);
        encode(&mut out, Kind::State, b"load");
        encode(&mut out, Kind::StateTaken, b"");
        encode(&mut out, Kind::Bye, b"done");
        out
    }

    fn all_of(decoder: &mut Decoder, into: &mut Vec<String>) {
        while let Some(frame) = decoder.next_frame().unwrap() {
            into.push(format!("{frame:?}"));
        }
    }

    #[test]
    fn frames_cut_anywhere_are_read_when_their_rest_arrives() {
        let bytes = sample();
        let mut whole = Vec::new();
        all_of(&mut decoder_with(&bytes), &mut whole);
        assert_eq!(whole.len(), 10);
        for cut in 0..=bytes.len() {
            let mut decoder = decoder_with(&bytes[..cut]);
            let mut frames = Vec::new();
            all_of(&mut decoder, &mut frames);
            decoder.buffer_mut().extend_from_slice(&bytes[cut..]);
            all_of(&mut decoder, &mut frames);
            assert_eq!(frames, whole, "cut at {cut}");
        }
    }

    #[test]
    fn a_frame_over_the_limit_is_refused_when_only_its_length_is_there() {
        let mut decoder = decoder_with(&u32::MAX.to_be_bytes());
        let result = decoder.next_frame();
        let bytes = u32::MAX as usize;
        assert_eq!(result, Err(FrameError::TooLong { bytes, limit: FRAME_BYTES_MAX }));
    }

    #[test]
    fn bodies_that_do_not_fit_their_kind_are_refused() {
        for content in [
            &[][..],
            &[4, 0, 0],
            &[5, 0, 0],
            &[5, 0, 0, 0, 0, 0, 0, 0, 1, 9],
            &[6, 0],
            &[12, 0],
            &[8, 0, 0, 0, 0, 0, 0, 0, 1],
            &[8, 0, 0, 0, 0, 0, 0, 0, 1, 2],
            &[9, 0, 0, 0, 0, 0, 0, 1],
            &[10, 0, 0, 0, 0, 0, 0, 0, 1],
        ] {
            let length = u32::try_from(content.len()).unwrap().to_be_bytes();
            let result = decoder_with(&[&length, content].concat()).next_frame().map(|_| ());
            assert!(matches!(result, Err(FrameError::WrongBody { .. })), "{content:?}");
        }
        assert_eq!(decoder_with(&[0, 0, 0, 1, 13]).next_frame(), Err(FrameError::UnknownKind(13)));
    }

    #[test]
    fn a_message_that_goes_beyond_its_body_is_an_error() {
        let found: Vec<_> = split_messages(&[0, 0, 0, 1, 65, 0, 0, 0, 9, 66]).collect();
        assert_eq!(found[0], Ok(&b"A"[..]));
        assert!(found[1].is_err());
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_message_over_the_limit_is_taken_out_again() {
        let mut frame = DataFrame::for_messages();
        frame.push(4, |out| out.extend_from_slice(b"four")).unwrap();
        let long = frame.push(4, |out| out.extend_from_slice(b"five!")).unwrap_err();
        assert_eq!(long, b"five!");
        let bytes = frame.finish(1);
        assert_eq!(split_messages(&bytes[DATA_HEADER_BYTES..]).count(), 1);
    }
}
