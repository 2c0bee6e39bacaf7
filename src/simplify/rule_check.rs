//! What a rule must be beyond its syntax.
//!
//! A left-hand side has only what [`matching`](super::matching) can match, since anything else would be a rule that silently never fires.
//! A right-hand side mentions an index only where it is bound, and applies each metavariable to as many arguments as the left one does.

use super::rule::{Arg, Binder, Head, Integer, Kind, Linear, Meta, Pattern, PredPattern};

/// The side of a rule that is wrong, and why.
pub(super) enum Wrong {
    Left(String),
    Right(String),
}

/// Checks both sides.
pub(super) fn check(metas: &[(String, Kind)], lhs: &Pattern, rhs: &Pattern) -> Result<(), Wrong> {
    let mut sides = Sides { metas, left: true, free: Vec::new(), arities: vec![None; metas.len()] };
    if matches!(lhs, Pattern::Meta(..) | Pattern::Literal(_) | Pattern::Number(_)) {
        return Err(Wrong::Left("a left-hand side is more than a metavariable or a number".to_owned()));
    }
    sides.collect_free(lhs);
    sides.pattern(lhs, &mut Vec::new()).map_err(Wrong::Left)?;
    sides.left = false;
    sides.pattern(rhs, &mut Vec::new()).map_err(Wrong::Right)
}

struct Sides<'m> {
    metas: &'m [(String, Kind)],
    left: bool,
    /// The indices of equations, which stand for indices from outside.
    free: Vec<Meta>,
    /// How many arguments a metavariable was applied to.
    arities: Vec<Option<usize>>,
}

type Verdict = Result<(), String>;

fn refuse(message: &str) -> Verdict {
    Err(message.to_owned())
}

impl Sides<'_> {
    fn name(&self, meta: Meta) -> &str {
        self.metas.get(meta).map_or("?", |(name, _)| name)
    }

    fn is_kind(&self, a: &Linear, kind: Kind) -> bool {
        matches!(a, Linear::Meta(meta) if self.metas.get(*meta).is_some_and(|(_, k)| *k == kind))
    }

    fn collect_free(&mut self, pattern: &Pattern) {
        match pattern {
            Pattern::Meta(..) | Pattern::Number(_) | Pattern::Literal(_) | Pattern::Real(_) | Pattern::Read(_) => {}
            Pattern::Product { binders, guard, factors } => {
                for p in guard {
                    if let PredPattern::Equal(Linear::Meta(i), _) = p
                        && !binders.iter().any(|b| matches!(b, Binder::One(j, _) if i == j))
                    {
                        self.free.push(*i);
                    }
                }
                factors.iter().for_each(|e| self.collect_free(e));
            }
            Pattern::Sum(es) | Pattern::Apply(_, es) => es.iter().for_each(|e| self.collect_free(e)),
            Pattern::Element(e) => self.collect_free(e),
        }
    }

    fn pattern(&mut self, pattern: &Pattern, bound: &mut Vec<Meta>) -> Verdict {
        match pattern {
            Pattern::Number(_) | Pattern::Literal(_) => Ok(()),
            Pattern::Read(_) if !self.left => refuse("`read` stands on left-hand sides only"),
            Pattern::Read(_) => Ok(()),
            Pattern::Meta(meta, args) => self.applied(*meta, args, bound),
            Pattern::Real(a) if self.left && !matches!(a, Linear::Meta(_)) => {
                refuse("a left-hand side has `real` of one name only")
            }
            Pattern::Real(a) => self.linear(a, bound),
            Pattern::Product { binders, guard, factors } => {
                let outside = bound.len();
                for binder in binders {
                    match binder {
                        Binder::One(i, n) => {
                            self.linear(n, bound)?;
                            bound.push(*i);
                        }
                        Binder::Many(list) => bound.push(*list),
                    }
                }
                guard.iter().try_for_each(|p| self.pred(p, bound))?;
                factors.iter().try_for_each(|e| self.pattern(e, bound))?;
                bound.truncate(outside);
                Ok(())
            }
            Pattern::Sum(es) => es.iter().try_for_each(|e| self.pattern(e, bound)),
            Pattern::Apply(head, es) => {
                if let (true, Head::Power(Integer::Add(..) | Integer::Mul(..))) = (self.left, head) {
                    return refuse("a left-hand side has exponents of one name or number only");
                }
                es.iter().try_for_each(|e| self.pattern(e, bound))
            }
            Pattern::Element(e) => {
                if self.left && matches!(**e, Pattern::Element(_) | Pattern::Read(_)) {
                    return refuse("a left-hand side has no `element` or `read` directly inside `element`");
                }
                self.pattern(e, bound)
            }
        }
    }

    fn pred(&mut self, p: &PredPattern, bound: &[Meta]) -> Verdict {
        match p {
            PredPattern::Meta(meta, args) => self.applied(*meta, args, bound),
            PredPattern::Or(_) if self.left => refuse("a left-hand side has no `or`"),
            PredPattern::Or(ps) => ps.iter().try_for_each(|p| self.pred(p, bound)),
            PredPattern::Equal(a, b)
                if self.left && !(self.is_kind(a, Kind::Index) && self.is_kind(b, Kind::Affine)) =>
            {
                refuse("of comparisons a left-hand side has `i = s` only")
            }
            PredPattern::LessEqual(..) | PredPattern::Less(..) | PredPattern::Unequal(..) if self.left => {
                refuse("of comparisons a left-hand side has `i = s` only")
            }
            PredPattern::Equal(a, b)
            | PredPattern::LessEqual(a, b)
            | PredPattern::Less(a, b)
            | PredPattern::Unequal(a, b) => {
                self.linear(a, bound)?;
                self.linear(b, bound)
            }
        }
    }

    fn applied(&mut self, meta: Meta, args: &[Arg], bound: &[Meta]) -> Verdict {
        for arg in args {
            match arg {
                Arg::Indices(list) => self.index(*list, bound)?,
                Arg::Linear(a) if self.left && !self.is_kind(a, Kind::Index) => {
                    return Err(format!("a left-hand side applies `{}` to indices only", self.name(meta)));
                }
                Arg::Linear(a) => self.linear(a, bound)?,
            }
        }
        match self.arities.get_mut(meta) {
            Some(known @ None) if self.left => *known = Some(args.len()),
            Some(Some(known)) if *known != args.len() => {
                let (known, found) = (*known, args.len());
                return Err(format!("`{}` is applied to {known} on the left and {found} here", self.name(meta)));
            }
            _ => {}
        }
        Ok(())
    }

    fn linear(&self, a: &Linear, bound: &[Meta]) -> Verdict {
        match a {
            Linear::Constant(_) => Ok(()),
            Linear::Meta(meta) => match self.metas.get(*meta) {
                Some((_, Kind::Index)) => self.index(*meta, bound),
                _ => Ok(()),
            },
            Linear::Add(a, b) => {
                self.linear(a, bound)?;
                self.linear(b, bound)
            }
            Linear::Scaled(_, a) => self.linear(a, bound),
        }
    }

    fn index(&self, meta: Meta, bound: &[Meta]) -> Verdict {
        if bound.contains(&meta) || self.free.contains(&meta) {
            return Ok(());
        }
        Err(format!("nothing binds `{}` here", self.name(meta)))
    }
}
