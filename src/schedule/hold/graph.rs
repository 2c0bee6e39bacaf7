//! The statements of all nests in one list, from outside in, and who defines, writes and stores what.

use std::collections::BTreeMap;

use crate::base::IndexId;
use crate::index::Var;
use crate::loops::{BufferId, Nest, RealId, Stmt};

/// A statement in its nest.
pub(in crate::ir::schedule) struct Node<'a> {
    pub nest: usize,
    pub stmt: &'a Stmt,
    /// The loop, test or extremum around it.
    pub parent: Option<usize>,
    /// One past the last statement inside.
    pub end: usize,
}

/// A register of a nest.
pub(in crate::ir::schedule) type Register = (usize, RealId);
/// An index of a nest.
pub(in crate::ir::schedule) type Index = (usize, IndexId);

pub(in crate::ir::schedule) struct Graph<'a> {
    pub nodes: Vec<Node<'a>>,
    /// What declares a register, adds to it or assigns it.
    writers: BTreeMap<Register, Vec<usize>>,
    readers: BTreeMap<Register, Vec<usize>>,
    definers: BTreeMap<Index, usize>,
    /// What stores to a buffer or fills it.
    stores: BTreeMap<BufferId, Vec<usize>>,
}

impl<'a> Graph<'a> {
    pub fn new(nests: &'a [Nest]) -> Graph<'a> {
        let (writers, readers, stores) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut graph = Graph { nodes: Vec::new(), writers, readers, definers: BTreeMap::new(), stores };
        for (nest, Nest { body, .. }) in nests.iter().enumerate() {
            graph.body(nest, body, None);
        }
        graph
    }

    fn body(&mut self, nest: usize, body: &'a [Stmt], parent: Option<usize>) {
        for stmt in body {
            let at = self.nodes.len();
            self.nodes.push(Node { nest, stmt, parent, end: at });
            let readers = &mut self.readers;
            stmt.visit_reads(&mut |r| readers.entry((nest, r)).or_default().push(at));
            self.definers.extend(stmt.defines().map(|i| ((nest, i), at)));
            match stmt {
                Stmt::Define(r, _)
                | Stmt::Local(r)
                | Stmt::Assign(r, _)
                | Stmt::Accumulate(r, _)
                | Stmt::MulAdd(r, ..)
                | Stmt::Extend(_, r, _) => self.writers.entry((nest, *r)).or_default().push(at),
                Stmt::Store(place, _) => self.stores.entry(place.buffer).or_default().push(at),
                Stmt::Fill(buffer) => self.stores.entry(*buffer).or_default().push(at),
                Stmt::Call { gives, .. } => {
                    gives.iter().for_each(|run| self.stores.entry(run.place.buffer).or_default().push(at));
                }
                Stmt::For { .. }
                | Stmt::Let { .. }
                | Stmt::Find { .. }
                | Stmt::Length { .. }
                | Stmt::End(_)
                | Stmt::Extremum { .. }
                | Stmt::If { .. }
                | Stmt::Tuple(..) => {}
            }
            self.body(nest, stmt.body(), Some(at));
            let end = self.nodes.len();
            self.nodes[at].end = end;
        }
    }

    pub fn writers(&self, r: Register) -> &[usize] {
        self.writers.get(&r).map_or(&[], Vec::as_slice)
    }

    pub fn readers(&self, r: Register) -> &[usize] {
        self.readers.get(&r).map_or(&[], Vec::as_slice)
    }

    pub fn definer(&self, i: Index) -> Option<usize> {
        self.definers.get(&i).copied()
    }

    pub fn stores(&self, buffer: BufferId) -> &[usize] {
        self.stores.get(&buffer).map_or(&[], Vec::as_slice)
    }

    /// The registers that a statement alone reads.
    pub fn reads(&self, at: usize) -> Vec<Register> {
        let (Node { nest, stmt, .. }, mut reads) = (&self.nodes[at], Vec::new());
        stmt.visit_reads(&mut |r| reads.push((*nest, r)));
        reads
    }

    /// The indices that a statement alone mentions.
    pub fn mentions(&self, at: usize) -> Vec<Index> {
        let (Node { nest, stmt, .. }, mut indices) = (&self.nodes[at], Vec::new());
        stmt.visit_affine(&mut |a| indices.extend(a.terms().iter().filter_map(|(v, _)| index(v)).map(|i| (*nest, i))));
        indices
    }

    /// What is around a statement, from inside out.
    pub fn around(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(self.nodes[at].parent, |at| self.nodes[*at].parent)
    }

    /// Whether a statement is somewhere inside of the body that another one is in.
    pub fn is_beside(&self, at: usize, other: usize) -> bool {
        let (node, scope) = (&self.nodes[at], &self.nodes[other]);
        match scope.parent {
            Some(parent) => (parent + 1..self.nodes[parent].end).contains(&at),
            None => node.nest == scope.nest,
        }
    }
}

pub(in crate::ir::schedule) fn index(v: &Var) -> Option<IndexId> {
    match v {
        Var::Index(i) => Some(*i),
        Var::Size(_) | Var::Apply(_) => None,
    }
}
