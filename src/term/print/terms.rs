//! Terms as tasks, by level: chains of sums and products, applications, binders, accesses, `let`s.

use std::borrow::Cow;

use super::fold::{is_entry, is_minus_one, negated, peel_access};
use super::{Level, Printer, Style, Task, name_of, set};
use crate::base::typeset::APPLY;
use crate::base::{Id, IndexId, VarId};
use crate::index::{Affine, Pred, RelationRef, View};
use crate::scalar::{Comparison, Function, Number, Op, Primitive};
use crate::term::data::{Term, TermId};

/// How many terms are looked at to find an index.
const MAX_LOOKED_AT: usize = 256;

impl<'a> Printer<'a> {
    pub(super) fn term(&mut self, id: TermId, level: Level, last: bool, out: &mut Vec<Task>) {
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
        if let Some(scan) = self.fold(id) {
            return self.scan("fold", scan, out);
        }
        match &program.terms[id] {
            Term::Number(Number::Literal(x)) => out.push(Task::text(self.literal(*x))),
            Term::Number(Number::Index(a)) => {
                let text = self.affine(a);
                let plain = a.as_index().is_some() || a.as_size().is_some() || self.typeset();
                out.push(Task::text(if plain { text } else { format!("real({text})") }));
            }
            Term::Var(x) => out.push(Task::text(self.var(*x))),
            Term::Add(..) => self.sum(id, out),
            term @ Term::Mul(..) => match negated(program, term) {
                Some(e) => out.extend([Task::text("-"), Task::Term(e, Level::Power)]),
                None => self.product(id, out),
            },
            Term::Apply(f, args) => self.apply(id, *f, args, out),
            Term::Call { function, args, .. } => {
                self.apply(id, Function::Value(Primitive::User(*function)), args, out);
            }
            Term::Pair(a, b) => self.pair(*a, *b, out),
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
                    out.extend([Task::Open(2), Task::text("[")]);
                    self.pred(guard, Level::Open, out);
                    out.push(Task::text("]"));
                    // A bracket alone is 1 or 0.
                    if !matches!(program.terms[*body], Term::Number(Number::Literal(x)) if x == 1.0) {
                        let level = if self.reads_as_difference(*body) { Level::Power } else { Level::Bracket };
                        let body = if last { Task::Last(*body, level) } else { Task::Term(*body, level) };
                        out.extend([self.times(), Task::Fill, body]);
                    }
                    out.push(Task::Close);
                }
            },
            Term::Let { var, body, .. } if self.folded.contains_key(var) => {
                out.push(if last { Task::Last(*body, level) } else { Task::Term(*body, level) });
            }
            Term::Let { var, value, body } => self.binding(id, *var, *value, *body, out),
            Term::Scan { .. } => self.scan("scan", id, out),
        }
    }

    /// The scan of which a term is the last state that is made.
    fn fold(&self, id: TermId) -> Option<TermId> {
        let Term::Access { array, index } = &self.program.terms[id] else { return None };
        let Term::Scan { steps, down, .. } = &self.program.terms[*array] else { return None };
        let last = if *down { *index == Affine::constant(0) } else { index == steps };
        last.then_some(*array)
    }

    /// What `fold i < n, p = 1. p * e` multiplies: it is `prod i < n. e`.
    fn factor(&self, word: &str, id: TermId) -> Option<TermId> {
        let terms = &self.program.terms;
        let Term::Scan { down: false, state, init, body, implicit: None, .. } = &terms[id] else { return None };
        let Term::Mul(before, factor) = &terms[*body] else { return None };
        let one = matches!(terms[*init], Term::Number(Number::Literal(x)) if x == 1.0);
        let reads = self.reads.get(state.index()).copied().unwrap_or(0);
        (word == "fold" && one && terms[*before] == Term::Var(*state) && reads == 1).then_some(*factor)
    }

    /// `scan t < n, s = e0. e`, or `fold` alike.
    fn scan(&mut self, word: &'static str, id: TermId, out: &mut Vec<Task>) {
        let Term::Scan { index, steps, down, state, init, body, implicit } = &self.program.terms[id] else { return };
        let most = implicit.as_ref().map(|most| self.affine(most));
        let (index, down, state, init, body) = (*index, *down, *state, *init, *body);
        let steps = self.affine(steps);
        self.take_index(index);
        if let Some(factor) = self.factor(word, id) {
            let (index, word) = (self.index(index), self.symbol("prod"));
            let range = match self.latex() {
                true => format!("{word}_{{{index} < {steps}}}"),
                false => format!("{word} {index} < {steps}."),
            };
            out.extend([Task::Open(2), Task::text(range), Task::Line, Task::Last(factor, Level::Open)]);
            out.extend([Task::Close, Task::Leave]);
            return;
        }
        let (name, body, taken) = match self.pattern(state, body) {
            Some((parts, rest)) => {
                let named = parts.iter().all(|(x, _)| self.states.contains(x));
                let taken = if named { 0 } else { parts.len() };
                (self.take_pattern(&parts, named), rest, taken)
            }
            None if self.states.contains(&state) => (self.var(state), body, 0),
            None => (self.take_var(state), body, 1),
        };
        let (index, word) = (self.index(index), self.symbol(if most.is_some() { "fixpoint" } else { word }));
        let range = match (self.latex(), down) {
            _ if most.is_some() => format!("{word} {name} = "),
            (true, false) => format!("{word}_{{{index} < {steps}}} {name} = "),
            (true, true) => format!("{word}_{{{index} < {steps} \\downarrow}} {name} = "),
            (false, false) => format!("{word} {index} < {steps}, {name} = "),
            (false, true) => format!("{word} {index} < {steps} down, {name} = "),
        };
        let end = most.map_or_else(|| ".".to_owned(), |most| format!(", at most {most}."));
        out.extend([Task::Open(2), Task::text(range), Task::Term(init, Level::Or), Task::text(end), Task::Line]);
        out.extend([Task::Last(body, Level::Open), Task::Close]);
        out.extend(std::iter::repeat_with(|| Task::Leave).take(1 + taken));
    }

    /// `(a, b, c)`.
    fn pair(&self, a: TermId, b: TermId, out: &mut Vec<Task>) {
        let (open, close) = self.parentheses();
        out.extend([Task::text(open), Task::Align, Task::Last(a, Level::Open), Task::text(","), Task::Line]);
        // `(a, (b, c))` reads the same with and without the inner parentheses.
        let mut rest = b;
        while let Term::Pair(a, b) = &self.program.terms[rest] {
            out.extend([Task::Last(*a, Level::Open), Task::text(","), Task::Line]);
            rest = *b;
        }
        out.extend([Task::Last(rest, Level::Open), Task::Close, Task::text(close)]);
    }

    /// The variables of a pattern, each with the way to its part, that a body takes a variable apart with, and what stands behind: `let`s of all parts in
    /// order, which nothing else reads.
    fn pattern(&self, whole: VarId, body: TermId) -> Option<(Parts, TermId)> {
        let terms = &self.program.terms;
        let mut parts = Parts::new();
        let mut rest = body;
        while let Term::Let { var, value, body } = &terms[rest] {
            let mut path = Vec::new();
            let mut of = *value;
            while let Term::Fst(e) | Term::Snd(e) = &terms[of] {
                path.push(matches!(terms[of], Term::Fst(_)));
                of = *e;
            }
            if path.is_empty() || terms[of] != Term::Var(whole) {
                break;
            }
            path.reverse();
            parts.push((*var, path));
            rest = *body;
        }
        let reads = self.reads.get(whole.index()).copied().unwrap_or(0);
        let paths: Vec<&[bool]> = parts.iter().map(|(_, path)| path.as_slice()).collect();
        (reads as usize == parts.len() && covers(&paths, 0)).then_some((parts, rest))
    }

    /// A pattern with names for its variables, which have them already or not.
    fn take_pattern(&mut self, parts: &Parts, named: bool) -> String {
        let names: Vec<String> =
            parts.iter().map(|(x, _)| if named { self.var(*x) } else { self.take_var(*x) }).collect();
        let paths: Vec<&[bool]> = parts.iter().map(|(_, path)| path.as_slice()).collect();
        spelt(&paths, &names, 0)
    }

    /// The state of a scan, or the parts of it, have the names of the variables that the scan is the value of where these are alike, as in
    /// `let h = scan t < n, h = h0. e`.
    fn name_states(&mut self, scan: TermId, vars: &[VarId]) {
        let Term::Scan { state, body, .. } = &self.program.terms[scan] else { return };
        let states = match self.pattern(*state, *body) {
            Some((parts, _)) => parts.into_iter().map(|(x, _)| x).collect(),
            None => vec![*state],
        };
        let wish = |x: &VarId| self.program.variables.get(*x).map(|x| x.name.as_str());
        if states.iter().map(wish).eq(vars.iter().map(wish)) {
            for (state, var) in states.iter().zip(vars) {
                let name = name_of(&self.vars, *var);
                set(&mut self.vars, state.index(), name);
                self.states.insert(*state);
            }
        }
    }

    /// `let x = value in body`, each on a line of its own.
    fn binding(&mut self, id: TermId, var: VarId, value: TermId, body: TermId, out: &mut Vec<Task>) {
        let scan = self.fold(value).unwrap_or(value);
        let is_scan = matches!(self.program.terms[scan], Term::Scan { .. });
        let (name, body, taken) = match self.pattern(var, body).filter(|_| is_scan && scan != value) {
            Some((parts, rest)) => {
                let name = self.take_pattern(&parts, false);
                let vars: Vec<VarId> = parts.iter().map(|(x, _)| *x).collect();
                self.name_states(scan, &vars);
                (name, rest, vars.len())
            }
            None => {
                let name = self.take_var(var);
                self.name_states(scan, &[var]);
                (name, body, 1)
            }
        };
        let head = match self.style {
            Style::Latex => format!("\\text{{let }} {name} = "),
            _ => format!("let {name} = "),
        };
        // A `let` in the value of another one is set off.
        let value = match self.program.terms[value] {
            Term::Let { .. } => Task::Term(value, Level::Or),
            _ => Task::Last(value, Level::Open),
        };
        out.extend([Task::Open(2), Task::text(head), value, Task::Close]);
        match (self.style, id == self.top) {
            (Style::Ascii | Style::Unicode, _) | (Style::MathMl, true) => out.extend([Task::Hard, Task::text("in ")]),
            (Style::MathMl, false) => out.extend([Task::Line, Task::text("in ")]),
            (Style::Latex, true) => out.extend([Task::text(" \\\\"), Task::Hard, Task::text("& \\text{in } ")]),
            (Style::Latex, false) => out.push(Task::text(" \\text{ in } ")),
        }
        if id == self.top {
            self.top = body;
        }
        out.push(Task::Last(body, Level::Open));
        out.extend(std::iter::repeat_with(|| Task::Leave).take(taken));
    }

    fn times(&self) -> Task {
        match self.style {
            Style::Ascii => Task::text(" *"),
            Style::Unicode | Style::MathMl => Task::text(" ·"),
            Style::Latex => Task::text(" \\cdot"),
        }
    }

    fn level(&self, id: TermId) -> Level {
        let program = self.program;
        if self.largest.contains_key(&id) {
            return Level::Open;
        }
        if self.fold(id).is_some() {
            return Level::Open;
        }
        match &program.terms[id] {
            Term::Number(Number::Literal(x)) if x.is_sign_negative() && !x.is_nan() => Level::Unary,
            Term::Number(Number::Index(a)) if self.typeset() && a.terms().len() != 1 => Level::Sum,
            Term::Number(_) | Term::Var(_) | Term::Access { .. } | Term::Pair(..) => Level::Postfix,
            Term::Add(..) => Level::Sum,
            term @ Term::Mul(..) => match negated(program, term) {
                Some(_) => Level::Unary,
                None => Level::Product,
            },
            Term::Apply(Function::Value(Primitive::Op(op)), _) => match op {
                // A power of a fraction has parentheses.
                Op::Div if self.typeset() => Level::Power,
                Op::Div => Level::Product,
                Op::Powi(_) => Level::Power,
                Op::Pow if self.typeset() => Level::Power,
                Op::Expm1 if self.latex() => Level::Sum,
                Op::Xlogy if self.latex() => Level::Product,
                Op::Compare(_) if self.spelt.contains(&id) => Level::Comparison,
                _ => Level::Postfix,
            },
            Term::Apply(..) | Term::Call { .. } => Level::Postfix,
            Term::Fst(_) | Term::Snd(_) => Level::Projection,
            Term::Gen { .. } | Term::Sum { .. } | Term::Scan { .. } => Level::Open,
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
                    // Digits side by side would be one number.
                    let digits = self.typeset() && matches!(program.terms[*b], Term::Number(Number::Literal(_)));
                    chain.push(match (digits, self.style) {
                        (true, Style::Latex) => ("\\cdot", *b),
                        (true, _) => ("·", *b),
                        (false, _) => (self.symbol("*"), *b),
                    });
                    first = *a;
                }
                Term::Apply(Function::Value(Primitive::Op(Op::Div)), args) if args.len() == 2 && !self.typeset() => {
                    chain.push(("/", args[1]));
                    first = args[0];
                }
                _ => break,
            }
        }
        // Where no sign stands between factors a `-` would be read as a difference.
        let level = if self.typeset() { Level::Power } else { Level::Unary };
        out.extend([Task::Open(2), Task::Term(first, Level::Product)]);
        for (sign, e) in chain.into_iter().rev() {
            out.extend([Task::Fill, Task::text(sign), Task::text(" "), Task::Term(e, level)]);
        }
        out.push(Task::Close);
    }

    /// Whether a product begins with a `-`, where factors stand side by side.
    fn reads_as_difference(&self, mut id: TermId) -> bool {
        let terms = &self.program.terms;
        while self.typeset() {
            id = match &terms[id] {
                Term::Number(Number::Literal(x)) => return x.is_sign_negative() && !x.is_nan(),
                term if negated(self.program, term).is_some() => return true,
                Term::Mul(a, _) => *a,
                _ => break,
            };
        }
        false
    }

    /// The dividend of a fraction and all that it is divided by, one after the other.
    fn fraction(&self, a: TermId, b: TermId) -> (TermId, Vec<TermId>) {
        let (mut above, mut below) = (a, vec![b]);
        while let Term::Apply(Function::Value(Primitive::Op(Op::Div)), args) = &self.program.terms[above]
            && let [a, b] = args.as_slice()
        {
            above = *a;
            below.push(*b);
        }
        below.reverse();
        (above, below)
    }

    /// What stands below in a fraction.
    fn below(&self, factors: &[TermId], out: &mut Vec<Task>) {
        match factors {
            [only] => out.push(Task::Last(*only, Level::Open)),
            factors => {
                for (at, e) in factors.iter().enumerate() {
                    if at > 0 {
                        out.extend([Task::text(" "), Task::text(self.symbol("*")), Task::text(" ")]);
                    }
                    out.push(Task::Term(*e, Level::Power));
                }
            }
        }
    }

    /// `a <= b`, or its opposite.
    pub(super) fn comparison(&self, id: TermId, holds: bool, out: &mut Vec<Task>) {
        let Term::Apply(Function::Value(Primitive::Op(Op::Compare(comparison))), args) = &self.program.terms[id] else {
            return out.push(Task::Term(id, Level::Comparison));
        };
        let [a, b] = args.as_slice() else { return };
        // `x > 0` reads better than `0 < x`, and is the same.
        let number = |e: TermId| matches!(self.program.terms[e], Term::Number(_));
        let turned = number(*a) && !number(*b);
        let sign = match (comparison, turned, holds) {
            (Comparison::Less, false, true) => "<",
            (Comparison::Less, true, true) => ">",
            (Comparison::LessEqual, false, true) => self.symbol("<="),
            (Comparison::LessEqual, true, true) => self.symbol(">="),
            (Comparison::Less, false, false) => self.symbol("not <"),
            (Comparison::Less, true, false) => self.symbol("not >"),
            (Comparison::LessEqual, false, false) => self.symbol("not <="),
            (Comparison::LessEqual, true, false) => self.symbol("not >="),
            (Comparison::Equal, _, true) | (Comparison::NotEqual, _, false) => "=",
            (Comparison::NotEqual, _, true) | (Comparison::Equal, _, false) => self.symbol("!="),
        };
        let (a, b) = if turned { (*b, *a) } else { (*a, *b) };
        out.extend([Task::Open(2), Task::Term(a, Level::Sum), Task::Fill, Task::text(sign), Task::text(" ")]);
        out.extend([Task::Term(b, Level::Sum), Task::Close]);
    }

    fn apply(&self, id: TermId, f: Function, args: &[TermId], out: &mut Vec<Task>) {
        match (f, args) {
            (Function::Value(Primitive::Op(Op::Div)), [a, b]) if self.mathml() => {
                let (a, b) = self.fraction(*a, *b);
                out.extend([Task::Begin("mfrac"), Task::Begin("mrow"), Task::Last(a, Level::Open), Task::End("mrow")]);
                out.push(Task::Begin("mrow"));
                self.below(&b, out);
                out.extend([Task::End("mrow"), Task::End("mfrac")]);
            }
            (Function::Value(Primitive::Op(Op::Sqrt)), [a]) if self.mathml() => {
                out.extend([Task::Begin("msqrt"), Task::Last(*a, Level::Open), Task::End("msqrt")]);
            }
            (Function::Value(Primitive::Op(Op::Cbrt)), [a]) if self.mathml() => {
                out.extend([Task::Begin("mroot"), Task::Begin("mrow"), Task::Last(*a, Level::Open), Task::End("mrow")]);
                out.extend([Task::text("3"), Task::End("mroot")]);
            }
            (Function::Value(Primitive::Op(Op::Powi(k))), [a]) if self.mathml() => {
                out.extend([Task::Begin("msup"), Task::Begin("mrow"), Task::Term(*a, Level::Projection)]);
                out.extend([Task::End("mrow"), Task::Begin("mrow"), Task::text(k.to_string())]);
                out.extend([Task::End("mrow"), Task::End("msup")]);
            }
            (Function::Value(Primitive::Op(Op::Div)), [a, b]) if self.latex() => {
                let (a, b) = self.fraction(*a, *b);
                out.extend([Task::text("\\frac{"), Task::Last(a, Level::Open), Task::text("}{")]);
                self.below(&b, out);
                out.push(Task::text("}"));
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
            // As a value a comparison is a function, `less(a, b)`, and in formulas a bracket; in a bracket it is written as an operator.
            (Function::Value(Primitive::Op(Op::Compare(_))), [_, _]) if self.spelt.contains(&id) => {
                self.comparison(id, true, out);
            }
            (Function::Value(Primitive::Op(Op::Compare(_))), [_, _]) if self.typeset() => {
                out.push(Task::text("["));
                self.comparison(id, true, out);
                out.push(Task::text("]"));
            }
            (Function::Value(Primitive::Op(Op::Pow)), [a, b]) if self.mathml() => {
                out.extend([Task::Begin("msup"), Task::Begin("mrow"), Task::Term(*a, Level::Projection)]);
                out.extend([Task::End("mrow"), Task::Begin("mrow"), Task::Last(*b, Level::Open)]);
                out.extend([Task::End("mrow"), Task::End("msup")]);
            }
            (Function::Value(Primitive::Op(Op::Pow)), [a, b]) if self.latex() => {
                out.extend([Task::Term(*a, Level::Projection), Task::text("^{"), Task::Last(*b, Level::Open)]);
                out.push(Task::text("}"));
            }
            (Function::Value(Primitive::Op(Op::Abs)), [a]) if self.latex() => {
                out.extend([Task::text("\\left|"), Task::Last(*a, Level::Open), Task::text("\\right|")]);
            }
            (Function::Value(Primitive::Op(Op::Log1p)), [a]) if self.latex() => {
                out.extend([Task::text("\\ln\\left(1 + "), Task::Term(*a, Level::Bracket), Task::text("\\right)")]);
            }
            (Function::Value(Primitive::Op(Op::Expm1)), [a]) if self.latex() => {
                out.extend([Task::text("\\exp\\left("), Task::Last(*a, Level::Open), Task::text("\\right) - 1")]);
            }
            (Function::Value(Primitive::Op(Op::Xlogy)), [a, b]) if self.latex() => {
                out.extend([Task::Term(*a, Level::Product), Task::text(" \\, \\ln\\left(")]);
                out.extend([Task::Last(*b, Level::Open), Task::text("\\right)")]);
            }
            _ => self.call(f, args, out),
        }
    }

    /// A function with its arguments in parentheses.
    fn call(&self, f: Function, args: &[TermId], out: &mut Vec<Task>) {
        let name = self.function(f);
        let (open, close) = self.parentheses();
        let name = if self.mathml() { format!("{name}{APPLY}") } else { name };
        out.extend([Task::text(name), Task::text(open), Task::Open(2), Task::Soft]);
        for (at, e) in args.iter().enumerate() {
            if at > 0 {
                out.extend([Task::text(","), Task::Line]);
            }
            out.push(Task::Last(*e, Level::Open));
        }
        out.extend([Task::Close, Task::text(close)]);
    }

    pub(super) fn function(&self, f: Function) -> String {
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
        } else if self.mathml() {
            out.extend([Task::Open(2), Task::text(format!("{} {bound}. ", self.symbol(word)))]);
        } else {
            out.extend([Task::Open(2), Task::text(self.symbol(word)), Task::text(format!(" {bound}."))]);
        }
        let body = match word == "sum" && self.is_misread(id, rest) {
            true => Task::Term(rest, Level::Product),
            false => Task::Last(rest, Level::Open),
        };
        out.extend([Task::Line, body, Task::Close]);
        out.extend(std::iter::repeat_with(|| Task::Leave).take(scopes));
    }

    /// Whether the body of a sum ends with a term that has fewer of its indices than another: `sum i < n. x[i] + b` is easily read as
    /// `(sum i < n. x[i]) + b`, so the body stands in parentheses.
    fn is_misread(&self, sum: TermId, body: TermId) -> bool {
        let mut indices = Vec::new();
        let mut e = sum;
        while let (Term::Sum { index, body, .. }, true) = (&self.program.terms[e], e != body) {
            indices.push(*index);
            e = *body;
        }
        let mut terms = Vec::new();
        let mut rest = body;
        while let (Term::Add(a, b), true) = (&self.program.terms[rest], terms.len() < MAX_LOOKED_AT) {
            terms.push(*b);
            rest = *a;
        }
        terms.push(rest);
        let (shared, missing): (Vec<IndexId>, Vec<IndexId>) =
            indices.iter().partition(|index| self.depends(terms[0], &[**index]));
        // A term that has all the indices of the last one, and more.
        let has_more =
            |term: &TermId| self.depends(*term, &missing) && shared.iter().all(|index| self.depends(*term, &[*index]));
        !missing.is_empty() && terms.iter().any(has_more)
    }

    /// Whether one of some indices occurs in a term, or the term is too long to tell.
    fn depends(&self, term: TermId, indices: &[IndexId]) -> bool {
        let mut stack = vec![term];
        let mut looked_at = 0;
        while let Some(e) = stack.pop() {
            looked_at += 1;
            let found = match &self.program.terms[e] {
                Term::Number(Number::Index(a)) | Term::Access { index: a, .. } => {
                    indices.iter().any(|i| a.mentions(*i))
                }
                Term::Iverson { guard, .. } => indices.iter().any(|i| guard.mentions(*i)),
                _ => false,
            };
            if found || looked_at > MAX_LOOKED_AT {
                return true;
            }
            self.program.terms[e].for_each_operand(|e| stack.push(e));
        }
        false
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
        let (mut array, mut indices) = peel_access(self.program, id);
        // What is taken of a last state.
        if let (Term::Scan { .. }, true) = (&self.program.terms[array], indices.len() > 1) {
            let mut inner = id;
            while let Term::Access { array: of, .. } = &self.program.terms[inner]
                && *of != array
            {
                inner = *of;
            }
            if self.fold(inner).is_some() {
                (array, indices) = (inner, indices.split_off(1));
            }
        }
        let args = self.list(indices.iter().copied());
        match &self.program.terms[array] {
            Term::Var(x) if self.pattern_rank(*x) == Some(indices.len()) => {
                let x = self.var(*x);
                out.push(Task::text(match self.style {
                    Style::Ascii | Style::Unicode => format!("{x}.value({args})"),
                    Style::Latex => format!("{x}_{{{args}}}"),
                    Style::MathMl => format!("{x}[{args}]"),
                }));
            }
            Term::Var(x) if self.mathml() => out.push(Task::text(format!("{}[{args}]", self.var(*x)))),
            _ if self.mathml() => {
                out.extend([Task::Begin("msub"), Task::Begin("mrow"), Task::Term(array, Level::Postfix)]);
                out.extend([Task::End("mrow"), Task::Begin("mrow"), Task::text(args)]);
                out.extend([Task::End("mrow"), Task::End("msub")]);
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

    /// The shortest decimal that reads as the same number.
    pub(super) fn literal(&self, x: f64) -> String {
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
}

/// The variables of a pattern, each with the way to its part of the whole, `true` for the first of a pair.
type Parts = Vec<(VarId, Vec<bool>)>;

/// Whether paths are those of all leaves of a tree, in order, from a depth on. They are as deep as types nest.
fn covers(paths: &[&[bool]], depth: usize) -> bool {
    match paths {
        [] => false,
        [only] if only.len() == depth => depth > 0,
        _ => {
            let firsts = paths.iter().take_while(|path| path.get(depth) == Some(&true)).count();
            let (first, second) = paths.split_at(firsts);
            second.iter().all(|path| path.get(depth) == Some(&false))
                && covers(first, depth + 1)
                && covers(second, depth + 1)
        }
    }
}

/// A pattern as text.
fn spelt(paths: &[&[bool]], names: &[String], depth: usize) -> String {
    let mut items = Vec::new();
    let (mut paths, mut names, mut depth) = (paths, names, depth);
    // `(a, (b, c))` reads the same as `(a, b, c)`.
    while paths.len() > 1 {
        let firsts = paths.iter().take_while(|path| path.get(depth) == Some(&true)).count();
        items.push(spelt(&paths[..firsts], &names[..firsts], depth + 1));
        (paths, names) = (&paths[firsts..], &names[firsts..]);
        depth += 1;
    }
    items.extend(names.first().cloned());
    match items.as_slice() {
        [one] => one.clone(),
        _ => format!("({})", items.join(", ")),
    }
}

/// The name of a built-in function in the language; a made-up word for those written as operators.
fn op_name(op: Op) -> Cow<'static, str> {
    match op {
        Op::Div => "div".into(),
        Op::Powi(_) => "powi".into(),
        op => op.name(),
    }
}
