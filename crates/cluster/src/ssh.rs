//! Starts an agent on a host through the system's ssh: one call, which also brings the engine's
//! program there when it is missing.
//!
//! Users' own ssh configuration holds; no question can be asked (BatchMode). On the other side a line for the login
//! shell has /bin/sh run a script, which says what it wants after a mark that no greeting of the login shell can hold,
//! and at last becomes the agent, or the leader of a group. It knows nothing of links: others read what comes after the
//! mark.

use std::time::Duration;

use rakuda_proto::cluster::Role;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::unix::pipe;

use crate::program::{Answer, Depot, Programs, RECEIVE};
use crate::watched::{self, Piece, Started, Watched, read_piece};

/// Timeout for anything from a host: one that says nothing for longer cannot be used.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Maximum bytes that a login shell may print before.
const NOISE_BYTES_MAX: usize = 1 << 20;
/// What sshd, or what is in front of it, says when too many come at once, or when it is not up yet.
const PASSING: [&str; 5] = [
    "kex_exchange_identification",
    "ssh_exchange_identification",
    "Connection closed by",
    "Connection reset by",
    "Connection refused",
];

/// What a host is asked to run: the engine's program with these words.
fn words_of(role: Role) -> &'static str {
    match role {
        Role::Agent => "agent --stdio",
        Role::Files => "files --stdio",
        Role::Leader => "leader --stdio",
    }
}

/// A started program: what it says comes from `reader`.
pub(crate) struct Launched {
    pub reader: BufReader<pipe::Receiver>,
    pub writer: pipe::Sender,
    /// The process of ssh, or of the program itself on this machine.
    pub ssh: Watched,
}

/// Why there is no agent.
#[derive(Debug)]
pub(crate) struct LaunchError {
    pub why: String,
    /// It may be otherwise in a moment.
    pub passing: bool,
}

/// Starts the engine's program on `host` as `role`.
pub(crate) async fn launch(
    host: &str,
    options: &[Vec<u8>],
    depot: &Depot,
    role: Role,
) -> Result<Launched, LaunchError> {
    let lasting = |why: String| LaunchError { why, passing: false };
    let programs = depot.programs().await.map_err(lasting)?;
    let token = token();
    let script = remote_line(&token, &programs, words_of(role));
    let mut all: Vec<&[u8]> = vec![b"ssh"];
    all.extend(options.iter().map(Vec::as_slice));
    all.extend([b"-oBatchMode=yes".as_slice(), b"-T", b"--", host.as_bytes(), script.as_bytes()]);
    let Launched { mut reader, mut writer, ssh } = start(&all)?;
    match converse(&mut reader, &mut writer, &token, depot, &programs).await {
        Ok(()) => Ok(Launched { reader, writer, ssh }),
        Err(why) => Err(explain(ssh, why).await),
    }
}

/// Starts the engine's program on this machine.
pub(crate) fn launch_here(role: Role) -> Result<Launched, LaunchError> {
    let mut all = vec![b"/proc/self/exe".as_slice()];
    all.extend(words_of(role).split(' ').map(str::as_bytes));
    start(&all)
}

fn start(words: &[&[u8]]) -> Result<Launched, LaunchError> {
    let lasting = |why: String| LaunchError { why, passing: false };
    let Started { stdin, stdout, watched, .. } = watched::start(words).map_err(lasting)?;
    Ok(Launched { reader: BufReader::with_capacity(64 << 10, stdout), writer: stdin, ssh: watched })
}

/// Gives the host the program if it wants it, until its agent starts.
async fn converse(
    reader: &mut BufReader<pipe::Receiver>,
    writer: &mut pipe::Sender,
    token: &str,
    depot: &Depot,
    programs: &Programs,
) -> Result<(), String> {
    let mut looked = false;
    let mut sending: Option<String> = None;
    let result = loop {
        let words = match tokio::time::timeout(START_LIMIT, next_mark(reader, token)).await {
            Ok(Ok(words)) => words,
            Ok(Err(why)) => break Err(why),
            Err(_) => break Err(format!("it said nothing for {} s", START_LIMIT.as_secs())),
        };
        let folder = match words.split_once(' ').unwrap_or((&words, "")) {
            ("link", _) => break Ok(()),
            // The machine type, and what the cache folder is called.
            ("want", folder) => folder.trim().to_owned(),
            _ => break Err(format!("it said `{words}`, which is not expected")),
        };
        if sending.is_some() {
            break Err("it was sent the program and has it not".into());
        }
        let machine = folder.split(' ').next().unwrap_or_default();
        let Some(program) = programs.of(machine) else {
            break Err(format!("it wants a program for `{machine}`, which is not expected"));
        };
        let sent = match depot.answer(&folder, looked).await {
            Answer::Look => {
                looked = true;
                writer.write_all(b"look\n").await
            }
            Answer::Take => {
                sending = Some(folder);
                async {
                    writer.write_all(b"take\n").await?;
                    writer.write_all(&program.bytes).await
                }
                .await
            }
        };
        if let Err(error) = sent {
            break Err(format!("send the program: {error}"));
        }
    };
    if let Some(folder) = sending {
        depot.on_sent(&folder, result.is_ok());
    }
    result
}

/// What comes behind the next mark, up to the end of its line.
async fn next_mark(reader: &mut BufReader<pipe::Receiver>, token: &str) -> Result<String, String> {
    let mark = mark(token);
    let mut line = Vec::new();
    let mut noise_bytes = 0;
    loop {
        let piece = read_piece(reader, &mut line, NOISE_BYTES_MAX).await;
        let Piece { bytes, ends_line } = piece.map_err(|error| error.to_string())?;
        if bytes == 0 {
            return Err(String::new());
        }
        noise_bytes += bytes;
        if noise_bytes > NOISE_BYTES_MAX {
            return Err(format!("its login shell printed more than {NOISE_BYTES_MAX} bytes"));
        }
        if ends_line {
            let text = String::from_utf8_lossy(&line).into_owned();
            if let Some(at) = text.find(&mark) {
                return Ok(text[at + mark.len()..].trim().to_owned());
            }
            line.clear();
        }
    }
}

pub(crate) fn mark(token: &str) -> String {
    format!("rakuda-{token}:")
}

/// 16 hexadecimal digits that no login shell prints by chance.
pub(crate) fn token() -> String {
    let mut bytes = [0; 8];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    assert_eq!(filled, Ok(bytes.len()), "the kernel has random bytes");
    format!("{:016x}", u64::from_ne_bytes(bytes))
}

/// For the login shell, whichever that is: neither sh, csh nor fish change what stands between these quotes, as long as
/// there is no quote, exclamation mark, backslash or line end in it.
fn remote_line(token: &str, programs: &Programs, words: &str) -> String {
    let mark = mark(token);
    let script = [
        &programs.choice(|_| String::new()),
        "u=$(umask)",
        "umask 077",
        "d=\"${XDG_CACHE_HOME:-$HOME/.cache}/rakuda/bin\"",
        &format!("p=\"$d/$n/rakudad\" t=\"$d/$n/.{token}\" i={token}"),
        "until test -x \"$p\"",
        "do mkdir -p \"$d/$n\" || exit 1",
        // The first start gives the folder its name, by which hosts that share it are known.
        "test -s \"$d/id\" || { echo $i > \"$t\" && ln \"$t\" \"$d/id\" 2>/dev/null",
        "rm -f \"$t\"",
        "}",
        "read i < \"$d/id\"",
        &format!("echo {mark} want $m $i"),
        "read w || exit 1",
        // Nothing else is sent before the agent's hello.
        &format!("test \"$w\" = look || {{ {RECEIVE} || {{ rm -f \"$t\""),
        "exit 1",
        "}",
        // What no run has used for a month.
        "find \"$d\" -type f -name rakudad -atime +30 -exec rm -f {} +",
        "}",
        "done",
        &format!("echo {mark} link"),
        // Commands make files as the user's login says.
        "umask $u",
        &format!("exec \"$p\" {words}"),
    ];
    format!("exec /bin/sh -c '{}'", script.join("; "))
}

/// Why no agent was started, in ssh's words where it has any.
async fn explain(ssh: Watched, why: String) -> LaunchError {
    let status = tokio::time::timeout(Duration::from_secs(2), ssh.ended()).await.ok();
    let words = ssh.words();
    let passing = PASSING.iter().any(|passing| words.contains(passing));
    let why = match (why.is_empty(), status) {
        (false, _) => format!("{why}{}{words}", if words.is_empty() { "" } else { ": " }),
        (true, _) if !words.is_empty() => words,
        (true, Some(status)) => {
            format!("ssh ended with status {} and no word", status >> 8 & 255)
        }
        (true, None) => "the connection was closed".into(),
    };
    LaunchError { why, passing }
}
