//! The pipeline behind Tensor-SSA: which passes make loop nests, and in which order.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::{Arena, SizeId, work};
use crate::error::{Error, Result};
use crate::kernel::{Assembly, ForSizes, Matrix};
use crate::schedule::Within;
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
/// [`Error::Overflow`], [`Error::Limit`] and [`Error::Bug`].
pub fn loops(program: &tssa::Program, stages: &mut Stages<'_>) -> Result<loops::Program> {
    loops_where(program, Within::Program, &BTreeMap::new(), stages)
}

/// The loop nests of a program for sizes.
///
/// # Errors
/// As [`loops()`], and those of [`without_vanishing`].
pub fn loops_for(program: &tssa::Program, sizes: &Arena<SizeId, i64>) -> Result<loops::Program> {
    let other = without_vanishing(program, sizes)?;
    let short = schedule::short_axes(sizes);
    let loops = loops_where(other.as_ref().unwrap_or(program), Within::Program, &short, &mut Stages::new())?;
    schedule::with_sizes(loops, &schedule::short_rows(sizes))
}

/// The loop nests of a program in which some sizes have values.
fn loops_where(
    program: &tssa::Program,
    within: Within,
    sizes: &BTreeMap<SizeId, i64>,
    stages: &mut Stages<'_>,
) -> Result<loops::Program> {
    let prepared = prepare::prepare(program, stages)?;
    let lowered =
        stages.run("lower", || work::pass(prepared.program.stmts.len(), || lower::lower(&prepared.program)))?;
    schedule::schedule(schedule::with_sizes(lowered, sizes)?, within, stages)
}

/// A flow with sums over time taken into its loops. What else a guard says of a sum that has become a state nobody sees, so first of all guards that say that
/// sums are not over nothing go.
///
/// # Errors
/// Those of [`flow::take_in`].
pub(super) fn take_in(flow: &flow::Program) -> Result<flow::Program> {
    flow::take_in(&flow::map_leaves(flow, &mut |leaf| prepare::without_empty_sums(leaf))?)
}

/// A flow whose steps compute nothing that another one has computed.
fn split(
    flow: &flow::Program,
    sizes: &dyn Fn(SizeId) -> Option<i64>,
    stages: &mut Stages<'_>,
) -> Result<flow::Program> {
    let flow = stages.run("take-in", || work::pass(flow.stmts(), || take_in(flow)))?;
    stages.run("split", || work::pass(flow.stmts(), || flow::part_inits(&flow::split(&flow, sizes)?)))
}

/// The loop nests of a flow.
///
/// # Errors
/// As `loops`, and those of [`link`](link::link).
pub fn loops_of_flow(flow: &flow::Program, stages: &mut Stages<'_>) -> Result<loops::Program> {
    let flow = split(flow, &|_| None, stages)?;
    let linked = link::link(&flow, &mut |leaf, within| loops_where(leaf, within, &BTreeMap::new(), stages))?;
    stages.run("link", || Ok(linked))
}

/// The loop nests of a flow for the sizes of its signature. Loop indices have no values.
///
/// # Errors
/// As [`loops_of_flow`].
pub fn loops_of_flow_for(flow: &flow::Program, sizes: &Arena<SizeId, i64>) -> Result<loops::Program> {
    let short = schedule::short_axes(sizes);
    let flow = split(flow, &|n| sizes.get(n).copied(), &mut Stages::new())?;
    let linked = link::link(&flow, &mut |leaf, within| {
        let other = without_vanishing(leaf, sizes)?;
        loops_where(other.as_ref().unwrap_or(leaf), within, &short, &mut Stages::new())
    })?;
    let all = short.into_iter().chain(schedule::short_rows(sizes)).collect();
    Stages::new().run("link", || schedule::with_sizes(linked, &all))
}

/// The loop nests of a program with results on patterns that are found out.
///
/// # Errors
/// [`Error::Request`] for a result that there is not or that cannot be sparse, and as [`loops()`].
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
    let values = schedule::schedule(stages.run("lower", || Ok(values))?, Within::Program, stages)?;
    // It finds out the relations that the signature of the other has beyond its own.
    structure.signature = program.signature.clone();
    let relations = found.sparse.iter().map(|sparse| sparse.relation).collect();
    Ok(Assembly::new(structure, values, for_sizes, found.patterns, relations))
}

/// [`assemble`], of a flow: the last leaf gives the results, and its guards say where they may differ from zero. Of what comes out of a loop nothing is
/// known.
///
/// # Errors
/// As [`assemble`], and those of [`link`](link::link).
pub fn assemble_flow(flow: &flow::Program, results: &[&str], stages: &mut Stages<'_>) -> Result<Assembly> {
    let (whole, of) = (flow.clone(), results.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    let for_sizes = move |sizes: &Arena<SizeId, i64>| {
        let other =
            flow::map_leaves(&whole, &mut |leaf| Ok(without_vanishing(leaf, sizes)?.unwrap_or_else(|| leaf.clone())))?;
        if other == whole {
            return Ok(None);
        }
        let results: Vec<&str> = of.iter().map(String::as_str).collect();
        assemble_flow_at(&other, &results, Arc::new(|_| Ok(None)), &mut Stages::new()).map(Some)
    };
    assemble_flow_at(flow, results, Arc::new(for_sizes), stages)
}

/// [`assemble_flow`], where it is known what other programs there are for some sizes.
fn assemble_flow_at(
    flow: &flow::Program,
    results: &[&str],
    for_sizes: Arc<ForSizes>,
    stages: &mut Stages<'_>,
) -> Result<Assembly> {
    let mut numbers = Vec::with_capacity(results.len());
    for name in results {
        let known = flow.outputs.iter().position(|output| output.name == *name);
        let known = known.ok_or_else(|| {
            let all: Vec<&str> = flow.outputs.iter().map(|output| output.name.as_str()).collect();
            Error::Request(format!("the program has no result `{name}`; it has: {}", all.join(", ")))
        })?;
        if flow.outputs.get(known).is_none_or(|output| output.values.len() != 1) {
            return Err(Error::Request(format!("`{name}` is no tensor of reals")));
        }
        numbers.push(known);
    }
    let mut flow = flow::given_last(flow, &numbers)?;
    let lost = || Error::bug("structure", "results that no last leaf gives");
    let Some(flow::Stmt::Leaf(last)) = flow.body.last_mut() else { return Err(lost()) };
    // Names that are those of the results, and of nothing else.
    for (at, output) in last.program.outputs.iter_mut().enumerate() {
        output.name = format!("{at}");
    }
    let mut given = Vec::with_capacity(results.len());
    for (number, name) in numbers.iter().zip(results) {
        let value = flow.outputs.get(*number).and_then(|output| output.values.first());
        let at = last.gives.iter().position(|x| Some(x) == value).ok_or_else(lost)?;
        let output = last.program.outputs.get_mut(at).ok_or_else(lost)?;
        output.name = (*name).to_owned();
        given.push((*name, 0));
    }
    let found = prepare::on_patterns(&last.program, &given, false)?;
    let prepared = prepare::prepare(&found.program, stages)?;
    let statements = prepared.program.stmts.len();
    let (structure, values) = work::pass(statements, || lower::on_patterns(&prepared, &found.sparse, None))?;
    let mut structure = stages.run("structure", || Ok(structure))?;
    let values = schedule::schedule(stages.run("lower", || Ok(values))?, Within::Leaf, stages)?;
    structure.signature = flow.signature.clone();
    for (x, output) in last.gives.iter().zip(&found.program.outputs) {
        flow.values[*x].storage = output.storage;
    }
    last.program = found.program;
    let relations = found.sparse.iter().map(|sparse| sparse.relation);
    let mut signature = (*flow.signature).clone();
    signature.relations.clone_from(&last.program.signature.relations);
    flow.signature = Arc::new(signature);
    let last = flow.last_leaf().map(|leaf| &leaf.program);
    let linked = link::link(&flow, &mut |leaf, within| match last.is_some_and(|last| std::ptr::eq(last, leaf)) {
        true => Ok(values.clone()),
        false => loops_where(leaf, within, &BTreeMap::new(), stages),
    })?;
    let linked = stages.run("link", || Ok(linked))?;
    Ok(Assembly::new(structure, linked, for_sizes, found.patterns, relations.collect()))
}

/// The blocks of a flow as one matrix.
///
/// # Errors
/// As [`assemble_flow`].
pub fn matrix_of_flow(flow: &flow::Program, blocks: &[Block], stages: &mut Stages<'_>) -> Result<Matrix> {
    let mut blocks = blocks.to_vec();
    blocks.sort_by_key(|block| flow.outputs.iter().position(|output| output.name == block.result));
    let with_axes = blocks.iter().filter(|block| block.has_axes());
    let sparse: Vec<&str> = with_axes.map(|block| block.result.as_str()).collect();
    Ok(Matrix::new(assemble_flow(flow, &sparse, stages)?, false, blocks))
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
