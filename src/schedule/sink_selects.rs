//! A product under a test becomes the product of its factors under the test.
//!
//! ```text
//! p = a * b                        u = [m != 0] a
//! r = [m != 0] p          ==       v = [m != 0] b
//! s += r                           s += u * v
//! ```
//!
//! The derivative of `relu`, and of whatever else is chosen by numbers, is such a test in the sums of a product. As it stands no other pass knows it
//! for a product: it is rounded twice, and its iterations share no loads. Of the factors under the test those that several iterations share
//! are tested once for all of them.
//!
//! Literals need no test: they are finite, and may leave the sum.
//!
//! **Why it is right.** Where the test holds, it is the same product. Where it does not hold, it is `0 * 0`, whatever the factors are, or a literal times
//! 0: a zero, to which a sum adds up as to the 0 before, since sums begin with +0.
//!
//! **Where it is done.** In innermost loops over ranges, for products that are read once, under a test that is read once, in a sum.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Result;
use crate::loops::{Domain, Fresh, Nest, Program, Real, RealId, Stmt};

/// Sinks selects to factors.
pub(super) fn run(program: &mut Program) -> Result<()> {
    program.nests.iter_mut().for_each(sink);
    Ok(())
}

fn sink(nest: &mut Nest) {
    let mut uses: BTreeMap<RealId, usize> = BTreeMap::new();
    for stmt in &nest.body {
        stmt.visit(&mut |stmt| stmt.visit_reads(&mut |r| *uses.entry(r).or_default() += 1));
    }
    let mut literals = BTreeSet::new();
    for stmt in &nest.body {
        stmt.visit(&mut |stmt| {
            if let Stmt::Define(r, Real::Literal(c)) = stmt
                && c.is_finite()
            {
                literals.insert(*r);
            }
        });
    }
    let mut names = Fresh::after(&nest.body);
    let mut open: Vec<&mut Vec<Stmt>> = vec![&mut nest.body];
    while let Some(body) = open.pop() {
        for stmt in body {
            match stmt {
                Stmt::For { domain: Domain::Range { .. }, body, .. } if body.iter().all(|s| s.body().is_empty()) => {
                    sink_in(body, &uses, &literals, &mut names);
                }
                Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } => open.push(body),
                _ => {}
            }
        }
    }
}

/// In the body of an innermost loop.
fn sink_in(body: &mut Vec<Stmt>, uses: &BTreeMap<RealId, usize>, literals: &BTreeSet<RealId>, names: &mut Fresh) {
    let once = |r: &RealId| uses.get(r) == Some(&1);
    let (mut products, mut selects) = (BTreeMap::new(), BTreeMap::new());
    let mut found: BTreeMap<RealId, (RealId, [RealId; 2])> = BTreeMap::new();
    for stmt in body.iter() {
        match stmt {
            Stmt::Define(r, Real::Mul(a, b)) if once(r) => {
                products.insert(*r, [*a, *b]);
            }
            Stmt::Define(r, Real::Select(test, p)) if once(r) => {
                if let Some(factors) = products.get(p) {
                    selects.insert(*r, (*p, (*test, *factors)));
                }
            }
            Stmt::Accumulate(_, r) => found.extend(selects.get(r).copied()),
            _ => {}
        }
    }
    if found.is_empty() {
        return;
    }
    for stmt in std::mem::take(body) {
        match stmt {
            Stmt::Define(p, Real::Mul(..)) if found.contains_key(&p) => {}
            Stmt::Define(r, Real::Select(test, p)) if found.contains_key(&p) => {
                let factors = found.get(&p).map_or([p, p], |(_, factors)| *factors);
                let are_literals = factors.iter().all(|factor| literals.contains(factor));
                let [a, b] = factors.map(|factor| {
                    if literals.contains(&factor) && !are_literals {
                        return factor;
                    }
                    let under = names.fresh_real();
                    body.push(Stmt::Define(under, Real::Select(test, factor)));
                    under
                });
                body.push(Stmt::Define(r, Real::Mul(a, b)));
            }
            stmt => body.push(stmt),
        }
    }
}
