//! The first frames of a connection: hello from the side that dialled, welcome or refusal from the
//! hub.
//!
//! Everything here is read with small limits, since nothing is known of the other side yet.

use rakuda_proto::cluster::{Hello, Welcome};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::frame::{self, Decoder, FRAME_BYTES_MAX, Frame, HELLO_BYTES_MAX, Kind};

/// Maximum bytes that are shown of what came instead of a greeting.
const SHOWN_BYTES: usize = 200;

/// Why a connection did not become a link.
#[derive(Debug, thiserror::Error)]
pub enum GreetingError {
    /// It ended before the greeting, or could not be read or written.
    #[error("the connection ended before the greeting: {0}")]
    Ended(std::io::Error),
    /// Not a greeting.
    #[error("got no greeting: {0}")]
    NoGreeting(String),
    /// The hub does not want this agent.
    #[error("the hub refuses: {0}")]
    Refused(String),
}

impl From<std::io::Error> for GreetingError {
    fn from(error: std::io::Error) -> Self {
        Self::Ended(error)
    }
}

/// Reads until the first frame is whole.
async fn first_frame<'d>(
    reader: &mut (impl AsyncRead + Unpin),
    decoder: &'d mut Decoder,
) -> Result<Frame<'d>, GreetingError> {
    while !decoder.has_frame().map_err(|error| no_greeting(&error, decoder))? {
        if reader.read_buf(decoder.buffer_mut()).await? == 0 {
            let kind = std::io::ErrorKind::UnexpectedEof;
            let said = shown(decoder.pending());
            return Err(std::io::Error::new(kind, format!("end of file{said}")).into());
        }
    }
    let frame =
        decoder.next_frame().map_err(|error| GreetingError::NoGreeting(error.to_string()))?;
    Ok(frame.expect("it was whole"))
}

fn no_greeting(error: &frame::FrameError, decoder: &Decoder) -> GreetingError {
    let hint = " (does something in the start-up files of the shell there print to stdout?)";
    let said = shown(decoder.pending());
    let hint = if said.is_empty() { "" } else { hint };
    GreetingError::NoGreeting(format!("{error}{said}{hint}"))
}

/// Text that came instead of frames, for a message to people.
fn shown(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(SHOWN_BYTES)];
    let readable = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    if bytes.len() < 4 || !bytes.iter().take(4).all(readable) {
        return String::new();
    }
    format!("; the other side wrote {:?}", String::from_utf8_lossy(bytes).trim_end())
}

/// The hub's part: reads hello. The decoder then takes frames of the full length.
pub async fn read_hello(
    reader: &mut (impl AsyncRead + Unpin),
) -> Result<(Hello, Decoder), GreetingError> {
    let mut decoder = Decoder::new(HELLO_BYTES_MAX);
    let hello = match first_frame(reader, &mut decoder).await? {
        Frame::Hello(body) => rmp_serde::from_slice(body)
            .map_err(|error| GreetingError::NoGreeting(format!("decode hello: {error}")))?,
        other => return Err(misplaced(other.kind())),
    };
    decoder.set_limit(FRAME_BYTES_MAX);
    Ok((hello, decoder))
}

/// The agent's part: says hello and reads the answer.
pub async fn say_hello(
    reader: &mut (impl AsyncRead + Unpin),
    writer: &mut (impl AsyncWrite + Unpin),
    hello: &Hello,
) -> Result<(Welcome, Decoder), GreetingError> {
    write_frame(writer, Kind::Hello, &encoded(hello)).await?;
    let mut decoder = Decoder::new(FRAME_BYTES_MAX);
    let welcome = match first_frame(reader, &mut decoder).await? {
        Frame::Welcome(body) => rmp_serde::from_slice(body)
            .map_err(|error| GreetingError::NoGreeting(format!("decode welcome: {error}")))?,
        Frame::Refused(why) => {
            return Err(GreetingError::Refused(String::from_utf8_lossy(why).into_owned()));
        }
        other => return Err(misplaced(other.kind())),
    };
    Ok((welcome, decoder))
}

/// The hub's answer.
pub async fn say_welcome(
    writer: &mut (impl AsyncWrite + Unpin),
    welcome: &Welcome,
) -> std::io::Result<()> {
    write_frame(writer, Kind::Welcome, &encoded(welcome)).await
}

/// The hub's other answer.
pub async fn say_refused(writer: &mut (impl AsyncWrite + Unpin), why: &str) -> std::io::Result<()> {
    write_frame(writer, Kind::Refused, why.as_bytes()).await
}

fn misplaced(kind: Kind) -> GreetingError {
    GreetingError::NoGreeting(format!("a frame of kind {kind:?} came first"))
}

fn encoded(value: &impl serde::Serialize) -> Vec<u8> {
    rmp_serde::to_vec(value).expect("plain data into memory always encodes")
}

async fn write_frame(
    writer: &mut (impl AsyncWrite + Unpin),
    kind: Kind,
    body: &[u8],
) -> std::io::Result<()> {
    let mut out = Vec::new();
    frame::encode(&mut out, kind, body);
    writer.write_all(&out).await?;
    writer.flush().await
}
