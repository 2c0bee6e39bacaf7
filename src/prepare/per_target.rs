//! Functions and sums of what is read through a map are computed once for each target.
//!
//! ```text
//! let x = gen o. f(a[m(o)]) in e             ==   let y = gen c. [c is a target] * f(a[c]) in e[x[o] := y[m(o)]]
//! let x = gen o. sum k. a[m(o), k] * b[k]    ==   let y = gen c. sum k. [c is a target] * a[c, k] * b[k] in ..
//! ```
//!
//! A tensor `x` of which the elements are read along a map, `x[o, r] = y[m(o), r]`, is *pulled back* from the tensor `y` over targets. A source `o`
//! may be several indices. In one forward loop each statement is pulled back where its operands are, for each map and the axes of its sources:
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
//! no others (`witness`). The storage has a place for each target; it is as large as that of a parameter or a result, or as some literal times
//! that, and never filled as a whole.

use std::borrow::Cow;

use super::needs::{Names, has_maps, has_room, in_use, wanted};
use crate::base::{Id, IndexId, RelationId, SideTable, VarId};
use crate::error::Result;
use crate::index::{Affine, Pred, RelationRef, Size};
use crate::scalar::Number;
use crate::tssa::patterns::Pattern;
use crate::tssa::{Builder, Operand, Program, Rhs, Stmt};

/// How many statements one pull-back may go through.
const MAX_DEPTH: usize = 16;
/// Along how many maps and axes a statement may be pulled back.
const MAX_ORIGINS: usize = 4;

/// The program in which such functions are shared.
pub(super) fn shared(program: &Program) -> Result<Cow<'_, Program>> {
    let is_long = |stmt: &Stmt| match &stmt.rhs {
        Rhs::Map { guard: Pred::True, function, .. } => function.is_call(),
        Rhs::Contract { sums, .. } => {
            sums.iter().any(|n| n.as_constant().is_none()) && !stmt.has_no_loop(&program.signature)
        }
        _ => false,
    };
    if !has_maps(program) || !program.stmts.values().any(is_long) {
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
        let origins = sharing.origins(stmt)?;
        let read = match origins.first() {
            Some(origin) if wanted[x] && is_long(stmt) && has_room(program, sharing.builder.dims(origin.var)) => {
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

/// A map, and the axes of a tensor that are its sources, in their order.
#[derive(Clone, PartialEq)]
struct Along {
    map: RelationId,
    axes: Vec<usize>,
}

impl Along {
    /// Whether an index is a source.
    fn has(&self, i: IndexId) -> bool {
        self.axes.contains(&i.index())
    }

    /// The first source, in whose place the targets are.
    fn first(&self) -> IndexId {
        IndexId::from_index(self.axes.first().copied().unwrap_or(0))
    }

    /// What a tensor with such axes has over targets: the targets in place of the first source, and no other source.
    fn over<T: Clone>(&self, axes: &[T], target: T) -> Vec<T> {
        let first = self.first().index();
        let kept = axes.iter().enumerate().filter(|(k, _)| *k == first || !self.axes.contains(k));
        kept.map(|(k, axis)| if k == first { target.clone() } else { axis.clone() }).collect()
    }
}

/// What a tensor is pulled back from along a map.
#[derive(Clone)]
struct Origin {
    along: Along,
    /// A tensor of the new program, which has the targets of the map where the other has the sources.
    var: VarId,
    depth: usize,
}

struct Sharing<'a> {
    program: &'a Program,
    builder: Builder,
    vars: SideTable<VarId, Option<VarId>>,
    origins: SideTable<VarId, Vec<Origin>>,
}

/// An operand as it is over targets.
enum Pulled {
    /// Pulled back, through so many statements.
    From(VarId, usize),
    /// It does not depend on the sources: a number.
    Number(f64),
}

impl Sharing<'_> {
    /// What a statement is pulled back from, where its operands are known.
    fn origins(&mut self, stmt: &Stmt) -> Result<Vec<Origin>> {
        let gens: Vec<IndexId> = (0..stmt.dims.len()).map(IndexId::from_index).collect();
        // Along what it might be: what its guard applies, and what its operands are pulled back along.
        let mut candidates: Vec<Along> = Vec::new();
        let mut consider = |along: Option<Along>| {
            if let Some(along) = along.filter(|along| candidates.len() < MAX_ORIGINS && !candidates.contains(along)) {
                candidates.push(along);
            }
        };
        if let Rhs::Contract { sums, guard, operands: _ } = &stmt.rhs {
            guard.conjuncts().iter().for_each(|p| consider(self.applied(stmt, sums, p).map(|(along, _)| along)));
        }
        let mut read = |x: VarId, indices: &[IndexId]| {
            for origin in &self.origins[x] {
                let axis = |k: &usize| gens.iter().position(|i| indices.get(*k) == Some(i));
                let axes: Option<Vec<usize>> = origin.along.axes.iter().map(axis).collect();
                consider(axes.map(|axes| Along { map: origin.along.map, axes }));
            }
        };
        match &stmt.rhs {
            Rhs::Input { .. } | Rhs::Number(_) => {}
            Rhs::Add(sides) => sides.iter().for_each(|(_, y)| read(*y, &gens)),
            Rhs::Map { args, .. } => args.iter().for_each(|y| read(*y, &gens)),
            Rhs::Contract { operands, .. } => operands.iter().for_each(|operand| read(operand.var, &operand.indices)),
        }
        let found = candidates.into_iter().map(|along| self.origin(stmt, along));
        Ok(found.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    fn origin(&mut self, stmt: &Stmt, along: Along) -> Result<Option<Origin>> {
        let free = |p: &Pred| !along.axes.iter().any(|k| p.mentions(IndexId::from_index(*k)));
        match &stmt.rhs {
            Rhs::Input { .. } | Rhs::Number(_) => Ok(None),
            Rhs::Add([(p, y), (q, z)]) if free(p) && free(q) => {
                let (y, z) = ((*y, along.clone()), (*z, along.clone()));
                let Some((depth, vars)) = self.pulled(&[y, z])? else { return Ok(None) };
                let [y, z] = vars.as_slice() else { return Ok(None) };
                let over = self.over(stmt, &along, &[]);
                let (gens, names) = (&over.gens, &over.names);
                let guards = (self.named(p, names)?, self.named(q, names)?);
                let sum = self.builder.add(gens, [(guards.0, *y), (guards.1, *z)])?;
                // The guard is around the sum, so that it has no others.
                let operand = Operand { var: sum, indices: gens.iter().map(|(i, _)| *i).collect() };
                let var = self.builder.contract(gens, &[], over.used, vec![operand])?;
                Ok(Some(Origin { along, var, depth }))
            }
            Rhs::Map { guard: Pred::True, function, args } => {
                let args: Vec<(VarId, Along)> = args.iter().map(|y| (*y, along.clone())).collect();
                let Some((depth, vars)) = self.pulled(&args)? else { return Ok(None) };
                let over = self.over(stmt, &along, &[]);
                let var = self.builder.map(&over.gens, over.used, *function, vars)?;
                Ok(Some(Origin { along, var, depth }))
            }
            Rhs::Contract { sums, guard, operands } => self.contraction(stmt, along, sums, guard, operands),
            Rhs::Add(_) | Rhs::Map { .. } => Ok(None),
        }
    }

    fn contraction(
        &mut self,
        stmt: &Stmt,
        along: Along,
        sums: &[Size],
        guard: &Pred,
        operands: &[Operand],
    ) -> Result<Option<Origin>> {
        let rank = stmt.dims.len();
        let of_source = |p: &Pred| along.axes.iter().any(|k| p.mentions(IndexId::from_index(*k)));
        // A guard on other `gen` indices would choose among the targets.
        let sums_only = |p: &Pred| {
            let mut some = false;
            p.visit_free(&mut |i| some |= i.index() >= rank);
            some && !of_source(p)
        };
        let reads_source = |operand: &Operand| operand.indices.iter().any(|i| along.has(*i));
        let (own, rest): (Vec<&Pred>, Vec<&Pred>) = guard.conjuncts().iter().partition(|p| of_source(p));
        if !rest.iter().all(|p| sums_only(p)) {
            return Ok(None);
        }
        let target = match own.as_slice() {
            [] => None,
            [p] => match self.applied(stmt, sums, p) {
                Some((applied, target)) if applied == along && !operands.iter().any(reads_source) => Some(target),
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        // Operands that have the sources are pulled back along them.
        let mut reads = Vec::new();
        for operand in operands.iter().filter(|operand| reads_source(operand)) {
            let at = |k: &usize| {
                let mut places = (0..operand.indices.len()).filter(|at| operand.indices[*at].index() == *k);
                places.next().filter(|_| places.next().is_none())
            };
            let Some(axes) = along.axes.iter().map(at).collect() else { return Ok(None) };
            reads.push((operand.var, Along { map: along.map, axes }));
        }
        let (depth, vars) = match target {
            Some(_) => (1, Vec::new()),
            None => match self.pulled(&reads)? {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        let is_other = |(k, _): &(usize, Size)| target.is_none_or(|target| target.index() != *k);
        let others: Vec<(usize, Size)> = (rank..).zip(sums.iter().cloned()).filter(is_other).collect();
        let mut over = self.over(stmt, &along, &others);
        over.names.0.extend(target.map(|target| (target, over.target)));
        let mut all = over.used.clone();
        for p in rest {
            all = all.and(self.named(p, &over.names)?);
        }
        let (mut pulled, mut factors) = (vars.into_iter().zip(&reads), Vec::new());
        for operand in operands {
            let read = if reads_source(operand) { pulled.next() } else { None };
            let (var, indices) = match read {
                Some((var, (_, axes))) => (Some(var), axes.over(&operand.indices, along.first())),
                None => (self.vars[operand.var], operand.indices.clone()),
            };
            let (Some(var), Some(indices)) = (var, over.names.all(&indices)) else { return Ok(None) };
            factors.push(Operand { var, indices });
        }
        let var = self.builder.contract(&over.gens, &over.sums, all, factors)?;
        Ok(Some(Origin { along, var, depth }))
    }

    /// `m(i, .., c)` for a map, with `gen` indices that are whole sources and a `sum` index `c` that is the whole target.
    fn applied(&self, stmt: &Stmt, sums: &[Size], p: &Pred) -> Option<(Along, IndexId)> {
        let extent = |i: IndexId| stmt.dims.iter().chain(sums).nth(i.index());
        let Pattern { relation: map, mut axes } = Pattern::of_map(&self.program.signature, p, extent)?;
        let (target, rank) = (axes.pop()?, stmt.dims.len());
        let fits = target >= rank && axes.iter().all(|k| *k < rank);
        fits.then(|| (Along { map, axes }, IndexId::from_index(target)))
    }

    /// Tensors over targets for tensors that are read along one map, if one is pulled back, and how many statements they go through.
    fn pulled(&mut self, reads: &[(VarId, Along)]) -> Result<Option<(usize, Vec<VarId>)>> {
        let mut pulled = Vec::with_capacity(reads.len());
        for (y, along) in reads {
            let origin = self.origins[*y].iter().find(|origin| origin.along == *along);
            pulled.push(match (origin, &self.program.stmts[*y].rhs) {
                (Some(origin), _) => Pulled::From(origin.var, origin.depth),
                (None, Rhs::Number(Number::Literal(c))) => Pulled::Number(*c),
                _ => return Ok(None),
            });
        }
        let depths = pulled.iter().filter_map(|p| if let Pulled::From(_, depth) = p { Some(*depth) } else { None });
        let depth = match depths.max() {
            Some(depth) if depth < MAX_DEPTH => depth + 1,
            _ => return Ok(None),
        };
        let mut vars = Vec::with_capacity(pulled.len());
        for (pulled, (y, along)) in pulled.iter().zip(reads) {
            vars.push(match pulled {
                Pulled::From(var, _) => *var,
                Pulled::Number(c) => {
                    let dims = along.over(&self.program.stmts[*y].dims, self.targets(along.map));
                    let gens = self.builder.fresh_indices(&dims);
                    self.builder.number(&gens, Number::Literal(*c))?
                }
            });
        }
        Ok(Some((depth, vars)))
    }

    fn targets(&self, map: RelationId) -> Size {
        let shape = self.program.signature.relations.get(map).map_or(&[][..], |relation| &relation.shape);
        shape.last().cloned().unwrap_or_else(|| Affine::constant(0))
    }

    /// The indices of a statement over targets.
    fn over(&mut self, stmt: &Stmt, along: &Along, sums: &[(usize, Size)]) -> Over {
        let gens = self.builder.fresh_indices(&along.over(&stmt.dims, self.targets(along.map)));
        let (numbers, sizes): (Vec<usize>, Vec<Size>) = sums.iter().cloned().unzip();
        let sums = self.builder.fresh_indices(&sizes);
        let axes: Vec<IndexId> = (0..stmt.dims.len()).map(IndexId::from_index).collect();
        let numbered = along.over(&axes, along.first()).into_iter().chain(numbers.into_iter().map(IndexId::from_index));
        let names = Names(numbered.zip(gens.iter().chain(&sums).map(|(i, _)| *i)).collect());
        let target = names.of(along.first()).unwrap_or(along.first());
        let used = in_use(&mut self.builder, along.map, target);
        Over { gens, sums, names, target, used }
    }

    /// A guard of the program before, under other names.
    fn named(&mut self, p: &Pred, names: &Names) -> Result<Pred> {
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
        self.builder.freshen(&p, &|i| names.of(i))
    }

    /// `gen o, ... sum c. [m(o, c)] * Y[c, ..]`
    fn read(&mut self, stmt: &Stmt, origin: &Origin) -> Result<VarId> {
        let Along { map, axes } = &origin.along;
        let gens = self.builder.fresh_indices(&stmt.dims);
        let c = self.builder.fresh_index();
        let indices: Vec<IndexId> = gens.iter().map(|(i, _)| *i).collect();
        let sources = axes.iter().map(|k| indices[*k].into()).chain([c.into()]).collect();
        let guard = Pred::relation(RelationRef::Input(*map), sources);
        let operand = Operand { var: origin.var, indices: origin.along.over(&indices, c) };
        self.builder.contract(&gens, &[(c, self.targets(*map))], guard, vec![operand])
    }
}

/// A statement over targets: its indices, what they are called in the statement before, and that the target is in use.
struct Over {
    gens: Vec<(IndexId, Size)>,
    sums: Vec<(IndexId, Size)>,
    names: Names,
    target: IndexId,
    used: Pred,
}
