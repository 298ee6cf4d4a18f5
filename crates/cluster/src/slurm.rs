//! Slurm: the allocation that the run is in, or one that it asks for, waits for and gives back; and its nodes.
//!
//! What is asked for is a batch job that does nothing but stay as long as job steps run in it. So
//! whatever dies here, the allocation ends soon after the last agent; one of `salloc` would stay
//! for ever. `allocation` has agents started in it.

use std::rc::Rc;
use std::time::Duration;

use rakuda_agent::clock;

use crate::allocation::{Allocation, SlurmJob};
use crate::plan::SlurmWish;
use crate::reports::NodeEvent;
use crate::search::Search;
use crate::tool::ask;

/// Time between the first two looks at a job that waits; each time is half as long again.
const FIRST_LOOK: Duration = Duration::from_millis(100);
/// Maximum time between two looks at such a job.
const LAST_LOOK: Duration = Duration::from_secs(15);
/// Maximum times in a row that a controller does not answer. After that it is down.
const FAILURES_MAX: u32 = 20;
/// Maximum wait of a job that is not worth a word.
const UNTOLD_NS: u64 = 1_500_000_000;
/// Time between two questions for its place in the queue.
const ASK_AGAIN_NS: u64 = 30_000_000_000;
/// Time between two messages that say the same.
const TELL_AGAIN_NS: u64 = 300_000_000_000;

/// The batch job: it stays while job steps run in it, and at most two minutes until the first one
/// begins. A controller that does not answer is asked again.
const HOLDER: &str = r#"#!/bin/sh
# Holds an allocation for rakuda, whose agents are job steps in it.
trap 'exit 0' TERM
pause() { sleep "$1" & wait $!; }
steps() { squeue --noheader --steps --jobs="$SLURM_JOB_ID" --format=%i; }
any() {
    until all=$(steps); do pause 60; done
    echo "$all" | grep -q '\.[0-9]'
}
looks=0
until any; do
    looks=$((looks + 1))
    test $looks -lt 40 || exit 0
    # The agents' step begins within a second, where all is well.
    if test $looks -lt 20; then pause 1; else pause 5; fi
done
while any; do pause 15; done
"#;

/// Finds the nodes and starts their agents until the run is over, or all have gone. `Err`: why it has no nodes.
pub(crate) async fn serve(search: &Rc<Search>, wish: SlurmWish) -> Result<(), String> {
    let id = match &wish.job {
        Some(id) => id.clone(),
        // A run that has nothing to do asks for nothing.
        None if search.wanted().await => submit(search, &wish).await?,
        None => return Ok(()),
    };
    let ours = wish.job.is_none();
    let served = hold(search, &id, ours).await;
    if ours {
        // It ends by itself a little later when that does not work.
        let _ = ask(&words(&["scancel", "--quiet", &id]), b"").await;
    }
    served
}

async fn hold(search: &Rc<Search>, id: &str, ours: bool) -> Result<(), String> {
    let job = granted(search, id, ours).await?;
    // The run may be over since Slurm was asked.
    let Some(job) = job.filter(|_| !search.is_closing()) else { return Ok(()) };
    Allocation::begin(search, job).await
}

/// Hands a job in; its number.
async fn submit(search: &Search, wish: &SlurmWish) -> Result<String, String> {
    let mut all = words(&["sbatch", "--parsable", "--job-name=rakuda", "--output=/dev/null"]);
    all.extend(words(&["--no-requeue", "--no-kill", "--ntasks-per-node=1"]));
    all.push(format!("--nodes={}", wish.nodes));
    if wish.cores > 0 {
        all.push(format!("--cpus-per-task={}", wish.cores));
    } else if !wish.options.iter().any(|word| says_how_much(word)) {
        all.push("--exclusive".into());
    }
    all.extend(wish.options.iter().cloned());
    let printed = ask(&all, HOLDER.as_bytes()).await;
    let printed = printed.map_err(|why| format!("no allocation: {why}"))?;
    let id = printed.trim().split(';').next().unwrap_or_default().to_owned();
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("sbatch printed {:?}, and no job number", printed.trim()));
    }
    let nodes = if wish.nodes == 1 { "1 node".into() } else { format!("{} nodes", wish.nodes) };
    search.launcher.tell(NodeEvent::Told(format!("asked Slurm for {nodes}: job {id}")));
    Ok(id)
}

/// Whether an option of the user says what of a node is wanted.
fn says_how_much(word: &str) -> bool {
    let long = ["--exclusive", "--cpus-per-task", "--ntasks", "--oversubscribe", "--mincpus"];
    let short = ["-c", "-n", "-s"];
    long.iter().any(|option| word.starts_with(option))
        || short.iter().any(|option| word.starts_with(option) && !word.starts_with("--"))
}

/// Waits until the job runs. `None`: the run is over before.
async fn granted(search: &Search, id: &str, ours: bool) -> Result<Option<SlurmJob>, String> {
    let (mut pause, mut told, mut told_ns) = (FIRST_LOOK, String::new(), 0);
    let (began_ns, mut failures) = (clock::monotonic_ns(), 0);
    let (mut place, mut asked_ns) = (None, None);
    loop {
        if search.is_closing() {
            return Ok(None);
        }
        let format = "--format=%T|%N|%L|%r|%S|%P";
        let printed = ask(&words(&["squeue", "--noheader", "--jobs", id, format]), b"").await;
        let printed = match printed {
            Ok(printed) => printed,
            // Slurm's controller is started again now and then.
            Err(why) if failures < FAILURES_MAX && !why.contains("Invalid job id") => {
                failures += 1;
                pause_or_end(search, pause).await;
                pause = (pause * 3 / 2).min(LAST_LOOK);
                continue;
            }
            Err(why) => return Err(format!("job {id}: {why}")),
        };
        failures = 0;
        let line = printed.lines().next().unwrap_or_default();
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [state, list, left, reason, start, partition] = fields[..] else {
            return Err(format!("job {id} is gone before it began: it was cancelled, or refused"));
        };
        match state {
            "RUNNING" => {
                let list = list.to_owned();
                let nodes = ask(&words(&["scontrol", "show", "hostnames", &list]), b"").await;
                let nodes = nodes.map_err(|why| format!("job {id}: {why}"))?;
                let nodes = nodes.split_whitespace().map(str::to_owned).collect();
                let left_ns = seconds_left(left).map(|left| left.saturating_mul(1_000_000_000));
                let ends_ns = left_ns.map(|left| clock::journal_ns().saturating_add(left));
                return Ok(Some(SlurmJob { id: id.to_owned(), nodes, list, ends_ns, ours }));
            }
            "PENDING" | "CONFIGURING" | "REQUEUED" | "RESV_DEL_HOLD" | "SUSPENDED" => {}
            other => return Err(format!("job {id} is {}: {reason}", other.to_lowercase())),
        }
        let now_ns = clock::monotonic_ns();
        let worth_telling = now_ns - began_ns > UNTOLD_NS;
        if worth_telling && asked_ns.is_none_or(|asked_ns| now_ns > asked_ns + ASK_AGAIN_NS) {
            asked_ns = Some(now_ns);
            place = place_in_queue(id, partition).await;
            place = place.map(|place| format!(", {place} in {partition}"));
        }
        let expected = match start {
            "" | "N/A" => String::new(),
            start => format!(", expected to begin {start}"),
        };
        let there = place.as_deref().unwrap_or_default();
        let text = format!("job {id} is {} ({reason}){there}", state.to_lowercase());
        // When it is expected to begin changes all the time.
        if worth_telling && (text != told || now_ns > told_ns + TELL_AGAIN_NS) {
            search.launcher.tell(NodeEvent::Told(format!("{text}{expected}")));
            (told, told_ns) = (text, now_ns);
        }
        pause_or_end(search, pause).await;
        pause = (pause * 3 / 2).min(LAST_LOOK);
    }
}

async fn pause_or_end(search: &Search, pause: Duration) {
    tokio::select! {
        () = search.closing() => {}
        () = tokio::time::sleep(pause) => {}
    }
}

/// `3rd of 7`, among the jobs that wait there.
async fn place_in_queue(id: &str, partition: &str) -> Option<String> {
    let list = words(&["squeue", "--noheader", "--states=PENDING", "--sort=-p,i", "--format=%i"]);
    let list = [list, words(&["--partition", partition])].concat();
    let printed = ask(&list, b"").await.ok()?;
    let jobs: Vec<&str> = printed.split_whitespace().collect();
    let place = jobs.iter().position(|job| *job == id)? + 1;
    Some(format!("{} of {}", ordinal(place), jobs.len()))
}

fn ordinal(number: usize) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// `[DAYS-][[HOURS:]MINUTES:]SECONDS`. `None`: no end is set.
fn seconds_left(text: &str) -> Option<i64> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (days.parse::<i64>().ok()?, clock),
        None => (0, text),
    };
    let add = |sum: i64, part: &str| part.parse::<i64>().ok()?.checked_add(sum.checked_mul(60)?);
    days.checked_mul(86_400)?.checked_add(clock.split(':').try_fold(0, add)?)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_is_read_as_squeue_writes_it() {
        assert_eq!(seconds_left("4:59"), Some(299));
        assert_eq!(seconds_left("1:00:00"), Some(3600));
        assert_eq!(seconds_left("2-01:00:01"), Some(2 * 86_400 + 3601));
        assert_eq!(seconds_left("0:00"), Some(0));
        for endless in ["UNLIMITED", "NOT_SET", "INVALID", "", "1-", "x:10"] {
            assert_eq!(seconds_left(endless), None, "{endless}");
        }
    }

    #[test]
    fn places_have_their_endings() {
        let told: Vec<String> = [1, 2, 3, 4, 11, 12, 13, 21, 112].map(ordinal).into();
        let expected = ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th"];
        assert_eq!(told, expected);
    }

    #[test]
    fn options_that_say_how_much_of_a_node_are_known() {
        let yes = ["-c4", "-c", "--cpus-per-task=4", "-n8", "--ntasks=8", "--exclusive", "-s"];
        assert!(yes.iter().all(|word| says_how_much(word)));
        let no = ["-p", "short", "--time=10", "--constraint=x", "--nodelist=a", "-A", "--comment"];
        assert!(!no.iter().any(|word| says_how_much(word)));
    }
}
