//! Compact text of an [`Ast`] for tests: one line, prefix notation, no recursion.

use super::ast::{Arm, Ast, BinaryOp, Decl, Expr, ExprId, Name, TypeExpr, TypeKind, UnaryOp};

/// The operands of an expression from left to right.
pub fn operands(expr: &Expr) -> Vec<ExprId> {
    match expr {
        Expr::Number { .. } | Expr::Name(_) | Expr::All | Expr::Error => vec![],
        Expr::Unary(_, a) | Expr::Fst(a) | Expr::Snd(a) => vec![*a],
        Expr::Binary(_, a, b) | Expr::Pair(a, b) => vec![*a, *b],
        Expr::Part { from, to, step } => [from, to, step].into_iter().flatten().copied().collect(),
        Expr::Iverson { guard, body } => vec![*guard, *body],
        Expr::Call { callee: _, args } => args.clone(),
        Expr::Access { array, indices } => std::iter::once(*array).chain(indices.iter().copied()).collect(),
        Expr::Binder { kind: _, index: _, extent, body } => vec![*extent, *body],
        Expr::Let { name: _, value, body } => vec![*value, *body],
        Expr::Scan { steps, init, body, .. } => vec![*steps, *init, *body],
        Expr::Function { params: _, body } => vec![*body],
        Expr::Typed { value, .. } => vec![*value],
        Expr::Case { value, arms } => std::iter::once(*value).chain(arms.iter().map(|arm| arm.body)).collect(),
        Expr::Apply { function, args } => std::iter::once(*function).chain(args.iter().copied()).collect(),
    }
}

fn head(ast: &Ast, expr: &Expr) -> String {
    match expr {
        Expr::Number { value, integer } => integer.map_or_else(|| format!("{value}r"), |k| k.to_string()),
        Expr::Name(name) => name.clone(),
        Expr::Error => "error".into(),
        Expr::All => ":".into(),
        Expr::Part { from, to, step } => {
            let shown = |e: &Option<ExprId>| if e.is_some() { "_" } else { "" };
            format!("part {}:{}:{}", shown(from), shown(to), shown(step))
        }
        Expr::Unary(UnaryOp::Transpose, _) => "transpose".into(),
        Expr::Unary(UnaryOp::Neg, _) => "neg".into(),
        Expr::Unary(UnaryOp::Not, _) => "not".into(),
        Expr::Fst(_) => "fst".into(),
        Expr::Snd(_) => "snd".into(),
        Expr::Binary(op, ..) => match op {
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
        .into(),
        Expr::Pair(..) => "pair".into(),
        Expr::Iverson { .. } => "iv".into(),
        Expr::Call { callee, .. } => callee.text.clone(),
        Expr::Access { .. } => "at".into(),
        Expr::Binder { kind, index, .. } => format!("{} {}", format!("{kind:?}").to_lowercase(), index.text),
        Expr::Let { name, .. } => format!("let {}", name.text),
        Expr::Scan { kind, down, index, state, .. } => {
            let word = kind.word();
            format!("{word}{} {} {}", if *down { " down" } else { "" }, index.text, state.text)
        }
        Expr::Function { params, .. } => format!("fn ({})", parameters(ast, params)),
        Expr::Apply { .. } => "apply".into(),
        Expr::Typed { ty: t, trusted, .. } => format!("{} {}", if *trusted { "is" } else { "typed" }, ty(ast, t)),
        Expr::Case { arms, .. } => {
            let arm = |arm: &Arm| {
                let names = arm.names.iter().map(|name| name.text.as_str());
                std::iter::once(arm.constructor.text.as_str()).chain(names).collect::<Vec<_>>().join(" ")
            };
            format!("case ({})", arms.iter().map(arm).collect::<Vec<_>>().join(", "))
        }
    }
}

/// An expression in prefix notation; real literals end in `r`.
pub fn sexpr(ast: &Ast, root: ExprId) -> String {
    enum Work {
        Open(ExprId),
        Close,
    }
    let mut out = String::new();
    let mut work = vec![Work::Open(root)];
    while let Some(item) = work.pop() {
        let Work::Open(id) = item else {
            out.push(')');
            continue;
        };
        if !out.is_empty() {
            out.push(' ');
        }
        let expr = &ast.exprs[id];
        if matches!(expr, Expr::Number { .. } | Expr::Name(_) | Expr::All | Expr::Error) {
            out += &head(ast, expr);
        } else {
            out.push('(');
            out += &head(ast, expr);
            work.push(Work::Close);
            work.extend(operands(expr).into_iter().rev().map(Work::Open));
        }
    }
    out
}

fn list(ast: &Ast, exprs: &[ExprId]) -> String {
    exprs.iter().map(|e| sexpr(ast, *e)).collect::<Vec<_>>().join(" ")
}

fn ty(ast: &Ast, t: &TypeExpr) -> String {
    match &t.kind {
        TypeKind::Real => "real".into(),
        TypeKind::Index(n) => format!("index {}", sexpr(ast, *n)),
        TypeKind::Sum(name, _) => name.text.clone(),
        TypeKind::Inferred => "_".into(),
        TypeKind::Tensor(sizes, item) => format!("[{}]{}", list(ast, sizes), ty(ast, item)),
        TypeKind::Pair(a, b) => format!("({} {})", ty(ast, a), ty(ast, b)),
        TypeKind::Function(args, result) => {
            let args: Vec<_> = args.iter().map(|t| ty(ast, t)).collect();
            format!("({} -> {})", args.join(" "), ty(ast, result))
        }
    }
}

fn parameters(ast: &Ast, params: &[(Name, TypeExpr)]) -> String {
    params.iter().map(|(name, t)| format!("{} {}", name.text, ty(ast, t))).collect::<Vec<_>>().join(" ")
}

/// The declarations, each in prefix notation.
pub fn decls(ast: &Ast) -> Vec<String> {
    let text = |decl: &Decl| match decl {
        Decl::Param { name, storage, like, ty: t } => {
            let like = like.as_ref().map_or_else(String::new, |a| format!("({})", a.text));
            format!("(param {} {}{like} {})", name.text, storage.name(), ty(ast, t))
        }
        Decl::Type { name, constructors } => {
            let constructor = |c: &super::ast::Constructor| {
                let fields = c.fields.iter().map(|t| ty(ast, t));
                std::iter::once(c.name.text.clone()).chain(fields).collect::<Vec<_>>().join(" ")
            };
            let constructors: Vec<_> = constructors.iter().map(constructor).collect();
            format!("(type {} {})", name.text, constructors.join(" | "))
        }
        Decl::Sum { name, axes, ty, .. } => format!("(param {} [{}]{})", name.text, list(ast, axes), ty.text),
        Decl::Relation { name, shape } => format!("(rel {} [{}])", name.text, list(ast, shape)),
        Decl::Map { name, source, target } => {
            format!("(map {} [{}] {})", name.text, list(ast, source), sexpr(ast, *target))
        }
        Decl::Assume { pred } => format!("(assume {})", sexpr(ast, *pred)),
        Decl::Size { name, value } => {
            let value = value.map_or_else(String::new, |value| format!(" {}", sexpr(ast, value)));
            format!("(size {}{value})", name.text)
        }
        Decl::Def { name, params, result, body } => {
            let result = result.as_ref().map_or_else(String::new, |t| format!("{} ", ty(ast, t)));
            format!("(def {} ({}) {result}{})", name.text, parameters(ast, params), sexpr(ast, *body))
        }
        Decl::Fun { name, params, value, partials } => {
            let params: Vec<_> = params.iter().map(|name| name.text.as_str()).collect();
            format!("(fun {} ({}) {} {})", name.text, params.join(" "), sexpr(ast, *value), list(ast, partials))
        }
    };
    ast.decls.iter().map(text).collect()
}
