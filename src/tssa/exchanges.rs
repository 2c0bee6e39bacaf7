//! Tensors that are the same with two of their axes exchanged, or the same but for the sign.
//!
//! ```text
//! D[i, j] = sum k < d. (x[i, k] - x[j, k])^2        D[i, j] = D[j, i]          an even exchange
//! t[i, k, j] = x[i, k] - x[j, k]                    t[i, k, j] = -t[j, k, i]   an odd one
//! ```
//!
//! Distances, kernel and Gram matrices, and forces between pairs are such. Where one is read, its places may come in the order of the loops around:
//! then rows of `D` are read where the program has columns.
//!
//! **Why it is right.** A statement is compared with itself under the exchange: the factors of its terms, down to what is no product of elements,
//! each with its places in order as far as its own exchanges allow. Factors and terms have no order, an even function drops a sign, an odd one and
//! a quotient hand it on. Nothing else is taken for equal, so of an even exchange both elements have the same bits; of an odd one zeros may have
//! the same sign, and what is even since two signs make none is left out. What is not found is not used: a sum whose indices would have to trade
//! places, say.

use smallvec::SmallVec;

use super::canonical::within;
use super::data::{Operand, Program, Rhs, Stmt};
use crate::base::{Id, IndexId, SideTable, VarId};
use crate::index::{Affine, Checked, Pred, Size};
use crate::scalar::{Function, Number, Op, Parity, Primitive};

/// Of products with more factors nothing is found.
const MAX_FACTORS: usize = 12;

/// Two axes, and whether the elements change their sign when these are exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Exchange {
    /// The axes, the first one first.
    pub axes: [usize; 2],
    /// Whether the sign changes.
    pub odd: bool,
}

/// Those of a tensor; few have any.
pub(crate) type Exchanges = SmallVec<[Exchange; 1]>;

/// Brings places into order; whether the element changes its sign by that.
pub(crate) fn order<T: Ord>(exchanges: &[Exchange], places: &mut [T]) -> bool {
    let mut negative = false;
    // Each exchange makes the list smaller, so there are as many as pairs at most.
    while let Some(Exchange { axes: [a, b], odd }) =
        exchanges.iter().find(|e| matches!(e.axes.map(|at| places.get(at)), [Some(a), Some(b)] if a > b))
    {
        places.swap(*a, *b);
        negative ^= odd;
    }
    negative
}

/// What a function makes of a sign, where each argument changes its own or does not: whether the value changes its sign, nothing where more than
/// that changes.
pub(crate) fn sign_of(function: Function, flips: &[bool]) -> Option<bool> {
    let Function::Value(Primitive::Op(op)) = function else { return (!flips.contains(&true)).then_some(false) };
    match flips {
        [a, b] if op == Op::Div => Some(a != b),
        [true] => op.facts().parity.map(|parity| parity == Parity::Odd),
        flips => (!flips.contains(&true)).then_some(false),
    }
}

/// All pairs of axes of one size.
pub(crate) fn pairs<N: PartialEq>(dims: &[N]) -> impl Iterator<Item = [usize; 2]> {
    let same = |[a, b]: &[usize; 2]| dims[*a] == dims[*b];
    (1..dims.len()).flat_map(|b| (0..b).map(move |a| [a, b])).filter(same)
}

/// The exchanges of all tensors of a program.
pub(crate) fn exchanges(program: &Program) -> SideTable<VarId, Exchanges> {
    let mut known: SideTable<VarId, Exchanges> = SideTable::new(program.stmts.len(), Exchanges::new());
    for (x, stmt) in program.stmts.iter() {
        let mut found = Exchanges::new();
        let ranges: Vec<(IndexId, Size)> = ranges(stmt.dims.iter().chain(stmt.rhs.sums()));
        for axes in pairs(&stmt.dims) {
            let pair = Pair { program, known: &known, axes, ranges: &ranges };
            // What leaves the range of integers is not looked at.
            if let Ok(Some(odd)) = pair.parity(stmt) {
                found.push(Exchange { axes, odd });
            }
        }
        known.set(x, found);
    }
    known
}

/// The ranges of indices that are numbered in order.
pub(crate) fn ranges<'n>(sizes: impl Iterator<Item = &'n Size>) -> Vec<(IndexId, Size)> {
    sizes.enumerate().map(|(k, n)| (IndexId::from_index(k), n.clone())).collect()
}

/// Whether a product of elements is the same with two of its indices exchanged, to the bit.
pub(crate) fn is_even(
    program: &Program,
    known: &SideTable<VarId, Exchanges>,
    guard: &Pred,
    reads: &[Operand],
    ranges: &[(IndexId, Size)],
    indices: [IndexId; 2],
) -> Checked<bool> {
    let pair = Pair { program, known, axes: indices.map(IndexId::index), ranges };
    let both = pair.both(reads.iter().map(|operand| (operand.var, operand.indices.clone())).collect())?;
    let is_same =
        |[before, after]: [Term; 2]| sign(&before, &after) == Some(false) && !before.flipped && !after.flipped;
    Ok(pair.keeps(guard)? && both.is_some_and(is_same))
}

/// The exchange of two axes of a statement, or of two of its indices.
struct Pair<'a> {
    program: &'a Program,
    known: &'a SideTable<VarId, Exchanges>,
    axes: [usize; 2],
    /// The ranges of the indices of the statement.
    ranges: &'a [(IndexId, Size)],
}

/// A tensor and the indices at which it is read.
type Element = (VarId, Vec<IndexId>);

/// A product of elements.
struct Term {
    /// Where it is not zero.
    guard: Pred,
    /// The factors in order, each with its places in order.
    factors: Vec<Element>,
    negative: bool,
    /// Whether places came into order by an exchange that changes a sign.
    flipped: bool,
}

impl Pair<'_> {
    /// Whether the statement is the same under the exchange, and if so whether its sign changes.
    fn parity(&self, stmt: &Stmt) -> Checked<Option<bool>> {
        let gens: Vec<IndexId> = (0..stmt.dims.len()).map(IndexId::from_index).collect();
        Ok(match &stmt.rhs {
            Rhs::Contract { guard, operands, .. } if self.keeps(guard)? => {
                let reads = operands.iter().map(|operand| (operand.var, operand.indices.clone())).collect();
                self.both(reads)?.and_then(|[before, after]| {
                    let odd = sign(&before, &after)?;
                    (odd || !before.flipped && !after.flipped).then_some(odd)
                })
            }
            Rhs::Map { guard, function, args } if self.keeps(guard)? => {
                let mut flips = Vec::with_capacity(args.len());
                for x in args {
                    let both = self.both(vec![(*x, gens.clone())])?;
                    let Some(flip) = both.and_then(|[before, after]| sign(&before, &after)) else { return Ok(None) };
                    flips.push(flip);
                }
                if flips == [true, true] { None } else { sign_of(*function, &flips) }
            }
            Rhs::Add(terms) => {
                let (mut flipped, mut signs) = (false, [const { Vec::new() }; 3]);
                for (p, x) in terms {
                    let Some([before, after]) = self.both(vec![(*x, gens.clone())])? else { return Ok(None) };
                    flipped |= before.flipped | after.flipped;
                    let after_guard = self.exchanged(p)?.and(after.guard);
                    let signed = [
                        (p.clone().and(before.guard), before.factors, before.negative),
                        (after_guard.clone(), after.factors.clone(), after.negative),
                        (after_guard, after.factors, !after.negative),
                    ];
                    signs.iter_mut().zip(signed).for_each(|(terms, term)| terms.push(term));
                }
                signs.iter_mut().for_each(|terms| terms.sort());
                let [before, same, opposite] = signs;
                if before == opposite { Some(true) } else { (before == same && !flipped).then_some(false) }
            }
            Rhs::Input { .. } | Rhs::Number(_) | Rhs::Contract { .. } | Rhs::Map { .. } => None,
        })
    }

    fn other(&self, i: IndexId) -> IndexId {
        let [a, b] = self.axes.map(IndexId::from_index);
        if i == a {
            b
        } else if i == b {
            a
        } else {
            i
        }
    }

    fn exchanged(&self, p: &Pred) -> Checked<Pred> {
        p.substitute(&|i| Some(self.other(i)).filter(|other| *other != i).map(Affine::index))
    }

    fn keeps(&self, guard: &Pred) -> Checked<bool> {
        Ok(guard.is_true() || self.exchanged(guard)? == *guard)
    }

    /// A product of elements as it is and under the exchange; nothing where it has too many factors.
    fn both(&self, reads: Vec<Element>) -> Checked<Option<[Term; 2]>> {
        let exchanged = |(x, at): &Element| (*x, at.iter().map(|i| self.other(*i)).collect());
        let other = reads.iter().map(exchanged).collect();
        Ok(self.product(reads)?.zip(self.product(other)?).map(<[Term; 2]>::from))
    }

    /// A product of elements, each taken apart as long as it is one of elements under a guard.
    fn product(&self, reads: Vec<Element>) -> Checked<Option<Term>> {
        let mut left = reads;
        let mut term = Term { guard: Pred::True, factors: Vec::new(), negative: false, flipped: false };
        while let Some((x, mut at)) = left.pop() {
            match &self.program.stmts[x].rhs {
                Rhs::Contract { sums, guard, operands } if sums.is_empty() && !guard.binds() => {
                    let place = |i: IndexId| at.get(i.index()).copied();
                    term.guard = term.guard.and(guard.substitute(&|i| place(i).map(Affine::index))?);
                    for operand in operands {
                        left.push((operand.var, operand.indices.iter().filter_map(|i| place(*i)).collect()));
                    }
                }
                Rhs::Number(Number::Literal(-1.0)) => term.negative ^= true,
                Rhs::Number(Number::Literal(_)) => term.factors.push((x, Vec::new())),
                _ => {
                    let negative = order(&self.known[x], &mut at);
                    term.negative ^= negative;
                    term.flipped |= negative;
                    term.factors.push((x, at));
                }
            }
            if left.len() + term.factors.len() > MAX_FACTORS {
                return Ok(None);
            }
        }
        term.factors.sort();
        // What only says that there are two different places, say, is the same both ways.
        term.guard = within(self.ranges.iter(), term.guard);
        Ok(Some(term))
    }
}

/// Whether the second of two equal products has another sign; nothing where they differ in more.
fn sign(before: &Term, after: &Term) -> Option<bool> {
    ((&before.guard, &before.factors) == (&after.guard, &after.factors)).then_some(before.negative != after.negative)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exchanges of the result of a program.
    fn found(text: &str) -> Vec<([usize; 2], bool)> {
        let function = crate::Function::parse(text).expect("a program");
        let program = function.tensor_ssa();
        let all = exchanges(program);
        let x = program.outputs[0].leaves[0];
        all[x].iter().map(|e| (e.axes, e.odd)).collect()
    }

    #[test]
    fn what_pairs_have_in_common_is_found() {
        let head = "param x : [n, d] real\nparam A : [n, n] real\nparam v : [n] real\n";
        for (body, expected) in [
            ("gen i < n, k < d, j < n. x[i, k] - x[j, k]", vec![([0, 2], true)]),
            ("gen i < n, j < n. sum k < d. (x[i, k] - x[j, k])^2", vec![([0, 1], false)]),
            ("gen i < n, j < n. sum k < d. (x[i, k] - x[j, k])^3", vec![([0, 1], true)]),
            ("gen i < n, j < n. exp(-(sum k < d. abs(x[i, k] - x[j, k])))", vec![([0, 1], false)]),
            ("gen i < n, j < n. sum k < d. x[i, k] * x[j, k]", vec![([0, 1], false)]),
            ("gen i < n, j < n. A[i, j] + A[j, i]", vec![([0, 1], false)]),
            ("gen i < n, j < n. A[i, j] - A[j, i]", vec![([0, 1], true)]),
            ("gen i < n, j < n. (v[i] - v[j]) / (1 + (v[i] - v[j])^2)", vec![([0, 1], true)]),
            ("gen i < n, j < n. [i != j] * v[i] * v[j]", vec![([0, 1], false)]),
            ("gen i < n, j < n. v[i] * v[j] * sin(v[i] - v[j])", vec![([0, 1], true)]),
            ("gen i < n, j < n. (v[i] - v[j]) * sin(v[i] - v[j])^2", vec![([0, 1], true)]),
            // These have none.
            ("gen i < n, j < n. A[i, j]", vec![]),
            ("gen i < n, j < n. [j < i] * v[i] * v[j]", vec![]),
            ("gen i < n, j < n. v[i] - 2 * v[j]", vec![]),
            ("gen i < n, j < n. exp(v[i] - v[j])", vec![]),
            ("gen i < n, j < n. v[i] / v[j]", vec![]),
            // A zero would have another sign.
            ("gen i < n, j < n. (v[i] - v[j]) * sin(v[i] - v[j])", vec![]),
            ("gen i < n, j < n. sum k < n. A[i, k] * A[k, j]", vec![]),
        ] {
            assert_eq!(found(&format!("{head}{body}")), expected, "{body}");
        }
    }

    #[test]
    fn places_come_into_order() {
        let even = [Exchange { axes: [0, 2], odd: false }];
        let odd = [Exchange { axes: [0, 1], odd: true }, Exchange { axes: [1, 2], odd: true }];
        let mut places = [3, 1, 2];
        assert!(!order(&even, &mut places));
        assert_eq!(places, [2, 1, 3]);
        let mut places = [3, 1, 2];
        assert!(!order(&odd, &mut places), "two exchanges");
        assert_eq!(places, [1, 2, 3]);
        let mut places = [2, 1, 3];
        assert!(order(&odd, &mut places));
    }
}
