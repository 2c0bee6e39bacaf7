//! The elements of tensors as numbers in registers.
//!
//! `[[X[a]]]` is a load where `X` is stored; else the right-hand side of `X` at `a`, with its guard tested around what the guard protects.

use super::PASS;
use super::guard::also;
use super::plan::{Placement, Stored};
use super::scope::Nester;
use super::sum_order;
use crate::base::{Id, IndexId, VarId, work};
use crate::error::{Error, Result};
use crate::index::{Affine, Checked, Pred, RelationRef, Size, View};
use crate::loops::{Cond, Place, Real, RealId, Stmt};
use crate::scalar::Number;
use crate::solver::have_one_value;
use crate::tssa::exchanges::order;
use crate::tssa::{Operand, Rhs};

/// Work that may be done where a computed guard does not hold, and thrown away.
const SPECULATED: u64 = 24;

impl<'a> Nester<'a> {
    /// An element at indices that are in range in the innermost scope.
    ///
    /// Where axes can be exchanged, the index of the outer loop comes first: rows are read, and what is known of one place is known of the other.
    pub fn element(&mut self, x: VarId, at: &[Affine]) -> Result<RealId> {
        work::charge(4);
        work::check()?;
        let mut ordered = at.to_vec();
        order(&self.plan.exchanges[x], &mut ordered);
        let at = ordered.as_slice();
        if let Some(known) = self.computed(x, at) {
            return Ok(known);
        }
        let level = self.element_level(x, at);
        self.at_level(level, |nester| {
            let r = nester.compute(x, at)?;
            nester.remember(x, at, r);
            Ok(r)
        })
    }

    /// The outermost scope in which an element can be computed.
    fn element_level(&self, x: VarId, at: &[Affine]) -> usize {
        let mut level = 0;
        for (a, n) in at.iter().zip(&self.program.stmts[x].dims) {
            level = level.max(self.range_level(a, n).unwrap_or(self.innermost()));
        }
        if let Placement::Given(stored) | Placement::Stored(stored) = &self.plan.placements[x]
            && let Some(pattern) = &stored.entries
        {
            let args: Vec<Affine> = pattern.axes.iter().filter_map(|g| at.get(*g).cloned()).collect();
            level = level.max(self.entry(pattern.relation, &args).map_or(self.innermost(), |(level, _)| level));
        }
        self.past_tests(level)
    }

    fn compute(&mut self, x: VarId, at: &[Affine]) -> Result<RealId> {
        match &self.plan.placements[x] {
            Placement::Given(stored) | Placement::Stored(stored) => self.load(stored, at),
            Placement::Inline(decision) => {
                decision.iter().for_each(|decision| self.decide(decision.clone()));
                self.value(x, at)
            }
            Placement::Dead => Err(Error::bug(PASS, format!("{x} is read but was taken to be dead"))),
        }
    }

    /// An element of a buffer; 0 where a sparse one has no entry.
    fn load(&mut self, stored: &'a Stored, at: &[Affine]) -> Result<RealId> {
        let Some(pattern) = &stored.entries else {
            let place = Place { buffer: stored.buffer, at: at.to_vec() };
            return Ok(self.define(Real::Load(place)));
        };
        let args: Vec<Affine> = pattern.axes.iter().filter_map(|g| at.get(*g).cloned()).collect();
        self.projected(pattern.relation, &args);
        if self.entry(pattern.relation, &args).is_some() {
            let place = self.place_in(stored, at)?;
            return Ok(self.define(Real::Load(place)));
        }
        let r = self.local();
        let found = self.locate(pattern.relation, &args)?;
        self.test(Cond::NonNegative(found.node.clone()), &mut |nester| {
            let entry = nester.entry_at(pattern.relation, &found);
            nester.remember_entry(pattern.relation, &args, entry);
            let place = nester.place_in(stored, at)?;
            let value = nester.define(Real::Load(place));
            nester.emit(Stmt::Assign(r, value));
            Ok(())
        })?;
        Ok(r)
    }

    /// The right-hand side of a statement.
    pub fn value(&mut self, x: VarId, at: &[Affine]) -> Result<RealId> {
        let program = self.program;
        match &program.stmts[x].rhs {
            Rhs::Input { .. } => Err(Error::bug(PASS, "a parameter is computed")),
            Rhs::Number(Number::Literal(c)) => Ok(self.define(Real::Literal(*c))),
            Rhs::Number(Number::Index(a)) => {
                let a = a.substitute(&|i| at.get(i.index()).cloned())?;
                Ok(self.define(Real::Index(a)))
            }
            Rhs::Add([(p, y), (q, z)]) => {
                let (p, q) = (self.beyond(*y, p)?, self.beyond(*z, q)?);
                let left = self.selected(&p, at, &[*y], &mut |nester| nester.element(*y, at))?;
                let right = self.selected(&q, at, &[*z], &mut |nester| nester.element(*z, at))?;
                Ok(match (left, right) {
                    (Some(left), Some(right)) => self.define(Real::Add(left, right)),
                    // The other side is 0.
                    (Some(one), None) | (None, Some(one)) => self.add_zero(one),
                    (None, None) => self.define(Real::Literal(0.0)),
                })
            }
            Rhs::Map { guard, function, args } => {
                let value = self.selected(guard, at, args, &mut |nester| {
                    let args = args.iter().map(|y| nester.element(*y, at)).collect::<Result<_>>()?;
                    Ok(nester.define(Real::Apply(*function, args)))
                })?;
                Ok(self.or_zero(value))
            }
            Rhs::Contract { sums, guard, operands } if sums.is_empty() => {
                let reads: Vec<VarId> = operands.iter().map(|operand| operand.var).collect();
                let value = self.selected(guard, at, &reads, &mut |nester| nester.product(operands, at))?;
                Ok(self.or_zero(value))
            }
            Rhs::Contract { sums, guard, operands } => self.sum(x, sums, guard, operands, at),
        }
    }

    /// What of a guard is to be tested around a term: no cases that its own guard implies, as it is 0 where they fail, whoever computes or stores it.
    fn beyond(&self, x: VarId, p: &Pred) -> Result<Pred> {
        let is_at_hand = match &self.plan.placements[x] {
            Placement::Inline(_) => true,
            // It may have no numbers at targets that are not in use.
            Placement::Stored(stored) => stored.entries.is_none() && !self.plan.read_in_use[x],
            Placement::Given(_) | Placement::Dead => false,
        };
        if !is_at_hand || !p.conjuncts().iter().any(Pred::has_cases) {
            return Ok(p.clone());
        }
        let stmt = &self.program.stmts[x];
        let own = match &stmt.rhs {
            Rhs::Add([(p, _), (q, _)]) => p.clone().or(q.clone()),
            Rhs::Map { guard, .. } | Rhs::Contract { guard, .. } => guard.clone(),
            Rhs::Input { .. } | Rhs::Number(_) => return Ok(p.clone()),
        };
        let all: Vec<(IndexId, Size)> =
            stmt.dims.iter().chain(stmt.rhs.sums()).zip(0..).map(|(n, at)| (IndexId(at), n.clone())).collect();
        let facts = self.program.signature.facts().under(&all, [&own]);
        let mut left = Vec::new();
        for p in p.conjuncts() {
            // What it binds has numbers that sums of the term have, too.
            if !p.has_cases() || !facts.proves(&p.alpha_normal()) {
                left.push(p.clone());
            }
        }
        Ok(Pred::all(left))
    }

    fn or_zero(&mut self, value: Option<RealId>) -> RealId {
        value.unwrap_or_else(|| self.define(Real::Literal(0.0)))
    }

    /// `r + 0`, which makes 0 of -0.
    fn add_zero(&mut self, r: RealId) -> RealId {
        let zero = self.define(Real::Literal(0.0));
        self.define(Real::Add(r, zero))
    }

    fn product(&mut self, operands: &[Operand], at: &[Affine]) -> Result<RealId> {
        let mut product = None;
        for Operand { var, indices } in operands {
            let place: Option<Vec<Affine>> = indices.iter().map(|i| at.get(i.index()).cloned()).collect();
            let place = place.ok_or_else(|| Error::bug(PASS, format!("{var} is read at an unknown index")))?;
            let factor = self.element(*var, &place)?;
            product = Some(match product {
                Some(product) => self.define(Real::Mul(product, factor)),
                None => factor,
            });
        }
        product.ok_or_else(|| Error::bug(PASS, "a contraction without operands"))
    }

    /// `[p] * value`; nothing where the guard is false for sure.
    fn selected(
        &mut self,
        guard: &Pred,
        at: &[Affine],
        reads: &[VarId],
        value: &mut dyn FnMut(&mut Self) -> Result<RealId>,
    ) -> Result<Option<RealId>> {
        let guard = self.open(guard, at)?;
        if guard.is_false() {
            return Ok(None);
        }
        let conjuncts = self.prune(guard.conjuncts().to_vec())?;
        if conjuncts.contains(&Pred::False) {
            return Ok(None);
        }
        let (computed, tests) = self.computed_guards(conjuncts, reads)?;
        if tests.is_empty() {
            let r = value(self)?;
            return self.select(&computed, r).map(Some);
        }
        let r = self.local();
        self.guarded(&tests, &mut |nester| {
            let inner = value(nester)?;
            let inner = nester.select(&computed, inner)?;
            nester.emit(Stmt::Assign(r, inner));
            Ok(())
        })?;
        Ok(Some(r))
    }

    /// Conjuncts `X[a] != 0` whose place is in range, and the others. Little work is rather done in vain than tested for.
    fn computed_guards(&mut self, conjuncts: Vec<Pred>, reads: &[VarId]) -> Result<(Vec<Computed>, Vec<Pred>)> {
        let work: u64 = reads.iter().map(|x| self.plan.work[*x]).sum();
        let (mut computed, mut tests) = (Vec::new(), Vec::new());
        for p in conjuncts {
            if let Pred::Relation { relation: RelationRef::Computed { var, view: View::Support }, args, holds: true } =
                &p
                && work <= SPECULATED
                && self.ranges_of(args, &self.program.stmts[*var].dims)?.is_empty()
            {
                computed.push((*var, args.clone()));
                continue;
            }
            tests.push(p);
        }
        Ok((computed, tests))
    }

    fn select(&mut self, computed: &[Computed], mut r: RealId) -> Result<RealId> {
        for (var, args) in computed {
            let flag = self.element(*var, args)?;
            r = self.define(Real::Select(flag, r));
        }
        Ok(r)
    }

    /// `sum s. [p] * product`
    ///
    /// What is known of the operands may leave one summand. The sum begins with 0 all the same, unless its own guard makes it an access.
    fn sum(&mut self, x: VarId, sums: &[Size], guard: &Pred, operands: &[Operand], at: &[Affine]) -> Result<RealId> {
        let mut indices: Vec<_> = sums.iter().map(|n| (self.fresh_index(), n.clone())).collect();
        let inner: Vec<Affine> = at.iter().cloned().chain(indices.iter().map(|(i, _)| (*i).into())).collect();
        let guard = self.open(guard, &inner)?;
        if guard.is_false() {
            return Ok(self.define(Real::Literal(0.0)));
        }
        let mut conjuncts = guard.conjuncts().to_vec();
        // Outside of its pattern and its support an operand is zero. Patterns first: they drive loops.
        let place = |operand: &Operand| -> Vec<Affine> {
            operand.indices.iter().filter_map(|i| inner.get(i.index()).cloned()).collect()
        };
        let places: Vec<(VarId, Vec<Affine>)> = operands.iter().map(|operand| (operand.var, place(operand))).collect();
        for (x, place) in &places {
            self.plan.patterns[*x].iter().for_each(|pattern| also(&mut conjuncts, &pattern.atom(place), &|_| true));
        }
        let of_sums = |p: &Pred| indices.iter().any(|(i, _)| p.mentions(*i));
        for (x, place) in &places {
            let support = self.open(&self.plan.supports[*x], place)?;
            also(&mut conjuncts, &support, &of_sums);
        }
        let found = self.found_out(&mut indices, &mut conjuncts);
        let reads: Vec<VarId> = operands.iter().map(|operand| operand.var).collect();
        let work: u64 = reads.iter().map(|x| self.plan.work[*x]).sum();
        // Guards that are computed at the point become a select.
        let is_computed = |p: &Pred| {
            matches!(p, Pred::Relation { relation: RelationRef::Computed { view: View::Support, .. }, holds: true, .. })
        };
        // But for what tells a place.
        let tells = |p: &Pred| indices.iter().any(|(i, _)| self.tells(p, &|a| a.mentions(*i)).is_some());
        let (computed, tests): (Vec<Pred>, Vec<Pred>) =
            conjuncts.into_iter().partition(|p| work <= SPECULATED && is_computed(p) && !tells(p));
        if tests.is_empty()
            && found.is_empty()
            && let Some(order) = sum_order::order(self.program, &self.plan.placements, x)
        {
            indices = order.into_iter().filter_map(|at| indices.get(at).cloned()).collect();
        }
        let start = self.scope().stmts.len();
        let depth = self.innermost();
        let total = self.local();
        let is_access = self.program.stmts[x].is_access(&self.program.signature);
        let (mut single, mut summands) = (None, 0);
        self.points(indices, tests, &mut |nester, point| {
            let place: Vec<Affine> = inner.iter().map(|a| point.value(a)).collect::<Checked<_>>()?;
            for p in &found {
                let known = p.map_affine(&mut |a| point.value(a))?;
                nester.know(&known);
            }
            let guards = computed.iter().map(|p| p.map_affine(&mut |a| point.value(a)));
            let guards = guards.collect::<Checked<Vec<_>>>()?;
            let guards = nester.prune(guards)?;
            let (computed, tests) = nester.computed_guards(guards, &reads)?;
            summands += 1;
            if tests.is_empty() {
                let product = nester.product(operands, &place)?;
                let product = nester.select(&computed, product)?;
                if nester.innermost() == depth {
                    single = Some(product);
                } else {
                    nester.emit(Stmt::Accumulate(total, product));
                }
                return Ok(());
            }
            nester.guarded(&tests, &mut |nester| {
                let product = nester.product(operands, &place)?;
                let product = nester.select(&computed, product)?;
                nester.emit(Stmt::Accumulate(total, product));
                Ok(())
            })
        })?;
        if let Some(product) = single {
            // One summand needs no register to add to.
            self.scope().stmts.remove(start);
            return Ok(if is_access { product } else { self.add_zero(product) });
        }
        if summands == 1 && is_access {
            self.scope().stmts[start..].iter_mut().for_each(|stmt| assign(stmt, total));
        }
        Ok(total)
    }
}

impl Nester<'_> {
    /// Makes indices of a sum of those that something exists for that the sum goes over, if each has one value: so that where it exists is gone through,
    /// and nothing else. What exists then, with names of its own for what is bound.
    fn found_out(&self, indices: &mut Vec<(IndexId, Size)>, conjuncts: &mut Vec<Pred>) -> Vec<Pred> {
        let signature = &self.program.signature;
        let mut found: Vec<Pred> = Vec::new();
        let mut left: Vec<Pred> = std::mem::take(conjuncts);
        left.reverse();
        while let Some(p) = left.pop() {
            let Pred::Exists { index, extent, body } = &p else {
                if !conjuncts.contains(&p) {
                    conjuncts.push(p);
                }
                continue;
            };
            let is_summed = indices.iter().any(|(i, _)| p.mentions(*i));
            let has_one = have_one_value(&[*index], body.conjuncts(), &|relation| signature.gives_targets(relation));
            if !is_summed || !has_one {
                conjuncts.push(p);
                continue;
            }
            let named = p.alpha_normal();
            if !found.contains(&named) {
                indices.push((*index, extent.clone()));
                left.extend(body.conjuncts().iter().rev().cloned());
                found.push(named);
            }
        }
        found
    }
}

/// What is added to a register once is its value: 0 plus -0 would be 0.
fn assign(stmt: &mut Stmt, total: RealId) {
    match stmt {
        Stmt::Accumulate(r, product) if *r == total => *stmt = Stmt::Assign(total, *product),
        Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } => {
            body.iter_mut().for_each(|stmt| assign(stmt, total));
        }
        _ => {}
    }
}

/// A tensor read as a relation, and where.
type Computed = (VarId, Vec<Affine>);
