//! Functions and sums of what is read through a map are computed once for each target.
//!
//! ```text
//! let x = gen o. f(a[m(o)]) in e             ==   let y = gen c. [c is a target] * f(a[c]) in e[x[o] := y[m(o)]]
//! let x = gen o. sum k. a[m(o), k] * b[k]    ==   let y = gen c. sum k. [c is a target] * a[c, k] * b[k] in ..
//! ```
//!
//! A tensor `a` of which the elements are read along a map, `x[o, r] = y[m(o), r]`, is *pulled back* from the tensor `y` over targets. In one
//! forward loop each statement is pulled back where its operands are, for each of its axes:
//!
//! ```text
//! sum c. [m(o, c) and q] * e                =  the pull-back of   [c in use and q] * e
//! [q] * f(X, ..), [q] * X + .., [q] * X * Y =  the pull-back of the same of the tensors that X, Y are pulled back from
//! a number                                  =  the pull-back of the same number
//! ```
//!
//! where `q` and `e` do not mention `o`. Where the statement is a function that takes long, or a sum over an axis of no literal length, its elements
//! become reads along the map; otherwise nothing changes. The same is done to the same numbers in the same order, so the result has the same bits;
//! numbers of targets that are not in use are not computed.
//!
//! **It is never more work.** A map has no more targets in use than sources, so where all elements of `x` are needed there are fewer
//! applications of `f`, or as many. All are, if a result is made of them by statements whose guards do not choose among them; a guard on other
//! indices is taken to hold somewhere, and a guard that several statements repeat where it held before. The loop over targets in use visits
//! no others (`witness`). The storage has a place for each target; it is as large as that of a parameter, or as some literal times that, and
//! never filled as a whole. Maps of several sources are not looked at.

use std::borrow::Cow;

use crate::base::{Id, IndexId, RelationId, SideTable, VarId};
use crate::error::Result;
use crate::index::{Affine, Pred, RelationRef, Size};
use crate::scalar::Number;
use crate::solver::Relations;
use crate::tssa::{Builder, Operand, Program, Rhs, Stmt};
use crate::ty::Storage;

/// How many times larger than a parameter the tensor over targets may be.
const MAX_LITERAL: i64 = 16;
/// How many readers of a tensor are asked what they need.
const MAX_DEMANDS: usize = 8;
/// How many statements one pull-back may go through.
const MAX_DEPTH: usize = 16;

/// The program in which such functions are shared.
pub(super) fn shared(program: &Program) -> Result<Cow<'_, Program>> {
    let is_long = |stmt: &Stmt| match &stmt.rhs {
        Rhs::Map { guard: Pred::True, function, .. } => function.is_call(),
        Rhs::Contract { sums, .. } => {
            sums.iter().any(|n| n.as_constant().is_none()) && !stmt.has_no_loop(&program.signature)
        }
        _ => false,
    };
    let has_map = program.signature.relations.ids().any(|r| program.signature.is_map(RelationRef::Input(r)));
    if !has_map || !program.stmts.values().any(is_long) {
        return Ok(Cow::Borrowed(program));
    }
    let wanted = wanted(program);
    let mut sharing = Sharing {
        program,
        builder: Builder::new(program.signature.clone()),
        vars: SideTable::new(program.stmts.len(), None),
        origins: SideTable::new(program.stmts.len(), Vec::new()),
    };
    let mut found = false;
    for (x, stmt) in program.stmts.iter() {
        let origins: Vec<Option<Origin>> =
            (0..stmt.dims.len()).map(|axis| sharing.origin(x, axis)).collect::<Result<_>>()?;
        let read = match origins.iter().flatten().next() {
            Some(origin) if wanted[x] && is_long(stmt) && sharing.has_room(origin.var) => {
                Some(sharing.read(stmt, origin)?)
            }
            _ => None,
        };
        found |= read.is_some();
        let y = match read {
            Some(y) => y,
            None => sharing.builder.push(&stmt.rename(&|operand| sharing.vars[operand])?)?,
        };
        sharing.builder.suggest_name(y, &program.names[x]);
        sharing.vars.set(x, Some(y));
        sharing.origins.set(x, origins);
    }
    if !found {
        return Ok(Cow::Borrowed(program));
    }
    let Sharing { builder, vars, .. } = sharing;
    let mut outputs = program.outputs.clone();
    for output in &mut outputs {
        output.leaves = output.leaves.iter().filter_map(|x| vars[*x]).collect();
    }
    Ok(Cow::Owned(builder.finish(outputs).prune()?))
}

/// Elements of a tensor that are needed: for all values of these axes there is one, and what holds there.
#[derive(Clone, Default, PartialEq)]
struct Demand {
    axes: Vec<bool>,
    holds: Vec<Pred>,
}

/// The tensors all of whose elements are needed: one loop from the results back.
fn wanted(program: &Program) -> SideTable<VarId, bool> {
    let mut demands: SideTable<VarId, Vec<Demand>> = SideTable::new(program.stmts.len(), Vec::new());
    let mut wanted = SideTable::new(program.stmts.len(), false);
    for x in program.outputs.iter().flat_map(|output| &output.leaves) {
        demands.set(*x, vec![Demand { axes: vec![true; program.stmts[*x].dims.len()], holds: Vec::new() }]);
    }
    // Users come after their operands.
    for x in program.stmts.ids().rev() {
        let stmt = &program.stmts[x];
        let gens: Vec<IndexId> = (0..stmt.dims.len()).map(IndexId::from_index).collect();
        for demand in std::mem::take(&mut demands[x]) {
            let mut need = |y: VarId, guard: &Pred, indices: &[IndexId]| {
                let demand = demand.read(program, guard, indices);
                let all = wanted[y] || demand.axes.iter().all(|needed| *needed);
                wanted.set(y, all);
                let known = &mut demands[y];
                // One that says nothing of most axes is no use.
                if demand.axes.contains(&true) && known.len() < MAX_DEMANDS && !known.contains(&demand) {
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
    /// What is needed of an operand that is read at these indices under a guard.
    fn read(&self, program: &Program, guard: &Pred, indices: &[IndexId]) -> Demand {
        let nothing = Demand { axes: vec![false; indices.len()], holds: Vec::new() };
        if guard.is_false() {
            return nothing;
        }
        let open: Vec<&Pred> = guard.conjuncts().iter().filter(|p| !self.holds.contains(p)).collect();
        let is_fixed = |i: IndexId| self.axes.get(i.index()) == Some(&false);
        // The indices that the guard chooses values of.
        let mut chosen = Vec::new();
        for p in &open {
            let mut own = Vec::new();
            p.visit_free(&mut |i| own.push(i));
            if own.iter().any(|i| is_fixed(*i)) {
                return nothing;
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

/// The target of a map of one source that is an index, as a predicate: each source has one.
fn map_target(program: &Program, p: &Pred) -> Option<IndexId> {
    let Pred::Relation { relation, args, holds: true } = p else { return None };
    let [source, target] = args.as_slice() else { return None };
    let (source, target) = (source.as_index()?, target.as_index()?);
    (program.signature.is_map(*relation) && source != target).then_some(target)
}

/// What a tensor is pulled back from along an axis.
#[derive(Clone, Copy)]
struct Origin {
    axis: usize,
    map: RelationId,
    /// A tensor of the new program, which has the targets of the map where the other has the sources.
    var: VarId,
    depth: usize,
}

struct Sharing<'a> {
    program: &'a Program,
    builder: Builder,
    vars: SideTable<VarId, Option<VarId>>,
    /// By axis.
    origins: SideTable<VarId, Vec<Option<Origin>>>,
}

/// An operand as it is over targets.
enum Pulled {
    /// Pulled back.
    From(Origin),
    /// It does not depend on the axis: a number.
    Number(f64),
}

impl Sharing<'_> {
    /// What a statement is pulled back from, where its operands are known.
    fn origin(&mut self, x: VarId, axis: usize) -> Result<Option<Origin>> {
        let program = self.program;
        let stmt = &program.stmts[x];
        let index = IndexId::from_index(axis);
        let free = |p: &Pred| !p.mentions(index);
        match &stmt.rhs {
            Rhs::Input { .. } | Rhs::Number(_) => Ok(None),
            Rhs::Add([(p, y), (q, z)]) if free(p) && free(q) => {
                let Some((map, depth, vars)) = self.common(&[(*y, axis), (*z, axis)])? else { return Ok(None) };
                let [y, z] = vars.as_slice() else { return Ok(None) };
                let over = self.over(stmt, axis, map, &[]);
                let (gens, names) = (&over.gens, &over.names);
                let guards = (self.named(p, names)?, self.named(q, names)?);
                let sum = self.builder.add(gens, [(guards.0, *y), (guards.1, *z)])?;
                // The guard is around the sum, so that it has no others.
                let operand = Operand { var: sum, indices: gens.iter().map(|(i, _)| *i).collect() };
                let var = self.builder.contract(gens, &[], over.used, vec![operand])?;
                Ok(Some(Origin { axis, map, var, depth }))
            }
            Rhs::Map { guard: Pred::True, function, args } => {
                let args: Vec<(VarId, usize)> = args.iter().map(|y| (*y, axis)).collect();
                let Some((map, depth, vars)) = self.common(&args)? else { return Ok(None) };
                let over = self.over(stmt, axis, map, &[]);
                let var = self.builder.map(&over.gens, over.used, *function, vars)?;
                Ok(Some(Origin { axis, map, var, depth }))
            }
            Rhs::Contract { sums, guard, operands } => self.contraction(stmt, axis, sums, guard, operands),
            Rhs::Add(_) | Rhs::Map { .. } => Ok(None),
        }
    }

    fn contraction(
        &mut self,
        stmt: &Stmt,
        axis: usize,
        sums: &[Size],
        guard: &Pred,
        operands: &[Operand],
    ) -> Result<Option<Origin>> {
        let (rank, index) = (stmt.dims.len(), IndexId::from_index(axis));
        // A guard on other `gen` indices would choose among the targets.
        let sums_only = |p: &Pred| {
            let mut some = false;
            p.visit_free(&mut |i| some |= i.index() >= rank);
            some && !p.mentions(index)
        };
        let along = guard.conjuncts().iter().find_map(|p| self.map_along(stmt, sums, p, index));
        let reads_index = operands.iter().any(|operand| operand.indices.contains(&index));
        if let Some((map, target)) = along {
            let rest = guard.conjuncts().iter().filter(|p| !p.mentions(index));
            if reads_index
                || guard.conjuncts().iter().filter(|p| p.mentions(index)).count() != 1
                || !rest.clone().all(sums_only)
            {
                return Ok(None);
            }
            let others: Vec<(usize, Size)> =
                (rank..).zip(sums.iter().cloned()).filter(|(k, _)| *k != target.index()).collect();
            let mut over = self.over(stmt, axis, map, &others);
            over.names.push((target, over.target));
            let mut all = over.used.clone();
            for p in rest {
                all = all.and(self.named(p, &over.names)?);
            }
            let operands = operands.iter().filter_map(|operand| {
                let var = self.vars[operand.var]?;
                Some(Operand { var, indices: over.indices(&operand.indices)? })
            });
            let operands = operands.collect();
            let var = self.builder.contract(&over.gens, &over.sums, all, operands)?;
            return Ok(Some(Origin { axis, map, var, depth: 1 }));
        }
        if !reads_index || !guard.conjuncts().iter().all(sums_only) {
            return Ok(None);
        }
        // Operands that have the axis are pulled back along it.
        let mut reads = Vec::new();
        for operand in operands.iter().filter(|operand| operand.indices.contains(&index)) {
            let mut at = (0..operand.indices.len()).filter(|k| operand.indices[*k] == index);
            match (at.next(), at.next()) {
                (Some(k), None) => reads.push((operand.var, k)),
                _ => return Ok(None),
            }
        }
        let Some((map, depth, mut vars)) = self.common(&reads)? else { return Ok(None) };
        vars.reverse();
        let others: Vec<(usize, Size)> = (rank..).zip(sums.iter().cloned()).collect();
        let over = self.over(stmt, axis, map, &others);
        let mut all = over.used.clone();
        for p in guard.conjuncts() {
            all = all.and(self.named(p, &over.names)?);
        }
        let mut factors = Vec::new();
        for operand in operands {
            let var = if operand.indices.contains(&index) { vars.pop() } else { self.vars[operand.var] };
            let (Some(var), Some(indices)) = (var, over.indices(&operand.indices)) else { return Ok(None) };
            factors.push(Operand { var, indices });
        }
        let var = self.builder.contract(&over.gens, &over.sums, all, factors)?;
        Ok(Some(Origin { axis, map, var, depth }))
    }

    /// `m(i, c)` for a map, with a `sum` index `c`.
    fn map_along(&self, stmt: &Stmt, sums: &[Size], p: &Pred, i: IndexId) -> Option<(RelationId, IndexId)> {
        let Pred::Relation { relation: relation @ RelationRef::Input(map), args, holds: true } = p else { return None };
        let shape = &self.program.signature.relations.get(*map)?.shape;
        let ([source, target], [from, to]) = (args.as_slice(), shape.as_slice()) else { return None };
        let target = target.as_index()?;
        let fits = source.as_index() == Some(i)
            && stmt.dims.get(i.index()) == Some(from)
            && target.index().checked_sub(stmt.dims.len()).and_then(|k| sums.get(k)) == Some(to);
        (fits && self.program.signature.is_map(*relation)).then_some((*map, target))
    }

    /// Tensors over targets for tensors with an axis each, all along one map, and how many statements they go through.
    fn common(&mut self, reads: &[(VarId, usize)]) -> Result<Option<(RelationId, usize, Vec<VarId>)>> {
        let mut pulled = Vec::with_capacity(reads.len());
        for (y, axis) in reads {
            let origin = self.origins[*y].get(*axis).copied().flatten();
            pulled.push(match (origin, &self.program.stmts[*y].rhs) {
                (Some(origin), _) => Pulled::From(origin),
                (None, Rhs::Number(Number::Literal(c))) => Pulled::Number(*c),
                _ => return Ok(None),
            });
        }
        let origins = || pulled.iter().filter_map(|p| if let Pulled::From(origin) = p { Some(origin) } else { None });
        let Some(Origin { map, .. }) = origins().next().copied() else { return Ok(None) };
        let depth = origins().map(|origin| origin.depth).max().unwrap_or(0) + 1;
        if depth > MAX_DEPTH || origins().any(|origin| origin.map != map) {
            return Ok(None);
        }
        let mut vars = Vec::with_capacity(pulled.len());
        for (pulled, (y, axis)) in pulled.iter().zip(reads) {
            vars.push(match pulled {
                Pulled::From(origin) => origin.var,
                Pulled::Number(c) => {
                    let mut dims = self.program.stmts[*y].dims.clone();
                    if let (Some(n), Some(targets)) = (dims.get_mut(*axis), self.targets(map)) {
                        *n = targets;
                    }
                    let gens = self.builder.fresh_indices(&dims);
                    self.builder.number(&gens, Number::Literal(*c))?
                }
            });
        }
        Ok(Some((map, depth, vars)))
    }

    fn targets(&self, map: RelationId) -> Option<Size> {
        self.program.signature.relations.get(map)?.shape.last().cloned()
    }

    /// The indices of a statement over targets.
    fn over(&mut self, stmt: &Stmt, axis: usize, map: RelationId, sums: &[(usize, Size)]) -> Over {
        let shape = self.program.signature.relations.get(map).map(|r| r.shape.clone()).unwrap_or_default();
        let mut dims = stmt.dims.clone();
        if let (Some(n), Some(targets)) = (dims.get_mut(axis), shape.last()) {
            *n = targets.clone();
        }
        let gens = self.builder.fresh_indices(&dims);
        let target = gens.get(axis).map_or_else(|| IndexId::from_index(0), |(i, _)| *i);
        let (numbers, sizes): (Vec<usize>, Vec<Size>) = sums.iter().cloned().unzip();
        let sums = self.builder.fresh_indices(&sizes);
        let numbered = (0..gens.len()).chain(numbers).map(IndexId::from_index);
        let names = numbered.zip(gens.iter().chain(&sums).map(|(i, _)| *i)).collect();
        let source = self.builder.fresh_index();
        let atom = Pred::relation(RelationRef::Input(map), vec![source.into(), target.into()]);
        let used = Pred::exists(source, shape.first().cloned().unwrap_or_else(|| Affine::constant(0)), atom);
        Over { gens, sums, names, target, used }
    }

    /// A guard of the program before, under other names.
    fn named(&mut self, p: &Pred, names: &[(IndexId, IndexId)]) -> Result<Pred> {
        let vars = &self.vars;
        let p = p.map_relations(&mut |r| {
            Ok::<_, crate::Error>(match r {
                RelationRef::Computed { var, view } => {
                    let var = vars[var].ok_or_else(|| crate::Error::bug("per-target", "a guard reads ahead"))?;
                    RelationRef::Computed { var, view }
                }
                input @ RelationRef::Input(_) => input,
            })
        })?;
        self.builder.freshen(&p, &|i| names.iter().find(|(from, _)| *from == i).map(|(_, to)| *to))
    }

    /// Whether a tensor has no more elements than a parameter, up to a literal.
    fn has_room(&self, x: VarId) -> bool {
        let (mut literal, mut sizes) = (1i64, Vec::new());
        for n in self.builder.dims(x) {
            match n.as_constant() {
                Some(k) => literal = literal.saturating_mul(k.max(1)),
                None => sizes.push(n),
            }
        }
        let fits = |stmt: &Stmt| {
            let Rhs::Input { param, .. } = &stmt.rhs else { return false };
            let mut dims: Vec<&Size> = stmt.dims.iter().collect();
            self.program.signature.params[*param].storage == Storage::Dense
                && sizes.iter().all(|n| dims.iter().position(|m| m == n).map(|at| dims.remove(at)).is_some())
        };
        literal <= MAX_LITERAL && self.program.stmts.values().any(fits)
    }

    /// `gen o, ... sum c. [m(o, c)] * Y[c, ..]`
    fn read(&mut self, stmt: &Stmt, origin: &Origin) -> Result<VarId> {
        let gens = self.builder.fresh_indices(&stmt.dims);
        let targets = self.targets(origin.map).unwrap_or_else(|| Affine::constant(0));
        let c = self.builder.fresh_index();
        let mut indices: Vec<IndexId> = gens.iter().map(|(i, _)| *i).collect();
        let source = std::mem::replace(&mut indices[origin.axis], c);
        let guard = Pred::relation(RelationRef::Input(origin.map), vec![source.into(), c.into()]);
        self.builder.contract(&gens, &[(c, targets)], guard, vec![Operand { var: origin.var, indices }])
    }
}

/// A statement over targets: its indices, what they are called in the statement before, and that the target is in use.
struct Over {
    gens: Vec<(IndexId, Size)>,
    sums: Vec<(IndexId, Size)>,
    names: Vec<(IndexId, IndexId)>,
    target: IndexId,
    used: Pred,
}

impl Over {
    fn indices(&self, indices: &[IndexId]) -> Option<Vec<IndexId>> {
        let name = |i: &IndexId| self.names.iter().find(|(from, _)| from == i).map(|(_, to)| *to);
        indices.iter().map(name).collect()
    }
}
