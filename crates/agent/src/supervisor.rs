//! The program that has started this one and watches it (systemd's `Type=notify`): this one reports
//! to it when it is ready, by a datagram to the socket that the environment names (`sd_notify(3)`).
//!
//! It does not know what is served, and works without a supervisor.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable that names the socket; one without a name in the file system begins with `@`.
const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";

/// The socket of the supervisor.
#[derive(Debug)]
pub struct Supervisor {
    socket: OsString,
}

impl Supervisor {
    /// As the environment names it. `None`: it names none.
    pub fn named() -> Option<Self> {
        let socket = std::env::var_os(SOCKET_VARIABLE).filter(|socket| !socket.is_empty())?;
        Some(Self { socket })
    }

    /// This program does now what it is there for.
    ///
    /// # Errors
    /// The socket is not there, or does not take it.
    pub fn be_ready(&self) -> io::Result<()> {
        let address = match self.socket.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            path => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path))?,
        };
        UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_supervisor_hears_that_this_is_ready_at_either_kind_of_socket() {
        let path = std::env::temp_dir().join(format!("rakuda-ready-{}", std::process::id()));
        let name = format!("rakuda-test-{}", std::process::id());
        for (socket, address) in [
            (path.clone().into_os_string(), SocketAddr::from_pathname(&path).unwrap()),
            (format!("@{name}").into(), SocketAddr::from_abstract_name(&name).unwrap()),
        ] {
            let there = UnixDatagram::bind_addr(&address).unwrap();
            Supervisor { socket }.be_ready().unwrap();
            let mut said = [0; 16];
            let length = there.recv(&mut said).unwrap();
            assert_eq!(&said[..length], b"READY=1");
        }
        std::fs::remove_file(&path).unwrap();
        let nowhere = Supervisor { socket: path.with_extension("nowhere").into() };
        assert_eq!(nowhere.be_ready().unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
