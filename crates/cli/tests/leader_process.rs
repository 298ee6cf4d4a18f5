//! A leader as a process of its own with agents on its own host, over one pipe: what it answers for, and what it leaves
//! to the agents' links.
#![allow(clippy::disallowed_methods, reason = "a test that starts the program as its users do")]

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rakuda_info::Time;
use rakuda_info::delta::Receiver;
use rakuda_info::table::Table;
use rakuda_link::frame::{Decoder, FRAME_BYTES_MAX, Frame};
use rakuda_link::group;
use rakuda_link::hub::{LinkEvent, LinkHandle, attach};
use rakuda_link::mux::{self, Opener};
use rakuda_link::relay::{self, Pieces};
use rakuda_link::stdio;
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentEvent, AgentRequest, CommandId};
use rakuda_proto::cluster::{AgentSettings, Call, FromAgent, MemberSilence, Role, ToAgent};
use rakuda_proto::front::Program;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::Notify;

/// Beats that the leader has sent for all of its agents: messages, not frames.
const TOLD: &str = "told";

/// Frames that have come from below, by what they are.
#[derive(Default)]
struct Counts(RefCell<BTreeMap<&'static str, usize>>);

impl Counts {
    fn add(&self, kind: &'static str) {
        *self.0.borrow_mut().entry(kind).or_default() += 1;
    }

    fn of(&self, kind: &str) -> usize {
        self.0.borrow().get(kind).copied().unwrap_or(0)
    }

    fn all(&self) -> usize {
        self.0.borrow().iter().filter(|(kind, _)| **kind != TOLD).map(|(_, count)| count).sum()
    }
}

/// Counts the frames that are read through it.
struct Counted<R> {
    reader: R,
    decoder: Decoder,
    counts: Rc<Counts>,
}

impl<R: AsyncRead + Unpin> AsyncRead for Counted<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = room.filled().len();
        ready!(Pin::new(&mut self.reader).poll_read(context, room))?;
        let this = &mut *self;
        this.decoder.buffer_mut().extend_from_slice(&room.filled()[before..]);
        while let Some(frame) = this.decoder.next_frame().unwrap() {
            let kind = match frame {
                Frame::Beat => "beat",
                Frame::State(_) => "state",
                _ => "other",
            };
            this.counts.add(kind);
        }
        Poll::Ready(Ok(()))
    }
}

/// A link and what came over it.
struct Heard {
    link: LinkHandle,
    events: Rc<RefCell<Vec<LinkEvent>>>,
}

struct Hub {
    leader: Child,
    opener: Opener,
    counts: Rc<Counts>,
    changed: Rc<Notify>,
    settings: AgentSettings,
}

impl Hub {
    fn start(name: &str, silence_ms: u32) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let mut leader = Command::new(env!("CARGO_BIN_EXE_rakudad"))
            .args(["leader", "--stdio"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let reader = stdio::reader(OwnedFd::from(leader.stdout.take().unwrap())).unwrap();
        let writer = stdio::writer(OwnedFd::from(leader.stdin.take().unwrap())).unwrap();
        let (opener, connection) = mux::connect(reader, writer);
        tokio::task::spawn_local(connection);
        let settings = AgentSettings {
            directory: Text::from(directory.to_str().unwrap()),
            collect_output: true,
            silence_ms,
            orphan_ms: 1000,
            ..AgentSettings::default()
        };
        Self { leader, opener, counts: Rc::default(), changed: Rc::default(), settings }
    }

    async fn attach(&self, call: &Call) -> Heard {
        let mut stream = self.opener.open().await.unwrap();
        relay::write_call(&mut stream, call).await.unwrap();
        let (reader, writer) = tokio::io::split(stream);
        let pieces = Pieces::started(reader).await.unwrap();
        let reader: rakuda_link::hub::Reader = match call {
            Call::Leader => Box::new(self.counted(pieces.into_inner())),
            Call::Start { .. } => Box::new(self.counted(pieces)),
        };
        let events = Rc::<RefCell<Vec<LinkEvent>>>::default();
        let (for_link, changed) = (Rc::clone(&events), Rc::clone(&self.changed));
        let counts = Rc::clone(&self.counts);
        let link = attach(reader, writer, "run", self.settings.clone(), move |event| {
            if matches!(event, LinkEvent::Message(FromAgent::Beats { .. })) {
                counts.add(TOLD);
            }
            for_link.borrow_mut().push(event);
            changed.notify_one();
        });
        Heard { link, events }
    }

    fn counted<R: AsyncRead + Unpin>(&self, reader: R) -> Counted<R> {
        Counted { reader, decoder: Decoder::new(FRAME_BYTES_MAX), counts: Rc::clone(&self.counts) }
    }

    async fn agents(&self, count: u32, carried: bool) -> Vec<Heard> {
        let mut agents = Vec::new();
        for number in 0..count {
            let member = carried.then_some(number);
            let call =
                Call::Start { host: None, ssh_options: Vec::new(), role: Role::Agent, member };
            agents.push(self.attach(&call).await);
            if carried {
                agents.last().unwrap().link.be_carried();
            }
        }
        for agent in &agents {
            self.until(agent, |event| {
                matches!(event, LinkEvent::Message(FromAgent::Ready { .. })).then_some(())
            })
            .await;
        }
        agents
    }

    async fn until<T>(&self, heard: &Heard, wanted: impl Fn(&LinkEvent) -> Option<T>) -> T {
        loop {
            if let Some(found) = heard.events.borrow().iter().find_map(&wanted) {
                return found;
            }
            self.changed.notified().await;
        }
    }

    /// Waits for the next beat of the leader for its agents.
    async fn beat(&self, leader: &Heard) -> Vec<MemberSilence> {
        leader.events.borrow_mut().retain(|event| !matches!(event, LinkEvent::Message(_)));
        self.until(leader, |event| match event {
            LinkEvent::Message(FromAgent::Beats { silent }) => Some(silent.clone()),
            _ => None,
        })
        .await
    }

    /// The processes of its agents, the youngest last.
    fn agent_processes(&self) -> Vec<i32> {
        let children = |process: i32| -> Vec<i32> {
            let children =
                std::fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
            children.unwrap_or_default().split(' ').filter_map(|child| child.parse().ok()).collect()
        };
        let below = |all: Vec<i32>| all.into_iter().flat_map(children).collect::<Vec<_>>();
        let mut level = vec![i32::try_from(self.leader.id()).unwrap()];
        let mut agents = Vec::new();
        while !level.is_empty() {
            level = below(level);
            agents.extend(level.iter().filter(|process| {
                std::fs::read_to_string(format!("/proc/{process}/comm"))
                    .is_ok_and(|name| name == "rakuda-agent\n")
            }));
        }
        agents.sort_unstable();
        agents
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.leader.kill();
        let _ = self.leader.wait();
    }
}

/// Says when a report was dealt with.
struct SettleOnDrop(LinkHandle);

impl Drop for SettleOnDrop {
    fn drop(&mut self) {
        self.0.settle_state();
    }
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        tokio::time::timeout(Duration::from_secs(300), test).await.expect("it takes too long");
    });
}

fn sample(agents: &[Heard]) {
    for agent in agents {
        agent.link.send(&ToAgent::Sample {
            period_ms: 50,
            providers: Vec::new(),
            folders: Vec::new(),
        });
    }
}

#[test]
fn what_agents_tell_of_their_nodes_comes_in_reports_of_the_leader_and_the_rest_as_it_was() {
    run(async {
        // Nobody tells the links of agents that these are there.
        let hub = Hub::start("leader-states", 300_000);
        let leader = hub.attach(&Call::Leader).await;
        let agents = hub.agents(3, true).await;
        sample(&agents);
        let mut table = Table::new();
        let mut receivers: Vec<Receiver> = (0..agents.len())
            .map(|number| Receiver::of_node(table.node(None, &format!("host{number}"))))
            .collect();
        let mut told = [0; 3];
        let mut reports = 0;
        while told.iter().any(|told| *told < 5) {
            let report = hub
                .until(&leader, |event| match event {
                    LinkEvent::State(report) => Some(report.clone()),
                    _ => None,
                })
                .await;
            leader.events.borrow_mut().clear();
            reports += 1;
            let settled: Rc<dyn Any> = Rc::new(SettleOnDrop(leader.link.clone()));
            for state in group::read_report(&report).unwrap().states {
                let member = state.member as usize;
                let link = &agents[member].link;
                link.carry_state(state.delta.0, state.held_ns, Rc::clone(&settled));
                let event = agents[member].events.borrow_mut().pop();
                let Some(LinkEvent::CarriedState(delta, held_ns)) = event else {
                    panic!("got {event:?}");
                };
                assert!(held_ns > 0, "it has waited for others");
                let now = Time(1_000_000_000 * reports);
                receivers[member].apply(&delta, &mut table, now).expect("each delta came once");
                told[member] += 1;
            }
            // Nobody tells anything new before all have dealt with the report.
            drop(settled);
            assert_eq!(hub.counts.of("state") as u64, reports);
            for agent in &agents {
                agent.link.settle_state();
            }
        }
        let threads = table.registry().find("threads").unwrap();
        assert!(table.nodes().all(|(row, _)| table.number(row, threads) >= 1.0));
        // Control and output go as ever.
        let words = ["sh", "-c", "echo hello"].map(Text::from).to_vec();
        let (command, program) = (CommandId(1), Program::Words(words));
        let start = AgentRequest::Start { command, program, options: None };
        agents[1].link.send(&ToAgent::Request(start));
        let output = hub.until(&agents[1], |event| match event {
            LinkEvent::Message(FromAgent::Event(AgentEvent::OutputWritten { bytes, .. })) => {
                Some(bytes.clone())
            }
            _ => None,
        });
        assert_eq!(output.await, b"hello\n");
        agents[1].link.set_clock(rakuda_agent::clock::machine_ns);
        agents[1].link.ask_time(1);
        hub.until(&agents[1], |event| matches!(event, LinkEvent::Exchange(_)).then_some(())).await;
    });
}

#[test]
fn a_leader_beats_for_all_of_its_agents_and_names_the_one_that_is_stopped() {
    run(async {
        let hub = Hub::start("leader-beats", 8_000);
        let leader = hub.attach(&Call::Leader).await;
        let agents = hub.agents(3, true).await;
        let carry = |silent: &[MemberSilence]| {
            for (number, agent) in (0..).zip(&agents) {
                let named = silent.iter().find(|silence| silence.member == number);
                agent.link.on_carried(named.map_or(0, |silence| silence.silent_ns));
            }
        };
        let count = |kind| hub.counts.of(kind);
        let (beats, others, told) = (count("beat"), count("other"), count(TOLD));
        // Longer than an agent bears the hub's silence: the leader beats for that, too.
        for _ in 0..7 {
            carry(&hub.beat(&leader).await);
        }
        assert_eq!(count("beat"), beats, "agents' own beats do not come");
        // One for each beat of the leader, and what acknowledges what the hub says.
        assert!(count("other") - others <= 2 * (count(TOLD) - told));
        let is_lost = |agent: &Heard| {
            agent.events.borrow().iter().any(|event| matches!(event, LinkEvent::Lost(_)))
        };
        assert!(!agents.iter().any(is_lost));
        let stopped = Pid::from_raw(hub.agent_processes()[1]).unwrap();
        kill_process(stopped, Signal::STOP).unwrap();
        let named = loop {
            let silent = hub.beat(&leader).await;
            carry(&silent);
            if agents.iter().any(is_lost) {
                break silent;
            }
        };
        let lost: Vec<usize> = (0..3).filter(|number| is_lost(&agents[*number])).collect();
        let member = u32::try_from(lost[0]).unwrap();
        assert!(named.iter().any(|silence| silence.member == member), "{lost:?}: {named:?}");
        kill_process(stopped, Signal::KILL).unwrap();
    });
}

/// Frames that reach the hub from 12 agents within `BEATS` beats of the leader, with a leader that answers for them or
/// only passes on.
async fn frames(carried: bool) -> (usize, Rc<Counts>) {
    const BEATS: usize = 3;
    let hub = Hub::start(&format!("leader-frames-{carried}"), 8_000);
    let leader = hub.attach(&Call::Leader).await;
    let agents = Rc::new(hub.agents(12, carried).await);
    sample(&agents);
    // The hub deals with each state at once.
    let settling = async {
        loop {
            hub.changed.notified().await;
            for agent in &*agents {
                let is_state = |event: &LinkEvent| matches!(event, LinkEvent::State(_));
                if agent.events.borrow().iter().any(is_state) {
                    agent.events.borrow_mut().clear();
                    agent.link.settle_state();
                }
            }
            let mut beats = 0;
            for event in leader.events.borrow().iter() {
                beats += usize::from(matches!(event, LinkEvent::Message(FromAgent::Beats { .. })));
            }
            let reports = |event: &LinkEvent| matches!(event, LinkEvent::State(_));
            if leader.events.borrow().iter().any(reports) {
                leader.events.borrow_mut().retain(|event| !reports(event));
                leader.link.settle_state();
            }
            agents.iter().filter(|_| carried).for_each(|agent| agent.link.on_carried(0));
            if beats >= BEATS {
                return;
            }
        }
    };
    let before = hub.counts.all();
    settling.await;
    (hub.counts.all() - before, Rc::clone(&hub.counts))
}

#[test]
fn a_leader_makes_one_report_at_a_time_of_what_twelve_agents_tell() {
    run(async {
        let (passed, _) = frames(false).await;
        let began = tokio::time::Instant::now();
        let (answered, counts) = frames(true).await;
        let took = began.elapsed();
        eprintln!("frames of 12 agents at the hub: {passed} passed on, {answered} answered for");
        assert_eq!(counts.of("beat"), 0);
        // However fast agents tell.
        let most = took.as_millis() / 50 + 1;
        assert!(counts.of("state") as u128 <= most, "{} of {most}", counts.of("state"));
    });
}
