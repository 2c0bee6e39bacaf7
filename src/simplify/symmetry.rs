//! Tensors that are the same with two of their axes exchanged, or the same but for the sign, in the e-graph.
//!
//! [`tssa::exchanges`](crate::tssa::exchanges) says what that is. A read of one has its places in the order of indices, outer ones first: then `D[i, j]`
//! and `D[j, i]` are one expression, `sum k. a[i, k] * t[i, k] - a[k, i] * t[k, i]` is found to be `sum k. (a[i, k] + a[k, i]) * t[i, k]`, and loops
//! go along rows.
//!
//! **Why it is right.** A node is compared with itself under the exchange of two of its indices; its children are read as their own exchanges allow,
//! and of the terms of a sum those are opposite whose coefficients are.

use egg::{EGraph, Id};

use super::expr::Real;
use super::lang::{Analysis, Head, Node, Slot};
use crate::base::{Id as _, IndexId};
use crate::index::{Affine, Checked, Pred};
use crate::tssa::exchanges::{Exchange, Exchanges, order, pairs, sign_of};

/// The exchanges that a node has, by those of its children.
pub(super) fn exchanges(egraph: &EGraph<Node, Analysis>, node: &Node) -> Exchanges {
    let mut found = Exchanges::new();
    for axes in pairs(node.head.dims()) {
        let [a, b] = axes.map(IndexId::from_index);
        // What leaves the range of integers is not looked at.
        if let Ok(Some(odd)) = (Pair { egraph, a, b }).parity(node) {
            found.push(Exchange { axes, odd });
        }
    }
    found
}

/// A leaf of a node without its sign.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Leaf {
    Number(Real),
    Index(Affine),
    Read(Id, Vec<Affine>),
}

/// A leaf and whether it is negative.
type Signed = (Leaf, bool);

/// The exchange of two indices of a node.
struct Pair<'e> {
    egraph: &'e EGraph<Node, Analysis>,
    a: IndexId,
    b: IndexId,
}

impl Pair<'_> {
    /// Whether a node is the same under the exchange, and if so whether its sign changes.
    fn parity(&self, node: &Node) -> Checked<Option<bool>> {
        match &*node.head {
            Head::Input { .. } => Ok(None),
            Head::Product { guard, factors, .. } => {
                if !self.keeps(guard)? {
                    return Ok(None);
                }
                let [(before, was), (after, is)] =
                    [self.leaves(node, factors, false)?, self.leaves(node, factors, true)?].map(|leaves| {
                        let negative = leaves.iter().fold(false, |negative, (_, one)| negative ^ one);
                        let mut leaves: Vec<Leaf> = leaves.into_iter().map(|(leaf, _)| leaf).collect();
                        leaves.sort();
                        (leaves, negative)
                    });
                Ok((before == after).then_some(was != is))
            }
            Head::Sum { terms, .. } => {
                let slots: Vec<Slot> = terms.iter().map(|(_, slot)| slot.clone()).collect();
                let guards = terms.iter().map(|(p, _)| self.exchanged(p)).collect::<Checked<Vec<Pred>>>()?;
                let [before, after] = [self.terms(node, &slots, false)?, self.terms(node, &slots, true)?];
                let mut before: Vec<_> = terms.iter().map(|(p, _)| p.clone()).zip(before).collect();
                let mut same: Vec<_> = guards.into_iter().zip(after).collect();
                let mut negated: Vec<_> =
                    same.iter().map(|(p, (leaf, c))| (p.clone(), (leaf.clone(), Real::new(-c.get())))).collect();
                [&mut before, &mut same, &mut negated].into_iter().for_each(|terms| terms.sort());
                Ok(if before == same { Some(false) } else { (before == negated).then_some(true) })
            }
            Head::Apply { guard, function, args, .. } => {
                if !self.keeps(guard)? {
                    return Ok(None);
                }
                let [before, after] = [self.leaves(node, args, false)?, self.leaves(node, args, true)?];
                if before.iter().zip(&after).any(|((a, _), (b, _))| a != b) {
                    return Ok(None);
                }
                let flips: Vec<bool> = before.iter().zip(&after).map(|((_, a), (_, b))| a != b).collect();
                Ok(sign_of(*function, &flips))
            }
        }
    }

    fn exchanged(&self, p: &Pred) -> Checked<Pred> {
        p.substitute(&|i| self.other(i))
    }

    fn keeps(&self, guard: &Pred) -> Checked<bool> {
        Ok(guard.is_true() || self.exchanged(guard)? == *guard)
    }

    fn other(&self, i: IndexId) -> Option<Affine> {
        let other = if i == self.a { self.b } else { self.a };
        (i == self.a || i == self.b).then(|| Affine::index(other))
    }

    /// The leaves of a node, perhaps with both indices exchanged.
    fn leaves(&self, node: &Node, slots: &[Slot], exchanged: bool) -> Checked<Vec<Signed>> {
        let mut children = node.children.iter();
        let mut leaves = Vec::with_capacity(slots.len());
        for slot in slots {
            leaves.push(match slot {
                Slot::Number(x) => (Leaf::Number(*x), false),
                Slot::Index(a) => {
                    let a = if exchanged { a.substitute(&|i| self.other(i))? } else { a.clone() };
                    let negated = a.scale(-1)?;
                    let negative = negated < a;
                    (Leaf::Index(if negative { negated } else { a }), negative)
                }
                Slot::Read(at) => {
                    let at = match exchanged {
                        true => at.iter().map(|a| a.substitute(&|i| self.other(i))).collect::<Checked<_>>()?,
                        false => at.clone(),
                    };
                    // Nodes have a child for each read.
                    children.next().map_or((Leaf::Number(Real::ZERO), false), |child| self.read(*child, at))
                }
            });
        }
        Ok(leaves)
    }

    fn read(&self, class: Id, mut at: Vec<Affine>) -> Signed {
        let class = self.egraph.find(class);
        let negative = order(&self.egraph[class].data.exchanges, &mut at);
        (Leaf::Read(class, at), negative)
    }

    /// The terms of a sum with their coefficients: that of a tensor that is a multiple of another one is at hand.
    fn terms(&self, node: &Node, slots: &[Slot], exchanged: bool) -> Checked<Vec<(Leaf, Real)>> {
        let mut terms = Vec::with_capacity(slots.len());
        for (leaf, negative) in self.leaves(node, slots, exchanged)? {
            let ((leaf, negative), c) = match leaf {
                Leaf::Read(class, at) => match self.multiple(class, &at)? {
                    Some((c, inner)) => ((inner.0, inner.1 ^ negative), c),
                    None => ((Leaf::Read(class, at), negative), 1.0),
                },
                Leaf::Number(x) => ((Leaf::Number(Real::ONE), negative), x.get()),
                leaf @ Leaf::Index(_) => ((leaf, negative), 1.0),
            };
            terms.push((leaf, Real::new(if negative { -c } else { c })));
        }
        Ok(terms)
    }

    /// `c * X[..]`, where a class is that.
    fn multiple(&self, class: Id, at: &[Affine]) -> Checked<Option<(f64, Signed)>> {
        for node in &self.egraph[class].nodes {
            if let Head::Product { sums, guard, factors, .. } = &*node.head
                && let ([], true, [Slot::Number(c), Slot::Read(inner)]) =
                    (sums.as_slice(), guard.is_true(), factors.as_slice())
                && let Some(child) = node.children.first()
            {
                let place = |i: IndexId| at.get(i.index()).cloned();
                let inner = inner.iter().map(|a| a.substitute(&place)).collect::<Checked<_>>()?;
                return Ok(Some((c.get(), self.read(*child, inner))));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::encode::encode;
    use super::super::graph::Graph;
    use super::super::rule::Tier;
    use super::super::rules_of;
    use crate::Function;

    /// Zeros of two signs make one of either: `(v[i] - v[j]) * sin(v[i] - v[j])` is even but for that.
    #[test]
    fn nothing_is_found_where_a_zero_may_not_change_its_sign() {
        let text = "param v : [n] real\ngen i < n, j < n. (v[i] - v[j]) * sin(v[i] - v[j])";
        let function = Function::parse(text).expect("it is right");
        let (program, hints) = (function.tensor_ssa(), Default::default());
        for (tier, expected) in [(Tier::Exact, false), (Tier::SignedZero, true), (Tier::Finite, true)] {
            let mut graph = Graph::new(&program.signature, &hints, tier);
            let rules = rules_of(tier).expect("they are right");
            encode(&mut graph, &rules, program).expect("it is small");
            let found = graph.egraph.classes().any(|class| !class.data.exchanges.is_empty());
            assert_eq!(found, expected, "{tier:?}");
        }
    }
}
