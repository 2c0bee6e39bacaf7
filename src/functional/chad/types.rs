//! The types of derivatives.
//!
//! ```text
//!                 forward                                      reverse
//! D[a -> b]1      D[a]1 -> D[b]1 * (D[a]2 -> D[b]2)            D[a]1 -> D[b]1 * (D[b]2 -> D[a]2)
//! D[a -> b]2      D[a]1 -> D[b]2                               D[a]1 => D[b]2
//! ```
//!
//! All other types are differentiated part by part: `D[real]2 = ~real`, `D[a * b]2 = D[a]2 ~* D[b]2`, `D[a + b]2 = D[a]2 ~+ D[b]2`, `D[[a]]2 = [D[a]2]`, and
//! `~unit` for types without reals. A data type becomes one of values and one of tangents or cotangents.

use super::Mode;
use crate::base::Id;
use crate::error::{Error, Result};
use crate::functional::lambda::{Builder, Context, DataId, LinearType, Type, TypeId};

/// The types of values and of tangents or cotangents, for each type of a program.
pub(super) struct Types {
    first: Vec<TypeId>,
    second: Vec<TypeId>,
}

impl Types {
    /// The types of derivatives, as types of a builder that has the types of the source.
    pub fn new(source: &Context, mode: Mode, out: &mut Builder) -> Result<Types> {
        let mut types = Types { first: Vec::new(), second: Vec::new() };
        let n = source.data.len();
        for suffix in ["'", "''"] {
            for (_, data) in source.data.iter() {
                out.data(&format!("{}{suffix}", data.name));
            }
        }
        for (_, ty) in source.types.iter() {
            let (first, second) = types.derive(ty, mode, n, out);
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

    /// `D[a]1`.
    pub fn first(&self, ty: TypeId) -> TypeId {
        self.first.get(ty.index()).copied().unwrap_or(ty)
    }

    /// `D[a]2`.
    pub fn second(&self, ty: TypeId) -> TypeId {
        self.second.get(ty.index()).copied().unwrap_or(ty)
    }

    /// The parts of a type come before it.
    fn derive(&self, ty: &Type, mode: Mode, n: usize, out: &mut Builder) -> (TypeId, TypeId) {
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
                let (derivative, owed) = match mode {
                    Mode::Forward => {
                        (out.types().function(second(a), second(b)), out.types().function(first(a), second(b)))
                    }
                    Mode::Reverse => (
                        out.types().function(second(b), second(a)),
                        out.types().linear(LinearType::Copower(first(a), second(b))),
                    ),
                };
                let result = out.types().pair(first(b), derivative);
                (out.types().function(first(a), result), owed)
            }
            Type::Array(a) => (out.types().array(first(a)), out.types().array(second(a))),
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
    Error::Limitation { feature: format!("{what} under CHAD"), span: None }
}
