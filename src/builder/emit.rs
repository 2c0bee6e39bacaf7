//! Writes the tree of a graph; see the [parent module](super). Works on an explicit stack: depth costs no call stack.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::graph::{BoundId, Caller, Declared, Graph, Kind, Node, NodeId, Shape, Sort};
use super::sharing::{Fact, Formula, Sharing, check_size};
use crate::base::Span;
use crate::error::{Error, Result};
use crate::surface::MAX_TYPE_NESTING;
use crate::surface::ast::{self, Ast, BinaryOp, BinderKind, Decl, ExprId, Name, TypeExpr, TypeKind, UnaryOp};

/// What is left to do while a tree is written; results are on a stack of their own.
enum Work {
    /// Writes a use of a node.
    Use(NodeId),
    /// Writes a node with the `let`s around it.
    Define(NodeId),
    /// Writes a node whose operands are on the stack.
    Build(NodeId),
    Enter(BoundId),
    Leave(BoundId),
    /// Takes a value and the body off the stack, for each node bound here.
    Lets(NodeId),
    /// Takes a guard and the body off the stack.
    Wrap,
    Fact(Rc<Fact>),
    BuildFact(Rc<Fact>),
}

pub(super) struct Emit<'g> {
    pub(super) graph: &'g Graph,
    pub(super) ast: Ast,
    pub(super) names: FxHashMap<BoundId, String>,
    pub(super) n_indices: usize,
    pub(super) n_variables: usize,
    pub(super) escaped: Option<Caller>,
    /// Where each line of Rust is in the list of the tree.
    pub(super) numbers: FxHashMap<Caller, u32>,
    /// The line that what is written now comes from.
    pub(super) span: Span,
}

/// One tree while it is written.
struct Tree<'g> {
    sharing: Sharing<'g>,
    /// The nodes that are bound around a node, in order.
    lets_at: FxHashMap<NodeId, Vec<NodeId>>,
    /// What the values of bound nodes are guarded by.
    wrappers: FxHashMap<NodeId, Rc<Fact>>,
    /// The names of bound nodes.
    names: FxHashMap<NodeId, String>,
    in_scope: FxHashSet<BoundId>,
    results: Vec<ExprId>,
    work: Vec<Work>,
}

impl<'g> Tree<'g> {
    fn new(graph: &'g Graph, root: NodeId) -> Result<Self> {
        let sharing = Sharing::new(graph, root)?;
        let mut lets_at: FxHashMap<NodeId, Vec<NodeId>> = FxHashMap::default();
        let mut wrappers: FxHashMap<NodeId, Rc<Fact>> = FxHashMap::default();
        for (k, id) in sharing.nodes.iter().enumerate().filter(|(k, _)| sharing.bound[*k]) {
            lets_at.entry(sharing.nodes[sharing.site[k]]).or_default().push(*id);
            wrappers.extend(sharing.wrapper(k).map(|fact| (*id, fact)));
        }
        Ok(Tree {
            sharing,
            lets_at,
            wrappers,
            names: FxHashMap::default(),
            in_scope: FxHashSet::default(),
            results: Vec::new(),
            work: vec![Work::Define(root)],
        })
    }

    fn is_bound(&self, id: NodeId) -> bool {
        self.sharing.local.get(&id).is_some_and(|k| self.sharing.bound[*k])
    }

    /// The work of a guard.
    fn define_fact(&mut self, fact: Rc<Fact>) {
        let start = self.work.len();
        match &fact.formula {
            Formula::Guard(guard) | Formula::NotGuard(guard) => self.work.push(Work::Use(*guard)),
            Formula::NotEmpty(extent) => self.work.push(Work::Use(*extent)),
            Formula::And(a, b) | Formula::Or(a, b) => {
                self.work.extend([Work::Fact(a.clone()), Work::Fact(b.clone())]);
            }
            Formula::Exists(bound, extent, inner) => self.work.extend([
                Work::Use(*extent),
                Work::Enter(*bound),
                Work::Fact(inner.clone()),
                Work::Leave(*bound),
            ]),
        }
        self.work.push(Work::BuildFact(fact));
        self.work[start..].reverse();
    }
}

impl Emit<'_> {
    pub(super) fn decl(&mut self, decl: &Declared, caller: Caller) -> Result<Decl> {
        self.set_caller(caller);
        let span = self.span;
        let written = |text: &str| Name { text: text.to_string(), span };
        Ok(match decl {
            Declared::Param { name, storage, ty } => {
                Decl::Param { name: written(name), storage: *storage, like: None, ty: self.ty(ty)? }
            }
            Declared::Relation { name, shape } => Decl::Relation { name: written(name), shape: self.trees(shape)? },
            Declared::Map { name, source, target } => {
                Decl::Map { name: written(name), source: self.trees(source)?, target: self.tree(*target)? }
            }
            Declared::Assume { pred } => Decl::Assume { pred: self.tree(*pred)? },
            Declared::Fun { name, params, value, partials } => Decl::Fun {
                name: written(name),
                params: params.iter().map(|name| written(name)).collect(),
                value: self.tree(*value)?,
                partials: self.trees(partials)?,
            },
        })
    }

    /// Types nest to [`MAX_TYPE_NESTING`].
    fn ty(&mut self, shape: &Shape) -> Result<TypeExpr> {
        let kind = match shape {
            Shape::Real => TypeKind::Real,
            Shape::Tensor(sizes, item) => TypeKind::Tensor(self.trees(sizes)?, Box::new(self.ty(item)?)),
            Shape::Pair(a, b) => TypeKind::Pair(Box::new(self.ty(a)?), Box::new(self.ty(b)?)),
            Shape::TooDeep => {
                let limit = MAX_TYPE_NESTING as u64;
                return Err(Error::Limit { what: "nesting of a type", limit, found: limit + 1 });
            }
        };
        Ok(TypeExpr { kind, span: self.span })
    }

    fn trees(&mut self, roots: &[NodeId]) -> Result<Vec<ExprId>> {
        roots.iter().map(|root| self.tree(*root)).collect()
    }

    fn bound_name(&mut self, bound: BoundId, is_index: bool) -> String {
        if let Some(name) = self.names.get(&bound) {
            return name.clone();
        }
        let name = self.fresh_name(is_index);
        self.names.insert(bound, name.clone());
        name
    }

    /// The name of an index or variable: unlike all names of the user and all others of its kind.
    fn fresh_name(&mut self, is_index: bool) -> String {
        let letters: &[&str] = if is_index { &["i", "j", "k", "l", "o", "q"] } else { &["t"] };
        let next = if is_index { &mut self.n_indices } else { &mut self.n_variables };
        loop {
            let (letter, round) = (letters[*next % letters.len()], *next / letters.len());
            *next += 1;
            let name = if round == 0 { letter.to_string() } else { format!("{letter}{round}") };
            if !self.graph.names.contains(&name) {
                return name;
            }
        }
    }

    /// What is written from now on comes from this line.
    fn set_caller(&mut self, caller: Caller) {
        let number = *self.numbers.entry(caller).or_insert_with(|| {
            self.ast.callers.push(caller);
            self.ast.callers.len() as u32
        });
        self.span = Span { start: number, end: number };
    }

    fn push(&mut self, expr: ast::Expr) -> ExprId {
        self.ast.push(expr, self.span)
    }

    fn name(&mut self, text: String) -> Name {
        Name { text, span: self.span }
    }

    /// Writes the tree of a root. `[[d]] = let t = [q] * [[e]] in .. d`, where `e, ..` are bound around `d`, and a use of `e` is `t`.
    pub(super) fn tree(&mut self, root: NodeId) -> Result<ExprId> {
        let mut tree = Tree::new(self.graph, root)?;
        check_size(self.ast.exprs.len() as u64 + tree.wrappers.values().map(|fact| fact.size as u64 + 1).sum::<u64>())?;
        while let Some(item) = tree.work.pop() {
            match item {
                Work::Use(id) if tree.is_bound(id) => {
                    let name = tree.names.get(&id).cloned().unwrap_or_default();
                    let name = self.push(ast::Expr::Name(name));
                    tree.results.push(name);
                }
                Work::Use(id) => tree.work.push(Work::Define(id)),
                Work::Define(id) => self.define(&mut tree, id),
                Work::Enter(bound) => {
                    tree.in_scope.insert(bound);
                }
                Work::Leave(bound) => {
                    tree.in_scope.remove(&bound);
                }
                Work::Build(id) => {
                    let node = &self.graph.nodes[id as usize];
                    self.set_caller(node.caller);
                    let operands = tree.results.split_off(tree.results.len().saturating_sub(node.operands.len()));
                    if let Kind::Bound(bound) = node.kind
                        && !tree.in_scope.contains(&bound)
                    {
                        self.escaped.get_or_insert(node.caller);
                    }
                    let inner = match (&node.kind, node.operands.as_slice()) {
                        (Kind::Arg(..), [_, values]) => self.inner_gen(&tree, *values),
                        _ => None,
                    };
                    let built = self.build(node, &operands, inner.map(|(bound, _)| bound))?;
                    tree.results.push(built);
                }
                Work::Lets(id) => {
                    let mut body = pop(&mut tree.results)?;
                    for bound in tree.lets_at.get(&id).into_iter().flatten().rev() {
                        let value = pop(&mut tree.results)?;
                        let name = self.name(tree.names.get(bound).cloned().unwrap_or_default());
                        body = self.push(ast::Expr::Let { name, value, body });
                    }
                    tree.results.push(body);
                }
                Work::Wrap => {
                    let (body, guard) = (pop(&mut tree.results)?, pop(&mut tree.results)?);
                    let wrapped = self.push(ast::Expr::Iverson { guard, body });
                    tree.results.push(wrapped);
                }
                Work::Fact(fact) => tree.define_fact(fact),
                Work::BuildFact(fact) => {
                    let built = self.build_fact(&fact, &mut tree.results)?;
                    tree.results.push(built);
                }
            }
        }
        pop(&mut tree.results)
    }

    /// The work of a node with the `let`s around it.
    fn define(&mut self, tree: &mut Tree<'_>, id: NodeId) {
        let node = &self.graph.nodes[id as usize];
        let start = tree.work.len();
        for bound in tree.lets_at.get(&id).into_iter().flatten() {
            let name = self.fresh_name(false);
            tree.names.insert(*bound, name);
            // The guard, then the value, then both together.
            if let Some(fact) = tree.wrappers.get(bound) {
                tree.work.push(Work::Fact(fact.clone()));
                tree.work.push(Work::Define(*bound));
                tree.work.push(Work::Wrap);
            } else {
                tree.work.push(Work::Define(*bound));
            }
        }
        match (&node.kind, node.operands.as_slice()) {
            (Kind::Binder(_, bound) | Kind::Let(bound), [first, body]) => {
                tree.work.extend([Work::Use(*first), Work::Enter(*bound), Work::Use(*body), Work::Leave(*bound)])
            }
            (Kind::Scan { index, state, .. }, [steps, init, body]) => tree.work.extend([
                Work::Use(*steps),
                Work::Use(*init),
                Work::Enter(*index),
                Work::Enter(*state),
                Work::Use(*body),
                Work::Leave(*state),
                Work::Leave(*index),
            ]),
            (Kind::Arg(..), [extent, values]) => match self.inner_gen(tree, *values) {
                Some((bound, body)) => {
                    tree.work.extend([Work::Use(*extent), Work::Enter(bound), Work::Use(body), Work::Leave(bound)])
                }
                None => tree.work.extend([Work::Use(*extent), Work::Use(*values)]),
            },
            (_, operands) => tree.work.extend(operands.iter().map(|operand| Work::Use(*operand))),
        }
        tree.work.push(Work::Build(id));
        if tree.lets_at.contains_key(&id) {
            tree.work.push(Work::Lets(id));
        }
        // Done from the first to the last.
        tree.work[start..].reverse();
    }

    /// A guard whose parts are on the stack.
    fn build_fact(&mut self, fact: &Fact, results: &mut Vec<ExprId>) -> Result<ExprId> {
        let last = pop(results)?;
        Ok(match fact.formula {
            Formula::Guard(_) => last,
            Formula::NotGuard(_) => self.push(ast::Expr::Unary(UnaryOp::Not, last)),
            Formula::NotEmpty(_) => {
                let zero = self.push(ast::Expr::Number { value: 0.0, integer: Some(0) });
                self.push(ast::Expr::Binary(BinaryOp::Less, zero, last))
            }
            Formula::And(..) => {
                let first = pop(results)?;
                self.push(ast::Expr::Binary(BinaryOp::And, first, last))
            }
            Formula::Or(..) => {
                let first = pop(results)?;
                self.push(ast::Expr::Binary(BinaryOp::Or, first, last))
            }
            Formula::Exists(bound, ..) => {
                let extent = pop(results)?;
                let name = self.bound_name(bound, true);
                let index = self.name(name);
                self.push(ast::Expr::Binder { kind: BinderKind::Exists, index, extent, body: last })
            }
        })
    }

    /// The index and body of the values of an `argmax`, if they stand in it and nowhere else.
    fn inner_gen(&self, tree: &Tree<'_>, values: NodeId) -> Option<(BoundId, NodeId)> {
        let node = self.graph.nodes.get(values as usize)?;
        match (&node.kind, node.operands.as_slice()) {
            (Kind::Binder(BinderKind::Gen, bound), [_, body])
                if !tree.is_bound(values) && !tree.lets_at.contains_key(&values) =>
            {
                Some((*bound, *body))
            }
            _ => None,
        }
    }

    fn build(&mut self, node: &Node, operands: &[ExprId], inner: Option<BoundId>) -> Result<ExprId> {
        let is_index = node.sort == Sort::Index;
        let expr = match (&node.kind, operands) {
            (Kind::Error, _) => ast::Expr::Error,
            (Kind::Number { value, integer }, _) => ast::Expr::Number { value: *value, integer: *integer },
            (Kind::Name(name), _) => ast::Expr::Name(name.clone()),
            (Kind::Bound(bound), _) => ast::Expr::Name(self.bound_name(*bound, is_index)),
            (Kind::Unary(op), [a]) => ast::Expr::Unary(*op, *a),
            (Kind::Binary(op), [a, b]) => ast::Expr::Binary(*op, *a, *b),
            (Kind::Iverson, [guard, body]) => ast::Expr::Iverson { guard: *guard, body: *body },
            (Kind::Call(callee), args) => {
                let callee = self.name(callee.clone());
                ast::Expr::Call { callee, args: args.to_vec() }
            }
            (Kind::Access, [array, indices @ ..]) => ast::Expr::Access { array: *array, indices: indices.to_vec() },
            (Kind::Pair, [a, b]) => ast::Expr::Pair(*a, *b),
            (Kind::Fst, [a]) => ast::Expr::Fst(*a),
            (Kind::Snd, [a]) => ast::Expr::Snd(*a),
            (Kind::Binder(kind, bound), [extent, body]) => {
                let name = self.bound_name(*bound, true);
                ast::Expr::Binder { kind: *kind, index: self.name(name), extent: *extent, body: *body }
            }
            (Kind::Arg(kind, bound), [extent, values]) => {
                let name = self.bound_name(inner.unwrap_or(*bound), true);
                let mut body = *values;
                if inner.is_none() {
                    let index = self.push(ast::Expr::Name(name.clone()));
                    body = self.push(ast::Expr::Access { array: *values, indices: vec![index] });
                }
                ast::Expr::Binder { kind: *kind, index: self.name(name), extent: *extent, body }
            }
            (Kind::Let(bound), [value, body]) => {
                let name = self.bound_name(*bound, false);
                ast::Expr::Let { name: self.name(name), value: *value, body: *body }
            }
            (Kind::Scan { kind, down, index, state }, [steps, init, body]) => {
                let (index, state) = (self.bound_name(*index, true), self.bound_name(*state, false));
                let (index, state) = (self.name(index), self.name(state));
                ast::Expr::Scan { kind: *kind, down: *down, index, steps: *steps, state, init: *init, body: *body }
            }
            _ => return Err(Error::bug("builder", "a node has the wrong number of operands")),
        };
        Ok(self.push(expr))
    }
}

fn pop(results: &mut Vec<ExprId>) -> Result<ExprId> {
    results.pop().ok_or_else(|| Error::bug("builder", "an operand is missing"))
}
