//! The whole hub with a fake agent and a front in a thread: however many actions are begun early, no more commands
//! run at a time than there are cores, and after a failure those begun early are given back.

mod support;

use std::cell::Cell;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;

use rakuda_cluster::{AgentPort, Node};
use rakuda_core::{Capacity, Now, Time};
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentEvent, AgentRequest};
use rakuda_proto::frame::{FrameReader, FrameWriter};
use rakuda_proto::front::{
    ActionOutcome, FrontMessage, HubMessage, PolicyChoice, Program, Settings, TaskDefinition,
    TaskFlag, TaskFlags, TaskKind,
};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedSender;

use support::end_soon;

const CORES: u32 = 2;

/// Each look at it is a microsecond later than the one before: all actions are short, however busy the machine is.
fn clock() -> Now {
    // Later than any true clock.
    const START_NS: u64 = 4_000_000_000_000_000_000;
    thread_local!(static LOOKS: Cell<u64> = const { Cell::new(0) });
    LOOKS.set(LOOKS.get() + 1);
    Time(START_NS + 1_000 * LOOKS.get()).into()
}

#[derive(Default)]
struct Load {
    running: Cell<u32>,
    most: Cell<u32>,
    started: Cell<u32>,
}

/// Ends each command after a few turns of the loop; those after the failing one not before the hub has heard that its
/// action has failed.
struct SlowAgent {
    failing: Option<u32>,
    failure_heard: Arc<Semaphore>,
    events: UnboundedSender<AgentEvent>,
    load: Rc<Load>,
}

impl AgentPort for SlowAgent {
    fn handle(&self, request: AgentRequest) {
        let AgentRequest::Start { command, .. } = request else { return };
        let load = Rc::clone(&self.load);
        load.running.set(load.running.get() + 1);
        load.most.set(load.most.get().max(load.running.get()));
        load.started.set(load.started.get() + 1);
        let status = if self.failing == Some(command.0) { 256 } else { 0 };
        let (events, heard) = (self.events.clone(), Arc::clone(&self.failure_heard));
        let waits = self.failing.is_some_and(|failing| failing < command.0);
        tokio::task::spawn_local(async move {
            if waits {
                let _ = heard.acquire().await;
            }
            end_soon(command, status, events, move || {
                load.running.set(load.running.get() - 1);
            });
        });
    }

    fn signal_all(&self, _: i32) -> usize {
        0
    }

    fn pause_output(&self, _: bool) {}

    fn unreported(&self) -> usize {
        self.load.running.get() as usize
    }
}

/// What the front saw.
#[derive(Debug, Default)]
struct Seen {
    begun: u32,
    begun_at_once: u32,
    /// The most actions that were open when one of a gang was begun, that included.
    beside_gang: u32,
    aborted: u32,
    failed: Vec<u32>,
}

/// Two tasks that begin together when the first half of those before them has run; the others wait for nothing, or for
/// these.
const GANG: [u32; 2] = [250, 251];

/// Runs `tasks` plain tasks of one command each; the action of `failing` fails.
fn front(
    mut stream: UnixStream,
    tasks: u32,
    failing: Option<&(u32, Arc<Semaphore>)>,
    with_gang: bool,
) -> Seen {
    let mut writer = FrameWriter::default();
    let settings = Settings {
        directory: Text::from(std::env::temp_dir().to_string_lossy().into_owned()),
        jobs: CORES,
        record: false,
        policy: PolicyChoice::Fifo,
        ..Settings::default()
    };
    let version = env!("CARGO_PKG_VERSION").to_owned();
    writer.push(&FrontMessage::Hello(version, Box::new(settings)));
    let task = |n| {
        (
            n,
            TaskKind::Plain,
            TaskFlags::of(&[TaskFlag::HasAction]),
            Text::from(format!("t{n}")),
            0,
            match n {
                _ if !with_gang => vec![],
                n if GANG.contains(&n) => (0..125).collect(),
                n if n > 251 => vec![250],
                _ => vec![],
            },
            0,
            0,
            0,
        )
    };
    let tasks: Vec<TaskDefinition> = (0..tasks).map(task).collect();
    let numbers = tasks.iter().map(|task| task.0).collect();
    writer.push(&FrontMessage::DefineTasks { tasks });
    if with_gang {
        writer.push(&FrontMessage::DefineGang(GANG.to_vec(), false));
    }
    writer.push(&FrontMessage::Invoke(0, numbers, None));
    let (mut reader, mut messages, mut chunk) =
        (FrameReader::default(), Vec::new(), vec![0; 65_536]);
    let (mut seen, mut open) = (Seen::default(), std::collections::BTreeSet::new());
    loop {
        let mut frame = Vec::new();
        writer.finish(&mut frame);
        stream.write_all(&frame).expect("write to the hub");
        let bytes = stream.read(&mut chunk).expect("read from the hub");
        reader.buffer_mut().extend_from_slice(&chunk[..bytes]);
        reader.drain(&mut messages).expect("well-formed frames");
        for message in messages.drain(..) {
            match message {
                HubMessage::RunAction(task, ..) => {
                    seen.begun += 1;
                    open.insert(task);
                    if with_gang && GANG.contains(&task) {
                        seen.beside_gang = u32::try_from(open.len()).unwrap();
                    }
                    seen.begun_at_once = seen.begun_at_once.max(u32::try_from(open.len()).unwrap());
                    let program = Program::Line(Text::from("true"));
                    writer.push(&FrontMessage::StartCommand(task, Some(task), program, None, None));
                }
                HubMessage::CommandEnded(task, ..) => {
                    let ok = failing.is_none_or(|(failing, _)| *failing != task);
                    let outcome = if ok { ActionOutcome::Ok } else { ActionOutcome::Failed };
                    open.remove(&task);
                    writer.push(&FrontMessage::ActionEnded(task, outcome, Text::default(), None));
                    if !ok {
                        // Its answer shows that the hub has heard what comes before it.
                        writer.push(&FrontMessage::HoldDisplay { held: true });
                    }
                }
                HubMessage::DisplayHeld {} => {
                    writer.push(&FrontMessage::HoldDisplay { held: false });
                    let (_, heard) = failing.expect("an action has failed");
                    heard.add_permits(1);
                }
                HubMessage::AbortAction { task } => {
                    seen.aborted += 1;
                    open.remove(&task);
                    let failed = ActionOutcome::Failed;
                    writer.push(&FrontMessage::ActionEnded(task, failed, Text::default(), None));
                }
                HubMessage::InvocationEnded(_, failed, _) => {
                    seen.failed = failed;
                    writer.push(&FrontMessage::Goodbye { failed: false });
                    let mut frame = Vec::new();
                    writer.finish(&mut frame);
                    stream.write_all(&frame).expect("write to the hub");
                    return seen;
                }
                HubMessage::Welcome(..) | HubMessage::AttemptFailed(..) => {}
                other => panic!("unexpected {other:?}"),
            }
        }
        writer.push(&FrontMessage::SignalCommand(u32::MAX, 0));
    }
}

fn run(tasks: u32, failing: Option<u32>) -> (Seen, Rc<Load>) {
    run_with(tasks, failing, false)
}

fn run_with(tasks: u32, failing: Option<u32>, with_gang: bool) -> (Seen, Rc<Load>) {
    let (ours, theirs) = UnixStream::pair().expect("make a socket pair");
    let failure_heard = Arc::new(Semaphore::new(0));
    let fails = failing.map(|failing| (failing, Arc::clone(&failure_heard)));
    let front = std::thread::spawn(move || front(ours, tasks, fails.as_ref(), with_gang));
    let load = Rc::new(Load::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    let agent_load = Rc::clone(&load);
    let hub = rakuda_hub::run_by_clock(clock, theirs, rakuda_hub::Guard::default(), |_, events| {
        Ok(vec![Node {
            name: Text::from("here"),
            capacity: Capacity { cores: CORES, memory_bytes: 1 << 30, ..Capacity::default() },
            port: Box::new(SlowAgent { failing, failure_heard, events, load: agent_load }),
        }])
    });
    local.block_on(&runtime, hub).expect("the hub ends well");
    (front.join().expect("the front ends well"), load)
}

#[test]
fn actions_are_begun_early_but_commands_never_exceed_the_cores() {
    let (seen, load) = run(500, None);
    assert_eq!((seen.begun, load.started.get()), (500, 500));
    assert!(seen.begun_at_once > CORES, "short actions are begun early: {seen:?}");
    assert_eq!(load.most.get(), CORES);
    assert_eq!(seen.failed, Vec::<u32>::new());
}

#[test]
fn beside_a_gang_nothing_is_begun_early_but_before_and_after_it() {
    let (seen, load) = run_with(500, None, true);
    assert_eq!((seen.begun, load.started.get()), (500, 500));
    assert!(seen.begun_at_once > CORES, "{seen:?}");
    assert_eq!((seen.beside_gang, load.most.get()), (CORES, CORES));
}

#[test]
fn actions_begun_early_are_given_back_after_a_failure() {
    let (seen, load) = run(500, Some(100));
    assert_eq!(seen.failed, [100]);
    assert!(seen.aborted > 0, "{seen:?}");
    // At most those that waited for a core when it failed: the front, not the clock, decides how many.
    let ahead = 16;
    assert!(load.started.get() <= 101 + ahead + 2 * CORES, "{} commands", load.started.get());
    assert!(load.most.get() <= CORES);
}
