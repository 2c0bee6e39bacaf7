//! Tensors that NumPy makes by functions of sizes, and sums that it writes by letters.
//!
//! ```text
//! zeros(n, m)                   ==  gen i < n, j < m. 0             also of a pair, zeros((n, m)); ones alike
//! eye(n)                        ==  gen i < n, j < n. [i = j]
//! arange(n)                     ==  gen i < n. i
//! einsum("ij,jk->ik", A, B)     ==  gen i < m, k < n. sum j < l. A[i, j] * B[j, k]
//! ```
//!
//! The parts of a vector, `[a, b]`, have one shape: a number is not made as long as a vector beside it.

use super::super::ast::{BinaryOp, Expr, ExprId};
use super::{Elaborator, Task};
use crate::base::{IndexId, Span};
use crate::error::Diagnostic;
use crate::index::{Affine, Pred, Size};
use crate::scalar::Number;
use crate::term::{Term, TermId};

/// The functions that take sizes.
const OF_SIZES: [&str; 5] = ["zeros", "ones", "eye", "identity", "arange"];

/// What a call of `einsum` says: the letters of each operand, and those of the result.
struct Letters {
    operands: Vec<Vec<char>>,
    result: Vec<char>,
}

/// Reads `ij,jk->ik`. Without an arrow the result has the letters that occur once, in their order.
fn letters(text: &str) -> Option<Letters> {
    let text: String = text.chars().filter(|c| !c.is_whitespace() && *c != '"').collect();
    let (operands, result) = match text.split_once("->") {
        Some((operands, result)) => (operands, Some(result)),
        None => (text.as_str(), None),
    };
    let operands: Vec<Vec<char>> = operands.split(',').map(|part| part.chars().collect()).collect();
    let all = || operands.iter().flatten().copied();
    let result: Vec<char> = match result {
        Some(result) => result.chars().collect(),
        None => {
            let mut once: Vec<char> = all().filter(|c| all().filter(|other| other == c).count() == 1).collect();
            once.sort_unstable();
            once
        }
    };
    let distinct = result.iter().enumerate().all(|(k, c)| !result[..k].contains(c));
    let known = result.iter().all(|c| all().any(|other| other == *c));
    (distinct && known && all().all(char::is_alphabetic)).then_some(Letters { operands, result })
}

impl<'a> Elaborator<'a> {
    /// Whether a sum is that of two parts of a vector, `[a, b]`, of different shapes: it is reported.
    pub(super) fn joins_in_vector(&mut self, at: ExprId, parts: [Option<TermId>; 2]) -> bool {
        let Expr::Binary(BinaryOp::Add, first, second) = self.expr(at) else { return false };
        let (Some(last), [Some(a), Some(b)]) = (self.part_of_vector(*second), parts) else { return false };
        let (Some(long), Some(short)) = (self.real_shape(a), self.real_shape(b)) else { return false };
        if self.same_shape(&long, &short) || long.len() == short.len() && long.len() != 1 {
            return false;
        }
        let first = self.part_of_vector(*first).map_or_else(|| "a".to_owned(), |e| self.name_or(e, "a"));
        let last = self.name_or(last, "b");
        let shown = |this: &Self, shape: &[Size]| match shape {
            [] => "a number".to_owned(),
            _ => format!("one of shape `[{}]`", shape.iter().map(|n| this.show(n)).collect::<Vec<_>>().join(", ")),
        };
        let joined = match (long.as_slice(), short.as_slice()) {
            ([n], []) => Some((format!("{} + 1", self.show(n)), self.show(n), format!("{first}[i]"), last)),
            ([], [n]) => Some((format!("{} + 1", self.show(n)), "1".to_owned(), first, format!("{last}[i - 1]"))),
            ([n], [m]) => {
                let n = self.show(n);
                Some((format!("{n} + {}", self.show(m)), n.clone(), format!("{first}[i]"), format!("{last}[i - {n}]")))
            }
            _ => None,
        };
        let message =
            format!("the parts of a vector have one shape, found {} and {}", shown(self, &long), shown(self, &short));
        let help = match joined {
            Some((extent, end, a, b)) => format!("joined they are `gen i < {extent}. if i < {end} then {a} else {b}`"),
            None => {
                "tensors are joined by a choice, as in `gen i < n + m. if i < n then a[i] else b[i - n]`".to_owned()
            }
        };
        self.diagnose(Diagnostic::new("shape-mismatch", self.span(at), message).help(help));
        true
    }

    /// The part that `[i = k] * a` is of a vector.
    fn part_of_vector(&self, e: ExprId) -> Option<ExprId> {
        let Expr::Iverson { guard, body } = self.expr(e) else { return None };
        let Expr::Binary(BinaryOp::Equal, index, _) = self.expr(*guard) else { return None };
        matches!(self.expr(*index), Expr::Name(name) if name == "place in a vector").then_some(*body)
    }

    fn name_or(&self, e: ExprId, other: &str) -> String {
        match self.expr(e) {
            Expr::Name(name) => name.clone(),
            _ => other.to_owned(),
        }
    }

    /// Whether a call makes a tensor by sizes or by letters.
    pub(super) fn makes_array(&mut self, at: ExprId, name: &str, args: &'a [ExprId]) -> bool {
        if name == "einsum" {
            self.einsum(at, args);
            return true;
        }
        if !OF_SIZES.contains(&name) {
            return false;
        }
        let mut sizes = args.to_vec();
        if let [only] = args {
            sizes = self.parts_of_pair(*only);
        }
        let span = self.span(at);
        let one = matches!(name, "zeros" | "ones");
        if sizes.is_empty() || !one && sizes.len() > 1 {
            let message =
                format!("`{name}` takes {}, found {} arguments", if one { "sizes" } else { "one size" }, sizes.len());
            let help = format!("sizes are those of the types: `{name}(n)`");
            self.diagnose(Diagnostic::new("wrong-arity", span, message).help(help));
            self.values.push(None);
            return true;
        }
        let mut shape: Vec<Option<Size>> = sizes.into_iter().map(|size| self.extent(size)).collect();
        if matches!(name, "eye" | "identity") {
            shape.push(shape[0].clone());
        }
        let value = shape.into_iter().collect::<Option<Vec<Size>>>().and_then(|shape| self.filled(name, &shape, span));
        self.values.push(value);
        true
    }

    fn filled(&mut self, name: &str, shape: &[Size], span: Span) -> Option<TermId> {
        let indices = self.fresh_indices(shape, &[]);
        let number = match (name, indices.as_slice()) {
            ("arange", [i]) => Number::Index(Affine::index(*i)),
            ("zeros", _) => Number::Literal(0.0),
            _ => Number::Literal(1.0),
        };
        let mut element = self.push(Term::Number(number), span)?;
        if let ("eye" | "identity", [i, j]) = (name, indices.as_slice()) {
            let guard = Pred::equal(&Affine::index(*i), &Affine::index(*j)).ok()?;
            element = self.push(Term::Iverson { guard, body: element }, span)?;
        }
        self.gens(&indices, shape, element, span)
    }

    /// `(a, b, c)`
    fn parts_of_pair(&self, e: ExprId) -> Vec<ExprId> {
        let (mut parts, mut rest) = (Vec::new(), e);
        while let Expr::Pair(first, others) = self.expr(rest) {
            parts.push(*first);
            rest = *others;
        }
        parts.push(rest);
        parts
    }

    fn einsum(&mut self, at: ExprId, args: &[ExprId]) {
        let (span, read) = (self.span(at), args.first().map(|first| self.expr(*first)));
        let known = match read {
            Some(Expr::Name(text)) if text.starts_with('"') => letters(text),
            _ => None,
        };
        if known.is_none_or(|known| known.operands.len() + 1 != args.len()) {
            let message = "`einsum` takes the letters of all axes, and as many tensors as have letters";
            let help = "as in `einsum(\"ij,jk->ik\", A, B)`, or write the sum: `gen i < m, k < n. sum j < l. A[i, j] * B[j, k]`";
            self.diagnose(Diagnostic::new("wrong-arity", span, message).help(help));
            self.values.push(None);
            return;
        }
        self.tasks.push(Task::Einsum(at));
        self.tasks.extend(args[1..].iter().rev().map(|arg| Task::Value(*arg)));
    }

    /// The tensors of an `einsum` are complete.
    pub(super) fn finish_einsum(&mut self, at: ExprId) {
        let Expr::Call { args, .. } = self.expr(at) else { return };
        let values = self.pop_values(args.len() - 1);
        let value = match (self.expr(args[0]), values.into_iter().collect::<Option<Vec<_>>>()) {
            (Expr::Name(text), Some(values)) => self.sum_by_letters(at, text, values, &args[1..]),
            _ => None,
        };
        self.values.push(value);
    }

    fn sum_by_letters(&mut self, at: ExprId, text: &str, values: Vec<TermId>, args: &[ExprId]) -> Option<TermId> {
        let span = self.span(at);
        let Letters { operands, result } = letters(text)?;
        let mut ranges: Vec<(char, Size)> = Vec::new();
        for ((value, names), arg) in values.iter().zip(&operands).zip(args) {
            let shape = self.real_shape(*value).filter(|shape| shape.len() == names.len());
            let Some(shape) = shape else {
                let found = self.show_type(self.program.ty(*value));
                let names: String = names.iter().collect();
                let message = format!("`{names}` has a letter for each axis, but the tensor has type `{found}`");
                let place = self.span(*arg);
                self.report("shape-mismatch", place, message);
                return None;
            };
            for (name, size) in names.iter().zip(shape) {
                match ranges.iter().find(|(known, _)| known == name).map(|(_, known)| known.clone()) {
                    None => ranges.push((*name, size)),
                    Some(known) if self.same_size(&known, &size) => {}
                    Some(known) => {
                        let (a, b) = (self.show(&known), self.show(&size));
                        let message = format!("the axes of the letter `{name}` have the sizes `{a}` and `{b}`");
                        let help = format!("if they are equal, say so: `assume {b} = {a}`");
                        self.diagnose(Diagnostic::new("shape-mismatch", span, message).help(help));
                        return None;
                    }
                }
            }
        }
        // Those of the result come first, in its order.
        ranges.sort_by_key(|(name, _)| result.iter().position(|other| other == name).unwrap_or(result.len()));
        let mut indices: Vec<IndexId> = Vec::with_capacity(ranges.len());
        for (name, extent) in &ranges {
            let index = self.program.fresh_index(name.to_string());
            self.knowledge.declare(index, Some(extent.clone()));
            indices.push(index);
        }
        let (mut lets, mut product) = (Vec::new(), None);
        for (value, names) in values.into_iter().zip(&operands) {
            let value = self.bind_value(value, "e", &mut lets, span)?;
            let at = |name: &char| ranges.iter().position(|(known, _)| known == name).map(|k| indices[k]);
            let places: Vec<IndexId> = names.iter().filter_map(at).collect();
            let element = self.element_at(value, &places, span)?;
            product = Some(match product {
                None => element,
                Some(product) => self.push(Term::Mul(product, element), span)?,
            });
        }
        let shape: Vec<Size> = ranges.into_iter().map(|(_, size)| size).collect();
        let (outer, inner) = indices.split_at(result.len());
        let (axes, summed) = shape.split_at(result.len());
        let body = self.sums(inner, summed, product?, span)?;
        let value = self.gens(outer, axes, body, span);
        self.wrap_lets(lets, value, span)
    }
}

#[cfg(test)]
mod tests {
    use super::letters;

    #[test]
    fn letters_of_einsum() {
        for (text, operands, result) in [
            ("\"ij,jk->ik\"", "ij jk", Some("ik")),
            ("\"ij,jk\"", "ij jk", Some("ik")),
            ("\"ba\"", "ba", Some("ab")),
            ("\"ii\"", "ii", Some("")),
            ("\"i,i->\"", "i i", Some("")),
            ("\"ij->ii\"", "", None),
            ("\"ij->k\"", "", None),
            ("\"i1\"", "", None),
            ("\"...i->...\"", "", None),
        ] {
            let found = letters(text).map(|found| {
                let operands: Vec<String> = found.operands.iter().map(|names| names.iter().collect()).collect();
                (operands.join(" "), found.result.into_iter().collect::<String>())
            });
            assert_eq!(found, result.map(|result| (operands.to_owned(), result.to_owned())), "{text}");
        }
    }
}
