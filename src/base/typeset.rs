//! Formulas as they are typeset, from their text: its tokens, and presentation MathML.
//!
//! | text | elements |
//! |---|---|
//! | `i + m - 1` | `<mi>`, `<mo>`, `<mn>`, with signs as prefix or infix |
//! | `x[i, j]`, `n^2` | `<msub>`, `<msup>`, where a name or a number stands before |
//! | `∑ i < n. `, `⊞`, `argmax` likewise | `<munder>` |
//! | `1e-7` | a number with a power of ten |
//!
//! Only elements of MathML Core are used. [`table`] makes lines into rows, in which parentheses grow with what they hold if they close on their line.

use super::xml::escape;

/// The length of the token at the start of a text that starts with `c`: a name, a number, `^-2`, `'0`, or a sign.
pub(crate) fn token(text: &str, c: char) -> usize {
    let run = |skip: usize, is_inside: &dyn Fn(char) -> bool| {
        let rest = &text[skip..];
        skip + rest.find(|c| !is_inside(c)).unwrap_or(rest.len())
    };
    match c {
        _ if c.is_alphabetic() || c == '_' => run(0, &|c| c.is_alphanumeric() || c == '_' || c == '?'),
        '0'..='9' => {
            let whole = run(0, &|c| c.is_ascii_digit());
            let fraction = match text[whole..].strip_prefix('.') {
                Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit()) => run(whole + 1, &|c| c.is_ascii_digit()),
                _ => whole,
            };
            match text[fraction..].strip_prefix('e') {
                Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
                    run(fraction + 1, &|c| c.is_ascii_digit() || c == '-')
                }
                _ => fraction,
            }
        }
        '^' | '\'' => run(1, &|c| c.is_ascii_digit() || c == '-' || c == '_'),
        _ => match ["<=", "!=", ". "].iter().find(|symbol| text.starts_with(**symbol)) {
            Some(symbol) => symbol.len(),
            None => c.len_utf8(),
        },
    }
}

/// What is multiplied without a sign.
pub(crate) const TIMES: char = '\u{2062}';

/// A function that is applied.
pub(crate) const APPLY: char = '\u{2061}';

/// Spells text in MathML, piece by piece. What stands before a sign tells whether it is infix.
#[derive(Clone, Debug, Default)]
pub(crate) struct Speller {
    pub(crate) behind_operand: bool,
}

impl Speller {
    /// The elements of a text.
    pub(crate) fn spell(&mut self, text: &str) -> String {
        self.pieces(text, true)
    }

    /// `with_ranges`: whether what a sum ranges over is put under its sign.
    fn pieces(&mut self, text: &str, with_ranges: bool) -> String {
        let mut out = String::new();
        // What the open brackets are closed by.
        let mut closing = Vec::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let length = token(rest, c);
            if let (true, Some(sign)) = (with_ranges, range_sign(&rest[..length]))
                && let Some((range, next)) = rest[length..].strip_prefix(' ').and_then(|rest| rest.split_once(". "))
            {
                let range = Speller::default().pieces(range, false);
                out.push_str(&format!("<munder>{sign}<mrow>{range}</mrow></munder>"));
                self.behind_operand = false;
                rest = next;
                continue;
            }
            if c.is_alphabetic() || c == '_' || c.is_ascii_digit() {
                let length = with_primes(rest, length, c);
                let (word, next) = rest.split_at(length);
                rest = self.word(word, next, &mut closing, &mut out);
                continue;
            }
            let (sign, next) = rest.split_at(length);
            rest = next;
            match (sign, sign.strip_prefix('^').filter(|power| !power.is_empty())) {
                (_, Some(power)) => out.push_str(&format!("<msup><mrow></mrow>{}</msup>", number(power))),
                ("[", _) => {
                    closing.push(None);
                    self.sign(sign, &mut out);
                }
                ("]", _) => match closing.pop().flatten() {
                    Some(end) => {
                        out.push_str(end);
                        self.behind_operand = true;
                    }
                    None => self.sign(sign, &mut out),
                },
                _ => self.sign(sign, &mut out),
            }
        }
        // Brackets that close elsewhere are signs, so this is for text that is no formula.
        closing.into_iter().rev().flatten().for_each(|end: &str| out.push_str(end));
        out
    }

    /// A name, a number or a word of the language, with the power or the brackets behind it. Gives what is left.
    fn word<'a>(
        &mut self,
        word: &str,
        next: &'a str,
        closing: &mut Vec<Option<&'static str>>,
        out: &mut String,
    ) -> &'a str {
        // Two operands do not follow each other.
        if word == "on" && self.behind_operand {
            out.push_str("<mtext>\u{a0}on\u{a0}</mtext>");
            self.behind_operand = false;
            return next;
        }
        if let Some((text, operand)) = keyword(word, self.behind_operand, next) {
            out.push_str(text);
            self.behind_operand = operand;
            return next;
        }
        // The guard of an inner product, `⟨a | b⟩_[p]`.
        if let Some(next) = next.strip_prefix('[').filter(|_| word == "_" && self.behind_operand) {
            out.push_str("<msub><mrow></mrow><mrow><mo>[</mo>");
            closing.push(Some("<mo>]</mo></mrow></msub>"));
            self.behind_operand = false;
            return next;
        }
        let is_number = word.starts_with(|c: char| c.is_ascii_digit());
        let element = if is_number { number(word) } else { format!("<mi>{}</mi>", escape(word)) };
        self.behind_operand = true;
        if let Some(next) = next.strip_prefix('[').filter(|_| !is_number) {
            out.push_str(&format!("<msub>{element}<mrow>"));
            closing.push(Some("</mrow></msub>"));
            self.behind_operand = false;
            return next;
        }
        let length = next.chars().next().filter(|c| *c == '^').map(|c| token(next, c));
        match length.map(|length| next.split_at(length)) {
            Some((power, next)) if power.len() > 1 => {
                out.push_str(&format!("<msup>{element}{}</msup>", number(&power[1..])));
                next
            }
            _ => {
                out.push_str(&element);
                next
            }
        }
    }

    fn sign(&mut self, sign: &str, out: &mut String) {
        let was_behind = self.behind_operand;
        self.behind_operand = matches!(sign, ")" | "]" | "⟩" | "∞" | "|") || (sign == " " && was_behind);
        let text = match sign {
            " " => return,
            "-" if was_behind => "<mo>−</mo>",
            "-" => "<mo form=\"prefix\">−</mo>",
            "*" if !was_behind => "<mi>∗</mi>",
            "#" => "<mi>#</mi>",
            "\u{2062}" | "*" => "<mo lspace=\"0.15em\" rspace=\"0.15em\">\u{2062}</mo>",
            "·" => "<mo>·</mo>",
            "<=" => "<mo>≤</mo>",
            "!=" => "<mo>≠</mo>",
            ". " => "<mo rspace=\"0.3em\">.</mo>",
            "|" => "<mo stretchy=\"false\" lspace=\"0.1em\" rspace=\"0.1em\">|</mo>",
            "⟨" | "⟩" => {
                out.push_str(&format!("<mo stretchy=\"false\">{sign}</mo>"));
                return;
            }
            other => {
                out.push_str(&format!("<mo>{}</mo>", escape(other)));
                return;
            }
        };
        out.push_str(text);
    }
}

/// The length of a name with what primes add to it, `x'`, `exp'0`.
fn with_primes(text: &str, mut length: usize, c: char) -> usize {
    let is_name = !c.is_ascii_digit();
    while let Some(rest) = text[length..].strip_prefix('\'').filter(|_| is_name) {
        let more = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        length += 1 + more;
    }
    length
}

/// The sign of something that ranges over indices.
fn range_sign(word: &str) -> Option<&'static str> {
    Some(match word {
        "Σ" | "∑" => "<mo>∑</mo>",
        "⊞" => "<mo>⊞</mo>",
        "max" => "<mo form=\"prefix\" lspace=\"0\" rspace=\"0.2em\">max</mo>",
        "min" => "<mo form=\"prefix\" lspace=\"0\" rspace=\"0.2em\">min</mo>",
        "argmax" => "<mo form=\"prefix\" lspace=\"0\" rspace=\"0.2em\">argmax</mo>",
        "argmin" => "<mo form=\"prefix\" lspace=\"0\" rspace=\"0.2em\">argmin</mo>",
        _ => return None,
    })
}

/// A word of the language, and whether it is an operand; with what stands around.
fn keyword(word: &str, behind_operand: bool, next: &str) -> Option<(&'static str, bool)> {
    Some(match word {
        "let" => ("<mtext>let\u{a0}</mtext>", false),
        "in" if behind_operand => ("<mtext>\u{a0}in\u{a0}</mtext>", false),
        "in" => ("<mtext>in\u{a0}</mtext>", false),
        "fst" => ("<mtext>fst\u{a0}</mtext>", false),
        "snd" => ("<mtext>snd\u{a0}</mtext>", false),
        "not" => ("<mo form=\"prefix\">¬</mo>", false),
        "and" => ("<mo>∧</mo>", false),
        "or" => ("<mo>∨</mo>", false),
        "exists" => ("<mo form=\"prefix\">∃</mo>", false),
        // `real(n)` is a number made of sizes and indices.
        "real" if !next.starts_with('(') => ("<mi>ℝ</mi>", true),
        "inf" => ("<mi>∞</mi>", true),
        _ => return None,
    })
}

/// A number; `1e-7` with a power of ten.
fn number(text: &str) -> String {
    let part = |text: &str| match text.strip_prefix('-') {
        Some(digits) => format!("<mrow><mo form=\"prefix\">−</mo><mn>{}</mn></mrow>", escape(digits)),
        None => format!("<mn>{}</mn>", escape(text)),
    };
    match text.split_once('e') {
        Some((digits, exponent)) => {
            format!("{}<mo>·</mo><msup><mn>10</mn>{}</msup>", part(digits), part(exponent))
        }
        None => part(text),
    }
}

/// A formula in MathML, to stand in a text.
pub(crate) fn inline(text: &str) -> String {
    format!("<math>{}</math>", fenced(&Speller::default().spell(text)))
}

/// The same for what goes on with a formula: a sign that it begins with is infix.
pub(crate) fn inline_rest(text: &str) -> String {
    let elements = Speller { behind_operand: true }.spell(text);
    format!("<math><mrow></mrow>{}</math>", fenced(&elements))
}

/// Lines of elements as the rows of a display. A line is indented by the spaces that it starts with.
pub(crate) fn table(lines: &str) -> String {
    let mut out = String::from("<math display=\"block\"><mtable displaystyle=\"true\">\n");
    for line in lines.lines().filter(|line| !line.trim().is_empty()) {
        let elements = line.trim_start_matches(' ');
        let indent = (line.len() - elements.len()) / 2;
        let space = if indent > 0 { format!("<mspace width=\"{indent}em\"/>") } else { String::new() };
        out.push_str(&format!(
            "<mtr><mtd style=\"text-align: left\">{space}{}</mtd></mtr>\n",
            fenced(elements.trim_end())
        ));
    }
    out + "</mtable></math>\n"
}

/// Elements in which each pair of brackets stands in a row of its own, so that both grow with what is between. Those without a partner do not grow.
fn fenced(elements: &str) -> String {
    const OPEN: [&str; 2] = ["<mo>(</mo>", "<mo>[</mo>"];
    const CLOSE: [&str; 2] = ["<mo>)</mo>", "<mo>]</mo>"];
    let is_one = |at: usize, list: &[&str]| list.iter().any(|sign| elements[at..].starts_with(sign));
    // The places of brackets, and whether they have a partner; those that are open, with the elements around them.
    let mut brackets: Vec<(usize, bool)> = Vec::new();
    let mut open: Vec<(usize, usize)> = Vec::new();
    let mut depth = 0usize;
    for (at, _) in elements.match_indices('<') {
        if is_one(at, &OPEN) {
            open.push((brackets.len(), depth));
            brackets.push((at, false));
        } else if is_one(at, &CLOSE) {
            let partner = open.pop_if(|(_, around)| *around == depth);
            if let Some((partner, _)) = partner {
                brackets[partner].1 = true;
            }
            brackets.push((at, partner.is_some()));
        }
        let tag = &elements[at..];
        if tag.starts_with("</") {
            depth = depth.saturating_sub(1);
            while open.pop_if(|(_, around)| *around > depth).is_some() {}
        } else if !tag.split_once('>').is_some_and(|(tag, _)| tag.ends_with('/')) {
            depth += 1;
        }
    }
    let mut out = String::with_capacity(elements.len() + 13 * brackets.len());
    let mut done = 0;
    for (at, paired) in brackets {
        let end = at + OPEN[0].len();
        let bracket = &elements[at..end];
        out.push_str(&elements[done..at]);
        match (paired, is_one(at, &OPEN)) {
            (true, true) => out.extend(["<mrow>", bracket]),
            (true, false) => out.extend([bracket, "</mrow>"]),
            (false, _) => out.push_str(&bracket.replace("<mo>", "<mo stretchy=\"false\">")),
        }
        done = end;
    }
    out.push_str(&elements[done..]);
    out
}

#[cfg(test)]
mod tests {
    use super::{fenced, inline, table};

    #[track_caller]
    fn spells(text: &str, expected: &str) {
        assert_eq!(inline(text), format!("<math>{expected}</math>"), "{text}");
    }

    #[test]
    fn signs_are_infix_behind_operands() {
        spells("i - 1", "<mi>i</mi><mo>−</mo><mn>1</mn>");
        spells("-1", "<mo form=\"prefix\">−</mo><mn>1</mn>");
        spells("(-i)", "<mrow><mo>(</mo><mo form=\"prefix\">−</mo><mi>i</mi><mo>)</mo></mrow>");
    }

    #[test]
    fn indices_and_powers_are_set_high_and_low() {
        spells("x[i, j]", "<msub><mi>x</mi><mrow><mi>i</mi><mo>,</mo><mi>j</mi></mrow></msub>");
        spells("n^2/2", "<msup><mi>n</mi><mn>2</mn></msup><mo>/</mo><mn>2</mn>");
        spells("n^-1", "<msup><mi>n</mi><mrow><mo form=\"prefix\">−</mo><mn>1</mn></mrow></msup>");
        spells("2e-7", "<mn>2</mn><mo>·</mo><msup><mn>10</mn><mrow><mo form=\"prefix\">−</mo><mn>7</mn></mrow></msup>");
        spells(
            "⟩_[p]",
            "<mo stretchy=\"false\">⟩</mo><msub><mrow></mrow><mrow><mrow><mo>[</mo><mi>p</mi><mo>]</mo></mrow></mrow></msub>",
        );
        spells("exp'0", "<mi>exp&#39;0</mi>");
    }

    #[test]
    fn ranges_stand_under_signs() {
        spells("Σ i < n. i", "<munder><mo>∑</mo><mrow><mi>i</mi><mo>&lt;</mo><mi>n</mi></mrow></munder><mi>i</mi>");
    }

    #[test]
    fn brackets_grow_where_they_close() {
        assert_eq!(fenced("<mo>(</mo><mo>)</mo>"), "<mrow><mo>(</mo><mo>)</mo></mrow>");
        assert_eq!(fenced("<mo>)</mo><mo>(</mo>"), "<mo stretchy=\"false\">)</mo><mo stretchy=\"false\">(</mo>");
        assert!(table("<mi>a</mi>\n  <mi>b</mi>").contains("<mspace width=\"1em\"/><mi>b</mi></mtd>"));
    }

    #[test]
    fn any_text_gives_balanced_elements() {
        let mut random = 1u64;
        let signs =
            ["x", "[", "]", "(", ")", "^2", "^", " ", "∑", ". ", "<", "&", "1", "e", "'", "-", "let", "\"", "|"];
        for _ in 0..2000 {
            let mut text = String::new();
            for _ in 0..12 {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                text.push_str(signs[(random >> 33) as usize % signs.len()]);
            }
            let mut open = Vec::new();
            for tag in inline(&text).split('<').skip(1) {
                let name = |tag: &str| tag.split(['>', ' ']).next().map(str::to_owned);
                match tag.strip_prefix('/') {
                    Some(tag) => assert_eq!(open.pop(), name(tag), "{text}"),
                    None if tag.contains("/>") => {}
                    None => open.extend(name(tag)),
                }
            }
            assert!(open.is_empty(), "{text}");
        }
    }
}
