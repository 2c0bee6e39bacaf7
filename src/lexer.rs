//! Text to tokens, one at a time.
//!
//! Blanks and comments (`# ..` and `// ..` to the end of the line) separate tokens and are dropped; each token remembers whether a line
//! break stands before it, because a `[` or `(` at the start of a line never applies to the end of the line before, and how far its line
//! is indented. `//` behind an operand of its line is a floor division, `n // 2`, and a comment only where no divisor can follow: two words in
//! a row do.
//! Characters and numbers that cannot be read are reported here and never reach the parser as something else. Commands of LaTeX and `A_{i,j}`
//! are reported whole, and stand as one [`Token::Foreign`].
//!
//! Names are letters, digits, `_` and `'`, Unicode included. `Σ` is a letter too: at the start of a word it is always the
//! operator, so `Σi < n` reads as `sum i < n`. A number takes a point only with a digit behind it, so that `gen i < 2. e` ends
//! its range at the point. `A.value` is one operand only without blanks and with a bracket behind it; `gen i < n. value(i)`
//! needs the blank behind its point. A `'` right behind a closing bracket is a transpose, behind a letter it is a part of the name.
//! `²`, and other raised digits, are exponents, and `ᵀ` is a transpose. `.*`, `./`, `.^`, `.+` and a `.-` between blanks are the operators without the point. `import` with a text behind it is no name.

mod latex;

use crate::base::{Format, Span};
use crate::error::Diagnostic;
use crate::foreign;

/// How many characters are looked at to tell a habit.
const MAX_LOOKED_AT: usize = 200;

/// A token without its place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Token {
    Name,
    Number {
        value: f64,
        integer: Option<i64>,
    },
    Param,
    Rel,
    Map,
    Assume,
    Def,
    Fun,
    With,
    Let,
    In,
    Gen,
    Sum,
    Max,
    Min,
    ArgMax,
    ArgMin,
    Exists,
    Fold,
    Scan,
    Iterate,
    Fixpoint,
    Unfold,
    Fn,
    And,
    Or,
    Not,
    Fst,
    Snd,
    Real,
    Case,
    /// `|` between the arms of a `case`, and the constructors of a type.
    Bar,
    If,
    Then,
    Else,
    Format(Format),
    Plus,
    Minus,
    Star,
    Slash,
    /// `//` between operands.
    SlashSlash,
    Percent,
    Caret,
    /// `²`: a power with an exponent in raised digits.
    Raised(i32),
    /// `@`, the product of matrices.
    At,
    /// `'` behind a closing bracket, a transpose.
    Prime,
    /// `"lib.iv"`, behind `import`, and `"ij,jk"`, behind `einsum(`.
    Text,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
    LeftParen,
    RightParen,
    LeftBracket,
    RightBracket,
    Comma,
    Dot,
    /// The `.value` of `A.value(i, j)`.
    DotValue,
    Colon,
    Semicolon,
    Question,
    Arrow,
    /// An operand of another language, such as `\frac{a}{b}`, which has been reported.
    Foreign,
    End,
}

/// What R writes behind a `%`: how it is read on, and what to write instead.
const PERCENT: &[(&str, Token, &str)] = &[
    ("*%", Token::At, "the product of matrices and vectors is `A @ x`"),
    ("o%", Token::At, "the product of all pairs of elements is `outer(x, y)`"),
    ("/%", Token::SlashSlash, "the quotient of indices and sizes is `i // 2`"),
    ("%", Token::Percent, "the remainder of indices and sizes is `i % 2`"),
];

/// A token, its place, and whether a line break stands before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lexeme {
    pub(crate) token: Token,
    pub(crate) span: Span,
    pub(crate) starts_line: bool,
    /// How many bytes stand before the first token of its line.
    pub(crate) indent: u32,
}

pub(crate) fn keyword(text: &str) -> Option<Token> {
    Some(match text {
        "param" => Token::Param,
        "rel" => Token::Rel,
        "map" => Token::Map,
        "assume" => Token::Assume,
        "def" => Token::Def,
        "fun" => Token::Fun,
        "with" => Token::With,
        "let" => Token::Let,
        "in" => Token::In,
        "gen" => Token::Gen,
        "sum" => Token::Sum,
        "max" => Token::Max,
        "min" => Token::Min,
        "argmax" => Token::ArgMax,
        "argmin" => Token::ArgMin,
        "exists" => Token::Exists,
        "fold" => Token::Fold,
        "scan" => Token::Scan,
        "iterate" => Token::Iterate,
        "fixpoint" => Token::Fixpoint,
        "unfold" => Token::Unfold,
        "fn" => Token::Fn,
        "and" => Token::And,
        "or" => Token::Or,
        "not" => Token::Not,
        "fst" => Token::Fst,
        "snd" => Token::Snd,
        "real" => Token::Real,
        "case" => Token::Case,
        "if" => Token::If,
        "then" => Token::Then,
        "else" => Token::Else,
        "inf" => Token::Number { value: f64::INFINITY, integer: None },
        "nan" => Token::Number { value: f64::NAN, integer: None },
        other => Token::Format(Format::named(other)?),
    })
}

/// Whether a name can be written as it is: letters, digits, `_`, `'`, no keyword.
pub(super) fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(starts_name) && chars.all(continues_name) && keyword(text).is_none()
}

fn starts_name(c: char) -> bool {
    (c.is_alphabetic() || c == '_') && !matches!(c, 'Σ' | 'ᵀ')
}

fn continues_name(c: char) -> bool {
    (c.is_alphanumeric() || c == '_' || c == '\'') && raised_digit(c).is_none() && c != 'ᵀ'
}

/// The digit that stands raised, as an exponent.
fn raised_digit(c: char) -> Option<i32> {
    "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().zip(0..).find(|(raised, _)| *raised == c).map(|(_, digit)| digit)
}

/// One character on its own, or the first of several.
fn symbol(c: char) -> Option<Token> {
    Some(match c {
        '+' => Token::Plus,
        '-' | '−' => Token::Minus,
        '*' | '·' | '⋅' | '×' => Token::Star,
        '/' | '÷' => Token::Slash,
        '%' => Token::Percent,
        '^' => Token::Caret,
        '@' => Token::At,
        '<' => Token::Less,
        '≤' => Token::LessEqual,
        '>' => Token::Greater,
        '≥' => Token::GreaterEqual,
        '=' => Token::Equal,
        '≠' => Token::NotEqual,
        '(' => Token::LeftParen,
        ')' => Token::RightParen,
        '[' => Token::LeftBracket,
        ']' => Token::RightBracket,
        ',' => Token::Comma,
        '.' => Token::Dot,
        ':' => Token::Colon,
        ';' => Token::Semicolon,
        '?' => Token::Question,
        '→' => Token::Arrow,
        '⊞' => Token::Gen,
        'Σ' | '∑' => Token::Sum,
        '∃' => Token::Exists,
        '∧' => Token::And,
        '∨' => Token::Or,
        '¬' => Token::Not,
        '∞' => Token::Number { value: f64::INFINITY, integer: None },
        _ => return None,
    })
}

/// Words with an operand behind them.
const PREFIXES: &[&str] = &[
    "gen", "sum", "max", "min", "argmax", "argmin", "exists", "fold", "scan", "iterate", "fixpoint", "unfold", "fn",
    "let", "case", "if", "not", "fst", "snd", "mean", "prod",
];

/// Words that go on behind an operand.
const BETWEEN: &[&str] = &["mod", "and", "or", "then", "else", "in", "with"];

/// Whether what stands behind a `//` is text and no divisor: two words in a row, or a word that begins no operand.
fn is_text(line: &str) -> bool {
    let mut rest = line.trim_start_matches(['(', '[', ' ']);
    // Whether nothing was read, and whether the last word has an operand behind it.
    let (mut first, mut is_open) = (true, false);
    loop {
        let end = rest.find(|c| !continues_name(c)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        rest = behind.trim_start_matches([' ', '\t', '\r']);
        if word.is_empty() || first && word.starts_with(|c: char| c.is_ascii_digit()) {
            return is_open && !rest.starts_with(['(', '[', '-', '−']);
        }
        if PREFIXES.contains(&word) {
            (first, is_open) = (false, keyword(word).is_some());
            continue;
        }
        if first
            && matches!(
                keyword(word),
                Some(Token::In | Token::And | Token::Or | Token::Then | Token::Else | Token::With)
            )
        {
            return true;
        }
        let end = rest.find(|c| !continues_name(c)).unwrap_or(rest.len());
        let (next, behind) = rest.split_at(end);
        // `mean i < n. e` of any function that goes over a range.
        let has_range = behind.trim_start_matches([' ', '\t']).starts_with(['<', '≤']);
        return !next.is_empty() && !BETWEEN.contains(&next) && !has_range;
    }
}

/// Where the lexer stands in a text.
#[derive(Clone)]
pub(crate) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    /// The end of the last name, for `A.value`.
    name_end: usize,
    /// The end of the last closing bracket or transpose.
    closed_end: usize,
    /// Whether the last token ends an operand.
    behind_operand: bool,
    /// Whether a text may stand here: behind `import` and `einsum(`.
    before_text: bool,
    /// Whether no block comment ends behind here, so that the rest of the text is not searched for each that begins.
    no_comment_ends: bool,
    /// Whether a comment behind `%` was reported.
    percent_told: bool,
    line_start: usize,
    indent: u32,
    /// How many constructs are open in which `|` stands between parts.
    pub(crate) bars: usize,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        // A byte order mark is no part of the program.
        let at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Lexer {
            text,
            at,
            name_end: usize::MAX,
            closed_end: usize::MAX,
            behind_operand: false,
            before_text: false,
            no_comment_ends: false,
            percent_told: false,
            line_start: at,
            indent: 0,
            bars: 0,
        }
    }

    /// `!=`, `!`, `&&`, `||`, and `|` where it stands between parts.
    fn other_sign(&mut self) -> Option<Token> {
        let rest = self.rest();
        let (length, token) = if rest.starts_with("!=") {
            (2, Token::NotEqual)
        } else if rest.starts_with('!') && !self.is_behind_operand() {
            (1, Token::Not)
        } else if rest.starts_with("&&") {
            (2, Token::And)
        } else if rest.starts_with("||") && self.is_behind_operand() {
            (2, Token::Or)
        } else if self.bars > 0 && rest.starts_with('|') && !rest.starts_with("||") {
            (1, Token::Bar)
        } else {
            return None;
        };
        self.at += length;
        Some(token)
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip_while(&mut self, test: impl Fn(char) -> bool) {
        let rest = self.rest();
        self.at += rest.find(|c| !test(c)).unwrap_or(rest.len());
    }

    /// The next token. Behind the last one it is [`Token::End`], for ever.
    pub(crate) fn next(&mut self, diagnostics: &mut Vec<Diagnostic>) -> Lexeme {
        let lexeme = self.read(diagnostics);
        let is_name = matches!(lexeme.token, Token::Name | Token::Number { .. } | Token::Text | Token::Foreign);
        let closes = matches!(lexeme.token, Token::RightParen | Token::RightBracket | Token::Prime | Token::Raised(_));
        self.behind_operand = is_name || closes;
        lexeme
    }

    /// Passes over the rest of the line, where its front turned out to be a comment.
    pub(crate) fn skip_line(&mut self) {
        self.skip_while(|c| c != '\n');
        self.behind_operand = false;
    }

    fn read(&mut self, diagnostics: &mut Vec<Diagnostic>) -> Lexeme {
        let mut starts_line = self.at == 0;
        loop {
            let Some(c) = self.peek() else {
                let span = Span::new(self.at, self.at);
                return Lexeme { token: Token::End, span, starts_line: true, indent: 0 };
            };
            if c.is_whitespace() {
                self.at += c.len_utf8();
                if c == '\n' {
                    starts_line = true;
                    self.line_start = self.at;
                }
                continue;
            }
            if c == '#' || self.rest().starts_with("//") && !self.divides(starts_line) {
                self.skip_while(|c| c != '\n');
                continue;
            }
            if self.rest().starts_with("/*") {
                self.block_comment(diagnostics);
                continue;
            }
            if c == '%' && self.begins_comment(starts_line) {
                self.percent_comment(diagnostics);
                continue;
            }
            let start = self.at;
            if starts_line {
                self.indent = (start - self.line_start) as u32;
            }
            if self.begins_formula(c) && self.formula(diagnostics) {
                let span = Span::new(start, self.at);
                return Lexeme { token: Token::Foreign, span, starts_line, indent: self.indent };
            }
            if c == '\\' && self.rest()[1..].starts_with(char::is_alphabetic) {
                match self.command(diagnostics) {
                    true => continue,
                    false => {
                        let span = Span::new(start, self.at);
                        return Lexeme { token: Token::Foreign, span, starts_line, indent: self.indent };
                    }
                }
            }
            if matches!(c, 'Σ' | '∑' | '∃' | '⊞') && self.rest()[c.len_utf8()..].starts_with('_') {
                self.at += c.len_utf8() + 1;
                if self.subscript(start, diagnostics) || self.letters_below(start, diagnostics) {
                    let span = Span::new(start, self.at);
                    return Lexeme { token: Token::Foreign, span, starts_line, indent: self.indent };
                }
                self.at = start;
            }
            let before_text = std::mem::take(&mut self.before_text);
            let token = if c.is_ascii_digit() {
                self.number(diagnostics)
            } else if starts_name(c) {
                self.skip_while(continues_name);
                let text = &self.text[start..self.at];
                if text.ends_with('_') && self.subscript(start, diagnostics) {
                    let span = Span::new(start, self.at);
                    return Lexeme { token: Token::Foreign, span, starts_line, indent: self.indent };
                }
                keyword(text).unwrap_or_else(|| {
                    self.name_end = self.at;
                    self.before_text = text == "import" || text == "einsum";
                    Token::Name
                })
            } else if c == '\'' && self.closed_end == start {
                self.at += 1;
                self.closed_end = self.at;
                Token::Prime
            } else if c == '∏' {
                self.at += c.len_utf8();
                Token::Name
            } else if matches!(c, 'ᵀ' | '⊤') {
                self.at += c.len_utf8();
                self.closed_end = self.at;
                Token::Prime
            } else if let Some(exponent) = self.raised() {
                Token::Raised(exponent)
            } else if c == '"' && before_text && self.quoted() {
                Token::Text
            } else if self.rest().starts_with("𝟙[") {
                self.at += "𝟙[".len();
                Token::LeftBracket
            } else if let Some(token) = symbol(c) {
                self.at += c.len_utf8();
                self.before_text = before_text && token == Token::LeftParen;
                self.operator(token, start, diagnostics)
            } else if let Some(token) = self.other_sign() {
                token
            } else if self.foreign_signs(c, diagnostics) {
                Token::Foreign
            } else {
                self.bad_characters(diagnostics);
                continue;
            };
            if matches!(token, Token::RightParen | Token::RightBracket) {
                self.closed_end = self.at;
            }
            return Lexeme { token, span: Span::new(start, self.at), starts_line, indent: self.indent };
        }
    }

    /// An exponent in raised digits, as in `x²` and `x⁻¹`; nothing where there is none, or where it is too large.
    fn raised(&mut self) -> Option<i32> {
        let (minus, digits) = match self.rest().strip_prefix('⁻') {
            Some(digits) => (-1, digits),
            None => (1, self.rest()),
        };
        let digits: Vec<i32> = digits.chars().map_while(raised_digit).collect();
        let exponent = digits.iter().try_fold(0i32, |number, digit| number.checked_mul(10)?.checked_add(*digit))?;
        if digits.is_empty() {
            return None;
        }
        self.skip_while(|c| c == '⁻' || raised_digit(c).is_some());
        Some(minus * exponent)
    }

    /// Reads a text to its closing `"`, if there is one on the line.
    fn quoted(&mut self) -> bool {
        let rest = self.rest();
        let closed = rest.get(1..).and_then(|rest| rest.find(['"', '\n'])).map(|at| at + 1);
        match closed.filter(|at| rest[*at..].starts_with('"')) {
            Some(at) => {
                self.at += at + 1;
                true
            }
            None => false,
        }
    }

    /// Whether `//` is a floor division: behind an operand of its line, unless what follows shows that it is text. A comment that is read as a
    /// division is reported; a division that is read as a comment would be lost without a word.
    fn divides(&self, starts_line: bool) -> bool {
        let rest = self.rest().get(2..).unwrap_or("");
        let rest = rest.char_indices().nth(MAX_LOOKED_AT).map_or(rest, |(end, _)| &rest[..end]);
        let line = rest.split('\n').next().unwrap_or("");
        let begins = |c: char| continues_name(c) || "([-−+√".contains(c);
        let line = line.trim_start();
        !starts_line && self.behind_operand && (line.is_empty() || line.starts_with(begins)) && !is_text(line)
    }

    /// `/* .. */`, which is refused and left out.
    fn block_comment(&mut self, diagnostics: &mut Vec<Diagnostic>) {
        let start = self.at;
        let rest = self.rest();
        let end = if self.no_comment_ends { None } else { rest.find("*/") };
        self.no_comment_ends = end.is_none();
        self.at += end.map_or_else(|| rest.find('\n').unwrap_or(rest.len()), |end| end + 2);
        let span = Span::new(start, start + 2);
        diagnostics.push(
            Diagnostic::new("block-comment", span, "expected an expression or an operator, found `/*`")
                .help("comments begin with `#` or `//` and end with the line"),
        );
    }

    /// Whether a `%` begins a comment, as in MATLAB and LaTeX: a line begins with it and no number is behind it, or several words are.
    fn begins_comment(&self, starts_line: bool) -> bool {
        let line = self.rest().get(1..).unwrap_or("").split('\n').next().unwrap_or("");
        let line: String = line.chars().take(MAX_LOOKED_AT).collect();
        let line = line.trim_start_matches('%').trim();
        if starts_line {
            return !line.starts_with(|c: char| c.is_ascii_digit()) || self.text[..self.at].trim().is_empty();
        }
        let is_word = |word: &str| word.chars().all(|c| c.is_alphabetic() || matches!(c, ',' | '-' | '\''));
        let goes_on = |word: &str| keyword(word).is_some() || matches!(word, "of" | "while" | "down" | "where" | "for");
        let mut words = line.split_whitespace();
        let (first, second) = (words.next(), words.next());
        // `% n, j, k]` goes on with the next index.
        first.is_some_and(|word| is_word(word) && !word.ends_with(','))
            && second.is_some_and(|word| is_word(word) && !goes_on(word))
    }

    /// `% ..` to the end of the line, which is refused and left out.
    fn percent_comment(&mut self, diagnostics: &mut Vec<Diagnostic>) {
        if !std::mem::replace(&mut self.percent_told, true) {
            let span = Span::new(self.at, self.at + 1);
            diagnostics.push(
                Diagnostic::new(
                    "bad-character",
                    span,
                    "expected an expression or an operator, found a comment behind `%`",
                )
                .help("comments begin with `#` or `//` and end with the line"),
            );
        }
        self.skip_while(|c| c != '\n');
    }

    /// What stands between signs of its own on one line, `‖x‖`, `|s|` and `⟨x, y⟩`; and `½`. They are refused whole.
    fn foreign_signs(&mut self, c: char, diagnostics: &mut Vec<Diagnostic>) -> bool {
        let start = self.at;
        let rest = self.rest();
        let signs = [("‖", "‖"), ("∥", "∥"), ("\\|", "\\|"), ("||", "||"), ("|", "|"), ("⟨", "⟩"), ("〈", "〉")];
        let (open, help) = match foreign::fraction(c) {
            Some(help) => {
                self.at += c.len_utf8();
                (&rest[..c.len_utf8()], help)
            }
            None => {
                let pair = signs.iter().find(|(open, _)| rest.starts_with(open));
                let Some((open, close)) = pair.filter(|(open, _)| !open.starts_with('|') || !self.is_behind_operand())
                else {
                    return false;
                };
                let line: &str = rest[open.len()..].split('\n').next().unwrap_or("");
                let line = line.char_indices().nth(MAX_LOOKED_AT).map_or(line, |(end, _)| &line[..end]);
                let Some((inside, _)) = line.split_once(close) else { return false };
                self.at += open.len() + inside.len() + close.len();
                // `‖x‖₂`, `‖x‖_2`
                self.skip_while(|c| matches!(c, '₁' | '₂' | '₀'));
                (*open, foreign::between(open, inside))
            }
        };
        let span = Span::new(start, self.at);
        let message = format!("expected a name, a number or an operator, found `{open}`");
        diagnostics.push(Diagnostic::new("bad-character", span, message).help(help));
        true
    }

    /// Whether an operand ends in front of this place, so that an operator comes.
    fn is_behind_operand(&self) -> bool {
        let before = self.text[..self.at].trim_end_matches([' ', '\t']);
        let word = before.rfind(|c| !continues_name(c)).map_or(before, |at| &before[at..]);
        let word = word.trim_start_matches(|c| !continues_name(c));
        before.ends_with(|c| continues_name(c) || matches!(c, ')' | ']')) && keyword(word).is_none()
    }

    /// Operators of more than one character.
    fn operator(&mut self, token: Token, start: usize, diagnostics: &mut Vec<Diagnostic>) -> Token {
        let rest = self.rest();
        match token {
            Token::Less if rest.starts_with('=') => {
                self.at += 1;
                Token::LessEqual
            }
            // What is no floor division is a comment, and was left out.
            Token::Slash if rest.starts_with('/') => {
                self.at += 1;
                Token::SlashSlash
            }
            Token::Greater if rest.starts_with('=') => {
                self.at += 1;
                Token::GreaterEqual
            }
            Token::Minus if rest.starts_with('>') => {
                self.at += 1;
                Token::Arrow
            }
            Token::Equal if rest.starts_with('=') => {
                self.at += 1;
                Token::Equal
            }
            Token::Equal if rest.starts_with('>') => {
                self.at += 1;
                let span = Span::new(start, self.at);
                let message = "expected an operator or the end of the expression, found `=>`";
                diagnostics.push(Diagnostic::new("unexpected-token", span, message).help(foreign::FUNCTION));
                Token::Arrow
            }
            Token::Star if rest.starts_with('*') => {
                self.at += 1;
                Token::Caret
            }
            Token::Plus | Token::Minus | Token::Star | Token::Slash if rest.starts_with('=') => {
                self.at += 1;
                let (span, found) = (Span::new(start, self.at), &self.text[start..self.at]);
                diagnostics.push(
                    Diagnostic::new("unexpected-token", span, format!("expected an operator, found `{found}`"))
                        .help("a variable has one value: a total is `sum i < n. e`, a new variable `let y = e`"),
                );
                token
            }
            Token::Percent => self.percent(start, diagnostics),
            Token::Dot if rest.starts_with(['*', '/', '^', '+']) => {
                self.at += 1;
                rest.chars().next().and_then(symbol).unwrap_or(token)
            }
            // `gen i < n.-x[i]` and `gen i < n. -x[i]` keep their point.
            Token::Dot
                if rest.strip_prefix('-').is_some_and(|behind| behind.starts_with(char::is_whitespace))
                    && self.text[..start].ends_with(char::is_whitespace) =>
            {
                self.at += 1;
                Token::Minus
            }
            Token::Dot
                if (start == self.name_end || start == self.closed_end)
                    && rest
                        .strip_prefix('T')
                        .is_some_and(|behind| !behind.starts_with(|c| continues_name(c) || c == '(')) =>
            {
                self.at += 1;
                self.closed_end = self.at;
                Token::Prime
            }
            Token::Dot if start == self.name_end => {
                let behind = rest.strip_prefix("value").and_then(|rest| rest.chars().next());
                if !matches!(behind, Some('(' | '[')) {
                    return Token::Dot;
                }
                self.at += "value".len();
                Token::DotValue
            }
            token => token,
        }
    }

    /// `%`, and what R writes with it, which is refused.
    fn percent(&mut self, start: usize, diagnostics: &mut Vec<Diagnostic>) -> Token {
        let rest = self.rest();
        let known = PERCENT.iter().find(|(behind, ..)| rest.starts_with(behind));
        let Some((behind, token, help)) = known else { return Token::Percent };
        self.at += behind.len();
        let (span, found) = (Span::new(start, self.at), &self.text[start..self.at]);
        let message = format!("expected an operator such as `*` or `@`, found `{found}`");
        diagnostics.push(Diagnostic::new("unexpected-token", span, message).help(*help));
        *token
    }

    /// `1`, `1.5`, `1.5e-3`, `1e9`. What cannot be read counts as 0.
    fn number(&mut self, diagnostics: &mut Vec<Diagnostic>) -> Token {
        let start = self.at;
        let digit = |c: char| c.is_ascii_digit();
        let mut problem = None;
        self.skip_while(digit);
        let mut whole = true;
        if self.rest().strip_prefix('.').is_some_and(|rest| rest.starts_with(digit)) {
            whole = false;
            self.at += 1;
            self.skip_while(digit);
        }
        if self.rest().starts_with(['e', 'E']) {
            whole = false;
            self.at += 1;
            if self.rest().starts_with(['+', '-']) {
                self.at += 1;
            }
            if !self.rest().starts_with(digit) {
                problem = Some("a number whose exponent has no digits");
            }
            self.skip_while(digit);
        }
        if self.peek().is_some_and(continues_name) {
            self.skip_while(continues_name);
            problem = problem.or(Some("a number that runs into a name"));
        } else if self.rest().strip_prefix('.').is_some_and(|rest| !whole && rest.starts_with(digit)) {
            self.at += 1;
            self.skip_while(|c| continues_name(c) || c == '.');
            problem = Some("a number with two points");
        }
        let text = &self.text[start..self.at];
        let value = text.parse::<f64>().unwrap_or(0.0);
        if problem.is_none() && value.is_infinite() {
            problem = Some("a number beyond the largest 64-bit real");
        }
        let Some(problem) = problem else {
            return Token::Number { value, integer: if whole { text.parse().ok() } else { None } };
        };
        diagnostics.push(
            Diagnostic::new(
                "bad-number",
                Span::new(start, self.at),
                format!("expected a number such as `2`, `1.5` or `1.5e-3`, found {problem}"),
            )
            .help(match problem {
                "a number that runs into a name" => "a product needs its sign, as in `2 * x`",
                "a number beyond the largest 64-bit real" => "infinity is written `inf`",
                _ => "write digits, then `.` and digits, then `e` and a power of ten",
            }),
        );
        Token::Number { value: 0.0, integer: Some(0) }
    }

    /// A run of characters that begin no token is one problem.
    fn bad_characters(&mut self, diagnostics: &mut Vec<Diagnostic>) {
        let start = self.at;
        let first = self.peek().unwrap_or(' ');
        if first == '"' {
            let line = self.rest().split('\n').next().unwrap_or("");
            let closed = line.get(1..).and_then(|rest| rest.find('"'));
            self.at += closed.map_or(1, |at| at + 2);
        } else {
            self.skip_while(|c| {
                !c.is_whitespace() && c != '#' && !c.is_ascii_digit() && !starts_name(c) && symbol(c).is_none()
            });
        }
        let mut found = String::from("`");
        for c in self.text[start..self.at].chars().take(20) {
            match c.is_control() {
                true => found.extend(c.escape_unicode()),
                false => found.push(c),
            }
        }
        found.push_str(if self.text[start..self.at].chars().nth(20).is_some() { "..`" } else { "`" });
        let diagnostic = Diagnostic::new(
            "bad-character",
            Span::new(start, self.at),
            format!("expected a name, a number or an operator, found {found}"),
        );
        diagnostics.push(match first {
            '&' => diagnostic.help("`and` joins predicates"),
            '|' => diagnostic.help("`or` joins predicates; the absolute value of a number is `abs(e)`, the length of a vector `norm(e)`"),
            '!' => diagnostic.help("negation is `not p`, inequality is `a != b`"),
            '\\' => diagnostic.help(foreign::function("solve").unwrap_or_default()),
            '"' | '\'' => diagnostic.help("there are no strings"),
            '{' | '}' => diagnostic.help("grouping is `( .. )`; behind a `let` the rest of the program needs none"),
            '‖' | '∥' => diagnostic.help("the norm of a vector is `norm(x)`"),
            '√' => diagnostic.help("the root of a number is `sqrt(x)`"),
            '∇' => diagnostic.help("a program is a function; its derivative is asked for when it is shown or run, by `--derivative gradient`"),
            _ => diagnostic,
        });
    }
}
