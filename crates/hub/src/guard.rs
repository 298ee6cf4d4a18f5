//! The line to the guard above this hub: it is told where the run is, and tells how the front has ended.
//!
//! It does not know what the guard does with that (docs/design/engine.md).

use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;

use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;

/// See the module. Without a guard, as in tests, nobody is told anything and the front's end shows
/// on its own link alone.
#[derive(Debug, Default)]
pub struct Guard {
    socket: Option<UnixStream>,
    /// As wait(2) gives it, once it is known.
    front_status: Option<i32>,
}

impl Guard {
    /// Over a connected socket; within a runtime.
    pub fn new(socket: StdUnixStream) -> std::io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self { socket: Some(UnixStream::from_std(socket)?), front_status: None })
    }

    /// Where the run is, and so what it leaves when it is cut off.
    pub(crate) fn tell_directory(&self, directory: &Path) {
        // Without it the guard only leaves the targets to the next run.
        let bytes = directory.as_os_str().as_encoded_bytes();
        let _ = self.socket.as_ref().map(|socket| socket.try_write(bytes));
    }

    /// Whether it is known how the front has ended: who waits for that again does not wait.
    pub(crate) fn has_told(&self) -> bool {
        self.front_status.is_some()
    }

    /// Waits for the end of the front's process; its status as wait(2) gives it. For ever, when nobody tells.
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
            // The guard is gone; that comes as a signal.
            return std::future::pending().await;
        }
        let status = i32::from_le_bytes(bytes);
        self.front_status = Some(status);
        status
    }
}
