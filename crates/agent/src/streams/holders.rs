//! Processes that keep the stdout of tasks that have ended, so that their readers wait: their commands have left them.
//!
//! Looks at those that this user may look at. What follows from it is not known here.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use rakuda_core::Time;
use rakuda_proto::Text;
use rakuda_proto::streams::StdoutHolder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Time between the end of a task and the first look, and minimum time between two looks: most of what is left ends
/// soon.
const WAIT_NS: u64 = 1_000_000_000;
/// Maximum time between two looks. Each time is twice the one before.
const WAIT_NS_MAX: u64 = 30_000_000_000;
/// Maximum processes that are reported of a task.
const TOLD_MAX: usize = 4;
/// Maximum bytes that are reported of a command.
const COMMAND_BYTES_MAX: usize = 200;
/// Of the flags in `/proc/PID/fdinfo/FD`, octal: those that say whether it is open for reading or writing, or both.
const ACCESS: u32 = 0o3;

/// What is known of one task.
#[derive(Debug)]
struct Watch {
    due: Time,
    wait_ns: u64,
    told: Option<Vec<StdoutHolder>>,
}

/// By task that has ended and whose stdout is held.
#[derive(Debug, Default)]
pub(super) struct Holders {
    watches: BTreeMap<u32, Watch>,
}

impl Holders {
    /// Looks, where that is due, at those whose stdout is held, by the reading ends of their pipes. Returns what is new
    /// of them. `None` of one: no process holds it any more.
    pub fn look<'fd>(
        &mut self,
        now: Time,
        held: impl Iterator<Item = (u32, BorrowedFd<'fd>)>,
    ) -> Vec<(u32, Option<Vec<StdoutHolder>>)> {
        let held: BTreeMap<u32, BorrowedFd<'_>> = held.collect();
        let mut news = Vec::new();
        self.watches.retain(|task, watch| {
            let is_held = held.contains_key(task);
            if !is_held && watch.told.is_some() {
                news.push((*task, None));
            }
            is_held
        });
        let mut due = BTreeMap::new();
        for (task, pipe) in held {
            let first = || Watch { due: Time(now.0 + WAIT_NS), wait_ns: WAIT_NS, told: None };
            let watch = self.watches.entry(task).or_insert_with(first);
            if now < watch.due {
                continue;
            }
            watch.wait_ns = (watch.wait_ns * 2).min(WAIT_NS_MAX);
            watch.due = Time(now.0 + watch.wait_ns);
            due.insert(task, pipe);
        }
        // What the last of them has left in the pipe waits for room, and nobody holds that.
        let open = due.iter().filter(|(_, pipe)| !is_hung_up(**pipe));
        let open: Vec<_> = open.map(|(task, pipe)| (*task, *pipe)).collect();
        let mut found = writers_of(&open);
        for task in due.into_keys() {
            let found = found.remove(&task);
            let watch = self.watches.get_mut(&task).filter(|watch| watch.told != found);
            if let Some(watch) = watch {
                watch.told.clone_from(&found);
                news.push((task, found));
            }
        }
        news
    }

    /// When to look next.
    pub fn due(&self) -> Option<Time> {
        self.watches.values().map(|watch| watch.due).min()
    }
}

/// Whether nobody can write into a pipe any more, of which one end is given.
fn is_hung_up(pipe: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(pipe, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().contains(PollFlags::HUP)
}

/// Processes that may write into pipes, of each of which one end is given; the first few of each, by number. All
/// processes are looked through once: there may be thousands.
fn writers_of(pipes: &[(u32, BorrowedFd<'_>)]) -> BTreeMap<u32, Vec<StdoutHolder>> {
    let mut found: BTreeMap<u32, Vec<StdoutHolder>> =
        pipes.iter().map(|(task, _)| (*task, Vec::new())).collect();
    let name_of = |pipe| Some(format!("pipe:[{}]", rustix::fs::fstat(pipe).ok()?.st_ino).into());
    let tasks: BTreeMap<PathBuf, u32> =
        pipes.iter().filter_map(|(task, pipe)| Some((name_of(*pipe)?, *task))).collect();
    if tasks.is_empty() {
        return found;
    }
    let own = std::process::id();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut numbers: Vec<u32> = numbers.filter(|number| *number != own).collect();
    numbers.sort_unstable();
    for process in numbers {
        for task in written_by(process, &tasks) {
            let holders = found.entry(task).or_default();
            if holders.len() < TOLD_MAX {
                holders.push(StdoutHolder { process, command: command_of(process) });
            }
        }
    }
    found
}

/// The tasks into whose pipes, by name, a process may write.
fn written_by(process: u32, tasks: &BTreeMap<PathBuf, u32>) -> BTreeSet<u32> {
    let files = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let written = files.filter_map(|file| {
        let task = tasks.get(&std::fs::read_link(file.path()).ok()?)?;
        may_write(process, &file.file_name().to_string_lossy()).then_some(*task)
    });
    written.collect()
}

fn may_write(process: u32, file: &str) -> bool {
    let told = std::fs::read_to_string(format!("/proc/{process}/fdinfo/{file}"));
    let told = told.unwrap_or_default();
    let flags = told.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & ACCESS != 0)
}

/// The words of a process; of one that has none its name.
fn command_of(process: u32) -> Text {
    let mut words = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    while words.last() == Some(&0) {
        words.pop();
    }
    for byte in &mut words {
        if *byte == 0 {
            *byte = b' ';
        }
    }
    if words.is_empty() {
        words = std::fs::read(format!("/proc/{process}/comm")).unwrap_or_default();
        words.truncate(words.trim_ascii_end().len());
    }
    words.truncate(COMMAND_BYTES_MAX);
    Text(words)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn it_is_told_who_holds_a_pipe_for_writing_and_when_nobody_does_any_more() {
        let (reading, writing) = rustix::pipe::pipe().unwrap();
        let start = || {
            #[expect(clippy::disallowed_methods, reason = "what commands leave is a process")]
            let mut command = std::process::Command::new("sleep");
            command.arg("600").stdout(writing.try_clone().unwrap());
            command
        };
        let mut child = start().spawn().unwrap();
        let mut holders = Holders::default();
        let look = |holders: &mut Holders, now, is_held: bool| {
            holders.look(Time(now), is_held.then(|| (7, reading.as_fd())).into_iter())
        };
        assert_eq!(look(&mut holders, 0, true), []);
        assert_eq!(holders.due(), Some(Time(WAIT_NS)));
        // This process holds both ends, and is not reported.
        let holder = StdoutHolder { process: child.id(), command: Text::from("sleep 600") };
        // Between fork and exec it has the words of this process.
        let mut told = look(&mut holders, WAIT_NS, true);
        let mut now = WAIT_NS;
        while told != [(7, Some(vec![holder.clone()]))] {
            now = holders.due().unwrap().0;
            told = look(&mut holders, now, true);
        }
        assert_eq!(look(&mut holders, now + 1, true), []);
        child.kill().unwrap();
        child.wait().unwrap();
        // A child of another test has this process's descriptors until it executes its program.
        told = Vec::new();
        while told != [(7, Some(Vec::new()))] {
            now = holders.due().unwrap().0;
            told = look(&mut holders, now, true);
        }
        assert_eq!(look(&mut holders, now, false), [(7, None)]);
        assert_eq!(holders.due(), None);
    }
}
