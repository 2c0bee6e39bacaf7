//! Sum types and types at names: `type`, `case`, `index n`.
//!
//! ```text
//! type   = "type" name "=" constructor ("|" constructor)*          constructor = name [plain | "(" type,+ ")"]
//! case   = "case" expr "of" arm ("|" arm)*                         arm = name ["(" name,* ")"] "->" expr
//! index  = "index" size                                            typed = name [":" plain]
//! ```
//!
//! A value of a sum type is the number of its constructor, the *tag*, and the fields of all constructors in order, as pairs:
//! `(tag, (a, (b, c)))`. An arm reaches as far right as it can, so a `|` belongs to the innermost `case` around it. What is written at a name in a
//! pattern stands around the value, and around the name in what follows:
//!
//! ```text
//! let k : index n = e in f                  ==  let k = (e : index n) in f
//! fold t < T, k : index n = a. e            ==  fold t < T, p = (a : index n). let k = (p : index n) in (e : index n)
//! ```

use super::frame::{Frame, Head, Next, Pattern};
use super::{Operand, Parser};
use crate::base::Span;
use crate::error::Diagnostic;
use crate::lexer::Token;
use crate::surface::ast::{Arm, BinaryOp, Constructor, Decl, Expr, ExprId, Name, StorageKind, TypeExpr, TypeKind};

impl Parser<'_> {
    /// Whether a type is declared here: `type` is no keyword, and begins a declaration where a name and `=` stand behind it.
    pub(super) fn begins_type(&self) -> bool {
        if !self.at_word("type") {
            return false;
        }
        let mut lexer = self.lexer.clone();
        let mut next = || lexer.next(&mut Vec::new());
        let name = next();
        name.token == Token::Name && !name.starts_line && next().token == Token::Equal
    }

    /// `type shape = circle real | box (real, real) | nothing`, behind the word.
    pub(super) fn type_decl(&mut self) -> Option<Decl> {
        let name = self.name("the name of a type")?;
        self.lexer.bars += 1;
        let sound = self.expect(Token::Equal, "and the constructors of the type");
        let mut constructors = Vec::new();
        let mut goes_on = sound;
        while goes_on {
            let Some(name) = self.name("the name of a constructor, as in `type shape = circle real | nothing`") else {
                break;
            };
            let fields = match self.token() {
                _ if self.current.starts_line => Some(Vec::new()),
                Token::LeftParen => self.types(0),
                Token::Real | Token::LeftBracket | Token::Name => self.plain_type(0).map(|ty| vec![ty]),
                _ => Some(Vec::new()),
            };
            constructors.push(Constructor { name, fields: fields.unwrap_or_default() });
            goes_on = self.eat(Token::Bar).is_some();
        }
        self.lexer.bars -= 1;
        Some(Decl::Type { name, constructors })
    }

    /// The pairs that represent a sum type: the tag, and the fields of all constructors.
    pub(super) fn sum_type(&self, name: &str) -> Option<TypeExpr> {
        let (declared, constructors) = self.ast.decls.iter().find_map(|decl| match decl {
            Decl::Type { name: declared, constructors } if declared.text == name => Some((declared, constructors)),
            _ => None,
        })?;
        let tag = TypeExpr { kind: TypeKind::Real, span: declared.span };
        let fields = constructors.iter().flat_map(|constructor| constructor.fields.iter().cloned());
        Some(super::declaration::pair_of(std::iter::once(tag).chain(fields).collect(), declared.span))
    }

    /// `index n`, or the name of a sum type; nothing where another name stands.
    pub(super) fn named_type(&mut self) -> Option<TypeExpr> {
        let start = self.current.span;
        let behind = self.lexer.clone().next(&mut Vec::new());
        let begins_size = matches!(behind.token, Token::Name | Token::Number { .. } | Token::LeftParen);
        if self.at_word("index") && begins_size && !behind.starts_line {
            self.advance();
            let from = self.ast.exprs.len();
            let size = self.size_behind()?;
            self.know_sizes(from);
            return Some(TypeExpr { kind: TypeKind::Index(size.id), span: start.to(size.span) });
        }
        let name = self.name_at(start);
        let pairs = self.sum_type(&name.text)?;
        self.advance();
        Some(TypeExpr { kind: TypeKind::Sum(name, Box::new(pairs)), span: start })
    }

    /// `n + 1`: a size without brackets around it, so no `=` goes on with it.
    fn size_behind(&mut self) -> Option<Operand> {
        let mut sum = self.factor()?;
        while let Some((op, product)) = match self.token() {
            _ if self.current.starts_line => None,
            Token::Plus => Some((BinaryOp::Add, false)),
            Token::Minus => Some((BinaryOp::Sub, false)),
            Token::Star => Some((BinaryOp::Mul, true)),
            _ => None,
        } {
            self.advance();
            let mut right = self.factor()?;
            while !product && self.token() == Token::Star {
                self.advance();
                let factor = self.factor()?;
                right = self.node(Expr::Binary(BinaryOp::Mul, right.id, factor.id), right.span.to(factor.span));
            }
            sum = self.node(Expr::Binary(op, sum.id, right.id), sum.span.to(right.span));
        }
        Some(sum)
    }

    fn factor(&mut self) -> Option<Operand> {
        let span = self.current.span;
        match self.token() {
            Token::Number { value, integer } => {
                self.advance();
                Some(self.node(Expr::Number { value, integer }, span))
            }
            Token::LeftParen => {
                self.advance();
                let size = self.expression(&[Token::RightParen]);
                self.close(span, Token::RightParen)?;
                Some(size)
            }
            _ => {
                let name = self.name("a size, as in `index n`")?;
                Some(self.node(Expr::Name(name.text), span))
            }
        }
    }

    /// A parameter of a type that is no tensor of numbers: indices are a map, and a sum type is one with its fields.
    pub(super) fn typed_param(&mut self, name: &Name, storage: StorageKind, ty: &TypeExpr) -> Option<Decl> {
        let (axes, element) = match &ty.kind {
            TypeKind::Tensor(axes, element) => (axes.clone(), &**element),
            _ => (Vec::new(), ty),
        };
        let decl = match &element.kind {
            // One index: the target of a map with one place, which its name stands for.
            TypeKind::Index(n) if axes.is_empty() => {
                let one = self.node(Expr::Number { value: 1.0, integer: Some(1) }, ty.span);
                Decl::Map { name: name.clone(), source: vec![one.id], target: *n }
            }
            TypeKind::Index(n) => Decl::Map { name: name.clone(), source: axes, target: *n },
            TypeKind::Sum(sum, _) => self.sum_param(name, axes, sum)?,
            _ => return None,
        };
        if storage != StorageKind::Dense {
            let message = format!("`{}` stores a tensor of reals, found indices or a sum type", storage.name());
            self.push_diagnostic(Diagnostic::new("bad-storage", ty.span, message));
        }
        Some(decl)
    }

    /// A parameter of a sum type: `s_tag` says which constructor, `s_circle` is its field, `s_box_0` and `s_box_1` are those of one with several.
    fn sum_param(&mut self, name: &Name, axes: Vec<ExprId>, sum: &Name) -> Option<Decl> {
        let constructors = self.ast.decls.iter().find_map(|decl| match decl {
            Decl::Type { name, constructors } if name.text == sum.text => Some(constructors.clone()),
            _ => None,
        })?;
        let part = |what: &str| Name { text: format!("{}_{what}", name.text), span: name.span };
        let of_axes = |ty: &TypeExpr| match axes.is_empty() {
            true => ty.clone(),
            false => TypeExpr { kind: TypeKind::Tensor(axes.clone(), Box::new(ty.clone())), span: ty.span },
        };
        let mut fields = Vec::new();
        for constructor in &constructors {
            let text = &constructor.name.text;
            match constructor.fields.as_slice() {
                [field] => fields.push((part(text), of_axes(field))),
                several => {
                    let named = several.iter().enumerate();
                    fields.extend(named.map(|(k, field)| (part(&format!("{text}_{k}")), of_axes(field))));
                }
            }
        }
        let count = constructors.len();
        let number = Expr::Number { value: count as f64, integer: i64::try_from(count).ok() };
        let count = self.node(number, sum.span).id;
        Some(Decl::Sum { name: name.clone(), ty: sum.clone(), tag: (part("tag"), count), fields, axes })
    }

    /// A type behind a name of a pattern.
    pub(super) fn typed_name(&mut self, name: Name) -> Option<Pattern> {
        if self.eat(Token::Colon).is_none() {
            return Some(Pattern::Name(name));
        }
        Some(Pattern::Typed(name, self.plain_type(0)?))
    }

    /// A value with the types of a pattern, if there are any.
    pub(super) fn with_types(&mut self, pattern: &Pattern, value: ExprId) -> ExprId {
        match pattern.types() {
            Some(ty) => {
                let span = self.ast.spans.get(value).copied().unwrap_or_default();
                self.node(Expr::Typed { value, ty, trusted: false }, span).id
            }
            None => value,
        }
    }

    /// A part of a pattern that has a type.
    pub(super) fn trusted(&mut self, value: Operand, ty: TypeExpr) -> Operand {
        self.node(Expr::Typed { value: value.id, ty, trusted: true }, value.span)
    }

    /// The body of a loop with a state that has types: it has them as well.
    pub(super) fn open_typed_body(&mut self, head: Head, steps: ExprId, state: Name, init: ExprId, pattern: &Pattern) {
        self.open(Frame::ScanBody { head, steps, state, init });
        if let Some(ty) = pattern.types() {
            self.open(Frame::Typed { ty });
        }
    }

    /// `case e of`, from the word on.
    pub(super) fn case(&mut self) -> Option<Operand> {
        // The token behind `case` may be a bar in no text that is right.
        self.lexer.bars += 1;
        let start = self.advance().span;
        self.open(Frame::CaseValue { start });
        None
    }

    /// The word `of` stands behind what is taken apart.
    pub(super) fn case_of(&mut self, value: Operand) -> Next {
        self.advance();
        match self.frames.pop() {
            Some(Frame::CaseValue { start }) => {
                self.arm(start, value.id, Vec::new(), true);
                Next::Expect
            }
            _ => Next::Operand(value),
        }
    }

    /// Reads an arm up to its value.
    fn arm(&mut self, start: Span, value: ExprId, arms: Vec<Arm>, others: bool) {
        let before = self.diagnostics.len();
        let what = "a constructor, as in `case e of circle(r) -> a | nothing -> b`";
        let constructor = self.name(what).unwrap_or_else(|| self.no_name());
        let names = match self.token() {
            Token::LeftParen => self.list("the names of fields", |parser| parser.name("the name of a field")),
            _ => Some(Vec::new()),
        };
        let names = names.unwrap_or_default();
        if self.diagnostics.len() > before {
            self.skip(|token| matches!(token, Token::Arrow | Token::Bar | Token::In | Token::RightParen));
            self.eat(Token::Arrow);
        } else {
            self.expect(Token::Arrow, "and the value of the arm");
        }
        let sound = others && self.diagnostics.len() == before;
        self.open(Frame::Arm { start, value, arms, constructor, names, sound });
    }

    /// A `|` ends the value of the innermost arm. Nothing where no arm is open.
    pub(super) fn next_arm(&mut self, operand: Operand, base: usize) -> Option<Next> {
        let open = self.frames.iter().skip(base).rev().take_while(|frame| frame.level().is_some());
        open.into_iter().any(|frame| matches!(frame, Frame::Arm { .. })).then_some(())?;
        let mut operand = operand;
        while !matches!(self.frames.last(), Some(Frame::Arm { .. })) {
            let frame = self.frames.pop()?;
            operand = self.finish_operator(frame, operand);
        }
        let Some(Frame::Arm { start, value, mut arms, constructor, names, sound }) = self.frames.pop() else {
            return None;
        };
        self.advance();
        arms.extend(sound.then_some(Arm { constructor, names, body: operand.id }));
        self.arm(start, value, arms, sound);
        Some(Next::Expect)
    }

    /// The last arm is complete.
    pub(super) fn finish_case(
        &mut self,
        (start, value): (Span, ExprId),
        mut arms: Vec<Arm>,
        arm: Option<Arm>,
        end: Span,
    ) -> Operand {
        self.lexer.bars = self.lexer.bars.saturating_sub(1);
        let sound = arm.is_some();
        arms.extend(arm);
        self.node(if sound { Expr::Case { value, arms } } else { Expr::Error }, start.to(end))
    }
}

impl Pattern {
    /// The types that are written in it, as one.
    pub(super) fn types(&self) -> Option<TypeExpr> {
        match self {
            Pattern::Name(_) => None,
            Pattern::Typed(_, ty) => Some(ty.clone()),
            Pattern::Pair(span, first, second) => {
                let (a, b) = (first.types(), second.types());
                let any = || TypeExpr { kind: TypeKind::Inferred, span: *span };
                (a.is_some() || b.is_some()).then(|| TypeExpr {
                    kind: TypeKind::Pair(Box::new(a.unwrap_or_else(any)), Box::new(b.unwrap_or_else(any))),
                    span: *span,
                })
            }
        }
    }
}
