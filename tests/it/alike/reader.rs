//! Terms to nodes: comparisons go into the guards that ask for them, and guards that factors bring are gone.

use std::collections::BTreeMap;

use iverson::ir::base::{IndexId, VarId};
use iverson::ir::index::{Affine, Pred, RelationRef, Var, View};
use iverson::ir::scalar::{Function, Number, Op, Primitive};
use iverson::ir::term::{Program, Term, TermId, VariableKind};

use super::node::{Guard, Kind, Node, Product, nest, number};

/// A tensor of truth values that only guards read, `gen binders. node`.
struct Truths {
    binders: Vec<IndexId>,
    node: Node,
}

/// Makes nodes of terms.
pub(super) struct Reader<'a> {
    program: &'a Program,
    /// The `let`s that only guards mention, directly.
    only_in_guards: BTreeMap<VarId, bool>,
    comparisons: BTreeMap<VarId, Truths>,
    /// Where the elements of a `let` may be other than 0.
    supports: BTreeMap<VarId, (Vec<IndexId>, Vec<Pred>)>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(program: &'a Program) -> Self {
        let mut only_in_guards = BTreeMap::new();
        let mut elsewhere = |r: RelationRef| {
            if let RelationRef::Computed { var, .. } = r {
                only_in_guards.insert(var, false);
            }
        };
        let mut directly = Vec::new();
        for term in program.terms.values() {
            match term {
                Term::Iverson { guard, .. } => {
                    for p in guard.conjuncts() {
                        match p {
                            Pred::Relation { relation: RelationRef::Computed { var, view: View::Support }, .. } => {
                                directly.push(*var);
                            }
                            p => p.visit_relations(&mut elsewhere),
                        }
                    }
                }
                Term::Number(Number::Index(a)) | Term::Access { index: a, .. } => a.visit(&mut |v| {
                    if let Var::Apply(application) = v {
                        elsewhere(application.map);
                    }
                }),
                _ => {}
            }
        }
        for term in program.terms.values() {
            if let Term::Var(x) = term {
                elsewhere(RelationRef::Computed { var: *x, view: View::Support });
            }
        }
        for x in directly {
            only_in_guards.entry(x).or_insert(true);
        }
        Reader { program, only_in_guards, comparisons: BTreeMap::new(), supports: BTreeMap::new() }
    }

    fn boxed(&mut self, e: TermId) -> Box<Node> {
        Box::new(self.node(e))
    }

    pub(super) fn node(&mut self, e: TermId) -> Node {
        match &self.program.terms[e] {
            Term::Number(Number::Literal(x)) => Node::Product(Product::literal(*x)),
            Term::Number(Number::Index(a)) => number(a),
            Term::Var(x) => Node::Var(*x),
            Term::Add(a, b) => {
                let terms = [*a, *b].map(|e| match self.node(e) {
                    Node::Sum(terms) => terms,
                    term => vec![term],
                });
                Node::Sum(terms.concat())
            }
            Term::Mul(a, b) => {
                let product = Product::of(self.node(*a)).times(Product::of(self.node(*b)));
                self.without_implied(product).into_node()
            }
            Term::Iverson { guard, body } => {
                let guards = guard.conjuncts().iter().map(|p| self.guard(p)).collect();
                let product = Product { guards, ..Product::default() }.times(Product::of(self.node(*body)));
                self.without_implied(product).into_node()
            }
            Term::Apply(f, args) => Node::Apply(*f, args.iter().map(|e| self.node(*e)).collect()),
            Term::Pair(a, b) => Node::Pair(self.boxed(*a), self.boxed(*b)),
            Term::Fst(e) => Node::Fst(self.boxed(*e)),
            Term::Snd(e) => Node::Snd(self.boxed(*e)),
            Term::Gen { index, extent, body } => {
                let body = self.node(*body);
                nest(Kind::Gen, *index, extent, body)
            }
            Term::Sum { index, extent, body } => {
                // sum i. [p] * e  ==  [p] * sum i. e   if p does not mention i
                let mut body = Product::of(self.node(*body));
                let (inner, outer) = body.guards.drain(..).partition(|guard| guard.mentions(*index));
                body.guards = inner;
                let sum = nest(Kind::Sum, *index, extent, body.into_node());
                Product { guards: outer, factors: vec![sum], ..Product::default() }.into_node()
            }
            Term::Access { array, index } => match self.node(*array) {
                Node::Access(array, mut indices) => {
                    indices.push(index.clone());
                    Node::Access(array, indices)
                }
                array => Node::Access(Box::new(array), vec![index.clone()]),
            },
            Term::Let { .. } => self.lets(e),
            Term::Scan { .. } | Term::Call { .. } => panic!("derivatives with loops are not compared so"),
        }
    }

    fn lets(&mut self, mut e: TermId) -> Node {
        let mut bindings = Vec::new();
        while let Term::Let { var, value, body } = &self.program.terms[e] {
            let value = self.node(*value);
            let (binders, element) = match &value {
                Node::Loop { kind: Kind::Gen, binders, body } => (binders.iter().map(|(i, _)| *i).collect(), &**body),
                value => (Vec::new(), value),
            };
            let compares = matches!(element, Node::Apply(Function::Value(Primitive::Op(Op::Compare(_))), _));
            if compares && self.only_in_guards.get(var) == Some(&true) {
                self.comparisons.insert(*var, Truths { binders, node: element.clone() });
            } else {
                self.supports.insert(*var, (binders, self.support(&Product::of(element.clone()))));
                bindings.push((*var, value));
            }
            e = *body;
        }
        let body = self.node(e);
        if bindings.is_empty() { body } else { Node::Lets(bindings, Box::new(body)) }
    }

    fn guard(&self, p: &Pred) -> Guard {
        if let Pred::Relation { relation: RelationRef::Computed { var, view: View::Support }, args, holds } = p
            && let Some(Truths { binders, node }) = self.comparisons.get(var)
        {
            return Guard::Compares(*holds, node.substitute(&at(binders, args)));
        }
        Guard::Pred(p.clone())
    }

    /// What holds wherever a product is not 0: its guards, and those that its factors bring.
    fn support(&self, product: &Product) -> Vec<Pred> {
        let guards = product.guards.iter().filter_map(|guard| match guard {
            Guard::Pred(p) => Some(p.clone()),
            Guard::Compares(..) => None,
        });
        guards.chain(product.factors.iter().flat_map(|factor| self.brought(factor))).collect()
    }

    /// The guards that a factor brings.
    fn brought(&self, factor: &Node) -> Vec<Pred> {
        let Node::Access(array, indices) = factor else { return Vec::new() };
        let Node::Var(x) = **array else { return Vec::new() };
        if let VariableKind::Param(p) = self.program.variables[x].kind {
            let pattern = self.program.signature.params[p].storage.pattern();
            return pattern.map(|r| Pred::relation(RelationRef::Input(r), indices.clone())).into_iter().collect();
        }
        match self.supports.get(&x) {
            Some((binders, support)) if binders.len() == indices.len() => {
                let there = at(binders, indices);
                support.iter().map(|p| p.substitute(&there).expect("small numbers")).collect()
            }
            _ => Vec::new(),
        }
    }

    fn without_implied(&self, mut product: Product) -> Product {
        let brought: Vec<Pred> = product.factors.iter().flat_map(|factor| self.brought(factor)).collect();
        product.guards.retain(|guard| !matches!(guard, Guard::Pred(p) if brought.contains(p)));
        product
    }
}

/// Replaces the binders of a tensor by the place at which it is read.
fn at(binders: &[IndexId], indices: &[Affine]) -> impl Fn(IndexId) -> Option<Affine> {
    let place: BTreeMap<IndexId, Affine> = binders.iter().copied().zip(indices.iter().cloned()).collect();
    move |i| place.get(&i).cloned()
}
