//! Named side conditions of rules. A condition that meets something unexpected answers no.

use std::collections::BTreeMap;

use egg::Id;

use super::bindings::{Bindings, Params, Value};
use super::expr::Expr;
use super::graph::{Graph, Scope};
use super::lang::{Head, Slot};
use super::needless::is_about_sizes;
use super::rule::{Kind, Meta};
use crate::base::IndexId;
use crate::error::Result;
use crate::index::{Affine, Pred, RelationRef, Size, Var};
use crate::scalar::{Function, Op, Parity, Primitive, Totality};

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
            #[cfg(test)]
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
    /// `f(c) = d` for the literal `c`, where that is finite.
    Value = "value" (Function, Literal) -> Literal;
    /// The value of the function of two literals, where it is finite and [reads well](plain_quotient).
    ValueOfTwo = "value-of-two" (Function, Literal, Literal) -> Literal;
    /// The literal is an integer of at most 32 bits.
    Exponent = "exponent" (Literal) -> Integer;
    /// The integer is even.
    EvenInteger = "even-integer" (Integer);
    /// The integer is positive.
    PositiveInteger = "positive-integer" (Integer);
    /// The integer is negative, and its opposite is one too.
    NegativeInteger = "negative-integer" (Integer);
    /// The first integer is less than the second.
    Less = "less" (Integer, Integer);
    /// The index is not among those of the affine expression, which come earlier in the scope.
    Later = "later" (Index, Affine);
    /// The expression has an entry only where a relation has one.
    Sparse = "sparse" (Expr);
    /// The expression does not.
    Dense = "dense" (Expr);
    /// The expression is not the literal 1.
    NotOne = "not-one" (Expr);
    /// The literal is finite, and not 0 or 1.
    Proper = "proper" (Literal);
    /// The literal is not 1 or -1.
    NotUnit = "not-unit" (Literal);
    /// The element under less of a guard: what follows from the guard around is left out.
    Unguarded = "unguarded" (Expr) -> Expr;
    /// The sum under the relations of the guard around, which say that few of its elements are needed.
    Needed = "needed" (Expr) -> Expr;
    /// The expression is zero wherever the predicate fails, which is about sizes only: other guards save work.
    Vanishes = "vanishes" (Expr, Pred);
    /// The expression is a literal or an index expression, so it is finite.
    Scalar = "scalar" (Expr);
    /// The opposite of the predicate, where the language has it.
    Negation = "negation" (Pred) -> Pred;
    /// The product of the two, where it is a tensor already.
    Known = "known" (Expr, Expr) -> Expr;
    /// The quotient of the two, where it is a tensor already.
    KnownQuotient = "known-quotient" (Expr, Expr) -> Expr;
    /// The literals add up to zero.
    Opposite = "opposite" (Literal, Literal);
    /// The two expressions together read at most four tensors.
    Few = "few" (Expr, Expr);
    /// Multiplying the factors of both, the sums of the second included, in another order is cheaper than the second first.
    Reorder = "reorder" (Expr, Expr, Indices);
    /// The two expressions together have at most eight terms.
    Short = "short" (Expr, Expr);
    /// `1 / c`, where that is exact.
    Reciprocal = "reciprocal" (Literal) -> Literal;
    /// `c / d`, where it [reads well](plain_quotient).
    Ratio = "ratio" (Literal, Literal) -> Literal;
    /// A sum with terms that have an element only where a relation has one, and others.
    Mixed = "mixed" (Expr);
    /// The number of places of the index in its range at which the predicate holds.
    Count = "count" (Index, Size, Pred) -> Affine;
    /// That some entry of a relation satisfies the predicate, for an index in its range.
    Somewhere = "somewhere" (Index, Size, Pred) -> Pred;
    /// The expression is finite at every place, whatever the data are.
    Total = "total" (Expr);
    /// It may be infinite somewhere, or no number.
    Partial = "partial" (Expr);
    /// No bracket stands around the expression.
    Unconditional = "unconditional" (Expr);
}

impl Name {
    /// Whether the answer depends on what nodes classes have, or on what is known of them.
    fn asks_classes(self) -> bool {
        match self {
            Name::Sparse
            | Name::Dense
            | Name::Unguarded
            | Name::Needed
            | Name::Vanishes
            | Name::Known
            | Name::KnownQuotient
            | Name::Mixed
            | Name::Total
            | Name::Partial => true,
            Name::Simplified
            | Name::Excludes
            | Name::Even
            | Name::Odd
            | Name::Value
            | Name::ValueOfTwo
            | Name::Exponent
            | Name::EvenInteger
            | Name::PositiveInteger
            | Name::NegativeInteger
            | Name::Less
            | Name::Later
            | Name::NotOne
            | Name::Proper
            | Name::NotUnit
            | Name::Scalar
            | Name::Negation
            | Name::Opposite
            | Name::Few
            | Name::Reorder
            | Name::Short
            | Name::Reciprocal
            | Name::Ratio
            | Name::Count
            | Name::Somewhere
            | Name::Unconditional => false,
        }
    }
}

impl Condition {
    /// Whether it holds, where the values alone tell: nothing while one is missing, or where it depends on the e-graph. What fails here fails
    /// whatever else is bound, so matching asks early.
    pub(super) fn of_values(&self, bindings: &Bindings) -> Option<bool> {
        let value = |at: usize| self.args.get(at).and_then(|meta| bindings.get(*meta));
        Some(match (self.name, value(0)?, value(1)) {
            (Name::Even, Value::Function(f), _) => parity(*f) == Some(Parity::Even),
            (Name::Odd, Value::Function(f), _) => parity(*f) == Some(Parity::Odd),
            (Name::EvenInteger, Value::Integer(k), _) => k % 2 == 0,
            (Name::PositiveInteger, Value::Integer(k), _) => *k > 0,
            (Name::NegativeInteger, Value::Integer(k), _) => *k < 0 && *k > i64::from(i32::MIN),
            (Name::Less, Value::Integer(k), Some(Value::Integer(l))) => k < l,
            (Name::NotOne, Value::Expr(_, e), _) => e.as_number() != Some(1.0),
            (Name::Proper, Value::Literal(c), _) => c.is_finite() && *c != 0.0 && *c != 1.0,
            (Name::NotUnit, Value::Literal(c), _) => c.abs() != 1.0,
            (Name::Scalar, Value::Expr(_, e), _) => matches!(e, Expr::Number(_) | Expr::Index(_)),
            (Name::Opposite, Value::Literal(c), Some(Value::Literal(d))) => c + d == 0.0,
            (Name::Few, Value::Expr(_, a), Some(Value::Expr(_, b))) => reads(a) + reads(b) <= 4,
            (Name::Short, Value::Expr(_, a), Some(Value::Expr(_, b))) => terms(a) + terms(b) <= 8,
            (Name::Unconditional, Value::Expr(_, e), _) => {
                !matches!(e, Expr::Product(product) if !product.guard.is_true())
            }
            _ => return None,
        })
    }

    /// Whether it holds; may bind its result.
    pub(super) fn check(
        &self,
        graph: &mut Graph<'_>,
        scope: &Scope,
        given: &Pred,
        bindings: &mut Bindings,
    ) -> Result<bool> {
        if let Some(holds) = self.of_values(bindings) {
            return Ok(holds);
        }
        graph.consulted += u64::from(self.name.asks_classes());
        let value = |at: usize| self.args.get(at).and_then(|meta| bindings.get(*meta));
        let of_predicate = |at: usize| match value(at) {
            Some(Value::Pred(_, p)) => Some(p.clone()),
            _ => None,
        };
        let result = match (self.name, value(0), value(1)) {
            (Name::Simplified, Some(Value::Pred(_, p)), _) => {
                let simplified = graph.given(scope, &Pred::True, p)?;
                if simplified == *p {
                    return Ok(false);
                }
                Some(Value::Pred(Params::new(), simplified))
            }
            (Name::Excludes, Some(Value::Pred(_, p)), Some(Value::Pred(_, q))) => {
                let both = p.clone().and(q.clone());
                return Ok(graph.given(scope, &Pred::True, &both)?.is_false());
            }
            (_, Some(Value::Literal(_)), _) | (Name::Value | Name::ValueOfTwo, ..) => self.of_literals(bindings),
            (Name::Later, Some(Value::Index(i)), Some(Value::Affine(s))) => return Ok(is_later(scope, *i, s)),
            (Name::Sparse, Some(Value::Expr(_, e)), _) => return Ok(graph.is_sparse(e)),
            (Name::Dense, Some(Value::Expr(_, e)), _) => return Ok(!graph.is_sparse(e)),
            (Name::Unguarded, Some(Value::Expr(params, Expr::Read(read))), _) => {
                let (params, read) = (params.clone(), read.clone());
                graph.unguarded(scope, given, &read, 3)?.map(|e| Value::Expr(params, e))
            }
            (Name::Needed, Some(Value::Expr(params, Expr::Read(read))), _) => {
                let (params, read) = (params.clone(), read.clone());
                graph.needed(scope, given, &read)?.map(|e| Value::Expr(params, e))
            }
            (Name::Vanishes, Some(Value::Expr(_, e)), Some(Value::Pred(_, p))) => {
                return Ok(is_about_sizes(p) && graph.vanishes(scope, e, p)?);
            }
            (Name::Negation, Some(Value::Pred(params, p)), _) => p.negate().map(|q| Value::Pred(params.clone(), q)),
            (Name::Known, Some(Value::Expr(params, a)), Some(Value::Expr(_, b))) => {
                graph.known_product(scope, a, b)?.map(|e| Value::Expr(params.clone(), e))
            }
            (Name::KnownQuotient, Some(Value::Expr(params, a)), Some(Value::Expr(_, b))) => {
                graph.known_quotient(scope, a, b)?.map(|e| Value::Expr(params.clone(), e))
            }
            (Name::Reorder, Some(Value::Expr(_, a)), Some(Value::Expr(_, e))) => {
                let Some(Value::Indices(inner)) = value(2) else { return Ok(false) };
                let all: Scope = scope.iter().chain(inner.iter()).cloned().collect();
                return Ok(graph.model.reorders(&all, given, a, e, inner.len()));
            }
            (Name::Mixed, Some(Value::Expr(_, e)), _) => return is_mixed(graph, e),
            (Name::Count, Some(Value::Index(i)), Some(Value::Affine(n))) => {
                let p = of_predicate(2).unwrap_or(Pred::True);
                count(graph, scope, *i, n, &p)?.map(Value::Affine)
            }
            (Name::Somewhere, Some(Value::Index(i)), Some(Value::Affine(n))) => {
                let p = of_predicate(2).unwrap_or(Pred::True);
                somewhere(graph, *i, n, &p)?.map(|p| Value::Pred(Params::new(), p))
            }
            (Name::Total, Some(Value::Expr(_, e)), _) => return Ok(is_total(graph, e, &mut BTreeMap::new())),
            (Name::Partial, Some(Value::Expr(_, e)), _) => return Ok(!is_total(graph, e, &mut BTreeMap::new())),
            _ => return Ok(false),
        };
        Ok(match (self.result, result) {
            (Some(meta), Some(value)) => bindings.bind(meta, value),
            (None, Some(_)) => true,
            (_, None) => false,
        })
    }

    /// The result of a condition about literals.
    fn of_literals(&self, bindings: &Bindings) -> Option<Value> {
        let value = |at: usize| self.args.get(at).and_then(|meta| bindings.get(*meta));
        match (self.name, value(0), value(1)) {
            (Name::Value, Some(Value::Function(Function::Value(Primitive::Op(op)))), Some(Value::Literal(c)))
                if op.arity() == 1 =>
            {
                let d = op.value(&[*c]);
                d.is_finite().then_some(Value::Literal(d))
            }
            (Name::ValueOfTwo, Some(Value::Function(Function::Value(Primitive::Op(op)))), Some(Value::Literal(c)))
                if op.arity() == 2 =>
            {
                let Some(Value::Literal(d)) = value(2) else { return None };
                value_of_two(*op, *c, *d).map(Value::Literal)
            }
            (Name::Ratio, Some(Value::Literal(c)), Some(Value::Literal(d))) => {
                plain_quotient(*c, *d).map(Value::Literal)
            }
            (Name::Exponent, Some(Value::Literal(c)), _) => {
                let k = *c as i32;
                (f64::from(k) == *c).then_some(Value::Integer(i64::from(k)))
            }
            (Name::Reciprocal, Some(Value::Literal(c)), _) => {
                let d = 1.0 / c;
                let power_of_two = c.is_normal() && c.to_bits() << 12 == 0 && d.is_normal();
                power_of_two.then_some(Value::Literal(d))
            }
            _ => None,
        }
    }
}

/// Whether an index is bound inside of all that an index expression mentions.
fn is_later(scope: &Scope, i: IndexId, s: &Affine) -> bool {
    let place = |i| scope.iter().position(|(j, _)| *j == i);
    let Some(at) = place(i) else { return false };
    let mut earlier = true;
    s.visit(&mut |v| {
        if let Var::Index(j) = v {
            earlier &= place(*j).is_some_and(|before| before < at);
        }
    });
    earlier
}

/// Whether what is read is a sum of which some terms are sparse and some are not.
fn is_mixed(graph: &mut Graph<'_>, e: &Expr) -> Result<bool> {
    let Expr::Read(read) = e.clone() else { return Ok(false) };
    let definitions = graph.definitions(&read)?;
    Ok(definitions.iter().any(|(_, e)| match e {
        Expr::Sum(terms) => {
            let sparse = terms.iter().filter(|e| graph.is_sparse(e)).count();
            0 < sparse && sparse < terms.len()
        }
        _ => false,
    }))
}

/// That there is a value of an index at which a predicate holds, all of whose conjuncts are of entries that mention it.
fn somewhere(graph: &mut Graph<'_>, i: IndexId, n: &Size, p: &Pred) -> Result<Option<Pred>> {
    let entry =
        |p: &Pred| matches!(p, Pred::Relation { relation: RelationRef::Input(_), holds: true, .. }) && p.mentions(i);
    if p.is_true() || !p.conjuncts().iter().all(entry) {
        return Ok(None);
    }
    let j = graph.fresh();
    let body = p.substitute(&|k| (k == i).then(|| j.into()))?;
    Ok(Some(Pred::exists(j, n.clone(), body)))
}

/// How many classes are looked at before an answer is no.
const MAX_CLASSES: usize = 64;

/// Whether an expression is finite whatever the data are, NaN and infinities among them, by one node at least of each class: literals, index
/// expressions, comparisons, and what functions without poles make of these.
fn is_total(graph: &Graph<'_>, e: &Expr, known: &mut BTreeMap<Id, bool>) -> bool {
    match e {
        Expr::Number(x) => x.get().is_finite(),
        Expr::Index(_) => true,
        Expr::Read(read) => is_total_class(graph, read.class, known),
        Expr::Product(product) => product.factors.iter().all(|e| is_total(graph, e, known)),
        Expr::Sum(terms) => terms.iter().all(|e| is_total(graph, e, known)),
        Expr::Apply(f, args) => match f.totality() {
            Totality::Always => true,
            Totality::OfFinite => args.iter().all(|e| is_total(graph, e, known)),
            Totality::Partial => false,
        },
    }
}

fn is_total_class(graph: &Graph<'_>, class: Id, known: &mut BTreeMap<Id, bool>) -> bool {
    let class = graph.egraph.find(class);
    if let Some(answer) = known.get(&class) {
        return *answer;
    }
    // A class does not show itself to be finite.
    known.insert(class, false);
    let finite = |slot: &Slot| !matches!(slot, Slot::Number(x) if !x.get().is_finite());
    let total = known.len() <= MAX_CLASSES
        && graph.egraph[class].nodes.iter().any(|node| {
            let plain = match &*node.head {
                Head::Input { .. } => false,
                Head::Product { factors, .. } => factors.iter().all(finite),
                Head::Sum { terms, .. } => terms.iter().all(|(_, slot)| finite(slot)),
                Head::Apply { function, args, .. } => match function.totality() {
                    Totality::Always => return true,
                    Totality::OfFinite => args.iter().all(finite),
                    Totality::Partial => false,
                },
            };
            plain && node.children.iter().all(|child| is_total_class(graph, *child, known))
        });
    known.insert(class, total);
    total
}

/// How many `i < n` satisfy a conjunction of bounds, one from below and one from above: `last - first + 1`, perhaps negative for none.
fn count(graph: &mut Graph<'_>, scope: &Scope, i: IndexId, n: &Size, p: &Pred) -> Result<Option<Affine>> {
    let mut first = vec![Affine::constant(0)];
    let mut last = vec![n.add_constant(-1)?];
    for p in p.conjuncts() {
        let Pred::NonNegative(a) = p else { return Ok(None) };
        let rest = |k: i64| -> Result<Affine> { Ok(a.sub(&Affine::index(i).scale(k)?)?) };
        match a.coefficient(&crate::index::Var::Index(i)) {
            // 0 <= i + b
            1 => first.push(rest(1)?.scale(-1)?),
            // 0 <= b - i
            -1 => last.push(rest(-1)?),
            _ => return Ok(None),
        }
    }
    let around: Scope = scope.iter().filter(|(j, _)| *j != i).cloned().collect();
    let mut extreme = |bounds: &[Affine], upper: bool| -> Result<Option<Affine>> {
        'bounds: for a in bounds {
            for b in bounds {
                let p = if upper { Pred::le(a, b)? } else { Pred::le(b, a)? };
                if a != b && !graph.given(&around, &Pred::True, &p)?.is_true() {
                    continue 'bounds;
                }
            }
            return Ok(Some(a.clone()));
        }
        Ok(None)
    };
    let (Some(first), Some(last)) = (extreme(&first, false)?, extreme(&last, true)?) else { return Ok(None) };
    Ok(Some(last.sub(&first)?.add_constant(1)?))
}

/// The value of a function of two literals, where it is finite.
fn value_of_two(op: Op, c: f64, d: f64) -> Option<f64> {
    match op {
        Op::Div => plain_quotient(c, d),
        op => Some(op.value(&[c, d])).filter(|value| value.is_finite()),
    }
}

/// The quotient of two literals, unless it overflows or vanishes. A fraction of integers stays one where no number is its value: `2 / 3` reads
/// better than its digits.
fn plain_quotient(c: f64, d: f64) -> Option<f64> {
    let quotient = c / d;
    let is_exact = quotient.mul_add(d, -c) == 0.0;
    let is_fraction = c.fract() == 0.0 && d.fract() == 0.0;
    ((c == 0.0 && d != 0.0 || quotient.is_normal()) && (is_exact || !is_fraction)).then_some(quotient)
}

/// How many factors of a product are not literals.
fn reads(e: &Expr) -> usize {
    match e {
        Expr::Product(p) => p.factors.iter().filter(|e| e.as_number().is_none()).count(),
        Expr::Number(_) => 0,
        _ => 1,
    }
}

fn terms(e: &Expr) -> usize {
    match e {
        Expr::Sum(terms) => terms.len(),
        _ => 1,
    }
}

pub(super) fn parity(f: Function) -> Option<Parity> {
    match f {
        Function::Value(Primitive::Op(op)) if op.arity() == 1 => op.facts().parity,
        _ => None,
    }
}
