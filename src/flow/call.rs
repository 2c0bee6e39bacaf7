//! Calls of functions from outside, and their derivatives, which are calls again.
//!
//! ```text
//! D[ys = f(xs)]                ==  ys = f(xs); dys = f_forward(xs, ys, dxs)
//! [ys = f(xs)]                 ==  <xs> += f_adjoint(xs, ys, <ys>)
//! gen t. [ys = gen g. f(xs[g])]  ==  ys' = gen t, g. f(xs'[t, g])             as a statement under one more axis
//! ```
//!
//! Below a bracket, `[p] * f(x)`, a call is made where `p` holds and nowhere else: a tensor of zeros and ones says where, for derivatives, too.
//!
//! What has no tangent has a tangent of zeros, and to what nobody owes zeros are owed: code from outside is called with all that its header says.
//! Refused with [`Error::Request`]: a derivative that was not given.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::build::Builder;
use super::data::{Call, Loops, Stmt, ValueId};
use super::lift::{Axis, Lifted, lifted, varying};
use crate::base::FunctionId;
use crate::error::{Error, Result};
use crate::index::{Size, Var};
use crate::scalar::external::{Derivative, External};
use crate::ty::{Storage, Types};

const PASS: &str = "call";

impl Builder {
    /// The name of a function from outside, and what it is.
    pub(super) fn external(&self, function: FunctionId) -> Result<(String, Arc<External>)> {
        let found = self.signature().functions.get(function);
        let found = found.and_then(|f| Some((f.name().to_owned(), f.of_tensors()?.clone())));
        found.ok_or_else(|| Error::bug(PASS, "a function that is none of tensors"))
    }

    /// The derivative of a function from outside.
    pub(super) fn derivative_of(&self, function: FunctionId, derivative: Derivative) -> Result<FunctionId> {
        let (name, external) = self.external(function)?;
        let wanted = derivative.name(&name);
        let found = self.signature().functions.iter().find(|(_, f)| f.name() == wanted);
        let Some((id, found)) = found else {
            let giver = derivative.giver();
            let message = format!(
                "the derivative goes through the function `{name}` from outside, of which no `{wanted}` is given: give it by `{giver}`, or as a function of this name"
            );
            return Err(Error::Request(message));
        };
        if !found.of_tensors().is_some_and(|found| external.is_derivative(derivative, found)) {
            let message = format!("the function `{wanted}` does not take and give what a derivative of `{name}` does");
            return Err(Error::Request(message));
        }
        Ok(id)
    }

    /// A call that gives new values of these names.
    pub(super) fn call(
        &mut self,
        function: FunctionId,
        sizes: Vec<Size>,
        (axes, when): (Vec<Size>, Option<ValueId>),
        takes: Vec<ValueId>,
        names: &[String],
    ) -> Result<Call> {
        let (_, external) = self.external(function)?;
        let mut gives = Vec::with_capacity(external.results.len());
        for (at, dims) in external.results.iter().enumerate() {
            let dims: Vec<Size> = axes.iter().cloned().chain(External::with_sizes(dims, &sizes)?).collect();
            let ty = self.types().tensor_of(&dims, Types::REAL);
            gives.push(self.value(names.get(at).map_or("y", String::as_str), ty, Storage::Dense));
        }
        Ok(Call { function, sizes, axes, when, takes, gives })
    }

    /// The call of a derivative beside a call: of what that takes and gives, and of more.
    pub(super) fn derived_call(&mut self, call: &Call, derivative: Derivative, more: Vec<ValueId>) -> Result<Call> {
        let function = self.derivative_of(call.function, derivative)?;
        let of = if derivative == Derivative::Adjoint { &call.takes } else { &call.gives };
        let names: Vec<String> = of.iter().map(|x| format!("d{}", self.get(*x).name)).collect();
        let takes = call.takes.iter().chain(&call.gives).copied().chain(more).collect();
        self.call(function, call.sizes.clone(), (call.axes.clone(), call.when), takes, &names)
    }
}

/// A call over the index of the loop around it.
pub(super) fn lift(
    flow: &mut Builder,
    call: &Call,
    axis: &Axis,
    loops: &Loops,
    known: &mut BTreeMap<ValueId, Lifted>,
    out: &mut Vec<Stmt>,
) -> Result<()> {
    let is_in = |n: &Size| n.coefficient(&Var::Size(axis.index)) != 0;
    if call.sizes.iter().chain(&call.axes).any(is_in) {
        return Err(Error::bug(PASS, "a call of other sizes in each step"));
    }
    let varies = call.reads().any(|x| lifted(known, x).varies);
    let mut reads = Vec::with_capacity(call.takes.len() + 1);
    for x in call.reads() {
        let name = flow.get(x).name.clone();
        reads.push(match varies {
            true => varying(flow, lifted(known, x), &name, axis, loops, out)?,
            false => lifted(known, x).value,
        });
    }
    let when = if call.when.is_some() { reads.pop() } else { None };
    let axes = varies.then(|| axis.steps.clone()).into_iter().chain(call.axes.iter().cloned()).collect();
    let names: Vec<String> = call.gives.iter().map(|x| flow.get(*x).name.clone()).collect();
    let new = flow.call(call.function, call.sizes.clone(), (axes, when), reads, &names)?;
    for (x, value) in call.gives.iter().zip(&new.gives) {
        known.insert(*x, Lifted { value: *value, varies });
    }
    out.push(Stmt::Call(new));
    Ok(())
}
