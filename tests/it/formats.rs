//! How sparse parameters are stored changes nothing: random programs with each of them dense, in CSR, CSC and COO, in another order, and with
//! zeros that are stored. A matrix that is stored column by column has a gradient that is.

use fastrand::Rng;
use iverson::ir::reference::{Environment, Leaf};
use iverson::ir::stages::Stages;
use iverson::ir::surface;
use iverson::ir::ty::Types;
use iverson::kernel::Engine;
use iverson::tensor::{Coo, Csc, Csr, Dense, Inputs, Relation, Results, Tensor, Value, bind};
use iverson::{Function, Mode, Request};

use crate::generate::{self, Family, Generated, ParamKind};
use crate::jacobians::energy;
use crate::judge::{Expected, Tally, Ways, dense};
use crate::support::{Numbers, inputs, setting};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Format {
    Dense,
    Csr,
    Csc,
    Coo,
    /// Entries are given in any order.
    Shuffled,
    /// Zeros are stored at more places.
    Zeros,
}

const FORMATS: [Format; 6] = [Format::Dense, Format::Csr, Format::Csc, Format::Coo, Format::Shuffled, Format::Zeros];

/// A sparse parameter: its name, ranges as they are written, shape, and entries.
struct Sparse {
    name: String,
    dims: String,
    shape: Vec<usize>,
    entries: Vec<(Vec<usize>, f64)>,
}

fn sparse(generated: &Generated, at: &Environment<f64>, names: &[String]) -> Vec<Sparse> {
    let mut found = Vec::new();
    for (name, kind) in &generated.params {
        let (ParamKind::Csr(dims) | ParamKind::Csc(dims) | ParamKind::Coo(dims)) = kind else { continue };
        let param = names.iter().position(|n| n == name).expect("it is declared");
        let leaf: &Leaf<f64> = &at.params[param][0];
        let pattern = leaf.pattern().expect("it is sparse");
        let entries = pattern.tuples().map(|tuple| tuple.to_vec()).zip(leaf.values().iter().copied()).collect();
        let dims = dims.iter().map(|n| n.text.clone()).collect::<Vec<_>>().join(", ");
        found.push(Sparse { name: name.clone(), dims, shape: pattern.shape().to_vec(), entries });
    }
    found
}

/// The program with a relation for where each sparse parameter was stored, and the parameter in another format.
fn stored(text: &str, given: &Inputs, params: &[Sparse], format: Format, rng: &mut Rng) -> (String, Inputs) {
    let (mut text, mut inputs) = (text.to_owned(), given.clone());
    for Sparse { name, dims, shape, entries } in params {
        let kind = match format {
            Format::Dense => "",
            Format::Csr | Format::Zeros if shape.len() == 2 => "csr ",
            Format::Csc if shape.len() == 2 => "csc ",
            _ => "coo ",
        };
        text = text.replace(&format!("{name}?("), &format!("{name}_at("));
        let lines = text.lines().map(|line| match line.starts_with(&format!("param {name} : ")) {
            true => format!("param {name} : {kind}[{dims}] real\nrel {name}_at : [{dims}]"),
            false => line.to_owned(),
        });
        text = lines.collect::<Vec<_>>().join("\n");
        let tuples: Vec<Vec<usize>> = entries.iter().map(|(tuple, _)| tuple.clone()).collect();
        inputs.relation(format!("{name}_at"), Relation::from_tuples(shape, &tuples).expect("sorted and unique"));
        let mut entries = entries.clone();
        let volume = shape.iter().product::<usize>();
        let tuple = |mut place: usize| -> Vec<usize> {
            let mut tuple = vec![0; shape.len()];
            for (k, n) in tuple.iter_mut().zip(shape).rev() {
                (*k, place) = (place % n, place / n);
            }
            tuple
        };
        if matches!(format, Format::Zeros | Format::Dense) {
            for place in 0..volume {
                let tuple = tuple(place);
                let known = entries.iter().any(|(other, _)| *other == tuple);
                if !known && (format == Format::Dense || rng.bool()) {
                    entries.push((tuple, 0.0));
                }
            }
        }
        match format {
            Format::Shuffled => rng.shuffle(&mut entries),
            _ => entries.sort_by(|a, b| a.0.cmp(&b.0)),
        }
        let data: Vec<f64> = entries.iter().map(|(_, x)| *x).collect();
        let column = |axis: usize| entries.iter().map(|(tuple, _)| tuple[axis]).collect();
        let coo = || Coo::from_unsorted(shape.clone(), (0..shape.len()).map(column).collect(), &data).expect("unique");
        match kind {
            "" => inputs.value(name, Dense::new(shape, data.clone()).expect("all places")),
            "csr " => inputs.value(name, Csr::from_coo(&coo()).expect("a matrix")),
            "csc " => inputs.value(name, Csc::from_coo(&coo()).expect("a matrix")),
            _ => inputs.value(name, coo()),
        };
    }
    (text, inputs)
}

/// The program, and the gradient of it or of its sum of squares by the parameters that are dense in all formats.
fn functions(text: &str, wrt: &[&str]) -> iverson::Result<[Function; 2]> {
    let function = Function::compile(surface::read(text, &[])?, &mut Stages::new())?;
    let single = function.tensor_ssa().outputs.iter().all(|output| output.ty == Types::REAL);
    let loss = if single { function.clone() } else { Function::from_tensor_ssa(energy(function.tensor_ssa())?) };
    let request = Request { with_value: true, ..Request::new(Mode::Gradient, wrt) }.raw();
    Ok([function, loss.derive(&request)?.function])
}

fn judge(seed: u64, family: Family, tally: &mut Tally) -> Result<usize, String> {
    let words = |error: iverson::Error| error.to_string();
    let generated = generate::draw(seed, family);
    let source = surface::read(&generated.text, &[]).map_err(words)?;
    let given = inputs(&generated, &mut Numbers::new(seed, family == Family::Exact));
    let at = Environment::from_bindings(&bind(&source.signature, &given).map_err(words)?).map_err(words)?;
    let names: Vec<String> = source.signature.params.values().map(|param| param.name.clone()).collect();
    let params = sparse(&generated, &at, &names);
    if params.is_empty() {
        return Ok(0);
    }
    let wrt: Vec<&str> =
        names.iter().map(String::as_str).filter(|name| params.iter().all(|param| param.name != *name)).collect();
    let mut rng = Rng::with_seed(seed);
    let mut expected: Vec<Expected> = Vec::new();
    for format in FORMATS {
        let (text, inputs) = stored(&generated.text, &given, &params, format, &mut rng);
        for (k, function) in functions(&text, &wrt).map_err(|e| format!("{e}\n{text}"))?.iter().enumerate() {
            if format == Format::Dense {
                expected.push(Expected::of(function.tensor_ssa(), &inputs)?);
            }
            let found =
                function.kernel(&inputs).engine(Engine::Interpreter).build().and_then(|kernel| kernel.call(&inputs));
            let found = dense(&found.map_err(|e| format!("{format:?}: {e}\n{text}"))?);
            // What is not finite may be so beside a zero that is stored, and not where nothing is.
            let judgement = expected[k].compare(&format!("{format:?}"), &found, Ways::Simplified);
            tally.add(judgement.map_err(|e| format!("{e}\n{text}\n{}", function.tensor_ssa()))?);
        }
    }
    Ok(1)
}

#[test]
fn formats_agree() {
    let (mut programs, mut tally, mut failures) = (0, Tally::default(), Vec::new());
    let first = setting("IVERSON_SEED", 80_000);
    for seed in first..first + setting("IVERSON_PROGRAMS", 300) {
        let family = if seed % 4 == 3 { Family::Smooth } else { Family::Exact };
        match judge(seed, family, &mut tally) {
            Ok(count) => programs += count,
            Err(complaint) => failures.push(format!("seed {seed}: {complaint}")),
        }
    }
    println!(
        "{programs} programs with sparse parameters, each in {} formats with its gradient; {tally:?}",
        FORMATS.len()
    );
    failures.sort_by_key(String::len);
    assert!(failures.is_empty(), "{} failures, the shortest of them:\n{}", failures.len(), failures[0]);
    assert!(programs > 50, "only {programs} programs have sparse parameters");
}

/// The program with each matrix that is stored row by row stored column by column, and these matrices.
fn by_columns(generated: &Generated, given: &Inputs, params: &[Sparse]) -> (String, Inputs, Vec<Csc>) {
    let (mut text, mut inputs, mut matrices) = (generated.text.clone(), given.clone(), Vec::new());
    for Sparse { name, shape, entries, .. } in params {
        if !generated.params.iter().any(|(other, kind)| other == name && matches!(kind, ParamKind::Csr(_))) {
            continue;
        }
        text = text.replace(&format!("param {name} : csr ["), &format!("param {name} : csc ["));
        let data = entries.iter().map(|(_, x)| *x).collect();
        let column = |axis: usize| entries.iter().map(|(tuple, _)| tuple[axis]).collect();
        let coo = Coo::new(shape.clone(), vec![column(0), column(1)], data).expect("sorted and unique");
        let csc = Csc::from_coo(&coo).expect("a matrix");
        inputs.value(name.clone(), csc.clone());
        matrices.push(csc);
    }
    (text, inputs, matrices)
}

/// How many matrices of a random program have a gradient that lies column by column as they do.
fn gradients(seed: u64) -> Result<usize, String> {
    let generated = generate::draw(seed, Family::Exact);
    let given = inputs(&generated, &mut Numbers::new(seed, true));
    let words = |error: iverson::Error| format!("{error}\n{}", generated.text);
    let source = surface::read(&generated.text, &[]).map_err(words)?;
    let at = Environment::from_bindings(&bind(&source.signature, &given).map_err(words)?).map_err(words)?;
    let names: Vec<String> = source.signature.params.values().map(|param| param.name.clone()).collect();
    let params = sparse(&generated, &at, &names);
    let (text, columns, matrices) = by_columns(&generated, &given, &params);
    if matrices.is_empty() {
        return Ok(0);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let run = |text: &str, inputs: &Inputs| -> iverson::Result<Vec<(String, Value)>> {
        let [_, gradient] = functions(text, &names)?;
        gradient.simplify()?.kernel(inputs).engine(Engine::Interpreter).build()?.call(inputs).map(Results::into_vec)
    };
    let expected = run(&generated.text, &given).map_err(words)?;
    let found = run(&text, &columns).map_err(words)?;
    let same = |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan();
    let (left, right) = (dense(&expected), dense(&found));
    if left.len() != right.len() || !left.iter().zip(&right).all(same) {
        return Err(format!("{left:?} became {right:?}\n{text}"));
    }
    let leaves = |values: &[(String, Value)]| -> Vec<_> {
        values.iter().flat_map(|(_, value)| value.leaves().to_vec()).collect()
    };
    let mut count = 0;
    for (before, after) in leaves(&expected).iter().zip(&leaves(&found)) {
        match (before.as_ref(), after.as_ref()) {
            (Tensor::Csr(_), Tensor::Csc(csc)) if matrices.iter().any(|matrix| matrix.pattern() == csc.pattern()) => {
                count += 1;
            }
            (Tensor::Csr(_), _) => return Err(format!("a gradient does not lie as its matrix\n{text}")),
            _ => {}
        }
    }
    Ok(count)
}

#[test]
fn gradients_lie_as_their_parameters() {
    let first = setting("IVERSON_SEED", 81_000);
    let mut count = 0;
    for seed in first..first + setting("IVERSON_PROGRAMS", 200) {
        count += gradients(seed).unwrap_or_else(|complaint| panic!("seed {seed}: {complaint}"));
    }
    println!("{count} gradients column by column");
    assert!(count > 20, "{count}");
}
