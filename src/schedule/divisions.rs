//! Quotients by a number that a loop does not change become products with its reciprocal.
//!
//! ```text
//!                                s = 1, 2^200 for |d| < 2^-1000, 2^-200 for 2^1000 < |d|
//!                                q = 1 / (d * s)
//! for i                          for i
//!   x[i] = a(i) / d       ==       x[i] = a(i) * s * q
//! ```
//!
//! A division takes as long as a dozen products, in lanes too.
//!
//! **Why it is right.** A product with a reciprocal is rounded once more than the quotient. The scale keeps the reciprocal of a number that is not 0 or
//! infinite a normal number, with all its digits. A product with the scale is exact but where it overflows or loses digits at an end of the range, where the
//! quotient overflows or is 0. Of 0, infinity and NaN the reciprocal gives what the division gives. A literal between the bounds needs no scale.
//!
//! **Where it is done.** In loops over ranges of many values, before the outermost one that changes neither the number nor what it is made of. What it is made of
//! leaves loops first: literals, elements that are there in any case, and what they give. Rows of sparse matrices have too few entries, and a
//! quotient of two numbers that the loop does not change is found before it anyway. Then those that are [a row](rows).

mod rows;

use std::collections::{BTreeMap, BTreeSet};

use super::prefix_sums::whole;
use super::quotients::{division, reciprocal};
use super::vectorise::is_short;
use crate::base::IndexId;
use crate::error::Result;
use crate::index::Affine;
use crate::loops::{BufferId, Decision, Domain, Fresh, Place, Program, Real, RealId, Stmt, changed, declared, defined};
use crate::scalar::{Comparison, Op};

/// Beyond which a number is scaled before its reciprocal is taken, and by what.
const LARGE: i32 = 1000;
const SCALE: i32 = 200;

/// Has loops multiply by reciprocals.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let Program { buffers, nests, .. } = program;
    for nest in nests {
        let is_given = |b: BufferId| !nest.buffers.contains(&b) && buffers[b].entries.is_none();
        let dims = |b: BufferId| if is_given(b) { buffers[b].dims.as_slice() } else { &[] };
        Invariant { dims: &dims }.leave(&mut nest.body, &mut Vec::new());
        let mut literals = BTreeMap::new();
        for stmt in &nest.body {
            stmt.visit(&mut |stmt| {
                if let Stmt::Define(r, Real::Literal(x)) = stmt {
                    literals.insert(*r, *x);
                }
            });
        }
        let mut pass = Pass { names: Fresh::after(&nest.body), literals, found: 0 };
        pass.body(&mut nest.body);
        rows::run(&mut pass, nest, buffers)?;
        if pass.found > 0 {
            nest.decisions.push(Decision::Divisions { quotients: pass.found });
        }
    }
    Ok(())
}

/// What loops divide by and do not change.
struct Invariant<'a> {
    /// The axes of a tensor that was there before; none of others.
    dims: &'a dyn Fn(BufferId) -> &'a [Affine],
}

/// The indices of the loops around, with the lengths of the axes that they are over.
type Around = Vec<(IndexId, Option<Affine>)>;

impl Invariant<'_> {
    /// Moves divisors out of loops, with what they are made of.
    // Loops and tests nest to a bounded depth.
    fn leave(&self, body: &mut Vec<Stmt>, around: &mut Around) {
        let mut at = 0;
        while at < body.len() {
            let mut ahead = Vec::new();
            match &mut body[at] {
                Stmt::For { index, domain, body, .. } => {
                    around.push((*index, whole(domain)));
                    self.leave(body, around);
                    around.pop();
                    ahead = self.leaving(body, *index, around);
                }
                Stmt::If { body, .. } | Stmt::Extremum { body, .. } => self.leave(body, around),
                _ => {}
            }
            let next = at + ahead.len() + 1;
            body.splice(at..at, ahead);
            at = next;
        }
    }

    /// Takes out of the body of a loop what makes divisors that it does not change.
    fn leaving(&self, body: &mut Vec<Stmt>, index: IndexId, around: &Around) -> Vec<Stmt> {
        let mut own = own(body);
        let mut wanted: BTreeSet<RealId> = quotients(body).into_iter().map(|(_, d)| d).collect();
        if wanted.is_disjoint(&own) {
            return Vec::new();
        }
        let inside = defined(&*body);
        let mut is_free = vec![false; body.len()];
        for (stmt, is_free) in body.iter().zip(&mut is_free) {
            let Stmt::Define(r, real) = stmt else { continue };
            *is_free = match real {
                Real::Load(place) => is_there((self.dims)(place.buffer), place, around),
                Real::Index(a) => !a.mentions(index) && !inside.iter().any(|i| a.mentions(*i)),
                _ => {
                    let mut free = true;
                    real.visit_reads(&mut |read| free &= !own.contains(&read));
                    free
                }
            };
            if *is_free {
                own.remove(r);
            }
        }
        let mut ahead = Vec::new();
        for at in (0..body.len()).rev() {
            if let Stmt::Define(r, real) = &body[at]
                && is_free[at]
                && wanted.contains(r)
            {
                real.visit_reads(&mut |read| wanted.extend([read]));
                ahead.push(body.remove(at));
            }
        }
        ahead.reverse();
        ahead
    }
}

/// Whether an element is there whether or not a loop runs: each axis has the place of a literal, or all of a loop around.
fn is_there(dims: &[Affine], place: &Place, around: &Around) -> bool {
    let is_there = |(a, n): (&Affine, &Affine)| match (a.as_constant(), n.as_constant()) {
        (Some(at), Some(n)) => (0..n).contains(&at),
        _ => a.as_index().is_some_and(|i| around.iter().any(|(j, over)| *j == i && over.as_ref() == Some(n))),
    };
    dims.len() == place.at.len() && place.at.iter().zip(dims).all(is_there)
}

/// What a number is scaled by, if it is, and its reciprocal.
#[derive(Clone, Copy)]
pub(super) struct Reciprocal {
    pub scale: Option<RealId>,
    pub reciprocal: RealId,
}

impl Reciprocal {
    /// The product that a quotient becomes.
    pub fn product(self, a: RealId, names: &mut Fresh, out: &mut Vec<Stmt>) -> Real {
        let a = self.scale.map_or(a, |scale| define(Real::Mul(a, scale), names, out));
        Real::Mul(a, self.reciprocal)
    }
}

struct Pass {
    names: Fresh,
    literals: BTreeMap<RealId, f64>,
    found: usize,
}

impl Pass {
    fn body(&mut self, body: &mut Vec<Stmt>) {
        let mut out = Vec::with_capacity(body.len());
        for mut stmt in std::mem::take(body) {
            if let Stmt::For { domain, body, .. } = &mut stmt
                && has_many(domain)
            {
                let known = self.reciprocals(divisors(body), &mut out);
                self.multiply(body, &known);
            }
            if let Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } = &mut stmt {
                self.body(body);
            }
            out.push(stmt);
        }
        *body = out;
    }

    /// Statements that find the reciprocals of some numbers.
    fn reciprocals(&mut self, divisors: BTreeSet<RealId>, out: &mut Vec<Stmt>) -> BTreeMap<RealId, Reciprocal> {
        let mut known = BTreeMap::new();
        for d in divisors {
            let literal = self.literals.get(&d).copied();
            match literal.map(f64::abs) {
                Some(x) if (2_f64.powi(-LARGE)..2_f64.powi(LARGE)).contains(&x) => {
                    let reciprocal = define(Real::Literal(1.0 / literal.unwrap_or(x)), &mut self.names, out);
                    known.insert(d, Reciprocal { scale: None, reciprocal });
                }
                Some(_) => {}
                None => {
                    let (scale, reciprocal) = scaled(d, &mut self.names, out);
                    known.insert(d, Reciprocal { scale: Some(scale), reciprocal });
                }
            }
        }
        known
    }

    /// Products in place of quotients.
    fn multiply(&mut self, body: &mut Vec<Stmt>, known: &BTreeMap<RealId, Reciprocal>) {
        if known.is_empty() {
            return;
        }
        let mut out = Vec::with_capacity(body.len());
        for mut stmt in std::mem::take(body) {
            if let Stmt::Define(r, real) = &stmt
                && let Some((a, d)) = division(real)
                && let Some(by) = known.get(&d)
            {
                self.found += 1;
                stmt = Stmt::Define(*r, by.product(a, &mut self.names, &mut out));
            }
            if let Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } = &mut stmt {
                self.multiply(body, known);
            }
            out.push(stmt);
        }
        *body = out;
    }
}

/// The power of two by which a number is scaled, and the reciprocal of the product.
pub(super) fn scaled(d: RealId, names: &mut Fresh, out: &mut Vec<Stmt>) -> (RealId, RealId) {
    let less = Op::Compare(Comparison::Less);
    let size = define(Real::apply(Op::Abs, [d]), names, out);
    let [least, most, up, down, one] =
        [-LARGE, LARGE, SCALE, -SCALE, 0].map(|exponent| define(Real::Literal(2_f64.powi(exponent)), names, out));
    let is_small = define(Real::apply(less, [size, least]), names, out);
    let is_large = define(Real::apply(less, [most, size]), names, out);
    let is_either = define(Real::Add(is_small, is_large), names, out);
    let is_neither = define(Real::apply(less, [is_either, one]), names, out);
    let cases = [(is_small, up), (is_large, down), (is_neither, one)];
    let [a, b, c] = cases.map(|(holds, scale)| define(Real::Select(holds, scale), names, out));
    let others = define(Real::Add(a, b), names, out);
    let scale = define(Real::Add(others, c), names, out);
    let product = define(Real::Mul(d, scale), names, out);
    let (defined, q) = reciprocal(product, names);
    out.extend(defined);
    (scale, q)
}

fn define(real: Real, names: &mut Fresh, out: &mut Vec<Stmt>) -> RealId {
    let r = names.fresh_real();
    out.push(Stmt::Define(r, real));
    r
}

/// What the body of a loop divides by and does not change, where it changes what is divided.
fn divisors(body: &[Stmt]) -> BTreeSet<RealId> {
    let own = own(body);
    let known = quotients(body).into_iter().filter(|(a, d)| own.contains(a) && !own.contains(d));
    known.map(|(_, d)| d).collect()
}

/// Whether a loop is over a range of many values, as far as is known.
pub(super) fn has_many(domain: &Domain) -> bool {
    matches!(domain.whole_of(), Domain::Range { .. }) && !is_short(domain)
}

/// What a body divides, and by what.
pub(super) fn quotients(body: &[Stmt]) -> Vec<(RealId, RealId)> {
    let mut quotients = Vec::new();
    body.iter().for_each(|stmt| {
        stmt.visit(&mut |stmt| quotients.extend(if let Stmt::Define(_, real) = stmt { division(real) } else { None }))
    });
    quotients
}

/// The registers that a body makes or changes.
fn own(body: &[Stmt]) -> BTreeSet<RealId> {
    declared(body).into_iter().chain(changed(body)).collect()
}
