//! Pwrake's tables task.csv and command.csv (Pwrake 2.3: `task_wrapper.rb`, `shell_profiler.rb`),
//! so that what reads them goes on working. What Rakuda does not know stays empty. Quoting as in
//! RFC 4180.

use std::io::{self, Write};

use rakuda_proto::journal::TaskKind;

use crate::report::Report;
use crate::report::failures::line;
use crate::report::format::time;
use crate::run::{Command, Task};
use crate::summary::io::size_of;
use crate::summary::seconds;
use crate::summary::spans::Span;

/// Columns of task.csv.
pub const TASK_COLUMNS: &str = "task_id,task_name,start_time,end_time,elap_time,preq,preq_host,preq_loc,\
exec_host,shell_id,has_action,executed,ncore,file_size,file_mtime,file_host,write_loc";
/// Columns of command.csv; those from `realtime` on are the ones of GNU time, which Pwrake writes with `GNU_TIME`.
pub const COMMAND_COLUMNS: &str = "exec_id,task_id,task_name,command,start_time,end_time,elap_time,host,ncore,\
status,realtime,systime,usrtime,maxrss,averss,memsz,datasz,stcksz,textsz,pagesz,majflt,minflt,nswap,ncswinv,\
ncswvol,ninp,nout,msgrcv,msgsnd,signum";

/// Writes task.csv: a row for each attempt, in order of their ends as Pwrake's are, then for each task without one.
///
/// # Errors
/// When writing fails.
pub fn tasks(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{TASK_COLUMNS}")?;
    let mut spans: Vec<&Span> = report.summary.spans.iter().collect();
    spans.sort_by_key(|span| (span.end_ns, span.task));
    let mut attempted = vec![false; report.run.tasks.len()];
    for span in spans {
        attempted[span.task as usize] = true;
        if let Some(task) = &report.run.tasks[span.task as usize] {
            task_row(report, task, Some(span), out)?;
        }
    }
    for task in report.run.tasks.iter().flatten() {
        if !attempted[task.defined.task as usize] {
            task_row(report, task, None, out)?;
        }
    }
    Ok(())
}

fn task_row(
    report: &Report,
    task: &Task,
    span: Option<&Span>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let names: Vec<String> =
        task.defined.prerequisites.iter().map(|&before| report.name(before)).collect();
    let is_file = matches!(task.defined.kind, TaskKind::File | TaskKind::Directory);
    let last = span.is_some_and(|span| span.attempt as usize + 1 == task.attempts.len());
    let size = size_of(task).filter(|_| is_file && (last || span.is_none()));
    let after = task.attempts.last().and_then(|attempt| attempt.ended.as_ref()?.after);
    let modified = after.filter(|_| is_file && last).map(|file| time(file.modified_ns));
    let row = [
        task.defined.task.to_string(),
        task.defined.name.to_display(),
        span.map(|span| time(span.start_ns)).unwrap_or_default(),
        span.map(|span| time(span.end_ns)).unwrap_or_default(),
        span.map(|span| format!("{:.6}", seconds(span.duration_ns()))).unwrap_or_default(),
        names.join("|"),
        String::new(),
        span.map(|span| places(report, task, span)).unwrap_or_default(),
        span.map(|span| report.node(span.node)).unwrap_or_default(),
        span.map(|span| span.lane.to_string()).unwrap_or_default(),
        u8::from(task.defined.action).to_string(),
        u8::from(span.is_some()).to_string(),
        span.map(|span| span.cores.to_string()).unwrap_or_default(),
        size.map(|bytes| bytes.to_string()).unwrap_or_default(),
        modified.unwrap_or_default(),
        String::new(),
        String::new(),
    ];
    write_row(out, &row)
}

/// A letter for each prerequisite: `L` made in this run on the same node, `R` on another, `n` not known. Empty with one
/// node, or when no place is known.
fn places(report: &Report, task: &Task, span: &Span) -> String {
    if report.summary.nodes_used().count() < 2 {
        return String::new();
    }
    let letter = |before: &u32| {
        let made =
            report.run.tasks.get(*before as usize).and_then(|task| task.as_ref()?.attempts.last());
        match made {
            Some(attempt) if attempt.started.node == span.node => 'L',
            Some(_) => 'R',
            None => 'n',
        }
    };
    let letters: String = task.defined.prerequisites.iter().map(letter).collect();
    if letters.chars().all(|letter| letter == 'n') { String::new() } else { letters }
}

/// Writes command.csv: Pwrake's first and last line, and between them a row for each command, in order of their ends.
///
/// # Errors
/// When writing fails.
pub fn commands(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{COMMAND_COLUMNS}")?;
    marker(out, 0, "pwrake_profile_start", report.summary.start_ns)?;
    let mut attempts = vec![None; report.run.commands.len()];
    for span in &report.summary.spans {
        let Some(task) = &report.run.tasks[span.task as usize] else { continue };
        for &number in &task.attempts[span.attempt as usize].commands {
            if let Some(place) = attempts.get_mut(number as usize) {
                *place = Some(*span);
            }
        }
    }
    let ended_ns =
        |command: &Command| command.ended.as_ref().map_or(i64::MAX, |ended| ended.time_ns);
    let mut ordered: Vec<&Command> = report.run.commands.iter().flatten().collect();
    ordered.sort_by_key(|command| (ended_ns(command), command.started.command));
    for (command, id) in ordered.iter().zip(1..) {
        let span = attempts[command.started.command as usize];
        command_row(report, command, span.as_ref(), id, out)?;
    }
    marker(out, ordered.len() + 1, "pwrake_profile_end", report.summary.end_ns)
}

/// What Pwrake writes when its profile begins and ends.
fn marker(out: &mut dyn Write, id: usize, name: &str, time_ns: i64) -> io::Result<()> {
    let at = time(time_ns);
    writeln!(out, "{id},,,{name},{at},{at},0.000000{}", ",".repeat(23))
}

fn command_row(
    report: &Report,
    command: &Command,
    span: Option<&Span>,
    id: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let task = command.started.task;
    let ended = command.ended.as_ref();
    let wall_s = ended.map(|ended| seconds(i64::try_from(ended.wall_ns).unwrap_or(i64::MAX)));
    let mut row = vec![
        id.to_string(),
        task.map(|task| task.to_string()).unwrap_or_default(),
        task.map(|task| report.name(task)).unwrap_or_default(),
        line(command),
        time(command.started.time_ns),
        ended.map(|ended| time(ended.time_ns)).unwrap_or_default(),
        wall_s.map(|wall_s| format!("{wall_s:.6}")).unwrap_or_default(),
        span.map(|span| report.node(span.node)).unwrap_or_default(),
        span.map(|span| span.cores.to_string()).unwrap_or_default(),
        status(command),
    ];
    if let (Some(ended), Some(wall_s)) = (ended, wall_s) {
        row.push(format!("{wall_s:.2}"));
        row.push(format!("{:.2}", ended.system_us as f64 / 1e6));
        row.push(format!("{:.2}", ended.user_us as f64 / 1e6));
        row.push(ended.rss_bytes().map(|bytes| (bytes / 1024).to_string()).unwrap_or_default());
        row.extend(vec![String::new(); 11]);
        row.push((ended.read_bytes / 512).to_string());
        row.push((ended.write_bytes / 512).to_string());
        row.extend(vec![String::new(); 2]);
        let signal = ended.status & 0x7f;
        row.push(if signal == 0 { String::new() } else { signal.to_string() });
    } else {
        row.extend(vec![String::new(); 20]);
    }
    write_row(out, &row)
}

/// As Pwrake's executor puts it: the exit status, `killed:SIGNAL` or `core_dumped`.
fn status(command: &Command) -> String {
    let Some(ended) = &command.ended else { return String::new() };
    if ended.error.is_some() {
        return "127".to_owned();
    }
    match ended.status & 0x7f {
        0 => ((ended.status >> 8) & 0xff).to_string(),
        _ if ended.status & 0x80 != 0 => "core_dumped".to_owned(),
        signal => format!("killed:{signal}"),
    }
}

fn write_row(out: &mut dyn Write, fields: &[String]) -> io::Result<()> {
    let fields: Vec<String> = fields.iter().map(|field| quoted(field)).collect();
    writeln!(out, "{}", fields.join(","))
}

fn quoted(field: &str) -> String {
    let plain = !field.contains([',', '"', '\n', '\r']) && field.trim() == field;
    if plain { field.to_owned() } else { format!("\"{}\"", field.replace('"', "\"\"")) }
}
