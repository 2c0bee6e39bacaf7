//! Where searches are made, and which of them go on where the last one ended.
//!
//! A search that a loop does not change is made before it; of what it finds, the tests stay where they are. A search finds nothing at a place
//! that is none, so it may be made anywhere. Then all searches go on that [may](searches_onwards), in loops that take one value at a time.

use std::collections::BTreeSet;

use crate::base::{Arena, IndexId};
use crate::index::{Affine, Var};
use crate::loops::{Array, ArrayId, Nest, Stmt, searches_onwards};

/// Places the searches of a nest.
pub(super) fn place(arrays: &Arena<ArrayId, Array>, nest: &mut Nest) {
    hoist(&mut nest.body);
    mark(arrays, &mut nest.body, &BTreeSet::new());
}

/// `for i. (k = find ..; e)  ==  k = find ..; for i. e`, where the search mentions nothing that the loop defines.
fn hoist(body: &mut Vec<Stmt>) {
    for mut stmt in std::mem::take(body) {
        match &mut stmt {
            Stmt::For { index, parallel, body: inner, .. } => {
                hoist(inner);
                if !*parallel {
                    let mut changing = defined(inner);
                    changing.insert(*index);
                    for one in std::mem::take(inner) {
                        let stays = match &one {
                            Stmt::Find { segment, key, .. } => {
                                let mut read = std::iter::once(&segment.at).chain(key.iter().map(|(_, key)| key));
                                read.any(|a| mentions_any(a, &changing))
                            }
                            _ => true,
                        };
                        if stays {
                            inner.push(one);
                        } else {
                            if let Stmt::Find { index, .. } = &one {
                                changing.remove(index);
                            }
                            body.push(one);
                        }
                    }
                }
            }
            Stmt::If { body: inner, .. } | Stmt::Extremum { body: inner, .. } => hoist(inner),
            _ => {}
        }
        body.push(stmt);
    }
}

/// The indices that statements define.
fn defined(body: &[Stmt]) -> BTreeSet<IndexId> {
    let mut defined = BTreeSet::new();
    body.iter().for_each(|stmt| stmt.visit(&mut |stmt| defined.extend(stmt.defines())));
    defined
}

fn mentions_any(a: &Affine, indices: &BTreeSet<IndexId>) -> bool {
    a.terms().iter().any(|(v, _)| matches!(v, Var::Index(i) if indices.contains(i)))
}

/// `mark(for i. body)` with the searches of `body` that may go on over `i`.
fn mark(arrays: &Arena<ArrayId, Array>, body: &mut [Stmt], here: &BTreeSet<IndexId>) {
    for stmt in body {
        match stmt {
            Stmt::For { index, domain, lanes, jam, body: inner, .. } => {
                let single = *lanes == 1 && *jam == 1;
                let found = if single { searches_onwards(arrays, *index, domain, inner) } else { BTreeSet::new() };
                mark(arrays, inner, &found);
            }
            Stmt::If { body: inner, .. } => mark(arrays, inner, here),
            Stmt::Extremum { body: inner, .. } => mark(arrays, inner, &BTreeSet::new()),
            Stmt::Find { index, onwards, .. } => *onwards = here.contains(index),
            _ => {}
        }
    }
}
