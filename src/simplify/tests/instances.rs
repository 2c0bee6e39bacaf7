//! Random instances of left-hand sides.

use super::world::{A, E, G, M, N, S, S_PATTERN, U, VECTORS};
use crate::base::{IndexId, ParamId};
use crate::index::{Affine, Application, Pred, RelationRef, Size, Var};
use crate::scalar::{Function, Op};
use crate::simplify::bindings::{Bindings, Value};
use crate::simplify::conditions::Name;
use crate::simplify::expr::{Expr, Read};
use crate::simplify::graph::{Graph, Scope};
use crate::simplify::instantiate::linear;
use crate::simplify::rule::{Arg, Binder, Head, Kind, Linear, Meta, Pattern, PredPattern, Rule};

/// A random source of everything that metavariables stand for.
pub(super) struct Source<'r, 'g, 'a> {
    pub(super) rng: &'r mut fastrand::Rng,
    pub(super) graph: &'g mut Graph<'a>,
}

const UNARY: [Op; 14] = [
    Op::Exp,
    Op::Ln,
    Op::Sqrt,
    Op::Sin,
    Op::Cos,
    Op::Tanh,
    Op::Abs,
    Op::Sign,
    Op::Sigmoid,
    Op::Log1p,
    Op::Powi(2),
    Op::Powi(3),
    Op::Powi(-1),
    Op::Powi(0),
];

const BINARY: [Op; 4] = [Op::Div, Op::Max, Op::Min, Op::Pow];

/// A metavariable that a left-hand side mentions, with what it is applied to.
type Mention = (Meta, Vec<Arg>);

/// What a left-hand side asks for: its indices with their ranges, and everything else in order.
#[derive(Default)]
struct Wanted {
    bound: Vec<(Meta, Option<Linear>)>,
    others: Vec<Mention>,
    arities: Vec<(Meta, usize)>,
}

impl Wanted {
    fn pattern(&mut self, pattern: &Pattern) {
        match pattern {
            Pattern::Number(_) => {}
            Pattern::Meta(meta, args) => self.others.push((*meta, args.clone())),
            Pattern::Literal(meta) | Pattern::Read(meta) => self.others.push((*meta, Vec::new())),
            Pattern::Real(a) => self.linear(a),
            Pattern::Product { binders, guard, factors } => {
                for binder in binders {
                    match binder {
                        Binder::One(i, n) => {
                            self.linear(n);
                            self.bound.push((*i, Some(n.clone())));
                        }
                        Binder::Many(list) => self.bound.push((*list, None)),
                    }
                }
                guard.iter().for_each(|p| self.pred(p));
                factors.iter().for_each(|e| self.pattern(e));
            }
            Pattern::Sum(terms) => terms.iter().for_each(|e| self.pattern(e)),
            Pattern::Apply(head, args) => {
                match head {
                    Head::Fixed(_) => {}
                    Head::Power(k) => self.integer(k),
                    Head::Meta(f) => {
                        self.arities.push((*f, args.len()));
                        self.others.push((*f, Vec::new()));
                    }
                }
                args.iter().for_each(|e| self.pattern(e));
            }
            Pattern::Element(e) => self.pattern(e),
        }
    }

    fn integer(&mut self, k: &crate::simplify::rule::Integer) {
        use crate::simplify::rule::Integer;
        match k {
            Integer::Constant(_) => {}
            Integer::Meta(meta) => self.others.push((*meta, Vec::new())),
            Integer::Add(a, b) | Integer::Mul(a, b) => {
                self.integer(a);
                self.integer(b);
            }
        }
    }

    fn linear(&mut self, a: &Linear) {
        match a {
            Linear::Constant(_) => {}
            Linear::Meta(meta) => self.others.push((*meta, Vec::new())),
            Linear::Add(a, b) => {
                self.linear(a);
                self.linear(b);
            }
            Linear::Scaled(_, a) => self.linear(a),
        }
    }

    fn pred(&mut self, p: &PredPattern) {
        match p {
            PredPattern::Meta(meta, args) => self.others.push((*meta, args.clone())),
            PredPattern::Equal(a, b)
            | PredPattern::LessEqual(a, b)
            | PredPattern::Less(a, b)
            | PredPattern::Unequal(a, b) => {
                self.linear(a);
                self.linear(b);
            }
            PredPattern::Or(ps) => ps.iter().for_each(|p| self.pred(p)),
        }
    }
}

impl Source<'_, '_, '_> {
    fn one_in(&mut self, k: u32) -> bool {
        self.rng.u32(0..k) == 0
    }

    fn size(&mut self) -> Size {
        match self.rng.u8(0..8) {
            0..4 => Affine::size(N),
            4..6 => Affine::size(M),
            6 => Affine::size(N).add_constant(-1).unwrap(),
            _ => Affine::constant(self.rng.i64(0..4)),
        }
    }

    /// Up to two indices.
    pub(super) fn scope(&mut self) -> Scope {
        (0..self.rng.usize(1..3)).map(|_| (self.graph.fresh(), self.size())).collect()
    }

    fn affine(&mut self, scope: &Scope) -> Affine {
        let leaf = |source: &mut Self| match (source.rng.u8(0..8), source.rng.choice(scope)) {
            (0..5, Some((i, _))) => Affine::index(*i),
            (5, _) => source.size(),
            (6, _) => Affine::size(M),
            _ => Affine::constant(source.rng.i64(-1..4)),
        };
        let a = leaf(self);
        match self.rng.u8(0..6) {
            0 => a.add_constant(self.rng.i64(-2..3)).unwrap(),
            1 => a.add(&leaf(self)).unwrap(),
            2 => leaf(self).sub(&a).unwrap(),
            3 => a.scale(2).unwrap(),
            _ => a,
        }
    }

    /// An index expression that is mostly in range.
    fn place(&mut self, scope: &Scope, n: &Size) -> Affine {
        let fits: Vec<IndexId> = scope.iter().filter(|(_, m)| m == n).map(|(i, _)| *i).collect();
        match (self.rng.choice(&fits), self.rng.u8(0..12)) {
            (Some(i), 0) if *n == Affine::size(N) => {
                Affine::var(Var::Apply(Box::new(Application { map: G, args: vec![Affine::index(*i)] })))
            }
            (Some(i), 1) => Affine::index(*i).add_constant(self.rng.i64(-1..2)).unwrap(),
            (Some(i), _) => Affine::index(*i),
            (None, 0..4) => self.affine(scope),
            (None, _) => match self.rng.choice(scope) {
                Some((i, _)) => Affine::index(*i),
                None => Affine::constant(self.rng.i64(0..2)),
            },
        }
    }

    fn atom(&mut self, scope: &Scope) -> Pred {
        let (a, b) = (self.affine(scope), self.affine(scope));
        let relation = |source: &mut Self, r: RelationRef, m: Size| {
            let n = Affine::size(N);
            Pred::relation(r, vec![source.place(scope, &n), source.place(scope, &m)])
        };
        match self.rng.u8(0..12) {
            0..3 => Pred::lt(&a, &b).unwrap(),
            3..5 => Pred::le(&a, &b).unwrap(),
            5..7 => Pred::equal(&a, &b).unwrap(),
            7 => Pred::unequal(&a, &b).unwrap(),
            8 => relation(self, E, Affine::size(M)),
            9 => relation(self, S_PATTERN, Affine::size(N)),
            10 => relation(self, E, Affine::size(M)).negate().unwrap(),
            _ => Pred::le(&Affine::constant(self.rng.i64(1..3)), &self.size()).unwrap(),
        }
    }

    /// A predicate with maps whose sources may be out of range.
    pub(super) fn pred_of_maps(&mut self, scope: &Scope) -> Pred {
        let mut p = self.pred(scope);
        for _ in 0..self.rng.u8(0..3) {
            let source = self.affine(scope);
            let target = Affine::var(Var::Apply(Box::new(Application { map: G, args: vec![source.clone()] })));
            let other = self.affine(scope);
            let atom = match self.rng.u8(0..6) {
                0 => Pred::lt(&target, &Affine::size(M)).unwrap(),
                1 => Pred::le(&Affine::constant(0), &target).unwrap(),
                2 => Pred::equal(&target, &other).unwrap(),
                3 => Pred::relation(G, vec![source, other]),
                4 => Pred::unequal(&target, &other).unwrap(),
                _ => Pred::lt(&target, &other).unwrap(),
            };
            p = if self.one_in(3) { p.or(atom) } else { p.and(atom) };
        }
        p
    }

    pub(super) fn pred(&mut self, scope: &Scope) -> Pred {
        let p = self.atom(scope);
        let p = match self.rng.u8(0..8) {
            0..2 => p.and(self.atom(scope)),
            2 => p.or(self.atom(scope)),
            3 => {
                let (i, n) = (self.graph.fresh(), self.size());
                let inner: Scope = scope.iter().cloned().chain([(i, n.clone())]).collect();
                Pred::exists(i, n, self.atom(&inner).and(p))
            }
            _ => p,
        };
        if p.applies_map() { Pred::True } else { p }
    }

    /// Bounds of one index.
    fn bounds(&mut self, i: IndexId, scope: &Scope) -> Pred {
        let outer: Scope = scope.iter().filter(|(j, _)| *j != i).cloned().collect();
        let (a, b, i) = (self.affine(&outer), self.affine(&outer), Affine::index(i));
        let (below, above) = (Pred::le(&a, &i).unwrap(), Pred::le(&i, &b).unwrap());
        match self.rng.u8(0..3) {
            0 => below,
            1 => above,
            _ => below.and(above),
        }
    }

    pub(super) fn literal(&mut self) -> f64 {
        match self.rng.u8(0..8) {
            0 => 0.0,
            1 => 1.0,
            2 => -1.0,
            3 => [2.0, 0.5, -4.0, 0.25][self.rng.usize(0..4)],
            4 => -0.0,
            5..7 => f64::from(self.rng.i32(-4..5)),
            _ => f64::from(self.rng.i32(-12..13)) / 4.0,
        }
    }

    fn input(&mut self, scope: &Scope) -> Expr {
        let (n, m) = (Affine::size(N), Affine::size(M));
        let (param, dims): (ParamId, Vec<Size>) = match self.rng.u8(0..10) {
            0 => (U, vec![m]),
            1..3 => (A, vec![n.clone(), n]),
            3 => (S, vec![n.clone(), n]),
            k => (VECTORS[usize::from(k) % 3], vec![n]),
        };
        let pattern = match (param == S, S_PATTERN) {
            (true, RelationRef::Input(r)) => Some(r),
            _ => None,
        };
        let class = self.graph.input(param, Vec::new(), dims.clone(), pattern);
        let indices: Vec<Affine> = dims.iter().map(|n| self.place(scope, n)).collect();
        let stored = pattern.is_some() && !self.one_in(8);
        let mut guard = if stored { Pred::relation(S_PATTERN, indices.clone()) } else { Pred::True };
        for (a, n) in indices.iter().zip(&dims) {
            if !scope.iter().any(|(i, m)| a.as_index() == Some(*i) && m == n) && !self.one_in(8) {
                guard = guard.and(Pred::in_range(a, n).unwrap());
            }
        }
        let guard = if guard.applies_map() && pattern.is_none() { Pred::True } else { guard };
        let read = Expr::Read(Read { class, indices: indices.into() });
        if guard.applies_map() { Expr::number(2.0) } else { Expr::product(Vec::new(), guard, vec![read]) }
    }

    /// An expression over a scope.
    pub(super) fn expr(&mut self, scope: &Scope, depth: u32) -> Expr {
        if depth == 0 {
            return match self.rng.u8(0..10) {
                0 => Expr::number(self.literal()),
                1 => Expr::index(self.affine(scope)),
                _ => self.input(scope),
            };
        }
        let e = self.expr(scope, depth - 1);
        match self.rng.u8(0..14) {
            0..2 => Expr::product(Vec::new(), Pred::True, vec![e, self.expr(scope, depth - 1)]),
            2..4 => Expr::sum(vec![e, self.expr(scope, depth - 1)]),
            4 => Expr::Apply(self.rng.choice(UNARY).unwrap().into(), [e].into()),
            // Infinite here and there.
            11 => {
                let a = self.affine(scope);
                let op = if self.rng.bool() { Op::Powi(-1) } else { Op::Ln };
                Expr::Apply(op.into(), [Expr::index(a)].into())
            }
            5 => Expr::Apply(self.rng.choice(BINARY).unwrap().into(), [e, self.expr(scope, depth - 1)].into()),
            6..8 => Expr::product(Vec::new(), self.pred(scope), vec![e]),
            8 => {
                let (i, n) = (self.graph.fresh(), self.size());
                let inner: Scope = scope.iter().cloned().chain([(i, n.clone())]).collect();
                Expr::product(vec![(i, n)], self.pred(&inner), vec![e, self.expr(&inner, 0)])
            }
            9..11 => self.graph.close(scope, &e).unwrap(),
            _ => e,
        }
    }

    /// `[S?(..)] * S[..] + y[..]` or the like, as a class.
    fn mixed(&mut self, scope: &Scope) -> Expr {
        let terms = vec![self.sparse(scope), self.expr(scope, 1)];
        self.graph.close(scope, &Expr::sum(terms)).unwrap()
    }

    fn sparse(&mut self, scope: &Scope) -> Expr {
        let n = Affine::size(N);
        let (a, b) = (self.place(scope, &n), self.place(scope, &n));
        let p = Pred::relation(S_PATTERN, vec![a, b]);
        let p = if p.applies_map() { Pred::True } else { p };
        Expr::product(Vec::new(), p, vec![self.expr(scope, 0)])
    }

    /// Random values for the metavariables of a left-hand side; nothing where its parts do not fit. Also the scope inside.
    pub(super) fn bindings(&mut self, rule: &Rule, outer: &Scope) -> Option<(Bindings, Scope)> {
        let mut wanted = Wanted::default();
        wanted.pattern(&rule.lhs);
        let mut bindings = Bindings::default().with_room(rule.metas.len());
        let mut scope = outer.clone();
        let mut bound = Vec::new();
        // Sizes come first, then the indices, then what is over them.
        for (meta, _) in &wanted.others {
            if rule.metas[*meta].1 == Kind::Size && bindings.get(*meta).is_none() {
                bindings.bind(*meta, Value::Affine(self.size()));
            }
        }
        for (meta, extent) in &wanted.bound {
            if bindings.get(*meta).is_some() {
                continue;
            }
            match extent {
                Some(extent) => {
                    let n = linear(extent, &bindings)?;
                    let i = self.graph.fresh();
                    bindings.bind(*meta, Value::Index(i));
                    bound.push(i);
                    scope.push((i, n));
                }
                None => {
                    let list: Scope = (0..self.rng.usize(0..3)).map(|_| (self.graph.fresh(), self.size())).collect();
                    bound.extend(list.iter().map(|(i, _)| *i));
                    scope.extend(list.iter().cloned());
                    bindings.bind(*meta, Value::Indices(list.into()));
                }
            }
        }
        for (meta, _) in &wanted.others {
            if rule.metas[*meta].1 == Kind::Index && bindings.get(*meta).is_none() {
                let (i, _) = self.rng.choice(outer)?;
                bindings.bind(*meta, Value::Index(*i));
                bound.push(*i);
            }
        }
        let has = |name: Name| rule.conditions.iter().any(|c| c.name == name);
        for (meta, args) in &wanted.others {
            if bindings.get(*meta).is_some() {
                continue;
            }
            let params = bindings.params(args)?;
            let visible: Scope =
                scope.iter().filter(|(i, _)| params.contains(i) || !bound.contains(i)).cloned().collect();
            let known: Vec<Pred> = (0..rule.metas.len())
                .filter_map(|k| match bindings.get(k) {
                    Some(Value::Pred(_, p)) => Some(p.clone()),
                    _ => None,
                })
                .filter(|p| !bound.iter().any(|i| p.mentions(*i) && !params.contains(i)))
                .collect();
            let value = match rule.metas[*meta].1 {
                Kind::Expr if has(Name::Scalar) && self.one_in(2) => {
                    let e =
                        if self.one_in(2) { Expr::number(self.literal()) } else { Expr::index(self.affine(&visible)) };
                    Value::Expr(params, e)
                }
                Kind::Expr if has(Name::Sparse) && self.one_in(3) => Value::Expr(params, self.sparse(&visible)),
                Kind::Expr if has(Name::Mixed) && self.one_in(2) => Value::Expr(params, self.mixed(&visible)),
                Kind::Expr => {
                    let depth = self.rng.u32(0..3);
                    // No sum has a term 0, so no metavariable of a sum stands for it.
                    let e = Some(self.expr(&visible, depth)).filter(|e| e.as_number() != Some(0.0))?;
                    let e = match self.rng.choice(&known) {
                        Some(p) if self.rng.bool() => Expr::product(Vec::new(), p.clone(), vec![e]),
                        _ if self.one_in(4) => Expr::product(Vec::new(), self.pred(&visible), vec![e]),
                        _ => e,
                    };
                    // At the top guards stay around the match.
                    let e = if is_top_factor(&rule.lhs, *meta) || has(Name::Vanishes) {
                        self.graph.close(&visible, &e).unwrap()
                    } else {
                        e
                    };
                    Value::Expr(params, e)
                }
                Kind::Pred => {
                    let p = match (self.rng.choice(&known), params.first()) {
                        (Some(p), _) if self.one_in(2) => p.negate().unwrap_or_else(|| p.clone()),
                        (_, Some(i)) if self.rng.bool() => self.bounds(*i, &visible),
                        _ => self.pred(&visible),
                    };
                    Value::Pred(params, p)
                }
                Kind::Literal => {
                    let known = (0..rule.metas.len()).find_map(|k| match bindings.get(k) {
                        Some(Value::Literal(x)) => Some(*x),
                        _ => None,
                    });
                    Value::Literal(match known {
                        Some(x) if self.one_in(3) => -x,
                        _ => self.literal(),
                    })
                }
                Kind::Function => {
                    let arity = wanted.arities.iter().find(|(f, _)| f == meta)?.1;
                    let fits: Vec<Op> = Op::all().into_iter().filter(|op| usize::from(op.arity()) == arity).collect();
                    Value::Function(Function::from(*self.rng.choice(&fits)?))
                }
                Kind::Integer => Value::Integer(self.rng.i64(-2..5)),
                Kind::Affine => Value::Affine(self.affine(&visible)),
                Kind::Size | Kind::Index | Kind::Indices => return None,
            };
            if !bindings.bind(*meta, value) {
                return None;
            }
        }
        Some((bindings, scope))
    }

    /// The expression with some of its parts as classes of their own.
    pub(super) fn closed_in_part(&mut self, scope: &Scope, e: &Expr) -> Expr {
        let part = |source: &mut Self, scope: &Scope, e: &Expr| {
            let e = source.closed_in_part(scope, e);
            if source.one_in(2) { source.graph.close(scope, &e).unwrap() } else { e }
        };
        match e {
            Expr::Number(_) | Expr::Index(_) | Expr::Read(_) => e.clone(),
            Expr::Product(product) => {
                let inner: Scope = scope.iter().chain(&product.sums).cloned().collect();
                let factors = product.factors.iter().map(|e| part(self, &inner, e)).collect();
                Expr::product(product.sums.clone(), product.guard.clone(), factors)
            }
            Expr::Sum(terms) => Expr::sum(terms.iter().map(|e| part(self, scope, e)).collect()),
            Expr::Apply(f, args) => Expr::Apply(*f, args.iter().map(|e| part(self, scope, e)).collect()),
        }
    }

    /// The expression among other factors or terms, under a guard or a sum.
    pub(super) fn in_context(&mut self, scope: &Scope, e: Expr) -> Expr {
        let other = self.expr(scope, 1);
        match self.rng.u8(0..4) {
            0 => Expr::sum(vec![e, other]),
            1 => Expr::product(Vec::new(), self.pred(scope), vec![e, other]),
            2 => {
                let (i, n) = (self.graph.fresh(), self.size());
                let inner: Scope = scope.iter().cloned().chain([(i, n.clone())]).collect();
                Expr::product(vec![(i, n)], self.pred(&inner), vec![e, self.expr(&inner, 0)])
            }
            _ => e,
        }
    }

    /// A sum of products over axes.
    fn sum_of(&mut self, axes: &Scope) -> Expr {
        let summed = (self.graph.fresh(), Affine::size(N));
        let scope: Scope = axes.iter().cloned().chain([summed.clone()]).collect();
        let factors = vec![self.expr(&scope, 0), self.expr(&scope, 0)];
        Expr::product(vec![summed], Pred::True, factors)
    }

    /// A product with elements of classes, at random places and under guards that the classes repeat: for rules about elements.
    pub(super) fn with_elements(&mut self, scope: &Scope) -> Expr {
        let p = self.pred(scope);
        let depth = self.rng.u32(1..3);
        let axes: Scope = (0..2).map(|_| (self.graph.fresh(), Affine::size(N))).collect();
        let body = match self.rng.u8(0..4) {
            0 => self.expr(&axes, depth),
            1 => self.sum_of(&axes),
            2 => Expr::Apply(self.rng.choice(UNARY).unwrap().into(), [self.expr(&axes, 1)].into()),
            _ => Expr::product(Vec::new(), self.pred(&axes), vec![self.expr(&axes, depth), self.expr(&axes, 0)]),
        };
        let mut asked = Pred::True;
        let element = if self.rng.bool() {
            let class = self.graph.close_over(&axes, &body).unwrap();
            let n = Affine::size(N);
            let i = self.place(scope, &n);
            let j = if self.rng.bool() { i.clone() } else { self.place(scope, &n) };
            if self.rng.bool() {
                asked = Pred::relation(S_PATTERN, vec![i.clone(), j.clone()]);
            }
            Expr::Read(Read { class, indices: [i, j].into() })
        } else {
            let guarded = Expr::product(Vec::new(), p.clone(), vec![self.expr(scope, depth)]);
            self.graph.close(scope, &guarded).unwrap()
        };
        let element = if self.one_in(4) { Expr::Apply(Op::Exp.into(), [element].into()) } else { element };
        let guard = if self.rng.bool() { p } else { p.and(self.pred(scope)) };
        let guard = if self.rng.bool() { asked } else { guard.and(asked) };
        match self.rng.u8(0..3) {
            0 => element,
            1 => Expr::product(Vec::new(), guard, vec![element, self.expr(scope, 0)]),
            _ => Expr::sum(vec![Expr::product(Vec::new(), guard, vec![element]), self.expr(scope, 0)]),
        }
    }
}

/// Whether a metavariable is a factor of the whole left-hand side, and no sum is there that guards could be inside of.
fn is_top_factor(lhs: &Pattern, meta: Meta) -> bool {
    match lhs {
        Pattern::Product { binders, guard, factors } => {
            binders.is_empty()
                && guard.is_empty()
                && factors.iter().any(|e| matches!(e, Pattern::Meta(other, _) if *other == meta))
        }
        _ => false,
    }
}
