//! Dispatches per second through the whole hub, without processes: a front in a thread of its own, the real
//! protocol over a real socket, the real core, and 100 fake agents of one core that end every command at once.
//!
//! A task here is: RunAction, StartCommand, CommandEnded, ActionEnded. It starts no process.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark reads the clock and prints"
)]

#[path = "../examples/support/instant_agent.rs"]
mod support;

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Instant;

use rakuda_cluster::Node;
use rakuda_core::Capacity;
use rakuda_proto::Text;
use rakuda_proto::frame::{FrameReader, FrameWriter};
use rakuda_proto::front::{
    ActionOutcome, FrontMessage, HubMessage, Program, Settings, TaskDefinition, TaskFlag,
    TaskFlags, TaskKind,
};
use support::{Count, InstantAgent};

const AGENTS: u32 = 100;
const ROUNDS: usize = 5;

/// The front's side: answers as fast as it can. Returns seconds from the first RunAction on.
fn front(mut stream: UnixStream, tasks: u32) -> f64 {
    let mut writer = FrameWriter::default();
    let settings = Settings {
        directory: Text::from(std::env::temp_dir().to_string_lossy().into_owned()),
        record: false,
        ..Settings::default()
    };
    let version = env!("CARGO_PKG_VERSION").to_owned();
    writer.push(&FrontMessage::Hello(version, Box::new(settings)));
    for first in (0..tasks).step_by(2000) {
        let batch: Vec<TaskDefinition> = (first..tasks.min(first + 2000))
            .map(|n| {
                (
                    n,
                    TaskKind::Plain,
                    TaskFlags::of(&[TaskFlag::HasAction]),
                    Text::from(format!("task{n}")),
                    0,
                    vec![],
                    0,
                    0,
                    0,
                )
            })
            .collect();
        writer.push(&FrontMessage::DefineTasks { tasks: batch });
        send(&mut writer, &mut stream);
    }
    writer.push(&FrontMessage::Invoke(0, (0..tasks).collect(), None));
    send(&mut writer, &mut stream);
    let mut reader = FrameReader::default();
    let mut messages = Vec::new();
    let mut chunk = vec![0; 256 << 10];
    let mut begin = None;
    loop {
        let bytes = stream.read(&mut chunk).expect("read from the hub");
        reader.buffer_mut().extend_from_slice(&chunk[..bytes]);
        reader.drain(&mut messages).expect("well-formed frames");
        for message in messages.drain(..) {
            match message {
                HubMessage::RunAction(task, ..) => {
                    begin.get_or_insert_with(Instant::now);
                    let program = Program::Line(Text::from("true"));
                    writer.push(&FrontMessage::StartCommand(task, Some(task), program, None, None));
                }
                HubMessage::CommandEnded(task, ..) => {
                    let ok = ActionOutcome::Ok;
                    writer.push(&FrontMessage::ActionEnded(task, ok, Text::default(), None));
                }
                HubMessage::InvocationEnded(_, failed, abandoned) => {
                    assert!(failed.is_empty() && abandoned.is_empty());
                    let seconds = begin.expect("something ran").elapsed().as_secs_f64();
                    writer.push(&FrontMessage::Goodbye { failed: false });
                    send(&mut writer, &mut stream);
                    return seconds;
                }
                HubMessage::Welcome(..) => {}
                other => panic!("unexpected {other:?}"),
            }
        }
        send(&mut writer, &mut stream);
    }
}

fn send(writer: &mut FrameWriter, stream: &mut UnixStream) {
    if !writer.is_empty() {
        let mut frame = Vec::new();
        writer.finish(&mut frame);
        stream.write_all(&frame).expect("write to the hub");
    }
}

fn round(tasks: u32) -> f64 {
    let (ours, theirs) = UnixStream::pair().expect("make a socket pair");
    let front = std::thread::spawn(move || front(ours, tasks));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    let count = Rc::new(Count::default());
    let hub = rakuda_hub::run_with(theirs, rakuda_hub::Guard::default(), |_, events| {
        let node = |number| Node {
            name: Text::from(format!("node{number}")),
            capacity: Capacity { cores: 1, memory_bytes: 1 << 30, ..Capacity::default() },
            port: Box::new(InstantAgent { events: events.clone(), count: Rc::clone(&count) }),
        };
        Ok((0..AGENTS).map(node).collect())
    });
    local.block_on(&runtime, hub).expect("the hub ends well");
    f64::from(tasks) / front.join().expect("the front ends well")
}

fn main() {
    println!(
        "{AGENTS} fake agents of one core, no processes; dispatches/s: median [min-max] of {ROUNDS}"
    );
    for tasks in [1_000, 10_000, 100_000, 1_000_000] {
        let mut rates: Vec<f64> = (0..ROUNDS).map(|_| round(tasks)).collect();
        rates.sort_by(f64::total_cmp);
        let (median, least, most) = (rates[ROUNDS / 2], rates[0], rates[ROUNDS - 1]);
        println!("{tasks:9} tasks queued  {median:8.0} [{least:.0}-{most:.0}]");
    }
}
