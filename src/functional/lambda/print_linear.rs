//! The text of linear types and of their terms.
//!
//! ```text
//! types   ~unit  ~real  l ~* m  l ~+ m  a => l  ~env{l, ..}  ~package  ~D  action{l, ..; a}  closure(a, b)  hidden x
//! terms   0[l]  a .+ b  lpair(a, b)  lfst a  lsnd a  linl[l] a  linr[l] a  lcastl a  lcastr a  entry(a, b)  entries a  sum x, v in a. e  collect a
//!         scatter(a, b)  total a  extend(a, b)  cell[k] a  onehot[k, l] a  split[k] a  return[{l, ..}] a  bind(a, b)  add[k, {l, ..}] a  scope(a, b)  sequence a  run(a, b)
//!         close(a, b)  open x = a. e  pack a  unpack[l] a  lroll[~D] a  lunroll a
//! ```

use super::data::{Context, TermId, Type, TypeId};
use super::linear::{Linear, LinearType};
use super::print::{Level, Piece, TypeLevel};

/// The words of these terms.
pub(super) const RESERVED: &[&str] = &[
    "lpair", "lfst", "lsnd", "linl", "linr", "lcastl", "lcastr", "entry", "entries", "total", "collect", "extend",
    "cell", "scatter", "onehot", "split", "return", "bind", "add", "scope", "sequence", "run", "close", "open", "pack",
    "unpack", "lroll", "lunroll", "zero", "scale", "opposite", "action", "closure", "hidden", "each",
];

/// Cells of an environment, from the first one.
fn cells(context: &Context, cells: TypeId) -> Vec<Piece> {
    let mut types = Vec::new();
    let mut rest = cells;
    while let Type::Cells(before, last) = context.types[rest] {
        types.push(last);
        rest = before;
    }
    let mut pieces = vec![Piece::Text("{")];
    for (k, ty) in types.into_iter().rev().enumerate() {
        pieces.push(Piece::Text(if k == 0 { "" } else { ", " }));
        pieces.push(Piece::Type(ty, TypeLevel::Fn));
    }
    pieces.push(Piece::Text("}"));
    pieces
}

/// A type that is not of the source language.
pub(super) fn ty(context: &Context, ty: TypeId) -> (TypeLevel, Vec<Piece>) {
    use Piece::{Owned, Text};
    let all = |ty: &TypeId| Piece::Type(*ty, TypeLevel::Fn);
    match &context.types[ty] {
        Type::Linear(linear) => match linear {
            LinearType::Unit => (TypeLevel::Atom, vec![Text("~unit")]),
            LinearType::Real => (TypeLevel::Atom, vec![Text("~real")]),
            LinearType::Pair(a, b) => {
                let (a, b) = (Piece::Type(*a, TypeLevel::Pair), Piece::Type(*b, TypeLevel::Atom));
                (TypeLevel::Pair, vec![a, Text(" ~* "), b])
            }
            LinearType::Sum(a, b) => {
                let (a, b) = (Piece::Type(*a, TypeLevel::Sum), Piece::Type(*b, TypeLevel::Pair));
                (TypeLevel::Sum, vec![a, Text(" ~+ "), b])
            }
            LinearType::Copower(a, b) => {
                let (a, b) = (Piece::Type(*a, TypeLevel::Sum), Piece::Type(*b, TypeLevel::Fn));
                (TypeLevel::Fn, vec![a, Text(" => "), b])
            }
            LinearType::Environment(of) => {
                (TypeLevel::Atom, std::iter::once(Text("~env")).chain(cells(context, *of)).collect())
            }
            LinearType::Package => (TypeLevel::Atom, vec![Text("~package")]),
            LinearType::Data(data) => (TypeLevel::Atom, vec![Text("~"), Owned(context.data[*data].name.clone())]),
        },
        Type::NoCells | Type::Cells(..) => (TypeLevel::Atom, cells(context, ty)),
        Type::Action(of, result) => {
            let mut pieces = vec![Text("action(")];
            pieces.extend(cells(context, *of));
            pieces.extend([Text(", "), all(result), Text(")")]);
            (TypeLevel::Atom, pieces)
        }
        Type::Closure(a, b) => (TypeLevel::Atom, vec![Text("closure("), all(a), Text(", "), all(b), Text(")")]),
        Type::Hidden(x) => (TypeLevel::Atom, vec![Text("hidden "), Piece::Var(*x)]),
        _ => (TypeLevel::Atom, vec![Text("?")]),
    }
}

/// A term of linear types.
pub(super) fn term(context: &Context, term: &Linear) -> (Level, Vec<Piece>) {
    use Piece::{Owned, Text, Var};
    let open = |e: &TermId| Piece::Term(*e, Level::Open);
    let atom = |e: &TermId| Piece::Term(*e, Level::Atom);
    let all = |ty: &TypeId| Piece::Type(*ty, TypeLevel::Fn);
    let two = |word: &'static str, a: &TermId, b: &TermId| {
        (Level::Atom, vec![Text(word), Text("("), open(a), Text(", "), open(b), Text(")")])
    };
    let one = |word: &'static str, a: &TermId| (Level::Prefix, vec![Text(word), Text(" "), atom(a)]);
    let typed = |word: &'static str, ty: &TypeId, a: &TermId| {
        (Level::Prefix, vec![Text(word), Text("["), all(ty), Text("] "), atom(a)])
    };
    match term {
        Linear::Zero(ty) => (Level::Atom, vec![Text("zero["), all(ty), Text("]")]),
        Linear::Plus(a, b) => {
            (Level::Add, vec![Piece::Term(*a, Level::Add), Text(" .+ "), Piece::Term(*b, Level::Mul)])
        }
        Linear::Pair(a, b) => two("lpair", a, b),
        Linear::Fst(a) => one("lfst", a),
        Linear::Snd(a) => one("lsnd", a),
        Linear::Inl(ty, a) => typed("linl", ty, a),
        Linear::Inr(ty, a) => typed("linr", ty, a),
        Linear::CastL(a) => one("lcastl", a),
        Linear::CastR(a) => one("lcastr", a),
        Linear::Entry(a, b) => two("entry", a, b),
        Linear::Entries(a) => one("entries", a),
        Linear::Fold(a, (x, v), body) => {
            let head = vec![Text("each "), Var(*x), Text(", "), Var(*v), Text(" in "), open(a), Text(". "), open(body)];
            (Level::Open, head)
        }
        Linear::Collect(a) => one("collect", a),
        Linear::Scatter(a, b) => two("scatter", a, b),
        Linear::Total(a) => one("total", a),
        Linear::Extend(a, b) => two("extend", a, b),
        Linear::Cell(k, a) => (Level::Prefix, vec![Owned(format!("cell[{k}] ")), atom(a)]),
        Linear::OneHot(k, ty, a) => (Level::Prefix, vec![Owned(format!("onehot[{k}, ")), all(ty), Text("] "), atom(a)]),
        Linear::Split(k, a) => (Level::Prefix, vec![Owned(format!("split[{k}] ")), atom(a)]),
        Linear::Return(of, a) => {
            let head = std::iter::once(Text("return[")).chain(cells(context, *of));
            (Level::Prefix, head.chain([Text("] "), atom(a)]).collect())
        }
        Linear::Bind(a, b) => two("bind", a, b),
        Linear::Add(k, of, a) => {
            let head = std::iter::once(Owned(format!("add[{k}, "))).chain(cells(context, *of));
            (Level::Prefix, head.chain([Text("] "), atom(a)]).collect())
        }
        Linear::Scope(a, b) => two("scope", a, b),
        Linear::Sequence(a) => one("sequence", a),
        Linear::Run(a, b) => two("run", a, b),
        Linear::Close(a, b) => two("close", a, b),
        Linear::Open(a, x, body) => {
            (Level::Open, vec![Text("open "), Var(*x), Text(" = "), open(a), Text(" in\n"), open(body)])
        }
        Linear::Pack(a) => one("pack", a),
        Linear::Unpack(ty, a) => typed("unpack", ty, a),
        Linear::Roll(ty, a) => typed("lroll", ty, a),
        Linear::Unroll(a) => one("lunroll", a),
    }
}
