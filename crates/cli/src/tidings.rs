//! What the guard tells the process above it: one message each, over a socket that keeps them apart.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rakuda_agent::signals::Received;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};

/// Maximum bytes of a message: a path, and a word.
const BYTES_MAX: usize = 1 << 13;

/// Something that the guard has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tiding {
    /// Ruby runs as this process.
    Front(i32),
    /// This signal has come to the guard.
    Signalled(Received),
    /// A hub has said where its run is.
    Directory(PathBuf),
    /// All is over; how the front ended, as wait(2) gives it.
    Ended(i32),
}

/// Two connected ends.
pub fn pair() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let kind = SocketType::SEQPACKET;
    Ok(socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?)
}

/// Sends a tiding. One that nobody takes is lost: then the process above is gone.
pub fn tell(socket: &OwnedFd, tiding: &Tiding) {
    let bytes = match tiding {
        Tiding::Front(id) => format!("front {id}").into_bytes(),
        Tiding::Signalled(Received { signal, sender }) => {
            format!("signal {signal} {}", sender.map_or(0, u64::from)).into_bytes()
        }
        Tiding::Directory(path) => [b"directory ", path.as_os_str().as_bytes()].concat(),
        Tiding::Ended(status) => format!("ended {status}").into_bytes(),
    };
    let _ = rustix::io::retry_on_intr(|| send(socket, &bytes, SendFlags::NOSIGNAL));
}

/// The next tiding that has come. `None`: there is none now.
pub fn receive(socket: &OwnedFd) -> Option<Tiding> {
    let mut bytes = vec![0; BYTES_MAX];
    let received = rustix::io::retry_on_intr(|| recv(socket, &mut bytes[..], RecvFlags::DONTWAIT));
    parse(&bytes[..received.ok()?.0])
}

fn parse(bytes: &[u8]) -> Option<Tiding> {
    if let Some(path) = bytes.strip_prefix(b"directory ") {
        return Some(Tiding::Directory(Path::new(OsStr::from_bytes(path)).to_path_buf()));
    }
    let mut words = str::from_utf8(bytes).ok()?.split(' ');
    let (word, number) = (words.next()?, words.next()?.parse().ok()?);
    match word {
        "front" => Some(Tiding::Front(number)),
        "ended" => Some(Tiding::Ended(number)),
        "signal" => {
            let sender: u32 = words.next()?.parse().ok()?;
            let sender = (sender > 0).then_some(sender);
            Some(Tiding::Signalled(Received { signal: number, sender }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rakuda_agent::processes::is_closed;

    use super::*;

    #[test]
    fn tidings_arrive_as_they_were_told() {
        let (one, other) = pair().unwrap();
        let told = [
            Tiding::Front(12),
            Tiding::Signalled(Received { signal: 15, sender: Some(3) }),
            Tiding::Signalled(Received { signal: 2, sender: None }),
            Tiding::Directory("/a folder\nof two lines".into()),
            Tiding::Ended(256),
        ];
        for tiding in &told {
            tell(&one, tiding);
        }
        let received: Vec<_> = std::iter::from_fn(|| receive(&other)).collect();
        assert_eq!(received, told);
        assert!(!is_closed(&other));
        drop(one);
        assert!(is_closed(&other));
    }
}
