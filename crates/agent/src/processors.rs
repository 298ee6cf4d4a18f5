//! Which processor each worker of a synchronised round is bound to (docs/design/synchronised-start.md).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::cores;

/// A round, and a worker of it.
type Member = (u32, u32);

/// The processors that workers are bound to at present, by their places among those that there are.
#[derive(Clone, Default)]
pub struct Processors {
    bound: Rc<RefCell<BTreeMap<Member, BoundTo>>>,
}

#[derive(Clone, Copy)]
struct BoundTo {
    /// That it has.
    at: usize,
    /// That it has when its round is alone.
    home: usize,
}

/// A worker's processor, while it has it.
pub struct Binding {
    processors: Processors,
    member: Member,
    number: u32,
}

impl Processors {
    /// A processor for a worker that is the `local_rank`-th of its round here. `None`: none is known.
    pub fn bind(&self, round: u32, worker: u32, local_rank: u32) -> Option<Binding> {
        self.bind_one_of(&cores::numbers(), (round, worker), local_rank)
    }

    fn bind_one_of(&self, allowed: &[u32], member: Member, local_rank: u32) -> Option<Binding> {
        let count = allowed.len();
        let home = (local_rank as usize).checked_rem(count)?;
        // Those of its own round at their homes do not count: round after round all of them come to the same places.
        let is_there = |(other, place): (&Member, &BoundTo), at: usize| {
            place.at == at && !(other.0 == member.0 && place.home == place.at && at == home)
        };
        let mut bound = self.bound.borrow_mut();
        let load = |at: usize| bound.iter().filter(|one| is_there(*one, at)).count();
        let at = (0..count).min_by_key(|at| (load(*at), (at + count - home) % count))?;
        bound.insert(member, BoundTo { at, home });
        Some(Binding { processors: self.clone(), member, number: allowed[at] })
    }
}

impl Binding {
    /// The processor's.
    pub fn number(&self) -> u32 {
        self.number
    }
}

impl Drop for Binding {
    fn drop(&mut self) {
        self.processors.bound.borrow_mut().remove(&self.member);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: [u32; 3] = [2, 3, 7];

    fn bind(processors: &Processors, member: Member, local_rank: u32) -> Binding {
        processors.bind_one_of(&ALLOWED, member, local_rank).expect("there are some")
    }

    fn bind_all(processors: &Processors, round: u32, ranks: &[u32]) -> (Vec<u32>, Vec<Binding>) {
        let bindings: Vec<_> =
            ranks.iter().map(|rank| bind(processors, (round, *rank), *rank)).collect();
        (bindings.iter().map(Binding::number).collect(), bindings)
    }

    #[test]
    fn a_round_alone_has_all_processors_in_their_order_whoever_comes_first() {
        assert_eq!(
            bind_all(&Processors::default(), 0, &[0, 1, 2, 3, 4, 5, 6]).0,
            [2, 3, 7, 2, 3, 7, 2]
        );
        assert_eq!(bind_all(&Processors::default(), 0, &[5, 2, 4, 0, 1, 3]).0, [7, 7, 3, 2, 3, 2]);
        assert!(Processors::default().bind_one_of(&[], (0, 0), 0).is_none());
    }

    #[test]
    fn beside_others_a_worker_has_a_processor_that_they_use_least() {
        let processors = Processors::default();
        let (first, _first) = bind_all(&processors, 0, &[0]);
        let (second, _second) = bind_all(&processors, 1, &[0, 1]);
        assert_eq!((first, second), (vec![2], vec![3, 7]));
        assert_eq!(bind_all(&processors, 2, &[1, 0, 2]).0, [3, 2, 7]);
    }

    #[test]
    fn workers_of_a_round_are_apart_when_another_round_ends_between_them() {
        let processors = Processors::default();
        let allowed = [0, 1];
        let other = processors.bind_one_of(&allowed, (0, 0), 0);
        let first = processors.bind_one_of(&allowed, (1, 0), 0).expect("there are some");
        drop(other);
        let second = processors.bind_one_of(&allowed, (1, 1), 1).expect("there are some");
        assert_eq!((first.number(), second.number()), (1, 0));
    }

    #[test]
    fn a_processor_is_free_again_when_its_worker_has_ended() {
        let processors = Processors::default();
        let first = bind(&processors, (0, 0), 0);
        assert_eq!(bind(&processors, (1, 0), 0).number(), 3);
        drop(first);
        assert_eq!(bind(&processors, (1, 0), 0).number(), 2);
    }
}
