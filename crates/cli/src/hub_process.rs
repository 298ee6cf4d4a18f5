//! The hub as a process: descriptors, the runtime, and dying with the guard.

use std::os::fd::FromRawFd as _;
use std::os::unix::net::UnixStream;

use anyhow::Context as _;
use rakuda_agent::{limits, processes};
use rakuda_hub::RunEnding;

/// First argument of the hub's process.
pub const FLAG: &str = "--hub";

/// Serves the front at descriptor `front` until it leaves.
pub fn run(front: i32, guard: i32, pipe: i32) -> anyhow::Result<u8> {
    processes::set_name("rakudad");
    limits::widen();
    if !processes::die_with_parent(guard, libc::SIGTERM) {
        anyhow::bail!("find the guard that started this process");
    }
    processes::set_close_on_exec(front, true);
    processes::set_close_on_exec(pipe, true);
    let stream = adopt(front);
    let front_process = rustix::net::sockopt::socket_peercred(&stream).ok();
    let front_process = front_process.map(|peer| i32::from(peer.pid.as_raw_nonzero()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    let local = tokio::task::LocalSet::new();
    let tell_guard = |directory: &std::path::Path| {
        let bytes = directory.as_os_str().as_encoded_bytes();
        // Without it the guard only leaves the targets to the next run.
        let _ = rustix::io::write(processes::borrow(pipe), bytes);
    };
    let ending = local.block_on(&runtime, rakuda_hub::run(stream, tell_guard))?;
    if ending == RunEnding::CutOff
        && let Some(mark) = processes::own_mark()
    {
        // The guard does the same, if it is still there.
        let spared = [Some(guard), front_process].into_iter().flatten().collect::<Vec<_>>();
        processes::kill_marked(&mark, &spared);
    }
    Ok(match ending {
        RunEnding::Goodbye => 0,
        // The guard then ends what is left of the run.
        RunEnding::Stopped | RunEnding::CutOff => 1,
    })
}

#[allow(unsafe_code, reason = "a descriptor that was handed over by number")]
fn adopt(descriptor: i32) -> UnixStream {
    // SAFETY: the guard left this descriptor open for us and nothing else in this process uses it.
    unsafe { UnixStream::from_raw_fd(descriptor) }
}
