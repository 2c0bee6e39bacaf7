//! Which numbers of a nest are never negative, as sums of squares are, nor -0.
//!
//! A number is not negative where it is a square, an exponential, a size, or a sum, a product, a quotient or a root of such. Numbers that are added up begin
//! with +0: they are taken for not negative until something is added that may be. NaN counts as not negative.

use std::collections::{BTreeMap, BTreeSet};

use crate::loops::{Nest, Real, RealId, Stmt};
use crate::scalar::{Function, Op, Primitive};

/// The numbers of a nest that are not negative.
pub(super) fn not_negative(nest: &Nest) -> BTreeSet<RealId> {
    let mut given: BTreeMap<RealId, Vec<&Stmt>> = BTreeMap::new();
    for stmt in &nest.body {
        stmt.visit(&mut |stmt| {
            let (Stmt::Local(r)
            | Stmt::Assign(r, _)
            | Stmt::Accumulate(r, _)
            | Stmt::MulAdd(r, ..)
            | Stmt::Extend(_, r, _)
            | Stmt::Define(r, _)) = stmt
            else {
                return;
            };
            given.entry(*r).or_default().push(stmt);
        });
    }
    let mut found: BTreeSet<RealId> = given.keys().copied().collect();
    let mut readers: BTreeMap<RealId, Vec<RealId>> = BTreeMap::new();
    for (r, stmts) in &given {
        stmts.iter().for_each(|stmt| stmt.visit_reads(&mut |read| readers.entry(read).or_default().push(*r)));
    }
    let mut open: Vec<RealId> = found.iter().copied().collect();
    while let Some(r) = open.pop() {
        let holds = given.get(&r).is_some_and(|stmts| stmts.iter().all(|stmt| keeps(stmt, &found)));
        if !holds && found.remove(&r) {
            open.extend(readers.get(&r).into_iter().flatten().filter(|r| found.contains(r)));
        }
    }
    found
}

/// Whether a statement leaves the register that it gives a number not negative, where some numbers are not.
fn keeps(stmt: &Stmt, known: &BTreeSet<RealId>) -> bool {
    match stmt {
        Stmt::Local(_) => true,
        Stmt::Assign(_, x) | Stmt::Accumulate(_, x) | Stmt::Extend(_, _, x) => known.contains(x),
        Stmt::MulAdd(_, a, b) => is_product(*a, *b, known),
        Stmt::Define(_, real) => match real {
            Real::Literal(x) => x.is_sign_positive(),
            Real::Index(_) | Real::Load(_) => false,
            Real::Add(a, b) => known.contains(a) && known.contains(b),
            Real::Mul(a, b) => is_product(*a, *b, known),
            Real::MulAdd(a, b, c) => is_product(*a, *b, known) && known.contains(c),
            Real::Select(_, x) => known.contains(x),
            Real::Apply(Function::Value(Primitive::Op(op)), args) => match op {
                Op::Exp | Op::Abs | Op::Sigmoid | Op::Softplus | Op::Cosh | Op::Compare(_) => true,
                Op::Powi(k) if k % 2 == 0 => true,
                Op::Sqrt | Op::Powi(_) | Op::Div | Op::Expm1 | Op::Log1p => args.iter().all(|x| known.contains(x)),
                _ => false,
            },
            Real::Apply(..) => false,
        },
        _ => false,
    }
}

/// Whether a product is not negative: a square, or one of two numbers that are not.
fn is_product(a: RealId, b: RealId, known: &BTreeSet<RealId>) -> bool {
    a == b || known.contains(&a) && known.contains(&b)
}
