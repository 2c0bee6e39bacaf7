//! Leaf calls: one identifier for a straight piece of program.
//!
//! A leaf is the largest part of a program that is made of operations on reals, literals, pairs, `let` of reals, and reads: variables, components of
//! variables, elements of them. It has no branch, so its backpropagator is a straight program as well, and nothing of it need be on the tape but the
//! reads. The reverse pass computes it again, with all partial derivatives, and goes through it backwards.
//!
//! ```text
//! D[leaf(x1, .., xn)] = (leaf(x..), (i, λ(z1, .., zm). d1 (J^T z)1 + .. + dn (J^T z)n))       one i
//! ```
//!
//! So identifiers count leaf calls, not scalars; equal reads are one. A leaf of fewer than two operations is not worth it.
//!
//! A `map` or `build` whose body is a leaf is one leaf call in all: an array of scalars with one vector backpropagator.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::backpropagator::{Effect, Scalar};
use super::operation::{self, scale};
use crate::base::{Id as _, VarId};
use crate::error::{Error, Result};
use crate::functional::lambda::{Prim, Program, Term, TermId, Type};
use crate::reference::Numeric;
use crate::reference::numeric::Users;

/// A value of a leaf: operands first, then the results of its instructions.
type Register = u32;

/// A straight program on reals.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    /// The number of operands.
    pub operands: usize,
    instrs: Vec<Instr>,
    /// The result, in reverse Polish notation: a register, or a pair of the two before.
    result: Vec<Option<Register>>,
}

#[derive(Clone, Debug)]
enum Instr {
    Real(f64),
    Operation(Prim, SmallVec<[Register; 2]>),
}

impl Leaf {
    /// The number of scalars it gives.
    pub(super) fn width(&self) -> usize {
        self.result.iter().flatten().count()
    }

    /// Its result: a scalar, or a pair of the two before.
    pub(super) fn result(&self) -> &[Option<Register>] {
        &self.result
    }

    /// The values of all registers.
    pub(super) fn registers<T: Numeric>(&self, operands: impl Iterator<Item = T>, users: &Users) -> Result<Vec<T>> {
        let mut registers: Vec<T> = Vec::with_capacity(self.operands + self.instrs.len());
        registers.extend(operands);
        for instr in &self.instrs {
            let value = match instr {
                Instr::Real(r) => T::literal(*r)?,
                Instr::Operation(prim, args) => operation::value(*prim, &gather(&registers, args), users)?,
            };
            registers.push(value);
        }
        Ok(registers)
    }

    /// The calls that its backpropagator makes, `J^T z`, for one call of the leaf or several in a row, the last one first.
    pub(super) fn pull_back<T: Numeric>(
        &self,
        args: &[Scalar<T>],
        cotangents: &[Option<T>],
        users: &Users,
        effects: &mut Vec<Effect<T>>,
    ) -> Result<()> {
        for (k, cotangents) in cotangents.chunks(self.width().max(1)).enumerate().rev() {
            if cotangents.iter().any(Option::is_some) {
                let args = args.get(k * self.operands..(k + 1) * self.operands);
                let missing = || Error::bug("dual", "a leaf call without operands");
                self.pull_back_one(args.ok_or_else(missing)?, cotangents, users, effects)?;
            }
        }
        Ok(())
    }

    fn pull_back_one<T: Numeric>(
        &self,
        args: &[Scalar<T>],
        cotangents: &[Option<T>],
        users: &Users,
        effects: &mut Vec<Effect<T>>,
    ) -> Result<()> {
        let registers = self.registers(args.iter().map(|arg| arg.value.clone()), users)?;
        let mut owed: Vec<Option<T>> = vec![None; registers.len()];
        for (register, d) in self.result.iter().flatten().zip(cotangents) {
            if let Some(d) = d {
                super::array::add_to(&mut owed[*register as usize], d.clone());
            }
        }
        for (k, instr) in self.instrs.iter().enumerate().rev() {
            let (Instr::Operation(prim, args), Some(d)) = (instr, owed[self.operands + k].take()) else { continue };
            for (j, weight) in operation::partials(*prim, &gather(&registers, args), users)? {
                super::array::add_to(&mut owed[args[j] as usize], scale(&weight, &d));
            }
        }
        effects.extend(args.iter().zip(owed).filter_map(|(arg, d)| d.map(|d| Effect::Call(arg.id, d))));
        Ok(())
    }
}

fn gather<T: Clone>(registers: &[T], args: &[Register]) -> SmallVec<[T; 2]> {
    args.iter().map(|r| registers[*r as usize].clone()).collect()
}

/// What is known of the terms of a program.
pub(super) struct Leaves {
    /// The operations of each term that may be in a leaf.
    operations: Vec<Option<u32>>,
}

/// The operations that make a leaf call worth it.
const LEAST: u32 = 2;

impl Leaves {
    /// Finds what may be in leaves; operands come before users.
    pub(super) fn find(program: &Program) -> Self {
        let mut operations: Vec<Option<u32>> = Vec::with_capacity(program.terms.len());
        // Variables and their components.
        let mut reads: Vec<bool> = Vec::with_capacity(program.terms.len());
        let real = |e: TermId| program.types[program.ty(e)] == Type::Real;
        for (e, term) in program.terms.iter() {
            let of = |e: TermId| operations[e.index()];
            let is_read = match term {
                Term::Var(_) => true,
                Term::Fst(a) | Term::Snd(a) => reads[a.index()],
                _ => false,
            };
            let count = match term {
                Term::Var(_) | Term::Fst(_) | Term::Snd(_) => (is_read && real(e)).then_some(0),
                Term::Index(a, k) => {
                    let simple = matches!(program.terms[*k], Term::Var(_) | Term::Int(_));
                    (reads[a.index()] && simple && real(e)).then_some(0)
                }
                Term::Real(_) => Some(0),
                Term::Pair(a, b) => of(*a).zip(of(*b)).map(|(a, b)| a.saturating_add(b)),
                Term::Prim(Prim::Add | Prim::Mul | Prim::Neg | Prim::Scalar(_), a) => {
                    of(*a).map(|n| n.saturating_add(1))
                }
                Term::Let(_, value, body) if real(*value) => {
                    of(*value).zip(of(*body)).map(|(a, b)| a.saturating_add(b))
                }
                _ => None,
            };
            operations.push(count);
            reads.push(is_read);
        }
        Leaves { operations }
    }

    /// The leaf that a term is, and the terms of its operands; nothing where it is none.
    pub(super) fn take(&self, program: &Program, e: TermId) -> Option<Result<(Leaf, Vec<TermId>)>> {
        let operations = self.operations[e.index()]?;
        (operations >= LEAST).then(|| Cut::new(program).cut(e))
    }

    /// The same for the body of a loop whose rounds are one leaf call together: one operation is worth it.
    pub(super) fn take_body(&self, program: &Program, body: TermId) -> Option<Result<(Leaf, Vec<TermId>)>> {
        let operations = self.operations[body.index()]?;
        (operations >= 1).then(|| Cut::new(program).cut(body))
    }
}

enum Step {
    /// A term, and whether it is a part of the result.
    Term(TermId, bool),
    Operation(Prim, usize),
    Bind(VarId),
    Result,
    Pair,
}

/// A register, by the order in which they are found.
#[derive(Clone, Copy)]
enum Found {
    Operand(u32),
    Instr(u32),
}

struct Cut<'p> {
    program: &'p Program,
    operands: Vec<TermId>,
    /// Reads by what they read.
    known: FxHashMap<Vec<u64>, u32>,
    bound: FxHashMap<VarId, Found>,
    instrs: Vec<(Prim, SmallVec<[Found; 2]>)>,
    literals: Vec<Option<f64>>,
    stack: Vec<Found>,
    result: Vec<Option<Found>>,
}

impl<'p> Cut<'p> {
    fn new(program: &'p Program) -> Self {
        Cut {
            program,
            operands: Vec::new(),
            known: FxHashMap::default(),
            bound: FxHashMap::default(),
            instrs: Vec::new(),
            literals: Vec::new(),
            stack: Vec::new(),
            result: Vec::new(),
        }
    }

    fn cut(mut self, e: TermId) -> Result<(Leaf, Vec<TermId>)> {
        let missing = || Error::bug("dual", "a leaf without an operand");
        let mut todo = vec![Step::Term(e, true)];
        while let Some(step) = todo.pop() {
            match step {
                Step::Term(e, result) => {
                    let at = todo.len();
                    self.term(e, result, &mut todo);
                    todo[at..].reverse();
                }
                Step::Operation(prim, arity) => {
                    let args = self.stack.split_off(self.stack.len().checked_sub(arity).ok_or_else(missing)?);
                    self.instr(None, prim, SmallVec::from_vec(args));
                }
                Step::Bind(x) => {
                    let value = self.stack.pop().ok_or_else(missing)?;
                    self.bound.insert(x, value);
                }
                Step::Result => {
                    let value = self.stack.pop().ok_or_else(missing)?;
                    self.result.push(Some(value));
                }
                Step::Pair => self.result.push(None),
            }
        }
        let operands = self.operands.len();
        let register = |found: Found| match found {
            Found::Operand(k) => k,
            Found::Instr(k) => operands as u32 + k,
        };
        let instrs = self.instrs.into_iter().zip(self.literals).map(|((prim, args), literal)| match literal {
            Some(r) => Instr::Real(r),
            None => Instr::Operation(prim, args.into_iter().map(register).collect()),
        });
        let instrs = instrs.collect();
        let result = self.result.into_iter().map(|found| found.map(register)).collect();
        Ok((Leaf { operands, instrs, result }, self.operands))
    }

    fn instr(&mut self, literal: Option<f64>, prim: Prim, args: SmallVec<[Found; 2]>) {
        self.instrs.push((prim, args));
        self.literals.push(literal);
        self.stack.push(Found::Instr((self.instrs.len() - 1) as u32));
    }

    /// Pushes what is to be done for a term, in order.
    fn term(&mut self, e: TermId, result: bool, todo: &mut Vec<Step>) {
        match &self.program.terms[e] {
            Term::Pair(a, b) => {
                todo.extend([Step::Term(*a, result), Step::Term(*b, result)]);
                if result {
                    todo.push(Step::Pair);
                }
                return;
            }
            Term::Let(x, value, body) => {
                todo.extend([Step::Term(*value, false), Step::Bind(*x), Step::Term(*body, result)]);
                return;
            }
            Term::Prim(prim, a) => {
                let arity = match prim {
                    Prim::Scalar(function) => crate::functional::lambda::arity(*function, &self.program.users),
                    Prim::Add | Prim::Mul => 2,
                    _ => 1,
                };
                todo.extend([Step::Term(*a, false), Step::Operation(*prim, arity)]);
            }
            Term::Real(r) => self.instr(Some(*r), Prim::Neg, SmallVec::new()),
            Term::Var(x) if self.bound.contains_key(x) => self.stack.extend(self.bound.get(x)),
            _ => {
                let key = self.key(e);
                let next = self.operands.len() as u32;
                let k = *self.known.entry(key).or_insert(next);
                if k == next {
                    self.operands.push(e);
                }
                self.stack.push(Found::Operand(k));
            }
        }
        if result {
            todo.push(Step::Result);
        }
    }

    /// What a read reads: equal keys are equal values.
    fn key(&self, e: TermId) -> Vec<u64> {
        let (mut key, mut at) = (Vec::new(), e);
        loop {
            match &self.program.terms[at] {
                Term::Fst(a) => {
                    key.push(0);
                    at = *a;
                }
                Term::Snd(a) => {
                    key.push(1);
                    at = *a;
                }
                Term::Index(a, k) => {
                    match &self.program.terms[*k] {
                        Term::Int(k) => key.extend([2, *k as u64]),
                        Term::Var(x) => key.extend([3, x.index() as u64]),
                        _ => key.extend([4, k.index() as u64]),
                    }
                    at = *a;
                }
                Term::Var(x) => {
                    key.push(x.index() as u64);
                    return key;
                }
                _ => {
                    key.extend([5, at.index() as u64]);
                    return key;
                }
            }
        }
    }
}
