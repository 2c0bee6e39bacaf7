//! Sums over a few places next to that of an outer loop, as the adjoint of a stencil, a convolution with a stride or a pooling has them.
//!
//! ```text
//! for i in 0 .. 2*n + 1                                          for i in 0 .. n
//!   for k in max(0, floor((i - 1)/2)) .. min(n - 1, floor(i/2))    for t in max(-1, -i) .. min(0, n - 1 - i)
//!     A(i, k)                                              ==        A(2*i, i + t)
//!                                                                for i in 0 .. n
//!                                                                  for t in max(0, -i) .. min(0, n - 1 - i)
//!                                                                    A(2*i + 1, i + t)
//! ```
//!
//! *Strides.* Where both ends of a sum are fractions of the index of a loop around it, the loop is one for each remainder, in which they are no
//! fractions any more. A loop that adds to a register outside has the remainders in turn in its body, as its sum keeps its order, and so has a long one.
//!
//! *Taps.* A sum whose ends follow the index, at a distance that is a literal, is one over this distance.
//!
//! *Borders.* The loop is then cut into three, of which the one in the middle has the same taps at each place, and can run in lanes. Fractions
//! at the borders alone, as those of a dilated convolution, need no remainders:
//!
//! ```text
//! for i in 0 .. n + 1                              for i in 0 .. min(n + 1, 1)           max(0, i - n + 1) .. min(2, i)
//!   for t in max(0, i - n + 1) .. min(2, i)   ==   for i in max(0, 2) .. min(n + 1, n - 1)      0 .. 2
//!                                                  for i in max(0, 2, n) .. n + 1        max(0, i - n + 1) .. min(2, i)
//! ```
//!
//! **Why it is right.** Each value of the index is in one of the loops, with the same statements, and each sum keeps its order. Iterations are in
//! another order only where they change no register outside, and store what no other one reads or stores.
//!
//! **Where it is done.** Strides: in loops inside of others, so that nests over the same rows go on to be joined. Borders: in such a loop that stores or
//! adds up in its body itself, the one along a row.

use super::super::machine::{FEW, PIECES_STATEMENTS, SHORT};
use super::innermost::in_loops;
use super::{and, drop_empty};
use crate::base::IndexId;
use crate::error::Result;
use crate::index::{Affine, Checked, Pred, Var};
use crate::loops::predicate::{assume, under};
use crate::loops::{Bound, Domain, Fresh, Nest, Stmt, changes_outside, has_loop, size, stores};
use crate::solver::Facts;

/// Cuts the loops of a nest around sums over a few places; whether there were any.
pub(super) fn cut(nest: &mut Nest, facts: &Facts) -> Result<bool> {
    let mut any = false;
    nest.body.iter().for_each(|stmt| stmt.visit(&mut |stmt| any |= has_sums(stmt)));
    if !any {
        return Ok(false);
    }
    let mut cutter = Cutter { names: Fresh::after(&nest.body), is_long: false, found: false };
    for stmt in &mut nest.body {
        if let Stmt::For { index, body, .. } = stmt
            && sums(*index, body).iter().all(|sum| sum.lower.len() == 1 && sum.upper.len() == 1)
        {
            *body = cutter.by_taps(body, *index)?;
        }
    }
    in_loops(nest, facts, |body, known| cutter.body(body, known))?;
    Ok(cutter.found)
}

/// Whether a statement is a loop with sums over a few places inside that follow its index.
pub(in super::super) fn has_sums(stmt: &Stmt) -> bool {
    let Stmt::For { index, body, .. } = stmt else { return false };
    sums(*index, body).iter().any(|sum| sum.is_few())
}

/// The loops that one loop becomes, if it has sums over a few places inside that are cut.
pub(in super::super) fn pieces_of(stmt: &Stmt, facts: &Facts, names: &mut Fresh) -> Checked<Option<Vec<Stmt>>> {
    let mut cutter = Cutter { names: std::mem::take(names), is_long: true, found: false };
    let pieces = cutter.cut(stmt.clone(), facts);
    *names = cutter.names;
    Ok(Some(pieces?).filter(|_| cutter.found))
}

/// A loop whose bounds mention the index of one around it.
struct Sum<'a> {
    lower: &'a [Bound],
    upper: &'a [Bound],
}

impl Sum<'_> {
    /// Its first value and how many there are at most, if that is known beforehand: with bounds that are no fractions.
    fn taps(&self) -> Option<(Affine, i64)> {
        let exact = |bounds: &[Bound]| -> Vec<Affine> {
            bounds.iter().filter(|b| b.divisor == 1).map(|b| b.numerator.clone()).collect()
        };
        let upper = exact(self.upper);
        let between = |(low, high): (Affine, &Affine)| {
            let n = high.sub(&low).ok()?.as_constant()?.checked_add(1)?;
            (1..SHORT).contains(&n).then_some((low, n))
        };
        let pairs = exact(self.lower).into_iter().flat_map(|low| upper.iter().map(move |high| (low.clone(), high)));
        pairs.filter_map(between).min_by_key(|(_, n)| *n)
    }

    /// Whether it has few values, as its ends are literals apart, or such fractions: none at some places, where it ends just before it begins.
    fn is_few(&self) -> bool {
        let apart = |low: &Bound, high: &Bound| {
            let steps = high.numerator.sub(&low.numerator).ok().and_then(|a| a.as_constant());
            let d = low.divisor;
            d == high.divisor && steps.is_some_and(|n| (1 - d..SHORT.saturating_mul(d)).contains(&n))
        };
        self.lower.iter().any(|low| self.upper.iter().any(|high| apart(low, high)))
    }
}

/// The loops inside of statements whose bounds mention an index.
fn sums(index: IndexId, body: &[Stmt]) -> Vec<Sum<'_>> {
    let mut found = Vec::new();
    for stmt in body {
        stmt.visit(&mut |stmt| {
            if let Stmt::For { domain: domain @ Domain::Range { lower, upper }, .. } = stmt {
                let mut follows = false;
                domain.visit_affine(&mut |a| follows |= a.mentions(index));
                if follows {
                    found.push(Sum { lower, upper });
                }
            }
        });
    }
    found
}

struct Cutter {
    names: Fresh,
    /// Whether what a loop stores is too long to come back to for each remainder.
    is_long: bool,
    found: bool,
}

impl Cutter {
    fn body(&mut self, stmts: Vec<Stmt>, known: &Facts) -> Checked<Vec<Stmt>> {
        let mut out = Vec::with_capacity(stmts.len());
        for stmt in stmts {
            out.extend(self.cut(stmt, known)?);
        }
        Ok(out)
    }

    /// A loop, cut at its borders and by remainders, with what is inside. A dilated kernel has fractions at its borders alone.
    fn cut(&mut self, stmt: Stmt, known: &Facts) -> Checked<Vec<Stmt>> {
        if let Some(pieces) = self.at_borders(&stmt, known)? {
            return self.inside(pieces, known);
        }
        let mut out = Vec::new();
        match self.by_remainders(&stmt)? {
            Some(loops) => {
                for stmt in loops {
                    let pieces = self.at_borders(&stmt, known)?.unwrap_or_else(|| vec![stmt]);
                    out.extend(self.inside(pieces, known)?);
                }
            }
            None => out.extend(self.inside(vec![stmt], known)?),
        }
        Ok(out)
    }

    /// Statements, with what is inside of them cut.
    fn inside(&mut self, mut stmts: Vec<Stmt>, known: &Facts) -> Checked<Vec<Stmt>> {
        for stmt in &mut stmts {
            match stmt {
                Stmt::For { index, domain, body, .. } => {
                    let mut inside = known.clone();
                    assume(&mut inside, *index, domain)?;
                    *body = self.body(std::mem::take(body), &inside)?;
                }
                Stmt::If { body, .. } => *body = self.body(std::mem::take(body), known)?,
                _ => {}
            }
        }
        Ok(stmts)
    }

    /// A loop for each remainder of the index, where that makes bounds whole; or one loop of them all, where it adds to a register outside, or is long.
    fn by_remainders(&mut self, stmt: &Stmt) -> Checked<Option<Vec<Stmt>>> {
        let Stmt::For { index, domain: Domain::Range { lower, upper }, body, .. } = stmt else { return Ok(None) };
        let Some(step) = stride(*index, body) else { return Ok(None) };
        let [Bound { numerator: from, divisor: 1 }] = lower.as_slice() else { return Ok(None) };
        let Some(from) = from.as_constant() else { return Ok(None) };
        let [upper] = upper.as_slice() else { return Ok(None) };
        let copied = size(body).saturating_mul(usize::try_from(step).unwrap_or(usize::MAX));
        let adds_up = changes_outside(body);
        let is_whole = upper.divisor == 1 && (from == 0 || !adds_up);
        if !is_whole || copied > PIECES_STATEMENTS {
            return Ok(None);
        }
        let ends = (0..step)
            .map(|rest| shortened(&Bound { numerator: upper.numerator.add_constant(-rest)?, divisor: step }))
            .collect::<Checked<Vec<_>>>()?;
        let mut cut = None;
        if adds_up || self.is_long && from == 0 {
            cut = self.in_turn(*index, step, &ends, body)?;
        }
        if !adds_up && cut.is_none() {
            cut = Some(self.one_for_each(*index, step, (from, ends), body)?);
        }
        self.found |= cut.is_some();
        Ok(cut)
    }

    fn one_for_each(
        &mut self,
        index: IndexId,
        step: i64,
        (from, ends): (i64, Vec<Bound>),
        body: &[Stmt],
    ) -> Checked<Vec<Stmt>> {
        let mut loops = Vec::new();
        for (rest, end) in (0..).zip(ends) {
            let again = self.names.fresh_index();
            let body = self.at_remainder(index, again, step, rest, body)?;
            // The first whose value is not before the beginning: ceil((from - rest) / step).
            let first = from.saturating_sub(rest).saturating_add(step - 1).div_euclid(step);
            loops.push(Stmt::one_by_one(again, range(Affine::constant(first), end), body));
        }
        Ok(loops)
    }

    /// One loop whose iterations are those of each remainder, one after the other, and what is left of the last one: sums keep their order.
    fn in_turn(&mut self, index: IndexId, step: i64, ends: &[Bound], body: &[Stmt]) -> Checked<Option<Vec<Stmt>>> {
        let Some((last, exact)) = ends.last().map(|end| (end, ends.iter().all(|end| end.divisor == 1))) else {
            return Ok(None);
        };
        let mut left = Vec::new();
        for (rest, end) in (0..).zip(ends) {
            match end.numerator.sub(&last.numerator)?.as_constant() {
                Some(0) => {}
                Some(1) => left.push(rest),
                _ => return Ok(None),
            }
        }
        if !exact {
            return Ok(None);
        }
        let again = self.names.fresh_index();
        let mut all = Vec::new();
        for rest in 0..step {
            all.extend(self.at_remainder(index, again, step, rest, body)?);
        }
        let mut loops = vec![Stmt::one_by_one(again, range(Affine::constant(0), last.clone()), all)];
        if !left.is_empty() {
            let (again, at) = (self.names.fresh_index(), last.numerator.add_constant(1)?);
            let mut all = Vec::new();
            for rest in left {
                all.extend(self.at_remainder(index, again, step, rest, body)?);
            }
            loops.push(Stmt::one_by_one(again, range(at.clone(), Bound::exact(at)), all));
        }
        Ok(Some(loops))
    }

    /// A body where its index is `step * again + rest`.
    fn at_remainder(
        &mut self,
        index: IndexId,
        again: IndexId,
        step: i64,
        rest: i64,
        body: &[Stmt],
    ) -> Checked<Vec<Stmt>> {
        self.names.again();
        self.names.fix(index, Affine::index(again).scale(step)?.add_constant(rest)?);
        let mut body = self.names.body(body)?;
        make_whole(&mut body)?;
        // Where the other remainders have their places.
        drop_empty(&mut body);
        Ok(body)
    }

    /// The three loops that one along a row becomes, of which the middle one has the same taps everywhere. One that is not along a row becomes
    /// such a middle one, where there is nothing else.
    fn at_borders(&mut self, stmt: &Stmt, known: &Facts) -> Checked<Option<Vec<Stmt>>> {
        let Stmt::For { index, domain: Domain::Range { lower, upper }, body, .. } = stmt else { return Ok(None) };
        let along = body.iter().any(|stmt| is_own(stmt, *index)) && size(body) * 3 <= PIECES_STATEMENTS;
        let is_one = Sum { lower, upper }.taps().is_some_and(|(_, n)| n == 1);
        if is_one || sums(*index, body).is_empty() {
            return Ok(None);
        }
        let mut inside = known.clone();
        assume(&mut inside, *index, &Domain::Range { lower: lower.clone(), upper: upper.clone() })?;
        let mut middle = Middle::default();
        let (before, body) = (body, self.by_taps(body, *index)?);
        let Some((same, has_borders)) = without_borders(&body, *index, &inside, &mut middle)? else { return Ok(None) };
        if !has_borders && body == *before {
            return Ok(None);
        }
        let is_whole = middle.from.is_empty() && middle.to.is_empty();
        if !along && !is_whole {
            return Ok(None);
        }
        let (Some(from), Some(to)) = (one_of(middle.from, 1)?, one_of(middle.to, -1)?) else { return Ok(None) };
        let (mut low, mut high) = (lower.clone(), upper.clone());
        let mut pieces = Vec::new();
        if let Some(from) = from {
            let upper = and(upper, moved(&from, -1)?, -1)?;
            pieces.push(self.piece(*index, Domain::Range { lower: lower.clone(), upper }, &body)?);
            low = and(&low, from, 1)?;
        }
        let end = match to {
            Some(to) => {
                let lower = and(&low, moved(&to, 1)?, 1)?;
                high = and(&high, to, -1)?;
                Some(self.piece(*index, Domain::Range { lower, upper: upper.clone() }, &body)?)
            }
            None => None,
        };
        pieces.push(self.piece(*index, Domain::Range { lower: low, upper: high }, &same)?);
        pieces.extend(end);
        self.found = true;
        Ok(Some(pieces))
    }

    fn piece(&mut self, index: IndexId, domain: Domain, body: &[Stmt]) -> Checked<Stmt> {
        self.names.again();
        let index = self.names.index(index);
        Ok(Stmt::one_by_one(index, domain, self.names.body(body)?))
    }

    /// The same, with sums whose ends follow the index as sums over the distance to it.
    fn by_taps(&mut self, body: &[Stmt], index: IndexId) -> Checked<Vec<Stmt>> {
        let mut out = Vec::with_capacity(body.len());
        for stmt in body {
            if let Stmt::If { cond, body } = stmt {
                out.push(Stmt::If { cond: cond.clone(), body: self.by_taps(body, index)? });
                continue;
            }
            let Stmt::For { index: k, domain: domain @ Domain::Range { lower, upper }, body, .. } = stmt else {
                out.push(stmt.clone());
                continue;
            };
            let taps = Sum { lower, upper }.taps().filter(|(first, _)| first.mentions(index));
            let Some((first, _)) = taps else {
                let body = self.by_taps(body, index)?;
                out.push(Stmt::one_by_one(*k, domain.clone(), body));
                continue;
            };
            let base = first.add_constant(first.offset().saturating_neg())?;
            let shifted = |bounds: &[Bound]| -> Checked<Vec<Bound>> {
                let shift =
                    |b: &Bound| Ok(Bound { numerator: b.numerator.sub(&base.scale(b.divisor)?)?, divisor: b.divisor });
                bounds.iter().map(shift).collect()
            };
            let domain = Domain::Range { lower: shifted(lower)?, upper: shifted(upper)? };
            self.names.again();
            let tap = self.names.fresh_index();
            self.names.fix(*k, base.add(&Affine::index(tap))?);
            let body = self.names.body(body)?;
            out.push(Stmt::one_by_one(tap, domain, self.by_taps(&body, index)?));
        }
        Ok(out)
    }
}

fn range(from: Affine, to: Bound) -> Domain {
    Domain::Range { lower: vec![Bound::exact(from)], upper: vec![to] }
}

/// Whether a statement stores at the places of an index, or adds to a register; or does so for a few values, or under a test.
// Loops nest to a bounded depth.
fn is_own(stmt: &Stmt, index: IndexId) -> bool {
    match stmt {
        Stmt::Accumulate(..) | Stmt::MulAdd(..) => true,
        Stmt::If { body, .. } => body.iter().any(|stmt| is_own(stmt, index)),
        Stmt::For { domain: Domain::Range { lower, upper }, body, .. } => {
            let is_few = Sum { lower, upper }.taps().is_some();
            is_few && changes_outside(body) && body.iter().any(|stmt| is_own(stmt, index))
        }
        stmt => stmt.store().is_some_and(|place| place.at.iter().any(|a| a.mentions(index))),
    }
}

/// The divisor that both ends of a sum have that follow an index.
fn stride(index: IndexId, body: &[Stmt]) -> Option<i64> {
    let follows =
        |bound: &&Bound| bound.divisor > 1 && bound.numerator.coefficient(&Var::Index(index)).unsigned_abs() == 1;
    let divisors = |bounds: &[Bound]| bounds.iter().find(follows).map(|bound| bound.divisor);
    let both = |sum: &Sum<'_>| Some((divisors(sum.lower)?, divisors(sum.upper)?));
    let mut found =
        sums(index, body).iter().filter(|sum| sum.is_few()).filter_map(both).collect::<Vec<_>>().into_iter();
    let (step, other) = found.next()?;
    (step == other && step <= FEW && found.all(|pair| pair == (step, step))).then_some(step)
}

/// Bounds that are whole numbers whatever their variables are lose their divisors.
fn make_whole(body: &mut [Stmt]) -> Checked<()> {
    for stmt in body {
        match stmt {
            Stmt::For { domain, body, .. } => {
                if let Domain::Range { lower, upper } = domain {
                    for bound in lower.iter_mut().chain(upper) {
                        *bound = shortened(bound)?;
                    }
                }
                make_whole(body)?;
            }
            Stmt::If { body, .. } | Stmt::Extremum { body, .. } => make_whole(body)?,
            _ => {}
        }
    }
    Ok(())
}

/// `floor((d*a + c) / d) = a + floor(c / d)`.
fn shortened(bound: &Bound) -> Checked<Bound> {
    let Bound { numerator, divisor } = bound;
    if *divisor <= 1 || numerator.terms().iter().any(|(_, k)| k % divisor != 0) {
        return Ok(bound.clone());
    }
    let terms = numerator.terms().iter().map(|(v, k)| (v.clone(), k / divisor));
    Ok(Bound::exact(Affine::from_terms(terms, numerator.offset().div_euclid(*divisor))?))
}

/// From where, and up to where, sums have all of their taps.
#[derive(Default)]
struct Middle {
    from: Vec<Bound>,
    to: Vec<Bound>,
}

/// Of bounds that are literals apart the greatest, or with `sign` -1 the least; there may be none.
fn one_of(all: Vec<Bound>, sign: i64) -> Checked<Option<Option<Bound>>> {
    let mut best: Option<Bound> = None;
    for bound in all {
        best = match best {
            None => Some(bound),
            Some(other) if other.divisor != bound.divisor => return Ok(None),
            Some(other) => match bound.numerator.sub(&other.numerator)?.as_constant() {
                Some(more) if more.saturating_mul(sign) > 0 => Some(bound),
                Some(_) => Some(other),
                None => return Ok(None),
            },
        };
    }
    Ok(Some(best))
}

/// `floor(a / d) + n`.
fn moved(bound: &Bound, n: i64) -> Checked<Bound> {
    let numerator = bound.numerator.add_constant(bound.divisor.saturating_mul(n))?;
    Ok(Bound { numerator, divisor: bound.divisor })
}

/// The statements with all taps, where they are those, and whether sums have others at borders; nothing where a bound is none of these.
fn without_borders(
    body: &[Stmt],
    i: IndexId,
    known: &Facts,
    middle: &mut Middle,
) -> Checked<Option<(Vec<Stmt>, bool)>> {
    let mut any = false;
    let found = full(body, i, known, middle, &mut any)?;
    Ok(found.map(|body| (body, any)))
}

fn full(body: &[Stmt], i: IndexId, known: &Facts, middle: &mut Middle, any: &mut bool) -> Checked<Option<Vec<Stmt>>> {
    let mut out = Vec::with_capacity(body.len());
    for stmt in body {
        if let Stmt::If { cond, body } = stmt {
            let Some(body) = full(body, i, &under(known, cond)?, middle, any)? else { return Ok(None) };
            out.push(Stmt::If { cond: cond.clone(), body });
            continue;
        }
        let Stmt::For { index, domain, body, .. } = stmt else {
            out.push(stmt.clone());
            continue;
        };
        let mut follows = false;
        domain.visit_affine(&mut |a| follows |= a.mentions(i));
        let domain = match domain {
            Domain::Range { lower, upper } if follows => {
                let taps = Sum { lower, upper }.taps();
                let Some((first, n)) = taps.filter(|(first, _)| first.as_constant().is_some()) else { return Ok(None) };
                let last = first.add_constant(n - 1)?;
                let sides = [(lower, &first, 1), (upper, &last, -1)];
                for (bounds, end, sign) in sides {
                    for bound in bounds.iter().filter(|bound| bound.numerator != *end) {
                        if !may_go(bound, end, sign, i, known, middle)? {
                            return Ok(None);
                        }
                    }
                }
                *any = true;
                let bounds = [first, last].map(|a| vec![Bound::exact(a)]);
                let [lower, upper] = bounds;
                Domain::Range { lower, upper }
            }
            _ if follows => return Ok(None),
            domain => domain.clone(),
        };
        let mut inside = known.clone();
        assume(&mut inside, *index, &domain)?;
        let Some(body) = full(body, i, &inside, middle, any)? else { return Ok(None) };
        // One value is no loop.
        match single(&domain) {
            Some(value) => out.extend(at_value(*index, &value, &body)?),
            None => out.push(Stmt::one_by_one(*index, domain, body)),
        }
    }
    Ok(Some(out))
}

/// Whether a bound is no tighter than an end, where the index is in the middle.
fn may_go(bound: &Bound, end: &Affine, sign: i64, i: IndexId, known: &Facts, middle: &mut Middle) -> Checked<bool> {
    // At least 0 where the bound is no tighter: floor(a / d) <= e for a < (e + 1) * d, and floor(a / d) >= e for a >= e * d.
    let first = end.scale(bound.divisor)?.add_constant(if sign > 0 { bound.divisor - 1 } else { 0 })?;
    let room = first.sub(&bound.numerator)?.scale(sign)?;
    if known.proves(&Pred::non_negative(room.clone())) {
        return Ok(true);
    }
    let Some((k, rest)) = room.split(i) else { return Ok(false) };
    if !rest.is_size() || k == 0 || k.unsigned_abs() > FEW.unsigned_abs() {
        return Ok(false);
    }
    // k*i + rest >= 0 from ceil(-rest / k) on, or up to floor(rest / -k).
    match k > 0 {
        true => {
            let numerator = rest.scale(-1)?.add_constant(k - 1)?;
            middle.from.push(shortened(&Bound { numerator, divisor: k })?);
        }
        false => middle.to.push(shortened(&Bound { numerator: rest, divisor: -k })?),
    }
    Ok(true)
}

/// The only value of a range with literal ends.
fn single(domain: &Domain) -> Option<Affine> {
    let Domain::Range { lower, upper } = domain else { return None };
    match (lower.as_slice(), upper.as_slice()) {
        ([low], [high]) if low == high && low.divisor == 1 && low.numerator.as_constant().is_some() => {
            Some(low.numerator.clone())
        }
        _ => None,
    }
}

/// Statements at a value of an index. What they define is defined nowhere else.
fn at_value(index: IndexId, value: &Affine, body: &[Stmt]) -> Checked<Vec<Stmt>> {
    let mut names = Fresh::after(&[]);
    for stmt in body {
        stmt.visit(&mut |stmt| {
            stmt.defines().for_each(|i| names.keep(i, i));
            if let Stmt::Define(r, _) | Stmt::Local(r) = stmt {
                names.alias(*r, *r);
            }
        });
    }
    names.fix(index, value.clone());
    names.body(body)
}

/// Whether a loop is a border: of a few values at the end of a range of unknown length, that are stored at or summed up.
pub(in super::super) fn is_border(stmt: &Stmt) -> bool {
    let Stmt::For { index, domain: domain @ Domain::Range { lower, upper }, body, .. } = stmt else { return false };
    let mut at_end = lower.len() > 1 || upper.len() > 1;
    let mut follows = false;
    domain.visit_affine(&mut |a| {
        at_end |= a.as_constant().is_none();
        follows |= a.has_indices();
    });
    let stored = || stores(body).iter().any(|place| place.at.iter().any(|a| a.mentions(*index)));
    let summed = || changes_outside(body) && body.iter().any(has_loop);
    at_end && Sum { lower, upper }.taps().is_some() && (stored() || !follows && summed())
}
