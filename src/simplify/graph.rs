//! The e-graph, with opening and closing of its nodes.
//!
//! `close(e) = T[g]` adds the tensor `T = gen g. e` for the free indices `g` of `e`; `open` is its inverse. A subexpression that becomes a
//! class of its own takes along the conjuncts of the guards around it that its indices decide, and what its reads need to be in bounds:
//! `[p and q] * f(e)  ==  [p and q] * ([p] * f(e))`. So a class can be evaluated by itself, at every place of its box.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::rc::Rc;

use egg::{EGraph, Id};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::cost::Model;
use super::expr::{Expr, Product, Read, rename_pred};
use super::lang::{Analysis, Data, Form, Head, Node, Renaming, Slot, class_of, open};
use crate::base::{Id as _, IndexId, RelationId, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Facts, Pred, RelationRef, Size, Var, simplify_union};
use crate::ty::Signature;

/// Indices with their ranges, outermost first.
pub(super) type Scope = Vec<(IndexId, Size)>;

/// Fresh indices start here; slots and bound indices of nodes are far below.
pub(super) const FIRST_FRESH: u32 = 1 << 20;

/// How many nodes of a class are searched for guards.
const MAX_DEFINITIONS: usize = 2;

/// Larger guards are left as they are.
const MAX_WEIGHT: usize = 24;

/// The nodes of a class as expressions.
pub(super) type Definitions = Rc<[(Form, Expr)]>;

/// The nodes of a class, and what its reads stand for, by their indices.
#[derive(Default)]
struct OpenedClass {
    /// Whether the nodes are those that the class has now.
    current: bool,
    nodes: Rc<[Node]>,
    reads: FxHashMap<Rc<[Affine]>, OpenedRead>,
}

/// What a read stands for, with the nodes that it was made of.
#[derive(Clone)]
struct OpenedRead {
    nodes: Rc<[Node]>,
    definitions: Definitions,
}

/// What is left of predicates given others: a matter of the signature, not of an e-graph, since relations are but names.
#[derive(Default)]
pub(super) struct Answers {
    /// Under canonical names.
    canonical: FxHashMap<(Vec<Size>, Pred, Pred), Pred>,
    /// Under the names that were asked for, with the ranges of those that occur: most questions come again.
    asked: FxHashMap<(Scope, Pred, Pred), Pred>,
}

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
    pub(super) fn new(signature: &'a Signature, hints: &BTreeMap<String, f64>) -> Self {
        let model = Model::new(signature, hints);
        let assumed = signature.facts();
        let egraph = EGraph::new(Analysis);
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

    /// Whether an expression reads classes that are nothing without work.
    pub(super) fn reads_no_view(&self, e: &Expr) -> bool {
        match e {
            Expr::Number(_) | Expr::Index(_) => true,
            Expr::Read(read) => self.egraph.find(read.class) == read.class && self.data(read.class).view.is_none(),
            Expr::Product(product) => product.factors.iter().all(|e| self.reads_no_view(e)),
            Expr::Sum(es) | Expr::Apply(_, es) => es.iter().all(|e| self.reads_no_view(e)),
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

    /// What is left of `p` where `given` holds and the indices are in their ranges.
    pub(super) fn given(&mut self, scope: &[(IndexId, Size)], given: &Pred, p: &Pred) -> Result<Pred> {
        let large_union = matches!(p, Pred::Any(_)) && given.is_true();
        if p.is_true() || p.is_false() || given.weight() > MAX_WEIGHT || p.weight() > MAX_WEIGHT && !large_union {
            return Ok(p.clone());
        }
        if p.conjuncts().iter().all(|q| given.conjuncts().contains(q)) {
            return Ok(Pred::True);
        }
        let mut occurring: Scope = Vec::new();
        let mut meet = |a: &Affine| {
            a.visit(&mut |v| {
                if let Var::Index(i) = v
                    && !occurring.iter().any(|(j, _)| j == i)
                    && let Some(entry) = scope.iter().find(|(j, _)| j == i)
                {
                    occurring.push(entry.clone());
                }
            });
        };
        given.visit_affine(&mut meet);
        p.visit_affine(&mut meet);
        let question = (occurring, given.clone(), p.clone());
        if let Some(known) = self.answers.asked.get(&question) {
            return Ok(known.clone());
        }
        let left = self.remaining(&question)?;
        self.answers.asked.insert(question, left.clone());
        Ok(left)
    }

    /// What is left of a predicate given another, over indices with their ranges.
    fn remaining(&mut self, (scope, given, p): &(Scope, Pred, Pred)) -> Result<Pred> {
        let mut names: BTreeMap<IndexId, IndexId> =
            scope.iter().zip(0..).map(|((i, _), at)| (*i, IndexId(at))).collect();
        let mut depth = scope.len() as u32;
        let mut bind = |i: IndexId| {
            names.entry(i).or_insert_with(|| {
                depth += 1;
                IndexId(depth - 1)
            });
        };
        given.visit_binders(&mut bind);
        p.visit_binders(&mut bind);
        let mut all_known = true;
        for q in [given, p] {
            // Those that it binds are among the names.
            q.visit_affine(&mut |a| {
                a.visit(&mut |v| all_known &= !matches!(v, Var::Index(i) if !names.contains_key(i)));
            });
        }
        if !all_known {
            return Err(Error::bug("simplify", "a question about an index without a range"));
        }
        let ranges: Vec<Size> = scope.iter().map(|(_, n)| n.clone()).collect();
        let key = (ranges, rename_pred(given, &names)?, rename_pred(p, &names)?);
        let back: BTreeMap<IndexId, IndexId> = names.iter().map(|(from, to)| (*to, *from)).collect();
        if let Some(known) = self.answers.canonical.get(&key) {
            return Ok(rename_pred(known, &back)?);
        }
        let mut facts = self.assumed.clone();
        for (i, n) in slots(&key.0) {
            facts.range(i, &n);
        }
        for q in [&key.1, &key.2] {
            self.assume_targets(&mut facts, q)?;
        }
        facts.assume(&key.1);
        let simplified = if has_union(&key.2) { simplify_union(&key.2, &facts) } else { facts.simplify(&key.2) };
        self.answers.canonical.insert(key, simplified.clone());
        Ok(rename_pred(&simplified, &back)?)
    }

    /// The targets of maps are in range.
    fn assume_targets(&self, facts: &mut Facts, p: &Pred) -> Result<()> {
        let mut targets = Vec::new();
        p.visit_affine(&mut |a| {
            a.visit(&mut |v| {
                if let Var::Apply(application) = v
                    && let RelationRef::Input(r) = application.map
                    && let Some(n) = self.signature.relations.get(r).and_then(|r| r.shape.last())
                {
                    targets.push((v.clone(), n.clone()));
                }
            });
        });
        for (v, n) in targets {
            facts.assume(&Pred::in_range(&Affine::var(v), &n)?);
        }
        Ok(())
    }

    /// Whether the second of two equal products is 0 where the first may be `0 * inf`, since its guard is over more of the factors.
    pub(super) fn masks_more(&mut self, scope: &[(IndexId, Size)], before: &Expr, after: &Expr) -> Result<bool> {
        let (Expr::Product(before), Expr::Product(after)) = (before, after) else { return Ok(false) };
        let scope: Scope = scope.iter().chain(&before.sums).chain(&after.sums).cloned().collect();
        let more = self.given(&scope, &before.guard, &after.guard)?;
        Ok(!more.is_true())
    }

    /// `e` as an element of a class: `T[g]` with `T = gen g. e`.
    pub(super) fn close(&mut self, scope: &[(IndexId, Size)], e: &Expr) -> Result<Expr> {
        match e {
            Expr::Number(_) | Expr::Index(_) | Expr::Read(_) => return Ok(e.clone()),
            Expr::Product(_) | Expr::Sum(_) | Expr::Apply(..) => {}
        }
        let free = e.axes(scope);
        let class = self.close_over(&free, e)?;
        let indices = Affine::indices(&free).into();
        Ok(self.viewed(Read { class, indices })?)
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

    /// What a read is without any work, if its class has a view.
    pub(super) fn view(&self, read: &Read) -> crate::index::Checked<Option<Expr>> {
        let at = |i: IndexId| read.indices.get(i.index()).cloned();
        let view = self.data(read.class).view.as_ref().map(|view| view.substitute(&at)).transpose()?;
        let itself =
            |e: &Expr| e.reads().iter().any(|(next, _)| self.egraph.find(next.class) == self.egraph.find(read.class));
        Ok(view.filter(|e| !itself(e)))
    }

    /// The class of `gen g. e` for given axes `g`.
    pub(super) fn close_over(&mut self, gens: &[(IndexId, Size)], e: &Expr) -> Result<Id> {
        match e {
            // gen g. T[g]  ==  T
            Expr::Read(read) if self.is_whole(gens, read) => Ok(self.egraph.find(read.class)),
            Expr::Number(_) | Expr::Index(_) | Expr::Read(_) => {
                self.product(gens, Product { sums: Vec::new(), guard: Pred::True, factors: vec![e.clone()] })
            }
            Expr::Sum(terms) => self.sum(gens, &Pred::True, terms),
            Expr::Apply(function, args) => self.apply(gens, &Pred::True, *function, args),
            Expr::Product(product) => match (product.sums.is_empty(), product.factors.as_slice()) {
                // [p] * (a + b)  ==  [p] * a + [p] * b
                (true, [Expr::Sum(terms)]) => self.sum(gens, &product.guard, terms),
                (true, [Expr::Apply(function, args)]) => self.apply(gens, &product.guard, *function, args),
                _ => self.product(gens, (**product).clone()),
            },
        }
    }

    fn is_whole(&self, gens: &[(IndexId, Size)], read: &Read) -> bool {
        self.data(read.class).dims.len() == gens.len()
            && read.indices.iter().zip(gens).all(|(a, (i, _))| a.as_index() == Some(*i))
            && self.data(read.class).dims.iter().zip(gens).all(|(m, (_, n))| m == n)
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

    /// The nodes of a class but inputs, without those that the class itself occurs in.
    fn usable(&self, class: Id) -> impl Iterator<Item = &Node> {
        let class = self.egraph.find(class);
        self.egraph[class].nodes.iter().filter(move |node| {
            node.head.form() != Form::Input && node.children.iter().all(|x| self.egraph.find(*x) != class)
        })
    }

    /// The usable nodes of a class.
    fn nodes(&mut self, class: Id) -> Rc<[Node]> {
        if let Some(opened) = self.opened.get(&class)
            && opened.current
        {
            return Rc::clone(&opened.nodes);
        }
        let now: Vec<Node> = self.usable(class).cloned().collect();
        let opened = self.opened.entry(class).or_default();
        if *opened.nodes != *now {
            opened.nodes = now.into();
        }
        opened.current = true;
        Rc::clone(&opened.nodes)
    }

    /// Whether a class has a usable node of some kind.
    pub(super) fn has_node(&mut self, class: Id, is_one: impl Fn(&Head) -> bool) -> bool {
        let class = self.egraph.find(class);
        self.nodes(class).iter().any(|node| is_one(&node.head))
    }

    /// The expressions that a read stands for, one for each usable node of its class, for looking at: those of the same read bind the same
    /// indices each time.
    pub(super) fn definitions(&mut self, read: &Read) -> Result<Definitions> {
        self.consulted += 1;
        let class = self.egraph.find(read.class);
        let nodes = self.nodes(class);
        let before = self.opened.get(&class).and_then(|opened| opened.reads.get(&read.indices)).cloned();
        if let Some(before) = &before
            && Rc::ptr_eq(&before.nodes, &nodes)
        {
            return Ok(Rc::clone(&before.definitions));
        }
        let known = |node: &Node| {
            let before = before.as_ref()?;
            before.definitions.get(before.nodes.iter().position(|other| other == node)?).cloned()
        };
        let mut found = Vec::with_capacity(nodes.len());
        for node in nodes.iter() {
            found.push(match known(node) {
                Some(known) => known,
                None => (node.head.form(), self.open(node, &read.indices)?),
            });
        }
        let definitions: Definitions = found.into();
        if let Some(opened) = self.opened.get_mut(&class) {
            let read = (Rc::clone(&read.indices), OpenedRead { nodes, definitions: Rc::clone(&definitions) });
            opened.reads.extend([read]);
        }
        Ok(definitions)
    }

    /// The element that a read stands for under less of a guard: `[p and q] * e` as `[q] * e`, where `p` follows from what is given; also
    /// inside `e`.
    pub(super) fn unguarded(&mut self, scope: &Scope, given: &Pred, read: &Read, depth: usize) -> Result<Option<Expr>> {
        // Every class was simplified over its own box; what its guards imply inside is found when the class itself is looked at.
        if given.is_true() && self.is_plain(scope, read) || !self.has_guards(read.class, depth) {
            return Ok(None);
        }
        for (_, definition) in self.definitions(read)?.iter().take(MAX_DEFINITIONS) {
            // An element of a tensor inside of the definition of the same element has sums of its own.
            let bound = |product: &Product| product.sums.iter().any(|(i, _)| scope.iter().any(|(j, _)| i == j));
            let definition = &match definition {
                Expr::Product(product) if bound(product) => definition.refresh(&mut || self.fresh())?,
                definition => definition.clone(),
            };
            if let Some(e) = self.strip(scope, given, definition, depth)? {
                // Guards that save work come back; they may be all that went.
                let guarded = self.under(scope, given, &e)?;
                let same = matches!((&guarded, definition), (Expr::Product(_), Expr::Product(product))
                    if guarded == Expr::product(product.sums.clone(), product.guard.clone(), product.factors.clone()));
                return if same { Ok(None) } else { Ok(Some(self.leaf_of(scope, &guarded)?)) };
            }
        }
        Ok(None)
    }

    /// Whether one of those nodes of a class that are searched has a guard, or one below them to a depth.
    fn has_guards(&mut self, class: Id, depth: usize) -> bool {
        let class = self.egraph.find(class);
        if let Some(known) = self.guards.get(&(class, depth)) {
            return *known;
        }
        let nodes: Vec<Node> = self.usable(class).take(MAX_DEFINITIONS).cloned().collect();
        let found = nodes.iter().any(|node| {
            node.head.is_guarded() || depth > 0 && node.children.iter().any(|child| self.has_guards(*child, depth - 1))
        });
        self.guards.insert((class, depth), found);
        found
    }

    /// The expression with less of the guards that it begins with.
    fn strip(&mut self, scope: &Scope, given: &Pred, e: &Expr, depth: usize) -> Result<Option<Expr>> {
        match e {
            Expr::Number(_) | Expr::Index(_) => Ok(None),
            Expr::Read(read) if depth > 0 => self.unguarded(scope, given, read, depth - 1),
            Expr::Read(_) => Ok(None),
            Expr::Sum(es) | Expr::Apply(_, es) => {
                let mut changed = false;
                let mut parts = Vec::with_capacity(es.len());
                for part in es.iter() {
                    let stripped = self.strip(scope, given, part, depth)?;
                    changed |= stripped.is_some();
                    parts.push(stripped.unwrap_or_else(|| part.clone()));
                }
                Ok(changed.then(|| match e {
                    Expr::Apply(f, _) => Expr::Apply(*f, parts.into()),
                    _ => Expr::sum(parts),
                }))
            }
            Expr::Product(product) => {
                let summed = |p: &Pred| product.sums.iter().any(|(i, _)| p.mentions(*i));
                let (inner, outer): (Vec<Pred>, Vec<Pred>) =
                    product.guard.conjuncts().iter().cloned().partition(summed);
                let outer = Pred::all(outer);
                let left = self.given(scope, given, &outer)?;
                if left.is_false() {
                    return Ok(Some(Expr::number(0.0)));
                }
                // What is left may be said in other words; then nothing goes.
                let known = left.conjuncts().iter().all(|p| outer.conjuncts().contains(p));
                let kept: Vec<Pred> = if known { left.conjuncts().to_vec() } else { outer.conjuncts().to_vec() };
                let mut changed = kept.len() < outer.conjuncts().len();
                // Below a sum the guards around hold too.
                let inner_scope: Scope = scope.iter().chain(&product.sums).cloned().collect();
                let around = given.clone().and(product.guard.clone());
                let mut factors = Vec::with_capacity(product.factors.len());
                for factor in &product.factors {
                    let stripped = self.strip(&inner_scope, &around, factor, depth)?;
                    changed |= stripped.is_some();
                    factors.push(stripped.unwrap_or_else(|| factor.clone()));
                }
                let guard = Pred::all(kept.into_iter().chain(inner));
                Ok(changed.then(|| Expr::product(product.sums.clone(), guard, factors)))
            }
        }
    }

    /// Whether an expression over the indices of a scope [annihilates](crate::tssa::vanishing) for all sizes for which a predicate about sizes
    /// fails. What is read at a place that only the predicate keeps in range needs it.
    pub(super) fn vanishes(&mut self, scope: &Scope, e: &Expr, p: &Pred) -> Result<bool> {
        let Some(fails) = p.negate() else { return Ok(false) };
        Ok(match e {
            Expr::Index(a) => a.is_size() && self.given(&[], &fails, &Pred::zero((**a).clone()))?.is_true(),
            Expr::Read(read) => {
                let anywhere = self.slots(read.class);
                for (a, (_, n)) in read.indices.iter().zip(&anywhere) {
                    let in_range = Pred::in_range(a, n)?;
                    if !self.given(scope, &fails, &in_range)?.is_true() {
                        return Ok(false);
                    }
                }
                let whole = Read { class: read.class, indices: Affine::indices(&anywhere).into() };
                for (_, definition) in self.definitions(&whole)?.iter() {
                    if let Expr::Product(product) = definition
                        && self.vanishes_product(&anywhere, product, &fails)?
                    {
                        return Ok(true);
                    }
                }
                false
            }
            Expr::Product(product) => self.vanishes_product(scope, product, &fails)?,
            Expr::Number(_) | Expr::Sum(_) | Expr::Apply(..) => false,
        })
    }

    fn vanishes_product(&mut self, scope: &Scope, product: &Product, fails: &Pred) -> Result<bool> {
        let mut around = product.guard.comparisons().and(fails.clone());
        let scope: Scope = scope.iter().chain(&product.sums).cloned().collect();
        for (i, n) in &scope {
            around = around.and(Pred::in_range(&Affine::index(*i), n)?);
        }
        Ok(around.is_false() || self.given(&scope, &Pred::True, &around)?.is_false())
    }

    /// A factor, term or argument as a leaf: closed under those conjuncts of the guard that concern it.
    fn leaf(&mut self, scope: &[(IndexId, Size)], guard: &Pred, e: &Expr) -> Result<Expr> {
        let guarded = self.under(scope, guard, e)?;
        self.leaf_of(scope, &guarded)
    }

    fn leaf_of(&mut self, scope: &[(IndexId, Size)], e: &Expr) -> Result<Expr> {
        match e {
            Expr::Read(read) => Ok(self.viewed(read.clone())?),
            e => self.close(scope, e),
        }
    }

    /// An expression under those conjuncts of the guard that concern it; what needs no work is as it is.
    fn under(&mut self, scope: &[(IndexId, Size)], guard: &Pred, e: &Expr) -> Result<Expr> {
        match e {
            Expr::Number(_) | Expr::Index(_) | Expr::Read(_) => Ok(e.clone()),
            _ => {
                let free = e.free(scope);
                let concerns = |p: &&Pred| {
                    let (mut inside, mut indexed) = (true, false);
                    p.visit_affine(&mut |a| {
                        a.visit(&mut |v| {
                            if let Var::Index(i) = v {
                                indexed |= free.iter().any(|(j, _)| i == j);
                                inside &= free.iter().any(|(j, _)| i == j) || !scope.iter().any(|(j, _)| i == j);
                            }
                        });
                    });
                    // What sizes decide saves no work to speak of.
                    inside && indexed
                };
                let inner = Pred::all(guard.conjuncts().iter().filter(concerns).cloned());
                let inner = self.given(&free, &Pred::True, &inner)?;
                Ok(Expr::product(Vec::new(), inner, vec![e.clone()]))
            }
        }
    }

    /// The guard with all that reads need: places in bounds, and stored elements only of sparse parameters.
    fn guarded(&mut self, scope: &[(IndexId, Size)], guard: Pred, leaves: &[Expr]) -> Result<Pred> {
        let mut guard = guard;
        for leaf in leaves {
            let Expr::Read(read) = leaf else { continue };
            let data = self.data(read.class);
            let pattern = data.pattern;
            let dims = data.dims.clone();
            for (a, n) in read.indices.iter().zip(&dims) {
                if a.as_index().is_some_and(|i| scope.iter().any(|(j, m)| i == *j && m == n)) {
                    continue;
                }
                let needed = Pred::in_range(a, n)?;
                let missing = self.given(scope, &guard, &needed)?;
                guard = guard.and(missing);
            }
            if let Some(pattern) = pattern {
                let atom = Pred::relation(RelationRef::Input(pattern), read.indices.to_vec());
                if !guard.conjuncts().contains(&atom) {
                    guard = guard.and(atom);
                }
            }
        }
        Ok(guard)
    }

    fn product(&mut self, gens: &[(IndexId, Size)], product: Product) -> Result<Id> {
        let scope: Scope = gens.iter().chain(&product.sums).cloned().collect();
        let mut leaves = Vec::with_capacity(product.factors.len());
        for e in &product.factors {
            leaves.push(self.leaf(&scope, &product.guard, e)?);
        }
        let guard = self.guarded(&scope, product.guard, &leaves)?;
        // Leaves may have turned out to be literals.
        let Expr::Product(product) = Expr::product(product.sums, guard.clone(), leaves.clone()) else {
            return match leaves.as_slice() {
                [leaf] if guard.is_true() => self.leaf_class(gens, leaf),
                _ => self.leaf_class(gens, &Expr::product(Vec::new(), guard, leaves)),
            };
        };
        if product.sums.is_empty() && product.guard.is_true() && product.factors.len() == 1 {
            return self.leaf_class(gens, &product.factors[0]);
        }
        let (product, order) = canonical_factors(Rc::unwrap_or_clone(product));
        let sums = order.iter().map(|(_, n)| n.clone()).collect();
        let mut closing = Closing::new(gens, &order);
        let factors = product.factors.iter().map(|e| closing.slot(e)).collect::<Result<_>>()?;
        let guard = closing.guard(&product.guard)?;
        let dims = dims(gens);
        let children = closing.children;
        Ok(self.insert(Node::new(Head::Product { dims, sums, guard, factors }, children)))
    }

    /// `a * b` as an element of the class that holds these products, if there is one.
    pub(super) fn known_product(&mut self, scope: &Scope, a: &Expr, b: &Expr) -> Result<Option<Expr>> {
        let (Expr::Read(x), Expr::Read(y)) = (a, b) else { return Ok(None) };
        let (x, y) = (self.egraph.find(x.class), self.egraph.find(y.class));
        let multiplies = |id: Id| {
            let node = self.egraph.id_to_node(id);
            let of = |at: usize| node.children.get(at).map(|child| self.egraph.find(*child));
            let operands = (of(0), of(1));
            matches!(&*node.head, Head::Product { sums, .. } if sums.is_empty())
                && node.children.len() == 2
                && (operands == (Some(x), Some(y)) || operands == (Some(y), Some(x)))
        };
        // Most products are not there at any indices.
        if !self.egraph[x].parents().any(multiplies) {
            return Ok(None);
        }
        let e = Expr::product(Vec::new(), Pred::True, vec![a.clone(), b.clone()]);
        let gens = e.axes(scope);
        if a == b || !self.guarded(&gens, Pred::True, &[a.clone(), b.clone()])?.is_true() {
            return Ok(None);
        }
        let (product, _) = canonical_factors(e.into_product());
        let mut closing = Closing::new(&gens, &[]);
        let factors = product.factors.iter().map(|e| closing.slot(e)).collect::<Result<_>>()?;
        let head = Head::Product { dims: dims(&gens), sums: Vec::new(), guard: Pred::True, factors };
        let known = self.egraph.lookup(Node::new(head, closing.children));
        let indices = Affine::indices(&gens).into();
        Ok(known.map(|class| Expr::Read(Read { class, indices })))
    }

    /// `gen g. leaf`
    fn leaf_class(&mut self, gens: &[(IndexId, Size)], leaf: &Expr) -> Result<Id> {
        if let Expr::Read(read) = leaf
            && self.is_whole(gens, read)
        {
            return Ok(self.egraph.find(read.class));
        }
        let mut closing = Closing::new(gens, &[]);
        let factors = vec![closing.slot(leaf)?];
        let children = closing.children;
        let head = Head::Product { dims: dims(gens), sums: Vec::new(), guard: Pred::True, factors };
        Ok(self.insert(Node::new(head, children)))
    }

    fn sum(&mut self, gens: &[(IndexId, Size)], around: &Pred, terms: &[Expr]) -> Result<Id> {
        let mut leaves: Vec<(Expr, Pred)> = Vec::with_capacity(terms.len());
        for term in terms {
            // [p] * ([q] * leaf)  ==  [p and q] * leaf
            let (guard, leaf) = match term {
                Expr::Product(product) if product.sums.is_empty() => {
                    let guard = around.clone().and(product.guard.clone());
                    let guard = self.given(gens, &Pred::True, &guard)?;
                    let body = Expr::product(Vec::new(), Pred::True, product.factors.clone());
                    (guard.clone(), self.leaf(gens, &guard, &body)?)
                }
                other => (around.clone(), self.leaf(gens, around, other)?),
            };
            if guard.is_false() {
                continue;
            }
            let guard = self.guarded(gens, guard, std::slice::from_ref(&leaf))?;
            if leaf.as_number() == Some(0.0) {
                continue;
            }
            leaves.push((leaf, guard));
        }
        leaves.sort();
        if leaves.len() < 2 {
            let e = match leaves.pop() {
                Some((leaf, guard)) => Expr::product(Vec::new(), guard, vec![leaf]),
                None => Expr::number(0.0),
            };
            return self.close_over(gens, &e);
        }
        let mut closing = Closing::new(gens, &[]);
        let slots = leaves.iter().map(|(leaf, _)| closing.slot(leaf)).collect::<Result<Vec<_>>>()?;
        let guards = leaves.iter().map(|(_, p)| closing.guard(p)).collect::<Result<Vec<_>>>()?;
        let children = closing.children;
        let terms = guards.into_iter().zip(slots).collect();
        Ok(self.insert(Node::new(Head::Sum { dims: dims(gens), terms }, children)))
    }

    fn apply(
        &mut self,
        gens: &[(IndexId, Size)],
        guard: &Pred,
        function: crate::scalar::Function,
        args: &[Expr],
    ) -> Result<Id> {
        let mut leaves = Vec::with_capacity(args.len());
        for e in args {
            let leaf = self.leaf(gens, guard, e)?;
            // What is read outside of its axes is 0, and the function is applied there all the same.
            leaves.push(match self.guarded(gens, guard.clone(), std::slice::from_ref(&leaf))? {
                needed if needed == *guard => leaf,
                needed => self.close(gens, &Expr::product(Vec::new(), needed, vec![leaf]))?,
            });
        }
        let mut closing = Closing::new(gens, &[]);
        let args = leaves.iter().map(|e| closing.slot(e)).collect::<Result<Vec<_>>>()?;
        let guard = closing.guard(guard)?;
        let children = closing.children;
        Ok(self.insert(Node::new(Head::Apply { dims: dims(gens), guard, function, args }, children)))
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

/// Whether an `or` stands at the top.
fn has_union(p: &Pred) -> bool {
    p.conjuncts().iter().any(|p| matches!(p, Pred::Any(_)))
}

/// Axes as indices.
pub(super) fn slots(dims: &[Size]) -> Scope {
    dims.iter().zip(0..).map(|(n, at)| (IndexId(at), n.clone())).collect()
}

fn dims(gens: &[(IndexId, Size)]) -> Vec<Size> {
    gens.iter().map(|(_, n)| n.clone()).collect()
}

/// Orders the factors without regard to the names of `sum` indices, then these by their first occurrence.
fn canonical_factors(mut product: Product) -> (Product, Scope) {
    let summed: Vec<IndexId> = product.sums.iter().map(|(i, _)| *i).collect();
    let masked =
        |e: &Expr| e.substitute(&|i| summed.contains(&i).then(|| Affine::constant(0))).unwrap_or_else(|_| e.clone());
    product.factors.sort_by_cached_key(|e| (masked(e), e.clone()));
    let mut order: Scope = Vec::with_capacity(summed.len());
    let mut meet = |a: &Affine| {
        a.visit(&mut |v| {
            if let Var::Index(i) = v
                && !order.iter().any(|(j, _)| j == i)
                && let Some(entry) = product.sums.iter().find(|(j, _)| j == i)
            {
                order.push(entry.clone());
            }
        });
    };
    product.factors.iter().for_each(|e| e.visit_affine(&mut meet));
    product.guard.visit_affine(&mut meet);
    for entry in &product.sums {
        if !order.contains(entry) {
            order.push(entry.clone());
        }
    }
    // Once more under the final names, which decide between reads of one tensor.
    let number: BTreeMap<IndexId, u32> = order.iter().zip(0..).map(|((i, _), at)| (*i, at)).collect();
    let named = |e: &Expr| {
        e.substitute(&|i| number.get(&i).map(|at| Affine::index(IndexId(u32::MAX / 2 + at))))
            .unwrap_or_else(|_| e.clone())
    };
    product.factors.sort_by_cached_key(named);
    (product, order)
}

/// Renames to positions and collects children. All reads come first, then what guards read as relations.
struct Closing {
    numbers: BTreeMap<IndexId, IndexId>,
    children: SmallVec<[Id; 4]>,
    computed: BTreeMap<Id, usize>,
}

impl Closing {
    fn new(gens: &[(IndexId, Size)], sums: &[(IndexId, Size)]) -> Self {
        let indices = gens.iter().chain(sums).map(|(i, _)| *i);
        let numbers = indices.zip(0..).map(|(i, at)| (i, IndexId(at))).collect();
        Closing { numbers, children: SmallVec::new(), computed: BTreeMap::new() }
    }

    fn affine(&self, a: &Affine) -> Result<Affine> {
        Ok(a.substitute(&|i| self.numbers.get(&i).copied().map(Affine::index))?)
    }

    fn slot(&mut self, e: &Expr) -> Result<Slot> {
        Ok(match e {
            Expr::Number(x) => Slot::Number(*x),
            Expr::Index(a) => Slot::Index(self.affine(a)?),
            Expr::Read(read) => {
                let at = read.indices.iter().map(|a| self.affine(a)).collect::<Result<_>>()?;
                self.children.push(read.class);
                Slot::Read(at)
            }
            Expr::Product(_) | Expr::Sum(_) | Expr::Apply(..) => {
                return Err(Error::bug("simplify", "an argument of a node is not a leaf"));
            }
        })
    }

    fn guard(&mut self, p: &Pred) -> Result<Pred> {
        let mut numbers = self.numbers.clone();
        let mut next = numbers.len() as u32;
        p.visit_binders(&mut |i| {
            numbers.insert(i, IndexId(next));
            next += 1;
        });
        let p = rename_pred(p, &numbers)?;
        p.visit_computed(&mut |x| {
            let class = class_of(x);
            if !self.computed.contains_key(&class) {
                self.computed.insert(class, self.children.len());
                self.children.push(class);
            }
        });
        let rename = |x: VarId| self.computed.get(&class_of(x)).map_or(x, |at| VarId::from_index(*at));
        Ok(Renaming(&rename).pred(&p)?)
    }
}
