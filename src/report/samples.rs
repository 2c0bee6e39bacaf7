//! Small inputs for a program that comes without: sizes that its assumptions allow, numbers, and patterns, relations and maps that look random
//! and are the same each time. *Refused*, by giving none, are programs that no sizes fit that are tried.

use std::sync::Arc;

use crate::base::{ParamId, RelationId};
use crate::error::{Error, Result};
use crate::index::{Size, Var};
use crate::tensor::{Coo, Dense, Inputs, Relation, Tensor, Value, bind, element_count};
use crate::ty::{RelationKind, Signature, leaf_name};

/// The sizes that are tried, in turn for the sizes of a program.
const TRIED: [&[i64]; 7] = [&[12, 8, 10, 6, 9, 7], &[8, 10, 12, 14, 16], &[16, 8, 4, 2], &[8], &[4], &[16], &[2]];

/// How many numbers a made-up tensor may have.
const MOST: usize = 1 << 14;

/// Inputs that a program takes, with small sizes; nothing where none of those tried fit.
pub(super) fn inputs(signature: &Signature) -> Result<Option<Inputs>> {
    for sizes in TRIED {
        let mut inputs = Inputs::new();
        for (name, n) in signature.sizes.values().zip(sizes.iter().cycle()) {
            inputs.size(name.clone(), *n);
        }
        for (size, value) in signature.quotient_values(|n| inputs.given_size(signature.sizes.get(n)?))? {
            inputs.size(signature.sizes[size].clone(), value);
        }
        match complete(signature, &mut inputs, MOST).and_then(|()| bind(signature, &inputs)) {
            Ok(_) => return Ok(Some(inputs)),
            // Other sizes may do.
            Err(Error::Data { .. } | Error::Memory { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Adds what inputs lack, but for sizes: relations, maps, and parameters.
///
/// # Errors
/// [`Error::Data`] where a size is not given, or a tensor would have more numbers than `most`.
pub(super) fn complete(signature: &Signature, inputs: &mut Inputs, most: usize) -> Result<()> {
    let known = inputs.clone();
    let length = |n: &Size| {
        let name = |v: &Var| match v {
            Var::Size(n) => signature.sizes.get(*n).and_then(|name| known.given_size(name)),
            Var::Index(_) | Var::Apply(_) => None,
        };
        let value = n.evaluate(&mut |v| name(v)).ok_or_else(|| Error::data("sizes", "one is not known"))??;
        usize::try_from(value.max(0)).map_err(|_| Error::Overflow)
    };
    let shape = |dims: &[Size]| {
        let shape = dims.iter().map(length).collect::<Result<Vec<usize>>>()?;
        match element_count(&shape) {
            Ok(count) if count <= most => Ok(shape),
            _ => Err(Error::data("sizes", "a tensor would be too large")),
        }
    };
    for (id, relation) in signature.relations.iter() {
        if known.gives_relation(&relation.name) {
            continue;
        }
        match relation.kind {
            RelationKind::Free => {
                inputs.relation(relation.name.clone(), made_up(id, &shape(&relation.shape)?)?);
            }
            RelationKind::Map => {
                let Some((target, sources)) = relation.shape.split_last() else { continue };
                let (sources, targets) = (shape(sources)?, length(target)?);
                let count: usize = sources.iter().product();
                let places = (0..count).map(|at| random(id.0, at) as usize % targets.max(1)).collect();
                inputs.map(relation.name.clone(), &sources, places);
            }
            RelationKind::Pattern(_) | RelationKind::Projection(..) => {}
        }
    }
    for (id, param) in signature.params.iter() {
        let missing = inputs.missing_components(signature, param)?;
        for leaf in signature.types.leaves(param.ty)? {
            let name = leaf_name(&param.name, &leaf.path);
            if missing.iter().any(|(other, _)| *other == name) {
                let shape = shape(&leaf.dims)?;
                let value = match (param.storage.pattern(), param.storage.format()) {
                    (Some(r), Some(format)) => {
                        let pattern = match signature
                            .pattern_owner(r)
                            .and_then(|owner| inputs.get(&owner.name)?.as_tensor()?.pattern().cloned())
                        {
                            Some(pattern) => pattern,
                            None => Arc::new(made_up(r, &shape)?),
                        };
                        let data = numbers(id, pattern.len());
                        let coo = Coo::with_pattern(pattern, data).map_err(|malformed| malformed.of(&name))?;
                        Value::from(Tensor::sparse(format, coo).map_err(|malformed| malformed.of(&name))?)
                    }
                    _ => {
                        let data = numbers(id, shape.iter().product());
                        Value::from(Dense::new(&shape, data).map_err(|malformed| malformed.of(&name))?)
                    }
                };
                inputs.value(name, value);
            }
        }
    }
    Ok(())
}

/// About a sixth of all places, and of a matrix its diagonal.
fn made_up(id: RelationId, shape: &[usize]) -> Result<Relation> {
    let count: usize = shape.iter().product();
    let mut tuples = Vec::new();
    for at in 0..count {
        let mut tuple = vec![0; shape.len()];
        let mut rest = at;
        for (k, n) in tuple.iter_mut().zip(shape).rev() {
            *k = rest % n;
            rest /= n;
        }
        let diagonal = shape.len() > 1 && tuple.windows(2).all(|pair| pair[0] == pair[1]);
        if diagonal || random(id.0, at).is_multiple_of(6) {
            tuples.push(tuple);
        }
    }
    Relation::from_tuples(shape, &tuples).map_err(|malformed| malformed.of("a made-up relation"))
}

fn numbers(id: ParamId, count: usize) -> Vec<f64> {
    (0..count).map(|at| 0.5 + f64::from(random(id.0, at) % 64) / 64.0).collect()
}

/// A number that depends on these two alone.
fn random(stream: u32, at: usize) -> u32 {
    let mut x = (u64::from(stream) << 32) ^ (at as u64) ^ 0x9e37_79b9_7f4a_7c15;
    // The finaliser of SplitMix64.
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::inputs;
    use crate::Function;
    use crate::tensor::bind;

    #[test]
    fn small_inputs_fit_programs() {
        let programs = [
            "param x : [n + m - 1] real\nparam w : [m] real\nassume n >= 9\nsum i < n, j < m. x[i + j] * w[j]",
            "param A : csr [n, n] real\nparam p : [n] (real, [m] real)\nrel E : [n, m]\nmap f : [n] -> [m]\n\
             sum i < n, j < n. A[i, j] * fst p[j] + (sum i < n, j < m. [E(i, j)] * (snd p[i])[f(i)])",
            "param x : [n] real\nassume n = 16\nsum(x)",
        ];
        for program in programs {
            let function = Function::parse(program).expect("it is a program");
            let signature = &function.tensor_ssa().signature;
            let made = inputs(signature).expect("no bug").expect("sizes that fit");
            bind(signature, &made).expect("they fit");
        }
        let function = Function::parse("param x : [n] real\nassume n = 1000\nsum(x)").expect("it is a program");
        assert!(inputs(&function.tensor_ssa().signature).expect("no bug").is_none());
    }
}
