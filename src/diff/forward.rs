//! The forward (total) derivative, rules 6.1-6.13 on Tensor-SSA.
//!
//! One equation: `let X = e in S` becomes `let X = e in let dX = D[e] in D[S]`, where `D[e]` is, for each of the six forms,
//!
//! ```text
//! D[x]                       =  dx                                                        6.1, 6.2, 6.8
//! D[c]                       =  0                                                         6.3
//! D[[p] X0 + [q] X1]         =  [p] dX0 + [q] dX1                                         6.4, 6.12
//! D[[p] f(X0, ..)]           =  [p] f'0(X0, ..) dX0 + ..                                  6.6
//! D[sum s. [p] X0 X1]        =  [E] (sum s. [p] dX0 X1) + [E] (sum s. [p] X0 dX1)         6.5, 6.10
//! D[sum s. [p] X0]           =  sum s. [p] dX0                                            6.10
//! ```
//!
//! with `E = exists s. p`, so that no addition is made where both sums are empty. What does not depend on the chosen parameters has no
//! tangent, and summands without tangents are left out. Work: at most twice the products and one addition more for each
//! contraction, so at most 4 times the primal for functions of one or two arguments (Thm 6.1).

use std::collections::BTreeMap;

use super::activity::{active, partial};
use super::{NewParams, expand_partials};
use crate::base::{IndexId, ParamId, SideTable, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, RelationRef, Size, View};
use crate::scalar::{Comparison, Formula, Function, Number, Op, Partial};
use crate::solver::exists_all;
use crate::tssa::{Builder, Operand, Output, Program, Rhs};

/// A forward derivative.
#[derive(Clone, Debug)]
pub struct Forward {
    /// The program. Its results are those of the primal program, if they were asked for, then their tangents.
    pub program: Program,
    /// Each parameter that was differentiated, with the parameter that holds its tangent.
    pub tangents: Vec<(ParamId, ParamId)>,
}

/// The forward derivative of a program by some of its parameters.
///
/// # Errors
/// [`Error::Overflow`] and [`Error::Bug`].
pub fn forward(program: &Program, wrt: &[ParamId], with_value: bool) -> Result<Forward> {
    let program = &expand_partials(program)?;
    let active = active(program, wrt)?;
    let mut params = NewParams::new(&program.signature);
    let mut tangents = Vec::new();
    for x in wrt {
        let param = &program.signature.params[*x];
        tangents.push((*x, params.add(&format!("d{}", param.name), param.ty, param.storage)));
    }
    let tangent_params: BTreeMap<ParamId, ParamId> = tangents.iter().copied().collect();
    let mut builder = Builder::resume(program);
    builder.extend_signature(params.signature);
    let mut tangent: SideTable<VarId, Option<VarId>> = SideTable::new(program.stmts.len(), None);
    for x in program.stmts.ids().filter(|x| active[*x]) {
        let dx = tangent_of(&mut builder, x, &|operand| tangent[operand], &tangent_params)?;
        name_after(&mut builder, dx, x, "tan");
        tangent.set(x, dx);
    }
    let mut outputs = if with_value { program.outputs.clone() } else { Vec::new() };
    for output in &program.outputs {
        let leaves = output.leaves.iter().map(|x| match tangent[*x] {
            Some(dx) => Ok(dx),
            None => zero(&mut builder, &program.stmts[*x].dims),
        });
        let leaves = leaves.collect::<Result<_>>()?;
        let name = match output.name.as_str() {
            "value" => "tangent".to_owned(),
            name => format!("tangent_{name}"),
        };
        outputs.push(Output { name, leaves, ..output.clone() });
    }
    Ok(Forward { program: builder.finish(outputs).prune()?, tangents })
}

/// The tensor of zeros.
pub(super) fn zero(builder: &mut Builder, dims: &[Size]) -> Result<VarId> {
    let gens = builder.fresh_indices(dims);
    builder.number(&gens, Number::Literal(0.0))
}

/// Names a derivative after the statement it belongs to, if that has a name.
pub(super) fn name_after(builder: &mut Builder, derivative: Option<VarId>, x: VarId, what: &str) {
    let name = builder.name(x).to_owned();
    if let (Some(derivative), false) = (derivative, name.is_empty()) {
        builder.suggest_name(derivative, &format!("{name}_{what}"));
    }
}

/// `dX = D[e]` for the statement `X = e`, given the tangents of its operands; nothing where it is zero.
pub(super) fn tangent_of(
    builder: &mut Builder,
    x: VarId,
    tangent: &impl Fn(VarId) -> Option<VarId>,
    tangent_params: &BTreeMap<ParamId, ParamId>,
) -> Result<Option<VarId>> {
    let open = builder.open(x)?;
    let gens = &open.gens;
    match open.rhs {
        Rhs::Input { param, path } => {
            let dims = builder.dims(x).to_vec();
            Ok(tangent_params.get(&param).map(|dx| builder.input(*dx, path, dims)))
        }
        Rhs::Number(_) => Ok(None),
        Rhs::Add([(p, x0), (q, x1)]) => {
            let terms = [(p, tangent(x0)), (q, tangent(x1))];
            sum(builder, gens, terms.into_iter().filter_map(|(p, dx)| Some((p, dx?))).collect())
        }
        Rhs::Map { guard, function, args } => {
            let mut terms = Vec::new();
            for (at, arg) in (0..).zip(&args) {
                if let Some(darg) = tangent(*arg) {
                    terms.extend(scaled_partial(builder, gens, guard.clone(), function, &args, at, darg)?);
                }
            }
            sum(builder, gens, terms)
        }
        Rhs::Contract { guard, operands, .. } => {
            let support = exists_all(&open.sums, &guard)?;
            let mut terms = Vec::new();
            for at in 0..operands.len() {
                let Some(dx) = tangent(operands[at].var) else { continue };
                let mut operands = operands.clone();
                operands[at].var = dx;
                terms.push((support.clone(), product(builder, gens, &open.sums, guard.clone(), operands)?));
            }
            match terms.as_slice() {
                [(_, one)] => Ok(Some(*one)),
                _ => sum(builder, gens, terms),
            }
        }
    }
}

/// `[p] X0[g] + [q] X1[g] + ..` over tensors that share their axes; nothing for no terms.
pub(super) fn sum(builder: &mut Builder, gens: &[(IndexId, Size)], terms: Vec<(Pred, VarId)>) -> Result<Option<VarId>> {
    let mut terms = terms.into_iter();
    let Some((mut guard, mut total)) = terms.next() else { return Ok(None) };
    let mut single = true;
    for (p, x) in terms {
        total = builder.add(gens, [(guard.clone(), total), (p.clone(), x)])?;
        guard = guard.or(p);
        single = false;
    }
    if single && !guard.is_true() {
        total = product(builder, gens, &[], guard, vec![aligned(gens, total)])?;
    }
    Ok(Some(total))
}

/// `X[g]`.
pub(super) fn aligned(gens: &[(IndexId, Size)], x: VarId) -> Operand {
    Operand { var: x, indices: gens.iter().map(|(i, _)| *i).collect() }
}

/// `gen g. [p] f'k(X0, ..) * dY[g]` with the guard under which it may differ from zero. Nothing where the partial is zero.
pub(super) fn scaled_partial(
    builder: &mut Builder,
    gens: &[(IndexId, Size)],
    guard: Pred,
    function: Function,
    args: &[VarId],
    at: u8,
    dy: VarId,
) -> Result<Option<(Pred, VarId)>> {
    let Some((guard, factor)) = partial_factor(builder, gens, guard, function, args, at)? else { return Ok(None) };
    let operands = factor.into_iter().chain([dy]).map(|x| aligned(gens, x)).collect();
    let term = product(builder, gens, &[], guard.clone(), operands)?;
    Ok(Some((guard, term)))
}

/// The guard of a product with `gen g. [p] f'k(X0[g], ..)`, and that factor. Nothing where it is zero.
///
/// An indicator partial `[a < b]` is a guard, never a factor: a select keeps infinities out of the branch not taken.
pub(super) fn partial_factor(
    builder: &mut Builder,
    gens: &[(IndexId, Size)],
    guard: Pred,
    function: Function,
    args: &[VarId],
    at: u8,
) -> Result<Option<(Pred, Option<VarId>)>> {
    let Function::Value(primitive) = function else {
        return Err(Error::bug("diff", "a partial derivative was not expanded"));
    };
    let kind = partial(function, at, builder.signature())?;
    if kind == Partial::Zero {
        return Ok(None);
    }
    let (factor, args, holds) = match kind {
        Partial::Otherwise(other) => match alone(builder, function, other, args)? {
            Some((comparison, sides)) => (Op::Compare(comparison).into(), sides.to_vec(), true),
            None => (Function::Partial(primitive, other), args.to_vec(), false),
        },
        _ => (Function::Partial(primitive, at), args.to_vec(), true),
    };
    let factor = builder.map(gens, guard.clone(), factor, args)?;
    Ok(Some(match kind {
        Partial::Indicator(..) | Partial::Otherwise(_) => {
            let relation = RelationRef::Computed { var: factor, view: View::Support };
            (guard.and(Pred::Relation { relation, args: Affine::indices(gens), holds }), None)
        }
        Partial::Zero | Partial::Formula(_) => (guard, Some(factor)),
    }))
}

/// Where an argument is a literal nobody asks whether it was taken, and where it was not is a comparison of its own: `[0 < a]` for `max(0, a)`.
fn alone(
    builder: &Builder,
    function: Function,
    literal: u8,
    args: &[VarId],
) -> Result<Option<(Comparison, [VarId; 2])>> {
    let is_literal = |x: &VarId| matches!(builder.stmt(*x).rhs, Rhs::Number(Number::Literal(_)));
    if !args.get(usize::from(literal)).is_some_and(is_literal) {
        return Ok(None);
    }
    let Partial::Indicator(comparison, Formula::Arg(a), Formula::Arg(b)) =
        partial(function, literal, builder.signature())?
    else {
        return Ok(None);
    };
    let (Some(a), Some(b)) = (args.get(usize::from(a)), args.get(usize::from(b))) else { return Ok(None) };
    Ok(match comparison {
        Comparison::Less => Some((Comparison::LessEqual, [*b, *a])),
        Comparison::LessEqual => Some((Comparison::Less, [*b, *a])),
        Comparison::Equal | Comparison::NotEqual => None,
    })
}

/// A contraction, without a factor that is the number 1, and a number where that is all there is.
pub(super) fn product(
    builder: &mut Builder,
    gens: &[(IndexId, Size)],
    sums: &[(IndexId, Size)],
    guard: Pred,
    mut operands: Vec<Operand>,
) -> Result<VarId> {
    let is_one = |x: &Operand| match &builder.stmt(x.var).rhs {
        Rhs::Number(Number::Literal(one)) => *one == 1.0,
        _ => false,
    };
    if let [x, y] = operands.as_slice() {
        if is_one(x) {
            operands.remove(0);
        } else if is_one(y) {
            operands.pop();
        }
    }
    let x = builder.contract(gens, sums, guard, operands)?;
    // gen g. C is the number again.
    match &builder.stmt(x).rhs {
        Rhs::Contract { sums, guard: Pred::True, operands } if sums.is_empty() && operands.len() == 1 => {
            match builder.stmt(operands[0].var).rhs {
                Rhs::Number(Number::Literal(c)) => builder.number(gens, Number::Literal(c)),
                _ => Ok(x),
            }
        }
        _ => Ok(x),
    }
}
