//! Derivatives of Tensor-SSA programs, as Tensor-SSA programs.
//!
//! For a program `f` with inputs `x` and output `y`:
//!
//! | | takes | gives | how | paper |
//! |---|---|---|---|---|
//! | [`forward()`] | `x` and tangents `dx` | `D f(x; dx)` | statement by statement | 6.1-6.13 |
//! | [`adjoint()`] | `x` and a seed `dy` | `D^T f(x; dy)`, with `<dy, D f(x; dx)> = <D^T f(x; dy), dx>` | rewriting of inner products | 6.14-6.29 |
//! | [`adjoint()`] with [`Seed::One`] | `x` | the gradient of a real output | | section 6.1 |
//!
//! | [`jacobian()`] | `x` | all partial derivatives, as sparse tensors | one-hot tensors through either of the above | |
//! | [`gauss_newton`] | `x` | `J' J` | products of these | |
//! | [`hessian_product`], [`gauss_newton_product`] | `x` and tangents `dx` | `H dx`, `J' J dx` | [`forward()`] of a gradient; [`adjoint()`] of [`forward()`] | |
//! | [`transpose`] | a seed `dy` | `f' dy`, for a linear `f` | [`adjoint()`] | |
//!
//! | [`forward_through`], [`adjoint_through`] | | the same, where parameters depend on others ([`Dependent`]) | chain rule | |
//!
//! All are ordinary programs again, so derivatives of derivatives need nothing more. The results share statements with the primal
//! program, whose value they can return as well.
//!
//! **Names.** The tangent of a parameter `x` is a parameter `dx`, the seed of the output `value` is `dy`, of another output `z` it is `dz`.
//! Among statements the tangent of `t` is `t_tan` and its adjoint `t_adj`; a derivation writes `dt` where that is free. Results are called `tangent`, `adjoint_x`, `grad_x`, `jacobian_x`,
//! `hessian_x_y`, `gauss_newton_x_y`.
//!
//! **Sparse parameters.** A tangent or adjoint of a sparse parameter is sparse with the same pattern: the guards of the program read
//! the parameter only where its pattern holds, and every rule keeps guards.
//!
//! **Relations** that a program computes from tensors are piecewise constant, so their derivative is zero; where the truth value
//! changes, the derivative is that of the branch taken.
//!
//! **Scalar functions.** The derivative of `f(a, ..)` multiplies by the black box [`Function::Partial`](crate::scalar::Function).
//! [`expand_partials`] then replaces each by the expression in the operator table. A partial that is an indicator, as those of `max`,
//! becomes a guard on the derivative instead of a factor.

mod activity;
mod adjoint;
mod blocks;
mod dependent;
mod derivation;
mod forward;
mod jacobian;
mod joined;
mod linear;
mod partials;
mod pieces;
mod products;

pub(crate) use activity::active;
pub(crate) use adjoint::no_gradient;
pub use adjoint::{Adjoint, Options, Seed, adjoint};
pub(crate) use blocks::End;
pub use blocks::Sweep;
pub use dependent::{Dependent, adjoint_through, forward_through};
pub use derivation::{Collected, Derivation, Form, FormPart, InnerProduct, Right, Step, Sum};
pub use forward::{Forward, forward};
pub(crate) use jacobian::shared_axes;
pub use jacobian::{Jacobian, Part, Work, gauss_newton, jacobian};
pub(crate) use linear::{Dependence, culprit, dependences, not_linear};
pub use linear::{check_linear, transpose};
pub use partials::expand_partials;
pub use products::{gauss_newton_product, hessian_product};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::base::ParamId;
use crate::error::{Error, Result};
use crate::tssa::Output;
use crate::ty::{Param, Signature, Storage, TypeId};

/// The parameters of the given names.
///
/// # Errors
/// [`Error::Request`] for an unknown name, a repeated name, and no name at all.
pub fn params_by_name(signature: &Signature, names: &[impl AsRef<str>]) -> Result<Vec<ParamId>> {
    let known: BTreeMap<&str, ParamId> = signature.params.iter().map(|(id, p)| (p.name.as_str(), id)).collect();
    let mut params = Vec::new();
    let mut named = BTreeSet::new();
    for name in names {
        let name = name.as_ref();
        let param = known.get(name).copied().ok_or_else(|| {
            let known: Vec<&str> = signature.params.values().map(|p| p.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Error::Request(format!("the program has no parameter `{name}` to differentiate by; it has: {known}"))
        })?;
        if !named.insert(param) {
            return Err(Error::Request(format!("the parameter `{name}` is named twice")));
        }
        params.push(param);
    }
    if params.is_empty() {
        let message = match known.is_empty() {
            true => "the program has no parameter to differentiate by: relations, maps and sizes have no derivatives",
            false => "no parameter to differentiate by was named",
        };
        return Err(Error::Request(message.to_owned()));
    }
    Ok(params)
}

/// Adds parameters to a signature, under names that are free.
struct NewParams {
    signature: Arc<Signature>,
    taken: BTreeSet<String>,
}

impl NewParams {
    fn new(signature: &Arc<Signature>) -> Self {
        let taken = signature
            .params
            .values()
            .map(|p| p.name.as_str())
            .chain(signature.sizes.values().map(String::as_str))
            .chain(signature.relations.values().map(|r| r.name.as_str()))
            .chain(signature.functions.values().map(|f| f.name()))
            .map(str::to_owned)
            .collect();
        NewParams { signature: signature.clone(), taken }
    }

    /// Adds a parameter of the shape of an output: `weight`, or `weight_y` for the output `y`.
    fn weight(&mut self, output: &Output) -> ParamId {
        let name = if output.name == "value" { "weight".to_owned() } else { format!("weight_{}", output.name) };
        self.add(&name, output.ty, output.storage)
    }

    /// Adds a parameter under the given name, or the first of `name_2`, `name_3`, .. that is free.
    fn add(&mut self, name: &str, ty: TypeId, storage: Storage) -> ParamId {
        let names = (1..).map(|k| if k == 1 { name.to_owned() } else { format!("{name}_{k}") });
        let name = names.into_iter().find(|name| !self.taken.contains(name)).unwrap_or_else(|| name.to_owned());
        self.taken.insert(name.clone());
        Arc::make_mut(&mut self.signature).params.push(Param { name, ty, storage })
    }
}
