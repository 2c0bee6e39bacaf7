//! Programs written in Rust: closures for binders, overloaded operators, sizes as values.
//!
//! ```
//! use iverson::builder::{Builder, generate, let_, sum};
//!
//! let b = Builder::new();
//! let (n, m) = (b.size("n"), b.size("m"));
//! let x = b.param("x", [n + m - 1]);
//! let w = b.param("w", [m]);
//! let z = b.param("z", [n]);
//! let y = generate(n, |i| sum(m, |j| x[i - j + m - 1] * w[j]));
//! let loss = let_(y, |y| sum(n, |i| (y[i] - z[i]).powi(2)));
//! let ast = b.finish(loss)?;
//! assert_eq!(ast.decls.len(), 3);
//! # Ok::<(), iverson::Error>(())
//! ```
//!
//! [`Function::build`](crate::Function::build) compiles what [`Builder::finish`] gives, and [`Function::build_with`](crate::Function::build_with) what calls
//! functions in Rust, each a [`UserFunction`]: scalar ones with their partial derivatives as [`Formula`]s, and functions of tensors
//! [from outside](UserFunction::external) with their backpropagators.
//!
//! A [`Builder`] owns a graph; [`Expr`], [`Index`] and [`Guard`] are places in it, and are copied freely. `gen` is a word of the
//! Rust 2024 language, hence [`generate`].
//!
//! An element is `x[i]`, `x[(i, j + 1)]`, `x[[i, j]]`, or with a method `x.at([i, j])`. Where an index is expected, whole numbers of Rust can stand,
//! and where a real is, numbers, indices and sizes; on the left of an operator a whole number is an `i64`, and others an `f64`, so that `(2 * x).exp()` needs no
//! suffix: a `usize` stands on the right, `x * k`. Of indices and sizes `i / 2` and `i % 2` are floor division and remainder. Everything can be given by reference, and a list of expressions has a `sum`. Functions of the library on tensors are methods: `x.dot(&y)`, `a.matmul(b)`, `z.softmax()`.
//!
//! # From graph to tree
//!
//! An expression used several times is one node with several users, and [`Builder::finish`] makes the tree with `let`s that the
//! rest of the compiler expects. Names, literals, index expressions, predicates and plain reads such as `x[i]` cost nothing and
//! are repeated. Every other real or tensor expression `e` with several uses is bound once:
//!
//! ```text
//! d[.. e .. [p] * (.. e ..) ..]   becomes   let t = e in d[.. t .. [p] * (.. t ..) ..]
//! ```
//!
//! 1. *Where.* The `let` stands around the immediate dominator `d` of `e`: the lowest node that lies on every path from the root
//!    to `e`, or the next such node above it that is no predicate or index. A binder whose index `e` mentions lies on all
//!    those paths too, and so above `d`: the `let` never leaves a scope. If `x` uses `y` and both are bound around the same node,
//!    `y` comes first, since operands are older than their users.
//! 2. *Under which guard.* If all uses stand under brackets, or under binders whose range may be empty, then outside of them
//!    `e` may read out of bounds or divide by zero. So the value is `[q] * e`, where `q` is the union over the uses of what
//!    holds there: the brackets on the way from `d`, under `exists` for the binders on the way, and `0 < n` for a binder that no
//!    bracket follows. The body of a loop is one of these. `q` is an over-approximation at worst: a bracket is left out when it reads a value that is not bound
//!    around `d`, or a variable or state that is not in scope there, and `q` is dropped when it has more than [`MAX_GUARD`] nodes. That changes no value, as `t` is only read
//!    where the brackets hold.
//! 3. *Repeated after all* are real expressions inside an `exists` of a predicate that is itself repeated.
//!
//! Dominators come from one pass in reverse order with skew-binary ancestor pointers, so time is `O(n log n)` in the nodes; nothing
//! recurses.
//!
//! | file | job |
//! |---|---|
//! | `graph` | nodes and declarations |
//! | `handles` | places in the graph as values of Rust, and their operators |
//! | `places` | memory for what `x[i]` refers to |
//! | `expressions` | functions, accesses, comparisons, binders |
//! | `declared` | types, sparse parameters, relations, maps, scalar functions |
//! | `sharing` | which nodes are bound, where, and under which guard |
//! | `emit` | the tree |

mod declared;
mod emit;
mod expressions;
mod graph;
mod handles;
mod places;
mod sharing;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::panic::Location;

use rustc_hash::FxHashMap;

pub use self::declared::{DeclaredFunction, DeclaredRelation, Map, Sparse, Type};
use self::emit::Emit;
pub use self::expressions::{
    argmax, argmin, exists, fixpoint, fixpoint_at, fold, fold_down, generate, generate as r#gen, iterate, let_, max,
    mean, min, scan, scan_down, select, sum, unfold,
};
use self::graph::{BoundId, Declared, Graph, Kind, NodeId, Shape, Sort};
pub use self::handles::{Affine, Expr, Guard, Index, Place, Ranges, Real};
use self::places::Places;
use crate::base::{Format, Span};
use crate::error::{Diagnostic, Error, Result};
use crate::lexer::is_name;
pub use crate::scalar::external::Argument;
pub use crate::scalar::{Formula, Op, UserFunction};
use crate::surface::MAX_EXPRS;
use crate::surface::ast::{Ast, StorageKind};

/// The largest guard, in nodes, that is put around a shared value.
pub const MAX_GUARD: usize = 256;
/// The most guarded nodes between a use and its `let` that are looked at.
const MAX_STEPS: usize = 64;
/// The deepest nesting of such a guard.
const MAX_DEPTH: usize = 32;
/// The most disjuncts of a guard around a shared value.
const MAX_USES: usize = 16;

/// A program under construction: its declarations, and the graph of its expressions.
#[derive(Debug)]
pub struct Builder<'b> {
    graph: RefCell<Graph>,
    /// What `x[i]` refers to.
    exprs: Places<Expr<'b>>,
    indices: Places<Index<'b>>,
}

impl Default for Builder<'_> {
    fn default() -> Self {
        Builder::new()
    }
}

impl<'b> Builder<'b> {
    /// An empty program.
    pub fn new() -> Self {
        let mut graph = Graph::default();
        // What stands for anything that could not be built is node 0.
        graph.push(Kind::Error, Sort::Real, vec![]);
        Builder { graph: RefCell::new(graph), exprs: Places::default(), indices: Places::default() }
    }

    #[track_caller]
    fn problem(&self, code: &'static str, message: impl Into<String>) {
        self.graph.borrow_mut().problems.push(Diagnostic::new(code, Span::default(), message).at(Location::caller()));
    }

    #[track_caller]
    fn name(&self, name: &str) -> String {
        if !is_name(name) {
            self.problem("bad-name", format!("expected a name of letters, digits, `_` and `'`, found `{name}`"));
        }
        self.graph.borrow_mut().names.insert(name.to_string());
        name.to_string()
    }

    #[track_caller]
    fn nodes(&'b self, place: impl Place<'b>) -> Vec<NodeId> {
        let mut nodes = Vec::new();
        for index in place.indices(self) {
            nodes.push(index.within(self));
        }
        nodes
    }

    #[track_caller]
    fn bound_index(&'b self) -> (BoundId, Index<'b>) {
        let bound = self.graph.borrow_mut().bound();
        (bound, Index::make(self, Kind::Bound(bound), vec![]))
    }

    #[track_caller]
    fn declare(&self, decl: Declared) {
        self.graph.borrow_mut().decls.push((decl, Location::caller()));
    }

    /// The size variable of this name.
    #[track_caller]
    pub fn size(&'b self, name: &str) -> Index<'b> {
        Index::make(self, Kind::Name(self.name(name)), vec![])
    }

    /// A constant index or size.
    #[track_caller]
    pub fn index(&'b self, value: i64) -> Index<'b> {
        let id = self.graph.borrow_mut().number(value as f64, Some(value), Sort::Index);
        Index { builder: self, id }
    }

    /// A constant.
    #[track_caller]
    pub fn real(&'b self, value: f64) -> Expr<'b> {
        let id = self.graph.borrow_mut().number(value, None, Sort::Real);
        Expr { builder: self, id }
    }

    /// The type `real`.
    #[track_caller]
    pub fn real_type(&'b self) -> Type<'b> {
        Type { builder: self, shape: Shape::Real, depth: 0 }
    }

    #[track_caller]
    fn declare_param(&'b self, name: &str, storage: StorageKind, ty: Type<'b>) -> Expr<'b> {
        let name = self.name(name);
        if !std::ptr::eq(ty.builder, self) {
            self.problem("foreign-expression", "expected expressions of one builder, found a type of another builder");
        } else {
            self.declare(Declared::Param { name: name.clone(), storage, ty: ty.shape });
        }
        Expr::make(self, Kind::Name(name), vec![])
    }

    /// `param name : real`
    #[track_caller]
    pub fn scalar(&'b self, name: &str) -> Expr<'b> {
        self.declare_param(name, StorageKind::Dense, self.real_type())
    }

    /// `param name : [n, ..] real`
    #[track_caller]
    pub fn param(&'b self, name: &str, shape: impl Place<'b>) -> Expr<'b> {
        self.declare_param(name, StorageKind::Dense, self.real_type().tensor(shape))
    }

    /// `param name : ty`
    #[track_caller]
    pub fn param_of(&'b self, name: &str, ty: Type<'b>) -> Expr<'b> {
        self.declare_param(name, StorageKind::Dense, ty)
    }

    /// `param name : csr [m, n] real`
    #[track_caller]
    pub fn csr(&'b self, name: &str, shape: impl Place<'b>) -> Sparse<'b> {
        Sparse { tensor: self.declare_param(name, StorageKind::Sparse(Format::Csr), self.real_type().tensor(shape)) }
    }

    /// `param name : csc [m, n] real`
    #[track_caller]
    pub fn csc(&'b self, name: &str, shape: impl Place<'b>) -> Sparse<'b> {
        Sparse { tensor: self.declare_param(name, StorageKind::Sparse(Format::Csc), self.real_type().tensor(shape)) }
    }

    /// `param name : coo [n, ..] real`
    #[track_caller]
    pub fn coo(&'b self, name: &str, shape: impl Place<'b>) -> Sparse<'b> {
        Sparse { tensor: self.declare_param(name, StorageKind::Sparse(Format::Coo), self.real_type().tensor(shape)) }
    }

    /// `rel name : [n, ..]`
    #[track_caller]
    pub fn relation(&'b self, name: &str, shape: impl Place<'b>) -> DeclaredRelation<'b> {
        let (name, shape) = (self.name(name), self.nodes(shape));
        self.declare(Declared::Relation { name: name.clone(), shape });
        DeclaredRelation { builder: self, name }
    }

    /// `map name : [p, ..] -> [c]`
    #[track_caller]
    pub fn map(&'b self, name: &str, source: impl Place<'b>, target: impl Affine<'b>) -> Map<'b> {
        let (name, source) = (self.name(name), self.nodes(source));
        let target = target.index(self).within(self);
        self.declare(Declared::Map { name: name.clone(), source, target });
        Map { builder: self, name }
    }

    /// `assume pred`
    #[track_caller]
    pub fn assume(&'b self, pred: Guard<'b>) {
        let pred = pred.within(self);
        self.declare(Declared::Assume { pred });
    }

    /// `fun name(a, ..) = value with (da, ..)`: a scalar function that counts as one operation. `value` gets the arguments,
    /// `partials` the arguments and the value.
    #[track_caller]
    pub fn fun<const N: usize>(
        &'b self,
        name: &str,
        params: [&str; N],
        value: impl FnOnce([Expr<'b>; N]) -> Expr<'b>,
        partials: impl FnOnce([Expr<'b>; N], Expr<'b>) -> [Expr<'b>; N],
    ) -> DeclaredFunction<'b> {
        let name = self.name(name);
        let names = params.map(|param| param.to_owned());
        for name in &names {
            self.name(name);
        }
        let args = names.each_ref().map(|name| Expr::make(self, Kind::Name(name.clone()), vec![]));
        let value = value(args).within(self);
        let result = Expr::make(self, Kind::Name(self.name("result")), vec![]);
        let partials = partials(args, result).map(|partial| partial.within(self)).to_vec();
        self.declare(Declared::Fun { name: name.clone(), params: names.to_vec(), value, partials });
        DeclaredFunction { builder: self, name }
    }

    /// `name(a, ..)`: a function of the library, such as `dot`.
    #[track_caller]
    pub fn call<R: Real<'b>>(&'b self, name: &str, args: impl IntoIterator<Item = R>) -> Expr<'b> {
        let mut operands = Vec::new();
        for arg in args {
            operands.push(arg.real(self).within(self));
        }
        Expr::make(self, Kind::Call(self.name(name)), operands)
    }

    /// The program with this value. The builder can go on to be used.
    ///
    /// # Errors
    /// [`Error::Program`] for names that are no names, for parts of other builders, and for an index or a variable used outside
    /// of the closure that received it; [`Error::Limit`] if the program is too large.
    #[track_caller]
    pub fn finish(&'b self, body: impl Real<'b>) -> Result<Ast> {
        let body = body.real(self).within(self);
        let graph = self.graph.borrow();
        if graph.too_large {
            return Err(Error::Limit { what: "expressions", limit: MAX_EXPRS as u64, found: MAX_EXPRS as u64 + 1 });
        }
        if !graph.problems.is_empty() {
            return Err(Error::Program(graph.problems.clone()));
        }
        let mut emit = Emit {
            graph: &graph,
            ast: Ast::default(),
            names: FxHashMap::default(),
            n_indices: 0,
            n_variables: 0,
            escaped: None,
            numbers: FxHashMap::default(),
            span: Span::default(),
        };
        for (decl, caller) in &graph.decls {
            let decl = emit.decl(decl, caller)?;
            emit.ast.decls.push(decl);
        }
        let body = emit.tree(body)?;
        emit.ast.body = Some(body);
        if let Some(caller) = emit.escaped {
            return Err(Error::Program(vec![
                Diagnostic::new(
                    "escaped-index",
                    Span::default(),
                    "expected an index or variable inside of the closure that received it, found a use outside",
                )
                .help("move the expression that uses it into the closure")
                .at(caller),
            ]));
        }
        Ok(emit.ast)
    }
}
