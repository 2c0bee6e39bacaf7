//! Loops over a few offsets of a window come outside of the long loop over the places that have the window.
//!
//! ```text
//! for j in 0 .. w - 1                                           for p in 0 .. 4
//!   for p in max(0, 2 - j) .. min(4, w + 1 - j)       ==          for j in max(0, 2 - p) .. min(w - 1, w + 1 - p)
//!     t[j, p] = e                                                   t[j, p] = e
//! ```
//!
//! Elements of windows, as the weights of a filter that depend on both of its pixels, are stored in the order of axes, where the offsets come last. A loop over a
//! few of these has no lanes worth the name; one over places has, and the axes of what is stored then [follow](super::layout) its order.
//!
//! **Why it is right.** Both are loops over the same pairs: a bound of `p` by `j` with a factor of 1 or -1 is one of `j` by `p`. Each pair has an element of its
//! own, which is computed as before; where pairs are summed up, their order changes. What is loaded at a place with `p` may be out of range where no `j` is left, so it
//! stays inside.
//!
//! **Where it is done.** Nothing but numbers is between the loops, no call among them, since they are computed for each offset then, and no loop is in the
//! innermost one. The inner loops have a few values, as literals, and are bounded by the index of the last of the others, which is not so, and not the
//! outermost one: rows stay together.

use super::interchange::{Chain, ordered};
use super::machine::SHORT;
use crate::base::IndexId;
use crate::error::Result;
use crate::index::{Affine, Checked};
use crate::loops::{
    Bound, Decision, Domain, Program, RealId, Stmt, changed, declared, has_calls, has_loop, loads, outer_sums, reads,
    stores,
};

/// Moves loops over offsets outwards.
pub(super) fn run(program: &mut Program) -> Result<()> {
    for nest in &mut program.nests {
        let mut loops = nest.body.iter().enumerate().filter(|(_, stmt)| has_loop(stmt));
        if let (Some((at, stmt)), None) = (loops.next(), loops.next())
            && loads(&nest.body).into_iter().all(|place| !nest.buffers.contains(&place.buffer))
            && let body = std::slice::from_ref(stmt)
            && let Some(chain) = Chain::down_to(body, |body| !body.last().is_some_and(has_loop)).filter(is_free)
            && let Some(moved) = moved(chain)?
        {
            nest.body.splice(at..=at, moved);
            nest.decisions.push(Decision::Windows {});
        }
    }
    Ok(())
}

/// Whether each iteration may run before each other one: none depends on what another one has done.
fn is_free(chain: &Chain<'_>) -> bool {
    let &Chain { ref loops, ref between, innermost } = chain;
    if between.iter().any(|stmt| has_calls(std::slice::from_ref(*stmt))) {
        return false;
    }
    let sums = outer_sums(innermost);
    let own = declared(innermost);
    let mut is_plain = true;
    innermost.iter().for_each(|stmt| {
        stmt.visit(&mut |stmt| {
            is_plain &= matches!(
                stmt,
                Stmt::Define(..)
                    | Stmt::Local(_)
                    | Stmt::Assign(..)
                    | Stmt::Accumulate(..)
                    | Stmt::MulAdd(..)
                    | Stmt::Store(..)
                    | Stmt::If { .. }
            )
        })
    });
    let at_all = |i: &IndexId, at: &[Affine]| at.iter().any(|a| a.as_index() == Some(*i));
    let is_own = stores(innermost).iter().all(|place| loops.iter().all(|(i, _)| at_all(i, &place.at)));
    let is_kept = |r: &RealId| own.contains(r) || sums.contains(r) && !reads(innermost, |read| read == *r);
    is_plain && is_own && changed(innermost).iter().all(is_kept)
}

/// The loops in their new order.
fn moved(chain: Chain<'_>) -> Checked<Option<Vec<Stmt>>> {
    let Chain { loops, between, innermost } = chain;
    let is_few = |domain: &Domain| values(domain).is_some_and(|values| values < SHORT);
    let few = loops.iter().rev().take_while(|(_, domain)| is_few(domain)).count();
    let Some(long) = loops.len().checked_sub(few + 1).filter(|long| few > 0 && *long > 0) else { return Ok(None) };
    let (index, domain) = loops[long];
    let Domain::Range { lower, upper } = domain else { return Ok(None) };
    if values(domain).is_some() {
        return Ok(None);
    }
    let (mut lower, mut upper) = (lower.clone(), upper.clone());
    let (given, mut order) = (lower.len() + upper.len(), Vec::new());
    for (offset, domain) in &loops[long + 1..] {
        let Some(rest) = without(domain, index, *offset, &mut lower, &mut upper)? else { return Ok(None) };
        order.push((*offset, rest));
    }
    if lower.len() + upper.len() == given {
        return Ok(None);
    }
    let offsets: Vec<IndexId> = order.iter().map(|(offset, _)| *offset).collect();
    order.push((index, Domain::Range { lower, upper }));
    let before = loops[..long].iter().map(|(i, domain)| (*i, (*domain).clone()));
    let order: Vec<(IndexId, Domain)> = before.chain(order).collect();
    let stays = |a: &Affine| offsets.iter().any(|offset| a.mentions(*offset));
    Ok(ordered(order, between.into_iter().chain(innermost), &stays))
}

/// How many values a domain has at most, where literals say so.
fn values(domain: &Domain) -> Option<i64> {
    let Domain::Range { lower, upper } = domain else { return None };
    let literal = |bound: &Bound| bound.numerator.as_constant().filter(|_| bound.divisor == 1);
    let (from, to) = (lower.iter().filter_map(literal).max()?, upper.iter().filter_map(literal).min()?);
    to.checked_sub(from)?.checked_add(1)
}

/// The domain of an offset without its bounds by the index of places, which become bounds of the latter; nothing where one cannot.
fn without(
    domain: &Domain,
    index: IndexId,
    offset: IndexId,
    lower: &mut Vec<Bound>,
    upper: &mut Vec<Bound>,
) -> Checked<Option<Domain>> {
    let Domain::Range { lower: from, upper: to } = domain else { return Ok(None) };
    let mut left = [Vec::new(), Vec::new()];
    for (side, bounds) in [from, to].into_iter().enumerate() {
        for bound in bounds {
            let Some((coefficient, rest)) = bound.numerator.split(index).filter(|(c, _)| *c != 0) else {
                left[side].push(bound.clone());
                continue;
            };
            if bound.divisor != 1 || coefficient.unsigned_abs() != 1 {
                return Ok(None);
            }
            // offset >= c * index + rest, or <=
            let place = Affine::index(offset).sub(&rest)?.scale(coefficient)?;
            let is_upper = (side == 0) == (coefficient == 1);
            let bounds = if is_upper { &mut *upper } else { &mut *lower };
            *bounds = Bound::and(bounds, place);
        }
    }
    let [lower, upper] = left;
    Ok(Some(Domain::Range { lower, upper }))
}
