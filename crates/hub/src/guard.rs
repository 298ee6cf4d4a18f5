//! The guard above this hub: the hub reports to it where the run is, and learns from it how the front has ended. The
//! run ends with the guard.
//!
//! It does not know what the guard does with that (docs/design/engine.md).

use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;

use rakuda_agent::processes;
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The link to the guard. Without one, as in tests, nothing is reported, and only the front's own link shows its end.
#[derive(Debug, Default)]
pub struct Guard {
    socket: Option<UnixStream>,
    process: Option<i32>,
    /// As wait(2) gives it, once it is known.
    front_status: Option<i32>,
}

impl Guard {
    /// This process, over a connected socket; within a runtime. The kernel is to send this process SIGCONT when the
    /// guard dies.
    pub fn new(process: i32, socket: StdUnixStream) -> std::io::Result<Self> {
        socket.set_nonblocking(true)?;
        let socket = Some(UnixStream::from_std(socket)?);
        Ok(Self { socket, process: Some(process), front_status: None })
    }

    /// What ends the run from outside.
    pub(crate) fn ends(&self) -> std::io::Result<Ends> {
        let terminate = signal(SignalKind::terminate())?;
        let resumed = signal(SignalKind::from_raw(libc::SIGCONT))?;
        // It may have died before this process listened.
        Ok(Ends { terminate, resumed, guard: self.process, is_over: is_gone(self.process) })
    }

    /// Reports the folder of the run, and so what it leaves when it is cut off.
    pub(crate) fn tell_directory(&self, directory: &Path) {
        // Without it the guard only leaves the targets to the next run.
        let bytes = directory.as_os_str().as_encoded_bytes();
        let _ = self.socket.as_ref().map(|socket| socket.try_write(bytes));
    }

    /// Whether this process is a hub alone, below a guard, and not one of a test beside others.
    pub(crate) fn was_above(&self) -> bool {
        self.process.is_some()
    }

    /// Whether it is gone, so that no process above this one ends what the run has left.
    pub(crate) fn is_gone(&self) -> bool {
        is_gone(self.process)
    }

    /// Whether the front's end is known: a second wait for it returns at once.
    pub(crate) fn has_told(&self) -> bool {
        self.front_status.is_some()
    }

    /// Waits for the end of the front's process. Returns its status as wait(2) gives it; waits for ever without a
    /// report.
    pub(crate) async fn front_ended(&mut self) -> i32 {
        if let Some(status) = self.front_status {
            return status;
        }
        let mut bytes = [0; 4];
        let read = match &mut self.socket {
            Some(socket) => socket.read_exact(&mut bytes).await.is_ok(),
            None => false,
        };
        if !read {
            // The guard is gone, which is one of the [`Ends`].
            return std::future::pending().await;
        }
        let status = i32::from_le_bytes(bytes);
        self.front_status = Some(status);
        status
    }
}

/// SIGTERM, or the end of the guard.
#[derive(Debug)]
pub(crate) struct Ends {
    terminate: Signal,
    /// SIGCONT: a guard stops all below it before it kills that, so the process that reports its end has to resume,
    /// too.
    resumed: Signal,
    guard: Option<i32>,
    is_over: bool,
}

impl Ends {
    /// Waits until the run is to end.
    pub async fn come(&mut self) {
        while !self.is_over {
            tokio::select! {
                _ = self.terminate.recv() => self.is_over = true,
                // Any process may have sent it.
                _ = self.resumed.recv() => self.is_over = is_gone(self.guard),
            }
        }
    }
}

/// Whether a guard is no parent of this process any more.
fn is_gone(guard: Option<i32>) -> bool {
    guard.is_some_and(|id| processes::parent() != id)
}
