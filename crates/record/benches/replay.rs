//! How long it takes to read a journal again, and how much memory the run takes then.
//!
//!   cargo bench -p rakuda-record --bench replay -- JOURNAL
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark reads the clock, prints, and divides"
)]

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rakuda_record::Run;
use rakuda_record::folder::Records;
use rakuda_record::history::LastRecords;
use rakuda_record::unfinished::Unfinished;

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let (start, busy) = (Instant::now(), cpu_ns());
    let result = work();
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{what:<44} {seconds:>8.2} s, {:.2} s of them computing",
        (cpu_ns() - busy) as f64 / 1e9
    );
    result
}

/// Time on a processor of the one thread.
fn cpu_ns() -> u64 {
    let line = fs::read_to_string("/proc/self/schedstat").expect("Linux");
    line.split(' ').next().expect("a field").parse().expect("a number")
}

/// Memory of this process that is in use, bytes.
fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm.split(' ').nth(1).expect("two fields at least");
    pages.parse::<u64>().expect("a number") * rustix::param::page_size() as u64
}

fn main() {
    let Some(path) = std::env::args().skip(1).find(|word| !word.starts_with('-')) else {
        println!("replay: no journal given, nothing measured (bench/record makes one)");
        return;
    };
    let bytes = fs::metadata(&path).expect("a journal").len();
    let open = || File::open(&path).expect("a journal");
    let unfinished = timed("what was unfinished (Unfinished::read)", || {
        Unfinished::read(open(), Some(bytes)).expect("a journal")
    });
    println!("{:<44} {:>8}", "  attempts that had not ended", unfinished.attempts.len());
    let before = resident();
    let run = timed("whole run (Run::read)", || {
        Run::read(BufReader::with_capacity(1 << 18, open())).expect("a journal")
    });
    let tasks = run.tasks.iter().flatten().count() as u64;
    let names: usize = run.tasks.iter().flatten().map(|task| task.defined.name.0.len()).sum();
    println!("{:<44} {:>8}", "  tasks", tasks);
    println!("{:<44} {:>8.0} B", "  journal a task", bytes as f64 / tasks as f64);
    println!("{:<44} {:>8.0} B", "  memory a task", (resident() - before) as f64 / tasks as f64);
    println!("{:<44} {:>8.0} B", "  its name alone", names as f64 / tasks as f64);
    let all: Vec<_> = run.tasks.iter().flatten().filter(|task| task.defined.action).collect();
    let some: Vec<_> = all
        .iter()
        .step_by((all.len() / 100).max(1))
        .map(|task| task.defined.name.clone())
        .collect();
    let all: Vec<_> = all.into_iter().map(|task| task.defined.name.clone()).collect();
    drop(run);
    if let Some(root) = records_of(Path::new(&path)) {
        let records = Records { root };
        let (few, many) = (some.len(), all.len());
        let last = timed(&format!("last records of {few} targets"), || {
            LastRecords::read(&records, some).expect("readable records")
        });
        println!("{:<44} {:>8}", "  found", last.len());
        let before = resident();
        let last = timed(&format!("last records of {many} targets"), || {
            LastRecords::read(&records, all).expect("readable records")
        });
        println!("{:<44} {:>8}", "  found", last.len());
        let grown = resident().saturating_sub(before);
        println!("{:<44} {:>8.0} B", "  memory each", grown as f64 / many as f64);
    }
}

/// `.rakuda` of `.rakuda/runs/ID/journal.jsonl`.
fn records_of(journal: &Path) -> Option<PathBuf> {
    let root = journal.ancestors().nth(3)?;
    (root.file_name()? == ".rakuda").then(|| root.to_path_buf())
}
