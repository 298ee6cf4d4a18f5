//! Perfetto's TrackEvent: a trace that ui.perfetto.dev and `trace_processor` open.
//!
//! One track per core slot of each node, attempts as slices with their commands nested in them, counters of running
//! tasks, flows from the producer of a file to the attempts that take it, instants for failures. Field numbers are
//! those of Perfetto's `trace_packet.proto`, `track_event.proto`, `track_descriptor.proto`, `interned_data.proto` and
//! `debug_annotation.proto`. How slots are shared out is in `slots`; how bytes are laid out in `protobuf`.

mod counters;
mod packets;

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};

use rakuda_proto::journal::ReasonKind;

use self::packets::{Annotations, Category, Event, Trace};
use super::names::shell_word;
use super::slots::{Interval, allocate};
use super::workflow::{Workflow, attempts, failure, outcome};
use crate::{Attempt, Command, Run, Task};

/// Writes a run.
///
/// # Errors
/// When writing fails.
pub fn write(run: &Run, out: impl Write) -> io::Result<()> {
    let mut trace = Trace::new(BufWriter::new(out));
    trace.begin(run.started.time_ns)?;
    let placed = place(run);
    let flows = flows(run);
    for (node, attempts) in &placed {
        draw_node(run, *node, attempts, &flows, &mut trace)?;
    }
    counters::draw(run, &mut trace)?;
    trace.finish()
}

/// A time in which an attempt had its cores of a node, and where it is drawn.
struct Placed<'a> {
    task: &'a Task,
    attempt: &'a Attempt,
    start_ns: i64,
    end_ns: i64,
    /// It is the first, or the last, time of the attempt.
    first: bool,
    last: bool,
    /// Its commands start on this node.
    is_home: bool,
    cores: u32,
    slots: Vec<u32>,
}

/// Tracks beside those of slots, by slot and lane.
type Spare = BTreeMap<(u32, u32), u64>;

/// By node, in order of start.
fn place(run: &Run) -> BTreeMap<u32, Vec<Placed<'_>>> {
    let mut nodes: BTreeMap<u32, Vec<Placed<'_>>> = BTreeMap::new();
    for task in run.tasks.iter().flatten() {
        for attempt in attempts(task) {
            let mut held = attempt.held(run);
            if held.is_empty() {
                held.push(attempt.span(run, &held));
            }
            let times = held.iter().enumerate();
            for ((index, &(start_ns, end_ns)), (node, cores)) in
                times.flat_map(|time| attempt.started.shares().map(move |share| (time, share)))
            {
                nodes.entry(node).or_default().push(Placed {
                    task,
                    attempt,
                    start_ns,
                    end_ns,
                    first: index == 0,
                    last: index + 1 == held.len(),
                    is_home: node == attempt.started.node,
                    cores,
                    slots: Vec::new(),
                });
            }
        }
    }
    for placed in nodes.values_mut() {
        placed.sort_by_key(|one| (one.start_ns, one.end_ns, one.task.defined.task));
        let intervals: Vec<Interval> = placed
            .iter()
            .map(|one| Interval { start_ns: one.start_ns, end_ns: one.end_ns, width: one.cores })
            .collect();
        for (one, slots) in placed.iter_mut().zip(allocate(&intervals)) {
            one.slots = slots;
        }
    }
    nodes
}

/// Flows that begin and end at a task.
#[derive(Default, Clone)]
struct Ends {
    begin: Vec<u64>,
    end: Vec<u64>,
}

/// One flow per file that one attempt has made and another has taken, by task number. Flow identifiers count from 1.
fn flows(run: &Run) -> BTreeMap<u32, Ends> {
    let workflow = Workflow::of(run);
    let begun = |task: u32| {
        run.tasks[task as usize].as_ref().is_some_and(|task| attempts(task).next().is_some())
    };
    let mut flows: BTreeMap<u32, Ends> = BTreeMap::new();
    let mut id = 0;
    for step in &workflow.steps {
        for &input in step.inputs.iter().filter(|input| begun(**input) && begun(step.task)) {
            id += 1;
            flows.entry(input).or_default().begin.push(id);
            flows.entry(step.task).or_default().end.push(id);
        }
    }
    flows
}

fn draw_node<W: Write>(
    run: &Run,
    node: u32,
    placed: &[Placed<'_>],
    flows: &BTreeMap<u32, Ends>,
    trace: &mut Trace<W>,
) -> io::Result<()> {
    let joined = run.nodes.get(node as usize).map(|node| &node.joined);
    let name = joined.map_or_else(|| format!("node {node}"), |joined| joined.name.to_display());
    let parent = trace.track(None, &format!("node {name}"), u64::from(node))?;
    let slots = placed.iter().flat_map(|one| &one.slots).max().map_or(0, |slot| slot + 1);
    let mut tracks = Vec::new();
    for slot in 0..slots {
        tracks.push(trace.track(Some(parent), &format!("core {slot}"), u64::from(slot))?);
    }
    let mut spare = Spare::new();
    for one in placed {
        draw_attempt(run, one, &tracks, &mut spare, flows, trace)?;
    }
    Ok(())
}

/// The slice on the first of its slots at home, with all that is known; the bare name on the others.
fn draw_attempt<W: Write>(
    run: &Run,
    one: &Placed<'_>,
    tracks: &[u64],
    spare: &mut Spare,
    flows: &BTreeMap<u32, Ends>,
    trace: &mut Trace<W>,
) -> io::Result<()> {
    let name = one.task.defined.name.to_display();
    let (whole, others) = one.slots.split_at(usize::from(one.is_home).min(one.slots.len()));
    if let Some(&first) = whole.first() {
        draw_whole(run, one, (&name, first), tracks, spare, flows, trace)?;
    }
    for slot in others {
        let track = tracks[*slot as usize];
        let event = Event { track, ..Event::plain(Category::MoreCores, &name) };
        trace.begin_slice(one.start_ns, &event, &Annotations::default())?;
        trace.end_slice(one.end_ns, track)?;
    }
    Ok(())
}

fn draw_whole<W: Write>(
    run: &Run,
    one: &Placed<'_>,
    (name, slot): (&str, u32),
    tracks: &[u64],
    spare: &mut Spare,
    flows: &BTreeMap<u32, Ends>,
    trace: &mut Trace<W>,
) -> io::Result<()> {
    let (task, attempt) = (one.task, one.attempt);
    let track = tracks[slot as usize];
    let none = Vec::new();
    let without = Ends::default();
    let ends = flows.get(&task.defined.task).unwrap_or(&without);
    let last = attempts(task).next_back().is_some_and(|last| std::ptr::eq(last, attempt));
    let event = Event {
        track,
        category: Category::Task,
        name,
        flows: if last && one.last { &ends.begin } else { &none },
        ending_flows: if one.first { &ends.end } else { &none },
    };
    let annotations = annotations(run, task, attempt);
    trace.begin_slice(one.start_ns, &event, &annotations)?;
    draw_commands(run, one, track, slot, spare, trace)?;
    let goes_on = run.alive && attempt.ended.is_none();
    if let Some(failure) = failure(run, attempt).filter(|_| one.last && !goes_on) {
        let mut annotations = Annotations::default();
        annotations.text("message", failure);
        let name = format!("failed: {name}");
        let event = Event { track, ..Event::plain(Category::Failure, &name) };
        trace.instant(one.end_ns, &event, &annotations)?;
    }
    trace.end_slice(one.end_ns, track)
}

/// Commands nested in their attempt's slice. One that overlaps an earlier one of the same attempt
/// goes on a track beside the slot's.
fn draw_commands<W: Write>(
    run: &Run,
    one: &Placed<'_>,
    track: u64,
    slot: u32,
    spare: &mut Spare,
    trace: &mut Trace<W>,
) -> io::Result<()> {
    let is_within = |command: &&Command| {
        let start_ns = command.started.time_ns;
        (one.first || one.start_ns <= start_ns) && (one.last || start_ns < one.end_ns)
    };
    let numbers = one.attempt.commands.iter();
    let all = numbers.filter_map(|number| run.commands.get(*number as usize)?.as_ref());
    let commands: Vec<&Command> = all.filter(is_within).collect();
    let clamp = |time_ns: i64| time_ns.clamp(one.start_ns, one.end_ns);
    let mut intervals: Vec<Interval> = Vec::new();
    for command in &commands {
        let start_ns = clamp(command.started.time_ns);
        let end_ns = command.ended.as_ref().map_or(one.end_ns, |ended| clamp(ended.time_ns));
        intervals.push(Interval { start_ns, end_ns: end_ns.max(start_ns), width: 1 });
    }
    let mut order: Vec<usize> = (0..commands.len()).collect();
    order.sort_by_key(|index| intervals[*index].start_ns);
    let sorted: Vec<Interval> = order.iter().map(|index| intervals[*index].clone()).collect();
    for (index, lanes) in order.into_iter().zip(allocate(&sorted)) {
        let track = match lanes[0] {
            0 => track,
            lane => spare_track(spare, (slot, lane), track, trace)?,
        };
        let (name, annotations) = command_annotations(commands[index]);
        let event = Event { track, ..Event::plain(Category::Command, &name) };
        trace.begin_slice(intervals[index].start_ns, &event, &annotations)?;
        trace.end_slice(intervals[index].end_ns, track)?;
    }
    Ok(())
}

/// The track beside a slot's for commands at once, made when it is first wanted.
fn spare_track<W: Write>(
    spare: &mut Spare,
    (slot, lane): (u32, u32),
    beside: u64,
    trace: &mut Trace<W>,
) -> io::Result<u64> {
    if let Some(found) = spare.get(&(slot, lane)) {
        return Ok(*found);
    }
    let name = format!("core {slot}, command {} at once", lane + 1);
    let track = trace.track(Some(beside), &name, u64::from(lane))?;
    spare.insert((slot, lane), track);
    Ok(track)
}

fn annotations(run: &Run, task: &Task, attempt: &Attempt) -> Annotations {
    let mut list = Annotations::default();
    list.number("task", u64::from(task.defined.task));
    list.number("attempt", u64::from(attempt.started.attempt));
    let cores = attempt.started.cores_in_all();
    if cores != 1 {
        list.number("cores", u64::from(cores));
    }
    if let Some(rule) = rule_name(run, task) {
        list.interned("rule", rule);
    }
    list.interned("outcome", outcome(attempt).map_or("cut_off".into(), |outcome| word(&outcome)));
    let reasons: Vec<String> = attempt
        .started
        .reasons
        .iter()
        .map(|reason| {
            let path = reason.path.as_ref().filter(|_| reason.kind != ReasonKind::Missing);
            path.map_or_else(
                || word(&reason.kind),
                |path| format!("{} {}", word(&reason.kind), path.to_display()),
            )
        })
        .collect();
    if !reasons.is_empty() {
        list.interned("reasons", reasons.join(", "));
    }
    if let Some(after) = attempt.ended.as_ref().and_then(|ended| ended.after) {
        list.number("bytes", after.bytes);
    }
    list
}

/// How the journal spells a value of an enum.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

fn rule_name(run: &Run, task: &Task) -> Option<String> {
    Some(run.location(task)?.to_display())
}

/// A command's name is its program, so that slices of one program have one colour.
fn command_annotations(command: &Command) -> (String, Annotations) {
    let mut list = Annotations::default();
    let line = match (&command.started.words, &command.started.line) {
        (Some(words), _) => words.iter().map(shell_word).collect::<Vec<_>>().join(" "),
        (None, Some(line)) => line.to_display(),
        (None, None) => String::new(),
    };
    let name = line.split_whitespace().next().unwrap_or("command").to_owned();
    list.text("command", line);
    if let Some(env) = &command.started.env {
        list.text("env", env.words());
    }
    match &command.ended {
        None => list.interned("status", "cut_off".into()),
        Some(ended) => {
            list.interned("status", status(ended.status));
            list.number("user_us", ended.user_us);
            list.number("system_us", ended.system_us);
            if let Some(bytes) = ended.rss_bytes() {
                list.number("rss_kib_max", bytes / 1024);
            }
            list.number("read_bytes", ended.read_bytes);
            list.number("write_bytes", ended.write_bytes);
            if let Some(error) = &ended.error {
                list.text("error", error.to_display());
            }
        }
    }
    (name, list)
}

/// A status of wait(2) in words.
fn status(status: i32) -> String {
    match status & 0x7f {
        0 => format!("exit {}", status >> 8 & 0xff),
        signal => format!("signal {signal}"),
    }
}

#[cfg(test)]
#[path = "perfetto_tests.rs"]
mod tests;
