//! Programs that are run apart from commands, to see what they print: bounded in time and output,
//! at the lowest priority.
//!
//! It knows nothing of what they print. Whatever they start carries a mark in its environment, and
//! goes when they are done with. The calling thread waits; it should have nothing else to do, since
//! its own priority is lowered.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Mutex;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::clock;
use crate::launch::own_environment;
use crate::lookup::{Wanted, find_program};
use crate::processes::{self, Ending};
use crate::spawn::{DescriptorAction, EnvironmentBlock, Group, Process};
use crate::trees;

/// Names the variable with the mark.
const MARK_VARIABLE: &str = "RAKUDA_PROVIDER";
/// Lowest priority.
const NICE: i32 = 19;
/// Timeout for the output of a program that has ended: it may have left its output with something that ends a moment
/// later.
const GRACE_NS: u64 = 200_000_000;
/// Minimum time between two searches for processes that have left the group, unless something went wrong: a search
/// looks at every process of the machine.
const SEARCH_NS: u64 = 10_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// Held by the one thread that searches although nothing went wrong with its program.
static SEARCHING: Mutex<()> = Mutex::new(());

/// Maximum length of what is kept of a program's standard error, bytes: its end, in which it says why it fails.
const ERRORS_BYTES_MAX: usize = 4096;
/// Bytes that a pipe holds.
const PIPE_BYTES: usize = 64 << 10;
/// Maximum characters of its last line that are reported.
const SAID_CHARS_MAX: usize = 200;

/// Why the output of a program is of no use.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// It could not be started.
    #[error("cannot be started: {0}")]
    Start(String),
    /// It has not ended in time, and was killed.
    #[error("took more than {} s", .0.as_secs_f64())]
    TimeLimit(Duration),
    /// It printed too much, and was killed.
    #[error("printed more than {} KiB", .0 >> 10)]
    TooMuch(usize),
    /// A long-lived one printed more than that in a second, and was killed: nobody reads that much.
    #[error("printed more than {} KiB in a second", .0 >> 10)]
    TooFast(usize),
    /// Nobody wants what it prints.
    #[error("is not wanted any more")]
    Unwanted,
    /// It ended otherwise than with 0; the last line of its standard error.
    #[error("{}{}", ending(*.0), said(.1))]
    Ended(Ending, String),
}

fn said(line: &str) -> String {
    if line.is_empty() { String::new() } else { format!(": {line}") }
}

fn ending(ending: Ending) -> String {
    match ending {
        Ending::Exited(status) => format!("exited with {status}"),
        Ending::Killed(signal) => format!("was killed by signal {signal}"),
    }
}

/// A program, and what it may do.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its words, the first looked up in PATH.
    pub words: Vec<String>,
    /// What it and all that it starts have in their environment; nothing else has the same.
    pub mark: String,
    /// Maximum time. `None`: it is long-lived, and its output is taken line by line.
    pub limit: Option<Duration>,
    /// Maximum output, of a long-lived one maximum length of a line, and maximum output in a second.
    pub bytes_max: usize,
}

/// Runs programs on one thread.
pub struct Runner {
    environment: Vec<(std::ffi::OsString, std::ffi::OsString)>,
    /// When what runs have left is looked for next.
    search_ns: u64,
}

impl Runner {
    /// Gives the calling thread, and so all that it starts, the lowest priority.
    pub fn new() -> Self {
        // In tests other threads would leave it no processor for seconds.
        if !cfg!(test) {
            // What is refused leaves the priority as it is.
            let _ = rustix::process::setpriority_process(None, NICE);
        }
        Self { environment: own_environment(), search_ns: clock::monotonic_ns() + SEARCH_NS }
    }

    /// Runs a program to its end. What it printed is returned; what a long-lived one prints goes to
    /// `on_line`, line by line; it is killed when nobody wants the next (`false`).
    pub fn run(
        &mut self,
        program: &Program,
        on_line: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Vec<u8>, Fault> {
        let (process, output, errors) = self.start(program).map_err(Fault::Start)?;
        let mut reading = Reading {
            program,
            output: Some(output),
            errors: Some(errors),
            said: Vec::new(),
            bytes: Vec::new(),
            second: (0, 0),
            ended_ns: None,
        };
        let begun_ns = clock::monotonic_ns();
        let result = loop {
            match reading.step(&process, begun_ns, on_line) {
                Ok(true) => break Ok(()),
                Ok(false) => {}
                Err(fault) => break Err(fault),
            }
        };
        // Its number is its own until the status is taken.
        process.signal_group(libc::SIGKILL);
        let has_left = result.is_err() || reading.output.is_some();
        if has_left {
            kill_marked([&program.mark]);
        }
        let status = wait(&process);
        if !has_left && clock::monotonic_ns() >= self.search_ns {
            self.search(&program.mark);
        }
        result?;
        match Ending::of(status) {
            Ending::Exited(0) if program.limit.is_some() => Ok(reading.bytes),
            ending => Err(Fault::Ended(ending, reading.last_line())),
        }
    }

    /// Looks for what runs have left without a sign. That reads all processes of the machine, so one thread of this
    /// process does it at a time, and each for a hundredth of its time at most.
    fn search(&mut self, mark: &str) {
        let Ok(_alone) = SEARCHING.try_lock() else { return };
        let begun_ns = clock::monotonic_ns();
        kill_marked([mark]);
        let now_ns = clock::monotonic_ns();
        self.search_ns = now_ns + SEARCH_NS.max(100 * (now_ns - begun_ns));
    }

    /// The process, its output and its standard error.
    fn start(&self, program: &Program) -> Result<(Process, OwnedFd, OwnedFd), String> {
        let mark = (MARK_VARIABLE.into(), program.mark.clone().into());
        let kept = self.environment.iter().filter(|(name, _)| name != MARK_VARIABLE).cloned();
        let environment = EnvironmentBlock::new(kept.chain([mark]));
        let first = program.words.first().map(String::as_str).unwrap_or_default();
        let search_path = &environment.search_path;
        let wanted = Wanted { name: first.as_bytes(), search_path, directory: None };
        let path = find_program(&wanted)
            .ok_or_else(|| format!("there is no program {first:?} in PATH"))?;
        let path = CString::new(path.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
        let words = program.words.iter().map(|word| CString::new(word.as_str()));
        let words: Vec<CString> =
            words.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        let (output, end) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| error.to_string())?;
        let (errors, errors_end) =
            pipe_with(PipeFlags::CLOEXEC).map_err(|error| error.to_string())?;
        let null = std::fs::File::options().read(true).write(true).open("/dev/null");
        let null = null.map_err(|error| error.to_string())?;
        let descriptors = [
            DescriptorAction::Duplicate { from: null.as_raw_fd(), to: 0 },
            DescriptorAction::Duplicate { from: end.as_raw_fd(), to: 1 },
            DescriptorAction::Duplicate { from: errors_end.as_raw_fd(), to: 2 },
        ];
        let process = processes::start(&path, &words, &environment, &descriptors, Group::Own)
            .map_err(|error| format!("{first:?}: {error}"))?;
        Ok((process, output, errors))
    }
}

impl Default for Runner {
    fn default() -> Self {
        Self::new()
    }
}

/// Kills whatever carries one of the marks.
pub fn kill_marked(marks: impl IntoIterator<Item = impl AsRef<[u8]>>) {
    let marks: BTreeSet<Vec<u8>> = marks.into_iter().map(|it| it.as_ref().to_vec()).collect();
    if !marks.is_empty() {
        trees::kill_all_with(MARK_VARIABLE, &marks);
    }
}

struct Reading<'a> {
    program: &'a Program,
    /// `None`: everyone has closed it.
    output: Option<OwnedFd>,
    /// Likewise. Nobody waits for its end.
    errors: Option<OwnedFd>,
    /// The end of it.
    said: Vec<u8>,
    bytes: Vec<u8>,
    /// When it began, and bytes that were read in it.
    second: (u64, usize),
    ended_ns: Option<u64>,
}

impl Reading<'_> {
    /// Waits for something to happen. `true`: all is read.
    fn step(
        &mut self,
        process: &Process,
        begun_ns: u64,
        on_line: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<bool, Fault> {
        let now_ns = clock::monotonic_ns();
        let limit_ns = self.program.limit.map(|limit| limit.as_nanos() as u64);
        let mut left_ns = limit_ns.map(|limit_ns| (begun_ns + limit_ns).saturating_sub(now_ns));
        if let Some(ended_ns) = self.ended_ns {
            let grace_ns = (ended_ns + GRACE_NS).saturating_sub(now_ns);
            if grace_ns == 0 {
                return Ok(true);
            }
            left_ns = Some(left_ns.map_or(grace_ns, |left_ns| left_ns.min(grace_ns)));
        }
        if let (Some(0), Some(limit)) = (left_ns, self.program.limit) {
            return Err(Fault::TimeLimit(limit));
        }
        let timeout = left_ns.map(|ns| Timespec {
            tv_sec: (ns / 1_000_000_000).cast_signed(),
            tv_nsec: (ns % 1_000_000_000).cast_signed(),
        });
        let (is_readable, has_ended, has_said) = {
            let mut waited = Vec::new();
            if let Some(output) = &self.output {
                waited.push(PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN));
            }
            if self.ended_ns.is_none() {
                waited.push(PollFd::from_borrowed_fd(process.pidfd.as_fd(), PollFlags::IN));
            }
            if let Some(errors) = &self.errors {
                waited.push(PollFd::from_borrowed_fd(errors.as_fd(), PollFlags::IN));
            }
            // Interrupted, it is tried again.
            let _ = poll(&mut waited, timeout.as_ref());
            let mut came = waited.iter().map(|it| !it.revents().is_empty());
            let is_readable = self.output.is_some() && came.next() == Some(true);
            let has_ended = self.ended_ns.is_none() && came.next() == Some(true);
            (is_readable, has_ended, self.errors.is_some() && came.next() == Some(true))
        };
        if has_said {
            self.hear();
        }
        if is_readable {
            self.read(on_line)?;
        }
        if has_ended {
            self.ended_ns = Some(clock::monotonic_ns());
            // All that it has printed is there: that does not depend on when this thread has its next turn.
            while has_more(self.output.as_ref()) {
                self.read(on_line)?;
            }
            // As much as a pipe holds: something that it has left may write on.
            for _ in 0..PIPE_BYTES / ERRORS_BYTES_MAX {
                if has_more(self.errors.as_ref()) {
                    self.hear();
                }
            }
        }
        Ok(self.output.is_none() && self.ended_ns.is_some())
    }

    /// Takes some of its standard error, of which the end is kept.
    fn hear(&mut self) {
        let mut chunk = [0; ERRORS_BYTES_MAX];
        let Some(errors) = &self.errors else { return };
        let count = rustix::io::read(errors, &mut chunk).unwrap_or(0);
        if count == 0 {
            self.errors = None;
        }
        self.said.extend_from_slice(&chunk[..count]);
        let before = self.said.len().saturating_sub(ERRORS_BYTES_MAX);
        self.said.drain(..before);
    }

    /// Of its standard error.
    fn last_line(&self) -> String {
        let text = String::from_utf8_lossy(&self.said);
        let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
        let printed = line.unwrap_or_default().chars().filter(|c| !c.is_control());
        printed.take(SAID_CHARS_MAX).collect()
    }

    fn read(&mut self, on_line: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Fault> {
        let mut chunk = [0; 16 << 10];
        let Some(output) = &self.output else { return Ok(()) };
        let count = rustix::io::read(output, &mut chunk).unwrap_or(0);
        if count == 0 {
            self.output = None;
        }
        self.bytes.extend_from_slice(&chunk[..count]);
        if self.program.limit.is_none() {
            self.count(count, clock::monotonic_ns())?;
            while let Some(end) = memchr(&self.bytes) {
                if !on_line(&self.bytes[..end]) {
                    return Err(Fault::Unwanted);
                }
                self.bytes.drain(..=end);
            }
        }
        if self.bytes.len() > self.program.bytes_max {
            return Err(Fault::TooMuch(self.program.bytes_max));
        }
        Ok(())
    }

    fn count(&mut self, bytes: usize, now_ns: u64) -> Result<(), Fault> {
        let (begun_ns, before) = self.second;
        self.second = if now_ns - begun_ns < SECOND_NS {
            (begun_ns, before + bytes)
        } else {
            (now_ns, bytes)
        };
        let is_too_fast = self.second.1 > self.program.bytes_max;
        if is_too_fast { Err(Fault::TooFast(self.program.bytes_max)) } else { Ok(()) }
    }
}

/// Whether there is something to read now, be it the end.
fn has_more(from: Option<&OwnedFd>) -> bool {
    let Some(from) = from else { return false };
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::from_borrowed_fd(from.as_fd(), PollFlags::IN)], Some(&now)) == Ok(1)
}

fn memchr(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n')
}

/// Takes the status of one that is about to end.
fn wait(process: &Process) -> i32 {
    loop {
        if let Some((status, _)) = process.take_status() {
            return status;
        }
        let mut waited = [PollFd::from_borrowed_fd(process.pidfd.as_fd(), PollFlags::IN)];
        let _ = poll(&mut waited, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(
        mark: &str,
        script: &str,
        limit_ms: Option<u64>,
    ) -> (Result<Vec<u8>, String>, Vec<String>) {
        let words = ["sh", "-c", script].map(str::to_owned).to_vec();
        let mark = format!("test-{}-{mark}", std::process::id());
        let limit = limit_ms.map(Duration::from_millis);
        let program = Program { words, mark, limit, bytes_max: 4096 };
        let mut lines = Vec::new();
        let mut on_line = |line: &[u8]| {
            lines.push(String::from_utf8_lossy(line).into_owned());
            line != b"enough"
        };
        let result = Runner::new().run(&program, &mut on_line);
        (result.map_err(|fault| fault.to_string()), lines)
    }

    fn marked(mark: &str) -> usize {
        let mark = format!("test-{}-{mark}", std::process::id());
        trees::kill_all_with(MARK_VARIABLE, &BTreeSet::from([mark.into_bytes()]))
    }

    #[test]
    fn what_a_program_prints_is_read_to_its_end() {
        let (output, _) = run("good", "echo a 1; echo noise >&2; echo b 2", Some(60_000));
        assert_eq!(output.unwrap(), b"a 1\nb 2\n");
    }

    #[test]
    fn what_goes_wrong_is_said() {
        assert_eq!(run("status", "echo a 1; exit 3", Some(60_000)).0.unwrap_err(), "exited with 3");
        let script = "seq 9999 >&2; echo 'licence server down' >&2; echo >&2; exit 3";
        let why = "exited with 3: licence server down";
        assert_eq!(run("why", script, Some(60_000)).0.unwrap_err(), why);
        assert_eq!(run("why", script, None).0.unwrap_err(), why);
        assert_eq!(
            run("killed", "kill -9 $$", Some(60_000)).0.unwrap_err(),
            "was killed by signal 9"
        );
        let long = run("long", "exec cat /dev/zero", Some(60_000)).0.unwrap_err();
        assert_eq!(long, "printed more than 4 KiB");
        let program = Program {
            words: vec!["no-such-program".to_owned()],
            mark: String::new(),
            limit: None,
            bytes_max: 1,
        };
        let fault = Runner::new().run(&program, &mut |_| true).unwrap_err().to_string();
        assert_eq!(fault, "cannot be started: there is no program \"no-such-program\" in PATH");
    }

    #[test]
    fn what_hangs_is_killed_with_all_that_it_started() {
        let script = "setsid sleep 1000 & sleep 1000";
        assert_eq!(run("hang", script, Some(300)).0.unwrap_err(), "took more than 0.3 s");
        assert_eq!(marked("hang"), 0);
    }

    #[test]
    fn what_holds_the_output_of_a_program_that_has_ended_is_killed() {
        let (output, _) = run("fork", "echo a 1; setsid sleep 1000 &", Some(60_000));
        assert_eq!(output.unwrap(), b"a 1\n");
        assert_eq!(marked("fork"), 0);
    }

    #[test]
    fn what_a_program_leaves_without_a_sign_is_looked_for_now_and_then() {
        // It ends when what it leaves has left its group, which is killed then.
        let script = "trap 'exit 0' USR1; \
                      setsid sh -c \"kill -USR1 $$; exec sleep 1000\" > /dev/null & wait";
        let words = ["sh", "-c", script].map(str::to_owned).to_vec();
        let mark = format!("test-{}-left", std::process::id());
        let limit = Some(Duration::from_mins(1));
        let program = Program { words, mark: mark.clone(), limit, bytes_max: 4096 };
        let mut runner = Runner::new();
        runner.search_ns = u64::MAX;
        runner.run(&program, &mut |_| true).unwrap();
        let searching = SEARCHING.lock().unwrap();
        runner.search(&mark);
        assert_eq!(runner.search_ns, u64::MAX, "another thread looks");
        drop(searching);
        // A thread of another test may look just now.
        while runner.search_ns == u64::MAX {
            runner.search(&mark);
        }
        assert_eq!(marked("left"), 0);
    }

    #[test]
    fn a_long_lived_program_is_read_line_by_line() {
        let (result, lines) = run("lines", "echo a 1; echo b 2; echo half | tr -d '\\n'", None);
        assert_eq!(
            (result.unwrap_err().as_str(), lines.join("|").as_str()),
            ("exited with 0", "a 1|b 2")
        );
    }

    #[test]
    fn a_long_lived_program_that_prints_without_end_is_killed() {
        let (result, _) = run("fast", "while :; do echo a 1; done", None);
        assert_eq!(result.unwrap_err(), "printed more than 4 KiB in a second");
    }

    #[test]
    fn a_long_lived_program_that_nobody_wants_is_killed() {
        let (result, lines) = run("unwanted", "echo enough; echo more; sleep 1000", None);
        assert_eq!(result.unwrap_err(), "is not wanted any more");
        assert_eq!((lines, marked("unwanted")), (vec!["enough".to_owned()], 0));
    }
}
