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
use std::ops::Range;

use egg::{Id, Language};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::cost::{Cost, Costs, Model, Sum};
use super::graph::Graph;
use super::lang::{Head, Node};
use crate::base::work;
use crate::error::{Error, Result};

/// How many sweeps of step 1, how many exchanges of step 2.
const MAX_SWEEPS: usize = 12;
/// An exchange looks at the whole result, so there are fewer for larger ones.
const MAX_EXCHANGES: usize = 4000;
const EXCHANGED_CLASSES: usize = 100_000;

/// A class, by its place among all.
type Place = usize;

/// A node for each class that the roots need.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Selection(Vec<Option<u32>>);

impl Selection {
    fn get(&self, class: Place) -> Option<usize> {
        self.0.get(class).copied().flatten().map(|node| node as usize)
    }

    fn set(&mut self, class: Place, node: usize) {
        if let Some(slot) = self.0.get_mut(class) {
            *slot = u32::try_from(node).ok();
        }
    }

    /// Takes over nodes for classes that have none.
    fn join(&mut self, way: &[(Place, usize)]) {
        for (class, node) in way {
            if self.get(*class).is_none() {
                self.set(*class, *node);
            }
        }
    }

    /// The nodes of some classes that have one, in the order of the classes.
    fn of(&self, mut classes: Vec<Place>) -> Vec<(Place, usize)> {
        classes.sort_unstable();
        classes.into_iter().filter_map(|class| Some((class, self.get(class)?))).collect()
    }
}

/// A node of a class.
struct Entry {
    node: Node,
    cost: Cost,
    children: SmallVec<[Place; 4]>,
    /// What is used more than once needs a name, unless it has one.
    is_input: bool,
}

/// The e-graph as the extraction sees it, with canonical nodes.
pub(super) struct Table {
    places: BTreeMap<Id, Place>,
    ids: Vec<Id>,
    /// The nodes, class by class.
    entries: Vec<Entry>,
    /// Where the nodes of each class begin, and where those of the last one end.
    starts: Vec<usize>,
    costs: Costs,
}

/// The state of a class while those that roots reach are looked for.
#[derive(Clone, Copy, PartialEq)]
enum State {
    New,
    OnPath,
    Done,
}

/// The cheapest way found for a class.
struct Best {
    /// A node for each class that is needed, in the order of the classes.
    way: Vec<(Place, usize)>,
    cost: Cost,
    sum: Sum,
    /// The sweep in which it was found.
    sweep: usize,
}

impl Table {
    /// Without a model, nodes cost nothing.
    pub(super) fn new(graph: &Graph<'_>, model: Option<&Model<'_>>) -> Self {
        let mut ids: Vec<Id> = graph.egraph.classes().map(|class| graph.egraph.find(class.id)).collect();
        ids.sort();
        let places: BTreeMap<Id, Place> = ids.iter().copied().zip(0..).collect();
        let (mut entries, mut starts) = (Vec::new(), vec![0]);
        let full = model.and_then(Model::full);
        for id in &ids {
            entries.extend(graph.egraph[*id].nodes.iter().map(|node| {
                let node = node.clone().map_children(|id| graph.egraph.find(id));
                let children = node.children.iter().filter_map(|id| places.get(id).copied()).collect();
                let is_input = matches!(*node.head, Head::Input { .. });
                Entry {
                    cost: model.map_or_else(Cost::zero, |model| model.node(&node, full.as_ref())),
                    children,
                    is_input,
                    node,
                }
            }));
            starts.push(entries.len());
        }
        let costs = Costs::new(entries.iter().map(|entry| &entry.cost));
        Table { places, ids, entries, starts, costs }
    }

    /// The places of the nodes of a class.
    fn nodes(&self, class: Place) -> Range<usize> {
        match self.starts.get(class..class + 2) {
            Some([start, end]) => *start..*end,
            _ => 0..0,
        }
    }

    /// The node that a selection takes for a class.
    pub(super) fn node(&self, selection: &Selection, class: Id) -> Option<&Node> {
        Some(&self.entry(selection, *self.places.get(&class)?)?.node)
    }

    fn entry(&self, selection: &Selection, class: Place) -> Option<&Entry> {
        self.entries.get(selection.get(class)?)
    }

    /// No node of any class.
    pub(super) fn nothing(&self) -> Selection {
        Selection(vec![None; self.ids.len()])
    }

    /// The selection of given nodes.
    pub(super) fn selection(&self, nodes: &[(Id, Node)]) -> Selection {
        let mut selection = self.nothing();
        for (id, node) in nodes {
            let Some(class) = self.places.get(id) else { continue };
            if let Some(at) = self.nodes(*class).find(|at| self.entries[*at].node == *node) {
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
        self.reach(selection, roots, |_| {})
    }

    /// The classes that the roots reach, operands first. Each node is shown when those of its children have been.
    fn reach(&self, selection: &Selection, roots: &[Place], mut show: impl FnMut(usize)) -> Option<Vec<Place>> {
        work::charge(1 + self.ids.len() / 8);
        let mut states = vec![State::New; self.ids.len()];
        let mut order = Vec::with_capacity(self.ids.len());
        // The classes on the path, with the nodes taken for them and how many of the children have been seen.
        let mut path: Vec<(Place, usize, usize)> = Vec::with_capacity(self.ids.len());
        for root in roots {
            if states[*root] == State::New {
                states[*root] = State::OnPath;
                path.push((*root, selection.get(*root)?, 0));
            }
            while let Some((class, node, seen)) = path.last_mut() {
                let Some(child) = self.entries.get(*node)?.children.get(*seen) else {
                    states[*class] = State::Done;
                    work::charge(2 + self.entries[*node].children.len());
                    order.push(*class);
                    show(*node);
                    path.pop();
                    continue;
                };
                *seen += 1;
                match states[*child] {
                    State::Done => {}
                    State::OnPath => return None,
                    State::New => {
                        states[*child] = State::OnPath;
                        path.push((*child, selection.get(*child)?, 0));
                    }
                }
            }
        }
        Some(order)
    }

    /// The classes that the roots reach, and what they cost together.
    fn total(&self, selection: &Selection, roots: &[Place]) -> Option<(Vec<Place>, Cost)> {
        let (order, sum) = self.added(selection, roots)?;
        Some((order, sum.total()))
    }

    fn added(&self, selection: &Selection, roots: &[Place]) -> Option<(Vec<Place>, Sum)> {
        let mut total = self.costs.nothing();
        let mut uses = vec![0u8; self.ids.len()];
        let order = self.reach(selection, roots, |node| {
            total.add(self.costs.of(node));
            for child in &self.entries[node].children {
                uses[*child] = uses[*child].saturating_add(1);
                // What is used more than once needs a name.
                if uses[*child] == 2 && self.entry(selection, *child).is_some_and(|entry| !entry.is_input) {
                    total.add_names(1.0);
                }
            }
        })?;
        Some((order, total))
    }

    /// How often each class is read by the nodes that the roots reach.
    fn uses(&self, selection: &Selection, roots: &[Place]) -> Vec<u32> {
        let mut uses = vec![0; self.ids.len()];
        // A cycle has no total, so nothing is compared with it.
        let _ = self.reach(selection, roots, |node| self.entries[node].children.iter().for_each(|x| uses[*x] += 1));
        uses
    }

    /// Step 1: a set for every class. A node is looked at again when there is a better way for one of its children.
    fn sets(&self) -> Vec<Option<Best>> {
        let mut best: Vec<Option<Best>> = self.ids.iter().map(|_| None).collect();
        for sweep in 1..=MAX_SWEEPS {
            let mut changed = false;
            for class in 0..self.ids.len() {
                if work::is_used_up() {
                    return best;
                }
                for (at, entry) in self.nodes(class).map(|at| (at, &self.entries[at])) {
                    let newest = entry.children.iter().filter_map(|child| Some(best[*child].as_ref()?.sweep)).max();
                    if sweep > 1 && newest.is_none_or(|newest| newest + 1 < sweep) {
                        continue;
                    }
                    // All that the first child needs is needed, in the way that was found for it.
                    if let (Some(known), Some(first)) = (&best[class], entry.children.first())
                        && let Some(way) = &best[*first]
                        && way.sum.plus(self.costs.of(at)).is_no_lower(&known.cost)
                    {
                        continue;
                    }
                    let Some(mut set) = self.union(&best, entry, class) else { continue };
                    set.set(class, at);
                    let Some((needed, sum)) = self.added(&set, &[class]) else { continue };
                    let cost = sum.total();
                    if best[class].as_ref().is_none_or(|old| cost.compare(&old.cost) == Ordering::Less) {
                        best[class] = Some(Best { way: set.of(needed), cost, sum, sweep });
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
        work::charge(2 + self.ids.len() / 8);
        let mut union = self.nothing();
        for child in &entry.children {
            let way = &best[*child].as_ref()?.way;
            work::charge(way.len());
            union.join(way);
        }
        union.get(class).is_none().then_some(union)
    }

    /// The cheapest selection found for the roots, and whether it is cheaper than a given one; nothing where the budget of [`work`] ended before
    /// there was any. (The given one may go in circles, since classes are united.)
    pub(super) fn extract(&self, roots: &[Id], given: &Selection) -> Result<Option<(Selection, bool)>> {
        let nothing = || Error::bug("simplify", "no program can be taken out of the e-graph");
        let roots = self.places_of(roots).ok_or_else(nothing)?;
        let best = self.sets();
        let mut joined = self.nothing();
        for root in &roots {
            if let Some(found) = &best[*root] {
                joined.join(&found.way);
            }
        }
        let given_total = self.total(given, &roots).map(|(_, cost)| cost);
        let (selection, total) = match (self.total(&joined, &roots), given_total.clone()) {
            (Some((_, a)), Some(b)) if b.compare(&a) != Ordering::Greater => (given.clone(), b),
            (Some((_, a)), _) => (joined, a),
            (None, Some(b)) => (given.clone(), b),
            (None, None) if work::is_used_up() => return Ok(None),
            (None, None) => return Err(nothing()),
        };
        let classes = selection.0.iter().flatten().count();
        let left = MAX_EXCHANGES.min(EXCHANGED_CLASSES / (1 + classes));
        let (uses, failed) = (self.uses(&selection, &roots), FxHashSet::default());
        let mut exchange = Exchange { table: self, roots: &roots, best: &best, selection, total, uses, left, failed };
        while exchange.nodes() | exchange.shared() | exchange.unshared() {}
        let cheaper = given_total.is_none_or(|given| exchange.total.compare(&given) == Ordering::Less);
        let needed = exchange.selection.of(self.reached(&exchange.selection, &roots).unwrap_or_default());
        let mut selection = self.nothing();
        selection.join(&needed);
        Ok(Some((selection, cheaper)))
    }

    /// Adds nodes for the children that a selection lacks: the cheapest way to compute them from nothing, or, `nearby`, one node that reads
    /// what is there already, where that is cheaper. Whether there was such a node.
    fn complete(&self, selection: &mut Selection, best: &[Option<Best>], class: Place, nearby: bool) -> bool {
        let Some(entry) = self.entry(selection, class) else { return false };
        let mut found = false;
        for child in entry.children.iter().filter(|child| selection.get(**child).is_none()).copied().collect::<Vec<_>>()
        {
            let Some(best) = &best[child] else { continue };
            let node = if nearby { self.nearby(selection, &best.way, child) } else { None };
            if let Some(at) = node {
                selection.set(child, at);
                found = true;
            } else {
                selection.join(&best.way);
            }
        }
        found
    }

    /// A node of a class that reads what is selected, where that is cheaper than what a way to compute it adds.
    fn nearby(&self, selection: &Selection, way: &[(Place, usize)], class: Place) -> Option<usize> {
        let ready = |entry: &Entry| entry.children.iter().all(|child| selection.get(*child).is_some());
        let nodes = self.nodes(class).map(|at| (at, &self.entries[at])).filter(|(_, entry)| ready(entry));
        let (at, entry) = nodes.min_by(|(_, a), (_, b)| a.cost.compare(&b.cost))?;
        let mut added = self.costs.nothing();
        for (_, node) in way.iter().filter(|(class, _)| selection.get(*class).is_none()) {
            added.add(self.costs.of(*node));
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
    /// How often each class is read by the nodes of the result.
    uses: Vec<u32>,
    left: usize,
    /// What made the selection as it is no cheaper.
    failed: FxHashSet<Vec<(Place, usize)>>,
}

impl Exchange<'_> {
    /// Takes other nodes for some classes, if that makes the result cheaper.
    fn attempt(&mut self, nodes: &[(Place, usize)]) -> bool {
        let Some(left) = self.left.checked_sub(1).filter(|_| !work::is_used_up()) else { return false };
        work::charge(4 + self.uses.len() / 4);
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
            if let [(class, node)] = nodes
                && self.is_plainly_dearer(&tried, *class, *node)
            {
                debug_assert!(self.cheaper(&tried).is_none(), "what is plainly dearer is cheaper");
                continue;
            }
            if let Some(total) = self.cheaper(&tried) {
                self.uses = self.table.uses(&tried, self.roots);
                (self.selection, self.total) = (tried, total);
                self.failed.clear();
                return true;
            }
        }
        self.failed.insert(nodes.to_vec());
        false
    }

    /// What another selection costs, if that is less.
    fn cheaper(&self, tried: &Selection) -> Option<Cost> {
        let (_, total) = self.table.total(tried, self.roots)?;
        (total.compare(&self.total) == Ordering::Less).then_some(total)
    }

    /// Whether the result is no cheaper with another node for one class, as far as that is seen without adding it all up: by the nodes that
    /// are needed besides, and those that are needed no longer.
    fn is_plainly_dearer(&self, tried: &Selection, class: Place, node: usize) -> bool {
        let table = self.table;
        let (Some(old), mut uses) = (self.selection.get(class), self.uses.clone()) else { return false };
        let is_root = |x: Place| self.roots.contains(&x);
        if uses[class] == 0 && !is_root(class) {
            return true;
        }
        let named = |node: usize, uses: u32| uses >= 2 && !table.entries[node].is_input;
        let mut change = table.costs.nothing();
        let mut replace = |node: usize, factor: f64| {
            change.add_times(table.costs.of(node), factor);
            if named(node, self.uses[class]) {
                change.add_names(factor);
            }
        };
        replace(node, 1.0);
        replace(old, -1.0);
        let mut pending = table.entries[node].children.to_vec();
        while let Some(x) = pending.pop() {
            // What has no node has no total.
            let Some(node) = tried.get(x) else { return true };
            uses[x] += 1;
            if uses[x] == 2 && named(node, 2) {
                change.add_names(1.0);
            }
            if uses[x] == 1 && !is_root(x) {
                change.add_times(table.costs.of(node), 1.0);
                pending.extend(&table.entries[node].children);
            }
        }
        pending.extend(&table.entries[old].children);
        while let Some(x) = pending.pop() {
            let Some(node) = tried.get(x) else { return true };
            if uses[x] == 2 && named(node, 2) {
                change.add_names(-1.0);
            }
            let Some(left) = uses[x].checked_sub(1) else { return false };
            uses[x] = left;
            if left == 0 && !is_root(x) {
                change.add_times(table.costs.of(node), -1.0);
                pending.extend(&table.entries[node].children);
            }
        }
        change.raises(&self.total)
    }

    /// The classes of the result.
    fn inside(&self) -> Vec<Place> {
        self.table.reached(&self.selection, self.roots).unwrap_or_default()
    }

    /// Each other node of each class of the result.
    fn nodes(&mut self) -> bool {
        let mut improved = false;
        for class in self.inside() {
            for at in self.table.nodes(class) {
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
            for at in self.table.nodes(*class) {
                let mut outside = self.table.entries[at].children.iter().filter(|child| !known.contains(child));
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
                let entries = self.table.nodes(*reader).map(|at| (at, &self.table.entries[at]));
                let entries = entries.filter(|(_, entry)| !reads(entry));
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

#[cfg(test)]
mod tests {
    use egg::{CostFunction, Extractor};

    use super::*;
    use crate::driver::{Function, Mode, Request};
    use crate::simplify::graph::Answers;
    use crate::simplify::price::Pricing;
    use crate::simplify::{Options, rules_of, run, simplify};

    /// What a tree of nodes costs for sizes of 1000: a node that is read twice counts twice.
    struct Tree<'m>(&'m Model<'m>);

    impl CostFunction<Node> for Tree<'_> {
        type Cost = f64;

        fn cost<C: FnMut(Id) -> f64>(&mut self, node: &Node, mut costs: C) -> f64 {
            // Whatever is free in the model costs a little, so that no cycle of views is chosen.
            let own = 1e-3 + self.0.node(node, None).at(1000.0);
            node.fold(own, |sum, child| sum + costs(child))
        }
    }

    /// The programs of the tests with their gradients, or adjoints where there are several results.
    fn programs() -> Vec<(String, [crate::tssa::Program; 2])> {
        let mut files: Vec<_> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs"))
            .unwrap()
            .map(|file| file.unwrap().path())
            .collect();
        files.sort();
        let read = |file: std::path::PathBuf| {
            let primal = Function::parse(&std::fs::read_to_string(&file).unwrap()).unwrap();
            let names: Vec<String> = primal.tensor_ssa().signature.params.values().map(|p| p.name.clone()).collect();
            let wrt: Vec<&str> = names.iter().map(String::as_str).collect();
            let derive = |mode| primal.derive(&Request::new(mode, &wrt).raw());
            let derivative = derive(Mode::Gradient).or_else(|_| derive(Mode::Adjoint)).unwrap().function;
            (file.display().to_string(), [primal, derivative].map(|function| function.tensor_ssa().clone()))
        };
        files.into_iter().map(read).collect()
    }

    /// The operations that the model counts for the nodes of a simplified program are those of its statements. (Of what is stored, statements
    /// know more: a node does not see that all that reads it is a product with a literal.)
    #[test]
    fn nodes_take_the_operations_of_their_statements() {
        let options = Options::default();
        let rules = rules_of(options.tier).unwrap();
        let mut wrong = Vec::new();
        for (name, programs) in programs() {
            for program in programs {
                let program = simplify(&program, &options).unwrap().program;
                let (run, _) = run(&program, &options, false, &rules, Answers::default()).unwrap();
                if run.large || run.cheaper {
                    continue;
                }
                let roots: Vec<Id> = run.encoded.roots.iter().flatten().map(|id| run.graph.egraph.find(*id)).collect();
                let roots = run.table.places_of(&roots).unwrap();
                let (_, nodes) = run.table.total(&run.selection, &roots).unwrap();
                let statements = Pricing::new(&program.signature, &run.model).price(&program).unwrap();
                if nodes.compare_work(statements.growth()) != Ordering::Equal {
                    wrong.push(format!("{name}: {nodes:?} and {:?}\n{program}", statements.growth()));
                }
            }
        }
        assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
    }

    /// The extractor of `egg` chooses the cheapest tree, where shared work counts as often as it is read. None of its programs costs less, and
    /// some cost more. How many and by how much depends on the rules; the documentation of the pass says what is the least of both here.
    #[test]
    fn trees_cost_more_than_shared_programs() {
        let programs = programs();
        let (all, mut dearer, mut worst) = (programs.len(), 0, 1.0_f64);
        for (name, [_, derivative]) in programs {
            let (program, options) = (&derivative, Options::default());
            let rules = rules_of(options.tier).unwrap();
            let (run, _) = run(program, &options, false, &rules, Answers::default()).unwrap();
            assert!(!run.large, "{name} is not searched");
            let extractor = Extractor::new(&run.graph.egraph, Tree(&run.model));
            let nodes: Vec<(Id, Node)> = run
                .graph
                .egraph
                .classes()
                .map(|class| {
                    let node = extractor.find_best_node(class.id).clone();
                    (run.graph.egraph.find(class.id), node.map_children(|id| run.graph.egraph.find(id)))
                })
                .collect();
            let roots: Vec<Id> = run.encoded.roots.iter().flatten().map(|id| run.graph.egraph.find(*id)).collect();
            let roots = run.table.places_of(&roots).unwrap();
            let cost = |selection: &Selection| run.table.total(selection, &roots).unwrap().1;
            let (trees, own) = (cost(&run.table.selection(&nodes)), cost(&run.selection));
            assert_ne!(trees.compare(&own), Ordering::Less, "{name}");
            let ratio = trees.at(1000.0) / own.at(1000.0).max(1.0);
            dearer += usize::from(ratio > 1.0 + 1e-9);
            worst = worst.max(ratio);
        }
        println!("of {all} derivatives {dearer} cost more, at worst {worst:.2} times");
        assert!(5 * dearer >= all, "fewer than one in five");
        assert!(worst >= 1.25, "none by a quarter");
    }
}
