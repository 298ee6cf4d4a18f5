//! What a leader talks to when it starts an agent, handed over by the program that it takes for ssh.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Maximum bytes of the name of a host.
const NAME_BYTES_MAX: usize = 64;

/// One agent's stdin and stdout.
pub(crate) struct Handed {
    /// Of its host's name.
    pub number: u32,
    pub input: OwnedFd,
    pub output: OwnedFd,
}

/// Listens there, on a thread of its own, until nobody takes what comes.
pub(crate) fn listen(socket: &Path) -> std::io::Result<UnboundedReceiver<std::io::Result<Handed>>> {
    let listener = UnixListener::bind(socket)?;
    let (sender, receiver) = unbounded_channel();
    std::thread::spawn(move || {
        while sender.send(listener.accept().and_then(|(stream, _)| take(&stream))).is_ok() {}
    });
    Ok(receiver)
}

fn take(stream: &UnixStream) -> std::io::Result<Handed> {
    let mut name = [0; NAME_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let parts = &mut [IoSliceMut::new(&mut name)];
    let bytes = recvmsg(stream, parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?.bytes;
    let mut descriptors = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect::<Vec<_>>(),
        _ => Vec::new(),
    });
    let (Some(input), Some(output)) = (descriptors.next(), descriptors.next()) else {
        return Err(std::io::Error::other("expected two descriptors"));
    };
    drop(descriptors);
    let text = String::from_utf8_lossy(&name[..bytes]).into_owned();
    let number = text.strip_prefix('s').and_then(|digits| digits.parse().ok());
    let number =
        number.ok_or_else(|| std::io::Error::other(format!("expected sNNNNN, got `{text}`")))?;
    Ok(Handed { number, input, output })
}
