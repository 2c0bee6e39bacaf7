//! Programs of the tensor language as programs of the lambda calculus.
//!
//! ```text
//! [[gen i < n. e]]              =  build n (i. [[e]])
//! [[sum i < n. e]]              =  sum (build n (i. [[e]]))
//! [[x[a]]]                      =  [[x]] ! [[a]]
//! [[[p] * e]]                   =  if [[p]] then [[e]] else 0
//! [[scan t < n, s = e0. e]]     =  scanl (s, t. [[e]]) [[e0]] (build n (t. t)),  scanr where it goes down
//! [[(scan t < n, s = e0. e)[n]]]  =  fold t < n, s = [[e0]]. [[e]]
//! ```
//!
//! The lambda calculus has no sizes that stand for any number, so the program is one for given sizes. A tensor is an array of arrays. Relations are
//! parameters as well, after those of the program: a map is an array of its targets, another relation an array of 0 and 1. A sparse parameter is an
//! array with 0 where nothing is stored, beside its pattern. What is true of an index expression for all values of its indices is decided here, not at
//! run time.
//!
//! The places of the largest and smallest elements of a tensor are found once, where the tensor is bound: an array of integers beside it.
//!
//! **Why correct.** Each equation is that of the evaluator of the tensor language (Figs 4 and 5 of the tensor paper), so both add in the same order, and
//! the values have the same bits, but for the sign of a sum that is an access ([`eval_term`](mod@crate::reference::eval_term)).
//!
//! **Refused**: projections of arrays of pairs, which normal forms have and programs do not.
//!
//! | file | job |
//! |---|---|
//! | `index` | index expressions and predicates |
//! | `data` | arguments and results |
//! | `maps` | loops over indices as operations on whole arrays |

mod data;
mod index;
mod maps;
#[cfg(test)]
pub(super) mod tests;

pub use maps::use_maps;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::lambda::{Builder, End, Prim, Program, Term, TermId, TypeId};
use crate::base::{Id, IndexId, RelationId, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Size, View};
use crate::reference::{Environment, Numeric};
use crate::scalar::{Comparison, Number};
use crate::term;
use crate::ty::{self, RelationKind, Signature};

const PASS: &str = "elaborate";

/// How many terms a zero that is written out may have.
const MOST_LEAVES: u64 = 1 << 12;
/// How many steps a loop may have, since all of them are made.
const MOST_STEPS: u64 = 1 << 24;

/// A program of the tensor language, for given sizes.
#[derive(Clone, Debug)]
pub struct Elaborated {
    /// The program: its parameters are those of the source, then relations.
    pub program: Program,
    /// These relations, in the order of the parameters.
    pub relations: Vec<RelationId>,
    /// The lengths of the leading axes of each parameter, up to its pairs or numbers.
    pub shapes: Vec<Vec<usize>>,
    signature: Arc<Signature>,
    types: ty::Types,
    result: ty::TypeId,
}

/// The program of the lambda calculus that a program of the tensor language is for given sizes and relations; of the latter only the shapes matter.
///
/// # Errors
/// [`Error::Limitation`] for projections of arrays of pairs, [`Error::Limit`] for large zeros and loops of many steps, [`Error::Overflow`].
pub fn elaborate<T: Numeric>(source: &term::Program, at: &Environment<T>) -> Result<Elaborated> {
    let mut pass = Elaborate::new(source, at)?;
    let mut done: Vec<Option<TermId>> = Vec::with_capacity(source.terms.len());
    for (e, term) in source.terms.iter() {
        let made = match pass.used[e.index()] {
            true => Some(pass.term(e, term, &done)?),
            false => None,
        };
        done.push(made);
    }
    let mut body = of(&done, source.root)?;
    for (p, _) in source.signature.params.iter().rev() {
        body = pass.with_extrema(source.param(p), body)?;
    }
    let relations = std::mem::take(&mut pass.relations);
    relations.values().for_each(|x| pass.b.push_param(*x));
    let shapes = shapes(source, relations.keys(), at)?;
    Ok(Elaborated {
        program: pass.b.finish(body)?,
        shapes,
        relations: relations.into_keys().collect(),
        signature: source.signature.clone(),
        types: source.types.clone(),
        result: source.ty(source.root),
    })
}

impl Elaborated {
    /// The same program with maps and reductions in the place of loops over indices, [`use_maps`].
    ///
    /// # Errors
    /// [`Error::Bug`] for a program that is not verified.
    pub fn with_maps(&self) -> Result<Program> {
        use_maps(&self.program, &self.shapes)
    }
}

/// The lengths of the leading axes of parameters, and of relations as parameters.
fn shapes<'r, T>(
    source: &term::Program,
    relations: impl Iterator<Item = &'r RelationId>,
    at: &Environment<T>,
) -> Result<Vec<Vec<usize>>> {
    let lengths = |dims: Vec<Size>| -> Result<Vec<usize>> {
        at.extents(&dims)?.into_iter().map(|n| usize::try_from(n).map_err(|_| Error::Overflow)).collect()
    };
    let signature = &source.signature;
    let mut shapes = Vec::new();
    for param in signature.params.values() {
        shapes.push(lengths(signature.types.peel(param.ty).0.into_iter().cloned().collect())?);
    }
    for r in relations {
        let relation =
            signature.relations.get(*r).ok_or_else(|| Error::bug(PASS, format!("an unknown relation {r}")))?;
        let rank = rank(relation);
        shapes.push(lengths(relation.shape.iter().take(rank).cloned().collect())?);
    }
    Ok(shapes)
}

/// The number of axes of a relation as a parameter: the targets of a map are its elements.
fn rank(relation: &ty::Relation) -> usize {
    relation.shape.len().saturating_sub(usize::from(relation.kind == RelationKind::Map))
}

/// What an operand has become.
fn of(done: &[Option<TermId>], e: term::TermId) -> Result<TermId> {
    done.get(e.index()).copied().flatten().ok_or_else(|| Error::bug(PASS, "an operand is missing"))
}

struct Elaborate<'a, T> {
    source: &'a term::Program,
    at: &'a Environment<T>,
    b: Builder,
    /// Which terms the program uses.
    used: Vec<bool>,
    variables: Vec<VarId>,
    indices: Vec<VarId>,
    /// The number of values that each index takes.
    ranges: Vec<u64>,
    /// The variables that relations are bound to.
    relations: BTreeMap<RelationId, VarId>,
    /// The variables that the places of extrema are bound to.
    extrema: BTreeMap<(VarId, View), VarId>,
}

impl<'a, T: Numeric> Elaborate<'a, T> {
    fn new(source: &'a term::Program, at: &'a Environment<T>) -> Result<Self> {
        let mut b = Builder::new();
        b.context.users = source.signature.functions.clone();
        let types = types(&mut b, &source.types);
        let ty_of = |ty: ty::TypeId| {
            types.get(ty.index()).copied().ok_or_else(|| Error::bug(PASS, format!("an unknown type {ty}")))
        };
        let mut variables = Vec::with_capacity(source.variables.len());
        for (_, variable) in source.variables.iter() {
            let ty = ty_of(variable.ty)?;
            variables.push(match variable.kind {
                term::VariableKind::Param(_) => b.param(&variable.name, ty),
                term::VariableKind::Let => b.fresh(&variable.name, ty),
            });
        }
        let int = b.types().int();
        let indices = source.indices.values().map(|name| b.fresh(name, int)).collect();
        let used = used(source);
        let mut pass = Elaborate {
            source,
            at,
            b,
            used,
            variables,
            indices,
            ranges: vec![0; source.indices.len()],
            relations: BTreeMap::new(),
            extrema: BTreeMap::new(),
        };
        for (e, term) in source.terms.iter() {
            if !pass.used[e.index()] {
                continue;
            }
            match term {
                term::Term::Gen { index, extent, .. } | term::Term::Sum { index, extent, .. } => {
                    pass.set_range(*index, extent)?;
                }
                term::Term::Scan { index, steps, .. } => {
                    pass.set_range(*index, steps)?;
                    let found = pass.at.extent(steps)?;
                    if found > MOST_STEPS {
                        return Err(Error::Limit { what: "steps of a loop", limit: MOST_STEPS, found });
                    }
                }
                term::Term::Iverson { guard, .. } => pass.bind_predicate(guard)?,
                term::Term::Access { index, .. } | term::Term::Number(Number::Index(index)) => {
                    pass.bind_affine(index)?
                }
                _ => {}
            }
        }
        Ok(pass)
    }

    fn set_range(&mut self, i: IndexId, extent: &Size) -> Result<()> {
        let extent = self.at.extent(extent)?;
        match self.ranges.get_mut(i.index()) {
            Some(range) => *range = extent,
            None => return Err(Error::bug(PASS, format!("an unknown index {i}"))),
        }
        Ok(())
    }

    fn variable(&self, x: crate::base::VarId) -> Result<VarId> {
        self.variables.get(x.index()).copied().ok_or_else(|| Error::bug(PASS, format!("an unknown variable {x}")))
    }

    fn index_variable(&self, i: IndexId) -> Result<VarId> {
        self.indices.get(i.index()).copied().ok_or_else(|| Error::bug(PASS, format!("an unknown index {i}")))
    }

    fn extent(&mut self, extent: &Size) -> Result<TermId> {
        let n = i64::try_from(self.at.extent(extent)?).map_err(|_| Error::Overflow)?;
        self.b.int(n)
    }

    /// `[[e]]`, where the operands are done.
    fn term(&mut self, e: term::TermId, term: &term::Term, done: &[Option<TermId>]) -> Result<TermId> {
        Ok(match term {
            term::Term::Number(Number::Literal(x)) => self.b.real(*x)?,
            term::Term::Number(Number::Index(a)) => match self.affine(a)? {
                Some(k) => self.b.prim(Prim::ToReal, &[k])?,
                None => self.b.real(0.0)?,
            },
            term::Term::Var(x) => {
                let x = self.variable(*x)?;
                self.b.var(x)
            }
            term::Term::Add(a, b) => self.b.add(of(done, *a)?, of(done, *b)?)?,
            term::Term::Mul(a, b) => self.b.mul(of(done, *a)?, of(done, *b)?)?,
            term::Term::Apply(function, args) => {
                let args = args.iter().map(|a| of(done, *a)).collect::<Result<Vec<_>>>()?;
                self.b.prim(Prim::Scalar(*function), &args)?
            }
            term::Term::Call { .. } => {
                let feature = "a function of tensors from outside in the lambda calculus".to_owned();
                return Err(Error::Limitation { feature, span: None });
            }
            term::Term::Pair(a, b) => self.b.pair(of(done, *a)?, of(done, *b)?)?,
            term::Term::Fst(a) | term::Term::Snd(a) => {
                if let ty::Type::Tensor(..) = self.source.types.get(self.source.ty(*a)) {
                    let feature = "the projection of an array of pairs in the lambda calculus".to_string();
                    return Err(Error::Limitation { feature, span: None });
                }
                match term {
                    term::Term::Fst(_) => self.b.fst(of(done, *a)?)?,
                    _ => self.b.snd(of(done, *a)?)?,
                }
            }
            term::Term::Gen { index, extent, body } => {
                let n = self.extent(extent)?;
                self.b.push(Term::Build(n, self.index_variable(*index)?, of(done, *body)?))?
            }
            term::Term::Sum { index, extent, body } => {
                let n = self.extent(extent)?;
                let summands = self.b.push(Term::Build(n, self.index_variable(*index)?, of(done, *body)?))?;
                self.b.prim(Prim::Sum, &[summands])?
            }
            term::Term::Access { array, index } => self.access(e, *array, index, done)?,
            term::Term::Iverson { guard, body } => {
                let (guard, body) = (self.predicate(guard)?, of(done, *body)?);
                self.select(guard, body, self.source.ty(e))?
            }
            term::Term::Let { var, value, body } => {
                let body = self.with_extrema(*var, of(done, *body)?)?;
                self.b.push(Term::Let(self.variable(*var)?, of(done, *value)?, body))?
            }
            term::Term::Scan { index, steps, down, state, init, body } => {
                let n = self.extent(steps)?;
                let array = self.b.build(n, "t", |b, t| Ok(b.var(t)))?;
                let (index, x) = (self.index_variable(*index)?, self.variable(*state)?);
                let (init, body) = (of(done, *init)?, self.with_extrema(*state, of(done, *body)?)?);
                let (from, vars) = if *down { (End::Last, (index, x)) } else { (End::First, (x, index)) };
                self.b.push(Term::Scan { from, vars, body, init, array })?
            }
        })
    }

    /// An element of an array, zero where an index has no value; the last state of a scan is a fold.
    fn access(
        &mut self,
        e: term::TermId,
        array: term::TermId,
        index: &Affine,
        done: &[Option<TermId>],
    ) -> Result<TermId> {
        if let term::Term::Scan { index: t, steps, down, state, init, body } = &self.source.terms[array]
            && index.is_size()
        {
            let n = i64::try_from(self.at.extent(steps)?).map_err(|_| Error::Overflow)?;
            let last = if *down { 0 } else { n };
            if self.constant(index)? == Some(last) {
                let (t, state_var) = (self.index_variable(*t)?, self.variable(*state)?);
                let (init, mut body) = (of(done, *init)?, self.with_extrema(*state, of(done, *body)?)?);
                let mut index = t;
                if *down {
                    // The step at t of the fold is that at n - 1 - t of the scan.
                    let int = self.b.types().int();
                    index = self.b.fresh("t", int);
                    let step = self.b.var(index);
                    let (minus, last) = (self.b.prim(Prim::IntNeg, &[step])?, self.b.int(n - 1)?);
                    let back = self.b.prim(Prim::IntAdd, &[last, minus])?;
                    body = self.b.push(Term::Let(t, back, body))?;
                }
                let count = self.b.int(n)?;
                return self.b.push(Term::Fold { count, index, state: state_var, init, body });
            }
        }
        match self.affine(index)? {
            Some(k) => self.b.index(of(done, array)?, k),
            None => self.zero(self.source.ty(e)),
        }
    }

    /// Zero of a type.
    fn zero(&mut self, ty: ty::TypeId) -> Result<TermId> {
        enum Step {
            Visit(ty::TypeId),
            Pair,
            Build(i64),
        }
        let (mut todo, mut made, mut leaves) = (vec![Step::Visit(ty)], Vec::new(), 0);
        while let Some(step) = todo.pop() {
            match step {
                Step::Visit(ty) => match self.source.types.get(ty) {
                    ty::Type::Real => {
                        leaves += 1;
                        if leaves > MOST_LEAVES {
                            let what = "terms of a zero in the lambda calculus";
                            return Err(Error::Limit { what, limit: MOST_LEAVES, found: leaves });
                        }
                        made.push(self.b.real(0.0)?);
                    }
                    ty::Type::Pair(a, b) => todo.extend([Step::Pair, Step::Visit(*b), Step::Visit(*a)]),
                    ty::Type::Tensor(n, element) => {
                        let n = i64::try_from(self.at.extent(n)?).map_err(|_| Error::Overflow)?;
                        todo.extend([Step::Build(n), Step::Visit(*element)]);
                    }
                },
                Step::Pair => {
                    let (b, a) = (pop(&mut made)?, pop(&mut made)?);
                    made.push(self.b.pair(a, b)?);
                }
                Step::Build(n) => {
                    let (n, element) = (self.b.int(n)?, pop(&mut made)?);
                    let int = self.b.types().int();
                    let i = self.b.fresh("i", int);
                    made.push(self.b.push(Term::Build(n, i, element))?);
                }
            }
        }
        pop(&mut made)
    }

    /// A term in which the places of the extrema of a variable are bound, as far as the program asks for them.
    fn with_extrema(&mut self, x: crate::base::VarId, body: TermId) -> Result<TermId> {
        let views: Vec<(View, VarId)> =
            self.extrema.range((x, View::Support)..=(x, View::ArgMin)).map(|((_, view), at)| (*view, *at)).collect();
        views.into_iter().try_fold(body, |body, (view, at)| {
            let places = self.places(x, view)?;
            self.b.push(Term::Let(at, places, body))
        })
    }

    /// `build n (i. ..)` over all axes but the last, of the place of the largest or smallest element along that one.
    ///
    /// ```text
    /// fold k < n, best = 0. if x ! k is better than x ! best then k else best
    /// ```
    fn places(&mut self, x: crate::base::VarId, view: View) -> Result<TermId> {
        let dims = self.dims(x)?;
        let (last, outer) = dims.split_last().ok_or_else(|| Error::bug(PASS, "an extremum of a number"))?;
        let int = self.b.types().int();
        let outer: Vec<(i64, VarId)> = outer.iter().map(|n| (*n, self.b.fresh("i", int))).collect();
        let (t, best) = (self.b.fresh("k", int), self.b.fresh("best", int));
        let row = |pass: &mut Self, at: VarId| {
            let array = pass.variable(x)?;
            let row = pass.b.var(array);
            outer.iter().map(|(_, i)| *i).chain([at]).try_fold(row, |row, i| {
                let i = pass.b.var(i);
                pass.b.index(row, i)
            })
        };
        // A NaN is beyond everything, and the first one is the place.
        let is_number = |pass: &mut Self, at: VarId| {
            let (a, b) = (row(pass, at)?, row(pass, at)?);
            pass.b.compare(Comparison::Equal, a, b)
        };
        let (now, before) = (row(self, t)?, row(self, best)?);
        let beyond = match view {
            View::ArgMin => self.b.compare(Comparison::Less, now, before)?,
            _ => self.b.compare(Comparison::Less, before, now)?,
        };
        let (number, before) = (is_number(self, t)?, is_number(self, best)?);
        let nan = self.not(number)?;
        let truth = self.truth(true)?;
        let better = self.if_(beyond, truth, nan)?;
        let (yes, no) = (self.b.var(t), self.b.var(best));
        let better = self.if_(better, yes, no)?;
        let stay = self.b.var(best);
        let body = self.if_(before, better, stay)?;
        let (count, init) = (self.b.int(*last)?, self.b.int(0)?);
        let place = self.b.push(Term::Fold { count, index: t, state: best, init, body })?;
        outer.into_iter().rev().try_fold(place, |place, (n, i)| {
            let n = self.b.int(n)?;
            self.b.push(Term::Build(n, i, place))
        })
    }

    /// The axes of a variable that holds a tensor of reals.
    fn dims(&self, x: crate::base::VarId) -> Result<Vec<i64>> {
        let variable = self.source.variables.get(x);
        let dims = variable.and_then(|variable| self.source.types.real_dims(variable.ty));
        let dims = dims.ok_or_else(|| Error::bug(PASS, "a relation that is computed from no tensor of reals"))?;
        self.at.extents(&dims)?.into_iter().map(|n| i64::try_from(n).map_err(|_| Error::Overflow)).collect()
    }

    /// `if c then a else b`.
    fn if_(&mut self, c: TermId, a: TermId, b: TermId) -> Result<TermId> {
        let unit = self.b.types().unit();
        let (x, y) = (self.b.fresh("_", unit), self.b.fresh("_", unit));
        self.b.push(Term::Case(c, (x, a), (y, b)))
    }

    fn truth(&mut self, holds: bool) -> Result<TermId> {
        let (unit, ty) = (self.b.unit()?, self.b.types().boolean());
        self.b.push(if holds { Term::Inl(ty, unit) } else { Term::Inr(ty, unit) })
    }

    fn not(&mut self, c: TermId) -> Result<TermId> {
        let (no, yes) = (self.truth(false)?, self.truth(true)?);
        self.if_(c, no, yes)
    }

    /// The variable of a relation, an array of targets or of 0 and 1.
    fn bind_relation(&mut self, r: RelationId) -> Result<()> {
        if self.relations.contains_key(&r) {
            return Ok(());
        }
        let relation = self.source.signature.relations.get(r);
        let relation = relation.ok_or_else(|| Error::bug(PASS, format!("an unknown relation {r}")))?;
        let rank = rank(relation);
        let int = self.b.types().int();
        let ty = (0..rank).fold(int, |ty, _| self.b.types().array(ty));
        let x = self.b.fresh(&relation.name.replace('?', "_pattern"), ty);
        self.relations.insert(r, x);
        Ok(())
    }
}

fn pop<V>(stack: &mut Vec<V>) -> Result<V> {
    stack.pop().ok_or_else(|| Error::bug(PASS, "an operand is missing"))
}

/// The types of the lambda calculus that types of the tensor language are.
fn types(b: &mut Builder, source: &ty::Types) -> Vec<TypeId> {
    let mut types: Vec<TypeId> = Vec::new();
    for (_, ty) in source.iter() {
        let ty = match ty {
            ty::Type::Real => b.types().real(),
            ty::Type::Pair(x, y) => {
                let (x, y) = (types[x.index()], types[y.index()]);
                b.types().pair(x, y)
            }
            ty::Type::Tensor(_, element) => {
                let element = types[element.index()];
                b.types().array(element)
            }
        };
        types.push(ty);
    }
    types
}

/// Which terms a program uses.
fn used(source: &term::Program) -> Vec<bool> {
    let mut used = vec![false; source.terms.len()];
    if let Some(root) = used.get_mut(source.root.index()) {
        *root = true;
    }
    for (e, term) in source.terms.iter().rev() {
        if used[e.index()] {
            term.for_each_operand(|operand| used[operand.index()] = true);
        }
    }
    used
}
