//! Programs as text in the surface language; reading the text back gives the same program up to ids.
//!
//! What elaboration spells out is folded again:
//!
//! | term | text |
//! |---|---|
//! | `a + -1 * b`, `-1 * a` | `a - b`, `-a`; `-1 * 3` stays, since `-3` is a literal |
//! | `[A?(i, j)] * A.value(i, j)` of a sparse parameter | `A[i, j]` |
//! | `let c = a < b in [c != 0] * e` with no other use of `c` | `[a < b] * e`; several such `let`s, `[a < b or d < e] * f` |
//! | `let c = sum k < n. [p] * 1 in [c = 0] * e` alike | `[not (exists k < n. p)] * e` |
//! | `[p] * 1` | `[p]` |
//! | `fold i < n, p = 1. p * e` | `prod i < n. e` |
//! | `let a = fst s in let b = snd s in e` below a scan of the state `s` | the pattern `(a, b)` for the state |
//! | the last state of a scan, `(scan t < n, s = e0. e)[n]` | `fold t < n, s = e0. e` |
//! | `gen i < n. gen j < m. e`, `sum ..` alike | `gen i < n, j < m. e` |
//! | the sum of `v[i, k]` over the place `k` of its largest element | `max k < n. v[i, k]` |
//!
//! Everything else is written as it stands: a comparison of reals elsewhere is `less(a, b)`, in formulas `[a < b]`, its use in a bracket `c[i] != 0`, the place of a
//! largest element `(argmax k < n. v[k])`, and a partial derivative kept as a black box `exp'0(x)`.
//!
//! Parentheses follow the levels below, which are those of the parser; binders and `let`s stand bare only where nothing can follow
//! them. The printer turns terms into tasks on an explicit stack, which turn into a [`Doc`]; both are linear.
//!
//! | file | job |
//! |---|---|
//! | `fold` | what is written shorter than it stands |
//! | `header` | declarations |
//! | `terms` | terms |
//! | `predicates` | index expressions and predicates |
//! | `matrix` | programs in matrix notation, which does not read back |
//!
//! For MathML the same texts go through [`typeset`], which spells them in elements; what stands above or below, in roots or behind
//! fractions has elements of its own.

mod fold;
mod header;
mod matrix;
mod predicates;
mod terms;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use self::fold::{fold_comparisons, fold_largest, negated};
use super::data::{Program, Term, TermId};
use super::names::Names;
use crate::base::layout::Doc;
use crate::base::typeset::{self, Speller};
use crate::base::{Id, IndexId, RelationId, SizeId, VarId};
use crate::index::Affine;
use crate::scalar::{Function, Number, Op, Primitive};
use crate::ty::{RelationKind, dividend};

/// How a program is spelt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// The canonical text, in ASCII but for the user's own names.
    #[default]
    Ascii,
    /// The same with `⊞ Σ ∧ ∨ ≤ ≠ ∃ ·`; parses as well.
    Unicode,
    /// Mathematics for LaTeX, to be put into a display. Declarations are left out.
    Latex,
    /// Mathematics for web pages: a `math` element of MathML Core, with a row for each line. Declarations are left out.
    MathMl,
}

impl Program {
    /// The program as text, ending in a line end.
    pub fn print(&self, style: Style) -> String {
        let mut printer = Printer::new(self, style);
        if printer.typeset() {
            printer.floor_quotients();
        }
        if !printer.typeset() {
            printer.header();
        }
        printer.body();
        match style {
            Style::MathMl => typeset::table(&printer.doc.render(Doc::WIDTH)),
            Style::Ascii | Style::Unicode | Style::Latex => printer.doc.render(Doc::WIDTH),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.print(Style::Ascii))
    }
}

/// How tightly a text holds together, loose to tight.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    /// `let`, binders.
    Open,
    Or,
    And,
    Not,
    Comparison,
    Sum,
    /// `[p] * e`, which takes in products but not sums.
    Bracket,
    Product,
    Unary,
    Power,
    /// `fst e`.
    Projection,
    Postfix,
}

enum Task {
    Term(TermId, Level),
    /// A term behind which its context ends, so that a binder needs no parentheses.
    Last(TermId, Level),
    Text(Cow<'static, str>),
    /// The start of an element of MathML, in which no line ends.
    Begin(&'static str),
    End(&'static str),
    Open(u32),
    Align,
    Close,
    Line,
    Fill,
    Soft,
    Hard,
    /// The end of the innermost scope.
    Leave,
}

impl Task {
    fn text(text: impl Into<Cow<'static, str>>) -> Task {
        Task::Text(text.into())
    }

    /// Whether it says where lines end, and nothing else.
    fn is_layout(&self) -> bool {
        matches!(self, Task::Open(_) | Task::Align | Task::Close | Task::Line | Task::Fill | Task::Soft | Task::Hard)
    }
}

pub(super) struct Printer<'a> {
    program: &'a Program,
    style: Style,
    doc: Doc,
    names: Names,
    sizes: Vec<String>,
    relations: Vec<String>,
    functions: Vec<String>,
    vars: Vec<String>,
    indices: Vec<String>,
    /// The comparisons that are written in the bracket that uses them.
    folded: BTreeMap<VarId, TermId>,
    /// The sizes that are written as quotients.
    floors: BTreeMap<SizeId, String>,
    /// The states, and parts of states, that have the names of the variables which their scan is the value of.
    states: BTreeSet<VarId>,
    /// How often each variable is read.
    reads: Vec<u32>,
    /// The terms of these comparisons.
    spelt: BTreeSet<TermId>,
    /// The terms written as largest elements, with their sums.
    largest: BTreeMap<TermId, TermId>,
    folded_sums: BTreeSet<TermId>,
    /// The next term of the chain of `let`s at the top, which LaTeX aligns.
    top: TermId,
    speller: Speller,
    /// How many elements of MathML are open.
    elements: u32,
}

/// How long a quotient is that is written out.
const MAX_QUOTIENT_TEXT: usize = 80;

impl<'a> Printer<'a> {
    fn new(program: &'a Program, style: Style) -> Self {
        let signature = &program.signature;
        let folded = fold_comparisons(program);
        let largest = fold_largest(program);
        let mut names = Names::new();
        let mut taken = |wish: &str, default: &str| names.take(wish, default);
        // What the user of a program sees keeps its name before all else.
        let vars = signature.params.values().map(|p| taken(&p.name, "x")).collect();
        let relations = signature
            .relations
            .values()
            .map(|r| match r.kind {
                RelationKind::Free => taken(&r.name, "R"),
                RelationKind::Map => taken(&r.name, "f"),
                RelationKind::Pattern(_) | RelationKind::Projection(..) => String::new(),
            })
            .collect();
        let functions = signature.functions.values().map(|f| taken(f.name(), "f")).collect();
        let sizes = signature.sizes.values().map(|n| taken(n, "n")).collect();
        Printer {
            program,
            style,
            doc: Doc::new(),
            names,
            sizes,
            relations,
            functions,
            vars,
            indices: Vec::new(),
            floors: BTreeMap::new(),
            states: BTreeSet::new(),
            reads: reads(program),
            spelt: folded.values().copied().collect(),
            folded,
            folded_sums: largest.values().copied().collect(),
            largest,
            top: program.root,
            speller: Speller::default(),
            elements: 0,
        }
    }

    fn latex(&self) -> bool {
        self.style == Style::Latex
    }

    fn mathml(&self) -> bool {
        self.style == Style::MathMl
    }

    /// Whether fractions are stacked and indices set low.
    fn typeset(&self) -> bool {
        self.latex() || self.mathml()
    }

    /// The spelling of an operator in the style.
    fn symbol(&self, ascii: &'static str) -> &'static str {
        let (unicode, latex) = match ascii {
            "gen" => ("⊞", "\\boxplus"),
            "sum" => ("Σ", "\\sum"),
            "exists" => ("∃", "\\exists"),
            "and" => ("∧", "\\land"),
            "or" => ("∨", "\\lor"),
            "not" => ("not", "\\lnot"),
            "<=" => ("≤", "\\le"),
            ">=" => (">=", "\\ge"),
            "!=" => ("≠", "\\ne"),
            "not <" => ("not <", "\\not<"),
            "not >" => ("not >", "\\not>"),
            "not <=" => ("not <=", "\\not\\le"),
            "not >=" => ("not >=", "\\not\\ge"),
            "*" => ("·", "\\,"),
            "max" => ("max", "\\max"),
            "min" => ("min", "\\min"),
            "prod" => ("prod", "\\prod"),
            "scan" => ("scan", "\\operatorname{scan}"),
            "fold" => ("fold", "\\operatorname{fold}"),
            "argmax" => ("argmax", "\\operatorname{argmax}"),
            "argmin" => ("argmin", "\\operatorname{argmin}"),
            same => (same, same),
        };
        match (self.style, ascii) {
            (Style::Ascii, _) => ascii,
            (Style::MathMl, "*") => "\u{2062}",
            (Style::MathMl, ">=") => "≥",
            (Style::MathMl, "not <") => "≮",
            (Style::MathMl, "not >") => "≯",
            (Style::MathMl, "not <=") => "≰",
            (Style::MathMl, "not >=") => "≱",
            (Style::Unicode | Style::MathMl, _) => unicode,
            (Style::Latex, _) => latex,
        }
    }

    fn body(&mut self) {
        let root = self.program.root;
        if self.program.terms.get(root).is_none() {
            return;
        }
        let mut tasks = Vec::new();
        if self.latex() {
            tasks.extend([Task::text("\\begin{aligned}"), Task::Hard, Task::text("& ")]);
            tasks.extend([Task::Last(root, Level::Open), Task::Hard, Task::text("\\end{aligned}"), Task::Hard]);
        } else if !self.mathml() && self.starts_with_minus(root) {
            // Behind a declaration a `-` would be read as a difference.
            tasks.extend([Task::text("("), Task::Last(root, Level::Open), Task::text(")"), Task::Hard]);
        } else {
            tasks.extend([Task::Last(root, Level::Open), Task::Hard]);
        }
        self.run(tasks);
    }

    fn starts_with_minus(&self, mut id: TermId) -> bool {
        let terms = &self.program.terms;
        loop {
            let term = &terms[id];
            id = match term {
                Term::Number(Number::Literal(x)) => return x.is_sign_negative() && !x.is_nan(),
                _ if negated(self.program, term).is_some() => return true,
                Term::Add(a, _) | Term::Mul(a, _) => *a,
                Term::Apply(Function::Value(Primitive::Op(Op::Div)), args) => match args.first() {
                    Some(a) => *a,
                    None => return false,
                },
                _ => return false,
            }
        }
    }

    fn run(&mut self, tasks: Vec<Task>) {
        let mut stack = tasks;
        stack.reverse();
        let mut made = Vec::new();
        while let Some(task) = stack.pop() {
            match task {
                Task::Text(text) => self.text(&text),
                Task::Begin(element) => self.begin(element),
                Task::End(element) => self.end(element),
                _ if self.elements > 0 && task.is_layout() => {}
                Task::Open(indent) => self.doc.open(indent),
                Task::Align => self.doc.align(),
                Task::Close => self.doc.close(),
                Task::Line => self.doc.line(),
                Task::Fill => self.doc.fill(),
                Task::Soft => self.doc.soft(),
                Task::Hard => {
                    self.doc.hard();
                    self.speller.behind_operand = false;
                }
                Task::Leave => self.names.leave(),
                Task::Term(id, level) => self.term(id, level, false, &mut made),
                Task::Last(id, level) => self.term(id, level, true, &mut made),
            }
            stack.extend(made.drain(..).rev());
        }
    }

    fn text(&mut self, text: &str) {
        if !self.mathml() {
            return self.doc.text(text);
        }
        let width = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        let elements = self.speller.spell(text);
        self.doc.markup(&elements, width);
    }

    fn begin(&mut self, element: &str) {
        self.elements += 1;
        self.doc.markup(&format!("<{element}>"), 0);
        self.speller.behind_operand = false;
    }

    fn end(&mut self, element: &str) {
        self.elements = self.elements.saturating_sub(1);
        self.doc.markup(&format!("</{element}>"), 0);
        self.speller.behind_operand = true;
    }

    fn parentheses(&self) -> (&'static str, &'static str) {
        if self.latex() { ("\\left(", "\\right)") } else { ("(", ")") }
    }

    fn list<'b>(&self, indices: impl IntoIterator<Item = &'b Affine>) -> String {
        indices.into_iter().map(|a| self.affine(a)).collect::<Vec<_>>().join(", ")
    }

    fn take_var(&mut self, x: VarId) -> String {
        let wish = self.program.variables.get(x).map_or("", |x| x.name.as_str());
        let name = self.names.take(wish, "t");
        set(&mut self.vars, x.index(), name);
        self.var(x)
    }

    fn take_index(&mut self, i: IndexId) {
        let wish = self.program.indices.get(i).map_or("", String::as_str);
        let name = self.names.take(wish, "i");
        set(&mut self.indices, i.index(), name);
    }

    fn var(&self, x: VarId) -> String {
        let name = name_of(&self.vars, x);
        match (self.style, greek(&name)) {
            (Style::Latex, Some((letter, rest))) => format!("\\boldsymbol{{\\{letter}{}}}", rest.replace('_', "\\_")),
            (Style::Latex, None) => format!("\\mathbf{{{}}}", name.replace('_', "\\_")),
            _ => name,
        }
    }

    fn index(&self, i: IndexId) -> String {
        self.italic(name_of(&self.indices, i))
    }

    fn size(&self, n: SizeId) -> String {
        self.floors.get(&n).cloned().unwrap_or_else(|| self.italic(name_of(&self.sizes, n)))
    }

    /// How quotients are written where there are no declarations that define them.
    fn floor_quotients(&mut self) {
        for quotient in self.program.signature.quotients() {
            let (of, by) = (dividend(&quotient.of, &self.affine(&quotient.of)), quotient.by);
            let text = match self.style {
                Style::Latex => format!("\\lfloor {of} / {by} \\rfloor"),
                _ => format!("⌊{of} / {by}⌋"),
            };
            // A long one keeps its name.
            if text.len() <= MAX_QUOTIENT_TEXT {
                self.floors.insert(quotient.size, text);
            }
        }
    }

    fn italic(&self, name: String) -> String {
        if let (Style::Latex, Some((letter, ""))) = (self.style, greek(&name)) {
            return format!("\\{letter}");
        }
        match self.latex() && name.chars().count() > 1 {
            true => format!("\\mathit{{{}}}", name.replace('_', "\\_")),
            false => name,
        }
    }

    fn relation(&self, r: RelationId) -> String {
        let signature = &self.program.signature;
        let name = match signature.relations.get(r).map(|r| r.kind) {
            Some(RelationKind::Pattern(p)) => format!("{}?", name_of(&self.vars, VarId(p.0))),
            _ => name_of(&self.relations, r),
        };
        if self.latex() { format!("\\operatorname{{{}}}", name.replace('_', "\\_")) } else { name }
    }

    /// A printer for single terms, with ids in the names.
    pub(super) fn plain(program: &'a Program) -> Self {
        let signature = &program.signature;
        Printer {
            program,
            style: Style::Ascii,
            doc: Doc::new(),
            names: Names::new(),
            sizes: signature.sizes.values().cloned().collect(),
            relations: signature.relations.values().map(|r| r.name.clone()).collect(),
            functions: signature.functions.values().map(|f| f.name().to_owned()).collect(),
            vars: program.variables.iter().map(|(id, x)| format!("{}{id}", x.name)).collect(),
            indices: program.indices.iter().map(|(id, name)| format!("{name}.{id}")).collect(),
            floors: BTreeMap::new(),
            states: BTreeSet::new(),
            reads: reads(program),
            folded: BTreeMap::new(),
            spelt: BTreeSet::new(),
            largest: BTreeMap::new(),
            folded_sums: BTreeSet::new(),
            top: program.root,
            speller: Speller::default(),
            elements: 0,
        }
    }

    /// A short text for one term without its operands.
    pub(super) fn label(&mut self, term: &Term) -> String {
        match term {
            Term::Number(Number::Literal(x)) => self.literal(*x),
            Term::Number(Number::Index(a)) => format!("real({})", self.affine(a)),
            Term::Var(x) => self.var(*x),
            Term::Add(..) => "+".to_owned(),
            Term::Mul(..) => "*".to_owned(),
            Term::Apply(Function::Value(Primitive::Op(Op::Powi(k))), _) => format!("^{k}"),
            Term::Apply(f, _) => self.function(*f),
            Term::Call { function, .. } => self.function(Function::Value(Primitive::User(*function))),
            Term::Pair(..) => "(,)".to_owned(),
            Term::Fst(_) => "fst".to_owned(),
            Term::Snd(_) => "snd".to_owned(),
            Term::Gen { index, extent, body: _ } => format!("gen {} < {}", self.index(*index), self.affine(extent)),
            Term::Sum { index, extent, body: _ } => format!("sum {} < {}", self.index(*index), self.affine(extent)),
            Term::Access { array: _, index } => format!("[{}]", self.affine(index)),
            Term::Iverson { guard, body: _ } => {
                let mut tasks = Vec::new();
                self.pred(guard, Level::Open, &mut tasks);
                self.run(tasks);
                format!("[{}] *", std::mem::take(&mut self.doc).render(u32::MAX))
            }
            Term::Let { var, .. } => format!("let {}", self.var(*var)),
            Term::Scan { state, implicit: Some(most), .. } => {
                format!("fixpoint {}, at most {}", self.var(*state), self.affine(most))
            }
            Term::Scan { index, steps, down, state, .. } => {
                let down = if *down { " down" } else { "" };
                format!("scan {} < {}{down}, {}", self.index(*index), self.affine(steps), self.var(*state))
            }
        }
    }
}

/// The command of a Greek letter; nothing for those that are written as Latin ones.
fn greek_letter(c: char) -> Option<&'static str> {
    const COMMANDS: &[(char, &str)] = &[
        ('α', "alpha"),
        ('β', "beta"),
        ('γ', "gamma"),
        ('δ', "delta"),
        ('ε', "varepsilon"),
        ('ϵ', "epsilon"),
        ('ζ', "zeta"),
        ('η', "eta"),
        ('θ', "theta"),
        ('ϑ', "vartheta"),
        ('ι', "iota"),
        ('κ', "kappa"),
        ('λ', "lambda"),
        ('μ', "mu"),
        ('µ', "mu"),
        ('ν', "nu"),
        ('ξ', "xi"),
        ('π', "pi"),
        ('ρ', "rho"),
        ('σ', "sigma"),
        ('τ', "tau"),
        ('υ', "upsilon"),
        ('φ', "varphi"),
        ('ϕ', "phi"),
        ('χ', "chi"),
        ('ψ', "psi"),
        ('ω', "omega"),
        ('Γ', "Gamma"),
        ('Δ', "Delta"),
        ('Θ', "Theta"),
        ('Λ', "Lambda"),
        ('Ξ', "Xi"),
        ('Π', "Pi"),
        ('Υ', "Upsilon"),
        ('Φ', "Phi"),
        ('Ψ', "Psi"),
        ('Ω', "Omega"),
    ];
    COMMANDS.iter().find(|(letter, _)| *letter == c).map(|(_, command)| *command)
}

/// The Greek letter that a name is or spells, and what follows it, digits or behind a `_`.
fn greek(name: &str) -> Option<(&str, &str)> {
    const LETTERS: &[&str] = &[
        "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu",
        "xi", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega", "Gamma", "Delta", "Theta",
        "Lambda", "Xi", "Pi", "Sigma", "Upsilon", "Phi", "Psi", "Omega",
    ];
    let (letter, rest) = name.split_at(name.find(|c: char| !c.is_alphabetic()).unwrap_or(name.len()));
    let mut chars = letter.chars();
    if let (Some(command), None) = (chars.next().and_then(greek_letter), chars.next()) {
        return Some((command, rest));
    }
    LETTERS.contains(&letter).then_some((letter, rest))
}

/// How often each variable is read as a value.
fn reads(program: &Program) -> Vec<u32> {
    let mut reads = vec![0; program.variables.len()];
    for term in program.terms.values() {
        if let Term::Var(x) = term
            && let Some(reads) = reads.get_mut(x.index())
        {
            *reads = u32::saturating_add(*reads, 1);
        }
    }
    reads
}

fn name_of<I: Id + fmt::Display>(names: &[String], id: I) -> String {
    match names.get(id.index()) {
        Some(name) if !name.is_empty() => name.clone(),
        // Only in programs that are not well formed.
        _ => id.to_string(),
    }
}

fn set(names: &mut Vec<String>, at: usize, name: String) {
    if at >= names.len() {
        names.resize(at + 1, String::new());
    }
    names[at] = name;
}
