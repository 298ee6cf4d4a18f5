//! How Ruby asks the guard for a hub: the environment in pieces, then the program with the socket
//! to it and the three standard streams. So the hub has what Ruby has at that moment, and is still
//! no child of it.
//!
//!     E<NAME=VALUE>\0<NAME=VALUE>\0...      a piece, cut anywhere
//!     S<umask, octal> <program>             with four descriptors: the link, and 0, 1 and 2
//!     P<process>                            serves the page of the run, and outlives it by a while

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::io::IoSliceMut;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};

/// Maximum bytes of a message.
const BYTES_MAX: usize = 1 << 16;
/// Number of descriptors of a request.
const DESCRIPTORS: usize = 4;

/// What a hub is started with.
pub struct HubRequest {
    /// The file to execute.
    pub program: OsString,
    /// The mask of files that it makes.
    pub umask: u32,
    /// Names and values.
    pub environment: Vec<(OsString, OsString)>,
    /// The link to the front, stdin, stdout and stderr.
    pub descriptors: [OwnedFd; DESCRIPTORS],
}

/// The guard's end.
pub struct HubRequests {
    /// `None`: nobody can ask any more.
    socket: Option<OwnedFd>,
    /// Pieces of the environment.
    environment: Vec<u8>,
    /// Processes that serve pages.
    pages: Vec<i32>,
}

impl HubRequests {
    /// With the end that is Ruby's.
    pub fn new() -> std::io::Result<(Self, OwnedFd)> {
        let kind = SocketType::SEQPACKET;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
        Ok((Self { socket: Some(ours), environment: Vec::new(), pages: Vec::new() }, theirs))
    }

    /// Processes that serve pages of runs: no part of what a run leaves behind.
    pub fn pages(&self) -> &[i32] {
        &self.pages
    }

    /// To be waited for.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    /// The next request that has come as a whole. `None`: there is none now.
    pub fn receive(&mut self) -> Option<HubRequest> {
        loop {
            let socket = self.socket.as_ref()?;
            let mut bytes = vec![0; BYTES_MAX];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut pieces = [IoSliceMut::new(&mut bytes)];
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            let received = recvmsg(socket, &mut pieces, &mut control, flags).ok()?;
            let descriptors = control.drain().filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
                _ => None,
            });
            let descriptors: Vec<OwnedFd> = descriptors.flatten().collect();
            match bytes[..received.bytes].split_first() {
                // The end of the stream: no message is empty.
                None => self.socket = None,
                Some((b'E', piece)) => self.environment.extend_from_slice(piece),
                Some((b'P', id)) => {
                    self.pages
                        .extend(str::from_utf8(id).ok().and_then(|id| id.parse::<i32>().ok()));
                }
                Some((_, words)) => {
                    let environment = variables(&std::mem::take(&mut self.environment));
                    let request = request(words, environment, descriptors);
                    if request.is_some() {
                        return request;
                    }
                }
            }
        }
    }
}

fn request(
    words: &[u8],
    environment: Vec<(OsString, OsString)>,
    descriptors: Vec<OwnedFd>,
) -> Option<HubRequest> {
    let place = words.iter().position(|byte| *byte == b' ')?;
    let umask = u32::from_str_radix(str::from_utf8(&words[..place]).ok()?, 8).ok()?;
    let program = OsStr::from_bytes(&words[place + 1..]).to_owned();
    let descriptors = descriptors.try_into().ok()?;
    Some(HubRequest { program, umask, environment, descriptors })
}

fn variables(block: &[u8]) -> Vec<(OsString, OsString)> {
    let variables = block.split(|byte| *byte == 0).filter_map(|variable| {
        let place = variable.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (&variable[..place], &variable[place + 1..]);
        Some((OsStr::from_bytes(name).to_owned(), OsStr::from_bytes(value).to_owned()))
    });
    variables.collect()
}
