//! Comparisons of reals in the bracket that asks for them.
//!
//! ```text
//! c = gen i. [g] * less(a, b),  [c[i] != 0] * e      reads     [g and a[i] < b[i]] * e
//! ```
//!
//! A statement of this form that is read as a relation only needs no name. Its arguments are variables, parameters or numbers, so writing
//! the comparison again repeats no work. In the term it is a `let` directly around the bracket, which printing folds.
//!
//! Outside of its axes a relation does not hold, while an element is not there to be compared. So the place must be known to be
//! within; else, and below `exists`, the statement stays a variable. An `or` is a bracket of its own, `[a < b or d < e] * f`, where all
//! places that it asks are known to be within.

use super::{Build, Context, MAX_WEIGHT, Presenter, Task};
use crate::base::{Id, VarId};
use crate::error::Result;
use crate::index::{Affine, Pred, RelationRef, View};
use crate::scalar::{Comparison, Function, Op, Primitive};
use crate::term::{NormalForm, Term, TermId};
use crate::tssa::{Program, Rhs};
use crate::ty::Types;

/// Whether a statement is a comparison that a bracket can hold.
pub(super) fn is_comparison(program: &Program, x: VarId) -> bool {
    let Rhs::Map { guard, function, args } = &program.stmts[x].rhs else { return false };
    let Function::Value(Primitive::Op(Op::Compare(Comparison::Less | Comparison::LessEqual))) = function else {
        return false;
    };
    let mut plain = guard.weight() <= MAX_WEIGHT;
    guard.visit_relations(&mut |r| plain &= matches!(r, RelationRef::Input(_)));
    guard.visit_affine(&mut |a| plain &= a.nesting() == 0);
    // Two numbers would be compared as integers.
    plain && args.iter().any(|y| !matches!(program.stmts[*y].rhs, Rhs::Number(_)))
}

/// A comparison that a bracket asks by a predicate: its function has so many arguments.
pub(super) struct Asked {
    atom: Pred,
    function: Function,
    arity: usize,
}

/// A conjunct that is a comparison: the statement, the place, and whether it holds.
struct Compared {
    x: VarId,
    place: Vec<Affine>,
    holds: bool,
}

impl Presenter<'_> {
    /// `[guard] * e` around what is built before.
    pub(super) fn bracket(&mut self, guard: &Pred, context: Context, out: &mut Vec<Task>) {
        let (mut compared, mut rest) = (Vec::new(), Vec::new());
        for p in guard.conjuncts() {
            match self.compared(p) {
                Some(found) => compared.push((found, p.clone())),
                None if matches!(p, Pred::Any(_)) && self.either(p, context, out) => {}
                None => rest.push(p.clone()),
            }
        }
        // Inside the bracket of the others, if it is these that keep the place within the axes.
        let mut inside = Vec::new();
        let mut beside = None;
        for (found, p) in compared {
            let dims = &self.source.stmts[found.x].dims;
            let within = found.place.iter().zip(dims).map(|(a, n)| Pred::in_range(a, n));
            let Ok(within) = within.collect::<std::result::Result<Vec<_>, _>>().map(Pred::all) else {
                rest.push(p);
                continue;
            };
            if beside.is_none() && self.proves(&within, &[], context) {
                beside = Some(found);
            } else if self.proves(&within, &rest, context) {
                inside.push(found);
            } else {
                rest.push(p);
            }
        }
        rest.iter().for_each(|p| self.ask(p));
        let rest = Pred::all(rest);
        let inner = if inside.is_empty() { context } else { self.enter_guard(&rest, context) };
        for found in inside {
            self.compare(found, Pred::True, inner, out);
        }
        match beside {
            Some(found) => self.compare(found, rest, context, out),
            None => out.push(Task::Build(Build::Iverson(rest))),
        }
    }

    fn compare(&mut self, Compared { x, place, holds }: Compared, rest: Pred, context: Context, out: &mut Vec<Task>) {
        let Rhs::Map { function, args, .. } = &self.source.stmts[x].rhs else { return };
        // Beside the bracket the comparison needs what the bracket says of entries that it reads.
        let read: Vec<Pred> = self.entries_read(x, &place).collect();
        let entries = Pred::all(rest.conjuncts().iter().filter(|p| read.contains(p)).cloned());
        out.extend(args.iter().map(|y| Task::Visit(*y, place.clone(), context)));
        out.push(Task::Build(Build::Compare { function: *function, arity: args.len(), holds, entries, rest }));
    }

    /// Writes a bracket for an `or` of comparisons, at places within their axes, around what is built before; not where it asks something else.
    fn either(&mut self, p: &Pred, context: Context, out: &mut Vec<Task>) -> bool {
        let mut atoms = Vec::new();
        if p.binds() || p.weight() > MAX_WEIGHT {
            return false;
        }
        p.visit_atoms(&mut |atom| {
            if matches!(atom, Pred::Relation { relation: RelationRef::Computed { .. }, .. }) && !atoms.contains(atom) {
                atoms.push(atom.clone());
            }
        });
        let mut found = Vec::with_capacity(atoms.len());
        for atom in atoms {
            let Some(compared) = self.compared(&atom) else { return false };
            let source = self.source;
            let dims = &source.stmts[compared.x].dims;
            let within: std::result::Result<Vec<_>, _> =
                compared.place.iter().zip(dims).map(|(a, n)| Pred::in_range(a, n)).collect();
            let Rhs::Map { guard, function, args } = &source.stmts[compared.x].rhs else { return false };
            // What the comparison has as a guard of its own would have to be said in its case.
            let plain = guard.is_true() && self.entries_read(compared.x, &compared.place).next().is_none();
            if !plain || !within.is_ok_and(|within| self.proves(&Pred::all(within), &[], context)) {
                return false;
            }
            found.push((atom, compared.place, *function, args));
        }
        if found.is_empty() {
            return false;
        }
        let mut asked = Vec::with_capacity(found.len());
        for (atom, place, function, args) in found {
            out.extend(args.iter().map(|y| Task::Visit(*y, place.clone(), context)));
            asked.push(Asked { atom, function, arity: args.len() });
        }
        out.push(Task::Build(Build::Either { guard: p.clone(), asked }));
        true
    }

    /// `let c = f(a, b) in .. in [p] * e`, over terms built before.
    pub(super) fn build_either(&mut self, guard: &Pred, asked: Vec<Asked>) -> Result<TermId> {
        let mut lets = Vec::with_capacity(asked.len());
        for Asked { atom, function, arity } in asked.into_iter().rev() {
            let from = self.built.len().checked_sub(arity).ok_or_else(|| super::bug("an argument is missing"))?;
            let args = self.built.split_off(from);
            lets.push((atom, self.term.push(Term::Apply(function, args))?));
        }
        // The first that is asked stands outermost, and its variable is the oldest.
        lets.reverse();
        let mut guard = guard.clone();
        let mut vars = Vec::with_capacity(lets.len());
        for (atom, value) in lets {
            let var = self.term.fresh_var("c", Types::REAL);
            guard = asks_instead(&guard, &atom, var);
            vars.push((var, value));
        }
        let body = self.pop()?;
        let mut bracket = self.term.push(Term::Iverson { guard, body })?;
        for (var, value) in vars.into_iter().rev() {
            bracket = self.term.push(Term::Let { var, value, body: bracket })?;
        }
        self.term.form = NormalForm::Surface;
        Ok(bracket)
    }

    /// `let c = [entries] * f(a, b) in [rest and c != 0] * e`, over terms built before.
    pub(super) fn build_compare(
        &mut self,
        function: Function,
        arity: usize,
        holds: bool,
        entries: Pred,
        rest: Pred,
    ) -> Result<Term> {
        let from = self.built.len().checked_sub(arity).ok_or_else(|| super::bug("an argument is missing"))?;
        let args = self.built.split_off(from);
        let mut value = self.term.push(Term::Apply(function, args))?;
        if !entries.is_true() {
            value = self.term.push(Term::Iverson { guard: entries, body: value })?;
        }
        let body = self.pop()?;
        let var = self.term.fresh_var("c", Types::REAL);
        let relation = RelationRef::Computed { var, view: View::Support };
        let guard = rest.and(Pred::Relation { relation, args: Vec::new(), holds });
        let body = self.term.push(Term::Iverson { guard, body })?;
        self.term.form = NormalForm::Surface;
        Ok(Term::Let { var, value, body })
    }

    /// The comparison that a conjunct asks for.
    fn compared(&self, p: &Pred) -> Option<Compared> {
        let Pred::Relation { relation: RelationRef::Computed { var, .. }, args, holds } = p else { return None };
        let x = *self.comparison_of.get(var)?;
        let Rhs::Map { guard, .. } = &self.source.stmts[x].rhs else { return None };
        let spelt = guard.is_true() || *holds && is_flat(args);
        spelt.then(|| Compared { x, place: args.clone(), holds: *holds })
    }

    /// Whether a conjunct is a comparison that reads a sparse parameter at an entry.
    pub(super) fn compares(&self, p: &Pred, entry: &Pred) -> bool {
        self.compared(p)
            .is_some_and(|Compared { x, place, .. }| self.entries_read(x, &place).any(|read| read == *entry))
    }

    /// The entries of sparse parameters that a comparison reads.
    fn entries_read<'a>(&'a self, x: VarId, place: &'a [Affine]) -> impl Iterator<Item = Pred> + 'a {
        let args = match &self.source.stmts[x].rhs {
            Rhs::Map { args, .. } => args.as_slice(),
            _ => &[],
        };
        args.iter().filter_map(move |y| self.pattern(*y, place))
    }

    /// What the statement's own guard adds to a conjunct that asks for a comparison.
    pub(super) fn guard_of_comparison(&mut self, x: VarId, args: &[Affine], holds: bool) -> Result<Pred> {
        let source = self.source;
        match &source.stmts[x].rhs {
            Rhs::Map { guard, .. } if self.comparison[x.index()] && holds && is_flat(args) => self.pred(guard, args),
            _ => Ok(Pred::True),
        }
    }

    /// The comparisons that a predicate reads by name.
    fn ask(&mut self, p: &Pred) {
        p.visit_computed(&mut |var| {
            if let Some(x) = self.comparison_of.get(&var) {
                self.asked[x.index()] = true;
            }
        });
    }
}

/// The predicate with `c != 0`, or `c = 0`, in the place of an atom. Predicates nest to a bounded depth.
fn asks_instead(p: &Pred, atom: &Pred, var: VarId) -> Pred {
    match p {
        Pred::All(ps) => Pred::all(ps.iter().map(|p| asks_instead(p, atom, var))),
        Pred::Any(ps) => Pred::any(ps.iter().map(|p| asks_instead(p, atom, var))),
        Pred::Relation { holds, .. } if p == atom => {
            let relation = RelationRef::Computed { var, view: View::Support };
            Pred::Relation { relation, args: Vec::new(), holds: *holds }
        }
        other => other.clone(),
    }
}

fn is_flat(args: &[Affine]) -> bool {
    args.iter().all(|a| a.nesting() == 0)
}
