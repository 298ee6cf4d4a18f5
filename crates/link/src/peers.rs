//! Connections between hosts of a run, for what goes from one to another: TLS 1.3, both sides with a
//! certificate of the run's authority; then a key, which says what the connection is for.
//!
//! The side that waits for a key answers it with one byte, and has the connection when the other has taken that, and
//! says so with one byte: a side that gave up meanwhile leaves the key to another connection. It does not know what
//! goes over a connection.

use std::io::{Error, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::credentials::{Credentials, CredentialsError, PEER_NAME};
use crate::gate::STRANGERS_MAX;

/// Timeout for a key after a connection, and for its use after the key.
pub const GREETING_LIMIT: Duration = Duration::from_secs(10);
/// Bytes of a key.
pub const KEY_BYTES: usize = 16;
/// Byte that answers a key that is waited for.
const KNOWN: u8 = 1;

/// Byte that answers that one: the connection is used.
const TAKEN: u8 = 2;

/// Says what a connection is for. Its holder may make that connection.
pub type Key = [u8; KEY_BYTES];

/// A connection.
pub trait Connection: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Connection for T {}

/// Makes and takes connections.
pub struct Peers {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl Peers {
    /// One that has these credentials.
    pub fn new(credentials: &Credentials) -> Result<Self, CredentialsError> {
        Ok(Self { server: credentials.server()?, client: credentials.client()? })
    }

    /// Takes a connection, and returns it with its key.
    pub async fn accept(&self, stream: TcpStream) -> std::io::Result<(Key, Box<dyn Connection>)> {
        stream.set_nodelay(true)?;
        let mut stream = TlsAcceptor::from(Arc::clone(&self.server)).accept(stream).await?;
        let key = read_key(&mut stream).await?;
        Ok((key, Box::new(stream)))
    }

    /// Makes a connection to a host that waits for a key. It is to be taken (`take`).
    pub async fn dial(
        &self,
        address: SocketAddr,
        key: &Key,
    ) -> std::io::Result<Box<dyn Connection>> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(PEER_NAME).expect("it is a name");
        let connector = TlsConnector::from(Arc::clone(&self.client));
        let mut stream = connector.connect(name, stream).await?;
        show_key(&mut stream, key).await?;
        Ok(Box::new(stream))
    }
}

/// Hears what a connection is for.
pub async fn read_key(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Key> {
    let mut key = Key::default();
    stream.read_exact(&mut key).await?;
    Ok(key)
}

/// Takes connections as they come, for ever. Hands one that has shown a key in time to `met`, on a task of its own. One
/// that shows nothing gets no answer, and only a few of those are heard at a time. To be called on a `LocalSet`.
pub async fn take_all<Use>(
    listener: TcpListener,
    peers: Rc<Peers>,
    met: impl Fn(Key, Box<dyn Connection>) -> Use + 'static,
) where
    Use: Future<Output = ()> + 'static,
{
    let (strangers, met) = (Arc::new(Semaphore::new(STRANGERS_MAX)), Rc::new(met));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(stranger) = Arc::clone(&strangers).try_acquire_owned() else { continue };
        let (peers, met) = (Rc::clone(&peers), Rc::clone(&met));
        tokio::task::spawn_local(async move {
            let greeting = timeout(GREETING_LIMIT, peers.accept(stream)).await;
            drop(stranger);
            if let Ok(Ok((key, stream))) = greeting {
                met(key, stream).await;
            }
        });
    }
}

/// Says that this side waits for the key, and returns whether the other side then takes the connection in time.
pub async fn welcome(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> bool {
    answer_key(stream).await.is_ok()
        && matches!(timeout(GREETING_LIMIT, read_taken(stream)).await, Ok(Ok(())))
}

/// Says that this side waits for the key.
async fn answer_key(stream: &mut (impl AsyncWrite + Unpin)) -> std::io::Result<()> {
    stream.write_all(&[KNOWN]).await?;
    stream.flush().await
}

/// Hears that the other side takes the connection.
async fn read_taken(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<()> {
    match stream.read_u8().await? {
        TAKEN => Ok(()),
        _ => Err(Error::from(ErrorKind::InvalidData)),
    }
}

/// Takes a connection whose key was answered. Not to be given up in the middle.
pub async fn take(stream: &mut (impl AsyncWrite + Unpin)) -> std::io::Result<()> {
    stream.write_all(&[TAKEN]).await?;
    stream.flush().await
}

/// Says what a connection is for, and hears that the other side waits for it. It is to be taken then.
pub async fn show_key(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    key: &Key,
) -> std::io::Result<()> {
    stream.write_all(key).await?;
    stream.flush().await?;
    match stream.read_u8().await? {
        KNOWN => Ok(()),
        _ => Err(Error::from(ErrorKind::InvalidData)),
    }
}

/// Listens at all addresses of this machine. To be called where tokio is.
pub fn listen() -> std::io::Result<TcpListener> {
    let any = [IpAddr::from(Ipv6Addr::UNSPECIFIED), IpAddr::from(Ipv4Addr::UNSPECIFIED)];
    let bind = |address| std::net::TcpListener::bind(SocketAddr::new(address, 0));
    let listener = bind(any[0]).or_else(|_| bind(any[1]))?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// The addresses of this machine that others may reach, without loopback: those that it has on its
/// way to each network that it knows.
pub fn own_addresses() -> Vec<IpAddr> {
    let routes = std::fs::read_to_string("/proc/net/route").unwrap_or_default();
    let six = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let mut found: Vec<IpAddr> = Vec::new();
    for network in networks(&routes) {
        if let Ok(own) = crate::tcp::address_towards(&network.to_string())
            && !own.is_loopback()
            && !found.contains(&own)
        {
            found.push(own);
        }
    }
    found.extend(global_addresses(&six).into_iter().map(IpAddr::from));
    found
}

/// Networks and gateways of the kernel's table.
fn networks(table: &str) -> Vec<Ipv4Addr> {
    let address = |word: &str| {
        let number = u32::from_str_radix(word, 16).ok()?;
        (number != 0).then(|| Ipv4Addr::from(number.to_ne_bytes()))
    };
    let rows = table.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
    rows.flat_map(|row| [1, 2].map(|column| row.get(column).and_then(|word| address(word))))
        .flatten()
        .collect()
}

/// Addresses of version 6 that are good beyond the link.
fn global_addresses(table: &str) -> Vec<Ipv6Addr> {
    let rows = table.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
    let global = rows.filter(|row| row.get(3) == Some(&"00"));
    global.filter_map(|row| Some(Ipv6Addr::from(u128::from_str_radix(row[0], 16).ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::Authority;

    #[test]
    fn addresses_are_read_from_the_kernels_tables() {
        let table = "Iface\tDestination\tGateway \tFlags\neth0\t00000000\t0100630A\t0003\neth0\t0000630A\t00000000\t0001\n";
        let expected = [[10, 99, 0, 1], [10, 99, 0, 0]].map(Ipv4Addr::from);
        assert_eq!(networks(table), expected);
        let six = "fe80000000000000020000fffe000001 02 40 20 80 eth0\n20010db8000000000000000000000001 02 40 00 80 eth0\n";
        assert_eq!(global_addresses(six), ["2001:db8::1".parse::<Ipv6Addr>().unwrap()]);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn who_has_the_runs_credentials_and_a_key_is_let_in_and_nobody_else() {
        let (ours, others) = (Authority::new().unwrap(), Authority::new().unwrap());
        let peer = |authority: &Authority| Peers::new(&authority.issue_peer().unwrap()).unwrap();
        let (one, other, stranger) = (peer(&ours), peer(&ours), peer(&others));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serve = async {
            let mut heard = Vec::new();
            for _ in 0..2 {
                let (stream, _) = listener.accept().await.unwrap();
                if let Ok((key, mut stream)) = one.accept(stream).await {
                    answer_key(&mut stream).await.unwrap();
                    heard.push(key);
                }
            }
            heard
        };
        let dial = async {
            assert!(stranger.dial(address, &[2; KEY_BYTES]).await.is_err());
            other.dial(address, &[3; KEY_BYTES]).await.map(drop)
        };
        let (heard, dialled) = tokio::join!(serve, dial);
        dialled.unwrap();
        assert_eq!(heard, [[3; KEY_BYTES]]);
    }
}
