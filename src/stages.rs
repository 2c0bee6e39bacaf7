//! Runs passes: shows what each produced, checks it, and times it.

use std::fmt;
use std::time::{Duration, Instant};

use crate::base::work;
use crate::error::{Error, Result};

/// An IR that can be shown and checked between passes.
pub trait Dialect: fmt::Display {
    /// Checks every invariant; all violations, in words.
    fn check(&self) -> std::result::Result<(), Vec<String>>;
}

impl Dialect for crate::term::Program {
    fn check(&self) -> std::result::Result<(), Vec<String>> {
        self.verify().map_err(|errors| errors.0.iter().map(ToString::to_string).collect())
    }
}

impl Dialect for crate::tssa::Program {
    fn check(&self) -> std::result::Result<(), Vec<String>> {
        self.verify()
    }
}

impl Dialect for crate::flow::Program {
    fn check(&self) -> std::result::Result<(), Vec<String>> {
        self.verify()
    }
}

impl Dialect for crate::loops::Program {
    fn check(&self) -> std::result::Result<(), Vec<String>> {
        self.verify()
    }
}

/// How far the results of a pass are those of before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exactness {
    /// The same bits.
    Exact,
    /// A product and a sum may be rounded once where they were rounded twice; zeros may have another sign.
    Contracts,
    /// Sums and products may be in another order, too.
    Reassociates,
}

/// Called with the name of each pass and what it produced.
pub type Observer<'a> = dyn FnMut(&'static str, &dyn fmt::Display) + 'a;

/// How passes are run.
#[derive(Default)]
pub struct Stages<'a> {
    observer: Option<Box<Observer<'a>>>,
    timings: Vec<(&'static str, Duration)>,
}

impl<'a> Stages<'a> {
    /// Runs passes silently. Their results are verified in debug builds.
    pub fn new() -> Self {
        Stages::default()
    }

    /// Shows every result to an observer.
    pub fn observed(observer: impl FnMut(&'static str, &dyn fmt::Display) + 'a) -> Self {
        Stages { observer: Some(Box::new(observer)), timings: Vec::new() }
    }

    /// How long each pass took, in the order in which they ran.
    pub fn timings(&self) -> &[(&'static str, Duration)] {
        &self.timings
    }

    /// Runs one pass, shows what it produced, and, in debug builds, checks it.
    ///
    /// # Errors
    /// Those of the pass, and [`Error::Bug`] if its result breaks an invariant.
    pub fn run<D: Dialect>(&mut self, pass: &'static str, run: impl FnOnce() -> Result<D>) -> Result<D> {
        let start = Instant::now();
        let output = run()?;
        self.timings.push((pass, start.elapsed()));
        if let Some(observe) = &mut self.observer {
            observe(pass, &output);
        }
        if cfg!(debug_assertions) {
            work::uncounted(|| check(pass, &output))?;
        }
        Ok(output)
    }
}

/// Checks the result of a pass.
///
/// # Errors
/// [`Error::Bug`] that names the pass, all violations and the program.
pub fn check(pass: &'static str, program: &impl Dialect) -> Result<()> {
    program.check().map_err(|violations| Error::Bug {
        pass,
        message: violations.join("; "),
        program: program.to_string(),
    })
}
