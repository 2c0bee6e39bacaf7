//! The pipeline behind Tensor-SSA: which passes make loop nests, and in which order.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::{Arena, SizeId, work};
use crate::error::Result;
use crate::kernel::{Assembly, ForSizes, Matrix};
use crate::stages::Stages;
use crate::ty::Block;
use crate::{flow, link, loops, lower, prepare, schedule, tssa};

/// The passes between Tensor-SSA and kernels, in their order, as [`Stages`] names them.
pub fn passes() -> impl Iterator<Item = &'static str> {
    let before = prepare::PASSES.iter().map(|pass| pass.name);
    before.chain(["structure", "lower"]).chain(schedule::PASSES.iter().map(|pass| pass.name))
}

/// The loop nests of a program.
///
/// # Errors
/// [`Error::Overflow`](crate::Error::Overflow), [`Error::Limit`](crate::Error::Limit) and [`Error::Bug`](crate::Error::Bug).
pub fn loops(program: &tssa::Program, stages: &mut Stages<'_>) -> Result<loops::Program> {
    loops_where(program, &BTreeMap::new(), stages)
}

/// The loop nests of a program for sizes.
///
/// # Errors
/// As [`loops`], and those of [`without_vanishing`].
pub fn loops_for(program: &tssa::Program, sizes: &Arena<SizeId, i64>) -> Result<loops::Program> {
    let other = without_vanishing(program, sizes)?;
    loops_where(other.as_ref().unwrap_or(program), &schedule::short_axes(sizes), &mut Stages::new())
}

/// The loop nests of a program in which some sizes have values.
fn loops_where(
    program: &tssa::Program,
    sizes: &BTreeMap<SizeId, i64>,
    stages: &mut Stages<'_>,
) -> Result<loops::Program> {
    let prepared = prepare::prepare(program, stages)?;
    let lowered =
        stages.run("lower", || work::pass(prepared.program.stmts.len(), || lower::lower(&prepared.program)))?;
    schedule::schedule(schedule::with_sizes(lowered, sizes)?, stages)
}

/// The loop nests of a flow.
///
/// # Errors
/// As [`loops`], and those of [`link`](link::link).
pub fn loops_of_flow(flow: &flow::Program, stages: &mut Stages<'_>) -> Result<loops::Program> {
    let flow = stages.run("take-in", || flow::take_in(flow))?;
    let flow = stages.run("split", || flow::split(&flow, &|_| None))?;
    let linked = link::link(&flow, &mut |leaf| loops(leaf, stages))?;
    stages.run("link", || Ok(linked))
}

/// The loop nests of a flow for the sizes of its signature. Loop indices have no values.
///
/// # Errors
/// As [`loops_of_flow`].
pub fn loops_of_flow_for(flow: &flow::Program, sizes: &Arena<SizeId, i64>) -> Result<loops::Program> {
    let short = schedule::short_axes(sizes);
    let flow = Stages::new().run("take-in", || flow::take_in(flow))?;
    let flow = Stages::new().run("split", || flow::split(&flow, &|n| sizes.get(n).copied()))?;
    let linked = link::link(&flow, &mut |leaf| {
        let other = without_vanishing(leaf, sizes)?;
        loops_where(other.as_ref().unwrap_or(leaf), &short, &mut Stages::new())
    })?;
    Stages::new().run("link", || schedule::with_sizes(linked, &short))
}

/// The loop nests of a program with results on patterns that are found out.
///
/// # Errors
/// [`Error::Request`](crate::Error::Request) for a result that there is not or that cannot be sparse, and as [`loops`].
pub fn assemble(
    program: &tssa::Program,
    results: &[(&str, usize)],
    matrix: bool,
    stages: &mut Stages<'_>,
) -> Result<Assembly> {
    let (whole, of) =
        (program.clone(), results.iter().map(|(name, axes)| ((*name).to_owned(), *axes)).collect::<Vec<_>>());
    let for_sizes = move |sizes: &Arena<SizeId, i64>| {
        let Some(program) = without_vanishing(&whole, sizes)? else { return Ok(None) };
        let results: Vec<(&str, usize)> = of.iter().map(|(name, axes)| (name.as_str(), *axes)).collect();
        assemble_at(&program, &results, matrix, Arc::new(|_| Ok(None)), &mut Stages::new()).map(Some)
    };
    assemble_at(program, results, matrix, Arc::new(for_sizes), stages)
}

/// The program without what is zero for the sizes alone, of which some may have no value; nothing where it is the same.
///
/// # Errors
/// Those of [`tssa::vanishing::without_vanishing`].
pub fn without_vanishing(program: &tssa::Program, sizes: &Arena<SizeId, i64>) -> Result<Option<tssa::Program>> {
    tssa::vanishing::without_vanishing_where(program, &|n| Ok(sizes.get(n).copied()))
}

/// [`assemble`], where it is known what other programs there are for some sizes.
fn assemble_at(
    program: &tssa::Program,
    results: &[(&str, usize)],
    matrix: bool,
    for_sizes: Arc<ForSizes>,
    stages: &mut Stages<'_>,
) -> Result<Assembly> {
    let found = prepare::on_patterns(program, results, matrix)?;
    let prepared = prepare::prepare(&found.program, stages)?;
    let statements = prepared.program.stmts.len();
    let (structure, values) = work::pass(statements, || lower::on_patterns(&prepared, &found.sparse, found.entries))?;
    let mut structure = stages.run("structure", || Ok(structure))?;
    let values = schedule::schedule(stages.run("lower", || Ok(values))?, stages)?;
    // It finds out the relations that the signature of the other has beyond its own.
    structure.signature = program.signature.clone();
    let relations = found.sparse.iter().map(|sparse| sparse.relation).collect();
    Ok(Assembly::new(structure, values, for_sizes, found.patterns, relations))
}

/// The blocks of a program as one matrix.
///
/// # Errors
/// As [`assemble`].
pub fn matrix(program: &tssa::Program, blocks: &[Block], stages: &mut Stages<'_>) -> Result<Matrix> {
    let mut blocks = blocks.to_vec();
    blocks.sort_by_key(|block| program.outputs.iter().position(|output| output.name == block.result));
    let with_axes = blocks.iter().filter(|block| block.has_axes());
    let sparse: Vec<(&str, usize)> = with_axes.map(|block| (block.result.as_str(), block.row_axes)).collect();
    let whole = sparse.len() > 1 && sparse.len() == blocks.len();
    let assembly = assemble(program, &sparse, whole, stages)?;
    Ok(Matrix::new(assembly, whole, blocks))
}
