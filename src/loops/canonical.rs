//! Programs that differ in nothing but the numbers of buffers and arrays have one canonical form.

use std::collections::BTreeMap;

use super::data::{ArrayId, Buffer, BufferId, BufferKind, Domain, Program, Real, Search, Stmt};
use super::names::Names;
use crate::base::{Arena, Interner};

/// A buffer or an array that a program mentions.
enum Mention {
    Buffer(BufferId),
    Array(ArrayId),
}

impl Program {
    /// The same program with buffers and arrays numbered as its text mentions them. Equal arrays become one; what the text does not mention is
    /// left out: what no nest uses, but for what is held, and parameters that are stored in another way than their declaration says.
    ///
    /// It is what is read from the text: for a program that [`verify`](Program::verify) accepts, [`parse`](super::parse()) of the text with its
    /// decisions gives this one.
    pub fn canonical(&self) -> Program {
        let (mut buffers, mut arrays) = (BTreeMap::new(), BTreeMap::new());
        let (mut named, mut distinct) = (Arena::new(), Interner::new());
        for mention in self.mentions() {
            match mention {
                Mention::Buffer(b) => {
                    if let (false, Some(buffer)) = (buffers.contains_key(&b), self.buffers.get(b)) {
                        buffers.insert(b, named.push(buffer.clone()));
                    }
                }
                Mention::Array(s) => {
                    if let (false, Some(array)) = (arrays.contains_key(&s), self.arrays.get(s)) {
                        arrays.insert(s, distinct.intern(array.clone()));
                    }
                }
            }
        }
        let mut program = Program { buffers: named, arrays: distinct.into_items().collect(), ..self.clone() };
        program.visit_mentions_mut(&mut |b| *b = buffers.get(b).copied().unwrap_or(*b), &mut |s| {
            *s = arrays.get(s).copied().unwrap_or(*s)
        });
        program
    }

    /// The buffers in the order in which the text mentions them, with repetitions.
    pub(crate) fn mentioned_buffers(&self) -> Vec<BufferId> {
        let buffer = |mention| match mention {
            Mention::Buffer(b) => Some(b),
            Mention::Array(_) => None,
        };
        self.mentions().into_iter().filter_map(buffer).collect()
    }

    /// Buffers of parameters that the text declares, since their leaves say something else.
    pub(super) fn declared_params(&self, names: Option<&Names>) -> Vec<BufferId> {
        let is_declared = |b: &BufferId| {
            let buffer = self.buffers.get(*b);
            buffer.is_some_and(|buffer| {
                let leaf = names.and_then(|names| names.leaves.get(&buffer.name));
                matches!(buffer.kind, BufferKind::Param(..)) && leaf != Some(buffer)
            })
        };
        self.buffers.ids().filter(is_declared).collect()
    }

    /// Buffers that are held, by number.
    pub(super) fn held(&self) -> Vec<(usize, BufferId)> {
        let number = |(id, buffer): (BufferId, &Buffer)| match buffer.kind {
            BufferKind::Held(number) => Some((number, id)),
            _ => None,
        };
        let mut held: Vec<(usize, BufferId)> = self.buffers.iter().filter_map(number).collect();
        held.sort();
        held
    }

    fn mentions(&self) -> Vec<Mention> {
        let names = Names::new(&self.signature).ok();
        let declared = self.declared_params(names.as_ref()).into_iter();
        let held = self.held().into_iter().map(|(_, b)| b);
        let mut found: Vec<Mention> = declared.chain(held).map(Mention::Buffer).collect();
        for nest in &self.nests {
            found.extend(nest.buffers.iter().copied().map(Mention::Buffer));
            for stmt in &nest.body {
                stmt.visit(&mut |stmt| of_stmt(stmt, &mut found));
            }
        }
        found.extend(self.rounded.iter().flat_map(|rounded| [rounded.to, rounded.from]).map(Mention::Buffer));
        found.extend(self.limits.iter().map(|limit| Mention::Buffer(limit.steps)));
        found.extend(self.outputs.iter().flat_map(|(_, leaves)| leaves).copied().map(Mention::Buffer));
        found
    }
}

/// What a statement alone mentions.
fn of_stmt(stmt: &Stmt, found: &mut Vec<Mention>) {
    match stmt {
        Stmt::For { domain, .. } => {
            if let Domain::Segment(segment) = domain.whole_of() {
                found.push(Mention::Array(segment.pointers));
            }
        }
        Stmt::Let { array, .. } => found.push(Mention::Array(*array)),
        Stmt::Find { segment, key, how, .. } => {
            found.push(Mention::Array(segment.pointers));
            found.extend(key.iter().map(|(nodes, _)| Mention::Array(*nodes)));
            if let Search::Bound(array, _) = how {
                found.push(Mention::Array(*array));
            }
        }
        Stmt::Define(_, Real::Load(place)) | Stmt::Store(place, _) | Stmt::Length { place, .. } => {
            found.push(Mention::Buffer(place.buffer));
        }
        Stmt::Fill(buffer) => found.push(Mention::Buffer(*buffer)),
        Stmt::Call { takes, gives, .. } => {
            found.extend(takes.iter().chain(gives).map(|run| Mention::Buffer(run.place.buffer)));
        }
        Stmt::Extremum { .. }
        | Stmt::If { .. }
        | Stmt::End(_)
        | Stmt::Define(..)
        | Stmt::Local(_)
        | Stmt::Assign(..)
        | Stmt::Accumulate(..)
        | Stmt::MulAdd(..)
        | Stmt::Extend(..)
        | Stmt::Tuple(..) => {}
    }
}
