//! One `rakudad locate` from its start to its end. It knows how such a process is begun and ended,
//! and not what it is asked.

use std::cell::RefCell;
use std::time::Duration;

use rakuda_agent::Helper;
use rustix::process::Signal;
use tokio::io::{AsyncReadExt as _, BufReader};
use tokio::net::unix::pipe::{Receiver, Sender};

use crate::conversation::greet;
use crate::serve::WORD;

/// Maximum bytes that are kept of what one writes to stderr: the last ones.
const COMPLAINT_BYTES: usize = 2048;

/// What it answers comes from here.
pub(crate) type From = BufReader<Receiver>;

/// Starts one, has `talk` talk with it for no longer than `limit`, and ends it. What it complains
/// about goes into the error.
pub(crate) async fn converse<T>(
    limit: Option<Duration>,
    talk: impl AsyncFnOnce(&mut From, &mut Sender) -> Result<T, String>,
) -> Result<T, String> {
    // This very program, also when its file has been replaced meanwhile.
    let words: [&[u8]; 2] = [b"/proc/self/exe", WORD.as_bytes()];
    let helper = Helper::start(&words).map_err(|error| error.to_string())?;
    let told = |error: std::io::Error| error.to_string();
    let mut to = Sender::from_owned_fd(helper.stdin).map_err(told)?;
    let mut from = BufReader::new(Receiver::from_owned_fd(helper.stdout).map_err(told)?);
    let mut stderr = Receiver::from_owned_fd(helper.stderr).map_err(told)?;
    let complaint = RefCell::new(Vec::new());
    let listening = async {
        let mut piece = [0; 512];
        while let Ok(length @ 1..) = stderr.read(&mut piece).await {
            let mut complaint = complaint.borrow_mut();
            complaint.extend_from_slice(&piece[..length]);
            let excess = complaint.len().saturating_sub(COMPLAINT_BYTES);
            complaint.drain(..excess);
        }
        std::future::pending::<()>().await;
    };
    let talking = async {
        greet(&mut from).await?;
        talk(&mut from, &mut to).await
    };
    let too_late = async {
        match limit {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
        format!("get an answer within {} s", limit.unwrap_or_default().as_secs())
    };
    let ended = tokio::select! {
        ended = talking => ended,
        () = listening => unreachable!("it listens for ever"),
        reason = too_late => Err(reason),
    };
    helper.process.signal(Signal::KILL.as_raw());
    helper.process.ended().await;
    let complaint = complaint.into_inner();
    let last = complaint.split(|byte| *byte == b'\n').rfind(|line| !line.is_empty());
    ended.map_err(|reason| match last {
        Some(line) => format!("{reason} ({})", String::from_utf8_lossy(line)),
        None => reason,
    })
}
