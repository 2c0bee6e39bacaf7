//! The right-hand side of a statement at a place: reads of parameters, sums whose guard stands as far out as it can, sparse elements.

use super::largest::Largest;
use super::sums::Contraction;
use super::{Build, Context, MAX_WEIGHT, Presenter, Task, bug};
use crate::base::{Id, IndexId, ParamId, VarId, work};
use crate::error::Result;
use crate::index::{Affine, Pred, RelationRef, Size};
use crate::scalar::Number;
use crate::solver::Facts;
use crate::term::{Term, TermId};
use crate::tssa::{Operand, Rhs};
use crate::ty::{Side, Type};

/// More indices than a guard binds.
const MAX_INDICES: usize = 1 << 20;

impl Presenter<'_> {
    pub(super) fn visit(&mut self, x: VarId, place: Vec<Affine>, context: Context, out: &mut Vec<Task>) -> Result<()> {
        self.share_costly(x, &place, context);
        // A parameter is read itself even where a guard needs a copy of it.
        if self.is_variable(x) {
            self.record_use(x, context);
            let array = Term::Var(self.var(x));
            let array = self.term.push(array)?;
            let read = self.term.access(array, place)?;
            self.built.push(read);
            return Ok(());
        }
        self.expand(x, place, context, out)
    }

    /// The right-hand side of a statement with its axes at a place.
    pub(super) fn expand(&mut self, x: VarId, place: Vec<Affine>, context: Context, out: &mut Vec<Task>) -> Result<()> {
        let source = self.source;
        let stmt = &source.stmts[x];
        if stmt.dims.len() != place.len() {
            return Err(bug("a tensor is read at the wrong number of indices"));
        }
        match &stmt.rhs {
            Rhs::Input { param, path } => {
                let read = self.read_param(*param, path, place)?;
                self.built.push(read);
            }
            Rhs::Number(number) => {
                let number = match number {
                    Number::Literal(x) => Number::Literal(*x),
                    Number::Index(a) => Number::Index(self.affine(a, &place)?),
                };
                let number = self.term.push(Term::Number(number))?;
                self.built.push(number);
            }
            Rhs::Add(sides) => {
                let mut summands = 0;
                let mut guards = Vec::with_capacity(sides.len());
                for (p, y) in sides {
                    let unsaid = self.unsaid(*y, p);
                    let guard = self.pred(&unsaid, &place)?;
                    guards.push(self.simplify(&guard, context));
                }
                for (at, (_, y)) in sides.iter().enumerate().filter(|(at, _)| !guards[*at].is_false()) {
                    summands += 1;
                    let inner = self.enter_guard(&guards[at], context);
                    out.push(Task::Visit(*y, place.clone(), inner));
                    let atom = self.pattern(*y, &place);
                    // Said by the element, unless it guards both sides.
                    let both = atom.iter().all(|p| guards.iter().all(|guard| guard.conjuncts().contains(p)));
                    let said = |p: &&Pred| both || atom.as_ref() != Some(*p);
                    let guard = Pred::all(guards[at].conjuncts().iter().filter(said).cloned());
                    out.extend(atom.clone().map(|p| Task::Build(Build::Iverson(p))));
                    self.bracket(&guard, context, out);
                }
                out.push(Task::Build(match summands {
                    0 => Build::Literal(0.0),
                    1 => Build::Iverson(Pred::True),
                    _ => Build::Add,
                }));
            }
            Rhs::Map { guard, function, args } => {
                let guard = self.pred(guard, &place)?;
                let guard = self.simplify(&guard, context);
                if guard.is_false() {
                    out.push(Task::Build(Build::Literal(0.0)));
                    return Ok(());
                }
                let inner = self.enter_guard(&guard, context);
                for y in args {
                    out.push(Task::Visit(*y, place.clone(), inner));
                    out.extend(self.pattern(*y, &place).map(|p| Task::Build(Build::Iverson(p))));
                }
                out.push(Task::Build(Build::Apply(*function, args.len())));
                self.bracket(&guard, context, out);
            }
            Rhs::Contract { sums, guard, operands } => {
                let guard = match self.only_factor(x) {
                    Some(factor) => &self.unsaid_of_sum(factor, guard),
                    None => guard,
                };
                let mut contraction = self.open(&place, sums, guard, operands)?;
                let largest = self.largest(&contraction, context);
                if let Largest::No = largest {
                    contraction = self.solve(contraction, context)?;
                }
                self.contract(contraction, context, largest, out);
            }
        }
        Ok(())
    }

    /// What a guard around a tensor has to say: not that some place is summed, as a sum over no place is 0, nor what the guards of all terms of a
    /// sum of two tensors are cases of.
    fn unsaid(&mut self, x: VarId, p: &Pred) -> Pred {
        let source = self.source;
        let stmt = &source.stmts[x];
        match &stmt.rhs {
            Rhs::Add(sides) if sides.iter().all(|(q, _)| p.has_cases_of(q)) => Pred::True,
            Rhs::Contract { .. } => self.unsaid_of_sum(x, p),
            _ => p.clone(),
        }
    }

    /// The same of a sum over places, or a multiple of one.
    fn unsaid_of_sum(&mut self, x: VarId, p: &Pred) -> Pred {
        if p.is_true() {
            return Pred::True;
        }
        let x = self.end_of_multiples(x);
        let stmt = &self.source.stmts[x];
        match &stmt.rhs {
            Rhs::Contract { sums, guard, .. } if !sums.is_empty() && !self.is_variable(x) => {
                let known = self.of_a_term(&stmt.dims, sums, guard);
                let said = |part: &&Pred| known.as_ref().is_none_or(|known| !known.proves(part));
                Pred::all(p.conjuncts().iter().filter(said).cloned())
            }
            _ => p.clone(),
        }
    }

    /// What a tensor is a multiple of a multiple of, and so on: a variable, or no multiple. All statements on the way have the same end, as long as
    /// none becomes a variable.
    fn end_of_multiples(&mut self, x: VarId) -> VarId {
        let (mut at, mut way) = (x, Vec::new());
        let end = loop {
            work::charge(1);
            if let Some((end, _)) = self.ends[at.index()].filter(|(_, late)| *late == self.late_variables) {
                break end;
            }
            match self.only_factor(at).filter(|_| !self.is_variable(at)) {
                Some(factor) => {
                    way.push(at);
                    at = factor;
                }
                None => break at,
            }
        };
        for at in way {
            self.ends[at.index()] = Some((end, self.late_variables));
        }
        end
    }

    /// What a tensor is a multiple of, element by element.
    fn only_factor(&self, x: VarId) -> Option<VarId> {
        let stmt = &self.source.stmts[x];
        let only = stmt.rhs.only_factor(&|x| &self.source.stmts[x])?;
        let in_place = only.indices.iter().map(|i| i.index()).eq(0..stmt.dims.len());
        (stmt.rhs.sums().is_empty() && in_place).then_some(only.var)
    }

    /// What is known at a term of a sum; nothing where that is too much. Indices of the sum have other numbers than those that a guard binds.
    fn of_a_term(&self, dims: &[Size], sums: &[Size], guard: &Pred) -> Option<Facts> {
        let shift = |at: usize| IndexId::from_index(if at < dims.len() { at } else { at + MAX_INDICES });
        let guard = guard.renamed(&|i| shift(i.index())).ok().filter(|guard| guard.weight() <= MAX_WEIGHT)?;
        let ranges: Vec<(IndexId, Size)> =
            dims.iter().chain(sums).cloned().enumerate().map(|(at, n)| (shift(at), n)).collect();
        Some(self.source.signature.facts().under(&ranges, [&guard]))
    }

    /// Where a sparse parameter is read, the atom of its pattern: with it the element is written `A[i, j]`.
    pub(super) fn pattern(&self, x: VarId, place: &[Affine]) -> Option<Pred> {
        let pattern = self.source.signature.params[self.whole_param(x)?].storage.pattern()?;
        Some(Pred::relation(RelationRef::Input(pattern), place.to_vec()))
    }

    /// A leaf of a parameter at a place: projections and accesses in the order of its type.
    fn read_param(&mut self, param: ParamId, path: &[Side], place: Vec<Affine>) -> Result<TermId> {
        let (mut path, mut place) = (path.iter(), place.into_iter());
        let mut term = self.term.push(Term::Var(self.term.param(param)))?;
        loop {
            term = match self.term.types.get(self.term.ty(term)) {
                Type::Real => return Ok(term),
                Type::Pair(..) => {
                    let side = path.next().ok_or_else(|| bug("an input is no leaf of its parameter"))?;
                    self.term.push(match side {
                        Side::Fst => Term::Fst(term),
                        Side::Snd => Term::Snd(term),
                    })?
                }
                Type::Tensor(..) => {
                    let index = place.next().ok_or_else(|| bug("an input is read at too few indices"))?;
                    self.term.push(Term::Access { array: term, index })?
                }
            };
        }
    }

    /// An index expression of a statement whose first indices are given.
    fn affine(&self, a: &Affine, place: &[Affine]) -> Result<Affine> {
        Ok(a.substitute(&|i| place.get(i.index()).cloned())?)
    }

    /// A guard of a statement whose first indices are given, over indices and variables of the term.
    pub(super) fn pred(&mut self, p: &Pred, place: &[Affine]) -> Result<Pred> {
        Ok(match p {
            Pred::All(ps) => Pred::all(ps.iter().map(|p| self.pred(p, place)).collect::<Result<Vec<_>>>()?),
            Pred::Any(ps) => Pred::any(ps.iter().map(|p| self.pred(p, place)).collect::<Result<Vec<_>>>()?),
            Pred::Exists { index, extent, body } => {
                // Bound indices are numbered behind those in scope.
                if index.index() != place.len() {
                    return Err(bug("an index of an `exists` is out of order"));
                }
                let fresh = self.index(None);
                let mut place = place.to_vec();
                place.push(Affine::index(fresh));
                let body = self.pred(body, &place)?;
                Pred::exists(fresh, extent.clone(), body)
            }
            Pred::Relation { relation, args, holds } => {
                let args = args.iter().map(|a| self.affine(a, place)).collect::<Result<Vec<_>>>()?;
                match *relation {
                    RelationRef::Computed { var, view } => {
                        let own = self.guard_of_comparison(var, &args, *holds)?;
                        let relation = RelationRef::Computed { var: self.relation_var(var), view };
                        own.and(Pred::Relation { relation, args, holds: *holds })
                    }
                    relation => Pred::Relation { relation, args, holds: *holds },
                }
            }
            atom => atom.substitute(&|i| place.get(i.index()).cloned())?,
        })
    }

    fn relation_var(&mut self, x: VarId) -> VarId {
        match self.whole_param(x) {
            Some(param) => self.term.param(param),
            None => {
                self.record_other_use(x);
                self.var(x)
            }
        }
    }

    fn open(&mut self, place: &[Affine], sums: &[Size], guard: &Pred, operands: &[Operand]) -> Result<Contraction> {
        let sums: Vec<(IndexId, Size)> = sums.iter().map(|n| (self.index(Some(n)), n.clone())).collect();
        let place: Vec<Affine> = place.iter().cloned().chain(sums.iter().map(|(s, _)| Affine::index(*s))).collect();
        let guard = self.pred(guard, &place)?;
        let operands = operands
            .iter()
            .map(|x| {
                let indices = x.indices.iter().map(|i| place.get(i.index()).cloned()).collect::<Option<Vec<_>>>();
                Ok((x.var, indices.ok_or_else(|| bug("an operand is read at an unbound index"))?))
            })
            .collect::<Result<_>>()?;
        Ok(Contraction { sums, guard, operands })
    }

    fn contract(&mut self, contraction: Contraction, context: Context, largest: Largest, out: &mut Vec<Task>) {
        let Contraction { sums, guard, operands } = contraction;
        if guard.is_false() {
            out.push(Task::Build(Build::Literal(0.0)));
            return;
        }
        // The conjuncts by the innermost `sum` that they mention.
        let mut levels: Vec<Vec<Pred>> = vec![Vec::new(); sums.len() + 1];
        for p in guard.conjuncts() {
            let level = sums.iter().rposition(|(s, _)| p.mentions(*s)).map_or(0, |at| at + 1);
            levels[level].push(p.clone());
        }
        let mut inner = self.enter_guard(&guard, context);
        for (index, _) in &sums {
            let depth = self.depth(inner);
            self.loops.push((*index, inner.loops, depth + 1));
            inner.loops = self.loops.len();
        }
        for (x, place) in &operands {
            self.share_costly(*x, place, inner);
            let (x, place) = self.arranged(*x, place);
            self.share_costly(x, &place, inner);
        }
        let stored = self.stored(&operands, &guard, context);
        let mut innermost = levels.pop().unwrap_or_default();
        // An atom is spelt at the access if it stands directly around, and no comparison in the bracket reads the entry.
        let here = |p: &Pred| innermost.contains(p) && !innermost.iter().any(|q| self.compares(q, p));
        let stored: Vec<Option<Pred>> = stored.into_iter().map(|p| p.filter(here)).collect();
        innermost.retain(|p| !stored.iter().flatten().any(|q| p == q));
        let factors = operands.len();
        for ((x, place), atom) in operands.into_iter().zip(stored) {
            out.push(Task::Visit(x, place, inner));
            out.extend(atom.map(|p| Task::Build(Build::Iverson(p))));
        }
        out.extend((1..factors).map(|_| Task::Build(Build::Mul)));
        self.bracket(&Pred::all(innermost), context, out);
        for ((index, extent), guard) in sums.into_iter().zip(levels).rev() {
            out.push(Task::Build(Build::Sum(index, extent.clone())));
            if let Largest::Or(limit) = largest {
                out.push(Task::Build(Build::OrLimit(extent, limit)));
            }
            self.bracket(&Pred::all(guard), context, out);
        }
    }

    /// For each factor the atom that guards it as a read of a sparse parameter, if it can be written there.
    fn stored(&self, operands: &[(VarId, Vec<Affine>)], guard: &Pred, context: Context) -> Vec<Option<Pred>> {
        let atom = |(x, place): &(VarId, Vec<Affine>)| {
            let atom = self.pattern(*x, place)?;
            guard.conjuncts().contains(&atom).then_some(atom)
        };
        let atoms: Vec<Option<Pred>> = operands.iter().map(atom).collect();
        let rest: Vec<Pred> =
            guard.conjuncts().iter().filter(|p| !atoms.iter().flatten().any(|q| q == *p)).cloned().collect();
        let free = operands.iter().zip(&atoms).all(|((x, place), atom)| {
            atom.is_some() || operands.len() == 1 || {
                let (x, place) = self.arranged(*x, place);
                let dense = match &self.source.stmts[x].rhs {
                    Rhs::Input { param, .. } => self.source.signature.params[*param].storage.pattern().is_none(),
                    Rhs::Number(_) => true,
                    _ => self.is_variable(x),
                };
                dense
                    && place.iter().zip(&self.source.stmts[x].dims).all(|(a, n)| {
                        Pred::in_range(a, n).is_ok_and(|range| self.proves(&range, &rest, context))
                            && self.has_value(a, &rest, context)
                    })
            }
        });
        if free { atoms } else { vec![None; operands.len()] }
    }
}
