//! The hub as a process: descriptors, the runtime, and dying with the guard.

use std::os::fd::FromRawFd as _;
use std::os::unix::net::UnixStream;

use anyhow::Context as _;
use rakuda_agent::{limits, orphans, processes};
use rakuda_hub::{Guard, RunEnding};

/// Names the descriptor of the link to the front.
pub const FRONT: &str = "--front-fd";
/// Names the descriptor of the line to the guard.
pub const GUARD: &str = "--guard-fd";

/// The run has ended by itself, and what is left of it may stay.
pub const GOOD: i32 = 0;
/// As `GOOD`, but targets are to be looked at once more, when nothing of the run is left.
pub const UNSETTLED: i32 = 3;
/// Nothing of the run may be left.
const STOPPED: i32 = 1;

/// Serves the front until it leaves. Returns the exit status.
pub fn run(front: i32, guard: i32) -> anyhow::Result<i32> {
    processes::set_name(processes::HUB_NAME);
    limits::widen();
    let guard_process = processes::parent();
    let (stream, guard) = (adopt(front), adopt(guard));
    // When both guards are killed, what commands have left behind comes to this process.
    processes::become_subreaper().context("take over orphaned processes")?;
    // A guard stops this process before it kills it, and may itself be killed in between.
    if !processes::die_with_parent(guard_process, libc::SIGCONT) || processes::is_closed(&guard) {
        anyhow::bail!("find the guard that started this process");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    let local = tokio::task::LocalSet::new();
    let ending = local.block_on(&runtime, async {
        tokio::task::spawn_local(orphans::reap_seldom());
        let guard = Guard::new(guard_process, guard).context("set up the line to the guard")?;
        rakuda_hub::run(stream, guard).await.map_err(anyhow::Error::from)
    })?;
    Ok(match ending {
        RunEnding::Goodbye => GOOD,
        RunEnding::Unsettled => UNSETTLED,
        RunEnding::Stopped | RunEnding::CutOff => STOPPED,
    })
}

#[allow(unsafe_code, reason = "a descriptor that was handed over by number")]
fn adopt(descriptor: i32) -> UnixStream {
    processes::set_close_on_exec(descriptor, true);
    // SAFETY: the guard left this descriptor open for us and nothing else in this process uses it.
    unsafe { UnixStream::from_raw_fd(descriptor) }
}
