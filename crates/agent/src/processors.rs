//! Which processor each worker of a synchronised round is bound to (docs/design/synchronised-start.md).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::cores;

/// A round, and a worker of it.
type Member = (u32, u32);

/// The processors that workers are bound to at present.
#[derive(Clone, Default)]
pub struct Processors {
    bound: Rc<RefCell<BTreeMap<Member, u32>>>,
}

/// A worker's processor, while it has it.
pub struct Binding {
    processors: Processors,
    member: Member,
}

impl Processors {
    /// A processor for a worker that is the `local_rank`-th of its round here; nothing: none is known.
    pub fn bind(&self, round: u32, worker: u32, local_rank: u32) -> Option<Binding> {
        let mut bound = self.bound.borrow_mut();
        let others = bound.iter().filter(|((other, _), _)| *other != round).map(|(_, cpu)| *cpu);
        let cpu = choose(cores::numbers(), local_rank, &others.collect::<Vec<u32>>())?;
        let member = (round, worker);
        bound.insert(member, cpu);
        Some(Binding { processors: self.clone(), member })
    }
}

impl Binding {
    /// Its number.
    pub fn number(&self) -> Option<u32> {
        self.processors.bound.borrow().get(&self.member).copied()
    }
}

impl Drop for Binding {
    fn drop(&mut self) {
        self.processors.bound.borrow_mut().remove(&self.member);
    }
}

/// Workers of a round share processors evenly. Beside other rounds they begin with those that the fewest workers of
/// these have; alone, each has the same one in every round.
fn choose(mut allowed: Vec<u32>, local_rank: u32, others: &[u32]) -> Option<u32> {
    allowed.sort_by_key(|cpu| others.iter().filter(|other| *other == cpu).count());
    let place = (local_rank as usize).checked_rem(allowed.len())?;
    Some(allowed[place])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(workers: u32, others: &[u32]) -> Vec<u32> {
        (0..workers).filter_map(|rank| choose(vec![2, 3, 7], rank, others)).collect()
    }

    #[test]
    fn a_round_alone_has_all_processors_in_their_order_again_and_again() {
        assert_eq!(chosen(7, &[]), [2, 3, 7, 2, 3, 7, 2]);
        assert_eq!(choose(Vec::new(), 0, &[]), None);
    }

    #[test]
    fn beside_others_it_begins_with_the_processors_that_they_use_least() {
        assert_eq!(chosen(3, &[2]), [3, 7, 2]);
        assert_eq!(chosen(4, &[2, 3, 7, 3, 2]), [7, 2, 3, 7]);
    }

    #[test]
    fn a_processor_is_free_again_when_its_worker_has_ended() {
        let processors = Processors::default();
        let Some(first) = processors.bind(0, 0, 0) else { return };
        let number = first.number();
        assert_eq!(
            processors.bind(0, 1, 0).and_then(|other| other.number()),
            number,
            "of its own round"
        );
        if cores::numbers().len() > 1 {
            assert_ne!(processors.bind(1, 0, 0).and_then(|other| other.number()), number);
        }
        drop(first);
        assert_eq!(processors.bind(1, 0, 0).and_then(|other| other.number()), number);
    }
}
