//! How sums and products are spelt.
//!
//! ```text
//! a + (b + c)              reads  b + c + a              a + -2 * b       reads  a - 2 * b
//! [p and q] * a + [p] * b  reads  [p] * ([q] * a + b)    -1 * (a * b)     reads  -a * b
//! x[i] * x[i]              reads  x[i]^2
//! ```
//!
//! Addition and multiplication commute bit for bit but do not associate, so operands change places where a chain can then be written without
//! parentheses, and no chain is rebuilt. Changes of sign are exact: a literal gives its sign to the sum around.
//!
//! Terms are trees here, each with one user, so a sign is taken off in place.

use super::Presenter;
use crate::error::Result;
use crate::index::{Pred, RelationRef};
use crate::scalar::{Function, Number, Op, Primitive};
use crate::term::{Term, TermId};

/// How far down a chain a sign is looked for.
const MAX_CHAIN: usize = 16;

impl Presenter<'_> {
    /// `a + b`.
    pub(super) fn add(&mut self, a: TermId, b: TermId) -> Result<TermId> {
        let (common, a, b) = self.common_guard(a, b);
        let swap = match (self.is_sum(a), self.is_sum(b)) {
            (false, true) => true,
            // `b - a` reads better than `-a + b`.
            (false, false) => self.is_negative(a) && !self.is_negative(b),
            (true, _) => false,
        };
        let (a, mut b) = if swap { (b, a) } else { (a, b) };
        if !self.is_negation(b)
            && let Some(positive) = self.strip_sign(b)
        {
            let minus = self.term.literal(-1.0)?;
            b = self.term.push(Term::Mul(minus, positive))?;
        }
        let sum = self.term.push(Term::Add(a, b))?;
        match common {
            Pred::True => Ok(sum),
            guard => {
                let guarded = self.guarded(guard, sum);
                self.term.push(guarded)
            }
        }
    }

    /// `a * b`, with the factors in the order in which they read best.
    pub(super) fn mul(&mut self, a: TermId, b: TermId) -> Result<TermId> {
        if self.is_same_element(a, b) {
            self.drop_term(b);
            return self.term.push(Term::Apply(Op::Powi(2).into(), vec![a]));
        }
        let (a, b) = if self.reads_better_swapped(a, b) { (b, a) } else { (a, b) };
        // `-2 * b` reads better than `2 * -b`, `-a * b` better than `a * -b`.
        if let Term::Mul(minus, factor) = self.term.terms[b]
            && self.is_literal(minus, -1.0)
            && !self.is_negation(factor)
        {
            match &mut self.term.terms[a] {
                Term::Number(Number::Literal(x)) if *x != -1.0 => {
                    *x = -*x;
                    return self.term.push(Term::Mul(a, factor));
                }
                Term::Number(_) => {}
                _ => {
                    let product = self.term.push(Term::Mul(a, factor))?;
                    return self.negated_product(minus, product);
                }
            }
        }
        self.negated_product(a, b)
    }

    /// `a * b`, where the sign of -1 goes to the first factor of a product.
    fn negated_product(&mut self, a: TermId, b: TermId) -> Result<TermId> {
        if self.is_literal(a, -1.0) {
            // `-a * b` reads better than `-(a * b)`.
            let inner = match &self.term.terms[b] {
                Term::Mul(head, _) => Some(*head),
                Term::Apply(Function::Value(Primitive::Op(Op::Div)), args) => args.first().copied(),
                _ => None,
            };
            if let Some(head) = inner
                && self.rank(head) > 1
                && !self.is_product(head)
                && !self.is_negation(head)
            {
                let head = self.term.push(Term::Mul(a, head))?;
                let product = match &self.term.terms[b] {
                    Term::Mul(_, last) => Term::Mul(head, *last),
                    Term::Apply(f, args) => {
                        Term::Apply(*f, std::iter::once(head).chain(args.iter().skip(1).copied()).collect())
                    }
                    other => other.clone(),
                };
                return self.term.push(product);
            }
        }
        self.term.push(Term::Mul(a, b))
    }

    fn reads_better_swapped(&self, a: TermId, b: TermId) -> bool {
        match (self.is_product(a), self.is_product(b)) {
            // Written first, a product needs no parentheses; but numbers come first.
            (false, true) => self.rank(a) > 1,
            (true, false) => self.rank(b) <= 1,
            (true, true) => false,
            (false, false) => self.rank(b) < self.rank(a),
        }
    }

    /// Numbers, sizes, elements of sparse parameters, other elements by their indices, larger terms, sums.
    fn rank(&self, e: TermId) -> usize {
        const LARGE: usize = 100;
        match &self.term.terms[e] {
            Term::Number(Number::Literal(_)) => 0,
            Term::Number(Number::Index(_)) => 1,
            Term::Access { .. } => 3 + self.indices_of(e).min(LARGE - 4),
            Term::Var(_) | Term::Fst(_) | Term::Snd(_) => 2,
            Term::Iverson { guard, body } if self.is_stored_read(guard, *body) => 2,
            Term::Sum { .. } | Term::Let { .. } => LARGE + 2,
            Term::Add(..) | Term::Iverson { .. } => LARGE + 1,
            _ => LARGE,
        }
    }

    fn indices_of(&self, mut e: TermId) -> usize {
        let mut indices = 0;
        while let Term::Access { array, .. } = self.term.terms[e] {
            indices += 1;
            e = array;
        }
        indices
    }

    /// Whether two terms read the same element of a variable.
    fn is_same_element(&self, mut a: TermId, mut b: TermId) -> bool {
        loop {
            match (&self.term.terms[a], &self.term.terms[b]) {
                (Term::Iverson { guard: p, body: x }, Term::Iverson { guard: q, body: y })
                    if p == q && self.is_stored_read(p, *x) =>
                {
                    (a, b) = (*x, *y);
                }
                (Term::Access { array: x, index: i }, Term::Access { array: y, index: j }) if i == j => {
                    (a, b) = (*x, *y);
                }
                (Term::Fst(x), Term::Fst(y)) | (Term::Snd(x), Term::Snd(y)) => (a, b) = (*x, *y),
                (Term::Var(x), Term::Var(y)) => return x == y,
                _ => return false,
            }
        }
    }

    /// Whether a bracket is written `A[i, j]`: the pattern of a sparse parameter around an access.
    fn is_stored_read(&self, guard: &Pred, body: TermId) -> bool {
        matches!(guard, Pred::Relation { relation: RelationRef::Input(_), holds: true, .. })
            && matches!(self.term.terms[body], Term::Access { .. })
    }

    fn is_sum(&self, e: TermId) -> bool {
        let limit = |e: TermId| match self.term.terms[e] {
            Term::Iverson { body, .. } => {
                self.is_literal(body, f64::INFINITY) || self.is_literal(body, f64::NEG_INFINITY)
            }
            _ => false,
        };
        // A largest element is written `max i < n. v[i]`.
        matches!(self.term.terms[e], Term::Add(_, b) if !limit(b))
    }

    /// Whether a term is written `a * b` or `a / b`.
    fn is_product(&self, e: TermId) -> bool {
        match &self.term.terms[e] {
            Term::Mul(a, _) => !self.is_literal(*a, -1.0),
            Term::Apply(Function::Value(Primitive::Op(Op::Div)), _) => true,
            _ => false,
        }
    }

    /// `[guard] * body`, in one bracket with that of the body.
    ///
    /// Conjuncts that apply maps stay inside of what keeps their sources in range.
    pub(super) fn guarded(&mut self, guard: Pred, body: TermId) -> Term {
        match &self.term.terms[body] {
            Term::Iverson { guard: inner, body: innermost } if !self.is_stored_read(inner, *innermost) => {
                let mut plain = true;
                inner.visit_affine(&mut |a| plain &= a.nesting() == 0);
                if !plain {
                    return Term::Iverson { guard, body };
                }
                let merged = Term::Iverson { guard: guard.and(inner.clone()), body: *innermost };
                self.drop_term(body);
                merged
            }
            _ => Term::Iverson { guard, body },
        }
    }

    fn is_literal(&self, e: TermId, value: f64) -> bool {
        matches!(self.term.terms[e], Term::Number(Number::Literal(x)) if x == value)
    }

    fn is_negation(&self, e: TermId) -> bool {
        matches!(self.term.terms[e], Term::Mul(a, _) if self.is_literal(a, -1.0))
    }

    /// The operand that a sign stands in front of: `a` of `a * b`, `a / b`, and `[p] * a`.
    fn head(&self, e: TermId) -> Option<TermId> {
        match &self.term.terms[e] {
            Term::Mul(a, _) => Some(*a),
            Term::Apply(Function::Value(Primitive::Op(Op::Div)), args) => args.first().copied(),
            Term::Iverson { body, .. } => Some(*body),
            _ => None,
        }
    }

    /// Whether a term begins with a negative literal.
    fn is_negative(&self, mut e: TermId) -> bool {
        for _ in 0..MAX_CHAIN {
            match self.head(e) {
                Some(head) => e = head,
                None => break,
            }
        }
        matches!(self.term.terms[e], Term::Number(Number::Literal(x)) if x < 0.0)
    }

    /// What a term that begins with a negative literal is -1 times.
    fn strip_sign(&mut self, e: TermId) -> Option<TermId> {
        let mut chain = vec![e];
        while let Some(head) = self.head(*chain.last()?) {
            if chain.len() > MAX_CHAIN {
                return None;
            }
            chain.push(head);
        }
        let last = chain.pop()?;
        match &mut self.term.terms[last] {
            Term::Number(Number::Literal(x)) if *x < 0.0 => *x = -*x,
            _ => return None,
        }
        let Some(parent) = chain.pop() else { return Some(e) };
        let positive = match &self.term.terms[parent] {
            // `-1 * e` is `e`.
            Term::Mul(_, factor) if self.is_literal(last, 1.0) => *factor,
            _ => return Some(e),
        };
        let Some(grandparent) = chain.pop() else { return Some(positive) };
        match &mut self.term.terms[grandparent] {
            Term::Mul(a, _) => *a = positive,
            Term::Apply(_, args) => args.iter_mut().take(1).for_each(|a| *a = positive),
            Term::Iverson { body, .. } => *body = positive,
            _ => {}
        }
        Some(e)
    }

    /// The conjuncts that guard both summands, and the summands without them.
    fn common_guard(&mut self, a: TermId, b: TermId) -> (Pred, TermId, TermId) {
        let none = (Pred::True, a, b);
        let terms = &self.term.terms;
        let (Term::Iverson { guard: p, body: x }, Term::Iverson { guard: q, body: y }) = (&terms[a], &terms[b]) else {
            return none;
        };
        // `A[i, j] + B[i, j]` stays.
        if self.is_stored_read(p, *x) && self.is_stored_read(q, *y) {
            return none;
        }
        let common: Vec<Pred> = p.conjuncts().iter().filter(|p| q.conjuncts().contains(p)).cloned().collect();
        if common.is_empty() {
            return none;
        }
        let a = self.without(a, &common);
        let b = self.without(b, &common);
        (Pred::all(common), a, b)
    }

    /// A guarded term without some of its conjuncts.
    fn without(&mut self, e: TermId, conjuncts: &[Pred]) -> TermId {
        let Term::Iverson { guard, body } = &mut self.term.terms[e] else { return e };
        let rest = Pred::all(guard.conjuncts().iter().filter(|p| !conjuncts.contains(p)).cloned());
        if rest.is_true() {
            let body = *body;
            self.drop_term(e);
            return body;
        }
        *guard = rest;
        e
    }

    /// A term that nothing refers to any more binds and reads nothing.
    fn drop_term(&mut self, e: TermId) {
        self.term.terms[e] = Term::Number(Number::Literal(0.0));
    }
}
