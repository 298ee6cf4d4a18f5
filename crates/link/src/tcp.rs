//! Connections to the hub over TCP and TLS: the agent's side.

use std::net::{IpAddr, ToSocketAddrs as _, UdpSocket};

use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::credentials::{Credentials, CredentialsError, HUB_NAME};
use crate::hub::{Reader, Writer};

/// Dials the hub, as often as is wanted.
pub struct Dialler {
    /// `HOST:PORT`.
    address: String,
    connector: TlsConnector,
}

impl Dialler {
    /// One for the hub at `address` (`HOST:PORT`).
    pub fn new(address: &str, credentials: &Credentials) -> Result<Self, CredentialsError> {
        let connector = TlsConnector::from(credentials.client()?);
        Ok(Self { address: address.to_owned(), connector })
    }

    /// A new connection.
    pub async fn connect(&self) -> std::io::Result<(Reader, Writer)> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(HUB_NAME).expect("the hub's name is a name");
        let stream = self.connector.connect(name, stream).await?;
        let (reader, writer) = tokio::io::split(stream);
        Ok((Box::new(reader), Box::new(writer)))
    }
}

/// The address that this machine has on its way to `host`: where agents there can reach it. Nothing is sent.
pub fn address_towards(host: &str) -> std::io::Result<IpAddr> {
    let mut last = std::io::Error::from(std::io::ErrorKind::NotFound);
    for address in (host, 9).to_socket_addrs()? {
        let any: IpAddr = if address.is_ipv4() { [0, 0, 0, 0].into() } else { [0_u16; 8].into() };
        let found = UdpSocket::bind((any, 0)).and_then(|socket| {
            socket.connect(address)?;
            socket.local_addr()
        });
        match found {
            Ok(found) => return Ok(found.ip()),
            Err(error) => last = error,
        }
    }
    Err(last)
}
