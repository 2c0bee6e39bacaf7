//! Matching patterns.
//!
//! It is modulo the form of expressions. A product pattern takes its `sum` indices, conjuncts and factors from those of
//! the product in any order; which ones is searched. What the pattern leaves over stays around the match: `exp(a) * exp(b)` matches
//! inside `x[i] * exp(y) * exp(z)`, and `sum i < n. a * e(i)` under further sums. Inside a pattern, as in `ln(exp(a))`, nothing may be left over.
//!
//! Of the metavariables of a product, one that is followed by another of the same indices takes one factor; the last one of the
//! same indices takes all that may stand there. So `a * e(i)` splits a product in exactly one way: `a` gets what does not mention `i`.
//!
//! Where a pattern has structure and the expression reads a class, every node of the class is tried. Of two terms that must have a factor in
//! common, only those that may have one are compared.
//!
//! **Searching** is by continuations: each part of a pattern calls what comes after it once for each way in which it matches. Nothing is copied on
//! the way: parts that are taken are crossed out ([`Left`]), and bindings are taken back when a way has been gone.

mod left;
mod product;
mod quick;
mod solve;

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use super::bindings::{Bindings, Value};
use super::conditions::Condition;
use super::expr::{Expr, Product};
use super::graph::{Definitions, Graph};
use super::instantiate::integer;
use super::lang::Form;
use super::rule::{Head, Integer, Linear, Meta, Pattern, Rule};
use crate::base::work;
use crate::error::{Error, Result};
use crate::index::Pred;
use crate::scalar::{Function, Op, Primitive};
use left::{Left, Mask};
use quick::{Common, Products, is_narrow, lacks, plausible};

/// What stands around a match: `sum s. [p] * f0 * .. * (match)`, or `(match) + t0 + ..`.
#[derive(Clone, Debug)]
pub(super) enum Context {
    Product(Product),
    Sum(Vec<Expr>),
    /// An expression in which the read of this number matched.
    Read(Expr, usize),
}

impl Context {
    /// The match replaced by an expression.
    pub(super) fn around(&self, e: Expr) -> Expr {
        match self {
            Context::Product(p) => {
                let factors = p.factors.iter().cloned().chain([e]).collect();
                Expr::product(p.sums.clone(), p.guard.clone(), factors)
            }
            Context::Read(whole, number) => whole.with_read(*number, &e),
            Context::Sum(terms) if terms.is_empty() => e,
            Context::Sum(terms) => Expr::sum(terms.iter().cloned().chain([e]).collect()),
        }
    }
}

/// How many ways of matching one rule at one place are looked at.
pub(super) const MAX_MATCHES: usize = 16;

/// How many parts of patterns are compared for one rule at one place.
const MAX_EFFORT: usize = 400;

/// What is looked for.
pub(super) struct Goal<'r> {
    pattern: &'r Pattern,
    /// The number of metavariables.
    metas: usize,
    /// Conditions that are asked as soon as what they are about is bound.
    conditions: Vec<&'r Condition>,
    /// No bindings, with room for all: kept from one search to the next.
    room: RefCell<Bindings>,
}

impl<'r> Goal<'r> {
    /// The left-hand side that rules have in common; nothing for no rules.
    pub(super) fn of(rules: &[&'r Rule]) -> Option<Goal<'r>> {
        let (first, others) = rules.split_first()?;
        let everywhere = |condition: &&Condition| others.iter().all(|rule| rule.conditions.contains(condition));
        Some(Goal {
            pattern: &first.lhs,
            metas: rules.iter().map(|rule| rule.metas.len()).max().unwrap_or_default(),
            conditions: first.conditions.iter().filter(everywhere).collect(),
            room: RefCell::default(),
        })
    }

    /// Whether it may be found at all, by a quick look.
    pub(super) fn is_plausible(&self, subject: &Subject<'_>) -> bool {
        plausible(self.pattern, subject.e, subject.opening)
    }
}

/// A way in which a pattern matches.
pub(super) struct Match {
    pub(super) bindings: Bindings,
    pub(super) context: Context,
    /// The guards around what matched.
    pub(super) given: Pred,
}

/// An expression that several patterns are looked for in, while the e-graph stays as it is.
pub(super) struct Subject<'e> {
    e: &'e Expr,
    /// Whether classes are looked into.
    opening: bool,
    /// The products that each term of a sum may be.
    products: OnceCell<Rc<[Products]>>,
    /// The products that stand in a parenthesis that each term of a sum may be a multiple of.
    inside: OnceCell<Rc<[Products]>>,
}

impl<'e> Subject<'e> {
    /// `opening` says whether classes are looked into.
    pub(super) fn new(e: &'e Expr, opening: bool) -> Self {
        Subject { e, opening, products: OnceCell::new(), inside: OnceCell::new() }
    }
}

/// All ways, up to a limit, in which an expression matches. Products and sums of more than 64 parts do not match. To be asked where a match
/// [is plausible](Goal::is_plausible).
pub(super) fn matches(graph: &mut Graph<'_>, goal: &Goal<'_>, subject: &Subject<'_>) -> Result<Vec<Match>> {
    let bindings = Bindings::default();
    let mut matcher = Matcher { graph, goal, subject, bindings, found: Vec::new(), effort: 0, error: None };
    if matcher.has_structure(goal.pattern, subject.e) {
        matcher.bindings = goal.room.take().with_room(goal.metas);
        matcher.top(goal.pattern, subject.e);
        goal.room.replace(std::mem::take(&mut matcher.bindings));
    }
    match matcher.error {
        Some(error) => Err(error),
        None => Ok(matcher.found),
    }
}

struct Matcher<'g, 'a> {
    graph: &'g mut Graph<'a>,
    goal: &'g Goal<'g>,
    subject: &'g Subject<'g>,
    bindings: Bindings,
    found: Vec<Match>,
    /// How many parts of patterns were compared.
    effort: usize,
    error: Option<Error>,
}

/// What a pattern leaves over.
#[derive(Clone, Copy)]
enum Rest<'s> {
    Nothing,
    Product(Left<'s>),
    Terms(&'s [Expr], Mask),
}

impl Rest<'_> {
    fn to_context(self) -> Context {
        match self {
            Rest::Product(left) if !left.is_empty() => Context::Product(left.to_product()),
            Rest::Terms(terms, left) => Context::Sum(left.of(terms).cloned().collect()),
            Rest::Product(_) | Rest::Nothing => Context::Sum(Vec::new()),
        }
    }
}

/// The nodes of a class, as expressions.
struct Opened(Option<Definitions>);

impl Opened {
    fn iter(&self) -> impl Iterator<Item = &(Form, Expr)> {
        self.0.iter().flat_map(|found| found.iter())
    }
}

/// What comes after a part of a pattern.
type Then<'k, 'g, 'a> = &'k mut dyn FnMut(&mut Matcher<'g, 'a>, Rest<'_>);

impl<'g, 'a> Matcher<'g, 'a> {
    fn full(&self) -> bool {
        self.found.len() >= MAX_MATCHES || self.effort >= MAX_EFFORT || self.error.is_some()
    }

    /// Goes on with a metavariable bound, if it may be.
    fn bind(&mut self, meta: Meta, value: Value, then: impl FnOnce(&mut Self)) {
        let mark = self.bindings.mark();
        if self.bindings.bind(meta, value) {
            let mut concerned = self.goal.conditions.iter().filter(|condition| condition.args.contains(&meta));
            if concerned.all(|condition| condition.of_values(&self.bindings) != Some(false)) {
                then(self);
            }
        }
        self.bindings.undo(mark);
    }

    fn keep(&mut self, context: impl FnOnce() -> Context, given: &Pred) {
        if !self.full() {
            let bindings = self.bindings.clone();
            self.found.push(Match { bindings, context: context(), given: given.clone() });
        }
    }

    /// A match of the whole left-hand side; what is left over becomes the context.
    fn top(&mut self, pattern: &Pattern, subject: &Expr) {
        if matches!(pattern, Pattern::Element(_) | Pattern::Read(_)) {
            for (number, (read, given)) in subject.reads().into_iter().enumerate() {
                self.expr(pattern, &Expr::Read(read), &mut |m, _| {
                    m.keep(|| Context::Read(subject.clone(), number), &given);
                });
            }
            return;
        }
        let given = match subject {
            Expr::Product(product) => &product.guard,
            _ => &Pred::True,
        };
        let mut keep = |m: &mut Self, rest: Rest<'_>| m.keep(|| rest.to_context(), given);
        match (pattern, subject) {
            (Pattern::Product { .. }, Expr::Product(product)) => {
                if let Some(left) = Left::all(product) {
                    self.product(pattern, left, true, &mut keep);
                }
            }
            (Pattern::Sum(patterns), Expr::Sum(terms)) => {
                if let Some(left) = Mask::all(terms.len()) {
                    self.terms(patterns, terms, left, true, &mut keep);
                }
            }
            (Pattern::Product { .. }, _) => {}
            (Pattern::Apply(..), Expr::Product(product)) => {
                // A factor of a product.
                let Some(left) = Left::all(product) else { return };
                for (at, factor) in product.factors.iter().enumerate() {
                    if self.has_form(pattern, factor) {
                        let rest = Left { factors: left.factors.without(at), ..left };
                        self.expr(pattern, factor, &mut |m, _| keep(m, Rest::Product(rest)));
                    }
                }
            }
            _ => self.expr(pattern, subject, &mut keep),
        }
    }

    /// The nodes of the class that an expression reads, as expressions; none where classes are not looked into.
    fn opened(&mut self, subject: &Expr) -> Opened {
        let Expr::Read(read) = subject else { return Opened(None) };
        if !self.subject.opening {
            return Opened(None);
        }
        match self.graph.definitions(read) {
            Ok(found) => Opened(Some(found)),
            Err(error) => {
                self.error = Some(error);
                Opened(None)
            }
        }
    }

    /// Matches, with nothing left over.
    fn expr(&mut self, pattern: &Pattern, subject: &Expr, then: Then<'_, 'g, 'a>) {
        self.effort += 1;
        work::charge(4);
        if self.full() {
            return;
        }
        match pattern {
            Pattern::Meta(meta, args) => {
                if let Some(params) = self.closed(args, subject) {
                    self.bind_expr(*meta, params, subject.clone(), |m| then(m, Rest::Nothing));
                }
            }
            Pattern::Number(x) => {
                if subject.as_number().is_some_and(|y| y.to_bits() == x.to_bits()) {
                    then(self, Rest::Nothing);
                }
            }
            Pattern::Literal(meta) => {
                if let Some(x) = subject.as_number() {
                    self.bind(*meta, Value::Literal(x), |m| then(m, Rest::Nothing));
                }
            }
            Pattern::Real(linear) => {
                let (Expr::Index(a), Linear::Meta(meta)) = (subject, linear) else { return };
                match self.bindings.get(*meta) {
                    Some(Value::Index(i)) if a.as_index() == Some(*i) => then(self, Rest::Nothing),
                    Some(Value::Index(_)) => {}
                    _ => self.bind(*meta, Value::Affine((**a).clone()), |m| then(m, Rest::Nothing)),
                }
            }
            Pattern::Read(meta) => {
                if matches!(subject, Expr::Read(_))
                    && let Some(params) = self.closed(&[], subject)
                {
                    self.bind_expr(*meta, params, subject.clone(), |m| then(m, Rest::Nothing));
                }
            }
            Pattern::Element(inner) => {
                // Only where an index is fixed or repeated: the element of a smaller tensor.
                if matches!(subject, Expr::Read(read) if is_narrow(read)) {
                    for (_, definition) in self.opened(subject).iter() {
                        self.expr(inner, definition, then);
                    }
                }
            }
            Pattern::Apply(head, args) => {
                self.application(head, args, subject, then);
                for (_, definition) in self.opened(subject).iter() {
                    self.application(head, args, definition, then);
                }
            }
            Pattern::Product { .. } => {
                self.whole_product(pattern, subject, then);
                for (form, definition) in self.opened(subject).iter() {
                    if *form == Form::Product && plausible(pattern, definition, true) {
                        self.whole_product(pattern, definition, then);
                    }
                }
                // [p] * T[..]: the guard joins those of the nodes.
                if let Expr::Product(product) = subject
                    && let ([], [factor]) = (product.sums.as_slice(), product.factors.as_slice())
                {
                    for (form, definition) in self.opened(factor).iter() {
                        if *form == Form::Product {
                            let e = Expr::product(Vec::new(), product.guard.clone(), vec![definition.clone()]);
                            if plausible(pattern, &e, true) {
                                self.whole_product(pattern, &e, then);
                            }
                        }
                    }
                }
            }
            Pattern::Sum(patterns) => {
                self.whole_sum(patterns, subject, then);
                for (_, definition) in self.opened(subject).iter() {
                    self.whole_sum(patterns, definition, then);
                }
            }
        }
    }

    /// A function, not looking into classes.
    fn application(&mut self, head: &Head, patterns: &[Pattern], subject: &Expr, then: Then<'_, 'g, 'a>) {
        let Expr::Apply(function, args) = subject else { return };
        if args.len() == patterns.len() {
            self.head(head, *function, |m| m.all(patterns, args, then));
        }
    }

    fn head(&mut self, head: &Head, function: Function, then: impl FnOnce(&mut Self)) {
        let power = match function {
            Function::Value(Primitive::Op(Op::Powi(k))) => Some(i64::from(k)),
            _ => None,
        };
        match (head, power) {
            (Head::Fixed(f), _) if *f == function => then(self),
            (Head::Power(Integer::Meta(meta)), Some(k)) => self.bind(*meta, Value::Integer(k), then),
            (Head::Power(exponent), Some(k)) if integer(exponent, &self.bindings) == Some(k) => then(self),
            (Head::Meta(meta), _) => self.bind(*meta, Value::Function(function), then),
            (Head::Fixed(_) | Head::Power(_), _) => {}
        }
    }

    /// Matches arguments one by one.
    fn all(&mut self, patterns: &[Pattern], subjects: &[Expr], then: Then<'_, 'g, 'a>) {
        match (patterns, subjects) {
            ([pattern, patterns @ ..], [subject, subjects @ ..]) => {
                self.expr(pattern, subject, &mut |m, _| m.all(patterns, subjects, then));
            }
            _ => then(self, Rest::Nothing),
        }
    }

    /// A sum with nothing left over, not looking into classes.
    fn whole_sum(&mut self, patterns: &[Pattern], subject: &Expr, then: Then<'_, 'g, 'a>) {
        if let Expr::Sum(terms) = subject
            && let Some(left) = Mask::all(terms.len())
        {
            self.terms(patterns, terms, left, false, then);
        }
    }

    /// Matches terms of a sum, in any order. At the top, what is left over is handed on; elsewhere there must be nothing.
    fn terms(&mut self, patterns: &[Pattern], terms: &[Expr], left: Mask, top: bool, then: Then<'_, 'g, 'a>) {
        if let [a, b] = patterns
            && let Some(common) = Common::of(a, b)
        {
            return self.related([a, b], common, terms, left, top, then);
        }
        let [pattern, others @ ..] = patterns else {
            if left.is_empty() || top {
                then(self, Rest::Terms(terms, left));
            }
            return;
        };
        // The last metavariable takes all that is left.
        if let (Pattern::Meta(meta, args), true, false) = (pattern, others.is_empty(), top)
            && self.bindings.get(*meta).is_none()
        {
            let taken = Expr::sum(left.of(terms).cloned().collect());
            if let Some(params) = self.closed(args, &taken) {
                self.bind_expr(*meta, params, taken, |m| then(m, Rest::Nothing));
            }
            return;
        }
        let bound = self.needed(pattern);
        let products = if bound.is_empty() { None } else { Some(self.products_of(terms)) };
        for at in left.iter() {
            if products.as_ref().is_some_and(|products| lacks(&bound, &products[at])) {
                continue;
            }
            self.expr(pattern, &terms[at], &mut |m, _| m.terms(others, terms, left.without(at), top, then));
        }
    }

    /// Matches two terms that have something in common, in any order; only those that may have it are compared.
    fn related(
        &mut self,
        patterns: [&Pattern; 2],
        common: Common,
        terms: &[Expr],
        left: Mask,
        top: bool,
        then: Then<'_, 'g, 'a>,
    ) {
        if left.len() > 2 && !top {
            return;
        }
        let products = self.products_of(terms);
        let firsts = match common {
            Common::LikeInside => self.products_inside(terms),
            Common::Factor | Common::Like => Rc::clone(&products),
        };
        for first in left.iter() {
            for second in left.without(first).iter() {
                if !common.may_be(&firsts[first], &products[second]) {
                    continue;
                }
                self.expr(patterns[0], &terms[first], &mut |m, _| {
                    if lacks(&m.needed(patterns[1]), &products[second]) {
                        return;
                    }
                    m.expr(patterns[1], &terms[second], &mut |m, _| {
                        then(m, Rest::Terms(terms, left.without(first).without(second)));
                    });
                });
            }
        }
    }
}
