//! Reports the nodes that this one knows to another service, as long as both are there (docs/design/information.md, A
//! service under a service).
//!
//! Frames go up one at a time over one connection, so what waits is the newest. Wishes come over another one.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use hyper::Response;
use hyper::body::{Bytes, Incoming};
use hyper::{Method, StatusCode};
use rakuda_info::delta::Sender;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep, timeout};

use crate::client::{Channel, Client, ClientError};
use crate::http::{encoded, next_part};
use crate::sampling::moment;
use crate::service::Service;
use crate::sources::Wish;

/// Time for which findings are collected; they are sent together.
const BATCH: Duration = Duration::from_millis(50);
/// Maximum time between two messages: a connection that says nothing for longer is closed.
const BEAT_MAX: Duration = Duration::from_secs(5);
/// Minimum time between two messages without news.
const BEAT_MIN: Duration = Duration::from_millis(100);
/// Number of beats for which what was said holds.
const BEATS: u32 = 3;
/// Minimum time for which it holds.
const VALIDITY_MIN: Duration = Duration::from_secs(1);
/// Time between two tries to reach a service.
const PAUSE: Duration = Duration::from_secs(1);
/// Timeout for an answer.
const ANSWER_TIME: Duration = Duration::from_secs(15);
/// Time after which a value is sent again that has not moved by more than its threshold.
const SILENCE_NS: u64 = 10_000_000_000;
/// Maximum bytes of a wish.
const WISH_BYTES_MAX: usize = 1 << 20;

/// Where a service registers.
pub struct Registration {
    /// The other one.
    pub client: Client,
    /// What this one is called there; unique among those that register with it.
    pub name: String,
    /// Maximum time between two messages.
    pub period: Duration,
}

/// Registers, again and again when that ends, until this service ends.
pub(crate) async fn serve(
    service: Rc<Service>,
    registration: Registration,
    mut ended: oneshot::Receiver<()>,
) {
    let mut sender = Sender::new(SILENCE_NS).telling_samples();
    let mut said = None;
    let mut id = rakuda_agent::processes::random();
    loop {
        let is_told = RefCell::new(false);
        let mut session = Session::new(&service, &registration, id);
        let on_told = || *is_told.borrow_mut() = true;
        let error = match session.serve(&mut sender, &on_told, &mut ended).await {
            Ok(()) => return,
            Err(error) => error,
        };
        // A service that has lost its name to another one is known by its session, and does not take the name back.
        let is_taken =
            matches!(error, ClientError::Refused { status, .. } if status == StatusCode::LOCKED);
        if !is_taken {
            id = rakuda_agent::processes::random();
        }
        let what = error.to_string();
        if is_told.into_inner() {
            said = None;
        }
        if said.as_ref() != Some(&what) {
            service.complain(&format!("failed to register: {what}"));
            said = Some(what);
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            _ = &mut ended => return,
        }
    }
}

struct Session<'a> {
    service: &'a Rc<Service>,
    registration: &'a Registration,
    beat: Duration,
    /// Of requests that tell.
    path: String,
    /// The last wish that was fulfilled.
    answered: u64,
    /// The other one has heard of it.
    has_begun: bool,
}

impl<'a> Session<'a> {
    fn new(service: &'a Rc<Service>, registration: &'a Registration, id: u64) -> Self {
        let beat = registration.period.clamp(BEAT_MIN, BEAT_MAX);
        let validity = (BEATS * beat).max(VALIDITY_MIN);
        let name = encoded(&registration.name);
        let path =
            format!("/v1/sources/{name}?session={id:016x}&validity={}ms", validity.as_millis());
        Self { service, registration, beat, path, answered: 0, has_begun: false }
    }

    async fn serve(
        &mut self,
        sender: &mut Sender,
        on_told: &dyn Fn(),
        ended: &mut oneshot::Receiver<()>,
    ) -> Result<(), ClientError> {
        sender.restart();
        let mut channel = tokio::select! {
            channel = self.registration.client.channel() => channel?,
            _ = &mut *ended => return Ok(()),
        };
        let mut changes = self.service.changes();
        let (fulfilled, mut fulfilments) = unbounded_channel();
        self.tell(&mut channel, sender, false).await?;
        on_told();
        let mut wishes = self.wishes().await?;
        // The time until what has changed is sent.
        let mut batch: Option<Pin<Box<Sleep>>> = None;
        loop {
            tokio::select! {
                // Its sender lives as long as the service.
                _ = changes.changed(), if batch.is_none() => {
                    batch = Some(Box::pin(sleep(BATCH)));
                    continue;
                }
                () = until(batch.as_mut(), self.beat) => {}
                wish = wishes.next() => {
                    let wish = wish?;
                    sender.tell_exactly(&[], moment().now);
                    tokio::task::spawn_local(fulfil(Rc::clone(self.service), wish, fulfilled.clone()));
                    continue;
                }
                // Somebody waits for it.
                Some(number) = fulfilments.recv() => self.answered = number.max(self.answered),
                _ = &mut *ended => return self.tell(&mut channel, sender, true).await,
            }
            batch = None;
            changes.mark_unchanged();
            self.tell(&mut channel, sender, false).await?;
        }
    }

    /// Reports what is new, or only that this service is there.
    async fn tell(
        &mut self,
        channel: &mut Channel,
        sender: &mut Sender,
        is_last: bool,
    ) -> Result<(), ClientError> {
        let now = moment().now;
        let frame = self.service.look(|table| sender.take(table, now)).unwrap_or_default();
        let begins = if self.has_begun { "" } else { "&begins=true" };
        let last = if is_last { "&last=true" } else { "" };
        let path = format!("{}&answered={}{begins}{last}", self.path, self.answered);
        let answer = async {
            let mut answer = channel.ask(Method::POST, &path, "*/*", frame.into()).await?;
            let text = channel.rest(&mut answer).await?;
            Channel::good(&answer, &text)
        };
        let answer = timeout(ANSWER_TIME, answer).await;
        answer.map_err(|_| self.registration.client.silent())??;
        self.has_begun = true;
        Ok(())
    }

    async fn wishes(&self) -> Result<Wishes, ClientError> {
        let mut channel = self.registration.client.channel().await?;
        let path = format!("/v1/sources/{}/wishes", encoded(&self.registration.name));
        let answer = channel.ask(Method::GET, &path, "text/event-stream", Bytes::new());
        let answer = timeout(ANSWER_TIME, answer).await;
        let mut answer = answer.map_err(|_| self.registration.client.silent())??;
        if answer.status() != StatusCode::OK {
            let text = channel.rest(&mut answer).await?;
            Channel::good(&answer, &text)?;
        }
        Ok(Wishes { channel, answer, bytes: Vec::new() })
    }
}

/// Waits for the end of the batch or, without one, for `beat`.
async fn until(batch: Option<&mut Pin<Box<Sleep>>>, beat: Duration) {
    match batch {
        Some(batch) => batch.await,
        None => sleep(beat).await,
    }
}

/// Has all sampled that is too old, and says so.
async fn fulfil(service: Rc<Service>, wish: Wish, fulfilled: UnboundedSender<u64>) {
    service.refresh(&wish.freshness).await;
    // The session may have ended.
    let _ = fulfilled.send(wish.number);
}

/// What is wished, in its order.
struct Wishes {
    channel: Channel,
    answer: Response<Incoming>,
    /// Of wishes that have come in part.
    bytes: Vec<u8>,
}

impl Wishes {
    /// Loses nothing when it is dropped before its end.
    async fn next(&mut self) -> Result<Wish, ClientError> {
        loop {
            if let Some(end) = self.bytes.windows(2).position(|two| two == b"\n\n") {
                let event: Vec<u8> = self.bytes.drain(..end + 2).collect();
                let wish = event.strip_prefix(b"data: ").map(serde_json::from_slice);
                return match wish {
                    Some(Ok(wish)) => Ok(wish),
                    Some(Err(_)) | None => {
                        Err(self.channel.unreachable(&"what it wishes is not understood"))
                    }
                };
            }
            let part = next_part(self.answer.body_mut()).await;
            let part = part.ok_or_else(|| self.channel.unreachable(&"it has ended"))?;
            self.bytes.extend_from_slice(&part.map_err(|error| self.channel.unreachable(&error))?);
            if self.bytes.len() > WISH_BYTES_MAX {
                return Err(self.channel.unreachable(&"what it wishes has more than 1 MiB"));
            }
        }
    }
}
