//! Programs that break one promise each, and the violation that is found.

use std::sync::Arc;

use crate::base::{Arena, Id, IndexId, RelationId, SizeId, VarId};
use crate::index::{Affine, Application, Pred, RelationRef, Size, Var, View};
use crate::scalar::{Number, Op};
use crate::term::{NormalForm, Program, Term, TermId, VariableKind};
use crate::ty::{Format, Param, Relation, RelationKind, Signature, Storage, Type, TypeId, Types};

/// Size n; parameters x : [n] real, s : real, p : (real, real), q : [n] (real, real); relation E : [n, n].
fn program() -> Program {
    let mut sig = Signature::default();
    let n = Size::size(sig.sizes.push("n".into()));
    let vector = sig.types.tensor(n.clone(), Types::REAL);
    let pair = sig.types.pair(Types::REAL, Types::REAL);
    let pairs = sig.types.tensor(n.clone(), pair);
    for (name, ty) in [("x", vector), ("s", Types::REAL), ("p", pair), ("q", pairs)] {
        sig.params.push(Param { name: name.into(), ty, storage: Storage::Dense });
    }
    sig.relations.push(Relation { name: "E".into(), shape: vec![n.clone(), n], kind: RelationKind::Free });
    Program::new(Arc::new(sig))
}

const X: VarId = VarId(0);
const S: VarId = VarId(1);
const P: VarId = VarId(2);
const Q: VarId = VarId(3);

fn n() -> Size {
    Size::size(SizeId(0))
}

fn index(b: &mut Program, name: &str) -> IndexId {
    b.fresh_index(name)
}

fn push(b: &mut Program, term: Term) -> TermId {
    b.push(term).expect("typed")
}

fn var(b: &mut Program, x: VarId) -> TermId {
    push(b, Term::Var(x))
}

/// Appends a term without typing it.
fn force(b: &mut Program, term: Term, ty: TypeId) -> TermId {
    b.term_types.push(ty);
    b.terms.push(term)
}

/// The complaints about a program, one per line; empty for a sound one. A program is read back from JSON iff it is sound.
#[track_caller]
fn check(expected: &[&str], form: NormalForm, build: impl FnOnce(&mut Program) -> TermId) {
    let mut b = program();
    b.form = form;
    b.root = build(&mut b);
    let found = b.verify().map_or_else(|errors| errors.to_string(), |()| String::new());
    assert_eq!(found, expected.join("\n"));
    assert_eq!(Program::from_json(&b.to_json().expect("json")).is_ok(), expected.is_empty());
}

#[test]
fn verify_shape() {
    let surface = NormalForm::Surface;
    check(&["e1: it is the operand of more than one term"], surface, |b| {
        let zero = b.literal(0.0).expect("typed");
        let s = var(b, S);
        let square = push(b, Term::Mul(s, s));
        push(b, Term::Add(zero, square))
    });
    check(&["e0: no term uses it"], surface, |b| {
        var(b, S);
        var(b, S)
    });
    check(&["e0: the root is an operand", "e1: no term uses it"], surface, |b| {
        let s = var(b, S);
        push(b, Term::Apply(Op::Exp.into(), vec![s]));
        s
    });
    check(&["e1: the operand e2 does not come before it", "e0: no term uses it"], surface, |b| {
        var(b, S);
        force(b, Term::Apply(Op::Exp.into(), vec![TermId(2)]), Types::REAL)
    });
    check(&["the root e9 is no term"], surface, |b| {
        var(b, S);
        TermId(9)
    });
    check(&["1 terms have 0 types"], surface, |b| {
        let s = var(b, S);
        b.term_types = Arena::new();
        s
    });
}

#[test]
fn verify_ids() {
    let surface = NormalForm::Surface;
    check(&["e0: the variable %77 is unknown"], surface, |b| force(b, Term::Var(VarId(77)), Types::REAL));
    check(&["e0: the type t77 is unknown"], surface, |b| force(b, Term::Var(S), TypeId(77)));
    check(&["e1: the index i7 is unknown"], surface, |b| {
        let s = var(b, S);
        push(b, Term::Sum { index: IndexId(7), extent: n(), body: s })
    });
    check(&["variable 1 does not stand for the parameter `s`"], surface, |b| {
        b.variables[S].kind = VariableKind::Let;
        var(b, S)
    });
    check(&["type t4: the size n9 is unknown"], surface, |b| {
        let ty = b.types.tensor(Size::size(SizeId(9)), Types::REAL);
        let i = index(b, "i");
        let s = var(b, S);
        force(b, Term::Gen { index: i, extent: Size::size(SizeId(9)), body: s }, ty)
    });
    check(&["e0: the size n9 is unknown"], surface, |b| push(b, Term::Number(Number::Index(Affine::size(SizeId(9))))));
}

#[test]
fn verify_scope() {
    let surface = NormalForm::Surface;
    check(&["e1: the index i0 is not in scope"], surface, |b| {
        let i = index(b, "i");
        let x = var(b, X);
        b.access(x, [Affine::index(i)]).expect("typed")
    });
    check(&["e3: the index i0 is bound twice"], surface, |b| {
        let i = index(b, "i");
        let s = var(b, S);
        let left = push(b, Term::Sum { index: i, extent: n(), body: s });
        let s = var(b, S);
        let right = push(b, Term::Sum { index: i, extent: n(), body: s });
        push(b, Term::Add(left, right))
    });
    check(&["e1: the index i0 is bound twice"], surface, |b| {
        let i = index(b, "i");
        let s = var(b, S);
        let atom = Pred::zero(Affine::index(i));
        let guard = Pred::exists(i, n(), atom);
        let body = push(b, Term::Iverson { guard, body: s });
        push(b, Term::Sum { index: i, extent: n(), body })
    });
    check(&["e0: the variable %4 is not in scope"], surface, |b| {
        let y = b.fresh_var("y", Types::REAL);
        let value = var(b, y);
        let body = var(b, y);
        push(b, Term::Let { var: y, value, body })
    });
    check(&["e2: the variable %4 is bound twice"], surface, |b| {
        let y = b.fresh_var("y", Types::REAL);
        let value = var(b, S);
        let inner = var(b, y);
        let body = push(b, Term::Let { var: y, value, body: inner });
        let value = var(b, S);
        push(b, Term::Let { var: y, value, body })
    });
    check(&["e1: the variable %4 is not in scope"], surface, |b| {
        let y = b.fresh_var("y", Types::REAL);
        let s = var(b, S);
        let relation = RelationRef::Computed { var: y, view: View::Support };
        push(b, Term::Iverson { guard: Pred::relation(relation, Vec::new()), body: s })
    });
}

#[test]
fn verify_types() {
    let surface = NormalForm::Surface;
    check(&["e2: the operand e0 is not a scalar"], surface, |b| {
        let (x, s) = (var(b, X), var(b, S));
        force(b, Term::Add(x, s), Types::REAL)
    });
    check(&["e1: its type is t0, not t1"], surface, |b| {
        let s = var(b, S);
        force(b, Term::Apply(Op::Exp.into(), vec![s]), TypeId(1))
    });
    check(&["e1: 1 arguments where 2 are expected"], surface, |b| {
        let s = var(b, S);
        push(b, Term::Apply(Op::Div.into(), vec![s]))
    });
    check(&["e1: an extent is not a size"], surface, |b| {
        let i = index(b, "i");
        let s = var(b, S);
        push(b, Term::Sum { index: i, extent: Affine::index(i), body: s })
    });
    check(&["e1: the operand e0 is not a pair"], surface, |b| {
        let q = var(b, Q);
        force(b, Term::Fst(q), TypeId(1))
    });
    check(&["e1: the operand e0 is not a tensor"], surface, |b| {
        let s = var(b, S);
        force(b, Term::Access { array: s, index: Affine::constant(0) }, Types::REAL)
    });
    check(&["e2: %1 is a parameter", "e2: the variable %1 is bound twice"], surface, |b| {
        let (value, body) = (var(b, S), var(b, S));
        force(b, Term::Let { var: S, value, body }, Types::REAL)
    });
    check(&["e1: a relation over 2 places is used with 1"], surface, |b| {
        let s = var(b, S);
        let guard = Pred::relation(RelationRef::Input(RelationId(0)), vec![Affine::constant(0)]);
        push(b, Term::Iverson { guard, body: s })
    });
    check(&["e1: a relation that is no map is applied"], surface, |b| {
        let map = RelationRef::Input(RelationId(0));
        let place = Affine::var(Var::Apply(Box::new(Application { map, args: vec![Affine::constant(0)] })));
        let x = var(b, X);
        b.access(x, [place]).expect("typed")
    });
    check(&["e1: the relation %2 is not a tensor of reals"], surface, |b| {
        let s = var(b, S);
        let relation = RelationRef::Computed { var: P, view: View::Support };
        push(b, Term::Iverson { guard: Pred::relation(relation, Vec::new()), body: s })
    });
    check(&["e1: %1 has no axis to look for the largest element"], surface, |b| {
        let s = var(b, S);
        let relation = RelationRef::Computed { var: S, view: View::ArgMax };
        push(b, Term::Iverson { guard: Pred::relation(relation, Vec::new()), body: s })
    });
}

#[test]
fn verify_predicates() {
    let bracket = |guard: Pred| {
        move |b: &mut Program| {
            let s = var(b, S);
            push(b, Term::Iverson { guard, body: s })
        }
    };
    let size = Affine::size(SizeId(0));
    let doubled = Pred::NonNegative(size.scale(2).expect("small"));
    check(&["e1: the predicate is not canonical"], NormalForm::Surface, bracket(doubled));
    let mut deep = Pred::zero(size.clone());
    for k in 0..70 {
        let atom = Pred::zero(size.add_constant(-k - 1).expect("small"));
        deep = if k % 2 == 0 { Pred::All([deep, atom].into()) } else { Pred::Any([deep, atom].into()) };
    }
    check(&["e1: the predicate is nested too deep"], NormalForm::Surface, bracket(deep));
    check(&[], NormalForm::Surface, bracket(Pred::zero(size)));
}

#[test]
fn verify_normal_forms() {
    let let_under_gen = |b: &mut Program| {
        let i = index(b, "i");
        let y = b.fresh_var("y", Types::REAL);
        let (value, body) = (var(b, S), var(b, y));
        let body = push(b, Term::Let { var: y, value, body });
        push(b, Term::Gen { index: i, extent: n(), body })
    };
    check(&[], NormalForm::Surface, let_under_gen);
    check(&["e2: a `let` is not at the top"], NormalForm::LetLifted, let_under_gen);

    let inner_pair = |b: &mut Program| {
        let (s, t) = (var(b, S), var(b, S));
        let pair = push(b, Term::Pair(s, t));
        push(b, Term::Iverson { guard: Pred::False, body: pair })
    };
    check(&[], NormalForm::LetLifted, inner_pair);
    check(&["e2: a pair is not in the output tuple"], NormalForm::PairFree, inner_pair);

    let projected_let = |b: &mut Program| {
        let y = b.fresh_var("y", TypeId(2));
        let (value, read) = (var(b, P), var(b, y));
        let body = push(b, Term::Fst(read));
        push(b, Term::Let { var: y, value, body })
    };
    check(&[], NormalForm::LetLifted, projected_let);
    let complaints = ["e2: a projection of what is no parameter", "the variable %4 is not a tensor of reals"];
    check(&complaints, NormalForm::PairFree, projected_let);

    let projected_array = |b: &mut Program| {
        let q = var(b, Q);
        let first = push(b, Term::Fst(q));
        b.access(first, [Affine::constant(0)]).expect("typed")
    };
    check(&[], NormalForm::GenPushedOut, projected_array);

    let inner_gen = |b: &mut Program| {
        let (i, j) = (index(b, "i"), index(b, "j"));
        let s = var(b, S);
        let array = push(b, Term::Gen { index: i, extent: n(), body: s });
        let read = push(b, Term::Access { array, index: Affine::index(j) });
        push(b, Term::Sum { index: j, extent: n(), body: read })
    };
    check(&[], NormalForm::PairFree, inner_gen);
    let complaints = ["e2: an access to what is neither a variable nor a projection", "e1: a `gen` is inside a scalar"];
    check(&complaints, NormalForm::GenPushedOut, inner_gen);

    let twice = |b: &mut Program| {
        let s = var(b, S);
        let body = push(b, Term::Iverson { guard: Pred::False, body: s });
        push(b, Term::Iverson { guard: Pred::True, body })
    };
    check(&[], NormalForm::PairFree, twice);
    check(&["e1: a bracket directly inside a bracket"], NormalForm::GenPushedOut, twice);

    let whole = |b: &mut Program| {
        let (x, s) = (var(b, X), var(b, S));
        push(b, Term::Pair(x, s))
    };
    check(&[], NormalForm::PairFree, whole);
    check(&["e0: a tensor is used whole"], NormalForm::GenPushedOut, whole);
}

#[test]
fn verify_signature() {
    let x = crate::base::ParamId(0);
    let index = Affine::index(IndexId(0));
    let unknown = Size::size(SizeId(5));
    let relation = |shape: Vec<Size>, kind| Relation { name: "R".into(), shape, kind };
    type Change = Box<dyn Fn(&mut Signature)>;
    let cases: Vec<(&str, Change)> = vec![
        (
            "the parameter `x` has no pattern",
            Box::new(move |s| s.params[x].storage = Storage::Sparse(Format::Csr, RelationId(0))),
        ),
        ("the parameter `x` has an unknown type", Box::new(move |s| s.params[x].ty = TypeId(50))),
        ("the pattern `R` is of no parameter", {
            let r = relation(vec![n()], RelationKind::Pattern(x));
            Box::new(move |s| {
                s.relations.push(r.clone());
            })
        }),
        ("the map `R` has no source", {
            let r = relation(vec![n()], RelationKind::Map);
            Box::new(move |s| {
                s.relations.push(r.clone());
            })
        }),
        ("the size n5 is unknown", {
            let r = relation(vec![unknown], RelationKind::Free);
            Box::new(move |s| {
                s.relations.push(r.clone());
            })
        }),
        ("in an assumption an extent is not a size", {
            Box::new(move |s| s.assumptions.push(Pred::zero(index.clone())))
        }),
        ("the sparse matrix `x` has 1 axes", {
            let r = relation(vec![n()], RelationKind::Pattern(x));
            Box::new(move |s| s.params[x].storage = Storage::Sparse(Format::Csr, s.relations.push(r.clone())))
        }),
    ];
    for (expected, change) in cases {
        let mut b = program();
        b.root = var(&mut b, S);
        let mut signature = (*b.signature).clone();
        change(&mut signature);
        b.signature = Arc::new(signature);
        let found = b.verify().map_or_else(|errors| errors.to_string(), |()| String::new());
        assert!(found.lines().any(|line| line == expected), "expected {expected}, found {found}");
        assert!(Program::from_json(&b.to_json().expect("json")).is_err());
    }
}

#[test]
fn json_refuses_what_is_no_program() {
    let mut b = program();
    b.root = var(&mut b, S);
    let text = b.to_json().expect("json");
    assert!(Program::from_json(&text).is_ok_and(|read| read.same(&b)));
    for broken in ["", "{}", "[1]", &text[..text.len() / 2], &text.replace("\"root\":0", "\"root\":4000000000")] {
        let error = Program::from_json(broken).expect_err("no program");
        assert!(matches!(error, crate::Error::Data { .. }));
    }
    assert_eq!(b.types.get(TypeId(2)), &Type::Pair(Types::REAL, Types::REAL));
    assert_eq!(b.root.index(), 0);
}
