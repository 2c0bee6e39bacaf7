//! Nests without the statements that nobody needs, with numbers that are loaded instead of made, and stores of those that are held.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::{Arena, Id};
use crate::loops::{Array, ArrayId, Buffer, BufferId, Nest, Place, Program, Real, RealId, Stmt, stored};

/// What becomes of statements, by their numbers.
pub(super) struct Edit {
    pub live: Vec<bool>,
    /// Declarations of registers that are loaded.
    pub loads: BTreeMap<usize, (RealId, Place)>,
    /// What is stored after a statement.
    pub stores: BTreeMap<usize, Vec<(RealId, Place)>>,
    /// Whether loops keep iterations interleaved; it changes no result.
    pub jam: bool,
    /// What must be written. A tensor that never has a place is, by a nest that does not store.
    pub wanted: BTreeSet<BufferId>,
}

impl Edit {
    /// The nests of which something is left.
    pub fn nests(&self, nests: &[Nest]) -> Vec<Nest> {
        let mut at = 0;
        let mut left = Vec::new();
        for nest in nests {
            let body = self.body(&nest.body, &mut at);
            let (mut buffers, before) = (stored(&body), stored(&nest.body));
            let unstored = |b: &BufferId| self.wanted.contains(b) && !before.contains(b);
            buffers.extend(nest.buffers.iter().copied().filter(unstored));
            if !buffers.is_empty() {
                left.push(Nest { buffers, decisions: nest.decisions.clone(), body });
            }
        }
        left
    }

    fn body(&self, body: &[Stmt], at: &mut usize) -> Vec<Stmt> {
        let mut edited = Vec::new();
        for stmt in body {
            let here = *at;
            *at += 1;
            let inner = self.body(stmt.body(), at);
            let load = self.loads.get(&here);
            if let Some((r, place)) = load {
                edited.push(Stmt::Define(*r, Real::Load(place.clone())));
            } else if self.live.get(here) == Some(&true) {
                edited.extend(self.stmt(stmt, inner));
            }
            let stores = self.stores.get(&here).into_iter().flatten();
            edited.extend(stores.map(|(r, place)| Stmt::Store(place.clone(), *r)));
        }
        edited
    }

    /// The statement with another body; nothing where a loop or a test does nothing.
    fn stmt(&self, stmt: &Stmt, inner: Vec<Stmt>) -> Option<Stmt> {
        if matches!(stmt, Stmt::For { .. } | Stmt::If { .. }) && inner.is_empty() {
            return None;
        }
        let mut stmt = stmt.with_body(inner);
        if let Stmt::For { jam, .. } = &mut stmt
            && !self.jam
        {
            *jam = 1;
        }
        Some(stmt)
    }
}

/// Forgets the buffers and arrays that do not occur, and renumbers the others.
pub(crate) fn compact(program: &mut Program) {
    let (mut buffers, mut arrays) = (BTreeSet::new(), BTreeSet::new());
    program.visit_mentions_mut(&mut |b| buffers.extend([*b]), &mut |s| arrays.extend([*s]));
    let (buffer, array) = (number(&buffers), number(&arrays));
    program.visit_mentions_mut(&mut |b| *b = buffer.get(b).copied().unwrap_or(*b), &mut |s| {
        *s = array.get(s).copied().unwrap_or(*s)
    });
    let kept = |b: &(BufferId, &Buffer)| buffers.contains(&b.0);
    program.buffers = program.buffers.iter().filter(kept).map(|(_, buffer)| buffer.clone()).collect();
    let kept = |s: &(ArrayId, &Array)| arrays.contains(&s.0);
    program.arrays = program.arrays.iter().filter(kept).map(|(_, array)| array.clone()).collect::<Arena<_, _>>();
}

fn number<I: Id + Ord>(ids: &BTreeSet<I>) -> BTreeMap<I, I> {
    ids.iter().enumerate().map(|(k, id)| (*id, I::from_index(k))).collect()
}
