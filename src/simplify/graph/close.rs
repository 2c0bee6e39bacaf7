//! Closing: an expression becomes a node, its parts classes of their own under the guards that concern them.

use std::collections::BTreeMap;
use std::rc::Rc;

use egg::Id;
use smallvec::SmallVec;

use super::super::expr::{Expr, Product, Read, rename_pred};
use super::super::lang::{Head, Node, Renaming, Slot, class_of};
use super::{Graph, Scope};
use crate::base::{Id as _, IndexId, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, RelationRef, Size, Var};
use crate::scalar::{Function, Op, Primitive};
use crate::tssa::exchanges::{Exchanges, order};

impl Graph<'_> {
    /// `e` as an element of a class: `T[g]` with `T = gen g. e`.
    pub(in crate::ir::simplify) fn close(&mut self, scope: &[(IndexId, Size)], e: &Expr) -> Result<Expr> {
        match e {
            Expr::Number(_) | Expr::Index(_) | Expr::Read(_) => return Ok(e.clone()),
            Expr::Product(_) | Expr::Sum(_) | Expr::Apply(..) => {}
        }
        let free = e.axes(scope);
        let class = self.close_over(&free, e)?;
        let indices = Affine::indices(&free).into();
        Ok(self.viewed(Read { class, indices })?)
    }

    /// The class of `gen g. e` for given axes `g`.
    pub(in crate::ir::simplify) fn close_over(&mut self, gens: &[(IndexId, Size)], e: &Expr) -> Result<Id> {
        match e {
            // gen g. T[g]  ==  T
            Expr::Read(read) if self.is_whole(gens, read) => Ok(self.egraph.find(read.class)),
            Expr::Number(_) | Expr::Index(_) | Expr::Read(_) => {
                self.product(gens, Product { sums: Vec::new(), guard: Pred::True, factors: vec![e.clone()] })
            }
            Expr::Sum(terms) => self.sum(gens, &Pred::True, terms),
            Expr::Apply(function, args) => self.apply(gens, &Pred::True, *function, args),
            Expr::Product(product) => match (product.sums.is_empty(), product.factors.as_slice()) {
                // [p] * (a + b)  ==  [p] * a + [p] * b
                (true, [Expr::Sum(terms)]) => self.sum(gens, &product.guard, terms),
                (true, [Expr::Apply(function, args)]) => self.apply(gens, &product.guard, *function, args),
                _ => self.product(gens, (**product).clone()),
            },
        }
    }

    fn is_whole(&self, gens: &[(IndexId, Size)], read: &Read) -> bool {
        self.data(read.class).dims.len() == gens.len()
            && read.indices.iter().zip(gens).all(|(a, (i, _))| a.as_index() == Some(*i))
            && self.data(read.class).dims.iter().zip(gens).all(|(m, (_, n))| m == n)
    }

    /// A factor, term or argument as a leaf: closed under those conjuncts of the guard that concern it.
    fn leaf(&mut self, scope: &[(IndexId, Size)], guard: &Pred, e: &Expr) -> Result<Expr> {
        let guarded = self.under(scope, guard, e)?;
        self.leaf_of(scope, &guarded)
    }

    pub(super) fn leaf_of(&mut self, scope: &[(IndexId, Size)], e: &Expr) -> Result<Expr> {
        match e {
            Expr::Read(read) => Ok(self.viewed(read.clone())?),
            e => self.close(scope, e),
        }
    }

    /// An expression under those conjuncts of the guard that concern it; what needs no work is as it is.
    pub(super) fn under(&mut self, scope: &[(IndexId, Size)], guard: &Pred, e: &Expr) -> Result<Expr> {
        match e {
            Expr::Number(_) | Expr::Index(_) | Expr::Read(_) => Ok(e.clone()),
            _ => {
                let free = e.free(scope);
                let concerns = |p: &&Pred| {
                    let (mut inside, mut indexed) = (true, false);
                    p.visit_affine(&mut |a| {
                        a.visit(&mut |v| {
                            if let Var::Index(i) = v {
                                indexed |= free.iter().any(|(j, _)| i == j);
                                inside &= free.iter().any(|(j, _)| i == j) || !scope.iter().any(|(j, _)| i == j);
                            }
                        });
                    });
                    // What sizes decide saves no work to speak of.
                    inside && indexed
                };
                let inner = Pred::all(guard.conjuncts().iter().filter(concerns).cloned());
                let inner = self.given(&free, &Pred::True, &inner)?;
                Ok(Expr::product(Vec::new(), inner, vec![e.clone()]))
            }
        }
    }

    /// The guard with all that reads need: places in bounds, and stored elements only of sparse parameters.
    fn guarded(&mut self, scope: &[(IndexId, Size)], guard: Pred, leaves: &[Expr]) -> Result<Pred> {
        let mut guard = guard;
        for leaf in leaves {
            let Expr::Read(read) = leaf else { continue };
            let data = self.data(read.class);
            let pattern = data.pattern;
            let dims = data.dims.clone();
            for (a, n) in read.indices.iter().zip(&dims) {
                if a.as_index().is_some_and(|i| scope.iter().any(|(j, m)| i == *j && m == n)) {
                    continue;
                }
                let needed = Pred::in_range(a, n)?;
                let missing = self.given(scope, &guard, &needed)?;
                guard = guard.and(missing);
            }
            if let Some(pattern) = pattern {
                let atom = Pred::relation(RelationRef::Input(pattern), read.indices.to_vec());
                if !guard.conjuncts().contains(&atom) {
                    guard = guard.and(atom);
                }
            }
        }
        Ok(guard)
    }

    fn product(&mut self, gens: &[(IndexId, Size)], product: Product) -> Result<Id> {
        let scope: Scope = gens.iter().chain(&product.sums).cloned().collect();
        let mut leaves = Vec::with_capacity(product.factors.len());
        for e in &product.factors {
            leaves.push(self.leaf(&scope, &product.guard, e)?);
        }
        let guard = self.guarded(&scope, product.guard, &leaves)?;
        // Leaves may have turned out to be literals.
        let Expr::Product(product) = Expr::product(product.sums, guard.clone(), leaves.clone()) else {
            return match leaves.as_slice() {
                [leaf] if guard.is_true() => self.leaf_class(gens, leaf),
                _ => self.leaf_class(gens, &Expr::product(Vec::new(), guard, leaves)),
            };
        };
        if product.sums.is_empty() && product.guard.is_true() && product.factors.len() == 1 {
            return self.leaf_class(gens, &product.factors[0]);
        }
        let (product, order) = canonical_factors(Rc::unwrap_or_clone(product), &|e| self.is_even(e));
        let sums = order.iter().map(|(_, n)| n.clone()).collect();
        let mut closing = Closing::new(gens, &order);
        let factors = product.factors.iter().map(|e| closing.slot(e)).collect::<Result<_>>()?;
        let factors = self.in_order(factors, &closing.children);
        let guard = closing.guard(&product.guard)?;
        let dims = dims(gens);
        let children = closing.children;
        Ok(self.insert(Node::new(Head::Product { dims, sums, guard, factors }, children)))
    }

    /// Whether an expression reads a tensor that is the same with two axes exchanged.
    fn is_even(&self, e: &Expr) -> bool {
        matches!(e, Expr::Read(read) if self.data(read.class).exchanges.iter().any(|e| !e.odd))
    }

    /// Leaves with the places of such reads in order.
    fn in_order(&self, slots: Vec<Slot>, children: &[Id]) -> Vec<Slot> {
        let mut children = children.iter();
        let ordered = |slot| match slot {
            Slot::Read(mut at) => {
                let exchanges = children.next().map(|child| &self.data(*child).exchanges);
                let even: Exchanges = exchanges.into_iter().flatten().filter(|e| !e.odd).copied().collect();
                order(&even, &mut at);
                Slot::Read(at)
            }
            slot => slot,
        };
        slots.into_iter().map(ordered).collect()
    }

    /// `a * b` as an element of the class that holds these products, if there is one.
    pub(in crate::ir::simplify) fn known_product(&mut self, scope: &Scope, a: &Expr, b: &Expr) -> Result<Option<Expr>> {
        let (Expr::Read(x), Expr::Read(y)) = (a, b) else { return Ok(None) };
        let (x, y) = (self.egraph.find(x.class), self.egraph.find(y.class));
        let multiplies = |id: Id| {
            let node = self.egraph.id_to_node(id);
            let of = |at: usize| node.children.get(at).map(|child| self.egraph.find(*child));
            let operands = (of(0), of(1));
            matches!(&*node.head, Head::Product { sums, .. } if sums.is_empty())
                && node.children.len() == 2
                && (operands == (Some(x), Some(y)) || operands == (Some(y), Some(x)))
        };
        // Most products are not there at any indices.
        if !self.egraph[x].parents().any(multiplies) {
            return Ok(None);
        }
        let e = Expr::product(Vec::new(), Pred::True, vec![a.clone(), b.clone()]);
        let gens = e.axes(scope);
        if a == b || !self.guarded(&gens, Pred::True, &[a.clone(), b.clone()])?.is_true() {
            return Ok(None);
        }
        let (product, _) = canonical_factors(e.into_product(), &|_| false);
        self.known(&gens, &product.factors, |dims, factors| Head::Product {
            dims,
            sums: Vec::new(),
            guard: Pred::True,
            factors,
        })
    }

    /// `a / b` as an element of the class that holds these quotients, if there is one.
    pub(in crate::ir::simplify) fn known_quotient(
        &mut self,
        scope: &Scope,
        a: &Expr,
        b: &Expr,
    ) -> Result<Option<Expr>> {
        const DIVIDE: Function = Function::Value(Primitive::Op(Op::Div));
        let (Expr::Read(x), Expr::Read(y)) = (a, b) else { return Ok(None) };
        let (x, y) = (self.egraph.find(x.class), self.egraph.find(y.class));
        let divides = |id: Id| {
            let node = self.egraph.id_to_node(id);
            matches!(&*node.head, Head::Apply { function: DIVIDE, .. })
                && node.children.iter().map(|child| self.egraph.find(*child)).eq([x, y])
        };
        // Most quotients are not there at any indices.
        if !self.egraph[y].parents().any(divides) {
            return Ok(None);
        }
        let args = [a.clone(), b.clone()];
        let gens = Expr::Apply(DIVIDE, args.clone().into()).axes(scope);
        if !self.guarded(&gens, Pred::True, &args)?.is_true() {
            return Ok(None);
        }
        self.known(&gens, &args, |dims, args| Head::Apply { dims, guard: Pred::True, function: DIVIDE, args })
    }

    /// An element of the class of a node over some expressions, if it is there.
    fn known(
        &mut self,
        gens: &[(IndexId, Size)],
        over: &[Expr],
        head: impl FnOnce(Vec<Size>, Vec<Slot>) -> Head,
    ) -> Result<Option<Expr>> {
        let mut closing = Closing::new(gens, &[]);
        let slots = over.iter().map(|e| closing.slot(e)).collect::<Result<_>>()?;
        let known = self.egraph.lookup(Node::new(head(dims(gens), slots), closing.children));
        let indices = Affine::indices(gens).into();
        Ok(known.map(|class| Expr::Read(Read { class, indices })))
    }

    /// `gen g. leaf`
    fn leaf_class(&mut self, gens: &[(IndexId, Size)], leaf: &Expr) -> Result<Id> {
        if let Expr::Read(read) = leaf
            && self.is_whole(gens, read)
        {
            return Ok(self.egraph.find(read.class));
        }
        let mut closing = Closing::new(gens, &[]);
        let factors = vec![closing.slot(leaf)?];
        let children = closing.children;
        let head = Head::Product { dims: dims(gens), sums: Vec::new(), guard: Pred::True, factors };
        Ok(self.insert(Node::new(head, children)))
    }

    fn sum(&mut self, gens: &[(IndexId, Size)], around: &Pred, terms: &[Expr]) -> Result<Id> {
        let mut leaves: Vec<(Expr, Pred)> = Vec::with_capacity(terms.len());
        for term in terms {
            // [p] * ([q] * leaf)  ==  [p and q] * leaf
            let (guard, leaf) = match term {
                Expr::Product(product) if product.sums.is_empty() => {
                    let guard = around.clone().and(product.guard.clone());
                    let guard = self.given(gens, &Pred::True, &guard)?;
                    let body = Expr::product(Vec::new(), Pred::True, product.factors.clone());
                    (guard.clone(), self.leaf(gens, &guard, &body)?)
                }
                other => (around.clone(), self.leaf(gens, around, other)?),
            };
            if guard.is_false() {
                continue;
            }
            let guard = self.guarded(gens, guard, std::slice::from_ref(&leaf))?;
            if leaf.as_number() == Some(0.0) {
                continue;
            }
            leaves.push((leaf, guard));
        }
        leaves.sort();
        if leaves.len() < 2 {
            let e = match leaves.pop() {
                Some((leaf, guard)) => Expr::product(Vec::new(), guard, vec![leaf]),
                None => Expr::number(0.0),
            };
            return self.close_over(gens, &e);
        }
        let mut closing = Closing::new(gens, &[]);
        let slots = leaves.iter().map(|(leaf, _)| closing.slot(leaf)).collect::<Result<Vec<_>>>()?;
        let guards = leaves.iter().map(|(_, p)| closing.guard(p)).collect::<Result<Vec<_>>>()?;
        let children = closing.children;
        let terms = guards.into_iter().zip(slots).collect();
        Ok(self.insert(Node::new(Head::Sum { dims: dims(gens), terms }, children)))
    }

    fn apply(&mut self, gens: &[(IndexId, Size)], guard: &Pred, function: Function, args: &[Expr]) -> Result<Id> {
        let mut leaves = Vec::with_capacity(args.len());
        for e in args {
            let leaf = self.leaf(gens, guard, e)?;
            // What is read outside of its axes is 0, and the function is applied there all the same.
            leaves.push(match self.guarded(gens, guard.clone(), std::slice::from_ref(&leaf))? {
                needed if needed == *guard => leaf,
                needed => self.close(gens, &Expr::product(Vec::new(), needed, vec![leaf]))?,
            });
        }
        let mut closing = Closing::new(gens, &[]);
        let args = leaves.iter().map(|e| closing.slot(e)).collect::<Result<Vec<_>>>()?;
        let guard = closing.guard(guard)?;
        let children = closing.children;
        Ok(self.insert(Node::new(Head::Apply { dims: dims(gens), guard, function, args }, children)))
    }
}

fn dims(gens: &[(IndexId, Size)]) -> Vec<Size> {
    gens.iter().map(|(_, n)| n.clone()).collect()
}

/// Orders the factors without regard to the names of `sum` indices, then these by their first occurrence: `sum i j. D[i, j] * X[j, i]` is
/// `sum i j. X[i, j] * D[j, i]` where `D` is the same both ways, and gives no order.
fn canonical_factors(mut product: Product, is_even: &dyn Fn(&Expr) -> bool) -> (Product, Scope) {
    let summed: Vec<IndexId> = product.sums.iter().map(|(i, _)| *i).collect();
    let masked =
        |e: &Expr| e.substitute(&|i| summed.contains(&i).then(|| Affine::constant(0))).unwrap_or_else(|_| e.clone());
    product.factors.sort_by_cached_key(|e| (masked(e), e.clone()));
    let mut order: Scope = Vec::with_capacity(summed.len());
    let mut meet = |a: &Affine| {
        a.visit(&mut |v| {
            if let Var::Index(i) = v
                && !order.iter().any(|(j, _)| j == i)
                && let Some(entry) = product.sums.iter().find(|(j, _)| j == i)
            {
                order.push(entry.clone());
            }
        });
    };
    let (even, others): (Vec<&Expr>, Vec<&Expr>) = product.factors.iter().partition(|e| is_even(e));
    others.into_iter().chain(even).for_each(|e| e.visit_affine(&mut meet));
    product.guard.visit_affine(&mut meet);
    for entry in &product.sums {
        if !order.contains(entry) {
            order.push(entry.clone());
        }
    }
    // Once more under the final names, which decide between reads of one tensor.
    let number: BTreeMap<IndexId, u32> = order.iter().zip(0..).map(|((i, _), at)| (*i, at)).collect();
    let named = |e: &Expr| {
        e.substitute(&|i| number.get(&i).map(|at| Affine::index(IndexId(u32::MAX / 2 + at))))
            .unwrap_or_else(|_| e.clone())
    };
    product.factors.sort_by_cached_key(named);
    (product, order)
}

/// Renames to positions and collects children. All reads come first, then what guards read as relations.
struct Closing {
    numbers: BTreeMap<IndexId, IndexId>,
    children: SmallVec<[Id; 4]>,
    computed: BTreeMap<Id, usize>,
}

impl Closing {
    fn new(gens: &[(IndexId, Size)], sums: &[(IndexId, Size)]) -> Self {
        let indices = gens.iter().chain(sums).map(|(i, _)| *i);
        let numbers = indices.zip(0..).map(|(i, at)| (i, IndexId(at))).collect();
        Closing { numbers, children: SmallVec::new(), computed: BTreeMap::new() }
    }

    fn affine(&self, a: &Affine) -> Result<Affine> {
        Ok(a.substitute(&|i| self.numbers.get(&i).copied().map(Affine::index))?)
    }

    fn slot(&mut self, e: &Expr) -> Result<Slot> {
        Ok(match e {
            Expr::Number(x) => Slot::Number(*x),
            Expr::Index(a) => Slot::Index(self.affine(a)?),
            Expr::Read(read) => {
                let at = read.indices.iter().map(|a| self.affine(a)).collect::<Result<_>>()?;
                self.children.push(read.class);
                Slot::Read(at)
            }
            Expr::Product(_) | Expr::Sum(_) | Expr::Apply(..) => {
                return Err(Error::bug("simplify", "an argument of a node is not a leaf"));
            }
        })
    }

    fn guard(&mut self, p: &Pred) -> Result<Pred> {
        let mut numbers = self.numbers.clone();
        let mut next = numbers.len() as u32;
        p.visit_binders(&mut |i| {
            numbers.insert(i, IndexId(next));
            next += 1;
        });
        let p = rename_pred(p, &numbers)?;
        p.visit_computed(&mut |x| {
            let class = class_of(x);
            if !self.computed.contains_key(&class) {
                self.computed.insert(class, self.children.len());
                self.children.push(class);
            }
        });
        let rename = |x: VarId| self.computed.get(&class_of(x)).map_or(x, |at| VarId::from_index(*at));
        Ok(Renaming(&rename).pred(&p)?)
    }
}
