//! What was written: names, spans, no meaning. Data only.
//!
//! The parser and the Rust builder both make an [`Ast`]; elaboration gives it meaning. Real expressions, index expressions and
//! predicates share one grammar and one type here; the elaborator tells them apart by where they stand.

use std::panic::Location;

use rustc_hash::FxHashSet;

use crate::base::{Arena, Format, Span};
use crate::error::{Diagnostic, Origin};

crate::base::define_id!(
    /// An expression of an [`Ast`].
    ExprId,
    "a"
);

/// A name and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The text.
    pub text: String,
    /// Its place.
    pub span: Span,
}

/// An expression. Operands come before their users in the arena; an expression made by the Rust builder may have several users.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A literal; `integer` where it was written without point and exponent and fits.
    Number {
        /// Its value as a real.
        value: f64,
        /// Its value as an integer.
        integer: Option<i64>,
    },
    /// A variable, an index or a size.
    Name(String),
    /// `-e`, `not e`, `A'`.
    Unary(UnaryOp, ExprId),
    /// `a + b`, `a <= b`, `a and b`, ..
    Binary(BinaryOp, ExprId, ExprId),
    /// `[guard] * body`.
    Iverson {
        /// The predicate.
        guard: ExprId,
        /// The body.
        body: ExprId,
    },
    /// `f(a, ..)`: a scalar function, a `def`, a relation, a map, `select(p, a, b)`, `real(a)`, the pattern `A?(i, j)` (the
    /// callee is `A?`) or the stored value `A.value(i, j)` (the callee is `A.value`).
    Call {
        /// What is called.
        callee: Name,
        /// With what.
        args: Vec<ExprId>,
    },
    /// `x[i, j]`, one or more indices.
    Access {
        /// The tensor.
        array: ExprId,
        /// The indices.
        indices: Vec<ExprId>,
    },
    /// A whole axis: the `:` of `x[i, :]`. Stands among the indices of an access only.
    All,
    /// A part of an axis: the `a:b` of `x[a:b]`, or `a:b:k` with a step, of which each may be missing. Stands where [`Expr::All`] does.
    Part {
        /// Its first place.
        from: Option<ExprId>,
        /// The place behind its last one.
        to: Option<ExprId>,
        /// From each place to the next.
        step: Option<ExprId>,
    },
    /// `(a, b)`; `(a, b, c)` is `(a, (b, c))`.
    Pair(ExprId, ExprId),
    /// `fst e`.
    Fst(ExprId),
    /// `snd e`.
    Snd(ExprId),
    /// `gen i < n. e` and the other binders; several indices nest.
    Binder {
        /// Which.
        kind: BinderKind,
        /// The bound index.
        index: Name,
        /// Its range.
        extent: ExprId,
        /// The body.
        body: ExprId,
    },
    /// `let x = value in body`. A pattern is several of them, `let p = value in let a = fst p in ..`.
    Let {
        /// The bound variable.
        name: Name,
        /// Its value.
        value: ExprId,
        /// Where it is in scope.
        body: ExprId,
    },
    /// `scan index < steps, state = init. body`, or `fold` alike, which gives the last state only. A pattern in the place of the state is a
    /// variable, with `let a = fst p in ..` around the body. `iterate state = init while c, at most steps. e` has the body `if c then e else state`,
    /// and an index that nobody can write. `fixpoint state = init, at most steps. e` has one, too, and one step, whatever `steps` is. The state of
    /// `unfold state = init while c, at most steps. e` is a pair with the number of steps made, `if c then (e, k + 1) else (state, k)`.
    Scan {
        /// Which.
        kind: LoopKind,
        /// Whether the index runs from the last to the first.
        down: bool,
        /// The bound index, in scope in the body.
        index: Name,
        /// How many steps there are.
        steps: ExprId,
        /// The state before the step, in scope in the body.
        state: Name,
        /// The state at the beginning.
        init: ExprId,
        /// The state after the step.
        body: ExprId,
    },
    /// `fn x, y : [n] real. e`: a function. None is left once names have their meaning.
    Function {
        /// Its parameters; one whose type is not written is `real`.
        params: Vec<(Name, TypeExpr)>,
        /// Its body.
        body: ExprId,
    },
    /// `e(a, ..)`, where what is called is no name.
    Apply {
        /// What is called.
        function: ExprId,
        /// With what.
        args: Vec<ExprId>,
    },
    /// A value with the type that is written at its name: `let k : index n = e`. What is known to be of the type, as a part of a state is, is
    /// `trusted`; of others it is proved.
    Typed {
        /// The value.
        value: ExprId,
        /// Its type.
        ty: TypeExpr,
        /// Whether nothing is to be proved.
        trusted: bool,
    },
    /// `case e of circle(r) -> a | nothing -> b`
    Case {
        /// What is taken apart.
        value: ExprId,
        /// An arm for each constructor.
        arms: Vec<Arm>,
    },
    /// What the parser puts where it could not read an expression; it has reported the problem.
    Error,
}

impl Expr {
    /// Calls `visit` on the operands in the order in which they are written.
    pub fn for_each_operand(&self, mut visit: impl FnMut(ExprId)) {
        match self {
            Expr::Number { .. } | Expr::Name(_) | Expr::All | Expr::Error => {}
            Expr::Unary(_, a) | Expr::Fst(a) | Expr::Snd(a) => visit(*a),
            Expr::Binary(_, a, b) | Expr::Pair(a, b) => [*a, *b].into_iter().for_each(visit),
            Expr::Part { from, to, step } => [from, to, step].into_iter().flatten().copied().for_each(visit),
            Expr::Iverson { guard, body } => [*guard, *body].into_iter().for_each(visit),
            Expr::Call { args, .. } => args.iter().copied().for_each(visit),
            Expr::Access { array, indices } => {
                visit(*array);
                indices.iter().copied().for_each(visit);
            }
            Expr::Binder { extent, body, .. } => [*extent, *body].into_iter().for_each(visit),
            Expr::Let { value, body, .. } => [*value, *body].into_iter().for_each(visit),
            Expr::Scan { steps, init, body, .. } => [*steps, *init, *body].into_iter().for_each(visit),
            Expr::Function { body, .. } => visit(*body),
            Expr::Typed { value, .. } => visit(*value),
            Expr::Case { value, arms } => {
                std::iter::once(*value).chain(arms.iter().map(|arm| arm.body)).for_each(visit)
            }
            Expr::Apply { function, args } => {
                visit(*function);
                args.iter().copied().for_each(visit);
            }
        }
    }

    /// The same expression over other operands.
    pub fn map_operands(&self, map: impl Fn(ExprId) -> ExprId) -> Expr {
        let mut copy = self.clone();
        let renew = |e: &mut ExprId| *e = map(*e);
        match &mut copy {
            Expr::Number { .. } | Expr::Name(_) | Expr::All | Expr::Error => {}
            Expr::Unary(_, a) | Expr::Fst(a) | Expr::Snd(a) => renew(a),
            Expr::Binary(_, a, b) | Expr::Pair(a, b) => [a, b].into_iter().for_each(renew),
            Expr::Part { from, to, step } => [from, to, step].into_iter().flatten().for_each(renew),
            Expr::Iverson { guard, body } => [guard, body].into_iter().for_each(renew),
            Expr::Call { args, .. } => args.iter_mut().for_each(renew),
            Expr::Access { array, indices } => std::iter::once(array).chain(indices).for_each(renew),
            Expr::Binder { extent, body, .. } => [extent, body].into_iter().for_each(renew),
            Expr::Let { value, body, .. } => [value, body].into_iter().for_each(renew),
            Expr::Scan { steps, init, body, .. } => [steps, init, body].into_iter().for_each(renew),
            Expr::Function { body, .. } => renew(body),
            Expr::Typed { value, .. } => renew(value),
            Expr::Case { value, arms } => {
                std::iter::once(value).chain(arms.iter_mut().map(|arm| &mut arm.body)).for_each(renew);
            }
            Expr::Apply { function, args } => std::iter::once(function).chain(args).for_each(renew),
        }
        copy
    }
}

/// An arm of a `case`.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// The constructor.
    pub constructor: Name,
    /// The names of its fields.
    pub names: Vec<Name>,
    /// The value.
    pub body: ExprId,
}

/// A constructor of a sum type, with the types of its fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Constructor {
    /// Its name.
    pub name: Name,
    /// The types of its fields.
    pub fields: Vec<TypeExpr>,
}

/// A prefix operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `-`
    Neg,
    /// `not`
    Not,
    /// `'`
    Transpose,
}

/// An infix operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    /// `a // k` of indices and sizes.
    FloorDiv,
    /// `a % k` of indices and sizes.
    Rem,
    Pow,
    MatMul,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
    And,
    Or,
}

/// A construct that goes on from state to state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LoopKind {
    Fold,
    Scan,
    Iterate,
    Fixpoint,
    Unfold,
}

impl LoopKind {
    /// The word that it begins with.
    pub fn word(self) -> &'static str {
        match self {
            LoopKind::Fold => "fold",
            LoopKind::Scan => "scan",
            LoopKind::Iterate => "iterate",
            LoopKind::Fixpoint => "fixpoint",
            LoopKind::Unfold => "unfold",
        }
    }
}

/// A construct that binds an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BinderKind {
    Gen,
    Sum,
    Max,
    Min,
    ArgMax,
    ArgMin,
    Exists,
}

impl BinderKind {
    /// The word that it begins with.
    pub fn word(self) -> &'static str {
        match self {
            BinderKind::Gen => "gen",
            BinderKind::Sum => "sum",
            BinderKind::Max => "max",
            BinderKind::Min => "min",
            BinderKind::ArgMax => "argmax",
            BinderKind::ArgMin => "argmin",
            BinderKind::Exists => "exists",
        }
    }
}

/// A type as written.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeExpr {
    /// What it is.
    pub kind: TypeKind,
    /// Its place.
    pub span: Span,
}

/// The forms of types. Types nest to a depth that the parser limits.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeKind {
    /// `real`
    Real,
    /// `[n, m] T`
    Tensor(Vec<ExprId>, Box<TypeExpr>),
    /// `(T, U)`
    Pair(Box<TypeExpr>, Box<TypeExpr>),
    /// `index n`: an integer from 0 on, below a size.
    Index(ExprId),
    /// A sum type by its name, and the pairs that represent it.
    Sum(Name, Box<TypeExpr>),
    /// Any type: none is written.
    Inferred,
    /// `T -> U`, `(T, U) -> V`
    Function(Vec<TypeExpr>, Box<TypeExpr>),
}

impl TypeExpr {
    /// Whether functions are among the values of the type.
    pub(super) fn has_function(&self) -> bool {
        match &self.kind {
            TypeKind::Real | TypeKind::Index(_) | TypeKind::Inferred => false,
            TypeKind::Sum(_, pairs) => pairs.has_function(),
            TypeKind::Tensor(_, element) => element.has_function(),
            TypeKind::Pair(a, b) => a.has_function() || b.has_function(),
            TypeKind::Function(..) => true,
        }
    }
}

/// How a parameter is stored, as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum StorageKind {
    Dense,
    Sparse(Format),
}

impl StorageKind {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            StorageKind::Dense => "dense",
            StorageKind::Sparse(format) => format.name(),
        }
    }
}

/// A declaration.
#[derive(Clone, Debug, PartialEq)]
pub enum Decl {
    /// `param x : T`, `param A : csr [m, n] real`, `param dA : csr(A) [m, n] real`.
    Param {
        /// The parameter.
        name: Name,
        /// How it is stored.
        storage: StorageKind,
        /// The sparse parameter whose pattern it has, where it does not bring its own: `csr(A)`.
        like: Option<Name>,
        /// Its type.
        ty: TypeExpr,
    },
    /// `type shape = circle real | box (real, real) | nothing`.
    Type {
        /// The type.
        name: Name,
        /// Its constructors, in order.
        constructors: Vec<Constructor>,
    },
    /// `param s : [n] shape`: a map `s_tag` to the constructors, and a parameter for each field, as `s_circle` and `s_box_0`.
    Sum {
        /// The parameter.
        name: Name,
        /// Its axes.
        axes: Vec<ExprId>,
        /// Its type.
        ty: Name,
        /// The name of the map, and how many constructors there are.
        tag: (Name, ExprId),
        /// The parameters of the fields, in the order of the constructors.
        fields: Vec<(Name, TypeExpr)>,
    },
    /// `rel E : [n, m]`.
    Relation {
        /// The relation.
        name: Name,
        /// Its shape.
        shape: Vec<ExprId>,
    },
    /// `map cam : [p] -> [c]`.
    Map {
        /// The map.
        name: Name,
        /// The ranges of its arguments.
        source: Vec<ExprId>,
        /// The range of its target.
        target: ExprId,
    },
    /// `assume n >= 2`.
    Assume {
        /// The predicate on sizes.
        pred: ExprId,
    },
    /// `size h = n // 2`, or `size n` alone.
    Size {
        /// The size variable.
        name: Name,
        /// What it is, where it is not given from outside.
        value: Option<ExprId>,
    },
    /// `def f(a : [k] real, b : real) : real = e`: expanded where it is called, generic in the sizes it mentions.
    Def {
        /// The function.
        name: Name,
        /// Its parameters.
        params: Vec<(Name, TypeExpr)>,
        /// The type of its value, where it is written.
        result: Option<TypeExpr>,
        /// Its body.
        body: ExprId,
    },
    /// `fun f(a, b) = e with (da, db)`: a scalar function that counts as one operation, with its partial derivatives.
    Fun {
        /// The function.
        name: Name,
        /// Its arguments, all `real`.
        params: Vec<Name>,
        /// Its value.
        value: ExprId,
        /// One partial derivative for each argument; `result` in them is the value.
        partials: Vec<ExprId>,
    },
}

/// A program as written.
#[derive(Clone, Debug, Default)]
pub struct Ast {
    /// The files whose definitions it has, as written.
    pub imports: Vec<Name>,
    /// The declarations in order.
    pub decls: Vec<Decl>,
    /// The expressions, operands before users.
    pub exprs: Arena<ExprId, Expr>,
    /// Where each expression stands.
    pub spans: Arena<ExprId, Span>,
    /// The lines of Rust that made its parts; spans are numbers of these, from 1. Empty for a text.
    pub callers: Vec<&'static Location<'static>>,
    /// The program itself.
    pub body: Option<ExprId>,
    /// The products that are written with a dot, `a · b`.
    pub dots: FxHashSet<ExprId>,
    /// The operations that are written with a point, `A .* B` and `A.^2`: of elements, whatever else they could be read as.
    pub of_elements: FxHashSet<ExprId>,
    /// The names that lines give, `y = e`, where not all of the text could be read: one of them that means nothing is no further problem.
    pub unread: FxHashSet<String>,
    /// What is right and easily misread.
    pub warnings: Vec<Diagnostic>,
}

impl Ast {
    /// Appends an expression.
    pub fn push(&mut self, expr: Expr, span: Span) -> ExprId {
        self.spans.push(span);
        self.exprs.push(expr)
    }

    /// Says of problems which lines of Rust are to blame.
    pub(super) fn locate(&self, problems: &mut [Diagnostic]) {
        for problem in problems {
            let number = (problem.span.start as usize).checked_sub(1);
            if let Some(caller) = number.and_then(|number| self.callers.get(number)) {
                problem.origin.get_or_insert(Origin::Rust(caller));
            }
        }
    }
}
