//! The gate: the one place where a run listens. It lets in agents with the run's credentials, and
//! answers nothing to anybody else.
//!
//! A connection must finish TLS, with a certificate of the run's authority, and say hello, all
//! within a limit; then its token says to which launch it belongs. The first connection of a
//! session goes to that launch, later ones to the link that the session has. It does not know
//! nodes. While it is dropped, nothing listens any more; links live on.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use rakuda_proto::Text;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;
use tokio::time::{Duration, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::credentials::{Authority, CredentialsError};
use crate::greeting::{read_hello, say_refused};
use crate::hub::Arrival;

/// Timeout for a hello, from accept(2) to its end.
pub const HELLO_LIMIT: Duration = Duration::from_secs(10);
/// Maximum connections that have not shown yet whose they are. More are closed at once.
pub const STRANGERS_MAX: usize = 256;
/// Time between two tries to accept when the machine has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why nothing listens.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// It cannot listen at the address.
    #[error("listen at {address}: {source}")]
    Listen {
        /// That was wanted.
        address: SocketAddr,
        /// What the kernel says.
        source: std::io::Error,
    },
    /// No certificate.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
}

/// An agent that is let in: its first connection, and those that will take its place.
pub type DialIn = (Arrival, mpsc::Receiver<Arrival>);

/// The open gate of a run: it listens until it is dropped.
pub struct Gate {
    address: SocketAddr,
    register: Rc<RefCell<Register>>,
    listening: AbortHandle,
}

/// The agents that are expected, and those that are there.
#[derive(Default)]
struct Register {
    launches: BTreeMap<Text, mpsc::UnboundedSender<DialIn>>,
    /// By number: the launch's token, and the way to the link.
    sessions: BTreeMap<u64, (Text, mpsc::Sender<Arrival>)>,
    /// Sessions that were there: none of them comes back.
    over: BTreeSet<u64>,
}

impl Gate {
    /// Listens at `address` (port 0: any). Must be called inside a `tokio::task::LocalSet`.
    pub async fn open(address: SocketAddr, authority: &Authority) -> Result<Self, GateError> {
        let acceptor = TlsAcceptor::from(authority.server()?);
        let failed = |source| GateError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let register = Rc::<RefCell<Register>>::default();
        let listening = listen(listener, acceptor, Rc::clone(&register));
        let listening = tokio::task::spawn_local(listening).abort_handle();
        Ok(Self { address, register, listening })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets in agents that show `token`, until the receiver is dropped.
    pub fn admit(&self, token: Text) -> mpsc::UnboundedReceiver<DialIn> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.register.borrow_mut().launches.insert(token, sender);
        receiver
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn listen(listener: TcpListener, acceptor: TlsAcceptor, register: Rc<RefCell<Register>>) {
    let strangers = Arc::new(Semaphore::new(STRANGERS_MAX));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Ok(place) = Arc::clone(&strangers).try_acquire_owned() else { continue };
        let (acceptor, register) = (acceptor.clone(), Rc::clone(&register));
        tokio::task::spawn_local(async move {
            // A connection that fails here gets no answer and is not reported.
            if let Ok(Some(arrival)) = timeout(HELLO_LIMIT, meet(stream, acceptor)).await {
                drop(place);
                receive(arrival, &register).await;
            }
        });
    }
}

/// From a connection to a hello.
async fn meet(stream: TcpStream, acceptor: TlsAcceptor) -> Option<Arrival> {
    stream.set_nodelay(true).ok()?;
    let stream = acceptor.accept(stream).await.ok()?;
    let (mut reader, writer) = tokio::io::split(stream);
    let (hello, decoder) = read_hello(&mut reader).await.ok()?;
    Some(Arrival { hello, decoder, reader: Box::new(reader), writer: Box::new(writer) })
}

/// Brings a connection to where it belongs.
async fn receive(mut arrival: Arrival, register: &RefCell<Register>) {
    let place = register.borrow_mut().place_of(&arrival);
    let refusal = match place {
        Destination::New(launch) => {
            let (sender, later) = mpsc::channel(1);
            let (session, token) = (arrival.hello.session, arrival.hello.token.clone());
            register.borrow_mut().sessions.insert(session, (token, sender));
            let _ = launch.send((arrival, later));
            return;
        }
        Destination::Known(link) => match link.send(arrival).await {
            Ok(()) => return,
            Err(returned) => {
                arrival = returned.0;
                "its session is over"
            }
        },
        Destination::Over => "its session is over",
        Destination::Unknown => "nobody waits for it",
    };
    let _ = timeout(HELLO_LIMIT, say_refused(&mut arrival.writer, refusal)).await;
}

/// Where a connection belongs.
enum Destination {
    New(mpsc::UnboundedSender<DialIn>),
    Known(mpsc::Sender<Arrival>),
    Over,
    Unknown,
}

impl Register {
    fn place_of(&mut self, arrival: &Arrival) -> Destination {
        // Whose link has ended, or whose launch wants no more.
        let over = &mut self.over;
        self.sessions.retain(|session, (_, link)| !link.is_closed() || !over.insert(*session));
        self.launches.retain(|_, launch| !launch.is_closed());
        let (session, token) = (arrival.hello.session, &arrival.hello.token);
        match (self.sessions.get(&session), self.launches.get(token)) {
            (Some((of, link)), _) if of == token => Destination::Known(link.clone()),
            (None, _) if self.over.contains(&session) => Destination::Over,
            (None, Some(launch)) => Destination::New(launch.clone()),
            // Another's session, or nobody's token.
            (Some(_), _) | (None, None) => Destination::Unknown,
        }
    }
}
