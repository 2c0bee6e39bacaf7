//! What the numbers of an engine are held against: the reference evaluator, with a bound on what rounding may do.
//!
//! | the source is | an engine gives |
//! |---|---|
//! | finite, of integers | the same number; a zero that was not simplified has the same sign ([`Element::has_sign`]) |
//! | finite | a number within four times the running error bound ([`Rounded`]) |
//! | NaN or infinite | NaN or infinite, or what comes out where what is not there makes a product zero ([`Masked`]) |
//! | a function of sums or products that are NaN or infinite, which in another order are another of these | anything |
//! | NaN or infinite, and the program simplified | anything |
//! | a derivative of what is NaN or infinite, and simplified | anything |
//!
//! Engines are compared by no other tolerance. Where a comparison may go either way the element is *undecided*, and is counted; where a bracket or
//! an extremum tests one, all elements are.

use iverson::ir::reference::{Environment, Leaf, Masked, Numeric, Rounded, eval_tssa};
use iverson::ir::term;
use iverson::ir::tssa::Program;
use iverson::tensor::{Inputs, Tensor, Value, bind};

use crate::support::{evaluate, evaluate_term};

/// How far a result may be from the reference, in bounds.
const BOUNDS: f64 = 4.0;

/// Whether a program was simplified on its way to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ways {
    Raw,
    /// Not simplified, but zeros may have another sign: brackets have left a product, or terms that are 0 are gone.
    Unsigned,
    Simplified,
}

/// One number of a result.
#[derive(Clone, Copy, Debug)]
struct Element {
    plain: Rounded,
    /// Whether a zero has the sign that it has to have: another way of computing the number may say nothing of that.
    is_signed: bool,
    /// What it is where structural zeros make products zero; only where it is not finite.
    masked: Option<Rounded>,
}

/// What the outputs of a program are.
pub struct Expected {
    elements: Vec<Element>,
}

/// How many numbers were compared, and of which kinds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub exact: usize,
    pub bounded: usize,
    pub not_finite: usize,
    pub undecided: usize,
    /// The largest difference from the reference, in bounds.
    pub worst: f64,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.exact += other.exact;
        self.bounded += other.bounded;
        self.not_finite += other.not_finite;
        self.undecided += other.undecided;
        self.worst = self.worst.max(other.worst);
    }
}

fn masked(x: f64) -> Masked<Rounded> {
    Masked::new(Rounded::new(x))
}

/// The same sizes and relations, with other numbers.
pub fn numbers_as<T>(environment: &Environment<f64>, number: impl Fn(f64) -> T) -> Environment<T> {
    environment.map(|_, _, leaf| leaf.map(|x| Ok(number(*x)))).expect("nothing fails")
}

/// A program in one of two languages.
#[derive(Clone, Copy)]
enum Source<'a> {
    Term(&'a term::Program),
    TensorSsa(&'a Program),
}

impl Source<'_> {
    fn numbers<T: Numeric>(self, environment: &Environment<T>) -> iverson::Result<Vec<T>> {
        let leaves = match self {
            Source::Term(program) => evaluate_term(program, environment),
            Source::TensorSsa(program) => evaluate(program, environment),
        };
        Ok(leaves?.iter().flat_map(|leaf| leaf.values().iter().cloned()).collect())
    }
}

/// Whether an evaluation met a test of which it cannot say how it ends.
pub fn is_undecided(error: &iverson::Error) -> bool {
    matches!(error, iverson::Error::Limitation { feature, .. } if feature == Rounded::UNDECIDED)
}

/// Numbers that were computed in another way.
impl From<Vec<Rounded>> for Expected {
    fn from(numbers: Vec<Rounded>) -> Self {
        let element = |plain| Element { plain, is_signed: false, masked: None };
        Expected { elements: numbers.into_iter().map(element).collect() }
    }
}

impl Expected {
    /// As many numbers, of which nothing is said.
    pub fn anything(count: usize) -> Self {
        Expected::from(vec![Rounded::anything(); count])
    }

    /// The numbers of two evaluations, the second of which is asked where the first is not finite somewhere.
    fn new(source: Source<'_>, environment: &Environment<f64>) -> iverson::Result<Self> {
        let mut expected = match source.numbers(&numbers_as(environment, Rounded::new)) {
            Err(error) if is_undecided(&error) => return Ok(Expected::anything(source.numbers(environment)?.len())),
            numbers => Expected::from(numbers?),
        };
        expected.elements.iter_mut().for_each(|element| element.is_signed = true);
        if expected.is_finite() {
            return Ok(expected);
        }
        let masked = match source.numbers(&numbers_as(environment, masked)) {
            Err(error) if is_undecided(&error) => vec![Masked::new(Rounded::anything()); expected.elements.len()],
            numbers => numbers?,
        };
        for (element, masked) in expected.elements.iter_mut().zip(masked) {
            element.masked = Some(masked.value).filter(|_| !element.plain.value.is_finite());
        }
        Ok(expected)
    }

    /// What a program gives, as the reference evaluates it.
    pub fn at(program: &Program, environment: &Environment<f64>) -> Result<Self, String> {
        Expected::new(Source::TensorSsa(program), environment).map_err(|error| error.to_string())
    }

    /// The same of a program as it was written.
    pub fn of_term(program: &term::Program, environment: &Environment<f64>) -> Result<Self, String> {
        Expected::new(Source::Term(program), environment).map_err(|error| error.to_string())
    }

    /// With the signs that zeros have in statements, where brackets have left products: `-([p] * x)` is `[p] * (-x)`. Those of structural zeros may
    /// be any, since kernels leave such places out.
    pub fn with_signs_of(mut self, program: &Program, environment: &Environment<f64>) -> Result<Self, String> {
        let words = |error: iverson::Error| error.to_string();
        let source = Source::TensorSsa(program);
        let numbers = source.numbers(environment).map_err(words)?;
        let masked = source.numbers(&numbers_as(environment, Masked::new)).map_err(words)?;
        for (element, (x, masked)) in self.elements.iter_mut().zip(numbers.into_iter().zip(masked)) {
            element.is_signed = !masked.nothing;
            if x == 0.0 && element.plain.value == 0.0 {
                element.plain.value = x;
            }
            // An index that stands for a literal place is a literal in statements, and annihilates if it is 0.
            if x == 0.0 && !element.plain.value.is_finite() {
                element.masked = Some(Rounded::new(0.0));
            }
        }
        Ok(self)
    }

    /// What each output of a program gives.
    pub fn of_outputs(program: &Program, environment: &Environment<f64>) -> iverson::Result<Vec<Self>> {
        let mut elements = Expected::new(Source::TensorSsa(program), environment)?.elements.into_iter();
        let outputs = eval_tssa::evaluate(program, environment, eval_tssa::Options::default())?;
        let count = |leaves: &Vec<Leaf<f64>>| leaves.iter().map(|leaf| leaf.values().len()).sum();
        Ok(outputs
            .iter()
            .map(|leaves| Expected { elements: elements.by_ref().take(count(leaves)).collect() })
            .collect())
    }

    /// The numbers as the reference evaluator computes them.
    pub fn values(&self) -> Vec<f64> {
        self.elements.iter().map(|x| x.plain.value).collect()
    }

    /// What is expected of a simplified derivative of what gives these numbers.
    pub fn of_derivative(self, value: &Expected) -> Self {
        if value.is_finite() { self } else { Expected::anything(self.elements.len()) }
    }

    /// What a program gives for inputs.
    pub fn of(program: &Program, inputs: &Inputs) -> Result<Self, String> {
        let words = |error: iverson::Error| error.to_string();
        let bindings = bind(&program.signature, inputs).map_err(words)?;
        let at = Environment::from_bindings(&bindings).map_err(words)?;
        Expected::at(program, &at)?.with_signs_of(program, &at)
    }

    /// Whether some element may be anything, and with it what its derivatives are made of.
    pub fn is_open(&self) -> bool {
        self.elements.iter().any(|x| x.plain.is_open())
    }

    /// Whether all elements are finite.
    pub fn is_finite(&self) -> bool {
        self.elements.iter().all(|x| x.plain.value.is_finite())
    }

    /// Compares all elements.
    pub fn compare(&self, what: &str, found: &[f64], ways: Ways) -> Result<Tally, String> {
        if found.len() != self.elements.len() {
            return Err(format!("{what}: {} numbers, {} are expected", found.len(), self.elements.len()));
        }
        let mut tally = Tally::default();
        for (place, (element, x)) in self.elements.iter().zip(found).enumerate() {
            if !element.allows(*x, ways, &mut tally) {
                let Element { plain, masked, .. } = element;
                let masked =
                    masked.map_or(String::new(), |y| format!(", or {} where nothing times anything is 0", y.value));
                let all = self.values();
                return Err(format!(
                    "{what}: element {place} is {x:?}, expected {:?} with a bound of {:e}{masked}\nfound    {found:?}\nexpected {all:?}",
                    plain.value,
                    plain.bound(),
                ));
            }
        }
        Ok(tally)
    }
}

fn within(x: f64, y: Rounded, tally: &mut Tally) -> bool {
    let bound = y.bound();
    if bound.is_infinite() {
        tally.undecided += 1;
        return true;
    }
    if bound == 0.0 {
        tally.exact += 1;
        return x == y.value;
    }
    tally.bounded += 1;
    let distance = (x - y.value).abs() / bound;
    tally.worst = tally.worst.max(distance);
    distance <= BOUNDS
}

impl Element {
    /// Whether a number that is exactly 0 has the right sign. Where something was rounded, it may have been a product of a sum that underflowed.
    fn has_sign(&self, x: f64) -> bool {
        let is_zero = self.plain.value == 0.0 && self.plain.bound() == 0.0;
        !(self.is_signed && is_zero) || x.is_sign_negative() == self.plain.value.is_sign_negative()
    }

    fn allows(&self, x: f64, ways: Ways, tally: &mut Tally) -> bool {
        if self.plain.value.is_finite() || self.plain.is_open() {
            return within(x, self.plain, tally) && (ways != Ways::Raw || self.has_sign(x));
        }
        tally.not_finite += 1;
        let masked = |y: Rounded| match y.value.is_finite() {
            true => within(x, y, &mut Tally::default()),
            false => y.is_open() || !x.is_finite(),
        };
        // Sums in another order, and factors outside of them, give another of NaN and infinities.
        ways == Ways::Simplified || !x.is_finite() || self.masked.is_some_and(masked)
    }
}

/// All numbers of results, in the order of their places, whatever the format.
pub fn numbers(values: &[(String, Value)]) -> Vec<f64> {
    values
        .iter()
        .flat_map(|(_, value)| value.leaves().iter().flat_map(|leaf| leaf.lexicographic().into_owned()))
        .collect()
}

/// All numbers of results, with zeros where a sparse one stores nothing.
pub fn dense(values: &[(String, Value)]) -> Vec<f64> {
    let leaves = values.iter().flat_map(|(_, value)| value.leaves());
    let all = |leaf: &std::sync::Arc<Tensor>| match leaf.as_ref() {
        Tensor::Dense(dense) => dense.data().to_vec(),
        Tensor::Csr(csr) => csr.to_dense().expect("it is small").data().to_vec(),
        Tensor::Csc(csc) => csc.to_dense().expect("it is small").data().to_vec(),
        Tensor::Coo(coo) => coo.to_dense().expect("it is small").data().to_vec(),
    };
    leaves.flat_map(all).collect()
}
