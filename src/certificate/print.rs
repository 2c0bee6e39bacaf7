//! What costs and certificates print, and their formulas.

use std::fmt;

use super::{Bound, Certificate, Claim, Comparison, Cost, Counted, Ratio, Reason, SAMPLES, Theorem};
use crate::solver::estimate::{Growth, Hints};
use crate::tssa::print::count_text;

impl Cost {
    /// The rows of its table: what is counted, and the terms of its formula, each with its sign but for the first.
    pub(crate) fn formulas(&self) -> Vec<(&'static str, Vec<String>)> {
        let terms = |count| match count_text(&self.shapes.signature, &self.names, count) {
            terms if terms.is_empty() => vec!["0".to_owned()],
            terms => terms,
        };
        self.rows().into_iter().map(|(what, count)| (what, terms(count))).collect()
    }

    /// Writes the rows; pieces that do not fit a line have their own.
    fn write(&self, f: &mut fmt::Formatter<'_>, indent: &str) -> fmt::Result {
        for (what, count) in self.rows() {
            let pieces = count_text(&self.shapes.signature, &self.names, count);
            let line = pieces.concat();
            write!(f, "{indent}{what:<LABEL$}  ")?;
            if line.is_empty() {
                writeln!(f, "0")?;
            } else if line.len() <= MAX_LINE {
                writeln!(f, "{line}")?;
            } else {
                for (at, piece) in pieces.iter().enumerate() {
                    let margin = if at > 0 { indent.len() + LABEL + 2 } else { 0 };
                    writeln!(f, "{:margin$}{}", "", piece.trim_start())?;
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Counted::Exactly(count) => write!(f, "{count}"),
            Counted::Unknown(Reason::Values) => f.write_str("not counted, depends on values of tensors"),
            Counted::Unknown(Reason::Effort) => f.write_str("not counted, too many points"),
            Counted::Unknown(Reason::World) => f.write_str("not counted, no such sizes"),
        }
    }
}

/// How wide the first column of a table is.
pub(super) const LABEL: usize = 19;
/// How long a formula may be on one line.
const MAX_LINE: usize = 90;

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, "")?;
        self.write_growth(f)
    }
}

impl Cost {
    /// Writes what the work grows to.
    fn write_growth(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        match self.growth(&Hints::new()) {
            Some(growth) => writeln!(f, "{:<LABEL$}  {}", "work for large N", Leading(&growth))?,
            // Where nothing is known as a formula, examples.
            None => {
                for n in SAMPLES {
                    let label = format!("work for N = {n}");
                    writeln!(f, "{label:<LABEL$}  {}", self.sample(&Hints::new(), n))?;
                }
            }
        }
        f.write_str(&legend(self, None))
    }
}

/// What `N` is, where it matters.
fn legend(cost: &Cost, other: Option<&Cost>) -> String {
    let entries = [Some(cost), other].into_iter().flatten().any(|cost| !cost.shapes.signature.relations.is_empty());
    match entries {
        true => format!(
            "where every size is N, and a relation has {} N entries at random places; |R| counts the entries of R, and |R(*, _)| its rows that have one\n",
            Hints::ENTRIES
        ),
        false => "where every size is N\n".to_owned(),
    }
}

/// The leading term of a growth.
struct Leading<'a>(&'a Growth);

impl fmt::Display for Leading<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.leading() {
            (0, coefficient) => write!(f, "{}", digits(coefficient)),
            (1, coefficient) => write!(f, "{} N", digits(coefficient)),
            (power, coefficient) => write!(f, "{} N^{power}", digits(coefficient)),
        }
    }
}

/// Four digits, without zeros at the end.
fn digits(x: f64) -> String {
    let text = format!("{x:.3}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (theorem, cost) = match self.theorem {
            Theorem::Forward => ("6.1", "work"),
            Theorem::Adjoint => ("6.35", "(work + inputs + outputs)"),
        };
        let theorem = match (&self.function, self.expanded) {
            (Some(function), true) => {
                format!("Theorem {theorem} with the partial derivatives of `{function}` expanded")
            }
            (Some(function), false) => format!("Theorem {theorem} for the arguments of `{function}`"),
            (None, _) => format!("Theorem {theorem}"),
        };
        write!(f, "{cost} of value and derivative <= {} * {cost} of the program, ", self.constant)?;
        match self.claim {
            Claim::Program => f.write_str(&theorem),
            Claim::Leaves => write!(f, "{theorem}, for each step of the loops"),
            Claim::Counted { runs } => {
                let (more, once) = (runs.saturating_sub(1), self.constant.saturating_sub(runs.saturating_sub(1)));
                write!(
                    f,
                    "not proved, but counted above: {once} for a step of the loops by {theorem}, and {more} for its further runs"
                )
            }
        }
    }
}

impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, cost) in [("program", &self.primal), ("derivative", &self.derivative)] {
            writeln!(f, "{what}")?;
            cost.write(f, "  ")?;
        }
        self.write_comparison(f)
    }
}

impl Cost {
    /// What it prints below its table.
    pub(crate) fn growth_text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write_growth(&mut text);
        text
    }
}

impl Certificate {
    /// What it prints below its tables: the ratio and the bound.
    pub(crate) fn comparison_text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write_comparison(&mut text);
        text
    }

    fn write_comparison(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        let what = match self.bound.theorem {
            Theorem::Forward => "work",
            Theorem::Adjoint => "work, with the inputs and outputs of the program",
        };
        writeln!(f, "derivative by program: {what}")?;
        let Ratio { growth, samples } = &self.ratio;
        if let Some((primal, derivative)) = growth {
            let label = "for large N";
            write!(f, "  {label:<LABEL$}  {} by {}", Leading(derivative), Leading(primal))?;
            match self.ratio.limit() {
                Some(limit) => writeln!(f, ": {}", digits(limit))?,
                None => writeln!(f)?,
            }
        }
        for comparison @ Comparison { n, primal, derivative } in samples {
            let at = format!("for N = {n}");
            write!(f, "  {at:<LABEL$}  ")?;
            match (primal, derivative, comparison.ratio()) {
                (_, _, Some(ratio)) => writeln!(f, "{derivative} by {primal}: {}", digits(ratio))?,
                (Counted::Exactly(_), Counted::Exactly(_), None) => writeln!(f, "{derivative} by {primal}")?,
                (Counted::Unknown(_), _, None) => writeln!(f, "{primal}")?,
                (_, Counted::Unknown(_), None) => writeln!(f, "{derivative}")?,
            }
        }
        f.write_str("  ")?;
        f.write_str(&legend(&self.primal, Some(&self.derivative)))?;
        writeln!(f, "bound\n  {}", self.bound)
    }
}
