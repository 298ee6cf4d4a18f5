//! Asks a service, from a program that waits for the answer.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, HOST};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

use crate::http::{Body, next_part};
use crate::token::Token;

/// Timeout for a connection, and for the head of an answer.
const TIME: Duration = Duration::from_secs(15);
/// Timeout for anything on a stream of events: a service says at least every 15 s that there are none.
const SILENCE: Duration = Duration::from_secs(60);
/// Of a service whose events come to an end.
const ENDED: &str = "it has ended";
/// Maximum bytes of an answer that is read.
const BYTES_MAX: usize = 256 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// It is no address of a service.
    #[error("understand the address {0:?}; expected http://HOST:PORT")]
    Address(String),
    /// Nobody is there.
    #[error("reach the service at {address}: {what}")]
    Unreachable {
        /// Where.
        address: String,
        /// What the system says.
        what: String,
    },
    /// It refuses.
    #[error("{message} (status {status})")]
    Refused {
        /// As HTTP numbers it.
        status: u16,
        /// What it says.
        message: String,
    },
}

/// Where a service is, and what opens it.
pub struct Client {
    address: String,
    token: Token,
}

impl Client {
    /// That of an address such as `http://127.0.0.1:4000`.
    pub fn new(url: &str, token: Token) -> Result<Self, ClientError> {
        let wrong = || ClientError::Address(url.to_owned());
        let address = url.strip_prefix("http://").ok_or_else(wrong)?.trim_end_matches('/');
        if address.is_empty() || address.contains('/') {
            return Err(wrong());
        }
        let has_port =
            address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = if has_port { address.to_owned() } else { format!("{address}:80") };
        Ok(Self { address, token })
    }

    /// The body of an answer.
    pub fn get(&self, path: &str) -> Result<Vec<u8>, ClientError> {
        self.whole(Method::GET, path, "*/*", Bytes::new())
    }

    /// Puts something there.
    pub fn put(&self, path: &str, body: impl Into<Bytes>) -> Result<Vec<u8>, ClientError> {
        self.whole(Method::PUT, path, "*/*", body.into())
    }

    /// Removes the resource at `path`.
    pub fn delete(&self, path: &str) -> Result<Vec<u8>, ClientError> {
        self.whole(Method::DELETE, path, "*/*", Bytes::new())
    }

    fn whole(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        body: Bytes,
    ) -> Result<Vec<u8>, ClientError> {
        self.within(async {
            let answer = self.ask(method, path, accept, body);
            let mut answer =
                tokio::time::timeout(TIME, answer).await.map_err(|_| self.silent())??;
            let mut bytes = Vec::new();
            while let Some(part) = next_part(answer.body_mut()).await {
                bytes.extend_from_slice(&part.map_err(|error| self.unreachable(&error))?);
                if bytes.len() > BYTES_MAX {
                    return Err(self.unreachable(&"its answer has more than 256 MiB"));
                }
            }
            let status = answer.status();
            if status.is_success() {
                return Ok(bytes);
            }
            Err(ClientError::Refused { status: status.as_u16(), message: message_of(&bytes) })
        })
    }

    /// What the service tells from now on.
    pub fn events(&self, path: &str) -> Result<Events<'_>, ClientError> {
        let runtime = self.runtime()?;
        let local = LocalSet::new();
        let answer = local.block_on(&runtime, async {
            let answer = self.ask(Method::GET, path, "text/event-stream", Bytes::new());
            tokio::time::timeout(TIME, answer).await.map_err(|_| self.silent())?
        })?;
        Ok(Events { client: self, runtime, local, answer, bytes: Vec::new() })
    }

    fn runtime(&self) -> Result<Runtime, ClientError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| self.unreachable(&error))
    }

    fn within<T>(
        &self,
        work: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        LocalSet::new().block_on(&self.runtime()?, work)
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, ClientError> {
        self.channel().await?.ask(method, path, accept, body).await
    }

    /// A connection for one request after the other, on the local set that it is called in.
    pub(crate) async fn channel(&self) -> Result<Channel, ClientError> {
        let addresses = self.address.to_socket_addrs().map_err(|error| self.unreachable(&error))?;
        let addresses: Vec<SocketAddr> = addresses.collect();
        let stream = TcpStream::connect(addresses.as_slice()).await;
        let stream = stream.map_err(|error| self.unreachable(&error))?;
        let _ = stream.set_nodelay(true);
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.unreachable(&error))?;
        tokio::task::spawn_local(connection);
        Ok(Channel {
            address: self.address.clone(),
            secret: self.token.secret().to_owned(),
            sender,
        })
    }

    fn unreachable(&self, what: &dyn std::fmt::Display) -> ClientError {
        unreachable(&self.address, what)
    }

    pub(crate) fn silent(&self) -> ClientError {
        self.unreachable(&format!("it has not answered within {} s", TIME.as_secs()))
    }
}

fn unreachable(address: &str, what: &dyn std::fmt::Display) -> ClientError {
    ClientError::Unreachable { address: format!("http://{address}"), what: what.to_string() }
}

/// A connection to a service.
pub(crate) struct Channel {
    address: String,
    secret: String,
    sender: http1::SendRequest<Body>,
}

impl Channel {
    /// The head of an answer; the body is to be read before the next request.
    pub async fn ask(
        &mut self,
        method: Method,
        path: &str,
        accept: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, ClientError> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.address)
            .header(ACCEPT, accept)
            .header(AUTHORIZATION, format!("Bearer {}", self.secret))
            .body(Body::full(body))
            .map_err(|error| self.unreachable(&error))?;
        let answer = self.sender.send_request(request).await;
        answer.map_err(|error| self.unreachable(&error))
    }

    /// The body of an answer.
    pub async fn rest(&self, answer: &mut Response<Incoming>) -> Result<Bytes, ClientError> {
        let mut bytes = Vec::new();
        while let Some(part) = next_part(answer.body_mut()).await {
            bytes.extend_from_slice(&part.map_err(|error| self.unreachable(&error))?);
            if bytes.len() > BYTES_MAX {
                return Err(self.unreachable(&"its answer has more than 256 MiB"));
            }
        }
        Ok(bytes.into())
    }

    /// Whether it is no refusal.
    pub fn good(answer: &Response<Incoming>, body: &[u8]) -> Result<(), ClientError> {
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        Err(ClientError::Refused { status: status.as_u16(), message: message_of(body) })
    }

    pub fn unreachable(&self, what: &dyn std::fmt::Display) -> ClientError {
        unreachable(&self.address, what)
    }
}

/// Events of a service, in their order. Between them others may be asked.
pub struct Events<'a> {
    client: &'a Client,
    runtime: Runtime,
    local: LocalSet,
    answer: Response<Incoming>,
    /// Of events that have come in part.
    bytes: Vec<u8>,
}

impl Events<'_> {
    /// Waits for an event. That the service ends, or says nothing for long, is an error.
    pub fn wait(&mut self) -> Result<(), ClientError> {
        let Self { client, runtime, local, answer, bytes } = self;
        let status = answer.status();
        local.block_on(runtime, async {
            loop {
                let end = bytes.windows(2).position(|two| two == b"\n\n");
                if let Some(end) = end.filter(|_| status.is_success()) {
                    let is_comment = bytes.starts_with(b":");
                    bytes.drain(..end + 2);
                    if is_comment {
                        continue;
                    }
                    return Ok(());
                }
                let part = tokio::time::timeout(SILENCE, next_part(answer.body_mut())).await;
                let silent = || format!("it has said nothing for {} s", SILENCE.as_secs());
                let part = part.map_err(|_| client.unreachable(&silent()))?;
                let Some(part) = part else { break };
                // Nobody ends a stream that has no end but by ending.
                let part = part.map_err(|_| client.unreachable(&ENDED))?;
                bytes.extend_from_slice(&part);
                if bytes.len() > BYTES_MAX {
                    return Err(client.unreachable(&"an event has more than 256 MiB"));
                }
            }
            if status.is_success() {
                return Err(client.unreachable(&ENDED));
            }
            Err(ClientError::Refused { status: status.as_u16(), message: message_of(bytes) })
        })
    }
}

/// What a refusal says.
fn message_of(bytes: &[u8]) -> String {
    rakuda_info::format::json::error_message(bytes)
        .unwrap_or_else(|| "the service has refused it".to_owned())
}
