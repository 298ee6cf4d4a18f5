//! Many channels of bytes over one connection (yamux): one side opens them, the other takes them,
//! each has its own flow control.
//!
//! The connection is driven by one future; when that ends, or is dropped, all its channels end. It
//! does not know what goes over them.

use std::future::poll_fn;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, BufReader, BufWriter};
use tokio::sync::{mpsc, oneshot};
use tokio_util::compat::{Compat, FuturesAsyncReadCompatExt as _, TokioAsyncReadCompatExt as _};
use yamux::{Config, Connection, ConnectionError, Mode};

/// Maximum channels of one connection at a time. One takes memory for what has arrived and was not
/// read: 256 KiB, or what the line carries in two round trips.
const CHANNELS_MAX: usize = 1 << 17;
/// Bytes of the buffers that are read and written at once.
const BUFFER_BYTES: usize = 64 << 10;

/// One channel; dropping it ends it for the other side, too.
pub type Channel = Compat<yamux::Stream>;

/// Opens channels.
#[derive(Debug, Clone)]
pub struct Opener(mpsc::UnboundedSender<oneshot::Sender<Channel>>);

impl Opener {
    /// Whether the connection is over.
    pub fn is_over(&self) -> bool {
        self.0.is_closed()
    }

    /// A new channel. The other side sees it with its first byte. `None`: the connection is over.
    pub async fn open(&self) -> Option<Channel> {
        let (sender, channel) = oneshot::channel();
        self.0.send(sender).ok()?;
        channel.await.ok()
    }
}

/// The side that opens channels. The future returns why the connection ended.
pub fn connect(
    reader: impl AsyncRead + Unpin,
    writer: impl AsyncWrite + Unpin,
) -> (Opener, impl Future<Output = String>) {
    let (sender, wanted) = mpsc::unbounded_channel();
    // Channels of the other side are not wanted; they end at once.
    let driver = Driver { wanted: Some(wanted), next: None, on_channel: drop };
    (Opener(sender), driver.drive(reader, writer, Mode::Client))
}

/// The side that takes channels. Returns why the connection ended.
pub async fn accept(
    reader: impl AsyncRead + Unpin,
    writer: impl AsyncWrite + Unpin,
    on_channel: impl FnMut(Channel),
) -> String {
    Driver { wanted: None, next: None, on_channel }.drive(reader, writer, Mode::Server).await
}

struct Driver<F> {
    /// Requests for channels.
    wanted: Option<mpsc::UnboundedReceiver<oneshot::Sender<Channel>>>,
    /// The request that the next one is for.
    next: Option<oneshot::Sender<Channel>>,
    on_channel: F,
}

impl<F: FnMut(Channel)> Driver<F> {
    async fn drive(
        mut self,
        reader: impl AsyncRead + Unpin,
        writer: impl AsyncWrite + Unpin,
        mode: Mode,
    ) -> String {
        let mut config = Config::default();
        config.set_max_connection_receive_window(None);
        config.set_max_num_streams(CHANNELS_MAX);
        // yamux reads and writes heads by themselves.
        let reader = BufReader::with_capacity(BUFFER_BYTES, reader);
        let writer = BufWriter::with_capacity(BUFFER_BYTES, writer);
        let both = tokio::io::join(reader, writer).compat();
        let mut connection = Connection::new(both, config, mode);
        poll_fn(|context| self.poll(&mut connection, context)).await
    }

    fn poll<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
        &mut self,
        connection: &mut Connection<Compat<tokio::io::Join<R, W>>>,
        context: &mut Context<'_>,
    ) -> Poll<String> {
        loop {
            if self.next.is_none()
                && let Some(wanted) = &mut self.wanted
                && let Poll::Ready(next) = wanted.poll_recv(context)
            {
                // When nobody can want one any more, those that are there go on.
                self.next = next;
                if self.next.is_none() {
                    self.wanted = None;
                }
            }
            if self.next.is_some() {
                match connection.poll_new_outbound(context) {
                    Poll::Ready(Ok(channel)) => {
                        let next = self.next.take().expect("it was there");
                        let _ = next.send(channel.compat());
                        continue;
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(told(Err(error))),
                    Poll::Pending => {}
                }
            }
            match connection.poll_next_inbound(context) {
                Poll::Ready(Some(Ok(channel))) => (self.on_channel)(channel.compat()),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(told(Err(error))),
                Poll::Ready(None) => return Poll::Ready(told(Ok(()))),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

fn told(result: Result<(), ConnectionError>) -> String {
    match result {
        Ok(()) | Err(ConnectionError::Closed) => "the connection was closed".into(),
        Err(error) => error.to_string(),
    }
}
