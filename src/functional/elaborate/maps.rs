//! Loops over indices as operations on whole arrays, where that can be: what the source language of continuations has.
//!
//! ```text
//! build n (i. e[x ! (i + k), ..])       =  map (a, ..) in (drop x, ..). e[a, ..]
//! fold t < n, s = e0. e[x ! (t + k)]    =  reduce (s, a. e[a]) e0 (drop x)
//! ```
//!
//! where `drop x` is `x` without its first `k` elements and without those from `k + n` on. It can be where the length of `x` is known, `x` does not
//! depend on what the body binds, and the index is nowhere else. Inner loops come first: what they map over is an element of what outer ones do. Other
//! loops stay.

use rustc_hash::{FxHashMap, FxHashSet};

use super::PASS;
use crate::base::{Id, VarId};
use crate::error::{Error, Result};
use crate::functional::lambda::{Builder, Context, Prim, Program, Term, TermId};

/// How many elements an end of an array may lose; each takes an operation.
const MOST_DROPS: usize = 64;

/// The same program with maps and reductions in the place of loops over indices, for parameters whose leading axes have these lengths.
///
/// # Errors
/// [`Error::Bug`] for a program that is not verified.
pub fn use_maps(program: &Program, shapes: &[Vec<usize>]) -> Result<Program> {
    let mut b = Builder::like(&program.context);
    b.context.vars = program.vars.clone();
    program.params.iter().for_each(|x| b.push_param(*x));
    let mut pass = Maps {
        b,
        parents: Vec::new(),
        uses: FxHashMap::default(),
        shapes: FxHashMap::default(),
        lengths: FxHashMap::default(),
    };
    pass.shapes.extend(program.params.iter().copied().zip(shapes.iter().cloned()));
    // Users first, so that variables around a term have their shapes.
    for (_, term) in program.terms.iter().rev() {
        match term {
            Term::Let(x, value, _) | Term::Fold { state: x, init: value, .. } => {
                let shape = pass.shape(program, *value);
                pass.shapes.insert(*x, shape);
            }
            _ => {}
        }
    }
    let mut new: Vec<TermId> = Vec::with_capacity(program.terms.len());
    for (_, term) in program.terms.iter() {
        let term = term.rename(|e| new[e.index()], |x| x);
        new.push(pass.term(term)?);
    }
    let body = new.get(program.body.index()).copied();
    pass.b.finish(body.ok_or_else(|| Error::bug(PASS, "a program without terms"))?)
}

/// Where an index is used: the term `x ! (i + k)`, `x`, and `k`.
struct Use {
    access: TermId,
    array: TermId,
    offset: usize,
}

struct Maps {
    b: Builder,
    parents: Vec<Option<TermId>>,
    /// The terms that are a variable.
    uses: FxHashMap<VarId, Vec<TermId>>,
    /// The known lengths of the leading axes of variables.
    shapes: FxHashMap<VarId, Vec<usize>>,
    /// The lengths of maps.
    lengths: FxHashMap<TermId, usize>,
}

impl Maps {
    fn push(&mut self, term: Term) -> Result<TermId> {
        if let Term::Var(x) = term {
            self.uses.entry(x).or_default().push(TermId::from_index(self.parents.len()));
        }
        let operands = term.operands();
        let e = self.b.push(term)?;
        self.parents.push(None);
        for operand in operands {
            self.parents[operand.index()] = Some(e);
        }
        Ok(e)
    }

    fn term(&mut self, term: Term) -> Result<TermId> {
        match term {
            Term::Build(n, i, body) => {
                if let (Some(n), Some(uses)) = (self.literal(n), self.uses_of(&[i], body))
                    && let Some(arrays) = self.arrays(&uses, n)?
                {
                    let mut args = Vec::new();
                    let mut known: FxHashMap<(VarId, usize), VarId> = FxHashMap::default();
                    for (site, array) in uses.iter().zip(arrays) {
                        let key = match self.b.context.terms[site.array] {
                            Term::Var(x) => Some((x, site.offset)),
                            _ => None,
                        };
                        let a = match key.and_then(|key| known.get(&key)) {
                            Some(a) => *a,
                            None => {
                                let a = self.element(site);
                                args.push((a, array));
                                if let Some(key) = key {
                                    known.insert(key, a);
                                }
                                a
                            }
                        };
                        self.replace(site.access, a);
                    }
                    let map = self.push(Term::Map(args, body))?;
                    self.lengths.insert(map, n);
                    return Ok(map);
                }
                self.push(term)
            }
            Term::Fold { count, index, state, init, body } => {
                if let (Some(n), Some(uses)) = (self.literal(count), self.uses_of(&[index, state], body))
                    && let [site] = &uses[..]
                    && let Some(mut arrays) = self.arrays(&uses, n)?
                    && let Some(array) = arrays.pop()
                {
                    let a = self.element(site);
                    self.replace(site.access, a);
                    return self.push(Term::Reduce { vars: (state, a), body, init: Some(init), array });
                }
                self.push(term)
            }
            term => self.push(term),
        }
    }

    fn literal(&self, n: TermId) -> Option<usize> {
        match self.b.context.terms[n] {
            Term::Int(n) => usize::try_from(n).ok(),
            _ => None,
        }
    }

    /// A variable for the elements of an array.
    fn element(&mut self, site: &Use) -> VarId {
        let ty = self.b.ty(site.access);
        let shape = self.shape(&self.b.context, site.array).get(1..).map_or_else(Vec::new, <[usize]>::to_vec);
        let a = self.b.fresh("x", ty);
        self.shapes.insert(a, shape);
        a
    }

    /// Makes a term a variable.
    fn replace(&mut self, e: TermId, x: VarId) {
        self.b.context.terms[e] = Term::Var(x);
        self.uses.entry(x).or_default().push(e);
    }

    /// Where the index of a loop, the first of the variables of its body, is used in there; nothing where one use is another.
    fn uses_of(&self, own: &[VarId], body: TermId) -> Option<Vec<Use>> {
        let uses = self.uses.get(own.first()?)?;
        let uses: Vec<Use> = uses.iter().map(|v| self.use_at(own, *v, body)).collect::<Option<_>>()?;
        (!uses.is_empty()).then_some(uses)
    }

    fn use_at(&self, own: &[VarId], v: TermId, body: TermId) -> Option<Use> {
        let terms = &self.b.context.terms;
        let parent = |e: TermId| self.parents[e.index()];
        let above = parent(v)?;
        let (index, offset) = match terms[above] {
            Term::Pair(_, k) if k != v => {
                let sum = parent(above)?;
                if !matches!(terms[sum], Term::Prim(Prim::IntAdd, _)) {
                    return None;
                }
                (sum, self.literal(k)?)
            }
            _ => (v, 0),
        };
        let access = parent(index)?;
        let Term::Index(array, at) = terms[access] else { return None };
        if at != index {
            return None;
        }
        // What the loop and its body bind around the access.
        let mut bound: FxHashSet<VarId> = own.iter().copied().collect();
        let mut e = access;
        while e != body {
            e = parent(e)?;
            // Where the body may not be evaluated, an element may be outside of its array.
            if !matches!(terms[array], Term::Var(_))
                && !matches!(terms[e], Term::Let(..) | Term::Prim(..) | Term::Pair(..))
            {
                return None;
            }
            terms[e].for_each_operand(|_, binders| bound.extend(binders.iter().copied()));
        }
        let mut todo = vec![array];
        while let Some(e) = todo.pop() {
            match &terms[e] {
                Term::Var(x) if bound.contains(x) => return None,
                term => todo.extend(term.operands()),
            }
        }
        Some(Use { access, array, offset })
    }

    /// The arrays of `n` elements that uses run over; nothing where the length of one is not known.
    fn arrays(&mut self, uses: &[Use], n: usize) -> Result<Option<Vec<TermId>>> {
        if n == 0 {
            return Ok(None);
        }
        let mut drops = Vec::new();
        for site in uses {
            let length = self.shape(&self.b.context, site.array).first().copied();
            let last = length.and_then(|length| length.checked_sub(site.offset)?.checked_sub(n));
            match last {
                Some(last) if last + site.offset <= MOST_DROPS => drops.push((site.offset, last)),
                _ => return Ok(None),
            }
        }
        let mut arrays = Vec::new();
        for (site, (first, last)) in uses.iter().zip(drops) {
            let mut array = site.array;
            for _ in 0..first {
                array = self.push(Term::Prim(Prim::DropFirst, array))?;
            }
            for _ in 0..last {
                array = self.push(Term::Prim(Prim::DropLast, array))?;
            }
            arrays.push(array);
        }
        Ok(Some(arrays))
    }

    /// The known lengths of the leading axes of a term.
    fn shape(&self, context: &Context, e: TermId) -> Vec<usize> {
        let (mut shape, mut skip, mut e) = (Vec::new(), 0, e);
        loop {
            let length = match &context.terms[e] {
                Term::Var(x) => {
                    let known = self.shapes.get(x).and_then(|known| known.get(skip..));
                    shape.extend(known.unwrap_or_default());
                    return shape;
                }
                Term::Index(a, _) => {
                    skip += 1;
                    e = *a;
                    continue;
                }
                Term::Let(_, _, body) | Term::Case(_, (_, body), _) => {
                    e = *body;
                    continue;
                }
                Term::Build(n, _, body) => match context.terms[*n] {
                    Term::Int(n) => (usize::try_from(n).ok(), *body),
                    _ => (None, *body),
                },
                Term::Map(_, body) => (self.lengths.get(&e).copied(), *body),
                _ => return shape,
            };
            match length {
                (_, body) if skip > 0 => {
                    skip -= 1;
                    e = body;
                }
                (Some(n), body) => {
                    shape.push(n);
                    e = body;
                }
                (None, _) => return shape,
            }
        }
    }
}
