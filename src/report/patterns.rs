//! The sparsity patterns of the inputs and of the results of a function: those of inputs as they are given, those of results as they follow from
//! guards, relations and the patterns of inputs, whatever the numbers are. *Refused* are results with too many places, and numbers, pairs and
//! sparse results that have the pattern of a parameter.

use super::picture::Picture;
use super::samples;
use crate::driver::Function;
use crate::error::{Error, Result};
use crate::kernel::{Engine, Leaf};
use crate::tensor::{Bindings, Inputs, bind};

/// How many places a result has at most of which it is found out which have an entry.
pub(super) const PLACES: u64 = 1 << 24;

/// Pictures, and what there is to say instead of some.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    pub pictures: Vec<Picture>,
    pub notes: Vec<String>,
}

/// The patterns of sparse parameters, relations and maps.
pub(super) fn of_inputs(function: &Function, bindings: &Bindings) -> Patterns {
    let signature = &function.tensor_ssa().signature;
    let mut patterns = Patterns::default();
    for (id, relation) in signature.relations.iter() {
        let Some(tuples) = bindings.relations().get(id) else { continue };
        let name = signature.pattern_owner(id).map_or(&relation.name, |param| &param.name);
        patterns.pictures.extend(Picture::of(name.clone(), tuples));
    }
    let dense = signature.params.iter().filter(|(_, param)| param.storage.pattern().is_none());
    let dense: Vec<String> = dense
        .flat_map(|(id, param)| {
            let leaves = bindings.values().get(id).map_or(&[][..], |value| value.leaves());
            leaves.iter().map(|leaf| {
                let shape: Vec<String> = leaf.shape().iter().map(usize::to_string).collect();
                let shape = if shape.is_empty() { "a number".to_owned() } else { shape.join(" × ") };
                format!("`{}` ({shape})", param.name)
            })
        })
        .collect();
    if !dense.is_empty() {
        patterns.notes.push(format!("Stored dense: {}.", dense.join(", ")));
    }
    patterns
}

/// The patterns of the results of a function, for inputs with all sizes. Inputs that it takes beside those of its program, seeds and tangents, are
/// made up.
///
/// # Errors
/// Those of binding.
pub(super) fn of_results(function: &Function, inputs: &Inputs) -> Result<Patterns> {
    let program = function.tensor_ssa();
    let signature = &program.signature;
    let mut inputs = inputs.clone();
    samples::complete(signature, &mut inputs, PLACES as usize)?;
    let bindings = bind(signature, &inputs)?;
    let mut patterns = Patterns::default();
    let mut wanted: Vec<&str> = Vec::new();
    for output in &program.outputs {
        let name = output.name.as_str();
        match (signature.types.real_dims(output.ty), output.storage.pattern()) {
            (_, Some(r)) => {
                let of = signature.pattern_owner(r).map_or("an input", |param| &param.name);
                patterns.notes.push(format!("`{name}` is stored sparse, with the pattern of `{of}`."));
            }
            (Some(dims), None) if dims.is_empty() => patterns.notes.push(format!("`{name}` is a number.")),
            (Some(dims), None) => {
                let lengths = dims.iter().map(|n| bindings.length(n)).collect::<Result<Vec<_>>>()?;
                let places = lengths.iter().try_fold(1u64, |product, n| product.checked_mul(*n as u64));
                match places.filter(|places| *places <= PLACES) {
                    Some(_) => wanted.push(name),
                    None => patterns
                        .notes
                        .push(format!("The pattern of `{name}` is not shown: it has more than {PLACES} places.")),
                }
            }
            (None, None) => patterns.notes.push(format!("`{name}` is made of pairs, which are stored dense.")),
        }
    }
    if wanted.is_empty() {
        return Ok(patterns);
    }
    let kernel = match function.assemble(&wanted)?.bind(&inputs, Engine::Interpreter) {
        Ok(kernel) => kernel,
        Err(error @ (Error::Memory { .. } | Error::Limit { .. })) => {
            patterns.notes.push(format!("The patterns of results are not shown: {error}."));
            return Ok(patterns);
        }
        Err(error) => return Err(error),
    };
    for output in kernel.outputs().iter().filter(|output| wanted.contains(&output.name.as_str())) {
        for leaf in &output.leaves {
            let name = output.name.clone();
            patterns.pictures.extend(match leaf {
                Leaf::Dense(_) => None,
                Leaf::Csr(pattern) => Picture::of(name, pattern.relation()),
                Leaf::Csc(pattern) => Picture::of(name, pattern.relation()),
                Leaf::Coo(relation) => Picture::of(name, relation),
            });
        }
    }
    Ok(patterns)
}
