//! What waits on the stack of the parser: operators with their levels, and groups with the tokens that end them.

use super::Operand;
use crate::base::Span;
use crate::lexer::Token;
use crate::surface::ast::{Arm, BinaryOp, BinderKind, Expr, ExprId, LoopKind, Name, TypeExpr, UnaryOp};

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Prefix {
    Neg,
    Not,
    Fst,
    Snd,
}

impl Prefix {
    /// The expression that it makes of its operand.
    pub(super) fn of(self, operand: ExprId) -> Expr {
        match self {
            Prefix::Neg => Expr::Unary(UnaryOp::Neg, operand),
            Prefix::Not => Expr::Unary(UnaryOp::Not, operand),
            Prefix::Fst => Expr::Fst(operand),
            Prefix::Snd => Expr::Snd(operand),
        }
    }
}

/// What a `let` binds.
pub(super) enum Pattern {
    Name(Name),
    Typed(Name, TypeExpr),
    Pair(Span, Box<Pattern>, Box<Pattern>),
}

impl Pattern {
    /// The name of the whole pair: none that can be written; printers make one of it.
    pub(super) fn whole(&self) -> String {
        match self {
            Pattern::Pair(_, first, _) => match &**first {
                Pattern::Name(name) | Pattern::Typed(name, _) => format!("({} ..)", name.text),
                Pattern::Pair(..) => "(pair ..)".to_owned(),
            },
            Pattern::Name(name) => name.text.clone(),
            Pattern::Typed(name, _) => format!("({})", name.text),
        }
    }
}

/// An index of a binder with its range.
pub(super) struct Bound {
    pub(super) index: Name,
    pub(super) extent: ExprId,
    /// The lower end of the range as a comparison, `a <= i`.
    pub(super) lower: Option<ExprId>,
}

/// An index of a chain, `i <` of `i < j < n`.
pub(super) struct Link {
    pub(super) index: Name,
    pub(super) lower: Option<ExprId>,
    /// Whether the range has its end.
    pub(super) inclusive: bool,
}

/// The parameters of a function that is bound by its name, and the type of its value.
pub(super) struct Signature {
    pub(super) params: Vec<(Name, TypeExpr)>,
    pub(super) result: Option<TypeExpr>,
}

/// What has the range whose lower end is read.
pub(super) enum Ranged {
    Binder { kind: BinderKind, made: Made, open: Option<Span>, bare: Vec<Name>, done: Vec<Bound>, start: Span },
    Loop { kind: LoopKind, start: Span },
}

/// An index of a `sum`.
#[derive(Clone)]
pub(super) struct Range {
    pub(super) index: String,
    /// The text of its range, `i < n`.
    pub(super) span: Span,
    /// Where the `sum` or the `prod` stands.
    pub(super) word: Span,
}

/// How a `fold`, a `scan`, an `iterate`, a `fixpoint` or an `unfold` begins.
pub(super) struct Head {
    pub(super) kind: LoopKind,
    pub(super) down: bool,
    /// Whether it has a condition.
    pub(super) tested: bool,
    /// Whether nothing was wrong with it.
    pub(super) sound: bool,
    pub(super) index: Name,
    pub(super) start: Span,
}

/// What is made of a binder that is no expression of its own.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Made {
    Itself,
    /// `mean i < n. e`, of a sum.
    Mean,
    /// `prod i < n. e`, a fold.
    Product,
}

/// What waits for an expression to its right: operators first, then groups, which a closing token ends.
pub(super) enum Frame {
    Prefix {
        prefix: Prefix,
        start: Span,
    },
    Infix {
        op: BinaryOp,
        lhs: Operand,
    },
    /// An operator that there is not; it was reported.
    Unknown {
        lhs: Operand,
    },
    Compare {
        op: BinaryOp,
        lhs: Operand,
        chain: Option<Operand>,
    },
    Iverson {
        guard: ExprId,
        start: Span,
    },
    Body {
        kind: BinderKind,
        index: Name,
        extent: ExprId,
        start: Span,
        /// The indices of the `sum` whose body this is; none for another binder, and where more of its indices follow.
        summed: Vec<Range>,
    },
    /// The factors of `prod i < n. e`.
    Product {
        index: Name,
        extent: ExprId,
        start: Span,
        /// As the indices of [`Frame::Body`].
        factors: Vec<Range>,
    },
    /// The sum of `mean i < n. e`.
    Mean {
        /// What it is divided by.
        divisors: Vec<ExprId>,
    },
    /// The vector of `logsumexp i < n. e`, of a function that takes one.
    OfVector {
        callee: Name,
    },
    /// The body of a binder, or a binder inside, where the lower end of a range holds.
    Restricted {
        guard: ExprId,
        kind: BinderKind,
        made: Made,
        /// Those of [`Frame::Body`].
        summed: Vec<Range>,
    },
    IfElse {
        cond: ExprId,
        then: ExprId,
        start: Span,
    },
    LetBody {
        name: Name,
        value: ExprId,
        start: Span,
    },
    ScanBody {
        head: Head,
        steps: ExprId,
        state: Name,
        init: ExprId,
    },
    /// The next state, behind the head of an `iterate` or an `unfold`, or of a `fixpoint` with a condition.
    IterateBody {
        cond: ExprId,
        state: Name,
        /// The number of steps made so far, which is a part of the state of an `unfold`.
        count: Option<Name>,
    },
    /// The next state, which has a type.
    Typed {
        ty: TypeExpr,
    },
    /// The value of an arm of a `case`.
    Arm {
        start: Span,
        value: ExprId,
        arms: Vec<Arm>,
        constructor: Name,
        names: Vec<Name>,
        /// Whether nothing was wrong with its head.
        sound: bool,
    },
    FunctionBody {
        params: Vec<(Name, TypeExpr)>,
        start: Span,
        /// Whether nothing was wrong with its parameters.
        sound: bool,
    },
    LetValue {
        pattern: Pattern,
        /// What makes a function of the value: `let f(x) = e`.
        function: Option<Signature>,
        start: Span,
        indent: u32,
    },
    /// What a `case` takes apart.
    CaseValue {
        start: Span,
    },
    IfCondition {
        start: Span,
    },
    IfThen {
        cond: ExprId,
        start: Span,
    },
    Extent {
        kind: BinderKind,
        made: Made,
        /// The parenthesis around the indices.
        open: Option<Span>,
        /// The indices in front of it that share the range, `i, j < n`.
        bare: Vec<Name>,
        /// The index, behind those of a chain.
        chain: Vec<Link>,
        done: Vec<Bound>,
        start: Span,
    },
    /// The lower end of a range, in front of `< i < n`.
    Lower {
        of: Ranged,
    },
    /// The range of a `fold` or `scan`, behind `t <`.
    ScanRange {
        head: Head,
        /// Whether the range has its end.
        inclusive: bool,
        /// The lower end as a comparison.
        lower: Option<ExprId>,
    },
    /// The value of the state at the beginning, behind `s =`.
    ScanInit {
        head: Head,
        steps: ExprId,
        /// Which steps are made, where it is not all of them.
        lower: Option<ExprId>,
        state: Pattern,
    },
    /// The value of the state at the beginning, behind `iterate s =`, `fixpoint s =` or `unfold s =`.
    IterateInit {
        head: Head,
        state: Pattern,
    },
    /// The condition, behind `while`.
    IterateWhile {
        head: Head,
        state: Pattern,
        init: ExprId,
    },
    /// How many steps there are, behind `at most`.
    IterateMost {
        head: Head,
        state: Pattern,
        init: ExprId,
        cond: Option<ExprId>,
    },
    Paren {
        open: Span,
        items: Vec<Operand>,
    },
    Guard {
        open: Span,
    },
    /// `[a, b, c]`, a vector, behind its first comma.
    Vector {
        open: Span,
        items: Vec<Operand>,
    },
    Access {
        open: Span,
        array: Operand,
        indices: Vec<ExprId>,
    },
    /// A part of an axis behind a `:` of `x[a:b:k]`; its access waits below.
    Part {
        start: Span,
        from: Option<ExprId>,
        to: Option<ExprId>,
        /// Whether the step comes next, and not the end.
        at_step: bool,
    },
    Call {
        open: Span,
        close: Token,
        callee: Name,
        args: Vec<ExprId>,
    },
    /// The arguments of what is no name: `(e)(a, b)`.
    Apply {
        open: Span,
        function: Operand,
        args: Vec<ExprId>,
    },
}

/// What comes after an operand and its following token.
pub(super) enum Next {
    /// A larger operand.
    Operand(Operand),
    /// A right operand is needed.
    Expect,
    /// The whole expression.
    Done(Operand),
}

pub(super) const AND: u8 = 4;
const NOT: u8 = 6;
pub(super) const COMPARE: u8 = 8;
const SUM: u8 = 10;
pub(super) const PRODUCT: u8 = 12;
pub(super) const POWER: u8 = 16;

/// The operator a token stands for behind an operand, with its level.
pub(super) fn infix(token: Token) -> Option<(BinaryOp, u8)> {
    Some(match token {
        Token::Or => (BinaryOp::Or, 2),
        Token::And => (BinaryOp::And, AND),
        Token::Less => (BinaryOp::Less, COMPARE),
        Token::LessEqual => (BinaryOp::LessEqual, COMPARE),
        Token::Greater => (BinaryOp::Greater, COMPARE),
        Token::GreaterEqual => (BinaryOp::GreaterEqual, COMPARE),
        Token::Equal => (BinaryOp::Equal, COMPARE),
        Token::NotEqual => (BinaryOp::NotEqual, COMPARE),
        Token::Plus => (BinaryOp::Add, SUM),
        Token::Minus => (BinaryOp::Sub, SUM),
        Token::Star => (BinaryOp::Mul, PRODUCT),
        Token::Slash => (BinaryOp::Div, PRODUCT),
        Token::SlashSlash => (BinaryOp::FloorDiv, PRODUCT),
        Token::Percent => (BinaryOp::Rem, PRODUCT),
        Token::At => (BinaryOp::MatMul, PRODUCT),
        Token::Caret => (BinaryOp::Pow, POWER),
        _ => return None,
    })
}

impl Frame {
    /// Whether what stands behind it may be lines that give names, `y = e`.
    pub(super) fn begins_block(&self) -> bool {
        matches!(
            self,
            Frame::LetBody { .. }
                | Frame::ScanBody { .. }
                | Frame::IterateBody { .. }
                | Frame::Typed { .. }
                | Frame::FunctionBody { .. }
                | Frame::Body { .. }
        )
    }

    /// How tightly an operator holds what follows; nothing for a group. An incoming infix operator of level `l` finishes the
    /// operators on top whose level is at least `l`.
    pub(super) fn level(&self) -> Option<u8> {
        Some(match self {
            Frame::Body { .. } | Frame::Mean { .. } | Frame::Product { .. } | Frame::Restricted { .. } => 0,
            Frame::OfVector { .. } => 0,
            Frame::IfElse { .. } => 0,
            Frame::LetBody { .. } | Frame::ScanBody { .. } | Frame::IterateBody { .. } | Frame::FunctionBody { .. } => {
                0
            }
            Frame::Typed { .. } | Frame::Arm { .. } => 0,
            Frame::Prefix { prefix: Prefix::Not, .. } => NOT,
            Frame::Compare { .. } => COMPARE,
            // Looser than a product, so that products and quotients stay inside the bracket.
            Frame::Iverson { .. } => SUM + 1,
            // As loose as `and`, for which it may stand.
            Frame::Unknown { .. } => AND,
            Frame::Prefix { prefix: Prefix::Neg, .. } => PRODUCT + 2,
            Frame::Prefix { prefix: Prefix::Fst | Prefix::Snd, .. } => POWER + 2,
            Frame::Infix { op, .. } => match op {
                BinaryOp::Or => 2,
                BinaryOp::And => AND,
                BinaryOp::Less
                | BinaryOp::LessEqual
                | BinaryOp::Greater
                | BinaryOp::GreaterEqual
                | BinaryOp::Equal
                | BinaryOp::NotEqual => COMPARE,
                BinaryOp::Add | BinaryOp::Sub => SUM,
                BinaryOp::Mul | BinaryOp::Div | BinaryOp::FloorDiv | BinaryOp::Rem | BinaryOp::MatMul => PRODUCT,
                BinaryOp::Pow => POWER,
            },
            Frame::LetValue { .. }
            | Frame::CaseValue { .. }
            | Frame::IfCondition { .. }
            | Frame::IfThen { .. }
            | Frame::Extent { .. }
            | Frame::Lower { .. }
            | Frame::ScanRange { .. }
            | Frame::ScanInit { .. }
            | Frame::IterateInit { .. }
            | Frame::IterateWhile { .. }
            | Frame::IterateMost { .. }
            | Frame::Paren { .. }
            | Frame::Guard { .. }
            | Frame::Vector { .. }
            | Frame::Access { .. }
            | Frame::Part { .. }
            | Frame::Apply { .. }
            | Frame::Call { .. } => return None,
        })
    }

    /// Whether a token ends this group or one item of it.
    pub(super) fn accepts(&self, token: Token) -> bool {
        match self {
            Frame::LetValue { .. } => matches!(token, Token::In | Token::Semicolon),
            Frame::IfCondition { .. } => token == Token::Then,
            Frame::IfThen { .. } => token == Token::Else,
            Frame::Extent { open: Some(_), .. } => matches!(token, Token::RightParen | Token::Comma),
            Frame::Extent { .. } => matches!(token, Token::Dot | Token::Comma),
            Frame::Lower { .. } => matches!(token, Token::Less | Token::LessEqual),
            Frame::ScanRange { .. } => token == Token::Comma,
            Frame::ScanInit { .. } | Frame::IterateMost { .. } => token == Token::Dot,
            Frame::IterateWhile { .. } => matches!(token, Token::Comma | Token::Dot),
            Frame::IterateInit { head, .. } => head.kind == LoopKind::Fixpoint && token == Token::Comma,
            Frame::Paren { .. } | Frame::Apply { .. } => matches!(token, Token::RightParen | Token::Comma),
            Frame::Guard { .. } | Frame::Vector { .. } => matches!(token, Token::RightBracket | Token::Comma),
            Frame::Access { .. } => matches!(token, Token::RightBracket | Token::Comma | Token::Colon),
            Frame::Part { at_step, .. } => {
                matches!(token, Token::RightBracket | Token::Comma) || token == Token::Colon && !at_step
            }
            Frame::Call { close, .. } => token == *close || token == Token::Comma,
            _ => false,
        }
    }
}

pub(super) fn is_comparison(op: BinaryOp) -> bool {
    use BinaryOp::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
    matches!(op, Less | LessEqual | Greater | GreaterEqual | Equal | NotEqual)
}

/// Whether comparisons may stand in one chain: they all point the same way.
pub(super) fn chains(first: BinaryOp, second: BinaryOp) -> bool {
    let up = |op| matches!(op, BinaryOp::Less | BinaryOp::LessEqual | BinaryOp::Equal);
    let down = |op| matches!(op, BinaryOp::Greater | BinaryOp::GreaterEqual | BinaryOp::Equal);
    up(first) && up(second) || down(first) && down(second)
}
