//! Distinct names for a program on paper.
//!
//! All names of a program share one space, and no binder takes a name that is in use around it. So nothing is ever captured, and the
//! choice depends on the order of the text only.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use crate::base::Format;
use crate::scalar::Op;

/// Words with a meaning of their own, beside the names of functions.
const RESERVED: [&str; 48] = [
    "param",
    "rel",
    "map",
    "assume",
    "def",
    "fun",
    "with",
    "let",
    "in",
    "gen",
    "sum",
    "max",
    "min",
    "argmax",
    "argmin",
    "exists",
    "and",
    "or",
    "not",
    "fst",
    "snd",
    "real",
    "inf",
    "nan",
    "for",
    "if",
    "then",
    "else",
    "true",
    "false",
    "result",
    "select",
    "polygamma",
    "relu",
    "powi",
    "div",
    "less",
    "less_equal",
    "equal",
    "not_equal",
    "log",
    "value",
    "case",
    "fold",
    "scan",
    "iterate",
    "fixpoint",
    "unfold",
];

/// Whether a word is a name in the language: letters, digits, `_` and `'`, no reserved word.
pub(super) fn is_name(word: &str) -> bool {
    let mut chars = word.chars();
    let starts = |c: char| (c.is_alphabetic() || c == '_') && !matches!(c, 'Σ' | '∃');
    chars.next().is_some_and(starts)
        && chars.all(|c| c.is_alphanumeric() || matches!(c, '_' | '\''))
        && !RESERVED.contains(&word)
        && Format::named(word).is_none()
        && Op::from_name(word).is_none()
}

/// The names in use at some place of the text.
pub(super) struct Names {
    used: HashMap<String, (), FxBuildHasher>,
    /// The least suffix of a stem that may be free.
    next: HashMap<String, u32, FxBuildHasher>,
    /// Names to be given back, innermost scope last, with the stem and suffix they are made of.
    open: Vec<(String, Option<(String, u32)>)>,
}

impl Names {
    pub(super) fn new() -> Self {
        Names { used: HashMap::default(), next: HashMap::default(), open: Vec::new() }
    }

    /// A name like the one wished for, in use from here on.
    pub(super) fn take(&mut self, wish: &str, default: &str) -> String {
        let wish = spell(wish, default);
        if self.used.insert(wish.clone(), ()).is_none() {
            self.open.push((wish.clone(), None));
            return wish;
        }
        let stem = stem(&wish).to_owned();
        let mut suffix = self.next.get(&stem).copied().unwrap_or(2);
        loop {
            let name = format!("{stem}_{suffix}");
            suffix = suffix.saturating_add(1);
            if !self.used.contains_key(&name) {
                self.used.insert(name.clone(), ());
                self.next.insert(stem.clone(), suffix);
                self.open.push((name.clone(), Some((stem, suffix - 1))));
                return name;
            }
        }
    }

    /// Whether a name is in use here.
    pub(super) fn is_used(&self, name: &str) -> bool {
        self.used.contains_key(name)
    }

    /// Gives back the name taken last.
    pub(super) fn leave(&mut self) {
        if let Some((name, made)) = self.open.pop() {
            self.used.remove(&name);
            if let Some((stem, suffix)) = made {
                self.next.insert(stem, suffix);
            }
        }
    }
}

/// The word itself if it is a name, else a name made of what can be kept of it.
fn spell(wish: &str, default: &str) -> String {
    if is_name(wish) {
        return wish.to_owned();
    }
    let kept: String = wish.chars().map(|c| if c.is_alphanumeric() || c == '_' { c } else { '_' }).collect();
    let kept = kept.trim_matches('_');
    if is_name(kept) {
        return kept.to_owned();
    }
    match format!("{default}_{kept}") {
        name if !kept.is_empty() && is_name(&name) => name,
        _ => default.to_owned(),
    }
}

/// `x` of `x_2`.
fn stem(name: &str) -> &str {
    match name.rsplit_once('_') {
        Some((stem, digits)) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) && is_name(stem) => {
            stem
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::{Names, is_name};

    #[test]
    fn names_are_distinct_and_given_back() {
        let mut names = Names::new();
        let mut take = |wish: &str| names.take(wish, "x");
        let taken = ["x", "x", "x_2", "x_2", "for", "", "a b", "3", "+", "let", "dx'"].map(&mut take);
        assert_eq!(taken, ["x", "x_2", "x_3", "x_4", "x_for", "x_5", "a_b", "x_6", "x_7", "x_let", "dx'"]);
        for _ in 0..taken.len() - 1 {
            names.leave();
        }
        assert_eq!(names.take("x", "x"), "x_2");
    }

    #[test]
    fn names_of_the_language() {
        for (word, expected) in [("x", true), ("_a1'", true), ("ä", true), ("Σx", false), ("1a", false), ("sum", false)]
        {
            assert_eq!(is_name(word), expected, "{word}");
        }
    }
}
