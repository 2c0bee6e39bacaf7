//! The e-graph back into Tensor-SSA.
//!
//! `[[T]] = X` with `X = gen g. T[g]`. A read at an affine expression becomes a `sum` index with an equation, `T[a] = sum s. [s = a] * T[s]`; a
//! product of many factors becomes a chain of contractions over two operands, and literals are multiplied last, outside the sums.
//!
//! Normal forms have the values that equations give in place of indices, `[i = a] * T[a]`. This is read at the index again, `[i = a] * T[i]`, which
//! takes no other tensor: with one for each of them a program would grow whenever it is simplified once more.
//!
//! The axes of a class are numbered as its expression happens to mention them; those of `X` may come in another order, [`orders`], so that
//! what reads `X` needs no transposed copy.

use std::collections::{BTreeMap, BTreeSet};

use egg::Id;

use super::cost::{Model, chosen, inside};
use super::expr::{Expr, Product, Read, Real};
use super::extract::{Selection, Table};
use super::graph::{Graph, Scope};
use super::lang::{Head, Node, Renaming, class_of};
use crate::base::{Id as _, IndexId, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Application, Pred, RelationRef, Size, Var};
use crate::scalar::Number;
use crate::solver::solution;
use crate::tssa::{Builder, Operand, Output, Program, Rhs};

/// The program of a selection.
pub(super) fn decode(
    graph: &mut Graph<'_>,
    table: &Table,
    model: &Model<'_>,
    selection: &Selection,
    program: &Program,
    roots: &[Vec<Id>],
    names: &[(Id, String)],
) -> Result<Program> {
    let all: Vec<Id> = roots.iter().flatten().map(|id| graph.egraph.find(*id)).collect();
    let Some(order) = table.order(selection, &all) else {
        return Err(Error::bug("simplify", "the selected nodes are not a program"));
    };
    let orders = orders(table, selection, &order, &all);
    let builder = Builder::new(program.signature.clone());
    let mut decoder = Decoder { model, builder, vars: BTreeMap::new(), orders };
    let mut suggested: BTreeMap<Id, Vec<&str>> = BTreeMap::new();
    for (id, name) in names {
        suggested.entry(graph.egraph.find(*id)).or_default().push(name);
    }
    for class in order {
        let Some(node) = table.node(selection, class) else { continue };
        let x = decoder.node(graph, class, node)?;
        for name in suggested.get(&class).into_iter().flatten() {
            decoder.builder.suggest_name(x, name);
        }
        decoder.vars.insert(class, x);
    }
    let mut outputs = Vec::with_capacity(program.outputs.len());
    for (output, leaves) in program.outputs.iter().zip(roots) {
        let leaves = leaves.iter().map(|id| decoder.var(graph.egraph.find(*id))).collect::<Result<_>>()?;
        outputs.push(Output { leaves, ..output.clone() });
    }
    decoder.builder.finish(outputs).prune()
}

pub(super) struct Decoder<'m> {
    pub(super) model: &'m Model<'m>,
    pub(super) builder: Builder,
    pub(super) vars: BTreeMap<Id, VarId>,
    /// For each axis of the tensor of a class, the slot that it is; where nothing is said, axes are slots.
    pub(super) orders: BTreeMap<Id, Vec<usize>>,
}

/// In which order the axes of each class are stored. Results, and tensors that guards read as relations, have the order of slots. Sums and
/// functions need their operands as they have their own axes; so an operand follows its readers where these are decided, else a reader follows
/// its first operand.
fn orders(table: &Table, selection: &Selection, order: &[Id], roots: &[Id]) -> BTreeMap<Id, Vec<usize>> {
    let nodes: Vec<(Id, &Node)> = order.iter().filter_map(|id| Some((*id, table.node(selection, *id)?))).collect();
    let mut decided: BTreeMap<Id, Vec<usize>> = BTreeMap::new();
    let own = |node: &Node| (0..node.head.dims().len()).collect::<Vec<usize>>();
    let fixed: BTreeSet<Id> = nodes.iter().flat_map(|(_, node)| node.operands().1).chain(roots).copied().collect();
    for (class, node) in
        nodes.iter().filter(|(id, node)| fixed.contains(id) || matches!(*node.head, Head::Input { .. }))
    {
        decided.insert(*class, own(node));
    }
    for (class, node) in nodes.iter().rev() {
        let Some(chosen) = decided.get(class).cloned() else { continue };
        for (child, indices) in aligned(node) {
            let wanted = chosen.iter().map(|slot| indices.iter().position(|i| i == slot)).collect::<Option<Vec<_>>>();
            if let Some(wanted) = wanted {
                decided.entry(child).or_insert(wanted);
            }
        }
    }
    for (class, node) in &nodes {
        if decided.contains_key(class) {
            continue;
        }
        let follows = aligned(node).into_iter().find_map(|(child, indices)| {
            decided.get(&child)?.iter().map(|slot| indices.get(*slot).copied()).collect::<Option<Vec<_>>>()
        });
        decided.insert(*class, follows.unwrap_or_else(|| own(node)));
    }
    decided
}

/// The operands that a node needs in the order of its own axes, with the slot of the node that each of their slots is.
fn aligned(node: &Node) -> Vec<(Id, Vec<usize>)> {
    let copies = match &*node.head {
        Head::Input { .. } => false,
        Head::Product { sums, guard, factors, .. } => sums.is_empty() && guard.is_true() && factors.len() == 1,
        Head::Sum { .. } | Head::Apply { .. } => true,
    };
    let axes = node.head.dims().len();
    let slots = |indices: &[Affine]| -> Option<Vec<usize>> {
        let slots: Vec<usize> = indices.iter().map(|a| Some(a.as_index()?.index())).collect::<Option<_>>()?;
        (slots.len() == axes && (0..axes).all(|slot| slots.contains(&slot))).then_some(slots)
    };
    let reads = node.operands().0.into_iter().filter(|_| copies);
    reads.filter_map(|(child, indices)| Some((child, slots(indices)?))).collect()
}

/// An operand with the indices and conditions that its reads need.
struct Operands {
    sums: Scope,
    guard: Vec<Pred>,
    operands: Vec<Operand>,
}

impl Decoder<'_> {
    fn var(&self, class: Id) -> Result<VarId> {
        self.vars.get(&class).copied().ok_or_else(|| Error::bug("simplify", "a class is read before it is computed"))
    }

    /// What is read of the tensor of a class, axis by axis.
    fn stored(&self, read: &Read) -> Result<(VarId, Vec<Affine>)> {
        let indices = match self.orders.get(&read.class) {
            Some(order) => order.iter().filter_map(|slot| read.indices.get(*slot).cloned()).collect(),
            None => read.indices.clone(),
        };
        Ok((self.var(read.class)?, indices.to_vec()))
    }

    /// The tensor of a class, by a node whose children are known.
    pub(super) fn node(&mut self, graph: &mut Graph<'_>, class: Id, node: &Node) -> Result<VarId> {
        if let Head::Input { param, path, dims, .. } = &*node.head {
            return Ok(self.builder.input(*param, path.clone(), dims.clone()));
        }
        let slots = self.builder.fresh_indices(node.head.dims());
        let at = Affine::indices(&slots);
        let e = graph.open(node, &at)?;
        let gens = match self.orders.get(&class) {
            Some(order) => order.iter().filter_map(|slot| slots.get(*slot).cloned()).collect(),
            None => slots,
        };
        match e {
            Expr::Sum(terms) => self.sum(&gens, &terms),
            Expr::Apply(function, args) => self.apply(&gens, Pred::True, function, &args),
            Expr::Product(product) => match (product.sums.is_empty(), product.factors.as_slice()) {
                (true, [Expr::Apply(function, args)]) => self.apply(&gens, product.guard.clone(), *function, args),
                (true, [leaf]) => self.leaf(&gens, &product.guard, leaf),
                _ => self.product(&gens, std::rc::Rc::unwrap_or_clone(product)),
            },
            leaf => self.leaf(&gens, &Pred::True, &leaf),
        }
    }

    fn guard(&self, p: &Pred) -> Result<Pred> {
        let rename = |x: VarId| self.vars.get(&class_of(x)).copied().unwrap_or(x);
        Ok(Renaming(&rename).pred(p)?)
    }

    /// `gen g. [p] * leaf`, with all axes.
    pub(super) fn leaf(&mut self, gens: &Scope, guard: &Pred, leaf: &Expr) -> Result<VarId> {
        if guard.is_true()
            && let Some(x) = self.plain(gens, guard, leaf)?
        {
            return Ok(x);
        }
        self.product(gens, Product { sums: Vec::new(), guard: guard.clone(), factors: vec![leaf.clone()] })
    }

    /// `gen g. [p0] * a0 + ..` of leaves.
    pub(super) fn sum(&mut self, gens: &Scope, terms: &[Expr]) -> Result<VarId> {
        Ok(self.added(gens, terms)?.1)
    }

    /// The sum with the guard outside of which it is zero. Terms that have fewer axes are added over these first:
    ///
    /// ```text
    /// gen i j. a[i, j] + b[i] + c[i]  ==  gen i j. a[i, j] + s[i]   with s = gen i. b[i] + c[i]
    /// ```
    fn added(&mut self, gens: &Scope, terms: &[Expr]) -> Result<(Pred, VarId)> {
        let mut sides: Vec<(Pred, VarId)> = Vec::with_capacity(terms.len());
        let axes = |e: &Expr| gens.iter().map(|(i, _)| e.mentions(*i)).collect::<Vec<bool>>();
        let mut left: Vec<(Vec<bool>, &Expr)> = terms.iter().map(|e| (axes(e), e)).collect();
        while let Some(fewer) = fewer_axes(&left) {
            let (narrow, wide) = left.into_iter().partition(|(set, _)| is_within(set, &fewer));
            left = wide;
            let narrow: Vec<Expr> = narrow.into_iter().map(|(_, e)| e.clone()).collect();
            let fewer = chosen(gens, &fewer);
            let (guard, var) = self.added(&fewer, &narrow)?;
            let indices = fewer.iter().map(|(i, _)| *i).collect();
            sides.push((guard.clone(), self.builder.contract(gens, &[], guard, vec![Operand { var, indices }])?));
        }
        for (_, term) in left {
            let product = term.clone().into_product();
            let guard = self.guard(&product.guard)?;
            let x = match product.factors.as_slice() {
                // The guard stands in the addition.
                [leaf] => match self.plain(gens, &product.guard, leaf)? {
                    Some(x) => x,
                    None => self.leaf(gens, &product.guard, leaf)?,
                },
                _ => self.product(gens, product)?,
            };
            sides.push((guard, x));
        }
        let mut sides = sides.into_iter();
        let Some(mut sum) = sides.next() else {
            return Ok((Pred::True, self.builder.number(gens, Number::Literal(0.0))?));
        };
        for side in sides {
            let either = sum.0.clone().or(side.0.clone());
            sum = (either, self.builder.add(gens, [sum, side])?);
        }
        Ok(sum)
    }

    /// The tensor of a leaf that is read at exactly the given indices wherever a guard holds.
    fn plain(&mut self, gens: &Scope, guard: &Pred, leaf: &Expr) -> Result<Option<VarId>> {
        Ok(match leaf {
            Expr::Read(read) => {
                let (x, mut indices) = self.stored(read)?;
                self.unsolve(x, &mut indices, gens, guard.conjuncts());
                let whole = indices.len() == gens.len()
                    && indices.iter().zip(gens).all(|(a, (i, _))| a.as_index() == Some(*i))
                    && self.builder.dims(x).iter().zip(gens).all(|(m, (_, n))| m == n);
                whole.then_some(x)
            }
            Expr::Number(x) => Some(self.builder.number(gens, Number::Literal(x.get()))?),
            Expr::Index(a) => Some(self.builder.number(gens, Number::Index((**a).clone()))?),
            _ => None,
        })
    }

    /// `gen g. [p] * f(a0, ..)` of leaves.
    pub(super) fn apply(
        &mut self,
        gens: &Scope,
        guard: Pred,
        function: crate::scalar::Function,
        args: &[Expr],
    ) -> Result<VarId> {
        let mut vars = Vec::with_capacity(args.len());
        for arg in args {
            vars.push(match self.plain(gens, &guard, arg)? {
                Some(x) => x,
                None => self.leaf(gens, &guard, arg)?,
            });
        }
        let guard = self.guard(&guard)?;
        self.builder.map(gens, guard, function, vars)
    }

    /// `gen g. sum s. [p] * f0 * ..`
    pub(super) fn product(&mut self, gens: &Scope, product: Product) -> Result<VarId> {
        let summed: Vec<IndexId> = product.sums.iter().map(|(i, _)| *i).collect();
        let guard = self.guard(&product.guard)?;
        let outside = Pred::all(guard.conjuncts().iter().filter(|p| !summed.iter().any(|i| p.mentions(*i))).cloned());
        let (scalars, inner): (Vec<Expr>, Vec<Expr>) = product.factors.iter().cloned().partition(|e| match e {
            // What is not finite stays in the sum, which may be over nothing.
            Expr::Number(x) => *x != Real::ONE && x.get().is_finite(),
            Expr::Index(_) => !e.mentions_any(&summed),
            _ => false,
        });
        let scope: Scope = gens.iter().chain(&product.sums).cloned().collect();
        if inner.is_empty() && product.sums.is_empty() {
            let mut operands = Vec::new();
            for e in &scalars {
                operands.push(self.operand(&scope, e)?);
            }
            return self.chain(gens, outside, operands);
        }
        let mut found =
            Operands { sums: product.sums.clone(), guard: guard.conjuncts().to_vec(), operands: Vec::new() };
        for e in &inner {
            self.read(&scope, e, &mut found)?;
        }
        self.guards_at_targets(&mut found)?;
        if found.operands.is_empty() {
            let one = self.builder.number(&[], Number::Literal(1.0))?;
            found.operands.push(Operand { var: one, indices: Vec::new() });
        }
        // Literals go to a factor that stands alone, or is the same at many places; elsewhere they come last.
        let last = match found.sums.is_empty() && (found.operands.len() == 1 || repeats(&found.operands)) {
            true => {
                let scalars = scalars.iter().map(|e| self.operand(&scope, e)).collect::<Result<Vec<_>>>()?;
                found.operands.extend(scalars);
                Vec::new()
            }
            false => scalars,
        };
        self.narrow(gens, &mut found)?;
        let x = self.builder.contract(gens, &found.sums, Pred::all(found.guard), found.operands)?;
        if last.is_empty() {
            return Ok(x);
        }
        let mut operands = vec![Operand { var: x, indices: gens.iter().map(|(i, _)| *i).collect() }];
        for e in &last {
            operands.push(self.operand(&scope, e)?);
        }
        self.chain(gens, outside, operands)
    }

    /// Multiplies operands without sums, two at a time.
    fn chain(&mut self, gens: &Scope, guard: Pred, operands: Vec<Operand>) -> Result<VarId> {
        let mut found = Operands { sums: Vec::new(), guard: guard.conjuncts().to_vec(), operands };
        self.narrow(gens, &mut found)?;
        self.builder.contract(gens, &[], Pred::all(found.guard), found.operands)
    }

    /// A literal or an index expression as an operand.
    fn operand(&mut self, scope: &Scope, e: &Expr) -> Result<Operand> {
        let (axes, number): (Scope, Number) = match e {
            Expr::Number(x) => (Vec::new(), Number::Literal(x.get())),
            Expr::Index(a) => (e.free(scope), Number::Index((**a).clone())),
            _ => return Err(Error::bug("simplify", "a scalar is neither a literal nor an index expression")),
        };
        let var = self.builder.number(&axes, number)?;
        Ok(Operand { var, indices: axes.iter().map(|(i, _)| *i).collect() })
    }

    /// Adds a factor, with a `sum` index for each axis that is not read at a plain index of its range.
    fn read(&mut self, scope: &Scope, e: &Expr, into: &mut Operands) -> Result<()> {
        let Expr::Read(read) = e else {
            let operand = self.operand(scope, e)?;
            into.operands.push(operand);
            return Ok(());
        };
        let (var, mut indices) = self.stored(read)?;
        let own: Scope = scope.iter().filter(|(i, _)| !into.sums.iter().any(|(s, _)| s == i)).cloned().collect();
        self.unsolve(var, &mut indices, &own, &into.guard);
        let dims = self.builder.dims(var).to_vec();
        let mut at = Vec::with_capacity(dims.len());
        for (a, n) in indices.iter().zip(&dims) {
            match a.as_index().filter(|i| scope.iter().any(|(j, m)| i == j && m == n)) {
                Some(i) => at.push(i),
                None => {
                    let a = self.without_targets(a, into)?;
                    match a.as_index().filter(|i| into.sums.iter().any(|(j, m)| i == j && m == n)) {
                        Some(i) => at.push(i),
                        None => {
                            let s = self.builder.fresh_index();
                            into.sums.push((s, n.clone()));
                            into.guard.push(Pred::equal(&Affine::index(s), &a)?);
                            at.push(s);
                        }
                    }
                }
            }
        }
        into.operands.push(Operand { var, indices: at });
        Ok(())
    }

    /// Where an equation of a guard says that an axis is read at an index of `gen` that is read on no other axis, it is read at this index. A sparse
    /// parameter is read at the places that the guard has for it.
    fn unsolve(&self, x: VarId, at: &mut [Affine], gens: &Scope, conjuncts: &[Pred]) {
        let pattern = self.pattern(&Operand { var: x, indices: Vec::new() });
        if pattern.is_some_and(|pattern| !pattern.is_true()) {
            return;
        }
        let dims = self.builder.dims(x);
        for (k, n) in dims.iter().enumerate().take(at.len()) {
            let (before, rest) = at.split_at(k);
            let Some((a, after)) = rest.split_first() else { return };
            // Of an index that is read twice the first axis has it.
            if a.as_index().is_some_and(|_| !before.contains(a)) {
                continue;
            }
            let is_free = |i: IndexId| !before.iter().chain(after).any(|b| b.as_index() == Some(i));
            let is_there = |i: IndexId| conjuncts.iter().any(|p| solution(i, p).as_ref() == Some(a));
            let found = gens.iter().find(|(i, m)| m == n && is_free(*i) && is_there(*i)).map(|(i, _)| *i);
            if let (Some(i), Some(a)) = (found, at.get_mut(k)) {
                *a = i.into();
            }
        }
    }

    /// The targets of maps become `sum` indices, `f(b)` is the `t` with `f(b, t)`.
    fn without_targets(&mut self, a: &Affine, into: &mut Operands) -> Result<Affine> {
        let mut applications: Vec<Application> = Vec::new();
        a.visit(&mut |v| {
            if let Var::Apply(application) = v
                && !applications.contains(application)
            {
                applications.push((**application).clone());
            }
        });
        let mut a = a.clone();
        // Inner applications come first.
        for application in applications {
            let RelationRef::Input(r) = application.map else {
                return Err(Error::bug("simplify", "a computed map is applied in a read"));
            };
            let relation = self.builder.signature().relations.get(r);
            let Some(n) = relation.and_then(|r| r.shape.last()).cloned() else {
                return Err(Error::bug("simplify", "a map without a target"));
            };
            let args =
                application.args.iter().map(|arg| self.without_targets(arg, into)).collect::<Result<Vec<_>>>()?;
            let t = self.target(&application.map, args, &n, into);
            let whole = Var::Apply(Box::new(application));
            a = a.replace(&mut |v| Ok((*v == whole).then(|| Affine::index(t))))?;
        }
        Ok(a)
    }

    /// What is asked at a target of a map is asked at the index that this is.
    fn guards_at_targets(&mut self, found: &mut Operands) -> Result<()> {
        let (asked, plain): (Vec<Pred>, Vec<Pred>) =
            std::mem::take(&mut found.guard).into_iter().partition(Pred::applies_map);
        found.guard = plain;
        for p in asked {
            let p = match p {
                Pred::Relation { relation, args, holds } => {
                    let args = args.iter().map(|a| self.without_targets(a, found)).collect::<Result<Vec<_>>>()?;
                    Pred::Relation { relation, args, holds }
                }
                Pred::NonNegative(a) => Pred::non_negative(self.without_targets(&a, found)?),
                Pred::Zero(a) => Pred::zero(self.without_targets(&a, found)?),
                Pred::NonZero(a) => Pred::non_zero(self.without_targets(&a, found)?),
                other => other,
            };
            found.guard.push(p);
        }
        Ok(())
    }

    fn target(&mut self, map: &RelationRef, args: Vec<Affine>, n: &Size, into: &mut Operands) -> IndexId {
        for p in &into.guard {
            if let Pred::Relation { relation, args: known, holds: true } = p
                && relation == map
                && let Some((last, source)) = known.split_last()
                && source == args.as_slice()
                && let Some(t) = last.as_index()
                && into.sums.iter().any(|(s, m)| *s == t && m == n)
            {
                return t;
            }
        }
        let t = self.builder.fresh_index();
        into.sums.push((t, n.clone()));
        into.guard.push(Pred::relation(*map, args.into_iter().chain([Affine::index(t)]).collect()));
        t
    }

    /// Where a factor is stored, for a sparse parameter. The guard of the whole product implies it, but the part that is left of that guard for two
    /// factors need not.
    fn pattern(&self, factor: &Operand) -> Option<Pred> {
        let Rhs::Input { param, .. } = &self.builder.stmt(factor.var).rhs else { return None };
        let at: Vec<Affine> = factor.indices.iter().copied().map(Affine::index).collect();
        Some(self.builder.signature().params.get(*param)?.storage.stored_at(&at))
    }

    /// `f0 * f1 * f2 * ..  ==  (f0 * f1) * f2 * ..` until two factors are left, in the order that the cost model chooses.
    fn narrow(&mut self, gens: &Scope, found: &mut Operands) -> Result<()> {
        while found.operands.len() > 2 {
            let scope: Scope = gens.iter().chain(&found.sums).cloned().collect();
            let guard = Pred::all(found.guard.iter().cloned());
            let set = |x: &Operand| scope.iter().map(|(i, _)| x.indices.contains(i)).collect::<Vec<bool>>();
            let sets: Vec<Vec<bool>> = found.operands.iter().map(set).collect();
            let Some((i, j, union)) = squared(&found.operands, &sets).or_else(|| {
                let (i, j, union, _) = self.model.merge(&scope, &guard, &sets)?;
                Some((i, j, union))
            }) else {
                break;
            };
            let (b, a) = (found.operands.remove(j), found.operands.remove(i));
            let axes = chosen(&scope, &union);
            let indices = axes.iter().map(|(i, _)| *i).collect();
            let stored = Pred::all([&a, &b].into_iter().filter_map(|x| self.pattern(x)));
            let inner = inside(&scope, &union, &guard).and(stored);
            let var = self.builder.contract(&axes, &[], inner, vec![a, b])?;
            found.operands.push(Operand { var, indices });
        }
        Ok(())
    }
}

/// What expressions of the e-graph may hold and Tensor-SSA may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limitation {
    /// A guard, or a number, applies a map.
    AppliesMap,
    /// A guard nests deeper than [`Pred::MAX_NESTING`].
    NestsTooDeep,
}

/// Why a decoded program is none of Tensor-SSA although decoding made no mistake, if that is so.
pub(super) fn limitation(program: &Program) -> Option<Limitation> {
    program.stmts.values().find_map(|stmt| {
        let is_applied = match &stmt.rhs {
            Rhs::Number(Number::Index(a)) => a.applies_map(),
            rhs => rhs.guards().any(Pred::applies_map),
        };
        let deep = stmt.rhs.guards().any(|p| p.nesting() > Pred::MAX_NESTING);
        is_applied.then_some(Limitation::AppliesMap).or(deep.then_some(Limitation::NestsTooDeep))
    })
}

/// The most axes, though not all, that two terms have between them.
fn fewer_axes(terms: &[(Vec<bool>, &Expr)]) -> Option<Vec<bool>> {
    let mut sets: Vec<(&[bool], usize)> = Vec::new();
    for (set, _) in terms {
        match sets.iter_mut().find(|(known, _)| known == set) {
            Some((_, count)) => *count += 1,
            None => sets.push((set, 1)),
        }
    }
    let mut found: Option<(usize, Vec<bool>)> = None;
    for (at, (a, count)) in sets.iter().enumerate() {
        let others = sets.iter().skip(at + usize::from(*count == 1));
        for (b, _) in others {
            let union: Vec<bool> = a.iter().zip(*b).map(|(x, y)| *x || *y).collect();
            let size = union.iter().filter(|x| **x).count();
            if size < union.len() && found.as_ref().is_none_or(|(known, _)| size > *known) {
                found = Some((size, union));
            }
        }
    }
    found.map(|(_, union)| union)
}

fn is_within(set: &[bool], other: &[bool]) -> bool {
    set.iter().zip(other).all(|(x, y)| !*x || *y)
}

/// Whether an operand is read at fewer indices than all of them together.
fn repeats(operands: &[Operand]) -> bool {
    let all = operands.iter().flat_map(|x| &x.indices);
    operands.iter().any(|x| all.clone().any(|i| !x.indices.contains(i)))
}

/// Two equal operands: no other product of two is cheaper.
fn squared(operands: &[Operand], sets: &[Vec<bool>]) -> Option<(usize, usize, Vec<bool>)> {
    (0..operands.len()).find_map(|j| {
        let i = operands.iter().take(j).position(|x| *x == operands[j])?;
        Some((i, j, sets.get(i)?.clone()))
    })
}
