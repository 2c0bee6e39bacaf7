//! One of two programs under common ids.

use std::collections::{BTreeMap, BTreeSet};

use iverson::ir::base::{FunctionId, IndexId, RelationId, SizeId, VarId};
use iverson::ir::index::{Affine, Application, Pred, RelationRef, Var};
use iverson::ir::scalar::{Function, Primitive};
use iverson::ir::term::Program;

/// One of the two programs, with common ids: of sizes, relations and functions those of the first program, of the rest numbers.
pub(super) struct Side<'a> {
    pub(super) program: &'a Program,
    pub(super) first: &'a Program,
    pub(super) vars: BTreeMap<VarId, VarId>,
    pub(super) indices: BTreeMap<IndexId, IndexId>,
    /// The `let`s that are multiples of those of the other program, or have their axes in another order.
    pub(super) altered: BTreeSet<VarId>,
}

impl<'a> Side<'a> {
    pub(super) fn new(program: &'a Program, first: &'a Program) -> Self {
        let params = program.signature.params.ids().map(|p| (program.param(p), first.param(p))).collect();
        Side { program, first, vars: params, indices: BTreeMap::new(), altered: BTreeSet::new() }
    }

    /// A variable that is not bound on both sides is like no other.
    pub(super) fn var(&self, x: VarId) -> VarId {
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

    pub(super) fn function(&self, f: Function) -> Function {
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

    pub(super) fn affine(&self, a: &Affine) -> Affine {
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
    pub(super) fn pred(&mut self, p: &Pred, depth: u32) -> Pred {
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
