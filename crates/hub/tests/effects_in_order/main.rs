//! The whole hub with fake agents and a front in a thread: starts of commands, signals and messages to the front do
//! not leave the hub before the journal has the note that they stand for (docs/design/record.md, "The journal").
//!
//! Two of three cases have a node elsewhere: it takes commands before they may run where it says that it is far away,
//! has files of its own or shares them, and may be lost and come again. Files are moved for true, between two folders
//! of this machine.
//!
//! Agents and front read the journal whenever something comes. The agents are called by the hub, so they find each
//! request that comes too early; the front finds a message that does, unless the note comes before it has looked.

mod agents;
mod front;
mod journal;
mod plan;
#[path = "../support/mod.rs"]
mod support;

use std::cell::RefCell;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::rc::Rc;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use rakuda_cluster::{AgentPort, Node};
use rakuda_core::Capacity;
use rakuda_proto::Text;

use agents::{CORES, Common, Counts, FAR, FakeAgent, FarAgent};
use front::{Front, Seen};
use journal::{Journal, Note};
use plan::Plan;

/// What must have happened in some of the cases.
const NEEDED: [&str; 12] = [
    "stops",
    "started here",
    "started elsewhere",
    "signals elsewhere",
    "prepared",
    "prepared commands begun",
    "nodes lost",
    "attempts lost",
    "started on a node that is back",
    "started with files that were staged",
    "files staged in",
    "files staged out",
];

/// Folders of their own for each run: that of the run, and that of the node elsewhere.
struct Scratch {
    root: PathBuf,
    home: PathBuf,
    there: PathBuf,
}

impl Scratch {
    fn new() -> Self {
        let root = std::env::temp_dir().join(format!("rakuda-effects-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let scratch = Self { home: root.join("home"), there: root.join("there"), root };
        for folder in [&scratch.home, &scratch.there] {
            std::fs::create_dir_all(folder).expect("make a folder");
        }
        scratch
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// Runs a plan, and looks at what is left of it.
fn run(plan: &Plan) -> Counts {
    let scratch = Scratch::new();
    let Scratch { home, there, .. } = &scratch;
    let (ours, theirs) = UnixStream::pair().expect("make a socket pair");
    let front = Front::new(plan.clone(), home);
    let front = std::thread::spawn(move || front.run(ours));
    let common = Rc::new(Common {
        plan: plan.clone(),
        journal: RefCell::new(Journal::of(home)),
        counts: RefCell::default(),
        home: home.clone(),
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let hub = rakuda_hub::run_among(theirs, rakuda_hub::Guard::default(), |_, events, reports| {
        let node = |name: &str, port: Box<dyn AgentPort>| Node {
            name: Text::from(name),
            capacity: Capacity { cores: CORES, memory_bytes: 1 << 30, ..Capacity::default() },
            port,
        };
        let here = FakeAgent {
            common: Rc::clone(&common),
            events,
            running: Rc::default(),
            started: RefCell::default(),
        };
        let mut nodes = vec![node("here", Box::new(here))];
        if let Some(far) = plan.far {
            let folder = if far.stages { there } else { home };
            let port = FarAgent::new(&common, far, folder.clone(), reports);
            nodes.push(node("far", Box::new(port)));
        }
        Ok(nodes)
    });
    let ended = tokio::task::LocalSet::new().block_on(&runtime, hub);
    let Seen { begun, counts: of_front, faults } = front.join().expect("the front ends well");
    assert_eq!(faults, Vec::<String>::new(), "messages to the front");
    assert_eq!(common.journal.borrow().faults, Vec::<String>::new(), "requests to the agents");
    ended.expect("the hub ends well");
    let mut journal = Journal::of(home);
    journal.read();
    let mut counts = common.counts.take();
    counts.extend(of_front);
    if plan.far.is_none_or(|far| far.lost.is_none()) {
        let noted = |note: &&Note| matches!(note, Note::CommandStarted(_));
        let started = ["started here", "started elsewhere", "prepared commands begun"];
        let started: u32 = started.iter().filter_map(|what| counts.get(what)).sum();
        assert_eq!(journal.notes.iter().filter(noted).count(), started as usize);
    }
    assert_eq!(journal.notes.contains(&Note::RunEnded), begun > 0);
    for (_, node) in &journal.staged {
        let what = if *node == FAR.0 { "files staged in" } else { "files staged out" };
        *counts.entry(what).or_default() += 1;
    }
    counts
}

#[test]
fn no_effect_leaves_before_its_note() {
    let all = RefCell::new(Counts::new());
    let config =
        ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new(config);
    let result = runner.run(&plan::plan(), |plan| {
        for (what, count) in run(&plan) {
            *all.borrow_mut().entry(what).or_default() += count;
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}\n{runner}");
    }
    let all = all.into_inner();
    let never: Vec<_> = NEEDED.iter().filter(|what| !all.contains_key(*what)).collect();
    assert_eq!(never, Vec::<&&str>::new(), "none of the cases had it: {all:?}");
}
