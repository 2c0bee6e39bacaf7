//! Writing what partial evaluation left: what is used once, in the block where it is computed, has no name.

use std::collections::BTreeMap;

use super::{Array, Atom, Known, Over, Rhs, unknown};
use crate::base::VarId;
use crate::error::{Error, Result};
use crate::functional::lambda::{Builder, Prim, Term, TermId, Type};

/// How often variables are read, and in which block they are defined.
#[derive(Default)]
pub(super) struct Uses {
    /// The block, the definition, and the numbers of all reads and of those in the same block.
    vars: BTreeMap<VarId, (usize, Option<Rhs>, usize, usize)>,
    blocks: usize,
}

impl Uses {
    /// Reads of the result of a block of a number; later blocks may read its variables.
    pub fn block(&mut self, number: usize, block: &[(VarId, Rhs)], result: &Known) {
        self.blocks = self.blocks.max(number + 1);
        for (x, rhs) in block {
            self.vars.entry(*x).or_insert((number, Some(rhs.clone()), 0, 0));
        }
        self.known(number, result);
    }

    fn known(&mut self, at: usize, of: &Known) {
        match of {
            Known::Atom(atom) => self.atom(at, *atom),
            Known::Pair(pair) => {
                self.known(at, &pair.0);
                self.known(at, &pair.1);
            }
            Known::Array(array) => self.array(at, array),
            Known::Zero | Known::Function(..) | Known::Both(_) | Known::Entries(_) => {}
        }
    }

    fn array(&mut self, at: usize, array: &Array) {
        match &array.over {
            Over::Count(n, _) => self.atom(at, *n),
            Over::Arrays(arrays) => arrays.iter().for_each(|(_, a)| self.atom(at, *a)),
        }
        let inner = self.blocks;
        self.block(inner, &array.block, &array.element);
    }

    fn atom(&mut self, at: usize, atom: Atom) {
        let Atom::Var(x) = atom else { return };
        let var = self.vars.entry(x).or_insert((usize::MAX, None, 0, 0));
        var.2 += 1;
        var.3 += usize::from(var.0 == at);
        if var.2 > 1 {
            return;
        }
        let (place, Some(rhs)) = (var.0, var.1.clone()) else { return };
        match rhs {
            Rhs::Prim(_, atoms) => atoms.into_iter().for_each(|atom| self.atom(place, atom)),
            Rhs::Fst(a) | Rhs::Snd(a) | Rhs::Length(a) | Rhs::Same(a) => self.atom(place, a),
            Rhs::Index(a, k) => {
                self.atom(place, a);
                self.atom(place, k);
            }
            Rhs::Array(array) => self.array(place, &array),
        }
    }

    fn reads(&self, x: VarId) -> usize {
        self.vars.get(&x).map_or(0, |var| var.2)
    }

    fn once_here(&self, x: VarId) -> bool {
        self.vars.get(&x).is_some_and(|var| var.2 == 1 && var.3 == 1)
    }
}

pub(super) struct Writer<'a> {
    pub out: &'a mut Builder,
    pub uses: &'a Uses,
    pub named: &'a BTreeMap<VarId, String>,
}

impl Writer<'_> {
    /// `let block in result`.
    pub fn block(&mut self, block: &[(VarId, Rhs)], result: &Known) -> Result<TermId> {
        let inline = self.open(block);
        let body = self.known(result, &inline)?;
        self.close(block, body, &inline)
    }

    /// `let block in (value, map)`.
    pub fn pair(&mut self, block: &[(VarId, Rhs)], value: &Known, map: TermId) -> Result<TermId> {
        let inline = self.open(block);
        let value = self.known(value, &inline)?;
        let pair = self.out.pair(value, map)?;
        self.close(block, pair, &inline)
    }

    /// What of a block is written where it is used.
    fn open(&self, block: &[(VarId, Rhs)]) -> BTreeMap<VarId, Rhs> {
        let mut inline = BTreeMap::new();
        for (x, rhs) in block {
            let same = matches!(rhs, Rhs::Same(_));
            if same || self.uses.once_here(*x) && !self.named.contains_key(x) {
                inline.insert(*x, rhs.clone());
            }
        }
        inline
    }

    fn close(&mut self, block: &[(VarId, Rhs)], body: TermId, inline: &BTreeMap<VarId, Rhs>) -> Result<TermId> {
        let mut body = body;
        for (x, rhs) in block.iter().rev() {
            if self.uses.reads(*x) > 0 && !inline.contains_key(x) {
                let value = self.rhs(rhs, inline)?;
                body = self.out.push(Term::Let(*x, value, body))?;
            }
        }
        Ok(body)
    }

    fn known(&mut self, of: &Known, inline: &BTreeMap<VarId, Rhs>) -> Result<TermId> {
        match of {
            Known::Atom(atom) => self.atom(*atom, inline),
            Known::Zero => self.out.real(0.0),
            Known::Pair(pair) => {
                let first = self.known(&pair.0, inline)?;
                let second = self.known(&pair.1, inline)?;
                self.out.pair(first, second)
            }
            Known::Array(array) => self.array(array, inline),
            Known::Function(..) | Known::Both(_) | Known::Entries(_) => unknown("a function as a result"),
        }
    }

    fn atom(&mut self, atom: Atom, inline: &BTreeMap<VarId, Rhs>) -> Result<TermId> {
        match atom {
            Atom::Real(r) => self.out.real(r),
            Atom::Int(k) => self.out.int(k),
            Atom::Unit => self.out.unit(),
            Atom::Var(x) => match inline.get(&x) {
                Some(rhs) => self.rhs(&rhs.clone(), inline),
                None => Ok(self.out.var(x)),
            },
        }
    }

    fn rhs(&mut self, rhs: &Rhs, inline: &BTreeMap<VarId, Rhs>) -> Result<TermId> {
        match rhs {
            Rhs::Prim(prim, atoms) => {
                let atoms = atoms.iter().map(|a| self.atom(*a, inline)).collect::<Result<Vec<_>>>()?;
                let plain = match prim {
                    Prim::Scale => Prim::Mul,
                    Prim::Opposite => Prim::Neg,
                    prim => *prim,
                };
                self.out.prim(plain, &atoms)
            }
            Rhs::Fst(a) => {
                let a = self.atom(*a, inline)?;
                self.out.fst(a)
            }
            Rhs::Snd(a) => {
                let a = self.atom(*a, inline)?;
                self.out.snd(a)
            }
            Rhs::Same(a) => self.atom(*a, inline),
            Rhs::Length(a) => {
                let a = self.atom(*a, inline)?;
                self.out.push(Term::Length(a))
            }
            Rhs::Index(a, k) => {
                let (a, k) = (self.atom(*a, inline)?, self.atom(*k, inline)?);
                self.out.index(a, k)
            }
            Rhs::Array(array) => self.array(array, inline),
        }
    }

    fn array(&mut self, array: &Array, inline: &BTreeMap<VarId, Rhs>) -> Result<TermId> {
        match &array.over {
            Over::Count(n, k) => {
                let n = self.atom(*n, inline)?;
                let body = self.block(&array.block, &array.element)?;
                self.out.push(Term::Build(n, *k, body))
            }
            Over::Arrays(arrays) => {
                // An array whose elements are not read only says how long the others are.
                let mut needed: Vec<_> = arrays.iter().filter(|(x, _)| self.uses.reads(*x) > 0).collect();
                if needed.is_empty() {
                    needed.extend(arrays.first());
                }
                let mut args = Vec::with_capacity(needed.len());
                for (x, a) in needed {
                    let a = self.atom(*a, inline)?;
                    if !matches!(self.out.context.types[self.out.ty(a)], Type::Array(_)) {
                        return Err(Error::bug("readable", "an array is needed"));
                    }
                    args.push((*x, a));
                }
                let body = self.block(&array.block, &array.element)?;
                self.out.push(Term::Map(args, body))
            }
        }
    }
}
