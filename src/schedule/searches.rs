//! Where searches are made, and which of them go on where the last one ended.
//!
//! A search that a loop does not change is made before it; of what it finds, the tests stay where they are. A search finds nothing at a place
//! that is none, so it may be made anywhere. Then all searches go on that [may](searches_onwards), in loops that take one value at a time.

use std::collections::BTreeSet;

use crate::base::{Arena, IndexId};
use crate::error::Result;
use crate::loops::{Array, ArrayId, Program, Stmt, defined, searches_onwards};

/// Places searches.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let Program { arrays, nests, .. } = program;
    for nest in nests {
        hoist(&mut nest.body);
        mark(arrays, &mut nest.body, &BTreeSet::new());
    }
    Ok(())
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
                                read.any(|a| changing.iter().any(|i| a.mentions(*i)))
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

/// `mark(for i. body)` with the searches of `body` that may go on over `i`.
fn mark(arrays: &Arena<ArrayId, Array>, body: &mut [Stmt], here: &BTreeSet<IndexId>) {
    for stmt in body {
        let found = searches_onwards(arrays, stmt);
        match stmt {
            Stmt::For { body: inner, .. } | Stmt::Extremum { body: inner, .. } => mark(arrays, inner, &found),
            Stmt::If { body: inner, .. } => mark(arrays, inner, here),
            Stmt::Find { index, onwards, .. } => *onwards = here.contains(index),
            _ => {}
        }
    }
}
