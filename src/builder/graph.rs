//! The graph of a program that is built: nodes, and the declarations that refer to them.

use std::panic::Location;

use rustc_hash::FxHashSet;

use crate::error::Diagnostic;
use crate::surface::MAX_EXPRS;
use crate::surface::ast::{BinaryOp, BinderKind, LoopKind, StorageKind, UnaryOp};

pub(super) type NodeId = u32;
/// A line of Rust that made a part of a program.
pub(super) type Caller = &'static Location<'static>;
/// An index, a `let` variable or a state, which gets its name at the end.
pub(super) type BoundId = u32;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sort {
    Real,
    Index,
    Guard,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Error,
    Number {
        value: f64,
        integer: Option<i64>,
    },
    Name(String),
    Bound(BoundId),
    Unary(UnaryOp),
    Binary(BinaryOp),
    Iverson,
    Call(String),
    Access,
    Pair,
    Fst,
    Snd,
    Binder(BinderKind, BoundId),
    /// `argmax i < n. v[i]` with operands `n` and `v`.
    Arg(BinderKind, BoundId),
    Let(BoundId),
    /// `fold index < n, state = e0. e`, or `scan`, `iterate`, `fixpoint` and `unfold` alike, with operands `n`, `e0` and `e`.
    Scan {
        kind: LoopKind,
        down: bool,
        index: BoundId,
        state: BoundId,
    },
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) sort: Sort,
    /// Whether it is repeated at each use.
    pub(super) repeated: bool,
    pub(super) operands: Vec<NodeId>,
    /// The line of Rust that made it.
    pub(super) caller: Caller,
}

#[derive(Debug)]
pub(super) enum Declared {
    Param { name: String, storage: StorageKind, ty: Shape },
    Relation { name: String, shape: Vec<NodeId> },
    Map { name: String, source: Vec<NodeId>, target: NodeId },
    Assume { pred: NodeId },
    Fun { name: String, params: Vec<String>, value: NodeId, partials: Vec<NodeId> },
}

#[derive(Clone, Debug)]
pub(super) enum Shape {
    Real,
    Tensor(Vec<NodeId>, Box<Shape>),
    Pair(Box<Shape>, Box<Shape>),
    TooDeep,
}

#[derive(Debug, Default)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    /// What is declared, and by which line of Rust.
    pub(super) decls: Vec<(Declared, Caller)>,
    pub(super) names: FxHashSet<String>,
    pub(super) problems: Vec<Diagnostic>,
    pub(super) n_bound: BoundId,
    pub(super) too_large: bool,
}

impl Graph {
    #[track_caller]
    pub(super) fn push(&mut self, kind: Kind, sort: Sort, operands: Vec<NodeId>) -> NodeId {
        if self.nodes.len() >= MAX_EXPRS {
            self.too_large = true;
            return 0;
        }
        let of_repeated =
            |k: usize| operands.get(k).and_then(|o| self.nodes.get(*o as usize)).is_some_and(|o| o.repeated);
        let repeated = sort != Sort::Real
            || match &kind {
                Kind::Error | Kind::Number { .. } | Kind::Name(_) | Kind::Bound(_) => true,
                Kind::Call(callee) => callee == "real" || callee.ends_with(".value"),
                Kind::Access | Kind::Fst | Kind::Snd => of_repeated(0),
                Kind::Unary(UnaryOp::Neg) => operands
                    .first()
                    .and_then(|o| self.nodes.get(*o as usize))
                    .is_some_and(|o| matches!(o.kind, Kind::Number { .. })),
                _ => false,
            };
        self.nodes.push(Node { kind, sort, repeated, operands, caller: Location::caller() });
        (self.nodes.len() - 1) as NodeId
    }

    #[track_caller]
    pub(super) fn number(&mut self, value: f64, integer: Option<i64>, sort: Sort) -> NodeId {
        if value < 0.0 || value == 0.0 && value.is_sign_negative() {
            let positive = Kind::Number { value: -value, integer: integer.and_then(i64::checked_neg) };
            let operand = self.push(positive, sort, vec![]);
            return self.push(Kind::Unary(UnaryOp::Neg), sort, vec![operand]);
        }
        self.push(Kind::Number { value, integer }, sort, vec![])
    }

    pub(super) fn bound(&mut self) -> BoundId {
        let bound = self.n_bound;
        self.n_bound = bound.saturating_add(1);
        bound
    }
}
