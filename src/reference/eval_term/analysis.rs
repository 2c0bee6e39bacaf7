//! What is known of terms before they are evaluated: which are summands, accesses, or compute numbers that their value does not hold.

use crate::base::{Id, IndexId};
use crate::index::{Affine, Pred, Var};
use crate::scalar::Number;
use crate::solver::are_determined;
use crate::term::{Program, Term, TermId};

/// Which terms are summands of a sum, seen through `let`s: users hand it to their operands.
pub(super) fn summands(program: &Program) -> Vec<bool> {
    let mut summands = vec![false; program.terms.len()];
    for (id, term) in program.terms.iter().rev() {
        let (body, inherited) = match term {
            Term::Sum { body, .. } => (body, true),
            Term::Let { body, .. } => (body, summands.get(id.index()).copied().unwrap_or(false)),
            _ => continue,
        };
        if let Some(flag) = summands.get_mut(body.index()) {
            *flag = inherited;
        }
    }
    summands
}

/// Which sums belong to a nest that has at most one summand: the brackets below it, those around factors of a product too, determine all of its
/// indices.
pub(super) fn accesses(program: &Program) -> Vec<bool> {
    let mut accesses = vec![false; program.terms.len()];
    let mut seen = vec![false; program.terms.len()];
    for (id, _) in program.terms.iter().rev().filter(|(_, term)| matches!(term, Term::Sum { .. })) {
        if seen.get(id.index()).copied().unwrap_or(true) {
            continue;
        }
        let (mut nest, mut indices, mut guard) = (Vec::new(), Vec::new(), Pred::True);
        let mut stack = vec![(id, true)];
        while let Some((e, below_sums)) = stack.pop() {
            match program.terms.get(e) {
                Some(Term::Sum { index, body, .. }) if below_sums => {
                    nest.push(e);
                    indices.push(*index);
                    stack.push((*body, true));
                }
                Some(Term::Let { body, .. }) => stack.push((*body, below_sums)),
                Some(Term::Iverson { guard: p, body }) => {
                    guard = guard.and(p.clone());
                    stack.push((*body, below_sums));
                }
                Some(Term::Mul(a, b)) => stack.extend([(*b, false), (*a, false)]),
                _ => {}
            }
        }
        let access = are_determined(&indices, guard.conjuncts(), &|relation| program.signature.gives_targets(relation));
        for e in nest {
            if let (Some(access_at), Some(seen)) = (accesses.get_mut(e.index()), seen.get_mut(e.index())) {
                (*access_at, *seen) = (access, true);
            }
        }
    }
    accesses
}

/// Which terms may compute numbers that their value does not hold: in the value of a `let`, or in a component projected away.
pub(super) fn working(program: &Program) -> Vec<bool> {
    let mut working: Vec<bool> = Vec::with_capacity(program.terms.len());
    for term in program.terms.values() {
        let mut found = matches!(term, Term::Let { .. } | Term::Scan { .. } | Term::Fst(_) | Term::Snd(_));
        term.for_each_operand(|e| found |= working.get(e.index()).copied().unwrap_or(true));
        working.push(found);
    }
    working
}

/// A scan of which the last state is all that is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fold {
    /// Whether no step mentions the index.
    pub(super) steady: bool,
}

/// Which scans are folds.
pub(super) fn folds(program: &Program) -> Vec<Option<Fold>> {
    let mut folds = vec![None; program.terms.len()];
    for term in program.terms.values() {
        let Term::Access { array, index } = term else { continue };
        let Some(Term::Scan { index: step, steps, down, body, .. }) = program.terms.get(*array) else { continue };
        let last = if *down { *index == Affine::constant(0) } else { index == steps };
        if let (true, Some(fold)) = (last, folds.get_mut(array.index())) {
            *fold = Some(Fold { steady: !mentions(program, *body, *step) });
        }
    }
    folds
}

/// Whether a term mentions an index.
fn mentions(program: &Program, root: TermId, index: IndexId) -> bool {
    let mut found = false;
    let mut look = |a: &Affine| a.visit(&mut |v| found |= *v == Var::Index(index));
    let mut stack = vec![root];
    while let Some(e) = stack.pop() {
        let Some(term) = program.terms.get(e) else { return true };
        match term {
            Term::Number(Number::Index(a)) | Term::Access { index: a, .. } => look(a),
            Term::Iverson { guard, .. } => guard.visit_affine(&mut |a| look(a)),
            _ => {}
        }
        term.for_each_operand(|operand| stack.push(operand));
    }
    found
}
