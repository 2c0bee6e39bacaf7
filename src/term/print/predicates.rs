//! Index expressions and predicates, with everything on the side of a comparison where it is positive.

use std::collections::BTreeSet;

use super::fold::counted;
use super::{Level, Printer, Style, Task};
use crate::base::typeset::TIMES;
use crate::base::{Id, VarId};
use crate::index::{Affine, Application, Pred, RelationRef, Var, View, readable};
use crate::ty::RelationKind;

impl Printer<'_> {
    /// `2*i - j + n - 1`: a positive term first, the others in order.
    pub(super) fn affine(&self, a: &Affine) -> String {
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
            (_, Style::MathMl) => format!("{k}{TIMES}{name}"),
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

    pub(super) fn pred(&mut self, p: &Pred, level: Level, out: &mut Vec<Task>) {
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
            Pred::Relation { relation: relation @ RelationRef::Computed { var, .. }, holds: false, .. }
                if self.folded.contains_key(var) && !(self.typeset() && self.nowhere(*relation).is_none()) =>
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
                // A map is applied where its source is known to be in range, by what stands to the left, which applies fewer.
                let mut ps: Vec<&Pred> = ps.iter().collect();
                ps.sort_by_key(|p| p.applied());
                for (at, p) in ps.into_iter().enumerate() {
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
                // In formulas the sign is crossed out: `not a <= b` could be read as `(not a) <= b`.
                Some(comparison) if !holds && self.typeset() => self.comparison(*comparison, false, out),
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
