//! Random programs in unary form, with values for their parameters.

use super::build::Builder;
use super::data::{Atom, End, Program, Type, Var};
use crate::error::Result;
use crate::scalar::Op;

/// What programs consist of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grammar {
    /// How deep operations on arrays nest, at most.
    pub nesting: usize,
    /// Whether there are functions beside `+` and `*`.
    pub functions: bool,
    /// Whether there are tuples, matrices, scans and shifts beside `map`, `map2` and `reduce` of real numbers.
    pub all: bool,
    /// The number of operations of a block.
    pub size: usize,
}

/// A program, and the lengths of the arrays among its parameters; 0 for numbers.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub program: Program,
    pub n: u64,
}

/// A value in scope.
#[derive(Clone, Debug)]
enum Item {
    Real(Atom),
    /// An array of real numbers, of a length.
    Array(Atom, u64),
    /// An array of pairs of real numbers.
    Pairs(Atom, u64),
    /// An array of arrays of real numbers, with both lengths.
    Matrix(Atom, u64, u64),
    /// A pair of a real number and an array.
    Pair(Atom, u64),
}

pub(super) fn sample(rng: &mut fastrand::Rng, grammar: Grammar, n: u64) -> Result<Sample> {
    let mut b = Builder::new();
    let array = Type::array(Type::Real);
    let mut scope = Vec::new();
    for k in 0..rng.usize(1..4) {
        scope.push(Item::Real(b.param(&format!("x{}", k + 1), Type::Real).into()));
    }
    for name in ["A", "B"] {
        if grammar.nesting > 0 {
            scope.push(Item::Array(b.param(name, array.clone()).into(), n));
        }
    }
    if grammar.all && grammar.nesting > 0 {
        scope.push(Item::Pairs(b.param("P", Type::array(Type::tuple([Type::Real, Type::Real]))).into(), n));
        scope.push(Item::Matrix(b.param("M", Type::array(array.clone())).into(), n, n));
        scope.push(Item::Pair(b.param("q", Type::tuple([Type::Real, array])).into(), n));
    }
    let mut random = Random { rng, grammar, n };
    let result = random.block(&mut b, scope, grammar.nesting)?;
    Ok(Sample { program: b.finish(result)?, n })
}

struct Random<'a> {
    rng: &'a mut fastrand::Rng,
    grammar: Grammar,
    n: u64,
}

impl Random<'_> {
    fn one<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        self.rng.choice(of).cloned()
    }

    fn real(&mut self, scope: &[Item]) -> Atom {
        if self.rng.u8(0..12) == 0 {
            return Atom::Number(f64::from(self.rng.i8(-2..4)));
        }
        // Later values are read more often, so that few are dead.
        let reals: Vec<Atom> =
            scope.iter().filter_map(|item| if let Item::Real(a) = item { Some(*a) } else { None }).collect();
        let last = reals.len().saturating_sub(3);
        let recent = self.rng.bool();
        self.one(if recent { &reals[last..] } else { &reals }).unwrap_or(Atom::Number(1.0))
    }

    fn arrays(&self, scope: &[Item]) -> Vec<(Atom, u64)> {
        scope.iter().filter_map(|item| if let Item::Array(a, n) = item { Some((*a, *n)) } else { None }).collect()
    }

    fn array(&mut self, scope: &[Item]) -> Option<(Atom, u64)> {
        let arrays = self.arrays(scope);
        let last = arrays.len().saturating_sub(3);
        let recent = self.rng.bool();
        self.one(if recent { &arrays[last..] } else { &arrays })
    }

    /// A block whose result is a real number.
    fn block(&mut self, b: &mut Builder, mut scope: Vec<Item>, nesting: usize) -> Result<Atom> {
        for _ in 0..self.rng.usize(0..=self.grammar.size) {
            if let Some(item) = self.operation(b, &scope, nesting)? {
                scope.push(item);
            }
        }
        // What arrays there are is summed up now and then.
        if nesting > 0
            && self.rng.u8(0..4) != 0
            && let Some(item) = self.reduce(b, &scope, nesting)?
        {
            scope.push(item);
        }
        let (x, y) = (self.real(&scope), self.real(&scope));
        match self.rng.u8(0..7) {
            // A value that may be there before: a parameter, or what is around a body.
            0 => Ok(x),
            1..=3 => b.mul(x, y),
            _ => b.add(x, y),
        }
    }

    fn operation(&mut self, b: &mut Builder, scope: &[Item], nesting: usize) -> Result<Option<Item>> {
        let kinds = match (nesting > 0, self.grammar.all) {
            (false, _) => 5,
            (true, false) => 8,
            (true, true) => 16,
        };
        let (x, y) = (self.real(scope), self.real(scope));
        Ok(match self.rng.u8(0..kinds) {
            0 | 1 => Some(Item::Real(b.mul(x, y)?)),
            2 | 3 => Some(Item::Real(b.add(x, y)?)),
            4 if self.grammar.functions => {
                let op = self.one(&[Op::Sin, Op::Cos, Op::Tanh, Op::Atan, Op::Sigmoid]).unwrap_or(Op::Sin);
                Some(Item::Real(b.op(op, &[x])?))
            }
            4 => Some(Item::Real(b.mul(x, x)?)),
            5 | 6 => self.map(b, scope, nesting)?,
            7 => self.reduce(b, scope, nesting)?,
            _ => self.other(b, scope, nesting)?,
        })
    }

    fn inner(&mut self, b: &mut Builder, scope: &[Item], vars: &[Item], nesting: usize) -> Result<Atom> {
        let mut inner: Vec<Item> = Vec::new();
        // Bodies read what is around them, but not too often.
        if self.rng.bool() {
            inner.extend(scope.iter().filter(|_| self.rng.u8(0..3) == 0).cloned());
        }
        inner.extend(vars.iter().cloned());
        self.block(b, inner, nesting - 1)
    }

    fn map(&mut self, b: &mut Builder, scope: &[Item], nesting: usize) -> Result<Option<Item>> {
        let Some((first, n)) = self.array(scope) else { return Ok(None) };
        let alike: Vec<Atom> = self.arrays(scope).into_iter().filter(|(_, m)| *m == n).map(|(a, _)| a).collect();
        let mut arrays = vec![first];
        if self.rng.bool() {
            arrays.extend(self.one(&alike));
        }
        let scope = scope.to_vec();
        let map = b.map(&arrays, |b, params| {
            let items: Vec<Item> = params.iter().map(|x| Item::Real((*x).into())).collect();
            self.inner(b, &scope, &items, nesting)
        })?;
        Ok(Some(Item::Array(map, n)))
    }

    fn reduce(&mut self, b: &mut Builder, scope: &[Item], nesting: usize) -> Result<Option<Item>> {
        let Some((array, _)) = self.array(scope) else { return Ok(None) };
        let kind = self.rng.u8(0..4);
        let init = match kind {
            0 => Atom::Number(0.0),
            1 => Atom::Number(1.0),
            _ => self.real(scope),
        };
        let scope = scope.to_vec();
        let reduce = b.reduce(init, array, |b, x, y| match kind {
            0 => b.add(x, y),
            1 => b.mul(x, y),
            _ => self.inner(b, &scope, &[Item::Real(x.into()), Item::Real(y.into())], nesting),
        })?;
        Ok(Some(Item::Real(reduce)))
    }

    /// Tuples, matrices, scans and shifts.
    fn other(&mut self, b: &mut Builder, scope: &[Item], nesting: usize) -> Result<Option<Item>> {
        match self.rng.u8(0..7) {
            0 => self.scan(b, scope, nesting),
            1 => {
                let arrays: Vec<(Atom, u64)> = self.arrays(scope).into_iter().filter(|(_, n)| *n > 0).collect();
                let Some((array, n)) = self.one(&arrays) else { return Ok(None) };
                let end = if self.rng.bool() { End::First } else { End::Last };
                Ok(Some(Item::Array(b.drop(end, array)?, n - 1)))
            }
            2 => self.pairs(b, scope, nesting),
            3 => self.matrix(b, scope, nesting),
            4 => {
                let x = self.real(scope);
                let Some((array, n)) = self.array(scope) else { return Ok(None) };
                Ok(Some(Item::Pair(b.tuple(&[x, array])?, n)))
            }
            5 => {
                let pairs: Vec<(Atom, u64)> = scope
                    .iter()
                    .filter_map(|item| if let Item::Pair(a, n) = item { Some((*a, *n)) } else { None })
                    .collect();
                let Some((pair, n)) = self.one(&pairs) else { return Ok(None) };
                let k = self.rng.usize(0..2);
                let part = b.part(pair, k)?;
                Ok(Some(if k == 0 { Item::Real(part) } else { Item::Array(part, n) }))
            }
            _ => {
                let arrays = self.arrays(scope);
                let Some((x, n)) = self.one(&arrays) else { return Ok(None) };
                let alike: Vec<Atom> = arrays.into_iter().filter(|(_, m)| *m == n).map(|(a, _)| a).collect();
                let Some(y) = self.one(&alike) else { return Ok(None) };
                Ok(Some(Item::Array(b.add(x, y)?, n)))
            }
        }
    }

    fn scan(&mut self, b: &mut Builder, scope: &[Item], nesting: usize) -> Result<Option<Item>> {
        let Some((array, n)) = self.array(scope) else { return Ok(None) };
        if n > self.n + 3 {
            return Ok(None);
        }
        let init = self.real(scope);
        let from = if self.rng.bool() { End::First } else { End::Last };
        let scope = scope.to_vec();
        let scan = b.scan(from, init, array, |b, x, y| {
            self.inner(b, &scope, &[Item::Real(x.into()), Item::Real(y.into())], nesting)
        })?;
        Ok(Some(Item::Array(scan, n + 1)))
    }

    fn pairs(&mut self, b: &mut Builder, scope: &[Item], nesting: usize) -> Result<Option<Item>> {
        let pairs: Vec<(Atom, u64)> =
            scope.iter().filter_map(|item| if let Item::Pairs(a, n) = item { Some((*a, *n)) } else { None }).collect();
        let Some((array, n)) = self.one(&pairs) else { return Ok(None) };
        let scope = scope.to_vec();
        let answer_pairs = self.rng.bool();
        let map = b.map(&[array], |b, params| {
            let (x, y) = (b.part(params[0], 0)?, b.part(params[0], 1)?);
            let r = self.inner(b, &scope, &[Item::Real(x), Item::Real(y)], nesting)?;
            if answer_pairs { b.tuple(&[r, x]) } else { Ok(r) }
        })?;
        Ok(Some(if answer_pairs { Item::Pairs(map, n) } else { Item::Array(map, n) }))
    }

    /// Sums of rows, maps of rows, sums of all rows.
    fn matrix(&mut self, b: &mut Builder, scope: &[Item], nesting: usize) -> Result<Option<Item>> {
        let matrices: Vec<(Atom, u64, u64)> = scope
            .iter()
            .filter_map(|item| if let Item::Matrix(a, n, m) = item { Some((*a, *n, *m)) } else { None })
            .collect();
        let Some((matrix, n, m)) = self.one(&matrices) else { return Ok(None) };
        let scope = scope.to_vec();
        if nesting >= 2 && self.rng.bool() {
            let map = b.map(&[matrix], |b, params| {
                b.map(&[params[0].into()], |b, x| self.inner(b, &scope, &[Item::Real(x[0].into())], nesting - 1))
            })?;
            return Ok(Some(Item::Matrix(map, n, m)));
        }
        if self.rng.bool() {
            let Some((start, _)) = self.arrays(&scope).into_iter().find(|(_, length)| *length == m) else {
                return Ok(None);
            };
            let sum = b.reduce(start, matrix, |b, x: Var, y: Var| b.add(x, y))?;
            return Ok(Some(Item::Array(sum, m)));
        }
        let map = b.map(&[matrix], |b, params| self.inner(b, &scope, &[Item::Array(params[0].into(), m)], nesting))?;
        Ok(Some(Item::Array(map, n)))
    }
}
