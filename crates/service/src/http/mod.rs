//! The one HTTP server of Rakuda (docs/design/information.md, HTTP): HTTP/1.1 by hyper, for clients that show the
//! token.
//!
//! It knows which clients may come in, how many, and for how long they may keep it waiting; not what they ask.

mod body;
mod gate;
mod patient;

pub use body::Body;
pub(crate) use body::next_part;
pub use gate::{Gate, Refused};

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName,
    HeaderValue, ORIGIN, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use patient::Patient;

/// Maximum number of connections, without those of partners.
const CONNECTIONS_MAX: usize = 256;
/// Maximum number of those that have events, so that ordinary questions have room.
const STREAMS_MAX: usize = 192;
/// Maximum number of connections of partners; more of them are counted with the others.
const PARTNERS_MAX: usize = 2048;
/// Timeout for the head of a request, also of the next one on a connection that is kept.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Maximum length of the head of a request, bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Maximum length of the body of a request, bytes.
const BODY_BYTES_MAX: usize = 1 << 20;
/// Maximum length of such a body that has a frame in it (POST), bytes.
const FRAME_BYTES_MAX: usize = 64 << 20;

/// A request that was let in.
pub struct Asked {
    /// `GET`, ...; HEAD is asked as `GET`, and what is answered to it is not sent.
    pub method: Method,
    /// Without the query.
    pub path: String,
    /// What stands between its slashes, each decoded: a part may have a slash itself.
    pub parts: Vec<String>,
    /// The query, decoded, in its order.
    pub query: Vec<(String, String)>,
    /// Of the head.
    pub headers: HeaderMap,
    /// Whole.
    pub body: Vec<u8>,
}

impl Asked {
    /// The first value of a parameter of the query.
    pub fn of(&self, wanted: &str) -> Option<&str> {
        self.query.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
    }
}

/// An answer.
pub struct Reply {
    /// As HTTP numbers it.
    pub status: StatusCode,
    /// Of the body.
    pub content_type: &'static str,
    /// All of it, or events that go on.
    pub body: Body,
    /// Of one that refuses a method: those that are for what was asked.
    allow: Option<&'static str>,
}

impl Reply {
    /// One that has its body already.
    pub fn new(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self { status, content_type, body: Body::full(body), allow: None }
    }

    /// A reply with this number as its status, for callers that use nothing else of HTTP.
    pub fn numbered(status: u16, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self::new(status, content_type, body)
    }

    /// Events that go on.
    pub fn events(body: Body) -> Self {
        let content_type = "text/event-stream";
        Self { status: StatusCode::OK, content_type, body, allow: None }
    }

    /// There is such a thing, but only these methods are for it.
    pub fn not_allowed(asked: &Asked, allow: &'static str) -> Self {
        let message = format!("{} is not for {}; expected {allow}", asked.method, asked.path);
        Self { allow: Some(allow), ..Self::error(StatusCode::METHOD_NOT_ALLOWED, &message) }
    }

    /// A refusal, as JSON.
    pub fn error(status: StatusCode, message: &str) -> Self {
        let body = rakuda_info::format::json::write_error(message, None);
        Self::new(status, "application/json", body)
    }
}

/// A connection that is open.
struct Connection {
    task: AbortHandle,
    client: Rc<Client>,
}

/// What is known of the other end of a connection.
#[derive(Default)]
struct Client {
    /// A request of it was let in.
    is_known: Cell<bool>,
    /// It waits for an answer that is not made yet, or for events.
    waits: Cell<bool>,
    /// It has events, which have no end.
    has_events: Cell<bool>,
    /// It does not take what was sent.
    is_stuck: Rc<Cell<bool>>,
    /// Its connection is one of a partner's. It does not change back.
    is_partner: Cell<bool>,
}

impl Client {
    /// In which order connections make room for new ones. `None`: not at all.
    fn rank(&self) -> Option<u8> {
        if self.is_partner.get() {
            return None;
        }
        match (self.is_known.get(), self.is_stuck.get(), self.waits.get()) {
            (false, _, _) => Some(0),
            (true, false, false) => Some(1),
            (true, true, _) => Some(2),
            (true, false, true) => None,
        }
    }
}

/// A client waits as long as this is there.
struct Waiting(Rc<Client>);

impl Waiting {
    fn new(client: &Rc<Client>) -> Self {
        client.waits.set(true);
        Self(Rc::clone(client))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waits.set(false);
        self.0.has_events.set(false);
    }
}

/// All that are open, the oldest first.
type Connections = Rc<RefCell<BTreeMap<u64, Connection>>>;

/// Forgets a connection, however it ends.
struct Leaving {
    number: u64,
    connections: Connections,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.connections.borrow_mut().remove(&self.number);
    }
}

/// Lets clients in, for ever.
pub async fn serve<F, A>(listener: TcpListener, gate: Gate, answer: F)
where
    F: Fn(Asked) -> A + 'static,
    A: Future<Output = Reply> + 'static,
{
    let (gate, answer) = (Rc::new(gate), Rc::new(answer));
    let connections = Connections::default();
    for number in 0.. {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, most likely: some may be closed soon.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let others = connections.borrow().len() - partners(&connections);
        if others >= CONNECTIONS_MAX && !make_room(&connections).await {
            // It is closed; there is nobody to say more to.
            continue;
        }
        let Ok(own) = stream.local_addr() else { continue };
        let _ = stream.set_nodelay(true);
        let (gate, answer, all) = (Rc::clone(&gate), Rc::clone(&answer), Rc::clone(&connections));
        let client = Rc::new(Client::default());
        let its = Rc::clone(&client);
        let leaving = Leaving { number, connections: Rc::clone(&connections) };
        let task = tokio::task::spawn_local(async move {
            let _leaving = leaving;
            let service = service_fn(|request| respond(request, own, &gate, &its, &all, &*answer));
            let stream = Patient::new(stream, Rc::clone(&its.is_stuck));
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIME)
                .max_buf_size(HEAD_BYTES_MAX)
                .serve_connection(TokioIo::new(stream), service);
            // What is wrong with a connection ends it, and nothing else.
            let _ = connection.await;
        });
        let connection = Connection { task: task.abort_handle(), client };
        connections.borrow_mut().insert(number, connection);
    }
}

fn partners(connections: &Connections) -> usize {
    connections.borrow().values().filter(|it| it.client.is_partner.get()).count()
}

fn streams(connections: &Connections) -> usize {
    connections.borrow().values().filter(|it| it.client.has_events.get()).count()
}

/// Ends the oldest connection that has shown no token; else of one that is kept, but asks nothing; else of one that
/// does not read. `false`: there is no such connection.
async fn make_room(connections: &Connections) -> bool {
    let chosen = {
        let connections = connections.borrow();
        let ranked = connections.values().filter_map(|it| Some((it.client.rank()?, &it.task)));
        ranked.min_by_key(|(rank, _)| *rank).map(|(_, task)| task.clone())
    };
    if let Some(chosen) = &chosen {
        chosen.abort();
        // It goes when its task is looked at.
        tokio::task::yield_now().await;
    }
    chosen.is_some()
}

async fn respond<F, A>(
    request: Request<Incoming>,
    own: SocketAddr,
    gate: &Gate,
    client: &Rc<Client>,
    connections: &Connections,
    answer: &F,
) -> Result<Response<Body>, Infallible>
where
    F: Fn(Asked) -> A,
    A: Future<Output = Reply>,
{
    let waiting = Waiting::new(client);
    let is_open = gate.is_open(request.uri().path());
    let is_head = request.method() == Method::HEAD;
    let reply = match let_in(request, own, gate).await {
        Ok(asked) => {
            // A client that reads an open page has shown no token.
            client.is_known.set(client.is_known.get() || !is_open);
            if !client.is_partner.get() && gate.is_of_partner(&asked.path) {
                client.is_partner.set(partners(connections) < PARTNERS_MAX);
            }
            let reply = answer(asked).await;
            if reply.body.is_of_events() && !is_head && !client.is_partner.get() {
                if streams(connections) < STREAMS_MAX {
                    client.has_events.set(true);
                    reply
                } else {
                    let why = format!(
                        "{STREAMS_MAX} clients have events, which is the most: ask again later"
                    );
                    Reply::error(StatusCode::SERVICE_UNAVAILABLE, &why)
                }
            } else {
                reply
            }
        }
        Err(reply) => reply,
    };
    // Events have no length, and an end only for a client that does not want them.
    let length = is_head.then(|| reply.body.size_hint().exact());
    let body = if is_head { Body::full("") } else { reply.body };
    let mut response = Response::new(body.holding(waiting));
    *response.status_mut() = reply.status;
    let headers = response.headers_mut();
    if let Some(length) = length.flatten() {
        headers.insert(CONTENT_LENGTH, length.into());
    }
    if let Some(allow) = reply.allow {
        headers.insert(ALLOW, HeaderValue::from_static(allow));
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(reply.content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if reply.status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    Ok(response)
}

async fn let_in(request: Request<Incoming>, own: SocketAddr, gate: &Gate) -> Result<Asked, Reply> {
    let (head, mut incoming) = request.into_parts();
    let text = |name: HeaderName| -> Result<Option<&str>, Reply> {
        let mut values = head.headers.get_all(&name).iter();
        let first = values.next().map(|value| value.to_str());
        match (first.transpose(), values.next()) {
            (Ok(value), None) => Ok(value),
            _ => Err(Reply::error(
                StatusCode::BAD_REQUEST,
                &format!("one header {name} is expected"),
            )),
        }
    };
    let (host, origin, authorization) = (text(HOST)?, text(ORIGIN)?, text(AUTHORIZATION)?);
    let is_head = head.method == Method::HEAD;
    let is_open = (is_head || head.method == Method::GET) && gate.is_open(head.uri.path());
    let checked = if is_open {
        gate.check_site(host, origin, own)
    } else {
        gate.check(host, origin, authorization, own)
    };
    checked.map_err(|refused| {
        let status = match refused {
            Refused::Host | Refused::Origin => StatusCode::FORBIDDEN,
            Refused::Token => StatusCode::UNAUTHORIZED,
        };
        Reply::error(status, &refused.to_string())
    })?;
    let most = if head.method == Method::POST { FRAME_BYTES_MAX } else { BODY_BYTES_MAX };
    let mut body = Vec::new();
    while let Some(data) = next_part(&mut incoming).await {
        let bad = |_| Reply::error(StatusCode::BAD_REQUEST, "the body was cut off");
        let data = data.map_err(bad)?;
        if body.len() + data.len() > most {
            let message = format!("the body has more than {most} bytes");
            return Err(Reply::error(StatusCode::PAYLOAD_TOO_LARGE, &message));
        }
        body.extend_from_slice(&data);
    }
    let bad = || Reply::error(StatusCode::BAD_REQUEST, "the address has a bad % in it");
    let path = decoded(head.uri.path(), false).ok_or_else(bad)?;
    let parts = parts_of(head.uri.path()).ok_or_else(bad)?;
    let pairs = head.uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    let query = pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decoded(name, true)?, decoded(value, true)?))
        })
        .collect::<Option<Vec<_>>>()
        .ok_or_else(bad)?;
    let method = if is_head { Method::GET } else { head.method };
    Ok(Asked { method, path, parts, query, headers: head.headers, body })
}

fn parts_of(path: &str) -> Option<Vec<String>> {
    path.split('/').skip(1).map(|part| decoded(part, false)).collect()
}

/// Without `%41` and, in a query, `+` for a blank. `None`: it is not UTF-8, or not as it should be.
fn decoded(text: &str, plus_is_blank: bool) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                if !digits.iter().all(u8::is_ascii_hexdigit) {
                    return None;
                }
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            b'+' if plus_is_blank => b' ',
            byte => byte,
        });
    }
    String::from_utf8(out).ok()
}

/// A part of an address or a query, so that it is read as it is.
pub fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push('%');
            for digit in [byte >> 4, byte & 15] {
                out.push(char::from_digit(digit.into(), 16).unwrap_or('0').to_ascii_uppercase());
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_path_may_have_a_slash() {
        let path = format!("/v1/nodes/n1/attributes/{}", encoded("room('/a b')"));
        let expected = ["v1", "nodes", "n1", "attributes", "room('/a b')"];
        assert_eq!(parts_of(&path).unwrap(), expected);
        assert_eq!(parts_of("/v1/%zz"), None);
    }

    #[test]
    fn what_is_encoded_comes_back() {
        for text in ["", "load1 < 2 && has(gpu)", "fs_free('/my data')", "100%", "é+&="] {
            assert_eq!(decoded(&encoded(text), true).as_deref(), Some(text));
        }
        assert_eq!(decoded("a+b", true).as_deref(), Some("a b"));
        assert_eq!(decoded("a+b", false).as_deref(), Some("a+b"));
        for bad in ["%", "%4", "%zz", "%ff", "%+1"] {
            assert_eq!(decoded(bad, true), None, "{bad}");
        }
    }
}
