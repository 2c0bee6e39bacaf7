//! Terms in which differences of no interest are gone: products and sums are flat, loops of one kind that stand directly inside one another are one.

use iverson::ir::base::{IndexId, VarId};
use iverson::ir::index::{Affine, Pred, Size, Var};
use iverson::ir::scalar::Function;

/// A term in which differences of no interest are gone.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Product(Product),
    Sum(Vec<Node>),
    /// `gen`s, or `sum`s, that stand directly inside one another.
    Loop {
        kind: Kind,
        binders: Vec<(IndexId, Size)>,
        body: Box<Node>,
    },
    Lets(Vec<(VarId, Node)>, Box<Node>),
    Var(VarId),
    /// The value of an index, a size or an application of a map, as a number.
    Index(Var),
    Access(Box<Node>, Vec<Affine>),
    Apply(Function, Vec<Node>),
    Pair(Box<Node>, Box<Node>),
    Fst(Box<Node>),
    Snd(Box<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Gen,
    Sum,
}

/// `[guards] * -literals * factors`
#[derive(Clone, Debug, Default)]
pub(super) struct Product {
    pub(super) negative: bool,
    /// Magnitudes other than 1.
    pub(super) literals: Vec<f64>,
    pub(super) guards: Vec<Guard>,
    pub(super) factors: Vec<Node>,
}

#[derive(Clone, Debug)]
pub(super) enum Guard {
    Pred(Pred),
    /// A comparison of numbers holds, or does not.
    Compares(bool, Node),
}

impl Guard {
    pub(super) fn mentions(&self, i: IndexId) -> bool {
        match self {
            Guard::Pred(p) => p.mentions(i),
            Guard::Compares(_, node) => node.mentions(i),
        }
    }
}

impl Product {
    pub(super) fn of(node: Node) -> Product {
        match node {
            Node::Product(product) => product,
            node => Product { factors: vec![node], ..Product::default() },
        }
    }

    pub(super) fn literal(x: f64) -> Product {
        let magnitude = x.abs();
        let literals = if magnitude == 1.0 { Vec::new() } else { vec![magnitude] };
        Product { negative: x < 0.0, literals, ..Product::default() }
    }

    pub(super) fn times(mut self, other: Product) -> Product {
        self.negative ^= other.negative;
        self.literals.extend(other.literals);
        self.guards.extend(other.guards);
        self.factors.extend(other.factors);
        self
    }

    /// The product with the sign in its factor that is a sum, if it has exactly one; itself if it is a single factor.
    pub(super) fn into_node(mut self) -> Node {
        let mut sums = self.factors.iter_mut().filter(|factor| matches!(factor, Node::Sum(_)));
        if self.negative
            && let (Some(Node::Sum(terms)), None) = (sums.next(), sums.next())
        {
            for term in terms {
                let mut product = Product::of(std::mem::replace(term, Node::Sum(Vec::new())));
                product.negative ^= true;
                *term = product.into_node();
            }
            self.negative = false;
        }
        let plain = !self.negative && self.literals.is_empty() && self.guards.is_empty();
        match self.factors.pop() {
            Some(factor) if plain && self.factors.is_empty() => factor,
            last => {
                self.factors.extend(last);
                Node::Product(self)
            }
        }
    }
}

impl Node {
    fn visit(&self, visit: &mut impl FnMut(&Node)) {
        visit(self);
        match self {
            Node::Product(product) => {
                product.factors.iter().for_each(|factor| factor.visit(visit));
                for guard in &product.guards {
                    if let Guard::Compares(_, node) = guard {
                        node.visit(visit);
                    }
                }
            }
            Node::Sum(nodes) | Node::Apply(_, nodes) => nodes.iter().for_each(|node| node.visit(visit)),
            Node::Loop { body, .. } => body.visit(visit),
            Node::Lets(bindings, body) => {
                bindings.iter().for_each(|(_, value)| value.visit(visit));
                body.visit(visit);
            }
            Node::Var(_) | Node::Index(_) => {}
            Node::Access(node, _) | Node::Fst(node) | Node::Snd(node) => node.visit(visit),
            Node::Pair(a, b) => {
                a.visit(visit);
                b.visit(visit);
            }
        }
    }

    fn mentions(&self, i: IndexId) -> bool {
        let mut found = false;
        self.visit(&mut |node| {
            found |= match node {
                Node::Index(v) => Affine::var(v.clone()).mentions(i),
                Node::Access(_, indices) => indices.iter().any(|a| a.mentions(i)),
                Node::Loop { binders, .. } => binders.iter().any(|(_, n)| n.mentions(i)),
                Node::Product(product) => product.guards.iter().any(|g| matches!(g, Guard::Pred(p) if p.mentions(i))),
                _ => false,
            };
        });
        found
    }

    /// The node with other indices.
    pub(super) fn substitute(&self, replace: &impl Fn(IndexId) -> Option<Affine>) -> Node {
        let all = |nodes: &[Node]| nodes.iter().map(|node| node.substitute(replace)).collect();
        let boxed = |node: &Node| Box::new(node.substitute(replace));
        let affine = |a: &Affine| a.substitute(replace).expect("small numbers");
        match self {
            Node::Product(product) => Node::Product(Product {
                guards: product.guards.iter().map(|guard| guard.substitute(replace)).collect(),
                factors: all(&product.factors),
                ..product.clone()
            }),
            Node::Sum(nodes) => Node::Sum(all(nodes)),
            Node::Loop { kind, binders, body } => {
                Node::Loop { kind: *kind, binders: binders.clone(), body: boxed(body) }
            }
            Node::Lets(bindings, body) => {
                Node::Lets(bindings.iter().map(|(x, value)| (*x, value.substitute(replace))).collect(), boxed(body))
            }
            Node::Var(_) => self.clone(),
            Node::Index(v) => number(&affine(&Affine::var(v.clone()))),
            Node::Access(array, indices) => Node::Access(boxed(array), indices.iter().map(affine).collect()),
            Node::Apply(f, args) => Node::Apply(*f, all(args)),
            Node::Pair(a, b) => Node::Pair(boxed(a), boxed(b)),
            Node::Fst(e) => Node::Fst(boxed(e)),
            Node::Snd(e) => Node::Snd(boxed(e)),
        }
    }
}

impl Guard {
    fn substitute(&self, replace: &impl Fn(IndexId) -> Option<Affine>) -> Guard {
        match self {
            Guard::Pred(p) => Guard::Pred(p.substitute(replace).expect("small numbers")),
            Guard::Compares(holds, node) => Guard::Compares(*holds, node.substitute(replace)),
        }
    }
}

/// `n` or `2 * n - 1` as a number.
pub(super) fn number(a: &Affine) -> Node {
    let term = |(v, k): &(Var, i64)| Product::literal(*k as f64).times(Product::of(Node::Index(v.clone()))).into_node();
    let mut terms: Vec<Node> = a.terms().iter().map(term).collect();
    if a.offset() != 0 || terms.is_empty() {
        terms.push(Node::Product(Product::literal(a.offset() as f64)));
    }
    match terms.len() {
        1 => terms.remove(0),
        _ => Node::Sum(terms),
    }
}

/// The loop, with the loops of the same kind directly inside it.
pub(super) fn nest(kind: Kind, index: IndexId, extent: &Size, body: Node) -> Node {
    let mut binders = vec![(index, extent.clone())];
    let body = match body {
        Node::Loop { kind: inner, binders: more, body } if inner == kind => {
            binders.extend(more);
            body
        }
        body => Box::new(body),
    };
    Node::Loop { kind, binders, body }
}

/// What a node is, in a word.
pub(super) fn kind(node: &Node) -> String {
    match node {
        Node::Product(product) if product.factors.is_empty() => format!("a number {:?}", product.literals),
        Node::Product(product) => format!("a product of {}", product.factors.len()),
        Node::Sum(terms) => format!("a sum of {} terms", terms.len()),
        Node::Loop { kind, binders, .. } => format!("{kind:?} over {} indices", binders.len()),
        Node::Lets(..) => "let".to_owned(),
        Node::Var(_) => "a variable".to_owned(),
        Node::Index(_) => "the value of an index".to_owned(),
        Node::Access(..) => "an element".to_owned(),
        Node::Apply(f, _) => format!("{f:?}"),
        Node::Pair(..) => "a pair".to_owned(),
        Node::Fst(_) => "fst".to_owned(),
        Node::Snd(_) => "snd".to_owned(),
    }
}
