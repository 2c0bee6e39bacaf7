//! Programs as text, which [`parse`](super::parse()) reads back.
//!
//! ```text
//! data list = unit + real * list
//! param x : real
//! let y = x * x in
//! case order(y) of {inl s -> y | inr z -> (fn v : real. v + 1.0) y}
//! ```
//!
//! Real numbers have a decimal point, integers have none; operators are of both. A primitive of a value that is not written as a tuple has its operator
//! in parentheses: `(+) p`. Variables of one name get numbers. Nothing recurses: what is left to print is on a stack.

use std::collections::HashSet;
use std::fmt::{self, Write};

use super::data::{Context, End, Prim, Program, Term, TermId, Type, TypeId};
use super::print_linear;
use crate::base::{Id, SideTable, VarId};
use crate::scalar::{Function, Op, Primitive};

/// How strongly a term binds; it is in parentheses where it binds less than is asked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// `let`, `fn` and all others that reach as far as they can.
    Open,
    Compare,
    Add,
    Mul,
    Neg,
    Prefix,
    Atom,
}

pub(super) enum Piece {
    Text(&'static str),
    Owned(String),
    Term(TermId, Level),
    Var(VarId),
    Type(TypeId, TypeLevel),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TypeLevel {
    Fn,
    Sum,
    Pair,
    Atom,
}

/// Words that no variable may be called by.
pub(super) const RESERVED: &[&str] = &[
    "let",
    "in",
    "fst",
    "snd",
    "inl",
    "inr",
    "case",
    "of",
    "fn",
    "rec",
    "par",
    "build",
    "length",
    "map",
    "reduce",
    "scanl",
    "scanr",
    "from",
    "fold",
    "iterate",
    "while",
    "roll",
    "unroll",
    "data",
    "external",
    "param",
    "real",
    "int",
    "unit",
    "order",
    "sum",
    "drop_first",
    "drop_last",
    "partial",
    "nan",
    "inf",
    "opaque",
];

/// Whether a word is one of the language.
pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name) || print_linear::RESERVED.contains(&name)
}

/// Writes a program.
pub(super) fn program(program: &Program, out: &mut impl Write) -> fmt::Result {
    let printer = Printer::new(program);
    for (_, data) in program.data.iter() {
        write!(out, "data {}", data.name)?;
        if let Some(definition) = data.definition {
            out.write_str(" = ")?;
            printer.write(Piece::Type(definition, TypeLevel::Fn), out)?;
        }
        out.write_str("\n")?;
    }
    for (_, external) in program.externals.iter() {
        write!(out, "external {} : ", external.name)?;
        printer.write(Piece::Type(external.domain, TypeLevel::Sum), out)?;
        out.write_str(" -> ")?;
        printer.write(Piece::Type(external.codomain, TypeLevel::Fn), out)?;
        out.write_str("\n")?;
    }
    for x in &program.params {
        write!(out, "param {} : ", printer.names[*x])?;
        printer.write(Piece::Type(program.var_ty(*x), TypeLevel::Fn), out)?;
        out.write_str("\n")?;
    }
    printer.write(Piece::Term(program.body, Level::Open), out)?;
    out.write_str("\n")
}

/// The first lines of a program that may be broken, for messages.
pub(super) fn excerpt(broken: &Program) -> String {
    const LONGEST: usize = 2000;
    let mut text = Limited { text: String::new(), left: LONGEST };
    if broken.body.index() < broken.terms.len() && program(broken, &mut text).is_err() {
        text.text.push_str("..");
    }
    text.text
}

struct Limited {
    text: String,
    left: usize,
}

impl Write for Limited {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.left = self.left.checked_sub(s.len()).ok_or(fmt::Error)?;
        self.text.push_str(s);
        Ok(())
    }
}

impl Context {
    /// A type as text, cut where it is long.
    pub fn show(&self, ty: TypeId) -> String {
        let mut text = Limited { text: String::new(), left: 200 };
        if write_type(self, ty, TypeLevel::Fn, &mut text).is_err() {
            text.text.push_str("..");
        }
        text.text
    }
}

fn write_type(context: &Context, ty: TypeId, level: TypeLevel, out: &mut impl Write) -> fmt::Result {
    let mut todo = vec![Piece::Type(ty, level)];
    while let Some(piece) = todo.pop() {
        match piece {
            Piece::Text(text) => out.write_str(text)?,
            Piece::Owned(text) => out.write_str(&text)?,
            Piece::Type(ty, level) => push_type(context, ty, level, &mut todo),
            Piece::Term(..) | Piece::Var(_) => {}
        }
    }
    Ok(())
}

fn push_type(context: &Context, ty: TypeId, level: TypeLevel, todo: &mut Vec<Piece>) {
    let (own, pieces) = match &context.types[ty] {
        Type::Real => (TypeLevel::Atom, vec![Piece::Text("real")]),
        Type::Int => (TypeLevel::Atom, vec![Piece::Text("int")]),
        Type::Unit => (TypeLevel::Atom, vec![Piece::Text("unit")]),
        Type::Pair(a, b) => {
            let (a, b) = (Piece::Type(*a, TypeLevel::Pair), Piece::Type(*b, TypeLevel::Atom));
            (TypeLevel::Pair, vec![a, Piece::Text(" * "), b])
        }
        Type::Sum(a, b) => {
            let (a, b) = (Piece::Type(*a, TypeLevel::Sum), Piece::Type(*b, TypeLevel::Pair));
            (TypeLevel::Sum, vec![a, Piece::Text(" + "), b])
        }
        Type::Fn(a, b) => {
            let (a, b) = (Piece::Type(*a, TypeLevel::Sum), Piece::Type(*b, TypeLevel::Fn));
            (TypeLevel::Fn, vec![a, Piece::Text(" -> "), b])
        }
        Type::Array(a) => (TypeLevel::Atom, vec![Piece::Text("["), Piece::Type(*a, TypeLevel::Fn), Piece::Text("]")]),
        Type::Data(data) => (TypeLevel::Atom, vec![Piece::Owned(context.data[*data].name.clone())]),
        Type::Opaque(name) => (TypeLevel::Atom, vec![Piece::Owned(format!("opaque {name}"))]),
        _ => print_linear::ty(context, ty),
    };
    push(todo, own < level, pieces);
}

/// Puts pieces on the stack, in parentheses if asked.
fn push(todo: &mut Vec<Piece>, parentheses: bool, pieces: Vec<Piece>) {
    if parentheses {
        todo.push(Piece::Text(")"));
    }
    todo.extend(pieces.into_iter().rev());
    if parentheses {
        todo.push(Piece::Text("("));
    }
}

struct Printer<'a> {
    program: &'a Program,
    names: SideTable<VarId, String>,
}

impl<'a> Printer<'a> {
    fn new(program: &'a Program) -> Self {
        let mut taken: HashSet<String> =
            RESERVED.iter().chain(print_linear::RESERVED).map(|word| (*word).to_string()).collect();
        taken.extend(program.externals.values().map(|external| external.name.clone()));
        taken.extend(Op::all().into_iter().map(|op| op.name().into_owned()));
        let mut names = SideTable::new(program.vars.len(), String::new());
        let mut next: std::collections::HashMap<String, usize> = std::collections::HashMap::new();
        for (x, variable) in program.vars.iter() {
            let base = identifier(&variable.name);
            let mut name = base.clone();
            let k = next.entry(base.clone()).or_insert(2);
            while !taken.insert(name.clone()) {
                name = format!("{base}_{k}");
                *k += 1;
            }
            names.set(x, name);
        }
        Printer { program, names }
    }

    fn write(&self, piece: Piece, out: &mut impl Write) -> fmt::Result {
        let mut todo = vec![piece];
        while let Some(piece) = todo.pop() {
            match piece {
                Piece::Text(text) => out.write_str(text)?,
                Piece::Owned(text) => out.write_str(&text)?,
                Piece::Var(x) => out.write_str(&self.names[x])?,
                Piece::Type(ty, level) => push_type(&self.program.context, ty, level, &mut todo),
                Piece::Term(e, level) => {
                    let (own, pieces) = self.term(e);
                    push(&mut todo, own < level, pieces);
                }
            }
        }
        Ok(())
    }

    /// How strongly a term binds, and its pieces.
    fn term(&self, e: TermId) -> (Level, Vec<Piece>) {
        use Piece::{Owned, Text, Var};
        let (open, atom) = (|e: &TermId| Piece::Term(*e, Level::Open), |e: &TermId| Piece::Term(*e, Level::Atom));
        let ty = |x: &VarId| Piece::Type(self.program.var_ty(*x), TypeLevel::Fn);
        match &self.program.terms[e] {
            Term::Var(x) => (Level::Atom, vec![Var(*x)]),
            Term::Let(x, value, body) => {
                (Level::Open, vec![Text("let "), Var(*x), Text(" = "), open(value), Text(" in\n"), open(body)])
            }
            Term::Unit => (Level::Atom, vec![Text("()")]),
            Term::Real(r) => (if r.is_sign_negative() { Level::Neg } else { Level::Atom }, vec![Owned(real(*r))]),
            Term::Int(k) => (if *k < 0 { Level::Neg } else { Level::Atom }, vec![Owned(k.to_string())]),
            Term::Prim(prim, a) => self.prim(*prim, *a),
            Term::Pair(a, b) => (Level::Atom, vec![Text("("), open(a), Text(", "), open(b), Text(")")]),
            Term::Par(a, b) => (Level::Atom, vec![Text("par("), open(a), Text(", "), open(b), Text(")")]),
            Term::Fst(a) => (Level::Prefix, vec![Text("fst "), atom(a)]),
            Term::Snd(a) => (Level::Prefix, vec![Text("snd "), atom(a)]),
            Term::Inl(sum, a) | Term::Inr(sum, a) => self.injection(e, *sum, a),
            Term::Case(s, (x, a), (y, b)) => (
                Level::Atom,
                vec![
                    Text("case "),
                    open(s),
                    Text(" of {inl "),
                    Var(*x),
                    Text(" -> "),
                    open(a),
                    Text(" | inr "),
                    Var(*y),
                    Text(" -> "),
                    open(b),
                    Text("}"),
                ],
            ),
            Term::Fn(x, body) => (Level::Open, vec![Text("fn "), Var(*x), Text(" : "), ty(x), Text(". "), open(body)]),
            Term::Rec(f, x, body) => {
                let Type::Fn(_, codomain) = self.program.types[self.program.var_ty(*f)] else {
                    return (Level::Open, vec![Text("rec")]);
                };
                let head = vec![Text("rec "), Var(*f), Text("("), Var(*x), Text(" : "), ty(x), Text(") : ")];
                let body = [Piece::Type(codomain, TypeLevel::Fn), Text(". "), open(body)];
                (Level::Open, head.into_iter().chain(body).collect())
            }
            Term::Apply(f, a) => (Level::Prefix, vec![Piece::Term(*f, Level::Prefix), Text(" "), atom(a)]),
            Term::Length(a) => (Level::Prefix, vec![Text("length "), atom(a)]),
            Term::Index(a, k) => (Level::Prefix, vec![Piece::Term(*a, Level::Prefix), Text(" ! "), atom(k)]),
            Term::Roll(data, a) => {
                let name = self.program.data[*data].name.clone();
                (Level::Prefix, vec![Text("roll["), Owned(name), Text("] "), atom(a)])
            }
            Term::Unroll(a) => (Level::Prefix, vec![Text("unroll "), atom(a)]),
            Term::External(f, a) => {
                (Level::Prefix, vec![Owned(self.program.externals[*f].name.clone()), Text(" "), atom(a)])
            }
            Term::Linear(term) => print_linear::term(&self.program.context, term),
            term => (Level::Open, self.binder(term)),
        }
    }

    fn injection(&self, e: TermId, sum: TypeId, a: &TermId) -> (Level, Vec<Piece>) {
        let left = matches!(self.program.terms[e], Term::Inl(..));
        let other = match self.program.types[sum] {
            Type::Sum(a, b) => Piece::Type(if left { b } else { a }, TypeLevel::Fn),
            _ => Piece::Text("?"),
        };
        let word = Piece::Text(if left { "inl[" } else { "inr[" });
        (Level::Prefix, vec![word, other, Piece::Text("] "), Piece::Term(*a, Level::Atom)])
    }

    /// Arrays and loops.
    fn binder(&self, term: &Term) -> Vec<Piece> {
        use Piece::{Text, Var};
        let open = |e: &TermId| Piece::Term(*e, Level::Open);
        let add = |e: &TermId| Piece::Term(*e, Level::Add);
        match term {
            Term::Build(n, i, body) => vec![Text("build "), Var(*i), Text(" < "), add(n), Text(". "), open(body)],
            Term::Map(args, body) => {
                let mut pieces = vec![Text("map ")];
                for (k, (x, a)) in args.iter().enumerate() {
                    pieces.push(Text(if k == 0 { "" } else { ", " }));
                    pieces.extend([Var(*x), Text(" in "), open(a)]);
                }
                pieces.extend([Text(". "), open(body)]);
                pieces
            }
            Term::Reduce { vars: (x, y), body, init, array } => {
                let mut pieces = vec![Text("reduce "), Var(*x), Text(", "), Var(*y), Text(" in "), open(array)];
                if let Some(init) = init {
                    pieces.extend([Text(" from "), open(init)]);
                }
                pieces.extend([Text(". "), open(body)]);
                pieces
            }
            Term::Scan { from, vars: (x, y), body, init, array } => {
                let word = Text(if *from == End::First { "scanl " } else { "scanr " });
                let head =
                    vec![word, Var(*x), Text(", "), Var(*y), Text(" in "), open(array), Text(" from "), open(init)];
                head.into_iter().chain([Text(". "), open(body)]).collect()
            }
            Term::Fold { count, index, state, init, body } => {
                let head =
                    vec![Text("fold "), Var(*index), Text(" < "), add(count), Text(", "), Var(*state), Text(" = ")];
                head.into_iter().chain([open(init), Text(". "), open(body)]).collect()
            }
            Term::Iterate { state, init, cond, body } => {
                let head = vec![Text("iterate "), Var(*state), Text(" = "), open(init), Text(" while "), open(cond)];
                head.into_iter().chain([Text(". "), open(body)]).collect()
            }
            _ => vec![Text("?")],
        }
    }

    /// A primitive operation: infix where its operands are written, else in front of its argument.
    fn prim(&self, prim: Prim, a: TermId) -> (Level, Vec<Piece>) {
        use Piece::{Owned, Term as Operand, Text};
        if let Some((symbol, level)) = infix(prim) {
            let (left, right) = match level {
                Level::Compare => (Level::Add, Level::Add),
                Level::Add => (Level::Add, Level::Mul),
                _ => (Level::Mul, Level::Neg),
            };
            return match self.program.terms[a] {
                Term::Pair(x, y) => {
                    (level, vec![Operand(x, left), Text(" "), Text(symbol), Text(" "), Operand(y, right)])
                }
                _ => (Level::Prefix, vec![Text("("), Text(symbol), Text(") "), Operand(a, Level::Atom)]),
            };
        }
        let word = match prim {
            Prim::Neg | Prim::IntNeg => {
                return match self.program.terms[a] {
                    // A literal with a sign is another term.
                    Term::Real(_) | Term::Int(_) => (Level::Neg, vec![Text("-("), Operand(a, Level::Open), Text(")")]),
                    _ => (Level::Neg, vec![Text("-"), Operand(a, Level::Neg)]),
                };
            }
            Prim::Order => Text("order"),
            Prim::ToReal => Text("real"),
            Prim::Sum => Text("sum"),
            Prim::DropFirst => Text("drop_first"),
            Prim::DropLast => Text("drop_last"),
            Prim::Scale => Text("scale"),
            Prim::Opposite => Text("opposite"),
            Prim::Scalar(function) => Owned(self.function(function)),
            _ => Text("?"),
        };
        (Level::Prefix, vec![word, Text(" "), Operand(a, Level::Atom)])
    }

    /// The name of a scalar function.
    fn function(&self, function: Function) -> String {
        let name = |primitive| match primitive {
            Primitive::Op(Op::Div) => "divide".to_string(),
            Primitive::Op(Op::Powi(k)) => format!("power[{k}]"),
            Primitive::Op(op) => op.name().into_owned(),
            Primitive::User(id) => self.program.users.get(id).map_or("?".to_string(), |user| user.name().to_string()),
        };
        match function {
            Function::Value(primitive) => name(primitive),
            Function::Partial(primitive, k) => format!("partial[{}, {k}]", name(primitive)),
        }
    }
}

/// A name that can be read back.
fn identifier(name: &str) -> String {
    let fits = |c: char| c.is_alphanumeric() || c == '_' || c == '\'';
    let name: String = name.chars().map(|c| if fits(c) { c } else { '_' }).collect();
    if name.starts_with(|c: char| c.is_alphabetic() || c == '_') { name } else { format!("x{name}") }
}

/// The operator of a primitive, and how strongly it binds.
fn infix(prim: Prim) -> Option<(&'static str, Level)> {
    Some(match prim {
        Prim::Add | Prim::IntAdd => ("+", Level::Add),
        Prim::Mul | Prim::IntMul => ("*", Level::Mul),
        Prim::Scalar(Function::Value(Primitive::Op(Op::Div))) => ("/", Level::Mul),
        Prim::IntDiv => ("//", Level::Mul),
        Prim::IntRem => ("%", Level::Mul),
        Prim::Compare(comparison) | Prim::IntCompare(comparison) => (comparison.symbol(), Level::Compare),
        _ => return None,
    })
}

/// A real number, which has a decimal point.
fn real(r: f64) -> String {
    let text = format!("{r:?}");
    match () {
        () if r.is_nan() => "nan".to_string(),
        () if r.is_infinite() => if r > 0.0 { "inf" } else { "-inf" }.to_string(),
        () if text.contains('.') => text,
        // `1e300` is `1.0e300`.
        () => text.replacen('e', ".0e", 1),
    }
}
