//! Frames: a length and as many MessagePack values as the sender had to say.
//!
//! Pure byte work: no I/O here. `FrameReader` takes whatever bytes arrived and gives whole
//! payloads; `FrameWriter` collects messages and hands out one frame.

use std::io::Cursor;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Maximum bytes of a payload. A longer one comes from a broken or hostile sender.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 20;

/// Why a stream of frames cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The length field is over [`PAYLOAD_BYTES_MAX`].
    #[error("read a frame of {bytes} bytes: the limit is {PAYLOAD_BYTES_MAX}")]
    TooLong {
        /// What the length field said.
        bytes: usize,
    },
    /// A payload is not a row of messages.
    #[error("decode message {index} of a frame: {source}")]
    Malformed {
        /// Which message of the frame, from 0.
        index: usize,
        /// What the decoder says.
        source: rmp_serde::decode::Error,
    },
}

/// Cuts a byte stream into frames and decodes their messages.
#[derive(Debug, Default)]
pub struct FrameReader {
    /// Bytes that arrived and are not decoded yet; starts at a frame's length field.
    buffer: Vec<u8>,
}

impl FrameReader {
    /// The buffer to read into: append the bytes that arrived to it.
    pub fn buffer_mut(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Decodes every whole frame that the buffer holds, appending its messages to `messages`.
    pub fn drain<M: DeserializeOwned>(&mut self, messages: &mut Vec<M>) -> Result<(), FrameError> {
        let mut start = 0;
        while let Some(header) = self.buffer.get(start..start + 4) {
            let bytes = u32::from_be_bytes([header[0], header[1], header[2], header[3]]) as usize;
            if bytes > PAYLOAD_BYTES_MAX {
                return Err(FrameError::TooLong { bytes });
            }
            let Some(payload) = self.buffer.get(start + 4..start + 4 + bytes) else {
                break;
            };
            decode_payload(payload, messages)?;
            start += 4 + bytes;
        }
        self.buffer.drain(..start);
        Ok(())
    }
}

fn decode_payload<M: DeserializeOwned>(
    payload: &[u8],
    messages: &mut Vec<M>,
) -> Result<(), FrameError> {
    let mut cursor = Cursor::new(payload);
    let mut index = 0;
    while (cursor.position() as usize) < payload.len() {
        let message = rmp_serde::from_read(&mut cursor)
            .map_err(|source| FrameError::Malformed { index, source })?;
        messages.push(message);
        index += 1;
    }
    Ok(())
}

/// Collects messages for one frame.
#[derive(Debug)]
pub struct FrameWriter {
    /// Four bytes for the length, then the payload so far.
    buffer: Vec<u8>,
}

impl Default for FrameWriter {
    fn default() -> Self {
        Self { buffer: vec![0; 4] }
    }
}

impl FrameWriter {
    /// Adds a message to the frame.
    pub fn push<M: Serialize>(&mut self, message: &M) {
        rmp_serde::encode::write(&mut self.buffer, message)
            .expect("plain data into memory always encodes");
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.buffer.len() == 4
    }

    /// Bytes collected so far.
    pub fn len(&self) -> usize {
        self.buffer.len() - 4
    }

    /// The finished frame, appended to `out`; the writer is empty afterwards.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let bytes = u32::try_from(self.len()).expect("a frame is far below 4 GiB");
        self.buffer[..4].copy_from_slice(&bytes.to_be_bytes());
        out.extend_from_slice(&self.buffer);
        self.buffer.truncate(4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(messages: &[u32]) -> Vec<u8> {
        let mut writer = FrameWriter::default();
        for message in messages {
            writer.push(message);
        }
        let mut out = Vec::new();
        writer.finish(&mut out);
        out
    }

    #[test]
    fn a_frame_cut_anywhere_is_read_when_its_rest_arrives() {
        let bytes = [framed(&[1, 70_000]), framed(&[3])].concat();
        for cut in 0..=bytes.len() {
            let mut reader = FrameReader::default();
            let mut messages = Vec::<u32>::new();
            reader.buffer_mut().extend_from_slice(&bytes[..cut]);
            reader.drain(&mut messages).unwrap();
            reader.buffer_mut().extend_from_slice(&bytes[cut..]);
            reader.drain(&mut messages).unwrap();
            assert_eq!(messages, [1, 70_000, 3]);
        }
    }

    #[test]
    fn a_frame_over_the_limit_is_refused_before_it_arrives() {
        let mut reader = FrameReader::default();
        reader.buffer_mut().extend_from_slice(&u32::MAX.to_be_bytes());
        let result = reader.drain::<u32>(&mut Vec::new());
        assert!(matches!(result, Err(FrameError::TooLong { .. })));
    }

    #[test]
    fn a_payload_that_is_no_message_is_an_error() {
        let mut reader = FrameReader::default();
        reader.buffer_mut().extend_from_slice(&[0, 0, 0, 2, 0xc1, 0xc1]);
        let result = reader.drain::<u32>(&mut Vec::new());
        assert!(matches!(result, Err(FrameError::Malformed { index: 0, .. })));
    }
}
