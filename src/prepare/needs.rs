//! Which tensors are needed as a whole, and how large one over the targets of a map may be.

use std::cell::LazyCell;

use crate::base::{Id, IndexId, RelationId, SideTable, VarId, work};
use crate::index::{Affine, Pred, RelationRef, Size, View};
use crate::solver::{Relations, exists_all};
use crate::tssa::exchanges::ranges;
use crate::tssa::patterns::patterns;
use crate::tssa::{Builder, Program, Rhs, Stmt};
use crate::ty::Storage;

/// How many times larger than a parameter the tensor over targets may be.
const MAX_GROWTH: i64 = 16;
/// How many readers of a tensor are asked what they need.
const MAX_DEMANDS: usize = 8;

/// Elements of a tensor that are needed: for all values of these axes there is one, and what holds there.
#[derive(Clone, Default, PartialEq)]
struct Demand {
    axes: Vec<bool>,
    holds: Vec<Pred>,
}

/// The tensors all of whose elements are needed: one loop from the results back.
pub(super) fn wanted(program: &Program) -> SideTable<VarId, bool> {
    wanted_under(program, &|_| true)
}

/// Those that may be: where numbers decide what is needed, that is taken to be all of it.
pub(super) fn maybe_wanted(program: &Program) -> SideTable<VarId, bool> {
    let is_of_number =
        |p: &Pred| matches!(p, Pred::Relation { relation: RelationRef::Computed { view: View::Support, .. }, .. });
    wanted_under(program, &|p| !is_of_number(p))
}

/// The tensors all of whose elements are needed, by those conjuncts of guards that count.
fn wanted_under(program: &Program, counts: &dyn Fn(&Pred) -> bool) -> SideTable<VarId, bool> {
    let mut demands: SideTable<VarId, Vec<Demand>> = SideTable::new(program.stmts.len(), Vec::new());
    let mut wanted = SideTable::new(program.stmts.len(), false);
    for x in program.outputs.iter().flat_map(|output| &output.leaves) {
        demands.set(*x, vec![Demand { axes: vec![true; program.stmts[*x].dims.len()], holds: Vec::new() }]);
    }
    // Users come after their operands.
    for x in program.stmts.ids().rev() {
        let stmt = &program.stmts[x];
        work::charge(4 + demands[x].len());
        let gens: Vec<IndexId> = (0..stmt.dims.len()).map(IndexId::from_index).collect();
        for demand in std::mem::take(&mut demands[x]) {
            let mut need = |y: VarId, guard: &Pred, indices: &[IndexId]| {
                let demand = demand.read(program, stmt, guard, indices, counts);
                let all = wanted[y] || demand.axes.iter().all(|needed| *needed);
                wanted.set(y, all);
                let known = &mut demands[y];
                // One that says nothing of the axes is no use, but numbers have none.
                if (demand.axes.is_empty() || demand.axes.contains(&true))
                    && known.len() < MAX_DEMANDS
                    && !known.contains(&demand)
                {
                    known.push(demand);
                }
            };
            match &stmt.rhs {
                Rhs::Input { .. } | Rhs::Number(_) => {}
                Rhs::Add(sides) => sides.iter().for_each(|(p, y)| need(*y, p, &gens)),
                Rhs::Map { guard, function: _, args } => args.iter().for_each(|y| need(*y, guard, &gens)),
                Rhs::Contract { sums: _, guard, operands } => {
                    operands.iter().for_each(|operand| need(operand.var, guard, &operand.indices));
                }
            }
        }
    }
    program.outputs.iter().flat_map(|output| &output.leaves).for_each(|x| wanted.set(*x, true));
    wanted
}

impl Demand {
    /// What is needed of an operand that a statement reads at these indices under a guard.
    fn read(
        &self,
        program: &Program,
        stmt: &Stmt,
        guard: &Pred,
        indices: &[IndexId],
        counts: &dyn Fn(&Pred) -> bool,
    ) -> Demand {
        let nothing = Demand { axes: vec![false; indices.len()], holds: Vec::new() };
        if guard.is_false() {
            return nothing;
        }
        let open = |p: &&Pred| counts(p) && !self.holds.contains(p);
        let open: Vec<&Pred> = guard.conjuncts().iter().filter(open).collect();
        let is_fixed = |i: IndexId| self.axes.get(i.index()) == Some(&false);
        // The indices that the guard chooses values of.
        let mut chosen = Vec::new();
        for p in &open {
            let mut own = Vec::new();
            p.visit_free(&mut |i| own.push(i));
            if own.iter().any(|i| is_fixed(*i)) {
                return nothing;
            }
            // An index that nobody else tests, and at which nothing is read, has some value for each of the others.
            let free = |i: &IndexId| {
                !indices.contains(i)
                    && !open.iter().any(|q| q != p && q.mentions(*i))
                    && self.axes.get(i.index()) != Some(&false)
            };
            if own.iter().any(free) && always_holds(program, stmt, p, &free) {
                continue;
            }
            let target = map_target(program, p).filter(|c| !open.iter().any(|q| q != p && q.mentions(*c)));
            match target {
                Some(target) => chosen.push(target),
                None => chosen.extend(own),
            }
        }
        let once = |i: &IndexId| indices.iter().filter(|j| *j == i).count() == 1;
        let axes = indices.iter().map(|i| !is_fixed(*i) && !chosen.contains(i) && once(i)).collect();
        let axis = |i: IndexId| indices.iter().position(|j| *j == i).map(IndexId::from_index);
        let mut holds = Vec::new();
        for p in self.holds.iter().chain(open) {
            let mut all = !p.binds();
            p.visit_free(&mut |i| all &= axis(i).is_some());
            if let (true, Ok(p)) = (all, p.substitute(&|i| axis(i).map(Affine::index))) {
                holds.push(p);
            }
        }
        Demand { axes, holds }
    }
}

/// Whether a comparison of indices of a statement holds for some values of free ones, whatever the others are.
fn always_holds(program: &Program, stmt: &Stmt, p: &Pred, free: &dyn Fn(&IndexId) -> bool) -> bool {
    if !matches!(p, Pred::NonNegative(_)) {
        return false;
    }
    let all = ranges(stmt.dims.iter().chain(stmt.rhs.sums()));
    let (bound, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(i, _)| free(i));
    exists_all(&bound, p).is_ok_and(|some| program.signature.facts().under(&others, &[]).proves(&some))
}

/// The target of a map that is an index, as a predicate: each source has one.
fn map_target(program: &Program, p: &Pred) -> Option<IndexId> {
    let Pred::Relation { relation, args, holds: true } = p else { return None };
    let (target, sources) = args.split_last()?;
    let target = target.as_index()?;
    let plain = sources.iter().all(|a| a.as_index().is_some_and(|i| i != target));
    (program.signature.is_map(*relation) && plain).then_some(target)
}

/// Whether a program has maps.
pub(super) fn has_maps(program: &Program) -> bool {
    program.signature.relations.ids().any(|r| program.signature.is_map(RelationRef::Input(r)))
}

/// `exists o. m(o, c)`: an index is a target of a map that is in use.
pub(super) fn in_use(builder: &mut Builder, map: RelationId, target: IndexId) -> Pred {
    let shape = builder.signature().relations.get(map).map_or(&[][..], |relation| &relation.shape);
    let sources = shape.split_last().map_or(Vec::new(), |(_, sources)| sources.to_vec());
    let sources = builder.fresh_indices(&sources);
    let args = sources.iter().map(|(i, _)| *i).chain([target]).map(Affine::from).collect();
    Pred::exists_each(sources.into_iter(), Pred::relation(RelationRef::Input(map), args))
}

/// Whether a tensor with such axes has no more elements than a parameter, or a row than a result, up to a literal, or, of several axes, as many as the sums of a statement.
pub(super) fn has_room(program: &Program, dims: &[Size]) -> bool {
    let (mut literal, mut sizes) = (1i64, Vec::new());
    for n in dims {
        match n.as_constant() {
            Some(k) => literal = literal.saturating_mul(k.max(1)),
            None => sizes.push(n),
        }
    }
    let fits = |stmt: &Stmt| {
        let mut dims: Vec<&Size> = stmt.dims.iter().collect();
        sizes.iter().all(|n| dims.iter().position(|m| m == n).map(|at| dims.remove(at)).is_some())
    };
    let is_dense = |stmt: &&Stmt| match &stmt.rhs {
        Rhs::Input { param, .. } => program.signature.params[*param].storage == Storage::Dense,
        _ => false,
    };
    // One of more axes may be sparse.
    let results = program.outputs.iter().flat_map(|output| &output.leaves).filter(|_| sizes.len() < 2);
    let results = results.map(|x| &program.stmts[*x]);
    if literal > MAX_GROWTH {
        return false;
    }
    if program.stmts.values().filter(is_dense).chain(results).any(fits) {
        return true;
    }
    // One on the pattern of a relation is small.
    let patterns = LazyCell::new(|| patterns(program));
    let is_map = |r: RelationId| program.signature.is_map(RelationRef::Input(r));
    let is_whole = |x: VarId| patterns[x].iter().all(|pattern| pattern.axes.len() < 2 || is_map(pattern.relation));
    let is_sum = |stmt: &Stmt| !stmt.rhs.sums().is_empty() && !stmt.has_no_loop(&program.signature);
    sizes.len() > 1 && program.stmts.iter().any(|(x, stmt)| is_sum(stmt) && fits(stmt) && is_whole(x))
}

/// What indices of a statement are called in another one.
pub(super) struct Names(pub Vec<(IndexId, IndexId)>);

impl Names {
    pub fn of(&self, i: IndexId) -> Option<IndexId> {
        self.0.iter().find(|(from, _)| *from == i).map(|(_, to)| *to)
    }

    /// The names of all of these; nothing where one has none.
    pub fn all(&self, indices: &[IndexId]) -> Option<Vec<IndexId>> {
        indices.iter().map(|i| self.of(*i)).collect()
    }
}
