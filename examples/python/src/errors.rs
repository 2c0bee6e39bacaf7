//! Errors as Python raises them: an exception by who is to blame, with the problems, their places and the drawing.

use iverson::error::{render_error, render_warnings};
use iverson::{Diagnostic, Error};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// A problem in a text: its code, its message, its advice, its line and column from 1, and how many characters it takes.
pub type Problem = (String, String, Option<String>, usize, usize, usize);

/// A program text and what it is called.
pub struct Text {
    pub file: String,
    pub text: String,
}

impl Text {
    /// What is wrong with the text.
    pub fn error(&self, py: Python<'_>, error: &Error) -> PyErr {
        raised(py, error, render_error(&self.file, &self.text, error, false), &self.text)
    }

    /// The drawings of warnings; empty where there are none.
    pub fn warnings(&self, warnings: &[Diagnostic]) -> String {
        render_warnings(&self.file, &self.text, warnings, false)
    }
}

/// An error without a text.
pub fn error(py: Python<'_>, error: &Error) -> PyErr {
    raised(py, error, error.to_string(), "")
}

/// Problems with their places in a text.
pub fn problems(text: &str, diagnostics: &[Diagnostic]) -> Vec<Problem> {
    let cut = |at: u32| (0..=text.len().min(at as usize)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let problem = |diagnostic: &Diagnostic| {
        let Diagnostic { code, span, message, help, .. } = diagnostic;
        let (start, end) = (cut(span.start), cut(span.end));
        let before = &text[..start];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let length = text.get(start..end).unwrap_or_default().chars().count();
        ((*code).to_owned(), message.clone(), help.clone(), line, column, length)
    };
    diagnostics.iter().map(problem).collect()
}

fn raised(py: Python<'_>, error: &Error, drawing: String, text: &str) -> PyErr {
    let class = match error {
        Error::Program(_) => "ProgramError",
        Error::Data { .. } => "DataError",
        Error::Request(_) => "RequestError",
        Error::Limitation { .. } => "LimitationError",
        Error::Limit { .. } | Error::Memory { .. } | Error::Overflow => "LimitError",
        _ => "Error",
    };
    let problems = match error {
        Error::Program(diagnostics) => problems(text, diagnostics),
        _ => Vec::new(),
    };
    static CLASSES: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let classes = CLASSES.get_or_try_init(py, || py.import("iverson._errors").map(Bound::unbind));
    let made = classes.and_then(|classes| classes.bind(py).getattr(class)?.call1((drawing, problems)));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// An error of inputs that Python names.
pub fn data(py: Python<'_>, subject: &str, message: impl Into<String>) -> PyErr {
    error(py, &Error::data(subject, message))
}
