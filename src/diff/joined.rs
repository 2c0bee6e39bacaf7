//! Pieces of a block as one piece.
//!
//! ```text
//! [f(o) = c and e = 0] * V[o] + [f(o) = c and e = 1] * W[o]  ==  [f(o) = c] * B[o, e]     B[o, e] = [e = 0] * V[o] + [e = 1] * W[o]
//! ```
//!
//! A product of two sums of pieces has a product for each two of them, in all hundreds for the blocks of bundle adjustment. Pieces that differ
//! in nothing but axes of short literal lengths are therefore added before they are multiplied: what their guards say of these axes goes into
//! a coefficient that has them. It has at most twice as many places as the pieces had together, so that a product is not much more work.

use super::forward::sum;
use super::pieces::{Axes, Coefficient, Piece, Pieces, Read, local, product};
use crate::base::IndexId;
use crate::error::Result;
use crate::index::{Affine, Pred, Size};
use crate::tssa::{Builder, canonical_guard};

/// The longest axis that a guard may choose from.
const MAX_LITERAL: i64 = 16;
/// The most places along such axes together.
const MAX_PLACES: usize = 256;
/// What a longer guard says of such axes is left to the coefficient.
const MAX_GUARD: usize = 4;

fn is_short(n: &Size) -> bool {
    n.as_constant().is_some_and(|n| n <= MAX_LITERAL)
}

/// Pieces that agree in what their guards say of long axes.
struct Group {
    outer: Pred,
    /// The long axes of the coefficients; the first piece has them all.
    long: Axes,
    pieces: Vec<(Pred, Piece)>,
}

impl Pieces {
    /// The same tensor, of fewer pieces where they are parts of one block.
    ///
    /// # Errors
    /// [`Error::Overflow`](crate::Error::Overflow) and [`Error::Bug`](crate::Error::Bug).
    pub fn joined(&self, builder: &mut Builder) -> Result<Pieces> {
        let axes = self.axes();
        let mut groups: Vec<(Pred, Group)> = Vec::new();
        let mut all: Vec<&Piece> = self.pieces.iter().collect();
        all.sort_by_key(|piece| std::cmp::Reverse(piece.axes().iter().filter(|(_, n)| !is_short(n)).count()));
        for piece in all {
            let (outer, inner): (Vec<Pred>, Vec<Pred>) = piece
                .guard
                .conjuncts()
                .iter()
                .cloned()
                .partition(|p| axes.iter().any(|(i, n)| !is_short(n) && p.mentions(*i)) || p.nesting() > 2);
            let (outer, inner) = (Pred::all(outer), Pred::all(inner));
            let long: Axes = piece.axes().iter().filter(|(_, n)| !is_short(n)).cloned().collect();
            let key = canonical_guard(axes, &outer)?;
            let own = (inner, piece.clone());
            let fits = |(other, group): &&mut (Pred, Group)| {
                *other == key && long.iter().all(|axis| group.long.contains(axis))
            };
            match groups.iter_mut().find(fits) {
                Some((_, group)) => group.pieces.push(own),
                None => groups.push((key, Group { outer, long, pieces: vec![own] })),
            }
        }
        let mut pieces = Vec::new();
        for (_, group) in groups {
            match group.joined(builder, axes)? {
                Some(piece) => pieces.push(piece),
                None => pieces.extend(group.pieces.into_iter().map(|(_, piece)| piece)),
            }
        }
        Ok(Pieces { axes: axes.to_vec(), pieces })
    }
}

impl Group {
    /// The sum as one piece; nothing where that would be much larger.
    fn joined(&self, builder: &mut Builder, axes: &[(IndexId, Size)]) -> Result<Option<Piece>> {
        if self.pieces.len() < 2 {
            return Ok(None);
        }
        let has =
            |piece: &Piece, inner: &Pred, axis: &(IndexId, Size)| piece.axes().contains(axis) || inner.mentions(axis.0);
        let short: Axes = axes
            .iter()
            .filter(|axis| is_short(&axis.1) && self.pieces.iter().any(|(inner, piece)| has(piece, inner, axis)))
            .cloned()
            .collect();
        let Some(places) = points(&short) else { return Ok(None) };
        let mut filled = 0usize;
        for (inner, _) in &self.pieces {
            for at in &places {
                let value =
                    |i| short.iter().position(|(j, _)| *j == i).and_then(|k| at.get(k)).map(|k| Affine::constant(*k));
                filled += usize::from(inner.substitute(&value)?.is_true());
            }
        }
        if places.len() > 2 * filled {
            return Ok(None);
        }
        let own: Axes = axes.iter().filter(|axis| short.contains(axis) || self.long.contains(axis)).cloned().collect();
        let mut terms = Vec::with_capacity(self.pieces.len());
        for (inner, piece) in &self.pieces {
            let guard = inner.clone().and(local(axes, &own, &self.outer));
            let reads = piece.coefficient.iter().map(|x| Read::new(x.var, &x.axes)).collect();
            terms.push((guard.clone(), product(builder, &own, &[], guard, reads)?));
        }
        let union = Pred::any(self.pieces.iter().map(|(inner, _)| inner.clone()));
        let inner = if union.weight() > MAX_GUARD { Pred::True } else { union };
        let Some(var) = sum(builder, &own, terms)? else { return Ok(None) };
        let coefficient = Some(Coefficient { var, axes: own });
        Ok(Some(Piece { guard: self.outer.clone().and(inner), coefficient }))
    }
}

/// All values of short axes; nothing where they are too many.
fn points(short: &[(IndexId, Size)]) -> Option<Vec<Vec<i64>>> {
    let mut all = vec![Vec::new()];
    for (_, n) in short {
        let n = n.as_constant()?;
        all = all.iter().flat_map(|at| (0..n).map(move |k| [at.as_slice(), &[k]].concat())).collect();
        if all.len() > MAX_PLACES {
            return None;
        }
    }
    Some(all)
}
