//! A node's end of a data link as a process: files are read and written apart from the agent, so
//! that bulk holds up no heartbeat.
//!
//! It starts nothing, and ends with its connection.

use anyhow::Context as _;
use rakuda_agent::{files, processes};
use rakuda_link::stdio;

use crate::agent_process::take_descriptors;

/// Maximum threads that read and write: two for each transfer that the hub lets be under way, and
/// some.
const THREADS_MAX: usize = 32;

/// Serves until the other side closes. `None`: the words are wrong.
pub fn run(words: &[&str]) -> anyhow::Result<Option<u8>> {
    if words != ["--stdio"] {
        return Ok(None);
    }
    processes::set_name("rakuda-files");
    let (input, output) = take_descriptors().context("take stdin and stdout")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(THREADS_MAX)
        .build()
        .context("start the runtime")?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let (reader, writer) = (stdio::reader(input)?, stdio::writer(output)?);
        files::serve(reader, writer).await;
        std::io::Result::Ok(())
    })?;
    // A disk that hangs is not waited for.
    runtime.shutdown_background();
    Ok(Some(0))
}
