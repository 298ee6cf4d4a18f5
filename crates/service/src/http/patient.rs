//! A connection that fails when its client has taken nothing for a while.

use std::cell::Cell;
use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// Timeout for a client to take something of what waits for it.
const WRITE_TIME: Duration = Duration::from_secs(30);

pub(super) struct Patient {
    stream: TcpStream,
    /// Since when nothing could be written.
    until: Option<Pin<Box<Sleep>>>,
    /// Whether `until` is there, for others.
    is_stuck: Rc<Cell<bool>>,
}

impl Patient {
    pub fn new(stream: TcpStream, is_stuck: Rc<Cell<bool>>) -> Self {
        Self { stream, until: None, is_stuck }
    }

    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        self.is_stuck.set(result.is_pending());
        if result.is_ready() {
            self.until = None;
            return result;
        }
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(WRITE_TIME)));
        match until.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
