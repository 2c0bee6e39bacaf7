//! The types of derivatives, as far as methods have them in common.
//!
//! ```text
//! D[real]1 = real        D[a * b]1 = D[a]1 * D[b]1       D[a + b]1 = D[a]1 + D[b]1
//! D[real]2 = ~real       D[a * b]2 = D[a]2 ~* D[b]2      D[a + b]2 = D[a]2 ~+ D[b]2      D[int]2 = D[unit]2 = ~unit
//! ```
//!
//! A data type becomes one of values and one of tangents or cotangents. Functions, arrays and whatever a method has of its own are the method's.

use super::build::Builder;
use super::data::{Context, DataId, Type, TypeId};
use super::linear::LinearType;
use crate::base::Id;
use crate::error::{Error, Result};

/// The types of values, `D[a]1`, and of tangents or cotangents, `D[a]2`, for each type of a program.
pub(in crate::ir::functional) struct DerivedTypes {
    first: Vec<TypeId>,
    second: Vec<TypeId>,
}

/// The types of a derivative for a type that is a method's own, whose parts have theirs; nothing for another one.
pub(in crate::ir::functional) type Own<'a> = &'a dyn Fn(&DerivedTypes, &Type, &mut Builder) -> Option<(TypeId, TypeId)>;

impl DerivedTypes {
    /// The types of derivatives, as types of a builder that has the types of the source. Refuses variables of types that have none, in the words of
    /// `unsupported`.
    pub fn new(source: &Context, out: &mut Builder, own: Own, unsupported: fn(&str) -> Error) -> Result<DerivedTypes> {
        let mut types = DerivedTypes { first: Vec::new(), second: Vec::new() };
        // The data types of values come first, in the order of those of the source, and then the others.
        let n = source.data.len();
        for suffix in ["'", "''"] {
            for (_, data) in source.data.iter() {
                out.data(&format!("{}{suffix}", data.name));
            }
        }
        // The parts of a type come before it.
        for (_, ty) in source.types.iter() {
            let (first, second) = types.derive(ty, n, out, own);
            types.first.push(first);
            types.second.push(second);
        }
        check(source, unsupported)?;
        for (id, data) in source.data.iter() {
            if let Some(definition) = data.definition {
                let (first, second) = (types.first(definition), types.second(definition));
                out.define(DataId::from_index(n + id.index()), first);
                out.define(DataId::from_index(2 * n + id.index()), second);
            }
        }
        Ok(types)
    }

    /// `D[a]1`.
    pub fn first(&self, ty: TypeId) -> TypeId {
        self.first.get(ty.index()).copied().unwrap_or(ty)
    }

    /// `D[a]2`.
    pub fn second(&self, ty: TypeId) -> TypeId {
        self.second.get(ty.index()).copied().unwrap_or(ty)
    }

    fn derive(&self, ty: &Type, n: usize, out: &mut Builder, own: Own) -> (TypeId, TypeId) {
        let unit = out.types().linear_unit();
        if let Some(types) = own(self, ty, out) {
            return types;
        }
        let (first, second) = (|ty: &TypeId| self.first(*ty), |ty: &TypeId| self.second(*ty));
        match ty {
            Type::Real => (out.types().real(), out.types().linear_real()),
            Type::Int => (out.types().int(), unit),
            Type::Unit => (out.types().unit(), unit),
            Type::Pair(a, b) => {
                (out.types().pair(first(a), first(b)), out.types().linear(LinearType::Pair(second(a), second(b))))
            }
            Type::Sum(a, b) => {
                (out.types().sum(first(a), first(b)), out.types().linear(LinearType::Sum(second(a), second(b))))
            }
            Type::Data(data) => {
                let values = out.types().intern(Type::Data(DataId::from_index(n + data.index())));
                let seconds = LinearType::Data(DataId::from_index(2 * n + data.index()));
                (values, out.types().linear(seconds))
            }
            // No value of these is differentiated, see `check`.
            _ => (unit, unit),
        }
    }
}

/// Refuses variables of types that have no derivatives.
fn check(source: &Context, unsupported: fn(&str) -> Error) -> Result<()> {
    let mut refused = vec![false; source.types.len()];
    for (id, ty) in source.types.iter() {
        refused[id.index()] = match ty {
            Type::Pair(a, b) | Type::Sum(a, b) | Type::Fn(a, b) | Type::Closure(a, b) => {
                refused[a.index()] || refused[b.index()]
            }
            Type::Array(a) => refused[a.index()],
            Type::Opaque(_) | Type::Linear(_) | Type::NoCells | Type::Cells(..) | Type::Action(..) => true,
            Type::Real | Type::Int | Type::Unit | Type::Data(_) | Type::Hidden(_) => false,
        };
    }
    match source.vars.values().find(|variable| refused[variable.ty.index()]) {
        Some(variable) => Err(unsupported(&format!("values of the type {}", source.show(variable.ty)))),
        None => Ok(()),
    }
}
