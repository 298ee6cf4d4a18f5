//! A workload with the numbers that the scheduler knows its tasks by, given out as the front's
//! planner does: prerequisites first, depth first from what is wanted.
//!
//! Knows nothing of nodes and times.

use std::collections::BTreeSet;

use rakuda_core::TaskId;

use crate::ids::FileId;
use crate::workload::{Workload, WorkloadError};

/// What a number of the scheduler stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planned {
    /// A file that no task writes.
    Input(FileId),
    /// A task of the workload.
    Task(u32),
    /// A task that waits for all tasks that no other waits for.
    Wanted,
}

/// A workload with numbers.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// What each number of the scheduler stands for. The last one is `Wanted`.
    pub(crate) planned: Vec<Planned>,
    /// Prerequisites of each.
    prerequisites: Vec<Box<[TaskId]>>,
}

/// A task while its prerequisites are walked through.
struct Visit {
    task: u32,
    /// Position of the next one: inputs first, then `after`.
    next: usize,
    prerequisites: Vec<TaskId>,
}

const UNKNOWN: TaskId = TaskId(u32::MAX);

struct Planner<'a> {
    workload: &'a Workload,
    writers: Vec<Option<u32>>,
    planned: Vec<Planned>,
    prerequisites: Vec<Box<[TaskId]>>,
    numbers: Vec<TaskId>,
    inputs: Vec<TaskId>,
    /// Tasks that are being walked through.
    open: BTreeSet<u32>,
}

impl Plan {
    pub(crate) fn new(workload: &Workload) -> Result<Self, WorkloadError> {
        let writers = workload.writers()?;
        let mut planner = Planner {
            workload,
            planned: Vec::with_capacity(workload.tasks.len() + 1),
            prerequisites: Vec::with_capacity(workload.tasks.len() + 1),
            numbers: vec![UNKNOWN; workload.tasks.len()],
            inputs: vec![UNKNOWN; workload.files.len()],
            open: BTreeSet::new(),
            writers,
        };
        let mut wanted = Vec::new();
        for task in planner.last_tasks() {
            planner.walk(task)?;
            wanted.push(planner.numbers[task as usize]);
        }
        if let Some(left) = planner.numbers.iter().position(|number| *number == UNKNOWN) {
            return Err(WorkloadError::Cycle(left as u32));
        }
        if workload.tasks.is_empty() {
            return Err(WorkloadError::Empty);
        }
        planner.add(Planned::Wanted, wanted);
        let Planner { planned, prerequisites, .. } = planner;
        Ok(Self { planned, prerequisites })
    }

    pub(crate) fn prerequisites(&self, id: TaskId) -> &[TaskId] {
        &self.prerequisites[id.0 as usize]
    }

    pub(crate) fn wanted(&self) -> TaskId {
        TaskId(self.planned.len() as u32 - 1)
    }

    pub(crate) fn what(&self, id: TaskId) -> Planned {
        self.planned[id.0 as usize]
    }

    /// Files that no task writes and some task reads.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = FileId> {
        self.planned.iter().filter_map(|planned| match planned {
            Planned::Input(file) => Some(*file),
            Planned::Task(_) | Planned::Wanted => None,
        })
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = TaskId> + use<> {
        (0..self.planned.len() as u32).map(TaskId)
    }
}

impl Planner<'_> {
    /// Tasks that no other task waits for.
    fn last_tasks(&self) -> Vec<u32> {
        let mut is_last = vec![true; self.workload.tasks.len()];
        for (number, task) in self.workload.tasks.iter().enumerate() {
            let writers = task.inputs.iter().filter_map(|input| self.writers[input.index()]);
            for before in writers.chain(task.after.iter().copied()) {
                if before as usize != number {
                    is_last[before as usize] = false;
                }
            }
        }
        (0_u32..).zip(is_last).filter(|(_, is_last)| *is_last).map(|(task, _)| task).collect()
    }

    fn walk(&mut self, task: u32) -> Result<(), WorkloadError> {
        let mut stack = Vec::new();
        self.enter(task, &mut stack)?;
        while let Some(visit) = stack.last_mut() {
            let spec = &self.workload.tasks[visit.task as usize];
            let position = visit.next;
            visit.next += 1;
            let before = match spec.inputs.get(position) {
                Some(input) => match self.writers[input.index()] {
                    None => {
                        let id = self.input(*input);
                        stack.last_mut().expect("it was there").prerequisites.push(id);
                        continue;
                    }
                    writer => writer,
                },
                None => spec.after.get(position - spec.inputs.len()).copied(),
            };
            match before {
                Some(before) if self.numbers[before as usize] == UNKNOWN => {
                    visit.next -= 1;
                    self.enter(before, &mut stack)?;
                }
                Some(before) => visit.prerequisites.push(self.numbers[before as usize]),
                None => self.leave(&mut stack),
            }
        }
        Ok(())
    }

    fn enter(&mut self, task: u32, stack: &mut Vec<Visit>) -> Result<(), WorkloadError> {
        if !self.open.insert(task) {
            return Err(WorkloadError::Cycle(task));
        }
        stack.push(Visit { task, next: 0, prerequisites: Vec::new() });
        Ok(())
    }

    fn leave(&mut self, stack: &mut Vec<Visit>) {
        let visit = stack.pop().expect("it was there");
        self.open.remove(&visit.task);
        self.numbers[visit.task as usize] =
            self.add(Planned::Task(visit.task), visit.prerequisites);
    }

    fn input(&mut self, file: FileId) -> TaskId {
        if self.inputs[file.index()] == UNKNOWN {
            self.inputs[file.index()] = self.add(Planned::Input(file), Vec::new());
        }
        self.inputs[file.index()]
    }

    /// Gives out the next number; prerequisites keep their order, each once.
    fn add(&mut self, planned: Planned, mut prerequisites: Vec<TaskId>) -> TaskId {
        let id = TaskId(u32::try_from(self.planned.len()).expect("fewer than 2^32 numbers"));
        let mut seen = BTreeSet::new();
        prerequisites.retain(|prerequisite| seen.insert(*prerequisite));
        self.planned.push(planned);
        self.prerequisites.push(prerequisites.into());
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Compute, TaskSpec};

    #[test]
    fn prerequisites_have_smaller_numbers_and_stand_in_the_planners_order() {
        let mut workload = Workload::new("chains");
        let rule = workload.rule("copy");
        let spec = || TaskSpec::new(rule, Compute::Fixed(1));
        for _ in 0..2 {
            let (first, second, third) = (workload.file(1), workload.file(1), workload.file(1));
            // The later task stands first.
            workload.task(TaskSpec { inputs: vec![second], outputs: vec![third], ..spec() });
            workload.task(TaskSpec { inputs: vec![first], outputs: vec![second], ..spec() });
        }
        let plan = Plan::new(&workload).unwrap();
        let expected = [
            Planned::Input(FileId(0)),
            Planned::Task(1),
            Planned::Task(0),
            Planned::Input(FileId(3)),
            Planned::Task(3),
            Planned::Task(2),
            Planned::Wanted,
        ];
        assert_eq!(plan.planned, expected);
        assert_eq!(plan.prerequisites(plan.wanted()), [TaskId(2), TaskId(5)]);
    }

    #[test]
    fn tasks_that_wait_for_each_other_are_refused() {
        let mut workload = Workload::new("circle");
        let rule = workload.rule("a");
        workload.task(TaskSpec { after: vec![1], ..TaskSpec::new(rule, Compute::Fixed(1)) });
        workload.task(TaskSpec { after: vec![0], ..TaskSpec::new(rule, Compute::Fixed(1)) });
        workload.task(TaskSpec { after: vec![1], ..TaskSpec::new(rule, Compute::Fixed(1)) });
        assert!(matches!(Plan::new(&workload), Err(WorkloadError::Cycle(_))));
    }
}
