//! What `rakudactl top` shows, drawn for a screen of any size and written as text.
//!
//! At 80 x 24 all parts have room; on a smaller screen the upper ones win. It asks nobody.

use std::fmt::Write as _;

use rakuda_record::printable::{cut, cut_middle, printable};
use rakuda_record::report::Failure;
use rakuda_record::report::format::bytes;
use rakuda_record::summary::rule_counts::RuleCounts;
use rakuda_record::summary::streams::StreamState;
use rakuda_record::words::duration_in_words;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::{Constraint, Layout, Rect};
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::text::{Line, Span};
use ratatui_core::widgets::Widget as _;
use serde_json::Value;

use super::super::feed::Look;
use super::super::journal_tasks::NotRunning;
use super::view::View;

/// Maximum width of a node's name, in columns.
const NODE_WIDTH_MAX: usize = 12;
/// Maximum width of a task's name where a command needs the room, and of a stream's, in columns.
const NAME_WIDTH_MAX: usize = 28;
/// Maximum number of open streams that have a line each.
const STREAMS_MAX: usize = 3;
/// Maximum number of open rounds that have a line each.
const ROUNDS_MAX: usize = 2;
/// Head of the column.
const DONE: &str = "done";
/// Minimum rows of a failure and its output, unless a third of the screen has fewer.
const FAILURE_ROWS_MIN: usize = 8;
/// Maximum rows of a failure and its output.
const FAILURE_ROWS_MAX: usize = 22;
/// Rows of the title, the count, the bar, the keys, and what stands above a failure.
const FIXED_ROWS: usize = 5;
/// Minimum number of rows for tasks that have ended: one is empty, one is their head.
const ENDED_ROWS_MIN: u16 = 3;
/// Maximum number of running tasks that are shown as text.
const TASKS_TOLD_MAX: usize = 20;
/// The keys, and what they do.
const HELP: [(&str, &str); 10] = [
    ("q, Ctrl-C", "leave; the run goes on"),
    ("↓ ↑, j k, n p", "the next failure, the one before"),
    ("Page Down, f", "further running tasks"),
    ("Page Up, b", "the running tasks before"),
    ("Home, g", "the first running tasks"),
    ("End, G", "the last running task"),
    ("/", "look for words of names, commands and nodes; Enter ends typing"),
    ("Escape", "look for nothing any more; leave where nothing was looked for"),
    ("Space, Ctrl-L", "draw the screen anew"),
    ("?, h", "this help; any key closes it"),
];
/// Part of the rest that the running tasks get. What they or the tables below them do not need goes to the other.
const TASKS_SHARE: u16 = 3;
/// Part of the rest that these tables get.
const TABLES_SHARE: u16 = 2;
/// Minimum rows of that rest for which there are tables.
const SHARED_ROWS_MIN: u16 = 5;

const HEAD: Style = Style::new().add_modifier(Modifier::DIM);
const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

/// A line with the style of all of it.
type Row = (String, Style);

fn word(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or(0)
}

fn text(value: &Value) -> String {
    printable(value.as_str().unwrap_or("?").as_bytes())
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

fn took(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "far below 2^63 ns")]
    let ns = (seconds * 1e9) as i64;
    duration_in_words(ns)
}

/// `12/40 done, 8 running, 3 failed, 35.0/s, 70 s left`.
fn progress(look: &Look) -> String {
    let Some(live) = &look.live else {
        let done: usize = look.rules.iter().map(|rule| rule.done).sum();
        return format!("has ended: {}; {done} done, {} failed", look.state, look.failed.len());
    };
    let mut line = format!(
        "{}/{} done, {} running, {} queued, {} failed, {:.1}/s",
        word(live, "done"),
        word(live, "total"),
        word(live, "running"),
        word(live, "queued"),
        word(live, "failed"),
        live["rate_per_s"].as_f64().unwrap_or(0.0)
    );
    if live["stopping"] == true {
        line.push_str(", stopping");
    } else if let Some(left) = live["left"].as_object() {
        let unknown = left.get("unknown_tasks").and_then(Value::as_u64).unwrap_or(0) > 0;
        let (least, name) = if unknown { ("at least ", "low_s") } else { ("", "s") };
        let seconds = left.get(name).and_then(Value::as_f64).unwrap_or(0.0);
        let _ = write!(line, ", {least}{} left", took(seconds));
    }
    line
}

fn bar(look: &Look, width: u16) -> String {
    let Some(live) = &look.live else { return String::new() };
    let (done, total) = (word(live, "done"), word(live, "total").max(1));
    let width = u64::from(width);
    let full = (done * width / total).min(width);
    "━".repeat(full as usize) + &"─".repeat((width - full) as usize)
}

/// One running task, as it is shown.
struct Running {
    elapsed: String,
    node: String,
    name: String,
    what: String,
}

impl Running {
    fn of(task: &Value) -> Self {
        let command = list(task, "commands").first().map(|command| text(&command["command"]));
        let what = command.unwrap_or_else(|| {
            if task["waits_for_core"] == true { "(waits for a core)" } else { "(Ruby)" }.to_owned()
        });
        Self {
            elapsed: took(task["elapsed_s"].as_f64().unwrap_or(0.0)),
            node: cut_middle(&text(&task["node"]), NODE_WIDTH_MAX),
            name: text(&task["task"]),
            what,
        }
    }
}

/// Bytes of the folder that all names begin with; none of one name alone.
fn common_folder(tasks: &[Running]) -> usize {
    let [first, others @ ..] = tasks else { return 0 };
    let folder = |name: &str| name.rfind('/').map_or(0, |slash| slash + 1);
    let alike = |name: &str| {
        let pairs = first.name.char_indices().zip(name.chars());
        let same = pairs.take_while(|((_, one), other)| one == other);
        same.last().map_or(0, |((index, one), _)| index + one.len_utf8())
    };
    let common = others.iter().map(|task| folder(&first.name[..alike(&task.name)])).min();
    common.unwrap_or(0)
}

/// What distinguishes names that begin with the same folder stands behind that folder, so its place is what is cut.
fn cut_names(tasks: &mut [Running], room: usize) {
    let common = common_folder(tasks);
    if common <= 3 || tasks.iter().all(|task| task.name.chars().count() <= room) {
        return;
    }
    for task in tasks {
        let short = format!("...{}", &task.name[common..]);
        task.name = if short.chars().count() > room && room > 6 {
            format!("{}...", cut(&short, room - 3))
        } else {
            short
        };
    }
}

/// The head, then a row for each running task. With it, how many tasks run of which nothing more is known.
fn running(look: &Look, width: usize) -> (Vec<Row>, usize) {
    let Some(live) = &look.live else { return (Vec::new(), 0) };
    let tasks: Vec<Running> = list(live, "tasks").iter().map(Running::of).collect();
    let others = (word(live, "running") as usize).saturating_sub(tasks.len());
    let head = ["for", "node", "running task", "command"];
    let lines = table(head, tasks, list(live, "nodes").len() > 1, width);
    let style = |row: usize| if row == 0 { HEAD } else { Style::new() };
    (lines.into_iter().zip(0..).map(|(line, row)| (line, style(row))).collect(), others)
}

/// The same of those that do not run, below this head.
fn not_running(look: &Look, head: &'static str, width: usize) -> Vec<Row> {
    let took = |ns: u64| duration_in_words(i64::try_from(ns).unwrap_or(i64::MAX));
    let told = |task: &NotRunning| Running {
        elapsed: task.took_ns.map_or_else(|| "-".to_owned(), took),
        node: cut_middle(&printable(task.node.as_bytes()), NODE_WIDTH_MAX),
        name: printable(task.name.as_bytes()),
        what: printable(task.how.as_bytes()),
    };
    let nodes = look.live.as_ref().map_or(0, |live| list(live, "nodes").len());
    let head = ["took", "node", head, "how"];
    let lines = table(head, look.others.iter().map(told).collect(), nodes > 1, width);
    let bad = look.others.iter().map(|task| if task.is_bad { BAD } else { Style::new() });
    lines.into_iter().zip(std::iter::once(HEAD).chain(bad)).collect()
}

/// Columns are as wide as what is in them, so that the last one has what is left; a run on one node has no column of
/// nodes.
fn table(
    head: [&str; 4],
    mut tasks: Vec<Running>,
    has_many_nodes: bool,
    width: usize,
) -> Vec<String> {
    let [elapsed, node, name, what] = head.map(str::to_owned);
    let head = Running { elapsed, node, name, what };
    let widest_of = |tasks: &[Running], part: fn(&Running) -> &str| {
        let widths = tasks.iter().chain([&head]).map(|task| part(task).chars().count());
        widths.max().unwrap_or(0)
    };
    let widest = |part| widest_of(&tasks, part);
    let elapsed_width = widest(|task| &task.elapsed);
    let has_nodes = has_many_nodes || tasks.iter().any(|task| task.node != tasks[0].node);
    let node_width = if has_nodes { widest(|task| &task.node) } else { 0 };
    let gaps = if has_nodes { 4 } else { 3 };
    // Names have the room that the longest command leaves, and at least what they have on a small screen.
    let left = width.saturating_sub(elapsed_width + node_width + gaps);
    let name_room = left.saturating_sub(widest(|task| &task.what)).max(NAME_WIDTH_MAX);
    cut_names(&mut tasks, name_room);
    let name_width = widest_of(&tasks, |task| &task.name).min(name_room);
    let what_width = left.saturating_sub(name_width);
    let line = |task: &Running| {
        let mut line = format!("{:>elapsed_width$}  ", task.elapsed);
        if has_nodes {
            let _ = write!(line, "{:<node_width$} ", task.node);
        }
        let name = cut_middle(&task.name, name_width);
        let _ = write!(line, "{name:<name_width$} {}", cut_middle(&task.what, what_width));
        line
    };
    std::iter::once(line(&head)).chain(tasks.iter().map(line)).collect()
}

/// A line of streams and one of synchronised rounds, where there are any; two where one is wider than the screen.
fn joined(look: &Look, width: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    if !look.streams.is_empty() {
        let open = look.streams.iter().filter(|stream| stream.is_open).count();
        let wrong = look.streams.iter().filter(|stream| stream.fault.is_some()).count();
        let through: u64 = look.streams.iter().map(|stream| stream.bytes).sum();
        let mut line = format!("streams: {open} of {} open", look.streams.len());
        if through > 0 || open < look.streams.len() {
            let _ = write!(line, ", {} went through", bytes(through));
        }
        if wrong > 0 {
            let _ = write!(line, ", {wrong} went wrong");
        }
        rows.push((line, if wrong > 0 { BAD } else { Style::new() }));
        rows.extend(open_streams(look));
    }
    for round in look.live.iter().flat_map(|live| list(live, "rounds")).take(ROUNDS_MAX) {
        let (name, number, kind) =
            (text(&round["sync"]), word(round, "number"), text(&round["kind"]));
        let (begun, workers) = (word(round, "begun"), word(round, "workers"));
        let failed = word(round, "failed");
        let mut line =
            format!("round {number} ({kind}) of {name}: {begun} of {workers} workers have begun");
        if failed > 0 {
            let _ = write!(line, ", {failed} failed");
        }
        rows.push((line, if failed > 0 { BAD } else { Style::new() }));
    }
    if let Some(round) = look.rounds.rounds().last().map(|round| &round.ended) {
        let troubled = look.rounds.troubled();
        let (late, failed, lost) = (troubled.late, troubled.failed, troubled.given_up);
        let style = if late + failed + lost > 0 { BAD } else { Style::new() };
        let mut all = format!("synchronised rounds: {}", look.rounds.rounds().len());
        for (count, how) in [(late, "late"), (failed, "failed"), (lost, "not begun")] {
            if count > 0 {
                let _ = write!(all, ", {count} {how}");
            }
        }
        let lag = round.lag_ns.map_or_else(|| "not begun".to_owned(), duration_in_words);
        let last = format!("the last: {} workers, start lag {lag}", round.workers);
        if all.chars().count() + 2 + last.chars().count() <= width {
            rows.push((format!("{all}; {last}"), style));
        } else {
            rows.extend([(all, style), (format!("  {last}"), style)]);
        }
    }
    rows
}

/// The open streams through which most has gone, as far as that is known.
fn open_streams(look: &Look) -> Vec<Row> {
    let mut open: Vec<_> =
        look.streams.iter().filter(|stream| stream.is_open && stream.bytes > 0).collect();
    open.sort_by_key(|stream| std::cmp::Reverse(stream.bytes));
    let line = |stream: &StreamState| {
        let name = cut_middle(&printable(stream.name.as_bytes()), NAME_WIDTH_MAX);
        let (writers, readers) = (stream.writers, stream.readers);
        let (through, records) = (bytes(stream.bytes), stream.records);
        format!("  {name}: {through}, {records} records, {writers} to {readers} tasks")
    };
    open.into_iter().take(STREAMS_MAX).map(|stream| (line(stream), Style::new())).collect()
}

/// Tasks of each rule: done of all, where that is known. Where not all have room in `rows_max` rows, rules with failed
/// tasks come first, then those with running ones.
fn rules(look: &Look, width: usize, rows_max: usize) -> Vec<Row> {
    let done = |rule: &RuleCounts| match rule.total {
        Some(total) => format!("{}/{total}", rule.done),
        None => rule.done.to_string(),
    };
    let widest = look.rules.iter().map(|rule| done(rule).len()).max().unwrap_or(0).max(DONE.len());
    let room = width.saturating_sub(widest + 1 + 4 + 1 + 4 + 1 + 8 + 1).max(8);
    let head =
        format!("{:<room$} {DONE:>widest$} {:>4} {:>4} {:>8}", "rule", "run", "fail", "mean");
    let mut rows = vec![(head, HEAD)];
    let mut shown: Vec<&RuleCounts> = look.rules.iter().collect();
    if shown.len() + rows.len() > rows_max {
        shown.sort_by_key(|rule| (rule.failed == 0, rule.running == 0));
    }
    for rule in shown {
        let mean = rule.times.mean_ns().map_or_else(|| "-".to_owned(), duration_in_words);
        let label = cut_middle(&printable(rule.label.as_bytes()), room);
        let line = format!(
            "{label:<room$} {:>widest$} {:>4} {:>4} {mean:>8}",
            done(rule),
            rule.running,
            rule.failed
        );
        rows.push((line, if rule.failed > 0 { BAD } else { Style::new() }));
    }
    rows
}

fn nodes(look: &Look) -> Vec<Row> {
    let Some(live) = &look.live else { return Vec::new() };
    let mut rows =
        vec![(format!("{:<11} {:<8} {:>4} {:>3}", "node", "state", "core", "run"), HEAD)];
    for node in list(live, "nodes") {
        let state = text(&node["state"]);
        let bad = matches!(state.as_str(), "lost" | "failed" | "set_aside");
        let name = cut_middle(&text(&node["node"]), 11);
        let line = format!(
            "{name:<11} {state:<8} {:>4} {:>3}",
            word(node, "cores"),
            word(node, "running")
        );
        rows.push((line, if bad { BAD } else { Style::new() }));
    }
    rows
}

/// The chosen failure with the last lines of its output, in `room` rows.
fn failures(look: &Look, chosen: usize, width: usize, room: usize) -> Vec<Row> {
    let Some(failure) = &look.chosen else { return Vec::new() };
    let of = format!("failed {} of {}", chosen + 1, look.failed.len());
    let Failure { name, status, command, message, tail, .. } = failure;
    let why = status.clone().or_else(|| message.clone()).unwrap_or_default();
    let mut rows =
        vec![(format!("{of}: {}: {}", printable(name.as_bytes()), printable(why.as_bytes())), BAD)];
    if let Some(command) = command {
        rows.push((format!("$ {}", printable(command.as_bytes())), Style::new()));
    }
    let output = tail.as_deref().unwrap_or("(it has printed nothing)");
    let lines: Vec<&str> = output.lines().collect();
    let room = room.saturating_sub(rows.len());
    for line in &lines[lines.len().saturating_sub(room)..] {
        rows.push((format!("  {}", printable(line.as_bytes())), Style::new()));
    }
    rows.into_iter().map(|(line, style)| (cut_middle(&line, width), style)).collect()
}

fn put(area: Rect, buffer: &mut Buffer, rows: &[Row]) {
    put_of(area, buffer, rows, 0);
}

/// As `put`, where `others` more have no row.
fn put_of(area: Rect, buffer: &mut Buffer, rows: &[Row], others: usize) {
    let room = usize::from(area.height);
    let cut = (rows.len() > room || others > 0) && room > 0;
    let shown = if cut { rows.len().min(room - 1) } else { rows.len().min(room) };
    let at = |row: usize| Rect { y: area.y + row as u16, height: 1, ..area };
    for (row, (line, style)) in rows[..shown].iter().enumerate() {
        Line::from(Span::styled(line.as_str(), *style)).render(at(row), buffer);
    }
    if cut {
        let more = format!("({} more)", rows.len() - shown + others);
        Line::from(Span::styled(more, HEAD)).render(at(shown), buffer);
    }
}

/// As `put`, of rows below a head, which goes where there is no room for a row beside it and the number of others.
fn put_table(area: Rect, buffer: &mut Buffer, rows: &[Row], others: usize) {
    let headless = area.height < 3 && rows.len() + others > usize::from(area.height);
    put_of(area, buffer, &rows[usize::from(headless)..], others);
}

/// Rows that a failure has: what others leave of `height`, or a third of it if that is more. Rows are given of the
/// running tasks, of the tables, and of streams and rounds.
fn failure_room(height: u16, [tasks, tables, joined]: [usize; 3]) -> usize {
    let height = usize::from(height);
    let left = height.saturating_sub(FIXED_ROWS + joined + tasks + tables);
    let third = height / 3;
    left.max(third).clamp(FAILURE_ROWS_MIN.min(third), FAILURE_ROWS_MAX)
}

/// Rows that the tables have of those that they and the running tasks have together.
fn tables_room(shared: u16, tasks: usize, tables: usize) -> u16 {
    if shared < SHARED_ROWS_MIN {
        return 0;
    }
    let share = shared * TABLES_SHARE / (TASKS_SHARE + TABLES_SHARE);
    let tables = u16::try_from(tables).unwrap_or(u16::MAX);
    let left = shared.saturating_sub(u16::try_from(tasks).unwrap_or(u16::MAX));
    if tables > share { tables.min(left.max(share)) } else { share.min(left.max(tables)) }
}

/// The running tasks from the first that is looked at, below their head. Returns how many are seen.
fn put_running(area: Rect, buffer: &mut Buffer, rows: &[Row], others: usize, from: usize) -> usize {
    if from == 0 || rows.is_empty() {
        put_table(area, buffer, rows, others);
    } else {
        let mut shown = rows[from.min(rows.len() - 1)..].to_vec();
        shown[0] = (format!("({from} before)"), HEAD);
        put_of(area, buffer, &shown, others);
    }
    // Of a page one row is the head, another how many more there are.
    usize::from(area.height).saturating_sub(2)
}

/// The keys, on a screen of their own.
fn put_help(area: Rect, buffer: &mut Buffer) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut rows = vec![("rakudactl top: keys".to_owned(), bold), (String::new(), HEAD)];
    rows.extend(HELP.map(|(keys, what)| (format!("  {keys:<14} {what}"), Style::new())));
    put(area, buffer, &rows);
}

/// The last row: what is looked for, else what keys there are.
fn told_keys(look: &Look, view: &View) -> Row {
    if view.typing {
        return (format!("/{}_", printable(view.words.as_bytes())), Style::new());
    }
    if !view.words.is_empty() {
        let words = printable(view.words.as_bytes());
        let (running, done, failed) = (look.running(), look.done, look.failed.len());
        let (to_come, more) = look.to_come;
        let least = if more { "at least " } else { "" };
        let found =
            format!("{running} running, {done} done, {failed} failed, {least}{to_come} not begun");
        return (format!("/{words}: {found}   Esc shows all"), HEAD);
    }
    let choose = if look.failed.len() > 1 { "   ↑ ↓ other failures" } else { "" };
    let leave = if look.live.is_some() { "q leave (the run goes on)" } else { "q leave" };
    (format!("{leave}   ? help   / look for tasks{choose}"), HEAD)
}

/// Draws a look. Returns how many running tasks are seen at once.
pub fn draw(look: &Look, view: &View, area: Rect, buffer: &mut Buffer) -> usize {
    if view.help {
        put_help(area, buffer);
        return 0;
    }
    let width = usize::from(area.width);
    let between = joined(look, width);
    let (running, others) = running(look, width);
    let others = if view.words.is_empty() { others } else { 0 };
    let running_rows = running.len() + others.min(1);
    let nodes = nodes(look);
    // A search shows all tasks that it has found, in the place of the tables.
    let found = if view.words.is_empty() {
        Vec::new()
    } else {
        not_running(look, "found, not running", width)
    };
    let tables_rows = match found.len() {
        0 if view.words.is_empty() => nodes.len().max(look.rules.len() + 1),
        rows => rows,
    };
    let room = failure_room(area.height, [running_rows, tables_rows, between.len()]);
    let failed = failures(look, view.chosen, width, room);
    let failed_rows = failed.len() as u16;
    let below = failed_rows + u16::from(failed_rows > 0);
    let above = between.len() as u16;
    let shared = area.height.saturating_sub(FIXED_ROWS as u16 - 1 + above + below);
    let tables_height = tables_room(shared, running_rows, tables_rows)
        .min(u16::try_from(tables_rows).unwrap_or(u16::MAX));
    let tasks_height =
        (shared - tables_height).min(u16::try_from(running_rows).unwrap_or(u16::MAX));
    // What nobody needs: a row between tasks and tables, and the rest for tasks that have ended.
    let spare = shared - tables_height - tasks_height;
    let [title, count, line, extra, tasks, _, tables, told, past, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(above),
        Constraint::Length(tasks_height),
        Constraint::Length(spare.min(1)),
        Constraint::Length(tables_height),
        Constraint::Length(below),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    put(title, buffer, &[(format!("rakuda {}", look.run), bold)]);
    let bad = look.live.as_ref().is_some_and(|live| word(live, "failed") > 0);
    put(count, buffer, &[(progress(look), if bad { BAD } else { Style::new() })]);
    put(line, buffer, &[(bar(look, area.width), Style::new().fg(Color::Green))]);
    put(extra, buffer, &between);
    let page = put_running(tasks, buffer, &running, others, view.from);
    if view.words.is_empty() {
        let [left, right] =
            Layout::horizontal([Constraint::Fill(1), Constraint::Length(30)]).areas(tables);
        let rules =
            rules(look, usize::from(left.width).saturating_sub(2), usize::from(left.height));
        put_table(left, buffer, &rules, 0);
        put_table(right, buffer, &nodes, 0);
    } else {
        put_table(tables, buffer, &found, 0);
    }
    put(Rect { y: told.y + u16::from(below > 0), height: failed_rows, ..told }, buffer, &failed);
    if past.height >= ENDED_ROWS_MIN && !look.others.is_empty() && view.words.is_empty() {
        let mut rows = not_running(look, "ended last", width);
        rows.truncate(usize::from(past.height) - 1);
        put(Rect { y: past.y + 1, height: past.height - 1, ..past }, buffer, &rows);
    }
    put(keys, buffer, &[told_keys(look, view)]);
    page
}

/// The same as lines, where there is no terminal.
pub fn lines(look: &Look) -> String {
    const WIDTH: usize = 120;
    let mut out = format!("rakuda {}\n{}\n", look.run, progress(look));
    let (mut running, mut others) = running(look, WIDTH);
    others += running.len().saturating_sub(TASKS_TOLD_MAX + 1);
    running.truncate(TASKS_TOLD_MAX + 1);
    if others > 0 {
        running.push((format!("({others} more)"), HEAD));
    }
    for part in [
        joined(look, WIDTH),
        running,
        rules(look, WIDTH / 2, usize::MAX),
        nodes(look),
        failures(look, 0, WIDTH, FAILURE_ROWS_MAX),
    ] {
        if !part.is_empty() {
            out.push('\n');
        }
        for (line, _) in part {
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use rakuda_proto::journal::RoundEnded;
    use rakuda_record::summary::attempt_times::AttemptTimes;
    use rakuda_record::sync::SyncFigures;
    use ratatui_core::backend::TestBackend;
    use ratatui_core::terminal::Terminal;
    use serde_json::json;

    use super::*;

    fn look(tasks: usize) -> Look {
        let task = |number: usize| {
            json!({"task": format!("map/s{number}.bam"), "node": "host1", "elapsed_s": 3.2,
                   "commands": [{"command": "bwa mem \u{1b}[2J ref.fa", "elapsed_s": 3.0}]})
        };
        let live = json!({
            "run": "20261122-010558.634-11897", "done": 120, "total": 2707, "running": tasks, "queued": 30, "failed": 2,
            "rate_per_s": 35.0, "left": {"s": 70.0, "low_s": 50.0, "high_s": 120.0, "unknown_tasks": 0},
            "tasks": (0..tasks.min(20)).map(task).collect::<Vec<_>>(),
            "nodes": [{"node": "host1", "state": "up", "cores": 8, "running": 8}, {"node": "host2", "state": "lost"}],
        });
        let rule = RuleCounts {
            label: "map/*.bam".to_owned(),
            running: tasks,
            done: 120,
            failed: 2,
            total: Some(2_600),
            times: AttemptTimes { ended: 122, total_ns: 240_000_000_000 },
        };
        let chosen = Failure {
            task: 7,
            name: "call/s17.vcf".to_owned(),
            attempts: 1,
            command: Some("call s17".to_owned()),
            env: None,
            status: Some("status 3".to_owned()),
            node: None,
            message: None,
            tail: Some((0..20).map(|line| format!("line {line}")).collect::<Vec<_>>().join("\n")),
        };
        Look {
            run: "20261122-010558.634-11897".to_owned(),
            live: Some(live),
            state: "",
            streams: Vec::new(),
            rounds: SyncFigures::default(),
            rules: vec![rule],
            failed: vec![7, 9],
            chosen: Some(chosen),
            others: Vec::new(),
            done: 0,
            to_come: (0, false),
        }
    }

    fn drawn(look: &Look, width: u16, height: u16) -> Vec<String> {
        drawn_of(look, &View { chosen: 1, ..View::default() }, width, height)
    }

    fn drawn_of(look: &Look, view: &View, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let draw = |frame: &mut ratatui_core::terminal::Frame| {
            draw(look, view, frame.area(), frame.buffer_mut());
        };
        terminal.draw(draw).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| row(y).trim_end().to_owned()).collect()
    }

    #[test]
    fn all_parts_have_room_on_80_by_24() {
        let lines = drawn(&look(8), 80, 24);
        assert_eq!(lines[0], "rakuda 20261122-010558.634-11897");
        assert_eq!(lines[1], "120/2707 done, 8 running, 30 queued, 2 failed, 35.0/s, 70 s left");
        assert_eq!(lines[4], "3.2 s  host1 map/s0.bam   bwa mem ?[2J ref.fa");
        let of_rule = lines.iter().find(|line| line.starts_with("map/*.bam "));
        assert!(
            of_rule.is_some_and(|line| line.contains(" 120/2600    8    2    2.0 s")),
            "{lines:#?}"
        );
        assert!(
            lines.iter().any(|line| line.ends_with("host2       lost        0   0")),
            "{lines:#?}"
        );
        assert!(lines.contains(&"failed 2 of 2: call/s17.vcf: status 3".to_owned()), "{lines:#?}");
        assert_eq!(lines[22], "  line 19");
        assert!(lines[23].starts_with("q leave"), "{lines:#?}");
    }

    #[test]
    fn a_failure_has_as_many_of_its_last_20_lines_as_there_is_room_for() {
        let shown =
            |lines: &[String]| lines.iter().filter(|line| line.starts_with("  line ")).count();
        let look = look(8);
        for (height, expected) in [(24, 6), (34, 15), (45, 20), (60, 20)] {
            let lines = drawn(&look, 80, height);
            assert_eq!(shown(&lines), expected, "{height}: {lines:#?}");
            let [above @ .., _keys] = &lines[..] else { panic!("{lines:#?}") };
            assert_eq!(above.iter().rfind(|line| !line.is_empty()).unwrap(), "  line 19");
            // Nothing else is cut for it that was whole.
            assert!(height < 40 || !lines.iter().any(|line| line.ends_with("more)")), "{lines:#?}");
        }
        let text: Vec<String> = lines(&look).lines().map(str::to_owned).collect();
        assert_eq!(shown(&text), 20);
    }

    #[test]
    fn commands_have_the_room_that_others_leave() {
        let mut look = look(2);
        let live = look.live.as_mut().unwrap();
        live["nodes"].as_array_mut().unwrap().pop();
        let long =
            "bwa mem -t 4 data/genome.fa data/samples/A.fastq | samtools sort -o sorted/A.bam";
        live["tasks"][0]["commands"][0]["command"] = json!(long);
        live["tasks"][1]["task"] = json!("results/with/a/very/long/name/of/a/file/that/is/cut.bam");
        let lines = drawn(&look, 80, 24);
        let head = format!("  for  {:<28} command", "running task");
        assert_eq!(lines[3], head, "one node has no column: {lines:#?}");
        let shown = &lines[4][head.len() - "command".len()..];
        assert_eq!(lines[4].chars().count(), 80, "{lines:#?}");
        assert!(shown.starts_with("bwa mem -t 4") && shown.ends_with("sorted/A.bam"), "{shown}");
        assert!(lines[5].contains("resul") && lines[5].contains("cut.bam bwa mem"), "{lines:#?}");
        // On a wide screen nothing is cut.
        let lines = drawn(&look, 160, 24);
        assert!(lines[4].contains(long), "{lines:#?}");
        assert!(
            lines[5].contains("results/with/a/very/long/name/of/a/file/that/is/cut.bam"),
            "{lines:#?}"
        );
    }

    #[test]
    fn names_in_one_folder_are_told_apart() {
        let mut look = look(12);
        let live = look.live.as_mut().unwrap();
        for number in 0..12 {
            live["tasks"][number]["task"] = json!(format!(
                "results/very/deep/sample_{number:02}.sorted.dedup.recalibrated.bam"
            ));
        }
        let lines = drawn(&look, 80, 40);
        assert!(
            lines[15].contains(" ...sample_11.sorted.dedup.recalibrated.bam bwa"),
            "{lines:#?}"
        );
        let lines = drawn(&look, 60, 40);
        assert!(lines[4].contains(" ...sample_00.sorted.dedup... bwa"), "{lines:#?}");
        let lines = drawn(&look, 160, 40);
        assert!(lines[4].contains(" results/very/deep/sample_00.sorted.dedup.recalibrated.bam "));
    }

    #[test]
    fn streams_and_synchronised_rounds_have_a_line_each() {
        let mut look = look(2);
        let open = StreamState { is_open: true, ..StreamState::default() };
        look.streams = vec![open.clone()];
        assert_eq!(drawn(&look, 80, 24)[3], "streams: 1 of 1 open");
        let ended = StreamState { bytes: 1_500_000, ..StreamState::default() };
        look.streams = vec![open, ended];
        assert_eq!(drawn(&look, 80, 24)[3], "streams: 1 of 2 open, 1.50 MB went through");
        look.streams[0] = StreamState {
            name: "lines".to_owned(),
            is_open: true,
            writers: 3,
            readers: 1,
            bytes: 2_000_000,
            records: 40,
            ..StreamState::default()
        };
        let round = RoundEnded {
            kind: "counted".to_owned(),
            workers: 4,
            lag_ns: Some(1_200),
            ..RoundEnded::default()
        };
        look.live.as_mut().unwrap()["rounds"] = json!([
            {"sync": "io", "number": 3, "kind": "counted", "workers": 4, "begun": 2, "failed": 0}]);
        look.rounds.add(&[round], &std::collections::BTreeMap::new(), &|_| String::new());
        let lines = drawn(&look, 80, 24);
        assert_eq!(lines[3], "streams: 1 of 2 open, 3.50 MB went through");
        assert_eq!(lines[4], "  lines: 2.00 MB, 40 records, 3 to 1 tasks");
        assert_eq!(lines[5], "round 3 (counted) of io: 2 of 4 workers have begun");
        let last = "the last: 4 workers, start lag 1.2 µs";
        assert_eq!(lines[6], format!("synchronised rounds: 1; {last}"));
        // What is wider than the screen has two lines, so that the lag is always seen.
        let lines = drawn(&look, 50, 24);
        assert_eq!(lines[6..8], ["synchronised rounds: 1".to_owned(), format!("  {last}")]);
    }

    #[test]
    fn what_the_running_tasks_leave_is_for_the_rules_and_the_other_way_round() {
        let rule = |number: usize, failed: usize| RuleCounts {
            label: format!("r{number}/*.bam"),
            failed,
            ..look(0).rules[0].clone()
        };
        let mut few = look(3);
        few.chosen = None;
        few.rules = (0..12).map(|number| rule(number, 0)).collect();
        let lines = drawn(&few, 80, 24);
        assert!(!lines.iter().any(|line| line.contains("more)")), "{lines:#?}");
        assert!(lines.iter().any(|line| line.starts_with("r11/*.bam")), "{lines:#?}");
        let mut many = look(14);
        many.chosen = None;
        let lines = drawn(&many, 80, 24);
        assert!(!lines.iter().any(|line| line.contains("more)")), "{lines:#?}");
        // Of more than have room, those are shown that have failed.
        few.rules = (0..30).map(|number| rule(number, usize::from(number > 26))).collect();
        let lines = drawn(&few, 80, 24);
        assert!(lines.iter().any(|line| line.starts_with("r29/*.bam")), "{lines:#?}");
        assert!(lines.iter().any(|line| line.starts_with('(') && line.ends_with("more)")));
    }

    #[test]
    fn rows_that_nobody_needs_are_for_tasks_that_have_ended() {
        let task = |number: usize| NotRunning {
            name: format!("map/e{number:02}.bam"),
            node: "host1".to_owned(),
            took_ns: Some(2_000_000_000),
            how: if number == 1 { "status 3" } else { "done" }.to_owned(),
            is_bad: number == 1,
        };
        let mut few = look(1);
        few.chosen = None;
        few.failed.clear();
        few.others = (0..40).map(task).collect();
        let lines = drawn(&few, 80, 24);
        assert!(lines[5].is_empty() && lines[6].starts_with("rule"), "{lines:#?}");
        let head = lines.iter().position(|line| line.contains("ended last")).unwrap();
        assert!(lines[head + 1].contains("host1 map/e00.bam done"), "{lines:#?}");
        assert!(lines[head + 2].ends_with("status 3"), "{lines:#?}");
        assert_eq!(lines.iter().filter(|line| line.is_empty()).count(), 2, "{lines:#?}");
        // What runs has the room when there is more of it.
        let mut many = look(14);
        many.others = (0..40).map(task).collect();
        assert!(!drawn(&many, 80, 24).iter().any(|line| line.contains("ended last")));
    }

    #[test]
    fn all_that_is_looked_for_is_shown_in_the_place_of_the_tables() {
        let task = |number: usize, how: &str| NotRunning {
            name: format!("map/x{number:02}.bam"),
            node: String::new(),
            took_ns: (how == "done").then_some(2_000_000_000),
            how: how.to_owned(),
            is_bad: false,
        };
        let mut look = look(1);
        (look.chosen, look.done, look.to_come) = (None, 1, (2, true));
        look.failed.clear();
        look.others = vec![task(1, "done"), task(2, "waits for tasks"), task(3, "ready")];
        let view = View { words: "map".to_owned(), ..View::default() };
        let lines = drawn_of(&look, &view, 80, 24);
        let head = lines.iter().position(|line| line.contains("found, not running")).unwrap();
        assert!(
            lines[head + 1].contains("2.0 s") && lines[head + 1].ends_with("done"),
            "{lines:#?}"
        );
        assert!(lines[head + 2].contains("- ") && lines[head + 2].ends_with("waits for tasks"));
        assert!(lines[head + 3].contains("map/x03.bam"), "{lines:#?}");
        assert!(!lines.iter().any(|line| line.starts_with("rule ")), "{lines:#?}");
        assert_eq!(
            lines[23],
            "/map: 1 running, 1 done, 0 failed, at least 2 not begun   Esc shows all"
        );
        assert!(drawn(&look, 80, 24).iter().any(|line| line.starts_with("rule ")));
    }

    #[test]
    fn running_tasks_are_scrolled_through() {
        let look = Look { chosen: None, ..look(20) };
        let of = |from: usize| {
            let view = View { from, ..View::default() };
            let lines = drawn_of(&look, &view, 80, 24);
            let names: Vec<String> = lines
                .iter()
                .filter_map(|line| line.split_whitespace().find(|word| word.starts_with("map/s")))
                .map(str::to_owned)
                .collect();
            (lines, names)
        };
        let mut seen = Vec::new();
        let mut from = 0;
        while from < 20 {
            let (lines, names) = of(from);
            let before = format!("({from} before)");
            assert_eq!(lines.contains(&before), from > 0, "{lines:#?}");
            from += names.len();
            assert_eq!(lines.contains(&format!("({} more)", 20 - from)), from < 20, "{lines:#?}");
            seen.extend(names);
        }
        assert_eq!(seen, (0..20).map(|number| format!("map/s{number}.bam")).collect::<Vec<_>>());
    }

    #[test]
    fn the_last_row_says_what_is_looked_for_and_the_help_has_all_keys() {
        let last = |view: &View| drawn_of(&look(3), view, 80, 24).pop().unwrap();
        let typing = View { words: "s1".to_owned(), typing: true, ..View::default() };
        assert_eq!(last(&typing), "/s1_");
        let looked = View { typing: false, ..typing };
        assert_eq!(last(&looked), "/s1: 3 running, 0 done, 2 failed, 0 not begun   Esc shows all");
        let keys = last(&View::default());
        assert!(
            keys.contains("? help") && keys.contains("/ look") && keys.contains("↑ ↓"),
            "{keys}"
        );
        let lines = drawn_of(&look(3), &View { help: true, ..View::default() }, 80, 24);
        for (keys, what) in HELP {
            assert!(
                lines.iter().any(|line| line.contains(keys) && line.ends_with(what)),
                "{lines:#?}"
            );
        }
    }

    #[test]
    fn running_tasks_without_a_row_are_all_counted() {
        let mut look = look(50);
        look.chosen = None;
        for height in [10, 24, 60] {
            let lines = drawn(&look, 80, height);
            let shown = lines.iter().filter(|line| line.contains(" map/s")).count();
            assert!(lines.contains(&format!("({} more)", 50 - shown)), "{height}: {lines:#?}");
        }
        assert!(lines(&look).lines().any(|line| line == "(30 more)"), "{}", lines(&look));
    }

    #[test]
    fn a_small_screen_has_a_running_task_and_the_end_of_a_failure() {
        let lines = drawn(&look(5), 40, 10);
        assert!(lines[3].contains("map/s0.bam"), "{lines:#?}");
        assert_eq!(lines[4], "(4 more)");
        assert_eq!(lines[8], "  line 19");
    }

    #[test]
    fn more_than_there_is_room_for_is_counted() {
        let lines = drawn(&look(50), 80, 24);
        let more = lines.iter().find(|line| line.starts_with('(')).unwrap();
        assert!(more.ends_with("more)"), "{lines:#?}");
        assert!(lines[23].starts_with("q leave"), "{lines:#?}");
    }

    #[test]
    fn small_screens_and_none_at_all_are_no_harm() {
        for (width, height) in [(1, 1), (20, 5), (80, 3), (300, 2)] {
            assert_eq!(drawn(&look(8), width, height).len(), usize::from(height));
        }
        let ended = Look { live: None, state: "done", ..look(0) };
        assert_eq!(drawn(&ended, 80, 24)[1], "has ended: done; 120 done, 2 failed");
        assert!(lines(&ended).contains("map/*.bam"));
    }
}
