//! A sum over all pairs whose terms are the same both ways is twice that over half of the pairs.
//!
//! ```text
//! sum i < n, j < n. e(i, j)   ==   2 * (sum i < n, j < n. [j < i] * e(i, j)) + (sum i < n. e(i, i))   where   e(i, j) = e(j, i)
//! ```
//!
//! Energies of pairs, quadratic forms of kernel matrices and normalisers over all pairs are such. Both sums may be of one statement, or one of a
//! statement that another one sums over: `sum i. a[i] * t[i]` where `t = gen i. sum j. K[i, j] * a[j]` is read nowhere else.
//!
//! **Why it is right.** [`exchanges`](crate::tssa::exchanges) says when terms are the same, to the bit. The pairs with `j < i` and those with `i < j` have the
//! same sum then, and what is left has `i = j`; the terms are in another order.
//!
//! **It is not more work.** Half of the terms are left out, and as many are computed as there are places. That would be no gain where all terms are
//! computed anyway, for a sum beside it that runs over the same pairs: so what depends on both places may be read by such sums alone, or by sums that
//! have to wait for this one.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use crate::base::{Id, IndexId, SideTable, VarId, work};
use crate::error::{Error, Result};
use crate::index::{Affine, Checked, Pred, RelationRef, Size};
use crate::scalar::Number;
use crate::solver::Facts;
use crate::tssa::exchanges::{Exchanges, exchanges, is_even, ranges};
use crate::tssa::{Builder, Operand, Program, Rhs, Stmt};

/// The program in which such sums are over half of the pairs.
pub(super) fn halved(program: &Program) -> Result<Cow<'_, Program>> {
    let mut known = None;
    let readers = readers(program);
    let mut found: Vec<Pairs> = Vec::new();
    for (x, stmt) in program.stmts.iter() {
        for pairs in candidates(program, &readers, x, stmt) {
            let known = known.get_or_insert_with(|| exchanges(program));
            // What leaves the range of integers stays as it is.
            if pairs.are_even(program, known).unwrap_or(false) {
                found.push(Pairs { depend: pairs.depend(program), ..pairs });
                break;
            }
        }
    }
    while let Some(at) = found.iter().position(|pairs| !pairs.gain(program, &readers, &found)) {
        found.swap_remove(at);
    }
    if found.is_empty() {
        return Ok(Cow::Borrowed(program));
    }
    let mut builder = Builder::new(program.signature.clone());
    let mut vars: Vars = SideTable::new(program.stmts.len(), None);
    let outputs = builder.append_with(program, |builder, x, stmt| {
        let y = match found.iter().find(|pairs| pairs.outer == x) {
            Some(pairs) => pairs.halves(program, &vars, builder)?,
            None => builder.push(stmt)?,
        };
        vars.set(x, Some(y));
        Ok(y)
    })?;
    Ok(Cow::Owned(builder.finish(outputs).prune()?))
}

/// Who reads each tensor, results aside.
fn readers(program: &Program) -> SideTable<VarId, Vec<VarId>> {
    let mut readers: SideTable<VarId, Vec<VarId>> = SideTable::new(program.stmts.len(), Vec::new());
    for (x, stmt) in program.stmts.iter() {
        stmt.rhs.for_each_operand(|y| readers[y].push(x));
    }
    readers
}

/// A sum over pairs.
struct Pairs {
    /// The statement, and which of its operands is the sum over the second place, if that is a statement of its own.
    outer: VarId,
    inner: Option<usize>,
    /// The indices of a pair, numbered in the outer statement, its sums, and those of the inner one behind them.
    places: [IndexId; 2],
    /// What depends on both places, with the axes that have them.
    depend: BTreeSet<(VarId, Axes)>,
}

/// The sums over two places of equal ranges in a statement, some of which may be those of an operand.
fn candidates(program: &Program, readers: &SideTable<VarId, Vec<VarId>>, x: VarId, stmt: &Stmt) -> Vec<Pairs> {
    let Rhs::Contract { sums, operands, .. } = &stmt.rhs else { return Vec::new() };
    let rank = stmt.dims.len();
    let number = |k: usize| IndexId::from_index(rank + k);
    let mut found = Vec::new();
    let mut pair = |a: usize, n: &Size, b: usize, m: &Size, inner: Option<usize>| {
        if n == m && n.as_constant().is_none() {
            found.push(Pairs { outer: x, inner, places: [number(a), number(b)], depend: BTreeSet::new() });
        }
    };
    for (b, m) in sums.iter().enumerate() {
        sums.iter().take(b).enumerate().for_each(|(a, n)| pair(a, n, b, m, None));
    }
    for (k, operand) in operands.iter().enumerate() {
        let inner = &program.stmts[operand.var];
        let is_own =
            matches!(readers[operand.var].as_slice(), [reader] if *reader == x) && !is_result(program, operand.var);
        if !is_own || inner.rhs.sums().is_empty() {
            continue;
        }
        let read = |a: usize| operand.indices.iter().filter(|i| **i == number(a)).count() == 1;
        for (a, n) in sums.iter().enumerate().filter(|(a, _)| read(*a)) {
            inner.rhs.sums().iter().enumerate().for_each(|(b, m)| pair(a, n, sums.len() + b, m, Some(k)));
        }
    }
    found
}

fn is_result(program: &Program, x: VarId) -> bool {
    program.outputs.iter().any(|output| output.leaves.contains(&x))
}

impl Pairs {
    /// What is summed: a guard, and what is read where.
    fn summand(&self, program: &Program) -> Checked<Option<(Pred, Vec<Operand>)>> {
        let stmt = &program.stmts[self.outer];
        let Rhs::Contract { sums, guard, operands } = &stmt.rhs else { return Ok(None) };
        let Some(operand) = self.inner.and_then(|k| operands.get(k)) else {
            return Ok(Some((guard.clone(), operands.clone())));
        };
        let inner = &program.stmts[operand.var];
        let Rhs::Contract { guard: own, operands: factors, .. } = &inner.rhs else { return Ok(None) };
        // The axes of the inner statement are the indices at which it is read, its sums come behind those of the outer one.
        let first = stmt.dims.len() + sums.len();
        let name = |i: IndexId| match i.index().checked_sub(inner.dims.len()) {
            Some(k) => Some(IndexId::from_index(first + k)),
            None => operand.indices.get(i.index()).copied(),
        };
        let guard = guard.clone().and(own.substitute(&|i| name(i).map(Affine::index))?);
        let others =
            operands.iter().enumerate().filter(|(k, _)| Some(*k) != self.inner).map(|(_, other)| other.clone());
        let factors = factors
            .iter()
            .map(|x| Operand { var: x.var, indices: x.indices.iter().filter_map(|i| name(*i)).collect() });
        Ok(Some((guard, others.chain(factors).collect())))
    }

    /// The ranges of the indices, numbered as places are.
    fn ranges(&self, program: &Program) -> Vec<(IndexId, Size)> {
        let stmt = &program.stmts[self.outer];
        let inner = self.inner.and_then(|k| inner_of(stmt, k)).map_or(&[][..], |x| program.stmts[x].rhs.sums());
        ranges(stmt.dims.iter().chain(stmt.rhs.sums()).chain(inner))
    }

    /// Whether a term is the same with its places exchanged.
    fn are_even(&self, program: &Program, known: &SideTable<VarId, Exchanges>) -> Checked<bool> {
        let Some((guard, reads)) = self.summand(program)? else { return Ok(false) };
        if guard.binds() {
            return Ok(false);
        }
        is_even(program, known, &guard, &reads, &self.ranges(program), self.places)
    }

    /// The statements that the sum is.
    fn statements(&self, program: &Program) -> impl Iterator<Item = VarId> {
        let inner = self.inner.and_then(|k| inner_of(&program.stmts[self.outer], k));
        std::iter::once(self.outer).chain(inner)
    }

    /// What depends on both places.
    fn depend(&self, program: &Program) -> BTreeSet<(VarId, Axes)> {
        let mut found = BTreeSet::new();
        let mut left: Vec<(VarId, Axes)> = Vec::new();
        if let Ok(Some((_, reads))) = self.summand(program) {
            left.extend(reads.iter().filter_map(|operand| both(operand, self.places)));
        }
        while let Some((x, axes)) = left.pop() {
            if !found.insert((x, axes)) {
                continue;
            }
            match &program.stmts[x].rhs {
                Rhs::Input { .. } | Rhs::Number(_) => {}
                Rhs::Add(sides) => left.extend(sides.iter().map(|(_, y)| (*y, axes))),
                Rhs::Map { args, .. } => left.extend(args.iter().map(|y| (*y, axes))),
                Rhs::Contract { operands, .. } => left.extend(operands.iter().filter_map(|x| both(x, axes))),
            }
        }
        found
    }

    /// Whether there is less to compute: what depends on both places is read by such sums alone, or by what waits for this one.
    fn gain(&self, program: &Program, readers: &SideTable<VarId, Vec<VarId>>, all: &[Pairs]) -> bool {
        let inner: BTreeSet<VarId> = self.depend.iter().map(|(x, _)| *x).collect();
        let halved = all.iter().flat_map(|pairs| {
            let inside = pairs.depend.iter().map(|(x, _)| *x);
            inside.chain(pairs.statements(program))
        });
        let halved: BTreeSet<VarId> = halved.collect();
        let waits = behind(readers, self.outer);
        if inner.is_empty() || inner.iter().any(|x| is_result(program, *x)) {
            return false;
        }
        let mut left: Vec<VarId> = inner.iter().flat_map(|x| readers[*x].iter().copied()).collect();
        let mut seen = BTreeSet::new();
        while let Some(x) = left.pop() {
            work::charge(1);
            if halved.contains(&x) || waits.contains(&x) || !seen.insert(x) {
                continue;
            }
            let stmt = &program.stmts[x];
            if !stmt.rhs.sums().is_empty() || stmt.dims.len() < 2 || is_result(program, x) {
                return false;
            }
            left.extend(&readers[x]);
        }
        true
    }

    /// The sum in halves.
    fn halves(&self, program: &Program, vars: &Vars, builder: &mut Builder) -> Result<VarId> {
        let before = self.before(program, vars, builder)?;
        let same = self.same(program, vars, builder)?;
        let gens = builder.fresh_indices(&program.stmts[self.outer].dims);
        let two = builder.number(&[], Number::Literal(2.0))?;
        let at = gens.iter().map(|(i, _)| *i).collect();
        let operands = vec![Operand { var: before, indices: at }, Operand { var: two, indices: Vec::new() }];
        let twice = builder.contract(&gens, &[], Pred::True, operands)?;
        let is_empty = |x: VarId| builder.stmt(x).rhs.guards().any(Pred::is_false);
        if is_empty(same) { Ok(twice) } else { builder.add(&gens, [(Pred::True, twice), (Pred::True, same)]) }
    }

    /// The sum over pairs of which the second place comes before the first.
    fn before(&self, program: &Program, vars: &Vars, builder: &mut Builder) -> Result<VarId> {
        let stmt = &program.stmts[self.outer];
        let mut outer = stmt.rename(&|operand| vars[operand])?;
        let [a, b] = self.places;
        let Rhs::Contract { guard, operands, .. } = &mut outer.rhs else { return builder.push(&outer) };
        match self.inner_places(program) {
            None => *guard = with(guard, Pred::lt(&b.into(), &a.into())?),
            Some((k, x, [axis, summed])) => {
                let mut inner = program.stmts[x].rename(&|operand| vars[operand])?;
                if let Rhs::Contract { guard, .. } = &mut inner.rhs {
                    *guard = with(guard, Pred::lt(&summed.into(), &axis.into())?);
                }
                operands[k].var = builder.push(&inner)?;
            }
        }
        builder.push(&outer)
    }

    /// The sum over one place twice.
    fn same(&self, program: &Program, vars: &Vars, builder: &mut Builder) -> Result<VarId> {
        let mut diagonals: BTreeMap<(VarId, Axes), VarId> = BTreeMap::new();
        for (x, axes) in self.depend.iter().copied() {
            let stmt = merged(&program.stmts[x], axes, vars, &|read| diagonals.get(&read).copied())?;
            let diagonal = match stmt {
                Some(stmt) => builder.push(&stmt)?,
                None => {
                    let gens = builder.fresh_indices(&program.stmts[x].dims);
                    let [kept, gone] = axes.map(IndexId::index);
                    let mut at: Vec<IndexId> = gens.iter().map(|(i, _)| *i).collect();
                    at[gone] = at[kept];
                    let var = vars[x].ok_or_else(lost)?;
                    let kept = gens.into_iter().enumerate().filter(|(k, _)| *k != gone).map(|(_, axis)| axis);
                    builder.contract(&kept.collect::<Vec<_>>(), &[], Pred::True, vec![Operand { var, indices: at }])?
                }
            };
            diagonals.insert((x, axes), diagonal);
        }
        let known = |read: (VarId, Axes)| diagonals.get(&read).copied();
        let unmerged = || Error::bug("half-sums", "a sum of two places that is none");
        let stmt = &program.stmts[self.outer];
        let Some((k, x, axes)) = self.inner_places(program) else {
            return builder.push(&merged(stmt, self.places, vars, &known)?.ok_or_else(unmerged)?);
        };
        let inner = builder.push(&merged(&program.stmts[x], axes, vars, &known)?.ok_or_else(unmerged)?)?;
        let mut outer = stmt.rename(&|operand| vars[operand])?;
        if let Rhs::Contract { operands, .. } = &mut outer.rhs {
            operands[k].var = inner;
        }
        builder.push(&outer)
    }

    /// The operand that is the inner statement, which one that is, and the numbers of both places in it.
    fn inner_places(&self, program: &Program) -> Option<(usize, VarId, Axes)> {
        let (k, stmt) = (self.inner?, &program.stmts[self.outer]);
        let Rhs::Contract { sums, operands, .. } = &stmt.rhs else { return None };
        let (operand, [a, b]) = (operands.get(k)?, self.places);
        let axis = operand.indices.iter().position(|i| *i == a)?;
        let summed = (b.index() + operand.indices.len()).checked_sub(stmt.dims.len() + sums.len())?;
        Some((k, operand.var, [axis, summed].map(IndexId::from_index)))
    }
}

/// Two indices of a statement, the first one first.
type Axes = [IndexId; 2];

/// The tensors of the program, in another one.
type Vars = SideTable<VarId, Option<VarId>>;

/// A guard with another predicate, without what follows from that.
fn with(guard: &Pred, holds: Pred) -> Pred {
    let mut facts = Facts::new();
    facts.assume(&holds);
    let open = guard.conjuncts().iter().filter(|p| !facts.proves(p)).cloned();
    Pred::all(open.chain([holds]).collect::<Vec<_>>())
}

fn lost() -> Error {
    Error::bug("half-sums", "a tensor that comes later is read")
}

/// What is read, if at both of two indices, with the axes that have them.
fn both(operand: &Operand, places: Axes) -> Option<(VarId, Axes)> {
    let axis = |i: IndexId| operand.indices.iter().position(|j| *j == i).map(IndexId::from_index);
    let mut axes = [axis(places[0])?, axis(places[1])?];
    axes.sort();
    Some((operand.var, axes))
}

/// A statement in which two indices are one; what is read at both of them is read where these are one, too. Nothing of an input.
fn merged(
    stmt: &Stmt,
    [kept, gone]: Axes,
    vars: &Vars,
    diagonal: &dyn Fn((VarId, Axes)) -> Option<VarId>,
) -> Result<Option<Stmt>> {
    let name = |i: IndexId| match i.cmp(&gone) {
        Ordering::Less => i,
        Ordering::Equal => kept,
        Ordering::Greater => IndexId::from_index(i.index() - 1),
    };
    let pred = |p: &Pred| -> Result<Pred> {
        let mut free = BTreeSet::new();
        p.visit_free(&mut |i| {
            free.insert(i);
        });
        let p = p.substitute(&|i| free.contains(&i).then(|| name(i).into()))?;
        p.map_relations(&mut |r| match r {
            RelationRef::Computed { var, view } => Ok(RelationRef::Computed { var: vars[var].ok_or_else(lost)?, view }),
            input @ RelationRef::Input(_) => Ok(input),
        })
    };
    let whole = |x: VarId| diagonal((x, [kept, gone])).ok_or_else(lost);
    let mut dims = stmt.dims.clone();
    if gone.index() < dims.len() {
        dims.remove(gone.index());
    }
    let rhs = match &stmt.rhs {
        Rhs::Input { .. } => return Ok(None),
        Rhs::Number(Number::Literal(x)) => Rhs::Number(Number::Literal(*x)),
        Rhs::Number(Number::Index(a)) => Rhs::Number(Number::Index(a.substitute(&|i| Some(name(i).into()))?)),
        Rhs::Add([(p, x), (q, y)]) => Rhs::Add([(pred(p)?, whole(*x)?), (pred(q)?, whole(*y)?)]),
        Rhs::Map { guard, function, args } => Rhs::Map {
            guard: pred(guard)?,
            function: *function,
            args: args.iter().map(|x| whole(*x)).collect::<Result<_>>()?,
        },
        Rhs::Contract { sums, guard, operands } => {
            let mut sums = sums.clone();
            if let Some(k) = gone.index().checked_sub(stmt.dims.len()) {
                sums.remove(k);
            }
            let operand = |operand: &Operand| {
                let mut indices: Vec<IndexId> = operand.indices.iter().map(|i| name(*i)).collect();
                let var = match both(operand, [kept, gone]) {
                    Some(read) => {
                        indices.remove(read.1[1].index());
                        diagonal(read)
                    }
                    None => vars[operand.var],
                };
                Ok(Operand { var: var.ok_or_else(lost)?, indices })
            };
            let operands = operands.iter().map(operand).collect::<Result<_>>()?;
            Rhs::Contract { sums, guard: pred(guard)?, operands }
        }
    };
    Ok(Some(Stmt { dims, rhs }))
}

/// The tensor that is read as an operand of a sum.
fn inner_of(stmt: &Stmt, operand: usize) -> Option<VarId> {
    match &stmt.rhs {
        Rhs::Contract { operands, .. } => operands.get(operand).map(|operand| operand.var),
        _ => None,
    }
}

/// The statements that depend on one.
fn behind(readers: &SideTable<VarId, Vec<VarId>>, x: VarId) -> BTreeSet<VarId> {
    let (mut behind, mut left) = (BTreeSet::new(), vec![x]);
    while let Some(x) = left.pop() {
        work::charge(1);
        left.extend(readers[x].iter().filter(|y| behind.insert(**y)));
    }
    behind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_over_pairs_that_are_the_same_both_ways_are_halved() {
        let head = "param x : [n, d] real\nparam A : [n, n] real\nparam v : [n] real\n";
        for (body, expected) in [
            ("sum i < n, j < n. exp(-(sum k < d. (x[i, k] - x[j, k])^2))", true),
            ("sum i < n, j < n. [i != j] * sqrt(sum k < d. (x[i, k] - x[j, k])^2)", true),
            ("sum i < n. v[i] * (sum j < n. exp(-(v[i] - v[j])^2) * v[j])", true),
            ("gen k < d. sum i < n, j < n. abs(x[i, k] - x[j, k])", true),
            ("sum i < n, j < n. (A[i, j] + A[j, i])^2", true),
            // Another one has to wait for it.
            (
                "let z = sum i < n, j < n. exp(-(v[i] - v[j])^2) in gen i < n. sum j < n. exp(-z * (v[i] - v[j])^2) * v[j]",
                true,
            ),
            // These stay: terms differ, or are few, or all pairs are gone through anyway.
            ("sum i < n, j < n. A[i, j]", false),
            ("sum i < n, j < n. exp(v[i] - v[j])", false),
            ("sum i < 3, j < 3. [i < n and j < n] * abs(v[i] - v[j])", false),
            (
                "let f = gen i < n. sum j < n. exp(-(v[i] - v[j])^2) * v[j] in (sum i < n. v[i] * f[i]) + (sum i < n. f[i]^2)",
                false,
            ),
            (
                "let K = gen i < n, j < n. exp(-(v[i] - v[j])^2) in (sum i < n, j < n. K[i, j], gen i < n. sum j < n. K[i, j]^2)",
                false,
            ),
        ] {
            let function =
                crate::Function::parse(&format!("{head}{body}")).and_then(|f| f.simplify()).expect("a program");
            let found = matches!(halved(function.tensor_ssa()).expect("it is rewritten"), Cow::Owned(_));
            assert_eq!(found, expected, "{body}");
        }
    }
}
