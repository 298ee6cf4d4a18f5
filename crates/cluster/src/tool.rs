//! Asks programs of a batch system: starts one, waits for its end, keeps its words.
//!
//! It does not know what they mean.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::watched::{self, Started};

/// Timeout for a program: one that takes longer asks a server that does not answer.
const LIMIT: Duration = Duration::from_secs(60);
/// Maximum bytes of its output that are read.
const OUTPUT_BYTES_MAX: u64 = 16 << 20;
/// Timeout for what it has written, after its end.
const OUTPUT_LIMIT: Duration = Duration::from_millis(500);

/// Takes the run's mark out of the environment: batch systems hand that on to other machines, where
/// the process that drew the mark is not to be found, and its processes would pass for what a dead
/// run has left.
const UNMARKED: [&[u8]; 3] = [b"env", b"-u", b"RAKUDA_RUN"];

/// Starts `words`.
pub(crate) fn start(words: &[String]) -> Result<Started, String> {
    let words_of_tool = words.iter().map(String::as_bytes);
    let bytes: Vec<&[u8]> = UNMARKED.into_iter().chain(words_of_tool).collect();
    watched::start(&bytes)
}

/// Runs `words` to their end with `input`, and returns what they printed. `Err`: what went wrong,
/// in their own words where they have any.
pub(crate) async fn ask(words: &[String], input: &[u8]) -> Result<String, String> {
    let name = words.first().map_or("", String::as_str);
    let Started { mut stdin, stdout, watched, .. } = start(words)?;
    let mut printed = Vec::new();
    let reading = async {
        let mut stdout = stdout.take(OUTPUT_BYTES_MAX);
        let _ = stdout.read_to_end(&mut printed).await;
    };
    let writing = async {
        // One that does not read its input says itself what is wrong.
        let _ = stdin.write_all(input).await;
        drop(stdin);
        watched.ended().await
    };
    let both = async {
        let mut reading = std::pin::pin!(reading);
        tokio::select! {
            () = &mut reading => watched.ended().await,
            status = writing => {
                let _ = tokio::time::timeout(OUTPUT_LIMIT, reading).await;
                status
            }
        }
    };
    let status = tokio::time::timeout(LIMIT, both).await;
    let status = status.map_err(|_| format!("{name} did not end within {} s", LIMIT.as_secs()))?;
    if status == 0 {
        return Ok(String::from_utf8_lossy(&printed).into_owned());
    }
    Err(match watched.words() {
        words if words.is_empty() => format!("{name} {}", ending(status)),
        words => words,
    })
}

/// How a program ended, from what wait(2) gave.
pub(crate) fn ending(status: i32) -> String {
    match status & 127 {
        0 => format!("ended with status {}", status >> 8 & 255),
        signal => format!("was killed by signal {signal}"),
    }
}

/// A word for a shell.
pub(crate) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}
