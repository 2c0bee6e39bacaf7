//! Let lifting: every `let` goes to the top (the paper's 5.1-5.10).
//!
//! For a `let x = e0 in e1` below the indices `I` and the guards `q`,
//!
//! ```text
//! [[let x = e0 in e1]]  ==  let x = gen D. [exists (I \ D). q] * [[e0]]  at the top, and here [x -> x[D]] [[e1]]
//! ```
//!
//! where `D` are those of `I` that `e0` mentions once the variables in it are replaced, in nesting order.
//!
//! - *An axis for what varies only.* Rules 5.6 and 5.7 read `gen i. e0` on both sides (the paper prints a sum in 5.7). An `e0` that
//!   does not mention `i` gets no axis.
//! - *Only what is needed.* A value counts where some index outside `D` makes all guards true, and an empty range makes
//!   none true. So the lifted value costs no more than the nested one, and is read nowhere it was not read before: accesses that a guard or a
//!   range keeps in bounds stay in bounds. The indices of `D` are bound again by `gen`, so their own ranges need no guard.
//! - *Order.* The `let`s of `e0` come first, then `x`, then those of `e1`: 5.10 is `let x = (let y = e0 in e1) in e2` ==
//!   `let y = e0 in let x = e1 in e2`.
//!
//! A computed relation on `x` is a use of `x`: `x?(a)` becomes `x?(D, a)`, also inside guards and as a map.
//!
//! *Scans.* The body of a scan is a program of its own: its `let`s stay in it, and the scan is a term like others. A program with scans is not in
//! [`NormalForm::LetLifted`] behind this pass; [`crate::flow`] takes it apart.
//!
//! The terms between one `let`'s value and the next `let`s' values form a *region*; the regions are a partition. A first walk finds `D` and
//! the guard of each region's `let`; a loop over the arena then rebuilds all terms under the names of their region, so nothing is copied but
//! guards. A program whose `let`s are at the top already is returned as it is.

use std::collections::{BTreeSet, HashMap};

use super::renaming::{Renaming, same_relation};
use super::scope::Scope;
use crate::base::{IndexId, SideTable, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, RelationRef, Size, Var};
use crate::scalar::Number;
use crate::term::{NormalForm, Program, Term, TermId};
use crate::ty::Types;

const PASS: &str = "let-lifting";

/// Moves every `let` to the top.
///
/// # Errors
/// [`Error::Limit`] if a lifted variable has more axes than [`Types::MAX_RANK`], [`Error::Overflow`].
pub fn lift_lets(program: &Program) -> Result<Program> {
    let lets = program.terms.values().filter(|term| matches!(term, Term::Let { .. })).count();
    let scans = program.terms.values().any(|term| matches!(term, Term::Scan { .. }));
    if !scans && super::let_chain(program).0.len() == lets {
        return Ok(Program { form: program.form.max(NormalForm::LetLifted), ..program.clone() });
    }
    let mut lift = Lift {
        source: program,
        out: program.successor(if scans { program.form } else { NormalForm::LetLifted }),
        kept: SideTable::new(program.terms.len(), false),
        inside: 0,
        scope: Scope::new(&program.signature),
        guards: Vec::new(),
        contexts: vec![0],
        n_contexts: 1,
        regions: vec![Region::default()],
        open: vec![0],
        region_of: SideTable::new(program.terms.len(), None),
        axes: SideTable::new(program.variables.len(), Vec::new()),
        lifted: Vec::new(),
        projections: HashMap::new(),
    };
    lift.walk()?;
    lift.rebuild()
}

/// The terms of a `let`'s value, or of the program, without the values of `let`s inside.
#[derive(Default)]
struct Region {
    /// How many indices are in scope around the `let`.
    depth: usize,
    /// Those of them that the region mentions.
    mentioned: BTreeSet<IndexId>,
    /// The names that the mentioned indices have in the lifted value.
    names: Vec<(IndexId, IndexId)>,
}

/// A `let` at the top.
struct Lifted {
    var: VarId,
    value: TermId,
    axes: Vec<(IndexId, Size)>,
    guard: Pred,
}

enum Task {
    Visit(TermId),
    OpenScan(IndexId, Size),
    CloseScan,
    CloseIndex,
    CloseGuard,
    Lift(VarId, TermId),
}

struct Lift<'a> {
    source: &'a Program,
    out: Program,
    /// The `let`s that stay where they are: those of bodies of scans.
    kept: SideTable<TermId, bool>,
    /// In how many bodies of scans the walk is.
    inside: usize,
    scope: Scope,
    /// The guards around, with variables replaced.
    guards: Vec<Pred>,
    /// A number for each nest of indices and guards, the current one last.
    contexts: Vec<usize>,
    n_contexts: usize,
    regions: Vec<Region>,
    /// The regions around, the current one last.
    open: Vec<usize>,
    region_of: SideTable<TermId, Option<usize>>,
    /// The axes that lifting adds to a variable, under the names they have where the `let` stood.
    axes: SideTable<VarId, Vec<IndexId>>,
    lifted: Vec<Lifted>,
    /// The guard of a `let`, by its context and axes.
    projections: HashMap<(usize, Vec<IndexId>), Pred>,
}

impl Lift<'_> {
    /// Finds axes and guards of all `let`s, in the order in which they go to the top.
    fn walk(&mut self) -> Result<()> {
        let mut stack = vec![Task::Visit(self.source.root)];
        while let Some(task) = stack.pop() {
            match task {
                Task::Visit(e) => self.visit(e, &mut stack)?,
                Task::CloseIndex => {
                    self.scope.close();
                    self.contexts.pop();
                }
                Task::OpenScan(index, steps) => {
                    self.inside += 1;
                    self.scope.open(index, &steps)?;
                    self.enter_context();
                }
                Task::CloseScan => {
                    self.inside -= 1;
                    self.scope.close();
                    self.contexts.pop();
                }
                Task::CloseGuard => {
                    self.guards.pop();
                    self.contexts.pop();
                }
                Task::Lift(var, value) => self.lift(var, value)?,
            }
        }
        Ok(())
    }

    fn visit(&mut self, e: TermId, stack: &mut Vec<Task>) -> Result<()> {
        let region = self.open.last().copied().ok_or_else(|| Error::bug(PASS, "no open region"))?;
        self.region_of.set(e, Some(region));
        match &self.source.terms[e] {
            Term::Number(Number::Literal(_)) => {}
            Term::Number(Number::Index(a)) => self.mention(region, a),
            Term::Var(x) => self.mention_var(region, *x),
            Term::Gen { index, extent, body } | Term::Sum { index, extent, body } => {
                self.scope.open(*index, extent)?;
                self.enter_context();
                stack.push(Task::CloseIndex);
                stack.push(Task::Visit(*body));
            }
            Term::Access { array, index } => {
                self.mention(region, index);
                stack.push(Task::Visit(*array));
            }
            Term::Iverson { guard, body } => {
                guard.visit_affine(&mut |a| self.mention(region, a));
                guard.visit_computed(&mut |x| self.mention_var(region, x));
                let names = Renaming { index: |_| None, relation: |r| apply_to_axes(&self.axes, r, &|i| i) };
                let guard = names.pred(guard, &mut |i| i)?;
                self.guards.push(guard);
                self.enter_context();
                stack.push(Task::CloseGuard);
                stack.push(Task::Visit(*body));
            }
            Term::Let { value, body, .. } if self.inside > 0 => {
                self.kept.set(e, true);
                stack.extend([Task::Visit(*body), Task::Visit(*value)]);
            }
            Term::Scan { index, steps, init, body, .. } => {
                let open = Task::OpenScan(*index, steps.clone());
                stack.extend([Task::CloseScan, Task::Visit(*body), open, Task::Visit(*init)]);
            }
            Term::Let { var, value, body } => {
                stack.push(Task::Visit(*body));
                stack.push(Task::Lift(*var, *value));
                stack.push(Task::Visit(*value));
                self.open.push(self.regions.len());
                self.regions.push(Region { depth: self.scope.len(), ..Region::default() });
            }
            term => {
                let first = stack.len();
                term.for_each_operand(|e| stack.push(Task::Visit(e)));
                stack[first..].reverse();
            }
        }
        Ok(())
    }

    fn enter_context(&mut self) {
        self.contexts.push(self.n_contexts);
        self.n_contexts += 1;
    }

    fn mention_index(&mut self, region: usize, i: IndexId) {
        let region = &mut self.regions[region];
        if self.scope.place(i).is_some_and(|place| place < region.depth) {
            region.mentioned.insert(i);
        }
    }

    fn mention_var(&mut self, region: usize, x: VarId) {
        for at in 0..self.axes[x].len() {
            self.mention_index(region, self.axes[x][at]);
        }
    }

    fn mention(&mut self, region: usize, a: &Affine) {
        a.visit(&mut |v| match v {
            Var::Index(i) => self.mention_index(region, *i),
            Var::Apply(application) => {
                if let RelationRef::Computed { var, .. } = application.map {
                    self.mention_var(region, var);
                }
            }
            Var::Size(_) => {}
        });
    }

    /// The value of a `let` is walked through: all that is in its region is known.
    fn lift(&mut self, var: VarId, value: TermId) -> Result<()> {
        let region = self.open.pop().ok_or_else(|| Error::bug(PASS, "no open region"))?;
        let context = self.contexts.last().copied().unwrap_or(0);
        let axes = self.scope.axes(&self.regions[region].mentioned)?;
        let indices: Vec<IndexId> = axes.iter().map(|(i, _)| *i).collect();
        let guard = match self.projections.get(&(context, indices.clone())) {
            Some(guard) => guard.clone(),
            None => {
                let guard = self.scope.project(&Pred::all(self.guards.iter().cloned()), &axes)?;
                self.projections.insert((context, indices.clone()), guard.clone());
                guard
            }
        };
        let fresh = |out: &mut Program, i: IndexId| out.fresh_index(self.source.indices[i].clone());
        let names: Vec<(IndexId, IndexId)> = indices.iter().map(|i| (*i, fresh(&mut self.out, *i))).collect();
        let renaming = Renaming { index: |i| renamed(&names, i).map(Affine::index), relation: same_relation };
        let guard = renaming.pred(&guard, &mut |i| fresh(&mut self.out, i))?;
        let axes: Vec<(IndexId, Size)> = names.iter().map(|(_, i)| *i).zip(axes.into_iter().map(|(_, n)| n)).collect();
        if !axes.is_empty() {
            let dims: Vec<Size> = axes.iter().map(|(_, n)| n.clone()).collect();
            let ty = self.out.types.tensor_of(&dims, self.out.variables[var].ty);
            let rank = self.out.types.peel(ty).0.len();
            if rank > Types::MAX_RANK {
                let (limit, found) = (Types::MAX_RANK as u64, rank as u64);
                return Err(Error::Limit { what: "axes of a tensor", limit, found });
            }
            self.out.variables[var].ty = ty;
        }
        self.axes.set(var, indices);
        self.regions[region].names = names;
        self.lifted.push(Lifted { var, value, axes, guard });
        Ok(())
    }

    /// Builds all terms under the names of their regions, then the `let`s around them.
    fn rebuild(mut self) -> Result<Program> {
        let mut built = SideTable::new(self.source.terms.len(), TermId(0));
        for (e, term) in self.source.terms.iter() {
            let Some(region) = self.region_of[e] else { continue };
            let (names, axes) = (&self.regions[region].names, &self.axes);
            let name = |i: IndexId| renamed(names, i).unwrap_or(i);
            let renaming = Renaming {
                index: |i| renamed(names, i).map(Affine::index),
                relation: |r| apply_to_axes(axes, r, &name),
            };
            let new = match term {
                Term::Let { body, .. } if !self.kept[e] => built[*body],
                Term::Var(x) => {
                    let var = self.out.push_at(term.clone(), self.source.spans[e])?;
                    self.out.access(var, axes[*x].iter().map(|i| Affine::index(name(*i))))?
                }
                term => {
                    let term = match term.map_operands(|operand| built[operand]) {
                        Term::Number(Number::Index(a)) => Term::Number(Number::Index(renaming.affine(&a)?)),
                        Term::Access { array, index } => Term::Access { array, index: renaming.affine(&index)? },
                        Term::Iverson { guard, body } => {
                            Term::Iverson { guard: renaming.pred(&guard, &mut |i| i)?, body }
                        }
                        term => term,
                    };
                    self.out.push_at(term, self.source.spans[e])?
                }
            };
            built.set(e, new);
        }
        let mut values = Vec::with_capacity(self.lifted.len());
        for Lifted { var, value, axes, guard } in self.lifted {
            let mut value = built[value];
            if !guard.is_true() {
                value = self.out.push(Term::Iverson { guard, body: value })?;
            }
            for (index, extent) in axes.into_iter().rev() {
                value = self.out.push(Term::Gen { index, extent, body: value })?;
            }
            values.push((var, value));
        }
        let mut root = built[self.source.root];
        for (var, value) in values.into_iter().rev() {
            root = self.out.push(Term::Let { var, value, body: root })?;
        }
        self.out.root = root;
        Ok(self.out)
    }
}

fn renamed(names: &[(IndexId, IndexId)], i: IndexId) -> Option<IndexId> {
    names.iter().find(|(old, _)| *old == i).map(|(_, new)| *new)
}

/// A relation computed from a lifted variable takes the added axes before its arguments.
fn apply_to_axes(
    axes: &SideTable<VarId, Vec<IndexId>>,
    relation: RelationRef,
    name: &dyn Fn(IndexId) -> IndexId,
) -> (RelationRef, Vec<Affine>) {
    let args = match relation {
        RelationRef::Computed { var, .. } => axes[var].iter().map(|i| Affine::index(name(*i))).collect(),
        RelationRef::Input(_) => Vec::new(),
    };
    (relation, args)
}
