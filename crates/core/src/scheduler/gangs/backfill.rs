//! What small tasks may do with slots that are kept for the oldest gang: end before it begins.
//!
//! Where it is known how long tasks run (`DurationExpected`), it is known when the gang can begin
//! at the earliest: when what runs on the nodes that it waits for has ended. A task that ends
//! before that may start on a slot that is kept (EASY backfilling: Lifka 1995). That time is fixed
//! once for a plan, so the gang is never put off again and again. Where a time is not known nothing
//! starts on such a slot.

use crate::event::Output;
use crate::ids::{GangId, NodeId, RequirementId};
use crate::scheduler::Scheduler;
use crate::scheduler::fleet::Fleet;
use crate::time::Time;
use alloc::vec::Vec;

impl Scheduler {
    /// Starts what ends before the gang that is next can begin, on the slots that are kept for it.
    pub(crate) fn backfill(&mut self, now: Time, out: &mut Vec<Output>) {
        let Some(holder) = self.gangs.holder else { return };
        if self.ready.len == 0 {
            return;
        }
        if self.gangs.all[holder].begins.is_none() {
            self.gangs.all[holder].begins = self.begins_at(holder);
        }
        let Some(begins) = self.gangs.all[holder].begins.filter(|begins| *begins > now) else {
            return;
        };
        let mut nodes: Vec<NodeId> =
            self.gangs.all[holder].slots.iter().map(|slot| slot.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        for node in nodes {
            while self.backfill_node(holder, node, begins, now, out) {}
        }
    }

    /// When a gang can begin at the earliest, by the times that are known; `None` if they are not.
    fn begins_at(&self, id: GangId) -> Option<Time> {
        let awaited = self.gangs.all[id].slots.iter().filter(|slot| !slot.held);
        let mut begins = None;
        for slot in awaited {
            begins = begins.max(Some(self.frees_at(slot.node, slot.need.cores)?));
        }
        begins
    }

    /// When a node has this many cores free, if nothing more starts there.
    fn frees_at(&self, id: NodeId, cores: u32) -> Option<Time> {
        let node = &self.fleet.nodes[id];
        let mut ends: Vec<(Time, u32)> = Vec::new();
        for (task, share) in node.running.iter() {
            let requirement = self.graph.tasks[task].requirement;
            let run_ns = self.fleet.requirements[requirement].expected_ns.filter(|ns| *ns > 0)?;
            ends.push((Time(share.started.0.saturating_add(run_ns)), share.need.cores));
        }
        ends.sort_unstable();
        let mut free = node.cores_free;
        for (end, of_task) in ends {
            free += i64::from(of_task);
            if free >= i64::from(cores) {
                return Some(end);
            }
        }
        None
    }

    /// Starts one task on slots of a node that are kept; whether there was one.
    fn backfill_node(
        &mut self,
        holder: GangId,
        node: NodeId,
        begins: Time,
        now: Time,
        out: &mut Vec<Output>,
    ) -> bool {
        let may_take = |id: &RequirementId| self.may_backfill(holder, node, *id, begins, now);
        let requirements: Vec<RequirementId> =
            self.fleet.requirements.ids().filter(may_take).collect();
        if requirements.is_empty() {
            return false;
        }
        let may_take = |_: &Fleet, id: RequirementId, _: u32, _: bool| requirements.contains(&id);
        let Some(id) = self.choose(node, may_take) else { return false };
        let requirement = self.graph.tasks[id].requirement;
        let need = self.fleet.requirements[requirement].need(&self.fleet.nodes[node]);
        self.lend_slots(holder, node, need.cores, need.memory_bytes);
        self.start(now, id, node, out);
        true
    }

    /// Whether a task would end in time, and fits on what is kept on a node.
    fn may_backfill(
        &self,
        holder: GangId,
        id: NodeId,
        requirement: RequirementId,
        begins: Time,
        now: Time,
    ) -> bool {
        let (class, node) = (&self.fleet.requirements[requirement], &self.fleet.nodes[id]);
        let Some(run_ns) = class.expected_ns.filter(|run_ns| *run_ns > 0) else { return false };
        if now.0.saturating_add(run_ns) > begins.0
            || !class.requirement.resources.is_empty()
            || node.reserved_for.is_some()
            || !self.fleet.could_take(id, requirement)
            || !self.fleet.suits(id, requirement)
        {
            return false;
        }
        let need = class.need(node);
        let held = self.gangs.all[holder].slots.iter().filter(|slot| slot.held && slot.node == id);
        let (mut cores, mut memory) = (node.cores_free, node.memory_bytes_free);
        for slot in held {
            cores += i64::from(slot.need.cores);
            memory += i128::from(slot.need.memory_bytes);
        }
        i64::from(need.cores) <= cores && i128::from(need.memory_bytes) <= memory.max(0)
    }

    /// Makes room on a node out of slots that are kept there; they are awaited again.
    fn lend_slots(&mut self, holder: GangId, node: NodeId, cores: u32, memory_bytes: u64) {
        for index in (0..self.gangs.all[holder].slots.len()).rev() {
            let free = &self.fleet.nodes[node];
            if i64::from(cores) <= free.cores_free
                && i128::from(memory_bytes) <= free.memory_bytes_free
            {
                return;
            }
            let slot = &mut self.gangs.all[holder].slots[index];
            if slot.held && slot.node == node {
                slot.held = false;
                let member = slot.member;
                self.fleet.release_held(node, member);
                self.fleet.set_awaited(node, true);
            }
        }
    }
}
