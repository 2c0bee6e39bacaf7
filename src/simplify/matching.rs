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

use egg::Id;
use smallvec::SmallVec;

use super::bindings::{Bindings, Params, Value};
use super::expr::{Expr, Product, Read, Real};
use super::graph::Graph;
use super::instantiate::{integer, linear};
use super::lang::Form;
use super::rule::{Arg, Binder, Head, Integer, Linear, Meta, Pattern, PredPattern, Rule};
use crate::base::IndexId;
use crate::error::{Error, Result};
use crate::index::{Affine, Application, Pred, RelationRef, Relations, Size, Var};
use crate::scalar::{Function, Op, Primitive};

/// What stands around a match: `sum s. [p] * f0 * .. * (match)`, or `(match) + t0 + ..`.
#[derive(Clone, Debug)]
pub(super) enum Context {
    Product(Product),
    Sum(Vec<Expr>),
    /// An expression in which the read of this number matched.
    Read(Expr, usize),
}

impl Context {
    fn none() -> Context {
        Context::Sum(Vec::new())
    }

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

/// A way in which a rule matches.
pub(super) struct Match {
    pub(super) bindings: Bindings,
    pub(super) context: Context,
    /// The guards around what matched.
    pub(super) given: Pred,
}

/// All ways, up to a limit, in which the left-hand side of a rule matches an expression. `opening` says whether classes are looked into.
pub(super) fn matches(graph: &mut Graph<'_>, rule: &Rule, subject: &Expr, opening: bool) -> Result<Vec<Match>> {
    if !plausible(&rule.lhs, subject, opening) {
        return Ok(Vec::new());
    }
    let mut matcher = Matcher { graph, opening, found: Vec::new(), effort: 0, error: None };
    matcher.top(&rule.lhs, subject, Bindings::new(rule.metas.len()));
    match matcher.error {
        Some(error) => Err(error),
        None => Ok(matcher.found),
    }
}

struct Matcher<'g, 'a> {
    graph: &'g mut Graph<'a>,
    opening: bool,
    found: Vec<Match>,
    /// How many parts of patterns were compared.
    effort: usize,
    error: Option<Error>,
}

/// A factor that two terms may have in common, whatever its indices are.
#[derive(Clone, Copy, PartialEq)]
enum Factor {
    Tensor(Id),
    Literal(Real),
}

/// What to do with each way of matching.
type Then<'k, 'g, 'a> = &'k mut dyn FnMut(&mut Matcher<'g, 'a>, Bindings, Rest);

/// What a pattern leaves over.
#[derive(Clone, Debug)]
struct Rest {
    product: Product,
    terms: Vec<Expr>,
}

impl Rest {
    fn none() -> Rest {
        Rest { product: Product { sums: Vec::new(), guard: Pred::True, factors: Vec::new() }, terms: Vec::new() }
    }

    fn is_none(&self) -> bool {
        self.terms.is_empty()
            && self.product.sums.is_empty()
            && self.product.guard.is_true()
            && self.product.factors.is_empty()
    }
}

impl<'g, 'a> Matcher<'g, 'a> {
    fn full(&self) -> bool {
        self.found.len() >= MAX_MATCHES || self.effort >= MAX_EFFORT || self.error.is_some()
    }

    /// A match of the whole left-hand side; what is left over becomes the context.
    fn top(&mut self, pattern: &Pattern, subject: &Expr, bindings: Bindings) {
        if matches!(pattern, Pattern::Element(_) | Pattern::Read(_)) {
            for (number, (read, given)) in subject.reads().into_iter().enumerate() {
                let context = Context::Read(subject.clone(), number);
                self.expr(pattern, &Expr::Read(read), bindings.clone(), &mut |m, bindings, _| {
                    if !m.full() {
                        m.found.push(Match { bindings, context: context.clone(), given: given.clone() });
                    }
                });
            }
            return;
        }
        let given = match subject {
            Expr::Product(product) => product.guard.clone(),
            _ => Pred::True,
        };
        let mut keep = |m: &mut Self, bindings: Bindings, rest: Rest| {
            if m.full() {
                return;
            }
            let context = if !rest.terms.is_empty() {
                Context::Sum(rest.terms)
            } else if rest.is_none() {
                Context::none()
            } else {
                Context::Product(rest.product)
            };
            m.found.push(Match { bindings, context, given: given.clone() });
        };
        match (pattern, subject) {
            (Pattern::Product { .. }, Expr::Product(product)) => {
                self.product(pattern, (**product).clone(), true, bindings, &mut keep);
            }
            (Pattern::Sum(patterns), Expr::Sum(terms)) => {
                self.terms(patterns, terms.to_vec(), true, bindings, &mut keep)
            }
            (Pattern::Product { .. }, _) => {}
            (Pattern::Apply(..), Expr::Product(product)) => {
                // A factor of a product.
                for at in 0..product.factors.len() {
                    if !self.has_form(pattern, &product.factors[at]) {
                        continue;
                    }
                    let mut rest = Rest::none();
                    rest.product = (**product).clone();
                    let factor = rest.product.factors.remove(at);
                    self.expr(pattern, &factor, bindings.clone(), &mut |m, bindings, inner| {
                        if inner.is_none() {
                            keep(m, bindings, rest.clone());
                        }
                    });
                }
            }
            _ => self.expr(pattern, subject, bindings, &mut keep),
        }
    }

    /// The nodes of the class that an expression reads, as expressions, those that may match.
    fn opened(&mut self, subject: &Expr, fits: &dyn Fn(Form, &Expr) -> bool) -> Vec<Expr> {
        let Expr::Read(read) = subject else { return Vec::new() };
        if !self.opening {
            return Vec::new();
        }
        match self.graph.definitions(read) {
            Ok(found) => found.iter().filter(|(form, e)| fits(*form, e)).map(|(_, e)| e.clone()).collect(),
            Err(error) => {
                self.error = Some(error);
                Vec::new()
            }
        }
    }

    /// Whether an expression has the form that a pattern asks for, itself or by a node of the class that it reads: a quick look.
    fn has_form(&mut self, pattern: &Pattern, subject: &Expr) -> bool {
        match (pattern, subject) {
            (Pattern::Apply(head, _), Expr::Apply(function, _)) => admits(head, *function),
            (Pattern::Apply(head, _), Expr::Read(_)) => {
                let fits = |_, e: &Expr| matches!(e, Expr::Apply(function, _) if admits(head, *function));
                !self.opened(subject, &fits).is_empty()
            }
            (Pattern::Apply(..), _) => false,
            (Pattern::Sum(_), Expr::Sum(_)) => true,
            (Pattern::Sum(_), Expr::Read(_)) => !self.opened(subject, &|form, _| form == Form::Sum).is_empty(),
            (Pattern::Sum(_), _) => false,
            _ => true,
        }
    }

    /// Matches with nothing left over.
    fn expr(&mut self, pattern: &Pattern, subject: &Expr, bindings: Bindings, then: Then<'_, 'g, 'a>) {
        self.effort += 1;
        if self.full() {
            return;
        }
        match pattern {
            Pattern::Meta(meta, args) => {
                if let Some(bindings) = self.bind_expr(*meta, args, subject.clone(), bindings) {
                    then(self, bindings, Rest::none());
                }
            }
            Pattern::Number(x) => {
                if subject.as_number().is_some_and(|y| y.to_bits() == x.to_bits()) {
                    then(self, bindings, Rest::none());
                }
            }
            Pattern::Literal(meta) => {
                let mut bindings = bindings;
                if let Some(x) = subject.as_number()
                    && bindings.bind(*meta, Value::Literal(x))
                {
                    then(self, bindings, Rest::none());
                }
            }
            Pattern::Real(linear) => {
                let affine = match subject {
                    Expr::Index(a) => Some(a.clone()),
                    _ => None,
                };
                let mut bindings = bindings;
                if let (Some(a), Linear::Meta(meta)) = (affine, linear) {
                    let value = match bindings.get(*meta) {
                        Some(Value::Index(i)) if a.as_index() == Some(*i) => {
                            then(self, bindings, Rest::none());
                            return;
                        }
                        Some(Value::Index(_)) => return,
                        _ => Value::Affine(a),
                    };
                    if bindings.bind(*meta, value) {
                        then(self, bindings, Rest::none());
                    }
                }
            }
            Pattern::Read(meta) => {
                if matches!(subject, Expr::Read(_))
                    && let Some(bindings) = self.bind_expr(*meta, &[], subject.clone(), bindings)
                {
                    then(self, bindings, Rest::none());
                }
            }
            Pattern::Element(inner) => {
                // Only where an index is fixed or repeated: the element of a smaller tensor.
                let Expr::Read(read) = subject else { return };
                if !is_narrow(read) {
                    return;
                }
                for definition in self.opened(subject, &|_, _| true) {
                    self.expr(inner, &definition, bindings.clone(), then);
                }
            }
            Pattern::Apply(head, args) => {
                let mut candidates = vec![subject.clone()];
                candidates.extend(self.opened(subject, &|form, _| form == Form::Apply));
                for candidate in candidates {
                    let Expr::Apply(function, found) = &candidate else { continue };
                    let mut bindings = bindings.clone();
                    if bind_head(head, *function, &mut bindings) && found.len() == args.len() {
                        self.all(args, found, bindings, then);
                    }
                }
            }
            Pattern::Product { .. } => {
                let mut candidates = vec![subject.clone()];
                let fits = |form, e: &Expr| form == Form::Product && plausible(pattern, e, true);
                candidates.extend(self.opened(subject, &fits));
                // [p] * T[..]: the guard joins those of the nodes.
                if let Expr::Product(product) = subject
                    && let ([], [factor]) = (product.sums.as_slice(), product.factors.as_slice())
                {
                    let opened = self.opened(factor, &|form, _| form == Form::Product);
                    let guarded = |e: Expr| Expr::product(Vec::new(), product.guard.clone(), vec![e]);
                    candidates.extend(opened.into_iter().map(guarded).filter(|e| plausible(pattern, e, true)));
                }
                for candidate in candidates {
                    self.product(pattern, candidate.into_product(), false, bindings.clone(), then);
                }
            }
            Pattern::Sum(patterns) => {
                let mut candidates = vec![subject.clone()];
                candidates.extend(self.opened(subject, &|form, _| form == Form::Sum));
                for candidate in candidates {
                    if let Expr::Sum(terms) = candidate {
                        self.terms(patterns, terms.to_vec(), false, bindings.clone(), then);
                    }
                }
            }
        }
    }

    /// Matches arguments one by one.
    fn all(&mut self, patterns: &[Pattern], subjects: &[Expr], bindings: Bindings, then: Then<'_, 'g, 'a>) {
        match (patterns, subjects) {
            ([pattern, patterns @ ..], [subject, subjects @ ..]) => {
                self.expr(pattern, subject, bindings, &mut |m, bindings, _| m.all(patterns, subjects, bindings, then));
            }
            _ => then(self, bindings, Rest::none()),
        }
    }

    /// Matches two terms that have a factor in common, in any order; only those that may have one are compared.
    fn related(
        &mut self,
        patterns: [&Pattern; 2],
        terms: &[Expr],
        top: bool,
        bindings: Bindings,
        then: Then<'_, 'g, 'a>,
    ) {
        let factors: Vec<Option<Vec<Factor>>> = terms.iter().map(|term| self.factors_of(term)).collect();
        let related = |a: &Option<Vec<Factor>>, b: &Option<Vec<Factor>>| match (a, b) {
            (Some(a), Some(b)) => a.iter().any(|factor| b.contains(factor)),
            _ => true,
        };
        for (first, second) in (0..terms.len()).flat_map(|i| (0..terms.len()).map(move |j| (i, j))) {
            if first == second || terms.len() > 2 && !top || !related(&factors[first], &factors[second]) {
                continue;
            }
            let others = || terms.iter().enumerate().filter(|(at, _)| *at != first && *at != second);
            self.expr(patterns[0], &terms[first], bindings.clone(), &mut |m, bindings, _| {
                m.expr(patterns[1], &terms[second], bindings, &mut |m, bindings, _| {
                    let mut left = Rest::none();
                    left.terms = others().map(|(_, term)| term.clone()).collect();
                    then(m, bindings, left);
                });
            });
        }
    }

    /// What a term may have as factors; nothing where it may have others than tensors and literals.
    fn factors_of(&mut self, term: &Expr) -> Option<Vec<Factor>> {
        let mut candidates = vec![term.clone()];
        candidates.extend(self.opened(term, &|form, _| form == Form::Product));
        if let Expr::Product(product) = term
            && let ([], [factor]) = (product.sums.as_slice(), product.factors.as_slice())
        {
            candidates.extend(self.opened(factor, &|form, _| form == Form::Product));
        }
        let mut found = Vec::new();
        for candidate in candidates {
            let before = found.len();
            for factor in candidate.into_product().factors {
                match factor {
                    Expr::Read(read) => found.push(Factor::Tensor(self.graph.egraph.find(read.class))),
                    Expr::Number(x) => found.push(Factor::Literal(x)),
                    _ => return None,
                }
            }
            if found.len() == before {
                return None;
            }
        }
        Some(found)
    }

    /// Matches terms of a sum, in any order.
    fn terms(&mut self, patterns: &[Pattern], terms: Vec<Expr>, top: bool, bindings: Bindings, then: Then<'_, 'g, 'a>) {
        if let [a, b] = patterns
            && has_common_factor(a, b)
        {
            return self.related([a, b], &terms, top, bindings, then);
        }
        let [pattern, rest @ ..] = patterns else {
            if terms.is_empty() || top {
                let mut left = Rest::none();
                left.terms = terms;
                then(self, bindings, left);
            }
            return;
        };
        // The last metavariable takes all that is left.
        if let (Pattern::Meta(meta, args), true, false) = (pattern, rest.is_empty(), top)
            && bindings.get(*meta).is_none()
        {
            if let Some(bindings) = self.bind_expr(*meta, args, Expr::sum(terms), bindings) {
                then(self, bindings, Rest::none());
            }
            return;
        }
        for at in 0..terms.len() {
            let mut others = terms.clone();
            let term = others.remove(at);
            self.expr(pattern, &term, bindings.clone(), &mut |m, bindings, _| {
                m.terms(rest, others.clone(), top, bindings, then);
            });
        }
    }

    /// Matches a product. At the top, what is left over is handed on; elsewhere there must be nothing.
    fn product(&mut self, pattern: &Pattern, subject: Product, top: bool, bindings: Bindings, then: Then<'_, 'g, 'a>) {
        let Pattern::Product { binders, guard, factors } = pattern else { return };
        self.binders(binders, subject, bindings, &mut |m, bindings, subject| {
            let alone = guard.len() == 1;
            // Sums that stay inside of the match bind what no predicate of the pattern may mention.
            let inner = if top { Vec::new() } else { subject.product.sums.iter().map(|(i, _)| *i).collect() };
            m.conjuncts(guard, (alone, &inner), subject.product, bindings, &mut |m, bindings, subject| {
                m.factors(&in_order(factors), subject.product, top, bindings, then);
            });
        });
    }

    fn binders(&mut self, binders: &[Binder], subject: Product, bindings: Bindings, then: Then<'_, 'g, 'a>) {
        let [binder, rest @ ..] = binders else {
            then(self, bindings, Rest { product: subject, terms: Vec::new() });
            return;
        };
        match binder {
            Binder::One(meta, extent) => {
                for at in 0..subject.sums.len() {
                    let mut subject = subject.clone();
                    let (i, n) = subject.sums.remove(at);
                    // Two readings of one tensor bind the same indices.
                    if bindings.get(*meta).is_none() && bindings.bound().contains(&i) {
                        continue;
                    }
                    let mut bindings = bindings.clone();
                    let fits = bindings.bind(*meta, Value::Index(i))
                        && match extent {
                            Linear::Meta(size) => bindings.bind(*size, Value::Affine(n)),
                            other => linear(other, &bindings).is_some_and(|a| a == n),
                        };
                    if fits {
                        self.binders(rest, subject, bindings, then);
                    }
                }
            }
            Binder::Many(meta) => match bindings.get(*meta).cloned() {
                None => {
                    let mut subject = subject;
                    let mut bindings = bindings;
                    let all = std::mem::take(&mut subject.sums);
                    let bound = bindings.bound();
                    if !all.iter().any(|(i, _)| bound.contains(i)) && bindings.bind(*meta, Value::Indices(all.into())) {
                        self.binders(rest, subject, bindings, then);
                    }
                }
                // The same list in another place: renamed to the first.
                Some(Value::Indices(known)) => {
                    if known.len() != subject.sums.len() {
                        return;
                    }
                    for order in orders(&known, &subject.sums) {
                        let rename =
                            |i: IndexId| order.iter().find(|(from, _)| *from == i).map(|(_, to)| Affine::index(*to));
                        let factors = subject
                            .factors
                            .iter()
                            .map(|e| e.substitute(&rename))
                            .collect::<crate::index::Checked<Vec<_>>>();
                        let (Ok(factors), Ok(guard)) = (factors, subject.guard.substitute(&rename)) else { continue };
                        self.binders(rest, Product { sums: Vec::new(), guard, factors }, bindings.clone(), then);
                    }
                }
                Some(_) => {}
            },
        }
    }

    fn conjuncts(
        &mut self,
        patterns: &[PredPattern],
        (alone, inner): (bool, &[IndexId]),
        subject: Product,
        bindings: Bindings,
        then: Then<'_, 'g, 'a>,
    ) {
        let [pattern, rest @ ..] = patterns else {
            then(self, bindings, Rest { product: subject, terms: Vec::new() });
            return;
        };
        let conjuncts = subject.guard.conjuncts().to_vec();
        let without = |at: usize| {
            let others = conjuncts.iter().enumerate().filter(|(k, _)| *k != at).map(|(_, p)| p.clone());
            Product { guard: Pred::all(others), ..subject.clone() }
        };
        match pattern {
            PredPattern::Meta(meta, args) => {
                let Some(params) = bindings.params(args) else { return };
                let bound = bindings.bound().into_iter().filter(|i| !params.contains(i));
                let hidden: Params = bound.chain(inner.iter().copied()).collect();
                let allowed = |p: &Pred| !hidden.iter().any(|i| p.mentions(*i));
                let next_is_alike = matches!(rest.first(), Some(PredPattern::Meta(_, other)) if other == args);
                if next_is_alike {
                    for (at, p) in conjuncts.iter().enumerate().filter(|(_, p)| allowed(p)) {
                        let mut bindings = bindings.clone();
                        if bindings.bind(*meta, Value::Pred(params.clone(), p.clone())) {
                            self.conjuncts(rest, (alone, inner), without(at), bindings, then);
                        }
                    }
                    return;
                }
                // A predicate that is applied to an index concerns it.
                let concerns = |p: &Pred| params.is_empty() || params.iter().any(|i| p.mentions(*i));
                let (taken, left): (Vec<Pred>, Vec<Pred>) =
                    conjuncts.iter().cloned().partition(|p| allowed(p) && concerns(p));
                let mut bindings = bindings;
                if (!taken.is_empty() || !alone) && bindings.bind(*meta, Value::Pred(params, Pred::all(taken))) {
                    self.conjuncts(rest, (alone, inner), Product { guard: Pred::all(left), ..subject }, bindings, then);
                }
            }
            PredPattern::Equal(Linear::Meta(index), Linear::Meta(value)) => {
                let signature = self.graph.signature;
                let maps = |r: RelationRef| signature.is_map(r);
                for (at, p) in conjuncts.iter().enumerate() {
                    for (i, solution) in solutions(p, bindings.get(*index), &maps) {
                        let mut bindings = bindings.clone();
                        let mut hidden = bindings.bound();
                        hidden.extend(inner.iter().copied());
                        let closed = !inner.contains(&i) && !hidden.iter().any(|j| *j != i && solution.mentions(*j));
                        if closed
                            && bindings.bind(*index, Value::Index(i))
                            && bindings.bind(*value, Value::Affine(solution))
                        {
                            self.conjuncts(rest, (alone, inner), without(at), bindings, then);
                        }
                    }
                }
            }
            // Other atoms stand on right-hand sides only; the loader's tests refuse them.
            PredPattern::Equal(..)
            | PredPattern::LessEqual(..)
            | PredPattern::Less(..)
            | PredPattern::Unequal(..)
            | PredPattern::Or(_) => {}
        }
    }

    /// Matches factors with patterns in the order that [`in_order`] gives.
    fn factors(
        &mut self,
        patterns: &[&Pattern],
        subject: Product,
        top: bool,
        bindings: Bindings,
        then: Then<'_, 'g, 'a>,
    ) {
        if self.full() {
            return;
        }
        let [pattern, others @ ..] = patterns else {
            if top && !subject_mentions(&subject, &bindings.bound()) {
                then(self, bindings, Rest { product: subject, terms: Vec::new() });
            } else if !top && subject.sums.is_empty() && subject.guard.is_true() && subject.factors.is_empty() {
                then(self, bindings, Rest::none());
            }
            return;
        };
        match pattern {
            Pattern::Literal(meta) => {
                let position = subject.factors.iter().position(|e| e.as_number().is_some());
                let mut subject = subject;
                let x = position.and_then(|k| subject.factors.remove(k).as_number()).unwrap_or(1.0);
                let mut bindings = bindings;
                if bindings.bind(*meta, Value::Literal(x)) {
                    self.factors(others, subject, top, bindings, then);
                }
            }
            Pattern::Meta(meta, args) => {
                let Some(params) = bindings.params(args) else { return };
                let hidden: Params = bindings.bound().into_iter().filter(|i| !params.contains(i)).collect();
                let next_is_alike = matches!(others.first(), Some(Pattern::Meta(_, other)) if other == args);
                if next_is_alike || bindings.get(*meta).is_some() && !others.is_empty() {
                    let summed: Params = subject.sums.iter().map(|(i, _)| *i).collect();
                    for at in 0..subject.factors.len() {
                        let factor = &subject.factors[at];
                        if factor.mentions_any(&hidden) || factor.mentions_any(&summed) {
                            continue;
                        }
                        let mut bindings = bindings.clone();
                        if bindings.bind(*meta, Value::Expr(params.clone(), factor.clone())) {
                            let mut subject = subject.clone();
                            subject.factors.remove(at);
                            self.factors(others, subject, top, bindings, then);
                        }
                    }
                    return;
                }
                let (taken, left): (Vec<Expr>, Vec<Expr>) =
                    subject.factors.iter().cloned().partition(|e| !e.mentions_any(&hidden));
                let last = others.is_empty();
                // Not the last: only those without the indices of the ones that follow.
                let bound = bindings.bound();
                let concerns = |p: &&Pred| bound.iter().any(|i| p.mentions(*i));
                let (inner, outer): (Vec<Pred>, Vec<Pred>) = if last && top {
                    let conjuncts = subject.guard.conjuncts();
                    (
                        conjuncts.iter().filter(concerns).cloned().collect(),
                        conjuncts.iter().filter(|p| !concerns(p)).cloned().collect(),
                    )
                } else if last {
                    (subject.guard.conjuncts().to_vec(), Vec::new())
                } else {
                    (Vec::new(), subject.guard.conjuncts().to_vec())
                };
                if inner.iter().any(|p| hidden.iter().any(|i| p.mentions(*i))) {
                    return;
                }
                let sums = if last && !top { subject.sums.clone() } else { Vec::new() };
                let outer_sums = if last && !top { Vec::new() } else { subject.sums.clone() };
                if !last && taken.is_empty() {
                    return;
                }
                let value = Expr::product(sums, Pred::all(inner), taken);
                let Some(bindings) = self.bind_expr(*meta, args, value, bindings) else { return };
                let subject = Product { sums: outer_sums, guard: Pred::all(outer), factors: left };
                self.factors(others, subject, top, bindings, then);
            }
            structured => {
                for at in 0..subject.factors.len() {
                    if !self.has_form(structured, &subject.factors[at]) {
                        continue;
                    }
                    let mut subject = subject.clone();
                    let factor = subject.factors.remove(at);
                    self.expr(structured, &factor, bindings.clone(), &mut |m, bindings, inner| {
                        if inner.is_none() {
                            m.factors(others, subject.clone(), top, bindings, then);
                        }
                    });
                }
            }
        }
    }

    /// Binds a metavariable to an expression that mentions no index of the pattern but its arguments.
    fn bind_expr(&mut self, meta: Meta, args: &[Arg], e: Expr, bindings: Bindings) -> Option<Bindings> {
        let params = bindings.params(args)?;
        let hidden: Params = bindings.bound().into_iter().filter(|i| !params.contains(i)).collect();
        if e.mentions_any(&hidden) {
            return None;
        }
        let mut bindings = bindings;
        if let Some(Value::Expr(known, body)) = bindings.get(meta) {
            // The same expression applied to other indices.
            let at = |i: IndexId| known.iter().position(|p| *p == i).map(|at| Affine::index(params[at]));
            let same = known.len() == params.len() && body.substitute(&at).is_ok_and(|body| body.same(&e));
            return same.then_some(bindings);
        }
        bindings.bind(meta, Value::Expr(params, e)).then_some(bindings)
    }
}

/// Whether two patterns of products ask for the same factor.
fn has_common_factor(a: &Pattern, b: &Pattern) -> bool {
    let metas = |p: &Pattern| -> Vec<Meta> {
        let Pattern::Product { factors, .. } = p else { return Vec::new() };
        let plain = |f: &Pattern| match f {
            Pattern::Meta(meta, _) => Some(*meta),
            _ => None,
        };
        factors.iter().filter_map(plain).collect()
    };
    let others = metas(b);
    metas(a).iter().any(|meta| others.contains(meta))
}

/// Patterns of factors: structure first, then literals, then metavariables, so that these take what is left.
fn in_order(patterns: &[Pattern]) -> SmallVec<[&Pattern; 8]> {
    let mut ordered: SmallVec<[&Pattern; 8]> = patterns.iter().collect();
    ordered.sort_by_key(|pattern| match pattern {
        Pattern::Meta(..) => 2,
        Pattern::Literal(_) => 1,
        _ => 0,
    });
    ordered
}

/// Whether fewer indices occur in a read than the tensor has axes.
fn is_narrow(read: &Read) -> bool {
    let mut found = Vec::new();
    for a in read.indices.iter() {
        a.visit(&mut |v| {
            if let Var::Index(i) = v
                && !found.contains(i)
            {
                found.push(*i);
            }
        });
    }
    found.len() < read.indices.len()
}

/// Whether a left-hand side can match at all: a quick look at what it asks for.
fn plausible(pattern: &Pattern, subject: &Expr, opening: bool) -> bool {
    match (pattern, subject) {
        (Pattern::Product { binders, guard, factors }, Expr::Product(product)) => {
            let ones = binders.iter().filter(|b| matches!(b, Binder::One(..))).count();
            let guarded = guard.iter().all(|p| match p {
                PredPattern::Meta(..) => !product.guard.is_true(),
                _ => product.guard.conjuncts().iter().any(|p| matches!(p, Pred::Zero(_) | Pred::Relation { .. })),
            });
            let literal = factors.iter().all(|f| match f {
                Pattern::Number(x) => product.factors.iter().any(|e| e.as_number() == Some(*x)),
                Pattern::Real(_) => product.factors.iter().any(|e| matches!(e, Expr::Index(_))),
                Pattern::Apply(..) | Pattern::Sum(_) | Pattern::Element(_) => product.factors.iter().any(|e| {
                    matches!(e, Expr::Apply(..) | Expr::Sum(_) | Expr::Product(_))
                        || opening && matches!(e, Expr::Read(_))
                }),
                _ => true,
            });
            ones <= product.sums.len() && guarded && literal
        }
        (Pattern::Product { .. }, _) => false,
        (Pattern::Sum(patterns), Expr::Sum(terms)) => patterns.len() <= terms.len(),
        (Pattern::Sum(_), _) => false,
        (Pattern::Apply(..), Expr::Apply(..) | Expr::Product(_)) => true,
        (Pattern::Apply(..), _) => false,
        _ => true,
    }
}

fn subject_mentions(subject: &Product, bound: &[IndexId]) -> bool {
    bound.iter().any(|i| subject.guard.mentions(*i)) && !bound.is_empty()
        || subject.factors.iter().any(|e| e.mentions_any(bound))
}

/// The orders in which `to` may be renamed to `from`, range by range.
fn orders(to: &[(IndexId, Size)], from: &[(IndexId, Size)]) -> Vec<Vec<(IndexId, IndexId)>> {
    let mut found: Vec<Vec<(IndexId, IndexId)>> = vec![Vec::new()];
    for (target, n) in to {
        let mut longer = Vec::new();
        for partial in &found {
            for (source, m) in from {
                if m == n && !partial.iter().any(|(used, _)| used == source) {
                    longer.push(partial.iter().copied().chain([(*source, *target)]).collect());
                }
            }
        }
        found = longer;
        found.truncate(6);
    }
    found
}

/// `i = a` for the index of an equation, or for each index with a unit coefficient.
fn solutions(p: &Pred, index: Option<&Value>, maps: &dyn Fn(RelationRef) -> bool) -> Vec<(IndexId, Affine)> {
    match p {
        Pred::Zero(a) => {
            let mut found = Vec::new();
            for (v, k) in a.terms() {
                let Var::Index(i) = v else { continue };
                if k.unsigned_abs() != 1 || index.is_some_and(|known| *known != Value::Index(*i)) {
                    continue;
                }
                // k*i + b = 0  ==  i = -k*b
                let solved = Affine::index(*i).scale(*k).and_then(|term| a.sub(&term)).and_then(|b| b.scale(-*k));
                if let Ok(solved) = solved
                    && !solved.mentions(*i)
                {
                    found.push((*i, solved));
                }
            }
            found
        }
        // f(b, i) fixes i = f(b).
        Pred::Relation { relation: relation @ RelationRef::Input(_), args, holds: true } if maps(*relation) => {
            let Some((target, source)) = args.split_last() else { return Vec::new() };
            let Some(i) = target.as_index() else { return Vec::new() };
            if index.is_some_and(|known| *known != Value::Index(i)) || source.iter().any(|a| a.mentions(i)) {
                return Vec::new();
            }
            vec![(i, Affine::var(Var::Apply(Box::new(Application { map: *relation, args: source.to_vec() }))))]
        }
        _ => Vec::new(),
    }
}

/// Whether a function may be what a pattern asks for.
fn admits(head: &Head, function: Function) -> bool {
    match head {
        Head::Fixed(f) => *f == function,
        Head::Power(_) => matches!(function, Function::Value(Primitive::Op(Op::Powi(_)))),
        Head::Meta(_) => true,
    }
}

fn bind_head(head: &Head, function: Function, bindings: &mut Bindings) -> bool {
    match head {
        Head::Fixed(f) => *f == function,
        Head::Power(Integer::Meta(meta)) => match function {
            Function::Value(Primitive::Op(Op::Powi(k))) => bindings.bind(*meta, Value::Integer(i64::from(k))),
            _ => false,
        },
        Head::Power(exponent) => match (function, integer(exponent, bindings)) {
            (Function::Value(Primitive::Op(Op::Powi(k))), Some(l)) => i64::from(k) == l,
            _ => false,
        },
        Head::Meta(meta) => bindings.bind(*meta, Value::Function(function)),
    }
}
