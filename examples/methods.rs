//! Six ways to differentiate, side by side: the operations, copies and time of a value and its gradient, and how they grow.
//!
//! Each program is evaluated at two sizes. The ratio is that of the operations of the gradient, with the value, to those of the program; the growth is the
//! exponent of the operations between the sizes, beside that of the program itself. What a method does not have is named below the table.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use iverson::ir::functional::elaborate::elaborate;
use iverson::ir::functional::methods::{self, Adjoint, Method};
use iverson::ir::reference::{Environment, Leaf};
use iverson::ir::ty::RelationKind;
use iverson::ir::{surface, term};
use iverson::tensor::Relation;

/// Name, text, and the two settings of sizes.
type Program = (&'static str, &'static str, [&'static [(&'static str, i64)]; 2]);

const PROGRAMS: [Program; 10] = [
    ("polynomial", "param x : real\nparam y : real\nlet z = x * y + 1 in z * z * sin(x)", [&[], &[]]),
    ("rosenbrock", include_str!("../tests/programs/e12_rosenbrock.iv"), [&[("n", 16)], &[("n", 32)]]),
    ("quadratic form", include_str!("../tests/programs/e10_quadratic_form.iv"), [&[("n", 8)], &[("n", 16)]]),
    (
        "sparse logistic regression",
        include_str!("../tests/programs/k03_sparse_logistic_regression.iv"),
        [&[("n", 8), ("d", 4)], &[("n", 16), ("d", 4)]],
    ),
    (
        "embedding",
        include_str!("../tests/programs/k15_embedding.iv"),
        [&[("B", 4), ("V", 8), ("d", 2)], &[("B", 4), ("V", 16), ("d", 2)]],
    ),
    (
        "partial likelihood",
        include_str!("../tests/programs/k16_partial_likelihood.iv"),
        [&[("n", 8), ("d", 2)], &[("n", 16), ("d", 2)]],
    ),
    ("product", include_str!("../tests/flows/product.iv"), [&[("n", 16)], &[("n", 32)]]),
    ("heat", include_str!("../tests/flows/heat.iv"), [&[("n", 4), ("T", 8)], &[("n", 4), ("T", 16)]]),
    (
        "tokens",
        include_str!("../tests/flows/tokens.iv"),
        [&[("V", 4), ("n", 2), ("T", 8)], &[("V", 4), ("n", 2), ("T", 16)]],
    ),
    (
        "lstm",
        include_str!("../tests/flows/lstm.iv"),
        [&[("n", 2), ("m", 1), ("T", 4)], &[("n", 2), ("m", 1), ("T", 8)]],
    ),
];

/// What a method takes on a program.
pub struct Row {
    /// The program.
    pub program: &'static str,
    /// The method.
    pub method: Method,
    /// The value of the program at the larger size.
    pub value: f64,
    /// All numbers of the gradient at the larger size.
    pub gradient: Vec<f64>,
    /// Additions, multiplications and scalar functions at the larger size.
    pub operations: u64,
    /// The same, in operations of the program.
    pub ratio: f64,
    /// Numbers copied at the larger size.
    pub moves: u64,
    /// The exponents of the operations of the method and of the program, where sizes differ.
    pub growth: Option<(f64, f64)>,
    /// The time at the larger size, with differentiation.
    pub time: Duration,
}

/// A number for each place.
fn number(name: &str, k: usize) -> f64 {
    let seed = name.bytes().fold(k as f64, |seed, byte| seed * 0.7 + f64::from(byte));
    (seed * 1.37).sin() * 0.4 + 0.5
}

/// Data of these sizes for all that a program takes.
fn environment(source: &term::Program, sizes: &[(&str, i64)]) -> iverson::Result<Environment<f64>> {
    let signature = &source.signature;
    let size = |name: &String| sizes.iter().find(|(n, _)| n == name).map_or(2, |(_, value)| *value);
    let mut at =
        Environment { sizes: signature.sizes.values().map(size).collect(), params: Vec::new(), relations: Vec::new() };
    for relation in signature.relations.values() {
        let shape: Vec<usize> = at.extents(&relation.shape)?.iter().map(|n| *n as usize).collect();
        let fits = |malformed| iverson::Error::Request(format!("{malformed:?}"));
        let relation = match (relation.kind, shape.split_last()) {
            (RelationKind::Map, Some((targets, sources))) => {
                let count: usize = sources.iter().product();
                Relation::from_map(sources, (0..count).map(|k| (k * k + 1) % targets).collect(), *targets)
            }
            _ => {
                // Of matrices every other place.
                let places = (0..shape[0]).flat_map(|i| (0..shape[1]).map(move |j| [i, j]));
                Relation::from_tuples(&shape, &places.filter(|[i, j]| (i + j) % 2 == 0).collect::<Vec<_>>())
            }
        };
        at.relations.push(Arc::new(relation.map_err(fits)?));
    }
    for param in signature.params.values() {
        let mut leaves = Vec::new();
        for leaf in signature.types.leaves(param.ty)? {
            let dims = at.extents(&leaf.dims)?;
            let numbers = |count: usize| (0..count).map(|k| number(&param.name, k)).collect::<Vec<_>>();
            leaves.push(match param.storage.pattern() {
                Some(pattern) => Leaf::sparse(at.relation(pattern)?.clone(), numbers(at.relation(pattern)?.len()))?,
                None => {
                    let count = dims.iter().product::<u64>() as usize;
                    Leaf::dense(dims, numbers(count))?
                }
            });
        }
        at.params.push(leaves);
    }
    Ok(at)
}

/// A value, a gradient, operations, moves and time.
struct Measured {
    value: f64,
    gradient: Vec<f64>,
    operations: u64,
    moves: u64,
    time: Duration,
}

/// Differentiates and evaluates.
fn measure(source: &term::Program, method: Method, at: &Environment<f64>) -> iverson::Result<Measured> {
    let begin = Instant::now();
    let outcome = methods::gradient_of_tensors(source, method, at)?;
    let time = begin.elapsed();
    Ok(Measured {
        value: outcome.value,
        gradient: outcome.gradient.iter().flatten().flat_map(|leaf| leaf.values().to_vec()).collect(),
        operations: outcome.counts.operations(),
        moves: outcome.counts.moves,
        time,
    })
}

/// The adjoint, which is derived once for all sizes.
fn measure_adjoint(adjoint: &Adjoint, derive: Duration, at: &Environment<f64>) -> iverson::Result<Measured> {
    let begin = Instant::now();
    let outcome = adjoint.run(at)?;
    Ok(Measured {
        value: outcome.value,
        gradient: outcome.gradient.iter().flatten().flat_map(|leaf| leaf.values().to_vec()).collect(),
        operations: outcome.counts.operations(),
        moves: outcome.counts.moves,
        time: begin.elapsed() + derive,
    })
}

/// Prints the table; gives its rows.
pub fn run(out: &mut dyn Write) -> Result<Vec<Row>, Box<dyn Error>> {
    let mut rows = Vec::new();
    let mut refusals: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    writeln!(
        out,
        "{:<27} {:<13} {:>12} {:>10} {:>7} {:>8} {:>11} {:>9}",
        "program", "method", "value", "operations", "ratio", "moves", "growth", "time"
    )?;
    for (name, text, sizes) in PROGRAMS {
        let source = surface::read(text, &[])?;
        let at = [environment(&source, sizes[0])?, environment(&source, sizes[1])?];
        let primal = [methods::primal_counts(&source, &at[0])?, methods::primal_counts(&source, &at[1])?];
        let primal = primal.map(|counts| counts.operations().max(1));
        let begin = Instant::now();
        let adjoint = Adjoint::new(&source)?;
        let derive = begin.elapsed();
        let terms = elaborate(&source, &at[1])?.program.size();
        writeln!(out, "{name} at {:?}: {terms} terms, {} operations", sizes[1], primal[1])?;
        for method in Method::ALL {
            let measured = |at: &Environment<f64>| match method {
                Method::Adjoint => measure_adjoint(&adjoint, derive, at),
                method => measure(&source, method, at),
            };
            let [small, large] = match (measured(&at[0]), measured(&at[1])) {
                (Err(iverson::Error::Limitation { feature, .. }), _) => {
                    refusals.entry(format!("{method} refuses {feature}")).or_default().push(name);
                    continue;
                }
                (small, large) => [small?, large?],
            };
            let growth = (sizes[0] != sizes[1]).then(|| {
                let exponent = |small: u64, large: u64| (large as f64 / small.max(1) as f64).log2();
                (exponent(small.operations, large.operations), exponent(primal[0], primal[1]))
            });
            let row = Row {
                program: name,
                method,
                value: large.value,
                gradient: large.gradient,
                operations: large.operations,
                ratio: large.operations as f64 / primal[1] as f64,
                moves: large.moves,
                growth,
                time: large.time,
            };
            let growth = row.growth.map_or(String::new(), |(of, program)| format!("{of:.2} / {program:.2}"));
            writeln!(
                out,
                "{:<27} {:<13} {:>12.5e} {:>10} {:>7.2} {:>8} {:>11} {:>6.1} ms",
                "",
                method,
                row.value,
                row.operations,
                row.ratio,
                row.moves,
                growth,
                row.time.as_secs_f64() * 1e3
            )?;
            rows.push(row);
        }
    }
    writeln!(out)?;
    for (refusal, programs) in refusals {
        writeln!(out, "{refusal}: {}", programs.join(", "))?;
    }
    Ok(rows)
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout().lock())?;
    Ok(())
}
