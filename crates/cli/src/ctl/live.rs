//! Asks runs that are going on, over the sockets of their hubs. It knows how to find them and to
//! put a question, not what answers mean.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::base_folder::BaseFolder;

/// Timeout for the answer of a hub: one that takes longer hangs.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// Timeout for an answer about the time alone, which is known nearly as well without one.
const TIME_TIME: Duration = Duration::from_secs(2);
/// Maximum bytes of an answer.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
const SUFFIX: &str = ".sock";
/// Names the newest run.
const LAST: &str = "last";

/// No live run can be asked; ends with status 3.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoLiveRun(pub String);

/// Puts `question` to the live runs of the project, or to the one whose name begins with `run`
/// (`last`: the newest of them); the answers, oldest run first.
pub fn ask(base: &BaseFolder, run: Option<&str>, question: &Value) -> anyhow::Result<Vec<Value>> {
    let folder = base.records()?.root.join("running");
    let mut names: Vec<String> =
        entries(&folder).into_iter().filter(|name| name.ends_with(SUFFIX)).collect();
    names.sort();
    let prefix = run.filter(|run| *run != LAST);
    names.retain(|name| prefix.is_none_or(|prefix| name.starts_with(prefix)));
    let (mut answers, mut silent) = (Vec::new(), Vec::new());
    for name in names.iter().rev() {
        if run == Some(LAST) && !(answers.is_empty() && silent.is_empty()) {
            break;
        }
        match ask_one(&folder, name, question, ANSWER_TIME) {
            Answer::Given(answer) => answers.push(answer),
            Answer::Silence => silent.push(name.trim_end_matches(SUFFIX)),
            Answer::Nobody => {}
        }
    }
    for run in &silent {
        crate::complain(&format!(
            "rakudactl: run {run} is going on, but has not answered within {} s\n",
            ANSWER_TIME.as_secs()
        ));
    }
    answers.reverse();
    if !answers.is_empty() {
        return Ok(answers);
    }
    if !silent.is_empty() {
        anyhow::bail!("no run has answered: it hangs or is stopped, or the machine is overloaded");
    }
    let which = prefix.map_or_else(String::new, |prefix| format!(" named {prefix}..."));
    Err(NoLiveRun(format!(
        "no run{which} is going on in {}; of runs that have ended `rakudactl why --run` and `rakudactl story` tell",
        base.full_directory().display()
    ))
    .into())
}

/// What the journal's clock of a live run shows. `None`: its hub does not say so at once.
pub fn journal_ns(base: &BaseFolder, run: &str) -> Option<i64> {
    let folder = base.records().ok()?.root.join("running");
    let question = json!({"ask": "status"});
    match ask_one(&folder, &format!("{run}{SUFFIX}"), &question, TIME_TIME) {
        Answer::Given(answer) => answer["time_ns"].as_i64(),
        Answer::Silence | Answer::Nobody => None,
    }
}

fn entries(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// What came of a question.
enum Answer {
    Given(Value),
    /// The hub is there, and does not answer.
    Silence,
    /// Nobody is there any more.
    Nobody,
}

fn ask_one(folder: &Path, name: &str, question: &Value, patience: Duration) -> Answer {
    match exchange(folder, name, question, patience) {
        Ok(line) => serde_json::from_str(&line).map_or(Answer::Nobody, Answer::Given),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Answer::Silence,
        Err(_) => Answer::Nobody,
    }
}

/// The hub's line. Empty when it ended meanwhile.
fn exchange(folder: &Path, name: &str, question: &Value, patience: Duration) -> io::Result<String> {
    // The address of a socket must be short, and a path need not be.
    let folder = File::open(folder)?;
    let mut hub = UnixStream::connect(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()))?;
    hub.set_read_timeout(Some(patience))?;
    hub.set_write_timeout(Some(patience))?;
    hub.write_all(format!("{question}\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(hub.take(ANSWER_BYTES_MAX)).read_line(&mut line)?;
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_hub_that_hangs_is_told_from_one_that_is_gone() {
        let folder = std::env::temp_dir().join(format!("rakudactl-live-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let hub = UnixListener::bind(folder.join("run.sock")).unwrap();
        let ask = || ask_one(&folder, "run.sock", &Value::Null, Duration::from_millis(1));
        assert!(matches!(ask(), Answer::Silence));
        drop(hub);
        assert!(matches!(ask(), Answer::Nobody));
        fs::remove_dir_all(&folder).unwrap();
        assert!(matches!(ask(), Answer::Nobody));
    }
}
