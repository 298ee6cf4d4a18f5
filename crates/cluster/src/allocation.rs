//! The nodes of a Slurm allocation and their agents: which are awaited, which step of srun is to start which, and which
//! have come.
//!
//! It does not know where the allocation comes from (`slurm`), nor what a step is made of (`steps`).

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use rakuda_link::gate::DialIn;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::agent_slot::{AgentSlot, Coming, Words};
use crate::program::Programs;
use crate::reports::NodeEvent;
use crate::search::Search;
use crate::ssh::LaunchError;
use crate::steps::{self, Step, StepEvent};

/// What srun says when there is no such job any more.
const JOB_IS_OVER: [&str; 3] =
    ["Invalid job id", "already completing or completed", "Job has expired"];

/// An allocation.
#[derive(Debug)]
pub(crate) struct SlurmJob {
    pub id: String,
    /// The nodes' names.
    pub nodes: Vec<String>,
    /// The same as Slurm writes it.
    pub list: String,
    /// When it ends, ns since 1970.
    pub ends_ns: Option<i64>,
    /// It is ours to give back.
    pub ours: bool,
}

/// Agents in one allocation.
pub(crate) struct Allocation {
    job: SlurmJob,
    /// Where the agents of each node are waited for.
    slots: BTreeMap<String, UnboundedSender<Coming>>,
    /// Nodes whose agent is waited for, and the step that is to start it.
    waiting: BTreeMap<String, u32>,
    steps: u32,
    /// Steps whose srun has not ended.
    running: u32,
    /// Nodes that had not got the program, and their machine types; it is sent when an agent is started there again.
    ships: BTreeMap<String, String>,
    invitation: Rc<str>,
    programs: Rc<Programs>,
    events: UnboundedSender<StepEvent>,
    /// What srun has said of nodes.
    words: Rc<Words>,
}

impl Allocation {
    /// Makes its nodes known and starts their agents, until the lives of all are over. `Err`: why it has no nodes.
    pub async fn begin(search: &Rc<Search>, job: SlurmJob) -> Result<(), String> {
        let listener = search.listener(job.nodes.first().map(String::as_str)).await?;
        let (invitation, mut dial_ins) = listener.invite()?;
        let programs = search.launcher.programs().await?;
        let (starter, mut wanted) = unbounded_channel();
        let (events, mut came) = unbounded_channel();
        let mut allocation = Self {
            slots: BTreeMap::new(),
            waiting: BTreeMap::new(),
            steps: 0,
            running: 0,
            ships: BTreeMap::new(),
            invitation: invitation.to_text().into(),
            programs,
            events,
            words: Rc::default(),
            job,
        };
        for name in allocation.job.nodes.clone() {
            let unique = search.unique(&name);
            let (slot, sender) = AgentSlot::of_launcher(&name, starter.clone(), &allocation.words);
            search.nodes.appear(&unique, slot, allocation.job.ends_ns);
            allocation.slots.insert(name, sender);
        }
        search.launcher.tell(NodeEvent::AllAppeared(Ok(())));
        drop(starter);
        let all = (allocation.job.list.clone(), allocation.job.nodes.len());
        allocation.start(all, allocation.job.nodes.clone(), None);
        allocation.serve(&mut dial_ins, &mut wanted, &mut came).await;
        Ok(())
    }

    /// Until the lives of all nodes are over.
    async fn serve(
        &mut self,
        dial_ins: &mut UnboundedReceiver<DialIn>,
        wanted: &mut UnboundedReceiver<String>,
        came: &mut UnboundedReceiver<StepEvent>,
    ) {
        loop {
            tokio::select! {
                Some(dial_in) = dial_ins.recv() => {
                    let name = dial_in.0.hello.facts.host.to_display();
                    self.waiting.remove(&name);
                    // One that nobody waits for is dropped, and ends.
                    if let Some(slot) = self.slots.get(&name) {
                        let _ = slot.send(Ok(dial_in));
                    }
                }
                name = wanted.recv() => match name {
                    Some(name) => {
                        let ships = self.ships.get(&name).cloned();
                        self.start((name.clone(), 1), vec![name], ships);
                    }
                    None => break,
                },
                Some(event) = came.recv() => self.on_event(event),
            }
        }
        // Their agents have ended, and so do their steps.
        let limit = if self.job.ours { Duration::from_millis(500) } else { Duration::from_secs(5) };
        let all_ended = async {
            while self.running > 0 {
                match came.recv().await {
                    Some(event) => self.on_event(event),
                    None => break,
                }
            }
        };
        let _ = tokio::time::timeout(limit, all_ended).await;
    }

    fn on_event(&mut self, event: StepEvent) {
        match event {
            StepEvent::Wanted { node, machine } => {
                self.ships.insert(node.clone(), machine.clone());
                if self.waiting.contains_key(&node) {
                    self.start((node.clone(), 1), vec![node], Some(machine));
                }
            }
            StepEvent::Late(number, said) => {
                let said = if said.is_empty() { said } else { format!(": {said}") };
                self.fail(number, &format!("its agent did not come within 60 s{said}"));
            }
            StepEvent::Said(line) => self.note_words(&line),
            StepEvent::Ended(number, why) => {
                self.running -= 1;
                if JOB_IS_OVER.iter().any(|words| why.contains(words)) {
                    self.words.end();
                }
                self.fail(number, &why);
            }
        }
    }

    /// `srun: error: host3: task 2: Killed` says that the agent of host3 has ended.
    fn note_words(&self, line: &str) {
        let Some((list, _)) = line.split_once(": task") else { return };
        let list = list.rsplit(' ').next().unwrap_or_default();
        // Several that ended alike stand in one line, as Slurm writes lists; their links tell of them.
        if self.slots.contains_key(list) && !self.waiting.contains_key(list) {
            self.words.put(list, line);
        }
    }

    /// What is waited for from a step does not come.
    fn fail(&mut self, number: u32, why: &str) {
        let late: Vec<String> = self
            .waiting
            .iter()
            .filter(|(_, step)| **step == number)
            .map(|(name, _)| name.clone())
            .collect();
        for name in late {
            self.waiting.remove(&name);
            if let Some(slot) = self.slots.get(&name) {
                let _ = slot.send(Err(LaunchError { why: why.to_owned(), passing: false }));
            }
        }
    }

    fn start(&mut self, nodes: (String, usize), names: Vec<String>, ships: Option<String>) {
        self.steps += 1;
        self.running += 1;
        for name in names {
            self.words.take(&name);
            self.waiting.insert(name, self.steps);
        }
        let step = Step {
            number: self.steps,
            job: self.job.id.clone(),
            nodes,
            ships,
            invitation: Rc::clone(&self.invitation),
            programs: Rc::clone(&self.programs),
        };
        tokio::task::spawn_local(steps::run(step, self.events.clone()));
    }
}
