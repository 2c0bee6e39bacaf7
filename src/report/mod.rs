//! A page that shows a program and a derivative of it to somebody who wants to understand them: one HTML file, complete in itself.
//!
//! The page loads nothing and runs nothing, which it also forbids a browser to do; it is well-formed XML, prints, and follows the reader's choice of
//! light or dark. Texts of users show as themselves. The same function and options give the same bytes.
//!
//! | file | section |
//! |---|---|
//! | `formulas` | the program, the derivative: typeset in MathML, and as text |
//! | `steps` | how an adjoint was derived |
//! | `sparsity`, `patterns`, `samples`, `picture` | sparsity patterns of inputs and results |
//! | `flow`, `layers` | the data flow of Tensor-SSA, drawn |
//! | `stages` | the forms of the program, side by side; its loops with the decisions that led to them |
//! | `costs` | operations and memory as formulas |
//! | `page` | elements and texts |
//!
//! Sections have limits, which are counts; what is cut says so.

mod costs;
mod flow;
mod formulas;
mod layers;
mod page;
mod patterns;
mod picture;
mod samples;
mod sparsity;
mod stages;
mod steps;

use self::page::{Limits, Page};
use crate::driver::{Derived, Function, Mode, Request};
use crate::error::{Diagnostic, Result};
use crate::stages::Stages;
use crate::tensor::Inputs;

/// How much of a program or of a stage is shown.
const TEXT: Limits = Limits { lines: 200, characters: 16_000 };

/// What a page shows beside a function.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What the program is called; its file, say.
    pub title: String,
    /// The program as it was written, comments and all, if it was.
    pub text: Option<String>,
    /// What is right in the text and easily misread, beside what the [function](Function::warnings) itself says.
    pub warnings: Vec<Diagnostic>,
    /// The derivative to show; its derivation is found where there is one.
    pub derivative: Option<Request>,
    /// Inputs whose sparsity patterns are shown, and those that follow for results; small ones are made up where none are given.
    pub inputs: Option<Inputs>,
}

/// The page of a function.
///
/// ```
/// use iverson::{Mode, Request};
/// use iverson::{Function, report};
///
/// let function = Function::parse("param x : [n] real\nsum i < n. x[i]^2")?;
/// let derivative = Some(Request::new(Mode::Gradient, &["x"]));
/// let options = report::Options { title: "squares <n>".to_owned(), derivative, ..report::Options::default() };
/// let page = report::html(&function, &options)?;
/// assert!(page.contains("<h1>squares &lt;n&gt;</h1>") && page.contains("gen i &lt; n. 2 * x[i]"));
/// # Ok::<(), iverson::Error>(())
/// ```
///
/// # Errors
/// Those of [`Function::derive`], and [`Error::Data`](crate::Error::Data) for inputs that are not those of the program.
pub fn html(function: &Function, options: &Options) -> Result<String> {
    function.straight("a page")?;
    let mut passes: Vec<(&'static str, String)> = Vec::new();
    let derived = match &options.derivative {
        Some(request) => {
            let derivation = matches!(request.mode, Mode::Adjoint | Mode::Gradient);
            let request = Request { derivation, ..request.clone() };
            let mut stages = Stages::observed(|pass, program| passes.push((pass, program.to_string())));
            Some(function.derive_in(&request, &mut stages)?)
        }
        None => None,
    };
    let shown = Shown { function, options, derived: derived.as_ref() };
    let mut page = Page::default();
    head(&mut page, &options.title);
    page.open("body", &[]);
    top(&mut page, &shown);
    page.open("main", &[]);
    formulas::program(&mut page, &shown)?;
    if let Some(derived) = shown.derived {
        formulas::derivative(&mut page, &shown, derived)?;
        steps::derivation(&mut page, &shown, derived);
    }
    sparsity::section(&mut page, &shown)?;
    data_flow(&mut page, &shown);
    let nests = shown.nests()?;
    stages::section(&mut page, &shown, passes, &nests)?;
    stages::loops(&mut page, &shown, &nests);
    costs::section(&mut page, &shown, &nests)?;
    Ok(page.finish())
}

/// What a page is of.
struct Shown<'a> {
    function: &'a Function,
    options: &'a Options,
    derived: Option<&'a Derived>,
}

/// Loop nests, and those that lowering made before they were scheduled.
struct Nests {
    nests: crate::driver::Nests,
    lowered: String,
}

impl Shown<'_> {
    /// The derivative, or else the program.
    fn result(&self) -> &Function {
        self.derived.map_or(self.function, |derived| &derived.function)
    }

    /// What the derivative is called.
    fn derivative_name(&self) -> String {
        let Some(request) = &self.options.derivative else { return String::new() };
        let what = match request.mode {
            Mode::Forward => "forward derivative",
            Mode::Adjoint => "adjoint derivative",
            Mode::Gradient => "gradient",
            Mode::Jacobian => "Jacobian",
            Mode::Hessian => "Hessian",
            Mode::HessianProduct => "Hessian times a vector",
            Mode::GaussNewton => "Gauss-Newton matrix",
            Mode::GaussNewtonProduct => "Gauss-Newton matrix times a vector",
            Mode::Transpose => "transposed program",
        };
        let by: Vec<String> = request.wrt.iter().map(|name| format!("`{name}`")).collect();
        format!("{what} by {}", by.join(", "))
    }

    /// The derivative or the program, in words.
    fn result_name(&self) -> &'static str {
        if self.derived.is_some() { "the derivative" } else { "the program" }
    }

    /// The loops of the derivative, or else of the program.
    fn nests(&self) -> Result<Nests> {
        let blocks = self.derived.map_or(&[][..], |derived| &derived.blocks);
        let mut lowered = String::new();
        let mut stages = Stages::observed(|pass, program| {
            if pass == "lower" {
                lowered = program.to_string();
            }
        });
        let nests = self.result().nests(blocks, &[], &mut stages)?;
        drop(stages);
        Ok(Nests { nests, lowered })
    }
}

fn head(page: &mut Page, title: &str) {
    page.markup("<!DOCTYPE html>\n");
    page.open("html", &[("lang", "en")]);
    page.open("head", &[]);
    page.empty("meta", &[("charset", "utf-8")]);
    page.empty("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    page.empty("meta", &[("http-equiv", "Content-Security-Policy"), ("content", policy)]);
    page.empty("meta", &[("name", "color-scheme"), ("content", "light dark")]);
    page.element("title", &[], title);
    page.open("style", &[]);
    page.markup(include_str!("style.css"));
    page.close();
    page.close();
}

/// The title, and where the sections are.
fn top(page: &mut Page, shown: &Shown<'_>) {
    page.open("header", &[]);
    page.element("h1", &[], &shown.options.title);
    match shown.derived {
        Some(_) => page.paragraph(&format!("A tensor program, and its {}.", shown.derivative_name())),
        None => page.paragraph("A tensor program."),
    }
    page.open("nav", &[("aria-label", "Sections")]);
    page.open("ol", &[]);
    let derivation = shown.derived.is_some_and(|derived| derived.derivation.is_some());
    let sections = [
        ("program", "Program", true),
        ("derivative", "Derivative", shown.derived.is_some()),
        ("derivation", "Derivation", derivation),
        ("sparsity", "Sparsity", true),
        ("flow", "Data flow", true),
        ("stages", "Stages", true),
        ("loops", "Loops", true),
        ("cost", "Cost", true),
    ];
    for (id, name, _) in sections.into_iter().filter(|(_, _, there)| *there) {
        page.open("li", &[]);
        page.element("a", &[("href", &format!("#{id}"))], name);
        page.close();
    }
    for _ in 0..3 {
        page.close();
    }
}

/// The heading of a section.
fn heading(page: &mut Page, id: &str, text: &str) {
    page.element("h2", &[("id", id)], text);
}

fn data_flow(page: &mut Page, shown: &Shown<'_>) {
    heading(page, "flow", "Data flow");
    page.paragraph(
        "Statements of Tensor-SSA, each of which makes a whole tensor: what it reads stands above it. `gen` makes a tensor, `sum` adds up, \
         and a bracket `[p]` says where something is not zero. Inputs are green, numbers dashed, results have a thick border; a box says all of its \
         statement when pointed at.",
    );
    page.open("div", &[("class", "flows")]);
    let derivative = shown.derived.map(|derived| ("The derivative", derived.function.tensor_ssa()));
    for (what, program) in std::iter::once(("The program", shown.function.tensor_ssa())).chain(derivative) {
        page.open("div", &[]);
        page.element("h3", &[], what);
        flow::draw(page, program, what);
        page.close();
    }
    page.close();
}
