//! The cheapest program in the e-graph, where shared work counts once.
//!
//! Finding the cheapest directed acyclic graph is hard, so it is approached in two steps, each of which only ever improves:
//!
//! 1. *Sets bottom up.* Each class keeps the set of nodes of the cheapest way found so far, its own node included; the cost of a node
//!    is that of the union of the sets of its children. Repeated until nothing gets cheaper.
//! 2. *One exchange at a time.* For each class of the result, each other node is tried, with the sets of step 1 for children that are not in
//!    the result yet, or with a node that reads what is in the result. To share a tensor pays only when several nodes read it: for each class outside of the result, all that can read it are
//!    tried at once, and for each class inside, nodes that do without it. An exchange stays if the whole result gets cheaper.
//!
//! The first result is compared with the nodes of the program that came in, so no result is dearer than that.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use egg::{Id, Language};
use rustc_hash::FxHashSet;

use super::cost::{Cost, Model, Sum};
use super::graph::Graph;
use super::lang::{Head, Node};
use crate::error::{Error, Result};

/// How many sweeps of step 1, how many exchanges of step 2.
const MAX_SWEEPS: usize = 12;
/// An exchange looks at the whole result, so there are fewer for larger ones.
const MAX_EXCHANGES: usize = 4000;
const EXCHANGED_CLASSES: usize = 100_000;

/// A class, by its place among all.
type Place = usize;

/// A node for each class that the roots need, by its number in the class.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Selection(Vec<Option<u32>>);

impl Selection {
    fn get(&self, class: Place) -> Option<usize> {
        self.0.get(class).copied().flatten().map(|at| at as usize)
    }

    fn set(&mut self, class: Place, node: usize) {
        if let Some(slot) = self.0.get_mut(class) {
            *slot = u32::try_from(node).ok();
        }
    }

    /// Takes over nodes for classes that have none.
    fn join(&mut self, other: &Selection) {
        for (slot, node) in self.0.iter_mut().zip(&other.0) {
            *slot = slot.or(*node);
        }
    }

    fn retain(&mut self, classes: &[Place]) {
        let mut kept = Selection(vec![None; self.0.len()]);
        for class in classes {
            if let Some(node) = self.get(*class) {
                kept.set(*class, node);
            }
        }
        *self = kept;
    }
}

/// A node of a class.
struct Entry {
    node: Node,
    cost: Cost,
    children: Vec<Place>,
}

/// The e-graph as the extraction sees it, with canonical nodes.
pub(super) struct Table {
    places: BTreeMap<Id, Place>,
    ids: Vec<Id>,
    classes: Vec<Vec<Entry>>,
    /// How many coefficients costs have at most.
    powers: usize,
}

/// The cheapest way found for a class.
struct Best {
    selection: Selection,
    cost: Cost,
    /// The sweep in which it was found.
    sweep: usize,
}

impl Table {
    pub(super) fn new(graph: &Graph<'_>, model: &Model<'_>) -> Self {
        let mut ids: Vec<Id> = graph.egraph.classes().map(|class| graph.egraph.find(class.id)).collect();
        ids.sort();
        let places: BTreeMap<Id, Place> = ids.iter().copied().zip(0..).collect();
        let entry = |node: &Node| {
            let node = node.clone().map_children(|id| graph.egraph.find(id));
            let children = node.children.iter().filter_map(|id| places.get(id).copied()).collect();
            Entry { cost: model.node(&node), children, node }
        };
        let classes: Vec<Vec<Entry>> =
            ids.iter().map(|id| graph.egraph[*id].nodes.iter().map(entry).collect()).collect();
        let powers = classes.iter().flatten().map(|entry| entry.cost.powers()).max().unwrap_or(0);
        Table { places, ids, classes, powers }
    }

    /// The node that a selection takes for a class.
    pub(super) fn node(&self, selection: &Selection, class: Id) -> Option<&Node> {
        Some(&self.entry(selection, *self.places.get(&class)?)?.node)
    }

    fn entry(&self, selection: &Selection, class: Place) -> Option<&Entry> {
        self.classes.get(class)?.get(selection.get(class)?)
    }

    fn nothing(&self) -> Selection {
        Selection(vec![None; self.ids.len()])
    }

    /// The selection of given nodes.
    pub(super) fn selection(&self, nodes: &[(Id, Node)]) -> Selection {
        let mut selection = self.nothing();
        for (id, node) in nodes {
            let Some(class) = self.places.get(id) else { continue };
            if let Some(at) = self.classes[*class].iter().position(|entry| entry.node == *node) {
                selection.set(*class, at);
            }
        }
        selection
    }

    /// The classes that the roots reach, operands first; nothing for a cycle or a class without a node.
    pub(super) fn order(&self, selection: &Selection, roots: &[Id]) -> Option<Vec<Id>> {
        let order = self.reached(selection, &self.places_of(roots)?)?;
        Some(order.into_iter().map(|class| self.ids[class]).collect())
    }

    fn places_of(&self, ids: &[Id]) -> Option<Vec<Place>> {
        ids.iter().map(|id| self.places.get(id).copied()).collect()
    }

    fn reached(&self, selection: &Selection, roots: &[Place]) -> Option<Vec<Place>> {
        #[derive(Clone, Copy, PartialEq)]
        enum State {
            New,
            OnPath,
            Done,
        }
        let mut states = vec![State::New; self.classes.len()];
        let mut order = Vec::with_capacity(self.classes.len());
        let mut stack: Vec<(Place, bool)> = Vec::with_capacity(2 * self.classes.len());
        stack.extend(roots.iter().rev().map(|class| (*class, false)));
        while let Some((class, leaving)) = stack.pop() {
            if leaving {
                states[class] = State::Done;
                order.push(class);
                continue;
            }
            match states[class] {
                State::Done => continue,
                State::OnPath => return None,
                State::New => {}
            }
            states[class] = State::OnPath;
            stack.push((class, true));
            let entry = self.entry(selection, class)?;
            stack.extend(
                entry.children.iter().rev().filter(|child| states[**child] != State::Done).map(|c| (*c, false)),
            );
        }
        Some(order)
    }

    /// The classes that the roots reach, and what they cost together.
    fn total(&self, selection: &Selection, roots: &[Place]) -> Option<(Vec<Place>, Cost)> {
        let order = self.reached(selection, roots)?;
        let mut total = Sum::zero(self.powers);
        let mut uses = vec![0u8; self.classes.len()];
        for class in &order {
            let entry = self.entry(selection, *class)?;
            total.add(&entry.cost);
            for child in &entry.children {
                uses[*child] = uses[*child].saturating_add(1);
                // What is used more than once needs a name.
                if uses[*child] == 2 && !matches!(*self.entry(selection, *child)?.node.head, Head::Input { .. }) {
                    total.add_name();
                }
            }
        }
        Some((order, total.total()))
    }

    /// Step 1: a set for every class. A node is looked at again when there is a better way for one of its children.
    fn sets(&self) -> Vec<Option<Best>> {
        let mut best: Vec<Option<Best>> = self.ids.iter().map(|_| None).collect();
        for sweep in 1..=MAX_SWEEPS {
            let mut changed = false;
            for (class, entries) in self.classes.iter().enumerate() {
                for (at, entry) in entries.iter().enumerate() {
                    let newest = entry.children.iter().filter_map(|child| Some(best[*child].as_ref()?.sweep)).max();
                    if sweep > 1 && newest.is_none_or(|newest| newest + 1 < sweep) {
                        continue;
                    }
                    let Some(mut set) = self.union(&best, entry, class) else { continue };
                    set.set(class, at);
                    let Some((needed, cost)) = self.total(&set, &[class]) else { continue };
                    if best[class].as_ref().is_none_or(|old| cost.compare(&old.cost) == Ordering::Less) {
                        set.retain(&needed);
                        best[class] = Some(Best { selection: set, cost, sweep });
                        changed = true;
                    }
                }
            }
            if !changed {
                break;
            }
        }
        best
    }

    /// The sets of the children of a node; nothing where one has none yet or needs the class itself.
    fn union(&self, best: &[Option<Best>], entry: &Entry, class: Place) -> Option<Selection> {
        let mut union = self.nothing();
        for child in &entry.children {
            let set = &best[*child].as_ref()?.selection;
            if set.get(class).is_some() {
                return None;
            }
            union.join(set);
        }
        Some(union)
    }

    /// The cheapest selection found for the roots, and whether it is cheaper than a given one.
    pub(super) fn extract(&self, roots: &[Id], given: &Selection) -> Result<(Selection, bool)> {
        let nothing = || Error::bug("simplify", "no program can be taken out of the e-graph");
        let roots = self.places_of(roots).ok_or_else(nothing)?;
        let best = self.sets();
        let mut joined = self.nothing();
        for root in &roots {
            if let Some(found) = &best[*root] {
                joined.join(&found.selection);
            }
        }
        let given_total = self.total(given, &roots).map(|(_, cost)| cost);
        let (selection, total) = match (self.total(&joined, &roots), given_total.clone()) {
            (Some((_, a)), Some(b)) if b.compare(&a) != Ordering::Greater => (given.clone(), b),
            (Some((_, a)), _) => (joined, a),
            (None, Some(b)) => (given.clone(), b),
            (None, None) => return Err(nothing()),
        };
        let classes = selection.0.iter().flatten().count();
        let left = MAX_EXCHANGES.min(EXCHANGED_CLASSES / (1 + classes));
        let mut exchange =
            Exchange { table: self, roots: &roots, best: &best, selection, total, left, failed: FxHashSet::default() };
        while exchange.nodes() | exchange.shared() | exchange.unshared() {}
        let cheaper = given_total.is_none_or(|given| exchange.total.compare(&given) == Ordering::Less);
        let mut selection = exchange.selection;
        selection.retain(&self.reached(&selection, &roots).unwrap_or_default());
        Ok((selection, cheaper))
    }

    /// Adds nodes for the children that a selection lacks: the cheapest way to compute them from nothing, or, `nearby`, one node that reads
    /// what is there already, where that is cheaper. Whether there was such a node.
    fn complete(&self, selection: &mut Selection, best: &[Option<Best>], class: Place, nearby: bool) -> bool {
        let Some(entry) = self.entry(selection, class) else { return false };
        let mut found = false;
        for child in entry.children.iter().filter(|child| selection.get(**child).is_none()).copied().collect::<Vec<_>>()
        {
            let Some(best) = &best[child] else { continue };
            let node = if nearby { self.nearby(selection, &best.selection, child) } else { None };
            if let Some(at) = node {
                selection.set(child, at);
                found = true;
            } else {
                selection.join(&best.selection);
            }
        }
        found
    }

    /// A node of a class that reads what is selected, where that is cheaper than what a way to compute it adds.
    fn nearby(&self, selection: &Selection, way: &Selection, class: Place) -> Option<usize> {
        let ready = |entry: &Entry| entry.children.iter().all(|child| selection.get(*child).is_some());
        let nodes = self.classes[class].iter().enumerate().filter(|(_, entry)| ready(entry));
        let (at, entry) = nodes.min_by(|(_, a), (_, b)| a.cost.compare(&b.cost))?;
        let mut added = Sum::zero(self.powers);
        for class in (0..self.classes.len()).filter(|class| selection.get(*class).is_none()) {
            if let Some(entry) = self.entry(way, class) {
                added.add(&entry.cost);
            }
        }
        (entry.cost.compare(&added.total()) == Ordering::Less).then_some(at)
    }
}

/// Step 2.
struct Exchange<'t> {
    table: &'t Table,
    roots: &'t [Place],
    best: &'t [Option<Best>],
    selection: Selection,
    total: Cost,
    left: usize,
    /// What made the selection as it is no cheaper.
    failed: FxHashSet<Vec<(Place, usize)>>,
}

impl Exchange<'_> {
    /// Takes other nodes for some classes, if that makes the result cheaper.
    fn attempt(&mut self, nodes: &[(Place, usize)]) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        if self.failed.contains(nodes) {
            return false;
        }
        for nearby in [true, false] {
            let mut tried = self.selection.clone();
            for (class, node) in nodes {
                tried.set(*class, *node);
            }
            let mut found = false;
            for (class, _) in nodes {
                found |= self.table.complete(&mut tried, self.best, *class, nearby);
            }
            if nearby && !found {
                continue;
            }
            match self.table.total(&tried, self.roots) {
                Some((_, total)) if total.compare(&self.total) == Ordering::Less => {
                    (self.selection, self.total) = (tried, total);
                    self.failed.clear();
                    return true;
                }
                _ => {}
            }
        }
        self.failed.insert(nodes.to_vec());
        false
    }

    /// The classes of the result.
    fn inside(&self) -> Vec<Place> {
        self.table.reached(&self.selection, self.roots).unwrap_or_default()
    }

    /// Each other node of each class of the result.
    fn nodes(&mut self) -> bool {
        let mut improved = false;
        for class in self.inside() {
            for at in 0..self.table.classes[class].len() {
                improved |= self.selection.get(class) != Some(at) && self.attempt(&[(class, at)]);
            }
        }
        improved
    }

    /// Each class outside of the result, for all that can read it.
    fn shared(&mut self) -> bool {
        let inside = self.inside();
        let known: BTreeSet<Place> = inside.iter().copied().collect();
        let mut readers: BTreeMap<Place, Vec<(Place, usize)>> = BTreeMap::new();
        for class in &inside {
            for (at, entry) in self.table.classes[*class].iter().enumerate() {
                let mut outside = entry.children.iter().filter(|child| !known.contains(child));
                let (Some(child), None) = (outside.next(), outside.next()) else { continue };
                let readers = readers.entry(*child).or_default();
                // One node of each class.
                if readers.last().is_none_or(|(last, _)| last != class) {
                    readers.push((*class, at));
                }
            }
        }
        let mut improved = false;
        for nodes in readers.into_values().filter(|nodes| nodes.len() > 1) {
            improved |= self.attempt(&nodes);
        }
        improved
    }

    /// Each class of the result, where all that read it can do without it.
    fn unshared(&mut self) -> bool {
        let inside = self.inside();
        let mut improved = false;
        for class in &inside {
            let reads = |entry: &Entry| entry.children.contains(class);
            let readers = inside.iter().filter(|id| self.table.entry(&self.selection, **id).is_some_and(reads));
            let without = readers.map(|reader| {
                let entries = self.table.classes[*reader].iter().enumerate().filter(|(_, entry)| !reads(entry));
                let (at, _) = entries.min_by(|(_, a), (_, b)| a.cost.compare(&b.cost))?;
                Some((*reader, at))
            });
            if let Some(nodes) = without.collect::<Option<Vec<_>>>() {
                improved |= nodes.len() > 1 && self.attempt(&nodes);
            }
        }
        improved
    }
}
