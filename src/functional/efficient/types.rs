//! The types of derivatives.
//!
//! ```text
//! D[real]1 = real        D[a * b]1 = D[a]1 * D[b]1      D[a + b]1 = D[a]1 + D[b]1      D[[a]]1 = [D[a]1]
//! D[a -> b]1 = D[a]1 -> D[b]1 * (D[b]2 -> D[a]2)        D[closure(a, b)]1 = closure(D[a]1, D[b]1 * (D[b]2 -> ~package ~* D[a]2))
//! D[real]2 = ~real       D[a * b]2 = D[a]2 ~* D[b]2     D[a + b]2 = D[a]2 ~+ D[b]2     D[[a]]2 = int => D[a]2
//! D[a -> b]2 = ~unit     D[closure(a, b)]2 = ~package   D[int]2 = D[unit]2 = ~unit
//! ```
//!
//! Functions are closed (\[000\], Appendix B), so nothing is owed to what they capture. A hidden type has cotangents of type `~package`: the closure that hides it
//! puts the type to them, and takes it off. A data type becomes one of values and one of cotangents.

use crate::base::Id;
use crate::error::{Error, Result};
use crate::functional::lambda::{Builder, Context, DataId, LinearType, Type, TypeId};

/// The types of values and of cotangents, for each type of a program.
pub(super) struct Types {
    first: Vec<TypeId>,
    second: Vec<TypeId>,
}

impl Types {
    /// The types of derivatives, as types of a builder that has the types of the source.
    pub fn new(source: &Context, out: &mut Builder) -> Result<Types> {
        let mut types = Types { first: Vec::new(), second: Vec::new() };
        // The data types of values come first, in the order of those of the source, and then those of cotangents.
        let n = source.data.len();
        for (_, data) in source.data.iter() {
            out.data(&format!("{}'", data.name));
        }
        for (_, data) in source.data.iter() {
            out.data(&format!("{}''", data.name));
        }
        for (_, ty) in source.types.iter() {
            let (first, second) = types.derive(ty, n, out);
            types.first.push(first);
            types.second.push(second);
        }
        check(source)?;
        for (id, data) in source.data.iter() {
            if let Some(definition) = data.definition {
                let (first, second) = (types.first(definition), types.second(definition));
                out.define(DataId::from_index(n + id.index()), first);
                out.define(DataId::from_index(2 * n + id.index()), second);
            }
        }
        Ok(types)
    }

    /// The type of values, `D[a]1`.
    pub fn first(&self, ty: TypeId) -> TypeId {
        self.first.get(ty.index()).copied().unwrap_or(ty)
    }

    /// The type of cotangents, `D[a]2`.
    pub fn second(&self, ty: TypeId) -> TypeId {
        self.second.get(ty.index()).copied().unwrap_or(ty)
    }

    /// The parts of a type come before it.
    fn derive(&self, ty: &Type, n: usize, out: &mut Builder) -> (TypeId, TypeId) {
        let unit = out.types().linear_unit();
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
            Type::Fn(a, b) => {
                let back = out.types().function(second(b), second(a));
                let result = out.types().pair(first(b), back);
                (out.types().function(first(a), result), unit)
            }
            Type::Closure(a, b) => {
                let package = out.types().linear(LinearType::Package);
                let owed = out.types().linear(LinearType::Pair(package, second(a)));
                let back = out.types().function(second(b), owed);
                let result = out.types().pair(first(b), back);
                (out.types().intern(Type::Closure(first(a), result)), package)
            }
            Type::Hidden(x) => (out.types().intern(Type::Hidden(*x)), out.types().linear(LinearType::Package)),
            Type::Array(a) => {
                let int = out.types().int();
                let bag = out.types().linear(LinearType::Copower(int, second(a)));
                (out.types().array(first(a)), bag)
            }
            Type::Data(data) => {
                let values = out.types().intern(Type::Data(DataId::from_index(n + data.index())));
                let cotangents = LinearType::Data(DataId::from_index(2 * n + data.index()));
                (values, out.types().linear(cotangents))
            }
            // No value of these is differentiated, see `check`.
            Type::Opaque(_) | Type::Linear(_) | Type::NoCells | Type::Cells(..) | Type::Action(..) => (unit, unit),
        }
    }
}

/// Refuses variables of types that have no derivatives.
fn check(source: &Context) -> Result<()> {
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

/// What this method does not differentiate.
pub(super) fn unsupported(what: &str) -> Error {
    Error::Limitation { feature: format!("{what} under efficient CHAD"), span: None }
}
