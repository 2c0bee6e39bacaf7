//! What is shared in a graph, where its `let` stands, and under which guard; see the [parent module](super).

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::graph::{BoundId, Graph, Kind, Node, NodeId, Sort};
use super::{MAX_DEPTH, MAX_GUARD, MAX_STEPS, MAX_USES};
use crate::error::{Error, Result};
use crate::surface::MAX_EXPRS;
use crate::surface::ast::BinderKind;

/// What holds at some uses; small.
#[derive(Debug, PartialEq)]
pub(super) enum Formula {
    Guard(NodeId),
    NotGuard(NodeId),
    /// `0 < extent`
    NotEmpty(NodeId),
    And(Rc<Fact>, Rc<Fact>),
    Or(Rc<Fact>, Rc<Fact>),
    Exists(BoundId, NodeId, Rc<Fact>),
}

#[derive(Debug, PartialEq)]
pub(super) struct Fact {
    pub(super) formula: Formula,
    /// The nodes it takes to write.
    pub(super) size: usize,
    depth: usize,
    /// What has to be bound around the place where it is written.
    reads: Vec<Read>,
}

/// What a fact reads, by local numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Read {
    /// A value with a `let` of its own.
    Value(usize),
    /// The variable or state that this node binds.
    Variable(usize),
}

/// What must hold for a node, given that the dominator it is seen from is needed. Nothing is *true*.
type Condition = Option<Rc<Fact>>;

/// How a user needs an operand.
#[derive(Clone, Debug)]
enum Step {
    Always,
    Under(Rc<Fact>),
    InRange(BoundId, NodeId),
}

/// The reachable part of the graph with what is known of each node; nodes are numbered in their order, the root is the last.
pub(super) struct Sharing<'g> {
    graph: &'g Graph,
    /// The local nodes.
    pub(super) nodes: Vec<NodeId>,
    pub(super) local: FxHashMap<NodeId, usize>,
    /// Which nodes bind variables and states.
    binders: FxHashMap<BoundId, usize>,
    /// The immediate dominator, the root's is itself.
    dominator: Vec<usize>,
    depth: Vec<u32>,
    /// An ancestor far up in the tree of dominators.
    jump: Vec<usize>,
    /// Where a `let` of the node would stand.
    pub(super) site: Vec<usize>,
    pub(super) bound: Vec<bool>,
    /// For each node what it takes to need it, seen from its dominator.
    steps: Vec<Step>,
    /// The lowest node, from the node upwards, whose step is not [`Step::Always`]; the root if there is none.
    next_step: Vec<usize>,
}

impl<'g> Sharing<'g> {
    /// Finds out what is to be bound, and where. An error if the tree would be too large.
    pub(super) fn new(graph: &'g Graph, root: NodeId) -> Result<Self> {
        let nodes = reachable(graph, root);
        let n = nodes.len();
        let local: FxHashMap<NodeId, usize> = nodes.iter().enumerate().map(|(k, node)| (*node, k)).collect();
        let binds = |(k, id): (usize, &NodeId)| match graph.nodes[*id as usize].kind {
            Kind::Let(bound) | Kind::Scan { state: bound, .. } => Some((bound, k)),
            _ => None,
        };
        let binders = nodes.iter().enumerate().filter_map(binds).collect();
        let mut sharing = Sharing {
            graph,
            nodes,
            local,
            binders,
            dominator: vec![usize::MAX; n],
            depth: vec![0; n],
            jump: vec![n - 1; n],
            site: vec![n - 1; n],
            bound: vec![false; n],
            steps: vec![Step::Always; n],
            next_step: vec![n - 1; n],
        };
        sharing.find_dominators();
        sharing.find_bound()?;
        sharing.find_steps();
        Ok(sharing)
    }

    fn node(&self, k: usize) -> &'g Node {
        &self.graph.nodes[self.nodes[k] as usize]
    }

    fn operands(&self, k: usize) -> impl DoubleEndedIterator<Item = usize> + use<'g, '_> {
        self.node(k).operands.iter().map(|operand| self.local[operand])
    }

    fn root(&self) -> usize {
        self.nodes.len() - 1
    }

    /// Users come before operands, so a node's users all have their place in the tree of dominators when its own is found: it is
    /// their lowest common ancestor.
    fn find_dominators(&mut self) {
        let root = self.root();
        self.dominator[root] = root;
        for k in (0..=root).rev() {
            if k != root {
                let up = self.dominator[k];
                self.depth[k] = self.depth[up] + 1;
                // Skew-binary jumps: as long as the two jumps above together, where these are equally long.
                let (a, b) = (self.jump[up], self.jump[self.jump[up]]);
                let equal = self.depth[up] - self.depth[a] == self.depth[a] - self.depth[b];
                self.jump[k] = if equal { b } else { up };
            }
            let node = self.node(k);
            for operand in &node.operands {
                let x = self.local[operand];
                self.dominator[x] = if self.dominator[x] == usize::MAX { k } else { self.common(self.dominator[x], k) };
            }
        }
    }

    /// The lowest common ancestor in the tree of dominators.
    fn common(&self, mut a: usize, mut b: usize) -> usize {
        if self.depth[a] < self.depth[b] {
            std::mem::swap(&mut a, &mut b);
        }
        while self.depth[a] > self.depth[b] {
            a = if self.depth[self.jump[a]] >= self.depth[b] { self.jump[a] } else { self.dominator[a] };
        }
        while a != b {
            // Equal depths have equally long jumps.
            (a, b) = if self.jump[a] == self.jump[b] {
                (self.dominator[a], self.dominator[b])
            } else {
                (self.jump[a], self.jump[b])
            };
        }
        a
    }

    /// A node is bound if it would otherwise stand in the tree more often than the place of its `let`.
    fn find_bound(&mut self) -> Result<()> {
        let root = self.root();
        let n = self.nodes.len();
        // The lowest node from here upwards that is written once, and whether an `exists` is on the way.
        let mut solid = vec![root; n];
        let mut in_exists = vec![false; n];
        let mut uses = vec![0u64; n];
        let mut written = vec![0u64; n];
        let mut total = 0u64;
        uses[root] = 1;
        for k in (0..n).rev() {
            let node = self.node(k);
            let up = self.dominator[k];
            let is_solid = !node.repeated || k == root;
            if k != root {
                self.site[k] = solid[up];
            }
            let site = self.site[k];
            let crosses = k != root && in_exists[up];
            self.bound[k] = is_solid && k != root && !crosses && uses[k] > written[site];
            written[k] = if self.bound[k] { written[site] } else { uses[k] };
            total = total.saturating_add(written[k]).saturating_add(if self.bound[k] { uses[k] } else { 0 });
            solid[k] = if is_solid { k } else { site };
            in_exists[k] = !is_solid && (crosses || matches!(node.kind, Kind::Binder(BinderKind::Exists, _)));
            for operand in self.operands(k).collect::<Vec<_>>() {
                uses[operand] = uses[operand].saturating_add(written[k]);
            }
        }
        check_size(total)
    }

    fn fact(&self, formula: Formula, reads: Vec<Read>, size: usize, depth: usize) -> Condition {
        (size <= MAX_GUARD && depth <= MAX_DEPTH).then(|| Rc::new(Fact { formula, size, depth, reads }))
    }

    /// A predicate of the program as a fact; *true* if it is large.
    fn guard(&self, guard: NodeId, holds: bool) -> Condition {
        let mut reads = Vec::new();
        let mut size = 1 + usize::from(!holds);
        let mut pending = vec![guard];
        while let Some(id) = pending.pop() {
            size += 1;
            let k = *self.local.get(&id)?;
            if size > MAX_GUARD / 4 {
                return None;
            }
            let node = self.node(k);
            match node.kind {
                _ if !node.repeated => reads.push(Read::Value(k)),
                Kind::Bound(bound) => match self.binders.get(&bound) {
                    Some(binder) => reads.push(Read::Variable(*binder)),
                    None if node.sort == Sort::Real => return None,
                    None => {}
                },
                _ => pending.extend(&node.operands),
            }
        }
        self.fact(if holds { Formula::Guard(guard) } else { Formula::NotGuard(guard) }, reads, size, 1)
    }

    fn and(&self, a: Condition, b: Condition) -> Condition {
        match (a, b) {
            (None, other) | (other, None) => other,
            (Some(a), Some(b)) if a == b => Some(a),
            (Some(a), Some(b)) => {
                let reads = a.reads.iter().chain(&b.reads).copied().collect();
                let (size, depth) = (a.size + b.size + 1, a.depth.max(b.depth) + 1);
                // Too large a conjunction is over-approximated by its inner part.
                self.fact(Formula::And(a, b.clone()), reads, size, depth).or(Some(b))
            }
        }
    }

    /// The condition seen from above a step, given the condition below it.
    fn through(&self, step: &Step, below: Condition) -> Condition {
        match step {
            Step::Always => below,
            Step::Under(fact) => self.and(Some(fact.clone()), below),
            // Where the end is out of scope nothing is known of the range.
            Step::InRange(_, extent) if self.mentions_variable(*extent) => None,
            Step::InRange(bound, extent) => match below {
                None => self.fact(Formula::NotEmpty(*extent), vec![], 3, 1),
                Some(fact) => {
                    let (size, depth, reads) = (fact.size + 2, fact.depth + 1, fact.reads.clone());
                    self.fact(Formula::Exists(*bound, *extent, fact), reads, size, depth)
                }
            },
        }
    }

    /// Whether an index expression mentions an index that a `let` binds, as the number of steps of an `unfold` is.
    fn mentions_variable(&self, index: NodeId) -> bool {
        let mut pending = vec![index];
        while let Some(id) = pending.pop() {
            let node = &self.graph.nodes[id as usize];
            match node.kind {
                Kind::Bound(bound) if self.binders.contains_key(&bound) => return true,
                _ => pending.extend(&node.operands),
            }
        }
        false
    }

    /// Whether a fact can be written where node `k` would be bound: all it reads is bound around that place.
    fn writable(&self, fact: &Fact, k: usize) -> bool {
        let inner = self.site[k];
        fact.reads.iter().all(|read| match *read {
            Read::Value(x) => {
                let outer = self.site[x];
                self.bound[x] && if outer == inner { x < k } else { self.common(outer, inner) == outer }
            }
            // What stands around the binder is out of its scope.
            Read::Variable(binder) => binder != inner && self.common(binder, inner) == binder,
        })
    }

    fn writable_step(&self, step: Step, k: usize) -> Step {
        match step {
            Step::Under(fact) if !self.writable(&fact, k) => Step::Always,
            step => step,
        }
    }

    /// What an operand needs of its user.
    fn step(&self, user: usize, position: usize) -> Step {
        let node = self.node(user);
        let under = |fact: Condition| fact.map_or(Step::Always, Step::Under);
        match (&node.kind, position) {
            (Kind::Iverson, 1) => under(self.guard(node.operands[0], true)),
            (Kind::Call(callee), 1) if callee == "select" => under(self.guard(node.operands[0], true)),
            (Kind::Call(callee), 2) if callee == "select" => under(self.guard(node.operands[0], false)),
            (Kind::Binder(_, bound), 1) | (Kind::Scan { index: bound, .. }, 2) => {
                let extent = node.operands[0];
                match &self.graph.nodes[extent as usize].kind {
                    Kind::Number { integer: Some(1..), .. } => Step::Always,
                    _ => Step::InRange(*bound, extent),
                }
            }
            _ => Step::Always,
        }
    }

    /// A condition at the node `from`, seen from its dominator `top`, as far as it can be written where `k` is bound; *true* if the
    /// way is long.
    fn seen_from(&self, top: usize, from: usize, mut below: Condition, k: usize) -> Condition {
        let mut at = from;
        for _ in 0..MAX_STEPS {
            at = self.next_step[at];
            if self.depth[at] <= self.depth[top] {
                return below;
            }
            below = self.through(&self.writable_step(self.steps[at].clone(), k), below);
            at = self.dominator[at];
        }
        None
    }

    /// One use makes one step. Several uses make the union of the conditions of each, seen from the dominator.
    fn find_steps(&mut self) {
        let root = self.root();
        let mut users: Vec<Vec<(usize, usize)>> = vec![Vec::new(); self.nodes.len()];
        for k in 0..=root {
            for (position, operand) in self.operands(k).enumerate() {
                users[operand].push((k, position));
            }
        }
        for k in (0..root).rev() {
            let step = match users[k].as_slice() {
                [(user, position)] => self.step(*user, *position),
                several => self.union(k, several).map_or(Step::Always, Step::Under),
            };
            self.next_step[k] = if matches!(step, Step::Always) { self.next_step[self.dominator[k]] } else { k };
            self.steps[k] = step;
        }
    }

    fn union(&self, k: usize, users: &[(usize, usize)]) -> Condition {
        let top = self.dominator[k];
        let mut disjuncts: Vec<Rc<Fact>> = Vec::new();
        for (user, position) in users {
            let own = self.through(&self.writable_step(self.step(*user, *position), k), None);
            // A use that may always happen ends the search.
            let fact = self.seen_from(top, *user, own, k)?;
            if !disjuncts.contains(&fact) {
                disjuncts.push(fact);
            }
            if disjuncts.len() > MAX_USES {
                return None;
            }
        }
        let mut disjuncts = disjuncts.into_iter();
        let first = disjuncts.next()?;
        disjuncts.try_fold(first, |a, b| {
            let reads = a.reads.iter().chain(&b.reads).copied().collect();
            let (size, depth) = (a.size + b.size + 1, a.depth.max(b.depth) + 1);
            self.fact(Formula::Or(a, b), reads, size, depth)
        })
    }

    /// Under which guard the value of a bound node stands at its `let`.
    pub(super) fn wrapper(&self, k: usize) -> Condition {
        let own = self.through(&self.writable_step(self.steps[k].clone(), k), None);
        self.seen_from(self.site[k], self.dominator[k], own, k)
    }
}

pub(super) fn check_size(total: u64) -> Result<()> {
    if total > MAX_EXPRS as u64 {
        return Err(Error::Limit { what: "expressions", limit: MAX_EXPRS as u64, found: total });
    }
    Ok(())
}

/// The nodes below and including the root, operands first.
fn reachable(graph: &Graph, root: NodeId) -> Vec<NodeId> {
    let mut seen = FxHashSet::default();
    let mut pending = vec![root];
    seen.insert(root);
    while let Some(id) = pending.pop() {
        pending.extend(graph.nodes[id as usize].operands.iter().filter(|operand| seen.insert(**operand)));
    }
    let mut nodes: Vec<NodeId> = seen.into_iter().collect();
    nodes.sort_unstable();
    nodes
}
