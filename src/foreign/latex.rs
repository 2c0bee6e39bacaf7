//! Formulas of LaTeX as they are written here: `\frac{1}{n} \sum_{i=1}^{n} x_i^2` is `1 / n * sum i < n. x[i]^2`.
//!
//! Indices begin at 0 here. A sum from 1 on reads the same elements, and an index that is a number itself is one more; where a sum begins at 0, so do
//! the places of elements.

/// How deep groups nest in a formula that is translated.
const MAX_DEPTH: usize = 16;
/// The longest formula that is translated, in bytes.
const MAX_FORMULA: usize = 200;

/// Commands that are functions or binders under the same name.
const FUNCTIONS: [&str; 9] = ["exp", "log", "ln", "sin", "cos", "tan", "tanh", "sinh", "cosh"];
const BINDERS: [&str; 5] = ["sum", "prod", "max", "min", "argmax"];
/// Commands that say how a name looks.
const LOOKS: [&str; 9] = ["mathbf", "mathrm", "boldsymbol", "vec", "hat", "bar", "tilde", "mathit", "mathcal"];
const NAMES: [&str; 23] = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "varepsilon",
    "zeta",
    "eta",
    "theta",
    "kappa",
    "lambda",
    "mu",
    "nu",
    "xi",
    "rho",
    "sigma",
    "tau",
    "phi",
    "varphi",
    "chi",
    "psi",
    "omega",
    "pi",
];

/// The formula as it is written here; nothing for one that has another sign in it.
pub(crate) fn translate(formula: &str) -> Option<String> {
    if formula.len() > MAX_FORMULA {
        return None;
    }
    let mut reader = Reader { rest: formula.trim(), bound: Vec::new(), depth: 0, in_norm: false };
    let text = reader.sum()?;
    reader.rest.trim().is_empty().then_some(text)
}

/// A part of a formula: its text, and whether it stands alone, as a name, a call and a group do.
struct Part {
    text: String,
    is_atom: bool,
    /// Whether it reaches as far right as it can, as a sum does.
    is_open: bool,
}

impl Part {
    fn atom(text: impl Into<String>) -> Part {
        Part { text: text.into(), is_atom: true, is_open: false }
    }

    fn is_matrix(&self) -> bool {
        let is_capital = self.text.starts_with(char::is_uppercase) && self.text.chars().all(char::is_alphanumeric);
        self.is_atom && (is_capital || self.text.ends_with('\''))
    }

    fn grouped(self) -> String {
        if self.is_atom { self.text } else { format!("({})", self.text) }
    }
}

struct Reader<'t> {
    rest: &'t str,
    /// The indices of sums around, and how much more than the index here each is: as a number, and as a place.
    bound: Vec<(String, i64, i64)>,
    depth: usize,
    /// Whether the group around is a norm, whose sign ends it.
    in_norm: bool,
}

impl<'t> Reader<'t> {
    fn blanks(&mut self) {
        loop {
            let rest = self.rest.trim_start();
            let blank = [r"\,", r"\;", r"\!", r"\quad", r"\ ", "~"].iter().find_map(|blank| rest.strip_prefix(blank));
            self.rest = blank.unwrap_or(rest);
            if blank.is_none() {
                return;
            }
        }
    }

    fn eat(&mut self, sign: &str) -> bool {
        self.blanks();
        let behind = self.rest.strip_prefix(sign);
        // `\in` is no beginning of `\int`.
        let behind = behind.filter(|behind| {
            !sign.starts_with('\\') || !sign.ends_with(char::is_alphabetic) || !behind.starts_with(char::is_alphabetic)
        });
        self.rest = behind.unwrap_or(self.rest);
        behind.is_some()
    }

    fn take(&mut self, is_part: impl Fn(char) -> bool) -> &'t str {
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    /// `a + b - c`
    fn sum(&mut self) -> Option<String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let mut text = String::new();
        let mut last: Option<Part> = None;
        loop {
            let sign = match (self.eat("-"), last.is_some()) {
                (true, true) => " - ",
                (true, false) => "-",
                (false, _) if last.is_some() && self.eat("+") => " + ",
                (false, false) => "",
                _ => break,
            };
            // What another term follows does not reach over it.
            if let Some(before) = last.take() {
                text.push_str(&if before.is_open { format!("({})", before.text) } else { before.text });
            }
            text.push_str(sign);
            last = Some(self.product()?);
        }
        self.depth -= 1;
        let last = last?;
        text.push_str(&last.text);
        Some(text)
    }

    /// Factors beside each other.
    fn product(&mut self) -> Option<Part> {
        let mut product = self.factor()?;
        // Behind a transpose and a matrix, whose name is a capital letter, stands what they are multiplied by.
        let mut is_matrix = product.is_matrix();
        loop {
            let divides = self.eat("/");
            let times = !divides && [r"\cdot", r"\times", "*"].iter().any(|sign| self.eat(sign));
            if !divides && !times && !self.begins_factor() {
                return Some(product);
            }
            if product.is_open {
                return None;
            }
            let next = self.factor()?;
            let (is_open, multiplies) = (next.is_open, is_matrix && !divides && !times);
            is_matrix = multiplies || next.is_matrix();
            let right = if divides && !next.is_atom { next.grouped() } else { next.text };
            let sign = if divides { "/" } else { ["*", "@"][usize::from(multiplies)] };
            let text = format!("{} {sign} {right}", product.text);
            product = Part { text, is_atom: false, is_open };
        }
    }

    fn begins_factor(&mut self) -> bool {
        self.blanks();
        let begins = |signs: &[&str]| signs.iter().any(|sign| self.rest.starts_with(sign));
        let ends = begins(&[r"\right", r"\rVert", r"\rvert", r"\}"]) || self.in_norm && begins(&[r"\|", r"\Vert"]);
        !ends && self.rest.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '\\' | '(' | '{' | '∑' | 'Σ'))
    }

    /// An operand with its indices and its power.
    fn factor(&mut self) -> Option<Part> {
        let mut part = self.operand()?;
        loop {
            if part.is_open {
                return Some(part);
            }
            self.blanks();
            if self.eat("^") {
                let is_transposed = [r"\top", r"{\top}", "T", "{T}", r"\intercal"].iter().any(|sign| self.eat(sign));
                if is_transposed {
                    part = Part::atom(format!("{}'", part.grouped()));
                    continue;
                }
                let exponent = self.argument()?;
                part =
                    Part { text: format!("{}^{}", part.grouped(), exponent.grouped()), is_atom: false, is_open: false };
            } else if self.rest.starts_with('[') {
                let inside = self.take(|c| c != ']');
                self.eat("]").then_some(())?;
                part = Part::atom(format!("{}{inside}]", part.grouped()));
            } else if self.eat("'") {
                part = Part::atom(format!("{}'", part.grouped()));
            } else {
                return Some(part);
            }
        }
    }

    fn operand(&mut self) -> Option<Part> {
        self.blanks();
        let first = self.rest.chars().next()?;
        match first {
            '∑' | 'Σ' => {
                self.rest = &self.rest[first.len_utf8()..];
                self.binder("sum")
            }
            '(' | '{' => {
                self.rest = &self.rest[1..];
                self.group(if first == '(' { ")" } else { "}" })
            }
            c if c.is_ascii_digit() => {
                Some(Part::atom(self.take(|c| c.is_ascii_digit() || c == '.').trim_end_matches('.')))
            }
            c if c.is_alphabetic() => {
                let name = self.take(|c| c.is_alphanumeric());
                match self.rest.chars().next() {
                    Some('_') if BINDERS.contains(&name) => self.binder(name),
                    // `a(b + c)` is a product.
                    Some('(') if name.chars().count() > 1 => self.call(name),
                    _ => self.named(name),
                }
            }
            '\\' => self.command(),
            _ => None,
        }
    }

    /// The rest of a group.
    fn group(&mut self, end: &str) -> Option<Part> {
        let inside = self.sum()?;
        self.eat(end).then(|| Part::atom(format!("({inside})")))
    }

    /// `f(a, b)`
    fn call(&mut self, name: &str) -> Option<Part> {
        self.eat("(");
        let mut arguments = vec![self.sum()?];
        while self.eat(",") {
            arguments.push(self.sum()?);
        }
        self.eat(")").then(|| Part::atom(format!("{name}({})", arguments.join(", "))))
    }

    /// `{..}`, or one sign.
    fn argument(&mut self) -> Option<Part> {
        self.blanks();
        if self.eat("{") {
            let text = self.sum()?;
            let is_atom = text.chars().all(|c| c.is_alphanumeric() || c == '_');
            return self.eat("}").then_some(Part { text, is_atom, is_open: false });
        }
        let first = self.rest.chars().next().filter(|c| c.is_alphanumeric())?;
        self.rest = &self.rest[first.len_utf8()..];
        Some(Part::atom(first))
    }

    fn command(&mut self) -> Option<Part> {
        self.rest = &self.rest[1..];
        if self.eat("|") {
            return self.norm("norm", r"\|");
        }
        let name = self.take(char::is_alphabetic);
        match name {
            "frac" | "dfrac" | "tfrac" => {
                let (a, b) = (self.argument()?, self.argument()?);
                Some(Part { text: format!("{} / {}", a.grouped(), b.grouped()), is_atom: false, is_open: false })
            }
            "sqrt" => Some(Part::atom(format!("sqrt({})", self.argument()?.text))),
            "left" if self.eat("(") => {
                let inside = self.sum()?;
                (self.eat(r"\right") && self.eat(")")).then(|| Part::atom(format!("({inside})")))
            }
            "lVert" | "Vert" => self.norm("norm", if name == "Vert" { r"\Vert" } else { r"\rVert" }),
            "lvert" => self.norm("abs", r"\rvert"),
            _ if LOOKS.contains(&name) => {
                let inside = self.argument()?;
                self.named(&inside.text)
            }
            _ if BINDERS.contains(&name) => self.binder(name),
            _ if FUNCTIONS.contains(&name) => {
                let power = if self.eat("^") { Some(self.argument()?) } else { None };
                let argument = self.factor()?;
                let call = if is_group(&argument.text) {
                    name.to_owned() + &argument.text
                } else {
                    format!("{name}({})", argument.text)
                };
                Some(match power {
                    Some(power) => Part { text: format!("{call}^{}", power.grouped()), is_atom: false, is_open: false },
                    None => Part::atom(call),
                })
            }
            _ if NAMES.contains(&name) => self.named(name),
            _ => None,
        }
    }

    fn norm(&mut self, function: &str, end: &str) -> Option<Part> {
        let outer = std::mem::replace(&mut self.in_norm, true);
        let inside = self.sum()?;
        self.in_norm = outer;
        let closed = self.eat(end);
        // `\|x\|_2`
        let _ = self.eat("_2");
        closed.then(|| Part::atom(format!("{function}({inside})")))
    }

    /// A name with its places, `x_i` and `A_{ij}`; or an index as a number.
    fn named(&mut self, name: &str) -> Option<Part> {
        if !self.eat("_") {
            let more = self.bound.iter().rev().find(|(index, ..)| index == name).map_or(0, |(_, more, _)| *more);
            return Some(if more == 0 { Part::atom(name) } else { Part::atom(format!("({name} + {more})")) });
        }
        let inside = if self.eat("{") {
            let inside = self.take(|c| c != '}');
            self.eat("}").then_some(inside)?
        } else {
            // `K_ij` is one element in a text.
            let letters = self.take(char::is_alphabetic);
            if letters.is_empty() { self.take(|c| c.is_ascii_digit()) } else { letters }
        };
        (!inside.is_empty()).then_some(())?;
        let inside = inside.replace([' ', '\\'], "");
        let is_word = inside.chars().all(char::is_alphabetic);
        let places: Vec<String> = match is_word {
            true if inside.chars().count() > 4 => return Some(Part::atom(format!("{name}_{inside}"))),
            true => inside.chars().map(|c| self.place(&c.to_string())).collect::<Option<_>>()?,
            false => inside.split(',').map(|place| self.place(place)).collect::<Option<_>>()?,
        };
        Some(Part::atom(format!("{name}[{}]", places.join(", "))))
    }

    /// `i`, `i + 1`, `1`
    fn place(&self, text: &str) -> Option<String> {
        let at = text.find(['+', '-']).unwrap_or(text.len());
        let (name, offset) = text.split_at(at);
        let offset: i64 = if offset.is_empty() { 0 } else { offset.parse().ok()? };
        if let Ok(number) = name.parse::<i64>() {
            let place = number - 1 + offset;
            return (place >= 0).then(|| place.to_string());
        }
        let less = self.bound.iter().rev().find(|(index, ..)| index == name).map_or(0, |(.., less)| *less);
        (!name.is_empty() && name.chars().all(char::is_alphanumeric)).then(|| plus(name, offset + less))
    }

    /// `_{i=1}^{n} e`, `_i e`, `_{i,j} e`, `_{i<j} e`, behind the word.
    fn binder(&mut self, word: &str) -> Option<Part> {
        self.eat("_").then_some(())?;
        let below = if self.eat("{") {
            let inside = self.take(|c| c != '}');
            self.eat("}").then_some(inside)?
        } else {
            self.blanks();
            self.take(char::is_alphabetic)
        };
        let below = below.replace(' ', "");
        let names = |text: &str| text.split(',').all(|name| !name.is_empty() && name.chars().all(char::is_alphabetic));
        let (ranges, bound) = match (below.split_once('='), below.split_once('<')) {
            (Some((index, from)), _) if names(index) => {
                let from: i64 = from.parse().ok().filter(|from| *from >= 0)?;
                let to = if self.eat("^") { self.argument()?.text } else { return None };
                // Places in brackets are written as here, and counted from 0.
                let in_brackets = from > 0 && self.rest.contains('[') && !self.rest.contains('_');
                if let Some(to) = to.strip_suffix(" - 1").filter(|_| in_brackets) {
                    return self.body(word, &format!("{from} <= {index} < {to}"), Vec::new());
                }
                let base = from.min(1);
                let range = match (from, to.strip_suffix(" - 1")) {
                    (0, Some(to)) => format!("{index} < {to}"),
                    (0, None) => format!("{index} <= {to}"),
                    _ => format!("{index} < {}", plus(&to, 1 - from)),
                };
                (range, vec![(index.to_owned(), from, from - base)])
            }
            (None, Some((first, second))) if names(first) && names(second) => {
                let body = self.product()?;
                // An index, which the body has as a place, or else a size.
                let places = body.text.split('[').skip(1).filter_map(|part| part.split(']').next());
                let is_index =
                    places.flat_map(|part| part.split(|c: char| !c.is_alphanumeric())).any(|name| name == second);
                let outer = if is_index { format!("{second}, ") } else { String::new() };
                let text = format!("{word} {outer}{first} < {second}. {}", body.text);
                return Some(Part { text, is_atom: false, is_open: true });
            }
            (None, None) if names(&below) => (below.replace(',', ", "), Vec::new()),
            _ => return None,
        };
        self.body(word, &ranges, bound)
    }

    /// The body of a binder behind its ranges.
    fn body(&mut self, word: &str, ranges: &str, bound: Vec<(String, i64, i64)>) -> Option<Part> {
        let added = bound.len();
        self.bound.extend(bound);
        let body = self.product()?;
        self.bound.truncate(self.bound.len() - added);
        Some(Part { text: format!("{word} {ranges}. {}", body.text), is_atom: false, is_open: true })
    }
}

/// Whether a text is one group in parentheses.
fn is_group(text: &str) -> bool {
    let mut depth = 0usize;
    let closes = text.char_indices().find(|(_, c)| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    });
    closes.is_some_and(|(at, c)| c == ')' && at + 1 == text.len())
}

fn plus(text: &str, offset: i64) -> String {
    match offset {
        0 => text.to_owned(),
        1.. => format!("{text} + {offset}"),
        _ => format!("{text} - {}", -offset),
    }
}

#[cfg(test)]
mod tests {
    use super::translate;

    #[test]
    fn formulas() {
        for (formula, expected) in [
            (r"\frac{1}{n} \sum_{i=1}^{n} (x_i - y_i)^2", Some("1 / n * sum i < n. (x[i] - y[i])^2")),
            (r"\sum_{i=0}^{n-1} x_i", Some("sum i < n. x[i]")),
            (r"\sum_{i=1}^{n} i x_i", Some("sum i < n. (i + 1) * x[i]")),
            (r"\sum_{i=2}^{n} x_i x_{i-1}", Some("sum i < n - 1. x[i + 1] * x[i]")),
            (r"\sum_{i,j} x_i A_{ij} x_j", Some("sum i, j. x[i] * A[i, j] * x[j]")),
            ("∑_{i,j} x_i K_{ij} x_j", Some("sum i, j. x[i] * K[i, j] * x[j]")),
            (r"\sum_{i<n} x_i", Some("sum i < n. x[i]")),
            (r"\sum_{i=1}^{n} x[i]^2", Some("sum i < n. x[i]^2")),
            (r"\sum_{t=1}^{n-1} (x[t] - \phi x[t-1])^2", Some("sum 1 <= t < n. (x[t] - phi * x[t-1])^2")),
            (r"\sum_{i<j} A_{ij}", Some("sum j, i < j. A[i, j]")),
            (r"\sum_i x_i + b", Some("(sum i. x[i]) + b")),
            (r"-\sum_{k=1}^{K} p_k \log q_k", Some("-sum k < K. p[k] * log(q[k])")),
            (r"\|x - y\|_2^2 + \lambda \|w\|^2", Some("norm(x - y)^2 + lambda * norm(w)^2")),
            (r"\Vert x \Vert \cdot \|y\|", Some("norm(x) * norm(y)")),
            (r"\frac{1}{2} \mathbf{x}^\top A \mathbf{x}", Some("1 / 2 * x' @ A @ x")),
            (r"X^T (X w - y)", Some("X' @ (X @ w - y)")),
            ("Σ_i x[i] K_ij", Some("sum i. x[i] * K[i, j]")),
            ("max_i x[i] - 1", Some("(max i. x[i]) - 1")),
            (r"\exp\left(-\frac{x^2}{2 \sigma^2}\right)", Some("exp(-(x^2) / (2 * sigma^2))")),
            (r"\sqrt{\frac{a}{b+1}}", Some("sqrt(a / (b + 1))")),
            (r"\log(sum(x)) - \log \frac{a}{b}", Some("log(sum(x)) - log(a / b)")),
            (r"sum(x) \cdot 2", Some("sum(x) * 2")),
            (r"a(b + c)", Some("a * (b + c)")),
            (r"\sum_{i \in S} x_i", None),
            (r"\int_0^1 x dx", None),
            (r"\sum_{i=1} x_i", None),
            (r"x \foo y", None),
        ] {
            assert_eq!(translate(formula).as_deref(), expected, "{formula}");
        }
    }
}
