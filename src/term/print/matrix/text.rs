//! Matrix notation as text.
//!
//! From loose to tight: sums; products and quotients of elements, `.*` and `./`; products; what is atomic or has a power or `'` behind it. A column
//! of ones is `1`.

use super::super::{Printer, Style};
use super::{Matrix, Notation, is_scalar};
use crate::scalar::{Function, Op, Primitive};
use crate::term::Program;

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
    let mut writer = Writer(Printer::new(program, Style::Ascii));
    let mut text = String::new();
    for (var, matrix) in &notation.definitions {
        let value = writer.at(matrix, Level::Sum);
        text += &format!("{} = {value}\n", writer.0.take_var(*var));
    }
    let results: Vec<String> = notation.results.iter().map(|matrix| writer.at(matrix, Level::Sum)).collect();
    text + &results.join(",\n") + "\n"
}

/// Names, sizes and numbers are those of the canonical text.
struct Writer<'a>(Printer<'a>);

impl Writer<'_> {
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
            Matrix::Literal(x) => (self.0.literal(*x), if *x < 0.0 { Level::Product } else { Level::Atom }),
            Matrix::Size(size) => {
                let text = self.0.affine(size);
                let level = if text.contains(' ') || text.starts_with('-') { Level::Sum } else { Level::Atom };
                (text, level)
            }
            Matrix::Name(var, _) => (self.0.var(*var), Level::Atom),
            Matrix::Group(inner) => (format!("({})", self.at(inner, Level::Sum)), Level::Atom),
            Matrix::Ones(_) => ("1".to_owned(), Level::Atom),
            Matrix::Transposed(inner) => (format!("{}'", self.at(inner, Level::Atom)), Level::Atom),
            Matrix::Product(factors) => {
                let (sign, factors) = match &factors[..] {
                    [Matrix::Literal(-1.0), rest @ ..] => ("-".to_owned(), rest),
                    [Matrix::Literal(x), rest @ ..] => (self.0.literal(*x) + " ", rest),
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
                (f, args) => self.call(&self.0.function(*f), args),
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
