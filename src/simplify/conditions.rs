//! Named side conditions of rules. A condition that meets something unexpected answers no.

use super::expr::Expr;
use super::graph::{Graph, Scope};
use super::matching::{Bindings, Value};
use super::rule::{Kind, Meta};
use crate::error::Result;
use crate::index::Pred;
use crate::scalar::{Function, Parity, Primitive};

/// A side condition: `name(args)`, or `result := name(args)`, which also gives a metavariable its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Condition {
    pub(super) name: Name,
    pub(super) result: Option<Meta>,
    pub(super) args: Vec<Meta>,
}

macro_rules! conditions {
    ($( $(#[$doc:meta])* $variant:ident = $text:literal ($($arg:ident),*) $(-> $result:ident)?; )+) => {
        /// The conditions that there are.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Name { $( $(#[$doc])* $variant, )+ }

        impl Name {
            #[cfg(test)]
            pub(super) const ALL: &'static [Name] = &[$(Name::$variant),+];

            /// The condition of a name.
            pub(super) fn parse(text: &str) -> Option<Name> {
                match text { $( $text => Some(Name::$variant), )+ _ => None }
            }

            /// The name.
            pub(super) fn text(self) -> &'static str {
                match self { $( Name::$variant => $text, )+ }
            }

            /// What it takes and gives.
            pub(super) fn signature(self) -> (&'static [Kind], Option<Kind>) {
                match self { $( Name::$variant => (&[$(Kind::$arg),*], conditions!(@result $($result)?)), )+ }
            }
        }
    };
    (@result $result:ident) => { Some(Kind::$result) };
    (@result) => { None };
}

conditions! {
    /// The predicate without what the ranges around imply, and shorter; it is another one.
    Simplified = "simplified" (Pred) -> Pred;
    /// No point satisfies both.
    Excludes = "excludes" (Pred, Pred);
    /// `f(-a) = f(a)`.
    Even = "even" (Function);
    /// `f(-a) = -f(a)`.
    Odd = "odd" (Function);
    /// `f(c) = d` for the literal `c`.
    Value = "value" (Function, Literal) -> Literal;
    /// The literal is an integer of at most 32 bits.
    Exponent = "exponent" (Literal) -> Integer;
    /// The integer is even.
    EvenInteger = "even-integer" (Integer);
    /// The integer is positive.
    PositiveInteger = "positive-integer" (Integer);
    /// The index is not among those of the affine expression, which come earlier in the scope.
    Later = "later" (Index, Affine);
    /// The size is not negative, as far as the assumptions tell.
    NonNegative = "non-negative" (Size);
    /// The expression has an entry only where a relation has one.
    Sparse = "sparse" (Expr);
    /// The expression does not.
    Dense = "dense" (Expr);
    /// The expression is not a literal, an index expression, or a plain element.
    Compound = "compound" (Expr);
    /// The expression is not the literal 1.
    NotOne = "not-one" (Expr);
    /// The literal is not 0 or 1.
    Proper = "proper" (Literal);
    /// The two expressions have the same value.
    Same = "same" (Expr, Expr);
}

impl Condition {
    /// Whether it holds; may bind its result.
    pub(super) fn check(&self, graph: &mut Graph<'_>, scope: &Scope, bindings: &mut Bindings) -> Result<bool> {
        let value = |at: usize| self.args.get(at).and_then(|meta| bindings.get(*meta));
        let result = match (self.name, value(0), value(1)) {
            (Name::Simplified, Some(Value::Pred(_, p)), _) => {
                let simplified = graph.given(scope, &Pred::True, p)?;
                if simplified == *p {
                    return Ok(false);
                }
                Some(Value::Pred(Vec::new(), simplified))
            }
            (Name::Excludes, Some(Value::Pred(_, p)), Some(Value::Pred(_, q))) => {
                let both = p.clone().and(q.clone());
                return Ok(graph.given(scope, &Pred::True, &both)?.is_false());
            }
            (Name::Even, Some(Value::Function(f)), _) => return Ok(parity(*f) == Some(Parity::Even)),
            (Name::Odd, Some(Value::Function(f)), _) => return Ok(parity(*f) == Some(Parity::Odd)),
            (Name::Value, Some(Value::Function(Function::Value(Primitive::Op(op)))), Some(Value::Literal(c)))
                if op.arity() == 1 =>
            {
                Some(Value::Literal(op.value(&[*c])))
            }
            (Name::Exponent, Some(Value::Literal(c)), _) => {
                let k = *c as i32;
                if f64::from(k) != *c {
                    return Ok(false);
                }
                Some(Value::Integer(i64::from(k)))
            }
            (Name::EvenInteger, Some(Value::Integer(k)), _) => return Ok(k % 2 == 0),
            (Name::PositiveInteger, Some(Value::Integer(k)), _) => return Ok(*k > 0),
            (Name::Later, Some(Value::Index(i)), Some(Value::Affine(s))) => {
                let place = |i| scope.iter().position(|(j, _)| *j == i);
                let Some(at) = place(*i) else { return Ok(false) };
                let mut earlier = true;
                s.visit(&mut |v| {
                    if let crate::index::Var::Index(j) = v {
                        earlier &= place(*j).is_some_and(|before| before < at);
                    }
                });
                return Ok(earlier);
            }
            (Name::NonNegative, Some(Value::Affine(n)), _) => {
                let p = Pred::non_negative(n.clone());
                return Ok(graph.given(scope, &Pred::True, &p)?.is_true());
            }
            (Name::Sparse, Some(Value::Expr(_, e)), _) => return Ok(graph.is_sparse(e)),
            (Name::Dense, Some(Value::Expr(_, e)), _) => return Ok(!graph.is_sparse(e)),
            (Name::Compound, Some(Value::Expr(_, e)), _) => {
                return Ok(!matches!(e, Expr::Number(_) | Expr::Index(_) | Expr::Read(_)));
            }
            (Name::NotOne, Some(Value::Expr(_, e)), _) => return Ok(e.as_number() != Some(1.0)),
            (Name::Proper, Some(Value::Literal(c)), _) => return Ok(*c != 0.0 && *c != 1.0),
            (Name::Same, Some(Value::Expr(_, a)), Some(Value::Expr(_, b))) => return Ok(a.same(b)),
            _ => return Ok(false),
        };
        Ok(match (self.result, result) {
            (Some(meta), Some(value)) => bindings.bind(meta, value),
            (None, Some(_)) => true,
            (_, None) => false,
        })
    }
}

fn parity(f: Function) -> Option<Parity> {
    match f {
        Function::Value(Primitive::Op(op)) if op.arity() == 1 => op.facts().parity,
        _ => None,
    }
}

