//! Matrix notation is evaluated as linear algebra has it, and gives what the reference gives; programs that a textbook has are read.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Matrix, Notation};
use crate::base::{SizeId, VarId};
use crate::driver::{Function, Mode, Request};
use crate::index::{Size, Var};
use crate::scalar::{self, Primitive};
use crate::tensor::{Dense, Inputs, Value};
use crate::term::Program;

/// A matrix of numbers, row by row.
#[derive(Clone, Debug)]
struct Numbers {
    rows: usize,
    cols: usize,
    data: Vec<f64>,
}

impl Numbers {
    fn new(rows: usize, cols: usize, at: impl Fn(usize, usize) -> f64) -> Numbers {
        let data = (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))).map(|(i, j)| at(i, j)).collect();
        Numbers { rows, cols, data }
    }

    fn scalar(x: f64) -> Numbers {
        Numbers::new(1, 1, |_, _| x)
    }

    fn at(&self, i: usize, j: usize) -> f64 {
        // A scalar is alike everywhere.
        if self.data.len() == 1 { self.data[0] } else { self.data[i * self.cols + j] }
    }

    fn times(&self, other: &Numbers) -> Numbers {
        if self.data.len() == 1 || other.data.len() == 1 {
            return each(&[self.clone(), other.clone()], |x| x[0] * x[1]);
        }
        assert_eq!(self.cols, other.rows, "factors fit");
        Numbers::new(self.rows, other.cols, |i, j| (0..self.cols).map(|k| self.at(i, k) * other.at(k, j)).sum())
    }
}

/// A function of the elements at the same place.
fn each(args: &[Numbers], f: impl Fn(&[f64]) -> f64) -> Numbers {
    let shape = args.iter().find(|arg| arg.data.len() > 1).unwrap_or(&args[0]);
    let fits = |arg: &Numbers| arg.data.len() == 1 || (arg.rows, arg.cols) == (shape.rows, shape.cols);
    assert!(args.iter().all(fits), "shapes are equal: {args:?}");
    Numbers::new(shape.rows, shape.cols, |i, j| f(&args.iter().map(|arg| arg.at(i, j)).collect::<Vec<f64>>()))
}

struct World {
    sizes: BTreeMap<SizeId, i64>,
    values: BTreeMap<VarId, Numbers>,
}

impl World {
    fn size(&self, size: &Size) -> i64 {
        size.evaluate(&mut |v| match v {
            Var::Size(n) => self.sizes.get(n).copied(),
            _ => None,
        })
        .expect("sizes have values")
        .expect("small numbers")
    }

    fn all(&self, matrices: &[Matrix]) -> Vec<Numbers> {
        matrices.iter().map(|matrix| self.value(matrix)).collect()
    }

    fn value(&self, matrix: &Matrix) -> Numbers {
        match matrix {
            Matrix::Literal(x) => Numbers::scalar(*x),
            Matrix::Size(size) => Numbers::scalar(self.size(size) as f64),
            Matrix::Name(var, _) => self.values[var].clone(),
            Matrix::Group(inner) => self.value(inner),
            Matrix::Ones(size) => Numbers::new(self.size(size) as usize, 1, |_, _| 1.0),
            Matrix::Transposed(inner) => {
                let inner = self.value(inner);
                Numbers::new(inner.cols, inner.rows, |i, j| inner.at(j, i))
            }
            Matrix::Product(factors) => {
                let factors = self.all(factors);
                factors[1..].iter().fold(factors[0].clone(), |product, factor| product.times(factor))
            }
            Matrix::Sum(terms) => {
                let signs: Vec<f64> = terms.iter().map(|(negative, _)| if *negative { -1.0 } else { 1.0 }).collect();
                let terms: Vec<Numbers> = terms.iter().map(|(_, term)| self.value(term)).collect();
                each(&terms, |x| x.iter().zip(&signs).map(|(x, sign)| x * sign).sum())
            }
            Matrix::Each(factors) => each(&self.all(factors), |x| x.iter().product()),
            Matrix::Over(above, below) => {
                let below = self.value(below);
                assert_eq!(below.data.len(), 1, "the divisor is a scalar");
                each(&[self.value(above), below], |x| x[0] / x[1])
            }
            Matrix::EachOver(above, below) => each(&[self.value(above), self.value(below)], |x| x[0] / x[1]),
            Matrix::Power(base, k) => each(&[self.value(base)], |x| x[0].powi(*k)),
            Matrix::Apply(scalar::Function::Value(Primitive::Op(op)), args) => each(&self.all(args), |x| op.value(x)),
            Matrix::Apply(..) => panic!("functions of the table only"),
            Matrix::Diagonal(inner) => {
                let inner = self.value(inner);
                Numbers::new(inner.rows, inner.rows, |i, j| if i == j { inner.at(i, 0) } else { 0.0 })
            }
            Matrix::DiagonalOf(inner) => {
                let inner = self.value(inner);
                Numbers::new(inner.rows, 1, |i, _| inner.at(i, i))
            }
            Matrix::Lower(inner, k) => {
                let inner = self.value(inner);
                let below = |i: usize, j: usize| j as i64 - i as i64 <= *k;
                Numbers::new(inner.rows, inner.cols, |i, j| if below(i, j) { inner.at(i, j) } else { 0.0 })
            }
            Matrix::Upper(inner, k) => {
                let inner = self.value(inner);
                let above = |i: usize, j: usize| j as i64 - i as i64 >= *k;
                Numbers::new(inner.rows, inner.cols, |i, j| if above(i, j) { inner.at(i, j) } else { 0.0 })
            }
            Matrix::Total(inner) => Numbers::scalar(self.value(inner).data.iter().sum()),
            Matrix::Squares(inner) => Numbers::scalar(self.value(inner).data.iter().map(|x| x * x).sum()),
        }
    }
}

/// Inputs for a program whose parameters are dense or sparse scalars, vectors and matrices without relations of its own.
fn inputs(program: &Program) -> Option<(World, Inputs)> {
    let signature = &program.signature;
    let own = |r: &crate::ty::Relation| !matches!(r.kind, crate::ty::RelationKind::Pattern(_));
    if signature.relations.values().any(own) {
        return None;
    }
    let sizes: BTreeMap<SizeId, i64> = signature.sizes.ids().zip(3..).collect();
    let mut world = World { sizes, values: BTreeMap::new() };
    let mut inputs = Inputs::new();
    for (n, name) in signature.sizes.iter() {
        inputs.size(name, world.sizes[&n]);
    }
    let mut random = fastrand::Rng::with_seed(5);
    for (id, param) in signature.params.iter() {
        let dims = signature.types.real_dims(param.ty)?;
        let shape: Vec<usize> = dims.iter().map(|n| world.size(n).max(0) as usize).collect();
        let (rows, cols) = (shape.first().copied().unwrap_or(1), shape.get(1).copied().unwrap_or(1));
        if shape.len() > 2 {
            return None;
        }
        let data: Vec<f64> = (0..rows * cols).map(|_| 0.25 + random.f64()).collect();
        let dense = Dense::new(&shape, data.clone()).ok()?;
        let value = match param.storage.format() {
            None => Value::from(dense),
            Some(format) => {
                crate::tensor::Tensor::sparse(format, crate::tensor::Coo::from_dense(&dense).ok()?).ok()?.into()
            }
        };
        inputs.value(&param.name, value);
        world.values.insert(program.param(id), Numbers { rows, cols, data });
    }
    Some((world, inputs))
}

/// Whether a function has a notation; then it gives the numbers of the reference.
fn judge(function: &Function) -> bool {
    let written = function.term().expect("it is presented");
    let presented = || crate::present::present(function.tensor_ssa()).expect("it is presented");
    let (program, notation) = match Notation::of(&written) {
        Ok(notation) => (written, notation),
        Err(_) => {
            let program = presented();
            let Ok(notation) = Notation::of(&program) else { return false };
            (program, notation)
        }
    };
    let Some((mut world, inputs)) = inputs(&program) else { return false };
    let Ok(expected) = function.eval(&inputs) else { return false };
    let text = program.matrix_notation().expect("it has one");
    for (var, matrix) in &notation.definitions {
        let value = world.value(matrix);
        world.values.insert(*var, value);
    }
    let expected = expected.iter().flat_map(|(_, value)| value.leaves());
    for (matrix, expected) in notation.results.iter().zip(expected) {
        let found = world.value(matrix);
        let dense = match &**expected {
            crate::tensor::Tensor::Dense(dense) => dense.clone(),
            sparse => {
                let coo = crate::tensor::Coo::new(
                    sparse.shape(),
                    (0..2).map(|axis| sparse.pattern().expect("sparse").column(axis).to_vec()).collect(),
                    sparse.lexicographic().into_owned(),
                );
                coo.and_then(|coo| coo.to_dense()).expect("small")
            }
        };
        assert_eq!(found.data.len(), dense.data().len(), "{program}\n{text}");
        for (x, y) in found.data.iter().zip(dense.data()) {
            assert!((x - y).abs() <= 1e-9 * (1.0 + x.abs().max(y.abs())), "{program}\n{text}\n{x} is not {y}");
        }
    }
    true
}

/// The program itself, and its derivatives by each parameter.
fn with_derivatives(text: &str, modes: &[Mode]) -> Vec<Function> {
    let Ok(function) = Function::parse(text) else { return Vec::new() };
    // A loop over time has no notation.
    if function.flow().is_some() {
        return Vec::new();
    }
    let mut all = vec![function.clone()];
    for param in function.tensor_ssa().signature.params.values() {
        for mode in modes {
            let request = Request { simplify: Some(Default::default()), ..Request::new(*mode, &[&param.name]) };
            all.extend(function.derive(&request).ok().map(|derived| derived.function));
        }
    }
    all
}

/// All programs of textbooks and of the tests that have a notation, with their derivatives.
#[test]
fn notation_is_evaluated() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("src/language/losses.md")).unwrap();
    let sections = page.split("\n### ").skip(1);
    let losses = sections.filter_map(|section| Some(section.split_once("```iv\n")?.1.split_once("```")?.0.to_owned()));
    let losses: Vec<String> = losses.chain(MORE.iter().map(|text| (*text).to_owned())).collect();
    let mut others = Vec::new();
    for folder in ["tests/habits", "tests/programs"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            others.extend(std::fs::read_to_string(entry.unwrap().path()));
        }
    }
    let (mut with, mut all) = (0, 0);
    for (texts, modes) in [(losses, &[Mode::Gradient, Mode::Hessian][..]), (others, &[Mode::Gradient])] {
        for function in texts.iter().flat_map(|text| with_derivatives(text, modes)) {
            all += 1;
            with += usize::from(judge(&function));
        }
    }
    println!("{with} of {all} have a notation");
    assert!(with > 150, "{with} of {all}");
}

/// Forms that books seldom have.
const MORE: &[&str] = &[
    "param x : [n] real\nsum i < n. (x[i] + 1)^0 + x[i]^1 - 1e300 * x[i]",
    "param A : [n, m] real\nparam x : [n] real\nparam y : [m] real\ngen i < n, j < m. x[i] * A[i, j] * y[j] + x[i]",
    "param A : [n, n] real\ngen i < n, j < n. [j <= i] * A[i, j] + [i <= j + 1] * A[j, i] + [i < j] * A[i, j]",
    "param A : [n, n] real\nparam x : [n] real\ngen i < n, j < n. [i = j] * x[j] * A[i, i] + [i = j] * 2 - x[i] * x[j]",
    "param A : csr [n, m] real\nparam B : [m, n] real\n(sum i < n, j < m. A[i, j] * B[j, i], gen i < n. sum j < m. A[i, j], 3)",
    "param x : [n] real\nparam y : [n] real\nparam s : real\nsum i < n. s * (x[i] / y[i]) / (1 + x[i]^2) + n * x[i]^-2",
    "param x : [n] real\nparam A : [n, n] real\nlet s = sum i < n. x[i]^2 in gen j < n. sum i < n. s * A[j, i] * (sum k < n. A[k, i] * x[k])^2 / s",
];

/// What is printed, as a mathematician reads it.
#[test]
fn textbook_derivatives() {
    let lines: Vec<String> = TEXTBOOK
        .iter()
        .map(|(text, mode, wrt)| {
            let function = Function::parse(text).unwrap();
            let request = Request { simplify: Some(Default::default()), ..Request::new(*mode, &[wrt]) };
            let derived = function.derive(&request).unwrap().function;
            assert!(judge(&derived), "{derived}");
            let notation = |function: &Function| function.matrix_notation().unwrap();
            format!("{}by {wrt}:\n{}", notation(&function), notation(&derived))
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

const TEXTBOOK: &[(&str, Mode, &str)] = &[
    (
        "param X : [n, d] real\nparam y : [n] real\nparam w : [d] real\nparam c : real\n\
         (sum i < n. ((sum j < d. X[i, j] * w[j]) - y[i])^2) / n + c * sum j < d. w[j]^2",
        Mode::Gradient,
        "w",
    ),
    (
        "param X : csr [n, d] real\nparam y : [n] real\nparam w : [d] real\n\
         sum i < n. softplus(-y[i] * (sum j < d. X[i, j] * w[j]))",
        Mode::Gradient,
        "w",
    ),
    ("param A : [n, n] real\nparam x : [n] real\nx' @ A @ x", Mode::Gradient, "x"),
    ("param A : [n, n] real\nparam x : [n] real\nx' @ A @ x", Mode::Gradient, "A"),
    ("param A : [n, n] real\nparam x : [n] real\nx' @ A @ x", Mode::Hessian, "x"),
    ("param A : [m, n] real\nparam U : [m, r] real\nparam V : [n, r] real\nsum((A - U @ V')^2)", Mode::Gradient, "V"),
    ("param x : [n] real\nassume n >= 1\nln(sum i < n. exp(x[i]))", Mode::Gradient, "x"),
    ("param x : [n] real\nassume n >= 1\nln(sum i < n. exp(x[i]))", Mode::Hessian, "x"),
    ("param A : [n, n] real\nparam B : [n, n] real\ntrace(A' @ B @ A)", Mode::Gradient, "A"),
    ("param x : [n] real\nparam a : [n] real\nsqrt(sum i < n. (x[i] - a[i])^2)", Mode::Gradient, "x"),
];

#[test]
fn what_has_no_notation_is_refused() {
    for (text, what) in [
        ("param x : [n] real\nsum i < n - 1. (x[i + 1] - x[i])^2", "places that are no indices, such as `x[i - j]`"),
        ("param x : [n, n, n] real\nsum i < n. x[i, i, i]", "a tensor of more than two axes"),
        ("param x : [n] real\nassume n >= 1\nmax i < n. x[i]", "brackets but `[i = j]` and `[i <= j]`"),
        ("param x : [n] real\nsum i < n. [x[i] < 1] * x[i]", "a `let` inside of an expression"),
        ("param x : [n] real\ngen i < n. i * x[i]", "an index as a number"),
    ] {
        let program = Function::parse(text).unwrap().term().unwrap();
        let error = program.matrix_notation().unwrap_err().to_string();
        assert_eq!(error, format!("not supported yet: matrix notation of {what}"), "{text}");
    }
    let deep = format!("param x : real\n{}x{}", "exp(".repeat(300), ")".repeat(300));
    let error = Function::parse(&deep).unwrap().term().unwrap().matrix_notation().unwrap_err();
    assert_eq!(error.to_string(), "not supported yet: matrix notation of a program that is so deep");
}
