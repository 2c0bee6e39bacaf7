//! Programs in matrix notation: `2 X' (X w - y) / n` for `gen j < d. 2 * (sum i < n. X[i, j] * ((sum k < d. X[i, k] * w[k]) - y[i])) / n`.
//!
//! A real term with the free indices `i, ..` is a scalar, a vector or a matrix with these axes. From the inside outwards:
//!
//! | term | axes | notation |
//! |---|---|---|
//! | `x[i]`, `A[i, j]`, `A[j, i]`, `A[i, i]` | `i`; `i, j` | `x`, `A`, `A'`, `diag(A)` |
//! | `a[i] * b[i]`, `A[i, j] * B[i, j]` | | `a .* b`, `A .* B` |
//! | `a[i] * A[i, j] * b[j]` | `i, j` | `diag(a) A diag(b)` |
//! | `a[i] * b[j]` | `i, j` | `a b'` |
//! | `a[i] + s`, `a[i] + b[j]` | | `a + s 1`, `a 1' + 1 b'` |
//! | `f(a[i])`, `a[i] / b[i]`, `a[i]^2` | `i` | `f(a)`, `a ./ b`, `a.^2`: of each element |
//! | `sum k. A[i, k] * w[k] * B[k, j]` | `i, j` | `A diag(w) B` |
//! | `sum k. a[k] * b[k]`, `sum k. a[k]`, `sum k. a[k]^2` | | `a' b`, `sum(a)`, `\|a\|^2`, of all elements of a matrix alike |
//! | `[i = j] * a[i]`, `[j <= i] * A[i, j]` | `i, j` | `diag(a)`, `tril(A)` |
//!
//! `1` is a column of ones as long as it must be. Vectors are columns. A short `let` that is read once is written where it is read.
//!
//! *Refused* is what has no such form: more than two axes, places such as `x[i - j]` and `x[f(i)]`, other brackets, largest elements, pairs inside of a
//! program, and programs that are deeper than anybody would read. The notation does not parse; it is judged by evaluating it.

mod text;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::fold::{is_entry, negated, peel_access};
use crate::base::{IndexId, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, Size, Var};
use crate::scalar::{Function, Number, Op, Primitive};
use crate::term::{Program, Term, TermId};
use crate::ty::Type;

/// How many terms may stand inside of each other.
const MAX_DEPTH: u32 = 200;
/// How many parts a variable may have that is written where it is read.
const MAX_INLINED: usize = 16;

/// A scalar, a column or a matrix.
#[derive(Clone, Debug, PartialEq)]
enum Matrix {
    Literal(f64),
    /// An expression in sizes.
    Size(Size),
    /// A variable of so many axes.
    Name(VarId, usize),
    /// A scalar that is a product of matrices.
    Group(Box<Matrix>),
    /// A column of ones.
    Ones(Size),
    Transposed(Box<Matrix>),
    /// Scalars come first.
    Product(Vec<Matrix>),
    /// Terms, each with whether it is subtracted.
    Sum(Vec<(bool, Matrix)>),
    /// The product of elements.
    Each(Vec<Matrix>),
    /// By a scalar.
    Over(Box<Matrix>, Box<Matrix>),
    /// By each element.
    EachOver(Box<Matrix>, Box<Matrix>),
    /// Of each element.
    Power(Box<Matrix>, i32),
    /// Of each element.
    Apply(Function, Vec<Matrix>),
    /// The matrix with a column on its diagonal.
    Diagonal(Box<Matrix>),
    /// The diagonal of a matrix as a column.
    DiagonalOf(Box<Matrix>),
    /// What stands on diagonals up to this one, counted from the main one upwards.
    Lower(Box<Matrix>, i64),
    /// What stands on diagonals from this one on.
    Upper(Box<Matrix>, i64),
    /// The sum of all elements.
    Total(Box<Matrix>),
    /// The sum of the squares of all elements.
    Squares(Box<Matrix>),
}

/// A matrix with an index for each axis: none of a scalar, one of a column, those of rows and columns of a matrix.
#[derive(Clone, Debug)]
struct Labelled {
    matrix: Matrix,
    axes: Vec<IndexId>,
}

/// A program in matrix notation.
#[derive(Clone, Debug)]
struct Notation {
    /// What `let`s bind, in order.
    definitions: Vec<(VarId, Matrix)>,
    results: Vec<Matrix>,
}

impl Program {
    /// The program in matrix notation, a line for each variable and result.
    ///
    /// # Errors
    /// [`Error::Limitation`] for a program that has none.
    pub fn matrix_notation(&self) -> Result<String> {
        Ok(text::text(self, &Notation::of(self)?))
    }
}

/// What has no matrix notation.
fn none<T>(what: &str) -> Result<T> {
    Err(Error::Limitation { feature: format!("matrix notation of {what}"), span: None })
}

impl Notation {
    fn of(program: &Program) -> Result<Notation> {
        let mut depths: Vec<u32> = Vec::with_capacity(program.terms.len());
        for term in program.terms.values() {
            let mut depth = 0;
            // The body of a `let` stands beside it.
            let beside = if let Term::Let { body, .. } = term { Some(*body) } else { None };
            term.for_each_operand(|e| {
                let below = depths.get(e.0 as usize).copied().unwrap_or(0);
                depth = depth.max(if beside == Some(e) { below } else { below + 1 });
            });
            depths.push(depth);
        }
        if depths.iter().any(|depth| *depth > MAX_DEPTH) {
            return none("a program that is so deep");
        }
        let mut reader = Reader { program, ranges: Vec::new() };
        let (mut definitions, mut at) = (Vec::new(), program.root);
        while let Term::Let { var, value, body } = &program.terms[at] {
            definitions.push((*var, reader.tensor(*value)?));
            at = *body;
        }
        let mut results = Vec::new();
        while let Term::Pair(first, rest) = &program.terms[at] {
            results.push(reader.tensor(*first)?);
            at = *rest;
        }
        results.push(reader.tensor(at)?);
        Ok(Notation { definitions, results }.inlined())
    }

    /// A short variable that is read once is written where it is read.
    fn inlined(self) -> Notation {
        let mut uses: BTreeMap<VarId, usize> = BTreeMap::new();
        let all = self.definitions.iter().map(|(_, matrix)| matrix).chain(&self.results);
        all.for_each(|matrix| {
            matrix.visit(&mut |part| {
                if let Matrix::Name(var, _) = part {
                    *uses.entry(*var).or_default() += 1;
                }
            });
        });
        let mut inlined = BTreeMap::new();
        let mut definitions = Vec::new();
        for (var, matrix) in self.definitions {
            let matrix = matrix.with(&inlined);
            let mut parts = 0;
            matrix.visit(&mut |_| parts += 1);
            match uses.get(&var) {
                Some(1) if parts <= MAX_INLINED => drop(inlined.insert(var, matrix)),
                _ => definitions.push((var, matrix)),
            }
        }
        Notation { definitions, results: self.results.iter().map(|matrix| matrix.with(&inlined)).collect() }
    }
}

impl Matrix {
    fn visit(&self, visit: &mut impl FnMut(&Matrix)) {
        visit(self);
        match self {
            Matrix::Literal(_) | Matrix::Size(_) | Matrix::Name(..) | Matrix::Ones(_) => {}
            Matrix::Product(parts) | Matrix::Each(parts) | Matrix::Apply(_, parts) => {
                parts.iter().for_each(|part| part.visit(visit));
            }
            Matrix::Sum(terms) => terms.iter().for_each(|(_, term)| term.visit(visit)),
            Matrix::Over(above, below) | Matrix::EachOver(above, below) => {
                above.visit(visit);
                below.visit(visit);
            }
            Matrix::Group(inner)
            | Matrix::Transposed(inner)
            | Matrix::Power(inner, _)
            | Matrix::Diagonal(inner)
            | Matrix::DiagonalOf(inner)
            | Matrix::Lower(inner, _)
            | Matrix::Upper(inner, _)
            | Matrix::Total(inner)
            | Matrix::Squares(inner) => inner.visit(visit),
        }
    }

    /// The same with values for variables.
    fn with(&self, values: &BTreeMap<VarId, Matrix>) -> Matrix {
        let all = |parts: &[Matrix]| parts.iter().map(|part| part.with(values)).collect::<Vec<Matrix>>();
        let one = |part: &Matrix| Box::new(ungrouped(part.with(values)));
        match self {
            Matrix::Name(var, rank) => match values.get(var) {
                Some(value) if *rank == 0 => grouped(value.clone()),
                Some(value) => value.clone(),
                None => self.clone(),
            },
            Matrix::Literal(_) | Matrix::Size(_) | Matrix::Ones(_) => self.clone(),
            Matrix::Group(inner) => grouped(ungrouped(inner.with(values))),
            Matrix::Transposed(inner) => transposed(inner.with(values)),
            Matrix::Product(factors) => product(all(factors)),
            Matrix::Sum(terms) => {
                let mut sum = Vec::new();
                for (negative, term) in terms {
                    match ungrouped(term.with(values)) {
                        Matrix::Sum(inner) => {
                            sum.extend(inner.into_iter().map(|(other, term)| (*negative != other, term)))
                        }
                        term => sum.push((*negative, term)),
                    }
                }
                Matrix::Sum(sum)
            }
            Matrix::Each(factors) => Matrix::Each(all(factors)),
            Matrix::Over(above, below) => {
                product([above.with(values), Matrix::Over(Matrix::Literal(1.0).into(), one(below))])
            }
            Matrix::EachOver(above, below) => Matrix::EachOver(one(above), one(below)),
            Matrix::Power(base, k) => Matrix::Power(one(base), *k),
            Matrix::Apply(f, args) => Matrix::Apply(*f, all(args).into_iter().map(ungrouped).collect()),
            Matrix::Diagonal(inner) => Matrix::Diagonal(one(inner)),
            Matrix::DiagonalOf(inner) => Matrix::DiagonalOf(one(inner)),
            Matrix::Lower(inner, k) => Matrix::Lower(one(inner), *k),
            Matrix::Upper(inner, k) => Matrix::Upper(one(inner), *k),
            Matrix::Total(inner) => Matrix::Total(one(inner)),
            Matrix::Squares(inner) => Matrix::Squares(one(inner)),
        }
    }
}

/// Terms to matrices.
struct Reader<'a> {
    program: &'a Program,
    /// The indices around, with their ranges.
    ranges: Vec<(IndexId, Size)>,
}

impl Reader<'_> {
    /// A tensor of at most two axes.
    fn tensor(&mut self, mut at: TermId) -> Result<Matrix> {
        let outer = self.ranges.len();
        let mut axes = Vec::new();
        while let Term::Gen { index, extent, body } = &self.program.terms[at] {
            self.ranges.push((*index, extent.clone()));
            axes.push(*index);
            at = *body;
        }
        let rank = match self.program.types.get(self.program.ty(at)) {
            Type::Real => 0,
            Type::Tensor(..) => 1,
            Type::Pair(..) => return none("pairs inside of a program"),
        };
        let matrix = match (&self.program.terms[at], rank) {
            _ if axes.len() > 2 => return none("a tensor of more than two axes"),
            (Term::Var(var), 1) if axes.is_empty() => match self.program.types.real_dims(self.program.ty(at)) {
                Some(dims) if dims.len() <= 2 => Matrix::Name(*var, dims.len()),
                _ => return none("a tensor of more than two axes"),
            },
            (_, 1) => return none("rows of a tensor"),
            _ => {
                let value = self.real(at)?;
                self.spread(value, &axes).matrix
            }
        };
        self.ranges.truncate(outer);
        Ok(matrix)
    }

    fn extent(&self, index: IndexId) -> Size {
        let known = self.ranges.iter().rev().find(|(i, _)| *i == index);
        known.map_or_else(|| Size::constant(0), |(_, extent)| extent.clone())
    }

    /// A real term as what it is over its free indices.
    fn real(&mut self, at: TermId) -> Result<Labelled> {
        match &self.program.terms[at] {
            Term::Number(Number::Literal(x)) => Ok(Labelled::scalar(Matrix::Literal(*x))),
            Term::Number(Number::Index(a)) if has_sizes_alone(a) => Ok(Labelled::scalar(Matrix::Size(a.clone()))),
            Term::Number(Number::Index(_)) => none("an index as a number"),
            Term::Var(_) | Term::Access { .. } => self.element(at),
            Term::Add(..) => {
                let mut terms = Vec::new();
                self.terms(at, false, &mut terms)?;
                self.sum(terms)
            }
            Term::Sum { index, extent, body } => {
                self.ranges.push((*index, extent.clone()));
                let (mut factors, mut divisors) = (Vec::new(), Vec::new());
                self.factors(*body, &mut factors, &mut divisors)?;
                let value = self.summed(*index, factors, divisors);
                self.ranges.pop();
                value
            }
            Term::Iverson { guard, body } => self.bracket(guard, *body),
            Term::Apply(Function::Value(Primitive::Op(Op::Powi(k))), args) if *k >= 0 => {
                let Labelled { matrix, axes } = self.real(args[0])?;
                Ok(Labelled { matrix: Matrix::Power(Box::new(matrix), *k), axes })
            }
            Term::Mul(..) | Term::Apply(Function::Value(Primitive::Op(Op::Div | Op::Powi(_))), _) => {
                let (mut factors, mut divisors) = (Vec::new(), Vec::new());
                self.factors(at, &mut factors, &mut divisors)?;
                self.product(factors, divisors)
            }
            Term::Apply(Function::Partial(..), _) => none("partial derivatives that are kept as they are"),
            Term::Apply(f, args) => {
                let args = args.iter().map(|e| self.real(*e)).collect::<Result<Vec<_>>>()?;
                let axes = union(&args);
                if axes.len() > 2 {
                    return none("a function of more than two indices");
                }
                let spread = |arg: Labelled| if arg.axes.is_empty() { arg } else { self.spread(arg, &axes) };
                let args = args.into_iter().map(|arg| spread(arg).matrix).collect();
                Ok(Labelled { matrix: Matrix::Apply(*f, args), axes })
            }
            Term::Let { .. } => none("a `let` inside of an expression"),
            Term::Fst(_) | Term::Snd(_) | Term::Pair(..) => none("pairs inside of a program"),
            Term::Gen { .. } => none("a tensor inside of an expression"),
            Term::Call { .. } => none("a function of tensors from outside"),
            Term::Scan { .. } => none("a loop over time"),
        }
    }

    /// `x`, `x[i]`, `A[i, j]`.
    fn element(&self, at: TermId) -> Result<Labelled> {
        let (array, places) = peel_access(self.program, at);
        let Some(places) = places.into_iter().map(Affine::as_index).collect::<Option<Vec<IndexId>>>() else {
            return none("places that are no indices, such as `x[i - j]`");
        };
        let Term::Var(var) = self.program.terms[array] else {
            return none("elements of pairs or of tensors without a name");
        };
        let name = Matrix::Name(var, places.len());
        match places[..] {
            [i, j] if i == j => Ok(Labelled { matrix: Matrix::DiagonalOf(Box::new(name)), axes: vec![i] }),
            [] | [_] | [_, _] => Ok(Labelled { matrix: name, axes: places }),
            _ => none("a tensor of more than two axes"),
        }
    }

    /// The terms of a sum, each with whether it is subtracted.
    fn terms(&mut self, at: TermId, negative: bool, into: &mut Vec<(bool, Labelled)>) -> Result<()> {
        let term = &self.program.terms[at];
        if let Term::Add(a, b) = term {
            self.terms(*a, negative, into)?;
            return self.terms(*b, negative, into);
        }
        if let Some(e) = negated(self.program, term) {
            return self.terms(e, !negative, into);
        }
        into.push((negative, self.real(at)?));
        Ok(())
    }

    fn sum(&self, terms: Vec<(bool, Labelled)>) -> Result<Labelled> {
        let labelled: Vec<Labelled> = terms.iter().map(|(_, term)| term.clone()).collect();
        let axes = union(&labelled);
        if axes.len() > 2 {
            return none("terms with more than two indices");
        }
        let spread = |(negative, term)| (negative, self.spread(term, &axes).matrix);
        Ok(Labelled { matrix: Matrix::Sum(terms.into_iter().map(spread).collect()), axes })
    }

    /// The factors and divisors of a product.
    fn factors(&mut self, at: TermId, factors: &mut Vec<Labelled>, divisors: &mut Vec<Labelled>) -> Result<()> {
        match &self.program.terms[at] {
            Term::Mul(a, b) => {
                self.factors(*a, factors, divisors)?;
                self.factors(*b, factors, divisors)
            }
            Term::Apply(Function::Value(Primitive::Op(Op::Div)), args) => {
                self.factors(args[0], factors, divisors)?;
                self.factors(args[1], divisors, factors)
            }
            Term::Apply(Function::Value(Primitive::Op(Op::Powi(k))), args) if *k < 0 => {
                let Labelled { matrix, axes } = self.real(args[0])?;
                let matrix = if *k == -1 { matrix } else { Matrix::Power(Box::new(matrix), k.saturating_neg()) };
                divisors.push(Labelled { matrix, axes });
                Ok(())
            }
            _ => {
                factors.push(self.real(at)?);
                Ok(())
            }
        }
    }

    /// The product of what has at most two indices together.
    fn product(&self, factors: Vec<Labelled>, divisors: Vec<Labelled>) -> Result<Labelled> {
        let (scalars_below, below): (Vec<_>, Vec<_>) = divisors.into_iter().partition(|d| d.axes.is_empty());
        let mut value = self.multiplied(factors)?;
        if !below.is_empty() {
            let below = self.multiplied(below)?;
            value = match below.axes.iter().all(|i| value.axes.contains(i)) {
                true if below.axes.len() == value.axes.len() => {
                    let below = self.spread(below, &value.axes);
                    Labelled {
                        matrix: Matrix::EachOver(Box::new(value.matrix), Box::new(below.matrix)),
                        axes: value.axes,
                    }
                }
                _ => {
                    let one = Matrix::EachOver(Box::new(Matrix::Literal(1.0)), Box::new(below.matrix));
                    self.multiplied(vec![value, Labelled { matrix: one, axes: below.axes }])?
                }
            };
        }
        if !scalars_below.is_empty() {
            let below = self.multiplied(scalars_below)?.matrix;
            value.matrix = Matrix::Over(Box::new(value.matrix), Box::new(below));
        }
        Ok(value)
    }

    fn multiplied(&self, factors: Vec<Labelled>) -> Result<Labelled> {
        let axes = union(&factors);
        let (scalars, others): (Vec<_>, Vec<_>) = factors.into_iter().partition(|factor| factor.axes.is_empty());
        let scalars = scalars.into_iter().map(|scalar| grouped(scalar.matrix));
        let columns =
            |of: IndexId| others.iter().filter(move |factor| factor.axes == [of]).map(|column| column.matrix.clone());
        let matrix = match axes[..] {
            [] => return Ok(Labelled::scalar(ungrouped(product(scalars)))),
            [i] => each(columns(i)),
            [i, j] => {
                let both = others.iter().filter(|factor| factor.axes.len() == 2);
                let both: Vec<Matrix> = both.map(|factor| self.spread(factor.clone(), &axes).matrix).collect();
                let (left, right) = (each(columns(i)), each(columns(j)));
                match (both.is_empty(), left, right) {
                    (true, Some(left), Some(right)) => Some(product([left, transposed(right)])),
                    (_, left, right) => {
                        let diagonal = |column: Option<Matrix>| column.map(|column| Matrix::Diagonal(Box::new(column)));
                        Some(product(diagonal(left).into_iter().chain(each(both)).chain(diagonal(right))))
                    }
                }
            }
            _ => return none("a product with more than two indices"),
        };
        Ok(Labelled { matrix: product(scalars.chain(matrix)), axes })
    }

    /// A product summed over an index.
    fn summed(&self, k: IndexId, factors: Vec<Labelled>, divisors: Vec<Labelled>) -> Result<Labelled> {
        let with = |value: &Labelled| value.axes.contains(&k);
        let (mut inside, mut outside): (Vec<_>, Vec<_>) = factors.into_iter().partition(with);
        let (below, outside_below): (Vec<_>, Vec<_>) = divisors.into_iter().partition(with);
        if !below.is_empty() {
            // Divisors stay with what they divide.
            let value = self.product(std::mem::take(&mut inside), below)?;
            inside = vec![value];
        }
        if inside.is_empty() {
            // As often as the index has values.
            inside.push(Labelled { matrix: Matrix::Ones(self.extent(k)), axes: vec![k] });
        }
        let mut others: Vec<IndexId> = union(&inside);
        others.retain(|i| *i != k);
        let columns: Vec<Matrix> = inside.iter().filter(|v| v.axes.len() == 1).map(|v| v.matrix.clone()).collect();
        let along = |order: [IndexId; 2]| {
            let both = inside.iter().filter(|v| v.axes.len() == 2 && order.iter().all(|i| v.axes.contains(i)));
            each(both.map(|v| self.spread(v.clone(), &order).matrix))
        };
        let value = match others[..] {
            [] => Labelled::scalar(dot(columns)),
            [i] => {
                let column = each(columns).unwrap_or_else(|| Matrix::Ones(self.extent(k)));
                Labelled { matrix: product(along([i, k]).into_iter().chain([column])), axes: vec![i] }
            }
            [i, j] => {
                let diagonal = each(columns).map(|column| Matrix::Diagonal(Box::new(column)));
                Labelled {
                    matrix: product(along([i, k]).into_iter().chain(diagonal).chain(along([k, j]))),
                    axes: vec![i, j],
                }
            }
            _ => return none("a sum of a product with more than three indices"),
        };
        outside.push(value);
        self.product(outside, outside_below)
    }

    /// A bracket that has a name in matrices.
    fn bracket(&mut self, guard: &Pred, body: TermId) -> Result<Labelled> {
        let mut value = self.real(body)?;
        for atom in guard.conjuncts() {
            value = match self.shape_of(atom) {
                Some(Shape::Diagonal(i, j)) => match value.axes[..] {
                    [] => {
                        let column = self.spread(value, &[i]);
                        Labelled { matrix: Matrix::Diagonal(Box::new(column.matrix)), axes: vec![i, j] }
                    }
                    [k] if k == i || k == j => {
                        Labelled { matrix: Matrix::Diagonal(Box::new(value.matrix)), axes: vec![i, j] }
                    }
                    _ => return none("a bracket `[i = j]` around more indices"),
                },
                // `[0 <= i - j + k]`: what stands on the diagonals up to the `k`-th, or, transposed, from it on.
                Some(Shape::Lower(i, j, k)) => match value.axes[..] {
                    [a, b] if (a, b) == (j, i) => {
                        let Some(k) = k.checked_neg() else { return none("a diagonal that is too far away") };
                        Labelled { matrix: Matrix::Upper(Box::new(value.matrix), k), axes: vec![j, i] }
                    }
                    _ if value.axes.iter().all(|axis| [i, j].contains(axis)) => {
                        let matrix = self.spread(value, &[i, j]).matrix;
                        Labelled { matrix: Matrix::Lower(Box::new(matrix), k), axes: vec![i, j] }
                    }
                    _ => return none("a bracket `[i <= j]` around more indices"),
                },
                _ if self.is_entry_of(atom, body) => value,
                _ => return none("brackets but `[i = j]` and `[i <= j]`"),
            };
        }
        Ok(value)
    }

    fn shape_of(&self, atom: &Pred) -> Option<Shape> {
        let two = |a: &Affine| match a.terms() {
            [(Var::Index(i), 1), (Var::Index(j), -1)] => Some((*i, *j)),
            [(Var::Index(j), -1), (Var::Index(i), 1)] => Some((*i, *j)),
            _ => None,
        };
        match atom {
            Pred::Zero(a) if a.offset() == 0 => two(a).map(|(i, j)| Shape::Diagonal(i, j)),
            Pred::NonNegative(a) => two(a).map(|(i, j)| Shape::Lower(i, j, a.offset())),
            _ => None,
        }
    }

    /// Whether an atom asks for an entry of a sparse parameter that the body reads there as a factor, so that it is 0 where there is none.
    fn is_entry_of(&self, atom: &Pred, body: TermId) -> bool {
        let mut factors = vec![body];
        while let Some(at) = factors.pop() {
            match &self.program.terms[at] {
                Term::Mul(a, b) => factors.extend([*a, *b]),
                _ if is_entry(self.program, atom, at) => return true,
                _ => {}
            }
        }
        false
    }

    /// The same along these axes, which are its own and perhaps others, along which it is constant.
    fn spread(&self, value: Labelled, axes: &[IndexId]) -> Labelled {
        let ones = |i: IndexId| Matrix::Ones(self.extent(i));
        let matrix = match (&value.axes[..], axes) {
            ([], [i]) => product([value.matrix, ones(*i)]),
            ([], [i, j]) => product([value.matrix, ones(*i), transposed(ones(*j))]),
            ([k], [i, j]) if k == i => product([value.matrix, transposed(ones(*j))]),
            ([_], [i, _]) => product([ones(*i), transposed(value.matrix)]),
            ([i, j], [k, l]) if i == l && j == k => transposed(value.matrix),
            _ => value.matrix,
        };
        Labelled { matrix, axes: axes.to_vec() }
    }
}

/// A bracket over two indices.
enum Shape {
    Diagonal(IndexId, IndexId),
    /// `i - j + k >= 0`.
    Lower(IndexId, IndexId, i64),
}

impl Labelled {
    fn scalar(matrix: Matrix) -> Labelled {
        Labelled { matrix, axes: Vec::new() }
    }
}

fn has_sizes_alone(a: &Affine) -> bool {
    a.terms().iter().all(|(v, _)| matches!(v, Var::Size(_)))
}

/// All indices: first those of what has two, so that few are transposed.
fn union(values: &[Labelled]) -> Vec<IndexId> {
    let mut axes: Vec<IndexId> = Vec::new();
    let (two, fewer): (Vec<_>, Vec<_>) = values.iter().partition(|value| value.axes.len() == 2);
    for i in two.iter().chain(&fewer).flat_map(|value| &value.axes) {
        if !axes.contains(i) {
            axes.push(*i);
        }
    }
    axes
}

/// The transposed matrix; of a product the product of the transposed factors.
fn transposed(matrix: Matrix) -> Matrix {
    match matrix {
        Matrix::Transposed(matrix) => *matrix,
        matrix @ Matrix::Diagonal(_) => matrix,
        matrix if is_scalar(&matrix) => matrix,
        Matrix::Product(factors) => {
            let (scalars, others): (Vec<_>, Vec<_>) = factors.into_iter().partition(is_scalar);
            product(scalars.into_iter().chain(others.into_iter().rev().map(transposed)))
        }
        Matrix::Over(above, below) => Matrix::Over(Box::new(transposed(*above)), below),
        matrix => Matrix::Transposed(Box::new(matrix)),
    }
}

/// Whether a matrix is plainly a number.
fn is_scalar(matrix: &Matrix) -> bool {
    match matrix {
        Matrix::Literal(_) | Matrix::Size(_) | Matrix::Total(_) | Matrix::Squares(_) | Matrix::Group(_) => true,
        Matrix::Name(_, rank) => *rank == 0,
        Matrix::Sum(terms) => terms.iter().all(|(_, term)| is_scalar(term)),
        Matrix::Product(factors) | Matrix::Each(factors) | Matrix::Apply(_, factors) => factors.iter().all(is_scalar),
        Matrix::Over(above, below) | Matrix::EachOver(above, below) => is_scalar(above) && is_scalar(below),
        Matrix::Power(base, _) => is_scalar(base),
        _ => false,
    }
}

/// A scalar, kept together where it is a product of matrices.
fn grouped(matrix: Matrix) -> Matrix {
    match matrix {
        Matrix::Product(factors) if !factors.iter().all(is_scalar) => Matrix::Group(Box::new(Matrix::Product(factors))),
        scalar => scalar,
    }
}

fn ungrouped(matrix: Matrix) -> Matrix {
    match matrix {
        Matrix::Group(matrix) => *matrix,
        matrix => matrix,
    }
}

/// A product of matrices: those inside of each other are one, and what divides goes below all of it.
fn product(factors: impl IntoIterator<Item = Matrix>) -> Matrix {
    let (mut all, mut below) = (Vec::new(), Vec::new());
    for factor in factors {
        match factor {
            Matrix::Product(inner) => all.extend(inner),
            Matrix::Over(above, divisor) => {
                below.push(*divisor);
                match *above {
                    Matrix::Product(inner) => all.extend(inner),
                    above => all.push(above),
                }
            }
            factor => all.push(factor),
        }
    }
    if all.len() > 1 {
        all.retain(|factor| *factor != Matrix::Literal(1.0));
        // Literals, then other scalars.
        all.sort_by_key(|factor| match factor {
            Matrix::Literal(_) => 0,
            factor if is_scalar(factor) => 1,
            _ => 2,
        });
    }
    let above = match all.len() {
        0 => Matrix::Literal(1.0),
        1 => all.remove(0),
        _ => Matrix::Product(all),
    };
    match below.is_empty() {
        true => above,
        false => Matrix::Over(Box::new(above), Box::new(product(below))),
    }
}

/// The product of elements, if there is a factor.
fn each(factors: impl IntoIterator<Item = Matrix>) -> Option<Matrix> {
    let mut factors: Vec<Matrix> = factors.into_iter().collect();
    match factors.len() {
        0 | 1 => factors.pop(),
        _ => Some(Matrix::Each(factors)),
    }
}

/// The sum of the product of columns.
fn dot(mut columns: Vec<Matrix>) -> Matrix {
    let last = columns.pop().unwrap_or(Matrix::Literal(0.0));
    match (each(columns), last) {
        (Some(first), last) if first == last => Matrix::Squares(Box::new(first)),
        (Some(first), last) => product([transposed(first), last]),
        (None, Matrix::Power(base, 2)) => Matrix::Squares(base),
        // Sums of rows are summed.
        (None, Matrix::Product(mut factors))
            if factors.len() > 1 && matches!(factors.last(), Some(Matrix::Ones(_))) =>
        {
            factors.pop();
            match product(factors) {
                Matrix::Power(base, 2) => Matrix::Squares(base),
                Matrix::Each(mut factors) if factors.len() == 2 && factors[0] == factors[1] => {
                    Matrix::Squares(Box::new(factors.remove(0)))
                }
                matrix => Matrix::Total(Box::new(matrix)),
            }
        }
        (None, last) => Matrix::Total(Box::new(last)),
    }
}
