//! Equality of programs up to the names of what they bind, ids and the order of the arenas.

use std::collections::{BTreeMap, BTreeSet};

use super::data::{Program, Term, TermId};
use crate::base::{Arena, Id, IndexId, VarId};
use crate::index::{Affine, Application, Checked, Pred, RelationRef, Size, Var};
use crate::scalar::{Function, Number, Primitive};
use crate::ty::{RelationKind, Storage, Type};

impl Program {
    /// Whether both are the same program up to names of `let`s and indices, ids, spans, order in the arenas and normal form.
    ///
    /// Parameters are compared by order, name, type and storage; sizes, relations and functions are matched by name, and by order
    /// where the names differ. A NaN literal equals every NaN literal. Linear in the programs, without recursion on terms.
    pub fn same(&self, other: &Program) -> bool {
        Matcher::new(self, other).is_some_and(|mut matcher| matcher.run())
    }
}

/// One of the two programs, with the common numbers of its binders.
struct Half<'a> {
    program: &'a Program,
    vars: Vec<u32>,
    indices: Vec<u32>,
    /// The common ids of sizes, relations and functions.
    sizes: Vec<u32>,
    relations: Vec<u32>,
    functions: Vec<u32>,
}

struct Matcher<'a> {
    left: Half<'a>,
    right: Half<'a>,
    bound: u32,
}

/// The place in `left` of each item of `right`: by name if the names are the same, else by order.
fn places(left: &[String], right: &[String]) -> Option<Vec<u32>> {
    if left.len() != right.len() {
        return None;
    }
    let by_name: BTreeMap<&str, u32> = left.iter().map(String::as_str).zip(0..).collect();
    let found: Option<Vec<u32>> = right.iter().map(|name| by_name.get(name.as_str()).copied()).collect();
    let found = found.filter(|found| found.iter().collect::<BTreeSet<_>>().len() == left.len());
    Some(found.unwrap_or_else(|| (0..).take(left.len()).collect()))
}

impl<'a> Matcher<'a> {
    fn new(left: &'a Program, right: &'a Program) -> Option<Self> {
        fn names<I: Id, T>(items: &Arena<I, T>, name: impl Fn(&T) -> String) -> Vec<String> {
            items.values().map(name).collect()
        }
        let (l, r) = (&left.signature, &right.signature);
        let identity = |len: usize| -> Vec<u32> { (0..).take(len).collect() };
        let function = |f: &crate::scalar::UserFunction| f.name().to_owned();
        let half = |program: &'a Program, sizes, relations, functions| Half {
            program,
            vars: identity(program.variables.len()),
            indices: vec![u32::MAX; program.indices.len()],
            sizes,
            relations,
            functions,
        };
        let sizes = places(&names(&l.sizes, String::clone), &names(&r.sizes, String::clone))?;
        // Names of patterns are made from those of their parameters.
        let relation = |r: &crate::ty::Relation| match r.kind {
            RelationKind::Pattern(p) => format!("?{}", p.0),
            RelationKind::Free | RelationKind::Map | RelationKind::Projection(..) => r.name.clone(),
        };
        let relations = places(&names(&l.relations, relation), &names(&r.relations, relation))?;
        let functions = places(&names(&l.functions, function), &names(&r.functions, function))?;
        let left_half = half(left, identity(l.sizes.len()), identity(l.relations.len()), identity(l.functions.len()));
        Some(Matcher { left: left_half, right: half(right, sizes, relations, functions), bound: u32::MAX / 2 })
    }

    fn run(&mut self) -> bool {
        self.signatures() && self.terms()
    }

    fn signatures(&self) -> bool {
        let (l, r) = (&self.left.program.signature, &self.right.program.signature);
        if l.params.len() != r.params.len() || l.assumptions.len() != r.assumptions.len() {
            return false;
        }
        let pattern = |half: &Half<'_>, storage: Storage| match storage {
            Storage::Dense => None,
            Storage::Sparse(format, r) => Some((format, half.relation(r.index()))),
        };
        let params = l
            .params
            .values()
            .zip(r.params.values())
            .all(|(a, b)| a.name == b.name && pattern(&self.left, a.storage) == pattern(&self.right, b.storage));
        let mut relations: Vec<_> = r.relations.iter().map(|(id, b)| (self.right.relation(id.index()), b)).collect();
        relations.sort_by_key(|(id, _)| *id);
        let relations = l.relations.len() == relations.len()
            && l.relations.values().zip(relations).all(|(a, (_, b))| {
                a.kind == b.kind
                    && a.shape.len() == b.shape.len()
                    && a.shape.iter().zip(&b.shape).all(|(m, n)| self.affines(m, n))
            });
        let preds = |half: &Half<'_>| -> Option<BTreeSet<Pred>> {
            half.program.signature.assumptions.iter().map(|p| half.pred(p, &mut Vec::new()).ok()).collect()
        };
        let functions = l.functions.values().zip(&self.left.functions).all(|(a, at)| {
            let at = self.right.functions.iter().position(|k| k == at);
            at.is_some_and(|at| r.functions.values().nth(at).is_some_and(|b| a == b))
        });
        params && relations && functions && self.param_types() && preds(&self.left) == preds(&self.right)
    }

    fn param_types(&self) -> bool {
        let (l, r) = (self.left.program, self.right.program);
        let params = l.signature.params.values().zip(r.signature.params.values());
        let mut stack: Vec<_> = params.map(|(a, b)| (a.ty, b.ty)).collect();
        // Types may share components, so each pair is looked at once.
        let mut seen = BTreeSet::new();
        while let Some((a, b)) = stack.pop() {
            if !seen.insert((a, b)) {
                continue;
            }
            match (l.types.get(a), r.types.get(b)) {
                (Type::Real, Type::Real) => {}
                (Type::Pair(a, c), Type::Pair(b, d)) => stack.extend([(*a, *b), (*c, *d)]),
                (Type::Tensor(m, a), Type::Tensor(n, b)) if self.affines(m, n) => stack.push((*a, *b)),
                _ => return false,
            }
        }
        true
    }

    fn terms(&mut self) -> bool {
        let mut stack = vec![(self.left.program.root, self.right.program.root)];
        while let Some((a, b)) = stack.pop() {
            let (Some(left), Some(right)) = (self.left.program.terms.get(a), self.right.program.terms.get(b)) else {
                return false;
            };
            if !self.node(left, right) {
                return false;
            }
            let mut operands: (Vec<TermId>, Vec<TermId>) = Default::default();
            left.for_each_operand(|e| operands.0.push(e));
            right.for_each_operand(|e| operands.1.push(e));
            if operands.0.len() != operands.1.len() {
                return false;
            }
            stack.extend(operands.0.into_iter().zip(operands.1));
        }
        true
    }

    /// Whether two terms agree up to their operands. Binders get their common numbers here, before their bodies are met.
    fn node(&mut self, left: &Term, right: &Term) -> bool {
        match (left, right) {
            (Term::Number(Number::Literal(x)), Term::Number(Number::Literal(y))) => {
                x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan()
            }
            (Term::Number(Number::Index(a)), Term::Number(Number::Index(b))) => self.affines(a, b),
            (Term::Var(x), Term::Var(y)) => self.left.var(*x) == self.right.var(*y),
            (Term::Add(..), Term::Add(..))
            | (Term::Mul(..), Term::Mul(..))
            | (Term::Pair(..), Term::Pair(..))
            | (Term::Fst(_), Term::Fst(_))
            | (Term::Snd(_), Term::Snd(_)) => true,
            (Term::Apply(f, _), Term::Apply(g, _)) => *f == self.right.function(*g),
            (Term::Gen { index: i, extent: m, body: _ }, Term::Gen { index: j, extent: n, body: _ })
            | (Term::Sum { index: i, extent: m, body: _ }, Term::Sum { index: j, extent: n, body: _ }) => {
                self.bound += 1;
                set(&mut self.left.indices, i.index(), self.bound);
                set(&mut self.right.indices, j.index(), self.bound);
                self.affines(m, n)
            }
            (Term::Access { array: _, index: a }, Term::Access { array: _, index: b }) => self.affines(a, b),
            (Term::Iverson { guard: p, body: _ }, Term::Iverson { guard: q, body: _ }) => {
                match (self.left.pred(p, &mut Vec::new()), self.right.pred(q, &mut Vec::new())) {
                    (Ok(p), Ok(q)) => p == q,
                    _ => false,
                }
            }
            (Term::Let { var: x, .. }, Term::Let { var: y, .. }) => {
                self.bound += 1;
                set(&mut self.left.vars, x.index(), self.bound);
                set(&mut self.right.vars, y.index(), self.bound);
                true
            }
            (Term::Call { function: f, sizes: m, args: _ }, Term::Call { function: g, sizes: n, args: _ }) => {
                f == g && m.len() == n.len() && m.iter().zip(n).all(|(m, n)| self.affines(m, n))
            }
            (
                Term::Scan { index: i, steps: m, down: a, state: x, implicit: p, .. },
                Term::Scan { index: j, steps: n, down: b, state: y, implicit: q, .. },
            ) => {
                self.bound += 2;
                set(&mut self.left.indices, i.index(), self.bound);
                set(&mut self.right.indices, j.index(), self.bound);
                set(&mut self.left.vars, x.index(), self.bound - 1);
                set(&mut self.right.vars, y.index(), self.bound - 1);
                let same = match (p, q) {
                    (Some(p), Some(q)) => self.affines(p, q),
                    _ => p.is_none() && q.is_none(),
                };
                a == b && same && self.affines(m, n)
            }
            _ => false,
        }
    }

    fn affines(&self, a: &Size, b: &Size) -> bool {
        let (a, b) = (self.left.affine(a, &[]), self.right.affine(b, &[]));
        a.is_ok() && a == b
    }
}

fn set(numbers: &mut [u32], at: usize, number: u32) {
    if let Some(place) = numbers.get_mut(at) {
        *place = number;
    }
}

impl Half<'_> {
    fn var(&self, x: VarId) -> u32 {
        self.vars.get(x.index()).copied().unwrap_or(u32::MAX)
    }

    fn relation(&self, at: usize) -> u32 {
        self.relations.get(at).copied().unwrap_or(u32::MAX)
    }

    fn function(&self, f: Function) -> Function {
        let rename = |primitive: Primitive| match primitive {
            Primitive::Op(op) => Primitive::Op(op),
            Primitive::User(f) => {
                Primitive::User(crate::base::FunctionId(self.functions.get(f.index()).copied().unwrap_or(u32::MAX)))
            }
        };
        match f {
            Function::Value(primitive) => Function::Value(rename(primitive)),
            Function::Partial(primitive, at) => Function::Partial(rename(primitive), at),
        }
    }

    fn relation_ref(&self, r: RelationRef) -> RelationRef {
        match r {
            RelationRef::Input(r) => RelationRef::Input(crate::base::RelationId(self.relation(r.index()))),
            RelationRef::Computed { var, view } => RelationRef::Computed { var: VarId(self.var(var)), view },
        }
    }

    /// Under common ids. `exists` indices are numbered by depth.
    fn affine(&self, a: &Affine, exists: &[IndexId]) -> Checked<Affine> {
        let mut result = Affine::constant(a.offset());
        for (v, k) in a.terms() {
            let v = match v {
                Var::Index(i) => Var::Index(match exists.iter().rposition(|j| i == j) {
                    Some(depth) => IndexId(depth as u32),
                    None => IndexId(self.indices.get(i.index()).copied().unwrap_or(u32::MAX)),
                }),
                Var::Size(n) => Var::Size(crate::base::SizeId(self.sizes.get(n.index()).copied().unwrap_or(u32::MAX))),
                Var::Apply(application) => Var::Apply(Box::new(Application {
                    map: self.relation_ref(application.map),
                    args: application.args.iter().map(|a| self.affine(a, exists)).collect::<Checked<_>>()?,
                })),
            };
            result = result.add(&Affine::var(v).scale(*k)?)?;
        }
        Ok(result)
    }

    fn pred(&self, p: &Pred, exists: &mut Vec<IndexId>) -> Checked<Pred> {
        Ok(match p {
            Pred::True => Pred::True,
            Pred::False => Pred::False,
            Pred::NonNegative(a) => Pred::non_negative(self.affine(a, exists)?),
            Pred::Zero(a) => Pred::zero(self.affine(a, exists)?),
            Pred::NonZero(a) => Pred::non_zero(self.affine(a, exists)?),
            Pred::Relation { relation, args, holds } => Pred::Relation {
                relation: self.relation_ref(*relation),
                args: args.iter().map(|a| self.affine(a, exists)).collect::<Checked<_>>()?,
                holds: *holds,
            },
            Pred::All(ps) => Pred::all(ps.iter().map(|p| self.pred(p, exists)).collect::<Checked<Vec<_>>>()?),
            Pred::Any(ps) => Pred::any(ps.iter().map(|p| self.pred(p, exists)).collect::<Checked<Vec<_>>>()?),
            Pred::Exists { index, extent, body } => {
                let number = IndexId(exists.len() as u32);
                let extent = self.affine(extent, exists)?;
                exists.push(*index);
                let body = self.pred(body, exists);
                exists.pop();
                Pred::exists(number, extent, body?)
            }
        })
    }
}
