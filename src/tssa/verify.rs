//! The verifier of Tensor-SSA.
//!
//! - *Signature*: its types, patterns and assumptions are sound, and no other sizes than its own occur.
//! - *Signature*: sound by itself, [`Signature::verify`](crate::ty::Signature::verify).
//! - *Order*: operands, and tensors read as relations, come before the statement; outputs exist.
//! - *Uniqueness*: no two statements are equal.
//! - *Shape*: an operand has as many indices as its tensor has axes, and each index has the range of its axis. Operands of additions and
//!   functions have the axes of the statement. Inputs have the axes of their leaf. Relations have as many places as their guard gives.
//! - *Scope*: guards and numbers mention indices of their statement (additions, functions and numbers: `gen` indices only).
//! - *Forms*: contractions have one or two operands, functions as many arguments as they take, guards no map application, guards of bounded nesting.
//! - *Outputs*: a leaf for each leaf of the type, of the same axes; sparse storage for a tensor of the pattern's rank only.

use super::data::{Program, Rhs, Stmt};
use crate::base::{Id, IndexId, VarId};
use crate::index::{Affine, Pred, RelationRef, Size, Var};
use crate::scalar::Number;

impl Program {
    /// Checks every invariant of Tensor-SSA.
    ///
    /// # Errors
    /// All violations, each with its statement.
    pub fn verify(&self) -> Result<(), Vec<String>> {
        // Without a sound signature nothing else can be looked up.
        self.signature.verify().map_err(|complaint| vec![complaint])?;
        let mut check = Check { program: self, complaints: Vec::new() };
        if self.names.len() != self.stmts.len() {
            check.complaints.push("there is not one name for each statement".to_owned());
        }
        let mut seen = rustc_hash::FxHashSet::default();
        for (x, stmt) in self.stmts.iter() {
            check.stmt(x, stmt);
            if !seen.insert(stmt) {
                check.complain(x, "an equal statement comes before");
            }
        }
        check.outputs();
        if check.complaints.is_empty() { Ok(()) } else { Err(check.complaints) }
    }
}

struct Check<'a> {
    program: &'a Program,
    complaints: Vec<String>,
}

impl Check<'_> {
    fn complain(&mut self, x: VarId, message: impl std::fmt::Display) {
        self.complaints.push(format!("{x}: {message}"));
    }

    /// The axes of an operand of `x`, if it comes before.
    fn dims(&mut self, x: VarId, operand: VarId) -> Option<Vec<Size>> {
        if operand.index() < x.index() {
            self.program.stmts.get(operand).map(|stmt| stmt.dims.clone())
        } else {
            self.complain(x, format_args!("{operand} does not come before"));
            None
        }
    }

    fn size(&mut self, x: VarId, n: &Size) {
        if let Err(message) = self.program.signature.check_size(n) {
            self.complain(x, message);
        }
    }

    fn stmt(&mut self, x: VarId, stmt: &Stmt) {
        stmt.dims.iter().for_each(|n| self.size(x, n));
        let rank = stmt.dims.len();
        match &stmt.rhs {
            Rhs::Input { param, path } => {
                let signature = &self.program.signature;
                let leaves = signature.params.get(*param).map(|p| signature.types.leaves(p.ty));
                let leaf = match leaves {
                    Some(Ok(leaves)) => leaves.into_iter().find(|leaf| leaf.path == *path),
                    _ => None,
                };
                match leaf {
                    Some(leaf) if leaf.dims == stmt.dims => {}
                    Some(_) => self.complain(x, "the axes are not those of the input"),
                    None => self.complain(x, "no such input"),
                }
            }
            Rhs::Number(Number::Literal(_)) => {}
            Rhs::Number(Number::Index(a)) => self.affine(x, a, rank),
            Rhs::Add(sides) => {
                for (guard, operand) in sides {
                    self.aligned(x, stmt, *operand);
                    self.guard(x, guard, rank);
                }
            }
            Rhs::Map { guard, function, args } => {
                if let Err(error) = crate::scalar::check(*function, args.len(), &self.program.signature.functions) {
                    self.complain(x, error);
                }
                args.iter().for_each(|operand| self.aligned(x, stmt, *operand));
                self.guard(x, guard, rank);
            }
            Rhs::Contract { sums, guard, operands } => {
                sums.iter().for_each(|n| self.size(x, n));
                if !(1..=2).contains(&operands.len()) {
                    self.complain(x, format_args!("a contraction over {} operands", operands.len()));
                }
                let ranges: Vec<&Size> = stmt.dims.iter().chain(sums).collect();
                for operand in operands {
                    let Some(dims) = self.dims(x, operand.var) else { continue };
                    if dims.len() != operand.indices.len() {
                        self.complain(x, format_args!("{} is read at {} indices", operand.var, operand.indices.len()));
                    }
                    for (n, i) in dims.iter().zip(&operand.indices) {
                        if ranges.get(i.index()) != Some(&n) {
                            self.complain(x, format_args!("{} is read at {i}, which has another range", operand.var));
                        }
                    }
                }
                self.guard(x, guard, ranges.len());
            }
        }
    }

    fn aligned(&mut self, x: VarId, stmt: &Stmt, operand: VarId) {
        if self.dims(x, operand).is_some_and(|dims| dims != stmt.dims) {
            self.complain(x, format_args!("{operand} has other axes"));
        }
    }

    /// An expression over the first `scope` indices.
    fn affine(&mut self, x: VarId, a: &Affine, scope: usize) {
        let mut wrong = None;
        a.visit(&mut |v| match v {
            Var::Index(i) if i.index() >= scope => wrong = Some(format!("{i} is not in scope")),
            Var::Size(n) if self.program.signature.sizes.get(*n).is_none() => {
                wrong = Some(format!("the size {n} is unknown"));
            }
            Var::Apply(_) => wrong = Some("a guard applies a map".to_owned()),
            _ => {}
        });
        if let Some(wrong) = wrong {
            self.complain(x, wrong);
        }
    }

    fn guard(&mut self, x: VarId, guard: &Pred, scope: usize) {
        if guard.nesting() > Pred::MAX_NESTING {
            return self.complain(x, "a guard nests too deep");
        }
        match guard {
            Pred::True | Pred::False => {}
            Pred::NonNegative(a) | Pred::Zero(a) | Pred::NonZero(a) => self.affine(x, a, scope),
            Pred::All(ps) | Pred::Any(ps) => ps.iter().for_each(|p| self.guard(x, p, scope)),
            Pred::Exists { index, extent, body } => {
                self.size(x, extent);
                if *index != IndexId::from_index(scope) {
                    self.complain(x, format_args!("{index} is bound where {scope} indices are in scope"));
                }
                self.guard(x, body, scope + 1);
            }
            Pred::Relation { relation, args, .. } => {
                args.iter().for_each(|a| self.affine(x, a, scope));
                let rank = match relation {
                    RelationRef::Input(r) => self.program.signature.relations.get(*r).map(|r| r.shape.len()),
                    RelationRef::Computed { var, .. } => self.dims(x, *var).map(|dims| dims.len()),
                };
                if rank != Some(args.len()) {
                    self.complain(x, format_args!("{relation:?} is applied to {} indices", args.len()));
                }
            }
        }
    }

    fn outputs(&mut self) {
        let program = self.program;
        for output in &program.outputs {
            let leaves = match program.signature.types.contains(output.ty) {
                true => program.signature.types.leaves(output.ty).unwrap_or_default(),
                false => Vec::new(),
            };
            let expected: Vec<&[Size]> = leaves.iter().map(|leaf| leaf.dims.as_slice()).collect();
            let found: Option<Vec<&[Size]>> =
                output.leaves.iter().map(|x| program.stmts.get(*x).map(|stmt| stmt.dims.as_slice())).collect();
            if leaves.is_empty() || found.as_ref() != Some(&expected) {
                self.complaints.push(format!("output {}: its leaves do not have the axes of its type", output.name));
            }
            if let Some(pattern) = output.storage.pattern() {
                let rank = program.signature.relations.get(pattern).map(|r| r.shape.len());
                if expected.len() != 1 || rank != Some(expected[0].len()) {
                    self.complaints.push(format!("output {}: its pattern has another rank", output.name));
                }
                let order = output.storage.format().map(|format| format.order(rank.unwrap_or(0)));
                if order.is_some_and(|order| order != program.signature.stored_order(pattern)) {
                    self.complaints.push(format!("output {}: its entries are in another order", output.name));
                }
            }
        }
    }
}
