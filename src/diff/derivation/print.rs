//! Derivations as text.
//!
//! A step is printed as the part that it takes and the part that it makes, an equation, and under it the whole term:
//!
//! ```text
//!  6. (6.29) transpose a sum
//!        <dy | D(sum i < n. t8[i])>
//!      = let t11 = gen i < n. dy in
//!        <t11 | D(t8)>
//!      : let y_tan, dt7, dt8 in <t11 | D(t8)>
//! ```
//!
//! The bindings `let X = ..` of earlier steps stay, so the whole term repeats the names of the tangents only. Right-hand sides are
//! written as those of Tensor-SSA; [`Typeset`] spells their tokens for the other styles.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{Collected, Derivation, FormPart, InnerProduct, Right, Step, Sum, is_whole};
use crate::base::typeset::{Speller, table, token};
use crate::base::xml::escape;
use crate::base::{Id, IndexId, ParamId, VarId};
use crate::index::Size;
use crate::term::Style;
use crate::tssa::Rhs;
use crate::tssa::print::{StmtNames, guard_text, rhs_text, type_text};
use crate::ty::Side;

impl fmt::Display for Derivation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.print(Style::Ascii))
    }
}

impl Derivation {
    /// What the derivation starts from, and each step under its head, in a style: at most so many steps, until they have so many bytes.
    pub(crate) fn parts(&self, style: Style, most: usize, bytes: usize) -> (String, Vec<String>) {
        let text = Text::new(self, style);
        let given: Vec<(Mark, String)> = text.given().into_iter().map(|line| (Mark::Given, line)).collect();
        let (mut steps, mut length) = (Vec::new(), 0);
        for step in self.steps.iter().take(most) {
            if length > bytes {
                break;
            }
            steps.push(printed(style, text.step(step)));
            length += steps.last().map_or(0, String::len);
        }
        (printed(style, given), steps)
    }

    /// The derivation as text, ending in a line end.
    pub fn print(&self, style: Style) -> String {
        let text = Text::new(self, style);
        let mut lines: Vec<(Mark, String)> = text.given().into_iter().map(|line| (Mark::Given, line)).collect();
        for (at, step) in self.steps.iter().enumerate() {
            lines.push((Mark::Head, text.typeset.words(&format!("{:3}. ({}) {}", at + 1, step.rule, step.title))));
            lines.extend(text.step(step));
        }
        printed(style, lines)
    }
}

/// Lines in a style.
fn printed(style: Style, lines: Vec<(Mark, String)>) -> String {
    match style {
        Style::MathMl => mathml(&lines),
        Style::Ascii | Style::Unicode => {
            lines.into_iter().map(|(mark, line)| format!("{}{line}\n", mark.margin())).collect()
        }
        Style::Latex => {
            let lines: Vec<String> =
                lines.into_iter().map(|(mark, line)| format!("  & {}{line}", mark.latex())).collect();
            format!("\\begin{{aligned}}\n{}\n\\end{{aligned}}\n", lines.join(" \\\\\n"))
        }
    }
}

/// What stands before a line.
#[derive(Clone, Copy)]
enum Mark {
    Given,
    Head,
    Part,
    Equals,
    Whole,
}

impl Mark {
    fn margin(self) -> &'static str {
        match self {
            Mark::Given | Mark::Head => "",
            Mark::Part => "       ",
            Mark::Equals => "     = ",
            Mark::Whole => "     : ",
        }
    }

    fn latex(self) -> &'static str {
        match self {
            Mark::Given | Mark::Head => "",
            Mark::Part => "\\qquad ",
            Mark::Equals => "\\quad = ",
            Mark::Whole => "\\quad : ",
        }
    }
}

/// Lines as a display in MathML.
fn mathml(lines: &[(Mark, String)]) -> String {
    let rows: Vec<String> = lines
        .iter()
        .map(|(mark, line)| {
            let (sign, formula) = match mark {
                Mark::Head => return format!("<mtext>{}</mtext>", escape(line.trim_start())),
                Mark::Given => ("<mtext>given\u{a0}</mtext>", line.strip_prefix("given ").unwrap_or(line)),
                Mark::Part => ("<mspace width=\"3em\"/>", line.as_str()),
                Mark::Equals => ("<mspace width=\"1.5em\"/><mo>=</mo>", line.as_str()),
                Mark::Whole => ("<mspace width=\"1.5em\"/><mo>:</mo>", line.as_str()),
            };
            format!("{sign}{}", Speller::default().spell(formula))
        })
        .collect();
    table(&rows.join("\n"))
}

/// The text of parts of one derivation.
struct Text<'a> {
    derivation: &'a Derivation,
    names: StmtNames,
    /// The names of tangents.
    tangents: BTreeMap<VarId, String>,
    typeset: Typeset,
}

impl<'a> Text<'a> {
    fn new(derivation: &'a Derivation, style: Style) -> Self {
        let (builder, signature) = (&derivation.builder, derivation.builder.signature());
        let stmts = || (0..builder.len()).map(VarId::from_index);
        let fixed = |x: VarId| match &builder.stmt(x).rhs {
            Rhs::Input { param, path } if path.is_empty() => signature.params.get(*param).map(|p| p.name.as_str()),
            _ => None,
        };
        let mut names = StmtNames::beside_params(signature, stmts().map(|x| (builder.name(x), fixed(x))));
        let mut tangents = BTreeMap::new();
        for x in (0..derivation.stmts).map(VarId::from_index).filter(|x| derivation.active[*x]) {
            let tangent = match (&builder.stmt(x).rhs, is_whole(builder, x)) {
                (Rhs::Input { param, .. }, true) => {
                    derivation.tangents.get(param).map(|dx| signature.params[*dx].name.clone())
                }
                _ => None,
            };
            let name = names.get(x);
            let tangent = tangent.unwrap_or_else(|| names.reserve([format!("d{name}"), format!("{name}_tan")]));
            tangents.insert(x, tangent);
        }
        Text { derivation, names, tangents, typeset: Typeset(style) }
    }

    /// What the derivation starts from: parameters, seeds, and the tangents of parameters.
    fn given(&self) -> Vec<String> {
        let signature = self.derivation.builder.signature();
        let tangents: BTreeSet<ParamId> = self.derivation.tangents.values().copied().collect();
        let mut lines = Vec::new();
        for (id, param) in signature.params.iter().filter(|(id, _)| !tangents.contains(id)) {
            let dx = self.derivation.tangents.get(&id).map(|dx| self.typeset.name(&signature.params[*dx].name));
            let name = self.typeset.name(&param.name);
            let dx = dx.map_or(String::new(), |dx| format!("{}D({name}) = {dx}", self.typeset.words(", ")));
            let ty = self.typeset.math(&type_text(signature, &self.names, param));
            lines.push(format!("{}{name} : {ty}{dx}", self.typeset.words("given ")));
        }
        for seed in self.seeds() {
            if !is_whole(&self.derivation.builder, seed) {
                lines.push(format!("{}{}", self.typeset.words("given "), self.binding(seed)));
            }
        }
        lines
    }

    /// The seeds, each once.
    fn seeds(&self) -> BTreeSet<VarId> {
        self.derivation.outputs.iter().map(|(seed, _)| *seed).collect()
    }

    /// The lines of a step, under its head.
    fn step(&self, step: &Step) -> Vec<(Mark, String)> {
        let mut lines = Vec::new();
        lines.extend(self.part(&step.before).into_iter().map(|line| (Mark::Part, line)));
        let mut after: Vec<String> = step.lets.clone().map(|x| self.bind(VarId::from_index(x))).collect();
        after.extend(self.part(&step.after));
        lines.extend(
            after.into_iter().enumerate().map(|(at, line)| (if at == 0 { Mark::Equals } else { Mark::Part }, line)),
        );
        let whole = match &step.after {
            // The outputs are not split yet.
            FormPart::Interleaved | FormPart::Joined(_) => return lines,
            FormPart::Order { .. } => self.outputs(),
            _ => self.sum(&step.form.sum),
        };
        let pending: Vec<String> = step.form.pending.iter().map(|x| self.tangent(*x)).collect();
        let head = match pending.is_empty() {
            true => String::new(),
            false => format!("{}{}{}", self.typeset.words("let "), pending.join(", "), self.typeset.words(" in ")),
        };
        lines.push((Mark::Whole, head + &whole));
        lines
    }

    fn part(&self, part: &FormPart) -> Vec<String> {
        let let_in = |binding: String| format!("{}{binding}{}", self.typeset.words("let "), self.typeset.words(" in"));
        match part {
            FormPart::Whole => {
                let seeds = self.derivation.outputs.iter().map(|(seed, _)| self.name(*seed)).collect();
                vec![self.inner_product(&tuple(seeds), "D(f)", None)]
            }
            FormPart::Interleaved => {
                let mut lines = Vec::new();
                for x in self.bound_by_program() {
                    lines.push(self.bind(x));
                    if self.derivation.active[x] {
                        lines.push(let_in(self.tangent_binding(x)));
                    }
                }
                lines.push(self.outputs());
                lines
            }
            FormPart::Order { tangents_last } => {
                let is_active = |x: &VarId| self.derivation.active[*x];
                let stmts: Vec<VarId> = self.bound_by_program().collect();
                let names: Vec<String> = match tangents_last {
                    true => stmts
                        .iter()
                        .map(|x| self.name(*x))
                        .chain(stmts.iter().filter(|x| is_active(x)).map(|x| self.tangent(*x)))
                        .collect(),
                    false => stmts
                        .iter()
                        .flat_map(|x| [Some(self.name(*x)), is_active(x).then(|| self.tangent(*x))])
                        .flatten()
                        .collect(),
                };
                vec![let_in(names.join(", "))]
            }
            FormPart::Outputs => vec![self.outputs()],
            FormPart::Unused(x) => vec![let_in(self.tangent_binding(*x)) + " S"],
            FormPart::Rest => vec!["S".to_owned()],
            FormPart::Bound(product) => {
                vec![let_in(self.tangent_binding(product.right.stmt())), self.product(product)]
            }
            FormPart::Sum(sum) => vec![self.sum(sum)],
            FormPart::Joined(params) => {
                let signature = self.derivation.builder.signature();
                let (mut left, mut right) = (Vec::new(), Vec::new());
                for (param, leaves) in params {
                    let paths = signature.types.leaves(signature.params[*param].ty).unwrap_or_default();
                    let names = leaves.iter().map(|x| x.map_or_else(|| "0".to_owned(), |x| self.name(x)));
                    left.push(nested(paths.into_iter().map(|leaf| leaf.path).zip(names)));
                    right.extend(
                        self.derivation.tangents.get(param).map(|dx| self.typeset.name(&signature.params[*dx].name)),
                    );
                }
                vec![self.inner_product(&tuple(left), &tuple(right), None)]
            }
        }
    }

    /// The statements that 6.14 binds: those of the program but whole parameters, and the seed.
    fn bound_by_program(&self) -> impl Iterator<Item = VarId> {
        let seeds = self.seeds();
        let stmts = (0..self.derivation.stmts).map(VarId::from_index);
        stmts.filter(move |x| !is_whole(&self.derivation.builder, *x) && !seeds.contains(x))
    }

    fn outputs(&self) -> String {
        let (left, right) = self.derivation.outputs.iter().map(|(l, r)| (self.name(*l), self.name(*r))).unzip();
        self.inner_product(&tuple(left), &format!("D({})", tuple(right)), None)
    }

    fn sum(&self, sum: &Sum) -> String {
        let products = sum.products.iter().map(|product| self.product(product));
        let collected = sum.collected.iter().map(|collected| self.collected(collected));
        let zeros = std::iter::repeat_n("0".to_owned(), sum.zeros);
        let summands: Vec<String> = products.chain(collected).chain(zeros).collect();
        if summands.is_empty() { "0".to_owned() } else { summands.join(" + ") }
    }

    fn product(&self, product: &InnerProduct) -> String {
        let right = match product.right {
            Right::Tangent(x) => self.tangent(x),
            Right::Variable(x) => format!("D({})", self.name(x)),
            Right::Derivative(x) => format!("D({})", self.rhs(x)),
        };
        let numbered: Vec<(IndexId, Size)> =
            product.axes.iter().zip(0..).map(|((_, n), at)| (IndexId(at), n.clone())).collect();
        let guard = match product.guard_over(&numbered) {
            Ok(guard) if !guard.is_true() => {
                Some(self.typeset.math(&guard_text(self.derivation.builder.signature(), &self.names, &guard)))
            }
            _ => None,
        };
        self.inner_product(&self.name(product.left), &right, guard)
    }

    /// `<((0, l), 0) | dp>` for a leaf of a parameter.
    fn collected(&self, Collected { left, input, tangent }: &Collected) -> String {
        let signature = self.derivation.builder.signature();
        let Rhs::Input { param, path } = &self.derivation.builder.stmt(*input).rhs else { return String::new() };
        let around = |inner: String, side: &Side| match side {
            Side::Fst => format!("({inner}, 0)"),
            Side::Snd => format!("(0, {inner})"),
        };
        let left = path.iter().rev().fold(self.name(*left), around);
        let right = match (tangent, self.derivation.tangents.get(param)) {
            (true, Some(dx)) => self.typeset.name(&signature.params[*dx].name),
            _ => format!("D({})", self.typeset.name(&signature.params[*param].name)),
        };
        self.inner_product(&left, &right, None)
    }

    fn inner_product(&self, left: &str, right: &str, guard: Option<String>) -> String {
        let (open, bar, close) = match self.typeset.0 {
            Style::Ascii => ("<", " | ", ">"),
            Style::Unicode | Style::MathMl => ("⟨", " | ", "⟩"),
            Style::Latex => ("\\langle ", " \\mid ", " \\rangle"),
        };
        let guard = guard.map_or(String::new(), |guard| match self.typeset.0 {
            Style::Latex => format!("_{{[{guard}]}}"),
            Style::Ascii | Style::Unicode | Style::MathMl => format!("_[{guard}]"),
        });
        format!("{open}{left}{bar}{right}{close}{guard}")
    }

    fn name(&self, x: VarId) -> String {
        self.typeset.name(&self.names.get(x))
    }

    fn tangent(&self, x: VarId) -> String {
        self.tangents.get(&x).map_or_else(|| format!("D({})", self.name(x)), |dx| self.typeset.name(dx))
    }

    /// A right-hand side; a part of a parameter is its projection.
    fn rhs(&self, x: VarId) -> String {
        let text = rhs_text(self.derivation.builder.signature(), &self.names, self.derivation.builder.stmt(x));
        let is_input = matches!(self.derivation.builder.stmt(x).rhs, Rhs::Input { .. });
        let projection = text.strip_prefix("input ").and_then(|text| text.split(" : ").next());
        self.typeset.math(projection.filter(|_| is_input).unwrap_or(&text))
    }

    /// `X = e`
    fn binding(&self, x: VarId) -> String {
        format!("{} = {}", self.name(x), self.rhs(x))
    }

    /// `let X = e in`
    fn bind(&self, x: VarId) -> String {
        format!("{}{}{}", self.typeset.words("let "), self.binding(x), self.typeset.words(" in"))
    }

    /// `dX = D(e)`
    fn tangent_binding(&self, x: VarId) -> String {
        format!("{} = D({})", self.tangent(x), self.rhs(x))
    }
}

/// `(a, b)`, or `a` alone.
fn tuple(names: Vec<String>) -> String {
    match names.as_slice() {
        [one] => one.clone(),
        several => format!("({})", several.join(", ")),
    }
}

/// The pairs that leaves make, by their paths.
fn nested(leaves: impl Iterator<Item = (Vec<Side>, String)>) -> String {
    let mut stack: Vec<(Vec<Side>, String)> = Vec::new();
    for (mut path, mut text) in leaves {
        // The second of a pair comes right behind the first.
        while path.last() == Some(&Side::Snd)
            && let Some((_, first)) = stack.pop()
        {
            text = format!("({first}, {text})");
            path.pop();
        }
        stack.push((path, text));
    }
    tuple(stack.into_iter().map(|(_, text)| text).collect())
}

/// Spells the text of Tensor-SSA in a style.
struct Typeset(Style);

impl Typeset {
    /// Words between formulas.
    fn words(&self, text: &str) -> String {
        match self.0 {
            Style::Ascii | Style::Unicode | Style::MathMl => text.to_owned(),
            Style::Latex => format!("\\text{{{}}}", text.replace('_', "\\_")),
        }
    }

    /// A variable.
    fn name(&self, name: &str) -> String {
        match self.0 {
            Style::Latex if name.chars().count() > 1 => format!("\\mathit{{{}}}", name.replace('_', "\\_")),
            _ => name.to_owned(),
        }
    }

    /// A right-hand side, a guard or a type, token by token.
    fn math(&self, text: &str) -> String {
        if self.0 == Style::Ascii {
            return text.to_owned();
        }
        let mut out = String::new();
        // How open brackets close, and whether a name stands right before.
        let (mut closing, mut behind_name) = (Vec::new(), false);
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let length = token(rest, c);
            let (token, next) = rest.split_at(length);
            let was_behind = std::mem::replace(&mut behind_name, false);
            if c.is_alphabetic() || c == '_' {
                behind_name = true;
                out.push_str(&self.word(token));
            } else if self.0 == Style::Latex && token == "[" {
                closing.push(if was_behind { "}" } else { "]" });
                out.push_str(if was_behind { "_{" } else { "[" });
            } else if self.0 == Style::Latex && token == "]" {
                out.push_str(closing.pop().unwrap_or("]"));
            } else {
                out.push_str(&self.symbol(token));
            }
            rest = next;
        }
        out
    }

    fn word(&self, word: &str) -> String {
        let (unicode, latex) = match word {
            "gen" => ("⊞", "\\boxplus"),
            "sum" => ("Σ", "\\sum"),
            "and" => ("∧", "\\land"),
            "or" => ("∨", "\\lor"),
            "not" => ("¬", "\\lnot"),
            "exists" => ("∃", "\\exists"),
            "inf" => ("∞", "\\infty"),
            "real" => ("real", "\\mathbb{R}"),
            "fst" | "snd" => (word, if word == "fst" { "\\pi_0" } else { "\\pi_1" }),
            _ => return self.name(word),
        };
        match self.0 {
            Style::Latex => latex.to_owned(),
            Style::Ascii | Style::Unicode | Style::MathMl => unicode.to_owned(),
        }
    }

    fn symbol(&self, symbol: &str) -> String {
        let (unicode, latex) = match symbol {
            "*" => ("·", "\\cdot"),
            "<=" => ("≤", "\\le"),
            "!=" => ("≠", "\\ne"),
            ". " => (". ", ".\\ "),
            " " => (" ", " "),
            _ => {
                // `^-2`, `'0`
                return match (self.0, symbol.strip_prefix('^'), symbol.strip_prefix('\'')) {
                    (Style::Latex, Some(power), _) => format!("^{{{power}}}"),
                    (Style::Latex, _, Some(argument)) => format!("'_{{{argument}}}"),
                    _ => symbol.to_owned(),
                };
            }
        };
        match self.0 {
            Style::Latex => latex.to_owned(),
            Style::Ascii | Style::Unicode | Style::MathMl => unicode.to_owned(),
        }
    }
}
