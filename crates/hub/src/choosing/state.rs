//! What tasks choose by, and what the core knows of it.

use std::collections::{BTreeMap, BTreeSet};

use rakuda_core::{Calm, NodeId, RequirementId, Suits, TaskId, Time};
use rakuda_info::choice::{Choice, Claim, Claims, Seen, Verdict, Wish};
use rakuda_info::query::QuestionError;
use rakuda_info::registry::Registry;
use rakuda_proto::front::RequirementDefinition;

use crate::information::state::Information;

/// A choice of the front.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) wish: Wish,
    /// Its choice, as understood with the attributes known so far.
    pub(super) choice: Choice,
    pub(super) attributes: (usize, u64),
    /// What is wrong with it until a provider gives an attribute that it names.
    pub(super) unknown: Option<String>,
    /// It names an attribute that turns out to be of another kind: why it means nothing.
    pub(super) wrong: Option<String>,
    /// How many nodes such a task takes, and which it may.
    pub(super) definition: RequirementDefinition,
    /// The first task that has it, and where the Rakefile says so.
    pub(super) task: String,
    pub(super) place: Option<String>,
    /// All of it must be (`needs`), or else it is left out (`desc`).
    pub(super) is_strict: bool,
    /// No node can ever fulfil it: it has been left out.
    pub(super) is_void: bool,
    /// It is known that some node may fulfil it.
    pub(super) is_possible: bool,
}

/// What the tasks of a gang claim at most, of whatever requirement; of several gangs, of any.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Peers {
    pub(super) cores: u32,
    pub(super) memory_bytes: u64,
    /// Number of them.
    pub(super) count: u32,
}

/// The choices of tasks among nodes, and what the core knows of them.
#[derive(Default)]
pub(crate) struct Choosing {
    /// The choices, by the front's number.
    pub(super) wanted: BTreeMap<u32, Wanted>,
    /// The front's number of each requirement of the core that chooses.
    pub(super) of_core: BTreeMap<RequirementId, u32>,
    /// How nodes suit, as the core knows.
    pub(super) told: BTreeMap<(RequirementId, NodeId), Suits>,
    /// The tasks of gangs that have a requirement of the core.
    pub(super) gangs: BTreeMap<RequirementId, Peers>,
    claims: BTreeMap<NodeId, Claims>,
    /// Nodes on which a task has claims.
    claimed: BTreeMap<TaskId, Vec<NodeId>>,
    /// Nodes of which there is news.
    pub(super) touched: BTreeSet<NodeId>,
    /// Since when nothing has run, and tasks have waited.
    pub(super) waits_since: Option<Time>,
    /// The user knows that.
    pub(super) is_wait_told: bool,
    /// Since when nothing has run that could make a folder.
    pub(super) calm: Calm,
    /// Started, and not noted yet: what the choice of their nodes rested on.
    pub(super) chosen: BTreeMap<TaskId, Vec<Seen>>,
}

impl Choosing {
    pub(super) fn is_idle(&self) -> bool {
        self.wanted.is_empty()
    }

    /// There is news of a node.
    pub fn touch(&mut self, node: NodeId) {
        if !self.is_idle() {
            self.touched.insert(node);
        }
    }

    /// An attempt has ended, or was lost.
    pub fn on_ended(&mut self, task: TaskId) {
        self.calm.on_busy();
        for node in self.claimed.remove(&task).into_iter().flatten() {
            self.claims.entry(node).or_default().end(task.0);
            self.touched.insert(node);
        }
    }

    /// An action waits for what it has invoked: it has run until then.
    pub fn on_called(&mut self) {
        self.calm.on_busy();
    }

    /// Follows what the core has done by itself: whatever was started, the node suits no task with a condition any
    /// more.
    pub(super) fn on_started(
        &mut self,
        known: &mut Information,
        (task, requirement): (TaskId, RequirementId),
        node: NodeId,
        claim: Claim,
    ) {
        if self.is_idle() {
            return;
        }
        self.waits_since = None;
        // Of a task on several nodes, those of its home.
        if !self.chosen.contains_key(&task)
            && let Some(wanted) = self.of_core.get(&requirement).and_then(|it| self.wanted.get(it))
            && let Some(row) = known.rows.get(&node)
        {
            let claims = self.claims.entry(node).or_default();
            let values = wanted.choice.values(&mut known.table, *row, claims, claim.since);
            self.chosen.insert(task, values);
        }
        for (requirement, front) in &self.of_core {
            if self.wanted.get(front).is_some_and(|wanted| wanted.wish.condition.is_some()) {
                self.told.remove(&(*requirement, node));
            }
        }
        self.claims.entry(node).or_default().start(task.0, claim);
        self.claimed.entry(task).or_default().push(node);
        self.touched.insert(node);
    }

    /// Understands choices anew when there are more attributes (an instance of a family, say), or one has become
    /// something else. What those name that were not understood before.
    pub(super) fn renew(&mut self, known: &Information) -> BTreeSet<String> {
        let registry = known.table.registry();
        let mut names = BTreeSet::new();
        let attributes = extent(registry);
        let is_open = |it: &&mut Wanted| it.attributes != attributes && !it.is_void;
        for wanted in self.wanted.values_mut().filter(is_open) {
            wanted.attributes = attributes;
            match Choice::new(&wanted.wish, registry) {
                Ok(choice) => {
                    if wanted.unknown.take().is_some() {
                        names.extend(choice.names(registry));
                    }
                    wanted.choice = choice;
                }
                Err(error) => match until_known(&error, registry) {
                    Some(choice) => {
                        wanted.unknown = Some(error.to_string());
                        wanted.choice = choice;
                    }
                    // What it names is there by now, and cannot be compared so.
                    None => wanted.wrong = Some(error.to_string()),
                },
            }
        }
        names
    }

    /// How a node stands to a requirement of the core that chooses.
    pub(super) fn verdict(
        &mut self,
        known: &mut Information,
        requirement: RequirementId,
        node: NodeId,
        now: Time,
    ) -> Option<Verdict> {
        let wanted = self.of_core.get(&requirement).and_then(|front| self.wanted.get(front))?;
        if wanted.is_void {
            return Some(Verdict::Suits(0));
        }
        let row = *known.rows.get(&node)?;
        let claims = self.claims.entry(node).or_default();
        Some(wanted.choice.verdict(&mut known.table, row, claims, now))
    }

    /// Maximum number of tasks of a gang that a node suits at once, where it suits one.
    pub(super) fn at_once(
        &mut self,
        known: &mut Information,
        requirement: RequirementId,
        node: NodeId,
        now: Time,
    ) -> u32 {
        let wanted = self.of_core.get(&requirement).and_then(|front| self.wanted.get(front));
        let wanted = wanted.filter(|it| !it.is_void && it.wish.condition.is_some());
        let (Some(wanted), Some(peers), Some(row)) =
            (wanted, self.gangs.get(&requirement), known.rows.get(&node))
        else {
            return u32::MAX;
        };
        let Peers { cores, memory_bytes, count } = *peers;
        let claim = Claim { cores, memory_bytes, since: now };
        let claims = self.claims.entry(node).or_default();
        match wanted.choice.at_once(&mut known.table, *row, claims, (claim, count)) {
            all if all == count => u32::MAX,
            some => some,
        }
    }
}

/// What a choice is understood with: as long as it is this, it means the same.
pub(super) fn extent(registry: &Registry) -> (usize, u64) {
    (registry.len(), registry.changed())
}

/// A choice names what nothing has, and a provider may tell it yet: until then it is this one.
pub(super) fn until_known(error: &QuestionError, registry: &Registry) -> Option<Choice> {
    let name = error.error.unknown.as_ref()?;
    let wish = Wish { condition: Some(format!("has({name})")), prefer: None };
    Choice::new(&wish, registry).ok()
}
