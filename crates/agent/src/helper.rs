//! A program of the system that the engine itself needs, such as ssh: started with three pipes, and ended.
//!
//! It is no command of a task: nothing is counted or reported, and what it writes is its caller's business.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Mutex;

use rustix::pipe::{PipeFlags, pipe_with};

use crate::launch::own_environment;
use crate::lookup::{Wanted, find_program};
use crate::readiness::watch;
use crate::spawn::{
    DescriptorAction, EnvironmentBlock, Group, Launch, Process, SpawnError, Spawner,
};

/// A started program. Dropping it does not end it.
#[derive(Debug)]
pub struct Helper {
    /// The other end of its stdin.
    pub stdin: OwnedFd,
    /// The other end of its stdout.
    pub stdout: OwnedFd,
    /// The other end of its stderr.
    pub stderr: OwnedFd,
    /// Itself.
    pub process: HelperProcess,
}

/// The process of a [`Helper`].
#[derive(Debug, Clone)]
pub struct HelperProcess(Rc<Process>);

impl Helper {
    /// Starts `words`, the first looked up in PATH, in a process group of its own and with this process's environment.
    /// It is killed when the calling thread ends.
    pub fn start(words: &[&[u8]]) -> Result<Self, SpawnError> {
        let name = words.first().copied().unwrap_or_default();
        let shown = || String::from_utf8_lossy(name).into_owned();
        let environment = EnvironmentBlock::new(own_environment());
        let program = known_program(name, &environment.search_path);
        let program = program.ok_or_else(|| SpawnError::NotFound { name: shown() })?;
        let program = program.into_os_string().into_encoded_bytes();
        let program = CString::new(program).map_err(|_| SpawnError::Nul)?;
        let words: Result<Vec<CString>, _> = words.iter().map(|word| CString::new(*word)).collect();
        let words = words.map_err(|_| SpawnError::Nul)?;
        let refused = |source| SpawnError::Refused { program: shown(), source };
        let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(|error| refused(error.into()));
        let ((theirs_in, stdin), (stdout, theirs_out), (stderr, theirs_err)) =
            (pipe()?, pipe()?, pipe()?);
        let descriptors = [(&theirs_in, 0), (&theirs_out, 1), (&theirs_err, 2)]
            .map(|(end, to)| DescriptorAction::Duplicate { from: end.as_raw_fd(), to });
        let process = Spawner::new().start(&Launch {
            program: &program,
            words: &words,
            environment: &environment,
            directory: None,
            descriptors: &descriptors,
            group: Group::Own,
            control_group: None,
        });
        let process = HelperProcess(Rc::new(process.map_err(refused)?));
        Ok(Self { stdin, stdout, stderr, process })
    }
}

/// Looked up once: a folder of PATH may lie on a server that is away when it is wanted again.
fn known_program(name: &[u8], search_path: &[u8]) -> Option<PathBuf> {
    static KNOWN: Mutex<BTreeMap<Vec<u8>, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().expect("nothing fails while it is held");
    if let Some(program) = known.get(name) {
        return Some(program.clone());
    }
    let program = find_program(&Wanted { name, search_path, directory: None })?;
    known.insert(name.to_vec(), program.clone());
    Some(program)
}

impl HelperProcess {
    /// Waits for its end; the status is as wait(2) gives it. To be called once.
    pub async fn ended(&self) -> i32 {
        let pidfd = watch(Rc::clone(&self.0));
        loop {
            match &pidfd {
                Ok(pidfd) => drop(pidfd.readable().await),
                // No room in epoll: ask again and again, but let others run.
                Err(_) => tokio::task::yield_now().await,
            }
            if let Some((status, _)) = self.0.take_status() {
                return status;
            }
        }
    }

    /// Sends a signal to its process group.
    pub fn signal(&self, signal: i32) {
        self.0.signal_group(signal);
    }
}
