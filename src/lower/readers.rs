//! Who reads a tensor, where, and how often.

use std::collections::BTreeSet;

use crate::base::{Id, IndexId, SideTable, VarId};
use crate::index::{Affine, Pred, RelationRef, Size, Var, View};
use crate::schedule::machine::FEW;
use crate::solver::solution;
use crate::tssa::{Program, Rhs, Stmt};

/// Of how many numbers it is looked for what they are made of.
const MAX_NUMBERS: usize = 32;

/// A use of a tensor.
pub(super) struct Use {
    pub user: VarId,
    pub reading: Reading,
}

/// What is read of a tensor, at which indices of its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// An element.
    Element(Vec<IndexId>),
    /// A row, through which a guard searches for the last index.
    Row(Vec<IndexId>),
    /// What a guard asks at other places.
    Elsewhere,
}

impl Reading {
    /// The indices of an element.
    pub fn element(&self) -> Option<&[IndexId]> {
        match self {
            Reading::Element(indices) => Some(indices),
            Reading::Row(_) | Reading::Elsewhere => None,
        }
    }

    /// The indices of an element or of a row.
    fn indices(&self) -> Option<&[IndexId]> {
        match self {
            Reading::Element(indices) | Reading::Row(indices) => Some(indices),
            Reading::Elsewhere => None,
        }
    }
}

/// Who reads tensors.
pub(super) struct Readers {
    uses: Vec<Use>,
    of: SideTable<VarId, Vec<usize>>,
}

impl Readers {
    pub fn of(program: &Program, live: &SideTable<VarId, bool>) -> Readers {
        let mut of: SideTable<VarId, Vec<usize>> = SideTable::new(program.stmts.len(), Vec::new());
        let mut uses: Vec<Use> = Vec::new();
        for (user, stmt) in program.stmts.iter().filter(|(x, _)| live[*x]) {
            collect_uses(stmt, &mut |x, reading| {
                let known = of[x].iter().any(|k| uses.get(*k).is_some_and(|u| u.user == user && u.reading == reading));
                if !known {
                    of[x].push(uses.len());
                    uses.push(Use { user, reading });
                }
            });
        }
        Readers { uses, of }
    }

    /// Whether a number is a long sum, and what is made of it, without another loop, needs one more that others read as well: in one nest the first would wait
    /// for the second, and for all that is computed beside that.
    pub fn wait_for_sums(&self, program: &Program, x: VarId) -> bool {
        let is_sum = |x: VarId| {
            let stmt = &program.stmts[x];
            stmt.dims.is_empty() && stmt.rhs.sums().iter().any(|n| n.as_constant().is_none())
        };
        let readers = self.all(x);
        let (true, [once]) = (is_sum(x), readers.as_slice()) else { return false };
        let mut seen = BTreeSet::from([x]);
        let mut open = vec![once.user];
        while let Some(y) = open.pop() {
            if seen.len() > MAX_NUMBERS || !program.stmts[y].dims.is_empty() || !seen.insert(y) {
                continue;
            }
            if is_sum(y) {
                if self.of[y].len() > 1 {
                    return true;
                }
                continue;
            }
            collect_uses(&program.stmts[y], &mut |z, _| open.push(z));
        }
        false
    }

    pub fn all(&self, x: VarId) -> Vec<&Use> {
        self.of[x].iter().filter_map(|k| self.uses.get(*k)).collect()
    }
}

/// Calls a function on what a statement reads.
pub(super) fn collect_uses(stmt: &Stmt, add: &mut dyn FnMut(VarId, Reading)) {
    let aligned = || Reading::Element((0..stmt.dims.len()).map(IndexId::from_index).collect());
    // What `exists` binds is no loop of the statement.
    let loops = stmt.dims.len() + stmt.rhs.sums().len();
    let loop_of = |a: &Affine| a.as_index().filter(|i| i.index() < loops);
    let guard_reads = |p: &Pred, add: &mut dyn FnMut(VarId, Reading)| {
        p.visit_computed_at(&mut |x, asked| {
            let at = asked.and_then(|(view, at)| Some((view, at.iter().map(loop_of).collect::<Option<Vec<_>>>()?)));
            let reading = match at {
                Some((View::Support, indices)) => Reading::Element(indices),
                Some((_, indices)) => Reading::Row(indices),
                None => Reading::Elsewhere,
            };
            add(x, reading);
        });
    };
    match &stmt.rhs {
        Rhs::Input { .. } | Rhs::Number(_) => {}
        Rhs::Add(sides) => {
            for (p, x) in sides {
                add(*x, aligned());
                guard_reads(p, add);
            }
        }
        Rhs::Map { guard, function: _, args } => {
            args.iter().for_each(|x| add(*x, aligned()));
            guard_reads(guard, add);
        }
        Rhs::Contract { sums: _, guard, operands } => {
            operands.iter().for_each(|operand| add(operand.var, Reading::Element(operand.indices.clone())));
            guard_reads(guard, add);
        }
    }
}

/// Calls a function on what a statement reads, with the names of the indices of an element; nothing for what its guards read otherwise. The indices of the
/// statement have names in order, and those for which there are none get new ones.
pub(super) fn collect_places(
    stmt: &Stmt,
    at: &[usize],
    names: &mut usize,
    add: &mut dyn FnMut(VarId, Option<Vec<usize>>),
) {
    let (rank, fresh) = (stmt.dims.len(), *names);
    *names = names.saturating_add(stmt.rhs.sums().len());
    let beyond = |k: usize| fresh.saturating_add(k.saturating_sub(rank));
    let name = |i: &IndexId| at.get(i.index()).copied().unwrap_or_else(|| beyond(i.index()));
    collect_uses(stmt, &mut |x, reading| add(x, reading.element().map(|indices| indices.iter().map(name).collect())));
}

/// Whether all readers read a tensor only where a guard of it holds, so that what computes it in place has nothing to test.
pub(super) fn is_told_by_all(program: &Program, x: VarId, p: &Pred, readers: &[&Use]) -> bool {
    let p = p.alpha_normal();
    readers.iter().all(|read| {
        let Some(indices) = read.reading.element() else { return false };
        let user = &program.stmts[read.user];
        let guard = match &user.rhs {
            Rhs::Input { .. } | Rhs::Number(_) => return false,
            Rhs::Map { guard, .. } => guard,
            Rhs::Contract { guard, operands, .. } if operands.iter().any(|operand| operand.var == x) => guard,
            Rhs::Contract { .. } => return false,
            Rhs::Add([(p, y), (q, z)]) => match (*y == x, *z == x) {
                (true, false) => p,
                (false, true) => q,
                _ => return false,
            },
        };
        let at = |i: IndexId| indices.get(i.index()).copied().map(Affine::index);
        let Ok(p) = p.substitute(&at) else { return false };
        user.facts(guard).proves(&p)
    })
}

/// Whether a guard of a statement reads a tensor.
pub(super) fn is_asked(program: &Program, x: VarId, by: VarId) -> bool {
    let mut found = false;
    program.stmts[by].rhs.guards().for_each(|p| p.visit_computed(&mut |y| found |= y == x));
    found
}

/// Whether a sum over the rows of a relation is only added to one over rows at another index: each of them has its own order of loops.
pub(super) fn is_of_other_rows(program: &Program, x: VarId, readers: &[&Use]) -> bool {
    let [once] = readers else { return false };
    let Rhs::Add(sides) = &program.stmts[once.user].rhs else { return false };
    let own = rows_at(&program.stmts[x]);
    let others = sides.iter().filter(|(_, y)| *y != x).map(|(_, y)| rows_at(&program.stmts[*y]));
    !own.is_empty() && others.into_iter().any(|other| !other.is_empty() && own.is_disjoint(&other))
}

/// The axes that relations of the data tie to what is summed.
fn rows_at(stmt: &Stmt) -> BTreeSet<IndexId> {
    let mut axes = BTreeSet::new();
    let Rhs::Contract { sums, guard, .. } = &stmt.rhs else { return axes };
    let (rank, all) = (stmt.dims.len(), stmt.dims.len() + sums.len());
    for p in guard.conjuncts() {
        let Pred::Relation { relation: RelationRef::Input(_), .. } = p else { continue };
        if (rank..all).any(|k| p.mentions(IndexId::from_index(k))) {
            axes.extend((0..rank).map(IndexId::from_index).filter(|i| p.mentions(*i)));
        }
    }
    axes
}

/// Whether a reader reads each element at most once, or searches each row once: see the head of this file.
pub(super) fn reads_once(program: &Program, read: &Use) -> bool {
    let Some(indices) = read.reading.indices() else { return false };
    let stmt = &program.stmts[read.user];
    let rank = stmt.dims.len();
    let indices: Vec<IndexId> = indices.iter().map(|i| solved(stmt, *i)).collect();
    let sums = stmt.rhs.sums().len();
    let all = determined(stmt, &indices).len() == rank + sums;
    let mut sorted: Vec<usize> = indices.iter().map(|i| i.index()).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let prefix = sorted.len() == indices.len() && sorted.iter().copied().eq(0..sorted.len()) && sorted.len() <= rank;
    all || prefix
}

/// The indices that some indices tell by equations, as a place of a window and an offset in it tell what the window is seen from; with these.
pub(super) fn determined(stmt: &Stmt, indices: &[IndexId]) -> BTreeSet<IndexId> {
    let mut known: BTreeSet<IndexId> = indices.iter().copied().collect();
    let Rhs::Contract { guard, .. } = &stmt.rhs else { return known };
    loop {
        let before = known.len();
        for p in guard.conjuncts() {
            known.extend(told(stmt, p, &known));
        }
        if known.len() == before {
            return known;
        }
    }
}

/// The index that a conjunct tells where others are known: by an equation, or by one of several of which no two hold.
fn told(stmt: &Stmt, p: &Pred, known: &BTreeSet<IndexId>) -> Option<IndexId> {
    match p {
        Pred::Zero(a) => {
            let unknown = |(v, k): &(Var, i64)| match v {
                Var::Index(i) if !known.contains(i) => Some((*i, *k)),
                _ => None,
            };
            let mut left = a.terms().iter().filter_map(unknown);
            match (left.next(), left.next()) {
                (Some((i, 1 | -1)), None) => Some(i),
                _ => None,
            }
        }
        Pred::Any(cases) => {
            let by = |case: &Pred| case.conjuncts().iter().find_map(|p| told(stmt, p, known));
            let i = by(cases.first()?)?;
            (cases.iter().all(|case| by(case) == Some(i)) && one_holds(stmt, cases, i)).then_some(i)
        }
        _ => None,
    }
}

/// Whether no two of several cases can hold, since their equations give an index values that lie as far apart as its range is long.
///
/// ```text
/// i = k + 1 or i = k + 1 - n        for i < n
/// ```
fn one_holds(stmt: &Stmt, cases: &[Pred], i: IndexId) -> bool {
    let Some(extent) = stmt.dims.iter().chain(stmt.rhs.sums()).nth(i.index()) else { return false };
    let value = |case: &Pred| case.conjuncts().iter().find_map(|p| solution(i, p));
    let Some(values) = cases.iter().map(value).collect::<Option<Vec<Affine>>>() else { return false };
    let beyond = |a: &Affine, b: &Affine| {
        let above = a.sub(b).and_then(|d| d.sub(extent)).ok().and_then(|d| d.as_constant());
        above.is_some_and(|d| d >= 0)
    };
    values.iter().enumerate().all(|(k, a)| values.iter().take(k).all(|b| beyond(a, b) || beyond(b, a)))
}

/// Whether a reader reads each element once, or once for each of a few values of a `gen` index beside one that grows, so that the sums over the
/// elements become one loop.
pub(super) fn reads_few_times(program: &Program, read: &Use) -> bool {
    let Some(indices) = read.reading.indices() else { return false };
    let stmt = &program.stmts[read.user];
    let indices: Vec<IndexId> = indices.iter().map(|i| solved(stmt, *i)).collect();
    let is_read = |k: usize| indices.contains(&IndexId::from_index(k));
    let few = |n: &Size| n.as_constant().is_some_and(|n| n <= FEW);
    let grows = |(k, n): (usize, &Size)| is_read(k) && n.as_constant().is_none();
    let beside = |(k, n): (usize, &Size)| is_read(k) || few(n);
    let sums = (stmt.dims.len()..).take(stmt.rhs.sums().len());
    reads_once(program, read)
        || stmt.dims.iter().enumerate().all(beside)
            && stmt.dims.iter().enumerate().any(grows)
            && sums.into_iter().all(is_read)
}

/// The `gen` index that an equation, or one of several of which no two hold, ties a `sum` index to, up to a shift; or the index itself.
pub(super) fn solved(stmt: &Stmt, k: IndexId) -> IndexId {
    let Rhs::Contract { guard, .. } = &stmt.rhs else { return k };
    if k.index() < stmt.dims.len() {
        return k;
    }
    let by_one = |p: &Pred| stmt.tied(k, p.conjuncts());
    let by_some = |p: &Pred| {
        let Pred::Any(cases) = p else { return None };
        let i = by_one(cases.first()?)?;
        (cases.iter().all(|case| by_one(case) == Some(i)) && one_holds(stmt, cases, i)).then_some(i)
    };
    by_one(guard).or_else(|| guard.conjuncts().iter().find_map(by_some)).unwrap_or(k)
}
