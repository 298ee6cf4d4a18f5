//! The socket over which people ask a live run: `.rakuda/running/ID.sock`, or where that link
//! leads, on file systems that know no sockets. One line of JSON in, one out, one question a
//! connection.
//!
//! Clients are served by tasks of their own, with bounds on their number, their time and what they
//! may say; the hub is handed whole questions. It does not know what they mean.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{AtFlags, unlinkat};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{AbortHandle, spawn_local};

/// Maximum number of clients at a time; more wait to be let in.
const CLIENTS_MAX: usize = 16;
/// Maximum number of clients that may wait to be let in.
const BACKLOG: i32 = 128;
/// Maximum bytes of a question.
const QUESTION_BYTES_MAX: usize = 64 << 10;
/// Timeout for a client to ask, and to take the answer.
const CLIENT_TIME: Duration = Duration::from_secs(10);

/// A question, and where its answer goes.
pub(crate) type ControlQuestion = (Vec<u8>, oneshot::Sender<Vec<u8>>);

/// The open socket.
#[derive(Debug)]
pub(crate) struct Control {
    questions: mpsc::Receiver<ControlQuestion>,
    /// The folder that it is in, wherever that is now, and its name there.
    folder: File,
    name: String,
    /// The socket itself, when it cannot be there.
    elsewhere: Option<PathBuf>,
    acceptor: AbortHandle,
}

impl Control {
    /// Opens the socket of `run` in the folder `running`. Only the user may use it.
    pub fn open(running: &Path, run: &str) -> io::Result<Self> {
        let name = format!("{run}.sock");
        let path = running.join(&name);
        // The address of a socket must be short, and a path need not be.
        let folder = File::open(running)?;
        let address = format!("/proc/self/fd/{}/{name}", folder.as_raw_fd());
        let bound = bind_private(Path::new(&address)).map(|listener| (listener, None));
        let (listener, elsewhere) = bound.or_else(|_| bind_elsewhere(&name, &path))?;
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        let (sender, questions) = mpsc::channel(CLIENTS_MAX);
        let acceptor = spawn_local(accept(listener, sender)).abort_handle();
        Ok(Self { questions, folder, name, elsewhere, acceptor })
    }
}

/// Gfarm and the like have no sockets: it lies in the user's own folder on this machine, and `link` leads there.
fn bind_elsewhere(name: &str, link: &Path) -> io::Result<(StdUnixListener, Option<PathBuf>)> {
    let folder = rakuda_agent::files::make_scratch().map_err(io::Error::other)?;
    let path = folder.join(name);
    let listener = bind_private(&path)?;
    if let Err(error) = std::os::unix::fs::symlink(&path, link) {
        // No client could find it there.
        let _ = std::fs::remove_file(&path);
        return Err(error);
    }
    Ok((listener, Some(path)))
}

fn bind_private(address: &Path) -> io::Result<StdUnixListener> {
    // The file gets the mode that the socket has. The process's umask is not ours alone: other threads start programs.
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::fs::fchmod(&socket, rustix::fs::Mode::from_raw_mode(0o600))?;
    bind(&socket, &SocketAddrUnix::new(address)?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

impl Drop for Control {
    fn drop(&mut self) {
        self.acceptor.abort();
        // If it is gone already, nothing is lost.
        let _ = unlinkat(&self.folder, &self.name, AtFlags::empty());
        self.elsewhere.as_ref().map(std::fs::remove_file);
    }
}

/// The next question; waits for ever if there is no socket.
pub(crate) async fn next_question(control: &mut Option<Control>) -> ControlQuestion {
    if let Some(control) = control
        && let Some(question) = control.questions.recv().await
    {
        return question;
    }
    std::future::pending().await
}

async fn accept(listener: UnixListener, questions: mpsc::Sender<ControlQuestion>) {
    let places = Arc::new(Semaphore::new(CLIENTS_MAX));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let Ok((client, _)) = listener.accept().await else {
            // Out of descriptors, say: not worth a run.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let questions = questions.clone();
        spawn_local(async move {
            let _ = tokio::time::timeout(CLIENT_TIME, serve(client, questions)).await;
            drop(place);
        });
    }
}

async fn serve(mut client: UnixStream, questions: mpsc::Sender<ControlQuestion>) -> io::Result<()> {
    let mut line = Vec::new();
    while !line.contains(&b'\n') {
        if line.len() > QUESTION_BYTES_MAX || client.read_buf(&mut line).await? == 0 {
            return Ok(());
        }
    }
    let end = line.iter().position(|byte| *byte == b'\n').unwrap_or(line.len());
    line.truncate(end);
    let (sender, answer) = oneshot::channel();
    if questions.send((line, sender)).await.is_ok()
        && let Ok(mut answer) = answer.await
    {
        answer.push(b'\n');
        client.write_all(&answer).await?;
    }
    Ok(())
}
