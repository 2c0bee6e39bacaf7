//! Equality saturation with counted budgets.
//!
//! Each round looks at every node once, in the order of the classes. A node is looked at again only when its children have changed. For
//! each node
//!
//! 1. its expression is brought to normal form again, since children may have become views or literals;
//! 2. every rule of the e-graph is applied, in all ways that match, and results that are new join the class.
//!
//! Budgets are counts: nodes, rounds, results of rules, and units of [`work`]. They are checked before each result is added, or each node is
//! looked at, so they are overshot by at most what one of them takes. Nothing depends on clocks, addresses or hash order.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use egg::{Id, Language};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

use super::Budget;
use super::expr::Expr;
use super::graph::Graph;
use super::lang::{Head, Node};
use super::matching::{Subject, matches};
use super::rewrite::{Rules, results};
use super::rule::{Mode, Rule};
use crate::base::work;
use crate::error::Result;
use crate::index::Affine;

/// Why saturation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// No rule had anything to add.
    Saturated,
    /// The budget of nodes was used up.
    Nodes,
    /// The budget of rounds was used up.
    Rounds,
    /// The budget of matches was used up.
    Matches,
    /// The budget of [`work`] was used up.
    Work,
}

/// A rewriting that was made: `before` and `after` are equal elements of the class.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) rules: Vec<String>,
    /// The node that `before` is, perhaps after other steps, and the node that `after` became.
    pub(super) ends: [Node; 2],
    pub(super) before: Expr,
    pub(super) after: Expr,
}

/// How saturation went.
pub(super) struct Saturation {
    pub(super) rounds: usize,
    pub(super) matches: usize,
    pub(super) stop: Stop,
    pub(super) applied: BTreeMap<String, usize>,
    pub(super) steps: Vec<Step>,
}

struct Engine<'e, 'a, 'r> {
    graph: &'e mut Graph<'a>,
    rules: &'e Rules<'r>,
    budget: Budget,
    /// What a node looked like, children included, when it was last looked at.
    seen: FxHashMap<Node, u64>,
    retired: FxHashSet<Node>,
    /// What rules have made of each class.
    known: FxHashSet<(Id, Expr)>,
    record: bool,
    state: Saturation,
}

/// Applies rules until nothing changes or a budget is used up.
pub(super) fn saturate(graph: &mut Graph<'_>, rules: &Rules<'_>, budget: Budget, record: bool) -> Result<Saturation> {
    let state =
        Saturation { rounds: 0, matches: 0, stop: Stop::Saturated, applied: BTreeMap::new(), steps: Vec::new() };
    let (seen, retired, known) = (FxHashMap::default(), FxHashSet::default(), FxHashSet::default());
    let mut engine = Engine { graph, rules, budget, seen, retired, known, record, state };
    engine.graph.rebuild();
    engine.graph.records = record;
    while engine.round()? {}
    engine.graph.rebuild();
    Ok(engine.state)
}

impl<'r> Engine<'_, '_, 'r> {
    /// One round; whether there should be another.
    fn round(&mut self) -> Result<bool> {
        if self.state.rounds >= self.budget.rounds {
            self.state.stop = Stop::Rounds;
            return Ok(false);
        }
        self.state.rounds += 1;
        let mut work: Vec<(Id, Node)> = Vec::new();
        let mut classes: Vec<Id> = self.graph.egraph.classes().map(|class| class.id).collect();
        classes.sort();
        for class in classes {
            work.extend(self.graph.egraph[class].nodes.iter().map(|node| (class, node.clone())));
        }
        let mut changed = false;
        for (class, node) in work {
            let stamp = self.stamp(&node);
            if self.retired.contains(&node) || self.seen.get(&node) == Some(&stamp) {
                continue;
            }
            if work::is_used_up() {
                self.state.stop = Stop::Work;
                return Ok(false);
            }
            self.seen.insert(node.clone(), stamp);
            changed |= self.visit(class, &node)?;
            if self.state.stop != Stop::Saturated {
                return Ok(false);
            }
        }
        let congruent = self.graph.rebuild();
        Ok(changed || congruent > 0)
    }

    /// What the result of matching may depend on: the children of the node. (Changes further below are not waited for.)
    fn stamp(&self, node: &Node) -> u64 {
        let mut hasher = FxHasher::default();
        for child in node.children() {
            let class = &self.graph.egraph[*child];
            (class.nodes.len(), &class.data.view, &class.data.exchanges).hash(&mut hasher);
        }
        hasher.finish()
    }

    fn visit(&mut self, class: Id, node: &Node) -> Result<bool> {
        let class = self.graph.egraph.find(class);
        let scope = self.graph.slots(class);
        let at = Affine::indices(&scope);
        let cyclic = node.children.iter().any(|child| self.graph.egraph.find(*child) == class);
        if cyclic || matches!(*node.head, Head::Input { .. }) {
            return Ok(false);
        }
        let opened = self.graph.open(node, &at)?;
        let mut used = Vec::new();
        let mut changed = false;
        let e = self.rules.normalise(self.graph, &scope, &opened, &mut used)?;
        if e != opened {
            let names = used.iter().map(|name| (*name).to_owned()).collect();
            changed |= self.add(class, names, &opened, &e, node)?;
        }
        // What comes of the normal form leads on from there.
        let node = &self.graph.closed.take().filter(|_| e != opened).unwrap_or_else(|| node.clone());
        let mut subject = Subject::new(&e, true);
        work::charge(self.rules.graph.len());
        for group in &self.rules.graph {
            if !group.goal.is_plausible(&subject) {
                continue;
            }
            let mut ways = matches(self.graph, &group.goal, &subject)?;
            if ways.is_empty() {
                continue;
            }
            for rule in &group.rules {
                for result in results(self.graph, rule, &scope, &e, &mut ways)? {
                    let matches = self.state.matches;
                    changed |= self.result(class, rule, &e, &result, node)?;
                    if self.state.matches != matches {
                        subject = Subject::new(&e, true);
                    }
                    if rule.mode == Mode::Reduce {
                        self.retired.insert(node.clone());
                        return Ok(changed);
                    }
                    if self.state.stop != Stop::Saturated {
                        return Ok(changed);
                    }
                }
            }
        }
        Ok(changed)
    }

    /// What a rule made of an element of a class joins it, if it is new.
    fn result(&mut self, class: Id, rule: &'r Rule, before: &Expr, result: &Expr, from: &Node) -> Result<bool> {
        let known = (self.graph.egraph.find(class), result.canonical()?);
        if !self.known.insert(known) {
            return Ok(false);
        }
        self.state.matches += 1;
        if self.state.matches >= self.budget.matches {
            self.state.stop = Stop::Matches;
        }
        let scope = self.graph.slots(class);
        let mut used = vec![rule.name.as_str()];
        let after = self.rules.normalise(self.graph, &scope, result, &mut used)?;
        let names = used.iter().map(|name| (*name).to_owned()).collect();
        self.add(class, names, before, &after, from)
    }

    /// Adds an equal expression to a class.
    fn add(&mut self, class: Id, rules: Vec<String>, before: &Expr, after: &Expr, from: &Node) -> Result<bool> {
        self.graph.closed = None;
        let size = self.graph.egraph.total_number_of_nodes();
        if size >= self.budget.nodes {
            self.state.stop = Stop::Nodes;
            return Ok(false);
        }
        let scope = self.graph.slots(class);
        let result = self.graph.close_over(&scope, after)?;
        // Two classes that stand already are read by others, who may have either for the other then.
        let is_new = self.graph.egraph.total_number_of_nodes() > size;
        if !is_new && self.graph.masks_more(&scope, before, after)? {
            return Ok(false);
        }
        if self.record {
            self.graph.closed = self.graph.closed_node(result);
        }
        let united = self.graph.unite(class, result);
        if united || is_new {
            for rule in &rules {
                *self.state.applied.entry(rule.clone()).or_default() += 1;
            }
            if let Some(to) = &self.graph.closed {
                let ends = [from.clone(), to.clone()];
                self.state.steps.push(Step { rules, ends, before: before.clone(), after: after.clone() });
            }
        }
        Ok(united)
    }
}
