//! Whose turn it is in a component over spools: a member runs when its writers have ended, beside as many others as its
//! node has cores, memory and devices for, also where the whole gang has more members than that.

use rakuda_core::{Capacity, NodeId, Requirement, TaskId};

use crate::hub::Hub;

impl Hub {
    /// Begins those whose turn it is: one at a time when the run has one job.
    pub(super) fn begin_next_of(&mut self, place: usize) {
        loop {
            let component = &self.streams.components[place];
            if self.is_serial_run() && !component.opening_of.is_empty() {
                return;
            }
            let open = component.opening_of.iter();
            let running = open.filter_map(|(task, opening)| {
                Some((*task, *self.streams.open.get(opening)?.node_of.get(task)?))
            });
            let running: Vec<(TaskId, NodeId)> = running.collect();
            let fits = |(id, node)| self.fits_beside(id, node, &running);
            let ready = component.stages.ready().map(|(id, start)| (id, start.node));
            let next = ready.filter(|one| fits(*one)).map(|(id, _)| id).next();
            let Some(id) = next else { return };
            let Some(start) = self.streams.components[place].stages.take(id) else { return };
            self.start_action(id, &start);
        }
    }

    fn is_serial_run(&self) -> bool {
        self.settings.config.policy == rakuda_core::Policy::Serial
    }

    fn fits_beside(&self, id: TaskId, node: NodeId, running: &[(TaskId, NodeId)]) -> bool {
        let scheduler = self.run.scheduler();
        let asked = |id: TaskId| scheduler.requirement(scheduler.task(id)?.requirement);
        let there = running.iter().filter(|(_, at)| *at == node).map(|(task, _)| *task);
        let all: Vec<&Requirement> = there.chain([id]).filter_map(asked).collect();
        all.len() < 2 || has_room(&self.agents.node(node).capacity, &all)
    }
}

/// Whether a node has all that these ask for together.
fn has_room(capacity: &Capacity, all: &[&Requirement]) -> bool {
    let cores = |it: &&Requirement| if it.exclusive { capacity.cores } else { it.cores.max(1) };
    let cores = all.iter().map(|it| u64::from(cores(it))).sum::<u64>();
    let memory_bytes = all.iter().fold(0_u64, |sum, it| sum.saturating_add(it.memory_bytes));
    let devices_of = |number: usize| -> u64 {
        let wanted = all.iter().flat_map(|it| &it.resources);
        wanted.filter(|(id, _)| id.0 as usize == number).map(|(_, count)| u64::from(*count)).sum()
    };
    let mut devices = capacity.resources.iter().enumerate();
    cores <= u64::from(capacity.cores)
        && memory_bytes <= capacity.memory_bytes
        && devices.all(|(number, count)| devices_of(number) <= u64::from(*count))
}

#[cfg(test)]
mod tests {
    use rakuda_core::ResourceId;

    use super::*;

    #[test]
    fn members_run_beside_one_another_as_far_as_their_node_has_what_they_ask_for() {
        let capacity = Capacity { cores: 4, memory_bytes: 8, resources: vec![1], cache_bytes: 0 };
        let small = Requirement::default();
        let wide = Requirement { cores: 3, ..Requirement::default() };
        let large = Requirement { memory_bytes: 5, ..Requirement::default() };
        let device = Requirement { resources: vec![(ResourceId(0), 1)], ..Requirement::default() };
        let alone = Requirement { exclusive: true, ..Requirement::default() };
        let room = |all: &[&Requirement]| has_room(&capacity, all);
        assert!(room(&[&small; 4]) && !room(&[&small; 5]));
        assert!(room(&[&wide, &small]) && !room(&[&wide, &small, &small]));
        assert!(room(&[&large, &small]) && !room(&[&large, &large]));
        assert!(room(&[&device, &small]) && !room(&[&device, &device]));
        assert!(!room(&[&alone, &small]));
    }
}
