//! Predicates as text.
//!
//! Precedence, low to high: `exists`, `or`, `and`, comparison. The caller names indices, sizes and relations.

use std::fmt::{self, Write};

use super::{Affine, Pred, RelationRef, Var, View};
use crate::base::{IndexId, SizeId, VarId};

/// How the things that index expressions mention are written.
pub trait Names {
    /// An index.
    fn index(&self, i: IndexId) -> String;
    /// A size variable.
    fn size(&self, n: SizeId) -> String;
    /// A relation given at run time.
    fn relation(&self, r: crate::base::RelationId) -> String;
    /// A tensor that is read as a relation.
    fn var(&self, x: VarId) -> String;
    /// The name for an index that `exists` binds at this depth, where the caller does not know it yet.
    fn bound(&self, i: IndexId, _depth: usize) -> String {
        self.index(i)
    }
}

/// Writes an affine expression.
pub fn write_affine(f: &mut dyn Write, a: &Affine, names: &dyn Names) -> fmt::Result {
    let mut text = String::new();
    a.write(&mut text, &mut |v| var_text(v, names))?;
    f.write_str(&text)
}

fn affine_text(a: &Affine, names: &dyn Names) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_affine(&mut text, a, names);
    text
}

fn var_text(v: &Var, names: &dyn Names) -> String {
    match v {
        Var::Index(i) => names.index(*i),
        Var::Size(n) => names.size(*n),
        Var::Apply(application) => {
            let args: Vec<String> = application.args.iter().map(|a| affine_text(a, names)).collect();
            match application.map {
                RelationRef::Input(r) => format!("{}({})", names.relation(r), args.join(", ")),
                RelationRef::Computed { var, view } => one_hot_text(var, view, &args, names),
            }
        }
    }
}

/// `argmax(x[i, ..])`: the place of the largest along the last axis.
fn one_hot_text(var: VarId, view: View, args: &[String], names: &dyn Names) -> String {
    let word = match view {
        View::ArgMin => "argmin",
        View::ArgMax | View::Support => "argmax",
    };
    let args: Vec<&str> = args.iter().map(String::as_str).chain([".."]).collect();
    format!("{word}({}[{}])", names.var(var), args.join(", "))
}

/// `x[i, j]`, or `x` where there are no indices.
fn access_text(var: VarId, args: &[String], names: &dyn Names) -> String {
    if args.is_empty() { names.var(var) } else { format!("{}[{}]", names.var(var), args.join(", ")) }
}

/// The sides of `a (compare) 0`: positive terms to the left, the others to the right.
fn sides(a: &Affine) -> Option<(Affine, Affine)> {
    let (left, right): (Vec<_>, Vec<_>) = a.terms().iter().cloned().partition(|(_, k)| *k > 0);
    let left = Affine::from_terms(left, a.offset().max(0)).ok()?;
    let right = Affine::from_terms(right, a.offset().min(0)).ok()?.scale(-1).ok()?;
    Some((left, right))
}

/// Writes a predicate, in parentheses where it binds less than `level`: 0 `exists`, 1 `or`, 2 `and`, 3 an atom.
pub fn write_pred(f: &mut dyn Write, p: &Pred, level: u8, names: &dyn Names) -> fmt::Result {
    write_nested(f, p, level, 0, names)
}

fn write_nested(f: &mut dyn Write, p: &Pred, level: u8, depth: usize, names: &dyn Names) -> fmt::Result {
    let own = match p {
        Pred::Exists { .. } => 0,
        Pred::Any(_) => 1,
        Pred::All(_) => 2,
        _ => 3,
    };
    if own < level {
        f.write_str("(")?;
    }
    match p {
        Pred::True => f.write_str("true")?,
        Pred::False => f.write_str("false")?,
        Pred::NonNegative(a) => {
            let (left, right) = sides(a).unwrap_or((a.clone(), Affine::constant(0)));
            // 0 <= a - b - 1  ==  b < a
            match right.add_constant(-1) {
                Ok(strict) if right.offset() > 0 => {
                    write!(f, "{} < {}", affine_text(&strict, names), affine_text(&left, names))?
                }
                _ => write!(f, "{} <= {}", affine_text(&right, names), affine_text(&left, names))?,
            }
        }
        Pred::Zero(a) | Pred::NonZero(a) => {
            let (left, right) = sides(a).unwrap_or((a.clone(), Affine::constant(0)));
            let sign = if matches!(p, Pred::Zero(_)) { "=" } else { "!=" };
            write!(f, "{} {sign} {}", affine_text(&left, names), affine_text(&right, names))?;
        }
        Pred::Relation { relation, args, holds } => {
            let args: Vec<String> = args.iter().map(|a| affine_text(a, names)).collect();
            match (relation, args.split_last()) {
                (RelationRef::Input(r), _) => {
                    let not = if *holds { "" } else { "not " };
                    write!(f, "{not}{}({})", names.relation(*r), args.join(", "))?;
                }
                (RelationRef::Computed { var, view: View::Support }, _) | (RelationRef::Computed { var, .. }, None) => {
                    let sign = if *holds { "!=" } else { "=" };
                    write!(f, "{} {sign} 0", access_text(*var, &args, names))?;
                }
                (RelationRef::Computed { var, view }, Some((last, rest))) => {
                    let sign = if *holds { "=" } else { "!=" };
                    write!(f, "{} {sign} {last}", one_hot_text(*var, *view, rest, names))?;
                }
            }
        }
        Pred::All(ps) | Pred::Any(ps) => {
            let (word, inner) = if own == 2 { (" and ", 3) } else { (" or ", 2) };
            for (at, p) in ps.iter().enumerate() {
                if at > 0 {
                    f.write_str(word)?;
                }
                write_nested(f, p, inner, depth, names)?;
            }
        }
        Pred::Exists { index, extent, body } => {
            write!(f, "exists {} < {}. ", names.bound(*index, depth), affine_text(extent, names))?;
            write_nested(f, body, 0, depth + 1, names)?;
        }
    }
    if own < level {
        f.write_str(")")?;
    }
    Ok(())
}
