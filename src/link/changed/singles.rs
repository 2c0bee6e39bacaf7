//! Loops of one iteration, which a loop around does not change, go around that loop.
//!
//! ```text
//! for i in D { .. for j in max(a, b(i)) .. min(a, c(i)) { B } .. }
//!   ==   for j in a .. a { for i in D { .. if b(i) <= j and j <= c(i) { B } .. } }
//! ```
//!
//! Here `a` is a quotient that is known before the loop over `i`: a bound of the loop from below and from above, or the only value that an equation leaves,
//!
//! ```text
//! i + d j = e  and  l <= i < l + d   ==>   j = floor((e - l) / d)
//! ```
//!
//! So `t % 7` has one value at each `t`: with `j = floor(t / 7)` what was a loop is a test, `i = t - 7 j`, which holds at one place of `i`.
//!
//! Sums in `B` have one term, in whatever lanes it was. Left as they are: bounds that are no quotients, since lowering takes an index that is an
//! affine expression for that expression.

use std::collections::BTreeSet;

use crate::base::IndexId;
use crate::index::{Affine, Checked};
use crate::loops::{Bound, Cond, Domain, Stmt, defined};

/// Moves a loop of one iteration in a loop around it, if there is one; others that the loop has are moved out of it where it is met again, inside.
pub(super) fn move_out(outer: &mut Stmt) -> Checked<()> {
    let Stmt::For { index, body, domain: Domain::Range { lower, upper }, .. } = outer else { return Ok(()) };
    // Two loops of one iteration would go around each other without end.
    if lower.len() == 1 && lower == upper {
        return Ok(());
    }
    let mut inside = defined(&*body);
    inside.insert(*index);
    let around = Around { index: *index, lower, upper, inside };
    let Some((single, quotient)) = around.take(body)? else { return Ok(()) };
    let domain = Domain::Range { lower: vec![quotient.clone()], upper: vec![quotient] };
    let placeholder = Stmt::If { cond: Cond::All(Vec::new()), body: Vec::new() };
    let inner = std::mem::replace(outer, placeholder);
    *outer = Stmt::one_by_one(single, domain, vec![inner]);
    Ok(())
}

/// A loop, and the indices that are defined in it.
struct Around<'a> {
    index: IndexId,
    lower: &'a [Bound],
    upper: &'a [Bound],
    inside: BTreeSet<IndexId>,
}

impl Around<'_> {
    /// Has the first loop of one iteration be a test; gives its index and the value of that.
    // Tests nest to a bounded depth.
    fn take(&self, body: &mut [Stmt]) -> Checked<Option<(IndexId, Bound)>> {
        for stmt in body {
            match stmt {
                Stmt::If { body, .. } => {
                    if let Some(taken) = self.take(body)? {
                        return Ok(Some(taken));
                    }
                }
                Stmt::For { index, domain: Domain::Range { lower, upper }, body, .. } => {
                    let Some(quotient) = self.only_value(lower, upper)? else { continue };
                    let (index, body) = (*index, std::mem::take(body));
                    let cond = within(index, lower, upper, &quotient)?;
                    *stmt = Stmt::If { cond, body };
                    return Ok(Some((index, quotient)));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// The only value between bounds, where it is known before the loop.
    fn only_value(&self, lower: &[Bound], upper: &[Bound]) -> Checked<Option<Bound>> {
        let is_known = |a: &Affine| !self.inside.iter().any(|i| a.mentions(*i));
        let bound = lower.iter().find(|b| b.divisor > 1 && is_known(&b.numerator) && upper.contains(b));
        if let Some(bound) = bound {
            return Ok(Some(bound.clone()));
        }
        let ([Bound { numerator: least, divisor: 1 }], [Bound { numerator: most, divisor: 1 }]) =
            (self.lower, self.upper)
        else {
            return Ok(None);
        };
        let Some(width) = most.sub(least)?.as_constant() else { return Ok(None) };
        for Bound { numerator, divisor } in upper {
            let from_below = Bound { numerator: numerator.add_constant(divisor - 1)?, divisor: *divisor };
            if width >= *divisor || !lower.contains(&from_below) {
                continue;
            }
            let Some((coefficient, rest)) = numerator.split(self.index).filter(|(_, rest)| is_known(rest)) else {
                continue;
            };
            let numerator = match coefficient {
                1 => rest.add(most)?,
                -1 => rest.sub(least)?,
                _ => continue,
            };
            return Ok(Some(Bound { numerator, divisor: *divisor }));
        }
        Ok(None)
    }
}

/// Whether an index lies between bounds, of which one is known to be its value.
fn within(index: IndexId, lower: &[Bound], upper: &[Bound], value: &Bound) -> Checked<Cond> {
    let times = |b: &Bound| Affine::index(index).scale(b.divisor);
    let others = |bounds: &[Bound]| bounds.iter().filter(|b| *b != value).cloned().collect::<Vec<Bound>>();
    // floor(n / d) <= j, if n < d (j + 1).
    let above = |b: &Bound| times(b)?.add_constant(b.divisor - 1)?.sub(&b.numerator);
    let below = |b: &Bound| b.numerator.sub(&times(b)?);
    let mut atoms = others(lower).iter().map(above).collect::<Checked<Vec<Affine>>>()?;
    let mut conds = Vec::new();
    for b in others(upper) {
        let a = below(&b)?;
        let opposite = a.scale(-1)?;
        match atoms.iter().position(|other| *other == opposite) {
            Some(at) => {
                atoms.remove(at);
                conds.push(Cond::Zero(a));
            }
            None => conds.push(Cond::NonNegative(a)),
        }
    }
    conds.splice(0..0, atoms.into_iter().map(Cond::NonNegative));
    Ok(Cond::All(conds))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::loops;
    use crate::ty::{Signature, Types};

    fn moved(text: &str) -> String {
        let mut signature = Signature { types: Types::new(), ..Signature::default() };
        signature.sizes.push("T".to_owned());
        let mut program = loops::parse(text, &Arc::new(signature)).unwrap();
        for stmt in &mut program.nests[0].body {
            let mut stmt = stmt;
            while let Stmt::For { body, .. } = stmt {
                let Some(inner) = body.first_mut() else { break };
                move_out(inner).unwrap();
                stmt = inner;
            }
        }
        program.verify().unwrap();
        program.to_string()
    }

    /// Two loops of one iteration, of which each could go around the other.
    #[test]
    fn two_go_around_a_loop() {
        let before = "s[7]:
  for i0 in 0 .. T - 1
    for i1 in 0 .. 6
      local r0
      r1 = 1.0
      for i2 in floor((i0) / 7) .. floor((i0) / 7)
        r0 += r1
      for i3 in floor((i0) / 5) .. floor((i0) / 5)
        r0 += r1
      s[i1] = r0
out value = s
";
        let after = "s[7]:
  for i0 in 0 .. T - 1
    for i2 in floor((i0) / 7) .. floor((i0) / 7)
      for i3 in floor((i0) / 5) .. floor((i0) / 5)
        for i1 in 0 .. 6
          local r0
          r1 = 1.0
          if true
            r0 += r1
          if true
            r0 += r1
          s[i1] = r0
out value = s
";
        assert_eq!(moved(before), after);
    }

    /// Of a remainder by 7, known from the bounds of the loop, or from the equation alone.
    #[test]
    fn a_remainder_has_one_quotient() {
        let step = |lower: &str, upper: &str| {
            format!(
                "s[7]:
  for i0 in 0 .. T - 1
    for i1 in 0 .. 6
      local r0
      r1 = 1.0
      for i2 in max({lower}) .. min({upper})
        r0 += r1
      s[i1] = r0
out value = s
"
            )
        };
        let after = |cond: &str| {
            format!(
                "s[7]:
  for i0 in 0 .. T - 1
    for i2 in floor((i0) / 7) .. floor((i0) / 7)
      for i1 in 0 .. 6
        local r0
        r1 = 1.0
        if ({cond})
          r0 += r1
        s[i1] = r0
out value = s
"
            )
        };
        let (lower, upper) = ("0, floor((i0 - i1 + 6) / 7)", "T - 1, floor((i0 - i1) / 7)");
        let conds = "0 <= i2 and 0 <= T - i2 - 1 and i0 - i1 - 7*i2 = 0";
        assert_eq!(moved(&step(lower, upper)), after(conds));
        let bounds = (format!("{lower}, floor((i0) / 7)"), format!("{upper}, floor((i0) / 7)"));
        assert_eq!(moved(&step(&bounds.0, &bounds.1)), after(conds));
        // There may be two of a remainder by 5.
        let other = step("0, floor((i0 - i1 + 4) / 5)", "T - 1, floor((i0 - i1) / 5)");
        assert_eq!(moved(&other), other);
    }
}
