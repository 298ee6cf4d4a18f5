//! Streams as the hub has them: which tasks they join, what is open, and what came of it.
//!
//! A component is a gang of the core's, which decides when and where its tasks begin. Bytes pass through the agents of
//! its nodes (`rakuda_agent`); through this process only between two of them that cannot reach each other (`edges`).
//! Here the two meet: ends are opened before the first action begins, the agent learns of a task's end, and the end of
//! the last task counts only when the accounts are there.

mod costs;
mod edges;
mod explaining;
mod interrupted;
mod lost_nodes;
mod meeting;
pub(crate) mod network;
mod over;
mod passing;
mod places;
mod rerouting;
mod routes;
mod stalls;
pub(crate) mod state;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStringExt as _;

use rakuda_cluster::LOCAL_NODE;
use rakuda_core::streams::{
    AfterMember, Begun, Ending, MemberEnd, Said, Stages, Stalls, StreamEnds, StreamGraph, Terms,
    Traffic, Volume, Weights, thousandths,
};
use rakuda_core::{Event, Held, NextAttempt, NodeId, Settled, TaskId, TaskState};
use rakuda_proto::Text;
use rakuda_proto::agent::AgentRequest;
use rakuda_proto::front::{ActionOutcome, ComponentDefinition, StreamDefinition};
use rakuda_proto::streams::{OpeningId, SpillPlan, StreamPlan, StreamRequest};

use crate::HubError;
use crate::hub::Hub;
use crate::plan::task::PlannedStream;
use network::Edges;
pub(crate) use network::NotJoined;
pub(crate) use passing::Passing;
use routes::Routes;
pub(crate) use state::next_not_joined;
use state::{Component, HeldEnd, Opening};

/// What the words of `meta:` say, which the front has checked.
fn said(words: &BTreeMap<&str, &str>) -> Said {
    let volume = |word| Volume::read(words.get(word)?);
    let number = |word| thousandths(words.get(word)?).map(|number: u64| number.max(1));
    Said {
        cost_milli: number("cost"),
        output: volume("output"),
        input: volume("input"),
        per_1000_s: number("frequency"),
        is_burst: words.get("pattern").is_some_and(|pattern| *pattern == "burst"),
    }
}

/// Where processes keep large files that are theirs alone, on nodes that have no folder of the run.
const SPILL_FOLDER: &str = "/var/tmp";

impl Hub {
    /// Defines a component: the front says which tasks streams join. They are a gang already.
    pub(crate) fn define_component(
        &mut self,
        definition: ComponentDefinition,
    ) -> Result<(), HubError> {
        let ComponentDefinition { members, streams, spooled } = definition;
        let members: Vec<TaskId> =
            members.into_iter().map(|task| self.known(task)).collect::<Result<_, _>>()?;
        let known = |tasks: &[u32]| tasks.iter().all(|task| members.contains(&TaskId(*task)));
        let is_whole = |stream: &StreamDefinition| known(&stream.writers) && known(&stream.readers);
        if !streams.iter().all(is_whole) {
            return Err(HubError::Protocol("a stream leads out of its component"));
        }
        let ids = |tasks: &[u32]| tasks.iter().copied().map(TaskId).collect();
        let ends = |stream: &StreamDefinition| StreamEnds {
            writers: ids(&stream.writers),
            readers: ids(&stream.readers),
        };
        let graph = StreamGraph::new(streams.iter().map(ends).collect());
        let graph = graph.map_err(|_| HubError::Protocol("a stream that cannot be"))?;
        let mut stall_ms = vec![None; streams.len()];
        for stream in graph.cycles().into_iter().flatten() {
            stall_ms[stream] = Some(self.settings.stream_stall_ms);
        }
        let gang =
            members.first().and_then(|id| self.run.scheduler().gang_of(*id)).map(|gang| gang.id);
        let Some(gang) = gang else { return Err(HubError::Protocol("a component is no gang")) };
        // Where nodes share no folder, a spool is read on the node where it was written.
        let has_own = spooled && !self.has_shared_spools();
        let ends: Vec<StreamEnds> = streams.iter().map(ends).collect();
        self.event(Event::GangJoined {
            id: gang,
            spread: !has_own,
            by_turns: spooled,
            streams: &ends,
        });
        let said = self.said_of(&members, &streams);
        let traffic = Traffic::of_all(&ends, &said);
        let weights = Weights::of(&ends, &said);
        if !weights.is_empty() {
            self.event(Event::GangWeighed { id: gang, weights: &weights });
        }
        let stages = Stages::new(&members, &ends);
        let place = self.streams.components.len();
        self.streams.of.extend(members.iter().map(|id| (*id, place)));
        self.streams.components.push(Component {
            members,
            streams,
            graph,
            stall_ms,
            traffic,
            spooled,
            opening_of: BTreeMap::new(),
            stages,
            has_begun: BTreeSet::new(),
            spools: BTreeMap::new(),
            unread: BTreeSet::new(),
            interrupted: Vec::new(),
        });
        Ok(())
    }

    /// Whether each node can read the spools of all.
    fn has_shared_spools(&self) -> bool {
        self.settings.cluster.as_ref().is_some_and(|plan| plan.staging.is_none())
    }

    /// What statements say of tasks. If two say something of one task the first counts, word by word.
    fn said_of(&self, members: &[TaskId], streams: &[StreamDefinition]) -> BTreeMap<TaskId, Said> {
        let mut found = BTreeMap::new();
        for member in members {
            let name = Text(self.names.name(*member).to_vec());
            let mut words: BTreeMap<&str, &str> = BTreeMap::new();
            for (word, value) in streams.iter().filter_map(|one| one.meta.get(&name)).flatten() {
                words.entry(word).or_insert(value);
            }
            if !words.is_empty() {
                found.insert(*member, said(&words));
            }
        }
        found
    }

    /// Streams whose tasks would run, after a dry run.
    pub(crate) fn planned_streams(&self) -> Vec<PlannedStream> {
        let runs = |id: &TaskId| {
            let state = self.run.scheduler().task(*id).map(|task| task.state);
            state == Some(TaskState::Settled(Settled::Executed))
        };
        let components = self.streams.components.iter();
        let running = components.filter(|component| component.members.iter().any(runs));
        let names = |tasks: &[u32]| {
            tasks.iter().map(|task| Text(self.names.name(TaskId(*task)).to_vec())).collect()
        };
        let planned = |component: &Component, stream: &StreamDefinition| PlannedStream {
            name: stream.name.clone(),
            from: names(&stream.writers),
            to: names(&stream.readers),
            live: !component.spooled,
        };
        running.flat_map(|one| one.streams.iter().map(move |stream| planned(one, stream))).collect()
    }

    /// Whether an action that the core has begun is to wait for its turn among those of its component.
    pub(crate) fn defer_for_streams(&mut self, id: TaskId, start: &NextAttempt) -> bool {
        let Some(&place) = self.streams.of.get(&id) else { return false };
        let terms = Terms {
            is_spooled: self.streams.components[place].spooled,
            is_dry_run: self.settings.config.dry_run,
            alone_on: (!self.has_shared_spools()).then_some(start.node),
        };
        match self.streams.components[place].stages.begin(id, terms, start.clone()) {
            Begun::AtOnce => return false,
            Begun::Waits => drop(self.streams.begun.insert(place)),
            Begun::HasRun => {
                let (attempt, outcome) = (start.number, rakuda_core::ActionOutcome::Succeeded);
                self.event(Event::ActionEnded { id, attempt, outcome, run_ns: Some(0) });
            }
        }
        true
    }

    /// Drops an action that is to end and waits for its turn: it does not begin. False if it does not wait.
    pub(crate) fn drop_deferred(&mut self, id: TaskId) -> bool {
        let Some(&place) = self.streams.of.get(&id) else { return false };
        let Some(start) = self.streams.components[place].stages.take(id) else { return false };
        let (attempt, outcome) = (start.number, rakuda_core::ActionOutcome::NotBegun);
        self.event(Event::ActionEnded { id, attempt, outcome, run_ns: Some(0) });
        true
    }

    /// An attempt has begun: the ends of what its commands read and write are opened before them.
    pub(crate) fn open_streams_for(&mut self, id: TaskId, node: NodeId) {
        let Some(&place) = self.streams.of.get(&id) else { return };
        if self.streams.components[place].opening_of.contains_key(&id) {
            return;
        }
        if self.streams.components[place].spooled {
            self.streams.components[place].has_begun.insert(id);
        }
        self.streams.openings += 1;
        let opening = OpeningId(self.streams.openings);
        let is_spooled = self.streams.components[place].spooled;
        let members =
            if is_spooled { vec![id] } else { self.streams.components[place].members.clone() };
        let node_of = self.nodes_of_members(&members, node);
        let component = &self.streams.components[place];
        if is_spooled && !component.stages.is_ready(id) {
            // It was begun only to be ended.
            return self.fail_to_open(
                opening,
                place,
                node_of,
                "not all that write for it have ended",
            );
        }
        let nodes: BTreeSet<NodeId> = node_of.values().copied().collect();
        if is_spooled {
            self.begin_spool(place, id, opening, node);
        }
        let (edges, routes, opened) = if is_spooled || nodes.len() == 1 {
            let component = &self.streams.components[place];
            let spool = |task: u32| self.spool_of(place, task, node);
            let plans =
                if is_spooled { component.spool_plans(id, spool) } else { component.live_plans() };
            (Edges::default(), Routes::default(), vec![(node, plans, None)])
        } else {
            match self.plan_over_nodes(place, &node_of) {
                Ok(planned) => planned,
                Err(why) => return self.fail_to_open(opening, place, node_of, &why.to_string()),
            }
        };
        let component = &mut self.streams.components[place];
        component.unread.clear();
        component.opening_of.extend(members.iter().map(|member| (*member, opening)));
        let nodes = opened.iter().map(|(node, ..)| (*node, None)).collect();
        self.note_streams_opened(opening, place, &node_of, &edges, &members);
        let mut stalls = Stalls::default();
        for (node, mut plans, hops) in opened {
            let component = &self.streams.components[place];
            let watched = plans.iter().filter(|plan| plan.stall_ms.is_some());
            for number in watched.filter_map(|plan| component.number_of(&plan.name)) {
                stalls.on_opened(number, node);
            }
            if !is_spooled {
                self.place_spills(place, node, &mut plans);
            }
            let open = StreamRequest::Open(opening, plans, hops.map(Box::new));
            self.requests.push((Some(node), AgentRequest::Streams(open)));
        }
        let opened = Opening {
            component: place,
            nodes,
            interrupted: BTreeMap::new(),
            held_by: BTreeMap::new(),
            stalled: Vec::new(),
            passed: BTreeMap::new(),
            node_of,
            edges,
            routes,
            stalls,
            took_ns: BTreeMap::new(),
            ending: Ending::new(members),
        };
        self.streams.open.insert(opening, opened);
    }

    /// Says where on a node that goes which slow readers have not read.
    fn place_spills(&self, place: usize, node: NodeId, plans: &mut [StreamPlan]) {
        let folder = match node {
            LOCAL_NODE => self.record.passing_folder(),
            _ => SPILL_FOLDER.into(),
        };
        let folder = Text(folder.into_os_string().into_vec());
        let streams = &self.streams.components[place].streams;
        for plan in plans.iter_mut().filter(|plan| plan.readers.len() > 1) {
            let stream = streams.iter().find(|stream| stream.name == plan.name);
            let bytes_max = stream.map_or(0, |stream| stream.spill);
            plan.spill = (bytes_max > 0).then(|| SpillPlan { folder: folder.clone(), bytes_max });
        }
    }

    /// Nothing could be opened: the commands of its members find no streams, and say why.
    fn fail_to_open(
        &mut self,
        id: OpeningId,
        place: usize,
        node_of: BTreeMap<TaskId, NodeId>,
        why: &str,
    ) {
        let component = &mut self.streams.components[place];
        component.opening_of.extend(node_of.keys().map(|member| (*member, id)));
        let fault = Text::from(format!("could not open its streams: {why}"));
        let ending = Ending::not_opened(node_of.keys().copied(), fault);
        let opened = Opening {
            component: place,
            nodes: BTreeMap::new(),
            interrupted: BTreeMap::new(),
            held_by: BTreeMap::new(),
            stalled: Vec::new(),
            passed: BTreeMap::new(),
            node_of,
            edges: Edges::default(),
            routes: Routes::default(),
            stalls: Stalls::default(),
            took_ns: BTreeMap::new(),
            ending,
        };
        self.streams.open.insert(id, opened);
    }

    /// Where members run; one that runs nothing is with the others.
    fn nodes_of_members(&self, members: &[TaskId], node: NodeId) -> BTreeMap<TaskId, NodeId> {
        let of = |id: &TaskId| match self.run.scheduler().task(*id).map(|task| task.state) {
            Some(TaskState::Running { node }) => node,
            _ => node,
        };
        members.iter().map(|id| (*id, of(id))).collect()
    }

    /// A spool does not hold what was written: the task that wrote it runs again, and so do those that have read it.
    pub(super) fn on_spool_bad(&mut self, id: OpeningId, spool: &Text) {
        let Some(opening) = self.streams.open.get(&id) else { return };
        let place = opening.component;
        let Some((reader, node)) = opening.node_of.iter().next() else { return };
        let sources = self.streams.components[place].stages.sources(*reader).iter();
        let writer = sources.copied().find(|task| self.spool_of(place, task.0, *node) == *spool);
        if let Some(writer) = writer {
            self.streams.components[place].stages.on_spool_bad(writer);
        }
    }

    /// What a node calls the spool of a task.
    fn spool_of(&self, place: usize, task: u32, node: NodeId) -> Text {
        let opening = self.streams.components[place].spools.get(&TaskId(task));
        let name = format!("{place}-{task}-{}", opening.map_or(0, |opening| opening.0));
        if self.settings.cluster.is_some() && !self.has_shared_spools() {
            return Text::from(name);
        }
        let path = self.record.passing_folder().join(name);
        let path = self.agents.node(node).port.path_there(&path);
        Text(path.into_os_string().into_vec())
    }

    /// Begins the spool of a member. What it has written before is of no use.
    fn begin_spool(&mut self, place: usize, task: TaskId, opening: OpeningId, node: NodeId) {
        if self.streams.components[place].spools.contains_key(&task) {
            self.forget_spools(place, &[task], node);
        }
        self.streams.components[place].spools.insert(task, opening);
    }

    fn forget_spools(&mut self, place: usize, tasks: &[TaskId], node: NodeId) {
        let spools = tasks.iter().map(|task| self.spool_of(place, task.0, node)).collect();
        let word = AgentRequest::Streams(StreamRequest::Forget(spools));
        self.requests.push((Some(node), word));
    }

    /// An action of a component has ended. True: its end is held until it is known what went through.
    pub(crate) fn hold_for_streams(
        &mut self,
        id: TaskId,
        outcome: ActionOutcome,
        message: &[u8],
        code: Option<Held>,
    ) -> bool {
        let Some(&place) = self.streams.of.get(&id) else { return false };
        let Some(&opening_id) = self.streams.components[place].opening_of.get(&id) else {
            return false;
        };
        let began = self.run.attempts().get(id).map(|attempt| attempt.began().time.0);
        let took_ns = began.map_or(0, |began| self.now.time.0.saturating_sub(began));
        let Some(opening) = self.streams.open.get_mut(&opening_id) else { return false };
        let held = || HeldEnd { message: message.to_vec(), code };
        let ended = opening.ending.on_member_ended(id, outcome == ActionOutcome::Ok, held);
        let Some(MemberEnd { is_well, then }) = ended else { return false };
        opening.took_ns.insert(id, took_ns);
        if let Some(node) = opening.node_of.get(&id).copied() {
            let word = StreamRequest::EndMember(opening_id, id.0, is_well);
            self.requests.push((Some(node), AgentRequest::Streams(word)));
        }
        match then {
            AfterMember::GoOn => self.tell_stalls(opening_id),
            AfterMember::Hold => return true,
            AfterMember::Close => self.close_streams(opening_id),
        }
        false
    }

    /// Nothing of an opening is left.
    fn close_streams(&mut self, id: OpeningId) {
        let Some(opening) = self.streams.open.remove(&id) else { return };
        for node in opening.nodes.keys() {
            let word = AgentRequest::Streams(StreamRequest::Close(id));
            self.requests.push((Some(*node), word));
        }
        let component = &mut self.streams.components[opening.component];
        let ended: Vec<TaskId> = component
            .opening_of
            .iter()
            .filter(|(_, open)| **open == id)
            .map(|(task, _)| *task)
            .collect();
        component.opening_of.retain(|_, open| *open != id);
        if component.spooled && !opening.ending.has_failed() {
            if component.stages.on_ended_well(ended) {
                let all: Vec<TaskId> = component.spools.keys().copied().collect();
                if let Some(node) = opening.nodes.keys().next().copied() {
                    self.forget_spools(opening.component, &all, node);
                }
            }
            self.begin_next_of(opening.component);
        }
        self.await_accounts(id, opening);
    }

    /// The attempt of a member was lost with its node.
    pub(crate) fn on_stream_member_lost(&mut self, id: TaskId) {
        if let Some(place) = self.streams.of.get(&id) {
            self.streams.components[*place].stages.on_lost(id);
        }
        let opening = self.streams.component_of(id).and_then(|one| one.opening_of.get(&id));
        let Some(&opening_id) = opening else { return };
        let Some(opening) = self.streams.open.get_mut(&opening_id) else { return };
        if !opening.ending.on_member_lost(id) {
            return;
        }
        let held = opening.ending.let_go();
        self.close_streams(opening_id);
        // Its action has ended, and nothing else would say so.
        if let Some((task, HeldEnd { message, code })) = held {
            self.on_action_ended(task, ActionOutcome::Failed, &message, code);
        }
    }
}
