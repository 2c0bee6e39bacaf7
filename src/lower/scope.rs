//! Open scopes: where statements go, and what is known there.

use std::collections::BTreeSet;

use super::PASS;
use super::plan::{Plan, Stored};
use crate::base::{Id, IndexId, Interner, RelationId, VarId, work};
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, RelationRef, Size, Var, View};
use crate::loops::{self, Array, ArrayId, Decision, Part, Place, Real, RealId, Segment, Stmt};
use crate::solver::Facts;
use crate::tssa::Program;

/// How many scopes may be open at a time: lowering and what looks at nests recurse on them.
const MAX_NESTING: usize = 128;

/// A scope under construction.
pub(super) struct Scope {
    /// Whether it is a test, which runs at most once, and not a loop.
    pub is_test: bool,
    pub stmts: Vec<Stmt>,
    /// Atoms that hold.
    pub known: Vec<Pred>,
    /// Expressions within `0 .. extent`.
    ranges: Vec<(Affine, Size)>,
    /// Everything known of sizes and indices, the scopes around included.
    pub facts: Facts,
    /// Elements that were computed.
    elements: Vec<(VarId, Vec<Affine>, RealId)>,
    /// Entries that were found.
    entries: Vec<(RelationId, Vec<Affine>, Affine)>,
    /// Searches that were made.
    searches: Vec<(Sought, IndexId)>,
    /// Nodes of relations that searches would lead to.
    nodes: Vec<IndexId>,
    /// Places of extrema that were found.
    extrema: Vec<(VarId, View, Vec<Affine>, IndexId)>,
    /// Integer parts of numbers, within extents.
    integers: Vec<(VarId, Vec<Affine>, Size, IndexId)>,
}

impl Scope {
    fn new(is_test: bool, facts: Facts) -> Self {
        Scope {
            is_test,
            stmts: Vec::new(),
            known: Vec::new(),
            ranges: Vec::new(),
            facts,
            elements: Vec::new(),
            entries: Vec::new(),
            searches: Vec::new(),
            nodes: Vec::new(),
            extrema: Vec::new(),
            integers: Vec::new(),
        }
    }
}

/// Where to look, and for what.
type Sought = (Segment, Option<(ArrayId, Affine)>);

/// Builds one nest.
pub(super) struct Nester<'a> {
    pub program: &'a Program,
    pub plan: &'a Plan,
    arrays: &'a mut Interner<ArrayId, Array>,
    /// The open scopes, outermost first; never empty.
    scopes: Vec<Scope>,
    /// The indices that have a loop.
    looped: BTreeSet<IndexId>,
    next_index: usize,
    next_real: usize,
    pub decisions: Vec<Decision>,
}

impl<'a> Nester<'a> {
    pub fn new(program: &'a Program, plan: &'a Plan, arrays: &'a mut Interner<ArrayId, Array>) -> Self {
        Nester {
            program,
            plan,
            arrays,
            scopes: vec![Scope::new(false, program.signature.facts())],
            looped: BTreeSet::new(),
            next_index: 0,
            next_real: 0,
            decisions: Vec::new(),
        }
    }

    /// The statements of the nest.
    pub fn finish(&mut self) -> Result<Vec<Stmt>> {
        match (self.scopes.pop(), self.scopes.is_empty()) {
            (Some(scope), true) => Ok(scope.stmts),
            _ => Err(Error::bug(PASS, "a nest ends in an open scope")),
        }
    }

    pub fn fresh_index(&mut self) -> IndexId {
        self.next_index += 1;
        IndexId::from_index(self.next_index - 1)
    }

    /// Takes an index for a loop; false if it has one elsewhere.
    pub fn loops_over(&mut self, i: IndexId) -> bool {
        self.looped.insert(i)
    }

    pub fn fresh_real(&mut self) -> RealId {
        self.next_real += 1;
        RealId::from_index(self.next_real - 1)
    }

    /// An array of a view of a relation. The levels of a view of a projection are the first ones of a view of the relation that it is of.
    pub fn array(&mut self, relation: RelationId, axes: &[usize], part: Part) -> ArrayId {
        let array = Array { relation, axes: axes.to_vec(), part };
        let array = array.of_projected(&self.program.signature).unwrap_or(array);
        self.arrays.intern(array)
    }

    /// An array of a view of a relation, whatever it is a projection of: where a tuple is sought in it that another one tells.
    pub fn own_array(&mut self, relation: RelationId, axes: &[usize], part: Part) -> ArrayId {
        self.arrays.intern(Array { relation, axes: axes.to_vec(), part })
    }

    /// Notes a decision, once.
    pub fn decide(&mut self, decision: Decision) {
        if !self.decisions.contains(&decision) {
            self.decisions.push(decision);
        }
    }

    /// The innermost open scope.
    pub fn scope(&mut self) -> &mut Scope {
        if self.scopes.is_empty() {
            self.scopes.push(Scope::new(false, Facts::new()));
        }
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    pub fn emit(&mut self, stmt: Stmt) {
        work::charge(4);
        self.scope().stmts.push(stmt);
    }

    pub fn define(&mut self, real: Real) -> RealId {
        let r = self.fresh_real();
        self.emit(Stmt::Define(r, real));
        r
    }

    pub fn local(&mut self) -> RealId {
        let r = self.fresh_real();
        self.emit(Stmt::Local(r));
        r
    }

    /// Opens the scope of a loop or of a test, fills it, and makes a statement of it.
    pub fn inside(
        &mut self,
        is_test: bool,
        fill: &mut dyn FnMut(&mut Self) -> Result<()>,
        close: impl FnOnce(Vec<Stmt>) -> Stmt,
    ) -> Result<()> {
        let body = self.body(is_test, fill)?;
        // A loop or a test of nothing does nothing.
        if !body.is_empty() {
            self.emit(close(body));
        }
        Ok(())
    }

    /// The statements that are emitted in a scope of their own.
    ///
    /// # Errors
    /// [`Error::Limit`] for a scope that is too deep inside of others; those of `fill`.
    pub fn body(&mut self, is_test: bool, fill: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<Vec<Stmt>> {
        let depth = self.scopes.len() + 1;
        if depth > MAX_NESTING {
            let what = "loops and tests inside of each other";
            return Err(Error::Limit { what, limit: MAX_NESTING as u64, found: depth as u64 });
        }
        let facts = self.scope().facts.clone();
        self.scopes.push(Scope::new(is_test, facts));
        fill(self)?;
        if self.scopes.len() != depth {
            return Err(Error::bug(PASS, "scopes are not closed in order"));
        }
        Ok(self.scopes.pop().map(|scope| scope.stmts).unwrap_or_default())
    }

    /// Runs in the scope at a level, with those inside of it set aside.
    pub fn at_level<T>(&mut self, level: usize, run: impl FnOnce(&mut Self) -> T) -> T {
        let aside = self.scopes.split_off((level + 1).min(self.scopes.len()));
        let result = run(self);
        self.scopes.extend(aside);
        result
    }

    pub fn innermost(&self) -> usize {
        self.scopes.len().saturating_sub(1)
    }

    /// The level, past tests that follow it: what is computed under a test is computed only where it holds.
    pub fn past_tests(&self, level: usize) -> usize {
        let tests = self.scopes.iter().skip(level + 1).take_while(|scope| scope.is_test).count();
        level + tests
    }

    /// `0 <= a < extent` in this scope.
    pub fn claim(&mut self, a: &Affine, extent: &Size) {
        self.scope().ranges.push((a.clone(), extent.clone()));
    }

    /// An index that is defined in this scope, within its extent.
    pub fn claim_index(&mut self, index: IndexId, extent: &Size) {
        self.claim(&Affine::index(index), extent);
        self.scope().facts.range(index, extent);
    }

    /// An atom holds in this scope.
    pub fn know(&mut self, p: &Pred) {
        let scope = self.scope();
        if !matches!(p, Pred::Relation { .. }) {
            scope.facts.assume(p);
        }
        scope.known.push(p.alpha_normal());
        if let Pred::Relation { relation: RelationRef::Input(relation), args, holds: true } = p {
            let program = self.program;
            for (projected, axes) in program.signature.projections_of(*relation) {
                let on_axes = axes.iter().filter_map(|axis| args.get(*axis).cloned()).collect();
                self.know(&Pred::relation(RelationRef::Input(projected), on_axes));
            }
        }
    }

    /// The outermost scope where an expression is known to be in range; nothing where none says so.
    pub fn range_level(&self, a: &Affine, extent: &Size) -> Option<usize> {
        self.scopes.iter().position(|scope| scope.ranges.iter().any(|(b, n)| a == b && n == extent))
    }

    /// Whether an atom holds in the innermost scope: it was tested, or it follows from what is known.
    pub fn holds(&mut self, p: &Pred) -> bool {
        let same = p.alpha_normal();
        if p.is_true() || self.scopes.iter().any(|scope| scope.known.contains(&same)) {
            return true;
        }
        match p {
            Pred::NonNegative(_) | Pred::Zero(_) | Pred::NonZero(_) => self.scope().facts.proves(p),
            Pred::All(ps) => ps.iter().all(|p| self.holds(p)),
            Pred::Any(ps) => ps.iter().any(|p| self.holds(p)),
            Pred::Exists { .. } => self.is_at_entry(p),
            Pred::Relation { .. } | Pred::True | Pred::False => false,
        }
    }

    /// Whether an `exists` asks for entries of a relation of which one was found.
    fn is_at_entry(&self, p: &Pred) -> bool {
        let (mut bound, mut body) = (Vec::new(), p);
        while let Pred::Exists { index, body: inner, .. } = body {
            bound.push(*index);
            body = inner;
        }
        let Pred::Relation { relation: RelationRef::Input(asked), args, holds: true } = body else { return false };
        // An index that is asked for twice is asked to be the same twice.
        let is_any = |a: &Affine| {
            let is_bound = a.as_index().is_some_and(|i| bound.contains(&i));
            is_bound && args.iter().filter(|b| a.as_index().is_some_and(|i| b.mentions(i))).count() == 1
        };
        let mut entries = self.scopes.iter().flat_map(|scope| &scope.entries);
        entries.any(|(r, at, _)| r == asked && args.iter().zip(at).all(|(a, at)| a == at || is_any(a)))
    }

    /// An element that was computed where it can be used here.
    pub fn computed(&self, x: VarId, at: &[Affine]) -> Option<RealId> {
        let mut known = self.scopes.iter().flat_map(|scope| &scope.elements);
        known.find(|(y, place, _)| *y == x && place == at).map(|(_, _, r)| *r)
    }

    pub fn remember(&mut self, x: VarId, at: &[Affine], r: RealId) {
        self.scope().elements.push((x, at.to_vec(), r));
    }

    /// The entry of a relation at a tuple, where one was found, and the level at which it was.
    pub fn entry(&self, relation: RelationId, args: &[Affine]) -> Option<(usize, Affine)> {
        self.scopes.iter().enumerate().find_map(|(level, scope)| {
            let found = scope.entries.iter().find(|(r, at, _)| *r == relation && at == args)?;
            Some((level, found.2.clone()))
        })
    }

    /// The entry of a tuple that was found and has these places on some axes, and the level at which it was.
    pub fn tuple_of(&self, relation: RelationId, axes: &[usize], args: &[Affine]) -> Option<(usize, Affine)> {
        let is_own = |at: &[Affine]| axes.iter().map(|axis| at.get(*axis)).eq(args.iter().map(Some));
        self.scopes.iter().enumerate().find_map(|(level, scope)| {
            let found = scope.entries.iter().find(|(r, at, _)| *r == relation && is_own(at))?;
            Some((level, found.2.clone()))
        })
    }

    /// The target of a source of a map, and the entry, where some entry of that source is known: there is one.
    pub fn target_known(&self, map: RelationId, source: &[Affine]) -> Option<(Affine, Affine)> {
        self.scopes.iter().flat_map(|scope| &scope.entries).find_map(|(r, at, entry)| {
            let (target, own) = at.split_last()?;
            (*r == map && own == source).then(|| (target.clone(), entry.clone()))
        })
    }

    /// The scope from which on all indices of an expression are known; the innermost one where that is not found out.
    pub fn level_of(&self, a: &Affine) -> usize {
        let level = |i: IndexId| {
            let own = Affine::index(i);
            self.scopes.iter().position(|scope| scope.ranges.iter().any(|(b, _)| *b == own))
        };
        let mut found = 0;
        a.visit(&mut |v| {
            if let Var::Index(i) = v {
                found = found.max(level(*i).unwrap_or(self.innermost()));
            }
        });
        found
    }

    pub fn remember_entry(&mut self, relation: RelationId, args: &[Affine], entry: Affine) {
        self.scope().entries.push((relation, args.to_vec(), entry));
    }

    /// That a search leads to a node where the program is.
    pub fn remember_node(&mut self, segment: Segment, nodes: ArrayId, key: Affine, node: IndexId) {
        self.scope().searches.push(((segment, Some((nodes, key))), node));
        self.scope().nodes.push(node);
    }

    /// Whether a number is known to be that of a node, and not -1.
    pub fn is_node(&self, node: &Affine) -> bool {
        node.as_index().is_some_and(|node| self.scopes.iter().any(|scope| scope.nodes.contains(&node)))
    }

    /// The result of a search, made here unless it was made before.
    pub fn find(&mut self, segment: Segment, key: Option<(ArrayId, Affine)>) -> Affine {
        let search = (segment, key);
        let mut known = self.scopes.iter().flat_map(|scope| &scope.searches);
        if let Some((_, found)) = known.find(|(other, _)| *other == search) {
            return (*found).into();
        }
        let index = self.fresh_index();
        let (segment, key) = search.clone();
        self.emit(Stmt::Find { index, segment, key, how: loops::Search::Halving });
        self.scope().searches.push((search, index));
        index.into()
    }

    pub fn extremum_found(&self, x: VarId, view: View, at: &[Affine]) -> Option<IndexId> {
        let mut known = self.scopes.iter().flat_map(|scope| &scope.extrema);
        known.find(|(y, v, place, _)| *y == x && *v == view && place == at).map(|(_, _, _, i)| *i)
    }

    pub fn remember_extremum(&mut self, x: VarId, view: View, at: &[Affine], index: IndexId) {
        self.scope().extrema.push((x, view, at.to_vec(), index));
    }

    pub fn integer_found(&self, x: VarId, at: &[Affine], extent: &Size) -> Option<IndexId> {
        let mut known = self.scopes.iter().flat_map(|scope| &scope.integers);
        known.find(|(y, place, n, _)| *y == x && place == at && n == extent).map(|(.., i)| *i)
    }

    pub fn remember_integer(&mut self, x: VarId, at: &[Affine], extent: &Size, index: IndexId) {
        self.scope().integers.push((x, at.to_vec(), extent.clone(), index));
    }

    /// The place of an element in its storage, whose pattern is known to hold.
    pub fn place_in(&mut self, storage: &Stored, at: &[Affine]) -> Result<Place> {
        let mut place = Vec::with_capacity(at.len());
        if let Some(pattern) = &storage.entries {
            let args: Vec<Affine> = pattern.axes.iter().filter_map(|g| at.get(*g).cloned()).collect();
            let entry = self.entry(pattern.relation, &args);
            place.push(entry.map(|(_, entry)| entry).ok_or_else(|| Error::bug(PASS, "an entry was not found"))?);
        }
        for k in &storage.dense {
            place.push(at.get(*k).cloned().ok_or_else(|| Error::bug(PASS, "an element without an index"))?);
        }
        Ok(Place { buffer: storage.buffer, at: place })
    }
}
