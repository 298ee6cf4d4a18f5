//! Where the tasks of gangs go, and what is kept for the oldest gang that waits.
//!
//! That one has a *plan*: a node for each of its tasks, such that all of them fit if nothing else
//! ran. A node that has the room now holds the share; on a node that has not, nothing else starts
//! until it has. A task moves to any node that has room for it, as long as the plan stays one. So
//! what is held only grows, and what is awaited comes free: the gang begins. Younger gangs begin
//! when all of their tasks fit beside that.
//!
//! Knows no queue.

use super::turns::shares_of;
use super::{Gang, GangPhase, Slot};
use crate::event::{Output, Oversubscribe, Settled};
use crate::ids::{GangId, NodeId, RequirementId, ResourceId, TaskId};
use crate::requirement::Capacity;
use crate::scheduler::Scheduler;
use crate::scheduler::locality::candidate_nodes;
use crate::scheduler::node::Need;
use crate::scheduler::task::TaskState;
use crate::streams::{Placer, Weights};
use crate::time::Time;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Maximum number of gangs tried, the oldest first, each time that something becomes free.
const TRIED_MAX: usize = 8;

/// What a plan takes of one node.
#[derive(Clone, Debug, Default)]
struct Load {
    cores: u64,
    memory_bytes: u128,
    devices: BTreeMap<ResourceId, u64>,
}

impl Load {
    fn add(&mut self, need: Need, resources: &[(ResourceId, u32)]) {
        self.cores += u64::from(need.cores);
        self.memory_bytes += u128::from(need.memory_bytes);
        for (id, count) in resources {
            *self.devices.entry(*id).or_default() += u64::from(*count);
        }
    }

    fn remove(&mut self, need: Need, resources: &[(ResourceId, u32)]) {
        self.cores -= u64::from(need.cores);
        self.memory_bytes -= u128::from(need.memory_bytes);
        for (id, count) in resources {
            *self.devices.entry(*id).or_default() -= u64::from(*count);
        }
    }

    fn leaves_room(
        &self,
        capacity: &Capacity,
        need: Need,
        resources: &[(ResourceId, u32)],
    ) -> bool {
        self.cores + u64::from(need.cores) <= u64::from(capacity.cores)
            && self.memory_bytes + u128::from(need.memory_bytes)
                <= u128::from(capacity.memory_bytes)
            && self.leaves_devices(capacity, resources)
    }

    fn leaves_devices(&self, capacity: &Capacity, resources: &[(ResourceId, u32)]) -> bool {
        resources.iter().all(|(id, count)| {
            let there = capacity.resources.get(id.0 as usize).copied().unwrap_or(0);
            self.devices.get(id).copied().unwrap_or(0) + u64::from(*count) <= u64::from(there)
        })
    }
}

/// Which nodes a plan may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nodes {
    /// Those that could suit at another time, too.
    All,
    /// Nodes that suit now, each for as many tasks as may start there at once.
    Suiting,
}

type Loads = BTreeMap<NodeId, Load>;

impl Scheduler {
    /// Cores that the tasks of a gang need together.
    pub(crate) fn gang_cores(&self, id: GangId) -> u64 {
        let cores = self.gangs.all[id].members.iter().map(|member| {
            let wanted =
                &self.fleet.requirements[self.graph.tasks[*member].requirement].requirement;
            u64::from(wanted.cores) * u64::from(wanted.nodes)
        });
        cores.sum()
    }

    /// Plans anew where gangs go, because nodes have come or gone, or are open for other tasks.
    pub(crate) fn plan_gangs_anew(&mut self) {
        if let Some(holder) = self.gangs.holder {
            self.release_slots(holder);
        }
        for (_, id) in self.gangs.waiting.clone() {
            self.gangs.all[id].too_large = false;
        }
        self.cease_turns();
        self.gangs.fresh = true;
    }

    /// Gives back what is kept for a gang that has not begun.
    pub(crate) fn release_slots(&mut self, id: GangId) {
        for slot in core::mem::take(&mut self.gangs.all[id].slots) {
            self.release_slot(slot);
        }
        if self.gangs.holder == Some(id) {
            self.gangs.holder = None;
            self.gangs.fresh = true;
        }
    }

    fn release_slot(&mut self, slot: Slot) {
        if slot.held {
            self.fleet.release_held(slot.node, slot.member);
        } else {
            self.fleet.set_awaited(slot.node, false);
        }
        if self.fleet.nodes[slot.node].joined {
            self.pending.with_capacity.insert(slot.node);
        }
    }

    /// A running task has ended, or its node is gone: its parts on other nodes end with it.
    pub(crate) fn release_parts(&mut self, id: TaskId) {
        let Some(gang) = self.gangs.of(id) else { return };
        let slots = core::mem::take(&mut self.gangs.all[gang].slots);
        for slot in slots {
            if slot.member == id {
                self.release_slot(slot);
            } else {
                self.gangs.all[gang].slots.push(slot);
            }
        }
    }

    /// Running tasks that have a part on a node which is not their home.
    pub(crate) fn parts_on(&self, node: NodeId) -> Vec<TaskId> {
        let is_running =
            |id: &TaskId| matches!(self.graph.tasks[*id].state, TaskState::Running { .. });
        self.fleet.nodes[node].held_by().into_iter().filter(is_running).collect()
    }

    /// Something that a gang waits for may have come, though no node has more room than before.
    pub(crate) fn try_gangs_again(&mut self) {
        self.gangs.fresh = true;
    }

    /// Begins gangs that fit, and keeps slots for the oldest that does not.
    pub(crate) fn place_gangs(&mut self, now: Time, out: &mut Vec<Output>) {
        let is_same = !self.gangs.fresh && self.pending.with_capacity.is_empty();
        if self.gangs.waiting.is_empty() || is_same {
            return;
        }
        self.gangs.fresh = false;
        // What a caller waits for may need any slot, and no gang that waits may be in its way.
        let may_hold = self.invocations.callers.is_empty();
        if !may_hold && let Some(holder) = self.gangs.holder {
            self.release_slots(holder);
            self.gangs.fresh = false;
        }
        let mut tried = 0;
        for (_, id) in self.gangs.waiting.clone() {
            if tried == TRIED_MAX {
                break;
            }
            if self.gangs.all[id].too_large || !self.make_plan(id, out) {
                continue;
            }
            tried += 1;
            self.hold_what_is_free(id, now);
            if self.gangs.holder == Some(id) && !self.would_suit(id) {
                self.gangs.holder = None;
            }
            if self.gangs.all[id].slots.iter().all(|slot| slot.held) {
                self.gangs.holder.take_if(|holder| *holder == id);
                self.begin_gang(id, now, out);
            } else if may_hold
                && self.gangs.holder.is_none_or(|holder| holder == id)
                && self.would_suit(id)
            {
                self.gangs.holder = Some(id);
                self.await_slots(id, true);
            } else {
                let slots = core::mem::take(&mut self.gangs.all[id].slots);
                for slot in slots.into_iter().filter(|slot| slot.held) {
                    self.fleet.release_held(slot.node, slot.member);
                    self.pending.with_capacity.insert(slot.node);
                }
            }
        }
    }

    /// Whether room is all that a gang waits for. For nodes that do not suit nothing is kept.
    fn would_suit(&self, id: GangId) -> bool {
        let slots = &self.gangs.all[id].slots;
        let mut places = slots.iter().enumerate();
        places.all(|(index, slot)| slot.held || self.suits_beside(&slots[..index], slot))
    }

    /// Whether a node suits a task of a gang when others of it start there at once.
    fn suits_beside<'a>(&self, others: impl IntoIterator<Item = &'a Slot>, slot: &Slot) -> bool {
        let at_once = |slot: &Slot| {
            self.fleet.suits_at_once(slot.node, self.graph.tasks[slot.member].requirement)
        };
        let (mut count, mut least) = (1, at_once(slot));
        for other in others.into_iter().filter(|other| other.node == slot.node) {
            count += 1;
            least = least.min(at_once(other));
        }
        count <= least
    }

    /// Where a gang waits for room, nothing else starts; or may start again.
    fn await_slots(&mut self, id: GangId, awaited: bool) {
        for slot in self.gangs.all[id].slots.iter().filter(|slot| !slot.held) {
            self.fleet.set_awaited(slot.node, awaited);
        }
    }

    /// Makes a plan for a gang that has none; whether it has one then. Nothing of it is awaited or new.
    fn make_plan(&mut self, id: GangId, out: &mut Vec<Output>) -> bool {
        if self.gangs.holder == Some(id) {
            self.await_slots(id, false);
            return true;
        }
        let wanted = self.wanted_slots(id);
        let gang = &self.gangs.all[id];
        let is_choosy = |wanted: &(_, RequirementId)| {
            self.fleet.requirements[wanted.1].requirement.choice.is_some()
        };
        let suiting = wanted.iter().any(is_choosy).then_some(Nodes::Suiting);
        let fits = match () {
            () if self.is_one_at_a_time() && wanted.len() > 1 => None,
            () if gang.joined => {
                let on_one = |how| {
                    self.fleet.nodes.ids().find_map(|node| self.plan(&wanted, Some(node), how))
                };
                let whole = suiting.and_then(on_one).or_else(|| on_one(Nodes::All));
                let spread = || {
                    self.plan_evenly(&wanted, &gang.weights)
                        .or_else(|| self.plan(&wanted, None, Nodes::All))
                };
                whole.or_else(|| if gang.spread { spread() } else { None })
            }
            () => {
                let plan = |how| self.plan(&wanted, None, how);
                suiting.and_then(plan).or_else(|| plan(Nodes::All))
            }
        };
        let (slots, oversubscribed) = match fits {
            Some(slots) => (Some(slots), false),
            None if gang.oversubscribe == Oversubscribe::Always && gang.joined && !gang.spread => {
                (self.plan_on_largest(&wanted, gang), !gang.by_turns)
            }
            None if gang.oversubscribe == Oversubscribe::Always => {
                (self.plan_oversubscribed(&wanted, None, gang), !gang.by_turns)
            }
            None => (None, false),
        };
        let Some(slots) = slots else {
            if self.fleet.joined > 0 {
                self.gangs.all[id].too_large = true;
                let (slots, slots_there) = self.slots_for(id);
                out.push(Output::GangTooLarge { id, slots, slots_there });
                // Others may have waited for it.
                self.pending.gangs.insert(id);
            }
            return false;
        };
        let gang = &mut self.gangs.all[id];
        gang.slots = slots;
        gang.oversubscribed = oversubscribed;
        gang.begins = None;
        true
    }

    /// Cores that the tasks of a gang need together, and those of all nodes.
    pub(crate) fn slots_for(&self, id: GangId) -> (u64, u64) {
        let there = if self.is_one_at_a_time() { 1 } else { self.fleet.cores };
        (self.gang_cores(id), there)
    }

    /// Whether no two tasks may run at once. A dry run tells what would run on all cores, though it
    /// takes one task after the other.
    fn is_one_at_a_time(&self) -> bool {
        self.is_serial() && !self.config.dry_run
    }

    /// One for each task and node that it needs: those that are hardest to place first.
    fn wanted_slots(&self, id: GangId) -> Vec<(TaskId, RequirementId)> {
        let mut wanted: Vec<(TaskId, RequirementId)> = Vec::new();
        for &member in &self.gangs.all[id].members {
            let task = &self.graph.tasks[member];
            if task.has_action {
                let nodes = self.fleet.requirements[task.requirement].requirement.nodes;
                wanted.extend((0..nodes).map(|_| (member, task.requirement)));
            }
        }
        let mut keys = BTreeMap::new();
        for (_, requirement) in &wanted {
            keys.entry(*requirement).or_insert_with(|| {
                let class = &self.fleet.requirements[*requirement];
                let may = self.fleet.nodes.ids().filter(|node| {
                    self.fleet.could_take(*node, *requirement)
                        && self.fleet.suits(*node, *requirement)
                });
                let wants = &class.requirement;
                let devices: u32 = wants.resources.iter().map(|(_, count)| *count).sum();
                (
                    may.count(),
                    Reverse((
                        wants.nodes,
                        wants.exclusive,
                        wants.cores,
                        wants.memory_bytes,
                        devices,
                    )),
                )
            });
        }
        // Stable, so that equal ones stay in the order of the gang.
        wanted.sort_by_key(|(_, requirement)| (keys[requirement], *requirement));
        wanted
    }

    /// Places that would do if nothing else ran: the first that fits, in the order of nodes, but
    /// where a task's input is before others.
    fn plan(
        &self,
        wanted: &[(TaskId, RequirementId)],
        only: Option<NodeId>,
        among: Nodes,
    ) -> Option<Vec<Slot>> {
        let mut loads = Loads::new();
        let mut slots: Vec<Slot> = Vec::with_capacity(wanted.len());
        // Nodes before this one have no room for more of the requirement.
        let mut first = (None, NodeId(0));
        for &(member, requirement) in wanted {
            if first.0 != Some(requirement) {
                first = (Some(requirement), NodeId(0));
            }
            let own = slots.iter().rev().take_while(|slot| slot.member == member);
            let own: Vec<NodeId> = own.map(|slot| slot.node).collect();
            let fits = |node: NodeId| {
                if only.is_some_and(|only| only != node) {
                    return None;
                }
                let need = self.fits_beside(&loads, node, requirement)?;
                let slot = Slot { member, node, need, held: false };
                let suits = among == Nodes::All || self.suits_beside(&slots, &slot);
                (suits && !own.contains(&node)).then_some((node, need))
            };
            let near = if self.config.locality && own.is_empty() && !self.is_serial() {
                candidate_nodes(&self.graph, &self.fleet, self.residency(), member)
            } else {
                crate::fact::Places::Unknown
            };
            let near = near.as_slice().iter().find_map(|node| fits(*node));
            let (node, need) = near.or_else(|| {
                let nodes = self.fleet.nodes.ids().skip(first.1.0 as usize);
                let mut nodes = nodes.map(|node| (node, fits(node)));
                nodes.find_map(|(_, found)| found)
            })?;
            if own.is_empty() && near.is_none() {
                first.1 = node;
            }
            let resources = &self.fleet.requirements[requirement].requirement.resources;
            loads.entry(node).or_default().add(need, resources);
            slots.push(Slot { member, node, need, held: false });
        }
        Some(slots)
    }

    /// What a task of a gang would take of a node, if it fits there beside the rest of the plan.
    fn fits_beside(&self, loads: &Loads, id: NodeId, requirement: RequirementId) -> Option<Need> {
        if !self.fleet.could_take(id, requirement) {
            return None;
        }
        let (class, node) = (&self.fleet.requirements[requirement], &self.fleet.nodes[id]);
        let need = class.need(node);
        let resources = &class.requirement.resources;
        let none = Load::default();
        let load = loads.get(&id).unwrap_or(&none);
        load.leaves_room(&node.capacity, need, resources).then_some(need)
    }

    /// Places as even as they can be: each task goes where the least is computed for each core, or, as far as that
    /// stays even, where those are that it sends to and reads from.
    fn plan_evenly(
        &self,
        wanted: &[(TaskId, RequirementId)],
        weights: &Weights,
    ) -> Option<Vec<Slot>> {
        let (mut placer, wanted) = self.placer(weights, wanted);
        let mut loads = Loads::new();
        let mut slots: Vec<Slot> = Vec::with_capacity(wanted.len());
        for (member, requirement) in wanted {
            let own = slots.iter().rev().take_while(|slot| slot.member == member);
            let own: Vec<NodeId> = own.map(|slot| slot.node).collect();
            let free = self.fleet.nodes.ids().filter(|node| !own.contains(node));
            let fits = free.filter_map(|node| {
                self.fits_beside(&loads, node, requirement).map(|need| (node, need))
            });
            let better = |a: NodeId, b: NodeId| {
                placer.compare(member, (a, self.cores_of(a)), (b, self.cores_of(b)))
            };
            let (node, need) = fits.min_by(|(a, _), (b, _)| better(*a, *b))?;
            placer.put(member, node);
            let resources = &self.fleet.requirements[requirement].requirement.resources;
            loads.entry(node).or_default().add(need, resources);
            slots.push(Slot { member, node, need, held: false });
        }
        Some(slots)
    }

    /// For the tasks of a gang, by what is said of them; and the tasks in the order in which they get their places.
    fn placer<'a>(
        &self,
        weights: &'a Weights,
        wanted: &[(TaskId, RequirementId)],
    ) -> (Placer<'a>, Vec<(TaskId, RequirementId)>) {
        let tasks = wanted.iter().map(|(task, _)| *task);
        let placer = Placer::new(weights, tasks, self.fleet.cores);
        let mut ordered = wanted.to_vec();
        for alike in ordered.chunk_by_mut(|one, other| one.1 == other.1) {
            placer.order(alike, |(task, _)| *task);
        }
        (placer, ordered)
    }

    fn cores_of(&self, node: NodeId) -> u32 {
        self.fleet.nodes[node].capacity.cores
    }

    /// Puts tasks that are joined on one node: that with the most cores that could take each of them.
    fn plan_on_largest(
        &self,
        wanted: &[(TaskId, RequirementId)],
        gang: &Gang,
    ) -> Option<Vec<Slot>> {
        let mut nodes: Vec<NodeId> = self.fleet.nodes.ids().collect();
        nodes.sort_by_key(|node| (Reverse(self.fleet.nodes[*node].capacity.cores), *node));
        nodes.into_iter().find_map(|node| self.plan_oversubscribed(wanted, Some(node), gang))
    }

    /// Spreads more tasks than there are slots over the nodes by their cores. What no core is left
    /// for takes none, likewise with memory; devices are never shared. Tasks that run by turns share nothing: each
    /// goes where it fits alone, and has all that it asks for when its turn comes.
    fn plan_oversubscribed(
        &self,
        wanted: &[(TaskId, RequirementId)],
        only: Option<NodeId>,
        gang: &Gang,
    ) -> Option<Vec<Slot>> {
        let (mut placer, wanted) = self.placer(&gang.weights, wanted);
        let mut loads = Loads::new();
        let mut slots: Vec<Slot> = Vec::with_capacity(wanted.len());
        for (member, requirement) in wanted {
            let class = &self.fleet.requirements[requirement];
            let resources = &class.requirement.resources;
            let own = slots.iter().rev().take_while(|slot| slot.member == member);
            let own: Vec<NodeId> = own.map(|slot| slot.node).collect();
            let none = Load::default();
            let suits = self.fleet.nodes.iter().filter(|(id, node)| {
                let load = loads.get(id).unwrap_or(&none);
                only.is_none_or(|only| only == *id)
                    && self.fleet.could_take(*id, requirement)
                    && !own.contains(id)
                    && (gang.by_turns || load.leaves_devices(&node.capacity, resources))
            });
            let found = suits.min_by(|(a, one), (b, other)| {
                let (a, b) = ((*a, one.capacity.cores), (*b, other.capacity.cores));
                placer.compare(member, a, b)
            });
            let Some((id, node)) = found else {
                // One that asks for more nodes than there are has all of them.
                if own.is_empty() {
                    return None;
                }
                continue;
            };
            placer.put(member, id);
            let whole = class.need(node);
            if gang.by_turns {
                slots.push(Slot { member, node: id, need: whole, held: false });
                continue;
            }
            let load = loads.entry(id).or_default();
            let cores_left = u64::from(node.capacity.cores) - load.cores;
            let memory_left = u128::from(node.capacity.memory_bytes) - load.memory_bytes;
            let need = Need {
                cores: whole.cores.min(u32::try_from(cores_left).unwrap_or(u32::MAX)),
                memory_bytes: whole
                    .memory_bytes
                    .min(u64::try_from(memory_left).unwrap_or(u64::MAX)),
            };
            load.add(need, resources);
            slots.push(Slot { member, node: id, need, held: false });
        }
        Some(slots)
    }

    /// Holds what has room where it is awaited, then what has room elsewhere.
    fn hold_what_is_free(&mut self, id: GangId, now: Time) {
        let mut slots = core::mem::take(&mut self.gangs.all[id].slots);
        for index in 0..slots.len() {
            self.release_unsuitable(&mut slots, index);
        }
        for index in 0..slots.len() {
            self.hold_slot(&mut slots, index, now);
        }
        let gang = &self.gangs.all[id];
        if !gang.oversubscribed && !gang.joined && slots.iter().any(|slot| !slot.held) {
            self.move_slots(&mut slots, now);
        }
        self.gangs.all[id].slots = slots;
    }

    /// A node may no longer suit the tasks that hold shares of it, or suit fewer of them.
    fn release_unsuitable(&mut self, slots: &mut [Slot], index: usize) {
        let (before, rest) = slots.split_at_mut(index);
        let slot = &mut rest[0];
        let before = before.iter().filter(|slot| slot.held);
        if slot.held && !self.suits_beside(before, slot) {
            self.fleet.release_held(slot.node, slot.member);
            self.pending.with_capacity.insert(slot.node);
            slot.held = false;
        }
    }

    fn hold_slot(&mut self, slots: &mut [Slot], index: usize, now: Time) {
        let slot = slots[index];
        let requirement = self.graph.tasks[slot.member].requirement;
        let held = slots.iter().filter(|slot| slot.held);
        if slot.held || !self.suits_beside(held, &slot) {
            return;
        }
        if self.runs_by_turns(slot.member) {
            self.fleet.hold_nothing(slot.node, slot.member, now);
            slots[index].held = true;
        } else if self.fleet.has_room(slot.node, requirement, slot.need) {
            self.fleet.hold(slot.node, slot.member, requirement, slot.need, now);
            slots[index].held = true;
            // It is not awaited any more: the rest of it is for others.
            self.pending.with_capacity.insert(slot.node);
        }
    }

    /// Tasks that still have no room go to nodes that have some, if the plan allows it.
    fn move_slots(&mut self, slots: &mut [Slot], now: Time) {
        let mut loads = Loads::new();
        for slot in slots.iter() {
            let requirement = self.graph.tasks[slot.member].requirement;
            let resources = &self.fleet.requirements[requirement].requirement.resources;
            loads.entry(slot.node).or_default().add(slot.need, resources);
        }
        // A requirement for which no node was found has none for its other tasks either.
        let mut full: Option<RequirementId> = None;
        for index in 0..slots.len() {
            let slot = slots[index];
            let requirement = self.graph.tasks[slot.member].requirement;
            if slot.held || full == Some(requirement) {
                continue;
            }
            let own = |node: NodeId| {
                slots.iter().any(|other| other.member == slot.member && other.node == node)
            };
            let found = self.fleet.nodes.ids().find_map(|node| {
                if own(node) {
                    return None;
                }
                let need = self.fits_beside(&loads, node, requirement)?;
                let held = slots.iter().filter(|slot| slot.held);
                let suits = self.suits_beside(held, &Slot { node, need, ..slot });
                (suits && self.fleet.has_room(node, requirement, need)).then_some((node, need))
            });
            let Some((node, need)) = found else {
                full = Some(requirement);
                continue;
            };
            let resources = self.fleet.requirements[requirement].requirement.resources.clone();
            loads.entry(slot.node).or_default().remove(slot.need, &resources);
            loads.entry(node).or_default().add(need, &resources);
            self.pending.with_capacity.insert(slot.node);
            self.fleet.hold(node, slot.member, requirement, need, now);
            slots[index] = Slot { node, need, held: true, ..slot };
        }
    }

    /// All tasks of a gang have their shares: their actions start.
    fn begin_gang(&mut self, id: GangId, now: Time, out: &mut Vec<Output>) {
        let gang = &mut self.gangs.all[id];
        self.gangs.waiting.remove(&(gang.age, id));
        gang.phase = GangPhase::Begun;
        gang.uncharged = false;
        let oversubscribed = gang.oversubscribed;
        out.push(Output::GangStarted { id, oversubscribed });
        let slots = core::mem::take(&mut gang.slots);
        let by_turns = gang.by_turns;
        if by_turns {
            gang.shares = shares_of(&slots);
        }
        for member in gang.members.clone() {
            let Some(home) = slots.iter().find(|slot| slot.member == member) else {
                // There is nothing to run.
                self.settle(member, Settled::Executed, out);
                continue;
            };
            let node = home.node;
            let devices = self.fleet.begin_held(node, member, now);
            self.set_state(member, TaskState::Running { node });
            let task = &mut self.graph.tasks[member];
            task.attempt += 1;
            out.push(Output::StartAction { id: member, attempt: task.attempt, node, devices });
        }
        let is_part = |slot: &Slot| {
            self.graph.tasks[slot.member].state != TaskState::Running { node: slot.node }
        };
        for slot in slots.iter().filter(|_| !by_turns) {
            self.fleet.note_start(slot.node);
            // What was kept for the gang and is left over is for others.
            self.pending.with_capacity.insert(slot.node);
        }
        self.gangs.all[id].slots = slots.into_iter().filter(is_part).collect();
        self.gangs.fresh = true;
    }
}
