//! Where the elements of tensors may differ from zero, whatever the numbers of the parameters are.
//!
//! The support of a tensor is a union of *clauses*: conjunctions over its `gen` indices and further ones, which are bound by `exists`.
//!
//! ```text
//! S[ A, a sparse parameter ]             = A?(g)
//! S[ c ]                                 = c != 0, for an index expression or a literal
//! S[ sum s. [p] * X[a] * Y[b] ]          = exists s. p and S[X](a) and S[Y](b)
//! S[ [p] * X + [q] * Y ]                 = (p and S[X]) or (q and S[Y])
//! S[ [p] * f(X) ]                        = p, and S[X] where f(0) = 0
//! S[ [p] * X / Y ]                       = p and S[X]
//! ```
//!
//! It says too much rather than too little: guards on numbers are left out, and so is an index that nothing ties to the others.
//!
//! A guard that several operands have comes as often, each time with bound indices of its own. Such a copy says nothing that another index
//! does not say, and goes: otherwise each statement of a long chain would add one, and a walk would try all combinations of them.
//!
//! ```text
//! exists a b. P(a) and P(b)  ==  exists a. P(a)            since a is a b
//! P(i) and exists a. P(a)    ==  P(i)                      since i is an a
//! ```

use std::cell::LazyCell;

use crate::base::{Id, IndexId, SideTable, VarId};
use crate::error::Result;
use crate::index::bounds::{Said, tightest};
use crate::index::{Affine, Checked, Pred, RelationRef, Size};
use crate::scalar::Number;
use crate::solver::{Relations, simplify_union, solutions};
use crate::tssa::patterns::Pattern;
use crate::tssa::vanishing::keeps_zero;
use crate::tssa::{Program, Rhs, Stmt};

/// Of a tensor with more clauses only what they have in common is kept.
const MAX_CLAUSES: usize = 64;
/// How many clauses a support may have to be a guard of those who read the tensor.
const MAX_GUARDED: usize = 8;

/// How many conjuncts a clause has; the others go. In a chain whose statements have guards of different forms each would add one.
const MAX_CONJUNCTS: usize = 256;

/// How many indices a clause binds; what is said of those that are further from the `gen` indices goes. In a chain of products with a sparse matrix
/// each statement would add one.
const MAX_BOUND: usize = 8;

/// A conjunction over `gen` indices, numbered from 0 on, and indices behind them that it binds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Clause {
    /// The ranges of the indices that it binds.
    pub bound: Vec<Size>,
    pub conjuncts: Vec<Pred>,
}

/// The support of a statement, where those of its operands are known.
type Support = Vec<Clause>;

/// The supports of all statements that an output needs.
pub(super) fn supports(program: &Program) -> Result<SideTable<VarId, Support>> {
    let mut all: SideTable<VarId, Support> = SideTable::new(program.stmts.len(), Vec::new());
    let live = program.live();
    for (x, stmt) in program.stmts.iter().filter(|(x, _)| live[*x]) {
        let mut support = of_statement(program, stmt, &all)?;
        for clause in &mut support {
            clause.tidy(program, &stmt.dims)?;
        }
        support = without_implied(support);
        if support.len() > MAX_CLAUSES {
            support = vec![common(&support, stmt.dims.len())];
        }
        all.set(x, support);
    }
    Ok(all)
}

/// A support as a predicate over `gen` indices, for loops to follow: its only clause, or an `or` of clauses each of which gives some index by
/// an equation or a relation. What a clause says of the indices that it binds is left out, and what their ranges say; so is what excludes single
/// places, since loops with a hole are no products in blocks.
pub(super) fn as_guard(program: &Program, support: &Support, dims: &[Size]) -> Pred {
    let rank = dims.len();
    let facts = LazyCell::new(|| {
        let ranges: Vec<(IndexId, Size)> = (0..).map(IndexId).zip(dims.iter().cloned()).collect();
        program.signature.facts().under(&ranges, [])
    });
    let is_followed = |p: &Pred| match p {
        Pred::NonNegative(_) => !facts.proves(p),
        Pred::NonZero(_) | Pred::Relation { holds: false, .. } => false,
        _ => true,
    };
    let clause =
        |clause: &Clause| Pred::all(clause.of_gens(rank).filter(|p| is_followed(p)).cloned().collect::<Vec<_>>());
    match support.as_slice() {
        [only] => clause(only),
        all if all.len() > MAX_GUARDED => Pred::True,
        all => {
            let any = Pred::any(all.iter().map(clause).collect::<Vec<_>>());
            let gives = |p: &Pred| {
                let entry = matches!(p, Pred::Relation { relation: RelationRef::Input(_), holds: true, .. });
                entry || matches!(p, Pred::Zero(_))
            };
            if all.iter().all(|clause| clause.of_gens(rank).any(gives)) {
                return any;
            }
            // Ranges that touch are one, as the diagonal and what is below it; bounds of other forms would be those of some corners.
            let one = simplify_union(&any, &facts);
            if one.conjuncts().iter().all(|p| is_bound_of(p, &any)) { one } else { Pred::True }
        }
    }
}

/// Whether a predicate is a bound of what another one has atoms of.
fn is_bound_of(p: &Pred, whole: &Pred) -> bool {
    let form = |p: &Pred| match p {
        Pred::NonNegative(a) | Pred::Zero(a) => Some(a.clone()),
        _ => None,
    };
    let Some(a) = form(p) else { return p.is_true() };
    let differ_by_number =
        |b: &Affine| [a.sub(b), a.add(b)].iter().any(|c| c.as_ref().is_ok_and(|c| c.as_constant().is_some()));
    let mut found = false;
    whole.visit_atoms(&mut |atom| found |= form(atom).is_some_and(|b| differ_by_number(&b)));
    found
}

/// The targets that a support asks to be in use: `exists s. f(s, g)` of a map, where nothing else is said of the axis `g`.
pub(super) fn targets_in_use(program: &Program, support: &Support, dims: &[Size]) -> Pred {
    let [clause] = support.as_slice() else { return Pred::True };
    let rank = dims.len();
    let target_in_use = |p: &Pred| {
        let extent = |i: IndexId| dims.iter().chain(&clause.bound).nth(i.index());
        let Pattern { relation: map, axes } = Pattern::of_map(&program.signature, p, extent)?;
        let (target, sources) = axes.split_last()?;
        let said = clause.of_gens(rank).any(|p| p.mentions(IndexId::from_index(*target)));
        if said || *target >= rank || sources.iter().any(|source| *source < rank) {
            return None;
        }
        // Bound indices are numbered on from the axes.
        let sizes = &program.signature.relations.get(map)?.shape[..sources.len()];
        let bound = (rank..).map(IndexId::from_index).zip(sizes.iter().cloned());
        let args = (rank..rank + sources.len()).chain([*target]).map(|k| IndexId::from_index(k).into()).collect();
        let bound: Vec<(IndexId, Size)> = bound.collect();
        Some(Pred::exists_each(bound.into_iter(), Pred::relation(RelationRef::Input(map), args)))
    };
    clause.conjuncts.iter().find_map(target_in_use).unwrap_or(Pred::True)
}

/// Without clauses that say all that another says, and perhaps more.
fn without_implied(support: Support) -> Support {
    let mut kept: Support = Vec::new();
    for clause in support {
        if !kept.iter().any(|other| clause.implies(other)) {
            kept.retain(|other| !other.implies(&clause));
            kept.push(clause);
        }
    }
    kept
}

/// What all clauses say of `gen` indices alone.
fn common(support: &Support, rank: usize) -> Clause {
    let Some((first, rest)) = support.split_first() else { return Clause::default() };
    let shared = first.of_gens(rank).filter(|p| rest.iter().all(|other| other.conjuncts.contains(p)));
    Clause { bound: Vec::new(), conjuncts: shared.cloned().collect() }
}

fn of_statement(program: &Program, stmt: &Stmt, known: &SideTable<VarId, Support>) -> Result<Support> {
    let rank = stmt.dims.len();
    let gens: Vec<Affine> = (0..rank).map(|k| IndexId::from_index(k).into()).collect();
    let under = |p: &Pred, x: VarId| both(clauses(p, rank), &known[x], &gens, rank);
    Ok(match &stmt.rhs {
        Rhs::Input { param, .. } => {
            let pattern = program.signature.params[*param].storage.pattern();
            let pattern = pattern.map(|r| Pred::relation(RelationRef::Input(r), gens));
            vec![Clause { bound: Vec::new(), conjuncts: pattern.into_iter().collect() }]
        }
        Rhs::Number(Number::Literal(0.0)) => Vec::new(),
        // An index that is 0 at some place annihilates nothing there.
        Rhs::Number(_) => vec![Clause::default()],
        Rhs::Add([(p, x), (q, y)]) => [under(p, *x)?, under(q, *y)?].concat(),
        Rhs::Map { guard, function, args } => {
            let zero_of = |zero: &dyn Fn(usize) -> bool| {
                keeps_zero(&program.signature, *function, &(0..args.len()).map(zero).collect::<Vec<_>>())
            };
            if let Some(k) = (0..args.len()).find(|k| zero_of(&|other| other == *k)) {
                under(guard, args[k])?
            } else if zero_of(&|_| true) {
                let mut union = Vec::new();
                for x in args {
                    union.extend(under(guard, *x)?);
                }
                union
            } else {
                clauses(guard, rank)
            }
        }
        Rhs::Contract { sums, guard, operands } => {
            // The `sum` indices come first among those that a clause binds.
            let mut product = clauses(guard, rank + sums.len());
            for clause in &mut product {
                clause.bound.splice(0..0, sums.iter().cloned());
            }
            for operand in operands {
                let at: Vec<Affine> = operand.indices.iter().map(|i| (*i).into()).collect();
                product = both(product, &known[operand.var], &at, rank)?;
            }
            product
        }
    })
}

/// The clauses of a guard, which binds indices from `next` on.
fn clauses(p: &Pred, next: usize) -> Support {
    match p {
        Pred::True => vec![Clause::default()],
        Pred::False => Vec::new(),
        // These depend on numbers.
        Pred::Relation { relation: RelationRef::Computed { .. }, .. } => vec![Clause::default()],
        Pred::NonNegative(_) | Pred::Zero(_) | Pred::NonZero(_) | Pred::Relation { .. } => {
            vec![Clause { bound: Vec::new(), conjuncts: vec![p.clone()] }]
        }
        Pred::Any(ps) => ps.iter().flat_map(|p| clauses(p, next)).collect(),
        Pred::All(ps) => {
            let mut all = vec![Clause::default()];
            for p in ps.iter() {
                let mut longer = Vec::new();
                for left in &all {
                    // Siblings bind the same numbers, so those of the right are moved behind those of the left.
                    for right in clauses(p, next) {
                        longer.extend(left.clone().and(&right, next));
                    }
                }
                // Of too many cases what the others say is kept.
                if longer.len() > MAX_CLAUSES {
                    continue;
                }
                all = longer;
            }
            all
        }
        Pred::Exists { index, extent, body } => {
            let mut inner = clauses(body, next + 1);
            for clause in &mut inner {
                clause.bound.insert(0, extent.clone());
            }
            if index.index() == next { inner } else { vec![Clause::default()] }
        }
    }
}

/// Each clause of the left with each of an operand that is read at these indices; the left alone where these are too many.
fn both(left: Support, operand: &Support, at: &[Affine], rank: usize) -> Result<Support> {
    // A dense tensor says nothing.
    if matches!(operand.as_slice(), [clause] if *clause == Clause::default())
        || left.len() * operand.len() > MAX_CLAUSES
    {
        return Ok(left);
    }
    let mut all = Vec::new();
    for clause in &left {
        for other in operand {
            let (first, own) = (rank + clause.bound.len(), at.len());
            let rename = |i: IndexId| match i.index().checked_sub(own) {
                None => at.get(i.index()).cloned(),
                Some(k) => Some(IndexId::from_index(first + k).into()),
            };
            let mut longer = clause.clone();
            longer.bound.extend(other.bound.iter().cloned());
            for p in &other.conjuncts {
                longer.conjuncts.push(p.substitute(&rename)?);
            }
            all.push(longer);
        }
    }
    Ok(all)
}

impl Clause {
    /// What it says of `gen` indices alone.
    fn of_gens(&self, rank: usize) -> impl Iterator<Item = &Pred> {
        let bound = rank..rank + self.bound.len();
        self.conjuncts.iter().filter(move |p| bound.clone().all(|k| !p.mentions(IndexId::from_index(k))))
    }

    /// Whether it has all conjuncts of another, with the same bound indices.
    fn implies(&self, other: &Clause) -> bool {
        self.bound.starts_with(&other.bound) && {
            let said = Said::by(&self.conjuncts);
            other.conjuncts.iter().all(|p| said.implies(p))
        }
    }

    /// Both clauses of one guard, whose bound indices start at `next`.
    fn and(mut self, other: &Clause, next: usize) -> Option<Clause> {
        let shift = self.bound.len();
        let rename = |i: IndexId| (i.index() >= next).then(|| IndexId::from_index(i.index() + shift).into());
        self.bound.extend(other.bound.iter().cloned());
        for p in &other.conjuncts {
            self.conjuncts.push(p.substitute(&rename).ok()?);
        }
        Some(self)
    }

    /// Solves for bound indices that an equation gives, and drops those that nothing ties to the `gen` indices, and targets of maps of which
    /// nothing else is said.
    fn tidy(&mut self, program: &Program, dims: &[Size]) -> Checked<()> {
        let rank = dims.len();
        let bound: Vec<IndexId> = (0..self.bound.len()).map(|k| IndexId::from_index(rank + k)).collect();
        let first = |clause: &Clause| solutions(&bound, &clause.conjuncts).next();
        while let Some((at, i, value)) = first(self) {
            self.conjuncts.remove(at);
            let extent = self.bound[i.index() - rank].clone();
            for p in &mut self.conjuncts {
                *p = p.substitute(&|j| (j == i).then(|| value.clone()))?;
            }
            self.conjuncts.extend(Pred::in_range(&value, &extent)?.conjuncts().iter().cloned());
        }
        while let Some((at, within)) = self.target(program, rank)? {
            self.conjuncts.remove(at);
            self.conjuncts.extend(within.conjuncts().iter().cloned());
        }
        while let Some(k) = self.copy(dims)? {
            let i = IndexId::from_index(rank + k);
            self.conjuncts.retain(|p| !p.mentions(i));
        }
        // By how many conjuncts, one after the other, an index is tied to `gen` indices.
        let mut distance: Vec<Option<usize>> = vec![None; self.bound.len()];
        let mentions = |p: &Pred, k: usize| p.mentions(IndexId::from_index(k));
        for step in 0..=self.bound.len() {
            let before = distance.clone();
            for p in &self.conjuncts {
                let reaches = (0..rank).any(|k| mentions(p, k))
                    || before.iter().enumerate().any(|(k, tied)| tied.is_some() && mentions(p, rank + k));
                for (k, tied) in distance.iter_mut().enumerate() {
                    if reaches && tied.is_none() && mentions(p, rank + k) {
                        *tied = Some(step);
                    }
                }
            }
            if distance == before {
                break;
            }
        }
        let mut nearest: Vec<(usize, usize)> =
            distance.iter().enumerate().filter_map(|(k, tied)| Some(((*tied)?, k))).collect();
        nearest.sort_unstable();
        let mut tied = vec![false; self.bound.len()];
        nearest.into_iter().take(MAX_BOUND).for_each(|(_, k)| tied[k] = true);
        let mut names = Vec::new();
        let mut kept = Vec::new();
        for (k, extent) in std::mem::take(&mut self.bound).into_iter().enumerate() {
            names.push(tied[k].then(|| IndexId::from_index(rank + kept.len())));
            if tied[k] {
                kept.push(extent);
            }
        }
        self.bound = kept;
        self.conjuncts.retain(|p| !names.iter().enumerate().any(|(k, name)| name.is_none() && mentions(p, rank + k)));
        let rename = |i: IndexId| i.index().checked_sub(rank).and_then(|k| *names.get(k)?).map(Affine::from);
        let renamed = self.conjuncts.iter().map(|p| p.substitute(&rename)).collect::<Checked<Vec<_>>>()?;
        self.conjuncts = tightest(&renamed);
        self.conjuncts.truncate(MAX_CONJUNCTS);
        Ok(())
    }

    /// A bound index that another index of its range can stand for: everything said of it is said of the other.
    fn copy(&self, dims: &[Size]) -> Checked<Option<usize>> {
        if self.bound.is_empty() {
            return Ok(None);
        }
        let all = Said::by(&self.conjuncts);
        for (k, extent) in self.bound.iter().enumerate() {
            let i = IndexId::from_index(dims.len() + k);
            let own: Vec<&Pred> = self.conjuncts.iter().filter(|p| p.mentions(i)).collect();
            if own.is_empty() {
                continue;
            }
            for (at, n) in dims.iter().chain(&self.bound).enumerate() {
                let other = IndexId::from_index(at);
                if other == i || n != extent {
                    continue;
                }
                let mut said = true;
                for p in &own {
                    let p = p.substitute(&|j| (j == i).then(|| other.into()))?;
                    said &= all.implies(&p);
                    if !said {
                        break;
                    }
                }
                if said {
                    return Ok(Some(k));
                }
            }
        }
        Ok(None)
    }

    /// `f(a) = b` with an index `b` that nothing else mentions: every source `a` of a map has a target, and this says that it is one.
    fn target(&self, program: &Program, rank: usize) -> Checked<Option<(usize, Pred)>> {
        for (at, p) in self.conjuncts.iter().enumerate() {
            let Pred::Relation { relation: relation @ RelationRef::Input(r), args, holds: true } = p else { continue };
            let shape = program.signature.relations.get(*r).map_or(&[][..], |relation| &relation.shape);
            let (Some((target, sources)), Some((range, sizes))) = (args.split_last(), shape.split_last()) else {
                continue;
            };
            let Some(i) = target.as_index() else { continue };
            let bound = i.index().checked_sub(rank).and_then(|k| self.bound.get(k));
            let others = self.conjuncts.iter().enumerate().any(|(other, p)| other != at && p.mentions(i));
            if !program.signature.is_map(*relation)
                || bound != Some(range)
                || others
                || sources.iter().any(|a| a.mentions(i))
            {
                continue;
            }
            let within = sources.iter().zip(sizes).map(|(a, n)| Pred::in_range(a, n));
            return Ok(Some((at, Pred::all(within.collect::<Checked<Vec<_>>>()?))));
        }
        Ok(None)
    }
}
