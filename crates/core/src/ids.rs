//! Numbers that name things, each a type of its own, and the vector that each of them indexes.
//!
//! Does not know what the things are. A number is handed out by the shell, counts from 0, and is never used again.

use alloc::vec::Vec;
use core::marker::PhantomData;
use core::ops::{Index, IndexMut};

/// A number that indexes its own vector.
pub trait Id: Copy {
    /// The position in the vector.
    fn index(self) -> usize;
    /// The number for a position.
    fn from_index(index: usize) -> Self;
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl Id for $name {
            fn index(self) -> usize {
                self.0 as usize
            }

            fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).expect("more than 2^32 numbers"))
            }
        }
    };
}

id!(
    /// A task of the plan; prerequisites known when it was defined have smaller numbers.
    TaskId
);
id!(
    /// A machine, or the part of one, that runs actions.
    NodeId
);
id!(
    /// A file server, as the shell numbers the names that the file system's catalogue has for them.
    HostId
);
id!(
    /// A set of wanted tasks.
    InvocationId
);
id!(
    /// A set of task properties.
    RequirementId
);
id!(
    /// Tasks that are placed and begun together.
    GangId
);
id!(
    /// A sort of task: those of one rule are thought to take equally long.
    RuleId
);
id!(
    /// A named resource with numbered devices, such as GPUs.
    ResourceId
);

/// A vector that only one kind of number indexes.
#[derive(Clone, Debug)]
pub(crate) struct IdVec<I, T> {
    items: Vec<T>,
    id: PhantomData<I>,
}

impl<I, T> Default for IdVec<I, T> {
    fn default() -> Self {
        Self { items: Vec::new(), id: PhantomData }
    }
}

impl<I: Id, T> IdVec<I, T> {
    /// Adds `item` as `id`.
    ///
    /// # Panics
    /// When `id` is not the next number.
    pub(crate) fn push(&mut self, id: I, item: T) {
        assert!(id.index() == self.items.len(), "numbers are given out in order");
        self.items.push(item);
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn get(&self, id: I) -> Option<&T> {
        self.items.get(id.index())
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = I> + use<I, T> {
        (0..self.items.len()).map(I::from_index)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (I, &T)> {
        self.items.iter().enumerate().map(|(index, item)| (I::from_index(index), item))
    }
}

impl<I: Id, T: Default> IdVec<I, T> {
    /// The item of `id`, made with its default, and those before it too, when it is not there yet.
    pub(crate) fn entry(&mut self, id: I) -> &mut T {
        if id.index() >= self.items.len() {
            self.items.resize_with(id.index() + 1, T::default);
        }
        &mut self.items[id.index()]
    }
}

impl<I: Id, T> Index<I> for IdVec<I, T> {
    type Output = T;

    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for IdVec<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.index()]
    }
}
