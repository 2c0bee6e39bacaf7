//! Programs as text in the surface language; reading the text back gives the same program up to ids.
//!
//! What elaboration spells out is folded again:
//!
//! | term | text |
//! |---|---|
//! | `a + -1 * b`, `-1 * a` | `a - b`, `-a`; `-1 * 3` stays, since `-3` is a literal |
//! | `[A?(i, j)] * A.value(i, j)` of a sparse parameter | `A[i, j]` |
//! | `let c = a < b in [c != 0] * e` with no other use of `c` | `[a < b] * e` |
//! | `let c = sum k < n. [p] * 1 in [c = 0] * e` alike | `[not (exists k < n. p)] * e` |
//! | `gen i < n. gen j < m. e`, `sum ..` alike | `gen i < n, j < m. e` |
//! | the sum of `v[i, k]` over the place `k` of its largest element | `max k < n. v[i, k]` |
//!
//! Everything else is written as it stands: a comparison of reals elsewhere is `less(a, b)`, its use in a bracket `c[i] != 0`, the place of a
//! largest element `(argmax k < n. v[k])`, and a partial derivative kept as a black box `exp'0(x)`.
//!
//! Parentheses follow the levels below, which are those of the parser; binders and `let`s stand bare only where nothing can follow
//! them. The printer turns terms into tasks on an explicit stack, which turn into a [`Doc`]; both are linear.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::data::{Program, Term, TermId};
use super::names::Names;
use crate::base::layout::Doc;
use crate::base::{Id, IndexId, RelationId, SizeId, VarId};
use crate::index::{Affine, Application, Pred, RelationRef, Size, Var, View, exists, readable};
use crate::scalar::{self, Comparison, Function, Number, Op, Primitive, UserValue};
use crate::ty::{RelationKind, Storage, Type, TypeId};

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
}

impl Program {
    /// The program as text, ending in a line end.
    pub fn print(&self, style: Style) -> String {
        let mut printer = Printer::new(self, style);
        if style != Style::Latex {
            printer.header();
        }
        printer.body();
        printer.doc.render(Doc::WIDTH)
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
    /// The terms of these comparisons.
    spelt: BTreeSet<TermId>,
    /// The terms written as largest elements, with their sums.
    largest: BTreeMap<TermId, TermId>,
    folded_sums: BTreeSet<TermId>,
    /// The next term of the chain of `let`s at the top, which LaTeX aligns.
    top: TermId,
}

/// `-1 * e`, where `e` is no literal.
fn negated(program: &Program, term: &Term) -> Option<TermId> {
    match *term {
        Term::Mul(a, b) if is_minus_one(&program.terms[a]) => {
            let literal = matches!(program.terms[b], Term::Number(Number::Literal(_)));
            (!literal).then_some(b)
        }
        _ => None,
    }
}

fn is_minus_one(term: &Term) -> bool {
    matches!(term, Term::Number(Number::Literal(x)) if *x == -1.0)
}

/// Whether the text of a term could be that of an index expression. Two of them compared are read back as a comparison of indices.
fn reads_as_index(program: &Program, term: TermId) -> bool {
    let mut stack = vec![term];
    while let Some(e) = stack.pop() {
        match &program.terms[e] {
            Term::Number(_) => {}
            term @ (Term::Add(..) | Term::Mul(..)) => term.for_each_operand(|operand| stack.push(operand)),
            _ => return false,
        }
    }
    true
}

/// Which compared variables have a single use, in the bracket directly inside their `let`.
fn fold_comparisons(program: &Program) -> BTreeMap<VarId, TermId> {
    let mut candidates: BTreeMap<VarId, TermId> = BTreeMap::new();
    for term in program.terms.values() {
        let Term::Let { var, value, body } = term else { continue };
        let Term::Iverson { guard, .. } = &program.terms[*body] else { continue };
        // The entries that it reads are among those of the bracket, which takes them to the comparison again when it is read.
        let (compare, entries) = match &program.terms[*value] {
            Term::Iverson { guard, body } => (*body, guard.conjuncts()),
            _ => (*value, &[][..]),
        };
        // A comparison for equality would be read back as a support where it compares a variable with 0.
        let compared = match &program.terms[compare] {
            Term::Apply(Function::Value(Primitive::Op(Op::Compare(op))), args) => {
                let is_read = |entry: &Pred| args.iter().any(|e| is_entry(program, entry, *e));
                matches!(op, Comparison::Less | Comparison::LessEqual)
                    && args.iter().any(|e| !reads_as_index(program, *e))
                    && entries.iter().all(|entry| guard.conjuncts().contains(entry) && is_read(entry))
            }
            _ => false,
        };
        if compared && folds_into(guard, *var, None) {
            candidates.insert(*var, compare);
        }
        if counted(program, *value).is_some() && folds_into(guard, *var, Some(false)) {
            candidates.insert(*var, *value);
        }
    }
    if candidates.is_empty() {
        return candidates;
    }
    let mut used = BTreeSet::new();
    let mut reject = BTreeSet::new();
    let mut visit = |r: RelationRef| {
        if let RelationRef::Computed { var, .. } = r
            && !used.insert(var)
        {
            reject.insert(var);
        }
    };
    for term in program.terms.values() {
        match term {
            Term::Iverson { guard, .. } => guard.visit_relations(&mut visit),
            Term::Number(Number::Index(a)) | Term::Access { index: a, .. } => a.visit(&mut |v| {
                if let Var::Apply(application) = v {
                    visit(application.map);
                }
            }),
            _ => {}
        }
    }
    for term in program.terms.values() {
        if let Term::Var(x) = term {
            reject.insert(*x);
        }
    }
    candidates.retain(|x, _| !reject.contains(x));
    candidates
}

/// Whether a term is `A.value(i, j)` and a predicate `A?(i, j)`.
fn is_entry(program: &Program, p: &Pred, e: TermId) -> bool {
    let Pred::Relation { relation: RelationRef::Input(r), args, holds: true } = p else { return false };
    let (array, indices) = peel_access(program, e);
    let Term::Var(x) = program.terms[array] else { return false };
    let param = program.signature.params.values().nth(x.index());
    param.is_some_and(|param| param.storage.pattern() == Some(*r)) && args.iter().eq(indices)
}

/// The array under a chain of accesses, and the indices from the first axis on.
fn peel_access(program: &Program, mut array: TermId) -> (TermId, Vec<&Affine>) {
    let mut indices = Vec::new();
    while let Term::Access { array: inner, index } = &program.terms[array] {
        indices.push(index);
        array = *inner;
    }
    indices.reverse();
    (array, indices)
}

/// Whether the variable stands in the guard as a truth value outside of `exists`, of this kind if one is asked for.
fn folds_into(guard: &Pred, var: VarId, kind: Option<bool>) -> bool {
    match guard {
        Pred::Relation { relation: RelationRef::Computed { var: x, view: View::Support }, args, holds } => {
            *x == var && args.is_empty() && kind.is_none_or(|kind| kind == *holds)
        }
        Pred::All(ps) | Pred::Any(ps) => ps.iter().any(|p| folds_into(p, var, kind)),
        _ => false,
    }
}

/// Of `sum k < n. [p] * 1` the predicate `exists k < n. p`, if its negation is read back as that sum being 0.
fn counted(program: &Program, mut value: TermId) -> Option<Pred> {
    let mut sums = Vec::new();
    while let Term::Sum { index, extent, body } = &program.terms[value] {
        sums.push((*index, extent));
        value = *body;
    }
    let Term::Iverson { guard, body } = &program.terms[value] else { return None };
    let one = matches!(program.terms[*body], Term::Number(Number::Literal(x)) if x == 1.0);
    // What keeps maps in range would be read as a part of the sum.
    if !one || sums.is_empty() || guard.applies_maps() || matches!(guard, Pred::Exists { .. }) {
        return None;
    }
    let (outermost, n) = *sums.first()?;
    let mut body = guard.clone();
    for (index, extent) in sums.iter().skip(1).rev() {
        body = Pred::exists(*index, (*extent).clone(), body);
        matches!(body, Pred::Exists { .. }).then_some(())?;
    }
    let quantified = Pred::exists(outermost, n.clone(), body.clone());
    let stays = exists(outermost, n, &body).is_ok_and(|eliminated| eliminated.negate().is_none());
    (stays && matches!(quantified, Pred::Exists { .. })).then_some(quantified)
}

/// Which terms are written `max k < n. v[i, k]`, with the sum over the place of the largest element in each.
///
/// ```text
/// (sum k < n. [(argmax l < n. v[i, l]) = k] * v[i, k]) + [n <= 0] * -inf
/// ```
///
/// Where `n >= 1` by what stands around, the sum alone, as it is read back. The other indices of `v` are those of loops over its
/// axes: these are in range.
fn fold_largest(program: &Program) -> BTreeMap<TermId, TermId> {
    /// What stands around a place: one more, around that of the given number less one.
    enum Around<'a> {
        Range(IndexId, &'a Size, usize),
        Guard(&'a Pred, usize),
    }
    let mut found = BTreeMap::new();
    let mut scopes: Vec<Around<'_>> = Vec::new();
    let mut stack = vec![(program.root, 0usize)];
    while let Some((e, at)) = stack.pop() {
        let Some(term) = program.terms.get(e) else { continue };
        let range = |i: IndexId| {
            let mut at = at;
            for _ in 0..MAX_AROUND {
                match scopes.get(at.checked_sub(1)?)? {
                    Around::Range(j, extent, _) if *j == i => return Some(*extent),
                    Around::Range(_, _, outer) | Around::Guard(_, outer) => at = *outer,
                }
            }
            None
        };
        let positive = |n: &Size| {
            let claims = |p: &Pred| matches!(p, Pred::NonNegative(a) if n.add_constant(-1).as_ref() == Ok(a));
            let mut known = n.as_constant().is_some_and(|n| n >= 1) || program.signature.assumptions.iter().any(claims);
            let mut at = at;
            for _ in 0..MAX_AROUND {
                match at.checked_sub(1).and_then(|at| scopes.get(at)) {
                    Some(Around::Range(_, extent, outer)) => {
                        known |= *extent == n;
                        at = *outer;
                    }
                    Some(Around::Guard(p, outer)) => {
                        known |= p.conjuncts().iter().any(claims);
                        at = *outer;
                    }
                    None => break,
                }
            }
            known
        };
        let sum = match *term {
            Term::Add(sum, otherwise) => largest(program, sum, &range).filter(|(view, n)| {
                let limit = if *view == View::ArgMax { f64::NEG_INFINITY } else { f64::INFINITY };
                let Term::Iverson { guard, body } = &program.terms[otherwise] else { return false };
                matches!(program.terms[*body], Term::Number(Number::Literal(x)) if x == limit)
                    && n.scale(-1).is_ok_and(|n| *guard == Pred::non_negative(n))
                    && !positive(n)
            }),
            Term::Sum { .. } => largest(program, e, &range).filter(|(_, n)| positive(n)),
            _ => None,
        };
        if sum.is_some() {
            let sum = if let Term::Add(sum, _) = *term { sum } else { e };
            found.insert(e, sum);
            continue;
        }
        let inner = match term {
            Term::Gen { index, extent, .. } | Term::Sum { index, extent, .. } => {
                scopes.push(Around::Range(*index, extent, at));
                scopes.len()
            }
            Term::Iverson { guard, .. } => {
                scopes.push(Around::Guard(guard, at));
                scopes.len()
            }
            _ => at,
        };
        term.for_each_operand(|operand| stack.push((operand, inner)));
    }
    found
}

/// How far out a fact is looked for.
const MAX_AROUND: usize = 16;

/// `sum k < n. [(argmax l < n. v[i, l]) = k] * v[i, k]`: which end, and `n`.
fn largest<'a>(
    program: &'a Program,
    e: TermId,
    range: &impl Fn(IndexId) -> Option<&'a Size>,
) -> Option<(View, &'a Size)> {
    let Term::Sum { index, extent, body } = &program.terms[e] else { return None };
    let Term::Iverson { guard, body } = &program.terms[*body] else { return None };
    let Pred::Relation { relation: RelationRef::Computed { var, view }, args, holds: true } = guard else {
        return None;
    };
    let dims = program.types.real_dims(program.variables.get(*var)?.ty)?;
    let (last, outer) = args.split_last()?;
    let mut array = *body;
    for a in args.iter().rev() {
        let Term::Access { array: inner, index } = &program.terms[array] else { return None };
        if index != a {
            return None;
        }
        array = *inner;
    }
    let sparse = program.signature.params.values().nth(var.index()).is_some_and(|p| p.storage.pattern().is_some());
    let found = *view != View::Support
        && !sparse
        && program.terms[array] == Term::Var(*var)
        && last.as_index() == Some(*index)
        && dims.len() == args.len()
        && dims.last() == Some(extent)
        && outer.iter().zip(&dims).all(|(a, n)| a.as_index().is_some_and(|i| i != *index && range(i) == Some(n)));
    found.then_some((*view, extent))
}

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
                RelationKind::Pattern(_) => String::new(),
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
            spelt: folded.values().copied().collect(),
            folded,
            folded_sums: largest.values().copied().collect(),
            largest,
            top: program.root,
        }
    }

    fn latex(&self) -> bool {
        self.style == Style::Latex
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
            "*" => ("·", "\\,"),
            "max" => ("max", "\\max"),
            "min" => ("min", "\\min"),
            "argmax" => ("argmax", "\\operatorname{argmax}"),
            "argmin" => ("argmin", "\\operatorname{argmin}"),
            same => (same, same),
        };
        match self.style {
            Style::Ascii => ascii,
            Style::Unicode => unicode,
            Style::Latex => latex,
        }
    }

    fn header(&mut self) {
        let program = self.program;
        let signature = &program.signature;
        let name = |names: &[String], at: usize| names.get(at).cloned().unwrap_or_default();
        for (id, param) in signature.params.iter() {
            // The pattern of another parameter is named: `csr(A)`.
            let shared = |r: RelationId| match signature.relations.get(r).map(|r| r.kind) {
                Some(RelationKind::Pattern(owner)) if owner != id => format!("({})", name(&self.vars, owner.index())),
                _ => String::new(),
            };
            let storage = match param.storage {
                Storage::Dense => String::new(),
                Storage::Sparse(format, r) => format!("{}{} ", format.name(), shared(r)),
            };
            let text = format!("param {} : {storage}{}", name(&self.vars, id.index()), self.ty(param.ty));
            self.declare(&text);
        }
        for (id, relation) in signature.relations.iter() {
            let called = name(&self.relations, id.index());
            let sizes =
                |printer: &Self, dims: &[Size]| dims.iter().map(|n| printer.affine(n)).collect::<Vec<_>>().join(", ");
            match (relation.kind, relation.shape.split_last()) {
                (RelationKind::Free, _) => {
                    let text = format!("rel {called} : [{}]", sizes(self, &relation.shape));
                    self.declare(&text);
                }
                (RelationKind::Map, Some((target, source))) => {
                    let text = format!("map {called} : [{}] -> [{}]", sizes(self, source), self.affine(target));
                    self.declare(&text);
                }
                (RelationKind::Map, None) | (RelationKind::Pattern(_), _) => {}
            }
        }
        for (id, function) in signature.functions.iter() {
            let called = name(&self.functions, id.index());
            let args: Vec<String> = (0..function.arity()).map(|k| self.argument(k)).collect();
            let names = scalar::Names { args: &args, users: Some(&signature.functions) };
            let write = |e: &scalar::Expr| {
                let mut text = String::new();
                // Writing to a string does not fail.
                let _ = e.write(&mut text, &names);
                text
            };
            let partials: Vec<String> = function.partials().iter().map(&write).collect();
            let (args, partials) = (args.join(", "), partials.join(", "));
            let text = match function.value() {
                UserValue::Expr(e) => format!("fun {called}({args}) = {} with ({partials})", write(e)),
                // Its code is not part of any text.
                UserValue::Native(_) | UserValue::Unregistered => {
                    format!("# {called}({args}) is native, with the partial derivatives ({partials})")
                }
            };
            self.declare(&text);
        }
        for p in &signature.assumptions {
            let mut tasks = vec![Task::text("assume ")];
            self.pred(p, Level::Open, &mut tasks);
            tasks.push(Task::Hard);
            self.run(tasks);
        }
    }

    /// The name of an argument of a registered function, unlike all global names.
    fn argument(&self, k: u8) -> String {
        let letter = char::from(b'a' + k % 26).to_string();
        let stem = if k < 26 { letter } else { format!("{letter}{}", k / 26) };
        let mut name = stem;
        while self.names.is_used(&name) {
            name.push('_');
        }
        name
    }

    fn declare(&mut self, text: &str) {
        self.doc.text(text);
        self.doc.hard();
    }

    /// A type. Types nest deeply only where a program was built to; no call stack is used.
    fn ty(&self, ty: TypeId) -> String {
        enum Part {
            Type(TypeId),
            Text(&'static str),
        }
        let types = &self.program.types;
        let mut text = String::new();
        let mut stack = vec![Part::Type(ty)];
        while let Some(part) = stack.pop() {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Type(ty) => {
                    let (dims, element) = types.peel(ty);
                    if !dims.is_empty() {
                        let dims: Vec<_> = dims.into_iter().map(|n| self.affine(n)).collect();
                        text.push_str(&format!("[{}] ", dims.join(", ")));
                    }
                    match types.get(element) {
                        Type::Real | Type::Tensor(..) => text.push_str("real"),
                        Type::Pair(a, b) => {
                            let (a, b) = (Part::Type(*a), Part::Type(*b));
                            stack.extend([Part::Text(")"), b, Part::Text(", "), a, Part::Text("(")]);
                        }
                    }
                }
            }
        }
        text
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
        } else if self.starts_with_minus(root) {
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
                Task::Text(text) => self.doc.text(&text),
                Task::Open(indent) => self.doc.open(indent),
                Task::Align => self.doc.align(),
                Task::Close => self.doc.close(),
                Task::Line => self.doc.line(),
                Task::Fill => self.doc.fill(),
                Task::Soft => self.doc.soft(),
                Task::Hard => self.doc.hard(),
                Task::Leave => self.names.leave(),
                Task::Term(id, level) => self.term(id, level, false, &mut made),
                Task::Last(id, level) => self.term(id, level, true, &mut made),
            }
            stack.extend(made.drain(..).rev());
        }
    }

    fn parentheses(&self) -> (&'static str, &'static str) {
        if self.latex() { ("\\left(", "\\right)") } else { ("(", ")") }
    }

    fn term(&mut self, id: TermId, level: Level, last: bool, out: &mut Vec<Task>) {
        let found = self.level(id);
        if found < level && !(last && found == Level::Open) {
            let (open, close) = self.parentheses();
            out.extend([Task::text(open), Task::Align, Task::Last(id, Level::Open), Task::Close, Task::text(close)]);
            return;
        }
        let program = self.program;
        if let Some(sum) = self.largest.get(&id) {
            return self.binder(*sum, out);
        }
        match &program.terms[id] {
            Term::Number(Number::Literal(x)) => out.push(Task::text(self.literal(*x))),
            Term::Number(Number::Index(a)) => {
                let text = self.affine(a);
                let plain = a.as_index().is_some() || a.as_size().is_some() || self.latex();
                out.push(Task::text(if plain { text } else { format!("real({text})") }));
            }
            Term::Var(x) => out.push(Task::text(self.var(*x))),
            Term::Add(..) => self.sum(id, out),
            term @ Term::Mul(..) => match negated(program, term) {
                Some(e) => out.extend([Task::text("-"), Task::Term(e, Level::Power)]),
                None => self.product(id, out),
            },
            Term::Apply(f, args) => self.apply(id, *f, args, out),
            Term::Pair(a, b) => {
                let (open, close) = self.parentheses();
                out.extend([Task::text(open), Task::Align, Task::Last(*a, Level::Open), Task::text(","), Task::Line]);
                // `(a, (b, c))` reads the same with and without the inner parentheses.
                let mut rest = *b;
                while let Term::Pair(a, b) = &program.terms[rest] {
                    out.extend([Task::Last(*a, Level::Open), Task::text(","), Task::Line]);
                    rest = *b;
                }
                out.extend([Task::Last(rest, Level::Open), Task::Close, Task::text(close)]);
            }
            Term::Fst(e) | Term::Snd(e) => {
                let first = matches!(program.terms[id], Term::Fst(_));
                let word = match (self.latex(), first) {
                    (false, true) => "fst ",
                    (false, false) => "snd ",
                    (true, true) => "\\operatorname{fst} ",
                    (true, false) => "\\operatorname{snd} ",
                };
                out.extend([Task::text(word), Task::Term(*e, Level::Postfix)]);
            }
            Term::Gen { .. } | Term::Sum { .. } => self.binder(id, out),
            Term::Access { .. } => self.access(id, out),
            Term::Iverson { guard, body } => match self.sparse_access(guard, *body) {
                Some((x, args)) => {
                    let args = self.list(args);
                    let x = self.var(x);
                    out.push(Task::text(if self.latex() { format!("{x}_{{{args}}}") } else { format!("{x}[{args}]") }));
                }
                None => {
                    let body = if last { Task::Last(*body, Level::Bracket) } else { Task::Term(*body, Level::Bracket) };
                    out.extend([Task::Open(2), Task::text("[")]);
                    self.pred(guard, Level::Open, out);
                    out.extend([Task::text("]"), self.times(), Task::Fill, body, Task::Close]);
                }
            },
            Term::Let { var, value, body } => {
                if self.folded.contains_key(var) {
                    let body = if last { Task::Last(*body, level) } else { Task::Term(*body, level) };
                    out.push(body);
                    return;
                }
                let name = self.take_var(*var);
                let head = match self.style {
                    Style::Latex => format!("\\text{{let }} {name} = "),
                    _ => format!("let {name} = "),
                };
                // A `let` in the value of another one is set off.
                let value = match program.terms[*value] {
                    Term::Let { .. } => Task::Term(*value, Level::Or),
                    _ => Task::Last(*value, Level::Open),
                };
                out.extend([Task::Open(2), Task::text(head), value, Task::Close]);
                match (self.latex(), id == self.top) {
                    (false, _) => out.extend([Task::Hard, Task::text("in ")]),
                    (true, true) => out.extend([Task::text(" \\\\"), Task::Hard, Task::text("& \\text{in } ")]),
                    (true, false) => out.push(Task::text(" \\text{ in } ")),
                }
                if id == self.top {
                    self.top = *body;
                }
                out.extend([Task::Last(*body, Level::Open), Task::Leave]);
            }
        }
    }

    fn times(&self) -> Task {
        match self.style {
            Style::Ascii => Task::text(" *"),
            Style::Unicode => Task::text(" ·"),
            Style::Latex => Task::text(" \\cdot"),
        }
    }

    fn level(&self, id: TermId) -> Level {
        let program = self.program;
        if self.largest.contains_key(&id) {
            return Level::Open;
        }
        match &program.terms[id] {
            Term::Number(Number::Literal(x)) if x.is_sign_negative() && !x.is_nan() => Level::Unary,
            Term::Number(Number::Index(a)) if self.latex() && a.terms().len() != 1 => Level::Sum,
            Term::Number(_) | Term::Var(_) | Term::Access { .. } | Term::Pair(..) => Level::Postfix,
            Term::Add(..) => Level::Sum,
            term @ Term::Mul(..) => match negated(program, term) {
                Some(_) => Level::Unary,
                None => Level::Product,
            },
            Term::Apply(Function::Value(Primitive::Op(op)), _) => match op {
                Op::Div if self.latex() => Level::Postfix,
                Op::Div => Level::Product,
                Op::Powi(_) => Level::Power,
                Op::Compare(_) if self.latex() || self.spelt.contains(&id) => Level::Comparison,
                _ => Level::Postfix,
            },
            Term::Apply(..) => Level::Postfix,
            Term::Fst(_) | Term::Snd(_) => Level::Projection,
            Term::Gen { .. } | Term::Sum { .. } => Level::Open,
            Term::Iverson { guard, body } => match self.sparse_access(guard, *body) {
                Some(_) => Level::Postfix,
                None => Level::Bracket,
            },
            Term::Let { var, .. } if self.folded.contains_key(var) => Level::Bracket,
            Term::Let { .. } => Level::Open,
        }
    }

    /// `a + b - c`, as one chain however long.
    fn sum(&self, id: TermId, out: &mut Vec<Task>) {
        let terms = &self.program.terms;
        let mut chain = Vec::new();
        let mut first = id;
        while let (Term::Add(a, b), false) = (&terms[first], self.largest.contains_key(&first)) {
            let (a, b) = (*a, *b);
            chain.push(match &terms[b] {
                Term::Mul(minus, c) if is_minus_one(&terms[*minus]) => ("- ", *c),
                _ => ("+ ", b),
            });
            first = a;
        }
        out.extend([Task::Open(2), Task::Term(first, Level::Sum)]);
        for (sign, e) in chain.into_iter().rev() {
            out.extend([Task::Fill, Task::text(sign), Task::Term(e, Level::Bracket)]);
        }
        out.push(Task::Close);
    }

    /// `a * b / c`, as one chain however long.
    fn product(&self, id: TermId, out: &mut Vec<Task>) {
        let program = self.program;
        let mut chain = Vec::new();
        let mut first = id;
        loop {
            match &program.terms[first] {
                term @ Term::Mul(a, b) if negated(program, term).is_none() => {
                    chain.push((self.symbol("*"), *b));
                    first = *a;
                }
                Term::Apply(Function::Value(Primitive::Op(Op::Div)), args) if args.len() == 2 && !self.latex() => {
                    chain.push(("/", args[1]));
                    first = args[0];
                }
                _ => break,
            }
        }
        out.extend([Task::Open(2), Task::Term(first, Level::Product)]);
        for (sign, e) in chain.into_iter().rev() {
            out.extend([Task::Fill, Task::text(sign), Task::text(" "), Task::Term(e, Level::Unary)]);
        }
        out.push(Task::Close);
    }

    fn apply(&self, id: TermId, f: Function, args: &[TermId], out: &mut Vec<Task>) {
        match (f, args) {
            (Function::Value(Primitive::Op(Op::Div)), [a, b]) if self.latex() => {
                out.extend([Task::text("\\frac{"), Task::Last(*a, Level::Open), Task::text("}{")]);
                out.extend([Task::Last(*b, Level::Open), Task::text("}")]);
            }
            (Function::Value(Primitive::Op(Op::Div)), [_, _]) => self.product(id, out),
            (Function::Value(Primitive::Op(op @ (Op::Sqrt | Op::Cbrt))), [a]) if self.latex() => {
                let root = if op == Op::Sqrt { "\\sqrt{" } else { "\\sqrt[3]{" };
                out.extend([Task::text(root), Task::Last(*a, Level::Open), Task::text("}")]);
            }
            (Function::Value(Primitive::Op(Op::Powi(k))), [a]) => {
                out.push(Task::Term(*a, Level::Projection));
                out.push(Task::text(match (self.latex(), k < 0) {
                    (true, _) => format!("^{{{k}}}"),
                    (false, true) => format!("^({k})"),
                    (false, false) => format!("^{k}"),
                }));
            }
            // As a value a comparison is a function, `less(a, b)`; in a bracket it is written as an operator.
            (Function::Value(Primitive::Op(Op::Compare(comparison))), [a, b])
                if self.latex() || self.spelt.contains(&id) =>
            {
                // `x > 0` reads better than `0 < x`, and is the same.
                let number = |e: TermId| matches!(self.program.terms[e], Term::Number(_));
                let turned = number(*a) && !number(*b);
                let sign = match (comparison, turned) {
                    (Comparison::Less, false) => "<",
                    (Comparison::Less, true) => ">",
                    (Comparison::LessEqual, false) => self.symbol("<="),
                    (Comparison::LessEqual, true) => self.symbol(">="),
                    (Comparison::Equal, _) => "=",
                    (Comparison::NotEqual, _) => self.symbol("!="),
                };
                let (a, b) = if turned { (*b, *a) } else { (*a, *b) };
                out.extend([Task::Open(2), Task::Term(a, Level::Sum), Task::Fill, Task::text(sign), Task::text(" ")]);
                out.extend([Task::Term(b, Level::Sum), Task::Close]);
            }
            _ => {
                let name = self.function(f);
                let (open, close) = self.parentheses();
                out.extend([Task::text(name), Task::text(open), Task::Open(2), Task::Soft]);
                for (at, e) in args.iter().enumerate() {
                    if at > 0 {
                        out.extend([Task::text(","), Task::Line]);
                    }
                    out.push(Task::Last(*e, Level::Open));
                }
                out.extend([Task::Close, Task::text(close)]);
            }
        }
    }

    fn function(&self, f: Function) -> String {
        let name = |primitive: Primitive| match primitive {
            Primitive::Op(op) => op_name(op).into_owned(),
            Primitive::User(f) => self.functions.get(f.index()).cloned().unwrap_or_else(|| f.to_string()),
        };
        let plain = match f {
            Function::Value(primitive) => name(primitive),
            Function::Partial(Primitive::Op(Op::Powi(k)), at) if k < 0 => format!("powi'_{}'{at}", k.unsigned_abs()),
            Function::Partial(Primitive::Op(Op::Powi(k)), at) => format!("powi'{k}'{at}"),
            Function::Partial(primitive, at) => format!("{}'{at}", name(primitive)),
        };
        match (self.latex(), f) {
            (false, _) => plain,
            (true, Function::Partial(primitive, at)) => format!("\\partial_{at}\\operatorname{{{}}}", name(primitive)),
            (true, Function::Value(Primitive::Op(op))) if let Some(command) = op.latex() => command.to_owned(),
            (true, _) => format!("\\operatorname{{{}}}", plain.replace('_', "\\_")),
        }
    }

    /// `gen i < n, j < m. e`.
    fn binder(&mut self, id: TermId, out: &mut Vec<Task>) {
        let program = self.program;
        let word = match (&program.terms[id], self.largest_of(id)) {
            (_, Some(View::ArgMin)) => "min",
            (_, Some(_)) => "max",
            (Term::Gen { .. }, None) => "gen",
            _ => "sum",
        };
        let mut bound = String::new();
        let mut scopes = 0;
        let mut rest = id;
        while let (Term::Gen { index, extent, body }, "gen")
        | (Term::Sum { index, extent, body }, "sum" | "max" | "min") = (&program.terms[rest], word)
        {
            if rest != id && self.largest.contains_key(&rest) {
                break;
            }
            let (index, body) = (*index, *body);
            self.take_index(index);
            if self.latex() {
                bound.push_str(&format!("{}_{{{} < {}}} ", self.symbol(word), self.index(index), self.affine(extent)));
            } else {
                let comma = if scopes == 0 { "" } else { ", " };
                bound.push_str(&format!("{comma}{} < {}", self.index(index), self.affine(extent)));
            }
            scopes += 1;
            rest = body;
        }
        // Of `[(argmax l < n. v[i, l]) = k] * v[i, k]` the element.
        if let ("max" | "min", Term::Iverson { body, .. }) = (word, &program.terms[rest]) {
            rest = *body;
        }
        if self.latex() {
            out.extend([Task::Open(2), Task::text(bound.trim_end().to_owned())]);
        } else {
            out.extend([Task::Open(2), Task::text(self.symbol(word)), Task::text(format!(" {bound}."))]);
        }
        out.extend([Task::Line, Task::Last(rest, Level::Open), Task::Close]);
        out.extend(std::iter::repeat_with(|| Task::Leave).take(scopes));
    }

    /// Which end of a row a sum is, if it is written as that.
    fn largest_of(&self, sum: TermId) -> Option<View> {
        let Term::Sum { body, .. } = &self.program.terms[sum] else { return None };
        match &self.program.terms[*body] {
            Term::Iverson { guard: Pred::Relation { relation: RelationRef::Computed { view, .. }, .. }, .. }
                if self.folded_sums.contains(&sum) =>
            {
                Some(*view)
            }
            _ => None,
        }
    }

    /// `x[i, j]`, and `A.value(i, j)` where `A` is sparse.
    fn access(&self, id: TermId, out: &mut Vec<Task>) {
        let (array, indices) = peel_access(self.program, id);
        let args = self.list(indices.iter().copied());
        match &self.program.terms[array] {
            Term::Var(x) if self.pattern_rank(*x) == Some(indices.len()) => {
                let x = self.var(*x);
                out.push(Task::text(match self.latex() {
                    false => format!("{x}.value({args})"),
                    true => format!("{x}_{{{args}}}"),
                }));
            }
            _ => {
                out.push(Task::Term(array, Level::Postfix));
                out.push(Task::text(if self.latex() { format!("_{{{args}}}") } else { format!("[{args}]") }));
            }
        }
    }

    /// The number of axes of a sparse parameter.
    fn pattern_rank(&self, x: VarId) -> Option<usize> {
        let signature = &self.program.signature;
        let param = signature.params.values().nth(x.index())?;
        Some(signature.relations.get(param.storage.pattern()?)?.shape.len())
    }

    /// The parameter and the indices of `[A?(i, j)] * A.value(i, j)`.
    fn sparse_access(&self, guard: &Pred, body: TermId) -> Option<(VarId, Vec<&'a Affine>)> {
        let (array, indices) = peel_access(self.program, body);
        let Term::Var(x) = self.program.terms[array] else { return None };
        (!indices.is_empty() && is_entry(self.program, guard, body)).then_some((x, indices))
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
        if self.latex() { format!("\\mathbf{{{}}}", name.replace('_', "\\_")) } else { name }
    }

    fn index(&self, i: IndexId) -> String {
        self.italic(name_of(&self.indices, i))
    }

    fn size(&self, n: SizeId) -> String {
        self.italic(name_of(&self.sizes, n))
    }

    fn italic(&self, name: String) -> String {
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

    /// The shortest decimal that reads as the same number.
    fn literal(&self, x: f64) -> String {
        if x.is_nan() {
            return "nan".to_owned();
        }
        if x.is_infinite() {
            let text = if self.latex() { "\\infty" } else { "inf" };
            return format!("{}{text}", if x < 0.0 { "-" } else { "" });
        }
        let size = x.abs();
        let text = if size != 0.0 && !(1e-5..1e17).contains(&size) { format!("{x:e}") } else { format!("{x}") };
        match text.split_once('e') {
            Some((digits, exponent)) if self.latex() => format!("{digits} \\cdot 10^{{{exponent}}}"),
            _ => text,
        }
    }

    /// `2*i - j + n - 1`: a positive term first, the others in order.
    fn affine(&self, a: &Affine) -> String {
        let first = a.terms().iter().position(|(_, k)| *k > 0);
        let rest = a.terms().iter().enumerate().filter(|(at, _)| Some(*at) != first).map(|(_, term)| term);
        let mut sum = String::new();
        let mut append = |negative: bool, text: &str| {
            sum.push_str(match (sum.is_empty(), negative) {
                (true, true) => "-",
                (true, false) => "",
                (false, true) => " - ",
                (false, false) => " + ",
            });
            sum.push_str(text);
        };
        for (v, k) in first.map(|at| &a.terms()[at]).into_iter().chain(rest) {
            readable(*k).for_each(|part| append(*k < 0, &self.multiple(v, part)));
        }
        if a.offset() != 0 || a.terms().is_empty() {
            readable(a.offset()).for_each(|part| append(a.offset() < 0, &part.to_string()));
        }
        sum
    }

    /// A sum of positive multiples.
    fn linear<'b>(&self, terms: impl IntoIterator<Item = (&'b Var, u64)>) -> String {
        terms.into_iter().map(|(v, k)| self.multiple(v, k)).collect::<Vec<_>>().join(" + ")
    }

    fn multiple(&self, v: &Var, k: u64) -> String {
        let name = self.index_var(v);
        match (k, self.style) {
            (1, _) => name,
            (_, Style::Latex) => format!("{k} {name}"),
            _ => format!("{k}*{name}"),
        }
    }

    fn index_var(&self, v: &Var) -> String {
        match v {
            Var::Index(i) => self.index(*i),
            Var::Size(n) => self.size(*n),
            Var::Apply(application) => match application.map {
                RelationRef::Input(r) => format!("{}({})", self.relation(r), self.list(&application.args)),
                RelationRef::Computed { var, view } => self.arg_max(var, view, &application.args),
            },
        }
    }

    /// `(argmax k < n. v[.., k])`.
    fn arg_max(&self, x: VarId, view: View, args: &[Affine]) -> String {
        let word = if view == View::ArgMin { "argmin" } else { "argmax" };
        let dims = self.program.variables.get(x).and_then(|x| self.program.types.real_dims(x.ty));
        let extent = dims.and_then(|dims| dims.last().map(|n| self.affine(n))).unwrap_or_default();
        let name = self.var(x);
        // The index is in scope for one access only, so it must differ from what that mentions.
        let mut mentioned = BTreeSet::from([name.as_str()]);
        let visit = |v: &'_ Var| match v {
            Var::Index(i) => self.indices.get(i.index()),
            Var::Size(n) => self.sizes.get(n.index()),
            Var::Apply(application) => match application.map {
                RelationRef::Input(r) => self.relations.get(r.index()),
                RelationRef::Computed { var, .. } => self.vars.get(var.index()),
            },
        };
        for a in args {
            a.visit(&mut |v| {
                if let Some(name) = visit(v) {
                    mentioned.insert(name.as_str());
                }
            });
        }
        let free = |k: &String| !mentioned.contains(k.as_str()) && !self.names.is_used(k);
        let letters = "kijlpqrstuv".chars().map(String::from);
        let index = letters.chain((2..).map(|at| format!("k_{at}"))).find(free);
        let index = index.unwrap_or_default();
        let args: String = args.iter().map(|a| self.affine(a) + ", ").collect();
        match self.latex() {
            true => format!("{}_{{{index} < {extent}}} {name}_{{{args}{index}}}", self.symbol(word)),
            false => format!("({word} {index} < {extent}. {name}[{args}{index}])"),
        }
    }

    fn pred(&mut self, p: &Pred, level: Level, out: &mut Vec<Task>) {
        let found = match p {
            Pred::Exists { .. } => Level::Open,
            Pred::Any(_) => Level::Or,
            Pred::All(_) => Level::And,
            Pred::Relation { relation: relation @ RelationRef::Input(_), args, holds } => {
                match (self.is_equation(*relation, args), holds) {
                    (true, _) => Level::Comparison,
                    (false, true) => Level::Postfix,
                    (false, false) => Level::Not,
                }
            }
            Pred::Relation { relation: RelationRef::Computed { var, .. }, holds: false, .. }
                if self.folded.contains_key(var) =>
            {
                Level::Not
            }
            _ => Level::Comparison,
        };
        if found < level {
            out.extend([Task::text("("), Task::Align]);
            self.pred(p, Level::Open, out);
            out.extend([Task::Close, Task::text(")")]);
            return;
        }
        match p {
            Pred::True => out.push(Task::text("0 = 0")),
            Pred::False => out.push(Task::text("0 = 1")),
            Pred::NonNegative(a) => out.push(Task::text(self.bound(a))),
            Pred::Zero(a) => out.push(Task::text(self.equation(a, "="))),
            Pred::NonZero(a) => out.push(Task::text(self.equation(a, self.symbol("!=")))),
            Pred::Relation { relation, args, holds } => match self.nowhere(*relation) {
                Some(quantified) => {
                    out.extend([Task::text(self.symbol("not")), Task::text(" ")]);
                    self.pred(&quantified, Level::Postfix, out);
                }
                None => self.atom(*relation, args, *holds, out),
            },
            Pred::All(ps) | Pred::Any(ps) => {
                let (word, inner) = match p {
                    Pred::All(_) => ("and", Level::Not),
                    _ => ("or", Level::And),
                };
                out.push(Task::Open(2));
                // A map is applied where its source is known to be in range, by what stands to the left.
                let (applied, plain): (Vec<&Pred>, Vec<&Pred>) = ps.iter().partition(|p| p.applies_maps());
                for (at, p) in plain.into_iter().chain(applied).enumerate() {
                    if at > 0 {
                        out.extend([Task::Fill, Task::text(self.symbol(word)), Task::text(" ")]);
                    }
                    self.pred(p, inner, out);
                }
                out.push(Task::Close);
            }
            Pred::Exists { index, extent, body } => {
                self.take_index(*index);
                let head = format!("{} {} < {}", self.symbol("exists"), self.index(*index), self.affine(extent));
                out.push(Task::text(head + if self.latex() { ".\\ " } else { ". " }));
                self.pred(body, Level::Open, out);
                self.names.leave();
            }
        }
    }

    /// What does not exist, where a count is 0 that is written in its bracket.
    fn nowhere(&self, relation: RelationRef) -> Option<Pred> {
        let RelationRef::Computed { var, view: View::Support } = relation else { return None };
        counted(self.program, *self.folded.get(&var)?)
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
            folded: BTreeMap::new(),
            spelt: BTreeSet::new(),
            largest: BTreeMap::new(),
            folded_sums: BTreeSet::new(),
            top: program.root,
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
        }
    }

    fn atom(&self, relation: RelationRef, args: &[Affine], holds: bool, out: &mut Vec<Task>) {
        let equals = if holds { "=" } else { self.symbol("!=") };
        let unequal = if holds { self.symbol("!=") } else { "=" };
        match relation {
            RelationRef::Input(_) if self.is_equation(relation, args) => {
                let (target, source) = args.split_last().map_or((None, args), |(last, rest)| (Some(last), rest));
                let target = target.map(|a| self.affine(a)).unwrap_or_default();
                let application = Application { map: relation, args: source.to_vec() };
                out.push(Task::text(format!(
                    "{} {equals} {target}",
                    self.index_var(&Var::Apply(Box::new(application)))
                )));
            }
            RelationRef::Input(r) => {
                let not = if holds { "" } else { self.symbol("not") };
                let space = if holds { "" } else { " " };
                out.push(Task::text(format!("{not}{space}{}({})", self.relation(r), self.list(args))));
            }
            RelationRef::Computed { var, view: View::Support } => match self.folded.get(&var) {
                Some(comparison) => {
                    if !holds {
                        out.extend([Task::text(self.symbol("not")), Task::text(" ")]);
                    }
                    out.push(Task::Term(*comparison, Level::Comparison));
                }
                None => {
                    let (x, args) = (self.var(var), self.list(args));
                    let read = match (args.is_empty(), self.latex()) {
                        (true, _) => x,
                        (false, true) => format!("{x}_{{{args}}}"),
                        (false, false) => format!("{x}[{args}]"),
                    };
                    out.push(Task::text(format!("{read} {unequal} 0")));
                }
            },
            RelationRef::Computed { var, view: view @ (View::ArgMax | View::ArgMin) } => {
                let (place, args) = args.split_last().map_or((None, args), |(place, args)| (Some(place), args));
                let place = place.map(|a| self.affine(a)).unwrap_or_default();
                out.push(Task::text(format!("{} {equals} {place}", self.arg_max(var, view, args))));
            }
        }
    }

    /// Whether an atom is written `f(i) = j`.
    fn is_equation(&self, relation: RelationRef, args: &[Affine]) -> bool {
        let RelationRef::Input(r) = relation else { return false };
        let kind = self.program.signature.relations.get(r).map(|r| r.kind);
        kind == Some(RelationKind::Map) && args.len() > 1 && args.iter().all(|a| a.nesting() == 0)
    }

    /// `0 <= a`, with everything on the side where it is positive.
    fn bound(&self, a: &Affine) -> String {
        let (le, ge) = (self.symbol("<="), self.symbol(">="));
        let Some((plus, minus)) = split(a) else { return format!("{} {ge} 0", self.affine(a)) };
        let constant = a.offset();
        // Its opposite is no 64-bit integer: 0 <= a - 2^63  ==  2^63 - 1 < a
        let Some(opposite) = constant.checked_neg() else {
            let (plus, minus, limit) = (self.linear(plus), self.linear(minus), i64::MAX);
            return match (plus.is_empty(), minus.is_empty()) {
                (_, true) => format!("{plus} > {limit}"),
                (true, false) => format!("{minus} < -{limit}"),
                (false, false) => format!("{minus} + {limit} < {plus}"),
            };
        };
        match (plus.is_empty(), minus.is_empty()) {
            // 0 <= p + c
            (_, true) => format!("{} {ge} {opposite}", self.linear(plus)),
            // m <= c
            (true, false) => format!("{} {le} {constant}", self.linear(minus)),
            (false, false) => {
                let (plus, minus) = (self.linear(plus), self.linear(minus));
                match constant {
                    -1 => format!("{minus} < {plus}"),
                    0 => format!("{minus} {le} {plus}"),
                    1.. => format!("{minus} {le} {plus} + {constant}"),
                    _ => format!("{minus} + {opposite} {le} {plus}"),
                }
            }
        }
    }

    /// `a = 0`, with everything on the side where it is positive.
    fn equation(&self, a: &Affine, equals: &str) -> String {
        // With a magnitude that is no 64-bit integer everything stays on one side.
        let (Some((plus, minus)), constant, Some(opposite)) = (split(a), a.offset(), a.offset().checked_neg()) else {
            return format!("{} {equals} 0", self.affine(a));
        };
        let flat = |v: &Var| matches!(v, Var::Apply(application) if application.args.iter().all(|a| a.nesting() == 0));
        let alone = |one: &Multiples<'_>, other: &Multiples<'_>, constant: i64| {
            let other_flat = other.iter().all(|(v, _)| !matches!(v, Var::Apply(_)));
            matches!(one.as_slice(), [(v, 1)] if flat(v)) && other_flat && constant <= 0
        };
        // `f(i) = j` is an atom of the map, this is not.
        if alone(&plus, &minus, constant) || alone(&minus, &plus, opposite) {
            return match (a.terms(), constant) {
                ([(v, _)], 0) => format!("{} {equals} 0", self.multiple(v, 2)),
                _ => format!("{} {equals} 0", self.affine(a)),
            };
        }
        let (plus, minus) = (self.linear(plus), self.linear(minus));
        match (plus.is_empty(), minus.is_empty()) {
            (_, true) => format!("{plus} {equals} {opposite}"),
            (true, false) => format!("{minus} {equals} {constant}"),
            (false, false) => match constant {
                0 => format!("{plus} {equals} {minus}"),
                1.. => format!("{plus} + {constant} {equals} {minus}"),
                _ => format!("{plus} {equals} {minus} + {opposite}"),
            },
        }
    }
}

type Multiples<'a> = Vec<(&'a Var, u64)>;

/// The terms with positive and those with negative coefficients, by magnitude; nothing where a magnitude is no 64-bit integer.
fn split(a: &Affine) -> Option<(Multiples<'_>, Multiples<'_>)> {
    if a.terms().iter().any(|(_, k)| *k == i64::MIN) {
        return None;
    }
    let side = |positive: bool| {
        let side = a.terms().iter().filter(|(_, k)| (*k > 0) == positive);
        side.map(|(v, k)| (v, k.unsigned_abs())).collect()
    };
    Some((side(true), side(false)))
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

/// The name of a built-in function in the language; a made-up word for those written as operators.
fn op_name(op: Op) -> Cow<'static, str> {
    match op {
        Op::Div => "div".into(),
        Op::Powi(_) => "powi".into(),
        op => op.name(),
    }
}

#[cfg(test)]
#[path = "print_tests.rs"]
mod tests;
