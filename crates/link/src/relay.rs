//! What a hub and the leader of a host group say to each other at the head of each channel, and how
//! a channel that is passed on ends.
//!
//! The hub sends a *call*, which says where the channel is to lead; the leader answers in *pieces*,
//! so that after the last byte it can still say why it was the last. What goes over the channel is
//! no business of either.
//!
//! ```text
//! call:   length: u32, big-endian | Call, as MessagePack        at most 64 KiB
//! piece:  kind: u8 | length: u32, big-endian | body             at most 64 KiB
//! ```

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use rakuda_proto::cluster::{Call, CallFailed};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};

/// Maximum bytes of a call, and of a piece.
pub const PIECE_BYTES_MAX: usize = 64 << 10;
/// Bytes in front of a piece's body.
const HEAD_BYTES: usize = 5;
/// Maximum bytes that are passed on at once.
const PASSED_BYTES: usize = 16 << 10;

/// The channel leads there now: no body. First, or [`FAILED`] is.
const STARTED: u8 = 1;
/// It leads nowhere: `CallFailed`.
const FAILED: u8 = 2;
/// What came from there.
const DATA: u8 = 3;
/// Last: what was said about the end, as text.
const ENDED: u8 = 4;

/// What is wrong with a channel.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// It broke, or was cut off.
    #[error("the connection to the leader ended: {0}")]
    Ended(#[from] std::io::Error),
    /// More bytes than allowed.
    #[error("{0} bytes at once, and {PIECE_BYTES_MAX} are the most")]
    TooLong(usize),
    /// No such thing is expected here.
    #[error("a piece of kind {0} is not expected here")]
    Unexpected(u8),
    /// Not what it should be.
    #[error("it cannot be decoded: {0}")]
    Undecodable(#[from] rmp_serde::decode::Error),
    /// The leader says that it could not.
    #[error("{}", .0.why)]
    Failed(CallFailed),
}

/// Says where a channel is to lead.
pub async fn write_call(
    writer: &mut (impl AsyncWrite + Unpin),
    call: &Call,
) -> Result<(), RelayError> {
    let body = rmp_serde::to_vec(call).expect("a call is data");
    if body.len() > PIECE_BYTES_MAX {
        return Err(RelayError::TooLong(body.len()));
    }
    let mut bytes = (body.len() as u32).to_be_bytes().to_vec();
    bytes.extend(body);
    writer.write_all(&bytes).await?;
    Ok(writer.flush().await?)
}

/// Reads where a channel is to lead, and not one byte more.
pub async fn read_call(reader: &mut (impl AsyncRead + Unpin)) -> Result<Call, RelayError> {
    let length = reader.read_u32().await? as usize;
    Ok(rmp_serde::from_slice(&read_body(reader, length).await?)?)
}

/// No memory is taken for what a length promises, only for what has arrived.
async fn read_body(
    reader: &mut (impl AsyncRead + Unpin),
    length: usize,
) -> Result<Vec<u8>, RelayError> {
    if length > PIECE_BYTES_MAX {
        return Err(RelayError::TooLong(length));
    }
    let mut body = Vec::new();
    reader.take(length as u64).read_to_end(&mut body).await?;
    if body.len() < length {
        return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
    }
    Ok(body)
}

fn head(kind: u8, length: usize) -> [u8; HEAD_BYTES] {
    let [a, b, c, d] = u32::try_from(length).expect("a piece is short").to_be_bytes();
    [kind, a, b, c, d]
}

async fn write_piece(
    writer: &mut (impl AsyncWrite + Unpin),
    kind: u8,
    body: &[u8],
) -> std::io::Result<()> {
    writer.write_all(&[&head(kind, body.len()), body].concat()).await?;
    writer.flush().await
}

/// The leader says that the channel leads where it should.
pub async fn say_started(writer: &mut (impl AsyncWrite + Unpin)) -> std::io::Result<()> {
    write_piece(writer, STARTED, &[]).await
}

/// The leader says why the channel leads nowhere. The last that it says.
pub async fn say_failed(
    writer: &mut (impl AsyncWrite + Unpin),
    failed: &CallFailed,
) -> std::io::Result<()> {
    let mut failed = failed.clone();
    cut(&mut failed.why);
    write_piece(writer, FAILED, &rmp_serde::to_vec(&failed).expect("it is data")).await
}

/// The leader says what it has heard about the end. The last that it says.
pub async fn say_ended(
    writer: &mut (impl AsyncWrite + Unpin),
    mut words: String,
) -> std::io::Result<()> {
    cut(&mut words);
    write_piece(writer, ENDED, words.as_bytes()).await
}

/// So that it is no longer than a piece may be, with what stands around it.
fn cut(words: &mut String) {
    let most = words.len().min(PIECE_BYTES_MAX / 2);
    let end = (0..=most).rev().find(|end| words.is_char_boundary(*end)).unwrap_or(0);
    words.truncate(end);
}

/// Passes on what has come: any number of bytes.
pub async fn pass_bytes(
    writer: &mut (impl AsyncWrite + Unpin),
    bytes: &[u8],
) -> std::io::Result<()> {
    for piece in bytes.chunks(PASSED_BYTES) {
        write_piece(writer, DATA, piece).await?;
    }
    Ok(())
}

/// Passes on what comes from `reader`, in pieces, until it ends.
pub async fn pass_pieces(
    reader: &mut (impl AsyncRead + Unpin),
    writer: &mut (impl AsyncWrite + Unpin),
) -> std::io::Result<()> {
    let mut buffer = vec![0; HEAD_BYTES + PASSED_BYTES];
    loop {
        let length = reader.read(&mut buffer[HEAD_BYTES..]).await?;
        if length == 0 {
            return Ok(());
        }
        buffer[..HEAD_BYTES].copy_from_slice(&head(DATA, length));
        writer.write_all(&buffer[..HEAD_BYTES + length]).await?;
        writer.flush().await?;
    }
}

/// The hub's side of what a leader says: what was passed on, as it was. Whatever is not allowed is
/// an error of this channel.
#[derive(Debug)]
pub struct Pieces<R> {
    reader: R,
    state: State,
    /// What was said about the end.
    words: LastWords,
}

/// What a leader has said about the end of a channel; empty until then.
pub type LastWords = Rc<RefCell<String>>;

#[derive(Debug)]
enum State {
    /// The head of a piece, as far as it has come.
    Head([u8; HEAD_BYTES], usize),
    /// Bytes of a piece of data that are still to come.
    Data(usize),
    /// Bytes of the last words that are still to come, and those that have come.
    Words(usize, Vec<u8>),
    Over,
}

const NEW: State = State::Head([0; HEAD_BYTES], 0);

impl<R: AsyncRead + Unpin> Pieces<R> {
    /// Waits until the leader says that the channel leads where it should.
    pub async fn started(mut reader: R) -> Result<Self, RelayError> {
        let mut head = [0; HEAD_BYTES];
        reader.read_exact(&mut head).await?;
        let (kind, length) = parse(head);
        let body = read_body(&mut reader, length).await?;
        match kind {
            STARTED => Ok(Self { reader, state: NEW, words: LastWords::default() }),
            FAILED => Err(RelayError::Failed(rmp_serde::from_slice(&body)?)),
            kind => Err(RelayError::Unexpected(kind)),
        }
    }

    /// Filled when the channel ends.
    pub fn last_words(&self) -> LastWords {
        Rc::clone(&self.words)
    }

    /// What comes as it is, from the leader itself.
    pub fn into_inner(self) -> R {
        self.reader
    }

    fn poll_some(
        &mut self,
        context: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<std::io::Result<usize>> {
        let mut room = ReadBuf::new(room);
        ready!(Pin::new(&mut self.reader).poll_read(context, &mut room))?;
        Poll::Ready(Ok(room.filled().len()))
    }
}

fn parse([kind, a, b, c, d]: [u8; HEAD_BYTES]) -> (u8, usize) {
    (kind, u32::from_be_bytes([a, b, c, d]) as usize)
}

/// What comes behind a whole head.
fn after_head(head: [u8; HEAD_BYTES]) -> Result<State, RelayError> {
    match parse(head) {
        (_, length) if length > PIECE_BYTES_MAX => Err(RelayError::TooLong(length)),
        (DATA, 0) => Ok(NEW),
        (DATA, length) => Ok(State::Data(length)),
        (ENDED, length) => Ok(State::Words(length, Vec::new())),
        (kind, _) => Err(RelayError::Unexpected(kind)),
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Pieces<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let cut_off = || Poll::Ready(Err(std::io::ErrorKind::UnexpectedEof.into()));
        loop {
            match std::mem::replace(&mut self.state, State::Over) {
                State::Over => return Poll::Ready(Ok(())),
                State::Head(mut head, length) => {
                    let Poll::Ready(read) = self.poll_some(context, &mut head[length..])? else {
                        self.state = State::Head(head, length);
                        return Poll::Pending;
                    };
                    match length + read {
                        // The leader is gone, and could not say why.
                        _ if read == 0 && length == 0 => {}
                        _ if read == 0 => return cut_off(),
                        HEAD_BYTES => {
                            self.state = after_head(head).map_err(std::io::Error::other)?;
                        }
                        length => self.state = State::Head(head, length),
                    }
                }
                State::Data(left) => {
                    let most = left.min(room.remaining());
                    let read = self.poll_some(context, room.initialize_unfilled_to(most))?;
                    let Poll::Ready(read) = read else {
                        self.state = State::Data(left);
                        return Poll::Pending;
                    };
                    if read == 0 && most > 0 {
                        return cut_off();
                    }
                    self.state = if read == left { NEW } else { State::Data(left - read) };
                    room.advance(read);
                    return Poll::Ready(Ok(()));
                }
                State::Words(0, words) => {
                    *self.words.borrow_mut() = String::from_utf8_lossy(&words).into_owned();
                }
                State::Words(left, mut words) => {
                    let mut some = [0; 512];
                    let most = left.min(some.len());
                    let Poll::Ready(read) = self.poll_some(context, &mut some[..most])? else {
                        self.state = State::Words(left, words);
                        return Poll::Pending;
                    };
                    if read == 0 {
                        return cut_off();
                    }
                    words.extend_from_slice(&some[..read]);
                    self.state = State::Words(left - read, words);
                }
            }
        }
    }
}
