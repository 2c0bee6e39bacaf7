//! Matrix notation as text.
//!
//! From loose to tight: sums; products and quotients of elements, `.*` and `./`; products; what is atomic or has a power or `'` behind it. A column
//! of ones is `1`.

use super::{Matrix, Notation, is_scalar};
use crate::base::{IndexId, RelationId, SizeId, VarId};
use crate::index::Size;
use crate::index::print::{Names, write_affine};
use crate::scalar::{Function, Op, Primitive};
use crate::term::Program;
use crate::ty::Signature;

/// How tightly a text holds together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Sum,
    Each,
    Product,
    Atom,
}

/// A line for each variable, then one for each result.
pub(super) fn text(program: &Program, notation: &Notation) -> String {
    let printer = Printer { program };
    let mut text = String::new();
    for (var, matrix) in &notation.definitions {
        text += &format!("{} = {}\n", printer.name(*var), printer.at(matrix, Level::Sum));
    }
    let results: Vec<String> = notation.results.iter().map(|matrix| printer.at(matrix, Level::Sum)).collect();
    text + &results.join(",\n") + "\n"
}

struct Printer<'a> {
    program: &'a Program,
}

/// Sizes by their names.
struct Sizes<'a>(&'a Signature);

impl Names for Sizes<'_> {
    fn index(&self, _: IndexId) -> String {
        "?".to_owned()
    }

    fn size(&self, n: SizeId) -> String {
        self.0.sizes.get(n).cloned().unwrap_or_default()
    }

    fn relation(&self, _: RelationId) -> String {
        "?".to_owned()
    }

    fn var(&self, _: VarId) -> String {
        "?".to_owned()
    }
}

impl Printer<'_> {
    /// The name of a variable, behind others of the same name with a number.
    fn name(&self, var: VarId) -> String {
        let name = &self.program.variables[var].name;
        let alike = self.program.variables.iter().filter(|(id, other)| *id < var && other.name == *name).count();
        if alike == 0 { name.clone() } else { format!("{name}_{}", alike + 1) }
    }

    fn size(&self, size: &Size) -> (String, Level) {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = write_affine(&mut text, size, &Sizes(&self.program.signature));
        let level = if text.contains(' ') || text.starts_with('-') { Level::Sum } else { Level::Atom };
        (text, level)
    }

    /// A matrix where something at least as tight is expected.
    fn at(&self, matrix: &Matrix, level: Level) -> String {
        let (text, own) = self.matrix(matrix);
        if own < level { format!("({text})") } else { text }
    }

    fn list(&self, matrices: &[Matrix], level: Level, separator: &str) -> String {
        let texts: Vec<String> = matrices.iter().map(|matrix| self.at(matrix, level)).collect();
        texts.join(separator)
    }

    fn call(&self, name: &str, args: &[Matrix]) -> (String, Level) {
        (format!("{name}({})", self.list(args, Level::Sum, ", ")), Level::Atom)
    }

    fn matrix(&self, matrix: &Matrix) -> (String, Level) {
        let one = std::slice::from_ref::<Matrix>;
        match matrix {
            Matrix::Literal(x) if *x < 0.0 => (format!("{x}"), Level::Product),
            Matrix::Literal(x) => (format!("{x}"), Level::Atom),
            Matrix::Size(size) => self.size(size),
            Matrix::Name(var, _) => (self.name(*var), Level::Atom),
            Matrix::Group(inner) => (format!("({})", self.at(inner, Level::Sum)), Level::Atom),
            Matrix::Ones(_) => ("1".to_owned(), Level::Atom),
            Matrix::Transposed(inner) => (format!("{}'", self.at(inner, Level::Atom)), Level::Atom),
            Matrix::Product(factors) => {
                let (sign, factors) = match &factors[..] {
                    [Matrix::Literal(-1.0), rest @ ..] => ("-".to_owned(), rest),
                    [Matrix::Literal(x), rest @ ..] => (format!("{x} "), rest),
                    factors => (String::new(), factors),
                };
                (sign + &self.list(factors, Level::Atom, " "), Level::Product)
            }
            Matrix::Sum(terms) => {
                let mut text = String::new();
                for (at, (negative, term)) in terms.iter().enumerate() {
                    let term = self.at(term, Level::Each);
                    // `a - b` for `a + -1 b`.
                    let (negative, term) = match term.strip_prefix('-') {
                        Some(positive) => (!negative, positive.to_owned()),
                        None => (*negative, term),
                    };
                    text += match (at, negative) {
                        (0, false) => "",
                        (0, true) => "-",
                        (_, false) => " + ",
                        (_, true) => " - ",
                    };
                    text += &term;
                }
                (text, if terms.len() == 1 { Level::Each } else { Level::Sum })
            }
            Matrix::Each(factors) => (self.list(factors, Level::Atom, " .* "), Level::Each),
            Matrix::Over(above, below) => {
                (format!("{} / {}", self.at(above, Level::Product), self.at(below, Level::Atom)), Level::Product)
            }
            Matrix::EachOver(above, below) => {
                (format!("{} ./ {}", self.at(above, Level::Atom), self.at(below, Level::Atom)), Level::Each)
            }
            Matrix::Power(base, k) => {
                let (base, dot) = (self.at(base, Level::Atom), if is_scalar(base) { "" } else { "." });
                (format!("{base}{dot}^{k}"), Level::Atom)
            }
            Matrix::Apply(f, args) => match (f, &args[..]) {
                (Function::Value(Primitive::Op(Op::Compare(op))), [a, b]) => {
                    (format!("({} {} {})", self.at(a, Level::Sum), op.symbol(), self.at(b, Level::Sum)), Level::Atom)
                }
                (Function::Value(Primitive::Op(op)), args) => self.call(&op.name(), args),
                (Function::Value(Primitive::User(f)), args) => {
                    self.call(self.program.signature.functions[*f].name(), args)
                }
                (Function::Partial(..), args) => self.call("?", args),
            },
            Matrix::Diagonal(inner) | Matrix::DiagonalOf(inner) => self.call("diag", one(inner)),
            Matrix::Lower(inner, 0) => self.call("tril", one(inner)),
            Matrix::Lower(inner, k) => (format!("tril({}, {k})", self.at(inner, Level::Sum)), Level::Atom),
            Matrix::Upper(inner, 0) => self.call("triu", one(inner)),
            Matrix::Upper(inner, k) => (format!("triu({}, {k})", self.at(inner, Level::Sum)), Level::Atom),
            Matrix::Total(inner) => self.call("sum", one(inner)),
            Matrix::Squares(inner) => (format!("|{}|^2", self.at(inner, Level::Sum)), Level::Atom),
        }
    }
}
