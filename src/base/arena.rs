//! Arenas and tables indexed by typed ids.

use std::hash::Hash;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};

/// A typed index into an arena; see `define_id!`.
pub trait Id: Copy + Eq {
    /// The id of the item at `index`.
    fn from_index(index: usize) -> Self;
    /// The place of the item in its arena.
    fn index(self) -> usize;
}

/// An append-only vector whose items are named by ids of one type.
///
/// All IRs keep *operands before their users*: an item refers to earlier items only, so a forward loop meets every operand
/// before its users, and a backward loop every user before its operands. No traversal needs the call stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Arena<I, T> {
    items: Vec<T>,
    #[serde(skip)]
    id: PhantomData<I>,
}

impl<I: Id, T> Arena<I, T> {
    /// An empty arena.
    pub fn new() -> Self {
        Arena { items: Vec::new(), id: PhantomData }
    }

    /// Appends an item and returns its id.
    ///
    /// # Panics
    /// With more than `u32::MAX` items. Every front end refuses programs far smaller than that.
    pub fn push(&mut self, item: T) -> I {
        assert!(self.items.len() < u32::MAX as usize, "an arena is full");
        self.items.push(item);
        I::from_index(self.items.len() - 1)
    }

    /// The first item that is equal, and where there is none this one, appended. All items are looked at: of many, an [`Interner`] finds one sooner.
    ///
    /// # Panics
    /// As [`Arena::push`].
    pub fn find_or_push(&mut self, item: T) -> I
    where
        T: PartialEq,
    {
        match self.items.iter().position(|known| *known == item) {
            Some(at) => I::from_index(at),
            None => self.push(item),
        }
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The item, or nothing where the id is not of this arena.
    pub fn get(&self, id: I) -> Option<&T> {
        self.items.get(id.index())
    }

    /// The ids in order. Reversed it visits users before operands.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + use<I, T> {
        (0..self.items.len()).map(I::from_index)
    }

    /// Ids and items in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (I, &T)> + ExactSizeIterator {
        self.items.iter().enumerate().map(|(i, item)| (I::from_index(i), item))
    }

    /// The items in order.
    pub fn values(&self) -> std::slice::Iter<'_, T> {
        self.items.iter()
    }
}

impl<I: Id, T> Default for Arena<I, T> {
    fn default() -> Self {
        Arena::new()
    }
}

impl<I: Id, T> FromIterator<T> for Arena<I, T> {
    fn from_iter<J: IntoIterator<Item = T>>(items: J) -> Self {
        Arena { items: items.into_iter().collect(), id: PhantomData }
    }
}

impl<I: Id, T> Index<I> for Arena<I, T> {
    type Output = T;
    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for Arena<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.index()]
    }
}

/// An arena in which equal items share one id (hash-consing).
#[derive(Clone, Debug)]
pub struct Interner<I, T> {
    items: IndexSet<T, FxBuildHasher>,
    id: PhantomData<I>,
}

impl<I: Id, T: Eq + Hash> Interner<I, T> {
    /// An empty interner.
    pub fn new() -> Self {
        Interner { items: IndexSet::default(), id: PhantomData }
    }

    /// The id of the item, new if no equal item was seen.
    pub fn intern(&mut self, item: T) -> I {
        I::from_index(self.items.insert_full(item).0)
    }

    /// The id of an item that was interned before.
    pub fn find(&self, item: &T) -> Option<I> {
        self.items.get_index_of(item).map(I::from_index)
    }

    /// The item, or nothing where the id is not of this interner.
    pub fn get(&self, id: I) -> Option<&T> {
        self.items.get_index(id.index())
    }

    /// The number of distinct items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The items in the order of their first occurrence.
    pub fn into_items(self) -> impl Iterator<Item = T> {
        self.items.into_iter()
    }

    /// Ids and items in the order of their first occurrence.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (I, &T)> + ExactSizeIterator {
        self.items.iter().enumerate().map(|(i, item)| (I::from_index(i), item))
    }
}

impl<I: Id, T: Eq + Hash> Default for Interner<I, T> {
    fn default() -> Self {
        Interner::new()
    }
}

impl<I: Id, T: Eq + Hash> Index<I> for Interner<I, T> {
    type Output = T;
    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

/// Data kept beside an arena: a value for each id, the default where none was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SideTable<I, T> {
    items: Vec<T>,
    default: T,
    id: PhantomData<I>,
}

impl<I: Id, T: Clone> SideTable<I, T> {
    /// A table with room for `len` ids, all at `default`.
    pub fn new(len: usize, default: T) -> Self {
        SideTable { items: vec![default.clone(); len], default, id: PhantomData }
    }

    /// Sets the value of an id; the table grows as needed.
    pub fn set(&mut self, id: I, value: T) {
        if id.index() >= self.items.len() {
            self.items.resize(id.index() + 1, self.default.clone());
        }
        self.items[id.index()] = value;
    }

    /// Takes the value out, leaving the default.
    pub fn take(&mut self, id: I) -> T {
        match self.items.get_mut(id.index()) {
            Some(item) => std::mem::replace(item, self.default.clone()),
            None => self.default.clone(),
        }
    }
}

impl<I: Id, T> Index<I> for SideTable<I, T> {
    type Output = T;
    fn index(&self, id: I) -> &T {
        self.items.get(id.index()).unwrap_or(&self.default)
    }
}

impl<I: Id, T: Clone> IndexMut<I> for SideTable<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        if id.index() >= self.items.len() {
            self.items.resize(id.index() + 1, self.default.clone());
        }
        &mut self.items[id.index()]
    }
}
