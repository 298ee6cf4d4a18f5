//! A set of numbers as bits, and bits over the words of bits: what the hot path uses where a tree would chase pointers.
//!
//! Adding, taking out, looking up and finding the next number each touch a word a level; a level
//! has 64 times fewer words than the one below, so 10^4 numbers have three. Allocates when a larger
//! number comes than ever before, and not otherwise.

use crate::ids::Id;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

/// Numbers of one kind, in order.
#[derive(Clone)]
pub(crate) struct IdSet<I> {
    /// The bits of the numbers, then for each word of a level whether it has any; the last level
    /// has one word. All of a level that lie beyond its words are 0.
    levels: Vec<Vec<u64>>,
    len: usize,
    id: PhantomData<I>,
}

impl<I> Default for IdSet<I> {
    fn default() -> Self {
        Self { levels: Vec::new(), len: 0, id: PhantomData }
    }
}

fn split(index: usize) -> (usize, u64) {
    (index / 64, 1 << (index % 64))
}

fn lowest(word: u64) -> usize {
    word.trailing_zeros() as usize
}

impl<I: Id> IdSet<I> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn contains(&self, id: I) -> bool {
        let (word, bit) = split(id.index());
        self.levels.first().and_then(|words| words.get(word)).is_some_and(|bits| bits & bit != 0)
    }

    /// Adds a number; whether it was not there before.
    pub(crate) fn insert(&mut self, id: I) -> bool {
        if self.contains(id) {
            return false;
        }
        self.make_room(id.index());
        let mut index = id.index();
        for words in &mut self.levels {
            let (word, bit) = split(index);
            let before = words[word];
            words[word] |= bit;
            if before != 0 {
                break;
            }
            index = word;
        }
        self.len += 1;
        true
    }

    /// Takes a number out; whether it was there.
    pub(crate) fn remove(&mut self, id: I) -> bool {
        if !self.contains(id) {
            return false;
        }
        let mut index = id.index();
        for words in &mut self.levels {
            let (word, bit) = split(index);
            words[word] &= !bit;
            if words[word] != 0 {
                break;
            }
            index = word;
        }
        self.len -= 1;
        true
    }

    pub(crate) fn clear(&mut self) {
        while self.pop_first().is_some() {}
    }

    pub(crate) fn first(&self) -> Option<I> {
        self.next_from(0)
    }

    pub(crate) fn pop_first(&mut self) -> Option<I> {
        let first = self.first()?;
        self.remove(first);
        Some(first)
    }

    /// The smallest number that is not below `index`.
    pub(crate) fn next_from(&self, index: usize) -> Option<I> {
        let mut index = index;
        for (level, words) in self.levels.iter().enumerate() {
            let word = index / 64;
            let found = words.get(word).copied().unwrap_or(0) & (u64::MAX << (index % 64));
            if found != 0 {
                return Some(self.descend(level, word * 64 + lowest(found)));
            }
            index = word + 1;
        }
        None
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = I> {
        let mut next = 0;
        core::iter::from_fn(move || {
            let id = self.next_from(next)?;
            next = id.index() + 1;
            Some(id)
        })
    }

    /// The smallest number below a bit of a level.
    fn descend(&self, level: usize, index: usize) -> I {
        let step = |index: usize, words: &Vec<u64>| index * 64 + lowest(words[index]);
        I::from_index(self.levels[..level].iter().rev().fold(index, step))
    }

    fn make_room(&mut self, index: usize) {
        let mut words = index / 64 + 1;
        for level in 0.. {
            if level == self.levels.len() {
                // The level below had one word at most, so one bit says whether it has any.
                let below = level.checked_sub(1).and_then(|below| self.levels[below].first());
                let any = below.is_some_and(|word| *word != 0);
                self.levels.push(Vec::from([u64::from(any)]));
            }
            let level = &mut self.levels[level];
            if words > level.len() {
                level.resize(words, 0);
            }
            if level.len() == 1 {
                break;
            }
            words = level.len().div_ceil(64);
        }
    }
}

impl<I: Id> FromIterator<I> for IdSet<I> {
    fn from_iter<T: IntoIterator<Item = I>>(ids: T) -> Self {
        let mut set = Self::default();
        set.extend(ids);
        set
    }
}

impl<I: Id> Extend<I> for IdSet<I> {
    fn extend<T: IntoIterator<Item = I>>(&mut self, ids: T) {
        for id in ids {
            self.insert(id);
        }
    }
}

impl<I: Id> PartialEq for IdSet<I> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().all(|id| other.contains(id))
    }
}

impl<I: Id + fmt::Debug> fmt::Debug for IdSet<I> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::NodeId;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_agrees_with_a_tree(steps in prop::collection::vec((0..3_u8, 0..300_000_u32), 0..200)) {
            let (mut set, mut tree) = (IdSet::default(), BTreeSet::new());
            for (step, number) in steps {
                // Numbers that lie close together and far apart.
                let id = NodeId(if number % 2 == 0 { number % 130 } else { number });
                match step {
                    0 => prop_assert_eq!(set.insert(id), tree.insert(id)),
                    1 => prop_assert_eq!(set.remove(id), tree.remove(&id)),
                    _ => prop_assert_eq!(set.next_from(id.index()), tree.range(id..).next().copied()),
                }
                prop_assert_eq!(set.len(), tree.len());
                prop_assert_eq!(set.first(), tree.first().copied());
                prop_assert_eq!(set.contains(id), tree.contains(&id));
            }
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), tree.iter().copied().collect::<Vec<_>>());
            while let Some(first) = set.pop_first() {
                prop_assert_eq!(Some(first), tree.pop_first());
            }
            prop_assert!(tree.is_empty());
        }
    }
}
