//! Errors, by who is to blame: the user's program, the user's data, a limit, a missing feature, or the compiler.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use super::{Span, diagnostics};

pub use super::diagnostics::{render, render_error, render_warnings};

/// The result of everything in this crate that can fail. With two types it is that of the standard library, so that a glob import takes nothing away.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a program or its data could not be processed.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The program is wrong: every problem found, in the order of the text.
    #[error(fmt = display_diagnostics)]
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

/// What it says to a reader, as a `main` that returns it prints it.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// A problem with an input.
    pub fn data(subject: impl Into<String>, message: impl Into<String>) -> Error {
        Error::Data { subject: subject.into(), message: message.into() }
    }

    /// The same, where the places of problems are in this text.
    pub(crate) fn in_text(mut self, text: &str) -> Error {
        if let Error::Program(problems) = &mut self {
            diagnostics::locate(text, problems);
        }
        self
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
    /// What the place is a place of, where that is known.
    pub origin: Option<Origin>,
}

/// What a place is a place of.
#[derive(Clone, PartialEq, Eq)]
pub enum Origin {
    /// A program text.
    Text {
        /// The text.
        text: Arc<str>,
        /// The line of the place, from 1.
        line: usize,
        /// Its column in characters, from 1.
        column: usize,
    },
    /// A line of Rust that made a part of a program.
    Rust(&'static Location<'static>),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Text { line, column, .. } => write!(f, "line {line}, column {column}"),
            Origin::Rust(location) => location.fmt(f),
        }
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the text, which may be long.
        write!(f, "Origin({self})")
    }
}

impl Diagnostic {
    /// A problem at a place.
    pub fn new(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Diagnostic { code, span, message: message.into(), help: None, origin: None }
    }

    /// The same with advice.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The same, which a line of Rust is to blame for.
    pub(crate) fn at(mut self, caller: &'static Location<'static>) -> Self {
        self.origin = Some(Origin::Rust(caller));
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(origin) = &self.origin {
            write!(f, "{origin}: ")?;
        }
        write!(f, "{}", self.message)?;
        if let Some(help) = &self.help {
            write!(f, " ({help})")?;
        }
        Ok(())
    }
}

fn display_diagnostics(problems: &[Diagnostic], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if f.alternate() {
        let of_text = problems.iter().find_map(|problem| match &problem.origin {
            Some(Origin::Text { text, .. }) => Some(text),
            _ => None,
        });
        if let Some(text) = of_text {
            return f.write_str(diagnostics::render("program", text, problems, false).trim_end());
        }
    }
    for (k, problem) in problems.iter().enumerate() {
        let line_end = if k == 0 { "" } else { "\n" };
        write!(f, "{line_end}{problem}")?;
    }
    Ok(())
}
