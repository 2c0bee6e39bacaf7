//! Random tensor programs, in the lambda calculus and by all methods of differentiation.
//!
//! The evaluator of tensor programs knows nothing of the lambda calculus: it gives the value, and over dual numbers the derivative of the sum of all results along
//! a direction. Programs of sums, products and brackets are judged modulo a prime, where all must be equal. `cargo test` judges some hundreds; thousands,
//! with counts printed:
//!
//! ```text
//! cargo test --release --test it methods::full -- --ignored --nocapture
//! ```

use std::collections::BTreeMap;
use std::slice::from_ref;
use std::sync::Arc;

use fastrand::Rng;
use iverson::ir::functional::elaborate::{Elaborated, elaborate, use_maps};
use iverson::ir::functional::lambda::{self, Builder, Prim, Term, TermId, Type};
use iverson::ir::functional::methods::{self, Method};
use iverson::ir::reference::{Dual, Environment, Field, Leaf, Limits, Numeric, Subject, check, eval_term};
use iverson::ir::stages::Stages;
use iverson::ir::ty::RelationKind;
use iverson::ir::{diff, surface, term};
use iverson::tensor::Relation;
use iverson::{Error, Function, Mode, Request};

use crate::support::setting;
use crate::{flows, generate};

/// What a campaign saw.
#[derive(Default)]
struct Report {
    programs: usize,
    judged: BTreeMap<String, usize>,
    failures: Vec<String>,
}

/// A relation that does not hold, in words.
type Judgement = Result<(), String>;

fn words(error: Error) -> String {
    error.to_string()
}

/// Numbers to judge by.
trait Judged: Numeric + Send + Sync {
    fn draw(rng: &mut Rng) -> Self;

    /// Whether numbers are equal, as far as that can be asked.
    fn same(found: &[Self], expected: &[Self]) -> bool;
}

impl Judged for Field {
    fn draw(rng: &mut Rng) -> Self {
        Field::new(rng.u64(..))
    }

    fn same(found: &[Self], expected: &[Self]) -> bool {
        found == expected
    }
}

impl Judged for f64 {
    fn draw(rng: &mut Rng) -> Self {
        rng.f64() * 3.0 - 1.5
    }

    /// What overflows, or loses all digits, is not judged.
    fn same(found: &[Self], expected: &[Self]) -> bool {
        let scale = expected.iter().fold(1.0_f64, |scale, x| scale.max(x.abs()));
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9 * scale;
        !scale.is_finite()
            || scale > 1e60
            || expected.iter().any(|x| f64::is_nan(*x))
            || (found.len() == expected.len() && found.iter().zip(expected).all(near))
    }
}

/// Data for all that a program takes.
fn environment<T: Judged>(
    source: &term::Program,
    sizes: &[(String, i64)],
    rng: &mut Rng,
) -> iverson::Result<Environment<T>> {
    let signature = &source.signature;
    let size = |name: &String| sizes.iter().find(|(known, _)| known == name).map_or(0, |(_, value)| *value);
    let mut at =
        Environment { sizes: signature.sizes.values().map(size).collect(), params: Vec::new(), relations: Vec::new() };
    for relation in signature.relations.values() {
        let shape: Vec<usize> = at.extents(&relation.shape)?.iter().map(|n| *n as usize).collect();
        let relation = match (relation.kind, shape.split_last()) {
            (RelationKind::Map, Some((targets, sources))) => {
                let count: usize = sources.iter().product();
                let of = (0..count).map(|_| rng.usize(0..(*targets).max(1))).collect();
                Relation::from_map(sources, of, *targets)
            }
            _ => {
                let mut tuples = vec![Vec::new()];
                for n in &shape {
                    let longer = |tuple: Vec<usize>| (0..*n).map(move |k| [tuple.as_slice(), &[k]].concat());
                    tuples = tuples.into_iter().flat_map(longer).collect();
                }
                tuples.retain(|_| rng.bool());
                Relation::from_tuples(&shape, &tuples)
            }
        };
        at.relations.push(Arc::new(relation.map_err(|malformed| Error::Request(format!("{malformed:?}")))?));
    }
    for param in signature.params.values() {
        let mut leaves = Vec::new();
        for leaf in signature.types.leaves(param.ty)? {
            leaves.push(match param.storage.pattern() {
                Some(pattern) => {
                    let pattern = at.relation(pattern)?.clone();
                    let values = (0..pattern.len()).map(|_| T::draw(rng)).collect();
                    Leaf::sparse(pattern, values)?
                }
                None => {
                    let dims = at.extents(&leaf.dims)?;
                    let count = dims.iter().product::<u64>();
                    Leaf::dense(dims, (0..count).map(|_| T::draw(rng)).collect())?
                }
            });
        }
        at.params.push(leaves);
    }
    Ok(at)
}

/// The numbers of leaves, one after the other.
fn numbers<T: Clone>(leaves: &[Leaf<T>]) -> Vec<T> {
    leaves.iter().flat_map(|leaf| leaf.values().to_vec()).collect()
}

/// The program of the sum of all numbers of the result.
fn summed(program: &lambda::Program) -> iverson::Result<lambda::Program> {
    fn sum(b: &mut Builder, e: TermId) -> iverson::Result<TermId> {
        match b.context.types[b.ty(e)] {
            Type::Pair(..) => b.let_("p", e, |b, p| {
                let (x, y) = (b.var(p), b.var(p));
                let (x, y) = (b.fst(x)?, b.snd(y)?);
                let (x, y) = (sum(b, x)?, sum(b, y)?);
                b.add(x, y)
            }),
            Type::Array(_) => {
                let sums = b.map(&[e], |b, x| {
                    let x = b.var(x[0]);
                    sum(b, x)
                })?;
                b.prim(Prim::Sum, &[sums])
            }
            _ => Ok(e),
        }
    }
    let mut b = Builder::like(&program.context);
    b.context.vars = program.vars.clone();
    program.params.iter().for_each(|x| b.push_param(*x));
    let mut new: Vec<TermId> = Vec::new();
    for (_, term) in program.terms.iter() {
        let term: Term = term.rename(|e| new[e.0 as usize], |x| x);
        new.push(b.push(term)?);
    }
    let body = sum(&mut b, new[program.body.0 as usize])?;
    b.finish(body)
}

/// The gradient of the sum of all results by the adjoint of tensor programs.
fn by_adjoint<T: Judged>(source: &term::Program, at: &Environment<T>, value: &[Leaf<T>]) -> iverson::Result<Vec<T>> {
    let params: Vec<&str> = source.signature.params.values().map(|param| param.name.as_str()).collect();
    let function = Function::compile(source.clone(), &mut Stages::new())?;
    let derived = function.derive(&Request::new(Mode::Adjoint, &params).raw())?;
    let ones = value.iter().map(|leaf| leaf.map(|_| Ok(T::integer(1)))).collect::<iverson::Result<Vec<_>>>()?;
    let signature = match derived.function.flow() {
        Some(flow) => flow.signature.clone(),
        None => derived.function.tensor_ssa().signature.clone(),
    };
    let mut rest = ones.as_slice();
    let mut additions = Vec::new();
    for p in diff::params_by_name(&signature, &derived.added)? {
        let count = signature.types.leaves(signature.params.get(p).expect("it was added").ty)?.len();
        additions.push((p, rest[..count].to_vec()));
        rest = &rest[count..];
    }
    let at = check::extend(&signature, at, &additions)?;
    let found = match derived.function.flow() {
        Some(flow) => flow.evaluate(&at, None, Limits::default(), None)?,
        None => derived.function.tensor_ssa().evaluate(&at, None, Limits::default(), None)?,
    };
    Ok(found.iter().flat_map(|leaves| numbers(leaves)).collect())
}

/// The gradient by a method of the lambda calculus.
fn by_method<T: Judged>(
    elaborated: &Elaborated,
    sum: &lambda::Program,
    method: Method,
    at: &Environment<T>,
) -> iverson::Result<(T, Vec<T>)> {
    let args = elaborated.arguments(at)?;
    let outcome = match method {
        Method::Continuation => methods::gradient(&use_maps(sum, &elaborated.shapes)?, method, &args)?,
        method => methods::gradient(sum, method, &args)?,
    };
    let mut gradient = Vec::new();
    for (p, d) in (0..at.params.len()).zip(&outcome.gradient) {
        gradient.extend(numbers(&elaborated.leaves_of_param(iverson::ir::base::ParamId(p as u32), d, at)?));
    }
    Ok((outcome.value, gradient))
}

/// Whether numbers lack an order, or a function.
fn is_limitation(error: &Error) -> bool {
    matches!(error, Error::Limitation { .. })
}

fn judge<T: Judged>(report: &mut Report, text: &str, sizes: &[(String, i64)], rng: &mut Rng) -> Judgement {
    let source = surface::read(text, &[]).map_err(words)?;
    let at = environment::<T>(&source, sizes, rng).map_err(words)?;
    let value = match eval_term::evaluate(&source, &at, Limits::default()) {
        Err(error) if is_limitation(&error) => return Ok(()),
        value => value.map_err(words)?,
    };
    let mut judged = |what: &str, holds: bool, found: &dyn std::fmt::Debug, expected: &dyn std::fmt::Debug| {
        *report.judged.entry(what.to_owned()).or_default() += 1;
        if holds { Ok(()) } else { Err(format!("{what}: {found:?}, expected {expected:?}")) }
    };
    let elaborated = elaborate(&source, &at).map_err(words)?;
    let args = elaborated.arguments(&at).map_err(words)?;
    let (found, _) = match lambda::evaluate(&elaborated.program, &args) {
        // A prime field can tell whether numbers are equal, and not which one is less.
        Err(error) if is_limitation(&error) => return Ok(()),
        found => found.map_err(words)?,
    };
    let (found, expected) = (numbers(&elaborated.result(&found, &at).map_err(words)?), numbers(&value));
    judged("value", T::same(&found, &expected), &found, &expected)?;
    let sum = summed(&elaborated.program).map_err(words)?;
    let maps = use_maps(&sum, &elaborated.shapes).map_err(words)?;
    let total = lambda::evaluate(&sum, &args).map_err(words)?.0;
    let with_maps = lambda::evaluate(&maps, &args).map_err(words)?.0;
    let (total, with_maps) = (total.as_real().map_err(words)?.clone(), with_maps.as_real().map_err(words)?.clone());
    let has_maps = maps.to_string() != sum.to_string();
    if has_maps {
        judged("value with maps", T::same(from_ref(&with_maps), from_ref(&total)), &with_maps, &total)?;
    }

    let direction: Vec<Vec<T>> =
        at.params.iter().map(|leaves| numbers(leaves).iter().map(|_| T::draw(rng)).collect()).collect();
    let mut tangents = direction.iter().flatten().cloned();
    let duals = at.map(|_, _, leaf| leaf.map(|x| Ok(Dual::new(x.clone(), tangents.next().unwrap_or_else(T::zero)))));
    let duals = eval_term::evaluate(&source, &duals.map_err(words)?, Limits::default()).map_err(words)?;
    let expected = numbers(&duals).iter().fold(T::zero(), |sum, x| sum.add(&x.derivative()));
    let by_adjoint = by_adjoint(&source, &at, &value).map_err(words)?;
    for method in Method::ALL {
        let gradient = match method {
            Method::Adjoint => by_adjoint.clone(),
            method => match by_method(&elaborated, &sum, method, &at) {
                Err(error) if is_limitation(&error) => continue,
                found => {
                    let (value, gradient) = found.map_err(|error| format!("{method}: {error}"))?;
                    judged(&format!("{method}: value"), T::same(from_ref(&value), from_ref(&total)), &value, &total)?;
                    gradient
                }
            },
        };
        let along = gradient.iter().zip(direction.iter().flatten()).fold(T::zero(), |sum, (d, x)| sum.add(&d.mul(x)));
        judged(
            &format!("{method}: along a direction"),
            T::same(from_ref(&along), from_ref(&expected)),
            &along,
            &expected,
        )?;
        judged(&format!("{method}: gradient"), T::same(&gradient, &by_adjoint), &gradient, &by_adjoint)?;
    }
    Ok(())
}

fn run(first: u64, programs: u64) -> Report {
    let mut report = Report::default();
    for seed in first..first + programs {
        let (text, sizes, is_real) = match seed % 2 {
            0 => {
                let smooth = seed % 8 == 6;
                let drawn = generate::program(seed, smooth);
                (drawn.text, drawn.sizes, smooth)
            }
            _ => {
                let is_real = seed % 4 == 3;
                let drawn = flows::programs::program(seed, is_real);
                (drawn.text, drawn.sizes.iter().map(|(name, n)| (name.to_string(), *n)).collect(), is_real)
            }
        };
        report.programs += 1;
        let mut rng = Rng::with_seed(seed ^ 0x5eed);
        let judgement = match is_real {
            true => judge::<f64>(&mut report, &text, &sizes, &mut rng),
            false => judge::<Field>(&mut report, &text, &sizes, &mut rng),
        };
        if let Err(complaint) = judgement {
            report.failures.push(format!("seed {seed}, {sizes:?}: {complaint}\n{text}"));
        }
    }
    println!("{} programs, {} failures", report.programs, report.failures.len());
    for (relation, count) in &report.judged {
        println!("  {relation}: {count} judged");
    }
    assert!(report.failures.is_empty(), "{}", report.failures.iter().take(3).cloned().collect::<Vec<_>>().join("\n\n"));
    report
}

#[test]
fn some_programs() {
    let report = run(0, 200);
    for method in ["forward", "chad", "efficient", "dual"] {
        assert!(report.judged.get(&format!("{method}: gradient")).is_some_and(|n| *n > 120), "{method}");
    }
}

/// Minutes of work; see the command above.
#[test]
#[ignore = "thousands of programs take minutes; the command is in the module documentation"]
fn full() {
    run(setting("IVERSON_SEED", 0), setting("IVERSON_PROGRAMS", 10_000));
}
