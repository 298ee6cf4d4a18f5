//! Descriptors of pipes and sockets as connections: stdin and stdout of an agent, and the hub's ends of them.

use std::os::fd::OwnedFd;

use rustix::fs::FileType;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// Where to read. An error for anything but a pipe or a Unix socket, which nothing can wait for.
pub fn reader(descriptor: OwnedFd) -> std::io::Result<Box<dyn AsyncRead + Unpin>> {
    match kind(&descriptor)? {
        FileType::Fifo => Ok(Box::new(pipe::Receiver::from_owned_fd(descriptor)?)),
        FileType::Socket => Ok(Box::new(socket(descriptor)?)),
        kind => Err(unfit(kind)),
    }
}

/// Where to write; as [`reader`].
pub fn writer(descriptor: OwnedFd) -> std::io::Result<Box<dyn AsyncWrite + Unpin>> {
    match kind(&descriptor)? {
        FileType::Fifo => Ok(Box::new(pipe::Sender::from_owned_fd(descriptor)?)),
        FileType::Socket => Ok(Box::new(socket(descriptor)?)),
        kind => Err(unfit(kind)),
    }
}

fn kind(descriptor: &OwnedFd) -> std::io::Result<FileType> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(descriptor)?.st_mode))
}

fn socket(descriptor: OwnedFd) -> std::io::Result<UnixStream> {
    let socket = std::os::unix::net::UnixStream::from(descriptor);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}

fn unfit(kind: FileType) -> std::io::Error {
    std::io::Error::other(format!("it is no pipe and no socket, but a {kind:?}"))
}
