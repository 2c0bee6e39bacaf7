//! Errors, by who is to blame: the user's program, the user's data, a limit, a missing feature, or the compiler.

use std::fmt;

use super::Span;

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a program or its data could not be processed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The program is wrong: every problem found, in the order of the text.
    #[error("{}", display_diagnostics(.0))]
    Program(Vec<Diagnostic>),
    /// An input is wrong: a file, a shape, a value.
    #[error("{subject}: {message}")]
    Data {
        /// The file, parameter or field at fault, with a line number where there is one.
        subject: String,
        /// What was expected and what was found, and what to do.
        message: String,
    },
    /// The request does not fit the program: an unknown name in `--wrt`, a gradient of a tensor.
    #[error("{0}")]
    Request(String),
    /// The program or its data is larger than a limit; all limits are counts.
    #[error("{what}: {found} is over the limit of {limit}")]
    Limit {
        /// What was counted.
        what: &'static str,
        /// The limit in force.
        limit: u64,
        /// What was found, at least.
        found: u64,
    },
    /// The machine has no memory for what a program or its data take. No limit of ours: another machine may have room.
    #[error("there is no memory for {wanted} {what}")]
    Memory {
        /// What was to be kept.
        what: &'static str,
        /// How many of it.
        wanted: u64,
    },
    /// An index expression leaves the range of 64-bit integers.
    #[error("an index expression leaves the range of 64-bit integers")]
    Overflow,
    /// The program is right and this version cannot do what it asks.
    #[error("not supported yet: {feature}")]
    Limitation {
        /// The missing feature.
        feature: String,
        /// Where the program needs it.
        span: Option<Span>,
    },
    /// A pass broke its promise. Always our fault.
    #[error("compiler bug in `{pass}`: {message}\n{program}")]
    Bug {
        /// The guilty pass.
        pass: &'static str,
        /// What the verifier found.
        message: String,
        /// The program it found it in.
        program: String,
    },
}

impl Error {
    /// A problem with an input.
    pub fn data(subject: impl Into<String>, message: impl Into<String>) -> Error {
        Error::Data { subject: subject.into(), message: message.into() }
    }

    /// A broken promise of a pass.
    pub fn bug(pass: &'static str, message: impl Into<String>) -> Error {
        Error::Bug { pass, message: message.into(), program: String::new() }
    }
}

/// One problem in a program text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Stable short name, such as `out-of-bounds`; tests and tools match on it.
    pub code: &'static str,
    /// The place at fault.
    pub span: Span,
    /// One sentence: what is wrong, what was expected and what was found.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A problem at a place.
    pub fn new(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Diagnostic { code, span, message: message.into(), help: None }
    }

    /// The same with advice.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        if let Some(help) = &self.help {
            write!(f, " ({help})")?;
        }
        Ok(())
    }
}

fn display_diagnostics(diagnostics: &[Diagnostic]) -> String {
    diagnostics.iter().map(Diagnostic::to_string).collect::<Vec<_>>().join("\n")
}
