//! Reading rule files. `rules/README.md` says how they are written.

use super::conditions::{Condition, Name};
use super::rule::{Arg, Binder, Head, Integer, Kind, Linear, Meta, Mode, Pattern, PredPattern, Rule, Tier};
use super::rule_check::{Wrong, check};
use crate::scalar::{Function, Op};

/// What is wrong with a rule file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct RuleError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// One sentence.
    pub message: String,
}

/// Reads the rules of one file.
///
/// # Errors
/// The first thing wrong: a word that does not belong, an unknown name, a metavariable that nothing binds, a name used twice.
pub fn read(file: &str, text: &str) -> Result<Vec<Rule>, RuleError> {
    let mut rules: Vec<Rule> = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    let error = |line: usize, message: String| RuleError { file: file.to_owned(), line: line + 1, message };
    let mut comment: Vec<&str> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at].trim_end();
        if let Some(words) = line.strip_prefix('#') {
            comment.push(words.trim());
        } else if line.is_empty() {
            comment.clear();
        } else if let Some(header) = line.strip_prefix("rule ") {
            let first = at;
            let body = lines[at + 1..].iter().take_while(|line| line.starts_with(' ')).count();
            let rule = block(file, first, header, &lines[first + 1..first + 1 + body], &comment)
                .map_err(|(line, message)| error(line, message))?;
            if rules.iter().any(|other| other.name == rule.name) {
                return Err(error(first, format!("there are two rules `{}`", rule.name)));
            }
            rules.push(rule);
            comment.clear();
            at += body;
        } else {
            return Err(error(at, format!("expected `rule` or a comment, found `{line}`")));
        }
        at += 1;
    }
    Ok(rules)
}

/// Reads several files, whose rules have different names.
///
/// # Errors
/// As [`read`].
pub(super) fn read_all(files: &[(&str, &str)]) -> Result<Vec<Rule>, RuleError> {
    let mut all: Vec<Rule> = Vec::new();
    for (file, text) in files {
        for rule in read(file, text)? {
            if all.iter().any(|other| other.name == rule.name) {
                let (file, line) = rule.place;
                return Err(RuleError { file, line, message: format!("there are two rules `{}`", rule.name) });
            }
            all.push(rule);
        }
    }
    Ok(all)
}

type Complaint = (usize, String);

/// The parts of a rule, as messages call several of them.
const PARTS: [&str; 4] = ["left-hand sides", "right-hand sides", "lists of conditions", "examples"];

/// The texts of the parts of a rule, and the lines on which they begin; 0 for those that there are not.
fn parts(first: usize, body: &[&str]) -> Result<([String; 4], [usize; 4]), Complaint> {
    let mut texts: [String; 4] = Default::default();
    let mut lines = [first + 1, 0, 0, 0];
    let mut part = 0;
    for (at, line) in body.iter().enumerate() {
        let line = line.trim();
        let (next, rest) = if let Some(rest) = line.strip_prefix("=>") {
            (1, rest)
        } else if let Some(rest) = line.strip_prefix("where ") {
            (2, rest)
        } else if let Some(rest) = line.strip_prefix("example ") {
            (3, rest)
        } else {
            (part, line)
        };
        if next > 0 && (next != part || line.starts_with("=>")) {
            if lines[next] > 0 {
                return Err((first + 1 + at, format!("there are two {}", PARTS[next])));
            }
            lines[next] = first + 1 + at;
        }
        part = next;
        texts[part].push(' ');
        texts[part].push_str(rest);
    }
    Ok((texts, lines))
}

/// A rule: the header and the indented lines below.
fn block(file: &str, first: usize, header: &str, body: &[&str], comment: &[&str]) -> Result<Rule, Complaint> {
    let header: Vec<&str> = header.split_whitespace().collect();
    let [name, mode, tier] = header.as_slice() else {
        return Err((first, "a rule begins with `rule NAME MODE TIER`".to_owned()));
    };
    let mode = match *mode {
        "normal" => Mode::Normal,
        "reduce" => Mode::Reduce,
        "explore" => Mode::Explore,
        other => return Err((first, format!("`{other}` is not a mode; there are normal, reduce and explore"))),
    };
    let tier = match *tier {
        "exact" => Tier::Exact,
        "signed-zero" => Tier::SignedZero,
        "finite" => Tier::Finite,
        other => return Err((first, format!("`{other}` is not a tier; there are exact, signed-zero and finite"))),
    };
    if comment.is_empty() {
        return Err((first, format!("the rule `{name}` has no comment")));
    }
    let ([lhs, rhs, conditions, example], lines) = parts(first, body)?;
    for (text, part) in [(&lhs, "left-hand side"), (&rhs, "right-hand side"), (&example, "example")] {
        if text.trim().is_empty() {
            return Err((first, format!("the rule `{name}` has no {part}")));
        }
    }
    let mut metas = Vec::new();
    let left = Reader::parse(&lhs, &mut metas, |r| r.expr()).map_err(|m| (lines[0], m))?;
    let known = metas.len();
    let conditions_read = if conditions.is_empty() {
        Vec::new()
    } else {
        Reader::parse(&conditions, &mut metas, |r| r.conditions(known)).map_err(|m| (lines[2], m))?
    };
    let known = metas.len();
    let right = Reader::parse(&rhs, &mut metas, |r| r.expr()).map_err(|m| (lines[1], m))?;
    if let Some((unbound, _)) = metas.get(known) {
        return Err((lines[1], format!("nothing binds `{unbound}`")));
    }
    check(&metas, &left, &right).map_err(|wrong| match wrong {
        Wrong::Left(message) => (lines[0], message),
        Wrong::Right(message) => (lines[1], message),
    })?;
    let text = match conditions.trim() {
        "" => format!("{} => {}", lhs.trim(), rhs.trim()),
        conditions => format!("{} => {} where {conditions}", lhs.trim(), rhs.trim()),
    };
    Ok(Rule {
        name: (*name).to_owned(),
        comment: comment.join(" "),
        tier,
        mode,
        place: (file.to_owned(), first + 1),
        text,
        example: example.trim().to_owned(),
        metas,
        lhs: left,
        rhs: right,
        conditions: conditions_read,
    })
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Name(String),
    Number(f64, bool),
    Mark(&'static str),
    End,
}

const MARKS: [&str; 17] = ["<=", "!=", ":=", "+", "-", "*", "/", "^", "(", ")", "[", "]", ",", ".", "<", "=", ":"];

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '\'';
        if first.is_ascii_digit() {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let fraction = rest[end..].strip_prefix('.').filter(|r| r.starts_with(|c: char| c.is_ascii_digit()));
            let length = match fraction {
                Some(digits) => end + 1 + digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len()),
                None => end,
            };
            let value = rest[..length].parse().map_err(|_| format!("`{}` is not a number", &rest[..length]))?;
            found.push(Token::Number(value, fraction.is_none()));
            rest = &rest[length..];
        } else if is_word(first) {
            let mut end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
            // Names of conditions have hyphens between letters.
            while rest[end..].starts_with('-') && rest[end + 1..].starts_with(|c: char| c.is_alphabetic()) {
                let next = rest[end + 1..].find(|c: char| !is_word(c)).map_or(rest.len(), |k| end + 1 + k);
                if Name::parse(&rest[..next]).is_none()
                    && !rest[..end].starts_with("not")
                    && !is_condition_prefix(&rest[..next])
                {
                    break;
                }
                end = next;
            }
            found.push(Token::Name(rest[..end].to_owned()));
            rest = &rest[end..];
        } else if let Some(mark) = MARKS.iter().find(|mark| rest.starts_with(**mark)) {
            found.push(Token::Mark(mark));
            rest = &rest[mark.len()..];
        } else {
            return Err(format!("`{first}` does not belong here"));
        }
        rest = rest.trim_start();
    }
    found.push(Token::End);
    Ok(found)
}

/// Whether a hyphenated word could be the name of a condition.
fn is_condition_prefix(word: &str) -> bool {
    word.chars().next().is_some_and(|c| c.is_lowercase()) && word.split('-').all(|part| part.len() > 1)
}

struct Reader<'a> {
    tokens: Vec<Token>,
    at: usize,
    metas: &'a mut Vec<(String, Kind)>,
}

impl<'a> Reader<'a> {
    fn parse<T>(
        text: &str,
        metas: &'a mut Vec<(String, Kind)>,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T, String>,
    ) -> Result<T, String> {
        let mut reader = Reader { tokens: tokens(text)?, at: 0, metas };
        let result = read(&mut reader)?;
        match reader.peek() {
            Token::End => Ok(result),
            other => Err(format!("{} does not belong here", describe(&other))),
        }
    }

    fn peek(&self) -> Token {
        self.tokens.get(self.at).cloned().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn eat(&mut self, mark: &str) -> bool {
        let found = matches!(self.peek(), Token::Mark(m) if m == mark);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, mark: &str) -> Result<(), String> {
        if self.eat(mark) { Ok(()) } else { Err(format!("expected `{mark}`, found {}", describe(&self.peek()))) }
    }

    fn word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Token::Name(name) if name == word);
        self.at += usize::from(found);
        found
    }

    fn meta(&mut self, name: &str) -> Result<(Meta, Kind), String> {
        // One letter, perhaps with digits or primes; longer names are those of functions.
        let plain = name.chars().skip(1).all(|c| c.is_ascii_digit() || c == '\'');
        let kind = Kind::of(name).filter(|_| plain).ok_or_else(|| format!("`{name}` names nothing"))?;
        let at = self.metas.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            self.metas.push((name.to_owned(), kind));
            self.metas.len() - 1
        });
        Ok((at, kind))
    }

    /// `expr = term (+ term | - term)*`
    fn expr(&mut self) -> Result<Pattern, String> {
        let mut terms = vec![self.term()?];
        loop {
            if self.eat("+") {
                terms.push(self.term()?);
            } else if self.eat("-") {
                let term = self.term()?;
                terms.push(product(vec![Pattern::Number(-1.0), term]));
            } else {
                break;
            }
        }
        Ok(if terms.len() == 1 { terms.remove(0) } else { Pattern::Sum(terms) })
    }

    /// `term = ([guard] | factor) (* factor | / factor)*`
    fn term(&mut self) -> Result<Pattern, String> {
        let mut guard = Vec::new();
        let mut factors = Vec::new();
        loop {
            if self.eat("[") {
                guard.extend(self.conjunction()?);
                self.expect("]")?;
            } else {
                factors.push(self.factor()?);
            }
            if self.eat("/") {
                let divisor = self.factor()?;
                let dividend = product(std::mem::take(&mut factors));
                factors.push(Pattern::Apply(Head::Fixed(Op::Div.into()), vec![dividend, divisor]));
            }
            if !self.eat("*") {
                break;
            }
        }
        if guard.is_empty() {
            return Ok(product(factors));
        }
        Ok(Pattern::Product { binders: Vec::new(), guard, factors })
    }

    fn factor(&mut self) -> Result<Pattern, String> {
        if self.eat("-") {
            let factor = self.factor()?;
            return Ok(match factor {
                Pattern::Number(x) => Pattern::Number(-x),
                other => product(vec![Pattern::Number(-1.0), other]),
            });
        }
        let base = self.atom()?;
        if !self.eat("^") {
            return Ok(base);
        }
        let exponent = match self.next() {
            Token::Number(k, true) => Integer::Constant(whole(k)?),
            Token::Name(name) => Integer::Meta(self.integer(&name)?),
            Token::Mark("-") => match self.next() {
                Token::Number(k, true) => Integer::Constant(-whole(k)?),
                other => return Err(format!("expected an exponent, found {}", describe(&other))),
            },
            Token::Mark("(") => {
                let exponent = self.integer_sum()?;
                self.expect(")")?;
                exponent
            }
            other => return Err(format!("expected an exponent, found {}", describe(&other))),
        };
        Ok(Pattern::Apply(Head::Power(exponent), vec![base]))
    }

    fn integer(&mut self, name: &str) -> Result<Meta, String> {
        match self.meta(name)? {
            (meta, Kind::Integer) => Ok(meta),
            _ => Err(format!("`{name}` is not an integer constant")),
        }
    }

    fn integer_sum(&mut self) -> Result<Integer, String> {
        let mut sum = self.integer_product()?;
        loop {
            if self.eat("+") {
                sum = Integer::Add(Box::new(sum), Box::new(self.integer_product()?));
            } else if self.eat("-") {
                let negated = Integer::Mul(Box::new(Integer::Constant(-1)), Box::new(self.integer_product()?));
                sum = Integer::Add(Box::new(sum), Box::new(negated));
            } else {
                return Ok(sum);
            }
        }
    }

    fn integer_product(&mut self) -> Result<Integer, String> {
        let mut product = self.integer_atom()?;
        while self.eat("*") {
            product = Integer::Mul(Box::new(product), Box::new(self.integer_atom()?));
        }
        Ok(product)
    }

    fn integer_atom(&mut self) -> Result<Integer, String> {
        match self.next() {
            Token::Number(k, true) => Ok(Integer::Constant(whole(k)?)),
            Token::Mark("-") => Ok(Integer::Mul(Box::new(Integer::Constant(-1)), Box::new(self.integer_atom()?))),
            Token::Name(name) => Ok(Integer::Meta(self.integer(&name)?)),
            other => Err(format!("expected an integer, found {}", describe(&other))),
        }
    }

    fn atom(&mut self) -> Result<Pattern, String> {
        match self.next() {
            Token::Number(x, _) => Ok(Pattern::Number(x)),
            Token::Mark("(") => {
                let e = self.expr()?;
                self.expect(")")?;
                Ok(e)
            }
            Token::Name(word) if word == "sum" => self.sum(),
            Token::Name(word) if word == "real" => {
                self.expect("(")?;
                let a = self.linear()?;
                self.expect(")")?;
                Ok(Pattern::Real(a))
            }
            Token::Name(word) if word == "element" => {
                self.expect("(")?;
                let e = self.expr()?;
                self.expect(")")?;
                Ok(Pattern::Element(Box::new(e)))
            }
            Token::Name(word) if word == "read" => {
                self.expect("(")?;
                let Token::Name(name) = self.next() else { return Err("expected a name after `read(`".to_owned()) };
                let (meta, kind) = self.meta(&name)?;
                self.expect(")")?;
                if kind == Kind::Expr { Ok(Pattern::Read(meta)) } else { Err(format!("`{name}` is not an expression")) }
            }
            Token::Name(name) => self.named(&name),
            other => Err(format!("expected an expression, found {}", describe(&other))),
        }
    }

    /// `sum i < n, I. e`
    fn sum(&mut self) -> Result<Pattern, String> {
        let mut outer = Vec::new();
        loop {
            let Token::Name(name) = self.next() else { return Err("expected an index after `sum`".to_owned()) };
            match self.meta(&name)? {
                (meta, Kind::Index) => {
                    self.expect("<")?;
                    outer.push(Binder::One(meta, self.linear()?));
                }
                (meta, Kind::Indices) => outer.push(Binder::Many(meta)),
                _ => return Err(format!("`{name}` is not an index")),
            }
            if !self.eat(",") {
                break;
            }
        }
        self.expect(".")?;
        Ok(match self.expr()? {
            Pattern::Product { binders, guard, factors } => {
                Pattern::Product { binders: outer.into_iter().chain(binders).collect(), guard, factors }
            }
            body => Pattern::Product { binders: outer, guard: Vec::new(), factors: vec![body] },
        })
    }

    fn named(&mut self, name: &str) -> Result<Pattern, String> {
        if let Some(op) = scalar_function(name) {
            let args = self.expressions()?;
            if args.len() != usize::from(op.arity()) {
                return Err(takes(name, usize::from(op.arity())));
            }
            return Ok(Pattern::Apply(Head::Fixed(Function::from(op)), args));
        }
        let (meta, kind) = self.meta(name)?;
        match kind {
            Kind::Function => Ok(Pattern::Apply(Head::Meta(meta), self.expressions()?)),
            Kind::Literal => Ok(Pattern::Literal(meta)),
            Kind::Expr => Ok(Pattern::Meta(meta, self.args()?)),
            Kind::Index | Kind::Affine | Kind::Size | Kind::Integer => {
                Err(format!("write `real({name})` for `{name}` as a real"))
            }
            Kind::Indices | Kind::Pred => Err(format!("`{name}` is not an expression")),
        }
    }

    fn expressions(&mut self) -> Result<Vec<Pattern>, String> {
        self.expect("(")?;
        let mut found = vec![self.expr()?];
        while self.eat(",") {
            found.push(self.expr()?);
        }
        self.expect(")")?;
        Ok(found)
    }

    fn args(&mut self) -> Result<Vec<Arg>, String> {
        let mut found = Vec::new();
        if !self.eat("(") {
            return Ok(found);
        }
        loop {
            let indices = match self.peek() {
                Token::Name(name) if Kind::of(&name) == Some(Kind::Indices) => Some(name),
                _ => None,
            };
            if let Some(name) = indices {
                self.at += 1;
                found.push(Arg::Indices(self.meta(&name)?.0));
            } else {
                found.push(Arg::Linear(self.linear()?));
            }
            if !self.eat(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(found)
    }

    fn linear(&mut self) -> Result<Linear, String> {
        let mut sum = self.linear_atom()?;
        loop {
            if self.eat("+") {
                sum = Linear::Add(Box::new(sum), Box::new(self.linear_atom()?));
            } else if self.eat("-") {
                let negated = Linear::Scaled(-1, Box::new(self.linear_atom()?));
                sum = Linear::Add(Box::new(sum), Box::new(negated));
            } else {
                return Ok(sum);
            }
        }
    }

    fn linear_atom(&mut self) -> Result<Linear, String> {
        match self.next() {
            Token::Number(k, true) => {
                let k = whole(k)?;
                if self.eat("*") {
                    Ok(Linear::Scaled(k, Box::new(self.linear_atom()?)))
                } else {
                    Ok(Linear::Constant(k))
                }
            }
            Token::Mark("-") => Ok(Linear::Scaled(-1, Box::new(self.linear_atom()?))),
            Token::Name(name) => match self.meta(&name)? {
                (meta, Kind::Index | Kind::Affine | Kind::Size | Kind::Integer) => Ok(Linear::Meta(meta)),
                _ => Err(format!("`{name}` is not an index expression")),
            },
            other => Err(format!("expected an index expression, found {}", describe(&other))),
        }
    }

    fn conjunction(&mut self) -> Result<Vec<PredPattern>, String> {
        let mut found = vec![self.disjunction()?];
        while self.word("and") {
            found.push(self.disjunction()?);
        }
        Ok(found)
    }

    fn disjunction(&mut self) -> Result<PredPattern, String> {
        let mut found = vec![self.comparison()?];
        while self.word("or") {
            found.push(self.comparison()?);
        }
        Ok(if found.len() == 1 { found.remove(0) } else { PredPattern::Or(found) })
    }

    fn comparison(&mut self) -> Result<PredPattern, String> {
        if let Token::Name(name) = self.peek()
            && Kind::of(&name) == Some(Kind::Pred)
        {
            self.at += 1;
            let (meta, _) = self.meta(&name)?;
            return Ok(PredPattern::Meta(meta, self.args()?));
        }
        let left = self.linear()?;
        let make: fn(Linear, Linear) -> PredPattern = match self.next() {
            Token::Mark("=") => PredPattern::Equal,
            Token::Mark("<=") => PredPattern::LessEqual,
            Token::Mark("<") => PredPattern::Less,
            Token::Mark("!=") => PredPattern::Unequal,
            other => return Err(format!("expected a comparison, found {}", describe(&other))),
        };
        Ok(make(left, self.linear()?))
    }

    /// `name(args), meta := name(args)`
    fn conditions(&mut self, known: usize) -> Result<Vec<Condition>, String> {
        let mut found = Vec::new();
        let mut known = known;
        loop {
            let Token::Name(first) = self.next() else { return Err("expected a condition".to_owned()) };
            let (result, name) = if self.eat(":=") {
                let Token::Name(name) = self.next() else { return Err("expected a condition after `:=`".to_owned()) };
                (Some(first), name)
            } else {
                (None, first)
            };
            let condition = Name::parse(&name).ok_or_else(|| format!("there is no condition `{name}`"))?;
            let (kinds, gives) = condition.signature();
            self.expect("(")?;
            let mut args = Vec::new();
            while let Token::Name(arg) = self.peek() {
                self.at += 1;
                let (meta, kind) = self.meta(&arg)?;
                if meta >= known {
                    return Err(format!("nothing binds `{arg}`"));
                }
                match kinds.get(args.len()) {
                    Some(expected) if *expected == kind => {}
                    _ => return Err(format!("`{name}` does not take `{arg}` there")),
                }
                args.push(meta);
                if !self.eat(",") {
                    break;
                }
            }
            self.expect(")")?;
            if args.len() != kinds.len() {
                return Err(takes(&name, kinds.len()));
            }
            let result = match (result, gives) {
                (None, None) => None,
                (Some(meta), Some(kind)) => {
                    let (at, found) = self.meta(&meta)?;
                    if found != kind {
                        return Err(format!("`{name}` does not give a `{meta}`"));
                    }
                    known = self.metas.len();
                    Some(at)
                }
                (Some(_), None) => return Err(format!("`{name}` gives nothing")),
                (None, Some(_)) => return Err(format!("the result of `{name}` needs a name")),
            };
            found.push(Condition { name: condition, result, args });
            if !self.eat(",") {
                return Ok(found);
            }
        }
    }
}

/// A product of patterns; products inside without sums are merged.
fn product(factors: Vec<Pattern>) -> Pattern {
    let mut guard = Vec::new();
    let mut flat = Vec::new();
    for factor in factors {
        match factor {
            Pattern::Product { binders, guard: inner, factors } if binders.is_empty() => {
                guard.extend(inner);
                flat.extend(factors);
            }
            other => flat.push(other),
        }
    }
    if flat.len() == 1 && guard.is_empty() {
        return flat.remove(0);
    }
    Pattern::Product { binders: Vec::new(), guard, factors: flat }
}

/// An integer that a float is sure to tell.
fn whole(x: f64) -> Result<i64, String> {
    if x < (1u64 << 53) as f64 { Ok(x as i64) } else { Err(format!("`{x}` is too large for an integer")) }
}

fn takes(name: &str, arity: usize) -> String {
    format!("`{name}` takes {arity} argument{}", if arity == 1 { "" } else { "s" })
}

fn scalar_function(name: &str) -> Option<Op> {
    // Metavariables have one letter.
    if name.len() < 2 { None } else { Op::from_name(name) }
}

fn describe(token: &Token) -> String {
    match token {
        Token::Name(name) => format!("`{name}`"),
        Token::Number(x, _) => format!("`{x}`"),
        Token::Mark(mark) => format!("`{mark}`"),
        Token::End => "the end of the line".to_owned(),
    }
}
