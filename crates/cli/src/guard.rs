//! The guard: a small process above the hub that outlives it.
//!
//! It does nothing until the hub ends. When the hub was killed, all that the hub had started is handed to the guard by
//! the kernel (child subreaper), and the guard kills it, however deep, also what left its process group, and what the front had
//! started by itself (known by a mark in its environment), and settles the targets of the attempts that were cut off. It knows no protocol and holds no end of the front's socket.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use anyhow::Context as _;
use rakuda_agent::EnvironmentBlock;
use rakuda_agent::processes::{self, Ending};
use rakuda_hub::record;

use crate::hub_process;

/// Starts the hub and waits for its end. The exit status is the hub's.
pub fn run(front: i32) -> anyhow::Result<u8> {
    processes::set_name("rakuda-guard");
    processes::become_subreaper().context("take over orphaned processes")?;
    let (reader, writer) = rustix::pipe::pipe().context("make a pipe")?;
    processes::set_close_on_exec(reader.as_raw_fd(), true);
    let words = [
        "rakudad".to_owned(),
        hub_process::FLAG.to_owned(),
        front.to_string(),
        std::process::id().to_string(),
        writer.as_raw_fd().to_string(),
    ];
    let words: Vec<CString> = words.into_iter().map(CString::new).collect::<Result<_, _>>()?;
    processes::set_close_on_exec(front, false);
    let environment = EnvironmentBlock::new(std::env::vars_os());
    let front_process = processes::parent();
    let hub = processes::start_myself(&words, &environment).context("start the hub")?;
    drop(writer);
    processes::close(front);
    match processes::wait_for(hub.id) {
        Ending::Exited(0) => Ok(0),
        Ending::Exited(status) => {
            kill_all(front_process);
            Ok(u8::try_from(status).unwrap_or(1))
        }
        Ending::Killed(_) => {
            kill_all(front_process);
            erase_display();
            settle_what_was_cut_off(reader);
            Ok(1)
        }
    }
}

/// The front is spared: when it lives, it is about to say what happened.
fn kill_all(front_process: i32) {
    processes::kill_descendants();
    if let Some(mark) = processes::own_mark() {
        processes::kill_marked(&mark, &[front_process]);
    }
    processes::kill_descendants();
}

/// What the hub has drawn begins where the cursor rests; where nothing is drawn, nothing is below it.
fn erase_display() {
    if rustix::termios::isatty(rustix::stdio::stderr()) {
        crate::complain("\x1b[J");
    }
}

/// The hub wrote the run's directory into the pipe; its record there says what was cut off.
fn settle_what_was_cut_off(reader: OwnedFd) {
    let mut directory = Vec::new();
    if File::from(reader).read_to_end(&mut directory).is_ok() && !directory.is_empty() {
        for line in record::recover(Path::new(OsStr::from_bytes(&directory))) {
            crate::complain(&format!("rakuda: {line}\n"));
        }
    }
}
