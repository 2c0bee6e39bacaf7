//! Arrays: \[000\], section 7.
//!
//! ```text
//! D[build s (i. t)] = let (n, _) = D[s] in let a = build n (i. D[t]) in (map fst a, fn d. all (map ((y, y'), e) in (a, dense d). scope (y' e)))
//! D[t ! s]          = let (x, x') = D[t] in let (i, _) = D[s] in (x ! i, fn d. x' {(i, d)})
//! D[length t]       = let (x, _) = D[t] in (length x, fn d. nothing)
//! D[reduce t s]     = the tree of the reduction, whose nodes have the derivatives of t; its leaves have what is owed to the elements
//! D[sum t]          = let (x, x') = D[t] in (sum x, fn d. x' {(i, d) for all i})
//! ```
//!
//! where `dense d` is `scatter (build n (i. 0)) (collect d)`. Fig. 8 ends the reduction in a bag of elements; it has to be one of pairs of an index and an
//! element, so leaves have the index, and what the walk of the tree gives is the bag itself. The index of `build` has a cell that gets nothing.

use super::style::Scope;
use super::transform::{PASS, Transform};
use crate::base::VarId;
use crate::error::{Error, Result};
use crate::functional::lambda::bound::Bound;
use crate::functional::lambda::{Builder, DataId, End, Linear, Prim, Term, TermId, Type, TypeId};

impl Transform<'_> {
    pub fn array_or_loop(&mut self, e: TermId) -> Result<TermId> {
        let source = self.source;
        match &source.terms[e] {
            Term::Build(n, i, body) => self.build(e, *n, *i, *body),
            Term::Index(a, k) => self.index(e, *a, *k),
            Term::Length(a) => {
                let p = self.open(*a)?;
                let x = p.fst(&mut self.out)?;
                let value = self.out.push(Term::Length(x))?;
                let result = self.constant(e, value)?;
                p.close(&mut self.out, result)
            }
            Term::Reduce { vars, body, init: None, array } => self.reduce(e, *vars, *body, *array),
            Term::Fold { count, index, state, init, body } => self.fold(e, (*count, *index), (*state, *init), *body),
            Term::Iterate { state, init, cond, body } => self.iterate(e, (*state, *init), *cond, *body),
            Term::Scan { from: End::First, vars, body, init, array } => self.scan(e, *vars, *body, *init, *array),
            _ => Err(Error::bug(PASS, "a term without a rule")),
        }
    }

    pub fn array_prim(&mut self, e: TermId, prim: Prim, a: TermId) -> Result<TermId> {
        let p = self.open(a)?;
        let x = p.fst(&mut self.out)?;
        let value = self.out.push(Term::Prim(prim, x))?;
        let result = self.result(e, value, &mut |b, d| {
            let owed = match prim {
                // {(i, d) for all i}
                Prim::Sum => {
                    let x = p.fst(b)?;
                    let n = b.push(Term::Length(x))?;
                    let all = b.build(n, "i", |b, _| Ok(b.var(d)))?;
                    b.push(Term::Linear(Linear::Entries(all)))?
                }
                // {(i + 1, v) for (i, v) in d}
                Prim::DropFirst => {
                    let Type::Linear(crate::functional::lambda::LinearType::Copower(int, l)) =
                        b.context.types[b.context.var_ty(d)]
                    else {
                        return Err(Error::bug(PASS, "a bag is needed"));
                    };
                    let (k, v) = (b.fresh("i", int), b.fresh("v", l));
                    let (i, one) = (b.var(k), b.int(1)?);
                    let next = b.prim(Prim::IntAdd, &[i, one])?;
                    let value = b.var(v);
                    let entry = b.push(Term::Linear(Linear::Entry(next, value)))?;
                    let d = b.var(d);
                    b.push(Term::Linear(Linear::Fold(d, (k, v), entry)))?
                }
                _ => b.var(d),
            };
            p.map_of(b, owed)
        })?;
        p.close(&mut self.out, result)
    }

    fn index(&mut self, e: TermId, a: TermId, k: TermId) -> Result<TermId> {
        let (p, q) = (self.open(a)?, self.open(k)?);
        let b = &mut self.out;
        let index = q.fst(b)?;
        let int = b.types().int();
        let i = b.fresh("i", int);
        let (x, at) = (p.fst(b)?, b.var(i));
        let value = b.index(x, at)?;
        let result = self.result(e, value, &mut |b, d| {
            let (i, d) = (b.var(i), b.var(d));
            let entry = b.push(Term::Linear(Linear::Entry(i, d)))?;
            p.map_of(b, entry)
        })?;
        let body = self.out.push(Term::Let(i, index, result))?;
        let body = q.close(&mut self.out, body)?;
        p.close(&mut self.out, body)
    }

    fn build(&mut self, e: TermId, n: TermId, i: VarId, body: TermId) -> Result<TermId> {
        let (style, scope) = (self.style, self.scope(e));
        let (cell, element) = (self.types.second(self.source.var_ty(i)), self.second(body));
        let p = self.open(n)?;
        let derivative = self.take(body)?;
        let b = &mut self.out;
        let count = p.fst(b)?;
        let array = b.push(Term::Build(count, i, derivative))?;
        let a = Bound::new(b, "a", array);
        let whole = b.var(a.var);
        let values = b.map(&[whole], |b, x| {
            let x = b.var(x[0]);
            b.fst(x)
        })?;
        let result = self.result(e, values, &mut |b, d| {
            let (whole, dense) = (b.var(a.var), b.var(a.var));
            let zeros = b.map(&[dense], |b, _| b.push(Term::Linear(Linear::Zero(element))))?;
            let d = b.var(d);
            let pairs = b.push(Term::Linear(Linear::Collect(d)))?;
            let dense = b.push(Term::Linear(Linear::Scatter(zeros, pairs)))?;
            let owed = b.map(&[whole, dense], |b, xs| {
                let (x, d) = (b.var(xs[0]), b.var(xs[1]));
                let back = b.snd(x)?;
                let m = b.apply(back, d)?;
                style.under(b, scope, cell, m, &mut |b, _| style.nothing(b, scope))
            })?;
            style.all(b, scope, owed)
        })?;
        let body = a.close(&mut self.out, result)?;
        p.close(&mut self.out, body)
    }

    /// The tree of a reduction is `leaf(index, value)`, of type `int * a`, or `((tree * a) * (backpropagator * tree))`.
    fn reduce(&mut self, e: TermId, (x, y): (VarId, VarId), body: TermId, array: TermId) -> Result<TermId> {
        let (style, scope) = (self.style, self.scope(e));
        let (value, owed) = (self.types.first(self.source.ty(e)), self.second(e));
        let p = self.open(array)?;
        let q = self.open(body)?;
        let b = &mut self.out;
        let Type::Pair(_, back) = b.context.types[b.ty(q.value)] else {
            return Err(Error::bug(PASS, "a derivative is needed"));
        };
        let tree = Tree::new(b, value, back);
        // Leaves, with their indices.
        let (all, whole) = (p.fst(b)?, p.fst(b)?);
        let n = b.push(Term::Length(all))?;
        let leaves = b.build(n, "i", |b, i| {
            let (k, at) = (b.var(i), b.var(i));
            let element = b.index(whole, at)?;
            let leaf = b.pair(k, element)?;
            let leaf = b.inl(leaf, tree.node)?;
            b.push(Term::Roll(tree.data, leaf))
        })?;
        let reduced = b.reduce(None, leaves, |b, l, r| {
            let (first, second) = (tree.value(b, l)?, tree.value(b, r)?);
            let (left, right) = (b.var(l), b.var(r));
            let z = q.fst(b)?;
            let back = q.snd(b)?;
            let head = b.pair(left, z)?;
            let tail = b.pair(back, right)?;
            let node = b.pair(head, tail)?;
            let node = b.inr(tree.leaf, node)?;
            let node = b.push(Term::Roll(tree.data, node))?;
            let node = q.close(b, node)?;
            let inner = b.push(Term::Let(y, second, node))?;
            b.push(Term::Let(x, first, inner))
        })?;
        let t = Bound::new(b, "tree", reduced);
        let value = tree.value(b, t.var)?;
        let int = b.types().int();
        let bag = b.types().linear(crate::functional::lambda::LinearType::Copower(int, owed));
        let walk = Walk { style, scope, tree, owed, bag };
        let result = self.result(e, value, &mut |b, d| {
            let f = walk.function(b)?;
            let (d, root) = (b.var(d), b.var(t.var));
            let arg = b.pair(d, root)?;
            let m = b.apply(f, arg)?;
            style.finish(b, bag, m, &mut |b, bag| p.map_of(b, bag))
        })?;
        let body = t.close(&mut self.out, result)?;
        p.close(&mut self.out, body)
    }
}

/// The data type of the trees of one reduction.
#[derive(Clone, Copy)]
struct Tree {
    data: DataId,
    ty: TypeId,
    leaf: TypeId,
    node: TypeId,
}

impl Tree {
    fn new(b: &mut Builder, value: TypeId, back: TypeId) -> Tree {
        let data = b.data(&format!("tree{}", b.context.data.len()));
        let ty = b.types().intern(Type::Data(data));
        let int = b.types().int();
        let leaf = b.types().pair(int, value);
        let (head, tail) = (b.types().pair(ty, value), b.types().pair(back, ty));
        let node = b.types().pair(head, tail);
        let definition = b.types().sum(leaf, node);
        b.define(data, definition);
        Tree { data, ty, leaf, node }
    }

    /// The value of a tree.
    fn value(&self, b: &mut Builder, tree: VarId) -> Result<TermId> {
        let tree = b.var(tree);
        let tree = b.push(Term::Unroll(tree))?;
        b.case(
            tree,
            ("leaf", |b, leaf| {
                let leaf = b.var(leaf);
                b.snd(leaf)
            }),
            ("node", |b, node| {
                let node = b.var(node);
                let head = b.fst(node)?;
                b.snd(head)
            }),
        )
    }
}

/// The walk of a tree, from the root: an effect that gives the bag of what is owed to the leaves.
struct Walk {
    style: super::style::Style,
    scope: Scope,
    tree: Tree,
    owed: TypeId,
    bag: TypeId,
}

impl Walk {
    /// `rec walk(d, tree). case tree of {leaf(i, _) -> {(i, d)} | node(l, _, f, r) -> do (dl, dr) <- scope (f d); walk(dl, l) + walk(dr, r)}`.
    fn function(&self, b: &mut Builder) -> Result<TermId> {
        let domain = b.types().pair(self.owed, self.tree.ty);
        let codomain = self.style.effect(b, self.scope, self.bag);
        b.rec("walk", "a", (domain, codomain), |b, walk, a| {
            let tree = b.var(a);
            let tree = b.snd(tree)?;
            let tree = b.push(Term::Unroll(tree))?;
            b.case(
                tree,
                ("leaf", |b, leaf| {
                    let (i, d) = (b.var(leaf), b.var(a));
                    let (i, d) = (b.fst(i)?, b.fst(d)?);
                    let entry = b.push(Term::Linear(Linear::Entry(i, d)))?;
                    self.style.give(b, self.scope, entry)
                }),
                ("node", |b, node| self.node(b, walk, a, node)),
            )
        })
    }

    fn node(&self, b: &mut Builder, walk: VarId, a: VarId, node: VarId) -> Result<TermId> {
        let (f, d) = (b.var(node), b.var(a));
        let tail = b.snd(f)?;
        let (f, d) = (b.fst(tail)?, b.fst(d)?);
        let m = b.apply(f, d)?;
        let scoped = self.style.scoped(b, self.scope, &[self.owed, self.owed], m)?;
        let unit = b.types().unit();
        let last = b.types().pair(self.owed, unit);
        let both = b.types().pair(self.owed, last);
        self.style.chain(b, both, scoped, &mut |b, r| {
            b.let_("r", r, |b, r| {
                let (walk1, dl, l) = (b.var(walk), b.var(r), b.var(node));
                let dl = b.fst(dl)?;
                let head = b.fst(l)?;
                let l = b.fst(head)?;
                let arg = b.pair(dl, l)?;
                let left = b.apply(walk1, arg)?;
                self.style.chain(b, self.bag, left, &mut |b, first| {
                    b.let_("left", first, |b, first| {
                        let (walk2, dr, t) = (b.var(walk), b.var(r), b.var(node));
                        let rest = b.snd(dr)?;
                        let dr = b.fst(rest)?;
                        let tail = b.snd(t)?;
                        let t = b.snd(tail)?;
                        let arg = b.pair(dr, t)?;
                        let right = b.apply(walk2, arg)?;
                        self.style.chain(b, self.bag, right, &mut |b, second| {
                            let first = b.var(first);
                            let sum = b.push(Term::Linear(Linear::Plus(first, second)))?;
                            self.style.give(b, self.scope, sum)
                        })
                    })
                })
            })
        })
    }
}
