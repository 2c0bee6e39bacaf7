//! Binds data to a program: solves for its sizes and validates every input against its signature.
//!
//! Every axis of every parameter and relation has a *formula*, affine in the size variables, and every input has a *length*
//! there. The lengths determine the sizes:
//! 1. A formula with one unknown is solved for it; what it determines may leave another formula with one unknown.
//!    A formula of value `<= 0` means length 0, so a length of 0 says only `formula <= 0`. As sizes are not negative, `n + m - 1`
//!    of length 0 with `m = 1` gives `n = 0`, while `n - 1` of length 0 leaves `n` open (0 or 1).
//! 2. What remains is a linear system, [reduced](crate::solver::reduced) exactly over the integers.
//! 3. Every formula is evaluated and compared with its length, and the assumptions of the program are checked.
//!
//! Sizes that remain open, that are negative or fractional, and lengths that contradict each other are refused with the axes
//! that are responsible. Nothing is converted here: a dense tensor is no csr matrix until its owner says so.
//!
//! | file | job |
//! |---|---|
//! | `bind` | the inputs by name, and what the equations of the axes are |
//! | `sizes` | the sizes that solve the equations |
//! | `text` | formulas, assumptions and signatures as messages show them |

mod sizes;
#[cfg(test)]
mod tests;
pub(super) mod text;

use std::collections::BTreeSet;
use std::sync::Arc;

use self::sizes::{Equation, Origin, Solver};
use self::text::{affine_text, expected, predicate_text, sizes_text};
use super::inputs::given_as_numbers;
use super::{Inputs, Relation, Tensor, Value};
use crate::base::{Arena, ParamId, RelationId, SizeId};
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, RelationRef, Size, Var};
use crate::ty::{RelationKind, Signature, Storage, is_part, leaf_name};

/// The inputs of a program after validation: every shape, format and assumption of the signature holds.
#[derive(Clone, Debug)]
pub struct Bindings {
    sizes: Arena<SizeId, i64>,
    values: Arena<ParamId, Value>,
    relations: Arena<RelationId, Arc<Relation>>,
}

impl Bindings {
    /// The values of the size variables, none negative.
    pub fn sizes(&self) -> &Arena<SizeId, i64> {
        &self.sizes
    }

    /// The values of the parameters; leaves as in [`Types::leaves`](crate::ty::Types::leaves).
    pub fn values(&self) -> &Arena<ParamId, Value> {
        &self.values
    }

    /// The relations, patterns of sparse parameters included.
    pub fn relations(&self) -> &Arena<RelationId, Arc<Relation>> {
        &self.relations
    }

    /// The value of an expression over sizes.
    ///
    /// # Errors
    /// [`Error::Overflow`]; a bug if something other than sizes occurs.
    pub fn evaluate(&self, size: &Size) -> Result<i64> {
        evaluate(size, &|n| self.sizes.get(n).copied())
    }

    /// The number of elements that a size means: none where it is negative.
    ///
    /// # Errors
    /// As [`Bindings::evaluate`].
    pub fn length(&self, size: &Size) -> Result<usize> {
        usize::try_from(self.evaluate(size)?.max(0)).map_err(|_| Error::Overflow)
    }
}

/// Validates the inputs of a program and solves for its sizes.
///
/// Sizes follow from the lengths of the axes, which are affine in them; a formula that is not positive means length 0. A size
/// that does not follow must be [given](Inputs::size). Nothing is converted.
///
/// # Errors
/// [`Error::Data`] names the input at fault, what was expected and what was found.
pub fn bind(signature: &Signature, inputs: &Inputs) -> Result<Bindings> {
    let inputs = &*inputs.of_program(signature);
    let bindings = solved(signature, inputs, given(signature, inputs)?)?;
    for (id, relation) in signature.relations.iter() {
        if relation.kind == RelationKind::Map {
            bindings.relations[id].is_map().map_err(|malformed| malformed.of(&relation.name))?;
        }
    }
    for assumption in &signature.assumptions {
        if !holds(signature, &bindings, assumption)? {
            other_quotient(signature, &bindings)?;
            return Err(Error::data(
                format!("assume {}", predicate_text(signature, assumption)),
                format!("this does not hold: {}", sizes_text(signature, &bindings, assumption)),
            ));
        }
    }
    Ok(bindings)
}

/// That a size is another number than the quotient that defines it, in the words of its definition.
fn other_quotient(signature: &Signature, bindings: &Bindings) -> Result<()> {
    for quotient in signature.quotients() {
        let value = bindings.evaluate(&quotient.of)?.div_euclid(quotient.by);
        let found = bindings.sizes.get(quotient.size).copied().filter(|found| *found != value);
        if let (Some(found), Some(name)) = (found, signature.sizes.get(quotient.size)) {
            let formula = quotient.text(&affine_text(signature, &quotient.of));
            let sizes = sizes_text(signature, bindings, &Pred::non_negative(quotient.of));
            return Err(Error::data(name, format!("this size is {found}, but {formula} is {value}: {sizes}")));
        }
    }
    Ok(())
}

/// The sizes that are given by name.
fn given(signature: &Signature, inputs: &Inputs) -> Result<Vec<Equation>> {
    let mut equations = Vec::new();
    for (name, &length) in &inputs.sizes {
        // Of another program.
        let Some((n, _)) = signature.sizes.iter().find(|(_, size)| *size == name) else { continue };
        if length < 0 {
            return Err(Error::data(name, format!("a size is not negative, found {length}")));
        }
        equations.push(Equation { formula: Size::size(n), length, origin: Origin::Given(name.clone()) });
    }
    Ok(equations)
}

/// The values of all sizes.
///
/// # Errors
/// [`Error::Data`] for inputs from which they do not follow.
pub fn sizes(signature: &Signature, inputs: &Inputs) -> Result<Arena<SizeId, i64>> {
    let inputs = &*inputs.of_program(signature);
    Ok(solved(signature, inputs, given(signature, inputs)?)?.sizes)
}

/// What inputs are, with the sizes that solve the equations.
fn solved(signature: &Signature, inputs: &Inputs, mut equations: Vec<Equation>) -> Result<Bindings> {
    let values = collect_values(signature, inputs, &mut equations)?;
    let mut relations = collect_relations(signature, inputs, &values, &mut equations)?;
    let sizes = Solver::new(signature, equations)?.solve()?;
    // Now it is known how many targets a map may have.
    for (id, relation) in signature.relations.iter() {
        if let (Some(targets), Some(codomain)) = (inputs.maps.get(&relation.name), relation.shape.last()) {
            let codomain = evaluate(codomain, &|n| sizes.get(n).copied())?.max(0);
            let codomain = usize::try_from(codomain).map_err(|_| Error::Overflow)?;
            relations[id] = targets.relation(&relation.name, codomain)?;
        }
        if let Some((of, axes)) = relation.kind.projection() {
            let tuples = relations[of].projected(&axes.collect::<Vec<_>>());
            relations[id] = Arc::new(tuples.map_err(|malformed| malformed.of(&relation.name))?);
        }
    }
    Ok(Bindings { sizes, values, relations })
}

/// The leaves of every parameter, and the equations of their axes.
fn collect_values(
    signature: &Signature,
    inputs: &Inputs,
    equations: &mut Vec<Equation>,
) -> Result<Arena<ParamId, Value>> {
    let mut used = BTreeSet::new();
    let mut values = Arena::new();
    for (id, param) in signature.params.iter() {
        if !signature.types.contains(param.ty) {
            return Err(Error::bug("bind", format!("the type of `{}` is not in the signature", param.name)));
        }
        let leaves = signature.types.leaves(param.ty)?;
        let mut tensors: Vec<Arc<Tensor>> = Vec::with_capacity(leaves.len());
        while let Some(leaf) = leaves.get(tensors.len()) {
            // The leaf may be given alone, with its siblings, or with the whole parameter.
            let names = (0..=leaf.path.len()).map(|depth| leaf_name(&param.name, &leaf.path[..depth]));
            let given: Vec<(usize, String)> =
                names.enumerate().filter(|(_, name)| inputs.values.contains_key(name)).collect();
            let (depth, name) = match given.as_slice() {
                [(depth, name)] => (*depth, name.clone()),
                [] => {
                    let name = leaf_name(&param.name, &leaf.path);
                    let whole = (0..=leaf.path.len()).map(|depth| leaf_name(&param.name, &leaf.path[..depth]));
                    let malformed = whole.filter_map(|name| inputs.malformed.get_key_value(&name)).next();
                    return Err(match malformed {
                        Some((name, malformed)) => malformed.clone().of(name),
                        None => inputs.missing("parameter", &name, signature),
                    });
                }
                [(_, outer), (_, inner), ..] => {
                    return Err(Error::data(inner, format!("this is given twice, here and as a part of `{outer}`")));
                }
            };
            let part = &leaf.path[..depth];
            let start = tensors.len();
            let group = leaves[start..].iter().take_while(|other| other.path.starts_with(part)).count();
            let value = &inputs.values[&name];
            if value.leaves().len() != group {
                let found = value.leaves().len();
                let s = if group == 1 { "" } else { "s" };
                return Err(Error::data(
                    name,
                    format!("this has {group} component{s}, a value with {found} was given"),
                ));
            }
            for (leaf, tensor) in leaves[start..start + group].iter().zip(value.leaves()) {
                let subject = leaf_name(&param.name, &leaf.path);
                check_format(&subject, param.storage, tensor)?;
                push_axes(signature, &subject, &leaf.dims, &tensor.shape(), equations)?;
                tensors.push(tensor.clone());
            }
            used.insert(name);
        }
        let pushed: ParamId = values.push(Value::new(tensors));
        debug_assert!(pushed == id);
    }
    // What is of another program is left alone.
    for name in inputs.values.keys().filter(|name| !used.contains(*name)) {
        let hint = if let Some(relation) = signature.relations.values().find(|r| r.name == *name) {
            given_as_numbers(relation.kind)
        } else if signature.params.values().any(|param| is_part(name, &param.name)) {
            "the program has no such parameter"
        } else {
            continue;
        };
        return Err(Error::data(name, format!("{hint}; {}", expected(signature))));
    }
    Ok(values)
}

/// The relations, patterns of sparse parameters included, and the equations of their axes.
fn collect_relations(
    signature: &Signature,
    inputs: &Inputs,
    values: &Arena<ParamId, Value>,
    equations: &mut Vec<Equation>,
) -> Result<Arena<RelationId, Arc<Relation>>> {
    let mut relations = Arena::new();
    for relation in signature.relations.values() {
        if let (RelationKind::Map, Some(map)) = (relation.kind, inputs.maps.get(&relation.name)) {
            let sources = relation.shape.split_last().map_or(&[][..], |(_, sources)| sources);
            push_axes(signature, &relation.name, sources, map.sources(), equations)?;
            // Until sizes are known.
            let _: RelationId = relations.push(Arc::new(Relation::nothing(relation.shape.len())));
            continue;
        }
        let tuples = match relation.kind {
            RelationKind::Pattern(param) => {
                match values.get(param).and_then(Value::as_tensor).and_then(Tensor::pattern) {
                    Some(pattern) => pattern.clone(),
                    None => {
                        return Err(Error::bug(
                            "bind",
                            format!("`{}` is the pattern of no sparse parameter", relation.name),
                        ));
                    }
                }
            }
            RelationKind::Projection(..) => {
                // Until maps are there.
                let _: RelationId = relations.push(Arc::new(Relation::nothing(relation.shape.len())));
                continue;
            }
            RelationKind::Free | RelationKind::Map => match inputs.relations.get(&relation.name) {
                Some(tuples) => tuples.clone(),
                None if inputs.maps.contains_key(&relation.name) => {
                    return Err(Error::data(&relation.name, "this is a relation, and not a map; give its tuples"));
                }
                None => return Err(inputs.missing("relation", &relation.name, signature)),
            },
        };
        // People know a pattern by its parameter.
        let name = relation.name.trim_end_matches('?');
        push_axes(signature, name, &relation.shape, tuples.shape(), equations)?;
        let _: RelationId = relations.push(tuples);
    }
    for (id, param) in signature.params.iter() {
        let Some(shared) = param.storage.pattern().and_then(|r| Some((signature.relations.get(r)?, relations.get(r)?)))
        else {
            continue;
        };
        let (RelationKind::Pattern(owner), own) = (shared.0.kind, values.get(id).and_then(Value::as_tensor)) else {
            continue;
        };
        let same = own.and_then(Tensor::pattern).is_none_or(|pattern| pattern == shared.1);
        if owner != id && !same {
            let owner = signature.params.get(owner).map_or("another", |p| p.name.as_str());
            return Err(Error::data(
                &param.name,
                format!("it must have the entries that `{owner}` has, and no others"),
            ));
        }
    }
    for name in inputs.relations.keys().chain(inputs.maps.keys()) {
        let found = signature.relations.values().find(|relation| relation.name == *name);
        if found.is_some_and(|relation| matches!(relation.kind, RelationKind::Pattern(_))) {
            return Err(Error::data(name, "this is the pattern of a sparse parameter, which brings it along"));
        }
    }
    Ok(relations)
}

fn check_format(subject: &str, storage: Storage, tensor: &Tensor) -> Result<()> {
    let advice = match (storage.format(), tensor.sparse_format()) {
        (wanted, found) if wanted == found => return Ok(()),
        (None, _) => "convert it with `to_dense`, or declare the parameter sparse".to_owned(),
        (Some(format), None) => {
            format!("convert it with `{}`, or declare the parameter dense", format.conversion(None))
        }
        (Some(format), found) => format!("convert it with `{}`", format.conversion(found)),
    };
    let (wanted, found) = (storage.name(), tensor.format());
    Err(Error::data(subject, format!("expected a {wanted} tensor, found a {found} one; {advice}")))
}

fn push_axes(
    signature: &Signature,
    subject: &str,
    formulas: &[Size],
    shape: &[usize],
    equations: &mut Vec<Equation>,
) -> Result<()> {
    if formulas.len() != shape.len() {
        let kind = |axes: &[String]| match axes {
            [] => "a number".to_string(),
            axes => format!("a tensor of the shape [{}]", axes.join(", ")),
        };
        let wanted: Vec<String> = formulas.iter().map(|formula| affine_text(signature, formula)).collect();
        let found: Vec<String> = shape.iter().map(usize::to_string).collect();
        return Err(Error::data(subject, format!("expected {}, found {}", kind(&wanted), kind(&found))));
    }
    for (axis, (formula, &length)) in formulas.iter().zip(shape).enumerate() {
        let length = i64::try_from(length).map_err(|_| Error::Overflow)?;
        let origin = Origin::Axis { subject: subject.to_string(), axis };
        equations.push(Equation { formula: formula.clone(), length, origin });
    }
    Ok(())
}

fn evaluate(size: &Affine, value: &impl Fn(SizeId) -> Option<i64>) -> Result<i64> {
    let result = size.evaluate(&mut |v| match v {
        Var::Size(n) => value(*n),
        _ => None,
    });
    match result {
        Some(result) => Ok(result?),
        None => Err(Error::bug("bind", "an expression over sizes mentions something else")),
    }
}

/// The truth of an assumption.
fn holds(signature: &Signature, bindings: &Bindings, pred: &Pred) -> Result<bool> {
    let value = |a: &Affine| {
        if !a.is_size() {
            let feature = format!("the assumption `{}`, which is not about sizes", predicate_text(signature, pred));
            return Err(Error::Limitation { feature, span: None });
        }
        bindings.evaluate(a)
    };
    Ok(match pred {
        Pred::True => true,
        Pred::False => false,
        Pred::NonNegative(a) => value(a)? >= 0,
        Pred::Zero(a) => value(a)? == 0,
        Pred::NonZero(a) => value(a)? != 0,
        Pred::Relation { relation: RelationRef::Input(id), args, holds } => {
            let tuple = args.iter().map(value).collect::<Result<Vec<i64>>>()?;
            bindings.relations.get(*id).is_some_and(|relation| relation.contains(&tuple)) == *holds
        }
        Pred::All(preds) => {
            for p in preds.iter() {
                if !self::holds(signature, bindings, p)? {
                    return Ok(false);
                }
            }
            true
        }
        Pred::Any(preds) => {
            for p in preds.iter() {
                if self::holds(signature, bindings, p)? {
                    return Ok(true);
                }
            }
            false
        }
        Pred::Relation { .. } | Pred::Exists { .. } => {
            let feature = format!("the assumption `{}`", predicate_text(signature, pred));
            return Err(Error::Limitation { feature, span: None });
        }
    })
}
