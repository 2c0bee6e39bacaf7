//! Programs over maps, relations and sparse tensors, each another way to read a tensor at places that others tell (`tests/growth`). Values and gradients
//! are right, and take as many steps as they have terms, inputs and results: not one for each place at which a term might be.
//!
//! What is counted is Tensor-SSA, where a sum has the terms for which its guard holds; a loop that asks all places for them has the same count.

use std::path::Path;

use iverson::ir::reference::{Partials, count};
use iverson::kernel::Engine;
use iverson::tensor::{Coo, Inputs};
use iverson::{Function, Mode, Request};

use crate::growth::iterations_of;
use crate::judge::{Expected, Ways};
use crate::kernels::{fitting, fitting_entries, judge};
use crate::support::Numbers;

/// How many steps a term, an input or a result takes at most.
const STEPS: f64 = 3.0;

/// The size at which steps are counted.
const SIZE: usize = 96;

/// Programs that take more. All windows that a place is in are looked at, of a few places each; where rows of a matrix are read through a map, the gradient by the matrix keeps what it multiplies as a whole.
const MORE: [&str; 2] = ["map_csr", "dilate"];

/// Programs in which all places of a row but a few are alike. Tensor-SSA has a term for each place, loops have one for those that are alike.
const ALIKE: [&str; 7] =
    ["edge_conv", "group_max", "groups_of_all", "hyperedges_tv", "masked_logsumexp", "segment_max", "softplus_of_all"];

/// Programs that say more pairs than there are tuples: those that a matrix less one of rank one has, places of a product that nobody reads, times that others
/// come after.
const SAID: [&str; 3] = ["no_sooner", "ratings", "soft_modularity"];

/// Two sources of a map that have the same target are taken to be as many as all pairs, so a guard that says so is dropped in front of a square.
const JOINED: &str = "group_pairs";

/// Programs that are judged as they are written, too: others say more than there is, as all pairs of sources of a map, which simplification finds.
const AS_WRITTEN: [&str; 3] = ["corners_in_turn", "edge_conv", "entries_of_factors"];

/// How many times the operations a simplified derivative may take, which rather multiplies factors again than to store products of them.
const DEARER: f64 = 2.0;

/// A program simplified, its value with gradients by all that is dense, and some as they are.
fn functions(path: &Path) -> Vec<Function> {
    let text = std::fs::read_to_string(path).expect("the file is there");
    let function = Function::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let params = function.tensor_ssa().signature.params.values();
    let wrt: Vec<String> = params.map(|param| param.name.clone()).collect();
    let wrt: Vec<&str> = wrt.iter().map(String::as_str).collect();
    let gradient = function.value_and_gradient(wrt.as_slice()).expect("it has one");
    let simplified = function.simplify().expect("it simplifies");
    let as_written = path.file_stem().is_some_and(|name| AS_WRITTEN.iter().any(|other| name == *other));
    [simplified, gradient].into_iter().chain(as_written.then_some(function)).collect()
}

/// Four entries for each place of the first axis, at random.
fn few(shape: &[usize], numbers: &mut Numbers) -> Coo {
    let mut random = fastrand::Rng::with_seed(shape.len() as u64);
    let rows = shape.first().copied().unwrap_or(0);
    let others = &shape[1.min(shape.len())..];
    let mut places: Vec<Vec<usize>> = Vec::new();
    for row in 0..rows {
        for _ in 0..if others.is_empty() { row % 2 } else { 4 } {
            places.push([row].into_iter().chain(others.iter().map(|n| random.usize(0..*n))).collect());
        }
    }
    places.sort();
    places.dedup();
    let columns = (0..shape.len()).map(|axis| places.iter().map(|place| place[axis]).collect()).collect();
    Coo::new(shape.to_vec(), columns, numbers.vector(places.len())).expect("sorted and unique")
}

/// All places of a few rows, and of a few fibres.
fn crowded(shape: &[usize], numbers: &mut Numbers) -> Coo {
    let mut places: Vec<Vec<usize>> = Vec::new();
    for place in 0..shape.iter().product::<usize>() {
        let below = |axis: usize| shape[axis + 1..].iter().product::<usize>();
        let at: Vec<usize> = (0..shape.len()).map(|axis| place / below(axis) % shape[axis]).collect();
        let is_in = match at.as_slice() {
            [_, others @ .., last] if others.len() <= 1 => at[0] == 3 || others.iter().chain([last]).all(|k| *k == 5),
            _ => place % 3 == 0,
        };
        if is_in {
            places.push(at);
        }
    }
    let columns = (0..shape.len()).map(|axis| places.iter().map(|place| place[axis]).collect()).collect();
    Coo::new(shape.to_vec(), columns, numbers.vector(places.len())).expect("sorted and unique")
}

/// How many terms, inputs and results there are.
fn meant(function: &Function, inputs: &Inputs) -> f64 {
    let counted = count(function.tensor_ssa(), inputs).expect("it is counted").total(Partials::Counted).expect("few");
    let kernel = function.kernel(inputs).as_written().engine(Engine::Interpreter).build().expect("it binds");
    let given: usize = kernel.inputs().iter().map(|(_, leaf)| leaf.len()).sum();
    let relations: usize = kernel.program().signature.relations.len() * 4 * SIZE;
    let results: usize = kernel.outputs().iter().flat_map(|output| &output.leaves).map(|leaf| leaf.len()).sum();
    counted as f64 + (given + relations + results) as f64
}

#[test]
fn steps_are_those_of_terms() {
    insta::glob!("..", "growth/*.iv", |path| {
        let name = path.file_stem().expect("it has a name").to_string_lossy().into_owned();
        if MORE.contains(&name.as_str()) {
            return;
        }
        for function in functions(path) {
            let inputs = fitting_entries(&function, &|_| SIZE as i64, &few, &mut Numbers::new(1, true));
            let (found, meant) = (iterations_of(&function, &inputs), meant(&function, &inputs));
            assert!(found <= STEPS * meant, "{name}: {found} steps, where {meant} are meant:\n{function}");
        }
    });
}

#[test]
fn places_that_are_alike_take_one_step() {
    for name in ALIKE.iter().chain(&SAID) {
        let path = format!("{}/tests/growth/{name}.iv", env!("CARGO_MANIFEST_DIR"));
        for function in functions(Path::new(&path)) {
            let [few, more] = [64, 256].map(|n| {
                let inputs = fitting_entries(&function, &|_| n, &few, &mut Numbers::new(1, true));
                iterations_of(&function, &inputs)
            });
            assert!(more <= 5.0 * few, "{name}: {few} steps, then {more}:\n{function}");
        }
    }
}

/// Wherever tuples stand, simplified derivatives take no more than a small multiple of what the rules of differentiation lead to: what costs less for a few tuples
/// here and there, as all pairs of the tuples of a fibre, costs more where they stand together.
#[test]
fn simplified_is_no_dearer_where_tuples_stand_together() {
    insta::glob!("..", "growth/*.iv", |path| {
        let name = path.file_stem().expect("it has a name").to_string_lossy().into_owned();
        if name == JOINED {
            return;
        }
        let text = std::fs::read_to_string(path).expect("the file is there");
        let function = Function::parse(&text).expect("it compiles");
        let params = function.tensor_ssa().signature.params.values();
        let wrt: Vec<&str> = params.map(|param| param.name.as_str()).collect();
        let mut request = Request { with_value: true, simplify: None, ..Request::new(Mode::Gradient, &wrt) };
        let raw = function.derive(&request).expect("it has one").function;
        request.simplify = Some(Default::default());
        let simplified = function.derive(&request).expect("it has one").function;
        for (kind, entries) in [("few", few as fn(&[usize], &mut Numbers) -> Coo), ("crowded", crowded)] {
            let inputs = fitting_entries(&raw, &|_| 24, &entries, &mut Numbers::new(1, true));
            let [raw, found] = [&raw, &simplified].map(|f| {
                let counted = count(f.tensor_ssa(), &inputs).expect("it is counted");
                counted.total(Partials::Counted).expect("few") as f64
            });
            let kernel = simplified.kernel(&inputs).engine(Engine::Interpreter).build().expect("it binds");
            let given: usize = kernel.inputs().iter().map(|(_, leaf)| leaf.len()).sum();
            assert!(
                found <= DEARER * raw + given as f64,
                "{name}, {kind}: {found} operations, and {raw} before:\n{simplified}"
            );
        }
    });
}

#[test]
fn numbers_are_those_of_the_reference() {
    let mut k = 0_u64;
    insta::glob!("..", "growth/*.iv", |path| {
        for function in functions(path) {
            k += 1;
            for size in [0, 1, 3, 6] {
                let inputs = fitting(&function, size, &mut Numbers::new(k, false));
                // Some programs take a few places at least.
                let Ok(expected) = Expected::of(function.tensor_ssa(), &inputs) else { continue };
                let native = size == 6 && k.is_multiple_of(8);
                let judged = judge(&function, &expected, &inputs, Ways::Raw, native);
                judged.unwrap_or_else(|error| panic!("{} at size {size}: {error}", path.display()));
            }
        }
    });
}
