//! Whether two nodes are alike: operands of sums and products, indices of sums and bindings are tried in all orders.

use std::collections::BTreeMap;

use iverson::ir::base::{IndexId, RelationId, SizeId, VarId};
use iverson::ir::index::print::{self, write_affine, write_pred};
use iverson::ir::index::{Affine, Pred, Size};
use iverson::ir::scalar::{Comparison, Function, Op, Primitive};
use iverson::ir::term::Program;

use super::node::{Guard, Kind, Node, Product, kind};
use super::side::Side;

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Strictness {
    AsWritten,
    InEssence,
}

pub(super) fn is_one(scale: f64) -> bool {
    (scale - 1.0).abs() < 1e-12
}

pub(super) struct Matcher<'a> {
    pub(super) sides: [Side<'a>; 2],
    /// The next common id of a binder.
    pub(super) next: u32,
    pub(super) strictness: Strictness,
    /// How many times the `let` of the second program the one of the first is, by common id.
    pub(super) scales: BTreeMap<VarId, f64>,
    /// Which axis of the `let` of the second program each axis of the one of the first is, by common id.
    pub(super) layouts: BTreeMap<VarId, Vec<usize>>,
}

/// How many times the second the first is; or why it is no multiple.
pub(super) type Scale = Result<f64, String>;

impl Matcher<'_> {
    pub(super) fn node(&mut self, a: &Node, b: &Node) -> Scale {
        let scale = self.multiple(a, b)?;
        match self.strictness == Strictness::InEssence || is_one(scale) {
            true => Ok(scale),
            false => Err(format!("one is {scale} times the other")),
        }
    }

    fn multiple(&mut self, a: &Node, b: &Node) -> Scale {
        if let (Node::Product(_), _) | (_, Node::Product(_)) = (a, b) {
            let (a, b) = (Product::of(a.clone()), Product::of(b.clone()));
            return self.product(&a, &b);
        }
        match (a, b) {
            (Node::Sum(a), Node::Sum(b)) => self.sum(a, b),
            (Node::Loop { kind: k, binders: m, body: a }, Node::Loop { kind: l, binders: n, body: b })
                if k == l && m.len() == n.len() =>
            {
                self.in_loop(*k, m, n, a, b)
            }
            (Node::Lets(xs, a), Node::Lets(ys, b)) => {
                if xs.len() != ys.len() {
                    return Err(format!("{} and {} `let`s", xs.len(), ys.len()));
                }
                self.lets(xs, &mut ys.iter().map(Some).collect(), a, b)
            }
            (Node::Var(x), Node::Var(y)) => {
                let (common, other) = (self.sides[0].var(*x), self.sides[1].var(*y));
                let moved = self.layouts.contains_key(&common);
                match common == other && common != VarId(u32::MAX) && !moved {
                    true => Ok(self.scales.get(&common).copied().unwrap_or(1.0)),
                    false => Err(format!("the variables {} and {}", self.name(0, *x), self.name(1, *y))),
                }
            }
            (Node::Index(v), Node::Index(w)) => {
                self.affine(&Affine::var(v.clone()), &Affine::var(w.clone()))?;
                Ok(1.0)
            }
            (Node::Access(a, i), Node::Access(b, j)) if i.len() == j.len() => {
                if let (Node::Var(x), Node::Var(y)) = (&**a, &**b)
                    && let common = self.sides[0].var(*x)
                    && common == self.sides[1].var(*y)
                    && let Some(layout) = self.layouts.get(&common)
                    && layout.len() == i.len()
                {
                    i.iter().zip(layout).try_for_each(|(i, k)| self.affine(i, &j[*k]))?;
                    return Ok(self.scales.get(&common).copied().unwrap_or(1.0));
                }
                i.iter().zip(j).try_for_each(|(i, j)| self.affine(i, j))?;
                self.node(a, b)
            }
            (Node::Apply(f, a), Node::Apply(g, b)) if a.len() == b.len() => self.apply(*f, *g, a, b),
            (Node::Pair(a, c), Node::Pair(b, d)) => {
                let (first, second) = (self.node(a, b)?, self.node(c, d)?);
                match is_one(first / second) {
                    true => Ok(first),
                    false => Err(format!("the components are {first} and {second} times those of the other")),
                }
            }
            (Node::Fst(a), Node::Fst(b)) | (Node::Snd(a), Node::Snd(b)) => self.node(a, b),
            (a, b) => Err(format!("{} and {}", kind(a), kind(b))),
        }
    }

    fn name(&self, side: usize, x: VarId) -> String {
        self.sides[side].program.variables[x].name.clone()
    }

    fn affine(&self, a: &Affine, b: &Affine) -> Result<(), String> {
        let (common, other) = (self.sides[0].affine(a), self.sides[1].affine(b));
        if common == other {
            return Ok(());
        }
        let [left, right] = [(a, 0), (b, 1)].map(|(a, side)| {
            let mut text = String::new();
            write_affine(&mut text, a, &Names(self.sides[side].program)).expect("strings take any text");
            text
        });
        Err(format!("the index expressions {left} and {right}"))
    }

    fn product(&mut self, a: &Product, b: &Product) -> Scale {
        self.guards(&a.guards, &b.guards)?;
        let mut scale = if a.negative == b.negative { 1.0 } else { -1.0 };
        if self.strictness == Strictness::InEssence {
            scale *= a.literals.iter().product::<f64>() / b.literals.iter().product::<f64>();
            // Nothing is a multiple of zero but zero.
            if !scale.is_finite() || scale == 0.0 {
                scale = if a.literals == b.literals { 1.0 } else { f64::NAN };
            }
        } else {
            let sorted = |literals: &[f64]| {
                let mut literals = literals.to_vec();
                literals.sort_by(f64::total_cmp);
                literals
            };
            if sorted(&a.literals) != sorted(&b.literals) {
                return Err(format!("the factors {:?} and {:?}", a.literals, b.literals));
            }
        }
        if a.factors.len() != b.factors.len() {
            let factors = |p: &Product| p.factors.iter().map(kind).collect::<Vec<_>>();
            return Err(format!("the factors {:?} and {:?}", factors(a), factors(b)));
        }
        let mut left: Vec<&Node> = b.factors.iter().collect();
        for factor in &a.factors {
            let (at, times) = self.find(factor, &left, None)?;
            scale *= times;
            left.remove(at);
        }
        Ok(scale)
    }

    /// The first of some nodes that is like another, as its given multiple if there is one.
    fn find(&mut self, node: &Node, among: &[&Node], multiple: Option<f64>) -> Result<(usize, f64), String> {
        let mut reason = None;
        for (at, other) in among.iter().enumerate() {
            match self.node(node, other) {
                Ok(scale) if multiple.is_none_or(|m| is_one(scale / m)) => return Ok((at, scale)),
                Ok(scale) => reason = Some(format!("one is {scale} times the other")),
                // The reason to tell is about an operand of the same kind.
                Err(why) if reason.is_none() || kind(node) == kind(other) => reason = Some(why),
                Err(_) => {}
            }
        }
        Err(format!("{}: {}", kind(node), reason.unwrap_or_else(|| "nothing like it".to_owned())))
    }

    fn sum(&mut self, a: &[Node], b: &[Node]) -> Scale {
        if a.len() != b.len() {
            return Err(format!("{} and {} terms", a.len(), b.len()));
        }
        let mut reason = String::new();
        // The first term says which multiple the others must be.
        for at in 0..b.len() {
            let attempt = self.node(&a[0], &b[at]).and_then(|scale| {
                let mut left: Vec<&Node> = b.iter().collect();
                left.remove(at);
                for term in &a[1..] {
                    let (at, _) = self.find(term, &left, Some(scale))?;
                    left.remove(at);
                }
                Ok(scale)
            });
            match attempt {
                Ok(scale) => return Ok(scale),
                Err(why) if reason.is_empty() || kind(&a[0]) == kind(&b[at]) => reason = why,
                Err(_) => {}
            }
        }
        Err(format!("in a sum of {} terms: {reason}", a.len()))
    }

    fn guards(&mut self, a: &[Guard], b: &[Guard]) -> Result<(), String> {
        let mut preds = [a, b].into_iter().zip(&mut self.sides).map(|(guards, side)| {
            let preds = guards.iter().filter_map(|guard| match guard {
                Guard::Pred(p) => Some(side.pred(p, 0)),
                Guard::Compares(..) => None,
            });
            Pred::all(preds.collect::<Vec<_>>())
        });
        let (left, right) = (preds.next(), preds.next());
        drop(preds);
        if left != right {
            let text = |guards: &[Guard], program: &Program| {
                let names = Names(program);
                let mut text = String::new();
                for guard in guards {
                    let Guard::Pred(p) = guard else { continue };
                    text.push('[');
                    write_pred(&mut text, p, 0, &names).expect("strings take any text");
                    text.push(']');
                }
                text
            };
            let [left, right] = [text(a, self.sides[0].program), text(b, self.sides[1].program)];
            return Err(format!("the guards `{left}` and `{right}`"));
        }
        let compared = |guards: &[Guard]| -> Vec<(bool, Node)> {
            let compared = guards.iter().filter_map(|guard| match guard {
                Guard::Pred(_) => None,
                Guard::Compares(holds, node) => Some((*holds, node.clone())),
            });
            compared.collect()
        };
        let (a, mut b) = (compared(a), compared(b));
        if a.len() != b.len() {
            return Err("one compares more numbers than the other".to_owned());
        }
        for (holds, node) in &a {
            let found = b.iter().position(|(other, n)| holds == other && self.node(node, n).is_ok_and(is_one));
            b.remove(found.ok_or_else(|| "they compare other numbers".to_owned())?);
        }
        Ok(())
    }

    fn apply(&mut self, f: Function, g: Function, a: &[Node], b: &[Node]) -> Scale {
        if self.sides[0].function(f) != self.sides[1].function(g) {
            return Err(format!("the functions {f:?} and {g:?}"));
        }
        if let (Function::Value(Primitive::Op(Op::Compare(Comparison::Equal | Comparison::NotEqual))), [a, c], [b, d]) =
            (f, a, b)
        {
            let same = |m: &mut Self, a, b| m.node(a, b).is_ok_and(is_one);
            return match (same(self, a, b) && same(self, c, d)) || (same(self, a, d) && same(self, c, b)) {
                true => Ok(1.0),
                false => Err("they compare other numbers".to_owned()),
            };
        }
        let scales = a.iter().zip(b).map(|(a, b)| self.node(a, b)).collect::<Result<Vec<f64>, String>>()?;
        match (f, scales.as_slice()) {
            (Function::Value(Primitive::Op(Op::Div)), [a, b]) => Ok(a / b),
            (Function::Value(Primitive::Op(Op::Powi(k))), [a]) => Ok(a.powi(k)),
            _ if scales.iter().all(|scale| is_one(*scale)) => Ok(1.0),
            _ => Err(format!("arguments of {f:?} are {scales:?} times those of the other")),
        }
    }

    fn in_loop(&mut self, kind: Kind, m: &[(IndexId, Size)], n: &[(IndexId, Size)], a: &Node, b: &Node) -> Scale {
        let orders = match kind {
            Kind::Gen => vec![(0..n.len()).collect()],
            Kind::Sum => orders(n.len()),
        };
        let mut reason = String::new();
        for order in orders {
            match self.in_order(&order, m, n, a, b) {
                Ok(scale) => return Ok(scale),
                Err(why) => reason = why,
            }
        }
        Err(format!("in a {kind:?}: {reason}"))
    }

    /// Two bodies with the indices of one paired with those of the other in an order.
    fn in_order(&mut self, order: &[usize], m: &[(IndexId, Size)], n: &[(IndexId, Size)], a: &Node, b: &Node) -> Scale {
        let pairs = || m.iter().zip(order.iter().map(|k| &n[*k]));
        if !pairs().all(|((_, m), (_, n))| self.affine(m, n).is_ok()) {
            return Err("the ranges of the indices".to_owned());
        }
        for ((i, _), (j, _)) in pairs() {
            let common = IndexId(self.next);
            self.next += 1;
            self.sides[0].indices.insert(*i, common);
            self.sides[1].indices.insert(*j, common);
        }
        self.node(a, b)
    }

    /// Every way in which the value of a `let` is that of another: how its axes are ordered, and its multiple.
    fn values(&mut self, a: &Node, b: &Node) -> (Vec<(Vec<usize>, f64)>, String) {
        let (mut found, mut reason) = (Vec::new(), String::new());
        match (a, b) {
            (
                Node::Loop { kind: Kind::Gen, binders: m, body: a },
                Node::Loop { kind: Kind::Gen, binders: n, body: b },
            ) if self.strictness == Strictness::InEssence && m.len() == n.len() => {
                for order in orders(n.len()) {
                    match self.in_order(&order, m, n, a, b) {
                        Ok(scale) => found.push((order, scale)),
                        Err(why) => reason = why,
                    }
                }
            }
            (a, b) => match self.node(a, b) {
                Ok(scale) => found.push((Vec::new(), scale)),
                Err(why) => reason = why,
            },
        }
        (found, reason)
    }

    /// Matches the first of the bindings with each of the others that are left, in turn, then the rest.
    fn lets(&mut self, xs: &[(VarId, Node)], ys: &mut Vec<Option<&(VarId, Node)>>, a: &Node, b: &Node) -> Scale {
        let Some(((x, value), rest)) = xs.split_first() else { return self.node(a, b) };
        let mut reason = "nothing like it".to_owned();
        let mut deepest = false;
        for at in 0..ys.len() {
            let Some((y, other)) = ys[at] else { continue };
            let (ways, why) = self.values(value, other);
            if ways.is_empty() && !deepest {
                reason = format!("`let {}`: {why}", self.name(0, *x));
            }
            for (layout, scale) in ways {
                // Parameters come first among the variables, and no program has as many.
                let common = VarId(u32::MAX / 2 + self.next);
                self.next += 1;
                self.sides[0].vars.insert(*x, common);
                self.sides[1].vars.insert(*y, common);
                let moved = !layout.is_sorted();
                if moved || !is_one(scale) {
                    self.sides[1].altered.insert(*y);
                }
                self.scales.insert(common, scale);
                if moved {
                    self.layouts.insert(common, layout);
                }
                let binding = ys[at].take();
                match self.lets(rest, ys, a, b) {
                    Ok(scale) => return Ok(scale),
                    Err(why) => (reason, deepest) = (why, true),
                }
                ys[at] = binding;
                self.sides[0].vars.remove(x);
                self.sides[1].vars.remove(y);
                self.sides[1].altered.remove(y);
            }
        }
        Err(reason)
    }
}

/// The names of a program, which may be those of several things.
struct Names<'a>(&'a Program);

impl print::Names for Names<'_> {
    fn index(&self, i: IndexId) -> String {
        self.0.indices.get(i).cloned().unwrap_or_default()
    }

    fn size(&self, n: SizeId) -> String {
        self.0.signature.sizes[n].clone()
    }

    fn relation(&self, r: RelationId) -> String {
        self.0.signature.relations[r].name.clone()
    }

    fn var(&self, x: VarId) -> String {
        self.0.variables[x].name.clone()
    }
}

/// All orders of `0..n`.
fn orders(n: usize) -> Vec<Vec<usize>> {
    (0..n).fold(vec![Vec::new()], |orders, k| {
        orders
            .iter()
            .flat_map(|order: &Vec<usize>| (0..=order.len()).map(move |at| [&order[..at], &[k], &order[at..]].concat()))
            .collect()
    })
}
