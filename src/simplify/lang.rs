//! The language of the e-graph.
//!
//! **Binders.** An e-class is a *closed tensor*: its elements are numbered by slots, and nothing outside can be mentioned. The indices of a
//! node are positions: slots first, then `sum` indices, then those that `exists` binds. A node reads its children at affine
//! expressions of its own indices, so an index never crosses from a node into a child, and substitution under a binder does not
//! exist. Two nodes are equal exactly if they are the same up to names. (Named binders would need capture-avoiding substitution inside
//! e-classes; de Bruijn indices would need shifts whenever a rule moves a term across a binder.)
//!
//! **Work.** The forms are those of Tensor-SSA, with any number of factors and terms, and with affine expressions at reads.

use std::rc::Rc;

use egg::{DidMerge, EGraph, Id};
use smallvec::SmallVec;

use super::expr::{Expr, Product, Read, Real};
use super::symmetry::exchanges;
use crate::base::{Id as _, IndexId, ParamId, RelationId, VarId};
use crate::index::{Affine, Checked, Pred, RelationRef, Size, Var};
use crate::scalar::Function;
use crate::tssa::exchanges::Exchanges;
use crate::ty::Side;

/// An argument of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Slot {
    /// A literal.
    Number(Real),
    /// An index expression as a real.
    Index(Affine),
    /// The next child at these indices.
    Read(Vec<Affine>),
}

/// A node without its children. Tensors that guards read as relations are named by their place among the children.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Head {
    /// A leaf of a parameter.
    Input { param: ParamId, path: Vec<Side>, dims: Vec<Size>, pattern: Option<RelationId> },
    /// `gen g. sum s. [p] * f0 * ..`
    Product { dims: Vec<Size>, sums: Vec<Size>, guard: Pred, factors: Vec<Slot> },
    /// `gen g. [p0] * a0 + ..`
    Sum { dims: Vec<Size>, terms: Vec<(Pred, Slot)> },
    /// `gen g. [p] * f(a0, ..)`
    Apply { dims: Vec<Size>, guard: Pred, function: Function, args: Vec<Slot> },
}

/// A node: children are read by slots in order; those that only guards mention come last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Node {
    pub(super) head: Rc<Head>,
    pub(super) children: SmallVec<[Id; 4]>,
}

impl egg::Language for Node {
    type Discriminant = Form;

    fn discriminant(&self) -> Form {
        self.head.form()
    }

    fn matches(&self, other: &Self) -> bool {
        self.head == other.head && self.children.len() == other.children.len()
    }

    fn children(&self) -> &[Id] {
        &self.children
    }

    fn children_mut(&mut self) -> &mut [Id] {
        &mut self.children
    }
}

impl Node {
    pub(super) fn new(head: Head, children: SmallVec<[Id; 4]>) -> Node {
        Node { head: Rc::new(head), children }
    }

    /// The children that are read, with the indices, and those that guards read as relations.
    pub(super) fn operands(&self) -> (Vec<(Id, &[Affine])>, &[Id]) {
        let slots: Vec<&Slot> = match &*self.head {
            Head::Input { .. } => Vec::new(),
            Head::Product { factors, .. } => factors.iter().collect(),
            Head::Sum { terms, .. } => terms.iter().map(|(_, slot)| slot).collect(),
            Head::Apply { args, .. } => args.iter().collect(),
        };
        let indices = slots.into_iter().filter_map(|slot| match slot {
            Slot::Read(indices) => Some(indices.as_slice()),
            _ => None,
        });
        let reads: Vec<(Id, &[Affine])> = self.children.iter().copied().zip(indices).collect();
        let relations = self.children.get(reads.len()..).unwrap_or_default();
        (reads, relations)
    }
}

/// Which form a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Form {
    Input,
    Product,
    Sum,
    Apply,
}

impl Head {
    pub(super) fn form(&self) -> Form {
        match self {
            Head::Input { .. } => Form::Input,
            Head::Product { .. } => Form::Product,
            Head::Sum { .. } => Form::Sum,
            Head::Apply { .. } => Form::Apply,
        }
    }

    /// Whether it has a guard.
    pub(super) fn is_guarded(&self) -> bool {
        match self {
            Head::Input { .. } => false,
            Head::Product { guard, .. } | Head::Apply { guard, .. } => !guard.is_true(),
            Head::Sum { terms, .. } => terms.iter().any(|(p, _)| !p.is_true()),
        }
    }

    /// The axes.
    pub(super) fn dims(&self) -> &[Size] {
        match self {
            Head::Input { dims, .. }
            | Head::Product { dims, .. }
            | Head::Sum { dims, .. }
            | Head::Apply { dims, .. } => dims,
        }
    }
}

/// What is known of every node of a class.
#[derive(Clone, Debug)]
pub(super) struct Data {
    /// The axes.
    pub(super) dims: Vec<Size>,
    /// What it is without any work, over its slots: a literal, an index expression, or an element of another class, perhaps under a
    /// guard.
    pub(super) view: Option<Expr>,
    /// It may be read only where this relation holds.
    pub(super) pattern: Option<RelationId>,
    /// Axes that can be exchanged.
    pub(super) exchanges: Exchanges,
}

/// The analysis.
#[derive(Clone, Debug)]
pub(super) struct Analysis {
    /// Whether axes that can be exchanged are looked for, which may change the sign of a zero.
    pub(super) exchanges: bool,
}

impl egg::Analysis<Node> for Analysis {
    type Data = Data;

    fn make(egraph: &mut EGraph<Node, Self>, node: &Node, id: Id) -> Data {
        let view = view(node, id);
        let pattern = match &*node.head {
            Head::Input { pattern, .. } => *pattern,
            _ => None,
        };
        let exchanges = if egraph.analysis.exchanges { exchanges(egraph, node) } else { Exchanges::new() };
        Data { dims: node.head.dims().to_vec(), view, pattern, exchanges }
    }

    fn merge(&mut self, a: &mut Data, b: Data) -> DidMerge {
        // The least view: literals order before index expressions, these before reads.
        let view = match (&a.view, &b.view) {
            (Some(v), Some(w)) => Some(v.min(w).clone()),
            (v, w) => v.as_ref().or(w.as_ref()).cloned(),
        };
        let pattern = a.pattern.or(b.pattern);
        // Of a tensor that is both even and odd, and so zero, one is enough.
        let mut exchanges = a.exchanges.clone();
        exchanges.extend(b.exchanges.iter().filter(|e| !a.exchanges.iter().any(|other| other.axes == e.axes)).copied());
        exchanges.sort();
        let differs = |data: &Data| view != data.view || pattern != data.pattern || exchanges != data.exchanges;
        let merged = DidMerge(differs(a), differs(&b));
        (a.view, a.pattern, a.exchanges) = (view, pattern, exchanges);
        merged
    }
}

/// The expression of a node that needs no work.
fn view(node: &Node, class: Id) -> Option<Expr> {
    let Head::Product { sums, guard, factors, .. } = &*node.head else { return None };
    let ([], [factor]) = (sums.as_slice(), factors.as_slice()) else { return None };
    let leaf = match factor {
        Slot::Number(x) => Expr::Number(*x),
        Slot::Index(a) => Expr::Index(Rc::new(a.clone())),
        Slot::Read(indices) => {
            let read = *node.children.first()?;
            if read == class {
                return None;
            }
            Expr::Read(Read { class: read, indices: indices.as_slice().into() })
        }
    };
    let mut plain = true;
    guard.visit_relations(&mut |r| plain &= matches!(r, RelationRef::Input(_)));
    // A guard that reads a tensor, or binds an index, stays where it is.
    (plain && bound(guard).is_empty()).then(|| Expr::product(Vec::new(), guard.clone(), vec![leaf]))
}

/// Renames the tensors that a predicate or an affine expression reads as relations.
pub(super) struct Renaming<'a>(pub(super) &'a dyn Fn(VarId) -> VarId);

impl Renaming<'_> {
    fn relation(&self, r: RelationRef) -> RelationRef {
        match r {
            RelationRef::Computed { var, view } => RelationRef::Computed { var: (self.0)(var), view },
            input => input,
        }
    }

    pub(super) fn affine(&self, a: &Affine) -> Checked<Affine> {
        a.replace(&mut |v| match v {
            Var::Apply(application) => {
                let mut application = application.clone();
                application.map = self.relation(application.map);
                Ok(Some(Affine::var(Var::Apply(application))))
            }
            _ => Ok(None),
        })
    }

    pub(super) fn pred(&self, p: &Pred) -> Checked<Pred> {
        p.map_affine(&mut |a| self.affine(a))?.map_relations(&mut |r| Ok(self.relation(r)))
    }
}

/// The class that a tensor read as a relation stands for, and back.
pub(super) fn class_of(x: VarId) -> Id {
    Id::from(x.index())
}

pub(super) fn var_of(class: Id) -> VarId {
    VarId::from_index(usize::from(class))
}

/// Opens a node: its elements at `indices`, with new names for bound indices.
pub(super) fn open(node: &Node, indices: &[Affine], fresh: &mut impl FnMut() -> IndexId) -> Checked<Expr> {
    let (sums, guard_bound) = match &*node.head {
        Head::Product { sums, guard, .. } => (sums.as_slice(), bound(guard)),
        Head::Sum { terms, .. } => (&[][..], terms.iter().flat_map(|(p, _)| bound(p)).collect()),
        Head::Apply { guard, .. } => (&[][..], bound(guard)),
        Head::Input { .. } => (&[][..], Vec::new()),
    };
    let slots = indices.len();
    let opened: Vec<(IndexId, Size)> = sums.iter().map(|n| (fresh(), n.clone())).collect();
    let rebound: std::collections::BTreeMap<IndexId, IndexId> = guard_bound.into_iter().map(|i| (i, fresh())).collect();
    let replace = |i: IndexId| {
        let at = i.index();
        match indices.get(at) {
            Some(a) => Some(a.clone()),
            None => opened.get(at - slots).map(|(s, _)| Affine::index(*s)),
        }
    };
    let rename = |x: VarId| node.children.get(x.index()).map_or(x, |class| var_of(*class));
    let renaming = Renaming(&rename);
    let pred = |p: &Pred| -> Checked<Pred> {
        let p = if rebound.is_empty() { p.clone() } else { super::expr::rename_pred(p, &rebound)? };
        renaming.pred(&p)?.substitute(&replace)
    };
    let affine = |a: &Affine| -> Checked<Affine> { renaming.affine(a)?.substitute(&replace) };
    let mut children = node.children.iter();
    let mut slot = |slot: &Slot| -> Checked<Expr> {
        Ok(match slot {
            Slot::Number(x) => Expr::Number(*x),
            Slot::Index(a) => Expr::index(affine(a)?),
            Slot::Read(at) => {
                let at = at.iter().map(affine).collect::<Checked<_>>()?;
                match children.next() {
                    Some(class) => Expr::Read(Read { class: *class, indices: at }),
                    // Nodes are built with a child for each read.
                    None => Expr::Number(Real::new(f64::NAN)),
                }
            }
        })
    };
    Ok(match &*node.head {
        Head::Input { .. } => Expr::Number(Real::new(f64::NAN)),
        Head::Product { guard, factors, .. } => {
            let factors = factors.iter().map(&mut slot).collect::<Checked<_>>()?;
            Expr::Product(Rc::new(Product { sums: opened.clone(), guard: pred(guard)?, factors }))
        }
        Head::Sum { terms, .. } => {
            let terms = terms.iter().map(|(p, a)| Ok(Expr::product(Vec::new(), pred(p)?, vec![slot(a)?])));
            Expr::sum(terms.collect::<Checked<_>>()?)
        }
        Head::Apply { guard, function, args, .. } => {
            let args = args.iter().map(&mut slot).collect::<Checked<_>>()?;
            Expr::product(Vec::new(), pred(guard)?, vec![Expr::Apply(*function, args)])
        }
    })
}

fn bound(p: &Pred) -> Vec<IndexId> {
    let mut found = Vec::new();
    p.visit_binders(&mut |i| found.push(i));
    found
}
