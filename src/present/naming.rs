//! Names for the indices of a finished term: one letter for each depth of nesting, unlike all names that the program has of its own.

use std::collections::BTreeSet;

use crate::base::IndexId;
use crate::index::Pred;
use crate::term::{Program, Term};

/// In the order in which they are taken.
const LETTERS: &str = "ijklpqrstuvwhgabcdefmnoxyz";

/// How many letters are used, for deeper nesting over again.
const MAX_LETTERS: usize = 8;

/// Names all indices by the number of indices in scope.
pub(super) fn name_indices(program: &mut Program) {
    let letters = letters(program);
    let mut depths: Vec<(IndexId, usize)> = Vec::new();
    let mut stack = vec![(program.root, 0)];
    while let Some((e, depth)) = stack.pop() {
        let term = &program.terms[e];
        let mut inner = depth;
        match term {
            Term::Gen { index, .. } | Term::Sum { index, .. } => {
                depths.push((*index, depth));
                inner += 1;
            }
            Term::Iverson { guard, .. } => quantified(guard, depth, &mut depths),
            _ => {}
        }
        term.for_each_operand(|operand| stack.push((operand, inner)));
    }
    for (index, depth) in depths {
        program.indices[index].clone_from(&letters[depth % letters.len()]);
    }
}

/// The indices that a guard binds. Guards nest to a limited depth.
fn quantified(p: &Pred, depth: usize, out: &mut Vec<(IndexId, usize)>) {
    match p {
        Pred::All(ps) | Pred::Any(ps) => ps.iter().for_each(|p| quantified(p, depth, out)),
        Pred::Exists { index, body, .. } => {
            out.push((*index, depth));
            quantified(body, depth + 1, out);
        }
        _ => {}
    }
}

/// The letters that nothing else is called, at least one.
fn letters(program: &Program) -> Vec<String> {
    let signature = &program.signature;
    let mut taken: BTreeSet<&str> = program.variables.values().map(|x| x.name.as_str()).collect();
    taken.extend(signature.sizes.values().map(String::as_str));
    taken.extend(signature.relations.values().map(|r| r.name.as_str()));
    taken.extend(signature.functions.values().map(|f| f.name()));
    let free = LETTERS.chars().map(String::from).filter(|c| !taken.contains(c.as_str()));
    let free: Vec<String> = free.take(MAX_LETTERS).collect();
    if free.is_empty() { vec!["i".to_owned()] } else { free }
}
