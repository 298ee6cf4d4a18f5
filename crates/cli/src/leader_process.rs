//! The leader of a host group as a process.
//!
//! It has no guard: it runs no command, and what it has started (ssh, agents) ends with it, and
//! knows by itself what to do then.

use anyhow::Context as _;
use rakuda_agent::processes;
use rakuda_link::stdio;

use crate::agent_process::take_descriptors;

/// Leads until the hub ends that, or is gone.
pub fn run() -> anyhow::Result<u8> {
    processes::set_name("rakuda-leader");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    let local = tokio::task::LocalSet::new();
    let why = local.block_on(&runtime, async {
        let (input, output) = take_descriptors().context("take stdin and stdout")?;
        let reader = stdio::reader(input).context("read from stdin")?;
        let writer = stdio::writer(output).context("write to stdout")?;
        anyhow::Ok(rakuda_cluster::lead(reader, writer).await)
    })?;
    crate::complain(&format!("rakudad leader: ended: {why}\n"));
    Ok(1)
}
