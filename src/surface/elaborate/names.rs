//! Scopes: what a name means at a place.
//!
//! A name is looked up among the local bindings of the definition being expanded, then among the declarations. Local bindings of a
//! caller are on the same stacks but belong to another depth, so a definition does not see them, nor they it.

use rustc_hash::FxHashMap;

use super::super::ast::{BinaryOp, Expr, ExprId};
use super::Elaborator;
use super::functions::ShapeId;
use crate::base::{FunctionId, IndexId, RelationId, SizeId, Span, VarId, work};
use crate::error::Diagnostic;
use crate::foreign;
use crate::index::Size;

/// What a declaration introduced.
#[derive(Clone, Copy, Debug)]
pub(super) enum Global {
    Size(SizeId),
    Param(VarId),
    Relation(RelationId),
    Map(RelationId),
    Function(FunctionId),
    Definition(usize),
    /// A constructor: its type and its number.
    Constructor(usize, usize),
    /// A parameter of a sum type.
    Sum(usize),
    /// Declared with a problem that has been reported.
    Error,
}

impl Global {
    pub(super) fn noun(self) -> &'static str {
        match self {
            Global::Size(_) => "a size",
            Global::Param(_) | Global::Sum(_) => "a parameter",
            Global::Relation(_) => "a relation",
            Global::Map(_) => "a map",
            Global::Function(_) | Global::Definition(_) => "a function",
            Global::Constructor(..) => "a constructor",
            Global::Error => "an erroneous declaration",
        }
    }
}

/// What a local name is bound to.
#[derive(Clone, Debug)]
pub(super) enum Binding {
    Var(VarId),
    Index(IndexId),
    /// Bound by an `exists`: the place of the index in the innermost anchors, see `computed`.
    Quantified {
        anchor: usize,
        slot: usize,
    },
    /// A size variable of a definition.
    Size(Size),
    /// A value that holds a function.
    Function(ShapeId),
    Error,
}

/// What a name means as an operand.
#[derive(Clone, Debug)]
pub(super) enum Meaning {
    Var(VarId),
    Index(IndexId),
    Size(Size),
    Function(ShapeId),
    /// Something that is called.
    Callable(Global),
    Error,
    Unknown,
}

/// The local bindings.
#[derive(Default)]
pub(super) struct Scopes<'a> {
    names: FxHashMap<&'a str, Vec<(usize, Binding)>>,
}

impl<'a> Scopes<'a> {
    /// Binds a name at a depth of expansion.
    pub(super) fn bind(&mut self, name: &'a str, depth: usize, binding: Binding) {
        self.names.entry(name).or_default().push((depth, binding));
    }

    /// Ends the innermost binding of a name.
    pub(super) fn unbind(&mut self, name: &str) {
        if let Some(bindings) = self.names.get_mut(name) {
            bindings.pop();
        }
    }

    pub(super) fn find(&self, name: &str, depth: usize) -> Option<&Binding> {
        match self.names.get(name)?.last()? {
            (at, binding) if *at == depth => Some(binding),
            _ => None,
        }
    }

    /// Replaces the innermost binding of a name that was reported, so that other uses are no further problems.
    pub(super) fn spoil(&mut self, name: &str) {
        if let Some((_, binding)) = self.names.get_mut(name).and_then(|bindings| bindings.last_mut()) {
            *binding = Binding::Error;
        }
    }

    fn visible(&self, depth: usize) -> impl Iterator<Item = &'a str> {
        self.names.iter().filter(move |(_, b)| b.last().is_some_and(|(at, _)| *at == depth)).map(|(name, _)| *name)
    }
}

/// How many units of work are spent on a name that is close to a misspelt one.
const MAX_COMPARING: u64 = 1 << 18;

/// The number of edits (insert, delete, replace, swap neighbours) that turn `a` into `b`, nothing where it is over `limit`. Only places that are
/// so close to each other are compared.
fn edits(a: &[char], b: &[char], limit: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > limit {
        return None;
    }
    work::charge(1 + a.len() * (limit + 1) / 4);
    let far = limit + 1;
    // The last three rows.
    let mut rows = [vec![far; b.len() + 1], vec![far; b.len() + 1], (0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        rows.rotate_left(1);
        let [before, above, row] = &mut rows;
        row.fill(far);
        row[0] = i;
        for j in i.saturating_sub(limit).max(1)..=(i + limit).min(b.len()) {
            let mut best = (above[j] + 1).min(row[j - 1] + 1).min(above[j - 1] + usize::from(a[i - 1] != b[j - 1]));
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row[j] = best;
        }
    }
    rows[2].last().copied().filter(|found| *found <= limit)
}

/// The name closest to a misspelt one, of as many candidates as there is time for.
pub(in crate::ir::surface) fn closest<'n>(name: &str, candidates: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    if name.len() > 64 {
        return None;
    }
    let letters: Vec<char> = name.chars().collect();
    let limit = (letters.len() / 3).max(1);
    let close = |c: &'n str| {
        work::charge(1);
        if c == name || c.len() > 72 {
            return None;
        }
        if c.eq_ignore_ascii_case(name) {
            // An index that is not bound is no size that is written in capitals.
            return (!matches!(name, "i" | "j" | "k" | "l")).then_some((0, c));
        }
        let k = edits(&letters, &c.chars().collect::<Vec<char>>(), limit)?;
        // One letter for another is no misspelling of a one-letter name.
        (letters.len() > 1).then_some((k, c))
    };
    let found = work::within(MAX_COMPARING, || candidates.take_while(|_| !work::is_used_up()).filter_map(close).min());
    found.map(|(_, c)| c)
}

impl<'a> Elaborator<'a> {
    /// How deep definitions are being expanded.
    pub(super) fn depth(&self) -> usize {
        self.callers.len()
    }

    pub(super) fn bind(&mut self, name: &'a str, binding: Binding) {
        self.scopes.bind(name, self.depth(), binding);
    }

    /// What a name means here. An index that an `exists` binds is renamed inside a term that is moved out of the bracket.
    pub(super) fn meaning(&mut self, name: &str) -> Meaning {
        match self.scopes.find(name, self.depth()) {
            Some(Binding::Var(v)) => Meaning::Var(*v),
            Some(Binding::Index(i)) => Meaning::Index(*i),
            Some(Binding::Size(n)) => Meaning::Size(n.clone()),
            Some(Binding::Function(shape)) => Meaning::Function(*shape),
            Some(Binding::Error) => Meaning::Error,
            Some(Binding::Quantified { anchor, slot }) => {
                let (anchor, slot) = (*anchor, *slot);
                Meaning::Index(self.quantified(anchor, slot))
            }
            None => match self.globals.get(name) {
                Some(Global::Param(v)) => Meaning::Var(*v),
                Some(Global::Size(n)) => Meaning::Size(Size::size(*n)),
                Some(Global::Error) => Meaning::Error,
                Some(global) => Meaning::Callable(*global),
                None => Meaning::Unknown,
            },
        }
    }

    /// The index that a name means, if it is that of a binder over values.
    pub(super) fn index_named(&self, name: &str) -> Option<IndexId> {
        match self.scopes.find(name, self.depth()) {
            Some(Binding::Index(index)) => Some(*index),
            _ => None,
        }
    }

    /// What a name means, for looking ahead only: never renames.
    pub(super) fn peek(&self, name: &str) -> Meaning {
        match self.scopes.find(name, self.depth()) {
            Some(Binding::Quantified { .. }) => Meaning::Index(IndexId(0)),
            Some(Binding::Var(v)) => Meaning::Var(*v),
            Some(Binding::Index(i)) => Meaning::Index(*i),
            Some(Binding::Size(n)) => Meaning::Size(n.clone()),
            Some(Binding::Function(shape)) => Meaning::Function(*shape),
            Some(Binding::Error) => Meaning::Error,
            None => match self.globals.get(name) {
                Some(Global::Param(v)) => Meaning::Var(*v),
                Some(Global::Size(n)) => Meaning::Size(Size::size(*n)),
                Some(Global::Error) => Meaning::Error,
                Some(global) => Meaning::Callable(*global),
                None => Meaning::Unknown,
            },
        }
    }

    /// The function that a name is bound to.
    pub(super) fn local_function(&self, name: &str) -> Option<ShapeId> {
        match self.scopes.find(name, self.depth()) {
            Some(Binding::Function(shape)) => Some(*shape),
            _ => None,
        }
    }

    /// The variable that an expression is, where it is just one.
    pub(super) fn as_variable(&self, e: ExprId) -> Option<VarId> {
        match self.expr(e) {
            Expr::Name(name) => match self.peek(name) {
                Meaning::Var(v) => Some(v),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether a name is that of a tensor.
    fn is_tensor(&self, name: &str) -> bool {
        match self.peek(name) {
            Meaning::Var(var) => {
                self.program.variables.get(var).is_some_and(|v| !self.program.types.peel(v.ty).0.is_empty())
            }
            _ => false,
        }
    }

    /// Reports a name that means nothing.
    pub(super) fn unknown(&mut self, name: &str, span: Span, as_index: bool) {
        if self.is_callable(name) {
            let message =
                format!("{} is expected, but `{name}` is a function", if as_index { "an index" } else { "a value" });
            self.diagnose(
                Diagnostic::new("not-a-value", span, message).help(format!("it is called as in `{name}(..)`")),
            );
            return;
        }
        // The line that gives it could not be read.
        if self.frame.source.ast.unread.contains(name) {
            return self.fail();
        }
        let depth = self.depth();
        let candidates = self.scopes.visible(depth).chain(self.globals.keys().copied());
        let close = closest(name, candidates).map(str::to_owned);
        let mut diagnostic = Diagnostic::new("unknown-name", span, format!("`{name}` is not defined here"));
        // `x_i`
        let element = name.split_once('_').filter(|(tensor, place)| {
            !place.is_empty() && close.as_deref().is_none_or(|close| close == *tensor) && self.is_tensor(tensor)
        });
        if let Some((tensor, place)) = element {
            self.diagnose(diagnostic.help(foreign::subscript(tensor, place)));
            return;
        }
        // The transpose of something that is wrong.
        if name.strip_suffix('\'').is_some_and(|base| matches!(self.peek(base), Meaning::Error)) {
            return self.fail();
        }
        // `y = sum(x)` as the whole program.
        let ast = self.frame.source.ast;
        if let Some(Expr::Binary(BinaryOp::Equal, left, _)) = ast.body.map(|body| &ast.exprs[body])
            && ast.spans.get(*left) == Some(&span)
        {
            self.diagnose(diagnostic.help(format!("a variable is bound by `let {name} = ..`")));
            return;
        }
        diagnostic = diagnostic.help(match close {
            _ if name == "end" => {
                "places count from 0 and the end of an axis is left out: `x[2:end]` is `x[1:]`, `x[1:end-1]` is `x[:-1]`, and `x[end]` is `x[-1]`".to_owned()
            }
            _ if name == "I" => "the identity is `eye(n)`".to_owned(),
            _ if name == "e" => "the number is `exp(1)`, and its powers are `exp(x)`".to_owned(),
            Some(close) => format!("did you mean `{close}`?"),
            None if as_index => format!("an index is bound as in `sum {name} < n. ..`"),
            None => format!("declare it, as in `param {name} : real`, or bind it by `let`, `gen` or `sum`"),
        });
        self.diagnose(diagnostic);
    }
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn closest_name() {
        for (name, candidates, expected) in [
            ("wieght", vec!["weight", "x"], Some("weight")),
            ("softmx", vec!["softplus", "softmax"], Some("softmax")),
            ("N", vec!["m", "n"], Some("n")),
            ("k", vec!["m", "n"], None),
            ("abc", vec!["xyz"], None),
            ("ab", vec!["cb", "ac"], Some("ac")),
        ] {
            assert_eq!(closest(name, candidates.into_iter()), expected, "{name}");
        }
    }
}
