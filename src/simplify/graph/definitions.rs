//! What reads stand for: the nodes of their classes, opened at their indices, and what these say under the guards around.

use std::rc::Rc;

use egg::Id;
use rustc_hash::FxHashMap;

use super::super::expr::{Expr, Product, Read};
use super::super::lang::{Form, Head, Node};
use super::{Graph, Scope};
use crate::error::Result;
use crate::index::{Affine, Pred};

/// How many nodes of a class are searched for guards.
const MAX_DEFINITIONS: usize = 2;

/// The nodes of a class as expressions.
pub(in crate::ir::simplify) type Definitions = Rc<[(Form, Expr)]>;

/// The nodes of a class, and what its reads stand for, by their indices.
#[derive(Default)]
pub(super) struct OpenedClass {
    /// Whether the nodes are those that the class has now.
    pub(super) current: bool,
    nodes: Rc<[Node]>,
    reads: FxHashMap<Rc<[Affine]>, OpenedRead>,
}

/// What a read stands for, with the nodes that it was made of.
#[derive(Clone)]
struct OpenedRead {
    nodes: Rc<[Node]>,
    definitions: Definitions,
}

impl Graph<'_> {
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
    pub(in crate::ir::simplify) fn has_node(&mut self, class: Id, is_one: impl Fn(&Head) -> bool) -> bool {
        let class = self.egraph.find(class);
        self.nodes(class).iter().any(|node| is_one(&node.head))
    }

    /// The expressions that a read stands for, one for each usable node of its class, for looking at: those of the same read bind the same
    /// indices each time.
    pub(in crate::ir::simplify) fn definitions(&mut self, read: &Read) -> Result<Definitions> {
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
    pub(in crate::ir::simplify) fn unguarded(
        &mut self,
        scope: &Scope,
        given: &Pred,
        read: &Read,
        depth: usize,
    ) -> Result<Option<Expr>> {
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

    /// The sum that a read stands for under the relations that are given of its indices, if nothing is asked of it yet.
    pub(in crate::ir::simplify) fn needed(&mut self, scope: &Scope, given: &Pred, read: &Read) -> Result<Option<Expr>> {
        let is_read = |a: &Affine| a.as_index().is_some() && read.indices.contains(a);
        let is_asked = |p: &&Pred| matches!(p, Pred::Relation { args, holds: true, .. } if args.iter().all(is_read));
        let asked: Vec<Pred> = given.conjuncts().iter().filter(is_asked).cloned().collect();
        if asked.is_empty() {
            return Ok(None);
        }
        for (_, definition) in self.definitions(read)?.iter().take(MAX_DEFINITIONS) {
            if let Expr::Product(product) = definition
                && product.guard.is_true()
                && !product.sums.is_empty()
            {
                let sum = definition.refresh(&mut || self.fresh())?;
                let guarded = self.under(scope, &Pred::all(asked), &sum)?;
                return Ok(Some(self.leaf_of(scope, &guarded)?));
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
    pub(in crate::ir::simplify) fn vanishes(&mut self, scope: &Scope, e: &Expr, p: &Pred) -> Result<bool> {
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
}
