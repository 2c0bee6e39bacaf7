//! Dual-numbers reverse mode, sequential and parallel, after Smeding and Vákár, *Parallel Dual-Numbers Reverse AD*. Sections and
//! figures, here and in the files, are those of this paper.
//!
//! A real number becomes a pair of itself and its *backpropagator*, a linear function from its cotangent to the cotangent of the input:
//!
//! ```text
//! D[R] = (R, R -o c)         D[r] = (r, λz. 0)         D[op(t..)] = (op(x..), λz. d1 (∂1 op(x..) z) + .. + dn (∂n op(x..) z))
//! ```
//!
//! All else stays as it is: functions, sums, recursion, data types, loops, arrays. So this differentiates what has no static shape. As it stands it takes
//! exponential time. [`Variant`] lists the steps of the paper that mend it, each with its section; each is complete, and all give the same gradients.
//!
//! | step | what it removes | work, T of the program, I of the input |
//! |---|---|---|
//! | naive, §5 | | exponential |
//! | staged, §6 | a backpropagator is called at most once: `f x + f y = f (x + y)` | `(T + I) I` |
//! | Cayley, §7 | zeros and sums of cotangents of the whole input | `T (log T + depth of the input)` |
//! | scalars, §8 | paths into the input | `(T + I) log (T + I)` |
//! | arrays, §9 | the logarithm | `T + I` |
//! | one array, §10.1 | the array of the input | `T + I` |
//! | `Contrib`, §10.2 | closures | `T + I` |
//! | tape, §10.3 | staging of functions | `T + I` |
//! | fork-join, §12 | the order of what is independent | `T + I`, on all threads |
//!
//! **Why correct.** A backpropagator calls only older ones, so from the highest identifier down each has all of its cotangent when it is called. The
//! array variants check both at run time: a call of what is not older, or has been called, is [`Error::Bug`].
//!
//! **Identifiers for leaf calls** ([`Options::leaf_calls`]): one for a straight piece of program instead of one for each scalar in it.
//!
//! **In two forms.** `transform` makes programs of the language, types included, as the figures print them. `machine` runs the program in dual form
//! as it is, on threads, and the reverse pass is one of `pure`, `array`, `fork_join`. The tests compare both.
//!
//! **Refused**: functions in the input or the result (`Interleave` is not defined at them), external functions.
//!
//! | file | job |
//! |---|---|
//! | `code`, `leaf` | programs as instructions; straight pieces |
//! | `machine`, `operation`, `plain` | the forward pass; operations with derivatives, and without |
//! | `backpropagator` | backpropagators, identifiers, jobs |
//! | `pure`, `map`, `shape` | reverse passes without mutation; maps; tuples |
//! | `array` | reverse passes on arrays |
//! | `fork_join`, `workers` | the reverse pass on threads |
//! | `transform`, `wrapper` | Figures 6 to 10 as programs of the language; running them |

mod array;
mod backpropagator;
mod code;
mod fork_join;
#[cfg(test)]
mod fork_join_tests;
mod leaf;
mod machine;
mod map;
mod operation;
mod plain;
#[cfg(test)]
mod programs;
mod pure;
#[cfg(test)]
mod random_tests;
mod shape;
#[cfg(test)]
mod tests;
mod transform;
mod workers;
mod wrapper;

use std::sync::atomic::AtomicU32;

use crate::error::{Error, Result};
use crate::functional::lambda::{Program, Value};
use crate::reference::Numeric;

use array::Arrays;
use backpropagator::{Calls, Jobs};
use code::Code;
use machine::{Machine, Shared};
use pure::Pure;
use shape::Shape;
use workers::Workers;

pub use backpropagator::{Id, JobId, Scalar};
pub use transform::{Figure, Transformed, transform};
pub use wrapper::Steps;

/// The steps of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// Calls are carried out where they stand (§5).
    Naive,
    /// Calls are staged by identifiers, and merged (§6).
    Staged,
    /// Staged values are added to (§7).
    Cayley,
    /// The cotangent of the input is a map from its scalars (§8).
    Scalars,
    /// Two mutable arrays (§9).
    Arrays,
    /// The staging array only (§10.1).
    OneArray,
    /// Backpropagators are lists of partial derivatives (§10.2).
    Contrib,
    /// The lists are written in the forward pass (§10.3).
    Tape,
    /// Jobs, compound identifiers, and threads (§12).
    ForkJoin,
}

impl Variant {
    /// All variants, in the order of the paper.
    pub const ALL: [Variant; 9] = [
        Variant::Naive,
        Variant::Staged,
        Variant::Cayley,
        Variant::Scalars,
        Variant::Arrays,
        Variant::OneArray,
        Variant::Contrib,
        Variant::Tape,
        Variant::ForkJoin,
    ];

    /// Whether cotangents are values that nothing changes.
    pub fn is_pure(self) -> bool {
        matches!(self, Variant::Naive | Variant::Staged | Variant::Cayley | Variant::Scalars)
    }

    /// Whether partial derivatives are taken in the forward pass.
    fn takes_lists(self) -> bool {
        matches!(self, Variant::Contrib | Variant::Tape | Variant::ForkJoin)
    }
}

/// How to differentiate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Which step.
    pub variant: Variant,
    /// One identifier for each leaf call; not with pure variants.
    pub leaf_calls: bool,
    /// Whether calls of the outputs are staged. `Deinterleave` as printed carries them out at once, so a backpropagator may be called once more for
    /// each output that it stands beside (footnote 26), and [`Variant::OneArray`] loses cotangents of outputs that are inputs.
    /// [`Variant::ForkJoin`] always stages them.
    pub stage_outputs: bool,
    /// The threads of [`Variant::ForkJoin`].
    pub threads: usize,
    /// The most steps of the forward pass, and the most calls of the naive variant.
    pub limit: u64,
}

impl Default for Options {
    /// What recursive programs run on: fork-join, with leaf calls, on one thread.
    fn default() -> Self {
        Options { leaf_calls: true, ..Options::of(Variant::ForkJoin) }
    }
}

impl Options {
    /// A variant as the paper has it, but for outputs, which are staged.
    pub fn of(variant: Variant) -> Self {
        Options { variant, leaf_calls: false, stage_outputs: true, threads: 1, limit: u64::MAX }
    }
}

/// What a derivative took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Steps of the forward pass.
    pub forward: u64,
    /// Identifiers that it made: inputs, literals, and operations or leaf calls.
    pub identifiers: u64,
    /// Jobs that it ran.
    pub jobs: u64,
    /// Calls of backpropagators.
    pub calls: u64,
    /// The most calls of one of them.
    pub most: u64,
    /// Steps of the reverse pass: calls, and numbers and nodes of maps that they look at.
    pub work: u64,
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.calls += other.calls;
        self.work += other.work;
    }
}

/// What a reverse pass gives.
struct Resolved<T> {
    gradient: Vec<T>,
    counts: Counts,
    /// How often each backpropagator was called, where that is asked.
    #[cfg_attr(not(test), allow(dead_code))]
    called: Vec<u64>,
}

/// A program in dual form.
#[derive(Debug)]
pub struct Derivative<'p> {
    program: &'p Program,
    code: Code,
    options: Options,
}

/// A forward pass that has run: the value, and all that the reverse pass needs.
#[derive(Debug)]
pub struct Run<'d, T> {
    derivative: &'d Derivative<'d>,
    /// The value of the program.
    pub value: Value<T>,
    args: Vec<Value<T>>,
    jobs: Jobs<T>,
    inputs: usize,
    outputs: Vec<Id>,
    steps: u64,
}

/// `D[program]`.
///
/// # Errors
/// [`Error::Limitation`] for external functions; [`Error::Request`] for options that exclude each other.
pub fn differentiate(program: &Program, options: Options) -> Result<Derivative<'_>> {
    if options.variant.is_pure() && options.leaf_calls {
        return Err(Error::Request("leaf calls need a variant with arrays".to_string()));
    }
    Ok(Derivative { program, code: code::compile(program, options.leaf_calls)?, options })
}

/// The value of a real program and its gradient, of the structure of the parameters.
///
/// # Errors
/// As of [`differentiate`], [`Derivative::run`] and [`Run::pull_back`].
pub fn gradient<T: Numeric + Send + Sync>(
    program: &Program,
    args: &[Value<T>],
    options: Options,
) -> Result<(T, Vec<Value<T>>, Counts)> {
    let derivative = differentiate(program, options)?;
    let run = derivative.run(args)?;
    let value = run.value.as_real().map_err(|_| Error::Request("a gradient is of a real program".to_string()))?;
    let (gradient, counts) = run.pull_back(&[T::integer(1)])?;
    Ok((value.clone(), gradient, counts))
}

impl Derivative<'_> {
    /// Runs the forward pass: `Interleave`, the program in dual form, `Deinterleave`.
    ///
    /// # Errors
    /// [`Error::Request`] for functions in the input or the result; those of evaluating the program.
    pub fn run<T: Numeric + Send + Sync>(&self, args: &[Value<T>]) -> Result<Run<'_, T>> {
        if args.len() != self.program.params.len() {
            return Err(Error::Request(format!("{} values are needed", self.program.params.len())));
        }
        let shared = Shared {
            code: &self.code,
            users: &self.program.users,
            lists: self.options.variant.takes_lists(),
            forks: self.options.variant == Variant::ForkJoin,
            workers: Workers::new(self.options.threads),
            limit: self.options.limit,
            jobs: AtomicU32::new(0),
        };
        let (ran, inputs) = std::thread::scope(|scope| {
            let mut machine = Machine::new(&shared)?;
            let mut inputs = 0u32;
            let mut interleave = |x: &T| {
                let k = inputs;
                inputs = inputs.checked_add(1).ok_or(Error::Overflow)?;
                machine.recorder().input(k, x.clone())
            };
            let args = args.iter().map(|arg| arg.map(&mut interleave)).collect::<Result<Vec<_>>>()?;
            Ok::<_, Error>((machine.program(scope, args)?, inputs as usize))
        })?;
        let (value, jobs, steps) = ran.split();
        let mut outputs = Vec::new();
        let value = value.map(|scalar| {
            outputs.push(scalar.id);
            Ok(scalar.value.clone())
        })?;
        Ok(Run { derivative: self, value, args: args.to_vec(), jobs, inputs, outputs, steps })
    }
}

impl<T: Numeric + Send + Sync> Run<'_, T> {
    /// Runs the reverse pass from the cotangents of the real numbers of the value, from left to right. Gives that of each parameter.
    ///
    /// # Errors
    /// [`Error::Request`] for another number of cotangents; [`Error::Limit`] where the naive variant calls too often.
    pub fn pull_back(&self, cotangents: &[T]) -> Result<(Vec<Value<T>>, Counts)> {
        let resolved = self.resolve(cotangents, None)?;
        let mut scalars = resolved.gradient.into_iter();
        let mut rebuild = |_: &T| scalars.next().ok_or_else(|| Error::bug("dual", "an input without a cotangent"));
        let gradient = self.args.iter().map(|arg| arg.map(&mut rebuild)).collect::<Result<Vec<_>>>()?;
        let (identifiers, jobs) = (self.jobs.identifiers() as u64, self.jobs.jobs.len() as u64);
        Ok((gradient, Counts { forward: self.steps, identifiers, jobs, ..resolved.counts }))
    }

    fn resolve(&self, cotangents: &[T], history: Option<&mut Vec<Vec<(u32, T)>>>) -> Result<Resolved<T>> {
        if cotangents.len() != self.outputs.len() {
            return Err(Error::Request(format!("the value has {} real numbers", self.outputs.len())));
        }
        let seeds: Vec<(Id, T)> = self.outputs.iter().copied().zip(cotangents.iter().cloned()).collect();
        let Options { variant, stage_outputs, threads, limit, .. } = self.derivative.options;
        let calls = Calls { users: &self.derivative.program.users, leaves: &self.derivative.code.leaves };
        let pure = || Pure::new(&self.jobs, calls, self.inputs);
        match variant {
            Variant::Naive => pure().naive(&seeds, limit),
            Variant::Staged => pure().staged(&seeds, stage_outputs, history),
            Variant::Cayley => pure().cayley(&seeds, stage_outputs, &Shape::of(&self.args), history),
            Variant::Scalars => pure().scalars(&seeds, stage_outputs, history),
            Variant::Arrays | Variant::OneArray | Variant::Contrib | Variant::Tape => {
                let collector = variant == Variant::Arrays;
                array::resolve(&self.jobs, calls, self.inputs, &seeds, Arrays { collector, stage_outputs })
            }
            Variant::ForkJoin => fork_join::resolve(&self.jobs, calls, self.inputs, &seeds, threads),
        }
    }
}
