//! A program in the names of another signature.
//!
//! Two programs that were compiled apart number their sizes, parameters, relations and functions differently. What has the same name in both is
//! the same thing, and [`import`] renumbers one program as the other does:
//!
//! ```text
//! [X = gen g < n. sum s < m. [p] * Y[..] * Z[..]]  =  X = gen g < [n]. sum s < [m]. [[p]] * Y[..] * Z[..]
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use super::data::{Output, Program, Rhs, Stmt};
use crate::base::{Arena, FunctionId, Id, ParamId, RelationId, SideTable, SizeId};
use crate::error::{Error, Result};
use crate::index::{Affine, Application, Checked, Pred, RelationRef, Size, Var};
use crate::scalar::{Function, Number, Primitive};
use crate::ty::{Leaf, Signature, Storage, Type, TypeId, Types};

/// The statements of a program under another signature, which has everything that the program takes from outside. Statements keep their
/// numbers.
///
/// # Errors
/// [`Error::Request`] with what the signature does not have, or has otherwise; [`Error::Overflow`].
pub fn import(program: &Program, into: &Arc<Signature>) -> Result<Program> {
    let names = Names::new(&program.signature, into)?;
    let mut stmts = Arena::new();
    for stmt in program.stmts.values() {
        stmts.push(names.stmt(stmt)?);
    }
    let mut signature = (**into).clone();
    let types = names.types(&program.signature.types, &mut signature.types)?;
    let output = |output: &Output| {
        let ty = types.get(output.ty.index()).copied();
        let ty = ty.ok_or_else(|| Error::bug("import", format!("the type of `{}` is unknown", output.name)))?;
        Ok(Output { ty, storage: names.storage(output.storage), ..output.clone() })
    };
    let outputs = program.outputs.iter().map(output).collect::<Result<_>>()?;
    Ok(Program { signature: signature.into(), stmts, names: program.names.clone(), outputs })
}

/// What each number of one signature is in another.
struct Names {
    sizes: SideTable<SizeId, SizeId>,
    params: SideTable<ParamId, ParamId>,
    relations: SideTable<RelationId, RelationId>,
    functions: SideTable<FunctionId, FunctionId>,
}

/// The numbers of what has the same names; what is not there is an error, `what` being its kind.
fn by_name<K: Id, T>(
    what: &str,
    from: &Arena<K, T>,
    into: &Arena<K, T>,
    name: impl Fn(&T) -> &str,
) -> Result<SideTable<K, K>> {
    let known: BTreeMap<&str, K> = into.iter().map(|(id, x)| (name(x), id)).collect();
    let mut ids = SideTable::new(from.len(), K::from_index(0));
    for (id, x) in from.iter() {
        let missing = || Error::Request(format!("the program has no {what} `{}`", name(x)));
        ids.set(id, *known.get(name(x)).ok_or_else(missing)?);
    }
    Ok(ids)
}

impl Names {
    fn new(from: &Signature, into: &Signature) -> Result<Names> {
        let names = Names {
            sizes: by_name("size", &from.sizes, &into.sizes, |name| name)?,
            params: by_name("parameter", &from.params, &into.params, |param| &param.name)?,
            relations: by_name("relation", &from.relations, &into.relations, |relation| &relation.name)?,
            functions: by_name("function", &from.functions, &into.functions, |function| function.name())?,
        };
        let other =
            |what: &str, name: &str| Error::Request(format!("the {what} `{name}` is another one in the program"));
        for (id, param) in from.params.iter() {
            let found = &into.params[names.params[id]];
            let same = names.leaves(from, param.ty)? == into.types.leaves(found.ty)?;
            if !same || names.storage(param.storage) != found.storage {
                return Err(other("parameter", &param.name));
            }
        }
        for (id, relation) in from.relations.iter() {
            let found = &into.relations[names.relations[id]];
            if names.sizes_of(&relation.shape)? != found.shape
                || std::mem::discriminant(&relation.kind) != std::mem::discriminant(&found.kind)
            {
                return Err(other("relation", &relation.name));
            }
        }
        if let Some((_, function)) = from.functions.iter().find(|(id, f)| into.functions[names.functions[*id]] != **f) {
            return Err(other("function", function.name()));
        }
        let facts = into.facts();
        for p in &from.assumptions {
            if !facts.proves(&names.pred(p)?) {
                let message = "a program assumes more of its sizes than the one that it is made part of";
                return Err(Error::Request(message.to_owned()));
            }
        }
        Ok(names)
    }

    fn relation(&self, relation: RelationRef) -> RelationRef {
        match relation {
            RelationRef::Input(r) => RelationRef::Input(self.relations[r]),
            computed @ RelationRef::Computed { .. } => computed,
        }
    }

    fn storage(&self, storage: Storage) -> Storage {
        storage.pattern().map_or(storage, |pattern| storage.on(self.relations[pattern]))
    }

    fn affine(&self, a: &Affine) -> Checked<Affine> {
        a.replace(&mut |v| {
            Ok(match v {
                Var::Size(n) => Some(Affine::size(self.sizes[*n])),
                Var::Apply(apply) => {
                    let map = self.relation(apply.map);
                    Some(Affine::var(Var::Apply(Box::new(Application { map, args: apply.args.clone() }))))
                }
                Var::Index(_) => None,
            })
        })
    }

    fn sizes_of(&self, sizes: &[Size]) -> Checked<Vec<Size>> {
        sizes.iter().map(|n| self.affine(n)).collect()
    }

    fn pred(&self, p: &Pred) -> Checked<Pred> {
        p.map_affine(&mut |a| self.affine(a))?.map_relations(&mut |r| Ok(self.relation(r)))
    }

    fn function(&self, function: Function) -> Function {
        let primitive = |primitive| match primitive {
            Primitive::User(f) => Primitive::User(self.functions[f]),
            op @ Primitive::Op(_) => op,
        };
        match function {
            Function::Value(f) => Function::Value(primitive(f)),
            Function::Partial(f, at) => Function::Partial(primitive(f), at),
        }
    }

    fn stmt(&self, stmt: &Stmt) -> Result<Stmt> {
        let rhs = match stmt.rhs.clone() {
            Rhs::Input { param, path } => Rhs::Input { param: self.params[param], path },
            Rhs::Number(Number::Index(a)) => Rhs::Number(Number::Index(self.affine(&a)?)),
            number @ Rhs::Number(Number::Literal(_)) => number,
            Rhs::Add([(p, x), (q, y)]) => Rhs::Add([(self.pred(&p)?, x), (self.pred(&q)?, y)]),
            Rhs::Map { guard, function, args } => {
                Rhs::Map { guard: self.pred(&guard)?, function: self.function(function), args }
            }
            Rhs::Contract { sums, guard, operands } => {
                Rhs::Contract { sums: self.sizes_of(&sums)?, guard: self.pred(&guard)?, operands }
            }
        };
        Ok(Stmt { dims: self.sizes_of(&stmt.dims)?, rhs })
    }

    /// What each type of one table is in another, which gets those that it does not have.
    fn types(&self, from: &Types, into: &mut Types) -> Checked<Vec<TypeId>> {
        let mut ids: Vec<TypeId> = Vec::with_capacity(from.iter().len());
        // Components come before what they are part of.
        let known = |ids: &[TypeId], ty: TypeId| ids.get(ty.index()).copied().unwrap_or(Types::REAL);
        for (_, ty) in from.iter() {
            ids.push(match ty {
                Type::Real => Types::REAL,
                Type::Pair(a, b) => into.pair(known(&ids, *a), known(&ids, *b)),
                Type::Tensor(n, element) => into.tensor(self.affine(n)?, known(&ids, *element)),
            });
        }
        Ok(ids)
    }

    /// The leaves of a type, with the sizes of the other signature.
    fn leaves(&self, from: &Signature, ty: TypeId) -> Result<Vec<Leaf>> {
        let leaves = from.types.leaves(ty)?.into_iter();
        leaves.map(|leaf| Ok(Leaf { dims: self.sizes_of(&leaf.dims)?, ..leaf })).collect()
    }
}
