//! The form of what goes over a substream of a data link: messages, and the content of a file in pieces.
//!
//! A message is its length (u32, big-endian) and MessagePack. A piece is its length and its bytes;
//! a length of 0 ends the content, and a `ContentEnd` follows. No memory is taken for what a length
//! promises. It touches no file.

use rakuda_proto::files::ContentEnd;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Maximum bytes of a message.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Maximum bytes of a piece.
pub const PIECE_BYTES_MAX: usize = 256 << 10;

/// Why a conversation ended early.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// The stream is broken, or the other side has closed it.
    #[error("the data link was closed ({0})")]
    Closed(#[from] std::io::Error),
    /// What came is not allowed.
    #[error("the other side said what is not allowed: {0}")]
    Wrong(String),
}

/// What comes next of a content.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes of it.
    Bytes(Vec<u8>),
    /// Nothing more.
    End(ContentEnd),
}

/// Says one message.
pub async fn write_message(
    to: &mut (impl AsyncWrite + Unpin),
    message: &impl Serialize,
) -> Result<(), ContentError> {
    let body = rmp_serde::to_vec(message).expect("plain data into memory always encodes");
    if body.len() > MESSAGE_BYTES_MAX {
        return Err(ContentError::Wrong(format!("a message of {} bytes", body.len())));
    }
    write_block(to, &body).await
}

/// Hears one message.
pub async fn read_message<T: DeserializeOwned>(
    from: &mut (impl AsyncRead + Unpin),
) -> Result<T, ContentError> {
    let body = read_block(from, MESSAGE_BYTES_MAX).await?;
    rmp_serde::from_slice(&body).map_err(|error| ContentError::Wrong(error.to_string()))
}

/// Sends a piece, which has at least one byte and at most [`PIECE_BYTES_MAX`].
pub async fn write_piece(
    to: &mut (impl AsyncWrite + Unpin),
    bytes: &[u8],
) -> Result<(), ContentError> {
    assert!((1..=PIECE_BYTES_MAX).contains(&bytes.len()), "a piece of {} bytes", bytes.len());
    write_block(to, bytes).await
}

/// Ends a content.
pub async fn write_end(
    to: &mut (impl AsyncWrite + Unpin),
    end: &ContentEnd,
) -> Result<(), ContentError> {
    to.write_all(&[0; 4]).await?;
    write_message(to, end).await
}

/// Takes the next piece.
pub async fn read_piece(from: &mut (impl AsyncRead + Unpin)) -> Result<Piece, ContentError> {
    let bytes = read_block(from, PIECE_BYTES_MAX).await?;
    if bytes.is_empty() {
        return Ok(Piece::End(read_message(from).await?));
    }
    Ok(Piece::Bytes(bytes))
}

async fn write_block(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> Result<(), ContentError> {
    let length = u32::try_from(bytes.len()).expect("bounded by the callers");
    to.write_all(&length.to_be_bytes()).await?;
    to.write_all(bytes).await?;
    to.flush().await?;
    Ok(())
}

async fn read_block(
    from: &mut (impl AsyncRead + Unpin),
    bytes_max: usize,
) -> Result<Vec<u8>, ContentError> {
    let length = from.read_u32().await? as usize;
    if length > bytes_max {
        return Err(ContentError::Wrong(format!("{length} bytes, and {bytes_max} are the most")));
    }
    let mut bytes = Vec::new();
    let read = (&mut *from).take(length as u64).read_to_end(&mut bytes).await?;
    if read < length {
        return Err(ContentError::Closed(std::io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn a_content_comes_out_as_it_went_in() {
        block_on(async {
            let (mut here, mut there) = tokio::io::duplex(1 << 20);
            let end = ContentEnd::Whole { digest: [7; 32] };
            write_piece(&mut here, b"abc").await.unwrap();
            write_piece(&mut here, &vec![1; PIECE_BYTES_MAX]).await.unwrap();
            write_end(&mut here, &end).await.unwrap();
            assert_eq!(read_piece(&mut there).await.unwrap(), Piece::Bytes(b"abc".to_vec()));
            let Piece::Bytes(bytes) = read_piece(&mut there).await.unwrap() else { panic!() };
            assert_eq!(bytes.len(), PIECE_BYTES_MAX);
            assert_eq!(read_piece(&mut there).await.unwrap(), Piece::End(end));
        });
    }

    #[test]
    fn what_is_too_long_or_cut_off_is_refused() {
        block_on(async {
            let long = (u32::try_from(PIECE_BYTES_MAX).unwrap() + 1).to_be_bytes();
            let mut cut_off: &[u8] = &[0, 0, 0, 9, 1, 2];
            let mut garbage: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 1, 0xc1];
            let too_long = read_piece(&mut long.as_slice()).await;
            assert!(matches!(too_long, Err(ContentError::Wrong(_))));
            assert!(matches!(read_piece(&mut cut_off).await, Err(ContentError::Closed(_))));
            assert!(matches!(read_piece(&mut garbage).await, Err(ContentError::Wrong(_))));
        });
    }
}
