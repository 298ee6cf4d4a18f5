//! `rakudactl provide`: tells an information service what a program prints of a node, line by line, as long as it
//! prints: a provider that registers by itself.
//!
//! It remembers the last line of each value, so that it can send them again to a service that has forgotten all of
//! them.

use std::collections::BTreeMap;
use std::io::{BufRead as _, Read as _, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use clap::Args;
use rakuda_info::external::OUTPUT_BYTES_MAX;
use rakuda_service::http::encoded;
use rakuda_service::{Client, ClientError};
use serde_json::Value;

use super::base_folder::BaseFolder;
use super::{Status as Ending, UsageError, nodes};

/// Number of times that it says it is there in the time for which values hold, when no new line comes.
const BEATS: u32 = 3;
/// Maximum lines that have been read and not been sent. With more, the program that writes them waits.
const LINES_MAX: usize = 64;
/// Time between two tries to send something.
const AGAIN: Duration = Duration::from_secs(1);

/// Tells an information service values of a node: lines `NAME VALUE [UNIT]`, or a JSON object, of standard input.
#[derive(Args)]
pub struct Provide {
    /// The node, as `rakudactl nodes` names it.
    #[arg(value_name = "NODE")]
    node: String,

    /// What the provider is called: a-z, 0-9 and _.
    #[arg(value_name = "PROVIDER")]
    provider: String,

    /// The information service at URL (`rakudad info`).
    #[arg(long, value_name = "URL")]
    service: String,

    /// The token file of that service.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// How long values hold when nothing is heard of this command any more, 1s to 1d.
    #[arg(long, value_name = "TIME", default_value = "30s")]
    validity: String,
}

impl Provide {
    /// Tells, until standard input ends.
    pub fn answer(&self, _place: &BaseFolder, _out: &mut dyn Write) -> anyhow::Result<Ending> {
        let Some(validity_ns) = rakuda_info::duration_ns(&self.validity) else {
            let message = format!("--validity {}: expected a time such as 30s", self.validity);
            return Err(UsageError(message).into());
        };
        let client = nodes::client(&self.service, self.token_file.as_ref())?;
        let [node, provider] = [&self.node, &self.provider].map(|name| encoded(name));
        let path = format!("/v1/nodes/{node}/providers/{provider}");
        let told = format!("{path}?validity={}", encoded(&self.validity));
        let mut telling = Telling {
            client,
            told,
            known: BTreeMap::new(),
            complaints: Vec::new(),
            is_silent: false,
        };
        // What it cannot have at all is said before anything is read.
        telling.tell("")?;
        let (sender, lines) = sync_channel(LINES_MAX);
        std::thread::Builder::new().name("lines".to_owned()).spawn(move || read(&sender))?;
        telling.tell_all(&lines, Duration::from_nanos(validity_ns) / BEATS)?;
        match telling.client.delete(&path) {
            // A service that was started anew knows nothing of it.
            Ok(_) | Err(ClientError::Refused { status: 404, .. }) => Ok(Ending::Good),
            Err(error) => Err(error.into()),
        }
    }
}

/// Passes on what standard input says, line by line; of a line that is too long, pieces.
fn read(lines: &SyncSender<String>) {
    let mut input = std::io::stdin().lock();
    loop {
        let mut line = Vec::new();
        let most = OUTPUT_BYTES_MAX as u64;
        match input.by_ref().take(most).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&line).trim().to_owned();
        if !line.is_empty() && lines.send(line).is_err() {
            return;
        }
    }
}

struct Telling {
    client: Client,
    /// Where.
    told: String,
    /// By the name of a value its last line.
    known: BTreeMap<String, String>,
    /// What was refused, and said so.
    complaints: Vec<String>,
    /// The service does not answer, and that was said.
    is_silent: bool,
}

impl Telling {
    /// Until there is no more.
    fn tell_all(&mut self, lines: &Receiver<String>, beat: Duration) -> anyhow::Result<()> {
        let mut next = None;
        loop {
            let first = match next.take().map_or_else(|| lines.recv_timeout(beat), Ok) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => String::new(),
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            let mut body = first;
            self.note(&body);
            // What has come meanwhile goes with it, but for objects, which stand alone.
            while !body.is_empty() && !is_object(&body) && next.is_none() {
                let Ok(line) = lines.try_recv() else { break };
                if is_object(&line) || body.len() + line.len() >= OUTPUT_BYTES_MAX {
                    next = Some(line);
                } else {
                    self.note(&line);
                    body = format!("{body}\n{line}");
                }
            }
            while !self.is_told(&body)? {
                rakuda_service::pass(AGAIN);
            }
        }
    }

    fn note(&mut self, line: &str) {
        let name = line.split_whitespace().next().unwrap_or_default();
        let name = if is_object(line) { "{" } else { name };
        // As many as a provider may have; what is no value is refused.
        let is_room = self.known.len() < rakuda_info::external::VALUES_MAX;
        if !name.is_empty() && (is_room || self.known.contains_key(name)) {
            self.known.insert(name.to_owned(), line.to_owned());
        }
    }

    /// False: not now. A refusal for good is an error.
    fn is_told(&mut self, body: &str) -> anyhow::Result<bool> {
        match self.tell(body) {
            Ok(is_new) => {
                self.is_silent = false;
                if is_new {
                    self.tell_again()?;
                }
                Ok(true)
            }
            // What it has said makes no sense to the service; the next may.
            Err(ClientError::Refused { status: 400, message }) => {
                self.complain(message);
                Ok(true)
            }
            Err(ClientError::Refused { status: 429, .. }) => Ok(false),
            Err(error @ ClientError::Unreachable { .. }) => {
                if !std::mem::replace(&mut self.is_silent, true) {
                    crate::complain(&format!("rakudactl: failed to {error}; trying again\n"));
                }
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// To a service that knows nothing of it, all that is known.
    fn tell_again(&mut self) -> anyhow::Result<()> {
        let all: Vec<String> = self.known.values().cloned().collect();
        for line in all {
            match self.tell(&line) {
                Ok(_) | Err(ClientError::Refused { status: 400 | 429, .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Whether the service knew nothing of it before.
    fn tell(&mut self, body: &str) -> Result<bool, ClientError> {
        let answer = self.client.put(&self.told, body.to_owned())?;
        let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
        for refused in answer["refused"].as_array().into_iter().flatten() {
            self.complain(refused.as_str().unwrap_or_default().to_owned());
        }
        Ok(answer["new"] == true)
    }

    /// Once.
    fn complain(&mut self, what: String) {
        if !self.complaints.contains(&what) && self.complaints.len() < LINES_MAX {
            crate::complain(&format!("rakudactl: {what}\n"));
            self.complaints.push(what);
        }
    }
}

fn is_object(line: &str) -> bool {
    line.starts_with('{')
}
