//! Bodies of answers: whole, or events that are made when the client has room for them, so that
//! what waits for a client is the newest.

use std::any::Any;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};

type Next = Pin<Box<dyn Future<Output = Option<Bytes>>>>;

/// Of an answer.
pub struct Body {
    kind: Kind,
    /// Dropped when all of it has been given away.
    #[expect(dead_code, reason = "it is there to be dropped")]
    held: Option<Box<dyn Any>>,
}

enum Kind {
    /// `None`: it was sent.
    Full(Option<Bytes>),
    Events {
        make: Box<dyn FnMut() -> Next>,
        next: Option<Next>,
    },
}

impl Body {
    /// One that is there.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        Self { kind: Kind::Full(Some(bytes.into())), held: None }
    }

    /// One that goes on until `make` gives nothing. Each part is begun when the one before has been sent.
    pub fn events(make: impl FnMut() -> Next + 'static) -> Self {
        Self { kind: Kind::Events { make: Box::new(make), next: None }, held: None }
    }

    /// Whether it goes on.
    pub(super) fn is_of_events(&self) -> bool {
        matches!(self.kind, Kind::Events { .. })
    }

    /// Drops `what` when all of it has been given away, or nobody wants it any more.
    pub(super) fn holding(self, what: impl Any) -> Self {
        Self { held: Some(Box::new(what)), ..self }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.kind {
            Kind::Full(bytes) => {
                let bytes = bytes.take().filter(|bytes| !bytes.is_empty());
                Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
            }
            Kind::Events { make, next } => {
                let future = next.get_or_insert_with(make);
                let Poll::Ready(bytes) = future.as_mut().poll(context) else {
                    return Poll::Pending;
                };
                *next = None;
                Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Full(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Kind::Events { .. } => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Kind::Events { .. } => SizeHint::default(),
        }
    }
}

/// The next part of what comes in.
pub(crate) async fn next(incoming: &mut Incoming) -> Option<hyper::Result<Frame<Bytes>>> {
    poll_fn(|context| Pin::new(&mut *incoming).poll_frame(context)).await
}

/// The next data of what comes in.
pub(crate) async fn next_part(incoming: &mut Incoming) -> Option<hyper::Result<Bytes>> {
    loop {
        match next(incoming).await? {
            Ok(frame) => {
                if let Ok(data) = frame.into_data() {
                    return Some(Ok(data));
                }
            }
            Err(error) => return Some(Err(error)),
        }
    }
}
