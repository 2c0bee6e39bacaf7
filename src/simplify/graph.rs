//! The e-graph, with opening and closing of its nodes.
//!
//! `close(e) = T[g]` adds the tensor `T = gen g. e` for the free indices `g` of `e`; `open` is its inverse. A subexpression that becomes a
//! class of its own takes along the conjuncts of the guards around it that its indices decide, and what its reads need to be in bounds:
//! `[p and q] * f(e)  ==  [p and q] * ([p] * f(e))`. So a class can be evaluated by itself, at every place of its box.
//!
//! | file | job |
//! |---|---|
//! | `close` | expressions to nodes |
//! | `definitions` | nodes to expressions, for looking at |
//! | `answers` | what is left of predicates given others |

mod answers;
mod close;
mod definitions;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use egg::{EGraph, Id};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

pub(super) use self::answers::Answers;
pub(super) use self::definitions::Definitions;
use self::definitions::OpenedClass;
use super::cost::Model;
use super::expr::{Expr, Read};
use super::lang::{Analysis, Data, Head, Node, open};
use super::rule::Tier;
use crate::base::{Id as _, IndexId, RelationId};
use crate::error::Result;
use crate::index::{Affine, Pred, RelationRef, Size};
use crate::solver::Facts;
use crate::tssa::exchanges::order;
use crate::ty::Signature;

/// Indices with their ranges, outermost first.
pub(super) type Scope = Vec<(IndexId, Size)>;

/// Fresh indices start here; slots and bound indices of nodes are far below.
pub(super) const FIRST_FRESH: u32 = 1 << 20;

pub(super) struct Graph<'a> {
    pub(super) model: Model<'a>,
    pub(super) egraph: EGraph<Node, Analysis>,
    pub(super) signature: &'a Signature,
    /// What holds of sizes.
    assumed: Facts,
    next: u32,
    /// How many classes were met, if each was met first after all those of lower numbers.
    pub(super) met: usize,
    /// How often nodes were added, or something was asked that depends on what nodes classes have.
    pub(super) consulted: u64,
    /// May come from the e-graph of another program of the same signature.
    pub(super) answers: Answers,
    /// What the reads of a class stand for.
    opened: FxHashMap<Id, OpenedClass>,
    /// Whether the nodes that expressions become are noted.
    pub(super) records: bool,
    /// The last node that an expression became.
    pub(super) closed: Option<Node>,
    /// Whether there are guards so far below a class, until classes are united.
    guards: FxHashMap<(Id, usize), bool>,
}

impl<'a> Graph<'a> {
    /// An empty e-graph, of what holds as far as a tier says.
    pub(super) fn new(signature: &'a Signature, hints: &BTreeMap<String, f64>, tier: Tier) -> Self {
        let model = Model::new(signature, hints);
        let assumed = signature.facts();
        let egraph = EGraph::new(Analysis { exchanges: tier >= Tier::SignedZero });
        let answers = Answers::default();
        let (opened, guards) = (FxHashMap::default(), FxHashMap::default());
        Graph {
            model,
            egraph,
            signature,
            assumed,
            next: FIRST_FRESH,
            met: 0,
            consulted: 0,
            answers,
            opened,
            records: false,
            closed: None,
            guards,
        }
    }

    pub(super) fn fresh(&mut self) -> IndexId {
        self.next += 1;
        IndexId(self.next)
    }

    /// What changes when an index is made, or nodes of classes are added or asked for.
    pub(super) fn state(&self) -> (u32, u64) {
        (self.next, self.consulted)
    }

    /// Whether an expression reads classes that need work, and whose places have no order.
    pub(super) fn reads_as_they_are(&self, e: &Expr) -> bool {
        match e {
            Expr::Number(_) | Expr::Index(_) => true,
            Expr::Read(read) => {
                let data = self.data(read.class);
                self.egraph.find(read.class) == read.class && data.view.is_none() && data.exchanges.is_empty()
            }
            Expr::Product(product) => product.factors.iter().all(|e| self.reads_as_they_are(e)),
            Expr::Sum(es) | Expr::Apply(_, es) => es.iter().all(|e| self.reads_as_they_are(e)),
        }
    }

    pub(super) fn data(&self, class: Id) -> &Data {
        &self.egraph[class].data
    }

    /// The slots of a class as indices.
    pub(super) fn slots(&self, class: Id) -> Scope {
        slots(&self.data(class).dims)
    }

    /// The elements of a node.
    pub(super) fn open(&mut self, node: &Node, indices: &[Affine]) -> Result<Expr> {
        let next = &mut self.next;
        Ok(open(node, indices, &mut || {
            *next += 1;
            IndexId(*next)
        })?)
    }

    /// Whether the second of two equal products is 0 where the first may be `0 * inf`, since its guard is over more of the factors.
    pub(super) fn masks_more(&mut self, scope: &[(IndexId, Size)], before: &Expr, after: &Expr) -> Result<bool> {
        let (Expr::Product(before), Expr::Product(after)) = (before, after) else { return Ok(false) };
        let scope: Scope = scope.iter().chain(&before.sums).chain(&after.sums).cloned().collect();
        let more = self.given(&scope, &before.guard, &after.guard)?;
        Ok(!more.is_true())
    }

    /// The read, through those views of its class that are leaves. Tensors may be views of each other; of these the first class is read.
    pub(super) fn viewed(&self, read: Read) -> crate::index::Checked<Expr> {
        let mut read = read;
        let mut passed: Vec<Read> = Vec::new();
        loop {
            read.class = self.egraph.find(read.class);
            if let Some(at) = passed.iter().position(|other| other.class == read.class) {
                let first = passed.drain(at..).min_by_key(|other| other.class);
                return Ok(Expr::Read(first.unwrap_or(read)));
            }
            match self.view(&read)? {
                Some(Expr::Read(next)) => passed.push(std::mem::replace(&mut read, next)),
                Some(leaf @ (Expr::Number(_) | Expr::Index(_))) => return Ok(leaf),
                Some(_) | None => return Ok(Expr::Read(read)),
            }
        }
    }

    /// The read with its places in order where its class allows that, and whether the element changes its sign by that; nothing where they are.
    pub(super) fn ordered(&self, read: &Read) -> Option<(Read, bool)> {
        let exchanges = &self.data(read.class).exchanges;
        let mut indices = read.indices.to_vec();
        let negative = order(exchanges, &mut indices);
        (*indices != *read.indices).then(|| (Read { class: read.class, indices: indices.into() }, negative))
    }

    /// What a read is without any work, if its class has a view.
    pub(super) fn view(&self, read: &Read) -> crate::index::Checked<Option<Expr>> {
        let at = |i: IndexId| read.indices.get(i.index()).cloned();
        let view = self.data(read.class).view.as_ref().map(|view| view.substitute(&at)).transpose()?;
        let itself =
            |e: &Expr| e.reads().iter().any(|(next, _)| self.egraph.find(next.class) == self.egraph.find(read.class));
        Ok(view.filter(|e| !itself(e)))
    }

    /// Whether a read goes over the whole box of a tensor: its places are indices of the same ranges, each another one.
    fn is_plain(&self, scope: &[(IndexId, Size)], read: &Read) -> bool {
        let place = |a: &Affine| a.as_index().and_then(|i| scope.iter().position(|(j, _)| *j == i));
        let mut places: Vec<usize> = Vec::with_capacity(read.indices.len());
        read.indices.iter().zip(&self.data(read.class).dims).all(|(a, n)| match place(a) {
            Some(at) if scope[at].1 == *n && !places.contains(&at) => {
                places.push(at);
                true
            }
            _ => false,
        })
    }

    fn insert(&mut self, node: Node) -> Id {
        self.consulted += 1;
        if self.records {
            self.closed = Some(node.clone());
        }
        let class = self.egraph.add(node);
        match usize::from(class).cmp(&self.met) {
            Ordering::Less => {}
            Ordering::Equal => self.met += 1,
            // One was left out, which is not made good.
            Ordering::Greater => self.met = usize::MAX,
        }
        class
    }

    /// The node that an expression became that was closed last, as an element of its class. What is but another tensor has the first node of
    /// that one.
    pub(super) fn closed_node(&self, class: Id) -> Option<Node> {
        let class = self.egraph.find(class);
        let own = self.closed.as_ref().filter(|node| {
            let canonical = egg::Language::map_children((*node).clone(), |id| self.egraph.find(id));
            self.egraph.lookup(canonical).map(|id| self.egraph.find(id)) == Some(class)
        });
        own.or_else(|| self.egraph[class].nodes.first()).cloned()
    }

    /// Makes two classes one; whether they were two.
    pub(super) fn unite(&mut self, a: Id, b: Id) -> bool {
        // A node that reads its own class from now on is a node of one of the two.
        for class in [a, b] {
            if let Some(opened) = self.opened.get_mut(&self.egraph.find(class)) {
                opened.current = false;
            }
        }
        let united = self.egraph.union(a, b);
        if united {
            self.guards.clear();
        }
        united
    }

    /// Brings equal nodes together after classes were united; how often there were any.
    pub(super) fn rebuild(&mut self) -> usize {
        self.opened.values_mut().for_each(|opened| opened.current = false);
        self.guards.clear();
        self.egraph.rebuild()
    }

    /// A leaf of a parameter.
    pub(super) fn input(
        &mut self,
        param: crate::base::ParamId,
        path: Vec<crate::ty::Side>,
        dims: Vec<Size>,
        pattern: Option<RelationId>,
    ) -> Id {
        self.insert(Node::new(Head::Input { param, path, dims, pattern }, SmallVec::new()))
    }

    /// Whether an expression has an element only where a relation has a tuple.
    pub(super) fn is_sparse(&self, e: &Expr) -> bool {
        match e {
            Expr::Number(_) | Expr::Index(_) | Expr::Apply(..) => false,
            Expr::Read(read) => {
                let class = &self.egraph[read.class];
                class.data.pattern.is_some()
                    || class.nodes.iter().any(|node| match &*node.head {
                        Head::Product { guard, sums, .. } => sums.is_empty() && has_relation(guard),
                        Head::Apply { guard, .. } => has_relation(guard),
                        Head::Sum { terms, .. } => terms.iter().all(|(p, _)| has_relation(p)),
                        Head::Input { .. } => false,
                    })
            }
            Expr::Product(product) => has_relation(&product.guard) || product.factors.iter().any(|e| self.is_sparse(e)),
            Expr::Sum(terms) => terms.iter().all(|e| self.is_sparse(e)),
        }
    }
}

/// Whether a guard asks for a tuple of a relation that is data.
fn has_relation(guard: &Pred) -> bool {
    guard.conjuncts().iter().any(|p| matches!(p, Pred::Relation { relation: RelationRef::Input(_), holds: true, .. }))
}

/// Axes as indices.
pub(super) fn slots(dims: &[Size]) -> Scope {
    dims.iter().zip(0..).map(|(n, at)| (IndexId(at), n.clone())).collect()
}
