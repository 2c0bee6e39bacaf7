//! Index expressions, types and expressions as they stand in messages.

use super::super::ast::{BinaryOp, BinderKind, Expr, LoopKind, UnaryOp};
use super::Elaborator;
use crate::base::{IndexId, SizeId};
use crate::index::{Affine, RelationRef, Var, View};
use crate::term::Program;
use crate::ty::{Type, TypeId, dividend};

/// How deep quotients nest in messages.
const MAX_QUOTIENTS: usize = 8;

/// How much of a type a message shows.
const MAX_TYPE_TEXT: usize = 120;

impl Elaborator<'_> {
    /// Quotients of indices as they are written.
    pub(super) fn show(&self, a: &Affine) -> String {
        self.show_within(a, 0)
    }

    fn show_within(&self, a: &Affine, depth: usize) -> String {
        match a.as_index().and_then(|i| self.show_quotient(i, depth)) {
            Some(quotient) => quotient,
            None => show_with(&self.program, a, &|i| Some(format!("({})", self.show_quotient(i, depth)?))),
        }
    }

    /// `i // 2` of the index that it is.
    fn show_quotient(&self, i: IndexId, depth: usize) -> Option<String> {
        let (of, by) = self.quotient_indices.get(&i)?;
        let text = if depth < MAX_QUOTIENTS { self.show_within(of, depth + 1) } else { "..".to_owned() };
        Some(format!("{} // {by}", dividend(of, &text)))
    }

    pub(super) fn show_relation(&self, relation: RelationRef) -> String {
        show_relation(&self.program, relation)
    }

    pub(super) fn show_type(&self, ty: TypeId) -> String {
        show_type(&self.program, ty)
    }
}

/// `2*i - j + n - 1`
fn show(program: &Program, a: &Affine) -> String {
    show_with(program, a, &|_| None)
}

/// The same, with other names for some indices.
fn show_with(program: &Program, a: &Affine, name: &dyn Fn(IndexId) -> Option<String>) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = a.write(&mut text, &mut |v| match v {
        Var::Index(i) => name(*i).unwrap_or_else(|| show_var(program, v)),
        v => show_var(program, v),
    });
    text
}

fn show_var(program: &Program, v: &Var) -> String {
    match v {
        Var::Index(i) => program.indices.get(*i).cloned().unwrap_or_else(|| i.to_string()),
        Var::Size(n) => {
            let name = |n: SizeId| program.signature.sizes.get(n).cloned().unwrap_or_else(|| n.to_string());
            let Some(quotient) = program.signature.quotient_of(*n) else { return name(*n) };
            let mut of = String::new();
            // Those in it are not written out.
            let _ = quotient.of.write(&mut of, &mut |v| match v {
                Var::Size(n) => name(*n),
                v => show_var(program, v),
            });
            format!("({})", quotient.text(&of))
        }
        Var::Apply(application) => {
            let args: Vec<String> = application.args.iter().map(|a| show(program, a)).collect();
            format!("{}({})", show_relation(program, application.map), args.join(", "))
        }
    }
}

fn show_relation(program: &Program, relation: RelationRef) -> String {
    match relation {
        RelationRef::Input(r) => program.signature.relations.get(r).map_or_else(|| r.to_string(), |r| r.name.clone()),
        RelationRef::Computed { view: View::Support, .. } => "support".into(),
        RelationRef::Computed { view: View::ArgMax, .. } => "argmax".into(),
        RelationRef::Computed { view: View::ArgMin, .. } => "argmin".into(),
    }
}

/// `[n, m] (real, real)`, cut where it gets long.
pub(super) fn show_type(program: &Program, ty: TypeId) -> String {
    enum Part {
        Type(TypeId),
        Text(&'static str),
    }
    let mut text = String::new();
    let mut stack = vec![Part::Type(ty)];
    while let Some(part) = stack.pop() {
        if text.len() > MAX_TYPE_TEXT {
            text.push_str("..");
            break;
        }
        match part {
            Part::Text(t) => text.push_str(t),
            Part::Type(ty) => match program.types.get(ty) {
                Type::Real => text.push_str("real"),
                Type::Pair(a, b) => {
                    text.push('(');
                    stack.extend([Part::Text(")"), Part::Type(*b), Part::Text(", "), Part::Type(*a)]);
                }
                Type::Tensor(n, element) => {
                    // Neighbouring axes share brackets.
                    match text.strip_suffix("] ") {
                        Some(open) => text = format!("{open}, "),
                        None => text.push('['),
                    }
                    text.push_str(&show(program, n));
                    text.push_str("] ");
                    stack.push(Part::Type(*element));
                }
            },
        }
    }
    text
}

/// `1 index`, `2 indices`
pub(super) fn count(n: usize, one: &str, several: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { several })
}

/// What an expression is, in a word.
pub(super) fn noun(expr: &Expr) -> &'static str {
    match expr {
        Expr::Number { .. } => "a number",
        Expr::Name(_) => "a name",
        Expr::Unary(UnaryOp::Neg, _) => "a negation",
        Expr::Unary(UnaryOp::Transpose, _) => "a transpose",
        Expr::All => "a whole axis",
        Expr::Part { .. } => "a part of an axis",
        Expr::Unary(UnaryOp::Not, _) => "a predicate",
        Expr::Binary(op, ..) => match op {
            BinaryOp::Add => "a sum",
            BinaryOp::Sub => "a difference",
            BinaryOp::Mul | BinaryOp::MatMul => "a product",
            BinaryOp::Div | BinaryOp::FloorDiv => "a quotient",
            BinaryOp::Rem => "a remainder",
            BinaryOp::Pow => "a power",
            BinaryOp::And | BinaryOp::Or => "a predicate",
            _ => "a comparison",
        },
        Expr::Iverson { .. } => "a bracket",
        Expr::Call { .. } => "a call",
        Expr::Access { .. } => "an element of a tensor",
        Expr::Pair(..) => "a pair",
        Expr::Fst(_) | Expr::Snd(_) => "a projection",
        Expr::Binder { kind, .. } => match kind {
            BinderKind::Gen => "a `gen`",
            BinderKind::Sum => "a `sum`",
            BinderKind::Max => "a `max`",
            BinderKind::Min => "a `min`",
            BinderKind::ArgMax => "an `argmax`",
            BinderKind::ArgMin => "an `argmin`",
            BinderKind::Exists => "an `exists`",
        },
        Expr::Let { .. } => "a `let`",
        Expr::Scan { kind, .. } => with_article(*kind),
        Expr::Function { .. } => "a function",
        Expr::Apply { .. } => "a call",
        Expr::Typed { .. } => "a value",
        Expr::Case { .. } => "a `case`",
        Expr::Error => "an error",
    }
}

/// The word of a loop with its article.
pub(super) fn with_article(kind: LoopKind) -> &'static str {
    match kind {
        LoopKind::Fold => "a `fold`",
        LoopKind::Scan => "a `scan`",
        LoopKind::Iterate => "an `iterate`",
        LoopKind::Fixpoint => "a `fixpoint`",
        LoopKind::Unfold => "an `unfold`",
    }
}

/// The operator as it is written.
pub(super) fn symbol(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "+",
        BinaryOp::Sub => "-",
        BinaryOp::Mul => "*",
        BinaryOp::Div => "/",
        BinaryOp::FloorDiv => "//",
        BinaryOp::Rem => "%",
        BinaryOp::MatMul => "@",
        BinaryOp::Pow => "^",
        BinaryOp::Less => "<",
        BinaryOp::LessEqual => "<=",
        BinaryOp::Greater => ">",
        BinaryOp::GreaterEqual => ">=",
        BinaryOp::Equal => "=",
        BinaryOp::NotEqual => "!=",
        BinaryOp::And => "and",
        BinaryOp::Or => "or",
    }
}
