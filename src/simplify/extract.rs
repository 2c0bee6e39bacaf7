//! The cheapest program in the e-graph, where shared work counts once.
//!
//! Finding the cheapest directed acyclic graph is hard, so it is approached in two steps, each of which only ever improves:
//!
//! 1. *Sets bottom up.* Each class keeps the set of nodes of the cheapest way found so far, its own node included; the cost of a node
//!    is that of the union of the sets of its children. Repeated until nothing gets cheaper.
//! 2. *One exchange at a time.* For each class of the result, each other node is tried, with the sets of step 1 for children that are not in
//!    the result yet. To share a tensor pays only when several nodes read it: for each class outside of the result, all that can read it are
//!    tried at once, and for each class inside, nodes that do without it. An exchange stays if the whole result gets cheaper.
//!
//! The first result is compared with the nodes of the program that came in, so no result is dearer than that.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use egg::{Id, Language};

use super::cost::{Cost, Model};
use super::graph::Graph;
use super::lang::{Head, Node};
use crate::error::{Error, Result};

/// A node for each class that the roots need.
pub(super) type Selection = BTreeMap<Id, usize>;

/// How many sweeps of step 1, how many exchanges of step 2.
const MAX_SWEEPS: usize = 12;
/// An exchange looks at the whole result, so there are fewer for larger ones.
const MAX_EXCHANGES: usize = 4000;
const EXCHANGED_CLASSES: usize = 100_000;

/// The e-graph as the extraction sees it.
pub(super) struct Table {
    /// The nodes of each class with their costs, canonical.
    classes: BTreeMap<Id, Vec<(Node, Cost)>>,
}

impl Table {
    pub(super) fn new(graph: &Graph<'_>, model: &Model<'_>) -> Self {
        let mut classes = BTreeMap::new();
        for class in graph.egraph.classes() {
            let nodes = class.nodes.iter().map(|node| {
                let node = node.clone().map_children(|id| graph.egraph.find(id));
                let cost = model.node(&node);
                (node, cost)
            });
            classes.insert(graph.egraph.find(class.id), nodes.collect::<Vec<_>>());
        }
        Table { classes }
    }

    /// The node that a selection takes for a class.
    pub(super) fn node(&self, selection: &Selection, class: Id) -> Option<&Node> {
        Some(&self.entry(class, *selection.get(&class)?)?.0)
    }

    fn entry(&self, class: Id, at: usize) -> Option<&(Node, Cost)> {
        self.classes.get(&class)?.get(at)
    }

    /// The place of a node in its class.
    fn place(&self, class: Id, node: &Node) -> Option<usize> {
        self.classes.get(&class)?.iter().position(|(other, _)| other == node)
    }

    /// The classes that the roots reach, operands first; nothing for a cycle or a class without a node.
    pub(super) fn order(&self, selection: &Selection, roots: &[Id]) -> Option<Vec<Id>> {
        let mut state: BTreeMap<Id, bool> = BTreeMap::new();
        let mut order = Vec::new();
        let mut stack: Vec<(Id, bool)> = roots.iter().rev().map(|id| (*id, false)).collect();
        while let Some((class, leaving)) = stack.pop() {
            if leaving {
                state.insert(class, true);
                order.push(class);
                continue;
            }
            match state.get(&class) {
                Some(true) => continue,
                // It is on the path.
                Some(false) => return None,
                None => {}
            }
            state.insert(class, false);
            stack.push((class, true));
            let node = self.node(selection, class)?;
            for child in node.children.iter().rev() {
                if state.get(child) != Some(&true) {
                    stack.push((*child, false));
                }
            }
        }
        Some(order)
    }

    /// What the classes that the roots reach cost together.
    pub(super) fn total(&self, selection: &Selection, roots: &[Id]) -> Option<Cost> {
        let order = self.order(selection, roots)?;
        let mut total = Cost::zero();
        let mut used: BTreeMap<Id, bool> = BTreeMap::new();
        for class in order {
            let (node, cost) = self.entry(class, *selection.get(&class)?)?;
            total = total.plus(cost);
            for child in &node.children {
                // What is used more than once needs a name.
                match used.get(child) {
                    None => drop(used.insert(*child, false)),
                    Some(false) if !matches!(self.node(selection, *child)?.head, Head::Input { .. }) => {
                        used.insert(*child, true);
                        total = total.plus(&Cost::name());
                    }
                    Some(_) => {}
                }
            }
        }
        Some(total)
    }

    /// Step 1: a set for every class.
    fn sets(&self) -> BTreeMap<Id, (Selection, Cost)> {
        let mut best: BTreeMap<Id, (Selection, Cost)> = BTreeMap::new();
        for _ in 0..MAX_SWEEPS {
            let mut changed = false;
            for (class, nodes) in &self.classes {
                for (at, (node, _)) in nodes.iter().enumerate() {
                    let Some(set) = self.union(&best, node, *class) else { continue };
                    let mut set = set;
                    set.insert(*class, at);
                    let Some(cost) = self.total(&set, &[*class]) else { continue };
                    let better = best.get(class).is_none_or(|(_, old)| cost.compare(old) == Ordering::Less);
                    if better {
                        let needed = self.order(&set, &[*class]).unwrap_or_default();
                        let needed: BTreeSet<Id> = needed.into_iter().collect();
                        set.retain(|id, _| needed.contains(id));
                        best.insert(*class, (set, cost));
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
    fn union(&self, best: &BTreeMap<Id, (Selection, Cost)>, node: &Node, class: Id) -> Option<Selection> {
        let mut union = Selection::new();
        for child in &node.children {
            let (set, _) = best.get(child)?;
            if set.contains_key(&class) {
                return None;
            }
            for (id, at) in set {
                union.entry(*id).or_insert(*at);
            }
        }
        Some(union)
    }

    /// The cheapest selection found for the roots, and whether it is cheaper than a given one.
    pub(super) fn extract(&self, roots: &[Id], given: &Selection) -> Result<(Selection, bool)> {
        let best = self.sets();
        let mut joined = Selection::new();
        for root in roots {
            if let Some((set, _)) = best.get(root) {
                for (id, at) in set {
                    joined.entry(*id).or_insert(*at);
                }
            }
        }
        let given_total = self.total(given, roots);
        let result = match (self.total(&joined, roots), given_total.clone()) {
            (Some(a), Some(b)) if b.compare(&a) != Ordering::Greater => (given.clone(), b),
            (Some(a), _) => (joined, a),
            (None, Some(b)) => (given.clone(), b),
            (None, None) => return Err(Error::bug("simplify", "no program can be taken out of the e-graph")),
        };
        let allowed = MAX_EXCHANGES.min(EXCHANGED_CLASSES / (1 + result.0.len()));
        let mut exchange =
            Exchange { table: self, roots, best: &best, selection: result.0, total: result.1, left: allowed };
        while exchange.nodes() | exchange.shared() | exchange.unshared() {}
        let cheaper = given_total.is_none_or(|given| exchange.total.compare(&given) == Ordering::Less);
        let mut result = exchange.selection;
        let needed: BTreeSet<Id> = self.order(&result, roots).unwrap_or_default().into_iter().collect();
        result.retain(|id, _| needed.contains(id));
        Ok((result, cheaper))
    }

    /// Adds nodes for the children that a selection lacks.
    fn complete(&self, selection: &mut Selection, best: &BTreeMap<Id, (Selection, Cost)>, class: Id) {
        let Some(node) = self.node(selection, class).cloned() else { return };
        for child in &node.children {
            if let Some((set, _)) = best.get(child) {
                for (id, at) in set {
                    selection.entry(*id).or_insert(*at);
                }
            }
        }
    }

    /// The selection of given nodes.
    pub(super) fn selection(&self, nodes: &[(Id, Node)]) -> Selection {
        nodes.iter().filter_map(|(class, node)| Some((*class, self.place(*class, node)?))).collect()
    }
}

/// Step 2.
struct Exchange<'t> {
    table: &'t Table,
    roots: &'t [Id],
    best: &'t BTreeMap<Id, (Selection, Cost)>,
    selection: Selection,
    total: Cost,
    left: usize,
}

impl Exchange<'_> {
    /// Takes other nodes for some classes, if that makes the result cheaper.
    fn attempt(&mut self, nodes: &[(Id, usize)]) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        let mut tried = self.selection.clone();
        tried.extend(nodes.iter().copied());
        for (class, _) in nodes {
            self.table.complete(&mut tried, self.best, *class);
        }
        match self.table.total(&tried, self.roots) {
            Some(total) if total.compare(&self.total) == Ordering::Less => {
                (self.selection, self.total) = (tried, total);
                true
            }
            _ => false,
        }
    }

    /// Each other node of each class of the result.
    fn nodes(&mut self) -> bool {
        let mut improved = false;
        for class in self.table.order(&self.selection, self.roots).unwrap_or_default() {
            for at in 0..self.table.classes.get(&class).map_or(0, Vec::len) {
                improved |= self.selection.get(&class) != Some(&at) && self.attempt(&[(class, at)]);
            }
        }
        improved
    }

    /// Each class outside of the result, for all that can read it.
    fn shared(&mut self) -> bool {
        let inside = self.table.order(&self.selection, self.roots).unwrap_or_default();
        let known: BTreeSet<Id> = inside.iter().copied().collect();
        let mut readers: BTreeMap<Id, Vec<(Id, usize)>> = BTreeMap::new();
        for class in &inside {
            for (at, (node, _)) in self.table.classes.get(class).into_iter().flatten().enumerate() {
                let mut outside = node.children.iter().filter(|child| !known.contains(child));
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
        let inside = self.table.order(&self.selection, self.roots).unwrap_or_default();
        let mut improved = false;
        for class in &inside {
            let reads = |node: &Node| node.children.contains(class);
            let readers = inside.iter().filter(|id| self.table.node(&self.selection, **id).is_some_and(reads));
            let without = readers.map(|reader| {
                let nodes = self.table.classes.get(reader)?.iter().enumerate().filter(|(_, (node, _))| !reads(node));
                let (at, _) = nodes.min_by(|(_, (_, a)), (_, (_, b))| a.compare(b))?;
                Some((*reader, at))
            });
            if let Some(nodes) = without.collect::<Option<Vec<_>>>() {
                improved |= nodes.len() > 1 && self.attempt(&nodes);
            }
        }
        improved
    }
}
