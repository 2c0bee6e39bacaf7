//! Gen pushout: every right-hand side becomes `gen .. gen [p] * e` with a scalar `e` (the paper's 5.21-5.24).
//!
//! `[[e]][s]` is `e`, accessed at the indices of the stack `s`, the first axis on top:
//!
//! ```text
//! [[gen i. e]][a s]  ==  [i -> a] [[e]][s]               [[x]][a b ..]  ==  x[a, b, ..]
//! [[e[a]]][s]        ==  [[e]][a s]                      [[f(e)]][]     ==  f([[e]][])
//! [[[p] * e]][s]     ==  [p] * [[e]][s]                  [p] * [q] * e  ==  [p and q] * e
//! [[let x = e in ..]]  ==  let x = gen g. [[e]][g] in ..
//! ```
//!
//! The indices `g` are those of the `gen`s at the top of `e`, guards skipped, and fresh ones for axes without: `let y = x` becomes
//! `let y = gen i. x[i]`. Output components are right-hand sides as well.
//!
//! Each term is visited once. An access meets its `gen` before anything is built, so a substitution is a table from indices to affine
//! expressions over indices of the result, and between two scalar operations the stack is a vector of a single owner. Guards are
//! collected on the way and joined once.
//!
//! Substitution can nest map applications, `x[cam(cam(i))]`: [`Error::Limit`] over [`Affine::MAX_NESTING`], and where one expression becomes
//! larger than a program could spell.

use super::renaming::{Renaming, same_relation};
use crate::base::{IndexId, SideTable, Span};
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, Size};
use crate::scalar::Number;
use crate::term::{NormalForm, Program, Term, TermId};

const PASS: &str = "gen-pushout";

/// How many variables one index expression may mention, repetitions inside map applications counted.
const MAX_AFFINE_WEIGHT: usize = 4096;

/// Moves every `gen` to the top of its right-hand side; the program is pair-free.
///
/// # Errors
/// [`Error::Limit`] if an index expression becomes too large, [`Error::Overflow`]; [`Error::Bug`] if the program is not pair-free.
pub fn push_out_gens(program: &Program) -> Result<Program> {
    super::expect_form(PASS, program, NormalForm::PairFree)?;
    if program.form >= NormalForm::GenPushedOut {
        return Ok(program.clone());
    }
    let mut pushout = Pushout {
        source: program,
        out: program.successor(NormalForm::GenPushedOut),
        replaced: SideTable::new(program.indices.len(), None),
    };
    let (lets, body) = super::let_chain(program);
    let values = lets.iter().map(|(x, value)| Ok((*x, pushout.value(*value)?))).collect::<Result<Vec<_>>>()?;
    let mut root = pushout.output(body)?;
    for (var, value) in values.into_iter().rev() {
        root = pushout.out.push(Term::Let { var, value, body: root })?;
    }
    pushout.out.root = root;
    Ok(pushout.out)
}

/// Names of the indices that go over the axes of a variable without `gen`s.
const AXIS_NAMES: [&str; 4] = ["i", "j", "k", "l"];

enum Task {
    Build(TermId, Vec<Pred>),
    Finish(TermId, Vec<Pred>),
}

struct Pushout<'a> {
    source: &'a Program,
    out: Program,
    /// What stands for the index of a `gen` that met its access.
    replaced: SideTable<IndexId, Option<Affine>>,
}

impl Pushout<'_> {
    /// The tree of pairs over the components.
    fn output(&mut self, body: TermId) -> Result<TermId> {
        enum Shape {
            Term(TermId),
            Pair,
        }
        let mut stack = vec![Shape::Term(body)];
        let mut done = Vec::new();
        while let Some(shape) = stack.pop() {
            match shape {
                Shape::Term(e) => match &self.source.terms[e] {
                    Term::Pair(a, b) => stack.extend([Shape::Pair, Shape::Term(*b), Shape::Term(*a)]),
                    _ => done.push(self.value(e)?),
                },
                Shape::Pair => {
                    let (b, a) = (pop(&mut done)?, pop(&mut done)?);
                    done.push(self.out.push(Term::Pair(a, b))?);
                }
            }
        }
        pop(&mut done)
    }

    /// A right-hand side: `gen g. [[e]][g]`.
    fn value(&mut self, mut e: TermId) -> Result<TermId> {
        let mut gens: Vec<(IndexId, Size, Span)> = Vec::new();
        let mut guards = Vec::new();
        loop {
            match &self.source.terms[e] {
                Term::Gen { index, extent, body } => {
                    gens.push((*index, extent.clone(), self.source.spans[e]));
                    e = *body;
                }
                Term::Iverson { guard, body } => {
                    guards.push(self.guard(guard)?);
                    e = *body;
                }
                _ => break,
            }
        }
        let dims = self.source.types.real_dims(self.source.ty(e));
        let dims = dims.ok_or_else(|| Error::bug(PASS, "a pair below the output tuple"))?;
        let mut stack = Vec::with_capacity(dims.len());
        for extent in dims {
            let index = self.out.fresh_index(AXIS_NAMES[gens.len() % AXIS_NAMES.len()]);
            gens.push((index, extent, Span::default()));
            stack.push(Affine::index(index));
        }
        stack.reverse();
        let mut value = self.scalar(e, stack, guards)?;
        for (index, extent, span) in gens.into_iter().rev() {
            value = self.out.push_at(Term::Gen { index, extent, body: value }, span)?;
        }
        Ok(value)
    }

    /// `[guards] * [[e]][stack]`
    fn scalar(&mut self, e: TermId, stack: Vec<Affine>, guards: Vec<Pred>) -> Result<TermId> {
        let mut tasks = Vec::new();
        let mut done = Vec::new();
        self.descend(e, stack, guards, &mut tasks, &mut done)?;
        while let Some(task) = tasks.pop() {
            match task {
                Task::Build(e, guards) => self.descend(e, Vec::new(), guards, &mut tasks, &mut done)?,
                Task::Finish(e, guards) => {
                    let term = &self.source.terms[e];
                    let mut operands = 0;
                    term.for_each_operand(|_| operands += 1);
                    let first = done.len().checked_sub(operands);
                    let first = first.ok_or_else(|| Error::bug(PASS, "an operand is missing"))?;
                    let mut operands = done.split_off(first).into_iter();
                    // As many as the term has operands.
                    let term = term.map_operands(|operand| operands.next().unwrap_or(operand));
                    let built = self.out.push_at(term, self.source.spans[e])?;
                    done.push(self.guarded(guards, built)?);
                }
            }
        }
        pop(&mut done)
    }

    /// Goes down to the next scalar operation or variable.
    fn descend(
        &mut self,
        mut e: TermId,
        mut stack: Vec<Affine>,
        mut guards: Vec<Pred>,
        tasks: &mut Vec<Task>,
        done: &mut Vec<TermId>,
    ) -> Result<()> {
        loop {
            let term = &self.source.terms[e];
            match term {
                Term::Access { array, index } => {
                    stack.push(self.affine(index)?);
                    e = *array;
                }
                Term::Gen { index, extent: _, body } => {
                    let at = stack.pop().ok_or_else(|| Error::bug(PASS, "a `gen` where a scalar is needed"))?;
                    self.replaced.set(*index, Some(at));
                    e = *body;
                }
                Term::Iverson { guard, body } => {
                    guards.push(self.guard(guard)?);
                    e = *body;
                }
                Term::Var(_) | Term::Fst(_) | Term::Snd(_) => {
                    let var = self.projections(e)?;
                    let access = self.out.access(var, stack.into_iter().rev())?;
                    self.out.spans.set(access, self.source.spans[e]);
                    done.push(self.guarded(guards, access)?);
                    return Ok(());
                }
                _ if !stack.is_empty() => return Err(Error::bug(PASS, "a scalar is accessed")),
                Term::Number(number) => {
                    let number = match number {
                        Number::Index(a) => Number::Index(self.affine(a)?),
                        literal => literal.clone(),
                    };
                    let built = self.out.push_at(Term::Number(number), self.source.spans[e])?;
                    done.push(self.guarded(guards, built)?);
                    return Ok(());
                }
                Term::Add(..) | Term::Mul(..) | Term::Apply(..) | Term::Sum { .. } => {
                    tasks.push(Task::Finish(e, guards));
                    let first = tasks.len();
                    term.for_each_operand(|operand| tasks.push(Task::Build(operand, Vec::new())));
                    tasks[first..].reverse();
                    return Ok(());
                }
                Term::Pair(..) | Term::Let { .. } | Term::Scan { .. } | Term::Call { .. } => {
                    return Err(Error::bug(PASS, "a pair, a `let` or a `scan` below the top"));
                }
            }
        }
    }

    /// A chain of `fst` and `snd` on a parameter.
    fn projections(&mut self, mut e: TermId) -> Result<TermId> {
        let mut way = Vec::new();
        while let Term::Fst(of) | Term::Snd(of) = &self.source.terms[e] {
            way.push(e);
            e = *of;
        }
        let mut built = self.out.push_at(self.source.terms[e].clone(), self.source.spans[e])?;
        for e in way.into_iter().rev() {
            let term = self.source.terms[e].map_operands(|_| built);
            built = self.out.push_at(term, self.source.spans[e])?;
        }
        Ok(built)
    }

    fn guarded(&mut self, guards: Vec<Pred>, body: TermId) -> Result<TermId> {
        match Pred::all(guards) {
            Pred::True => Ok(body),
            guard => self.out.push(Term::Iverson { guard, body }),
        }
    }

    fn affine(&self, a: &Affine) -> Result<Affine> {
        let replaced = &self.replaced;
        let result = a.substitute(&|i| replaced[i].clone())?;
        check_size(&result)?;
        Ok(result)
    }

    fn guard(&self, p: &Pred) -> Result<Pred> {
        let replaced = &self.replaced;
        let renaming = Renaming { index: |i| replaced[i].clone(), relation: same_relation };
        let result = renaming.pred(p, &mut |i| i)?;
        let mut size = Ok(());
        result.visit_affine(&mut |a| {
            if size.is_ok() {
                size = check_size(a);
            }
        });
        size.map(|()| result)
    }
}

fn check_size(a: &Affine) -> Result<()> {
    let over = |what, limit: usize, found: usize| match found > limit {
        true => Err(Error::Limit { what, limit: limit as u64, found: found as u64 }),
        false => Ok(()),
    };
    over("nested map applications", Affine::MAX_NESTING, a.nesting())?;
    let mut weight = 0;
    a.visit(&mut |_| weight += 1);
    over("variables in one index expression", MAX_AFFINE_WEIGHT, weight)
}

fn pop(done: &mut Vec<TermId>) -> Result<TermId> {
    done.pop().ok_or_else(|| Error::bug(PASS, "an operand is missing"))
}
