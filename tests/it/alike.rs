//! Whether two programs read the same, up to what a reader does not mind.
//!
//! [`same_up_to_renaming`] passes over
//!
//! - names of `let`s and indices, the order of `let`s that follow one another, of adjacent `sum`s, and of the operands of `+`, `*`,
//!   `and`, `or`, `=`, `!=`; how `+` and `*` are nested; `a - (b - c)` for `a - b + c` and where in a product its sign stands;
//! - where in a product its guard stands: `[p] * (a * b)` for `([p] * a) * b`, and `[p] * (sum i. e)` for `sum i. [p] * e`;
//! - guards that a factor has anyway: the pattern beside an element of a sparse parameter, `X[i, j]` for `X.value(i, j)`, and the guard
//!   with which a tensor was defined beside an element of it;
//! - whether the numbers that a guard compares have a name: `[a < b]` for `[c != 0]` with `c` only there.
//!
//! [`same_in_essence`] also passes over
//!
//! - where literal factors stand: `2 * (sum i. x[i])` for `sum i. 2 * x[i]`, and for `let y = gen i. 2 * x[i] in sum i. y[i]`; which is
//!   less work depends on sizes;
//! - the order of the axes of a `let`.
//!
//! A program becomes a tree of [`Node`]s, in which these differences are gone but for order; two trees are matched from the root, with
//! the binders of one renamed to those of the other. Under given names sameness is an equivalence, so operands can be matched in
//! any order, greedily; only `let`s and `sum`s need a search. Recursion is on programs that people read.

mod tests;

use std::collections::{BTreeMap, BTreeSet};

use iverson::base::{FunctionId, IndexId, RelationId, SizeId, VarId};
use iverson::index::print::{self, write_affine, write_pred};
use iverson::index::{Affine, Application, Pred, RelationRef, Size, Var, View};
use iverson::scalar::{Comparison, Function, Number, Op, Primitive};
use iverson::term::{Program, Term, TermId, VariableKind};

use crate::support::declarations;

/// Whether both programs are the same, but for the differences that the module documentation lists; if not, where they differ.
pub fn same_up_to_renaming(a: &Program, b: &Program) -> Result<(), String> {
    compare(a, b, Strictness::AsWritten)
}

/// The same, passing also over where literal factors stand, and over the order of the axes of `let`s.
pub fn same_in_essence(a: &Program, b: &Program) -> Result<(), String> {
    compare(a, b, Strictness::InEssence)
}

fn compare(a: &Program, b: &Program, strictness: Strictness) -> Result<(), String> {
    let header = |program: &Program| declarations(&program.to_string()).0;
    if header(a) != header(b) {
        return Err(format!("the declarations differ: {:?} and {:?}", header(a), header(b)));
    }
    let mut matcher = Matcher {
        sides: [Side::new(a, a), Side::new(b, a)],
        next: 0,
        strictness,
        scales: BTreeMap::new(),
        layouts: BTreeMap::new(),
    };
    let nodes = [a, b].map(|program| Reader::new(program).node(program.root));
    let scale = matcher.node(&nodes[0], &nodes[1])?;
    if is_one(scale) { Ok(()) } else { Err(format!("one is {scale} times the other")) }
}

#[derive(Clone, Copy, PartialEq)]
enum Strictness {
    AsWritten,
    InEssence,
}

fn is_one(scale: f64) -> bool {
    (scale - 1.0).abs() < 1e-12
}

/// A term in which differences of no interest are gone.
#[derive(Clone, Debug)]
enum Node {
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
enum Kind {
    Gen,
    Sum,
}

/// `[guards] * -literals * factors`
#[derive(Clone, Debug, Default)]
struct Product {
    negative: bool,
    /// Magnitudes other than 1.
    literals: Vec<f64>,
    guards: Vec<Guard>,
    factors: Vec<Node>,
}

#[derive(Clone, Debug)]
enum Guard {
    Pred(Pred),
    /// A comparison of numbers holds, or does not.
    Compares(bool, Node),
}

impl Guard {
    fn mentions(&self, i: IndexId) -> bool {
        match self {
            Guard::Pred(p) => p.mentions(i),
            Guard::Compares(_, node) => node.mentions(i),
        }
    }
}

impl Product {
    fn of(node: Node) -> Product {
        match node {
            Node::Product(product) => product,
            node => Product { factors: vec![node], ..Product::default() },
        }
    }

    fn literal(x: f64) -> Product {
        let magnitude = x.abs();
        let literals = if magnitude == 1.0 { Vec::new() } else { vec![magnitude] };
        Product { negative: x < 0.0, literals, ..Product::default() }
    }

    fn times(mut self, other: Product) -> Product {
        self.negative ^= other.negative;
        self.literals.extend(other.literals);
        self.guards.extend(other.guards);
        self.factors.extend(other.factors);
        self
    }

    /// The product with the sign in its factor that is a sum, if it has exactly one; itself if it is a single factor.
    fn into_node(mut self) -> Node {
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
    fn substitute(&self, replace: &impl Fn(IndexId) -> Option<Affine>) -> Node {
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
fn number(a: &Affine) -> Node {
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

/// A tensor of truth values that only guards read, `gen binders. node`.
struct Truths {
    binders: Vec<IndexId>,
    node: Node,
}

/// Makes nodes of terms.
struct Reader<'a> {
    program: &'a Program,
    /// The `let`s that only guards mention, directly.
    only_in_guards: BTreeMap<VarId, bool>,
    comparisons: BTreeMap<VarId, Truths>,
    /// Where the elements of a `let` may be other than 0.
    supports: BTreeMap<VarId, (Vec<IndexId>, Vec<Pred>)>,
}

impl<'a> Reader<'a> {
    fn new(program: &'a Program) -> Self {
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

    fn node(&mut self, e: TermId) -> Node {
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

/// The loop, with the loops of the same kind directly inside it.
fn nest(kind: Kind, index: IndexId, extent: &Size, body: Node) -> Node {
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

/// One of the two programs, with common ids: of sizes, relations and functions those of the first program, of the rest numbers.
struct Side<'a> {
    program: &'a Program,
    first: &'a Program,
    vars: BTreeMap<VarId, VarId>,
    indices: BTreeMap<IndexId, IndexId>,
    /// The `let`s that are multiples of those of the other program, or have their axes in another order.
    altered: BTreeSet<VarId>,
}

impl<'a> Side<'a> {
    fn new(program: &'a Program, first: &'a Program) -> Self {
        let params = program.signature.params.ids().map(|p| (program.param(p), first.param(p))).collect();
        Side { program, first, vars: params, indices: BTreeMap::new(), altered: BTreeSet::new() }
    }

    /// A variable that is not bound on both sides is like no other.
    fn var(&self, x: VarId) -> VarId {
        self.vars.get(&x).copied().unwrap_or(VarId(u32::MAX))
    }

    fn size(&self, n: SizeId) -> SizeId {
        let name = &self.program.signature.sizes[n];
        let found = self.first.signature.sizes.iter().find(|(_, other)| *other == name);
        found.map_or(SizeId(u32::MAX), |(id, _)| id)
    }

    fn relation(&self, r: RelationRef) -> RelationRef {
        match r {
            RelationRef::Input(r) => {
                let name = &self.program.signature.relations[r].name;
                let found = self.first.signature.relations.iter().find(|(_, other)| other.name == *name);
                RelationRef::Input(found.map_or(RelationId(u32::MAX), |(id, _)| id))
            }
            // Of a `let` that is another only in essence, the relation is another.
            RelationRef::Computed { var, view } if self.altered.contains(&var) => {
                RelationRef::Computed { var: VarId(u32::MAX - 1), view }
            }
            RelationRef::Computed { var, view } => RelationRef::Computed { var: self.var(var), view },
        }
    }

    fn function(&self, f: Function) -> Function {
        let rename = |primitive| match primitive {
            Primitive::User(f) => {
                let name = self.program.signature.functions[f].name();
                let found = self.first.signature.functions.iter().find(|(_, other)| other.name() == name);
                Primitive::User(found.map_or(FunctionId(u32::MAX), |(id, _)| id))
            }
            op => op,
        };
        match f {
            Function::Value(primitive) => Function::Value(rename(primitive)),
            Function::Partial(primitive, k) => Function::Partial(rename(primitive), k),
        }
    }

    fn affine(&self, a: &Affine) -> Affine {
        let mut result = Affine::constant(a.offset());
        for (v, k) in a.terms() {
            let v = match v {
                Var::Index(i) => Var::Index(self.indices.get(i).copied().unwrap_or(IndexId(u32::MAX))),
                Var::Size(n) => Var::Size(self.size(*n)),
                Var::Apply(application) => Var::Apply(Box::new(Application {
                    map: self.relation(application.map),
                    args: application.args.iter().map(|a| self.affine(a)).collect(),
                })),
            };
            let term = Affine::var(v).scale(*k).expect("small numbers");
            result = result.add(&term).expect("small numbers");
        }
        result
    }

    /// `depth` numbers the `exists` around.
    fn pred(&mut self, p: &Pred, depth: u32) -> Pred {
        match p {
            Pred::True | Pred::False => p.clone(),
            Pred::NonNegative(a) => Pred::non_negative(self.affine(a)),
            Pred::Zero(a) => Pred::zero(self.affine(a)),
            Pred::NonZero(a) => Pred::non_zero(self.affine(a)),
            Pred::Relation { relation, args, holds } => Pred::Relation {
                relation: self.relation(*relation),
                args: args.iter().map(|a| self.affine(a)).collect(),
                holds: *holds,
            },
            Pred::All(ps) => Pred::all(ps.iter().map(|p| self.pred(p, depth)).collect::<Vec<_>>()),
            Pred::Any(ps) => Pred::any(ps.iter().map(|p| self.pred(p, depth)).collect::<Vec<_>>()),
            Pred::Exists { index, extent, body } => {
                let number = IndexId(u32::MAX - 1 - depth);
                let extent = self.affine(extent);
                self.indices.insert(*index, number);
                Pred::exists(number, extent, self.pred(body, depth + 1))
            }
        }
    }
}

struct Matcher<'a> {
    sides: [Side<'a>; 2],
    /// The next common id of a binder.
    next: u32,
    strictness: Strictness,
    /// How many times the `let` of the second program the one of the first is, by common id.
    scales: BTreeMap<VarId, f64>,
    /// Which axis of the `let` of the second program each axis of the one of the first is, by common id.
    layouts: BTreeMap<VarId, Vec<usize>>,
}

/// How many times the second the first is; or why it is no multiple.
type Scale = Result<f64, String>;

impl Matcher<'_> {
    fn node(&mut self, a: &Node, b: &Node) -> Scale {
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

/// What a node is, in a word.
fn kind(node: &Node) -> String {
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
